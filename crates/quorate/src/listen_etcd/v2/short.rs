//! Serves short etcd v2 requests for keys over HTTP/1.1 without the HTTP library, hyper, because
//! hyper's part of such a request costs more than all the rest.
//!
//! ```text
//! bytes -> httparse -> etcd::v2 (a request) -> keys::run -> one write
//! ```
//!
//! A request is short if it arrives completely within a few reads and has no special feature;
//! [`find`] lists the conditions. At the first request that is not short, hyper takes over the
//! connection, with the bytes already read, and keeps it. Both send the same headers.

use std::io;
use std::mem::MaybeUninit;
use std::rc::Rc;

use config::etcd::EtcdService;
use etcd::v2::{self, Ask, Failure, Request, Verb};
use grpc::Room;
use httparse::Status;
use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::super::answer::Lines;
use super::super::client::Site;
use super::super::http_head::Date;
use super::super::limits::{
    SHORT_BYTES_MAX, SHORT_HEADERS_MAX, SHORT_READ_BYTES, SHORT_READS_MAX, STALL_TIME_MAX,
};
use super::super::runtime::{ConnectionShares, Runtime};
use super::keys::{self, Asked, KeysAnswer, KeysBody, KeysHead};
use super::{is_form_type, not_read, parameters};

/// The fate of a connection after its short requests.
pub(in super::super) enum Next {
    /// The connection is over.
    Over,
    /// The HTTP library takes over the connection. These bytes were already read from the
    /// connection.
    Library(Vec<u8>),
}

/// Answers the short requests of a connection, up to the first request that is not short.
///
/// # Errors
/// The connection breaks.
pub(in super::super) async fn serve<S>(
    socket: &mut S,
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    site: &Site,
) -> io::Result<Next>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut read, mut out) = (Vec::new(), Vec::new());
    let is_served = matches!(site.service, EtcdService::All | EtcdService::Http);
    let Some(common) = runtime.member.short_headers.as_deref() else {
        return Ok(Next::Library(read));
    };
    if !is_served || site.certificate.is_some() {
        return Ok(Next::Library(read));
    }
    // As in etcd, a client may pause for any time between two requests; only the first one has a
    // deadline.
    let mut due_at = Some(Instant::now() + STALL_TIME_MAX);
    loop {
        let Short { method, request, bytes } = match next(socket, &mut read, due_at.take()).await? {
            Some(Found::Short(short)) => short,
            Some(_) => return Ok(Next::Library(read)),
            None => return Ok(Next::Over),
        };
        read.drain(..bytes);
        let out_for = (common, &mut out);
        let rest = match request {
            Ok(request) => answer(runtime, (shares, site), (method, request), out_for).await,
            Err(failure) => put_answer(runtime, keys::failed(&failure), out_for),
        };
        socket.write_all(&out).await?;
        let is_whole = match rest {
            None => true,
            Some(KeysBody::Whole(body)) => socket.write_all(&body).await.map(|()| true)?,
            Some(KeysBody::Lines(lines)) => send_chunks(socket, lines).await?,
        };
        if !is_whole {
            return Ok(Next::Over);
        }
        socket.flush().await?;
        out.clear();
        [&mut read, &mut out].into_iter().for_each(|buffer| buffer.shrink_to(SHORT_READ_BYTES));
    }
}

/// Runs a request, and appends its answer to `out`. Returns a body that is too long for that; see
/// [`put_answer`].
async fn answer(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    (method, request): (&str, Request),
    (common, out): (&str, &mut Vec<u8>),
) -> Option<KeysBody> {
    let asked = Asked::of(&request);
    let result = {
        let Some(_room) = room_of(shares, &request).await else {
            return put_answer(runtime, keys::failed(&not_read(runtime)), (common, out));
        };
        keys::run(runtime, site, (method, request), &asked).await
    };
    // Most answers are small. They are made in a buffer of the runtime and need no room of their
    // own.
    {
        let (text, now_ms) = (&mut *runtime.text.borrow_mut(), node::wall_ms());
        text.clear();
        if let Some(head) = keys::small(runtime, &asked, &result, (SHORT_BYTES_MAX, now_ms), text) {
            put_head(&head, Some(text.len()), common, (&runtime.date, now_ms), out);
            out.extend_from_slice(text);
            return None;
        }
    }
    let answer = keys::answer_with(runtime, shares, &asked, result).await;
    put_answer(runtime, answer, (common, out))
}

