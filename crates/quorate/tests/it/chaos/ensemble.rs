//! An ensemble of server processes. A proxy carries each connection from one server to another, and
//! from clients to a server, so that it can be cut.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::proxy::{Cut, Proxy};
use crate::server;

/// ZooKeeper's setting `tickTime`.
pub const TICK_MS: u64 = 500;

/// How long to wait for a server's answer to `srvr`.
const STATUS_WAIT: Duration = Duration::from_secs(2);

/// Which server the test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Quorate, built from this source.
    Ours,
    /// The real ZooKeeper.
    Real,
}

/// How many servers an ensemble whose servers change begins with. The others come as guests.
const LISTED_AT_FIRST: usize = 3;

/// The ports of one server.
#[derive(Clone, Copy)]
struct Ports {
    client: u16,
    etcd: u16,
    quorum: u16,
    election: u16,
}

struct Member {
    folder: PathBuf,
    ports: Ports,
    running: Option<Child>,
    is_paused: bool,
    /// The proxies in front of its ports for ZooKeeper clients and for etcd clients.
    clients: [Proxy; 2],
    /// For each other server, by position, the proxies for connections to its quorum port and its
    /// election port; `None` for the server itself.
    ways: Vec<Option<[Proxy; 2]>>,
}

/// All servers of the ensemble.
pub struct Ensemble {
    kind: Kind,
    /// Whether clients change the servers. The servers then have the same addresses for all, so
    /// no proxies are between them.
    changes: bool,
    folder: PathBuf,
    members: Vec<Member>,
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl Ensemble {
    /// Starts `count` servers with empty folders; a single one is a standalone server. With
    /// `changes`, clients can change them, and only the first ones are listed. `port` gives unused
    /// port numbers.
    pub fn start(
        (kind, changes): (Kind, bool),
        name: &str,
        count: usize,
        mut port: impl FnMut() -> u16,
    ) -> Ensemble {
        let folder = server::folder(name);
        let ports: Vec<Ports> = (0..count)
            .map(|_| Ports { client: port(), etcd: port(), quorum: port(), election: port() })
            .collect();
        let member = |own: usize| {
            let way = |other: usize| {
                let to = ports[other];
                (other != own && !changes)
                    .then(|| [to.quorum, to.election].map(|port| Proxy::start(loopback(port))))
            };
            Member {
                folder: folder.join(format!("{}", own + 1)),
                ports: ports[own],
                running: None,
                is_paused: false,
                clients: [ports[own].client, ports[own].etcd]
                    .map(|port| Proxy::start(loopback(port))),
                ways: (0..count).map(way).collect(),
            }
        };
        let members: Vec<Member> = (0..count).map(member).collect();
        let mut ensemble = Ensemble { kind, changes, folder, members };
        for own in 0..count {
            ensemble.configure(own);
            ensemble.restart(own);
        }
        ensemble
    }

    /// How many servers there are.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    fn configure(&self, own: usize) {
        let member = &self.members[own];
        let data = member.folder.join("data");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("myid"), format!("{}\n", own + 1)).unwrap();
        let mut config = format!(
            "tickTime={TICK_MS}\ninitLimit=20\nsyncLimit=6\ndataDir={}\nmaxClientCnxns=0\n\
             4lw.commands.whitelist=*\nadmin.enableServer=false\nsnapCount=2000\n",
            data.display(),
        );
        if self.changes {
            config += "reconfigEnabled=true\nskipACL=yes\nstandaloneEnabled=false\n\
                       quorate.levelMax=5\n";
            let listed = (0..self.count()).filter(|it| *it < LISTED_AT_FIRST || *it == own);
            listed.for_each(|it| config += &(self.line(it, "participant") + "\n"));
        } else {
            let port = member.ports.client;
            config += &format!("clientPort={port}\nclientPortAddress=127.0.0.1\n");
        }
        if self.has_etcd() {
            config += &format!("quorate.etcdAddr=127.0.0.1:{}\n", member.ports.etcd);
        }
        let is_alone = self.count() == 1;
        let is_done = is_alone || self.changes;
        for (other, ways) in member.ways.iter().enumerate().filter(|_| !is_done) {
            let [quorum, election] = match ways {
                None => [member.ports.quorum, member.ports.election],
                Some(proxies) => [0, 1].map(|way| proxies[way].address().port()),
            };
            config += &format!("server.{}=127.0.0.1:{quorum}:{election}\n", other + 1);
        }
        fs::write(member.folder.join("zoo.cfg"), config).unwrap();
    }

    fn command(&self, own: usize) -> Command {
        let folder = &self.members[own].folder;
        match self.kind {
            Kind::Ours => server::command_of(folder),
            Kind::Real => {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
                let log = File::options().create(true).append(true).open(folder.join("log"));
                let log = log.unwrap();
                let mut command = Command::new("bash");
                command
                    .arg(root.join("tests/peers/real-zk.sh"))
                    .arg(folder.join("zoo.cfg"))
                    .env("SERVER_JVMFLAGS", "-Dzookeeper.forceSync=no")
                    .env("ZK_TIER", "1")
                    .env("ZK_HEAP", "256m")
                    .env("ZK_LOGLEVEL", "INFO")
                    .stdin(Stdio::null())
                    .stdout(log.try_clone().unwrap())
                    .stderr(log);
                command
            }
        }
    }

    /// The line of a server in a list, with this role.
    pub fn line(&self, own: usize, role: &str) -> String {
        let Ports { client, quorum, election, .. } = self.members[own].ports;
        let number = own + 1;
        format!("server.{number}=127.0.0.1:{quorum}:{election}:{role};127.0.0.1:{client}")
    }

    /// The address at which a server itself listens for ZooKeeper clients.
    pub fn own_address(&self, own: usize) -> SocketAddr {
        loopback(self.members[own].ports.client)
    }

    /// Starts a server unless it runs, without waiting until it serves.
    pub fn restart(&mut self, own: usize) {
        if self.members[own].running.is_none() {
            let child = self.command(own).spawn().unwrap();
            self.members[own].running = Some(child);
        }
    }

    /// Kills a server with SIGKILL.
    pub fn kill_nine(&mut self, own: usize) {
        if let Some(mut child) = self.members[own].running.take() {
            child.kill().unwrap();
            child.wait().unwrap();
            self.members[own].is_paused = false;
        }
    }

    /// Kills a server, deletes its data but for its number, and starts it again.
    pub fn forget(&mut self, own: usize) {
        // It may run, because the end of another fault has started it.
        self.kill_nine(own);
        fs::remove_dir_all(self.members[own].folder.join("data")).unwrap();
        let _ = fs::remove_file(self.members[own].folder.join("zoo.cfg.bak"));
        self.configure(own);
        self.restart(own);
    }

    /// Whether a member may lose its data. Others must have it, and the server must be able to
    /// cope: a ZooKeeper that has lost its data still votes as if it had never had any.
    pub fn may_forget(&self) -> bool {
        self.kind == Kind::Ours && self.count() > 2 && !self.changes
    }

    /// Whether the servers also serve etcd clients.
    pub fn has_etcd(&self) -> bool {
        self.kind == Kind::Ours
    }

    /// Sends SIGSTOP or SIGCONT to a server.
    pub fn pause(&mut self, own: usize, is_paused: bool) {
        let member = &mut self.members[own];
        if let Some(child) = &member.running
            && member.is_paused != is_paused
        {
            member.is_paused = is_paused;
            let signal = if is_paused { Signal::STOP } else { Signal::CONT };
            kill_process(Pid::from_child(child), signal).unwrap();
        }
    }

    /// Fails if a server has ended without being told to.
    pub fn assert_running(&mut self) {
        for own in 0..self.count() {
            let Some(child) = &mut self.members[own].running else { continue };
            if let Some(status) = child.try_wait().unwrap() {
                panic!("server {} ended by itself, {status}\n{}", own + 1, self.log_end(own));
            }
        }
    }

    /// The end of a server's log.
    pub fn log_end(&self, own: usize) -> String {
        const BYTES: usize = 3000;
        let log = fs::read(self.members[own].folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(BYTES)..]).into_owned()
    }

    /// Fails if a server has panicked.
    pub fn assert_no_panics(&self) {
        for member in &self.members {
            let log = fs::read(member.folder.join("log")).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            assert!(!log.contains("panicked"), "{}: {log}", member.folder.display());
        }
    }

    /// The address of a server for ZooKeeper clients.
    pub fn client_address(&self, own: usize) -> SocketAddr {
        self.members[own].clients[0].address()
    }

    /// The address of a server for etcd clients.
    pub fn etcd_address(&self, own: usize) -> SocketAddr {
        self.members[own].clients[1].address()
    }

    /// Cuts the connections between a server and its clients.
    pub fn cut_clients(&self, own: usize, cut: Cut) {
        self.members[own].clients.iter().for_each(|proxy| proxy.set(cut));
    }

    /// Cuts the connections that one server opened to another.
    pub fn cut_way(&self, from: usize, to: usize, cut: Cut) {
        self.members[from].ways[to].iter().flatten().for_each(|proxy| proxy.set(cut));
    }

    /// Breaks all connections between a server and its clients.
    pub fn break_clients(&self, own: usize) {
        self.members[own].clients.iter().for_each(Proxy::break_all);
    }

    /// Breaks all connections that one server opened to another.
    pub fn break_way(&self, from: usize, to: usize) {
        self.members[from].ways[to].iter().flatten().for_each(Proxy::break_all);
    }

    /// The `Mode` that a server reports; `None` if it does not answer.
    pub fn mode(&self, own: usize) -> Option<String> {
        let mut stream = TcpStream::connect(loopback(self.members[own].ports.client)).ok()?;
        stream.set_read_timeout(Some(STATUS_WAIT)).ok()?;
        stream.write_all(b"srvr").ok()?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        text.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_string)
    }

    /// The position of a server that reports that it leads.
    pub fn leader(&self) -> Option<usize> {
        let is_up = |own: &usize| {
            let member = &self.members[*own];
            member.running.is_some() && !member.is_paused
        };
        (0..self.count()).filter(is_up).find(|own| self.mode(*own).as_deref() == Some("leader"))
    }

    /// The folder of the ensemble.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        for own in 0..self.count() {
            self.kill_nine(own);
        }
        if !std::thread::panicking() {
            // An error does not matter, because the folder is below the target folder.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
