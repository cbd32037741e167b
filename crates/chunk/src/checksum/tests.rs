//! Compares checksums with published values, and finds data that changed.

use super::*;

/// Published check values for "123456789" and "abc".
#[test]
fn the_functions_are_the_ones_that_are_meant() {
    let of = |kind: ChecksumType, data: &[u8]| {
        kind.of(data).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(of(ChecksumType::None, b"123456789"), "");
    assert_eq!(of(ChecksumType::Crc32, b"123456789"), "cbf43926");
    assert_eq!(of(ChecksumType::Crc32c, b"123456789"), "e3069283");
    assert_eq!(of(ChecksumType::Md5, b"abc"), "900150983cd24fb0d6963f7d28e17f72");
    let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(of(ChecksumType::Sha256, b"abc"), sha);
}

#[test]
fn any_changed_byte_is_noticed_in_its_piece() {
    let data: Vec<u8> = (0..1000).map(|index| (index % 251) as u8).collect();
    for kind in ChecksumType::ALL.into_iter().skip(1) {
        let checksum = ChecksumData::of(kind, 300, &data);
        assert_eq!(checksum.checksums.len(), 4);
        assert_eq!(checksum.verify(&data), Ok(()));
        for at in [0, 299, 300, 999] {
            let mut bad = data.clone();
            bad[at] ^= 1;
            let piece = at as u64 / 300 * 300;
            assert_eq!(checksum.verify(&bad), Err(Mismatch::Piece { at: piece }));
        }
        let short = checksum.verify(&data[..900]);
        assert_eq!(short, Err(Mismatch::Count { count: 4, wanted: 3 }));
    }
}

#[test]
fn no_checksums_agree_with_everything() {
    assert_eq!(ChecksumData::none().verify(b"anything"), Ok(()));
    assert_eq!(ChecksumData::of(ChecksumType::Crc32, 16, b"").verify(b""), Ok(()));
}

#[test]
fn a_checksum_of_no_bytes_each_is_no_division_by_zero() {
    let checksum =
        ChecksumData { bytes_per_checksum: 0, ..ChecksumData::of(ChecksumType::Md5, 1, b"ab") };
    assert_eq!(checksum.verify(b"ab"), Ok(()));
}

#[test]
fn types_have_their_numbers() {
    for kind in ChecksumType::ALL {
        assert_eq!(ChecksumType::from_number(kind.number()), Some(kind));
    }
    assert_eq!(ChecksumType::from_number(0), None);
    assert_eq!(ChecksumType::from_number(6), None);
}
