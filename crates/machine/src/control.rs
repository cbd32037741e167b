//! What belongs to the ensemble, whatever its clients speak: its members, the servers that they
//! are, and the batches that each has handed over.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Write};
use crate::ids::{BootId, MemberId, Origin};
use crate::limits::{ORIGINS_MAX, SERVERS_MAX};

/// A replicated change of the ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Replace the state by the state of an image. Each member has prepared the image before.
    InstallImage {
        /// Hash of the snapshot's file ([`crate::machine::PreparedImage`]).
        hash: u128,
    },
    /// Note which server of the configuration a member is.
    Register {
        /// The member.
        member: MemberId,
        /// The server's number.
        server: u64,
    },
    /// The member is gone for good, and so is what was kept of it.
    Forget {
        /// Which.
        member: MemberId,
    },
}

/// What a command of the ensemble changed.
#[derive(Clone, Debug)]
pub enum Change {
    /// Which server of the configuration each member is.
    Registered(Arc<BTreeMap<MemberId, u64>>),
}

const KIND_INSTALL_IMAGE: u8 = 9;
const KIND_REGISTER: u8 = 10;
const KIND_FORGET: u8 = 11;

/// The kinds of these commands in the log.
pub(crate) const KINDS: RangeInclusive<u8> = KIND_INSTALL_IMAGE..=KIND_FORGET;

impl Command {
    /// Writes the command; `docs/formats.md` gives the bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
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
        }
    }

    /// Reads what follows on the kind of a command.
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
}

/// The replicated state of the ensemble.
#[derive(Debug, Default)]
pub struct Control {
    /// The last batch applied of each member, and of which boot.
    origins: BTreeMap<MemberId, (BootId, u64)>,
    /// Which server of the configuration each member is, as far as a leader knew.
    servers: BTreeMap<MemberId, u64>,
}

impl Control {
    /// Whether the batch is the next of its origin, and notes it. A duplicate, a gap or an older
    /// boot is to be skipped: its member sends again what is missing.
    pub(crate) fn begin_batch(&mut self, origin: Origin, sequence: u64) -> bool {
        let expected = match self.origins.get(&origin.member) {
            Some((boot, _)) if *boot > origin.boot => return false,
            Some((boot, last)) if *boot == origin.boot => last + 1,
            _ => 1,
        };
        if sequence != expected {
            return false;
        }
        self.origins.insert(origin.member, (origin.boot, sequence));
        assert!(self.origins.len() <= ORIGINS_MAX);
        true
    }

    /// Beyond [`SERVERS_MAX`] nothing is noted: the leader forgets members that are gone.
    pub(crate) fn register(&mut self, member: MemberId, server: u64) -> Change {
        if self.servers.len() < SERVERS_MAX || self.servers.contains_key(&member) {
            self.servers.insert(member, server);
        }
        self.registered()
    }

    pub(crate) fn forget(&mut self, member: MemberId) -> Change {
        self.servers.remove(&member);
        self.origins.remove(&member);
        self.registered()
    }

    fn registered(&self) -> Change {
        Change::Registered(Arc::new(self.servers.clone()))
    }

    /// The last batch applied of a member, and of which boot.
    pub fn last_batch(&self, member: MemberId) -> Option<(BootId, u64)> {
        self.origins.get(&member).copied()
    }

    /// Which server of the configuration each member is, as far as a leader knew.
    pub fn servers(&self) -> &BTreeMap<MemberId, u64> {
        &self.servers
    }

    /// Writes control's section of an image: the batches of the members, then their servers.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.origins.len() as u32);
        for (member, (boot, sequence)) in &self.origins {
            out.put_u64(member.0);
            out.put_u64(boot.0);
            out.put_u64(*sequence);
        }
        out.put_u32(self.servers.len() as u32);
        for (member, server) in &self.servers {
            out.put_u64(member.0);
            out.put_u64(*server);
        }
    }

    /// Bytes that [`Control::encode`] writes.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        let (origins, servers) = (self.origins.len() as u64, self.servers.len() as u64);
        4 + origins * ORIGIN_BYTES + 4 + servers * SERVER_BYTES
    }

    /// Reads what [`Control::encode`] wrote.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Control, DecodeError> {
        let mut control = Control::default();
        for _ in 0..reader.count("origin count", ORIGINS_MAX)? {
            let member = MemberId(reader.u64()?);
            let boot = BootId(reader.u64()?);
            control.origins.insert(member, (boot, reader.u64()?));
        }
        for _ in 0..reader.count("server count", SERVERS_MAX)? {
            control.servers.insert(MemberId(reader.u64()?), reader.u64()?);
        }
        Ok(control)
    }
}

/// Bytes of an origin.
const ORIGIN_BYTES: u64 = 24;

/// Bytes of a registered server.
const SERVER_BYTES: u64 = 16;
