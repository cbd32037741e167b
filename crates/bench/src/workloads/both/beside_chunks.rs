//! The workload `zk-beside-chunks`: the latency of a ZooKeeper client's synchronous creates, in
//! turn alone and while other clients write chunks to the same server at full rate.
//!
//! One session creates one znode after the other and waits for each answer, as a lock or an
//! election does. Whether the chunks are on the same disk as the log depends on how the server was
//! started (`--chunk-dir`).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use chunk::block::{BlockId, ChunkInfo};
use clap::Args;
use zk::request::{CreateKind, Request, WriteRequest};
use zk::{AclEntry, ErrorCode};

use crate::measure::machine_info::MachineInfo;
use crate::measure::stats::{Latencies, median};
use crate::servers::target::{Scheme, Target, TargetAddress};
use crate::workloads::chunk::cmdw::client::{ChunkAddress, ChunkClient};
use crate::workloads::chunk::cmdw::load::{ChunkBytes, block_of};
use crate::workloads::zk::client::{Incoming, Session};

/// Bytes of data in each znode.
const DATA_BYTES: usize = 100;

/// Chunks in each block.
const CHUNKS_PER_BLOCK: u64 = 16;

/// By how much the nice value of the threads that write chunks is higher than that of the measuring
/// thread.
const WRITERS_NICE: i32 = 10;

/// The session timeout that the client asks for, ms.
const SESSION_TIMEOUT_MS: i32 = 30_000;

/// Options of `quorate bench zk-beside-chunks`.
#[derive(Debug, Args)]
pub struct BesideChunksArgs {
    /// The server
    #[arg(long, value_name = "zk://HOST:PORT")]
    target: TargetAddress,
    /// Its chunk store
    #[arg(long, value_name = "chunk://HOST:PORT")]
    chunks: ChunkAddress,
    /// Bytes of a chunk
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    size: ChunkBytes,
    /// Clients that write chunks
    #[arg(long, value_name = "N", default_value_t = 4)]
    writers: u64,
    /// Seconds of each run
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u64,
    /// Runs of each kind
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
}

