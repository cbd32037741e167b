//! HTTP/1.1 on the port of etcd's clients: the JSON gateway, `/version` and `/health`. Sources:
//! `embed/serve.go` and `api/etcdhttp` of etcd 3.6; the crate `etcd` has the gateway's own rules.

use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use etcd::gateway;
use etcd::limits::JSON_BYTES_MAX_DEFAULT;
use etcd::pb::{Message, etcdserverpb as pb};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use member::etcd_front::{CallRefused, Method as KvMethod, Reply};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use super::ETCD_VERSION;
use super::concurrency::{self, Observer};
use super::gateway_stream::{self, Lines};
use super::limits::{
    BODY_TIMES, HTTP_HEAD_BYTES_MAX, HTTP_HEADERS_MAX, JSON_TIMES, STALL_TIME_MAX, WAITED_TIME_MAX,
};
use super::methods::ConcurrencyMethod;
use super::runtime::{ConnectionShares, Runtime};
use crate::grpc::Room;

type Answer = Response<Either<Full<Bytes>, Lines>>;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// The gRPC path of a stream of watches.
const WATCH_PATH: &str = "/etcdserverpb.Watch/Watch";

/// The gRPC path of a stream of keep-alives.
const KEEP_ALIVE_PATH: &str = "/etcdserverpb.Lease/LeaseKeepAlive";

/// The version of all members, and of the storage, as etcd shows them: without the patch.
const CLUSTER_VERSION: &str = "3.6.0";

