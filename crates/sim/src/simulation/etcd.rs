//! The etcd clients of a run: their events, their end of the run, and the check of their calls.

use workload::etcd::leases::LeaseCounts;
use workload::etcd::locks::LockCounts;
use workload::etcd::op::{Error, Op};
use workload::etcd::order::Verdict;
use workload::etcd::watch::{OpenWatch, Step, StreamRecord, WatchVerdict};

use super::hosts::Hosts;
use crate::check::{
    EtcdVerdict, Evidence, HttpCounts, V2Counts, check_etcd, check_etcd_http, check_etcd_v2,
    has_shown_all,
};
use crate::client::Wish;
use crate::etcd_clients::EtcdClients;
use crate::etcd_clients::client::EtcdClient;
use crate::etcd_clients::contender::{Contender, ContenderCounts};
use crate::etcd_clients::operator::OperatorCounts;
use crate::etcd_clients::users::UsersCounts;
use crate::limits::{ETCD_ANSWER_US_MAX, ETCD_PROGRESS_US_MAX, LEASES_END_US_MAX};
use crate::server::Server;
use crate::witness::Witness;
use crate::world::{Event, World};
use workload::generate::Random;

/// Counts of what the etcd clients of a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdCounts {
    /// Number of clients.
    pub clients: usize,
    /// Number of connections.
    pub connections: usize,
    /// Calls that write.
    pub writes: EtcdWriteCounts,
    /// Calls that read.
    pub reads: EtcdReadCounts,
    /// Calls that failed.
    pub failures: EtcdFailureCounts,
    /// Counts of the judge of leases.
    pub leases: LeaseCounts,
    /// Counts of the judge of locks.
    pub locks: LockCounts,
    /// Counts of what happened to clients that want locks.
    pub contenders: ContenderCounts,
    /// Counts of what the client that manages users and roles found.
    pub users: UsersCounts,
    /// Answers to clients that act as operators.
    pub operator: OperatorCounts,
    /// Requests over plain HTTP (health, members, users).
    pub http: HttpCounts,
    /// Counts of what the watches did.
    pub watches: WatchCounts,
    /// Counts of what clients of etcd v2 did.
    pub v2: V2Counts,
}

/// The writes of the etcd clients of a run, in counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdWriteCounts {
    /// Writes answered with success.
    pub done: usize,
    /// The transactions in `done`.
    pub txns: usize,
    /// The compactions in `done`.
    pub compactions: usize,
    /// Compactions that a leader made on its own (auto-compaction).
    pub own_compactions: usize,
    /// Writes that the store refused.
    pub refused: usize,
    /// Calls that were refused before they entered the log.
    pub never_logged: usize,
    /// Writes without an answer that tells their fate, which took effect.
    pub unknown_done: usize,
    /// Writes without an answer that tells their fate, which took no effect.
    pub unknown_not_done: usize,
}

/// The reads of the etcd clients of a run, in counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdReadCounts {
    /// Reads answered with a value.
    pub done: usize,
    /// Reads that the store refused.
    pub refused: usize,
    /// Streamed reads answered in several pieces.
    pub streamed: usize,
    /// Streamed reads that ended behind a piece, since their revision was compacted.
    pub streams_cut: usize,
}

/// The failed calls of the etcd clients of a run, by error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdFailureCounts {
    /// Calls that failed for want of a leader: certainly without effect.
    pub no_leader: usize,
    /// Calls that timed out: their fate is unknown.
    pub timed_out: usize,
    /// Calls that need a higher level than the ensemble has.
    pub not_capable: usize,
    /// Calls refused for want of space, on a disk or by the store's quota.
    pub no_space: usize,
    /// The calls in `no_space` that the store's quota refused.
    pub no_quota: usize,
    /// Times that the alarm for want of space was raised.
    pub alarms: usize,
    /// Times that the alarm for want of space was disarmed.
    pub disarmed: usize,
}

