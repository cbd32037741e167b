//! A snapshot on its way: piece by piece, whatever is lost, doubled or of another one.

use replica::Membership;

use super::*;

const LEADER: MemberId = MemberId(1);
const AT: SnapshotAt = SnapshotAt { index: 9, term: 2 };

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta { index, term: 2, membership: Membership::of_voters([1, 2, 3]) }
}

fn fetch() -> Fetch {
    Fetch::new(LEADER, Bytes::from_static(b"install"), &meta(9), 0)
}

fn piece(offset: u64, bytes: &'static [u8], total: u64) -> Piece {
    Piece { at: AT, offset, total, bytes: Bytes::from_static(bytes) }
}

fn want(offset: u64) -> PeerMessage {
    PeerMessage::Want(Want { at: AT, offset })
}

#[test]
fn pieces_are_asked_for_one_after_the_other_until_all_are_there() {
    let mut fetch = fetch();
    assert_eq!(fetch.want(), want(0));
    let job = fetch.on_piece(LEADER, piece(0, b"abc", 5));
    assert!(matches!(job, Some(SnapshotJob::Receive { is_first: true, .. })));
    assert_eq!(fetch.on_written(10), FetchStep::Ask(want(3)));
    let job = fetch.on_piece(LEADER, piece(3, b"de", 5));
    assert!(matches!(job, Some(SnapshotJob::Receive { is_first: false, .. })));
    assert_eq!(fetch.on_written(10), FetchStep::Check(AT));
}

#[test]
fn what_was_not_asked_for_is_not_taken() {
    let mut fetch = fetch();
    let other = Piece { at: SnapshotAt { index: 8, term: 2 }, ..piece(0, b"abc", 5) };
    for (from, piece) in
        [(MemberId(2), piece(0, b"abc", 5)), (LEADER, other), (LEADER, piece(3, b"de", 5))]
    {
        assert!(fetch.on_piece(from, piece).is_none());
    }
    assert!(fetch.on_piece(LEADER, piece(0, b"abc", 5)).is_some());
    // Doubled, while it is written and after that.
    assert!(fetch.on_piece(LEADER, piece(0, b"abc", 5)).is_none());
    fetch.on_written(10);
    assert!(fetch.on_piece(LEADER, piece(0, b"abc", 5)).is_none());
}

#[test]
fn what_does_not_come_is_asked_for_again_where_it_stopped() {
    let mut fetch = fetch();
    fetch.on_piece(LEADER, piece(0, b"abc", 5));
    assert!(fetch.maybe_ask(10 * PIECE_PATIENCE_MS).is_none());
    fetch.on_written(100);
    assert!(fetch.maybe_ask(100 + PIECE_PATIENCE_MS - 1).is_none());
    assert_eq!(fetch.maybe_ask(100 + PIECE_PATIENCE_MS), Some(want(3)));
    assert!(fetch.maybe_ask(101 + PIECE_PATIENCE_MS).is_none());
}

#[test]
fn the_same_offer_again_changes_nothing_and_another_one_does() {
    let mut fetch = fetch();
    let message = Bytes::from_static(b"again");
    assert!(fetch.is_of(LEADER, &message, &meta(9)));
    assert_eq!(fetch.message, message);
    assert!(!fetch.is_of(LEADER, &message, &meta(10)));
    assert!(!fetch.is_of(MemberId(2), &message, &meta(9)));
}

#[test]
fn an_offer_is_said_again_until_the_replica_does_not_want_it() {
    let mut offers = Offers::default();
    let message = Bytes::from_static(b"install");
    let to = MemberId(3);
    assert_eq!(offers.offer(to, message.clone(), 0), PeerMessage::Offer(message.clone()));
    let peer = |snapshot_index| PeerStatus {
        member_id: 3,
        matched_index: 0,
        snapshot_index,
        silent_ticks: None,
    };
    assert!(offers.due(&[peer(Some(9))], OFFER_INTERVAL_MS - 1).is_empty());
    let due = offers.due(&[peer(Some(9))], OFFER_INTERVAL_MS);
    assert_eq!(due, [(to, PeerMessage::Offer(message))]);
    assert!(offers.due(&[peer(Some(9))], OFFER_INTERVAL_MS + 1).is_empty());
    assert!(offers.due(&[peer(None)], 9 * OFFER_INTERVAL_MS).is_empty());
    assert!(offers.is_empty());
    assert!(!offers.withdraw(to));
}
