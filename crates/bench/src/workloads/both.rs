//! Workloads with clients of two faces at the same time, and the parts of workloads that clients of
//! any protocol share.

pub mod beside_chunks;
pub mod fault;
pub mod mixed;
pub mod restart;
