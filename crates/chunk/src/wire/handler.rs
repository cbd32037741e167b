//! Runs requests on the store and makes their answers.

use bytes::Bytes;
use prost::Message as _;
use storage::disk::Disk;

use super::checksum_tree::ChecksumTree;
use super::command::{BlockReference, Command, PutBlock, Request};
use super::convert::{
    block_data_to_pb, block_reference_to_pb, checksum_to_pb, chunk_to_pb, metadata_to_pb,
    state_to_pb,
};
use super::pb;
use super::read_block::Parts;
use super::refusal::Refusal;
use crate::block::{BlockId, ChunkInfo, KeyValue};
use crate::checksum::ChecksumType;
use crate::container::{ContainerInfo, ContainerSpec, State};
use crate::error::ChunkError;
use crate::limits::{
    ANSWER_BYTES_MAX, BLOCKS_PER_PAGE, CHUNK_BYTES_MAX, COMMIT_MEMORY_TIMES,
    READ_CHUNK_PIECE_BYTES_DEFAULT, READ_CHUNK_PIECES_MAX,
};
use crate::store::{Durability, Stage, Store, WriteMode};

/// An answer with only the fields of its type.
type Body = pb::ContainerCommandResponseProto;

/// How durable data are when an answer is sent. Ozone's datanode promises nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerOptions {
    /// For a WriteChunk without a commit.
    pub chunk_durability: Durability,
    /// For a PutBlock (alone, with a WriteChunk or in a PutSmallFile) and the chunks that it names.
    pub block_durability: Durability,
}

impl Default for HandlerOptions {
    /// A committed block is on disk. A chunk is not yet: its writer keeps it until its commit.
    fn default() -> HandlerOptions {
        HandlerOptions {
            chunk_durability: Durability::Buffered,
            block_durability: Durability::GroupSynced,
        }
    }
}

/// Serves a store to Ozone's clients. Many threads call one handler.
#[derive(Debug)]
pub struct Handler<D: Disk> {
    /// The store.
    pub store: Store<D>,
    options: HandlerOptions,
    datanode_uuid: String,
}

impl<D: Disk + Clone> Handler<D> {
    /// A handler for this store.
    pub fn new(store: Store<D>, options: HandlerOptions) -> Handler<D> {
        let datanode_uuid = store.datanode_uuid();
        Handler { store, options, datanode_uuid }
    }

    /// Whether the request takes no longer than copying `bytes_max` bytes: it reads nothing from
    /// disk and waits for no sync. The store has occasional extra work, for a full segment or a new
    /// container, only once in many requests.
    pub fn is_quick(&self, request: &Request, bytes_max: usize) -> bool {
        match &request.command {
            Err(_) => true,
            Ok(Command::ReadContainer | Command::GetCommittedBlockLength(_)) => {
                self.answer_bytes(request) <= bytes_max
            }
            Ok(Command::WriteChunk { data, put, .. }) => {
                let is_buffered = |durability| durability == Durability::Buffered;
                data.len() <= bytes_max
                    && match put {
                        None => is_buffered(self.options.chunk_durability),
                        Some(_) => is_buffered(self.options.block_durability),
                    }
            }
            Ok(Command::Echo { bytes, .. }) => *bytes <= bytes_max,
            Ok(_) => false,
        }
    }

