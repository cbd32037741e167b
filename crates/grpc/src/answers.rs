//! The sending half of a call: hands the call's messages to the HTTP/2 library, one at a time. The
//! library holds at most one message of a stream: the next message may be handed over when the
//! socket has taken the last byte of the one before. So a slow client costs the memory of one
//! message. A message made in pieces ([`Outgoing`]) costs only some pieces: a piece is made when
//! the client's window and the library have room for its first byte.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use grpc_code::Code;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use hyper::header::HeaderValue;
use tokio::time::Instant;

use super::assembly::PREFIX_BYTES;
use super::counts::CallCounts;
use super::deadline::Deadline;
use super::head::{response_head, status_alone};
use super::limits::{Limits, Patience};
use super::outgoing::Outgoing;
use super::room::Room;
use super::status::End;

/// A part of an answer on its way to the socket. The library drops it when it has copied the last
/// byte towards the socket, or when the stream has ended.
pub(super) struct Piece {
    bytes: Bytes,
    sent: Arc<Sent>,
    /// The room that becomes free when the piece is dropped; the last piece has all that is left of
    /// its message's room.
    _room: Option<Arc<Room>>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.sent.drop_piece();
    }
}

/// Counts the pieces of one stream that the library holds.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pieces: AtomicUsize,
    /// The task that waits until the library holds no piece.
    waiting: Mutex<Option<Waker>>,
}

impl Sent {
    /// Wraps bytes as a piece of this stream, without room.
    pub fn piece(self: &Arc<Sent>, bytes: Bytes) -> Piece {
        self.pieces.fetch_add(1, Ordering::AcqRel);
        Piece { bytes, sent: self.clone(), _room: None }
    }

    fn is_empty(&self) -> bool {
        self.pieces.load(Ordering::Acquire) == 0
    }

