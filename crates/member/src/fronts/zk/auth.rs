//! Proofs of identity: SASL exchanges, the `ensemble` scheme, and what a client that has proved
//! nothing may ask for.
//!
//! None of this is replicated. Each member knows its own users, as ZooKeeper's servers do; the
//! identities that a connection has proved travel with its commands.

use std::collections::{BTreeMap, BTreeSet};

use machine::ConnectionId;
use zk::ErrorCode;
use zk::auth::digest_identities;
use zk::request::opcode;
use zk::sasl::{NONCE_BYTES, SaslError, Step};

use super::ZkFront;
use super::connection::{Asked, SlotKind};

/// How clients may prove their identity on this member's connections, and whether they must.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthConfig {
    /// The users of SASL's DIGEST-MD5 with their passwords; `None` if no mechanism is offered.
    pub sasl_users: Option<BTreeMap<String, String>>,
    /// SASL users that are super users too (`zookeeper.superUser`).
    pub sasl_super_users: BTreeSet<String>,
    /// Whether a client that fails keeps its connection (`zookeeper.allowSaslFailedClients`).
    pub sasl_failed_allowed: bool,
    /// The names that the `ensemble` scheme accepts; `None` if there is no such scheme.
    pub ensemble: Option<EnsembleNames>,
    /// A connection must have proved one of these schemes before it may ask for anything, unless
    /// there are none (`enforce.auth.schemes`, `sessionRequireClientSASLAuth`).
    pub enforced_schemes: BTreeSet<String>,
}

/// The names that clients may use for this ensemble (`ensembleAuthName`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnsembleNames {
    /// No name is configured, and any is accepted.
    Any,
    /// One of these.
    These(BTreeSet<String>),
}

impl EnsembleNames {
    /// `EnsembleAuthenticationProvider.handleAuthentication`: a client that gives no name is
    /// accepted.
    fn accept(&self, name: &[u8]) -> bool {
        match self {
            EnsembleNames::Any => true,
            EnsembleNames::These(names) => {
                name.is_empty() || names.contains(&*String::from_utf8_lossy(name))
            }
        }
    }
}

/// The result of an auth packet of the scheme `ensemble`.
pub(super) enum Ensemble {
    /// There is no such scheme.
    Unknown,
    Accepted,
    /// The connection is closed without an answer, so that the client tries another server rather
    /// than gives up.
    Refused,
}

impl ZkFront {
    pub(super) fn on_auth(&mut self, asked: Asked, scheme: &str, credentials: Option<&[u8]>) {
        let id = asked.id;
        let accepted = match scheme {
            // `DigestAuthenticationProvider` fails on null; others do not look, or take it for
            // empty.
            "digest" => credentials.is_some_and(|credentials| self.add_digest(id, credentials)),
            "ip" => true,
            "ensemble" => match self.check_ensemble(id, credentials.unwrap_or_default()) {
                Ensemble::Accepted => true,
                Ensemble::Unknown => false,
                Ensemble::Refused => return,
            },
            "x509" => self.has_certificate(id),
            _ => false,
        };
        if accepted {
            self.push_slot(asked, SlotKind::AuthAccepted);
        } else {
            self.metrics.auth_failed_count += 1;
            self.fail(asked, ErrorCode::AUTH_FAILED, Some(0), true);
        }
    }

    /// `X509AuthenticationProvider.handleAuthentication`: an auth packet only checks again the
    /// certificate of the connection.
    fn has_certificate(&self, id: ConnectionId) -> bool {
        let connection = self.connections.get(&id).expect("its frame was just decoded");
        connection.identity.has_scheme(|scheme| scheme == "x509")
    }

    fn add_digest(&mut self, id: ConnectionId, credentials: &[u8]) -> bool {
        let Some(proved) = digest_identities(&self.settings, credentials) else { return false };
        let proved: Vec<_> = proved.iter().map(|(scheme, id)| (*scheme, &**id)).collect();
        self.add_identities(id, &proved)
    }

