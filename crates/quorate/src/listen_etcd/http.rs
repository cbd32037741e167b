//! HTTP on etcd's client ports: routes requests to the JSON gateway, to etcd v2, or to the other
//! routes (health, metrics, version). Source: `embed/serve.go` of etcd 3.6. The crate `etcd` has
//! the rules of the gateway itself.

use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use config::etcd::EtcdService;
use etcd::{Error, gateway};
use grpc::{Exchange, Room};
use grpc_code::Code;
use http_body_util::{Either, Full};
use hyper::body::{Body, Incoming};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::answer::{Answer, LATE, of_large, refused, refused_stream, streaming};
use super::backup::Download;
use super::begun::Begun;
use super::body::{RequestBody, WebBody, read_body};
use super::client::{CallingClient, Site};
use super::concurrency::{self, Observer};
use super::gateway_stream;
use super::large;
use super::limits::{HTTP_HEAD_BYTES_MAX, HTTP_HEADERS_MAX, JSON_TIMES, STALL_TIME_MAX};
use super::methods::{ConcurrencyMethod, unary_of_front};
use super::routes;
use super::runtime::{ConnectionShares, Runtime};
use super::v2::{self, short};
use super::websocket;
use crate::foreign_pages;

/// The gRPC path of the watch stream.
const WATCH_PATH: &str = "/etcdserverpb.Watch/Watch";

/// The gRPC path of the keep-alive stream.
const KEEP_ALIVE_PATH: &str = "/etcdserverpb.Lease/LeaseKeepAlive";

/// The gRPC path of a backup.
const SNAPSHOT_PATH: &str = "/etcdserverpb.Maintenance/Snapshot";

