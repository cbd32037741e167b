//! Begins and ends the faults of a run.

use std::collections::BTreeMap;

use storage::fault_disk::Operation;
use workload::generate::Random;

use crate::fault::{Fault, Whom};
use crate::limits::LEAVE_US_MAX;
use crate::links::{Links, Pair, Roughness};
use crate::world::Event;

use super::cluster::Cluster;
use super::cpu::Stutter;
use super::damage::Damage;
use super::host::{Deceit, Host};

/// The faults of a run, in counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// How often each kind of fault came, by its name.
    pub by_name: BTreeMap<String, u64>,
    /// The struck members of each fault, in the order of the faults.
    pub struck: Vec<usize>,
    /// How often a member began to deceive the others.
    pub deceits: u64,
    /// How often bits flipped in a file of a running member.
    pub running_rots: u64,
}

impl FaultCounts {
    fn count(&mut self, fault: Fault) {
        let text = match fault {
            Fault::IoError { operation: Operation::Read | Operation::Open, .. } => {
                "ReadError".to_string()
            }
            fault => format!("{fault:?}"),
        };
        let name = text.split([' ', '{']).next().unwrap_or_default().to_string();
        *self.by_name.entry(name).or_default() += 1;
    }
}

/// The current faults, the deceit that waits, and the counts.
#[derive(Default)]
pub(super) struct Faults {
    /// Current faults that need an end, each with its struck members. The key is the number in the
    /// [`Event::Relief`] that ends the fault.
    lasting: BTreeMap<u32, (Vec<usize>, Fault)>,
    /// A deceit that waits until nothing else is wrong.
    pub(super) waiting: Option<(Whom, Deceit)>,
    /// How often a monotonic clock has jumped ahead.
    clock_jumps: u64,
    pub(super) counts: FaultCounts,
}

impl Faults {
    /// How often a monotonic clock has jumped ahead.
    pub fn clock_jumps(&self) -> u64 {
        self.clock_jumps
    }

    /// The faults so far, in counts.
    pub fn counts(&self) -> &FaultCounts {
        &self.counts
    }

    /// Takes the next fault from the mix and begins it.
    pub fn begin_next(&mut self, cluster: &mut Cluster) {
        let (whom, fault) = cluster.options.faults.next_fault();
        self.begin(cluster, whom, fault);
    }

    /// In half of the runs, begins an additional fault of the links before the ensemble's birth.
    pub fn trouble_birth(&mut self, cluster: &mut Cluster, random: &mut Random) {
        if random.one_in(2) {
            let (whom, fault) = cluster.options.faults.trouble_of_birth(random);
            self.begin(cluster, whom, fault);
        }
    }

