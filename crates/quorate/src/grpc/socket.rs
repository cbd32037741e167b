//! The socket of a connection, which gathers small writes. The library flushes small frames
//! (answers to pings, windows) before the tasks of new calls have run. grpc-go sends a ping with
//! most requests, so a call would cost two writes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

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
}

impl<S> GatheringSocket<S> {
    pub(super) fn new(socket: S) -> (GatheringSocket<S>, Arc<Turn>) {
        let turn = Arc::new(Turn::default());
        let (gathered, written, is_dirty) = (Vec::new(), 0, false);
        (GatheringSocket { socket, gathered, written, is_dirty, turn: turn.clone() }, turn)
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

impl<S: AsyncRead + Unpin> AsyncRead for GatheringSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
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
            self.gathered.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(self.poll_write_gathered(context))?;
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.is_dirty = true;
        let count = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if self.gathered.len() + count <= GATHERED_BYTES_MAX {
            for slice in slices {
                self.gathered.extend_from_slice(slice);
            }
            return Poll::Ready(Ok(count));
        }
        ready!(self.poll_write_gathered(context))?;
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
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
