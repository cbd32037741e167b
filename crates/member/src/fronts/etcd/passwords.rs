//! Types of the work on passwords (hashing, comparing), which other threads do, and of the calls
//! that wait for the result.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use etcd::convert::AuthChange;
use etcd::pb::etcdserverpb as pb;
use machine::etcd::token::TokenPrefix;

use super::credentials::Asker;
use super::method::EtcdMethod;

/// Work on a password. It takes long, so the driver has another thread do it.
#[derive(Debug)]
pub struct PasswordWork {
    /// The password.
    pub password: Vec<u8>,
    /// The work.
    pub task: PasswordTask,
    /// Dead once nobody waits for the result. The thread may then skip the work.
    pub waits: Weak<()>,
}

/// The work to do on a password.
#[derive(Debug)]
pub enum PasswordTask {
    /// Hash the password.
    Hash,
    /// Compare the password with a hash. If it is right, make a signed token, or random letters for
    /// a simple token.
    Check {
        /// The hash.
        hash: Box<[u8]>,
        /// The user.
        user: Arc<str>,
        /// The revision of users and roles.
        revision: u64,
    },
    /// Take as long as a comparison, and report a wrong password. There is no such user, and the
    /// time of the answer must not reveal that.
    Pretend,
    /// Compare the password with a hash, for a client of etcd v2. A Front never asks for this;
    /// requests of etcd v2 do ([`Work`](super::v2::clients::Work)).
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
    /// The password is right. The letters are random, for a simple token.
    RightFor(TokenPrefix),
    /// The password is right, and this is the signed token.
    Signed(String),
    /// The password is right.
    Right,
    /// The password is wrong.
    Wrong,
    /// The password is right, but no token can be made; the text is etcd's.
    NoToken(&'static str),
    /// Too much such work is queued; this work was not done.
    TooMuchWork,
}

/// A call that waits for work on a password.
pub(super) enum PasswordCall {
    /// A change of users that needs the hash, with its client and its request.
    Change(AuthChange, Asker, (EtcdMethod, Bytes)),
    /// A user that asks for a token: the request, and the revision of users and roles at which the
    /// hash was read.
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
