//! ZooKeeper's clients in a run: what they begin with, and what they did.

use workload::generate::{OWNED, Random};
use workload::history::{History, Received};
use workload::op::{Op, error};
use workload::order::Verdict;

use super::hosts::Hosts;
use super::options::{LaterOps, Options};
use crate::client::{Client, Wish};
use crate::network::Network;
use crate::world::{Event, World};

/// What ZooKeeper's clients did in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZkCounts {
    /// Writes that were acknowledged.
    pub writes: usize,
    /// Writes without a reply that took effect.
    pub unknown_done: usize,
    /// Writes that were refused for want of room.
    pub refused: usize,
    /// Writes that a quota refused.
    pub over_quota: usize,
    /// Writes of znodes with owners that were done.
    pub owned: usize,
    /// Writes of znodes with owners that were refused for want of permission.
    pub denied: usize,
    /// Reads that were answered.
    pub reads: usize,
    /// Reads that were answered on connections that are served reads only.
    pub read_only: usize,
    /// Requests that were refused on such connections.
    pub not_read_only: usize,
    /// Requests that were refused because they had waited for too long.
    pub throttled: usize,
    /// Connections that a member closed behind a frame that no server takes.
    pub ended: usize,
    /// Sessions that expired.
    pub expired: usize,
    /// Containers and znodes with a time to live that went by themselves.
    pub gone: usize,
    /// Snapshots restored.
    pub restored: usize,
    /// What their watches showed.
    pub watches: ZkWatchCounts,
    /// The longest that a client of each member waited for the answer to a write, or for the end of
    /// the connection instead.
    pub write_wait_us_max: Vec<u64>,
}

/// What the watches of ZooKeeper's clients showed in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZkWatchCounts {
    /// Events.
    pub events: usize,
    /// Events that came only for watches that stay.
    pub lasting: usize,
    /// Events that came and that only some users may see.
    pub private: usize,
    /// Events that were kept from connections that may not see them.
    pub hidden: usize,
    /// Watches that stay and were set again on another connection.
    pub set_again: usize,
    /// Events that a client missed while it was away, and was told of later.
    pub missed: usize,
}

/// All of ZooKeeper's clients in a run, their connections and what they saw.
pub(super) struct ZkClients {
    /// The clients, by number.
    pub clients: Vec<Client>,
    /// Their connections.
    pub network: Network,
    /// Their operations.
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

    /// Adds operations of later kinds to what clients do.
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

    /// Something arrives at an end of a connection.
    ///
    /// # Errors
    /// No client of ZooKeeper's could understand it.
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

    /// The server's kernel has something new for a connection.
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
        // The connection has room again for what the server has to say.
        if let Some(number) = number {
            self.tell_server(number, world, hosts);
        }
        self.wake(client, world);
        Ok(())
    }

    /// A client looks at its clock.
    ///
    /// # Errors
    /// It cannot understand what has come.
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

    /// Connects a client to the member that it tries next. It finds no server if `is_last`. Returns
    /// the member; `None` if the client does not ask for a session there.
    pub fn connect(
        &mut self,
        client: usize,
        world: &mut World,
        hosts: &mut Hosts,
        is_last: bool,
    ) -> Option<usize> {
        let ZkClients { clients, network, history } = self;
        let (number, client) = (client, &mut clients[client]);
        let member = client.next_member(hosts.len());
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

    /// Whether all clients have done what they had to.
    pub fn are_idle(&self) -> bool {
        self.clients.iter().all(Client::is_idle)
    }

    /// Schedules the next look of a client at its clock.
    pub fn wake(&mut self, client: usize, world: &mut World) {
        let token = world.token();
        self.clients[client].token = token;
        let at_us = self.clients[client].wakes_us(world.now_us);
        world.schedule(at_us, Event::Client { client, token });
    }

    /// Changes each client, which then plans anew when it looks at its clock.
    pub fn change_all(&mut self, world: &mut World, change: impl Fn(&mut Client)) {
        for number in 0..self.clients.len() {
            change(&mut self.clients[number]);
            self.wake(number, world);
        }
    }

    /// Sends the clients to members, each of which must answer them, for the `round`-th time.
    pub fn visit(&mut self, round: usize, world: &mut World, member_count: usize) {
        for client in 0..self.clients.len() {
            let member = (client + round) % member_count;
            self.clients[client].visit(member, world, &mut self.network);
            self.wake(client, world);
        }
    }

    /// Draws some of the connections that clients have.
    pub fn some_connections(&self, one_in: u64, random: &mut Random) -> Vec<usize> {
        let connections = self.clients.iter().filter_map(Client::connection);
        connections.filter(|_| random.one_in(one_in)).collect()
    }

    /// The connections of this life of a process.
    pub fn connections_of(&self, life: u64) -> Vec<usize> {
        let connections = self.network.connections.iter().enumerate();
        connections.filter(|(_, it)| it.life == life).map(|(number, _)| number).collect()
    }

    /// Counts what the clients did at `member_count` members, as judged.
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

    /// The number of answers with this code to writes of znodes that have owners.
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
