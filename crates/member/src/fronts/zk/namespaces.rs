//! Counts the bytes that clients read and write by *namespace*: the first element of the path
//! (`DataTree.updateReadStat`, `updateWriteStat`, 3.9.5).
//!
//! A Front counts the successful requests of its own clients. The table is bounded: when it is
//! full, further names are counted together, under [`OTHERS`]. A name keeps its place in the table
//! until the process ends, so that a write under way can name it by number.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::ZkOutcome;
use zk::request::{ReadKind, Request, WriteRequest};

use super::answered::ZkAnswered;
use crate::fronts::zk::limits::{NAMESPACE_BYTES_MAX, NAMESPACES_MAX};
use crate::summary::Distribution;

/// The name under which all namespaces without a place of their own are counted, and also a
/// namespace that has this very name. The name becomes a part of metric names, in which programs
/// that read `mntr` accept only word characters.
pub const OTHERS: &str = "_others";

/// The bytes of a reply's header, of a length or a count in a reply, and of a Stat.
const HEADER_BYTES: u64 = 16;
const LENGTH_BYTES: u64 = 4;
const STAT_BYTES: u64 = 68;

/// Bytes read and written, by namespace.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    /// The place of each name: its index in `sizes`.
    places: HashMap<Box<str>, u16, FixedState>,
    /// The reads and the writes of each place. Place 0 is [`OTHERS`].
    sizes: Vec<[Sizes; 2]>,
    /// The last name that was counted, with its place. Most requests repeat the last name, and
    /// comparing is cheaper than hashing.
    last: Option<(Box<str>, u16)>,
}

/// The bytes of several requests: how many requests, the sum, the least and the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
}

/// One operation of a write under way.
#[derive(Clone, Debug)]
pub(super) struct Part {
    namespace: Namespace,
    bytes: u64,
}

#[derive(Clone, Debug)]
enum Namespace {
    /// The place of a namespace that has one.
    At(u16),
    /// A namespace without a place. It gets one if the write succeeds.
    New(Box<str>),
}

/// The bytes to count for a write once it has succeeded. The operations of a multi are on the heap.
#[derive(Clone, Debug, Default)]
pub(super) enum Written {
    #[default]
    Nothing,
    One(Part),
    Many(Box<[Part]>),
}

/// Whether a request reads or writes.
#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

impl Sizes {
    fn record(&mut self, bytes: u64) {
        self.merge(&Sizes { count: 1, sum: bytes, min: bytes, max: bytes });
    }

    fn merge(&mut self, other: &Sizes) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The sizes as a metric, without quantiles.
    pub fn distribution(&self) -> Distribution {
        let (sum, min, max) = (self.sum as f64, self.min as f64, self.max as f64);
        Distribution { count: self.count, sum, min, max, quantiles: None }
    }
}

impl Namespaces {
    /// Counts a read whose reply has `reply_bytes` bytes, header included. The reply to a failed
    /// read is only a header, and is not counted. A read counts as its path, its data or names, and
    /// a Stat, even if the reply has no Stat (`DataTree.STAT_OVERHEAD_BYTES`). A child's name
    /// counts with its length.
    pub(super) fn on_read(&mut self, kind: ReadKind, path: &str, reply_bytes: u64) {
        let body_bytes = reply_bytes.saturating_sub(HEADER_BYTES);
        let bytes = match kind {
            _ if body_bytes == 0 => return,
            ReadKind::GetAcl => return,
            ReadKind::Exists => body_bytes,
            ReadKind::GetData | ReadKind::GetChildren2 => body_bytes.saturating_sub(LENGTH_BYTES),
            ReadKind::GetChildren => body_bytes.saturating_sub(LENGTH_BYTES) + STAT_BYTES,
        };
        let Some(name) = namespace(path) else { return };
        let place = self.place_of(name).unwrap_or_else(|| self.make_place(name));
        if place > 0 && self.last.as_ref().is_none_or(|(_, last)| *last != place) {
            self.last = Some((name.into(), place));
        }
        self.record(place, Direction::Read, path.len() as u64 + bytes);
    }

    /// The bytes to count for a request if it succeeds.
    pub(super) fn written(&self, request: &Request<'_>) -> Written {
        match request {
            Request::Write(write) => self.part(write).map_or(Written::Nothing, Written::One),
            Request::Multi(writes) => {
                Written::Many(writes.iter().filter_map(|write| self.part(write)).collect())
            }
            _ => Written::Nothing,
        }
    }

