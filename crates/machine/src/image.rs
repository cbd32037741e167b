//! Freezing: writes an image of the machine at one index, in pieces, while commands go on. (An
//! image is the bytes of a snapshot.)
//!
//! [`Machine::freeze`] encodes the header, control's section and ZooKeeper's sessions at once, and
//! starts a walk over the rest of each space. [`Machine::freeze_step`] then writes one piece at a
//! time. Before apply changes a znode of ZooKeeper or ends a lease of etcd that the walk has not
//! reached, the old znode or lease is kept for the image. Everything else that is walked never
//! changes: etcd's versions of keys, and the shared nodes of etcd v2. So the image shows the state
//! at one index, and commands never wait for it. If too many old values must be kept, the freeze is
//! given up.
//!
//! The module `format` gives the bytes of the frame around the records; each space's own module
//! gives the bytes of its records.

use crate::ids::LogIndex;
use crate::image::format::{FRAME_HEAD_BYTES, HEADER_AND_END_BYTES, Header, Sections, Space};
use crate::image::step::WalkStep;
use crate::limits::FREEZE_OLD_BYTES_MAX;
use crate::machine::Machine;

pub mod error;
pub mod etcd_part;
pub mod format;
pub mod restore;
pub(crate) mod step;

/// The result of a step of a freeze.
#[derive(Debug, PartialEq, Eq)]
pub enum FreezeStep {
    /// The next piece of the image.
    Piece(Vec<u8>),
    /// The last piece: the freeze is over.
    Last(Vec<u8>),
    /// Too many old values had to be kept: the freeze is over and its pieces are worthless.
    Aborted,
}

/// The part of a running freeze that is not in the spaces: its position, and the sums for the end
/// of the image.
pub(crate) struct Freeze {
    /// The header and control's section; empty once the first step has written them.
    start: Vec<u8>,
    sections: Sections,
    /// The space that is being walked: first ZooKeeper's, then etcd's and etcd v2's if they were
    /// ever used.
    space: Space,
}

impl Machine {
    /// Starts an image of the present state. Call it only at the end of an entry. A running freeze
    /// is given up. Returns the index of the image.
    pub fn freeze(&mut self) -> LogIndex {
        self.freeze_with_limit(FREEZE_OLD_BYTES_MAX)
    }

    pub(crate) fn freeze_with_limit(&mut self, old_bytes_max: usize) -> LogIndex {
        let (index, ordinal, digest) = (self.index, self.ordinal, self.digest().0);
        let sections = Sections::in_use(!self.etcd.is_unused(), !self.etcd_v2.is_unused());
        let header = Header { index, ordinal, digest, sections };
        let mut start = Vec::new();
        header.encode(&mut start);
        let mut sections = header.sections;
        sections.write_frame(Space::Control, &mut start, |frame| self.control.encode(frame));
        self.zk.freeze(old_bytes_max);
        self.etcd.freeze(self.ordinal);
        self.etcd_v2.freeze();
        self.freeze = Some(Freeze { start, sections, space: Space::Zk });
        index
    }

    /// The most bytes that an image of the present state can have, even if each frame holds one
    /// record. Loop reserves this much space on the disk. Computed without a walk.
    pub fn image_bytes_max(&self) -> u64 {
        // One frame for control, one for the start of ZooKeeper's section, one for each session and
        // each znode, and one for each record of etcd's sections.
        let frames = 2
            + self.zk.sessions().len() as u64
            + u64::from(self.zk.tree.znode_count())
            + self.etcd.record_count_max()
            + self.etcd_v2.record_count();
        HEADER_AND_END_BYTES
            + frames * FRAME_HEAD_BYTES
            + self.control.encoded_bytes()
            + self.zk.section_bytes_max()
            + self.etcd.section_bytes_max()
            + self.etcd_v2.section_bytes()
    }

    /// Whether a freeze is running.
    pub fn is_freezing(&self) -> bool {
        self.freeze.is_some()
    }

    /// Ends a running freeze; its image stays incomplete.
    pub fn thaw(&mut self) {
        self.freeze = None;
        self.zk.thaw();
        self.etcd.thaw();
        self.etcd_v2.thaw();
    }

    /// Writes the next piece of the running freeze: `bytes` or a little more. The walk looks at up
    /// to `slots_max` slots of ZooKeeper's tree, or at as many records of another space. Panics if
    /// no freeze is running.
    pub fn freeze_step(&mut self, bytes: usize, slots_max: u32) -> FreezeStep {
        let freeze = self.freeze.as_mut().expect("the caller started a freeze");
        let mut piece = core::mem::take(&mut freeze.start);
        let bytes_left = bytes.saturating_sub(piece.len());
        let space = freeze.space;
        let step = freeze.sections.write_frame(space, &mut piece, |piece| match space {
            Space::Control => unreachable!("its section is in the start"),
            Space::Zk => self.zk.freeze_step(piece, bytes_left, slots_max),
            Space::Etcd => self.etcd.freeze_step(piece, bytes_left, slots_max),
            Space::EtcdV2 => self.etcd_v2.freeze_step(piece, bytes_left, slots_max),
        });
        match step {
            WalkStep::Going => FreezeStep::Piece(piece),
            WalkStep::Ended => match freeze.sections.behind(space) {
                Some(next) => {
                    freeze.space = next;
                    FreezeStep::Piece(piece)
                }
                None => {
                    freeze.sections.encode_end(&mut piece);
                    self.thaw();
                    FreezeStep::Last(piece)
                }
            },
            WalkStep::Aborted => {
                self.thaw();
                FreezeStep::Aborted
            }
        }
    }
}

#[cfg(test)]
mod tests;
