//! Tests of TLS on the port of the chunk store, which uses the key and trust stores of the other
//! ports.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use bench::workloads::chunk::cmdw::client::ChunkClient;
use bench::workloads::chunk::cmdw::load::block_of;
use bytes::Bytes;
use chunk::block::{BlockId, ChunkInfo};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Shape, certificates, fixture};
use crate::server::{Server, folder, wait_until};

/// Starts a server with a TLS port for chunks, and without TLS for ZooKeeper's clients.
fn start(name: &str, lines: &[&str]) -> Server {
    let stores = [
        "quorate.chunkTlsAddr=127.0.0.1:0".to_string(),
        format!("ssl.keyStore.location={}", fixture("server.pem")),
        format!("ssl.trustStore.location={}", fixture("ca.pem")),
    ];
    let lines: Vec<&str> = stores.iter().map(String::as_str).chain(lines.iter().copied()).collect();
    Server::start(name, &lines)
}

/// Writes a block and reads it over TLS, as a client that offers only HTTP/2. Returns the server's
/// certificate.
fn write_and_read(
    address: SocketAddr,
    shape: Shape,
    local_id: u64,
) -> anyhow::Result<CertificateDer<'static>> {
    let mut config = shape.config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut shown = None;
    let client = ChunkClient::over(async || {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        anyhow::ensure!(stream.get_ref().1.alpn_protocol() == Some(b"h2"), "HTTP/2 is not spoken");
        let chain = stream.get_ref().1.peer_certificates();
        shown = chain.and_then(|chain| chain.first()).cloned().map(CertificateDer::into_owned);
        Ok(stream)
    })?;
    let data = Bytes::from(vec![5; 300_000]);
    let id = BlockId { container_id: 1, local_id };
    let chunk = ChunkInfo::plain(format!("{local_id}_chunk_1"), 0, data.len() as u64);
    client.write_chunk(id, &chunk, &data)?;
    client.put_block(&block_of(id, vec![chunk.clone()]))?;
    let mut found = Vec::new();
    client.read_chunk(id, &chunk, &mut found)?;
    anyhow::ensure!(found == data, "it is not what was written");
    shown.context("it showed no certificate")
}

#[test]
fn clients_of_the_chunk_store_are_believed_by_their_certificates() {
    let mut server = start("tls-chunks", &["quorate.chunkAddr=127.0.0.1:0"]);
    let secure = server.face("chunk-tls");
    write_and_read(secure, Shape::with("client"), 1).unwrap();
    let old = Shape { version: &rustls::version::TLS12, ..Shape::with("client") };
    write_and_read(secure, old, 2).unwrap();
    for (shape, cause) in [
        (Shape::bare(), "peer sent no certificates"),
        (Shape::with("stranger"), "UnknownIssuer"),
        (Shape::with("client-expired"), "expired"),
    ] {
        assert!(write_and_read(secure, shape, 3).is_err(), "{cause}");
        wait_until(cause, || server.log().contains(cause));
    }
    // Plain text works only on the other port.
    assert!(ChunkClient::connect(secure).and_then(|client| client.get_block(of_first())).is_err());
    let plain = ChunkClient::connect(server.face("chunk")).unwrap();
    assert_eq!(plain.get_block(of_first()).unwrap().chunks.len(), 1);
    server.stop();
}

fn of_first() -> BlockId {
    BlockId { container_id: 1, local_id: 1 }
}

#[test]
fn the_chunk_store_may_be_served_by_tls_alone_and_takes_new_certificates() {
    let keys = folder("tls-chunks-stores").join("keys.pem");
    fs::copy(fixture("server.pem"), &keys).unwrap();
    let location = format!("ssl.keyStore.location={}", keys.display());
    let mut server = start("tls-chunks-alone", &["ssl.clientAuth=none", &location]);
    assert!(!server.has_face("chunk") && !server.has_face("zk-tls"));
    let secure = server.face("chunk-tls");
    let shown = write_and_read(secure, Shape::bare(), 1).unwrap();
    assert_eq!(shown, certificates("server")[0]);
    fs::copy(fixture("server-2.pem"), &keys).unwrap();
    wait_until("the stores are read again", || server.log().contains("the stores have changed"));
    let shown = write_and_read(secure, Shape::bare(), 2).unwrap();
    assert_eq!(shown, certificates("server-2")[0]);
    server.stop();
}
