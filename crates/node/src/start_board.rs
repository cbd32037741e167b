//! Records why a member of an ensemble does not serve yet and which servers it misses, so that
//! people and orchestrators can ask for it during the start.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use member::membership::bootstrap::Waiting;
use parking_lot::Mutex;

use crate::peer_sockets::PeerHandle;

/// What the start of a member waits for. The start writes it, and monitoring reads it.
#[derive(Default)]
pub struct StartBoard {
    /// The servers that the member waits for. `None` until it dials them, and always in a
    /// standalone server.
    others: Mutex<Option<Others>>,
}

/// The facts that the start knows about the other servers.
struct Others {
    /// Number of servers in the ensemble, with this one.
    count: usize,
    /// The other servers, each with the last time that it was seen linked, or when the wait began.
    seen: BTreeMap<u64, Instant>,
    began: Instant,
    /// Why the member is not born yet; `None` once it is.
    birth: Option<Birth>,
    links: PeerHandle,
}

/// Why an ensemble has not begun.
struct Birth {
    reason: String,
    hint: Option<String>,
    /// Whether the wait would end if more servers came.
    is_for_servers: bool,
}

/// Why a member waits, in detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartWait {
    /// The reason, as the log shows it.
    pub reason: String,
    /// How long the member has waited so far.
    pub waited: Duration,
    /// The servers that are not linked, each with how long it has been absent.
    pub absent: Vec<(u64, Duration)>,
    /// The setting that would let the ensemble begin without the absent servers, if there is one.
    pub hint: Option<String>,
    /// Whether the member waits for links to other servers, which may run already or may have to be
    /// started.
    pub is_for_servers: bool,
}

impl StartBoard {
    /// Records that the member dials its `others` from now on.
    pub(crate) fn begin(&self, others: &[u64], links: PeerHandle) {
        let began = Instant::now();
        let seen = others.iter().map(|number| (*number, began)).collect();
        let others = Others { count: others.len() + 1, seen, began, birth: None, links };
        *self.others.lock() = Some(others);
    }

    /// Records that the member is unborn, and why. `hint` names the setting that would begin
    /// without the absent servers.
    pub(crate) fn wait_for_birth(&self, waiting: &Waiting, hint: Option<String>) {
        if let Some(others) = &mut *self.others.lock() {
            let (reason, is_for_servers) = (waiting.to_string(), waiting.is_for_servers());
            others.birth = Some(Birth { reason, hint, is_for_servers });
        }
    }

    /// Records that the member is born.
    pub(crate) fn end_wait_for_birth(&self) {
        if let Some(others) = &mut *self.others.lock() {
            others.birth = None;
        }
    }

    /// Why the member waits, if servers are missing. Even a member that serves may lack some
    /// servers, so ask only about one that does not serve.
    pub fn look(&self) -> Option<StartWait> {
        let mut others = self.others.lock();
        let others = others.as_mut()?;
        let now = Instant::now();
        let linked: BTreeSet<u64> =
            others.links.links().iter().map(|it| it.link.hello.server).collect();
        for (number, at) in &mut others.seen {
            if linked.contains(number) {
                *at = now;
            }
        }
        let absent = others.seen.iter().filter(|(number, _)| !linked.contains(number));
        let absent: Vec<_> =
            absent.map(|(number, at)| (*number, now.saturating_duration_since(*at))).collect();
        let waited = now.saturating_duration_since(others.began);
        let quorum = others.count / 2 + 1;
        match &others.birth {
            Some(Birth { reason, hint, is_for_servers }) => {
                let is_for_servers = *is_for_servers && !absent.is_empty();
                let hint = hint.clone().filter(|_| is_for_servers);
                Some(StartWait { reason: reason.clone(), waited, absent, hint, is_for_servers })
            }
            None if others.count - absent.len() < quorum => {
                let reason =
                    format!("waiting for {quorum} of {} servers to be there", others.count);
                Some(StartWait { reason, waited, absent, hint: None, is_for_servers: true })
            }
            None => None,
        }
    }
}

/// One line with the reason, each absent server with how long it has been absent, and the setting
/// that would let the ensemble begin without these servers.
impl fmt::Display for StartWait {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}, for {} s so far", self.reason, self.waited.as_secs())?;
        for (position, (number, time)) in self.absent.iter().enumerate() {
            let before = if position == 0 { ": " } else { ", " };
            write!(out, "{before}server {number} is missing for {} s", time.as_secs())?;
        }
        match &self.hint {
            Some(hint) => write!(out, "; {hint}"),
            None => Ok(()),
        }
    }
}
