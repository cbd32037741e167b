//! Holds the batches on their way into the log. The first are [`Forwarder`]'s: they have a
//! sequence, and are kept until they are applied here. Behind them are the batches that no leader
//! was given yet.

use std::collections::VecDeque;

use bytes::Bytes;
use machine::entry::{self, BatchBuilder, UnstampedBatch};
use machine::limits::{BATCH_BYTES_MAX, BATCH_COMMANDS_MAX};
use machine::{BootId, Command, ConnectionId, Level, LogIndex, Origin};

use super::counts::LoopCounts;
use super::forward::{Callers, Forwarder};
use crate::message::{
    FrontId, GivenUp, GivenUpAt, Submission, Ticket, ToApply, Unavailable, Waiter,
};
use crate::order::limits::FORWARD_BYTES_MAX;
use crate::peer::{ForwardedBatch, PeerMessage};

/// Guards against giving batches again that the log already holds. A member without contact for
/// long may have been replaced, and the state may have forgotten which of its batches it holds.
/// Such a member gives no batch to a leader again before it has applied everything that was
/// committed by then: if it was forgotten, it learns so and ends.
#[derive(Clone, Copy, Default)]
enum Proof {
    /// The member was never without contact for long.
    #[default]
    NotNeeded,
    /// The member was without contact for long, and has not yet asked the leader for the commit
    /// index.
    Wanted,
    /// The member has asked for the commit index.
    Asked,
    /// The leader gave this commit index: the member may give batches again once it is applied
    /// here.
    From(LogIndex),
}

/// A batch that no leader has been given yet.
enum Waiting {
    /// A batch of this member, with its waiters. Loop's own batches have no Front and no waiters.
    Own { front: Option<FrontId>, batch: UnstampedBatch, waiters: Vec<Waiter> },
    /// A batch that a follower forwarded to this member as leader.
    Forwarded(ForwardedBatch),
}

impl Waiting {
    /// The number of commands and of bytes.
    fn size(&self) -> (usize, usize) {
        match self {
            Waiting::Own { batch, .. } => (batch.command_count, batch.byte_count()),
            Waiting::Forwarded(batch) => batch.size(),
        }
    }
}

/// All batches on their way into the log.
pub(super) struct Intake {
    waiting: VecDeque<Waiting>,
    forwarder: Forwarder,
    proof: Proof,
    /// The number of the last question for the commit index: the answer to an earlier question
    /// proves nothing.
    proof_number: u64,
}

impl Intake {
    /// The intake of a start that has no batch yet.
    pub fn new(origin: Origin) -> Intake {
        let (waiting, forwarder) = (VecDeque::new(), Forwarder::new(origin));
        Intake { waiting, forwarder, proof: Proof::default(), proof_number: 0 }
    }

    /// Takes a batch of a Front.
    pub fn submit(&mut self, submission: Submission) {
        let Submission { front, batch, waiters } = submission;
        self.waiting.push_back(Waiting::Own { front: Some(front), batch, waiters });
    }

    /// Takes a command of Loop's own. No waiter gets its outcome.
    pub fn submit_own(&mut self, command: &Command<'_>) {
        let nobody = entry::encode_identities([].into_iter());
        let mut builder = BatchBuilder::default();
        let added = builder.push(ConnectionId(0), &nobody, command);
        assert!(added.is_ok(), "Loop's own commands are bounded far below an entry");
        let (batch, waiters) = (builder.finish(), Vec::new());
        self.waiting.push_back(Waiting::Own { front: None, batch, waiters });
    }

    /// Takes batches that a follower forwarded to this member as leader.
    pub fn take_forwarded(&mut self, batches: impl Iterator<Item = ForwardedBatch>) {
        self.waiting.extend(batches.map(Waiting::Forwarded));
    }

    /// How many batches no leader was given yet.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of this member's batches that have a sequence and are not applied here.
    pub fn unapplied_bytes(&self) -> usize {
        self.forwarder.unapplied_bytes()
    }

