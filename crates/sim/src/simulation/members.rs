//! Servers that come and go while the ensemble runs: which machines are started, what each process
//! knows of the list of servers, and when a removed server ends.
//!
//! A new server asks the members for its number, as a real one does: it is started once a member
//! lists it. The links of each process follow the list that its Loop tells. A member that was
//! removed ends itself; an operator takes away the machines of removed servers that did not learn
//! of their removal.

use machine::{Level, MemberId, ServerRole, Servers};
use member::limits::CAUGHT_UP_ENTRIES;
use member::membership::bootstrap::Attendance;
use replica::Role;
use storage::datadir::{self, IDENTITY_FILE};

use super::cluster::Cluster;
use super::host::Host;
use super::hosts::Hosts;
use super::reconfigs::Reconfigs;
use super::roster::{Numbers, Short, Standing};
use crate::disk::Lost;
use crate::etcd_clients::changer::Changer;
use crate::etcd_clients::client::EtcdClient;
use crate::limits::{
    DEPARTED_LINKS_US, DISCOVERY_US_MAX, JOIN_US_MAX, READY_US_MAX, REMOVED_SERVES_US,
    RETURN_US_MAX, SILENT_US_MIN, TAKEN_AWAY_CALM_US, TAKEN_AWAY_US_MAX, VOTE_LAG_MAX,
};
use crate::links::Pair;
use crate::member_changes::ChangeCounts;
use crate::server::Server;
use crate::witness::Witness;
use crate::world::Event;

impl Hosts {
    /// Whether a machine is one of the ensemble: it was started, was not taken away, and its server
    /// is listed.
    pub fn is_in(&self, member: usize) -> bool {
        let number = member as u64 + 1;
        let is_listed = self.list.voters.contains(&number) || self.list.learners.contains(&number);
        self[member].place.standing == Standing::Begun && is_listed
    }

    /// The machines of the ensemble.
    pub fn members_in(&self) -> Vec<usize> {
        (0..self.len()).filter(|member| self.is_in(*member)).collect()
    }

    /// The machines of the ensemble whose servers serve clients.
    pub fn serving(&self) -> Vec<usize> {
        self.members_in().into_iter().filter(|member| self.serves(*member)).collect()
    }

    /// Whether the server of a machine is to serve clients: it is to vote, or is an observer.
    pub fn serves(&self, member: usize) -> bool {
        self.is_voter(member) || self.list.observers.contains(&(member as u64 + 1))
    }

    /// The machines that were started and not taken away. Clients know their addresses, and faults
    /// strike them.
    pub fn present(&self) -> Vec<usize> {
        let is_there = |member: &usize| self[*member].place.standing == Standing::Begun;
        (0..self.len()).filter(is_there).collect()
    }

    /// Whether the server of a machine is to vote.
    pub fn is_voter(&self, member: usize) -> bool {
        self.list.voters.contains(&(member as u64 + 1))
    }

    /// The running member with the newest state.
    pub fn newest(&self) -> Option<&Server> {
        let servers = self.iter().filter_map(|host| host.server.as_ref());
        servers.max_by_key(|server| server.machine().index())
    }

    /// Whether a change of the list is open in the newest state of a member.
    pub fn is_change_open(&self) -> bool {
        self.servers().any(|server| server.machine().control().servers().open_change().is_some())
    }
}

/// The cluster, as the code sees it that changes its members.
pub(super) struct Changes<'c>(&'c mut Cluster);

