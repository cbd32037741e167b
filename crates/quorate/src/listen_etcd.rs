//! The face for etcd clients. This module has the sockets: it accepts connections, finds out which
//! protocol each speaks, and hands the calls to an [`EtcdFront`], which gives back the responses.
//!
//! There is a connection runtime for every two cores, at most 8 in all. A runtime is a thread with
//! a current-thread tokio runtime and a Front. The acceptor hands connections to the runtimes in
//! turn, and a connection stays with its runtime. Each call is a task. The task that drives the
//! Front runs after the calls that one read of a socket has brought, so that their commands go into
//! one batch.

mod answer;
mod audit;
mod backup;
mod backup_file;
mod begun;
mod body;
mod calls;
mod client;
mod concurrency;
mod gateway_stream;
mod health;
mod http;
mod http_head;
mod large;
mod limits;
mod member_view;
mod methods;
mod metrics;
mod passwords;
mod routes;
mod runtime;
mod slow;
mod tokens;
mod v2;
mod watch;
mod websocket;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::connections::{self, Connections, Face, Held};
use etcd::limits::MESSAGE_OVERHEAD_BYTES;
use grpc::{LONG_HEADERS_MAX, Limits, Patience, PingPolicy, Server};
use machine::ConnectionId;
use member::EtcdFront;
use member::message::FrontId;
use node::FrontHandle;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_user_timeout};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

use tls::common_name;

use config::etcd::{EtcdConfig, EtcdConnections, EtcdPort, EtcdService, EtcdWire};

use crate::client_tls::Tls;
use client::{CallingClient, Site};
use limits::{
    ACCEPT_PAUSE, ACCEPTED_MAX, CONNECTION_WINDOW_BYTES, FINISH_TIME_MAX, FRAME_BYTES_MAX,
    FRAMES_OVERHEAD_BYTES_MAX, HANDSHAKE_TIME_MAX, HEADER_BYTES_MAX, HTTP_HEAD_BYTES_MAX,
    KEEP_ALIVE_TIME, PREFACE_PAUSE, SEND_BYTES_MAX, STALL_TIME_MAX, STREAM_WINDOW_BYTES,
    UNTAKEN_TIME_MAX, WAITED_TIME_MAX, WINDOWS_BYTES_MAX,
};
pub use member_view::MemberView;
use passwords::Passwords;
use runtime::{RoomOfAll, Runtime};
pub use tokens::Tokens;

/// An accepted connection on its way to its runtime.
struct Accepted {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    wire: EtcdWire,
    service: EtcdService,
    tls: Option<Arc<Tls>>,
    held: Held,
}

/// The connection id that all commands of an etcd Front carry: the Front's number in the upper 16
/// bits, and 1 in the others. A ZooKeeper Front has an id for each connection; there too the upper
/// 16 bits are the Front's number, so no ids of two Fronts are equal.
pub fn connection_of(front: FrontId) -> ConnectionId {
    ConnectionId(u64::from(front.0) << 48 | 1)
}

/// The etcd face as the acceptors of its ports use it: they send accepted connections to the
/// mailboxes of the runtimes.
#[derive(Clone)]
pub struct EtcdFace {
    runtimes: Vec<mpsc::Sender<Accepted>>,
    connections: Arc<Connections>,
}

/// Starts a runtime for each Front; none if `member` is `None`, because etcd is not served. The
/// runtimes end with the process.
///
/// # Errors
/// A thread or a runtime cannot be started.
pub fn start(
    fronts: Vec<(FrontHandle, EtcdFront)>,
    member: Option<MemberView>,
    connections: Arc<Connections>,
) -> std::io::Result<EtcdFace> {
    let Some(mut member) = member else {
        return Ok(EtcdFace { runtimes: Vec::new(), connections });
    };
    let has_times = member.config.about.has_call_times;
    let tables: Vec<_> = fronts.iter().map(|_| methods::methods(has_times)).collect();
    member.calls = tables.iter().map(|table| table.all().to_vec()).collect();
    let member = Arc::new(member);
    let limits = Arc::new(grpc_limits(&member.config));
    let windows = Arc::new(Semaphore::new(WINDOWS_BYTES_MAX / STREAM_WINDOW_BYTES as usize));
    let long_headers = Arc::new(Semaphore::new(LONG_HEADERS_MAX));
    let metadata_bytes = Arc::new(Semaphore::new(grpc::KEPT_BYTES_MAX));
    let room = RoomOfAll::new();
    let passwords = Passwords::start(member.config.auth.bcrypt_cost, &member.tokens)?;
    let mut runtimes = Vec::new();
    for ((handle, front), methods) in fronts.into_iter().zip(tables) {
        let (sender, receiver) = mpsc::channel(ACCEPTED_MAX);
        runtimes.push(sender);
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let server = Server {
            methods,
            limits: limits.clone(),
            windows: windows.clone(),
            long_headers: long_headers.clone(),
            metadata_bytes: metadata_bytes.clone(),
            credits: None,
        };
        let (room, member, passwords) = (room.clone(), member.clone(), passwords.clone());
        let name = format!("etcd-{}", handle.id().0);
        std::thread::Builder::new().name(name).spawn(move || {
            let runtime = Rc::new(Runtime::new(handle, front, server, room, member, passwords));
            let local = LocalSet::new();
            local.block_on(&tokio, run(runtime, receiver));
        })?;
    }
    Ok(EtcdFace { runtimes, connections })
}

