//! The payload of a log entry, with all its batches and commands.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|entry: &[u8]| {
    let _ = machine::entry::verify(entry);
});
