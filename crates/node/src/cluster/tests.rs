//! Runs whole ensembles in one process, with real directories, threads and sockets on loopback.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::entry::{BatchBuilder, encode_identities};
use machine::{Command, ConnectionId, Level, SessionId, ZkCommand};
use member::membership::hello::Known;
use member::message::{FrontCounts, Submission, Ticket, ToLoop, Waiter};
use member::order;
use member::recovery::Options;
use storage::datadir::{BIRTH_FILE, Identity, decode_birth};

use super::*;
use crate::limits::RAFT_TICK_MS;
use crate::peer_address::PeerAddress;
use crate::start::{Node, start};

/// Longest wait for something that must happen, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers 1 to `count`. Each may be started and stopped again.
struct Ensemble {
    dir: PathBuf,
    listeners: Vec<TcpListener>,
    attendance: Attendance,
    starts: u8,
}

impl Ensemble {
    fn new(name: &str, count: usize) -> Ensemble {
        let dir = std::env::temp_dir().join(format!("quorate-node-{}-{name}", std::process::id()));
        drop(std::fs::remove_dir_all(&dir));
        let listener = |_| TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let listeners = (0..count).map(listener).collect();
        Ensemble { dir, listeners, attendance: Attendance::All, starts: 0 }
    }

    fn data_dir(&self, number: u64) -> PathBuf {
        self.dir.join(number.to_string())
    }

    fn config(&mut self, number: u64) -> NodeConfig {
        self.starts += 1;
        let servers = self.listeners.iter().zip(1..).map(|(listener, number)| {
            let port = listener.local_addr().expect("it is bound").port();
            let host = "localhost".to_string();
            let peer_urls = vec![format!("http://localhost:{port}")];
            PeerServer { number, addresses: vec![PeerAddress { host, port }], peer_urls }
        });
        let own = &self.listeners[number as usize - 1];
        NodeConfig {
            data_dir: self.data_dir(number),
            log_dir: None,
            fronts: FrontCounts { zk: 1, etcd: 0 },
            drawn: [self.starts; 32],
            secret: [self.starts; 32],
            member: Options {
                spaces: Default::default(),
                order: order::Options {
                    name: String::new(),
                    servers: Default::default(),
                    servers_are_kept: false,
                    known: Known::up_to(Level::RELEASED),
                    session_timeout_ms_min: 4_000,
                    raft_tick_ms: RAFT_TICK_MS,
                    log_memory: Default::default(),
                    server: number,
                    disk: order::DiskOptions {
                        snapshot_commands: u64::MAX,
                        snapshot_log: member::snapshot::log_rule::SnapshotLog::Unbounded,
                        stall_ms: member::order::limits::DISK_STALL_MS,
                    },
                },
            },
            fsync_warning: PATIENCE,
            cluster: Some(ClusterConfig {
                server: number,
                voters: (1..=self.listeners.len() as u64).collect(),
                attendance: self.attendance,
                servers: servers.collect(),
                listeners: vec![own.try_clone().expect("has a second handle")],
                auth: PeerAuth::Secret(Arc::new(crate::PeerSecret::new(
                    b"a secret of the test".into(),
                    true,
                ))),
                connect_timeout: PATIENCE,
                keep_alive: false,
                board: Arc::default(),
                removed_status: 1,
            }),
        }
    }

    /// Starts several servers at once, since each waits for the others.
    fn start(&mut self, numbers: &[u64]) -> Vec<Node> {
        let begin = |number: &u64| -> JoinHandle<Node> {
            let config = self.config(*number);
            std::thread::spawn(move || {
                start(&config, Box::new(|_, _| {})).unwrap_or_else(|error| panic!("{error}"))
            })
        };
        let begun: Vec<_> = numbers.iter().map(begin).collect();
        begun.into_iter().map(|it| it.join().expect("it starts")).collect()
    }

    fn identity(&self, number: u64) -> Identity {
        let bytes = std::fs::read(self.data_dir(number).join("identity")).expect("it is born");
        storage::datadir::decode_identity(&bytes).expect("it is whole")
    }

