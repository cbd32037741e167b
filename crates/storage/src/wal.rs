//! The write-ahead log: entries, hard states, memberships and snapshot points, made durable before
//! a member acts on them.
//!
//! The log is a chain of segments: files of fixed size, filled with zeros or recycled before use
//! ([`spare`]). A segment holds two slots for a *mark*, then a *head* frame, then other frames. A
//! mark is an offset below which everything was durable when the mark was written. When a frame
//! does not fit, the log continues in a new segment. The new segment's head names the offset where
//! the old one ends, and bytes behind that offset do not count. A segment is recycled once a
//! snapshot covers it.
//!
//! These rules hold at every moment, and recovery relies on them:
//!
//! 1. A segment's name is durable before anything is written to it, and its number was never used
//!    before. So bytes with a segment's generation (its number) are only ever in that file.
//! 2. A segment is durable up to its end before the head of the next one is written. So a bad frame
//!    in any but the last segment is corruption, not a torn write.
//! 3. A segment gets its *seal* (a slot that names the next segment) after the next segment's head
//!    is durable, and before anything in that segment is acknowledged. After a crash between the
//!    two, the next start writes the seal. So if a sealed segment's successor is missing or has no
//!    head, that is corruption.
//! 4. The end that a head names is final. Recovery makes everything it read durable, then starts a
//!    fresh segment, and only then returns what it read. After a crash in between, the next start
//!    repeats all of it.
//! 5. A mark is written only when it is true. [`scan`] explains how marks tell torn from corrupt.
//! 6. Nothing in a segment counts before its head is whole. So a start may first write copied
//!    entries behind the place of the head, sync them, and then write the head.
//!
//! One thread owns the [`Wal`]. After a failed write or sync it is poisoned: it refuses everything.
//! A lack of disk space or of a file descriptor for a new segment does not poison it.

mod recover;
mod replay;
mod scan;
mod spare;

use std::collections::VecDeque;

pub use recover::Recovered;
pub(crate) use recover::was_used;
pub(crate) use replay::Replay;
pub(crate) use scan::{
    Chain, HeadFound, Listing, Segment, find_chain, parse_number, read_head, scan as scan_segment,
};
pub use scan::{TornTail, is_log_name, log_path};
pub use spare::SpareJob;

use crate::disk::Disk;
pub use crate::disk::WAL_DIR;
use crate::error::StorageError;
use crate::limits::{
    FILE_NUMBER_MAX, FIRST_SEGMENT_BYTES_DEFAULT, PAYLOAD_BYTES_MAX, RESERVE_COUNT,
    SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_HEADROOM_BYTES,
    SPARE_COUNT_DEFAULT, WRITE_BUFFER_KEPT_BYTES,
};
pub use crate::record::{EntryKind, HardState, LogEntry, Membership, SnapshotPoint};
use crate::record::{
    FRAMES_START, FrameHeader, FrameKind, Head, Link, SLOT_OFFSETS, Slot, check_membership,
    encode_frame, encode_hard_state, encode_head, encode_membership, encode_slot,
    encode_snapshot_point, frame_bytes,
};
use spare::{Spare, make_now};

/// Sizes of the log's files, and the log's group.
#[derive(Clone, Copy, Debug)]
pub struct WalOptions {
    /// Bytes of a segment made in the background.
    pub segment_bytes: u64,
    /// Bytes of a segment that is made while a writer waits for it.
    pub first_segment_bytes: u64,
    /// Id of the group whose log this is: one process may hold several logs some day. Each head
    /// stores the id, and a log with another id is refused.
    pub group: u32,
    /// Number of spares to keep ready, besides the reserve ([`RESERVE_COUNT`]).
    pub spare_count: usize,
}

impl Default for WalOptions {
    fn default() -> WalOptions {
        WalOptions {
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            first_segment_bytes: FIRST_SEGMENT_BYTES_DEFAULT,
            group: 0,
            spare_count: SPARE_COUNT_DEFAULT,
        }
    }
}

/// The result of a [`Wal::commit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Bytes that this commit wrote.
    pub bytes: u64,
    /// Index of the last durable entry; entries up to it may be acknowledged.
    pub durable_index: u64,
}

