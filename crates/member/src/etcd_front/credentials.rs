//! What clients say of themselves, and who they are by that.

use std::sync::Arc;

use machine::etcd::auth::{Access, Auth, AuthInfo, ROOT_USER};
use machine::etcd::command::KeyRange;
use machine::etcd::reply::Refusal;
use machine::etcd::token::Token;

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
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

/// The user that a call is for.
#[derive(Clone, Debug)]
pub(super) struct Who {
    user: Arc<str>,
    /// The revision of users and roles: that of a signed token, or at which the user was found.
    revision: u64,
    /// Whether the revision stays when a read begins.
    is_fixed: bool,
}

impl Who {
    /// Who asks, for a check.
    pub fn info(&self) -> AuthInfo<'_> {
        AuthInfo { user: &self.user, revision: self.revision }
    }
}

/// Who a call is for, if anybody.
pub(super) type Asker = Option<Box<Who>>;

/// Who asks, for a check.
pub(super) fn info(asker: &Asker) -> Option<AuthInfo<'_>> {
    asker.as_deref().map(Who::info)
}

/// Takes the present revision for a read that begins, and keeps it for the rest of the read: one
/// that lasts ends with a change of users and roles (`EtcdServer.doSerialize`).
pub(super) fn begin_read(asker: &mut Asker, auth: &Auth) {
    if let Some(who) = asker
        && !who.is_fixed
    {
        who.revision = auth.revision();
        who.is_fixed = true;
    }
}

/// Why nobody knows who asks.
pub(super) enum Unresolved {
    /// The token is not valid.
    Invalid,
    /// Nobody has the token, as far as this member knows.
    Unknown,
}

/// Who has these credentials; `is_used` says whether a token was used lately.
pub(super) fn resolve(
    auth: &Auth,
    credentials: &Credentials,
    is_used: impl FnOnce(Token) -> bool,
) -> Result<Asker, Unresolved> {
    if !auth.is_enabled() {
        return Ok(None);
    }
    let now = auth.revision();
    let (user, revision, is_fixed) = match credentials {
        Credentials::Nobody => return Ok(None),
        Credentials::Token(text) => {
            let token = Token::parse(text).ok_or(Unresolved::Invalid)?;
            let user = auth.user_of_token(token).ok_or(Unresolved::Unknown)?;
            if !is_used(token) {
                return Err(Unresolved::Invalid);
            }
            (user.clone(), now, false)
        }
        Credentials::Signed { user, revision } => (user.clone(), *revision, true),
        Credentials::InvalidToken => return Err(Unresolved::Invalid),
        Credentials::Certificate(user) => (user.clone(), now, false),
        Credentials::Member => (ROOT_USER.into(), now, false),
    };
    Ok(Some(Box::new(Who { user, revision, is_fixed })))
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
    let Ok(asker) = resolve(auth, credentials, is_used) else {
        return Some("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token");
    };
    Some(match auth.require(info(&asker), Access::Read, range).err()? {
        Refusal::UserEmpty => {
            "rpc error: code = InvalidArgument desc = etcdserver: user name is empty"
        }
        Refusal::AuthOldRevision => {
            "rpc error: code = InvalidArgument desc = etcdserver: revision of auth store is old"
        }
        _ => "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
    })
}
