use raft::eraftpb::Message;

use super::*;
use crate::members::{MemberChange, MembershipChange, Transition};

const GROUP: u32 = 7;

fn message(kind: MessageType) -> Message {
    let term = if kind == MessageType::MsgReadIndex { 0 } else { 9 };
    Message { msg_type: kind, to: 1, from: 2, term, ..Default::default() }
}

fn normal(index: u64, term: u64, payload: &[u8]) -> eraftpb::Entry {
    eraftpb::Entry { index, term, data: Bytes::copy_from_slice(payload), ..Default::default() }
}

fn append() -> Message {
    let change = MembershipChange {
        transition: Transition::Joint,
        changes: vec![MemberChange::AddVoter(3), MemberChange::Remove(4)],
        context: Bytes::from("x"),
    };
    let mut member_entry = change.to_raft_entry();
    (member_entry.index, member_entry.term) = (13, 9);
    let mut append =
        Message { log_term: 8, index: 10, commit: 11, ..message(MessageType::MsgAppend) };
    append.set_entries(vec![normal(11, 8, b""), normal(12, 9, b"hello"), member_entry].into());
    append
}

fn snapshot() -> Message {
    let membership = Membership { learners: vec![5], ..Membership::from_voters([1, 2, 3]) };
    let mut message = message(MessageType::MsgSnapshot);
    message.set_snapshot(SnapshotMeta { index: 50, term: 9, membership }.to_raft());
    message
}

fn read(kind: MessageType, context_bytes: usize) -> Message {
    let mut read = message(kind);
    read.set_entries(vec![normal(0, 0, &vec![3; context_bytes])].into());
    read
}

/// One message of each kind, with every field set that the kind uses.
fn all() -> Vec<Message> {
    let context = Bytes::from(vec![1; READ_CONTEXT_BYTES]);
    let transfer = Bytes::from_static(raft::CAMPAIGN_TRANSFER);
    vec![
        append(),
        message(MessageType::MsgAppend),
        Message {
            reject: true,
            reject_hint: 5,
            log_term: 3,
            index: 6,
            commit: 4,
            ..message(MessageType::MsgAppendResponse)
        },
        Message {
            index: 5,
            log_term: 4,
            commit: 3,
            commit_term: 2,
            context: transfer,
            ..message(MessageType::MsgRequestVote)
        },
        Message {
            reject: true,
            commit: 8,
            commit_term: 7,
            ..message(MessageType::MsgRequestVoteResponse)
        },
        snapshot(),
        Message { commit: 3, context: context.clone(), ..message(MessageType::MsgHeartbeat) },
        Message { commit: 3, context, ..message(MessageType::MsgHeartbeatResponse) },
        message(MessageType::MsgTimeoutNow),
        read(MessageType::MsgReadIndex, READ_CONTEXT_BYTES),
        read(MessageType::MsgReadIndexResp, READ_CONTEXT_BYTES),
        message(MessageType::MsgRequestPreVote),
        message(MessageType::MsgRequestPreVoteResponse),
    ]
}

fn encode(group_id: u32, message: &Message) -> Bytes {
    super::encode(group_id, message, false)
}

fn decode(group_id: u32, bytes: &[u8]) -> Result<Message, MessageError> {
    super::decode(group_id, bytes).map(|decoded| decoded.message)
}

fn refused(message: &Message) -> MessageError {
    decode(GROUP, &encode(GROUP, message)).unwrap_err()
}

#[test]
fn every_kind_survives_bytes() {
    for message in all() {
        let bytes = encode(GROUP, &message);
        assert_eq!(decode(GROUP, &bytes).unwrap(), message);
        let peek = peek(&bytes).unwrap();
        assert_eq!((peek.group_id, peek.to, peek.from), (GROUP, 1, 2));
        assert_eq!(peek.snapshot.is_some(), message.get_msg_type() == MessageType::MsgSnapshot);
    }
}

#[test]
fn bytes_are_those_of_the_format() {
    let mut append =
        Message { log_term: 8, index: 10, commit: 11, ..message(MessageType::MsgAppend) };
    append.set_entries(vec![normal(11, 9, b"hi")].into());
    let mut expected = vec![1, 3, 0, 0, 7, 0, 0, 0];
    for field in [1_u64, 2, 9, 8, 10, 11, 0, 0] {
        expected.extend(field.to_le_bytes());
    }
    expected.extend([1, 0, 0, 0]);
    expected.extend(11_u64.to_le_bytes());
    expected.extend(9_u64.to_le_bytes());
    expected.extend([0, 2, 0, 0, 0, b'h', b'i']);
    assert_eq!(encode(GROUP, &append), expected);
}

#[test]
fn every_truncation_is_refused() {
    for message in all() {
        let bytes = encode(GROUP, &message);
        for length in 0..bytes.len() {
            assert!(decode(GROUP, &bytes[..length]).is_err(), "{message:?} cut at {length}");
        }
        let longer = [bytes.as_ref(), &[0]].concat();
        let error = MessageError::TrailingBytes { offset: bytes.len(), bytes: 1 };
        assert_eq!(decode(GROUP, &longer), Err(error));
    }
}

