//! TLS connections of clients, each with the certificate that the client shows and the authority
//! that it trusts.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bench::differential::wire::Received;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use zk::request::ConnectRequest;

use crate::client::{Client, Greeted, TIMEOUT_MS, Wire};

/// How long a server may be silent while a test waits for its answer. A longer silence is a
/// failure.
const SILENCE: Duration = Duration::from_secs(20);

/// The path of a file in the folder of TLS fixtures.
pub fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A client's part in a handshake: the certificate it shows, the authority it trusts, the version
/// of TLS.
#[derive(Clone, Copy)]
pub struct Shape {
    /// The fixture with the certificate that the client shows, or `None` if it shows none.
    pub shows: Option<&'static str>,
    /// The fixture with the authority that must have signed the server's certificate.
    pub believes: &'static str,
    pub version: &'static rustls::SupportedProtocolVersion,
}

impl Shape {
    /// A client with this certificate, which trusts the usual authority and speaks TLS 1.3.
    pub fn with(shows: &'static str) -> Shape {
        Shape { shows: Some(shows), ..Shape::bare() }
    }

    /// A client without a certificate, otherwise like [`Shape::with`].
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

/// The certificates in a fixture.
pub fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
    let path = fixture(&format!("{name}.pem"));
    CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
}

/// A TLS connection. It reads only when a method is called that reads.
pub struct TlsConnection {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

/// A client with a session over TLS.
pub type TlsClient = Client<TlsConnection>;

/// Connects and opens a session. Returns an error if the server refuses or ends the connection.
pub fn open(address: SocketAddr, shape: Shape) -> io::Result<TlsClient> {
    let connection = TlsConnection::connect(address, shape)?;
    match Client::greet(connection, &ConnectRequest::new(TIMEOUT_MS)) {
        Greeted::Attached(client) => Ok(*client),
        Greeted::Refused => Err(io::Error::other("no session is given")),
        Greeted::Ended => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

impl TlsConnection {
    /// Connects and does the handshake. With TLS 1.3 a client learns of a refusal only when it
    /// reads.
    pub fn connect(address: SocketAddr, shape: Shape) -> io::Result<TlsConnection> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE))?;
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(shape.config()), name).unwrap();
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(TlsConnection { stream })
    }

    /// The certificate that the server showed.
    pub fn server_certificate(&self) -> CertificateDer<'static> {
        self.stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// Reads all bytes until the server announces the end. Returns an error if the connection ends
    /// without that announcement.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }
}

impl Wire for TlsConnection {
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    fn receive(&mut self) -> Received {
        match zk::frame::read(&mut self.stream) {
            Ok(body) => Received::Frame(body),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Received::Silence
            }
            Err(error) => {
                println!("TLS ends: {error}");
                Received::End
            }
        }
    }
}