    /// Bytes of memory that the first step of a request takes besides the request itself: for its
    /// answer and the data read for it. Costs little more than a lookup.
    pub fn answer_bytes(&self, request: &Request) -> usize {
        let data = |bytes: u64| bytes.min(CHUNK_BYTES_MAX) as usize * 2;
        let of_commit = |id: BlockId| {
            (self.store.commit_bytes(id) as usize).saturating_mul(COMMIT_MEMORY_TIMES)
        };
        match &request.command {
            Ok(Command::ReadChunk { chunk, .. }) => data(chunk.length),
            Ok(Command::GetSmallFile { block, .. }) => {
                let length = self.store.committed_length(block.id).unwrap_or(0);
                data(length).saturating_add(of_commit(block.id))
            }
            Ok(
                Command::GetBlock(block)
                | Command::FinalizeBlock(block)
                | Command::GetCommittedBlockLength(block)
                | Command::ReadBlock { block, .. },
            ) => of_commit(block.id),
            // The new list of chunks may be added to the old one.
            Ok(
                Command::PutBlock(put)
                | Command::WriteChunk { put: Some(put), .. }
                | Command::PutSmallFile { put, .. },
            ) => of_commit(put.block.id),
            Ok(Command::Echo { bytes, .. }) => data(*bytes as u64),
            Ok(Command::ReadContainer | Command::UpdateContainer { .. }) => {
                let bytes = self.store.container_metadata_bytes(request.container_id) as usize;
                bytes.saturating_mul(COMMIT_MEMORY_TIMES)
            }
            Ok(Command::ListBlock { .. } | Command::GetContainerChecksumInfo) => {
                ANSWER_BYTES_MAX * COMMIT_MEMORY_TIMES
            }
            Ok(_) | Err(_) => 0,
        }
    }

    /// Starts a request, and returns its answer. For a ReadBlock, this first step only finds the
    /// block; the steps that follow read it, with one answer each.
    pub fn begin(&self, request: Request) -> Step {
        let Request { kind, trace_id, client_call, datanode_uuid, container_id, command } = request;
        let head = Head { kind, trace_id, client_call };
        let done = command.and_then(|command| {
            self.check_replica(&datanode_uuid, container_id, &command)?;
            match command {
                Command::ReadBlock { block, offset, length, answer_bytes } => {
                    let range = Range { offset, length, answer_bytes };
                    Ok((None, self.find_parts(&block, &range)?.map(|parts| (block, parts))))
                }
                command => Ok((Some(self.run(container_id, command)?), None)),
            }
        });
        match done {
            Ok((body, found)) => {
                let answer = body.map(|body| head.success(body));
                let rest = found.map(|(block, parts)| Rest { head, block, parts });
                Step { answer, rest }
            }
            Err(refusal) if head.is_read() && self.store.is_damaged() => {
                Step { answer: Some(head.refused(refusal.of_damaged_store())), rest: None }
            }
            Err(refusal) => Step { answer: Some(head.refused(refusal)), rest: None },
        }
    }

    /// Reads the next part of a block, and returns an answer with it.
    pub fn go_on(&self, mut rest: Rest) -> Step {
        match self.read_part(&mut rest) {
            Ok(None) => Step { answer: None, rest: None },
            Ok(Some(body)) => Step { answer: Some(rest.head.success(body)), rest: Some(rest) },
            Err(refusal) => Step { answer: Some(rest.head.refused(refusal)), rest: None },
        }
    }

    /// Runs a request to its end and passes its answers to `answer`: one, or for a ReadBlock
    /// several. Stops early if `answer` returns false.
    pub fn handle(
        &self,
        request: Request,
        answer: &mut dyn FnMut(pb::ContainerCommandResponseProto) -> bool,
    ) {
        let mut step = self.begin(request);
        loop {
            if step.answer.is_some_and(|it| !answer(it)) {
                return;
            }
            let Some(rest) = step.rest else { return };
            step = self.go_on(rest);
        }
    }

