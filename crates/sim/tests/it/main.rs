//! Tests that run the whole simulator. They share one program, so that it is linked once and their
//! runs use all cores.

mod acknowledgements;
mod changes;
mod crashes;
mod ensembles;
mod etcd;
mod failover;
mod full_disk;
mod lending;
mod levels;
mod losses;
mod machines;
mod pauses;
mod restores;
mod sabotage;
mod seeds;
mod stalls;
mod steady;
