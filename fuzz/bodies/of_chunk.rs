//! Bodies for the chunk store: requests and answers of its protocol, and its formats on disk.

use bytes::Bytes;
use chunk::block::{BlockData, BlockId, ChunkInfo, KeyValue, decode_block, encode_block};
use chunk::checkpoint::{self, count_entries};
use chunk::checksum::{ChecksumData, ChecksumType};
use chunk::identity::{Identity, decode_identity, encode_identity};
use chunk::record::{
    HEADER_BYTES, Header, Kind, Position, Salt, decode_header, decode_trailer, encode_header,
    encode_trailer,
};
use chunk::scan::Start;
use chunk::segment::{Head, decode_head, encode_head};
use chunk::wire::{Request, chunk_to_pb, decode_answer, encode, encode_request, pb, read};

use super::of_storage::each_sealed;

/// A request. If it decodes, it must encode and decode again to an equal message that has the same
/// meaning for the store.
pub fn chunk_request(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let Ok(message) = read(bytes.clone()) else { return };
    let mut encoded = Vec::new();
    encode_request(&message, &mut encoded);
    let encoded = Bytes::from(encoded);
    assert_eq!(read(encoded.clone()), Ok(message));
    assert_eq!(Request::decode(encoded), Request::decode(bytes));
}

fn head(kind: pb::Type) -> pb::ContainerCommandRequestProto {
    pb::ContainerCommandRequestProto {
        cmd_type: Some(kind as i32),
        trace_id: Some("trace".to_string()),
        container_id: Some(7),
        datanode_uuid: Some("node".to_string()),
        client_id: Some(Bytes::from_static(b"client")),
        call_id: Some(5),
        ..Default::default()
    }
}

fn messages() -> Vec<pb::ContainerCommandRequestProto> {
    let data = Bytes::from_static(b"hello world");
    let block_id = Some(pb::DatanodeBlockId {
        container_id: Some(7),
        local_id: Some(9),
        block_commit_sequence_id: Some(1),
        replica_index: Some(2),
    });
    let key = |key: &str| pb::KeyValue { key: Some(key.to_string()), value: Some(String::new()) };
    let mut chunk = chunk_to_pb(&ChunkInfo {
        checksum: ChecksumData::of(ChecksumType::Crc32c, 4, &data),
        stripe_checksum: Some(data.clone()),
        ..ChunkInfo::plain("9_chunk_1".to_string(), 0, data.len() as u64)
    });
    chunk.metadata = vec![key("full")];
    let block_data = Some(pb::BlockData {
        block_id,
        flags: Some(-1),
        metadata: vec![key("incremental"), key("other")],
        chunks: vec![chunk.clone(), chunk.clone()],
        size: Some(22),
    });
    let put = pb::PutBlockRequestProto { block_data, eof: Some(true), ..Default::default() };
    let chunk_data = Some(chunk);
    let write = pb::WriteChunkRequestProto {
        block_id,
        chunk_data: chunk_data.clone(),
        data: Some(data.clone()),
        block: Some(put.clone()),
        container_auto_create: Some(false),
    };
    let read = pb::ReadChunkRequestProto {
        block_id,
        chunk_data: chunk_data.clone(),
        read_chunk_version: Some(1),
    };
    let small = pb::PutSmallFileRequestProto {
        block: Some(put.clone()),
        chunk_info: chunk_data,
        data: Some(data),
    };
    let create = pb::CreateContainerRequestProto {
        metadata: vec![key("key")],
        container_type: Some(1),
        replica_index: Some(3),
        state: Some(8),
    };
    let part = pb::ReadBlockRequestProto {
        block_id,
        offset: Some(5),
        length: Some(6),
        response_data_size: Some(4),
    };
    let list = pb::ListBlockRequestProto { start_local_id: Some(3), count: Some(4) };
    let echo = pb::EchoRequestProto { sleep_time_ms: Some(1), ..Default::default() };
    use pb::Type::*;
    vec![
        pb::ContainerCommandRequestProto {
            create_container: Some(create),
            ..head(CreateContainer)
        },
        pb::ContainerCommandRequestProto { put_block: Some(put), ..head(PutBlock) },
        pb::ContainerCommandRequestProto { write_chunk: Some(write), ..head(WriteChunk) },
        pb::ContainerCommandRequestProto { read_chunk: Some(read), ..head(ReadChunk) },
        pb::ContainerCommandRequestProto { put_small_file: Some(small), ..head(PutSmallFile) },
        pb::ContainerCommandRequestProto { read_block: Some(part), ..head(ReadBlock) },
        pb::ContainerCommandRequestProto { list_block: Some(list), ..head(ListBlock) },
        pb::ContainerCommandRequestProto { echo: Some(echo), ..head(Echo) },
        head(ListContainer),
    ]
}