    /// Checks that a request for a part of an erasure-coded stripe came to the right datanode
    /// (`KeyValueHandler.validateRequestDatanodeId`), and that a read came to the right part
    /// (`BlockUtils.verifyReplicaIdx`). Without stripes nothing is checked.
    fn check_replica(
        &self,
        datanode_uuid: &str,
        container_id: u64,
        command: &Command,
    ) -> Result<(), Refusal> {
        let is_other_node = datanode_uuid != self.datanode_uuid;
        let read_index = match command {
            Command::GetBlock(block)
            | Command::ReadChunk { block, .. }
            | Command::ReadBlock { block, .. } => block.replica_index.filter(|&index| index != 0),
            _ => None,
        };
        if !is_other_node && read_index.is_none() {
            return Ok(());
        }
        let own_index = match (self.store.container(container_id), command) {
            (Ok(container), _) => container.replica_index,
            (Err(_), Command::CreateContainer(spec)) => spec.replica_index,
            (Err(_), Command::WriteChunk { block, .. }) => block.replica_index,
            (Err(_), Command::PutBlock(put)) => put.block.replica_index,
            (Err(_), _) => None,
        };
        let Some(own_index) = own_index.filter(|&index| index != 0) else { return Ok(()) };
        if is_other_node {
            return Err(Refusal::new(
                pb::Result::InvalidArgument,
                format!("this is datanode {}, not {datanode_uuid}", self.datanode_uuid),
            ));
        }
        match read_index.filter(|&index| index != own_index) {
            None => Ok(()),
            Some(index) => Err(Refusal::new(
                pb::Result::ContainerNotFound,
                format!("container {container_id} is replica {own_index}, not {index}"),
            )),
        }
    }

    fn run(&self, container_id: u64, command: Command) -> Result<Body, Refusal> {
        let mut body = Body::default();
        match command {
            Command::CreateContainer(spec) => {
                self.store.create_container(container_id, &spec)?;
                body.create_container = Some(pb::CreateContainerResponseProto {});
            }
            Command::ReadContainer => {
                let container_data = Some(container_to_pb(&self.store.container(container_id)?));
                body.read_container = Some(pb::ReadContainerResponseProto { container_data });
            }
            Command::UpdateContainer { metadata, is_forced } => {
                self.update_container(container_id, &metadata, is_forced)?;
                body.update_container = Some(pb::UpdateContainerResponseProto {});
            }
            Command::DeleteContainer { is_forced } => {
                self.store.delete_container(container_id, is_forced)?;
                body.delete_container = Some(pb::DeleteContainerResponseProto {});
            }
            Command::CloseContainer => {
                self.store.close_container(container_id)?;
                body.close_container = Some(pb::CloseContainerResponseProto {});
            }
            Command::PutBlock(put) => {
                let committed_block_length = self.put_block(&put)?;
                body.put_block = Some(pb::PutBlockResponseProto { committed_block_length });
            }
            Command::GetBlock(block) => {
                let block_data = block_data_to_pb(&self.block(&block)?);
                body.get_block = Some(pb::GetBlockResponseProto { block_data });
            }
            Command::ListBlock { start_local_id, count_max } => {
                let block_data = self.list_block(container_id, start_local_id, count_max)?;
                body.list_block = Some(pb::ListBlockResponseProto { block_data });
            }
            Command::ReadChunk { block, chunk, version } => {
                body.read_chunk = Some(self.read_chunk(&block, &chunk, version)?);
            }
            Command::WriteChunk { block, chunk, data, put, is_creating } => {
                let creating = is_creating.then_some(block.replica_index);
                self.write_chunk(block.id, &chunk, &data, creating, put.is_some())?;
                let put = put.as_ref().map(|put| self.put_block(put));
                let committed_block_length = put.transpose()?;
                body.write_chunk = Some(pb::WriteChunkResponseProto { committed_block_length });
            }
            Command::PutSmallFile { put, data } => {
                body.put_small_file = Some(self.put_small_file(&put, &data)?);
            }
            Command::GetSmallFile { block, version } => {
                let data = self.get_small_file(&block, version)?;
                body.get_small_file = Some(pb::GetSmallFileResponseProto { data });
            }
            Command::GetCommittedBlockLength(block) => {
                body.get_committed_block_length = Some(self.committed_length(&block)?);
            }
            Command::FinalizeBlock(block) => {
                let block_data = block_data_to_pb(&self.store.finalize_block(block.id)?);
                body.finalize_block = Some(pb::FinalizeBlockResponseProto { block_data });
            }
            Command::Echo { bytes, .. } => {
                body.echo = Some(self.echo(container_id, bytes)?);
            }
            Command::GetContainerChecksumInfo => {
                body.get_container_checksum_info = Some(self.checksum_info(container_id)?);
            }
            Command::ReadBlock { .. } => unreachable!("it has several answers"),
        }
        Ok(body)
    }

