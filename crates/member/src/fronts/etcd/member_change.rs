//! Calls that change the members: `MemberAdd`, `MemberRemove`, `MemberUpdate` and `MemberPromote`.
//!
//! Such a call becomes a command that requests a change of the list of servers
//! ([`machine::control::list_change`]). If the request opens a change, the call waits until the
//! change has ended, and its response lists the members as they are then. If another change is
//! open, the call waits for the end of that one, and begins anew.

use bytes::Bytes;
use etcd::Error;
use machine::control::list_change::{ChangeRefused, LeaderRefused, ListChange};

use super::cluster::ClusterMethod;
use super::credentials::Asker;
use super::method::CallRefused;

/// A change of the members that was requested, or is open.
pub(super) struct MemberChange {
    /// The change.
    pub change: ListChange,
    /// The method and the request of the call, to begin it anew.
    pub kept: (ClusterMethod, Bytes),
    /// The client.
    pub asker: Asker,
}

/// The settings of a member that go into a request to change the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberChanges {
    /// Whether the leader applies etcd's checks of health (`--strict-reconfig-check`).
    pub is_strict: bool,
    /// The most learners that an add may lead to (`--max-learners`).
    pub learners_max: u16,
}

impl Default for MemberChanges {
    /// etcd's defaults (`embed.NewConfig`, `membership.DefaultMaxLearners`).
    fn default() -> MemberChanges {
        MemberChanges { is_strict: true, learners_max: 1 }
    }
}

/// The error of etcd for a request that the state refuses (`api/v3rpc/rpctypes`).
pub(super) fn error_of_request(refused: ChangeRefused) -> CallRefused {
    match refused {
        ChangeRefused::NotPermitted => Error::PermissionDenied.into(),
        ChangeRefused::NotFound => Error::MemberNotFound.into(),
        ChangeRefused::UrlExists => Error::PeerUrlExists.into(),
        ChangeRefused::TooManyLearners => Error::TooManyLearners.into(),
        ChangeRefused::NotLearner => Error::MemberNotLearner.into(),
        ChangeRefused::TooManyServers => {
            CallRefused::Unknown("etcdserver: too many members in the cluster")
        }
        // The last voter cannot leave. The others are ZooKeeper's.
        ChangeRefused::BadArguments
        | ChangeRefused::Disabled
        | ChangeRefused::NoEnsemble
        | ChangeRefused::InProgress
        | ChangeRefused::BadVersion
        | ChangeRefused::SessionExpired
        | ChangeRefused::SessionMoved => Error::MemberNotEnoughStarted.into(),
    }
}

/// The error of etcd for a change that the leader refused or gave up.
pub(super) fn error_of_leader(refused: LeaderRefused) -> Error {
    match refused {
        LeaderRefused::NoQuorum | LeaderRefused::GivenUp => Error::Unhealthy,
        LeaderRefused::NotEnoughStarted => Error::MemberNotEnoughStarted,
        LeaderRefused::LearnerNotReady => Error::LearnerNotReady,
    }
}
