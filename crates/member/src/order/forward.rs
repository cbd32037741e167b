//! Keeps this member's own batches until this member has applied them, and forwards them to the
//! leader. Each batch gets into the log once, in this member's order, however often the leader
//! changes. See `docs/design/ensemble.md`.
//!
//! A batch is kept from when it gets its sequence until this member has applied it. The batches
//! that the current leader was given are a prefix of the kept ones. When these may be lost (another
//! leader, another term, a broken link, a long silence), the prefix becomes empty, and they are
//! given again as a new *stream*: the machine skips batches that it has applied.
//!
//! A command that the client gives up is replaced by `Nothing` in the kept batch. A leader that was
//! given the batch before has the command; a leader that is given it later gets `Nothing`.

use std::collections::VecDeque;

use machine::entry::{self, BatchHeader, UnstampedBatch};
use machine::{BootId, ConnectionId, Level, Origin};

use crate::limits::FORWARD_BATCHES_MAX;
use crate::message::{Fate, FrontId, GivenUp, GivenUpAt, Ticket};
use crate::order::limits::{FORWARD_BYTES_MAX, FORWARD_SILENCE_MS};
use crate::peer::{Forward, ForwardedBatch, PeerMessage};

/// This member's own batches that it has not applied.
pub(crate) struct Forwarder {
    origin: Origin,
    next_sequence: u64,
    /// Batches with a sequence that are not applied here, in the order of their sequences.
    unapplied: VecDeque<Unapplied>,
    /// How many batches at the front of `unapplied` the current leader (this member or another) was
    /// given.
    given: usize,
    given_bytes: usize,
    unapplied_bytes: usize,
    stream: u64,
    position: u64,
    /// The highest sequence that was ever given to any leader.
    given_sequence: u64,
    /// Time since a given batch was last applied here, or since the first was given, in ms.
    silent_ms: u64,
}

struct Unapplied {
    batch: ForwardedBatch,
    /// The callers; `None` for a command of Loop itself, which only the leader that submitted it
    /// wants.
    callers: Option<Callers>,
}

/// The callers that wait for the commands of a batch: a Front, and a ticket for each command. The
/// batch itself has the connections.
pub(crate) struct Callers {
    /// The Front that handed the batch over.
    pub front: FrontId,
    /// The ticket of each command, in order.
    pub tickets: Box<[Ticket]>,
}

impl Forwarder {
    pub fn new(origin: Origin) -> Forwarder {
        Forwarder {
            origin,
            next_sequence: 1,
            unapplied: VecDeque::new(),
            given: 0,
            given_bytes: 0,
            unapplied_bytes: 0,
            stream: 1,
            position: 0,
            given_sequence: 0,
            silent_ms: 0,
        }
    }

