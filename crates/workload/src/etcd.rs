//! etcd's keys: streams of operations, a plain second store, and the judges of what clients saw.
//!
//! - [`op`]: an operation as a client sends it, and the answers it can get.
//! - [`form`]: the checks that a server makes before the log, on the operation alone.
//! - [`model`]: etcd's store of keys and revisions, written a second time and as plainly as can be.
//! - [`generate`]: streams of operations from a seed.
//! - [`history`]: every call of every client, with its times and its answer.
//! - [`order`]: the judge that is given the committed order. It decides every fate.
//! - [`leases`]: the judge of when leases end, and of questions about them.
//! - [`locks`]: what clients know of locks and elections, and the judge of that.
//! - [`watch`]: the watch streams of clients, and the judge of them, which needs the claim, too.
//! - [`finding`]: what a judge reports.
//! - [`linear`]: the judge that has only the answers, for real processes.
//!
//! Protocol behaviour comes from the source of etcd 3.6.16, and was compared with its binary where
//! a test says so.

pub mod finding;
mod floor;
pub mod form;
pub mod generate;
pub mod history;
pub mod leases;
pub mod linear;
pub mod locks;
pub mod model;
pub mod op;
pub mod order;
#[cfg(test)]
mod play;
mod quota;
#[cfg(test)]
mod short;
pub mod watch;
