//! The ZooKeeper clients of a run: their events, their network, and counts of what they did.

use workload::generate::{OWNED, Random};
use workload::history::{History, Received};
use workload::op::{Op, error};
use workload::order::Verdict;

use super::hosts::Hosts;
use super::options::{LaterOps, Options};
use crate::client::{Client, Wish};
use crate::network::Network;
use crate::world::{Event, World};

/// Counts of what the ZooKeeper clients of a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZkCounts {
    /// Acknowledged writes.
    pub writes: usize,
    /// Writes without a reply that took effect.
    pub unknown_done: usize,
    /// Writes refused for want of disk space.
    pub refused: usize,
    /// Writes refused by a quota.
    pub over_quota: usize,
    /// Successful writes of znodes with owners.
    pub owned: usize,
    /// Writes of znodes with owners refused for want of permission.
    pub denied: usize,
    /// Answered reads.
    pub reads: usize,
    /// Reads answered on read-only connections.
    pub read_only: usize,
    /// Requests refused on read-only connections.
    pub not_read_only: usize,
    /// Requests refused because they had waited too long.
    pub throttled: usize,
    /// Connections that a member closed because of a frame that every server must reject.
    pub ended: usize,
    /// Expired sessions.
    pub expired: usize,
    /// Containers and znodes with a time to live that the servers removed.
    pub gone: usize,
    /// Restored snapshots.
    pub restored: usize,
    /// Counts of what the watches showed.
    pub watches: ZkWatchCounts,
    /// For each member, the longest time from a write to its answer or to the end of the
    /// connection, in us.
    pub write_wait_us_max: Vec<u64>,
}

/// Counts of what the watches of the ZooKeeper clients showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZkWatchCounts {
    /// Events received.
    pub events: usize,
    /// Events received only because of persistent watches.
    pub lasting: usize,
    /// Events received about znodes that only some users may read.
    pub private: usize,
    /// Events withheld from connections that may not read the znode.
    pub hidden: usize,
    /// Persistent watches that were set again on a new connection.
    pub set_again: usize,
    /// Events that a client missed while disconnected, and received later.
    pub missed: usize,
}

/// All ZooKeeper clients of a run, with their network and the history of their operations.
pub(super) struct ZkClients {
    /// The clients, by number.
    pub clients: Vec<Client>,
    /// All connections of the run.
    pub network: Network,
    /// Everything that the clients sent and received, for the judges.
    pub history: History,
}

impl ZkClients {
    /// Clients without connections.
    pub fn new(options: &Options, random: &mut Random) -> ZkClients {
        let network = Network::new(random.fork());
        let tick_us = options.member.options.spaces.zk.tick_ms * 1000;
        let clients = options.clients.iter().enumerate();
        let clients = clients.map(|(number, config)| {
            Client::new(number as u32, config.clone(), tick_us, random.fork())
        });
        ZkClients { clients: clients.collect(), network, history: History::default() }
    }

    /// Adds the kinds of client operations that the run has.
    pub fn begin_later_ops(&mut self, later_ops: LaterOps) {
        let LaterOps {
            bad_frames,
            lasting_watches,
            users,
            throttles: _,
            read_only,
            private_znodes,
        } = later_ops;
        if let Some(mut random) = bad_frames.map(Random::new) {
            self.clients.iter_mut().for_each(|it| it.send_bad_frames(random.fork()));
        }
        if let Some(mut random) = lasting_watches.map(Random::new) {
            self.clients.iter_mut().for_each(|it| it.set_lasting_watches(random.fork()));
        }
        if let Some(mut random) = users.map(Random::new) {
            self.clients.iter_mut().for_each(|it| it.be_users(random.fork()));
        }
        if let Some(mut random) = private_znodes.map(Random::new) {
            self.clients.iter_mut().for_each(|it| it.have_private_znodes(random.fork()));
        }
        if let Some(mut random) = read_only.map(Random::new) {
            for client in &mut self.clients {
                if random.one_in(2) {
                    client.take_reads_only(random.fork());
                }
            }
        }
    }

