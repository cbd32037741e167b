//! The servers that are measured: how they and their processes are found, started and ended; and a
//! server that does nothing.

pub mod data_folder;
pub mod ensemble;
pub mod fault;
pub mod folder;
pub mod interrupt;
pub mod launch;
pub mod null_server;
pub mod probe;
pub mod process;
pub mod spawned;
pub mod target;
