//! When a publisher sends its next request: in closed loop after the answer to the one before, in
//! open loop at a fixed rate.

use crate::limits::PACED_START_NS;
use crate::measure::driver::{Driver, Next};

/// The pace of all publishers together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The start, ns of the driver.
    pub start_ns: u64,
    /// The time between two items of all publishers together, ns; `None` in closed loop.
    pub spacing_ns: Option<f64>,
}

impl Pace {
    /// A pace that starts now. `rate` is in items a second; `None` means closed loop.
    pub fn start(driver: &Driver, rate: Option<u64>) -> Pace {
        // In open loop the start is a little later, so that no client begins late.
        let delay_ns = if rate.is_some() { PACED_START_NS } else { 0 };
        let spacing_ns = rate.map(|rate| 1e9 / rate as f64);
        Pace { start_ns: driver.now_ns() + delay_ns, spacing_ns }
    }

    /// If a client may send a request now, returns the time at which the request's latency begins,
    /// ns of the driver; otherwise the error says what the client does instead. `place` is the
    /// position of the item in the order of all items, `under_way` the number of the client's
    /// requests without an answer.
    pub fn since(&self, place: f64, under_way: usize, now_ns: u64) -> Result<u64, Next> {
        let Some(spacing_ns) = self.spacing_ns else {
            return if under_way == 0 { Ok(now_ns) } else { Err(Next::Wait) };
        };
        let due_ns = self.start_ns + (place * spacing_ns) as u64;
        if now_ns < due_ns { Err(Next::At(due_ns)) } else { Ok(due_ns) }
    }

    /// Time from the start to `last_ns`, ns.
    pub fn elapsed_ns(&self, last_ns: u64) -> u64 {
        last_ns.saturating_sub(self.start_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_is_evenly_spaced_and_counts_from_the_intended_start() {
        let pace = Pace { start_ns: 100, spacing_ns: Some(10.0) };
        for (place, under_way, now_ns, expected) in [
            (0.0, 0, 99, Err(Next::At(100))),
            (0.0, 0, 100, Ok(100)),
            (3.0, 0, 129, Err(Next::At(130))),
            // The latency of a late item counts from when it was due, even while other requests are
            // under way.
            (3.0, 5, 170, Ok(130)),
            (3.5, 0, 134, Err(Next::At(135))),
        ] {
            assert_eq!(pace.since(place, under_way, now_ns), expected);
        }
        let closed = Pace { start_ns: 100, spacing_ns: None };
        assert_eq!(closed.since(3.0, 0, 170), Ok(170));
        assert_eq!(closed.since(3.0, 1, 170), Err(Next::Wait));
    }
}
