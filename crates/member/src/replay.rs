//! At a start, applies the committed entries of a standalone server's log before Loop and Apply
//! begin (the *replay*). This is faster than Apply: no client waits for an answer or watches, and
//! no other member compares digests. So the digest is computed once, at the end, and the next
//! commands are decoded while earlier ones are applied.
//!
//! The replay applies what Apply would apply, in the same order. It ends at the first entry that
//! needs a decision of Loop or Apply: one that is not known to be committed, changes the
//! membership, installs a snapshot, forgets a member, holds a batch of this member from this start
//! or a later one, or cannot be decoded. Apply then takes that entry and all behind it.

use machine::codec::{DecodeError, Reader};
use machine::entry::{self, Batch, EntryHeader, Framed};
use machine::together::Together;
use machine::{ApplyStep, Changes, Command, ControlCommand, LogIndex, Machine, Origin, Stamp};
use replica::{Entry, EntryKind, LogMemory, Restored};

use crate::limits::{REPLAY_LOOK_AHEAD_COMMANDS, REPLAY_STEP_BYTES, REPLAY_WINDOW_BYTES};

/// Applies the committed entries of a log, if this member is the only voter. Does nothing
/// otherwise.
pub(crate) fn replay(
    machine: &mut Machine,
    restored: &mut Restored,
    origin: Origin,
    together: Together,
) {
    let is_alone = restored.membership.voters == [origin.member.0]
        && restored.membership.voters_outgoing.is_empty();
    if !is_alone {
        return;
    }
    machine.defer_digest();
    let mut has_ended = false;
    while !has_ended {
        let window = window(restored);
        has_ended = window.is_empty();
        let mut steps = Steps { entries: window, origin, has_ended };
        let mut decoded = steps.next_step();
        while !decoded.is_empty() {
            let mut step = core::mem::take(&mut decoded).into_iter();
            let machine = &mut *machine;
            together(&mut || decoded = steps.next_step(), &mut || {
                step.by_ref().for_each(|entry| apply(machine, &entry));
            });
        }
        has_ended |= steps.has_ended;
        restored.applied_index = machine.index().0;
        restored.leave_out(LogMemory::default().bytes_max);
    }
    machine.settle_digest(together);
}

/// The next committed entries to apply, about [`REPLAY_WINDOW_BYTES`] of them; empty at the end.
fn window(restored: &Restored) -> &[Entry] {
    let commit = restored.hard_state.commit;
    let committed = restored.entries.partition_point(|entry| entry.index <= commit);
    let rest = &restored.entries[restored.applied_entries().len()..committed];
    let mut bytes = 0;
    let is_within = |entry: &&Entry| {
        let was_within = bytes < REPLAY_WINDOW_BYTES;
        bytes += entry.payload.len();
        was_within
    };
    &rest[..rest.iter().take_while(is_within).count()]
}

/// The remaining entries of a window, and whether an entry was met at which the replay ends.
struct Steps<'e> {
    entries: &'e [Entry],
    origin: Origin,
    has_ended: bool,
}

/// An entry of the log with its commands decoded.
pub(crate) struct DecodedEntry<'e> {
    index: u64,
    /// The header; `None` if the entry holds no commands.
    header: Option<EntryHeader>,
    batches: Vec<(Batch<'e>, Vec<Framed<'e>>)>,
}

impl<'e> DecodedEntry<'e> {
    /// Decodes the commands of an entry. An empty payload has none.
    pub fn decode(index: u64, payload: &'e [u8]) -> Result<DecodedEntry<'e>, DecodeError> {
        if payload.is_empty() {
            return Ok(DecodedEntry { index, header: None, batches: Vec::new() });
        }
        let header = entry::decode_header(payload)?;
        let mut batches = Vec::new();
        let mut offset = entry::HEADER_BYTES;
        for _ in 0..header.batch_count {
            let batch = entry::decode_batch(payload, offset)?;
            let commands = batch.commands(0, usize::MAX)?;
            offset = batch.end;
            batches.push((batch, commands));
        }
        Reader::new(&payload[offset..]).finish()?;
        Ok(DecodedEntry { index, header: Some(header), batches })
    }

    /// All commands of the entry, in order.
    pub fn commands(&self) -> impl Iterator<Item = &Command<'e>> {
        self.batches.iter().flat_map(|(_, commands)| commands.iter().map(|it| &it.command))
    }
}

impl<'e> Steps<'e> {
    /// Decodes the next entries, about [`REPLAY_STEP_BYTES`] of them. Empty at the end.
    fn next_step(&mut self) -> Vec<DecodedEntry<'e>> {
        let mut step = Vec::new();
        let mut bytes = 0;
        while bytes < REPLAY_STEP_BYTES
            && !self.has_ended
            && let Some((entry, rest)) = self.entries.split_first()
        {
            match self.decode(entry) {
                Ok(Some(decoded)) => step.push(decoded),
                Ok(None) | Err(_) => self.has_ended = true,
            }
            bytes += entry.payload.len();
            self.entries = rest;
        }
        step
    }

    /// Decodes an entry. `None` if Loop or Apply must decide about it.
    fn decode(&self, entry: &'e Entry) -> Result<Option<DecodedEntry<'e>>, DecodeError> {
        if entry.kind != EntryKind::Normal {
            return Ok(None);
        }
        let decoded = DecodedEntry::decode(entry.index, &entry.payload)?;
        let is_of_unknown_start =
            decoded.batches.iter().any(|(batch, _)| self.is_of_unknown_start(batch.origin));
        let needs_a_decision = is_of_unknown_start || decoded.commands().any(needs_a_decision);
        Ok((!needs_a_decision).then_some(decoded))
    }

    /// Whether a batch of this member comes from this start or a later one. This start has handed
    /// over nothing yet, so such a batch shows that the directory is an old copy.
    fn is_of_unknown_start(&self, of: Origin) -> bool {
        of.member == self.origin.member && of.boot >= self.origin.boot
    }
}

fn needs_a_decision(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::Control(ControlCommand::Forget { .. })
            | Command::Control(ControlCommand::InstallImage { .. })
    )
}

/// Applies an entry like Apply, but without waiters and watches.
pub(crate) fn apply(machine: &mut Machine, entry: &DecodedEntry<'_>) {
    let mut changes = Changes::for_nobody();
    for (batch, commands) in &entry.batches {
        if !machine.begin_batch(batch.origin, batch.sequence) {
            continue;
        }
        let header = entry.header.as_ref().expect("an entry with batches has a header");
        for commands in commands.chunks(REPLAY_LOOK_AHEAD_COMMANDS) {
            machine.look_ahead(commands);
            for framed in commands {
                let stamp = Stamp {
                    time_ms: header.time_ms,
                    origin: batch.origin,
                    connection: framed.connection,
                    identities: &batch.identities[framed.identity_list],
                };
                let whole = ApplyStep { keys_max: u64::MAX, is_taken: false };
                let reply = machine.apply_step(&stamp, &framed.command, whole, &mut changes);
                assert!(reply.is_some(), "a step without a bound is whole");
            }
        }
    }
    machine.finish_entry(LogIndex(entry.index));
}

#[cfg(test)]
mod tests;
