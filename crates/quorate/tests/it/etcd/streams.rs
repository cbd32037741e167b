//! Tests of streamed reads (`KV.RangeStream` of etcd 3.7).

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use h2::client::SendRequest;
use tokio::time::{Duration, sleep};

use super::ETCD;
use super::grpc_client::{call, connect, connect_with_window, framed, head, kv, open, run, soon};
use crate::server::Server;

pub fn everything() -> pb::RangeRequest {
    let all = Bytes::from_static(b"\0");
    pb::RangeRequest { key: all.clone(), range_end: all, ..Default::default() }
}

/// Puts `count` keys with values of `value_bytes` bytes.
pub async fn fill(requests: &SendRequest<Bytes>, count: usize, value_bytes: usize) {
    let value = Bytes::from(vec![7; value_bytes]);
    for number in 0..count {
        let key = format!("key{number:06}").into();
        let put = pb::PutRequest { key, value: value.clone(), ..Default::default() };
        assert_eq!(kv(requests, "Put", &put).await.status().0, "0");
    }
}

fn merged(pieces: Vec<pb::RangeStreamResponse>) -> pb::RangeResponse {
    let mut merged = pb::RangeResponse::default();
    for piece in pieces {
        merged.merge(&piece.range_response.unwrap().encode_to_vec()[..]).unwrap();
    }
    merged
}

async fn whole(requests: &SendRequest<Bytes>, request: &pb::RangeRequest) -> pb::RangeResponse {
    kv(requests, "Range", request).await.all().remove(0)
}

#[test]
fn a_range_comes_in_pieces_that_merge_to_it() {
    let server = Server::start("etcd-stream", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        fill(&requests, 200, 10_000).await;
        for request in [
            everything(),
            pb::RangeRequest { limit: 150, ..everything() },
            pb::RangeRequest { keys_only: true, ..everything() },
            pb::RangeRequest { count_only: true, ..everything() },
            pb::RangeRequest { revision: 101, serializable: true, ..everything() },
            pb::RangeRequest { key: "none".into(), ..Default::default() },
        ] {
            let pieces: Vec<pb::RangeStreamResponse> =
                kv(&requests, "RangeStream", &request).await.all();
            let small = request.keys_only || request.count_only || !request.key.starts_with(b"\0");
            assert_eq!(pieces.len() == 1, small, "{request:?}");
            assert!(merged(pieces) == whole(&requests, &request).await, "{request:?}");
        }
        let refused = |change: fn(&mut pb::RangeRequest)| {
            let mut request = everything();
            change(&mut request);
            let requests = requests.clone();
            async move {
                let answer = kv(&requests, "RangeStream", &request).await;
                assert!(answer.messages.is_empty());
                answer.status()
            }
        };
        let pair = |code: &str, text: &str| (code.to_string(), text.to_string());
        assert_eq!(
            refused(|it| it.revision = 9_999).await,
            pair("11", "etcdserver: mvcc: required revision is a future revision")
        );
        assert_eq!(
            refused(|it| it.key = Bytes::new()).await,
            pair("3", "etcdserver: key is not provided")
        );
        assert_eq!(
            refused(|it| it.sort_order = 2).await,
            pair("12", "RangeStream does not support custom sort orders")
        );
        assert_eq!(
            refused(|it| it.max_mod_revision = 2).await,
            pair("12", "RangeStream does not support revision filters")
        );
        // Like every call with a stream of answers, it waits until the client closes its side.
        let twice = [framed(&everything().encode_to_vec()), framed(&[])].concat().into();
        let answer = soon(call(&requests, head("/etcdserverpb.KV/RangeStream"), twice)).await;
        assert_eq!(answer.unwrap().text("grpc-status"), "13");
    });
}

#[test]
fn a_slow_reader_of_a_streamed_range_costs_one_piece_and_sees_one_revision() {
    let server = Server::start("etcd-stream-slow", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        fill(&requests, 300, 100_000).await;
        let expected = whole(&requests, &everything()).await;
        let before = super::resident_bytes(&server);
        // 64 clients ask for 30 MB each and read none of it.
        let mut slow = Vec::new();
        for _ in 0..64 {
            let requests = connect_with_window(server.face("etcd"), 1_000).await;
            let head = head("/etcdserverpb.KV/RangeStream");
            let body = framed(&everything().encode_to_vec());
            slow.push((soon(open(&requests, head, body)).await.unwrap(), requests));
        }
        sleep(Duration::from_millis(300)).await;
        let grown = super::resident_bytes(&server).saturating_sub(before);
        assert!(grown < 64 * 1_000_000, "{grown} bytes for 64 readers");
        // Meanwhile another client writes, and deletes keys that the slow clients have not read
        // yet.
        let delete = pb::DeleteRangeRequest {
            key: "key000250".into(),
            range_end: "l".into(),
            ..Default::default()
        };
        assert_eq!(kv(&requests, "DeleteRange", &delete).await.status().0, "0");
        let (response, reader) = slow.pop().unwrap();
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        while let Some(frame) = soon(body.data()).await {
            let frame = frame.unwrap();
            body.flow_control().release_capacity(frame.len()).unwrap();
            bytes.extend_from_slice(&frame);
        }
        assert_eq!(soon(body.trailers()).await.unwrap().unwrap()["grpc-status"], "0");
        let mut merged = pb::RangeResponse::default();
        let mut left = &bytes[..];
        while let [_, a, b, c, d, rest @ ..] = left {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let piece = pb::RangeStreamResponse::decode(&rest[..length]).unwrap();
            merged.merge(&piece.range_response.unwrap().encode_to_vec()[..]).unwrap();
            left = &rest[length..];
        }
        assert!(merged == expected);
        drop((slow, reader));
        // Streams that have ended keep no versions alive, so a compaction frees the deleted keys.
        let compact = pb::CompactionRequest { revision: 302, physical: true };
        assert_eq!(kv(&requests, "Compact", &compact).await.status().0, "0");
    });
}
