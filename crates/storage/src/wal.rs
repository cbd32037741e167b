//! The write-ahead log: entries, hard state and membership, durable before they are acted on.
//!
//! The log is a chain of segments, files of fixed size that were filled before they are used
//! ([`spare`]). Each starts with two slots for a mark, then a head frame, then frames. The log goes
//! on in the next segment when a frame does not fit; the head of that one says where this one ends,
//! so nothing behind that point counts. Old segments are recycled when a snapshot covers them.
//!
//! What holds at every moment, and what recovery relies on:
//!
//! 1. A segment's name is durable before anything is written to it, and its number was never used
//!    before. So bytes with a segment's generation are only ever in that file.
//! 2. A segment is wholly durable up to its end before the head of the next one is written. So a
//!    bad frame in any but the last segment is corruption, not a torn write.
//! 3. A segment gets its seal (a slot that names the successor) after the successor's head is
//!    durable, and before anything is acknowledged by what a successor holds: where a crash came
//!    between the two, the next start seals. So a sealed segment whose successor is missing or has
//!    no head is corruption.
//! 4. The end that a head names is final: recovery makes everything it read durable, then starts a
//!    fresh segment, and only then hands out what it read. A crash in between repeats it all.
//! 5. A mark is written only when it is true. See [`scan`] on torn and corrupt.
//! 6. Nothing in a segment counts before its head is whole. So a start may write entries of the
//!    segment before behind the head's place, sync them, and then let the head take effect.
//!
//! One thread owns the [`Wal`]. After any failed write or sync it is poisoned for good.

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

/// Sizes of the log's files.
#[derive(Clone, Copy, Debug)]
pub struct WalOptions {
    /// Bytes of a segment made in the background.
    pub segment_bytes: u64,
    /// Bytes of a segment that a writer waits for.
    pub first_segment_bytes: u64,
    /// The group that the log belongs to; a log of another group is refused.
    pub group: u32,
    /// Spares to keep ready, beside the reserve.
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

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Bytes written.
    pub bytes: u64,
    /// The last durable entry; entries up to it may be acknowledged.
    pub durable_index: u64,
}

/// Room left, for admission and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of frames that entries can still fill before a new segment is needed.
    pub bytes_before_new_segment: u64,
    /// Whether that segment is ready, so that no write waits for it.
    pub spare_ready: bool,
}

/// A live segment, with the fields that releasing it needs.
#[derive(Clone, Copy, Debug)]
struct SegmentInfo {
    sequence: u64,
    /// The last index of the log before this segment.
    base_index: u64,
    bytes: u64,
}

/// A segment that frames are queued for. The first one is open; others become files at commit.
#[derive(Debug)]
struct Stage {
    sequence: u64,
    /// Bytes of the file.
    capacity: u64,
    /// The file that the segment will use; `None` for the open segment.
    spare: Option<Spare>,
    /// The byte of the file where `buffer` goes.
    start: u64,
    buffer: Vec<u8>,
    /// Header checksum of the last frame.
    chain: u32,
    /// Header checksum of the head.
    salt: u32,
}

impl Stage {
    /// The byte of the file where the next frame goes.
    fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Appends a frame that is written when everything below `mark` is durable.
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

/// The purpose of a new segment, which decides whether the reserve may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// Entries: refused if only the reserve is left.
    Entries,
    /// A hard state, a membership or an installed snapshot. These keep the ensemble alive on a full
    /// disk, so they may use the reserve.
    Essential,
}

/// The log, open for appending.
#[derive(Debug)]
pub struct Wal<D: Disk> {
    disk: D,
    options: WalOptions,
    /// The segment of `stages[0]`.
    file: D::File,
    /// The live segments, oldest first; the last is the last stage's.
    segments: VecDeque<SegmentInfo>,
    /// Never empty.
    stages: VecDeque<Stage>,
    /// State after everything queued.
    hard_state: HardState,
    membership: Membership,
    snapshot: SnapshotPoint,
    last_index: u64,
    durable_index: u64,
    /// Everything in the open segment below this is durable.
    durable_end: u64,
    /// The mark in the open segment's slots, and which slot is written next.
    slot_mark: u64,
    slot_next: usize,
    /// Smallest first. The first [`RESERVE_COUNT`] are the reserve, which entries never use.
    spares: Vec<Spare>,
    number_next: u64,
    is_spare_asked: bool,
    /// Whether the disk had no room for an ordinary spare; the next spare is small then.
    is_room_scarce: bool,
    /// Whether a snapshot needs the room more: see [`Wal::yield_room`].
    is_yielding: bool,
    is_poisoned: bool,
}

/// One record to be queued.
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

/// The places of the records of one append.
struct Plan {
    /// For each record: whether a new segment starts before it.
    switches: Vec<bool>,
    /// The files for the new segments, in order.
    spares: VecDeque<Spare>,
}

