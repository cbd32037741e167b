//! Sums over seeds.
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (first, last): (u64, u64) = (args[1].parse().unwrap(), args[2].parse().unwrap());
    let mut sum: std::collections::BTreeMap<String, u64> = Default::default();
    for seed in first..=last {
        let Ok(s) = sim::run_seed(seed) else {
            println!("SEED {seed} failed");
            continue;
        };
        let mut add = |n: &str, v: u64| *sum.entry(n.to_string()).or_default() += v;
        add("virtual_ms", s.virtual_us / 1000);
        add("events", s.event_count);
        add("starts", s.start_count);
        add("writes", s.write_count as u64);
        add("reads", s.read_count as u64);
        add("unknown", s.unknown_done_count as u64);
        add("missed", s.missed_count as u64);
        add("refused", s.refused_count as u64);
        add("watch", s.event_received_count as u64);
        add("expired", s.expired_count as u64);
        add("snaps", s.snapshot_count);
        add("entries", s.entry_count as u64);
        add("ops", s.disk_ops);
        for (k, v) in s.faults {
            add(&k, v)
        }
    }
    println!("{sum:#?}");
}
