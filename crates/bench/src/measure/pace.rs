//! The schedule of a load: it says when each request of an open loop is due, and when a load in
//! open or closed loop ends. A due time does not depend on answers, and nothing here reads a clock.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A schedule with evenly spaced requests. Request `i` (counted over all clients) is due `i *
/// spacing_ns` after the start, and is sent by client `i % clients`; so the requests of each client
/// are evenly spaced, too. In bursts a client sends several requests at once, and the bursts are
/// evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// When the first request is due, ns of the driver.
    pub start_ns: u64,
    /// Time between two requests, counted over all clients, ns.
    pub spacing_ns: f64,
}

impl Pace {
    /// A schedule of `rate` requests a second, all clients together.
    pub fn at_rate(start_ns: u64, rate: u64) -> Pace {
        Pace { start_ns, spacing_ns: 1e9 / rate as f64 }
    }

    /// When request `index`, counted over all clients, is due, ns of the driver.
    pub fn due_ns(&self, index: u64) -> u64 {
        self.start_ns + (index as f64 * self.spacing_ns) as u64
    }

    /// When request `number` of client `client` is due, ns of the driver, if each of `clients`
    /// clients sends bursts of `burst` requests.
    pub fn client_due_ns(&self, clients: usize, client: usize, number: usize, burst: u64) -> u64 {
        let burst_index = number as u64 / burst * clients as u64 + client as u64;
        self.due_ns(burst_index * burst)
    }
}

/// When a load ends.
#[derive(Clone, Debug)]
pub enum End {
    /// After this many requests.
    Requests(u64),
    /// At a time, which may be set while the load runs. Requests that were due before that time are
    /// still sent.
    Time(Arc<OnceLock<Instant>>),
}

impl End {
    /// An end at `time`, which is already known.
    pub fn at(time: Instant) -> End {
        End::Time(Arc::new(OnceLock::from(time)))
    }

    /// Whether request `number` (counted from 0), which is due at `due`, still belongs to the load.
    pub fn includes(&self, number: u64, due: Instant) -> bool {
        match self {
            End::Requests(count) => number < *count,
            End::Time(time) => time.get().is_none_or(|end| due < *end),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_are_evenly_spaced_and_so_are_each_clients() {
        let pace = Pace::at_rate(100, 1_000_000);
        assert_eq!([0, 1, 2].map(|index| pace.due_ns(index)), [100, 1_100, 2_100]);
        let of_second = [0, 1, 2].map(|number| pace.client_due_ns(3, 1, number, 1));
        assert_eq!(of_second, [1_100, 4_100, 7_100]);
    }

    #[test]
    fn a_burst_is_due_at_once_and_the_rate_stays() {
        let pace = Pace::at_rate(0, 1_000_000);
        let of = |client| [0, 1, 2, 3, 4].map(|number| pace.client_due_ns(2, client, number, 2));
        assert_eq!(of(0), [0, 0, 4_000, 4_000, 8_000]);
        assert_eq!(of(1), [2_000, 2_000, 6_000, 6_000, 10_000]);
    }

    #[test]
    fn a_load_ends_after_its_requests_or_at_its_time() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        assert!(End::Requests(3).includes(2, later));
        assert!(!End::Requests(3).includes(3, now));
        assert!(End::at(later).includes(9, now));
        assert!(!End::at(later).includes(0, later));
        let time = Arc::new(OnceLock::new());
        let open = End::Time(Arc::clone(&time));
        assert!(open.includes(9, later));
        time.set(later).unwrap();
        assert!(open.includes(9, now), "it was due before the end");
        assert!(!open.includes(9, later));
    }
}
