//! The target of a benchmark: a server, or the servers of one ensemble, and what is known about it.
//! Clients are spread over all addresses; CPU and memory are those of all processes that listen
//! there.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::measure::figures::Block;
use crate::servers::process::{Memory, Processes, Waits};
use crate::workloads::etcd::client;

/// The protocol that a target speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// ZooKeeper's.
    Zk,
    /// etcd's.
    Etcd,
    /// The HTTP API of etcd v2.
    Etcd2,
}

impl std::fmt::Display for Scheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Scheme::Zk => "zk",
            Scheme::Etcd => "etcd",
            Scheme::Etcd2 => "etcd2",
        })
    }
}

/// The address of a target, as it was written: `zk://host:port[,host:port]`, or `etcd://` or
/// `etcd2://` and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetAddress {
    scheme: Scheme,
    servers: Vec<String>,
}

impl TargetAddress {
    /// The protocol that is spoken there.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// How many servers it names.
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    /// Refuses an address of another protocol.
    ///
    /// # Errors
    /// The target speaks another protocol.
    pub fn check_scheme(&self, scheme: Scheme) -> anyhow::Result<()> {
        anyhow::ensure!(self.scheme == scheme, "{self}: the target must be {scheme}://HOST:PORT");
        Ok(())
    }
}

impl FromStr for TargetAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<TargetAddress, String> {
        let found = [Scheme::Zk, Scheme::Etcd, Scheme::Etcd2]
            .into_iter()
            .find_map(|scheme| Some((scheme, text.strip_prefix(&format!("{scheme}://"))?)));
        let Some((scheme, rest)) = found else {
            let forms = "zk://HOST:PORT[,...], etcd://HOST:PORT[,...] or etcd2://HOST:PORT[,...]";
            return Err(format!("a target is {forms}"));
        };
        let servers: Vec<String> =
            rest.trim_end_matches('/').split(',').map(str::to_string).collect();
        for server in &servers {
            let port = server.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
            if !matches!(port, Some((host, Ok(1..))) if !host.is_empty()) {
                return Err(format!("{server:?} is not HOST:PORT"));
            }
        }
        Ok(TargetAddress { scheme, servers })
    }
}

impl std::fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme, self.servers.join(","))
    }
}

#[derive(Clone, Debug)]
enum Cpu {
    Processes(Processes),
    /// A thread of this process, which stores its CPU time here, ns.
    Thread(Arc<AtomicU64>),
}

/// A server that answers, and the source of its CPU time.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name and version of the server, for headings.
    pub name: String,
    /// The address, as it was written.
    pub address: String,
    /// The addresses that clients connect to, in turn.
    pub addresses: Vec<SocketAddr>,
    /// The protocol that clients speak.
    pub scheme: Scheme,
    cpu: Cpu,
}

impl Target {
    /// Finds the servers at an address.
    ///
    /// # Errors
    /// No server answers there.
    pub fn find(address: &TargetAddress) -> anyhow::Result<Target> {
        let mut addresses = Vec::new();
        for server in &address.servers {
            let found =
                server.to_socket_addrs().map_err(|error| anyhow::anyhow!("{server}: {error}"))?;
            // `localhost` may stand for two addresses; the one that answers is taken.
            let mut answering = found.filter(|at| connect(at).is_ok());
            let one = answering.next();
            addresses.push(one.ok_or_else(|| anyhow::anyhow!("nothing answers at {server}"))?);
        }
        let processes = Processes::listening(&addresses);
        let name = match address.scheme {
            Scheme::Zk => {
                let answers = addresses.iter().map(|at| ask(at, "srvr").unwrap_or_default());
                describe_all(&answers.collect::<Vec<_>>())
            }
            Scheme::Etcd | Scheme::Etcd2 => describe_etcd(&addresses, &processes),
        };
        let (scheme, cpu) = (address.scheme, Cpu::Processes(processes));
        Ok(Target { name, address: address.to_string(), addresses, scheme, cpu })
    }

    /// Servers with these processes.
    #[cfg(test)]
    pub fn from_processes(
        name: &str,
        scheme: Scheme,
        addresses: Vec<SocketAddr>,
        processes: Processes,
    ) -> Target {
        let (name, cpu) = (name.to_string(), Cpu::Processes(processes));
        Target { name, address: String::new(), addresses, scheme, cpu }
    }

    /// A server in this process, whose one thread writes down its own CPU time.
    pub fn in_process(name: &str, at: SocketAddr, cpu_ns: Arc<AtomicU64>) -> Target {
        let (address, scheme) = (format!("zk://{at}"), Scheme::Zk);
        let (name, cpu) = (name.to_string(), Cpu::Thread(cpu_ns));
        Target { name, address, addresses: vec![at], scheme, cpu }
    }

    /// The processes of the server, unless it is a thread of this process.
    pub fn processes(&self) -> Option<&Processes> {
        match &self.cpu {
            Cpu::Processes(processes) => Some(processes),
            Cpu::Thread(_) => None,
        }
    }

    /// Looks for the processes again, after they were started again.
    pub fn find_processes(&mut self) {
        self.cpu = Cpu::Processes(Processes::listening(&self.addresses));
    }

