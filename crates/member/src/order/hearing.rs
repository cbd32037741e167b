//! Makes a follower's reports to its leader about live sessions, and takes the answers.
//!
//! A follower reports the sessions whose clients were heard from to the leader, which keeps their
//! leases. It sends one report at a time, and repeats one that is not answered. Each answer proves
//! that both could hear each other, and that the leader led, when the report was sent. This proof
//! is the follower's *contact*, which decides whether Fronts may still answer for a session.

use std::collections::BTreeSet;

use machine::{BootId, Owner};

use crate::limits::{HEARD_INTERVAL_MS, HEARD_SESSIONS_MAX};
use crate::order::limits::HEARD_RETRY_MS;
use crate::peer::{Heard, PeerMessage};

/// A follower's reports to its leader.
pub(crate) struct Hearing {
    boot: BootId,
    number: u64,
    /// Sessions that are not reported yet, or whose report failed.
    waiting: BTreeSet<Owner>,
    under_way: Option<Report>,
    reported_ms: u64,
}

struct Report {
    number: u64,
    sent_ms: u64,
    owners: Vec<Owner>,
}

impl Hearing {
    pub fn new(boot: BootId) -> Hearing {
        let waiting = BTreeSet::new();
        Hearing { boot, number: 0, waiting, under_way: None, reported_ms: 0 }
    }

    /// Notes sessions whose clients were heard from.
    pub fn heard(&mut self, owners: impl IntoIterator<Item = Owner>) {
        self.waiting.extend(owners);
    }

    /// Takes back the report under way, to send its sessions again: the leader has changed, or the
    /// link to it may have lost the report.
    pub fn restart(&mut self) {
        self.waiting.extend(self.under_way.take().into_iter().flat_map(|report| report.owners));
        self.reported_ms = 0;
    }

    /// Takes all sessions that are not reported: this member leads now and reports to nobody.
    pub fn take(&mut self) -> BTreeSet<Owner> {
        self.restart();
        core::mem::take(&mut self.waiting)
    }

    /// The report to send now; `None` if none is due.
    pub fn report(&mut self, now_ms: u64) -> Option<PeerMessage> {
        match &self.under_way {
            Some(report) if now_ms < report.sent_ms + HEARD_RETRY_MS => return None,
            Some(_) => self.restart(),
            None => {}
        }
        let is_due = self.reported_ms == 0 || now_ms >= self.reported_ms + HEARD_INTERVAL_MS;
        if self.waiting.is_empty() && !is_due {
            return None;
        }
        let mut owners = Vec::new();
        while owners.len() < HEARD_SESSIONS_MAX {
            let Some(owner) = self.waiting.pop_first() else { break };
            owners.push(owner);
        }
        self.number += 1;
        self.reported_ms = now_ms;
        let (boot, number) = (self.boot, self.number);
        self.under_way = Some(Report { number, sent_ms: now_ms, owners: owners.clone() });
        Some(PeerMessage::Heard(Heard { boot, number, owners }))
    }

    /// Takes the leader's answer. Returns when the answered report was sent; `None` if that report
    /// is not the one under way.
    pub fn on_heeded(&mut self, boot: BootId, number: u64) -> Option<u64> {
        let is_current = boot == self.boot
            && self.under_way.as_ref().is_some_and(|report| report.number == number);
        match is_current {
            true => self.under_way.take().map(|report| report.sent_ms),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests;
