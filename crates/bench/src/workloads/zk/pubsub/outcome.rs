//! The counts and measurements of the clients of scenario 2, in one process or in several.

use serde::{Deserialize, Serialize};

use crate::measure::figures::{Figure, Good, of_mean_and_latencies, of_phase};
use crate::measure::meter::Tally;
use crate::measure::stats::{Latencies, Phase};

/// The answers and events of one stage: its watches, its items, and what followed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// The answers to requests that set watches.
    pub watches: Tally,
    /// The answers to creates.
    pub creates: Tally,
    /// The events that were due.
    pub events: Tally,
    /// The answers to the reads that follow events.
    pub reads: Tally,
    /// Requests of any kind that were refused, or not answered as expected.
    pub failed: u64,
    /// Reads that found other data than the item's.
    pub wrong_data: u64,
    /// Events that came a second time.
    pub twice: u64,
    /// Events that no subscriber waited for.
    pub not_asked_for: u64,
    /// Events that were due to subscribers which lost their sessions.
    pub missed: u64,
}

impl Results {
    /// How many errors there were, except those of setting watches.
    pub fn errors(&self) -> u64 {
        let events = self.twice + self.not_asked_for + self.missed;
        self.failed - self.watches.errors + self.wrong_data + events
    }

    fn add(&mut self, other: &Results) {
        self.watches.add(&other.watches);
        self.creates.add(&other.creates);
        self.events.add(&other.events);
        self.reads.add(&other.reads);
        self.failed += other.failed;
        self.wrong_data += other.wrong_data;
        self.twice += other.twice;
        self.not_asked_for += other.not_asked_for;
        self.missed += other.missed;
    }
}

/// The results and the cost of publishing the items that count, which are those after the warm-up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The answers and events of the stage that counts.
    pub results: Results,
    /// Time from the start to the answer to the last create, ns.
    pub creates_ns: u64,
    /// Time from the start to the last event or read, ns.
    pub seen_ns: u64,
    /// CPU time of the servers while these items were published and seen, ns; `None` if it is not
    /// known.
    pub server_cpu_ns: Option<u64>,
    /// CPU time of the generator in the same time, ns.
    pub own_cpu_ns: u64,
    /// Sessions that were lost.
    pub lost: u64,
}

impl Outcome {
    /// Adds the outcome of another process of the same test. `server_cpu_ns` stays: each process
    /// measures the whole CPU of the servers.
    pub fn add(&mut self, other: &Outcome) {
        self.results.add(&other.results);
        self.creates_ns = self.creates_ns.max(other.creates_ns);
        self.seen_ns = self.seen_ns.max(other.seen_ns);
        self.own_cpu_ns += other.own_cpu_ns;
        self.lost += other.lost;
    }

    /// The creates as a phase.
    pub fn phase(&self) -> Phase {
        let creates = &self.results.creates;
        Phase {
            name: "items",
            operations: creates.answered,
            elapsed_ns: self.creates_ns,
            latencies: creates.latencies.clone(),
            server_cpu_ns: self.server_cpu_ns,
            own_cpu_ns: self.own_cpu_ns,
            errors: self.results.errors(),
            lost: self.lost,
            ..Phase::default()
        }
    }

    /// The latencies by name. `is_reading`: subscribers read the data after an event.
    pub fn latencies(&self, is_reading: bool) -> Vec<(&'static str, Latencies)> {
        let Results { creates, events, reads, .. } = &self.results;
        let all = [("create", creates), ("event", events), ("data", reads)];
        let count = if is_reading { 3 } else { 2 };
        all.into_iter().take(count).map(|(name, it)| (name, it.latencies.clone())).collect()
    }

    /// All figures of the outcome.
    pub fn figures(&self, is_reading: bool) -> Vec<Figure> {
        let results = &self.results;
        let count = |name, value: u64| Figure::once(name, "", value as f64, Good::Neither);
        let seconds = |name, ns: u64| Figure::once(name, "s", ns as f64 / 1e9, Good::Neither);
        let mut all = vec![
            count("watches set", results.watches.answered - results.watches.errors),
            count("items created", results.creates.answered - results.creates.errors),
            count("events", results.events.answered),
        ];
        if is_reading {
            all.push(count("items read", results.reads.answered - results.reads.errors));
            all.push(count("reads of wrong data", results.wrong_data));
        }
        all.extend([
            count("failed requests", results.failed),
            count("events missed", results.missed),
            count("events that came twice", results.twice),
            count("events not asked for", results.not_asked_for),
            seconds("time of the creates", self.creates_ns),
            seconds("time until all is seen", self.seen_ns),
        ]);
        let names = ["items", "server CPU per item", "generator CPU per item"];
        all.extend(of_phase(names, &self.phase()));
        let names = ["create mean", "create p50", "create p90", "create p99", "create max"];
        all.extend(of_mean_and_latencies(names, &results.creates.latencies));
        let names = ["event mean", "event p50", "event p90", "event p99", "event max"];
        all.extend(of_mean_and_latencies(names, &results.events.latencies));
        if is_reading {
            let names = ["data mean", "data p50", "data p90", "data p99", "data max"];
            all.extend(of_mean_and_latencies(names, &results.reads.latencies));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate counts all items over the longest time, and the CPU of the servers counts once.
    #[test]
    fn what_two_processes_saw_is_added() {
        let outcome = |items: u64, creates_ns: u64| {
            let mut results = Results { missed: 1, ..Results::default() };
            (0..items).for_each(|_| results.creates.count(true, creates_ns / items));
            Outcome { results, creates_ns, own_cpu_ns: 1_000_000, ..Outcome::default() }
        };
        let mut all = Outcome { server_cpu_ns: Some(8_000_000), ..outcome(100, 1_000_000_000) };
        all.add(&Outcome { server_cpu_ns: Some(7_000_000), ..outcome(300, 2_000_000_000) });
        let figures = all.figures(false);
        let of = |name: &str| figures.iter().find(|it| it.name == name).unwrap().values[0];
        assert_eq!(of("items created"), 400.0);
        assert_eq!((of("items"), of("time of the creates")), (200.0, 2.0));
        assert_eq!((of("server CPU per item"), of("generator CPU per item")), (20.0, 5.0));
        assert_eq!(of("events missed"), 2.0);
        assert_eq!(all.phase().errors, 2);
        assert!((6.6..10.1).contains(&of("create mean")), "{}", of("create mean"));
    }
}
