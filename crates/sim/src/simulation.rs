//! A run of the simulation: the main loop over events, and the end of the run.
//!
//! A run has three parts, and some runs have a fourth. First, faults come while clients work. Then
//! the faults stop: stopped processes start again, and within a bounded time every member must
//! serve, all members must have the same state, and the clients must finish. In some runs, some
//! clients then vanish: their sessions must expire, and the others' must not. Last, power is cut
//! once more for all members: each must come back with exactly the state that it had.

mod cluster;
mod course;
mod cpu;
mod damage;
mod deceit;
mod directory;
mod etcd;
mod faults;
mod host;
mod hosts;
mod levels;
mod locks;
mod machines;
mod members;
mod options;
#[cfg(test)]
mod play;
mod raising;
mod reconfigs;
mod recovering;
mod roster;
mod summary;
mod zk;

use machine::Machine;
use machine::digest::Digest;
use workload::generate::Random;
use zk::ZkClients;

use crate::check::{check, check_late_expiries, check_late_removals};
use crate::client::{Client, Wish};
use crate::disk::SimDisk;
use crate::etcd_clients::EtcdClients;
use crate::fault::{Disks, Fault, Whom};
use crate::limits::{
    EVENTS_MAX, FIND_OUT_TRIES_MAX, FINISH_US_MAX, LEASE_JUMP_US_MAX, LEASE_SLACK_US,
    LINGER_US_MAX, READY_US_MAX,
};
use crate::links::Links;
use crate::server::{LifeCounts, Server, Unborn};
use crate::witness::Witness;
use crate::world::{Event, World};
use cluster::Cluster;
use course::{Course, Phase};
pub use etcd::{EtcdCounts, EtcdFailureCounts, EtcdReadCounts, EtcdWriteCounts, WatchCounts};
pub use faults::FaultCounts;
use faults::Faults;
pub use hosts::MemberCounts;
use hosts::{Hosts, machines};
pub use levels::LevelCounts;
use levels::Levels;
use locks::Turns;
use members::{Changes, ends_short, judge_changes};
use options::ENSEMBLE_SEED;
pub use options::{LaterOps, Options};
use recovering::Recoveries;
pub use recovering::RecoveryCounts;
pub use summary::Summary;
pub use zk::{ZkCounts, ZkWatchCounts};

/// A run in progress.
pub(crate) struct Simulation {
    cluster: Cluster,
    course: Course,
    faults: Faults,
    /// For each etcd client that waits for a lock: which key is first in the queue for the lock,
    /// and since when.
    turns: Turns,
    recoveries: Recoveries,
}

impl Simulation {
    pub fn new(mut options: Options) -> Simulation {
        options.prepare();
        let mut random = Random::new(options.seed);
        let disk = SimDisk::new(random.bits(), options.syncs_lie);
        let mut zk = ZkClients::new(&options, &mut random);
        let mut apart = Random::new(options.seed ^ ENSEMBLE_SEED);
        let machines = machines(&options, disk, apart.fork());
        let disks = machines.iter().map(|host| host.disk.clone()).collect();
        let mut more = options.more_seed.map(Random::new);
        if let Some(more) = &mut more {
            zk.clients.iter_mut().for_each(|client| client.do_more(more.fork()));
        }
        let cluster = Cluster {
            world: World::new(random.fork()),
            hosts: Hosts::new(machines, more, &options),
            links: Links::new(options.host_count(), apart.fork()),
            zk,
            etcd: EtcdClients::new(options.etcd.as_ref()),
            witness: Witness::new(options.looks_inside, disks, options.changes.is_some()),
            levels: Levels::new(options.builds.clone()),
            options,
        };
        let (course, faults, turns) = (Course::new(), Faults::default(), Turns::default());
        let recoveries = Recoveries::new(cluster.options.seed);
        let mut simulation = Simulation { cluster, course, faults, turns, recoveries };
        simulation.schedule_first(&mut apart);
        simulation
    }