    fn part(&self, write: &WriteRequest<'_>) -> Option<Part> {
        let (path, data_bytes) = match write {
            WriteRequest::Create { path, data, .. } | WriteRequest::SetData { path, data, .. } => {
                (path, data.map_or(0, <[u8]>::len))
            }
            WriteRequest::Delete { path, .. } => (path, 0),
            WriteRequest::SetAcl { .. } | WriteRequest::Check { .. } => return None,
        };
        let name = namespace(path)?;
        let known = self.place_of(name).map(Namespace::At);
        let namespace = known.unwrap_or_else(|| Namespace::New(name.into()));
        Some(Part { namespace, bytes: (path.len() + data_bytes) as u64 })
    }

    /// Counts a write that was answered, if it has succeeded.
    pub(super) fn on_written(&mut self, written: &Written, answered: &ZkAnswered) {
        let parts = match (written, answered) {
            (Written::One(part), Ok(Ok(_))) => core::slice::from_ref(part),
            (Written::Many(parts), Ok(Ok(ZkOutcome::Multi(_)))) => parts,
            _ => return,
        };
        for Part { namespace, bytes } in parts {
            let place = match namespace {
                Namespace::At(place) => *place,
                Namespace::New(name) => {
                    self.place_of(name).unwrap_or_else(|| self.make_place(name))
                }
            };
            self.record(place, Direction::Write, *bytes);
        }
    }

    /// The place of a name; `None` if the name still has to get one.
    fn place_of(&self, name: &str) -> Option<u16> {
        if let Some((last, place)) = &self.last
            && **last == *name
        {
            return Some(*place);
        }
        if name.len() > NAMESPACE_BYTES_MAX || name == OTHERS {
            return Some(0);
        }
        let is_full = self.places.len() >= NAMESPACES_MAX;
        self.places.get(name).copied().or(is_full.then_some(0))
    }

    fn make_place(&mut self, name: &str) -> u16 {
        let place = self.places.len() as u16 + 1;
        self.places.insert(name.into(), place);
        place
    }

    fn record(&mut self, place: u16, direction: Direction, bytes: u64) {
        let place = usize::from(place);
        if self.sizes.len() <= place {
            self.sizes.resize(place + 1, <_>::default());
        }
        self.sizes[place][direction as usize].record(bytes);
    }

    /// Removes all counts, and keeps the names and their places.
    pub(super) fn emptied(mut self) -> Namespaces {
        self.sizes.clear();
        self
    }

    /// Adds the counts of another Front.
    pub(super) fn merge(&mut self, other: &Namespaces) {
        let all = other.places.iter().map(|(name, place)| (&**name, *place));
        for (name, from) in all.chain([(OTHERS, 0)]) {
            let Some(sizes) = other.sizes.get(usize::from(from)).copied() else { continue };
            let known = if from == 0 { Some(0) } else { self.place_of(name) };
            let to = usize::from(known.unwrap_or_else(|| self.make_place(name)));
            if self.sizes.len() <= to {
                self.sizes.resize(to + 1, <_>::default());
            }
            for (own, sizes) in self.sizes[to].iter_mut().zip(&sizes) {
                own.merge(sizes);
            }
        }
    }

    /// The bytes read, by namespace (`read_per_namespace`).
    pub fn read(&self) -> BTreeMap<&str, Sizes> {
        self.of(Direction::Read)
    }

    /// The bytes written, by namespace (`write_per_namespace`).
    pub fn written_bytes(&self) -> BTreeMap<&str, Sizes> {
        self.of(Direction::Write)
    }

    fn of(&self, direction: Direction) -> BTreeMap<&str, Sizes> {
        let all = self.places.iter().map(|(name, place)| (&**name, *place));
        let sizes = all.chain([(OTHERS, 0)]).filter_map(|(name, place)| {
            let sizes = self.sizes.get(usize::from(place))?[direction as usize];
            (sizes.count > 0).then_some((name, sizes))
        });
        sizes.collect()
    }
}

/// The first element of a path; `None` for the root.
fn namespace(path: &str) -> Option<&str> {
    path.strip_prefix('/')?.split('/').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
