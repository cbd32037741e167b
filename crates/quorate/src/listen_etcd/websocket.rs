//! Carries the streaming calls of the JSON gateway over WebSocket (RFC 6455), as etcd does
//! (`grpc-websocket-proxy`): watches and keep-alives. What a client sends becomes the body of the
//! request; each line of the response becomes a text message. A line that is made in parts becomes
//! a message of several frames.
//!
//! Payload is passed on as it arrives, a piece for each read, so a message needs no more memory
//! here than in the stream that reads it. Pings are answered. A client that violates the protocol
//! is disconnected with the corresponding close code.

mod frames;

use std::convert::Infallible;
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::Either;
use http_body_util::channel::{Channel, Sender};
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use hyper::upgrade::OnUpgrade;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::mpsc;

use super::answer::{Answer, Lines};
use super::body::RequestBody;
use crate::connections::Held;
use frames::{CloseCode, Control, Parser, Piece, head, head_of_part};

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");

/// The constant that is hashed with the client's key (RFC 6455, 1.3).
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// How many bytes are read at once.
const READ_BYTES: usize = 16 * 1024;

/// How many answers to pings may wait for the socket. At this limit nothing more is read.
const CONTROLS_MAX: usize = 8;

/// The key of a client that asks for WebSocket; `None` if the request does not.
pub(super) fn key_of(headers: &HeaderMap) -> Option<&HeaderValue> {
    let names = |header, token: &str| {
        let values = headers.get_all(header).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|it| it.trim().eq_ignore_ascii_case(token))
    };
    let asks = names(CONNECTION, "upgrade")
        && names(UPGRADE, "websocket")
        && headers.get(VERSION).is_some_and(|version| version == "13");
    headers.get(KEY).filter(|_| asks)
}

/// The response that accepts WebSocket. If the client sent a token in the protocol header, it also
/// accepts the protocol `Bearer`; see [`super::client::CallingClient::from_upgrade`].
pub(super) fn agree(key: &HeaderValue, asked: &HeaderMap) -> Answer {
    let digest = Sha1::new().chain_update(key.as_bytes()).chain_update(MAGIC).finalize();
    let accept = STANDARD.encode(digest);
    let mut answer = Response::new(Either::Left(<_>::default()));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(ACCEPT, HeaderValue::try_from(accept).expect("base64 is visible ASCII"));
    let protocol = asked.get(SEC_WEBSOCKET_PROTOCOL);
    if protocol.is_some_and(|protocol| protocol.as_bytes().starts_with(b"Bearer")) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("Bearer"));
    }
    answer
}

/// Begins a stream once the connection has switched to WebSocket. `begin` gets the body of the
/// request and returns the lines of the response.
pub(super) fn serve(
    upgrade: OnUpgrade,
    held: Rc<Held>,
    begin: impl FnOnce(RequestBody) -> Lines + 'static,
) {
    tokio::task::spawn_local(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let (sender, body) = Channel::<Bytes, Infallible>::new(1);
        let lines = begin(Either::Right(body));
        // If this fails, the client is gone.
        let _ = run(TokioIo::new(upgraded), sender, lines).await;
        drop(held);
    });
}

/// Transfers data in both directions until one side ends, then sends a close frame.
async fn run<S>(
    socket: S,
    sender: Sender<Bytes, Infallible>,
    mut lines: Lines,
) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite,
{
    let (mut read, mut write) = split(socket);
    let (controls, mut answers) = mpsc::channel(CONTROLS_MAX);
    let mut is_between_frames = true;
    let code = tokio::select! {
        code = take_frames(&mut read, sender, &controls) => code,
        code = send_lines(&mut write, &mut lines, &mut answers, &mut is_between_frames) => code?,
    };
    if is_between_frames {
        let body = code.number().to_be_bytes();
        write.write_all(&head(Control::CLOSE, body.len())).await?;
        write.write_all(&body).await?;
        write.shutdown().await?;
    }
    Ok(())
}

/// Reads frames until the client ends the connection or violates the protocol. Returns the code for
/// our close frame.
async fn take_frames(
    read: &mut (impl AsyncRead + Unpin),
    mut sender: Sender<Bytes, Infallible>,
    controls: &mpsc::Sender<Bytes>,
) -> CloseCode {
    let (mut buffer, mut parser) = (BytesMut::with_capacity(READ_BYTES), Parser::default());
    loop {
        let piece = match parser.next(&mut buffer) {
            Ok(Some(piece)) => piece,
            Ok(None) => {
                buffer.reserve(READ_BYTES);
                match read.read_buf(&mut buffer).await {
                    Ok(0) | Err(_) => return CloseCode::Normal,
                    Ok(_) => continue,
                }
            }
            Err(code) => return code,
        };
        let is_taken = match piece {
            Piece::Data(bytes) => sender.send_data(bytes).await.is_ok(),
            Piece::Ping(body) => controls.send(body).await.is_ok(),
            Piece::Close => return CloseCode::Normal,
        };
        if !is_taken {
            // The stream reads no more requests; its responses may continue.
            std::future::pending::<()>().await;
        }
    }
}

/// Sends the lines of the response, and answers to pings, until the stream ends.
/// `is_between_frames` is false while a frame is partly sent.
async fn send_lines(
    write: &mut (impl AsyncWrite + Unpin),
    lines: &mut Lines,
    answers: &mut mpsc::Receiver<Bytes>,
    is_between_frames: &mut bool,
) -> std::io::Result<CloseCode> {
    // A long line comes in parts. Only the last part ends with a line end.
    let mut is_within_line = false;
    loop {
        let (opcode, body) = tokio::select! {
            Some(body) = answers.recv() => (Control::PONG, body),
            line = lines.next() => match line {
                Some(line) if is_within_line => (Control::CONTINUATION, line),
                Some(line) => (Control::TEXT, line),
                None => return Ok(CloseCode::Normal),
            },
        };
        let is_line_end = body.ends_with(b"\n");
        let (length, is_last) = match opcode {
            Control::PONG => (body.len(), true),
            _ => (body.len() - usize::from(is_line_end), is_line_end),
        };
        is_within_line = if opcode == Control::PONG { is_within_line } else { !is_last };
        *is_between_frames = false;
        let head = head_of_part(opcode, length, is_last);
        write.write_all_buf(&mut head.chain(body.take(length))).await?;
        write.flush().await?;
        *is_between_frames = true;
    }
}