    /// Schedules the first events of a run. `apart` is the generator for what only ensembles have.
    fn schedule_first(&mut self, apart: &mut Random) {
        self.cluster.zk.begin_later_ops(self.cluster.options.later_ops);
        self.begin_asking();
        let begins_unborn = self.cluster.options.begins_unborn;
        Changes::of(&mut self.cluster).plan_early_starts();
        Changes::of(&mut self.cluster).plan_reconfig();
        for member in 0..self.cluster.options.member_count {
            // The operator starts the servers at different times.
            let at_us = if begins_unborn { apart.magnitude(1, 5_000_000) } else { 0 };
            self.cluster.world.schedule(at_us, Event::Start { member });
        }
        if begins_unborn && self.cluster.options.faults.is_any() {
            self.faults.trouble_birth(&mut self.cluster, apart);
        }
        let Cluster { options, world, hosts, zk, etcd, .. } = &mut self.cluster;
        if let Some((op, power_is_cut)) = options.stop_at {
            hosts[0].stop_at(op, power_is_cut);
        }
        if let Some(mut wait_us) = options.faults.next_us() {
            // The first fault may come early, before the birth of the ensemble.
            if begins_unborn && apart.one_in(2) {
                wait_us = wait_us.min(apart.magnitude(1_000, 5_000_000));
            }
            world.schedule(wait_us, Event::Fault);
        }
        (0..zk.clients.len()).for_each(|client| zk.wake(client, world));
        (0..etcd.clients.len()).for_each(|client| etcd.wake(client, world));
    }

    pub fn run(mut self) -> Result<Summary, String> {
        let mut digest = None;
        loop {
            let phase = self.course.phase();
            let Some(event) = self.cluster.world.next_event() else {
                return Err(format!("nothing happens any more, in phase {phase:?}"));
            };
            if self.cluster.world.event_count() > EVENTS_MAX {
                return Err(format!("more than {EVENTS_MAX} events, in phase {phase:?}"));
            }
            self.on_event(event)?;
            if self.cluster.hosts.is_ensemble() {
                self.note_trouble();
                self.faults.pursue_deceit(&mut self.cluster, self.course.is_calm());
                self.cluster.pursue_builds(self.course.is_calm());
                Changes::of(&mut self.cluster).pursue_list(self.course.is_calm())?;
            }
            match self.course.phase() {
                Phase::Faults => self.maybe_calm(),
                Phase::Calm => {
                    let able_us = self.able_us();
                    if Changes::of(&mut self.cluster).pursue_short(able_us)? {
                        self.maybe_last_words()?;
                    }
                }
                Phase::LastWords => {
                    if self.has_settled()? && !self.visit_others() && !self.ask_at_last()? {
                        match self.cluster.options.some_vanish {
                            true => self.let_some_vanish(),
                            false => digest = Some(self.end_last_life()?),
                        }
                    }
                }
                Phase::Silence => {
                    if self.is_silence_over() && self.has_settled()? {
                        digest = Some(self.end_last_life()?);
                    }
                }
                Phase::LastStart => {
                    self.check_in_time()?;
                    if self.cluster.hosts.are_ready() {
                        return self.finish(digest);
                    }
                }
            }
        }
    }

    // Events.

