//! Keeps this member's role: whether it leads, follows a leader, or knows no leader.

use machine::{LogIndex, MemberId};
use replica::{Role, RoleChange};

use super::output::Leadership;
use crate::leader::Leading;

/// This member's role, and the leader that it knows.
pub(super) struct OwnRole {
    own: MemberId,
    /// The state of a leader; `None` unless this member leads.
    leading: Option<Leading>,
    /// The other member that leads, if this member knows it; `None` while this member leads.
    leader: Option<MemberId>,
    /// The leader and term that were last reported for the server's log.
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

    /// The state of a leader; `None` unless this member leads.
    #[inline]
    pub fn leading(&self) -> Option<&Leading> {
        self.leading.as_ref()
    }

    /// Like [`OwnRole::leading`], but mutable.
    #[inline]
    pub fn leading_mut(&mut self) -> Option<&mut Leading> {
        self.leading.as_mut()
    }

    /// Whether this member leads and has applied everything that earlier leaders committed.
    #[inline]
    pub fn is_caught_up(&self, applied: LogIndex) -> bool {
        self.leading.as_ref().is_some_and(|leading| leading.is_caught_up(applied))
    }

    /// The other member that leads; `None` if this member leads or knows no leader.
    #[inline]
    pub fn leader(&self) -> Option<MemberId> {
        self.leader
    }

    /// Whether `member`, another one than this, leads.
    #[inline]
    pub fn is_led_by(&self, member: MemberId) -> bool {
        self.leader == Some(member)
    }

    /// Whether this member leads, or knows which member leads.
    #[inline]
    pub fn is_leader_known(&self) -> bool {
        self.leader.is_some() || self.leads()
    }

    /// Takes a change of role, term or leader. If this member becomes the leader, it leads from
    /// `now_ms` on, with a log that ends at `last_index`. Returns whether this member led until
    /// now.
    pub fn on_change(&mut self, change: &RoleChange, now_ms: u64, last_index: u64) -> bool {
        self.leader = change.leader.map(MemberId).filter(|leader| *leader != self.own);
        let is_leader = change.role == Role::Leader;
        let leading = is_leader.then(|| Leading::new(now_ms, LogIndex(last_index)));
        core::mem::replace(&mut self.leading, leading).is_some()
    }

    /// The change of leader or term, to write to the server's log; `None` if it was already
    /// reported. `server` is the number of the leader's server, if known.
    pub fn report(&mut self, change: &RoleChange, server: Option<u64>) -> Option<Leadership> {
        let leadership = match change.leader.map(MemberId) {
            Some(leader) if leader == self.own => Leadership::Own(change.term),
            Some(leader) => Leadership::Other(change.term, leader, server),
            None => Leadership::Nobody,
        };
        (core::mem::replace(&mut self.reported, leadership) != leadership).then_some(leadership)
    }
}