    fn update_container(
        &self,
        container_id: u64,
        metadata: &[KeyValue],
        is_forced: bool,
    ) -> Result<(), Refusal> {
        let container = self.store.container(container_id)?;
        if !container.state.takes_writes() && !is_forced {
            let message = "a closed container is updated only by force";
            return Err(Refusal::unsupported(message));
        }
        if !metadata.is_empty() {
            self.store.update_container_metadata(container_id, metadata)?;
        }
        Ok(())
    }

    /// Writes a chunk. `is_committed`: a commit follows, and its sync covers the chunk. `creating`
    /// is `Some` if a missing container may be made, with the replica index for it.
    fn write_chunk(
        &self,
        id: BlockId,
        chunk: &ChunkInfo,
        data: &[u8],
        creating: Option<Option<u32>>,
        is_committed: bool,
    ) -> Result<(), ChunkError> {
        let durability =
            if is_committed { Durability::Buffered } else { self.options.chunk_durability };
        let mode = WriteMode { stage: Stage::Combined, durability };
        self.in_container(id.container_id, creating, || {
            // Ozone, too, neither writes nothing nor makes an empty file.
            if chunk.length == 0 && data.is_empty() {
                let container = self.store.container(id.container_id)?;
                return match container.state.takes_writes() {
                    true => Ok(()),
                    false => Err(ChunkError::WrongState {
                        container_id: id.container_id,
                        state: container.state,
                        what: "chunks",
                    }),
                };
            }
            self.store.write_chunk(id, chunk, data, mode)
        })
    }

    fn put_block(
        &self,
        put: &PutBlock,
    ) -> Result<pb::GetCommittedBlockLengthResponseProto, ChunkError> {
        let creating = put.is_creating.then_some(put.block.replica_index);
        let durability = self.options.block_durability;
        let length = self.in_container(put.block.id.container_id, creating, || {
            self.store.put_block(&put.block, put.is_end_of_block, durability)
        })?;
        Ok(committed(put, length))
    }

    fn put_small_file(
        &self,
        put: &PutBlock,
        data: &[u8],
    ) -> Result<pb::PutSmallFileResponseProto, ChunkError> {
        let creating = put.is_creating.then_some(None);
        for chunk in &put.block.chunks {
            self.write_chunk(put.block.id, chunk, data, creating, true)?;
        }
        let committed_block_length = self.put_block(put)?;
        Ok(pb::PutSmallFileResponseProto { committed_block_length })
    }

    /// Runs `act`. If the container does not exist and `creating` is set, makes it and tries again.
    fn in_container<T>(
        &self,
        container_id: u64,
        creating: Option<Option<u32>>,
        act: impl Fn() -> Result<T, ChunkError>,
    ) -> Result<T, ChunkError> {
        match (act(), creating) {
            (Err(ChunkError::NoSuchContainer { .. }), Some(replica_index)) => {
                let replica_index = replica_index.filter(|&index| index != 0);
                let spec = ContainerSpec { replica_index, ..ContainerSpec::default() };
                match self.store.create_container(container_id, &spec) {
                    // Another thread was faster and made the same container.
                    Ok(()) | Err(ChunkError::ContainerExists { .. }) => act(),
                    Err(error) => Err(error),
                }
            }
            (done, _) => done,
        }
    }

    fn block(&self, block: &BlockReference) -> Result<crate::block::BlockData, ChunkError> {
        self.store.block(block.id, block.commit_sequence_id.unwrap_or(0))
    }

    fn committed_length(
        &self,
        block: &BlockReference,
    ) -> Result<pb::GetCommittedBlockLengthResponseProto, ChunkError> {
        let length = match block.commit_sequence_id {
            None | Some(0) => self.store.committed_length(block.id)?,
            Some(_) => self.block(block)?.length(),
        };
        Ok(pb::GetCommittedBlockLengthResponseProto {
            block_id: block_reference_to_pb(block),
            block_length: length.cast_signed(),
        })
    }

