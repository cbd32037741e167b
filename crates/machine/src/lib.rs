//! The replicated state machine: the state that is identical on every member of an ensemble, and
//! the commands that change it.
//!
//! Commands go in through [`Machine::apply`], in the order of the log, and change the state;
//! queries read it. [`Machine::apply`] is deterministic and cannot fail: equal entries give equal
//! state, replies and numbers on every member. A client's mistake is an outcome ([`Refusal`]),
//! identical on every member.
//!
//! This crate never reads a clock, a random source, a file or the environment. The time is the
//! stamp that the leader put into the entry; random values are arguments of commands.

pub mod change;
pub mod codec;
pub mod command;
pub mod control;
pub mod digest;
pub mod entry;
pub mod etcd;
pub mod etcd_v2;
pub mod held;
pub mod ids;
pub mod image;
mod install;
pub mod level;
pub mod limits;
mod machine;
pub mod mark;
pub mod reply;
mod stamp;
pub mod together;
pub mod zk;

pub use change::{Changes, SharedChanges};
pub use command::Command;
pub use control::change::{Change as ControlChange, Replacement};
pub use control::servers::{ServerId, ServerList, ServerRecord, ServerRole, Servers, ZkAddresses};
pub use control::{Command as ControlCommand, Control};
pub use digest::Digest;
pub use etcd::change::{Change as EtcdChange, LeaseChange};
pub use etcd_v2::change::DeadlineChange as EtcdV2DeadlineChange;
pub use etcd_v2::command::Command as EtcdV2Command;
pub use ids::{
    Attachment, BootId, ConnectionId, LeaseId, LogIndex, MemberId, Ordinal, Origin, Owner,
    SessionId, Zxid,
};
pub use level::{Level, StatedLevel};
pub use machine::{ApplyStep, Machine, PreparedImage};
pub use mark::Mark;
pub use reply::{Outcome, Reply};
pub use stamp::Stamp;
pub use zk::acl::{Acl, AclEntry, Identity};
pub use zk::change::{Change as ZkChange, OpenTransaction, QuotaExceeded, SessionChange};
pub use zk::command::{Command as ZkCommand, CreateMode, Op};
pub use zk::containers::{ContainerSearch, ContainersFound};
pub use zk::listing::{ListPlace, ListStep};
pub use zk::query::{DescendantCount, Query, QueryKind, QueryResult};
pub use zk::reply::{Outcome as ZkOutcome, Refusal};
pub use zk::settings::Settings;
pub use zk::stat::Stat;
pub use zk::{Zk, ZkVersion};