/// Counts of what the watches of etcd clients did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Watch streams.
    pub streams: usize,
    /// Watches created.
    pub created: usize,
    /// Requests for a watch that were refused.
    pub refused: usize,
    /// Watches that continued behind the last event of an earlier stream.
    pub resumed: usize,
    /// Watches that clients cancelled.
    pub cancelled: usize,
    /// Events received.
    pub events: usize,
    /// Responses that came in several messages.
    pub fragmented: usize,
    /// Responses to watches of new events that had fallen behind and were served from the history.
    pub behind: usize,
    /// Watches that ended because their next revision was compacted.
    pub compacted: usize,
    /// The watches in `compacted` that had shown events before.
    pub overtaken: usize,
    /// Notices of progress for one watch.
    pub promises: usize,
    /// Notices of progress for all watches of a stream.
    pub promises_of_all: usize,
    /// Responses with events on streams whose member had installed a snapshot since the stream
    /// began.
    pub outlived_installs: usize,
    /// Streams that ended because their member had no leader.
    pub leaderless: usize,
}

impl EtcdClients {
    // Events.

    /// Handles the arrival of a message at one end of a connection.
    ///
    /// # Errors
    /// The client could not understand it.
    pub(super) fn on_arrival(
        &mut self,
        (number, parcel): (usize, u64),
        world: &mut World,
        hosts: &mut Hosts,
    ) -> Result<(), String> {
        match self.network.arrive(world, number, parcel) {
            Some(true) => self.tell_server(number, world, hosts),
            Some(false) => self.let_read(number, world)?,
            None => {}
        }
        Ok(())
    }

    /// The timer of a client fires. If `is_last`, a client that dials finds no server.
    ///
    /// # Errors
    /// The client cannot understand a message that arrived while it was paused.
    pub(super) fn on_time(
        &mut self,
        client: usize,
        world: &mut World,
        hosts: &mut Hosts,
        is_last: bool,
    ) -> Result<(), String> {
        self.end_pause(client, world)?;
        let EtcdClients { clients, network, history } = self;
        let wish = clients[client].on_time(world, network, history);
        if wish == Wish::Connect {
            self.connect(client, world, hosts, is_last);
        }
        self.wake(client, world);
        Ok(())
    }

    /// Wakes the process at the other end of a connection, if that process still runs.
    fn tell_server(&self, number: usize, world: &mut World, hosts: &mut Hosts) {
        let connection = &self.network.connections[number];
        if let Some(server) = &mut hosts[connection.member].server
            && server.life() == connection.life
        {
            server.on_etcd(number, world, &self.network);
        }
    }

    fn let_read(&mut self, number: usize, world: &mut World) -> Result<(), String> {
        let EtcdClients { clients, network, history } = self;
        let connection = &network.connections[number];
        let (client, by) = (connection.client, network.served(number));
        if clients[client].connection() == Some(number) {
            clients[client].on_arrival(by, world, network, history)?;
            self.wake(client, world);
        }
        Ok(())
    }

    /// If a client's pause is over, lets it handle what has arrived meanwhile.
    fn end_pause(&mut self, client: usize, world: &mut World) -> Result<(), String> {
        let EtcdClients { clients, network, history } = self;
        match clients[client].end_pause(world, network, history) {
            Some(number) => self.let_read(number, world),
            None => Ok(()),
        }
    }

    fn connect(&mut self, client: usize, world: &World, hosts: &mut Hosts, is_last: bool) {
        let member = self.clients[client].next_member(&hosts.present());
        let serves = hosts.serves(member);
        let server = hosts[member].server.as_mut();
        let EtcdClients { clients, network, history } = self;
        // A learner would keep its clients waiting until it is promoted.
        let takes = |server: &&mut Server| server.is_open() && (serves || server.is_ready());
        let Some(server) = server.filter(takes).filter(|_| !is_last) else {
            return clients[client].on_refused(world.now_us);
        };
        let number = network.connect(client, member, (server.life(), server.served()));
        assert!(history.connect(client as u32, member as u32) == number);
        server.accept_etcd(number, network);
        clients[client].on_connected(number, world.now_us);
    }

    /// Schedules the next firing of a client's timer.
    pub(super) fn wake(&mut self, client: usize, world: &mut World) {
        let token = world.token();
        self.clients[client].token = token;
        let at_us = self.clients[client].wakes_us(world.now_us);
        world.schedule(at_us, Event::EtcdClient { client, token });
    }

    // Faults.

