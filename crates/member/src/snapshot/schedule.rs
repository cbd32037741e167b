//! When a snapshot is taken, and the pieces on their way from Apply to the file.
//!
//! One piece is under way at a time: Apply gives one, the snapshot thread writes it, then the next
//! is asked for. So a snapshot needs the memory of one piece, and its pace is that of the file.
//!
//! The state may be ahead of this member's disk, which a quorum of others does not wait for. A
//! snapshot gets its name once the disk has every entry that it holds: the log never ends before
//! it.

use storage::wal::SnapshotPoint;

use crate::message::{FromApply, FromSnapshot, SnapshotJob, ToApply};

/// The policy and the state of the snapshot under way.
pub struct Snapshots {
    commands_max: u64,
    log_bytes_max: u64,
    /// Since the last snapshot was begun.
    log_bytes: u64,
    commands: u64,
    /// Log that snapshots under way, or that failed, were to cover.
    uncovered_bytes: u64,
    /// Due whatever was counted.
    is_hurried: bool,
    /// How many were begun.
    begun: u64,
    /// The last entry that the image under way holds.
    image_index: u64,
    /// The newest durable snapshot, and the one before it.
    newest: SnapshotPoint,
    before: SnapshotPoint,
    state: State,
    /// When one could last not be written.
    failed_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// Apply was asked to freeze.
    Asked,
    /// Pieces are going over.
    Streaming,
    /// The last piece was handed over, and the log does not reach the image yet.
    Written,
    /// The file gets its name.
    Finishing,
}

impl Snapshots {
    /// Starts with the snapshot that was restored and what the log holds behind it. Without a
    /// maximum the bytes do not count.
    pub fn new(
        commands_max: u64,
        log_bytes_max: Option<u64>,
        restored: SnapshotPoint,
        log_bytes: u64,
    ) -> Snapshots {
        Snapshots {
            commands_max,
            log_bytes_max: log_bytes_max.unwrap_or(u64::MAX),
            log_bytes,
            commands: 0,
            uncovered_bytes: 0,
            is_hurried: false,
            begun: 0,
            image_index: 0,
            newest: restored,
            before: restored,
            state: State::Idle,
            failed_ms: None,
        }
    }

    /// One could not be written just now.
    pub fn on_failed(&mut self, now_ms: u64) {
        self.failed_ms = Some(now_ms);
    }

    /// When one could last not be written.
    pub fn failed_ms(&self) -> Option<u64> {
        self.failed_ms
    }

    /// Counts an entry that was proposed.
    pub fn count(&mut self, bytes: usize, commands: usize) {
        self.log_bytes += bytes as u64;
        self.commands += commands as u64;
    }

    /// Does not wait for more log: what there is takes room that is needed. After a failure this is
    /// how the same log is tried again.
    pub fn hurry(&mut self) {
        let is_retry = self.state == State::Idle && self.uncovered_bytes > 0;
        self.is_hurried |= self.log_bytes > 0 || is_retry;
    }

    /// Somebody wants one of the state as it is now, whatever was written since the last. Returns
    /// the number of the snapshot that will do: the next to be begun.
    pub fn want(&mut self) -> u64 {
        self.is_hurried = true;
        self.begun + 1
    }

    /// How many were begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The log behind the snapshot before the newest cannot be applied any more: it is not kept.
    pub fn forget_older(&mut self) {
        self.before = self.newest;
    }

    /// What the log may let go of: it is kept from the snapshot before the newest, in case that one
    /// cannot be read, unless the disk is full.
    pub fn release(&self, disk_is_full: bool) -> SnapshotPoint {
        match disk_is_full {
            true => self.newest,
            false => self.before,
        }
    }

    /// One of another member took the place of log and state.
    pub fn on_installed(&mut self, point: SnapshotPoint) {
        self.newest = point;
        self.before = point;
        self.log_bytes = 0;
        self.commands = 0;
        self.uncovered_bytes = 0;
    }

    /// Whether one is under way.
    pub fn is_running(&self) -> bool {
        self.state != State::Idle
    }

    /// Asks Apply for an image when it is time for one.
    pub fn maybe_begin(&mut self) -> Option<ToApply> {
        let due = self.is_hurried
            || self.log_bytes >= self.log_bytes_max
            || self.commands >= self.commands_max;
        if self.state != State::Idle || !due {
            return None;
        }
        self.state = State::Asked;
        self.uncovered_bytes += self.log_bytes;
        self.log_bytes = 0;
        self.commands = 0;
        self.is_hurried = false;
        self.begun += 1;
        Some(ToApply::Freeze)
    }

    /// Turns what Apply gave into a job for the file. `membership` is the one active at the image.
    pub fn on_apply(
        &mut self,
        message: FromApply,
        membership: &storage::wal::Membership,
    ) -> Vec<SnapshotJob> {
        match (self.state, message) {
            (State::Asked, FromApply::Frozen { index, term, mark, .. }) => {
                self.state = State::Streaming;
                self.image_index = index.0;
                let (number, membership) = (self.begun, membership.clone());
                vec![SnapshotJob::Begin { number, index: index.0, term, membership, mark }]
            }
            (State::Streaming, FromApply::Piece { bytes, last: false }) => {
                vec![SnapshotJob::Piece(bytes)]
            }
            (State::Streaming, FromApply::Piece { bytes, last: true }) => {
                self.state = State::Written;
                vec![SnapshotJob::Piece(bytes)]
            }
            (State::Streaming, FromApply::FreezeAborted) => {
                self.state = State::Idle;
                self.is_hurried = true;
                vec![SnapshotJob::Abort]
            }
            // The file failed meanwhile, and Apply did not know yet.
            (State::Idle, _) => Vec::new(),
            (state, message) => unreachable!("{message:?} while the snapshot is {state:?}"),
        }
    }

    /// Ends the file once its log is durable up to the image.
    pub fn maybe_finish(&mut self, persisted_index: u64) -> Option<SnapshotJob> {
        let is_due = self.state == State::Written && persisted_index >= self.image_index;
        is_due.then(|| {
            self.state = State::Finishing;
            SnapshotJob::Finish
        })
    }

    /// What Apply is to do after what the snapshot thread said: the next piece, or nothing more.
    pub fn on_snapshot(&mut self, message: FromSnapshot) -> Option<ToApply> {
        match message {
            FromSnapshot::PieceWritten if self.state == State::Streaming => {
                Some(ToApply::FreezeStep)
            }
            FromSnapshot::PieceWritten => None,
            FromSnapshot::Finished { index, term } => {
                self.state = State::Idle;
                let finished = SnapshotPoint { index, term };
                // One that was wanted where nothing was written replaces the newest; one that was
                // received meanwhile is newer.
                if finished.index > self.newest.index {
                    self.before = self.newest;
                    self.newest = finished;
                }
                self.uncovered_bytes = 0;
                None
            }
            FromSnapshot::Failed => {
                // Not at once again: the next one is taken after another full interval.
                self.state = State::Idle;
                Some(ToApply::Thaw)
            }
        }
    }
}

#[cfg(test)]
mod tests;
