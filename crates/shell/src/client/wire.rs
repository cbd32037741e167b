//! A TCP connection to a server, with TLS or without. One thread reads from it while others write.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error};
use tls::cause_of;

/// A connection to a server.
pub struct Wire {
    tcp: TcpStream,
    tls: Option<Mutex<ClientConnection>>,
}

impl Wire {
    /// A connection without TLS.
    pub fn plain(tcp: TcpStream) -> Wire {
        Wire { tcp, tls: None }
    }

    /// Makes a TLS connection. `host` is the name that the server's certificate must have.
    pub fn secure(tcp: TcpStream, host: &str, config: Arc<ClientConfig>) -> std::io::Result<Wire> {
        let name = ServerName::try_from(host.to_string()).map_err(std::io::Error::other)?;
        let mut session = ClientConnection::new(config, name).map_err(std::io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut &tcp).map_err(said)?;
        }
        Ok(Wire { tcp, tls: Some(Mutex::new(session)) })
    }

    /// The TCP socket, for setting its timeouts.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Ends the connection; later reads and writes fail.
    pub fn shutdown(&self) {
        // Ignore an error: the connection may have ended already.
        let _ = self.tcp.shutdown(std::net::Shutdown::Both);
    }

    /// Writes all bytes.
    pub fn write_all(&self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(session) = &self.tls else { return (&self.tcp).write_all(bytes) };
        let mut session = lock(session);
        let mut rest = bytes;
        while !rest.is_empty() {
            // rustls buffers only a limited number of bytes.
            let taken = session.writer().write(rest)?;
            rest = &rest[taken..];
            flush(&mut session, &self.tcp)?;
        }
        Ok(())
    }
}

/// How many bytes of TLS are read at once: the size of a record.
const RECORD_BYTES: usize = 16 * 1024;

impl Read for &Wire {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(session) = &self.tls else { return (&self.tcp).read(buffer) };
        let mut raw = [0; RECORD_BYTES];
        loop {
            match lock(session).reader().read(buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            // Read without the lock, so that other threads can write.
            let count = (&self.tcp).read(&mut raw)?;
            if count == 0 {
                return Ok(0);
            }
            let mut session = lock(session);
            let mut rest = &raw[..count];
            while !rest.is_empty() {
                session.read_tls(&mut rest)?;
                if let Err(error) = session.process_new_packets() {
                    // The alert tells the server why the connection ends, if it still reads.
                    let _ = flush(&mut session, &self.tcp);
                    return Err(std::io::Error::other(cause_of(&error)));
                }
            }
            flush(&mut session, &self.tcp)?;
        }
    }
}

fn lock(session: &Mutex<ClientConnection>) -> MutexGuard<'_, ClientConnection> {
    session.lock().expect("nothing panics while it encrypts")
}

fn flush(session: &mut ClientConnection, mut tcp: &TcpStream) -> std::io::Result<()> {
    while session.wants_write() {
        session.write_tls(&mut tcp)?;
    }
    Ok(())
}

/// The error of rustls that is inside an I/O error, as an error with a clear text.
fn said(error: std::io::Error) -> std::io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner.map(cause_of) {
        Some(cause) => std::io::Error::other(cause),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            std::io::Error::other("it closed the connection before TLS was agreed on")
        }
        None => error,
    }
}
