//! Converts messages to the crate's values, with checks, and back.
//!
//! Checksums are copied out of the message. Otherwise a slice of four bytes would keep the whole
//! message, with its data, in memory for as long as the store knows the block.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};

use super::command::{BlockReference, PutBlock};
use super::pb;
use super::refusal::Refusal;
use crate::block::{BlockData, BlockId, ChunkInfo, KeyValue};
use crate::checksum::{ChecksumData, ChecksumType};
use crate::container::State;

type Checked<T> = Result<T, Refusal>;

/// An id of a container or block: a Java `long` that is not negative.
pub(super) fn id(value: Option<i64>, what: &str) -> Checked<u64> {
    let value = value.ok_or_else(|| Refusal::malformed(format!("there is no {what}")))?;
    u64::try_from(value).map_err(|_| Refusal::malformed(format!("{what} {value} is negative")))
}

/// A field that must be present.
pub(super) fn required<T>(value: Option<T>, what: &str) -> Checked<T> {
    value.ok_or_else(|| Refusal::malformed(format!("there is no {what}")))
}

/// A block, which must be in the container that the request is about.
pub(super) fn block_reference(
    message: Option<pb::DatanodeBlockId>,
    container_id: u64,
) -> Checked<BlockReference> {
    let message = required(message, "blockID")?;
    let own = id(message.container_id, "containerID of the block")?;
    if own != container_id {
        return Err(Refusal::malformed(format!(
            "a block of container {own} is not one of container {container_id}"
        )));
    }
    Ok(BlockReference {
        id: BlockId { container_id, local_id: id(message.local_id, "localID")? },
        commit_sequence_id: message.block_commit_sequence_id,
        replica_index: replica_index(message.replica_index)?,
    })
}

/// The part of an erasure-coded stripe; 0 means none.
pub(super) fn replica_index(value: Option<i32>) -> Checked<Option<u32>> {
    let checked = value.map(u32::try_from).transpose();
    checked.map_err(|_| Refusal::malformed("replicaIndex is negative"))
}

pub(super) fn block_reference_to_pb(block: &BlockReference) -> pb::DatanodeBlockId {
    pb::DatanodeBlockId {
        container_id: Some(block.id.container_id.cast_signed()),
        local_id: Some(block.id.local_id.cast_signed()),
        block_commit_sequence_id: block.commit_sequence_id,
        replica_index: block.replica_index.map(u32::cast_signed),
    }
}

/// Converts key-value pairs. Refuses two pairs with the same key: a map would keep only one.
pub(super) fn metadata(pairs: Vec<pb::KeyValue>) -> Checked<Vec<KeyValue>> {
    let mut checked = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let key = required(pair.key, "key of the metadata")?;
        checked.push(KeyValue { key, value: pair.value });
    }
    let mut keys = BTreeSet::new();
    match checked.iter().find(|pair| !keys.insert(pair.key.as_str())) {
        Some(twice) => Err(Refusal::malformed(format!("key {:?} is there twice", twice.key))),
        None => Ok(checked),
    }
}

pub(super) fn metadata_to_pb(pairs: &[KeyValue]) -> Vec<pb::KeyValue> {
    let pair =
        |pair: &KeyValue| pb::KeyValue { key: Some(pair.key.clone()), value: pair.value.clone() };
    pairs.iter().map(pair).collect()
}

pub(super) fn chunk(message: Option<pb::ChunkInfo>) -> Checked<ChunkInfo> {
    let message = required(message, "chunk")?;
    let offset = required(message.offset, "offset of the chunk")?;
    let length = required(message.len, "length of the chunk")?;
    // A Java `long` ends there, and so do files.
    if offset.checked_add(length).is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(Refusal::malformed(format!("no chunk of {length} bytes is at {offset}")));
    }
    Ok(ChunkInfo {
        name: required(message.chunk_name, "name of the chunk")?,
        offset,
        length,
        metadata: metadata(message.metadata)?,
        checksum: checksum(message.checksum_data)?,
        stripe_checksum: message.stripe_checksum.map(|bytes| Bytes::copy_from_slice(&bytes)),
    })
}