impl<'c> Changes<'c> {
    /// The code that changes the members of this cluster.
    pub fn of(cluster: &'c mut Cluster) -> Changes<'c> {
        Changes(cluster)
    }

    /// Follows the list of servers: notes the machines that are now in or out, and sometimes ends
    /// the leader's process in the middle of a change.
    ///
    /// # Errors
    /// A member that has applied its removal goes on.
    pub fn pursue_list(&mut self, is_calm: bool) -> Result<(), String> {
        if self.0.options.changes.is_none() {
            return Ok(());
        }
        self.follow_list(is_calm);
        self.check_new_voters()?;
        if !is_calm {
            self.maybe_kill_leader();
        }
        (0..self.0.hosts.len()).try_for_each(|member| self.check_removed(member))
    }

    /// Checks that the members that get a vote have almost the whole log.
    fn check_new_voters(&mut self) -> Result<(), String> {
        let Some((from, new)) = self.0.witness.members.newest_voters() else { return Ok(()) };
        if core::mem::replace(&mut self.0.hosts.list.judged_from, from) == from
            || self.0.hosts.is_any_deceiving()
        {
            return Ok(());
        }
        let last_index = |id: &MemberId| {
            let host = self.0.hosts.iter().find(|host| host.member() == Some(*id))?;
            Some(host.server.as_ref()?.status().last_index)
        };
        let lags = |id: &&MemberId| {
            last_index(id).is_some_and(|last| last + CAUGHT_UP_ENTRIES + VOTE_LAG_MAX < from)
        };
        match new.iter().find(lags) {
            None => Ok(()),
            Some(id) => Err(format!(
                "member {} gets a vote at entry {from}, and has the log up to {:?} only",
                id.0,
                last_index(id)
            )),
        }
    }

    /// Sometimes ends the leader's process when a change has come a step further.
    fn maybe_kill_leader(&mut self) {
        let leads = |member: &usize| {
            let server = self.0.hosts[*member].server.as_ref();
            server.is_some_and(|server| server.status().role == Role::Leader)
        };
        let Some(leader) = self.0.hosts.present().into_iter().find(leads) else { return };
        let Some(server) = self.0.hosts[leader].server.as_ref() else { return };
        let open = server.machine().control().servers().open_change();
        let is_accepted = open.is_some_and(|open| open.is_accepted);
        let step = (open.map(|open| open.id), is_accepted, server.is_joint());
        if core::mem::replace(&mut self.0.hosts.list.step, step) == step {
            return;
        }
        let may_kill = self.0.options.faults.is_any() && !self.0.hosts.is_any_deceiving();
        if may_kill && self.0.world.random.one_in(12) {
            self.0.hosts.list.counts.leaders_killed += 1;
            let power_is_cut = self.0.world.random.one_in(2);
            self.0.end_process(leader, power_is_cut);
        }
    }

    /// Checks that a member that has applied its own removal ends soon, unless a later change that
    /// is accepted lists its server again, or the ensemble has taken it as a guest: it linked only
    /// after its removal, when the members did not know it yet.
    fn check_removed(&mut self, member: usize) -> Result<(), String> {
        let now_us = self.0.world.now_us;
        let host = &mut self.0.hosts[member];
        let removed_version = host.place.removed_version.filter(|_| !host.place.is_guest);
        let Some(removed_version) = removed_version else { return Ok(()) };
        let number = member as u64 + 1;
        let has_applied = host.server.as_ref().is_some_and(|server| {
            let servers = server.machine().control().servers();
            servers.list().version >= removed_version
                && !servers.list_to_follow().servers.contains_key(&number)
                && !servers.is_guest(number)
        });
        if !has_applied {
            host.place.applied_removal_us = None;
            return Ok(());
        }
        let since_us = *host.place.applied_removal_us.get_or_insert(now_us);
        let since_us = since_us.max(host.cpu.paused_until_us());
        match now_us > since_us + 2 * REMOVED_SERVES_US {
            true => Err(format!("member {member} goes on, and has applied its removal")),
            false => Ok(()),
        }
    }

    fn follow_list(&mut self, is_calm: bool) {
        let Some((version, list)) = self.0.witness.members.newest_list() else { return };
        if version == self.0.hosts.list.version {
            return;
        }
        let with = |role: ServerRole| {
            let is_it = move |is_voter: bool| is_voter == (role == ServerRole::Voter);
            list.iter().filter(move |(_, it)| is_it(it.role == ServerRole::Voter))
        };
        let numbers = |role| with(role).map(|(number, _)| *number).collect::<Numbers>();
        let (voters, learners) = (numbers(ServerRole::Voter), numbers(ServerRole::Learner));
        let observers = list.iter().filter(|(_, it)| it.role == ServerRole::Observer);
        let observers = observers.map(|(number, _)| *number).collect();
        let guests = self.0.witness.members.guests(version);
        let text = format!(
            "the list has version {version:x}: {voters:?}, {learners:?} and the guests {guests:?}"
        );
        let now_us = self.0.world.now_us;
        let before: Vec<usize> = self.0.hosts.members_in();
        let list = &mut self.0.hosts.list;
        (list.version, list.voters, list.learners) = (version, voters, learners);
        list.observers = observers;
        for member in self.0.hosts.present() {
            let number = member as u64 + 1;
            let list = &self.0.hosts.list;
            let is_listed = list.voters.contains(&number) || list.learners.contains(&number);
            let place = &mut self.0.hosts[member].place;
            if is_listed && !before.contains(&member) {
                place.since_us = now_us;
                (place.removed_version, place.applied_removal_us) = (None, None);
            }
            // It stays so after it is retired: only another member can tell it that.
            place.is_guest = !is_listed && (place.is_guest || guests.contains(&number));
            if !is_listed && before.contains(&member) {
                place.removed_version = Some(version);
                self.take_away_later(member, is_calm);
            }
        }
        for member in 0..self.0.hosts.len() {
            self.maybe_return(member);
        }
        self.0.say(None, || text);
    }

    fn take_away_later(&mut self, member: usize, is_calm: bool) {
        let wait_us = match is_calm {
            true => TAKEN_AWAY_CALM_US,
            false => self.0.world.random.magnitude(TAKEN_AWAY_CALM_US, TAKEN_AWAY_US_MAX),
        };
        self.0.world.schedule(self.0.world.now_us + wait_us, Event::TakeAway { member });
    }

    /// If the server of a machine that was taken away is listed again, plans its return with its
    /// old directory.
    fn maybe_return(&mut self, member: usize) {
        let (list, number) = (&self.0.hosts.list, member as u64 + 1);
        let is_listed = list.voters.contains(&number) || list.learners.contains(&number);
        let is_wanted = is_listed || self.is_about_to_be_listed(member);
        let place = &mut self.0.hosts[member].place;
        if place.standing != Standing::Gone || !is_wanted || place.is_planned {
            return;
        }
        place.is_planned = true;
        let wait_us = self.0.world.random.magnitude(1, RETURN_US_MAX);
        // Before its directory is removed, no leader may count on it any more.
        let silent_us = if place.knows_removal { SILENT_US_MIN } else { 0 };
        let at_us = self.0.world.now_us + silent_us + wait_us;
        self.0.world.schedule(at_us, Event::Begin { member });
    }

    /// Takes the machines of removed servers away at once, and leaves a minority of the voters down
    /// until the others have a leader.
    pub fn begin_short(&mut self) {
        for member in self.0.hosts.present() {
            if self.0.hosts[member].place.removed_version.is_some()
                && !self.is_about_to_be_listed(member)
            {
                self.take_away(member);
            }
        }
        let Some(voters) = self.0.hosts.newest().map(Server::voters) else { return };
        let of = |id: &u64| {
            let is_its = |host: &Host| host.member() == Some(MemberId(*id)) && host.lost.is_none();
            self.0.hosts.iter().position(is_its)
        };
        let mut there: Vec<usize> = voters.iter().filter_map(of).collect();
        let missing = voters.len() - there.len();
        let count_max = ((voters.len().max(1) - 1) / 2).saturating_sub(missing);
        if count_max == 0 || self.0.hosts.is_any_deceiving() {
            return;
        }
        let count = self.0.world.random.between(1, count_max as u64) as usize;
        let mut down = Vec::new();
        for _ in 0..count {
            let position = self.0.world.random.below(there.len() as u64) as usize;
            down.push(there.swap_remove(position));
        }
        for member in &down {
            let power_is_cut = self.0.world.random.one_in(2);
            self.0.maybe_end_process(*member, power_is_cut);
            self.0.hosts[*member].is_left_down = true;
        }
        // The others start again, too, so that only what is durable counts.
        for member in there {
            if self.0.world.random.one_in(2) {
                self.0.maybe_end_process(member, true);
            }
        }
        self.0.hosts.list.counts.ended_short += 1;
        self.0.hosts.list.short = Some(Short { since_us: self.0.world.now_us, down });
    }

    /// Starts the minority that was left down once the others have a leader, whom nothing hinders
    /// from `able_us` on. Returns whether none is left down.
    ///
    /// # Errors
    /// They have no leader in time.
    pub fn pursue_short(&mut self, able_us: u64) -> Result<bool, String> {
        let Some(short) = &self.0.hosts.list.short else { return Ok(true) };
        let leads = |server: &Server| server.status().role == Role::Leader && server.is_ready();
        if !self.0.hosts.servers().any(leads) {
            let since_us = short.since_us.max(able_us);
            return match self.0.world.now_us > since_us + READY_US_MAX {
                true => Err(format!(
                    "a majority has no leader right after a change: {}",
                    self.0.hosts.describe()
                )),
                false => Ok(false),
            };
        }
        let down = short.down.clone();
        self.0.hosts.list.short = None;
        for member in down {
            self.0.hosts[member].is_left_down = false;
            self.0.world.schedule(self.0.world.now_us, Event::Start { member });
        }
        Ok(true)
    }

    /// Takes the machines of removed servers away soon, since the faults have stopped.
    pub fn take_all_away(&mut self) {
        self.0.hosts.list.is_calm = true;
        for member in self.0.hosts.present() {
            if self.0.hosts[member].place.removed_version.is_some() {
                self.take_away_later(member, true);
            }
        }
    }

    /// An operator takes the machine of a removed server away, unless it is listed again. While a
    /// change may list it, he waits.
    pub fn take_removed_away(&mut self, member: usize) {
        if self.0.hosts[member].place.removed_version.is_none() {
            return;
        }
        match self.is_about_to_be_listed(member) {
            true => self.take_away_later(member, true),
            false => self.take_away(member),
        }
    }

    /// Whether the newest open change would list the server of a machine. Its vote may come before
    /// the change finishes.
    fn is_about_to_be_listed(&self, member: usize) -> bool {
        let newest = self.0.hosts.newest().map(|it| it.machine().control().servers());
        let open = newest.and_then(|servers| servers.open_change());
        open.is_some_and(|open| open.next.servers.contains_key(&(member as u64 + 1)))
    }

    fn take_away(&mut self, member: usize) {
        if self.0.hosts[member].place.standing != Standing::Begun {
            return;
        }
        self.0.say(Some(member), || "its machine is taken away".to_string());
        self.0.maybe_end_process(member, false);
        let host = &mut self.0.hosts[member];
        (host.place.standing, host.place.is_planned) = (Standing::Gone, false);
        (host.other, host.lost, host.copy) = (None, None, None);
        self.maybe_return(member);
    }

    /// A member that was removed ends itself, a second after it has learned of that.
    pub fn end_removed(&mut self, life: u64) {
        let is_it = |host: &Host| host.life == life && host.server.is_some();
        let Some(member) = self.0.hosts.iter().position(is_it) else { return };
        if !self.0.hosts[member].place.knows_removal {
            // It was listed again, and has applied that meanwhile.
            return;
        }
        if self.0.hosts[member].cpu.is_paused(self.0.world.now_us) {
            let at_us = self.0.hosts[member].cpu.paused_until_us();
            return self.0.world.schedule(at_us, Event::EndRemoved { life });
        }
        self.0.hosts.list.counts.ended += 1;
        self.take_away(member);
    }

    /// The Loop of a member tells other servers to reach.
    pub fn on_news(&mut self, member: usize, servers: &Servers, is_removed: bool) {
        if self.0.options.changes.is_none() {
            return;
        }
        let number = member as u64 + 1;
        let reaches: Numbers = servers.to_reach().into_keys().collect();
        let listed: Numbers = servers.list_to_keep().servers.into_keys().collect();
        self.plan_starts(&reaches);
        // An accepted change may list a server whose machine was taken away meanwhile.
        (0..self.0.hosts.len()).for_each(|member| self.maybe_return(member));
        let place = &mut self.0.hosts[member].place;
        let left: Vec<u64> = place.reaches.difference(&reaches).copied().collect();
        place.reaches = reaches;
        place.retired = servers.retired().collect();
        // A process may end before it has stored the list.
        if listed.contains(&number) && !self.0.world.random.one_in(8) {
            place.kept = listed;
        }
        for other in left {
            let at_us = self.0.world.now_us + DEPARTED_LINKS_US;
            self.0.world.schedule(at_us, Event::Depart { member, number: other });
        }
        self.end_links_of_retired(member);
        self.0.hosts[member].place.knows_removal = is_removed;
        if is_removed {
            let life = self.0.hosts[member].life;
            self.0.say(Some(member), || "it learns that it was removed".to_string());
            let at_us = self.0.world.now_us + REMOVED_SERVES_US;
            self.0.world.schedule(at_us, Event::EndRemoved { life });
        }
    }

    /// Ends a member's links with the retired members that it knows of. They dial again, and learn
    /// that they are retired.
    fn end_links_of_retired(&mut self, member: usize) {
        let Cluster { hosts, links, world, .. } = &mut *self.0;
        let retired = &hosts[member].place.retired;
        let is_retired = |other: &usize| {
            let server = hosts[*other].server.as_ref();
            server.is_some_and(|server| retired.contains(&server.hello().member))
        };
        let others = (0..hosts.len()).filter(|other| *other != member && is_retired(other));
        for other in others.collect::<Vec<_>>() {
            for pair in [Pair { from: member, to: other }, Pair { from: other, to: member }] {
                links.break_off(world, pair);
            }
        }
    }

    /// A member learns that it is retired. If the list of the member that says so has its server,
    /// the process begins again as a new member; otherwise it ends.
    pub fn on_retired(&mut self, by: Pair) {
        let member = by.from;
        let is_listed = self.0.hosts[by.to].place.reaches.contains(&(member as u64 + 1));
        self.0.say(Some(member), || format!("it learns that it is retired, listed: {is_listed}"));
        if !is_listed {
            let at_us = self.0.world.now_us + REMOVED_SERVES_US;
            let life = self.0.hosts[member].life;
            return self.0.world.schedule(at_us, Event::EndRemoved { life });
        }
        self.0.hosts.list.counts.joined_again += 1;
        let host = &mut self.0.hosts[member];
        // If this fails, the process ends, and its next run learns the same.
        let _ = datadir::condemn(&host.disk, "the member is retired, and its server is listed");
        match host.lost {
            Some(_) => host.config.lost_count += 1,
            None => host.note_lost(host.member()),
        }
        match host.disk.is_stopped() {
            true => self.0.stop_with_disk(member),
            false => self.0.end_process(member, false),
        }
    }

    /// Ends the links between a member and a server that has left its list.
    pub fn depart(&mut self, member: usize, number: u64) {
        let other = (number - 1) as usize;
        if self.0.hosts[member].place.reaches.contains(&number) || other >= self.0.hosts.len() {
            return;
        }
        for pair in [Pair { from: member, to: other }, Pair { from: other, to: member }] {
            self.0.links.break_off(&mut self.0.world, pair);
        }
    }

    // Reconfigs.

    /// Schedules the operators' next reconfig, if they make one.
    pub fn plan_reconfig(&mut self) {
        let next_us = self.0.hosts.list.reconfigs.as_mut().and_then(Reconfigs::next_us);
        if let Some(wait_us) = next_us {
            self.0.world.schedule(self.0.world.now_us + wait_us, Event::Reconfig);
        }
    }

    /// Operators ask some member for a reconfig.
    pub fn reconfig(&mut self, is_calm: bool) {
        if is_calm {
            return;
        }
        self.plan_reconfig();
        let serves = |member: &usize| {
            let host = &self.0.hosts[*member];
            let is_serving = |server: &Server| {
                server.is_ready() && server.machine().control().level().level >= Level::MEMBERS
            };
            host.is_awake(self.0.world.now_us) && host.server.as_ref().is_some_and(is_serving)
        };
        let serving: Vec<usize> = self.0.hosts.present().into_iter().filter(serves).collect();
        if serving.is_empty() {
            return;
        }
        let member = *self.0.world.random.pick(&serving);
        let Some(server) = &self.0.hosts[member].server else { return };
        let list = server.machine().control().servers().list().clone();
        let mut spare = self.startable();
        spare.retain(|number| !list.servers.contains_key(number));
        let Some(reconfigs) = &mut self.0.hosts.list.reconfigs else { return };
        let request = reconfigs.draw(&list, &spare);
        self.0.say(Some(member), || format!("an operator asks for {request:?}"));
        self.0.witness.members.on_asked(&request);
        if let Some(server) = &mut self.0.hosts[member].server {
            server.ask_change(&request, &mut self.0.world);
        }
    }

    /// The numbers of the machines that were started once, and of the first one that was not.
    fn startable(&self) -> Vec<u64> {
        let is_spare = |host: &Host| host.place.standing == Standing::Spare;
        let first = self.0.hosts.iter().position(is_spare);
        let begun = (0..self.0.hosts.len()).filter(|at| !is_spare(&self.0.hosts[*at]));
        begun.chain(first).map(|member| member as u64 + 1).collect()
    }

    // Starts.

    /// Plans the starts of the machines of added servers. Some are never started.
    fn plan_starts(&mut self, reaches: &Numbers) {
        for number in reaches {
            let member = (number - 1) as usize;
            if member < self.0.hosts.len() && self.0.hosts[member].place.standing == Standing::Spare
            {
                self.plan_start(member);
            }
        }
    }

    fn plan_start(&mut self, member: usize) {
        let place = &mut self.0.hosts[member].place;
        if core::mem::replace(&mut place.is_planned, true) || self.0.world.random.one_in(8) {
            return;
        }
        let wait_us = match self.0.world.random.one_in(3) {
            true => self.0.world.random.magnitude(1, 50_000),
            false => self.0.world.random.magnitude(50_000, 20_000_000),
        };
        self.0.world.schedule(self.0.world.now_us + wait_us, Event::Begin { member });
    }

    /// Plans the starts of machines that an operator starts before he adds their servers.
    pub fn plan_early_starts(&mut self) {
        if self.0.options.changes.is_none() {
            return;
        }
        for member in 0..self.0.hosts.len() {
            let is_spare = self.0.hosts[member].place.standing == Standing::Spare;
            if is_spare && self.0.world.random.one_in(8) {
                let at_us = self.0.world.random.magnitude(1_000_000, 60_000_000);
                self.0.world.schedule(at_us, Event::Begin { member });
            }
        }
    }

    /// A machine of an added server is started for the first time.
    pub fn begin(&mut self, member: usize, is_calm: bool) -> Result<(), String> {
        let now_us = self.0.world.now_us;
        match self.0.hosts[member].place.standing {
            Standing::Begun => return Ok(()),
            Standing::Spare => self.0.hosts.list.counts.begun += 1,
            Standing::Gone => self.0.hosts.list.counts.returned += 1,
        }
        let place = &mut self.0.hosts[member].place;
        let knows_removal = core::mem::replace(&mut place.knows_removal, false);
        (place.standing, place.since_us) = (Standing::Begun, now_us);
        (place.removed_version, place.applied_removal_us) = (None, None);
        if knows_removal && !self.has_vote_left(member) {
            // Its process would end again, so the operator removes the directory, as its log says.
            let host = &mut self.0.hosts[member];
            host.disk.lose(Lost::All);
            host.config.lost_count += 1;
            self.0.witness.on_lost(member);
        }
        // Its server may have been removed before it was ever started.
        let number = member as u64 + 1;
        let was_listed = self.0.witness.members.lists().values().any(|it| it.contains_key(&number));
        if was_listed && !self.0.hosts.is_in(member) {
            self.0.hosts[member].place.removed_version = Some(self.0.hosts.list.version);
            self.take_away_later(member, is_calm);
        }
        self.0.start(member, is_calm)
    }

    /// Whether a directory of this machine has a vote, as the newest state has it. It may, if no
    /// process runs.
    fn has_vote_left(&self, member: usize) -> bool {
        let is_its = |id: &u64| self.0.witness.members.machine_of(*id) == Some(member);
        self.0.hosts.newest().is_none_or(|it| it.voters().iter().any(is_its))
    }

    /// Prepares a start: decides which servers the process makes links with, and whether it may
    /// take part in a birth. Returns false if no member knows the server's number yet; then the
    /// start is tried again later.
    pub fn prepare_start(&mut self, member: usize) -> bool {
        if self.0.options.changes.is_none() {
            return true;
        }
        let host = &self.0.hosts[member];
        let has_begun = host.disk.paths().iter().any(|path| path == IDENTITY_FILE);
        let joins = host.place.is_added || self.0.hosts.list.version > 0;
        let mut reaches = host.place.kept.clone();
        if !has_begun && joins {
            match self.discover(member) {
                Some(found) => reaches = found,
                None => {
                    let wait_us = self.0.world.random.magnitude(200_000, DISCOVERY_US_MAX);
                    let at_us = self.0.world.now_us + wait_us;
                    self.0.world.schedule(at_us, Event::Start { member });
                    return false;
                }
            }
        }
        let attendance = match joins {
            true => Attendance::Existing,
            false => self.0.options.member.attendance,
        };
        let host = &mut self.0.hosts[member];
        host.config.servers = reaches.iter().copied().collect();
        host.config.attendance = attendance;
        (host.place.reaches, host.place.kept) = (reaches.clone(), reaches);
        host.place.retired.clear();
        true
    }

    /// The servers that some running member lists, if it lists this one.
    fn discover(&mut self, member: usize) -> Option<Numbers> {
        let number = member as u64 + 1;
        let now_us = self.0.world.now_us;
        let knows = |other: &usize| {
            let host = &self.0.hosts[*other];
            let is_up = *other != member && host.is_awake(now_us) && host.server.is_some();
            is_up && host.place.reaches.contains(&number) && !host.place.knows_removal
        };
        let known: Vec<usize> = self.0.hosts.present().into_iter().filter(knows).collect();
        if known.is_empty() {
            return None;
        }
        let asked = *self.0.world.random.pick(&known);
        Some(self.0.hosts[asked].place.reaches.clone())
    }

    /// Plans the end of a process that may only join and finds nobody to join.
    pub fn plan_join_limit(&mut self, member: usize) {
        let host = &self.0.hosts[member];
        if host.config.attendance == Attendance::Existing {
            let at_us = self.0.world.now_us + JOIN_US_MAX;
            self.0.world.schedule(at_us, Event::JoinLimit { life: host.life });
        }
    }

    /// A process that may only join ends, unless its directory was born meanwhile.
    pub fn end_joining(&mut self, life: u64) {
        let is_it = |host: &Host| host.unborn.as_ref().is_some_and(|it| it.life() == life);
        if let Some(member) = self.0.hosts.iter().position(is_it) {
            self.0.end_process(member, false);
        }
    }
}

/// Whether the faults are to stop now, because enough changes were answered as done.
pub(super) fn ends_short(cluster: &Cluster) -> bool {
    let Some(after) = cluster.options.changes.as_ref().and_then(|it| it.ends_after) else {
        return false;
    };
    let operators = cluster.etcd.clients.iter().filter_map(EtcdClient::operator);
    let done = operators.filter_map(|it| it.changer()).map(Changer::done_count).sum::<u64>();
    done >= after
        && cluster.witness.is_membership_settled()
        && cluster.hosts.newest().is_some_and(|newest| {
            !newest.is_joint() && newest.machine().control().servers().open_change().is_none()
        })
}

/// Whether the list of both ends allows a link. Once the faults have stopped, the list of one
/// end is enough: a member that was away for many changes may know none of the servers that are
/// left, and an operator has to give it the present list.
pub(super) fn may_link(cluster: &Cluster, pair: Pair) -> bool {
    if cluster.options.changes.is_none() {
        return true;
    }
    let reaches =
        |from: usize, to: usize| cluster.hosts[from].place.reaches.contains(&(to as u64 + 1));
    let (one, other) = (reaches(pair.from, pair.to), reaches(pair.to, pair.from));
    (one && other) || (cluster.hosts.list.is_calm && (one || other))
}

/// Whether the member that a link would lead to tells the dialling member that it is retired.
pub(super) fn is_retired(cluster: &Cluster, Pair { from, to }: Pair) -> bool {
    let (dialler, other) = (&cluster.hosts[from], &cluster.hosts[to]);
    let now_us = cluster.world.now_us;
    let (Some(server), Some(_)) = (&dialler.server, &other.server) else { return false };
    dialler.is_awake(now_us)
        && other.is_awake(now_us)
        && (dialler.place.reaches.contains(&(to as u64 + 1)) || cluster.hosts.list.is_calm)
        && other.place.retired.contains(&server.hello().member)
}

/// Judges the changes of the list, and counts them.
///
/// # Errors
/// A correct ensemble could not have behaved so.
pub(super) fn judge_changes(cluster: &Cluster) -> Result<ChangeCounts, String> {
    let mut counts = cluster.hosts.list.counts;
    if cluster.options.changes.is_some() {
        let operators = cluster.etcd.clients.iter().filter_map(EtcdClient::operator);
        let calls = operators.filter_map(|it| it.changer()).flat_map(Changer::calls);
        counts.add(&cluster.witness.check_changes(calls)?);
    }
    Ok(counts)
}

// Losses of directories while members change.

impl Hosts {
    /// Whether members change in this run: then there are machines of servers that may be added.
    pub fn are_members_changing(&self) -> bool {
        self.list.version > 0 || self.iter().any(|host| host.place.is_added)
    }

