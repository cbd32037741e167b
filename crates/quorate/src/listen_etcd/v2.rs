//! etcd v2 over HTTP/1.1: keys here and in [`waits`], members and statistics in [`members`].
//!
//! ```text
//! path, query, form -> etcd::v2 (a request, or an error) -> the Front -> what the store answers
//!   -> etcd::v2 (JSON), a large listing in pieces -> the client
//! ```
//!
//! Source: `etcdserver/api/v2http` of etcd 3.4.

mod auth;
pub(super) mod clients;
mod members;
mod waits;

use std::borrow::Cow;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use etcd::Error;
use etcd::v2::{self, Ask, Code, Failure, Form, Listing, Request, Verb};
use http_body_util::{Either, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use machine::etcd_v2::event::Event;
use machine::etcd_v2::query::Found;
use machine::etcd_v2::reply::Refusal;
use member::etcd_front::{CallRefused, V2Found};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use clients::V2Client;

use super::answer::{Answer, Lines, Roomy, code_and_text, of};
use super::audit::{Audited, AuditedClient, Operation};
use super::body::read_body;
use super::client::Site;
use super::limits::{
    FINISH_TIME_MAX, FORM_TIMES, STALL_TIME_MAX, V2_FRAME_BYTES, V2_PIECE_BYTES,
    V2_PIECES_ON_THEIR_WAY, V2_TEXT_TIMES, WAITED_TIME_MAX,
};
use super::routes::{PLAIN_TEXT, not_found};
use super::runtime::{ConnectionShares, Runtime};
use crate::grpc::Room;

const X_ETCD_CLUSTER_ID: HeaderName = HeaderName::from_static("x-etcd-cluster-id");
const X_ETCD_INDEX: HeaderName = HeaderName::from_static("x-etcd-index");
const X_RAFT_INDEX: HeaderName = HeaderName::from_static("x-raft-index");
const X_RAFT_TERM: HeaderName = HeaderName::from_static("x-raft-term");

/// The headers of an answer about keys, with room for those of the library.
const HEADERS: usize = 12;

/// Whether a path is one of etcd v2, or is redirected there.
pub(super) fn is_path(path: &str) -> bool {
    // Nearly all are clean, and have no escapes before the key.
    path.starts_with("/v2/") || v2::clean(path).starts_with("/v2/")
}

/// Answers a request whose path [`is_path`].
pub(super) async fn answer(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    parts: &Parts,
    body: Incoming,
) -> Answer {
    let path = match plain_path(parts) {
        Ok(path) => path,
        Err(answer) => return *answer,
    };
    let of_keys = path.strip_prefix(v2::KEYS);
    match of_keys.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(key) => {
            let answer = answer_of_keys(runtime, (shares, site), (parts, key), body).await;
            with_cluster_id(runtime, answer)
        }
        None => {
            let answer = match path.strip_prefix("/v2/auth/") {
                Some(rest) => auth::answer(runtime, (shares, site), (parts, rest), body).await,
                None => members::answer(runtime, (shares, site), (parts, &path), body).await,
            };
            answer.unwrap_or_else(not_found)
        }
    }
}

/// The path of a request, with escapes only where they must be. An error is the answer to a request
/// for a path that is not clean, or malformed.
fn plain_path(parts: &Parts) -> Result<Cow<'_, str>, Box<Answer>> {
    let raw = parts.uri.path();
    if v2::is_plain(raw) {
        return Ok(raw.into());
    }
    let Ok(bytes) = v2::decoded(raw.as_bytes(), false) else {
        let text = "400 Bad Request".to_string();
        return Err(Box::new(of(StatusCode::BAD_REQUEST, PLAIN_TEXT, text)));
    };
    // A path that is no UTF-8 can only be that of a key, which refuses it.
    let Ok(path) = String::from_utf8(bytes) else { return Ok(raw.into()) };
    let clean = v2::clean(&path);
    match clean == path {
        true => Ok(v2::escaped(&path).into()),
        false => Err(Box::new(redirect(&clean, parts))),
    }
}

