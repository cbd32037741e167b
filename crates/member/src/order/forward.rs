//! Own batches on their way into the log, and those that other members forward: each is in the log
//! once, in its member's order, whoever leads meanwhile. See `docs/design/ensemble.md`.
//!
//! A batch is kept from when it is stamped until this member has applied it. What a leader was
//! given is a prefix of what is kept; when that may be lost (another leader, another term, a link
//! that broke, a long silence) the prefix is empty again: the machine skips what it has had.
//!
//! A command that is given up is replaced by `Nothing` in the batch that is kept. A leader that was
//! given the batch before has the command; what is given from then on has `Nothing`.

use std::collections::VecDeque;

use machine::entry::{self, BatchHeader, UnstampedBatch};
use machine::{BootId, ConnectionId, Level, Origin};

use crate::limits::{FORWARD_BATCHES_MAX, FORWARD_BYTES_MAX, FORWARD_SILENCE_MS};
use crate::message::{Fate, FrontId, GivenUp, GivenUpAt, Ticket};
use crate::peer::{Forward, ForwardedBatch, PeerMessage};

/// This member's batches.
pub(crate) struct Forwarder {
    origin: Origin,
    next_sequence: u64,
    /// Stamped, not applied here, in the order of their sequences.
    unapplied: VecDeque<Unapplied>,
    /// The first of them that the leader, be it this member or another, was not given.
    given: usize,
    given_bytes: usize,
    unapplied_bytes: usize,
    stream: u64,
    position: u64,
    /// The highest sequence that any leader was ever given.
    given_sequence: u64,
    /// Since anything that was given was applied, or given at first.
    silent_ms: u64,
}

struct Unapplied {
    batch: ForwardedBatch,
    /// None: the batch is Loop's own, and only the leader that this member was may want it.
    callers: Option<Callers>,
}

/// The callers that wait for the commands of a batch. The batch has their connections.
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

    /// Stamps a batch, to be given to the leader behind those before it. Returns its sequence.
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

    /// The next batch that the leader was not given.
    pub fn peek(&self) -> Option<&ForwardedBatch> {
        self.unapplied.get(self.given).map(|unapplied| &unapplied.batch)
    }

    /// The leader is given the next batch: this member leads, and it goes into an entry.
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

    /// Whether the next batch was given to a leader before, so that the log may hold it.
    pub fn is_resending(&self) -> bool {
        self.peek().is_some_and(|batch| batch.header.sequence <= self.given_sequence)
    }

    /// Whether a batch that a leader was given is not applied here.
    pub fn has_unsettled(&self) -> bool {
        let first = self.unapplied.front();
        first.is_some_and(|first| first.batch.header.sequence <= self.given_sequence)
    }

    /// Bytes of what is kept.
    pub fn unapplied_bytes(&self) -> usize {
        self.unapplied_bytes
    }

    /// Whether another leader may be given more, on top of what it was and what was not applied.
    fn has_room(&self) -> bool {
        self.given == 0 || self.given_bytes < FORWARD_BYTES_MAX
    }

    /// The next piece of the stream to another leader, if there is anything to be given.
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

    /// This member has applied its batches up to this one.
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

    /// What the leader was given may be lost.
    pub fn restart(&mut self) {
        self.stream += 1;
        self.position = 0;
        self.given = 0;
        self.given_bytes = 0;
        self.silent_ms = 0;
    }

    /// The leader says that it misses something of a stream.
    pub fn on_restart(&mut self, boot: BootId, stream: u64) {
        if boot == self.origin.boot && stream == self.stream {
            self.restart();
        }
    }

    /// This member leads no longer: what it wanted as leader is not wanted by the next one. Those
    /// batches keep their place, without commands: what was proposed may still be in the log.
    pub fn empty_loops(&mut self) {
        for unapplied in self.unapplied.iter_mut().filter(|it| it.callers.is_none()) {
            let header = &mut unapplied.batch.header;
            header.command_count = 0;
            header.level = Level::FIRST;
            self.unapplied_bytes -= unapplied.batch.bytes.len();
            unapplied.batch.bytes = UnstampedBatch::empty().stamp(self.origin, header.sequence);
            self.unapplied_bytes += unapplied.batch.bytes.len();
        }
    }

    /// Replaces those commands of a Front that are given up. A batch that a leader was given is
    /// replaced as well, for when it is given again.
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

    /// Time went by. True if what was given seems to be lost.
    pub fn is_silent_after(&mut self, elapsed_ms: u64) -> bool {
        self.silent_ms = if self.given == 0 { 0 } else { self.silent_ms + elapsed_ms };
        self.silent_ms >= FORWARD_SILENCE_MS
    }
}

#[cfg(test)]
mod tests;
