//! Serves the streaming calls of the JSON gateway. The body of the request has JSON values, one for
//! each request; the response has a line of JSON for each response (grpc-gateway's
//! `ForwardResponseStream`). As in etcd, the end of the body, or JSON that is not a request, ends
//! only the requests: responses of watches continue until the client disconnects, and keep-alives
//! end with the answer to the last one.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;

use bytes::Bytes;
use etcd::Error;
use etcd::gateway::{self, Scanner};
use etcd::limits::JSON_BYTES_MAX_DEFAULT;
use etcd::pb::Message;
use grpc::{Deadline, Room};
use grpc_code::Code;
use http_body_util::BodyExt;
use member::fronts::etcd::{EtcdMethod, WatchMessages};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;
use tokio::time::Instant;

use super::answer::{LATE, Lines, Roomy};
use super::backup::{self, Download};
use super::backup_file::Backups;
use super::body::{RequestBody, next_frame};
use super::client::CallingClient;
use super::concurrency::Observer;
use super::large::LargeJson;
use super::limits::{BODY_TIMES, JSON_TIMES, STALL_TIME_MAX};
use super::runtime::{ConnectionShares, FromWatch, WatchCall};

/// The error at the end of a backup whose client took it too slowly.
const UNREAD: &str = "the client takes its backup too slowly";

/// Begins a stream of watches. Its task ends when the client disconnects, which drops the
/// response's body.
pub(super) fn watch(
    client: &CallingClient,
    shares: &ConnectionShares,
    method: &'static gateway::GatewayMethod,
    body: RequestBody,
) -> Lines {
    // The channel has space for one line, so the next one is made after hyper has taken this one.
    let (lines, body_of_response) = mpsc::channel(1);
    let (watch, deadline) = (client.open_watch(client.requires_leader), client.deadline);
    let requests = Requests::new(method, body, shares);
    let (shares, is_whole) = (shares.clone(), Rc::new(Cell::new(true)));
    let body_of_response = Lines::of_one(body_of_response, is_whole.clone());
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = serve_watch(&watch, method, requests, &shares, (&lines, &is_whole)) => {}
            () = end_late(deadline, &lines) => {}
        }
    });
    body_of_response
}

/// Begins a stream of keep-alives. Each is answered before the next is read.
pub(super) fn keep_alive(
    client: &CallingClient,
    shares: &ConnectionShares,
    method: &'static gateway::GatewayMethod,
    body: RequestBody,
) -> Lines {
    let mut requests = Requests::new(method, body, shares);
    let (caller, shares) = (client.clone(), shares.clone());
    begin(client, async move |lines| {
        serve_keep_alive(&caller, method, &mut requests, &shares, lines).await;
    })
}

/// Begins a stream that follows an election.
pub(super) fn observe(
    client: &CallingClient,
    shares: &ConnectionShares,
    method: &'static gateway::GatewayMethod,
    observer: Observer,
) -> Lines {
    let shares = shares.clone();
    begin(client, async move |lines| serve_observer(method, observer, &shares, lines).await)
}

/// Begins the stream of a backup.
pub(super) fn download(
    client: &CallingClient,
    shares: &ConnectionShares,
    method: &'static gateway::GatewayMethod,
    backup: Download,
) -> Lines {
    let shares = shares.clone();
    let member = client.runtime.member.clone();
    begin(client, async move |lines| {
        serve_download(method, (backup, &member.backups), &shares, lines).await;
    })
}

/// Begins a stream. It ends when the client disconnects, when its deadline passes, or when a leader
/// is missing that the client requires.
fn begin(client: &CallingClient, serve: impl AsyncFnOnce(&mpsc::Sender<Bytes>) + 'static) -> Lines {
    let (lines, body_of_response) = mpsc::channel(1);
    let client = client.clone();
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = lines.closed() => {}
            () = serve(&lines) => {}
            () = end_without_leader(&client, &lines) => {}
            () = end_late(client.deadline, &lines) => {}
        }
    });
    Lines::of_stream(body_of_response)
}

async fn serve_download(
    method: &gateway::GatewayMethod,
    (mut backup, backups): (Download, &Backups),
    shares: &ConnectionShares,
    lines: &mpsc::Sender<Bytes>,
) {
    let why = loop {
        let responses = match backup.next().await {
            Ok(Some(responses)) => responses,
            Ok(None) => return,
            Err(why) => break why.code_and_text(),
        };
        let send = async {
            for response in responses {
                let write = |out: &mut Vec<u8>| backup::write(&response, out);
                let line = line_of(method, response.encoded_len(), write, shares).await;
                lines.send(line).await?;
            }
            Ok::<(), SendError<Bytes>>(())
        };
        tokio::select! {
            sent = send => if sent.is_err() { return },
            () = backups.overdue() => break (Code::Cancelled, UNREAD.to_string()),
        }
    };
    // Frees the backup's permit for others while this client takes the error.
    drop(backup);
    let _ = lines.send(gateway::streamed_error(why.0, &why.1).into()).await;
}

