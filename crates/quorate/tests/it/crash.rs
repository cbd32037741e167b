//! Kills the real process, stops it, and starts it on damaged data. No acknowledged write may be
//! lost.

mod ensemble;
mod etcd;
mod load;
mod part;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::Scope;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use storage::disk::RealDisk;
use storage::inspect::{Report, SegmentReport, SnapshotReport};
use workload::generate::Random;
use zk::request::Request;

use crate::client::{Client, EPHEMERAL, Greeted, TIMEOUT_MS};
use crate::server::{Server, command, folder};
use load::World;

/// How many clients write while the server is killed.
const WORKERS: usize = 5;

/// How long a step without load may take. A longer one fails the test.
const PATIENCE: Duration = Duration::from_secs(30);

/// Settings that make a server take snapshots and recycle log segments every few restarts.
const SMALL_SNAPSHOTS: &[&str] = &["snapCount=500", "snapSizeLimitInKb=4096"];

fn number_from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Which clients write while the server is killed.
#[derive(Clone, Copy)]
enum Clients {
    ZooKeeper,
    Etcd,
}

impl Clients {
    fn address(self, server: &Server) -> SocketAddr {
        match self {
            Clients::ZooKeeper => server.address(),
            Clients::Etcd => server.face("etcd"),
        }
    }

    /// Starts the clients as threads of `scope`, and returns how many there are.
    fn start<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        world: &'scope World,
        seed: u64,
    ) -> usize {
        match self {
            Clients::ZooKeeper => load::start(scope, world, WORKERS, seed),
            Clients::Etcd => etcd::start(scope, world, WORKERS),
        }
    }
}

/// Kills the server a hundred times, or QUORATE_KILLS times. Another QUORATE_SEED chooses other
/// moments.
#[test]
fn whatever_was_acknowledged_outlives_a_hundred_kills() {
    let mut server = Server::start("kills", SMALL_SNAPSHOTS);
    load::prepare(server.address(), WORKERS);
    kill_under_load(&mut server, &[Clients::ZooKeeper]);
}

/// At the end, each etcd revision must come from exactly one put.
#[test]
fn what_clients_of_both_protocols_wrote_at_once_outlives_a_hundred_kills() {
    let lines = [SMALL_SNAPSHOTS, &["quorate.etcdAddr=127.0.0.1:0"]].concat();
    let mut server = Server::start("kills-both", &lines);
    load::prepare(server.address(), WORKERS);
    kill_under_load(&mut server, &[Clients::ZooKeeper, Clients::Etcd]);
    server.restart();
    etcd::check_revisions(server.face("etcd"));
}

/// Kills the server repeatedly while clients write, then stops it and checks its data directory.
fn kill_under_load(server: &mut Server, clients: &[Clients]) {
    let kills = number_from_env("QUORATE_KILLS", 100);
    let seed = number_from_env("QUORATE_SEED", 1);
    let began = Instant::now();
    let mut random = Random::new(seed);
    let report = under_load(server, clients, kills, seed, |server| {
        server.kill_nine();
        // Sometimes a server that is just starting is killed as well.
        for _ in 0..random.below(3) {
            kill_a_start(server.folder(), random.between(1, 80));
        }
    });
    assert_sound(server);
    println!("seed {seed}: {report}, in {:?}", began.elapsed());
}

#[test]
fn sigterm_under_load_ends_with_status_0_and_loses_nothing() {
    let mut server = Server::start("sigterm", SMALL_SNAPSHOTS);
    load::prepare(server.address(), WORKERS);
    let report = under_load(&mut server, &[Clients::ZooKeeper], 8, 2, Server::stop);
    assert_sound(&server);
    println!("{report}");
}

