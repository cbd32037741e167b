//! Blocks and chunks, as values that callers pass to the store; and the encoding of a block's
//! metadata in a record of the log.
//!
//! The fields are those of Ozone's `DatanodeClientProtocol.proto` (2.2.0). A client gets them back
//! as it sent them.

use bytes::Bytes;

use storage::codec::{DecodeError, Reader};

use crate::checksum::{ChecksumData, ChecksumType};

/// The id of a block: its container, and its own id there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// The id of the container.
    pub container_id: u64,
    /// The id of the block, unique in its container.
    pub local_id: u64,
}

/// A key with an optional value. Only the client knows what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// The value, if any.
    pub value: Option<String>,
}

/// A chunk of a block, as its writer describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkInfo {
    /// The chunk's name. If each chunk is a file, also the file's name.
    pub name: String,
    /// The byte of the block where the chunk starts.
    pub offset: u64,
    /// The chunk's length in bytes.
    pub length: u64,
    /// Key-value pairs that the client gave the chunk.
    pub metadata: Vec<KeyValue>,
    /// Checksums of the chunk's bytes, as the client sent them.
    pub checksum: ChecksumData,
    /// Checksums of the erasure-coded stripe that the chunk belongs to; stored, not interpreted.
    pub stripe_checksum: Option<Bytes>,
}

impl ChunkInfo {
    /// A chunk without metadata and without checksums.
    pub fn plain(name: String, offset: u64, length: u64) -> ChunkInfo {
        let (metadata, checksum) = (Vec::new(), ChecksumData::none());
        ChunkInfo { name, offset, length, metadata, checksum, stripe_checksum: None }
    }

    /// The byte of the block where the chunk ends.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// A block's metadata, which a PutBlock commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockData {
    /// The block's id.
    pub id: BlockId,
    /// The index of this commit in the log that replicated the container (Ratis's, not the store's
    /// own log); 0 without replication.
    pub commit_sequence_id: u64,
    /// Which part of each erasure-coded stripe the container holds, as the client said; `None`
    /// without erasure coding.
    pub replica_index: Option<u32>,
    /// The client's flags, stored as they are.
    pub flags: Option<u64>,
    /// Key-value pairs that the client gave the block.
    pub metadata: Vec<KeyValue>,
    /// The block's chunks, in the order of their offsets.
    pub chunks: Vec<ChunkInfo>,
}

impl BlockData {
    /// Sum of the lengths of all chunks, like Ozone's `BlockData.getSize`.
    pub fn length(&self) -> u64 {
        self.chunks.iter().fold(0, |sum, chunk| sum.saturating_add(chunk.length))
    }

    /// The byte of the block where the last of its chunks ends.
    pub fn end(&self) -> u64 {
        self.chunks.iter().map(ChunkInfo::end).max().unwrap_or(0)
    }

    /// Whether the metadata have that key.
    pub fn has_metadata(&self, key: &str) -> bool {
        has_key(&self.metadata, key)
    }
}

/// Whether one of the pairs has that key.
pub(crate) fn has_key(metadata: &[KeyValue], key: &str) -> bool {
    metadata.iter().any(|pair| pair.key == key)
}

/// Encodes a block's metadata as the body of a record.
pub fn encode_block(block: &BlockData) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + 96 * block.chunks.len());
    out.extend_from_slice(&block.commit_sequence_id.to_le_bytes());
    put_option(&mut out, block.replica_index.map(u64::from));
    put_option(&mut out, block.flags);
    put_pairs(&mut out, &block.metadata);
    put_count(&mut out, block.chunks.len());
    for chunk in &block.chunks {
        put_bytes(&mut out, chunk.name.as_bytes());
        out.extend_from_slice(&chunk.offset.to_le_bytes());
        out.extend_from_slice(&chunk.length.to_le_bytes());
        put_pairs(&mut out, &chunk.metadata);
        out.push(chunk.checksum.kind.number());
        out.extend_from_slice(&chunk.checksum.bytes_per_checksum.to_le_bytes());
        put_count(&mut out, chunk.checksum.checksums.len());
        for checksum in &chunk.checksum.checksums {
            put_bytes(&mut out, checksum);
        }
        out.push(u8::from(chunk.stripe_checksum.is_some()));
        if let Some(stripe) = &chunk.stripe_checksum {
            put_bytes(&mut out, stripe);
        }
    }
    out
}

/// Decodes what [`encode_block`] wrote.
pub fn decode_block(id: BlockId, body: &[u8]) -> Result<BlockData, DecodeError> {
    let mut reader = Reader::new(body);
    let commit_sequence_id = reader.u64()?;
    let replica_index = read_option(&mut reader)?.map(u32::try_from).transpose();
    let replica_index = replica_index.map_err(|_| reader.bad("a replica index is too large"))?;
    let flags = read_option(&mut reader)?;
    let metadata = read_pairs(&mut reader)?;
    let chunk_count = reader.u32()?;
    let mut chunks = Vec::new();
    for _ in 0..chunk_count {
        chunks.push(read_chunk(&mut reader)?);
    }
    reader.finish()?;
    Ok(BlockData { id, commit_sequence_id, replica_index, flags, metadata, chunks })
}

fn read_chunk(reader: &mut Reader<'_>) -> Result<ChunkInfo, DecodeError> {
    let name = read_text(reader)?;
    let (offset, length) = (reader.u64()?, reader.u64()?);
    let metadata = read_pairs(reader)?;
    let kind = ChecksumType::from_number(reader.u8()?);
    let kind = kind.ok_or_else(|| reader.bad("the type of a checksum is unknown"))?;
    let bytes_per_checksum = reader.u32()?;
    let checksum_count = reader.u32()?;
    let mut checksums = Vec::new();
    for _ in 0..checksum_count {
        checksums.push(Bytes::copy_from_slice(read_bytes(reader)?));
    }
    let stripe_checksum = match reader.flag()? {
        true => Some(Bytes::copy_from_slice(read_bytes(reader)?)),
        false => None,
    };
    let checksum = ChecksumData { kind, bytes_per_checksum, checksums };
    Ok(ChunkInfo { name, offset, length, metadata, checksum, stripe_checksum })
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("a record has far fewer bytes than 2^32");
    out.extend_from_slice(&count.to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(crate) fn read_bytes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let count = reader.u32()?;
    reader.take(count as usize)
}

fn read_text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let bytes = read_bytes(reader)?.to_vec();
    String::from_utf8(bytes).map_err(|_| reader.bad("a text is not UTF-8"))
}

pub(crate) fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        out.extend_from_slice(&value.to_le_bytes());
    }
}

pub(crate) fn read_option(reader: &mut Reader<'_>) -> Result<Option<u64>, DecodeError> {
    match reader.flag()? {
        true => Ok(Some(reader.u64()?)),
        false => Ok(None),
    }
}

pub(crate) fn put_pairs(out: &mut Vec<u8>, pairs: &[KeyValue]) {
    put_count(out, pairs.len());
    for pair in pairs {
        put_bytes(out, pair.key.as_bytes());
        out.push(u8::from(pair.value.is_some()));
        if let Some(value) = &pair.value {
            put_bytes(out, value.as_bytes());
        }
    }
}

pub(crate) fn read_pairs(reader: &mut Reader<'_>) -> Result<Vec<KeyValue>, DecodeError> {
    let count = reader.u32()?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        let key = read_text(reader)?;
        let value = match reader.flag()? {
            true => Some(read_text(reader)?),
            false => None,
        };
        pairs.push(KeyValue { key, value });
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests;
