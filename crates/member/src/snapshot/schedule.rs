//! Decides when a snapshot is taken, and passes its pieces from Apply to the snapshot thread.
//!
//! One piece is under way at a time: Apply gives a piece, the snapshot thread writes it, then Loop
//! asks Apply for the next. So a snapshot needs the memory of one piece, and goes as fast as the
//! file is written.
//!
//! The state may be ahead of this member's log on disk, since a quorum of others can commit without
//! it. A snapshot's file gets its name only once every entry that it covers is durable here: so the
//! log never ends before its snapshot.

use storage::wal::SnapshotPoint;

use crate::message::{FromApply, FromSnapshot, SnapshotJob, ToApply};
use crate::snapshot::log_rule::SnapshotLog;

/// Decides when a snapshot is taken, and keeps the progress of the snapshot being taken.
pub struct Snapshots {
    commands_max: u64,
    log_rule: SnapshotLog,
    /// Bytes and commands of the log since the last snapshot was begun.
    log_bytes: u64,
    commands: u64,
    /// Bytes of the log before the last snapshot was begun that no durable snapshot covers: the
    /// snapshot being taken is to cover them, or the snapshots that were to cover them failed.
    uncovered_bytes: u64,
    /// Whether a snapshot is due whatever the amount of log.
    is_hurried: bool,
    /// How many snapshots were begun since the start. This is the number of the last one.
    begun: u64,
    /// The index of the last entry that the snapshot being taken holds.
    image_index: u64,
    giving_up: GivingUp,
    /// The newest durable snapshot, and the one before it.
    newest: SnapshotPoint,
    before: SnapshotPoint,
    state: State,
    /// When a snapshot last could not be written, by Loop's clock.
    failed_ms: Option<u64>,
    installing: Option<Installing>,
}

/// A received snapshot that is being installed. No other may be received until a snapshot of this
/// member covers the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installing {
    /// The command that installs the received snapshot was submitted.
    Proposed,
    /// The received snapshot has become the state. This member's snapshot with this number will
    /// cover the installation.
    Installed { snapshot: u64 },
}

/// Whether the snapshot being taken is given up, because a member waits for a newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GivingUp {
    /// It may be.
    Possible,
    /// It is, once the piece under way is written.
    Asked,
    /// One was given up, and none has been finished since. So the next one is not given up:
    /// otherwise the log would never get shorter.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// Apply was asked to begin an image.
    Asked,
    /// Pieces go from Apply to the file.
    Streaming,
    /// Apply has given the last piece, but the log on the disk does not reach the image's index
    /// yet.
    Written,
    /// The snapshot thread completes the file.
    Finishing,
}

