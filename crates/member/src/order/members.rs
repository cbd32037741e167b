//! Keeps the members of the ensemble as this member knows them, and does a leader's work on the
//! membership: it adds members, raises the level, and hands leadership over.
//!
//! A leader submits `Raise` once every member has said that it knows the level. Every voter and
//! learner counts, but no placeholder of a birth. A member says what it knows in its hello, so it
//! must be linked to the leader now. The level is not raised while a change of the membership is
//! under way; and once a leader raises a level, it adds no learner that does not know it. So a
//! leader always knows that every member knows the level.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::{
    Command, ControlCommand, Level, LogIndex, MemberId, ServerList, ServerRole, StatedLevel,
};
use replica::PeerStatus;

use super::Loop;
use super::memberships::Memberships;
use crate::membership::hello::Known;
use crate::membership::joining::{BrokenRule, JoinStep, JoinView};
use crate::membership::levels::{Levels, RaiseRefused};
use crate::membership::servers::{LinkedServer, Servers};
use crate::order::limits::REPLACED_SILENCE_MS;
use crate::peer::PeerMessage;

/// The members of the ensemble, their servers and their levels, as this member knows them.
pub(super) struct Members {
    servers: Servers,
    /// The list of servers from this member's configuration; empty if it accepts any list.
    servers_wanted: ServerList,
    /// Whether the data directory has kept `servers_wanted`.
    servers_are_kept: bool,
    memberships: Memberships,
    levels: Levels,
    /// The servers of the state when they were last compared with what the driver knows; `None` if
    /// the driver decides by its configuration which links it makes.
    told: Option<Arc<machine::Servers>>,
    /// Whether something has happened since the last look that a leader may take a step for: a
    /// member has linked, the servers or the membership have changed, or a learner that waits for
    /// a vote has answered.
    has_news: bool,
    /// The rule that this member breaks; `None` in real servers.
    broken: Option<BrokenRule>,
}

/// The level that a configured list of servers needs: observers serve from level 5 on.
pub(super) fn level_needed(list: &ServerList) -> Level {
    let is_observer = |record: &machine::ServerRecord| record.role == ServerRole::Observer;
    if list.servers.values().any(is_observer) { Level::MEMBERS } else { Level::FIRST }
}

impl Members {
    /// The members as a start restores them. The configuration has the list `servers_wanted`; the
    /// data directory has kept it if `servers_are_kept`.
    pub fn new(
        servers: Servers,
        (servers_wanted, servers_are_kept): (ServerList, bool),
        memberships: Memberships,
        levels: Levels,
    ) -> Members {
        Members {
            servers,
            servers_wanted,
            servers_are_kept,
            memberships,
            levels,
            told: None,
            has_news: false,
            broken: None,
        }
    }

    /// The servers of the members, from the state and the links.
    #[inline]
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The newest membership of the log, which is the active one.
    #[inline]
    pub fn newest(&self) -> &storage::wal::Membership {
        self.memberships.newest()
    }

    /// The memberships of the log, as far back as the next snapshot may need them.
    pub fn memberships(&self) -> &Memberships {
        &self.memberships
    }

    /// Adds a membership that is active from the entry at `from` on.
    pub fn on_membership(&mut self, from: LogIndex, membership: storage::wal::Membership) {
        self.memberships.push(from, membership);
        self.has_news = true;
    }

    /// Forgets memberships that only snapshots before the durable one at `index` need.
    pub fn forget_before(&mut self, index: LogIndex) {
        self.memberships.forget_before(index);
    }

    /// Whether this member has a vote.
    pub fn is_voter(&self) -> bool {
        self.newest().voters.contains(&self.servers.own.0.0)
    }

    /// Whether this member hands over the commands of its clients: it has a vote, or serves without
    /// one.
    pub fn serves(&self) -> bool {
        let (own, number) = self.servers.own;
        let registered = &self.servers.registered;
        let serves_without_vote = registered.number_of(own) == Some(number);
        let serves_without_vote = serves_without_vote && registered.serves_without_vote(own);
        self.is_voter() || serves_without_vote || self.broken == Some(BrokenRule::Registration)
    }

