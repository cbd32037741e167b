//! Finds out which files make up the log: surveys the folder, and links each segment to the one
//! before.
//!
//! The head of a segment says which segment it *follows*, and where in that segment the log ended.
//! If the followed segment is not the one with the number before, then the segments between them
//! are not part of the log: the log was cut off after a crash, and these segments were behind the
//! cut. Their files are kept until no start will read the log from a position before them, and
//! their numbers are never used again. A segment whose head is lost is read all the same, because
//! its records name their own positions. The exception is a segment at the end of the log, if
//! nothing shows that it was ever durable.

use storage::disk::Disk;

use crate::damage::Damage;
use crate::error::ChunkError;
use crate::identity::Identity;
use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MAX, SEGMENTS_MAX};
use crate::record::Position;
use crate::segment::{
    FIRST_RECORD, Head, LOG_DIR, Start, parse_next_name, parse_segment_name, read_block,
    segment_path,
};
use crate::segment_reader::{SegmentReader, read_fully, says_durable};

/// The content of the log's folder.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    /// The files of segments, by number.
    found: Vec<Found>,
    /// Numbers of the `.next` files, sorted. A `.next` file N shows that segment N - 1 was begun,
    /// unless there is a `.next` file N - 1, too.
    next: Vec<u32>,
}

#[derive(Debug)]
struct Found {
    number: u32,
    /// Size of the file in bytes, cut down to the largest that a segment may have.
    bytes: u32,
    head: Result<Head, String>,
    /// The offset of the damaged copy of the head, if the other copy is intact.
    bad_copy: Option<usize>,
}

/// A segment that is part of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub number: u32,
    /// Size of its file, in bytes.
    pub bytes: u32,
    /// Size of its file when it was made; the present size if the head is lost.
    pub made_bytes: u32,
    /// Where the log ended when the segment was begun; `None` if the head is lost.
    pub follows: Option<Position>,
    /// The log was durable before this position when the segment was begun.
    pub durable: Position,
}

/// The segments that make up the log, in order.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub links: Vec<Link>,
    /// Numbers of segments behind the end of the log that have no intact head. Nothing shows that
    /// these segments were ever durable.
    pub torn: Vec<u32>,
}

/// The relation of a segment to the log.
enum Place {
    /// Part of the log.
    Log(Link),
    /// Only zeros: it was being made when the power failed.
    Blank,
    /// Without a head: the head was written, but not durably.
    Torn,
}

/// The numbers of all segment files, sorted.
pub fn list_segments<D: Disk>(disk: &D) -> Result<Vec<u32>, ChunkError> {
    let names = list_log(disk)?;
    let numbers: Vec<u32> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    match numbers.len() > SEGMENTS_MAX {
        true => Err(ChunkError::BadStore {
            file: LOG_DIR.to_owned(),
            what: format!("there are more than {SEGMENTS_MAX} segments"),
        }),
        false => Ok(numbers),
    }
}

fn list_log<D: Disk>(disk: &D) -> Result<Vec<String>, ChunkError> {
    disk.list(LOG_DIR).map_err(|error| ChunkError::io(LOG_DIR, "list", error))
}

/// Reads the head of every segment.
pub(crate) fn survey<D: Disk>(disk: &D, identity: &Identity) -> Result<Segments, ChunkError> {
    let next = list_log(disk)?.iter().filter_map(|name| parse_next_name(name)).collect();
    let mut found = Vec::new();
    for number in list_segments(disk)? {
        let path = segment_path(number);
        let io = |op| move |error| ChunkError::io(&segment_path(number), op, error);
        let file = disk.open_read_only(&path).map_err(io("open"))?;
        let length = disk.len(&file).map_err(io("read"))?;
        let bytes = u32::try_from(length).unwrap_or(SEGMENT_BYTES_MAX).min(SEGMENT_BYTES_MAX);
        let mut block = vec![0; BLOCK_BYTES as usize];
        let count = read_fully(disk, &file, 0, &mut block).map_err(io("read"))?;
        let mut bad_copy = None;
        let head = match read_block(&block[..count]) {
            Ok((head, _)) if head.store_id != identity.store_id => {
                Err("it belongs to another store".to_owned())
            }
            Ok((head, _)) if head.number != number => Err("it is another segment".to_owned()),
            Ok((head, bad)) => {
                bad_copy = bad;
                Ok(head)
            }
            Err(error) => Err(error.to_string()),
        };
        found.push(Found { number, bytes, head, bad_copy });
    }
    Ok(Segments { found, next })
}

