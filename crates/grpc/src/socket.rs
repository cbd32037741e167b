//! The socket of a connection, which gathers small writes. A *turn* is one run of the connection's
//! task. In each turn the HTTP/2 library flushes small frames (answers to pings, window updates),
//! before the tasks of new calls have run. grpc-go sends a ping with most requests, so each call
//! would cost two writes. Therefore a flush is delayed to the next turn, which runs after the tasks
//! that this turn has started. A call that waits for the disk answers much later than that.
//! Therefore an answer to a ping waits even longer, if a call is open: until any other frame is
//! written, but 50 ms at most.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

use super::keep_alive::{Heads, PREFACE_BYTES, SignsOfLife, add_reason};
use super::lenient::LenientHeads;

/// The most bytes that are gathered. Longer writes go to the socket at once, so that large answers
/// are not copied.
const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// How long an answer to a ping waits for another frame. A client that measures the round trip of a
/// ping sees at most this much more; clients that look for signs of life wait for seconds.
const ACK_TIME_MAX: Duration = Duration::from_millis(50);

/// Capacity that an idle connection keeps for gathering, in bytes.
const KEPT_BYTES_MAX: usize = 1024;

/// Once the library has got this many bytes of headers, it gets no more until the connection's task
/// has taken the streams that they open. Decoded headers take up to 150 times as much memory.
const TURN_HEADERS_BYTES_MAX: usize = 16 * 1024;

/// How long a client may take to send headers that are too long to be held back whole.
const LONG_HEADERS_TIME_MAX: Duration = Duration::from_secs(10);

/// A socket that delays flushes while its [`Turn`] says so. It gives the library no bytes while too
/// many headers wait for the connection's task.
pub(super) struct GatheringSocket<S> {
    socket: S,
    gathered: Vec<u8>,
    /// How many of the gathered bytes the socket has taken.
    written: usize,
    /// Whether anything but answers to pings was written since the last flush.
    is_dirty: bool,
    /// Whether all gathered bytes are answers to pings.
    are_acks: bool,
    turn: Arc<Turn>,
    signs: Arc<SignsOfLife>,
    /// Find the frames from the client, and the frames to it.
    received: Heads,
    sent: Heads,
    lenient: LenientHeads,
    /// The permits for clients that send long headers, and the one that this connection holds.
    long_headers: Arc<Semaphore>,
    long: Option<LongHeaders>,
}

/// Long headers that the library has only in part.
struct LongHeaders {
    _place: OwnedSemaphorePermit,
    deadline: Pin<Box<Sleep>>,
}

/// Says when a socket gathers and when it writes. The socket shares it with the connection's task.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether flushes are delayed now.
    gathers: AtomicBool,
    /// Whether a flush was delayed that had more than answers to pings.
    is_owed: AtomicBool,
    /// Whether answers to pings are gathered and not written.
    owes_acks: AtomicBool,
    /// Bytes of headers that the library has got since the connection's task last took all streams.
    headers_bytes: AtomicUsize,
}

/// Limits how long answers to pings wait for another frame.
#[derive(Default)]
pub(super) struct AckTimer {
    /// The timer, made for the first answer that waits.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whether the timer was set and has not fired. It stays set when the answers are written,
    /// because setting it for each answer would cost more than a needless wake-up now and then.
    is_set: bool,
    /// Whether answers are waiting.
    is_waited_for: bool,
}

impl AckTimer {
    /// Ready if the waiting answers must be written now. Sets the timer if it is not set, or if it
    /// fired for answers that were written meanwhile.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut was_waited_for = std::mem::replace(&mut self.is_waited_for, true);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(ACK_TIME_MAX)));
        loop {
            if !self.is_set {
                sleep.as_mut().reset(Instant::now() + ACK_TIME_MAX);
                self.is_set = true;
            }
            ready!(sleep.as_mut().poll(context));
            self.is_set = false;
            if was_waited_for {
                return Poll::Ready(());
            }
            was_waited_for = true;
        }
    }
}

impl Turn {
    /// Ends a turn: the connection's task has nothing more to do for now. If a flush was delayed,
    /// wakes the task again, behind the tasks that it has started, so that its next turn also
    /// writes what they answer. Otherwise the socket gathers from now on. Answers to pings wait
    /// while there are streams, whose frames they may join.
    pub(super) fn pause(&self, context: &mut Context<'_>, has_streams: bool, acks: &mut AckTimer) {
        let mut is_owed = self.is_owed.swap(false, Ordering::Relaxed);
        let owes_acks = self.owes_acks.load(Ordering::Relaxed);
        acks.is_waited_for &= owes_acks;
        if !is_owed && owes_acks {
            is_owed = !has_streams || acks.poll(context).is_ready();
        }
        self.gathers.store(!is_owed, Ordering::Relaxed);
        if is_owed {
            context.waker().wake_by_ref();
        }
    }

