//! The age of this member's contact to the members that decide whether it is a member, whether it
//! leads and whether a session lives.
//!
//! A leader's contact is the moment at which it asked a quorum whether they still follow, and they
//! did: the moment of the question counts, not that of the answer, nor how often Loop ran since. So
//! a leader that was paused or cut off cannot take old answers for new ones. The question is a
//! ReadIndex round, which is a heartbeat as well. A follower's contact comes with the answers to
//! its reports ([`crate::order::hearing`]).
//!
//! A member without contact for long may have been replaced, and the state may have forgotten which
//! of its batches it holds. Such a member gives no leader a batch again before it has applied
//! everything that was committed by then: if it was forgotten, it learns so and ends.

use machine::LogIndex;

use super::{Loop, ReadFor};
use crate::limits::{
    HEARTBEAT_MS, HEARTBEAT_QUIET_MS, PROOF_SILENCE_MS, QUIET_MS, QUIET_TIMEOUT_MS_MIN,
};

/// This member's contact.
#[derive(Default)]
pub(super) struct Contact {
    /// The time of the last contact, by Loop's clock; none before the first.
    at_ms: Option<u64>,
    /// Whether a client may open a session whose timeout is too short for rare heartbeats.
    admits_short: bool,
    /// Whether a leader's question to the quorum is not answered yet.
    is_asked: bool,
    /// When a leader sends the next heartbeat.
    beat_at_ms: u64,
    /// The last entry that was applied at an earlier heartbeat, and the time of the first heartbeat
    /// with it.
    quiet_since: (LogIndex, u64),
    proof: Proof,
    /// The number of the last question for a proof: the answer to an earlier one proves nothing.
    proof_number: u64,
}

/// Whether this member may give a leader again the batches that an earlier one was given.
#[derive(Clone, Copy, Default)]
enum Proof {
    /// The member was never without contact for long.
    #[default]
    NotNeeded,
    /// The member was without contact for long, and has not asked for an index yet.
    Wanted,
    /// The member has asked for an index.
    Asked,
    /// The member may give the batches again once this index is applied.
    From(LogIndex),
}

impl Contact {
    /// A server without contact yet, whose clients get this session timeout at least.
    pub fn new(session_timeout_ms_min: u32) -> Contact {
        let admits_short = session_timeout_ms_min < QUIET_TIMEOUT_MS_MIN;
        Contact { admits_short, ..Contact::default() }
    }

    /// How long until the next heartbeat.
    pub fn beat_in_ms(&self, now_ms: u64) -> u64 {
        self.beat_at_ms.saturating_sub(now_ms)
    }
}

impl Loop {
    /// The age of the last contact, in ms: of a leader to a quorum, or of a follower to such a
    /// leader. Before the first contact, the time since this member started. None without other
    /// members. As of the last call of [`Loop::advance`].
    ///
    /// `u64::MAX` for a follower whose disk has stalled before the present term is on it: it takes
    /// part in nothing, and its clients do better elsewhere.
    pub fn contact_ms(&self) -> Option<u64> {
        if self.is_alone() {
            return None;
        }
        let is_follower = !self.leads();
        if is_follower && self.persisting.is_stalled() && !self.replica.is_term_durable() {
            return Some(u64::MAX);
        }
        Some(self.contact_age_ms().min(self.now_ms))
    }

    /// The age of the last contact, in ms; `u64::MAX` before the first.
    pub(super) fn contact_age_ms(&self) -> u64 {
        self.contact.at_ms.map_or(u64::MAX, |at_ms| self.now_ms.saturating_sub(at_ms))
    }

    /// Notes a contact at `at_ms`.
    pub(super) fn note_contact(&mut self, at_ms: Option<u64>) {
        self.contact.at_ms = self.contact.at_ms.max(at_ms);
    }

    /// Sends a leader's heartbeat when it is due, and notes a long silence.
    pub(super) fn pursue_contact(&mut self) {
        if self.leads() && !self.is_alone() && self.now_ms >= self.contact.beat_at_ms {
            self.contact.beat_at_ms = self.now_ms + self.heartbeat_ms();
            if self.contact.is_asked {
                self.replica.ping();
            } else {
                self.ask_contact();
            }
        }
        let is_silent = !self.is_alone() && self.contact_age_ms() >= PROOF_SILENCE_MS;
        if is_silent && self.forwarder.has_unsettled() {
            self.contact.proof = Proof::Wanted;
        }
    }

    /// How long until the heartbeat after the one that is sent now.
    fn heartbeat_ms(&mut self) -> u64 {
        let (index, since_ms) = &mut self.contact.quiet_since;
        if *index != self.applied {
            (*index, *since_ms) = (self.applied, self.now_ms);
        }
        let is_quiet = self.now_ms - *since_ms >= QUIET_MS;
        let has_short = self.contact.admits_short || self.spaces.zk.has_short_timeouts();
        if is_quiet && !has_short { HEARTBEAT_QUIET_MS } else { HEARTBEAT_MS }
    }

    /// Asks the others whether they still follow this leader. While nothing is committed in this
    /// term the question waits, and its time stays that of the asking.
    pub(super) fn ask_contact(&mut self) {
        if self.contact.is_asked || self.is_alone() {
            return;
        }
        if let Ok(read) = self.replica.read_index() {
            self.contact.is_asked = true;
            self.reads.under_way.insert(read, ReadFor::Contact { asked_ms: self.now_ms });
        }
    }

    /// The quorum answered the question asked at `asked_ms`, or, if none, the question failed.
    pub(super) fn on_contact(&mut self, asked_ms: Option<u64>) {
        self.contact.is_asked = false;
        self.note_contact(asked_ms);
    }

    /// Asks for the index that proves that this member knows what was committed.
    pub(super) fn ask_proof(&mut self) {
        if let Proof::Wanted = self.contact.proof
            && let Ok(read) = self.replica.read_index()
        {
            self.contact.proof = Proof::Asked;
            self.contact.proof_number += 1;
            self.reads.under_way.insert(read, ReadFor::Proof { number: self.contact.proof_number });
        }
    }

    /// Takes the index that proves it, or, if none, that it cannot be had now.
    pub(super) fn on_proof(&mut self, number: u64, index: Option<LogIndex>) {
        if let Proof::Asked = self.contact.proof
            && number == self.contact.proof_number
        {
            self.contact.proof = index.map_or(Proof::Wanted, Proof::From);
        }
    }

    /// Whether batches that a leader was given may be given again.
    pub(super) fn may_resend(&mut self) -> bool {
        if let Proof::From(index) = self.contact.proof
            && self.applied >= index
        {
            self.contact.proof = Proof::NotNeeded;
        }
        matches!(self.contact.proof, Proof::NotNeeded)
    }
}

#[cfg(test)]
pub(super) mod tests;
