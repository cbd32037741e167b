//! A simulated etcd client: makes several calls at once on one connection, cancels each after a
//! time, and connects again, often to another member, when the connection breaks.

use member::fronts::etcd::{Credentials, EtcdMethod};
use workload::etcd::generate::{Generator, Options};
use workload::etcd::history::{CallId, History};
use workload::etcd::op::{Answer, Error, Op, Range};
use workload::generate::Random;

use super::LEASES;
use super::calls::{Calls, Streams};
use super::contender::{self, Act, Contender, ContenderConfig, Service};
use super::http::{HttpAct, HttpCall, HttpClient, HttpConfig};
use super::ledger::Share;
use super::network::{
    EtcdNetwork, FromClient, FromServer, FromWatcher, SentResult, ToV2, ToWatcher,
};
use super::operator::{Operator, OperatorAct, OperatorConfig};
use super::roles::Roles;
use super::users::{self, Users, UsersAct, UsersConfig};
use super::v2::{V2Act, V2Client, V2Config};
use super::watcher::{Around, Watcher};
use super::wire::{self, Served};
use crate::client::Wish;
use crate::network::End;
use crate::world::World;

/// In one of so many bursts, an erratic client cancels its newest call or leaves its connection.
const ODD_ONE_IN: u64 = 15;

/// How long a client waits before it repeats its last read at the end of a run.
const AGAIN_US: u64 = 100_000;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct EtcdClientConfig {
    /// The number of plain calls that it makes.
    pub ops: u64,
    /// The most open calls.
    pub calls_max: u64,
    /// The longest pause between two bursts of calls, in us.
    pub think_us_max: u64,
    /// How long the client waits for a result before it cancels the call, in us; for some calls
    /// less. Members give up a call themselves after 7 s.
    pub patience_us_max: u64,
    /// The most watches that the client has.
    pub watches_max: usize,
    /// Whether the client sometimes leaves its connection, or cancels a call that it has just made.
    pub is_erratic: bool,
    /// How the client wants a lock or an election; `None` if it does not.
    pub contends: Option<ContenderConfig>,
    /// How the client changes users and roles; `None` if it does not.
    pub users: Option<UsersConfig>,
    /// How the client uses etcd v2; `None` if it does not.
    pub v2: Option<V2Config>,
    /// How the client acts as an operator; `None` if it does not.
    pub operates: Option<OperatorConfig>,
    /// How the client makes plain HTTP requests; `None` if it does not.
    pub http: Option<HttpConfig>,
}

impl EtcdClientConfig {
    /// A client without plain calls and watches; the caller adds what it does instead.
    pub fn without_calls(patience_us_max: u64, is_erratic: bool) -> EtcdClientConfig {
        EtcdClientConfig {
            ops: 0,
            calls_max: u64::MAX,
            think_us_max: 4_000_000,
            patience_us_max,
            watches_max: 0,
            is_erratic,
            contends: None,
            users: None,
            v2: None,
            operates: None,
            http: None,
        }
    }
}

/// The features that the clients of a run use besides plain calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uses {
    /// Whether clients grant leases, keep them alive, and attach keys to them.
    pub leases: bool,
    /// Whether some clients want locks. Other clients then do not delete their keys.
    pub locks: bool,
    /// Whether a client changes users and roles. Other clients then act as root and do not delete
    /// its keys.
    pub users: bool,
}

impl Uses {
    /// The credentials of plain calls.
    fn credentials(self) -> Credentials {
        match self.users {
            true => Credentials::Certificate("root".into()),
            false => Credentials::Nobody,
        }
    }
}

/// The progress of the client's read of all keys at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastRead {
    NotYet,
    Wanted,
    Sent(CallId),
    Answered,
}