impl Segments {
    /// A number above those of all segments.
    pub fn free_number(&self) -> u32 {
        let behind = self.found.last().map_or(1, |last| last.number.saturating_add(1));
        behind.max(self.next.first().copied().unwrap_or(1))
    }

    /// Numbers of `.next` files that are not needed: a segment has that number or a higher one.
    pub fn stale_next_files(&self) -> Vec<u32> {
        let last = self.found.last().map_or(0, |last| last.number);
        self.next.iter().copied().filter(|number| *number <= last).collect()
    }

    /// Heads with one intact copy, each with the offset of the damaged copy.
    pub fn half_damaged_heads(&self) -> Vec<(Head, usize)> {
        let halves = self.found.iter().filter_map(|found| {
            let head = found.head.as_ref().ok()?;
            Some((*head, found.bad_copy?))
        });
        halves.collect()
    }

    /// Size of the file of segment `number`, in bytes; `None` if there is no such segment.
    pub fn bytes(&self, number: u32) -> Option<u32> {
        let index = self.found.binary_search_by_key(&number, |found| found.number).ok()?;
        self.found.get(index).map(|found| found.bytes)
    }

    /// The log from `start` on. Adds what is missing or damaged to `damage`.
    pub fn chain<D: Disk>(
        &self,
        disk: &D,
        identity: &Identity,
        start: Start,
        damage: &mut Vec<Damage>,
    ) -> Result<Chain, ChunkError> {
        let mut chain = Chain::default();
        let is_begun = start != Start::FIRST;
        let start = start.at.segment;
        self.check_last(start, damage);
        // The number of the segment that the next part of the log, which was visited before,
        // follows; `None` until a part of the log was visited.
        let mut followed: Option<u32> = None;
        // The file visited before, if it is not part of the log: the segment before it was begun.
        let mut unlinked: Option<u32> = None;
        for found in self.found.iter().rev() {
            let number = found.number;
            self.check_length(found, damage);
            damage.extend(unlinked.take().and_then(|behind| self.between(number, behind, start)));
            if followed.is_some_and(|followed| followed < number) {
                continue;
            }
            let link = match self.link(disk, identity, found, followed.is_none(), damage)? {
                Place::Log(link) => link,
                place => {
                    chain.torn.extend(matches!(place, Place::Torn).then_some(number));
                    unlinked = Some(number);
                    continue;
                }
            };
            // Segments before the start may have been given back.
            let lost = followed.filter(|last| *last > number && *last >= start);
            damage.extend(lost.map(|last| missing(start.max(number + 1), last)));
            followed = Some(link.follows.map_or(number - 1, |follows| follows.segment));
            if number >= start {
                chain.links.push(link);
            }
        }
        let lost = match chain.links.last() {
            // The log may begin later if its first segment follows nothing: then no earlier segment
            // was ever durable.
            Some(Link { number, follows, .. }) if *number > start => {
                let is_first = follows.is_some_and(|follows| follows.segment < start);
                (is_begun || !is_first).then(|| missing(start, number - 1))
            }
            None if is_begun => Some(missing(start, start)),
            _ => None,
        };
        damage.extend(lost.filter(|lost| !damage.contains(lost)));
        let lost = unlinked.and_then(|behind| self.between(0, behind, start));
        damage.extend(lost.filter(|lost| !damage.contains(lost)));
        chain.links.reverse();
        chain.torn.reverse();
        Ok(chain)
    }

