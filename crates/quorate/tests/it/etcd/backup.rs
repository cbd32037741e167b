//! Tests of backups (`Maintenance.Snapshot`): how they are streamed, and what they cost.
//! `tests/clients/go` checks the files with bbolt.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use etcd::pb::{Message, etcdserverpb as pb};
use h2::client::SendRequest;
use sha2::{Digest, Sha256};

use super::grpc_client::{Bidi, call, connect, connect_with_window, framed, head, kv, run, soon};
use super::streams::fill;
use super::{ETCD, put, request};
use crate::bad_input::disk_full::{SmallDisk, skip};
use crate::server::{Server, folder, wait_until};

const PATH: &str = "/etcdserverpb.Maintenance/Snapshot";

/// How many backups may be made or read at the same time.
const BACKUPS_MAX: usize = 4;

/// Joins the responses to the file without its hash. Fails unless the hash is right, and each
/// response says how many bytes are left.
fn whole(responses: &[pb::SnapshotResponse]) -> Vec<u8> {
    let (hash, blobs) = responses.split_last().unwrap();
    let blobs: Vec<&[u8]> = blobs.iter().map(|response| &response.blob[..]).collect();
    let file = blobs.concat();
    assert_eq!(&hash.blob[..], &Sha256::digest(&file)[..]);
    let mut left = file.len();
    for response in responses {
        if response.remaining_bytes > 0 || response.blob.len() != 32 {
            left -= response.blob.len();
        }
        assert_eq!(response.remaining_bytes, left as u64);
        assert_eq!((&*response.version, &response.header), ("3.6.0", &None));
    }
    file
}

async fn backup(requests: &SendRequest<Bytes>) -> Result<Vec<u8>, (String, String)> {
    let answer = soon(call(requests, head(PATH), framed(&[]))).await.unwrap();
    match &*answer.status().0 {
        "0" => Ok(whole(&answer.all())),
        _ => Err(answer.status()),
    }
}

/// How many files without a name the server has open.
fn nameless_files(server: &Server) -> usize {
    let of_server = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
    let links = fs::read_dir(of_server).unwrap().flatten();
    let links = links.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().ends_with("(deleted)")).count()
}

#[test]
fn both_faces_stream_a_backup_and_leave_nothing_behind() {
    let server = Server::start("etcd-backup", &[ETCD]);
    let etcd = server.face("etcd");
    let files = || fs::read_dir(server.data_dir()).unwrap().flatten().map(|it| it.file_name());
    let mut before: Vec<_> = files().collect();
    let by_grpc = run(async {
        let client = connect(etcd).await;
        fill(&client, 40, 10_000).await;
        backup(&client).await.unwrap()
    });
    assert!(by_grpc.len() > 400_000, "{}", by_grpc.len());
    let (status, text) = request(etcd, "POST /v3/maintenance/snapshot", "{}").unwrap();
    assert_eq!(status, 200);
    // The body is chunked: between the lines of JSON are lines with the lengths of chunks.
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let responses = lines.map(|line| {
        let result = &serde_json::from_str::<serde_json::Value>(line).unwrap()["result"];
        let remaining = result["remaining_bytes"].as_str().unwrap_or("0").parse().unwrap();
        let blob = STANDARD.decode(result["blob"].as_str().unwrap()).unwrap();
        let version = result["version"].as_str().unwrap().to_string();
        pb::SnapshotResponse {
            header: None,
            remaining_bytes: remaining,
            blob: blob.into(),
            version,
        }
    });
    let by_json = whole(&responses.collect::<Vec<_>>());
    assert_eq!(by_json.len(), by_grpc.len());
    let mut after: Vec<_> = files().collect();
    before.sort();
    after.sort();
    assert_eq!(before, after);
    wait_until("the files are closed", || nameless_files(&server) == 0);
}

