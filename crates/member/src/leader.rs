//! What a member keeps and does only while it leads.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::{BootId, Level, LogIndex, MemberId};

use crate::leader::containers::{ContainerManager, ContainerSettings};
use crate::leader::digests::Digests;
use crate::leader::followed::Followed;
use crate::leader::joining::Joining;
use crate::leader::lending::Lending;
use crate::snapshot::fetch::Offers;

pub mod containers;
pub mod deadlines;
pub(crate) mod digests;
pub(crate) mod followed;
pub(crate) mod joining;
pub(crate) mod lending;

/// The state of a leader. It goes as a whole when the member leads no longer.
pub(crate) struct Leading {
    /// When this member became the leader, by Loop's clock.
    pub since_ms: u64,
    /// The last entry that there was then: once it is applied, so is everything that earlier
    /// leaders committed.
    pub from: LogIndex,
    /// Whether a command that replaces the settings is under way.
    pub is_configuring: bool,
    /// The level that a command under way raises to.
    pub raising: Option<Level>,
    /// An entry that the replica could not take yet.
    pub unproposed: Option<Bytes>,
    /// What the others forwarded.
    pub followed: Followed,
    /// The last report of each follower that was not answered.
    pub heeded: BTreeMap<MemberId, (BootId, u64)>,
    /// When containers are looked for.
    pub containers: ContainerManager,
    /// Snapshots that are offered to members that the log does not reach.
    pub offers: Offers,
    /// Which member supplies such a snapshot.
    pub lending: Lending,
    /// Members that come and go.
    pub joining: Joining,
    /// The digests that the members gave.
    pub digests: Digests,
}

impl Leading {
    /// A leader from now on, whose log ends with that entry.
    pub fn new(now_ms: u64, from: LogIndex, containers: &ContainerSettings) -> Leading {
        Leading {
            since_ms: now_ms,
            from,
            is_configuring: false,
            raising: None,
            unproposed: None,
            followed: Followed::default(),
            heeded: BTreeMap::new(),
            containers: ContainerManager::new(containers.clone()),
            offers: Offers::default(),
            lending: Lending::default(),
            joining: Joining::default(),
            digests: Digests::default(),
        }
    }

    /// Whether everything is applied that earlier leaders committed.
    pub fn is_caught_up(&self, applied: LogIndex) -> bool {
        applied >= self.from
    }
}
