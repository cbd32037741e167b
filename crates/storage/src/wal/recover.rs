//! Opens the log: reads it, makes what was read durable, and continues in a fresh segment. Never
//! appends to the old last segment, whose end may be torn. ([`super`] explains the words *mark*,
//! *head* and *seal*.)
//!
//! The order of the writes ensures that the log recovers to the same state after a crash at any of
//! these steps:
//!
//! 1. Write back and sync the frames that were read behind the mark. After `kill -9`, or after a
//!    start whose sync failed, the page cache may show frames that are not on the disk and that the
//!    kernel believes to be clean; writing them again makes them dirty. The bytes are equal and go
//!    to the same place, so sectors that were durable do not change.
//! 2. Seal every segment that has a successor and no seal. A crash between a head and the seal of
//!    the segment before leaves such a segment. If that head is damaged later, only the seal shows
//!    that anything followed. Step 1 made the newest head durable.
//! 3. Turn files that are not part of the log into spares, or remove them. A start that crashed may
//!    have left its fresh segment, and on a full disk the next start may need that very file. Files
//!    that the chain does not reach can be given up only now: a replaced segment must stay until
//!    the head that replaces it is durable (step 1) and until a loss of that head would be noticed
//!    (the seals of step 2).
//! 4. Start the fresh segment: name it, sync the directory, write the head, sync. Its head names
//!    the offset where the old segment ends; from here on nothing behind that offset counts.
//! 5. Seal the old segment.
//! 6. Recycle or remove the segments that the fresh one replaces, and sync the directory, so that
//!    these files cannot come back among entries that are acknowledged from here on.
//!
//! If the old segment holds few entries or none, the fresh one carries them (holds copies), links
//! to the segment before the old one, and replaces the old one. So a server that restarts again and
//! again, and appends one entry as leader each time, does not collect segments. Carried entries
//! were acknowledged, so their loss must never pass for a torn write. The head's bytes are known in
//! advance, so the entries are written behind the head's place and synced before the head is
//! written. A head on disk thus always has its carried entries behind it, and its mark covers them.
//! Until that head exists, the old segment is the log's last.

use crate::disk::{Disk, WAL_DIR};
use crate::error::StorageError;
use crate::limits::{
    BIRTH_SEGMENT_BYTES, CARRIED_BYTES_MAX, CARRIED_SHARE, FILL_STEP_BYTES, RESERVE_COUNT,
    SEGMENT_BYTES_MIN,
};
use crate::record::{
    FRAMES_START, FrameKind, HardState, Head, Link, LogEntry, Membership, Slot, SnapshotPoint,
    frame_bytes,
};
use crate::wal::replay::Replay;
use crate::wal::scan::{
    HeadFound, Listing, Scanned, Segment, TornTail, Window, find_chain, log_path, read_head, scan,
    spare_path, temporary_path,
};
use crate::wal::spare::{Spare, make_now};
use crate::wal::{
    SegmentInfo, Stage, Wal, WalOptions, is_kept, new_stage, open_spare, recycle, write_slot,
};

/// The content of the log when it was opened.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The newest hard state; its commit index lies between the snapshot's index and the last
    /// entry's.
    pub hard_state: HardState,
    /// The newest membership.
    pub membership: Membership,
    /// The snapshot point; a snapshot covers every entry up to it.
    pub snapshot: SnapshotPoint,
    /// All entries behind the snapshot point, without gaps.
    pub entries: Vec<LogEntry>,
    /// The torn write that was cut off, if any.
    pub cut: Option<TornTail>,
}

