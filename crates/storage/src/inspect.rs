//! Checks a data directory without changing it: the small files of its birth, every frame of the
//! log, and every piece and the hash of each snapshot.
//!
//! Takes no lock and opens files only for reading, so it may run beside a server. If that server
//! writes meanwhile, an unfinished write may look torn.

use core::fmt;

use bytes::Bytes;

use crate::datadir::{
    BIRTH_FILE, BOOT_FILE, Birth, DRAFT_FILE, IDENTITY_FILE, Identity, SET_ASIDE_PREFIX, exists,
    read_birth, read_boot, read_draft, read_identity, refuse_lost_identity,
};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::record::{FrameHeader, FrameKind, HardState, SnapshotPoint};
use crate::snapshot::{self, RECEIVED_NAME, SnapshotReader};
use crate::wal::{
    Chain, HeadFound, Listing, Replay, Segment, TornTail, find_chain, log_path, read_head,
    scan_segment,
};

/// A function of the caller that [`inspect`] calls for each entry, in the order of the log. Its
/// error says what is wrong with the payload, and becomes a problem in the report.
pub type VisitEntry<'v> = dyn FnMut(SeenEntry<'_>) -> Result<(), String> + 'v;

/// One entry in the log. An entry that a later leader replaced is visited, too, before the entry
/// that replaced it.
#[derive(Clone, Copy, Debug)]
pub struct SeenEntry<'f> {
    /// The entry's index.
    pub index: u64,
    /// The term of the leader that appended it. Index and term together identify an entry.
    pub term: u64,
    /// The entry's kind, as [`EntryKind::as_u8`](crate::record::EntryKind::as_u8) encodes it.
    pub kind: u8,
    /// The entry's payload.
    pub payload: &'f [u8],
}

/// The content of a data directory, and its problems.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The directory's cluster id and member id; `None` if the file is missing or bad.
    pub identity: Option<Identity>,
    /// The member id of an unborn directory; `None` if the directory was born or has no draft.
    pub draft: Option<u64>,
    /// How the ensemble began; `None` if the file `birth` is missing or bad.
    pub birth: Option<Birth>,
    /// Number of starts of a server in this directory; `None` if the file `boot` is missing or bad.
    pub boot: Option<u64>,
    /// The snapshots, oldest first, and then the received one, if any.
    pub snapshots: Vec<SnapshotReport>,
    /// The segments that make up the log, oldest first.
    pub segments: Vec<SegmentReport>,
    /// Numbers of segment files that are not part of the log.
    pub unused_segments: Vec<u64>,
    /// Numbers of spare files.
    pub spares: Vec<u64>,
    /// The newest hard state; `None` if the log could not be read.
    pub hard_state: Option<HardState>,
    /// The newest snapshot point in the log; `None` if the log could not be read.
    pub snapshot_point: Option<SnapshotPoint>,
    /// The last index of the log; `None` if the log could not be read.
    pub last_index: Option<u64>,
    /// Unusual findings that are no problem.
    pub notes: Vec<String>,
    /// Problems, the most important first. Empty if the directory is sound.
    pub problems: Vec<String>,
}

/// The content of one snapshot, as far as it could be read.
#[derive(Clone, Debug)]
pub struct SnapshotReport {
    /// The snapshot's file name.
    pub name: String,
    /// Number of pieces read.
    pub piece_count: u64,
    /// Bytes in these pieces, decompressed.
    pub raw_bytes: u64,
    /// The hash of the file; `None` if something in it is wrong.
    pub hash: Option<u128>,
}

/// Facts about one segment of the log.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// The segment's number, which is also its generation.
    pub sequence: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The offset where the last good frame ends.
    pub end: u64,
    /// Everything below this offset is known to have been durable.
    pub mark: u64,
    /// Number of good frames, with the head.
    pub frame_count: u64,
    /// The indexes of the first and the last entry frame; `None` if there is none.
    pub entries: Option<(u64, u64)>,
    /// The highest term of an entry; 0 if there is none.
    pub term_max: u64,
    /// Whether a slot shows that another segment follows.
    pub is_sealed: bool,
    /// A torn write behind `end`, if any. No problem: the next start cuts it off.
    pub tail: Option<TornTail>,
}

