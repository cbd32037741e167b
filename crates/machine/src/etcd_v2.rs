//! The part of the state that clients of etcd v2 see: a tree of files and directories with times to
//! live, the last events, and users and roles.
//!
//! It is a space of its own: no key of it is a key of etcd v3. It behaves as the store of etcd 3.4
//! (`etcdserver/api/v2store`). `docs/design/etcd-v2.md` says where it does not, and why.

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
