//! Requests to end (SIGINT, SIGTERM, SIGHUP) in the middle of a run that has files to remove.
//!
//! The signals are blocked, and a thread of its own waits for them; so this needs no handler and no
//! `unsafe`. Working code looks at the flag every now and then and returns an error, and the
//! destructors on the way out remove its files. The second signal ends the process at once, and the
//! servers that it has started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use crate::servers::process::Processes;

/// The exit status after a second signal: the one that a shell gives for SIGINT.
const ENDED_BY_SIGNAL: i32 = 130;

/// The flag that a signal sets: the run is to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    is_asked: Arc<AtomicBool>,
    /// Processes that the second signal kills.
    started: Arc<Mutex<Vec<u32>>>,
}

fn signals() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect()
}

impl Interrupt {
    /// Waits for the signals from now on. The caller has no other thread yet, since a new thread
    /// inherits the blocked signals of its maker.
    ///
    /// # Errors
    /// The system refuses.
    pub fn catch() -> anyhow::Result<Interrupt> {
        let signals = signals();
        signals.thread_block()?;
        let interrupt = Interrupt::default();
        let ours = interrupt.clone();
        thread::Builder::new().name("signals".to_string()).spawn(move || {
            let mut is_first = true;
            while signals.wait().is_ok() {
                if !is_first {
                    let started = ours.started.lock().unwrap_or_else(PoisonError::into_inner);
                    // A process that has ended needs no signal.
                    started.iter().for_each(|pid| drop(Processes::of(&[*pid]).kill()));
                    std::process::exit(ENDED_BY_SIGNAL);
                }
                is_first = false;
                ours.is_asked.store(true, Ordering::Relaxed);
                eprintln!("interrupted: removing what was written; once more ends it at once");
            }
        })?;
        Ok(interrupt)
    }

    /// Starts a process by `start` that gets the signals as any other does: it would inherit that
    /// they are blocked, and SIGTERM could not end it.
    ///
    /// # Errors
    /// The system refuses, or `start` fails.
    pub fn start<T>(start: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let before = SigSet::thread_get_mask()?;
        signals().thread_unblock()?;
        let started = start();
        before.thread_set_mask()?;
        started
    }

    /// Whether the run is to end.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Has the second signal kill a process that was started.
    pub fn kill_at_exit(&self, pid: u32) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
    }

    /// Takes a process out that has ended.
    pub fn forget(&self, pid: u32) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| *it != pid);
    }

    /// Returns an error if the run is to end.
    ///
    /// # Errors
    /// The run is to end.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.is_asked(), "interrupted");
        Ok(())
    }

    /// Sets the flag, as a signal does.
    #[cfg(test)]
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }
}