async fn serve_observer(
    method: &gateway::GatewayMethod,
    mut observer: Observer,
    shares: &ConnectionShares,
    lines: &mpsc::Sender<Bytes>,
) {
    loop {
        let line = match observer.next().await {
            Ok(response) => {
                let write = |out: &mut Vec<u8>| out.extend_from_slice(&response);
                line_of(method, response.len(), write, shares).await
            }
            Err(status) => {
                let line = gateway::streamed_error(Code::Unknown, &status.message);
                let _ = lines.send(line.into()).await;
                return;
            }
        };
        if lines.send(line).await.is_err() {
            return;
        }
    }
}

/// Waits until this member has had no leader for long, and sends the client the error, if it
/// requires a leader. Never returns for other clients.
async fn end_without_leader(client: &CallingClient, lines: &mpsc::Sender<Bytes>) {
    if !client.requires_leader {
        return pending().await;
    }
    client.runtime.leaderless().await;
    let (code, text) = (Error::NoLeader.code(), Error::NoLeader.text());
    let _ = lines.send(gateway::streamed_error(code, text).into()).await;
}

/// Waits until the deadline of a stream has passed, and sends the error.
async fn end_late(deadline: Deadline, lines: &mpsc::Sender<Bytes>) {
    if deadline.bound(pending::<()>()).await.is_err() {
        let line = gateway::streamed_error(Code::DeadlineExceeded, LATE);
        let _ = lines.send(line.into()).await;
    }
}

/// The line for a response of `bytes` bytes, with the memory counted for it. The response is
/// encoded once that memory is available.
async fn line_of(
    method: &gateway::GatewayMethod,
    bytes: usize,
    write: impl FnOnce(&mut Vec<u8>),
    shares: &ConnectionShares,
) -> Bytes {
    let mut room = Room::new(shares.answers.of(bytes * JSON_TIMES));
    room.grow_to(bytes * JSON_TIMES).await;
    let mut message = Vec::with_capacity(bytes);
    write(&mut message);
    let text = method.streamed_response(&message).expect("it is our own message");
    room.shrink_to(text.capacity());
    Bytes::from_owner(Roomy { text: text.into_bytes(), _room: room })
}

async fn serve_keep_alive(
    client: &CallingClient,
    method: &gateway::GatewayMethod,
    requests: &mut Requests,
    shares: &ConnectionShares,
    lines: &mpsc::Sender<Bytes>,
) {
    while let Some(request) = requests.next_or_end().await {
        let line = match client.run(EtcdMethod::LeaseKeepAlive, request).await {
            Ok(reply) => line_of(method, reply.bytes(), |out| reply.write(out), shares).await,
            Err(refused) => {
                let (code, text) = refused.code_and_text();
                let _ = lines.send(gateway::streamed_error(code, text).into()).await;
                return;
            }
        };
        if lines.send(line).await.is_err() {
            return;
        }
    }
}

/// Sends messages, each as a line, and returns whether all were sent. Sets `is_whole` to false
/// while a line is sent in pieces, so that an end of the stream then counts as cut off.
async fn send_messages(
    method: &gateway::GatewayMethod,
    messages: WatchMessages,
    shares: &ConnectionShares,
    (lines, is_whole): (&mpsc::Sender<Bytes>, &Cell<bool>),
) -> bool {
    let messages = match messages.into_pieces() {
        Ok(mut pieces) => {
            let bytes = pieces.bytes();
            let write = Box::new(move |out: &mut Vec<u8>| pieces.write(out));
            let json = match LargeJson::of_stream(method, bytes, write) {
                Ok(json) => json,
                Err(too_long) => {
                    let code = Code::ResourceExhausted;
                    let line = gateway::streamed_error(code, &too_long.message);
                    let _ = lines.send(line.into()).await;
                    return false;
                }
            };
            let room = json.room(shares).await;
            is_whole.set(false);
            let is_sent = json.send(room, lines).await;
            is_whole.set(is_sent);
            return is_sent;
        }
        Err(messages) => messages,
    };
    for message in messages.iter() {
        let write = |out: &mut Vec<u8>| message.write(out);
        let line = line_of(method, message.bytes(), write, shares).await;
        if lines.send(line).await.is_err() {
            return false;
        }
    }
    true
}

