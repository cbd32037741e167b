//! Tests the effects of requests on a store, and their answers.

use bytes::Bytes;
use prost::Message as _;
use storage::fault_disk::FaultDisk;

use super::{
    CONTAINER, LOCAL, Message, block_data, block_id, chunk_of, decode, head, pair, put, put_block,
    read, write,
};
use crate::block::BlockId;
use crate::checksum::{ChecksumData, ChecksumType};
use crate::crc::{crc32, crc32c};
use crate::store::{Durability, Store, StoreOptions};
use crate::wire::handler::{Handler, HandlerOptions};
use crate::wire::pb;
use crate::wire::pb::read_chunk_response_proto::ResponseData;

type Response = pb::ContainerCommandResponseProto;

/// A handler with an empty store, and helpers for requests and answers.
struct Rig {
    handler: Handler<FaultDisk>,
}

impl Rig {
    fn new() -> Rig {
        let store = Store::open(FaultDisk::new(1), StoreOptions::default()).unwrap();
        Rig { handler: Handler::new(store, HandlerOptions::default()) }
    }

    /// All answers to a request.
    fn answers(&self, message: Message) -> Vec<Response> {
        let mut answers = Vec::new();
        self.handler.handle(decode(&message), &mut |answer| {
            // Every answer can be decoded again.
            assert_eq!(Response::decode(answer.encode_to_vec().as_slice()).unwrap(), answer);
            answers.push(answer);
            true
        });
        answers
    }

    fn answer(&self, message: Message) -> Response {
        let kind = message.cmd_type;
        let mut answers = self.answers(message);
        assert_eq!(answers.len(), 1);
        let answer = answers.remove(0);
        assert_eq!(Some(answer.cmd_type), kind);
        answer
    }

    #[track_caller]
    fn ok(&self, message: Message) -> Response {
        let answer = self.answer(message);
        assert_eq!(answer.result(), pb::Result::Success, "{:?}", answer.message);
        answer
    }

    #[track_caller]
    fn refused(&self, message: Message, result: pb::Result) {
        let answer = self.answer(message);
        assert_eq!(answer.result(), result, "{:?}", answer.message);
        assert!(answer.message.is_some_and(|text| !text.is_empty()));
    }

    fn container(&self) -> pb::ContainerDataProto {
        let read_container = Some(pb::ReadContainerRequestProto {});
        let answer = self.ok(Message { read_container, ..head(pb::Type::ReadContainer) });
        answer.read_container.unwrap().container_data.unwrap()
    }

    fn state(&self) -> pb::container_data_proto::State {
        self.container().state()
    }
}

fn create() -> Message {
    let create_container = Some(pb::CreateContainerRequestProto::default());
    Message { create_container, ..head(pb::Type::CreateContainer) }
}

fn close() -> Message {
    let close_container = Some(pb::CloseContainerRequestProto {});
    Message { close_container, ..head(pb::Type::CloseContainer) }
}

fn delete(is_forced: bool) -> Message {
    let delete_container = Some(pb::DeleteContainerRequestProto { force_delete: Some(is_forced) });
    Message { delete_container, ..head(pb::Type::DeleteContainer) }
}

fn get_block() -> Message {
    let get_block = Some(pb::GetBlockRequestProto { block_id: Some(block_id()) });
    Message { get_block, ..head(pb::Type::GetBlock) }
}

fn get_length() -> Message {
    let get = pb::GetCommittedBlockLengthRequestProto { block_id: Some(block_id()) };
    let kind = pb::Type::GetCommittedBlockLength;
    Message { get_committed_block_length: Some(get), ..head(kind) }
}

fn get_checksums() -> Message {
    let get = pb::GetContainerChecksumInfoRequestProto { container_id: Some(CONTAINER) };
    let kind = pb::Type::GetContainerChecksumInfo;
    Message { get_container_checksum_info: Some(get), ..head(kind) }
}

fn list(start_local_id: Option<i64>, count: u32) -> Message {
    let list_block = Some(pb::ListBlockRequestProto { start_local_id, count: Some(count) });
    Message { list_block, ..head(pb::Type::ListBlock) }
}

fn read_block(offset: u64, length: Option<u64>, answer_bytes: u32) -> Message {
    let read_block = Some(pb::ReadBlockRequestProto {
        block_id: Some(block_id()),
        offset: Some(offset),
        length,
        response_data_size: Some(answer_bytes),
    });
    Message { read_block, ..head(pb::Type::ReadBlock) }
}

