//! Workloads of two faces at once.

pub mod beside_chunks;
pub mod mixed;
