//! Decides when Loop looks at the clock next, and how it counts the time that has passed.
//!
//! The driver calls [`Loop::advance`] with the time that has passed, hands over the inputs that
//! have arrived, and calls [`Loop::on_time`]; [`Loop::due_ms`] says when to do so again at the
//! latest. An idle member sleeps until its next heartbeat or election timeout.
//!
//! A process that was paused looks at the clock later than it had planned. The time of the pause
//! counts for the age of its contact, which makes a member careful. It does not count against
//! others, who may have spoken meanwhile: of a late look only the planned time counts, and an
//! election waits for one more look.

use super::Loop;
use crate::limits::{CLOCK_INTERVAL_MS, EXPIRY_MARGIN_MS, LOOK_MS_MAX};

impl Loop {
    /// Lets time pass. The driver hands over next what arrived meanwhile, and then calls
    /// [`Loop::on_time`].
    ///
    /// The replica is told the time at once, as far as that starts no election: a heartbeat that
    /// has arrived begins the wait for the next one, and time before it must not count.
    pub fn advance(&mut self, elapsed_ms: u64) {
        self.now_ms += elapsed_ms;
        self.spaces.advance(elapsed_ms, self.timing.planned_ms);
        self.timing.advance(elapsed_ms);
        if let Some(ticks) = self.replica.ticks_until_election() {
            let ticks = self.timing.take_ticks(ticks.saturating_sub(1));
            (0..ticks).for_each(|_| self.replica.tick());
        }
    }

    /// Acts on the time that has passed.
    pub fn on_time(&mut self) {
        let ticks = self.timing.take_ticks(u64::MAX);
        (0..ticks).for_each(|_| self.replica.tick());
        let counted_ms = core::mem::take(&mut self.timing.counted_ms);
        let elapsed_ms = core::mem::take(&mut self.timing.elapsed_ms);
        self.pursue(counted_ms, elapsed_ms);
    }

    /// How long after the last [`Loop::advance`] the next one is due, if nothing arrives before.
    pub fn due_ms(&mut self) -> u64 {
        let mut due_ms = if self.is_busy() { CLOCK_INTERVAL_MS } else { LOOK_MS_MAX };
        if let Some(ticks) = self.replica.ticks_until_election() {
            let ms = ticks.saturating_mul(self.timing.raft_tick_ms);
            due_ms = due_ms.min(ms.saturating_sub(self.timing.tick_rest_ms));
        }
        let compaction_ms = self.spaces.etcd.compaction_due_ms().saturating_sub(self.now_ms);
        due_ms = due_ms.min(compaction_ms.max(CLOCK_INTERVAL_MS));
        if self.leads() {
            due_ms = due_ms.min(self.leading_due_ms());
        }
        self.timing.planned_ms = due_ms.max(1);
        self.timing.planned_ms
    }

    /// Lets time pass while nothing arrives.
    #[cfg(test)]
    pub(crate) fn pass(&mut self, elapsed_ms: u64) {
        self.advance(elapsed_ms);
        self.on_time();
    }

    /// When a leader's own work is due: heartbeats, deadlines and searches for containers.
    fn leading_due_ms(&self) -> u64 {
        let beat_ms = match self.is_alone() {
            true => u64::MAX,
            false => self.contact.beat_in_ms(self.now_ms),
        };
        let expiry_ms = match self.spaces.deadline_ms() {
            Some(ms) if ms > EXPIRY_MARGIN_MS => ms - EXPIRY_MARGIN_MS,
            Some(_) => CLOCK_INTERVAL_MS,
            None => u64::MAX,
        };
        beat_ms.min(expiry_ms.max(CLOCK_INTERVAL_MS)).min(self.spaces.zk.search_due_ms())
    }

    /// Whether work is under way that a look at the clock moves on. Messages that are lost only
    /// with a link, or whose loss takes a second to be noticed, can wait for [`LOOK_MS_MAX`].
    fn is_busy(&self) -> bool {
        !self.ready
            || (self.is_alone() && !self.leads())
            || self
                .leading
                .as_ref()
                .is_some_and(|leading| !leading.offers.is_empty() || !leading.lending.is_empty())
            || self.catch_up.fetch().is_some()
            || self.differs.is_some()
            || self.room.is_full
            || self.room.snapshot.is_scarce()
            || self.room.snapshot.must_wait()
    }
}
