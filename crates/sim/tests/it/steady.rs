//! Runs in which clients work steadily and only the planned faults come.

use sim::fault::{Fault, FaultMix, Whom};
use sim::script::script;
use sim::{LaterOps, Options, Summary};

/// Options for four clients that work for longer than the faults last. No other faults come, and
/// the members are born at the start.
pub fn steady(seed: u64, member_count: usize, faults: Vec<(u64, Whom, Fault)>) -> Options {
    let mut options = Options::draw_ensemble(seed, member_count);
    options.begins_unborn = false;
    options.member.attendance = Default::default();
    options.later_ops = LaterOps::default();
    options.builds = None;
    options.etcd = None;
    options.clients = vec![script(seed).clients[0].clone(); 4];
    for client in &mut options.clients {
        client.ops = 400;
        client.think_us_max = 4_000_000;
    }
    options.faults_us = faults.iter().map(|(wait_us, ..)| wait_us).sum::<u64>() + 1_000_000;
    options.faults = FaultMix::planned_for(faults);
    options
}

/// Runs these options. If the judges find something, panics with the command that repeats the run.
pub fn run(options: Options) -> Summary {
    sim::run(options).unwrap_or_else(|failure| panic!("{failure}"))
}
