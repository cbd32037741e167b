//! Runs the handshake of a link, on either side. [`crate::peer_hello`] has the messages and
//! explains them.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use machine::Level;
use member::Hello;
use member::membership::hello::{HandshakeVersion, Handshakes};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::{Links, PeerAuth, PeerSecret, Registered, Shown, Trouble, write_frames};
use crate::limits::{
    EXCHANGES_MAX, EXCHANGES_OF_ADDRESS_MAX, HANDSHAKE_FRAME_BYTES_MAX, HANDSHAKE_LIMIT,
    REDIAL_MAX, WRONG_SECRETS_INTERVAL, YOU_ARE_BYTES_MAX,
};
use crate::peer_address::{PeerAddress, addresses_of};
use crate::peer_frame::FrameReader;
use crate::peer_hello::{
    Answer, AuthKind, Channel, Discovered, Handshake, NO_NUMBER, Offer, Peer, Proof, Refusal,
    Retired, Transcript, check_directory, check_peer,
};
use crate::peer_key::{Agreed, Exchange, Share, Side};

/// A connection during its handshake.
pub(super) struct HandshakeStream<S> {
    pub stream: S,
    pub frames: FrameReader,
}

impl<S: AsyncRead + AsyncWrite + Unpin> HandshakeStream<S> {
    pub fn new(stream: S) -> HandshakeStream<S> {
        HandshakeStream { stream, frames: FrameReader::new(HANDSHAKE_FRAME_BYTES_MAX) }
    }

    async fn send(&mut self, what: &Handshake) -> io::Result<()> {
        write_frames(&mut self.stream, vec![what.encode()]).await
    }

    /// Receives the next message of the other side. A refusal is an error.
    async fn receive(&mut self) -> Result<Handshake, Trouble> {
        loop {
            if let Some(frame) = self.frames.next().map_err(Refusal::Frame)? {
                return match Handshake::decode(&frame)? {
                    Handshake::Refused(reason) => Err(Trouble::RefusesUs(reason)),
                    said => Ok(said),
                };
            }
            if self.stream.read_buf(self.frames.room()).await? == 0 {
                return Err(Trouble::Closed);
            }
        }
    }

    /// Sends the reason for a refusal, and closes.
    pub async fn refuse(self, reason: &Refusal) {
        self.end_with(&Handshake::Refused(reason.to_string())).await;
    }

    /// Sends a last message, and waits a moment for the other side to read it: closing the socket
    /// with unread bytes would discard the message.
    pub async fn end_with(mut self, last: &Handshake) {
        let said = async {
            self.send(last).await?;
            self.stream.shutdown().await?;
            let mut rest = [0; 1024];
            for _ in 0..HANDSHAKE_FRAME_BYTES_MAX {
                if self.stream.read(&mut rest).await? == 0 {
                    break;
                }
            }
            Ok::<(), io::Error>(())
        };
        // A peer that does not read loses only this message.
        let _ = timeout(REDIAL_MAX, said).await;
    }
}

/// How the handshake of an accepted connection ended.
pub(super) enum Met {
    /// The dialler has a link now.
    Linked(Registered),
    /// The dialler asks for its number, has shown that it may know it, and is to be told.
    Asks(Discovered),
    /// The dialler was removed from the ensemble, has shown that it may know that, and is to be
    /// told.
    Retired(Retired),
}

/// The other side of an accepted connection.
pub(super) struct Dialler {
    /// The dialler's IP address.
    pub from: IpAddr,
    /// The certificate that the dialler presented; `None` if certificates are not checked for
    /// hosts.
    pub shown: Option<Shown>,
}

/// Number of connections that have started to agree on a key in the present second.
#[derive(Default)]
pub(super) struct Exchanges {
    since: Option<Instant>,
    count: u32,
    of_address: HashMap<IpAddr, u32>,
}