/// Space left in the log, for admission and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of frames that entries can still fill before a new segment is needed.
    pub bytes_before_new_segment: u64,
    /// Whether the next segment is ready as a spare, so that no write waits for one to be made.
    pub spare_ready: bool,
}

/// A segment that is part of the log, with the facts that are needed to recycle it later.
#[derive(Clone, Copy, Debug)]
struct SegmentInfo {
    sequence: u64,
    /// The last index of the log before this segment.
    base_index: u64,
    bytes: u64,
}

/// The frames queued for one segment. The first stage belongs to the open segment; the segments of
/// the others become files at the next commit.
#[derive(Debug)]
struct Stage {
    sequence: u64,
    /// Bytes of the file.
    capacity: u64,
    /// The spare file that becomes the segment; `None` for the open segment.
    spare: Option<Spare>,
    /// The offset in the file where `buffer` will be written.
    start: u64,
    buffer: Vec<u8>,
    /// Header checksum of the last frame; the next frame stores it as its `chain`.
    chain: u32,
    /// Header checksum of the head; the checksums of all other frames start from it.
    salt: u32,
}

impl Stage {
    /// The offset in the file where the next frame goes.
    fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Appends a frame. Everything below offset `mark` of the segment is durable before it is
    /// written.
    fn push_frame(
        &mut self,
        group: u32,
        mark: u64,
        kind: FrameKind,
        entry: Option<&LogEntry>,
        body: &[u8],
    ) {
        let header = FrameHeader {
            body_bytes: 0,
            kind,
            entry_kind: entry.map_or(0, |entry| entry.kind.as_u8()),
            group,
            index: entry.map_or(0, |entry| entry.index),
            term: entry.map_or(0, |entry| entry.term),
            generation: self.sequence,
            offset: self.end(),
            mark,
            chain: self.chain,
            body_crc: 0,
        };
        self.chain = encode_frame(&mut self.buffer, self.salt, &header, body);
        assert!(self.end() <= self.capacity);
    }
}

/// The purpose of a new segment; decides whether the reserve may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// For entries: refused if only the reserve is left.
    Entries,
    /// For a hard state, a membership or an installed snapshot. These keep the ensemble alive on a
    /// full disk, so they may use the reserve.
    Essential,
}

/// The log, open for appending.
#[derive(Debug)]
pub struct Wal<D: Disk> {
    disk: D,
    options: WalOptions,
    /// The file of the open segment, to which `stages[0]` is written.
    file: D::File,
    /// The segments that hold the log, oldest first. The last one belongs to the last stage.
    segments: VecDeque<SegmentInfo>,
    /// Queued frames by segment. The front is the open segment; never empty.
    stages: VecDeque<Stage>,
    /// The newest hard state, membership, snapshot point and last index, with queued records
    /// included.
    hard_state: HardState,
    membership: Membership,
    snapshot: SnapshotPoint,
    last_index: u64,
    durable_index: u64,
    /// Everything in the open segment below this offset is durable.
    durable_end: u64,
    /// The mark that the open segment's slots hold.
    slot_mark: u64,
    slot_next: usize,
    /// Spare files, smallest first. The first [`RESERVE_COUNT`] are the reserve.
    spares: Vec<Spare>,
    number_next: u64,
    is_spare_asked: bool,
    /// Whether the disk had no space for an ordinary spare; if so, the next spare is a small one.
    is_room_scarce: bool,
    /// Whether the log leaves its disk space to a snapshot: see [`Wal::yield_room`].
    is_yielding: bool,
    is_poisoned: bool,
}

/// One record to queue.
enum Record<'a> {
    HardState(HardState),
    Membership(Membership),
    Entry(&'a LogEntry),
    Snapshot(SnapshotPoint),
}

impl Record<'_> {
    fn body_bytes(&self) -> usize {
        match self {
            Record::HardState(state) => encode_hard_state(state).len(),
            Record::Membership(membership) => encode_membership(membership).len(),
            Record::Entry(entry) => entry.payload.len(),
            Record::Snapshot(point) => encode_snapshot_point(point).len(),
        }
    }

    fn is_entry(&self) -> bool {
        matches!(self, Record::Entry(_))
    }
}

/// The division of one append's records among segments.
struct Plan {
    /// For each record: whether a new segment starts before it.
    switches: Vec<bool>,
    /// The spare files for the new segments, in order.
    spares: VecDeque<Spare>,
}

