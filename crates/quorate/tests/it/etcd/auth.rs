//! Tests of users, roles and tokens in the real process, over the JSON gateway and gRPC.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::watch_request::RequestUnion;
use h2::client::SendRequest;
use serde_json::{Value, json};

use super::grpc_client::{Answer, Bidi, call as grpc_call, connect, framed, head, run, soon};
use super::ports::two_files;
use super::{ETCD, Etcd, Three, base64, free_addresses, wait_ready};
use crate::server::{Server, folder, wait_until};
use crate::tls::wire::{Shape, fixture};

/// At this cost a password hash takes 1 ms instead of 50.
const FAST_HASHES: &str = "--bcrypt-cost=4";

/// A client of the gateway, which connects to `address` and sends `token` with its calls.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    pub token: Option<String>,
}

impl Client {
    fn nobody(address: SocketAddr) -> Client {
        Client { address, token: None }
    }

    /// A client that has logged in as this user.
    pub fn of(address: SocketAddr, name: &str, password: &str) -> Client {
        let (status, body) = Client::nobody(address).authenticate(name, password);
        assert_eq!(status, 200, "{body}");
        Client { address, token: Some(body["token"].as_str().unwrap().to_string()) }
    }

    fn authenticate(&self, name: &str, password: &str) -> (u16, Value) {
        self.call("auth/authenticate", json!({"name": name, "password": password}))
    }

    fn at(&self, address: SocketAddr) -> Client {
        Client { address, ..self.clone() }
    }

