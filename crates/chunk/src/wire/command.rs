//! A request: a message whose shape was checked. The store finds out what it means.

use bytes::Bytes;
use prost::Message as _;
use thiserror::Error;

use super::convert::{block_reference, chunk, id, metadata, put_block, replica_index, required};
use super::parts;
use super::pb;
use super::refusal::Refusal;
use crate::block::{BlockData, BlockId, ChunkInfo, KeyValue};
use crate::container::ContainerSpec;
use crate::limits::{
    ECHO_BYTES_MAX, ECHO_PAUSE_MS_MAX, READ_BLOCK_ANSWER_BYTES_DEFAULT,
    READ_BLOCK_ANSWER_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_PART_BYTES,
};

/// A message that cannot be answered: the stream that brought it ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// More bytes than a request may have.
    #[error("a request of {bytes} bytes is over the limit of {bytes_max}")]
    TooLarge {
        /// Bytes that came.
        bytes: usize,
        /// The limit, from [`crate::limits`].
        bytes_max: usize,
    },
    /// More repeated fields than a request may have.
    #[error("a request has more than {parts_max} chunks, checksums and pairs")]
    TooManyParts {
        /// The limit, from [`crate::limits`].
        parts_max: usize,
    },
    /// A field ends behind the message.
    #[error("the request is cut off")]
    CutOff,
    /// The bytes are not in the protocol's format.
    #[error("the request cannot be read: {0}")]
    Unreadable(#[from] prost::DecodeError),
    /// The type is missing or unknown; the answer would have to repeat it.
    #[error("the type of the request is unknown")]
    NoType,
}

/// A request, with the fields that its answer repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The type of the request; repeated.
    pub kind: pb::Type,
    /// The client's name for the request; repeated.
    pub trace_id: Option<String>,
    /// The client's id, and the number of its call; repeated where both are given.
    pub client_call: Option<(Bytes, u64)>,
    /// The datanode that the client means to talk to.
    pub datanode_uuid: String,
    /// The container that the request is about.
    pub container_id: u64,
    /// The command; or the refusal that answers the request without a look at the store.
    pub command: Result<Command, Refusal>,
}

/// A block, as a client names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReference {
    /// The block's id.
    pub id: BlockId,
    /// The least commit that the reader knows of.
    pub commit_sequence_id: Option<u64>,
    /// The part of an erasure-coded stripe that the reader takes the container for.
    pub replica_index: Option<u32>,
}

/// The commit of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBlock {
    /// The block as committed.
    pub block: BlockData,
    /// Whether no more chunks will come.
    pub is_end_of_block: bool,
    /// Whether a container that does not exist is made.
    pub is_creating: bool,
}

/// An operation on the store, with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Make a container.
    CreateContainer(ContainerSpec),
    /// Describe the container.
    ReadContainer,
    /// Add to the container's metadata.
    UpdateContainer {
        /// Pairs to add.
        metadata: Vec<KeyValue>,
        /// Whether a closed container may be changed.
        is_forced: bool,
    },
    /// Delete the container.
    DeleteContainer {
        /// Whether a container with blocks may be deleted.
        is_forced: bool,
    },
    /// Close the container to writes.
    CloseContainer,
    /// Commit a block.
    PutBlock(PutBlock),
    /// Return the commit of a block.
    GetBlock(BlockReference),
    /// Return the commits of several blocks.
    ListBlock {
        /// The first block's local id.
        start_local_id: u64,
        /// The number of blocks at most.
        count_max: u32,
    },
    /// Read a chunk, or a part of one.
    ReadChunk {
        /// The block of the chunk.
        block: BlockReference,
        /// The chunk: its name and its range.
        chunk: ChunkInfo,
        /// The format of the answer.
        version: pb::ReadChunkVersion,
    },
    /// Write a chunk.
    WriteChunk {
        /// The block of the chunk.
        block: BlockReference,
        /// The chunk: its name and its range.
        chunk: ChunkInfo,
        /// The bytes; a slice of the message.
        data: Bytes,
        /// A commit of the block, sent along.
        put: Option<PutBlock>,
        /// Whether a container that does not exist is made.
        is_creating: bool,
    },
    /// Write the one chunk of a block and commit it; the commit names the chunk.
    PutSmallFile {
        /// The commit, which names the chunk.
        put: PutBlock,
        /// The bytes; a slice of the message.
        data: Bytes,
    },
    /// Read all chunks of a small block.
    GetSmallFile {
        /// The block.
        block: BlockReference,
        /// The format of the answer.
        version: pb::ReadChunkVersion,
    },
    /// Return the length of a block.
    GetCommittedBlockLength(BlockReference),
    /// Close a block to writes.
    FinalizeBlock(BlockReference),
    /// Answer with so many bytes, after a pause.
    Echo {
        /// Bytes of the answer.
        bytes: usize,
        /// The pause before the answer, in milliseconds.
        pause_ms: u32,
    },
    /// Return the checksums of a closed container.
    GetContainerChecksumInfo,
    /// Read a part of a block, in as many answers as it takes.
    ReadBlock {
        /// The block.
        block: BlockReference,
        /// The first byte to read.
        offset: u64,
        /// Bytes to read; `None`: up to the end of the block.
        length: Option<u64>,
        /// Bytes of an answer at most.
        answer_bytes: u64,
    },
}

