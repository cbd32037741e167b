//! Reads one segment of the log, record by record, and finds records behind damage.

use std::io;

use storage::disk::Disk;

use crate::error::ChunkError;
use crate::limits::{BLOCK_BYTES, READ_WINDOW_BYTES};
use crate::record::{
    HEADER_BYTES, Header, MAGIC, Position, RECORD_ALIGNMENT, Salt, decode_header, decode_trailer,
    first_bad_piece, trailer_bytes,
};
use crate::segment::segment_path;

const MAGIC_BYTES: [u8; 4] = MAGIC.to_le_bytes();

/// Bytes that are searched for a header at a time.
const SEARCH_BYTES: u32 = 64 * 1024;

/// The content of a segment at one offset.
#[derive(Debug)]
pub enum Step<'a> {
    /// An intact record, and the offset where to look for the next one.
    Record(Header, &'a [u8], u32),
    /// A record with an intact header and a damaged body or trailer.
    Broken(Header, String, u32),
    /// No record, though one could start here; with the reason.
    Nothing(String),
    /// Zeros: nothing was written here. More records may follow from the next disk block on.
    Zeros,
}

/// The result of a search for a header.
#[derive(Debug)]
pub struct Search {
    /// The header that was found, if any.
    pub found: Option<Header>,
    /// Whether everything that was searched is zeros.
    pub is_blank: bool,
}

/// A reader of one segment's records.
pub struct SegmentReader<'a, D: Disk> {
    disk: &'a D,
    file: D::File,
    number: u32,
    salt: Salt,
    window: Vec<u8>,
    window_start: u32,
}

impl<'a, D: Disk> SegmentReader<'a, D> {
    /// Opens segment `number` of a store with that salt.
    pub fn open(disk: &'a D, number: u32, salt: Salt) -> Result<SegmentReader<'a, D>, ChunkError> {
        let path = segment_path(number);
        let file = disk.open_read_only(&path);
        let file = file.map_err(|error| ChunkError::io(&path, "open", error))?;
        Ok(SegmentReader { disk, file, number, salt, window: Vec::new(), window_start: 0 })
    }

    /// Reads what is at offset `at`. Records end before `stop`.
    pub fn step(&mut self, at: u32, stop: u32) -> Result<Step<'_>, ChunkError> {
        let here = Position { segment: self.number, offset: at };
        let rest_of_block = (at + 1).next_multiple_of(BLOCK_BYTES) - at;
        let zeros =
            if rest_of_block == BLOCK_BYTES { HEADER_BYTES } else { rest_of_block as usize };
        if self.bytes(at, zeros)?.iter().all(|byte| *byte == 0) {
            return Ok(Step::Zeros);
        }
        let salt = self.salt;
        let bytes = self.bytes(at, HEADER_BYTES)?;
        let header = match decode_header(bytes, here, salt) {
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
        let crcs = match decode_trailer(&header, trailer, salt) {
            Ok(crcs) => crcs,
            Err(error) => return Ok(Step::Broken(header, error.to_string(), next)),
        };
        if let Some(index) = first_bad_piece(body, 0, &crcs) {
            let what = format!("piece {index} of the record does not match its checksum");
            return Ok(Step::Broken(header, what, next));
        }
        Ok(Step::Record(header, body, next))
    }

    /// Bytes from offset `at` on; fewer at the end of the file.
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

    /// Finds the next intact header at offset `at` or later, before `stop`. Also tells whether only
    /// zeros were passed. Records start at multiples of [`RECORD_ALIGNMENT`].
    pub fn find_header(&mut self, at: u32, stop: u32) -> Result<Search, ChunkError> {
        let salt = self.salt;
        let mut at = at.next_multiple_of(RECORD_ALIGNMENT);
        let mut is_blank = true;
        while at < stop {
            let wanted = (stop - at).min(SEARCH_BYTES) as usize;
            let bytes = self.bytes(at, wanted)?;
            if bytes.is_empty() {
                break;
            }
            let count = bytes.len() as u32;
            if bytes.iter().all(|byte| *byte == 0) {
                at += count.next_multiple_of(RECORD_ALIGNMENT);
                continue;
            }
            is_blank = false;
            let words = bytes.chunks(RECORD_ALIGNMENT as usize);
            let starts = words.enumerate().filter(|(_, word)| word.starts_with(&MAGIC_BYTES));
            let starts: Vec<u32> =
                starts.map(|(index, _)| at + index as u32 * RECORD_ALIGNMENT).collect();
            for start in starts {
                let here = Position { segment: self.number, offset: start };
                if let Ok(header) = decode_header(self.bytes(start, HEADER_BYTES)?, here, salt) {
                    return Ok(Search { found: Some(header), is_blank });
                }
            }
            at += count.next_multiple_of(RECORD_ALIGNMENT);
        }
        Ok(Search { found: None, is_blank })
    }
}

/// Whether a record from offset `at` on in this segment shows that the log was durable beyond
/// `place`; and whether only zeros were found.
pub(crate) fn says_durable<D: Disk>(
    reader: &mut SegmentReader<'_, D>,
    at: u32,
    stop: u32,
    place: Position,
) -> Result<(bool, bool), ChunkError> {
    let (mut at, mut is_blank) = (at, true);
    loop {
        let search = reader.find_header(at, stop)?;
        is_blank &= search.is_blank;
        match search.found {
            None => return Ok((false, is_blank)),
            Some(header) if header.durable > place => return Ok((true, false)),
            Some(header) => at = header.at.offset + 1,
        }
    }
}

/// Reads until the buffer is full or the file ends; returns the number of bytes read.
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
