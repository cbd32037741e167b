//! etcd v2 over HTTP/1.1: keys here and in [`waits`], members and statistics in [`members`].
//!
//! ```text
//! path, query, form -> etcd::v2 (a request, or an error) -> the Front -> what the store answers
//!   -> etcd::v2 (JSON), a large listing in pieces -> the client
//! ```
//!
//! Source: `etcdserver/api/v2http` of etcd 3.4.

mod members;
mod waits;

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use etcd::Error;
use etcd::v2::{self, Ask, Code, Failure, Form, Listing, Request, Verb};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use machine::etcd_v2::event::Event;
use machine::etcd_v2::query::Found;
use member::etcd_front::{CallRefused, V2Found};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::answer::{Answer, Lines, Roomy, code_and_text, of};
use super::audit::{Audited, AuditedClient, Operation};
use super::body::read_body;
use super::client::Site;
use super::limits::{FORM_TIMES, V2_PIECE_BYTES, V2_PIECES_ON_THEIR_WAY, WAITED_TIME_MAX};
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
    let raw = parts.uri.path();
    if !v2::is_plain(raw) {
        let Ok(path) = v2::decoded(raw.as_bytes(), false).map(String::from_utf8) else {
            return of(StatusCode::BAD_REQUEST, PLAIN_TEXT, "400 Bad Request".to_string());
        };
        // A path that is no UTF-8 can only be that of a key, which refuses it.
        let path = path.unwrap_or_else(|_| raw.to_string());
        let clean = v2::clean(&path);
        if clean != path {
            return redirect(&clean, parts);
        }
    }
    let of_keys = raw.strip_prefix(v2::KEYS);
    match of_keys.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(key) => {
            let answer = answer_of_keys(runtime, (shares, site), (parts, key), body).await;
            with_cluster_id(runtime, answer)
        }
        None => {
            let answer = members::answer(runtime, shares, (parts, raw), body).await;
            answer.unwrap_or_else(not_found)
        }
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
    // The room of the request stays until it is answered.
    let mut room = Room::new(shares.requests.of(usize::MAX));
    let request = match form(runtime, verb, parts, body, &mut room).await {
        Ok(form) => Request::new(verb, key, form),
        Err(failure) => Err(failure),
    };
    let request = match request {
        Ok(request) => request,
        Err(failure) => return failed(&failure),
    };
    room.shrink_to(request.bytes());
    if matches!(request.ask, Ask::Wait(_)) {
        drop(room);
        return waits::answer(runtime, shares, request).await;
    }
    let key: Box<str> = request.key().text().into();
    let (hides_nodes, is_recursive) = match &request.ask {
        Ask::Write(write) => (write.hides_nodes, false),
        Ask::Get { is_recursive, .. } => (false, *is_recursive),
        Ask::Wait(_) => (false, false),
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
        Ok(Err(refusal)) => failed(&Failure::from(&refusal)),
        Err(refused) => failed(&failure_of(refused)),
    }
}

/// Begins a line of the audit log, if there is a log and the request writes.
fn begin_line(runtime: &Runtime, site: &Site, request: &Request) -> Option<Box<Audited>> {
    if !runtime.member.has_audit_log {
        return None;
    }
    let operation = Operation::of_v2(request)?;
    Some(Audited::new(&AuditedClient::new(site.peer.ip()), operation))
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

fn failed(failure: &Failure) -> Answer {
    let status = StatusCode::from_u16(failure.code.status());
    let mut answer = Response::new(Either::Left(Full::new(failure.body().into())));
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

/// A text with its room.
async fn roomy(shares: &ConnectionShares, text: Vec<u8>) -> Bytes {
    let mut room = Room::new(shares.answers.of(text.len()));
    room.grow_to(text.len()).await;
    Bytes::from_owner(Roomy { text, _room: room })
}

/// The line of an event.
async fn line(shares: &ConnectionShares, event: &Event, hides_nodes: bool) -> Bytes {
    let mut text = Vec::with_capacity(256 + event.bytes() as usize);
    v2::write_event(event, hides_nodes, &mut text);
    roomy(shares, text).await
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
    let kept_bytes = usize::try_from(node.below().bytes).unwrap_or(usize::MAX);
    let mut listing = Listing::new(key, node, is_recursive, node::wall_ms());
    let mut text = Vec::new();
    let has_more = listing.write(V2_PIECE_BYTES, &mut text);
    if !has_more {
        let text = roomy(shares, text).await;
        return succeeded(runtime, index, Either::Left(Full::new(text)));
    }
    let (lines, body) = mpsc::channel(1);
    let (shares, is_whole) = (shares.clone(), Rc::new(Cell::new(false)));
    let body = Lines::of_one(body, is_whole.clone());
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = lines.closed() => {}
            is_sent = send_pieces(listing, text, &shares, kept_bytes, &lines) => {
                is_whole.set(is_sent);
            }
        }
    });
    succeeded(runtime, index, Either::Right(body))
}

/// Sends a listing in pieces. The nodes that it shares may be in no other state any more, so it
/// takes room for them, and for the pieces on their way, before it sends the first one: if it took
/// room for each piece, it could wait behind others who wait for its own. A client that takes
/// nothing while others wait for room is cut off. Whether all was sent.
async fn send_pieces(
    mut listing: Listing,
    mut text: Vec<u8>,
    shares: &ConnectionShares,
    kept_bytes: usize,
    lines: &mpsc::Sender<Bytes>,
) -> bool {
    let bytes = kept_bytes.saturating_add(V2_PIECES_ON_THEIR_WAY * V2_PIECE_BYTES);
    let mut kept = Room::new(shares.answers.of(bytes));
    kept.grow_to(bytes).await;
    let mut has_more = true;
    loop {
        if !send_while_wanted(lines, text.into(), &kept).await {
            return false;
        }
        if !has_more {
            return true;
        }
        text = Vec::new();
        has_more = listing.write(V2_PIECE_BYTES, &mut text);
    }
}

/// Sends a piece. False if the client is gone, or takes nothing while others wait for its room.
async fn send_while_wanted(lines: &mpsc::Sender<Bytes>, piece: Bytes, kept: &Room) -> bool {
    let mut sending = pin!(lines.send(piece));
    loop {
        match timeout(WAITED_TIME_MAX, &mut sending).await {
            Ok(sent) => return sent.is_ok(),
            Err(_) if kept.is_waited_for() => return false,
            Err(_) => {}
        }
    }
}