    /// Whether a majority of the voters would still have lost nothing if this member lost its
    /// directory, whichever membership counts: no log holds a change that is not applied, no
    /// membership is joint, and all members know the same voters.
    pub(super) fn may_lose_amid_changes(&self, member: usize, witness: &Witness) -> bool {
        let Some(server) = &self[member].server else { return false };
        let own = server.hello().member.0;
        let present = self.present();
        let mut servers = present.iter().filter_map(|member| self[*member].server.as_ref());
        let Some(newest) = servers.clone().max_by_key(|server| server.machine().index()) else {
            return false;
        };
        let voters = newest.voters();
        let is_settled = |server: &Server| {
            server.voters() == voters
                && !server.is_joint()
                && !witness.may_change_membership(server.status())
        };
        if !servers.all(is_settled) {
            return false;
        }
        let is_whole = |id: &u64| {
            present.iter().any(|member| {
                let host = &self[*member];
                host.lost.is_none()
                    && host.server.as_ref().is_some_and(|it| it.hello().member.0 == *id)
            })
        };
        if !self.may_lose_in_next(member) {
            return false;
        }
        let missing = voters.iter().filter(|id| **id != own && !is_whole(id)).count();
        match voters.contains(&own) {
            true => missing < voters.len().div_ceil(2) - 1,
            // A learner has nothing that counts, unless it is about to become a voter.
            false => missing < voters.len().div_ceil(2),
        }
    }

