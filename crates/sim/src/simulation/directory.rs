//! The judgement of a damaged directory: what a start finds in it.

use machine::{Level, MemberId};
use member::recovery::{OpenedMember, Reading, Recovered, open_member};
use storage::fault_disk::FaultDisk;

use crate::disk::SimDisk;
use crate::server::MemberConfig;

/// What a start makes of a damaged directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The directory is what it was.
    Same,
    /// The directory is corrupt, and is set aside.
    Corrupt,
    /// The directory passes for one whose last write was torn: it has less than it had.
    Torn,
    /// A start takes it for something else.
    Other,
}

/// Compares what a start makes of a damaged disk with what it makes of the disk before the damage.
pub(super) fn found(config: &MemberConfig, before: &FaultDisk, damaged: &SimDisk) -> Found {
    // Whether it is damaged does not depend on the build.
    let reading = || Reading { level_max: Level::NEWEST, ..config.reading() };
    let open = |disk: &FaultDisk| open_member(disk, &config.drawn(0), reading(), |_| {});
    let (before, after) = (open(before), open(&damaged.copy()));
    if let (Ok(_), Err(error)) = (&before, &after) {
        // The others have what the directory held, so it is of no use to wait until someone looks
        // at it.
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

/// What a member must not forget: who it is, its vote, and its log.
fn view(recovered: &Recovered<FaultDisk>) -> (MemberId, (u64, u64), (u64, u64)) {
    let restored = &recovered.restored;
    let last = restored.entries.last().map(|entry| (entry.index, entry.term));
    let last = last.unwrap_or((restored.snapshot_index, restored.snapshot_term));
    (recovered.origin.member, (restored.hard_state.term, restored.hard_state.vote), last)
}
