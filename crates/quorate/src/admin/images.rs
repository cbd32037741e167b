//! The admin commands about snapshots. `snapshot` takes one and answers with the file
//! (`SnapshotCommand`, `StreamOutputter`); `restore` replaces the state by the snapshot in the
//! request's body (`RestoreCommand`).

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt, Either};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use node::NotInstalled;

use super::json::Json;
use super::{Answer, CommandResponse, authorization, json_answer, wrong_method};
use crate::monitor::Monitor;
use crate::monitor::images::NotTaken;

/// How many bytes of a file are read at once.
const READ_BYTES: usize = 256 * 1024;

/// How long the client may pause while it sends the body.
const BODY_SILENCE_MAX: Duration = Duration::from_secs(30);

/// How many pieces of a file may wait until the client takes them.
const PIECES_MAX: usize = 2;

/// A command about a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageCommand {
    Restore,
    Snapshot,
}

/// The commands with their names, the primary one first. Sorted by the primary names.
pub const COMMANDS: [(ImageCommand, &[&str]); 2] = [
    (ImageCommand::Restore, &["restore", "rest"]),
    (ImageCommand::Snapshot, &["snapshot", "snap"]),
];

/// Finds a command by its primary name or an alias; returns it with its primary name.
pub fn find(name: &str) -> Option<(ImageCommand, &'static str)> {
    let found = COMMANDS.iter().find(|(_, names)| names.contains(&name));
    found.map(|(command, names)| (*command, names[0]))
}

/// Runs a command, if the caller is authorized.
pub async fn run(
    monitor: &Monitor,
    (command, name): (ImageCommand, &str),
    peer: SocketAddr,
    request: Request<Incoming>,
    query: &[(String, String)],
) -> Answer {
    let wanted = match command {
        ImageCommand::Restore => Method::POST,
        ImageCommand::Snapshot => Method::GET,
    };
    if (*request.method() == Method::POST) != (wanted == Method::POST) {
        return wrong_method(name, wanted.as_str());
    }
    if let Some(refused) = authorization::refusal(monitor, peer, request.headers(), name).await {
        return refused;
    }
    match command {
        ImageCommand::Restore => restore(monitor, name, request.into_body()).await,
        ImageCommand::Snapshot => snapshot(monitor, name, query).await,
    }
}

/// Takes a snapshot and answers with the file, or only with its size if `streaming=false`.
async fn snapshot(monitor: &Monitor, name: &str, query: &[(String, String)]) -> Answer {
    let streaming = query.iter().find(|(key, _)| key == "streaming");
    let streaming = streaming.is_none_or(|(_, value)| value.eq_ignore_ascii_case("true"));
    let taken = match monitor.take_snapshot().await {
        Ok(taken) => taken,
        Err(reason) => return not_taken(name, &reason),
    };
    let (zxid, bytes) = (taken.mark.zxid.0, taken.bytes);
    let mut answer = match streaming {
        true => stream(taken.file, bytes),
        false => json_answer(CommandResponse::empty(StatusCode::OK, name)),
    };
    let zxid = HeaderValue::try_from(format!("0x{zxid:x}")).expect("a number is plain text");
    answer.headers_mut().insert("last_zxid", zxid);
    answer.headers_mut().insert("snapshot_size", HeaderValue::from(bytes));
    answer
}

/// Replaces the state by the snapshot in the body. Answers with the zxid at which this happened.
async fn restore(monitor: &Monitor, name: &str, mut body: Incoming) -> Answer {
    let restored = monitor.restore(async || next_bytes(&mut body).await).await;
    let zxid = match restored {
        Ok(zxid) => zxid,
        Err(reason) => {
            tracing::warn!("a snapshot was not restored: {reason}");
            return not_taken(name, &reason);
        }
    };
    let mut response = CommandResponse::empty(StatusCode::OK, name);
    response.data.push(("last_zxid".to_string(), Json::whole(zxid)));
    json_answer(response)
}

/// The next bytes of the body; `None` at its end. Fails if the client sends nothing for
/// [`BODY_SILENCE_MAX`].
async fn next_bytes(body: &mut Incoming) -> Option<io::Result<Bytes>> {
    loop {
        let frame = match tokio::time::timeout(BODY_SILENCE_MAX, body.frame()).await {
            Ok(None) => return None,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                return Some(Err(io::Error::other(format!("the request ended: {error}"))));
            }
            Err(_) => return Some(Err(io::Error::other("nothing came for too long"))),
        };
        // A frame without data holds trailers, which are ignored.
        if let Ok(bytes) = frame.into_data() {
            return Some(Ok(bytes));
        }
    }
}

fn not_taken(command: &str, reason: &NotTaken) -> Answer {
    let status = match reason {
        NotTaken::Disabled => StatusCode::SERVICE_UNAVAILABLE,
        NotTaken::Limited => StatusCode::TOO_MANY_REQUESTS,
        NotTaken::NotInstalled(NotInstalled::Bad(_)) => StatusCode::BAD_REQUEST,
        NotTaken::NotInstalled(NotInstalled::Refused(_)) => StatusCode::SERVICE_UNAVAILABLE,
        NotTaken::Failed(_) | NotTaken::NotInstalled(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    json_answer(CommandResponse::error(status, command, reason.to_string()))
}

/// A response whose body is the file, `bytes` long. If reading fails, the connection ends before
/// the body is complete.
fn stream(file: File, bytes: u64) -> Answer {
    let (sender, body) = Channel::new(PIECES_MAX);
    tokio::task::spawn_local(send_file(file, sender));
    let mut answer = Response::new(Either::Right(body));
    let media_type = HeaderValue::from_static("application/octet-stream");
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    answer
}

async fn send_file(mut file: File, mut sender: Sender<Bytes, io::Error>) {
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; READ_BYTES];
            let count = file.read(&mut bytes)?;
            bytes.truncate(count);
            Ok((bytes, file))
        });
        match read.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok((bytes, _)) if bytes.is_empty() => return,
            Ok((bytes, rest)) => {
                file = rest;
                if sender.send_data(bytes.into()).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::error!("a snapshot cannot be read: {error}");
                sender.abort(error);
                return;
            }
        }
    }
}