    /// The connections to the process run numbered `life`.
    pub(super) fn connections_of(&self, life: u64) -> Vec<usize> {
        let connections = self.network.connections.iter().enumerate();
        connections.filter(|(_, it)| it.life == life).map(|(number, _)| number).collect()
    }

    /// Draws one in `one_in` of the clients' current connections.
    pub(super) fn some_connections(&self, one_in: u64, random: &mut Random) -> Vec<usize> {
        let connections = self.clients.iter().filter_map(EtcdClient::connection);
        connections.filter(|_| random.one_in(one_in)).collect()
    }

    // The end.

    /// Ends the faults that clients make themselves, and the stalls of the network.
    pub(super) fn calm_down(&mut self, world: &mut World) {
        self.network.end_stalls(world);
        for client in 0..self.clients.len() {
            self.clients[client].calm_down();
            self.wake(client, world);
        }
    }

    /// Whether all clients have finished their work.
    pub(super) fn are_idle(&self) -> bool {
        self.clients.iter().all(EtcdClient::is_idle)
    }

    /// Checks that no call waits too long. Faults stopped at `calm_us`.
    ///
    /// # Errors
    /// A client has waited too long for an answer or for progress.
    pub(super) fn check_in_time(
        &self,
        hosts: &Hosts,
        calm_us: u64,
        now_us: u64,
    ) -> Result<(), String> {
        for client in &self.clients {
            let since_us = client.waits_since_us().map(|at_us| at_us.max(calm_us));
            if since_us.is_some_and(|at_us| at_us + ETCD_ANSWER_US_MAX < now_us) {
                let (client, states) = (client.describe(), hosts.describe());
                return Err(format!("a call is not answered: {client}; {states}"));
            }
            let since_us = client.waits_for_progress_since_us().map(|at_us| at_us.max(calm_us));
            if since_us.is_some_and(|at_us| at_us + ETCD_PROGRESS_US_MAX < now_us) {
                return Err(format!("a promise of progress does not come: {}", client.describe()));
            }
        }
        Ok(())
    }

    /// Starts round `round` of visits: each client goes to another member, which must let it read
    /// everything.
    pub(super) fn visit(&mut self, round: usize, world: &mut World, hosts: &Hosts) {
        // No client changes keys any more.
        let revisions = hosts.servers().map(|server| server.machine().etcd().revision());
        let revision = revisions.max().unwrap_or(0);
        let members = hosts.serving();
        self.network.is_last = round > 0;
        for client in 0..self.clients.len() {
            let member = members[(client + round) % members.len()];
            let EtcdClients { clients, network, history } = self;
            clients[client].visit((member, revision), world, network, history);
            self.wake(client, world);
        }
    }

    /// Whether the clients have read everything, no call is in flight, and all leases have ended.
    pub(super) fn has_settled(&self, hosts: &Hosts) -> bool {
        self.clients.iter().all(EtcdClient::has_read_last)
            && self.network.is_quiet()
            && hosts.servers().all(Server::is_etcd_quiet)
            && are_leases_over(hosts)
            && self.have_waits_shown_all(hosts)
    }

    /// Whether the waiting clients of etcd v2 have seen all events that they wait for.
    fn have_waits_shown_all(&self, hosts: &Hosts) -> bool {
        let newest = hosts.servers().map(Server::machine).max_by_key(|machine| machine.index());
        let mut v2 = self.clients.iter().filter_map(EtcdClient::v2);
        newest.is_none_or(|machine| v2.all(|v2| has_shown_all(&v2.line, machine)))
    }

