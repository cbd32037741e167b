//! Hashes and checks the passwords of etcd users, on threads of their own: a hash takes some 50 ms
//! of a core. These threads have a lower priority than those that serve clients.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use member::fronts::etcd::{PasswordDone, PasswordTask, PasswordWork};
use tokio::sync::oneshot;

use super::limits::{NICENESS, PASSWORD_THREADS_MAX, PASSWORDS_WAITING_MAX};
use super::tokens::Tokens;
use crate::logging::{REFUSALS_MAX, Seldom};
pub(super) use queue::For;
use queue::Turns;

mod queue;

/// Limits the log lines about wrong passwords. The audit log, if there is one, has all of them.
static WRONG: Seldom = Seldom::new(REFUSALS_MAX, "passwords were wrong");

/// Calls `log`, which writes a line about a wrong password, unless too many were written recently.
pub(super) fn log_wrong(log: impl FnOnce()) {
    WRONG.log(log);
}

/// Hands work to the threads. All connection runtimes share the threads and their queue.
#[derive(Clone)]
pub(super) struct Passwords {
    waiting: Arc<Waiting>,
}

struct Waiting {
    jobs: Mutex<Turns<Job>>,
    /// Notified when a job is added.
    more: Condvar,
}

struct Job {
    work: PasswordWork,
    done: oneshot::Sender<PasswordDone>,
}

impl Passwords {
    /// Starts the threads, which end with the process. `cost` is the logarithm of the number of
    /// bcrypt rounds for new hashes.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(cost: u32, tokens: &Arc<Tokens>) -> std::io::Result<Passwords> {
        let jobs = Mutex::new(Turns::new(PASSWORDS_WAITING_MAX));
        let waiting = Arc::new(Waiting { jobs, more: Condvar::new() });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores.div_ceil(2).min(PASSWORD_THREADS_MAX) {
            let (waiting, tokens) = (waiting.clone(), tokens.clone());
            let thread = std::thread::Builder::new().name(format!("password-{number}"));
            thread.spawn(move || run(&waiting, cost, &tokens))?;
        }
        Ok(Passwords { waiting })
    }

    /// Queues work of the client `of`, and returns where the result will come. If too much waits,
    /// some job, perhaps this one, gets [`PasswordDone::TooMuchWork`].
    pub fn submit(&self, of: For, work: PasswordWork) -> oneshot::Receiver<PasswordDone> {
        let (done, result) = oneshot::channel();
        let surplus = self.waiting.jobs().push(of, Job { work, done });
        self.waiting.more.notify_one();
        if let Some(job) = surplus {
            // If sending fails, the call is gone and needs no result.
            let _ = job.done.send(PasswordDone::TooMuchWork);
        }
        result
    }
}

