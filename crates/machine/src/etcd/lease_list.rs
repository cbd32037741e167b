//! Lists all leases, in steps, between which the state's lock is released: there may be any number
//! of leases. While permissions are enforced, a user without the role `root` also needs read
//! permission for all keys of all leases, and the list checks this in its steps.
//!
//! The list has each lease that exists when the list reaches its id. A key is checked if it exists
//! when the check reaches it. A key that is put later, at a place that the check has passed, is not
//! checked: the list then counts as read before that put.

use std::ops::Bound;

use crate::etcd::auth::{Access, AuthInfo};
use crate::etcd::command::KeyRange;
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;
use crate::ids::{LeaseId, Ordinal};

/// The progress of a list.
#[derive(Debug, Default)]
pub struct LeaseList {
    /// The ids found so far, ascending.
    pub found: Vec<LeaseId>,
    checked_up_to: Option<CheckedUpTo>,
}

/// How far the keys of the present lease are checked.
#[derive(Debug)]
struct CheckedUpTo {
    lease: LeaseId,
    /// The ordinal of the lease's grant: a later lease with the same id has another one.
    granted: Ordinal,
    /// The last key that was checked.
    key: Box<[u8]>,
}

impl Store {
    /// Does one step of the list: looks at up to `keys_left` keys and leases, at least one, and
    /// subtracts their number from `keys_left`. True when the list is complete.
    ///
    /// # Errors
    /// Permissions are enforced, and the user may not read a key of a lease
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
