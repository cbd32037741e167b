//! The beginning and the end of faults.

use replica::Role;
use storage::fault_disk::Operation;
use workload::generate::Random;

use crate::client::Client;
use crate::fault::{Fault, Whom};
use crate::limits::LEAVE_US_MAX;
use crate::links::{Pair, Roughness};
use crate::world::Event;

use super::Simulation;
use super::damage::Damage;
use super::host::{Deceit, Host, Stutter};

impl Simulation {
    /// Begins the next fault of the mix.
    pub(super) fn fault(&mut self) {
        let (whom, fault) = self.options.faults.next_fault();
        self.begin_fault(whom, fault);
    }

    /// Begins a fault in half of the runs while the members look for each other, beside those of
    /// the mix.
    pub(super) fn trouble_birth(&mut self, random: &mut Random) {
        if random.one_in(2) {
            let (whom, fault) = self.options.faults.trouble_of_birth(random);
            self.begin_fault(whom, fault);
        }
    }

    /// The members that a fault is for.
    pub(super) fn resolve(&self, whom: Whom) -> Vec<usize> {
        let all = 0..self.hosts.len();
        match whom {
            Whom::Members(mask) => all.filter(|member| mask >> member & 1 == 1).collect(),
            Whom::Leader => self.leaders(),
            Whom::Follower => {
                let leaders = self.leaders();
                all.filter(|member| !leaders.contains(member)).take(1).collect()
            }
            Whom::Lender => self.lenders(),
        }
    }

    /// The members that snapshots are fetched from, except those that lead.
    pub(super) fn lenders(&self) -> Vec<usize> {
        let leaders = self.leaders();
        let servers = || self.hosts.iter().filter_map(|host| host.server.as_ref());
        let lends = |member: &usize| {
            let server = self.hosts[*member].server.as_ref();
            let lender = server.map(|server| server.hello().member);
            let is_asked = servers().any(|other| other.fetches_from() == lender);
            lender.is_some() && is_asked && !leaders.contains(member)
        };
        (0..self.hosts.len()).filter(lends).collect()
    }

    /// The members that lead, or think so; the one of the newest term is the last.
    pub(super) fn leaders(&self) -> Vec<usize> {
        let term = |member: usize| {
            let status = self.hosts[member].server.as_ref()?.status();
            (status.role == Role::Leader).then_some((status.term, member))
        };
        let mut leaders: Vec<(u64, usize)> = (0..self.hosts.len()).filter_map(term).collect();
        leaders.sort_unstable();
        leaders.into_iter().map(|(_, member)| member).collect()
    }

    pub(super) fn begin_fault(&mut self, whom: Whom, fault: Fault) {
        let members = self.resolve(whom);
        match self.hosts.len() {
            1 => self.say(None, || format!("{fault:?}")),
            _ => self.say(None, || format!("{fault:?} for {members:?}")),
        }
        self.struck.extend(&members);
        self.count_fault(fault);
        let now_us = self.world.now_us;
        match fault {
            Fault::Cut { one_in } => {
                for number in self.some_connections(one_in) {
                    self.network.cut_off(&mut self.world, number);
                }
                for number in self.some_etcd_connections(one_in) {
                    self.etcd.network.cut_off(&mut self.world, number);
                }
            }
            Fault::Stall { one_in, for_us } => {
                for number in self.some_connections(one_in) {
                    let is_up = self.world.random.one_in(2);
                    self.network.stall(number, is_up, now_us + for_us);
                }
                for number in self.some_etcd_connections(one_in) {
                    let is_up = self.world.random.one_in(2);
                    self.etcd.network.stall(number, is_up, now_us + for_us);
                }
            }
            Fault::Partition { .. }
            | Fault::BreakLinks { .. }
            | Fault::SlowLinks { .. }
            | Fault::RefusedLinks { .. }
            | Fault::RoughLinks { .. } => self.begin_link_fault(members, fault),
            // Without a copy there is nothing to put back, so all members make one.
            Fault::OldCopy if !self.hosts.iter().any(Host::is_copied) => {
                self.hosts.iter_mut().for_each(Host::make_copy);
            }
            Fault::OldCopy => self.deceit = Some((whom, Deceit::OldCopy)),
            Fault::TornTail => self.deceit = Some((whom, Deceit::TornTail)),
            Fault::WrongState => self.deceit = Some((whom, Deceit::WrongState)),
            Fault::HandOver { to } => {
                let to = to.and_then(|to| Some(self.hosts[to].hello()?.member));
                for member in self.leaders() {
                    if let Some(server) = &mut self.hosts[member].server {
                        server.hand_over(to, &mut self.world);
                    }
                }
            }
            fault => {
                for &member in &members {
                    self.begin_fault_of(member, fault);
                }
                if let Some(for_us) = lasts_us(fault) {
                    self.relieve_later(members, fault, for_us);
                }
            }
        }
    }