/// Serves an HTTP/1.1 connection until it ends: short requests of etcd v2 by our own code, all
/// others by hyper.
///
/// # Errors
/// The client does not speak HTTP/1.1, or the connection breaks.
pub(super) async fn serve<S>(
    mut socket: S,
    runtime: Rc<Runtime>,
    shares: ConnectionShares,
    site: Site,
) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let read = match short::serve(&mut socket, &runtime, &shares, &site).await? {
        short::Next::Over => return Ok(()),
        short::Next::Library(read) => read,
    };
    let service = service_fn(|request| {
        let (runtime, shares, site) = (runtime.clone(), shares.clone(), site.clone());
        async move { Ok::<Answer, Infallible>(answer_of_http1(&runtime, &shares, &site, request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(STALL_TIME_MAX)
        .max_buf_size(HTTP_HEAD_BYTES_MAX)
        .max_headers(HTTP_HEADERS_MAX)
        // Old scripts expect header names capitalised as Go writes them.
        .title_case_headers(true)
        .serve_connection(TokioIo::new(Begun { read, socket }), service)
        .with_upgrades()
        .await?;
    Ok(())
}

/// Answers a plain HTTP request over HTTP/2, as over HTTP/1.1. WebSocket is not available here:
/// browsers use HTTP/1.1 for it.
pub(super) async fn serve_exchange(
    runtime: Rc<Runtime>,
    shares: ConnectionShares,
    site: Site,
    exchange: Exchange,
) {
    let answer = |parts, body| async move {
        answer(&runtime, &shares, &site, (&parts, None), Either::Right(body)).await
    };
    exchange.run(answer).await;
}

async fn answer_of_http1(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    site: &Site,
    mut request: Request<Incoming>,
) -> Answer {
    let upgrade = websocket::key_of(request.headers()).is_some();
    let upgrade = upgrade.then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    answer(runtime, shares, site, (&parts, upgrade), Either::Left(body)).await
}

async fn answer(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    site: &Site,
    (parts, upgrade): (&Parts, Option<OnUpgrade>),
    body: WebBody,
) -> Answer {
    let about = &runtime.member.config.about;
    let is_for_metrics = site.service == EtcdService::Metrics;
    let is_refused = !is_for_metrics && !site.is_secure;
    if let Some(refused) = routes::refuse_host(&about.hosts, parts).filter(|_| is_refused) {
        return refused;
    }
    if site.refuses_foreign_pages {
        let authority = parts.uri.authority().map(|it| it.as_str());
        if let Some(reason) = foreign_pages::refusal(&parts.headers, authority) {
            return routes::forbidden(reason);
        }
    }
    let has_v2 = !is_for_metrics && runtime.member.config.has_v2;
    let mut answer = if !is_for_metrics && parts.method == Method::OPTIONS {
        Response::new(Either::Left(Full::default()))
    } else if has_v2 && v2::is_path(parts.uri.path()) {
        v2::answer(runtime, (shares, site), parts, body).await
    } else {
        match routes::plain(parts) {
            Ok(plain) => {
                let parts = plain.as_ref().unwrap_or(parts);
                answer_plain(runtime, shares, site, (parts, upgrade), body).await
            }
            Err(answer) => *answer,
        }
    };
    if !is_for_metrics {
        routes::allow_origin(&about.origins, parts, &mut answer);
    }
    answer
}

/// Answers a request to v3's gateway or to another route, but not to etcd v2. The path is in the
/// plain form that [`routes::plain`] makes.
async fn answer_plain(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    site: &Site,
    (parts, upgrade): (&Parts, Option<OnUpgrade>),
    body: WebBody,
) -> Answer {
    let path = parts.uri.path();
    let is_call = gateway::PREFIXES.iter().any(|prefix| path.starts_with(prefix));
    if site.service == EtcdService::Metrics || !is_call {
        routes::answer(runtime, site.service, parts).await
    } else if runtime.member.config.about.has_gateway {
        call(runtime, (shares, site), parts, (body, upgrade)).await
    } else {
        routes::not_found()
    }
}

/// Runs a gateway call and counts it like a gRPC call, because in etcd the gateway makes one.
/// Watches and keep-alives are not counted, since this function does not notice their end. An
/// observer and a backup count as done once their response begins.
async fn call(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    parts: &Parts,
    (body, upgrade): (WebBody, Option<OnUpgrade>),
) -> Answer {
    // A WebSocket client must send GET, and means POST.
    let http_method = if upgrade.is_some() { "POST" } else { parts.method.as_str() };
    let client = match upgrade {
        None => CallingClient::from_request(runtime, &parts.headers, site),
        Some(_) => CallingClient::from_upgrade(runtime, &parts.headers, site),
    };
    let client = match client {
        Ok(client) => client,
        Err(why) => return refused(Code::InvalidArgument, &why),
    };
    let method = match gateway::route(http_method, parts.uri.path()) {
        Ok(method) => method,
        Err(no_route) => return refused(no_route.code(), no_route.text()),
    };
    if [WATCH_PATH, KEEP_ALIVE_PATH].contains(&method.path) {
        if client.misses_leader() {
            return refused_stream(Error::NoLeader.code(), Error::NoLeader.text());
        }
        let shares = shares.clone();
        let begin = move |body: RequestBody| match method.path {
            WATCH_PATH => gateway_stream::watch(&client, &shares, method, body),
            _ => gateway_stream::keep_alive(&client, &shares, method, body),
        };
        return match upgrade.zip(websocket::key_of(&parts.headers)) {
            Some((upgrade, key)) => {
                websocket::serve(upgrade, site.held.clone(), begin);
                websocket::agree(key, &parts.headers)
            }
            None => streaming(begin(Either::Left(body))),
        };
    }
    if upgrade.is_some() {
        let text = "over WebSocket there are watches and keep-alives only";
        return refused(Code::Unimplemented, text);
    }
    let counts = runtime.server.methods.counts_of(method.path);
    counts.inspect(|counts| counts.start());
    let begun_at = Instant::now();
    let answer = client.deadline.bound(call_unary(&client, shares, method, body)).await;
    let answer = answer.unwrap_or_else(|_| refused(Code::DeadlineExceeded, LATE));
    let code = code_of(answer.status());
    counts.inspect(|counts| counts.finish(code, Some(begun_at.elapsed())));
    answer
}

/// The gRPC code for an HTTP status. The gateway uses one status for several codes; this returns
/// the most likely.
fn code_of(status: StatusCode) -> Code {
    match status.as_u16() {
        200 => Code::Ok,
        400 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        409 => Code::AlreadyExists,
        429 => Code::ResourceExhausted,
        501 => Code::Unimplemented,
        503 => Code::Unavailable,
        504 => Code::DeadlineExceeded,
        _ => Code::Unknown,
    }
}

/// Answers a gateway call that is not a stream of requests: one with a single response, an
/// observer, or a backup.
async fn call_unary(
    client: &CallingClient,
    shares: &ConnectionShares,
    method: &'static gateway::GatewayMethod,
    body: WebBody,
) -> Answer {
    // A body without an announced length counts as a large one.
    let announced = body.size_hint().exact().map_or(usize::MAX, |bytes| bytes as usize);
    let mut room = Room::new(shares.requests.of(announced));
    let bytes_max = client.runtime.json_bytes_max();
    let Some(body) = read_body(body, &mut room, bytes_max).await else {
        return refused(Code::InvalidArgument, "the body is too large, too slow, or cut off");
    };
    let message = match method.request(&body) {
        Ok(message) => message,
        Err(bad) => return refused(Code::InvalidArgument, &bad.to_string()),
    };
    drop(body);
    room.shrink_to(message.len());
    let of_concurrency = ConcurrencyMethod::at(method.path);
    if client.misses_leader() {
        let (code, text) = (Error::NoLeader.code(), Error::NoLeader.text());
        let is_stream =
            of_concurrency == Some(ConcurrencyMethod::Observe) || method.path == SNAPSHOT_PATH;
        return if is_stream { refused_stream(code, text) } else { refused(code, text) };
    }
    if let Some(of_concurrency) = of_concurrency {
        return concurrent(client, shares, (method, of_concurrency), message.into()).await;
    }
    if method.path == SNAPSHOT_PATH {
        return match Download::begin(client, message.into()).await {
            Ok(backup) => streaming(gateway_stream::download(client, shares, method, backup)),
            Err(why) => {
                let (code, text) = why.code_and_text();
                refused_stream(code, &text)
            }
        };
    }
    let Some(kv_method) = unary_of_front(method.path) else {
        return refused(Code::Unimplemented, "this call is not served yet");
    };
    match client.run(kv_method, message.into()).await {
        Ok(reply) => large::answered(shares, method, reply).await,
        Err(why) => {
            let (code, text) = why.code_and_text();
            refused(code, text)
        }
    }
}

/// The HTTP response with the JSON of `response`, once there is memory for it.
async fn answered(
    shares: &ConnectionShares,
    method: &'static gateway::GatewayMethod,
    response: &[u8],
) -> Answer {
    let bytes = response.len().saturating_mul(JSON_TIMES);
    let mut room = Room::new(shares.answers.of(bytes));
    room.grow_to(bytes).await;
    match method.response(response) {
        Ok(json) => of_large(json, room),
        Err(bad) => refused(Code::Internal, &bad.to_string()),
    }
}

/// Runs a call to the lock and election services.
async fn concurrent(
    client: &CallingClient,
    shares: &ConnectionShares,
    (method, of_concurrency): (&'static gateway::GatewayMethod, ConcurrencyMethod),
    message: Bytes,
) -> Answer {
    if of_concurrency == ConcurrencyMethod::Observe {
        return match Observer::new(client, message) {
            Ok(observer) => streaming(gateway_stream::observe(client, shares, method, observer)),
            Err(status) => refused(Code::Unknown, &status.message),
        };
    }
    match concurrency::run(client, of_concurrency, message).await {
        Ok(response) => answered(shares, method, &response).await,
        Err(status) => refused(Code::Unknown, &status.message),
    }
}
