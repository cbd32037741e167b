//! The socket of a connection, which gathers small writes. The library flushes small frames
//! (answers to pings, windows) before the tasks of new calls have run. grpc-go sends a ping with
//! most requests, so a call would cost two writes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::keep_alive::{Heads, PREFACE_BYTES, SignsOfLife, add_reason};

/// Bytes that are gathered at most. Longer writes go to the socket at once: large answers are not
/// copied.
const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// Bytes of memory that a connection keeps for gathering while it writes nothing.
const KEPT_BYTES_MAX: usize = 1024;

/// A socket that delays writes while its [`Turn`] gathers.
pub(super) struct GatheringSocket<S> {
    socket: S,
    gathered: Vec<u8>,
    /// Gathered bytes that the socket has taken.
    written: usize,
    /// Whether anything was written since the last flush.
    is_dirty: bool,
    turn: Arc<Turn>,
    signs: Arc<SignsOfLife>,
    /// The frames that the client sends, and those for it.
    received: Heads,
    sent: Heads,
}

/// Says when a socket gathers and when it writes. The task of the connection shares it.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether flushes are delayed.
    gathers: AtomicBool,
    /// Whether a flush was delayed.
    is_owed: AtomicBool,
}

impl Turn {
    /// Called when the connection has nothing more to do for now. If a flush was delayed, the task
    /// is woken again behind the tasks that it has started, and its next turn writes their answers
    /// as well. Else the socket gathers from now on.
    pub(super) fn pause(&self, context: &Context<'_>) {
        let is_owed = self.is_owed.swap(false, Ordering::Relaxed);
        self.gathers.store(!is_owed, Ordering::Relaxed);
        if is_owed {
            context.waker().wake_by_ref();
        }
    }

    /// From now on flushes are not delayed.
    pub(super) fn gather_no_more(&self) {
        self.gathers.store(false, Ordering::Relaxed);
    }
}

impl<S> GatheringSocket<S> {
    pub(super) fn new(socket: S, signs: Arc<SignsOfLife>) -> (GatheringSocket<S>, Arc<Turn>) {
        let turn = Arc::new(Turn::default());
        let gathering = GatheringSocket {
            socket,
            gathered: Vec::new(),
            written: 0,
            is_dirty: false,
            turn: turn.clone(),
            signs,
            received: Heads::behind(PREFACE_BYTES),
            sent: Heads::behind(0),
        };
        (gathering, turn)
    }
}

impl<S: AsyncWrite + Unpin> GatheringSocket<S> {
    /// Writes the gathered bytes.
    fn poll_write_gathered(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(left @ [_, ..]) = self.gathered.get(self.written..) {
            let count = ready!(Pin::new(&mut self.socket).poll_write(context, left))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.written = 0;
        self.gathered.clear();
        self.gathered.shrink_to(KEPT_BYTES_MAX);
        Poll::Ready(Ok(()))
    }
}

impl<S> GatheringSocket<S> {
    fn gather(&mut self, slices: &[io::IoSlice<'_>]) {
        for slice in slices {
            self.gathered.extend_from_slice(slice);
            self.note_sent(slice);
        }
        if self.signs.is_abused() {
            add_reason(&mut self.gathered);
        }
    }

    fn note_sent(&mut self, bytes: &[u8]) {
        self.signs.on_sent(&mut self.sent, bytes);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GatheringSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        let GatheringSocket { signs, received, .. } = &mut *self;
        signs.on_received(received, &buffer.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GatheringSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_dirty = true;
        if self.gathered.len() + bytes.len() <= GATHERED_BYTES_MAX {
            self.gather(&[io::IoSlice::new(bytes)]);
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(self.poll_write_gathered(context))?;
        let count = ready!(Pin::new(&mut self.socket).poll_write(context, bytes))?;
        self.note_sent(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.is_dirty = true;
        let count = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if self.gathered.len() + count <= GATHERED_BYTES_MAX {
            self.gather(slices);
            return Poll::Ready(Ok(count));
        }
        ready!(self.poll_write_gathered(context))?;
        let count = ready!(Pin::new(&mut self.socket).poll_write_vectored(context, slices))?;
        let mut left = count;
        for slice in slices {
            let written = left.min(slice.len());
            self.note_sent(&slice[..written]);
            left -= written;
        }
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.turn.gathers.load(Ordering::Relaxed) {
            self.turn.is_owed.fetch_or(self.is_dirty, Ordering::Relaxed);
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_write_gathered(context))?;
        ready!(Pin::new(&mut self.socket).poll_flush(context))?;
        self.is_dirty = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_gathered(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