    fn count_fault(&mut self, fault: Fault) {
        let text = match fault {
            Fault::IoError { operation: Operation::Read | Operation::Open, .. } => {
                "ReadError".to_string()
            }
            fault => format!("{fault:?}"),
        };
        let name = text.split([' ', '{']).next().unwrap_or_default().to_string();
        *self.fault_counts.entry(name).or_default() += 1;
    }

    /// Begins a fault of the links between members.
    fn begin_link_fault(&mut self, members: Vec<usize>, fault: Fault) {
        match fault {
            Fault::Partition { is_one_way, for_us } => {
                for pair in self.cut_pairs(&members, is_one_way) {
                    self.links.block(&mut self.world, pair, true);
                }
                self.relieve_later(members, fault, for_us);
            }
            Fault::BreakLinks { one_in } => {
                for pair in self.some_pairs(one_in) {
                    self.links.break_off(&mut self.world, pair);
                }
            }
            Fault::SlowLinks { one_in, bytes_per_s, latency_us, for_us } => {
                for pair in self.some_pairs(one_in) {
                    self.links.slow_down(pair, bytes_per_s, latency_us);
                }
                self.relieve_later(members, fault, for_us);
            }
            Fault::RefusedLinks { one_in, for_us } => {
                for pair in self.some_pairs(one_in) {
                    self.links.refuse(&mut self.world, pair, true);
                }
                self.relieve_later(members, fault, for_us);
            }
            Fault::RoughLinks { roughness, for_us } => {
                self.links.roughen(roughness);
                self.relieve_later(members, fault, for_us);
            }
            _ => unreachable!("the caller checked that it exists"),
        }
    }

    /// Begins a fault of one machine.
    fn begin_fault_of(&mut self, member: usize, fault: Fault) {
        let now_us = self.world.now_us;
        let host = &mut self.hosts[member];
        match fault {
            Fault::Kill => self.maybe_end_process(member, false),
            Fault::PowerLoss => self.maybe_end_process(member, true),
            Fault::Stop => match &host.server {
                Some(server) => {
                    let (life, until_us) = (server.life(), now_us + LEAVE_US_MAX);
                    self.world.schedule(now_us, Event::Leave { life, until_us });
                }
                None => self.maybe_end_process(member, false),
            },
            Fault::StopAt { ops, power_is_cut } => {
                let op = host.disk.ops() + ops;
                host.stop_at(op, power_is_cut);
            }
            Fault::IoError { operation, nth } => {
                host.is_excused = true;
                host.disk.change_plan(|plan| plan.fail.push((operation, nth)));
            }
            Fault::DiskFull { bytes, .. } => {
                host.is_excused = true;
                let bytes_max = host.disk.bytes() + bytes;
                host.disk.change_plan(|plan| plan.bytes_max = Some(bytes_max));
            }
            Fault::SlowDisk { disks, factor, .. } => {
                host.pace(disks, |pace| pace.slowness = factor);
            }
            Fault::HangingDisk { disks, for_us } => host.hang_until(disks, now_us + for_us),
            Fault::SlowApply { lag_us, .. } => {
                host.apply_lag_us = lag_us;
                if let Some(server) = &mut host.server {
                    server.starve_apply(lag_us);
                }
            }
            Fault::Pause { for_us } => {
                host.pause(now_us, for_us);
            }
            Fault::Stutter { run_us, period_us, .. } => {
                let is_stuttering = host.stutter.is_some();
                host.stutter = Some(Stutter { run_us, period_us });
                if !is_stuttering {
                    self.stand_still(member);
                }
            }
            Fault::Suspend { for_us } => host.suspend(now_us, for_us),
            Fault::ClockJump { by_us } if host.paused_until_us <= now_us => {
                host.move_clock(by_us as i64);
                self.clock_jumps += 1;
                self.etcd.clients.iter_mut().for_each(|client| client.on_clock_jump(now_us));
                host.waking.jump(now_us, by_us);
            }
            Fault::ClockJump { .. } => {}
            Fault::WallJump { by_ms } => {
                host.clock.wall_offset_ms += by_ms;
                if let Some(server) = &mut host.server {
                    server.set_clock(host.clock);
                }
            }
            Fault::Copy => host.make_copy(),
            Fault::BitRot => self.damage(member, Damage::Rot),
            Fault::RunningRot { disks } => self.rot_running(member, disks),
            Fault::OtherMachine => self.change_machine(member),
            Fault::EmptiedDisk => self.damage(member, Damage::Loss),
            Fault::Restore => self.restore(member),
            _ => unreachable!("it is of no one machine"),
        }
    }