pub fn chunk_request_seeds() -> Vec<Vec<u8>> {
    let encode = |message: &pb::ContainerCommandRequestProto| {
        let mut out = Vec::new();
        encode_request(message, &mut out);
        out
    };
    messages().iter().map(encode).collect()
}

/// The salt that leaves checksums as [`each_sealed`] computes them, without a salt.
const SALT: Salt = Salt(0);

const AT: Position = Position { segment: 3, offset: 8192 };

/// A record of the log, without its data: the header, followed by the trailer. What decodes must
/// encode and decode again to an equal one.
pub fn chunk_record(bytes: &[u8]) {
    each_sealed(bytes, 60, 0..60, |bytes| {
        let Ok(header) = decode_header(bytes, AT, SALT) else { return };
        let encoded = encode_header(&header, SALT);
        assert_eq!(decode_header(&encoded, AT, SALT), Ok(header));
        let Ok(crcs) = decode_trailer(&header, &bytes[HEADER_BYTES..], SALT) else { return };
        let mut trailer = Vec::new();
        encode_trailer(&encoded, &crcs, &mut trailer);
        assert_eq!(decode_trailer(&header, &trailer, SALT), Ok(crcs));
    });
}

pub fn chunk_record_seeds() -> Vec<Vec<u8>> {
    let seed = |kind: Kind| {
        let header = Header {
            kind,
            at: AT,
            container_id: 1,
            local_id: 2,
            block_offset: 3,
            body_bytes: 100_000,
            previous: 4096,
            durable: Position { segment: 2, offset: 4096 },
        };
        let mut out = encode_header(&header, SALT).to_vec();
        encode_trailer(&encode_header(&header, SALT), &[1, 2], &mut out);
        out
    };
    Kind::ALL.into_iter().map(seed).collect()
}

/// The head of a log segment. If it decodes, it must encode and decode again to an equal one.
pub fn chunk_segment_head(bytes: &[u8]) {
    each_sealed(bytes, 56, 0..56, |bytes| {
        let Ok(head) = decode_head(bytes) else { return };
        assert_eq!(decode_head(&encode_head(&head)), Ok(head));
    });
}

pub fn chunk_segment_head_seeds() -> Vec<Vec<u8>> {
    let durable = Position { segment: 2, offset: 4096 };
    let head = |version| {
        let head = Head { version, store_id: 7, number: 4, bytes: 1 << 28, follows: AT, durable };
        encode_head(&head)
    };
    vec![head(1), head(2)]
}

const BLOCK: BlockId = BlockId { container_id: 7, local_id: 9 };

/// The metadata of a block, as a record of the log holds it. If it decodes, it must encode to the
/// same bytes.
pub fn chunk_block(bytes: &[u8]) {
    let Ok(block) = decode_block(BLOCK, bytes) else { return };
    assert_eq!(encode_block(&block), bytes);
}

pub fn chunk_block_seeds() -> Vec<Vec<u8>> {
    let data = b"hello world";
    let pair = |value| KeyValue { key: "key".to_string(), value };
    let chunk = ChunkInfo {
        checksum: ChecksumData::of(ChecksumType::Sha256, 4, data),
        stripe_checksum: Some(Bytes::from_static(b"stripe")),
        metadata: vec![pair(None), pair(Some("value".to_string()))],
        ..ChunkInfo::plain("9_chunk_1".to_string(), 0, data.len() as u64)
    };
    let block = BlockData {
        id: BLOCK,
        commit_sequence_id: 5,
        replica_index: Some(1),
        flags: Some(2),
        metadata: vec![pair(None)],
        chunks: vec![chunk.clone(), chunk],
    };
    let empty = BlockData { metadata: Vec::new(), chunks: Vec::new(), ..block.clone() };
    vec![encode_block(&block), encode_block(&empty)]
}

/// A piece of a checkpoint without its checksum. If its entries can be counted, there must not be
/// more of them than bytes.
pub fn chunk_checkpoint(bytes: &[u8]) {
    if let Ok(count) = count_entries(bytes) {
        assert!(count <= bytes.len());
    }
}

