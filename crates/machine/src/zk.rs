//! ZooKeeper's part of the state: the tree, sessions, ACLs, quotas, containers and settings.

pub mod acl;
pub(crate) mod containers;
pub mod query;
pub(crate) mod quota;
pub mod sessions;
pub mod settings;
pub mod tree;
pub(crate) mod write;
