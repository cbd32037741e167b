//! Reads the log from a position to its end: at every start, and to check it.
//!
//! A bad record is either torn (the machine stopped while it was being written) or durable data
//! that was damaged. It is damage if anything behind it shows that the log was durable beyond that
//! position: then reading continues at the next record, and the damage is reported. Otherwise the
//! log ends before the bad record; the bytes behind are kept, and are not part of the log. (What
//! the very last sync made durable, with nothing written after it, has no such proof: damage there
//! counts as torn.)

use storage::disk::Disk;

use crate::chain::{Chain, Link, Segments};
use crate::damage::Damage;
use crate::error::ChunkError;
use crate::identity::Identity;
use crate::limits::BLOCK_BYTES;
use crate::record::{Header, Position, Salt};
use crate::segment::FIRST_RECORD;
pub use crate::segment::Start;
use crate::segment_reader::{SegmentReader, Step, says_durable};

/// The result of reading the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// The position where the log ends.
    pub end: Position,
    /// Offset of the last record in that segment; `None` if the log must not continue there,
    /// because something other than zeros follows or the segment is not intact.
    pub goes_on: Option<u32>,
    /// Numbers of the segments that were read.
    pub segments: Vec<u32>,
    /// The torn end of the log, if any: bytes that were being written when the machine or the
    /// process stopped, and were never reported as durable.
    pub cut: Option<Cut>,
}

/// The torn end of the log. Its bytes stay on disk and are not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The position where the log ends.
    pub end: Position,
    /// A description of the bytes at that position, for people.
    pub what: String,
    /// Numbers of segments behind it that are not part of the log.
    pub segments: Vec<u32>,
}

impl core::fmt::Display for Cut {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Cut { end, what, segments } = self;
        write!(f, "the log was cut off at {end}: {what}")?;
        match segments.len() {
            0 => write!(f, "; what lies behind was never durable"),
            count => write!(f, "; what lies behind, and {count} segments, was never durable"),
        }
    }
}

/// Reads from `start` to the end of the log, and passes each record to `visit`; without its body if
/// the body is damaged.
pub(crate) fn scan<D: Disk>(
    disk: &D,
    identity: &Identity,
    segments: &Segments,
    start: Start,
    damage: &mut Vec<Damage>,
    visit: &mut impl FnMut(&Header, Option<&[u8]>) -> Result<(), ChunkError>,
) -> Result<Scanned, ChunkError> {
    let Chain { links, torn } = segments.chain(disk, identity, start, damage)?;
    let mut scanned = Scanned::default();
    if start != Start::FIRST {
        scanned.end = start.at;
    }
    for (index, link) in links.iter().enumerate() {
        scanned.segments.push(link.number);
        let later = links.get(index + 1..).unwrap_or_default();
        let mut segment = SegmentScan::open(disk, identity.salt, *link, later, start)?;
        let found = damage.len();
        match segment.read(later, damage, visit)? {
            Ended::Whole => {
                scanned.end = Position { segment: link.number, offset: segment.stop };
                scanned.goes_on = None;
            }
            Ended::Cut { what, is_blank } => {
                scanned.end = Position { segment: link.number, offset: segment.at };
                let is_whole = link.follows.is_some()
                    && link.bytes == link.made_bytes
                    && damage.len() == found;
                let goes_on = is_whole && is_blank && later.is_empty() && torn.is_empty();
                scanned.goes_on = segment.previous.filter(|_| goes_on);
                if !is_blank || !later.is_empty() {
                    let cut_off = later.iter().map(|link| link.number).chain(torn);
                    let segments = cut_off.collect();
                    scanned.cut = Some(Cut { end: scanned.end, what, segments });
                    return Ok(scanned);
                }
                break;
            }
        }
    }
    if !torn.is_empty() {
        let what = "a segment behind it has no head".to_owned();
        scanned.cut = Some(Cut { end: scanned.end, what, segments: torn });
    }
    Ok(scanned)
}

