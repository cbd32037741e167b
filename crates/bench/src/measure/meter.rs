//! The cost of a stretch of work: the time, the CPU of both sides, and the results of its requests.

use serde::{Deserialize, Serialize};

use crate::measure::course;
use crate::measure::driver::Driver;
use crate::measure::stats::{Latencies, Phase};
use crate::servers::process::thread_cpu_ns;
use crate::servers::target::Target;

/// The results of the requests of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Answers.
    pub answered: u64,
    /// Answers that were errors or not what was asked for.
    pub errors: u64,
    /// The latencies of all answers.
    pub latencies: Latencies,
}

impl Tally {
    /// Counts an answer.
    pub fn count(&mut self, is_right: bool, took_ns: u64) {
        course::count(took_ns);
        self.answered += 1;
        self.errors += u64::from(!is_right);
        self.latencies.record(took_ns);
    }

    /// Adds the results of other requests.
    pub fn add(&mut self, other: &Tally) {
        self.answered += other.answered;
        self.errors += other.errors;
        self.latencies.add(&other.latencies);
    }
}

/// The answers to requests of two kinds, and their cost.
pub struct Done {
    /// The answers to each kind.
    pub tallies: [Tally; 2],
    /// The time and the CPU, without the answers.
    pub cost: Phase,
}

impl Done {
    /// The figures of both kinds together.
    pub fn phase(&self, name: &'static str) -> Phase {
        let mut phase = Phase { name, ..self.cost.clone() };
        for tally in &self.tallies {
            phase.operations += tally.answered;
            phase.errors += tally.errors;
            phase.latencies.add(&tally.latencies);
        }
        phase
    }
}

/// Measures from when it is made until it is stopped.
pub struct Meter<'a> {
    target: &'a Target,
    started_ns: u64,
    server_cpu_ns: Option<u64>,
    own_cpu_ns: u64,
}

impl Meter<'_> {
    /// Begins to measure.
    pub fn start<'a>(driver: &Driver, target: &'a Target) -> Meter<'a> {
        Meter {
            target,
            started_ns: driver.now_ns(),
            server_cpu_ns: target.cpu_ns(),
            own_cpu_ns: thread_cpu_ns(),
        }
    }

    /// The time at which it was made, ns of the driver.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// The cost until now. Each client's own time is not known here.
    pub fn stop(&self, driver: &Driver, name: &'static str, tally: Tally) -> Phase {
        let server_cpu_ns = self.target.cpu_ns().zip(self.server_cpu_ns);
        Phase {
            name,
            operations: tally.answered,
            elapsed_ns: driver.now_ns() - self.started_ns,
            client_ns: Vec::new(),
            latencies: tally.latencies,
            server_cpu_ns: server_cpu_ns.map(|(after, before)| after.saturating_sub(before)),
            server_wakeups: None,
            own_cpu_ns: thread_cpu_ns() - self.own_cpu_ns,
            errors: tally.errors,
            lost: driver.lost().count() as u64,
        }
    }
}