    fn call(&self, path: &str, body: Value) -> (u16, Value) {
        let header = self.token.iter().map(|token| format!("Authorization: {token}\r\n"));
        let (header, body) = (header.collect::<String>(), body.to_string());
        let length = body.len();
        let text = format!(
            "POST /v3/{path} HTTP/1.1\r\nHost: e\r\nConnection: close\r\n{header}\
             Content-Length: {length}\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("there is a head");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
    }

    /// Makes a call that must succeed, and returns its answer.
    pub fn must(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Makes a call that must be refused, and returns the error's text.
    pub fn refused(&self, path: &str, body: Value) -> String {
        let (status, answer) = self.call(path, body);
        assert_ne!(status, 200, "{path}: {answer}");
        answer["message"].as_str().unwrap().to_string()
    }

    pub fn put(&self, key: &str) -> Result<(), String> {
        let (status, answer) = self.call("kv/put", json!({"key": base64(key), "value": "dg=="}));
        if status == 200 { Ok(()) } else { Err(answer["message"].as_str().unwrap().to_string()) }
    }
}

const DENIED: &str = "etcdserver: permission denied";
const NOBODY: &str = "etcdserver: user name is empty";
const INVALID: &str = "etcdserver: invalid auth token";
const FAILED: &str = "etcdserver: authentication failed, invalid user ID or password";

/// Creates users and enforces permissions: root has the password `r`; alice, with the password `a`,
/// may read and write all keys that begin with `a`.
pub fn enforce(address: SocketAddr) {
    let nobody = Client::nobody(address);
    let range = json!({"permType": "READWRITE", "key": "YQ==", "range_end": "Yg=="});
    nobody.must("auth/user/add", json!({"name": "root", "password": "r"}));
    nobody.must("auth/user/grant", json!({"user": "root", "role": "root"}));
    nobody.must("auth/user/add", json!({"name": "alice", "password": "a"}));
    nobody.must("auth/role/add", json!({"name": "role"}));
    nobody.must("auth/role/grant", json!({"name": "role", "perm": range}));
    nobody.must("auth/user/grant", json!({"user": "alice", "role": "role"}));
    nobody.must("auth/enable", json!({}));
}

#[test]
fn users_may_do_what_their_roles_permit() {
    let server = Server::start("etcd-auth", &[ETCD]);
    let address = server.face("etcd");
    enforce(address);
    let nobody = Client::nobody(address);
    let (root, alice) = (Client::of(address, "root", "r"), Client::of(address, "alice", "a"));
    assert_eq!(nobody.put("a"), Err(NOBODY.to_string()));
    assert_eq!(alice.put("a"), Ok(()));
    assert_eq!(alice.put("b"), Err(DENIED.to_string()));
    assert_eq!(root.put("b"), Ok(()));
    let all = json!({"key": "AA==", "range_end": "AA=="});
    assert_eq!(alice.refused("kv/range", all.clone()), DENIED);
    assert_eq!(root.must("kv/range", all)["count"], "2");
    let serializable = json!({"key": "Yg==", "serializable": true});
    assert_eq!(alice.refused("kv/range", serializable), DENIED);
    let own = json!({"key": "YQ==", "range_end": "Yg=="});
    assert_eq!(alice.must("kv/deleterange", own)["deleted"], "1");
    assert_eq!(alice.refused("kv/compaction", json!({"revision": 2})), DENIED);
    let op = json!({"request_range": {"key": "Yg=="}});
    assert_eq!(alice.refused("kv/txn", json!({"failure": [op]})), DENIED);
    assert_eq!(nobody.refused("lease/grant", json!({"TTL": 100})), NOBODY);
    let lease = alice.must("lease/grant", json!({"TTL": 100}))["ID"].clone();
    root.must("kv/put", json!({"key": "Yg==", "lease": lease}));
    for path in ["lease/revoke", "lease/timetolive"] {
        let message = alice.refused(path, json!({"ID": lease, "keys": path.ends_with("live")}));
        assert_eq!(message, DENIED, "{path}");
    }
    assert_eq!(alice.refused("lease/leases", json!({})), DENIED);
    assert_eq!(nobody.refused("maintenance/status", json!({})), NOBODY);
    alice.must("maintenance/status", json!({}));
    assert_eq!(alice.refused("cluster/member/remove", json!({"ID": 1})), DENIED);
    // Health checks need no user.
    let (status, body) = super::request(address, "GET /health", "").unwrap();
    assert_eq!((status, body.as_str()), (200, "{\"health\":\"true\",\"reason\":\"\"}"));
    assert_eq!(nobody.refused("auth/disable", json!({})), NOBODY);
    root.must("auth/disable", json!({}));
    assert_eq!(nobody.put("b"), Ok(()));
    // Tokens from before are now ignored.
    assert_eq!(alice.put("b"), Ok(()));
}

/// The expected answers are those of etcd 3.6.16, with one exception: etcd stores a permission of
/// an unknown kind, which permits nothing.
#[test]
fn the_right_to_a_change_is_asked_for_before_its_flaws() {
    let server = Server::start("etcd-auth-flaws", &[ETCD]);
    let address = server.face("etcd");
    enforce(address);
    let root = Client::of(address, "root", "r");
    root.must("auth/user/add", json!({"name": "np", "options": {"no_password": true}}));
    let (root, alice) = (Client::of(address, "root", "r"), Client::of(address, "alice", "a"));
    let (nobody, liar) =
        (Client::nobody(address), Client { address, token: Some("x".to_string()) });
    let no_hash = "auth: authentication failed, password was given for no password user";
    let invalid = "etcdserver: invalid auth management";
    let hash = |name: &str| json!({"name": name, "hashedPassword": "!!"});
    let kind = |role: &str| json!({"name": role, "perm": {"permType": 7, "key": "YQ=="}});
    let empty = json!({"permType": 7, "key": "YQ==", "range_end": "QQ=="});
    for (path, body, refusal) in [
        ("auth/role/grant", json!({"name": "zoe", "perm": empty}), invalid),
        ("auth/user/changepw", hash("alice"), no_hash),
        ("auth/user/changepw", hash("zoe"), "etcdserver: user name not found"),
        ("auth/role/grant", kind("role"), invalid),
        ("auth/role/grant", kind("zoe"), "etcdserver: role name not found"),
    ] {
        for (client, expected) in
            [(&nobody, NOBODY), (&liar, INVALID), (&alice, DENIED), (&root, refusal)]
        {
            assert_eq!(client.refused(path, body.clone()), expected, "{path}: {body}");
        }
    }
    assert_eq!(alice.refused("auth/user/changepw", hash("np")), DENIED);
    root.must("auth/user/changepw", hash("np"));
    // If a password is given too, the hash is ignored.
    let both = json!({"name": "alice", "password": "b", "hashedPassword": "!!"});
    root.must("auth/user/changepw", both);
    assert_eq!(Client::of(address, "alice", "b").put("a"), Ok(()));
}

#[test]
fn a_token_works_until_its_user_changes() {
    let server = Server::start("etcd-tokens", &[ETCD]);
    let address = server.face("etcd");
    enforce(address);
    let nobody = Client::nobody(address);
    for (name, password) in [("alice", "b"), ("alice", ""), ("", "a"), ("zoe", "a")] {
        let (status, answer) = nobody.authenticate(name, password);
        assert_eq!((status, &answer["message"]), (400, &Value::from(FAILED)), "{name}");
    }
    let (root, alice) = (Client::of(address, "root", "r"), Client::of(address, "alice", "a"));
    let token = alice.token.clone().unwrap();
    let (letters, number) = token.split_once('.').unwrap();
    let mut other = letters.as_bytes().to_vec();
    other[15] = if other[15] == b'x' { b'y' } else { b'x' };
    let other = String::from_utf8(other).unwrap();
    let lies = [
        format!("{other}.{number}"),
        format!("{letters}.{}", number.parse::<u64>().unwrap() + 1),
        format!("{letters}.18446744073709551615"),
        letters.to_string(),
        String::from("x"),
        token.repeat(1_000),
    ];
    for lie in lies {
        let liar = Client { address, token: Some(lie.clone()) };
        assert_eq!(liar.put("a"), Err(INVALID.to_string()), "{lie}");
    }
    let bearer = Client { address, token: Some(format!("Bearer {token}")) };
    assert_eq!(bearer.put("a"), Ok(()));
    root.must("auth/user/changepw", json!({"name": "alice", "password": "new"}));
    assert_eq!(alice.put("a"), Err(INVALID.to_string()));
    assert_eq!(Client::of(address, "alice", "new").put("a"), Ok(()));
    // A change of roles applies at once, and does not end the user's token.
    let alice = Client::of(address, "alice", "new");
    root.must("auth/user/revoke", json!({"name": "alice", "role": "role"}));
    assert_eq!(alice.put("a"), Err(DENIED.to_string()));
    root.must("auth/user/delete", json!({"name": "alice"}));
    assert_eq!(alice.put("a"), Err(INVALID.to_string()));
    assert!(!server.log().contains("\"new\""), "no password is in the log");
}

#[test]
fn a_token_outlives_its_server_and_its_idle_time_is_bounded() {
    let folder = folder("etcd-token-times");
    let [client] = free_addresses::<1>();
    let url = format!("http://{client}");
    let flags = [
        "--name=a",
        FAST_HASHES,
        "--auth-token-ttl=2",
        "--listen-client-urls",
        &url,
        "--advertise-client-urls",
        &url,
    ];
    let member = Etcd::spawn(&folder, "a", &flags);
    wait_ready(&folder, "a");
    enforce(client);
    let alice = Client::of(client, "alice", "a");
    // A token that is used again and again stays valid for longer than its idle time.
    for _ in 0..8 {
        assert_eq!(alice.put("a"), Ok(()));
        std::thread::sleep(Duration::from_millis(500));
    }
    let idle = Client::of(client, "alice", "a");
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(idle.put("a"), Err(INVALID.to_string()));
    let alice = Client::of(client, "alice", "a");
    drop(member);
    let _member = Etcd::spawn(&folder, "a", &flags);
    wait_until("it serves again", || TcpStream::connect(client).is_ok());
    wait_until("the token is known", || alice.put("a") == Ok(()));
}

#[test]
fn a_token_works_on_every_member_at_once() {
    let mut three = Three::start("etcd-tokens-three");
    enforce(three.clients[0]);
    for round in 0..30 {
        let from = three.clients[round % 3];
        let alice = Client::of(from, "alice", "a");
        for to in three.clients {
            assert_eq!(alice.at(to).put("a"), Ok(()), "round {round}");
            let own = json!({"key": "YQ==", "serializable": true});
            assert_eq!(alice.at(to).must("kv/range", own)["count"], "1");
        }
    }
    let alice = Client::of(three.clients[0], "alice", "a");
    let root = Client::of(three.clients[1], "root", "r");
    let ended = three.end_leader();
    let left = [three.clients[(ended + 1) % 3], three.clients[(ended + 2) % 3]];
    wait_until("there is a leader", || alice.at(left[0]).put("a") == Ok(()));
    root.at(left[1]).must("auth/user/changepw", json!({"name": "alice", "password": "b"}));
    for to in left {
        // Waits until a linearizable read on this member sees the change.
        let alice = alice.at(to);
        let refused = || alice.call("kv/range", json!({"key": "YQ=="})).1["message"] == INVALID;
        wait_until("the token has ended", refused);
    }
}

fn with_token(path: &str, token: &str) -> hyper::Request<()> {
    let mut head = head(path);
    head.headers_mut().insert("token", token.parse().unwrap());
    head
}

async fn kv(requests: &SendRequest<Bytes>, name: &str, token: &str, of: &impl Message) -> Answer {
    let head = with_token(&format!("/etcdserverpb.KV/{name}"), token);
    soon(grpc_call(requests, head, framed(&of.encode_to_vec()))).await.unwrap()
}

fn watch(key: &'static str, start_revision: i64) -> pb::WatchRequest {
    let create = pb::WatchCreateRequest { key: key.into(), start_revision, ..<_>::default() };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

#[test]
fn watches_are_permitted_one_by_one() {
    let server = Server::start("etcd-auth-watch", &[ETCD]);
    let address = server.face("etcd");
    enforce(address);
    let token = Client::of(address, "alice", "a").token.unwrap();
    run(async {
        let requests = connect(address).await;
        let put = |key: &'static str| pb::PutRequest { key: key.into(), ..Default::default() };
        assert_eq!(kv(&requests, "Put", &token, &put("a")).await.status().0, "0");
        let denied = kv(&requests, "Put", &token, &put("b")).await;
        assert_eq!(denied.status(), ("7".to_string(), DENIED.to_string()));
        let wrong = kv(&requests, "Put", "x", &put("a")).await;
        assert_eq!(wrong.status(), ("16".to_string(), INVALID.to_string()));
        let head_of = with_token("/etcdserverpb.Watch/Watch", &token);
        let mut stream = Bidi::open(&requests, head_of, &watch("a", 2)).await;
        assert!(stream.next::<pb::WatchResponse>().await.created);
        assert_eq!(stream.next::<pb::WatchResponse>().await.events.len(), 1);
        stream.send(&watch("b", 0));
        let refused: pb::WatchResponse = stream.next().await;
        assert_eq!((refused.created, refused.canceled, refused.watch_id), (true, true, -1));
        assert_eq!(
            refused.cancel_reason,
            "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
        );
        let mut stream =
            Bidi::open(&requests, head("/etcdserverpb.Watch/Watch"), &watch("a", 0)).await;
        let refused: pb::WatchResponse = stream.next().await;
        assert_eq!(
            refused.cancel_reason,
            "rpc error: code = InvalidArgument desc = etcdserver: user name is empty"
        );
    });
}

/// Like etcd, the server checks permissions when a watch is created; watches that are already open
/// go on. Compared with etcd 3.6.16 by hand.
#[test]
fn permissions_enforced_or_taken_amid_streams_count_for_what_begins_then() {
    let server = Server::start("etcd-auth-amid", &[ETCD]);
    let address = server.face("etcd");
    run(async {
        let requests = connect(address).await;
        let path = "/etcdserverpb.Watch/Watch";
        let mut before = Bidi::open(&requests, head(path), &watch("a", 0)).await;
        assert!(before.next::<pb::WatchResponse>().await.created);
        enforce(address);
        let alice = Client::of(address, "alice", "a");
        assert_eq!(alice.put("a"), Ok(()));
        let heard: pb::WatchResponse = before.next().await;
        assert_eq!(heard.events.len(), 1, "a watch from before goes on");
        before.send(&watch("a", 0));
        let refused: pb::WatchResponse = before.next().await;
        assert_eq!((refused.created, refused.canceled, refused.watch_id), (true, true, -1));
        assert!(refused.cancel_reason.ends_with("user name is empty"), "{}", refused.cancel_reason);

        // A watch with a token, whose user then loses its role.
        let token = alice.token.clone().unwrap();
        let mut of_alice = Bidi::open(&requests, with_token(path, &token), &watch("a", 0)).await;
        assert!(of_alice.next::<pb::WatchResponse>().await.created);
        let root = Client::of(address, "root", "r");
        root.must("auth/user/revoke", json!({"name": "alice", "role": "role"}));
        assert_eq!(alice.put("a"), Err(DENIED.to_string()));
        assert_eq!(root.put("a"), Ok(()));
        for stream in [&mut before, &mut of_alice] {
            assert_eq!(stream.next::<pb::WatchResponse>().await.events.len(), 1);
        }
        of_alice.send(&watch("a", 0));
        let refused: pb::WatchResponse = of_alice.next().await;
        assert!(refused.canceled && refused.watch_id == -1);
        // Once permissions are no longer enforced, the stream accepts watches again.
        root.must("auth/disable", json!({}));
        before.send(&watch("a", 0));
        assert!(!before.next::<pb::WatchResponse>().await.canceled);
    });
}

/// Puts a key over TLS as a client with this certificate, and returns the whole answer as text.
fn put_over_tls(address: SocketAddr, shows: &'static str, key: &str) -> String {
    over_tls(address, shows, "POST /v3/kv/put", &json!({"key": base64(key)}).to_string())
}

/// Sends a request over TLS as a client with this certificate, and returns the whole answer as
/// text.
pub fn over_tls(address: SocketAddr, shows: &'static str, line: &str, body: &str) -> String {
    let length = body.len();
    let text = format!(
        "{line} HTTP/1.1\r\nHost: e\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    let socket = TcpStream::connect(address).unwrap();
    let name = "localhost".try_into().unwrap();
    let config = std::sync::Arc::new(Shape::with(shows).config());
    let connection = rustls::ClientConnection::new(config, name).unwrap();
    let mut stream = rustls::StreamOwned::new(connection, socket);
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// An HTTP/2 connection over TLS of a client with this certificate.
pub async fn connect_over_tls(address: SocketAddr, shows: &'static str) -> SendRequest<Bytes> {
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut config = Shape::with(shows).config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let name = "localhost".try_into().unwrap();
    let stream = soon(connector.connect(name, socket)).await.unwrap();
    let (requests, connection) = soon(h2::client::handshake(stream)).await.unwrap();
    tokio::task::spawn_local(async move { drop(connection.await) });
    requests
}

/// Starts a server that takes the common name of a client's certificate as its user. Returns it
/// with its addresses without and with TLS.
pub fn with_certificates(name: &str, more: &[&str]) -> (Etcd, [SocketAddr; 2]) {
    let folder = folder(name);
    let [plain, secure] = free_addresses::<2>();
    let (cert, key) = two_files(&folder, "server");
    let urls = format!("http://{plain},https://{secure}");
    let flags = [
        "--name=a".to_string(),
        FAST_HASHES.to_string(),
        format!("--cert-file={cert}"),
        format!("--key-file={key}"),
        "--client-cert-auth".to_string(),
        format!("--trusted-ca-file={}", fixture("ca.pem")),
        format!("--listen-client-urls={urls}"),
        format!("--advertise-client-urls={urls}"),
    ];
    let flags = flags.iter().map(String::as_str).chain(more.iter().copied());
    let member = Etcd::spawn(&folder, "a", &flags.collect::<Vec<_>>());
    wait_ready(&folder, "a");
    (member, [plain, secure])
}

#[test]
fn the_common_name_of_a_certificate_is_a_user_but_never_through_the_gateway() {
    let (_member, [plain, secure]) = with_certificates("etcd-auth-certificates", &[]);
    enforce(plain);
    let root = Client::of(plain, "root", "r");
    // The certificate's subject is C=DE, O=Test, CN=client. A user that a certificate proves needs
    // no password.
    let without = json!({"name": "client", "options": {"no_password": true}});
    root.must("auth/user/add", without);
    let (_, answer) = Client::nobody(plain).authenticate("client", "");
    let text = "auth: authentication failed, password was given for no password user";
    assert_eq!(answer["message"], text);
    let put = |key: &'static str| pb::PutRequest { key: key.into(), ..Default::default() };
    run(async {
        let requests = connect_over_tls(secure, "client").await;
        let call = async |head, key| {
            let sent = grpc_call(&requests, head, framed(&put(key).encode_to_vec()));
            soon(sent).await.unwrap().status().1
        };
        let path = "/etcdserverpb.KV/Put";
        assert_eq!(call(head(path), "a").await, DENIED);
        root.must("auth/user/grant", json!({"user": "client", "role": "role"}));
        assert_eq!(call(head(path), "a").await, "");
        assert_eq!(call(head(path), "b").await, DENIED);
        // A token takes precedence over the certificate.
        assert_eq!(call(with_token(path, root.token.as_ref().unwrap()), "b").await, "");
        assert_eq!(call(with_token(path, "x"), "a").await, INVALID);
        // A call that a gateway forwards comes with the gateway's certificate, so the certificate
        // does not count.
        let mut passed_on = head(path);
        passed_on.headers_mut().insert("grpcgateway-accept", "*/*".parse().unwrap());
        assert_eq!(call(passed_on, "a").await, NOBODY);
    });
    let answer = put_over_tls(secure, "client", "a");
    assert!(answer.contains(NOBODY), "{answer}");
}

#[test]
fn locks_and_elections_ask_for_permission_as_their_client() {
    let server = Server::start("etcd-auth-lock", &[ETCD]);
    let address = server.face("etcd");
    enforce(address);
    let alice = Client::of(address, "alice", "a");
    alice.must("lock/lock", json!({"name": base64("a")}));
    assert_eq!(alice.refused("lock/lock", json!({"name": base64("b")})), DENIED);
    assert_eq!(Client::nobody(address).refused("lock/lock", json!({"name": "YQ=="})), NOBODY);
    let name = json!({"name": base64("ab"), "value": "dg=="});
    alice.must("election/campaign", name.clone());
    alice.must("election/leader", name.clone());
    assert_eq!(Client::nobody(address).refused("election/leader", name), NOBODY);
}

#[test]
fn signed_tokens_name_the_user_and_the_revision() {
    let folder = folder("etcd-auth-signed");
    let [client] = free_addresses::<1>();
    let secret = folder.join("secret");
    std::fs::write(&secret, "it is one").unwrap();
    let flags = |token: &str| {
        let url = format!("http://{client}");
        [
            "--name=a".to_string(),
            FAST_HASHES.to_string(),
            format!("--auth-token={token}"),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
        ]
    };
    let spawn = |token: &str| {
        let flags = flags(token);
        Etcd::spawn(&folder, "a", &flags.each_ref().map(String::as_str))
    };
    let key = secret.display();
    let member = spawn(&format!("jwt,sign-method=HS256,priv-key={key},ttl=8s"));
    wait_ready(&folder, "a");
    enforce(client);
    let (alice, root) = (Client::of(client, "alice", "a"), Client::of(client, "root", "r"));
    let token = alice.token.clone().unwrap();
    assert_eq!(token.split('.').count(), 3, "{token}");
    assert_eq!(alice.put("a"), Ok(()));
    assert_eq!(alice.put("b"), Err(DENIED.to_string()));
    let (head, signature) = token.rsplit_once('.').unwrap();
    let other = signature.chars().rev().collect::<String>();
    for lie in [format!("{head}.{other}"), "abcdefghijklmnop.9".to_string(), head.to_string()] {
        let liar = Client { address: client, token: Some(lie) };
        assert_eq!(liar.put("a"), Err(INVALID.to_string()));
    }
    // As in etcd, a change of users or roles makes older tokens useless, except for calls that only
    // root may make.
    root.must("auth/role/add", json!({"name": "other"}));
    let old = "etcdserver: revision of auth store is old";
    assert_eq!(alice.put("a"), Err(old.to_string()));
    assert_eq!(alice.refused("kv/range", json!({"key": "YQ=="})), old);
    root.must("auth/role/add", json!({"name": "third"}));
    let alice = Client::of(client, "alice", "a");
    assert_eq!(alice.put("a"), Ok(()));
    wait_until("the token is over", || alice.put("a") == Err(INVALID.to_string()));
    drop(member);
    for (wrong, text) in [
        ("jwt", "auth: invalid auth options"),
        ("jwt,sign-method=HS256", "auth: missing key data"),
        ("jwt,sign-method=HS256,priv-key=/nowhere", "/nowhere cannot be read"),
        ("other", "auth: invalid auth options"),
    ] {
        let mut member = spawn(wrong);
        assert!(!member.0.wait().unwrap().success());
        let log = std::fs::read_to_string(folder.join("a.log")).unwrap();
        assert!(log.contains(text), "{wrong}: {log}");
    }
}

/// etcd still grants leases and lists members for a signed token whose user was deleted, and lets
/// root's token from before a change of its password add users. Quorate does not, from a level on
/// that is not released yet.
#[test]
fn signed_tokens_end_with_their_user_and_its_password() {
    let folder = folder("etcd-auth-outlived");
    let secret = folder.join("secret");
    std::fs::write(&secret, "it is one").unwrap();
    let token = format!(
        "quorate.etcdAuthToken=jwt,sign-method=HS256,priv-key={},ttl=10m",
        secret.display()
    );
    let lines = [
        ETCD,
        "quorate.etcdBcryptCost=4",
        "admin.enableServer=true",
        "admin.serverAddress=127.0.0.1",
        "admin.serverPort=0",
        &token,
    ];
    // The data is first used by a server of an older level, then by this one.
    let old_lines = [&lines[..], &["quorate.levelMax=2"]].concat();
    let mut old = Server::start_in(folder.clone(), &old_lines);
    let client = old.face("etcd");
    enforce(client);
    let (alice, root) = (Client::of(client, "alice", "a"), Client::of(client, "root", "r"));
    old.stop();
    let server = Server::start_in(folder, &lines);
    let client = server.face("etcd");
    let (alice, root) = (alice.at(client), root.at(client));
    let grant = |id: u64| json!({"ID": id, "TTL": 100});
    let new_password = |password: &str| json!({"name": "root", "password": password});
    root.must("auth/user/changepw", new_password("other"));
    root.must("auth/user/add", json!({"name": "v", "password": "p"}));
    let admin = server.face("admin").to_string();
    let upgraded = std::process::Command::new(env!("CARGO_BIN_EXE_quorate"))
        .args(["cluster", "upgrade", "--admin", &admin, "--auth", "super:test"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&upgraded.stdout).into_owned();
    assert!(upgraded.status.success() && said.contains("rose from 2 to 4"), "{upgraded:?}");
    let root = Client::of(client, "root", "other");
    root.must("auth/role/add", json!({"name": "other"}));
    root.must("auth/user/changepw", new_password("new"));
    alice.must("lease/grant", grant(2));
    alice.must("cluster/member/list", json!({}));
    assert_eq!(root.refused("auth/user/add", json!({"name": "u", "password": "p"})), INVALID);
    let root = Client::of(client, "root", "new");
    root.must("auth/user/delete", json!({"name": "alice"}));
    assert_eq!(alice.refused("lease/grant", grant(3)), INVALID);
    assert_eq!(alice.refused("cluster/member/list", json!({})), INVALID);
}