impl Report {
    /// Whether a server would start here without losing anything that was durable.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// The index of the newest sound snapshot, if any.
    pub fn newest_snapshot(&self) -> Option<u64> {
        let sound = self.snapshots.iter().filter(|it| it.hash.is_some());
        let index_of = |name: &str| name.split_once('-').map(|(index, _)| index.to_owned());
        sound.filter_map(|it| u64::from_str_radix(&index_of(&it.name)?, 16).ok()).max()
    }
}

/// Checks everything in the directory that is the root of `disk`. Reports every damage as a problem
/// in the report.
pub fn inspect<D: Disk + Clone>(disk: &D, visit: &mut VisitEntry) -> Report {
    let mut report = Report::default();
    inspect_set_aside(disk, &mut report);
    match inspect_draft(disk) {
        Ok(None) => {}
        Ok(Some(member_id)) => {
            report.draft = Some(member_id);
            report.notes.push("it is not born yet: the ensemble waits for its servers".to_string());
            return report;
        }
        Err(error) => report.problems.push(error.to_string()),
    }
    match read_identity(disk) {
        Ok(identity) => {
            report.identity = Some(identity);
            match inspect_birth(disk, identity) {
                Ok(birth) => report.birth = birth,
                Err(error) => report.problems.push(error.to_string()),
            }
        }
        Err(error) => report.problems.push(error.to_string()),
    }
    match read_boot(disk) {
        Ok(boot) => {
            report.boot = Some(boot.count);
            if !boot.is_whole {
                let note = format!("one slot of {BOOT_FILE} does not check; the other counts");
                report.notes.push(note);
            }
        }
        Err(error) => report.problems.push(error.to_string()),
    }
    add_log(disk, &mut report, visit);
    match snapshot::list(disk) {
        Ok(names) => {
            for name in names {
                inspect_snapshot(disk, name.name, &mut report);
            }
        }
        Err(error) => report.problems.push(error.to_string()),
    }
    match snapshot::has_received(disk) {
        Ok(true) => inspect_snapshot(disk, RECEIVED_NAME.to_string(), &mut report),
        Ok(false) => {}
        Err(error) => report.problems.push(error.to_string()),
    }
    check_together(&mut report);
    report
}

/// Checks only the log: the report has no snapshots. It has the identity if that can be read.
/// Reports every damage as a problem in the report.
pub fn inspect_log<D: Disk>(disk: &D, visit: &mut VisitEntry) -> Report {
    let mut report = Report { identity: read_identity(disk).ok(), ..Report::default() };
    add_log(disk, &mut report, visit);
    report
}

fn add_log<D: Disk>(disk: &D, report: &mut Report, visit: &mut VisitEntry) {
    if let Err(error) = read_log(disk, report, visit) {
        report.problems.push(error.to_string());
    }
}

/// Notes each directory that was set aside. Such a directory is inspected separately.
fn inspect_set_aside<D: Disk>(disk: &D, report: &mut Report) {
    let names = disk.list("").unwrap_or_default();
    for name in names.iter().filter(|name| name.starts_with(SET_ASIDE_PREFIX)) {
        report.notes.push(format!("{name} holds what was set aside"));
    }
}

/// The member id of an unborn directory, if the directory holds nothing that could be lost.
fn inspect_draft<D: Disk>(disk: &D) -> Result<Option<u64>, StorageError> {
    if exists(disk, IDENTITY_FILE)? || !exists(disk, DRAFT_FILE)? {
        return Ok(None);
    }
    refuse_lost_identity(disk)?;
    read_draft(disk).map(|draft| Some(draft.member_id))
}

fn inspect_birth<D: Disk>(disk: &D, identity: Identity) -> Result<Option<Birth>, StorageError> {
    match exists(disk, BIRTH_FILE)? {
        true => read_birth(disk, identity).map(Some),
        false => Ok(None),
    }
}

