//! What clients of the chunk store send.

use bytes::Bytes;
use chunk::block::ChunkInfo;
use chunk::checksum::{ChecksumData, ChecksumType};
use chunk::wire::{Request, chunk_to_pb, encode_request, pb, read};

/// A request. What is read is written and read again to the same, and means the same.
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
