//! The connections of etcd clients. Each call, cancellation and result is a message with its own
//! delay, since the streams of HTTP/2 are independent: calls and results may overtake each other. A
//! cancellation arrives after its call, and the end of the connection after everything else. The
//! messages of one watch stream keep their order in each direction.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use etcd::v2::Request as V2Request;
use member::fronts::etcd::{CallRefused, Credentials, EtcdMethod, V2Result, V2Waited};
use workload::etcd::history::CallId;
use workload::generate::Random;

use super::http::{HttpAnswer, HttpRequest};
use super::wire::Served;
use crate::network::End;
use crate::world::{Event, World};

/// A message from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// A call of etcd v3.
    Call {
        /// The id of the call.
        id: CallId,
        /// The call's method.
        method: EtcdMethod,
        /// The bytes of the call's request.
        request: Bytes,
        /// The client's credentials.
        credentials: Credentials,
    },
    /// A read or a write of etcd v2.
    V2(CallId, V2Request),
    /// A wait of etcd v2.
    V2Wait(CallId, V2Request),
    /// A plain HTTP request that takes several steps.
    Http(CallId, HttpRequest),
    /// The client cancels this call.
    Cancel(CallId),
    /// The client acknowledges the last piece of this call.
    Taken(CallId),
    /// A message on the watch stream with this number in the history.
    Watch(usize, FromWatcher),
    /// The client acknowledges the last messages of this watch stream.
    WatchTaken(usize),
}

/// A message of a client on a watch stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromWatcher {
    /// Opens the stream.
    Open {
        /// Whether the stream must end when the member has no leader.
        requires_leader: bool,
        /// The client's credentials.
        credentials: Credentials,
    },
    /// A watch request, encoded.
    Request(Bytes),
    /// Closes the stream.
    Close,
}

/// A message of a server on a watch stream.
#[derive(Clone, Debug)]
pub enum ToWatcher {
    /// Encoded messages, which the client handles together.
    Messages(Vec<Vec<u8>>),
    /// The end of the stream.
    Ended(CallRefused),
}

/// The result of a call: the bytes of the response, or the error.
pub type SentResult = Result<Vec<u8>, CallRefused>;

/// A message of a server with the result of a call.
#[derive(Clone, Debug)]
pub struct FromServer {
    /// The id of the call.
    pub id: CallId,
    /// The call's result, or a piece of it.
    pub result: SentResult,
    /// Whether further pieces follow.
    pub has_more: bool,
}

/// A message of a server to an etcd v2 client.
#[derive(Clone, Debug)]
pub enum ToV2 {
    /// The result of a read or a write.
    Result(V2Result),
    /// Something about a wait.
    Waited(V2Waited),
}

#[derive(Debug)]
enum Parcel {
    Up(FromClient),
    UpOver,
    Down(FromServer),
    DownWatch(usize, ToWatcher),
    DownV2(CallId, ToV2),
    DownHttp(CallId, HttpAnswer),
    DownOver,
}

impl Parcel {
    fn is_up(&self) -> bool {
        matches!(self, Parcel::Up(_) | Parcel::UpOver)
    }