    /// Whether this member's own server was removed for good. A voter is never: it was listed
    /// again, and after a restart sees the lists in between once more. Without its vote the
    /// ensemble might have no quorum.
    fn is_own_removed(&self) -> bool {
        self.servers.is_own_removed() && !self.is_voter()
    }

    /// Whether this member is the only voter.
    pub fn is_alone(&self) -> bool {
        let membership = self.newest();
        membership.voters == [self.servers.own.0.0] && membership.voters_outgoing.is_empty()
    }

    /// Whether there are other members whose states can be compared with this one's: voters, or
    /// learners, which may supply snapshots beside a lone voter, too.
    pub fn has_others(&self) -> bool {
        !self.is_alone() || !self.newest().learners.is_empty()
    }

    /// Whether no other member may ever need the entries of this one, as far as it knows: it is the
    /// only voter, and its list of servers was never changed. An entry that installs an uploaded
    /// snapshot can be applied only where the snapshot's file is.
    pub fn is_standalone(&self) -> bool {
        let registered = &self.servers.registered;
        self.is_alone() && !registered.is_managed() && registered.open_change().is_none()
    }

    /// Whether a lone voter has work with the list: other servers have come or have not been
    /// forgotten, a change is open, or its own server is not registered yet.
    fn has_list_work(&self) -> bool {
        let registered = &self.servers.registered;
        let (own, number) = self.servers.own;
        let is_listed = registered.list().servers.contains_key(&number);
        !self.servers.linked.is_empty()
            || !self.newest().learners.is_empty()
            || registered.members().keys().any(|member| *member != own)
            || registered.open_change().is_some()
            || (is_listed && registered.number_of(own) != Some(number))
    }

    /// Notes that another member has linked to this one, with the description of its server, or
    /// with `None` that the link ended.
    pub fn on_linked(&mut self, member: MemberId, server: Option<LinkedServer>) {
        self.has_news |= server.is_some();
        self.servers.on_link(member, server);
    }

    /// Notes a message of Raft from another member. A learner may now have caught up: that counts
    /// while a voter of the list has no vote. An observer's messages mean no work.
    #[inline]
    pub fn on_heard(&mut self, member: MemberId) {
        let newest = self.newest();
        self.has_news |= newest.learners.contains(&member.0)
            && newest.voters.len() < self.servers.registered.list().voter_count();
    }