/// Waits for the memory that is counted for a request; `None` if there is none within
/// [`STALL_TIME_MAX`].
async fn room_of(shares: &ConnectionShares, request: &Request) -> Option<Room> {
    let bytes = if matches!(request.ask, Ask::Write(_)) { request.bytes() } else { 0 };
    let mut room = Room::new(shares.requests.of(bytes));
    let has_room =
        room.try_grow_to(bytes) || timeout(STALL_TIME_MAX, room.grow_to(bytes)).await.is_ok();
    has_room.then_some(room)
}

/// Appends the head of an answer, and its body if that is short; else returns the body, to be sent
/// next. `common` has the header lines of every answer.
fn put_answer(
    runtime: &Runtime,
    answer: KeysAnswer,
    (common, out): (&str, &mut Vec<u8>),
) -> Option<KeysBody> {
    let KeysAnswer { head, body } = answer;
    let bytes = match &body {
        KeysBody::Whole(body) => Some(body.len()),
        KeysBody::Lines(_) => None,
    };
    put_head(&head, bytes, common, (&runtime.date, node::wall_ms()), out);
    match body {
        KeysBody::Whole(body) if body.len() <= SHORT_BYTES_MAX => {
            out.extend_from_slice(&body);
            None
        }
        rest => Some(rest),
    }
}

/// The kind of request that some bytes begin with.
enum Found {
    /// A complete short request.
    Short(Short),
    /// The beginning of what may be a short request.
    Partial,
    /// Something that the HTTP library must read.
    Other,
}

/// A short request.
struct Short {
    method: &'static str,
    /// The request, or why it is refused.
    request: Result<Request, Failure>,
    /// The length of the request, head and body, in bytes.
    bytes: usize,
}

/// Reads until the next request is complete, or until it is certain that the HTTP library must read
/// it. `None` if the client is gone, or takes too long: past `due_at`, or [`STALL_TIME_MAX`] from
/// the first byte on.
async fn next<S>(
    socket: &mut S,
    read: &mut Vec<u8>,
    mut due_at: Option<Instant>,
) -> io::Result<Option<Found>>
where
    S: AsyncRead + Unpin,
{
    for _ in 0..SHORT_READS_MAX {
        if !read.is_empty() {
            match find(read) {
                Found::Partial if read.len() < SHORT_BYTES_MAX => {}
                found => return Ok(Some(found)),
            }
            due_at.get_or_insert_with(|| Instant::now() + STALL_TIME_MAX);
        }
        read.reserve(SHORT_READ_BYTES);
        let count = match due_at {
            None => socket.read_buf(read).await?,
            Some(due_at) => match timeout_at(due_at, socket.read_buf(read)).await {
                Ok(count) => count?,
                Err(_) => return Ok(None),
            },
        };
        if count == 0 {
            return Ok(None);
        }
    }
    Ok(Some(Found::Partial))
}