    fn on_event(&mut self, event: Event) -> Result<(), String> {
        let (cluster, is_calm) = (&mut self.cluster, self.course.is_calm());
        match event {
            Event::Run { .. } | Event::Done { .. } => return cluster.on_process(event),
            Event::Arrive { connection, at_server } => {
                let Cluster { zk, world, hosts, .. } = cluster;
                return zk.on_arrival((connection, at_server), world, hosts);
            }
            Event::Client { client, token } => {
                if cluster.zk.clients[client].token == token {
                    return self.on_client(client);
                }
            }
            Event::Start { member } => return cluster.start(member, is_calm),
            Event::Decide { life } => return cluster.decide(life),
            Event::Begin { member } => return Changes::of(cluster).begin(member, is_calm),
            Event::JoinLimit { life } => Changes::of(cluster).end_joining(life),
            Event::EndRemoved { life } => Changes::of(cluster).end_removed(life),
            Event::TakeAway { member } => Changes::of(cluster).take_removed_away(member),
            Event::Reconfig => Changes::of(cluster).reconfig(is_calm),
            Event::Depart { member, number } => Changes::of(cluster).depart(member, number),
            Event::Leave { life, until_us } => cluster.leave(life, until_us, is_calm),
            Event::Frame { .. }
            | Event::Dial { .. }
            | Event::LinkOver { .. }
            | Event::LinkPatience { .. } => cluster.on_link_event(event),
            Event::Fault if is_calm => {}
            Event::Fault => {
                self.recoveries.maybe_recover(cluster)?;
                // No other fault comes while a member deceives the others.
                if !cluster.hosts.is_any_deceiving() {
                    self.faults.begin_next(cluster);
                }
                if let Some(wait_us) = cluster.options.faults.next_us() {
                    let at_us = cluster.world.now_us + wait_us;
                    cluster.world.schedule(at_us, Event::Fault);
                }
            }
            Event::Relief(number) => self.faults.relieve(cluster, number),
            Event::Stutter { member } => cluster.stand_still(member),
            Event::Ask { planned } => self.on_ask(planned),
            Event::Strike { is_raising } => self.strike(is_raising),
            Event::EtcdArrive { connection, parcel } => {
                let Cluster { etcd, world, hosts, .. } = cluster;
                return etcd.on_arrival((connection, parcel), world, hosts);
            }
            Event::EtcdClient { client, token } => {
                if cluster.etcd.clients[client].token == token {
                    return self.on_etcd_client(client);
                }
            }
        }
        Ok(())
    }

    /// The timer of a ZooKeeper client fires.
    fn on_client(&mut self, client: usize) -> Result<(), String> {
        let Cluster { zk, world, hosts, .. } = &mut self.cluster;
        if zk.on_time(client, world, hosts)? == Wish::Connect {
            self.connect(client);
        }
        let Cluster { zk, world, .. } = &mut self.cluster;
        zk.wake(client, world);
        Ok(())
    }

    fn connect(&mut self, client: usize) {
        let Cluster { zk, world, hosts, .. } = &mut self.cluster;
        let Some(member) = zk.connect(client, world, hosts, self.course.is_last()) else { return };
        // A slow disk delays writes long enough for the race that the client wants to provoke.
        let may_be_slow =
            !self.course.is_calm() && world.random.one_in(2) && !hosts.is_any_deceiving();
        if zk.clients[client].take_race() && may_be_slow {
            let factor = world.random.magnitude(300, 3_000);
            let for_us = world.random.magnitude(100_000, 3_000_000);
            let fault = Fault::SlowDisk { disks: Disks::Both, factor, for_us };
            self.begin_fault(Whom::one(member), fault);
        }
    }

    /// The timer of an etcd client fires.
    fn on_etcd_client(&mut self, client: usize) -> Result<(), String> {
        let Cluster { etcd, world, hosts, .. } = &mut self.cluster;
        etcd.on_time(client, world, hosts, self.course.is_last())?;
        if self.course.phase() == Phase::Calm {
            self.turns.note(client, etcd, hosts, world.now_us);
        }
        Ok(())
    }

    fn begin_fault(&mut self, whom: Whom, fault: Fault) {
        self.faults.begin(&mut self.cluster, whom, fault);
    }

    /// Notes which members may fail to hear their clients, or to report them to the leader, now.
    fn note_trouble(&mut self) {
        let Cluster { hosts, links, world, .. } = &mut self.cluster;
        hosts.note_trouble(links, world.now_us);
    }

    // Phases.

    fn begin(&mut self, phase: Phase) {
        self.cluster.say(None, || format!("{phase:?}"));
        self.course.begin(phase, self.cluster.world.now_us);
    }

