//! Keeps clients from overwhelming a member, as ZooKeeper 3.9.5 does. It bounds how many clients
//! may ask for a session in a given time (`BlueThrottle`), and how many bytes of large requests may
//! be unanswered at once (`ZooKeeperServer.checkRequestSizeWhenReceivingMessage`).
//!
//! Both bounds are for the whole member, so its Fronts share one [`Throttle`]. Both are off unless
//! configured. The lock is held for one decision about one connection; large requests are counted
//! without it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::LARGE_REQUESTS_BYTES_MAX_DEFAULT;

/// The configured bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThrottleConfig {
    /// The bound for requests for sessions.
    pub connections: ConnectionThrottleConfig,
    /// The bound for large requests.
    pub large_requests: LargeRequestsConfig,
}

/// A token bucket: each request for a session takes tokens. In addition, each request is refused
/// with some probability, which grows while the bucket is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionThrottleConfig {
    /// `connection_throttle_tokens`: the tokens of a full bucket; with 0, no request is refused.
    pub tokens_max: u32,
    /// `connection_throttle_fill_time`: the interval at which tokens are added, in ms; at least 1.
    pub fill_ms: u32,
    /// `connection_throttle_fill_count`: how many tokens are added at each interval.
    pub fill_count: u32,
    /// `connection_throttle_freeze_time`: for how long the probability stays the same after a
    /// change, in ms; `None` if no request is refused by chance.
    pub freeze_ms: Option<u32>,
    /// `connection_throttle_drop_increase`: how much the probability grows while the bucket is
    /// empty.
    pub drop_increase: f64,
    /// `connection_throttle_drop_decrease`: how much the probability falls while the bucket is
    /// nearly full.
    pub drop_decrease: f64,
    /// `connection_throttle_decrease_ratio`: the bucket counts as nearly full if at most this part
    /// of its tokens is missing.
    pub decrease_ratio: f64,
    /// `connection_throttle_weight_enabled`: the tokens that each kind of request takes; `None` if
    /// each takes one token.
    pub weights: Option<Weights>,
}

/// How many tokens a request for a session takes; each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Tokens for a new session. The size of the bucket and its refill are multiplied by this.
    pub new_session: u32,
    /// Tokens to attach to a session that exists.
    pub renewed_session: u32,
}

/// The size of a large request, and the bound for all large requests together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeRequestsConfig {
    /// `largeRequestThreshold`: a request of more bytes than this is large; `None` if no request
    /// is.
    pub threshold: Option<u32>,
    /// `largeRequestMaxBytes`: maximum of bytes of all unanswered large requests.
    pub bytes_max: u64,
}

impl Default for ConnectionThrottleConfig {
    fn default() -> Self {
        ConnectionThrottleConfig {
            tokens_max: 0,
            fill_ms: 1,
            fill_count: 1,
            freeze_ms: None,
            drop_increase: 0.02,
            drop_decrease: 0.002,
            decrease_ratio: 0.0,
            weights: None,
        }
    }
}

impl Default for LargeRequestsConfig {
    fn default() -> Self {
        LargeRequestsConfig { threshold: None, bytes_max: LARGE_REQUESTS_BYTES_MAX_DEFAULT }
    }
}

/// The throttle of a member. Its Fronts ask it before they admit a client or a request.
#[derive(Debug, Default)]
pub struct Throttle {
    config: ThrottleConfig,
    bucket: Mutex<Bucket>,
    large_bytes: AtomicU64,
}

