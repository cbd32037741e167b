//! The messages of a link's handshake, the proofs that both sides know the shared secret, and the
//! reasons to refuse the other side.
//!
//! ```text
//! dialler                         accepter
//!   Begin   share            ->              \
//!           <-  Reply    share                | with a secret, version 2
//!   Confirm                  ->               |
//!           <-  Confirm                      /
//!   Offer   who, whom, nonce ->
//!           <-  Answer   who, nonce, proof of both
//!   Proof   of both          ->
//!           <-  Accepted
//! ```
//!
//! A server that does not know its number yet offers itself as server 0 with its peer URLs, and
//! wants server 0, which means any. It gets YouAre in place of Accepted, and no link. A member that
//! was removed from the ensemble gets Retired in place of Accepted, and ends.
//!
//! Instead of the message that the other side waits for, a side may send Refused with a reason, and
//! close. The first four messages agree on a key (`peer_key`), so that neither side tells who it is
//! before the other has shown that it knows the secret. A proof is an HMAC-SHA256 over the offer
//! and the answer, with that key and a label for the proof's sender. The nonces prevent that a
//! proof is used again, and the label prevents that it is sent back to its sender. A proof shows
//! the identity of both sides when the link begins, and no more: only TLS helps against somebody
//! who can write into the network.
//!
//! Version 1 has only the last four messages, and the secret itself is the key of the proofs.
//! [`member::membership::hello::Handshakes`] decides which version is used.
//!
//! Byte layouts: `docs/formats.md`, "Handshake".

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use machine::limits::{LISTED_SERVERS_MAX, SERVER_TEXT_BYTES_MAX, SERVER_URLS_MAX};
use machine::{Level, MemberId};
use member::Hello;
use member::membership::hello::Incompatibility;
use member::peer::PeerFrame;
use sha2::Sha256;
use storage::codec::{DecodeError, Reader};
use thiserror::Error;

use crate::limits::{REFUSAL_BYTES_MAX, YOU_ARE_BYTES_MAX};
use crate::peer_frame::FrameError;
use crate::peer_key::{Confirmation, Share};

/// Kinds of the handshake's frames.
const KIND_OFFER: u8 = 1;
const KIND_ANSWER: u8 = 2;
const KIND_PROOF: u8 = 3;
const KIND_ACCEPTED: u8 = 4;
const KIND_REFUSED: u8 = 5;
const KIND_BEGIN: u8 = 6;
const KIND_REPLY: u8 = 7;
const KIND_CONFIRM: u8 = 8;
const KIND_YOU_ARE: u8 = 9;
const KIND_RETIRED: u8 = 10;

/// The number that a server states before it knows its own, and the one that it wants to reach if
/// any server will do.
pub const NO_NUMBER: u64 = 0;

const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;

const ACCEPTER_LABEL: &[u8] = b"quorate link v1, who accepts";
const DIALLER_LABEL: &[u8] = b"quorate link v1, who dials";

/// The purpose of a link. Each channel is a connection of its own, so that a heartbeat never waits
/// behind a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Raft messages, and requests forwarded to the leader.
    Log,
    /// Pieces of snapshots.
    Bulk,
}

/// How both sides of a link prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthKind {
    /// No proof.
    None,
    /// By a shared secret.
    Secret,
    /// By TLS certificates, before the handshake.
    Tls,
}

/// The dialler's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub auth: AuthKind,
    pub channel: Channel,
    /// The number of the server that the dialler wants to reach.
    pub wanted: u64,
    /// A random number of the process: tells two processes with copies of one directory apart.
    pub process: u64,
    pub nonce: [u8; NONCE_BYTES],
    pub hello: Hello,
}

impl Offer {
    /// Whether the dialler asks for its number, and wants no link.
    pub fn asks_number(&self) -> bool {
        let has_none = self.hello.server == NO_NUMBER && self.wanted == NO_NUMBER;
        has_none && !self.hello.peer_urls.is_empty()
    }
}