/// Ends the server repeatedly with `end` while clients write, and starts it again each time; at the
/// end it is stopped. The clients of each protocol have a [`World`] of their own, because a zxid
/// cannot be compared with a revision.
fn under_load(
    server: &mut Server,
    clients: &[Clients],
    ends: u64,
    seed: u64,
    mut end: impl FnMut(&mut Server),
) -> String {
    let worlds: Vec<World> = clients.iter().map(|_| World::default()).collect();
    let mut random = Random::new(seed.rotate_left(32));
    let begin_life = |server: &Server| {
        worlds.iter().zip(clients).for_each(|(world, it)| world.begin_life(it.address(server)));
    };
    let end_life = || worlds.iter().for_each(World::end_life);
    std::thread::scope(|scope| {
        // This stops the clients even after a panic.
        let _over = Over(&worlds);
        let start = |(world, it): (_, &Clients)| it.start(scope, world, seed);
        let counts: Vec<usize> = worlds.iter().zip(clients).map(start).collect();
        let wait_satisfied = || {
            worlds.iter().zip(&counts).for_each(|(world, count)| world.wait_satisfied(*count));
        };
        for _ in 0..ends {
            begin_life(server);
            // Sometimes the server is ended before any client has checked its state.
            if !random.one_in(8) {
                wait_satisfied();
            }
            std::thread::sleep(Duration::from_millis(random.between(0, 250)));
            end_life();
            end(server);
            server.restart();
        }
        begin_life(server);
        wait_satisfied();
        end_life();
        server.stop();
    });
    assert!(!server.log().contains("panicked"));
    worlds.iter().map(World::report).collect::<Vec<_>>().join("; ")
}

struct Over<'a>(&'a [World]);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(World::end);
    }
}

/// Starts a server and kills it after `ms`, at whatever point of its start that is.
fn kill_a_start(folder: &Path, ms: u64) {
    let mut child = command(folder).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(ms));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_directory_whose_birth_was_killed_is_born_all_the_same() {
    let mut random = Random::new(3);
    for round in 0..25 {
        let mut server = Server::start("birth", &[]);
        server.kill_nine();
        fs::remove_dir_all(server.data_dir()).unwrap();
        for _ in 0..random.between(1, 4) {
            kill_a_start(server.folder(), random.between(0, 25));
        }
        server.restart();
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        client.create("/born", format!("{round}").as_bytes(), 0).unwrap();
        server.kill_nine();
        server.restart();
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        assert_eq!(client.get("/born"), Ok(format!("{round}").into_bytes()));
    }
}

/// A session expires only by time during which the server ran. Pings that were waiting in its
/// sockets must be handled before sessions expire.
#[test]
fn a_server_that_was_stopped_expires_nobody_who_still_pings() {
    for (tick_ms, stopped_ms) in [(200, 1_500), (500, 2_500), (2_000, 6_000)] {
        let server = Server::start("stopped", &[&format!("tickTime={tick_ms}")]);
        let timeout_ms = 2 * tick_ms;
        let mut clients: Vec<Client> =
            (0..40).map(|_| Client::open(server.address(), timeout_ms)).collect();
        let mut silent = Client::open(server.address(), timeout_ms);
        assert_eq!(silent.timeout_ms, timeout_ms);
        silent.create("/silent", b"", EPHEMERAL).unwrap();
        for (id, client) in clients.iter_mut().enumerate() {
            client.create(&format!("/pings-{id}"), b"", EPHEMERAL).unwrap();
        }
        // The sessions age during this time; each client pings at a third of its timeout.
        let interval = Duration::from_millis(timeout_ms as u64 / 3);
        let mut sent = ping_for(&mut clients, interval, 2 * interval);
        kill_process(server.pid(), Signal::STOP).unwrap();
        sent += ping_for(&mut clients, interval, Duration::from_millis(stopped_ms));
        kill_process(server.pid(), Signal::CONT).unwrap();
        sent += ping_for(&mut clients, interval, 2 * interval);
        for (id, client) in clients.iter_mut().enumerate() {
            for _ in 0..sent {
                let answer = client.receive();
                assert!(answer.is_some(), "tick {tick_ms}: {id} expired\n{}", server.log());
            }
            assert!(client.exists(&format!("/pings-{id}")));
        }
        // The session that does not ping expires, although late.
        let deadline = Instant::now() + PATIENCE;
        while clients[0].exists("/silent") {
            assert!(Instant::now() < deadline, "nobody expires any more");
            for _ in 0..ping_for(&mut clients, interval, interval) {
                clients.iter_mut().for_each(|client| drop(client.receive().unwrap()));
            }
        }
    }
}