    // Events.

    /// Handles the arrival of bytes at one end of a connection.
    ///
    /// # Errors
    /// The client could not understand them.
    pub fn on_arrival(
        &mut self,
        (number, at_server): (usize, bool),
        world: &mut World,
        hosts: &mut Hosts,
    ) -> Result<(), String> {
        if !self.network.arrive(world, number, at_server) {
            return Ok(());
        }
        if at_server {
            self.tell_server(number, world, hosts);
            return Ok(());
        }
        let client = self.network.connections[number].client;
        if self.clients[client].connection() == Some(number)
            && !self.clients[client].is_deaf(world.now_us)
        {
            self.let_read(client, world, hosts)?;
        }
        Ok(())
    }

    /// Wakes the process at the other end of a connection, if that process still runs.
    fn tell_server(&self, number: usize, world: &mut World, hosts: &mut Hosts) {
        let connection = &self.network.connections[number];
        if let Some(server) = &mut hosts[connection.member].server
            && server.life() == connection.life
        {
            server.on_socket(number, world, &self.network);
        }
    }

    fn let_read(
        &mut self,
        client: usize,
        world: &mut World,
        hosts: &mut Hosts,
    ) -> Result<(), String> {
        let ZkClients { clients, network, history } = self;
        let number = clients[client].connection();
        clients[client].on_arrival(world, network, history)?;
        // The client has read, so the server may have room to write again.
        if let Some(number) = number {
            self.tell_server(number, world, hosts);
        }
        self.wake(client, world);
        Ok(())
    }

    /// The timer of a client fires: it reads what has arrived, then acts.
    ///
    /// # Errors
    /// The client could not understand what arrived.
    pub fn on_time(
        &mut self,
        client: usize,
        world: &mut World,
        hosts: &mut Hosts,
    ) -> Result<Wish, String> {
        let is_deaf = self.clients[client].is_deaf(world.now_us);
        if !is_deaf && self.clients[client].connection().is_some() {
            self.let_read(client, world, hosts)?;
        }
        let ZkClients { clients, network, history } = self;
        Ok(clients[client].on_time(world, network, history))
    }

    /// Connects a client to the next member that it tries. If `is_last`, it finds no server.
    /// Returns the member; `None` if the client found no server or sent a bad connect request.
    pub fn connect(
        &mut self,
        client: usize,
        world: &mut World,
        hosts: &mut Hosts,
        is_last: bool,
    ) -> Option<usize> {
        let ZkClients { clients, network, history } = self;
        let (number, client) = (client, &mut clients[client]);
        let member = client.next_member(&hosts.present());
        let server = hosts[member].server.as_mut();
        let Some(server) = server.filter(|server| server.is_open() && !is_last) else {
            client.on_refused(world.now_us);
            return None;
        };
        let connection = network.connect(number, member, server.life(), world.now_us);
        let asked = client.ask();
        assert!(history.connect(number as u32, asked.0, asked.1) == connection);
        let record = &mut history.connections[connection];
        record.takes_read_only = client.takes_reads_only();
        record.zxid_floor = client.last_zxid().max(server.machine().mark().zxid.0);
        server.accept(connection, world, network);
        if client.maybe_spoil_connect(connection, world, network, history) {
            return None;
        }
        client.on_connected(connection, asked, world, network);
        Some(member)
    }

    /// Whether all clients have finished their work.
    pub fn are_idle(&self) -> bool {
        self.clients.iter().all(Client::is_idle)
    }

    /// Schedules the next firing of a client's timer.
    pub fn wake(&mut self, client: usize, world: &mut World) {
        let token = world.token();
        self.clients[client].token = token;
        let at_us = self.clients[client].wakes_us(world.now_us);
        world.schedule(at_us, Event::Client { client, token });
    }