impl Exchanges {
    /// Counts one more connection. False if there are too many in this second.
    fn begin(&mut self, from: IpAddr, now: Instant) -> bool {
        if self.since.is_none_or(|since| now >= since + Duration::from_secs(1)) {
            *self = Exchanges { since: Some(now), ..Exchanges::default() };
        }
        if self.count >= EXCHANGES_MAX {
            return false;
        }
        let of_address = self.of_address.entry(from).or_default();
        if *of_address >= EXCHANGES_OF_ADDRESS_MAX {
            return false;
        }
        *of_address += 1;
        self.count += 1;
        true
    }
}

/// Counts wrong secrets between two log lines about them.
#[derive(Default)]
pub(super) struct WrongSecrets {
    untold: u64,
    told_at: Option<Instant>,
}

impl WrongSecrets {
    /// Counts a wrong secret. Returns how many to log now, if that is due.
    fn add(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        let is_due = self.told_at.is_none_or(|told_at| now >= told_at + WRONG_SECRETS_INTERVAL);
        is_due.then(|| {
            self.told_at = Some(now);
            std::mem::take(&mut self.untold)
        })
    }
}

impl PeerSecret {
    fn handshakes(&self, level: Option<Level>) -> Handshakes {
        Handshakes::of(true, self.may_be_old, level)
    }
}

/// How this process proves to other servers who it is. Every handshake needs it, on either side.
pub(crate) struct Prover {
    /// How members prove who they are.
    pub auth: PeerAuth,
    /// A random number of this process: tells it from any other process.
    process: u64,
    /// The key for drawing all random bytes of the handshakes.
    secret: [u8; 32],
    drawn: AtomicU64,
}

impl Prover {
    /// `secret` is as in [`super::PeerConfig`].
    pub fn new(auth: PeerAuth, secret: [u8; 32]) -> Prover {
        let mut prover = Prover { auth, process: 0, secret, drawn: AtomicU64::new(0) };
        prover.process = prover.draw_u64();
        prover
    }

    /// The next random bytes, which no other process can predict.
    fn draw(&self) -> [u8; 32] {
        let count = self.drawn.fetch_add(1, Ordering::Relaxed);
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("a key has any length");
        mac.update(b"drawn for links");
        mac.update(&count.to_le_bytes());
        mac.finalize().into_bytes().into()
    }

    /// Like `draw`, as a number.
    pub fn draw_u64(&self) -> u64 {
        let drawn = self.draw();
        u64::from_le_bytes(drawn[..8].try_into().expect("8 of 32 bytes"))
    }

    fn auth_kind(&self) -> AuthKind {
        match self.auth {
            PeerAuth::None => AuthKind::None,
            PeerAuth::Secret(_) => AuthKind::Secret,
            PeerAuth::Tls(_) => AuthKind::Tls,
        }
    }

    fn check_auth(&self, other: AuthKind) -> Result<(), Refusal> {
        let own = self.auth_kind();
        if own == other { Ok(()) } else { Err(Refusal::AuthKinds { own, other }) }
    }

    /// The versions of the handshake to try when dialling a server. Only a shared secret has more
    /// than one.
    pub fn dialled_versions(&self, level: Option<Level>) -> Vec<HandshakeVersion> {
        match &self.auth {
            PeerAuth::Secret(secret) => secret.handshakes(level).dialled().collect(),
            PeerAuth::None | PeerAuth::Tls(_) => vec![HandshakeVersion::Old],
        }
    }

