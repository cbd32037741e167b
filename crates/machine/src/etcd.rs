//! etcd's part of the state: its keys with their history.

pub mod alarm;
pub mod auth;
pub mod change;
pub mod command;
pub mod event;
pub mod hash;
pub mod import;
mod index;
pub mod lease;
pub mod lease_list;
pub mod range;
pub mod reply;
pub(crate) mod restore;
mod run;
pub mod settings;
pub mod store;
mod tail;
pub mod token;
pub(crate) mod txn;
pub(crate) mod walk;

pub use settings::Settings;
pub use store::Store;

#[cfg(test)]
pub(crate) mod tests;
