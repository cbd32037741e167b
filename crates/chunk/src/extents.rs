//! Where the bytes of a block are in the log: ranges of the block, each in one record.
//!
//! Sorted by their place in the block, without overlap. What is written later lies over what was
//! there.

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
    pub fn of_record(offset: u64, at: Position, body_bytes: u32) -> Extent {
        Extent { offset, length: body_bytes, at, skip: 0, body_bytes }
    }

    /// The byte of the block after its last one.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// What of it lies from `start` up to `end`.
    pub fn within(&self, start: u64, end: u64) -> Option<Extent> {
        let (from, to) = (self.offset.max(start), self.end().min(end));
        let cut = from.checked_sub(self.offset)? as u32;
        let length = to.checked_sub(from).filter(|length| *length > 0)? as u32;
        Some(Extent { offset: from, length, skip: self.skip + cut, ..*self })
    }
}

/// The extents of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    sorted: Vec<Extent>,
}

impl Extents {
    /// The byte after the last one.
    pub fn end(&self) -> u64 {
        self.sorted.last().map_or(0, Extent::end)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.sorted.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Those that lie in the record at `at`, which was written for the range from `start` up to
    /// `end`.
    pub fn in_record(&self, at: Position, start: u64, end: u64) -> impl Iterator<Item = &Extent> {
        let first = self.sorted.partition_point(|extent| extent.end() <= start);
        let near = self.sorted.iter().skip(first).take_while(move |extent| extent.offset < end);
        near.filter(move |extent| extent.at == at)
    }

    /// Puts one over what is there.
    pub fn put(&mut self, extent: Extent) {
        if extent.offset >= self.end() {
            self.sorted.push(extent);
            return;
        }
        let first = self.sorted.partition_point(|other| other.end() <= extent.offset);
        let last = self.sorted.partition_point(|other| other.offset < extent.end());
        let mut instead = Vec::with_capacity(3);
        if let Some(covered) = self.sorted.get(first) {
            instead.extend(covered.within(covered.offset, extent.offset));
        }
        instead.push(extent);
        if let Some(covered) = last.checked_sub(1).and_then(|index| self.sorted.get(index)) {
            instead.extend(covered.within(extent.end(), covered.end()));
        }
        self.sorted.splice(first..last.max(first), instead);
    }

    /// What lies from `start` up to `end`, in order; or the first byte of that range of which
    /// nothing is known.
    pub fn within(&self, start: u64, end: u64) -> Result<Vec<Extent>, u64> {
        let first = self.sorted.partition_point(|extent| extent.end() <= start);
        let mut found = Vec::new();
        let mut at = start;
        for extent in self.sorted.iter().skip(first) {
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
