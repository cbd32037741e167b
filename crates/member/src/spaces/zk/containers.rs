//! Decides when the leader looks for znodes that the ensemble removes automatically, and how many
//! it removes: containers without children, and znodes whose time to live has passed.
//!
//! A round looks at all such znodes once, in bounded steps. In each step Loop asks Apply for some
//! that are due, and proposes to remove these in one command; when Apply runs the command, it
//! checks again that each may go. A round begins one interval after the previous one began, or at
//! the end of that one if it took longer. Each look at the clock makes at most one step. Removals
//! are spread over time, so that their watchers are not all notified at once.
//!
//! Source: `ContainerManager`, ZooKeeper 3.9.5. There, a round finds everything that it is to
//! remove at its start.

use crate::limits::CLOCK_INTERVAL_MS;
use machine::limits::CONTAINER_ZNODES_DELETED_MAX;
use machine::zk::tree::{ROOT, ZnodeId};
use machine::{ContainerSearch, ContainersFound};

const MINUTE_MS: u64 = 60_000;

/// How often to look for containers and TTL znodes, and how many to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSettings {
    /// `znode.container.checkIntervalMs`: the time between the starts of two rounds.
    pub check_interval_ms: u32,
    /// `znode.container.maxPerMinute`: how many znodes are removed per minute at most.
    pub removals_per_minute_max: u32,
    /// `znode.container.maxNeverUsedIntervalMs`: a container that never had a child is removed
    /// after this time; 0 if never.
    pub never_used_ms_max: u64,
}

impl Default for ContainerSettings {
    /// ZooKeeper's defaults (`ZooKeeperServerMain`).
    fn default() -> Self {
        ContainerSettings {
            check_interval_ms: 60_000,
            removals_per_minute_max: 10_000,
            never_used_ms_max: 0,
        }
    }
}

/// The leader's progress with its rounds. Time passes here only while the leader serves clients.
pub struct ContainerManager {
    settings: ContainerSettings,
    /// Time since the round began, in ms.
    round_ms: u64,
    /// The allowance for removals. Each removal costs [`MINUTE_MS`], and every ms adds
    /// `removals_per_minute_max`.
    allowance: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The last round is over, and the next has not begun.
    Resting,
    /// The next step begins at this znode, after the next look at the clock.
    Waiting(ZnodeId),
    /// A step is due, which begins at this znode.
    Due(ZnodeId),
    /// Apply was asked for a step, and has not answered.
    Asked,
}

impl ContainerManager {
    /// A manager for a member that begins to lead: the first round begins one interval from now.
    pub fn new(settings: ContainerSettings) -> ContainerManager {
        ContainerManager { settings, round_ms: 0, allowance: 0, state: State::Resting }
    }

    /// Lets `elapsed_ms` pass.
    pub fn advance(&mut self, elapsed_ms: u64) {
        self.round_ms = self.round_ms.saturating_add(elapsed_ms);
        let per_minute_max = u64::from(self.settings.removals_per_minute_max);
        let more = elapsed_ms.saturating_mul(per_minute_max);
        let allowance_max = CONTAINER_ZNODES_DELETED_MAX as u64 * MINUTE_MS;
        self.allowance = self.allowance.saturating_add(more).min(allowance_max);
        let interval_ms = u64::from(self.settings.check_interval_ms);
        self.state = match self.state {
            State::Resting if self.round_ms >= interval_ms => {
                self.round_ms = 0;
                // The allowance that was left over between rounds does not count for this round.
                self.allowance = self.allowance.min(more.max(MINUTE_MS));
                State::Due(ROOT)
            }
            State::Waiting(from) if self.allowance >= MINUTE_MS => State::Due(from),
            state => state,
        };
    }

    /// In how many ms the next step is due by the clock.
    pub fn due_ms(&self) -> u64 {
        let interval_ms = u64::from(self.settings.check_interval_ms);
        let per_minute_max = u64::from(self.settings.removals_per_minute_max);
        match self.state {
            State::Resting => interval_ms.saturating_sub(self.round_ms).max(1),
            State::Waiting(_) => {
                let missing = MINUTE_MS.saturating_sub(self.allowance);
                let allowed_ms = missing.div_ceil(per_minute_max.max(1));
                allowed_ms.max(interval_ms.min(CLOCK_INTERVAL_MS))
            }
            State::Due(_) | State::Asked => u64::MAX,
        }
    }

    /// The search to ask Apply for now; `None` if none is due. `wall_ms` is the timestamp that an
    /// entry would get now.
    pub fn search(&mut self, wall_ms: i64) -> Option<ContainerSearch> {
        let State::Due(from) = self.state else { return None };
        self.state = State::Asked;
        Some(ContainerSearch {
            from,
            count_max: (self.allowance / MINUTE_MS) as usize,
            time_ms: wall_ms,
            never_used_ms_max: self.settings.never_used_ms_max,
        })
    }

    /// Takes what a step has found. Returns whether Loop must remove it: false if nothing was
    /// found, or if this member stopped leading since it asked.
    pub fn on_found(&mut self, found: &ContainersFound) -> bool {
        if self.state != State::Asked {
            return false;
        }
        self.allowance = self.allowance.saturating_sub(found.paths.len() as u64 * MINUTE_MS);
        self.state = found.next.map_or(State::Resting, State::Waiting);
        !found.paths.is_empty()
    }
}

#[cfg(test)]
mod tests;
