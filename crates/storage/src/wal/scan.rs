//! Reads segments: their heads, their frames, and what lies behind the last good frame. Never
//! writes.
//!
//! **Torn or corrupt.** A segment's good frames end at the first bad one, at offset X. A *mark* is
//! an offset in the segment below which everything was durable when the mark was written. If any
//! mark is greater than X, the bytes at X were durable and were damaged since: corruption.
//! Otherwise X belongs to a write that no sync covered, and it is cut off. Marks are offsets, not
//! frame numbers, because only the offset of a bad frame is known. Marks are in
//!
//! - every good frame: its writer knew what was durable then;
//! - the head of the segment: it covers frames behind the head that a start carried over from the
//!   segment before, and that were durable before the head was written;
//! - the two slots at the start of the segment, written when the log was idle, and when the next
//!   segment was started;
//! - good headers *behind* X. All frames of one batch carry the mark from before the batch, so a
//!   torn batch never has a mark above its own start. Only a frame of a later batch has a higher
//!   one, and the batch with X was durable before that frame was written. This finds damage in all
//!   but the last batch even if no slot was written.
//!
//! A mark is believed wherever it is found: it was true when it was written, even if the mark
//! itself is not durable.

use bytes::Bytes;

use crate::disk::{Disk, WAL_DIR};
use crate::error::StorageError;
use crate::limits::{FILE_NUMBER_MAX, READ_WINDOW_BYTES, SEGMENT_BYTES_MAX, SEGMENTS_MAX};
use crate::record::{
    FRAME_ALIGN_BYTES, FRAMES_START, FrameHeader, FrameKind, HEADER_BYTES, Head,
    LOG_FORMAT_VERSION, Link, SLOT_BYTES, SLOT_OFFSETS, Slot, decode_body, decode_head,
    decode_head_version, decode_header, decode_slot,
};

/// Path of the segment with number `sequence`.
pub fn log_path(sequence: u64) -> String {
    format!("{WAL_DIR}/{sequence:016x}.log")
}

/// Whether a file of this name, in a directory of the log, is a segment.
pub fn is_log_name(name: &str) -> bool {
    name.strip_suffix(".log").is_some_and(|digits| parse_number(digits).is_some())
}

/// Path of a spare: a file that is allocated and filled, and not part of the log.
pub(crate) fn spare_path(number: u64) -> String {
    format!("{WAL_DIR}/{number:016x}.spare")
}

/// Path of a spare that is being filled.
pub(crate) fn temporary_path(number: u64) -> String {
    format!("{WAL_DIR}/{number:016x}.tmp")
}

/// The files of the log's directory, each list sorted.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Numbers of `.log` files.
    pub logs: Vec<u64>,
    /// Numbers of `.spare` files.
    pub spares: Vec<u64>,
    /// Numbers of `.tmp` files.
    pub temporaries: Vec<u64>,
}

impl Listing {
    /// Lists the directory. Ignores names that this crate did not make.
    pub fn read<D: Disk>(disk: &D) -> Result<Listing, StorageError> {
        let names = disk.list(WAL_DIR);
        let names = names.map_err(|error| StorageError::io(WAL_DIR, "list", error))?;
        let mut listing = Listing::default();
        for name in names {
            let Some((digits, ending)) = name.split_once('.') else {
                continue;
            };
            let Some(number) = parse_number(digits).filter(|number| *number <= FILE_NUMBER_MAX)
            else {
                continue;
            };
            match ending {
                "log" => listing.logs.push(number),
                "spare" => listing.spares.push(number),
                "tmp" => listing.temporaries.push(number),
                _ => {}
            }
        }
        match listing.logs.len() > SEGMENTS_MAX {
            true => Err(StorageError::corrupt(WAL_DIR, 0, "there are too many segments")),
            false => Ok(listing),
        }
    }

    /// The number for the next file: greater than that of every file here. A file holds no frames
    /// of a generation above its own number, so no file holds frames of the returned number.
    pub fn number_next(&self) -> Result<u64, StorageError> {
        let lists = [&self.logs, &self.spares, &self.temporaries];
        let last = lists.iter().filter_map(|list| list.last()).max();
        let last = last.copied().unwrap_or(0);
        match last < FILE_NUMBER_MAX {
            true => Ok(last.saturating_add(1)),
            false => Err(StorageError::corrupt(WAL_DIR, 0, "no number is left for a file")),
        }
    }
}

