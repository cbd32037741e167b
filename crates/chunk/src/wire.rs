//! Apache Ozone's datanode protocol, bytes to values and back: requests that clients send to
//! `XceiverClientProtocolService/send`, and their answers. Source: Ozone 2.2.0,
//! `DatanodeClientProtocol.proto`, `HddsDispatcher`, `KeyValueHandler`.
//!
//! A message becomes a [`Request`], which is checked here and nowhere else; a [`Handler`] runs it
//! on a store and gives the answers. There is no socket, no thread and no clock here: the caller
//! has those, and calls [`Request::decode`] and [`Handler::begin`]. Where we differ from Ozone on
//! purpose:
//!
//! - A refused write changes nothing. There, most refusals make the container unhealthy for good.
//! - A request without a body is malformed even where its container does not exist.
//! - The checksums of ReadBlock are right for chunks of any length.
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

/// Appends a request as it is sent: what a client does.
pub fn encode_request(request: &pb::ContainerCommandRequestProto, out: &mut Vec<u8>) {
    out.reserve(request.encoded_len());
    request.encode(out).expect("a vector has room");
}

/// Reads an answer: what a client does.
pub fn decode_answer(
    message: bytes::Bytes,
) -> Result<pb::ContainerCommandResponseProto, prost::DecodeError> {
    pb::ContainerCommandResponseProto::decode(message)
}

/// Bytes of chunks that an answer brings.
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

/// Appends an answer as it is sent.
pub fn encode(answer: &pb::ContainerCommandResponseProto, out: &mut Vec<u8>) {
    out.reserve(answer.encoded_len());
    answer.encode(out).expect("a vector has room");
}
