//! A watch stream on a connection of its own. It ends when the connection breaks.

use std::net::SocketAddr;

use bench::workloads::etcd::client::EtcdClient;
use bench::workloads::etcd::grpc::Received;
use bytes::Bytes;
use member::fronts::etcd::CallRefused;
use sim::etcd_clients::wire::Served;
use sim::etcd_clients::{watch_wire, wire};
use workload::etcd::op::Error;
use workload::etcd::watch::Response;

use crate::etcd_client::{Headers, error_of};

/// How many bytes the server may send before the client reads them: a few messages.
const WINDOW_BYTES: u32 = 64 * 1024;

/// A message of the server, or the end of the stream.
pub enum FromServer {
    Message(Response),
    Ended(Error),
}

/// A watch stream with its connection.
pub struct Stream {
    stream: bench::workloads::etcd::grpc::Stream,
    headers: Headers,
    /// Dropping this would close the connection.
    _connection: EtcdClient,
}

impl Stream {
    /// Opens a stream; `None` if no server listens.
    pub async fn open(
        address: SocketAddr,
        headers: Headers,
        requires_leader: bool,
    ) -> Option<Stream> {
        let mut connection = EtcdClient::connect_with_window(address, WINDOW_BYTES).await.ok()?;
        let stream = connection.open_watches(requires_leader).await.ok()?;
        Some(Stream { stream, headers, _connection: connection })
    }

    /// Sends a request; `None` if the stream has ended.
    pub fn send(&mut self, request: &Bytes) -> Option<()> {
        self.stream.send(request).ok()
    }

    /// The cluster and the member that the messages name; `None` before the first one.
    pub fn served(&self) -> Option<Served> {
        self.headers.served
    }

    /// The next message, or the end of the stream; `None` if the connection broke. A caller may
    /// drop the future and call this again.
    pub async fn next(&mut self) -> Option<FromServer> {
        match self.stream.next().await.ok()? {
            Received::Message(message) => {
                let by = self.headers.take(&message);
                Some(FromServer::Message(watch_wire::decode(&message, by).unwrap()))
            }
            Received::Ended { code, message } => {
                let refused = CallRefused::Error(error_of(code, &message));
                Some(FromServer::Ended(wire::decode_error(&refused).unwrap()))
            }
        }
    }
}
