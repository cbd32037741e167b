//! The checks of `/livez` and `/readyz`, and how often each passed and failed.

use std::sync::atomic::{AtomicU64, Ordering};

/// A check (`etcdhttp.installReadyzEndpoints`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    DataCorruption,
    SerializableRead,
    LinearizableRead,
    NonLearner,
}

/// The checks of each route.
const LIVE: [Check; 1] = [Check::SerializableRead];
const READY: [Check; 4] =
    [Check::DataCorruption, Check::SerializableRead, Check::LinearizableRead, Check::NonLearner];
pub(super) const ROUTES: [(&str, &[Check]); 2] = [("livez", &LIVE), ("readyz", &READY)];

impl Check {
    pub fn name(self) -> &'static str {
        match self {
            Check::DataCorruption => "data_corruption",
            Check::SerializableRead => "serializable_read",
            Check::LinearizableRead => "linearizable_read",
            Check::NonLearner => "non_learner",
        }
    }
}

/// How often each check passed and failed since the start.
#[derive(Debug, Default)]
pub struct HealthCounts {
    /// How often `/health` was good, and how often not.
    health: [AtomicU64; 2],
    /// For each check of a route: how often it passed, how often it failed, and its last result (0
    /// before the first, 1 passed, 2 failed).
    checks: [[AtomicU64; 3]; LIVE.len() + READY.len()],
}

/// The counts of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckCount {
    /// `livez` or `readyz`.
    pub route: &'static str,
    /// The name of the check.
    pub check: &'static str,
    /// How often the check passed.
    pub good: u64,
    /// How often the check failed.
    pub failed: u64,
    /// Whether the check passed the last time.
    pub is_good: bool,
}

impl HealthCounts {
    pub(super) fn count_health(&self, is_good: bool) {
        self.health[usize::from(!is_good)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self, route: &str, check: Check, is_good: bool) {
        let at = places().position(|(of, it)| of == route && it == check);
        let Some(counts) = at.map(|at| &self.checks[at]) else { return };
        counts[usize::from(!is_good)].fetch_add(1, Ordering::Relaxed);
        counts[2].store(if is_good { 1 } else { 2 }, Ordering::Relaxed);
    }

    /// How often the answer of `/health` was good, and how often not.
    pub fn health(&self) -> [u64; 2] {
        [0, 1].map(|at| self.health[at].load(Ordering::Relaxed))
    }

    /// The counts of the checks that were made at least once.
    pub fn checks(&self) -> impl Iterator<Item = CheckCount> {
        let counts = places().zip(&self.checks).map(|((route, check), counts)| {
            let [good, failed, last] = [0, 1, 2].map(|at| counts[at].load(Ordering::Relaxed));
            CheckCount { route, check: check.name(), good, failed, is_good: last == 1 }
        });
        counts.filter(|count| count.good + count.failed > 0)
    }
}

/// All checks, with their routes.
fn places() -> impl Iterator<Item = (&'static str, Check)> {
    ROUTES.iter().flat_map(|(route, checks)| checks.iter().map(|check| (*route, *check)))
}