/// Looks for a short request at the beginning of `read`: a GET, PUT, POST or DELETE over HTTP/1.1,
/// for the path of a key in its shortest form without escapes; not a wait; with a short form or no
/// body; from a client that names no user; and with no header that affects the connection.
fn find(read: &[u8]) -> Found {
    let mut headers = [const { MaybeUninit::uninit() }; SHORT_HEADERS_MAX];
    let mut head = httparse::Request::new(&mut []);
    let head_bytes = match head.parse_with_uninit_headers(read, &mut headers) {
        Ok(Status::Complete(bytes)) => bytes,
        Ok(Status::Partial) => return Found::Partial,
        Err(_) => return Found::Other,
    };
    let (Some(method), Some(target), Some(1)) = (head.method, head.path, head.version) else {
        return Found::Other;
    };
    let Some(method) = ["GET", "PUT", "POST", "DELETE"].into_iter().find(|it| *it == method) else {
        return Found::Other;
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = path.strip_prefix(v2::KEYS).filter(|it| it.is_empty() || it.starts_with('/'));
    let (Some(key), Some(verb)) = (key, Verb::of(method)) else { return Found::Other };
    let is_usual = v2::is_plain(path) && target.bytes().all(is_usual_in_target);
    let Some(about) = AboutBody::of(head.headers).filter(|_| is_usual) else { return Found::Other };
    let bytes = head_bytes.saturating_add(about.bytes);
    if bytes > SHORT_BYTES_MAX || (about.bytes > 0 && !verb.has_form()) {
        return Found::Other;
    }
    let Some(body) = read.get(head_bytes..bytes) else { return Found::Partial };
    let form = if about.is_form { body } else { &[] };
    let request = parameters(form, query).and_then(|form| Request::new(verb, key, form));
    match &request {
        Ok(Request { ask: Ask::Wait(_), .. }) => Found::Other,
        _ => Found::Short(Short { method, request, bytes }),
    }
}

/// Whether the HTTP library takes this byte of a request target as it is.
fn is_usual_in_target(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-._~:@!$&'()*+,=;?%".contains(&byte)
}

/// The headers' statements about the body of a request.
#[derive(Default)]
struct AboutBody {
    bytes: usize,
    is_form: bool,
}

impl AboutBody {
    /// Reads the headers; `None` if one of them needs the HTTP library.
    fn of(headers: &[httparse::Header<'_>]) -> Option<AboutBody> {
        let mut about = AboutBody::default();
        let (mut has_length, mut has_type) = (false, false);
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let is_number = header.value.iter().all(u8::is_ascii_digit);
                let text =
                    str::from_utf8(header.value).ok().filter(|_| is_number && !has_length)?;
                about.bytes = text.parse().ok()?;
                has_length = true;
            } else if is("content-type") {
                if has_type {
                    return None;
                }
                about.is_form = is_form_type(header.value);
                has_type = true;
            } else if is("connection") {
                if !header.value.eq_ignore_ascii_case(b"keep-alive") {
                    return None;
                }
            } else if OF_THE_LIBRARY.iter().any(|name| is(name)) {
                return None;
            }
        }
        Some(about)
    }
}

/// Headers that only the HTTP library, or the code behind it, handles.
const OF_THE_LIBRARY: [&str; 6] =
    ["authorization", "transfer-encoding", "expect", "upgrade", "te", "trailer"];

/// Appends the head of an answer, as the HTTP library writes it. `bytes` is the length of the body;
/// `None` if it is not known yet.
fn put_head(
    head: &KeysHead,
    bytes: Option<usize>,
    common: &str,
    (date, now_ms): (&Date, i64),
    out: &mut Vec<u8>,
) {
    let status = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_REQUEST);
    put_texts(&["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason().unwrap_or("")], out);
    put_texts(&["\r\nContent-Type: ", v2::CONTENT_TYPE], out);
    put_number("X-Etcd-Index", head.index, out);
    if let Some((raft_index, raft_term)) = head.raft {
        put_number("X-Raft-Index", raft_index, out);
        put_number("X-Raft-Term", raft_term, out);
    }
    put_texts(&["\r\n", common], out);
    match bytes {
        Some(bytes) => {
            put_texts(&["Content-Length: "], out);
            put_decimal(bytes as u64, out);
        }
        None => put_texts(&["Transfer-Encoding: chunked"], out),
    }
    put_texts(&["\r\nDate: "], out);
    date.put(now_ms, out);
    put_texts(&["\r\n\r\n"], out);
}

fn put_texts(texts: &[&str], out: &mut Vec<u8>) {
    texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
}

fn put_number(name: &str, number: u64, out: &mut Vec<u8>) {
    put_texts(&["\r\n", name, ": "], out);
    put_decimal(number, out);
}

fn put_decimal(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Sends the parts of an answer as chunks (RFC 9112, 7.1). False if the answer ended before it was
/// complete.
async fn send_chunks<S>(socket: &mut S, mut lines: Lines) -> io::Result<bool>
where
    S: AsyncWrite + Unpin,
{
    while let Some(line) = lines.next().await {
        // An empty chunk would mean the end.
        if line.is_empty() {
            continue;
        }
        socket.write_all(format!("{:x}\r\n", line.len()).as_bytes()).await?;
        socket.write_all(&line).await?;
        socket.write_all(b"\r\n").await?;
    }
    if lines.is_cut_off() {
        return Ok(false);
    }
    socket.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}

#[cfg(test)]
mod tests;