    /// Waits until the library holds no piece.
    pub fn poll_empty(&self, context: &Context<'_>) -> Poll<()> {
        *self.waiting() = Some(context.waker().clone());
        if self.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn drop_piece(&self) {
        if self.pieces.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(waker) = self.waiting().take()
        {
            waker.wake();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages to the client on a stream, and the end of its call.
pub struct Answers {
    half: Half,
    /// The part of the last message that the library does not have yet.
    left: Outgoing,
    /// The room of `left`.
    room: Option<Room>,
    /// The room of the last message's last piece, until the socket has taken it.
    last_room: Weak<Room>,
    sent: Arc<Sent>,
    /// When the last message must be sent if other clients wait for its room. The first wait for
    /// this client sets it.
    due_at_if_waited_for: Option<Instant>,
    /// Since when the client has taken no byte of the last message. `None` unless a byte waits for
    /// the client.
    stalled_since: Option<Instant>,
    content_type: HeaderValue,
    deadline: Deadline,
    limits: Arc<Limits>,
    counts: Arc<CallCounts>,
    /// When the call began; `None` if durations are not measured.
    begun_at: Option<Instant>,
}

/// The stream, before and after the head of the response.
enum Half {
    /// The head of the response is not sent yet.
    Waiting(SendResponse<Piece>),
    Sending(SendStream<Piece>),
}

impl Answers {
    pub(super) fn new(
        respond: SendResponse<Piece>,
        content_type: HeaderValue,
        deadline: Deadline,
        limits: Arc<Limits>,
        counts: Arc<CallCounts>,
    ) -> Answers {
        Answers {
            begun_at: counts.has_times().then(Instant::now),
            counts,
            half: Half::Waiting(respond),
            left: Bytes::new().into(),
            room: None,
            last_room: Weak::new(),
            sent: Arc::default(),
            due_at_if_waited_for: None,
            stalled_since: None,
            content_type,
            deadline,
            limits,
        }
    }

    /// Sends one message, which must include its prefix. Waits until the socket has taken the
    /// message before, and until the library holds all of this one. A caller that stops waiting
    /// must end the call.
    ///
    /// # Errors
    /// The call ends: the client is gone or takes no bytes, or the deadline has passed.
    pub async fn send(
        &mut self,
        message: impl Into<Outgoing>,
        room: Option<Room>,
    ) -> Result<(), End> {
        self.deadline.check()?;
        self.taken().await?;
        self.hand_over(message, room);
        self.flush().await
    }

    /// Sets the next message, which must include its prefix; [`Answers::taken`] sends it. Shrinks
    /// `room` to the size of the message.
    ///
    /// # Panics
    /// The socket has not taken the message before.
    pub fn hand_over(&mut self, message: impl Into<Outgoing>, room: Option<Room>) {
        assert!(self.is_taken(), "a stream has one message under way");
        self.left = message.into();
        let bytes = self.left.bytes();
        self.counts.send(bytes.saturating_sub(PREFIX_BYTES));
        self.room = room;
        if let Some(room) = &mut self.room {
            room.shrink_to(bytes);
        }
        self.due_at_if_waited_for = None;
        self.last_room = Weak::new();
    }

    /// Whether the socket has taken the whole message.
    pub fn is_taken(&self) -> bool {
        self.left.bytes() == 0 && self.sent.is_empty()
    }

    /// Sends the message that was handed over, and waits until the socket has taken all of it. A
    /// caller may stop waiting and call this again.
    ///
    /// # Errors
    /// The errors of [`Answers::send`].
    pub async fn taken(&mut self) -> Result<(), End> {
        self.flush().await?;
        if self.is_taken() {
            return Ok(());
        }
        let sent = self.sent.clone();
        Box::pin(self.wait_for_client(|_, context| sent.poll_empty(context))).await
    }

    /// Gives the library the rest of the message, as fast as the client's window allows.
    async fn flush(&mut self) -> Result<(), End> {
        loop {
            let wanted = self.left.bytes();
            if wanted == 0 {
                break;
            }
            // The library buffers no more than this, so reserving more would only occupy the
            // connection's window.
            let reserved = wanted.min(self.limits.send_bytes_max);
            let stream = self.stream()?;
            stream.reserve_capacity(reserved);
            if stream.capacity() == 0 {
                let capacity = |half: &mut Half, context: &mut Context<'_>| match half {
                    Half::Sending(stream) => stream.poll_capacity(context),
                    Half::Waiting(_) => Poll::Ready(None),
                };
                // A timer is large, so it is boxed: calls that never wait have smaller futures.
                let capacity = Box::pin(self.wait_for_client(capacity)).await?;
                capacity.ok_or(End::Gone)??;
            }
            let capacity = self.stream()?.capacity();
            if capacity > 0 {
                let is_in_pieces = self.left.rest.is_some();
                self.hand_piece(capacity)?;
                if is_in_pieces {
                    // Let other tasks of this thread run between two pieces.
                    tokio::task::yield_now().await;
                }
            }
        }
        self.room = None;
        Ok(())
    }

    /// Gives the library at most `bytes_max` bytes. Makes the next piece first if there are no
    /// bytes.
    fn hand_piece(&mut self, bytes_max: usize) -> Result<(), End> {
        self.left.make_piece()?;
        let made = &mut self.left.made;
        let bytes = made.split_to(bytes_max.min(made.len()));
        // The library drops the parts of a piece in order, so the last part carries the room.
        let (is_end_of_piece, left_bytes) = (made.is_empty(), self.left.bytes());
        let room = if left_bytes == 0 {
            self.room.take()
        } else if is_end_of_piece {
            let room = self.room.as_mut().map(|room| room.split_beyond(left_bytes));
            room.filter(|room| !room.is_empty())
        } else {
            None
        };
        let room = room.map(Arc::new);
        if left_bytes == 0 {
            self.last_room = room.as_ref().map_or_else(Weak::new, Arc::downgrade);
        }
        self.sent.pieces.fetch_add(1, Ordering::AcqRel);
        let piece = Piece { bytes, sent: self.sent.clone(), _room: room };
        self.stream()?.send_data(piece, false)?;
        Ok(())
    }

    /// Whether `says` holds for the room of the message. False once the socket has taken all of the
    /// message, because the room no longer exists then.
    fn room_says(&self, says: impl Fn(&Room) -> bool) -> bool {
        match &self.room {
            Some(room) => says(room),
            None => self.last_room.upgrade().is_some_and(|room| says(&room)),
        }
    }

    /// The stream, after sending the head of the response if that was not sent yet.
    fn stream(&mut self) -> Result<&mut SendStream<Piece>, End> {
        if let Half::Waiting(respond) = &mut self.half {
            let head = response_head(self.content_type.clone());
            self.half = Half::Sending(respond.send_response(head, false)?);
        }
        match &mut self.half {
            Half::Sending(stream) => Ok(stream),
            Half::Waiting(_) => unreachable!("it was replaced"),
        }
    }

    /// Waits until the client takes some bytes. Ends the call if that takes too long; the wait is
    /// shorter if other clients wait for the room of the message.
    async fn wait_for_client<T>(
        &mut self,
        mut poll: impl FnMut(&mut Half, &mut Context<'_>) -> Poll<T>,
    ) -> Result<T, End> {
        let Patience { stall_time, waited_time, finish_time, .. } = self.limits.patience;
        let is_finisher = self.room_says(Room::is_finisher);
        let begun_at = Instant::now();
        let due_at = *self.stalled_since.get_or_insert(begun_at) + stall_time;
        let time_max = if is_finisher { finish_time } else { stall_time };
        let due_at_if_waited_for =
            *self.due_at_if_waited_for.get_or_insert_with(|| begun_at + time_max);
        loop {
            let now = Instant::now();
            if now >= due_at_if_waited_for && self.room_says(Room::is_waited_for) {
                return Err(End::Gone);
            }
            let look_at = due_at.min(now + waited_time);
            let waiting = poll_fn(|context| poll(&mut self.half, context));
            match self.deadline.bound_until(look_at, waiting).await? {
                Some(taken) => {
                    self.stalled_since = None;
                    return Ok(taken);
                }
                None if Instant::now() >= due_at || self.room_says(Room::is_waited_for) => {
                    return Err(End::Gone);
                }
                None => {}
            }
        }
    }

    /// Waits until the client has reset the stream or gone away.
    pub async fn gone(&mut self) -> End {
        // A reset and an error of the connection both mean that the client is gone.
        let _ = match &mut self.half {
            Half::Waiting(respond) => poll_fn(|context| respond.poll_reset(context)).await,
            Half::Sending(stream) => poll_fn(|context| stream.poll_reset(context)).await,
        };
        End::Gone
    }

    /// Ends the stream. The client gets no status if it is gone, or if it has only a part of a
    /// message: then a status would say that the message ends there, so the stream is reset.
    pub(super) fn finish(self, end: &End) {
        let end = if self.left.bytes() == 0 { end } else { &End::Gone };
        let code = match end {
            End::Status(status) => status.code,
            End::Gone => Code::Cancelled,
        };
        self.counts.finish(code, self.begun_at.map(|begun_at| begun_at.elapsed()));
        match (end, self.half) {
            (End::Status(status), Half::Waiting(mut respond)) => {
                let _ = respond.send_response(status_alone(self.content_type, status), true);
            }
            (End::Status(status), Half::Sending(mut stream)) => {
                let _ = stream.send_trailers(status.trailers());
            }
            (End::Gone, Half::Waiting(mut respond)) => respond.send_reset(Reason::CANCEL),
            (End::Gone, Half::Sending(mut stream)) => stream.send_reset(Reason::CANCEL),
        }
    }
}
