//! Who the members are: the first voters of an ensemble, members that come and go, the servers that
//! are linked, and the level that all of them know.

pub mod bootstrap;
pub mod hello;
pub(crate) mod joining;
pub mod levels;
pub(crate) mod servers;
