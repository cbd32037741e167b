//! A client of the face, with the credentials that tell the Front its user.
//!
//! A token is in the metadata of each call. It counts more than the certificate of the
//! connection, whose common name is a user where clients must have one. The JSON gateway is a
//! client of its own in etcd, with the server's certificate: so the certificate of a client never
//! counts there (`authStore.AuthInfoFromCtx`, `AuthInfoFromTLS`).

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use config::etcd::EtcdService;
use grpc::{Deadline, KeptValues, Metadata, Value};
use hyper::header::{AUTHORIZATION, HeaderMap, SEC_WEBSOCKET_PROTOCOL};
use member::fronts::etcd::audit::Operation;
use member::fronts::etcd::{CallRefused, CallResult, ClusterMethod, Credentials, EtcdMethod, Need};
use tokio::time::Instant;

use super::audit::{Audited, AuditedClient};
use super::runtime::{FromFront, FrontCall, Runtime, WatchCall};
use crate::connections::Held;

/// The keys of metadata that hold a token, in the order in which they are looked for
/// (`rpctypes.TokenFieldNameGRPC`, `TokenFieldNameSwagger`).
const TOKEN_KEYS: [&str; 2] = ["token", "authorization"];

/// The key of the metadata that a gateway adds to the calls that it passes on.
const FROM_GATEWAY: &str = "grpcgateway-accept";

/// The prefix of the HTTP headers that a gateway passes on as metadata
/// (`runtime.DefaultHeaderMatcher`).
const METADATA_PREFIX: &str = "grpc-metadata-";

/// A client sets this metadata to `true` to get an error when there is no leader
/// (`rpctypes.MetadataRequireLeaderKey`).
const REQUIRES_LEADER: &str = "hasleader";

/// The keys of metadata that are read.
pub(super) const METADATA_KEYS: &[&str] =
    &[TOKEN_KEYS[0], TOKEN_KEYS[1], FROM_GATEWAY, REQUIRES_LEADER];

/// The header with the time that a call may take.
const TIMEOUT: &str = "grpc-timeout";

/// The optional prefix of a token, in exactly this case. It is cut off.
pub(super) const BEARER: &str = "Bearer ";

/// The service and the client of a connection.
#[derive(Clone)]
pub(super) struct Site {
    pub peer: SocketAddr,
    pub service: EtcdService,
    pub is_secure: bool,
    /// Whether requests of pages of other sites are refused, see [`crate::foreign_pages`].
    pub refuses_foreign_pages: bool,
    /// The common name of the client's certificate, if it is a user.
    pub certificate: Option<Arc<str>>,
    /// Its place among the connections of all faces. A WebSocket outlives the task of its
    /// connection, and keeps it.
    pub held: Rc<Held>,
    /// The header values that calls of the connection keep.
    pub kept: Rc<KeptValues>,
}

/// A client, for one call.
#[derive(Clone)]
pub(super) struct CallingClient {
    pub runtime: Rc<Runtime>,
    /// Whether it wants an error when there is no leader.
    pub requires_leader: bool,
    /// When a call of the gateway ends at the latest.
    pub deadline: Deadline,
    said: Said,
    /// The client's address; `None` for the member itself.
    address: Option<IpAddr>,
    /// The client as the audit log names it; `None` if there is no audit log.
    audited: Option<Rc<AuditedClient>>,
}

/// The identity that a client claims.
#[derive(Clone)]
enum Said {
    Nothing,
    Token(Value),
    /// The common name of its certificate.
    Certificate(Arc<str>),
    /// It is the member itself.
    Member,
}

impl CallingClient {
    /// The client of a call of gRPC.
    pub fn from_call(runtime: &Rc<Runtime>, metadata: &Metadata, site: &Site) -> CallingClient {
        let token = TOKEN_KEYS.iter().find_map(|key| metadata.value(key));
        let is_direct = || metadata.text(FROM_GATEWAY).is_none();
        let said = match (token, &site.certificate) {
            (Some(token), _) => Said::Token(token.clone()),
            (None, Some(name)) if is_direct() => Said::Certificate(name.clone()),
            _ => Said::Nothing,
        };
        let requires_leader = metadata.text(REQUIRES_LEADER) == Some("true");
        CallingClient { requires_leader, ..CallingClient::at(runtime, said, Some(site)) }
    }

    /// The client of a call of the gateway.
    ///
    /// # Errors
    /// The text says that its `grpc-timeout` is malformed, or that it is one of too many with large
    /// headers.
    pub fn from_request(
        runtime: &Rc<Runtime>,
        headers: &HeaderMap,
        site: &Site,
    ) -> Result<CallingClient, String> {
        let timeout = headers.get(TIMEOUT).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let deadline = match timeout.as_deref() {
            // grpc-gateway takes these for no limit.
            None | Some("" | "0S") => Deadline::default(),
            Some(text) => {
                Deadline::from_timeout(text).map_err(|_| format!("invalid grpc-timeout: {text}"))?
            }
        };
        let of_key = |key: &&str| headers.get(format!("{METADATA_PREFIX}{key}"));
        let value = TOKEN_KEYS.iter().find_map(of_key).or(headers.get(AUTHORIZATION));
        let token = value.and_then(|value| value.to_str().ok());
        let said = Said::from_token(token, site)?;
        let requires_leader = of_key(&REQUIRES_LEADER).is_some_and(|value| value == "true");
        Ok(CallingClient {
            requires_leader,
            deadline,
            ..CallingClient::at(runtime, said, Some(site))
        })
    }