/// Converts a chunk back to the message that its client sent.
pub fn chunk_to_pb(chunk: &ChunkInfo) -> pb::ChunkInfo {
    pb::ChunkInfo {
        chunk_name: Some(chunk.name.clone()),
        offset: Some(chunk.offset),
        len: Some(chunk.length),
        metadata: metadata_to_pb(&chunk.metadata),
        checksum_data: Some(checksum_to_pb(&chunk.checksum)),
        stripe_checksum: chunk.stripe_checksum.clone(),
    }
}

fn checksum(message: Option<pb::ChecksumData>) -> Checked<ChecksumData> {
    let message = required(message, "checksumData")?;
    let number = required(message.r#type, "type of the checksum")?;
    let kind = u8::try_from(number).ok().and_then(ChecksumType::from_number);
    let kind =
        kind.ok_or_else(|| Refusal::malformed(format!("there is no checksum type {number}")))?;
    let bytes_per_checksum = required(message.bytes_per_checksum, "bytesPerChecksum")?;
    if kind != ChecksumType::None && bytes_per_checksum == 0 {
        return Err(Refusal::malformed("a checksum of 0 bytes says nothing"));
    }
    Ok(ChecksumData { kind, bytes_per_checksum, checksums: detached(&message.checksums) })
}

pub(super) fn checksum_to_pb(checksum: &ChecksumData) -> pb::ChecksumData {
    pb::ChecksumData {
        r#type: Some(i32::from(checksum.kind.number())),
        bytes_per_checksum: Some(checksum.bytes_per_checksum),
        checksums: checksum.checksums.clone(),
    }
}

/// Copies the slices into one new buffer.
fn detached(slices: &[Bytes]) -> Vec<Bytes> {
    let mut buffer = BytesMut::with_capacity(slices.iter().map(Bytes::len).sum());
    for slice in slices {
        buffer.extend_from_slice(slice);
    }
    let mut buffer = buffer.freeze();
    slices.iter().map(|slice| buffer.split_to(slice.len())).collect()
}

/// The block that a PutBlock commits. The server decides its size and its commit sequence id, which
/// is 0 without replication.
fn block_data(message: Option<pb::BlockData>, container_id: u64) -> Checked<BlockData> {
    let message = required(message, "blockData")?;
    let block = block_reference(message.block_id, container_id)?;
    let chunks = message.chunks.into_iter().map(|message| chunk(Some(message)));
    Ok(BlockData {
        id: block.id,
        commit_sequence_id: 0,
        replica_index: block.replica_index,
        flags: message.flags.map(i64::cast_unsigned),
        metadata: metadata(message.metadata)?,
        chunks: chunks.collect::<Checked<_>>()?,
    })
}

/// Converts a committed block, with its size.
pub fn block_data_to_pb(block: &BlockData) -> pb::BlockData {
    pb::BlockData {
        block_id: Some(pb::DatanodeBlockId {
            container_id: Some(block.id.container_id.cast_signed()),
            local_id: Some(block.id.local_id.cast_signed()),
            block_commit_sequence_id: Some(block.commit_sequence_id),
            replica_index: block.replica_index.map(u32::cast_signed),
        }),
        flags: block.flags.map(u64::cast_signed),
        metadata: metadata_to_pb(&block.metadata),
        chunks: block.chunks.iter().map(chunk_to_pb).collect(),
        size: Some(block.length().cast_signed()),
    }
}

/// Converts a PutBlock. `eof_default` is whether the PutBlock ends its block if the message does
/// not say.
pub(super) fn put_block(
    message: pb::PutBlockRequestProto,
    container_id: u64,
    eof_default: bool,
) -> Checked<PutBlock> {
    Ok(PutBlock {
        block: block_data(message.block_data, container_id)?,
        is_end_of_block: message.eof.unwrap_or(eof_default),
        is_creating: message.container_auto_create.unwrap_or(true),
    })
}

pub(super) fn state_to_pb(state: State) -> pb::container_data_proto::State {
    use pb::container_data_proto::State as Theirs;
    match state {
        State::Open => Theirs::Open,
        State::Closing => Theirs::Closing,
        State::QuasiClosed => Theirs::QuasiClosed,
        State::Closed => Theirs::Closed,
        State::Unhealthy => Theirs::Unhealthy,
        State::Invalid => Theirs::Invalid,
        State::Recovering => Theirs::Recovering,
    }
}
