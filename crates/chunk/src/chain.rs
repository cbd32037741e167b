//! Which files the log consists of: what is in its folder, and what each segment follows.
//!
//! A segment follows the one before at a place that its head names. One that another says it does
//! not follow lies behind a place where the log was cut off after a crash; it is kept until nothing
//! begins in front of it any more, and its number is never given again. A segment whose head is
//! lost is read all the same: its records say where they belong.

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

/// The files of the log.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    /// Files of segments, by number.
    found: Vec<Found>,
    /// Numbers of the files made ready to be segments, sorted. The segment before each of them was
    /// begun, unless its own file is still among them.
    next: Vec<u32>,
}

#[derive(Debug)]
struct Found {
    number: u32,
    /// Bytes of the file, as many as a segment may have.
    bytes: u32,
    head: Result<Head, String>,
    /// Where the copy of the head is that is not whole, if the other is.
    bad_copy: Option<usize>,
}

/// A segment that is a part of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub number: u32,
    /// Bytes of its file.
    pub bytes: u32,
    /// Bytes that it was made with; those of its file if the head is lost.
    pub made_bytes: u32,
    /// Where the log ended when it was made; unknown if the head is lost.
    pub follows: Option<Position>,
    /// Up to where the log was durable then.
    pub durable: Position,
}

/// The segments of the log, in order.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub links: Vec<Link>,
    /// Segments behind the log without a head; nothing says that they were ever durable.
    pub torn: Vec<u32>,
}

/// How a segment relates to the log.
enum Place {
    /// A part of it.
    Log(Link),
    /// Nothing but zeros: it was in the making when the power failed.
    Blank,
    /// Without a head, which it had been given, but not durably.
    Torn,
}

/// The numbers of all segments, sorted.
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
    /// A number that no segment has, and none behind it.
    pub fn free_number(&self) -> u32 {
        let behind = self.found.last().map_or(1, |last| last.number.saturating_add(1));
        behind.max(self.next.first().copied().unwrap_or(1))
    }

    /// Files that were to be segments whose number another has.
    pub fn stale_next_files(&self) -> Vec<u32> {
        let last = self.found.last().map_or(0, |last| last.number);
        self.next.iter().copied().filter(|number| *number <= last).collect()
    }

    /// The heads with one whole copy, and where the other copy is.
    pub fn half_damaged_heads(&self) -> Vec<(Head, usize)> {
        let halves = self.found.iter().filter_map(|found| {
            let head = found.head.as_ref().ok()?;
            Some((*head, found.bad_copy?))
        });
        halves.collect()
    }

    /// Bytes of the segment of that number, if there is one.
    pub fn bytes(&self, number: u32) -> Option<u32> {
        let index = self.found.binary_search_by_key(&number, |found| found.number).ok()?;
        self.found.get(index).map(|found| found.bytes)
    }

    /// The log from `start` on. What is missing or damaged is added to `damage`.
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
        // The segment that the one behind follows, if there is one behind that is a part of the
        // log.
        let mut followed: Option<u32> = None;
        // A file that is no part of the log, and behind it: the one before it was begun.
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
            // Much of the log before the start was given back.
            let lost = followed.filter(|last| *last > number && *last >= start);
            damage.extend(lost.map(|last| missing(start.max(number + 1), last)));
            followed = Some(link.follows.map_or(number - 1, |follows| follows.segment));
            if number >= start {
                chain.links.push(link);
            }
        }
        let lost = match chain.links.last() {
            // It begins there if it follows nothing: an earlier segment was never durable.
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

    /// Whether segments are missing between two files that are there. Segments have their names in
    /// their order, so that whatever the one behind is, the one before it was begun.
    fn between(&self, before: u32, behind: u32, start: u32) -> Option<Damage> {
        let (first, last) = (start.max(before + 1), behind.saturating_sub(1));
        (first <= last && !self.next.contains(&last)).then(|| missing(first, last))
    }

    /// The last segment must be there if what comes behind it was made ready.
    fn check_last(&self, start: u32, damage: &mut Vec<Damage>) {
        let last = self.found.last().map(|last| last.number);
        // The last file that is to be a segment may be there before the one in front of it is one.
        let mut before = self.next.iter().rev().map(|next| next.saturating_sub(1));
        let begun = before.find(|number| !self.next.contains(number)).unwrap_or(0);
        if begun > last.unwrap_or(0) && begun >= start {
            damage.push(missing(last.map_or(start, |last| last + 1), begun));
        }
    }

    /// A segment has its length before it has its name.
    fn check_length(&self, found: &Found, damage: &mut Vec<Damage>) {
        let Found { number, bytes, head, .. } = found;
        let wanted = head.as_ref().ok().filter(|head| head.version > 1).map(|head| head.bytes);
        if let Some(wanted) = wanted.filter(|wanted| wanted > bytes) {
            let what = format!("it has {bytes} bytes of {wanted}");
            damage.push(Damage::file(segment_path(*number), what));
        }
    }

    /// How a segment relates to the log. `is_behind`: nothing behind it is a part of the log.
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
                // It may have been torn when the power failed, before it was durable.
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
        // A file without its bytes was no segment yet; but version 1 made files in steps.
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

    /// Whether the head of that segment was durable, as whatever was written later says.
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
