//! The gateway for HTTP clients: maps URLs to gRPC calls and translates JSON to protobuf messages
//! and back, as etcd 3.6 does (grpc-gateway 2.26 and Go's `encoding/protojson`).
//!
//! [`mod@route`] finds the call of a path. The call ([`GatewayMethod`]) turns JSON into its request
//! message, and its response message into JSON. A table of all messages, generated from `proto/`,
//! drives both directions, so no call needs code of its own. Answers have the content type
//! [`CONTENT_TYPE`]; a call that streams answers one line of JSON for each message.

mod number;
mod read;
mod request;
mod response;
mod route;
mod scan;
pub mod schema;
#[rustfmt::skip]
mod table;
mod transcoder;

use core::fmt;

pub use response::BadMessage;
pub use route::{NoRoute, PREFIXES, method, route};
pub use scan::Scanner;
pub use schema::GatewayMethod;
pub use transcoder::Transcoder;

use grpc_code::Code;

/// The content type of every answer, errors included.
pub const CONTENT_TYPE: &str = "application/json";

/// The body of a request is not valid JSON, or does not fit its message. The text says why. The
/// code is [`Code::InvalidArgument`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadJson(pub String);

impl fmt::Display for BadJson {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for BadJson {}

impl fmt::Display for BadMessage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the bytes are not those of the message")
    }
}

impl std::error::Error for BadMessage {}

impl GatewayMethod {
    /// The encoded message for the body of a request. An empty body means an empty message;
    /// anything behind the first JSON value is ignored.
    pub fn request(&self, body: &[u8]) -> Result<Vec<u8>, BadJson> {
        let mut scanner = Scanner::default();
        let len = match scanner.scan(body)? {
            Some(len) => len,
            None if scanner.finish()? => body.len(),
            None => return Ok(Vec::new()),
        };
        self.streamed_request(body.get(..len).unwrap_or_default())
    }

    /// The encoded message for one JSON value of a stream of requests. A [`Scanner`] must have
    /// found where the value ends.
    pub fn streamed_request(&self, value: &[u8]) -> Result<Vec<u8>, BadJson> {
        request::encode(schema::Message::at(self.input), value.trim_ascii_start())
    }

    /// The JSON of a response, from the bytes of its message.
    pub fn response(&self, message: &[u8]) -> Result<String, BadMessage> {
        response::decode(schema::Message::at(self.output), message)
    }

    /// A transcoder that makes the JSON of a response in pieces.
    pub fn transcoder(&self) -> Transcoder {
        Transcoder::new(schema::Message::at(self.output))
    }

    /// The line of JSON for one response of a stream.
    pub fn streamed_response(&self, message: &[u8]) -> Result<String, BadMessage> {
        Ok(format!("{STREAMED_BEGIN}{}{STREAMED_END}", self.response(message)?))
    }
}

/// The beginning of a line of a streamed answer, before the response's JSON.
pub const STREAMED_BEGIN: &str = "{\"result\":";

/// The end of a line of a streamed answer, behind the response's JSON.
pub const STREAMED_END: &str = "}\n";

/// The body of an error answer. The text is in `message`, as in etcd 3.6, and also in `error`, as
/// in etcd up to 3.5, so that clients of both find it.
pub fn error_body(code: Code, text: &str) -> String {
    let text = quoted(text);
    format!("{{\"error\":{text},\"code\":{},\"message\":{text}}}", code.number())
}

/// The last line of a stream of responses that ends with an error. It has the fields of etcd 3.6
/// and those of earlier versions.
pub fn streamed_error(code: Code, text: &str) -> String {
    let (number, http_code) = (code.number(), http_status(code));
    let text = quoted(text);
    format!(
        "{{\"error\":{{\"code\":{number},\"message\":{text},\"grpc_code\":{number},\
         \"http_code\":{http_code}}}}}\n"
    )
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    response::write_text(text, &mut out);
    out
}

/// The HTTP status for a gRPC code.
pub fn http_status(code: Code) -> u16 {
    match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::DeadlineExceeded => 504,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::PermissionDenied => 403,
        Code::Unauthenticated => 401,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    }
}

#[cfg(test)]
mod tests;
