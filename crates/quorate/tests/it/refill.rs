//! Tests of members that get the state from the others. A member with a wrong directory is
//! detected, sets the directory aside, and gets the state again. A member that has fallen off the
//! leader's log gets its snapshot from a follower. Also tests of ensembles that start from a
//! backup.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use machine::image::FreezeStep;
use machine::{
    BootId, Changes, Command as MachineCommand, ConnectionId, Machine, MemberId, Origin, Stamp,
};
use member::recovery::restore_newest;
use storage::disk::RealDisk;
use storage::snapshot::SnapshotWriter;

use zk::ErrorCode;
use zk::request::ReadKind;

use crate::client::{Client, read};
use crate::ensemble::{Members, word};
use crate::images;
use crate::server::{folder, wait_until};

const TIMEOUT_MS: i32 = 10_000;

/// Replaces the newest snapshot in a directory that no server uses: the new one has a different
/// state and right checksums.
fn falsify(data: &Path) {
    let disk = RealDisk::new(data).unwrap();
    let (meta, mut machine) = restore_newest(&disk, 0, |_| {}).unwrap();
    let stamp = Stamp {
        time_ms: 0,
        origin: Origin { member: MemberId(1), boot: BootId(1) },
        connection: ConnectionId(1),
        identities: &[],
    };
    let nothing = MachineCommand::Zk(machine::ZkCommand::ExpireSessions { sessions: Vec::new() });
    machine.apply(&stamp, &nothing, &mut Changes::default());
    let mut writer = SnapshotWriter::create(disk, &meta).unwrap();
    pieces(&mut machine).iter().for_each(|piece| writer.write_piece(piece).unwrap());
    writer.finish().unwrap();
}

fn pieces(machine: &mut Machine) -> Vec<Vec<u8>> {
    machine.freeze();
    let mut pieces = Vec::new();
    loop {
        match machine.freeze_step(usize::MAX, u32::MAX) {
            FreezeStep::Piece(piece) => pieces.push(piece),
            FreezeStep::Last(piece) => {
                pieces.push(piece);
                return pieces;
            }
            FreezeStep::Aborted => unreachable!("nobody changes it"),
        }
    }
}

/// Starts a new ensemble. Returns its members, the leader's index, and a client that has created
/// `/a`.
fn started(name: &str) -> (Members, usize, Client) {
    let mut members = Members::prepare(name, "");
    (0..3).for_each(|place| members.start(place));
    let leader = members.leader();
    let mut client = Client::open(members.clients[leader], TIMEOUT_MS);
    assert_eq!(client.create("/a", b"0", 0).as_deref(), Ok("/a"));
    (members, leader, client)
}

/// Waits until a member serves, and opens a client of it.
fn open(members: &Members, place: usize) -> Client {
    let address = members.clients[place];
    wait_until("it serves", || word(address, "srvr").contains("Mode: "));
    Client::open(address, TIMEOUT_MS)
}

/// Starts a member whose directory is condemned. Fails unless it comes back without its old data,
/// and then gets the state of the others.
fn comes_back(members: &mut Members, place: usize, client: &mut Client) {
    members.start(place);
    let address = members.clients[place];
    wait_until("it serves again", || word(address, "srvr").contains("Mode: follower\n"));
    assert!(members.log(place).contains("joins an existing ensemble"));
    assert!(members.data(place).join("set-aside-1").join("condemned").is_file());
    assert!(!members.data(place).join("condemned").exists());
    client.set("/a", b"the end");
    let mut there = Client::open(address, TIMEOUT_MS);
    wait_until("it has what the others have", || there.get("/a").as_deref() == Ok(b"the end"));
}

/// No client writes after the start: the server sends a digest of its state when it begins to
/// follow, and that shows the difference.
#[test]
fn a_server_whose_state_differs_from_the_others_is_found_and_refilled() {
    let (mut members, leader, mut client) = started("state-differs");
    let wrong = (leader + 1) % 3;
    members.stop_one(wrong);
    falsify(&members.data(wrong));
    members.start(wrong);
    assert_eq!(members.wait_for_end(wrong).code(), Some(70));
    assert!(members.log(wrong).contains("differs from that of the majority"));
    assert!(members.log(leader).contains("differs from that of the majority"));
    comes_back(&mut members, wrong, &mut client);
    members.stop();
}

