//! etcd's keys, seen from outside: random streams of operations, a second plain implementation of
//! the store (the model), and the judges that check what clients saw.
//!
//! - [`op`]: an operation as a client sends it, and the answers that it can get.
//! - [`form`]: the checks that a server makes on an operation before it enters the log.
//! - [`model`]: etcd's store of keys and revisions, written a second time, as plainly as possible.
//! - [`generate`]: streams of operations from a seed.
//! - [`history`]: every call of every client, with its times and its answer.
//! - [`order`]: the judge that knows the committed order. It decides the fate of every call.
//! - [`leases`]: the judge of when leases end, and of answers about leases.
//! - [`locks`]: what clients know of locks and elections, and the judge of that.
//! - [`watch`]: the watch streams of clients, and their judge, which needs the committed order,
//!   too.
//! - [`finding`]: what a judge reports.
//! - [`linear`]: the judge that has only the clients' answers, for real processes.
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
