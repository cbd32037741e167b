//! Freezing: an image of the machine at one index, taken while commands go on.
//!
//! [`Machine::freeze`] notes what is small (counters, settings, sessions) and how many slots the
//! tree has. [`Machine::freeze_step`] then walks the slots a piece at a time. Before apply changes
//! a znode that the walk has not reached, the tree saves its old image here; slots filled since are
//! not of the image. So the image is that of one index, and the writer is never stopped.
//!
//! The image is a stream of records, cut into pieces between records:
//!
//! ```text
//! header  = 'H' | version u8 | index u64 | ordinal u64 | zxid i64 | settings | origin count u32
//!         | (member u64 boot u64 sequence u64)*
//!         | [server count u32, not 0 | (member u64 server u64)*, in version 2] | digest u128 | session count u64
//!         | slot count u32 | znode count u32
//! session = 'S' | id i64 | timeout_ms u32 | password 16 | member u64 | boot u64 | connection u64
//!         | attached u64
//! znode   = 'Z' | id u32 | parent u32 | czxid mzxid ctime mtime owner i64 | version aversion i32
//!         | flags u8 (1: has counters) | [cversion i32 pzxid i64] | name bytes
//!         | data bytes or none | acl number u32 | [acl, if the number is new]
//! end     = 'E'
//! ```
//!
//! Ids are labels that tie children to parents within the image; they are not state.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thiserror::Error;

use crate::acl::{self, Acl};
use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;
use crate::ids::{
    BootId, ConnectionId, LogIndex, MemberId, Ordinal, Origin, Owner, SessionId, Zxid,
};
use crate::limits::{FREEZE_OLD_BYTES_MAX, ORIGINS_MAX, SERVERS_MAX, ZNODES_MAX};
use crate::machine::{Counters, Machine};
use crate::sessions::{Session, Sessions};
use crate::settings::Settings;
use crate::tree::{Image, NO_PARENT, ROOT, Tree, ZnodeId, ephemeral_session};

/// Version of the image format, of an ensemble's state.
pub const FORMAT_VERSION: u8 = 2;

/// The same of a state in which no server is registered, as of a standalone server.
const FORMAT_VERSION_ALONE: u8 = 1;

const TAG_HEADER: u8 = b'H';
const TAG_SESSION: u8 = b'S';
const TAG_ZNODE: u8 = b'Z';
const TAG_END: u8 = b'E';
const FLAG_COUNTERS: u8 = 1;

/// Bytes of an image without settings, origins, sessions and znodes: of its header, and the end.
const HEADER_BYTES: u64 = 2 + 8 + 8 + 8 + 4 + 16 + 8 + 4 + 4 + 1;

/// Bytes of an origin in an image.
const ORIGIN_BYTES: u64 = 24;

/// Bytes of a registered server in an image.
const SERVER_BYTES: u64 = 16;

/// Bytes of a session in an image.
const SESSION_BYTES: u64 = 61;

/// Bytes of a znode in an image, with counters and without name, data and ACL.
const ZNODE_BYTES: u64 = 82;

/// A running freeze, beside what the tree keeps of it.
pub(crate) struct Freeze {
    /// Header and sessions, until the first step takes them.
    start: Vec<u8>,
}

/// What the tree keeps of a running freeze.
pub(crate) struct TreeFreeze {
    slot_count: u32,
    /// Slots below are walked.
    cursor: u32,
    /// One bit per slot: its image is written, or it held nothing at the index.
    settled: Vec<u64>,
    /// Old images saved since the last step.
    old: Vec<u8>,
    old_bytes_max: usize,
    aborted: bool,
    acl_numbers: HashMap<Acl, u32, FixedState>,
}

impl TreeFreeze {
    fn new(slot_count: u32, old_bytes_max: usize) -> TreeFreeze {
        TreeFreeze {
            slot_count,
            cursor: 0,
            settled: vec![0; (slot_count as usize).div_ceil(64)],
            old: Vec::new(),
            old_bytes_max,
            aborted: false,
            acl_numbers: HashMap::with_hasher(FixedState::default()),
        }
    }

    fn is_settled(&self, id: u32) -> bool {
        id >= self.slot_count
            || id < self.cursor
            || self.settled[id as usize / 64] & (1 << (id % 64)) != 0
    }

    /// What was walked so far is worth nothing.
    pub(crate) fn abort(&mut self) {
        self.aborted = true;
    }

    /// Whether the znode in this slot is about to change before its image was written.
    pub(crate) fn wants_old_image(&self, id: u32) -> bool {
        !self.aborted && !self.is_settled(id)
    }

