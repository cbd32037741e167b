//! All parts of a run: the members' machines, the links between members, and the clients with their
//! networks. Also starts and ends the members' processes.

use storage::datadir::Birth;
use storage::fault_disk::FaultDisk;

use machine::MemberId;
use member::Condemned;
use storage::inspect::inspect;

use super::cpu::Stutter;
use super::host::{Deceives, Host};
use super::hosts::Hosts;
use super::levels::{Levels, check_left_alone};
use super::members::{Changes, is_retired, may_link};
use super::options::Options;
use super::roster::Standing;
use super::zk::ZkClients;
use crate::check::Evidence;
use crate::etcd_clients::EtcdClients;
use crate::limits::LEAVE_LOOK_US;
use crate::links::{Links, Pair, Told};
use crate::server::{Death, Server, Started, Step};
use crate::witness::Witness;
use crate::world::{Event, World};

/// The members of a run, their clients, and everything that connects and observes them.
pub(super) struct Cluster {
    pub options: Options,
    pub world: World,
    pub hosts: Hosts,
    pub links: Links,
    /// The ZooKeeper clients, with their network.
    pub zk: ZkClients,
    /// The etcd clients, with their network.
    pub etcd: EtcdClients,
    pub witness: Witness,
    /// The builds of the servers, and the requests for a higher level.
    pub levels: Levels,
}

impl Cluster {
    /// Prints what happens, if the run is verbose.
    pub fn say(&self, member: Option<usize>, what: impl FnOnce() -> String) {
        if self.options.is_verbose {
            let which = member.filter(|_| self.hosts.is_ensemble());
            let which = which.map(|member| format!("member {member}: ")).unwrap_or_default();
            eprintln!("{:>12} us: {which}{}", self.world.now_us, what());
        }
    }