/// The accepter's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub auth: AuthKind,
    pub process: u64,
    pub nonce: [u8; NONCE_BYTES],
    pub hello: Hello,
}

/// A MAC that proves that its sender has the key; zeros if the servers share no secret.
pub type Proof = [u8; PROOF_BYTES];

/// The answer to a server that asks for its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// The number of the server that asks.
    pub number: u64,
    /// The id of the ensemble.
    pub cluster_id: u128,
    /// All listed servers by number, each with its peer URLs.
    pub servers: BTreeMap<u64, Vec<String>>,
}

impl Discovered {
    /// Whether the list is within the bounds of a message.
    pub fn may_be_told(&self) -> bool {
        let is_good = |url: &String| is_shown(url) && url.len() <= SERVER_TEXT_BYTES_MAX;
        let are_good =
            |urls: &Vec<String>| urls.len() <= SERVER_URLS_MAX && urls.iter().all(is_good);
        let bytes_of = |urls: &Vec<String>| urls.iter().map(|url| 2 + url.len()).sum::<usize>();
        let bytes: usize = self.servers.values().map(|urls| 10 + bytes_of(urls)).sum();
        self.servers.contains_key(&self.number)
            && self.servers.len() <= LISTED_SERVERS_MAX
            && self.servers.values().all(are_good)
            && 26 + bytes <= YOU_ARE_BYTES_MAX
    }
}

/// The answer to a member that was removed from the ensemble for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// The dialler's member id.
    pub member: MemberId,
    /// The id of the ensemble.
    pub cluster_id: u128,
    /// Whether the list has the dialler's server again, or the ensemble takes guests: with an empty
    /// directory the server may join.
    pub is_listed: bool,
}

impl Retired {
    /// The answer of a member with the hello `own` to `other`, whose server the list may have, if
    /// both were born in one ensemble.
    pub fn of(own: &Hello, other: &Hello, is_listed: bool) -> Option<Retired> {
        let (own, theirs) = (own.birth.as_ref()?, other.birth.as_ref()?);
        let cluster_id = own.cluster_id;
        let member = other.member;
        (theirs.cluster_id == cluster_id).then_some(Retired { member, cluster_id, is_listed })
    }
}

/// A message of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    Offer(Offer),
    Answer(Answer, Proof),
    Proof(Proof),
    Accepted,
    Refused(String),
    /// The dialler's share, for agreeing on a key.
    Begin(Share),
    /// The accepter's share, for agreeing on a key.
    Reply(Share),
    /// Shows that the sender has the key.
    Confirm(Confirmation),
    /// Tells a dialler its number. The connection is closed then.
    YouAre(Discovered),
    /// Tells a dialler that it was removed from the ensemble. The connection is closed then.
    Retired(Retired),
}

/// Why a link is refused. The text is sent to the other side, and is for the logs of both.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("its message is malformed: {0}")]
    Malformed(#[from] DecodeError),
    #[error("it broke the rules of the handshake")]
    OutOfTurn,
    #[error(
        "one side is configured to authenticate by {}, the other by {}",
        auth_name(*.own),
        auth_name(*.other)
    )]
    AuthKinds { own: AuthKind, other: AuthKind },
    #[error("it does not know the shared secret")]
    Secret,
    #[error(
        "it speaks version 1 of the handshake only, which is not taken here: install version {} or \
         later there",
        Level::TOKENS.version()
    )]
    OldHandshake,
    #[error("its certificate is for none of the hosts that are configured for server {0}")]
    Certificate(u64),
    #[error("it wants server {wanted}, and this is server {own}: check the addresses of both")]
    WrongServer { wanted: u64, own: u64 },
    #[error("PeerURLs: no match found for existing member")]
    NoMatch,
    #[error("the list of servers is too long to be told")]
    ListTooLong,
    #[error("it says that it is server {0}, and so is this server")]
    OwnNumber(u64),
    #[error("server {0} is not configured here")]
    Incompatibility(u64),
    #[error("its data directory is a copy of server {0}'s: one of the two must go")]
    CopiedDirectory(u64),
    #[error(
        "it belongs to another ensemble: cluster {:032x}, here {:032x}",
        .theirs,
        .own
    )]
    OtherCluster { own: u128, theirs: u128 },
    #[error("{0}")]
    Versions(#[from] Incompatibility),
    #[error("another server {0} is connected already")]
    NumberTaken(u64),
    #[error("its older link is still being closed")]
    Replaces,
}

