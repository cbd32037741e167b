use super::*;
use crate::codec::{DecodeError, Reader};
use crate::etcd_v2::auth::TAG_USER;
use crate::etcd_v2::restore::{RecordDecoder, Records};
use crate::etcd_v2::tests::{Rig, assert_same, auth_commands, check_invariants, pieces, restored};
use crate::image::error::RestoreError;

/// A store that has records of every kind.
fn a_rig() -> Rig {
    let mut rig = a_rig_without_users();
    let commands = auth_commands();
    // Leave out the last command: it stops enforcing permissions.
    for command in &commands[..commands.len() - 1] {
        let done = rig.apply(command);
        assert!(done.starts_with("User") || done.starts_with("Role") || done == "Other", "{done}");
    }
    rig
}

fn a_rig_without_users() -> Rig {
    let mut rig = Rig { time_ms: 7_000, ..Rig::default() };
    rig.script("PUT /a/b/c value=1\nPUT /a/b-c value=2&ttl=9\nPUT /d dir=true\nPUT /_h value=");
    rig.script("PUT /d dir=true&prevExist=true&ttl=8\nPOST /q value=3\nPUT /x value=4");
    rig.script("DELETE /x\nPUT /a/b-c prevExist=true&refresh=true&ttl=8");
    rig
}

#[test]
fn an_image_is_whole_in_pieces_of_any_size() {
    let mut rig = a_rig();
    check_invariants(&mut rig);
    for count_max in [0, 1, 2, 3, u32::MAX] {
        let pieces = pieces(&mut rig.store, count_max);
        assert_same(&rig.store, &restored(&pieces).unwrap());
    }
    rig.store.freeze();
    let mut bytes_of = |bytes| {
        let mut piece = Vec::new();
        rig.store.freeze_step(&mut piece, bytes, u32::MAX);
        piece.len()
    };
    assert!(bytes_of(0) > 0, "a step writes a record");
    assert!((100..1_000).contains(&bytes_of(100)));
}

#[test]
fn an_image_is_of_the_state_at_its_start() {
    let steps = pieces(&mut a_rig().store, 1).len() as u32;
    for before in 0..steps {
        let (mut rig, old) = (a_rig(), a_rig());
        rig.store.freeze();
        let mut written = Vec::new();
        for _ in 0..before {
            rig.store.freeze_step(&mut written, 0, 1);
        }
        rig.script("PUT /a/b/c value=9\nPUT /a/b/new\nDELETE /d recursive=true\nPUT /_h value=9");
        rig.script("EXPIRE /a/b-c\nDELETE /a recursive=true\nPUT /z/z/z value=9");
        rig.store.freeze_step(&mut written, usize::MAX, u32::MAX);
        assert_same(&old.store, &restored(&[written]).unwrap());
        rig.store.tree().check_sums();
    }
}

#[test]
fn a_walk_of_a_state_that_was_replaced_is_aborted() {
    let mut rig = a_rig();
    rig.store.abort_walk();
    rig.store.freeze();
    rig.store.abort_walk();
    let mut piece = Vec::new();
    let step = rig.store.freeze_step(&mut piece, usize::MAX, u32::MAX);
    assert!(matches!(step, WalkStep::Aborted));
    assert!(piece.is_empty());
    rig.store.freeze();
    rig.store.thaw();
    assert!(rig.store.walk.is_none());
}

#[test]
fn a_store_that_lost_its_first_events_is_restored() {
    let mut rig = Rig::default();
    for number in 0..1_005 {
        rig.run("PUT", "/a", &format!("value={number}"));
    }
    check_invariants(&mut rig);
    assert_eq!(rig.store.history().len(), 1_000);
    assert_eq!(restored(&[]).map(|store| store.is_unused()), Ok(true));
}

#[test]
fn a_piece_that_is_cut_off_is_refused() {
    let whole = pieces(&mut a_rig().store, u32::MAX).concat();
    let mut ends_of_records = 0;
    for end in 0..whole.len() {
        let mut records = Records::default();
        let read = RecordDecoder::default().decode(&mut Reader::new(&whole[..end]), &mut records);
        ends_of_records += u64::from(read.is_ok());
        // At the end of a record, only the sums of the image show that something is missing.
        if read.is_ok() && end > 0 {
            let store = restored(&[whole[..end].to_vec()]);
            assert!(!store.is_ok_and(|store| store.digest() == a_rig().store.digest()));
        }
    }
    assert_eq!(ends_of_records, a_rig().store.record_count());
}

