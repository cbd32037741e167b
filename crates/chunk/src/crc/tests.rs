use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Computes a CRC bit by bit, with a reflected polynomial.
fn by_bits(polynomial: u32, bytes: &[u8]) -> u32 {
    let of_byte = |crc: u32, byte: &u8| {
        let step = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { polynomial } else { 0 };
        (0..8).fold(crc ^ u32::from(*byte), step)
    };
    !bytes.iter().fold(!0, of_byte)
}

#[test]
fn the_published_check_values() {
    // From the "Catalogue of parametrised CRC algorithms": CRC-32/ISO-HDLC and CRC-32/ISCSI.
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(b""), 0);
}

/// The library has different code for different lengths and CPUs.
#[test]
fn every_length_up_to_two_thousand() {
    let bytes: Vec<u8> = (0..2000_u32).map(|it| (it * 7 + it / 251) as u8).collect();
    for length in 0..bytes.len() {
        let bytes = &bytes[..length];
        assert_eq!(crc32(bytes), by_bits(0xedb8_8320, bytes), "{length} bytes");
        assert_eq!(crc32c(bytes), by_bits(0x82f6_3b78, bytes), "{length} bytes");
    }
}

proptest! {
    #[test]
    fn as_bit_by_bit_from_any_place(bytes in vec(any::<u8>(), 0..20_000), cut in 0_usize..64) {
        let cut = cut.min(bytes.len());
        let (head, rest) = bytes.split_at(cut);
        prop_assert_eq!(crc32(rest), by_bits(0xedb8_8320, rest));
        prop_assert_eq!(crc32c(rest), by_bits(0x82f6_3b78, rest));
        prop_assert_eq!(crc32c_append(crc32c(head), rest), by_bits(0x82f6_3b78, &bytes));
    }
}
