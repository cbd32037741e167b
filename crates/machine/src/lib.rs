//! The replicated state machine: what every member of an ensemble holds identically.
//!
//! Commands go in through [`Machine::apply`], in the order of the log, and change the state;
//! queries read it. [`Machine::apply`] is deterministic and cannot fail: the same entries give the
//! same state, the same replies and the same numbers on every member. What a client did wrong is an
//! outcome ([`Refusal`]), identical everywhere.
//!
//! This crate never reads a clock, a random source, a file or the environment. Time is the stamp
//! the leader put into the entry; chance is an argument of the command.

pub mod acl;
pub mod change;
pub mod codec;
pub mod command;
mod container_znodes;
pub mod digest;
pub mod entry;
pub mod freeze;
pub mod ids;
mod install;
pub mod limits;
mod machine;
pub mod query;
mod quota;
pub mod reply;
pub mod sessions;
pub mod settings;
pub mod together;
pub mod tree;
mod txn;

pub use acl::{Acl, AclEntry, Identity};
pub use change::{Change, ChangeBatch, ChangeKind, QuotaExceeded};
pub use command::{Command, CreateMode, Op};
pub use container_znodes::{ContainerSearch, ContainersFound};
pub use digest::Digest;
pub use ids::{BootId, ConnectionId, LogIndex, MemberId, Ordinal, Origin, Owner, SessionId, Zxid};
pub use install::PreparedImage;
pub use machine::{Counters, Machine, Stamp};
pub use query::{DescendantCount, Query, QueryKind, QueryResult};
pub use reply::{Outcome, Refusal, Reply};
pub use settings::Settings;
pub use tree::Stat;