impl<D: Disk> Wal<D> {
    /// Writes the first segment of a new log, durably. Files that a crashed birth left in the
    /// directory are removed. [`Wal::open`] comes next.
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

    /// Recovers the log and starts a fresh segment. Everything that it returns is durable. The
    /// caller holds the data directory's lock.
    pub fn open(disk: D, options: WalOptions) -> Result<(Wal<D>, Recovered), StorageError> {
        assert!(options.segment_bytes >= SEGMENT_BYTES_MIN);
        assert!(options.first_segment_bytes >= SEGMENT_BYTES_MIN);
        assert!(options.segment_bytes <= SEGMENT_BYTES_MAX);
        assert!(options.first_segment_bytes <= SEGMENT_BYTES_MAX);
        recover::open(disk, options)
    }

    /// Queues records; [`Wal::commit`] writes them. The entries are consecutive and start at most
    /// one behind the last index; one at or below the last index truncates the log there first.
    ///
    /// [`StorageError::DiskFull`] and [`StorageError::RecordTooLarge`] leave everything as it was.
    /// Panics when entries leave a gap or rewrite entries that a snapshot covers: a bug of the
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
        // The hard state goes first: no entry may be durable without the term it was made in. A
        // commit index that means these entries goes behind them: if the batch is cut between, an
        // entry that one of them replaces must not count as committed.
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

    /// Writes the queued records and makes them durable: one write and one sync; for each segment
    /// that was filled, those and the sync of its seal. After an error that
    /// [`StorageError::is_retryable`] the records stay queued, and another commit goes on.
    pub fn commit(&mut self) -> Result<Committed, StorageError> {
        self.check_alive()?;
        let written = self.write_queued();
        self.is_poisoned |= written.as_ref().is_err_and(|error| !error.is_retryable());
        let bytes = written?;
        self.durable_index = self.last_index;
        Ok(Committed { bytes, durable_index: self.durable_index })
    }

    /// Makes everything durable and records that in a slot, so that damage to the newest batch is
    /// not taken for a torn write. The disk's thread calls it when nothing came for a while.
    /// Returns whether anything had to be written.
    pub fn idle_mark(&mut self) -> Result<bool, StorageError> {
        let bytes = self.commit()?.bytes;
        if self.slot_mark == self.durable_end {
            return Ok(bytes > 0);
        }
        self.or_poison(|wal| wal.write_mark())?;
        Ok(true)
    }

    /// Releases the log up to `point`, which a durable snapshot covers: whole segments at or below
    /// it are recycled or removed, and on a full disk the log moves from the open segment to one of
    /// the reserve. A point behind an earlier one is ignored. After [`StorageError::DiskFull`] the
    /// caller tries again when there is room.
    ///
    /// Panics when the log does not reach `point`: that calls for [`Wal::install_snapshot`].
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

    /// Whether the open segment holds no entries that count, is more than half full, and only the
    /// reserve is left for the next one.
    fn is_worth_leaving(&self) -> bool {
        let is_covered = self.last_index <= self.snapshot.index;
        let is_half_full = self.room_for(true) < self.tail().capacity / 2;
        let has_reserve_only = self.spares.len() <= RESERVE_COUNT && !self.spares.is_empty();
        is_covered && is_half_full && has_reserve_only
    }

    /// Replaces the whole log by a durable snapshot; the log goes on behind `point`. Durable when
    /// it returns. The commit index becomes at least the snapshot's.
    ///
    /// Panics when the log's own snapshot is newer.
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

    /// Returns a job that makes a spare, if one is missing and none is being made. The caller runs
    /// its steps off this thread and hands it to [`Wal::adopt_spare`] or [`Wal::abandon_spare`].
    pub fn spare_wanted(&mut self) -> Option<SpareJob<D>> {
        let has_all = self.spares.len() >= spares_max(&self.options);
        if self.is_spare_asked || self.is_poisoned || self.is_yielding || has_all {
            return None;
        }
        self.is_spare_asked = true;
        // The reserve comes first. It is small, so that it is ready soon; and a disk without room
        // for an ordinary segment may have room for small ones.
        let bytes = match self.spares.len() < RESERVE_COUNT || self.is_room_scarce {
            true => self.options.first_segment_bytes,
            false => self.options.segment_bytes,
        };
        Some(SpareJob::new(self.take_number(), bytes))
    }

    /// Takes a finished job's segment. An unfinished one is abandoned.
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

    /// Starts or ends yielding room to a snapshot, without which the log can never be released.
    /// While it yields, the log keeps its segments and a reserve of small ones: other spares are
    /// removed, none are made, and entries that need another segment are refused with
    /// [`StorageError::DiskFull`].
    pub fn yield_room(&mut self, is_yielding: bool) -> Result<(), StorageError> {
        self.check_alive()?;
        self.is_yielding = is_yielding;
        if is_yielding {
            self.or_poison(|wal| wal.remove_spares())?;
        }
        Ok(())
    }