fn auth_name(kind: AuthKind) -> &'static str {
    match kind {
        AuthKind::None => "nothing",
        AuthKind::Secret => "a shared secret",
        AuthKind::Tls => "certificates",
    }
}

impl Handshake {
    /// Encodes the message as a frame.
    pub fn encode(&self) -> PeerFrame {
        let mut out = Vec::new();
        let kind = match self {
            Handshake::Offer(offer) => {
                encode_offer(offer, &mut out);
                KIND_OFFER
            }
            Handshake::Answer(answer, proof) => {
                out.extend_from_slice(proof);
                encode_answer(answer, &mut out);
                KIND_ANSWER
            }
            Handshake::Proof(proof) => {
                out.extend_from_slice(proof);
                KIND_PROOF
            }
            Handshake::Accepted => KIND_ACCEPTED,
            Handshake::Refused(reason) => {
                let end = reason.floor_char_boundary(REFUSAL_BYTES_MAX);
                out.extend_from_slice(&reason.as_bytes()[..end]);
                KIND_REFUSED
            }
            Handshake::Begin(share) => {
                out.extend_from_slice(share);
                KIND_BEGIN
            }
            Handshake::Reply(share) => {
                out.extend_from_slice(share);
                KIND_REPLY
            }
            Handshake::Confirm(confirmation) => {
                out.extend_from_slice(confirmation);
                KIND_CONFIRM
            }
            Handshake::YouAre(discovered) => {
                encode_discovered(discovered, &mut out);
                KIND_YOU_ARE
            }
            Handshake::Retired(Retired { member, cluster_id, is_listed }) => {
                out.push(u8::from(*is_listed));
                out.extend_from_slice(&member.0.to_le_bytes());
                out.extend_from_slice(&cluster_id.to_le_bytes());
                KIND_RETIRED
            }
        };
        PeerFrame { kind, body: Bytes::from(out) }
    }

    /// Decodes what [`Handshake::encode`] wrote.
    ///
    /// # Errors
    /// The frame is not a message of the handshake.
    pub fn decode(frame: &PeerFrame) -> Result<Handshake, Refusal> {
        let mut reader = Reader::new(&frame.body);
        let handshake = match frame.kind {
            KIND_OFFER => Handshake::Offer(decode_offer(&mut reader)?),
            KIND_ANSWER => {
                let proof = array(&mut reader)?;
                Handshake::Answer(decode_answer(&mut reader)?, proof)
            }
            KIND_PROOF => Handshake::Proof(array(&mut reader)?),
            KIND_ACCEPTED => Handshake::Accepted,
            KIND_REFUSED => {
                let reason = reader.take(frame.body.len())?;
                let end = reason.len().min(REFUSAL_BYTES_MAX);
                let reason = String::from_utf8_lossy(&reason[..end]);
                // The reason is logged: make it one line, without control characters that a
                // terminal would obey.
                let shown = |c: char| if c.is_control() { '?' } else { c };
                Handshake::Refused(reason.chars().map(shown).collect())
            }
            KIND_BEGIN => Handshake::Begin(array(&mut reader)?),
            KIND_REPLY => Handshake::Reply(array(&mut reader)?),
            KIND_CONFIRM => Handshake::Confirm(array(&mut reader)?),
            KIND_YOU_ARE => Handshake::YouAre(decode_discovered(&mut reader)?),
            KIND_RETIRED => {
                let is_listed = match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Refusal::OutOfTurn),
                };
                let (member, cluster_id) = (MemberId(reader.u64()?), reader.u128()?);
                Handshake::Retired(Retired { member, cluster_id, is_listed })
            }
            _ => return Err(Refusal::OutOfTurn),
        };
        reader.finish()?;
        Ok(handshake)
    }
}