impl EtcdFace {
    /// Accepts connections of a port and hands them to the runtimes in turn. Returns only if a
    /// runtime has ended.
    pub async fn accept(&self, listener: TcpListener, port: &EtcdPort, tls: Option<Arc<Tls>>) {
        let (wire, service) = (port.wire, port.service);
        let face = face_of(service);
        let mut next = 0;
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely the process has no descriptor left; a later attempt may succeed.
                    connections::log_not_accepted(face, &error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(held) = self.connections.admit(face, &stream, peer) else { continue };
            let Ok(stream) = stream.into_std() else { continue };
            next = (next + 1) % self.runtimes.len();
            let accepted = Accepted { stream, peer, wire, service, tls: tls.clone(), held };
            if self.runtimes[next].send(accepted).await.is_err() {
                return;
            }
        }
    }
}

/// The face that connections to a port of this service count for.
pub fn face_of(service: EtcdService) -> Face {
    match service {
        EtcdService::Metrics => Face::Monitoring,
        EtcdService::All | EtcdService::Grpc | EtcdService::Http => Face::Etcd,
    }
}

async fn run(runtime: Rc<Runtime>, mut receiver: mpsc::Receiver<Accepted>) {
    tokio::task::spawn_local(runtime.clone().drive_when_stirred());
    tokio::task::spawn_local(runtime.clone().tick());
    while let Some(accepted) = receiver.recv().await {
        let runtime = runtime.clone();
        tokio::task::spawn_local(async move {
            let peer = accepted.peer;
            if let Err(error) = serve_connection(accepted, runtime).await {
                tracing::debug!("{peer}: {error}");
            }
        });
    }
}

async fn serve_connection(accepted: Accepted, runtime: Rc<Runtime>) -> anyhow::Result<()> {
    let Accepted { stream, peer, wire, service, tls, held } = accepted;
    let held = Rc::new(held);
    let kept = Rc::new(grpc::KeptValues::new(&runtime.server.metadata_bytes));
    set_socket_keepalive(&stream, true)?;
    set_tcp_keepidle(&stream, KEEP_ALIVE_TIME)?;
    set_tcp_user_timeout(&stream, UNTAKEN_TIME_MAX.as_millis() as u32)?;
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let refuses_foreign_pages = runtime.member.config.about.refuses_foreign_pages
        && stream.local_addr()?.ip().to_canonical().is_loopback();
    let is_secure = match wire {
        EtcdWire::Plain => false,
        EtcdWire::Secure => true,
        EtcdWire::Either => begins_with(&stream, TLS_START).await?,
    };
    let Some(tls) = tls.filter(|_| is_secure) else {
        let is_http2 = begins_with(&stream, HTTP2_START).await?;
        let site =
            Site { peer, service, is_secure, refuses_foreign_pages, certificate: None, held, kept };
        return serve_protocol(stream, (is_http2, site), runtime).await;
    };
    let Some(handshake) = tls.begin_handshake() else { return Ok(()) };
    let shaken = TlsAcceptor::from(tls.current_of_etcd()).accept(stream);
    match tokio::time::timeout(HANDSHAKE_TIME_MAX, shaken).await? {
        Ok(stream) => {
            handshake.succeed();
            let tls = stream.get_ref().1;
            let is_http2 = tls.alpn_protocol() == Some(b"h2");
            let certificate = tls.peer_certificates().and_then(|chain| chain.first());
            let certificate = certificate.filter(|_| runtime.member.has_certificate_users);
            let certificate = certificate.map(|it| common_name(it).into());
            let site =
                Site { peer, service, is_secure, refuses_foreign_pages, certificate, held, kept };
            serve_protocol(stream, (is_http2, site), runtime).await
        }
        Err(error) => {
            tls.log_refusal(&peer.to_string(), &error.to_string());
            Ok(())
        }
    }
}

