//! Levels: which commands, formats and outcomes the members of an ensemble may use.
//!
//! The ensemble's level is replicated state ([`crate::Control::level`]), raised once every member
//! knows the higher level. Each level includes all levels below it. `docs/formats.md`, "Levels",
//! lists what each level adds.

use core::fmt;

/// A level, by its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u16);

impl Level {
    /// ZooKeeper's tree and sessions. Every ensemble begins with it.
    pub const FIRST: Level = Level(1);

    /// etcd's keys, beside ZooKeeper's tree.
    pub const ETCD: Level = Level(2);

    /// The tree of etcd v2, beside etcd's keys.
    pub const ETCD_V2: Level = Level(3);

    /// For each of etcd's users, the revision at which it got its password, which signed tokens
    /// need; and bounds on what etcd's spaces hold. A member that knows this level also knows
    /// version 2 of the handshake between members.
    pub const TOKENS: Level = Level(4);

    /// Changes of the list of servers while the ensemble runs.
    pub const MEMBERS: Level = Level(5);

    /// The highest released level: its formats, and those of the levels below, must not change any
    /// more.
    pub const RELEASED: Level = Level::TOKENS;

    /// The highest level that this build knows, released or not.
    pub const NEWEST: Level = Level::MEMBERS;

    /// The level with that number; `None` for 0. This build may not know the level.
    pub fn from_number(number: u16) -> Option<Level> {
        (number > 0).then_some(Level(number))
    }

    /// The number of the level.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The first version of the program that knows the level, to show to people who have to install
    /// it. Empty for a level that this build does not know.
    pub fn version(self) -> &'static str {
        match self {
            Level::FIRST => "0.1.0",
            Level::ETCD => "0.2.0",
            Level::ETCD_V2 => "0.3.0",
            Level::TOKENS => "0.4.0",
            Level::MEMBERS => "0.5.0",
            _ => "",
        }
    }
}

/// A level, and the version of the program to install for it, as members report it to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedLevel {
    /// The level.
    pub level: Level,
    /// The first version of the program that knows the level, to show to people.
    pub version: String,
}

impl From<Level> for StatedLevel {
    fn from(level: Level) -> StatedLevel {
        StatedLevel { level, version: level.version().to_string() }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

const _: () = assert!(Level::FIRST.0 <= Level::RELEASED.0);
const _: () = assert!(Level::RELEASED.0 <= Level::NEWEST.0);