/// Implements [`Wal::create`].
pub(crate) fn create<D: Disk>(
    disk: &D,
    options: &WalOptions,
    hard_state: HardState,
    membership: &Membership,
    snapshot: SnapshotPoint,
) -> Result<(), StorageError> {
    let made = disk.create_dir(WAL_DIR);
    made.map_err(|error| StorageError::io(WAL_DIR, "create", error))?;
    let synced = disk.sync_dir("");
    synced.map_err(|error| StorageError::io("", "sync", error))?;
    let listing = Listing::read(disk)?;
    let sequence = listing.number_next()?;
    let spare = make_now(disk, sequence, BIRTH_SEGMENT_BYTES)?;
    let file = open_spare(disk, spare, sequence)?;
    let (membership, blocks) = (membership.clone(), Head::blocks_of(spare.bytes));
    let head = Head { link: None, hard_state, snapshot, membership, blocks };
    let stage = new_stage(options, sequence, spare, snapshot.index, &head, 0);
    write_head(disk, &file, &stage, stage.buffer.len())?;
    // This mark is the only proof that the head was durable: no earlier segment can be sealed.
    let mark = Slot { generation: sequence, mark: stage.end(), is_sealed: false, successor: 0 };
    write_slot(disk, &file, &mark, 0)?;
    let logs = listing.logs.iter().map(|number| log_path(*number));
    let spares = listing.spares.iter().map(|number| spare_path(*number));
    let temporaries = listing.temporaries.iter().map(|number| temporary_path(*number));
    for path in logs.chain(spares).chain(temporaries) {
        remove(disk, &path)?;
    }
    Ok(())
}

