//! The state and the work that a member has only while it leads.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::{BootId, Level, LogIndex, MemberId};

use crate::leader::digests::Digests;
use crate::leader::followed::Followed;
use crate::leader::lending::Lending;
use crate::membership::joining::Joining;
use crate::snapshot::fetch::Offers;

pub(crate) mod digests;
pub(crate) mod followed;
pub(crate) mod lending;
pub mod limits;

/// The state of a leader. Loop drops it as a whole when leadership is lost.
pub(crate) struct Leading {
    /// When this member became the leader, by Loop's clock.
    pub since_ms: u64,
    /// The last entry of the log when this member became the leader. Once it is applied, so is
    /// everything that earlier leaders committed.
    pub from: LogIndex,
    /// Whether a command that replaces the settings is under way.
    pub is_configuring: bool,
    /// The level that a command under way raises to; `None` if no such command is under way.
    pub raising: Option<Level>,
    /// An entry that the replica could not take yet. It is proposed first.
    pub unproposed: Option<Bytes>,
    /// The position in each follower's stream of forwarded batches.
    pub followed: Followed,
    /// For each follower, the newest report of sessions heard from (`Heard`) that this leader has
    /// not answered yet, as the boot and the number of the report.
    pub heeded: BTreeMap<MemberId, (BootId, u64)>,
    /// Snapshots that are offered to members that need entries which the log no longer has.
    pub offers: Offers,
    /// The choice of the member that supplies an offered snapshot.
    pub lending: Lending,
    /// The replacement of lost members.
    pub joining: Joining,
    /// The digests of the state that the members sent.
    pub digests: Digests,
}

impl Leading {
    /// The state of a member that begins to lead, with a log that ends at `from`.
    pub fn new(now_ms: u64, from: LogIndex) -> Leading {
        Leading {
            since_ms: now_ms,
            from,
            is_configuring: false,
            raising: None,
            unproposed: None,
            followed: Followed::default(),
            heeded: BTreeMap::new(),
            offers: Offers::default(),
            lending: Lending::default(),
            joining: Joining::default(),
            digests: Digests::default(),
        }
    }

    /// Whether everything that earlier leaders committed is applied.
    pub fn is_caught_up(&self, applied: LogIndex) -> bool {
        applied >= self.from
    }
}
