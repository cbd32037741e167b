//! Tests of a fetch, piece by piece: pieces are lost, repeated, or of another snapshot.

use replica::Membership;

use super::*;

const LEADER: MemberId = MemberId(1);
const LENDER: MemberId = MemberId(2);
const AT: SnapshotAt = SnapshotAt { index: 9, term: 2 };

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta { index, term: 2, membership: Membership::from_voters([1, 2, 3]) }
}

fn offer(holder: MemberId, message: &'static [u8]) -> Offer {
    Offer { holder, message: Bytes::from_static(message) }
}

fn fetch() -> Fetch {
    Fetch::new(LEADER, offer(LEADER, b"install"), &meta(9), 0)
}

/// A fetch whose holder is a follower, a lender.
fn borrowed() -> Fetch {
    Fetch::new(LEADER, offer(LENDER, b"install"), &meta(9), 0)
}

fn piece(offset: u64, bytes: &'static [u8], total: u64) -> Piece {
    Piece { at: AT, offset, total, bytes: Bytes::from_static(bytes) }
}

fn want(offset: u64) -> PeerMessage {
    PeerMessage::Want(Want { at: AT, offset })
}

fn write(is_first: bool, bytes: &'static [u8]) -> FetchStep {
    FetchStep::Write { is_first, bytes: Bytes::from_static(bytes) }
}

#[test]
fn each_piece_is_asked_for_while_the_one_before_is_written() {
    let mut fetch = fetch();
    assert_eq!(fetch.want(), want(0));
    let steps = fetch.on_piece(LEADER, piece(0, b"abc", 7), 10);
    assert_eq!(steps, [write(true, b"abc"), FetchStep::Ask(want(3))]);
    // The second one arrives before the first one is written, and waits; none is asked for.
    assert_eq!(fetch.on_piece(LEADER, piece(3, b"de", 7), 10), []);
    assert_eq!(fetch.on_piece(LEADER, piece(5, b"fg", 7), 10), []);
    assert_eq!(fetch.pursue(10 * PIECE_PATIENCE_MS), None);
    assert_eq!(fetch.on_written(20), [write(false, b"de"), FetchStep::Ask(want(5))]);
    // The last one arrives after the second one is written.
    assert_eq!(fetch.on_written(20), []);
    assert!(fetch.is_waiting());
    assert_eq!(fetch.on_piece(LEADER, piece(5, b"fg", 7), 30), [write(false, b"fg")]);
    assert_eq!(fetch.on_written(30), [FetchStep::Check(AT)]);
    assert!(!fetch.is_waiting());
}

#[test]
fn the_last_piece_may_wait_for_the_write_of_the_one_before() {
    let mut fetch = fetch();
    fetch.on_piece(LEADER, piece(0, b"abc", 5), 10);
    assert_eq!(fetch.on_piece(LEADER, piece(3, b"de", 5), 10), []);
    assert_eq!(fetch.on_written(20), [write(false, b"de")]);
    assert_eq!(fetch.on_written(20), [FetchStep::Check(AT)]);
}

#[test]
fn what_was_not_asked_for_is_not_taken() {
    let mut fetch = fetch();
    let other = Piece { at: SnapshotAt { index: 8, term: 2 }, ..piece(0, b"abc", 5) };
    for (from, piece) in
        [(MemberId(2), piece(0, b"abc", 5)), (LEADER, other), (LEADER, piece(3, b"de", 5))]
    {
        assert_eq!(fetch.on_piece(from, piece, 10), []);
    }
    assert_eq!(fetch.on_piece(LEADER, piece(0, b"abc", 5), 10).len(), 2);
    // The piece comes a second time, while it is written and after that.
    assert_eq!(fetch.on_piece(LEADER, piece(0, b"abc", 5), 10), []);
    fetch.on_written(10);
    assert_eq!(fetch.on_piece(LEADER, piece(0, b"abc", 5), 10), []);
}

#[test]
fn what_does_not_come_is_asked_for_again_where_it_stopped() {
    let mut fetch = fetch();
    fetch.on_piece(LEADER, piece(0, b"abc", 5), 100);
    assert!(fetch.pursue(100 + PIECE_PATIENCE_MS - 1).is_none());
    fetch.on_written(100 + PIECE_PATIENCE_MS - 1);
    assert_eq!(fetch.pursue(100 + PIECE_PATIENCE_MS), Some(FetchStep::Ask(want(3))));
    assert!(fetch.pursue(101 + PIECE_PATIENCE_MS).is_none());
    // If the leader is the holder itself, it is asked for as long as it offers the snapshot.
    assert_eq!(fetch.pursue(100 * HOLDER_PATIENCE_MS), Some(FetchStep::Ask(want(3))));
}

