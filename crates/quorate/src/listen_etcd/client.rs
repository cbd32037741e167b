//! Finds out who makes a call: the client's address, and its credentials, a token or a certificate.
//! The Front finds the user for them.
//!
//! A token in the metadata of a call takes precedence over the certificate of the connection. The
//! common name of a certificate is a user only if the server requires certificates. In etcd the
//! JSON gateway is itself a client, with the server's certificate; so a certificate never counts
//! for a call through the gateway (`authStore.AuthInfoFromCtx`, `AuthInfoFromTLS`).

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

/// The metadata keys that may hold a token; the first one present counts
/// (`rpctypes.TokenFieldNameGRPC`, `TokenFieldNameSwagger`).
const TOKEN_KEYS: [&str; 2] = ["token", "authorization"];

/// A metadata key that only calls forwarded by a JSON gateway have.
const FROM_GATEWAY: &str = "grpcgateway-accept";

/// The prefix of HTTP headers that the gateway forwards as metadata
/// (`runtime.DefaultHeaderMatcher`).
const METADATA_PREFIX: &str = "grpc-metadata-";

/// The metadata key that a client sets to `true` to get an error if there is no leader
/// (`rpctypes.MetadataRequireLeaderKey`).
const REQUIRES_LEADER: &str = "hasleader";

/// The metadata keys that this face reads; all others are dropped.
pub(super) const METADATA_KEYS: &[&str] =
    &[TOKEN_KEYS[0], TOKEN_KEYS[1], FROM_GATEWAY, REQUIRES_LEADER];

/// The HTTP header with the time limit of a gateway call.
const TIMEOUT: &str = "grpc-timeout";

/// The prefix that a token may have, in exactly this case. It is not part of the token.
pub(super) const BEARER: &str = "Bearer ";

/// A connection: its client, and what its port serves.
#[derive(Clone)]
pub(super) struct Site {
    pub peer: SocketAddr,
    pub service: EtcdService,
    pub is_secure: bool,
    /// Whether requests that come from web pages of other sites are refused; see
    /// [`crate::foreign_pages`].
    pub refuses_foreign_pages: bool,
    /// The common name of the client's certificate, if it counts as a user.
    pub certificate: Option<Arc<str>>,
    /// The connection's count among those of all faces. A WebSocket outlives its connection's task,
    /// so it has a reference of its own.
    pub held: Rc<Held>,
    /// Memory for large header values that calls of the connection keep.
    pub kept: Rc<KeptValues>,
}

/// The client of one call.
#[derive(Clone)]
pub(super) struct CallingClient {
    pub runtime: Rc<Runtime>,
    /// Whether the client wants an error if there is no leader.
    pub requires_leader: bool,
    /// When the call must be over, if it came through the gateway. The crate `grpc` times gRPC
    /// calls.
    pub deadline: Deadline,
    said: Said,
    /// The client's address; `None` if the member itself makes the call.
    address: Option<IpAddr>,
    /// The client as the audit log names it; `None` if there is no audit log.
    audited: Option<Rc<AuditedClient>>,
}

/// How the client identifies itself.
#[derive(Clone)]
enum Said {
    Nothing,
    Token(Value),
    /// By the common name of its certificate.
    Certificate(Arc<str>),
    /// The member itself makes the call.
    Member,
}

impl CallingClient {
    /// The client of a gRPC call.
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

    /// The client of a call through the gateway.
    ///
    /// # Errors
    /// Its `grpc-timeout` is malformed, or clients already keep too many large headers; the text
    /// says which.
    pub fn from_request(
        runtime: &Rc<Runtime>,
        headers: &HeaderMap,
        site: &Site,
    ) -> Result<CallingClient, String> {
        let timeout = headers.get(TIMEOUT).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let deadline = match timeout.as_deref() {
            // grpc-gateway understands these values as no limit.
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

    /// The client of a stream over WebSocket. Its headers are not forwarded as metadata; its token
    /// is in `Sec-WebSocket-Protocol` (`wsproxy.transformSubProtocolHeader`).
    ///
    /// # Errors
    /// Clients already keep too many large headers; the text says so.
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

    /// The member itself as a client.
    pub fn of_member(runtime: &Rc<Runtime>) -> CallingClient {
        CallingClient::at(runtime, Said::Member, None)
    }

    /// A client without a deadline that does not require a leader. `site` is `None` for the member
    /// itself.
    fn at(runtime: &Rc<Runtime>, said: Said, site: Option<&Site>) -> CallingClient {
        let address = site.map(|site| site.peer.ip().to_canonical());
        let site = site.filter(|_| runtime.member.has_audit_log);
        let audited = site.map(|site| AuditedClient::new(site.peer.ip()));
        let (runtime, deadline) = (runtime.clone(), Deadline::default());
        CallingClient { runtime, requires_leader: false, deadline, said, address, audited }
    }

    /// The client's address; `None` for the member itself.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The client as the audit log names it; `None` if there is no audit log.
    pub fn audited(&self) -> Option<&Rc<AuditedClient>> {
        self.audited.as_ref()
    }

    /// Whether the call must be refused because the client requires a leader and there is none.
    pub fn misses_leader(&self) -> bool {
        self.requires_leader && !self.runtime.has_leader()
    }

    /// The client's credentials at this moment. They may differ later, because a signed token
    /// expires.
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

    /// Runs a call with one response. If it changes something, it gets a line in the audit log.
    /// Dropping the future cancels the call.
    pub async fn run(&self, method: EtcdMethod, request: Bytes) -> CallResult {
        let mut line = self.begin_line(|| Operation::from_front(method, &request));
        let begun_at = Instant::now();
        let result = match FrontCall::begin(self, method, request.clone()).next().await {
            FromFront::Done(result) => result,
            FromFront::Piece(_) => unreachable!("only a streamed read has pieces"),
            FromFront::V2(_) => unreachable!("this is no call of etcd v2"),
        };
        // These calls wait for other clients, or for another leader, so slowness says nothing about
        // the server.
        let is_move = method == EtcdMethod::Cluster(ClusterMethod::MoveLeader);
        if !is_move && !matches!(method, EtcdMethod::Lock | EtcdMethod::Campaign) {
            self.runtime.slow.note(method, &request, begun_at, result.is_ok());
        }
        if let Some(audited) = &mut line {
            audited.line.tell(method, &result);
        }
        result
    }

    /// Begins a line for the audit log. `None` if there is no audit log, or `operation` gives
    /// `None` because the call changes nothing.
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

    /// Waits until the state shows whether the client has the permission `need` (for calls that
    /// only concern this member).
    ///
    /// # Errors
    /// The client does not have it.
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