/// Decodes a message without checking whether it makes sense. Fields that we do not know are
/// skipped.
pub fn read(message: Bytes) -> Result<pb::ContainerCommandRequestProto, RequestError> {
    Ok(pb::ContainerCommandRequestProto::decode(Measured::of(message)?.message)?)
}

/// A message whose parts were counted and that is not decoded yet: a small message may become a
/// large value, and a caller with little memory makes room for that first.
#[derive(Clone, Debug)]
pub struct Measured {
    message: Bytes,
    part_count: usize,
}

impl Measured {
    /// Counts the parts of a message.
    ///
    /// # Errors
    /// It is larger than a request may be, or has more parts.
    pub fn of(message: Bytes) -> Result<Measured, RequestError> {
        let bytes = message.len();
        if bytes > REQUEST_BYTES_MAX {
            return Err(RequestError::TooLarge { bytes, bytes_max: REQUEST_BYTES_MAX });
        }
        let part_count = parts::count(&message)?;
        Ok(Measured { message, part_count })
    }

    /// Bytes of memory that the message and the request together take at most.
    pub fn memory_bytes(&self) -> usize {
        self.message.len().saturating_add(self.part_count.saturating_mul(REQUEST_PART_BYTES))
    }

    /// Decodes and checks the message.
    ///
    /// # Errors
    /// The message is no request.
    pub fn decode(self) -> Result<Request, RequestError> {
        Request::from_message(pb::ContainerCommandRequestProto::decode(self.message)?)
    }
}

impl Request {
    /// Decodes and checks a message.
    pub fn decode(message: Bytes) -> Result<Request, RequestError> {
        Measured::of(message)?.decode()
    }

    fn from_message(
        mut message: pb::ContainerCommandRequestProto,
    ) -> Result<Request, RequestError> {
        let kind = message.cmd_type.and_then(|number| pb::Type::try_from(number).ok());
        let kind = kind.ok_or(RequestError::NoType)?;
        let container_id = id(message.container_id, "containerID");
        Ok(Request {
            kind,
            trace_id: message.trace_id.take(),
            client_call: message.client_id.take().zip(message.call_id),
            container_id: container_id.clone().unwrap_or_default(),
            command: container_id
                .and_then(|id| {
                    required(message.datanode_uuid.as_ref(), "datanodeUuid")?;
                    Ok(id)
                })
                .and_then(|container_id| command(kind, container_id, &mut message)),
            datanode_uuid: message.datanode_uuid.unwrap_or_default(),
        })
    }

    /// Bytes of chunks in the request.
    pub fn data_bytes(&self) -> usize {
        match &self.command {
            Ok(Command::WriteChunk { data, .. } | Command::PutSmallFile { data, .. }) => data.len(),
            _ => 0,
        }
    }

    /// The pause before the answer that the client asked for, in milliseconds.
    pub fn pause_ms(&self) -> u32 {
        match self.command {
            Ok(Command::Echo { pause_ms, .. }) => pause_ms,
            _ => 0,
        }
    }
}

