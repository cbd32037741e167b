//! What the store says to a request about keys of etcd v2, before it is written as HTTP.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use etcd::Error;
use etcd::v2::{self, Ask, Code, Failure, Listing, Request};
use machine::etcd_v2::event::Event;
use machine::etcd_v2::query::Found;
use machine::etcd_v2::reply::Refusal;
use member::etcd_front::{CallRefused, V2Found};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::super::answer::{Lines, Roomy, code_and_text};
use super::super::audit::{Audited, AuditedClient, Operation};
use super::super::client::Site;
use super::super::limits::{
    FINISH_TIME_MAX, STALL_TIME_MAX, V2_FRAME_BYTES, V2_PIECE_BYTES, V2_PIECES_ON_THEIR_WAY,
    V2_TEXT_TIMES, WAITED_TIME_MAX,
};
use super::super::runtime::{ConnectionShares, Runtime};
use super::waits;
use crate::grpc::Room;

/// An answer about keys.
pub(super) struct KeysAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// The index of the store (`X-Etcd-Index`).
    pub index: u64,
    /// The index and the term of Raft, where the store has done what was asked for.
    pub raft: Option<(u64, u64)>,
    /// The JSON.
    pub body: KeysBody,
}

/// The body of an answer about keys.
pub(super) enum KeysBody {
    /// All of it.
    Whole(Bytes),
    /// Parts as they come.
    Lines(Lines),
}

/// Answers a request of this method about a key. The room of the request stays until then.
pub(super) async fn answer(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    (method, request): (&str, Request),
    room: Room,
) -> KeysAnswer {
    if matches!(request.ask, Ask::Wait(_)) {
        drop(room);
        return waits::answer(runtime, shares, request).await;
    }
    let key: Box<str> = request.key().text().into();
    let (hides_nodes, is_recursive) = match &request.ask {
        Ask::Write(write) => (write.hides_nodes, false),
        Ask::Get { is_recursive, .. } => (false, *is_recursive),
        Ask::Wait(_) | Ask::ReadAuth | Ask::WriteAuth(_) => (false, false),
    };
    let (bytes, begun_at) = (request.bytes(), Instant::now());
    let mut line = begin_line(runtime, site, &request);
    let result = runtime.run_v2(request).await;
    line.iter_mut().for_each(|line| line.tell_v2(&result));
    let is_good = matches!(result, Ok(Ok(_)));
    runtime.slow.note_v2(method, &key, bytes, (begun_at, is_good));
    match result {
        Ok(Ok(V2Found::Written(event))) => written(runtime, shares, &event, hides_nodes).await,
        Ok(Ok(V2Found::Node(found))) => listed(runtime, shares, (&key, found), is_recursive).await,
        Ok(Ok(V2Found::Auth(_) | V2Found::AuthDone(_))) => {
            unreachable!("the request is about a key")
        }
        Ok(Err(refusal)) => refused(shares, &refusal).await,
        Err(refused) => failed(&failure_of(refused)),
    }
}

/// Begins a line of the audit log, if there is a log and the request writes.
pub(super) fn begin_line(
    runtime: &Runtime,
    site: &Site,
    request: &Request,
) -> Option<Box<Audited>> {
    if !runtime.member.has_audit_log {
        return None;
    }
    let operation = Operation::of_v2(request)?;
    let client = AuditedClient::new(site.peer.ip());
    if let Some(user) = &request.user {
        client.set_user(user.clone());
    }
    Some(Audited::new(&client, operation))
}

/// An error for a request that the store has not answered.
pub(super) fn failure_of(refused: CallRefused) -> Failure {
    let (_, text) = code_and_text(refused);
    let code = match refused {
        CallRefused::Error(Error::RequestTooLarge) => Code::InvalidForm,
        _ => Code::RaftInternal,
    };
    Failure::new(code, text)
}

/// The answer to a request that the store refuses. The cause may be the text of a value.
pub(super) async fn refused(shares: &ConnectionShares, refusal: &Refusal) -> KeysAnswer {
    let room = room_for(shares, Failure::cause_bytes(refusal)).await;
    let failure = Failure::from(refusal);
    failed_with(&failure, roomy(failure.body(), room))
}

/// The answer to a request that fails.
pub(super) fn failed(failure: &Failure) -> KeysAnswer {
    failed_with(failure, failure.body().into())
}

fn failed_with(failure: &Failure, body: Bytes) -> KeysAnswer {
    let (status, index) = (failure.code.status(), failure.index);
    KeysAnswer { status, index, raft: None, body: KeysBody::Whole(body) }
}