/// Sends a ping from each client every `interval` for `duration`. Returns how many pings each sent.
fn ping_for(clients: &mut [Client], interval: Duration, duration: Duration) -> usize {
    let end = Instant::now() + duration;
    let mut count = 0;
    while Instant::now() < end {
        for client in clients.iter_mut() {
            client.send(&Request::Ping);
        }
        count += 1;
        std::thread::sleep(interval);
    }
    count
}

/// Starts a server that must refuse to start, and returns its output.
fn run_refused(folder: &Path) -> String {
    let mut child = command(folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if !line.is_empty() {
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("it serves: {line}");
    }
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("quorate: "), "{stderr}");
    last.to_string()
}

fn folder_with_config(name: &str, data: &Path) -> PathBuf {
    let folder = folder(name);
    let config = format!("dataDir={}\nclientPort=0\n", data.display());
    fs::write(folder.join("zoo.cfg"), config).unwrap();
    folder
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let server = Server::start("second", &[]);
    let said = run_refused(server.folder());
    assert!(said.contains("in use by another process"), "{said}");
    assert!(said.contains(&server.data_dir().display().to_string()), "{said}");
    Client::open(server.address(), TIMEOUT_MS).create("/first", b"", 0).unwrap();
}

#[test]
fn the_data_of_a_real_zookeeper_is_refused_and_not_touched() {
    let folder = folder("theirs");
    let data = folder.join("data");
    fs::create_dir_all(data.join("version-2")).unwrap();
    fs::write(data.join("version-2/log.1"), b"ZKLG").unwrap();
    fs::write(data.join("myid"), b"1\n").unwrap();
    fs::write(folder.join("zoo.cfg"), format!("dataDir={}\nclientPort=0\n", data.display()))
        .unwrap();
    let said = run_refused(&folder);
    assert!(said.contains("quorate import"), "{said}");
    assert!(said.contains("version-2/log.1"), "{said}");
    let mut names: Vec<_> =
        fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["myid", "version-2"]);
    fs::remove_dir_all(folder).unwrap();
}

/// The folders that must not be written are plain files here, because root could write to a
/// protected folder.
#[test]
fn the_log_lies_where_it_is_configured_and_nowhere_else() {
    let mut server = Server::start("log-dir", &["dataLogDir=log-mount"]);
    let mut client = Client::open(server.address(), 30_000);
    client.create("/a", b"x", 0).unwrap();
    server.kill_nine();
    server.restart();
    assert!(Client::open(server.address(), 30_000).exists("/a"));
    server.stop();
    let (folder, config) = (server.folder(), server.folder().join("zoo.cfg"));
    assert!(folder.join("log-mount/wal").is_dir() && !folder.join("data/wal").exists());
    let written = fs::read_to_string(&config).unwrap();
    for other in ["", "dataLogDir=other\n"] {
        fs::write(&config, written.replace("dataLogDir=log-mount\n", other)).unwrap();
        let refusal = run_refused(folder);
        assert!(refusal.contains("there is no log in"), "{refusal}");
    }
    fs::rename(folder.join("log-mount/wal"), folder.join("data/wal")).unwrap();
    fs::write(&config, &written).unwrap();
    let refusal = run_refused(folder);
    assert!(refusal.contains("data/wal to log-mount/wal, or configure none"), "{refusal}");
    fs::write(&config, written.replace("dataLogDir=log-mount\n", "")).unwrap();
    server.restart();
    assert!(Client::open(server.address(), 30_000).exists("/a"));
}

