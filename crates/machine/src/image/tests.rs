use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;
use crate::change::Changes;
use crate::codec::{Reader, Write};
use crate::command::Command;
use crate::ids::{Attachment, BootId, ConnectionId, MemberId, Origin, SessionId};
use crate::image::format::{FORMAT_VERSION, TAG_END, TAG_FRAME};
use crate::image::restore::{DecodedPiece, Decoder, Restore, RestoreError};
use crate::limits::RESTORED_NUMBER_MAX;
use crate::machine::tests::rig::{Random, Rig, check_invariants, dump, random_sent};
use crate::stamp::Stamp;
use crate::zk::acl;
use crate::zk::freeze::{Image, TAG_SESSION, TAG_START, TAG_ZNODE, TreeFreeze};
use crate::zk::sessions::Session;
use crate::zk::settings::Settings;
use crate::{ControlCommand, Outcome};

/// A machine that has applied random commands.
fn random_rig(random: &mut Random, commands: usize) -> Rig {
    let mut rig = Rig::default();
    rig.run("configure extended");
    run_random(&mut rig, random, commands);
    rig
}

fn run_random(rig: &mut Rig, random: &mut Random, commands: usize) {
    for _ in 0..commands {
        let sent = random_sent(random, &rig.machine);
        rig.apply(&sent);
    }
}

/// All pieces of an image that is taken while nothing else happens.
fn image(machine: &mut Machine, bytes: usize, slots_max: u32) -> Vec<Vec<u8>> {
    machine.freeze();
    let mut pieces = Vec::new();
    loop {
        match machine.freeze_step(bytes, slots_max) {
            FreezeStep::Piece(piece) => pieces.push(piece),
            FreezeStep::Last(piece) => {
                pieces.push(piece);
                return pieces;
            }
            FreezeStep::Aborted => unreachable!("nothing changed meanwhile"),
        }
    }
}

fn restore(pieces: &[Vec<u8>]) -> Result<Machine, RestoreError> {
    let mut restore = Restore::default();
    for piece in pieces {
        restore.piece(piece)?;
    }
    restore.finish()
}

fn restore_bytes(bytes: &[u8]) -> Result<Machine, RestoreError> {
    restore(&[bytes.to_vec()])
}

/// A small image with a session, an ephemeral, ACLs, counters, null data and vacant slots.
fn small_image() -> Vec<u8> {
    let mut rig = Rig::default();
    rig.run("create /gone; create /a x; create /a/b null; create /a/e mode=1; delete /gone");
    rig.run("create /r acl=world:anyone=r; create /s mode=2; delete /a/b; configure extended");
    assert!(rig.machine.begin_batch(Origin::default(), 1));
    image(&mut rig.machine, usize::MAX, u32::MAX).concat()
}

fn assert_same(restored: &mut Machine, original: &Machine) {
    assert_eq!(dump(restored), dump(original));
    assert_eq!(restored.digest(), original.digest());
    assert_eq!(restored.index(), original.index());
    assert_eq!(restored.mark(), original.mark());
    assert_eq!(restored.zk.tree.data_bytes(), original.zk.tree.data_bytes());
    check_invariants(restored);
}

#[test]
fn a_new_machine_is_restored_from_its_image() {
    let mut machine = Machine::default();
    machine.finish_entry(LogIndex(2));
    let pieces = image(&mut machine, 1 << 20, 1 << 20);
    assert_eq!(pieces.len(), 1);
    assert_same(&mut restore(&pieces).unwrap(), &machine);
}

#[test]
fn an_image_has_no_more_bytes_than_were_foretold() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut rig = random_rig(&mut random, 300);
        let foretold = rig.machine.image_bytes_max();
        for (bytes, slots_max) in [(1 << 20, 1 << 20), (1, 1)] {
            let pieces = image(&mut rig.machine, bytes, slots_max);
            let bytes = pieces.concat().len() as u64;
            assert!(bytes <= foretold, "seed {seed}: {bytes} bytes, {foretold} foretold");
            // The bound counts whole paths, and a frame for each znode, so it is somewhat higher.
            let paths = dump(&rig.machine).len() as u64;
            let frames = u64::from(rig.machine.zk.tree.znode_count()) * FRAME_HEAD_BYTES;
            assert!(
                foretold <= bytes + paths + frames,
                "seed {seed}: {bytes} bytes, {foretold} foretold"
            );
        }
    }
}

