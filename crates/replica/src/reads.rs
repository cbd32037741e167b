//! Linearizable reads by ReadIndex (Raft thesis, section 6.4). Reads that arrive together form one
//! *round*, which asks the leader for one index.
//!
//! raft-rs silently drops such a request if there is no leader, if the leader has not yet committed
//! an entry of its term, or if the leader loses the lead before it answers. So this module repeats
//! requests, and fails each read that has no answer by its deadline.
//!
//! Invariant: a *context* (the bytes that identify a request to raft-rs) is used only once, ever. A
//! context holds the member id, the boot id and a counter, and each repetition of a request takes
//! the next value of the counter. If a context were used again, raft-rs 0.7 would count
//! acknowledgements of its first use, and so confirm a deposed leader. An answer to any context of
//! a round serves the reads of the round, since all these contexts were made after the reads
//! arrived.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

use crate::effects::ReadId;
use crate::limits::{READ_ATTEMPTS_MAX, READ_CONTEXT_BYTES, READ_ROUNDS_MAX, READS_MAX};

/// Settings, fixed for one boot of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadConfig {
    pub member_id: u64,
    pub boot_id: u64,
    /// Ticks after which an unanswered read fails.
    pub deadline_ticks: u64,
    /// Ticks after which a round without an answer asks the leader again.
    pub retry_ticks: u64,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    id: ReadId,
    deadline_tick: u64,
}

#[derive(Debug)]
struct Round {
    reads: Vec<Read>,
    /// The counters of the contexts that this round has used.
    attempts: VecDeque<u64>,
    retry_tick: u64,
}

#[derive(Debug)]
pub(crate) struct Reads {
    config: ReadConfig,
    next_id: u64,
    next_counter: u64,
    waiting: Vec<Read>,
    rounds: VecDeque<Round>,
    read_count: usize,
}

impl Reads {
    pub(crate) fn new(config: ReadConfig) -> Reads {
        Reads {
            config,
            next_id: 0,
            next_counter: 0,
            waiting: Vec::new(),
            rounds: VecDeque::new(),
            read_count: 0,
        }
    }

    /// Adds a read to the next round. `None` if `limits::READS_MAX` reads are under way.
    pub(crate) fn submit(&mut self, now_tick: u64) -> Option<ReadId> {
        if self.read_count >= READS_MAX {
            return None;
        }
        let id = ReadId(self.next_id);
        self.next_id += 1;
        self.read_count += 1;
        let deadline_tick = now_tick.saturating_add(self.config.deadline_ticks);
        self.waiting.push(Read { id, deadline_tick });
        Some(id)
    }

    /// Removes and returns the reads whose deadline has passed.
    pub(crate) fn expire(&mut self, now_tick: u64) -> Vec<ReadId> {
        let mut failed = Vec::new();
        let rounds = self.rounds.iter_mut().map(|round| &mut round.reads);
        for reads in rounds.chain([&mut self.waiting]) {
            reads.retain(|read| {
                let in_time = now_tick < read.deadline_tick;
                if !in_time {
                    failed.push(read.id);
                }
                in_time
            });
        }
        self.rounds.retain(|round| !round.reads.is_empty());
        self.read_count -= failed.len();
        failed.sort_unstable();
        failed
    }

    /// Makes every round ask again: the leader has changed, so requests under way may be lost.
    pub(crate) fn retry_all(&mut self) {
        self.rounds.iter_mut().for_each(|round| round.retry_tick = 0);
    }

    /// Whether `next_contexts` would return something.
    pub(crate) fn has_next(&self, now_tick: u64) -> bool {
        (!self.waiting.is_empty() && self.rounds.len() < READ_ROUNDS_MAX)
            || self.rounds.iter().any(|round| round.retry_tick <= now_tick)
    }

    /// The contexts to send to the leader now: one for a new round of all waiting reads, and one
    /// for each round that must ask again.
    pub(crate) fn next_contexts(&mut self, now_tick: u64) -> Vec<Bytes> {
        if !self.waiting.is_empty() && self.rounds.len() < READ_ROUNDS_MAX {
            let reads = std::mem::take(&mut self.waiting);
            self.rounds.push_back(Round { reads, attempts: VecDeque::new(), retry_tick: 0 });
        }
        let mut contexts = Vec::new();
        for round in self.rounds.iter_mut().filter(|round| round.retry_tick <= now_tick) {
            let counter = self.next_counter;
            self.next_counter += 1;
            round.retry_tick = now_tick.saturating_add(self.config.retry_ticks);
            round.attempts.push_back(counter);
            if round.attempts.len() > READ_ATTEMPTS_MAX {
                round.attempts.pop_front();
            }
            contexts.push(encode_context(self.config, counter));
        }
        contexts
    }

    /// Takes an answer, and returns the reads that it serves. Empty if the context is unknown, old,
    /// or of another boot.
    pub(crate) fn on_answer(&mut self, context: &[u8]) -> Vec<ReadId> {
        let Some(counter) = decode_context(self.config, context) else {
            return Vec::new();
        };
        let answered = self.rounds.iter().position(|round| round.attempts.contains(&counter));
        let Some(round) = answered.and_then(|position| self.rounds.remove(position)) else {
            return Vec::new();
        };
        self.read_count -= round.reads.len();
        round.reads.iter().map(|read| read.id).collect()
    }
}

fn encode_context(config: ReadConfig, counter: u64) -> Bytes {
    let mut out = BytesMut::with_capacity(READ_CONTEXT_BYTES);
    [config.member_id, config.boot_id, counter].iter().for_each(|word| out.put_u64_le(*word));
    out.freeze()
}

/// The counter in a context; `None` if the context is not of this boot.
fn decode_context(config: ReadConfig, context: &[u8]) -> Option<u64> {
    let (words, rest) = context.as_chunks::<8>();
    let mut words = words.iter().copied().map(u64::from_le_bytes);
    let ours = words.next()? == config.member_id && words.next()? == config.boot_id;
    let counter = words.next()?;
    (ours && rest.is_empty() && words.next().is_none()).then_some(counter)
}

#[cfg(test)]
mod tests;