/// Parses sixteen lower-case hexadecimal digits.
pub(crate) fn parse_number(digits: &str) -> Option<u64> {
    let is_ours =
        digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match is_ours {
        true => u64::from_str_radix(digits, 16).ok(),
        false => None,
    }
}

/// A file that is read through a window, so that a large segment is never in memory as a whole.
pub(crate) struct Window<'d, D: Disk> {
    disk: &'d D,
    file: D::File,
    path: String,
    length: u64,
    start: u64,
    /// The bytes of the window. Entries that are slices of it keep it in memory.
    bytes: Bytes,
}

impl<'d, D: Disk> Window<'d, D> {
    /// Opens `path` for reading only.
    pub fn open(disk: &'d D, path: String) -> Result<Window<'d, D>, StorageError> {
        let file = disk.open_read_only(&path);
        let file = file.map_err(|error| StorageError::io(&path, "open", error))?;
        let length = disk.len(&file);
        let length = length.map_err(|error| StorageError::io(&path, "measure", error))?;
        Ok(Window {
            disk,
            file,
            path,
            length: length.min(SEGMENT_BYTES_MAX),
            start: 0,
            bytes: Bytes::new(),
        })
    }

    /// Bytes in the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// `count` bytes at `offset`, or `None` if the file ends before.
    pub fn get(&mut self, offset: u64, count: usize) -> Result<Option<Bytes>, StorageError> {
        let Some(end) = offset.checked_add(count as u64) else {
            return Ok(None);
        };
        if end > self.length {
            return Ok(None);
        }
        let window_end = self.start.saturating_add(self.bytes.len() as u64);
        if offset < self.start || end > window_end {
            self.fill(offset, count)?;
        }
        let skip = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let stop = skip.saturating_add(count);
        let is_there = stop <= self.bytes.len();
        Ok(is_there.then(|| self.bytes.slice(skip..stop)))
    }

    fn fill(&mut self, offset: u64, count: usize) -> Result<(), StorageError> {
        let rest = self.length.saturating_sub(offset);
        let wanted = (count.max(READ_WINDOW_BYTES) as u64).min(rest) as usize;
        self.start = offset;
        self.bytes = Bytes::new();
        let mut bytes = vec![0; wanted];
        let mut done = 0;
        while let Some(target) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            let read = self.disk.read_at(&self.file, at, target);
            match read.map_err(|error| StorageError::io(&self.path, "read", error))? {
                0 => break,
                count => done = done.saturating_add(count),
            }
        }
        bytes.truncate(done);
        self.bytes = bytes.into();
        Ok(())
    }
}

/// A segment whose head was read and is good.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// The segment's number, which is also the generation of its frames.
    pub sequence: u64,
    /// The log's group.
    pub group: u32,
    /// The content of the head.
    pub head: Head,
    /// The last index of the log before this segment.
    pub base_index: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Header checksum of the head: the salt of all other frames' checksums.
    pub salt: u32,
    /// The offset where the head ends.
    pub head_end: u64,
    /// The head's mark: everything below this offset, but the head, was durable before the head was
    /// written.
    pub mark: u64,
    /// The better of the two slots, with its position (0 or 1): a seal is better than a slot that
    /// is none, and then the higher mark is better. `None` if no slot of this segment is intact.
    pub slot: Option<(usize, Slot)>,
}

/// The result of reading a segment's head.
#[derive(Debug)]
pub(crate) enum HeadFound {
    /// A good head.
    Good(Box<Segment>),
    /// No good head of this segment. `was_durable` if a slot shows that the head was durable once.
    Bad { what: String, was_durable: bool },
}