impl<D: Disk> Wal<D> {
    /// Writes the first segment of a new log, durably, and removes files that an earlier, crashed
    /// creation left. The caller then calls [`Wal::open`].
    pub fn create(
        disk: &D,
        options: &WalOptions,
        hard_state: HardState,
        membership: &Membership,
        snapshot: SnapshotPoint,
    ) -> Result<(), StorageError> {
        check_membership(membership)?;
        recover::create(disk, options, hard_state, membership, snapshot)
    }

    /// Recovers the log and starts a fresh segment. Everything in the returned value is durable.
    /// The caller must hold the data directory's lock.
    pub fn open(disk: D, options: WalOptions) -> Result<(Wal<D>, Recovered), StorageError> {
        assert!(options.segment_bytes >= SEGMENT_BYTES_MIN);
        assert!(options.first_segment_bytes >= SEGMENT_BYTES_MIN);
        assert!(options.segment_bytes <= SEGMENT_BYTES_MAX);
        assert!(options.first_segment_bytes <= SEGMENT_BYTES_MAX);
        recover::open(disk, options)
    }

    /// Queues records for the next [`Wal::commit`]. The entries must have consecutive indexes and
    /// start at most one behind the last index. If they start at or below it, the log is truncated
    /// there first.
    ///
    /// [`StorageError::DiskFull`] and [`StorageError::RecordTooLarge`] leave the log as it was.
    /// Panics if entries leave a gap or rewrite entries that a snapshot covers: a bug of the
    /// caller.
    pub fn append(
        &mut self,
        entries: &[LogEntry],
        hard_state: Option<HardState>,
        membership: Option<Membership>,
    ) -> Result<(), StorageError> {
        self.check_alive()?;
        self.check_entries(entries)?;
        if let Some(membership) = &membership {
            check_membership(membership)?;
        }
        // The hard state goes first: no entry may be durable without its term. A commit index that
        // covers these entries is written again behind them. If the batch is torn, it must not
        // commit an old entry that the batch replaces.
        let before = entries.first().map_or(u64::MAX, |entry| entry.index.saturating_sub(1));
        let first = hard_state.map(|it| HardState { commit: it.commit.min(before), ..it });
        let last = hard_state.filter(|it| first != Some(*it)).map(Record::HardState);
        let small = first.map(Record::HardState).into_iter();
        let small = small.chain(membership.map(Record::Membership));
        let records = small.chain(entries.iter().map(Record::Entry)).chain(last);
        let records: Vec<Record> = records.collect();
        let claim = match entries.is_empty() {
            true => Claim::Essential,
            false => Claim::Entries,
        };
        self.queue(records, claim)
    }

    /// Writes the queued records and makes them durable, with one write and one sync. For each
    /// segment that became full, there are one more write and sync, and those of its seal. After a
    /// [retryable](StorageError::is_retryable) error the records stay queued; the next commit
    /// continues.
    pub fn commit(&mut self) -> Result<Committed, StorageError> {
        self.check_alive()?;
        let written = self.write_queued();
        self.is_poisoned |= written.as_ref().is_err_and(|error| !error.is_retryable());
        let bytes = written?;
        self.durable_index = self.last_index;
        Ok(Committed { bytes, durable_index: self.durable_index })
    }

    /// Makes everything durable and records that in a slot. From then on, damage to the newest
    /// batch is recognised as corruption, not taken for a torn write. The disk's thread calls this
    /// after a while without writes. Returns whether anything was written.
    pub fn idle_mark(&mut self) -> Result<bool, StorageError> {
        let bytes = self.commit()?.bytes;
        if self.slot_mark == self.durable_end {
            return Ok(bytes > 0);
        }
        self.or_poison(|wal| wal.write_mark())?;
        Ok(true)
    }