    /// Whether something has happened that a leader may take a step for, since the last call.
    pub fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.has_news)
    }

    /// Takes the servers from the state. Returns whether the list of servers is the same as before.
    pub fn on_registered(&mut self, servers: Arc<machine::Servers>) -> bool {
        let is_same = *servers.list() == *self.servers.registered.list();
        self.servers.registered = servers;
        self.has_news = true;
        is_same
    }

    /// The servers of the state, if the driver was told last of another version of the list, of
    /// other servers to reach, or of other retired members. `None` while this member's server joins
    /// and sees older lists, which do not have it yet: their servers may be gone.
    fn news_of_servers(&mut self) -> Option<Arc<machine::Servers>> {
        let registered = &self.servers.registered;
        let is_decided = registered.is_decided() || registered.has_guests();
        // A change that was told may have been given up.
        if !is_decided && self.told.is_none() {
            return None;
        }
        // This runs in every turn of Loop, and the servers rarely change.
        if self.told.as_ref().is_some_and(|told| Arc::ptr_eq(told, registered)) {
            return None;
        }
        let reached = registered.to_reach();
        if !reached.contains_key(&self.servers.own.1) && !self.is_own_removed() {
            return None;
        }
        let is_known = self.told.as_ref().is_some_and(|told| {
            told.list().version == registered.list().version
                && told.to_reach() == reached
                && told.retired().eq(registered.retired())
        });
        self.told = Some(registered.clone());
        (!is_known).then(|| registered.clone())
    }

    /// The list of servers that this member's configuration wants in the state, or `None` if the
    /// state has it, or if the list was changed while the ensemble ran. A new leader with an old
    /// file must not undo such a change.
    ///
    /// The file alone decides addresses and, from level 5 on, which observers there are. A voter is
    /// added to the list, or taken from it, only if the files of more than half of the voters
    /// agree: while files are changed one after the other, each new leader would otherwise undo
    /// what the one before did. A server keeps its role.
    fn wants_servers(&self) -> Option<ServerList> {
        let listed = self.servers.registered.list();
        if self.servers_wanted.servers.is_empty() || self.servers.registered.is_managed() {
            return None;
        }
        let is_new = listed.servers.is_empty();
        if self.servers_are_kept && !is_new {
            // Flags and hellos say the client URLs.
            let mut described = listed.clone();
            for (number, record) in &mut described.servers {
                let flags = self.servers_wanted.servers.get(number);
                record.client_urls = flags.map(|it| it.client_urls.clone()).unwrap_or_default();
            }
            let described = self.servers.with_client_urls(described);
            return (*listed != described).then_some(described);
        }
        let has_observers = self.levels.replicated() >= Level::MEMBERS;
        let mut wanted = self.servers_wanted.clone();
        wanted.servers.retain(|number, record| match (listed.servers.get(number), record.role) {
            (Some(known), _) => {
                record.role = known.role;
                true
            }
            (None, ServerRole::Voter) => is_new || self.most_have(*number, true),
            (None, _) => has_observers,
        });
        let kept = listed.servers.iter().filter(|(number, record)| {
            let has_it = self.servers_wanted.servers.contains_key(number);
            !has_it && record.role == ServerRole::Voter && !self.most_have(**number, false)
        });
        wanted.servers.extend(kept.map(|(number, record)| (*number, record.clone())));
        let wanted = self.servers.with_client_urls(wanted);
        (*listed != wanted).then_some(wanted)
    }

    /// Whether the files of more than half of the voters are known to have a server, or with
    /// `has_it` false, known not to have it.
    fn most_have(&self, number: u64, has_it: bool) -> bool {
        let voters = &self.newest().voters;
        let agrees = |voter: &&u64| match **voter == self.servers.own.0.0 {
            true => self.servers_wanted.servers.contains_key(&number) == has_it,
            false => {
                let linked = self.servers.linked.get(&MemberId(**voter));
                let configured = linked.map_or(&[][..], |linked| &linked.configured);
                !configured.is_empty() && configured.contains(&number) == has_it
            }
        };
        voters.iter().filter(agrees).count() > voters.len() / 2
    }

    /// The levels that this build knows, and the level of the state.
    #[inline]
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Notes a level that a client of this member, or of another one, needs. Loop asks for it until
    /// the state has it.
    pub fn need_level(&mut self, level: Level) {
        self.levels.need(level);
    }

    /// Notes that the level of the state has risen, or that the state was replaced by one of this
    /// level. Returns whether the level was lower before.
    pub fn on_raised(&mut self, level: Level) -> bool {
        self.levels.on_raised(level)
    }
}

impl Loop {
    /// The level of the state. Only features of this level and lower ones may be used.
    pub fn level(&self) -> Level {
        self.members.levels.replicated()
    }

    /// Whether servers that are not on the list may come and get the log: clients may change the
    /// list by reconfig, for which new servers must have the data before they are listed.
    pub fn takes_guests(&self) -> bool {
        self.level() >= Level::MEMBERS && self.spaces.zk.is_reconfig_enabled()
    }

    /// Whether this member leads or knows who does.
    pub fn knows_leader(&self) -> bool {
        self.role.leads() || self.role.leader().is_some()
    }

    /// Whether this member's server is an observer of the list.
    pub fn is_observer(&self) -> bool {
        let servers = &self.members.servers;
        let list = servers.registered.list_to_follow();
        let record = list.servers.get(&servers.own.1);
        record.is_some_and(|record| record.role == ServerRole::Observer)
    }

    /// The message versions and levels that this build knows.
    pub fn known(&self) -> &Known {
        self.members.levels.known()
    }