/// The answer to a request that succeeded, at this index of the store.
pub(super) fn succeeded(runtime: &Runtime, index: u64, body: KeysBody) -> KeysAnswer {
    KeysAnswer { status: 200, index, raft: Some(runtime.raft_position()), body }
}

/// Waits for the room of a text that shows keys and values of so many bytes.
pub(super) async fn room_for(shares: &ConnectionShares, bytes: usize) -> Room {
    let bytes = V2_FRAME_BYTES.saturating_add(bytes.saturating_mul(V2_TEXT_TIMES));
    let mut room = Room::new(shares.answers.of(bytes));
    room.grow_to(bytes).await;
    room
}

/// A text with its room, of which it gives back what it does not need.
pub(super) fn roomy(text: Vec<u8>, mut room: Room) -> Bytes {
    room.shrink_to(text.capacity());
    Bytes::from_owner(Roomy { text, _room: room })
}

/// The line of an event.
pub(super) async fn line(shares: &ConnectionShares, event: &Event, hides_nodes: bool) -> Bytes {
    let bytes = if hides_nodes { 0 } else { event.bytes() as usize };
    let room = room_for(shares, bytes).await;
    let mut text = Vec::with_capacity(V2_FRAME_BYTES + bytes);
    v2::write_event(event, hides_nodes, &mut text);
    roomy(text, room)
}

async fn written(
    runtime: &Runtime,
    shares: &ConnectionShares,
    event: &Event,
    hides_nodes: bool,
) -> KeysAnswer {
    let line = line(shares, event, hides_nodes).await;
    let answer = succeeded(runtime, event.index(), KeysBody::Whole(line));
    KeysAnswer { status: if event.is_created() { 201 } else { 200 }, ..answer }
}

/// The answer with a node: whole if it is small, else in pieces.
async fn listed(
    runtime: &Runtime,
    shares: &ConnectionShares,
    (key, found): (&str, Found),
    is_recursive: bool,
) -> KeysAnswer {
    let Found { index, node } = found;
    let below_bytes = usize::try_from(node.below().bytes).unwrap_or(usize::MAX);
    let kept_bytes = below_bytes.saturating_add(node.value().map_or(0, |value| value.len()));
    let room = room_for(shares, key.len() + kept_bytes.min(V2_PIECE_BYTES)).await;
    let begin = || Listing::new(key, node.clone(), is_recursive, node::wall_ms());
    let mut text = Vec::new();
    if !begin().write(V2_PIECE_BYTES, &mut text) {
        return succeeded(runtime, index, KeysBody::Whole(roomy(text, room)));
    }
    // It begins again once it has the room for all: nothing is held while it waits.
    let listing = begin();
    drop((text, room));
    let (lines, body) = mpsc::channel(1);
    let (shares, is_whole) = (shares.clone(), Rc::new(Cell::new(false)));
    let body = Lines::of_one(body, is_whole.clone());
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = lines.closed() => {}
            is_sent = send_pieces(listing, &shares, kept_bytes, &lines) => {
                is_whole.set(is_sent);
            }
        }
    });
    succeeded(runtime, index, KeysBody::Lines(body))
}

/// Sends a listing in pieces. The nodes that it shares may be in no other state any more, so it
/// takes room for them, and for the pieces on their way, before it sends the first one: if it took
/// room for each piece, it could wait behind others who wait for its own. While others wait for
/// room, a client is cut off that takes nothing, or all of it too slowly. Whether all was sent.
async fn send_pieces(
    mut listing: Listing,
    shares: &ConnectionShares,
    kept_bytes: usize,
    lines: &mpsc::Sender<Bytes>,
) -> bool {
    let bytes = kept_bytes.saturating_add(V2_PIECES_ON_THEIR_WAY * V2_PIECE_BYTES);
    let mut kept = Room::new(shares.answers.of(bytes));
    kept.grow_to(bytes).await;
    let time_max = if kept.is_finisher() { FINISH_TIME_MAX } else { STALL_TIME_MAX };
    let due_at = Instant::now() + time_max;
    loop {
        let mut text = Vec::new();
        let has_more = listing.write(V2_PIECE_BYTES, &mut text);
        let is_late = kept.is_waited_for() && Instant::now() > due_at;
        if is_late || !send_while_wanted(lines, text.into(), &kept).await {
            return false;
        }
        if !has_more {
            return true;
        }
    }
}

/// Sends a part of an answer. False if the client is gone, or takes nothing while others wait for
/// `room`, or for room of the same shares.
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
