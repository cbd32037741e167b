//! The chunk store of the real process, killed under load: a block whose commit was answered is there with
//! its bytes, in every layout.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use chunk::block::{BlockData, BlockId, ChunkInfo};
use chunk::checksum::{ChecksumData, ChecksumType};
use chunk::wire::pb;
use chunk::wire::{block_data_to_pb, chunk_to_pb, decode_answer, encode_request};
use h2::client::SendRequest;
use hyper::Request;
use tokio::net::TcpStream;
use workload::generate::Random;

use crate::server::{Server, wait_until};

const PATH: &str = "/hadoop.hdds.datanode.XceiverClientProtocolService/send";

/// Clients that write while the server is killed.
const WORKERS: u64 = 4;

/// A connection of Ozone's kind: a stream for each request.
struct Client {
    runtime: tokio::runtime::Runtime,
    requests: SendRequest<Bytes>,
    /// Reads from the socket while the runtime runs.
    _connection: tokio::task::JoinHandle<()>,
}

impl Client {
    fn connect(address: SocketAddr) -> Option<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connected = runtime.block_on(async {
            let stream = TcpStream::connect(address).await.ok()?;
            let (requests, connection) = h2::client::handshake(stream).await.ok()?;
            let connection = async { drop(connection.await) };
            Some((requests, tokio::spawn(connection)))
        });
        let (requests, _connection) = connected?;
        Some(Client { runtime, requests, _connection })
    }

    /// The answer, or nothing if the server went away.
    fn ask(
        &mut self,
        request: &pb::ContainerCommandRequestProto,
    ) -> Option<pb::ContainerCommandResponseProto> {
        let mut message = vec![0; 5];
        encode_request(request, &mut message);
        let count = (message.len() - 5) as u32;
        message[1..5].copy_from_slice(&count.to_be_bytes());
        let requests = self.requests.clone();
        self.runtime.block_on(exchange(requests, message.into()))
    }

    /// As [`Client::ask`], for what must succeed if it is answered.
    fn succeed(
        &mut self,
        request: &pb::ContainerCommandRequestProto,
    ) -> Option<pb::ContainerCommandResponseProto> {
        let answer = self.ask(request)?;
        assert_eq!(answer.result(), pb::Result::Success, "{:?}", answer.message);
        Some(answer)
    }
}

async fn exchange(
    requests: SendRequest<Bytes>,
    message: Bytes,
) -> Option<pb::ContainerCommandResponseProto> {
    let head = Request::builder().method("POST").uri(format!("http://localhost{PATH}"));
    let head = head.header("content-type", "application/grpc").body(()).unwrap();
    let mut requests = requests.ready().await.ok()?;
    let (response, mut stream) = requests.send_request(head, false).ok()?;
    stream.send_data(message, true).ok()?;
    let mut body = response.await.ok()?.into_body();
    let mut data = BytesMut::new();
    while let Some(frame) = body.data().await {
        let frame = frame.ok()?;
        body.flow_control().release_capacity(frame.len()).ok()?;
        data.extend_from_slice(&frame);
    }
    let message = data.freeze().slice(5..);
    Some(decode_answer(message).expect("an answer can be read"))
}

fn request(kind: pb::Type, container_id: u64) -> pb::ContainerCommandRequestProto {
    pb::ContainerCommandRequestProto {
        cmd_type: Some(kind.into()),
        container_id: Some(container_id as i64),
        datanode_uuid: Some("any".to_owned()),
        ..Default::default()
    }
}

/// A block, whose bytes come from its id.
#[derive(Clone, Copy, Debug)]
struct Block {
    id: BlockId,
    chunk_bytes: usize,
    chunk_count: u64,
}

impl Block {
    fn draw(random: &mut Random, container_id: u64, local_id: u64) -> Block {
        let sizes = [100, 4_096, 70_000, 1_200_000];
        let chunk_bytes = sizes[random.below(4) as usize];
        let id = BlockId { container_id, local_id };
        Block { id, chunk_bytes, chunk_count: random.between(1, 4) }
    }

    fn chunks(&self) -> Vec<(ChunkInfo, Bytes)> {
        let chunk = |number: u64| {
            let mut random =
                Random::new(self.id.container_id * 1_000_003 + self.id.local_id * 7 + number);
            let data: Vec<u8> = (0..self.chunk_bytes).map(|_| random.below(256) as u8).collect();
            let chunk = ChunkInfo {
                checksum: ChecksumData::of(ChecksumType::Crc32c, 16_384, &data),
                ..ChunkInfo::plain(
                    format!("{}_chunk_{number}", self.id.local_id),
                    number * self.chunk_bytes as u64,
                    self.chunk_bytes as u64,
                )
            };
            (chunk, Bytes::from(data))
        };
        (0..self.chunk_count).map(chunk).collect()
    }