    /// Releases the log up to `point`, which a durable snapshot covers: recycles or removes whole
    /// segments at or below it. On a full disk, it also moves the log from the open segment to one
    /// of the reserve, so that the open segment can be recycled, too. Adds no record if `point` is
    /// not newer than the last point. After [`StorageError::DiskFull`] the caller tries again when
    /// there is space.
    ///
    /// Panics if the log ends before `point`: then [`Wal::install_snapshot`] is the right call.
    pub fn release(&mut self, point: SnapshotPoint) -> Result<(), StorageError> {
        self.check_alive()?;
        assert!(point.index <= self.last_index, "the log ends before the snapshot");
        if point.index > self.snapshot.index {
            self.queue(vec![Record::Snapshot(point)], Claim::Essential)?;
        }
        self.commit()?;
        self.or_poison(|wal| wal.recycle_covered())?;
        if self.is_worth_leaving() {
            let spare = self.acquire(0, Claim::Essential)?;
            self.begin_stage(spare, false);
            self.commit()?;
            self.or_poison(|wal| wal.recycle_covered())?;
        }
        Ok(())
    }

    /// Whether to move the log to a spare of the reserve: the open segment holds no entry behind
    /// the snapshot, is more than half full, and no other spare is left.
    fn is_worth_leaving(&self) -> bool {
        let is_covered = self.last_index <= self.snapshot.index;
        let is_half_full = self.room_for(true) < self.tail().capacity / 2;
        let has_reserve_only = self.spares.len() <= RESERVE_COUNT && !self.spares.is_empty();
        is_covered && is_half_full && has_reserve_only
    }

    /// Replaces the whole log by a snapshot that is already durable; the next entry follows
    /// `point`. The change is durable when this returns. Raises the commit index to the snapshot's
    /// if lower.
    ///
    /// Panics if the log's own snapshot is newer.
    pub fn install_snapshot(
        &mut self,
        point: SnapshotPoint,
        membership: Membership,
    ) -> Result<(), StorageError> {
        self.check_alive()?;
        check_membership(&membership)?;
        assert!(point.index >= self.snapshot.index, "a newer snapshot covers the log");
        let spare = self.acquire(0, Claim::Essential)?;
        self.membership = membership;
        self.snapshot = point;
        self.last_index = point.index;
        self.hard_state.commit = self.hard_state.commit.max(point.index);
        self.begin_stage(spare, false);
        self.or_poison(|wal| {
            wal.commit()?;
            while wal.segments.len() > 1 {
                wal.recycle_first()?;
            }
            Ok(())
        })
    }

    /// Returns a job that makes a spare, if one is missing and no other job is running. The caller
    /// runs its steps on another thread, and then calls [`Wal::adopt_spare`] or
    /// [`Wal::abandon_spare`].
    pub fn spare_wanted(&mut self) -> Option<SpareJob<D>> {
        let has_all = self.spares.len() >= spares_max(&self.options);
        if self.is_spare_asked || self.is_poisoned || self.is_yielding || has_all {
            return None;
        }
        self.is_spare_asked = true;
        // The reserve comes first. It is small, so it is ready soon; and a disk without space for
        // an ordinary segment may have space for small ones.
        let bytes = match self.spares.len() < RESERVE_COUNT || self.is_room_scarce {
            true => self.options.first_segment_bytes,
            false => self.options.segment_bytes,
        };
        Some(SpareJob::new(self.take_number(), bytes))
    }

    /// Takes the spare of a finished job. Gives up a job that is unfinished.
    pub fn adopt_spare(&mut self, job: SpareJob<D>) {
        self.is_spare_asked = false;
        match job.finished() {
            Some(spare) if !self.is_yielding || self.is_worth_keeping(spare.bytes) => {
                self.is_room_scarce = false;
                self.keep_spare(spare);
            }
            _ => job.clean_up(&self.disk),
        }
    }

    /// Starts or ends leaving disk space to a snapshot; without a snapshot the log can never be
    /// released. While `is_yielding`, the log keeps its segments and a reserve of small spares.
    /// Other spares are removed and none are made, and entries that need another segment are
    /// refused with [`StorageError::DiskFull`].
    pub fn yield_room(&mut self, is_yielding: bool) -> Result<(), StorageError> {
        self.check_alive()?;
        self.is_yielding = is_yielding;
        if is_yielding {
            self.or_poison(|wal| wal.remove_spares())?;
        }
        Ok(())
    }

    /// Whether the log leaves its disk space to a snapshot: see [`Wal::yield_room`].
    pub fn is_yielding(&self) -> bool {
        self.is_yielding
    }