/// Reads the head of a segment. An error means that the disk failed, or that the head is intact and
/// cannot be used: its group is not `group` (if given), or its version is newer.
pub(crate) fn read_head<D: Disk>(
    disk: &D,
    sequence: u64,
    group: Option<u32>,
) -> Result<HeadFound, StorageError> {
    let path = log_path(sequence);
    let mut window = Window::open(disk, path.clone())?;
    let slot = read_slots(&mut window, sequence)?;
    let place = Place { generation: sequence, salt: 0, offset: FRAMES_START, chain: None };
    let bad = |what: &str| HeadFound::Bad {
        what: what.to_owned(),
        was_durable: slot.is_some_and(|(_, slot)| slot.mark > FRAMES_START || slot.is_sealed),
    };
    let bytes = window.length();
    let frame = read_frame(&mut window, &place)?;
    let (header, salt, body) = match frame {
        Ok((header, _, _)) if header.kind != FrameKind::Head => {
            return Ok(bad("the first frame is not a head"));
        }
        Ok(frame) => frame,
        Err(what) => return Ok(bad(what)),
    };
    let corrupt = |what: String| StorageError::corrupt(&path, FRAMES_START, what);
    let version = decode_head_version(&body).map_err(|error| corrupt(error.to_string()))?;
    if version > LOG_FORMAT_VERSION {
        return Err(StorageError::UnknownFormat {
            file: path,
            version,
            version_max: LOG_FORMAT_VERSION,
        });
    }
    if let Some(group) = group.filter(|group| *group != header.group) {
        let found = header.group;
        return Err(corrupt(format!("the log is of group {found}, not {group}")));
    }
    let head = decode_head(&body).map_err(|error| corrupt(error.to_string()))?;
    Ok(HeadFound::Good(Box::new(Segment {
        sequence,
        group: header.group,
        head,
        base_index: header.index,
        bytes,
        salt,
        head_end: FRAMES_START.saturating_add(header.frame_bytes()),
        mark: header.mark.max(FRAMES_START),
        slot,
    })))
}

fn read_slots<D: Disk>(
    window: &mut Window<D>,
    generation: u64,
) -> Result<Option<(usize, Slot)>, StorageError> {
    let mut best: Option<(usize, Slot)> = None;
    for (position, offset) in SLOT_OFFSETS.into_iter().enumerate() {
        let bytes = window.get(offset, SLOT_BYTES)?;
        // A bad slot was torn, never written, or damaged: it is ignored.
        let Some(slot) = bytes.and_then(|bytes| decode_slot(&bytes).ok()) else {
            continue;
        };
        let rank = |slot: &Slot| (slot.is_sealed, slot.mark);
        let is_better = best.is_none_or(|(_, best)| rank(&slot) > rank(&best));
        if slot.generation == generation && is_better {
            best = Some((position, slot));
        }
    }
    Ok(best)
}

/// Where a frame is expected, and the `chain` that it must have (`None` accepts any).
struct Place {
    generation: u64,
    salt: u32,
    offset: u64,
    chain: Option<u32>,
}

type Frame = (FrameHeader, u32, Bytes);

/// The frame at a place, or what is wrong there.
fn read_frame<D: Disk>(
    window: &mut Window<D>,
    place: &Place,
) -> Result<Result<Frame, &'static str>, StorageError> {
    let (header, crc) = match read_header(window, place)? {
        Ok(header) => header,
        Err(what) => return Ok(Err(what)),
    };
    if place.chain.is_some_and(|chain| chain != header.chain) {
        return Ok(Err("a frame does not follow the one before"));
    }
    let start = place.offset.saturating_add(HEADER_BYTES as u64);
    let padded = header.frame_bytes().saturating_sub(HEADER_BYTES as u64);
    let Some(bytes) = window.get(start, usize::try_from(padded).unwrap_or(usize::MAX))? else {
        return Ok(Err("a frame's body ends behind the file"));
    };
    Ok(match decode_body(&header, &bytes) {
        Ok(body) => {
            let body = bytes.slice_ref(body);
            Ok((header, crc, body))
        }
        Err(error) => Err(error.what),
    })
}

type HeaderRead = Result<(FrameHeader, u32), &'static str>;

fn read_header<D: Disk>(window: &mut Window<D>, place: &Place) -> Result<HeaderRead, StorageError> {
    let Some(bytes) = window.get(place.offset, HEADER_BYTES)? else {
        return Ok(Err("the file ends"));
    };
    Ok(match decode_header(&bytes, place.salt) {
        Ok((header, _)) if header.generation != place.generation => {
            Err("a frame is of another generation")
        }
        Ok((header, _)) if header.offset != place.offset => Err("a frame is in the wrong place"),
        Ok(read) => Ok(read),
        Err(error) => Err(error.what),
    })
}