    fn restore(&mut self, member: usize) {
        let host = &mut self.hosts[member];
        let Some(server) = &mut host.server else { return };
        let Some(newest) = server.newest_snapshot() else { return };
        let aside = host.put_aside.take().filter(|_| !self.world.random.one_in(3));
        let bytes = aside.as_ref().unwrap_or(&newest);
        server.restore(bytes, &mut self.world, &mut self.witness);
        host.put_aside = Some(newest);
        if host.disk.is_stopped() {
            let stop_cuts_power = host.stop_cuts_power;
            self.end_process(member, stop_cuts_power);
        }
    }

    fn maybe_end_process(&mut self, member: usize, power_is_cut: bool) {
        if self.hosts[member].is_there() {
            self.end_process(member, power_is_cut);
        }
    }

    fn some_connections(&mut self, one_in: u64) -> Vec<usize> {
        let connections = self.clients.iter().filter_map(Client::connection);
        let connections: Vec<usize> = connections.collect();
        connections.into_iter().filter(|_| self.world.random.one_in(one_in)).collect()
    }

    fn some_pairs(&mut self, one_in: u64) -> Vec<Pair> {
        let pairs = self.links.pairs().into_iter();
        pairs.filter(|_| self.world.random.one_in(one_in)).collect()
    }

    /// The pairs on which nothing comes through when these members are cut off from the others: the
    /// pairs on which they send and, unless it is one way only, those on which they receive.
    fn cut_pairs(&self, members: &[usize], is_one_way: bool) -> Vec<Pair> {
        let is_in = |member: usize| members.contains(&member);
        let is_cut = |pair: &Pair| match (is_in(pair.from), is_in(pair.to)) {
            (true, false) => true,
            (false, true) => !is_one_way,
            _ => false,
        };
        self.links.pairs().into_iter().filter(is_cut).collect()
    }

    fn relieve_later(&mut self, members: Vec<usize>, fault: Fault, for_us: u64) {
        let number = self.reliefs.last_key_value().map_or(0, |(number, _)| number + 1);
        self.reliefs.insert(number, (members, fault));
        self.world.schedule(self.world.now_us + for_us, Event::Relief(number));
    }

    pub(super) fn relieve(&mut self, number: u32) {
        let Some((members, fault)) = self.reliefs.remove(&number) else { return };
        match fault {
            // The end of one partition ends all others, too.
            Fault::Partition { .. } => {
                for pair in self.links.pairs() {
                    self.links.block(&mut self.world, pair, false);
                }
            }
            Fault::SlowLinks { .. } => {
                for pair in self.links.pairs() {
                    self.links.speed_up(&mut self.world, pair);
                }
            }
            Fault::RefusedLinks { .. } => {
                for pair in self.links.pairs() {
                    self.links.refuse(&mut self.world, pair, false);
                }
            }
            Fault::RoughLinks { .. } => self.links.roughen(Roughness::default()),
            fault => members.into_iter().for_each(|member| self.relieve_of(member, fault)),
        }
    }

    /// A machine that stutters stands still, and does so again after a period.
    pub(super) fn stand_still(&mut self, member: usize) {
        let now_us = self.world.now_us;
        let host = &mut self.hosts[member];
        let Some(Stutter { run_us, period_us }) = host.stutter else { return };
        host.pause(now_us, period_us - run_us);
        self.world.schedule(now_us + period_us, Event::Stutter { member });
    }

    fn relieve_of(&mut self, member: usize, fault: Fault) {
        let host = &mut self.hosts[member];
        match fault {
            Fault::DiskFull { .. } => host.disk.change_plan(|plan| plan.bytes_max = None),
            Fault::SlowDisk { disks, .. } => host.pace(disks, |pace| pace.slowness = 1),
            Fault::Stutter { .. } => host.stutter = None,
            Fault::SlowApply { .. } => {
                host.apply_lag_us = 0;
                if let Some(server) = &mut host.server {
                    server.starve_apply(0);
                }
            }
            _ => {}
        }
    }
}

/// How long a fault of a machine lasts, if something has to be done at its end.
fn lasts_us(fault: Fault) -> Option<u64> {
    match fault {
        Fault::DiskFull { for_us, .. }
        | Fault::SlowDisk { for_us, .. }
        | Fault::Stutter { for_us, .. }
        | Fault::SlowApply { for_us, .. } => Some(for_us),
        _ => None,
    }
}
