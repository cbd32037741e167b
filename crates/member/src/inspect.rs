//! Checks a data directory without changing it: its files, as `storage` does, and what the entries
//! of its log say.

use machine::Level;
use machine::codec::DecodeError;
use storage::disk::Disk;
use storage::inspect::Report;
use storage::snapshot::RECEIVED_NAME;
use storage::wal::EntryKind;

use crate::message::UnknownEntry;
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