/// While one server is away, nobody can tell which of the two others is wrong. All three are
/// stopped first, because a leader may remember the digests of the server that is away.
#[test]
fn a_leader_whose_state_differs_lets_another_lead_first() {
    let (mut members, wrong, _) = started("state-of-leader-differs");
    let (other, away) = ((wrong + 1) % 3, (wrong + 2) % 3);
    for place in [wrong, away, other] {
        members.stop_one(place);
    }
    falsify(&members.data(wrong));
    members.start(wrong);
    members.start(other);
    let address = members.clients[wrong];
    wait_until("it serves", || word(address, "srvr").contains("Mode: "));
    members.make_leader(wrong);
    members.start(away);
    assert_eq!(members.wait_for_end(wrong).code(), Some(70));
    assert!(members.log(wrong).contains("leadership was handed over"));
    members.leader_if(|place| place != wrong);
    let mut client = crate::ensemble::open(members.clients[other]);
    comes_back(&mut members, wrong, &mut client);
    members.stop();
}

#[test]
fn a_server_on_an_old_copy_of_its_directory_is_found_and_refilled() {
    let (mut members, leader, mut client) = started("old-copy");
    let old = (leader + 1) % 3;
    members.stop_one(old);
    let (data, copy) = (members.data(old), members.data(old).with_extension("copy"));
    let copied = Command::new("cp").arg("-a").args([&data, &copy]).status().unwrap();
    assert!(copied.success());
    members.start(old);
    let address = members.clients[old];
    wait_until("it serves", || word(address, "srvr").contains("Mode: follower\n"));
    for number in 0..20 {
        client.set("/a", number.to_string().as_bytes());
    }
    let mut there = Client::open(address, TIMEOUT_MS);
    wait_until("it has all of it", || there.get("/a").as_deref() == Ok(b"19"));
    members.stop_one(old);
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&copy, &data).unwrap();
    members.start(old);
    assert_eq!(members.wait_for_end(old).code(), Some(70));
    assert!(members.log(old).contains("the directory is an old copy"));
    comes_back(&mut members, old, &mut client);
    members.stop();
}

/// Runs `quorate restore` with these arguments. Returns its output, and whether it succeeded.
fn restore(words: &[&str]) -> (String, bool) {
    run("restore", words)
}

/// Runs a command of `quorate`. Returns its output, and whether it succeeded.
fn run(name: &str, words: &[&str]) -> (String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    let output = command.arg(name).args(words).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8(said).unwrap(), output.status.success())
}

/// The value of a metric of a member.
fn count(members: &Members, place: usize, name: &str) -> u64 {
    let told = word(members.clients[place], "mntr");
    let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    line.unwrap_or_else(|| panic!("no {name} in {told}")).parse().unwrap()
}

