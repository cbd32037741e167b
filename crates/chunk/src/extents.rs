//! Records where the bytes of a block are in the log. An *extent* is a range of the block that is
//! in one record.
//!
//! Extents are sorted by their offset in the block and do not overlap: a later write replaces what
//! it covers. A block that is written in order, in chunks of one size, is one *run*: consecutive
//! extents of one length, in records of one segment. A run takes 48 bytes of memory if its records
//! are at equal distances in the segment, and otherwise 4 bytes more for each record.

use crate::record::Position;

/// A range of a block that is in the body of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The byte of the block where the extent starts.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
    /// The position of the record.
    pub at: Position,
    /// The byte of the record's body where the extent starts.
    pub skip: u32,
    /// Length of the record's body in bytes.
    pub body_bytes: u32,
}

impl Extent {
    /// The extent of a whole record.
    pub fn from_record(offset: u64, at: Position, body_bytes: u32) -> Extent {
        Extent { offset, length: body_bytes, at, skip: 0, body_bytes }
    }

    /// The byte of the block where the extent ends.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// The part of the extent within bytes `start` to `end` of the block.
    pub fn within(&self, start: u64, end: u64) -> Option<Extent> {
        let (from, to) = (self.offset.max(start), self.end().min(end));
        let cut = from.checked_sub(self.offset)? as u32;
        let length = to.checked_sub(from).filter(|length| *length > 0)? as u32;
        Some(Extent { offset: from, length, skip: self.skip + cut, ..*self })
    }
}

/// Consecutive extents of a block, with equal lengths, in records of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The byte of the block where the first extent starts.
    pub offset: u64,
    /// The segment of all records.
    pub segment: u32,
    /// Length of each extent in bytes.
    pub length: u32,
    /// The byte of the record's body where the extent starts; 0 if there are several extents.
    pub skip: u32,
    /// Length of each record's body in bytes.
    pub body_bytes: u32,
    /// Where the records start in the segment.
    pub starts: Starts,
}

/// Where the records of a run start in their segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starts {
    /// At equal distances.
    Even {
        /// Byte of the segment where the first record starts.
        first: u32,
        /// Bytes from one start to the next; 0 for a single record.
        step: u32,
        /// Number of records.
        count: u32,
    },
    /// Each position listed.
    Listed(Vec<u32>),
}

impl Starts {
    /// Number of records.
    pub fn count(&self) -> u32 {
        match self {
            Starts::Even { count, .. } => *count,
            Starts::Listed(all) => all.len() as u32,
        }
    }

    /// Where the last record starts.
    pub fn last(&self) -> u32 {
        self.get(self.count().saturating_sub(1))
    }

    fn get(&self, index: u32) -> u32 {
        match self {
            Starts::Even { first, step, .. } => first + index * step,
            Starts::Listed(all) => all.get(index as usize).copied().unwrap_or_default(),
        }
    }

    fn push(&mut self, start: u32) {
        match self {
            Starts::Even { first, step, count } if *count == 1 && start > *first => {
                (*step, *count) = (start - *first, 2);
            }
            Starts::Even { first, step, count }
                if u64::from(*first) + u64::from(*step) * u64::from(*count) == u64::from(start) =>
            {
                *count += 1;
            }
            Starts::Even { count, .. } => {
                let count = *count;
                let mut all = Vec::with_capacity(count as usize * 2);
                all.extend((0..count).map(|index| self.get(index)));
                all.push(start);
                *self = Starts::Listed(all);
            }
            Starts::Listed(all) => all.push(start),
        }
    }
}

impl Run {
    fn of(extent: &Extent) -> Run {
        let Extent { offset, length, at, skip, body_bytes } = *extent;
        let starts = Starts::Even { first: at.offset, step: 0, count: 1 };
        Run { offset, segment: at.segment, length, skip, body_bytes, starts }
    }

