//! A raw ZooKeeper connection, which sends and receives frames without looking into them. It
//! delivers all frames of a server in order, and then the end of the connection.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

use anyhow::Context;
use zk::frame;
use zk::request::ConnectRequest;
use zk::response::ConnectResponse;

use crate::limits::{DIFFERENTIAL_FRAMES_AHEAD, DIFFERENTIAL_SILENCE};

/// The next thing that a connection received.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// The body of a frame.
    Frame(Vec<u8>),
    /// The server closed the connection.
    End,
    /// Nothing arrived within [`DIFFERENTIAL_SILENCE`].
    Silence,
}

/// A TCP connection. Dropping it closes the socket but does not close the session.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    frames: Receiver<Vec<u8>>,
}

impl Connection {
    /// Connects to a server, and sends nothing.
    ///
    /// # Errors
    /// No server listens.
    pub fn open(address: SocketAddr) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let (sender, frames) = sync_channel(DIFFERENTIAL_FRAMES_AHEAD);
        let reading = stream.try_clone()?;
        std::thread::spawn(move || read_frames(reading, &sender));
        Ok(Connection { stream, frames })
    }

    /// Connects to a server, and opens or resumes a session. The response is `None` if the server
    /// closed the connection without one.
    ///
    /// # Errors
    /// No server listens or answers, or its answer is no connect response.
    pub fn attach(
        address: SocketAddr,
        request: &ConnectRequest,
    ) -> anyhow::Result<(Connection, Option<ConnectResponse>)> {
        let mut connection =
            Connection::open(address).with_context(|| format!("nothing answers at {address}"))?;
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        connection.send(&bytes);
        let response = match connection.receive() {
            Received::Frame(body) => Some(ConnectResponse::decode(&body)?),
            Received::End => None,
            Received::Silence => anyhow::bail!("{address}: no answer to {request:?}"),
        };
        Ok((connection, response))
    }

    /// Sends bytes. Errors are ignored: if the server has closed the connection,
    /// [`Connection::receive`] shows that.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Waits for the next frame or the end of the connection.
    pub fn receive(&mut self) -> Received {
        match self.frames.recv_timeout(DIFFERENTIAL_SILENCE) {
            Ok(body) => Received::Frame(body),
            Err(RecvTimeoutError::Disconnected) => Received::End,
            Err(RecvTimeoutError::Timeout) => Received::Silence,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Also ends the reading thread, which has its own handle of the socket.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn read_frames(mut stream: TcpStream, sender: &SyncSender<Vec<u8>>) {
    while let Ok(body) = frame::read(&mut stream) {
        if sender.send(body).is_err() {
            return;
        }
    }
}