/// Serves a connection whose protocol is known; closes it if its port does not serve that protocol.
async fn serve_protocol<S>(
    stream: S,
    (is_http2, site): (bool, Site),
    runtime: Rc<Runtime>,
) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shares = runtime.shares_of_connection();
    if !is_http2 {
        return match site.service {
            EtcdService::Grpc => Ok(()),
            _ => http::serve(stream, runtime.clone(), shares.clone(), site).await,
        };
    }
    let handle = |call: Box<grpc::Call<_>>| {
        let client = CallingClient::from_call(&runtime, &call.metadata, &site);
        let served = calls::serve(client, call, shares.answers.clone());
        tokio::task::spawn_local(served);
    };
    // A client that uses TLS may send over HTTP/2 the plain HTTP requests that it could send over
    // HTTP/1.1. Without TLS, as in etcd, a client that speaks HTTP/2 speaks gRPC.
    let web = grpc::Web {
        are_all: site.service != EtcdService::All,
        handle: |exchange| {
            let (runtime, shares, site) = (runtime.clone(), shares.clone(), site.clone());
            tokio::task::spawn_local(http::serve_exchange(runtime, shares, site, exchange));
        },
    };
    let web = (site.is_secure && site.service != EtcdService::Grpc).then_some(web);
    if web.is_none() && !matches!(site.service, EtcdService::All | EtcdService::Grpc) {
        return Ok(());
    }
    let server = (&runtime.server, &*site.kept);
    Ok(grpc::serve_with(stream, server, &shares.requests, handle, web).await?)
}

/// The first bytes of a client that speaks HTTP/2 (RFC 9113, 3.4). No method of HTTP/1.1 begins
/// with them.
const HTTP2_START: &[u8] = b"PRI";

/// The first byte of a client that speaks TLS (RFC 8446, 5.1): the type of a handshake record.
const TLS_START: &[u8] = &[22];

/// Whether the first bytes from the client are `start`. Leaves them in the socket.
async fn begins_with(stream: &TcpStream, start: &[u8]) -> anyhow::Result<bool> {
    let begin = async {
        let mut bytes = [0; HTTP2_START.len()];
        let bytes = &mut bytes[..start.len()];
        loop {
            let count = stream.peek(bytes).await?;
            if count == 0 || count == start.len() || !start.starts_with(&bytes[..count]) {
                return anyhow::Ok(bytes == start);
            }
            // Only some of the bytes have come; the rest will soon.
            tokio::time::sleep(PREFACE_PAUSE).await;
        }
    };
    tokio::time::timeout(HANDSHAKE_TIME_MAX, begin).await?
}

fn grpc_limits(config: &EtcdConfig) -> Limits {
    let EtcdConnections { streams_max, ping_min_ms, ping_idle_ms, ping_wait_ms } =
        config.connections;
    Limits {
        message_bytes_max: config.request_bytes_max + MESSAGE_OVERHEAD_BYTES,
        takes_gzip: true,
        header_bytes_max: HEADER_BYTES_MAX,
        web_header_bytes_max: HTTP_HEAD_BYTES_MAX,
        metadata_keys: client::METADATA_KEYS,
        metadata_prefix: client::BEARER,
        streams_max,
        stream_window_bytes: STREAM_WINDOW_BYTES,
        connection_window_bytes: CONNECTION_WINDOW_BYTES,
        frame_bytes_max: FRAME_BYTES_MAX,
        frames_overhead_bytes_max: FRAMES_OVERHEAD_BYTES_MAX,
        send_bytes_max: SEND_BYTES_MAX,
        handshake_time_max: HANDSHAKE_TIME_MAX,
        connection_idle_time: None,
        pings: Some(PingPolicy {
            min_time: Duration::from_millis(ping_min_ms),
            idle_time: Duration::from_millis(ping_idle_ms),
            wait_time: Duration::from_millis(ping_wait_ms),
        }),
        patience: Patience {
            stall_time: STALL_TIME_MAX,
            waited_time: WAITED_TIME_MAX,
            finish_time: FINISH_TIME_MAX,
            first_time: None,
            idle_time: None,
        },
    }
}
