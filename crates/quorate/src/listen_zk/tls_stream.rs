//! TLS on one connection: translates between the socket's bytes and the Front's bytes. It does no
//! I/O of its own but for writing encrypted bytes.
//!
//! Bytes from the socket are decrypted into the Front's input at once, and only as many bytes are
//! encrypted as the socket takes. So a client that is not read, or does not read, costs at most
//! [`ENCRYPTED_BYTES_MAX`] more than without TLS.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use bytes::BytesMut;
use rustls::{ServerConnection, pki_types::CertificateDer};
use tokio::net::tcp::OwnedWriteHalf;

use tls::cause_of;

use crate::client_tls::{Handshake, Tls};

/// The first byte of a TLS connection: a record of a handshake. No request and no four-letter word
/// starts with it (`NettyServerCnxnFactory.DualModeSslHandler`).
pub const FIRST_BYTE: u8 = 0x16;

/// Bytes that are encrypted and not yet taken by the socket, give or take a record's frame. Further
/// bytes stay with the Front, under its bounds.
const ENCRYPTED_BYTES_MAX: usize = 64 * 1024;

/// The protocol of a connection.
pub enum Transport {
    Plain,
    /// Plain text or TLS: the first byte will tell.
    Undecided(Arc<Tls>),
    /// TLS. Boxed, because most connections are plain and each has room for this variant.
    Secure(Box<TlsStream>),
    /// A refused connection: it asked for TLS while the limit of handshakes was reached.
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

    /// Takes bytes from the socket, and appends the client's bytes to `input`.
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

    /// Whether the client has ended its side by TLS, even if the socket is still open.
    pub fn is_ended(&self) -> bool {
        match self {
            Transport::Secure(stream) => stream.ended,
            Transport::Refused => true,
            Transport::Plain | Transport::Undecided(_) => false,
        }
    }

    /// Writes the first of these bytes, as many as the socket takes now. Returns how many bytes
    /// need not be given again.
    pub fn try_write(&mut self, socket: &OwnedWriteHalf, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Secure(stream) => stream.try_write(socket, bytes),
            _ => socket.try_write(bytes),
        }
    }

    /// Writes bytes that were accepted before. An error means that the socket takes no more for
    /// now, or that it is gone.
    pub fn flush(&mut self, socket: &OwnedWriteHalf) -> io::Result<()> {
        match self {
            Transport::Secure(stream) => stream.flush(socket),
            _ => Ok(()),
        }
    }
}

/// The result of a handshake.
pub enum Handshaken {
    /// The client showed this certificate, which is trusted, or none.
    Done(Option<CertificateDer<'static>>),
    /// The client is refused, for this reason; the alert that tells it is still to be written.
    Failed(String),
}

/// The TLS side of a connection.
pub struct TlsStream {
    connection: ServerConnection,
    /// Counts the handshake; none once it is over.
    handshake: Option<Handshake>,
    /// The result of the handshake, until the caller takes it.
    news: Option<Handshaken>,
    /// Whether no more is read: the client ended its side, or sent malformed bytes.
    ended: bool,
}

impl TlsStream {
    fn new(tls: &Arc<Tls>) -> Option<TlsStream> {
        let handshake = tls.begin_handshake()?;
        // This fails only for settings that no configuration can make.
        let mut connection = ServerConnection::new(tls.current()).ok()?;
        connection.set_buffer_limit(Some(ENCRYPTED_BYTES_MAX));
        Some(TlsStream { connection, handshake: Some(handshake), news: None, ended: false })
    }

    fn take(&mut self, mut bytes: &[u8], input: &mut BytesMut) {
        while !bytes.is_empty() && !self.ended {
            match self.connection.read_tls(&mut bytes) {
                // After the client's end, further bytes do not count.
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

    /// Takes the result of the handshake, once it is known.
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

    /// Tells the client that nothing more will follow.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }
}

/// A socket that is written to without waiting.
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
