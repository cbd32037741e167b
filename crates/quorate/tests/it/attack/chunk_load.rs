//! The chunk store under all the load that some clients can make, and admin's uploads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use bench::cmdw::client::Client;
use bench::cmdw::load::block_of;
use bytes::Bytes;
use chunk::block::{BlockId, ChunkInfo};

use super::rig::{Attack, MIB};

const WRITERS: u64 = 4;

const CHUNK_BYTES: usize = 1 << 20;

/// How long the load lasts.
const LOAD_TIME: Duration = Duration::from_secs(3);

/// Writes blocks of four chunks until the time is over. Returns the number of chunks.
fn write(attack: &Attack, writer: u64) -> u64 {
    let client = Client::connect(attack.server.face("chunk")).expect("it is served");
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

/// The status of a POST of these bytes as a snapshot. Its length is announced as more by `missing`.
fn restore(attack: &Attack, bytes: &[u8], missing: usize) -> Option<u16> {
    let mut stream = TcpStream::connect(attack.server.face("admin")).expect("it is served");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("is set");
    let head = format!(
        "POST /commands/restore HTTP/1.1\r\nHost: q\r\nConnection: close\r\nAuthorization: digest \
         super:test\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        bytes.len() + missing
    );
    stream.write_all(&[head.as_bytes(), bytes].concat()).expect("is sent");
    let mut answer = String::new();
    // A body that is not whole is waited for.
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[test]
fn uploads_that_are_no_snapshots_are_refused_and_have_their_turns() {
    let lines = [
        "admin.enableServer=true",
        "admin.serverAddress=127.0.0.1",
        "admin.serverPort=0",
        "admin.rateLimiterIntervalInMS=4000",
    ];
    let attack = Attack::prepare("restores", &lines, 1_000);
    let garbage = vec![7; 3 << 20];
    // One that stops in the middle keeps nobody but other uploads, until its client goes.
    assert_eq!(restore(&attack, &garbage[..1_000], 1_000), None);
    assert_eq!(restore(&attack, &garbage, 0), Some(400));
    // Further ones have to wait, however many ask.
    assert!((0..20).all(|_| restore(&attack, b"x", 0) == Some(429)));
    attack.end(256 * MIB);
}
