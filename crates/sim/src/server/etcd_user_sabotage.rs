//! Deliberate mistakes with etcd's users and permissions. The client that checks users must notice
//! each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::etcd::auth::Auth;
use machine::etcd::token::Token;
use member::fronts::etcd::{Credentials, EtcdMethod, PasswordDone};

use crate::etcd_clients::network::{FromClient, FromWatcher};

/// A deliberate mistake with users and permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserSabotage {
    /// Permissions are checked on reads only.
    WritesUnchecked,
    /// Permissions are not checked on watches.
    WatchesUnchecked,
    /// Clients without credentials have all permissions.
    NobodyIsRoot,
    /// A member refuses a token that it does not know, although it may just lag behind.
    UnknownRefused,
    /// Tokens stay valid after a change of the password.
    TokensSurvive,
    /// Every password counts as right.
    PasswordsIgnored,
}

/// Applies the sabotage to messages of clients.
#[derive(Default)]
pub(super) struct UserForger {
    /// The user of each token that was ever valid.
    known: BTreeMap<Arc<str>, Arc<str>>,
}

impl UserForger {
    /// Changes a client's message on its way to the Front.
    pub fn message(&mut self, sabotage: UserSabotage, message: &mut FromClient, auth: &Auth) {
        let (credentials, is_write) = match message {
            FromClient::Call { method: EtcdMethod::Auth(_), .. } => return,
            FromClient::Call { credentials, method, .. } => (
                credentials,
                matches!(method, EtcdMethod::Put | EtcdMethod::Txn | EtcdMethod::DeleteRange),
            ),
            FromClient::Watch(_, FromWatcher::Open { credentials, .. }) => {
                if sabotage == UserSabotage::WatchesUnchecked {
                    *credentials = Credentials::Member;
                }
                return;
            }
            _ => return,
        };
        match (sabotage, &*credentials) {
            (UserSabotage::WritesUnchecked, _) if is_write => *credentials = Credentials::Member,
            (UserSabotage::NobodyIsRoot, Credentials::Nobody) => *credentials = Credentials::Member,
            (UserSabotage::UnknownRefused, Credentials::Token(text))
                if auth.is_enabled() && user_of(auth, text).is_none() =>
            {
                *credentials = Credentials::InvalidToken;
            }
            (UserSabotage::TokensSurvive, Credentials::Token(text)) => {
                if let Some(user) = user_of(auth, text) {
                    self.known.insert(text.clone(), user);
                } else if let Some(user) = self.known.get(text) {
                    *credentials = Credentials::Certificate(user.clone());
                }
            }
            _ => {}
        }
    }
}

/// Changes the result of password work on its way to the Front.
pub(super) fn forge_password(sabotage: UserSabotage, done: &mut PasswordDone) {
    if sabotage == UserSabotage::PasswordsIgnored && matches!(done, PasswordDone::Wrong) {
        *done = PasswordDone::RightFor(*b"abcdefghijklmnop");
    }
}

fn user_of(auth: &Auth, text: &str) -> Option<Arc<str>> {
    auth.user_of_token(Token::parse(text)?).cloned()
}