/// The log's group ([`crate::wal::WalOptions::group`]), from the newest segment with a good head; 0
/// if no head is good. Inspection has no configuration that names the group.
fn find_group<D: Disk>(disk: &D, listing: &Listing) -> Result<u32, StorageError> {
    for sequence in listing.logs.iter().rev() {
        if let HeadFound::Good(segment) = read_head(disk, *sequence, None)? {
            return Ok(segment.group);
        }
    }
    Ok(0)
}

fn read_log<D: Disk>(
    disk: &D,
    report: &mut Report,
    visit: &mut VisitEntry,
) -> Result<(), StorageError> {
    let listing = Listing::read(disk)?;
    report.spares = listing.spares.clone();
    let group = find_group(disk, &listing)?;
    let Chain { segments } = find_chain(disk, &listing, group)?;
    let is_live = |number: &u64| segments.iter().any(|it| it.sequence == *number);
    report.unused_segments = listing.logs.iter().copied().filter(|it| !is_live(it)).collect();
    let Some(first) = segments.first() else {
        return Ok(());
    };
    let mut replay = Replay::new(first);
    let problem_count = report.problems.len();
    for (position, segment) in segments.iter().enumerate() {
        if position > 0
            && let Err(error) = replay.on_head(segment)
        {
            report.problems.push(error.to_string());
            replay = Replay::new(segment);
        }
        let next = segments.get(position.saturating_add(1));
        if let Err(error) = inspect_segment(disk, segment, next, report, &mut replay, visit) {
            report.problems.push(error.to_string());
            // Continue with the next head, to find all damage in one run.
            if let Some(next) = next {
                replay = Replay::new(next);
            }
        }
    }
    // If a segment is damaged, that already explains the missing entries.
    if report.problems.len() == problem_count && !replay.is_complete() {
        let what = format!("{}: entries behind the snapshot are missing", log_path(first.sequence));
        report.problems.push(what);
    }
    report.hard_state = Some(replay.hard_state);
    report.snapshot_point = Some(replay.snapshot);
    report.last_index = Some(replay.last());
    Ok(())
}

fn inspect_segment<D: Disk>(
    disk: &D,
    segment: &Segment,
    next: Option<&Segment>,
    report: &mut Report,
    replay: &mut Replay,
    visit: &mut VisitEntry,
) -> Result<(), StorageError> {
    let link = next.and_then(|next| next.head.link);
    let mut entries: Option<(u64, u64)> = None;
    let mut term_max = 0;
    let mut bad_payloads = Vec::new();
    let mut on_frame = |header: &FrameHeader, body: &Bytes| {
        if header.kind != FrameKind::Entry {
            return replay.on_frame(header, body);
        }
        let first = entries.map_or(header.index, |(first, _)| first);
        entries = Some((first, header.index));
        term_max = term_max.max(header.term);
        let FrameHeader { index, term, entry_kind: kind, .. } = *header;
        if let Err(what) = visit(SeenEntry { index, term, kind, payload: body }) {
            bad_payloads.push(format!("entry {index} at {}: {what}", header.offset));
        }
        // The payload is not kept: only the order of entries matters here.
        replay.on_frame(header, &Bytes::new())
    };
    let scanned = scan_segment(disk, segment, link.as_ref(), &mut on_frame);
    let path = log_path(segment.sequence);
    report.problems.extend(bad_payloads.iter().map(|what| format!("{path}: {what}")));
    let scanned = scanned?;
    report.segments.push(SegmentReport {
        sequence: segment.sequence,
        bytes: segment.bytes,
        end: scanned.end,
        mark: scanned.mark,
        frame_count: scanned.frame_count,
        entries,
        term_max,
        is_sealed: segment.slot.is_some_and(|(_, slot)| slot.is_sealed),
        tail: scanned.tail,
    });
    Ok(())
}

fn inspect_snapshot<D: Disk + Clone>(disk: &D, name: String, report: &mut Report) {
    let mut found = SnapshotReport { name, piece_count: 0, raw_bytes: 0, hash: None };
    match read_snapshot(disk, &mut found, report.identity) {
        Ok(hash) => found.hash = Some(hash),
        Err(error) => report.problems.push(error.to_string()),
    }
    report.snapshots.push(found);
}