/// Waits until the server has at most `most` files without a name. It closes the file of a backup
/// shortly after the client has read the last byte or disconnected.
async fn closed_but(most: usize, server: &Server) {
    let closed = async {
        while nameless_files(server) > most {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(closed).await;
}

#[test]
fn clients_that_read_slowly_or_go_hold_a_few_files() {
    let server = Server::start("etcd-backup-slow", &[ETCD]);
    let etcd = server.face("etcd");
    run(async {
        let client = connect(etcd).await;
        // More than the server sorts in memory.
        fill(&client, 450, 100_000).await;
        let slow = connect_with_window(etcd, 65_535).await;
        let mut readers = Vec::new();
        for _ in 0..BACKUPS_MAX {
            let request = pb::SnapshotRequest {};
            let mut reader = Bidi::open_with_one(&slow, head(PATH), &request).await;
            let first: pb::SnapshotResponse = reader.next().await;
            assert!(first.remaining_bytes > 45_000_000, "{}", first.remaining_bytes);
            readers.push(reader);
        }
        assert_eq!(nameless_files(&server), BACKUPS_MAX);
        let too_many = ("8".to_string(), "etcdserver: too many requests".to_string());
        // While the clients of four backups read on, a fifth backup is refused after a wait.
        let go_on = async {
            loop {
                for reader in &mut readers {
                    reader.next::<pb::SnapshotResponse>().await;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let refused = tokio::select! {
            refused = backup(&client) => refused,
            () = go_on => unreachable!("it goes on for ever"),
        };
        assert_eq!(refused.unwrap_err(), too_many);
        // Once these clients stop reading, they lose their backups to others.
        assert!(backup(&client).await.is_ok());
        closed_but(BACKUPS_MAX - 1, &server).await;
        let range = pb::RangeRequest { key: "key000001".into(), ..Default::default() };
        assert_eq!(kv(&client, "Range", &range).await.status().0, "0");
        readers.clear();
        while backup(&client).await.is_err() {}
        // Only one backup is made at a time, with two files; each that is being read has one.
        let all = async {
            let [first, second, third, fourth] = [(); BACKUPS_MAX].map(|()| backup(&client));
            tokio::join!(first, second, third, fourth)
        };
        let watched = async {
            loop {
                assert!(nameless_files(&server) <= BACKUPS_MAX + 1);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let (first, second, third, fourth) = tokio::select! {
            all = all => all,
            () = watched => unreachable!("it goes on for ever"),
        };
        assert!([first, second, third, fourth].iter().all(Result::is_ok));
        // Clients that disconnect while their backup is being made.
        for number in 0..20 {
            let mut requests = client.clone().ready().await.unwrap();
            let (response, mut stream) = requests.send_request(head(PATH), false).unwrap();
            stream.send_data(framed(&pb::SnapshotRequest {}.encode_to_vec()), true).unwrap();
            tokio::time::sleep(Duration::from_millis(10 * number)).await;
            stream.send_reset(h2::Reason::CANCEL);
            drop(response);
            closed_but(2, &server).await;
        }
    });
    wait_until("the files are closed", || nameless_files(&server) == 0);
}

#[test]
fn a_backup_that_finds_no_room_is_refused_and_harms_nobody() {
    let mounted = folder("disk-of-etcd-backup").join("mounted");
    let disk = match SmallDisk::mount(&mounted, 800) {
        Ok(disk) => disk,
        Err(reason) => return skip(&reason),
    };
    let line = format!("dataDir={}", mounted.join("data").display());
    let server = Server::start("etcd-backup-full", &[ETCD, &line]);
    let etcd = server.face("etcd");
    run(async {
        let client = connect(etcd).await;
        fill(&client, 20, 100_000).await;
        assert!(backup(&client).await.unwrap().len() > 2_000_000);
        let filler = disk.fill(30 * 1024 * 1024);
        let (code, text) = backup(&client).await.unwrap_err();
        assert_eq!(code, "2", "{text}");
        assert!(text.contains("bytes free, and"), "{text}");
        assert!(put(etcd, "after", "1"));
        fs::remove_file(filler).unwrap();
        assert!(backup(&client).await.unwrap().len() > 2_000_000);
    });
    wait_until("the files are closed", || nameless_files(&server) == 0);
}

/// The output of `quorate inspect` for a path.
fn inspected(words: &[&str], path: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    let output = command.arg("inspect").args(words).arg(path).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn what_a_dead_server_holds_is_printed() {
    let admin = ["admin.enableServer=true", "admin.serverPort=0"];
    let mut server = Server::start("etcd-inspect", &[ETCD, admin[0], admin[1]]);
    let etcd = server.face("etcd");
    for (path, body) in [
        ("lease/grant", r#"{"ID":"74565","TTL":"600"}"#),
        // The key is `leased` in base64.
        ("kv/put", r#"{"key":"bGVhc2Vk","value":"MQ==","lease":"74565"}"#),
        ("auth/user/add", r#"{"name":"bob","password":"secret"}"#),
        ("auth/role/add", r#"{"name":"reader"}"#),
        ("auth/role/grant", r#"{"name":"reader","perm":{"key":"aw==","range_end":"AA=="}}"#),
        ("auth/user/grant", r#"{"user":"bob","role":"reader"}"#),
    ] {
        let (status, text) = request(etcd, &format!("POST /v3/{path}"), body).unwrap();
        assert_eq!(status, 200, "{path}: {text}");
    }
    assert!(put(etcd, "a\n", "12345") && put(etcd, "a\n", "123456"));
    let taken = crate::images::snapshot(server.face("admin"));
    let file = server.folder().join("backup.snap");
    fs::write(&file, &taken.body).unwrap();
    assert!(put(etcd, "last", ""));
    server.kill_nine();
    let said = inspected(&["--etcd"], &server.data_dir());
    let lines: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("etcd:")).collect();
    assert_eq!(
        lines,
        [
            "etcd: revision 5, compacted 0, 3 keys, 1 leases, 1 users, 1 roles, permissions are \
             not enforced",
            "key a\\n created 3 modified 4 version 2 value 6 bytes",
            "key last created 5 modified 5 version 1 value 0 bytes",
            "key leased created 2 modified 2 version 1 value 1 bytes lease 12345",
            "lease 12345 ttl 600 s keys leased",
            "user bob password roles reader",
            "role reader read [k, all behind",
        ]
    );
    let said = inspected(&["--etcd=leases"], &file);
    assert!(said.contains("revision 4, compacted 0, 2 keys"), "{said}");
    assert_eq!(said.lines().last(), Some("lease 12345 ttl 600 s keys leased"));
    assert!(!inspected(&[], &server.data_dir()).contains("etcd:"));
}
