//! How far the check of a command's permissions has come, kept between two steps.

use std::collections::BTreeSet;

use crate::etcd::command::Put;
use crate::etcd::path::Level;
use crate::ids::LeaseId;

/// The progress of a check of permissions. The default is the start.
#[derive(Debug)]
pub struct Permitting {
    /// The place among the operations of the transaction.
    pub(super) levels: Vec<Level>,
    /// The position of the next comparison to check in the transaction that the walk enters next.
    /// `None` while operations are checked.
    pub(super) compare: Option<usize>,
    /// Whether everything is checked except the keys of the noted leases.
    pub(super) is_checked: bool,
    /// The leases whose keys are still to be checked.
    pub(super) leases: BTreeSet<LeaseId>,
    /// The last key that was checked of the first of these leases; `None` if none was.
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
    /// Notes the lease of a put. Its user needs write permission for all keys of the lease:
    /// otherwise it could not revoke the lease, so it may not attach a key to it
    /// (`apply.checkPutAuth`). A lease that does not exist has no keys, so it passes
    /// (`apply.checkLeasePuts`).
    pub(super) fn note(&mut self, put: &Put<'_>) {
        if put.lease != 0 {
            self.leases.insert(LeaseId(put.lease));
        }
    }
}