    /// The members that have a link to this one, with their descriptions.
    pub fn linked(&self) -> &BTreeMap<MemberId, LinkedServer> {
        &self.members.servers.linked
    }

    /// Raises the level to the highest that this build knows, at the request of an operator.
    /// Returns the level that the state has, or will have soon.
    ///
    /// # Errors
    /// The level cannot be raised now; nothing was submitted.
    pub fn upgrade(&mut self) -> Result<Level, RaiseRefused> {
        let level = self.members.levels.own_max();
        self.raise(level).map(|()| level.max(self.level()))
    }

    /// The level to which this leader last decided to raise; its entry may not be in the log yet.
    /// `None` if it has not raised the level since it began to lead, or does not lead. For the
    /// simulator's judge.
    pub fn raising(&self) -> Option<Level> {
        self.role.leading().and_then(|leading| leading.raising)
    }

    /// Raises the level because clients need a higher one, or asks the leader to. Level 1 is raised
    /// as far as all members know, so that a new ensemble has all bounds from the first use by
    /// etcd's clients on. Another level is raised only as far as needed, so that an upgrade can be
    /// undone.
    pub(super) fn pursue_level(&mut self) {
        let Some(level) = self.members.levels.due(self.clock.now_ms()) else { return };
        match self.role.leader() {
            _ if self.role.leads() => {
                let is_first = self.level() == Level::FIRST;
                let (own_max, membership) =
                    (self.members.levels.own_max(), self.replica.membership());
                let known = self.members.servers.known_to_all(own_max, membership);
                if self.raise(known.filter(|_| is_first).unwrap_or(level).max(level)).is_err() {
                    self.members.levels.on_refused(self.clock.now_ms());
                }
            }
            Some(leader) => self.send(leader, PeerMessage::NeedLevel(level)),
            None => {}
        }
    }

    fn raise(&mut self, level: Level) -> Result<(), RaiseRefused> {
        if level <= self.level() {
            return Ok(());
        }
        if !self.is_caught_up() {
            return Err(RaiseRefused::NotLeader);
        }
        let level_max = self.members.levels.own_max();
        if level > level_max {
            return Err(RaiseRefused::UnknownHere { level_max });
        }
        let membership = self.replica.membership();
        if membership.is_joint() || self.replica.is_changing_membership() {
            return Err(RaiseRefused::Changing);
        }
        self.members.servers.check_all_know(level, membership)?;
        let leading = self.role.leading_mut().expect("a member that is caught up leads");
        if leading.raising.is_none_or(|raising| raising < level) {
            leading.raising = Some(level);
            let command = ControlCommand::Raise(level.into());
            self.intake.submit_own(&Command::Control(command));
        }
        Ok(())
    }

    /// Notes that the level of the state has risen, or that the state was replaced by one of this
    /// level.
    pub(super) fn on_raised(&mut self, stated: StatedLevel) {
        if self.members.on_raised(stated.level) {
            self.output.raised = Some(stated);
        }
    }

    /// The level that a new member must know: the level of the state, or a higher one to which this
    /// leader is raising.
    fn level_to_join(&self) -> Level {
        self.raising().unwrap_or(Level::FIRST).max(self.level())
    }

    /// Makes this member break a rule of the changes of members, for the simulator.
    pub fn break_rule(&mut self, rule: BrokenRule) {
        self.members.broken = Some(rule);
    }

