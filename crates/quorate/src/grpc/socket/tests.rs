//! Writes that are gathered, and writes that are not.
#![allow(clippy::unwrap_used)]

use std::task::Waker;

use super::*;

/// A socket that notes each write and flush; it takes so many bytes at a time.
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

struct Rig {
    socket: GatheringSocket<Noting>,
    turn: Arc<Turn>,
}

impl Rig {
    fn new(bytes_max: usize) -> Rig {
        let noting = Noting { notes: Vec::new(), bytes_max };
        let signs = SignsOfLife::new(None, &Arc::new(()));
        let (socket, turn) = GatheringSocket::new(noting, Arc::new(signs));
        Rig { socket, turn }
    }

    fn write(&mut self, count: usize) {
        let mut context = Context::from_waker(Waker::noop());
        let written = Pin::new(&mut self.socket).poll_write(&mut context, &vec![7; count]);
        assert!(matches!(written, Poll::Ready(Ok(done)) if done == count));
    }

    fn flush(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut self.socket).poll_flush(&mut context).is_ready());
    }

    fn pause(&self) {
        self.turn.pause(&Context::from_waker(Waker::noop()));
    }

    #[track_caller]
    fn check(&mut self, expected: &str) {
        assert_eq!(std::mem::take(&mut self.socket.socket.notes).join(", "), expected);
    }
}

#[test]
fn what_two_turns_write_is_one_write() {
    let mut rig = Rig::new(usize::MAX);
    // A handshake is not gathered.
    rig.write(10);
    rig.flush();
    rig.check("write 10, flush");
    rig.pause();
    rig.write(1);
    rig.flush();
    rig.check("");
    // A flush is owed, so the next turn writes.
    rig.pause();
    rig.write(2);
    rig.flush();
    rig.check("write 3, flush");
    rig.pause();
    rig.flush();
    rig.check("");
    // No flush is owed.
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
