//! Decodes identities that are intact, changed, cut off, or of version 1.

use super::*;

#[test]
fn an_identity_comes_back_as_it_was() {
    let identity = Identity::from_id(7);
    assert_eq!(decode_identity(&encode_identity(&identity)), Ok(identity));
    assert_ne!(Identity::draw().store_id, Identity::draw().store_id);
}

#[test]
fn an_identity_with_any_bit_changed_or_cut_off_anywhere_is_none() {
    let bytes = encode_identity(&Identity::from_id(7));
    for bit in 0..8 * bytes.len() {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_identity(&bad).is_err(), "bit {bit}");
    }
    for count in 0..bytes.len() {
        assert!(decode_identity(&bytes[..count]).is_err(), "{count} bytes");
    }
}

#[test]
fn an_identity_of_version_1_has_no_salt() {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend_from_slice(&9u128.to_le_bytes());
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    assert_eq!(decode_identity(&bytes), Ok(Identity { store_id: 9, salt: Salt(0) }));
}
