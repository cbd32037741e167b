//! The walk that writes ZooKeeper's section of an image (the bytes of a snapshot) while commands go
//! on.
//!
//! When the walk begins, the zxid, the settings and the sessions are encoded; the first steps write
//! them out, in whole records. After that, each step goes through a number of the tree's slots.
//! Before apply changes a znode that the walk has not reached, [`TreeFreeze`] encodes the old
//! znode. Znodes made since the beginning are not part of the image.

use bytes::Bytes;

use crate::codec::Write;
use crate::ids::SessionId;
use crate::image::step::WalkStep;
use crate::zk::Zk;
use crate::zk::freeze::{TAG_SESSION, TAG_START, TreeFreeze};

/// Bytes of the start record, without the settings.
const START_BYTES: u64 = 1 + 8 + 8 + 4 + 4;

/// Bytes of a session's record.
const SESSION_BYTES: usize = 61;

/// Bytes of a znode's record with counters, without its name, data and ACL.
const ZNODE_BYTES: u64 = 82;

impl Zk {
    /// Starts a walk over the present state. A running walk is dropped.
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

    /// Drops the running walk, if there is one.
    pub(crate) fn thaw(&mut self) {
        self.tree.freeze = None;
    }

    /// Appends about `bytes` bytes of records to `piece`, after at most `slots_max` slots of the
    /// walk. When the walk has ended or was aborted, it is dropped. Panics if no walk is running.
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
            // The old images may not fit into this piece too: leave them for the next step.
            self.tree.freeze = Some(freeze);
            return WalkStep::Going;
        }
        // Old images come first, because ACL numbers follow the order of encoding.
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

    /// The most bytes that the records of the present state can have. Counts each znode's whole
    /// path in place of its name.
    pub(crate) fn section_bytes_max(&self) -> u64 {
        START_BYTES
            + self.settings.encoded_bytes()
            + self.sessions.len() as u64 * SESSION_BYTES as u64
            + u64::from(self.tree.znode_count()) * ZNODE_BYTES
            + self.tree.data_bytes()
            + self.tree.acl_bytes()
    }
}

/// Moves whole session records, `bytes` or a little more, to the piece. All sessions come before
/// the first znode: a restore needs an ephemeral's session first.
fn give_sessions(sessions: &mut Bytes, piece: &mut Vec<u8>, bytes: usize) {
    let end = bytes.clamp(1, sessions.len().max(1)).next_multiple_of(SESSION_BYTES);
    let end = end.min(sessions.len());
    piece.extend_from_slice(&sessions.split_to(end));
}