    /// Judges the calls of the clients, and the states `machines` if there are any. A lease may end
    /// up to `slack_us` early. If `is_last`, streams need not have shown all events.
    ///
    /// # Errors
    /// A correct server could not have behaved so.
    pub(super) fn judge(
        &self,
        evidence: &Evidence<'_>,
        machines: &[&machine::Machine],
        slack_us: u64,
        is_last: bool,
    ) -> Result<EtcdCounts, String> {
        let found = check_etcd(&self.history, evidence, machines, slack_us)?;
        if !is_last {
            let of = |open: &OpenWatch| open.missing.as_ref().map(|it| (open.stream, it.clone()));
            if let Some((stream, missing)) = found.watches.open.iter().find_map(of) {
                return Err(format!("etcd: stream {stream} has not shown all: {missing}"));
            }
        }
        let witness = evidence.witness;
        let watches = self.watch_counts(&found.watches, witness);
        let operators = self.clients.iter().filter_map(EtcdClient::operator);
        // A member that is alone always leads, so there are no moves to check.
        let operators = operators.filter(|_| evidence.waking.len() > 1);
        let mut moves = operators.flat_map(|operator| operator.moves());
        moves.try_for_each(|moved| witness.check_moved(moved))?;
        let EtcdVerdict { leases, locks, .. } = found;
        let clients = self.clients.iter().filter_map(EtcdClient::v2);
        let v2 = check_etcd_v2(clients, machines, (&witness.v2, &witness.etcd.audit), slack_us)?;
        let clients = self.clients.iter().filter_map(EtcdClient::http);
        let http = check_etcd_http(clients, evidence, machines)?;
        Ok(EtcdCounts { leases, locks, watches, v2, http, ..self.counts(&found.order) })
    }

    fn watch_counts(&self, watches: &WatchVerdict, witness: &Witness) -> WatchCounts {
        let history = &self.history;
        let outlives = |(stream, step, _): &&(usize, usize, i64)| {
            let record = &history.watches[*stream];
            let member = history.connections[record.connection].member as usize;
            let (from_us, until_us) = (record.opened.at_us, record.steps[*step].0.at_us);
            witness.etcd.has_installed(member, from_us, until_us)
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

    fn counts(&self, verdict: &Verdict) -> EtcdCounts {
        let EtcdClients { clients, history, .. } = self;
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
            writes: EtcdWriteCounts {
                done: verdict.acknowledged_count,
                txns: calls(|op| matches!(op, Op::Txn(_)) && !op.is_read()),
                compactions: calls(|op| matches!(op, Op::Compact(_))),
                own_compactions: verdict.own_compaction_count,
                refused: verdict.refused_count,
                never_logged: verdict.never_logged_count,
                unknown_done: verdict.unknown_done_count,
                unknown_not_done: verdict.unknown_count,
            },
            reads: EtcdReadCounts {
                done: verdict.read_count,
                refused: verdict.read_refused_count,
                streamed: clients.iter().map(EtcdClient::streamed_count).sum(),
                streams_cut: errors(Error::CompactedMeanwhile),
            },
            failures: EtcdFailureCounts {
                no_leader: errors(Error::NoLeader),
                timed_out: errors(Error::TimedOut),
                not_capable: errors(Error::NotCapable),
                no_space: errors(Error::NoSpace),
                no_quota: verdict.spaceless.len(),
                alarms: verdict.alarm_counts.0,
                disarmed: verdict.alarm_counts.1,
            },
            contenders: self.contender_counts(),
            users,
            operator,
            ..EtcdCounts::default()
        }
    }

    /// Sums the counts of all clients that want locks.
    fn contender_counts(&self) -> ContenderCounts {
        let mut all = ContenderCounts::default();
        self.contenders().for_each(|contender| all.add(&contender.counts));
        all
    }

    /// The clients that want a lock or an election.
    pub(super) fn contenders(&self) -> impl Iterator<Item = &Contender> {
        self.clients.iter().filter_map(EtcdClient::contender)
    }
}

/// Checks that all leases have ended soon enough. Faults stopped at `calm_us`.
///
/// # Errors
/// A lease lasts too long.
pub(super) fn check_leases_end(hosts: &Hosts, calm_us: u64, now_us: u64) -> Result<(), String> {
    // A member whose sync still hangs may apply the end of a lease late.
    let is_late = calm_us.max(hosts.held_until_us()) + LEASES_END_US_MAX < now_us;
    match is_late && !are_leases_over(hosts) {
        true => Err(format!("a lease does not end in time: {}", hosts.describe())),
        false => Ok(()),
    }
}

/// Whether no member has a lease, or a node of etcd v2 with a time to live.
fn are_leases_over(hosts: &Hosts) -> bool {
    let has_none = |server: &Server| {
        let machine = server.machine();
        machine.etcd().leases().is_empty() && machine.etcd_v2().deadlines().is_empty()
    };
    hosts.servers().all(has_none)
}
