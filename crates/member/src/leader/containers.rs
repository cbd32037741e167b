//! When the leader looks for znodes that go by themselves, and how many it removes: containers that
//! have lost their last child, and znodes whose time to live has passed.
//!
//! A round looks at all of them once, a bounded step at a time: Loop asks Apply for some whose time
//! has come, and proposes to remove these in one command; whether they still can go is decided when
//! it is applied. A round begins one interval after the one before began, or after it ended if that
//! was later; there is at most one step per look at the clock. Removals are spread over time, so
//! that their watchers do not come all at once.
//!
//! Source: `ContainerManager`, ZooKeeper 3.9.5. There, what a round is to remove is found at its
//! start.

use crate::limits::CLOCK_INTERVAL_MS;
use machine::limits::CONTAINER_ZNODES_DELETED_MAX;
use machine::zk::tree::{ROOT, ZnodeId};
use machine::{ContainerSearch, ContainersFound};

const MINUTE_MS: u64 = 60_000;

/// How often containers and TTL znodes are looked for, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSettings {
    /// `znode.container.checkIntervalMs`.
    pub check_interval_ms: u32,
    /// `znode.container.maxPerMinute`.
    pub removals_per_minute_max: u32,
    /// `znode.container.maxNeverUsedIntervalMs`: a container that never had a child goes after
    /// this; 0: never.
    pub never_used_ms_max: u64,
}

impl Default for ContainerSettings {
    /// ZooKeeper's (`ZooKeeperServerMain`).
    fn default() -> Self {
        ContainerSettings {
            check_interval_ms: 60_000,
            removals_per_minute_max: 10_000,
            never_used_ms_max: 0,
        }
    }
}

/// Where the leader stands with its rounds. Time here goes by while it serves only.
pub struct ContainerManager {
    settings: ContainerSettings,
    /// Since the round began.
    round_ms: u64,
    /// What may be removed now, each worth [`MINUTE_MS`]: it grows by the removals per minute each
    /// ms.
    allowance: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The round is over.
    Resting,
    /// The next step begins here, after the next look at the clock.
    Waiting(ZnodeId),
    /// A step is to be asked for.
    Due(ZnodeId),
    /// Apply was asked.
    Asked,
}

impl ContainerManager {
    /// The first round begins one interval from now.
    pub fn new(settings: ContainerSettings) -> ContainerManager {
        ContainerManager { settings, round_ms: 0, allowance: 0, state: State::Resting }
    }

    /// Lets time go by.
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
                // What was not used between rounds is not for this one.
                self.allowance = self.allowance.min(more.max(MINUTE_MS));
                State::Due(ROOT)
            }
            State::Waiting(from) if self.allowance >= MINUTE_MS => State::Due(from),
            state => state,
        };
    }

    /// How long until time moves the round on, if nothing else does.
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

    /// The step that is to be asked for now, if any. `wall_ms` is the time that would be stamped.
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

    /// What a step found. True if it is to be removed; not if this member led no more meanwhile.
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
