//! Commands that were given up. The witness compares their fates, as Loop tells them, with the log
//! and with what the member hands over from then on.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::entry::{self, Batch, Framed};
use machine::{Command, ConnectionId, ControlCommand, Origin};
use member::message::{Fate, GivenUp, GivenUpAt};
use member::peer::{PeerFrame, PeerMessage};
use replica::EntryKind;

use super::{LastBatches, Witness, forget, is_next};

/// All commands that were given up, in all lives of the processes.
#[derive(Default)]
pub(super) struct GivenUpCommands {
    /// The commands of batches, by their positions.
    batches: BTreeMap<BatchName, BTreeMap<usize, Record>>,
    /// The last sequence that a connection which was given up may have commands in, by member, boot
    /// and connection.
    connections: BTreeMap<(u64, u64, u64), u64>,
    /// The number of batches that were withdrawn before any leader had them.
    gone_count: usize,
}

/// The member, the boot and the sequence of a batch.
type BatchName = (u64, u64, u64);

#[derive(Clone, Copy)]
struct Record {
    fate: Fate,
    /// The term of the member when it gave the command up. In a later term it proposes `Nothing` in
    /// the command's place.
    term: u64,
}

/// How often commands were given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUpCounts {
    /// The number of batches that were withdrawn before any leader had them.
    pub gone: usize,
    /// The number of commands of batches that `Nothing` took the place of.
    pub replaced: usize,
    /// The number of such commands that were applied all the same, since a leader had them.
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
    /// Its connection was given up before it got a place in a batch.
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

    /// Runs `check` for each command of a batch that was given up and is not `Nothing`.
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
    /// Connections of a member were given up; `last_sequence` is the last batch that has a
    /// sequence.
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

    /// Batches of a member are gone, since all their commands were given up before they got a
    /// sequence.
    pub fn on_batches_gone(&mut self, count: usize) {
        self.given_up.gone_count += count;
    }

    /// A member in this term has given up commands.
    pub fn on_given_up(&mut self, origin: Origin, given_up: &[GivenUp], term: u64) {
        for it in given_up {
            let GivenUpAt::Batch { sequence, position, fate } = it.at else { continue };
            let name = (origin.member.0, origin.boot.0, sequence);
            let positions = self.given_up.batches.entry(name).or_default();
            let before = positions.insert(position, Record { fate, term });
            assert!(before.is_none(), "a command is given up once");
        }
    }

    /// A member sends these frames, after all that it has given up so far.
    ///
    /// # Errors
    /// A frame has a command that was given up.
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

    /// A member that leads in this term proposes an entry.
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

    /// Compares the whole log with the commands that were given up.
    ///
    /// # Errors
    /// The log has a command that was never to be in it.
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