    /// Changes each client, and reschedules its timer.
    pub fn change_all(&mut self, world: &mut World, change: impl Fn(&mut Client)) {
        for number in 0..self.clients.len() {
            change(&mut self.clients[number]);
            self.wake(number, world);
        }
    }

    /// Starts round `round` of visits: each client goes to another member, which must answer it.
    pub fn visit(&mut self, round: usize, world: &mut World, members: &[usize]) {
        for client in 0..self.clients.len() {
            let member = members[(client + round) % members.len()];
            self.clients[client].visit(member, world, &mut self.network);
            self.wake(client, world);
        }
    }

    /// Draws one in `one_in` of the clients' current connections.
    pub fn some_connections(&self, one_in: u64, random: &mut Random) -> Vec<usize> {
        let connections = self.clients.iter().filter_map(Client::connection);
        connections.filter(|_| random.one_in(one_in)).collect()
    }

    /// The connections to the process run numbered `life`.
    pub fn connections_of(&self, life: u64) -> Vec<usize> {
        let connections = self.network.connections.iter().enumerate();
        connections.filter(|(_, it)| it.life == life).map(|(number, _)| number).collect()
    }

    /// The counts of a run with `member_count` members, given the judge's verdict.
    pub fn counts(&self, verdict: &Verdict, member_count: usize) -> ZkCounts {
        ZkCounts {
            writes: verdict.acknowledged.len(),
            unknown_done: verdict.unknown_done_count,
            refused: verdict.refused_count,
            over_quota: verdict.over_quota_count,
            owned: self.owned_count(error::OK),
            denied: self.owned_count(error::NO_AUTH),
            reads: verdict.read_count,
            read_only: verdict.read_only_count,
            not_read_only: verdict.not_read_only_count,
            throttled: verdict.throttled_count,
            ended: self.clients.iter().map(Client::ended_count).sum(),
            expired: verdict.expired.len(),
            gone: verdict.gone_count,
            restored: verdict.installed_count,
            watches: ZkWatchCounts {
                events: verdict.event_count,
                lasting: verdict.lasting_event_count,
                private: verdict.private_event_count,
                hidden: verdict.hidden_event_count,
                set_again: self.set_again_count(),
                missed: self.missed_count(),
            },
            write_wait_us_max: self.write_wait_us_max(member_count),
        }
    }

    fn write_wait_us_max(&self, member_count: usize) -> Vec<u64> {
        let mut longest_us = vec![0; member_count];
        for record in self.history.ops.iter().filter(|record| record.op.is_write()) {
            let connection = &self.network.connections[record.connection];
            let answered_us = record.completed.as_ref().map(|completed| completed.moment.at_us);
            let over_us = answered_us.unwrap_or(connection.left_us);
            let wait_us = over_us.saturating_sub(record.invoked.at_us);
            let longest_us = &mut longest_us[connection.member];
            *longest_us = wait_us.max(*longest_us);
        }
        longest_us
    }

    /// How many writes of znodes with owners were answered with this error code.
    fn owned_count(&self, code: i32) -> usize {
        let records = self.history.ops.iter().filter(|record| match &record.op {
            Op::CreateOwned { .. } | Op::SetAclOwned { .. } => true,
            Op::SetData { path, .. } | Op::Delete { path, .. } => {
                path.split('/').any(|name| name == OWNED)
            }
            _ => false,
        });
        let completed = records.filter_map(|record| record.completed.as_ref());
        completed.filter(|completed| completed.error == code).count()
    }

    fn set_again_count(&self) -> usize {
        let answered = self.history.ops.iter().filter(|record| record.completed.is_some());
        let lasting = answered.map(|record| match &record.op {
            Op::SetWatches2 { persistent, recursive, .. } => persistent.len() + recursive.len(),
            _ => 0,
        });
        lasting.sum()
    }

    fn missed_count(&self) -> usize {
        let received = self.history.connections.iter().flat_map(|it| &it.received);
        received.filter(|it| matches!(it, Received::Event { zxid: -1, .. })).count()
    }
}