/// One client.
pub struct EtcdClient {
    number: u32,
    config: EtcdClientConfig,
    random: Random,
    generator: Generator,
    /// The number of the client's connection in the network and in the history; `None` without one.
    connection: Option<usize>,
    calls: Calls,
    streams: Streams,
    watcher: Watcher,
    roles: Roles,
    /// The client's credentials, unless a call has its own.
    credentials: Credentials,
    /// The open call of the client's users actor, with the number of the watch stream if the call
    /// is a watch.
    users_call: Option<(CallId, Option<usize>)>,
    /// Until when the client pauses, that is, does nothing and handles no messages. `None` if it
    /// does not pause.
    paused_until_us: Option<u64>,
    /// When the client last connected, or got the answer to its last read, in us: a wait for
    /// progress counts from then.
    waits_us: u64,
    ops_left: u64,
    /// When the next burst or the next attempt to connect is due, in us.
    next_us: u64,
    member: usize,
    /// Whether the client does no more mischief and cancels no calls. Set when the faults stop.
    is_calm: bool,
    last_read: LastRead,
    /// The token of the client's newest timer event. Older timer events are ignored.
    pub token: u64,
}

impl EtcdClient {
    /// A client without a connection.
    pub fn new(
        (number, uses): (u32, Uses),
        config: EtcdClientConfig,
        mut random: Random,
    ) -> EtcdClient {
        let leases = if uses.leases { LEASES.to_vec() } else { Vec::new() };
        let options = Options {
            lease_calls: uses.leases,
            open_deletes: !uses.locks && !uses.users,
            open_deletes_in_txns: !uses.locks && !uses.users,
            ..Options::all(leases)
        };
        let generator = Generator::new(random.fork(), number, options);
        let apart = Random::new(random.clone().bits().rotate_left(32));
        let watcher = Watcher::new((number, uses.credentials()), apart, config.watches_max);
        EtcdClient {
            number,
            ops_left: config.ops,
            roles: Roles {
                contender: config.contends.clone().map(|it| Contender::new(number, it)),
                users: config.users.clone().map(|it| Users::new(number, it)),
                v2: config.v2.clone().map(|it| V2Client::new(number, it)),
                operator: config.operates.clone().map(Operator::new),
                http: config.http.clone().map(HttpClient::new),
            },
            credentials: uses.credentials(),
            users_call: None,
            paused_until_us: None,
            config,
            next_us: random.magnitude(1, 200_000),
            calls: Calls::new(number),
            streams: Streams::new(Random::new(random.clone().bits())),
            random,
            generator,
            connection: None,
            watcher,
            waits_us: 0,
            member: 0,
            is_calm: false,
            last_read: LastRead::NotYet,
            token: 0,
        }
    }

    /// The number of the client's connection; `None` without one.
    pub fn connection(&self) -> Option<usize> {
        self.connection
    }

    /// How many streamed reads were answered in several pieces.
    pub fn streamed_count(&self) -> usize {
        self.streams.done_count()
    }

    /// The client's contender for a lock or an election, if it has one.
    pub fn contender(&self) -> Option<&Contender> {
        self.roles.contender.as_ref()
    }

    /// Gives the client's users actor, if it has one, the actor's view of the shared ledger.
    pub fn set_share(&mut self, share: Share) {
        self.roles.users.iter_mut().for_each(|users| users.set_share(share.clone()));
    }

    /// The client's actor that changes users and roles, if it has one.
    pub fn users(&self) -> Option<&Users> {
        self.roles.users.as_ref()
    }

    /// The client's part that uses etcd v2, if it has one.
    pub fn v2(&self) -> Option<&V2Client> {
        self.roles.v2.as_ref()
    }

    /// The client's operator, if it has one.
    pub fn operator(&self) -> Option<&Operator> {
        self.roles.operator.as_ref()
    }

    /// The client's part that makes plain HTTP requests, if it has one.
    pub fn http(&self) -> Option<&HttpClient> {
        self.roles.http.as_ref()
    }

    /// A machine's monotonic clock has jumped.
    pub fn on_clock_jump(&mut self, now_us: u64) {
        self.roles.users.iter_mut().for_each(|users| users.on_clock_jump(now_us));
    }

    /// Whether the client has made all its calls, has all results and wants no lock.
    pub fn is_idle(&self) -> bool {
        self.ops_left == 0 && self.calls.are_over() && self.roles.are_done()
    }