fn read_snapshot<D: Disk + Clone>(
    disk: &D,
    found: &mut SnapshotReport,
    identity: Option<Identity>,
) -> Result<u128, StorageError> {
    // A received snapshot may belong to another cluster.
    let is_received = found.name == RECEIVED_NAME;
    let mut reader = match is_received {
        true => SnapshotReader::open_received(disk.clone(), &found.name)?,
        false => SnapshotReader::open(disk.clone(), &found.name)?,
    };
    let cluster_id = reader.meta().cluster_id;
    if !is_received && identity.is_some_and(|identity| identity.cluster_id != cluster_id) {
        let file = format!("{}/{}", snapshot::SNAPSHOT_DIR, found.name);
        return Err(StorageError::corrupt(&file, 0, "the snapshot is of another cluster"));
    }
    while let Some(piece) = reader.next_piece()? {
        found.piece_count = found.piece_count.saturating_add(1);
        found.raw_bytes = found.raw_bytes.saturating_add(piece.len() as u64);
    }
    Ok(reader.hash())
}

/// Checks that a sound snapshot covers the part of the log that was released.
fn check_together(report: &mut Report) {
    let (Some(point), Some(last)) = (report.snapshot_point, report.last_index) else {
        return;
    };
    let newest = report.newest_snapshot();
    if newest.is_none_or(|newest| newest < point.index) {
        let index = point.index;
        let what = format!("the log starts behind index {index}, and no sound snapshot reaches it");
        report.problems.push(what);
    }
    if let Some(newest) = newest.filter(|newest| *newest > last) {
        // A snapshot from the leader was made durable, and the log does not yet start behind it.
        let note = format!("snapshot {newest} is ahead of the log's last index {last}");
        report.notes.push(note);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match (&self.identity, self.draft) {
            (Some(it), _) => {
                writeln!(out, "cluster {:032x} member {}", it.cluster_id, it.member_id)?;
            }
            (None, Some(member_id)) => writeln!(out, "member {member_id} of no cluster yet")?,
            (None, None) => writeln!(out, "no {IDENTITY_FILE}")?,
        }
        if let Some(birth) = &self.birth {
            writeln!(out, "first voters {:?}", birth.voters)?;
        }
        match self.boot {
            Some(boot) => writeln!(out, "boot {boot}")?,
            None if self.draft.is_none() => writeln!(out, "no {BOOT_FILE}")?,
            None => {}
        }
        for snapshot in &self.snapshots {
            writeln!(out, "{snapshot}")?;
        }
        for segment in &self.segments {
            writeln!(out, "{segment}")?;
        }
        for number in &self.unused_segments {
            writeln!(out, "{} is not part of the log", log_path(*number))?;
        }
        if let (Some(state), Some(point)) = (self.hard_state, self.snapshot_point) {
            writeln!(
                out,
                "term {} vote {} commit {}, snapshot at index {} term {}, last index {}",
                state.term,
                state.vote,
                state.commit,
                point.index,
                point.term,
                self.last_index.unwrap_or(0)
            )?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        for problem in &self.problems {
            writeln!(out, "PROBLEM: {problem}")?;
        }
        match self.is_sound() {
            true => writeln!(out, "sound"),
            false => writeln!(out, "NOT SOUND"),
        }
    }
}

impl fmt::Display for SnapshotReport {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let verdict = if self.hash.is_some() { "sound" } else { "bad" };
        let (name, pieces, bytes) = (&self.name, self.piece_count, self.raw_bytes);
        write!(out, "snapshot {name}: {verdict}, {pieces} pieces, {bytes} bytes")
    }
}

impl fmt::Display for SegmentReport {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let path = log_path(self.sequence);
        write!(out, "segment {path}: {} frames", self.frame_count)?;
        match self.entries {
            Some((first, last)) => write!(out, ", entries {first} to {last}")?,
            None => write!(out, ", no entries")?,
        }
        let (end, bytes, mark) = (self.end, self.bytes, self.mark);
        write!(out, ", {end} of {bytes} bytes, durable up to {mark}")?;
        if self.is_sealed {
            write!(out, ", sealed")?;
        }
        match &self.tail {
            Some(tail) => write!(out, ", torn: {} bytes at {}", tail.bytes, tail.offset),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
