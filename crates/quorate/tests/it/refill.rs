//! Members whose directories are not what they should be: each is found out, sets its directory aside,
//! and has the others' state again.

use std::fs;
use std::path::Path;
use std::process::Command;

use machine::freeze::FreezeStep;
use machine::{
    BootId, ChangeBatch, Command as MachineCommand, ConnectionId, Machine, MemberId, Origin, Stamp,
};
use member::recovery::restore_newest;
use storage::disk::RealDisk;
use storage::snapshot::SnapshotWriter;

use crate::client::Client;
use crate::ensemble::{Members, word};
use crate::server::wait_until;

const TIMEOUT_MS: i32 = 10_000;

/// Changes what the newest snapshot of a directory that nobody uses says, as no checksum shows.
fn falsify(data: &Path) {
    let disk = RealDisk::new(data).unwrap();
    let (meta, mut machine) = restore_newest(&disk, 0, |_| {}).unwrap();
    let stamp = Stamp {
        time_ms: 0,
        origin: Origin { member: MemberId(1), boot: BootId(1) },
        connection: ConnectionId(1),
        identities: &[],
    };
    let nothing = MachineCommand::ExpireSessions { sessions: Vec::new() };
    machine.apply(&stamp, &nothing, &mut ChangeBatch::default());
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

/// A new ensemble, the place of its leader, and a client of that which has made `/a`.
fn started(name: &str) -> (Members, usize, Client) {
    let mut members = Members::prepare(name, "");
    (0..3).for_each(|place| members.start(place));
    let leader = members.leader();
    let mut client = Client::open(members.clients[leader], TIMEOUT_MS);
    assert_eq!(client.create("/a", b"0", 0).as_deref(), Ok("/a"));
    (members, leader, client)
}

/// Starts the member again, whose directory is condemned: it comes back without it.
fn comes_back(members: &mut Members, place: usize, client: &mut Client) {
    members.start(place);
    let address = members.clients[place];
    wait_until("it serves again", || word(address, "srvr").contains("Mode: follower\n"));
    assert!(members.log(place).contains("joins an ensemble that is there"));
    assert!(members.data(place).join("set-aside-1").join("condemned").is_file());
    assert!(!members.data(place).join("condemned").exists());
    client.set("/a", b"the end");
    let mut there = Client::open(address, TIMEOUT_MS);
    wait_until("it has what the others have", || there.get("/a").as_deref() == Ok(b"the end"));
}

#[test]
fn a_server_whose_state_differs_from_the_others_is_found_and_refilled() {
    let (mut members, leader, mut client) = started("state-differs");
    let wrong = (leader + 1) % 3;
    members.stop_one(wrong);
    falsify(&members.data(wrong));
    members.start(wrong);
    let address = members.clients[wrong];
    wait_until("it serves", || word(address, "srvr").contains("Mode: follower\n"));
    // Each alone makes an entry of the log.
    for number in 0..300 {
        client.set("/a", number.to_string().as_bytes());
    }
    assert_eq!(members.wait_for_end(wrong).code(), Some(70));
    assert!(members.log(wrong).contains("differs from that of the majority"));
    assert!(members.log(leader).contains("differs from that of the majority"));
    comes_back(&mut members, wrong, &mut client);
    members.stop();
}

#[test]
fn a_leader_whose_state_differs_lets_another_lead_first() {
    let (mut members, wrong, _) = started("state-of-leader-differs");
    let other = (wrong + 1) % 3;
    members.stop_one(wrong);
    falsify(&members.data(wrong));
    members.start(wrong);
    let address = members.clients[wrong];
    wait_until("it serves", || word(address, "srvr").contains("Mode: follower\n"));
    members.make_leader(wrong);
    let mut client = Client::open(members.clients[other], TIMEOUT_MS);
    for number in 0..300 {
        client.set("/a", number.to_string().as_bytes());
    }
    assert_eq!(members.wait_for_end(wrong).code(), Some(70));
    members.leader_if(|place| place != wrong);
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
    assert!(members.log(old).contains("was acknowledged by this member"));
    comes_back(&mut members, old, &mut client);
    members.stop();
}