/// A server that has printed its ready line can already be stopped cleanly.
#[test]
fn a_server_that_is_stopped_as_soon_as_it_is_ready_ends_cleanly() {
    let mut server = Server::start("stopped-at-once", &[]);
    for _ in 0..20 {
        server.stop();
        server.restart();
    }
}

#[test]
fn a_data_directory_that_cannot_be_written_is_refused() {
    let place = folder("unwritable");
    let plain = place.join("plain-file");
    fs::write(&plain, b"").unwrap();
    for (name, data) in [
        ("below-a-file", plain.join("data")),
        ("a-file", plain.clone()),
        ("proc", PathBuf::from("/proc/quorate-data")),
    ] {
        let folder = folder_with_config(name, &data);
        let said = run_refused(&folder);
        assert!(said.contains(&data.display().to_string()), "{said}");
        fs::remove_dir_all(folder).unwrap();
    }
    fs::remove_dir_all(place).unwrap();
}

fn look(server: &Server) -> Report {
    let disk = RealDisk::existing(server.data_dir());
    storage::inspect::inspect(&disk, &mut |_| Ok(()))
}

/// Runs `quorate inspect` on the server's data directory.
fn inspect(server: &Server) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.arg("inspect").arg(server.data_dir()).output().unwrap()
}

fn assert_sound(server: &Server) {
    let output = inspect(server);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().last(), Some("sound"), "{said}");
}

/// Writes data. The test will damage some of it.
fn write_nodes(server: &Server, name: &str) {
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    for number in 0..50 {
        client.create(&format!("/{name}-{number}"), &[7; 1000], 0).unwrap();
    }
    client.close();
}

