//! Attacks with a great many etcd watches, half of them on one key, and a put to that key. Another
//! test compacts at every revision, while watches begin at older revisions.

use std::time::{Duration, Instant};

use etcd::pb::etcdserverpb::{self as pb, watch_request::RequestUnion};

use super::requests::Connection;
use super::rig::{Attack, MIB};
use crate::etcd::grpc_client::{Bidi, connect, head, kv, run};

const STREAM_COUNT: usize = 50;

/// How many watches all streams have together. Half of them watch the same key, each of the others
/// a key of its own.
fn watch_count() -> usize {
    if std::env::var_os("QUORATE_ATTACK_LARGE").is_some() { 1_000_000 } else { 100_000 }
}

fn watch(key: String, start_revision: i64) -> pb::WatchRequest {
    let create = pb::WatchCreateRequest { key: key.into(), start_revision, ..Default::default() };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

async fn put(requests: &Connection, key: &str, value: &str) -> i64 {
    let (key, value) = (key.to_string().into(), value.to_string().into());
    let put = pb::PutRequest { key, value, ..Default::default() };
    let answer: Vec<pb::PutResponse> = kv(requests, "Put", &put).await.all();
    answer[0].header.as_ref().expect("an answer has a header").revision
}

/// Opens a stream and creates its watches, with at most 50 creations unanswered at any time.
async fn stream_of(requests: &Connection, number: usize, count: usize) -> Bidi {
    let key = |watch: usize| match watch % 2 {
        0 => "all".to_string(),
        _ => format!("own{number:03}-{watch:06}"),
    };
    let first = watch(key(0), 0);
    let mut stream = Bidi::open(requests, head("/etcdserverpb.Watch/Watch"), &first).await;
    let mut sent = 1;
    for created in 0..count {
        while sent < count && sent < created + 50 {
            stream.send(&watch(key(sent), 0));
            sent += 1;
        }
        assert!(stream.next::<pb::WatchResponse>().await.created);
    }
    stream
}

#[test]
fn very_many_watches_hear_of_one_put_while_others_are_served() {
    let attack = Attack::prepare("etcd-watches", &[], 0);
    let count = watch_count() / STREAM_COUNT;
    run(async {
        let begun_at = Instant::now();
        let mut streams = Vec::new();
        for number in 0..STREAM_COUNT {
            let requests = connect(attack.etcd()).await;
            streams.push((stream_of(&requests, number, count).await, requests));
        }
        println!("{} watches took {:?}", watch_count(), begun_at.elapsed());
        let begun_at = Instant::now();
        let revision = put(&streams[0].1, "all", "1").await;
        println!("the put took {:?}", begun_at.elapsed());
        for (stream, _) in &mut streams {
            for _ in 0..count.div_ceil(2) {
                let heard: pb::WatchResponse = stream.next().await;
                let kv = heard.events[0].kv.as_ref().expect("an event has a key");
                assert_eq!((heard.events.len(), &kv.key[..]), (1, &b"all"[..]));
                assert_eq!(kv.mod_revision, revision);
            }
        }
        println!("all have heard of it after {:?}", begun_at.elapsed());
        // The watches on other keys work, too.
        let own = format!("own{:03}-{:06}", STREAM_COUNT - 1, count / 2 * 2 - 1);
        put(&streams[0].1, &own, "1").await;
        let (last, _) = &mut streams[STREAM_COUNT - 1];
        let heard: pb::WatchResponse = last.next().await;
        assert_eq!(heard.events[0].kv.as_ref().map(|kv| &kv.key[..]), Some(own.as_bytes()));
    });
    attack.end((watch_count() as u64 * 700).max(256 * MIB));
}

#[test]
fn a_compaction_at_each_revision_lets_others_be_served() {
    let attack = Attack::prepare("compactions", &[], 20_000);
    run(async {
        let requests = connect(attack.etcd()).await;
        let (begun_at, mut compactions) = (Instant::now(), 0);
        while begun_at.elapsed() < Duration::from_secs(3) {
            let revision = put(&requests, "storm", "1").await;
            let ahead = watch("storm".to_string(), revision);
            let path = head("/etcdserverpb.Watch/Watch");
            let mut behind = Bidi::open(&requests, path, &ahead).await;
            let compact = pb::CompactionRequest { revision, physical: true };
            assert_eq!(kv(&requests, "Compact", &compact).await.status().0, "0");
            compactions += 1;
            // Everything below the revision is gone, and a client that asks for it gets an error.
            assert_eq!(kv(&requests, "Compact", &compact).await.status().0, "11");
            behind.send(&watch("storm".to_string(), revision - 1));
            // The answers to both creations, and the event of the first watch, come before this.
            let ended = loop {
                let heard: pb::WatchResponse = behind.next().await;
                if heard.canceled {
                    break heard;
                }
            };
            assert_eq!(ended.compact_revision, revision);
            behind.cancel();
        }
        println!("{compactions} compactions");
        assert!(compactions > 20);
    });
    attack.end(256 * MIB);
}
