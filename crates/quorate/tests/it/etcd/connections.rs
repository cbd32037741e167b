//! Tests how the server keeps connections alive, and what a single connection may do.

use std::time::Duration;

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::watch_request::RequestUnion;
use h2::client::SendRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ETCD;
use super::grpc_client::{Bidi, call, connect, framed, head, kv, run, soon};
use super::streams::fill;
use crate::server::Server;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

fn frame(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let length = u8::try_from(body.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, 0], body].concat()
}

/// A client that sends and receives raw HTTP/2 frames.
struct Raw(TcpStream);

impl Raw {
    async fn connect(server: &Server) -> Raw {
        let mut socket = TcpStream::connect(server.face("etcd")).await.unwrap();
        socket.write_all(&[PREFACE, &frame(SETTINGS, 0, &[])].concat()).await.unwrap();
        Raw(socket)
    }

    /// The next frame of this kind: flags and body; `None` if the server closes the connection
    /// first.
    async fn next(&mut self, kind: u8) -> Option<(u8, Vec<u8>)> {
        loop {
            let mut head = [0; 9];
            soon(self.0.read_exact(&mut head)).await.ok()?;
            let [high, middle, low, of, flags, ..] = head;
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            let mut body = vec![0; length];
            soon(self.0.read_exact(&mut body)).await.ok()?;
            if of == kind {
                return Some((flags, body));
            }
        }
    }

    async fn ping(&mut self) {
        self.0.write_all(&frame(PING, 0, &[7; 8])).await.unwrap();
    }
}

#[test]
fn a_client_that_pings_too_often_is_told_so_and_sent_away() {
    let server = Server::start("etcd-pings", &[ETCD]);
    run(async {
        let mut raw = Raw::connect(&server).await;
        for _ in 0..4 {
            raw.ping().await;
        }
        let (_, body) = raw.next(GOAWAY).await.expect("the server says why");
        assert_eq!(body[4..8], [0, 0, 0, 0xb], "ENHANCE_YOUR_CALM");
        assert_eq!(&body[8..], b"too_many_pings");
        assert_eq!(raw.next(GOAWAY).await, None);
        // The server tolerates three pings, and any number between answers.
        let mut raw = Raw::connect(&server).await;
        for _ in 0..3 {
            raw.ping().await;
            assert_eq!(raw.next(PING).await.expect("an answer").0, 1);
        }
        let requests = connect(server.face("etcd")).await;
        fill(&requests, 3, 10).await;
    });
}

#[test]
fn a_client_that_is_silent_is_sent_a_ping_and_lost_without_an_answer() {
    let lines =
        [ETCD, "quorate.etcdGrpcKeepaliveInterval=200ms", "quorate.etcdGrpcKeepaliveTimeout=2s"];
    let server = Server::start("etcd-silent", &lines);
    run(async {
        // The first client answers all pings, as the library does; the second never does.
        let requests = connect(server.face("etcd")).await;
        let mut raw = Raw::connect(&server).await;
        assert_eq!(raw.next(PING).await.expect("a ping").0, 0);
        // The second client gets two seconds to answer. Until then, the server pings the first one
        // many times.
        assert_eq!(raw.next(GOAWAY).await, None);
        fill(&requests, 3, 10).await;
    });
}

#[test]
fn a_connection_has_as_many_streams_as_the_configuration_says() {
    let server = Server::start("etcd-few", &[ETCD, "quorate.etcdMaxConcurrentStreams=2"]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        let mut watches = [watch(&requests).await, watch(&requests).await];
        let range = pb::RangeRequest { key: "a".into(), ..Default::default() };
        let waits = kv(&requests, "Range", &range);
        tokio::pin!(waits);
        let early = tokio::time::timeout(Duration::from_millis(200), &mut waits).await;
        assert!(early.is_err(), "a third stream was served beside two");
        let [one, _] = &mut watches;
        one.cancel();
        assert_eq!(waits.await.status().0, "0");
    });
}

async fn watch(requests: &SendRequest<Bytes>) -> Bidi {
    let create = pb::WatchCreateRequest { key: "w".into(), ..Default::default() };
    let create = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let mut stream = Bidi::open(requests, head("/etcdserverpb.Watch/Watch"), &create).await;
    assert!(stream.next::<pb::WatchResponse>().await.created);
    stream
}

/// kube-apiserver's watches and lists share a connection like this.
#[test]
fn watches_go_on_beside_a_list_of_100_mb_that_nobody_reads() {
    let server = Server::start("etcd-large-list", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        fill(&requests, 100, 1_000_000).await;
        let mut watch = watch(&requests).await;
        // The windows are like those of grpc-go: each stream has its own, and unread data fills
        // only that.
        let all = super::streams::everything();
        let mut list = Bidi::open_with_one(&requests, head("/etcdserverpb.KV/Range"), &all).await;
        for number in 0..50 {
            let value = Bytes::from(number.to_string());
            let put = pb::PutRequest { key: "w".into(), value, ..Default::default() };
            assert_eq!(kv(&requests, "Put", &put).await.status().0, "0");
            let shown: pb::WatchResponse = watch.next().await;
            assert_eq!(shown.events[0].kv.as_ref().unwrap().value, number.to_string());
        }
        let listed: pb::RangeResponse = list.next().await;
        assert_eq!((listed.count, listed.encoded_len() > 100_000_000), (100, true));
        let keep = pb::LeaseGrantRequest { id: 7, ttl: 60 }.encode_to_vec();
        let granted = call(&requests, head("/etcdserverpb.Lease/LeaseGrant"), framed(&keep));
        assert_eq!(soon(granted).await.unwrap().status().0, "0");
    });
}
