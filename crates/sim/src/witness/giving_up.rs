//! Checks commands that a member gave up because their client stopped waiting. Loop states the fate
//! of each, which must fit the log, and the member must not submit the command again.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::entry::{self, Batch, Framed};
use machine::{Command, ConnectionId, ControlCommand, Origin};
use member::message::{Fate, GivenUp, GivenUpAt};
use member::peer::{PeerFrame, PeerMessage};
use replica::EntryKind;

use super::{LastBatches, Witness, forget, is_next};

/// All commands that were given up, in all process runs.
#[derive(Default)]
pub(super) struct GivenUpCommands {
    /// The given-up commands that had a place in a batch, by batch and position.
    batches: BTreeMap<BatchName, BTreeMap<usize, Record>>,
    /// For each given-up connection, the number of the last batch that may hold commands of it, by
    /// member id, boot and connection.
    connections: BTreeMap<(u64, u64, u64), u64>,
    /// How many batches were withdrawn before any leader had them.
    gone_count: usize,
}

/// The member id, the boot and the sequence of a batch.
type BatchName = (u64, u64, u64);

#[derive(Clone, Copy)]
struct Record {
    fate: Fate,
    /// The member's term when it gave the command up. In later terms the member must propose
    /// `Nothing` instead.
    term: u64,
}

/// How many commands were given up, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUpCounts {
    /// Batches withdrawn before any leader had them.
    pub gone: usize,
    /// Commands in batches that were replaced by `Nothing`.
    pub replaced: usize,
    /// The commands in `replaced` that were applied nevertheless, since a leader already had them.
    pub done: usize,
}

impl GivenUpCommands {
    fn has_any_of(&self, origin: Origin) -> bool {
        let (member, boot) = (origin.member.0, origin.boot.0);
        let batches = self.batches.range((member, boot, 0)..=(member, boot, u64::MAX));
        let connections = self.connections.range((member, boot, 0)..=(member, boot, u64::MAX));
        batches.count() + connections.count() > 0
    }

    /// The record of a command that was given up; `None` if it was not.
    ///
    /// # Errors
    /// The command's connection was given up before this batch existed.
    fn record_of(
        &self,
        batch: &Batch<'_>,
        position: usize,
        framed: &Framed<'_>,
    ) -> Result<Option<Record>, String> {
        let (member, boot) = (batch.origin.member.0, batch.origin.boot.0);
        let connection = framed.connection.0;
        if let Some(last) = self.connections.get(&(member, boot, connection))
            && batch.sequence > *last
        {
            return Err(format!(
                "batch {} of {:?} has a command of connection {connection}, which was given up \
                 behind batch {last}",
                batch.sequence, batch.origin
            ));
        }
        let found = self.batches.get(&(member, boot, batch.sequence));
        Ok(found.and_then(|positions| positions.get(&position)).copied())
    }

    /// Calls `check` for each command of a batch that was given up and is not `Nothing`.
    fn check_batch(
        &self,
        batch: &Batch<'_>,
        mut check: impl FnMut(Record) -> Result<(), &'static str>,
    ) -> Result<(), String> {
        let commands = batch.commands(0, usize::MAX).map_err(|error| error.to_string())?;
        for (position, framed) in commands.iter().enumerate() {
            if framed.command == Command::Control(ControlCommand::Nothing) {
                continue;
            }
            let Some(record) = self.record_of(batch, position, framed)? else { continue };
            check(record).map_err(|what| {
                let (sequence, origin) = (batch.sequence, batch.origin);
                format!("command {position} of batch {sequence} of {origin:?} was given up {what}")
            })?;
        }
        Ok(())
    }
}

impl Witness {
    /// Connections of a member were given up, with all their commands. `last_sequence` is the last
    /// batch that has a sequence number; no later batch may hold commands of these connections.
    pub fn on_connections_given_up(
        &mut self,
        origin: Origin,
        connections: &[ConnectionId],
        last_sequence: u64,
    ) {
        let of = |connection: &ConnectionId| (origin.member.0, origin.boot.0, connection.0);
        let given_up = connections.iter().map(|connection| (of(connection), last_sequence));
        self.given_up.connections.extend(given_up);
    }