    /// Takes the next step to add, promote or remove members, if this member leads.
    pub(super) fn pursue_joining(&mut self) {
        if !self.is_caught_up() || (self.members.is_alone() && !self.members.has_list_work()) {
            return;
        }
        let level = self.level_to_join();
        let now_ms = self.clock.now_ms();
        self.members.servers.takes_guests = self.takes_guests();
        let Some(leading) = self.role.leading_mut() else { return };
        let membership = self.replica.membership().clone();
        let step = leading.joining.step(&JoinView {
            servers: &self.members.servers,
            membership: &membership,
            peers: &self.replica.peers(),
            last_index: self.replica.status().last_index,
            silent_ticks_min: self.clock.ticks_in(REPLACED_SILENCE_MS),
            level,
            has_listened: now_ms >= leading.since_ms + REPLACED_SILENCE_MS,
            now_ms,
            is_changing: self.replica.is_changing_membership(),
            broken: self.members.broken,
        });
        match step {
            Some(JoinStep::Submit(command)) => self.intake.submit_own(&command),
            Some(JoinStep::Change(change)) => {
                // If this is refused, because another change is under way or leadership moves, it
                // is tried again.
                let _ = self.replica.propose_membership(&change);
            }
            Some(JoinStep::HandOver(candidates)) => {
                let known = |peer: &&PeerStatus| candidates.contains(&MemberId(peer.member_id));
                let peers = self.replica.peers();
                let best = peers.iter().filter(known).max_by_key(|peer| peer.matched_index);
                let best = best.map(|peer| MemberId(peer.member_id));
                best.map(|best| self.hand_over(Some(best)));
            }
            None => {}
        }
    }

    /// Tells the driver of other servers to reach, of retired members, and of the end of this
    /// member's own server.
    pub(super) fn tell_servers(&mut self) {
        if let Some(servers) = self.members.news_of_servers() {
            self.output.removed = self.members.is_own_removed();
            self.output.servers = Some(servers);
        }
    }

    /// Whether the servers are being changed: a change of the list is open, or the membership is
    /// joint.
    pub(super) fn is_changing_members(&self) -> bool {
        self.members.servers.registered.open_change().is_some()
            || self.replica.membership().is_joint()
    }

    /// Submits this leader's settings and list of servers if the state has others: the leader's
    /// configuration is the ensemble's.
    pub(super) fn maybe_configure(&mut self) {
        let is_configuring = self.role.leading().is_none_or(|leading| leading.is_configuring);
        if is_configuring || !self.is_caught_up() {
            return;
        }
        if let Some(command) = self.configuration() {
            self.intake.submit_own(&command);
            self.role.leading_mut().into_iter().for_each(|leading| leading.is_configuring = true);
        }
    }

    /// The command that makes the replicated settings and servers those of this member's
    /// configuration; `None` if they are so already.
    pub(super) fn configuration(&self) -> Option<Command<'static>> {
        let wanted = self.spaces.wanted(self.level());
        let set_servers = |servers| Command::Control(ControlCommand::SetServers(servers));
        wanted.or_else(|| self.members.wants_servers().map(set_servers))
    }

    /// Takes the servers from the state, which may have changed.
    pub(super) fn on_registered(&mut self, servers: Arc<machine::Servers>) {
        let is_same = self.members.on_registered(servers);
        if let Some(leading) = self.role.leading_mut() {
            leading.is_configuring &= is_same;
            leading.joining.on_registered();
        }
    }

    /// Hands leadership to a voter that is reachable and has room on its disk: to `to` if given,
    /// else to the voter that is least behind. Returns false if this member does not lead, or no
    /// voter can take over.
    pub fn hand_over(&mut self, to: Option<MemberId>) -> bool {
        let voters = &self.replica.membership().voters;
        let peers = self.replica.peers();
        let mut candidates =
            peers.iter().filter(|peer| voters.contains(&peer.member_id) && self.is_there(peer));
        let chosen = match to {
            Some(to) => candidates.find(|peer| peer.member_id == to.0),
            None => candidates.max_by_key(|peer| peer.matched_index),
        };
        let Some(to) = chosen.map(|peer| peer.member_id) else { return false };
        if self.replica.status().transferring_to == Some(to) {
            return true;
        }
        self.replica.transfer_leader(to).is_ok()
    }

    /// Whether a member is linked to this one and heard, and its disk is not full.
    pub(super) fn is_there(&self, peer: &PeerStatus) -> bool {
        let member = MemberId(peer.member_id);
        let silent_ticks_max = self.clock.ticks_in(REPLACED_SILENCE_MS);
        let is_heard = peer.silent_ticks.is_some_and(|ticks| ticks < silent_ticks_max);
        is_heard && self.members.servers.is_linked(member) && !self.is_full(member)
    }
}

#[cfg(test)]
mod tests;