    /// Whether the client's last read is answered, and its watches have reached that revision.
    pub fn has_read_last(&self) -> bool {
        self.last_read == LastRead::Answered && self.watcher.is_done()
    }

    /// Ends the client's mischief.
    pub fn calm_down(&mut self) {
        self.is_calm = true;
        self.roles.calm_down();
        self.paused_until_us = self.paused_until_us.map(|_| 0);
    }

    /// Makes the client read all keys once more, at this member, and wait there until the member
    /// has promised progress up to this revision for all the client's watches.
    pub fn visit(
        &mut self,
        (member, revision): (usize, i64),
        world: &mut World,
        network: &mut EtcdNetwork,
        history: &mut History,
    ) {
        self.last_read = LastRead::Wanted;
        self.watcher.wait_for(revision, world.now_us);
        self.waits_us = world.now_us;
        let is_there = self.connection.is_some_and(|at| network.connections[at].member == member);
        self.member = member;
        self.next_us = world.now_us;
        if !is_there {
            self.leave(world, network, history);
        }
    }

    /// Since when the client waits for a notice of progress at a member that has answered its last
    /// read, in us; `None` if it does not wait.
    pub fn waits_for_progress_since_us(&self) -> Option<u64> {
        let waits = self.last_read == LastRead::Answered && !self.watcher.is_done();
        self.connection.filter(|_| waits).map(|_| self.waits_us)
    }

    /// When the client's oldest open call was made, in us.
    pub fn waits_since_us(&self) -> Option<u64> {
        self.calls.since_us()
    }

    /// The client's state, as text for people.
    pub fn describe(&self) -> String {
        format!(
            "client {} of etcd at member {} on {:?}, {} calls left, {:?}, open {}, watches {}, \
             {}",
            self.number,
            self.member,
            self.connection,
            self.ops_left,
            self.last_read,
            self.calls.describe(),
            self.watcher.describe(),
            self.roles.describe()
        )
    }

    /// The member that the client tries next, one of `members`; it may be the same again.
    pub fn next_member(&mut self, members: &[usize]) -> usize {
        let is_visiting = self.last_read != LastRead::NotYet;
        if members.len() > 1 && !is_visiting && !self.random.one_in(4) {
            self.member = *self.random.pick(members);
        } else if !members.contains(&self.member) {
            // All machines may be away for a while: then the client tries the same one again.
            self.member = members.first().copied().unwrap_or(self.member);
        }
        self.member
    }

    /// The server could not be reached.
    pub fn on_refused(&mut self, now_us: u64) {
        self.next_us = now_us + self.random.magnitude(1_000, 500_000);
    }

    /// The client is connected.
    pub fn on_connected(&mut self, number: usize, now_us: u64) {
        self.connection = Some(number);
        self.waits_us = now_us;
    }

    /// The client's timer fires. If the method returns a wish, the simulation connects the client.
    pub fn on_time(
        &mut self,
        world: &mut World,
        network: &mut EtcdNetwork,
        history: &mut History,
    ) -> Wish {
        let now_us = world.now_us;
        if self.paused_until_us.is_some() {
            return Wish::Nothing;
        }
        let Some(number) = self.connection else {
            let is_due = now_us >= self.next_us && self.has_work();
            return if is_due { Wish::Connect } else { Wish::Nothing };
        };
        self.give_up_late(number, world, network, history);
        if self.connection.is_some() {
            let is_calm = self.is_calm;
            let around = Around { connection: number, world, network, history, is_calm };
            self.watcher.ask_when_due(around);
        }
        self.contend(world, network, history);
        self.use_users(world, network, history);
        self.use_v2(world, network);
        self.operate(world, network, history);
        self.use_http(world, network, history);
        if now_us < self.next_us || self.connection.is_none() {
            return Wish::Nothing;
        }
        if self.last_read == LastRead::Wanted && self.calls.are_over() {
            let all = Range { key: vec![0], range_end: vec![0], ..Range::default() };
            let id = self.call(Op::Range(all), number, world, network, history);
            self.last_read = LastRead::Sent(id);
            return Wish::Nothing;
        }
        self.burst(number, world, network, history);
        if self.config.is_erratic && !self.is_calm && self.random.one_in(ODD_ONE_IN) {
            match self.calls.newest().filter(|_| self.random.one_in(2)) {
                Some(newest) => self.cancel(newest, number, world, network, history),
                None => self.leave(world, network, history),
            }
        }
        Wish::Nothing
    }