/// Why reading a segment ended.
enum Ended {
    /// The position was reached that the next segment follows.
    Whole,
    /// The log was cut off here, or nothing more was written.
    Cut { what: String, is_blank: bool },
}

/// The state of reading one segment.
struct SegmentScan<'a, D: Disk> {
    disk: &'a D,
    reader: SegmentReader<'a, D>,
    number: u32,
    salt: Salt,
    at: u32,
    /// Records end before this offset.
    stop: u32,
    /// Offset of the record before, if known.
    previous: Option<u32>,
}

impl<'a, D: Disk> SegmentScan<'a, D> {
    fn open(
        disk: &'a D,
        salt: Salt,
        link: Link,
        later: &[Link],
        start: Start,
    ) -> Result<SegmentScan<'a, D>, ChunkError> {
        let Link { number, bytes, made_bytes, .. } = link;
        let is_first = number == start.at.segment;
        let (at, previous) =
            if is_first { (start.at.offset, start.previous) } else { (FIRST_RECORD, Some(0)) };
        let follows = later.first().and_then(|next| next.follows);
        let follows = follows.filter(|follows| follows.segment == number);
        let stop = follows.map_or(bytes, |follows| follows.offset.min(made_bytes));
        let reader = SegmentReader::open(disk, number, salt)?;
        Ok(SegmentScan { disk, reader, number, salt, at, stop, previous })
    }

    fn read(
        &mut self,
        later: &[Link],
        damage: &mut Vec<Damage>,
        visit: &mut impl FnMut(&Header, Option<&[u8]>) -> Result<(), ChunkError>,
    ) -> Result<Ended, ChunkError> {
        while self.at < self.stop {
            let here = Position { segment: self.number, offset: self.at };
            let (broken, what) = match self.reader.step(self.at, self.stop)? {
                Step::Record(header, body, next) => {
                    if self.previous.is_none_or(|previous| previous == header.previous) {
                        visit(&header, Some(body))?;
                        self.previous = Some(self.at);
                        self.at = next;
                        continue;
                    }
                    (None, "a record before this one is missing".to_owned())
                }
                Step::Zeros if !self.at.is_multiple_of(BLOCK_BYTES) => {
                    self.at = self.at.next_multiple_of(BLOCK_BYTES);
                    continue;
                }
                Step::Zeros => (None, "zeros".to_owned()),
                Step::Nothing(what) => (None, what),
                Step::Broken(header, what, next) => (Some((header, next)), what),
            };
            let (is_durable, is_blank) = self.is_durable(here, later)?;
            if !is_durable {
                return Ok(Ended::Cut { what, is_blank });
            }
            self.at = match broken {
                Some((header, next)) => {
                    visit(&header, None)?;
                    self.previous = Some(self.at);
                    next
                }
                None => {
                    self.previous = None;
                    let found = self.reader.find_header(self.at, self.stop)?.found;
                    found.map_or(self.stop, |header| header.at.offset)
                }
            };
            let end = Position { segment: self.number, offset: self.at };
            damage.push(Damage::Log { start: here, end, what });
        }
        Ok(Ended::Whole)
    }

    /// Whether anything from `here` on shows that the log was durable beyond `here`; and whether
    /// only zeros follow.
    fn is_durable(&mut self, here: Position, later: &[Link]) -> Result<(bool, bool), ChunkError> {
        if later.iter().any(|link| link.durable > here) {
            return Ok((true, false));
        }
        let (is_durable, is_blank) = says_durable(&mut self.reader, here.offset, self.stop, here)?;
        if is_durable {
            return Ok((true, false));
        }
        for link in later {
            let mut reader = SegmentReader::open(self.disk, link.number, self.salt)?;
            if says_durable(&mut reader, FIRST_RECORD, link.bytes, here)?.0 {
                return Ok((true, false));
            }
        }
        Ok((false, is_blank))
    }
}