    /// The client of a stream over WebSocket. Its headers are no metadata; its token is beside the
    /// protocol (`wsproxy.transformSubProtocolHeader`).
    ///
    /// # Errors
    /// The text says that it is one of too many with large headers.
    pub fn from_upgrade(
        runtime: &Rc<Runtime>,
        headers: &HeaderMap,
        site: &Site,
    ) -> Result<CallingClient, String> {
        let protocol = headers.get(SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok());
        let token = protocol.and_then(|text| text.split_once("Bearer,")).map(|(_, token)| token);
        let said = Said::from_token(token.map(|token| token.trim_matches(' ')), site)?;
        Ok(CallingClient::at(runtime, said, Some(site)))
    }

    /// The member itself, as a client.
    pub fn of_member(runtime: &Rc<Runtime>) -> CallingClient {
        CallingClient::at(runtime, Said::Member, None)
    }

    /// A client that sets no conditions; the member itself has no connection.
    fn at(runtime: &Rc<Runtime>, said: Said, site: Option<&Site>) -> CallingClient {
        let address = site.map(|site| site.peer.ip().to_canonical());
        let site = site.filter(|_| runtime.member.has_audit_log);
        let audited = site.map(|site| AuditedClient::new(site.peer.ip()));
        let (runtime, deadline) = (runtime.clone(), Deadline::default());
        CallingClient { runtime, requires_leader: false, deadline, said, address, audited }
    }

    /// Its address; `None` if it is the member itself.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The client as the audit log names it, if there is an audit log.
    pub fn audited(&self) -> Option<&Rc<AuditedClient>> {
        self.audited.as_ref()
    }

    /// Whether it is to be refused, since there is no leader.
    pub fn misses_leader(&self) -> bool {
        self.requires_leader && !self.runtime.has_leader()
    }

    /// The client's credentials now: a signed token is valid for a time.
    pub fn credentials(&self) -> Credentials {
        match &self.said {
            Said::Nothing => Credentials::Nobody,
            Said::Token(token) => {
                self.runtime.member.tokens.credentials(token.text(), &self.runtime.verified)
            }
            Said::Certificate(name) => Credentials::Certificate(name.clone()),
            Said::Member => Credentials::Member,
        }
    }

    /// Runs a call with one response, and has it in the audit log if it changes something. Dropping
    /// the future cancels it.
    pub async fn run(&self, method: EtcdMethod, request: Bytes) -> CallResult {
        let mut line = self.begin_line(|| Operation::from_front(method, &request));
        let begun_at = Instant::now();
        let result = match FrontCall::begin(self, method, request.clone()).next().await {
            FromFront::Done(result) => result,
            FromFront::Piece(_) => unreachable!("only a streamed read has pieces"),
            FromFront::V2(_) => unreachable!("this is no call of etcd v2"),
        };
        // These wait for other clients, or for another leader.
        let is_move = method == EtcdMethod::Cluster(ClusterMethod::MoveLeader);
        if !is_move && !matches!(method, EtcdMethod::Lock | EtcdMethod::Campaign) {
            self.runtime.slow.note(method, &request, begun_at, result.is_ok());
        }
        if let Some(audited) = &mut line {
            audited.line.tell(method, &result);
        }
        result
    }

    /// Begins a line of the audit log, if there is a log and the call changes something.
    pub fn begin_line(
        &self,
        operation: impl FnOnce() -> Option<Operation>,
    ) -> Option<Box<Audited>> {
        let audited = self.audited.as_ref()?;
        Some(Audited::new(audited, operation()?))
    }

    /// Opens a stream of watches.
    pub fn open_watch(&self, requires_leader: bool) -> WatchCall {
        WatchCall::open(self.clone(), requires_leader)
    }

    /// Waits until it is known that the client may ask something of the member itself.
    ///
    /// # Errors
    /// It may not.
    pub async fn require(&self, need: Need) -> Result<(), CallRefused> {
        self.run(EtcdMethod::Need(need), Bytes::new()).await.map(drop)
    }
}

impl Said {
    fn from_token(text: Option<&str>, site: &Site) -> Result<Said, String> {
        let Some(text) = text else { return Ok(Said::Nothing) };
        let text = text.strip_prefix(BEARER).unwrap_or(text);
        let kept = site.kept.keep(text).map(Said::Token);
        kept.ok_or_else(|| "too many large headers are kept".to_string())
    }
}