#[test]
fn what_is_foretold_of_settings_is_what_they_have() {
    let text = Some("text".to_string());
    for (super_digest, sasl_any_user) in
        [(None, None), (text.clone(), None), (None, text.clone()), (text.clone(), text)]
    {
        let settings = Settings { super_digest, sasl_any_user, ..Settings::default() };
        let mut bytes = Vec::new();
        settings.encode(&mut bytes);
        assert_eq!(settings.encoded_bytes(), bytes.len() as u64);
    }
}

#[test]
fn an_image_is_that_of_one_index_whatever_runs_meanwhile() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut rig = random_rig(&mut random, 120);
        // The expected result: a copy of the machine at this point, from an image that nothing
        // disturbed.
        let mut stopped = restore(&image(&mut rig.machine, 1 << 20, 1 << 20)).unwrap();
        assert_same(&mut stopped, &rig.machine);
        let (bytes, slots_max) = (random.pick(&[1, 100, 1000]), random.pick(&[1, 3, 50]));
        rig.machine.freeze();
        let mut pieces = Vec::new();
        loop {
            let commands = random.below(6);
            run_random(&mut rig, &mut random, commands);
            match rig.machine.freeze_step(bytes, slots_max) {
                FreezeStep::Piece(piece) => pieces.push(piece),
                FreezeStep::Last(piece) => {
                    pieces.push(piece);
                    break;
                }
                FreezeStep::Aborted => unreachable!("the limit is far"),
            }
            assert!(pieces.len() < 10_000, "seed {seed}: the walk moves on");
        }
        assert!(!rig.machine.is_freezing());
        assert_same(&mut restore(&pieces).unwrap(), &stopped);
        check_invariants(&mut rig.machine);
    }
}

#[test]
fn a_freeze_changes_nothing() {
    let mut random = Random(9);
    let mut rig = random_rig(&mut random, 100);
    let before = (rig.machine.digest(), dump(&rig.machine));
    image(&mut rig.machine, 10, 2);
    assert_eq!((rig.machine.digest(), dump(&rig.machine)), before);
}

#[test]
fn a_restored_machine_goes_on_as_the_one_that_never_stopped() {
    for seed in 0..40 {
        let mut random = Random(300 + seed);
        let mut rig = random_rig(&mut random, 100);
        let machine = restore(&image(&mut rig.machine, 500, 10)).unwrap();
        let mut restored = Rig { machine, changes: Default::default() };
        rig.changes = Default::default();
        for _ in 0..100 {
            let sent = random_sent(&mut random, &rig.machine);
            assert_eq!(rig.apply(&sent), restored.apply(&sent), "seed {seed}: {sent:?}");
            assert_eq!(rig.machine.digest(), restored.machine.digest(), "seed {seed}");
        }
        assert_eq!(rig.take_changes(), restored.take_changes());
        assert_same(&mut restored.machine, &rig.machine);
    }
}

#[test]
fn slots_filled_or_emptied_since_are_not_of_the_image() {
    let scripts = [
        "create /new",
        "delete /a/b",
        "delete /a/b; create /other",
        "set /a y",
        "acl /a",
        "create /a/c; delete /a/c",
        "multi delete /a/b + malformed",
        "multi set /a y + malformed",
        "multi create /n + create /n/m + malformed",
        "delete /v; create /v z",
        "close",
    ];
    for script in scripts {
        let mut rig = Rig::default();
        rig.run("create /v; create /a x; create /a/b; create /e mode=1; create /f; delete /f");
        let before = dump(&rig.machine);
        rig.machine.freeze();
        rig.run(script);
        let FreezeStep::Last(piece) = rig.machine.freeze_step(1 << 20, 1 << 20) else {
            unreachable!("one step is enough")
        };
        assert_eq!(dump(&restore(&[piece]).unwrap()), before, "{script}");
    }
}

