//! The machines of the members, and the lives of the processes on them.

use replica::Role;
use storage::datadir::Birth;

use crate::limits::{HARM_LASTS_US, LEAVE_LOOK_US};
use crate::links::Pair;
use crate::server::{Death, Server, Started, Step};
use crate::world::Event;

use super::host::Host;
use super::{Phase, Simulation};

impl Simulation {
    /// Handles an event of a member's process.
    pub(super) fn on_process(&mut self, member: usize, event: Event) -> Result<(), String> {
        let host = &mut self.hosts[member];
        let Some(server) = &mut host.server else { return Ok(()) };
        let was_ready = server.is_ready();
        let was_at = (server.status().role, server.status().term);
        let fetched_count = server.fetched_count();
        let lived = match event {
            Event::Run { actor, token, .. } => {
                let (world, network) = (&mut self.world, &mut self.network);
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
        self.may_refuse |= server.has_refused();
        if server.is_ready() && !was_ready {
            server.starve_apply(host.apply_lag_us);
        }
        for (to, frame) in server.take_outbox() {
            // A frame for which there is no link is lost.
            if let Some(pair) = self.links.pair_to(member, to) {
                self.links.send(&mut self.world, pair, frame);
            }
        }
        let differences = server.take_differences();
        let raised = server.take_raised();
        raised.into_iter().for_each(|it| self.links.on_level(&mut self.world, member, it));
        for from in server.take_refused() {
            let is_from = |host: &Host| host.hello().is_some_and(|hello| hello.member == from);
            if let Some(from) = self.hosts.iter().position(is_from) {
                self.links.break_off(&mut self.world, Pair { from, to: member });
            }
        }
        if at != was_at && self.is_ensemble() {
            self.say(Some(member), || format!("{:?} in term {}", at.0, at.1));
        }
        for difference in differences {
            self.check_difference(difference)?;
        }
        self.note_progress(member, was_ready, fetched_count)?;
        let host = &mut self.hosts[member];
        let (is_stopped, is_stopping) = (host.disk.is_stopped(), host.disk.is_stopping());
        if is_stopped || (lived.is_err() && is_stopping) {
            let stop_cuts_power = host.stop_cuts_power;
            self.end_process(member, stop_cuts_power);
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

    /// Starts the process of a member.
    pub(super) fn start(&mut self, member: usize) -> Result<(), String> {
        let host = &mut self.hosts[member];
        if host.is_there() || host.is_left_down {
            return Ok(());
        }
        self.lives += 1;
        host.life = self.lives;
        self.start_count += 1;
        let settings = &mut host.config.options.spaces.zk.settings;
        // Someone changes a setting that no client here notices.
        if self.phase == Phase::Faults && self.world.random.one_in(4) {
            settings.reconfig_enabled ^= true;
        }
        // Someone also changes settings that clients do notice.
        if self.phase == Phase::Faults
            && let Some(more) = self.more.as_mut()
        {
            settings.extended_types ^= more.one_in(6);
            settings.enforce_quota ^= more.one_in(6);
        }
        self.witness.on_configuration(settings);
        let before = self.choose_build(member);
        let host = &mut self.hosts[member];
        let mut replay_lag_us = 0;
        // A long replay: clients wait for the server, and not the other way round.
        if self.phase == Phase::Faults
            && self.options.faults.is_any()
            && self.world.random.one_in(4)
        {
            replay_lag_us = self.world.random.magnitude(100_000, 8_000_000);
        }
        let started = Server::start(
            &host.config,
            &host.disk,
            host.clock,
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
                    self.set_aside_count += 1;
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
                })
            }
            Err(Death::TooOld(what)) => self.on_too_old_start(member, before, &what),
            Err(death) => self.on_failed_start(member, death),
        }
    }

    /// Goes on with a start, unless the disk has stopped.
    fn end_or(&mut self, member: usize, go_on: impl FnOnce(&mut Simulation)) -> Result<(), String> {
        let host = &self.hosts[member];
        match host.disk.is_stopped() {
            true => self.end_process(member, host.stop_cuts_power),
            false => go_on(self),
        }
        Ok(())
    }

    fn run_server(&mut self, member: usize, mut server: Server, lag_us: u64, is_first: bool) {
        let host = &mut self.hosts[member];
        server.set_paces(host.paces);
        server.starve_apply(host.apply_lag_us.max(lag_us));
        host.server = Some(server);
        match is_first {
            true => self.links.on_start(&mut self.world, member),
            // A member that is born introduces itself otherwise than before, so its links are made
            // anew.
            false => self.links.renew(&mut self.world, member),
        }
        self.say(Some(member), || "the process is started".to_string());
    }

    fn on_failed_start(&mut self, member: usize, death: Death) -> Result<(), String> {
        let host = &self.hosts[member];
        match death {
            Death::Disk(_) if host.disk.is_stopping() => {
                self.end_process(member, host.stop_cuts_power);
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

    /// A process that is not born yet looks at what its links said.
    pub(super) fn decide(&mut self, life: u64) -> Result<(), String> {
        let is_it = |host: &Host| host.unborn.as_ref().is_some_and(|it| it.life() == life);
        let Some(member) = self.hosts.iter().position(is_it) else { return Ok(()) };
        let host = &mut self.hosts[member];
        if self.world.now_us < host.paused_until_us {
            self.world.schedule(host.paused_until_us, Event::Decide { life });
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
            host.clock,
            &mut self.world,
            &mut self.witness,
        );
        match born {
            Ok(server) => {
                match voted {
                    true => self.founded_count += 1,
                    false => self.joined_count += 1,
                }
                self.check_one_ensemble(member, &birth)?;
                self.end_or(member, |it| it.run_server(member, server, 0, false))
            }
            Err(death) => self.on_failed_start(member, death),
        }
    }

    /// Checks that a member is born to the ensemble of the members that run.
    fn check_one_ensemble(&self, member: usize, birth: &Birth) -> Result<(), String> {
        let births =
            self.hosts.iter().filter_map(|host| host.server.as_ref()?.hello().birth.as_ref());
        match births.filter(|it| *it != birth).count() {
            0 => Ok(()),
            _ => Err(format!("member {member} is born to another ensemble than the others")),
        }
    }

    /// Ends the process of a member, and starts it again after a while.
    pub(super) fn end_process(&mut self, member: usize, power_is_cut: bool) {
        self.say(Some(member), || format!("the process is gone, power cut: {power_is_cut}"));
        let host = &mut self.hosts[member];
        host.unborn = None;
        if let Some(server) = host.server.take() {
            self.witness.etcd.on_process_end(server.origin(), self.world.now_us);
            self.turned_away_count += server.turned_away_count();
            self.snapshot_count += server.snapshot_count();
            self.fetched_count += server.fetched_count();
            self.borrowed_count += server.counts().snapshots_borrowed;
        }
        host.disk.end_life(power_is_cut);
        host.is_excused = host.disk.is_limited();
        host.end_pause(self.world.now_us);
        for number in 0..self.network.connections.len() {
            if self.network.connections[number].life == host.life {
                self.network.close_by_server(&mut self.world, number);
            }
        }
        for number in self.etcd_connections_of(self.hosts[member].life) {
            self.etcd.network.close_by_server(&mut self.world, number);
        }
        let host = &mut self.hosts[member];
        // The new life keeps connections from being told twice.
        self.lives += 1;
        host.life = self.lives;
        self.links.on_end(&mut self.world, member, power_is_cut);
        let down_us = self.world.random.magnitude(1_000, 3_000_000);
        self.world.schedule(self.world.now_us + down_us, Event::Start { member });
    }

    /// A process that was told to stop lets another member lead, if it can (`node::Node::stop`).
    pub(super) fn leave(&mut self, life: u64, until_us: u64) {
        let is_it = |host: &Host| host.life == life && host.server.is_some();
        let Some(member) = self.hosts.iter().position(is_it) else { return };
        // A process that was paused since the faults came is not stopped after them.
        if self.phase != Phase::Faults || self.is_any_deceiving() {
            return;
        }
        let host = &mut self.hosts[member];
        let now_us = self.world.now_us;
        let Some(server) = &mut host.server else { return };
        if host.paused_until_us > now_us {
            self.world.schedule(host.paused_until_us, Event::Leave { life, until_us });
        } else if server.hand_over(None, &mut self.world) && now_us < until_us {
            self.world.schedule(now_us + LEAVE_LOOK_US, Event::Leave { life, until_us });
        } else {
            self.end_process(member, false);
        }
    }

    /// Notes which members may not hear, or not pass on, what clients say to them now.
    pub(super) fn note_trouble(&mut self) {
        let now_us = self.world.now_us;
        let leads = |id: u64| {
            self.hosts.iter().position(|host| {
                let status = host.server.as_ref().map(Server::status);
                status.is_some_and(|it| it.role == Role::Leader && it.leader == Some(id))
            })
        };
        let since_us = now_us.saturating_sub(HARM_LASTS_US);
        // Looks whether the leader hears what clients say to a member, and whether a slow link may
        // keep the leader's news from that member.
        let look = |member: usize| {
            let host = &self.hosts[member];
            let Some(server) = host.server.as_ref() else { return (false, false) };
            let Some(leader) = server.status().leader.and_then(leads) else {
                return (false, false);
            };
            let is_led = leader != member;
            let was_good = |other: usize| self.links.were_good(member, other, since_us);
            let is_near = match is_led {
                true => was_good(leader),
                // A leader asks a quorum whether it still leads.
                false => {
                    let others = (0..self.hosts.len()).filter(|other| *other != member);
                    others.filter(|other| was_good(*other)).count() >= self.hosts.len() / 2
                }
            };
            let is_well = server.is_ready() && host.is_awake(now_us) && is_near;
            (is_well, is_led && self.links.were_slow(member, leader, since_us))
        };
        let looks: Vec<(bool, bool)> = (0..self.hosts.len()).map(look).collect();
        for (number, (host, (is_well, is_far))) in self.hosts.iter_mut().zip(looks).enumerate() {
            host.trouble.note(!is_well, now_us);
            let runs = host.server.as_ref().is_some_and(Server::is_open) && host.is_awake(now_us);
            host.cut_off.note(runs && self.links.is_cut_off(number), now_us);
            let is_held = now_us < host.held_until_us;
            let is_slow = is_held || host.paces.are_slow(now_us) || host.apply_lag_us > 0;
            host.lag.note(is_far || is_slow || host.disk.is_limited(), now_us);
        }
    }
}
