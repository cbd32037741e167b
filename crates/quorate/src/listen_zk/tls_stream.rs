//! TLS on one connection: translates between encrypted bytes of the socket and plain bytes of the
//! Front. The only I/O it does is to write encrypted bytes.
//!
//! Bytes from the socket are decrypted into the Front's input at once. Bytes for the client are
//! encrypted only shortly before the socket takes them. So a client that does not read costs at
//! most [`ENCRYPTED_BYTES_MAX`] more memory than without TLS.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use bytes::BytesMut;
use rustls::{ServerConnection, pki_types::CertificateDer};
use tokio::net::tcp::OwnedWriteHalf;

use tls::cause_of;

use crate::client_tls::{Handshake, Tls};

/// The first byte of a TLS connection: the type of a handshake record. No request and no
/// four-letter word begins with it (`NettyServerCnxnFactory.DualModeSslHandler`).
pub const FIRST_BYTE: u8 = 0x16;

/// How many encrypted bytes may wait for the socket, give or take a record's header. Further bytes
/// stay in the Front, whose bounds apply to them.
const ENCRYPTED_BYTES_MAX: usize = 64 * 1024;

/// The transport of a connection: plain text or TLS.
pub enum Transport {
    Plain,
    /// Plain text or TLS; the first byte will decide.
    Undecided(Arc<Tls>),
    /// TLS. In a box, because most connections are plain and would have space for this variant.
    Secure(Box<TlsStream>),
    /// TLS, but too many handshakes were under way; the connection is to be closed.
    Refused,
}

impl Transport {
    /// A connection that begins with TLS.
    pub fn secure(tls: &Arc<Tls>) -> Transport {
        match TlsStream::new(tls) {
            Some(stream) => Transport::Secure(Box::new(stream)),
            None => Transport::Refused,
        }
    }

    /// Takes bytes from the socket, and appends the plain bytes in them to `input`.
    pub fn take(&mut self, bytes: &[u8], input: &mut BytesMut) {
        if let Transport::Undecided(tls) = self
            && let Some(&first) = bytes.first()
        {
            *self = if first == FIRST_BYTE { Transport::secure(tls) } else { Transport::Plain };
        }
        match self {
            Transport::Plain => input.extend_from_slice(bytes),
            Transport::Secure(stream) => stream.take(bytes, input),
            Transport::Undecided(_) | Transport::Refused => {}
        }
    }

    /// Whether nothing more comes from the client, even if the socket is still open.
    pub fn is_ended(&self) -> bool {
        match self {
            Transport::Secure(stream) => stream.ended,
            Transport::Refused => true,
            Transport::Plain | Transport::Undecided(_) => false,
        }
    }

    /// Writes as many of these bytes as the socket takes now. Returns how many were accepted; with
    /// TLS, some of them may still wait to be written by [`Transport::flush`].
    pub fn try_write(&mut self, socket: &OwnedWriteHalf, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Secure(stream) => stream.try_write(socket, bytes),
            _ => socket.try_write(bytes),
        }
    }

    /// Writes accepted bytes that still wait. An error means that the socket takes no more now, or
    /// is gone.
    pub fn flush(&mut self, socket: &OwnedWriteHalf) -> io::Result<()> {
        match self {
            Transport::Secure(stream) => stream.flush(socket),
            _ => Ok(()),
        }
    }
}

/// The result of a TLS handshake.
pub enum Handshaken {
    /// It succeeded. The client showed this certificate, which is trusted, or none.
    Done(Option<CertificateDer<'static>>),
    /// It failed for this reason; the alert for the client still has to be written.
    Failed(String),
}

/// The server's side of TLS on a connection.
pub struct TlsStream {
    connection: ServerConnection,
    /// Counts the handshake while it is under way; then `None`.
    handshake: Option<Handshake>,
    /// The result of the handshake, until the caller takes it.
    news: Option<Handshaken>,
    /// Whether nothing more is read: the client has closed its side, or has sent malformed bytes.
    ended: bool,
}

impl TlsStream {
    fn new(tls: &Arc<Tls>) -> Option<TlsStream> {
        let handshake = tls.begin_handshake()?;
        // This fails only for settings that no configuration produces.
        let mut connection = ServerConnection::new(tls.current()).ok()?;
        connection.set_buffer_limit(Some(ENCRYPTED_BYTES_MAX));
        Some(TlsStream { connection, handshake: Some(handshake), news: None, ended: false })
    }

    fn take(&mut self, mut bytes: &[u8], input: &mut BytesMut) {
        while !bytes.is_empty() && !self.ended {
            match self.connection.read_tls(&mut bytes) {
                // Bytes behind the client's end are ignored.
                Ok(0) | Err(_) => self.ended = true,
                Ok(_) => self.process(input),
            }
        }
        if !self.connection.is_handshaking()
            && let Some(handshake) = self.handshake.take()
        {
            handshake.succeed();
            let shown = self.connection.peer_certificates().and_then(|chain| chain.first());
            self.news
                .get_or_insert(Handshaken::Done(shown.cloned().map(CertificateDer::into_owned)));
        }
    }

    fn process(&mut self, input: &mut BytesMut) {
        match self.connection.process_new_packets() {
            Ok(state) => self.ended = state.peer_has_closed(),
            Err(error) => {
                self.ended = true;
                self.handshake = None;
                self.news = Some(Handshaken::Failed(cause_of(&error)));
            }
        }
        let mut reader = self.connection.reader();
        while let Ok(plain) = reader.fill_buf()
            && !plain.is_empty()
        {
            input.extend_from_slice(plain);
            let count = plain.len();
            reader.consume(count);
        }
    }

    /// Returns the result of the handshake once, when it is known.
    pub fn take_news(&mut self) -> Option<Handshaken> {
        self.news.take()
    }

    fn try_write(&mut self, socket: &OwnedWriteHalf, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        let count = self.connection.writer().write(bytes)?;
        match self.flush(socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    fn flush(&mut self, socket: &OwnedWriteHalf) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut Now(socket))?;
        }
        Ok(())
    }

    /// Tells the client, in TLS, that nothing more will follow.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }
}

/// A socket whose writes never wait: they fail with `WouldBlock` instead.
struct Now<'a>(&'a OwnedWriteHalf);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
