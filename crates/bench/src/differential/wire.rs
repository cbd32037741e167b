//! A raw client: frames out and in, nothing interpreted. Whatever a server sends arrives here in
//! its order, and so does the end of the connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

use anyhow::Context;
use zk::request::ConnectRequest;
use zk::response::ConnectResponse;

use crate::limits::{DIFFERENTIAL_FRAMES_AHEAD, DIFFERENTIAL_SILENCE, FRAME_BYTES_MAX};

/// What came next.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// The body of a frame.
    Frame(Vec<u8>),
    /// The server closed the connection.
    End,
    /// Nothing came in time.
    Silence,
}

/// One TCP connection. Dropping it closes it and leaves its session alone.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    frames: Receiver<Vec<u8>>,
}

impl Connection {
    /// Connects, and sends nothing.
    ///
    /// # Errors
    /// There is no server.
    pub fn open(address: SocketAddr) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let (sender, frames) = sync_channel(DIFFERENTIAL_FRAMES_AHEAD);
        let reading = stream.try_clone()?;
        std::thread::spawn(move || read_frames(reading, &sender));
        Ok(Connection { stream, frames })
    }

    /// Connects, and opens or attaches a session. No response where the server closed the
    /// connection.
    ///
    /// # Errors
    /// There is no server, it does not answer, or what it answers is no response.
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

    /// Sends bytes. That the server may have closed the connection shows when it is read.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// What comes next.
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
        // The reader holds the socket as well: this ends both.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn read_frames(mut stream: TcpStream, sender: &SyncSender<Vec<u8>>) {
    loop {
        let mut length = [0; 4];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let length = i32::from_be_bytes(length);
        if !(0..=FRAME_BYTES_MAX).contains(&length) {
            return;
        }
        let mut body = vec![0; length as usize];
        if stream.read_exact(&mut body).is_err() || sender.send(body).is_err() {
            return;
        }
    }
}
