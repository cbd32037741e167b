//! Tests of the chunk store of a real server process, which is killed under load, on a full disk,
//! or on a hanging disk. In every layout, a block whose commit was acknowledged must be there with
//! its bytes.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::workloads::chunk::cmdw::client::{ChunkClient, Refused};
use bench::workloads::chunk::cmdw::load::block_of;
use bench::workloads::chunk::cmdw::table::value_of;
use bytes::Bytes;
use chunk::block::{BlockData, BlockId, ChunkInfo};
use chunk::checksum::{ChecksumData, ChecksumType};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use workload::generate::Random;

use crate::bad_input::disk_full::{SmallDisk, skip};
use crate::client::Client as ZkClient;
use crate::ensemble::Members;
use crate::monitoring::http;
use crate::server::{Server, folder, free_addresses, wait_until};

/// How many clients write while the server is killed.
const WORKERS: u64 = 4;

/// The answer; `None` if the server was gone. A refusal fails the test.
fn answered<T>(result: anyhow::Result<T>) -> Option<T> {
    match result {
        Err(error) if error.is::<Refused>() => panic!("{error}"),
        other => other.ok(),
    }
}

/// How long a stopping server waits for requests to the chunk store. The server's own constant is
/// private, and has the same value.
const CHUNK_STOP_TIME: Duration = Duration::from_secs(5);

/// How many clients write to a full disk at the same time.
const MANY_WRITERS: u64 = 40;

/// A block of `chunk_count` chunks. Its bytes depend only on its id.
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
        block_of(self.id, self.chunks().into_iter().map(|(chunk, _)| chunk).collect())
    }

    /// Writes and commits the block; `None` if the commit was not acknowledged.
    fn write(&self, client: &ChunkClient) -> Option<()> {
        for (chunk, data) in self.chunks() {
            answered(client.write_chunk(self.id, &chunk, &data))?;
        }
        answered(client.put_block(&self.data()))
    }

    fn check(&self, client: &ChunkClient) {
        let found = client.get_block(self.id).expect("it is there");
        assert_eq!(found.chunks.len() as u64, self.chunk_count, "{self:?}");
        for (chunk, data) in self.chunks() {
            let mut found = Vec::new();
            client.read_chunk(self.id, &chunk, &mut found).expect("it can be read");
            assert!(found == data, "{self:?} {chunk:?}");
        }
    }
}

