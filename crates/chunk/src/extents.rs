//! Where the bytes of a block are in the log: ranges of the block, each in one record.
//!
//! Sorted by their place in the block, without overlap. What is written later lies over what was
//! there. A block that is written in order, in chunks of one size, is one *run*: records of one
//! segment that hold ranges of one length, one behind the other. A run takes 48 bytes if its
//! records stand at even distances in the segment, and 4 bytes more for each if not.

use crate::record::Position;

/// A range of a block, in the body of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Byte of the block where it starts.
    pub offset: u64,
    /// Its bytes.
    pub length: u32,
    /// The record's place.
    pub at: Position,
    /// Byte of the record's body where it starts.
    pub skip: u32,
    /// Bytes of the record's body.
    pub body_bytes: u32,
}

impl Extent {
    /// A whole record.
    pub fn from_record(offset: u64, at: Position, body_bytes: u32) -> Extent {
        Extent { offset, length: body_bytes, at, skip: 0, body_bytes }
    }

    /// The byte of the block after its last one.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// The part of the extent from `start` up to `end`.
    pub fn within(&self, start: u64, end: u64) -> Option<Extent> {
        let (from, to) = (self.offset.max(start), self.end().min(end));
        let cut = from.checked_sub(self.offset)? as u32;
        let length = to.checked_sub(from).filter(|length| *length > 0)? as u32;
        Some(Extent { offset: from, length, skip: self.skip + cut, ..*self })
    }
}

/// Extents of one length and one segment, one behind the other in the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Byte of the block where the first one starts.
    pub offset: u64,
    /// The segment that all records are in.
    pub segment: u32,
    /// Bytes of each.
    pub length: u32,
    /// Byte of each record's body where it starts; 0 if there are several.
    pub skip: u32,
    /// Bytes of each record's body.
    pub body_bytes: u32,
    /// Where the records start in the segment.
    pub starts: Starts,
}

/// Places of the records of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starts {
    /// At even distances.
    Even {
        /// Byte of the segment where the first record starts.
        first: u32,
        /// Bytes from one start to the next; 0 for a single record.
        step: u32,
        /// Number of records.
        count: u32,
    },
    /// Each by itself.
    Listed(Vec<u32>),
}

impl Starts {
    /// How many there are.
    pub fn count(&self) -> u32 {
        match self {
            Starts::Even { count, .. } => *count,
            Starts::Listed(all) => all.len() as u32,
        }
    }

    /// The last one.
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

    /// The byte of the block after the last one.
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

    /// Whether the extent goes on where the run ends.
    fn is_continued_by(&self, extent: &Extent) -> bool {
        let is_whole = extent.skip == 0 && extent.length == extent.body_bytes;
        is_whole
            && self.skip == 0
            && (self.length, self.body_bytes) == (extent.length, extent.body_bytes)
            && self.segment == extent.at.segment
            && self.end() == extent.offset
    }
}

/// The extents of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    runs: Vec<Run>,
}

impl Extents {
    /// The byte after the last one.
    pub fn end(&self) -> u64 {
        self.runs.last().map_or(0, Run::end)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> {
        self.runs.iter().flat_map(Run::extents)
    }

    /// The runs that they are kept as, in order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Adds a run behind the others, as it was kept before.
    pub fn push_run(&mut self, run: Run) {
        if self.runs.len() == self.runs.capacity() {
            // Most blocks have one.
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

    /// The first extent that ends behind `start`, and what follows.
    fn from(&self, start: u64) -> impl Iterator<Item = Extent> {
        let first = self.runs.partition_point(|run| run.end() <= start);
        let runs = self.runs.get(first..).unwrap_or_default();
        runs.iter().flat_map(move |run| {
            let before = start.saturating_sub(run.offset) / u64::from(run.length.max(1));
            let before = u32::try_from(before).unwrap_or(u32::MAX);
            (before..run.starts.count()).map(|index| run.get(index))
        })
    }

    /// Those that lie in the record at `at`, which was written for the range from `start` up to
    /// `end`.
    pub fn in_record(&self, at: Position, start: u64, end: u64) -> impl Iterator<Item = Extent> {
        let near = self.from(start).take_while(move |extent| extent.offset < end);
        near.filter(move |extent| extent.at == at)
    }

    /// Puts an extent over the present ones. Each extent that it touches is removed, and the parts
    /// of it outside the new one are put back. `changed` is called for each, and for the new one;
    /// its flag is `true` for an extent that is added.
    pub fn put(&mut self, extent: Extent, changed: &mut impl FnMut(&Extent, bool)) {
        changed(&extent, true);
        if extent.offset >= self.end() {
            self.push(&extent);
            return;
        }
        // The runs that it touches are taken apart and made again.
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

    /// The extents from `start` up to `end`, in order; or the first byte of that range that no
    /// extent covers.
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
