//! The gateway for HTTP clients that speak JSON, as etcd 3.6 has it (grpc-gateway 2.26 and Go's
//! `encoding/protojson`).
//!
//! [`route`] finds the call that a path names; the call turns JSON into the message of its
//! request and the message of its response into JSON. A table of the messages, generated from the
//! texts, guides both, so that every call works alike. The answer to a request has the content type
//! [`CONTENT_TYPE`]; a call that streams answers one line for each message.

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

/// The text of a request is not the JSON of its message. The code is
/// [`Code::InvalidArgument`].
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
    /// The message of the request with that body. An empty body means an empty message; what
    /// follows the first value is ignored.
    pub fn request(&self, body: &[u8]) -> Result<Vec<u8>, BadJson> {
        let mut scanner = Scanner::default();
        let len = match scanner.scan(body)? {
            Some(len) => len,
            None if scanner.finish()? => body.len(),
            None => return Ok(Vec::new()),
        };
        self.streamed_request(body.get(..len).unwrap_or_default())
    }

    /// The message of one value of a stream of requests. A [`Scanner`] has found where it ends.
    pub fn streamed_request(&self, value: &[u8]) -> Result<Vec<u8>, BadJson> {
        request::encode(schema::Message::at(self.input), value.trim_ascii_start())
    }

    /// The body of a response.
    pub fn response(&self, message: &[u8]) -> Result<String, BadMessage> {
        response::decode(schema::Message::at(self.output), message)
    }

    /// Turns a response into its body in pieces.
    pub fn transcoder(&self) -> Transcoder {
        Transcoder::new(schema::Message::at(self.output))
    }

    /// The line of one response of a stream.
    pub fn streamed_response(&self, message: &[u8]) -> Result<String, BadMessage> {
        Ok(format!("{STREAMED_BEGIN}{}{STREAMED_END}", self.response(message)?))
    }
}

/// The text before a response of a stream, in its line.
pub const STREAMED_BEGIN: &str = "{\"result\":";

/// The text behind a response of a stream, in its line.
pub const STREAMED_END: &str = "}\n";

/// The body of an error. etcd up to 3.5 has the text in `error`, too: with both every client finds
/// it.
pub fn error_body(code: Code, text: &str) -> String {
    let text = quoted(text);
    format!("{{\"error\":{text},\"code\":{},\"message\":{text}}}", code.number())
}

/// The line of an error that ends a stream of responses, with the fields of etcd 3.6 and of
/// earlier versions.
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

/// The status of the HTTP response for a code.
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