/// Waits until an idle server has recorded that all of its log is durable.
fn wait_marked(server: &Server) {
    let deadline = Instant::now() + PATIENCE;
    let is_marked = |segment: &SegmentReport| segment.mark == segment.end;
    while !look(server).segments.iter().all(is_marked) {
        assert!(Instant::now() < deadline, "an idle server leaves its log unmarked");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Flips a bit in the middle of a segment. Returns the segment's name and the offset of the byte.
fn flip(server: &Server, segment: &SegmentReport) -> (String, u64) {
    let name = storage::wal::log_path(segment.sequence);
    let path = server.data_dir().join(&name);
    let mut bytes = fs::read(&path).unwrap();
    let offset = (8192 + segment.end) / 2;
    bytes[offset as usize] ^= 1;
    fs::write(&path, bytes).unwrap();
    (name, offset)
}

#[test]
fn a_log_that_was_damaged_is_refused_by_name_and_place() {
    for (damaged, is_last) in [("sealed", false), ("idle", true)] {
        let mut server = Server::start(&format!("flip-{damaged}"), &[]);
        write_nodes(&server, "old");
        wait_marked(&server);
        if !is_last {
            server.kill_nine();
            server.restart();
            write_nodes(&server, "new");
        }
        server.kill_nine();
        assert_sound(&server);
        let report = look(&server);
        let with_entries = |segment: &&SegmentReport| segment.entries.is_some();
        let segment = report.segments.iter().find(with_entries).unwrap();
        let (name, offset) = flip(&server, segment);
        let said = run_refused(server.folder());
        assert!(said.contains(&name), "{said}");
        let dir = server.data_dir().display().to_string();
        assert!(said.contains(&format!("quorate inspect {dir}")), "{said}");
        let (_, rest) = said.split_once("corrupt at byte ").expect(&said);
        let at: u64 = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        // The error names the offset of the frame that contains the byte, and a frame is no larger
        // than one of these entries.
        assert!(at <= offset && offset < at + 300_000, "{offset}: {said}");
        let output = inspect(&server);
        let shown = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(shown.contains(&format!("{name} is corrupt at byte {at}")), "{shown}");
        // Flipping the bit again repairs the log, and everything is there.
        flip(&server, segment);
        server.restart();
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        assert_eq!(client.get("/old-49"), Ok(vec![7; 1000]));
        assert_eq!(client.exists("/new-49"), !is_last);
    }
}

#[test]
fn the_advice_for_a_damaged_log_names_the_log_where_it_lies() {
    let mut server = Server::start("flip-log-dir", &["dataLogDir=log-mount"]);
    write_nodes(&server, "old");
    server.stop();
    let wal = server.folder().join("log-mount/wal");
    let segments = fs::read_dir(wal).unwrap().map(|entry| entry.unwrap().path());
    let first = segments.min().unwrap();
    let mut bytes = fs::read(&first).unwrap();
    bytes[8192 + 20_000] ^= 1;
    fs::write(&first, bytes).unwrap();
    let said = run_refused(server.folder());
    let advised = said.split('`').nth(1).expect(&said);
    let mut words = advised.split(' ');
    assert_eq!(words.next(), Some("quorate"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    let output = command.args(words).current_dir(server.folder()).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(shown.contains(" is corrupt at byte "), "{advised}: {shown}");
}

/// The log still has the entries since the second newest snapshot.
#[test]
fn a_snapshot_that_was_cut_costs_nothing_and_two_are_refused_by_name() {
    let mut server = Server::start("cut-snapshot", &["snapCount=200"]);
    let deadline = Instant::now() + PATIENCE;
    let mut rounds = 0;
    // The snapshot of the birth does not count, since it is removed with the third one.
    let is_later = |snapshot: &&SnapshotReport| !snapshot.name.starts_with("0000000000000001-");
    while look(&server).snapshots.iter().filter(is_later).count() < 2 {
        assert!(Instant::now() < deadline, "no snapshot is taken");
        write_nodes(&server, &format!("round-{rounds}"));
        rounds += 1;
    }
    server.stop();
    let mut names: Vec<String> =
        look(&server).snapshots.iter().map(|snapshot| snapshot.name.clone()).collect();
    names.sort();
    let paths: Vec<_> =
        names.iter().map(|name| server.data_dir().join("snapshots").join(name)).collect();
    let (older, newest) = (&paths[0], &paths[1]);
    let whole = fs::read(newest).unwrap();
    for kept in [0, 1, 20, whole.len() / 2, whole.len() - 1] {
        fs::write(newest, &whole[..kept]).unwrap();
        let shown = String::from_utf8(inspect(&server).stdout).unwrap();
        assert!(shown.contains(&names[1]), "{kept} of {}: {shown}", whole.len());
        server.restart();
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        for round in 0..rounds {
            assert_eq!(client.get(&format!("/round-{round}-49")), Ok(vec![7; 1000]));
        }
        server.stop();
    }
    let whole_older = fs::read(older).unwrap();
    fs::write(older, &whole_older[..whole_older.len() / 2]).unwrap();
    let said = run_refused(server.folder());
    assert!(said.contains(&names[0]), "{said}");
    assert!(said.contains("quorate inspect"), "{said}");
}

/// A session survives the loss of its connection and of the server, and so does the end of a
/// session.
#[test]
fn sessions_and_their_ends_outlive_a_kill() {
    let mut server = Server::start("sessions", &[]);
    let mut alive = Client::open(server.address(), TIMEOUT_MS);
    let mut closed = Client::open(server.address(), TIMEOUT_MS);
    alive.create("/alive", b"", EPHEMERAL).unwrap();
    closed.create("/closed", b"", EPHEMERAL).unwrap();
    assert!(closed.close());
    server.kill_nine();
    server.restart();
    let greet = |client: &Client, password: &[u8]| {
        Client::try_greet(server.address(), client.session, password, 0)
    };
    assert!(matches!(greet(&closed, &closed.password), Greeted::Refused));
    assert!(matches!(greet(&alive, &[1; 16]), Greeted::Refused));
    let Greeted::Attached(mut again) = greet(&alive, &alive.password) else {
        panic!("the session is lost");
    };
    assert!(again.exists("/alive"));
    assert!(!again.exists("/closed"));
}
