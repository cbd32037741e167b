//! The clients of etcd in a run: events, the end of the run, and the judge.

use workload::etcd::leases::LeaseCounts;
use workload::etcd::locks::LockCounts;
use workload::etcd::op::{Error, Op};
use workload::etcd::order::Verdict;
use workload::etcd::watch::{OpenWatch, Step, StreamRecord, WatchVerdict};

use super::{Phase, Simulation};
use crate::check::{EtcdVerdict, V2Counts, check_etcd, check_etcd_v2, has_shown_all};
use crate::client::Wish;
use crate::etcd_clients::EtcdClients;
use crate::etcd_clients::client::EtcdClient;
use crate::etcd_clients::contender::ContenderCounts;
use crate::etcd_clients::operator::OperatorCounts;
use crate::etcd_clients::users::UsersCounts;
use crate::limits::{
    ETCD_ANSWER_US_MAX, ETCD_PROGRESS_US_MAX, LEASE_JUMP_US_MAX, LEASE_SLACK_US, LEASES_END_US_MAX,
};
use crate::server::Server;
use crate::world::Event;

/// What etcd's clients did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdCounts {
    /// Clients.
    pub clients: usize,
    /// Connections.
    pub connections: usize,
    /// Writes that were answered with success.
    pub writes: usize,
    /// Transactions among them.
    pub txns: usize,
    /// Compactions among them.
    pub compactions: usize,
    /// Compactions that leaders began by themselves.
    pub own_compactions: usize,
    /// Writes that the store refused.
    pub refused: usize,
    /// Calls that were refused before the log.
    pub never_logged: usize,
    /// Reads that were answered with a value.
    pub reads: usize,
    /// Reads that the store refused.
    pub reads_refused: usize,
    /// Writes of unknown fate that took effect.
    pub unknown_done: usize,
    /// Writes of unknown fate that did not.
    pub unknown_not_done: usize,
    /// Calls with this error: a definite failure, one of unknown fate, a level that is too low, a
    /// full disk.
    pub no_leader: usize,
    /// See [`EtcdCounts::no_leader`].
    pub timed_out: usize,
    /// See [`EtcdCounts::no_leader`].
    pub not_capable: usize,
    /// See [`EtcdCounts::no_leader`].
    pub no_space: usize,
    /// Streamed reads that were answered in several pieces.
    pub streamed: usize,
    /// Streamed reads that ended as compacted behind a piece.
    pub streams_cut: usize,
    /// Counts of the judge of leases.
    pub leases: LeaseCounts,
    /// Counts of the judge of locks.
    pub locks: LockCounts,
    /// What happened to clients that want locks.
    pub contenders: ContenderCounts,
    /// What a client that changes users and roles found.
    pub users: UsersCounts,
    /// Counts of the answers to operators.
    pub operator: OperatorCounts,
    /// Watches.
    pub watches: WatchCounts,
    /// What clients of etcd v2 did.
    pub v2: V2Counts,
}

/// What watches did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Streams.
    pub streams: usize,
    /// Watches that were created.
    pub created: usize,
    /// Requests for a watch that were refused.
    pub refused: usize,
    /// Watches that went on with what an earlier stream had shown.
    pub resumed: usize,
    /// Watches that clients ended.
    pub cancelled: usize,
    /// Events.
    pub events: usize,
    /// Responses in several messages.
    pub fragmented: usize,
    /// Responses that watches of new events got from the history.
    pub behind: usize,
    /// Watches that ended as compacted.
    pub compacted: usize,
    /// Watches that had shown events and ended as compacted.
    pub overtaken: usize,
    /// Promises of progress to one watch.
    pub promises: usize,
    /// Promises of progress to all watches of a stream.
    pub promises_of_all: usize,
    /// Responses with events on streams whose member had taken another state since they began.
    pub outlived_installs: usize,
    /// Streams that ended because their member had no leader.
    pub leaderless: usize,
}

impl Simulation {
    // Events.

