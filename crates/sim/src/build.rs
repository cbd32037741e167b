//! The builds (program versions) of the servers in a run: which levels and messages each build
//! knows, which server runs which build, and when clients or operators ask for a higher level.

use machine::Level;
use member::membership::hello::{Known, VersionRange};
use workload::generate::Random;

use crate::limits::ASK_INTERVAL_US_MAX;

/// XORed into a seed to draw the builds of its servers independently of the rest of the run. With
/// this number all servers of the kept seeds (those in the tests) run the same build.
const BUILDS_SEED: u64 = 0x6275_696c_6405_8709;

/// XORed into a seed to draw which levels the builds know.
const LEVELS_SEED: u64 = 0x6c65_7665_6c73_0302;

/// One of the two builds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Knows levels up to [`Builds::old`].
    Old,
    /// Knows levels up to [`Builds::new`].
    New,
}

/// An act of a client or an operator that can change the level, or the build of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A client of this member uses a feature that needs a higher level.
    Client(usize),
    /// An operator asks the leader to raise the level.
    Operator,
    /// An operator installs the old build, which this server runs from its next start on.
    OldBuild(usize),
}

/// The builds of a run whose servers run different builds, and the requests for a higher level.
#[derive(Clone, Debug)]
pub struct Builds {
    /// The highest level that an old build knows.
    pub old: Level,
    /// The highest level that a new build knows.
    pub new: Level,
    /// The seed of all random choices about builds and levels.
    pub seed: u64,
    /// The build of each server at its first start.
    pub first: Vec<Build>,
    /// Whether a restart while faults come may change the build.
    pub may_change: bool,
    /// Whether every server is restarted with the new build when the faults stop. Otherwise a
    /// server keeps its build while that build knows the level.
    pub end_new: bool,
    /// Mean time between two random requests for a higher level while faults come; `None` if none
    /// come at random.
    pub ask_interval_us: Option<u64>,
    /// Planned requests, each with its virtual time in us.
    pub asks: Vec<(u64, Ask)>,
}

impl Builds {
    /// Draws the builds of an ensemble; `None`, in half of the seeds, if all servers run one build.
    pub fn draw(seed: u64, member_count: usize) -> Option<Builds> {
        let mut random = Random::new(seed ^ BUILDS_SEED);
        if random.one_in(2) {
            return None;
        }
        let old_one_in = random.between(1, 6);
        let mut build = || match random.one_in(old_one_in) {
            true => Build::Old,
            false => Build::New,
        };
        let first = (0..member_count).map(|_| build()).collect();
        let mut levels = Random::new(seed ^ LEVELS_SEED);
        let (old, new) = match (levels.below(4), levels.one_in(2)) {
            (0, _) => (Level::ETCD, Level::ETCD_V2),
            (1, _) => (Level::FIRST, Level::ETCD_V2),
            (2, true) => (Level::FIRST, Level::TOKENS),
            (_, true) => (Level::ETCD_V2, Level::TOKENS),
            (_, false) => (Level::FIRST, Level::ETCD),
        };
        Some(Builds {
            old,
            new,
            first,
            may_change: true,
            end_new: !random.one_in(3),
            ask_interval_us: Some(random.magnitude(200_000, ASK_INTERVAL_US_MAX)),
            asks: Vec::new(),
            seed: random.bits(),
        })
    }

    /// Builds for a test: servers start with `first` and keep their builds, and `asks` come at the
    /// given times. Old builds know level 1, new builds level 2.
    pub fn planned(first: Vec<Build>, asks: Vec<(u64, Ask)>) -> Builds {
        let (may_change, end_new, ask_interval_us) = (false, true, None);
        let (old, new) = (Level::FIRST, Level::ETCD);
        Builds { old, new, seed: 1, first, may_change, end_new, ask_interval_us, asks }
    }

    /// Draws what a program of this build tells its peers about itself. Some new builds speak
    /// version 2 of the messages.
    pub fn known(&self, build: Build, random: &mut Random) -> Known {
        let (messages_max, level_max) = match build {
            Build::Old => (1, self.old),
            Build::New => (random.between(1, 2) as u16, self.new),
        };
        let programs = match level_max {
            Level::FIRST => ["0.1.0", "0.1.1", ""],
            Level::ETCD => ["0.2.0", "0.2.1", "0.3.0-dev"],
            Level::ETCD_V2 => ["0.3.0", "0.3.1", "0.4.0-dev"],
            _ => ["0.4.0", "0.4.1", "0.5.0-dev"],
        };
        Known {
            messages: VersionRange { min: 1, max: messages_max },
            level_max,
            program: random.pick(&programs).to_string(),
        }
    }
}
