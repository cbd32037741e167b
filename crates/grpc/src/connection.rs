//! One connection: HTTP/2 over a socket. Its task only reads, writes and starts a task for each
//! call, so pings, resets and windows never wait for a handler.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use hyper::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Interval, interval_at, timeout};

use super::answers::{Answers, Piece};
use super::call::Call;
use super::credits::{Credits, StreamCredits};
use super::head;
use super::keep_alive::SignsOfLife;
use super::limits::Limits;
use super::metadata::KeptValues;
use super::methods::Methods;
use super::requests::Requests;
use super::room::SharesBySize;
use super::socket::{AckTimer, GatheringSocket, Turn};
use super::web::Exchange;

/// The largest flow-control window of HTTP/2.
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// The state that all connections of a face share.
pub struct Server<M> {
    /// The methods of the face.
    pub methods: Methods<M>,
    /// The limits of the face.
    pub limits: Arc<Limits>,
    /// The flow-control windows that connections may still add to the window that they begin with,
    /// one permit each. A connection takes a permit when it has more streams than added windows; if
    /// no permit is left, its streams share the windows that it has.
    pub windows: Arc<Semaphore>,
    /// One permit for each client that may be sending headers too long to be buffered whole. A
    /// connection that finds no permit ends.
    pub long_headers: Arc<Semaphore>,
    /// Bytes that calls may still keep of large header values, one permit each.
    pub metadata_bytes: Arc<Semaphore>,
    /// Limits the number of requests under way; `None` if the face limits only their bytes.
    pub credits: Option<Arc<Credits>>,
}

/// The HTTP/2 library's connection over a socket.
type Http2<S> = Connection<GatheringSocket<S>, Piece>;

/// A stream that a client has opened.
type Accepted = (Request<RecvStream>, SendResponse<Piece>);

/// How the face serves requests that are not gRPC calls.
pub struct Web<H> {
    /// Whether `handle` gets all requests, even those that look like gRPC calls.
    pub are_all: bool,
    /// Called for each request that is not a gRPC call, or for every request; it must start a task
    /// that serves the request.
    pub handle: H,
}

/// Why a connection ended, unless its client closed it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The client does not speak HTTP/2, or the connection broke.
    #[error(transparent)]
    Http2(#[from] h2::Error),
    /// The client did not finish the handshake of HTTP/2 in time.
    #[error("the handshake of HTTP/2 took too long")]
    Late(#[from] tokio::time::error::Elapsed),
    /// The client did not answer a ping in time.
    #[error("the client gives no sign of life")]
    Silent,
    /// The client sent more pings than it may.
    #[error("the client pings too often")]
    TooManyPings,
}

/// Serves a connection until it ends. Calls `handle` for each gRPC call; `handle` must start a task
/// that serves the call. Room for messages is taken from `shares`.
///
/// # Errors
/// The client does not speak HTTP/2, or the connection breaks.
pub async fn serve<S, M>(
    socket: S,
    server: &Server<M>,
    shares: &SharesBySize,
    handle: impl Fn(Box<Call<M>>),
) -> Result<(), ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    M: Copy,
{
    let kept = KeptValues::new(&server.metadata_bytes);
    serve_with(socket, (server, &kept), shares, handle, None::<Web<fn(Exchange)>>).await
}

/// Like [`serve`], but `web` serves the requests that are not gRPC calls. The handlers of such
/// requests may keep large header values in `kept`, as the calls of this connection do.
///
/// # Errors
/// The errors of [`serve`].
pub async fn serve_with<S, M>(
    socket: S,
    (server, kept): (&Server<M>, &KeptValues),
    shares: &SharesBySize,
    handle: impl Fn(Box<Call<M>>),
    web: Option<Web<impl Fn(Exchange)>>,
) -> Result<(), ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    M: Copy,
{
    let limits = &server.limits;
    // Each open stream holds one clone of this, so its reference count is the number of streams
    // plus 1.
    let streams = Arc::new(());
    let signs = Arc::new(SignsOfLife::new(limits.pings, &streams));
    let (socket, turn) = GatheringSocket::new(socket, signs.clone(), server.long_headers.clone());
    let handshake = builder(limits).handshake(socket);
    let mut connection: Http2<S> = timeout(limits.handshake_time_max, handshake).await??;
    let lost = signs.lost(connection.ping_pong());
    tokio::pin!(lost);
    let mut windows = Vec::new();
    let mut idle = limits.connection_idle_time.map(|time| interval_at(Instant::now() + time, time));
    let mut was_used = true;
    let mut acks = AckTimer::default();
    loop {
        tokio::select! {
            biased;
            accepted = accept(&mut connection, &turn, &signs, &mut acks) => {
                let accepted = match accepted {
                    Some(accepted) => accepted?,
                    None if signs.is_abused() => {
                        return send_away(connection, &turn, limits).await;
                    }
                    None => return Ok(()),
                };
                was_used = true;
                let accepted = match &web {
                    Some(web) if web.are_all || !head::is_call(&accepted.0) => {
                        let stall_time = limits.patience.stall_time;
                        let (request, mut respond) = accepted;
                        if head::bytes(&request) > limits.web_header_bytes_max {
                            let _ = respond.send_response(head::too_large(), true);
                            continue;
                        }
                        let streams = streams.clone();
                        (web.handle)(Exchange::new(request, respond, stall_time, streams));
                        continue;
                    }
                    _ => accepted,
                };
                let opened = open(accepted, (server, kept), shares, &streams);
                let Some(call) = opened else { continue };
                let stream_count = Arc::strong_count(&streams) - 1;
                give_window(&mut connection, &mut windows, stream_count, server);
                handle(call);
            }
            () = &mut lost => return Err(ConnectionError::Silent),
            () = tick(&mut idle) => {
                if !was_used && Arc::strong_count(&streams) == 1 {
                    connection.graceful_shutdown();
                }
                was_used = false;
            }
        }
    }
}

/// Waits for the next stream that the client opens, and meanwhile reads and writes for all streams.
/// `None` if the client has ended the connection, or pings too often.
async fn accept<S>(
    connection: &mut Http2<S>,
    turn: &Turn,
    signs: &SignsOfLife,
    acks: &mut AckTimer,
) -> Option<Result<Accepted, h2::Error>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    poll_fn(|context| {
        loop {
            return match connection.poll_accept(context) {
                Poll::Pending if signs.is_abused() => Poll::Ready(None),
                Poll::Pending if turn.on_all_taken() => continue,
                Poll::Pending => {
                    turn.pause(context, signs.has_streams(), acks);
                    Poll::Pending
                }
                accepted => accepted,
            };
        }
    })
    .await
}

