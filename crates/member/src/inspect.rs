//! Checks a data directory without changing it: checks its files, as `storage` does, and that the
//! entries of its log can be decoded. Also reads the state that the directory holds.

use machine::codec::DecodeError;
use machine::{Level, Machine};
use replica::MembershipChange;
use storage::disk::Disk;
use storage::inspect::{Report, SeenEntry};
use storage::snapshot::RECEIVED_NAME;
use storage::wal::EntryKind;

use crate::message::UnknownEntry;
use crate::recovery::{RecoveryError, restore_newest};
use crate::replay::{self, DecodedEntry};
use crate::snapshot::received::{check_named, image_named, read_received};

/// Checks everything in the data directory whose root is `disk`; see [`storage::inspect::inspect`].
pub fn inspect<D: Disk + Clone>(disk: &D) -> Report {
    let mut named = None;
    let mut visit = |entry: SeenEntry<'_>| {
        let SeenEntry { index, kind, payload, .. } = entry;
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
    /// The last entry of the log that is applied to `machine`.
    pub index: u64,
    /// The last entry of the log. Entries behind `index` are not known to be committed, unless
    /// `ended` says why they are not applied.
    pub last_index: u64,
    /// Why committed entries are not applied to `machine`; `None` if all are.
    pub ended: Option<String>,
}

/// Reads the state from the data directory whose root is `disk`: the newest snapshot, then the
/// entries of the log that are known to be committed. If this member is the only voter, that is
/// every entry.
///
/// A server may run on the directory meanwhile: the log is read twice, and its first segments may
/// be deleted in between.
///
/// # Errors
/// No snapshot can be read.
pub fn held_state<D: Disk + Clone>(disk: &D) -> Result<HeldState, RecoveryError> {
    let SeenLog { report, terms, .. } = see_log(disk);
    let (meta, machine) = restore_newest(disk, 0, |_| {})?;
    let last_index = report.last_index.unwrap_or(0).max(meta.index);
    let known = report.hard_state.map_or(0, |state| state.commit);
    let membership = &meta.membership;
    let is_alone = report.identity.is_some_and(|it| membership.voters == [it.member_id])
        && membership.voters_outgoing.is_empty();
    let commit = if is_alone { last_index } else { known };
    let mut held = HeldState { machine, index: meta.index, last_index, ended: None };
    held.apply_log(disk, &terms, commit);
    Ok(held)
}

/// What the first reading of a log has shown.
pub(crate) struct SeenLog {
    /// The facts about the log.
    pub report: Report,
    /// The terms of its entries.
    pub terms: Terms,
    /// The entries that change the membership, among them those that do not count: the index, the
    /// term, and the change, which is `None` if it cannot be decoded.
    pub membership_entries: Vec<(u64, u64, Option<MembershipChange>)>,
}

/// Reads a log for the first time, to learn which of its entries count.
pub(crate) fn see_log<D: Disk>(disk: &D) -> SeenLog {
    let mut terms = Terms::default();
    let mut membership_entries = Vec::new();
    let visit = &mut |entry: SeenEntry<'_>| {
        terms.add(entry.index, entry.term);
        if entry.kind != EntryKind::Normal.as_u8() {
            let change = MembershipChange::decode(entry.payload).ok();
            membership_entries.push((entry.index, entry.term, change));
        }
        Ok(())
    };
    let report = storage::inspect::inspect_log(disk, visit);
    SeenLog { report, terms, membership_entries }
}

impl HeldState {
    /// Applies the entries of the log that count, up to `commit`.
    pub(crate) fn apply_log<D: Disk + Clone>(&mut self, disk: &D, terms: &Terms, commit: u64) {
        let visit = &mut |entry: SeenEntry<'_>| {
            let index = entry.index;
            let is_next = index == self.index + 1 && index <= commit;
            if is_next && terms.counts(index, entry.term) && self.ended.is_none() {
                match apply(disk, &mut self.machine, &entry) {
                    Ok(()) => self.index = index,
                    Err(what) => self.ended = Some(format!("entry {index}: {what}")),
                }
            }
            Ok(())
        };
        storage::inspect::inspect_log(disk, visit);
        if self.ended.is_none() && self.index < commit {
            self.ended = Some(format!("entry {} cannot be read", self.index + 1));
        }
    }
}

fn apply<D: Disk + Clone>(
    disk: &D,
    machine: &mut Machine,
    entry: &SeenEntry<'_>,
) -> Result<(), String> {
    let SeenEntry { index, kind, payload, .. } = *entry;
    UnknownEntry::check(index, payload, Level::NEWEST).map_err(|it| it.to_string())?;
    // An entry that changes the membership has no commands.
    let commands = if kind == EntryKind::Normal.as_u8() { payload } else { &[] };
    let decoded = DecodedEntry::decode(index, commands).map_err(|error| error.to_string())?;
    if let Some(hash) = image_named(kind, payload).map_err(|error| error.to_string())? {
        let image = read_received(disk, index, hash).map_err(|error| error.to_string())?;
        machine.prepare_image(image);
    }
    replay::apply(machine, &decoded);
    drop(machine.take_replaced());
    Ok(())
}

/// The term of each entry of a log. The log may hold an entry that was not committed, and later
/// another one at the same index with another term: the later one counts.
#[derive(Default)]
pub(crate) struct Terms {
    /// The index of the first entry of the log.
    first: u64,
    /// The term of each entry, from `first` on.
    of_index: Vec<u64>,
}

impl Terms {
    /// Adds an entry, in the order of the log.
    fn add(&mut self, index: u64, term: u64) {
        if self.of_index.is_empty() {
            self.first = index;
        }
        // The log of a damaged directory may have any indexes.
        if let Some(at) = index.checked_sub(self.first)
            && at <= self.of_index.len() as u64
        {
            self.of_index.truncate(at as usize);
            self.of_index.push(term);
        }
    }

    /// Whether the entry at `index` with this term is the one that counts.
    pub fn counts(&self, index: u64, term: u64) -> bool {
        self.of(index) == Some(term)
    }

    /// The term of the entry at `index` that counts; `None` if the log has no such entry.
    pub fn of(&self, index: u64) -> Option<u64> {
        let at = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.of_index.get(at).copied()
    }

    /// The index and the term of the last entry.
    pub fn last(&self) -> Option<(u64, u64)> {
        let term = *self.of_index.last()?;
        Some((self.first + self.of_index.len() as u64 - 1, term))
    }
}

#[cfg(test)]
pub(crate) mod tests;
