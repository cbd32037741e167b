//! The servers that are measured: finding them and their processes, starting and ending them, and a
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
pub mod target;
