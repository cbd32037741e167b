//! A command: what is read is read back as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::Command;

fuzz_target!(|bytes: &[u8]| {
    let Ok(command) = Command::decode(bytes) else { return };
    let mut encoded = Vec::new();
    command.encode(&mut encoded);
    assert_eq!(Command::decode(&encoded), Ok(command));
});
