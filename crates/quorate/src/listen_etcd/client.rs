//! A client of the face: what it says of itself, by which the Front finds out who asks.
//!
//! A token stands in the metadata of each call. It counts more than the certificate of the
//! connection, whose common name is a user where clients must have one. The JSON gateway is a
//! client of its own in etcd, with the server's certificate: so the certificate of a client never
//! counts there (`authStore.AuthInfoFromCtx`, `AuthInfoFromTLS`).

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HeaderMap};
use member::etcd_front::{CallRefused, CallResult, Credentials, Method as KvMethod, Need};

use super::runtime::{FrontCall, Runtime, WatchCall};
use crate::grpc::Metadata;

/// The keys of metadata that hold a token, in the order in which they are looked for
/// (`rpctypes.TokenFieldNameGRPC`, `TokenFieldNameSwagger`).
const TOKEN_KEYS: [&str; 2] = ["token", "authorization"];

/// What a gateway adds to the metadata of the calls that it passes on.
const FROM_GATEWAY: &str = "grpcgateway-accept";

/// The headers of HTTP that a gateway passes on as the metadata with a token.
const TOKEN_HEADERS: [&str; 2] = ["grpc-metadata-token", "grpc-metadata-authorization"];

/// What a token may begin with, in any case but this without effect.
const BEARER: &str = "Bearer ";

/// A client, for one call.
#[derive(Clone)]
pub(super) struct Client {
    pub runtime: Rc<Runtime>,
    said: Said,
}

/// What a client says of itself.
#[derive(Clone)]
enum Said {
    Nothing,
    Token(Arc<str>),
    /// The common name of its certificate.
    Certificate(Arc<str>),
    /// It is the member itself.
    Member,
}

impl Client {
    /// The client of a call of gRPC, on a connection with a certificate of this common name.
    pub fn of_call(
        runtime: &Rc<Runtime>,
        metadata: &Metadata,
        certificate: Option<&Arc<str>>,
    ) -> Client {
        let token = TOKEN_KEYS.iter().find_map(|key| metadata.text(key));
        let is_direct = || metadata.text(FROM_GATEWAY).is_none();
        let said = match (token, certificate) {
            (Some(token), _) => Said::token(token),
            (None, Some(name)) if is_direct() => Said::Certificate(name.clone()),
            _ => Said::Nothing,
        };
        Client { runtime: runtime.clone(), said }
    }

    /// The client of a call of the gateway.
    pub fn of_request(runtime: &Rc<Runtime>, headers: &HeaderMap) -> Client {
        let mut names = TOKEN_HEADERS.iter().copied();
        let value = names.find_map(|name| headers.get(name)).or(headers.get(AUTHORIZATION));
        let token = value.and_then(|value| value.to_str().ok());
        Client { runtime: runtime.clone(), said: token.map_or(Said::Nothing, Said::token) }
    }

    /// The member itself, as a client.
    pub fn of_member(runtime: &Rc<Runtime>) -> Client {
        Client { runtime: runtime.clone(), said: Said::Member }
    }

    /// What it says of itself now: a signed token is valid for a time.
    pub fn credentials(&self) -> Credentials {
        match &self.said {
            Said::Nothing => Credentials::Nobody,
            Said::Token(token) => self.runtime.member.tokens.credentials(token),
            Said::Certificate(name) => Credentials::Certificate(name.clone()),
            Said::Member => Credentials::Member,
        }
    }

    /// Hands a call to the Front.
    pub fn begin(&self, method: KvMethod, request: Bytes) -> FrontCall {
        self.runtime.begin(method, request, self.credentials())
    }

    /// Runs a call with one response. Dropping the future cancels it.
    pub async fn run(&self, method: KvMethod, request: Bytes) -> CallResult {
        self.runtime.run(method, request, self.credentials()).await
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
        self.run(KvMethod::Need(need), Bytes::new()).await.map(drop)
    }
}

impl Said {
    fn token(text: &str) -> Said {
        Said::Token(text.strip_prefix(BEARER).unwrap_or(text).into())
    }
}
