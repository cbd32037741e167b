//! Apache Ozone's datanode protocol, bytes to values and back: what its clients send to
//! `XceiverClientProtocolService/send`, and what they are answered. Source: Ozone 2.2.0,
//! `DatanodeClientProtocol.proto`, `HddsDispatcher`, `KeyValueHandler`.
//!
//! A message becomes a [`Request`], which is checked here and nowhere else. There is no socket, no
//! thread and no clock here.

mod command;
mod convert;
mod parts;
#[rustfmt::skip]
#[expect(
    clippy::len_without_is_empty,
    reason = "`len` is a field of a message, not of a collection"
)]
pub mod pb;
mod refusal;

#[cfg(test)]
mod tests;

pub use command::{BlockReference, Command, PutBlock, Request, RequestError};
pub use convert::{block_data_to_pb, chunk_to_pb};
pub use refusal::Refusal;