/// The body that belongs to the type.
fn command(
    kind: pb::Type,
    container_id: u64,
    message: &mut pb::ContainerCommandRequestProto,
) -> Result<Command, Refusal> {
    let body = "body of that type";
    let block = |message| block_reference(message, container_id);
    Ok(match kind {
        pb::Type::CreateContainer => {
            Command::CreateContainer(spec(required(message.create_container.take(), body)?)?)
        }
        pb::Type::ReadContainer => {
            required(message.read_container.take(), body).map(|_| Command::ReadContainer)?
        }
        pb::Type::UpdateContainer => {
            update_container(required(message.update_container.take(), body)?)?
        }
        pb::Type::DeleteContainer => {
            let delete = required(message.delete_container.take(), body)?;
            Command::DeleteContainer { is_forced: delete.force_delete.unwrap_or(false) }
        }
        pb::Type::CloseContainer => {
            required(message.close_container.take(), body).map(|_| Command::CloseContainer)?
        }
        // Alone, what says nothing is the end of the block; riding along, it is not. As there.
        pb::Type::PutBlock => {
            Command::PutBlock(put_block(required(message.put_block.take(), body)?, container_id, true)?)
        }
        pb::Type::GetBlock => {
            Command::GetBlock(block(required(message.get_block.take(), body)?.block_id)?)
        }
        pb::Type::ListBlock => list_block(&required(message.list_block.take(), body)?)?,
        pb::Type::ReadChunk => read_chunk(required(message.read_chunk.take(), body)?, container_id)?,
        pb::Type::WriteChunk => {
            write_chunk(required(message.write_chunk.take(), body)?, container_id)?
        }
        pb::Type::PutSmallFile => {
            put_small_file(required(message.put_small_file.take(), body)?, container_id)?
        }
        pb::Type::GetSmallFile => {
            get_small_file(required(message.get_small_file.take(), body)?, container_id)?
        }
        pb::Type::GetCommittedBlockLength => {
            let get = required(message.get_committed_block_length.take(), body)?;
            Command::GetCommittedBlockLength(block(get.block_id)?)
        }
        pb::Type::FinalizeBlock => {
            Command::FinalizeBlock(block(required(message.finalize_block.take(), body)?.block_id)?)
        }
        pb::Type::Echo => echo(&required(message.echo.take(), body)?)?,
        pb::Type::GetContainerChecksumInfo => {
            let get = required(message.get_container_checksum_info.take(), body);
            get.map(|_| Command::GetContainerChecksumInfo)?
        }
        pb::Type::ReadBlock => read_block(required(message.read_block.take(), body)?, container_id)?,
        pb::Type::ListContainer
        | pb::Type::ListChunk
        | pb::Type::CompactChunk
        // Blocks are deleted by those who replicate them.
        | pb::Type::DeleteBlock
        | pb::Type::DeleteChunk
        // These belong to another transport.
        | pb::Type::StreamInit
        | pb::Type::StreamWrite
        | pb::Type::StreamInitWithPutBlock => {
            return Err(Refusal::unsupported(format!("{} is not served", kind.as_str_name())));
        }
    })
}

/// A container starts open or, while it is rebuilt from others, recovering.
fn spec(create: pb::CreateContainerRequestProto) -> Result<ContainerSpec, Refusal> {
    use pb::container_data_proto::State;
    let kind = create.container_type.unwrap_or(pb::ContainerType::KeyValueContainer as i32);
    if kind != pb::ContainerType::KeyValueContainer as i32 {
        return Err(Refusal::malformed(format!("there is no container type {kind}")));
    }
    let is_recovering = match create.state {
        None => false,
        Some(number) if number == State::Open as i32 => false,
        Some(number) if number == State::Recovering as i32 => true,
        Some(number) => {
            return Err(Refusal::malformed(format!("no container starts in state {number}")));
        }
    };
    Ok(ContainerSpec {
        layout: None,
        is_recovering,
        metadata: metadata(create.metadata)?,
        replica_index: replica_index(create.replica_index)?.filter(|&index| index != 0),
    })
}