/// Serves a connection until it ends.
///
/// # Errors
/// The client does not speak HTTP/1.1, or the connection breaks.
pub(super) async fn serve<S>(
    socket: S,
    runtime: Rc<Runtime>,
    shares: ConnectionShares,
) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(|request| {
        let (runtime, shares) = (runtime.clone(), shares.clone());
        async move { Ok::<Answer, Infallible>(answer(&runtime, &shares, request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(STALL_TIME_MAX)
        .max_buf_size(HTTP_HEAD_BYTES_MAX)
        .max_headers(HTTP_HEADERS_MAX)
        .serve_connection(TokioIo::new(socket), service)
        .await?;
    Ok(())
}

async fn answer(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    request: Request<Incoming>,
) -> Answer {
    let path = request.uri().path().to_string();
    if gateway::PREFIXES.iter().any(|prefix| path.starts_with(prefix)) {
        return call(runtime, shares, &path, request).await;
    }
    match path.as_str() {
        "/version" if is_read(&request) => {
            let storage = format!("\"storage\":\"{CLUSTER_VERSION}\"");
            let versions =
                format!("\"etcdserver\":\"{ETCD_VERSION}\",\"etcdcluster\":\"{CLUSTER_VERSION}\"");
            of(StatusCode::OK, gateway::CONTENT_TYPE, format!("{{{versions},{storage}}}"))
        }
        "/health" if is_read(&request) => health(runtime, request.uri().query()).await,
        "/version" | "/health" => {
            let text = "Method Not Allowed\n".to_string();
            let mut refused = of(StatusCode::METHOD_NOT_ALLOWED, PLAIN_TEXT, text);
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            refused
        }
        _ => of(StatusCode::NOT_FOUND, PLAIN_TEXT, "404 page not found\n".to_string()),
    }
}

fn is_read(request: &Request<Incoming>) -> bool {
    *request.method() == Method::GET
}

/// Runs a call of the gateway.
async fn call(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    path: &str,
    request: Request<Incoming>,
) -> Answer {
    let method = match gateway::route(request.method().as_str(), path) {
        Ok(method) => method,
        Err(no_route) => return refused(no_route.code(), no_route.text()),
    };
    if [WATCH_PATH, KEEP_ALIVE_PATH].contains(&method.path) {
        let body = request.into_body();
        return streaming(match method.path {
            WATCH_PATH => gateway_stream::watch(runtime, shares, method, body),
            _ => gateway_stream::keep_alive(runtime, shares, method, body),
        });
    }
    // A body without an announced length may have any.
    let announced = request.body().size_hint().exact().map_or(usize::MAX, |bytes| bytes as usize);
    let mut room = Room::new(shares.requests.of(announced));
    let Some(body) = read_body(request.into_body(), &mut room).await else {
        return refused(etcd::Code::InvalidArgument, "the body is too large, too slow, or cut off");
    };
    let message = match method.request(&body) {
        Ok(message) => message,
        Err(bad) => return refused(etcd::Code::InvalidArgument, &bad.to_string()),
    };
    drop(body);
    room.shrink_to(message.len());
    if let Some(of_concurrency) = ConcurrencyMethod::at(method.path) {
        return concurrent(runtime, shares, (method, of_concurrency), message.into()).await;
    }
    let Some(kv_method) = kv_method(method.path) else {
        return refused(etcd::Code::Unimplemented, "this call is not served yet");
    };
    match runtime.run(kv_method, message.into()).await {
        Ok(reply) => {
            let bytes = reply.bytes().saturating_mul(JSON_TIMES);
            let mut room = Room::new(shares.answers.of(bytes));
            room.grow_to(bytes).await;
            match method.response(&encoded(&reply)) {
                Ok(json) => of_large(json, room),
                Err(bad) => refused(etcd::Code::Internal, &bad.to_string()),
            }
        }
        Err(why) => {
            let (code, text) = code_and_text(why);
            refused(code, text)
        }
    }
}

/// The answer whose body is a stream of lines.
fn streaming(lines: Lines) -> Answer {
    let mut answer = of(StatusCode::OK, gateway::CONTENT_TYPE, String::new());
    *answer.body_mut() = Either::Right(lines);
    answer
}

/// Runs a call of the services of locks and elections.
async fn concurrent(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    (method, of_concurrency): (&'static gateway::Method, ConcurrencyMethod),
    message: Bytes,
) -> Answer {
    if of_concurrency == ConcurrencyMethod::Observe {
        return match Observer::new(runtime, message) {
            Ok(observer) => streaming(gateway_stream::observe(shares, method, observer)),
            Err(status) => refused(etcd::Code::Unknown, &status.message),
        };
    }
    match concurrency::run(runtime, of_concurrency, message).await {
        Ok(response) => {
            let mut room = Room::new(shares.answers.of(response.len() * JSON_TIMES));
            room.grow_to(response.len() * JSON_TIMES).await;
            match method.response(&response) {
                Ok(json) => of_large(json, room),
                Err(bad) => refused(etcd::Code::Internal, &bad.to_string()),
            }
        }
        Err(status) => refused(etcd::Code::Unknown, &status.message),
    }
}

/// The code and the text for a call without a response.
pub(super) fn code_and_text(refused: CallRefused) -> (etcd::Code, &'static str) {
    match refused {
        CallRefused::Error(error) => (error.code(), error.text()),
        CallRefused::Malformed => (etcd::Code::Internal, "the request is malformed"),
        CallRefused::Unimplemented(text) => (etcd::Code::Unimplemented, text),
    }
}

/// Reads a body. Its room grows as it arrives, so an announced body takes none. None if the body is
/// too large or cut off, or comes too slowly.
async fn read_body(mut body: Incoming, room: &mut Room) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let due_at = Instant::now() + STALL_TIME_MAX;
    while let Some(frame) = next_frame(&mut body, room, due_at).await? {
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > JSON_BYTES_MAX_DEFAULT {
            return None;
        }
        timeout_at(due_at, room.grow_to(length * BODY_TIMES)).await.ok()?;
        bytes.extend_from_slice(&data);
    }
    Some(bytes)
}

/// The next frame of a body; the inner none is the end. The wait is shorter while other clients
/// wait for the room of the body.
pub(super) async fn next_frame(
    body: &mut Incoming,
    room: &Room,
    due_at: Instant,
) -> Option<Option<Frame<Bytes>>> {
    loop {
        let look_at = due_at.min(Instant::now() + WAITED_TIME_MAX);
        match timeout_at(look_at, body.frame()).await {
            Ok(frame) => return frame.transpose().ok(),
            Err(_) if Instant::now() >= due_at || room.is_waited_for() => return None,
            Err(_) => {}
        }
    }
}

fn encoded(reply: &Reply) -> Vec<u8> {
    let mut message = Vec::new();
    reply.write(&mut message);
    message
}

/// The method with that gRPC path; none if it is not served.
fn kv_method(path: &str) -> Option<KvMethod> {
    Some(match path.strip_prefix("/etcdserverpb.")? {
        "KV/Range" => KvMethod::Range,
        "KV/Put" => KvMethod::Put,
        "KV/DeleteRange" => KvMethod::DeleteRange,
        "KV/Txn" => KvMethod::Txn,
        "KV/Compact" => KvMethod::Compact,
        "Lease/LeaseGrant" => KvMethod::LeaseGrant,
        "Lease/LeaseRevoke" => KvMethod::LeaseRevoke,
        "Lease/LeaseTimeToLive" => KvMethod::LeaseTimeToLive,
        "Lease/LeaseLeases" => KvMethod::LeaseLeases,
        _ => return None,
    })
}

/// `etcdhttp.checkHealth`: whether a read is answered. The read is linearizable unless the client
/// asks for a serializable one.
async fn health(runtime: &Rc<Runtime>, query: Option<&str>) -> Answer {
    let serializable = query.unwrap_or_default().split('&').any(|pair| pair == "serializable=true");
    let request = pb::RangeRequest { key: "health".into(), serializable, ..Default::default() };
    match runtime.run(KvMethod::Range, request.encode_to_vec().into()).await {
        Ok(_) => {
            let healthy = "{\"health\":\"true\",\"reason\":\"\"}".to_string();
            of(StatusCode::OK, PLAIN_TEXT, healthy)
        }
        Err(why) => {
            let (_, text) = code_and_text(why);
            let ill = format!("{{\"health\":\"false\",\"reason\":\"RANGE ERROR:{text}\"}}");
            of(StatusCode::SERVICE_UNAVAILABLE, PLAIN_TEXT, ill)
        }
    }
}

fn refused(code: etcd::Code, text: &str) -> Answer {
    let status = StatusCode::from_u16(gateway::http_status(code));
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    of(status, gateway::CONTENT_TYPE, gateway::error_body(code, text))
}

/// The text of a response and its room, until the socket has taken the text.
pub(super) struct Roomy {
    pub text: String,
    pub _room: Room,
}

impl AsRef<[u8]> for Roomy {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// An answer with a text that may be large, and its room.
fn of_large(text: String, mut room: Room) -> Answer {
    room.shrink_to(text.capacity());
    let mut answer = of(StatusCode::OK, gateway::CONTENT_TYPE, String::new());
    *answer.body_mut() = Either::Left(Full::new(Bytes::from_owner(Roomy { text, _room: room })));
    answer
}

fn of(status: StatusCode, media_type: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(Bytes::from(text))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}
