//! Tests of gathering: some writes are delayed, others are not.
#![allow(clippy::unwrap_used)]

use std::task::Waker;

use super::super::keep_alive::PingPolicy;
use super::*;

/// A socket that records each write and flush; it takes at most `bytes_max` bytes at a time.
struct Noting {
    notes: Vec<String>,
    bytes_max: usize,
}

impl AsyncWrite for Noting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = bytes.len().min(self.bytes_max);
        self.notes.push(format!("write {count}"));
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.notes.push("flush".to_string());
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.notes.push("shutdown".to_string());
        Poll::Ready(Ok(()))
    }
}

/// An answer to a ping, and an empty DATA frame (RFC 9113, 6.7 and 6.1).
const PING_ACK: &[u8] = &[0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const DATA: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 1];

struct Rig {
    socket: GatheringSocket<Noting>,
    turn: Arc<Turn>,
    acks: AckTimer,
    has_streams: bool,
}

impl Rig {
    fn new(bytes_max: usize) -> Rig {
        Rig::with(bytes_max, None)
    }

    /// A connection that has streams, and a policy about pings, so that its frames are read.
    fn with_streams() -> Rig {
        let second = Duration::from_secs(1);
        let policy = PingPolicy { min_time: second, idle_time: second, wait_time: second };
        Rig { has_streams: true, ..Rig::with(usize::MAX, Some(policy)) }
    }

    fn with(bytes_max: usize, policy: Option<PingPolicy>) -> Rig {
        let noting = Noting { notes: Vec::new(), bytes_max };
        let signs = SignsOfLife::new(policy, &Arc::new(()));
        let (socket, turn) =
            GatheringSocket::new(noting, Arc::new(signs), Arc::new(Semaphore::new(1)));
        Rig { socket, turn, acks: AckTimer::default(), has_streams: false }
    }

    fn write(&mut self, count: usize) {
        self.send(&vec![7; count]);
    }

    fn send(&mut self, bytes: &[u8]) {
        let mut context = Context::from_waker(Waker::noop());
        let written = Pin::new(&mut self.socket).poll_write(&mut context, bytes);
        assert!(matches!(written, Poll::Ready(Ok(done)) if done == bytes.len()));
    }

    fn flush(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut self.socket).poll_flush(&mut context).is_ready());
    }

    fn pause(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        self.turn.pause(&mut context, self.has_streams, &mut self.acks);
    }

    /// Makes the time for which answers to pings wait end now.
    async fn end_ack_time(&mut self) {
        let sleep = self.acks.sleep.as_mut().unwrap();
        sleep.as_mut().reset(Instant::now());
        sleep.await;
    }

    /// One turn, which sends these frames.
    fn turn(&mut self, frames: &[&[u8]]) {
        for frame in frames {
            self.send(frame);
        }
        self.flush();
        self.pause();
    }

    #[track_caller]
    fn check(&mut self, expected: &str) {
        assert_eq!(std::mem::take(&mut self.socket.socket.notes).join(", "), expected);
    }
}

#[test]
fn what_two_turns_write_is_one_write() {
    let mut rig = Rig::new(usize::MAX);
    // The handshake is not gathered.
    rig.write(10);
    rig.flush();
    rig.check("write 10, flush");
    rig.pause();
    rig.write(1);
    rig.flush();
    rig.check("");
    // A flush was delayed, so the next turn writes.
    rig.pause();
    rig.write(2);
    rig.flush();
    rig.check("write 3, flush");
    rig.pause();
    rig.flush();
    rig.check("");
    // No flush was delayed, so the next turn gathers.
    rig.pause();
    rig.write(4);
    rig.flush();
    rig.check("");
}

#[test]
fn what_is_large_is_written_at_once_and_flushed_later() {
    let mut rig = Rig::new(usize::MAX);
    rig.pause();
    rig.write(GATHERED_BYTES_MAX);
    rig.check("");
    rig.write(1);
    rig.check(&format!("write {GATHERED_BYTES_MAX}, write 1"));
    rig.flush();
    rig.check("");
    rig.pause();
    rig.flush();
    rig.check("flush");
    assert!(rig.socket.gathered.capacity() <= KEPT_BYTES_MAX);
}

#[test]
fn a_socket_that_takes_little_is_written_until_it_has_all() {
    let mut rig = Rig::new(4);
    rig.pause();
    rig.write(10);
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut rig.socket).poll_shutdown(&mut context).is_ready());
    rig.check("write 4, write 4, write 2, shutdown");
}

#[tokio::test]
async fn an_answer_to_a_ping_joins_the_next_answer() {
    let mut rig = Rig::with_streams();
    rig.pause();
    rig.turn(&[PING_ACK]);
    rig.turn(&[]);
    rig.check("");
    rig.turn(&[DATA]);
    rig.turn(&[]);
    rig.check("write 26, flush");
    rig.end_ack_time().await;
    rig.turn(&[]);
    rig.turn(&[]);
    rig.check("");
}

#[tokio::test]
async fn an_answer_to_a_ping_has_its_whole_time_behind_one_that_has_gone() {
    let mut rig = Rig::with_streams();
    rig.pause();
    rig.turn(&[PING_ACK]);
    rig.turn(&[DATA]);
    rig.turn(&[]);
    rig.check("write 26, flush");
    rig.end_ack_time().await;
    rig.turn(&[PING_ACK]);
    rig.turn(&[]);
    rig.check("");
    rig.end_ack_time().await;
    rig.turn(&[]);
    rig.turn(&[]);
    rig.check("write 17, flush");
}

#[tokio::test]
async fn an_answer_to_a_ping_goes_alone_when_its_time_is_over() {
    let mut rig = Rig::with_streams();
    rig.pause();
    for _ in 0..2 {
        rig.turn(&[PING_ACK]);
        rig.turn(&[PING_ACK]);
        rig.turn(&[]);
        rig.check("");
        rig.end_ack_time().await;
        rig.turn(&[]);
        rig.turn(&[]);
        rig.check("write 34, flush");
    }
}

#[tokio::test]
async fn an_answer_to_a_ping_does_not_wait_without_streams() {
    let mut rig = Rig::with_streams();
    rig.pause();
    rig.turn(&[PING_ACK]);
    rig.has_streams = false;
    rig.turn(&[]);
    rig.turn(&[]);
    rig.check("write 17, flush");
}

#[tokio::test]
async fn a_frame_that_is_no_answer_to_a_ping_does_not_wait() {
    for other in [&PING_ACK[..8], DATA, &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]] {
        let mut rig = Rig::with_streams();
        rig.pause();
        rig.turn(&[PING_ACK, other, PING_ACK]);
        rig.turn(&[]);
        rig.check(&format!("write {}, flush", 34 + other.len()));
    }
}
