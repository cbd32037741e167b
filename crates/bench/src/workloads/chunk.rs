//! Workloads of the chunk store. Most call the store in this process, with their own threads and
//! clocks, and need no server; `cmdw` and `cmdr` can also load datanodes over the network.

pub mod cmdr;
pub mod cmdw;
pub mod open;