    /// Begins a fault.
    pub fn begin(&mut self, cluster: &mut Cluster, whom: Whom, fault: Fault) {
        let members = cluster.hosts.resolve(whom);
        match cluster.hosts.len() {
            1 => cluster.say(None, || format!("{fault:?}")),
            _ => cluster.say(None, || format!("{fault:?} for {members:?}")),
        }
        self.counts.struck.extend(&members);
        self.counts.count(fault);
        let now_us = cluster.world.now_us;
        match fault {
            Fault::Cut { one_in } => {
                for number in cluster.zk.some_connections(one_in, &mut cluster.world.random) {
                    cluster.zk.network.cut_off(&mut cluster.world, number);
                }
                for number in cluster.etcd.some_connections(one_in, &mut cluster.world.random) {
                    cluster.etcd.network.cut_off(&mut cluster.world, number);
                }
            }
            Fault::Stall { one_in, for_us } => {
                for number in cluster.zk.some_connections(one_in, &mut cluster.world.random) {
                    let is_up = cluster.world.random.one_in(2);
                    cluster.zk.network.stall(number, is_up, now_us + for_us);
                }
                for number in cluster.etcd.some_connections(one_in, &mut cluster.world.random) {
                    let is_up = cluster.world.random.one_in(2);
                    cluster.etcd.network.stall(number, is_up, now_us + for_us);
                }
            }
            Fault::Partition { .. }
            | Fault::BreakLinks { .. }
            | Fault::SlowLinks { .. }
            | Fault::RefusedLinks { .. }
            | Fault::RoughLinks { .. } => self.begin_for_links(cluster, members, fault),
            // Without a copy nothing can be restored, so all members make one first.
            Fault::OldCopy if !cluster.hosts.iter().any(Host::is_copied) => {
                cluster.hosts.iter_mut().for_each(Host::make_copy);
            }
            Fault::OldCopy => self.waiting = Some((whom, Deceit::OldCopy)),
            Fault::TornTail => self.waiting = Some((whom, Deceit::TornTail)),
            // Too few members may be left to find it out.
            Fault::WrongState if cluster.hosts.are_members_changing() => {}
            Fault::WrongState => self.waiting = Some((whom, Deceit::WrongState)),
            Fault::HandOver { to } => {
                let to = to.and_then(|to| cluster.hosts[to].member());
                for member in cluster.hosts.leaders() {
                    if let Some(server) = &mut cluster.hosts[member].server {
                        server.hand_over(to, &mut cluster.world);
                    }
                }
            }
            fault => {
                for &member in &members {
                    self.begin_for_machine(cluster, member, fault);
                }
                if let Some(for_us) = lasts_us(fault) {
                    self.relieve_later(cluster, members, fault, for_us);
                }
            }
        }
    }

    /// Begins a fault of the links between members.
    fn begin_for_links(&mut self, cluster: &mut Cluster, members: Vec<usize>, fault: Fault) {
        let Cluster { links, world, .. } = cluster;
        match fault {
            Fault::Partition { is_one_way, for_us } => {
                for pair in cut_pairs(links, &members, is_one_way) {
                    links.block(world, pair, true);
                }
                self.relieve_later(cluster, members, fault, for_us);
            }
            Fault::BreakLinks { one_in } => {
                for pair in some_pairs(links, one_in, &mut world.random) {
                    links.break_off(world, pair);
                }
            }
            Fault::SlowLinks { one_in, bytes_per_s, latency_us, for_us } => {
                for pair in some_pairs(links, one_in, &mut world.random) {
                    links.slow_down(pair, bytes_per_s, latency_us);
                }
                self.relieve_later(cluster, members, fault, for_us);
            }
            Fault::RefusedLinks { one_in, for_us } => {
                for pair in some_pairs(links, one_in, &mut world.random) {
                    links.refuse(world, pair, true);
                }
                self.relieve_later(cluster, members, fault, for_us);
            }
            Fault::RoughLinks { roughness, for_us } => {
                links.roughen(roughness);
                self.relieve_later(cluster, members, fault, for_us);
            }
            _ => unreachable!("the caller checked that it exists"),
        }
    }