fn update_container(update: pb::UpdateContainerRequestProto) -> Result<Command, Refusal> {
    let is_forced = update.force_update.unwrap_or(false);
    Ok(Command::UpdateContainer { metadata: metadata(update.metadata)?, is_forced })
}

fn list_block(list: &pb::ListBlockRequestProto) -> Result<Command, Refusal> {
    let count_max = required(list.count, "count")?;
    if count_max == 0 {
        return Err(Refusal::malformed("a list of 0 blocks says nothing"));
    }
    let start_local_id = match list.start_local_id {
        None => 0,
        some => id(some, "startLocalID")?,
    };
    Ok(Command::ListBlock { start_local_id, count_max })
}

fn read_chunk(read: pb::ReadChunkRequestProto, container_id: u64) -> Result<Command, Refusal> {
    Ok(Command::ReadChunk {
        block: block_reference(read.block_id, container_id)?,
        chunk: chunk(read.chunk_data)?,
        version: version(read.read_chunk_version)?,
    })
}

fn write_chunk(write: pb::WriteChunkRequestProto, container_id: u64) -> Result<Command, Refusal> {
    let block = block_reference(write.block_id, container_id)?;
    let put = write.block.map(|put| put_block(put, container_id, false)).transpose()?;
    if put.as_ref().is_some_and(|put| put.block.id != block.id) {
        return Err(Refusal::malformed("the commit that rides along is of another block"));
    }
    Ok(Command::WriteChunk {
        block,
        chunk: chunk(write.chunk_data)?,
        data: write.data.unwrap_or_default(),
        put,
        is_creating: write.container_auto_create.unwrap_or(true),
    })
}

fn put_small_file(
    small: pb::PutSmallFileRequestProto,
    container_id: u64,
) -> Result<Command, Refusal> {
    let mut put = put_block(required(small.block, "block")?, container_id, true)?;
    // Whatever it says: a small file is one chunk, and complete.
    put.block.chunks = vec![chunk(small.chunk_info)?];
    put.is_end_of_block = true;
    Ok(Command::PutSmallFile { put, data: required(small.data, "data")? })
}

fn get_small_file(
    get: pb::GetSmallFileRequestProto,
    container_id: u64,
) -> Result<Command, Refusal> {
    Ok(Command::GetSmallFile {
        block: block_reference(required(get.block, "block")?.block_id, container_id)?,
        version: version(get.read_chunk_version)?,
    })
}

fn echo(echo: &pb::EchoRequestProto) -> Result<Command, Refusal> {
    let bytes = usize::try_from(echo.payload_size_resp.unwrap_or(0)).ok();
    let bytes = bytes.filter(|&bytes| bytes <= ECHO_BYTES_MAX).ok_or_else(|| {
        Refusal::malformed(format!("an echo has between 0 and {ECHO_BYTES_MAX} bytes"))
    })?;
    // There, a negative pause is none.
    let pause_ms = u32::try_from(echo.sleep_time_ms.unwrap_or(0)).unwrap_or(0);
    if pause_ms > ECHO_PAUSE_MS_MAX {
        return Err(Refusal::malformed(format!("an echo waits {ECHO_PAUSE_MS_MAX} ms at most")));
    }
    Ok(Command::Echo { bytes, pause_ms })
}

fn read_block(read: pb::ReadBlockRequestProto, container_id: u64) -> Result<Command, Refusal> {
    let answer_bytes = match read.response_data_size {
        None | Some(0) => READ_BLOCK_ANSWER_BYTES_DEFAULT,
        Some(bytes) => u64::from(bytes).min(READ_BLOCK_ANSWER_BYTES_MAX),
    };
    Ok(Command::ReadBlock {
        block: block_reference(read.block_id, container_id)?,
        offset: required(read.offset, "offset")?,
        length: read.length,
        answer_bytes,
    })
}

fn version(number: Option<i32>) -> Result<pb::ReadChunkVersion, Refusal> {
    let number = number.unwrap_or(pb::ReadChunkVersion::V0 as i32);
    pb::ReadChunkVersion::try_from(number)
        .map_err(|_| Refusal::malformed(format!("there is no version {number} of ReadChunk")))
}