    fn maybe_calm(&mut self) {
        let Cluster { options, world, zk, etcd, .. } = &self.cluster;
        let is_short = ends_short(&self.cluster);
        let is_over = world.now_us >= options.faults_us || (zk.are_idle() && etcd.are_idle());
        if !is_over && !is_short {
            return;
        }
        self.begin(Phase::Calm);
        self.faults.end_waiting();
        self.cluster.end_old_builds();
        Changes::of(&mut self.cluster).take_all_away();
        for host in self.cluster.hosts.iter_mut() {
            host.hang_until(Disks::Both, 0);
            if let Some(server) = &mut host.server {
                server.starve_apply(0);
            }
        }
        self.faults.relieve_all(&mut self.cluster);
        let Cluster { world, hosts, zk, etcd, .. } = &mut self.cluster;
        for host in hosts.iter() {
            host.spare_disk();
            host.disk.change_plan(|plan| plan.bytes_max = None);
        }
        zk.change_all(world, Client::calm_down);
        etcd.calm_down(world);
        if is_short {
            Changes::of(&mut self.cluster).begin_short();
        }
    }

    /// When the faults had stopped, with what they leave behind, in us.
    fn able_us(&self) -> u64 {
        let hosts = &self.cluster.hosts;
        let paused_us = hosts.iter().map(|host| host.cpu.paused_until_us()).max().unwrap_or(0);
        self.course.began_us().max(paused_us).max(hosts.quorum_held_us())
    }

    /// Checks that started servers and unfinished clients do not take too long, once the faults
    /// have stopped.
    fn check_in_time(&self) -> Result<(), String> {
        let Cluster { world, hosts, zk, etcd, .. } = &self.cluster;
        let now_us = world.now_us;
        let able_us = self.able_us();
        let since_us = |began_us: u64| now_us - began_us.max(able_us).min(now_us);
        for (member, host) in hosts.iter().enumerate() {
            if !hosts.is_in(member) {
                continue;
            }
            let unborn_us = host.unborn.as_ref().map(Unborn::started_us);
            let serves = hosts.serves(member);
            let server = host.server.as_ref().filter(|server| serves && !server.is_ready());
            let waits_us = unborn_us.or(server.map(Server::started_us));
            let waits_us = waits_us.map(|at_us| at_us.max(host.place.since_us));
            if waits_us.is_some_and(|at_us| since_us(at_us) > READY_US_MAX) {
                let states = hosts.describe();
                return Err(format!("started server {member} does not become ready: {states}"));
            }
        }
        let calm_us = now_us - since_us(0);
        etcd.check_in_time(hosts, calm_us, now_us)?;
        self.turns.check_in_time(etcd, hosts, calm_us, now_us)?;
        if self.course.phase() == Phase::LastWords {
            etcd::check_leases_end(hosts, calm_us, now_us)?;
        }
        if since_us(0) > FINISH_US_MAX {
            let late: Vec<usize> =
                (0..zk.clients.len()).filter(|at| !zk.clients[*at].is_idle()).collect();
            let view = |server: &Server| {
                let machine = server.machine();
                let (index, mark) = (machine.index(), machine.mark());
                let (connections, digest) = (server.connection_count(), machine.digest());
                format!("{connections} connections, {index:?}, {mark:?}, {digest:?}")
            };
            let views: Vec<String> = hosts.servers().map(view).collect();
            let of_etcd = etcd.clients.iter().map(|client| client.describe());
            let clients = zk.clients.iter().map(Client::describe).chain(of_etcd);
            let clients: Vec<String> = clients.collect();
            return Err(format!(
                "clients {late:?} do not finish, in phase {:?}, {clients:?}, {views:?}; {}",
                self.course.phase(),
                hosts.describe()
            ));
        }
        Ok(())
    }