#[test]
fn a_piece_is_of_the_wanted_size_or_a_little_more() {
    let mut rig = Rig::default();
    for number in 0..200 {
        rig.run(&format!("create /n{number} {}", "x".repeat(100)));
    }
    let pieces = image(&mut rig.machine, 1000, u32::MAX);
    assert!(pieces.len() > 20);
    assert!(pieces.iter().all(|piece| piece.len() < 1300), "one record more at most");
    assert_eq!(image(&mut rig.machine, usize::MAX, 10).len(), 21);
}

#[test]
fn too_many_old_images_abort_the_freeze() {
    let mut rig = Rig::default();
    rig.run("create /a; create /b");
    rig.machine.freeze_with_limit(100);
    assert!(rig.machine.is_freezing());
    rig.run("set /a x; set /b x; create /c; delete /a");
    assert_eq!(rig.machine.freeze_step(1, 1), FreezeStep::Aborted);
    assert!(!rig.machine.is_freezing());
    check_invariants(&mut rig.machine);
    let pieces = image(&mut rig.machine, 10, 1);
    assert_same(&mut restore(&pieces).unwrap(), &rig.machine);
}

#[test]
fn old_images_up_to_the_limit_are_kept() {
    let one = {
        let mut rig = Rig::default();
        rig.run("create /a");
        rig.machine.freeze();
        rig.run("set /a x");
        rig.machine.zk.tree.freeze.as_ref().unwrap().old.len()
    };
    for (limit, expected) in [(one, false), (one - 1, true)] {
        let mut rig = Rig::default();
        rig.run("create /a");
        rig.machine.freeze_with_limit(limit);
        rig.run("set /a x");
        let step = rig.machine.freeze_step(1 << 20, 1 << 20);
        assert_eq!(step == FreezeStep::Aborted, expected, "limit {limit}");
    }
}

/// In one piece of an image, many sessions and old images could exceed the size of a snapshot's
/// piece.
#[test]
fn many_sessions_and_many_old_images_stand_in_pieces_of_their_own() {
    let mut rig = Rig::default();
    let data = "x".repeat(10_000);
    rig.run(&format!("create /a {data}; create /b {data}"));
    for session in 100..130 {
        rig.run(&format!("#{session} open"));
    }
    let before = dump(&rig.machine);
    rig.machine.freeze();
    rig.run("set /a y; set /b y");
    let FreezeStep::Piece(first) = rig.machine.freeze_step(2_000, u32::MAX) else {
        unreachable!("the old images are left")
    };
    assert!(first.len() < 10_000, "{} bytes", first.len());
    let mut pieces = vec![first];
    loop {
        match rig.machine.freeze_step(2_000, u32::MAX) {
            FreezeStep::Piece(piece) => pieces.push(piece),
            FreezeStep::Last(piece) => break pieces.push(piece),
            FreezeStep::Aborted => unreachable!("the limit is far"),
        }
    }
    assert_eq!(dump(&restore(&pieces).unwrap()), before);
}

#[test]
fn sessions_are_cut_into_pieces_between_two_of_them() {
    let mut rig = Rig::default();
    rig.run("create /a x");
    for session in 100..300 {
        rig.run(&format!("#{session} open"));
    }
    rig.run("#299 create /e x mode=1");
    let before = dump(&rig.machine);
    for bytes in [1, 60, 61, 62, 1_000] {
        let pieces = image(&mut rig.machine, bytes, u32::MAX);
        // A piece may exceed its size by one session; the first also has the header, control and
        // settings.
        let longest = pieces[1..].iter().map(Vec::len).max().unwrap();
        assert!(longest < bytes + 300, "{longest} of {bytes}");
        assert_eq!(dump(&restore(&pieces).unwrap()), before);
        let total: usize = pieces.iter().map(Vec::len).sum();
        assert!(total as u64 <= rig.machine.image_bytes_max(), "{total}");
    }
}

#[test]
fn a_thawed_or_replaced_freeze_is_forgotten() {
    let mut rig = Rig::default();
    rig.run("create /a");
    rig.machine.freeze();
    rig.machine.freeze_step(1, 1);
    rig.run("set /a x");
    rig.machine.thaw();
    assert!(!rig.machine.is_freezing());
    rig.run("set /a y");
    rig.machine.freeze();
    rig.machine.freeze_step(1, 1);
    rig.run("set /a z");
    let pieces = image(&mut rig.machine, 10, 1);
    assert_same(&mut restore(&pieces).unwrap(), &rig.machine);
}

