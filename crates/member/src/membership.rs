//! The members of an ensemble: the choice of the first voters, members that join and leave, the
//! linked servers, and the level that all members know.

pub mod bootstrap;
pub mod hello;
pub(crate) mod joining;
pub mod levels;
pub mod limits;
pub(crate) mod servers;
