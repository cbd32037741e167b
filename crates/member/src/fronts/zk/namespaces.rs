//! Counts what clients read and write below each first element of a path, which ZooKeeper calls a
//! namespace (`DataTree.updateReadStat`, `updateWriteStat`, 3.9.5).
//!
//! A Front counts the successful requests of its own clients. The table is bounded: names without a
//! place in it are counted together, under [`OTHERS`]. A name keeps its place until the process
//! ends, so that a write under way can name it by number.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::ZkOutcome;
use zk::request::{ReadKind, Request, WriteRequest};

use super::answered::ZkAnswered;
use crate::fronts::zk::limits::{NAMESPACE_BYTES_MAX, NAMESPACES_MAX};
use crate::summary::Distribution;

/// Stands for every namespace without a place of its own, one of this name included. It is a part
/// of keys of metrics, where programs that read `mntr` take word characters only.
pub const OTHERS: &str = "_others";

/// Bytes of a reply's header, of a length or a count in it, and of a Stat.
const HEADER_BYTES: u64 = 16;
const LENGTH_BYTES: u64 = 4;
const STAT_BYTES: u64 = 68;

/// Counts of reads and writes, by namespace.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    /// The place of each name in `sizes`.
    places: HashMap<Box<str>, u16, FixedState>,
    /// Reads and writes of each place; place 0 is [`OTHERS`].
    sizes: Vec<[Sizes; 2]>,
    /// The last counted name, with its place: most requests repeat the name before, and comparing
    /// is cheaper than hashing.
    last: Option<(Box<str>, u16)>,
}

/// Bytes of several requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
}

/// A part of a write that is under way.
#[derive(Clone, Debug)]
pub(super) struct Part {
    namespace: Namespace,
    bytes: u64,
}

#[derive(Clone, Debug)]
enum Namespace {
    /// A namespace that has a place.
    At(u16),
    /// A namespace that gets a place if the write succeeds.
    New(Box<str>),
}

/// The counts of a write, once it has succeeded. The parts of a multi are on the heap.
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

    /// The distribution for the metrics, without quantiles.
    pub fn distribution(&self) -> Distribution {
        let (sum, min, max) = (self.sum as f64, self.min as f64, self.max as f64);
        Distribution { count: self.count, sum, min, max, quantiles: None }
    }
}

impl Namespaces {
    /// Counts a read that was answered with `reply_bytes`, the header included; the reply to a
    /// failed read is only the header. A read counts as its path, its data or names, and a Stat,
    /// even if the reply has none (`DataTree.STAT_OVERHEAD_BYTES`). The name of a child counts with
    /// its length.
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

    /// The counts of a request if it succeeds.
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

    /// Counts a write that was answered.
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

    /// The place where a name is counted, if it is decided already.
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

    /// Resets the counts, but keeps the names.
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

    /// The bytes read, by name (`read_per_namespace`).
    pub fn read(&self) -> BTreeMap<&str, Sizes> {
        self.of(Direction::Read)
    }

    /// The bytes written, by name (`write_per_namespace`).
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

/// The first element of a path; none for the root.
fn namespace(path: &str) -> Option<&str> {
    path.strip_prefix('/')?.split('/').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
