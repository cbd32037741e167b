//! How far the permissions of a command are checked, between two steps.

use std::collections::BTreeSet;

use crate::etcd::command::Put;
use crate::etcd::path::Level;
use crate::ids::LeaseId;

/// A check between two of its steps.
#[derive(Debug, Default)]
pub(crate) struct Permitting {
    /// The place among the operations of a transaction.
    pub levels: Vec<Level>,
    /// Whether the command is checked, but for the keys of leases.
    pub is_checked: bool,
    pub has_begun: bool,
    /// The leases whose keys are to be checked.
    pub leases: BTreeSet<LeaseId>,
    /// The last key that was checked, of the first of these leases.
    pub after: Option<Box<[u8]>>,
}

impl Permitting {
    /// A put needs the keys of its lease as well: a user that may not write all of them could not
    /// revoke the lease, so may not add one (`apply.checkPutAuth`). A lease that does not exist
    /// refuses nobody (`apply.checkLeasePuts`).
    pub fn note(&mut self, put: &Put<'_>) {
        if put.lease != 0 {
            self.leases.insert(LeaseId(put.lease));
        }
    }
}
