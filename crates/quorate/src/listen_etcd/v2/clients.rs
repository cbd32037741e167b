//! Finds the credentials in a request of etcd v2, and does the work that the request needs: calls
//! of the store, and comparing passwords. `member/fronts/etcd/v2/clients.rs` decides which work
//! that is.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderMap};
use member::fronts::etcd::audit::AuditLine;
use member::fronts::etcd::v2::clients::{Done, Presented, Work};
use member::fronts::etcd::{PasswordDone, PasswordTask, PasswordWork};

use super::super::audit;
use super::super::client::Site;
use super::super::passwords::{For, log_wrong};
use super::super::runtime::Runtime;
use super::keys::begin_line;

/// The credentials that these headers and the connection present.
pub(super) fn presented(headers: &HeaderMap, site: &Site) -> Presented {
    let credentials = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    Presented {
        credentials: credentials.filter(|value| !value.is_empty()).map(<[u8]>::to_vec),
        certificate: site.certificate.clone(),
    }
}

/// Does a piece of work for a request: a call of the store, or work on a password. A call that
/// changes something gets a line in the audit log.
pub(super) async fn run(runtime: &Rc<Runtime>, site: &Site, work: Work) -> Done {
    match work {
        Work::Call(request) => {
            let mut line = begin_line(runtime, site, &request);
            let result = runtime.run_v2(request).await;
            line.iter_mut().for_each(|audited| audited.line.tell_v2(&result));
            Done::Called(result)
        }
        Work::Password { password, task: PasswordTask::Verify { hash, user } } => {
            Done::Password(verify(runtime, site, password, (hash, user)).await)
        }
        Work::Password { password, task } => {
            let is_login = matches!(task, PasswordTask::Pretend);
            let of = For { address: is_login.then(|| address(site)), user: None };
            Done::Password(work_on(runtime, of, password, task).await)
        }
    }
}

fn address(site: &Site) -> IpAddr {
    site.peer.ip().to_canonical()
}

/// Compares a password with the hash of the user's password, unless it was found right recently.
async fn verify(
    runtime: &Runtime,
    site: &Site,
    password: Vec<u8>,
    (hash, user): (Arc<[u8]>, Arc<str>),
) -> PasswordDone {
    if runtime.proven_passwords.has(&user, &hash, &password) {
        return PasswordDone::Right;
    }
    let task = PasswordTask::Verify { hash: hash.clone(), user: user.clone() };
    let of = For { address: Some(address(site)), user: Some(user.clone()) };
    let done = work_on(runtime, of, password.clone(), task).await;
    match done {
        PasswordDone::Right => runtime.proven_passwords.add(&user, &hash, &password),
        PasswordDone::Wrong if runtime.member.has_audit_log => {
            audit::log(&AuditLine::wrong_password_of_v2(site.peer.ip(), &user));
        }
        PasswordDone::Wrong => {
            log_wrong(|| tracing::info!("a password of the user {user:?} of etcd v2 is wrong"));
        }
        _ => {}
    }
    done
}

async fn work_on(
    runtime: &Runtime,
    of: For,
    password: Vec<u8>,
    task: PasswordTask,
) -> PasswordDone {
    // If the request is dropped, so is this, and the work is not done.
    let waits = Arc::new(());
    let work = PasswordWork { password, task, waits: Arc::downgrade(&waits) };
    runtime.passwords.submit(of, work).await.unwrap_or(PasswordDone::TooMuchWork)
}