/// The answer to a request for a path that is not clean (Go's `http.ServeMux`).
fn redirect(clean: &str, parts: &Parts) -> Answer {
    let query = parts.uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let location = format!("{}{query}", v2::escaped(clean));
    let mut answer = Response::new(Either::Left(Full::default()));
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(&location) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

fn with_cluster_id(runtime: &Rc<Runtime>, mut answer: Answer) -> Answer {
    answer.headers_mut().insert(X_ETCD_CLUSTER_ID, runtime.member.v2_cluster_id.clone());
    answer
}

fn not_allowed(methods: &'static str) -> Answer {
    let mut answer =
        of(StatusCode::METHOD_NOT_ALLOWED, PLAIN_TEXT, "Method Not Allowed\n".to_string());
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

async fn answer_of_keys(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    (parts, key): (&Parts, &str),
    body: Incoming,
) -> Answer {
    let Some(verb) = Verb::of(parts.method.as_str()) else { return not_allowed(Verb::ALLOWED) };
    // The room of the request stays until it is answered. A body without an announced length may
    // have any.
    let announced = body.size_hint().exact().map_or(usize::MAX, |bytes| bytes as usize);
    let mut room = Room::new(shares.requests.of(announced));
    let request = match form(runtime, verb, parts, body, &mut room).await {
        Ok(form) => Request::new(verb, key, form),
        Err(failure) => Err(failure),
    };
    let mut request = match request {
        Ok(request) => request,
        Err(failure) => return failed(&failure),
    };
    if clients::is_named(&parts.headers, site) {
        request.user = match user(runtime, parts, site).await {
            Ok(user) => user,
            Err(failure) => return failed(&failure),
        };
    }
    room.shrink_to(request.bytes());
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
    runtime.slow.note_v2(parts.method.as_str(), &key, bytes, (begun_at, is_good));
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

/// The user of a request that names one, while permissions are enforced.
async fn user(
    runtime: &Rc<Runtime>,
    parts: &Parts,
    site: &Site,
) -> Result<Option<Arc<str>>, Failure> {
    let auth = clients::auth_of(runtime).await.map_err(failure_of)?;
    match clients::client_of(runtime, &auth, &parts.headers, site).await.map_err(failure_of)? {
        V2Client::Wrong => Err((&Refusal::UNAUTHORIZED).into()),
        client => Ok(client.user()),
    }
}

/// Begins a line of the audit log, if there is a log and the request writes.
fn begin_line(runtime: &Runtime, site: &Site, request: &Request) -> Option<Box<Audited>> {
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

/// The parameters of a request: of its form, and of its query.
async fn form(
    runtime: &Rc<Runtime>,
    verb: Verb,
    parts: &Parts,
    body: Incoming,
    room: &mut Room,
) -> Result<Form, Failure> {
    let mut form = Form::default();
    let bad = |why: String| Failure::new(Code::InvalidForm, why);
    if verb.has_form() && is_form(parts) {
        let bytes_max = runtime.member.config.request_bytes_max * FORM_TIMES;
        let Some(body) = read_body(body, room, bytes_max).await else {
            return Err(bad(format!(
                "the form is larger than {bytes_max} bytes, too slow, or cut off"
            )));
        };
        form.add(&body).map_err(|error| bad(error.to_string()))?;
    }
    let query = parts.uri.query().unwrap_or_default();
    form.add(query.as_bytes()).map_err(|error| bad(error.to_string()))?;
    Ok(form)
}

/// Whether the body of a request is a form. As in Go, any other is ignored.
fn is_form(parts: &Parts) -> bool {
    let media_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or_default().split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// An error for a request that the store has not answered.
fn failure_of(refused: CallRefused) -> Failure {
    let (_, text) = code_and_text(refused);
    let code = match refused {
        CallRefused::Error(Error::RequestTooLarge) => Code::InvalidForm,
        _ => Code::RaftInternal,
    };
    Failure::new(code, text)
}

/// The answer to a request that the store refuses. The cause may be the text of a value.
async fn refused(shares: &ConnectionShares, refusal: &Refusal) -> Answer {
    let room = room_for(shares, Failure::cause_bytes(refusal)).await;
    let failure = Failure::from(refusal);
    failed_with(&failure, roomy(failure.body(), room))
}

fn failed(failure: &Failure) -> Answer {
    failed_with(failure, failure.body().into())
}

fn failed_with(failure: &Failure, body: Bytes) -> Answer {
    let status = StatusCode::from_u16(failure.code.status());
    let mut answer = Response::new(Either::Left(Full::new(body)));
    *answer.status_mut() = status.unwrap_or(StatusCode::BAD_REQUEST);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(v2::CONTENT_TYPE));
    headers.insert(X_ETCD_INDEX, failure.index.into());
    answer
}

/// The answer to a request that succeeded, at this index of the store.
fn succeeded(runtime: &Rc<Runtime>, index: u64, body: Either<Full<Bytes>, Lines>) -> Answer {
    let (raft_index, raft_term) = runtime.raft_position();
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    // With those of every answer there are eight, more than a map of headers begins with.
    headers.reserve(HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(v2::CONTENT_TYPE));
    headers.insert(X_ETCD_INDEX, index.into());
    headers.insert(X_RAFT_INDEX, raft_index.into());
    headers.insert(X_RAFT_TERM, raft_term.into());
    answer
}

/// Waits for the room of a text that shows keys and values of so many bytes.
async fn room_for(shares: &ConnectionShares, bytes: usize) -> Room {
    let bytes = V2_FRAME_BYTES.saturating_add(bytes.saturating_mul(V2_TEXT_TIMES));
    let mut room = Room::new(shares.answers.of(bytes));
    room.grow_to(bytes).await;
    room
}

/// A text with its room, of which it gives back what it does not need.
fn roomy(text: Vec<u8>, mut room: Room) -> Bytes {
    room.shrink_to(text.capacity());
    Bytes::from_owner(Roomy { text, _room: room })
}

/// The line of an event.
async fn line(shares: &ConnectionShares, event: &Event, hides_nodes: bool) -> Bytes {
    let bytes = if hides_nodes { 0 } else { event.bytes() as usize };
    let room = room_for(shares, bytes).await;
    let mut text = Vec::with_capacity(V2_FRAME_BYTES + bytes);
    v2::write_event(event, hides_nodes, &mut text);
    roomy(text, room)
}

async fn written(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    event: &Event,
    hides_nodes: bool,
) -> Answer {
    let line = line(shares, event, hides_nodes).await;
    let mut answer = succeeded(runtime, event.index(), Either::Left(Full::new(line)));
    if event.is_created() {
        *answer.status_mut() = StatusCode::CREATED;
    }
    answer
}

/// The answer with a node: whole if it is small, else in pieces.
async fn listed(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    (key, found): (&str, Found),
    is_recursive: bool,
) -> Answer {
    let Found { index, node } = found;
    let below_bytes = usize::try_from(node.below().bytes).unwrap_or(usize::MAX);
    let kept_bytes = below_bytes.saturating_add(node.value().map_or(0, |value| value.len()));
    let room = room_for(shares, key.len() + kept_bytes.min(V2_PIECE_BYTES)).await;
    let begin = || Listing::new(key, node.clone(), is_recursive, node::wall_ms());
    let mut text = Vec::new();
    if !begin().write(V2_PIECE_BYTES, &mut text) {
        return succeeded(runtime, index, Either::Left(Full::new(roomy(text, room))));
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
    succeeded(runtime, index, Either::Right(body))
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
async fn send_while_wanted(lines: &mpsc::Sender<Bytes>, part: Bytes, room: &Room) -> bool {
    let mut sending = pin!(lines.send(part));
    loop {
        match timeout(WAITED_TIME_MAX, &mut sending).await {
            Ok(sent) => return sent.is_ok(),
            Err(_) if room.is_waited_for() => return false,
            Err(_) => {}
        }
    }
}
