//! Files that people write for ZooKeeper: the syntax, not the meaning.

pub mod jaas;
pub mod properties;
