//! Batches of another member that no entry can hold. A version that checked the sizes of requests,
//! and not those of commands, makes some; it hands such a batch over to each next leader until one
//! answers.
//!
//! The batch keeps its origin, its sequence, its connections and the number of its commands: the
//! member that handed it over finds a waiter for each. A command that is too large is replaced by
//! one that is refused, whatever the state, and changes nothing.

use bytes::Bytes;

use super::nothing::with_bodies;
use super::{BatchHeader, check_batch};
use crate::command::Command;
use crate::etcd::command::Command as EtcdCommand;
use crate::limits::{BATCH_ALONE_BYTES_MAX, BATCH_BYTES_MAX};
use crate::zk::command::{Command as ZkCommand, Op};

/// Replaces the commands of a stamped batch that are too large. `None` if an entry can hold the
/// batch, or cannot even so. The caller has checked that the batch decodes.
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

/// The body of a command of the same space that is refused, whatever the state. None for a space
/// whose commands are never that large.
fn refused(body: &[u8]) -> Option<Vec<u8>> {
    let refused = match Command::decode(body).ok()? {
        Command::Zk(ZkCommand::Write { session, .. } | ZkCommand::Multi { session, .. }) => {
            Command::Zk(ZkCommand::Write { session, op: Op::Malformed })
        }
        // No store comes to that revision.
        Command::Etcd(_) => Command::Etcd(EtcdCommand::Compact { revision: i64::MAX }),
        Command::Zk(_) | Command::EtcdV2(_) | Command::Control(_) => return None,
    };
    let mut bytes = Vec::new();
    refused.encode(&mut bytes);
    Some(bytes)
}

#[cfg(test)]
mod tests;