#[test]
fn freeze_names_the_index_of_the_image() {
    let mut machine = Machine::default();
    machine.finish_entry(LogIndex(2));
    assert_eq!(machine.freeze(), LogIndex(2));
    machine.finish_entry(LogIndex(3));
    let FreezeStep::Last(piece) = machine.freeze_step(1 << 20, 1 << 20) else {
        unreachable!("one step is enough")
    };
    assert_eq!(restore(&[piece]).unwrap().index(), LogIndex(2));
}

#[test]
fn an_image_cut_off_anywhere_is_refused() {
    let bytes = small_image();
    assert!(restore_bytes(&bytes).is_ok());
    for end in 0..bytes.len() {
        assert!(restore_bytes(&bytes[..end]).is_err(), "cut at {end} of {}", bytes.len());
    }
}

/// Splits an image into its header, each frame, and its end.
fn parts(image: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(image);
    let sections = usize::from(image[34]);
    let mut parts = vec![reader.take(35 + 2 * sections).unwrap().to_vec()];
    while image[reader.offset()] == TAG_FRAME {
        let start = reader.offset();
        reader.take(2).unwrap();
        reader.bytes().unwrap();
        parts.push(image[start..reader.offset()].to_vec());
    }
    parts.push(reader.take(1 + 8 * sections).unwrap().to_vec());
    assert_eq!(reader.remaining(), 0);
    parts
}

/// The parts of a small image, which has one frame for each space.
fn small_parts() -> [Vec<u8>; 4] {
    parts(&small_image()).try_into().expect("a header, two frames and an end")
}

/// A frame for the space with this number.
fn frame(space: u8, records: &[u8]) -> Vec<u8> {
    let mut frame = vec![TAG_FRAME, space];
    frame.put_bytes(records);
    frame
}

/// The records in a frame.
fn records(frame: &[u8]) -> &[u8] {
    &frame[FRAME_HEAD_BYTES as usize..]
}

/// The end of an image whose two sections (control's and ZooKeeper's) have these numbers of bytes.
fn end(control: usize, zk: usize) -> Vec<u8> {
    let mut end = vec![TAG_END];
    end.put_u64(control as u64);
    end.put_u64(zk as u64);
    end
}

/// The offset of the slot count in an image.
fn slots_position(bytes: &[u8]) -> usize {
    let parts = parts(bytes);
    let before = parts[0].len() + parts[1].len() + FRAME_HEAD_BYTES as usize;
    let mut reader = Reader::new(bytes);
    assert_eq!(bytes[before], TAG_START);
    reader.take(before + 1 + 8).unwrap();
    Settings::decode(&mut reader).unwrap();
    reader.u64().unwrap();
    reader.offset()
}

/// Whether the byte at `position` is not covered by the digest: a byte of the index or of the slot
/// count.
fn is_outside_the_digest(bytes: &[u8], position: usize) -> bool {
    let slots = slots_position(bytes);
    (2..10).contains(&position) || (slots..slots + 4).contains(&position)
}

#[test]
fn an_image_with_any_byte_changed_is_refused_or_means_the_same() {
    let bytes = small_image();
    let original = dump(&restore_bytes(&bytes).unwrap());
    for position in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[position] ^= change;
            let Ok(machine) = restore_bytes(&changed) else { continue };
            let harmless = is_outside_the_digest(&bytes, position)
                // Ids are only labels: a changed id that is free and fits means the same.
                || dump(&machine) == original;
            assert!(harmless, "byte {position} ^ {change:#x} is not noticed");
        }
    }
}

#[test]
fn garbage_is_refused_without_a_panic() {
    let bytes = small_image();
    let mut random = Random(77);
    for _ in 0..20_000 {
        let mut garbage = bytes.clone();
        for _ in 0..1 + random.below(4) {
            let position = random.below(garbage.len());
            garbage[position] = random.next() as u8;
        }
        let _ = restore_bytes(&garbage);
    }
}

#[test]
fn a_wrong_digest_is_named() {
    let mut bytes = small_image();
    // The ordinal, which nothing but the digest depends on.
    bytes[10] ^= 1;
    let Err(RestoreError::WrongDigest { found, written }) = restore_bytes(&bytes) else {
        unreachable!("the digest covers the ordinal")
    };
    assert_ne!(found, written);
}

