//! Reads the headers of a request. They open a call; or they are refused, with a complete response.
//! The order of the checks and the texts are those of grpc-go (`http2Server.operateHeaders`,
//! `Server.handleStream`).

use std::sync::Arc;

use grpc_code::Code;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};

use super::counts::CallCounts;
use super::deadline::{Deadline, parse_timeout};
use super::limits::Limits;
use super::metadata::{KeptValues, Metadata};
use super::methods::{Kind, Method as Entry, Methods};
use super::status::{ACCEPT_ENCODING, Status};

const GZIP: &str = "gzip";

/// The longest media type that a response repeats, in bytes.
const CONTENT_TYPE_BYTES_MAX: usize = 128;
const MEDIA_TYPE: &str = "application/grpc";
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The decoded headers of a call.
#[derive(Debug)]
pub(super) struct Head<M> {
    pub(super) method: M,
    pub(super) kind: Kind,
    pub(super) counts: Arc<CallCounts>,
    pub(super) metadata: Metadata,
    pub(super) deadline: Deadline,
    /// The media type for the response: that of the request, unless it is too long.
    pub(super) content_type: HeaderValue,
    /// Whether the client may compress its messages with gzip.
    pub(super) is_gzip: bool,
}

/// Reads the headers of a request.
///
/// # Errors
/// The headers open no call; the error is the complete response.
pub(super) fn read<M: Copy>(
    parts: Parts,
    methods: &Methods<M>,
    &Limits { takes_gzip, metadata_keys, metadata_prefix, .. }: &Limits,
    kept: &KeptValues,
) -> Result<Head<M>, Box<Response<()>>> {
    let refuse = |http: StatusCode, content_type: HeaderValue, code, text: String| {
        let mut response = status_alone(content_type, &Status::new(code, text));
        *response.status_mut() = http;
        Box::new(response)
    };
    let content_type = match parts.headers.get(CONTENT_TYPE) {
        Some(value) if is_grpc(value.as_bytes()) => repeated(value),
        other => {
            let value = other.map_or_else(Default::default, HeaderValue::as_bytes);
            let value = String::from_utf8_lossy(value);
            let text = format!("invalid gRPC request content-type {value:?}");
            let http = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(refuse(http, plain_type(), Code::InvalidArgument, text));
        }
    };
    let of_call = |status: &Status| Box::new(status_alone(content_type.clone(), status));
    let malformed = |text: String| {
        Err(refuse(StatusCode::BAD_REQUEST, content_type.clone(), Code::Internal, text))
    };
    let timeout = parts
        .headers
        .get(TIMEOUT)
        .map(|value| parse_timeout(&String::from_utf8_lossy(value.as_bytes())));
    let deadline = match timeout.transpose() {
        Ok(timeout) => timeout.map_or_else(Deadline::default, Deadline::after),
        Err(what) => return malformed(format!("malformed grpc-timeout: {what}")),
    };
    let encoding = parts.headers.get(ENCODING).cloned();
    let has_authority = parts.uri.authority().is_some() || parts.headers.contains_key(HOST);
    let metadata = match Metadata::of(&parts.headers, (metadata_keys, metadata_prefix), kept) {
        Ok(metadata) => metadata,
        Err(status) if status.code == Code::ResourceExhausted => return Err(of_call(&status)),
        Err(status) => return malformed(status.message),
    };
    if !has_authority {
        return malformed("no host or :authority header present".to_string());
    }
    if parts.method != Method::POST {
        let method = parts.method.as_str();
        let text = format!("Received a HEADERS frame with :method {method:?} which should be POST");
        let http = StatusCode::METHOD_NOT_ALLOWED;
        return Err(refuse(http, content_type.clone(), Code::Internal, text));
    }
    if deadline.is_past() {
        return Err(of_call(&Status::deadline_exceeded()));
    }
    let found = methods.find(parts.uri.path()).map_err(|status| of_call(&status))?;
    let (Entry { method, kind, .. }, counts) = found;
    let (method, kind, counts) = (*method, *kind, counts.clone());
    let encoding = encoding.filter(|value| !matches!(value.as_bytes(), b"identity" | b""));
    let is_gzip = takes_gzip && encoding.as_ref().is_some_and(|value| value == GZIP);
    if let Some(encoding) = encoding.filter(|_| !is_gzip) {
        let encoding = String::from_utf8_lossy(encoding.as_bytes());
        let text = format!("grpc: Decompressor is not installed for grpc-encoding {encoding:?}");
        let mut response = of_call(&Status::new(Code::Unimplemented, text));
        if takes_gzip {
            let encodings = HeaderValue::from_static("identity, gzip");
            response.headers_mut().insert(ACCEPT_ENCODING, encodings);
        }
        return Err(response);
    }
    Ok(Head { method, kind, counts, metadata, deadline, content_type, is_gzip })
}

/// Whether a request is a gRPC call, by the rule of Go's servers that serve both on one port
/// (`embed.grpcHandlerFunc` of etcd).
pub(super) fn is_call<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|value| value.starts_with(MEDIA_TYPE.as_bytes()))
}

/// Bytes of the headers of a request, with 32 added for each header (RFC 9113, 6.5.2).
pub(super) fn bytes<B>(request: &Request<B>) -> usize {
    let of_field =
        |(key, value): (&HeaderName, &HeaderValue)| key.as_str().len() + value.len() + 32;
    request.headers().iter().map(of_field).sum()
}

/// The response to a request that is no gRPC call and whose headers are too long.
pub(super) fn too_large() -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response
}

fn plain_type() -> HeaderValue {
    HeaderValue::from_static(MEDIA_TYPE)
}

/// The media type for the response: that of the request, unless it is too long. The value is
/// copied, because the library's value would keep all headers in memory while the call goes on.
fn repeated(content_type: &HeaderValue) -> HeaderValue {
    let bytes = Some(content_type.as_bytes());
    let bytes =
        bytes.filter(|it| *it != MEDIA_TYPE.as_bytes() && it.len() <= CONTENT_TYPE_BYTES_MAX);
    bytes.and_then(|bytes| HeaderValue::from_bytes(bytes).ok()).unwrap_or_else(plain_type)
}

/// Whether a media type is gRPC's; it may name the encoding of messages (`+proto`).
fn is_grpc(content_type: &[u8]) -> bool {
    let rest = content_type.strip_prefix(MEDIA_TYPE.as_bytes());
    rest.is_some_and(|rest| matches!(rest, [] | [b'+' | b';', ..]))
}

/// The head of a response that messages follow.
pub(super) fn response_head(content_type: HeaderValue) -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// The complete response to a call that ends before its first message.
pub(super) fn status_alone(content_type: HeaderValue, status: &Status) -> Response<()> {
    let mut response = response_head(content_type);
    status.add_to(response.headers_mut());
    response
}

#[cfg(test)]
mod tests;
