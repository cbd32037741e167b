//! Changes of the members in a run: whether clients of etcd make them, and their rules.
//!
//! All servers of such a run know level 5. The world has [`HOSTS_MAX`] machines. The first ones are
//! the servers that begin the ensemble; each of the others is started, with an empty directory, if
//! a change adds a server with its number.

use member::fronts::etcd::MemberChanges;
use workload::generate::Random;

use crate::ENSEMBLE_SEEDS;
use crate::etcd_clients::EtcdLoad;
use crate::etcd_clients::changer::ChangerConfig;

/// XORed into a seed to draw whether members change. With this number no kept seed (those in the
/// tests) changes members.
const CHANGES_SEED: u64 = 0x6d65_6d62_6572_0537;

/// XORed into a seed to draw whether operators change the list as ZooKeeper's clients do. With this
/// number no kept seed does so.
const RECONFIGS_SEED: u64 = 0x7265_636f_6e66_6967;

/// The number of machines in a run in which members change.
pub const HOSTS_MAX: usize = 7;

/// The changes of the members in a run.
#[derive(Clone, Debug)]
pub struct ChangeLoad {
    /// The seed of all random choices about machines that come and go.
    pub seed: u64,
    /// The members' settings for changes.
    pub rules: MemberChanges,
    /// How each operator changes members.
    pub operators: Vec<ChangerConfig>,
    /// After so many changes that were answered as done, the faults stop at once, with a minority
    /// of the new voters down. `None` if the faults stop as in other runs.
    pub ends_after: Option<u64>,
    /// How operators change the list as ZooKeeper's clients do; `None` if they do not.
    pub reconfigs: Option<ReconfigLoad>,
}

/// The changes of the list that operators ask for as ZooKeeper's clients do.
#[derive(Clone, Debug)]
pub struct ReconfigLoad {
    /// The seed of the operators' random choices.
    pub seed: u64,
    /// The number of requests.
    pub calls: u64,
    /// The longest pause between two requests, in us.
    pub rest_us_max: u64,
}

impl ReconfigLoad {
    /// Draws how operators change the list.
    pub fn new(mut random: Random) -> ReconfigLoad {
        ReconfigLoad {
            calls: random.magnitude(10, 100),
            rest_us_max: random.magnitude(100_000, 5_000_000),
            seed: random.bits(),
        }
    }
}

impl ChangeLoad {
    /// Draws whether and how members change; `None` in half of the runs. Only seeds that have an
    /// ensemble by themselves draw this, so that others keep their meaning.
    pub fn draw(seed: u64) -> Option<ChangeLoad> {
        let mut random = Random::new(seed ^ CHANGES_SEED);
        let does_change = seed >= ENSEMBLE_SEEDS && random.one_in(2);
        let mut load = does_change.then(|| ChangeLoad::new(random))?;
        let mut apart = Random::new(seed ^ RECONFIGS_SEED);
        load.reconfigs = apart.one_in(2).then(|| ReconfigLoad::new(apart));
        Some(load)
    }

    /// Draws how members change.
    pub fn new(mut random: Random) -> ChangeLoad {
        let rules = MemberChanges {
            is_strict: !random.one_in(3),
            learners_max: random.between(1, 2) as u16,
        };
        let operators = (0..random.between(1, 3)).map(|number| ChangerConfig {
            number,
            seed: random.bits(),
            calls: random.magnitude(4, 60),
            rest_us_max: random.magnitude(100_000, 10_000_000),
        });
        ChangeLoad {
            rules,
            operators: operators.collect(),
            ends_after: random.one_in(2).then(|| random.between(1, 3)),
            seed: random.bits(),
            reconfigs: None,
        }
    }

    /// Adds the operators to the clients.
    pub fn add_operators(&self, load: &mut EtcdLoad) {
        let mut random = Random::new(self.seed.rotate_left(17));
        for changes in &self.operators {
            load.add_changer(changes.clone(), random.fork());
        }
    }
}

/// Counts of the changes of members in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    /// Runs in which members changed.
    pub runs: usize,
    /// Servers added with a vote.
    pub added: usize,
    /// Servers added as learners.
    pub added_learners: usize,
    /// Learners that became voters.
    pub promoted: usize,
    /// Servers with other URLs.
    pub updated: usize,
    /// Servers removed.
    pub removed: usize,
    /// The servers in `removed` that led when the change was accepted.
    pub removed_leaders: usize,
    /// Changes that the leader refused because too few servers were present.
    pub refused_no_quorum: usize,
    /// Changes that the leader refused for another reason.
    pub refused_otherwise: usize,
    /// Changes that the leader accepted and gave up.
    pub given_up: usize,
    /// Servers that were started because a change had added them.
    pub begun: usize,
    /// Processes of added servers that ended before their server was ready for the first time.
    pub died_joining: usize,
    /// Members that ended because they were removed.
    pub ended: usize,
    /// Members that learned that they are retired, and joined again as new members.
    pub joined_again: usize,
    /// Changes of the list that were asked for as ZooKeeper's clients do, and finished.
    pub reconfigs: usize,
    /// Observers that such changes added, or made of other servers.
    pub observers: usize,
    /// Servers that were removed and served on without a vote.
    pub guests: usize,
    /// Machines that were taken away and came back, since their servers were listed again.
    pub returned: usize,
    /// Members that lead and were killed in the middle of a change.
    pub leaders_killed: usize,
    /// Runs whose faults stopped right after a change, with a minority of the voters down.
    pub ended_short: usize,
}

impl ChangeCounts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &ChangeCounts) {
        self.runs += other.runs;
        self.added += other.added;
        self.added_learners += other.added_learners;
        self.promoted += other.promoted;
        self.updated += other.updated;
        self.removed += other.removed;
        self.removed_leaders += other.removed_leaders;
        self.refused_no_quorum += other.refused_no_quorum;
        self.refused_otherwise += other.refused_otherwise;
        self.given_up += other.given_up;
        self.begun += other.begun;
        self.died_joining += other.died_joining;
        self.ended += other.ended;
        self.joined_again += other.joined_again;
        self.reconfigs += other.reconfigs;
        self.observers += other.observers;
        self.guests += other.guests;
        self.returned += other.returned;
        self.leaders_killed += other.leaders_killed;
        self.ended_short += other.ended_short;
    }
}
