//! The replicated state machine: what every member of an ensemble holds identically.
//!
//! Commands go in through [`Machine::apply`], in the order of the log, and change the state;
//! queries read it. [`Machine::apply`] is deterministic and cannot fail: the same entries give the
//! same state, the same replies and the same numbers on every member. What a client did wrong is an
//! outcome ([`Refusal`]), identical everywhere.
//!
//! This crate never reads a clock, a random source, a file or the environment. Time is the stamp
//! the leader put into the entry; chance is an argument of the command.

pub mod change;
pub mod codec;
pub mod command;
pub mod digest;
pub mod entry;
pub mod ids;
pub mod image;
mod install;
pub mod limits;
mod machine;
pub mod reply;
pub mod together;
pub mod zk;

pub use change::{Change, ChangeBatch, ChangeKind, QuotaExceeded};
pub use command::{Command, CreateMode, Op};
pub use digest::Digest;
pub use ids::{BootId, ConnectionId, LogIndex, MemberId, Ordinal, Origin, Owner, SessionId, Zxid};
pub use install::PreparedImage;
pub use machine::{Counters, Machine, Stamp};
pub use reply::{Outcome, Refusal, Reply};
pub use zk::acl::{Acl, AclEntry, Identity};
pub use zk::containers::{ContainerSearch, ContainersFound};
pub use zk::query::{DescendantCount, Query, QueryKind, QueryResult};
pub use zk::settings::Settings;
pub use zk::tree::Stat;
