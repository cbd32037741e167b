//! What is answered on the client ports before there is anything to serve: a member of an ensemble
//! waits for others as long as it takes, and whoever asks meanwhile whether it is alive is to be
//! told so. Four- letter words are answered as ZooKeeper answers them then; any other connection is
//! closed, and its client tries the next server (`NIOServerCnxn.readConnectRequest`:
//! "ZooKeeperServer not running").

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use zk::four_letter::{self, ConfReport};

/// Connections that may be open at once; one more is closed without being read.
const CONNECTIONS_MAX: usize = 256;

/// How long one may take to say what it wants, and to notice that it was answered.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes that a client may send behind a word before it is hung up on.
const REST_BYTES_MAX: u64 = 1_024;

/// Pause after a connection that could not be accepted.
const RETRY: Duration = Duration::from_millis(100);

/// What the answers are made of.
pub struct Answers {
    /// The words that may be executed; `*` is all.
    pub words_allowed: Vec<String>,
    /// Name and version.
    pub version: String,
    pub conf: ConfReport,
}

impl Answers {
    /// What is said to the first bytes of a connection; none: nothing.
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

/// Answers on a port until the task is dropped. `is_plain` is false where TLS is spoken: all that
/// is heard there is that nothing is served.
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
                // Who is slower than that is hung up on.
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
    // Closed with something unread, the connection would be reset, and the answer might be lost.
    let mut rest = stream.take(REST_BYTES_MAX);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
