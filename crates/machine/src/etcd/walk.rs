//! A walk through the store for an image, while commands change it.
//!
//! etcd's section of an image, version 1, is a stream of records:
//!
//! ```text
//! start = 'T' | revision i64 | compacted i64 | quota's bytes u64 | operations of a txn u32
//! base  = 'B' | event bytes      each key that existed at the compacted revision, by key
//! edge  = 'D' | event bytes      each removal at the compacted revision, in order
//! tail  = 'E' | event bytes      each event above the compacted revision, in order
//! ```
//!
//! `event.rs` gives the bytes of an event. Versions never change, and nothing is pruned during a
//! walk. So the walk needs no old values: it leaves out what is above the revision that it began
//! at.

use std::sync::Arc;

use crate::codec::Write;
use crate::etcd::event::{Event, Place};
use crate::etcd::settings::Settings;
use crate::etcd::store::Store;
use crate::image::step::WalkStep;

pub(crate) const TAG_START: u8 = b'T';
pub(crate) const TAG_BASE: u8 = b'B';
pub(crate) const TAG_EDGE: u8 = b'D';
pub(crate) const TAG_TAIL: u8 = b'E';

/// Bytes of the start record.
const START_BYTES: u64 = 1 + 8 + 8 + 8 + 4;

/// Bytes of a record beside the event's own.
const RECORD_HEAD_BYTES: u64 = 1 + 4;

/// A running walk.
pub(crate) struct Walk {
    /// The revisions and the settings of the image.
    revision: i64,
    compacted: i64,
    settings: Settings,
    edge: Arc<[Event]>,
    at: Cursor,
    /// Whether the state that it walked was replaced.
    is_aborted: bool,
}

enum Cursor {
    Start,
    /// In the base, behind this key.
    Base(Box<[u8]>),
    /// In the events at the compacted revision, from this one on.
    Edge(usize),
    /// In the tail, behind this place.
    Tail(Place),
}

impl Store {
    /// Begins a walk through the present state.
    pub(crate) fn freeze(&mut self) {
        let Store { revision, compacted, settings, .. } = *self;
        let (edge, at) = (self.edge.clone(), Cursor::Start);
        let walk = Walk { revision, compacted, settings, edge, at, is_aborted: false };
        self.walk = Some(Box::new(walk));
    }

    /// Gives up a running walk.
    pub(crate) fn thaw(&mut self) {
        self.walk = None;
    }

    /// Marks a running walk as worthless: another state takes the place of this one.
    pub(crate) fn abort_walk(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.is_aborted = true;
        }
    }

    /// Appends records of `bytes` or a little more to `piece`, of at most `count_max` keys or
    /// events. A walk that ended or was aborted is forgotten. Panics if none is running.
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
        let end = piece.len() + bytes;
        let next = match &walk.at {
            Cursor::Start => {
                piece.put_u8(TAG_START);
                piece.put_i64(walk.revision);
                piece.put_i64(walk.compacted);
                walk.settings.encode(piece);
                Some(Cursor::Base([].into()))
            }
            Cursor::Base(after) => Some(self.walk_base(&walk, after, piece, end, count_max)),
            Cursor::Edge(from) => Some(walk.walk_edge(*from, piece, end, count_max)),
            Cursor::Tail(after) => self.walk_tail(&walk, *after, piece, end, count_max),
        };
        let Some(next) = next else { return WalkStep::Ended };
        walk.at = next;
        self.walk = Some(walk);
        WalkStep::Going
    }

    fn walk_base(
        &self,
        walk: &Walk,
        after: &[u8],
        piece: &mut Vec<u8>,
        end: usize,
        count_max: u32,
    ) -> Cursor {
        let mut count = 0;
        for (key, event) in self.index.after(after, walk.compacted) {
            if let Some(event) = event {
                put_record(TAG_BASE, event, piece);
            }
            count += 1;
            if piece.len() >= end || count == count_max {
                return Cursor::Base(key.into());
            }
        }
        Cursor::Edge(0)
    }

    fn walk_tail(
        &self,
        walk: &Walk,
        after: Place,
        piece: &mut Vec<u8>,
        end: usize,
        count_max: u32,
    ) -> Option<Cursor> {
        let mut count = 0;
        for event in self.tail.behind(after) {
            if event.revision() > walk.revision {
                break;
            }
            put_record(TAG_TAIL, event, piece);
            count += 1;
            if piece.len() >= end || count == count_max {
                return Some(Cursor::Tail(event.place()));
            }
        }
        None
    }

    /// Records that an image of the present state can have at most.
    pub(crate) fn record_count_max(&self) -> u64 {
        1 + self.index.key_count() + self.edge.len() as u64 + self.tail.count()
    }

    /// The most bytes that the records of the present state can have.
    pub(crate) fn section_bytes_max(&self) -> u64 {
        START_BYTES + self.record_count_max() * RECORD_HEAD_BYTES + self.bytes()
    }
}

impl Walk {
    fn walk_edge(&self, from: usize, piece: &mut Vec<u8>, end: usize, count_max: u32) -> Cursor {
        for (number, event) in self.edge.iter().enumerate().skip(from) {
            if number - from == count_max as usize || piece.len() >= end {
                return Cursor::Edge(number);
            }
            if event.is_delete() {
                put_record(TAG_EDGE, event, piece);
            }
        }
        Cursor::Tail(Place { revision: self.compacted, sub: u32::MAX })
    }
}

fn put_record(tag: u8, event: &Event, piece: &mut Vec<u8>) {
    piece.put_u8(tag);
    piece.put_bytes(event.bytes());
}