    /// Keeps the image of a znode that is about to change.
    pub(crate) fn save_old_image(&mut self, id: u32, image: &Image<'_>, acl: &Acl) {
        let mut old = core::mem::take(&mut self.old);
        self.encode_znode(image, acl, &mut old);
        self.old = old;
        self.settle(id);
        self.aborted = self.old.len() > self.old_bytes_max;
    }

    /// A slot was filled: what is in it now is newer than the image.
    pub(crate) fn on_occupied(&mut self, id: u32) {
        if id < self.slot_count {
            self.settle(id);
        }
    }

    fn settle(&mut self, id: u32) {
        self.settled[id as usize / 64] |= 1 << (id % 64);
    }

    fn encode_znode(&mut self, image: &Image<'_>, acl: &Acl, out: &mut Vec<u8>) {
        out.put_u8(TAG_ZNODE);
        out.put_u32(image.id);
        out.put_u32(image.parent);
        for word in [image.czxid, image.mzxid, image.ctime, image.mtime, image.owner] {
            out.put_i64(word);
        }
        out.put_i32(image.version);
        out.put_i32(image.aversion);
        match image.counters {
            None => out.put_u8(0),
            Some((cversion, pzxid)) => {
                out.put_u8(FLAG_COUNTERS);
                out.put_i32(cversion);
                out.put_i64(pzxid);
            }
        }
        out.put_bytes(image.name.as_bytes());
        out.put_optional_bytes(image.data);
        match self.acl_numbers.get(acl) {
            Some(&number) => out.put_u32(number),
            None => {
                let number = self.acl_numbers.len() as u32;
                self.acl_numbers.insert(acl.clone(), number);
                out.put_u32(number);
                acl::encode(acl, out);
            }
        }
    }
}

/// What a step of a freeze gave.
#[derive(Debug, PartialEq, Eq)]
pub enum FreezeStep {
    /// The next piece of the image.
    Piece(Vec<u8>),
    /// The last piece: the freeze is over.
    Last(Vec<u8>),
    /// Too many old images had to be kept: the freeze is over and its pieces are worthless.
    Aborted,
}

impl Machine {
    /// Starts an image of the state as it is now, which must be at the end of an entry. A running
    /// freeze is replaced.
    pub fn freeze(&mut self) -> LogIndex {
        self.freeze_with_limit(FREEZE_OLD_BYTES_MAX)
    }

    pub(crate) fn freeze_with_limit(&mut self, old_bytes_max: usize) -> LogIndex {
        let mut start = Vec::new();
        start.put_u8(TAG_HEADER);
        start.put_u8(match self.servers.is_empty() {
            true => FORMAT_VERSION_ALONE,
            false => FORMAT_VERSION,
        });
        start.put_u64(self.counters.index.0);
        self.encode_scalars(&mut start);
        start.put_u128(self.digest().0);
        start.put_u64(self.sessions.len() as u64);
        start.put_u32(self.tree.slot_count());
        start.put_u32(self.tree.znode_count());
        let mut ids: Vec<SessionId> = self.sessions.iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        for id in ids {
            start.put_u8(TAG_SESSION);
            self.sessions.get(id).expect("the id was just listed").encode(id, &mut start);
        }
        let tree_freeze = TreeFreeze::new(self.tree.slot_count(), old_bytes_max);
        self.tree.freeze = Some(Box::new(tree_freeze));
        self.freeze = Some(Freeze { start });
        self.counters.index
    }

    /// What an image of the state as it is now has at most, in bytes: a path counts whole for its
    /// last name. For whoever keeps room for one; nothing is walked for it.
    pub fn image_bytes_max(&self) -> u64 {
        HEADER_BYTES
            + self.settings.encoded_bytes()
            + self.origins.len() as u64 * ORIGIN_BYTES
            + if self.servers.is_empty() { 0 } else { 4 }
            + self.servers.len() as u64 * SERVER_BYTES
            + self.sessions.len() as u64 * SESSION_BYTES
            + u64::from(self.tree.znode_count()) * ZNODE_BYTES
            + self.tree.data_bytes()
            + self.tree.acl_bytes()
    }

    /// Whether a freeze is running.
    pub fn is_freezing(&self) -> bool {
        self.freeze.is_some()
    }

    /// Gives up a running freeze.
    pub fn thaw(&mut self) {
        self.freeze = None;
        self.tree.freeze = None;
    }

