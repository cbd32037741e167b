//! Tests of the lock and election services in the real process.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use etcd::pb::{Message, etcdserverpb as pb, v3electionpb, v3lockpb};
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::grpc_client::{PATIENCE, call, connect, framed, head, kv, run};
use super::{ETCD, base64, get, request};
use crate::server::{Server, wait_until};

fn post(address: SocketAddr, path: &str, body: &str) -> (u16, String) {
    request(address, &format!("POST /v3/{path}"), body).expect("the server answers")
}

fn grant(address: SocketAddr, lease: u64) {
    let body = format!("{{\"TTL\":600,\"ID\":{lease}}}");
    assert_eq!(post(address, "lease/grant", &body).0, 200);
}

/// Asks for the lock `l` in a thread of its own, whose answer comes through the receiver.
fn lock(address: SocketAddr, lease: u64) -> Receiver<(u16, String)> {
    let (sender, answer) = channel();
    let body = format!("{{\"name\":\"{}\",\"lease\":{lease}}}", base64("l"));
    std::thread::spawn(move || sender.send(post(address, "lock/lock", &body)));
    answer
}

fn unlock(address: SocketAddr, lease: u64) {
    let body = format!("{{\"key\":\"{}\"}}", base64(&format!("l/{lease:x}")));
    assert_eq!(post(address, "lock/unlock", &body).0, 200);
}

#[test]
fn a_lock_is_held_by_one_in_the_order_of_asking() {
    let server = Server::start("etcd-lock", &[ETCD]);
    let etcd = server.face("etcd");
    let leases = [16, 17, 18, 19];
    leases.iter().for_each(|lease| grant(etcd, *lease));
    assert_eq!(lock(etcd, 16).recv_timeout(PATIENCE).unwrap().0, 200);
    let is_waiting = |lease: u64| {
        let key = base64(&format!("l/{lease:x}"));
        post(etcd, "kv/range", &format!("{{\"key\":\"{key}\"}}")).1.contains("\"count\"")
    };
    let waits: Vec<_> = [17, 18]
        .map(|lease| {
            let answer = lock(etcd, lease);
            wait_until("a client waits", || is_waiting(lease));
            answer
        })
        .into();
    // A client that disconnects while it waits leaves nothing behind.
    let mut gone = TcpStream::connect(etcd).unwrap();
    let body = format!("{{\"name\":\"{}\",\"lease\":19}}", base64("l"));
    let head =
        format!("POST /v3/lock/lock HTTP/1.1\r\nHost: e\r\nContent-Length: {}\r\n\r\n", body.len());
    gone.write_all(format!("{head}{body}").as_bytes()).unwrap();
    wait_until("it waits", || is_waiting(19));
    drop(gone);
    wait_until("its key is gone", || !is_waiting(19));
    unlock(etcd, 16);
    assert_eq!(waits[0].recv_timeout(PATIENCE).unwrap().0, 200);
    assert!(waits[1].recv_timeout(Duration::from_millis(300)).is_err(), "two hold the lock");
    // When a lease ends, its holder loses the lock.
    assert_eq!(post(etcd, "lease/revoke", "{\"ID\":17}").0, 200);
    assert_eq!(waits[1].recv_timeout(PATIENCE).unwrap().0, 200);
    let (status, body) = lock(etcd, 99).recv_timeout(PATIENCE).unwrap();
    assert_eq!(status, 500);
    assert!(body.contains("\"message\":\"etcdserver: requested lease not found\""), "{body}");
}

#[test]
fn an_election_has_one_leader_and_observers_see_each() {
    let server = Server::start("etcd-election", &[ETCD]);
    let etcd = server.face("etcd");
    [16, 17].iter().for_each(|lease| grant(etcd, *lease));
    let (name, [one, two, three]) = (base64("e"), ["one", "two", "three"].map(base64));
    let of_name = format!("{{\"name\":\"{name}\"}}");
    let (status, body) = post(etcd, "election/leader", &of_name);
    assert_eq!((status, body.contains("election: no leader")), (500, true), "{body}");
    let mut observer = TcpStream::connect(etcd).unwrap();
    observer.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = of_name.len();
    let head = format!("POST /v3/election/observe HTTP/1.1\r\nHost: e\r\nContent-Length: {length}");
    observer.write_all(format!("{head}\r\n\r\n{of_name}").as_bytes()).unwrap();
    let mut observer = BufReader::new(observer);
    let mut next_value = || loop {
        let mut line = String::new();
        assert!(observer.read_line(&mut line).unwrap() > 0, "the stream goes on");
        if let Some((_, rest)) = line.split_once("\"value\":\"") {
            return rest.split('"').next().unwrap().to_string();
        }
    };
    let campaign = |lease: u64, value: &str| {
        let body = format!("{{\"name\":\"{name}\",\"lease\":{lease},\"value\":\"{value}\"}}");
        post(etcd, "election/campaign", &body)
    };
    let (status, first) = campaign(16, &one);
    assert_eq!(status, 200, "{first}");
    assert_eq!(next_value(), one);
    let leader = &first[first.find("\"leader\":").unwrap()..first.len() - 1];
    assert_eq!(
        post(etcd, "election/proclaim", &format!("{{{leader},\"value\":\"{two}\"}}")).0,
        200
    );
    assert_eq!(next_value(), two);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| campaign(17, &three));
        wait_until("the other one waits", || get(etcd, "e/11").is_some());
        assert!(post(etcd, "election/leader", &of_name).1.contains(&two));
        assert_eq!(post(etcd, "election/resign", &format!("{{{leader}}}")).0, 200);
        assert_eq!(second.join().unwrap().0, 200);
    });
    assert_eq!(next_value(), three);
    let (status, body) = post(etcd, "election/proclaim", &format!("{{{leader},\"value\":\"\"}}"));
    assert_eq!((status, body.contains("election: not leader")), (500, true), "{body}");
}

/// After a time-out, a client repeats a call for a lock that its lease already holds, and cancels
/// it.
#[test]
fn a_held_lock_survives_calls_of_its_holder_that_are_cancelled() {
    let server = Server::start("etcd-lock-kept", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        grant(server.face("etcd"), 7);
        let lock = v3lockpb::LockRequest { name: "l".into(), lease: 7 };
        let (name, value) = ("e".into(), "x".into());
        let campaign = v3electionpb::CampaignRequest { name, lease: 7, value };
        for (path, name, message) in [
            ("/v3lockpb.Lock/Lock", "l/7", lock.encode_to_vec()),
            ("/v3electionpb.Election/Campaign", "e/7", campaign.encode_to_vec()),
        ] {
            let get = pb::RangeRequest { key: name.into(), ..Default::default() };
            let first = call(&requests, head(path), framed(&message)).await.unwrap();
            assert_eq!(first.status().0, "0");
            let created = async || {
                let found: Vec<pb::RangeResponse> = kv(&requests, "Range", &get).await.all();
                found[0].kvs.first().map(|kv| kv.create_revision)
            };
            let held = created().await;
            assert!(held.is_some());
            for number in 0..60 {
                let (requests, message) = (requests.clone(), framed(&message));
                let again =
                    spawn_local(async move { call(&requests, head(path), message).await.is_ok() });
                sleep(Duration::from_micros(number * 40)).await;
                again.abort();
            }
            sleep(Duration::from_millis(200)).await;
            assert_eq!(created().await, held, "{name} is held");
        }
    });
}