/// A znode of an image that a test writes by hand.
#[derive(Clone, Copy)]
struct Handmade {
    id: u32,
    parent: u32,
    name: &'static str,
    owner: i64,
}

const fn znode(id: u32, parent: u32, name: &'static str) -> Handmade {
    Handmade { id, parent, name, owner: 0 }
}

/// Checks that restoring an image with these znodes fails with this text.
fn check(znodes: &[Handmade], expected: &str) {
    check_with(None, znodes, expected);
}

/// As `check`, for an image that also has this session.
fn check_with(session: Option<SessionId>, znodes: &[Handmade], expected: &str) {
    let machine = Machine::default();
    let mut zk = vec![TAG_START];
    machine.zk.encode_scalars(&mut zk);
    zk.put_u64(session.iter().count() as u64);
    zk.put_u32(10);
    zk.put_u32(znodes.len() as u32);
    if let Some(id) = session {
        zk.put_u8(TAG_SESSION);
        Session::new(1_000, [0; 16], Attachment::default(), machine.ordinal).encode(id, &mut zk);
    }
    let mut encoder = TreeFreeze::new(Vec::new(), Bytes::new(), 0, 0);
    for znode in znodes {
        let image = Image {
            id: znode.id,
            parent: znode.parent,
            czxid: 0,
            mzxid: 0,
            ctime: 0,
            mtime: 0,
            owner: znode.owner,
            version: 0,
            aversion: 0,
            counters: None,
            name: znode.name,
            data: None,
            acl_id: acl::OPEN,
        };
        encoder.encode_znode(&image, &acl::world(31), &mut zk);
    }
    let mut control = Vec::new();
    machine.control.encode(&mut control);
    let header = Header {
        index: LogIndex(2),
        ordinal: machine.ordinal,
        digest: 0,
        sections: Sections::in_use(false, false),
    };
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    bytes.extend(frame(1, &control));
    bytes.extend(frame(2, &zk));
    bytes.extend(end(control.len(), zk.len()));
    let error = restore_bytes(&bytes).expect_err("a handmade digest is wrong").to_string();
    assert!(error.contains(expected), "{error} is about {expected}");
}

const TOP: Handmade = znode(0, u32::MAX, "");

#[test]
fn trees_that_cannot_be_are_refused() {
    let zookeeper = znode(1, 0, "zookeeper");
    check(&[TOP, zookeeper, znode(2, 1, "quota")], "digest");
    check(&[TOP, zookeeper], "no /zookeeper/quota");
    check(&[], "no root");
    check(&[znode(1, 0, "a")], "no root");
    check(&[TOP, TOP], "znode 0 does not fit");
    check(&[TOP, znode(1, 0, "a"), znode(1, 0, "b")], "znode 1 does not fit");
    check(&[znode(0, 0, "")], "znode 0 does not fit");
    check(&[TOP, znode(1, u32::MAX, "a")], "znode 1 does not fit");
    check(&[TOP, znode(1, u32::MAX - 1, "a")], "parent that is not there");
    check(&[TOP, znode(1, 0, "")], "znode 1 does not fit");
    check(&[TOP, znode(1, 0, "a/b")], "znode 1 does not fit");
    check(&[TOP, znode(10, 0, "a")], "bad znode id");
    check(&[TOP, znode(1, 2, "a")], "parent that is not there");
    check(&[TOP, znode(1, 3, "a"), znode(5, 0, "b")], "parent that is not there");
    check(&[TOP, znode(1, 0, "a"), znode(2, 0, "a")], "name that is taken");
    check(&[TOP, znode(1, 1, "a")], "reachable");
    check(&[TOP, znode(1, 2, "a"), znode(2, 1, "b")], "reachable");
    check(&[TOP, znode(3, 2, "a"), znode(2, 1, "b"), znode(1, 3, "c")], "reachable");
    let stray = Handmade { owner: 5, ..znode(3, 0, "a") };
    check(&[TOP, zookeeper, znode(2, 1, "quota"), stray], "belongs to session 0x5");
}

