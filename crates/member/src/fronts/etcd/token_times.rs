//! Records when each simple token of etcd's users was last used on this member.
//!
//! Tokens are replicated, but the times are not: as in etcd, a token that was not used on a member
//! for some time becomes invalid there (`auth.simpleTokenTTLKeeper`).
//!
//! A time is kept as long as its token is in the replicated state, even if the token has expired:
//! so an expired token stays invalid. The state has a bounded number of tokens, and drops one for
//! each new one beyond that, but no change reports which one. So when there are twice as many times
//! as the state can have tokens, the Fronts look up each token that has a time, a few tokens in
//! each hold of the state's lock, and drop the times of the tokens that the state no longer has.

use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::Ordinal;
use machine::limits::ETCD_TOKENS_MAX;

use crate::fronts::etcd::limits::ETCD_HOLD_TOKENS_MAX;

/// The times of last use, shared by the Fronts of a member.
#[derive(Debug)]
pub struct TokenTimes {
    /// How long a token may stay unused, in ms.
    ttl_ms: u64,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// The last use to assume for a token without a time, in ms: the start of the member, or the
    /// last replacement of the state.
    begun_ms: u64,
    /// The last use of each token, in ms, by the ordinal of the command that made the token.
    used_ms: HashMap<Ordinal, u64, FixedState>,
    /// Tokens that a check still has to look up in the state.
    unchecked: Vec<Ordinal>,
}

/// The number of times at which a check begins. A check drops at least half of the times, so on
/// average each new token costs two lookups.
const CHECK_COUNT: usize = 2 * ETCD_TOKENS_MAX;

impl TokenTimes {
    /// No times yet; `now_ms` counts as the last use of every token that exists already.
    pub fn new(ttl_ms: u64, now_ms: u64) -> TokenTimes {
        let used_ms = HashMap::with_hasher(FixedState::default());
        let times = Times { begun_ms: now_ms, used_ms, unchecked: Vec::new() };
        TokenTimes { ttl_ms, times: Mutex::new(times) }
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a token that was just made. Returns whether the caller must call
    /// [`TokenTimes::check`].
    pub(crate) fn on_made(&self, token: Ordinal, now_ms: u64) -> bool {
        let mut times = self.lock();
        times.used_ms.entry(token).or_insert(now_ms);
        if times.unchecked.is_empty() && times.used_ms.len() >= CHECK_COUNT {
            times.unchecked = times.used_ms.keys().copied().collect();
        }
        !times.unchecked.is_empty()
    }

    /// Looks some tokens up, and removes the times of those that the state no longer has. The
    /// caller holds the state's lock. Returns whether tokens are left to look up.
    pub(crate) fn check(&self, is_there: impl Fn(Ordinal) -> bool) -> bool {
        let mut times = self.lock();
        let left = times.unchecked.len().saturating_sub(ETCD_HOLD_TOKENS_MAX);
        for token in times.unchecked.split_off(left) {
            if !is_there(token) {
                times.used_ms.remove(&token);
            }
        }
        !times.unchecked.is_empty()
    }

    /// Notes that another state has replaced the old one. Its tokens without a time may have been
    /// made at any time, so they count as used now.
    pub(crate) fn on_replaced(&self, now_ms: u64) {
        self.lock().begun_ms = now_ms;
    }

    /// Uses a token that the state has. If the token was unused for too long, returns false, and
    /// keeps the time of its last use.
    pub(crate) fn use_now(&self, token: Ordinal, now_ms: u64) -> bool {
        let mut times = self.lock();
        let begun_ms = times.begun_ms;
        let used_ms = times.used_ms.entry(token).or_insert(begun_ms);
        let is_valid = now_ms.saturating_sub(*used_ms) <= self.ttl_ms;
        if is_valid {
            *used_ms = now_ms;
        }
        is_valid
    }

    /// How many times are kept.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.lock().used_ms.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_while_it_is_used() {
        let times = TokenTimes::new(100, 1_000);
        times.on_made(Ordinal(1), 1_050);
        // Another Front gets the delivery later.
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
        times.on_replaced(2_000);
        assert!(times.use_now(Ordinal(2), 2_100));
        assert!(!times.use_now(Ordinal(3), 2_101));
    }

    #[test]
    fn a_token_that_was_unused_for_too_long_stays_invalid_in_another_state() {
        let times = TokenTimes::new(100, 0);
        times.on_made(Ordinal(1), 0);
        assert!(!times.use_now(Ordinal(1), 101));
        // A token from before the start, and one that is not used before the state is replaced.
        assert!(!times.use_now(Ordinal(2), 101));
        times.on_made(Ordinal(3), 0);
        let count = CHECK_COUNT as u64;
        (4..count + 4).for_each(|token| _ = times.on_made(Ordinal(token), 10));
        while times.check(|token| token <= Ordinal(3)) {}
        times.on_replaced(1_000);
        for token in 1..=3 {
            assert!(!times.use_now(Ordinal(token), 1_000), "{token}");
        }
        assert!(times.use_now(Ordinal(count + 4), 1_000), "it came with the other state");
    }

    #[test]
    fn the_longest_time_to_live_is_for_ever() {
        let times = TokenTimes::new(u64::MAX, 1_000);
        let count = CHECK_COUNT as u64;
        (0..=count).for_each(|token| _ = times.on_made(Ordinal(token), 1_000));
        assert!(times.use_now(Ordinal(0), u64::MAX));
    }

    /// Makes `count` tokens while the state holds the newest `held_count` of them. Returns the most
    /// times that were kept, and how many lookups there were.
    fn make_many(count: u64, held_count: u64) -> (usize, usize) {
        let (times, mut kept_max) = (TokenTimes::new(u64::MAX, 0), 0);
        let compared = core::cell::Cell::new(0);
        for token in 0..count {
            let mut is_due = times.on_made(Ordinal(token), token);
            kept_max = kept_max.max(times.count());
            let before = compared.get();
            while is_due {
                is_due = times.check(|other| {
                    compared.set(compared.get() + 1);
                    other.0 + held_count > token
                });
                assert!(compared.get() - before <= CHECK_COUNT, "a check has an end");
            }
        }
        (kept_max, compared.get())
    }

    #[test]
    fn the_times_have_a_bound_and_a_token_costs_few_comparisons() {
        let count = 8 * CHECK_COUNT as u64;
        // The state has as many tokens as it may have, then none.
        for held_count in [ETCD_TOKENS_MAX as u64, 0] {
            let (kept_max, compared) = make_many(count, held_count);
            assert_eq!(kept_max, CHECK_COUNT);
            assert!(compared <= 2 * count as usize, "{compared}");
        }
    }

    #[test]
    fn a_check_looks_at_few_tokens_at_once() {
        let times = TokenTimes::new(100, 0);
        let count = CHECK_COUNT as u64;
        let due: Vec<_> = (0..count).filter(|it| times.on_made(Ordinal(*it), 0)).collect();
        assert_eq!(due, [count - 1]);
        assert!(times.check(|_| false), "there are more");
        assert_eq!(times.count(), CHECK_COUNT - ETCD_HOLD_TOKENS_MAX);
        // A Front that learns of another new token meanwhile checks tokens, too.
        assert!(times.on_made(Ordinal(count), 0));
        while times.check(|_| false) {}
        assert_eq!(times.count(), 1, "the one that came meanwhile");
    }
}
