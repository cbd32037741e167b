//! The servers of a ZooKeeper ensemble that a workload starts by itself and then changes by
//! `reconfig`: three that begin it, and a fourth that may join it. Each has a `zoo.cfg`, which
//! Quorate and ZooKeeper read alike.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use zk::ErrorCode;
use zk::request::{ReadKind, ReadRequest, Request};

use crate::limits::{MEMBER_CHANGE_LIMIT, MEMBER_CHANGE_PAUSE, RECONNECT_PAUSE};
use crate::measure::contest::Bout;
use crate::servers::probe::Probe;
use crate::servers::spawned::{Spawned, free_addresses};
use crate::servers::target::{Scheme, Target, TargetAddress, mode_at};
use crate::workloads::zk::caller::Caller;

/// The servers that begin the ensemble.
pub const FIRST_SERVERS: usize = 3;

/// The index of the server that may join.
pub const NEW_SERVER: usize = FIRST_SERVERS;

const ALL_SERVERS: usize = FIRST_SERVERS + 1;

/// The znode that holds the list of servers.
const CONFIG: &str = "/zookeeper/config";

/// The lines that all servers share. A client needs no right for a reconfig, and the ensemble may
/// shrink to one server.
const LINES: &str = "tickTime=2000\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\n\
                     4lw.commands.whitelist=*\n\
                     admin.enableServer=false\nreconfigEnabled=true\nstandaloneEnabled=false\n\
                     skipACL=yes\nquorate.levelMax=5\n";

/// The ports of one server, on the loopback interface.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    client: SocketAddr,
    peer: SocketAddr,
    election: SocketAddr,
}

impl Ports {
    /// The server's line in a list, with its number.
    fn line(&self, number: usize) -> String {
        let [client, peer, election] = [self.client, self.peer, self.election].map(|it| it.port());
        format!("server.{number}=127.0.0.1:{peer}:{election}:participant;127.0.0.1:{client}")
    }
}

/// The servers of one run.
pub struct OwnServers<'a> {
    bout: &'a Bout<'a>,
    ports: [Ports; ALL_SERVERS],
    running: Vec<Spawned>,
}

