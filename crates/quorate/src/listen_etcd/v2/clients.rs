//! Whom a request of etcd v2 is for, by its basic authentication or the certificate of its
//! connection (`v2http/client_auth.go` of etcd 3.4).
//!
//! A client sends its password with each request, and a hash takes 50 ms to compare. So a
//! connection runtime keeps, of each user, a keyed hash of the last password that was right.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use etcd::Error;
use etcd::v2::Request;
use hyper::header::{AUTHORIZATION, HeaderMap};
use machine::etcd_v2::auth::{Auth, Who};
use member::fronts::etcd::{CallRefused, PasswordDone, PasswordTask, PasswordWork, V2Found};

use super::super::audit::Audited;
use super::super::client::Site;
use super::super::limits::V2_PROVEN_MAX;
use super::super::passwords::{For, log_wrong};
use super::super::runtime::Runtime;

/// Whom a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum V2Client {
    /// A client that names no user, or nobody asks.
    Guest,
    /// A user.
    User(Arc<str>),
    /// A client whose user does not exist, or whose password is wrong.
    Wrong,
}

impl V2Client {
    /// Whether it may see and change users and roles.
    pub fn is_root(&self, auth: &Auth) -> bool {
        match self {
            V2Client::Guest => auth.permits_root(Who::Guest),
            V2Client::User(user) => auth.permits_root(Who::User(user)),
            V2Client::Wrong => false,
        }
    }

    /// The user of a command or a read.
    pub fn user(self) -> Option<Arc<str>> {
        match self {
            V2Client::User(user) => Some(user),
            V2Client::Guest | V2Client::Wrong => None,
        }
    }
}

/// The passwords that were right lately: of each user one, for the hash that it was compared with.
#[derive(Default)]
pub(in super::super) struct ProvenPasswords {
    keys: [RandomState; 2],
    by_user: RefCell<HashMap<Arc<str>, Proven>>,
}

struct Proven {
    hash: Arc<[u8]>,
    password: [u64; 2],
}

impl ProvenPasswords {
    fn of(&self, password: &[u8]) -> [u64; 2] {
        [self.keys[0].hash_one(password), self.keys[1].hash_one(password)]
    }

    fn has(&self, user: &str, hash: &[u8], password: &[u8]) -> bool {
        let by_user = self.by_user.borrow();
        let is_it = |it: &Proven| *it.hash == *hash && it.password == self.of(password);
        by_user.get(user).is_some_and(is_it)
    }

    fn add(&self, user: &Arc<str>, hash: &Arc<[u8]>, password: &[u8]) {
        let mut by_user = self.by_user.borrow_mut();
        if by_user.len() >= V2_PROVEN_MAX {
            by_user.clear();
        }
        let proven = Proven { hash: hash.clone(), password: self.of(password) };
        by_user.insert(user.clone(), proven);
    }
}

/// Whether a client says who it is. If it does not, it is a guest.
pub(super) fn is_named(headers: &HeaderMap, site: &Site) -> bool {
    credentials(headers).is_some() || site.certificate.is_some()
}

/// The credentials of a request. An empty header counts as none.
fn credentials(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(AUTHORIZATION).map(|value| value.as_bytes()).filter(|value| !value.is_empty())
}

/// The users and roles.
///
/// # Errors
/// There are too many calls.
pub(super) async fn auth_of(runtime: &Rc<Runtime>) -> Result<Arc<Auth>, CallRefused> {
    match runtime.run_v2(Request::read_auth()).await? {
        Ok(V2Found::Auth(auth)) => Ok(auth),
        other => unreachable!("{other:?} is no answer to that"),
    }
}