fn encode_auth(auth: AuthKind) -> u8 {
    match auth {
        AuthKind::None => 0,
        AuthKind::Secret => 1,
        AuthKind::Tls => 2,
    }
}

fn decode_auth(reader: &mut Reader) -> Result<AuthKind, DecodeError> {
    match reader.u8()? {
        0 => Ok(AuthKind::None),
        1 => Ok(AuthKind::Secret),
        2 => Ok(AuthKind::Tls),
        _ => Err(reader.bad("an unknown kind of proof")),
    }
}

fn array<const N: usize>(reader: &mut Reader) -> Result<[u8; N], DecodeError> {
    let bytes = reader.take(N)?;
    Ok(bytes.try_into().expect("as many were taken"))
}

fn encode_offer(offer: &Offer, out: &mut Vec<u8>) {
    let channel = match offer.channel {
        Channel::Log => 0,
        Channel::Bulk => 1,
    };
    out.extend_from_slice(&[encode_auth(offer.auth), channel, 0, 0]);
    out.extend_from_slice(&offer.wanted.to_le_bytes());
    out.extend_from_slice(&offer.process.to_le_bytes());
    out.extend_from_slice(&offer.nonce);
    offer.hello.encode(out);
}

fn decode_offer(reader: &mut Reader) -> Result<Offer, DecodeError> {
    let auth = decode_auth(reader)?;
    let channel = match reader.u8()? {
        0 => Channel::Log,
        1 => Channel::Bulk,
        _ => return Err(reader.bad("an unknown channel")),
    };
    reader.zeros(2)?;
    let (wanted, process) = (reader.u64()?, reader.u64()?);
    let nonce = array(reader)?;
    Ok(Offer { auth, channel, wanted, process, nonce, hello: Hello::decode(reader)? })
}

fn encode_answer(answer: &Answer, out: &mut Vec<u8>) {
    out.extend_from_slice(&[encode_auth(answer.auth), 0, 0, 0]);
    out.extend_from_slice(&answer.process.to_le_bytes());
    out.extend_from_slice(&answer.nonce);
    answer.hello.encode(out);
}

fn decode_answer(reader: &mut Reader) -> Result<Answer, DecodeError> {
    let auth = decode_auth(reader)?;
    reader.zeros(3)?;
    let process = reader.u64()?;
    let nonce = array(reader)?;
    Ok(Answer { auth, process, nonce, hello: Hello::decode(reader)? })
}

fn encode_discovered(discovered: &Discovered, out: &mut Vec<u8>) {
    assert!(discovered.may_be_told(), "a longer list than the limit");
    out.extend_from_slice(&discovered.number.to_le_bytes());
    out.extend_from_slice(&discovered.cluster_id.to_le_bytes());
    out.extend_from_slice(&(discovered.servers.len() as u16).to_le_bytes());
    for (number, urls) in &discovered.servers {
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&(urls.len() as u16).to_le_bytes());
        for url in urls {
            out.extend_from_slice(&(url.len() as u16).to_le_bytes());
            out.extend_from_slice(url.as_bytes());
        }
    }
}

fn decode_discovered(reader: &mut Reader) -> Result<Discovered, DecodeError> {
    let (number, cluster_id, count) = (reader.u64()?, reader.u128()?, reader.u16()?);
    if usize::from(count) > LISTED_SERVERS_MAX {
        return Err(reader.bad("too many servers"));
    }
    let mut servers = BTreeMap::new();
    for _ in 0..count {
        let server = reader.u64()?;
        if servers.last_key_value().is_some_and(|(last, _)| *last >= server) {
            return Err(reader.bad("the servers are not ascending"));
        }
        servers.insert(server, decode_urls(reader)?);
    }
    match servers.contains_key(&number) {
        true => Ok(Discovered { number, cluster_id, servers }),
        false => Err(reader.bad("the server is not among the servers")),
    }
}

