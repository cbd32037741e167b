//! Holds a connection back at a reconfig that comes before the level at which the servers can be
//! changed, until the state has this level. A new ensemble is at a lower level for a moment.

use std::collections::BTreeMap;

use machine::ConnectionId;

use super::limits::RECONFIG_HOLD_MS_MAX;

/// Whether ZooKeeper's clients can change the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconfigurable {
    /// They cannot: this server is standalone, or its level may not rise so far.
    Never,
    /// They can once the state has the level [`machine::Level::MEMBERS`]. With `leaves_one` they
    /// may leave a single voter, once the state has that setting (`standaloneEnabled=false`), which
    /// comes behind the level.
    FromLevel { leaves_one: bool },
    /// They can ([`machine::Servers::may_be_reconfigured`]).
    Now,
}

/// What a connection does with its next request, a reconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// It begins to wait; the level must be asked for.
    Begins,
    /// It still waits.
    Lasts,
    /// It does not wait, or no longer: the request is taken or refused.
    Over,
}

/// Whether the servers can be changed, and the connections that wait for that.
pub(super) struct Reconfigs {
    reconfigurable: Reconfigurable,
    /// Whether the state lets clients change the servers.
    are_possible: bool,
    /// Whether the state lets a reconfig leave a single voter.
    leaves_one: bool,
    /// When each connection began to wait, in ms.
    since_ms: BTreeMap<ConnectionId, u64>,
}

impl Reconfigs {
    pub fn new(reconfigurable: Reconfigurable) -> Reconfigs {
        let are_possible = reconfigurable == Reconfigurable::Now;
        Reconfigs { reconfigurable, are_possible, leaves_one: false, since_ms: BTreeMap::new() }
    }

    /// Whether the servers can be changed now.
    pub fn are_possible(&self) -> bool {
        self.are_possible
    }

    /// Whether any connection waits.
    pub fn has_held(&self) -> bool {
        !self.since_ms.is_empty()
    }

    /// Decides whether a connection with a reconfig waits for the level.
    pub fn hold(&mut self, id: ConnectionId, now_ms: u64) -> Hold {
        if !matches!(self.reconfigurable, Reconfigurable::FromLevel { .. }) {
            return Hold::Over;
        }
        let Some(since_ms) = self.since_ms.get(&id) else {
            self.since_ms.insert(id, now_ms);
            return Hold::Begins;
        };
        if since_ms + RECONFIG_HOLD_MS_MAX > now_ms {
            return Hold::Lasts;
        }
        self.since_ms.remove(&id);
        if self.are_possible {
            // The leader's file does not let a reconfig leave a single voter. Others need not wait.
            self.reconfigurable = Reconfigurable::Now;
        }
        Hold::Over
    }

    /// The connections that have waited too long. Each goes on, and its reconfig is refused.
    pub fn late(&self, now_ms: u64) -> impl Iterator<Item = ConnectionId> {
        let is_late = move |since_ms: u64| since_ms + RECONFIG_HOLD_MS_MAX <= now_ms;
        self.since_ms.iter().filter(move |(_, since_ms)| is_late(**since_ms)).map(|(id, _)| *id)
    }

    /// Notes that a connection has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        self.since_ms.remove(&id);
    }

    /// Notes that the servers can be changed. Returns the connections that need not wait longer.
    pub fn on_possible(&mut self) -> impl Iterator<Item = ConnectionId> {
        self.are_possible = true;
        self.release()
    }

    /// Notes whether the state lets a reconfig leave a single voter. Returns the connections that
    /// need not wait longer.
    pub fn on_settings(&mut self, leaves_one: bool) -> impl Iterator<Item = ConnectionId> {
        self.leaves_one = leaves_one;
        self.release()
    }

    fn release(&mut self) -> impl Iterator<Item = ConnectionId> + use<> {
        let lacks_setting = self.reconfigurable == Reconfigurable::FromLevel { leaves_one: true }
            && !self.leaves_one;
        let mut released = BTreeMap::new();
        if self.are_possible && !lacks_setting {
            self.reconfigurable = Reconfigurable::Now;
            core::mem::swap(&mut released, &mut self.since_ms);
        }
        released.into_keys()
    }
}