impl<'a> OwnServers<'a> {
    /// Starts the first servers, and waits until they serve and change their list.
    ///
    /// # Errors
    /// A server does not serve, or changes no list.
    pub fn start(bout: &'a Bout<'a>) -> anyhow::Result<OwnServers<'a>> {
        let all = free_addresses::<{ 3 * ALL_SERVERS }>()?;
        let ports = core::array::from_fn(|place| Ports {
            client: all[3 * place],
            peer: all[3 * place + 1],
            election: all[3 * place + 2],
        });
        let mut servers = OwnServers { bout, ports, running: Vec::new() };
        bout.say("starting");
        (0..FIRST_SERVERS).try_for_each(|place| servers.start_one(place, FIRST_SERVERS))?;
        for server in &mut servers.running {
            let address = server.address;
            server.wait_until("it serves", || mode_at(&address).is_some())?;
        }
        servers.wait_for_level()?;
        Ok(servers)
    }

    /// Starts the server that may join. It has itself and the others in its list.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_new(&mut self) -> anyhow::Result<()> {
        self.start_one(NEW_SERVER, ALL_SERVERS)
    }

    /// Waits until the new server answers a read. Returns the time since its start.
    ///
    /// # Errors
    /// It does not serve.
    pub fn wait_for_new(&mut self, path: &str) -> anyhow::Result<Duration> {
        let server = self.running.get_mut(NEW_SERVER).context("it was started")?;
        let (address, probe) = (server.address, Probe::Znode(path.to_string()));
        let output = self.bout.folder.join(format!("output{}", NEW_SERVER + 1));
        let first = probe.first_answer(&[address], &mut [], &output, RECONNECT_PAUSE)?;
        let took = server.at.elapsed();
        server.check()?;
        first.must_be_found(address)?;
        Ok(took)
    }

    fn start_one(&mut self, place: usize, listed: usize) -> anyhow::Result<()> {
        let (number, folder) = (place + 1, self.bout.folder);
        let data = folder.join(format!("data{number}"));
        fs::create_dir(&data)?;
        fs::write(data.join("myid"), format!("{number}\n"))?;
        let mut text = format!("dataDir={}\n{LINES}", data.display());
        for (place, ports) in self.ports[..listed].iter().enumerate() {
            writeln!(text, "{}", ports.line(place + 1))?;
        }
        // Each server has its own folder for this file: it writes the lists beside it.
        let config = folder.join(format!("config{number}"));
        fs::create_dir(&config)?;
        let config = config.join("zoo.cfg");
        fs::write(&config, text)?;
        let output = folder.join(format!("output{number}"));
        let Bout { program, interrupt, .. } = self.bout;
        let address = self.ports[place].client;
        self.running.push(program.start(&[config.into()], address, output, interrupt)?);
        Ok(())
    }

    /// Waits until the servers change their list: Quorate's raise their level first. The change
    /// removes a server that is not there.
    fn wait_for_level(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut caller = Caller::connect(self.ports[0].client)?;
        loop {
            let (error, _) = caller.call(&leaving("9"))?;
            if error == ErrorCode::OK {
                return Ok(());
            }
            let is_late = began.elapsed() > MEMBER_CHANGE_LIMIT;
            ensure!(!is_late, "reconfig is refused: {} ({})", error.name(), error.0);
            self.bout.interrupt.check()?;
            std::thread::sleep(MEMBER_CHANGE_PAUSE);
        }
    }

    /// The first servers as a target.
    ///
    /// # Errors
    /// One of them does not answer.
    pub fn target(&self) -> anyhow::Result<Target> {
        let addresses = self.ports[..FIRST_SERVERS].iter().map(|it| it.client.to_string());
        let all = addresses.collect::<Vec<_>>().join(",");
        let address = format!("{}://{all}", Scheme::Zk);
        Target::find(&address.parse::<TargetAddress>().map_err(anyhow::Error::msg)?)
    }

    /// The index of the first server that leads.
    ///
    /// # Errors
    /// None of them says that it leads.
    pub fn leader(&self) -> anyhow::Result<usize> {
        let leads = |ports: &Ports| mode_at(&ports.client).is_some_and(|mode| mode == "leader");
        let found = self.ports[..FIRST_SERVERS].iter().position(leads);
        found.context("no server says that it leads")
    }

    /// Changes the list by a session at server `at`, and returns how long that took. If the
    /// connection ends before the answer, the change is done when the list shows it.
    ///
    /// # Errors
    /// The change is refused, or does not happen.
    pub fn change(&mut self, at: usize, change: Change) -> anyhow::Result<Duration> {
        if let Change::Move(place) = change {
            let [peer, election] = free_addresses()?;
            self.ports[place] = Ports { peer, election, ..self.ports[place] };
        }
        let address = self.ports[at].client;
        let mut caller = Caller::connect(address)?;
        let joining = change.joining().map(|place| self.ports[place].line(place + 1));
        let number = change.leaving().map(|place| (place + 1).to_string());
        let request = match (&joining, &number) {
            (Some(line), _) => joining_by(line),
            (None, number) => leaving(number.as_deref().unwrap_or_default()),
        };
        let is_done = |list: &str| match &joining {
            Some(line) => list.lines().any(|it| it == line),
            None => {
                let server = format!("server.{}=", number.as_deref().unwrap_or_default());
                !list.is_empty() && !list.lines().any(|it| it.starts_with(&server))
            }
        };
        let began = Instant::now();
        match caller.call(&request) {
            Ok((ErrorCode::OK, list)) => {
                let took = began.elapsed();
                let list = String::from_utf8_lossy(&list).into_owned();
                ensure!(is_done(&list), "the new list is not the one asked for: {list}");
                return Ok(took);
            }
            Ok((error, _)) => anyhow::bail!("reconfig is refused: {} ({})", error.name(), error.0),
            Err(_) => {}
        }
        while !list_at(address).is_ok_and(|list| is_done(&list)) {
            let is_late = began.elapsed() > MEMBER_CHANGE_LIMIT;
            ensure!(!is_late, "the list does not change");
            std::thread::sleep(RECONNECT_PAUSE);
        }
        Ok(began.elapsed())
    }
}

/// A change of the list of servers, which are named by their indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A server gets other ports for servers.
    Move(usize),
    /// A server joins.
    Add(usize),
    /// A server leaves.
    Remove(usize),
}

impl Change {
    fn joining(self) -> Option<usize> {
        match self {
            Change::Move(place) | Change::Add(place) => Some(place),
            Change::Remove(_) => None,
        }
    }

    fn leaving(self) -> Option<usize> {
        match self {
            Change::Remove(place) => Some(place),
            Change::Move(_) | Change::Add(_) => None,
        }
    }
}

fn joining_by(line: &str) -> Request<'_> {
    Request::Reconfig { joining: Some(line), leaving: None, members: None, version: -1 }
}

fn leaving(number: &str) -> Request<'_> {
    Request::Reconfig { joining: None, leaving: Some(number), members: None, version: -1 }
}

/// The list of servers that a server shows.
fn list_at(address: SocketAddr) -> anyhow::Result<String> {
    let read = ReadRequest { kind: ReadKind::GetData, path: CONFIG, watch: false };
    let (error, list) = Caller::connect(address)?.call(&Request::Read(read))?;
    ensure!(error == ErrorCode::OK, "{CONFIG}: {}", error.name());
    Ok(String::from_utf8_lossy(&list).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_a_line_with_all_its_ports() {
        let [client, peer, election] =
            [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let line = Ports { client, peer, election }.line(4);
        assert_eq!(line, "server.4=127.0.0.1:2:3:participant;127.0.0.1:1");
    }
}
