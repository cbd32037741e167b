//! A client of a datanode, which sends Ozone's requests over gRPC. As in Ozone's clients, requests
//! follow one after the other, each on its own stream. The calls block the calling thread.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use anyhow::Context;
use bytes::Bytes;
use chunk::block::{BlockData, BlockId, ChunkInfo};
use chunk::wire::{block_data_to_pb, chunk_to_pb, decode_answer, encode_request, pb};
use http::HeaderMap;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::limits::{
    CHUNK_ANSWER_BYTES_MAX, CHUNK_ANSWER_LIMIT, CHUNK_WINDOW_BYTES, CONNECT_LIMIT,
};
use crate::workloads::etcd::grpc::{self, PREFIX_BYTES, Sender};

/// The path of the only gRPC method of datanodes.
const PATH: &str = "/hadoop.hdds.datanode.XceiverClientProtocolService/send";

/// The address of a datanode as the user wrote it: `chunk://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkAddress(String);

impl FromStr for ChunkAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ChunkAddress, String> {
        let server = text.strip_prefix("chunk://").map(|rest| rest.trim_end_matches('/'));
        let parts = server.and_then(|server| server.rsplit_once(':'));
        match parts.map(|(host, port)| (host, port.parse::<u16>())) {
            Some((host, Ok(1..))) if !host.is_empty() => {
                Ok(ChunkAddress(server.unwrap_or_default().to_string()))
            }
            _ => Err("a target is chunk://HOST:PORT".to_string()),
        }
    }
}

impl fmt::Display for ChunkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk://{}", self.0)
    }
}

impl ChunkAddress {
    /// The socket address that accepts connections.
    ///
    /// # Errors
    /// The name is unknown, or nothing accepts a connection.
    pub fn find(&self) -> anyhow::Result<SocketAddr> {
        let found = self.0.to_socket_addrs().with_context(|| self.to_string())?;
        let answers =
            |at: &SocketAddr| std::net::TcpStream::connect_timeout(at, CONNECT_LIMIT).is_ok();
        let mut answering = found.filter(answers);
        answering.next().with_context(|| format!("nothing answers at {self}"))
    }
}

/// The error when an answer is not success.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind}: {result}: {message}")]
pub struct Refused {
    /// The kind of the request.
    pub kind: &'static str,
    /// The result code.
    pub result: &'static str,
    /// The message in the answer, for people.
    pub message: String,
}

/// A connection to a datanode.
#[derive(Debug)]
pub struct ChunkClient {
    /// Runs the requests, and the task that reads from the socket.
    runtime: Runtime,
    requests: Sender,
}

impl ChunkClient {
    /// Opens a new connection.
    ///
    /// # Errors
    /// No server answers, or the server does not speak HTTP/2.
    pub fn connect(address: SocketAddr) -> anyhow::Result<ChunkClient> {
        let plain = async || {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            anyhow::Ok(stream)
        };
        ChunkClient::over(plain).with_context(|| address.to_string())
    }

