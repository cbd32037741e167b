//! Lets clients prove their identity, with auth packets, SASL exchanges and the `ensemble` scheme.
//! If the configuration names schemes that clients must use, refuses requests from clients that
//! have used none of them.
//!
//! None of this is replicated. As in ZooKeeper, each server has its own list of SASL users. The
//! identities that a connection has proved are sent with its commands.

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
    /// The users of SASL's DIGEST-MD5 and their passwords; `None` if the server offers no SASL
    /// mechanism.
    pub sasl_users: Option<BTreeMap<String, String>>,
    /// SASL users that are also super users (`zookeeper.superUser`).
    pub sasl_super_users: BTreeSet<String>,
    /// Whether a client that fails keeps its connection (`zookeeper.allowSaslFailedClients`).
    pub sasl_failed_allowed: bool,
    /// The names that the `ensemble` scheme accepts; `None` if the scheme is off.
    pub ensemble: Option<EnsembleNames>,
    /// A connection must prove an identity of one of these schemes before any other request. If the
    /// set is empty, it need not (`enforce.auth.schemes`, `sessionRequireClientSASLAuth`).
    pub enforced_schemes: BTreeSet<String>,
}

/// The names that clients may use for this ensemble (`ensembleAuthName`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnsembleNames {
    /// No name is configured, so any name is accepted.
    Any,
    /// One of these names.
    These(BTreeSet<String>),
}

impl EnsembleNames {
    /// Whether the scheme accepts a client that gives this name. A client that gives none is
    /// accepted (`EnsembleAuthenticationProvider.handleAuthentication`).
    fn accept(&self, name: &[u8]) -> bool {
        match self {
            EnsembleNames::Any => true,
            EnsembleNames::These(names) => {
                name.is_empty() || names.contains(&*String::from_utf8_lossy(name))
            }
        }
    }
}

/// The result of an auth packet with the scheme `ensemble`.
pub(super) enum Ensemble {
    /// The scheme is off.
    Unknown,
    Accepted,
    /// The name is wrong. The connection is closed without an answer, so that the client tries
    /// another server instead of giving up.
    Refused,
}

impl ZkFront {
    pub(super) fn on_auth(&mut self, asked: Asked, scheme: &str, credentials: Option<&[u8]>) {
        let id = asked.id;
        let accepted = match scheme {
            // `DigestAuthenticationProvider` fails on null credentials. Other schemes ignore the
            // credentials, or take null as empty.
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

    /// Whether the connection has shown a certificate. An auth packet with `x509` proves nothing
    /// new (`X509AuthenticationProvider.handleAuthentication`).
    fn has_certificate(&self, id: ConnectionId) -> bool {
        let connection = self.connections.get(&id).expect("its frame was just decoded");
        connection.identity.has_scheme(|scheme| scheme == "x509")
    }

    fn add_digest(&mut self, id: ConnectionId, credentials: &[u8]) -> bool {
        let Some(proved) = digest_identities(&self.settings, credentials) else { return false };
        let proved: Vec<_> = proved.iter().map(|(scheme, id)| (*scheme, &**id)).collect();
        self.add_identities(id, &proved)
    }

    /// Whether a request is refused because its connection has proved no identity with one of the
    /// enforced schemes (`AuthenticationHelper.enforceAuthentication`). Even pings are refused.
    pub(super) fn lacks_auth(&self, id: ConnectionId, opcode: i32) -> bool {
        let enforced = &self.config.auth.enforced_schemes;
        if enforced.is_empty() || matches!(opcode, opcode::AUTH | opcode::SASL) {
            return false;
        }
        let connection = self.connections.get(&id).expect("its frame was just decoded");
        !connection.identity.has_scheme(|scheme| enforced.contains(scheme))
    }

    /// Checks the name in an auth packet of the scheme `ensemble`. It proves nothing about the
    /// client.
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

    /// Answers a failed SASL exchange. The failure ends the connection, unless the configuration
    /// allows failures and does not require SASL.
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
        // A client that stays could repeat these failures for ever, so they are not logged.
        if close || !matches!(failure, SaslError::Over | SaslError::TokenTooLong { .. }) {
            self.notice(id, &format!("SASL: {failure}"));
        }
        self.push_slot(asked, SlotKind::Sasl { token: None, error, close });
        if close {
            self.forget_input(id);
        }
    }

    /// Adds identities that a connection has just proved. Returns false if they are too many.
    pub(super) fn add_identities(&mut self, id: ConnectionId, proved: &[(&str, &str)]) -> bool {
        let connection = self.connections.get_mut(&id).expect("its frame was just decoded");
        connection.identity.add(proved)
    }

    /// Draws a nonce that nobody can guess.
    fn draw_nonce(&mut self) -> [u8; NONCE_BYTES] {
        let secret = self.admission.draw(&self.config.secret, self.config.id);
        let (nonce, _) = secret.split_first_chunk().expect("a secret is longer than a nonce");
        *nonce
    }
}
