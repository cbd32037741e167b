//! Two machines that take turns in the place of one server, each with its own directory.
//!
//! An operator believes that a server is lost and gives its number to another machine. Later the
//! first machine returns, since nobody had switched it off. The machine that does not have the
//! place is cut off from all members, and its process is frozen; so it later continues in the
//! middle of its work. Like a lost disk (`super::damage`), this happens only while a majority of
//! the servers has lost nothing.

use machine::MemberId;

use crate::disk::SimDisk;
use crate::server::Server;
use crate::world::Event;

use super::cluster::Cluster;
use super::host::OtherMachine;

impl Cluster {
    /// Swaps the machine in a server's place for its other machine, unless fewer than a majority of
    /// the servers would have what they had.
    pub fn change_machine(&mut self, member: usize) {
        self.hosts.note_replaced(&self.witness);
        let Some(id) = self.hosts[member].member() else { return };
        let lost = self.hosts[member].lost;
        let other = self.hosts[member].other.as_ref();
        // While a directory is lost, only the machine that holds that directory may come.
        let is_found = lost.is_some() && other.is_some_and(|other| other.id == lost);
        let may_go = match is_found {
            // The new directory may have got a vote in a list that is smaller now.
            true => {
                !self.hosts.are_members_changing()
                    || self.hosts.may_lose_amid_changes(member, &self.witness)
            }
            false => lost.is_none() && self.hosts.may_lose(member, &self.witness),
        };
        if !may_go {
            return;
        }
        self.hosts.counts.machine_changes += 1;
        self.say(Some(member), || "another machine takes its place".to_string());
        let other = self.hosts[member].other.take();
        let is_new = other.is_none();
        let mut next = other.unwrap_or_else(|| self.new_machine(member));
        let last = self.cut_off_machine(member, id);
        if is_new {
            // A new machine starts with the present clock, not with that of a suspended machine,
            // which stopped.
            next.clock = last.clock;
        }
        let host = &mut self.hosts[member];
        host.other = Some(last);
        host.note_lost(Some(id));
        self.take_place(member, next);
    }

    /// A machine on which no process has run, with the same build.
    fn new_machine(&mut self, member: usize) -> OtherMachine {
        OtherMachine {
            id: None,
            known: self.hosts[member].config.options.order.known.clone(),
            disk: SimDisk::new(self.world.random.bits(), self.options.syncs_lie),
            clock: self.hosts[member].cpu.clock(),
            server: None,
            life: 0,
            events: Vec::new(),
            is_excused: false,
            stop_cuts_power: false,
        }
    }

    /// Cuts off the machine that has the place. Its process is frozen, or in one of three cases
    /// ends.
    fn cut_off_machine(&mut self, member: usize, id: MemberId) -> OtherMachine {
        let now_us = self.world.now_us;
        // The old machine learns of the ends of its links when it continues; the other members
        // learn of them late. A leader would meanwhile count on the machine, also for a list that
        // needs it, so they learn of them at once if the list may change.
        for told in self.links.told_when_cut_off(member) {
            self.tell(told);
        }
        let is_late = !self.hosts.are_members_changing();
        self.links.on_end(&mut self.world, member, is_late);
        let host = &mut self.hosts[member];
        let life = host.life;
        // Events that a pause delayed happen when the machine returns.
        let events = match host.cpu.is_paused(now_us) {
            true => self.world.take_due_at(host.cpu.paused_until_us(), life),
            false => Vec::new(),
        };
        host.end_pause(now_us);
        host.unborn = None;
        for number in self.zk.connections_of(life) {
            self.zk.network.cut_off(&mut self.world, number);
        }
        for number in self.etcd.connections_of(life) {
            self.etcd.network.cut_off(&mut self.world, number);
        }
        let host = &mut self.hosts[member];
        let server = host.server.take().filter(|_| !self.world.random.one_in(3));
        if server.is_none() {
            host.disk.end_life(true);
        }
        OtherMachine {
            id: Some(id),
            known: host.config.options.order.known.clone(),
            disk: host.disk.clone(),
            clock: host.cpu.clock(),
            server,
            life,
            events,
            is_excused: host.is_excused,
            stop_cuts_power: host.stop_cuts_power,
        }
    }

    /// Gives the place to a machine. Its frozen process continues, or a process starts.
    fn take_place(&mut self, member: usize, next: OtherMachine) {
        let now_us = self.world.now_us;
        let host = &mut self.hosts[member];
        host.disk = next.disk;
        host.cpu.set_clock(next.clock);
        host.config.options.order.known = next.known;
        (host.is_excused, host.stop_cuts_power) = (next.is_excused, next.stop_cuts_power);
        let is_ready = next.server.as_ref().is_some_and(Server::is_ready);
        self.witness.on_machine(member, host.disk.clone(), is_ready, now_us);
        let Some(mut server) = next.server else {
            self.hosts.begin_life(member);
            self.world.schedule(now_us, Event::Start { member });
            return;
        };
        host.cpu.note_change(now_us);
        server.set_paces(host.slowness.paces);
        server.starve_apply(host.slowness.apply_lag_us);
        host.life = next.life;
        for event in next.events {
            self.world.schedule(now_us, event);
        }
        for number in self.zk.connections_of(next.life) {
            server.on_socket(number, &mut self.world, &self.zk.network);
        }
        for number in self.etcd.connections_of(next.life) {
            server.on_etcd(number, &mut self.world, &self.etcd.network);
        }
        self.hosts[member].server = Some(server);
        self.links.on_start(&mut self.world, member);
    }

    /// Keeps an event of a process that is frozen, because its machine does not have the server's
    /// place now.
    pub fn keep_for_later(&mut self, life: u64, event: Event) {
        let mut others = self.hosts.iter_mut().filter_map(|host| host.other.as_mut());
        let is_it = |other: &&mut OtherMachine| other.life == life && other.server.is_some();
        if let Some(other) = others.find(is_it) {
            other.events.push(event);
        }
    }
}
