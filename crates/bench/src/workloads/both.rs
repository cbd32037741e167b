//! Workloads of two faces at once, and the parts of workloads that clients of any protocol share.

pub mod beside_chunks;
pub mod fault;
pub mod mixed;
pub mod restart;