fn decode_urls(reader: &mut Reader) -> Result<Vec<String>, DecodeError> {
    let count = usize::from(reader.u16()?);
    if count > SERVER_URLS_MAX {
        return Err(reader.bad("too many URLs"));
    }
    let mut urls = Vec::new();
    for _ in 0..count {
        let bytes = usize::from(reader.u16()?);
        match core::str::from_utf8(reader.take(bytes)?) {
            Ok(url) if bytes <= SERVER_TEXT_BYTES_MAX && is_shown(url) => {
                urls.push(url.to_string());
            }
            _ => return Err(reader.bad("a URL is empty, too long, or not visible")),
        }
    }
    Ok(urls)
}

/// Whether a log can show the text.
fn is_shown(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// The first messages of both sides, which the proofs cover.
#[derive(Clone, Debug)]
pub struct Transcript {
    pub offer: Offer,
    pub answer: Answer,
}

impl Transcript {
    /// The accepter's proof. `key` is the key that both sides agreed on; in version 1, the secret.
    pub fn accepter_proof(&self, key: &[u8]) -> Proof {
        self.mac(key, ACCEPTER_LABEL).finalize().into_bytes().into()
    }

    /// The dialler's proof. `key` is as for the accepter's.
    pub fn dialler_proof(&self, key: &[u8]) -> Proof {
        self.mac(key, DIALLER_LABEL).finalize().into_bytes().into()
    }

    /// Whether `proof` shows that the accepter has the key. Takes the same time for a wrong proof
    /// as for a right one.
    pub fn is_accepter(&self, key: &[u8], proof: &Proof) -> bool {
        self.mac(key, ACCEPTER_LABEL).verify_slice(proof).is_ok()
    }

    /// Whether `proof` shows that the dialler has the key. Takes the same time for a wrong proof,
    /// too.
    pub fn is_dialler(&self, key: &[u8], proof: &Proof) -> bool {
        self.mac(key, DIALLER_LABEL).verify_slice(proof).is_ok()
    }

    fn mac(&self, key: &[u8], label: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key has any length");
        let (mut offer, mut answer) = (Vec::new(), Vec::new());
        encode_offer(&self.offer, &mut offer);
        encode_answer(&self.answer, &mut answer);
        // Each part is preceded by its length, so that no two transcripts have equal bytes.
        for part in [label, &offer, &answer] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

/// The other side of a link, as stated in its messages and confirmed by its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub hello: Arc<Hello>,
    pub process: u64,
}

/// Checks whether a link to the other side is allowed at all, without regard to existing links.
/// `numbers` are the numbers of the listed servers.
///
/// # Errors
/// Why the other side must be refused.
pub fn check_peer(own: &Hello, numbers: &[u64], other: &Hello) -> Result<(), Refusal> {
    if other.server == own.server {
        return Err(Refusal::OwnNumber(own.server));
    }
    if !numbers.contains(&other.server) {
        return Err(Refusal::Incompatibility(other.server));
    }
    check_directory(own, other)
}

/// Checks all that does not depend on the number of the other side: whether the two directories may
/// belong to one ensemble, and the two builds understand each other.
///
/// # Errors
/// Why the other side must be refused.
pub fn check_directory(own: &Hello, other: &Hello) -> Result<(), Refusal> {
    if other.member == own.member {
        return Err(Refusal::CopiedDirectory(own.server));
    }
    match (&own.birth, &other.birth) {
        (Some(own), Some(theirs)) if own.cluster_id != theirs.cluster_id => {
            let (own, theirs) = (own.cluster_id, theirs.cluster_id);
            Err(Refusal::OtherCluster { own, theirs })
        }
        _ => Ok(own.agree(other).map(drop)?),
    }
}

#[cfg(test)]
mod tests;
