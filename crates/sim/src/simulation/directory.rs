//! Finds out whether a start of a member notices the damage to a directory.

use machine::{Level, MemberId};
use member::recovery::{OpenedMember, Reading, Recovered, open_member};
use storage::fault_disk::FaultDisk;

use crate::disk::SimDisk;
use crate::server::MemberConfig;

/// What a start on a damaged directory finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The member's id, vote and log are as before.
    Same,
    /// The start finds the directory corrupt and sets it aside.
    Corrupt,
    /// The start takes the damage for a torn write: the directory has lost its last entries.
    Torn,
    /// Anything else.
    Other,
}

/// Compares the start on a damaged disk with a start on the disk before the damage.
pub(super) fn found(config: &MemberConfig, before: &FaultDisk, damaged: &SimDisk) -> Found {
    // Whether a directory is damaged does not depend on the build.
    let reading = || Reading { level_max: Level::NEWEST, ..config.reading() };
    let open = |disk: &FaultDisk| open_member(disk, &config.drawn(0), reading(), |_| {});
    let (before, after) = (open(before), open(&damaged.copy()));
    if let (Ok(_), Err(error)) = (&before, &after) {
        // A start must set a damaged directory aside and not refuse it: the other members have the
        // data, so waiting for an operator is of no use.
        panic!("bits have flipped, and no start takes the directory: {error}");
    }
    match (before.ok(), after.ok()) {
        (Some(OpenedMember::Born(before)), Some(OpenedMember::Born(after))) => {
            match view(&before) == view(&after) {
                true => Found::Same,
                false => Found::Torn,
            }
        }
        (_, Some(OpenedMember::Unborn(after))) if after.set_aside.is_some() => Found::Corrupt,
        (Some(OpenedMember::Unborn(before)), Some(OpenedMember::Unborn(after)))
            if before.member == after.member =>
        {
            Found::Same
        }
        _ => Found::Other,
    }
}

/// The facts that a member must not forget: its id, its term and vote, and the index and term of
/// its last entry.
fn view(recovered: &Recovered<FaultDisk>) -> (MemberId, (u64, u64), (u64, u64)) {
    let restored = &recovered.restored;
    let last = restored.entries.last().map(|entry| (entry.index, entry.term));
    let last = last.unwrap_or((restored.snapshot_index, restored.snapshot_term));
    (recovered.origin.member, (restored.hard_state.term, restored.hard_state.vote), last)
}