    /// Gives up a failed job and removes its file; a later [`Wal::spare_wanted`] may return
    /// another. Returns whether the next job will make a smaller spare than the failed one, and so
    /// is worth trying at once.
    pub fn abandon_spare(&mut self, job: SpareJob<D>) -> bool {
        self.is_spare_asked = false;
        self.is_room_scarce = true;
        let was_ordinary = job.bytes() > self.options.first_segment_bytes;
        job.clean_up(&self.disk);
        was_ordinary
    }

    /// Space left in the current segment, and whether the next segment is ready.
    pub fn room(&self) -> Room {
        Room {
            bytes_before_new_segment: self.room_for(true),
            // Entries cannot use the reserve.
            spare_ready: self.spares.len() > RESERVE_COUNT,
        }
    }

    /// The last index that was appended, durable or not.
    pub fn last_index(&self) -> u64 {
        self.last_index
    }

    /// The index of the last durable entry.
    pub fn durable_index(&self) -> u64 {
        self.durable_index
    }

    /// The newest snapshot point that the log was released up to, or that was installed.
    pub fn snapshot(&self) -> SnapshotPoint {
        self.snapshot
    }

    /// The newest hard state that was appended.
    pub fn hard_state(&self) -> HardState {
        self.hard_state
    }

    /// Number of segments that hold the log, for metrics.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }
}

/// Queueing records.
impl<D: Disk> Wal<D> {
    fn check_alive(&self) -> Result<(), StorageError> {
        match self.is_poisoned {
            true => Err(StorageError::Poisoned),
            false => Ok(()),
        }
    }

    fn check_entries(&self, entries: &[LogEntry]) -> Result<(), StorageError> {
        let Some(first) = entries.first() else {
            return Ok(());
        };
        assert!(first.index > self.snapshot.index, "a snapshot covers the entry");
        assert!(first.index <= self.last_index + 1, "entries leave a gap");
        for (entry, index) in entries.iter().zip(first.index..) {
            assert_eq!(entry.index, index, "entries are not consecutive");
            let bytes = entry.payload.len();
            if bytes > PAYLOAD_BYTES_MAX {
                return Err(StorageError::RecordTooLarge { bytes, bytes_max: PAYLOAD_BYTES_MAX });
            }
        }
        Ok(())
    }

    fn queue(&mut self, records: Vec<Record>, claim: Claim) -> Result<(), StorageError> {
        let mut plan = self.plan(&records, claim)?;
        for (record, is_switch) in records.iter().zip(plan.switches) {
            if is_switch {
                let spare = plan.spares.pop_front().expect("one was planned for each switch");
                self.begin_stage(spare, true);
            }
            self.push_record(record);
        }
        assert!(plan.spares.is_empty());
        Ok(())
    }

    /// Decides which segment each record goes to, and gets the new segments, before anything is
    /// queued.
    fn plan(&mut self, records: &[Record], claim: Claim) -> Result<Plan, StorageError> {
        let mut plan =
            Plan { switches: Vec::with_capacity(records.len()), spares: VecDeque::new() };
        let mut end = self.tail().end();
        let mut capacity = self.tail().capacity;
        for record in records {
            let bytes = frame_bytes(record.body_bytes());
            let is_switch = !fits(end, bytes, capacity, record.is_entry());
            if is_switch {
                let head_bytes = self.head_bytes_max(records);
                let needed = FRAMES_START + head_bytes + bytes + SEGMENT_HEADROOM_BYTES;
                match self.acquire(needed, claim) {
                    Ok(spare) => {
                        capacity = spare.bytes;
                        plan.spares.push_back(spare);
                    }
                    Err(error) => {
                        for spare in plan.spares {
                            self.keep_spare(spare);
                        }
                        return Err(error);
                    }
                }
                end = FRAMES_START + head_bytes;
            }
            end += bytes;
            plan.switches.push(is_switch);
        }
        Ok(plan)
    }

    /// Upper bound on the size, in bytes, of the head of any segment started among these records.
    fn head_bytes_max(&self, records: &[Record]) -> u64 {
        let of = |membership: &Membership| {
            let head = Head {
                link: None,
                hard_state: HardState::default(),
                snapshot: SnapshotPoint::default(),
                membership: membership.clone(),
                blocks: 0,
            };
            frame_bytes(encode_head(&head).len())
        };
        let later = records.iter().map(|record| match record {
            Record::Membership(membership) => of(membership),
            _ => 0,
        });
        later.max().unwrap_or(0).max(of(&self.membership))
    }