/// The torn bytes behind the last good frame of the log's last segment. They do not count as log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Number of the last segment.
    pub segment: u64,
    /// The offset where the torn bytes start.
    pub offset: u64,
    /// Bytes from `offset` to the end of the last frame header or frame that was recognised.
    pub bytes: u64,
}

/// The result of a [`scan`]: facts about the good frames of one segment.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    /// The offset where the last good frame ends.
    pub end: u64,
    /// Header checksum of the last good frame.
    pub chain: u32,
    /// The highest mark found in the head, the slots and the frames; at most `end`.
    pub mark: u64,
    /// Number of good frames, with the head.
    pub frame_count: u64,
    /// The lowest entry index among the frames, if they hold an entry.
    pub entry_index_min: Option<u64>,
    /// The torn bytes behind the end, if any.
    pub tail: Option<TornTail>,
}

/// Called for each good frame behind the head. An error says why the frame cannot be right.
pub(crate) type Visit<'v> = dyn FnMut(&FrameHeader, &Bytes) -> Result<(), String> + 'v;

/// Reads a segment's frames up to `link`, which the next segment's head holds. Without `link` this
/// is the last segment, and reading stops at the first bad frame. Corruption (see the module's
/// head) is an error.
pub(crate) fn scan<D: Disk>(
    disk: &D,
    segment: &Segment,
    link: Option<&Link>,
    visit: &mut Visit,
) -> Result<Scanned, StorageError> {
    let path = log_path(segment.sequence);
    let mut window = Window::open(disk, path.clone())?;
    let (bytes, bytes_made) = (window.length(), segment.head.file_bytes_min());
    if bytes < bytes_made {
        let what = format!("the file ends, which had {bytes_made} bytes");
        return Err(StorageError::corrupt(&path, bytes, what));
    }
    let mut scanned = Scanned {
        end: segment.head_end,
        chain: segment.salt,
        mark: segment.slot.map_or(segment.mark, |(_, slot)| slot.mark.max(segment.mark)),
        frame_count: 1,
        entry_index_min: None,
        tail: None,
    };
    let why = loop {
        if let Some(link) = link.filter(|link| scanned.end >= link.end) {
            return match scanned.end == link.end && scanned.chain == link.chain {
                true => Ok(scanned),
                false => Err(StorageError::corrupt(
                    &path,
                    scanned.end,
                    "the segment does not end as the next one says",
                )),
            };
        }
        let place = Place {
            generation: segment.sequence,
            salt: segment.salt,
            offset: scanned.end,
            chain: Some(scanned.chain),
        };
        let (header, crc, body) = match read_frame(&mut window, &place)? {
            Ok(frame) => frame,
            Err(what) => break what,
        };
        let visited = match header.kind {
            FrameKind::Head => Err("a head stands inside a segment".to_owned()),
            _ => visit(&header, &body),
        };
        visited.map_err(|what| StorageError::corrupt(&path, scanned.end, what))?;
        scanned.end = scanned.end.saturating_add(header.frame_bytes());
        scanned.chain = crc;
        scanned.mark = scanned.mark.max(header.mark);
        scanned.frame_count = scanned.frame_count.saturating_add(1);
        if header.kind == FrameKind::Entry {
            let lowest = scanned.entry_index_min.map_or(header.index, |it| it.min(header.index));
            scanned.entry_index_min = Some(lowest);
        }
    };
    if link.is_some() {
        let what = format!("{why}, and a later segment follows");
        return Err(StorageError::corrupt(&path, scanned.end, what));
    }
    scan_after_end(&mut window, segment, &mut scanned)?;
    match scanned.mark > scanned.end {
        true => {
            let mark = scanned.mark;
            let what = format!("{why}, and everything below byte {mark} was durable");
            Err(StorageError::corrupt(&path, scanned.end, what))
        }
        false => Ok(scanned),
    }
}