    /// Agrees on a key with a server that has dialled and sent its share. The dialler must show
    /// first that it knows the secret, so that each attempt to guess it is logged.
    async fn agree_with_dialler<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        talk: &mut HandshakeStream<S>,
        secret: &PeerSecret,
        share: &Share,
    ) -> Result<Vec<u8>, Trouble> {
        let exchange = secret.number.begin(Side::Accepter, || self.draw());
        talk.send(&Handshake::Reply(*exchange.share())).await?;
        let agreed = finish(exchange, share)?;
        expect_confirmation(talk, &agreed).await?;
        talk.send(&Handshake::Confirm(agreed.own)).await?;
        Ok(agreed.key.to_vec())
    }

    /// Agrees on a key with a server that this one has dialled.
    async fn agree_with_accepter<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        talk: &mut HandshakeStream<S>,
        secret: &PeerSecret,
    ) -> Result<Vec<u8>, Trouble> {
        let exchange = secret.number.begin(Side::Dialler, || self.draw());
        talk.send(&Handshake::Begin(*exchange.share())).await?;
        let share = match talk.receive().await {
            Ok(Handshake::Reply(share)) => share,
            Ok(_) => return Err(Refusal::OutOfTurn.into()),
            // A server that knows only version 1 refuses `Begin` like this.
            Err(Trouble::RefusesUs(reason)) if reason == Refusal::OutOfTurn.to_string() => {
                return Err(Trouble::NotUnderstood);
            }
            Err(trouble) => return Err(trouble),
        };
        let agreed = finish(exchange, &share)?;
        talk.send(&Handshake::Confirm(agreed.own)).await?;
        expect_confirmation(talk, &agreed).await?;
        Ok(agreed.key.to_vec())
    }

    /// Dials the handshake up to the accepter's answer, and checks that the accepter has the key.
    /// Returns the answer, and this side's proof, which is still to be sent.
    async fn exchange_hellos<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        talk: &mut HandshakeStream<S>,
        hello: Hello,
        (wanted, version): (u64, HandshakeVersion),
        channel: Channel,
    ) -> Result<(Answer, Proof), Trouble> {
        let key = match (&self.auth, version) {
            (PeerAuth::Secret(secret), HandshakeVersion::New) => {
                Some(self.agree_with_accepter(talk, secret).await?)
            }
            (PeerAuth::Secret(secret), HandshakeVersion::Old) => Some(secret.bytes.clone()),
            (PeerAuth::None | PeerAuth::Tls(_), _) => None,
        };
        let (auth, process, nonce) = (self.auth_kind(), self.process, self.draw());
        let offer = Offer { auth, channel, wanted, process, nonce, hello };
        talk.send(&Handshake::Offer(offer.clone())).await?;
        let Handshake::Answer(answer, proof) = talk.receive().await? else {
            return Err(Refusal::OutOfTurn.into());
        };
        self.check_auth(answer.auth)?;
        let transcript = Transcript { offer, answer };
        let own_proof = match key {
            Some(key) if !transcript.is_accepter(&key, &proof) => {
                return Err(Refusal::Secret.into());
            }
            Some(key) => transcript.dialler_proof(&key),
            None => Proof::default(),
        };
        Ok((transcript.answer, own_proof))
    }

    /// Asks an accepter which number this server has. `hello` has the peer URLs, and no number.
    pub async fn ask_number<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        hello: &Hello,
    ) -> Result<Discovered, Trouble> {
        let mut talk = HandshakeStream::new(stream);
        let told = timeout(HANDSHAKE_LIMIT, self.hear_number(&mut talk, hello)).await;
        let told = told.unwrap_or(Err(Trouble::Slow));
        if let Err(Trouble::Refused(reason)) = &told {
            talk.refuse(reason).await;
        }
        told
    }

    async fn hear_number<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        talk: &mut HandshakeStream<S>,
        hello: &Hello,
    ) -> Result<Discovered, Trouble> {
        // A build that knows only version 1 of the handshake does not tell numbers.
        let wanted = (NO_NUMBER, HandshakeVersion::New);
        let exchanged = self.exchange_hellos(talk, hello.clone(), wanted, Channel::Log);
        let (answer, own_proof) = exchanged.await?;
        check_directory(hello, &answer.hello)?;
        talk.send(&Handshake::Proof(own_proof)).await?;
        talk.frames.set_body_bytes_max(YOU_ARE_BYTES_MAX);
        let Handshake::YouAre(told) = talk.receive().await? else {
            return Err(Refusal::OutOfTurn.into());
        };
        let is_its = answer.hello.birth.is_some_and(|birth| birth.cluster_id == told.cluster_id);
        let urls = told.servers.get(&told.number);
        let is_ours = urls.is_some_and(|urls| are_equal(urls, &hello.peer_urls));
        if is_its && is_ours { Ok(told) } else { Err(Refusal::OutOfTurn.into()) }
    }
}