    /// Begins a fault of one machine.
    fn begin_for_machine(&mut self, cluster: &mut Cluster, member: usize, fault: Fault) {
        let now_us = cluster.world.now_us;
        let host = &mut cluster.hosts[member];
        match fault {
            Fault::Kill => cluster.maybe_end_process(member, false),
            Fault::PowerLoss => cluster.maybe_end_process(member, true),
            Fault::Stop => match &host.server {
                Some(server) => {
                    let (life, until_us) = (server.life(), now_us + LEAVE_US_MAX);
                    cluster.world.schedule(now_us, Event::Leave { life, until_us });
                }
                None => cluster.maybe_end_process(member, false),
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
            Fault::SlowApply { lag_us, .. } => host.starve_apply(lag_us),
            Fault::Pause { for_us } => host.pause(now_us, for_us),
            Fault::Stutter { run_us, period_us, .. } => {
                if !host.cpu.set_stutter(Some(Stutter { run_us, period_us })) {
                    cluster.stand_still(member);
                }
            }
            Fault::Suspend { for_us } => host.suspend(now_us, for_us),
            Fault::ClockJump { by_us } => {
                if host.jump_clock(now_us, by_us) {
                    self.clock_jumps += 1;
                    cluster.etcd.clients.iter_mut().for_each(|client| client.on_clock_jump(now_us));
                }
            }
            Fault::WallJump { by_ms } => host.move_wall_clock(by_ms),
            Fault::Copy => host.make_copy(),
            Fault::BitRot => cluster.damage(member, Damage::Rot),
            Fault::RunningRot { disks } => {
                self.counts.running_rots += u64::from(cluster.rot_running(member, disks));
            }
            Fault::OtherMachine => cluster.change_machine(member),
            Fault::EmptiedDisk => cluster.damage(member, Damage::Loss),
            Fault::Restore => cluster.restore(member),
            _ => unreachable!("it is of no one machine"),
        }
    }

    fn relieve_later(
        &mut self,
        cluster: &mut Cluster,
        members: Vec<usize>,
        fault: Fault,
        for_us: u64,
    ) {
        let number = self.lasting.last_key_value().map_or(0, |(number, _)| number + 1);
        self.lasting.insert(number, (members, fault));
        cluster.world.schedule(cluster.world.now_us + for_us, Event::Relief(number));
    }

    /// Ends a fault.
    pub fn relieve(&mut self, cluster: &mut Cluster, number: u32) {
        let Some((members, fault)) = self.lasting.remove(&number) else { return };
        let Cluster { links, world, hosts, .. } = cluster;
        match fault {
            // The end of one partition also ends all other partitions.
            Fault::Partition { .. } => {
                for pair in links.pairs() {
                    links.block(world, pair, false);
                }
            }
            Fault::SlowLinks { .. } => {
                for pair in links.pairs() {
                    links.speed_up(world, pair);
                }
            }
            Fault::RefusedLinks { .. } => {
                for pair in links.pairs() {
                    links.refuse(world, pair, false);
                }
            }
            Fault::RoughLinks { .. } => links.roughen(Roughness::default()),
            fault => members.into_iter().for_each(|member| hosts[member].relieve(fault)),
        }
    }

    /// Ends all current faults that need an end.
    pub fn relieve_all(&mut self, cluster: &mut Cluster) {
        let numbers: Vec<u32> = self.lasting.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.relieve(cluster, number));
    }

    /// Whether no fault that needs an end is current.
    pub fn are_over(&self) -> bool {
        self.lasting.is_empty()
    }
}

impl Host {
    /// Ends a fault of this machine.
    fn relieve(&mut self, fault: Fault) {
        match fault {
            Fault::DiskFull { .. } => self.disk.change_plan(|plan| plan.bytes_max = None),
            Fault::SlowDisk { disks, .. } => self.pace(disks, |pace| pace.slowness = 1),
            Fault::Stutter { .. } => _ = self.cpu.set_stutter(None),
            Fault::SlowApply { .. } => self.starve_apply(0),
            _ => {}
        }
    }
}

/// Draws one in `one_in` of the pairs of members.
fn some_pairs(links: &Links, one_in: u64, random: &mut Random) -> Vec<Pair> {
    links.pairs().into_iter().filter(|_| random.one_in(one_in)).collect()
}

/// The pairs that a partition blocks: those on which `members` send to the others and, unless
/// `is_one_way`, also those on which they receive from the others.
fn cut_pairs(links: &Links, members: &[usize], is_one_way: bool) -> Vec<Pair> {
    let is_in = |member: usize| members.contains(&member);
    let is_cut = |pair: &Pair| match (is_in(pair.from), is_in(pair.to)) {
        (true, false) => true,
        (false, true) => !is_one_way,
        _ => false,
    };
    links.pairs().into_iter().filter(is_cut).collect()
}

/// How long a fault of a machine lasts if something must be undone at its end; otherwise `None`.
fn lasts_us(fault: Fault) -> Option<u64> {
    match fault {
        Fault::DiskFull { for_us, .. }
        | Fault::SlowDisk { for_us, .. }
        | Fault::Stutter { for_us, .. }
        | Fault::SlowApply { for_us, .. } => Some(for_us),
        _ => None,
    }
}