#[test]
fn mutated_bytes_never_panic_and_what_decodes_encodes_to_the_same() {
    let mut state = 1_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 1).unwrap()
    };
    let originals: Vec<Bytes> = all().iter().map(|message| encode(GROUP, message)).collect();
    let mut count = 0;
    for _ in 0..200_000 {
        let mut bytes = originals[random() % originals.len()].to_vec();
        for _ in 0..=random() % 3 {
            let offset = random() % bytes.len();
            bytes[offset] = [0, 1, 0xff, random() as u8][random() % 4];
        }
        if let Ok(decoded) = super::decode(GROUP, &bytes) {
            assert_eq!(super::encode(GROUP, &decoded.message, decoded.is_quiet), bytes);
            count += 1;
        }
        let _ = peek(&bytes);
    }
    assert!(count > 1000);
}

#[test]
fn random_bytes_never_panic() {
    let mut state = 99_u64;
    for length in 0..2000 {
        let bytes: Vec<u8> = (0..length % 300)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        assert!(decode(GROUP, &bytes).is_err());
    }
}

#[test]
fn entry_at_its_limit_passes_and_beyond_is_refused() {
    let with = |bytes: usize| {
        let mut append = message(MessageType::MsgAppend);
        append.set_entries(vec![normal(1, 9, &vec![0; bytes])].into());
        append
    };
    let largest = with(ENTRY_BYTES_MAX);
    assert_eq!(decode(GROUP, &encode(GROUP, &largest)).unwrap(), largest);
    let (bytes, bytes_max) = (ENTRY_BYTES_MAX + 1, ENTRY_BYTES_MAX);
    let offset = HEADER_BYTES + 17;
    let error = MessageError::TooLarge { offset, bytes, bytes_max };
    assert_eq!(refused(&with(bytes)), error);
}

#[test]
fn message_beyond_its_limit_is_refused_unread() {
    let bytes = vec![0; MESSAGE_BYTES_MAX + 1];
    let error = MessageError::TooLarge {
        offset: 0,
        bytes: MESSAGE_BYTES_MAX + 1,
        bytes_max: MESSAGE_BYTES_MAX,
    };
    assert_eq!(decode(GROUP, &bytes), Err(error.clone()));
    assert_eq!(peek(&bytes), Err(error));
    let version = MessageError::UnknownVersion { offset: 0, version: 0 };
    assert_eq!(decode(GROUP, &bytes[..MESSAGE_BYTES_MAX]), Err(version));
}

#[test]
fn entry_count_is_a_claim_within_a_limit() {
    let mut bytes = encode(GROUP, &message(MessageType::MsgAppend)).to_vec();
    let offset = HEADER_BYTES - 4;
    let claim = |bytes: &mut [u8], count: usize| {
        bytes[offset..].copy_from_slice(&u32::try_from(count).unwrap().to_le_bytes());
    };
    claim(&mut bytes, MESSAGE_ENTRIES_MAX);
    let error = MessageError::Truncated { offset: HEADER_BYTES, bytes: 8 };
    assert_eq!(decode(GROUP, &bytes), Err(error));
    claim(&mut bytes, MESSAGE_ENTRIES_MAX + 1);
    let (count, count_max) = (MESSAGE_ENTRIES_MAX + 1, MESSAGE_ENTRIES_MAX);
    assert_eq!(decode(GROUP, &bytes), Err(MessageError::TooMany { offset, count, count_max }));
}

#[test]
fn message_with_as_many_entries_as_possible_passes() {
    let mut append = message(MessageType::MsgAppend);
    let count = MESSAGE_ENTRIES_MAX as u64;
    append.set_entries((1..=count).map(|index| normal(index, 9, b"")).collect());
    assert_eq!(decode(GROUP, &encode(GROUP, &append)).unwrap(), append);
}

#[test]
fn terms_and_indexes_at_their_limits_pass_and_beyond_are_refused() {
    let with =
        |term: u64, index: u64| Message { term, index, ..message(MessageType::MsgAppendResponse) };
    let largest = with(TERM_MAX, INDEX_MAX);
    assert_eq!(decode(GROUP, &encode(GROUP, &largest)).unwrap(), largest);
    let out_of_range =
        |message: &Message| matches!(refused(message), MessageError::OutOfRange { .. });
    assert!(out_of_range(&with(TERM_MAX + 1, 0)));
    assert!(out_of_range(&with(1, INDEX_MAX + 1)));
    // raft-rs would take term 0 for a message of its own making.
    assert!(out_of_range(&with(0, 1)));
    assert!(out_of_range(&Message { to: 0, ..with(1, 1) }));
    assert!(out_of_range(&Message { from: 0, ..with(1, 1) }));
}

#[test]
fn kinds_that_stay_inside_a_member_are_refused() {
    let mut bytes = encode(GROUP, &message(MessageType::MsgTimeoutNow)).to_vec();
    for kind in [0, 1, 2, 10, 11, 12, 13, 19, 255] {
        bytes[1] = kind;
        let error = MessageError::UnknownKind { offset: 1, kind };
        assert_eq!(decode(GROUP, &bytes), Err(error));
    }
}