/// Whether both have the same URLs, in any order.
fn are_equal(urls: &[String], others: &[String]) -> bool {
    urls.iter().collect::<BTreeSet<_>>() == others.iter().collect::<BTreeSet<_>>()
}

impl Links {
    pub(super) async fn handshake_with_dialler<S: AsyncRead + AsyncWrite + Unpin>(
        self: &Arc<Self>,
        talk: &mut HandshakeStream<S>,
        own: &Arc<Hello>,
        dialler: &Dialler,
    ) -> Result<Met, Trouble> {
        let (offer, key) = self.offer_and_key(talk, own, dialler.from).await?;
        self.prover.check_auth(offer.auth)?;
        let asks_number = offer.asks_number() && own.birth.is_some();
        let retired = self.retired(own, &offer);
        let is_stranger = self.may_meet(own, &offer);
        if asks_number || retired.is_some() {
            check_directory(own, &offer.hello)?;
        } else {
            self.check_offer(own, &offer, dialler, is_stranger)?;
        }
        let Prover { process, .. } = self.prover;
        let (auth, nonce) = (self.prover.auth_kind(), self.prover.draw());
        let answer = Answer { auth, process, nonce, hello: Hello::clone(own) };
        let transcript = Transcript { offer, answer };
        let own_proof = key.as_ref().map(|key| transcript.accepter_proof(key));
        let own_proof = own_proof.unwrap_or_default();
        talk.send(&Handshake::Answer(transcript.answer.clone(), own_proof)).await?;
        let Handshake::Proof(proof) = talk.receive().await? else {
            return Err(Refusal::OutOfTurn.into());
        };
        if key.is_some_and(|key| !transcript.is_dialler(&key, &proof)) {
            return Err(Refusal::Secret.into());
        }
        let Offer { hello, process, channel, .. } = transcript.offer;
        if asks_number {
            return Ok(Met::Asks(self.number_of(own, &hello, dialler)?));
        }
        if let Some(retired) = retired {
            return Ok(Met::Retired(retired));
        }
        if is_stranger {
            self.meet(&hello);
        }
        let peer = Peer { hello: Arc::new(hello), process };
        // From here on the peer has proved that it is the server that it claims to be.
        let registered = self.register(&peer, channel, false)?;
        talk.send(&Handshake::Accepted).await?;
        Ok(Met::Linked(registered))
    }

    /// The answer to a dialler that was removed from this member's ensemble; `None` to any other.
    /// Its certificate is not checked for a host, since the list no longer has its hosts: the
    /// answer holds only what the dialler has said itself.
    fn retired(&self, own: &Hello, offer: &Offer) -> Option<Retired> {
        let is_for_us = offer.wanted == own.server;
        let is_listed = self.list.has(offer.hello.server) || self.list.takes_guests();
        Retired::of(own, &offer.hello, is_listed)
            .filter(|it| is_for_us && self.list.is_retired(it.member))
    }

    /// Checks whether a link to the dialler is allowed, once it has proved what it says.
    /// `is_stranger` is what [`Links::may_meet`] says.
    fn check_offer(
        &self,
        own: &Hello,
        offer: &Offer,
        dialler: &Dialler,
        is_stranger: bool,
    ) -> Result<(), Refusal> {
        if offer.wanted != own.server {
            let (wanted, own) = (offer.wanted, own.server);
            return Err(Refusal::WrongServer { wanted, own });
        }
        match is_stranger {
            true => check_directory(own, &offer.hello)?,
            false => check_peer(own, &self.list.numbers(), &offer.hello)?,
        }
        match &dialler.shown {
            Some(shown) if is_stranger => {
                let addresses = addresses_of(&offer.hello.peer_urls);
                check_certificate(shown, offer.hello.server, &addresses)
            }
            Some(shown) => self.check_certificate(shown, offer.hello.server),
            None => Ok(()),
        }
    }

