//! Answers requests of etcd v2 for keys. An answer has a head, with the status and the indexes for
//! its headers, and a JSON body. [`super`] or [`super::short`] makes HTTP of them.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use etcd::limits::V2_TEXT_TIMES;
use etcd::v2::{self, Ask, Failure, Listing, Request};
use grpc::Room;
use machine::etcd_v2::event::Event;
use machine::etcd_v2::query::Found;
use machine::etcd_v2::reply::Refusal;
use member::fronts::etcd::audit::Operation;
use member::fronts::etcd::v2::failure_of;
use member::fronts::etcd::{CallRefused, V2Found, V2Result};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::answer::{Lines, Roomy};
use super::super::audit::{Audited, AuditedClient};
use super::super::client::Site;
use super::super::large::send_while_wanted;
use super::super::limits::{
    FINISH_TIME_MAX, STALL_TIME_MAX, V2_FRAME_BYTES, V2_PIECE_BYTES, V2_PIECES_ON_THEIR_WAY,
};
use super::super::runtime::{ConnectionShares, Runtime};
use super::waits;

/// An answer about keys.
pub(super) struct KeysAnswer {
    /// The status and the headers of the response.
    pub head: KeysHead,
    /// The JSON.
    pub body: KeysBody,
}

/// The status and the headers of an answer about keys.
pub(super) struct KeysHead {
    /// The HTTP status.
    pub status: u16,
    /// The index of the v2 store (`X-Etcd-Index`).
    pub index: u64,
    /// Raft's index and term; `None` if the request failed.
    pub raft: Option<(u64, u64)>,
}

impl KeysHead {
    /// The head for a request that failed.
    fn from_failure(failure: &Failure) -> KeysHead {
        KeysHead { status: failure.code.status(), index: failure.index, raft: None }
    }

    /// The head for a request that succeeded when the store had this index.
    fn from_success(runtime: &Runtime, index: u64) -> KeysHead {
        KeysHead { status: 200, index, raft: Some(runtime.raft_position()) }
    }

    /// The head for a write that caused this event.
    fn from_event(runtime: &Runtime, event: &Event) -> KeysHead {
        let status = if event.is_created() { 201 } else { 200 };
        KeysHead { status, ..KeysHead::from_success(runtime, event.index()) }
    }
}

/// The parts of a request that its answer depends on.
pub(super) struct Asked {
    key: Box<str>,
    hides_nodes: bool,
    is_recursive: bool,
}

impl Asked {
    /// The parts of `request` that its answer depends on.
    pub fn of(request: &Request) -> Asked {
        let (hides_nodes, is_recursive) = match &request.ask {
            Ask::Write(write) => (write.hides_nodes, false),
            Ask::Get { is_recursive, .. } => (false, *is_recursive),
            Ask::Wait(_) | Ask::ReadAuth | Ask::WriteAuth(_) => (false, false),
        };
        Asked { key: request.key().text().into(), hides_nodes, is_recursive }
    }
}

/// The result of a request for a key.
pub(super) type KeysResult = Result<V2Result, CallRefused>;

/// The body of an answer about keys.
pub(super) enum KeysBody {
    /// The whole body.
    Whole(Bytes),
    /// The body in parts, as they are made.
    Lines(Lines),
}

/// Answers a request for a key. `room`, the memory counted for the request, is held until the
/// request has run; a wait frees it at once.
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
    let asked = Asked::of(&request);
    let result = run(runtime, site, (method, request), &asked).await;
    answer_with(runtime, shares, &asked, result).await
}

/// Runs a request for a key that is not a wait: at once if that is possible, else by the Front.
pub(super) async fn run(
    runtime: &Rc<Runtime>,
    site: &Site,
    (method, request): (&str, Request),
    asked: &Asked,
) -> KeysResult {
    if let Some(result) = runtime.get_v2(&request) {
        return Ok(result);
    }
    let (bytes, begun_at) = (request.bytes(), Instant::now());
    let mut line = begin_line(runtime, site, &request);
    let result = runtime.run_v2(request).await;
    line.iter_mut().for_each(|audited| audited.line.tell_v2(&result));
    let is_good = matches!(result, Ok(Ok(_)));
    runtime.slow.note_v2(method, &asked.key, bytes, (begun_at, is_good));
    result
}

/// Appends the JSON of an answer to `text`, and returns the head. `None`, and nothing is appended,
/// if the answer might be longer than `bytes` or is not a written or read key. `now_ms` is ms since
/// 1970.
pub(super) fn small(
    runtime: &Runtime,
    asked: &Asked,
    result: &KeysResult,
    (bytes, now_ms): (usize, i64),
    text: &mut Vec<u8>,
) -> Option<KeysHead> {
    let has_room = |kept: usize| text_bytes_max(kept) <= bytes;
    match result {
        Ok(Ok(V2Found::Written(event))) if has_room(event_bytes(event, asked.hides_nodes)) => {
            v2::write_event(event, asked.hides_nodes, text);
            Some(KeysHead::from_event(runtime, event))
        }
        Ok(Ok(V2Found::Node(Found { index, node })))
            if has_room(asked.key.len() + node.value().map_or(0, |value| value.len()))
                && v2::write_file(&asked.key, node, now_ms, text) =>
        {
            Some(KeysHead::from_success(runtime, *index))
        }
        _ => None,
    }
}

