//! Replaces commands whose clients gave up by `Nothing`, a command without effect.
//!
//! Members identify a batch by its sequence number. The member that sent the batch finds the client
//! that waits for a reply by the position of the command in the batch. So a replacement changes
//! neither: the command keeps its position, its connection and its identity list, and loses only
//! its body. `Nothing` is the shortest command, so the batch never grows.

use bytes::Bytes;

use super::{BATCH_HEADER_BYTES, BatchHeader, UnstampedBatch, check_batch, patch_length, put_at};
use crate::codec::{Reader, Write};
use crate::command::Command;
use crate::control::Command as ControlCommand;
use crate::ids::ConnectionId;
use crate::level::Level;

/// Bytes of a command between its length and its body: the index of its identity list, and its
/// connection.
const COMMAND_HEADER_BYTES: usize = 10;

/// The result of [`replace_by_nothing`].
#[derive(Debug)]
pub struct Replaced {
    /// The header of the batch after the replacement.
    pub header: BatchHeader,
    /// The whole batch, after the replacement.
    pub bytes: Bytes,
    /// The position and the connection of each replaced command, by position ascending.
    pub places: Vec<(usize, ConnectionId)>,
}

impl UnstampedBatch {
    /// Replaces each command for which `is_given_up` holds, given its position and connection.
    pub fn replace_by_nothing(&mut self, is_given_up: impl FnMut(usize, ConnectionId) -> bool) {
        let places = chosen(&self.bytes, is_given_up);
        if !places.is_empty() {
            self.bytes = with_nothing_at(&self.bytes, &places);
            self.level = level_of(&self.bytes);
        }
    }
}

/// Replaces each command of a stamped batch for which `is_given_up` holds, given its position and
/// connection. `None` if there is nothing to replace: commands that are `Nothing` already do not
/// count. Panics if the batch does not decode: this member has built or checked it.
pub fn replace_by_nothing(
    batch: &Bytes,
    is_given_up: impl FnMut(usize, ConnectionId) -> bool,
) -> Option<Replaced> {
    let places = chosen(batch, is_given_up);
    if places.is_empty() {
        return None;
    }
    let bytes = Bytes::from(with_nothing_at(batch, &places));
    Some(Replaced { header: header_of(&bytes), bytes, places })
}

/// The position and connection of each command to replace.
fn chosen(
    batch: &[u8],
    mut is_given_up: impl FnMut(usize, ConnectionId) -> bool,
) -> Vec<(usize, ConnectionId)> {
    let nothing = nothing();
    let place = |(position, command): (usize, &[u8])| {
        let (header, body) = command.split_at(COMMAND_HEADER_BYTES);
        let connection = header.last_chunk().expect("a connection has 8 bytes");
        let connection = ConnectionId(u64::from_le_bytes(*connection));
        (body != nothing && is_given_up(position, connection)).then_some((position, connection))
    };
    commands_of(batch).enumerate().filter_map(place).collect()
}

/// A copy of the batch, with `Nothing` at these positions.
fn with_nothing_at(batch: &[u8], places: &[(usize, ConnectionId)]) -> Vec<u8> {
    let nothing = nothing();
    let replaced = with_bodies(batch, |position, _| {
        let is_replaced = places.binary_search_by_key(&position, |(place, _)| *place).is_ok();
        is_replaced.then(|| nothing.clone())
    });
    assert!(replaced.len() <= batch.len(), "Nothing is the shortest command");
    replaced
}

/// A copy of a batch, with new bodies for the commands for which `replace` returns one. `replace`
/// gets the position and the body of each command. Panics if the batch does not decode.
pub(super) fn with_bodies(
    batch: &[u8],
    mut replace: impl FnMut(usize, &[u8]) -> Option<Vec<u8>>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(batch.len());
    out.extend_from_slice(&batch[..BATCH_HEADER_BYTES]);
    let mut command_bytes = 0;
    for (position, command) in commands_of(batch).enumerate() {
        command_bytes += 4 + command.len();
        let (header, body) = command.split_at(COMMAND_HEADER_BYTES);
        let start = out.len();
        out.put_u32(0);
        out.extend_from_slice(header);
        out.extend_from_slice(replace(position, body).as_deref().unwrap_or(body));
        patch_length(&mut out, start);
    }
    let command_bytes_now = (out.len() - BATCH_HEADER_BYTES) as u32;
    put_at(&mut out, 32, &command_bytes_now.to_le_bytes());
    out.extend_from_slice(&batch[BATCH_HEADER_BYTES + command_bytes..]);
    patch_length(&mut out, 0);
    out
}

/// The commands of a batch, each without its leading length.
fn commands_of(batch: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut reader = Reader::new(batch);
    let commands = reader.take(BATCH_HEADER_BYTES - 4).and_then(|_| reader.bytes());
    let mut reader = Reader::new(commands.expect(OWN));
    core::iter::from_fn(move || (reader.remaining() > 0).then(|| reader.bytes().expect(OWN)))
}

fn header_of(batch: &[u8]) -> BatchHeader {
    check_batch(batch, 0).expect(OWN).0
}

fn level_of(batch: &[u8]) -> Level {
    header_of(batch).level
}

fn nothing() -> Vec<u8> {
    let mut bytes = Vec::new();
    Command::Control(ControlCommand::Nothing).encode(&mut bytes);
    bytes
}

/// Panic text: why a batch always decodes here.
const OWN: &str = "this member built the batch, or has checked it";

#[cfg(test)]
mod tests;
