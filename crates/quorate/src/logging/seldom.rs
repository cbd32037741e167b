//! Limits log lines that clients can cause as often as they like: a few are written, the others
//! only counted. The audit log is never limited.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many lines about refused clients, of one kind, are written in each [`INTERVAL`].
pub const REFUSALS_MAX: u32 = 10;

/// The interval in which lines are counted.
const INTERVAL: Duration = Duration::from_secs(10);

/// Limits the log lines of one kind to a number in 10 s.
pub struct Seldom {
    kind: &'static str,
    lines_max: u32,
    counted: Mutex<Counted>,
}

/// The present interval: when it began, and how many lines it has had.
struct Counted {
    since: Option<Instant>,
    count: u32,
}

impl Seldom {
    /// Limits lines to `lines_max` in 10 s. Later the log says how many other lines there were: "N
    /// more", followed by `kind`.
    pub const fn new(lines_max: u32, kind: &'static str) -> Seldom {
        let counted = Mutex::new(Counted { since: None, count: 0 });
        Seldom { kind, lines_max, counted }
    }

    /// Calls `log`, which writes the line; or only counts the line if there were too many. The
    /// first line of an interval is preceded by the number of lines left out in the last one.
    pub fn log(&self, log: impl FnOnce()) {
        let (is_due, untold) = self.add(Instant::now());
        if untold > 0 {
            tracing::warn!("{untold} more {} since the last that was told", self.kind);
        }
        if is_due {
            log();
        }
    }

    /// Counts a line. Returns whether to write it, and how many lines of the last interval were
    /// left out.
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
