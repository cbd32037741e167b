//! Asks a server in its own protocol for its role in its ensemble, and whether it serves clients
//! again after a restart.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd::pb::etcdserverpb as pb;
use tokio::time::timeout;
use zk::ErrorCode;
use zk::request::{ReadKind, ReadRequest, Request};

use crate::limits::{ATTEMPT_LIMIT, READ_BYTES, RESTART_LIMIT, SESSION_TIMEOUT_MS};
use crate::servers::target::{Scheme, mode_at};
use crate::workloads::etcd::client::{EtcdClient, RANGE, runtime, status_at};
use crate::workloads::zk::client::{Incoming, Session};

/// The role of a server in its ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads, or is alone.
    Leader,
    /// Another server leads.
    Follower,
}

/// The role that a server reports; `None` if it reports none, or knows no leader.
pub fn role_at(address: SocketAddr, scheme: Scheme) -> Option<Role> {
    match scheme {
        Scheme::Zk => match mode_at(&address)?.as_str() {
            "leader" | "standalone" => Some(Role::Leader),
            "follower" => Some(Role::Follower),
            _ => None,
        },
        Scheme::Etcd | Scheme::Etcd2 => {
            let status = status_at(address)?;
            let own = status.header.as_ref()?.member_id;
            match status.leader {
                0 => None,
                leader if leader == own => Some(Role::Leader),
                _ => Some(Role::Follower),
            }
        }
    }
}

/// A read that a server answers only once it serves clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The data of a znode, in a new session. A server that opens a session has applied the command
    /// that opens it, and so all writes that were acknowledged before.
    Znode(String),
    /// A linearizable read of a key of etcd's.
    Key(Bytes),
}

/// The first answer of a server that comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstAnswer {
    /// The server returned the expected znode or key.
    Found,
    /// The server answered something else, which the text describes.
    Wrong(String),
}

impl FirstAnswer {
    /// Succeeds if the server returned the expected znode or key.
    ///
    /// # Errors
    /// The answer of the server at this address is another one.
    pub fn must_be_found(&self, address: SocketAddr) -> anyhow::Result<()> {
        match self {
            FirstAnswer::Found => Ok(()),
            FirstAnswer::Wrong(what) => anyhow::bail!("{address} answers: {what}"),
        }
    }
}

impl Probe {
    /// Asks the servers in turn until one answers, with a pause between attempts. `children` are
    /// the processes of the commands that started them, `output` the file that these print to.
    ///
    /// # Errors
    /// A command that started a server has failed, or no server answers for [`RESTART_LIMIT`].
    pub fn first_answer(
        &self,
        addresses: &[SocketAddr],
        children: &mut [Child],
        output: &Path,
        pause: Duration,
    ) -> anyhow::Result<FirstAnswer> {
        let began = Instant::now();
        for address in addresses.iter().cycle() {
            let failed = match self.ask(*address) {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            check_children(children, output)?;
            let is_late = began.elapsed() >= RESTART_LIMIT;
            anyhow::ensure!(!is_late, "it does not come back ({failed}): {}", output.display());
            std::thread::sleep(pause);
        }
        unreachable!("a target has an address, and they go round")
    }

    /// Makes one attempt.
    fn ask(&self, address: SocketAddr) -> anyhow::Result<FirstAnswer> {
        match self {
            Probe::Znode(path) => ask_for_znode(address, path),
            Probe::Key(key) => ask_for_key(address, key),
        }
    }
}

fn ask_for_znode(address: SocketAddr, path: &str) -> anyhow::Result<FirstAnswer> {
    let mut stream = TcpStream::connect_timeout(&address, ATTEMPT_LIMIT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ATTEMPT_LIMIT))?;
    let mut session = Session::connect(SESSION_TIMEOUT_MS);
    // Both requests go at once: a server reads the second when it has answered the first.
    let read = ReadRequest { kind: ReadKind::GetData, path, watch: false };
    session.send(&Request::Read(read), 0);
    stream.write_all(session.output())?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = stream.read(&mut buffer)?;
        anyhow::ensure!(count > 0, "the connection was closed");
        session.input().extend_from_slice(&buffer[..count]);
        while let Some(incoming) = session.take()? {
            let Incoming::Reply { header, .. } = incoming else { continue };
            return Ok(match header.error {
                ErrorCode::OK => FirstAnswer::Found,
                error => {
                    FirstAnswer::Wrong(format!("error {} ({}) for {path}", error.0, error.name()))
                }
            });
        }
    }
}

fn ask_for_key(address: SocketAddr, key: &Bytes) -> anyhow::Result<FirstAnswer> {
    let range = pb::RangeRequest { key: key.clone(), ..Default::default() };
    let asking = async {
        let mut client = EtcdClient::connect(address).await?;
        client.demand::<pb::RangeResponse>(RANGE, &range).await
    };
    let response = runtime()?.block_on(async { timeout(ATTEMPT_LIMIT, asking).await })??;
    Ok(match response.kvs.len() {
        1 => FirstAnswer::Found,
        _ => FirstAnswer::Wrong(format!("no key {}", key.escape_ascii())),
    })
}

/// Fails if a command that started a server has failed. A start command may succeed and end while
/// the server runs on its own.
fn check_children(children: &mut [Child], output: &Path) -> anyhow::Result<()> {
    for child in children {
        let status = child.try_wait()?.filter(|status| !status.success());
        let log = output.display();
        anyhow::ensure!(status.is_none(), "the server does not start again: see {log}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RECONNECT_PAUSE;
    use crate::servers::launch::Launch;
    use crate::servers::null_server::NullServer;

    fn first(
        addresses: &[SocketAddr],
        children: &mut [Child],
        output: &Path,
    ) -> anyhow::Result<FirstAnswer> {
        Probe::Znode("/a".to_string()).first_answer(addresses, children, output, RECONNECT_PAUSE)
    }

    #[test]
    fn the_first_answer_ends_the_wait() {
        let null = NullServer::start(1).unwrap();
        let addresses = null.target().addresses;
        assert_eq!(first(&addresses, &mut [], Path::new("log")).unwrap(), FirstAnswer::Found);
    }

    /// No server is at the first address, so the second one answers.
    #[test]
    fn all_addresses_are_tried() {
        let null = NullServer::start(1).unwrap();
        let addresses = [SocketAddr::from(([127, 0, 0, 1], 1)), null.target().addresses[0]];
        assert!(first(&addresses, &mut [], Path::new("log")).is_ok());
    }

    #[test]
    fn a_server_that_ends_at_once_is_not_waited_for() {
        let nobody = [SocketAddr::from(([127, 0, 0, 1], 1))];
        let path = std::env::temp_dir().join(format!("quorate-ends-{}", std::process::id()));
        let mut children = [Launch::Shell("exit 3".to_string()).start(&path).unwrap()];
        let error = first(&nobody, &mut children, &path).unwrap_err().to_string();
        assert!(error.contains("does not start again"), "{error}");
        assert!(error.contains("quorate-ends-"), "{error}");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn another_answer_is_an_error_that_names_the_server() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7));
        assert!(FirstAnswer::Found.must_be_found(address).is_ok());
        let error = FirstAnswer::Wrong("no key a".to_string()).must_be_found(address).unwrap_err();
        assert_eq!(error.to_string(), "127.0.0.1:7 answers: no key a");
    }
}
