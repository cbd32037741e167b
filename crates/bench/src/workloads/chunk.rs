//! Workloads of the chunk store. They have no server: they call the store in this process, with
//! threads and clocks of their own.

pub mod cmdr;
pub mod cmdw;
pub mod open;
