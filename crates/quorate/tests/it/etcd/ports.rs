//! Tests of the ports of a member: TLS, several URLs, and what each port serves.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio_rustls::TlsConnector;

use super::grpc_client::{run, soon};
use super::{Etcd, free_addresses, get, put, request, wait_ready};
use crate::client::Wire;
use crate::server::folder;
use crate::tls::wire::{Shape, TlsConnection, fixture};

/// Sends a request over TLS, and returns the status and body of the answer.
pub fn request_tls(address: SocketAddr, shape: Shape, line: &str) -> io::Result<(u16, String)> {
    let mut connection = TlsConnection::connect(address, shape)?;
    connection.send(format!("{line} HTTP/1.1\r\nHost: e\r\nConnection: close\r\n\r\n").as_bytes());
    let text = String::from_utf8(connection.rest()?).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string()))
}

/// Writes a fixture's certificate and key to two files, as etcd's flags need them. Returns their
/// paths.
pub fn two_files(folder: &Path, name: &str) -> (String, String) {
    let text = fs::read_to_string(fixture(&format!("{name}.pem"))).unwrap();
    let (certificate, key) = text.split_at(text.find("-----BEGIN PRIVATE KEY").unwrap());
    let paths = ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")));
    for (path, text) in paths.iter().zip([certificate, key]) {
        fs::write(path, text).unwrap();
    }
    let [certificate, key] = paths.map(|path| path.to_str().unwrap().to_string());
    (certificate, key)
}

/// Whether a gRPC client that uses TLS is given HTTP/2.
fn is_grpc_served(address: SocketAddr, shape: Shape) -> bool {
    let mut config = shape.config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    run(async move {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let socket = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
        let is_agreed = socket.get_ref().1.alpn_protocol() == Some(b"h2");
        let (requests, connection) =
            soon(h2::client::Builder::new().handshake::<_, Bytes>(socket)).await.unwrap();
        tokio::task::spawn_local(async move { drop(connection.await) });
        is_agreed && soon(requests.ready()).await.is_ok()
    })
}