    /// The direction and the number of the stream in which this message keeps its order; `None` if
    /// it is independent.
    fn stream(&self) -> Option<(bool, usize)> {
        match self {
            Parcel::Up(FromClient::Watch(stream, _)) => Some((true, *stream)),
            Parcel::DownWatch(stream, _) => Some((false, *stream)),
            // The messages about one wait keep their order, too, under a number that no watch
            // stream has.
            Parcel::DownV2(id, ToV2::Waited(_)) => Some((false, usize::MAX - id.number as usize)),
            _ => None,
        }
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Way {
    /// When the last parcel in flight arrives.
    last_us: u64,
    /// When the last stall ends. Nothing arrives before.
    stalled_until_us: u64,
    /// Whether messages that are sent from now on are lost.
    is_over: bool,
}

/// A connection between a client and a server's process.
#[derive(Debug)]
pub struct EtcdConnection {
    /// The number of the client that opened it.
    pub client: usize,
    /// The member that the client connected to.
    pub member: usize,
    /// The number of the process run that it leads to.
    pub life: u64,
    /// The cluster id and the member id in its responses.
    pub served: Served,
    /// The etcd runtime that serves the connection, by its position among the etcd runtimes.
    pub front: usize,
    /// Messages that have arrived and that the server has not handled.
    pub at_server: VecDeque<FromClient>,
    /// Whether more may follow those in `at_server`.
    pub server_end: End,
    /// Results that have arrived and that the client has not handled.
    pub at_client: VecDeque<FromServer>,
    /// Messages of watch streams that have arrived and that the client has not handled.
    pub watched_at_client: VecDeque<(usize, ToWatcher)>,
    /// Messages to an etcd v2 client that have arrived and that it has not handled.
    pub v2_at_client: VecDeque<(CallId, ToV2)>,
    /// HTTP answers that have arrived and that the client has not handled.
    pub http_at_client: VecDeque<(CallId, HttpAnswer)>,
    /// Whether more may follow the messages at the client.
    pub client_end: End,
    up: Way,
    down: Way,
    in_flight: BTreeMap<u64, Parcel>,
    /// For each direction and watch stream, when the last message in flight arrives.
    stream_last_us: BTreeMap<(bool, usize), u64>,
}

/// All etcd connections of a run, also those that have ended. A connection's number is its
/// position.
pub struct EtcdNetwork {
    /// The connections, by number.
    pub connections: Vec<EtcdConnection>,
    /// The id of each machine's server, by the machine's number, from level 5 on.
    pub server_ids: BTreeMap<usize, u64>,
    /// Whether all members have had the same state since before any response on its way was made.
    pub is_last: bool,
    random: Random,
    /// The least one-way latency, in us.
    latency_us: u64,
    /// How many messages were ever sent.
    posted: u64,
}

impl EtcdNetwork {
    /// A network without connections.
    pub fn new(mut random: Random) -> EtcdNetwork {
        let latency_us = random.magnitude(20, 20_000);
        let (connections, server_ids) = (Vec::new(), BTreeMap::new());
        EtcdNetwork { connections, server_ids, is_last: false, random, latency_us, posted: 0 }
    }

    /// The ids in the responses on a connection that arrive now.
    pub fn served(&self, number: usize) -> Served {
        let connection = &self.connections[number];
        let server_id = self.server_ids.get(&connection.member).copied();
        Served { server_id, is_last: self.is_last, ..connection.served }
    }

    /// Connects a client to a running server process. Returns the number of the connection.
    pub fn connect(
        &mut self,
        client: usize,
        member: usize,
        (life, served): (u64, Served),
    ) -> usize {
        self.connections.push(EtcdConnection {
            client,
            member,
            life,
            served,
            front: 0,
            at_server: VecDeque::new(),
            server_end: End::Open,
            at_client: VecDeque::new(),
            watched_at_client: VecDeque::new(),
            v2_at_client: VecDeque::new(),
            http_at_client: VecDeque::new(),
            client_end: End::Open,
            up: Way::default(),
            down: Way::default(),
            in_flight: BTreeMap::new(),
            stream_last_us: BTreeMap::new(),
        });
        self.connections.len() - 1
    }

    /// The client sends a message.
    pub fn send_up(&mut self, world: &mut World, number: usize, message: FromClient) {
        self.post(world, number, Parcel::Up(message), 0);
    }

    /// The client sends a message, `late_us` from now.
    pub fn send_up_late(
        &mut self,
        world: &mut World,
        number: usize,
        message: FromClient,
        late_us: u64,
    ) {
        self.post(world, number, Parcel::Up(message), late_us);
    }

    /// The server sends a result.
    pub fn send_down(&mut self, world: &mut World, number: usize, message: FromServer) {
        self.post(world, number, Parcel::Down(message), 0);
    }

    /// The server sends a message on a watch stream.
    pub fn send_to_watcher(
        &mut self,
        world: &mut World,
        number: usize,
        stream: usize,
        message: ToWatcher,
    ) {
        self.post(world, number, Parcel::DownWatch(stream, message), 0);
    }

    /// The server sends a message to an etcd v2 client.
    pub fn send_to_v2(&mut self, world: &mut World, number: usize, id: CallId, message: ToV2) {
        self.post(world, number, Parcel::DownV2(id, message), 0);
    }

    /// The server answers an HTTP request.
    pub fn send_http(&mut self, world: &mut World, number: usize, id: CallId, answer: HttpAnswer) {
        self.post(world, number, Parcel::DownHttp(id, answer), 0);
    }

    /// The client closes the connection. Messages that it sent still arrive.
    pub fn close_by_client(&mut self, world: &mut World, number: usize) {
        self.post(world, number, Parcel::UpOver, 0);
        let connection = &mut self.connections[number];
        connection.up.is_over = true;
        connection.down.is_over = true;
        connection.at_client.clear();
        connection.watched_at_client.clear();
        connection.v2_at_client.clear();
        connection.http_at_client.clear();
        connection.in_flight.retain(|_, parcel| parcel.is_up());
    }

    /// The server's process has ended. Messages that it sent still arrive.
    pub fn close_by_server(&mut self, world: &mut World, number: usize) {
        self.post(world, number, Parcel::DownOver, 0);
        let connection = &mut self.connections[number];
        connection.up.is_over = true;
        connection.down.is_over = true;
        connection.at_server.clear();
        connection.in_flight.retain(|_, parcel| !parcel.is_up());
    }

    /// Breaks the connection. A random part of the messages in flight still arrives, then each end
    /// sees the end at its own time.
    pub fn cut_off(&mut self, world: &mut World, number: usize) {
        let kept_one_in = self.random.between(1, 4);
        let (random, connection) = (&mut self.random, &mut self.connections[number]);
        // Behind a lost message of a stream, nothing of that stream arrives.
        let mut broken = BTreeSet::new();
        connection.in_flight.retain(|_, parcel| match parcel {
            Parcel::UpOver | Parcel::DownOver => true,
            parcel => {
                let stream = parcel.stream();
                let is_lost = !random.one_in(kept_one_in)
                    || stream.is_some_and(|stream| broken.contains(&stream));
                broken.extend(stream.filter(|_| is_lost));
                !is_lost
            }
        });
        self.post(world, number, Parcel::UpOver, 0);
        self.post(world, number, Parcel::DownOver, 0);
        let connection = &mut self.connections[number];
        connection.up.is_over = true;
        connection.down.is_over = true;
    }

    /// Delays everything in one direction until `until_us`; `is_up` means towards the server.
    pub fn stall(&mut self, number: usize, is_up: bool, until_us: u64) {
        let connection = &mut self.connections[number];
        let way = if is_up { &mut connection.up } else { &mut connection.down };
        way.stalled_until_us = until_us;
    }

    /// Ends all stalls: what they delayed arrives now.
    pub fn end_stalls(&mut self, world: &mut World) {
        for (number, connection) in self.connections.iter_mut().enumerate() {
            connection.up.stalled_until_us = 0;
            connection.down.stalled_until_us = 0;
            for parcel in connection.in_flight.keys() {
                let event = Event::EtcdArrive { connection: number, parcel: *parcel };
                world.schedule(world.now_us, event);
            }
        }
    }

    /// Handles an [`Event::EtcdArrive`]. Returns whether the message arrived at the server's end;
    /// `None` if it was lost or is stalled.
    pub fn arrive(&mut self, world: &mut World, number: usize, parcel: u64) -> Option<bool> {
        let connection = &mut self.connections[number];
        let is_up = connection.in_flight.get(&parcel)?.is_up();
        let way = if is_up { &mut connection.up } else { &mut connection.down };
        if way.stalled_until_us > world.now_us {
            let at_us = way.stalled_until_us;
            way.last_us = way.last_us.max(at_us);
            world.schedule(at_us, Event::EtcdArrive { connection: number, parcel });
            return None;
        }
        // In a stream, the oldest message arrives first.
        let stream = connection.in_flight.get(&parcel)?.stream();
        let is_of_stream = |(_, it): &(&u64, &Parcel)| stream.is_some() && it.stream() == stream;
        let oldest = connection.in_flight.iter().find(is_of_stream).map(|(number, _)| *number);
        match connection.in_flight.remove(&oldest.unwrap_or(parcel))? {
            Parcel::Up(message) => connection.at_server.push_back(message),
            Parcel::UpOver => connection.server_end = End::Over,
            Parcel::Down(message) => {
                if let Ok(response) = &message.result {
                    world.note_bytes(response);
                }
                connection.at_client.push_back(message);
            }
            Parcel::DownWatch(stream, message) => {
                if let ToWatcher::Messages(messages) = &message {
                    messages.iter().for_each(|it| world.note_bytes(it));
                }
                connection.watched_at_client.push_back((stream, message));
            }
            Parcel::DownV2(id, message) => connection.v2_at_client.push_back((id, message)),
            Parcel::DownHttp(id, answer) => connection.http_at_client.push_back((id, answer)),
            Parcel::DownOver => connection.client_end = End::Over,
        }
        Some(is_up)
    }

    /// Whether no message is in flight on any connection.
    pub fn is_quiet(&self) -> bool {
        self.connections.iter().all(|connection| connection.in_flight.is_empty())
    }

    fn post(&mut self, world: &mut World, number: usize, parcel: Parcel, late_us: u64) {
        let jitter_us = self.random.magnitude(1, self.latency_us);
        let connection = &mut self.connections[number];
        let way = if parcel.is_up() { &mut connection.up } else { &mut connection.down };
        if way.is_over {
            return;
        }
        let mut at_us = world.now_us + self.latency_us + jitter_us + late_us;
        let is_independent = matches!(
            parcel,
            Parcel::Up(
                FromClient::Call { .. }
                    | FromClient::V2(..)
                    | FromClient::V2Wait(..)
                    | FromClient::Http(..)
                    | FromClient::Taken(_)
                    | FromClient::WatchTaken(_)
            ) | Parcel::Down(_)
                | Parcel::DownHttp(..)
                | Parcel::DownV2(_, ToV2::Result(_))
        );
        if let Some(stream) = parcel.stream() {
            let last_us = connection.stream_last_us.entry(stream).or_default();
            at_us = at_us.max(*last_us);
            *last_us = at_us;
        } else if !is_independent {
            at_us = at_us.max(way.last_us);
        }
        way.last_us = way.last_us.max(at_us);
        self.posted += 1;
        connection.in_flight.insert(self.posted, parcel);
        world.schedule(at_us, Event::EtcdArrive { connection: number, parcel: self.posted });
    }
}
