//! Ensembles of real processes on one machine, started with `--local-ensemble` or with a `zoo.cfg`
//! each.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use bench::differential::wire::Connection;
use zk::request::ConnectRequest;

use crate::client::{Client, Greeted};
use crate::server::{command_at, folder, port_of_its_own, wait_until};

const TIMEOUT_MS: i32 = 10_000;

/// How far a server's ports are from its client port: the client port itself, the port for servers,
/// the election port (which is only shown), and the admin port.
const DISTANCES: [u16; 4] = [0, 707, 1_707, 2_414];

/// The ports for ensembles. They come in groups, so that no two servers of any two ensembles share
/// a port. They end below those of [`port_of_its_own`], so that a server that a test restarts finds
/// its port free.
const FIRST_PORTS: u16 = 13_000;
const GROUPS: u32 = 4;
const GROUP_PORTS: u32 = 3_100;
const GROUP_ENSEMBLES: u32 = 80;

/// The first port for an ensemble of `count` servers, all of whose ports are free. Each test gets
/// its own.
fn first_port(count: u16) -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let seed = std::process::id().wrapping_mul(61);
    loop {
        let next = seed.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let (group, place) = (next / GROUP_ENSEMBLES % GROUPS, next % GROUP_ENSEMBLES);
        // Steps of 8 leave room for seven servers.
        let offset = u16::try_from(group * GROUP_PORTS + place * 8).expect("it is small");
        let first = FIRST_PORTS + offset;
        let ports = (0..count).flat_map(|index| DISTANCES.map(|distance| first + index + distance));
        if ports.into_iter().all(is_free) {
            return first;
        }
    }
}

/// How many lines of a log are printed when a test fails.
const LOG_LINES: usize = 20;

/// A running `quorate serve --local-ensemble`. Dropping this kills the process; its servers end
/// with it.
struct LocalEnsemble {
    child: Child,
    folder: PathBuf,
    clients: Vec<SocketAddr>,
    /// The addresses of the admin servers, as `--admin` takes them.
    admin: String,
    _stdout: BufReader<ChildStdout>,
}