impl Snapshots {
    /// Starts with the restored snapshot, and `log_bytes` bytes of log behind it.
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
            giving_up: GivingUp::Possible,
            newest: restored,
            before: restored,
            state: State::Idle,
            failed_ms: None,
            installing: None,
        }
    }

    /// Whether a received snapshot is being installed, or no snapshot of this member covers its
    /// installation yet.
    pub fn is_installing(&self) -> bool {
        self.installing.is_some()
    }

    /// Notes that the command that installs a received snapshot was submitted.
    pub fn on_install_submitted(&mut self) {
        self.installing = Some(Installing::Proposed);
    }

    /// Notes that a received snapshot has become the state. A snapshot of this member's own, which
    /// covers the installation, becomes due.
    pub fn on_install_applied(&mut self) {
        self.installing = Some(Installing::Installed { snapshot: self.want() });
    }

    /// Whether a snapshot of this member has covered the installation of a received one since the
    /// last call. Then the received file is to be removed, and the log that names it may be
    /// deleted, too.
    pub fn take_covered(&mut self) -> bool {
        let is_covered = matches!(
            self.installing,
            Some(Installing::Installed { snapshot }) if self.begun >= snapshot
        );
        if is_covered {
            self.installing = None;
            // Without the received file, the log cannot be applied to an older snapshot any more.
            self.before = self.newest;
        }
        is_covered
    }

    /// Notes that a snapshot could not be written just now.
    pub fn on_failed(&mut self, now_ms: u64) {
        self.failed_ms = Some(now_ms);
    }

    /// When a snapshot last could not be written, by Loop's clock; `None` if that never happened.
    pub fn failed_ms(&self) -> Option<u64> {
        self.failed_ms
    }

    /// Counts an entry that goes into the log.
    pub fn count(&mut self, bytes: usize, commands: usize) {
        self.log_bytes += bytes as u64;
        self.commands += commands as u64;
    }

    /// Makes a snapshot due without waiting for more log, because the disk is full. If the last
    /// snapshot failed, the log that it was to cover counts as well.
    pub fn make_due(&mut self) {
        let is_retry = self.state == State::Idle && self.uncovered_bytes > 0;
        self.is_hurried |= self.log_bytes > 0 || is_retry;
    }

    /// Makes a snapshot of the present state due, however little was written since the last one.
    /// Returns the number of that snapshot.
    pub fn want(&mut self) -> u64 {
        self.is_hurried = true;
        self.begun + 1
    }

    /// Makes a snapshot due that holds the entry at `index`, which is applied. If an older one is
    /// being taken, it is given up: the member that waits would have to wait for both.
    pub fn want_with(&mut self, index: u64) {
        match self.state {
            State::Idle => self.is_hurried = true,
            State::Streaming
                if self.image_index < index && self.giving_up == GivingUp::Possible =>
            {
                self.giving_up = GivingUp::Asked;
            }
            _ => {}
        }
    }

    /// The point up to which the log may be deleted. That is the point of the snapshot before the
    /// newest, in case the newest cannot be read; on a full disk it is the point of the newest.
    pub fn release(&self, disk_is_full: bool) -> SnapshotPoint {
        match disk_is_full {
            true => self.newest,
            false => self.before,
        }
    }

    /// Notes that a snapshot of another member has replaced the log and the state.
    pub fn on_installed(&mut self, point: SnapshotPoint) {
        self.newest = point;
        self.before = point;
        self.log_bytes = 0;
        self.commands = 0;
        self.uncovered_bytes = 0;
    }

    /// Whether a snapshot is being taken.
    pub fn is_running(&self) -> bool {
        self.state != State::Idle
    }

    /// Asks Apply for an image if a snapshot is due. `state_bytes` bounds the bytes of an image.
    pub fn maybe_begin(&mut self, state_bytes: u64) -> Option<ToApply> {
        let due = self.is_hurried
            || self.log_bytes >= self.log_rule.bytes(state_bytes)
            || self.commands >= self.commands_max;
        if self.state != State::Idle || !due {
            return None;
        }
        self.state = State::Asked;
        if self.giving_up == GivingUp::Asked {
            // The one that was to be given up has ended by itself.
            self.giving_up = GivingUp::Possible;
        }
        self.uncovered_bytes += self.log_bytes;
        self.log_bytes = 0;
        self.commands = 0;
        self.is_hurried = false;
        self.begun += 1;
        Some(ToApply::Freeze)
    }

    /// Turns a message of Apply about the image into jobs for the snapshot thread. `membership` is
    /// the one that is active at the image's index.
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
            // The file has failed meanwhile, or was given up, and Apply had not been told yet.
            (State::Idle, _) | (State::Asked, FromApply::FreezeAborted) => Vec::new(),
            (state, message) => unreachable!("{message:?} while the snapshot is {state:?}"),
        }
    }

    /// Has the file completed, once the log up to the image's index is durable. `persisted_index`
    /// is the last durable entry.
    pub fn maybe_finish(&mut self, persisted_index: u64) -> Option<SnapshotJob> {
        let is_due = self.state == State::Written && persisted_index >= self.image_index;
        is_due.then(|| {
            self.state = State::Finishing;
            SnapshotJob::Finish
        })
    }

    /// Takes a message of the snapshot thread. Returns the request for Apply: for another piece, or
    /// to abandon the image. The file is to be abandoned then, too.
    pub fn on_snapshot(&mut self, message: FromSnapshot) -> Option<ToApply> {
        match message {
            FromSnapshot::PieceWritten
                if self.state == State::Streaming && self.giving_up == GivingUp::Asked =>
            {
                self.giving_up = GivingUp::Done;
                self.state = State::Idle;
                self.is_hurried = true;
                Some(ToApply::Thaw)
            }
            FromSnapshot::PieceWritten if self.state == State::Streaming => {
                Some(ToApply::FreezeStep)
            }
            FromSnapshot::PieceWritten => None,
            FromSnapshot::Finished { index, term } => {
                self.state = State::Idle;
                let finished = SnapshotPoint { index, term };
                // Otherwise nothing changes: a snapshot at the newest one's index replaces its
                // file, and one that was fetched meanwhile is newer.
                if finished.index > self.newest.index {
                    self.before = self.newest;
                    self.newest = finished;
                }
                self.uncovered_bytes = 0;
                self.giving_up = GivingUp::Possible;
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
