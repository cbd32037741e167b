//! Tests an ensemble while the disk of one member hangs: its file system is frozen for 8 s, so
//! every write to it waits. Meanwhile clients of all members must be able to continue writing, and
//! no acknowledged write may be lost.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use zk::ErrorCode;
use zk::request::{Request, WriteRequest};

use crate::bad_input::disk_full::skip;
use crate::client::{Client, Greeted};
use crate::ensemble::{Members, open, word};
use crate::etcd::{get, put};
use crate::server::{Over, wait_until};

/// How long the disk hangs.
const FROZEN_FOR: Duration = Duration::from_secs(8);

/// The size of a member's file system: enough for log segments and snapshots.
const DISK_BYTES: u64 = 1 << 30;

/// A file system on a loop device. Dropping this thaws and unmounts it.
struct LoopDisk {
    mounted: PathBuf,
    image: PathBuf,
}

impl LoopDisk {
    /// Creates an empty file system, and mounts it at a folder. The error says why this process
    /// cannot mount one.
    fn mount(mounted: &Path) -> Result<LoopDisk, String> {
        let image = mounted.with_extension("image");
        File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(mounted))?;
        Ok(LoopDisk { mounted: mounted.to_path_buf(), image })
    }

    fn freeze(&self) -> Result<(), String> {
        run(Command::new("fsfreeze").arg("-f").arg(&self.mounted))
    }

    fn thaw(&self) -> Result<(), String> {
        run(Command::new("fsfreeze").arg("-u").arg(&self.mounted))
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Fails harmlessly if the file system is not frozen.
        let _ = self.thaw();
        let _ = Command::new("umount").arg("-l").arg(&self.mounted).status();
        let _ = fs::remove_file(&self.image);
    }
}

/// Runs a command. The error is the command's error output.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
    }
}

/// Starts three members, each on its own file system. Also returns the index of the leader.
fn start(name: &str) -> Result<(Members, Vec<LoopDisk>, usize), String> {
    start_members(Members::prepare(name, ""))
}

fn start_members(mut members: Members) -> Result<(Members, Vec<LoopDisk>, usize), String> {
    let mut disks = Vec::new();
    for place in 0..3 {
        let data = members.data(place);
        disks.push(LoopDisk::mount(&data)?);
        fs::write(data.join("myid"), format!("{}\n", place + 1)).unwrap();
    }
    (0..3).for_each(|place| members.start(place));
    wait_for_all(&members.clients);
    let leader = members.leader();
    Ok((members, disks, leader))
}

fn wait_for_all(clients: &[SocketAddr]) {
    wait_until("all of them serve", || {
        clients.iter().all(|address| word(*address, "srvr").contains("\nMode: "))
    });
}

/// Sets a znode to one number after the other, in a single session, until `is_over`.
fn write(address: SocketAddr, path: &str, acknowledged: &AtomicU64, is_over: &AtomicBool) {
    let mut client = open(address);
    assert_eq!(client.create(path, b"0", 0).as_deref(), Ok(path));
    let mut number = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        assert_eq!(client.set(path, number.to_string().as_bytes()), ErrorCode::OK, "{path}");
        acknowledged.store(number, Ordering::Relaxed);
    }
}

/// Like [`write`], but if its connection ends, the session moves on to the next address.
fn write_anywhere(
    addresses: &[SocketAddr],
    path: &str,
    acknowledged: &AtomicU64,
    is_over: &AtomicBool,
) {
    let mut client = open(addresses[0]);
    assert_eq!(client.create(path, b"0", 0).as_deref(), Ok(path));
    let (session, password) = (client.session, client.password.clone());
    let mut next = addresses.iter().cycle().skip(1);
    let mut number = 1_u64;
    while !is_over.load(Ordering::Relaxed) {
        let data = number.to_string();
        let data = Some(data.as_bytes());
        let set = Request::Write(WriteRequest::SetData { path, data, version: -1 });
        match client.try_call(&set) {
            Some(answer) => {
                assert_eq!(answer.header.error, ErrorCode::OK, "{path}");
                acknowledged.store(number, Ordering::Relaxed);
                number += 1;
            }
            None => wait_until("the session is attached elsewhere", || {
                let address = *next.next().unwrap();
                match Client::try_greet(address, session, &password, 0) {
                    Greeted::Attached(attached) => client = *attached,
                    Greeted::Refused => panic!("the session of {path} has expired"),
                    Greeted::Ended => return false,
                }
                true
            }),
        }
    }
}

/// Freezes a disk for [`FROZEN_FOR`]. Each of the numbers must grow by more than one meanwhile,
/// since one write may already have been under way. Then `over` stops the writers.
fn hang_until_all_went_on<const COUNT: usize>(
    disk: &LoopDisk,
    over: Over,
    numbers: impl Fn() -> [u64; COUNT],
) {
    wait_until("all write", || numbers().iter().all(|number| *number > 0));
    disk.freeze().unwrap();
    let at_freeze = numbers();
    std::thread::sleep(FROZEN_FOR);
    let at_thaw = numbers();
    disk.thaw().unwrap();
    drop(over);
    for (before, after) in at_freeze.iter().zip(at_thaw) {
        assert!(after > before + 1, "from {at_freeze:?} to {at_thaw:?} while the disk hung");
    }
}

