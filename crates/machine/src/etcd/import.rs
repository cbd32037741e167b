//! Import: builds a state from an etcd history that another program wrote, given as versions of
//! keys in the order of their revisions.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;

use crate::etcd::alarm::Alarm;
use crate::etcd::auth::Auth;
use crate::etcd::command::KeyRange;
use crate::etcd::edge::Edge;
use crate::etcd::event::{Event, Place, Version};
use crate::etcd::lease::Grant;
use crate::etcd::store::{FIRST_REVISION, Store};
use crate::ids::{LeaseId, LogIndex, Ordinal};
use crate::limits::{ETCD_ALARMS_MAX, ETCD_LEASE_TTL_S_MAX, ETCD_REVISION_MAX};
use crate::machine::Machine;

/// Why something cannot be imported.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ImportError {
    /// A version does not follow those before it in order, or its revision is too high.
    #[error("the version at revision {revision} is not in its order")]
    Order {
        /// The revision of the version.
        revision: i64,
    },
    /// The lease's id is 0 or taken, or its time to live is not allowed.
    #[error("lease {:x} with {ttl_s} s to live cannot exist", lease.0)]
    Lease {
        /// The id of the lease.
        lease: LeaseId,
        /// The time to live in seconds.
        ttl_s: i64,
    },
    /// There are more than [`ETCD_ALARMS_MAX`] alarms.
    #[error("there are more than {ETCD_ALARMS_MAX} alarms")]
    Alarms,
}

/// A key whose newest version names a lease that does not exist.
#[derive(Debug, PartialEq, Eq)]
pub struct MissingLease {
    /// The place of that version in the order of all events.
    pub place: Place,
    /// The key.
    pub key: Box<[u8]>,
    /// The id of the missing lease.
    pub lease: i64,
}

/// An import under way. The caller adds all leases before the first version.
pub struct Import {
    store: Store,
    /// The compacted revision. Of the versions up to it, only those that a read at it shows are
    /// kept.
    compacted: Option<i64>,
    /// The place of the last version so far.
    last: Place,
    /// The deletions at the compacted revision whose earlier versions were not imported.
    edge: Vec<Event>,
    /// The places of versions that lose their lease.
    detached: BTreeSet<Place>,
}

impl Import {
    /// Starts an import. `compacted` is the revision at which the history was compacted; `None` if
    /// it is whole.
    ///
    /// # Errors
    /// The compacted revision is too high.
    pub fn new(compacted: Option<i64>) -> Result<Import, ImportError> {
        if let Some(revision) = compacted.filter(|compacted| *compacted > ETCD_REVISION_MAX) {
            return Err(ImportError::Order { revision });
        }
        let last = Place { revision: FIRST_REVISION, sub: u32::MAX };
        let (edge, detached) = Default::default();
        Ok(Import { store: Store::default(), compacted, last, edge, detached })
    }

    /// Sets the users and roles.
    pub fn set_auth(&mut self, auth: Auth) {
        self.store.auth = Arc::new(auth);
    }

    /// Adds an alarm.
    ///
    /// # Errors
    /// `ImportError::Alarms`.
    pub fn add_alarm(&mut self, alarm: Alarm) -> Result<(), ImportError> {
        self.store.alarms.raise(alarm).map_err(|_| ImportError::Alarms)
    }

    /// Adds a lease; `ttl_s` is its time to live in seconds.
    ///
    /// # Errors
    /// `ImportError::Lease`.
    pub fn add_lease(&mut self, lease: LeaseId, ttl_s: i64) -> Result<(), ImportError> {
        let is_valid = lease != LeaseId(0) && (1..=ETCD_LEASE_TTL_S_MAX).contains(&ttl_s);
        let grant = Grant { ttl_s, granted: Ordinal::default() };
        match is_valid && self.store.leases.add(lease, grant) {
            true => Ok(()),
            false => Err(ImportError::Lease { lease, ttl_s }),
        }
    }

    /// Removes the lease from the versions at these places. Call it before the versions are added.
    pub fn detach(&mut self, places: impl IntoIterator<Item = Place>) {
        self.detached.extend(places);
    }

    /// Adds the next version of a key.
    ///
    /// # Errors
    /// The version does not follow those before it in order, or its revision is too high.
    pub fn push(&mut self, mut event: Event) -> Result<(), ImportError> {
        self.move_to(event.place())?;
        if self.detached.contains(&event.place()) {
            let numbers = Version { lease: 0, ..event.numbers() };
            event = Event::put(event.place(), event.key(), numbers, event.value());
        }
        if event.is_delete()
            && self.is_compacted(event.revision())
            && self.store.index.newest(event.key()).is_none()
        {
            if Some(event.revision()) == self.compacted {
                self.edge.push(event);
            }
            return Ok(());
        }
        let before = self.store.push(event.clone());
        self.store.leases.on_put(&event, before.as_ref(), 0);
        Ok(())
    }

    /// Moves the store's revision forward to a place. Called for the place of each version, and by
    /// the caller for a place where the history has nothing to import.
    ///
    /// # Errors
    /// The place does not follow those before it, or its revision is too high.
    pub fn move_to(&mut self, place: Place) -> Result<(), ImportError> {
        let revision = place.revision;
        if place <= self.last || revision > ETCD_REVISION_MAX {
            return Err(ImportError::Order { revision });
        }
        if !self.is_compacted(revision) {
            self.compact();
        }
        self.last = place;
        self.store.revision = revision;
        Ok(())
    }

    fn is_compacted(&self, revision: i64) -> bool {
        self.compacted.is_some_and(|compacted| revision <= compacted)
    }

    /// Compacts the store, unless done before. Called when all versions up to the compacted
    /// revision have been added.
    fn compact(&mut self) {
        let Some(compacted) = self.compacted.filter(|it| *it > self.store.compacted) else {
            return;
        };
        self.store.revision = self.store.revision.max(compacted);
        self.store.compact(compacted).expect("the revision is between the two of the store");
        while self.store.has_garbage() {
            self.store.prune();
        }
        let mut edge = core::mem::take(&mut self.edge);
        edge.extend(self.store.edge.events.iter().cloned());
        edge.sort_by_key(Event::place);
        self.store.set_edge(Edge::of(edge));
    }

    /// Ends the import. Returns a state with the imported keys, leases, alarms, users and roles,
    /// and nothing of the other spaces. The state has the given log index. An ensemble can begin
    /// with it ([`Machine::begin_with`]).
    ///
    /// # Errors
    /// Some keys name leases that do not exist, which no state may have. The error lists these
    /// keys.
    pub fn finish(mut self, index: LogIndex) -> Result<Machine, Vec<MissingLease>> {
        self.compact();
        let everything = KeyRange { key: &[0], end: &[0] };
        let newest = self.store.index.range(everything, self.store.revision);
        let missing = newest.filter(|event| self.store.leases.is_astray(event)).map(|event| {
            let (place, key) = (event.place(), event.key().into());
            MissingLease { place, key, lease: event.numbers().lease }
        });
        let missing: Vec<MissingLease> = missing.collect();
        match missing.is_empty() {
            true => Ok(Machine { etcd: self.store, index, ..Machine::default() }),
            false => Err(missing),
        }
    }
}

#[cfg(test)]
mod tests;
