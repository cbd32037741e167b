//! The reasons why a member of an ensemble does not serve while other servers are missing: for
//! people and for orchestrators that ask before there is a member to ask.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use member::membership::bootstrap::Waiting;
use parking_lot::Mutex;

use crate::peer_sockets::PeerHandle;

/// Shared by the start of a member, which writes it, and by monitoring, which reads it.
#[derive(Default)]
pub struct StartBoard {
    /// The servers that the member waits for; `None` until it dials them, and in a standalone
    /// server.
    others: Mutex<Option<Others>>,
}

/// The servers that a member waits for, as the start knows them.
struct Others {
    /// The servers of the ensemble, this one included.
    count: usize,
    /// The other servers, each with the time when it was last seen linked, or when the wait began.
    seen: BTreeMap<u64, Instant>,
    began: Instant,
    /// The reason why the member is not born; `None` once it is.
    birth: Option<Birth>,
    links: PeerHandle,
}

/// The reason why an ensemble has not begun.
struct Birth {
    reason: String,
    hint: Option<String>,
    /// Whether more servers would end the wait.
    is_for_servers: bool,
}

/// The reason why a member waits, with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartWait {
    /// The reason as the log gives it.
    pub reason: String,
    /// How long the member has waited.
    pub waited: Duration,
    /// Servers that are not linked, each with for how long.
    pub absent: Vec<(u64, Duration)>,
    /// The setting that would begin without them, where there is one.
    pub hint: Option<String>,
    /// True if the member can only go on once another server is started.
    pub is_for_servers: bool,
}

impl StartBoard {
    /// Notes that the member dials its `others` from now on.
    pub(crate) fn begin(&self, others: &[u64], links: PeerHandle) {
        let began = Instant::now();
        let seen = others.iter().map(|number| (*number, began)).collect();
        let others = Others { count: others.len() + 1, seen, began, birth: None, links };
        *self.others.lock() = Some(others);
    }

    /// Notes that the member is unborn, and why. `hint` names the setting that would begin without
    /// the absent servers.
    pub(crate) fn wait_for_birth(&self, waiting: &Waiting, hint: Option<String>) {
        if let Some(others) = &mut *self.others.lock() {
            let (reason, is_for_servers) = (waiting.to_string(), waiting.is_for_servers());
            others.birth = Some(Birth { reason, hint, is_for_servers });
        }
    }

    /// Notes that the member is born.
    pub(crate) fn end_wait_for_birth(&self) {
        if let Some(others) = &mut *self.others.lock() {
            others.birth = None;
        }
    }

    /// Why the member waits, if other servers are missing. A member that serves may lack some
    /// servers, too: ask only about one that does not serve.
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

/// One line: the reason, the absent servers and for how long they are absent, and the setting that
/// would begin without them.
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