/// Freezes the disk of the member `frozen` while a client writes at each member. `whose` becomes
/// part of the znodes' names. All clients must have writes acknowledged before the disk works
/// again; the client of the frozen member may move to another member.
fn hang(members: &Members, disks: &[LoopDisk], frozen: usize, whose: &str) {
    let places: Vec<usize> = (frozen..frozen + 3).map(|place| place % 3).collect();
    let addresses: Vec<SocketAddr> = places.iter().map(|place| members.clients[*place]).collect();
    let paths: Vec<String> = places.iter().map(|place| format!("/{whose}-{place}")).collect();
    let acknowledged = [const { AtomicU64::new(0) }; 3];
    let is_over = AtomicBool::new(false);
    let numbers = || acknowledged.each_ref().map(|it| it.load(Ordering::Relaxed));
    std::thread::scope(|scope| {
        let (is_over, addresses) = (&is_over, &addresses);
        let over = Over(is_over);
        let own = (&paths[0], &acknowledged[0]);
        scope.spawn(move || write_anywhere(addresses, own.0, own.1, is_over));
        for place in 1..3 {
            let (path, acknowledged) = (&paths[place], &acknowledged[place]);
            scope.spawn(move || write(addresses[place], path, acknowledged, is_over));
        }
        hang_until_all_went_on(&disks[frozen], over, numbers);
    });
    wait_for_all(&members.clients);
    for address in &members.clients {
        let mut client = open(*address);
        for (path, number) in paths.iter().zip(numbers()) {
            assert_eq!(
                client.call(&Request::Sync { path: Some(path) }).header.error,
                ErrorCode::OK
            );
            assert_eq!(client.get(path), Ok(number.to_string().into_bytes()), "{path}");
        }
    }
}

#[test]
fn a_hung_disk_of_one_member_stops_no_client() {
    let (members, disks, leader) = match start("hung-disk") {
        Ok(started) => started,
        Err(reason) => return skip(&reason),
    };
    hang(&members, &disks, leader, "leader");
    // By now another member may lead.
    let leader = members.leader();
    hang(&members, &disks, (leader + 1) % 3, "follower");
    let folder = members.folder.clone();
    members.stop_keeping_files();
    drop(disks);
    fs::remove_dir_all(folder).unwrap();
}

/// Puts one key after the other at a member, until `is_over`.
fn put_keys(address: SocketAddr, whose: &str, acknowledged: &AtomicU64, is_over: &AtomicBool) {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        if put(address, &format!("{whose}/{number}"), &number.to_string()) {
            number += 1;
            acknowledged.store(number, Ordering::Relaxed);
        }
    }
}

/// Freezes the disk of a member while etcd clients put keys at the other two.
fn hang_beside_puts(etcd: [SocketAddr; 3], disks: &[LoopDisk], frozen: usize, whose: &str) {
    let others = [(frozen + 1) % 3, (frozen + 2) % 3];
    let names = others.map(|place| format!("{whose}-{place}"));
    let acknowledged = [const { AtomicU64::new(0) }; 2];
    let is_over = AtomicBool::new(false);
    let numbers = || acknowledged.each_ref().map(|it| it.load(Ordering::Relaxed));
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let over = Over(is_over);
        for ((place, name), acknowledged) in others.iter().zip(&names).zip(&acknowledged) {
            let address = etcd[*place];
            scope.spawn(move || put_keys(address, name, acknowledged, is_over));
        }
        hang_until_all_went_on(&disks[frozen], over, numbers);
    });
    for address in etcd {
        for (name, count) in names.iter().zip(numbers()) {
            for number in 0..count {
                let value = get(address, &format!("{name}/{number}"));
                assert_eq!(value, Some(number.to_string()), "{name}/{number}");
            }
        }
    }
}

#[test]
fn a_hung_disk_of_one_member_stops_no_client_of_etcd() {
    let members = Members::prepare("hung-disk-etcd", "");
    let etcd = members.prepare_etcd();
    let (members, disks, leader) = match start_members(members) {
        Ok(started) => started,
        Err(reason) => return skip(&reason),
    };
    wait_until("all serve etcd's clients", || etcd.iter().all(|it| put(*it, "first", "")));
    hang_beside_puts(etcd, &disks, leader, "leader");
    // By now another member may lead.
    let leader = members.leader();
    hang_beside_puts(etcd, &disks, (leader + 1) % 3, "follower");
    let folder = members.folder.clone();
    members.stop_keeping_files();
    drop(disks);
    fs::remove_dir_all(folder).unwrap();
}
