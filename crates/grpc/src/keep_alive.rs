//! Detects clients that ping too often, and clients that give no sign of life.
//!
//! The HTTP/2 library answers pings itself and does not report them. So the socket reads the heads
//! of the frames in both directions and notes them here. The rules are those of grpc-go
//! (`internal/transport/http2_server.go`: `handlePing`, `keepalive`).

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use h2::{Ping, PingPong};
use tokio::time::{sleep, timeout};

/// How many pings may come too early; one more ends the connection (`maxPingStrikes`). Sending the
/// client headers or data resets the count.
const STRIKES_MAX: u32 = 2;

/// The shortest time between two pings of a client that has no stream (`defaultPingTimeout`).
const MIN_TIME_WITHOUT_STREAM: Duration = Duration::from_secs(2 * 3_600);

/// The reason sent to a client that pings too often. A client of grpc-go then doubles the time
/// between its pings.
const TOO_MANY_PINGS: &[u8] = b"too_many_pings";

/// Bytes of the head of a frame.
pub(super) const HEAD_BYTES: usize = 9;
/// Bytes of the connection preface, which a client sends before its first frame.
pub(super) const PREFACE_BYTES: usize = 24;

// Kinds of frames (RFC 9113, 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
/// The flag of a PING frame that is an answer.
const ACK: u8 = 1;

/// How a face limits clients' pings, and when it pings clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingPolicy {
    /// The shortest time between two pings of a client that has streams.
    pub min_time: Duration,
    /// The server pings a client that was silent for this long.
    pub idle_time: Duration,
    /// The connection ends if the client is silent for this long after the server's ping.
    pub wait_time: Duration,
}

/// Finds the heads of frames in the bytes of one direction of a connection.
#[derive(Debug)]
pub(super) struct Heads {
    /// Bytes until the next head begins.
    skip: usize,
    head: [u8; HEAD_BYTES],
    /// How many bytes of `head` are filled.
    count: usize,
}

impl Heads {
    /// The first head comes after this many bytes.
    pub fn behind(bytes: usize) -> Heads {
        Heads { skip: bytes, head: [0; HEAD_BYTES], count: 0 }
    }

    /// Whether the bytes so far end with a whole frame.
    fn are_between(&self) -> bool {
        self.skip == 0 && self.count == 0
    }

    /// Reads bytes, and calls `on_head` with the kind and the flags of each frame whose head is
    /// complete.
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

/// Counts those pings of a client that the client sent too early.
#[derive(Debug, Default)]
struct Strikes {
    count: u32,
    last_ping: Option<Instant>,
}

/// Observations of a connection's socket, for the connection's task to act on.
#[derive(Debug)]
pub(super) struct SignsOfLife {
    policy: Option<PingPolicy>,
    /// A reference whose strong count is the number of the connection's streams plus 1.
    streams: Weak<()>,
    began: Instant,
    /// When the last bytes of the client came, in ms since `began`.
    received_ms: AtomicU64,
    /// Whether headers or data were sent since the client's last ping.
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

    /// Notes bytes from the client.
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

    /// Notes bytes to the client. Returns whether they are only answers to pings; false without a
    /// policy, since the bytes are not read then.
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

    /// Whether the client has pinged too often, so that the connection must end.
    pub fn is_abused(&self) -> bool {
        self.is_abused.load(Ordering::Relaxed)
    }

    /// How long the client has sent no bytes.
    fn silence(&self) -> Duration {
        let received = Duration::from_millis(self.received_ms.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(received)
    }

    /// Pings the client when it is silent, and returns when it does not answer in time. Without a
    /// policy, waits for ever.
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
            // An error means that the last ping is not answered yet.
            let _ = pings.send_ping(Ping::opaque());
            let _ = timeout(policy.wait_time, poll_fn(|context| pings.poll_pong(context))).await;
            if self.silence() >= policy.wait_time {
                return;
            }
        }
    }
}

/// If the last frame of `written` is the library's GOAWAY with ENHANCE_YOUR_CALM, for a client that
/// pings too often, adds the reason to the frame. The library itself sends no reason.
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