    /// Returns as many blocks as the client asks for, or refuses: a client that gets fewer would
    /// take them for the whole list.
    fn list_block(
        &self,
        container_id: u64,
        start_local_id: u64,
        count_max: u32,
    ) -> Result<Vec<pb::BlockData>, Refusal> {
        let mut list: Vec<pb::BlockData> = Vec::new();
        let mut bytes = 0_usize;
        self.each_block(container_id, start_local_id, count_max as usize, &mut |block| {
            let block = block_data_to_pb(block);
            bytes = bytes.saturating_add(block.encoded_len());
            list.push(block);
            check_answer_bytes(bytes)
        })?;
        Ok(list)
    }

    /// Passes at most `count_max` committed blocks to `take`, ordered by local id.
    fn each_block(
        &self,
        container_id: u64,
        start_local_id: u64,
        count_max: usize,
        take: &mut dyn FnMut(&crate::block::BlockData) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let (mut start, mut left) = (Some(start_local_id), count_max);
        while let (Some(from), 1..) = (start, left) {
            let count_max = left.min(BLOCKS_PER_PAGE);
            let bytes_max = ANSWER_BYTES_MAX as u64;
            let wanted = self.store.block_count_within(container_id, from, count_max, bytes_max)?;
            let page = self.store.blocks(container_id, from, wanted)?;
            for block in &page {
                take(block)?;
            }
            left -= page.len().min(left);
            start = page.last().and_then(|last| last.id.local_id.checked_add(1));
        }
        Ok(())
    }

    /// Appends the bytes of the chunk to `data`. If the block does not exist, the error is that the
    /// chunk does not exist; Ozone, too, looks only for a file.
    fn read(
        &self,
        block: &BlockReference,
        chunk: &ChunkInfo,
        data: &mut Vec<u8>,
    ) -> Result<(), ChunkError> {
        if chunk.length == 0 {
            self.store.container(block.id.container_id)?;
            return Ok(());
        }
        let commit_sequence_id = block.commit_sequence_id.unwrap_or(0);
        self.store.read_chunk(block.id, chunk, commit_sequence_id, data).map_err(
            |error| match error {
                ChunkError::NoSuchBlock(id) => {
                    ChunkError::NoSuchChunk { id, name: chunk.name.clone() }
                }
                error => error,
            },
        )
    }

    fn read_chunk(
        &self,
        block: &BlockReference,
        chunk: &ChunkInfo,
        version: pb::ReadChunkVersion,
    ) -> Result<pb::ReadChunkResponseProto, Refusal> {
        let mut data = room(chunk.length)?;
        self.read(block, chunk, &mut data)?;
        Ok(pb::ReadChunkResponseProto {
            block_id: block_reference_to_pb(block),
            chunk_data: chunk_to_pb(chunk),
            response_data: Some(match version {
                pb::ReadChunkVersion::V0 => ResponseData::Data(data.into()),
                pb::ReadChunkVersion::V1 => {
                    ResponseData::DataBuffers(pb::DataBuffers { buffers: pieces(data, chunk) })
                }
            }),
        })
    }

    /// Returns the data of all chunks, with the description of the last one, as Ozone does.
    fn get_small_file(
        &self,
        block: &BlockReference,
        version: pb::ReadChunkVersion,
    ) -> Result<pb::ReadChunkResponseProto, Refusal> {
        let committed = self.block(block)?;
        let Some(last) = committed.chunks.last() else {
            let message = format!("block {} has no chunk", block.id.local_id);
            return Err(Refusal::new(pb::Result::GetSmallFileError, message));
        };
        let mut data = room(committed.length())?;
        let mut buffers = Vec::new();
        for chunk in &committed.chunks {
            self.read(block, chunk, &mut data)?;
            if version == pb::ReadChunkVersion::V1 {
                buffers.extend(pieces(std::mem::take(&mut data), chunk));
            }
        }
        Ok(pb::ReadChunkResponseProto {
            block_id: block_reference_to_pb(block),
            chunk_data: chunk_to_pb(last),
            response_data: Some(match version {
                pb::ReadChunkVersion::V0 => ResponseData::Data(data.into()),
                pb::ReadChunkVersion::V1 => ResponseData::DataBuffers(pb::DataBuffers { buffers }),
            }),
        })
    }

