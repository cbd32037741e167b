//! When each simple token of etcd's users was last used on this member.
//!
//! Tokens are replicated, the times are not: as in etcd, a token that was not used on a member for
//! some time is no longer valid there (`auth.simpleTokenTTLKeeper`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::Ordinal;
use machine::limits::ETCD_TOKENS_MAX;

/// The times, shared by the Fronts of a member.
#[derive(Debug)]
pub struct TokenTimes {
    /// How long a token may stay unused, in ms.
    ttl_ms: u64,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// The time for tokens that were there before, in ms.
    begun_ms: u64,
    /// By the ordinal of the command that made the token.
    used_ms: HashMap<Ordinal, u64, FixedState>,
    /// The number of times at which those that are over are forgotten.
    sweep_count: usize,
}

/// The least number of times at which those that are over are forgotten.
const SWEEP_COUNT_MIN: usize = 2 * ETCD_TOKENS_MAX;

impl TokenTimes {
    /// Times that begin now, by the clock of the Fronts.
    pub fn new(ttl_ms: u64, now_ms: u64) -> TokenTimes {
        let used_ms = HashMap::with_hasher(FixedState::default());
        let times = Times { begun_ms: now_ms, used_ms, sweep_count: SWEEP_COUNT_MIN };
        TokenTimes { ttl_ms, times: Mutex::new(times) }
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a token that was made now.
    pub(crate) fn on_made(&self, token: Ordinal, now_ms: u64) {
        let mut times = self.lock();
        times.sweep(self.ttl_ms, now_ms);
        times.used_ms.entry(token).or_insert(now_ms);
    }

    /// Another state took the place of the one before: nobody knows when those of its tokens were
    /// made that have no time yet.
    pub(crate) fn on_installed(&self, now_ms: u64) {
        self.lock().begun_ms = now_ms;
    }

    /// Uses a token. False if it was unused for too long.
    pub(crate) fn use_now(&self, token: Ordinal, now_ms: u64) -> bool {
        let mut times = self.lock();
        let begun_ms = times.begun_ms;
        let last_ms = times.used_ms.get(&token).copied().unwrap_or(begun_ms);
        let is_valid = now_ms.saturating_sub(last_ms) <= self.ttl_ms;
        if is_valid {
            times.used_ms.insert(token, now_ms);
        }
        is_valid
    }
}

impl Times {
    /// Forgets the times that are over, if there are many. Returns how many it has looked at.
    ///
    /// The next sweep comes when there are twice as many times as this one has left, so a token
    /// that is made costs a look at two times, on average.
    fn sweep(&mut self, ttl_ms: u64, now_ms: u64) -> usize {
        let count = self.used_ms.len();
        if count < self.sweep_count || self.begun_ms + ttl_ms >= now_ms {
            return 0;
        }
        // A token whose time is forgotten counts as unused since the beginning: it stays invalid.
        self.used_ms.retain(|_, at_ms| *at_ms + ttl_ms >= now_ms);
        self.sweep_count = SWEEP_COUNT_MIN.max(2 * self.used_ms.len());
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_while_it_is_used() {
        let times = TokenTimes::new(100, 1_000);
        times.on_made(Ordinal(1), 1_050);
        // Another Front hears of it later.
        times.on_made(Ordinal(1), 1_090);
        assert!(times.use_now(Ordinal(1), 1_150));
        assert!(times.use_now(Ordinal(1), 1_250));
        assert!(!times.use_now(Ordinal(1), 1_351));
        assert!(!times.use_now(Ordinal(1), 1_352), "once invalid, it stays so");
    }

    #[test]
    fn a_token_from_before_has_its_time_from_the_beginning() {
        let times = TokenTimes::new(100, 1_000);
        assert!(times.use_now(Ordinal(1), 1_100));
        assert!(!times.use_now(Ordinal(2), 1_101));
        times.on_installed(2_000);
        assert!(times.use_now(Ordinal(2), 2_100));
    }

    #[test]
    fn times_of_many_tokens_that_are_over_are_forgotten_and_stay_over() {
        let times = TokenTimes::new(100, 0);
        let count = 2 * ETCD_TOKENS_MAX as u64;
        (0..count).for_each(|token| times.on_made(Ordinal(token), 10));
        times.on_made(Ordinal(count), 500);
        assert_eq!(times.lock().used_ms.len(), 1);
        assert!(!times.use_now(Ordinal(0), 500));
        assert!(times.use_now(Ordinal(count), 500));
    }

    /// Makes tokens, one every `interval_ms`. Returns how many times were looked at, and the most
    /// that were kept.
    fn make_many(count: u64, ttl_ms: u64, interval_ms: u64) -> (usize, usize) {
        let times = TokenTimes::new(ttl_ms, 0);
        let (mut looked_at, mut kept_max) = (0, 0);
        for token in 0..count {
            let now_ms = ttl_ms + 1 + token * interval_ms;
            looked_at += times.lock().sweep(ttl_ms, now_ms);
            times.on_made(Ordinal(token), now_ms);
            kept_max = kept_max.max(times.lock().used_ms.len());
        }
        (looked_at, kept_max)
    }

    #[test]
    fn a_token_costs_a_look_at_few_times_however_many_are_kept() {
        let count = 16 * SWEEP_COUNT_MIN as u64;
        // None ends meanwhile.
        let (looked_at, kept_max) = make_many(count, 10 * count, 1);
        assert!(looked_at <= 2 * count as usize, "{looked_at}");
        assert_eq!(kept_max, count as usize);
        // Just over the least number of them are valid at once.
        let ttl_ms = SWEEP_COUNT_MIN as u64 + 1;
        let (looked_at, kept_max) = make_many(count, ttl_ms, 1);
        assert!(looked_at <= 2 * count as usize, "{looked_at}");
        assert!(kept_max <= 2 * (ttl_ms as usize + 2), "{kept_max}");
        // All are over at the next sweep.
        let (looked_at, kept_max) = make_many(count, 1, 10);
        assert!(looked_at <= count as usize, "{looked_at}");
        assert_eq!(kept_max, SWEEP_COUNT_MIN);
    }
}
