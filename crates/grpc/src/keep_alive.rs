//! Pings of a client that come too often, and clients that give no sign of life.
//!
//! The library answers pings by itself and tells nobody. So the socket reads the heads of the
//! frames that pass it in either direction. The rules are those of grpc-go
//! (`internal/transport/http2_server.go`: `handlePing`, `keepalive`).

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use h2::{Ping, PingPong};
use tokio::time::{sleep, timeout};

/// Pings that come too early, beyond which a client is sent away (`maxPingStrikes`). An answer to
/// the client, or an event, starts the count anew.
const STRIKES_MAX: u32 = 2;

/// The least time between two pings of a client that has no stream (`defaultPingTimeout`).
const MIN_TIME_WITHOUT_STREAM: Duration = Duration::from_secs(2 * 3_600);

/// The reason for a client that pings too often. grpc-go doubles the time between its pings then.
const TOO_MANY_PINGS: &[u8] = b"too_many_pings";

/// Bytes of the head of a frame.
pub(super) const HEAD_BYTES: usize = 9;
/// Bytes that a client sends before its first frame.
pub(super) const PREFACE_BYTES: usize = 24;

// Kinds of frames (RFC 9113, 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
/// The flag of an answer to a ping.
const ACK: u8 = 1;

/// How a face deals with pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingPolicy {
    /// The least time between two pings of a client that has streams.
    pub min_time: Duration,
    /// How long a client is silent until it is sent a ping.
    pub idle_time: Duration,
    /// How long it may be silent from then on. After it the connection ends.
    pub wait_time: Duration,
}

/// Finds the heads of frames in the bytes of one direction.
#[derive(Debug)]
pub(super) struct Heads {
    /// Bytes that are no head.
    skip: usize,
    head: [u8; HEAD_BYTES],
    /// Bytes of the head that have passed.
    count: usize,
}

impl Heads {
    /// Heads behind so many bytes.
    pub fn behind(bytes: usize) -> Heads {
        Heads { skip: bytes, head: [0; HEAD_BYTES], count: 0 }
    }

    /// Whether all frames so far have passed as a whole.
    fn are_between(&self) -> bool {
        self.skip == 0 && self.count == 0
    }

    /// Lets bytes pass. `on_head` is called with the kind and the flags of each frame that begins.
    fn pass(&mut self, mut bytes: &[u8], mut on_head: impl FnMut(u8, u8)) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (HEAD_BYTES - self.count).min(bytes.len());
            self.head[self.count..self.count + taken].copy_from_slice(&bytes[..taken]);
            self.count += taken;
            bytes = &bytes[taken..];
            if self.count == HEAD_BYTES {
                let [high, middle, low, kind, flags, ..] = self.head;
                self.skip = u32::from_be_bytes([0, high, middle, low]) as usize;
                self.count = 0;
                on_head(kind, flags);
            }
        }
    }
}

/// The pings of a client that came too early, one after the other.
#[derive(Debug, Default)]
struct Strikes {
    count: u32,
    last_ping: Option<Instant>,
}

/// What the socket of a connection notes for its task.
#[derive(Debug)]
pub(super) struct SignsOfLife {
    policy: Option<PingPolicy>,
    /// Has one reference more than the connection has streams.
    streams: Weak<()>,
    began: Instant,
    /// When bytes came last, in ms since the beginning.
    received_ms: AtomicU64,
    /// Whether an answer or an event was sent since the last ping.
    has_answered: AtomicBool,
    strikes: Mutex<Strikes>,
    is_abused: AtomicBool,
}

impl SignsOfLife {
    pub fn new(policy: Option<PingPolicy>, streams: &Arc<()>) -> SignsOfLife {
        SignsOfLife {
            policy,
            streams: Arc::downgrade(streams),
            began: Instant::now(),
            received_ms: AtomicU64::new(0),
            has_answered: AtomicBool::new(false),
            strikes: Mutex::default(),
            is_abused: AtomicBool::new(false),
        }
    }

    /// Notes bytes of the client.
    pub fn on_received(&self, heads: &mut Heads, bytes: &[u8]) {
        if self.policy.is_none() || bytes.is_empty() {
            return;
        }
        let now = Instant::now();
        let since_ms = now.duration_since(self.began).as_millis() as u64;
        self.received_ms.store(since_ms, Ordering::Relaxed);
        heads.pass(bytes, |kind, flags| {
            if kind == PING && flags & ACK == 0 {
                self.on_ping(now);
            }
        });
    }

    /// Notes bytes for the client. Whether they are answers to pings and nothing else; bytes that
    /// are not looked at may be anything.
    pub fn on_sent(&self, heads: &mut Heads, bytes: &[u8]) -> bool {
        if self.policy.is_none() {
            return false;
        }
        let mut are_acks = heads.are_between();
        heads.pass(bytes, |kind, flags| {
            are_acks &= kind == PING && flags & ACK != 0;
            if kind == DATA || kind == HEADERS {
                self.has_answered.store(true, Ordering::Relaxed);
            }
        });
        are_acks
    }

    /// Whether the connection has streams.
    pub fn has_streams(&self) -> bool {
        self.streams.strong_count() > 1
    }

    fn on_ping(&self, now: Instant) {
        let Some(policy) = &self.policy else { return };
        let mut strikes = self.strikes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let last = strikes.last_ping.replace(now);
        if self.has_answered.swap(false, Ordering::Relaxed) {
            strikes.count = 0;
            return;
        }
        let min_time = if self.has_streams() { policy.min_time } else { MIN_TIME_WITHOUT_STREAM };
        if last.is_some_and(|last| now.duration_since(last) < min_time) {
            strikes.count += 1;
        }
        if strikes.count > STRIKES_MAX {
            self.is_abused.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the client pings too often.
    pub fn is_abused(&self) -> bool {
        self.is_abused.load(Ordering::Relaxed)
    }

    /// How long ago bytes came last.
    fn silence(&self) -> Duration {
        let received = Duration::from_millis(self.received_ms.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(received)
    }

    /// Waits until the client has given no sign of life, a ping included, for too long; for ever if
    /// nothing is asked of clients.
    pub async fn lost(&self, pings: Option<PingPong>) {
        let (Some(policy), Some(mut pings)) = (self.policy, pings) else {
            return std::future::pending().await;
        };
        loop {
            let silence = self.silence();
            if silence < policy.idle_time {
                sleep(policy.idle_time - silence).await;
                continue;
            }
            // An error says that the answer to the last ping has not come yet.
            let _ = pings.send_ping(Ping::opaque());
            let _ = timeout(policy.wait_time, poll_fn(|context| pings.poll_pong(context))).await;
            if self.silence() >= policy.wait_time {
                return;
            }
        }
    }
}

/// Adds the reason to the library's frame that sends away a client that pings too often (GOAWAY
/// with ENHANCE_YOUR_CALM), if that is the last frame of `written`. The library sends no reason.
pub(super) fn add_reason(written: &mut Vec<u8>) {
    const BODY: [u8; 4] = [0, 0, 0, 0xb];
    const HEAD: [u8; HEAD_BYTES] = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    let Some(at) = written.len().checked_sub(HEAD_BYTES + 8) else { return };
    if written[at..].starts_with(&HEAD) && written.ends_with(&BODY) {
        written[at + 2] += TOO_MANY_PINGS.len() as u8;
        written.extend_from_slice(TOO_MANY_PINGS);
    }
}

#[cfg(test)]
mod tests;
