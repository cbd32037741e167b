//! How far the permissions of a command are checked, between two steps.

use std::collections::BTreeSet;

use crate::etcd::command::Put;
use crate::etcd::path::Level;
use crate::ids::LeaseId;

/// A check between two of its steps.
#[derive(Debug)]
pub struct Permitting {
    /// The place among the operations of a transaction.
    pub(super) levels: Vec<Level>,
    /// The position of the next comparison, while those of the transaction ahead are checked.
    pub(super) compare: Option<usize>,
    /// Whether the command is checked, but for the keys of leases.
    pub(super) is_checked: bool,
    /// The leases whose keys are to be checked.
    pub(super) leases: BTreeSet<LeaseId>,
    /// The last key that was checked, of the first of these leases.
    pub(super) after: Option<Box<[u8]>>,
}

impl Default for Permitting {
    fn default() -> Permitting {
        Permitting {
            levels: Vec::new(),
            compare: Some(0),
            is_checked: false,
            leases: BTreeSet::new(),
            after: None,
        }
    }
}

impl Permitting {
    /// A put needs the keys of its lease as well: a user that may not write all of them could not
    /// revoke the lease, so may not add one (`apply.checkPutAuth`). A lease that does not exist
    /// refuses nobody (`apply.checkLeasePuts`).
    pub(super) fn note(&mut self, put: &Put<'_>) {
        if put.lease != 0 {
            self.leases.insert(LeaseId(put.lease));
        }
    }
}
