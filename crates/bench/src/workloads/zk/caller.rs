//! A ZooKeeper session that sends one request at a time and waits for its answer: for what a
//! workload asks of a server beside the load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::ensure;
use zk::ErrorCode;
use zk::request::Request;

use crate::limits::{ATTEMPT_LIMIT, READ_BYTES, SESSION_TIMEOUT_MS};
use crate::workloads::zk::client::{Incoming, Session};

/// A session on its one connection.
pub struct Caller {
    stream: TcpStream,
    session: Session,
    buffer: Vec<u8>,
}

impl Caller {
    /// Opens a session at a server.
    ///
    /// # Errors
    /// The server does not answer, or opens no session.
    pub fn connect(address: SocketAddr) -> anyhow::Result<Caller> {
        let stream = TcpStream::connect_timeout(&address, ATTEMPT_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ATTEMPT_LIMIT))?;
        let session = Session::connect(SESSION_TIMEOUT_MS);
        let mut caller = Caller { stream, session, buffer: vec![0; READ_BYTES] };
        caller.flush()?;
        while !caller.session.is_open() {
            if caller.session.take()?.is_none() {
                caller.read()?;
            }
        }
        Ok(caller)
    }

    /// Sends a request and waits for its answer. Returns the error code and, if the answer begins
    /// with a buffer, as those of `getData` and `reconfig` do, that buffer.
    ///
    /// # Errors
    /// The connection ends, or there is no answer within [`ATTEMPT_LIMIT`].
    pub fn call(&mut self, request: &Request<'_>) -> anyhow::Result<(ErrorCode, Vec<u8>)> {
        self.session.send(request, 0);
        self.flush()?;
        loop {
            match self.session.take()? {
                Some(Incoming::Reply { header, mut body, .. }) => {
                    let data = body.buffer().ok().flatten().unwrap_or_default().to_vec();
                    return Ok((header.error, data));
                }
                Some(_) => {}
                None => self.read()?,
            }
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(self.session.output())?;
        let count = self.session.output().len();
        self.session.on_written(count);
        Ok(())
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let count = self.stream.read(&mut self.buffer)?;
        ensure!(count > 0, "the connection was closed");
        self.session.input().extend_from_slice(&self.buffer[..count]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use zk::request::{ReadKind, ReadRequest};

    use super::*;
    use crate::servers::null_server::NullServer;

    #[test]
    fn each_request_has_its_answer() {
        let null = NullServer::start(3).unwrap();
        let mut caller = Caller::connect(null.target().addresses[0]).unwrap();
        let read = ReadRequest { kind: ReadKind::GetData, path: "/a", watch: false };
        for _ in 0..2 {
            let (error, data) = caller.call(&Request::Read(read.clone())).unwrap();
            assert_eq!((error, data.len()), (ErrorCode::OK, 3));
        }
    }
}