fn small_file(data: &'static [u8]) -> Message {
    let put_small_file = Some(pb::PutSmallFileRequestProto {
        block: Some(put(Vec::new())),
        chunk_info: Some(chunk_of(0, data)),
        data: Some(Bytes::from_static(data)),
    });
    Message { put_small_file, ..head(pb::Type::PutSmallFile) }
}

#[test]
fn what_was_written_and_committed_is_read() {
    let rig = Rig::new();
    rig.ok(create());
    rig.ok(write(0, b"abcdefgh"));
    rig.ok(write(8, b"ij"));
    let chunks = vec![chunk_of(0, b"abcdefgh"), chunk_of(8, b"ij")];
    let answer = rig.ok(put_block(chunks.clone()));
    assert_eq!(answer.put_block.unwrap().committed_block_length.block_length, 10);
    let block = rig.ok(get_block()).get_block.unwrap().block_data;
    assert_eq!((block.chunks, block.size), (chunks.clone(), Some(10)));
    let length = rig.ok(get_length()).get_committed_block_length.unwrap();
    assert_eq!(length.block_length, 10);

    let data = |version| {
        let answer = rig.ok(read(chunk_of(0, b"abcdefgh"), version)).read_chunk.unwrap();
        assert_eq!(answer.chunk_data, chunks[0]);
        assert_eq!(answer.block_id, block_id());
        answer.response_data.unwrap()
    };
    let whole = ResponseData::Data(Bytes::from_static(b"abcdefgh"));
    assert_eq!(data(None), whole);
    assert_eq!(data(Some(pb::ReadChunkVersion::V0)), whole);
    let buffers = vec![Bytes::from_static(b"abcd"), Bytes::from_static(b"efgh")];
    let pieces = ResponseData::DataBuffers(pb::DataBuffers { buffers });
    assert_eq!(data(Some(pb::ReadChunkVersion::V1)), pieces);

    let container = rig.container();
    assert_eq!((container.block_count, container.bytes_used), (Some(1), Some(10)));
}

#[test]
fn writes_make_their_container_unless_they_forbid_it() {
    for message in [write(0, b"data"), put_block(Vec::new()), small_file(b"data")] {
        let rig = Rig::new();
        rig.ok(message);
        assert_eq!(rig.state(), pb::container_data_proto::State::Open);
    }
    let rig = Rig::new();
    let mut message = write(0, b"data");
    message.write_chunk.as_mut().unwrap().container_auto_create = Some(false);
    rig.refused(message, pb::Result::ContainerNotFound);
    let mut message = put_block(Vec::new());
    message.put_block.as_mut().unwrap().container_auto_create = Some(false);
    rig.refused(message, pb::Result::ContainerNotFound);
    rig.refused(close(), pb::Result::ContainerNotFound);
}

#[test]
fn a_commit_that_rides_along_commits() {
    let rig = Rig::new();
    let mut message = write(0, b"data");
    message.write_chunk.as_mut().unwrap().block = Some(put(vec![chunk_of(0, b"data")]));
    let answer = rig.ok(message).write_chunk.unwrap();
    assert_eq!(answer.committed_block_length.unwrap().block_length, 4);
    assert_eq!(rig.ok(get_block()).get_block.unwrap().block_data.size, Some(4));
    assert_eq!(rig.ok(write(4, b"more")).write_chunk.unwrap().committed_block_length, None);
}

#[test]
fn answers_repeat_who_asked() {
    let rig = Rig::new();
    let message = Message {
        trace_id: Some("trace".to_string()),
        client_id: Some(Bytes::from_static(b"client")),
        call_id: Some(5),
        ..close()
    };
    let answer = rig.answer(message.clone());
    assert_eq!(answer.trace_id.as_deref(), Some("trace"));
    assert_eq!((answer.client_id.as_deref(), answer.call_id), (Some(&b"client"[..]), Some(5)));
    let answer = rig.answer(Message { client_id: None, ..message });
    assert_eq!((answer.client_id, answer.call_id), (None, None));
}

