//! The target of a benchmark: a server or the servers of one ensemble, with their version,
//! addresses and processes. Clients are spread over all addresses. A target's CPU time and memory
//! are sums over the processes that listen at its addresses.

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
    /// ZooKeeper's protocol.
    Zk,
    /// etcd v3's gRPC.
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

/// The address of a target as written on the command line: `zk://host:port[,host:port...]`, or the
/// same with `etcd://` or `etcd2://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetAddress {
    scheme: Scheme,
    servers: Vec<String>,
}

impl TargetAddress {
    /// The protocol of the target.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// How many servers the address names.
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    /// Refuses an address whose protocol is not `scheme`.
    ///
    /// # Errors
    /// The protocol is another one.
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

/// A target that has answered, and where its CPU time comes from.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name and version of the servers, for headings.
    pub name: String,
    /// The address, as the user wrote it.
    pub address: String,
    /// The addresses that clients connect to: client `i` takes address `i` modulo their number.
    pub addresses: Vec<SocketAddr>,
    /// The protocol that clients speak.
    pub scheme: Scheme,
    cpu: Cpu,
}

impl Target {
    /// Finds the servers at an address, and their processes if they are on this machine.
    ///
    /// # Errors
    /// A server does not answer.
    pub fn find(address: &TargetAddress) -> anyhow::Result<Target> {
        let mut addresses = Vec::new();
        for server in &address.servers {
            let found =
                server.to_socket_addrs().map_err(|error| anyhow::anyhow!("{server}: {error}"))?;
            // A name such as `localhost` may have two addresses; the first one that answers is
            // used.
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

    /// A target with these processes, for tests.
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

    /// A server in this process with one thread, which stores its own CPU time in `cpu_ns`.
    pub fn in_process(name: &str, at: SocketAddr, cpu_ns: Arc<AtomicU64>) -> Target {
        let (address, scheme) = (format!("zk://{at}"), Scheme::Zk);
        let (name, cpu) = (name.to_string(), Cpu::Thread(cpu_ns));
        Target { name, address, addresses: vec![at], scheme, cpu }
    }

    /// The processes of the target; `None` if the server is a thread of this process.
    pub fn processes(&self) -> Option<&Processes> {
        match &self.cpu {
            Cpu::Processes(processes) => Some(processes),
            Cpu::Thread(_) => None,
        }
    }

    /// Finds the processes again, after servers were restarted.
    pub fn find_processes(&mut self) {
        self.cpu = Cpu::Processes(Processes::listening(&self.addresses));
    }

    /// How long the servers have run and how much memory they have, as text. It says how warm they
    /// are.
    pub fn age(&self) -> String {
        let up_s = self.processes().and_then(Processes::up_s);
        let Some((up_s, memory)) = up_s.zip(self.memory()) else {
            return format!("{} not on this machine", self.name);
        };
        let mib = memory.resident as f64 / f64::from(1 << 20);
        format!("{} up for {up_s:.0} s with VmRSS {mib:.0} MiB", self.name)
    }

    /// An empty block for the figures of this target.
    pub fn block(&self) -> Block {
        let (name, address) = (self.name.clone(), self.address.clone());
        Block { name, address, ..Block::default() }
    }

    /// CPU time of all servers so far, ns; `None` if they are not on this machine.
    pub fn cpu_ns(&self) -> Option<u64> {
        match &self.cpu {
            Cpu::Processes(processes) => processes.cpu_ns(),
            Cpu::Thread(cpu_ns) => Some(cpu_ns.load(Ordering::Relaxed)),
        }
    }

    /// How often the threads of the servers have waited so far; `None` if they are not on this
    /// machine, or are a thread of this process.
    pub fn waits(&self) -> Option<Waits> {
        self.processes().and_then(Processes::waits)
    }

    /// The first server's answer to a four-letter word; `None` for the null server, which knows
    /// none.
    pub fn ask(&self, word: &str) -> Option<String> {
        self.processes()?;
        ask(self.addresses.first()?, word).ok()
    }

    /// The answers of all servers to a four-letter word; `None` if one does not answer.
    pub fn ask_all(&self, word: &str) -> Option<Vec<String>> {
        self.processes()?;
        self.addresses.iter().map(|at| ask(at, word).ok()).collect()
    }

    /// The sum over all servers of the value that `mntr` shows for `key`; `None` if a server does
    /// not show it.
    pub fn monitored(&self, key: &str) -> Option<f64> {
        let of_line = |line: &str| -> Option<f64> {
            line.strip_prefix(key)?.strip_prefix('\t')?.trim().parse().ok()
        };
        let answers = self.ask_all("mntr")?;
        answers.iter().map(|answer| answer.lines().find_map(of_line)).sum()
    }

    /// Memory of all processes; `None` if they are not on this machine, or the server is a thread
    /// of this process.
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

/// Sends a four-letter word and returns the answer.
fn ask(address: &SocketAddr, word: &str) -> std::io::Result<String> {
    let mut stream = connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(64 * 1024).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The mode that the server at an address reports: `leader`, `follower`, `standalone` and the like.
/// `None` while it serves no client.
pub fn mode_at(address: &SocketAddr) -> Option<String> {
    let srvr = ask(address, "srvr").ok()?;
    let mode = srvr.lines().find_map(|line| line.strip_prefix("Mode:"))?;
    Some(mode.trim().to_string())
}

/// The value of `key` in a server's answer to `conf`.
pub fn configured_at(address: &SocketAddr, key: &str) -> Option<String> {
    let conf = ask(address, "conf").ok()?;
    let value = conf.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(value.to_string())
}

/// Describes the servers of a target by their answers to `srvr`.
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

/// Describes the servers of a target that speaks etcd's protocol: Quorate is recognised by the name
/// of its program, any other server by the version that it reports.
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
