use super::*;
use crate::fault_disk::Chance;

fn header() -> FrameHeader {
    FrameHeader {
        body_bytes: 0,
        kind: FrameKind::Entry,
        entry_kind: 1,
        group: 3,
        index: 0x1122_3344_5566_7788,
        term: 9,
        generation: 12,
        offset: 8192,
        mark: 8192,
        chain: 77,
        body_crc: 0,
    }
}

fn membership(count: usize) -> Membership {
    Membership {
        voters: (0..count as u64).collect(),
        voters_outgoing: vec![1, 2],
        learners: Vec::new(),
        learners_next: vec![u64::MAX],
        auto_leave: true,
    }
}

fn head(count: usize) -> Head {
    Head {
        link: Some(Link { sequence: 5, end: 9000, chain: 0xdead_beef }),
        hard_state: HardState { term: 1, vote: 2, commit: 3 },
        snapshot: SnapshotPoint { index: 4, term: 5 },
        membership: membership(count),
        blocks: 0x00ab_cdef,
    }
}

#[test]
fn a_frame_reads_back_as_it_was_written_at_every_length() {
    for count in 0..40 {
        let body: Vec<u8> = (0..count).collect();
        let mut bytes = Vec::new();
        let crc = encode_frame(&mut bytes, 42, &header(), &body);
        assert_eq!(bytes.len() as u64, frame_bytes(body.len()));
        let (read, read_crc) = decode_header(&bytes, 42).expect("reads");
        assert_eq!(read_crc, crc);
        let expected =
            FrameHeader { body_bytes: u32::from(count), body_crc: read.body_crc, ..header() };
        assert_eq!(read, expected);
        assert_eq!(decode_body(&read, &bytes[HEADER_BYTES..]).expect("reads"), body);
    }
}

#[test]
fn every_bit_of_a_frame_is_covered_and_so_is_the_salt() {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, 42, &header(), b"thirteen byte");
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            let read = decode_header(&changed, 42)
                .and_then(|(header, _)| decode_body(&header, &changed[HEADER_BYTES..]).map(drop));
            assert!(read.is_err(), "bit {bit} of byte {at}");
        }
    }
    assert!(decode_header(&bytes, 43).is_err());
    for cut in 0..HEADER_BYTES {
        assert!(decode_header(&bytes[..cut], 42).is_err());
    }
}

#[test]
fn the_layout_of_a_frame_is_the_one_on_paper() {
    let mut bytes = Vec::new();
    let crc = encode_frame(&mut bytes, 0, &header(), b"ab");
    assert_eq!(bytes[0..4], crc.to_le_bytes());
    assert_eq!(bytes[4..8], 2_u32.to_le_bytes());
    assert_eq!(bytes[8..12], [2, 1, 0, 0]);
    assert_eq!(bytes[12..16], 3_u32.to_le_bytes());
    assert_eq!(bytes[16..24], 0x1122_3344_5566_7788_u64.to_le_bytes());
    assert_eq!(bytes[24..32], 9_u64.to_le_bytes());
    assert_eq!(bytes[32..40], 12_u64.to_le_bytes());
    assert_eq!(bytes[40..48], 8192_u64.to_le_bytes());
    assert_eq!(bytes[48..56], 8192_u64.to_le_bytes());
    assert_eq!(bytes[56..60], 77_u32.to_le_bytes());
    assert_eq!(bytes[60..64], crc32c::crc32c(b"ab\0\0\0\0\0\0").to_le_bytes());
    assert_eq!(bytes[64..], *b"ab\0\0\0\0\0\0");
}

#[test]
fn a_header_over_a_limit_is_refused_even_when_its_checksum_is_right() {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, 0, &header(), b"");
    let with = |at: usize, value: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + value.len()].copy_from_slice(value);
        let crc = crc32c::crc32c(&changed[4..HEADER_BYTES]);
        changed[..4].copy_from_slice(&crc.to_le_bytes());
        decode_header(&changed, 0).map(drop)
    };
    assert!(with(4, &(BODY_BYTES_MAX as u32).to_le_bytes()).is_ok());
    assert!(with(4, &(BODY_BYTES_MAX as u32 + 1).to_le_bytes()).is_err());
    assert!(with(8, &[5]).is_ok());
    assert!(with(8, &[6]).is_err());
    assert!(with(8, &[0]).is_err());
    assert!(with(10, &[1]).is_err());
    assert!(with(48, &8200_u64.to_le_bytes()).is_err());
}

#[test]
fn a_membership_at_the_limit_is_taken_and_one_past_it_refused() {
    let most = membership(MEMBERS_MAX);
    check_membership(&most).expect("is at the limit");
    let bytes = encode_membership(&most);
    assert_eq!(decode_membership(&bytes).expect("reads"), most);
    let more = membership(MEMBERS_MAX + 1);
    assert!(check_membership(&more).is_err());
    assert!(decode_membership(&encode_membership(&more)).is_err());
}

