//! Holds a command that is applied in part, between two of its steps. The command is decoded once,
//! however many steps it takes: a transaction of a thousand operations may take a million steps.

use bytes::Bytes;
use machine::entry::{self, Batch, Framed};
use machine::{ApplyStep, Changes, Machine, Reply, Stamp};
use replica::Entry;
use self_cell::self_cell;

/// Why decoding cannot fail here; the text of the panic.
const DECODED: &str = "the command was decoded for its first step";

/// A command and its batch, decoded from the bytes of an entry.
struct Decoded<'a> {
    batch: Batch<'a>,
    framed: Framed<'a>,
}

self_cell! {
    struct Held {
        owner: Bytes,
        #[covariant]
        dependent: Decoded,
    }
}

/// A command between two of its steps.
pub(super) struct Amid {
    held: Held,
    time_ms: i64,
}

impl Amid {
    /// The command of `entry` at `command_offset` in the batch that begins at `batch_offset`.
    pub fn new(entry: &Entry, time_ms: i64, batch_offset: usize, command_offset: usize) -> Amid {
        let held = Held::new(entry.payload.clone(), |payload| {
            let batch = entry::decode_batch(payload, batch_offset).expect(DECODED);
            let framed = batch.command(command_offset).expect(DECODED).expect(DECODED);
            Decoded { batch, framed }
        });
        Amid { held, time_ms }
    }

    /// The command.
    pub fn framed(&self) -> &Framed<'_> {
        &self.held.borrow_dependent().framed
    }

    /// Applies the next part of the command. `None` if the command is not done yet.
    pub fn step(
        &self,
        machine: &mut Machine,
        step: ApplyStep,
        changes: &mut Changes,
    ) -> Option<Reply> {
        let Decoded { batch, framed } = self.held.borrow_dependent();
        let stamp = Stamp {
            time_ms: self.time_ms,
            origin: batch.origin,
            connection: framed.connection,
            identities: &batch.identities[framed.identity_list],
        };
        machine.apply_step(&stamp, &framed.command, step, changes)
    }
}
