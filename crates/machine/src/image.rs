//! Freezing: an image of the machine at one index, taken while commands go on.
//!
//! [`Machine::freeze`] notes what is small (counters, settings, sessions) and how many slots the
//! tree has. [`Machine::freeze_step`] then walks the slots a piece at a time. Before apply changes
//! a znode that the walk has not reached, the tree saves its old image here; slots filled since are
//! not of the image. So the image is that of one index, and the writer is never stopped.
//!
//! `format` gives the records.

use crate::codec::Write;
use crate::ids::{LogIndex, SessionId};
use crate::image::format::{
    FORMAT_VERSION, FORMAT_VERSION_ALONE, TAG_END, TAG_HEADER, TAG_SESSION,
};
use crate::limits::FREEZE_OLD_BYTES_MAX;
use crate::machine::Machine;
use crate::zk::freeze::TreeFreeze;

pub mod format;
pub mod restore;

/// Bytes of an image without settings, origins, sessions and znodes: of its header, and the end.
const HEADER_BYTES: u64 = 2 + 8 + 8 + 8 + 4 + 16 + 8 + 4 + 4 + 1;

/// Bytes of a session in an image.
const SESSION_BYTES: u64 = 61;

/// Bytes of a znode in an image, with counters and without name, data and ACL.
const ZNODE_BYTES: u64 = 82;

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
        start.put_u8(if self.control.servers().is_empty() {
            FORMAT_VERSION_ALONE
        } else {
            FORMAT_VERSION
        });
        start.put_u64(self.index.0);
        self.encode_scalars(&mut start);
        start.put_u128(self.digest().0);
        start.put_u64(self.zk.sessions.len() as u64);
        start.put_u32(self.zk.tree.slot_count());
        start.put_u32(self.zk.tree.znode_count());
        let mut ids: Vec<SessionId> = self.zk.sessions.iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        for id in ids {
            start.put_u8(TAG_SESSION);
            self.zk.sessions.get(id).expect("the id was just listed").encode(id, &mut start);
        }
        let tree_freeze = TreeFreeze::new(self.zk.tree.slot_count(), old_bytes_max);
        self.zk.tree.freeze = Some(Box::new(tree_freeze));
        self.image_start = Some(start);
        self.index
    }

    /// What an image of the state as it is now has at most, in bytes: a path counts whole for its
    /// last name. For whoever keeps room for one; nothing is walked for it.
    pub fn image_bytes_max(&self) -> u64 {
        HEADER_BYTES
            + self.control.encoded_bytes()
            + self.zk.settings.encoded_bytes()
            + self.zk.sessions.len() as u64 * SESSION_BYTES
            + u64::from(self.zk.tree.znode_count()) * ZNODE_BYTES
            + self.zk.tree.data_bytes()
            + self.zk.tree.acl_bytes()
    }

    /// Whether a freeze is running.
    pub fn is_freezing(&self) -> bool {
        self.image_start.is_some()
    }

    /// Gives up a running freeze.
    pub fn thaw(&mut self) {
        self.image_start = None;
        self.zk.tree.freeze = None;
    }

    /// Writes the next piece of the running freeze, of `bytes` or a little more, walking at most
    /// `slots_max` slots. Panics if none is running.
    pub fn freeze_step(&mut self, bytes: usize, slots_max: u32) -> FreezeStep {
        let start = self.image_start.as_mut().expect("the caller started a freeze");
        let mut piece = core::mem::take(start);
        let mut tree_freeze =
            self.zk.tree.freeze.take().expect("both parts of a freeze live as one");
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
            if let Some((image, acl)) = self.zk.tree.image_at(id).filter(|_| wanted) {
                tree_freeze.encode_znode(&image, acl, &mut piece);
            }
            tree_freeze.cursor += 1;
        }
        if tree_freeze.cursor == tree_freeze.slot_count {
            piece.put_u8(TAG_END);
            self.thaw();
            return FreezeStep::Last(piece);
        }
        self.zk.tree.freeze = Some(tree_freeze);
        FreezeStep::Piece(piece)
    }
}

#[cfg(test)]
mod tests;