    /// The parts that a ReadBlock is answered in; `None` if the range is empty.
    fn find_parts(&self, block: &BlockReference, range: &Range) -> Result<Option<Parts>, Refusal> {
        let committed = self.block(block)?;
        let (id, length) = (block.id, committed.length());
        if range.offset >= length {
            let end = range.offset.saturating_add(1);
            return Err(ChunkError::PastTheEnd { id, length, end }.into());
        }
        let end = range.length.map_or(length, |wanted| range.offset.saturating_add(wanted));
        let is_empty = end <= range.offset;
        let parts = Parts::new(committed, range.offset, end.min(length), range.answer_bytes);
        Ok((!is_empty).then_some(parts))
    }

    fn read_part(&self, rest: &mut Rest) -> Result<Option<Body>, Refusal> {
        let Some(part) = rest.parts.next().transpose()? else { return Ok(None) };
        let mut data = room(part.chunk.length)?;
        self.read(&rest.block, &part.chunk, &mut data)?;
        let read_block = Some(pb::ReadBlockResponseProto {
            checksum_data: checksum_to_pb(&part.checksum),
            offset: part.chunk.offset,
            data: data.into(),
        });
        Ok(Some(Body { read_block, ..Body::default() }))
    }

    fn echo(&self, container_id: u64, bytes: usize) -> Result<pb::EchoResponseProto, ChunkError> {
        self.store.container(container_id)?;
        Ok(pb::EchoResponseProto { payload: Some(vec![0; bytes].into()) })
    }

    /// The checksums of all committed blocks of a container that takes no more writes.
    fn checksum_info(
        &self,
        container_id: u64,
    ) -> Result<pb::GetContainerChecksumInfoResponseProto, Refusal> {
        let state = self.store.container(container_id)?.state;
        if !matches!(state, State::Closed | State::QuasiClosed | State::Unhealthy) {
            let message = format!("container {container_id} is {state}: it has no checksums yet");
            return Err(Refusal::new(pb::Result::UnclosedContainerIo, message));
        }
        let mut tree = ChecksumTree::default();
        let mut chunk_count = 0_usize;
        self.each_block(container_id, 0, usize::MAX, &mut |block| {
            tree.add(block);
            // Each chunk takes at least ten bytes of the answer.
            chunk_count = chunk_count.saturating_add(block.chunks.len());
            check_answer_bytes(chunk_count.saturating_mul(10))
        })?;
        let info = tree.finish(container_id);
        check_answer_bytes(info.encoded_len())?;
        Ok(pb::GetContainerChecksumInfoResponseProto {
            container_id: Some(container_id.cast_signed()),
            container_checksum_info: Some(info.encode_to_vec().into()),
        })
    }
}

use pb::read_chunk_response_proto::ResponseData;

/// The result of one step of a request.
#[derive(Debug)]
pub struct Step {
    /// The answer to send; `None` if the step only found the block, or found nothing left.
    pub answer: Option<pb::ContainerCommandResponseProto>,
    /// The rest of a ReadBlock; `None` if nothing is left.
    pub rest: Option<Rest>,
}

/// A ReadBlock that is not read to its end yet. It takes memory, but no thread waits in it, so the
/// client may take its time with each answer.
#[derive(Debug)]
pub struct Rest {
    head: Head,
    block: BlockReference,
    parts: Parts,
}

impl Rest {
    /// Bytes of memory that the next step takes: for the data as read, and encoded.
    pub fn answer_bytes(&mut self) -> usize {
        self.parts.next_bytes().map_or(0, |bytes| bytes.min(CHUNK_BYTES_MAX) as usize * 2)
    }
}