/// Tells the client that it pings too often, and ends the connection.
async fn send_away<S>(
    mut connection: Http2<S>,
    turn: &Turn,
    limits: &Limits,
) -> Result<(), ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    turn.gather_no_more();
    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
    // Wait only for a short time, since the client may not read.
    let closed = poll_fn(|context| connection.poll_closed(context));
    let _ = timeout(limits.handshake_time_max, closed).await;
    Err(ConnectionError::TooManyPings)
}

/// Waits until the next check for idleness; for ever if the connection may be idle for ever.
async fn tick(idle: &mut Option<Interval>) {
    match idle {
        Some(idle) => drop(idle.tick().await),
        None => std::future::pending().await,
    }
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes)
        .max_frame_size(limits.frame_bytes_max)
        .data_frame_budget(limits.frames_overhead_bytes_max)
        .max_header_list_size(limits.header_bytes_max)
        .max_concurrent_streams(limits.streams_max)
        // A client may reset all its calls at once, before the server has accepted any.
        .max_pending_accept_reset_streams(limits.streams_max as usize)
        .max_send_buffer_size(limits.send_bytes_max);
    builder
}

/// Enlarges the connection's window by one stream's window, if the connection has more streams than
/// added windows and the face has a window left. So a stream that waits for room does not block the
/// other streams.
fn give_window<S, M>(
    connection: &mut Http2<S>,
    windows: &mut Vec<OwnedSemaphorePermit>,
    stream_count: usize,
    server: &Server<M>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if stream_count <= windows.len() {
        return;
    }
    let Ok(window) = server.windows.clone().try_acquire_owned() else { return };
    windows.push(window);
    let limits = &server.limits;
    let bytes = (windows.len() as u64) * u64::from(limits.stream_window_bytes)
        + u64::from(limits.connection_window_bytes);
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(WINDOW_BYTES_MAX);
    connection.set_target_window_size(bytes);
}

/// Makes a call of a stream. `None` if the headers of the stream are refused; the client has then
/// been sent the response that says so.
fn open<M: Copy>(
    (request, mut respond): Accepted,
    (server, kept): (&Server<M>, &KeptValues),
    shares: &SharesBySize,
    streams: &Arc<()>,
) -> Option<Box<Call<M>>> {
    let (parts, body) = request.into_parts();
    let limits = &server.limits;
    let head = match head::read(parts, &server.methods, limits, kept) {
        Ok(head) => head,
        Err(response) => {
            // Ignore an error: a client that is gone needs no answer.
            let _ = respond.send_response(*response, true);
            return None;
        }
    };
    let head::Head { method, kind, counts, metadata, deadline, content_type, is_gzip } = head;
    counts.start();
    let credits = server.credits.as_ref().map(StreamCredits::new);
    let shares = shares.clone();
    let (kind, limits) = ((kind, counts.clone()), limits.clone());
    let requests = Requests::new(kind, body, is_gzip, (shares, credits), deadline, limits.clone());
    let answers = Answers::new(respond, content_type, deadline, limits, counts);
    let _stream = streams.clone();
    Some(Box::new(Call { method, metadata, deadline, requests, answers, _stream }))
}
