//! Answers four-letter words on ZooKeeper's ports while the server does not serve yet. A member of
//! an ensemble may wait for other members without limit, and an operator who asks meanwhile whether
//! the member is alive gets the answer that ZooKeeper gives at that stage. All other connections,
//! and all connections to a TLS port, are closed, so that their clients try the next server
//! (`NIOServerCnxn.readConnectRequest`: "ZooKeeperServer not running").

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use zk::four_letter::{self, ConfReport};

/// How many connections may be open at the same time; a further one is closed without being read.
const CONNECTIONS_MAX: usize = 256;

/// How long a client may take to send its word and to close after the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many bytes a client may send behind its word before its connection is closed.
const REST_BYTES_MAX: u64 = 1_024;

/// How long to wait before the next attempt, if a connection could not be accepted.
const RETRY: Duration = Duration::from_millis(100);

/// The texts and settings that the answers are made from.
pub struct Answers {
    /// The four-letter words that may be executed; `*` allows all.
    pub words_allowed: Vec<String>,
    /// The name and version of the server.
    pub version: String,
    pub conf: ConfReport,
}

impl Answers {
    /// The answer to the first four bytes of a connection; `None` if they are not a four-letter
    /// word.
    fn to(&self, first: [u8; 4]) -> Option<String> {
        let word = four_letter::recognise(first)?;
        let is_allowed =
            |allowed: &String| allowed == "*" || allowed.as_bytes() == word.name().as_bytes();
        if !self.words_allowed.iter().any(is_allowed) {
            return Some(four_letter::not_allowed(word));
        }
        Some(four_letter::while_not_serving(word, &self.version, &self.conf))
    }
}

/// Answers on a port until the future is dropped. `is_plain` is false for a TLS port, where
/// connections are closed without an answer.
pub async fn answer(listener: Option<&TcpListener>, is_plain: bool, answers: Arc<Answers>) {
    let Some(listener) = listener else { return std::future::pending().await };
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let Ok(turn) = room.clone().try_acquire_owned() else { continue };
        let answers = answers.clone();
        if is_plain {
            tokio::spawn(async move {
                // A client that takes longer is disconnected.
                let _ = tokio::time::timeout(PATIENCE, converse(stream, &answers)).await;
                drop(turn);
            });
        }
    }
}

async fn converse(mut stream: TcpStream, answers: &Answers) -> std::io::Result<()> {
    let mut first = [0; 4];
    stream.read_exact(&mut first).await?;
    let Some(text) = answers.to(first) else { return Ok(()) };
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await?;
    // Reads what the client still sends: closing a socket with unread bytes would reset the
    // connection, and the answer might be lost.
    let mut rest = stream.take(REST_BYTES_MAX);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
