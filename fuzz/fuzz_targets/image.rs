//! An image of the machine: refused, or restored to a machine whose own image gives the same state.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::Machine;
use machine::freeze::{FreezeStep, Restore, RestoreError};

fuzz_target!(|image: &[u8]| {
    let Ok(mut machine) = restore(image) else { return };
    machine.freeze();
    let FreezeStep::Last(again) = machine.freeze_step(usize::MAX, u32::MAX) else {
        unreachable!("one step is enough")
    };
    let restored = restore(&again).expect("what was written is whole");
    assert_eq!(restored.digest(), machine.digest());
});

fn restore(image: &[u8]) -> Result<Machine, RestoreError> {
    let mut restore = Restore::default();
    restore.piece(image)?;
    restore.finish()
}