    /// Whether the voters of each open change would have a majority without this member: the leader
    /// may have accepted the change before it could know of the loss.
    fn may_lose_in_next(&self, member: usize) -> bool {
        let present = self.present();
        let servers = present.iter().filter_map(|at| self[*at].server.as_ref());
        let mut changes =
            servers.filter_map(|server| server.machine().control().servers().open_change());
        let is_whole = |number: &u64| {
            let at = *number as usize - 1;
            at != member
                && present.contains(&at)
                && self[at].server.is_some()
                && self[at].lost.is_none()
        };
        changes.all(|open| {
            let next = open.next.servers.iter();
            let voters = next.filter(|(_, it)| it.role == ServerRole::Voter);
            let (whole, lost): (Vec<u64>, Vec<u64>) =
                voters.map(|(number, _)| *number).partition(is_whole);
            whole.len() > lost.len()
        })
    }

    /// Whether a member's lost directory is no voter and no learner any more, and no log holds a
    /// change of the membership that could make it one, or make a member wait for it.
    pub(super) fn is_replaced_amid_changes(&self, member: usize, witness: &Witness) -> bool {
        let host = &self[member];
        let Some(lost) = host.lost else { return true };
        if host.member() == Some(lost) {
            return false;
        }
        let knows = |server: &Server| {
            !server.voters().contains(&lost.0)
                && !server.learners().contains(&lost.0)
                && !witness.may_change_membership(server.status())
        };
        let present = self.present();
        let mut servers = present.iter().map(|member| self[*member].server.as_ref());
        servers.all(|server| server.is_some_and(knows))
    }
}
