//! How far a transaction has come before its operations run: the state of its comparisons and of
//! its checks, kept from one step to the next.

use std::collections::BTreeSet;

use crate::etcd::path::Level;

/// How far the judging of a transaction's comparisons has come.
#[derive(Debug)]
pub(crate) struct Judging {
    pub levels: Vec<Level>,
    /// The results so far, one for each transaction on the path; a transaction comes before those
    /// nested in it.
    pub judged: Vec<bool>,
    /// The progress in the transaction that the walk enters next; `None` while the walk is in a
    /// branch.
    pub compares: Option<Compares>,
}

/// How far the judging of one transaction's comparisons has come, without those of transactions
/// nested in it.
#[derive(Debug, Default)]
pub(crate) struct Compares {
    /// The position of the comparison that is being judged.
    pub next: usize,
    /// The first key of that comparison's range that was not looked at; `None` before the first
    /// key.
    pub from: Option<Box<[u8]>>,
    /// Whether an existing key was found in that range.
    pub has_keys: bool,
}

impl Default for Judging {
    fn default() -> Judging {
        Judging { levels: Vec::new(), judged: Vec::new(), compares: Some(Compares::default()) }
    }
}

/// How far the check of the operations on a transaction's path has come.
#[derive(Debug, Default)]
pub(crate) struct Checking {
    pub levels: Vec<Level>,
    /// How many transactions the walk has entered.
    pub entered: usize,
    /// The keys of puts that keep the key's value or lease.
    pub kept: BTreeSet<Box<[u8]>>,
    /// The keys of `kept` that exist after the operations checked so far, in the second walk along
    /// the path. `None` during the first walk.
    pub present: Option<BTreeSet<Box<[u8]>>>,
}