    /// When the client's timer must fire next, in us.
    pub fn wakes_us(&self, now_us: u64) -> u64 {
        if let Some(until_us) = self.paused_until_us {
            return until_us.max(now_us + 1);
        }
        let next_us = if self.has_work() { self.next_us } else { u64::MAX };
        let at_us = match self.connection {
            None => next_us,
            Some(_) => {
                let late_us = self.calls.patient_until_us();
                let is_full = self.calls.count() >= self.config.calls_max;
                let next_us = if is_full { u64::MAX } else { next_us };
                let late_us = late_us.filter(|_| !self.is_calm).unwrap_or(u64::MAX);
                let of_watcher = self.watcher.wakes_us().min(self.watcher.places_us());
                late_us.min(next_us).min(of_watcher).min(self.roles.wakes_us())
            }
        };
        at_us.max(now_us + 1)
    }

    fn has_work(&self) -> bool {
        self.ops_left > 0
            || self.last_read == LastRead::Wanted
            || self.watcher.has_unplaced()
            || self.roles.want_connection()
    }

    /// Makes the call that the client's operator wants, if the client is connected.
    fn operate(&mut self, world: &mut World, network: &mut EtcdNetwork, history: &mut History) {
        let Some(number) = self.connection else { return };
        let act = self.roles.operator.as_mut().and_then(|operator| operator.poll(world.now_us));
        let (method, request) = match act {
            Some(OperatorAct::Call(method, request)) => (method, request),
            Some(OperatorAct::Leave) => return self.leave(world, network, history),
            None => return,
        };
        let id = self.apart(world.now_us);
        let operator = self.roles.operator.as_mut().expect("it was just asked");
        operator.on_sent(id, (method, &request), world.now_us);
        let credentials = self.credentials.clone();
        network.send_up(world, number, FromClient::Call { id, method, request, credentials });
    }

    /// Sends the HTTP request that is due, if the client is connected.
    fn use_http(&mut self, world: &mut World, network: &mut EtcdNetwork, history: &mut History) {
        let Some(connection) = self.connection else { return };
        let act = self.roles.http.as_mut().and_then(|http| http.poll(world.now_us));
        let request = match act {
            Some(HttpAct::Send(request)) => request,
            Some(HttpAct::Leave) => return self.leave(world, network, history),
            None => return,
        };
        let (id, member) = (self.apart(world.now_us), network.connections[connection].member);
        network.send_up(world, connection, FromClient::Http(id, request));
        let sent_us = world.now_us;
        let call = HttpCall { id, connection, member, request, sent_us, answered: None };
        self.roles.http.iter_mut().for_each(|http| http.on_sent(call.clone()));
    }

    /// Handles the answers to HTTP requests that have arrived.
    fn take_http(&mut self, number: usize, world: &World, network: &mut EtcdNetwork) {
        let arrived = core::mem::take(&mut network.connections[number].http_at_client);
        for (id, answer) in arrived {
            self.calls.close(id);
            if let Some(http) = &mut self.roles.http {
                http.on_answer(id, answer, world.now_us);
            }
        }
    }

