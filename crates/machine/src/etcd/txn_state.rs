//! How far a transaction is judged and checked, between two steps.

use std::collections::BTreeSet;

use crate::etcd::path::Level;

/// The comparisons of a transaction while they are judged.
#[derive(Debug)]
pub(crate) struct Judging {
    pub levels: Vec<Level>,
    /// The results, of each transaction on the path before those nested in it.
    pub judged: Vec<bool>,
    /// The transaction ahead of the walk, while its comparisons are judged.
    pub compares: Option<Compares>,
}

/// How far the comparisons of one transaction are judged.
#[derive(Debug, Default)]
pub(crate) struct Compares {
    /// The position of the next one that is not done.
    pub next: usize,
    /// The first key of its range that was not looked at; `None` before the first look at it.
    pub from: Option<Box<[u8]>>,
    /// Whether its range has a key that exists.
    pub has_keys: bool,
}

impl Default for Judging {
    fn default() -> Judging {
        Judging { levels: Vec::new(), judged: Vec::new(), compares: Some(Compares::default()) }
    }
}

/// The operations on a path while they are checked.
#[derive(Debug, Default)]
pub(crate) struct Checking {
    pub levels: Vec<Level>,
    /// The number of transactions that the walk has entered.
    pub entered: usize,
    /// The keys of puts that keep the value or the lease.
    pub kept: BTreeSet<Box<[u8]>>,
    /// The keys in `kept` that exist after the operations so far, once all were checked.
    pub present: Option<BTreeSet<Box<[u8]>>>,
}