    /// Notes that this member has applied its batches up to this sequence.
    pub fn on_applied(&mut self, sequence: u64) {
        self.forwarder.on_applied(sequence);
    }

    /// Removes the clients' batches that have no sequence, since a disk is full. Returns the
    /// message to Apply that refuses each.
    pub fn refuse_clients(&mut self) -> Vec<ToApply> {
        let mut refused = Vec::new();
        for waiting in core::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Own { front: Some(front), waiters, .. } => {
                    let reason = Unavailable::DiskFull;
                    refused.push(ToApply::Refuse { front, waiters, reason });
                }
                waiting => self.waiting.push_back(waiting),
            }
        }
        refused
    }

    /// Ends the intake of a leader. Drops Loop's own batches, which only a leader needs, and those
    /// that followers forwarded: the followers forward theirs again, to the next leader.
    pub fn end_leading(&mut self) {
        self.forwarder.empty_own_batches();
        self.waiting.retain(|waiting| matches!(waiting, Waiting::Own { front: Some(_), .. }));
    }

    // Giving batches to the leader.

    /// Makes the batches that the leader was given be given again: they may be lost.
    pub fn restart(&mut self) {
        self.forwarder.restart();
    }

    /// Takes the leader's message that it misses a piece of this stream.
    pub fn on_restart(&mut self, boot: BootId, stream: u64) {
        self.forwarder.on_restart(boot, stream);
    }

    /// Lets `elapsed_ms` pass at a follower. If the given batches seem lost, they are given again.
    pub fn pass(&mut self, elapsed_ms: u64) {
        if self.forwarder.is_silent_after(elapsed_ms) {
            self.forwarder.restart();
        }
    }

    /// The pieces of the stream to another member as leader, with as many batches as it may be
    /// given. The waiters of batches that get their sequence now are appended to `expected`.
    pub fn forward(
        &mut self,
        applied: LogIndex,
        expected: &mut Vec<ToApply>,
    ) -> impl Iterator<Item = PeerMessage> {
        let may_give = self.may_give(applied);
        while may_give
            && self.forwarder.unapplied_bytes() < FORWARD_BYTES_MAX
            && let Some(waiting) = self.waiting.pop_front()
        {
            let Waiting::Own { front, batch, waiters } = waiting else {
                unreachable!("only leaders keep what others forward")
            };
            expected.push(self.stamp(front, batch, waiters));
        }
        core::iter::from_fn(move || may_give.then(|| self.forwarder.forward()).flatten())
    }

    /// Whether the next batch may be given to a leader. It may not if an earlier leader was given
    /// it and the state may have forgotten this member since.
    pub fn may_give(&mut self, applied: LogIndex) -> bool {
        if let Proof::From(index) = self.proof
            && applied >= index
        {
            self.proof = Proof::NotNeeded;
        }
        !self.forwarder.is_resending() || matches!(self.proof, Proof::NotNeeded)
    }

    /// Gives a batch its sequence, and so its place in this member's order. Returns the message to
    /// Apply with its waiters.
    fn stamp(
        &mut self,
        front: Option<FrontId>,
        batch: UnstampedBatch,
        waiters: Vec<Waiter>,
    ) -> ToApply {
        let tickets = || waiters.iter().map(|waiter| waiter.ticket).collect();
        let callers = front.map(|front| Callers { front, tickets: tickets() });
        let sequence = self.forwarder.push(batch, callers);
        ToApply::Expect { sequence, front, waiters }
    }

    /// Packs the next batch, and as many as fit behind it, into an entry of this leader. Returns
    /// `None` if no batch waits. The waiters of batches that get their sequence now are appended to
    /// `expected`.
    pub fn next_entry(
        &mut self,
        wall_ms: i64,
        counts: &mut LoopCounts,
        expected: &mut Vec<ToApply>,
    ) -> Option<Bytes> {
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
            let batch = self.next_batch(expected);
            level = level.max(batch.header.level);
            batches.push(batch.bytes);
        }
        if batches.is_empty() {
            return None;
        }
        let payload = entry::encode(wall_ms, 0, level, &batches);
        counts.on_proposal(commands as u64, payload.len() as u64);
        Some(payload)
    }

    /// The number of commands and of bytes of the next batch for an entry. Own batches that an
    /// earlier leader was given come first.
    fn next_size(&self) -> Option<(usize, usize)> {
        match self.forwarder.peek() {
            Some(batch) => Some(batch.size()),
            None => self.waiting.front().map(Waiting::size),
        }
    }

    fn next_batch(&mut self, expected: &mut Vec<ToApply>) -> ForwardedBatch {
        if self.forwarder.peek().is_none() {
            match self.waiting.pop_front().expect("the caller checked that it exists") {
                Waiting::Own { front, batch, waiters } => {
                    expected.push(self.stamp(front, batch, waiters));
                }
                Waiting::Forwarded(batch) => return batch,
            }
        }
        self.forwarder.give()
    }

    // The proof that this member has applied what was committed, before it gives batches again.

    /// Notes that this member has been without contact for long.
    pub fn on_silence(&mut self) {
        if self.forwarder.has_unsettled() {
            self.proof = Proof::Wanted;
        }
    }

    /// The number of the next question for the commit index; `None` if no proof is needed now.
    pub fn wants_proof(&self) -> Option<u64> {
        matches!(self.proof, Proof::Wanted).then_some(self.proof_number + 1)
    }

    /// Notes that the question with this number was asked.
    pub fn on_proof_asked(&mut self, number: u64) {
        self.proof = Proof::Asked;
        self.proof_number = number;
    }

    /// Takes the commit index that answers question `number`; `None` if there is no answer now.
    pub fn on_proof(&mut self, number: u64, index: Option<LogIndex>) {
        if let Proof::Asked = self.proof
            && number == self.proof_number
        {
            self.proof = index.map_or(Proof::Wanted, Proof::From);
        }
    }

    // Commands that clients give up: nobody waits for them any more, and leaders get `Nothing` in
    // their place from now on.

    /// Replaces the commands of a Front that are given up, wherever they are. Returns where each
    /// was.
    ///
    /// A batch without a sequence is dropped if all of its commands are given up. Any other batch
    /// keeps its place and its sequence, and `ControlCommand::Nothing` takes the place of each
    /// command that is given up: the machine skips every batch behind a sequence that is missing.
    pub fn give_up(
        &mut self,
        of_front: FrontId,
        is_given_up: impl Fn(ConnectionId, Ticket) -> bool,
    ) -> Vec<GivenUp> {
        let mut given_up = Vec::new();
        self.waiting.retain_mut(|waiting| match waiting {
            Waiting::Own { front: Some(front), batch, waiters } if *front == of_front => {
                replace_waiting(batch, waiters, &is_given_up, &mut given_up)
            }
            _ => true,
        });
        given_up.extend(self.forwarder.give_up(of_front, is_given_up));
        given_up
    }
}

/// Replaces the given-up commands of a batch that has no sequence. Returns false if nobody waits
/// for any of its commands any more.
fn replace_waiting(
    batch: &mut UnstampedBatch,
    waiters: &mut [Waiter],
    is_given_up: impl Fn(ConnectionId, Ticket) -> bool,
    given_up: &mut Vec<GivenUp>,
) -> bool {
    let before = given_up.len();
    for waiter in waiters.iter_mut() {
        let Waiter { connection, ticket, .. } = *waiter;
        if !waiter.is_given_up && is_given_up(connection, ticket) {
            waiter.is_given_up = true;
            given_up.push(GivenUp { connection, ticket, at: GivenUpAt::Waiting });
        }
    }
    if given_up.len() == before {
        return true;
    }
    let is_awaited = waiters.iter().any(|waiter| !waiter.is_given_up);
    if is_awaited {
        batch.replace_by_nothing(|position, _| waiters[position].is_given_up);
    }
    is_awaited
}

#[cfg(test)]
mod tests;