    /// Some batches of a member were dropped: all their commands were given up before the batches
    /// got a sequence number.
    pub fn on_batches_gone(&mut self, count: usize) {
        self.given_up.gone_count += count;
    }

    /// A member has given up commands. `term` is the member's term.
    pub fn on_given_up(&mut self, origin: Origin, given_up: &[GivenUp], term: u64) {
        for it in given_up {
            let GivenUpAt::Batch { sequence, position, fate } = it.at else { continue };
            let name = (origin.member.0, origin.boot.0, sequence);
            let positions = self.given_up.batches.entry(name).or_default();
            let before = positions.insert(position, Record { fate, term });
            assert!(before.is_none(), "a command is given up once");
        }
    }

    /// Checks frames that a member sends now.
    ///
    /// # Errors
    /// A frame has a command that the member gave up before.
    pub fn check_sent<'a>(
        &self,
        origin: Origin,
        frames: impl IntoIterator<Item = &'a PeerFrame>,
    ) -> Result<(), String> {
        if !self.given_up.has_any_of(origin) {
            return Ok(());
        }
        for frame in frames {
            let decoded = PeerMessage::decode(origin.member, frame.clone());
            let Ok(PeerMessage::Forward(forward)) = decoded else { continue };
            for sent in &forward.batches {
                let batch = entry::decode_batch(&sent.bytes, 0);
                let batch = batch.map_err(|error| error.to_string())?;
                self.given_up.check_batch(&batch, |_| Err("and is sent afterwards"))?;
            }
        }
        Ok(())
    }

    /// Checks an entry that a leader proposes in this term.
    ///
    /// # Errors
    /// The entry has a command that this member gave up in an earlier term.
    pub fn check_proposed(&self, origin: Origin, term: u64, payload: &Bytes) -> Result<(), String> {
        if !self.given_up.has_any_of(origin) {
            return Ok(());
        }
        each_batch(payload, |batch| {
            if batch.origin != origin {
                return Ok(());
            }
            self.given_up.check_batch(batch, |record| match record.term < term {
                true => Err("in an earlier term, and is proposed"),
                false => Ok(()),
            })
        })
    }

    /// Checks the whole log for commands that were given up.
    ///
    /// # Errors
    /// The log has a command that was given up as certainly without effect.
    pub fn check_given_up(&self) -> Result<GivenUpCounts, String> {
        let replaced = self.given_up.batches.values().map(BTreeMap::len).sum();
        let gone = self.given_up.gone_count;
        let mut counts = GivenUpCounts { gone, replaced, done: 0 };
        if !self.looks_inside {
            return Ok(counts);
        }
        let mut last_batches = LastBatches::new();
        for handed in self.entries.values().filter(|it| it.kind == EntryKind::Normal) {
            each_batch(&handed.payload, |batch| {
                if !is_next(&mut last_batches, batch.origin, batch.sequence) {
                    return Ok(());
                }
                let commands = batch.commands(0, usize::MAX).map_err(|error| error.to_string())?;
                commands.iter().for_each(|framed| forget(&mut last_batches, &framed.command));
                self.given_up.check_batch(batch, |record| {
                    counts.done += 1;
                    match record.fate {
                        Fate::Definite => Err("as one that no leader has, and is in the log"),
                        Fate::Unknown => Ok(()),
                    }
                })
            })?;
        }
        Ok(counts)
    }
}

fn each_batch(
    payload: &Bytes,
    mut with: impl FnMut(&Batch<'_>) -> Result<(), String>,
) -> Result<(), String> {
    if payload.is_empty() {
        return Ok(());
    }
    let header = entry::decode_header(payload).map_err(|error| error.to_string())?;
    let mut offset = entry::HEADER_BYTES;
    for _ in 0..header.batch_count {
        let batch = entry::decode_batch(payload, offset).map_err(|error| error.to_string())?;
        offset = batch.end;
        with(&batch)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
