//! Reading the log from a place to its end: at every start, and to check it.
//!
//! A record that is not whole is either torn, the last thing that was being written when the
//! machine stopped, or damage to what was durable. It is damage if the log says anywhere behind it
//! that it was durable beyond that place: then what follows is found again at the next block where
//! a record starts, and the damage is reported. Otherwise the log ends before it. (What was durable
//! by the very last sync, with nothing written after it, has no such proof: damage there counts as
//! torn.)

use std::io;

use storage::disk::Disk;

use crate::error::ChunkError;
use crate::limits::{BLOCK_BYTES, READ_WINDOW_BYTES, SEGMENT_BYTES_MAX, SEGMENTS_MAX};
use crate::record::{
    HEADER_BYTES, Header, Position, decode_header, decode_trailer, first_bad_piece, trailer_bytes,
};
use crate::segment::{FIRST_RECORD, Head, LOG_DIR, decode_head, parse_segment_name, segment_path};

/// A part of the log that was durable and is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it starts.
    pub start: Position,
    /// Where the log is whole again.
    pub end: Position,
    /// What is wrong.
    pub what: String,
}

impl core::fmt::Display for Damage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Damage { start, end, what } = self;
        write!(f, "the log is damaged from {start} to {end}: {what}")
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Where the log ends.
    pub end: Position,
    /// What is damaged before.
    pub damage: Vec<Damage>,
    /// Segments behind the end, which hold nothing.
    pub beyond: Vec<u32>,
}

/// What stands at a place of a segment.
#[derive(Debug)]
pub enum Step<'a> {
    /// A whole record, and where the next one is looked for.
    Record(Header, &'a [u8], u32),
    /// A record whose body or trailer is not what was written.
    Broken(Header, String, u32),
    /// No record, though one could be here.
    Nothing(String),
    /// Zeros: nothing was written here. What was written before may go on at the next block.
    Zeros,
}

/// The numbers of all segments, sorted.
pub fn list_segments<D: Disk>(disk: &D) -> Result<Vec<u32>, ChunkError> {
    let names = disk.list(LOG_DIR).map_err(|error| ChunkError::io(LOG_DIR, "list", error))?;
    let numbers: Vec<u32> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    match numbers.len() > SEGMENTS_MAX {
        true => Err(ChunkError::BadStore {
            file: LOG_DIR.to_owned(),
            what: format!("there are more than {SEGMENTS_MAX} segments"),
        }),
        false => Ok(numbers),
    }
}

/// Reads from `start` to the end of the log, and hands out each record; one whose body is damaged
/// without its body.
pub fn scan<D: Disk>(
    disk: &D,
    store_id: u128,
    start: Position,
    visit: &mut impl FnMut(&Header, Option<&[u8]>) -> Result<(), ChunkError>,
) -> Result<Scanned, ChunkError> {
    let mut damage = Vec::new();
    let (chain, mut beyond) = chain_of(disk, store_id, start, &mut damage)?;
    let mut end = start;
    for (index, link) in chain.iter().enumerate() {
        let later = chain.get(index + 1..).unwrap_or_default();
        let number = link.head.number;
        let from = if number == start.segment { start.offset } else { FIRST_RECORD };
        let mut reader = SegmentReader::open(disk, link.head.number)?;
        let follows = later.first().map(|next| next.head.follows);
        let follows = follows.filter(|follows| follows.segment == number);
        let stop = follows.map_or(link.head.bytes, |it| it.offset.min(link.head.bytes));
        let stop = if later.is_empty() { stop.min(reader.length()?) } else { stop };
        let mut at = from;
        // Where a scan starts in the middle of a segment, nobody knows the record before.
        let mut previous = (from == FIRST_RECORD).then_some(0);
        while at < stop {
            let here = Position { segment: number, offset: at };
            let (broken, what) = match reader.step(at, stop)? {
                Step::Record(header, body, next) => {
                    if previous.is_none_or(|previous| previous == header.previous) {
                        visit(&header, Some(body))?;
                        previous = Some(at);
                        at = next;
                        continue;
                    }
                    (None, "a record before this one is missing".to_owned())
                }
                Step::Zeros if !at.is_multiple_of(BLOCK_BYTES) => {
                    at = at.next_multiple_of(BLOCK_BYTES);
                    continue;
                }
                Step::Zeros => (None, "zeros".to_owned()),
                Step::Nothing(what) => (None, what),
                Step::Broken(header, what, next) => (Some((header, next)), what),
            };
            let is_durable = later.iter().any(|link| link.head.durable > here)
                || has_later(&mut reader, at, stop, here)?
                || has_later_in(disk, later, here)?;
            if !is_durable {
                beyond.extend(later.iter().map(|link| link.head.number));
                return Ok(Scanned { end: here, damage, beyond });
            }
            at = match broken {
                Some((header, next)) => {
                    visit(&header, None)?;
                    previous = Some(at);
                    next
                }
                None => {
                    previous = None;
                    next_whole(&mut reader, at, stop)?
                }
            };
            let end = Position { segment: number, offset: at };
            damage.push(Damage { start: here, end, what });
        }
        end = Position { segment: number, offset: stop };
    }
    Ok(Scanned { end, damage, beyond })
}