    /// Whether the log yields its room to a snapshot.
    pub fn is_yielding(&self) -> bool {
        self.is_yielding
    }

    /// Gives up a failed job: its file is removed, and another job may be wanted. Returns whether
    /// that one is smaller, and so worth trying at once.
    pub fn abandon_spare(&mut self, job: SpareJob<D>) -> bool {
        self.is_spare_asked = false;
        self.is_room_scarce = true;
        let was_ordinary = job.bytes() > self.options.first_segment_bytes;
        job.clean_up(&self.disk);
        was_ordinary
    }

    /// Room left in the current segment, and whether the next is ready.
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

    /// The last index that is durable.
    pub fn durable_index(&self) -> u64 {
        self.durable_index
    }

    /// The newest snapshot point, released up to or installed.
    pub fn snapshot(&self) -> SnapshotPoint {
        self.snapshot
    }

    /// The newest hard state that was appended.
    pub fn hard_state(&self) -> HardState {
        self.hard_state
    }

    /// Segments that hold the log, for metrics.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }
}

/// Queueing.
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

    /// Decides where each record goes and gets the segments for it, before anything is queued.
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

    /// Bytes of the largest head that a segment started among these records may have.
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

    /// A spare of at least `needed` bytes, or one made on the spot.
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

    /// Queues the head of a new segment, which repeats the state so far.
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
        // Only the open segment has anything durable in it.
        let mark = match self.stages.len() {
            1 => self.durable_end,
            _ => FRAMES_START,
        };
        let group = self.options.group;
        let stage = self.stages.back_mut().expect("there is always a stage");
        stage.push_frame(group, mark, kind, entry, body);
    }
}

/// Whether a frame fits. Entries leave headroom: on a full disk a full segment must still take
/// votes, and the snapshot point that frees older segments.
fn fits(end: u64, bytes: u64, capacity: u64, is_entry: bool) -> bool {
    let headroom = if is_entry { SEGMENT_HEADROOM_BYTES } else { 0 };
    end + bytes + headroom <= capacity
}

/// A stage with nothing but its head, which says that the `carried_bytes` behind it are durable.
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

/// Writing.
impl<D: Disk> Wal<D> {
    /// Runs a write; any failure poisons the log.
    fn or_poison<T>(
        &mut self,
        run: impl FnOnce(&mut Wal<D>) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let result = run(self);
        self.is_poisoned |= result.is_err();
        result
    }

    fn write_queued(&mut self) -> Result<u64, StorageError> {
        // Rule 2: all of a segment before the head of the next.
        let mut bytes = self.flush_front()?;
        while let Some(next) = self.stages.get_mut(1) {
            let spare = next.spare.expect("only the open stage has no spare");
            // Only this step may find no room; nothing has changed then.
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
            // Rule 3: the seal after the head.
            let seal =
                Slot { generation: before.sequence, mark: old_end, is_sealed: true, successor };
            write_slot(&self.disk, &old, &seal, old_slot)?;
        }
        Ok(bytes)
    }

    /// Writes and syncs what is queued for the open segment.
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

    /// Whether a file of that size is worth keeping beside the spares that there are.
    fn is_worth_keeping(&self, bytes: u64) -> bool {
        match self.is_yielding {
            true => self.spares.len() < RESERVE_COUNT && bytes <= self.options.first_segment_bytes,
            false => is_kept(&self.options, &self.spares, bytes),
        }
    }

    /// Removes all spares but a reserve of small ones. Not synced, as a recycled file is not.
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

/// Turns a log file that nothing needs into a spare, or removes it. Not synced: a file that comes
/// back after a crash is recognised as unneeded.
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
        // The directory has no room for a longer name.
        Err(error) if error.is_no_space() => recycle(disk, spare, false),
        Err(error) => Err(error),
    }
}

fn spares_max(options: &WalOptions) -> usize {
    options.spare_count.saturating_add(RESERVE_COUNT)
}

/// Whether a file of that size is worth keeping beside these spares.
fn is_kept(options: &WalOptions, spares: &[Spare], bytes: u64) -> bool {
    let is_wanted = spares.len() < spares_max(options);
    let is_ordinary = bytes >= options.segment_bytes && bytes <= 2 * options.segment_bytes;
    let is_reserve = spares.len() < RESERVE_COUNT && bytes >= options.first_segment_bytes;
    is_wanted && (is_ordinary || is_reserve)
}

/// Gives a spare its place in the log. Rule 1: the name is durable before anything is written. A
/// directory may need a block for it, and the file a descriptor: an error that
/// [`StorageError::is_retryable`] leaves the spare as it is.
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