/// A range of a block in bytes, and the size of an answer.
struct Range {
    offset: u64,
    length: Option<u64>,
    answer_bytes: u64,
}

/// The fields of a request that its answer repeats.
#[derive(Debug)]
struct Head {
    kind: pb::Type,
    trace_id: Option<String>,
    client_call: Option<(Bytes, u64)>,
}

impl Head {
    fn is_read(&self) -> bool {
        use pb::Type::{
            GetBlock, GetCommittedBlockLength, GetContainerChecksumInfo, GetSmallFile, ListBlock,
            ReadBlock, ReadChunk, ReadContainer,
        };
        matches!(
            self.kind,
            ReadContainer
                | ListBlock
                | GetBlock
                | GetCommittedBlockLength
                | ReadChunk
                | ReadBlock
                | GetSmallFile
                | GetContainerChecksumInfo
        )
    }

    fn success(&self, body: Body) -> pb::ContainerCommandResponseProto {
        let (client_id, call_id) = self.client_call.clone().unzip();
        pb::ContainerCommandResponseProto {
            cmd_type: self.kind as i32,
            trace_id: self.trace_id.clone(),
            result: pb::Result::Success as i32,
            client_id,
            call_id,
            ..body
        }
    }

    fn refused(&self, refusal: Refusal) -> pb::ContainerCommandResponseProto {
        let message = Some(refusal.message);
        pb::ContainerCommandResponseProto {
            result: refusal.result as i32,
            message,
            ..self.success(Body::default())
        }
    }
}

fn committed(put: &PutBlock, length: u64) -> pb::GetCommittedBlockLengthResponseProto {
    pb::GetCommittedBlockLengthResponseProto {
        block_id: block_reference_to_pb(&BlockReference {
            id: put.block.id,
            commit_sequence_id: Some(put.block.commit_sequence_id),
            replica_index: put.block.replica_index,
        }),
        block_length: length.cast_signed(),
    }
}

fn container_to_pb(container: &ContainerInfo) -> pb::ContainerDataProto {
    pb::ContainerDataProto {
        container_id: container.id.cast_signed(),
        metadata: metadata_to_pb(&container.metadata),
        container_path: Some(container.path.clone()),
        bytes_used: Some(container.bytes_used.cast_signed()),
        block_count: Some(container.block_count.cast_signed()),
        state: Some(state_to_pb(container.state) as i32),
        container_type: Some(pb::ContainerType::KeyValueContainer as i32),
    }
}

/// An empty buffer for `length` bytes; an error if that is more than one read may return.
fn room(length: u64) -> Result<Vec<u8>, ChunkError> {
    if length > CHUNK_BYTES_MAX {
        return Err(ChunkError::ChunkTooLarge { bytes: length, bytes_max: CHUNK_BYTES_MAX });
    }
    Ok(Vec::with_capacity(length as usize))
}

/// The data of a chunk in pieces, one for each checksum: readers of version 1 verify piece by piece
/// (`ChunkManager.getBufferCapacityForChunkRead`).
fn pieces(data: Vec<u8>, chunk: &ChunkInfo) -> Vec<Bytes> {
    let unit = match chunk.checksum.kind {
        ChecksumType::None => READ_CHUNK_PIECE_BYTES_DEFAULT,
        _ => u64::from(chunk.checksum.bytes_per_checksum.max(1)),
    };
    let mut data = Bytes::from(data);
    let unit_count = (data.len() as u64).div_ceil(unit);
    let piece_bytes = unit * unit_count.div_ceil(READ_CHUNK_PIECES_MAX).max(1);
    let mut pieces = Vec::new();
    while !data.is_empty() {
        let bytes = usize::try_from(piece_bytes).unwrap_or(usize::MAX).min(data.len());
        pieces.push(data.split_to(bytes));
    }
    pieces
}

/// Refuses an answer that is larger than clients accept.
fn check_answer_bytes(bytes: usize) -> Result<(), Refusal> {
    if bytes <= ANSWER_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::unsupported(format!("an answer has {ANSWER_BYTES_MAX} bytes at most")))
}