    /// Finds segments that are missing between two files that exist. Segments get their names in
    /// order, so whatever the file `behind` is, the segment before it was begun.
    fn between(&self, before: u32, behind: u32, start: u32) -> Option<Damage> {
        let (first, last) = (start.max(before + 1), behind.saturating_sub(1));
        (first <= last && !self.next.contains(&last)).then(|| missing(first, last))
    }

    /// Checks that the last segment exists, if a `.next` file shows that it was begun.
    fn check_last(&self, start: u32, damage: &mut Vec<Damage>) {
        let last = self.found.last().map(|last| last.number);
        // The last `.next` file may exist before the segment before it has its name.
        let mut before = self.next.iter().rev().map(|next| next.saturating_sub(1));
        let begun = before.find(|number| !self.next.contains(number)).unwrap_or(0);
        if begun > last.unwrap_or(0) && begun >= start {
            damage.push(missing(last.map_or(start, |last| last + 1), begun));
        }
    }

    /// Checks the length: a segment gets its full length before its name.
    fn check_length(&self, found: &Found, damage: &mut Vec<Damage>) {
        let Found { number, bytes, head, .. } = found;
        let wanted = head.as_ref().ok().filter(|head| head.version > 1).map(|head| head.bytes);
        if let Some(wanted) = wanted.filter(|wanted| wanted > bytes) {
            let what = format!("it has {bytes} bytes of {wanted}");
            damage.push(Damage::file(segment_path(*number), what));
        }
    }

    /// The relation of a segment to the log. `is_behind`: no later file is part of the log.
    fn link<D: Disk>(
        &self,
        disk: &D,
        identity: &Identity,
        found: &Found,
        is_behind: bool,
        damage: &mut Vec<Damage>,
    ) -> Result<Place, ChunkError> {
        let Found { number, bytes, head, bad_copy } = found;
        let (number, bytes) = (*number, *bytes);
        let what = match head {
            Ok(head) => {
                // A power failure may have torn that copy before it was durable.
                if bad_copy.is_some() && self.was_durable(disk, identity, number)? {
                    let what = "one of the two copies of its head is damaged";
                    damage.push(Damage::file(segment_path(number), what));
                }
                let Head { follows, durable, bytes: made_bytes, .. } = *head;
                let follows = Some(follows);
                return Ok(Place::Log(Link { number, bytes, made_bytes, follows, durable }));
            }
            Err(what) => what,
        };
        // A file without its full length was no segment yet; but version 1 made files in steps.
        let is_made = identity.salt.0 == 0 || bytes > FIRST_RECORD;
        let is_durable = !is_made || self.was_durable(disk, identity, number)?;
        if is_durable {
            let what = format!("{what}; its records are looked for all the same");
            damage.push(Damage::file(segment_path(number), what));
        } else if is_behind {
            let mut reader = SegmentReader::open(disk, number, identity.salt)?;
            let is_blank = reader.find_header(0, bytes)?.is_blank;
            return Ok(if is_blank { Place::Blank } else { Place::Torn });
        }
        let (follows, durable) = (None, Position::default());
        Ok(Place::Log(Link { number, bytes, made_bytes: bytes, follows, durable }))
    }

    /// Whether that segment's head was durable, as shown by something that was written later.
    fn was_durable<D: Disk>(
        &self,
        disk: &D,
        identity: &Identity,
        number: u32,
    ) -> Result<bool, ChunkError> {
        let place = Position { segment: number, offset: FIRST_RECORD };
        for found in self.found.iter().filter(|found| found.number >= number) {
            if found.head.as_ref().is_ok_and(|head| head.durable > place) {
                return Ok(true);
            }
            let mut reader = SegmentReader::open(disk, found.number, identity.salt)?;
            if says_durable(&mut reader, FIRST_RECORD, found.bytes, place)?.0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn missing(first: u32, last: u32) -> Damage {
    Damage::Log {
        start: Position { segment: first, offset: 0 },
        end: Position { segment: last.saturating_add(1), offset: 0 },
        what: "these segments are missing".to_owned(),
    }
}
