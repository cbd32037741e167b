//! The receiving half of a call: assembles the client's messages, one after the other. While a
//! message waits for room ([`Room`]), its bytes stay counted against the client's window, so the
//! client must stop sending.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use grpc_code::Code;
use h2::RecvStream;
use tokio::time::Instant;

use super::assembly::Assembly;
use super::counts::CallCounts;
use super::credits::{Credit, StreamCredits};
use super::deadline::Deadline;
use super::gzip::{self, NoMessage};
use super::limits::{Limits, Patience};
use super::methods::Kind;
use super::room::{Room, SharesBySize};
use super::status::{End, Status};

/// One message of a client. Dropping it frees its room and its credit.
#[derive(Debug)]
pub struct Message {
    /// The bytes of the message, without its prefix.
    pub bytes: Bytes,
    /// The memory that is counted for the message.
    pub room: Room,
    /// The credit of the request; `None` if the face does not limit the number of requests.
    pub credit: Option<Credit>,
}

/// Receives the messages that a client sends on a stream.
#[derive(Debug)]
pub struct Requests {
    kind: Kind,
    counts: Arc<CallCounts>,
    body: RecvStream,
    assembly: Assembly,
    /// Bytes of the last frame that still count against the client's window.
    unreleased: usize,
    /// Whether at least one complete message has come.
    has_had_one: bool,
    /// The shares that give room for messages.
    shares: SharesBySize,
    credits: Option<StreamCredits>,
    /// The message that has begun to arrive.
    begun: Option<Begun>,
    deadline: Deadline,
    limits: Arc<Limits>,
}

/// A message that has arrived in part.
#[derive(Debug)]
struct Begun {
    room: Room,
    /// When the last byte must have arrived. The first wait for more bytes sets it.
    due_at: Option<Instant>,
}

impl Requests {
    pub(super) fn new(
        (kind, counts): (Kind, Arc<CallCounts>),
        body: RecvStream,
        takes_compressed: bool,
        (shares, credits): (SharesBySize, Option<StreamCredits>),
        deadline: Deadline,
        limits: Arc<Limits>,
    ) -> Requests {
        let assembly = Assembly::new(limits.message_bytes_max, takes_compressed);
        Requests {
            kind,
            counts,
            body,
            assembly,
            unreleased: 0,
            has_had_one: false,
            shares,
            credits,
            begun: None,
            deadline,
            limits,
        }
    }

    /// The next message; `None` when the client sends no more. A caller may stop waiting and call
    /// this again: no byte is lost.
    ///
    /// # Errors
    /// The call ends: a message is refused, the client is gone, or the deadline has passed.
    pub async fn next(&mut self) -> Result<Option<Message>, End> {
        self.deadline.check()?;
        loop {
            if let Some(message) = self.take().await? {
                return Ok(Some(message));
            }
            let is_between = self.assembly.is_between();
            let received = match poll_fn(|context| Poll::Ready(self.poll_receive(context))).await {
                Poll::Ready(received) => received?,
                // Timers are large, so these futures are boxed: calls that never wait have smaller
                // ones.
                Poll::Pending if is_between => Box::pin(self.receive_first()).await?,
                Poll::Pending => Box::pin(self.receive_more()).await?,
            };
            match received {
                true => {}
                false if self.is_cut_off() => return Err(self.cut_off().into()),
                false => return Ok(None),
            }
        }
    }

    /// The only message of a client that sends exactly one. For a unary call, this does not wait
    /// for the client's end of stream, and ignores later messages. For a call with a stream of
    /// answers it waits for the end of stream. Both are as in grpc-go.
    ///
    /// # Errors
    /// The errors of [`Requests::next`]; or no message came, or more than one.
    pub async fn only(&mut self) -> Result<Message, End> {
        let violated = |what: &str| {
            let text = format!("cardinality violation: received {what} non-client-streaming RPC");
            Err(Status::new(Code::Internal, text).into())
        };
        let is_unary = self.kind == Kind::Unary;
        match self.next().await? {
            None if is_unary => Err(Status::new(Code::Unknown, "EOF").into()),
            None => violated("no request message from"),
            Some(message) if is_unary => Ok(message),
            Some(message) => match self.next().await? {
                None => Ok(message),
                Some(_) => violated("multiple request messages for"),
            },
        }
    }

    /// Whether the client's bytes end within a message. If a client that sends one message stops
    /// within its prefix, grpc-go answers that no message came (`Stream.ReadMessageHeader`).
    /// grpc-go does so for a stream of messages, too; here that is an error, since bytes are
    /// missing.
    fn is_cut_off(&self) -> bool {
        match self.kind {
            Kind::Unary | Kind::ServerStreaming => self.assembly.is_within(),
            Kind::ClientStreaming | Kind::BidiStreaming => !self.assembly.is_between(),
        }
    }