#[test]
fn refused_writes_leave_the_container_open() {
    let rig = Rig::new();
    rig.ok(write(0, b"data"));
    rig.refused(write(8, b"data"), pb::Result::ChunkFileInconsistency);
    let mut message = write(4, b"data");
    message.write_chunk.as_mut().unwrap().chunk_data.as_mut().unwrap().len = Some(5);
    rig.refused(message, pb::Result::InvalidWriteSize);
    let mut message = put_block(vec![chunk_of(0, b"data")]);
    let block = message.put_block.as_mut().unwrap().block_data.as_mut().unwrap();
    block.block_id.as_mut().unwrap().local_id = Some(LOCAL + 1);
    rig.refused(message, pb::Result::UnableToFindChunk);
    assert_eq!(rig.state(), pb::container_data_proto::State::Open);
    rig.ok(write(4, b"more"));
}

#[test]
fn reads_of_what_is_not_there_say_what_is_missing() {
    let rig = Rig::new();
    rig.refused(get_block(), pb::Result::ContainerNotFound);
    rig.refused(read(chunk_of(0, b"data"), None), pb::Result::ContainerNotFound);
    rig.ok(create());
    rig.refused(get_block(), pb::Result::NoSuchBlock);
    rig.refused(get_length(), pb::Result::NoSuchBlock);
    rig.refused(read(chunk_of(0, b"data"), None), pb::Result::UnableToFindChunk);
    rig.ok(write(0, b"data"));
    rig.ok(put_block(vec![chunk_of(0, b"data")]));
    let mut chunk = chunk_of(0, b"data");
    chunk.len = Some(5);
    rig.refused(read(chunk.clone(), None), pb::Result::ContainerInternalError);
    chunk.len = Some(32 * 1024 * 1024 + 1);
    rig.refused(read(chunk, None), pb::Result::UnsupportedRequest);
    let mut message = get_block();
    let block = message.get_block.as_mut().unwrap().block_id.as_mut().unwrap();
    block.block_commit_sequence_id = Some(9);
    rig.refused(message, pb::Result::UnknownBcsid);
}

#[test]
fn what_a_damaged_store_does_not_know_may_be_lost() {
    let disk = FaultDisk::new(1);
    drop(Store::open(disk.clone(), StoreOptions::default()).unwrap());
    disk.kill();
    disk.lose_tree("log");
    let store = Store::open(disk, StoreOptions::default()).unwrap();
    assert!(store.is_damaged());
    let rig = Rig { handler: Handler::new(store, HandlerOptions::default()) };
    rig.refused(get_block(), pb::Result::IoException);
    rig.refused(get_length(), pb::Result::IoException);
    rig.refused(read(chunk_of(0, b"data"), None), pb::Result::IoException);
    // Requests that write or delete still get the answer that the container is unknown.
    rig.refused(close(), pb::Result::ContainerNotFound);
    rig.ok(write(0, b"data"));
    rig.ok(read(chunk_of(0, b"data"), None));
    rig.refused(get_block(), pb::Result::IoException);
}

#[test]
fn closed_containers_are_read_and_deleted() {
    let rig = Rig::new();
    rig.ok(write(0, b"data"));
    rig.ok(put_block(vec![chunk_of(0, b"data")]));
    rig.refused(create(), pb::Result::ContainerAlreadyExists);
    rig.refused(get_checksums(), pb::Result::UnclosedContainerIo);
    rig.refused(delete(false), pb::Result::DeleteOnOpenContainer);
    rig.ok(close());
    rig.ok(close());
    rig.refused(write(4, b"more"), pb::Result::ClosedContainerIo);
    rig.refused(write(4, b""), pb::Result::ClosedContainerIo);
    rig.refused(put_block(Vec::new()), pb::Result::ClosedContainerIo);
    rig.ok(read(chunk_of(0, b"data"), None));
    rig.refused(delete(false), pb::Result::DeleteOnNonEmptyContainer);
    rig.ok(delete(true));
    rig.refused(get_block(), pb::Result::ContainerNotFound);
}

#[test]
fn unhealthy_containers_take_nothing() {
    let rig = Rig::new();
    rig.ok(create());
    rig.handler.store.mark_unhealthy(CONTAINER as u64).unwrap();
    rig.refused(write(0, b"data"), pb::Result::ContainerUnhealthy);
    rig.refused(close(), pb::Result::ContainerUnhealthy);
}

#[test]
fn a_chunk_of_nothing_is_nothing() {
    let rig = Rig::new();
    rig.ok(write(0, b""));
    let answer = rig.ok(read(chunk_of(0, b""), None)).read_chunk.unwrap();
    assert_eq!(answer.response_data, Some(ResponseData::Data(Bytes::new())));
    rig.refused(get_block(), pb::Result::NoSuchBlock);
}

