//! The walk that writes ZooKeeper's section of an image, while commands go on.
//!
//! The scalars and the sessions are encoded when the walk begins, and given out in steps, whole
//! records at a time. Then the slots of the tree are walked a step at a time. Before apply changes
//! a znode that the walk has not reached, the tree saves its old image in [`TreeFreeze`]; slots
//! filled since then are not part of the image.

use bytes::Bytes;

use crate::codec::Write;
use crate::ids::SessionId;
use crate::image::step::WalkStep;
use crate::zk::Zk;
use crate::zk::freeze::{TAG_SESSION, TAG_START, TreeFreeze};

/// Bytes of the start record without the settings.
const START_BYTES: u64 = 1 + 8 + 8 + 4 + 4;

/// Bytes of a session in an image.
const SESSION_BYTES: usize = 61;

/// Bytes of a znode in an image, with counters and without name, data and ACL.
const ZNODE_BYTES: u64 = 82;

impl Zk {
    /// Starts the walk over the present state. A running walk is replaced.
    pub(crate) fn freeze(&mut self, old_bytes_max: usize) {
        let (slot_count, znode_count) = (self.tree.slot_count(), self.tree.znode_count());
        let mut start = Vec::new();
        start.put_u8(TAG_START);
        self.encode_scalars(&mut start);
        start.put_u64(self.sessions.len() as u64);
        start.put_u32(slot_count);
        start.put_u32(znode_count);
        let mut sessions = Vec::with_capacity(self.sessions.len() * SESSION_BYTES);
        let mut ids: Vec<SessionId> = self.sessions.iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        for id in ids {
            sessions.put_u8(TAG_SESSION);
            self.sessions.get(id).expect("the id was just listed").encode(id, &mut sessions);
        }
        assert!(sessions.len() == self.sessions.len() * SESSION_BYTES);
        let freeze = TreeFreeze::new(start, sessions.into(), slot_count, old_bytes_max);
        self.tree.freeze = Some(Box::new(freeze));
    }

    /// Gives up a running walk.
    pub(crate) fn thaw(&mut self) {
        self.tree.freeze = None;
    }

    /// Appends records of `bytes` or a little more to `piece`, walking at most `slots_max` slots. A
    /// walk that ended or was aborted is forgotten. Panics if none is running.
    pub(crate) fn freeze_step(
        &mut self,
        piece: &mut Vec<u8>,
        bytes: usize,
        slots_max: u32,
    ) -> WalkStep {
        let mut freeze = self.tree.freeze.take().expect("the machine has started the walk");
        if freeze.aborted {
            return WalkStep::Aborted;
        }
        let begin = piece.len();
        piece.append(&mut freeze.start);
        give_sessions(&mut freeze.sessions, piece, bytes.saturating_sub(piece.len() - begin));
        if !freeze.sessions.is_empty() || piece.len() - begin > bytes / 2 {
            // Together with the old images this could be more than a piece may have.
            self.tree.freeze = Some(freeze);
            return WalkStep::Going;
        }
        // Old images first: ACL numbers are given in the order of encoding.
        piece.append(&mut freeze.old);
        let walk_end = freeze.cursor.saturating_add(slots_max).min(freeze.slot_count);
        while freeze.cursor < walk_end && piece.len() - begin < bytes {
            let id = freeze.cursor;
            let wanted = !freeze.is_settled(id);
            if let Some((image, acl)) = self.tree.image_at(id).filter(|_| wanted) {
                freeze.encode_znode(&image, acl, piece);
            }
            freeze.cursor += 1;
        }
        if freeze.cursor == freeze.slot_count {
            return WalkStep::Ended;
        }
        self.tree.freeze = Some(freeze);
        WalkStep::Going
    }

    /// The most bytes that the records of the present state can have: for the name of a znode, its
    /// whole path counts.
    pub(crate) fn section_bytes_max(&self) -> u64 {
        START_BYTES
            + self.settings.encoded_bytes()
            + self.sessions.len() as u64 * SESSION_BYTES as u64
            + u64::from(self.tree.znode_count()) * ZNODE_BYTES
            + self.tree.data_bytes()
            + self.tree.acl_bytes()
    }
}

/// Moves whole sessions of `bytes` or a little more to the piece. All of them come before the first
/// znode, whose owner must be there when it is restored.
fn give_sessions(sessions: &mut Bytes, piece: &mut Vec<u8>, bytes: usize) {
    let end = bytes.clamp(1, sessions.len().max(1)).next_multiple_of(SESSION_BYTES);
    let end = end.min(sessions.len());
    piece.extend_from_slice(&sessions.split_to(end));
}
