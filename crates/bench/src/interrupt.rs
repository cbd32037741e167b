//! Being asked to end (SIGINT, SIGTERM, SIGHUP) in the middle of a run that has files to remove.
//!
//! The signals are blocked and waited for by a thread of their own, which needs no handler and so
//! no `unsafe`. Whoever works looks at the flag every now and then and returns an error, and what
//! it passes on its way out removes its files. The second signal ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

/// Status of a process that a second signal ended: that of a shell for SIGINT.
const ENDED_BY_SIGNAL: i32 = 130;

/// Whether it was asked to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Waits for the signals from now on. Called while there is no other thread, since a thread
    /// blocks what its maker does.
    ///
    /// # Errors
    /// The system refuses.
    pub fn catch() -> anyhow::Result<Interrupt> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block()?;
        let interrupt = Interrupt::default();
        let ours = interrupt.clone();
        thread::Builder::new().name("signals".to_string()).spawn(move || {
            let mut is_first = true;
            while signals.wait().is_ok() {
                if !is_first {
                    std::process::exit(ENDED_BY_SIGNAL);
                }
                is_first = false;
                ours.0.store(true, Ordering::Relaxed);
                eprintln!("interrupted: removing what was written; once more ends it at once");
            }
        })?;
        Ok(interrupt)
    }

    /// Whether it was.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// For whoever can go on only if it was not.
    ///
    /// # Errors
    /// It was asked to end.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.is_asked(), "interrupted");
        Ok(())
    }

    /// Asks.
    #[cfg(test)]
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
