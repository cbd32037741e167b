//! Replaces commands that are too large, in batches that fit no entry.
//!
//! Such a batch can come from a member that runs another version: one that checks the sizes of
//! requests, but not the sizes of the commands made from them. That member would send its batch to
//! each new leader again until it gets the replies. So a leader puts a small command in place of
//! each command that is too large. Every state refuses the small command, which then changes
//! nothing. The batch keeps its origin, its sequence number, its connections and its number of
//! commands, so that the other member finds the reply for each of its waiting clients.

use bytes::Bytes;

use super::nothing::with_bodies;
use super::{BatchHeader, check_batch};
use crate::command::Command;
use crate::etcd::command::Command as EtcdCommand;
use crate::limits::{BATCH_ALONE_BYTES_MAX, BATCH_BYTES_MAX};
use crate::zk::command::{Command as ZkCommand, Op};

/// Replaces the commands of a stamped batch that are larger than [`BATCH_BYTES_MAX`]. `None` if an
/// entry can hold the batch as it is, or not even after the replacement. The caller has checked
/// that the batch decodes.
pub fn refuse_oversize(batch: &Bytes) -> Option<(BatchHeader, Bytes)> {
    if batch.len() <= BATCH_ALONE_BYTES_MAX {
        return None;
    }
    let replaced = with_bodies(batch, |_, body| match body.len() > BATCH_BYTES_MAX {
        true => refused(body),
        false => None,
    });
    let (header, _) = check_batch(&replaced, 0).ok()?;
    (replaced.len() <= BATCH_ALONE_BYTES_MAX).then(|| (header, replaced.into()))
}

/// The body of a command of the same space that is refused in every state. `None` for commands that
/// are never that large.
fn refused(body: &[u8]) -> Option<Vec<u8>> {
    let refused = match Command::decode(body).ok()? {
        Command::Zk(ZkCommand::Write { session, .. } | ZkCommand::Multi { session, .. }) => {
            Command::Zk(ZkCommand::Write { session, op: Op::Malformed })
        }
        // Refused: no store reaches this revision.
        Command::Etcd(_) => Command::Etcd(EtcdCommand::Compact { revision: i64::MAX }),
        Command::Zk(_) | Command::EtcdV2(_) | Command::Control(_) => return None,
    };
    let mut bytes = Vec::new();
    refused.encode(&mut bytes);
    Some(bytes)
}

#[cfg(test)]
mod tests;