#[derive(Debug)]
struct Link {
    head: Head,
}

/// The segments that the log consists of from `start` on, in order, and those that it does not.
fn chain_of<D: Disk>(
    disk: &D,
    store_id: u128,
    start: Position,
    damage: &mut Vec<Damage>,
) -> Result<(Vec<Link>, Vec<u32>), ChunkError> {
    let mut heads = Vec::new();
    let mut beyond = Vec::new();
    let mut numbers = list_segments(disk)?;
    numbers.retain(|number| *number >= start.segment);
    for number in &numbers {
        match read_head(disk, store_id, *number)? {
            Ok(head) => heads.push(head),
            // The last one was in the making.
            Err(_) if numbers.last() == Some(number) => beyond.push(*number),
            // Its records say themselves where they belong.
            Err(what) => {
                let at = Position { segment: *number, offset: 0 };
                damage.push(Damage {
                    start: at,
                    end: Position { offset: FIRST_RECORD, ..at },
                    what,
                });
                heads.push(assumed_head(disk, store_id, *number)?);
            }
        }
    }
    let mut chain: Vec<Link> = Vec::new();
    while let Some(head) = heads.pop() {
        let follows = chain.last().map_or(head.number, |next| next.head.follows.segment);
        if follows > head.number {
            let at = Position { segment: head.number + 1, offset: 0 };
            let end = Position { segment: follows + 1, offset: 0 };
            damage.push(Damage { start: at, end, what: "a segment is missing".to_owned() });
        }
        match follows < head.number {
            true => beyond.push(head.number),
            false => chain.push(Link { head }),
        }
    }
    chain.reverse();
    Ok((chain, beyond))
}

/// What the head of a segment in the middle of the log would say if it could be read.
fn assumed_head<D: Disk>(disk: &D, store_id: u128, number: u32) -> Result<Head, ChunkError> {
    let path = segment_path(number);
    let file = disk.open_read_only(&path).and_then(|file| disk.len(&file));
    let bytes = file.map_err(|error| ChunkError::io(&path, "read", error))?;
    let bytes = u32::try_from(bytes).unwrap_or(SEGMENT_BYTES_MAX).min(SEGMENT_BYTES_MAX);
    let follows = Position { segment: number.saturating_sub(1), offset: u32::MAX };
    Ok(Head { store_id, number, bytes, follows, durable: Position::default() })
}

/// The head of a segment, or why it has none.
pub fn read_head<D: Disk>(
    disk: &D,
    store_id: u128,
    number: u32,
) -> Result<Result<Head, String>, ChunkError> {
    let path = segment_path(number);
    let file = disk.open_read_only(&path).map_err(|error| ChunkError::io(&path, "open", error))?;
    let mut block = vec![0; BLOCK_BYTES as usize];
    let count = read_fully(disk, &file, 0, &mut block)
        .map_err(|error| ChunkError::io(&path, "read", error))?;
    Ok(match decode_head(&block[..count]) {
        Ok(head) if head.store_id != store_id => Err("it belongs to another store".to_owned()),
        Ok(head) if head.number != number => Err("it is another segment".to_owned()),
        Ok(head) => Ok(head),
        Err(error) => Err(error.to_string()),
    })
}

/// Reads until the buffer is full or the file ends; how many bytes.
pub fn read_fully<D: Disk>(
    disk: &D,
    file: &D::File,
    offset: u64,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut fill = 0;
    while fill < buffer.len() {
        match disk.read_at(file, offset + fill as u64, &mut buffer[fill..])? {
            0 => break,
            count => fill += count,
        }
    }
    Ok(fill)
}

/// Reads records of one segment.
pub struct SegmentReader<'a, D: Disk> {
    disk: &'a D,
    file: D::File,
    number: u32,
    window: Vec<u8>,
    window_start: u32,
}

