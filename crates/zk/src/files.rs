//! Parses the files that people write for ZooKeeper. Other crates decide what the settings in them
//! mean.

pub mod jaas;
pub mod properties;