impl LocalEnsemble {
    fn start(name: &str, count: u16) -> LocalEnsemble {
        let folder = folder(name);
        let log = File::create(folder.join("log")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_quorate"))
            .args(["serve", "--local-ensemble", &count.to_string(), "--data-dir"])
            .arg(folder.join("data"))
            .args(["--zk-addr", &format!("127.0.0.1:{}", first_port(count))])
            .args(["--admin-addr", "127.0.0.1:0"])
            .env("JVMFLAGS", "-Dzookeeper.4lw.commands.whitelist=*")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let faces = line.trim_end().strip_prefix("quorate ready zk=");
        let Some((clients, admin)) = faces.and_then(|faces| faces.split_once(" admin=")) else {
            let _ = child.kill();
            panic!("no ready line but {line:?}\n{}", log_in(&folder));
        };
        let clients = clients.split(',').map(|address| address.parse().unwrap()).collect();
        let admin = admin.to_string();
        LocalEnsemble { child, folder, clients, admin, _stdout: stdout }
    }

    /// The process of the server with this number.
    fn pid_of(&self, number: usize) -> Pid {
        let own = self.child.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
        let config = format!("/{number}/quorate.toml");
        let is_wanted = |pid: &&str| {
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.contains(&config)
        };
        let pid = children.split_whitespace().find(is_wanted).expect("the server runs");
        Pid::from_raw(pid.parse().unwrap()).unwrap()
    }

    /// The indexes of the servers that report that they lead.
    fn leaders(&self) -> Vec<usize> {
        leaders(&self.clients)
    }

    /// Waits for a leader, and returns its index.
    fn leader(&self) -> usize {
        wait_for_leader(&self.clients, |_| true)
    }

    /// Runs `quorate cluster` with these words. Returns the output, and whether it succeeded.
    fn cluster(&self, words: &[&str]) -> (String, bool) {
        cluster(words, &self.admin)
    }

    /// Stops the process with SIGTERM. Fails unless it ends with status 0, and the servers with it.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "it ended with {status}; {}", log_in(&self.folder));
        for address in &self.clients {
            assert!(TcpStream::connect(address).is_err(), "a server goes on");
        }
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

impl Drop for LocalEnsemble {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log_in(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// The indexes of the servers that report that they lead.
fn leaders(clients: &[SocketAddr]) -> Vec<usize> {
    let leads = |address: &SocketAddr| word(*address, "srvr").contains("Mode: leader\n");
    let places = clients.iter().enumerate();
    places.filter(|(_, address)| leads(address)).map(|(place, _)| place).collect()
}

/// Opens a session at a server. Waits if the server does not serve yet, or is in an election.
pub fn open(address: SocketAddr) -> Client {
    let mut opened = None;
    wait_until("a session is given", || {
        if let Greeted::Attached(client) = Client::try_greet(address, 0, &[0; 16], 0) {
            opened = Some(*client);
        }
        opened.is_some()
    });
    opened.expect("it was given")
}

/// Runs `quorate cluster` with these words and admin servers. Returns the output, and whether it
/// succeeded.
fn cluster(words: &[&str], admin: &str) -> (String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    let output = command.arg("cluster").args(words).args(["--admin", admin]).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8(said).unwrap(), output.status.success())
}

/// Waits until exactly one server reports that it leads, and `is_wanted` holds for it. Returns its
/// index.
fn wait_for_leader(clients: &[SocketAddr], is_wanted: impl Fn(usize) -> bool) -> usize {
    let mut leader = 0;
    wait_until("one leader", || match leaders(clients)[..] {
        [place] if is_wanted(place) => {
            leader = place;
            true
        }
        _ => false,
    });
    leader
}

/// The answer to a four-letter word; empty if there is none.
pub fn word(address: SocketAddr, word: &str) -> String {
    let mut text = String::new();
    let Ok(mut socket) = TcpStream::connect(address) else { return text };
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let _ = socket.write_all(word.as_bytes()).and_then(|()| socket.read_to_string(&mut text));
    text
}

#[test]
fn a_local_ensemble_serves_and_goes_on_without_its_leader() {
    let ensemble = LocalEnsemble::start("local-ensemble", 3);
    assert_eq!(ensemble.clients.len(), 3);
    let leader = ensemble.leader();
    let follower = (leader + 1) % 3;

    let mut client = Client::open(ensemble.clients[follower], TIMEOUT_MS);
    assert_eq!(client.create("/a", b"one", 0).as_deref(), Ok("/a"));
    for address in &ensemble.clients {
        let mut client = Client::open(*address, TIMEOUT_MS);
        let config = String::from_utf8(client.get("/zookeeper/config").unwrap()).unwrap();
        let lines: Vec<&str> = config.lines().collect();
        assert_eq!((lines.len(), lines[3]), (4, "version=0"), "{config}");
        for (number, (line, client)) in (1..).zip(lines.iter().zip(&ensemble.clients)) {
            let (start, end) =
                (format!("server.{number}=127.0.0.1:"), format!(":participant;{client}"));
            assert!(line.starts_with(&start) && line.ends_with(&end), "{line}");
        }
        wait_until("what one server was told is known by all", || client.exists("/a"));
    }
    let shown = word(ensemble.clients[follower], "mntr");
    for line in
        ["zk_server_state\tfollower", "zk_peer_state\tfollowing - broadcast", "zk_quorum_size\t3"]
    {
        assert!(shown.lines().any(|it| it == line), "{line} in {shown}");
    }
    // 0 or 1 times: the server has followed since its start, or has led before.
    let synced = ["zk_cnt_follower_sync_time\t0", "zk_cnt_follower_sync_time\t1"];
    assert!(shown.lines().any(|it| synced.contains(&it)), "{shown}");
    wait_until("a follower knows how long proposals take to it", || {
        let shown = word(ensemble.clients[follower], "mntr");
        let count = shown.lines().find_map(|it| it.strip_prefix("zk_cnt_proposal_latency\t"));
        count.is_some_and(|count| count != "0")
    });
    wait_until("the leader hears both", || {
        let shown = word(ensemble.clients[leader], "mntr");
        let clients_waited = "zk_cnt_unavailable_time\t1";
        ["zk_server_state\tleader", "zk_learners\t2", "zk_synced_followers\t2", clients_waited]
            .iter()
            .all(|line| shown.lines().any(|it| it == *line))
    });
    wait_until("the leader knows how long each takes", || {
        let shown = word(ensemble.clients[leader], "mntr");
        ["quorum", "1", "2", "3"].iter().all(|whose| {
            let name = format!("zk_cnt_{whose}_ack_latency\t");
            shown.lines().any(|line| line.strip_prefix(&name).is_some_and(|count| count != "0"))
        })
    });

    kill_process(Pid::from_child(&ensemble.child), Signal::HUP).unwrap();
    wait_until("each server reads again what it can", || {
        log_in(&ensemble.folder).matches("SIGHUP: the log's filter").count() == 3
    });

    kill_process(ensemble.pid_of(leader + 1), Signal::KILL).unwrap();
    wait_for_leader(&ensemble.clients, |place| place != leader);
    let mut client = Client::open(ensemble.clients[follower], TIMEOUT_MS);
    assert_eq!(client.get("/a").unwrap(), b"one");
    assert_eq!(client.create("/b", b"two", 0).as_deref(), Ok("/b"));
    let said = format!("server {} ended with signal: 9", leader + 1);
    wait_until("it is said who has ended", || log_in(&ensemble.folder).contains(&said));
    ensemble.stop();
}

#[test]
fn leadership_goes_where_it_is_sent_and_is_handed_over_before_a_clean_stop() {
    let ensemble = LocalEnsemble::start("leadership", 3);
    wait_until("one leader, who hears both", || {
        let (shown, is_led) = ensemble.cluster(&["status"]);
        // Each server's number is known, and each was heard.
        is_led && shown.matches(" ms ago").count() == 3 && !shown.contains('?')
    });
    let leader = ensemble.leader();
    let other = (leader + 1) % 3;
    let (said, is_done) = ensemble.cluster(&["transfer", "--to", &(leader + 1).to_string()]);
    assert!(!is_done && said.contains("this server leads already"), "{said}");
    let (said, is_done) = ensemble.cluster(&["transfer", "--to", "9"]);
    assert!(!is_done && said.contains("no such server can lead"), "{said}");
    let (said, is_done) = ensemble.cluster(&["transfer", "--to", &(other + 1).to_string()]);
    assert!(is_done, "{said}");
    assert_eq!(said, format!("server {} leads\n", other + 1));
    wait_until("it leads", || ensemble.leaders() == [other]);

    let mut client = Client::open(ensemble.clients[leader], TIMEOUT_MS);
    assert_eq!(client.create("/a", b"one", 0).as_deref(), Ok("/a"));
    kill_process(ensemble.pid_of(other + 1), Signal::TERM).unwrap();
    wait_until("another leader", || ensemble.leaders().iter().any(|it| *it != other));
    let handed = format!("[{}]", other + 1);
    wait_until("it says that it has handed over", || {
        let log = log_in(&ensemble.folder);
        let mut lines = log.lines().filter(|line| line.starts_with(&handed));
        lines.any(|line| line.contains("leadership was handed over"))
    });
    // The client's connection survives the transfer.
    assert_eq!(client.create("/b", b"two", 0).as_deref(), Ok("/b"));
    wait_until("it is gone, and another leads", || {
        let (said, is_led) = ensemble.cluster(&["status"]);
        is_led && said.contains("cannot connect")
    });
    ensemble.stop();
}

/// Servers with a `zoo.cfg` each, usually three. Dropping this kills them.
pub struct Members {
    /// The folder with the folders of the servers.
    pub folder: PathBuf,
    /// The processes by index; `None` where no server runs.
    children: Vec<Option<Child>>,
    /// The servers' addresses for clients.
    pub clients: Vec<SocketAddr>,
}

impl Members {
    /// Writes the configuration of three servers, with these additional lines in each.
    pub fn prepare(name: &str, lines: &str) -> Members {
        Members::prepare_all(name, 3, lines)
    }

    /// Writes the configuration of `count` servers, with these additional lines in each.
    pub fn prepare_all(name: &str, count: u16, lines: &str) -> Members {
        let folder = folder(name);
        let first = first_port(count);
        let servers: String = (0..count)
            .map(|index| {
                let (peer, election) = (first + 707 + index, first + 1_707 + index);
                format!("server.{}=localhost:{peer}:{election}\n", index + 1)
            })
            .collect();
        let mut clients = Vec::new();
        for index in 0..count {
            let own = folder.join((index + 1).to_string());
            let (data, port) = (own.join("data"), first + index);
            fs::create_dir_all(&data).unwrap();
            fs::write(data.join("myid"), format!("{}\n", index + 1)).unwrap();
            let config = format!(
                "tickTime=2000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
                 4lw.commands.whitelist=*\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={}\n\
                 {servers}{lines}",
                data.display(),
                port + DISTANCES[3]
            );
            fs::write(own.join("zoo.cfg"), config).unwrap();
            clients.push(SocketAddr::from(([127, 0, 0, 1], port)));
        }
        Members { folder, children: clients.iter().map(|_| None).collect(), clients }
    }

    /// The lines of a server's configuration that list the servers.
    pub fn listed(&self, place: usize) -> Vec<String> {
        let config = self.folder.join((place + 1).to_string()).join("zoo.cfg");
        let text = fs::read_to_string(config).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("server."));
        lines.map(str::to_string).collect()
    }

    /// Replaces these lines. A file that the server has rewritten becomes what it was before.
    pub fn list(&self, place: usize, servers: &[String]) {
        let config = self.folder.join((place + 1).to_string()).join("zoo.cfg");
        let before = fs::read_to_string(config.with_extension("cfg.bak"));
        let text = before.unwrap_or_else(|_| fs::read_to_string(&config).unwrap());
        let others = text.lines().filter(|line| !line.starts_with("server."));
        let lines = others.chain(servers.iter().map(String::as_str));
        fs::write(&config, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }

    /// Starts the server at this index.
    pub fn start(&mut self, place: usize) {
        let own = self.folder.join((place + 1).to_string());
        let child = command_at(&own, self.clients[place]).spawn();
        self.children[place] = Some(child.unwrap());
    }

    /// The data directory of a server.
    pub fn data(&self, place: usize) -> PathBuf {
        self.folder.join((place + 1).to_string()).join("data")
    }

    /// The process id of a server.
    pub fn pid(&self, place: usize) -> Pid {
        Pid::from_child(self.children[place].as_ref().expect("it was started"))
    }

    /// The text of a server's log.
    pub fn log(&self, place: usize) -> String {
        log_in(&self.folder.join((place + 1).to_string()))
    }

    /// Prints the last lines of each log, so that the output of a failed test shows why it failed.
    fn print_ends_of_logs(&self) {
        for place in 0..self.clients.len() {
            let log = self.log(place);
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
            println!("--- server {}\n{end}", place + 1);
        }
    }

    fn logs(&self) -> String {
        (0..self.clients.len()).map(|place| self.log(place)).collect()
    }

    /// Waits for a leader, and returns its index.
    pub fn leader(&self) -> usize {
        self.leader_if(|_| true)
    }

    /// Waits for a leader for which `is_wanted` holds, and returns its index.
    pub fn leader_if(&self, is_wanted: impl Fn(usize) -> bool) -> usize {
        wait_for_leader(&self.clients, is_wanted)
    }

    /// The address of a server's admin server.
    pub fn admin(&self, place: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.clients[place].port() + DISTANCES[3]))
    }

    /// Transfers leadership to a server.
    pub fn make_leader(&self, place: usize) {
        let number = (place + 1).to_string();
        wait_until("it leads", || {
            self.cluster(&["transfer", "--to", &number]);
            leaders(&self.clients) == [place]
        });
    }

    /// Runs `quorate cluster` with these words. Returns the output, and whether it succeeded.
    pub fn cluster(&self, words: &[&str]) -> (String, bool) {
        let places = 0..self.clients.len();
        let admin: Vec<String> = places.map(|place| self.admin(place).to_string()).collect();
        cluster(words, &admin.join(","))
    }

    /// Waits until a server has ended without being told to.
    pub fn wait_for_end(&mut self, place: usize) -> ExitStatus {
        let mut ended = None;
        let child = self.children[place].as_mut().expect("it was started");
        wait_until("a server has ended", || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        });
        self.children[place] = None;
        ended.expect("it has ended")
    }

