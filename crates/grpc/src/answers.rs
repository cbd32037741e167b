//! The sending half of a call. The library holds at most one message of a stream: the next one may
//! be handed over when the socket has taken the last byte of the one before. So a slow client costs
//! the memory of one message, or of some pieces of it, if it is made in pieces: the next piece is
//! made when the client's window and the library have room for its first byte.

use grpc_code::Code;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
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

/// A piece of an answer on its way to the socket. The library drops the piece when it has copied
/// the last byte of it towards the socket, or when the stream has ended.
pub(super) struct Piece {
    bytes: Bytes,
    sent: Arc<Sent>,
    /// The room of this piece; with the last piece the room of the message, or what is left of it.
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

/// The pieces of one stream that the library holds.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pieces: AtomicUsize,
    /// Woken when the last piece is dropped.
    waiting: Mutex<Option<Waker>>,
}

impl Sent {
    /// A piece of a stream, without room of its own.
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

/// The answers to a client on a stream.
pub struct Answers {
    half: Half,
    /// The part of the last message that the library does not hold yet.
    left: Outgoing,
    /// The room of that part.
    room: Option<Room>,
    /// The room of the last piece, until the socket has taken it.
    last_room: Weak<Room>,
    sent: Arc<Sent>,
    /// When the last message must be sent, if others wait for its room. The first wait sets it.
    due_at_if_waited_for: Option<Instant>,
    /// Since when the client has taken nothing of the last message. None while nothing waits for
    /// the client.
    stalled_since: Option<Instant>,
    content_type: HeaderValue,
    deadline: Deadline,
    limits: Arc<Limits>,
    counts: Arc<CallCounts>,
    /// When the call began, if somebody wants to know how long it takes.
    begun_at: Option<Instant>,
}

/// The half of the stream that the library gave us.
enum Half {
    /// No header or message was sent yet.
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

    /// Sends one message, which has its prefix. Waits until the socket has taken the message
    /// before, and until the library holds all of this one. A caller that stops waiting must end
    /// the call.
    ///
    /// # Errors
    /// The call ends: the client is gone or takes nothing, or the deadline has passed.
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

    /// Takes one message, which has its prefix; [`Answers::taken`] sends it. Shrinks its room to
    /// its size.
    ///
    /// # Panics
    /// The message before was not taken yet.
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

    /// Sends the message that was handed over, and waits until the socket has taken it. A caller
    /// may stop waiting and call this again.
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

    /// Hands the library the bytes that are left, as fast as the client's window allows.
    async fn flush(&mut self) -> Result<(), End> {
        loop {
            let wanted = self.left.bytes();
            if wanted == 0 {
                break;
            }
            // The library holds no more, so more would only be a claim on the connection's window.
            let reserved = wanted.min(self.limits.send_bytes_max);
            let stream = self.stream()?;
            stream.reserve_capacity(reserved);
            if stream.capacity() == 0 {
                let capacity = |half: &mut Half, context: &mut Context<'_>| match half {
                    Half::Sending(stream) => stream.poll_capacity(context),
                    Half::Waiting(_) => Poll::Ready(None),
                };
                // A timer is large, so the futures of calls that need none do not contain one.
                let capacity = Box::pin(self.wait_for_client(capacity)).await?;
                capacity.ok_or(End::Gone)??;
            }
            let capacity = self.stream()?.capacity();
            if capacity > 0 {
                let is_in_pieces = self.left.rest.is_some();
                self.hand_piece(capacity)?;
                if is_in_pieces {
                    // Others on this thread come between two pieces.
                    tokio::task::yield_now().await;
                }
            }
        }
        self.room = None;
        Ok(())
    }

    /// Hands the library up to so many bytes. Makes the next piece if there are none.
    fn hand_piece(&mut self, bytes_max: usize) -> Result<(), End> {
        self.left.make_piece()?;
        let made = &mut self.left.made;
        let bytes = made.split_to(bytes_max.min(made.len()));
        // The library drops the parts of a piece in their order, so the last one has its room.
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

    /// Asks the room of the message, until the socket has taken all of it.
    fn room_says(&self, says: impl Fn(&Room) -> bool) -> bool {
        match &self.room {
            Some(room) => says(room),
            None => self.last_room.upgrade().is_some_and(|room| says(&room)),
        }
    }

    /// The stream, with the head of the response sent.
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

    /// Waits until the client takes some bytes; only for a short time if other clients wait for the
    /// room of the message.
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

    /// Waits until the client resets the stream, or goes away.
    pub async fn gone(&mut self) -> End {
        // Both results mean the end: a reset, and an error of the connection.
        let _ = match &mut self.half {
            Half::Waiting(respond) => poll_fn(|context| respond.poll_reset(context)).await,
            Half::Sending(stream) => poll_fn(|context| stream.poll_reset(context)).await,
        };
        End::Gone
    }

    /// Ends the stream. A client that is gone needs no status. A client that has a part of a
    /// message gets none either: a status would say that the message ends there.
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
