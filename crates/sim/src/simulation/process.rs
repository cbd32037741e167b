//! The machines of the members, and the lives of the processes on them.

use crate::check::{Trouble, WakingTime};
use crate::disk::SimDisk;
use crate::links::Pair;
use crate::server::{Death, MemberConfig, Server};
use crate::world::{Clock, Event};

use replica::Role;

use super::{Phase, Simulation};

/// A member's machine: its disk, its clocks, and the process if it runs.
pub(super) struct Host {
    pub config: MemberConfig,
    pub disk: SimDisk,
    pub clock: Clock,
    pub server: Option<Server>,
    /// The process that runs, or the time without one. No two in a run are the same.
    pub life: u64,
    pub waking: WakingTime,
    /// When others may not have heard of its clients.
    pub trouble: Trouble,
    /// When it may have been late to apply what was committed, though it heard of the leader.
    pub lag: Trouble,
    pub paused_until_us: u64,
    /// The process is not started again by itself.
    pub is_left_down: bool,
    /// Whether the disk has failed in a way that excuses the end of the process.
    pub is_excused: bool,
    /// A snapshot that someone keeps elsewhere.
    pub put_aside: Option<Vec<u8>>,
    pub stop_cuts_power: bool,
    pub slowness: u64,
    pub apply_lag_us: u64,
}

impl Host {
    /// A machine on which nothing runs.
    pub fn new(config: MemberConfig, disk: SimDisk, clock: Clock) -> Host {
        Host {
            config,
            disk,
            clock,
            server: None,
            life: 0,
            waking: WakingTime::default(),
            trouble: Trouble::default(),
            lag: Trouble::default(),
            paused_until_us: 0,
            is_left_down: false,
            is_excused: false,
            put_aside: None,
            stop_cuts_power: false,
            slowness: 1,
            apply_lag_us: 0,
        }
    }

    /// Everything stops at an operation of the disk.
    pub fn stop_at(&mut self, op: u64, power_is_cut: bool) {
        self.stop_cuts_power = power_is_cut;
        self.disk.change_plan(|plan| plan.stop_at = Some(op));
    }

    /// Whether a process runs, and is given the CPU.
    pub fn is_awake(&self, now_us: u64) -> bool {
        self.server.is_some() && self.paused_until_us <= now_us
    }

    /// For people.
    pub fn describe(&self) -> String {
        let Some(server) = &self.server else { return "not there".to_string() };
        let (status, counters) = (server.status(), server.machine().counters());
        format!(
            "ready {}, idle {}, {:?} in term {} of {:?}, applied {} of {} of {}, zxid {}",
            server.is_ready(),
            server.is_idle(),
            status.role,
            status.term,
            status.leader,
            counters.index.0,
            status.commit_index,
            status.last_index,
            counters.zxid.0
        )
    }
}