/// Writes blocks until the server is gone. Returns the blocks whose commit was acknowledged. Sets
/// `some` after a few of them.
fn write_until_gone(address: SocketAddr, life: u64, worker: u64, some: &AtomicBool) -> Vec<Block> {
    let mut random = Random::new(life * 100 + worker);
    let mut acknowledged = Vec::new();
    let Ok(client) = ChunkClient::connect(address) else { return acknowledged };
    for number in 0.. {
        // Two workers share a container.
        let local_id = (life * 1_000_000) + worker * 10_000 + number;
        let block = Block::draw(&mut random, 1 + worker / 2, local_id);
        if block.write(&client).is_none() {
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
            // The server's last life ends with SIGTERM.
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
        let client = ChunkClient::connect(server.face("chunk")).expect("it is served");
        assert!(acknowledged.len() > 20, "{layout}: {}", acknowledged.len());
        for block in &acknowledged {
            block.check(&client);
        }
        assert!(!server.log().contains("damaged"), "{layout}: {}", server.log());
        server.stop();
    }
}

/// Writes blocks of one chunk of 1,000,000 bytes until a write is refused. Returns how many were
/// accepted, and the refusal.
fn write_until_full(client: &ChunkClient, container_id: u64) -> (u64, anyhow::Error) {
    let data = Bytes::from(vec![7; 1_000_000]);
    let mut taken = 0;
    loop {
        let id = BlockId { container_id, local_id: taken };
        let chunk = ChunkInfo::plain(format!("{taken}_chunk_1"), 0, data.len() as u64);
        let written = client.write_chunk(id, &chunk, &data);
        match written.and_then(|()| client.put_block(&block_of(id, vec![chunk]))) {
            Ok(()) => taken += 1,
            Err(error) => return (taken, error),
        }
    }
}

#[test]
fn a_full_disk_refuses_chunks_until_there_is_room_and_loses_none() {
    for layout in ["log", "per-block"] {
        let mounted = folder(&format!("disk-of-chunks-{layout}")).join("mounted");
        let disk = match SmallDisk::mount(&mounted, 900) {
            Ok(disk) => disk,
            Err(reason) => return skip(&reason),
        };
        let lines = [
            &format!("dataDir={}", mounted.join("data").display()),
            "quorate.chunkAddr=127.0.0.1:0",
            &format!("quorate.chunkLayout={layout}"),
        ];
        let mut server = Server::start(&format!("chunks-full-{layout}"), &lines);
        let client = ChunkClient::connect(server.face("chunk")).expect("it is served");
        let mut random = Random::new(3);
        let blocks: Vec<Block> =
            (0..20).map(|local_id| Block::draw(&mut random, 1, local_id)).collect();
        blocks.iter().for_each(|block| block.write(&client).expect("it is answered"));
        // `fill` leaves some room for the file system itself.
        let filler = disk.fill(0);
        // There are more clients than the log has buffers, so some are waiting for a buffer when
        // the space runs out.
        let address = server.face("chunk");
        let workers: Vec<_> = (100..100 + MANY_WRITERS)
            .map(|container_id| {
                std::thread::spawn(move || {
                    let client = ChunkClient::connect(address).expect("it is served");
                    (container_id, write_until_full(&client, container_id))
                })
            })
            .collect();
        let mut taken = Vec::new();
        for worker in workers {
            let (container_id, (count, error)) = worker.join().expect("ends well");
            assert!(error.to_string().contains("DISK_OUT_OF_SPACE"), "{layout}: {error}");
            taken.extend((0..count).map(|local_id| BlockId { container_id, local_id }));
        }
        // Existing blocks can still be read, since that needs no space.
        blocks.iter().for_each(|block| block.check(&client));
        for id in &taken {
            let mut found = Vec::new();
            let all = ChunkInfo::plain(format!("{}_chunk_1", id.local_id), 0, 1_000_000);
            client.read_chunk(*id, &all, &mut found).expect("it is read");
            assert!(found == vec![7; 1_000_000], "{layout}");
        }
        // The log releases segments that it created ahead, at most twice a second. Then there is
        // space for a few more chunks.
        let mut container_id = 1_000;
        wait_until("the disk stays full", || {
            container_id += 1;
            let (more, error) = write_until_full(&client, container_id);
            assert!(error.to_string().contains("DISK_OUT_OF_SPACE"), "{layout}: {error}");
            more <= 1
        });
        std::fs::remove_file(filler).expect("removes");
        let more = Block { id: BlockId { container_id: 4, local_id: 1 }, ..blocks[0] };
        more.write(&client).expect("it is answered");
        server.kill_nine();
        server.restart();
        let client = ChunkClient::connect(server.face("chunk")).expect("it is served");
        blocks.iter().chain([&more]).for_each(|block| block.check(&client));
        for id in &taken {
            assert_eq!(client.get_block(*id).expect("it was committed").chunks.len(), 1);
        }
        assert!(!server.log().contains("damaged"), "{layout}: {}", server.log());
        server.stop();
    }
}

#[test]
fn what_a_server_left_is_inspected_and_exported() {
    let mut server = Server::start("chunks-export", &["quorate.chunkAddr=127.0.0.1:0"]);
    let client = ChunkClient::connect(server.face("chunk")).expect("it is served");
    let mut random = Random::new(7);
    let blocks: Vec<Block> =
        (0..6).map(|local_id| Block::draw(&mut random, 1 + local_id % 2, local_id)).collect();
    blocks.iter().for_each(|block| block.write(&client).expect("it is answered"));
    let quorate = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_quorate")).args(words).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let data_dir = server.data_dir().to_path_buf();
    let to = data_dir.with_extension("exported");
    let [data_dir, to] = [&data_dir, &to].map(|path| path.to_str().expect("it is text"));
    let export = ["export-chunks", data_dir, "--to", to];
    // While a server has the store open, it can be inspected but not exported.
    let (is_sound, text) = quorate(&["inspect", data_dir]);
    assert!(is_sound && text.contains("container 2: LOG, Open, 3 blocks committed"), "{text}");
    let (is_done, text) = quorate(&export);
    assert!(!is_done && text.contains("which no server may have open"), "{text}");
    server.stop();
    let (is_done, text) = quorate(&export);
    assert!(is_done && text.contains("container 1: 3 blocks"), "{text}");
    // Containers that were exported are not written again. An unknown id is refused before any file
    // is written.
    let (is_done, text) = quorate(&export);
    assert!(is_done && text.contains("container 2: it is in"), "{text}");
    let other = format!("{to}-other");
    let some = ["export-chunks", data_dir, "--to", &other, "--container", "1,99"];
    let (is_done, text) = quorate(&some);
    assert!(!is_done && text.contains("there is no container 99"), "{text}");
    assert!(!Path::new(&other).exists());
    for block in &blocks {
        let Block { id: BlockId { container_id, local_id }, .. } = block;
        let name = format!("/current/containerDir0/{container_id}/chunks/{local_id}.block");
        let cluster = std::fs::read_dir(format!("{to}/hdds")).unwrap().next().unwrap().unwrap();
        let found = std::fs::read(format!("{}{name}", cluster.path().display())).unwrap();
        let wanted: Vec<u8> = block.chunks().into_iter().flat_map(|(_, data)| data).collect();
        assert!(found == wanted, "{block:?}");
    }
    std::fs::remove_dir_all(to).unwrap();
    // This damages a byte of a block.
    let log = Path::new(data_dir).join("chunks/log/00000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[200_000] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    // The first export reports the damage, and so does a second one, although its containers are
    // already written.
    for _ in 0..2 {
        let (is_done, text) = quorate(&export);
        assert!(!is_done && text.contains("PROBLEM: block "), "{text}");
    }
    std::fs::remove_dir_all(to).unwrap();
    assert!(!quorate(&["export-chunks", to, "--to", to]).0);
    // An empty folder is not a store, and must not become one.
    let empty = Path::new(to).join("chunks");
    std::fs::create_dir_all(&empty).unwrap();
    let (is_done, text) = quorate(&["export-chunks", to, "--to", &other]);
    assert!(!is_done && text.contains("cannot open store"), "{text}");
    assert_eq!(text.matches("os error").count(), 1, "{text}");
    assert_eq!(empty.read_dir().unwrap().count(), 0);
    std::fs::remove_dir_all(to).unwrap();
}

#[test]
fn a_server_without_descriptors_closes_files_of_blocks_and_goes_on() {
    let lines = ["quorate.chunkAddr=127.0.0.1:0", "quorate.chunkLayout=per-block"];
    let mut server = Server::start("chunks-descriptors", &lines);
    let client = ChunkClient::connect(server.face("chunk")).expect("it is served");
    // An answer shows that all threads of the store run.
    client.create_container(9).expect("it is served");
    let open = || Path::new(&format!("/proc/{}/fd", server.pid().as_raw_pid())).read_dir();
    let open = || open().expect("it runs").count() as u64;
    let few = open() + 20;
    let limit = getrlimit(Resource::Nofile);
    let limit = Rlimit { current: Some(few), ..limit };
    prlimit(Some(server.pid()), Resource::Nofile, limit).expect("may be lowered");
    let block = |local_id| Block {
        id: BlockId { container_id: 1, local_id },
        chunk_bytes: 100_000,
        chunk_count: 2,
    };
    (0..100).for_each(|local_id| block(local_id).write(&client).expect("it is written"));
    (0..100).for_each(|local_id| block(local_id).check(&client));
    assert!(open() <= few);
    server.stop();
}

/// Makes the disk hang for readers of a file: replaces the file by a pipe, and opening a pipe for
/// reading waits until another program opens it for writing. Returns the new name of the file.
fn hang(path: &Path) -> PathBuf {
    let aside = path.with_extension("aside");
    std::fs::rename(path, &aside).expect("is renamed");
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("is made");
    aside
}

/// How often the thread with this name has given up the CPU voluntarily; `None` if there is no such
/// thread.
fn rests_of_thread(pid: Pid, name: &str) -> Option<String> {
    let tasks = format!("/proc/{}/task", pid.as_raw_pid());
    Path::new(&tasks).read_dir().expect("the process runs").find_map(|task| {
        let task = task.expect("is read").path();
        let said = |file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        if said("comm").trim_end() != name {
            return None;
        }
        said("status").lines().find(|line| line.starts_with("voluntary_ctxt")).map(String::from)
    })
}

#[test]
fn zookeeper_is_served_while_the_chunk_store_is_opened() {
    let lines =
        ["quorate.chunkAddr=127.0.0.1:0", "admin.serverPort=0", "admin.serverAddress=127.0.0.1"];
    let mut server = Server::start("chunks-opening", &lines);
    let client = ChunkClient::connect(server.face("chunk")).expect("it is served");
    let id = BlockId { container_id: 1, local_id: 1 };
    let block = Block { id, chunk_bytes: 9_000, chunk_count: 3 };
    block.write(&client).expect("it is written");
    drop(client);
    server.stop();
    let identity = server.data_dir().join("chunks").join("store");
    let aside = hang(&identity);
    // The server prints its ready line although the store hangs.
    server.restart();
    let mut session = ZkClient::open(server.address(), 10_000);
    assert_eq!(session.create("/a", b"one", 0).as_deref(), Ok("/a"));
    let (status, text) = chunk_health(&server);
    assert!(status == 503 && text.ends_with("is being opened\n"), "{text}");
    assert_eq!(http(server.face("admin"), "GET /health/ready").0, 200);
    // The server ends although the store hangs.
    server.stop();
    std::fs::rename(&aside, &identity).expect("is renamed");
    server.restart();
    let client = ChunkClient::connect(server.face("chunk")).expect("it is served");
    block.check(&client);
    let mut session = ZkClient::open(server.address(), 10_000);
    assert_eq!(session.get("/a").as_deref(), Ok(&b"one"[..]));
    server.stop();
}

#[test]
fn a_leader_hands_over_before_its_chunk_store_ends() {
    let mut members = Members::prepare("chunks-handover", "");
    let [address] = free_addresses();
    let config = members.folder.join("1").join("zoo.cfg");
    let lines = format!("\nquorate.chunkAddr={address}\nquorate.chunkLayout=per-block\n");
    File::options().append(true).open(config).unwrap().write_all(lines.as_bytes()).unwrap();
    (0..3).for_each(|place| members.start(place));
    members.leader();
    let client = || {
        let mut client = None;
        wait_until("the chunk store is served", || {
            client = ChunkClient::connect(address).ok();
            client.is_some()
        });
        client.expect("it is served")
    };
    let id = BlockId { container_id: 1, local_id: 1 };
    let block = Block { id, chunk_bytes: 100_000, chunk_count: 2 };
    block.write(&client()).expect("it is written");
    members.stop_one(0);
    let cluster = members.data(0).join("chunks").join("hdds").read_dir().unwrap().next();
    let folder = cluster.unwrap().unwrap().path().join("current/containerDir0/1/chunks");
    hang(&folder.join("1.block"));
    members.start(0);
    members.make_leader(0);
    // The store cannot stop while a read hangs, and the scrub waits for the same block.
    let client = client();
    thread::scope(|scope| {
        let (chunk, _) = block.chunks().remove(0);
        scope.spawn(move || client.read_chunk(block.id, &chunk, &mut Vec::new()));
        // The scrubbing thread wakes ten times a second, until it waits for this block as well.
        let (mut rests, mut since) = (None, Instant::now());
        wait_until("the scrub waits for the disk", || {
            let now = rests_of_thread(members.pid(0), "chunk-upkeep");
            if now != rests {
                (rests, since) = (now, Instant::now());
            }
            rests.is_some() && since.elapsed() > Duration::from_secs(1)
        });
        let mut session = ZkClient::open(members.clients[0], 10_000);
        assert_eq!(session.create("/a", b"one", 0).as_deref(), Ok("/a"));
        let began = Instant::now();
        kill_process(members.pid(0), Signal::TERM).unwrap();
        members.leader_if(|place| place != 0);
        assert!(began.elapsed() < CHUNK_STOP_TIME, "it led on: {:?}", began.elapsed());
        assert_eq!(members.wait_for_end(0).code(), Some(1));
        assert!(began.elapsed() >= CHUNK_STOP_TIME, "the read did not hang");
    });
    assert!(members.log(0).contains("did not stop within 20 s"), "{}", members.log(0));
    members.stop();
}

/// Runs a benchmark against running servers and returns its output.
fn bench(workload: &str, options: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    let output = command.args(["bench", workload]).args(options).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn the_benchmark_writes_and_reads_over_the_network() {
    let mut server = Server::start("chunks-bench", &["quorate.chunkAddr=127.0.0.1:0"]);
    let target = format!("chunk://{}", server.face("chunk"));
    let few = ["--target", &target, "--size", "1KiB,100KiB", "--count", "200,40", "--rounds", "1"];
    let few = [&few[..], &["--threads", "3", "--containers", "2", "--checksum", "crc32c"]].concat();
    let written = bench("cmdw", &few);
    assert!(written.contains("== 200 chunks of 1 KiB, checksums: crc32c"), "{written}");
    let read = bench("cmdr", &few);
    let runs = read.lines().filter(|line| value_of(line, "cpu_us_per_chunk").is_some());
    let runs: Vec<_> =
        runs.map(|line| [value_of(line, "variant"), value_of(line, "size")]).collect();
    let expected = ["1024", "102400"]
        .map(|size| {
            ["sequential-crc32c", "random-crc32c"].map(|variant| [Some(variant), Some(size)])
        })
        .concat();
    assert_eq!(runs, expected, "{read}");
    server.stop();
}

/// The status and text of the chunk store's health check.
fn chunk_health(server: &Server) -> (u16, String) {
    let (status, _, text) = http(server.face("admin"), "GET /health/chunks");
    (status, text)
}

#[test]
fn a_chunk_store_that_cannot_be_opened_is_told_and_the_rest_is_served() {
    let folder = folder("chunks-elsewhere");
    let dir = folder.join("disk").join("store");
    let lines = [
        "quorate.chunkAddr=127.0.0.1:0",
        &format!("quorate.chunkDir={}", dir.display()),
        "admin.serverPort=0",
        "admin.serverAddress=127.0.0.1",
    ];
    // Every new file system has this folder, and the store must accept it.
    std::fs::create_dir_all(dir.join("lost+found")).expect("is made");
    let mut server = Server::start("chunks-not-opened", &lines);
    let client = ChunkClient::connect(server.face("chunk")).expect("it is served");
    let block =
        Block { id: BlockId { container_id: 1, local_id: 1 }, chunk_bytes: 9_000, chunk_count: 3 };
    block.write(&client).expect("it is written");
    block.check(&client);
    assert_eq!(chunk_health(&server), (200, "served\n".to_string()));
    assert!(!server.data_dir().join("chunks").exists());
    drop(client);
    server.stop();
    let identity = std::fs::read(dir.join("store")).expect("is there");
    let mut bad = identity.clone();
    bad[20] ^= 1;
    std::fs::write(dir.join("store"), &bad).expect("is written");
    // The server prints its ready line although the store is unusable.
    server.restart();
    wait_until("the store has failed", || server.log().contains("the chunk store is not served"));
    let (status, text) = chunk_health(&server);
    assert!(status == 503 && text.contains("checksum does not match"), "{text}");
    assert_eq!(http(server.face("admin"), "GET /health/ready").0, 200);
    wait_until("the port is closed", || ChunkClient::connect(server.face("chunk")).is_err());
    server.stop();
    // The server has not changed the unusable file.
    assert_eq!(std::fs::read(dir.join("store")).expect("is there"), bad);
    std::fs::write(dir.join("store"), &identity).expect("is written");
    server.restart();
    let client = ChunkClient::connect(server.face("chunk")).expect("it is served");
    block.check(&client);
    drop(client);
    server.stop();
    std::fs::remove_dir_all(folder).expect("removes");
}
