//! One list of a batch's identity table: what is read is written with the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::entry::{decode_identities, encode_identities};

fuzz_target!(|bytes: &[u8]| {
    let Ok(identities) = decode_identities(bytes) else { return };
    assert_eq!(encode_identities(identities.into_iter()), bytes);
});