impl Simulation {
    /// Something of a member's process.
    pub(super) fn on_process(&mut self, member: usize, event: Event) -> Result<(), String> {
        let host = &mut self.hosts[member];
        let Some(server) = &mut host.server else { return Ok(()) };
        let was_ready = server.is_ready();
        let lived = match event {
            Event::Run { actor, token, .. } => {
                let (world, network) = (&mut self.world, &mut self.network);
                server.run(actor, token, world, network, &mut self.witness)
            }
            Event::Done { actor, .. } => {
                server.done(actor, &mut self.world);
                Ok(())
            }
            _ => unreachable!("other events are not the process's"),
        };
        self.may_refuse |= server.has_refused();
        if server.is_ready() && !was_ready {
            server.starve_apply(host.apply_lag_us);
        }
        for (to, frame) in server.take_outbox() {
            self.links.send(&mut self.world, Pair { from: member, to }, frame);
        }
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
            Err(Death::Bug(what)) => Err(what),
        }
    }

    /// Starts the process of a member.
    pub(super) fn start(&mut self, member: usize) -> Result<(), String> {
        let host = &mut self.hosts[member];
        if host.server.is_some() || host.is_left_down {
            return Ok(());
        }
        self.lives += 1;
        host.life = self.lives;
        self.start_count += 1;
        let settings = &mut host.config.options.settings;
        // Someone changes the configuration: something that no client here notices.
        if self.phase == Phase::Faults && self.world.random.one_in(4) {
            settings.reconfig_enabled ^= true;
        }
        // And now something that they do.
        if self.phase == Phase::Faults
            && let Some(more) = self.more.as_mut()
        {
            settings.extended_types ^= more.one_in(6);
            settings.enforce_quota ^= more.one_in(6);
        }
        self.witness.on_configuration(settings);
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
        let stop_cuts_power = host.stop_cuts_power;
        match started {
            Ok(mut server) if !host.disk.is_stopped() => {
                server.slow_down(host.slowness);
                server.starve_apply(host.apply_lag_us.max(replay_lag_us));
                host.server = Some(server);
                self.links.on_start(&mut self.world, member);
                self.say(Some(member), || "the process is started".to_string());
                Ok(())
            }
            Ok(_) => {
                self.end_process(member, stop_cuts_power);
                Ok(())
            }
            Err(Death::Disk(_)) if host.disk.is_stopping() => {
                self.end_process(member, stop_cuts_power);
                Ok(())
            }
            Err(Death::Disk(what)) if host.is_excused => {
                self.say(Some(member), || format!("the process did not start: {what}"));
                self.end_process(member, false);
                Ok(())
            }
            Err(Death::Disk(what)) => Err(format!("the server does not start: {what}")),
            Err(Death::Bug(what)) => Err(what),
        }
    }

    /// The process of a member is gone, and is started again after a while.
    pub(super) fn end_process(&mut self, member: usize, power_is_cut: bool) {
        self.say(Some(member), || format!("the process is gone, power cut: {power_is_cut}"));
        let host = &mut self.hosts[member];
        if let Some(server) = host.server.take() {
            self.snapshot_count += server.snapshot_count();
            self.fetched_count += server.fetched_count();
        }
        host.disk.end_life(power_is_cut);
        host.is_excused = host.disk.plan().bytes_max.is_some();
        host.paused_until_us = 0;
        host.waking.cut_short(self.world.now_us);
        for number in 0..self.network.connections.len() {
            if self.network.connections[number].life == host.life {
                self.network.close_by_server(&mut self.world, number);
            }
        }
        // Connections are told once.
        self.lives += 1;
        host.life = self.lives;
        self.links.on_end(&mut self.world, member, power_is_cut);
        let down_us = self.world.random.magnitude(1_000, 3_000_000);
        self.world.schedule(self.world.now_us + down_us, Event::Start { member });
    }

    /// Which members may not hear, or not pass on, what clients say to them now.
    pub(super) fn note_trouble(&mut self) {
        let now_us = self.world.now_us;
        let leads = |id: u64| {
            self.hosts.iter().position(|host| {
                let status = host.server.as_ref().map(Server::status);
                status.is_some_and(|it| it.role == Role::Leader && it.leader == Some(id))
            })
        };
        let is_well = |member: usize| {
            let host = &self.hosts[member];
            let Some(server) = host.server.as_ref() else { return false };
            let Some(leader) = server.status().leader.and_then(leads) else { return false };
            let is_near = leader == member || self.links.is_good(Pair { from: member, to: leader });
            server.is_ready() && host.is_awake(now_us) && is_near
        };
        let well: Vec<bool> = (0..self.hosts.len()).map(is_well).collect();
        let is_any_slow = self.links.are_any_slow();
        for (host, is_well) in self.hosts.iter_mut().zip(well) {
            host.trouble.note(!is_well, now_us);
            let is_slow = host.slowness > 1 || host.apply_lag_us > 0;
            let is_full = host.disk.plan().bytes_max.is_some();
            host.lag.note(is_any_slow || is_slow || is_full, now_us);
        }
    }
}
