//! A client of etcd over gRPC. A call is encoded before it is sent, and many calls may be under way
//! on one connection.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use etcd::pb::{Message, etcdserverpb as pb};
use http::{HeaderValue, Request};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::limits::{CONNECT_LIMIT, ETCD_ANSWER_BYTES_MAX, ETCD_WINDOW_BYTES, SILENCE_LIMIT};
use crate::workloads::etcd::grpc::{self, Answer, Sender, Stream};

/// The path of the method `Range`.
pub const RANGE: &str = "/etcdserverpb.KV/Range";
/// The path of the method `Put`.
pub const PUT: &str = "/etcdserverpb.KV/Put";
/// The path of the method `DeleteRange`.
pub const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
/// The path of the method `Txn`.
pub const TXN: &str = "/etcdserverpb.KV/Txn";
/// The path of the method `Compact`.
pub const COMPACT: &str = "/etcdserverpb.KV/Compact";
/// The path of the method `MemberAdd`.
pub const MEMBER_ADD: &str = "/etcdserverpb.Cluster/MemberAdd";
/// The path of the method `MemberList`.
pub const MEMBER_LIST: &str = "/etcdserverpb.Cluster/MemberList";
/// The path of the method `LeaseGrant`.
pub const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
/// The path of the method `LeaseRevoke`.
pub const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
/// The path of keep-alives, whose method is a stream. A [`Call`] of it sends one message.
pub const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
/// The path of the method `LeaseTimeToLive`.
pub const LEASE_TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
/// The path of the method `LeaseLeases`.
pub const LEASES: &str = "/etcdserverpb.Lease/LeaseLeases";
/// The path of watches, whose method is a stream: see [`EtcdClient::open_watches`].
const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// A client sends this metadata to ask the server to end its streams while there is no leader.
const REQUIRES_LEADER: (&str, &str) = ("hasleader", "true");
/// The name of the metadata that carries a user's token.
const TOKEN: &str = "token";
/// The path of the method that returns a server's version and the leader.
pub const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// An encoded call. It can be sent any number of times.
#[derive(Clone, Debug)]
pub struct Call {
    head: Request<()>,
    message: Bytes,
}

impl Call {
    /// A call of the method at `path`, with `request` as its message.
    ///
    /// # Errors
    /// `path` is no valid path, or the message is too long for gRPC.
    pub fn new(path: &str, request: &impl Message) -> anyhow::Result<Call> {
        Call::from_bytes(path, &request.encode_to_vec())
    }

    /// Like [`Call::new`], with a message that is encoded already.
    ///
    /// # Errors
    /// See [`Call::new`].
    pub fn from_bytes(path: &str, request: &[u8]) -> anyhow::Result<Call> {
        let message = grpc::message(|out| out.extend_from_slice(request))?;
        Ok(Call { head: grpc::head(path)?, message })
    }

    /// Adds a user's token to the call, if there is one.
    ///
    /// # Errors
    /// The token cannot be the value of a header.
    pub fn with_token(mut self, token: Option<&str>) -> anyhow::Result<Call> {
        if let Some(token) = token {
            self.head.headers_mut().insert(TOKEN, HeaderValue::from_str(token)?);
        }
        Ok(self)
    }
}

/// A connection to a server. Clones are further clients on the same connection.
#[derive(Clone, Debug)]
pub struct EtcdClient(Sender);

impl EtcdClient {
    /// Opens a new connection. A task of the tokio runtime serves it.
    ///
    /// # Errors
    /// No server accepts the connection within [`CONNECT_LIMIT`]. A server that does not speak
    /// HTTP/2 is noticed only at the first call.
    pub async fn connect(address: SocketAddr) -> anyhow::Result<EtcdClient> {
        EtcdClient::connect_with_window(address, ETCD_WINDOW_BYTES).await
    }

    /// Like [`EtcdClient::connect`]; the server may send `bytes` before they are read.
    ///
    /// # Errors
    /// See [`EtcdClient::connect`].
    pub async fn connect_with_window(
        address: SocketAddr,
        bytes: u32,
    ) -> anyhow::Result<EtcdClient> {
        let connecting = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            grpc::open(stream, bytes).await
        };
        let connected = async { timeout(CONNECT_LIMIT, connecting).await? };
        Ok(EtcdClient(connected.await.with_context(|| address.to_string())?))
    }

    /// Sends a call and waits for its answer, which may be an error of etcd.
    ///
    /// # Errors
    /// No answer comes, since the connection has ended or the stream was reset.
    pub async fn ask(&mut self, call: &Call) -> anyhow::Result<Answer> {
        let Call { head, message } = call.clone();
        grpc::call(&mut self.0, head, message, ETCD_ANSWER_BYTES_MAX).await
    }

    /// Sends a request that must succeed, and waits for its response.
    ///
    /// # Errors
    /// No answer comes within [`SILENCE_LIMIT`], or the answer is an error of etcd.
    pub async fn demand<R: Message + Default>(
        &mut self,
        path: &str,
        request: &impl Message,
    ) -> anyhow::Result<R> {
        let call = Call::new(path, request)?;
        let answer = timeout(SILENCE_LIMIT, self.ask(&call)).await;
        let answer = answer.with_context(|| format!("{path} has no answer"))??;
        anyhow::ensure!(answer.code == 0, "{path} is refused: {}", answer.message);
        Ok(R::decode(answer.body)?)
    }

    /// Opens a stream for watches. The server sends the head of its answer only once it has a
    /// request. With `requires_leader` the server ends the stream when there is no leader.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn open_watches(&mut self, requires_leader: bool) -> anyhow::Result<Stream> {
        let mut head = grpc::head(WATCH)?;
        if requires_leader {
            let (name, value) = REQUIRES_LEADER;
            head.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        Stream::open(&mut self.0, head).await
    }
}

/// A tokio runtime for the clients of the calling thread.
///
/// # Errors
/// The system refuses.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// The status of the server at an address; `None` if it does not answer the call.
pub fn status_at(address: SocketAddr) -> Option<pb::StatusResponse> {
    let asking = async {
        let call = Call::new(STATUS, &pb::StatusRequest {})?;
        EtcdClient::connect(address).await?.ask(&call).await
    };
    let answer = runtime().ok()?.block_on(async { timeout(CONNECT_LIMIT, asking).await });
    let answer = answer.ok()?.ok().filter(|answer| answer.code == 0)?;
    pb::StatusResponse::decode(answer.body).ok()
}
