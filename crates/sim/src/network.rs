//! The network between ZooKeeper clients and servers. A connection carries bytes in order, cut into
//! pieces at random, with latency; its traffic may stall, and the connection may break. Each end
//! has a buffer, like a kernel's socket buffer.

use std::collections::VecDeque;

use workload::generate::Random;

use crate::world::{Event, World};

/// Whether the stream goes on behind the bytes in a socket's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The stream is open: more bytes may come.
    Open,
    /// The other end has closed the connection, or the connection broke.
    Over,
}

#[derive(Debug)]
enum Parcel {
    Bytes(Vec<u8>),
    Over,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Pipe {
    in_flight: VecDeque<Parcel>,
    /// When the last parcel in flight arrives.
    last_us: u64,
    /// When the last stall ends. Nothing arrives before.
    stalled_until_us: u64,
}

impl Pipe {
    fn bytes_in_flight(&self) -> usize {
        let bytes = |parcel: &Parcel| match parcel {
            Parcel::Bytes(bytes) => bytes.len(),
            Parcel::Over => 0,
        };
        self.in_flight.iter().map(bytes).sum()
    }
}

/// A connection between a client and a server's process.
#[derive(Debug)]
pub struct Connection {
    /// The number of the client that opened it.
    pub client: usize,
    /// When the client opened the connection.
    pub opened_us: u64,
    /// The member that the client connected to.
    pub member: usize,
    /// The number of the process run that it leads to.
    pub life: u64,
    /// The number of the connection runtime that serves it.
    pub front: u32,
    /// The id that the server gave the connection; 0 before the server accepts it.
    pub server_id: u64,
    up: Pipe,
    down: Pipe,
    /// Bytes that have arrived at the server and that the server has not read.
    pub server_buffer: VecDeque<u8>,
    /// Whether more bytes may follow those in `server_buffer`.
    pub server_end: End,
    /// Bytes that have arrived at the client and that the client has not read.
    pub client_buffer: VecDeque<u8>,
    /// Whether more bytes may follow those in `client_buffer`.
    pub client_end: End,
    /// The most bytes towards the client that may be in flight or unread.
    window_bytes: usize,
    /// When each piece of bytes arrived at the server, for the judge of session expiries.
    pub arrivals_us: Vec<u64>,
    /// When the server last read bytes and kept the connection open. 0 if never.
    pub read_us: u64,
    /// When the server last read bytes, even if they made it end the connection. 0 if never.
    pub handed_us: u64,
    /// When the server decided to end the connection, perhaps long before it closes the socket. The
    /// server reads no bytes that arrive later. `None` while it serves the connection.
    pub ended_us: Option<u64>,
    /// When the server last wrote bytes. 0 if never.
    pub written_us: u64,
    /// When the client closed the connection; 0 if it has not, or has abandoned it silently.
    pub left_us: u64,
    /// Whether the client has closed or abandoned its end. It then receives nothing.
    client_is_gone: bool,
}

/// All connections of a run, also those that have ended. A connection's number is its position.
pub struct Network {
    /// The connections, by number.
    pub connections: Vec<Connection>,
    random: Random,
    /// The least one-way latency, in us.
    latency_us: u64,
}

/// The largest window of a connection, in bytes.
const WINDOW_BYTES_MAX: u64 = 64 * 1024;

impl Network {
    /// A network without connections.
    pub fn new(mut random: Random) -> Network {
        let latency_us = random.magnitude(20, 20_000);
        Network { connections: Vec::new(), random, latency_us }
    }

    /// Connects a client to a running server process. Returns the number of the connection.
    pub fn connect(&mut self, client: usize, member: usize, life: u64, now_us: u64) -> usize {
        let window_bytes = self.random.magnitude(512, WINDOW_BYTES_MAX) as usize;
        self.connections.push(Connection {
            client,
            opened_us: now_us,
            member,
            life,
            front: 0,
            server_id: 0,
            up: Pipe::default(),
            down: Pipe::default(),
            server_buffer: VecDeque::new(),
            server_end: End::Open,
            client_buffer: VecDeque::new(),
            client_end: End::Open,
            window_bytes,
            arrivals_us: Vec::new(),
            read_us: 0,
            handed_us: 0,
            ended_us: None,
            written_us: 0,
            left_us: 0,
            client_is_gone: false,
        });
        self.connections.len() - 1
    }

    /// The client sends bytes.
    pub fn send_up(&mut self, world: &mut World, number: usize, bytes: &[u8]) {
        for piece in self.cut(bytes) {
            self.post(world, number, true, Parcel::Bytes(piece));
        }
    }

    /// The server writes as many bytes as fit into the window. Returns how many.
    pub fn send_down(&mut self, world: &mut World, number: usize, bytes: &[u8]) -> usize {
        let connection = &self.connections[number];
        if connection.client_is_gone {
            return bytes.len();
        }
        let taken = connection.down.bytes_in_flight() + connection.client_buffer.len();
        let room = connection.window_bytes.saturating_sub(taken);
        let count = room.min(bytes.len());
        if count > 0 {
            self.connections[number].written_us = world.now_us;
        }
        for piece in self.cut(&bytes[..count]) {
            self.post(world, number, false, Parcel::Bytes(piece));
        }
        count
    }