/// Runs `quorate bench zk-beside-chunks` and prints the results.
///
/// # Errors
/// A server does not answer.
pub fn command(args: &BesideChunksArgs) -> anyhow::Result<ExitCode> {
    println!("{}", MachineInfo::read());
    args.target.check_scheme(Scheme::Zk)?;
    let target = Target::find(&args.target)?;
    let address = *target.addresses.first().context("there is no address")?;
    let mut creates = Creates::connect(address)?;
    let duration = Duration::from_secs(args.seconds);
    let (mut alone, mut beside, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    // The first creates pay for what is set up only once, so they are not counted.
    creates.run(Duration::from_secs(1))?;
    for _ in 0..args.rounds {
        alone.push(creates.run(duration)?);
        let (latencies, rate) = beside_writers(args, || creates.run(duration))?;
        beside.push(latencies);
        rates.push(rate);
    }
    show("creates alone", &alone);
    show("beside chunks", &beside);
    let ratios: Vec<f64> = alone
        .iter()
        .zip(&beside)
        .map(|(alone, beside)| beside.percentile_us(99.0) / alone.percentile_us(99.0))
        .collect();
    println!("p99 beside chunks: {:.2} times that of creates alone", median(&ratios));
    println!("chunks: {:.0} MB/s", median(&rates) / 1e6);
    Ok(ExitCode::SUCCESS)
}

fn show(name: &str, runs: &[Latencies]) {
    let of = |percent| median(&runs.iter().map(|it| it.percentile_us(percent)).collect::<Vec<_>>());
    let count: u64 = runs.iter().map(Latencies::count).sum();
    let max = runs.iter().map(Latencies::max_us).fold(0.0, f64::max);
    println!(
        "{name}: p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, max {max:.0} us, {count} creates",
        of(50.0),
        of(99.0),
        of(99.9)
    );
}

/// The session that creates one znode after the other.
struct Creates {
    stream: TcpStream,
    session: Session,
    root: String,
    made: u64,
    began: Instant,
}

impl Creates {
    fn connect(address: SocketAddr) -> anyhow::Result<Creates> {
        let stream = TcpStream::connect(address).with_context(|| address.to_string())?;
        stream.set_nodelay(true)?;
        let session = Session::connect(SESSION_TIMEOUT_MS);
        let (root, began) = (format!("/beside-chunks-{}", std::process::id()), Instant::now());
        let mut creates = Creates { stream, session, root, made: 0, began };
        creates.next()?;
        let root = creates.root.clone();
        creates.create(&root)?;
        Ok(creates)
    }

    fn run(&mut self, duration: Duration) -> anyhow::Result<Latencies> {
        let mut latencies = Latencies::default();
        let end = Instant::now() + duration;
        while Instant::now() < end {
            let path = format!("{}/{}", self.root, self.made);
            self.made += 1;
            latencies.record(self.create(&path)?);
        }
        Ok(latencies)
    }

    /// Creates a znode. Returns how long that took, ns.
    fn create(&mut self, path: &str) -> anyhow::Result<u64> {
        let (data, kind) = (Some(&[7; DATA_BYTES][..]), CreateKind::Create);
        let acl = vec![AclEntry { perms: 31, scheme: "world".into(), id: "anyone".into() }];
        let (flags, ttl_ms) = (0, -1);
        let create = WriteRequest::Create { kind, path, data, acl, flags, ttl_ms };
        let now = |creates: &Creates| creates.began.elapsed().as_nanos() as u64;
        let since = now(self);
        self.session.send(&Request::Write(create), since);
        self.next()?;
        Ok(now(self) - since)
    }

    /// Sends the queued bytes and waits for one answer.
    fn next(&mut self) -> anyhow::Result<()> {
        let count = self.session.output().len();
        self.stream.write_all(self.session.output())?;
        self.session.on_written(count);
        loop {
            match self.session.take()? {
                Some(Incoming::Reply { header, .. }) => {
                    let error = header.error;
                    anyhow::ensure!(error == ErrorCode::OK, "a create is refused: {error:?}");
                    return Ok(());
                }
                Some(Incoming::Connected) => return Ok(()),
                Some(Incoming::Event { .. } | Incoming::Pong) => {}
                None => {
                    let mut buffer = [0; 4096];
                    let count = self.stream.read(&mut buffer)?;
                    anyhow::ensure!(count > 0, "the server closed the connection");
                    self.session.input().extend_from_slice(&buffer[..count]);
                }
            }
        }
    }
}

/// Calls `act` while other threads write chunks. Returns its result, and the bytes of chunks that
/// were written a second.
fn beside_writers<T>(
    args: &BesideChunksArgs,
    act: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, f64)> {
    let address = args.chunks.find()?;
    let (is_over, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let data = Bytes::from(vec![7; args.size.0 as usize]);
    thread::scope(|scope| {
        let (data, is_over, bytes) = (&data, &is_over, &bytes);
        let work = |number| move || write_chunks(address, number, data, is_over, bytes);
        let threads: Vec<_> = (0..args.writers).map(|number| scope.spawn(work(number))).collect();
        let began = Instant::now();
        let done = act();
        let rate = bytes.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("a panic has ended the process")?;
        }
        Ok((done?, rate))
    })
}

/// Writes blocks to a new container until `is_over` is set, then deletes the container.
fn write_chunks(
    address: SocketAddr,
    number: u64,
    data: &Bytes,
    is_over: &AtomicBool,
    bytes: &AtomicU64,
) -> anyhow::Result<()> {
    // The measuring thread takes precedence: its latency must show the wait for the server, not a
    // wait for a core that the writers use.
    let _ = rustix::process::nice(WRITERS_NICE);
    let client = ChunkClient::connect(address)?;
    let container_id = (u64::from(std::process::id()) << 16) + number;
    client.create_container(container_id)?;
    for local_id in 0.. {
        let id = BlockId { container_id, local_id };
        let mut chunks = Vec::new();
        for index in 0..CHUNKS_PER_BLOCK {
            if is_over.load(Ordering::Relaxed) {
                return client.delete_container(container_id);
            }
            let name = format!("{local_id}_chunk_{index}");
            let chunk = ChunkInfo::plain(name, index * data.len() as u64, data.len() as u64);
            client.write_chunk(id, &chunk, data)?;
            bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            chunks.push(chunk);
        }
        client.put_block(&block_of(id, chunks))?;
    }
    unreachable!("block ids do not end")
}