#[test]
fn znodes_that_could_not_go_by_themselves_are_refused() {
    let (zookeeper, quota) = (znode(1, 0, "zookeeper"), znode(2, 1, "quota"));
    let container = |znode: Handmade| Handmade { owner: i64::MIN, ..znode };
    check(&[TOP, zookeeper, container(quota)], "/zookeeper/quota is not persistent");
    check(&[TOP, container(zookeeper), quota], "/zookeeper is not persistent");
    check(&[container(TOP), zookeeper, quota], "/ is not persistent");
    let ephemeral = Handmade { owner: 5, ..znode(3, 0, "e") };
    let session = Some(SessionId(5));
    check_with(session, &[TOP, zookeeper, quota, ephemeral], "digest");
    let below = znode(4, 3, "below");
    check_with(session, &[TOP, zookeeper, quota, ephemeral, below], "has children");
}

#[test]
fn numbers_from_which_nothing_counts_on_are_refused() {
    let bytes = small_image();
    let zxid = slots_position(&bytes);
    let zxid = bytes[..zxid].iter().rposition(|byte| *byte == TAG_START).unwrap() + 1;
    for (position, what) in [(2, "index"), (10, "ordinal"), (zxid, "zxid")] {
        for value in [RESTORED_NUMBER_MAX + 1, i64::MAX as u64] {
            let mut changed = bytes.clone();
            changed[position..position + 8].copy_from_slice(&value.to_le_bytes());
            let error = restore_bytes(&changed).unwrap_err().to_string();
            assert!(error.contains(&format!("bad {what} of an image")), "{error}");
        }
    }
}

#[test]
fn parents_may_stand_behind_their_children() {
    check(&[znode(1, 4, "quota"), znode(4, 0, "zookeeper"), TOP], "digest");
}

/// Checks that restoring pieces in a wrong order fails with this text.
fn check_order(pieces: &[&[u8]], expected: &str) {
    let owned: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
    let error = restore(&owned).expect_err("the order is wrong").to_string();
    assert!(error.contains(expected), "{error} is about {expected}");
}

#[test]
fn parts_out_of_order_are_refused() {
    let whole = small_image();
    let [header, control, zk, end] = &small_parts();
    let without_end = &whole[..whole.len() - end.len()];
    check_order(&[], "not whole");
    check_order(&[b""], "not whole");
    check_order(&[b"E"], "order of image parts");
    check_order(&[control], "order of image parts");
    check_order(&[zk], "order of image parts");
    check_order(&[header, header], "order of image parts");
    check_order(&[&whole, &whole], "order of image parts");
    check_order(&[&whole, b"E"], "order of image parts");
    check_order(&[&whole, zk], "order of image parts");
    check_order(&[without_end], "not whole");
    check_order(&[without_end, b"X"], "part of an image");
    check_order(&[header, &[control.as_slice(), zk].concat()], "not whole");
}

#[test]
fn frames_of_different_spaces_may_alternate_and_pieces_may_be_joined() {
    let original = dump(&restore_bytes(&small_image()).unwrap());
    let [header, control, zk, end] = small_parts();
    let behind = [header, zk, control, end].concat();
    assert_eq!(dump(&restore_bytes(&behind).unwrap()), original);
    let mut random = Random(4);
    let mut rig = random_rig(&mut random, 100);
    let pieces = image(&mut rig.machine, 1, 1);
    let mut parts = parts(&pieces.concat());
    assert!(parts.len() > 10, "a frame for each znode");
    assert_same(&mut restore_bytes(&parts.concat()).unwrap(), &rig.machine);
    let control = parts.remove(1);
    parts.insert(parts.len() / 2, control);
    assert_same(&mut restore_bytes(&parts.concat()).unwrap(), &rig.machine);
}

/// Checks that restoring fails if the header lists these sections (space, version) instead of its
/// own. Returns the error.
fn check_sections(sections: &[(u8, u8)], expected: &str) -> RestoreError {
    let [header, control, zk, end] = small_parts();
    let mut bytes = header[..34].to_vec();
    bytes.put_u8(sections.len() as u8);
    sections.iter().for_each(|(space, version)| bytes.extend([*space, *version]));
    bytes.extend([control, zk, end].concat());
    let error = restore_bytes(&bytes).expect_err("the sections are wrong");
    let text = error.to_string();
    assert!(text.contains(expected), "{text} is about {expected}");
    error
}