    /// Takes a spare of at least `needed` bytes, or makes one on the spot.
    fn acquire(&mut self, needed: u64, claim: Claim) -> Result<Spare, StorageError> {
        let reserved = match claim {
            Claim::Entries => RESERVE_COUNT,
            Claim::Essential => 0,
        };
        if self.is_yielding && claim == Claim::Entries {
            return Err(StorageError::DiskFull { bytes_wanted: needed });
        }
        if self.spares.len() > reserved && self.spares.last().is_some_and(|it| it.bytes >= needed) {
            return Ok(self.spares.pop().expect("it was just looked at"));
        }
        let bytes = needed.max(self.options.first_segment_bytes).next_multiple_of(4096);
        assert!(bytes <= SEGMENT_BYTES_MAX);
        let number = self.take_number();
        let made = make_now(&self.disk, number, bytes);
        if let Err(error) = &made
            && !error.is_retryable()
        {
            self.is_poisoned = true;
        }
        made
    }

    fn take_number(&mut self) -> u64 {
        let number = self.number_next;
        self.number_next = number.checked_add(1).expect("2^64 segments are not reached");
        number
    }

    fn keep_spare(&mut self, spare: Spare) {
        self.spares.push(spare);
        self.spares.sort_by_key(|spare| (spare.bytes, spare.number));
    }

    fn tail(&self) -> &Stage {
        self.stages.back().expect("there is always a stage")
    }

    fn room_for(&self, is_entry: bool) -> u64 {
        let tail = self.tail();
        let headroom = if is_entry { SEGMENT_HEADROOM_BYTES } else { 0 };
        tail.capacity.saturating_sub(headroom).saturating_sub(tail.end())
    }

    /// Starts a new segment in the queue. Its head repeats the state so far.
    fn begin_stage(&mut self, spare: Spare, is_linked: bool) {
        let tail = self.tail();
        let link = is_linked.then_some(Link {
            sequence: tail.sequence,
            end: tail.end(),
            chain: tail.chain,
        });
        let sequence = self.take_number();
        let head = Head {
            link,
            hard_state: self.hard_state,
            snapshot: self.snapshot,
            membership: self.membership.clone(),
            blocks: Head::blocks_of(spare.bytes),
        };
        let stage = new_stage(&self.options, sequence, spare, self.last_index, &head, 0);
        self.segments.push_back(SegmentInfo {
            sequence,
            base_index: self.last_index,
            bytes: spare.bytes,
        });
        self.stages.push_back(stage);
    }

    fn push_record(&mut self, record: &Record) {
        match record {
            Record::HardState(state) => {
                self.hard_state = *state;
                self.push_frame(FrameKind::HardState, None, &encode_hard_state(state));
            }
            Record::Membership(membership) => {
                self.membership = membership.clone();
                self.push_frame(FrameKind::Membership, None, &encode_membership(membership));
            }
            Record::Snapshot(point) => {
                self.snapshot = *point;
                self.push_frame(FrameKind::Snapshot, None, &encode_snapshot_point(point));
            }
            Record::Entry(entry) => {
                self.last_index = entry.index;
                self.durable_index = self.durable_index.min(entry.index.saturating_sub(1));
                self.push_frame(FrameKind::Entry, Some(entry), &entry.payload);
            }
        }
    }

    fn push_frame(&mut self, kind: FrameKind, entry: Option<&LogEntry>, body: &[u8]) {
        // A segment that is not open yet has nothing durable in it.
        let mark = match self.stages.len() {
            1 => self.durable_end,
            _ => FRAMES_START,
        };
        let group = self.options.group;
        let stage = self.stages.back_mut().expect("there is always a stage");
        stage.push_frame(group, mark, kind, entry, body);
    }
}

/// Whether a frame of `bytes` bytes fits at offset `end`. Entries must leave headroom: when the
/// disk is full, a full segment must still take votes and the snapshot point that frees older
/// segments.
fn fits(end: u64, bytes: u64, capacity: u64, is_entry: bool) -> bool {
    let headroom = if is_entry { SEGMENT_HEADROOM_BYTES } else { 0 };
    end + bytes + headroom <= capacity
}

