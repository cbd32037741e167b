//! Tests which requests are accepted, and the commands that they become.

mod handler;

use bytes::Bytes;
use prost::Message as _;

use super::command::{Command, Request, RequestError};
use super::convert;
use super::pb;
use crate::block::ChunkInfo;
use crate::checksum::{ChecksumData, ChecksumType};
use crate::limits::{ECHO_BYTES_MAX, ECHO_PAUSE_MS_MAX, REQUEST_BYTES_MAX, REQUEST_PARTS_MAX};

const CONTAINER: i64 = 7;
const LOCAL: i64 = 9;

type Message = pb::ContainerCommandRequestProto;

/// A request without a body.
fn head(kind: pb::Type) -> Message {
    Message {
        cmd_type: Some(kind as i32),
        container_id: Some(CONTAINER),
        datanode_uuid: Some("node".to_string()),
        ..Message::default()
    }
}

fn block_id() -> pb::DatanodeBlockId {
    pb::DatanodeBlockId {
        container_id: Some(CONTAINER),
        local_id: Some(LOCAL),
        ..Default::default()
    }
}

/// A chunk of these bytes, with checksums of four bytes each.
fn chunk_of(offset: u64, data: &[u8]) -> pb::ChunkInfo {
    convert::chunk_to_pb(&ChunkInfo {
        checksum: ChecksumData::of(ChecksumType::Crc32, 4, data),
        ..ChunkInfo::plain(format!("{LOCAL}_chunk_{offset}"), offset, data.len() as u64)
    })
}

fn block_data(chunks: Vec<pb::ChunkInfo>) -> pb::BlockData {
    pb::BlockData { block_id: Some(block_id()), chunks, ..Default::default() }
}

fn put(chunks: Vec<pb::ChunkInfo>) -> pb::PutBlockRequestProto {
    pb::PutBlockRequestProto { block_data: Some(block_data(chunks)), ..Default::default() }
}

fn write(offset: u64, data: &'static [u8]) -> Message {
    let write_chunk = Some(pb::WriteChunkRequestProto {
        block_id: Some(block_id()),
        chunk_data: Some(chunk_of(offset, data)),
        data: Some(Bytes::from_static(data)),
        ..Default::default()
    });
    Message { write_chunk, ..head(pb::Type::WriteChunk) }
}

fn put_block(chunks: Vec<pb::ChunkInfo>) -> Message {
    Message { put_block: Some(put(chunks)), ..head(pb::Type::PutBlock) }
}

fn read(chunk: pb::ChunkInfo, version: Option<pb::ReadChunkVersion>) -> Message {
    let read_chunk = Some(pb::ReadChunkRequestProto {
        block_id: Some(block_id()),
        chunk_data: Some(chunk),
        read_chunk_version: version.map(|version| version as i32),
    });
    Message { read_chunk, ..head(pb::Type::ReadChunk) }
}

fn decode(message: &Message) -> Request {
    Request::decode(message.encode_to_vec().into()).unwrap()
}

/// The refusal that a request gets before anything is looked up in the store.
fn refused(message: &Message) -> (pb::Result, String) {
    let refusal = decode(message).command.unwrap_err();
    (refusal.result, refusal.message)
}

#[track_caller]
fn assert_malformed(message: &Message, why: &str) {
    let (result, message) = refused(message);
    assert_eq!(result, pb::Result::MalformedRequest, "{message}");
    assert!(message.contains(why), "{message:?} does not say {why:?}");
}

/// All types of requests.
fn kinds() -> impl Iterator<Item = pb::Type> {
    (1..=25).map(|number| pb::Type::try_from(number).unwrap())
}

#[test]
fn chunks_survive_there_and_back() {
    for kind in ChecksumType::ALL {
        let bytes_per_checksum = if kind == ChecksumType::None { 0 } else { 3 };
        let mut chunk = ChunkInfo {
            metadata: convert::metadata(vec![pair("full", None), pair("a", Some("b"))]).unwrap(),
            checksum: ChecksumData::of(kind, bytes_per_checksum, b"hello world"),
            stripe_checksum: Some(Bytes::from_static(b"stripe")),
            ..ChunkInfo::plain("name".to_string(), 5, 11)
        };
        assert_eq!(convert::chunk(Some(convert::chunk_to_pb(&chunk))), Ok(chunk.clone()));
        chunk.length = i64::MAX as u64 - 5;
        assert_eq!(convert::chunk(Some(convert::chunk_to_pb(&chunk))), Ok(chunk));
    }
}

fn pair(key: &str, value: Option<&str>) -> pb::KeyValue {
    pb::KeyValue { key: Some(key.to_string()), value: value.map(str::to_string) }
}

