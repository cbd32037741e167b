//! The walk that writes etcd's section of an image (the bytes of a snapshot) while commands go on.
//!
//! etcd's section of an image, version 1, is a stream of records:
//!
//! ```text
//! start = 'T' | revision i64 | compacted i64 | quota's bytes u64 | operations of a txn u32
//!       | shortest time to live u32
//! auth  = 'A' | users and roles (`auth.rs`)      left out if nobody ever changed any. From level 4
//!                                                on the tag is 'P', and the record also has the
//!                                                revision at which each user got the password
//! alarm = 'N' | alarm (`alarm.rs`)                             in their order
//! lease = 'L' | lease i64 | time to live i64 | ordinal of the grant u64      in any order
//! edge  = 'D' | event bytes      each removal at the compacted revision, in order
//! chunk = 'C' | revision i64 | sub u32  the place of every 512th event of the tail, from the first
//! event = 'E' | event bytes      by key, and by place for each key: the version that it had at the
//!                                compacted revision if it existed then, and each event above
//! ```
//!
//! `event.rs` gives the bytes of an event; the *tail* is the list of all events above the compacted
//! revision. The `event` records are sorted by key, so a restore appends to the index and need not
//! search for a key. The `chunk` records tell it where in the tail each event belongs.
//!
//! Versions never change, and nothing is pruned during a walk. So the walk needs no old values of
//! versions: it only skips events above the revision at which it began. It skips leases granted
//! since then, and keeps the records of leases that ended before it reached them.

use std::sync::Arc;

use crate::codec::Write;
use crate::etcd::alarm::{ALARM_BYTES, Alarms};
use crate::etcd::auth::Auth;
use crate::etcd::event::{Event, Place};
use crate::etcd::lease::{self, Grant};
use crate::etcd::settings::Settings;
use crate::etcd::store::Store;
use crate::ids::{LeaseId, Ordinal};
use crate::image::step::WalkStep;
use crate::limits::ETCD_CHUNK_EVENTS;

pub(crate) const TAG_START: u8 = b'T';
pub(crate) const TAG_AUTH: u8 = b'A';
pub(crate) const TAG_AUTH_SINCE: u8 = b'P';
pub(crate) const TAG_ALARM: u8 = b'N';
pub(crate) const TAG_LEASE: u8 = b'L';
pub(crate) const TAG_EDGE: u8 = b'D';
pub(crate) const TAG_CHUNK: u8 = b'C';
pub(crate) const TAG_EVENT: u8 = b'E';

/// Bytes of the start record.
const START_BYTES: u64 = 1 + 8 + 8 + 8 + 4 + 4;

/// Bytes of a chunk's record.
const CHUNK_BYTES: u64 = 1 + 8 + 4;

/// Bytes of an event's record in addition to the event itself.
const RECORD_HEAD_BYTES: u64 = 1 + 4;

/// A running walk, which writes an image of the state at its beginning.
pub(crate) struct Walk {
    /// The revision, the compacted revision and the settings of the image.
    revision: i64,
    compacted: i64,
    settings: Settings,
    /// The users and roles; `None` once they are written, or if there was never a change to them.
    auth: Option<Arc<Auth>>,
    alarms: Alarms,
    /// The events at the compacted revision.
    edge: Arc<Vec<Event>>,
    /// The ordinal of the last command in the image. Leases granted by later commands are not in
    /// it.
    ordinal: Ordinal,
    /// Leases of the image that have ended since the walk began, before it reached them.
    ended: Vec<(LeaseId, Grant)>,
    at: Cursor,
    /// Whether another state has replaced the walked one, so that the image is worthless.
    is_aborted: bool,
}

enum Cursor {
    Start,
    /// In the leases, behind this one; `None` at their beginning.
    Leases(Option<LeaseId>),
    /// In the events at the compacted revision, from this index on.
    Edge(usize),
    /// In the chunks of the image: the next one starts with the event at this index of the tail.
    Chunks(u64),
    /// In the events: at this key, behind this place.
    Events(Box<[u8]>, Place),
}