    /// Writes the next piece of the running freeze, of `bytes` or a little more, walking at most
    /// `slots_max` slots. Panics if none is running.
    pub fn freeze_step(&mut self, bytes: usize, slots_max: u32) -> FreezeStep {
        let freeze = self.freeze.as_mut().expect("the caller started a freeze");
        let mut piece = core::mem::take(&mut freeze.start);
        let mut tree_freeze = self.tree.freeze.take().expect("both parts of a freeze live as one");
        if tree_freeze.aborted {
            self.thaw();
            return FreezeStep::Aborted;
        }
        // Old images first: ACL numbers are given in the order of encoding.
        piece.append(&mut tree_freeze.old);
        let walk_end = tree_freeze.cursor.saturating_add(slots_max).min(tree_freeze.slot_count);
        while tree_freeze.cursor < walk_end && piece.len() < bytes {
            let id = tree_freeze.cursor;
            let wanted = !tree_freeze.is_settled(id);
            if let Some((image, acl)) = self.tree.image_at(id).filter(|_| wanted) {
                tree_freeze.encode_znode(&image, acl, &mut piece);
            }
            tree_freeze.cursor += 1;
        }
        if tree_freeze.cursor == tree_freeze.slot_count {
            piece.put_u8(TAG_END);
            self.thaw();
            return FreezeStep::Last(piece);
        }
        self.tree.freeze = Some(tree_freeze);
        FreezeStep::Piece(piece)
    }
}

/// Why an image could not be turned into a machine.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RestoreError {
    /// A piece is not what the format says.
    #[error("bad image: {0}")]
    Malformed(#[from] DecodeError),
    /// The parts do not fit together.
    #[error("bad image: {0}")]
    Inconsistent(String),
    /// It was written in a format that this version does not know.
    #[error("the image has format version {version}; this version reads up to {version_max}")]
    UnknownFormat {
        /// The version found.
        version: u8,
        /// The newest version that is known here.
        version_max: u8,
    },
    /// The digest of what was read is not the one the image was written with.
    #[error("bad image: its digest is {found:032x}, written with {written:032x}")]
    WrongDigest {
        /// Of the restored state.
        found: u128,
        /// In the header.
        written: u128,
    },
}

/// Puts a machine together from the pieces of an image, in order.
pub struct Restore {
    tree: Tree,
    sessions: Sessions,
    header: Option<Header>,
    acls: Vec<Acl>,
    /// Slots of the ids in the image, given in the order in which they are first named: memory
    /// grows with what was read, whatever the ids are, and no slot stays vacant.
    slots: HashMap<u32, u32, FixedState>,
    session_count: u64,
    ended: bool,
}

struct Header {
    counters: Counters,
    settings: Settings,
    origins: Vec<(MemberId, BootId, u64)>,
    servers: BTreeMap<MemberId, u64>,
    digest: u128,
    session_count: u64,
    slot_count: u32,
    znode_count: u32,
}

impl Default for Restore {
    fn default() -> Self {
        let mut slots = HashMap::with_hasher(FixedState::default());
        slots.insert(ROOT.0, ROOT.0);
        Restore {
            slots,
            tree: Tree::without_znodes(),
            sessions: Sessions::default(),
            header: None,
            acls: Vec::new(),
            session_count: 0,
            ended: false,
        }
    }
}

impl Restore {
    /// Takes the next piece.
    pub fn piece(&mut self, piece: &[u8]) -> Result<(), RestoreError> {
        let mut reader = Reader::new(piece);
        while reader.remaining() > 0 {
            let tag = reader.u8()?;
            if self.ended || (tag == TAG_HEADER) != self.header.is_none() {
                return Err(reader.bad("order of image records", u64::from(tag)).into());
            }
            match tag {
                TAG_HEADER => self.header(&mut reader)?,
                TAG_SESSION => self.session(&mut reader)?,
                TAG_ZNODE => self.znode(&mut reader)?,
                TAG_END => self.ended = true,
                _ => return Err(reader.bad("image record", u64::from(tag)).into()),
            }
        }
        Ok(())
    }

    fn header(&mut self, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        let version = reader.u8()?;
        if version > FORMAT_VERSION {
            let version_max = FORMAT_VERSION;
            return Err(RestoreError::UnknownFormat { version, version_max });
        }
        if ![FORMAT_VERSION, FORMAT_VERSION_ALONE].contains(&version) {
            return Err(reader.bad("image format version", u64::from(version)).into());
        }
        let index = LogIndex(reader.u64()?);
        let ordinal = Ordinal(reader.u64()?);
        let zxid = Zxid(reader.i64()?);
        let settings = Settings::decode(reader)?;
        let origin_count = reader.count("origin count", ORIGINS_MAX)?;
        let mut origins = Vec::new();
        for _ in 0..origin_count {
            let member = MemberId(reader.u64()?);
            let boot = BootId(reader.u64()?);
            origins.push((member, boot, reader.u64()?));
        }
        let mut servers = BTreeMap::new();
        if version == FORMAT_VERSION {
            for _ in 0..reader.count("server count", SERVERS_MAX)? {
                servers.insert(MemberId(reader.u64()?), reader.u64()?);
            }
        }
        let digest = reader.u128()?;
        let session_count = reader.u64()?;
        let slot_count = reader.u32()?;
        if slot_count > ZNODES_MAX {
            return Err(reader.bad("slot count", u64::from(slot_count)).into());
        }
        let znode_count = reader.u32()?;
        let counters = Counters { index, ordinal, zxid };
        self.header = Some(Header {
            counters,
            settings,
            origins,
            servers,
            digest,
            session_count,
            slot_count,
            znode_count,
        });
        Ok(())
    }