/// The answer for the result of a request for a key.
pub(super) async fn answer_with(
    runtime: &Runtime,
    shares: &ConnectionShares,
    asked: &Asked,
    result: KeysResult,
) -> KeysAnswer {
    match result {
        Ok(Ok(V2Found::Written(event))) => {
            let body = KeysBody::Whole(line(shares, &event, asked.hides_nodes).await);
            KeysAnswer { head: KeysHead::from_event(runtime, &event), body }
        }
        Ok(Ok(V2Found::Node(found))) => {
            listed(runtime, shares, (&asked.key, found), asked.is_recursive).await
        }
        Ok(Ok(V2Found::Auth(_) | V2Found::AuthDone(_))) => {
            unreachable!("the request is about a key")
        }
        Ok(Err(refusal)) => refused(shares, &refusal).await,
        Err(refused) => failed(&failure_of(refused)),
    }
}

/// Begins a line for the audit log. `None` if there is no audit log or the request does not write.
pub(super) fn begin_line(
    runtime: &Runtime,
    site: &Site,
    request: &Request,
) -> Option<Box<Audited>> {
    if !runtime.member.has_audit_log {
        return None;
    }
    let operation = Operation::from_v2(request)?;
    let client = AuditedClient::new(site.peer.ip());
    if let Some(user) = &request.user {
        client.set_user(user.clone());
    }
    Some(Audited::new(&client, operation))
}

/// The answer to a request that the store refuses. It may quote a stored value, so it waits for
/// memory.
pub(super) async fn refused(shares: &ConnectionShares, refusal: &Refusal) -> KeysAnswer {
    let room = room_for(shares, Failure::cause_bytes(refusal)).await;
    let failure = Failure::from(refusal);
    failed_with(&failure, roomy(failure.body(), room))
}

/// The answer to a request that failed.
pub(super) fn failed(failure: &Failure) -> KeysAnswer {
    failed_with(failure, failure.body().into())
}

fn failed_with(failure: &Failure, body: Bytes) -> KeysAnswer {
    KeysAnswer { head: KeysHead::from_failure(failure), body: KeysBody::Whole(body) }
}

/// The answer to a request that succeeded when the store had this index.
pub(super) fn succeeded(runtime: &Runtime, index: u64, body: KeysBody) -> KeysAnswer {
    KeysAnswer { head: KeysHead::from_success(runtime, index), body }
}

/// The longest JSON, in bytes, for keys and values of this many bytes.
fn text_bytes_max(bytes: usize) -> usize {
    V2_FRAME_BYTES.saturating_add(bytes.saturating_mul(V2_TEXT_TIMES))
}

/// How many bytes the keys and values in an event's JSON have. The key may occur twice.
fn event_bytes(event: &Event, hides_nodes: bool) -> usize {
    if hides_nodes { 0 } else { event.bytes() as usize + event.key.len() }
}

/// Waits for the memory for JSON with keys and values of this many bytes.
pub(super) async fn room_for(shares: &ConnectionShares, bytes: usize) -> Room {
    let bytes = text_bytes_max(bytes);
    let mut room = Room::new(shares.answers.of(bytes));
    room.grow_to(bytes).await;
    room
}

/// The text with the memory counted for it. The unused part of that memory is freed.
pub(super) fn roomy(text: Vec<u8>, mut room: Room) -> Bytes {
    room.shrink_to(text.capacity());
    Bytes::from_owner(Roomy { text, _room: room })
}

/// The JSON line of an event, once there is memory for it.
pub(super) async fn line(shares: &ConnectionShares, event: &Event, hides_nodes: bool) -> Bytes {
    let bytes = event_bytes(event, hides_nodes);
    let room = room_for(shares, bytes).await;
    let mut text = Vec::with_capacity(V2_FRAME_BYTES + bytes);
    v2::write_event(event, hides_nodes, &mut text);
    roomy(text, room)
}

/// The answer that shows a node: whole if it is small, else in pieces.
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
    // The listing begins again once it has all its memory, so it holds none while it waits.
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

/// Sends a listing in pieces, and returns whether all was sent. Before the first piece, it waits
/// until memory is available for the pieces under way and for all the nodes; the nodes count
/// because they may have been changed or deleted since, so that only this listing keeps them in
/// memory. If it waited for the memory of each piece instead, it could wait behind others that wait
/// for the memory of this listing. While others wait for memory, a client is disconnected if it
/// takes nothing, or takes the whole listing too slowly.
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