impl Store {
    /// Starts a walk over the present state. `ordinal` is the ordinal of the last command.
    pub(crate) fn freeze(&mut self, ordinal: Ordinal) {
        let Store { revision, compacted, settings, .. } = *self;
        let auth = Some(self.auth.clone()).filter(|auth| !auth.is_unused());
        self.walk = Some(Box::new(Walk {
            revision,
            compacted,
            settings,
            auth,
            alarms: self.alarms.clone(),
            edge: self.edge.events.clone(),
            ordinal,
            ended: Vec::new(),
            at: Cursor::Start,
            is_aborted: false,
        }));
    }

    /// Drops the running walk, if there is one.
    pub(crate) fn thaw(&mut self) {
        self.walk = None;
    }

    /// Marks the running walk as worthless, because another state replaces this one.
    pub(crate) fn abort_walk(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.is_aborted = true;
        }
    }

    /// Appends about `bytes` bytes of records to `piece`, for at most `count_max` leases, chunks,
    /// keys or events. When the walk has ended or was aborted, it is dropped. Panics if no walk is
    /// running.
    pub(crate) fn freeze_step(
        &mut self,
        piece: &mut Vec<u8>,
        bytes: usize,
        count_max: u32,
    ) -> WalkStep {
        let mut walk = self.walk.take().expect("the machine has started the walk");
        if walk.is_aborted {
            return WalkStep::Aborted;
        }
        let end = piece.len().saturating_add(bytes);
        let next = match &walk.at {
            Cursor::Start => {
                piece.put_u8(TAG_START);
                piece.put_i64(walk.revision);
                piece.put_i64(walk.compacted);
                walk.settings.encode(piece);
                if let Some(auth) = walk.auth.take() {
                    let knows = auth.knows_passwords_since();
                    piece.put_u8(if knows { TAG_AUTH_SINCE } else { TAG_AUTH });
                    auth.encode(piece);
                }
                for alarm in walk.alarms.iter() {
                    piece.put_u8(TAG_ALARM);
                    alarm.encode(piece);
                }
                Some(Cursor::Leases(None))
            }
            Cursor::Leases(after) => {
                let after = *after;
                Some(self.walk_leases(&mut walk, after, piece, end, count_max))
            }
            Cursor::Edge(from) => Some(self.walk_edge(&walk, *from, piece, end, count_max)),
            Cursor::Chunks(from) => Some(self.walk_chunks(&walk, *from, piece, end, count_max)),
            Cursor::Events(key, after) => {
                self.walk_events(&walk, (key, *after), piece, end, count_max)
            }
        };
        let Some(next) = next else { return WalkStep::Ended };
        walk.at = next;
        self.walk = Some(walk);
        WalkStep::Going
    }

    fn walk_leases(
        &self,
        walk: &mut Walk,
        after: Option<LeaseId>,
        piece: &mut Vec<u8>,
        end: usize,
        count_max: u32,
    ) -> Cursor {
        let mut count = 0;
        while let Some((lease, grant)) = walk.ended.pop() {
            put_lease(lease, grant, piece);
            count += 1;
            if piece.len() >= end || count == count_max {
                return Cursor::Leases(after);
            }
        }
        for (lease, grant) in self.leases.behind(after) {
            if grant.granted <= walk.ordinal {
                put_lease(lease, grant, piece);
            }
            count += 1;
            if piece.len() >= end || count == count_max {
                return Cursor::Leases(Some(lease));
            }
        }
        Cursor::Edge(0)
    }

    fn walk_edge(
        &self,
        walk: &Walk,
        from: usize,
        piece: &mut Vec<u8>,
        end: usize,
        count_max: u32,
    ) -> Cursor {
        for (number, event) in walk.edge.iter().enumerate().skip(from) {
            if number - from == count_max as usize || piece.len() >= end {
                return Cursor::Edge(number);
            }
            if event.is_delete() {
                put_event(TAG_EDGE, event, piece);
            }
        }
        let compacted = Place { revision: walk.compacted, sub: u32::MAX };
        Cursor::Chunks(self.tail.count() - self.tail.count_behind(compacted))
    }

    fn walk_chunks(
        &self,
        walk: &Walk,
        from: u64,
        piece: &mut Vec<u8>,
        end: usize,
        count_max: u32,
    ) -> Cursor {
        let mut at = from;
        for _ in 0..count_max {
            let start = self.tail.place(at).filter(|start| start.revision <= walk.revision);
            let Some(start) = start else {
                return Cursor::Events([].into(), Place::default());
            };
            piece.put_u8(TAG_CHUNK);
            piece.put_i64(start.revision);
            piece.put_u32(start.sub);
            at += ETCD_CHUNK_EVENTS as u64;
            if piece.len() >= end {
                break;
            }
        }
        Cursor::Chunks(at)
    }

    fn walk_events(
        &self,
        walk: &Walk,
        (from, after): (&[u8], Place),
        piece: &mut Vec<u8>,
        end: usize,
        count_max: u32,
    ) -> Option<Cursor> {
        let mut count = 0;
        for (at, versions) in self.index.versions_from(from).enumerate() {
            let skipped = match at == 0 && versions[0].key() == from {
                true => versions.partition_point(|event| event.place() <= after),
                false => 0,
            };
            for event in &versions[skipped.max(walk.first_of(versions))..] {
                if event.revision() > walk.revision {
                    break;
                }
                put_event(TAG_EVENT, event, piece);
                count += 1;
                if piece.len() >= end || count == count_max {
                    return Some(Cursor::Events(event.key().into(), event.place()));
                }
            }
            // Count the key even if no event was written for it, so that the step is bounded. But
            // do not count a key that an earlier step has begun, so that each step makes progress.
            count += u32::from(skipped == 0);
            if count >= count_max {
                let last = Place { revision: i64::MAX, sub: u32::MAX };
                return Some(Cursor::Events(versions[0].key().into(), last));
            }
        }
        None
    }

    /// The most records that an image of the present state can have.
    pub(crate) fn record_count_max(&self) -> u64 {
        let event_count =
            self.edge.events.len() as u64 + self.index.key_count() + self.tail.count();
        2 + self.alarms.iter().len() as u64
            + self.leases.len() as u64
            + self.chunk_count_max()
            + event_count
    }

    fn chunk_count_max(&self) -> u64 {
        self.tail.count().div_ceil(ETCD_CHUNK_EVENTS as u64)
    }

    /// The most bytes that the records of the present state can have.
    pub(crate) fn section_bytes_max(&self) -> u64 {
        START_BYTES
            + self.chunk_count_max() * CHUNK_BYTES
            + self.record_count_max() * RECORD_HEAD_BYTES
            + self.auth.bytes_max()
            + self.alarms.iter().len() as u64 * ALARM_BYTES
            + self.bytes()
    }
}