/// A client writes all the time, from before the member comes back until it serves.
#[test]
fn a_server_that_no_log_reaches_has_its_snapshot_from_a_follower() {
    let (mut members, leader, mut client) = started("lent");
    let (away, lender) = ((leader + 1) % 3, (leader + 2) % 3);
    members.stop_one(away);
    let left = Instant::now();
    // This is more than a leader keeps in memory for members that have just gone.
    let large = vec![7; 500_000];
    for number in 0..150 {
        let path = format!("/large{number}");
        assert_eq!(client.create(&path, &large, 0).as_deref(), Ok(&*path));
    }
    let leader_address = members.clients[leader];
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let is_over = is_over.clone();
        thread::spawn(move || {
            let mut client = Client::open(leader_address, TIMEOUT_MS);
            let mut count = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                count += 1;
                assert_eq!(client.set("/a", &[b'x'; 5_000]), ErrorCode::OK);
            }
            count
        })
    };
    // A leader keeps more of the log for a member that it heard a moment ago.
    wait_until("the leader has given it up", || left.elapsed() > Duration::from_secs(2));
    members.start(away);
    let address = members.clients[away];
    wait_until("it serves again", || word(address, "srvr").contains("Mode: follower\n"));
    is_over.store(true, Ordering::Relaxed);
    assert!(writer.join().unwrap() > 0);
    client.set("/a", b"the end");
    let mut there = Client::open(address, TIMEOUT_MS);
    wait_until("it has what the others have", || there.get("/a").as_deref() == Ok(b"the end"));
    assert_eq!(there.get("/large149").as_deref(), Ok(&*large));

    let fetched = count(&members, away, "zk_snapshots_fetched");
    assert!((1..=2).contains(&fetched), "{fetched}");
    assert_eq!(count(&members, away, "zk_snapshots_borrowed"), fetched);
    assert!(count(&members, lender, "zk_snapshot_bytes_sent") > 0);
    assert_eq!(count(&members, leader, "zk_snapshot_bytes_sent"), 0);
    let said = format!("from server {}", lender + 1);
    let log = members.log(away);
    let is_told = |line: &str| line.contains("it fetches the snapshot") && line.contains(&said);
    assert!(log.lines().any(is_told), "{log}");
    members.stop();
}

#[test]
fn an_ensemble_begins_with_a_backup() {
    let (mut members, leader, mut client) = started("restored");
    assert_eq!(client.create("/a/b", b"kept", 0).as_deref(), Ok("/a/b"));
    let follower = (leader + 1) % 3;
    let mut there = open(&members, follower);
    wait_until("the follower has it, too", || there.exists("/a/b"));
    let taken = images::snapshot(members.admin(follower));
    assert_eq!(taken.status, 200);
    // Only the writes after the backup are lost.
    client.create("/later", b"lost", 0).unwrap();
    let last_zxid = client.call(&read(ReadKind::Exists, "/later")).header.zxid;
    (0..3).for_each(|place| members.stop_one(place));

    let restored = members.data(0).with_extension("restored");
    let backup = members.data(0).with_extension("snap");
    fs::write(&backup, &taken.body).unwrap();
    let words =
        [backup.to_str().unwrap(), "--data-dir", restored.to_str().unwrap(), "--servers", "1,2,3"];
    let (said, is_done) = restore(&words);
    assert!(is_done && said.lines().count() == 3, "{said}");
    let (said, is_done) = restore(&words);
    assert!(!is_done && said.contains("it is the data directory of a server"), "{said}");
    for place in 0..3 {
        let data = members.data(place);
        fs::remove_dir_all(&data).unwrap();
        fs::rename(restored.join((place + 1).to_string()), &data).unwrap();
        fs::write(data.join("myid"), (place + 1).to_string()).unwrap();
        members.start(place);
    }
    let leader = members.leader();
    for place in [leader, (leader + 1) % 3] {
        let mut client = open(&members, place);
        assert_eq!(client.get("/a/b").as_deref(), Ok(&b"kept"[..]));
        let answer = client.call(&read(ReadKind::Exists, "/later"));
        assert_eq!(answer.header.error, ErrorCode::NO_NODE);
        assert!(answer.header.zxid > last_zxid, "{} after {last_zxid}", answer.header.zxid);
        assert_eq!(client.create(&format!("/{place}"), b"", 0), Ok(format!("/{place}")));
    }
    members.stop();
}

