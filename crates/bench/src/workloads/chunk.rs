//! Workloads of the chunk store. They call a store in this process, with their own threads and
//! clocks, and need no server. `cmdw` and `cmdr` can also write to running datanodes and read from
//! them, over the network.

pub mod cmdr;
pub mod cmdw;
pub mod open;