#[test]
fn small_files_come_back_whole() {
    let rig = Rig::new();
    let answer = rig.ok(small_file(b"abcdefgh")).put_small_file.unwrap();
    assert_eq!(answer.committed_block_length.block_length, 8);
    let get = |version| {
        let block = Some(pb::GetBlockRequestProto { block_id: Some(block_id()) });
        let get = pb::GetSmallFileRequestProto { block, read_chunk_version: version };
        let message = Message { get_small_file: Some(get), ..head(pb::Type::GetSmallFile) };
        rig.ok(message).get_small_file.unwrap().data.response_data.unwrap()
    };
    assert_eq!(get(None), ResponseData::Data(Bytes::from_static(b"abcdefgh")));
    let buffers = vec![Bytes::from_static(b"abcd"), Bytes::from_static(b"efgh")];
    assert_eq!(get(Some(1)), ResponseData::DataBuffers(pb::DataBuffers { buffers }));
}

#[test]
fn lists_begin_where_they_are_told_to() {
    let rig = Rig::new();
    for local_id in [30, 10, 20] {
        let mut block_data = block_data(Vec::new());
        block_data.block_id.as_mut().unwrap().local_id = Some(local_id);
        let put = pb::PutBlockRequestProto { block_data: Some(block_data), ..Default::default() };
        rig.ok(Message { put_block: Some(put), ..head(pb::Type::PutBlock) });
    }
    let ids = |start, count| -> Vec<i64> {
        let blocks = rig.ok(list(start, count)).list_block.unwrap().block_data;
        blocks.iter().map(|block| block.block_id.as_ref().unwrap().local_id()).collect()
    };
    assert_eq!(ids(None, 10), [10, 20, 30]);
    assert_eq!(ids(Some(20), u32::MAX), [20, 30]);
    assert_eq!(ids(Some(11), 1), [20]);
    assert_eq!(ids(Some(i64::MAX), 1), []);
}

#[test]
fn metadata_of_a_closed_container_change_only_by_force() {
    let rig = Rig::new();
    let update = |is_forced, key| {
        let update = pb::UpdateContainerRequestProto {
            metadata: vec![pair(key, Some("value"))],
            force_update: Some(is_forced),
        };
        Message { update_container: Some(update), ..head(pb::Type::UpdateContainer) }
    };
    rig.refused(update(false, "one"), pb::Result::ContainerNotFound);
    rig.ok(create());
    rig.ok(update(false, "one"));
    assert_eq!(rig.container().metadata, [pair("one", Some("value"))]);
    rig.ok(close());
    rig.refused(update(false, "two"), pb::Result::UnsupportedRequest);
}

#[test]
fn an_echo_has_the_bytes_that_are_wished() {
    let rig = Rig::new();
    let echo = pb::EchoRequestProto { payload_size_resp: Some(2048), ..Default::default() };
    let message = Message { echo: Some(echo), ..head(pb::Type::Echo) };
    rig.refused(message.clone(), pb::Result::ContainerNotFound);
    rig.ok(create());
    assert_eq!(rig.ok(message).echo.unwrap().payload.unwrap().len(), 2048);
}

#[test]
fn only_parts_of_stripes_look_at_whom_they_are_for() {
    let rig = Rig::new();
    rig.ok(write(0, b"data"));
    rig.ok(delete(true));

    let mut striped = create();
    striped.create_container.as_mut().unwrap().replica_index = Some(2);
    rig.refused(striped.clone(), pb::Result::InvalidArgument);
    let mut riding = write(0, b"data");
    let block = riding.write_chunk.as_mut().unwrap().block_id.as_mut().unwrap();
    block.replica_index = Some(2);
    rig.refused(riding.clone(), pb::Result::InvalidArgument);

    let uuid = Some(rig.handler.store.datanode_uuid());
    striped.datanode_uuid = uuid.clone();
    rig.ok(striped);
    rig.refused(riding.clone(), pb::Result::InvalidArgument);
    riding.datanode_uuid = uuid.clone();
    rig.ok(riding);
    rig.ok(Message { datanode_uuid: uuid.clone(), ..put_block(vec![chunk_of(0, b"data")]) });

    let get = |index| {
        let mut message = Message { datanode_uuid: uuid.clone(), ..get_block() };
        let block = message.get_block.as_mut().unwrap().block_id.as_mut().unwrap();
        block.replica_index = index;
        message
    };
    rig.ok(get(None));
    rig.ok(get(Some(0)));
    rig.ok(get(Some(2)));
    rig.refused(get(Some(3)), pb::Result::ContainerNotFound);
}

