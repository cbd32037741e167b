//! Work on passwords: hashes take some 50 ms of a core each, so threads of their own make them, at
//! a lower priority than the threads that serve.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use member::etcd_front::{PasswordDone, PasswordTask, PasswordWork};
use tokio::sync::oneshot;

use super::limits::{NICENESS, PASSWORD_THREADS_MAX, PASSWORDS_WAITING_MAX};
use super::tokens::Tokens;
use crate::logging::{REFUSALS_MAX, Seldom};

/// Wrong passwords, where there is no audit log for them.
static WRONG: Seldom = Seldom::new(REFUSALS_MAX, "passwords were wrong");

/// Lets `log` tell of a wrong password.
pub(super) fn log_wrong(log: impl FnOnce()) {
    WRONG.log(log);
}

/// Hands work to the threads. All connection runtimes share it.
#[derive(Clone, Debug)]
pub(super) struct Passwords {
    jobs: SyncSender<Job>,
}

struct Job {
    work: PasswordWork,
    done: oneshot::Sender<PasswordDone>,
}

impl Passwords {
    /// Starts the threads, which end with the process. `cost` is the logarithm of the rounds of a
    /// new hash.
    ///
    /// # Errors
    /// A thread cannot be made.
    pub fn start(cost: u32, tokens: &Arc<Tokens>) -> std::io::Result<Passwords> {
        let (jobs, receiver) = sync_channel(PASSWORDS_WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores.div_ceil(2).min(PASSWORD_THREADS_MAX) {
            let (receiver, tokens) = (receiver.clone(), tokens.clone());
            let thread = std::thread::Builder::new().name(format!("password-{number}"));
            thread.spawn(move || run(&receiver, cost, &tokens))?;
        }
        Ok(Passwords { jobs })
    }

    /// Does work, and tells the result; too much of it is not done.
    pub fn submit(&self, work: PasswordWork) -> oneshot::Receiver<PasswordDone> {
        let (done, result) = oneshot::channel();
        match self.jobs.try_send(Job { work, done }) {
            Ok(()) => {}
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                // The call may be gone, and needs no result then.
                let _ = job.done.send(PasswordDone::TooMuchWork);
            }
        }
        result
    }
}

fn run(jobs: &Mutex<Receiver<Job>>, cost: u32, tokens: &Tokens) {
    // Without the right to it the thread is as the others.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { work, done }) = job else { return };
        if work.waits.upgrade().is_some() {
            let result = finish(&work, cost, tokens).unwrap_or_else(|error| {
                tracing::error!("a password cannot be worked on: {error}");
                PasswordDone::TooMuchWork
            });
            let _ = done.send(result);
        }
    }
}

fn finish(work: &PasswordWork, cost: u32, tokens: &Tokens) -> anyhow::Result<PasswordDone> {
    let password = &work.password[..];
    Ok(match &work.task {
        PasswordTask::Verify { hash } => {
            let hash = str::from_utf8(hash).unwrap_or_default();
            match bcrypt::verify(password, hash).unwrap_or(false) {
                true => PasswordDone::Right,
                false => PasswordDone::Wrong,
            }
        }
        PasswordTask::Hash => PasswordDone::Hashed(bcrypt::hash(password, cost)?.into_bytes()),
        PasswordTask::Check { hash, user, revision } => {
            let hash = str::from_utf8(hash).unwrap_or_default();
            match bcrypt::verify(password, hash).unwrap_or(false) {
                true => tokens.prove(user, *revision)?,
                false => {
                    log_wrong(|| tracing::info!("a password of the etcd user {user:?} is wrong"));
                    PasswordDone::Wrong
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(password: &str, task: PasswordTask) -> (PasswordWork, Arc<()>) {
        let waits = Arc::new(());
        let password = password.as_bytes().to_vec();
        (PasswordWork { password, task, waits: Arc::downgrade(&waits) }, waits)
    }

    fn done(password: &str, task: PasswordTask) -> PasswordDone {
        finish(&work(password, task).0, 4, &Tokens::Simple).unwrap()
    }

    fn check(password: &str, hash: &[u8]) -> PasswordDone {
        let (hash, user) = (hash.into(), "alice".into());
        done(password, PasswordTask::Check { hash, user, revision: 1 })
    }

    #[test]
    fn the_right_password_gets_letters_and_others_none() {
        let PasswordDone::Hashed(hash) = done("secret", PasswordTask::Hash) else { panic!() };
        assert!(matches!(check("secret", &hash), PasswordDone::RightFor(_)));
        assert!(matches!(check("Secret", &hash), PasswordDone::Wrong));
        assert!(matches!(check("", &hash), PasswordDone::Wrong));
        for no_hash in [&b""[..], b"secret", b"$2a$10$", b"\xff"] {
            assert!(matches!(check("secret", no_hash), PasswordDone::Wrong));
        }
    }

    #[test]
    fn a_hash_of_etcd_is_understood() {
        // Made by bcrypt of Go, for "quorate".
        let hash = b"$2a$04$2UgO5P8R3KcAL5Doga5R0uCjJESXkpiJcPLQ3qeQHfCaufTKFKy/a";
        assert!(matches!(check("quorate", hash), PasswordDone::RightFor(_)));
        assert!(matches!(check("quorat", hash), PasswordDone::Wrong));
    }

    #[test]
    fn a_password_is_verified_without_a_token() {
        let hash: Arc<[u8]> = bcrypt::hash("secret", 4).unwrap().into_bytes().into();
        let verify = |password: &str| done(password, PasswordTask::Verify { hash: hash.clone() });
        assert!(matches!(verify("secret"), PasswordDone::Right));
        assert!(matches!(verify("Secret"), PasswordDone::Wrong));
    }

    #[test]
    fn work_that_nobody_waits_for_is_not_done() {
        let passwords = Passwords::start(4, &Arc::new(Tokens::Simple)).unwrap();
        let (abandoned, waits) = work("secret", PasswordTask::Hash);
        drop(waits);
        assert!(passwords.submit(abandoned).blocking_recv().is_err());
        let (wanted, _waits) = work("secret", PasswordTask::Hash);
        assert!(matches!(passwords.submit(wanted).blocking_recv(), Ok(PasswordDone::Hashed(_))));
    }
}