impl<'a, D: Disk> SegmentReader<'a, D> {
    /// Opens the segment's file.
    pub fn open(disk: &'a D, number: u32) -> Result<SegmentReader<'a, D>, ChunkError> {
        let path = segment_path(number);
        let file = disk.open_read_only(&path);
        let file = file.map_err(|error| ChunkError::io(&path, "open", error))?;
        Ok(SegmentReader { disk, file, number, window: Vec::new(), window_start: 0 })
    }

    /// Bytes of the file.
    pub fn length(&self) -> Result<u32, ChunkError> {
        let length = self.disk.len(&self.file);
        let path = || segment_path(self.number);
        let length = length.map_err(|error| ChunkError::io(&path(), "read", error))?;
        Ok(u32::try_from(length).unwrap_or(SEGMENT_BYTES_MAX))
    }

    /// What stands at byte `at`; records end before `stop`.
    pub fn step(&mut self, at: u32, stop: u32) -> Result<Step<'_>, ChunkError> {
        let here = Position { segment: self.number, offset: at };
        let rest_of_block = (at + 1).next_multiple_of(BLOCK_BYTES) - at;
        let zeros =
            if rest_of_block == BLOCK_BYTES { HEADER_BYTES } else { rest_of_block as usize };
        if self.bytes(at, zeros)?.iter().all(|byte| *byte == 0) {
            return Ok(Step::Zeros);
        }
        let bytes = self.bytes(at, HEADER_BYTES)?;
        let header = match decode_header(bytes, here) {
            Ok(header) => header,
            Err(error) => return Ok(Step::Nothing(error.to_string())),
        };
        let body_bytes = header.body_bytes as usize;
        let all = HEADER_BYTES + body_bytes + trailer_bytes(body_bytes);
        let next = at + all.next_multiple_of(8) as u32;
        if next > stop.next_multiple_of(BLOCK_BYTES) {
            return Ok(Step::Nothing("the record goes beyond the end".to_owned()));
        }
        let bytes = self.bytes(at, all)?;
        if bytes.len() < all {
            return Ok(Step::Broken(header, "the file ends within the record".to_owned(), next));
        }
        let (body, trailer) = bytes[HEADER_BYTES..].split_at(body_bytes);
        let crcs = match decode_trailer(&header, trailer) {
            Ok(crcs) => crcs,
            Err(error) => return Ok(Step::Broken(header, error.to_string(), next)),
        };
        if let Some(index) = first_bad_piece(body, 0, &crcs) {
            let what = format!("piece {index} of the record does not match its checksum");
            return Ok(Step::Broken(header, what, next));
        }
        Ok(Step::Record(header, body, next))
    }

    /// Bytes from `at` on, fewer at the end of the file.
    fn bytes(&mut self, at: u32, count: usize) -> Result<&[u8], ChunkError> {
        let within = at.checked_sub(self.window_start).map(|skip| skip as usize);
        let is_there = within.is_some_and(|skip| skip + count <= self.window.len());
        if !is_there {
            self.window.resize(count.max(READ_WINDOW_BYTES), 0);
            let read = read_fully(self.disk, &self.file, at.into(), &mut self.window);
            let path = || segment_path(self.number);
            let read = read.map_err(|error| ChunkError::io(&path(), "read", error))?;
            self.window.truncate(read);
            self.window_start = at;
        }
        let skip = (at - self.window_start) as usize;
        let end = self.window.len().min(skip + count);
        Ok(self.window.get(skip..end).unwrap_or_default())
    }
}

/// `at`, or the next block behind it where a whole record starts; `stop` if there is none.
fn next_whole<D: Disk>(
    reader: &mut SegmentReader<'_, D>,
    at: u32,
    stop: u32,
) -> Result<u32, ChunkError> {
    let mut at = at;
    while at < stop {
        if matches!(reader.step(at, stop)?, Step::Record(..)) {
            return Ok(at);
        }
        at = (at + 1).next_multiple_of(BLOCK_BYTES);
    }
    Ok(stop)
}

/// Whether a record from `at` on in this segment says that the log was durable beyond `place`.
fn has_later<D: Disk>(
    reader: &mut SegmentReader<'_, D>,
    at: u32,
    stop: u32,
    place: Position,
) -> Result<bool, ChunkError> {
    let mut at = at;
    while at < stop {
        at = match reader.step(at, stop)? {
            Step::Record(header, _, _) if header.durable > place => return Ok(true),
            Step::Record(_, _, next) => next,
            _ => (at + 1).next_multiple_of(BLOCK_BYTES),
        };
    }
    Ok(false)
}

fn has_later_in<D: Disk>(disk: &D, links: &[Link], place: Position) -> Result<bool, ChunkError> {
    for link in links {
        let mut reader = SegmentReader::open(disk, link.head.number)?;
        if has_later(&mut reader, FIRST_RECORD, link.head.bytes, place)? {
            return Ok(true);
        }
    }
    Ok(false)
}
