//! A disk without room: writes are refused and say so, reads go on, and when there is room again
//! writes are taken again. Nothing that was acknowledged is lost.

use std::path::{Path, PathBuf};
use std::process::Command;

use storage::limits::{RESERVE_COUNT, SPARE_COUNT_DEFAULT};
use workload::generate::Random;

use super::*;
use crate::client::Greeted;
use crate::server::folder;

/// Segments that a server makes ahead, the reserve included.
const SPARES: usize = SPARE_COUNT_DEFAULT + RESERVE_COUNT;

/// A small file system of its own, in memory; gone when dropped.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// None, and why, where this process may not mount.
    fn mount(path: &Path, mib: u32) -> Result<SmallDisk, String> {
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
    fn fill(&self, left: u64) -> PathBuf {
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

/// Znodes that are set in turn. Together they do not fit what is left of a full disk, however they
/// are compressed: so no snapshot makes room.
const ZNODES: u64 = 200;

fn path_of(number: u64) -> String {
    format!("/n{}", number % ZNODES)
}

/// What the znode is set to; of 10,000 bytes that nothing compresses.
fn data_of(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..1_250).flat_map(|_| random.bits().to_le_bytes()).collect()
}

fn make_znodes(client: &mut Client) {
    for number in 0..ZNODES {
        client.create(&path_of(number), &data_of(number), 0).unwrap();
    }
}

/// Sets znodes until that is refused, and gives the last number that was not.
fn write_until_refused(client: &mut Client, from: u64, count_max: u64) -> Option<u64> {
    for number in from..from + count_max {
        match client.set(&path_of(number), &data_of(number)) {
            ErrorCode::OK => {}
            ErrorCode::SYSTEM_ERROR => return Some(number - 1),
            error => panic!("{error:?}"),
        }
    }
    None
}

/// Every znode holds the last of its numbers up to `last`.
fn assert_holds(client: &mut Client, last: u64) {
    for number in last + 1 - ZNODES..=last {
        assert!(client.get(&path_of(number)) == Ok(data_of(number)), "{number} of {last}");
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

fn skip(reason: &str) {
    println!("skipped=1: no file system can be mounted: {reason}");
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let (disk, mut server) = match start("full", 200) {
        Ok(started) => started,
        Err(reason) => return skip(&reason),
    };
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    make_znodes(&mut client);
    let filler = disk.fill(0);
    let last = write_until_refused(&mut client, ZNODES, 100_000).expect("the disk gets full");
    assert!(server.log().contains("the disk is full: writes are refused"));
    // Reads and syncs go on, and so do refusals.
    for number in 0..20 {
        assert_holds(&mut client, last);
        assert_eq!(client.set(&path_of(number), b"x"), ErrorCode::SYSTEM_ERROR);
        assert_eq!(client.call(&Request::Sync { path: Some("/") }).header.error, ErrorCode::OK);
    }
    // It starts on the full disk as well, as often as it must. No session is opened.
    for _ in 0..5 {
        server.kill_nine();
        server.restart();
    }
    fs::remove_file(filler).unwrap();
    let mut client = reopen(&server);
    assert_holds(&mut client, last);
    for number in last + 1..=last + 2_000 {
        // That there is room is noticed within half a second.
        wait_until("a write is taken", || {
            client.set(&path_of(number), &data_of(number)) == ErrorCode::OK
        });
    }
    server.kill_nine();
    server.restart();
    assert_holds(&mut Client::open(server.address(), TIMEOUT_MS), last + 2_000);
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

/// The same without a restart: the session lives through it.
#[test]
fn a_disk_that_is_full_for_a_while_costs_no_session() {
    let (disk, server) = match start("full-for-a-while", 160) {
        Ok(started) => started,
        Err(reason) => return skip(&reason),
    };
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    make_znodes(&mut client);
    client.create("/ephemeral", b"", crate::client::EPHEMERAL).unwrap();
    let mut from = ZNODES;
    for _ in 0..3 {
        let filler = disk.fill(0);
        let last = write_until_refused(&mut client, from, 100_000).expect("the disk gets full");
        assert_holds(&mut client, last);
        fs::remove_file(filler).unwrap();
        from = last + 1;
        wait_until("writes are taken again", || {
            client.set(&path_of(from), &data_of(from)) == ErrorCode::OK
        });
    }
    assert_holds(&mut client, from);
    assert!(client.exists("/ephemeral"));
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
