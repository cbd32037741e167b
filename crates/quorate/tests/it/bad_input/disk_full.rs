//! A disk without room: writes are refused and say so, reads go on, and when there is room again
//! writes are taken again. Nothing that was acknowledged is lost.

use std::path::{Path, PathBuf};
use std::process::Command;

use member::limits::SNAPSHOT_RETRY_MS;
use storage::limits::{RESERVE_COUNT, SPARE_COUNT_DEFAULT};
use workload::generate::Random;

use super::*;
use crate::client::{Greeted, create};
use crate::server::folder;

/// Segments that a server makes ahead, the reserve included.
const SPARES: usize = SPARE_COUNT_DEFAULT + RESERVE_COUNT;

/// A small file system of its own, in memory; gone when dropped.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// None, and why, where this process may not mount.
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

    /// Takes all room but so many bytes. The server may take some at the same time.
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
            // What is left lies below the target folder.
            let _ = fs::remove_dir_all(self.path.parent().unwrap());
        }
    }
}

/// Longer than the server waits until it tries again what may make room.
const FULL_FOR: Duration = Duration::from_millis(SNAPSHOT_RETRY_MS + 2_000);

fn path_of(number: u64) -> String {
    format!("/n{number}")
}

/// What the znode has: 10,000 bytes that nothing compresses, so that each needs its room in the log
/// and in a snapshot.
fn data_of(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..1_250).flat_map(|_| random.bits().to_le_bytes()).collect()
}

/// Makes znodes from that number on until that is refused for good, and gives the number that is.
/// Refusals for a while are those that a snapshot ends.
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

/// Each of them is there, and has what it got.
fn assert_holds(client: &mut Client, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert!(client.get(&path_of(number)) == Ok(data_of(number)), "{number}");
    }
}

/// A server whose data is on a small disk; none, and why, where nothing can be mounted.
fn start(name: &str, mib: u32) -> Result<(SmallDisk, Server), String> {
    let mounted = folder(&format!("disk-of-{name}")).join("mounted");
    let disk = SmallDisk::mount(&mounted, mib)?;
    let line = format!("dataDir={}", mounted.join("data").display());
    let server = Server::start(name, &[&line]);
    // What is still being made ahead would be room that comes back.
    wait_until("segments are made ahead", || spare_count(&mounted.join("data/wal")) == SPARES);
    Ok((disk, server))
}

fn spare_count(folder: &Path) -> usize {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".spare")).count()
}

/// Says that a test was not done.
pub fn skip(reason: &str) {
    println!("skipped=1: no file system can be mounted: {reason}");
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
    assert!(log.contains("gets no further segment for now: the disk is full"), "{log}");
    assert!(log.contains("no room for the log or the next snapshot: writes are refused"), "{log}");
    // Reads and syncs go on, and so do refusals.
    for _ in 0..20 {
        assert_holds(&mut client, count - 100..count);
        assert_eq!(client.set(&path_of(0), b"x"), ErrorCode::SYSTEM_ERROR);
        assert_eq!(client.call(&Request::Sync { path: Some("/") }).header.error, ErrorCode::OK);
    }
    // It starts on the full disk as well, as often as it must. No session is opened.
    for _ in 0..5 {
        server.kill_nine();
        server.restart();
    }
    fs::remove_file(filler).unwrap();
    let mut client = reopen(&server);
    assert_holds(&mut client, 0..count);
    for number in 0..2_000 {
        // That there is room is noticed within half a second.
        wait_until("a write is taken", || {
            client.set(&path_of(number % 100), &data_of(number)) == ErrorCode::OK
        });
    }
    server.kill_nine();
    server.restart();
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert_eq!(client.get(&path_of(99)), Ok(data_of(1_999)));
    assert_holds(&mut client, 100..count);
    assert_well(&server);
}

/// A client with a session, as soon as one is given again.
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

/// The same without a restart: the session lives through it. The server's own files fill the disk
/// more and more; a few MiB are enough to get it out of that.
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

/// Another's file takes what room there is, again and again: what is overwritten needs no more of
/// it.
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
    // Several times all room that there is for the log.
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

/// Most of the log is what was overwritten long ago: a snapshot lets go of it.
#[test]
fn a_disk_that_is_full_of_log_gets_room_by_itself() {
    let (disk, server) = match start("full-of-log", 60) {
        Ok(started) => started,
        Err(reason) => return skip(&reason),
    };
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/n0", b"", 0).unwrap();
    // Several segments of log, each of which a snapshot makes useless.
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

/// Room for the next snapshot is made as the state grows. Where it grows faster than that, the disk
/// is not full for that reason.
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

/// A process that is ended when it is dropped.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What standard error is written to may be on a disk that is full, too.
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
    // It says that it turns away who has seen more than it has.
    assert!(matches!(Client::try_greet(address, 0, &[0; 16], i64::MAX), Greeted::Ended));
    let mut client = Client::open(address, TIMEOUT_MS);
    client.create("/there", b"", 0).unwrap();
    assert!(client.exists("/there"));
    drop(server);
    fs::remove_dir_all(folder).unwrap();
}