fn put_lease(lease: LeaseId, grant: Grant, piece: &mut Vec<u8>) {
    piece.put_u8(TAG_LEASE);
    lease::encode(lease, grant, piece);
}

fn put_event(tag: u8, event: &Event, piece: &mut Vec<u8>) {
    piece.put_u8(tag);
    piece.put_bytes(event.bytes());
}

impl Walk {
    /// Keeps the record of a lease that ends before the walk has reached it.
    pub(crate) fn on_lease_taken(&mut self, lease: LeaseId, grant: Grant) {
        let is_ahead = match self.at {
            Cursor::Start => true,
            Cursor::Leases(after) => after.is_none_or(|after| after < lease),
            Cursor::Edge(_) | Cursor::Chunks(_) | Cursor::Events(..) => false,
        };
        if is_ahead && grant.granted <= self.ordinal {
            self.ended.push((lease, grant));
        }
    }

    /// The index of a key's first version in the image: its version at the compacted revision, or,
    /// if it did not exist then, its first event above that revision.
    fn first_of(&self, versions: &[Event]) -> usize {
        let above = versions.partition_point(|event| event.revision() <= self.compacted);
        match above.checked_sub(1) {
            Some(base) if !versions[base].is_delete() => base,
            _ => above,
        }
    }
}
