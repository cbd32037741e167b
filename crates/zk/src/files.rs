//! The syntax of files that people write for ZooKeeper. What the settings in them mean is decided
//! elsewhere.

pub mod jaas;
pub mod properties;
