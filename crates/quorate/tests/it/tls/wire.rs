//! A raw client that speaks TLS: what it says is what the test says, and it reads only when told.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use zk::jute::JuteReader;
use zk::request::{ConnectRequest, Request};
use zk::response::{ConnectResponse, ReplyHeader};

use crate::client::Answer;

/// How long a server may be silent when an answer is due. Reaching it is a failure.
const SILENCE: Duration = Duration::from_secs(20);

/// The path of a file with keys for tests.
pub fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What a client is to show and to demand.
#[derive(Clone, Copy)]
pub struct Shape {
    /// The certificate it shows.
    pub shows: Option<&'static str>,
    /// The authority that the server's certificate must come from.
    pub believes: &'static str,
    pub version: &'static rustls::SupportedProtocolVersion,
}

impl Shape {
    /// Of a client with this certificate.
    pub fn with(shows: &'static str) -> Shape {
        Shape { shows: Some(shows), ..Shape::bare() }
    }

    /// Of a client without one.
    pub fn bare() -> Shape {
        Shape { shows: None, believes: "ca", version: &rustls::version::TLS13 }
    }

    pub fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(certificates(self.believes).remove(0)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[self.version])
            .unwrap()
            .with_root_certificates(roots);
        match self.shows {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = PrivateKeyDer::from_pem_file(fixture(&format!("{name}.pem"))).unwrap();
                let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
                let shown = rustls::sign::CertifiedKey::new(certificates(name), key);
                let resolver = rustls::sign::SingleCertAndKey::from(shown);
                builder.with_client_cert_resolver(Arc::new(resolver))
            }
        }
    }
}

/// The certificates of a fixture.
pub fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
    let path = fixture(&format!("{name}.pem"));
    CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
}

/// A connection, and a session once it is asked for.
pub struct TlsClient {
    stream: StreamOwned<ClientConnection, TcpStream>,
    xid: i32,
}

impl TlsClient {
    /// Connects and shakes hands. With TLS 1.3 a client learns that it is refused when it reads.
    pub fn connect(address: SocketAddr, shape: Shape) -> io::Result<TlsClient> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE))?;
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(shape.config()), name).unwrap();
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(TlsClient { stream, xid: 0 })
    }

    /// Connects, and opens a session.
    pub fn open(address: SocketAddr, shape: Shape) -> io::Result<TlsClient> {
        let mut client = TlsClient::connect(address, shape)?;
        let mut bytes = Vec::new();
        ConnectRequest::new(crate::client::TIMEOUT_MS).encode(&mut bytes);
        client.send(&bytes)?;
        let response = ConnectResponse::decode(&client.frame()?).unwrap();
        assert!(response.timeout_ms > 0);
        Ok(client)
    }

    /// The certificate that the server has shown.
    pub fn server_certificate(&self) -> CertificateDer<'static> {
        self.stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// The body of the next frame.
    pub fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    /// All that comes until the server says that it ends; an error if it ends without saying so.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Sends a request, and gives its xid.
    pub fn ask(&mut self, request: &Request<'_>) -> i32 {
        self.xid += 1;
        let mut bytes = Vec::new();
        request.encode(self.xid, &mut bytes);
        self.send(&bytes).unwrap();
        self.xid
    }

    /// The next reply.
    pub fn answer(&mut self) -> Answer {
        let body = self.frame().unwrap();
        let mut reader = JuteReader::new(&body);
        let header = ReplyHeader::decode(&mut reader).unwrap();
        Answer { header, body: body[reader.offset()..].to_vec() }
    }

    /// Sends a request and waits for its reply.
    pub fn call(&mut self, request: &Request<'_>) -> Answer {
        let xid = self.ask(request);
        let answer = self.answer();
        assert_eq!(answer.header.xid, xid);
        answer
    }
}

/// A request for a session, as bytes.
pub fn connect_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    let request = ConnectRequest::new(crate::client::TIMEOUT_MS);
    request.encode(&mut bytes);
    bytes
}