    /// How long the server has run and how much memory it has: how warm it is, and how fresh.
    pub fn age(&self) -> String {
        let up_s = self.processes().and_then(Processes::up_s);
        let Some((up_s, memory)) = up_s.zip(self.memory()) else {
            return format!("{} not on this machine", self.name);
        };
        let mib = memory.resident as f64 / f64::from(1 << 20);
        format!("{} up for {up_s:.0} s with VmRSS {mib:.0} MiB", self.name)
    }

    /// An empty block for its figures.
    pub fn block(&self) -> Block {
        let (name, address) = (self.name.clone(), self.address.clone());
        Block { name, address, ..Block::default() }
    }

    /// CPU time of the server so far, if it is on this machine.
    pub fn cpu_ns(&self) -> Option<u64> {
        match &self.cpu {
            Cpu::Processes(processes) => processes.cpu_ns(),
            Cpu::Thread(cpu_ns) => Some(cpu_ns.load(Ordering::Relaxed)),
        }
    }

    /// The waits of the server's threads so far, if it is on this machine and no thread of ours.
    pub fn waits(&self) -> Option<Waits> {
        self.processes().and_then(Processes::waits)
    }

    /// The first server's answer to a four-letter word. The null server knows none.
    pub fn ask(&self, word: &str) -> Option<String> {
        self.processes()?;
        ask(self.addresses.first()?, word).ok()
    }

    /// The answer of each server to a four-letter word, as in [`Target::ask`].
    pub fn ask_all(&self, word: &str) -> Option<Vec<String>> {
        self.processes()?;
        self.addresses.iter().map(|at| ask(at, word).ok()).collect()
    }

    /// The sum of a figure in the answers of all servers to `mntr`, if they all give it.
    pub fn monitored(&self, key: &str) -> Option<f64> {
        let of_line = |line: &str| -> Option<f64> {
            line.strip_prefix(key)?.strip_prefix('\t')?.trim().parse().ok()
        };
        let answers = self.ask_all("mntr")?;
        answers.iter().map(|answer| answer.lines().find_map(of_line)).sum()
    }

    /// Memory of the server's processes, if they are on this machine.
    pub fn memory(&self) -> Option<Memory> {
        match &self.cpu {
            Cpu::Processes(processes) => processes.memory(),
            Cpu::Thread(_) => None,
        }
    }
}

fn connect(address: &SocketAddr) -> std::io::Result<TcpStream> {
    TcpStream::connect_timeout(address, Duration::from_secs(5))
}

/// The answer to a four-letter word.
fn ask(address: &SocketAddr, word: &str) -> std::io::Result<String> {
    let mut stream = connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(64 * 1024).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The mode that a server on one of the addresses reports: `leader`, `follower`, `standalone` and
/// the like. None while it serves no client.
pub fn mode_at(address: &SocketAddr) -> Option<String> {
    let srvr = ask(address, "srvr").ok()?;
    let mode = srvr.lines().find_map(|line| line.strip_prefix("Mode:"))?;
    Some(mode.trim().to_string())
}

/// The rest of the line in a server's answer to `conf` that begins with `key`.
pub fn configured_at(address: &SocketAddr, key: &str) -> Option<String> {
    let conf = ask(address, "conf").ok()?;
    let value = conf.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(value.to_string())
}

/// The names of several servers in one text, or of the only one.
fn describe_all(answers: &[String]) -> String {
    let [only] = answers else {
        let mut products: Vec<String> = answers.iter().map(|it| product(it)).collect();
        products.dedup();
        return format!("{}, {} servers", products.join(" and "), answers.len());
    };
    let mode = only.lines().find_map(|line| line.strip_prefix("Mode:")).map(str::trim);
    match only.contains("Zookeeper version:") {
        true => format!("{}, {}", product(only), mode.unwrap_or("mode unknown")),
        false => product(only),
    }
}

/// The name of the servers at some addresses that speak etcd's protocol: Quorate is told by its
/// program, another server by its version.
fn describe_etcd(addresses: &[SocketAddr], processes: &Processes) -> String {
    let is_quorate = processes.program().is_some_and(|program| program == "quorate");
    let version = addresses.first().and_then(|at| client::status_at(*at)).map(|it| it.version);
    let product = match version {
        _ if is_quorate => "Quorate".to_string(),
        Some(version) => format!("etcd {version}"),
        None => "a server that does not say what it is".to_string(),
    };
    match addresses.len() {
        1 => product,
        several => format!("{product}, {several} servers"),
    }
}

/// Name and version of a server, from its answer to `srvr`.
fn product(srvr: &str) -> String {
    let version = srvr.lines().find_map(|line| line.strip_prefix("Zookeeper version:"));
    let Some(version) = version.map(str::trim) else {
        return "a server that does not say what it is".to_string();
    };
    let version = version.split([',', ' ']).next().unwrap_or_default();
    let product = match srvr.contains("quorate") || version.contains("quorate") {
        true => "Quorate",
        false => "ZooKeeper",
    };
    format!("{product} {version}")
}

#[cfg(test)]
mod tests;