/// Looks for headers of this segment's frames from the end of the good frames on.
fn scan_after_end<D: Disk>(
    window: &mut Window<D>,
    segment: &Segment,
    scanned: &mut Scanned,
) -> Result<(), StorageError> {
    let generation = segment.sequence.to_le_bytes();
    let mut found_end = scanned.end;
    let mut offset = scanned.end;
    loop {
        let rest = window.length().saturating_sub(offset);
        let count = rest.min(READ_WINDOW_BYTES as u64) as usize;
        if count < HEADER_BYTES {
            break;
        }
        let Some(bytes) = window.get(offset, count)? else {
            break;
        };
        let last = count.saturating_sub(HEADER_BYTES);
        for skip in (0..=last).step_by(FRAME_ALIGN_BYTES as usize) {
            let at = offset.saturating_add(skip as u64);
            let header = bytes.get(skip..).unwrap_or(&[]);
            // These two cheap comparisons rule out nearly every offset without a checksum.
            if header.get(32..40) != Some(&generation) {
                continue;
            }
            if header.get(40..48) != Some(&at.to_le_bytes()) {
                continue;
            }
            let header_end = at.saturating_add(HEADER_BYTES as u64);
            found_end = found_end.max(header_end);
            if let Ok((header, _)) = decode_header(header, segment.salt) {
                scanned.mark = scanned.mark.max(header.mark);
                found_end = found_end.max(at.saturating_add(header.frame_bytes()));
            }
        }
        // The next window starts at the first offset that was not examined.
        let looked = (last as u64 / FRAME_ALIGN_BYTES + 1).saturating_mul(FRAME_ALIGN_BYTES);
        offset = offset.saturating_add(looked);
    }
    if found_end > scanned.end {
        scanned.tail = Some(TornTail {
            segment: segment.sequence,
            offset: scanned.end,
            bytes: found_end.min(window.length()).saturating_sub(scanned.end),
        });
    }
    Ok(())
}

/// The segments that make up the log, oldest first.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Each links to its predecessor in the list.
    pub segments: Vec<Segment>,
}

/// Finds the last segment with a good head, and follows the links back from there.
///
/// An older segment that no link names is not part of the log, nor is a newer one with a bad head.
/// It was left by a start that crashed before its head was durable, was replaced by a later start,
/// is older than an installed snapshot, or was released and its removal was not durable.
pub(crate) fn find_chain<D: Disk>(
    disk: &D,
    listing: &Listing,
    group: u32,
) -> Result<Chain, StorageError> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut bad_heads = Vec::new();
    for sequence in listing.logs.iter().rev() {
        match read_head(disk, *sequence, Some(group))? {
            HeadFound::Good(segment) => {
                segments.push(*segment);
                break;
            }
            HeadFound::Bad { what, was_durable } => {
                if was_durable {
                    return Err(corrupt_head(*sequence, &what));
                }
                bad_heads.push((*sequence, what));
            }
        }
    }
    let Some(last) = segments.first() else {
        let (file, what) = match bad_heads.first() {
            Some((sequence, what)) => (log_path(*sequence), what.clone()),
            None => (WAL_DIR.to_owned(), "there is no segment".to_owned()),
        };
        return Err(StorageError::corrupt(&file, 0, what));
    };
    if let Some((_, slot)) = last.slot.filter(|(_, slot)| slot.is_sealed) {
        // The successor itself may have been replaced since: then a later bad head is to blame.
        return Err(match bad_heads.first() {
            Some((sequence, what)) => corrupt_head(*sequence, what),
            None => corrupt_head(slot.successor, "the segment is missing"),
        });
    }
    let mut link = last.head.link;
    let mut before = last.sequence;
    while let Some(to) = link.filter(|to| listing.logs.contains(&to.sequence)) {
        if to.sequence >= before {
            return Err(corrupt_head(before, "the segment links to a later one"));
        }
        match read_head(disk, to.sequence, Some(group))? {
            HeadFound::Good(segment) => {
                link = segment.head.link;
                before = to.sequence;
                segments.push(*segment);
            }
            HeadFound::Bad { what, .. } => return Err(corrupt_head(to.sequence, &what)),
        }
    }
    segments.reverse();
    Ok(Chain { segments })
}

fn corrupt_head(sequence: u64, what: &str) -> StorageError {
    StorageError::corrupt(&log_path(sequence), FRAMES_START, what)
}
