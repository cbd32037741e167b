//! The commands that change the ensemble itself.

use core::ops::RangeInclusive;

use crate::codec::{DecodeError, Reader, Write};
use crate::control::list_change::{ChangeId, ChangeRequest, LeaderRefused, put_urls};
use crate::control::servers::{ServerList, put_text, text, urls};
use crate::ids::MemberId;
use crate::level::{Level, StatedLevel};
#[cfg(doc)]
use crate::limits::GUESTS_MAX;
use crate::limits::VERSION_BYTES_MAX;

/// A replicated change of the ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Replace the state by the state of an image. Every member must have prepared the image before
    /// it applies this command.
    InstallImage {
        /// Hash of the snapshot's file ([`crate::machine::PreparedImage`]).
        hash: u128,
    },
    /// Record which server of the configuration a member is.
    Register {
        /// The member.
        member: MemberId,
        /// The server's number.
        server: u64,
    },
    /// Forget a member that is gone for good: its last batch, and which server it was.
    Forget {
        /// The member to forget.
        member: MemberId,
    },
    /// Change nothing. It replaces a command whose client gave up, so that the batch keeps its
    /// sequence and the later commands keep their positions.
    Nothing,
    /// Raise the level, which allows the features of that level. The leader proposes it once every
    /// member has reported that it knows the level. Changes nothing if the level is as high
    /// already.
    Raise(StatedLevel),
    /// Replace the list of servers. A server that the old list has too keeps its id.
    /// Does nothing once a change of the list has finished, or while one is open.
    SetServers(ServerList),
    /// A client asks for a change of the list of servers. It is the only command of the ensemble
    /// that clients send, and the only one that may be refused.
    Request(ChangeRequest),
    /// The leader accepts the open change: from now on it is inevitable, unless it is given up
    /// before the Raft membership begins to move.
    Accept(ChangeId),
    /// The leader refuses the open change. Does nothing behind an accept.
    Refuse { change: ChangeId, reason: LeaderRefused },
    /// The Raft membership follows the next list: it becomes the list.
    Finish(ChangeId),
    /// A member is gone for good. It is forgotten, and must end if it comes back.
    Retire(MemberId),
    /// The leader gives up the open change, accepted or not: nothing has moved yet.
    GiveUp(ChangeId),
    /// A server that is not on the list has come: it gets the log without a vote, so that it has
    /// the data before a client lists it. Does nothing if there are [`GUESTS_MAX`] such servers, or
    /// if the list has the number.
    Admit {
        /// The member.
        member: MemberId,
        /// The server's number.
        server: u64,
        /// Where the other servers reach it.
        peer_urls: Vec<String>,
    },
    /// A server has told its name and its clients' URLs. They become part of its record in a list
    /// that was changed while the ensemble ran; before that, the leader's configuration has them.
    Describe {
        /// The server's number.
        server: u64,
        /// Its name, as etcd's clients see it.
        name: String,
        /// The URLs where etcd's clients reach it.
        client_urls: Vec<String>,
    },
}

/// The first bytes of the commands that the first format had.
const KIND_INSTALL_IMAGE: u8 = 9;
const KIND_REGISTER: u8 = 10;
const KIND_FORGET: u8 = 11;

/// The range of the first bytes above.
pub(crate) const KINDS: RangeInclusive<u8> = KIND_INSTALL_IMAGE..=KIND_FORGET;

/// Numbers of the newer commands; each follows the number of the space.
pub(crate) const KIND_NOTHING: u8 = 1;
const KIND_RAISE: u8 = 2;
const KIND_SET_SERVERS: u8 = 3;
pub(crate) const KIND_REQUEST: u8 = 4;
const KIND_ACCEPT: u8 = 5;
const KIND_REFUSE: u8 = 6;
const KIND_FINISH: u8 = 7;
const KIND_RETIRE: u8 = 8;
const KIND_GIVE_UP: u8 = 9;
const KIND_DESCRIBE: u8 = 10;
const KIND_ADMIT: u8 = 11;

