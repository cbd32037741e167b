//! Tests of a full disk: the server refuses writes, still serves reads, and takes writes again once
//! there is room. No acknowledged write is lost.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use member::order::limits::SNAPSHOT_RETRY_MS;
use storage::limits::{RESERVE_COUNT, SPARE_COUNT_DEFAULT};
use workload::generate::Random;

use super::*;
use crate::client::{Greeted, create};
use crate::etcd::{get, put, request};
use crate::server::folder;

/// How many log segments a server creates ahead, including its reserve.
const SPARES: usize = SPARE_COUNT_DEFAULT + RESERVE_COUNT;

/// A small file system in memory, which is unmounted when this is dropped.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system of `mib` MiB. The error says why this process cannot mount one.
    pub fn mount(path: &Path, mib: u32) -> Result<SmallDisk, String> {
        fs::create_dir_all(path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "quorate-test"]).arg(path);
        match mount.output() {
            Ok(output) if output.status.success() => Ok(SmallDisk { path: path.to_path_buf() }),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Fills the disk until `left` bytes are free, with a file whose path is returned. The server
    /// may use space at the same time.
    pub fn fill(&self, left: u64) -> PathBuf {
        let path = self.path.join("filler");
        let mut file = fs::File::create(&path).unwrap();
        let mut bytes = 0;
        let chunk = vec![0; 64 * 1024];
        loop {
            match file.write(&chunk) {
                Ok(count) => bytes += count as u64,
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
        file.set_len(bytes.saturating_sub(left)).unwrap();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
        if !std::thread::panicking() {
            // An error does not matter, because the folder is below the target folder.
            let _ = fs::remove_dir_all(self.path.parent().unwrap());
        }
    }
}

/// How long the tests keep a disk full. It is longer than the server waits before it tries again to
/// make room.
const FULL_FOR: Duration = Duration::from_millis(SNAPSHOT_RETRY_MS + 2_000);

fn path_of(number: u64) -> String {
    format!("/n{number}")
}

/// The data of a znode: 10,000 bytes that do not compress, so that each znode needs that much space
/// in the log and in a snapshot.
fn data_of(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..1_250).flat_map(|_| random.bits().to_le_bytes()).collect()
}

/// Creates znodes, numbered from `from`, until one is refused for good, and returns its number.
/// Shorter refusals end when a snapshot frees space.
fn fill_with_znodes(client: &mut Client, from: u64) -> u64 {
    let (mut next, mut refused_since) = (from, None);
    loop {
        match client.create(&path_of(next), &data_of(next), 0) {
            Ok(_) => {
                next += 1;
                refused_since = None;
            }
            Err(error) => {
                assert_eq!(error, ErrorCode::SYSTEM_ERROR);
                if refused_since.get_or_insert_with(Instant::now).elapsed() > FULL_FOR {
                    return next;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Fails unless each of these znodes exists with its data.
fn assert_holds(client: &mut Client, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert!(client.get(&path_of(number)) == Ok(data_of(number)), "{number}");
    }
}

/// Starts a server with its data on a small disk. The error says why none can be mounted.
fn start(name: &str, mib: u32) -> Result<(SmallDisk, Server), String> {
    let mounted = folder(&format!("disk-of-{name}")).join("mounted");
    let disk = SmallDisk::mount(&mounted, mib)?;
    let line = format!("dataDir={}", mounted.join("data").display());
    let server = Server::start(name, &[&line, "quorate.etcdAddr=127.0.0.1:0"]);
    // Waits until no segment is being created any more; otherwise these would later look like space
    // that becomes free.
    wait_until("segments are made ahead", || spare_count(&mounted.join("data/wal")) == SPARES);
    Ok((disk, server))
}

fn spare_count(folder: &Path) -> usize {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".spare")).count()
}

/// Says that the test is skipped, because this machine does not allow mounting.
pub fn skip(reason: &str) {
    crate::server::skip(&format!("no file system can be mounted: {reason}"));
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let (disk, mut server) = match start("full", 200) {
        Ok(started) => started,
        Err(reason) => return skip(&reason),
    };
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let filler = disk.fill(0);
    let count = fill_with_znodes(&mut client, 0);
    let log = server.log();
    assert!(log.contains("no further log segment can be made for now: the disk is full"), "{log}");
    assert!(log.contains("no room for the log or the next snapshot: writes are refused"), "{log}");
    // Reads and syncs still work, and writes are still refused.
    for _ in 0..20 {
        assert_holds(&mut client, count - 100..count);
        assert_eq!(client.set(&path_of(0), b"x"), ErrorCode::SYSTEM_ERROR);
        assert_eq!(client.call(&Request::Sync { path: Some("/") }).header.error, ErrorCode::OK);
    }
    // The server can also start on the full disk, any number of times; it just opens no session.
    for _ in 0..5 {
        server.kill_nine();
        server.restart();
    }
    fs::remove_file(filler).unwrap();
    let mut client = reopen(&server);
    assert_holds(&mut client, 0..count);
    for number in 0..2_000 {
        // The server notices the free space within half a second.
        wait_until("a write is taken", || {
            client.set(&path_of(number % 100), &data_of(number)) == ErrorCode::OK
        });
    }
    server.kill_nine();
    server.restart();
    let mut client = reopen(&server);
    assert_eq!(client.get(&path_of(99)), Ok(data_of(1_999)));
    assert_holds(&mut client, 100..count);
    assert_well(&server);
}

/// Opens a session, as soon as the server allows it again.
fn reopen(server: &Server) -> Client {
    let mut client = None;
    wait_until("a session is opened", || {
        client = match Client::try_greet(server.address(), 0, &[0; 16], 0) {
            Greeted::Attached(client) => Some(*client),
            _ => None,
        };
        client.is_some()
    });
    client.unwrap()
}

/// While the disk is full for a time, a session survives without a restart. The server's own files
/// fill the disk gradually; freeing a few MiB is enough to end that.
#[test]
fn a_disk_that_is_full_for_a_while_costs_no_session() {
    let (disk, server) = match start("full-for-a-while", 160) {
        Ok(started) => started,
        Err(reason) => return skip(&reason),
    };
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/ephemeral", b"", crate::client::EPHEMERAL).unwrap();
    let few = ["a", "b", "c"].map(|name| disk.path.join(name));
    few.iter().for_each(|path| fs::write(path, vec![0; 4 * 1024 * 1024]).unwrap());
    for path in few {
        let filler = disk.fill(0);
        let count = fill_with_znodes(&mut client, 0);
        assert_holds(&mut client, 0..count);
        fs::remove_file(filler).unwrap();
        fs::remove_file(path).unwrap();
        for number in 0..count {
            wait_until("writes are taken again", || {
                client.delete(&path_of(number)) == ErrorCode::OK
            });
        }
    }
    assert!(client.exists("/ephemeral"));
    assert_well(&server);
}

/// Another program's file fills the disk again and again. Overwriting data must still work, because
/// it needs no further space.
#[test]
fn a_disk_that_others_fill_keeps_the_room_for_snapshots() {
    let (disk, server) = match start("filled-by-others", 160) {
        Ok(started) => started,
        Err(reason) => return skip(&reason),
    };
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    for number in 0..100 {
        client.create(&path_of(number), &data_of(number), 0).unwrap();
    }
    // These writes are several times the log's share of the disk.
    for number in 100..40_000 {
        if number % 5_000 == 0 {
            disk.fill(0);
        }
        wait_until("a write is taken", || {
            match client.set(&path_of(number % 100), &data_of(number)) {
                ErrorCode::OK => true,
                error => {
                    assert_eq!(error, ErrorCode::SYSTEM_ERROR);
                    false
                }
            }
        });
    }
    for number in 39_900..40_000 {
        assert!(client.get(&path_of(number % 100)) == Ok(data_of(number)), "{number}");
    }
    assert_well(&server);
}

/// Most of the log is data that was overwritten since; a snapshot frees it.
#[test]
fn a_disk_that_is_full_of_log_gets_room_by_itself() {
    let (disk, server) = match start("full-of-log", 60) {
        Ok(started) => started,
        Err(reason) => return skip(&reason),
    };
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/n0", b"", 0).unwrap();
    // The writes fill several log segments. A snapshot makes all of these superfluous.
    for number in 1..2_000 {
        assert_eq!(client.set("/n0", &data_of(number)), ErrorCode::OK);
    }
    disk.fill(2 * 1024 * 1024);
    let mut refusals = 0;
    for number in 2_000..6_000 {
        let data = data_of(number);
        wait_until("a write is taken", || match client.set("/n0", &data) {
            ErrorCode::OK => true,
            error => {
                assert_eq!(error, ErrorCode::SYSTEM_ERROR);
                refusals += 1;
                false
            }
        });
    }
    assert!(refusals > 0);
    assert_eq!(client.get("/n0"), Ok(data_of(5_999)));
    assert_well(&server);
}

/// The server reserves space for the next snapshot while the state grows. If the state grows faster
/// than that, writes must still not be refused on a disk with enough space.
#[test]
fn a_state_that_grows_fast_on_a_disk_with_room_is_never_refused() {
    let server = Server::start("full-not", &[]);
    let mut random = Random::new(5);
    let data: Vec<u8> = (0..900_000).map(|_| random.bits() as u8).collect();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (address, data) = (server.address(), &data);
            scope.spawn(move || {
                let mut client = Client::open(address, TIMEOUT_MS);
                for number in 0..50 {
                    let path = format!("/{writer}-{number}");
                    client.send(&Request::Write(create(&path, data, 0)));
                }
                for _ in 0..50 {
                    let answer = client.receive().expect("the connection stays");
                    assert_eq!(answer.header.error, ErrorCode::OK);
                }
            });
        }
    });
    let log = server.log();
    assert!(!log.contains("the disk is full") && !log.contains("no room"), "{log}");
}

