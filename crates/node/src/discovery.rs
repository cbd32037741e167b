//! Asks the members of an ensemble which number this server has in it. A server that etcd's clients
//! have added knows only its own peer URLs, and the addresses of the others.
//!
//! It dials one server after the other, as server 0, and makes no link. [`crate::peer_hello`] has
//! the messages.

use std::io;
use std::time::Duration;

use machine::MemberId;
use member::Hello;
use member::membership::hello::Known;
use thiserror::Error;

use crate::limits::ADDRESSES_TRIED_MAX;
use crate::peer_address::{PeerAddress, names};
use crate::peer_hello::{Discovered, NO_NUMBER, Refusal};
use crate::peer_sockets::{PeerAuth, Prover, Trouble, connect, connect_tls};

/// What a server needs to ask for its number.
pub struct Discovery {
    /// The addresses of each other server. The servers are asked in this order.
    pub others: Vec<Vec<PeerAddress>>,
    /// The URLs at which the other servers reach this server, as their list states them. The order
    /// does not matter.
    pub peer_urls: Vec<String>,
    /// The name of this server; empty if it has none.
    pub name: String,
    /// The id that the server's unborn directory has.
    pub member: MemberId,
    /// The message versions and levels that this build knows.
    pub known: Known,
    /// How members prove who they are.
    pub auth: PeerAuth,
    /// Random bytes that nobody can predict; different at each call.
    pub secret: [u8; 32],
    /// How long it may take to connect; all addresses of a server share this time.
    pub connect_timeout: Duration,
}

/// Why a server did not learn its number.
#[derive(Debug, Error)]
pub enum DiscoverError {
    /// No server answers the question now. A later try may succeed.
    #[error("no server tells this server its number: {0}")]
    Unanswered(String),
    /// Members answer, and none of them has a server with these peer URLs on its list. A member
    /// that is far behind answers this, too, about a server that was just added.
    #[error("PeerURLs: no match found for existing member {0:?}")]
    NoMatch(Vec<String>),
    /// A server has another secret.
    #[error("the server at {0} does not have the same shared secret")]
    WrongSecret(String),
    /// A server refuses the question for another reason, or this server refuses the answer.
    #[error("asked the server at {address} for the own number: {reason}")]
    Refused {
        /// The addresses of the other server.
        address: String,
        /// The reason, for people.
        reason: String,
    },
    /// A hello has no room for the peer URLs or the name, or logs could not show them.
    #[error("the peer URLs or the name of this server are none, too many, too long or not visible")]
    OwnUrls,
    /// The operating system refused something.
    #[error("cannot ask other servers: {0}")]
    System(io::Error),
}

impl DiscoverError {
    /// Whether a later try may succeed although nobody changes anything.
    pub fn is_passing(&self) -> bool {
        matches!(self, DiscoverError::Unanswered(_))
    }
}

/// Asks the other servers for the number of this server. Blocks until one has told it, or all were
/// asked; each may take the time to connect and that of a handshake. Must not be called on a thread
/// of an async runtime.
///
/// # Errors
/// No server told the number, and why. If they gave several reasons, the one that is least likely
/// to pass.
pub fn discover(config: Discovery) -> Result<Discovered, DiscoverError> {
    let Discovery { others, peer_urls, name, member, known, auth, secret, connect_timeout } =
        config;
    if peer_urls.is_empty() {
        return Err(DiscoverError::OwnUrls);
    }
    let hello = Hello::unborn(NO_NUMBER, member, Vec::new(), known);
    let hello = hello.with_peer_urls(peer_urls, name).ok_or(DiscoverError::OwnUrls)?;
    let prover = Prover::new(auth, secret);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(ADDRESSES_TRIED_MAX)
        .build()
        .map_err(DiscoverError::System)?;
    let mut failures = Vec::new();
    let told = others.iter().find_map(|addresses| {
        match runtime.block_on(ask(&prover, addresses, connect_timeout, &hello)) {
            Ok(discovered) => Some(discovered),
            Err(trouble) => {
                tracing::debug!("discovery: {}: {trouble}", names(addresses));
                failures.push((names(addresses), trouble));
                None
            }
        }
    });
    // Shutting down must not wait for a name that is being resolved.
    runtime.shutdown_background();
    told.ok_or_else(|| most_lasting(failures, hello.peer_urls))
}

async fn ask(
    prover: &Prover,
    addresses: &[PeerAddress],
    connect_timeout: Duration,
    hello: &Hello,
) -> Result<Discovered, Trouble> {
    let (stream, host) = connect(addresses, connect_timeout, false).await?;
    stream.set_nodelay(true)?;
    match &prover.auth {
        PeerAuth::Tls(tls) => {
            let stream = connect_tls(tls(), host, stream).await?;
            prover.ask_number(stream, hello).await
        }
        PeerAuth::None | PeerAuth::Secret(_) => prover.ask_number(stream, hello).await,
    }
}

/// The failure that is least likely to pass. `failures` has the addresses of each server that was
/// asked, and what happened.
fn most_lasting(failures: Vec<(String, Trouble)>, peer_urls: Vec<String>) -> DiscoverError {
    let find = |kind: fn(&Trouble) -> bool| failures.iter().find(|(_, trouble)| kind(trouble));
    if find(|trouble| is_refusal(trouble, &Refusal::NoMatch)).is_some() {
        return DiscoverError::NoMatch(peer_urls);
    }
    if let Some((address, _)) = find(|trouble| is_refusal(trouble, &Refusal::Secret)) {
        return DiscoverError::WrongSecret(address.clone());
    }
    if let Some((address, trouble)) = find(|trouble| !is_unanswered(trouble)) {
        let (address, reason) = (address.clone(), trouble.to_string());
        return DiscoverError::Refused { address, reason };
    }
    let shown = failures.iter().map(|(address, trouble)| format!("{address}: {trouble}"));
    match failures.is_empty() {
        true => DiscoverError::Unanswered("no other server is configured".to_string()),
        false => DiscoverError::Unanswered(shown.collect::<Vec<_>>().join("; ")),
    }
}

/// Whether one of both sides gave this reason.
fn is_refusal(trouble: &Trouble, reason: &Refusal) -> bool {
    match trouble {
        Trouble::Refused(own) => own == reason,
        Trouble::RefusesUs(said) => *said == reason.to_string(),
        _ => false,
    }
}

/// Whether the server does not answer such questions, or not now. Servers that are not born, and
/// servers of a build that does not know the question, say that we want another server.
fn is_unanswered(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Refused(_) => false,
        Trouble::RefusesUs(said) => {
            let other = Refusal::WrongServer { wanted: NO_NUMBER, own: NO_NUMBER }.to_string();
            let same = other.split(',').next().unwrap_or_default();
            said.starts_with(&format!("{same},"))
        }
        _ => true,
    }
}
