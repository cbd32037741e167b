//! Counts how many bytes of each segment are still needed, as the index changes. So the store finds
//! the segments that it can remove without a walk over the index.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::container::{Block, Commit};
use crate::extents::Extent;
use crate::record::HEADER_BYTES;

/// The needed bytes of each segment of a store. Each needed part of a record counts with the bytes
/// of the record's header.
#[derive(Debug, Default)]
pub(crate) struct Live {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    of_segment: BTreeMap<u32, u64>,
    /// The segment changed last, and its count: the next change is mostly to the same one.
    last: (u32, u64),
}

impl Counts {
    fn of(&mut self, segment: u32) -> &mut u64 {
        if self.last.0 != segment {
            self.save();
            self.last = (segment, self.of_segment.get(&segment).copied().unwrap_or(0));
        }
        &mut self.last.1
    }

    fn change(&mut self, segment: u32, bytes: u64, is_needed: bool) {
        let of = self.of(segment);
        let changed = if is_needed { of.checked_add(bytes) } else { of.checked_sub(bytes) };
        *of = changed.expect("it was needed before");
    }

    fn save(&mut self) {
        match self.last.1 {
            0 => self.of_segment.remove(&self.last.0),
            bytes => self.of_segment.insert(self.last.0, bytes),
        };
    }
}

fn bytes_of(body_bytes: u32) -> u64 {
    u64::from(body_bytes) + HEADER_BYTES as u64
}

impl Live {
    /// Records that an extent is needed, or no longer needed.
    pub fn change(&self, extent: &Extent, is_needed: bool) {
        let mut counts = self.counts.lock();
        counts.change(extent.at.segment, bytes_of(extent.length), is_needed);
    }

    /// Records that a commit is needed, or no longer needed.
    pub fn change_commit(&self, commit: &Commit, is_needed: bool) {
        let mut counts = self.counts.lock();
        counts.change(commit.at.segment, bytes_of(commit.body_bytes), is_needed);
    }

    /// Records that a block's extents and commit are needed, or no longer needed.
    pub fn change_block(&self, block: &Block, is_needed: bool) {
        let mut counts = self.counts.lock();
        for run in block.extents.runs() {
            let bytes = bytes_of(run.length) * u64::from(run.starts.count());
            counts.change(run.segment, bytes, is_needed);
        }
        if let Some(commit) = &block.commit {
            counts.change(commit.at.segment, bytes_of(commit.body_bytes), is_needed);
        }
    }

    /// Number of needed bytes in that segment.
    pub fn bytes(&self, segment: u32) -> u64 {
        *self.counts.lock().of(segment)
    }
}
