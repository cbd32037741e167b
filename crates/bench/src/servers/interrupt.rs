//! Signals (SIGINT, SIGTERM, SIGHUP) that end a run which has files to remove and servers to end.
//!
//! The signals are blocked in all threads, and one thread waits for them; so there is no signal
//! handler and no `unsafe`. The first signal sets a flag. Working code checks the flag now and then
//! and returns an error, and destructors remove the files on the way out. The second signal kills
//! the servers that the process has started, and ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use crate::servers::process::Processes;

/// The exit status after a second signal: what a shell reports for SIGINT.
const ENDED_BY_SIGNAL: i32 = 130;

/// The flag that a signal sets, which asks the run to end. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    is_asked: Arc<AtomicBool>,
    /// Ids of the processes that the second signal kills.
    started: Arc<Mutex<Vec<u32>>>,
}

fn signals() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect()
}

impl Interrupt {
    /// Blocks the signals and starts the thread that waits for them. The caller must not have
    /// another thread yet: only new threads inherit the blocked signals.
    ///
    /// # Errors
    /// A system call fails.
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
                    // The process may have ended already.
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

    /// Runs `start`, which starts a process, with the signals unblocked. Otherwise the process
    /// would inherit the block, and SIGTERM could not end it.
    ///
    /// # Errors
    /// A system call fails, or `start` fails.
    pub fn start<T>(start: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let before = SigSet::thread_get_mask()?;
        signals().thread_unblock()?;
        let started = start();
        before.thread_set_mask()?;
        started
    }

    /// Whether a signal has asked the run to end.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Adds a process that the second signal must kill.
    pub fn kill_at_exit(&self, pid: u32) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
    }

    /// Removes a process that has ended from those that the second signal kills.
    pub fn forget(&self, pid: u32) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| *it != pid);
    }

    /// Returns an error if a signal has asked the run to end.
    ///
    /// # Errors
    /// A signal has asked the run to end.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.is_asked(), "interrupted");
        Ok(())
    }

    /// Sets the flag, as the first signal does.
    #[cfg(test)]
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }
}
