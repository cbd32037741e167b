//! The part of the state that etcd v2's clients see: a tree of files and directories with times to
//! live, the latest events, and users and roles.
//!
//! It is a space of its own: a key of etcd v2 is no key of etcd v3. It behaves like the store of
//! etcd 3.4 (`etcdserver/api/v2store`); `docs/design/etcd-v2.md` lists the differences, with
//! reasons.

mod apply;
pub mod auth;
pub mod change;
pub mod children;
pub mod command;
pub mod event;
mod garbage;
pub mod history;
pub mod key;
pub mod query;
pub(crate) mod removal;
pub mod reply;
pub(crate) mod restore;
pub mod store;
pub mod tree;
pub(crate) mod walk;

pub use store::Store;

#[cfg(test)]
pub(crate) mod tests;