/// Every file below a folder, with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// Two of three servers are killed, one after the other, and the second one's directory is lost
/// together with that of a third. What was acknowledged while one was already gone is in the
/// directory that survives.
#[test]
fn an_ensemble_goes_on_from_one_directory_that_survives() {
    let (mut members, leader, mut client) = started("recovered");
    let (behind, lost) = ((leader + 1) % 3, (leader + 2) % 3);
    members.kill_nine(behind);
    for number in 0..20 {
        let path = format!("/kept{number}");
        assert_eq!(client.create(&path, b"x", 0).as_deref(), Ok(&*path));
    }
    let last_zxid = client.call(&read(ReadKind::Exists, "/a")).header.zxid;
    let recovered = members.data(0).with_extension("recovered");
    let [ahead, behind_dir] = [leader, behind].map(|place| members.data(place));
    let [ahead, behind_dir] = [&ahead, &behind_dir].map(|path| path.to_str().unwrap());
    let to = ["--data-dir", recovered.to_str().unwrap(), "--servers", "1,2,3"];
    let (said, is_done) = run("recover", &[&[ahead][..], &to].concat());
    assert!(!is_done && said.contains("stop its server first"), "{said}");
    members.kill_nine(leader);
    members.kill_nine(lost);

    let before = [leader, behind].map(|place| files(&members.data(place)));
    let alone = [&[behind_dir][..], &to, &["--dry-run"]].concat();
    let (said, is_done) = run("recover", &alone);
    assert!(is_done && said.contains("are lost, if there are any"), "{said}");
    assert!(said.contains("nothing was made") && !recovered.exists(), "{said}");
    let others = [leader, lost].map(|place| format!("server {}", place + 1));
    assert!(others.iter().all(|server| said.contains(server)), "{said}");
    let (said, is_done) = run("recover", &[&[behind_dir, ahead][..], &to].concat());
    assert!(is_done && said.contains(&format!("{ahead} goes furthest")), "{said}");
    assert!(said.contains("no acknowledged write is missing"), "{said}");
    assert_eq!([leader, behind].map(|place| files(&members.data(place))), before);
    let (said, is_done) = run("recover", &[&[ahead][..], &to].concat());
    assert!(!is_done && said.contains("it is the data directory of a server"), "{said}");

    // The server that was lost comes back with its old directory, and is refused.
    for place in [leader, behind] {
        let data = members.data(place);
        fs::remove_dir_all(&data).unwrap();
        fs::rename(recovered.join((place + 1).to_string()), &data).unwrap();
        fs::write(data.join("myid"), (place + 1).to_string()).unwrap();
    }
    (0..3).for_each(|place| members.start(place));
    let leader = members.leader_if(|place| place != lost);
    let mut client = open(&members, leader);
    for number in 0..20 {
        assert_eq!(client.get(&format!("/kept{number}")).as_deref(), Ok(&b"x"[..]));
    }
    let zxid = client.call(&read(ReadKind::Exists, "/a")).header.zxid;
    assert!(zxid > last_zxid, "{zxid} after {last_zxid}");
    assert_eq!(client.set("/a", b"the end"), ErrorCode::OK);
    wait_until("it is refused", || members.log(lost).contains("it belongs to another ensemble"));
    // With an empty directory it takes part. The log of the others begins with the first write, but
    // they began with a state that it lacks.
    members.kill_nine(lost);
    let data = members.data(lost);
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir(&data).unwrap();
    fs::write(data.join("myid"), (lost + 1).to_string()).unwrap();
    members.start(lost);
    let mut there = open(&members, lost);
    wait_until("it has what the others have", || there.get("/a").as_deref() == Ok(b"the end"));
    assert_eq!(there.get("/kept7").as_deref(), Ok(&b"x"[..]));
    members.stop();
}

#[test]
fn what_is_no_backup_is_restored_to_nothing() {
    let folder = folder("no-backup");
    let (backup, data) = (folder.join("backup"), folder.join("data"));
    fs::write(&backup, [7; 5_000]).unwrap();
    for servers in [&["--servers", "1,2,3"][..], &[]] {
        let words = [backup.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
        let (said, is_done) = restore(&[&words[..], servers].concat());
        assert!(
            !is_done && said.contains("cannot be restored") && said.lines().count() == 1,
            "{said}"
        );
        assert_eq!(said.matches("is corrupt at byte").count(), 1, "{said}");
        assert!(!data.exists());
    }
    fs::remove_dir_all(&folder).unwrap();
}
