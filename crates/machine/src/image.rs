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

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::codec::Write;
use crate::ids::{LogIndex, SessionId};
use crate::limits::FREEZE_OLD_BYTES_MAX;
use crate::machine::Machine;
use crate::zk::acl::{self, Acl};
use crate::zk::tree::Image;

pub use restore::{DecodedPiece, Decoder, Restore, RestoreError};

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

mod restore;
#[cfg(test)]
mod tests;