#[test]
fn blocks_survive_there_and_back_but_for_what_is_the_servers() {
    let mut given = block_data(vec![chunk_of(0, b"abcdefgh"), chunk_of(8, b"ij")]);
    given.flags = Some(-1);
    given.metadata = vec![pair("incremental", Some(""))];
    given.size = Some(77);
    let block_id = given.block_id.as_mut().unwrap();
    block_id.replica_index = Some(3);
    block_id.block_commit_sequence_id = Some(99);
    let message =
        pb::PutBlockRequestProto { block_data: Some(given.clone()), ..Default::default() };
    let message = Message { put_block: Some(message), ..head(pb::Type::PutBlock) };
    let Ok(Command::PutBlock(put)) = decode(&message).command else { panic!("it is a PutBlock") };
    let back = convert::block_data_to_pb(&put.block);
    assert_eq!(back.size, Some(10));
    assert_eq!(back.block_id.as_ref().unwrap().block_commit_sequence_id, Some(0));
    given.size = back.size;
    given.block_id.as_mut().unwrap().block_commit_sequence_id = Some(0);
    assert_eq!(back, given);
}

#[test]
fn data_are_a_slice_of_the_message_and_checksums_are_not() {
    let message = Bytes::from(write(0, b"abcdefgh").encode_to_vec());
    let range = message.as_ptr_range();
    let Ok(Command::WriteChunk { data, chunk, .. }) = Request::decode(message).unwrap().command
    else {
        panic!("it is a WriteChunk");
    };
    assert_eq!(&data[..], b"abcdefgh");
    assert!(range.contains(&data.as_ptr()));
    assert_eq!(chunk.checksum.checksums.len(), 2);
    assert!(chunk.checksum.checksums.iter().all(|it| !range.contains(&it.as_ptr())));
}