impl Throttle {
    /// A throttle with a full bucket.
    pub fn new(config: ThrottleConfig) -> Throttle {
        let bucket = Mutex::new(Bucket::new(&config.connections));
        Throttle { config, bucket, large_bytes: AtomicU64::new(0) }
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides whether a client may ask for a session, new or not. Returns how many tokens the
    /// bucket lacks after that; `None` if the client is refused. `chance` returns a random number
    /// from 0 to 1, and is called only if one is needed.
    pub fn admits(&self, is_new: bool, now_ms: u64, chance: impl FnOnce() -> f64) -> Option<u64> {
        let config = &self.config.connections;
        let need = config.weights.map_or(1, |weights| match is_new {
            true => weights.new_session,
            false => weights.renewed_session,
        });
        let mut bucket = self.bucket();
        let admitted = bucket.admits(config, i64::from(need), now_ms, chance);
        admitted.then(|| bucket.deficit().unsigned_abs())
    }

    /// The probability that a request is refused whatever the bucket holds
    /// (`connection_drop_probability`).
    pub fn drop_probability(&self) -> f64 {
        self.bucket().drop
    }

    /// Whether a frame of `bytes` bytes would be too much beside the unanswered large requests.
    pub fn is_too_large(&self, bytes: u32) -> bool {
        let under_way = self.large_bytes.load(Ordering::Relaxed);
        self.is_large(bytes) && under_way + u64::from(bytes) > self.config.large_requests.bytes_max
    }

    /// Counts a request of `bytes` bytes if it is large. Returns the bytes to give back once it is
    /// answered; `None` if that would be too much, and nothing was counted.
    pub fn begin_request(&self, bytes: u32) -> Option<u32> {
        if !self.is_large(bytes) {
            return Some(0);
        }
        let added = u64::from(bytes);
        let before = self.large_bytes.fetch_add(added, Ordering::Relaxed);
        if before + added > self.config.large_requests.bytes_max {
            self.large_bytes.fetch_sub(added, Ordering::Relaxed);
            return None;
        }
        Some(bytes)
    }

    /// Gives back the bytes that [`Throttle::begin_request`] returned.
    pub fn end_request(&self, counted: u32) {
        if counted > 0 {
            self.large_bytes.fetch_sub(u64::from(counted), Ordering::Relaxed);
        }
    }

    /// Bytes of all unanswered large requests.
    pub fn large_bytes(&self) -> u64 {
        self.large_bytes.load(Ordering::Relaxed)
    }

    fn is_large(&self, bytes: u32) -> bool {
        self.config.large_requests.threshold.is_some_and(|threshold| bytes > threshold)
    }
}

/// The token bucket, like ZooKeeper's `BlueThrottle`. As there, all numbers count weighted tokens.
#[derive(Debug, Default)]
struct Bucket {
    tokens_max: i64,
    fill_count: i64,
    tokens: i64,
    filled_ms: u64,
    frozen_ms: u64,
    drop: f64,
}

impl Bucket {
    fn new(config: &ConnectionThrottleConfig) -> Bucket {
        let weight = i64::from(config.weights.map_or(1, |weights| weights.new_session));
        let tokens_max = i64::from(config.tokens_max) * weight;
        let fill_count = i64::from(config.fill_count) * weight;
        Bucket { tokens_max, fill_count, tokens: tokens_max, ..Bucket::default() }
    }

    fn deficit(&self) -> i64 {
        self.tokens_max - self.tokens
    }

    /// Takes `need` tokens, like `BlueThrottle.checkLimit`. False if the request is refused.
    fn admits(
        &mut self,
        config: &ConnectionThrottleConfig,
        need: i64,
        now_ms: u64,
        chance: impl FnOnce() -> f64,
    ) -> bool {
        if self.tokens_max == 0 {
            return true;
        }
        let elapsed_ms = now_ms.saturating_sub(self.filled_ms);
        if elapsed_ms > u64::from(config.fill_ms) {
            let elapsed_ms = i64::try_from(elapsed_ms).unwrap_or(i64::MAX);
            let refill =
                elapsed_ms.saturating_mul(self.fill_count) / i64::from(config.fill_ms).max(1);
            self.tokens = self.tokens.saturating_add(refill).min(self.tokens_max);
            self.filled_ms = now_ms;
        }
        if let Some(freeze_ms) = config.freeze_ms {
            self.adapt(config, freeze_ms, now_ms);
            if chance() < self.drop {
                return false;
            }
        }
        if self.tokens < need {
            return false;
        }
        self.tokens -= need;
        true
    }

    /// Adjusts the probability to refuse requests, like `BlueThrottle.checkBlue`.
    fn adapt(&mut self, config: &ConnectionThrottleConfig, freeze_ms: u32, now_ms: u64) {
        if now_ms.saturating_sub(self.frozen_ms) <= u64::from(freeze_ms) {
            return;
        }
        let nearly_full = (self.tokens_max as f64 * config.decrease_ratio + 0.5).floor();
        if self.tokens == 0 {
            self.drop = (self.drop + config.drop_increase).min(1.0);
        } else if self.deficit() as f64 <= nearly_full {
            self.drop = (self.drop - config.drop_decrease).max(0.0);
        }
        self.frozen_ms = now_ms;
    }
}

#[cfg(test)]
mod tests;