#[test]
fn parts_of_blocks_carry_their_own_checksums() {
    let rig = Rig::new();
    // Checksums of four bytes. The length of the first chunk is a multiple of four, the others' are
    // not.
    let chunks: [&'static [u8]; 4] = [b"abcdefgh", b"ijklm", b"n", b"opqrstu"];
    let whole = chunks.concat();
    let (mut offset, mut infos) = (0, Vec::new());
    for data in chunks {
        rig.ok(write(offset, data));
        infos.push(chunk_of(offset, data));
        offset += data.len() as u64;
    }
    rig.ok(put_block(infos));
    for start in 0..whole.len() {
        for length in [None, Some(1), Some(6), Some(100)] {
            for answer_bytes in [0, 1, 4, 8] {
                let message = read_block(start as u64, length, answer_bytes);
                let (from, data) = joined(rig.answers(message), answer_bytes);
                assert!(from <= start && start - from < 4);
                assert_eq!(data, whole[from..from + data.len()]);
                let end = length.map_or(whole.len(), |length| start + length as usize);
                assert!(from + data.len() >= end.min(whole.len()));
            }
        }
    }
    assert_eq!(rig.answers(read_block(0, Some(0), 0)), []);
    rig.refused(read_block(whole.len() as u64, None, 0), pb::Result::ContainerInternalError);
}

/// Where the answers begin, and their data. Verifies each answer as a reader would.
fn joined(answers: Vec<Response>, answer_bytes: u32) -> (usize, Vec<u8>) {
    let (mut from, mut data) = (None, Vec::new());
    for answer in answers {
        assert_eq!(answer.result(), pb::Result::Success, "{:?}", answer.message);
        let part = answer.read_block.unwrap();
        let from = *from.get_or_insert(part.offset as usize);
        assert_eq!(part.offset as usize, from + data.len());
        assert!(answer_bytes == 0 || part.data.len() <= answer_bytes.max(4) as usize);
        let sums = ChecksumData::of(ChecksumType::Crc32, 4, &part.data);
        assert_eq!(part.checksum_data.checksums, sums.checksums);
        data.extend_from_slice(&part.data);
    }
    (from.unwrap(), data)
}

#[test]
fn nothing_more_is_read_for_a_reader_that_is_gone() {
    let rig = Rig::new();
    rig.ok(write(0, b"abcdefgh"));
    rig.ok(put_block(vec![chunk_of(0, b"abcdefgh")]));
    let mut count = 0;
    rig.handler.handle(decode(&read_block(0, None, 4)), &mut |_| {
        count += 1;
        false
    });
    assert_eq!(count, 1);
}

#[test]
fn the_checksums_of_a_container_are_those_of_its_blocks() {
    let rig = Rig::new();
    rig.ok(write(0, b"abcdefgh"));
    rig.ok(write(8, b"ij"));
    rig.ok(put_block(vec![chunk_of(0, b"abcdefgh"), chunk_of(8, b"ij")]));
    rig.ok(close());
    let answer = rig.ok(get_checksums()).get_container_checksum_info.unwrap();
    let info = answer.container_checksum_info.unwrap();
    let info = pb::ContainerChecksumInfo::decode(info).unwrap();
    assert_eq!(info.container_id, Some(CONTAINER));
    let tree = info.container_merkle_tree.unwrap();

    let sum = |parts: &[&[u8]]| i64::from(crc32c(&parts.concat()));
    let crc = |data: &[u8]| crc32(data).to_be_bytes();
    let first = sum(&[&crc(b"abcd"), &crc(b"efgh")]);
    let second = sum(&[&crc(b"ij")]);
    let block = sum(&[&LOCAL.to_be_bytes(), &first.to_be_bytes(), &second.to_be_bytes()]);
    assert_eq!(tree.data_checksum, Some(sum(&[&block.to_be_bytes()])));
    let [block_tree] = &tree.block_merkle_tree[..] else { panic!("there is one block") };
    assert_eq!((block_tree.block_id, block_tree.data_checksum), (Some(LOCAL), Some(block)));
    assert_eq!(block_tree.deleted, Some(false));
    let chunks: Vec<_> = block_tree
        .chunk_merkle_tree
        .iter()
        .map(|chunk| {
            (chunk.offset(), chunk.length(), chunk.data_checksum(), chunk.checksum_matches())
        })
        .collect();
    assert_eq!(chunks, [(0, 8, first, true), (8, 2, second, true)]);
}

#[test]
fn only_what_waits_for_nothing_is_quick() {
    let rig = Rig::new();
    let is_quick = |message: &Message| rig.handler.is_quick(&decode(message), 4);
    assert!(is_quick(&write(0, b"data")));
    assert!(!is_quick(&write(0, b"data+")));
    let mut riding = write(0, b"data");
    riding.write_chunk.as_mut().unwrap().block = Some(put(Vec::new()));
    assert!(!is_quick(&riding));
    assert!(!is_quick(&put_block(Vec::new())));
    assert!(!is_quick(&read(chunk_of(0, b"data"), None)));
    assert!(is_quick(&head(pb::Type::ListChunk)));
    let options = HandlerOptions {
        chunk_durability: Durability::GroupSynced,
        block_durability: Durability::Buffered,
    };
    let store = Store::open(FaultDisk::new(1), StoreOptions::default()).unwrap();
    let handler = Handler::new(store, options);
    assert!(!handler.is_quick(&decode(&write(0, b"data")), 4));
    assert!(handler.is_quick(&decode(&riding), 4));
}

#[test]
fn answers_about_blocks_of_many_chunks_are_known_to_be_large_before_they_are_made() {
    let rig = Rig::new();
    let room = |message: Message| rig.handler.answer_bytes(&decode(&message));
    assert_eq!(room(get_block()), 0);
    let chunks: Vec<pb::ChunkInfo> = (0..500)
        .map(|number| {
            rig.ok(write(8 * number, b"abcdefgh"));
            chunk_of(8 * number, b"abcdefgh")
        })
        .collect();
    rig.ok(put_block(chunks));
    let finalize = pb::FinalizeBlockRequestProto { block_id: Some(block_id()) };
    let finalize = Message { finalize_block: Some(finalize), ..head(pb::Type::FinalizeBlock) };
    for message in [get_block(), finalize, read_block(0, None, 4), put_block(Vec::new())] {
        // Each chunk takes about 200 bytes in each of the two forms.
        assert!(room(message.clone()) > 500 * 400, "{message:?}");
    }
    // The estimate is not too low.
    let answer = rig.ok(get_block());
    assert!(answer.encoded_len() < room(get_block()));
}

#[test]
fn a_block_is_read_a_part_at_a_time_and_each_is_known_before() {
    let rig = Rig::new();
    rig.ok(write(0, b"abcdefgh"));
    rig.ok(write(8, b"ijklm"));
    rig.ok(put_block(vec![chunk_of(0, b"abcdefgh"), chunk_of(8, b"ijklm")]));
    let mut step = rig.handler.begin(decode(&read_block(0, None, 4)));
    assert_eq!(step.answer, None);
    let mut lengths = Vec::new();
    while let Some(mut rest) = step.rest {
        let bytes = rest.answer_bytes();
        step = rig.handler.go_on(rest);
        let Some(answer) = step.answer.take() else { break };
        let data = answer.read_block.unwrap().data;
        assert_eq!(bytes, 2 * data.len());
        lengths.push(data.len());
    }
    assert_eq!(lengths, [4, 4, 4, 1]);
}

#[test]
fn a_list_of_blocks_that_are_large_is_fetched_a_few_at_a_time() {
    let rig = Rig::new();
    rig.ok(write(0, b"abcdefgh"));
    rig.ok(put_block(vec![chunk_of(0, b"abcdefgh")]));
    let store = &rig.handler.store;
    let bytes = store.commit_bytes(BlockId { container_id: 7, local_id: 9 });
    let count = |count_max, bytes_max| store.block_count_within(7, 0, count_max, bytes_max);
    assert!(bytes > 0);
    // A block with a large commit is read alone.
    assert_eq!(count(10, 0).unwrap(), 1);
    let other = pb::DatanodeBlockId { local_id: Some(10), ..block_id() };
    let mut message = write(0, b"abcdefgh");
    message.write_chunk.as_mut().unwrap().block_id = Some(other);
    rig.ok(message);
    let mut message = put_block(vec![chunk_of(0, b"abcdefgh")]);
    let put = message.put_block.as_mut().unwrap();
    put.block_data.as_mut().unwrap().block_id = Some(other);
    rig.ok(message);
    assert_eq!(count(10, 2 * bytes - 1).unwrap(), 1);
    assert_eq!(count(10, 2 * bytes).unwrap(), 2);
    assert_eq!(count(1, 2 * bytes).unwrap(), 1);
}