#[test]
fn bodies_cut_at_every_byte_or_with_bytes_left_over_are_refused() {
    fn check<T: core::fmt::Debug + PartialEq>(
        value: T,
        bytes: &[u8],
        decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
    ) {
        assert_eq!(decode(bytes).expect("reads"), value);
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(&[bytes, &[0]].concat()).is_err());
    }
    check(head(3), &encode_head(&head(3)), decode_head);
    let birth = Head { link: None, ..head(0) };
    check(birth.clone(), &encode_head(&birth), decode_head);
    check(membership(2), &encode_membership(&membership(2)), decode_membership);
    let state = head(0).hard_state;
    check(state, &encode_hard_state(&state), decode_hard_state);
    let point = head(0).snapshot;
    check(point, &encode_snapshot_point(&point), decode_snapshot_point);
}

#[test]
fn every_bit_of_a_slot_is_covered() {
    let slot = Slot { generation: 7, mark: 12_000, is_sealed: true, successor: 8 };
    let bytes = encode_slot(&slot);
    assert_eq!(decode_slot(&bytes), Ok(slot));
    for at in 0..SLOT_BYTES {
        assert!(decode_slot(&bytes[..at]).is_err());
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert!(decode_slot(&changed).is_err(), "bit {bit} of byte {at}");
        }
    }
    assert!(decode_slot(&[0; SLOT_BYTES]).is_err());
}

#[test]
fn zeros_are_no_frame_and_no_entry_has_index_0() {
    assert!(decode_header(&[0; HEADER_BYTES], 0).is_err());
    let zero = FrameHeader { index: 0, ..header() };
    assert!(decode_entry(&zero, &Bytes::new()).is_err());
    let strange = FrameHeader { entry_kind: 2, ..header() };
    assert!(decode_entry(&strange, &Bytes::new()).is_err());
    assert!(decode_entry(&header(), &Bytes::new()).is_ok());
}

#[test]
fn random_and_mutated_bytes_never_panic() {
    let mut chance = Chance::new(5);
    let whole = encode_head(&head(4));
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        bytes.truncate(chance.below(whole.len() as u64 + 1) as usize);
        for _ in 0..chance.below(8) {
            if !bytes.is_empty() {
                let at = chance.below(bytes.len() as u64) as usize;
                bytes[at] = chance.bits() as u8;
            }
        }
        // These calls must only return.
        drop(decode_head(&bytes));
        drop(decode_head_version(&bytes));
        drop(decode_membership(&bytes));
        drop(decode_hard_state(&bytes));
        drop(decode_snapshot_point(&bytes));
        drop(decode_slot(&bytes));
        if let Ok((header, _)) = decode_header(&bytes, 0) {
            drop(decode_body(&header, &bytes));
        }
        drop(decode_body(&header(), &bytes));
    }
}

#[test]
fn large_payloads_share_the_bytes_that_were_read_and_small_ones_are_copied() {
    let read = Bytes::from(vec![7; SHARED_PAYLOAD_BYTES_MIN + 1]);
    for (bytes, is_shared) in [
        (SHARED_PAYLOAD_BYTES_MIN - 1, false),
        (SHARED_PAYLOAD_BYTES_MIN, true),
        (SHARED_PAYLOAD_BYTES_MIN + 1, true),
    ] {
        let payload = decode_entry(&header(), &read.slice(..bytes)).expect("it is good").payload;
        assert_eq!(payload, read.slice(..bytes));
        assert_eq!(payload.as_ptr() == read.as_ptr(), is_shared, "{bytes} bytes");
    }
}

#[test]
fn an_index_or_a_term_that_no_log_comes_to_is_damage() {
    let is_refused = |value: u64| {
        let state = HardState { term: 1, vote: u64::MAX, commit: 1 };
        let point = SnapshotPoint { index: 1, term: 1 };
        let body = Bytes::new();
        let refused = [
            decode_hard_state(&encode_hard_state(&HardState { term: value, ..state })).is_err(),
            decode_hard_state(&encode_hard_state(&HardState { commit: value, ..state })).is_err(),
            decode_snapshot_point(&encode_snapshot_point(&SnapshotPoint { index: value, ..point }))
                .is_err(),
            decode_snapshot_point(&encode_snapshot_point(&SnapshotPoint { term: value, ..point }))
                .is_err(),
            decode_entry(&FrameHeader { index: value, ..header() }, &body).is_err(),
            decode_entry(&FrameHeader { term: value, ..header() }, &body).is_err(),
        ];
        assert!(refused.iter().all(|it| *it == refused[0]), "{value}: {refused:?}");
        refused[0]
    };
    assert!(!is_refused(POSITION_MAX));
    assert!(is_refused(POSITION_MAX + 1));
    assert!(is_refused(u64::MAX));
}
