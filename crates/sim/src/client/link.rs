//! A client's connection: what it has sent, which replies it waits for, and the bytes that have
//! arrived.

use std::collections::VecDeque;

use workload::history::History;
use workload::op::Op;
use zk::request::{Request, XID_AUTH, XID_PING, XID_SET_WATCHES};

use super::wire::encode;
use crate::network::{End, Network};
use crate::world::World;

/// How far a client has come with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No connection.
    Away,
    /// Connected, and waiting for the session.
    Greeting,
    /// Connected, with a session.
    Connected,
}

/// A client's connection, or the lack of one.
pub(super) struct Link {
    state: State,
    /// The number of the connection; `None` without one.
    number: Option<usize>,
    /// The xid of the last request, on this connection or an earlier one.
    xid: i32,
    /// Each unanswered request: its xid and its number in the history, oldest first.
    outstanding: VecDeque<(i32, usize)>,
    pings: VecDeque<usize>,
    input: Vec<u8>,
    sent_us: u64,
    heard_us: u64,
    /// Whether the member is in read-only mode on this connection.
    is_read_only: bool,
    /// Whether the client has sent a bad frame and waits for the end of the connection.
    waits_for_end: bool,
    /// How many connections a server closed because of a bad frame.
    ended_count: usize,
}

impl Link {
    /// No connection yet.
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

    /// The state of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// The number of the connection; `None` without one.
    pub fn number(&self) -> Option<usize> {
        self.number
    }

    /// Whether the member is in read-only mode on this connection.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether the client waits for the end of the connection, behind a bad frame.
    pub fn waits_for_end(&self) -> bool {
        self.waits_for_end
    }

    /// How many connections a server closed because of a bad frame.
    pub fn ended_count(&self) -> usize {
        self.ended_count
    }

    /// How many requests are unanswered, not counting pings.
    pub fn outstanding_count(&self) -> u64 {
        self.outstanding.len() as u64
    }

    /// Whether no request is unanswered.
    pub fn is_answered(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// When the client last sent something, in us.
    pub fn sent_us(&self) -> u64 {
        self.sent_us
    }

    /// When the client last received something, in us.
    pub fn heard_us(&self) -> u64 {
        self.heard_us
    }

    /// The xid of the next request.
    pub fn next_xid(&self) -> i32 {
        self.xid + 1
    }

    /// A new connection, on which the client asks for its session.
    pub fn open(&mut self, number: usize, now_us: u64) {
        self.number = Some(number);
        self.state = State::Greeting;
        self.heard_us = now_us;
        self.sent_us = now_us;
        self.input.clear();
    }

    /// The client has got its session.
    pub fn on_session(&mut self, is_read_only: bool) {
        self.state = State::Connected;
        self.is_read_only = is_read_only;
    }

    /// Makes the client wait for the end of the connection.
    pub fn wait_for_end(&mut self) {
        self.waits_for_end = true;
    }

    /// Sets the time of the last reception, so that the client waits longer before it assumes that
    /// the server is dead.
    pub fn pretend_heard(&mut self, until_us: u64) {
        self.heard_us = until_us;
    }

    /// Forgets the connection without closing it. Returns its number.
    pub fn forget(&mut self) -> Option<usize> {
        self.number.take()
    }

    /// Closes the connection: the fate of unanswered requests is unknown.
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

    /// Appends the frame of a request to `out`, and notes that it waits for a reply.
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

    /// Appends the frame of a ping to `out`.
    pub fn ping(&mut self, now_us: u64, history: &mut History, out: &mut Vec<u8>) {
        self.pings.push_back(history.invoke(self.open_number(), Op::Ping, now_us));
        Request::Ping.encode(XID_PING, out);
    }

    /// Sends the frames in `bytes`.
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

    /// The next whole frame that has arrived, with its length field; `None` if there is none.
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
    /// The client does not wait for that reply now.
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
