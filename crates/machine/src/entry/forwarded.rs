//! Decides which commands a member may forward to the leader: only those of its clients.
//!
//! Only a leader makes commands of the ensemble, and commands of connection 0, which need no
//! permission. A member that lost the leadership replaces such commands in its batches by `Nothing`
//! before it forwards them. `Nothing` is allowed from any sender: it changes no state.

use super::BATCH_HEADER_BYTES;
use crate::codec::{DecodeError, Reader};
use crate::command::{is_nothing, is_of_ensemble};

/// Whether a stamped batch has only commands that a member may forward. Looks only at the first
/// bytes of each command.
pub fn may_be_forwarded(batch: &[u8]) -> bool {
    only_of_clients(batch).unwrap_or(false)
}

fn only_of_clients(batch: &[u8]) -> Result<bool, DecodeError> {
    let mut reader = Reader::new(batch);
    reader.take(BATCH_HEADER_BYTES - 4)?;
    let mut commands = Reader::new(reader.bytes()?);
    while commands.remaining() > 0 {
        let mut command = Reader::new(commands.bytes()?);
        let (_identity_list, connection) = (command.u16()?, command.u64()?);
        let body = command.take(command.remaining())?;
        if !is_nothing(body) && (connection == 0 || is_of_ensemble(body)) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