#[test]
fn end_of_block_is_meant_alone_and_not_when_it_rides_along() {
    let is_end = |eof| {
        let put = pb::PutBlockRequestProto { eof, ..put(Vec::new()) };
        let mut riding = write(0, b"data");
        riding.write_chunk.as_mut().unwrap().block = Some(put.clone());
        let alone = Message { put_block: Some(put), ..head(pb::Type::PutBlock) };
        match (decode(&alone).command, decode(&riding).command) {
            (Ok(Command::PutBlock(alone)), Ok(Command::WriteChunk { put: Some(riding), .. })) => {
                (alone.is_end_of_block, riding.is_end_of_block)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(is_end(None), (true, false));
    assert_eq!(is_end(Some(false)), (false, false));
    assert_eq!(is_end(Some(true)), (true, true));
}

#[test]
fn every_type_without_its_body_is_malformed_or_not_served() {
    use pb::Type::*;
    for kind in kinds() {
        let (result, _) = refused(&head(kind));
        let is_served = !matches!(
            kind,
            ListContainer
                | ListChunk
                | CompactChunk
                | DeleteBlock
                | DeleteChunk
                | StreamInit
                | StreamWrite
                | StreamInitWithPutBlock
        );
        let wanted = match is_served {
            true => pb::Result::MalformedRequest,
            false => pb::Result::UnsupportedRequest,
        };
        assert_eq!(result, wanted, "{kind:?}");
    }
}

#[test]
fn heads_have_a_container_and_a_datanode() {
    let good = write(0, b"data");
    assert!(decode(&good).command.is_ok());
    assert_malformed(&Message { container_id: None, ..good.clone() }, "containerID");
    assert_malformed(&Message { container_id: Some(-1), ..good.clone() }, "negative");
    assert_malformed(&Message { datanode_uuid: None, ..good }, "datanodeUuid");
}

#[test]
fn blocks_are_named_in_full_and_lie_in_the_container() {
    let with = |block_id: Option<pb::DatanodeBlockId>| {
        let mut message = write(0, b"data");
        message.write_chunk.as_mut().unwrap().block_id = block_id;
        message
    };
    assert_malformed(&with(None), "blockID");
    let no = None;
    assert_malformed(
        &with(Some(pb::DatanodeBlockId { container_id: no, ..block_id() })),
        "containerID",
    );
    assert_malformed(&with(Some(pb::DatanodeBlockId { local_id: no, ..block_id() })), "localID");
    let negative = Some(-1);
    assert_malformed(
        &with(Some(pb::DatanodeBlockId { local_id: negative, ..block_id() })),
        "localID",
    );
    let replica_index = Some(-1);
    assert_malformed(
        &with(Some(pb::DatanodeBlockId { replica_index, ..block_id() })),
        "replicaIndex",
    );
    let other = Some(CONTAINER + 1);
    assert_malformed(
        &with(Some(pb::DatanodeBlockId { container_id: other, ..block_id() })),
        "is not one of",
    );
}

#[test]
fn chunks_are_described_in_full() {
    let good = chunk_of(0, b"data");
    let with = |chunk_data: Option<pb::ChunkInfo>| {
        let mut message = write(0, b"data");
        message.write_chunk.as_mut().unwrap().chunk_data = chunk_data;
        message
    };
    assert_malformed(&with(None), "chunk");
    assert_malformed(&with(Some(pb::ChunkInfo { chunk_name: None, ..good.clone() })), "name");
    assert_malformed(&with(Some(pb::ChunkInfo { offset: None, ..good.clone() })), "offset");
    assert_malformed(&with(Some(pb::ChunkInfo { len: None, ..good.clone() })), "length");
    assert_malformed(
        &with(Some(pb::ChunkInfo { checksum_data: None, ..good.clone() })),
        "checksumData",
    );
    let len = Some(u64::MAX);
    assert_malformed(&with(Some(pb::ChunkInfo { len, ..good.clone() })), "no chunk of");
    let (offset, len) = (Some(i64::MAX as u64), Some(1));
    assert_malformed(&with(Some(pb::ChunkInfo { offset, len, ..good.clone() })), "no chunk of");
    let twice = vec![pair("k", None), pair("k", Some("v"))];
    assert_malformed(&with(Some(pb::ChunkInfo { metadata: twice, ..good.clone() })), "twice");
    let nameless = vec![pb::KeyValue::default()];
    assert_malformed(&with(Some(pb::ChunkInfo { metadata: nameless, ..good })), "key");
}

#[test]
fn checksums_have_a_type_that_there_is_and_cover_something() {
    let with = |checksum: pb::ChecksumData| {
        let checksum_data = Some(checksum);
        put_block(vec![pb::ChunkInfo { checksum_data, ..chunk_of(0, b"data") }])
    };
    let sum = |kind, bytes| pb::ChecksumData {
        r#type: kind,
        bytes_per_checksum: bytes,
        checksums: Vec::new(),
    };
    assert_malformed(&with(sum(None, Some(4))), "type of the checksum");
    assert_malformed(&with(sum(Some(0), Some(4))), "checksum type 0");
    assert_malformed(&with(sum(Some(6), Some(4))), "checksum type 6");
    assert_malformed(&with(sum(Some(-1), Some(4))), "checksum type -1");
    assert_malformed(&with(sum(Some(258), Some(4))), "checksum type 258");
    assert_malformed(&with(sum(Some(2), None)), "bytesPerChecksum");
    assert_malformed(&with(sum(Some(2), Some(0))), "says nothing");
    assert!(decode(&with(sum(Some(1), Some(0)))).command.is_ok());
}

#[test]
fn containers_start_open_or_recovering() {
    use pb::container_data_proto::State;
    let with = |state, container_type| {
        let create =
            pb::CreateContainerRequestProto { state, container_type, ..Default::default() };
        Message { create_container: Some(create), ..head(pb::Type::CreateContainer) }
    };
    let is_recovering = |state| match decode(&with(state, None)).command {
        Ok(Command::CreateContainer(spec)) => spec.is_recovering,
        other => panic!("{other:?}"),
    };
    assert!(!is_recovering(None));
    assert!(!is_recovering(Some(State::Open as i32)));
    assert!(is_recovering(Some(State::Recovering as i32)));
    assert_malformed(&with(Some(State::Closed as i32), None), "starts in state 4");
    assert_malformed(&with(Some(100), None), "starts in state 100");
    assert_malformed(&with(None, Some(2)), "container type 2");
}

#[test]
fn small_files_lists_and_reads_have_what_they_need() {
    let small = pb::PutSmallFileRequestProto {
        block: Some(put(Vec::new())),
        chunk_info: Some(chunk_of(0, b"data")),
        data: Some(Bytes::from_static(b"data")),
    };
    let with = |small| Message { put_small_file: Some(small), ..head(pb::Type::PutSmallFile) };
    match decode(&with(small.clone())).command {
        Ok(Command::PutSmallFile { put, .. }) => assert_eq!(put.block.chunks.len(), 1),
        other => panic!("{other:?}"),
    }
    assert_malformed(&with(pb::PutSmallFileRequestProto { block: None, ..small.clone() }), "block");
    assert_malformed(
        &with(pb::PutSmallFileRequestProto { chunk_info: None, ..small.clone() }),
        "chunk",
    );
    assert_malformed(&with(pb::PutSmallFileRequestProto { data: None, ..small }), "data");

    let list = |count, start_local_id| Message {
        list_block: Some(pb::ListBlockRequestProto { count, start_local_id }),
        ..head(pb::Type::ListBlock)
    };
    assert!(decode(&list(Some(u32::MAX), None)).command.is_ok());
    assert_malformed(&list(None, None), "count");
    assert_malformed(&list(Some(0), None), "0 blocks");
    assert_malformed(&list(Some(1), Some(-1)), "negative");

    let mut wrong = read(chunk_of(0, b"data"), None);
    wrong.read_chunk.as_mut().unwrap().read_chunk_version = Some(2);
    assert_malformed(&wrong, "version 2");
    let get = pb::GetSmallFileRequestProto::default();
    assert_malformed(
        &Message { get_small_file: Some(get), ..head(pb::Type::GetSmallFile) },
        "block",
    );
    let stream = pb::ReadBlockRequestProto { block_id: Some(block_id()), ..Default::default() };
    assert_malformed(&Message { read_block: Some(stream), ..head(pb::Type::ReadBlock) }, "offset");
}

#[test]
fn echoes_are_bounded() {
    let with = |bytes, pause_ms| {
        let echo = pb::EchoRequestProto {
            payload: None,
            payload_size_resp: Some(bytes),
            sleep_time_ms: Some(pause_ms),
        };
        Message { echo: Some(echo), ..head(pb::Type::Echo) }
    };
    let (bytes_max, pause_max) = (ECHO_BYTES_MAX as i32, ECHO_PAUSE_MS_MAX as i32);
    let good = decode(&with(bytes_max, pause_max));
    assert_eq!(good.pause_ms(), ECHO_PAUSE_MS_MAX);
    assert_eq!(
        good.command,
        Ok(Command::Echo { bytes: ECHO_BYTES_MAX, pause_ms: ECHO_PAUSE_MS_MAX })
    );
    assert_eq!(decode(&with(0, -5)).pause_ms(), 0);
    assert_malformed(&with(bytes_max + 1, 0), "an echo has");
    assert_malformed(&with(-1, 0), "an echo has");
    assert_malformed(&with(0, pause_max + 1), "an echo waits");
}

#[test]
fn commits_ride_along_with_their_own_block() {
    let mut message = write(0, b"data");
    let mut put = put(Vec::new());
    let of_block = put.block_data.as_mut().unwrap().block_id.as_mut().unwrap();
    of_block.local_id = Some(LOCAL + 1);
    message.write_chunk.as_mut().unwrap().block = Some(put);
    assert_malformed(&message, "another block");
}

#[test]
fn what_has_no_type_has_no_answer() {
    for cmd_type in [None, Some(0), Some(26), Some(-1)] {
        let message = Message { cmd_type, ..write(0, b"data") };
        let decoded = Request::decode(message.encode_to_vec().into());
        assert_eq!(decoded, Err(RequestError::NoType));
    }
}

#[test]
fn fields_that_are_not_ours_are_skipped() {
    let message = write(0, b"data");
    let mut bytes = message.encode_to_vec();
    // Field 5 is the pipeline, a text; field 24 the version, a number; field 200 has four bytes.
    bytes.extend_from_slice(b"\x2a\x03abc\xc0\x01\x03\xc5\x0c\x01\x02\x03\x04");
    assert_eq!(Request::decode(bytes.into()), Ok(decode(&message)));
}

#[test]
fn requests_cut_off_anywhere_are_refused_or_lack_something() {
    let bytes = Bytes::from(write(0, b"data").encode_to_vec());
    for length in 0..bytes.len() {
        let refused = match Request::decode(bytes.slice(..length)) {
            Err(_) => true,
            Ok(request) => request.command.is_err(),
        };
        assert!(refused, "cut off at {length}");
    }
}

#[test]
fn requests_have_so_many_bytes_and_no_more() {
    let padded = |length: usize| {
        let mut bytes = write(0, b"data").encode_to_vec();
        // Field 200 holds bytes; its tag takes two bytes, its length four.
        let rest = length - bytes.len() - 6;
        bytes.extend_from_slice(b"\xc2\x0c");
        prost::encode_length_delimiter(rest, &mut bytes).unwrap();
        bytes.resize(length, 0);
        Request::decode(bytes.into())
    };
    assert!(padded(REQUEST_BYTES_MAX).is_ok());
    let (bytes, bytes_max) = (REQUEST_BYTES_MAX + 1, REQUEST_BYTES_MAX);
    assert_eq!(padded(bytes), Err(RequestError::TooLarge { bytes, bytes_max }));
}

#[test]
fn parts_are_counted_before_anything_is_made_of_them() {
    // Bodies, block and chunk make three parts; each empty checksum takes two bytes.
    let with = |checksums: usize| {
        let mut chunk = chunk_of(0, b"");
        chunk.checksum_data.as_mut().unwrap().checksums = vec![Bytes::new(); checksums];
        Request::decode(put_block(vec![chunk]).encode_to_vec().into())
    };
    let others = 4;
    assert!(with(REQUEST_PARTS_MAX - others).is_ok());
    let too_many = Err(RequestError::TooManyParts { parts_max: REQUEST_PARTS_MAX });
    assert_eq!(with(REQUEST_PARTS_MAX - others + 1), too_many);
}