    /// Opens a connection over the stream that `open` returns, which may be TLS.
    ///
    /// # Errors
    /// The stream cannot be opened, or the server does not speak HTTP/2.
    pub fn over<S>(open: impl AsyncFnOnce() -> anyhow::Result<S>) -> anyhow::Result<ChunkClient>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connecting = async { grpc::open(open().await?, CHUNK_WINDOW_BYTES).await };
        let requests = runtime.block_on(async { timeout(CONNECT_LIMIT, connecting).await? })?;
        Ok(ChunkClient { runtime, requests })
    }

    /// Sends a request and returns the answer, even if it is a refusal.
    ///
    /// # Errors
    /// No answer comes within [`CHUNK_ANSWER_LIMIT`].
    pub fn ask(
        &self,
        request: &pb::ContainerCommandRequestProto,
    ) -> anyhow::Result<pb::ContainerCommandResponseProto> {
        let message = grpc::message(|out| encode_request(request, out))?;
        let answer = exchange(self.requests.clone(), message);
        self.runtime.block_on(async { timeout(CHUNK_ANSWER_LIMIT, answer).await? })
    }

    /// Sends a request and returns its answer, which must be success.
    ///
    /// # Errors
    /// No answer comes, or it is [`Refused`].
    pub fn succeed(
        &self,
        request: &pb::ContainerCommandRequestProto,
    ) -> anyhow::Result<pb::ContainerCommandResponseProto> {
        let answer = self.ask(request)?;
        match answer.result() {
            pb::Result::Success => Ok(answer),
            result => Err(Refused {
                kind: answer.cmd_type().as_str_name(),
                result: result.as_str_name(),
                message: answer.message.unwrap_or_default(),
            }
            .into()),
        }
    }

    /// Creates a container.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub fn create_container(&self, container_id: u64) -> anyhow::Result<()> {
        let mut create = request(pb::Type::CreateContainer, container_id);
        create.create_container = Some(pb::CreateContainerRequestProto::default());
        self.succeed(&create).map(drop)
    }

    /// Closes a container and deletes it with all its blocks.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub fn delete_container(&self, container_id: u64) -> anyhow::Result<()> {
        let mut close = request(pb::Type::CloseContainer, container_id);
        close.close_container = Some(pb::CloseContainerRequestProto::default());
        self.succeed(&close)?;
        let mut delete = request(pb::Type::DeleteContainer, container_id);
        delete.delete_container =
            Some(pb::DeleteContainerRequestProto { force_delete: Some(true) });
        self.succeed(&delete).map(drop)
    }

    /// Writes a chunk of a block.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub fn write_chunk(&self, id: BlockId, chunk: &ChunkInfo, data: &Bytes) -> anyhow::Result<()> {
        let mut write = request(pb::Type::WriteChunk, id.container_id);
        write.write_chunk = Some(pb::WriteChunkRequestProto {
            block_id: Some(block_id(id)),
            chunk_data: Some(chunk_to_pb(chunk)),
            data: Some(data.clone()),
            ..Default::default()
        });
        self.succeed(&write).map(drop)
    }

    /// Commits a block. It gets no more chunks.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub fn put_block(&self, block: &BlockData) -> anyhow::Result<()> {
        let mut put = request(pb::Type::PutBlock, block.id.container_id);
        let block_data = Some(block_data_to_pb(block));
        put.put_block = Some(pb::PutBlockRequestProto { block_data, ..Default::default() });
        self.succeed(&put).map(drop)
    }

    /// Reads the committed record of a block.
    ///
    /// # Errors
    /// The block has no record, or the server does not answer.
    pub fn get_block(&self, id: BlockId) -> anyhow::Result<pb::BlockData> {
        let mut get = request(pb::Type::GetBlock, id.container_id);
        get.get_block = Some(pb::GetBlockRequestProto { block_id: Some(block_id(id)) });
        let answer = self.succeed(&get)?.get_block.context("the answer has no block")?;
        Ok(answer.block_data)
    }

    /// Reads a chunk, and appends its bytes to `out`.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub fn read_chunk(
        &self,
        id: BlockId,
        chunk: &ChunkInfo,
        out: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        use pb::read_chunk_response_proto::ResponseData;
        let mut read = request(pb::Type::ReadChunk, id.container_id);
        read.read_chunk = Some(pb::ReadChunkRequestProto {
            block_id: Some(block_id(id)),
            chunk_data: Some(chunk_to_pb(chunk)),
            read_chunk_version: Some(pb::ReadChunkVersion::V1.into()),
        });
        let answer = self.succeed(&read)?.read_chunk.and_then(|read| read.response_data);
        match answer.context("the answer has no data")? {
            ResponseData::Data(data) => out.extend_from_slice(&data),
            ResponseData::DataBuffers(all) => {
                all.buffers.iter().for_each(|data| out.extend_from_slice(data));
            }
        }
        Ok(())
    }
}

/// A request of a kind about a container, without the fields of that kind.
pub fn request(kind: pb::Type, container_id: u64) -> pb::ContainerCommandRequestProto {
    pb::ContainerCommandRequestProto {
        cmd_type: Some(kind.into()),
        container_id: Some(container_id.cast_signed()),
        // Any name will do: the field is required, but only matters when stripes are written.
        datanode_uuid: Some("any".to_string()),
        ..Default::default()
    }
}

fn block_id(id: BlockId) -> pb::DatanodeBlockId {
    pb::DatanodeBlockId {
        container_id: Some(id.container_id.cast_signed()),
        local_id: Some(id.local_id.cast_signed()),
        ..Default::default()
    }
}

async fn exchange(
    mut requests: Sender,
    message: Bytes,
) -> anyhow::Result<pb::ContainerCommandResponseProto> {
    let (head, mut body) = grpc::send(&mut requests, grpc::head(PATH)?, message).await?;
    let data = grpc::receive(&mut body, CHUNK_ANSWER_BYTES_MAX).await?;
    if data.len() < PREFIX_BYTES {
        let trailers = body.trailers().await?.unwrap_or(head.headers);
        anyhow::bail!("no answer, but HTTP status {}{}", head.status, status(&trailers));
    }
    Ok(decode_answer(data.slice(PREFIX_BYTES..))?)
}

/// The gRPC status and its message in some headers, as text; empty if there is none.
fn status(headers: &HeaderMap) -> String {
    let text = |name| Some(grpc::text(headers, name)).filter(|text| !text.is_empty());
    let code = text("grpc-status").map(|code| format!(", gRPC status {code}"));
    let message = text("grpc-message").map(|message| format!(": {message}"));
    code.unwrap_or_default() + &message.unwrap_or_default()
}

#[cfg(test)]
mod tests;
