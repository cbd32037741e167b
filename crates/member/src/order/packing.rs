//! Gives waiting batches to the leader: packs them into entries if this member leads, forwards them
//! otherwise.

use bytes::Bytes;
use machine::entry::{self, UnstampedBatch};
use machine::limits::{BATCH_BYTES_MAX, BATCH_COMMANDS_MAX};
use machine::{Level, MemberId};
use replica::Refused;

use super::forward::Callers;
use super::{Loop, Waiting};
use crate::limits::{ENTRIES_TO_DISK_MAX, FORWARD_BYTES_MAX, PERSISTING_BYTES_MAX};
use crate::message::{FrontId, ToApply, Waiter};
use crate::peer::ForwardedBatch;

impl Loop {
    /// Gives the waiting batches to the leader.
    pub(super) fn pack(&mut self, wall_ms: i64) {
        match self.leader {
            _ if self.leads() => self.pack_entries(wall_ms),
            Some(leader) => self.forward(leader),
            None => {}
        }
    }

    fn forward(&mut self, leader: MemberId) {
        // A learner forwards nothing: it serves no clients yet, except read-only ones.
        if !self.is_voter() || (self.forwarder.is_resending() && !self.may_resend()) {
            return;
        }
        while self.forwarder.unapplied_bytes() < FORWARD_BYTES_MAX
            && let Some(waiting) = self.waiting.pop_front()
        {
            let Waiting::Own { front, batch, waiters } = waiting else {
                unreachable!("only leaders keep what others forward")
            };
            self.stamp(front, batch, waiters);
        }
        while let Some(piece) = self.forwarder.forward() {
            self.send(leader, piece);
        }
    }

    /// Stamps a batch. From now on it has its place in this member's order, and Apply knows its
    /// waiters.
    fn stamp(&mut self, front: Option<FrontId>, batch: UnstampedBatch, waiters: Vec<Waiter>) {
        let tickets = || waiters.iter().map(|waiter| waiter.ticket).collect();
        let callers = front.map(|front| Callers { front, tickets: tickets() });
        let sequence = self.forwarder.push(batch, callers);
        self.output.apply.push(ToApply::Expect { sequence, front, waiters });
    }

    /// Packs waiting batches into entries, while few enough entries are on their way.
    fn pack_entries(&mut self, wall_ms: i64) {
        if self.forwarder.is_resending() && !self.may_resend() {
            return;
        }
        loop {
            if !self.may_pack() {
                return;
            }
            let leading = self.leading.as_mut();
            let payload = match leading.and_then(|leading| leading.unproposed.take()) {
                Some(payload) => payload,
                None if self.next_size().is_none() => return,
                None => self.next_entry(wall_ms),
            };
            match self.replica.propose(payload.clone()) {
                Ok(_) => {}
                Err(Refused::Overloaded | Refused::Transferring { .. }) => {
                    if let Some(leading) = &mut self.leading {
                        leading.unproposed = Some(payload);
                    }
                    return;
                }
                // The next effects report it. This member's own batches go to the next leader.
                Err(Refused::NotLeader { .. }) => return,
                Err(refused) => unreachable!("a leader's own entry is not refused: {refused}"),
            }
            self.take_effects();
        }
    }

    /// Whether there is room for the next snapshot, as far as is known, and few enough entries are
    /// on their way: to this member's disk, usually the first to be done, or, if it stalls, to a
    /// quorum of the others.
    fn may_pack(&self) -> bool {
        let persisting = &self.persisting;
        if self.room.snapshot.must_wait() {
            return false;
        }
        persisting.awaited_count() < ENTRIES_TO_DISK_MAX
            || (self.replica.uncommitted_count() < ENTRIES_TO_DISK_MAX as u64
                && persisting.bytes() < PERSISTING_BYTES_MAX)
    }

    /// Packs at least one batch, and as many as fit, into an entry.
    fn next_entry(&mut self, wall_ms: i64) -> Bytes {
        let mut batches = Vec::new();
        let (mut commands, mut bytes, mut level) = (0, 0, Level::FIRST);
        while let Some((more_commands, more_bytes)) = self.next_size() {
            let fits = commands + more_commands <= BATCH_COMMANDS_MAX
                && bytes + more_bytes <= BATCH_BYTES_MAX;
            if !batches.is_empty() && !fits {
                break;
            }
            commands += more_commands;
            bytes += more_bytes;
            let batch = self.next_batch();
            level = level.max(batch.header.level);
            batches.push(batch.bytes);
        }
        self.counts.commands_proposed += commands as u64;
        let payload = entry::encode(wall_ms, 0, level, &batches);
        self.counts.on_proposal(payload.len() as u64);
        payload
    }

    /// Commands and bytes of the batch that goes into an entry next. Own batches that an earlier
    /// leader was given come first.
    fn next_size(&self) -> Option<(usize, usize)> {
        match self.forwarder.peek() {
            Some(batch) => Some(batch.size()),
            None => self.waiting.front().map(Waiting::size),
        }
    }

    fn next_batch(&mut self) -> ForwardedBatch {
        if self.forwarder.peek().is_none() {
            match self.waiting.pop_front().expect("the caller checked that it exists") {
                Waiting::Own { front, batch, waiters } => self.stamp(front, batch, waiters),
                Waiting::Forwarded(batch) => return batch,
            }
        }
        self.forwarder.give()
    }
}