#[test]
fn a_changed_byte_is_refused_or_changes_the_digest() {
    let rig = a_rig();
    let whole = pieces(&mut a_rig().store, u32::MAX).concat();
    for at in 0..whole.len() {
        for change in [1, 0x80, 0xff] {
            let mut other = whole.clone();
            other[at] ^= change;
            if let Ok(store) = restored(&[other]) {
                assert_ne!(store.digest(), rig.store.digest(), "byte {at}");
            }
        }
    }
}

/// Restores an image whose records are put in the order of these positions.
fn reordered(mut rig: Rig, order: &[usize]) -> Result<(), RestoreError> {
    let records = pieces(&mut rig.store, 1);
    let chosen: Vec<Vec<u8>> = order.iter().map(|at| records[*at].clone()).collect();
    restored(&[chosen.concat()]).map(|_| ())
}

#[test]
fn records_out_of_order_are_refused() {
    let check = |order: &[usize], expected: &str| {
        assert_eq!(text_of(reordered(a_rig_without_users(), order)), expected, "{order:?}");
    };
    // Piece 0 has the start record and /_h. Then follow /a, /a/b, /a/b/c, /a/b-c, /d, /q and its
    // key, and then nine events.
    check(&[1, 0], "order of etcd v2 records");
    check(&[0, 0], "order of etcd v2 records");
    check(&[0, 1, 1], "order of nodes at one with levels");
    check(&[0, 5, 1], "order of nodes at one with levels");
    check(&[0, 4, 2], "order of nodes at one with levels");
    check(&[0, 2], "the node \"/a/b\" of etcd v2 does not fit");
    check(&[0, 8, 1], "order of etcd v2 records");
    check(&[0, 9], "index of an event");
    check(&[0, 8, 10], "index of an event");
    check(&[0, 8, 8], "index of an event");
    check(&[0, 1, 8], "index 12 of etcd v2 does not fit");
    check(&[0, 1], "index 12 of etcd v2 does not fit");
}

fn text_of(restored: Result<(), RestoreError>) -> String {
    match restored {
        Err(RestoreError::Malformed(DecodeError::Bad { what, .. })) => what.to_string(),
        Err(RestoreError::Inconsistent(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn users_and_roles_out_of_order_are_refused() {
    let check = |order: &[usize], expected: &str| {
        assert_eq!(text_of(reordered(a_rig(), order)), expected, "{order:?}");
    };
    // Piece 0 has the start record and the one of enforced permissions. Then follow the users ada,
    // bob and root, the roles guest, r and s, and /_h.
    check(&[0, 2, 1], "order of users and roles");
    check(&[0, 1, 1], "order of users and roles");
    check(&[0, 4, 1], "order of records of users and roles");
    check(&[0, 6, 5], "order of users and roles");
    check(&[0, 7, 1], "order of etcd v2 records");
    check(&[0, 1, 2], "a user or role of etcd v2 does not fit");
    let mut start = pieces(&mut a_rig_without_users().store, 1)[0][..17].to_vec();
    start.extend([TAG_USER, 0, 0, 0, 0]);
    assert_eq!(text_of(restored(&[start]).map(drop)), "order of records of users and roles");
}

#[test]
fn a_start_that_no_store_has_is_refused() {
    let check = |index: u64, cleared: u64, expected: &str| {
        let mut start = vec![TAG_START];
        start.put_u64(index);
        start.put_u64(cleared);
        let found = match restored(&[start]) {
            Err(RestoreError::Malformed(DecodeError::Bad { what, .. })) => what,
            Err(RestoreError::Inconsistent(_)) => "inconsistent",
            Ok(_) => "",
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{index} {cleared}");
    };
    check(0, 0, "index");
    check(2, 0, "index");
    check(3, 0, "inconsistent");
    check(4, 5, "index of the events that are gone");
    check(crate::limits::ETCD_V2_INDEX_MAX + 1, 0, "index");
    check(4, 0, "inconsistent");
    check(4, 4, "");
}