    /// Kills a server with SIGKILL, if it runs, and waits until it is gone.
    pub fn kill_nine(&mut self, place: usize) {
        if let Some(mut child) = self.children[place].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Adds a port for etcd clients to each server's configuration; to be called before the servers
    /// start.
    pub fn prepare_etcd(&self) -> [SocketAddr; 3] {
        [0, 1, 2].map(|place: usize| {
            let address = SocketAddr::from(([127, 0, 0, 1], port_of_its_own()));
            let config = self.folder.join((place + 1).to_string()).join("zoo.cfg");
            let mut text = fs::read_to_string(&config).unwrap();
            text.push_str(&format!("\nquorate.etcdAddr={address}\n"));
            fs::write(config, text).unwrap();
            address
        })
    }

    /// Stops a server with SIGTERM. Fails unless it ends with status 0.
    pub fn stop_one(&mut self, place: usize) {
        let mut child = self.children[place].take().expect("it was started");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "one ended with {status}; {}", self.logs());
    }

    /// Stops all servers with SIGTERM and removes their files. Fails unless each ends with status
    /// 0.
    pub fn stop(self) {
        let folder = self.folder.clone();
        self.stop_keeping_files();
        fs::remove_dir_all(folder).unwrap();
    }

    /// Stops all servers with SIGTERM. Fails unless each ends with status 0.
    pub fn stop_keeping_files(mut self) {
        for child in self.children.iter().flatten() {
            kill_process(Pid::from_child(child), Signal::TERM).unwrap();
        }
        for child in std::mem::take(&mut self.children).iter_mut().flatten() {
            let status = child.wait().unwrap();
            assert!(status.success(), "one ended with {status}; {}", self.logs());
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_ends_of_logs();
        }
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_server_that_waits_for_the_others_lives_and_serves_nobody() {
    let mut members = Members::prepare("waiting-member", "");
    members.start(1);
    let address = members.clients[1];
    wait_until("it says that it lives", || word(address, "ruok") == "imok");
    let not_serving = "This ZooKeeper instance is not currently serving requests\n";
    assert_eq!(word(address, "srvr"), not_serving);
    assert_eq!(word(address, "isro"), "null");
    // The first bytes of a connect request: its length, 44.
    assert_eq!(word(address, "\0\0\0\u{2c}"), "");
    assert!(members.logs().contains("whoever reaches the peer port is taken for a server"));
    members.stop();
}

#[test]
fn where_it_is_said_a_majority_begins_and_the_third_server_gets_its_vote() {
    let mut members = Members::prepare("majority", "quorate.bootstrap=majority\n");
    let clients = members.clients.clone();
    members.start(1);
    members.start(0);
    let leader = || clients.iter().find(|it| word(**it, "srvr").contains("Mode: leader\n"));
    wait_until("one leader of two", || leader().is_some());
    let mut client = open(clients[1]);
    assert_eq!(client.create("/a", b"one", 0).as_deref(), Ok("/a"));
    assert!(
        members.logs().contains("a new ensemble of 3 servers starts, and 1 of them are absent")
    );
    members.start(2);
    wait_until("the third follows", || word(clients[2], "srvr").contains("Mode: follower\n"));
    let mut client = open(clients[2]);
    wait_until("it has what there was", || client.exists("/a"));
    wait_until("it has its vote", || {
        let shown = leader().map_or_else(String::new, |leader| word(*leader, "mntr"));
        ["zk_quorum_size\t3", "zk_synced_followers\t2", "zk_synced_non_voting_followers\t0"]
            .iter()
            .all(|line| shown.lines().any(|it| it == *line))
    });
    let says =
        |number: usize, what: &str| log_in(&members.folder.join(number.to_string())).contains(what);
    wait_until("each says who leads", || {
        says(1, " leads, in term ") && says(2, " leads, in term ") && says(3, " leads, in term ")
    });
    wait_until("it is said that the third is there", || says(1, "server 3 is connected again"));
    // The membership changes in two phases. Until the change is complete, it also needs a majority
    // of the old voters, the first and the second server.
    wait_until("the change is complete", || {
        let (shown, is_led) = members.cluster(&["status"]);
        is_led && shown.lines().count() == 6 && !shown.contains("joining")
    });
    // Whether or not the second server leads, the first and the third are a majority.
    let mut second = members.children[1].take().expect("it runs");
    second.kill().unwrap();
    second.wait().unwrap();
    wait_until("one leader of the others", || leader().is_some());
    let mut client = open(clients[2]);
    assert_eq!(client.create("/b", b"two", 0).as_deref(), Ok("/b"));
    members.stop();
}

/// Kills two of three servers. The third one refuses a client that connects at once, so that the
/// client can try another server, instead of keeping it for a third of its timeout. It opens
/// sessions again once there is a leader.
#[test]
fn a_server_without_a_leader_sends_away_those_who_connect() {
    let mut members = Members::prepare("without-a-leader", "");
    (0..3).for_each(|place| members.start(place));
    members.leader();
    let address = members.clients[0];
    assert_eq!(open(address).create("/a", b"one", 0).as_deref(), Ok("/a"));
    for place in [1, 2] {
        let mut child = members.children[place].take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for _ in 0..3 {
        let connection = Connection::open(address).unwrap();
        let greeted = Client::greet(connection, &ConnectRequest::new(40_000));
        assert!(matches!(greeted, Greeted::Ended), "a session without a leader");
    }
    members.start(1);
    members.leader_if(|place| place < 2);
    assert!(open(address).exists("/a"));
    assert!(members.log(0).contains("there is no contact with a leader"), "{}", members.log(0));
    members.stop();
}

#[test]
fn servers_that_show_each_other_certificates_are_an_ensemble() {
    let fixture =
        |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name);
    let mut members = Members::prepare(
        "servers-by-tls",
        &format!(
            "sslQuorum=true\nssl.quorum.keyStore.location={}\nssl.quorum.trustStore.location={}\n",
            fixture("server.pem").display(),
            fixture("ca.pem").display()
        ),
    );
    (0..3).for_each(|place| members.start(place));
    members.leader();
    let mut client = open(members.clients[0]);
    assert_eq!(client.create("/a", b"one", 0).as_deref(), Ok("/a"));
    // A peer that does not speak TLS is not a server of the ensemble.
    let first = members.clients[0].port() + DISTANCES[1];
    let mut stranger = TcpStream::connect(("127.0.0.1", first)).unwrap();
    stranger.write_all(&[0; 64]).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    members.leader();
    members.stop();
}

/// In a StatefulSet a server may start before its own name is known; in this test, its address is
/// in use instead. Like ZooKeeper with `electionPortBindRetry=0`, the server waits, and answers
/// four-letter words meanwhile.
#[test]
fn a_server_waits_for_its_own_address_and_answers_words_meanwhile() {
    let folder = folder("own-address-comes-late");
    let port = first_port(1);
    let [client, peer, election, _] = DISTANCES.map(|distance| port + distance);
    let held = TcpListener::bind(("127.0.0.1", peer)).unwrap();
    let config = |lines: &str| {
        let data = folder.join("data");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("myid"), "1\n").unwrap();
        let text = format!(
            "dataDir={}\ninitLimit=10\nsyncLimit=5\nstandaloneEnabled=false\n\
             4lw.commands.whitelist=*\nserver.1=127.0.0.1:{peer}:{election}\n{lines}",
            data.display()
        );
        fs::write(folder.join("zoo.cfg"), text).unwrap();
    };
    let address = SocketAddr::from(([127, 0, 0, 1], client));
    config("electionPortBindRetry=2\n");
    assert!(!command_at(&folder, address).status().unwrap().success());
    config("electionPortBindRetry=0\n");
    let mut child = command_at(&folder, address).spawn().unwrap();
    let log = || fs::read_to_string(folder.join("log")).unwrap();
    let is_answered = || word(address, "srvr").contains("not currently serving requests");
    wait_until("words are answered", is_answered);
    // Longer than the default number of attempts takes.
    std::thread::sleep(Duration::from_millis(4_500));
    assert!(child.try_wait().unwrap().is_none() && is_answered(), "{}", log());
    drop(held);
    wait_until("it serves", || word(address, "srvr").contains("Mode: "));
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    child.wait().unwrap();
    fs::remove_dir_all(folder).unwrap();
}
