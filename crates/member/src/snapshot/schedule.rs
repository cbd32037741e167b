//! Decides when a snapshot is taken, and moves its pieces from Apply to the file.
//!
//! One piece is under way at a time: Apply gives one, the snapshot thread writes it, then Loop asks
//! for the next. So a snapshot needs the memory of one piece, and goes at the pace of the file.
//!
//! The state may be ahead of this member's disk, since a quorum of others commits without it. A
//! snapshot gets its name only once the disk has every entry that it holds: the log never ends
//! before its snapshot.

use storage::wal::SnapshotPoint;

use crate::message::{FromApply, FromSnapshot, SnapshotJob, ToApply};
use crate::snapshot::log_rule::SnapshotLog;

/// The policy and the state of the snapshot under way.
pub struct Snapshots {
    commands_max: u64,
    log_rule: SnapshotLog,
    /// Bytes and commands of the log since the last snapshot was begun.
    log_bytes: u64,
    commands: u64,
    /// Bytes of the log that a snapshot under way, or failed ones, were to cover.
    uncovered_bytes: u64,
    /// Whether a snapshot is due regardless of the counts.
    is_hurried: bool,
    /// How many snapshots were begun.
    begun: u64,
    /// The last entry that the image under way holds.
    image_index: u64,
    /// The newest durable snapshot, and the one before it.
    newest: SnapshotPoint,
    before: SnapshotPoint,
    state: State,
    /// When a snapshot last failed to be written.
    failed_ms: Option<u64>,
    installing: Option<Installing>,
}

/// A received snapshot on its way into the state. No other may be received until a snapshot of this
/// member covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installing {
    /// The command that installs it was submitted.
    Proposed,
    /// It has become the state. The snapshot with this number will cover it.
    Installed { snapshot: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// Apply was asked to freeze.
    Asked,
    /// Pieces go from Apply to the file.
    Streaming,
    /// The last piece was handed over; the log on the disk does not reach the image yet.
    Written,
    /// The file gets its name.
    Finishing,
}

impl Snapshots {
    /// Starts with the restored snapshot and the log behind it.
    pub fn new(
        commands_max: u64,
        log_rule: SnapshotLog,
        restored: SnapshotPoint,
        log_bytes: u64,
    ) -> Snapshots {
        Snapshots {
            commands_max,
            log_rule,
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
            installing: None,
        }
    }

    /// Whether a received snapshot is on its way into the state, or is not covered by a snapshot of
    /// this member yet.
    pub fn is_installing(&self) -> bool {
        self.installing.is_some()
    }

    /// The command that installs a received snapshot was submitted.
    pub fn on_install_submitted(&mut self) {
        self.installing = Some(Installing::Proposed);
    }

    /// A received snapshot has become the state. A snapshot that covers it is due.
    pub fn on_install_applied(&mut self) {
        self.installing = Some(Installing::Installed { snapshot: self.want() });
    }

    /// Whether a snapshot of this member has come to cover the received one since the last call.
    /// The received file is to be removed, and the log that names it is let go of, too.
    pub fn take_covered(&mut self) -> bool {
        let is_covered = matches!(
            self.installing,
            Some(Installing::Installed { snapshot }) if self.begun >= snapshot
        );
        if is_covered {
            self.installing = None;
            // The log behind an older snapshot cannot be applied any more.
            self.before = self.newest;
        }
        is_covered
    }

    /// A snapshot could not be written just now.
    pub fn on_failed(&mut self, now_ms: u64) {
        self.failed_ms = Some(now_ms);
    }

    /// When a snapshot last failed to be written.
    pub fn failed_ms(&self) -> Option<u64> {
        self.failed_ms
    }

    /// Counts an entry that was proposed.
    pub fn count(&mut self, bytes: usize, commands: usize) {
        self.log_bytes += bytes as u64;
        self.commands += commands as u64;
    }

    /// Makes a snapshot due without waiting for more log, which takes room that is needed. After a
    /// failure this tries the same log again.
    pub fn make_due(&mut self) {
        let is_retry = self.state == State::Idle && self.uncovered_bytes > 0;
        self.is_hurried |= self.log_bytes > 0 || is_retry;
    }

    /// Makes a snapshot of the present state due, however little was written since the last.
    /// Returns its number: that of the next snapshot to be begun.
    pub fn want(&mut self) -> u64 {
        self.is_hurried = true;
        self.begun + 1
    }

    /// The point up to which the log may be let go of: the snapshot before the newest, in case the
    /// newest cannot be read; on a full disk the newest.
    pub fn release(&self, disk_is_full: bool) -> SnapshotPoint {
        match disk_is_full {
            true => self.newest,
            false => self.before,
        }
    }

    /// Another member's snapshot took the place of log and state.
    pub fn on_installed(&mut self, point: SnapshotPoint) {
        self.newest = point;
        self.before = point;
        self.log_bytes = 0;
        self.commands = 0;
        self.uncovered_bytes = 0;
    }

    /// Whether a snapshot is under way.
    pub fn is_running(&self) -> bool {
        self.state != State::Idle
    }

    /// Asks Apply for an image when it is time for one, of a state of so many bytes.
    pub fn maybe_begin(&mut self, state_bytes: u64) -> Option<ToApply> {
        let due = self.is_hurried
            || self.log_bytes >= self.log_rule.bytes(state_bytes)
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

    /// Turns a message of Apply into jobs for the file. `membership` is the one active at the
    /// image.
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

    /// Takes a message of the snapshot thread. Returns what Apply is to do next: another piece, or
    /// nothing more.
    pub fn on_snapshot(&mut self, message: FromSnapshot) -> Option<ToApply> {
        match message {
            FromSnapshot::PieceWritten if self.state == State::Streaming => {
                Some(ToApply::FreezeStep)
            }
            FromSnapshot::PieceWritten => None,
            FromSnapshot::Finished { index, term } => {
                self.state = State::Idle;
                let finished = SnapshotPoint { index, term };
                // Otherwise nothing changes: a snapshot at the newest one's index replaces its
                // file, and one that was received meanwhile is newer.
                if finished.index > self.newest.index {
                    self.before = self.newest;
                    self.newest = finished;
                }
                self.uncovered_bytes = 0;
                None
            }
            FromSnapshot::Failed => {
                // The next snapshot is taken after another full interval, not at once.
                self.state = State::Idle;
                Some(ToApply::Thaw)
            }
        }
    }
}

#[cfg(test)]
mod tests;