    /// Everything that the judges look at, apart from the states of members.
    pub fn evidence(&self) -> Evidence<'_> {
        let member = &self.options.member;
        Evidence {
            history: &self.zk.history,
            witness: &self.witness,
            network: &self.zk.network,
            waking: self.hosts.iter().map(|host| host.cpu.waking()).collect(),
            trouble: self.hosts.iter().map(|host| &host.spells.trouble).collect(),
            lag: self.hosts.iter().map(|host| &host.spells.lag).collect(),
            cut_off: self.hosts.iter().map(|host| &host.spells.cut_off).collect(),
            now_us: self.world.now_us,
            may_throttle: member.throttles.op_wait_ms > 0,
            never_used_ms_max: member.options.spaces.zk.containers.never_used_ms_max,
        }
    }

    // Links.

    /// Handles an event of a link between members.
    pub fn on_link_event(&mut self, event: Event) {
        match event {
            Event::Frame { link, epoch, is_bulk } => {
                let told = self.links.arrive(&mut self.world, link, epoch, is_bulk);
                told.into_iter().for_each(|told| self.tell(told));
            }
            Event::Dial { link } => {
                let pair = self.links.pair(link);
                let is_retired = self.links.may_dial(link) && is_retired(self, pair);
                let may_link = may_link(self, pair) && !is_retired;
                let hosts = &self.hosts;
                let now_us = self.world.now_us;
                let hello = |member: usize| {
                    let host: &Host = &hosts[member];
                    host.hello().filter(|_| may_link && host.is_awake(now_us)).cloned()
                };
                let told = self.links.dial(&mut self.world, link, hello);
                let level = self.witness.levels.level();
                for pair in self.links.take_refused_by_level() {
                    self.levels.count_refused_link([&hosts[pair.from], &hosts[pair.to]], level);
                }
                told.into_iter().for_each(|told| self.tell(told));
                if is_retired {
                    Changes::of(self).on_retired(pair);
                }
            }
            Event::LinkOver { link, epoch } => {
                let told = self.links.over(&mut self.world, link, epoch);
                told.into_iter().for_each(|told| self.tell(told));
            }
            Event::LinkPatience { link, epoch } => {
                self.links.lose_patience(&mut self.world, link, epoch);
            }
            _ => unreachable!("the caller checked that it exists"),
        }
    }

    /// Passes a notice of the links to the member's process.
    pub fn tell(&mut self, told: Told) {
        let member = match &told {
            Told::Frame { member, .. } | Told::Link { member, .. } => *member,
            Told::Linked { member, .. } => *member,
        };
        let host = &mut self.hosts[member];
        match (&mut host.server, &mut host.unborn, told) {
            (Some(server), _, Told::Frame { from, frame, .. }) => {
                server.on_peer(from, frame, &mut self.world);
            }
            (Some(server), _, Told::Link { peer, is_up, .. }) => {
                server.on_link(&peer, is_up, &mut self.world);
            }
            (Some(server), _, Told::Linked { peer, is_up, .. }) => {
                server.on_linked(&peer, is_up, &mut self.world);
            }
            (
                None,
                Some(unborn),
                Told::Link { peer, is_up, .. } | Told::Linked { peer, is_up, .. },
            ) => {
                unborn.on_link(&peer, is_up);
                let at_us = self.world.now_us + self.world.hop_us();
                self.world.schedule(at_us, Event::Decide { life: unborn.life() });
            }
            (None, ..) => {}
        }
    }

    // Steps of processes.

    /// Handles an event of a process. If the process is frozen or paused the event waits; if it has
    /// ended the event is dropped.
    pub fn on_process(&mut self, event: Event) -> Result<(), String> {
        let (Event::Run { life, .. } | Event::Done { life, .. }) = event else {
            unreachable!("other events are not the process's")
        };
        let lives = |host: &Host| host.life == life && host.server.is_some();
        let Some(member) = self.hosts.iter().position(lives) else {
            self.keep_for_later(life, event);
            return Ok(());
        };
        let paused_until_us = self.hosts[member].cpu.paused_until_us();
        if self.world.now_us < paused_until_us {
            self.world.schedule(paused_until_us, event);
            return Ok(());
        }
        self.run_process(member, event)
    }

    fn run_process(&mut self, member: usize, event: Event) -> Result<(), String> {
        let host = &mut self.hosts[member];
        let Some(server) = &mut host.server else { return Ok(()) };
        let was_ready = server.is_ready();
        let was_at = (server.status().role, server.status().term);
        let fetched_count = server.fetched_count();
        let lived = match event {
            Event::Run { actor, token, .. } => {
                let (world, network) = (&mut self.world, &mut self.zk.network);
                let etcd = &mut self.etcd.network;
                server.run(actor, token, world, network, etcd, &mut self.witness)
            }
            Event::Done { actor, .. } => {
                server.done(actor, &mut self.world);
                Ok(())
            }
            _ => unreachable!("other events are not the process's"),
        };
        let at = (server.status().role, server.status().term);
        if server.is_ready() && !was_ready {
            server.starve_apply(host.slowness.apply_lag_us);
        }
        for (to, frame) in server.take_outbox() {
            // A frame is lost if no link leads to its receiver.
            if let Some(pair) = self.links.pair_to(member, to) {
                self.links.send(&mut self.world, pair, frame);
            }
        }
        let differences = server.take_differences();
        let news = server.take_news();
        let server_id = server.server_id();
        server_id.into_iter().for_each(|id| _ = self.etcd.network.server_ids.insert(member, id));
        let raised = server.take_raised();
        raised.into_iter().for_each(|it| self.links.on_level(&mut self.world, member, it));
        let refused = server.take_refused();
        for from in refused {
            if let Some(from) = self.hosts.position(from) {
                self.links.break_off(&mut self.world, Pair { from, to: member });
            }
        }
        for (servers, is_removed) in news {
            Changes::of(self).on_news(member, &servers, is_removed);
        }
        if at != was_at && self.hosts.is_ensemble() {
            self.say(Some(member), || format!("{:?} in term {}", at.0, at.1));
        }
        for difference in differences {
            self.hosts.check_difference(difference)?;
        }
        self.note_progress(member, was_ready, fetched_count)?;
        let host = &self.hosts[member];
        let (is_stopped, is_stopping) = (host.disk.is_stopped(), host.disk.is_stopping());
        if is_stopped || (lived.is_err() && is_stopping) {
            self.stop_with_disk(member);
            return Ok(());
        }
        match lived {
            Ok(()) => Ok(()),
            Err(Death::Disk(what)) if host.is_excused => {
                self.say(Some(member), || format!("the process ended itself: {what}"));
                self.end_process(member, false);
                Ok(())
            }
            Err(Death::Disk(what)) => Err(format!("the disk did not fail, but: {what}")),
            Err(Death::Condemned(why)) => self.on_condemned(member, why),
            Err(Death::TooOld(what)) => self.on_too_old(member, &what),
            Err(Death::Bug(what)) => Err(what),
        }
    }

    /// A member's process has ended because it condemned its directory. Checks that it had a
    /// reason.
    fn on_condemned(&mut self, member: usize, why: Condemned) -> Result<(), String> {
        // A member may find that the others have removed it while another machine had its place. If
        // its server is about to be removed, a snapshot in which it lost its vote before its first
        // command came does not prove that it was not forgotten in between.
        let number = member as u64 + 1;
        let is_leaving = self.hosts.servers().any(|server| {
            let servers = server.machine().control().servers();
            !servers.list_to_follow().servers.contains_key(&number)
        });
        let may_be_forgotten =
            self.hosts[member].other.is_some() || !self.hosts.is_in(member) || is_leaving;
        let is_explained = match (why, self.hosts[member].deceives) {
            (Condemned::Forgotten, _) => may_be_forgotten,
            (
                Condemned::Forgot { .. }
                | Condemned::HoldsAnother { .. }
                | Condemned::Outlived { .. },
                Some(it),
            ) => it != Deceives::Differs,
            (Condemned::Differs { .. }, Some(it)) => it == Deceives::Differs,
            (_, None) => false,
        };
        if !is_explained {
            return Err(why.to_string());
        }
        self.say(Some(member), || format!("the directory is condemned: {why}"));
        self.hosts.counts.condemned += 1;
        if why == Condemned::Forgotten {
            // The host's next directory draws a new member id.
            let host = &mut self.hosts[member];
            host.note_lost(host.member());
        }
        self.end_process(member, false);
        self.hosts[member].hinder_start(&mut self.world.random);
        Ok(())
    }

    /// A running process has met a level that its build does not know.
    fn on_too_old(&mut self, member: usize, what: &str) -> Result<(), String> {
        self.levels.count_too_old();
        let id = self.hosts[member].member();
        self.end_too_old(member, id, what)
    }

    /// The start of a process has met a level that its build does not know. `before` is a copy of
    /// the disk from before the start; it is `None` for a new build, which must never meet an
    /// unknown level.
    fn on_too_old_start(
        &mut self,
        member: usize,
        before: Option<FaultDisk>,
        what: &str,
    ) -> Result<(), String> {
        let before = before.ok_or_else(|| format!("a newest build is too old: {what}"))?;
        let after = self.hosts[member].disk.copy();
        check_left_alone(&before, &after)?;
        self.levels.count_too_old_start();
        let identity = inspect(&before, &mut |_| Ok(())).identity;
        self.end_too_old(member, identity.map(|it| MemberId(it.member_id)), what)
    }

    /// Ends a process that met a level that its build does not know. Checks that a newer build ran
    /// on the directory `id` before.
    fn end_too_old(
        &mut self,
        member: usize,
        id: Option<MemberId>,
        what: &str,
    ) -> Result<(), String> {
        let level_max = self.hosts[member].level_max();
        if !id.is_some_and(|id| self.witness.levels.ran_above(id, level_max)) {
            return Err(format!(
                "no newer build ever ran on the directory of {member}, but: {what}"
            ));
        }
        self.say(Some(member), || format!("the process is too old: {what}"));
        self.hosts[member].build.wants_new = true;
        self.end_process(member, false);
        Ok(())
    }

    /// Checks and counts what a step of a process brought about. `was_ready` and `fetched_count`
    /// are from before the step.
    fn note_progress(
        &mut self,
        member: usize,
        was_ready: bool,
        fetched_count: u64,
    ) -> Result<(), String> {
        let Some(server) = &self.hosts[member].server else { return Ok(()) };
        let becomes_ready = server.is_ready() && !was_ready;
        if server.fetched_count() > fetched_count {
            self.levels.count_fetched(&self.hosts, member);
        }
        match becomes_ready {
            true => self.check_ready_build(member),
            false => Ok(()),
        }
    }

    /// Checks that a server that started with a build below the ensemble's level does not become
    /// ready.
    fn check_ready_build(&self, member: usize) -> Result<(), String> {
        let host = &self.hosts[member];
        let Some(server) = &host.server else { return Ok(()) };
        let raised_us = self.witness.levels.raised_us();
        let is_late = raised_us.is_some_and(|raised_us| server.started_us() > raised_us);
        match is_late && host.level_max() < self.witness.levels.level() {
            true => Err(format!("member {member} is ready, and its build is below the level")),
            false => Ok(()),
        }
    }

    // Process runs.

    /// Starts the process of a member. Unless `is_calm`, its settings may change first, and its
    /// replay of the log may take long.
    pub fn start(&mut self, member: usize, is_calm: bool) -> Result<(), String> {
        let host = &self.hosts[member];
        let is_begun = host.place.standing == Standing::Begun;
        if host.is_there()
            || host.is_left_down
            || !is_begun
            || !Changes::of(self).prepare_start(member)
        {
            return Ok(());
        }
        self.hosts.begin_life(member);
        self.hosts.counts.starts += 1;
        if !is_calm {
            self.hosts.change_settings(member, &mut self.world.random);
        }
        self.witness.on_configuration(&self.hosts[member].config.options.spaces.zk.settings);
        let level = self.witness.levels.level();
        let may_change = !is_calm && !self.hosts.is_any_deceiving();
        let host = &mut self.hosts[member];
        let before = self.levels.choose_build((member, host), level, is_calm, may_change);
        let mut replay_lag_us = 0;
        // A long replay, so that clients wait for a server that is slow to start.
        if !is_calm && self.options.faults.is_any() && self.world.random.one_in(4) {
            replay_lag_us = self.world.random.magnitude(100_000, 8_000_000);
        }
        let host = &self.hosts[member];
        let started = Server::start(
            &host.config,
            &host.disk,
            host.cpu.clock(),
            host.life,
            &mut self.world,
            &mut self.witness,
        );
        self.note_life(member, &started);
        match started {
            Ok(Started::Running(server)) => {
                self.end_or(member, |it| it.run_server(member, *server, replay_lag_us, true))
            }
            Ok(Started::Unborn(unborn)) => {
                if let Some(cause) = unborn.set_aside() {
                    self.hosts.counts.set_aside += 1;
                    if self.hosts[member].lost.is_none() {
                        return Err(format!("nothing damages this disk, but: {cause}"));
                    }
                    self.say(Some(member), || format!("the directory is set aside: {cause}"));
                }
                self.end_or(member, |it| {
                    it.witness.on_lost(member);
                    it.say(Some(member), || "the process is started, unborn".to_string());
                    it.hosts[member].unborn = Some(*unborn);
                    it.links.on_start(&mut it.world, member);
                    Changes::of(it).plan_join_limit(member);
                })
            }
            Err(Death::TooOld(what)) => self.on_too_old_start(member, before, &what),
            Err(death) => self.on_failed_start(member, death),
        }
    }

    /// Notes a start of a process, with its member id and its build.
    fn note_life(&mut self, member: usize, started: &Result<Started, Death>) {
        let id = match started {
            Ok(Started::Running(server)) => server.hello().member,
            Ok(Started::Unborn(unborn)) => unborn.hello().member,
            Err(_) => return,
        };
        let level_max = self.hosts[member].level_max();
        self.witness.levels.on_life(id, level_max);
        self.witness.members.on_life(id, member);
        if self.levels.are_builds_mixed() {
            self.say(Some(member), || format!("its build knows levels up to {level_max}"));
        }
    }

    /// Goes on with a start, unless the disk has reached its planned stop.
    fn end_or(&mut self, member: usize, go_on: impl FnOnce(&mut Cluster)) -> Result<(), String> {
        let host = &self.hosts[member];
        match host.disk.is_stopped() {
            true => self.stop_with_disk(member),
            false => go_on(self),
        }
        Ok(())
    }

    fn run_server(&mut self, member: usize, mut server: Server, lag_us: u64, is_first: bool) {
        let host = &mut self.hosts[member];
        server.set_paces(host.slowness.paces);
        server.starve_apply(host.slowness.apply_lag_us.max(lag_us));
        host.server = Some(server);
        match is_first {
            true => self.links.on_start(&mut self.world, member),
            // A member's hello changes at its birth, so its links are made anew.
            false => self.links.renew(&mut self.world, member),
        }
        self.say(Some(member), || "the process is started".to_string());
    }

    fn on_failed_start(&mut self, member: usize, death: Death) -> Result<(), String> {
        let host = &self.hosts[member];
        match death {
            Death::Disk(_) if host.disk.is_stopping() => {
                self.stop_with_disk(member);
                Ok(())
            }
            Death::Disk(what) if host.is_excused => {
                self.say(Some(member), || format!("the process did not start: {what}"));
                self.end_process(member, false);
                Ok(())
            }
            Death::Disk(what) => Err(format!("the server does not start: {what}")),
            Death::Condemned(why) => Err(format!("while it is started: {why}")),
            Death::TooOld(what) | Death::Bug(what) => Err(what),
        }
    }

    /// A process with an unborn directory decides whether the ensemble can be born, from what its
    /// links have reported.
    pub fn decide(&mut self, life: u64) -> Result<(), String> {
        let is_it = |host: &Host| host.unborn.as_ref().is_some_and(|it| it.life() == life);
        let Some(member) = self.hosts.iter().position(is_it) else { return Ok(()) };
        let host = &mut self.hosts[member];
        if host.cpu.is_paused(self.world.now_us) {
            self.world.schedule(host.cpu.paused_until_us(), Event::Decide { life });
            return Ok(());
        }
        let Some(mut unborn) = host.unborn.take() else { return Ok(()) };
        let now_us = self.world.now_us;
        let birth = match unborn.step(now_us, host.config.sabotage) {
            Ok(Step::Born(birth)) => birth,
            Ok(step) => {
                let at_us = match step {
                    Step::Kept => Some(now_us + self.world.hop_us()),
                    _ => unborn.next_look_us(now_us),
                };
                if let Some(at_us) = at_us {
                    self.world.schedule(at_us, Event::Decide { life });
                }
                host.unborn = Some(unborn);
                return match step {
                    Step::Kept => self.end_or(member, |it| it.links.renew(&mut it.world, member)),
                    _ => Ok(()),
                };
            }
            Err(death) => return self.on_failed_start(member, death),
        };
        let voted = birth.voters.contains(&unborn.hello().member.0);
        let born = unborn.be_born(
            &birth,
            &host.config,
            &host.disk,
            host.cpu.clock(),
            &mut self.world,
            &mut self.witness,
        );
        match born {
            Ok(server) => {
                match voted {
                    true => self.hosts.counts.founded += 1,
                    false => self.hosts.counts.joined += 1,
                }
                self.check_one_ensemble(member, &birth)?;
                self.end_or(member, |it| it.run_server(member, server, 0, false))
            }
            Err(death) => self.on_failed_start(member, death),
        }
    }

    /// Checks that a member is born to the same ensemble as all members that run.
    fn check_one_ensemble(&self, member: usize, birth: &Birth) -> Result<(), String> {
        let births =
            self.hosts.iter().filter_map(|host| host.server.as_ref()?.hello().birth.as_ref());
        match births.filter(|it| *it != birth).count() {
            0 => Ok(()),
            _ => Err(format!("member {member} is born to another ensemble than the others")),
        }
    }

    /// Ends the process of a member, and schedules its next start.
    pub fn end_process(&mut self, member: usize, power_is_cut: bool) {
        self.say(Some(member), || format!("the process is gone, power cut: {power_is_cut}"));
        let host = &mut self.hosts[member];
        host.unborn = None;
        if let Some(server) = host.server.take() {
            self.hosts.list.counts.died_joining +=
                usize::from(self.hosts[member].place.is_added && !server.is_ready());
            self.witness.etcd.on_process_end(server.origin(), self.world.now_us);
            self.hosts.on_end(&server);
        }
        let host = &mut self.hosts[member];
        host.disk.end_life(power_is_cut);
        host.is_excused = host.disk.is_limited();
        host.end_pause(self.world.now_us);
        let life = host.life;
        for number in self.zk.connections_of(life) {
            self.zk.network.close_by_server(&mut self.world, number);
        }
        for number in self.etcd.connections_of(life) {
            self.etcd.network.close_by_server(&mut self.world, number);
        }
        // A new number for the time without a process, so that late events find no process.
        self.hosts.begin_life(member);
        self.links.on_end(&mut self.world, member, power_is_cut);
        let down_us = self.world.random.magnitude(1_000, 3_000_000);
        self.world.schedule(self.world.now_us + down_us, Event::Start { member });
    }

    /// Ends the process of a member, if one runs.
    pub fn maybe_end_process(&mut self, member: usize, power_is_cut: bool) {
        if self.hosts[member].is_there() {
            self.end_process(member, power_is_cut);
        }
    }

    /// Ends the process of a member whose disk has reached its planned stop.
    pub fn stop_with_disk(&mut self, member: usize) {
        self.end_process(member, self.hosts[member].stop_cuts_power);
    }

    /// A process that was asked to stop first hands over its leadership, if it can
    /// (`node::Node::stop`).
    pub fn leave(&mut self, life: u64, until_us: u64, is_calm: bool) {
        let is_it = |host: &Host| host.life == life && host.server.is_some();
        let Some(member) = self.hosts.iter().position(is_it) else { return };
        // A stop that was delayed by a pause is dropped once the faults have stopped.
        if is_calm || self.hosts.is_any_deceiving() {
            return;
        }
        let host = &mut self.hosts[member];
        let now_us = self.world.now_us;
        let Some(server) = &mut host.server else { return };
        if host.cpu.is_paused(now_us) {
            self.world.schedule(host.cpu.paused_until_us(), Event::Leave { life, until_us });
        } else if server.hand_over(None, &mut self.world) && now_us < until_us {
            self.world.schedule(now_us + LEAVE_LOOK_US, Event::Leave { life, until_us });
        } else {
            self.end_process(member, false);
        }
    }

    // Builds.

    /// Ends the processes with old builds when the faults stop, if the run ends with new builds
    /// only.
    pub fn end_old_builds(&mut self) {
        for member in self.levels.ending(&self.hosts) {
            self.end_process(member, false);
        }
    }

    /// Ends the processes that an operator upgrades now, since their builds are below the level.
    pub fn pursue_builds(&mut self, is_calm: bool) {
        let (level, now_us) = (self.witness.levels.level(), self.world.now_us);
        for member in self.levels.upgraded(&mut self.hosts, level, now_us, is_calm) {
            self.end_process(member, false);
        }
    }

    /// Checks that the level in the log only ever rose, and that all servers are at the last level.
    pub fn check_levels(&self) -> Result<(), String> {
        let level = self.witness.check_levels()?;
        self.hosts.check_levels(level)
    }

    // Faults of one machine.

    /// An operator restores a snapshot at a member: its newest one, or an older one that was kept
    /// at the last restore.
    pub fn restore(&mut self, member: usize) {
        let host = &mut self.hosts[member];
        let Some(server) = &mut host.server else { return };
        let Some(newest) = server.newest_snapshot() else { return };
        let aside = host.put_aside.take().filter(|_| !self.world.random.one_in(3));
        let bytes = aside.as_ref().unwrap_or(&newest);
        server.restore(bytes, &mut self.world, &mut self.witness);
        host.put_aside = Some(newest);
        if host.disk.is_stopped() {
            self.stop_with_disk(member);
        }
    }

    /// A stuttering process loses the CPU for the rest of its period, and the next time is
    /// scheduled.
    pub fn stand_still(&mut self, member: usize) {
        let now_us = self.world.now_us;
        let host = &mut self.hosts[member];
        let Some(Stutter { run_us, period_us }) = host.cpu.stutter() else { return };
        host.pause(now_us, period_us - run_us);
        self.world.schedule(now_us + period_us, Event::Stutter { member });
    }
}