    /// The status for a client that stops within a message; code and text are grpc-go's.
    fn cut_off(&self) -> Status {
        let code = if self.kind == Kind::Unary { Code::Unknown } else { Code::Internal };
        Status::new(code, "unexpected EOF")
    }

    /// Takes the next message if all of it has arrived. Waits until there is room for its bytes.
    async fn take(&mut self) -> Result<Option<Message>, End> {
        let Some(length) = self.assembly.length()? else { return Ok(None) };
        // The length of a compressed message is unknown until it is decompressed.
        let length = if self.assembly.is_compressed() { usize::MAX } else { length };
        let shares = self.shares.of(length);
        let begun =
            self.begun.get_or_insert_with(|| Begun { room: Room::new(shares), due_at: None });
        if begun.room.is_empty() {
            begun.room = Room::new(shares);
        }
        let bytes = self.assembly.memory_bytes();
        if !begun.room.try_grow_to(bytes) {
            let asked_at = Instant::now();
            Box::pin(self.deadline.bound(begun.room.grow_to(bytes))).await?;
            // The wait for room is not the client's fault, so the message is due later.
            begun.due_at = begun.due_at.map(|at| at + asked_at.elapsed());
        }
        let Some(bytes) = self.assembly.take() else { return Ok(None) };
        self.has_had_one = true;
        let credit = self.credits.as_ref().map(StreamCredits::take).transpose()?;
        let Some(Begun { mut room, .. }) = self.begun.take() else { return Ok(None) };
        let mut bytes = bytes;
        if self.assembly.is_compressed() {
            let bytes_max = self.limits.message_bytes_max;
            let message = gzip::decompressed(&bytes, bytes_max);
            bytes = message.map_err(|why| no_message(why, bytes_max))?.into();
            room.shrink_to(bytes.len());
        }
        self.counts.receive(bytes.len());
        Ok(Some(Message { bytes, room, credit }))
    }

    /// Receives the first frame of the next message; false if the client sends no more.
    async fn receive_first(&mut self) -> Result<bool, End> {
        let Patience { first_time, idle_time, .. } = self.limits.patience;
        let time_max = if self.has_had_one { idle_time } else { first_time };
        let (deadline, received) = (self.deadline, self.receive());
        let Some(time_max) = time_max else { return deadline.bound(received).await? };
        let received = deadline.bound_until(Instant::now() + time_max, received).await?;
        received.unwrap_or_else(|| Err(Status::idle().into()))
    }

    /// Receives the next frame of a message that has begun. Ends the call when the message is
    /// overdue, and earlier if other clients wait for the room of the message.
    async fn receive_more(&mut self) -> Result<bool, End> {
        let Patience { stall_time, waited_time, finish_time, .. } = self.limits.patience;
        let begun_at = Instant::now();
        let shares = self.shares.of(0);
        let begun =
            self.begun.get_or_insert_with(|| Begun { room: Room::new(shares), due_at: None });
        let due_at = *begun.due_at.get_or_insert(begun_at + stall_time);
        let time_max = if begun.room.is_finisher() { finish_time } else { stall_time };
        let due_at = due_at.min(begun_at + time_max);
        loop {
            let look_at = due_at.min(Instant::now() + waited_time);
            match self.deadline.bound_until(look_at, self.receive()).await? {
                Some(received) => return received,
                None if Instant::now() >= due_at || self.is_waited_for() => return Err(End::Gone),
                None => {}
            }
        }
    }

    fn is_waited_for(&self) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.room.is_waited_for())
    }

    /// Receives a frame; false if the client sends no more.
    async fn receive(&mut self) -> Result<bool, End> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, End>> {
        self.body.flow_control().release_capacity(std::mem::take(&mut self.unreleased))?;
        let Some(frame) = ready!(self.body.poll_data(context)?) else {
            return Poll::Ready(Ok(false));
        };
        self.unreleased = frame.len();
        self.assembly.push(frame);
        Poll::Ready(Ok(true))
    }
}

/// The status for a compressed message that cannot be read. Codes and texts are grpc-go's
/// (`decompress` in `rpc_util.go`), except for the reason why bytes are not gzip.
fn no_message(why: NoMessage, bytes_max: usize) -> Status {
    let internal = |what: &str, why: String| {
        Status::new(Code::Internal, format!("grpc: failed to {what}: {why}"))
    };
    match why {
        NoMessage::NoGzip(why) => internal("decompress the message", why),
        NoMessage::Damaged(why) => internal("read decompressed data", why),
        NoMessage::TooLong => {
            let text =
                format!("grpc: received message after decompression larger than max {bytes_max}");
            Status::new(Code::ResourceExhausted, text)
        }
    }
}