/// Whom a request with these headers is for.
///
/// # Errors
/// There is no room for the work on its password.
pub(super) async fn client_of(
    runtime: &Runtime,
    auth: &Auth,
    headers: &HeaderMap,
    site: &Site,
) -> Result<V2Client, CallRefused> {
    if !auth.is_enabled() {
        return Ok(V2Client::Guest);
    }
    let Some(credentials) = credentials(headers) else {
        let user = site.certificate.clone().filter(|name| auth.users().contains_key(name));
        return Ok(user.map_or(V2Client::Guest, V2Client::User));
    };
    let named = basic(credentials);
    let known = named.as_ref().and_then(|(name, _)| auth.users().get_key_value(&**name));
    let Some((_, password)) = named else { return Ok(V2Client::Wrong) };
    let address = Some(site.peer.ip().to_canonical());
    let Some((user, known)) = known else {
        work(runtime, For { address, user: None }, password, PasswordTask::Pretend).await?;
        return Ok(V2Client::Wrong);
    };
    if runtime.proven_passwords.has(user, &known.hash, &password) {
        return Ok(V2Client::User(user.clone()));
    }
    let task = PasswordTask::Verify { hash: known.hash.clone() };
    let of = For { address, user: Some(user.clone()) };
    match work(runtime, of, password.clone(), task).await? {
        PasswordDone::Right => {
            runtime.proven_passwords.add(user, &known.hash, &password);
            Ok(V2Client::User(user.clone()))
        }
        _ => {
            match runtime.member.has_audit_log {
                true => Audited::wrong_password_of_v2(site.peer.ip(), user),
                false => log_wrong(|| {
                    tracing::info!("a password of the user {user:?} of etcd v2 is wrong");
                }),
            }
            Ok(V2Client::Wrong)
        }
    }
}

/// The hash of a new password.
///
/// # Errors
/// There is no room for the work.
pub(super) async fn hash_of(runtime: &Runtime, password: String) -> Result<Vec<u8>, CallRefused> {
    let of = For { address: None, user: None };
    match work(runtime, of, password.into_bytes(), PasswordTask::Hash).await? {
        PasswordDone::Hashed(hash) => Ok(hash),
        other => unreachable!("{other:?} is no hash"),
    }
}

async fn work(
    runtime: &Runtime,
    of: For,
    password: Vec<u8>,
    task: PasswordTask,
) -> Result<PasswordDone, CallRefused> {
    // Dropped with the request: then nobody waits.
    let waits = Arc::new(());
    let work = PasswordWork { password, task, waits: Arc::downgrade(&waits) };
    match runtime.passwords.submit(of, work).await {
        Ok(PasswordDone::TooMuchWork) | Err(_) => Err(Error::TooManyRequests.into()),
        Ok(done) => Ok(done),
    }
}

/// The name and the password of basic authentication; none if the text is something else (Go's
/// `net/http.parseBasicAuth`).
fn basic(credentials: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, rest) = credentials.split_at_checked(BASIC.len())?;
    if !scheme.eq_ignore_ascii_case(BASIC) {
        return None;
    }
    let mut decoded = STANDARD.decode(rest).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let password = decoded.split_off(colon + 1);
    decoded.pop();
    Some((String::from_utf8(decoded).ok()?, password))
}

const BASIC: &[u8] = b"Basic ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_authentication_is_read_as_go_reads_it() {
        let of = |text: &str| basic(text.as_bytes());
        let some = |name: &str, word: &str| Some((name.to_string(), word.as_bytes().to_vec()));
        assert_eq!(of("Basic YWRhOnNlY3JldA=="), some("ada", "secret"));
        assert_eq!(of("bASIC YWRhOnNlY3JldA=="), some("ada", "secret"));
        assert_eq!(of("Basic YWRhOmE6Yg=="), some("ada", "a:b"));
        assert_eq!(of("Basic Og=="), some("", ""));
        for other in
            ["", "Basic", "Basic ", "Basic YWRh", "Basic ?", "Bearer YWRhOmI=", "Basic /zox"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_password_is_proven_for_its_user_and_the_present_hash() {
        let proven = ProvenPasswords::default();
        let (ada, hash): (Arc<str>, Arc<[u8]>) = ("ada".into(), b"hash"[..].into());
        assert!(!proven.has("ada", b"hash", b"secret"));
        proven.add(&ada, &hash, b"secret");
        assert!(proven.has("ada", b"hash", b"secret"));
        for (user, hash, password) in
            [("eve", "hash", "secret"), ("ada", "other", "secret"), ("ada", "hash", "Secret")]
        {
            assert!(!proven.has(user, hash.as_bytes(), password.as_bytes()));
        }
        for number in 0..V2_PROVEN_MAX {
            proven.add(&number.to_string().into(), &hash, b"secret");
        }
        assert!(proven.by_user.borrow().len() <= V2_PROVEN_MAX);
    }
}