    /// Whether a dialler that is not on the list is taken all the same, once it has proved what it
    /// says. Either both were born in one ensemble, whose list may change, and this member knows no
    /// leader, so that its list may be old; or the ensemble takes guests.
    fn may_meet(&self, own: &Hello, offer: &Offer) -> bool {
        let (other, takes_guests) = (&offer.hello, self.list.takes_guests());
        let is_open = match (&own.birth, &other.birth) {
            (Some(own), Some(theirs)) => {
                let level = other.level.as_ref().map(|stated| stated.level);
                let is_lost = self.list.is_lost() && level >= Some(Level::MEMBERS);
                // A guest that was born just now is at the level of the birth.
                own.cluster_id == theirs.cluster_id && (takes_guests || is_lost)
            }
            (Some(_), None) => takes_guests,
            (None, _) => false,
        };
        is_open
            && other.server != NO_NUMBER
            && other.server != own.server
            && !self.list.has(other.server)
            && !addresses_of(&other.peer_urls).is_empty()
    }

    /// Finds the number of a dialler by its peer URLs. The dialler has proved what it says.
    fn number_of(
        &self,
        own: &Hello,
        asker: &Hello,
        dialler: &Dialler,
    ) -> Result<Discovered, Refusal> {
        let servers = self.list.peer_urls();
        let found = servers.iter().find(|(_, urls)| are_equal(urls, &asker.peer_urls));
        let number = found.map(|(number, _)| *number).ok_or(Refusal::NoMatch)?;
        if number == own.server {
            return Err(Refusal::OwnNumber(number));
        }
        if let Some(shown) = &dialler.shown {
            self.check_certificate(shown, number)?;
        }
        let birth = own.birth.as_ref().ok_or(Refusal::NoMatch)?;
        let discovered = Discovered { number, cluster_id: birth.cluster_id, servers };
        discovered.may_be_told().then_some(discovered).ok_or(Refusal::ListTooLong)
    }

    /// Logs that this server is about to give a dialler a proof that allows it to try secrets
    /// offline. The dialler is a server of an older version, or a stranger that claims to be one.
    fn warn_of_old_handshake(&self, server: u64, from: IpAddr) {
        let trouble = format!(
            "it can try secrets offline; once every server has version {} or later, forbid that \
             (quorate.quorum.oldHandshake=false, old_handshake = false)",
            Level::TOKENS.version()
        );
        let from = from.to_canonical();
        self.log_trouble(&format!("{from}, as server {server}, begins with version 1"), &trouble);
    }

    /// Records that the other side did not know the secret.
    pub(super) fn on_wrong_secret(&self, about: &str) {
        if let Some(count) = self.wrong_secrets.lock().add(Instant::now()) {
            tracing::warn!("links: {about} does not know the secret; {count} such attempts");
        }
    }