impl Waiting {
    fn jobs(&self) -> MutexGuard<'_, Turns<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job.
    fn next(&self) -> Job {
        let mut jobs = self.jobs();
        loop {
            match jobs.pop() {
                Some(job) => return job,
                None => jobs = self.more.wait(jobs).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

fn run(waiting: &Waiting, cost: u32, tokens: &Tokens) {
    // If the system refuses, the thread keeps the normal priority.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    loop {
        let Job { work, done } = waiting.next();
        if work.waits.upgrade().is_some() {
            let result = finish(&work, cost, tokens).unwrap_or_else(|error| {
                tracing::error!("a password cannot be worked on: {error}");
                PasswordDone::TooMuchWork
            });
            let _ = done.send(result);
        }
    }
}

/// A hash to compare with if the user does not exist, so that this takes as long as for a user that
/// exists. Made when it is first needed.
static NOBODYS: OnceLock<Box<str>> = OnceLock::new();

/// Compares the password with [`NOBODYS`], only to take as long as a real check.
fn pretend(password: &[u8], cost: u32) -> anyhow::Result<()> {
    let hash = match NOBODYS.get() {
        Some(hash) => hash,
        None => {
            let hash = bcrypt::hash([], cost)?.into();
            NOBODYS.get_or_init(|| hash)
        }
    };
    // The result is ignored, because the hash is that of the empty password: a check that succeeds
    // proves nothing.
    let _ = bcrypt::verify(password, hash)?;
    Ok(())
}

fn finish(work: &PasswordWork, cost: u32, tokens: &Tokens) -> anyhow::Result<PasswordDone> {
    let password = &work.password[..];
    Ok(match &work.task {
        PasswordTask::Verify { hash, .. } => {
            let hash = str::from_utf8(hash).unwrap_or_default();
            match bcrypt::verify(password, hash).unwrap_or(false) {
                true => PasswordDone::Right,
                false => PasswordDone::Wrong,
            }
        }
        PasswordTask::Pretend => {
            pretend(password, cost)?;
            PasswordDone::Wrong
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
        // Made by Go's bcrypt for "quorate".
        let hash = b"$2a$04$2UgO5P8R3KcAL5Doga5R0uCjJESXkpiJcPLQ3qeQHfCaufTKFKy/a";
        assert!(matches!(check("quorate", hash), PasswordDone::RightFor(_)));
        assert!(matches!(check("quorat", hash), PasswordDone::Wrong));
    }

    #[test]
    fn a_password_is_verified_without_a_token() {
        let hash: Arc<[u8]> = bcrypt::hash("secret", 4).unwrap().into_bytes().into();
        let verify = |password: &str| {
            let task = PasswordTask::Verify { hash: hash.clone(), user: "ada".into() };
            done(password, task)
        };
        assert!(matches!(verify("secret"), PasswordDone::Right));
        assert!(matches!(verify("Secret"), PasswordDone::Wrong));
    }

    #[test]
    fn work_that_nobody_waits_for_is_not_done() {
        let passwords = Passwords::start(4, &Arc::new(Tokens::Simple)).unwrap();
        let (abandoned, waits) = work("secret", PasswordTask::Hash);
        drop(waits);
        let of = || For { address: None, user: None };
        assert!(passwords.submit(of(), abandoned).blocking_recv().is_err());
        let (wanted, _waits) = work("secret", PasswordTask::Hash);
        let done = passwords.submit(of(), wanted).blocking_recv();
        assert!(matches!(done, Ok(PasswordDone::Hashed(_))));
    }

    #[test]
    fn who_guesses_makes_no_other_user_and_no_other_address_wait() {
        const GUESSES: usize = 200;
        let passwords = Passwords::start(6, &Arc::new(Tokens::Simple)).unwrap();
        let mut guesses = Vec::new();
        let submit = |last: u8, user: Option<&str>, task| {
            let address = Some(std::net::IpAddr::from([10, 0, 0, last]));
            let (work, waits) = work("secret", task);
            let of = For { address, user: user.map(Into::into) };
            (passwords.submit(of, work), waits)
        };
        for _ in 0..GUESSES {
            guesses.push(submit(1, None, PasswordTask::Pretend));
        }
        for (last, user) in [(2, "alice"), (1, "bob")] {
            let hash = bcrypt::hash("secret", 4).unwrap().into_bytes().into();
            let task = PasswordTask::Check { hash, user: user.into(), revision: 1 };
            let (login, _waits) = submit(last, Some(user), task);
            assert!(matches!(login.blocking_recv(), Ok(PasswordDone::RightFor(_))), "{user}");
        }
        let mut are_done = guesses.iter_mut().map(|(guess, _)| guess.try_recv().is_ok());
        assert!(!are_done.all(|is_done| is_done), "the logins were the last");
    }

    #[test]
    fn a_user_that_does_not_exist_has_no_password() {
        for password in ["", "secret"] {
            assert!(matches!(done(password, PasswordTask::Pretend), PasswordDone::Wrong));
        }
    }
}