/// Whether the log holds more than a run of [`create`] leaves, completed or crashed; if so,
/// creating another log would destroy data. Takes the arguments that [`create`] would get. Changes
/// nothing.
pub(crate) fn was_used<D: Disk>(
    disk: &D,
    hard_state: HardState,
    snapshot: SnapshotPoint,
) -> Result<bool, StorageError> {
    for sequence in Listing::read(disk)?.logs {
        let is_used = match read_head(disk, sequence, None)? {
            HeadFound::Good(segment) => {
                let head = &segment.head;
                let is_as_born = head.link.is_none()
                    && head.hard_state == hard_state
                    && head.snapshot == snapshot
                    && segment.base_index == snapshot.index;
                !is_as_born || has_frames(disk, &segment)?
            }
            // A slot is written only after the head was durable, so a crashed creation has none.
            HeadFound::Bad { was_durable, .. } => was_durable,
        };
        if is_used {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether anything, good or damaged, was written behind the head.
fn has_frames<D: Disk>(disk: &D, segment: &Segment) -> Result<bool, StorageError> {
    match scan(disk, segment, None, &mut |_, _| Ok(())) {
        Ok(scanned) => Ok(scanned.frame_count > 1 || scanned.tail.is_some()),
        Err(StorageError::Corrupt { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The log as it was read, before anything is written.
struct Found {
    listing: Listing,
    segments: Vec<Segment>,
    replay: Replay,
    last: Scanned,
}

fn read<D: Disk>(disk: &D, options: &WalOptions) -> Result<Found, StorageError> {
    let listing = Listing::read(disk)?;
    let segments = find_chain(disk, &listing, options.group)?.segments;
    let first = segments.first().expect("a chain has a segment");
    let mut replay = Replay::new(first);
    let mut last = None;
    let links = segments.iter().skip(1).map(|next| next.head.link);
    let links = links.chain(core::iter::once(None));
    for (position, (segment, link)) in segments.iter().zip(links).enumerate() {
        if position > 0 {
            replay.on_head(segment)?;
        }
        let scanned =
            scan(disk, segment, link.as_ref(), &mut |header, body| replay.on_frame(header, body))?;
        last = Some(scanned);
    }
    if !replay.is_complete() {
        let missing = first.head.link.map_or(0, |link| link.sequence);
        let covered = replay.snapshot.index;
        let what = format!("the segment is missing; the snapshot covers only up to {covered}");
        return Err(StorageError::corrupt(&log_path(missing), 0, what));
    }
    let last = last.expect("a chain has a segment");
    Ok(Found { listing, segments, replay, last })
}

/// Implements [`Wal::open`].
pub(crate) fn open<D: Disk>(
    disk: D,
    options: WalOptions,
) -> Result<(Wal<D>, Recovered), StorageError> {
    let found = read(&disk, &options)?;
    let mut number_next = found.listing.number_next()?;
    let old = found.segments.last().expect("a chain has a segment");
    let old_file = write_back(&disk, old, &found.last)?;
    seal_unsealed(&disk, &found.segments)?;
    let mut spares = clean_up(&disk, &options, &found)?;
    let spare = choose_spare(&disk, &options, &mut spares, &mut number_next)?;
    let sequence = number_next;
    number_next += 1;
    let hard_state = found.replay.usable_hard_state();
    let onward = go_on(&found, spare.bytes);
    let (file, stage) = start_fresh(&disk, &options, &found, &onward, (spare, sequence))?;
    seal(&disk, old, &old_file, found.last.end, sequence)?;
    drop(old_file);

    let mut segments = live_segments(&found, onward.link);
    recycle_replaced(&disk, &options, &found, &segments, &mut spares)?;
    let base_index = onward.base_index;
    segments.push(SegmentInfo { sequence, base_index, bytes: spare.bytes });
    let last_index = found.replay.last();
    let wal = Wal {
        disk,
        options,
        file,
        segments: segments.into(),
        durable_end: stage.start,
        stages: [stage].into(),
        hard_state,
        membership: found.replay.membership.clone(),
        snapshot: found.replay.snapshot,
        last_index,
        durable_index: last_index,
        slot_mark: FRAMES_START,
        slot_next: 0,
        spares,
        number_next,
        is_spare_asked: false,
        is_room_scarce: false,
        is_yielding: false,
        is_poisoned: false,
    };
    let recovered = Recovered {
        hard_state,
        membership: found.replay.membership,
        snapshot: found.replay.snapshot,
        entries: found.replay.entries,
        cut: found.last.tail,
    };
    Ok((wal, recovered))
}

/// Step 1. Returns the open file, which the seal is written to later.
fn write_back<D: Disk>(
    disk: &D,
    old: &Segment,
    scanned: &Scanned,
) -> Result<D::File, StorageError> {
    let path = log_path(old.sequence);
    let file = open_log(disk, old.sequence)?;
    let mut window = Window::open(disk, path.clone())?;
    // A head's mark covers the carried frames, but not the head itself.
    let mut offset = match scanned.mark > old.mark {
        true => scanned.mark,
        false => FRAMES_START,
    };
    while offset < scanned.end {
        let count = (scanned.end - offset).min(FILL_STEP_BYTES as u64) as usize;
        let bytes = window.get(offset, count)?;
        let bytes = bytes.ok_or_else(|| {
            StorageError::corrupt(&path, offset, "the file became shorter while it was read")
        })?;
        let wrote = disk.write_at(&file, offset, &bytes);
        wrote.map_err(|error| StorageError::io(&path, "write", error))?;
        offset += count as u64;
    }
    let synced = disk.sync_data(&file);
    synced.map_err(|error| StorageError::io(&path, "sync", error))?;
    Ok(file)
}

/// Step 2.
fn seal_unsealed<D: Disk>(disk: &D, segments: &[Segment]) -> Result<(), StorageError> {
    for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
        if segment.slot.is_some_and(|(_, slot)| slot.is_sealed) {
            continue;
        }
        let link = next.head.link.expect("a chain is made of links");
        let file = open_log(disk, segment.sequence)?;
        seal(disk, segment, &file, link.end, next.sequence)?;
    }
    Ok(())
}

fn open_log<D: Disk>(disk: &D, sequence: u64) -> Result<D::File, StorageError> {
    let path = log_path(sequence);
    disk.open(&path).map_err(|error| StorageError::io(&path, "open", error))
}

/// Step 3. Returns the spares. Not synced: each spare's name is synced when the file is used again,
/// and a removed name that comes back is not part of the log.
fn clean_up<D: Disk>(
    disk: &D,
    options: &WalOptions,
    found: &Found,
) -> Result<Vec<Spare>, StorageError> {
    let listing = &found.listing;
    for number in &listing.temporaries {
        remove(disk, &temporary_path(*number))?;
    }
    let mut spares = Vec::new();
    for spare in measure_spares(disk, listing)? {
        match is_kept(options, &spares, spare.bytes) {
            true => spares.push(spare),
            false => remove(disk, &spare_path(spare.number))?,
        }
    }
    for number in &listing.logs {
        if !found.segments.iter().any(|segment| segment.sequence == *number) {
            let bytes = Window::open(disk, log_path(*number))?.length();
            recycle_into(disk, options, &mut spares, Spare { number: *number, bytes })?;
        }
    }
    Ok(spares)
}

fn remove<D: Disk>(disk: &D, path: &str) -> Result<(), StorageError> {
    disk.remove(path).map_err(|error| StorageError::io(path, "remove", error))
}

fn recycle_into<D: Disk>(
    disk: &D,
    options: &WalOptions,
    spares: &mut Vec<Spare>,
    spare: Spare,
) -> Result<(), StorageError> {
    if recycle(disk, spare, is_kept(options, spares, spare.bytes))? {
        spares.push(spare);
        spares.sort_by_key(|spare| (spare.bytes, spare.number));
    }
    Ok(())
}

fn measure_spares<D: Disk>(disk: &D, listing: &Listing) -> Result<Vec<Spare>, StorageError> {
    let mut spares = Vec::new();
    for number in &listing.spares {
        let bytes = Window::open(disk, spare_path(*number))?.length();
        spares.push(Spare { number: *number, bytes });
    }
    spares.sort_by_key(|spare| (spare.bytes, spare.number));
    Ok(spares)
}

/// Picks the file for the fresh segment: a spare that is not of the reserve; else a small file made
/// now; else, on a full disk, one of the reserve.
fn choose_spare<D: Disk>(
    disk: &D,
    options: &WalOptions,
    spares: &mut Vec<Spare>,
    number_next: &mut u64,
) -> Result<Spare, StorageError> {
    let is_usable = |spare: &Spare| spare.bytes >= SEGMENT_BYTES_MIN;
    if spares.len() > RESERVE_COUNT
        && let Some(spare) = spares.pop_if(|spare| is_usable(spare))
    {
        return Ok(spare);
    }
    let number = *number_next;
    *number_next += 1;
    match make_now(disk, number, options.first_segment_bytes) {
        Err(error @ StorageError::DiskFull { .. }) => {
            spares.pop_if(|spare| is_usable(spare)).ok_or(error)
        }
        other => other,
    }
}

/// How the log continues in the fresh segment.
struct Continuation<'f> {
    /// Link to the segment before the fresh one; `None` if no earlier segment is needed.
    link: Option<Link>,
    /// The last index of the log before the fresh segment.
    base_index: u64,
    /// The entries copied into the fresh segment.
    carried: &'f [LogEntry],
}

/// Decides whether the fresh segment follows the old one, or replaces it and carries its entries.
fn go_on(found: &Found, capacity: u64) -> Continuation<'_> {
    let old = found.segments.last().expect("a chain has a segment");
    let Some(carried) = carried(found, capacity) else {
        let link = Link { sequence: old.sequence, end: found.last.end, chain: found.last.chain };
        return Continuation { link: Some(link), base_index: found.replay.last(), carried: &[] };
    };
    let covered = found.replay.snapshot.index;
    match covered >= old.base_index {
        // The snapshot covers everything before the old segment.
        true => Continuation { link: None, base_index: covered, carried },
        false => Continuation { link: old.head.link, base_index: old.base_index, carried },
    }
}

/// The entries of the old segment that no snapshot covers, or `None` if they are too many to carry.
/// Also `None` if the old segment rewrites entries of an earlier segment: without the old one,
/// nothing would show which of those entries were replaced.
fn carried(found: &Found, capacity: u64) -> Option<&[LogEntry]> {
    let replay = &found.replay;
    let base = found.segments.last().map_or(0, |old| old.base_index);
    if found.last.entry_index_min.is_some_and(|index| index <= base) {
        return None;
    }
    let start = base.max(replay.snapshot.index).saturating_add(1);
    let skip = usize::try_from(start.saturating_sub(replay.first)).unwrap_or(usize::MAX);
    let entries = replay.entries.get(skip..).unwrap_or(&[]);
    assert!(entries.first().is_none_or(|first| first.index == start));
    let bytes_max = CARRIED_BYTES_MAX.min(capacity / CARRIED_SHARE);
    (entries_bytes(entries) <= bytes_max).then_some(entries)
}

fn entries_bytes(entries: &[LogEntry]) -> u64 {
    entries.iter().map(|entry| frame_bytes(entry.payload.len())).sum()
}

/// Step 4. Returns the open file, and its stage with everything queued already written.
fn start_fresh<D: Disk>(
    disk: &D,
    options: &WalOptions,
    found: &Found,
    onward: &Continuation,
    (spare, sequence): (Spare, u64),
) -> Result<(D::File, Stage), StorageError> {
    let head = Head {
        link: onward.link,
        hard_state: found.replay.usable_hard_state(),
        snapshot: found.replay.snapshot,
        membership: found.replay.membership.clone(),
        blocks: Head::blocks_of(spare.bytes),
    };
    let bytes = entries_bytes(onward.carried);
    let mut stage = new_stage(options, sequence, spare, onward.base_index, &head, bytes);
    let head_bytes = stage.buffer.len();
    for entry in onward.carried {
        let (kind, mark) = (FrameKind::Entry, FRAMES_START);
        stage.push_frame(options.group, mark, kind, Some(entry), &entry.payload);
    }
    let file = open_spare(disk, spare, sequence)?;
    write_head(disk, &file, &stage, head_bytes)?;
    stage.spare = None;
    stage.start = stage.end();
    stage.buffer.clear();
    Ok((file, stage))
}

/// The second half of step 4. Syncs the carried frames before it writes the head. With a single
/// write, a crash might keep the head and lose the frames.
fn write_head<D: Disk>(
    disk: &D,
    file: &D::File,
    stage: &Stage,
    head_bytes: usize,
) -> Result<(), StorageError> {
    let path = log_path(stage.sequence);
    let write = |offset: u64, bytes: &[u8]| {
        let wrote = disk.write_at(file, offset, bytes);
        wrote.map_err(|error| StorageError::io(&path, "write", error))?;
        let synced = disk.sync_data(file);
        synced.map_err(|error| StorageError::io(&path, "sync", error))
    };
    let (head, carried) = stage.buffer.split_at(head_bytes);
    if !carried.is_empty() {
        write(stage.start + head_bytes as u64, carried)?;
    }
    write(stage.start, head)
}

/// Step 5, and each seal of step 2. Writes to the slot that does not have the best mark, so that a
/// torn write does not lose that mark.
fn seal<D: Disk>(
    disk: &D,
    segment: &Segment,
    file: &D::File,
    end: u64,
    successor: u64,
) -> Result<(), StorageError> {
    let seal = Slot { generation: segment.sequence, mark: end, is_sealed: true, successor };
    let position = segment.slot.map_or(0, |(best, _)| 1 - best);
    write_slot(disk, file, &seal, position)
}

/// The old segments that stay live: those that the fresh segment's links reach.
fn live_segments(found: &Found, link: Option<Link>) -> Vec<SegmentInfo> {
    let last = link.map_or(0, |link| link.sequence);
    let live = found.segments.iter().filter(|it| it.sequence <= last);
    live.map(|segment| SegmentInfo {
        sequence: segment.sequence,
        base_index: segment.base_index,
        bytes: segment.bytes,
    })
    .collect()
}

/// Step 6.
fn recycle_replaced<D: Disk>(
    disk: &D,
    options: &WalOptions,
    found: &Found,
    live: &[SegmentInfo],
    spares: &mut Vec<Spare>,
) -> Result<(), StorageError> {
    for segment in &found.segments {
        if !live.iter().any(|it| it.sequence == segment.sequence) {
            let spare = Spare { number: segment.sequence, bytes: segment.bytes };
            recycle_into(disk, options, spares, spare)?;
        }
    }
    let synced = disk.sync_dir(WAL_DIR);
    synced.map_err(|error| StorageError::io(WAL_DIR, "sync", error))
}