#[test]
fn a_holder_that_does_not_answer_is_given_up_until_its_snapshot_is_offered_again() {
    let mut fetch = borrowed();
    assert_eq!(fetch.on_piece(LEADER, piece(0, b"abc", 5), 100), []);
    assert_eq!(fetch.on_piece(LENDER, piece(0, b"abc", 5), 100).len(), 2);
    for again in 1..3 {
        let now_ms = 100 + again * PIECE_PATIENCE_MS;
        assert_eq!(fetch.pursue(now_ms), Some(FetchStep::Ask(want(3))));
    }
    let late_ms = 100 + HOLDER_PATIENCE_MS;
    assert_eq!(fetch.pursue(late_ms), Some(FetchStep::GiveUp(AT)));
    assert_eq!(fetch.pursue(2 * late_ms), None);
    // Neither the end of the write nor a late piece ends the wait for the leader's next offer.
    assert_eq!(fetch.on_written(2 * late_ms), []);
    assert_eq!(fetch.on_piece(LENDER, piece(3, b"de", 5), 2 * late_ms), []);
    assert!(fetch.is_of(LEADER, &offer(LENDER, b"install"), &meta(9), 3 * late_ms));
    assert_eq!(fetch.pursue(3 * late_ms), Some(FetchStep::Ask(want(3))));
    assert_eq!(fetch.on_piece(LENDER, piece(3, b"de", 5), 3 * late_ms), [write(false, b"de")]);
}

#[test]
fn the_same_offer_again_changes_nothing_and_another_one_does() {
    let mut fetch = borrowed();
    let again = offer(LENDER, b"again");
    assert!(fetch.is_of(LEADER, &again, &meta(9), 0));
    assert_eq!(fetch.message, again.message);
    assert!(!fetch.is_of(LEADER, &again, &meta(10), 0));
    // The file of another member for the same snapshot need not have the same bytes.
    assert!(!fetch.is_of(LEADER, &offer(LEADER, b"own"), &meta(9), 0));
    assert_eq!((fetch.from, &fetch.message), (LEADER, &again.message));
    // If a new leader offers the same file, the fetch goes on.
    let next = offer(LENDER, b"of the next leader");
    assert!(fetch.is_of(MemberId(3), &next, &meta(9), 0));
    assert_eq!((fetch.from, fetch.holder, &fetch.message), (MemberId(3), LENDER, &next.message));
}

#[test]
fn an_offer_is_said_again_until_the_replica_does_not_want_it() {
    let mut offers = Offers::default();
    let (to, offer) = (MemberId(3), offer(LENDER, b"install"));
    offers.offer(to, offer.clone(), &meta(9), 0);
    let peer = |snapshot_index| PeerStatus {
        member_id: 3,
        matched_index: 0,
        snapshot_index,
        silent_ticks: None,
    };
    assert!(offers.due(&[peer(Some(9))], OFFER_INTERVAL_MS - 1).is_empty());
    let due = offers.due(&[peer(Some(9))], OFFER_INTERVAL_MS);
    assert_eq!(due, [(to, PeerMessage::Offer(offer.clone()))]);
    assert!(offers.due(&[peer(Some(9))], OFFER_INTERVAL_MS + 1).is_empty());
    assert!(offers.due(&[peer(None)], 9 * OFFER_INTERVAL_MS).is_empty());
    assert!(offers.is_empty());
    assert!(!offers.withdraw(to));
}

#[test]
fn an_offer_of_another_snapshot_is_not_withdrawn() {
    let mut offers = Offers::default();
    let to = MemberId(3);
    offers.offer(to, offer(LENDER, b"install"), &meta(9), 0);
    assert!(!offers.withdraw_at(to, SnapshotAt { index: 8, term: 2 }));
    assert!(!offers.withdraw_at(LENDER, AT));
    assert!(offers.withdraw_at(to, AT));
    assert!(!offers.withdraw_at(to, AT));
}