    /// Sends the calls that the client's etcd v2 part wants, if the client is connected.
    fn use_v2(&mut self, world: &mut World, network: &mut EtcdNetwork) {
        while let Some(number) = self.connection
            && let Some(act) = self.roles.v2.as_mut().and_then(|v2| v2.poll(world.now_us))
        {
            match act {
                V2Act::Call(request) => {
                    let id = self.apart(world.now_us);
                    network.send_up(world, number, FromClient::V2(id, request));
                    self.roles.v2.iter_mut().for_each(|v2| v2.on_call_sent(id));
                }
                V2Act::Wait(request) => {
                    let id = self.apart(world.now_us);
                    // A wait never times out.
                    self.calls.close(id);
                    network.send_up(world, number, FromClient::V2Wait(id, request));
                    self.roles.v2.iter_mut().for_each(|v2| v2.on_wait_sent(id));
                }
            }
        }
    }

    /// Handles what has arrived for the client's etcd v2 part.
    fn take_v2(
        &mut self,
        number: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
    ) -> Result<(), String> {
        let arrived = core::mem::take(&mut network.connections[number].v2_at_client);
        let Some(v2) = &mut self.roles.v2 else { return Ok(()) };
        for (id, message) in arrived {
            match message {
                ToV2::Result(result) => {
                    if v2.on_result(id, &result, world.now_us) {
                        self.calls.close(id);
                    }
                }
                ToV2::Waited(waited) => {
                    if v2.on_waited(id, waited, world.now_us)? {
                        let late_us = self.streams.late_us(self.is_calm);
                        network.send_up_late(world, number, FromClient::Taken(id), late_us);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the call that the client's users actor wants, if the client is connected.
    fn use_users(&mut self, world: &mut World, network: &mut EtcdNetwork, history: &mut History) {
        let Some(number) = self.connection.filter(|_| self.users_call.is_none()) else { return };
        let member = network.connections[number].member;
        let users = self.roles.users.as_mut();
        let Some(act) = users.and_then(|users| users.poll(world.now_us, member)) else { return };
        let mut stream = None;
        let id = match act {
            UsersAct::Leave => return self.leave(world, network, history),
            UsersAct::Call(credentials, op) => {
                let own = core::mem::replace(&mut self.credentials, credentials);
                let id = self.send((op, false), number, world, network, history);
                self.credentials = own;
                id
            }
            UsersAct::Auth(credentials, method, request) => {
                let id = self.apart(world.now_us);
                let method = EtcdMethod::Auth(method);
                let call = FromClient::Call { id, method, request, credentials };
                network.send_up(world, number, call);
                id
            }
            UsersAct::Watch(credentials, request) => {
                let id = self.apart(world.now_us);
                // This stream is not in the history.
                let apart = self.calls.stream_apart();
                stream = Some(apart);
                let open = FromWatcher::Open { requires_leader: false, credentials };
                network.send_up(world, number, FromClient::Watch(apart, open));
                let create = FromWatcher::Request(request);
                network.send_up(world, number, FromClient::Watch(apart, create));
                id
            }
        };
        self.users_call = Some((id, stream));
    }

    /// The id of a new call that is not in the history.
    fn apart(&mut self, now_us: u64) -> CallId {
        self.calls.open_apart(now_us, self.config.patience_us_max)
    }

    /// The users actor's call is over.
    fn end_users_call(
        &mut self,
        came: users::Came,
        world: &mut World,
        network: &mut EtcdNetwork,
    ) -> Result<(), String> {
        let Some((id, stream)) = self.users_call.take() else { return Ok(()) };
        self.calls.close(id);
        if let Some((number, stream)) = self.connection.zip(stream) {
            network.send_up(world, number, FromClient::Watch(stream, FromWatcher::Close));
        }
        let not_capable = matches!(came, users::Came::Refused(etcd::Error::NotCapable));
        let Some(users) = &mut self.roles.users else { return Ok(()) };
        users.on_came(came, world.now_us)?;
        // Some servers lack the needed level, and that will not change.
        if self.is_calm && not_capable {
            users.give_up();
        }
        Ok(())
    }

    /// If a result belongs to the users actor's call, passes it on.
    fn take_users_result(
        &mut self,
        id: CallId,
        result: &SentResult,
        world: &mut World,
        network: &mut EtcdNetwork,
    ) -> Result<(), String> {
        match self.users_call {
            Some((of, _)) if of == id => {
                self.end_users_call(users::of_call(result.clone())?, world, network)
            }
            _ => Ok(()),
        }
    }

    /// Does what the client's contender wants, if the client is connected.
    fn contend(&mut self, world: &mut World, network: &mut EtcdNetwork, history: &mut History) {
        let Some(mut contender) = self.roles.contender.take() else { return };
        while let Some(number) = self.connection.filter(|_| self.paused_until_us.is_none())
            && let Some(act) = contender.poll(world.now_us, history)
        {
            match act {
                Act::Call(role, op) => {
                    let id = self.send((op, false), number, world, network, history);
                    contender.on_called(role, id, history);
                }
                Act::Serve(role, service, patience_us) => {
                    let id = self.serve(&service, patience_us, number, world, network);
                    contender.on_serving(role, id);
                }
                Act::Cancel(id) => {
                    self.calls.close(id);
                    self.calls.end_service(id);
                    network.send_up(world, number, FromClient::Cancel(id));
                }
                Act::Watch(watching, wanted) => {
                    contender.on_watch(watching, self.watcher.follow(wanted));
                }
                Act::Forget(line) => {
                    let is_calm = self.is_calm;
                    let around = Around { connection: number, world, network, history, is_calm };
                    self.watcher.forget(line, around);
                }
                Act::Leave => {
                    contender.on_left(world.now_us, history);
                    self.leave(world, network, history);
                }
                Act::Pause(for_us) => self.paused_until_us = Some(world.now_us + for_us),
            }
        }
        self.roles.contender = Some(contender);
        if let Some(connection) = self.connection {
            let is_calm = self.is_calm;
            self.watcher.place_followed(Around { connection, world, network, history, is_calm });
        }
    }

    /// Makes a `Lock` or `Campaign` call.
    fn serve(
        &mut self,
        service: &Service,
        patience_us: u64,
        number: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
    ) -> CallId {
        let (method, request) = wire::encode_service(service);
        let id = self.calls.open_served(method, world.now_us, patience_us);
        let credentials = self.credentials.clone();
        network.send_up(world, number, FromClient::Call { id, method, request, credentials });
        id
    }

    /// If a result belongs to a `Lock` or `Campaign` call, passes it on.
    fn take_served(
        &mut self,
        id: CallId,
        result: &SentResult,
        now_us: u64,
        history: &mut History,
    ) -> Result<(), String> {
        let Some(method) = self.calls.end_service(id) else { return Ok(()) };
        let served = wire::decode_service(method, result)?;
        if let Some(contender) = &mut self.roles.contender {
            contender.on_served(id, served, now_us, history);
        }
        Ok(())
    }

    /// Ends the client's pause if the time has come. Returns the connection on which messages may
    /// have arrived meanwhile; `None` if it still pauses or has no connection.
    pub fn end_pause(
        &mut self,
        world: &mut World,
        network: &mut EtcdNetwork,
        history: &mut History,
    ) -> Option<usize> {
        self.paused_until_us.take_if(|until_us| *until_us <= world.now_us)?;
        let number = self.connection?;
        let mut contender = self.roles.contender.take()?;
        if let Some(Act::Call(role, op)) = contender.act_blindly() {
            let id = self.send((op, false), number, world, network, history);
            contender.on_called(role, id, history);
        }
        self.roles.contender = Some(contender);
        Some(number)
    }

    fn burst(
        &mut self,
        number: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
        history: &mut History,
    ) {
        let room = self.config.calls_max.saturating_sub(self.calls.count());
        let wanted = room.min(self.ops_left);
        if wanted > 0 {
            for _ in 0..self.random.between(1, wanted) {
                self.ops_left -= 1;
                let op = self.generator.next_op();
                self.call(op, number, world, network, history);
            }
        }
        self.next_us = world.now_us + self.random.magnitude(1, self.config.think_us_max);
        let is_calm = self.is_calm;
        self.watcher.act(Around { connection: number, world, network, history, is_calm });
    }

    fn call(
        &mut self,
        mut op: Op,
        number: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
        history: &mut History,
    ) -> CallId {
        let is_streamed = self.streams.choose(&mut op);
        self.send((op, is_streamed), number, world, network, history)
    }

    /// Sends a call, as a streamed read if `is_streamed`.
    fn send(
        &mut self,
        (op, is_streamed): (Op, bool),
        number: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
        history: &mut History,
    ) -> CallId {
        let (mut method, request) = wire::encode(&op);
        let id = history.ask(number, op, world.now_us);
        let patience_us = match self.random.one_in(4) {
            true => self.random.magnitude(10_000, self.config.patience_us_max),
            false => self.config.patience_us_max,
        };
        self.calls.open(id, world.now_us, patience_us);
        if is_streamed {
            method = EtcdMethod::RangeStream;
            self.streams.open(id);
        }
        let credentials = self.credentials.clone();
        network.send_up(world, number, FromClient::Call { id, method, request, credentials });
        id
    }

    /// Gives up the calls that take too long: cancels each, or leaves the connection.
    fn give_up_late(
        &mut self,
        number: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
        history: &mut History,
    ) {
        let late = if self.is_calm { Vec::new() } else { self.calls.late(world.now_us) };
        if !late.is_empty() && self.random.one_in(4) {
            return self.leave(world, network, history);
        }
        late.into_iter().for_each(|id| self.cancel(id, number, world, network, history));
    }

    fn cancel(
        &mut self,
        id: CallId,
        number: usize,
        world: &mut World,
        network: &mut EtcdNetwork,
        history: &mut History,
    ) {
        self.calls.close(id);
        self.streams.close(id, false);
        if self.users_call.is_some_and(|(of, _)| of == id) {
            self.end_users_call(users::Came::Lost, world, network).expect("a loss says nothing");
        }
        self.roles.v2.iter_mut().for_each(|v2| v2.on_given_up(id, world.now_us));
        self.roles.operator.iter_mut().for_each(|it| it.on_lost(Some(id), world.now_us));
        self.roles.http.iter_mut().for_each(|it| it.on_lost(Some(id), world.now_us));
        if self.calls.end_service(id).is_some()
            && let Some(contender) = &mut self.roles.contender
        {
            contender.on_served(id, contender::Served::GivenUp, world.now_us, history);
        }
        if history.position(id).is_none() {
            return network.send_up(world, number, FromClient::Cancel(id));
        }
        history.answer(id, Err(Error::Canceled), world.now_us);
        if let Some(contender) = &mut self.roles.contender {
            contender.on_answer(id, None, world.now_us, history);
        }
        network.send_up(world, number, FromClient::Cancel(id));
    }

    /// Leaves the connection: the fate of the open calls is unknown.
    fn leave(&mut self, world: &mut World, network: &mut EtcdNetwork, history: &mut History) {
        // After a restart, a member must answer the last read again before it can promise progress.
        let is_waiting = self.last_read == LastRead::Answered && !self.watcher.is_done();
        self.watcher.on_left(history, world.now_us);
        if let Some(contender) = &mut self.roles.contender {
            contender.on_left(world.now_us, history);
        }
        if let Some(number) = self.connection.take() {
            network.close_by_client(world, number);
        }
        self.end_users_call(users::Came::Lost, world, network).expect("a loss says nothing");
        self.roles.v2.iter_mut().for_each(|v2| v2.on_left(world.now_us));
        self.roles.operator.iter_mut().for_each(|it| it.on_lost(None, world.now_us));
        self.roles.http.iter_mut().for_each(|it| it.on_lost(None, world.now_us));
        self.calls.clear();
        self.streams.clear();
        if matches!(self.last_read, LastRead::Sent(_)) || is_waiting {
            self.last_read = LastRead::Wanted;
        }
        self.next_us = world.now_us + self.random.magnitude(10, 300_000);
    }

    /// Handles the messages that have arrived.
    ///
    /// # Errors
    /// The client could not understand a message.
    pub fn on_arrival(
        &mut self,
        by: Served,
        world: &mut World,
        network: &mut EtcdNetwork,
        history: &mut History,
    ) -> Result<(), String> {
        let Some(number) = self.connection else { return Ok(()) };
        if self.paused_until_us.is_some() {
            return Ok(());
        }
        let connection = &mut network.connections[number];
        let end = connection.client_end;
        for message in core::mem::take(&mut connection.at_client) {
            // The result of a cancelled call may have been in flight.
            let FromServer { id, mut result, has_more } = message;
            if let (Some(v2), Err(refused)) = (&mut self.roles.v2, &result)
                && v2.on_refused(id, *refused, world.now_us)
            {
                self.calls.close(id);
                continue;
            }
            if !self.calls.is_open(id) {
                continue;
            }
            let had_pieces = self.streams.add(id, &mut result)?;
            if has_more {
                let late_us = self.streams.late_us(self.is_calm);
                network.send_up_late(world, number, FromClient::Taken(id), late_us);
                continue;
            }
            self.calls.close(id);
            self.streams.close(id, had_pieces && result.is_ok());
            self.take_users_result(id, &result, world, network)?;
            self.take_served(id, &result, world.now_us, history)?;
            if let Some(operator) = &mut self.roles.operator {
                operator.on_result(id, &result, by, world.now_us)?;
            }
            let Some(position) = history.position(id) else { continue };
            let answer = match wire::decode(&history.calls[position].op, &result, by)? {
                Err(Error::Compacted) if had_pieces => Err(Error::CompactedMeanwhile),
                answer => answer,
            };
            self.on_answer(id, &answer, world.now_us);
            history.answer(id, answer.clone(), world.now_us);
            if let Some(contender) = &mut self.roles.contender {
                contender.on_answer(id, Some(&answer), world.now_us, history);
            }
        }
        self.take_watched(number, by, world, network, history)?;
        self.take_v2(number, world, network)?;
        self.take_http(number, world, network);
        if end == End::Over {
            self.leave(world, network, history);
        }
        Ok(())
    }

    /// Handles the messages that have arrived on watch streams.
    ///
    /// # Errors
    /// The client could not understand a message.
    fn take_watched(
        &mut self,
        number: usize,
        by: Served,
        world: &mut World,
        network: &mut EtcdNetwork,
        history: &mut History,
    ) -> Result<(), String> {
        let watched = core::mem::take(&mut network.connections[number].watched_at_client);
        for (stream, message) in watched {
            if self.users_call.is_some_and(|(_, of)| of == Some(stream)) {
                let came = match message {
                    ToWatcher::Messages(messages) => users::of_watch(&messages[0])?,
                    ToWatcher::Ended(refused) => users::of_call(Err(refused))?,
                };
                self.end_users_call(came, world, network)?;
                continue;
            }
            let is_calm = self.is_calm;
            let is_end = matches!(message, ToWatcher::Ended(_));
            let around = Around { connection: number, world, network, history, is_calm };
            self.watcher.on_arrival(stream, message, by, around)?;
            // A member that had no leader must answer the last read again before it can promise
            // progress.
            if is_end && self.last_read == LastRead::Answered {
                self.last_read = LastRead::Wanted;
                self.next_us = world.now_us;
            }
        }
        for (line, response) in self.watcher.take_news() {
            if let Some(contender) = &mut self.roles.contender {
                contender.on_response(line, &response, world.now_us, history);
            }
        }
        Ok(())
    }

    fn on_answer(&mut self, id: CallId, answer: &Answer, now_us: u64) {
        if let Ok(response) = answer {
            self.generator.observe(response.revision());
            self.watcher.observe(response.revision());
        }
        // Some servers lack the needed level, and that will not change.
        if self.is_calm && *answer == Err(Error::NotCapable) {
            self.ops_left = 0;
        }
        if self.last_read == LastRead::Sent(id) {
            match answer {
                Ok(_) => {
                    self.last_read = LastRead::Answered;
                    self.waits_us = now_us;
                }
                Err(_) => {
                    self.last_read = LastRead::Wanted;
                    self.next_us = now_us + AGAIN_US;
                }
            }
        }
    }
}