    pub(super) fn on_etcd_event(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::EtcdArrive { connection, parcel } => {
                match self.etcd.network.arrive(&mut self.world, connection, parcel) {
                    Some(true) => self.tell_etcd_server(connection),
                    Some(false) => self.let_etcd_client_read(connection)?,
                    None => {}
                }
            }
            Event::EtcdClient { client, token } if self.etcd.clients[client].token == token => {
                self.end_etcd_pause(client)?;
                let EtcdClients { clients, network, history } = &mut self.etcd;
                let wish = clients[client].on_time(&mut self.world, network, history);
                if wish == Wish::Connect {
                    self.connect_etcd(client);
                }
                self.wake_etcd_client(client);
                self.note_front(client);
            }
            Event::EtcdClient { .. } => {}
            _ => unreachable!("the caller checked whose event it is"),
        }
        Ok(())
    }

    /// Something new has come for the process that a connection leads to, if it still runs.
    fn tell_etcd_server(&mut self, number: usize) {
        let connection = &self.etcd.network.connections[number];
        if let Some(server) = &mut self.hosts[connection.member].server
            && server.life() == connection.life
        {
            server.on_etcd(number, &mut self.world, &self.etcd.network);
        }
    }

    fn let_etcd_client_read(&mut self, number: usize) -> Result<(), String> {
        let EtcdClients { clients, network, history } = &mut self.etcd;
        let connection = &network.connections[number];
        let (client, by) = (connection.client, connection.served);
        if clients[client].connection() == Some(number) {
            clients[client].on_arrival(by, &mut self.world, network, history)?;
            self.wake_etcd_client(client);
        }
        Ok(())
    }

    /// Lets a client that has paused take what has come meanwhile.
    fn end_etcd_pause(&mut self, client: usize) -> Result<(), String> {
        let EtcdClients { clients, network, history } = &mut self.etcd;
        match clients[client].end_pause(&mut self.world, network, history) {
            Some(number) => self.let_etcd_client_read(number),
            None => Ok(()),
        }
    }

    fn connect_etcd(&mut self, client: usize) {
        let member = self.etcd.clients[client].next_member(self.hosts.len());
        let is_last = self.phase == Phase::LastStart;
        let server = self.hosts[member].server.as_mut();
        let EtcdClients { clients, network, history } = &mut self.etcd;
        let Some(server) = server.filter(|server| server.is_open() && !is_last) else {
            return clients[client].on_refused(self.world.now_us);
        };
        let number = network.connect(client, member, (server.life(), server.served()));
        assert!(history.connect(client as u32, member as u32) == number);
        server.accept_etcd(number, network);
        clients[client].on_connected(number, self.world.now_us);
    }

    pub(super) fn wake_etcd_client(&mut self, client: usize) {
        let token = self.world.token();
        self.etcd.clients[client].token = token;
        let at_us = self.etcd.clients[client].wakes_us(self.world.now_us);
        self.world.schedule(at_us, Event::EtcdClient { client, token });
    }

    // Faults.

    /// The connections of this life of a process.
    pub(super) fn etcd_connections_of(&self, life: u64) -> Vec<usize> {
        let connections = self.etcd.network.connections.iter().enumerate();
        connections.filter(|(_, it)| it.life == life).map(|(number, _)| number).collect()
    }

    /// Some of the connections that clients have.
    pub(super) fn some_etcd_connections(&mut self, one_in: u64) -> Vec<usize> {
        let connections = self.etcd.clients.iter().filter_map(|client| client.connection());
        let connections: Vec<usize> = connections.collect();
        connections.into_iter().filter(|_| self.world.random.one_in(one_in)).collect()
    }

    // The end.

    pub(super) fn calm_etcd(&mut self) {
        self.etcd.network.end_stalls(&mut self.world);
        for client in 0..self.etcd.clients.len() {
            self.etcd.clients[client].calm_down();
            self.wake_etcd_client(client);
        }
    }

    pub(super) fn is_etcd_idle(&self) -> bool {
        self.etcd.clients.iter().all(|client| client.is_idle())
    }

    /// Checks that each call is answered soon when nothing goes wrong any more, since `calm_us`.
    pub(super) fn check_etcd_in_time(&self, calm_us: u64) -> Result<(), String> {
        for client in &self.etcd.clients {
            let since_us = client.waits_since_us().map(|at_us| at_us.max(calm_us));
            if since_us.is_some_and(|at_us| at_us + ETCD_ANSWER_US_MAX < self.world.now_us) {
                let states: Vec<String> = self.hosts.iter().map(|it| it.describe()).collect();
                let states = states.join("; ");
                return Err(format!("a call is not answered: {}; {states}", client.describe()));
            }
            let since_us = client.waits_for_progress_since_us().map(|at_us| at_us.max(calm_us));
            if since_us.is_some_and(|at_us| at_us + ETCD_PROGRESS_US_MAX < self.world.now_us) {
                return Err(format!("a promise of progress does not come: {}", client.describe()));
            }
        }
        // A member whose sync still hangs may apply the end of a lease late.
        let held_us = self.hosts.iter().map(|host| host.held_until_us).max().unwrap_or(0);
        self.check_locks_in_time(calm_us, held_us)?;
        let is_late = calm_us.max(held_us) + LEASES_END_US_MAX < self.world.now_us;
        if self.phase == Phase::LastWords && is_late && !self.are_leases_over() {
            let states: Vec<String> = self.hosts.iter().map(|it| it.describe()).collect();
            return Err(format!("a lease does not end in time: {}", states.join("; ")));
        }
        Ok(())
    }

    /// Whether no member has a lease, nor a time to live of etcd v2.
    fn are_leases_over(&self) -> bool {
        let has_none = |server: &Server| {
            let machine = server.machine();
            machine.etcd().leases().is_empty() && machine.etcd_v2().deadlines().is_empty()
        };
        self.servers().all(has_none)
    }

    /// Sends the clients of etcd to members, each of which must let them read everything, for the
    /// `round`-th time.
    pub(super) fn visit_with_etcd(&mut self, round: usize) {
        // Nobody changes keys any more.
        let revisions = self.servers().map(|server| server.machine().etcd().revision());
        let revision = revisions.max().unwrap_or(0);
        for client in 0..self.etcd.clients.len() {
            let member = (client + round) % self.hosts.len();
            let EtcdClients { clients, network, history } = &mut self.etcd;
            clients[client].visit((member, revision), &mut self.world, network, history);
            self.wake_etcd_client(client);
        }
    }

    /// Whether the clients of etcd have read everything, and nothing of theirs is under way.
    pub(super) fn has_etcd_settled(&self) -> bool {
        self.etcd.clients.iter().all(|client| client.has_read_last())
            && self.etcd.network.is_quiet()
            && self.servers().all(Server::is_etcd_quiet)
            && self.are_leases_over()
            && self.have_waits_shown_all()
    }

    /// Whether clients of etcd v2 have seen all that they wait for.
    fn have_waits_shown_all(&self) -> bool {
        let newest = self.servers().map(Server::machine).max_by_key(|machine| machine.index());
        let mut v2 = self.etcd.clients.iter().filter_map(EtcdClient::v2);
        newest.is_none_or(|machine| v2.all(|v2| has_shown_all(&v2.line, machine)))
    }

    /// Judges the calls of etcd's clients, and the states of members if they are given.
    pub(super) fn judge_etcd(&self, machines: &[&machine::Machine]) -> Result<EtcdCounts, String> {
        let history = &self.etcd.history;
        let slack_us = LEASE_SLACK_US + self.clock_jumps * LEASE_JUMP_US_MAX;
        let found = check_etcd(history, &self.evidence(), machines, slack_us)?;
        if self.phase != Phase::LastStart {
            let of = |open: &OpenWatch| open.missing.as_ref().map(|it| (open.stream, it.clone()));
            if let Some((stream, missing)) = found.watches.open.iter().find_map(of) {
                return Err(format!("etcd: stream {stream} has not shown all: {missing}"));
            }
        }
        let watches = self.watch_counts(&found.watches);
        let operators = self.etcd.clients.iter().filter_map(EtcdClient::operator);
        // A member that is alone leads always.
        let operators = operators.filter(|_| self.is_ensemble());
        let mut moves = operators.flat_map(|operator| operator.moves());
        moves.try_for_each(|moved| self.witness.check_moved(moved))?;
        let EtcdVerdict { leases, locks, .. } = found;
        let clients = self.etcd.clients.iter().filter_map(EtcdClient::v2);
        let v2 = check_etcd_v2(clients, machines, slack_us)?;
        Ok(EtcdCounts { leases, locks, watches, v2, ..self.etcd_counts(&found.order) })
    }

    fn watch_counts(&self, watches: &WatchVerdict) -> WatchCounts {
        let history = &self.etcd.history;
        let outlives = |(stream, step, _): &&(usize, usize, i64)| {
            let record = &history.watches[*stream];
            let member = history.connections[record.connection].member as usize;
            let (from_us, until_us) = (record.opened.at_us, record.steps[*step].0.at_us);
            self.witness.etcd.has_installed(member, from_us, until_us)
        };
        let leaderless = |stream: &&StreamRecord| {
            matches!(stream.ended(), Some((_, Step::Ended(Error::NoLeader))))
        };
        WatchCounts {
            streams: history.watches.len(),
            created: watches.created_count,
            refused: watches.refused_count,
            resumed: watches.resumed_count,
            cancelled: watches.cancelled_count,
            events: watches.event_count,
            fragmented: watches.fragmented_count,
            behind: watches.behind_count,
            compacted: watches.compacted_count,
            overtaken: watches.overtaken_count,
            promises: watches.promise_count,
            promises_of_all: watches.promise_of_all_count,
            outlived_installs: watches.shown.iter().filter(outlives).count(),
            leaderless: history.watches.iter().filter(leaderless).count(),
        }
    }

    fn etcd_counts(&self, verdict: &Verdict) -> EtcdCounts {
        let EtcdClients { clients, history, .. } = &self.etcd;
        let calls = |is_it: fn(&Op) -> bool| {
            let done = history.calls.iter().filter(|it| matches!(it.answer(), Some(Ok(_))));
            done.filter(|it| is_it(&it.op)).count()
        };
        let errors = |error: Error| {
            history.calls.iter().filter(|it| it.answer() == Some(&Err(error))).count()
        };
        let mut users = UsersCounts::default();
        clients.iter().filter_map(EtcdClient::users).for_each(|it| users.add(&it.counts));
        let mut operator = OperatorCounts::default();
        clients.iter().filter_map(EtcdClient::operator).for_each(|it| operator.add(&it.counts));
        EtcdCounts {
            clients: clients.len(),
            connections: history.connections.len(),
            writes: verdict.acknowledged_count,
            txns: calls(|op| matches!(op, Op::Txn(_)) && !op.is_read()),
            compactions: calls(|op| matches!(op, Op::Compact(_))),
            own_compactions: verdict.own_compaction_count,
            refused: verdict.refused_count,
            never_logged: verdict.never_logged_count,
            reads: verdict.read_count,
            reads_refused: verdict.read_refused_count,
            unknown_done: verdict.unknown_done_count,
            unknown_not_done: verdict.unknown_count,
            no_leader: errors(Error::NoLeader),
            timed_out: errors(Error::TimedOut),
            not_capable: errors(Error::NotCapable),
            no_space: errors(Error::NoSpace),
            streamed: clients.iter().map(EtcdClient::streamed_count).sum(),
            streams_cut: errors(Error::CompactedMeanwhile),
            leases: LeaseCounts::default(),
            locks: LockCounts::default(),
            contenders: self.contender_counts(),
            users,
            operator,
            watches: WatchCounts::default(),
            v2: V2Counts::default(),
        }
    }
}
