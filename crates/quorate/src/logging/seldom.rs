//! Lines of the log about what clients cause, as often as they like: few of them are written, and
//! the others are counted. The audit log is never thinned out.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one kind about clients that were refused, in [`INTERVAL`].
pub const REFUSALS_MAX: u32 = 10;

/// The time in which the lines of one kind are counted.
const INTERVAL: Duration = Duration::from_secs(10);

/// The lines of one kind. The log has a limited number of them in 10 s.
pub struct Seldom {
    kind: &'static str,
    lines_max: u32,
    counted: Mutex<Counted>,
}

/// The lines of one interval.
struct Counted {
    since: Option<Instant>,
    count: u32,
}

impl Seldom {
    /// A kind with at most `lines_max` lines in 10 s. The log tells the count of the others as "N
    /// more", followed by `kind`.
    pub const fn new(lines_max: u32, kind: &'static str) -> Seldom {
        let counted = Mutex::new(Counted { since: None, count: 0 });
        Seldom { kind, lines_max, counted }
    }

    /// Calls `log`, which writes the line, or counts the line only. The first line of an interval
    /// comes behind the count of the interval before.
    pub fn log(&self, log: impl FnOnce()) {
        let (is_due, untold) = self.add(Instant::now());
        if untold > 0 {
            tracing::warn!("{untold} more {} since the last that was told", self.kind);
        }
        if is_due {
            log();
        }
    }

    /// Counts one more. Returns whether to log it, and how many before it were not logged.
    fn add(&self, now: Instant) -> (bool, u32) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = counted.since.is_none_or(|since| now >= since + INTERVAL);
        let untold = if is_over { counted.count.saturating_sub(self.lines_max) } else { 0 };
        if is_over {
            *counted = Counted { since: Some(now), count: 0 };
        }
        counted.count = counted.count.saturating_add(1);
        (counted.count <= self.lines_max, untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lines_are_written_and_the_others_counted() {
        let (seldom, start) = (Seldom::new(3, "clients were refused"), Instant::now());
        for _ in 0..3 {
            assert_eq!(seldom.add(start), (true, 0));
        }
        assert_eq!(seldom.add(start), (false, 0));
        assert_eq!(seldom.add(start + INTERVAL / 2), (false, 0));
        assert_eq!(seldom.add(start + INTERVAL), (true, 2));
        assert_eq!(seldom.add(start + INTERVAL), (true, 0));
        assert_eq!(seldom.add(start + INTERVAL * 3), (true, 0));
    }
}