/// The expected answers are those of etcd 3.6.16.
#[test]
fn paths_are_taken_for_what_they_stand_for() {
    let folder = folder("etcd-ports-paths");
    let [client] = free_addresses::<1>();
    let url = format!("http://{client}");
    let flags = ["--listen-client-urls", &url, "--advertise-client-urls", &url];
    let member = Etcd::spawn(&folder, "a", &flags);
    wait_ready(&folder, "a");
    for (line, status) in [
        ("POST /v3/kv/%72ange", 200),
        ("POST /v3%2Fkv/range", 200),
        ("GET /he%61lth", 200),
        ("POST //v3/kv/range", 307),
        ("GET /v3/../version", 307),
        ("POST /v3/kv/range%20", 404),
        ("GET /%zz", 400),
    ] {
        let (found, _) = request(client, line, r#"{"key":"YQ=="}"#).unwrap();
        assert_eq!(found, status, "{line}");
    }
    drop(member);
    fs::remove_dir_all(folder).unwrap();
}

/// The flags are those in kubeadm's manifest; the feature gate is the one that it sets for etcd 3.5
/// and older.
#[test]
fn a_manifest_of_kubeadm_starts_a_member_whose_probes_succeed() {
    let folder = folder("etcd-ports-kubeadm");
    let [client, peer, metrics] = free_addresses::<3>();
    let (cert, key) = two_files(&folder, "server");
    let ca = fixture("ca.pem");
    let data = folder.join("data");
    let (client_url, peer_url) = (format!("https://{client}"), format!("https://{peer}"));
    let flags = [
        format!("--advertise-client-urls={client_url}"),
        format!("--cert-file={cert}"),
        "--client-cert-auth=true".to_string(),
        format!("--data-dir={}", data.display()),
        "--experimental-initial-corrupt-check=true".to_string(),
        "--experimental-watch-progress-notify-interval=5s".to_string(),
        format!("--initial-advertise-peer-urls={peer_url}"),
        format!("--initial-cluster=node={peer_url}"),
        format!("--key-file={key}"),
        format!("--listen-client-urls={client_url}"),
        format!("--listen-metrics-urls=http://{metrics}"),
        format!("--listen-peer-urls={peer_url}"),
        "--name=node".to_string(),
        format!("--peer-cert-file={cert}"),
        "--peer-client-cert-auth=true".to_string(),
        format!("--peer-key-file={key}"),
        format!("--peer-trusted-ca-file={ca}"),
        "--snapshot-count=10000".to_string(),
        format!("--trusted-ca-file={ca}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let member = Etcd::spawn(&folder, "node", &flags);
    wait_ready(&folder, "node");
    for probe in ["/health?exclude=NOSPACE&serializable=true", "/livez", "/readyz", "/metrics"] {
        let (status, body) = request(metrics, &format!("GET {probe}"), "").unwrap();
        assert_eq!(status, 200, "{probe}: {body}");
    }
    for other in ["/version", "/v3/kv/range", "/debug/vars"] {
        assert_eq!(request(metrics, &format!("GET {other}"), "").unwrap().0, 404, "{other}");
    }
    let (status, body) = request_tls(client, Shape::with("client"), "GET /version").unwrap();
    assert!(status == 200 && body.contains("3.6.16"), "{body}");
    assert!(is_grpc_served(client, Shape::with("client")));
    assert!(request_tls(client, Shape::bare(), "GET /version").is_err(), "it shows no certificate");
    assert!(request(client, "GET /version", "").is_none(), "it speaks no TLS");
    let log = fs::read_to_string(folder.join("node.log")).unwrap();
    assert!(!log.contains("has no effect"), "{log}");
    drop(member);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn one_address_may_have_both_schemes_and_a_member_several_addresses() {
    let folder = folder("etcd-ports-both");
    let [both, plain] = free_addresses::<2>();
    let (cert, key) = two_files(&folder, "server");
    let member = Etcd::spawn(
        &folder,
        "m0",
        &[
            &format!("--listen-client-urls=http://{both},https://{both},http://{plain}"),
            &format!("--advertise-client-urls=http://{both}"),
            &format!("--cert-file={cert}"),
            &format!("--key-file={key}"),
        ],
    );
    wait_ready(&folder, "m0");
    assert!(put(both, "key", "value"));
    assert_eq!(get(plain, "key").as_deref(), Some("value"));
    assert_eq!(request_tls(both, Shape::bare(), "GET /health").unwrap().0, 200);
    assert!(is_grpc_served(both, Shape::bare()));
    drop(member);
    fs::remove_dir_all(folder).unwrap();
}

/// Connects over TLS and offers HTTP/2 and HTTP/1.1, as proxies, browsers, Go and Java do. The
/// server must choose HTTP/2.
async fn connect_offering_both(address: SocketAddr) -> h2::client::SendRequest<Bytes> {
    let mut config = Shape::bare().config();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let socket = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
    assert_eq!(socket.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (requests, connection) = soon(h2::client::handshake(socket)).await.unwrap();
    tokio::task::spawn_local(async move { drop(connection.await) });
    requests
}

/// Sends a request over HTTP/2.
async fn send_http2(
    requests: &h2::client::SendRequest<Bytes>,
    line: &str,
    body: &'static str,
    content_type: &str,
) -> hyper::http::Response<h2::RecvStream> {
    let (method, path) = line.split_once(' ').unwrap();
    let request = hyper::http::Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .header("content-type", content_type)
        .body(())
        .unwrap();
    let mut requests = soon(requests.clone().ready()).await.unwrap();
    let (response, mut stream) = requests.send_request(request, false).unwrap();
    stream.send_data(Bytes::from_static(body.as_bytes()), true).unwrap();
    soon(response).await.unwrap()
}

/// The next bytes of a body; `None` at its end.
async fn next_of(body: &mut h2::RecvStream) -> Option<Bytes> {
    let data = soon(body.data()).await?.unwrap();
    body.flow_control().release_capacity(data.len()).unwrap();
    Some(data)
}

/// HAProxy and OpenShift offer HTTP/2 and HTTP/1.1, and forward gRPC. So the server chooses HTTP/2,
/// and serves plain HTTP requests over it, too.
#[test]
fn who_offers_both_versions_of_http_gets_all_over_http2() {
    let folder = folder("etcd-ports-http2");
    let [client, metrics] = free_addresses::<2>();
    let (cert, key) = two_files(&folder, "server");
    let flags = [
        &format!("--listen-client-urls=http://{client},https://{client}"),
        &format!("--advertise-client-urls=http://{client}"),
        &format!("--listen-metrics-urls=https://{metrics}"),
        &format!("--cert-file={cert}"),
        &format!("--key-file={key}"),
        "--enable-v2",
    ];
    let member = Etcd::spawn(&folder, "m0", &flags);
    wait_ready(&folder, "m0");
    assert!(put(client, "key", "value"));
    run(async move {
        const JSON: &str = "application/json";
        let requests = connect_offering_both(client).await;
        for (line, body) in [
            ("GET /version", ""),
            ("GET /health", ""),
            ("GET /readyz?verbose", ""),
            ("GET /nothing", ""),
            ("OPTIONS /v3/kv/range", ""),
            ("POST /v3/kv/range", r#"{"key":"a2V5"}"#),
            ("POST /v3/kv/put", "{"),
            ("GET /v2/keys/none", ""),
            ("GET /v2/members", ""),
        ] {
            let response = send_http2(&requests, line, body, JSON).await;
            let status = response.status().as_u16();
            let (mut bytes, mut stream) = (Vec::new(), response.into_body());
            while let Some(data) = next_of(&mut stream).await {
                bytes.extend_from_slice(&data);
            }
            let expected = request(client, line, body).unwrap();
            assert_eq!((status, String::from_utf8(bytes).unwrap()), expected, "{line}");
        }
        // A watch and a v2 wait report later changes, and a gRPC call on the same connection works
        // beside them.
        let watch = r#"{"create_request":{"key":"a2V5"}}"#;
        let mut watch = send_http2(&requests, "POST /v3/watch", watch, JSON).await.into_body();
        assert!(next_of(&mut watch).await.unwrap().ends_with(b"\"created\":true}}\n"));
        let call = "\0\0\0\0\x05\x0a\x03key";
        let path = "POST /etcdserverpb.KV/Range";
        let response = send_http2(&requests, path, call, "application/grpc").await;
        assert_eq!(response.headers()["content-type"], "application/grpc");
        assert!(put(client, "key", "other"));
        assert!(next_of(&mut watch).await.unwrap().windows(8).any(|bytes| bytes == b"\"events\""));
        // The port for metrics does not serve gRPC.
        let of_metrics = connect_offering_both(metrics).await;
        for (content_type, line, status) in
            [(JSON, "GET /metrics", 200), ("application/grpc", path, 404)]
        {
            let response = send_http2(&of_metrics, line, "", content_type).await;
            assert_eq!(response.status(), status, "{line}");
        }
    });
    // A client that only knows HTTP/1.1 is still served.
    assert_eq!(request_tls(client, Shape::bare(), "GET /health").unwrap().0, 200);
    drop(member);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn http_and_grpc_may_have_ports_of_their_own() {
    let folder = folder("etcd-ports-split");
    let [grpc, http] = free_addresses::<2>();
    let member = Etcd::spawn(
        &folder,
        "m0",
        &[
            &format!("--listen-client-urls=http://{grpc}"),
            &format!("--advertise-client-urls=http://{grpc}"),
            &format!("--listen-client-http-urls=http://{http}"),
            "--host-whitelist=e,other",
            "--cors=http://page",
        ],
    );
    wait_ready(&folder, "m0");
    assert!(put(http, "key", "value"));
    assert_eq!(request(http, "GET /health", "").unwrap().0, 200);
    assert!(request(grpc, "GET /health", "").is_none());
    run(async move {
        let requests = super::grpc_client::connect(grpc).await;
        assert!(soon(requests.ready()).await.is_ok());
    });
    // The server allows the host that the test's other requests name.
    let (status, _) = request(http, "GET /health HTTP/1.1\r\nHost: evil\r\nX: ", "").unwrap();
    assert_eq!(status, 421);
    drop(member);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_member_makes_its_certificate_itself_and_keeps_it() {
    let folder = folder("etcd-ports-auto");
    let [client] = free_addresses::<1>();
    let url = format!("https://{client}");
    let start = || {
        let flags = ["--auto-tls", "--listen-client-urls", &url, "--advertise-client-urls", &url];
        let member = Etcd::spawn(&folder, "m0", &flags);
        wait_ready(&folder, "m0");
        member
    };
    let member = start();
    let path = folder.join("default.etcd/fixtures/client/cert.pem");
    let certificate = CertificateDer::from_pem_file(&path).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let connect = || {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let session = ClientConnection::new(config.clone(), name).unwrap();
        let mut stream = StreamOwned::new(session, std::net::TcpStream::connect(client).unwrap());
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
    };
    connect();
    drop(member);
    let member = start();
    connect();
    drop(member);
    fs::remove_dir_all(folder).unwrap();
}
