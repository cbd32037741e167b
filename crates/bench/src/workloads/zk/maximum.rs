//! The search for the highest rate at which a server answers sets of data, in open loop: one rate
//! after the other. Full pipelines would carry many requests in one packet, and would give a rate
//! that says little about requests that come one by one.

use crate::limits::{
    PROBE_ATTEMPTS, PROBE_P50_MS_MAX, PROBE_RATE_FIRST, PROBE_RATE_STEP, PROBE_REACHED_MIN,
    RATE_MAX,
};
use crate::measure::driver::Driver;
use crate::measure::figures::{Figure, Good};
use crate::measure::pace::End;
use crate::measure::stats::Phase;
use crate::servers::target::Target;
use crate::workloads::zk::tree::Tree;
use crate::workloads::zk::tree::traffic::{self, Gaps, Plan};

/// The search for the highest rate that a server sustains. The rate doubles until one is not
/// sustained (or halves until one is); then it goes between the two until they are close. Pure.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// The highest rate so far that was sustained.
    sustained: Option<u64>,
    /// The lowest rate so far that was not sustained.
    overloaded: Option<u64>,
}

impl Search {
    /// The rate to try next; `None` when the search has ended.
    fn next(&self) -> Option<u64> {
        match (self.sustained, self.overloaded) {
            (None, None) => Some(PROBE_RATE_FIRST),
            (Some(least), None) => (least < RATE_MAX).then(|| (least * 2).min(RATE_MAX)),
            (None, Some(most)) => (most > 1).then_some(most / 2),
            (Some(least), Some(most)) => {
                let middle = (least as f64 * most as f64).sqrt() as u64;
                let is_close = most as f64 <= least as f64 * PROBE_RATE_STEP;
                (!is_close && middle > least).then_some(middle)
            }
        }
    }

    fn on_probe(&mut self, rate: u64, is_sustained: bool) {
        let end = if is_sustained { &mut self.sustained } else { &mut self.overloaded };
        *end = Some(rate);
    }
}

/// The highest rate that a server sustains, the phase at that rate, and the number of tries.
pub struct Maximum {
    /// The rate, requests a second.
    pub rate: u64,
    /// The phase at that rate.
    pub phase: Phase,
    probes: u64,
}

impl Maximum {
    /// The rate, and what it cost.
    pub fn figures(&self) -> [Figure; 4] {
        let (rate, phase) = (self.rate as f64, &self.phase);
        let p50 = phase.latencies.percentile_us(50.0);
        [
            Figure::once("maximum, open loop", "per s", rate, Good::More),
            Figure::once("latency p50 at that", "us", p50, Good::Neither),
            Figure::once("server CPU per setData at that", "us", phase.server_us(), Good::Less),
            Figure::once("rates tried", "", self.probes as f64, Good::Neither),
        ]
    }
}

/// Searches the highest rate that a target sustains. Each rate is tried for `seconds`; `say` shows
/// the step.
///
/// # Errors
/// The server sustains no rate, or stays silent.
pub fn maximum(
    driver: &mut Driver,
    target: &Target,
    tree: &Tree,
    seconds: u64,
    say: impl Fn(&str),
) -> anyhow::Result<Maximum> {
    let mut search = Search::default();
    let mut found = None;
    let mut probes = 0;
    while let Some(rate) = search.next() {
        let mut is_good = false;
        // A snapshot or a garbage collection may spoil one try.
        for _ in 0..PROBE_ATTEMPTS {
            if is_good {
                break;
            }
            say(&format!("looking for the maximum: {rate} per s"));
            probes += 1;
            let phase = set(driver, target, tree, rate, seconds, "maximum")?.0;
            is_good = is_sustained(&phase, rate);
            if is_good {
                found = Some((rate, phase));
            }
        }
        search.on_probe(rate, is_good);
    }
    let (rate, phase) = found.ok_or_else(|| {
        anyhow::anyhow!("not even 1 setData a second is answered within {PROBE_P50_MS_MAX} ms")
    })?;
    Ok(Maximum { rate, phase, probes })
}

/// Whether a server keeps up: it answers without errors, at the rate asked for, and no queue grows.
fn is_sustained(phase: &Phase, rate: u64) -> bool {
    phase.errors == 0
        && phase.lost == 0
        && phase.rate() >= rate as f64 * PROBE_REACHED_MIN
        && phase.latencies.percentile_us(50.0) <= PROBE_P50_MS_MAX * 1_000.0
}

/// Sets data in open loop, with `rate` requests a second for `seconds`. Returns the phase, which
/// lasts from the first due request to the last answer, and the longest gaps between replies.
///
/// # Errors
/// The server stays silent.
pub fn set(
    driver: &mut Driver,
    target: &Target,
    tree: &Tree,
    rate: u64,
    seconds: u64,
    name: &'static str,
) -> anyhow::Result<(Phase, Gaps)> {
    let plan = Plan { rate: Some(rate), end: End::Requests(rate * seconds), has_reads: false };
    let (done, gaps) = traffic::run(driver, target, tree, plan)?;
    Ok((done.phase(name), gaps))
}

#[cfg(test)]
mod tests;
