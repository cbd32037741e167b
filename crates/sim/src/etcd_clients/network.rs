//! Connections of etcd's clients: calls, cancels and results, each a message with a delay of its
//! own. The streams of HTTP/2 are independent, so calls and results overtake each other. A cancel
//! comes behind its call, and the end of the connection behind everything else. The messages of a
//! watch stream keep their order in each direction.

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

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// A call.
    Call {
        /// The call.
        id: CallId,
        /// Its method.
        method: EtcdMethod,
        /// The bytes of its request.
        request: Bytes,
        /// What the client says of itself.
        credentials: Credentials,
    },
    /// A read or a write of etcd v2.
    V2(CallId, V2Request),
    /// A wait of etcd v2.
    V2Wait(CallId, V2Request),
    /// A request of HTTP that takes several steps.
    Http(CallId, HttpRequest),
    /// The client waits for the result of this call no longer.
    Cancel(CallId),
    /// The client has taken the last piece of this call.
    Taken(CallId),
    /// Something on a watch stream, which has this number in the history.
    Watch(usize, FromWatcher),
    /// The client has taken the last messages of this watch stream.
    WatchTaken(usize),
}

/// A message of a client on a watch stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromWatcher {
    /// The stream begins.
    Open {
        /// Whether it is to end when there is no leader.
        requires_leader: bool,
        /// What the client says of itself.
        credentials: Credentials,
    },
    /// A request.
    Request(Bytes),
    /// The client resets the stream.
    Close,
}

/// What a server sends on a watch stream.
#[derive(Clone, Debug)]
pub enum ToWatcher {
    /// Messages, which the client takes together.
    Messages(Vec<Vec<u8>>),
    /// The end of the stream.
    Ended(CallRefused),
}

/// The result of a call as it is sent: the bytes of the response, or why there is none.
pub type SentResult = Result<Vec<u8>, CallRefused>;

/// The result of a call.
#[derive(Clone, Debug)]
pub struct FromServer {
    /// The call.
    pub id: CallId,
    /// Its result, or a piece of it.
    pub result: SentResult,
    /// Whether further pieces follow.
    pub has_more: bool,
}

/// What a server sends to a client of etcd v2.
#[derive(Clone, Debug)]
pub enum ToV2 {
    /// What the store has answered.
    Result(V2Result),
    /// What came of a wait.
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

    /// The direction and the number of the watch stream whose order it keeps.
    fn stream(&self) -> Option<(bool, usize)> {
        match self {
            Parcel::Up(FromClient::Watch(stream, _)) => Some((true, *stream)),
            Parcel::DownWatch(stream, _) => Some((false, *stream)),
            // What comes of one wait keeps its order, too: a number that no watch stream has.
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
    /// The end of the last stall: nothing arrives before.
    stalled_until_us: u64,
    /// Whether nothing that is sent from now on arrives.
    is_over: bool,
}

/// One connection.
#[derive(Debug)]
pub struct EtcdConnection {
    /// The number of the client that opened it.
    pub client: usize,
    /// The member that the client connected to.
    pub member: usize,
    /// The life of that member's process.
    pub life: u64,
    /// The cluster and the member that its responses name.
    pub served: Served,
    /// The position of the runtime that serves it among those for etcd's clients.
    pub front: usize,
    /// Messages that have arrived and that the server has not taken.
    pub at_server: VecDeque<FromClient>,
    /// What the server finds behind these.
    pub server_end: End,
    /// Results that have arrived and that the client has not taken.
    pub at_client: VecDeque<FromServer>,
    /// Messages of watch streams that have arrived, and that the client has not taken.
    pub watched_at_client: VecDeque<(usize, ToWatcher)>,
    /// Messages for a client of etcd v2 that have arrived, and that the client has not taken.
    pub v2_at_client: VecDeque<(CallId, ToV2)>,
    /// Answers of HTTP that have arrived, and that the client has not taken.
    pub http_at_client: VecDeque<(CallId, HttpAnswer)>,
    /// What the client finds behind these.
    pub client_end: End,
    up: Way,
    down: Way,
    in_flight: BTreeMap<u64, Parcel>,
    /// When the last parcel of each watch stream arrives, in each direction.
    stream_last_us: BTreeMap<(bool, usize), u64>,
}

/// All connections of a run, also those that have ended. The number of a connection is its
/// position.
pub struct EtcdNetwork {
    /// The connections, by number.
    pub connections: Vec<EtcdConnection>,
    random: Random,
    /// The least time from one side to the other.
    latency_us: u64,
    /// The number of parcels that were posted.
    posted: u64,
}

impl EtcdNetwork {
    /// A network without connections.
    pub fn new(mut random: Random) -> EtcdNetwork {
        let latency_us = random.magnitude(20, 20_000);
        EtcdNetwork { connections: Vec::new(), random, latency_us, posted: 0 }
    }

    /// Connects a client to a server that runs. Returns the number of the connection.
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

    /// The client sends.
    pub fn send_up(&mut self, world: &mut World, number: usize, message: FromClient) {
        self.post(world, number, Parcel::Up(message), 0);
    }

    /// The client sends, this much later.
    pub fn send_up_late(
        &mut self,
        world: &mut World,
        number: usize,
        message: FromClient,
        late_us: u64,
    ) {
        self.post(world, number, Parcel::Up(message), late_us);
    }

    /// The server sends.
    pub fn send_down(&mut self, world: &mut World, number: usize, message: FromServer) {
        self.post(world, number, Parcel::Down(message), 0);
    }

    /// The server sends on a watch stream.
    pub fn send_to_watcher(
        &mut self,
        world: &mut World,
        number: usize,
        stream: usize,
        message: ToWatcher,
    ) {
        self.post(world, number, Parcel::DownWatch(stream, message), 0);
    }

    /// The server sends to a client of etcd v2.
    pub fn send_to_v2(&mut self, world: &mut World, number: usize, id: CallId, message: ToV2) {
        self.post(world, number, Parcel::DownV2(id, message), 0);
    }

    /// The server answers a request of HTTP.
    pub fn send_http(&mut self, world: &mut World, number: usize, id: CallId, answer: HttpAnswer) {
        self.post(world, number, Parcel::DownHttp(id, answer), 0);
    }

    /// The client closes: what it sent still arrives.
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

    /// The server's process is gone: what it sent still arrives.
    pub fn close_by_server(&mut self, world: &mut World, number: usize) {
        self.post(world, number, Parcel::DownOver, 0);
        let connection = &mut self.connections[number];
        connection.up.is_over = true;
        connection.down.is_over = true;
        connection.at_server.clear();
        connection.in_flight.retain(|_, parcel| !parcel.is_up());
    }

    /// Breaks the connection. A part of what is in flight may still arrive, then each side is told,
    /// at its own time.
    pub fn cut_off(&mut self, world: &mut World, number: usize) {
        let kept_one_in = self.random.between(1, 4);
        let (random, connection) = (&mut self.random, &mut self.connections[number]);
        // Nothing of a stream arrives behind what was lost.
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

    /// Nothing arrives for a time, in one direction.
    pub fn stall(&mut self, number: usize, is_up: bool, until_us: u64) {
        let connection = &mut self.connections[number];
        let way = if is_up { &mut connection.up } else { &mut connection.down };
        way.stalled_until_us = until_us;
    }

    /// Ends all stalls: what they held up arrives now.
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

    /// Something arrives. Returns whether it arrives at the server; `None` if it was lost, or is
    /// held up.
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
        // Of a watch stream the oldest arrives first.
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

    /// Whether nothing is on its way, on any connection.
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