#[test]
fn bad_lists_of_sections_are_refused() {
    for (sections, expected) in [
        ([].as_slice(), "the section of space control is missing"),
        (&[(2, 1)], "the section of space control is missing"),
        (&[(1, 1)], "the section of space zk is missing"),
        (&[(2, 1), (1, 1)], "order of image sections"),
        (&[(1, 1), (1, 1), (2, 1)], "order of image sections"),
        (&[(1, 1), (2, 1), (2, 1)], "order of image sections"),
        (&[(0, 1), (1, 1), (2, 1)], "order of image sections"),
        (&[(1, 0), (2, 1)], "section version"),
        (&[(1, 1), (2, 0)], "section version"),
    ] {
        assert!(!check_sections(sections, expected).is_of_another_version(), "{sections:?}");
    }
}

#[test]
fn a_section_that_only_a_later_version_knows_is_named() {
    for (sections, expected) in [
        (
            [(1, 1), (2, 1), (5, 1)].as_slice(),
            "space 5; this version knows control, zk, etcd, etcd_v2",
        ),
        (&[(1, 1), (2, 1), (3, 2)], "space etcd has version 2; this version reads up to 1"),
        (&[(1, 1), (2, 1), (4, 2)], "space etcd_v2 has version 2; this version reads up to 1"),
        (&[(1, 1), (2, 1), (255, 0)], "space 255; this version knows"),
        (&[(1, 2), (2, 1)], "space control has version 2; this version reads up to 1"),
        (&[(1, 1), (2, 255)], "space zk has version 255; this version reads up to 1"),
    ] {
        assert!(check_sections(sections, expected).is_of_another_version(), "{sections:?}");
    }
}

/// Checks that restoring fails if these frames and this end follow an image's header.
fn check_frames(frames: &[&[u8]], end: &[u8], expected: &str) {
    let [header, ..] = small_parts();
    let bytes = [&header, frames.concat().as_slice(), end].concat();
    check_order(&[&bytes], expected);
}