    /// Call this when the task has taken all streams. Returns whether the socket held bytes back
    /// until then.
    pub(super) fn on_all_taken(&self) -> bool {
        self.headers_bytes.swap(0, Ordering::Relaxed) >= TURN_HEADERS_BYTES_MAX
    }

    /// Ends the delaying of flushes.
    pub(super) fn gather_no_more(&self) {
        self.gathers.store(false, Ordering::Relaxed);
    }
}

impl<S> GatheringSocket<S> {
    pub(super) fn new(
        socket: S,
        signs: Arc<SignsOfLife>,
        long_headers: Arc<Semaphore>,
    ) -> (GatheringSocket<S>, Arc<Turn>) {
        let turn = Arc::new(Turn::default());
        let gathering = GatheringSocket {
            socket,
            gathered: Vec::new(),
            written: 0,
            is_dirty: false,
            are_acks: true,
            turn: turn.clone(),
            signs,
            received: Heads::behind(PREFACE_BYTES),
            sent: Heads::behind(0),
            lenient: LenientHeads::new(),
            long_headers,
            long: None,
        };
        (gathering, turn)
    }
}

impl<S: AsyncWrite + Unpin> GatheringSocket<S> {
    /// Writes all gathered bytes.
    fn poll_write_gathered(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(left @ [_, ..]) = self.gathered.get(self.written..) {
            let count = ready!(Pin::new(&mut self.socket).poll_write(context, left))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.written = 0;
        self.are_acks = true;
        self.turn.owes_acks.store(false, Ordering::Relaxed);
        self.gathered.clear();
        self.gathered.shrink_to(KEPT_BYTES_MAX);
        Poll::Ready(Ok(()))
    }
}

impl<S> GatheringSocket<S> {
    fn gather(&mut self, slices: &[io::IoSlice<'_>]) {
        for slice in slices {
            self.gathered.extend_from_slice(slice);
            self.are_acks &= self.signs.on_sent(&mut self.sent, slice);
        }
        self.is_dirty |= !self.are_acks;
        self.turn.owes_acks.fetch_or(self.are_acks, Ordering::Relaxed);
        if self.signs.is_abused() {
            add_reason(&mut self.gathered);
        }
    }

    fn note_sent(&mut self, bytes: &[u8]) {
        self.signs.on_sent(&mut self.sent, bytes);
    }
}

impl<S> GatheringSocket<S> {
    /// Counts the headers that the library is about to get.
    ///
    /// # Errors
    /// The headers are long, and too many other clients are sending long ones.
    fn note_headers(&mut self) -> io::Result<()> {
        let bytes = self.lenient.take_block_bytes();
        self.turn.headers_bytes.fetch_add(bytes, Ordering::Relaxed);
        if !self.lenient.is_long_open() {
            self.long = None;
        } else if self.long.is_none() {
            let place = self.long_headers.clone().try_acquire_owned();
            let place =
                place.map_err(|_| io::Error::other("too many clients send long headers"))?;
            let deadline = Box::pin(sleep(LONG_HEADERS_TIME_MAX));
            self.long = Some(LongHeaders { _place: place, deadline });
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GatheringSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Some(long) = &mut self.long
            && long.deadline.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::Error::other("long headers do not end")));
        }
        // The connection's task polls again once it has taken the streams.
        if self.turn.headers_bytes.load(Ordering::Relaxed) >= TURN_HEADERS_BYTES_MAX {
            return Poll::Pending;
        }
        loop {
            let ready = self.lenient.take_ready(buffer.remaining());
            if ready.is_empty() {
                ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
                let bytes = &buffer.filled()[before..];
                let is_end = bytes.is_empty();
                let kept = self.lenient.pass(bytes);
                self.note_headers()?;
                buffer.set_filled(before + kept);
                if is_end {
                    self.lenient.end();
                }
                if kept == 0 && (!is_end || self.lenient.has_ready()) {
                    continue;
                }
            }
            buffer.put_slice(&ready);
            let GatheringSocket { signs, received, .. } = &mut *self;
            signs.on_received(received, &buffer.filled()[before..]);
            return Poll::Ready(Ok(()));
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GatheringSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.gathered.len() + bytes.len() <= GATHERED_BYTES_MAX {
            self.gather(&[io::IoSlice::new(bytes)]);
            return Poll::Ready(Ok(bytes.len()));
        }
        self.is_dirty = true;
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
        let count = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if self.gathered.len() + count <= GATHERED_BYTES_MAX {
            self.gather(slices);
            return Poll::Ready(Ok(count));
        }
        self.is_dirty = true;
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