    /// The dialler's offer, and the key of the proofs; `None` if no proofs are wanted.
    async fn offer_and_key<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        talk: &mut HandshakeStream<S>,
        own: &Hello,
        from: IpAddr,
    ) -> Result<(Offer, Option<Vec<u8>>), Trouble> {
        match (talk.receive().await?, &self.prover.auth) {
            (Handshake::Begin(share), PeerAuth::Secret(secret)) => {
                if !self.exchanges.lock().begin(from, Instant::now()) {
                    return Err(Trouble::TooMany);
                }
                let key = self.prover.agree_with_dialler(talk, secret, &share).await?;
                match talk.receive().await? {
                    Handshake::Offer(offer) => Ok((offer, Some(key))),
                    _ => Err(Refusal::OutOfTurn.into()),
                }
            }
            (Handshake::Begin(_), PeerAuth::None | PeerAuth::Tls(_)) => {
                self.prover.check_auth(AuthKind::Secret)?;
                Err(Refusal::OutOfTurn.into())
            }
            (Handshake::Offer(offer), PeerAuth::Secret(secret)) => {
                self.prover.check_auth(offer.auth)?;
                let level = own.level.as_ref().map(|stated| stated.level);
                // Every build that asks for its number, or can be retired, knows version 2.
                let is_taken = secret.handshakes(level).takes(HandshakeVersion::Old);
                let is_new = offer.asks_number() || self.retired(own, &offer).is_some();
                if !is_taken || is_new {
                    return Err(Refusal::OldHandshake.into());
                }
                if self.list.has(offer.hello.server) {
                    self.warn_of_old_handshake(offer.hello.server, from);
                }
                Ok((offer, Some(secret.bytes.clone())))
            }
            (Handshake::Offer(offer), PeerAuth::None | PeerAuth::Tls(_)) => Ok((offer, None)),
            _ => Err(Refusal::OutOfTurn.into()),
        }
    }

    pub(super) async fn handshake_with_accepter<S: AsyncRead + AsyncWrite + Unpin>(
        self: &Arc<Self>,
        talk: &mut HandshakeStream<S>,
        own: &Arc<Hello>,
        (wanted, version): (u64, HandshakeVersion),
        channel: Channel,
    ) -> Result<Registered, Trouble> {
        let hello = Hello::clone(own);
        let exchanged = self.prover.exchange_hellos(talk, hello, (wanted, version), channel);
        let (answer, own_proof) = exchanged.await?;
        let Answer { hello, process, .. } = answer;
        if hello.server != wanted {
            return Err(Refusal::WrongServer { wanted, own: hello.server }.into());
        }
        check_peer(own, &self.list.numbers(), &hello)?;
        let peer = Peer { hello: Arc::new(hello), process };
        let registered = self.register(&peer, channel, true)?;
        talk.send(&Handshake::Proof(own_proof)).await?;
        match talk.receive().await? {
            Handshake::Accepted => Ok(registered),
            // The accepter has shown that it knows the secret. It is believed only about this
            // member, and only if it is of the same ensemble.
            Handshake::Retired(told)
                if Retired::of(&peer.hello, own, told.is_listed) == Some(told) =>
            {
                (self.on_retired)(told.is_listed);
                Err(Trouble::Retired)
            }
            _ => Err(Refusal::OutOfTurn.into()),
        }
    }

    /// Whether a dialler's certificate is for a host of the server that it claims to be.
    fn check_certificate(&self, shown: &Shown, server: u64) -> Result<(), Refusal> {
        let listed = self.list.get(server);
        let addresses = listed.map(|it| it.server.addresses.clone()).unwrap_or_default();
        check_certificate(shown, server, &addresses)
    }
}

/// Whether a certificate is for a host of these addresses of a server.
fn check_certificate(shown: &Shown, server: u64, addresses: &[PeerAddress]) -> Result<(), Refusal> {
    match addresses.iter().any(|it| (shown.names_host)(&shown.certificate, &it.host)) {
        true => Ok(()),
        false => Err(Refusal::Certificate(server)),
    }
}

/// The key, or the reason why there is none.
fn finish(exchange: Exchange<'_>, share: &Share) -> Result<Agreed, Refusal> {
    exchange.finish(share).ok_or(Refusal::Secret)
}

async fn expect_confirmation<S: AsyncRead + AsyncWrite + Unpin>(
    talk: &mut HandshakeStream<S>,
    agreed: &Agreed,
) -> Result<(), Trouble> {
    match talk.receive().await? {
        Handshake::Confirm(confirmation) if agreed.is_confirmed_by(&confirmation) => Ok(()),
        Handshake::Confirm(_) => Err(Refusal::Secret.into()),
        _ => Err(Refusal::OutOfTurn.into()),
    }
}

#[cfg(test)]
mod tests;