#[test]
fn bad_frames_are_refused() {
    let [_, control, zk, end] = &small_parts();
    for space in [0, 3, 4, 255] {
        check_frames(&[control, zk, &frame(space, b"x")], end, "space of a frame");
    }
    check_frames(&[control, &frame(2, b""), zk], end, "bytes of a frame");
    check_frames(&[control, control, zk], end, "second frame of space");
    check_frames(&[control, zk, control], end, "second frame of space");
    let behind = |frame: &[u8], byte| [records(frame), &[byte]].concat();
    check_frames(&[&frame(1, &behind(control, 0)), zk], end, "1 bytes left over");
    check_frames(&[control, &frame(2, &behind(zk, 0))], end, "bad zk record");
    check_frames(&[control, &frame(2, &behind(zk, TAG_ZNODE))], end, "cut off");
    let cut = |frame: &[u8]| records(frame)[..records(frame).len() - 1].to_vec();
    check_frames(&[&frame(1, &cut(control)), zk], end, "cut off");
    check_frames(&[control, &frame(2, &cut(zk))], end, "cut off");
    let mut longer = zk.clone();
    longer[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
    check_frames(&[control, &longer], end, "cut off");
}

#[test]
fn a_frame_does_not_go_on_in_the_next_piece() {
    let [header, control, zk, end] = &small_parts();
    for at in 1..zk.len() {
        let first = [header.as_slice(), control, &zk[..at]].concat();
        let second = [&zk[at..], end].concat();
        check_order(&[&first, &second], "cut off");
    }
}

#[test]
fn zk_records_out_of_order_are_refused() {
    let [_, control, zk, end] = &small_parts();
    check_frames(&[control, zk, zk], end, "order of zk records");
    check_frames(&[control, &frame(2, &[TAG_SESSION]), zk], end, "order of zk records");
    check_frames(&[control, &frame(2, &[TAG_ZNODE]), zk], end, "order of zk records");
    let twice = [records(zk), records(zk)].concat();
    check_frames(&[control, &frame(2, &twice)], end, "order of zk records");
}

#[test]
fn sections_of_other_bytes_than_the_end_says_are_refused() {
    let [_, control, zk, whole_end] = &small_parts();
    let (control_bytes, zk_bytes) = (records(control).len(), records(zk).len());
    assert_eq!(&end(control_bytes, zk_bytes), whole_end);
    let wrong = end(control_bytes + 1, zk_bytes);
    check_frames(&[control, zk], &wrong, "the section of space control has");
    check_frames(&[control, zk], &end(control_bytes, zk_bytes - 1), "the section of space zk has");
    check_frames(&[control, zk], &end(zk_bytes, control_bytes), "the section of space control has");
    check_frames(&[zk], whole_end, "the section of space control has 0 bytes");
    check_frames(&[control], whole_end, "the section of space zk has 0 bytes");
    check_frames(&[zk], &end(0, zk_bytes), "the section of space control is missing");
    check_frames(&[control], &end(control_bytes, 0), "the section of space zk is missing");
    check_frames(&[control, zk], &whole_end[..whole_end.len() - 1], "cut off");
}

#[test]
fn an_image_says_which_servers_the_members_are() {
    let mut machine = Machine::default();
    let alone = machine.digest();
    let stamp = Stamp {
        time_ms: 1,
        origin: Origin { member: MemberId(7), boot: BootId(1) },
        connection: ConnectionId(0),
        identities: &[],
    };
    let mut changes = Changes::default();
    for (member, server) in [(7, 1), (8, 2), (9, 2)] {
        assert!(machine.begin_batch(stamp.origin, member - 6));
        let command =
            Command::Control(ControlCommand::Register { member: MemberId(member), server });
        assert!(machine.apply(&stamp, &command, &mut changes).outcome == Outcome::DONE);
    }
    machine.apply(
        &stamp,
        &Command::Control(ControlCommand::Forget { member: MemberId(8) }),
        &mut changes,
    );
    let servers = BTreeMap::from([(MemberId(7), 1), (MemberId(9), 2)]);
    assert_eq!(machine.control.servers().members(), &servers);
    let pieces = image(&mut machine, usize::MAX, u32::MAX);
    let mut restore = Restore::default();
    pieces.iter().for_each(|piece| restore.piece(piece).unwrap());
    let restored = restore.finish().unwrap();
    assert_eq!(restored.control.servers().members(), &servers);
    assert_eq!(restored.digest(), machine.digest());
    assert_ne!(restored.digest(), alone);
    // After it was forgotten, a member may hand over batches from the start again.
    assert!(machine.control.last_batch(MemberId(7)).is_some());
    machine.apply(
        &stamp,
        &Command::Control(ControlCommand::Forget { member: MemberId(7) }),
        &mut changes,
    );
    assert_eq!(machine.control.last_batch(MemberId(7)), None);
}

#[test]
fn another_format_version_is_refused() {
    let mut bytes = small_image();
    for version in [0, 1, FORMAT_VERSION - 1, FORMAT_VERSION + 1, u8::MAX] {
        bytes[1] = version;
        check_order(&[&bytes], "this version reads version 4");
        assert!(restore_bytes(&bytes).unwrap_err().is_of_another_version());
    }
}

#[test]
fn a_huge_slot_count_reserves_nothing() {
    let mut bytes = small_image();
    let position = slots_position(&bytes);
    bytes[position + 3] = 0xf0;
    assert!(restore_bytes(&bytes).is_ok(), "the number of slots is not state");
    bytes[position..position + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    check_order(&[&bytes], "slot count");
}

/// Runs the second job first: the result of a restore must not depend on the order of the jobs.
fn second_first(first: &mut (dyn FnMut() + Send), second: &mut (dyn FnMut() + Send)) {
    second();
    first();
}

#[test]
fn pieces_may_be_decoded_long_before_they_are_installed() {
    for seed in 0..20 {
        let mut random = Random(500 + seed);
        let mut rig = random_rig(&mut random, 200);
        let pieces = image(&mut rig.machine, 300, 10);
        let mut decoder = Decoder::default();
        let decoded: Result<Vec<DecodedPiece>, RestoreError> =
            pieces.iter().map(|piece| decoder.decode(piece)).collect();
        let mut restore = Restore::default();
        for piece in decoded.unwrap() {
            restore.install(piece).unwrap();
        }
        assert_same(&mut restore.finish_together(second_first).unwrap(), &rig.machine);
    }
}
