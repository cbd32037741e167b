//! Checks a data directory without changing it: its files, as `storage` does, and what the entries
//! of its log say. Reads the state that it holds.

use machine::codec::DecodeError;
use machine::{Command, ControlCommand, Level, Machine};
use storage::disk::Disk;
use storage::inspect::Report;
use storage::snapshot::RECEIVED_NAME;
use storage::wal::EntryKind;

use crate::message::UnknownEntry;
use crate::recovery::{RecoveryError, restore_newest};
use crate::replay::{self, DecodedEntry};
use crate::snapshot::received::{check_named, image_named};

/// Checks everything in the directory that is `disk`'s root; see [`storage::inspect::inspect`].
pub fn inspect<D: Disk + Clone>(disk: &D) -> Report {
    let mut named = None;
    let mut visit = |index: u64, kind: u8, payload: &[u8]| {
        if kind != EntryKind::Normal.as_u8() || payload.is_empty() {
            return Ok(());
        }
        UnknownEntry::check(index, payload, Level::NEWEST).map_err(|it| it.to_string())?;
        let failed = |error: DecodeError| error.to_string();
        machine::entry::verify(payload).map_err(failed)?;
        if let Some(hash) = image_named(kind, payload).map_err(failed)? {
            named = Some((index, hash));
        }
        Ok(())
    };
    let mut report = storage::inspect::inspect(disk, &mut visit);
    let restored = report.newest_snapshot();
    if let Some((index, hash)) = named.filter(|(index, _)| restored.is_none_or(|it| it < *index)) {
        let received = report.snapshots.iter().find(|it| it.name == RECEIVED_NAME);
        // A file that cannot be read was reported already.
        let is_noted = received.is_some_and(|it| it.hash.is_none());
        if !is_noted && let Err(error) = check_named(index, hash, received.and_then(|it| it.hash)) {
            report.problems.push(error.to_string());
        }
    }
    report
}

/// The state that a data directory holds.
pub struct HeldState {
    /// The state.
    pub machine: Machine,
    /// The last entry of the log that is in it.
    pub index: u64,
    /// The last entry of the log that is there. Those behind `index` are not known to be committed,
    /// unless `ended` says why they are not in the state.
    pub last_index: u64,
    /// Why entries that are known to be committed are not in it, if that is so.
    pub ended: Option<String>,
}

/// Reads the state that the directory which is `disk`'s root holds: the newest snapshot, and the
/// entries of the log that are known to be committed: all, if this member is alone.
///
/// # Errors
/// No snapshot can be read.
pub fn held_state<D: Disk + Clone>(disk: &D) -> Result<HeldState, RecoveryError> {
    // An entry that was not committed may stand in the log again: then the last one counts.
    let mut places = Places::default();
    let visit = &mut |index: u64, _: u8, _: &[u8]| {
        places.add(index);
        Ok(())
    };
    let report = storage::inspect::inspect(disk, visit);
    let (meta, machine) = restore_newest(disk, 0, |_| {})?;
    let last_index = report.last_index.unwrap_or(0).max(meta.index);
    let known = report.hard_state.map_or(0, |state| state.commit);
    let membership = &meta.membership;
    let is_alone = report.identity.is_some_and(|it| membership.voters == [it.member_id])
        && membership.voters_outgoing.is_empty();
    let commit = if is_alone { last_index } else { known };
    let mut held = HeldState { machine, index: meta.index, last_index, ended: None };
    let mut place = 0;
    let visit = &mut |index: u64, kind: u8, payload: &[u8]| {
        let is_last = places.is_last(index, place);
        place += 1;
        let is_next = index == held.index + 1 && index <= commit;
        if is_last && is_next && held.ended.is_none() {
            match apply(&mut held.machine, index, kind, payload) {
                Ok(()) => held.index = index,
                Err(what) => held.ended = Some(format!("entry {index}: {what}")),
            }
        }
        Ok(())
    };
    storage::inspect::inspect(disk, visit);
    if held.ended.is_none() && held.index < commit {
        held.ended = Some(format!("entry {} cannot be read", held.index + 1));
    }
    Ok(held)
}

fn apply(machine: &mut Machine, index: u64, kind: u8, payload: &[u8]) -> Result<(), String> {
    UnknownEntry::check(index, payload, Level::NEWEST).map_err(|it| it.to_string())?;
    // Changes of the membership are no commands.
    let commands = if kind == EntryKind::Normal.as_u8() { payload } else { &[] };
    let decoded = DecodedEntry::decode(index, commands).map_err(|error| error.to_string())?;
    let installs = |command: &Command<'_>| {
        matches!(command, Command::Control(ControlCommand::InstallImage { .. }))
    };
    if decoded.commands().any(installs) {
        return Err("it replaces the state by a snapshot that was brought".to_string());
    }
    replay::apply(machine, &decoded);
    Ok(())
}

/// The places at which the entries of a log stand last, counted in the order of the log.
#[derive(Default)]
struct Places {
    /// The index of the first entry.
    first: u64,
    /// The places so far.
    count: u64,
    /// The last place of each entry from the first on.
    of_index: Vec<u64>,
}

impl Places {
    fn add(&mut self, index: u64) {
        if self.of_index.is_empty() {
            self.first = index;
        }
        // The log of a damaged directory may have any indexes.
        if let Some(at) = index.checked_sub(self.first)
            && at <= self.of_index.len() as u64
        {
            self.of_index.truncate(at as usize);
            self.of_index.push(self.count);
        }
        self.count += 1;
    }

    fn is_last(&self, index: u64, place: u64) -> bool {
        let at = index.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.of_index.get(at)) == Some(&place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places that count, of entries with these indexes in the order of the log.
    fn last_places(indexes: &[u64]) -> Vec<usize> {
        let mut places = Places::default();
        indexes.iter().for_each(|index| places.add(*index));
        let is_last = |place: &usize| places.is_last(indexes[*place], *place as u64);
        (0..indexes.len()).filter(is_last).collect()
    }

    #[test]
    fn an_entry_that_was_written_again_counts_where_it_stands_last() {
        assert_eq!(last_places(&[5, 6, 7]), [0, 1, 2]);
        assert_eq!(last_places(&[5, 6, 7, 6, 7, 8]), [0, 3, 4, 5]);
        // The entries behind the one that was written again are gone with it.
        assert_eq!(last_places(&[5, 6, 7, 8, 6]), [0, 4]);
        assert_eq!(last_places(&[5, 6, 5]), [2]);
        // No log has these.
        assert_eq!(last_places(&[5, 9, 6, 3]), [0, 2]);
        assert_eq!(last_places(&[]), [0; 0]);
    }
}