    fn data(&self) -> BlockData {
        BlockData {
            id: self.id,
            commit_sequence_id: 0,
            replica_index: None,
            flags: None,
            metadata: Vec::new(),
            chunks: self.chunks().into_iter().map(|(chunk, _)| chunk).collect(),
        }
    }

    fn id_to_pb(&self) -> pb::DatanodeBlockId {
        pb::DatanodeBlockId {
            container_id: Some(self.id.container_id as i64),
            local_id: Some(self.id.local_id as i64),
            ..Default::default()
        }
    }

    /// Writes and commits it; nothing if that was not answered.
    fn write(&self, client: &mut Client) -> Option<()> {
        for (chunk, data) in self.chunks() {
            let mut write = request(pb::Type::WriteChunk, self.id.container_id);
            write.write_chunk = Some(pb::WriteChunkRequestProto {
                block_id: Some(self.id_to_pb()),
                chunk_data: Some(chunk_to_pb(&chunk)),
                data: Some(data),
                ..Default::default()
            });
            client.succeed(&write)?;
        }
        let mut put = request(pb::Type::PutBlock, self.id.container_id);
        put.put_block = Some(pb::PutBlockRequestProto {
            block_data: Some(block_data_to_pb(&self.data())),
            ..Default::default()
        });
        client.succeed(&put).map(drop)
    }

    fn check(&self, client: &mut Client) {
        let mut get = request(pb::Type::GetBlock, self.id.container_id);
        get.get_block = Some(pb::GetBlockRequestProto { block_id: Some(self.id_to_pb()) });
        let answer = client.succeed(&get).expect("the server runs");
        let found = answer.get_block.expect("it has a body").block_data;
        assert_eq!(found.chunks.len() as u64, self.chunk_count, "{self:?}");
        for (chunk, data) in self.chunks() {
            let mut read = request(pb::Type::ReadChunk, self.id.container_id);
            read.read_chunk = Some(pb::ReadChunkRequestProto {
                block_id: Some(self.id_to_pb()),
                chunk_data: Some(chunk_to_pb(&chunk)),
                ..Default::default()
            });
            let answer = client.succeed(&read).expect("the server runs");
            match answer.read_chunk.and_then(|read| read.response_data) {
                Some(pb::read_chunk_response_proto::ResponseData::Data(found)) => {
                    assert!(found == data, "{self:?} {chunk:?}");
                }
                other => panic!("{self:?} is read as {other:?}"),
            }
        }
    }
}

/// Writes blocks until the server goes away; those whose commit was answered.
fn write_until_gone(address: SocketAddr, life: u64, worker: u64, some: &AtomicBool) -> Vec<Block> {
    let mut random = Random::new(life * 100 + worker);
    let mut acknowledged = Vec::new();
    let Some(mut client) = Client::connect(address) else { return acknowledged };
    for number in 0.. {
        // Two workers share a container.
        let local_id = (life * 1_000_000) + worker * 10_000 + number;
        let block = Block::draw(&mut random, 1 + worker / 2, local_id);
        if block.write(&mut client).is_none() {
            break;
        }
        acknowledged.push(block);
        if number == 3 {
            some.store(true, Ordering::SeqCst);
        }
    }
    acknowledged
}

#[test]
fn a_block_whose_commit_was_answered_outlives_kills_in_every_layout() {
    for layout in ["log", "per-block", "per-chunk"] {
        let lines = ["quorate.chunkAddr=127.0.0.1:0", &format!("quorate.chunkLayout={layout}")];
        let mut server = Server::start(&format!("chunks-{layout}"), &lines);
        let mut acknowledged = Vec::new();
        for life in 0..5 {
            let address = server.face("chunk");
            let some = Arc::new(AtomicBool::new(false));
            let workers: Vec<_> = (0..WORKERS)
                .map(|worker| {
                    let some = Arc::clone(&some);
                    std::thread::spawn(move || write_until_gone(address, life, worker, &some))
                })
                .collect();
            wait_until("some blocks are written", || some.load(Ordering::SeqCst));
            // The last life ends in order.
            if life == 4 {
                server.stop()
            } else {
                server.kill_nine()
            }
            for worker in workers {
                acknowledged.extend(worker.join().expect("ends well"));
            }
            server.restart();
        }
        let mut client = Client::connect(server.face("chunk")).expect("it is served");
        assert!(acknowledged.len() > 20, "{layout}: {}", acknowledged.len());
        for block in &acknowledged {
            block.check(&mut client);
        }
        assert!(!server.log().contains("damaged"), "{layout}: {}", server.log());
        server.stop();
    }
}
