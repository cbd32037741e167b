//! etcd's part of the state: the keys with their history, leases, users and roles, alarms and
//! settings.

pub mod alarm;
pub mod auth;
mod budget;
pub mod change;
pub mod command;
mod created;
mod edge;
pub mod event;
mod garbage;
pub mod hash;
pub mod import;
mod index;
pub mod lease;
pub mod lease_list;
pub mod lease_read;
mod path;
mod paused;
pub mod range;
mod range_steps;
pub mod reply;
pub(crate) mod restore;
mod run;
pub mod settings;
mod shown;
mod sorting;
pub mod store;
mod tail;
pub mod token;
pub(crate) mod txn;
pub mod txn_read;
mod txn_state;
mod txn_steps;
pub(crate) mod walk;

pub use settings::Settings;
pub use store::Store;

#[cfg(test)]
pub(crate) mod tests;