    /// Whether the server could write at least one byte.
    pub fn has_room_down(&self, number: usize) -> bool {
        let connection = &self.connections[number];
        let taken = connection.down.bytes_in_flight() + connection.client_buffer.len();
        connection.client_is_gone || taken < connection.window_bytes
    }

    /// The client closes its end. Bytes that it sent still arrive.
    pub fn close_by_client(&mut self, world: &mut World, number: usize) {
        let connection = &mut self.connections[number];
        if connection.client_is_gone {
            return;
        }
        connection.client_is_gone = true;
        connection.left_us = world.now_us;
        connection.client_buffer.clear();
        self.post(world, number, true, Parcel::Over);
    }

    /// The client's machine vanishes without closing the connection. Bytes that it sent arrive only
    /// after `until_us`.
    pub fn abandon(&mut self, number: usize, until_us: u64) {
        let connection = &mut self.connections[number];
        connection.client_is_gone = true;
        connection.client_buffer.clear();
        connection.up.stalled_until_us = until_us;
    }

    /// The server closes its end. Bytes that it sent still arrive.
    pub fn close_by_server(&mut self, world: &mut World, number: usize) {
        self.connections[number].server_buffer.clear();
        self.connections[number].server_end = End::Over;
        self.post(world, number, false, Parcel::Over);
    }

    /// Breaks the connection. A random part of what is in flight still arrives, then both ends see
    /// the end of the stream.
    pub fn cut_off(&mut self, world: &mut World, number: usize) {
        for is_up in [true, false] {
            let connection = &mut self.connections[number];
            let pipe = if is_up { &mut connection.up } else { &mut connection.down };
            let kept = self.random.below(pipe.in_flight.len() as u64 + 1);
            pipe.in_flight.truncate(kept as usize);
            self.post(world, number, is_up, Parcel::Over);
        }
    }

    /// Delays everything in one direction until `until_us`; `is_up` means towards the server.
    pub fn stall(&mut self, number: usize, is_up: bool, until_us: u64) {
        let connection = &mut self.connections[number];
        let pipe = if is_up { &mut connection.up } else { &mut connection.down };
        pipe.stalled_until_us = until_us;
    }

    /// Handles an [`Event::Arrive`]: moves the next piece into the receiver's buffer. Returns false
    /// if nothing arrived, because of a stall or a break.
    pub fn arrive(&mut self, world: &mut World, number: usize, at_server: bool) -> bool {
        let connection = &mut self.connections[number];
        let pipe = if at_server { &mut connection.up } else { &mut connection.down };
        // A stall holds up what was sent before it began, too.
        if pipe.stalled_until_us > world.now_us {
            let at_us = pipe.stalled_until_us;
            pipe.last_us = pipe.last_us.max(at_us);
            world.schedule(at_us, Event::Arrive { connection: number, at_server });
            return false;
        }
        let Some(parcel) = pipe.in_flight.pop_front() else { return false };
        match (parcel, at_server) {
            (Parcel::Bytes(bytes), true) => {
                world.note_bytes(&bytes);
                if connection.server_end == End::Open {
                    connection.arrivals_us.push(world.now_us);
                    connection.server_buffer.extend(bytes);
                }
            }
            (Parcel::Bytes(bytes), false) => {
                world.note_bytes(&bytes);
                // A server that has not noticed a cut goes on sending. Those bytes are dropped:
                // none follow the end of the stream.
                if !connection.client_is_gone && connection.client_end == End::Open {
                    connection.client_buffer.extend(bytes);
                }
            }
            (Parcel::Over, true) => connection.server_end = End::Over,
            (Parcel::Over, false) => connection.client_end = End::Over,
        }
        true
    }

    fn post(&mut self, world: &mut World, number: usize, is_up: bool, parcel: Parcel) {
        let jitter_us = self.random.magnitude(1, self.latency_us);
        let at_us = world.now_us + self.latency_us + jitter_us;
        let connection = &mut self.connections[number];
        let pipe = if is_up { &mut connection.up } else { &mut connection.down };
        let at_us = at_us.max(pipe.last_us);
        pipe.last_us = at_us;
        pipe.in_flight.push_back(parcel);
        world.schedule(at_us, Event::Arrive { connection: number, at_server: is_up });
    }

    /// Cuts bytes that are sent together into pieces: mostly one piece, sometimes several, cut
    /// anywhere.
    fn cut(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let whole = rest.len() as u64;
            let count = if self.random.one_in(4) { self.random.between(1, whole) } else { whole };
            let (piece, after) = rest.split_at(count as usize);
            pieces.push(piece.to_vec());
            rest = after;
        }
        pieces
    }
}
