//! Counts the calls of a method by result, with their messages, and measures their durations if the
//! face wants that. Each connection runtime has its own counts, so that no runtime waits for
//! another one's memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use grpc_code::{CODES, Code};
/// Upper bounds of the buckets of durations, in us (`prometheus.DefBuckets`).
pub const TIME_BOUNDS_US: [u64; 11] = [
    5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000,
];

/// The counts of one method.
#[derive(Debug)]
pub struct CallCounts {
    started: AtomicU64,
    handled: [AtomicU64; CODES],
    /// Messages received and messages sent.
    messages: [AtomicU64; 2],
    /// Bytes of the messages received, and of the messages sent. gRPC's prefix in front of each
    /// message does not count.
    bytes: [AtomicU64; 2],
    times: Option<Times>,
}

/// The durations of calls.
#[derive(Debug, Default)]
struct Times {
    /// How many calls fall into each bucket; the last bucket has the calls that took longer than
    /// all bounds.
    buckets: [AtomicU64; TIME_BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// The counts of one moment, summed over connection runtimes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallNumbers {
    /// Calls that have begun.
    pub started: u64,
    /// Calls that have ended, by the number of their status code.
    pub handled: [u64; CODES],
    /// Messages from clients.
    pub messages_received: u64,
    /// Messages to clients.
    pub messages_sent: u64,
    /// Bytes of the messages from clients.
    pub bytes_received: u64,
    /// Bytes of the messages to clients.
    pub bytes_sent: u64,
    /// How many calls fall into each bucket of durations; the last bucket has the calls beyond all
    /// bounds. `None` if durations are not measured.
    pub times: Option<[u64; TIME_BOUNDS_US.len() + 1]>,
    /// The sum of the durations of all calls, in us.
    pub time_sum_us: u64,
}

const RECEIVED: usize = 0;
const SENT: usize = 1;

impl CallCounts {
    /// Counts of zero. `has_times`: durations are measured.
    pub fn new(has_times: bool) -> CallCounts {
        CallCounts {
            started: AtomicU64::new(0),
            handled: Default::default(),
            messages: Default::default(),
            bytes: Default::default(),
            times: has_times.then(Times::default),
        }
    }

    /// Whether the durations of calls are measured.
    pub fn has_times(&self) -> bool {
        self.times.is_some()
    }

    /// Counts a call that begins.
    pub fn start(&self) {
        add(&self.started, 1);
    }

    /// Counts a message from the client.
    pub fn receive(&self, bytes: usize) {
        add(&self.messages[RECEIVED], 1);
        add(&self.bytes[RECEIVED], bytes as u64);
    }

    /// Counts a message to the client.
    pub fn send(&self, bytes: usize) {
        add(&self.messages[SENT], 1);
        add(&self.bytes[SENT], bytes as u64);
    }

    /// Counts a call that has ended, with its duration if that was measured.
    pub fn finish(&self, code: Code, time: Option<Duration>) {
        add(&self.handled[code as usize], 1);
        let (Some(times), Some(time)) = (&self.times, time) else { return };
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = TIME_BOUNDS_US.iter().position(|bound| us <= *bound);
        add(&times.buckets[at.unwrap_or(TIME_BOUNDS_US.len())], 1);
        add(&times.sum_us, us);
    }

    /// Adds these counts to the sums in `numbers`.
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
