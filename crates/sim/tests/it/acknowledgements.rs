//! Each acknowledgement follows a completed sync that covers its write.
//!
//! Every run checks it: [`sim::disk`] finds the bytes of each entry in what is written and waits
//! for a sync of that file, and [`sim::witness`] refuses an entry that is handed over before, so
//! before any client can be told. Here is a load under which it would be easy to go wrong: slow
//! syncs, many entries under way, several batches in one sync.

use sim::fault::FaultMix;

#[test]
fn an_acknowledgement_follows_a_sync_of_its_write() {
    let mut write_count = 0;
    for seed in 1..=30 {
        let mut options = sim::Options::draw(seed);
        options.faults = FaultMix::none();
        for client in &mut options.clients {
            client.is_erratic = false;
            client.think_us_max = 100;
            client.pipeline_max = 40;
        }
        match sim::run(options) {
            Ok(summary) => write_count += summary.zk.writes,
            Err(failure) => panic!("{failure}"),
        }
    }
    assert!(write_count > 1_000);
}
