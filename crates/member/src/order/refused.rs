//! Reasons why a data directory must not be used any more, and reasons why a snapshot is not
//! installed.

use machine::Level;
use thiserror::Error;

/// Why a member's data directory is condemned, that is, must not be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Condemned {
    /// The log ends before an entry that this member acknowledged as durable: the directory is an
    /// old copy, and it may lack a vote as well.
    #[error(
        "this member acknowledged entry {acknowledged}, but its log ends at {last_index}: the \
         directory is an old copy, or writes to it were lost"
    )]
    Forgot {
        /// The index of an entry that this member acknowledged.
        acknowledged: u64,
        /// The index of the last entry in this member's log.
        last_index: u64,
    },
    /// This member's log has another entry at an index that it acknowledged: the directory is an
    /// old copy.
    #[error(
        "this member acknowledged entry {acknowledged}, but its log has another entry there, of \
         term {term}: the directory is an old copy, or writes to it were lost"
    )]
    HoldsAnother {
        /// The index of both entries.
        acknowledged: u64,
        /// The term of the entry in the log.
        term: u64,
    },
    /// The log holds a batch from a start of this member that the directory has no record of: a
    /// later start, or another one with the same number. The directory is an old copy.
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
    /// Another member took this one's place, and the state no longer knows which batches of this
    /// member it holds.
    #[error("another member took the place of this one, which was away for too long")]
    Forgotten,
    /// The state of this member is not that of the majority.
    #[error("the state at log index {index} differs from that of the majority of the members")]
    Differs {
        /// The index at which the states were compared.
        index: u64,
    },
}

/// Why a snapshot that an operator gave is not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InstallRefused {
    /// A snapshot was installed before, and none of this member's own covers it yet.
    #[error("another snapshot is being restored")]
    UnderWay,
    /// The disk is full, so the log cannot take the command.
    #[error("the disk is full")]
    DiskFull,
    /// This member is not the leader, or not ready to lead yet.
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