    fn maybe_last_words(&mut self) -> Result<(), String> {
        self.check_in_time()?;
        let Cluster { world, hosts, zk, etcd, .. } = &mut self.cluster;
        if !zk.are_idle() || !etcd.are_idle() {
            return Ok(());
        }
        if hosts.is_any_wrong() {
            // Members detect a wrong state only at a new entry, and only while they run.
            if !hosts.are_ready() {
                return Ok(());
            }
            if self.course.try_to_find_out() > FIND_OUT_TRIES_MAX {
                let states = hosts.describe();
                return Err(format!("a state that was made wrong is not found out: {states}"));
            }
            zk.change_all(world, Client::do_one_more);
            return Ok(());
        }
        self.begin(Phase::LastWords);
        let Cluster { world, hosts, zk, etcd, .. } = &mut self.cluster;
        zk.change_all(world, Client::say_last_words);
        etcd.visit(0, world, hosts);
        Ok(())
    }

    /// Starts the next round of visits: each client connects to another member, which must answer
    /// it. Returns false once each client has visited each member.
    fn visit_others(&mut self) -> bool {
        let Cluster { world, hosts, zk, etcd, .. } = &mut self.cluster;
        let members = hosts.serving();
        if !hosts.is_ensemble() {
            return false;
        }
        let Some(round) = self.course.begin_visits(members.len()) else { return false };
        zk.visit(round, world, &members);
        etcd.visit(round, world, hosts);
        true
    }

    /// Whether all clients have had their last answers, servers hold no connection that its client
    /// has left, and members agree.
    fn has_settled(&self) -> Result<bool, String> {
        self.check_in_time()?;
        let Cluster { hosts, zk, etcd, .. } = &self.cluster;
        if !zk.clients.iter().all(Client::has_said_last_words) || !etcd.has_settled(hosts) {
            return Ok(false);
        }
        let there = zk.clients.iter().filter(|client| client.connection().is_some()).count();
        let mut connection_count = 0;
        for member in hosts.members_in() {
            let server = hosts[member].server.as_ref();
            let Some(server) = server.filter(|server| server.is_idle()) else {
                return Ok(false);
            };
            connection_count += server.connection_count();
        }
        Ok(connection_count == there
            && (!hosts.is_ensemble()
                || (hosts.do_agree() && hosts.do_all_vote() && !hosts.is_change_open())))
    }

    fn let_some_vanish(&mut self) {
        self.begin(Phase::Silence);
        let Cluster { world, hosts, zk, .. } = &mut self.cluster;
        let zxids = hosts.servers().map(|server| server.machine().mark().zxid.0);
        let zxid = zxids.max().expect("it answered the last words");
        let walls = hosts.iter().map(|host| host.cpu.clock().wall_ms(world.now_us));
        self.course.note_silence((zxid, walls.min().expect("there is a member")));
        let kept = world.random.below(zk.clients.len() as u64 + 1) as usize;
        for client in kept..zk.clients.len() {
            zk.clients[client].vanish(world, &mut zk.network);
            zk.wake(client, world);
        }
    }

    /// Whether the sessions of the clients that vanished have had enough time to expire.
    fn is_silence_over(&self) -> bool {
        let Cluster { options, world, hosts, zk, .. } = &self.cluster;
        let gone = zk.clients.iter().filter(|client| client.is_gone());
        let timeout_ms = gone.map(|client| client.session().1).max().unwrap_or(0);
        let settings = &options.member.options.spaces.zk;
        let timeout_us = u64::from(timeout_ms) * 1000;
        // A round of container removals may have begun before.
        let rounds_us = match options.more_seed {
            Some(_) => 2 * u64::from(settings.containers.check_interval_ms) * 1000,
            None => 0,
        };
        let over_us = timeout_us.max(rounds_us) + settings.tick_ms * 1000 + LINGER_US_MAX;
        // While a disk hangs, the server may take it for full. When it has room again, the server
        // renews all sessions.
        let since_us = self.course.began_us().max(hosts.held_until_us());
        world.now_us >= since_us + over_us
    }