pub fn chunk_checkpoint_seeds() -> Vec<Vec<u8>> {
    let mut piece = vec![1];
    piece.extend_from_slice(&7u64.to_le_bytes());
    // Layout, state, no replica index, no metadata.
    piece.extend_from_slice(&[7, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0]);
    piece.push(2);
    // Local id and length; not finalized, but committed: the commit's place, bytes, length and
    // sequence id.
    piece.extend_from_slice(&9u64.to_le_bytes());
    piece.extend_from_slice(&100u64.to_le_bytes());
    piece.extend_from_slice(&[0, 1]);
    piece.extend_from_slice(&AT.to_u64().to_le_bytes());
    piece.extend_from_slice(&20u32.to_le_bytes());
    piece.extend_from_slice(&100u64.to_le_bytes());
    piece.extend_from_slice(&5u64.to_le_bytes());
    piece.extend_from_slice(&2u32.to_le_bytes());
    for offset in [0u64, 60] {
        piece.extend_from_slice(&offset.to_le_bytes());
        piece.extend_from_slice(&40u32.to_le_bytes());
        piece.extend_from_slice(&AT.to_u64().to_le_bytes());
        piece.extend_from_slice(&10u32.to_le_bytes());
        piece.extend_from_slice(&50u32.to_le_bytes());
    }
    assert_eq!(count_entries(&piece), Ok(2));
    vec![piece]
}

/// The head of a checkpoint. If it decodes, it must encode and decode again to an equal one.
pub fn chunk_checkpoint_head(bytes: &[u8]) {
    each_sealed(bytes, 40, 0..40, |bytes| {
        let Ok(start) = checkpoint::decode_head(bytes, 7, AT) else { return };
        let encoded = checkpoint::encode_head(7, start);
        assert_eq!(checkpoint::decode_head(&encoded, 7, AT), Ok(start));
    });
}

pub fn chunk_checkpoint_head_seeds() -> Vec<Vec<u8>> {
    let head = |previous| checkpoint::encode_head(7, Start { at: AT, previous });
    vec![head(None), head(Some(4096))]
}

/// The file with the store's identity, in both lengths that it may have. If it decodes, it must
/// encode and decode again to an equal one.
pub fn chunk_identity(bytes: &[u8]) {
    for crc_at in [28, 32] {
        each_sealed(bytes, crc_at, 0..crc_at, |bytes| {
            let Ok(identity) = decode_identity(bytes) else { return };
            assert_eq!(decode_identity(&encode_identity(&identity)), Ok(identity));
        });
    }
}

pub fn chunk_identity_seeds() -> Vec<Vec<u8>> {
    vec![encode_identity(&Identity::from_id(7)), encode_identity(&Identity::from_id(u128::MAX))]
}

/// An answer, decoded as a client does. If it decodes, it must encode and decode again to an equal
/// one.
pub fn chunk_answer(bytes: &[u8]) {
    let Ok(answer) = decode_answer(Bytes::copy_from_slice(bytes)) else { return };
    let mut encoded = Vec::new();
    encode(&answer, &mut encoded);
    assert_eq!(decode_answer(encoded.into()), Ok(answer));
}

pub fn chunk_answer_seeds() -> Vec<Vec<u8>> {
    use pb::read_chunk_response_proto::ResponseData;
    let data = Bytes::from_static(b"hello world");
    let block_id = pb::DatanodeBlockId {
        container_id: Some(7),
        local_id: Some(9),
        block_commit_sequence_id: Some(1),
        replica_index: None,
    };
    let chunk = chunk_to_pb(&ChunkInfo {
        checksum: ChecksumData::of(ChecksumType::Crc32, 4, &data),
        ..ChunkInfo::plain("9_chunk_1".to_string(), 0, data.len() as u64)
    });
    let read = |data| pb::ReadChunkResponseProto {
        block_id,
        chunk_data: chunk.clone(),
        response_data: Some(data),
    };
    let buffers = pb::DataBuffers { buffers: vec![data.slice(..4), data.slice(4..)] };
    let answer = pb::ContainerCommandResponseProto {
        cmd_type: pb::Type::ReadChunk as i32,
        result: pb::Result::Success as i32,
        trace_id: Some("trace".to_string()),
        message: Some("fine".to_string()),
        ..Default::default()
    };
    let answers = [
        pb::ContainerCommandResponseProto {
            read_chunk: Some(read(ResponseData::Data(data.clone()))),
            ..answer.clone()
        },
        pb::ContainerCommandResponseProto {
            read_chunk: Some(read(ResponseData::DataBuffers(buffers))),
            ..answer.clone()
        },
        answer,
    ];
    let encoded = |answer: &pb::ContainerCommandResponseProto| {
        let mut out = Vec::new();
        encode(answer, &mut out);
        out
    };
    answers.iter().map(encoded).collect()
}
