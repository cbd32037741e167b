//! Finds the user that a client's credentials (a token or a certificate) belong to.

use std::sync::Arc;

use machine::etcd::auth::{Access, Auth, AuthInfo, ROOT_USER};
use machine::etcd::command::KeyRange;
use machine::etcd::reply::Refusal;
use machine::etcd::token::Token;

/// The credentials that a client sends with a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// The client sent none.
    #[default]
    Nobody,
    /// A simple token, as the client sent it.
    Token(Arc<str>),
    /// A valid signed token. It names a user, and a revision of users and roles.
    Signed {
        /// The user.
        user: Arc<str>,
        /// The revision.
        revision: u64,
    },
    /// A token that is not valid.
    InvalidToken,
    /// A client certificate that names this user.
    Certificate(Arc<str>),
    /// The member itself calls, with the rights of `root` (`authStore.WithRoot`).
    Member,
}

impl Credentials {
    /// The user in a certificate or a signed token. While permissions are not enforced, nothing
    /// else is known of a client.
    pub fn claimed_user(&self) -> Option<&Arc<str>> {
        match self {
            Credentials::Certificate(user) | Credentials::Signed { user, .. } => Some(user),
            _ => None,
        }
    }
}

/// The user of a call.
#[derive(Clone, Debug)]
pub(super) struct Who {
    user: Arc<str>,
    /// The revision of users and roles: the one in a signed token, or the one at which the user was
    /// found.
    revision: u64,
}

/// The client of a call that sent credentials.
#[derive(Clone, Debug)]
pub(super) struct ClientIdentity {
    credentials: Credentials,
    /// Whether this member has applied all that the client can know of, users and tokens included.
    is_synced: bool,
    /// Whether [`ClientIdentity::find`] has succeeded.
    is_found: bool,
    /// The user, once it was found while permissions were enforced. It is kept during the call, so
    /// a long read fails if users or roles change meanwhile (`EtcdServer.doSerialize`).
    who: Option<Who>,
}

/// The client of a call; `None` if it sent no credentials.
pub(super) type Asker = Option<Box<ClientIdentity>>;

/// The client with these credentials. `is_synced` is true if this member has applied everything
/// that the client can know of.
pub(super) fn asker(credentials: Credentials, is_synced: bool) -> Asker {
    match credentials {
        Credentials::Nobody => None,
        credentials => {
            Some(Box::new(ClientIdentity { credentials, is_synced, is_found: false, who: None }))
        }
    }
}

/// The user of a call, to check its rights. `None` if there are no credentials, permissions are not
/// enforced, or [`ClientIdentity::find`] was not called.
pub(super) fn info(asker: &Asker) -> Option<AuthInfo<'_>> {
    let Who { user, revision } = asker.as_deref()?.who.as_ref()?;
    Some(AuthInfo { user, revision: *revision })
}

impl ClientIdentity {
    /// Finds the user, if permissions are enforced. `is_used` says whether a token was used lately.
    ///
    /// # Errors
    /// `NotYet` if a sync may help, `Never` if not.
    pub fn find(
        &mut self,
        auth: &Auth,
        is_used: impl FnOnce(Token) -> bool,
    ) -> Result<(), NotFound> {
        if self.who.is_some() {
            return Ok(());
        }
        let found = resolve(auth, &self.credentials, is_used);
        let may_lag = match &found {
            // This member may not have applied yet that permissions are no longer enforced: then
            // the token does not matter.
            Err(InvalidToken) => true,
            // This member may not have applied yet that permissions are enforced: a client with a
            // token knows that they were.
            Ok(None) => matches!(self.credentials, Credentials::Token(_)),
            Ok(Some(_)) => false,
        };
        if may_lag && !self.is_synced {
            self.is_synced = true;
            return Err(NotFound::NotYet);
        }
        let who = found.map_err(|InvalidToken| NotFound::Never)?;
        (self.is_found, self.who) = (true, who);
        Ok(())
    }

    /// The user, if it was found while permissions were enforced.
    pub fn user(&self) -> Option<&Arc<str>> {
        self.who.as_ref().map(|who| &who.user)
    }

    /// Forgets the user, because another state, with other users, has replaced the old one.
    pub fn forget(&mut self) {
        (self.is_found, self.who) = (false, None);
    }

    /// Notes that this member has applied everything that was committed when the call came.
    pub fn on_synced(&mut self) {
        self.is_synced = true;
    }

    /// Whether a command of this client must wait until its user is found. `may_be_enforced` is
    /// what this member knows of permissions.
    pub fn must_be_found(&self, may_be_enforced: bool) -> bool {
        let has_token = matches!(self.credentials, Credentials::Token(_));
        !self.is_found && (may_be_enforced || has_token)
    }
}

/// Why no user was found for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// This member may lag behind the tokens and permissions that the client knows of: a sync may
    /// help.
    NotYet,
    /// The token is not valid.
    Never,
}

/// The token is malformed, expired, or belongs to no user, as far as this member knows.
struct InvalidToken;

/// The user with these credentials; `None` if permissions are not enforced or there are no
/// credentials. `is_used` says whether a token was used lately.
fn resolve(
    auth: &Auth,
    credentials: &Credentials,
    is_used: impl FnOnce(Token) -> bool,
) -> Result<Option<Who>, InvalidToken> {
    if !auth.is_enabled() {
        return Ok(None);
    }
    let now = auth.revision();
    let (user, revision) = match credentials {
        Credentials::Nobody => return Ok(None),
        Credentials::Token(text) => {
            let token = Token::parse(text).ok_or(InvalidToken)?;
            let user = auth.user_of_token(token).ok_or(InvalidToken)?;
            if !is_used(token) {
                return Err(InvalidToken);
            }
            (user.clone(), now)
        }
        Credentials::Signed { user, revision } => (user.clone(), *revision),
        Credentials::InvalidToken => return Err(InvalidToken),
        Credentials::Certificate(user) => (user.clone(), now),
        Credentials::Member => (ROOT_USER.into(), now),
    };
    Ok(Some(Who { user, revision }))
}

/// The reason why a watch is not permitted, as text with the code for the client
/// (`serverWatchStream.isWatchPermitted`); `None` if it is permitted. An unknown token is invalid:
/// the watch stream has waited for a sync already.
pub(super) fn watch_refusal(
    auth: &Auth,
    credentials: &Credentials,
    range: KeyRange<'_>,
    is_used: impl FnOnce(Token) -> bool,
) -> Option<&'static str> {
    let Ok(who) = resolve(auth, credentials, is_used) else {
        return Some("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token");
    };
    let who = who.as_ref().map(|Who { user, revision }| AuthInfo { user, revision: *revision });
    Some(match auth.require(who, Access::Read, range).err()? {
        Refusal::UserEmpty => {
            "rpc error: code = InvalidArgument desc = etcdserver: user name is empty"
        }
        Refusal::AuthOldRevision => {
            "rpc error: code = InvalidArgument desc = etcdserver: revision of auth store is old"
        }
        _ => "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
    })
}
