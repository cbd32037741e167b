//! Commands, the replicated writes, and their bytes in the log. Each command belongs to one space
//! (ensemble, ZooKeeper, etcd, etcd v2), whose own module defines it.
//!
//! A decoded command borrows its text and data from the entry.

use crate::codec::{DecodeError, Reader};
use crate::control::command::{self as control, Command as ControlCommand};
use crate::etcd::command::Command as EtcdCommand;
use crate::etcd_v2::command::Command as EtcdV2Command;
use crate::image::format::Space;
use crate::level::Level;
use crate::zk::command::{self as zk, Command as ZkCommand};

/// The first byte of the commands that were added after the first format. Behind it are the number
/// of the space, as a `u8`, and the command in the space's own form. A command of the first format
/// begins with the number of its own kind, which is lower.
const KIND_OF_SPACE: u8 = 12;

/// The first bytes of the ensemble's commands that were added after the first format.
const IN_CONTROL: [u8; 2] = [KIND_OF_SPACE, Space::Control.number()];

/// The first bytes of etcd's commands.
const IN_ETCD: [u8; 2] = [KIND_OF_SPACE, Space::Etcd.number()];

/// The first bytes of the commands of etcd v2.
const IN_ETCD_V2: [u8; 2] = [KIND_OF_SPACE, Space::EtcdV2.number()];

/// A replicated write. The batch that carries the command also names the connection that sent it
/// and that connection's identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// A command of the ensemble.
    Control(ControlCommand),
    /// A command of ZooKeeper's tree and sessions.
    Zk(ZkCommand<'a>),
    /// A command of etcd's keys.
    Etcd(EtcdCommand<'a>),
    /// A command of etcd v2's tree.
    EtcdV2(EtcdV2Command<'a>),
}

impl Command<'_> {
    /// How many znodes the command would create and how many it would delete if it succeeds, in
    /// this order. When a member starts, it adds these numbers up over the commands to replay, and
    /// reserves memory for the znodes before it applies the commands.
    pub fn creates_and_deletes(&self) -> [u64; 2] {
        match self {
            Command::Zk(command) => command.creates_and_deletes(),
            Command::Control(_) | Command::Etcd(_) | Command::EtcdV2(_) => [0; 2],
        }
    }

    /// Writes the command; `docs/formats.md` gives the bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Command::Control(command) => command.encode(IN_CONTROL, out),
            Command::Zk(command) => command.encode(out),
            Command::Etcd(command) => command.encode(IN_ETCD, out),
            Command::EtcdV2(command) => command.encode(IN_ETCD_V2, out),
        }
    }

    /// Reads one command. The command must fill `bytes`: bytes left over are an error.
    ///
    /// # Errors
    /// The command is of no known kind, or breaks the format.
    pub fn decode(bytes: &[u8]) -> Result<Command<'_>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        let command = if zk::KINDS.contains(&kind) {
            Command::Zk(ZkCommand::decode(kind, &mut reader)?)
        } else if control::KINDS.contains(&kind) {
            Command::Control(ControlCommand::decode(kind, &mut reader)?)
        } else if kind == KIND_OF_SPACE {
            match reader.u8()? {
                space if space == Space::Control.number() => {
                    Command::Control(ControlCommand::decode_in_space(&mut reader)?)
                }
                space if space == Space::Etcd.number() => {
                    Command::Etcd(EtcdCommand::decode(&mut reader)?)
                }
                space if space == Space::EtcdV2.number() => {
                    Command::EtcdV2(EtcdV2Command::decode(&mut reader)?)
                }
                // ZooKeeper's commands never come here: each has a kind of its own. Another number
                // is a space of a later version.
                space => return Err(reader.bad("space of a command", u64::from(space))),
            }
        } else {
            return Err(reader.bad("command", u64::from(kind)));
        };
        reader.finish()?;
        Ok(command)
    }

    /// The lowest level that allows this command. A member that knows only lower levels cannot
    /// apply the command.
    pub fn level(&self) -> Level {
        match self {
            Command::Control(command) => command.level(),
            Command::Zk(ZkCommand::Configure(settings)) => settings.level(),
            Command::Zk(_) => Level::FIRST,
            Command::Etcd(_) => Level::ETCD,
            Command::EtcdV2(_) => Level::ETCD_V2,
        }
    }
}

/// Whether these bytes encode a command of the ensemble that only a leader makes. `Nothing`
/// ([`is_nothing`]) and a request for a change of the list of servers are for every member to make.
pub(crate) fn is_of_ensemble(bytes: &[u8]) -> bool {
    match bytes {
        [KIND_OF_SPACE, space, control::KIND_REQUEST, ..] if *space == Space::Control.number() => {
            false
        }
        [KIND_OF_SPACE, space, ..] => *space == Space::Control.number(),
        [kind, ..] => control::KINDS.contains(kind),
        [] => false,
    }
}

/// Whether these bytes encode `Nothing`, the command that replaces one whose client gave up.
pub(crate) fn is_nothing(bytes: &[u8]) -> bool {
    bytes == [IN_CONTROL[0], IN_CONTROL[1], control::KIND_NOTHING]
}

#[cfg(test)]
mod tests;
