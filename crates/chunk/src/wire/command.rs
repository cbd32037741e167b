//! Decodes requests and checks their shape. Whether the containers, blocks and chunks in them exist
//! is left to the store.

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

/// Why a message cannot be answered; the stream that brought it ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// The message is larger than a request may be.
    #[error("a request of {bytes} bytes is over the limit of {bytes_max}")]
    TooLarge {
        /// Bytes of the message.
        bytes: usize,
        /// The limit, from [`crate::limits`].
        bytes_max: usize,
    },
    /// The message has more parts (repeated fields) than a request may have.
    #[error("a request has more than {parts_max} chunks, checksums and pairs")]
    TooManyParts {
        /// The limit, from [`crate::limits`].
        parts_max: usize,
    },
    /// A field goes beyond the end of the message.
    #[error("the request is cut off")]
    CutOff,
    /// The bytes are not a message of the protocol.
    #[error("the request cannot be read: {0}")]
    Unreadable(#[from] prost::DecodeError),
    /// The type is missing or unknown. An answer would have to repeat it.
    #[error("the type of the request is unknown")]
    NoType,
}

/// A decoded request, with the fields that its answer repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The type of the request; the answer repeats it.
    pub kind: pb::Type,
    /// The client's name for the request; the answer repeats it.
    pub trace_id: Option<String>,
    /// The client's id and the number of its call; the answer repeats them if both are given.
    pub client_call: Option<(Bytes, u64)>,
    /// The uuid of the datanode that the client wants to reach.
    pub datanode_uuid: String,
    /// The id of the container that the request is about.
    pub container_id: u64,
    /// The command; or the refusal to answer with, without asking the store.
    pub command: Result<Command, Refusal>,
}

/// A block, as a client names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReference {
    /// The block's id.
    pub id: BlockId,
    /// The lowest commit that the block must have, as the reader knows.
    pub commit_sequence_id: Option<u64>,
    /// Which part of each erasure-coded stripe the client expects the container to hold.
    pub replica_index: Option<u32>,
}

/// The commit of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBlock {
    /// The block to commit.
    pub block: BlockData,
    /// Whether no more chunks will be written to the block.
    pub is_end_of_block: bool,
    /// Whether to make the container if it does not exist.
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
        /// Whether a closed container may be changed, too.
        is_forced: bool,
    },
    /// Delete the container.
    DeleteContainer {
        /// Whether a container with blocks may be deleted, too.
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
        /// The local id of the first block to return.
        start_local_id: u64,
        /// Most blocks to return.
        count_max: u32,
    },
    /// Read a chunk, or a part of one.
    ReadChunk {
        /// The block of the chunk.
        block: BlockReference,
        /// The name and the range of the chunk.
        chunk: ChunkInfo,
        /// The version of the answer's format.
        version: pb::ReadChunkVersion,
    },
    /// Write a chunk.
    WriteChunk {
        /// The block of the chunk.
        block: BlockReference,
        /// The description of the chunk.
        chunk: ChunkInfo,
        /// The data; a slice of the message.
        data: Bytes,
        /// A commit of the block, in the same request.
        put: Option<PutBlock>,
        /// Whether to make the container if it does not exist.
        is_creating: bool,
    },
    /// Write the one chunk of a block and commit the block.
    PutSmallFile {
        /// The commit; it names the chunk.
        put: PutBlock,
        /// The data; a slice of the message.
        data: Bytes,
    },
    /// Read all chunks of a small block.
    GetSmallFile {
        /// The block.
        block: BlockReference,
        /// The version of the answer's format.
        version: pb::ReadChunkVersion,
    },
    /// Return the length of a block.
    GetCommittedBlockLength(BlockReference),
    /// Close a block to writes.
    FinalizeBlock(BlockReference),
    /// Answer with some bytes, after a pause.
    Echo {
        /// Bytes of the answer.
        bytes: usize,
        /// The pause before the answer, in milliseconds.
        pause_ms: u32,
    },
    /// Return the checksums of a closed container.
    GetContainerChecksumInfo,
    /// Read a range of a block, in several answers.
    ReadBlock {
        /// The block.
        block: BlockReference,
        /// The first byte of the block to read.
        offset: u64,
        /// Bytes to read; `None` reads to the end of the block.
        length: Option<u64>,
        /// Most bytes of one answer.
        answer_bytes: u64,
    },
}

/// Decodes a message without checking whether it makes sense. Skips unknown fields.
pub fn read(message: Bytes) -> Result<pb::ContainerCommandRequestProto, RequestError> {
    Ok(pb::ContainerCommandRequestProto::decode(Measured::of(message)?.message)?)
}

/// A message that is not decoded yet, with the count of its parts (module `parts`). A small
/// message may become a large value, so a caller with little memory frees some first.
#[derive(Clone, Debug)]
pub struct Measured {
    message: Bytes,
    part_count: usize,
}

impl Measured {
    /// Counts the parts of a message.
    ///
    /// # Errors
    /// The message is too large, or has too many parts.
    pub fn of(message: Bytes) -> Result<Measured, RequestError> {
        let bytes = message.len();
        if bytes > REQUEST_BYTES_MAX {
            return Err(RequestError::TooLarge { bytes, bytes_max: REQUEST_BYTES_MAX });
        }
        let part_count = parts::count(&message)?;
        Ok(Measured { message, part_count })
    }

    /// Most bytes of memory that the message and the decoded request take together.
    pub fn memory_bytes(&self) -> usize {
        self.message.len().saturating_add(self.part_count.saturating_mul(REQUEST_PART_BYTES))
    }

    /// Decodes and checks the message.
    ///
    /// # Errors
    /// The message is no valid request.
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

    /// Bytes of chunk data in the request.
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

/// Checks the body of the request's type and makes the command.
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
        // Without `eof`, a PutBlock alone is the end of its block; one within a WriteChunk is not.
        // As in Ozone.
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
        // The component that replicates blocks deletes them.
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

/// Checks the settings of a new container. It starts open or, while it is rebuilt from other
/// replicas, recovering.
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
    // Whatever the request says: a small file has one chunk, and is complete.
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
    // In Ozone, a negative pause means none.
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
