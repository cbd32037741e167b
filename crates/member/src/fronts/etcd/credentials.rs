//! Credentials: what clients say of themselves, and the users that they are by that.

use std::sync::Arc;

use machine::etcd::auth::{Access, Auth, AuthInfo, ROOT_USER};
use machine::etcd::command::KeyRange;
use machine::etcd::reply::Refusal;
use machine::etcd::token::Token;

/// What a client says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing.
    #[default]
    Nobody,
    /// A simple token, as it was sent.
    Token(Arc<str>),
    /// A signed token that is valid: it names a user, and a revision of users and roles.
    Signed {
        /// The user.
        user: Arc<str>,
        /// The revision.
        revision: u64,
    },
    /// A token that is not valid.
    InvalidToken,
    /// The user that a certificate names.
    Certificate(Arc<str>),
    /// The member itself, which may do what `root` may (`authStore.WithRoot`).
    Member,
}

impl Credentials {
    /// The user that a certificate or a signed token names. That is all that is known of a client
    /// while permissions are not enforced.
    pub fn claimed_user(&self) -> Option<&Arc<str>> {
        match self {
            Credentials::Certificate(user) | Credentials::Signed { user, .. } => Some(user),
            _ => None,
        }
    }
}

/// The user that a call is for.
#[derive(Clone, Debug)]
pub(super) struct Who {
    user: Arc<str>,
    /// The revision of users and roles: that of a signed token, or at which the user was found.
    revision: u64,
}

/// The client of a call that says something of itself.
#[derive(Clone, Debug)]
pub(super) struct Client {
    credentials: Credentials,
    /// Whether this member has applied what the client can know of.
    is_synced: bool,
    /// Whether it was looked for.
    is_found: bool,
    /// The user that it is, once that was asked for while permissions are enforced. It stays, so
    /// that a read which lasts ends with a change of users and roles (`EtcdServer.doSerialize`).
    who: Option<Who>,
}

/// The client of a call; `None` if it says nothing of itself.
pub(super) type Asker = Option<Box<Client>>;

/// The client with these credentials. `is_synced` says that it knows of nothing that this member
/// has not applied.
pub(super) fn asker(credentials: Credentials, is_synced: bool) -> Asker {
    match credentials {
        Credentials::Nobody => None,
        credentials => {
            Some(Box::new(Client { credentials, is_synced, is_found: false, who: None }))
        }
    }
}

/// The user of a call, for a check; `None` unless [`Client::find`] came before.
pub(super) fn info(asker: &Asker) -> Option<AuthInfo<'_>> {
    let Who { user, revision } = asker.as_deref()?.who.as_ref()?;
    Some(AuthInfo { user, revision: *revision })
}

impl Client {
    /// Finds its user, as far as permissions are enforced. `is_used` says whether a token was used
    /// lately.
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
            // Permissions may no longer be enforced, and then no token is looked at.
            Err(InvalidToken) => true,
            // A client with a token knows that permissions were enforced.
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

    /// The user that it was found to be, if permissions are enforced.
    pub fn user(&self) -> Option<&Arc<str>> {
        self.who.as_ref().map(|who| &who.user)
    }

    /// Another state took the place of the one before, with other users.
    pub fn forget(&mut self) {
        (self.is_found, self.who) = (false, None);
    }

    /// Notes that this member has applied what was committed when the call came, or later.
    pub fn on_synced(&mut self) {
        self.is_synced = true;
    }

    /// Whether a command of it must wait until its user is known. `may_be_enforced` says
    /// whether permissions are enforced, as far as this member knows.
    pub fn must_be_found(&self, may_be_enforced: bool) -> bool {
        let has_token = matches!(self.credentials, Credentials::Token(_));
        !self.is_found && (may_be_enforced || has_token)
    }
}

/// Why the user of a client was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// This member may lag behind what the client knows of tokens and permissions.
    NotYet,
    /// The token is not valid.
    Never,
}

/// The token is not valid, or no user has it, as far as this member knows.
struct InvalidToken;

/// The user with these credentials; `is_used` says whether a token was used lately.
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

/// Why a watch is not permitted, as its client is told: with the code
/// (`serverWatchStream.isWatchPermitted`). A token that is unknown is not valid: the stream has
/// waited for what its client may know.
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
