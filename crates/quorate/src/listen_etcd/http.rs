//! HTTP/1.1 on the port of etcd's clients: the JSON gateway, `/version` and `/health`. Sources:
//! `embed/serve.go` and `api/etcdhttp` of etcd 3.6; the crate `etcd` has the gateway's own rules.

use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use etcd::gateway;
use etcd::limits::JSON_BYTES_MAX_DEFAULT;
use etcd::pb::{Message, etcdserverpb as pb};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use member::etcd_front::{CallRefused, Method as KvMethod, Reply};
use tokio::io::{AsyncRead, AsyncWrite};

use super::ETCD_VERSION;
use super::limits::{HTTP_HEAD_BYTES_MAX, HTTP_HEADERS_MAX, STALL_TIME_MAX};
use super::runtime::Runtime;

type Answer = Response<Full<Bytes>>;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// The version of all members, and of the storage, as etcd shows them: without the patch.
const CLUSTER_VERSION: &str = "3.6.0";

/// Serves a connection until it ends.
///
/// # Errors
/// The client does not speak HTTP/1.1, or the connection breaks.
pub(super) async fn serve<S>(socket: S, runtime: Rc<Runtime>) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(|request| {
        let runtime = runtime.clone();
        async move { Ok::<Answer, Infallible>(answer(&runtime, request).await) }
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

async fn answer(runtime: &Rc<Runtime>, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_string();
    if gateway::PREFIXES.iter().any(|prefix| path.starts_with(prefix)) {
        return call(runtime, &path, request).await;
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
async fn call(runtime: &Rc<Runtime>, path: &str, request: Request<Incoming>) -> Answer {
    let method = match gateway::route(request.method().as_str(), path) {
        Ok(method) => method,
        Err(no_route) => return refused(no_route.code(), no_route.text()),
    };
    let body = Limited::new(request.into_body(), JSON_BYTES_MAX_DEFAULT).collect().await;
    let Ok(body) = body.map(|body| body.to_bytes()) else {
        return refused(etcd::Code::InvalidArgument, "the body is too large, or cut off");
    };
    let message = match method.request(&body) {
        Ok(message) => message,
        Err(bad) => return refused(etcd::Code::InvalidArgument, &bad.to_string()),
    };
    let Some(kv_method) = kv_method(method.path) else {
        return refused(etcd::Code::Unimplemented, "this call is not served yet");
    };
    match runtime.run(kv_method, message.into()).await {
        Ok(reply) => match method.response(&encoded(&reply)) {
            Ok(json) => of(StatusCode::OK, gateway::CONTENT_TYPE, json),
            Err(bad) => refused(etcd::Code::Internal, &bad.to_string()),
        },
        Err(CallRefused::Error(error)) => refused(error.code(), error.text()),
        Err(CallRefused::Malformed) => refused(etcd::Code::Internal, "the request is malformed"),
        Err(CallRefused::Unimplemented(text)) => refused(etcd::Code::Unimplemented, text),
    }
}

fn encoded(reply: &Reply) -> Vec<u8> {
    let mut message = Vec::new();
    reply.write(&mut message);
    message
}

/// The method with that gRPC path; none if it is not served.
fn kv_method(path: &str) -> Option<KvMethod> {
    Some(match path.strip_prefix("/etcdserverpb.KV/")? {
        "Range" => KvMethod::Range,
        "Put" => KvMethod::Put,
        "DeleteRange" => KvMethod::DeleteRange,
        "Txn" => KvMethod::Txn,
        "Compact" => KvMethod::Compact,
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
            let text = match why {
                CallRefused::Error(error) => error.text(),
                CallRefused::Malformed => "malformed",
                CallRefused::Unimplemented(text) => text,
            };
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

fn of(status: StatusCode, media_type: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}
