//! Random changes to the inputs of decoders, for fuzz tests.

use crate::generate::Random;

/// The most changes that one call of [`change`] makes.
const CHANGES_MAX: u64 = 4;

/// The longest piece that is deleted, filled or doubled, in bytes.
const PIECE_BYTES_MAX: usize = 8;

/// The longest piece that is copied from the other input, in bytes.
const COPIED_BYTES_MAX: usize = 60;

/// Makes one to four random changes to `bytes`: inserts or replaces a byte, flips a bit, fills,
/// deletes or doubles a piece, or replaces a piece by one of `other`.
///
/// New bytes are drawn from `likely`, the bytes that mean something to the decoder. If `likely` is
/// empty, they may be any.
pub fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8], likely: &[u8]) {
    for _ in 0..random.between(1, CHANGES_MAX) {
        let new = if likely.is_empty() { random.bits() as u8 } else { *random.pick(likely) };
        let at = below(random, bytes.len() + 1);
        let end = bytes.len().min(at + 1 + below(random, PIECE_BYTES_MAX));
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] = new,
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => bytes.insert(at, new),
            3 => bytes[at..end].fill(*random.pick(&[0, 1, 0x7f, 0x80, 0xff, new])),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let twice = bytes[at..end].to_vec();
                bytes.splice(at..at, twice);
            }
            _ => {
                let from = below(random, other.len() + 1);
                let to = other.len().min(from + below(random, COPIED_BYTES_MAX));
                bytes.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
}

fn below(random: &mut Random, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn changed(seed: u64, likely: &[u8]) -> Vec<u8> {
        let mut bytes = b"0123456789".to_vec();
        change(&mut Random::new(seed), &mut bytes, b"abcdefghij", likely);
        bytes
    }

    #[test]
    fn a_seed_gives_the_same_bytes_and_others_give_many() {
        let all: BTreeSet<_> = (0..200).map(|seed| changed(seed, b"")).collect();
        assert!(all.len() > 150, "{}", all.len());
        assert_eq!(changed(7, b""), changed(7, b""));
        for of_other in [b'a', b'e', b'j'] {
            assert!(all.iter().any(|bytes| bytes.contains(&of_other)), "pieces are copied");
        }
        assert!(all.iter().any(|bytes| bytes.len() < 8));
        assert!(all.iter().any(|bytes| bytes.len() > 12));
    }

    #[test]
    fn likely_bytes_are_put_in() {
        let has = |seed, byte| changed(seed, b"{}").contains(&byte);
        assert!((0..200).filter(|seed| has(*seed, b'{') || has(*seed, b'}')).count() > 50);
    }

    #[test]
    fn there_may_be_no_bytes_to_change() {
        for seed in 0..200 {
            let mut bytes = Vec::new();
            change(&mut Random::new(seed), &mut bytes, b"", b"");
        }
    }
}
