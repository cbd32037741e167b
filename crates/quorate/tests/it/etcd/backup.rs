//! Backups (`Maintenance.Snapshot`). What stands in their files is checked by bbolt, in
//! `tests/clients/go`.

use std::fs;

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

/// Backups at one time.
const BACKUPS_MAX: usize = 4;

/// The file of a backup, without the hash behind it, which is checked. Responses say how many bytes
/// are left.
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

/// Files without a name that a server has open.
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
    // The body is chunked: lines of JSON stand between the lines with the lengths of the chunks.
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

#[test]
fn clients_that_read_slowly_or_go_hold_a_few_files() {
    let server = Server::start("etcd-backup-slow", &[ETCD]);
    let etcd = server.face("etcd");
    run(async {
        let client = connect(etcd).await;
        fill(&client, 40, 100_000).await;
        let slow = connect_with_window(etcd, 65_535).await;
        let mut readers = Vec::new();
        for _ in 0..BACKUPS_MAX {
            let request = pb::SnapshotRequest {};
            let mut reader = Bidi::open_with_one(&slow, head(PATH), &request).await;
            let first: pb::SnapshotResponse = reader.next().await;
            assert!(first.remaining_bytes > 3_000_000, "{}", first.remaining_bytes);
            readers.push(reader);
        }
        assert_eq!(nameless_files(&server), BACKUPS_MAX);
        let too_many = ("8".to_string(), "etcdserver: too many requests".to_string());
        assert_eq!(backup(&client).await.unwrap_err(), too_many);
        let range = pb::RangeRequest { key: "key000001".into(), ..Default::default() };
        assert_eq!(kv(&client, "Range", &range).await.status().0, "0");
        readers.clear();
        while backup(&client).await.is_err() {}
        // One that goes at once.
        let mut requests = client.clone().ready().await.unwrap();
        let (response, mut stream) = requests.send_request(head(PATH), false).unwrap();
        stream.send_data(framed(&pb::SnapshotRequest {}.encode_to_vec()), true).unwrap();
        stream.send_reset(h2::Reason::CANCEL);
        drop(response);
    });
    wait_until("the files are closed", || nameless_files(&server) == 0);
}

#[test]
fn a_backup_that_finds_no_room_is_refused_and_harms_nobody() {
    let mounted = folder("disk-of-etcd-backup").join("mounted");
    let disk = match SmallDisk::mount(&mounted, 400) {
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