    /// Gives a batch its sequence and keeps it, to be given to the leader after the ones before it.
    /// Returns the sequence.
    pub fn push(&mut self, batch: UnstampedBatch, callers: Option<Callers>) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let command_count = batch.command_count as u32;
        let level = batch.level;
        let header = BatchHeader { origin: self.origin, sequence, command_count, level };
        let bytes = batch.stamp(self.origin, sequence);
        self.unapplied_bytes += bytes.len();
        let batch = ForwardedBatch { header, bytes };
        self.unapplied.push_back(Unapplied { batch, callers });
        sequence
    }

    /// The first kept batch that the leader was not given; `None` if it was given all.
    pub fn peek(&self) -> Option<&ForwardedBatch> {
        self.unapplied.get(self.given).map(|unapplied| &unapplied.batch)
    }

    /// Marks the next batch as given to the leader, and returns it. If this member leads, it goes
    /// into an entry.
    pub fn give(&mut self) -> ForwardedBatch {
        let batch = self.unapplied[self.given].batch.clone();
        if self.given == 0 {
            self.silent_ms = 0;
        }
        self.given += 1;
        self.given_bytes += batch.bytes.len();
        self.given_sequence = self.given_sequence.max(batch.header.sequence);
        batch
    }

    /// Whether the next batch was given to an earlier leader, so that the log may already hold it.
    pub fn is_resending(&self) -> bool {
        self.peek().is_some_and(|batch| batch.header.sequence <= self.given_sequence)
    }

    /// Whether some batch that was given to a leader is not applied here.
    pub fn has_unsettled(&self) -> bool {
        let first = self.unapplied.front();
        first.is_some_and(|first| first.batch.header.sequence <= self.given_sequence)
    }

    /// Bytes of the kept batches.
    pub fn unapplied_bytes(&self) -> usize {
        self.unapplied_bytes
    }

    /// Whether another member as leader may be given one more batch: it was given none that is not
    /// applied here, or those that it was given have less than [`FORWARD_BYTES_MAX`] bytes.
    fn has_room(&self) -> bool {
        self.given == 0 || self.given_bytes < FORWARD_BYTES_MAX
    }

    /// The next piece of the stream to another member as leader; `None` if no batch can be given
    /// now.
    pub fn forward(&mut self) -> Option<PeerMessage> {
        let mut batches = Vec::new();
        while self.peek().is_some() && self.has_room() && batches.len() < FORWARD_BATCHES_MAX {
            batches.push(self.give());
        }
        if batches.is_empty() {
            return None;
        }
        let (boot, stream, position) = (self.origin.boot, self.stream, self.position);
        self.position += 1;
        Some(PeerMessage::Forward(Forward { boot, stream, position, batches }))
    }

    /// Forgets the batches up to this one: this member has applied them.
    pub fn on_applied(&mut self, sequence: u64) {
        while let Some(first) = self.unapplied.front()
            && first.batch.header.sequence <= sequence
        {
            let applied = self.unapplied.pop_front().expect("it was just looked at");
            self.unapplied_bytes -= applied.batch.bytes.len();
            if self.given > 0 {
                self.given -= 1;
                self.given_bytes -= applied.batch.bytes.len();
            }
            self.silent_ms = 0;
        }
    }

    /// Begins a new stream from the first kept batch, since the batches given to the leader may be
    /// lost.
    pub fn restart(&mut self) {
        self.stream += 1;
        self.position = 0;
        self.given = 0;
        self.given_bytes = 0;
        self.silent_ms = 0;
    }

    /// Begins a new stream if the leader, which misses a piece, asked for it about the current one.
    pub fn on_restart(&mut self, boot: BootId, stream: u64) {
        if boot == self.origin.boot && stream == self.stream {
            self.restart();
        }
    }

    /// Replaces the batches of Loop's own commands by empty ones, since this member no longer leads
    /// and the next leader does not want them. They keep their sequences: one that was proposed may
    /// still get into the log.
    pub fn empty_own_batches(&mut self) {
        for unapplied in self.unapplied.iter_mut().filter(|it| it.callers.is_none()) {
            let header = &mut unapplied.batch.header;
            header.command_count = 0;
            header.level = Level::FIRST;
            self.unapplied_bytes -= unapplied.batch.bytes.len();
            unapplied.batch.bytes = UnstampedBatch::empty().stamp(self.origin, header.sequence);
            self.unapplied_bytes += unapplied.batch.bytes.len();
        }
    }

    /// Replaces commands of a Front that are given up by `Nothing`, also in batches that a leader
    /// was given, for when they are given again. Returns which commands it replaced.
    pub fn give_up(
        &mut self,
        front: FrontId,
        is_given_up: impl Fn(ConnectionId, Ticket) -> bool,
    ) -> Vec<GivenUp> {
        let mut given_up = Vec::new();
        for (number, Unapplied { batch, callers }) in self.unapplied.iter_mut().enumerate() {
            let Some(callers) = callers.as_ref().filter(|callers| callers.front == front) else {
                continue;
            };
            let ticket = |position: usize| callers.tickets.get(position).copied();
            let replaced = entry::replace_by_nothing(&batch.bytes, |position, connection| {
                ticket(position).is_some_and(|ticket| is_given_up(connection, ticket))
            });
            let Some(replaced) = replaced else { continue };
            let saved_bytes = batch.bytes.len() - replaced.bytes.len();
            self.unapplied_bytes -= saved_bytes;
            if number < self.given {
                self.given_bytes -= saved_bytes;
            }
            *batch = ForwardedBatch { header: replaced.header, bytes: replaced.bytes };
            let sequence = batch.header.sequence;
            let was_given = sequence <= self.given_sequence;
            let fate = if was_given { Fate::Unknown } else { Fate::Definite };
            given_up.extend(replaced.places.into_iter().map(|(position, connection)| {
                let ticket = ticket(position).expect("only commands with tickets are replaced");
                let at = GivenUpAt::Batch { sequence, position, fate };
                GivenUp { connection, ticket, at }
            }));
        }
        given_up
    }

    /// Lets `elapsed_ms` pass. Returns whether nothing was applied for so long that the given
    /// batches seem lost.
    pub fn is_silent_after(&mut self, elapsed_ms: u64) -> bool {
        self.silent_ms = if self.given == 0 { 0 } else { self.silent_ms + elapsed_ms };
        self.silent_ms >= FORWARD_SILENCE_MS
    }
}

#[cfg(test)]
mod tests;
