//! The face for etcd's clients: sockets only. Requests go into an [`EtcdFront`], and responses come
//! out of it.
//!
//! One connection runtime per core, each a thread with a current-thread tokio runtime and one
//! Front. The acceptor spreads connections over them; a connection stays where it is. The calls
//! that a read of a socket brings are tasks; the driver's task runs after them, so their commands
//! go in one batch.

mod calls;
mod concurrency;
mod gateway_stream;
mod health;
mod http;
mod limits;
mod methods;
mod runtime;
mod watch;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use machine::ConnectionId;
use member::EtcdFront;
use member::message::FrontId;
use node::FrontHandle;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_user_timeout};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

use crate::config::etcd::EtcdConnections;
use crate::descriptors;
use crate::grpc::{self, Limits, Patience, PingPolicy, Server};
use crate::tls::Tls;
use limits::{
    ACCEPT_PAUSE, ACCEPTED_MAX, CONNECTION_WINDOW_BYTES, FRAME_BYTES_MAX,
    FRAMES_OVERHEAD_BYTES_MAX, HANDSHAKE_TIME_MAX, HEADER_BYTES_MAX, KEEP_ALIVE_TIME,
    MESSAGE_BYTES_MAX, PREFACE_PAUSE, SEND_BYTES_MAX, STALL_TIME_MAX, STREAM_WINDOW_BYTES,
    UNTAKEN_TIME_MAX, WAITED_TIME_MAX, WINDOWS_BYTES_MAX,
};
use runtime::{RoomOfAll, Runtime};

/// The version of etcd whose behaviour is served. Clients decide by it which features to use.
pub const ETCD_VERSION: &str = "3.6.16";

/// A connection on its way to its runtime.
struct Accepted {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<Tls>>,
}

/// The connection that all commands of a Front name. ZooKeeper's Fronts count theirs from the
/// number of the Front, in the upper bits, as well.
pub fn connection_of(front: FrontId) -> ConnectionId {
    ConnectionId(u64::from(front.0) << 48 | 1)
}

/// The mailboxes of the runtimes.
#[derive(Clone)]
pub struct EtcdFace {
    runtimes: Vec<mpsc::Sender<Accepted>>,
}

/// Starts one runtime per Front. The runtimes end with the process.
///
/// # Errors
/// A thread or a runtime cannot be made.
pub fn start(
    fronts: Vec<(FrontHandle, EtcdFront)>,
    connections: EtcdConnections,
) -> std::io::Result<EtcdFace> {
    let limits = Arc::new(grpc_limits(connections));
    let windows = Arc::new(Semaphore::new(WINDOWS_BYTES_MAX / STREAM_WINDOW_BYTES as usize));
    let room = RoomOfAll::new();
    let mut runtimes = Vec::new();
    for (handle, front) in fronts {
        let (sender, receiver) = mpsc::channel(ACCEPTED_MAX);
        runtimes.push(sender);
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let server = Server {
            methods: methods::methods(),
            limits: limits.clone(),
            windows: windows.clone(),
            credits: None,
        };
        let room = room.clone();
        let name = format!("etcd-{}", handle.id().0);
        std::thread::Builder::new().name(name).spawn(move || {
            let runtime = Rc::new(Runtime::new(handle, front, server, room));
            let local = LocalSet::new();
            local.block_on(&tokio, run(runtime, receiver));
        })?;
    }
    Ok(EtcdFace { runtimes })
}

impl EtcdFace {
    /// Accepts connections, with TLS if that is given, and spreads them over the runtimes, until
    /// the task is dropped.
    pub async fn accept(&self, listener: TcpListener, tls: Option<Arc<Tls>>) {
        let mut next = 0;
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // The process is most likely out of file descriptors: the next one may succeed.
                    tracing::warn!("a connection of an etcd client cannot be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if descriptors::is_in_reserve(&stream) {
                tracing::warn!("too few descriptors are left: a connection from {peer} is closed");
                continue;
            }
            let Ok(stream) = stream.into_std() else { continue };
            next = (next + 1) % self.runtimes.len();
            let accepted = Accepted { stream, peer, tls: tls.clone() };
            if self.runtimes[next].send(accepted).await.is_err() {
                return;
            }
        }
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
    let Accepted { stream, peer, tls } = accepted;
    set_socket_keepalive(&stream, true)?;
    set_tcp_keepidle(&stream, KEEP_ALIVE_TIME)?;
    set_tcp_user_timeout(&stream, UNTAKEN_TIME_MAX.as_millis() as u32)?;
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let shares = runtime.shares_of_connection();
    let handle = |call| {
        tokio::task::spawn_local(calls::serve(runtime.clone(), call, shares.answers.clone()));
    };
    let (server, requests) = (&runtime.server, &shares.requests);
    let Some(tls) = tls else {
        return match speaks_http2(&stream).await? {
            true => grpc::serve(stream, server, requests, handle).await,
            false => http::serve(stream, runtime.clone(), shares.clone()).await,
        };
    };
    let Some(handshake) = tls.begin_handshake() else { return Ok(()) };
    let shaken = TlsAcceptor::from(tls.current_of_etcd()).accept(stream);
    match tokio::time::timeout(HANDSHAKE_TIME_MAX, shaken).await? {
        Ok(stream) => {
            handshake.succeed();
            match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => grpc::serve(stream, server, requests, handle).await,
                _ => http::serve(stream, runtime.clone(), shares.clone()).await,
            }
        }
        Err(error) => {
            tls.log_refusal(&peer.to_string(), &error.to_string());
            Ok(())
        }
    }
}

/// Whether a client begins with the preface of HTTP/2 (RFC 9113, 3.4): no method of HTTP/1.1 begins
/// with its first three bytes.
async fn speaks_http2(stream: &TcpStream) -> anyhow::Result<bool> {
    const START: &[u8] = b"PRI";
    let begin = async {
        let mut bytes = [0; START.len()];
        loop {
            let count = stream.peek(&mut bytes).await?;
            if count == 0 || count == START.len() || !START.starts_with(&bytes[..count]) {
                return anyhow::Ok(bytes == START);
            }
            // A part of the preface: the rest comes soon.
            tokio::time::sleep(PREFACE_PAUSE).await;
        }
    };
    tokio::time::timeout(HANDSHAKE_TIME_MAX, begin).await?
}

fn grpc_limits(connections: EtcdConnections) -> Limits {
    let EtcdConnections { streams_max, ping_min_ms, ping_idle_ms, ping_wait_ms } = connections;
    Limits {
        message_bytes_max: MESSAGE_BYTES_MAX,
        takes_gzip: true,
        header_bytes_max: HEADER_BYTES_MAX,
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
            finish_time: Duration::from_secs(10),
            first_time: None,
            idle_time: None,
        },
    }
}
