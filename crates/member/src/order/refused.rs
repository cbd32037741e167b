//! The reasons for which a data directory must not be used any more, and those for which a
//! snapshot is not installed.

use machine::Level;
use thiserror::Error;

/// Why a member's directory is not to be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Condemned {
    /// The log ends before an entry that this member acknowledged as durable: the directory is an
    /// old copy. It may have forgotten a vote as well.
    #[error(
        "this member acknowledged entry {acknowledged}, but its log ends at {last_index}: the \
         directory is an old copy, or writes to it were lost"
    )]
    Forgot {
        /// The index of an entry that this member has acknowledged.
        acknowledged: u64,
        /// The index of the last entry in its log.
        last_index: u64,
    },
    /// The log has another entry at an index that this member acknowledged: the directory is an old
    /// copy.
    #[error(
        "this member acknowledged entry {acknowledged}, but its log has another entry there, of \
         term {term}: the directory is an old copy, or writes to it were lost"
    )]
    HoldsAnother {
        /// The index of the acknowledged entry and of the other one.
        acknowledged: u64,
        /// The term of the entry that the log has there.
        term: u64,
    },
    /// The log holds a batch of a start that this directory does not know of: a later one, or
    /// another one with the same number. The directory is an old copy.
    #[error(
        "the log holds entries of start {boot} of this member, but the directory counts only \
         {own} starts: it is an old copy"
    )]
    Outlived {
        /// The number of the start that handed over the batch.
        boot: u64,
        /// The number of this start.
        own: u64,
    },
    /// Another member took this one's place, and the state no longer knows which of this member's
    /// batches it holds.
    #[error("another member took the place of this one, which was away for too long")]
    Forgotten,
    /// The state is not that of the majority.
    #[error("the state at log index {index} differs from that of the majority of the members")]
    Differs {
        /// The last entry that is applied to both states.
        index: u64,
    },
}

/// Why a snapshot is not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InstallRefused {
    /// The snapshot that was installed before is not covered yet.
    #[error("another snapshot is being restored")]
    UnderWay,
    /// The log cannot take the command.
    #[error("the disk is full")]
    DiskFull,
    /// This member is not the leader, or not yet.
    #[error("this member does not take writes now")]
    NotLeader,
    /// This server is a member of an ensemble, and the others do not have the snapshot.
    #[error(
        "this server is a member of an ensemble: a snapshot is restored by a standalone server"
    )]
    Ensemble,
    /// The snapshot is of a level that this server does not know.
    #[error("the snapshot has level {level}, and this server knows up to {level_max}")]
    Level {
        /// The level of the snapshot.
        level: Level,
        /// The highest level that this server knows.
        level_max: Level,
    },
}