    /// The byte of the block where the last extent ends.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length) * u64::from(self.starts.count())
    }

    fn get(&self, index: u32) -> Extent {
        let Run { segment, length, skip, body_bytes, .. } = *self;
        let at = Position { segment, offset: self.starts.get(index) };
        let offset = self.offset + u64::from(length) * u64::from(index);
        Extent { offset, length, at, skip, body_bytes }
    }

    fn extents(&self) -> impl Iterator<Item = Extent> {
        (0..self.starts.count()).map(|index| self.get(index))
    }

    /// Whether the extent can be added to the end of the run.
    fn is_continued_by(&self, extent: &Extent) -> bool {
        let is_whole = extent.skip == 0 && extent.length == extent.body_bytes;
        is_whole
            && self.skip == 0
            && (self.length, self.body_bytes) == (extent.length, extent.body_bytes)
            && self.segment == extent.at.segment
            && self.end() == extent.offset
    }
}

/// All extents of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    runs: Vec<Run>,
}

impl Extents {
    /// The byte of the block where the last extent ends.
    pub fn end(&self) -> u64 {
        self.runs.last().map_or(0, Run::end)
    }

    /// All extents, in order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> {
        self.runs.iter().flat_map(Run::extents)
    }

    /// All runs, in order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Adds a run after the others, when a stored index is read.
    pub fn push_run(&mut self, run: Run) {
        if self.runs.len() == self.runs.capacity() {
            // Most blocks have one run.
            self.runs.reserve_exact(1 + self.runs.len() / 2);
        }
        self.runs.push(run);
    }

    fn push(&mut self, extent: &Extent) {
        match self.runs.last_mut().filter(|run| run.is_continued_by(extent)) {
            Some(run) => run.starts.push(extent.at.offset),
            None => self.push_run(Run::of(extent)),
        }
    }

    /// The first extent that ends behind `start`, and all later ones.
    fn from(&self, start: u64) -> impl Iterator<Item = Extent> {
        let first = self.runs.partition_point(|run| run.end() <= start);
        let runs = self.runs.get(first..).unwrap_or_default();
        runs.iter().flat_map(move |run| {
            let before = start.saturating_sub(run.offset) / u64::from(run.length.max(1));
            let before = u32::try_from(before).unwrap_or(u32::MAX);
            (before..run.starts.count()).map(|index| run.get(index))
        })
    }

    /// The extents that are in the record at `at`, which was written for bytes `start` to `end` of
    /// the block.
    pub fn in_record(&self, at: Position, start: u64, end: u64) -> impl Iterator<Item = Extent> {
        let near = self.from(start).take_while(move |extent| extent.offset < end);
        near.filter(move |extent| extent.at == at)
    }

    /// Adds an extent over the present ones. Removes each extent that it touches, and adds back the
    /// parts outside the new one. Calls `changed` for each of these and for the new one, with
    /// `true` if it is added and `false` if it is removed.
    pub fn put(&mut self, extent: Extent, changed: &mut impl FnMut(&Extent, bool)) {
        changed(&extent, true);
        if extent.offset >= self.end() {
            self.push(&extent);
            return;
        }
        // Takes the touched runs apart and builds them again.
        let first = self.runs.partition_point(|run| run.end() <= extent.offset);
        let last = self.runs.partition_point(|run| run.offset < extent.end()).max(first);
        let behind = self.runs.split_off(last);
        let touched = self.runs.split_off(first);
        let mut after = Vec::new();
        for other in touched.iter().flat_map(Run::extents) {
            if other.end() <= extent.offset {
                self.push(&other);
            } else if other.offset >= extent.end() {
                after.push(other);
            } else {
                changed(&other, false);
                let before = other.within(other.offset, extent.offset);
                let rest = other.within(extent.end(), other.end());
                before.iter().chain(&rest).for_each(|part| changed(part, true));
                before.iter().for_each(|before| self.push(before));
                after.extend(rest);
            }
        }
        self.push(&extent);
        after.iter().for_each(|rest| self.push(rest));
        behind.into_iter().for_each(|run| self.push_run(run));
    }

    /// The extents of bytes `start` to `end` of the block, in order. If some byte is in no extent,
    /// the error is the first such byte.
    pub fn within(&self, start: u64, end: u64) -> Result<Vec<Extent>, u64> {
        let mut found = Vec::new();
        let mut at = start;
        for extent in self.from(start) {
            if at >= end || extent.offset > at {
                break;
            }
            if let Some(part) = extent.within(at, end) {
                at = part.end();
                found.push(part);
            }
        }
        if at < end { Err(at) } else { Ok(found) }
    }
}

#[cfg(test)]
mod tests;