/// A stage that holds only its head. The head's mark covers the `carried_bytes` bytes behind the
/// head.
fn new_stage(
    options: &WalOptions,
    sequence: u64,
    spare: Spare,
    base_index: u64,
    head: &Head,
    carried_bytes: u64,
) -> Stage {
    let body = encode_head(head);
    let mark = match carried_bytes {
        0 => FRAMES_START,
        bytes => FRAMES_START + frame_bytes(body.len()) + bytes,
    };
    assert!(sequence <= FILE_NUMBER_MAX, "the next start would not take the segment for ours");
    let mut buffer = Vec::new();
    let header = FrameHeader {
        body_bytes: 0,
        kind: FrameKind::Head,
        entry_kind: 0,
        group: options.group,
        index: base_index,
        term: 0,
        generation: sequence,
        offset: FRAMES_START,
        mark,
        chain: head.link.map_or(0, |link| link.chain),
        body_crc: 0,
    };
    let salt = encode_frame(&mut buffer, 0, &header, &body);
    Stage {
        sequence,
        capacity: spare.bytes,
        spare: Some(spare),
        start: FRAMES_START,
        buffer,
        chain: salt,
        salt,
    }
}

/// Writing what was queued.
impl<D: Disk> Wal<D> {
    /// Runs a write; any error poisons the log.
    fn or_poison<T>(
        &mut self,
        run: impl FnOnce(&mut Wal<D>) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let result = run(self);
        self.is_poisoned |= result.is_err();
        result
    }

    fn write_queued(&mut self) -> Result<u64, StorageError> {
        // Rule 2: a whole segment is durable before the head of the next one is written.
        let mut bytes = self.flush_front()?;
        while let Some(next) = self.stages.get_mut(1) {
            let spare = next.spare.expect("only the open stage has no spare");
            // This is the only step that may find no space; nothing has changed then.
            let file = open_spare(&self.disk, spare, next.sequence)?;
            next.spare = None;
            let before = self.stages.pop_front().expect("there are two");
            let old = core::mem::replace(&mut self.file, file);
            let (old_slot, old_end) = (self.slot_next, before.end());
            self.slot_mark = FRAMES_START;
            self.slot_next = 0;
            self.durable_end = FRAMES_START;
            let successor = self.stages.front().map_or(0, |stage| stage.sequence);
            bytes += self.flush_front()?;
            // Rule 3: the seal is written after the head.
            let seal =
                Slot { generation: before.sequence, mark: old_end, is_sealed: true, successor };
            write_slot(&self.disk, &old, &seal, old_slot)?;
        }
        Ok(bytes)
    }

    /// Writes and syncs what is queued for the open segment. Returns the bytes written.
    fn flush_front(&mut self) -> Result<u64, StorageError> {
        let stage = self.stages.front_mut().expect("there is always a stage");
        if stage.buffer.is_empty() {
            return Ok(0);
        }
        let bytes = stage.buffer.len() as u64;
        let sequence = stage.sequence;
        let failed = |what, error| StorageError::io(&log_path(sequence), what, error);
        let wrote = self.disk.write_at(&self.file, stage.start, &stage.buffer);
        wrote.map_err(|error| failed("write", error))?;
        self.disk.sync_data(&self.file).map_err(|error| failed("sync", error))?;
        stage.start += bytes;
        stage.buffer.clear();
        stage.buffer.shrink_to(WRITE_BUFFER_KEPT_BYTES);
        self.durable_end = stage.start;
        Ok(bytes)
    }

    fn write_mark(&mut self) -> Result<(), StorageError> {
        let slot = Slot {
            generation: self.stages.front().map_or(0, |stage| stage.sequence),
            mark: self.durable_end,
            is_sealed: false,
            successor: 0,
        };
        write_slot(&self.disk, &self.file, &slot, self.slot_next)?;
        self.slot_mark = slot.mark;
        self.slot_next = 1 - self.slot_next;
        Ok(())
    }

    fn recycle_covered(&mut self) -> Result<(), StorageError> {
        let covered = self.snapshot.index;
        while self.segments.get(1).is_some_and(|next| next.base_index <= covered) {
            self.recycle_first()?;
        }
        Ok(())
    }

    fn recycle_first(&mut self) -> Result<(), StorageError> {
        let segment = self.segments.pop_front().expect("the caller checked that it exists");
        let spare = Spare { number: segment.sequence, bytes: segment.bytes };
        if recycle(&self.disk, spare, self.is_worth_keeping(spare.bytes))? {
            self.keep_spare(spare);
        }
        Ok(())
    }

