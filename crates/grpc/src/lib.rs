//! gRPC over HTTP/2, for every face that speaks it: calls and streams, without their meaning.
//! Source: `PROTOCOL-HTTP2.md` of grpc/grpc. Where that leaves a choice, this does what grpc-go
//! 1.83, the library of etcd's server, does.
//!
//! The modules through which a request passes, and below them those through which its answer
//! passes:
//!
//! ```text
//! socket -> connection (a task; always reads) -> head (headers, against the table of methods)
//!   -> call (a task that runs the face's handler) -> requests (frames; room, credits) -> assembly
//! call -> answers (one message of a stream at a time, if large in pieces) -> connection -> socket
//! ```
//!
//! Three rules hold. A connection never waits for a handler. The HTTP/2 library holds at most one
//! answer of a stream; the next answer is handed over when the socket has taken the one before.
//! Requests that have arrived are limited in bytes ([`Room`]), and also in number (credits) for a
//! face that asks for that. Each face sets its own [`Limits`].
//!
//! A face may also serve HTTP requests that are not gRPC calls on the same port (`web`).
//!
//! The library `h2` implements HTTP/2. Only `connection`, `keep_alive`, `requests`, `answers`,
//! `web` and `status` know it; `docs/design/dependencies.md` says what it costs.

mod answers;
mod assembly;
mod call;
mod connection;
mod counts;
mod credits;
mod deadline;
mod gzip;
mod head;
mod keep_alive;
mod lenient;
mod limits;
mod metadata;
mod methods;
mod outgoing;
mod requests;
mod room;
mod socket;
mod status;
mod web;

pub use assembly::{PREFIX_BYTES, check_sent, frame, framed, framed_of};
pub use call::Call;
pub use connection::{ConnectionError, Server, Web, serve, serve_with};
pub use counts::{CallCounts, CallNumbers, TIME_BOUNDS_US};
pub use deadline::Deadline;
pub use gzip::{NoMessage, decompressed};
pub use keep_alive::PingPolicy;
pub use limits::{LONG_HEADERS_MAX, Limits, Patience};
pub use metadata::{KEPT_BYTES_MAX, KeptValues, Metadata, Value};
pub use methods::{Kind, Method, Methods};
pub use outgoing::Outgoing;
pub use requests::Message;
pub use room::{Room, Share, Shares, SharesBySize};
pub use status::{End, Status};
pub use web::{Exchange, StreamBody};

#[cfg(test)]
mod tests;