#[test]
fn append_with_a_gap_or_a_falling_term_is_refused() {
    let with = |entries: Vec<eraftpb::Entry>| {
        let mut append = append();
        append.set_entries(entries.into());
        refused(&append)
    };
    let malformed = |error: MessageError| matches!(error, MessageError::Malformed { .. });
    assert!(malformed(with(vec![normal(12, 9, b"")])));
    assert!(malformed(with(vec![normal(11, 9, b""), normal(13, 9, b"")])));
    assert!(malformed(with(vec![normal(11, 9, b""), normal(11, 9, b"")])));
    assert!(malformed(with(vec![normal(11, 9, b""), normal(12, 8, b"")])));
    assert!(malformed(with(vec![normal(11, 7, b"")])));
    assert!(malformed(with(vec![normal(11, 10, b"")])));
    assert!(malformed(refused(&Message { log_term: 10, ..append() })));
}

#[test]
fn append_whose_anchor_is_no_entry_is_refused() {
    let with = |index: u64, log_term: u64| {
        let commit = index;
        Message { index, log_term, commit, ..message(MessageType::MsgAppend) }
    };
    assert!(matches!(refused(&with(257, 0)), MessageError::Malformed { offset: 32, .. }));
    assert!(matches!(refused(&with(0, 1)), MessageError::Malformed { offset: 32, .. }));
    assert_eq!(decode(GROUP, &encode(GROUP, &with(0, 0))).unwrap(), with(0, 0));
    assert_eq!(decode(GROUP, &encode(GROUP, &with(1, 1))).unwrap(), with(1, 1));
}

#[test]
fn parts_in_the_wrong_kind_are_refused() {
    let malformed = |message: &Message| matches!(refused(message), MessageError::Malformed { .. });
    let mut heartbeat = message(MessageType::MsgHeartbeat);
    heartbeat.set_entries(append().take_entries());
    assert!(malformed(&heartbeat));
    assert!(malformed(&message(MessageType::MsgReadIndex)));
    assert!(malformed(&read(MessageType::MsgReadIndex, READ_CONTEXT_BYTES - 1)));
    assert!(malformed(&read(MessageType::MsgReadIndexResp, READ_CONTEXT_BYTES + 1)));
    assert!(malformed(&Message { reject: true, ..message(MessageType::MsgAppend) }));
    let context = Bytes::from_static(raft::CAMPAIGN_TRANSFER);
    assert!(malformed(&Message { context, ..message(MessageType::MsgHeartbeat) }));
    let context = Bytes::from(vec![0; CONTEXT_BYTES_MAX]);
    assert!(malformed(&Message { context, ..message(MessageType::MsgRequestVote) }));
    assert!(malformed(&message(MessageType::MsgReadIndexResp)));
}

#[test]
fn context_beyond_its_limit_is_refused() {
    let mut bytes = encode(GROUP, &message(MessageType::MsgHeartbeat)).to_vec();
    bytes[3] = CONTEXT_BYTES_MAX as u8 + 1;
    let (bytes_found, bytes_max) = (CONTEXT_BYTES_MAX + 1, CONTEXT_BYTES_MAX);
    let error = MessageError::TooLarge { offset: 3, bytes: bytes_found, bytes_max };
    assert_eq!(decode(GROUP, &bytes), Err(error));
}

#[test]
fn snapshot_without_voters_or_from_the_future_is_refused() {
    let with = |index: u64, term: u64, membership: Membership| {
        let mut message = message(MessageType::MsgSnapshot);
        message.set_snapshot(SnapshotMeta { index, term, membership }.to_raft());
        refused(&message)
    };
    let voters = || Membership::from_voters([1]);
    assert!(matches!(with(5, 9, Membership::default()), MessageError::Malformed { .. }));
    assert!(matches!(with(5, 10, voters()), MessageError::OutOfRange { .. }));
    assert!(matches!(with(0, 9, voters()), MessageError::OutOfRange { .. }));
}

#[test]
fn message_for_another_group_is_refused() {
    let error = MessageError::WrongGroup { group_id: GROUP, expected: 8 };
    assert_eq!(decode(8, &encode(GROUP, &append())), Err(error));
}

#[test]
fn only_an_append_without_entries_may_be_quiet() {
    let empty = Message { log_term: 8, index: 10, commit: 10, ..message(MessageType::MsgAppend) };
    let bytes = super::encode(GROUP, &empty, true);
    let decoded = Decoded { message: empty, is_quiet: true };
    assert_eq!(super::decode(GROUP, &bytes), Ok(decoded));
    let malformed = |what| Err(MessageError::Malformed { offset: 2, what });
    let with_entries = super::encode(GROUP, &append(), true);
    assert_eq!(super::decode(GROUP, &with_entries), malformed("a quiet append with entries"));
    let heartbeat = super::encode(GROUP, &message(MessageType::MsgHeartbeat), true);
    assert_eq!(super::decode(GROUP, &heartbeat), malformed("flags"));
}