impl Command {
    /// Writes the command; `docs/formats.md` gives the bytes. `in_space` holds the first bytes of
    /// the commands that name their space.
    pub(crate) fn encode(&self, in_space: [u8; 2], out: &mut Vec<u8>) {
        let mut put_kind_in_space = |kind| out.extend_from_slice(&[in_space[0], in_space[1], kind]);
        match self {
            Command::InstallImage { hash } => {
                out.put_u8(KIND_INSTALL_IMAGE);
                out.put_u128(*hash);
            }
            Command::Register { member, server } => {
                out.put_u8(KIND_REGISTER);
                out.put_u64(member.0);
                out.put_u64(*server);
            }
            Command::Forget { member } => {
                out.put_u8(KIND_FORGET);
                out.put_u64(member.0);
            }
            Command::Nothing => put_kind_in_space(KIND_NOTHING),
            Command::Raise(stated) => {
                put_kind_in_space(KIND_RAISE);
                encode_stated(stated, out);
            }
            Command::SetServers(list) => {
                put_kind_in_space(KIND_SET_SERVERS);
                list.encode(out);
            }
            Command::Request(request) => {
                put_kind_in_space(KIND_REQUEST);
                request.encode(out);
            }
            Command::Accept(change) => {
                put_kind_in_space(KIND_ACCEPT);
                out.put_u64(change.0);
            }
            Command::Refuse { change, reason } => {
                put_kind_in_space(KIND_REFUSE);
                out.put_u64(change.0);
                out.put_u8(*reason as u8);
            }
            Command::Finish(change) => {
                put_kind_in_space(KIND_FINISH);
                out.put_u64(change.0);
            }
            Command::Retire(member) => {
                put_kind_in_space(KIND_RETIRE);
                out.put_u64(member.0);
            }
            Command::GiveUp(change) => {
                put_kind_in_space(KIND_GIVE_UP);
                out.put_u64(change.0);
            }
            Command::Admit { member, server, peer_urls } => {
                put_kind_in_space(KIND_ADMIT);
                out.put_u64(member.0);
                out.put_u64(*server);
                put_urls(peer_urls, out);
            }
            Command::Describe { server, name, client_urls } => {
                put_kind_in_space(KIND_DESCRIBE);
                out.put_u64(*server);
                put_text(out, name);
                put_urls(client_urls, out);
            }
        }
    }

    /// Reads the rest of a command whose first byte was `kind`.
    pub(crate) fn decode(kind: u8, reader: &mut Reader<'_>) -> Result<Command, DecodeError> {
        Ok(match kind {
            KIND_INSTALL_IMAGE => Command::InstallImage { hash: reader.u128()? },
            KIND_REGISTER => {
                Command::Register { member: MemberId(reader.u64()?), server: reader.u64()? }
            }
            KIND_FORGET => Command::Forget { member: MemberId(reader.u64()?) },
            _ => return Err(reader.bad("command", u64::from(kind))),
        })
    }

    /// Reads the rest of a command, behind the number of the space.
    pub(crate) fn decode_in_space(reader: &mut Reader<'_>) -> Result<Command, DecodeError> {
        let kind = reader.u8()?;
        Ok(match kind {
            KIND_NOTHING => Command::Nothing,
            KIND_RAISE => Command::Raise(decode_stated(reader)?),
            KIND_SET_SERVERS => Command::SetServers(ServerList::decode(reader)?),
            KIND_REQUEST => Command::Request(ChangeRequest::decode(reader)?),
            KIND_ACCEPT => Command::Accept(ChangeId(reader.u64()?)),
            KIND_REFUSE => Command::Refuse {
                change: ChangeId(reader.u64()?),
                reason: LeaderRefused::decode(reader)?,
            },
            KIND_FINISH => Command::Finish(ChangeId(reader.u64()?)),
            KIND_RETIRE => Command::Retire(MemberId(reader.u64()?)),
            KIND_GIVE_UP => Command::GiveUp(ChangeId(reader.u64()?)),
            KIND_ADMIT => Command::Admit {
                member: MemberId(reader.u64()?),
                server: reader.u64()?,
                peer_urls: urls(reader)?,
            },
            KIND_DESCRIBE => Command::Describe {
                server: reader.u64()?,
                name: text(reader)?,
                client_urls: urls(reader)?,
            },
            _ => return Err(reader.bad("command of the ensemble", u64::from(kind))),
        })
    }

    /// The lowest level that allows this command.
    pub(crate) fn level(&self) -> Level {
        match self {
            Command::Raise(stated) => stated.level,
            Command::InstallImage { .. }
            | Command::Register { .. }
            | Command::Forget { .. }
            | Command::Nothing
            | Command::SetServers(_) => Level::FIRST,
            Command::Request(_)
            | Command::Accept(_)
            | Command::Refuse { .. }
            | Command::Finish(_)
            | Command::Retire(_)
            | Command::GiveUp(_)
            | Command::Describe { .. }
            | Command::Admit { .. } => Level::MEMBERS,
        }
    }
}

/// Reads a level, which may be one that this build does not know.
pub(crate) fn decode_level(reader: &mut Reader<'_>) -> Result<Level, DecodeError> {
    let number = reader.u16()?;
    Level::from_number(number).ok_or_else(|| reader.bad("level", u64::from(number)))
}

pub(crate) fn encode_stated(stated: &StatedLevel, out: &mut Vec<u8>) {
    out.put_u16(stated.level.number());
    out.put_bytes(stated.version.as_bytes());
}

pub(crate) fn decode_stated(reader: &mut Reader<'_>) -> Result<StatedLevel, DecodeError> {
    let level = decode_level(reader)?;
    let version = reader.text()?;
    if version.len() > VERSION_BYTES_MAX {
        return Err(reader.bad("bytes of a version", version.len() as u64));
    }
    Ok(StatedLevel { level, version: version.to_string() })
}