    /// Whether a request with this opcode is refused, because its connection has proved none of the
    /// enforced schemes (`AuthenticationHelper.enforceAuthentication`). Even pings are refused.
    pub(super) fn lacks_auth(&self, id: ConnectionId, opcode: i32) -> bool {
        let enforced = &self.config.auth.enforced_schemes;
        if enforced.is_empty() || matches!(opcode, opcode::AUTH | opcode::SASL) {
            return false;
        }
        let connection = self.connections.get(&id).expect("its frame was just decoded");
        !connection.identity.has_scheme(|scheme| enforced.contains(scheme))
    }

    /// Checks an auth packet of the scheme `ensemble`, which proves nothing about the client.
    pub(super) fn check_ensemble(&mut self, id: ConnectionId, name: &[u8]) -> Ensemble {
        match &self.config.auth.ensemble {
            None => Ensemble::Unknown,
            Some(names) if names.accept(name) => Ensemble::Accepted,
            Some(_) => {
                let name = String::from_utf8_lossy(name).into_owned();
                self.disconnect(id, &format!("it looks for the ensemble {name:?}"));
                Ensemble::Refused
            }
        }
    }

    /// Takes a token of a SASL exchange (`ZooKeeperServer.processSasl`). If no mechanism is
    /// offered, the answer has no token and no error: the client then gives up, or goes on without
    /// SASL.
    pub(super) fn on_sasl(&mut self, asked: Asked, token: &[u8]) {
        let id = asked.id;
        let config = self.config.auth.clone();
        let Some(users) = &config.sasl_users else {
            let kind = SlotKind::Sasl { token: None, error: ErrorCode::OK, close: false };
            self.push_slot(asked, kind);
            return;
        };
        let nonce = self.draw_nonce();
        let connection = self.connections.get_mut(&id).expect("its frame was just decoded");
        let password = |user: &str| users.get(user).map(String::as_str);
        let step = connection.identity.step_sasl(token, &nonce, password);
        let token = match step {
            Ok(Step::Challenge(token)) => token,
            Ok(Step::Authenticated { user, token }) => {
                let is_super = config.sasl_super_users.contains(&user);
                let identities = [("sasl", &*user), ("super", "")];
                if !self.add_identities(id, &identities[..1 + usize::from(is_super)]) {
                    self.disconnect(id, "it collects too many identities");
                    return;
                }
                token
            }
            Err(error) => {
                self.fail_sasl(asked, &error);
                return;
            }
        };
        let token = Some(token.into());
        self.push_slot(asked, SlotKind::Sasl { token, error: ErrorCode::OK, close: false });
    }

    /// Answers a failure, which ends the connection unless failures are allowed and SASL is not
    /// required.
    fn fail_sasl(&mut self, asked: Asked, failure: &SaslError) {
        let id = asked.id;
        self.metrics.auth_failed_count += 1;
        let required = self.config.auth.enforced_schemes.contains("sasl");
        let close = required || !self.config.auth.sasl_failed_allowed;
        let error = match close {
            true if required => ErrorCode::AUTH_REQUIRED,
            true => ErrorCode::AUTH_FAILED,
            false => ErrorCode::OK,
        };
        // A client that stays could repeat such failures for ever, so they are not logged.
        if close || !matches!(failure, SaslError::Over | SaslError::TokenTooLong { .. }) {
            self.notice(id, &format!("SASL: {failure}"));
        }
        self.push_slot(asked, SlotKind::Sasl { token: None, error, close });
        if close {
            self.forget_input(id);
        }
    }

    /// Adds identities that a connection has just proved. False if they are too many.
    pub(super) fn add_identities(&mut self, id: ConnectionId, proved: &[(&str, &str)]) -> bool {
        let connection = self.connections.get_mut(&id).expect("its frame was just decoded");
        connection.identity.add(proved)
    }

    /// A nonce that nobody can guess.
    fn draw_nonce(&mut self) -> [u8; NONCE_BYTES] {
        let secret = self.admission.draw(&self.config.secret, self.config.id);
        let (nonce, _) = secret.split_first_chunk().expect("a secret is longer than a nonce");
        *nonce
    }
}
