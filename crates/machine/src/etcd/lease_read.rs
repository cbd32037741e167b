//! Reads the keys of one lease, either to check that the user has permission for all of them, or to
//! show them. A lease may have any number of keys, so the read goes in steps, and the state's lock
//! is released between two steps.
//!
//! The read goes through the keys in order. A key is read if it exists when the read comes to it. A
//! key that is put later, at a place that the read has passed, is not read: the read then counts as
//! done before that put.

use crate::etcd::auth::{Access, AuthInfo};
use crate::etcd::command::KeyRange;
use crate::etcd::event::Event;
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;
use crate::ids::{LeaseId, Ordinal};

/// The progress of a read of a lease's keys.
#[derive(Debug, Default)]
pub struct LeaseRead {
    /// The newest version of each key so far, if the keys are to be shown.
    pub found: Vec<Event>,
    /// The ordinal of the lease's grant, from the first step on: a later lease with the same id has
    /// another one.
    granted: Option<Ordinal>,
    /// The last key that was read.
    after: Option<Box<[u8]>>,
    is_done: bool,
}

/// The purpose of a read of a lease's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseLook {
    /// The access that the user needs to each key; `None` if no permission is needed.
    pub access: Option<Access>,
    /// Whether the keys are to be shown.
    pub shows: bool,
}

impl Store {
    /// Does one step of the read: looks at up to `keys_left` keys, and subtracts their number from
    /// `keys_left`. True when the read is done. A lease that does not exist, or no longer exists,
    /// has no keys.
    ///
    /// # Errors
    /// Permissions are enforced, and the user lacks the access to a key
    /// (`EtcdServer.checkLeaseRenew`, `checkLeaseTimeToLive`).
    pub fn lease_read_step(
        &self,
        who: Option<AuthInfo<'_>>,
        lease: LeaseId,
        look: LeaseLook,
        read: &mut LeaseRead,
        keys_left: &mut u64,
    ) -> Result<bool, Refusal> {
        let Some(lease) = self.leases().get(lease).filter(|_| !read.is_done) else {
            return Ok(true);
        };
        let granted = lease.grant().granted;
        if *read.granted.get_or_insert(granted) != granted {
            return Ok(true);
        }
        let tag = match look.access {
            Some(Access::Write) => self.auth().user_tag(who),
            _ => 0,
        };
        let is_free = !self.auth().is_enabled()
            || self.auth().require_root(who).is_ok()
            || lease.is_writable_by(tag);
        let access = look.access.filter(|_| !is_free);
        if access.is_none() && !look.shows {
            return Ok(true);
        }
        let after = read.after.take();
        let mut last = after.as_deref();
        for version in lease.versions_behind(last) {
            if *keys_left == 0 {
                read.after = last.map(Into::into);
                return Ok(false);
            }
            *keys_left -= 1;
            let key = version.key();
            if let Some(access) = access {
                self.auth().require(who, access, KeyRange { key, end: &[] })?;
            }
            if look.shows {
                read.found.push(version.clone());
            }
            last = Some(key);
        }
        if access.is_some() && tag != 0 {
            lease.set_writer(tag);
        }
        read.is_done = true;
        Ok(true)
    }
}
