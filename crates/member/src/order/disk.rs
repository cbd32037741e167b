//! Does Loop's work with this member's own disk: gives jobs to the disk thread, hands leadership
//! over when the disk stalls or is nearly full, and refuses writes when it is nearly full.

use machine::{LogIndex, entry};
use replica::{EntryKind, PersistId, SnapshotMeta};

use super::Loop;
use super::records::{to_log_entry, to_storage};
use crate::message::{DiskJob, RoomKept, ToApply};
use crate::peer::{PeerMessage, SnapshotAt};
use crate::snapshot::fetch::CatchUp;

impl Loop {
    /// Notes that every disk job up to this one is durable.
    pub(super) fn on_persisted(&mut self, id: PersistId) {
        self.persisting.on_persisted();
        while let Some(job) = self.persisting.pop(id) {
            self.replica.on_persisted(job);
        }
        self.finish_unsynced_jobs();
        if let Some(image) = self.catch_up.take_replacing(id) {
            let is_voter = self.members.is_voter();
            self.output.apply.push(ToApply::Replace { image, is_voter });
        }
    }

    /// Finishes jobs that need no sync, as soon as all jobs before them are durable.
    fn finish_unsynced_jobs(&mut self) {
        while let Some(job) = self.persisting.pop_unsynced() {
            self.replica.on_persisted(job);
        }
    }

    /// Makes a job for the disk thread from what the replica wants to be durable. If only the
    /// commit index has changed, no job is needed.
    pub(super) fn persist(
        &mut self,
        persist: replica::Persist,
        membership: Option<storage::wal::Membership>,
    ) {
        let install = persist.install.map(|meta| self.install_snapshot(persist.id, meta));
        // If the log has reached the index of a received snapshot by itself, that snapshot need not
        // be installed. Its file stays.
        let commit_index = self.replica.commit_index();
        self.catch_up.take_whole_if(|whole| whole.at.index <= commit_index);
        let hard_state = persist.hard_state.map(|state| storage::wal::HardState {
            term: state.term,
            vote: state.vote,
            commit: state.commit,
        });
        let is_lazy = !persist.must_sync && persist.entries.is_empty();
        if is_lazy && membership.is_none() && install.is_none() {
            self.persisting.push_unsynced(persist.id, hard_state);
            self.finish_unsynced_jobs();
            return;
        }
        let bytes = persist.entries.iter().map(|entry| entry.payload.len()).sum();
        let hard_state = self.persisting.push(persist.id, bytes, hard_state);
        let (point, membership) = match install {
            Some((point, of_snapshot)) => (Some(point), Some(of_snapshot)),
            None => (None, membership),
        };
        for entry in &persist.entries {
            let bytes = entry.payload.len();
            let batch_bytes = bytes.saturating_sub(entry::HEADER_BYTES);
            self.snapshots.count(batch_bytes, entry::command_count(&entry.payload));
            self.room.snapshot.on_proposed(LogIndex(entry.index), bytes as u64);
        }
        let mut entries = persist.entries.iter();
        if !self.role.leads()
            && let Some(last) = entries.rfind(|entry| entry.kind == EntryKind::Normal)
            && let Ok(header) = entry::decode_header(&last.payload)
        {
            self.output.proposed_ms = Some(header.time_ms);
        }
        self.output.disk.push(DiskJob {
            id: persist.id,
            entries: persist.entries.into_iter().map(to_log_entry).collect(),
            hard_state,
            membership,
            install: point,
        });
    }

    /// Puts the received snapshot in place of the replica's log.
    fn install_snapshot(
        &mut self,
        job: PersistId,
        meta: SnapshotMeta,
    ) -> (storage::wal::SnapshotPoint, storage::wal::Membership) {
        let at = SnapshotAt { index: meta.index, term: meta.term };
        let image = self.catch_up.take_whole_if(|image| image.at == at);
        let image = image.expect("only the message of a snapshot that is there is stepped");
        self.catch_up = CatchUp::Replacing { job, image };
        let point = storage::wal::SnapshotPoint { index: meta.index, term: meta.term };
        self.snapshots.on_installed(point);
        let membership = to_storage(&meta.membership);
        self.members.on_membership(LogIndex(meta.index), membership.clone());
        (point, membership)
    }

    /// Ends the leadership of a member whose disk stalls: it hands over to the voter that is least
    /// behind. If it still leads when the disk has stalled for long, it resigns.
    pub(super) fn check_stall(&mut self, elapsed_ms: u64) {
        self.persisting.advance(elapsed_ms);
        if !self.role.leads() || self.members.is_alone() || !self.persisting.is_stalled() {
            return;
        }
        if self.persisting.is_stalled_for_long() {
            self.replica.resign();
        } else {
            self.hand_over(None);
        }
    }

    /// Notes whether the disk thread says that the log has no room to grow.
    pub(super) fn on_disk_room(&mut self, is_full: bool) {
        self.room.on_log(is_full);
        self.check_room();
    }

    /// Takes the snapshot thread's report of the room set aside for the next snapshot. The report
    /// comes before that thread's message about the same snapshot.
    pub(super) fn on_snapshot_room(&mut self, kept: RoomKept) {
        let is_enough_now = self.room.on_kept(kept);
        self.check_room();
        if self.room.is_full() && is_enough_now {
            // A snapshot that failed for lack of room can succeed now.
            self.snapshots.make_due();
        }
    }

    /// Decides anew whether there is room for more log, and acts if that has changed.
    pub(super) fn check_room(&mut self) {
        let change = self.room.look(self.snapshots.is_running());
        self.output.yield_room = change.yields.or(self.output.yield_room);
        if let Some(is_full) = change.is_full {
            self.on_fullness(is_full);
        }
    }

    fn on_fullness(&mut self, is_full: bool) {
        self.output.disk_is_full = Some(is_full);
        // A snapshot frees the log that it covers, which may be all the room that can be gained.
        // And when there is room again, a snapshot that failed for lack of it can succeed.
        self.snapshots.make_due();
        if is_full {
            self.refuse_waiting();
            self.output.release = Some(self.snapshots.release(is_full));
        } else {
            // Renew all deadlines: clients whose connections broke meanwhile could not attach
            // again.
            self.spaces.renew_all();
        }
        // All members must know, since any of them may lead next, or follow this member.
        self.send_to_all(&PeerMessage::Full(is_full));
    }

    /// Refuses clients' batches that are in no entry yet. To be called before a later batch is
    /// refused, so that refusals are in order.
    pub(super) fn refuse_waiting(&mut self) {
        self.output.apply.extend(self.intake.refuse_clients());
    }

    /// Does what is due while the disk is full.
    pub(super) fn pursue_room(&mut self, elapsed_ms: u64) {
        if self.role.leads() && self.room.is_full() {
            // If the disks of all voters are full, none of them takes over.
            self.hand_over(None);
        }
        let due = self.room.advance(self.clock.now_ms(), elapsed_ms);
        if due.is_told {
            self.send_to_all(&PeerMessage::Full(true));
        }
        if due.wants_snapshot {
            self.snapshots.make_due();
        }
    }
}
