//! The list of all leases, read in several holds of the state's lock: there may be any number of
//! leases, and a user that is not `root` must have the right to read all their keys.
//!
//! Each lease is in the list if it is there when the list comes to it, and each of its keys is
//! checked if it is there then. A key that is put in front of the place that the list has reached
//! is not looked at, as if the list had been read before.

use std::ops::Bound;

use crate::etcd::auth::{Access, AuthInfo};
use crate::etcd::command::KeyRange;
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;
use crate::ids::{LeaseId, Ordinal};

/// A list that is being read.
#[derive(Debug, Default)]
pub struct LeaseList {
    /// The leases so far.
    pub found: Vec<LeaseId>,
    checked_up_to: Option<CheckedUpTo>,
}

/// How far the keys of a lease are checked.
#[derive(Debug)]
struct CheckedUpTo {
    lease: LeaseId,
    /// Tells the lease from a later one with its number.
    granted: Ordinal,
    /// The last key that was checked.
    key: Box<[u8]>,
}

impl Store {
    /// Reads on, and takes the keys and leases that it looks at off `keys_left`, which is not 0.
    /// Whether the list is done.
    ///
    /// # Errors
    /// Permissions are enforced, and who asks may not read a key of a lease
    /// (`EtcdServer.checkLeaseLeases`).
    pub fn list_leases(
        &self,
        who: Option<AuthInfo<'_>>,
        list: &mut LeaseList,
        keys_left: &mut u64,
    ) -> Result<bool, Refusal> {
        let sees_all = self.auth().require_root(who).is_ok();
        let mut begun = list.checked_up_to.take();
        let from = match (&begun, list.found.last()) {
            (Some(begun), _) => Bound::Included(begun.lease),
            (None, Some(last)) => Bound::Excluded(*last),
            (None, None) => Bound::Unbounded,
        };
        for (id, lease) in self.leases().from(from) {
            let granted = lease.grant().granted;
            let begun = begun.take().filter(|it| (it.lease, it.granted) == (id, granted));
            let unchecked = lease.keys_behind(begun.as_ref().map(|it| &*it.key));
            for key in unchecked.take_while(|_| !sees_all) {
                self.auth().require(who, Access::Read, KeyRange { key, end: &[] })?;
                *keys_left = keys_left.saturating_sub(1);
                if *keys_left == 0 {
                    list.checked_up_to = Some(CheckedUpTo { lease: id, granted, key: key.into() });
                    return Ok(false);
                }
            }
            list.found.push(id);
            *keys_left = keys_left.saturating_sub(1);
            if *keys_left == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
