//! No write is acknowledged before a completed sync covers it.
//!
//! Every run checks this: [`sim::disk`] finds each entry's bytes in what is written and waits for a
//! sync of that file, and [`sim::witness`] rejects an entry that is handed to Apply earlier, so
//! before any client gets an answer. This test adds a load under which mistakes are likely: slow
//! syncs, many entries in flight, several batches per sync.

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
