//! How many calls of a method there were, with their messages and results; and, if that is wanted,
//! how long they took. Each connection runtime has counts of its own, so that none waits for the
//! memory of another.

use grpc_code::{CODES, Code};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of times, in us (`prometheus.DefBuckets`).
pub const TIME_BOUNDS_US: [u64; 11] = [
    5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000,
];

/// The counts of one method.
#[derive(Debug)]
pub struct CallCounts {
    started: AtomicU64,
    handled: [AtomicU64; CODES],
    /// Messages from clients and to clients.
    messages: [AtomicU64; 2],
    /// Their bytes.
    bytes: [AtomicU64; 2],
    times: Option<Times>,
}

/// How long calls took.
#[derive(Debug, Default)]
struct Times {
    /// One count for each bound, and one for what is longer than all.
    buckets: [AtomicU64; TIME_BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallNumbers {
    /// Calls that were begun.
    pub started: u64,
    /// By the number of the status code.
    pub handled: [u64; CODES],
    /// Messages of clients.
    pub messages_received: u64,
    /// Messages for clients.
    pub messages_sent: u64,
    /// Bytes of the messages of clients.
    pub bytes_received: u64,
    /// Bytes of the messages for clients.
    pub bytes_sent: u64,
    /// Calls by time, for each bound and beyond them; `None` if times are not measured.
    pub times: Option<[u64; TIME_BOUNDS_US.len() + 1]>,
    /// The sum of the times of all calls, in us.
    pub time_sum_us: u64,
}

const RECEIVED: usize = 0;
const SENT: usize = 1;

impl CallCounts {
    /// Counts of zero; with the times of calls if it `has_times`.
    pub fn new(has_times: bool) -> CallCounts {
        CallCounts {
            started: AtomicU64::new(0),
            handled: Default::default(),
            messages: Default::default(),
            bytes: Default::default(),
            times: has_times.then(Times::default),
        }
    }

    /// Whether somebody wants to know how long calls take.
    pub fn has_times(&self) -> bool {
        self.times.is_some()
    }

    /// Counts a call that begins.
    pub fn start(&self) {
        add(&self.started, 1);
    }

    /// Counts a message that came.
    pub fn receive(&self, bytes: usize) {
        add(&self.messages[RECEIVED], 1);
        add(&self.bytes[RECEIVED], bytes as u64);
    }

    /// Counts a message that goes out.
    pub fn send(&self, bytes: usize) {
        add(&self.messages[SENT], 1);
        add(&self.bytes[SENT], bytes as u64);
    }

    /// Counts a call that is done, with its time if that was measured.
    pub fn finish(&self, code: Code, time: Option<Duration>) {
        add(&self.handled[code as usize], 1);
        let (Some(times), Some(time)) = (&self.times, time) else { return };
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = TIME_BOUNDS_US.iter().position(|bound| us <= *bound);
        add(&times.buckets[at.unwrap_or(TIME_BOUNDS_US.len())], 1);
        add(&times.sum_us, us);
    }

    /// Adds the counts up to now to others.
    pub fn add_to(&self, numbers: &mut CallNumbers) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        numbers.started += of(&self.started);
        for (sum, count) in numbers.handled.iter_mut().zip(&self.handled) {
            *sum += of(count);
        }
        numbers.messages_received += of(&self.messages[RECEIVED]);
        numbers.messages_sent += of(&self.messages[SENT]);
        numbers.bytes_received += of(&self.bytes[RECEIVED]);
        numbers.bytes_sent += of(&self.bytes[SENT]);
        if let Some(times) = &self.times {
            let sums = numbers.times.get_or_insert_default();
            for (sum, count) in sums.iter_mut().zip(&times.buckets) {
                *sum += of(count);
            }
            numbers.time_sum_us += of(&times.sum_us);
        }
    }
}

fn add(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_code_and_by_time() {
        let counts = CallCounts::new(true);
        counts.start();
        counts.start();
        counts.receive(10);
        counts.send(20);
        counts.send(1);
        counts.finish(Code::Ok, Some(Duration::from_millis(5)));
        counts.finish(Code::Cancelled, Some(Duration::from_secs(60)));
        let mut numbers = CallNumbers::default();
        counts.add_to(&mut numbers);
        counts.add_to(&mut numbers);
        assert_eq!((numbers.started, numbers.handled[0], numbers.handled[1]), (4, 2, 2));
        assert_eq!((numbers.messages_received, numbers.messages_sent), (2, 4));
        assert_eq!((numbers.bytes_received, numbers.bytes_sent), (20, 42));
        let times = numbers.times.expect("they are measured");
        assert_eq!((times[0], times[TIME_BOUNDS_US.len()]), (2, 2));
        assert_eq!(numbers.time_sum_us, 2 * 60_005_000);
    }
}
