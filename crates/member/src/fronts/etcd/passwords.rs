//! Work on passwords, and the calls that wait for it.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use etcd::convert::AuthChange;
use etcd::pb::etcdserverpb as pb;
use machine::etcd::token::TokenPrefix;

use super::credentials::Asker;
use super::method::EtcdMethod;

/// Work on a password, which takes long: the driver does it on another thread.
#[derive(Debug)]
pub struct PasswordWork {
    /// The password.
    pub password: Vec<u8>,
    /// What to do with it.
    pub task: PasswordTask,
    /// Gone when nobody waits for the result.
    pub waits: Weak<()>,
}

/// What to do with a password.
#[derive(Debug)]
pub enum PasswordTask {
    /// Make a hash of it.
    Hash,
    /// Compare it with a hash, and make what proves it: a signed token, or the letters of another.
    Check {
        /// The hash.
        hash: Box<[u8]>,
        /// The user.
        user: Arc<str>,
        /// The revision of users and roles.
        revision: u64,
    },
    /// Work as long as for a comparison, and find it wrong: there is no such user, and how long the
    /// answer takes is not to tell that.
    Pretend,
    /// Compare it with a hash, for a client of etcd v2. The Front never asks for that, but requests
    /// of etcd v2 do ([`Work`](super::v2::clients::Work)).
    Verify {
        /// The hash.
        hash: Arc<[u8]>,
        /// The user.
        user: Arc<str>,
    },
}

/// The result of work on a password.
#[derive(Debug)]
pub enum PasswordDone {
    /// The hash.
    Hashed(Vec<u8>),
    /// The password is right, and these are random letters for a simple token.
    RightFor(TokenPrefix),
    /// The password is right, and this is a signed token.
    Signed(String),
    /// The password is right.
    Right,
    /// The password is wrong.
    Wrong,
    /// The password is right, and no token can be made; the text is etcd's.
    NoToken(&'static str),
    /// There was no room for the work.
    TooMuchWork,
}

/// A call that waits for work on a password.
pub(super) enum PasswordCall {
    /// A change that needs the hash.
    Change(AuthChange, Asker, (EtcdMethod, Bytes)),
    /// A user that asks for a token: the request, and the revision of users and roles.
    Authenticate(pb::AuthenticateRequest, u64),
}

impl PasswordCall {
    pub fn name(&self) -> &'static str {
        match self {
            PasswordCall::Change(..) => "a change",
            PasswordCall::Authenticate(..) => "a user that asks for a token",
        }
    }
}
