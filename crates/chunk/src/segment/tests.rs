//! Tests the encoding of the heads of segments, and the names of their files.

use super::*;

fn head() -> Head {
    Head {
        version: LOG_FORMAT_VERSION,
        store_id: 0x1234_5678_9abc_def0_1122_3344_5566_7788,
        number: 9,
        bytes: 65_536,
        follows: Position { segment: 8, offset: 12_288 },
        durable: Position { segment: 7, offset: 4096 },
    }
}

#[test]
fn a_head_comes_back_as_it_was() {
    assert_eq!(decode_head(&encode_head(&head())), Ok(head()));
}

#[test]
fn a_head_with_any_bit_changed_is_none() {
    let bytes = encode_head(&head());
    for bit in 0..8 * bytes.len() {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_head(&bad).is_err(), "bit {bit}");
    }
    for count in 0..bytes.len() {
        assert!(decode_head(&bytes[..count]).is_err(), "{count} bytes");
    }
}

#[test]
fn a_head_that_contradicts_itself_is_none() {
    for bad in [
        Head { follows: Position { segment: 9, offset: 0 }, ..head() },
        Head { durable: Position { segment: 8, offset: 12_289 }, ..head() },
        Head { bytes: FIRST_RECORD - 1, ..head() },
        Head { bytes: SEGMENT_BYTES_MAX + 1, ..head() },
    ] {
        assert!(decode_head(&encode_head(&bad)).is_err(), "{bad:?}");
    }
}

#[test]
fn a_head_is_read_from_the_copy_that_is_whole() {
    let mut block = vec![1; BLOCK_BYTES as usize];
    put_head(&head(), &mut block);
    assert_eq!(read_block(&block), Ok((head(), None)));
    for bit in (0..8 * HEAD_BYTES).flat_map(|bit| [bit, 8 * SECOND_HEAD + bit]) {
        let mut bad = block.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let wrong = if bit / 8 < SECOND_HEAD { 0 } else { SECOND_HEAD };
        assert_eq!(read_block(&bad), Ok((head(), Some(wrong))), "bit {bit}");
    }
    assert!(read_block(&block[..HEAD_BYTES - 1]).is_err());
    let first = Head { version: 1, ..head() };
    assert_eq!(read_block(&encode_head(&first)), Ok((first, None)));
}

#[test]
fn names_are_numbers_of_eight_digits() {
    assert_eq!(segment_path(0x1f), "log/0000001f.log");
    assert_eq!(parse_segment_name("0000001f.log"), Some(0x1f));
    assert_eq!(next_path(0x1f), "log/0000001f.next");
    assert_eq!(parse_next_name("0000001f.next"), Some(0x1f));
    assert_eq!(parse_next_name("0000001f.log"), None);
    for name in ["1f.log", "0000001F.log", "0000001f", "ffffffff.log", "+000001f.log", ".log"] {
        assert_eq!(parse_segment_name(name), None, "{name}");
    }
}