    fn session(&mut self, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        let id = SessionId(reader.i64()?);
        let timeout_ms = reader.u32()?;
        let password = reader.password()?;
        let origin = Origin { member: MemberId(reader.u64()?), boot: BootId(reader.u64()?) };
        let owner = Owner { origin, connection: ConnectionId(reader.u64()?) };
        let attached = Ordinal(reader.u64()?);
        if self.sessions.get(id).is_some() {
            return Err(RestoreError::Inconsistent(format!("session {:#x} stands twice", id.0)));
        }
        self.sessions.insert(id, Session::new(timeout_ms, password, owner, attached));
        self.session_count += 1;
        Ok(())
    }

    fn znode(&mut self, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        let id = reader.u32()?;
        let slot_count = self.header.as_ref().map_or(0, |header| header.slot_count);
        if id >= slot_count {
            return Err(reader.bad("znode id", u64::from(id)).into());
        }
        let parent = reader.u32()?;
        let (czxid, mzxid) = (reader.i64()?, reader.i64()?);
        let (ctime, mtime) = (reader.i64()?, reader.i64()?);
        let owner = reader.i64()?;
        let (version, aversion) = (reader.i32()?, reader.i32()?);
        let counters = match reader.u8()? {
            0 => None,
            FLAG_COUNTERS => Some((reader.i32()?, reader.i64()?)),
            flags => return Err(reader.bad("znode flags", u64::from(flags)).into()),
        };
        let name = reader.text()?;
        let data = reader.optional_bytes()?;
        let number = reader.u32()? as usize;
        if number > self.acls.len() {
            return Err(reader.bad("acl number", number as u64).into());
        }
        if number == self.acls.len() {
            self.acls.push(acl::decode(reader)?.into());
        }
        let acl = self.acls[number].clone();
        let slot = self.slot_of(id);
        let image = Image {
            id: slot,
            parent: if parent == NO_PARENT { parent } else { self.slot_of(parent) },
            czxid,
            mzxid,
            ctime,
            mtime,
            owner,
            version,
            aversion,
            counters,
            name,
            data,
            acl_id: acl::OPEN,
        };
        if !self.tree.restore_image(&image, &acl) {
            return Err(RestoreError::Inconsistent(format!("znode {id} does not fit")));
        }
        if let Some(session) = ephemeral_session(owner)
            && !self.sessions.own(SessionId(session), ZnodeId(slot))
        {
            let what = format!("znode {id} belongs to session {session:#x}, which is missing");
            return Err(RestoreError::Inconsistent(what));
        }
        Ok(())
    }

    fn slot_of(&mut self, id: u32) -> u32 {
        let next = self.slots.len() as u32;
        *self.slots.entry(id).or_insert(next)
    }

    /// Checks that the image is whole and gives the machine.
    pub fn finish(mut self) -> Result<Machine, RestoreError> {
        let header = match self.header {
            Some(header) if self.ended => header,
            _ => {
                return Err(RestoreError::Inconsistent("the image is not whole".to_string()));
            }
        };
        if header.session_count != self.session_count {
            return Err(RestoreError::Inconsistent("sessions are missing".to_string()));
        }
        if header.znode_count != self.tree.znode_count() {
            return Err(RestoreError::Inconsistent("znodes are missing".to_string()));
        }
        self.tree.finish_restore().map_err(RestoreError::Inconsistent)?;
        let machine = Machine {
            tree: self.tree,
            sessions: self.sessions,
            settings: header.settings,
            origins: header
                .origins
                .into_iter()
                .map(|(member, boot, sequence)| (member, (boot, sequence)))
                .collect(),
            servers: header.servers,
            counters: header.counters,
            ..Machine::default()
        };
        let found = machine.digest();
        if found != Digest(header.digest) {
            return Err(RestoreError::WrongDigest { found: found.0, written: header.digest });
        }
        Ok(machine)
    }
}

#[cfg(test)]
mod tests;
