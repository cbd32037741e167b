//! Decodes headers and trailers that are intact, cut off, changed, or at another position.

use super::*;
use crate::crc::crc32c;

const SALT: Salt = Salt(0x5a17_5a17);

fn header() -> Header {
    Header {
        kind: Kind::Chunk,
        at: Position { segment: 3, offset: 8192 },
        container_id: u64::MAX,
        local_id: 2,
        block_offset: 5,
        body_bytes: PIECE_BYTES as u32 + 1,
        previous: 4096,
        durable: Position { segment: 2, offset: 4096 },
    }
}

#[test]
fn a_header_comes_back_as_it_was() {
    for kind in Kind::ALL {
        let header = Header { kind, ..header() };
        assert_eq!(decode_header(&encode_header(&header, SALT), header.at, SALT), Ok(header));
    }
}

#[test]
fn a_header_with_any_bit_changed_is_none() {
    let bytes = encode_header(&header(), SALT);
    for bit in 0..8 * HEADER_BYTES {
        let mut bad = bytes;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_header(&bad, header().at, SALT).is_err(), "bit {bit}");
    }
    for count in 0..HEADER_BYTES {
        assert!(decode_header(&bytes[..count], header().at, SALT).is_err(), "{count} bytes");
    }
}

#[test]
fn a_header_at_another_place_is_none() {
    let bytes = encode_header(&header(), SALT);
    for at in [Position { segment: 4, offset: 8192 }, Position { segment: 3, offset: 4096 }] {
        assert!(decode_header(&bytes, at, SALT).is_err());
    }
}

#[test]
fn a_header_of_another_store_is_none() {
    for salt in [Salt(0), Salt(SALT.0 ^ 1)] {
        let bytes = encode_header(&header(), salt);
        assert!(decode_header(&bytes, header().at, SALT).is_err(), "{salt:?}");
    }
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let header = Header { body_bytes: RECORD_BODY_BYTES_MAX as u32 + 1, ..header() };
    assert!(decode_header(&encode_header(&header, SALT), header.at, SALT).is_err());
}

#[test]
fn a_trailer_belongs_to_its_header_and_names_the_bad_piece() {
    let body: Vec<u8> = (0..=PIECE_BYTES).map(|index| index as u8).collect();
    let crcs: Vec<u32> = body.chunks(PIECE_BYTES).map(crc32c).collect();
    let mut trailer = Vec::new();
    encode_trailer(&encode_header(&header(), SALT), &crcs, &mut trailer);
    assert_eq!(trailer.len(), trailer_bytes(body.len()));
    assert_eq!(decode_trailer(&header(), &trailer, SALT), Ok(crcs.clone()));
    let other = Header { local_id: 3, ..header() };
    assert!(decode_trailer(&other, &trailer, SALT).is_err());
    for bit in 0..8 * trailer.len() {
        let mut bad = trailer.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_trailer(&header(), &bad, SALT).is_err(), "bit {bit}");
    }
    assert_eq!(first_bad_piece(&body, 0, &crcs), None);
    assert_eq!(first_bad_piece(&body[PIECE_BYTES..], 1, &crcs), None);
    let mut bad = body.clone();
    bad[PIECE_BYTES] ^= 1;
    assert_eq!(first_bad_piece(&bad, 0, &crcs), Some(1));
    assert_eq!(first_bad_piece(&bad[PIECE_BYTES..], 1, &crcs), Some(1));
    assert_eq!(first_bad_piece(&[bad, vec![0; PIECE_BYTES]].concat(), 0, &crcs), Some(1));
}

#[test]
fn a_record_is_its_parts_up_to_eight_bytes() {
    assert_eq!(record_bytes(0), 72);
    assert_eq!(record_bytes(1), 80);
    assert_eq!(record_bytes(1024), 64 + 1024 + 8);
    assert_eq!(record_bytes(PIECE_BYTES + 1) % 8, 0);
}
