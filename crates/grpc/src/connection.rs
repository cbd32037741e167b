//! One connection: HTTP/2 over a socket. Its task only reads, writes and hands calls to tasks of
//! their own, so pings, resets and windows never wait for a handler.

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

/// The largest window that HTTP/2 has.
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// The state that all connections of a face share.
pub struct Server<M> {
    /// The methods of the face.
    pub methods: Methods<M>,
    /// The limits of the face.
    pub limits: Arc<Limits>,
    /// Flow-control windows of streams that connections may still get, beside the first window of
    /// each connection. When none is left, a new stream shares the windows of its connection.
    pub windows: Arc<Semaphore>,
    /// The places for clients that send headers too long to be waited for as a whole. The
    /// connection of a client that finds none ends.
    pub long_headers: Arc<Semaphore>,
    /// Bytes of large headers that calls may still keep.
    pub metadata_bytes: Arc<Semaphore>,
    /// The credits for requests; none for a face that counts bytes only.
    pub credits: Option<Arc<Credits>>,
}

/// The library's connection over a socket.
type Http2<S> = Connection<GatheringSocket<S>, Piece>;

/// A stream that a client has opened.
type Accepted = (Request<RecvStream>, SendResponse<Piece>);

/// The requests of a connection that are no calls of gRPC.
pub struct Web<H> {
    /// Whether all requests are such, also those that look like calls.
    pub are_all: bool,
    /// Called for each, starts a task that serves it.
    pub handle: H,
}

/// Why a connection ended other than by its client's will.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The client does not speak HTTP/2, or the connection broke.
    #[error(transparent)]
    Http2(#[from] h2::Error),
    /// The first bytes did not come in time.
    #[error("the handshake of HTTP/2 took too long")]
    Late(#[from] tokio::time::error::Elapsed),
    /// The client did not answer pings.
    #[error("the client gives no sign of life")]
    Silent,
    /// The client sent more pings than it may.
    #[error("the client pings too often")]
    TooManyPings,
}

/// Serves a connection until it ends. `handle` is called for each call, and starts a task that
/// serves it. Room for requests is taken from `shares`.
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

/// As [`serve`], with requests that are no calls of gRPC, and values that these may keep, too.
///
/// # Errors
/// As for [`serve`].
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
    // Each stream holds one reference.
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

/// Waits for the next stream of a client; `None` if the client has ended the connection, or pings
/// too often. Reads and writes for all streams meanwhile.
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

/// Tells a client that it pings too often, and ends its connection.
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
    // A client that does not read is not waited for.
    let closed = poll_fn(|context| connection.poll_closed(context));
    let _ = timeout(limits.handshake_time_max, closed).await;
    Err(ConnectionError::TooManyPings)
}

/// Waits until the next idle check; for ever if the connection may be idle for ever.
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
        // A client may reset all its calls at once, before any was accepted here.
        .max_pending_accept_reset_streams(limits.streams_max as usize)
        .max_send_buffer_size(limits.send_bytes_max);
    builder
}

/// Gives the connection one window more if it has more streams than windows, so that a stream that
/// waits for room does not block the other streams.
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

/// Opens the call of a stream. `None` if its headers are refused; the client gets the refusal.
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
            // A client that is gone needs no answer.
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
