//! Measures a part of a run: how long it takes, how much CPU the server and the generator use, and
//! how its requests end.

use serde::{Deserialize, Serialize};

use crate::measure::course;
use crate::measure::driver::Driver;
use crate::measure::stats::{Latencies, Phase};
use crate::servers::process::thread_cpu_ns;
use crate::servers::target::Target;

/// Counts the results of requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Answers, errors included.
    pub answered: u64,
    /// Answers that were errors, or not the answer that was expected.
    pub errors: u64,
    /// The latencies of all answers.
    pub latencies: Latencies,
}

impl Tally {
    /// Counts one answer. `is_right` is false for an error or a wrong answer.
    pub fn count(&mut self, is_right: bool, took_ns: u64) {
        course::count(took_ns);
        self.answered += 1;
        self.errors += u64::from(!is_right);
        self.latencies.record(took_ns);
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Tally) {
        self.answered += other.answered;
        self.errors += other.errors;
        self.latencies.add(&other.latencies);
    }
}

/// The results of requests of two kinds that ran together, and what they cost.
pub struct Done {
    /// One tally for each kind.
    pub tallies: [Tally; 2],
    /// Time and CPU of the whole. Its counts of answers and its latencies are empty.
    pub cost: Phase,
}

impl Done {
    /// Both kinds together as one phase.
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

/// Measures time and CPU from its start until [`Meter::stop`].
pub struct Meter<'a> {
    target: &'a Target,
    started_ns: u64,
    server_cpu_ns: Option<u64>,
    own_cpu_ns: u64,
}

impl Meter<'_> {
    /// Starts to measure.
    pub fn start<'a>(driver: &Driver, target: &'a Target) -> Meter<'a> {
        Meter {
            target,
            started_ns: driver.now_ns(),
            server_cpu_ns: target.cpu_ns(),
            own_cpu_ns: thread_cpu_ns(),
        }
    }

    /// When the meter started, ns of the driver.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// The time and CPU since the start, with the results in `tally`. `client_ns` stays empty: the
    /// meter does not see when each client is done.
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
