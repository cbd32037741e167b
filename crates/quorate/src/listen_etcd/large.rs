//! Encodes large responses: measures them in steps, and encodes them in pieces as their clients
//! take them, so that other tasks of the thread can run in between. A response longer than gRPC
//! allows is refused before any of it is encoded. The JSON gateway has the same limit, because in
//! etcd it is a gRPC client.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use etcd::gateway::{self, Transcoder};
use grpc::{Room, Status, check_sent};
use grpc_code::Code;
use member::fronts::etcd::{Reply, ReplyPieces};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use super::answer::{Answer, Lines, Roomy, of_large, refused, streaming};
use super::limits::{
    FINISH_TIME_MAX, JSON_PIECES_BYTES, JSON_TIMES, SMALL_BYTES_MAX, STALL_TIME_MAX,
    WAITED_TIME_MAX,
};
use super::runtime::ConnectionShares;

/// The length of a response that is to be encoded at once, because it is short and has at most
/// `bytes_max` bytes. `None` if it is to be encoded in pieces.
pub(super) fn bytes_if_short(reply: &Reply, bytes_max: usize) -> Option<usize> {
    let bytes = reply.is_short().then(|| reply.bytes());
    bytes.filter(|bytes| *bytes <= bytes_max)
}

/// Computes the length of a response, in steps.
pub(super) async fn measured(pieces: &mut ReplyPieces) -> usize {
    loop {
        if let Some(bytes) = pieces.measure() {
            return bytes;
        }
        yield_now().await;
    }
}

/// Appends the next piece of a message, and returns whether more follows.
pub(super) type Write = Box<dyn FnMut(&mut Vec<u8>) -> bool>;

/// Translates a message into JSON, in pieces.
pub(super) struct LargeJson {
    transcoder: Option<Transcoder>,
    write: Write,
    /// How many bytes of the message are not encoded yet.
    bytes_left: usize,
    /// The texts before and behind the message's JSON.
    around: [&'static str; 2],
    is_begun: bool,
}

impl LargeJson {
    /// The JSON of a response that is the whole body; `bytes` is the length of its message.
    ///
    /// # Errors
    /// The message is too long.
    pub fn of_one(
        method: &gateway::GatewayMethod,
        bytes: usize,
        write: Write,
    ) -> Result<LargeJson, Status> {
        check_sent(bytes)?;
        let transcoder = Some(method.transcoder());
        Ok(LargeJson { transcoder, write, bytes_left: bytes, around: ["", ""], is_begun: false })
    }

    /// The JSON line of a response in a stream; `bytes` is the length of its message.
    ///
    /// # Errors
    /// The message is too long.
    pub fn of_stream(
        method: &gateway::GatewayMethod,
        bytes: usize,
        write: Write,
    ) -> Result<LargeJson, Status> {
        let json = LargeJson::of_one(method, bytes, write)?;
        Ok(LargeJson { around: [gateway::STREAMED_BEGIN, gateway::STREAMED_END], ..json })
    }

    /// The next piece of the JSON; `None` behind the last one.
    ///
    /// # Errors
    /// The bytes do not form a message of the method.
    fn next(&mut self) -> Result<Option<String>, gateway::BadMessage> {
        let Some(transcoder) = &mut self.transcoder else { return Ok(None) };
        let (mut message, mut text) = (Vec::new(), String::new());
        let [before, behind] = self.around;
        if !std::mem::replace(&mut self.is_begun, true) {
            text.push_str(before);
        }
        let goes_on = (self.write)(&mut message);
        self.bytes_left = self.bytes_left.saturating_sub(message.len());
        transcoder.push(&message, &mut text)?;
        if !goes_on && let Some(transcoder) = self.transcoder.take() {
            transcoder.finish(&mut text)?;
            text.push_str(behind);
        }
        Ok(Some(text))
    }

    /// Waits for the memory that the response may use: its whole message, because the versions of
    /// keys that it shows may be in memory for it alone, and the pieces of JSON under way. Each
    /// sent piece takes a part of this room along, and frees it once the socket has the piece.
    pub async fn room(&self, shares: &ConnectionShares) -> Room {
        let bytes = self.bytes_left.saturating_add(JSON_PIECES_BYTES);
        let mut room = Room::new(shares.answers.of(bytes));
        room.grow_to(bytes).await;
        room
    }

    /// Sends the JSON in pieces, and returns whether all was sent. While others wait for memory, a
    /// client is disconnected if it takes nothing, or takes all of it too slowly.
    pub async fn send(mut self, mut room: Room, lines: &mpsc::Sender<Bytes>) -> bool {
        let time_max = if room.is_finisher() { FINISH_TIME_MAX } else { STALL_TIME_MAX };
        let due_at = Instant::now() + time_max;
        loop {
            let text = match self.next() {
                Ok(Some(text)) => text.into_bytes(),
                Ok(None) => return true,
                Err(bad) => {
                    tracing::error!("a response of our own has no JSON: {bad}");
                    return false;
                }
            };
            let of_piece = room.split_beyond(self.bytes_left.saturating_add(JSON_PIECES_BYTES));
            let piece = Bytes::from_owner(Roomy { text, _room: of_piece });
            let is_late = room.is_waited_for() && Instant::now() > due_at;
            if is_late || !send_while_wanted(lines, piece, &room).await {
                return false;
            }
            yield_now().await;
        }
    }
}

/// Sends a part of a response. False if the client is gone, or takes nothing while others wait for
/// memory from the same shares as `room`.
pub(super) async fn send_while_wanted(
    lines: &mpsc::Sender<Bytes>,
    part: Bytes,
    room: &Room,
) -> bool {
    let mut sending = pin!(lines.send(part));
    loop {
        match timeout(WAITED_TIME_MAX, &mut sending).await {
            Ok(sent) => return sent.is_ok(),
            Err(_) if room.is_waited_for() => return false,
            Err(_) => {}
        }
    }
}

/// The gateway's answer with this response, once there is memory for it: at once if it is small,
/// else in pieces.
pub(super) async fn answered(
    shares: &ConnectionShares,
    method: &'static gateway::GatewayMethod,
    reply: Reply,
) -> Answer {
    if let Some(bytes) = bytes_if_short(&reply, SMALL_BYTES_MAX) {
        let mut room = Room::new(shares.answers.of(bytes * JSON_TIMES));
        room.grow_to(bytes * JSON_TIMES).await;
        let mut message = Vec::with_capacity(bytes);
        reply.write(&mut message);
        return match method.response(&message) {
            Ok(json) => of_large(json, room),
            Err(bad) => refused(Code::Internal, &bad.to_string()),
        };
    }
    let mut pieces = reply.into_pieces();
    let bytes = measured(&mut pieces).await;
    let json = LargeJson::of_one(method, bytes, Box::new(move |out| pieces.write(out)));
    let json = match json {
        Ok(json) => json,
        Err(too_long) => return refused(Code::ResourceExhausted, &too_long.message),
    };
    let room = json.room(shares).await;
    let (lines, body) = mpsc::channel(1);
    let is_whole = Rc::new(Cell::new(false));
    let body = Lines::of_one(body, is_whole.clone());
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = lines.closed() => {}
            is_sent = json.send(room, &lines) => is_whole.set(is_sent),
        }
    });
    streaming(body)
}
