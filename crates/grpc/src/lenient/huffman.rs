//! Decodes HPACK's Huffman code (RFC 7541, appendix B). The code is canonical: shorter codes come
//! first, and codes of one length follow each other in the order of their symbols. So the lengths
//! of the codes determine the codes.

/// The length of each byte's code, in bits.
#[rustfmt::skip]
const BITS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

const BITS_MIN: u8 = 5;
const BITS_MAX: u8 = 30;

/// All bytes, in the order of their codes: those with the shortest codes first.
const SYMBOLS: [u8; 256] = {
    let (mut symbols, mut count, mut bits) = ([0; 256], 0, BITS_MIN);
    while bits <= BITS_MAX {
        let mut symbol = 0;
        while symbol < 256 {
            if BITS[symbol] == bits {
                symbols[count] = symbol as u8;
                count += 1;
            }
            symbol += 1;
        }
        bits += 1;
    }
    assert!(count == 256);
    symbols
};

/// How many codes there are of each length.
const COUNTS: [usize; BITS_MAX as usize + 1] = {
    let (mut counts, mut symbol) = ([0; BITS_MAX as usize + 1], 0);
    while symbol < 256 {
        counts[BITS[symbol] as usize] += 1;
        symbol += 1;
    }
    counts
};

/// Decodes a text. `None` if it has a bad code, or does not end with padding of ones.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 8 / usize::from(BITS_MIN));
    // `code` and `bits` are the code so far. `first` is the first code of that length; `shorter` is
    // the number of symbols with shorter codes.
    let (mut code, mut bits, mut first, mut shorter) = (0, 0, 0, 0);
    for byte in text {
        for shift in (0..8).rev() {
            code = code << 1 | usize::from(byte >> shift & 1);
            bits += 1;
            let count = *COUNTS.get(bits)?;
            if code < first + count {
                out.push(SYMBOLS[shorter + code - first]);
                (code, bits, first, shorter) = (0, 0, 0, 0);
            } else {
                first = (first + count) << 1;
                shorter += count;
            }
        }
    }
    // The padding is less than a byte, all ones.
    (bits < 8 && code + 1 == 1 << bits).then_some(out)
}
