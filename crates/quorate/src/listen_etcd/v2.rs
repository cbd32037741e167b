//! The etcd v2 protocol over HTTP. This module reads requests; [`short`] does so for short ones
//! over HTTP/1.1 without the HTTP library. [`keys`] and [`waits`] answer requests for keys,
//! [`auth`] those for users, [`members`] those for members and statistics.
//!
//! ```text
//! path, query, form -> etcd::v2 (a request, or an error) -> the Front -> what the store answers
//!   -> etcd::v2 (JSON), a large listing in pieces -> the client
//! ```
//!
//! Source: `etcdserver/api/v2http` of etcd 3.4.

mod auth;
mod clients;
mod keys;
mod members;
pub(super) mod proven;
pub(super) mod short;
mod waits;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use etcd::v2::{self, Code, Failure, Form, Request, Verb};
use http_body_util::{Either, Full};
use hyper::body::Body;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use member::fronts::etcd::v2::clients::{Presented, UserSearch, UserStep};

use grpc::Room;
use keys::{KeysAnswer, KeysBody, KeysHead};

use super::answer::{Answer, of};
use super::body::{WebBody, read_body};
use super::client::Site;
use super::limits::FORM_TIMES;
use super::routes::{PLAIN_TEXT, not_found};
use super::runtime::{ConnectionShares, Runtime};

const X_ETCD_CLUSTER_ID: HeaderName = HeaderName::from_static("x-etcd-cluster-id");
const X_ETCD_INDEX: HeaderName = HeaderName::from_static("x-etcd-index");
const X_RAFT_INDEX: HeaderName = HeaderName::from_static("x-raft-index");
const X_RAFT_TERM: HeaderName = HeaderName::from_static("x-raft-term");

/// How many headers an answer about keys may have, those that the HTTP library adds included.
const HEADERS: usize = 12;

/// Whether this path belongs to etcd v2, or is redirected to a path that does.
pub(super) fn is_path(path: &str) -> bool {
    // Nearly all paths are in their shortest form and have no escapes at their beginning.
    path.starts_with("/v2/") || v2::clean(path).starts_with("/v2/")
}

/// Answers a request whose path satisfies [`is_path`].
pub(super) async fn answer(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    parts: &Parts,
    body: WebBody,
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

/// The path of a request, escaped only where necessary.
///
/// # Errors
/// The response to a path that is malformed or not in its shortest form.
fn plain_path(parts: &Parts) -> Result<Cow<'_, str>, Box<Answer>> {
    let raw = parts.uri.path();
    if v2::is_plain(raw) {
        return Ok(raw.into());
    }
    let Ok(bytes) = v2::decoded(raw.as_bytes(), false) else {
        let text = "400 Bad Request".to_string();
        return Err(Box::new(of(StatusCode::BAD_REQUEST, PLAIN_TEXT, text)));
    };
    // Only the path of a key can be other than UTF-8; the code for keys refuses it.
    let Ok(path) = String::from_utf8(bytes) else { return Ok(raw.into()) };
    let clean = v2::clean(&path);
    match clean == path {
        true => Ok(v2::escaped(&path).into()),
        false => Err(Box::new(redirect(&clean, parts))),
    }
}

/// The response that redirects to the shortest form of a path (Go's `http.ServeMux`).
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
    body: WebBody,
) -> Answer {
    let method = parts.method.as_str();
    let Some(verb) = Verb::of(method) else { return not_allowed(Verb::ALLOWED) };
    // A body without an announced length counts as a large one.
    let announced = body.size_hint().exact().map_or(usize::MAX, |bytes| bytes as usize);
    let mut room = Room::new(shares.requests.of(announced));
    let request = match form(runtime, verb, parts, body, &mut room).await {
        Ok(form) => Request::new(verb, key, form),
        Err(failure) => Err(failure),
    };
    let mut request = match request {
        Ok(request) => request,
        Err(failure) => return keys::failed(&failure).into(),
    };
    let presented = clients::presented(&parts.headers, site);
    if presented.is_named() {
        request.user = match user(runtime, site, presented).await {
            Ok(user) => user,
            Err(failure) => return keys::failed(&failure).into(),
        };
    }
    room.shrink_to(request.bytes());
    keys::answer(runtime, (shares, site), (method, request), room).await.into()
}

impl From<KeysAnswer> for Answer {
    fn from(answer: KeysAnswer) -> Answer {
        let body = match answer.body {
            KeysBody::Whole(bytes) => Either::Left(Full::new(bytes)),
            KeysBody::Lines(lines) => Either::Right(lines),
        };
        let mut http = Response::new(body);
        let KeysHead { status, index, raft } = answer.head;
        *http.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        let headers = http.headers_mut();
        // With the headers of every answer there are eight, more than a header map has space for at
        // first.
        headers.reserve(HEADERS);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(v2::CONTENT_TYPE));
        headers.insert(X_ETCD_INDEX, index.into());
        if let Some((raft_index, raft_term)) = raft {
            headers.insert(X_RAFT_INDEX, raft_index.into());
            headers.insert(X_RAFT_TERM, raft_term.into());
        }
        http
    }
}

/// The user that a request names, with password or certificate; `None` while permissions are not
/// enforced.
async fn user(
    runtime: &Rc<Runtime>,
    site: &Site,
    presented: Presented,
) -> Result<Option<Arc<str>>, Failure> {
    let mut step = UserSearch::begin(presented);
    loop {
        step = match step {
            UserStep::Work(search, work) => search.on_done(clients::run(runtime, site, work).await),
            UserStep::Found(user) => return Ok(user),
            UserStep::Failed(failure) => return Err(failure),
        };
    }
}

/// The parameters of a request, from its form and its query.
async fn form(
    runtime: &Runtime,
    verb: Verb,
    parts: &Parts,
    body: WebBody,
    room: &mut Room,
) -> Result<Form, Failure> {
    let mut read = Vec::new();
    if verb.has_form() && is_form(parts) {
        let bytes_max = form_bytes_max(runtime);
        read = read_body(body, room, bytes_max).await.ok_or_else(|| not_read(runtime))?;
    }
    parameters(&read, parts.uri.query().unwrap_or_default())
}

/// The longest form that a request may have as its body, in bytes.
fn form_bytes_max(runtime: &Runtime) -> usize {
    runtime.member.config.request_bytes_max * FORM_TIMES
}

/// The error for a form that is too long, too slow, or cut off.
fn not_read(runtime: &Runtime) -> Failure {
    let bytes_max = form_bytes_max(runtime);
    let why = format!("the form is larger than {bytes_max} bytes, too slow, or cut off");
    Failure::new(Code::InvalidForm, why)
}

/// The parameters of a form, which may be empty, and of a query.
fn parameters(form: &[u8], query: &str) -> Result<Form, Failure> {
    let mut all = Form::default();
    let added = all.add(form).and_then(|()| all.add(query.as_bytes()));
    added.map_err(|error| Failure::new(Code::InvalidForm, error.to_string()))?;
    Ok(all)
}

/// Whether the body of the request is a form. As in Go, any other body is ignored.
fn is_form(parts: &Parts) -> bool {
    let media_type = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    is_form_type(media_type.unwrap_or_default())
}

/// Whether this media type is that of a form.
fn is_form_type(media_type: &[u8]) -> bool {
    let media_type = media_type.split(|byte| *byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}
