//! What only a leader does, each a value that Loop holds and asks.

pub mod containers;
pub mod deadlines;
pub(crate) mod digests;
pub(crate) mod joining;
pub(crate) mod lending;