    fn first_voters(&self, number: u64) -> Vec<u64> {
        let bytes = std::fs::read(self.data_dir(number).join(BIRTH_FILE)).expect("it is born");
        decode_birth(&bytes).expect("it is whole").voters
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Opens a session through this server.
fn open_session(node: &Node, session: i64) {
    let nobody = encode_identities([].into_iter());
    let mut builder = BatchBuilder::default();
    let connection = ConnectionId(session as u64);
    let (session, password) = (SessionId(session), [7; 16]);
    let command = Command::Zk(ZkCommand::OpenSession { session, password, timeout_ms: 3_600_000 });
    builder.push(connection, &nobody, &command).expect("it fits");
    let handle = &node.zk_fronts()[0];
    let waiters = vec![Waiter::new(connection, Ticket(0))];
    let (front, batch) = (handle.id(), builder.finish());
    handle.send(vec![ToLoop::Submit(Submission { front, batch, waiters })]);
}

/// Waits until every node has this many sessions, and asserts that all states are equal.
fn wait_alike(nodes: &[Node], session_count: usize) {
    let state = |node: &Node| {
        let handle = &node.zk_fronts()[0];
        let machine = handle.machine().read();
        (machine.zk().sessions().iter().count(), machine.digest())
    };
    wait_until("all have all sessions", || nodes.iter().all(|it| state(it).0 == session_count));
    wait_until("all are alike", || nodes.iter().all(|it| state(it).1 == state(&nodes[0]).1));
}

#[test]
fn three_servers_are_born_together_replicate_and_go_on_without_one() {
    let mut ensemble = Ensemble::new("three", 3);
    let mut nodes = ensemble.start(&[3, 1, 2]);
    assert!(nodes.iter().all(|it| it.wait_ready(PATIENCE)));
    let voters = ensemble.first_voters(1);
    for number in 1..4 {
        assert_eq!(ensemble.identity(number).cluster_id, ensemble.identity(1).cluster_id);
        assert_eq!(ensemble.first_voters(number), voters);
        assert!(voters.contains(&ensemble.identity(number).member_id));
    }
    for (node, session) in nodes.iter().zip(1..) {
        open_session(node, session);
    }
    wait_alike(&nodes, 3);
    // Two members are enough, whether the stopped one was the leader or not.
    nodes.remove(0).stop();
    open_session(&nodes[0], 4);
    open_session(&nodes[1], 5);
    wait_alike(&nodes, 5);
    nodes.extend(ensemble.start(&[3]));
    assert!(nodes[2].wait_ready(PATIENCE));
    open_session(&nodes[2], 6);
    wait_alike(&nodes, 6);
    nodes.into_iter().for_each(Node::stop);
    // Start all at once, from what is on disk.
    let nodes = ensemble.start(&[1, 2, 3]);
    assert!(nodes.iter().all(|it| it.wait_ready(PATIENCE)));
    wait_alike(&nodes, 6);
    nodes.into_iter().for_each(Node::stop);
}

/// The count is of frames, not of reads: one read of a socket may bring several frames, or a part
/// of one.
#[test]
fn each_frame_that_a_member_sends_is_counted_by_its_receiver() {
    let mut ensemble = Ensemble::new("traffic", 3);
    let nodes = ensemble.start(&[1, 2, 3]);
    assert!(nodes.iter().all(|it| it.wait_ready(PATIENCE)));
    for session in 1..200 {
        open_session(&nodes[session as usize % 3], session);
    }
    wait_alike(&nodes, 199);
    let traffic = |of: &Node, with: &Node| {
        let (all, other) = (of.monitor_handle().peer_traffic(), with.monitor_handle().member());
        all.into_iter().find(|it| it.member == other).expect("they have a link")
    };
    for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
        let (from, to) = (&nodes[from], &nodes[to]);
        wait_until("all frames have arrived", || {
            traffic(from, to).sent_frames == traffic(to, from).received_frames
        });
    }
    nodes.into_iter().for_each(Node::stop);
}

#[test]
fn a_server_that_lost_its_directory_is_born_into_the_ensemble_without_a_vote() {
    let mut ensemble = Ensemble::new("lost", 3);
    let mut nodes = ensemble.start(&[1, 2, 3]);
    assert!(nodes.iter().all(|it| it.wait_ready(PATIENCE)));
    let before = ensemble.identity(1);
    nodes.remove(0).stop();
    // A damaged directory: the server sets it aside.
    let identity = ensemble.data_dir(1).join("identity");
    let mut bytes = std::fs::read(&identity).expect("is there");
    bytes[20] ^= 1;
    std::fs::write(&identity, bytes).expect("writes");
    nodes.extend(ensemble.start(&[1]));
    let after = ensemble.identity(1);
    assert_eq!(after.cluster_id, before.cluster_id);
    assert_ne!(after.member_id, before.member_id);
    assert_eq!(ensemble.first_voters(1), ensemble.first_voters(2));
    assert!(!ensemble.first_voters(1).contains(&after.member_id));
    assert!(ensemble.data_dir(1).join("set-aside-1/boot").is_file());
    // The server gets the state from the others, and the vote of its former member id.
    assert!(nodes[2].wait_ready(PATIENCE));
    let has_vote = |node: &Node| node.monitor_handle().voters().contains(&after.member_id);
    wait_until("it has a vote", || nodes.iter().all(has_vote));
    let is_gone = |node: &Node| !node.monitor_handle().voters().contains(&before.member_id);
    wait_until("the one that it was has none", || nodes.iter().all(is_gone));
    nodes.remove(0).stop();
    open_session(&nodes[0], 1);
    open_session(&nodes[1], 2);
    wait_alike(&nodes, 2);
    nodes.into_iter().for_each(Node::stop);
}

#[test]
fn a_majority_begins_and_whoever_comes_later_gets_its_vote() {
    let mut ensemble = Ensemble::new("majority", 3);
    ensemble.attendance = Attendance::Majority;
    let mut nodes = ensemble.start(&[2, 1]);
    assert!(nodes.iter().all(|it| it.wait_ready(PATIENCE)));
    let first = ensemble.first_voters(1);
    assert_eq!(first, ensemble.first_voters(2));
    assert!(first.len() == 3 && absent_server(first[2]) == Some(3), "{first:?}");
    open_session(&nodes[0], 1);
    nodes.extend(ensemble.start(&[3]));
    assert!(nodes[2].wait_ready(PATIENCE));
    wait_alike(&nodes, 1);
    let voters: Vec<u64> = (1..4).map(|number| ensemble.identity(number).member_id).collect();
    let all_vote = |node: &Node| {
        let now = node.monitor_handle().voters();
        now.len() == 3 && voters.iter().all(|voter| now.contains(voter))
    };
    wait_until("it has its vote", || nodes.iter().all(all_vote));
    nodes.remove(0).stop();
    open_session(&nodes[0], 2);
    wait_alike(&nodes, 2);
    nodes.into_iter().for_each(Node::stop);
}

#[test]
fn any_two_of_three_begin_and_the_third_gets_its_vote() {
    for (pair, third) in [([1, 2], 3), ([3, 1], 2), ([2, 3], 1)] {
        let mut ensemble = Ensemble::new(&format!("any-majority-{third}"), 3);
        ensemble.attendance = Attendance::AnyMajority;
        let mut nodes = ensemble.start(&pair);
        assert!(nodes.iter().all(|it| it.wait_ready(PATIENCE)));
        let first = ensemble.first_voters(pair[0]);
        assert_eq!(first, ensemble.first_voters(pair[1]));
        assert!(first.len() == 3 && absent_server(first[2]) == Some(third), "{first:?}");
        assert!(!ensemble.data_dir(pair[0]).join("draft").exists());
        open_session(&nodes[0], 1);
        nodes.extend(ensemble.start(&[third]));
        wait_alike(&nodes, 1);
        let voters: Vec<u64> = (1..4).map(|number| ensemble.identity(number).member_id).collect();
        let all_vote = |node: &Node| {
            let now = node.monitor_handle().voters();
            now.len() == 3 && voters.iter().all(|voter| now.contains(voter))
        };
        wait_until("it has its vote", || nodes.iter().all(all_vote));
        nodes.remove(0).stop();
        open_session(&nodes[0], 2);
        wait_alike(&nodes, 2);
        nodes.into_iter().for_each(Node::stop);
    }
}

#[test]
fn a_directory_of_a_standalone_server_is_none_of_an_ensemble_and_the_other_way_round() {
    let mut ensemble = Ensemble::new("places", 3);
    let alone = NodeConfig { cluster: None, ..ensemble.config(1) };
    start(&alone, Box::new(|_, _| {})).expect("it starts").stop();
    let refused = |config: NodeConfig| {
        start(&config, Box::new(|_, _| {})).err().expect("it is refused").to_string()
    };
    assert!(refused(ensemble.config(1)).contains("it belongs to a standalone server"));
    std::fs::remove_dir_all(ensemble.data_dir(1)).expect("is there");
    ensemble.start(&[1, 2, 3]).into_iter().for_each(Node::stop);
    let alone = NodeConfig { cluster: None, ..ensemble.config(1) };
    assert!(refused(alone).contains("it belongs to a member of an ensemble of 3"));
}

#[test]
fn a_lone_server_of_an_ensemble_needs_nobody() {
    let mut ensemble = Ensemble::new("lone", 1);
    let nodes = ensemble.start(&[1]);
    assert!(nodes[0].wait_ready(PATIENCE));
    open_session(&nodes[0], 1);
    wait_alike(&nodes, 1);
    nodes.into_iter().for_each(Node::stop);
}

#[test]
fn what_a_lone_server_has_is_not_set_aside() {
    let mut ensemble = Ensemble::new("lone-and-corrupt", 1);
    ensemble.start(&[1]).into_iter().for_each(Node::stop);
    let identity = ensemble.data_dir(1).join("identity");
    let mut bytes = std::fs::read(&identity).expect("is there");
    *bytes.last_mut().expect("has a checksum") ^= 1;
    std::fs::write(&identity, bytes).expect("is written");
    let refused =
        start(&ensemble.config(1), Box::new(|_, _| {})).err().expect("it is refused").to_string();
    assert!(refused.contains("identity is corrupt"), "{refused}");
    assert!(identity.exists());
}
