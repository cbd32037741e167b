//! The connection of a client: what it has sent on it, what it waits for, and what has come.

use std::collections::VecDeque;

use workload::history::History;
use workload::op::Op;
use zk::request::{Request, XID_AUTH, XID_PING, XID_SET_WATCHES};

use super::wire::encode;
use crate::network::{End, Network};
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is no connection.
    Away,
    /// There is a connection, and the client waits for its session.
    Greeting,
    /// There is a connection, and the client has a session.
    Connected,
}

/// The connection of a client, while it has one.
pub(super) struct Link {
    state: State,
    /// The number of the connection, while there is one.
    number: Option<usize>,
    /// The xid of the last request, on this connection or one before.
    xid: i32,
    /// The xid and the number in the history of each request without a reply, the oldest first.
    outstanding: VecDeque<(i32, usize)>,
    pings: VecDeque<usize>,
    input: Vec<u8>,
    sent_us: u64,
    heard_us: u64,
    /// Whether the server has no leader, and serves the client reads only on this connection.
    is_read_only: bool,
    /// Whether the client has sent a frame that no server takes, and waits for the end.
    waits_for_end: bool,
    /// The number of connections that a server closed behind such a frame.
    ended_count: usize,
}

impl Link {
    /// No connection.
    pub fn new() -> Link {
        Link {
            state: State::Away,
            number: None,
            xid: 0,
            outstanding: VecDeque::new(),
            pings: VecDeque::new(),
            input: Vec::new(),
            sent_us: 0,
            heard_us: 0,
            is_read_only: false,
            waits_for_end: false,
            ended_count: 0,
        }
    }

    /// How far the client is with its connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// The number of the connection, while there is one.
    pub fn number(&self) -> Option<usize> {
        self.number
    }

    /// Whether the server serves the client reads only.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether the client waits for the end of the connection.
    pub fn waits_for_end(&self) -> bool {
        self.waits_for_end
    }

    /// Connections that a server closed behind a frame that no server takes.
    pub fn ended_count(&self) -> usize {
        self.ended_count
    }

    /// The number of requests without a reply.
    pub fn outstanding_count(&self) -> u64 {
        self.outstanding.len() as u64
    }

    /// Whether each request has its reply.
    pub fn is_answered(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// When the client sent something last.
    pub fn sent_us(&self) -> u64 {
        self.sent_us
    }

    /// When the client heard of the server last.
    pub fn heard_us(&self) -> u64 {
        self.heard_us
    }

    /// The xid that the next request has.
    pub fn next_xid(&self) -> i32 {
        self.xid + 1
    }

    /// Begins a connection, on which the client asks for its session.
    pub fn open(&mut self, number: usize, now_us: u64) {
        self.number = Some(number);
        self.state = State::Greeting;
        self.heard_us = now_us;
        self.sent_us = now_us;
        self.input.clear();
    }

    /// The client has its session.
    pub fn on_session(&mut self, is_read_only: bool) {
        self.state = State::Connected;
        self.is_read_only = is_read_only;
    }

    /// Has the client wait for the end of the connection.
    pub fn wait_for_end(&mut self) {
        self.waits_for_end = true;
    }

    /// Has the client be content with what it hears until then.
    pub fn pretend_heard(&mut self, until_us: u64) {
        self.heard_us = until_us;
    }

    /// Forgets the connection without closing it. Returns its number.
    pub fn forget(&mut self) -> Option<usize> {
        self.number.take()
    }

    /// Ends the connection: what was under way is of unknown fate.
    pub fn close(&mut self, world: &mut World, network: &mut Network) {
        if let Some(number) = self.number.take() {
            network.close_by_client(world, number);
        }
        self.state = State::Away;
        self.is_read_only = false;
        self.waits_for_end = false;
        self.outstanding.clear();
        self.pings.clear();
    }

    // Sending.

    /// Appends the frame of a request, and notes that the request waits for its reply.
    pub fn request(&mut self, op: Op, now_us: u64, history: &mut History, out: &mut Vec<u8>) {
        let number = self.open_number();
        let xid = match op {
            Op::SetWatches { .. } | Op::SetWatches2 { .. } => XID_SET_WATCHES,
            Op::Auth { .. } => XID_AUTH,
            _ => {
                self.xid += 1;
                self.xid
            }
        };
        encode(&op, xid, out);
        self.outstanding.push_back((xid, history.invoke(number, op, now_us)));
    }

    /// Appends the frame of a ping.
    pub fn ping(&mut self, now_us: u64, history: &mut History, out: &mut Vec<u8>) {
        self.pings.push_back(history.invoke(self.open_number(), Op::Ping, now_us));
        Request::Ping.encode(XID_PING, out);
    }

    /// Sends frames.
    pub fn send(&mut self, bytes: &[u8], world: &mut World, network: &mut Network) {
        if bytes.is_empty() {
            return;
        }
        self.sent_us = world.now_us;
        network.send_up(world, self.open_number(), bytes);
    }

    fn open_number(&self) -> usize {
        self.number.expect("a connected client has a connection")
    }

    // Receiving.

    /// Takes the bytes that have arrived. Returns whether the connection has ended behind them.
    pub fn receive(&mut self, number: usize, now_us: u64, network: &mut Network) -> bool {
        let connection = &mut network.connections[number];
        if !connection.client_buffer.is_empty() {
            self.heard_us = self.heard_us.max(now_us);
            self.input.extend(connection.client_buffer.drain(..));
        }
        connection.client_end == End::Over
    }

    /// The next whole frame that has arrived, with its length before it.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        let length = u32::from_be_bytes(*self.input.first_chunk::<4>()?) as usize;
        if self.input.len() < 4 + length {
            return None;
        }
        let rest = self.input.split_off(4 + length);
        Some(core::mem::replace(&mut self.input, rest))
    }

    /// The number in the history of the request that a reply with this xid answers.
    ///
    /// # Errors
    /// Nobody waits for that reply now.
    pub fn answered(&mut self, xid: i32) -> Result<usize, String> {
        let waiting = match xid {
            XID_PING => self.pings.pop_front().map(|op| (XID_PING, op)),
            _ => self.outstanding.pop_front(),
        };
        match waiting {
            Some((asked, op)) if asked == xid => Ok(op),
            Some((asked, _)) => Err(format!("a reply to {xid} before the one to {asked}")),
            None => Err(format!("a reply to {xid}, which nobody asked")),
        }
    }

    /// The server has ended the connection.
    pub fn on_over(&mut self) {
        self.ended_count += usize::from(self.waits_for_end);
    }
}
