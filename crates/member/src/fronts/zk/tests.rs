//! Tests of `ZkFront`, with Apply and the machine behind it.

mod certificates;
mod connecting;
mod departed;
mod limits;
mod order;
mod random;
pub(crate) mod rig;
mod room;
mod scripts;
mod steps;