    /// Judges the run so far, cuts the power of all members, and returns the state's digest.
    fn end_last_life(&mut self) -> Result<Digest, String> {
        let hosts = &self.cluster.hosts;
        let first = hosts.servers().next().expect("it answered the last words");
        let digest = first.machine().digest();
        self.judge()?;
        self.cluster.check_levels()?;
        hosts.servers().try_for_each(Server::check_memory)?;
        let check = Server::check_levels_of_fronts;
        hosts.servers().filter(|server| server.is_open()).try_for_each(check)?;
        if hosts.is_any_wrong() {
            return Err("a state that was made wrong was found right".to_string());
        }
        self.recoveries.recover(&self.cluster)?;
        self.begin(Phase::LastStart);
        let members = self.cluster.hosts.members_in();
        members.into_iter().for_each(|member| self.cluster.end_process(member, true));
        Ok(digest)
    }

    fn judge(&self) -> Result<(), String> {
        let Cluster { options, hosts, zk, .. } = &self.cluster;
        let machines: Vec<_> = hosts.servers().map(Server::machine).collect();
        let verdict = check(&self.cluster.evidence(), &machines)?;
        self.judge_etcd(&machines)?;
        judge_changes(&self.cluster)?;
        let gone = zk.clients.iter().filter(|client| client.is_gone()).map(Client::session);
        let settings = &options.member.options.spaces.zk;
        check_late_expiries(&verdict, gone, self.course.began_us(), settings.tick_ms)?;
        match options.more_seed {
            Some(_) if self.course.phase() == Phase::Silence => {
                let (zxid, wall_ms) = self.course.silence_began_at();
                check_late_removals(&verdict, zxid, wall_ms, settings.containers.never_used_ms_max)
            }
            _ => Ok(()),
        }
    }

    /// Judges the calls of etcd's clients, and the states of `machines`, which may be empty.
    fn judge_etcd(&self, machines: &[&Machine]) -> Result<EtcdCounts, String> {
        let slack_us = LEASE_SLACK_US + self.faults.clock_jumps() * LEASE_JUMP_US_MAX;
        let (evidence, is_last) = (self.cluster.evidence(), self.course.is_last());
        self.cluster.etcd.judge(&evidence, machines, slack_us, is_last)
    }

    /// Checks that the state survived the last power cut. In an ensemble some members are ready
    /// before others, and znodes may have expired meanwhile, so there the state must match the
    /// committed log.
    fn finish(self, digest: Option<Digest>) -> Result<Summary, String> {
        let Cluster { options, world, hosts, zk, witness, levels, .. } = &self.cluster;
        let machines: Vec<_> = hosts.servers().map(Server::machine).collect();
        if !hosts.is_ensemble() && Some(machines[0].digest()) != digest {
            return Err("after a loss of power the state is another one".to_string());
        }
        // It may be that no member has applied the last entries yet.
        let newest = witness.newest_index();
        let are_there = machines.iter().all(|machine| machine.index().0 == newest);
        let is_known = !hosts.is_ensemble() || (hosts.do_agree() && are_there);
        let machines = if is_known { machines } else { Vec::new() };
        let verdict = check(&self.cluster.evidence(), &machines)?;
        let etcd = self.judge_etcd(&machines)?;
        let changes = judge_changes(&self.cluster)?;
        let LifeCounts { snapshots, turned_away_count } = hosts.life_counts();
        Ok(Summary {
            seed: options.seed,
            member_count: hosts.len(),
            trace: world.trace(),
            event_count: world.event_count(),
            virtual_us: world.now_us,
            worked_us: self.course.worked_us(),
            led_count: witness.led_count(),
            entry_count: witness.entry_count(),
            disk_ops: hosts.iter().map(|host| host.disk.ops()).sum(),
            turned_away_count,
            snapshots,
            given_up: witness.check_given_up()?,
            members: hosts.counts,
            faults: self.faults.counts().clone(),
            changes,
            recoveries: self.recoveries.counts,
            levels: levels.counts(witness.levels.raised_us()),
            zk: zk.counts(&verdict, hosts.len()),
            etcd,
        })
    }
}
