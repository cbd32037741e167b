//! A process is paused for longer than the timeout of every session. It must expire no session,
//! since the clients have sent bytes meanwhile.

use sim::fault::{Fault, FaultMix};
use sim::script::script;

#[test]
fn sessions_outlive_a_pause_of_the_process() {
    for seed in 1..=20 {
        let mut options = script(seed);
        options.faults_us = 60_000_000;
        let pause = Fault::Pause { for_us: 20_000_000 };
        options.faults = FaultMix::planned(vec![(3_000_000, pause), (25_000_000, pause)]);
        for client in &mut options.clients {
            client.ops = 400;
            client.think_us_max = 4_000_000;
            // The server raises the timeout to the shortest one, two ticks.
            client.timeout_ms = 1;
        }
        match sim::run(options) {
            Ok(summary) => {
                assert!(summary.virtual_us > 40_000_000, "seed {seed}: over before the pause");
                assert_eq!(summary.zk.expired, 0, "seed {seed}");
            }
            Err(failure) => panic!("{failure}"),
        }
    }
}
