//! Encodes and decodes Apache Ozone's datanode protocol: requests that clients send to
//! `XceiverClientProtocolService/send`, and their answers. Source: Ozone 2.2.0,
//! `DatanodeClientProtocol.proto`, `HddsDispatcher`, `KeyValueHandler`.
//!
//! A message becomes a [`Request`], which is checked here and nowhere else. A [`Handler`] runs the
//! request on a store and returns the answers. There is no socket, no thread and no clock here: the
//! caller has those, and calls [`Request::decode`] and [`Handler::begin`]. These differences from
//! Ozone are on purpose:
//!
//! - A refused write changes nothing. In Ozone, most refusals make the container unhealthy for
//!   good.
//! - A request without a body is malformed even if its container does not exist.
//! - The checksums in a ReadBlock's answers are right for chunks of any length.
//! - A PutBlock is on disk when it is answered; see [`HandlerOptions`].

mod checksum_tree;
mod command;
mod convert;
mod handler;
mod parts;
#[rustfmt::skip]
#[expect(
    clippy::len_without_is_empty,
    reason = "`len` is a field of a message, not of a collection"
)]
pub mod pb;
mod read_block;
mod refusal;

#[cfg(test)]
mod tests;

use prost::Message as _;

pub use command::{BlockReference, Command, Measured, PutBlock, Request, RequestError, read};
pub use convert::{block_data_to_pb, chunk_to_pb};
pub use handler::{Handler, HandlerOptions, Rest, Step};
pub use refusal::Refusal;

/// Appends the bytes of a request, for a client.
pub fn encode_request(request: &pb::ContainerCommandRequestProto, out: &mut Vec<u8>) {
    out.reserve(request.encoded_len());
    request.encode(out).expect("a vector has room");
}

/// Decodes an answer, for a client.
pub fn decode_answer(
    message: bytes::Bytes,
) -> Result<pb::ContainerCommandResponseProto, prost::DecodeError> {
    pb::ContainerCommandResponseProto::decode(message)
}

/// Bytes of chunk data in an answer.
pub fn data_bytes(answer: &pb::ContainerCommandResponseProto) -> usize {
    use pb::read_chunk_response_proto::ResponseData;
    let small = answer.get_small_file.as_ref().map(|small| &small.data);
    let read = answer.read_chunk.as_ref().or(small).and_then(|read| read.response_data.as_ref());
    match (read, &answer.read_block) {
        (Some(ResponseData::Data(data)), _) => data.len(),
        (Some(ResponseData::DataBuffers(all)), _) => all.buffers.iter().map(|it| it.len()).sum(),
        (None, Some(block)) => block.data.len(),
        (None, None) => 0,
    }
}

/// Appends the bytes of an answer.
pub fn encode(answer: &pb::ContainerCommandResponseProto, out: &mut Vec<u8>) {
    out.reserve(answer.encoded_len());
    answer.encode(out).expect("a vector has room");
}
