//! Which machines are servers of the ensemble, and what each process knows of the list of servers.

use std::collections::BTreeSet;

use machine::MemberId;
use machine::control::list_change::ChangeId;

use super::options::Options;
use super::reconfigs::Reconfigs;
use crate::member_changes::ChangeCounts;

/// The numbers of servers.
pub(super) type Numbers = BTreeSet<u64>;

/// Whether a machine is a server of the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The machine has never been started.
    Spare,
    /// The machine was started.
    Begun,
    /// The machine was taken away, since its server was removed.
    Gone,
}

/// A machine's standing, and what its process knows of the list of servers.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub standing: Standing,
    /// Whether the server was added to the ensemble, and does not begin it.
    pub is_added: bool,
    /// The servers that the running process makes links with.
    pub reaches: Numbers,
    /// The servers that the next start makes links with, as the data directory keeps them.
    pub kept: Numbers,
    /// Since when the machine is one of a listed server, in us.
    pub since_us: u64,
    /// The first version of the list without the machine's server, once it was removed.
    pub removed_version: Option<u64>,
    /// Whether the removed server may serve on without a vote.
    pub is_guest: bool,
    /// When the running process was first seen to have applied the removal, in us.
    pub applied_removal_us: Option<u64>,
    /// Whether the machine is to be started because a change may add it.
    pub is_planned: bool,
    /// Whether the member has learned of its own removal.
    pub knows_removal: bool,
    /// The members that the running process tells that they are retired, if they dial it.
    pub retired: BTreeSet<MemberId>,
}

impl Place {
    /// The place of a machine of an ensemble that begins with these servers.
    pub fn new(standing: Standing, servers: Numbers) -> Place {
        Place {
            standing,
            is_added: standing == Standing::Spare,
            reaches: servers.clone(),
            kept: servers,
            since_us: 0,
            removed_version: None,
            is_guest: false,
            applied_removal_us: None,
            is_planned: false,
            knows_removal: false,
            retired: BTreeSet::new(),
        }
    }
}

/// The newest list of servers that the world knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster {
    /// The version of the list; 0 before the first change has finished.
    pub version: u64,
    /// The voters, and the servers without a vote.
    pub voters: Numbers,
    pub learners: Numbers,
    /// The servers in `learners` that are observers: they serve clients.
    pub observers: Numbers,
    /// Whether the faults have stopped.
    pub is_calm: bool,
    /// The first entry of the last judged membership.
    pub judged_from: u64,
    /// The step of the open change that the leader was last seen at.
    pub step: Step,
    /// The machines that stay down at the end of the faults until the others have a leader.
    pub short: Option<Short>,
    /// The operators that change the list as ZooKeeper's clients do; `None` if there are none.
    pub reconfigs: Option<Reconfigs>,
    pub counts: ChangeCounts,
}

/// How far a change of the list has come: the change, whether it is accepted, and whether the
/// membership is joint.
pub(super) type Step = (Option<ChangeId>, bool, bool);

/// A minority of the voters that is down right after an answered change.
#[derive(Clone, Debug)]
pub(super) struct Short {
    pub since_us: u64,
    pub down: Vec<usize>,
}

impl Roster {
    /// The list of an ensemble at its beginning.
    pub fn new(options: &Options) -> Roster {
        let changes = options.changes.as_ref();
        let reconfigs = changes.and_then(|it| it.reconfigs.as_ref()).map(Reconfigs::new);
        let voters = (1..=options.member_count as u64).collect();
        Roster { voters, reconfigs, ..Roster::default() }
    }
}
