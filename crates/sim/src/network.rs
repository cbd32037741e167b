//! Connections between clients and the server: bytes in order, cut into pieces anywhere, late, and
//! sometimes never; and what each side's kernel keeps for its program.

use std::collections::VecDeque;

use workload::generate::Random;

use crate::world::{Event, World};

/// What a program finds behind the bytes in its kernel's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// More may come.
    Open,
    /// The other side has closed, or the connection broke.
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
    /// The end of the last stall: nothing arrives before.
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

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// The number of the client that opened it.
    pub client: usize,
    /// When the client opened it.
    pub opened_us: u64,
    /// The member that the client connected to.
    pub member: usize,
    /// The life of that member's process.
    pub life: u64,
    /// The number of the connection runtime that serves it.
    pub front: u32,
    /// The id that the process gave it; 0 before the process accepts it.
    pub server_id: u64,
    up: Pipe,
    down: Pipe,
    /// Bytes that have arrived and that the server has not read.
    pub server_buffer: VecDeque<u8>,
    /// What the server finds behind these bytes.
    pub server_end: End,
    /// Bytes that have arrived and that the client has not read.
    pub client_buffer: VecDeque<u8>,
    /// What the client finds behind these bytes.
    pub client_end: End,
    /// Bytes that may be on their way to the client or lie in its buffer.
    window_bytes: usize,
    /// When bytes arrived at the server, for the judge of expiries.
    pub arrivals_us: Vec<u64>,
    /// When the server last read bytes that did not end the connection: it read on behind them.
    pub read_us: u64,
    /// When the server last read bytes.
    pub handed_us: u64,
    /// When the server began to end it, maybe long before its socket is closed. The server does not
    /// read bytes that arrive later.
    pub ended_us: Option<u64>,
    /// When the server wrote last.
    pub written_us: u64,
    /// When the client closed it; 0 if it has not yet, or has forgotten it.
    pub left_us: u64,
    /// The client has closed its side and hears nothing any more.
    client_is_gone: bool,
}

/// All connections of a run, also those that have ended. The number of a connection is its
/// position.
pub struct Network {
    /// The connections, by number.
    pub connections: Vec<Connection>,
    random: Random,
    /// The least time from one side to the other.
    latency_us: u64,
}

/// Bytes of a connection's buffers, at most.
const WINDOW_BYTES_MAX: u64 = 64 * 1024;

impl Network {
    /// A network without connections.
    pub fn new(mut random: Random) -> Network {
        let latency_us = random.magnitude(20, 20_000);
        Network { connections: Vec::new(), random, latency_us }
    }

    /// Connects a client to a server that runs. Returns the number of the connection.
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

    /// The client writes.
    pub fn send_up(&mut self, world: &mut World, number: usize, bytes: &[u8]) {
        for piece in self.cut(bytes) {
            self.post(world, number, true, Parcel::Bytes(piece));
        }
    }

    /// The server writes as much as the connection takes now. Returns how many bytes that is.
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

    /// Whether the server could write something.
    pub fn has_room_down(&self, number: usize) -> bool {
        let connection = &self.connections[number];
        let taken = connection.down.bytes_in_flight() + connection.client_buffer.len();
        connection.client_is_gone || taken < connection.window_bytes
    }

    /// The client closes: what it wrote still arrives.
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

    /// The client forgets the connection without closing it: what it wrote arrives late.
    pub fn abandon(&mut self, number: usize, until_us: u64) {
        let connection = &mut self.connections[number];
        connection.client_is_gone = true;
        connection.client_buffer.clear();
        connection.up.stalled_until_us = until_us;
    }

    /// The server closes: what it wrote still arrives.
    pub fn close_by_server(&mut self, world: &mut World, number: usize) {
        self.connections[number].server_buffer.clear();
        self.connections[number].server_end = End::Over;
        self.post(world, number, false, Parcel::Over);
    }

    /// Breaks the connection. A part of what is in flight may still arrive, then both sides are
    /// told.
    pub fn cut_off(&mut self, world: &mut World, number: usize) {
        for is_up in [true, false] {
            let connection = &mut self.connections[number];
            let pipe = if is_up { &mut connection.up } else { &mut connection.down };
            let kept = self.random.below(pipe.in_flight.len() as u64 + 1);
            pipe.in_flight.truncate(kept as usize);
            self.post(world, number, is_up, Parcel::Over);
        }
    }

    /// Nothing arrives for a time, in one direction.
    pub fn stall(&mut self, number: usize, is_up: bool, until_us: u64) {
        let connection = &mut self.connections[number];
        let pipe = if is_up { &mut connection.up } else { &mut connection.down };
        pipe.stalled_until_us = until_us;
    }

    /// Something arrives. False if it was lost on the way.
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
                // A server that has not heard of a cut goes on to send: no byte comes behind an
                // end.
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