async fn serve_watch(
    watch: &WatchCall,
    method: &gateway::GatewayMethod,
    mut requests: Requests,
    shares: &ConnectionShares,
    (lines, is_whole): (&mpsc::Sender<Bytes>, &Cell<bool>),
) {
    loop {
        let from_front = tokio::select! {
            biased;
            () = lines.closed() => return,
            from_front = watch.next() => from_front,
            request = requests.next(), if watch.accepts() => {
                watch.request(request);
                continue;
            }
        };
        match from_front {
            FromWatch::Accepts => {}
            FromWatch::Messages(messages) => {
                if !send_messages(method, messages, shares, (lines, is_whole)).await {
                    return;
                }
                watch.taken();
            }
            FromWatch::Ended(refused) => {
                let (code, text) = refused.code_and_text();
                let _ = lines.send(gateway::streamed_error(code, text).into()).await;
                return;
            }
        }
    }
}

/// Reads the requests of a stream from the body.
struct Requests {
    method: &'static gateway::GatewayMethod,
    /// `None` once no more requests can come.
    body: Option<RequestBody>,
    scanner: Scanner,
    /// Bytes of the body. The first `taken_bytes` were returned as requests; the scanner has seen
    /// the first `seen_bytes`.
    bytes: Vec<u8>,
    taken_bytes: usize,
    seen_bytes: usize,
    /// When the request that has begun to arrive must be complete.
    due_at: Option<Instant>,
    room: Room,
}

impl Requests {
    fn new(
        method: &'static gateway::GatewayMethod,
        body: RequestBody,
        shares: &ConnectionShares,
    ) -> Requests {
        Requests {
            method,
            body: Some(body),
            scanner: Scanner::default(),
            bytes: Vec::new(),
            taken_bytes: 0,
            seen_bytes: 0,
            due_at: None,
            room: Room::new(shares.requests.of(usize::MAX)),
        }
    }

    /// The message of the next request. Never returns once no more come. A caller may drop the
    /// future and call this again.
    async fn next(&mut self) -> Bytes {
        match self.next_or_end().await {
            Some(message) => message,
            None => pending().await,
        }
    }

    /// The message of the next request; `None` once no more come.
    async fn next_or_end(&mut self) -> Option<Bytes> {
        loop {
            self.room.grow_to(self.bytes.len() * BODY_TIMES).await;
            match self.take() {
                Ok(Some(message)) => return Some(message.into()),
                Ok(None) if self.receive().await.is_some() => {}
                // The body has ended, or holds something that is not a request.
                _ => {
                    (self.body, self.bytes) = (None, Vec::new());
                    (self.taken_bytes, self.seen_bytes) = (0, 0);
                    return None;
                }
            }
        }
    }

    /// The next request, if it has arrived completely.
    fn take(&mut self) -> Result<Option<Vec<u8>>, gateway::BadJson> {
        let Some(length) = self.scanner.scan(&self.bytes[self.seen_bytes..])? else {
            self.seen_bytes = self.bytes.len();
            return Ok(None);
        };
        let end = self.seen_bytes + length;
        let message = self.method.streamed_request(&self.bytes[self.taken_bytes..end])?;
        (self.taken_bytes, self.seen_bytes) = (end, end);
        // Moving the remaining bytes for each of many small requests would take long, so it is done
        // only once at least half is taken.
        if self.taken_bytes * 2 >= self.bytes.len() {
            self.bytes.drain(..end);
            (self.taken_bytes, self.seen_bytes) = (0, 0);
        }
        self.due_at = None;
        self.room.shrink_to(self.bytes.len() * BODY_TIMES);
        Ok(Some(message))
    }

    /// Receives the next bytes of the body. `None` at its end, at an error, or if the request is
    /// longer than the limit.
    async fn receive(&mut self) -> Option<()> {
        let body = self.body.as_mut()?;
        let frame = match self.due_at {
            // Between two requests a client may pause for ever.
            None => body.frame().await?.ok()?,
            Some(due_at) => next_frame(body, &self.room, due_at).await??,
        };
        let data = frame.into_data().unwrap_or_default();
        self.bytes.extend_from_slice(&data);
        self.due_at.get_or_insert_with(|| Instant::now() + STALL_TIME_MAX);
        (self.bytes.len() - self.taken_bytes <= JSON_BYTES_MAX_DEFAULT).then_some(())
    }
}
