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
}

impl TokenTimes {
    /// Times that begin now, by the clock of the Fronts.
    pub fn new(ttl_ms: u64, now_ms: u64) -> TokenTimes {
        let used_ms = HashMap::with_hasher(FixedState::default());
        TokenTimes { ttl_ms, times: Mutex::new(Times { begun_ms: now_ms, used_ms }) }
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a token that was made now.
    pub(crate) fn on_made(&self, token: Ordinal, now_ms: u64) {
        let mut times = self.lock();
        let Times { begun_ms, used_ms } = &mut *times;
        if used_ms.len() >= 2 * ETCD_TOKENS_MAX && *begun_ms + self.ttl_ms < now_ms {
            // Those that go count as unused since the beginning, so they stay invalid.
            used_ms.retain(|_, at_ms| *at_ms + self.ttl_ms >= now_ms);
        }
        used_ms.entry(token).or_insert(now_ms);
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
}