    /// Whether to keep a file of `bytes` bytes as one more spare.
    fn is_worth_keeping(&self, bytes: u64) -> bool {
        match self.is_yielding {
            true => self.spares.len() < RESERVE_COUNT && bytes <= self.options.first_segment_bytes,
            false => is_kept(&self.options, &self.spares, bytes),
        }
    }

    /// Removes all spares but a reserve of small ones. The removal is not synced, and need not be.
    fn remove_spares(&mut self) -> Result<(), StorageError> {
        for spare in core::mem::take(&mut self.spares) {
            if self.is_worth_keeping(spare.bytes) {
                self.spares.push(spare);
            } else {
                let path = scan::spare_path(spare.number);
                let removed = self.disk.remove(&path);
                removed.map_err(|error| StorageError::io(&path, "remove", error))?;
            }
        }
        Ok(())
    }
}

/// Turns a log file that is no longer needed into a spare, or removes it; returns whether it is a
/// spare now. Not synced: if a crash brings the file back, the next start sees that it is not
/// needed.
fn recycle<D: Disk>(disk: &D, spare: Spare, is_kept: bool) -> Result<bool, StorageError> {
    let from = log_path(spare.number);
    if !is_kept {
        let removed = disk.remove(&from);
        removed.map_err(|error| StorageError::io(&from, "remove", error))?;
        return Ok(false);
    }
    let renamed = disk.rename(&from, &scan::spare_path(spare.number));
    match renamed.map_err(|error| StorageError::io(&from, "rename", error)) {
        Ok(()) => Ok(true),
        // The directory has no space for the longer name.
        Err(error) if error.is_no_space() => recycle(disk, spare, false),
        Err(error) => Err(error),
    }
}

fn spares_max(options: &WalOptions) -> usize {
    options.spare_count.saturating_add(RESERVE_COUNT)
}

/// Whether to keep a file of `bytes` bytes as a spare, next to these `spares`.
fn is_kept(options: &WalOptions, spares: &[Spare], bytes: u64) -> bool {
    let is_wanted = spares.len() < spares_max(options);
    let is_ordinary = bytes >= options.segment_bytes && bytes <= 2 * options.segment_bytes;
    let is_reserve = spares.len() < RESERVE_COUNT && bytes >= options.first_segment_bytes;
    is_wanted && (is_ordinary || is_reserve)
}

/// Turns a spare into the log's segment `sequence`. Rule 1: the name is durable before anything is
/// written. The directory may need a disk block for the name, and the file needs a descriptor:
/// after a [retryable](StorageError::is_retryable) error the spare is as it was.
fn open_spare<D: Disk>(disk: &D, spare: Spare, sequence: u64) -> Result<D::File, StorageError> {
    let from = scan::spare_path(spare.number);
    let to = log_path(sequence);
    let bytes = spare.bytes;
    let renamed = disk.rename(&from, &to);
    renamed.map_err(|error| StorageError::io(&from, "rename", error).or_retryable(bytes))?;
    let synced = disk.sync_dir(WAL_DIR).map_err(|error| StorageError::io(WAL_DIR, "sync", error));
    let open = || disk.open(&to).map_err(|error| StorageError::io(&to, "open", error));
    let opened = synced.and_then(|()| open()).map_err(|error| error.or_no_descriptor());
    if let Err(StorageError::NoDescriptor { .. }) = &opened {
        // A failed sync made nothing durable, so the old name can be restored.
        let renamed = disk.rename(&to, &from);
        renamed.map_err(|error| StorageError::io(&to, "rename", error))?;
    }
    opened
}

/// Writes and syncs a slot.
fn write_slot<D: Disk>(
    disk: &D,
    file: &D::File,
    slot: &Slot,
    position: usize,
) -> Result<(), StorageError> {
    let path = log_path(slot.generation);
    let offset = SLOT_OFFSETS[position];
    let wrote = disk.write_at(file, offset, &encode_slot(slot));
    wrote.map_err(|error| StorageError::io(&path, "write", error))?;
    let synced = disk.sync_data(file);
    synced.map_err(|error| StorageError::io(&path, "sync", error))
}

#[cfg(test)]
mod tests;
