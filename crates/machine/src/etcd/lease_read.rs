//! Looking at the keys of a lease, in several holds of the state's lock: to check that a user may
//! see or write all of them, and to show them. A lease has any number of keys.
//!
//! A key is looked at if it is there when the look comes to it. One that is put in front of that
//! place is not, as if the lease had been looked at before.

use crate::etcd::auth::{Access, AuthInfo};
use crate::etcd::command::KeyRange;
use crate::etcd::event::Event;
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;
use crate::ids::{LeaseId, Ordinal};

/// A look at the keys of a lease.
#[derive(Debug, Default)]
pub struct LeaseRead {
    /// The newest version of each key, if they are to be shown.
    pub found: Vec<Event>,
    /// The lease, once it was looked at: a later one with its number is another.
    granted: Option<Ordinal>,
    /// The last key that was looked at.
    after: Option<Box<[u8]>>,
    is_done: bool,
}

/// What a look at a lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseLook {
    /// The right that the user must have to each key; `None` if no key matters.
    pub access: Option<Access>,
    /// Whether the keys are shown.
    pub shows: bool,
}

impl Store {
    /// Goes on looking, and takes the keys off `keys_left`. Whether it is done; a lease that does
    /// not exist, or not any more, has no keys.
    ///
    /// # Errors
    /// Permissions are enforced, and the user has not the right to a key
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