/// A process that is killed when this is dropped.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // If this fails, the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Standard error may be a file on a full disk.
#[test]
fn a_server_that_can_write_no_line_of_its_log_serves_on() {
    let folder = folder("log-full");
    let data = folder.join("data");
    fs::write(folder.join("zoo.cfg"), format!("dataDir={}\nclientPort=0\n", data.display()))
        .unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = crate::server::command(&folder);
    let mut server =
        Ended(command.stderr(full).stdout(std::process::Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let stdout = server.0.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let address = line.split_whitespace().find_map(|word| word.strip_prefix("zk=")).expect(&line);
    let address = address.parse().unwrap();
    // This makes the server log a line: it refuses a client that has seen a higher zxid than its
    // own.
    assert!(matches!(Client::try_greet(address, 0, &[0; 16], i64::MAX), Greeted::Ended));
    let mut client = Client::open(address, TIMEOUT_MS);
    client.create("/there", b"", 0).unwrap();
    assert!(client.exists("/there"));
    drop(server);
    fs::remove_dir_all(folder).unwrap();
}

/// Like the test for ZooKeeper clients: puts are refused with an error that etcd has, and reads
/// still work.
#[test]
fn a_full_disk_refuses_puts_until_there_is_room() {
    let (disk, mut server) = match start("full-etcd", 200) {
        Ok(started) => started,
        Err(reason) => return skip(&reason),
    };
    let etcd = server.face("etcd");
    let value = |number: u64| STANDARD.encode(data_of(number));
    let filler = disk.fill(0);
    let (mut count, mut refused_since) = (0, None);
    while refused_since.is_none_or(|since: Instant| since.elapsed() < FULL_FOR) {
        if put(etcd, &format!("key{count}"), &value(count)) {
            (count, refused_since) = (count + 1, None);
        } else {
            refused_since.get_or_insert_with(Instant::now);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let holds = |etcd: SocketAddr, numbers: std::ops::Range<u64>| {
        for number in numbers {
            assert!(get(etcd, &format!("key{number}")) == Some(value(number)), "{number}");
        }
    };
    let (status, text) = request(etcd, "POST /v3/kv/put", r#"{"key":"YQ=="}"#).unwrap();
    assert_eq!(status, 429, "{text}");
    assert!(text.contains("etcdserver: mvcc: database space exceeded"), "{text}");
    holds(etcd, count.saturating_sub(100)..count);
    for _ in 0..3 {
        server.kill_nine();
        server.restart();
    }
    fs::remove_file(filler).unwrap();
    let etcd = server.face("etcd");
    for number in 0..500 {
        wait_until("a put is taken", || put(etcd, &format!("more{number}"), &value(number)));
    }
    holds(etcd, 0..count);
    server.kill_nine();
    server.restart();
    let etcd = server.face("etcd");
    holds(etcd, 0..count);
    assert_eq!(get(etcd, "more499"), Some(value(499)));
    // There is little free space yet, and right after the start no log segment is created ahead.
    wait_until("a put is taken", || put(etcd, "last", ""));
    assert_well(&server);
}
