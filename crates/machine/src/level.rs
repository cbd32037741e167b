//! Levels: the commands, formats and outcomes that the members of an ensemble may use.
//!
//! The level is replicated state ([`crate::Control::level`]). Each level has all that the levels
//! below it have, and a member that knows a level knows those below. `docs/formats.md`, "Levels",
//! lists what each adds.

use core::fmt;

/// One of the levels, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u16);

impl Level {
    /// ZooKeeper's tree and sessions. Every ensemble begins with it.
    pub const FIRST: Level = Level(1);

    /// etcd's keys, beside ZooKeeper's tree.
    pub const ETCD: Level = Level(2);

    /// The tree of etcd v2, beside etcd's keys.
    pub const ETCD_V2: Level = Level(3);

    /// The revision at which each of etcd's users got its password, for signed tokens; and bounds
    /// on what etcd's spaces hold. Every member knows the second version of the handshake.
    pub const TOKENS: Level = Level(4);

    /// The highest level that is released: its formats, and those of the levels below, stay.
    pub const RELEASED: Level = Level::TOKENS;

    /// The highest level that this build knows, released or not.
    pub const NEWEST: Level = Level::TOKENS;

    /// The level with that number; none for 0. It may be one that this build does not know.
    pub fn from_number(number: u16) -> Option<Level> {
        (number > 0).then_some(Level(number))
    }

    /// Its number.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The first version of the program that knows the level, for people who have to install one.
    /// Empty for a level that this build does not know.
    pub fn version(self) -> &'static str {
        match self {
            Level::FIRST => "0.1.0",
            Level::ETCD => "0.2.0",
            Level::ETCD_V2 => "0.3.0",
            Level::TOKENS => "0.4.0",
            _ => "",
        }
    }
}

/// A level with the version to install for it, as members tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedLevel {
    /// The level.
    pub level: Level,
    /// The first version of the program that knows it, for people.
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
