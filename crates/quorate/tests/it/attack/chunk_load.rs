//! Attacks the chunk store with as much load as a few clients can make.

use std::thread;
use std::time::{Duration, Instant};

use bench::workloads::chunk::cmdw::client::ChunkClient;
use bench::workloads::chunk::cmdw::load::block_of;
use bytes::Bytes;
use chunk::block::{BlockId, ChunkInfo};

use super::rig::{Attack, MIB};

const WRITERS: u64 = 4;

const CHUNK_BYTES: usize = 1 << 20;

/// How long the load lasts.
const LOAD_TIME: Duration = Duration::from_secs(3);

/// Writes blocks of four chunks for [`LOAD_TIME`]. Returns how many chunks it wrote.
fn write(attack: &Attack, writer: u64) -> u64 {
    let client = ChunkClient::connect(attack.server.face("chunk")).expect("it is served");
    let data = Bytes::from(vec![writer as u8; CHUNK_BYTES]);
    let begun_at = Instant::now();
    let mut count = 0;
    for local_id in 0.. {
        let id = BlockId { container_id: 1 + writer, local_id };
        let chunks: Vec<ChunkInfo> = (0..4)
            .map(|number| {
                let offset = number * CHUNK_BYTES as u64;
                let name = format!("{local_id}_chunk_{number}");
                ChunkInfo::plain(name, offset, CHUNK_BYTES as u64)
            })
            .collect();
        for chunk in &chunks {
            client.write_chunk(id, chunk, &data).expect("it is written");
            count += 1;
        }
        client.put_block(&block_of(id, chunks)).expect("it is committed");
        if begun_at.elapsed() > LOAD_TIME {
            break;
        }
    }
    count
}

#[test]
fn others_are_served_beside_all_chunks_that_can_be_written() {
    let attack = Attack::prepare("chunks", &["quorate.chunkAddr=127.0.0.1:0"], 0);
    let count: u64 = thread::scope(|scope| {
        let attack = &attack;
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(attack, writer))).collect();
        writers.into_iter().map(|writer| writer.join().expect("it writes")).sum()
    });
    println!("{count} chunks of 1 MiB in {LOAD_TIME:?}");
    attack.end(512 * MIB);
}
