//! Mistakes that the shell makes with users of etcd on purpose, to see that the actor that judges
//! them notices each.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::etcd::auth::Auth;
use machine::etcd::token::Token;
use member::fronts::etcd::{Credentials, EtcdMethod, PasswordDone};

use crate::etcd_clients::network::{FromClient, FromWatcher};

/// A mistake with users and permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserSabotage {
    /// Permissions are checked on reads only.
    WritesUnchecked,
    /// Permissions are not checked on watches.
    WatchesUnchecked,
    /// Clients without credentials may do everything.
    NobodyIsRoot,
    /// A token that a member does not know is refused, though the member may lag.
    UnknownRefused,
    /// Tokens outlive a change of the password.
    TokensSurvive,
    /// Every password is right.
    PasswordsIgnored,
}

/// Makes the mistake.
#[derive(Default)]
pub(super) struct UserForger {
    /// The users of the tokens that were valid once.
    known: BTreeMap<Arc<str>, Arc<str>>,
}

impl UserForger {
    /// A message of a client, as the Front gets it.
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

/// The result of work on a password, as the Front gets it.
pub(super) fn forge_password(sabotage: UserSabotage, done: &mut PasswordDone) {
    if sabotage == UserSabotage::PasswordsIgnored && matches!(done, PasswordDone::Wrong) {
        *done = PasswordDone::RightFor(*b"abcdefghijklmnop");
    }
}

fn user_of(auth: &Auth, text: &str) -> Option<Arc<str>> {
    auth.user_of_token(Token::parse(text)?).cloned()
}
