//! The role of this member: leading, following a leader, or neither.

use machine::{LogIndex, MemberId};
use replica::{Role, RoleChange};

use super::output::Leadership;
use crate::leader::Leading;

/// The role of this member, and the leader that it knows.
pub(super) struct OwnRole {
    own: MemberId,
    /// Set while this member leads.
    leading: Option<Leading>,
    /// The leader that this member follows, where it knows one; `None` while it leads.
    leader: Option<MemberId>,
    /// The leader and term that were last reported for the log.
    reported: Leadership,
}

impl OwnRole {
    /// A member that knows no leader yet.
    pub fn new(own: MemberId) -> OwnRole {
        OwnRole { own, leading: None, leader: None, reported: Leadership::Nobody }
    }

    /// Whether this member leads.
    #[inline]
    pub fn leads(&self) -> bool {
        self.leading.is_some()
    }

    /// The state of the leader, if this member leads.
    #[inline]
    pub fn leading(&self) -> Option<&Leading> {
        self.leading.as_ref()
    }

    /// As [`OwnRole::leading`], to change it.
    #[inline]
    pub fn leading_mut(&mut self) -> Option<&mut Leading> {
        self.leading.as_mut()
    }

    /// Whether this member leads and has applied everything that earlier leaders committed.
    #[inline]
    pub fn is_caught_up(&self, applied: LogIndex) -> bool {
        self.leading.as_ref().is_some_and(|leading| leading.is_caught_up(applied))
    }

    /// The other member that leads, where this member knows one.
    #[inline]
    pub fn leader(&self) -> Option<MemberId> {
        self.leader
    }

    /// Whether this other member leads.
    #[inline]
    pub fn is_led_by(&self, member: MemberId) -> bool {
        self.leader == Some(member)
    }

    /// Whether this member leads or knows the one that does.
    #[inline]
    pub fn is_leader_known(&self) -> bool {
        self.leader.is_some() || self.leads()
    }

    /// Takes a change of role, term or leader. A new leader begins at `now_ms`, with a log that
    /// ends at `last_index`. Returns whether this member led until now.
    pub fn on_change(&mut self, change: &RoleChange, now_ms: u64, last_index: u64) -> bool {
        self.leader = change.leader.map(MemberId).filter(|leader| *leader != self.own);
        let is_leader = change.role == Role::Leader;
        let leading = is_leader.then(|| Leading::new(now_ms, LogIndex(last_index)));
        core::mem::replace(&mut self.leading, leading).is_some()
    }

    /// The leader and term of a change for people, unless they were reported before. The caller
    /// gives the number of the leader's server, where it is known.
    pub fn report(&mut self, change: &RoleChange, server: Option<u64>) -> Option<Leadership> {
        let leadership = match change.leader.map(MemberId) {
            Some(leader) if leader == self.own => Leadership::Own(change.term),
            Some(leader) => Leadership::Other(change.term, leader, server),
            None => Leadership::Nobody,
        };
        (core::mem::replace(&mut self.reported, leadership) != leadership).then_some(leadership)
    }
}
