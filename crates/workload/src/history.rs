//! The record of a run: everything that every ZooKeeper client sent and received, in order.
//!
//! The driver of the clients writes it, with one clock for all clients: a sequence number that
//! grows with every note. So "before" has a meaning across clients: a lower number.

use crate::op::{Answer, EventKind, Op};

/// The time of a note in a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// The number of the note; it grows with every note.
    pub sequence: u64,
    /// The driver's clock, in us.
    pub at_us: u64,
}

/// The end of an operation as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// When the reply arrived.
    pub moment: Moment,
    /// The zxid in the reply's header.
    pub zxid: i64,
    /// The error code in the reply's header.
    pub error: i32,
    /// The reply's body.
    pub answer: Answer,
}

/// An operation. Without a reply its fate is unknown: the connection ended before.
#[derive(Clone, Debug)]
pub struct OpRecord {
    /// The number of the connection that it was sent on.
    pub connection: usize,
    /// The operation.
    pub op: Op,
    /// When the operation was sent.
    pub invoked: Moment,
    /// The reply; `None` if none arrived.
    pub completed: Option<Completed>,
}

/// A message that a client received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The connection has a session: a new one, or the one that it asked for.
    Connected {
        /// The session id.
        session: i64,
        /// The negotiated timeout, in ms.
        timeout_ms: u32,
        /// The password that a client must send to get the session again.
        password: [u8; 16],
    },
    /// The server has no leader and serves this connection in read-only mode, with this session: a
    /// local one that no other server knows, or the one that the client asked for.
    ConnectedReadOnly {
        /// The session id.
        session: i64,
        /// The password that a client must send to get the session again.
        password: [u8; 16],
    },
    /// The server refused the session that the client asked for, because the session is gone.
    Refused,
    /// The reply to the operation with this number.
    Reply(usize),
    /// A watch fired. `zxid` is -1 if the change was missed before the watch was set again.
    Event {
        /// The zxid of the transaction, or -1.
        zxid: i64,
        /// The kind of change.
        kind: EventKind,
        /// The path of the znode.
        path: String,
    },
}

/// A connection of a client, with everything sent and received on it, in order.
#[derive(Clone, Debug, Default)]
pub struct ConnectionRecord {
    /// The client's number.
    pub client: u32,
    /// The session that the client asked for; 0 for a new one.
    pub session_asked: i64,
    /// The password that the client sent for that session.
    pub password_asked: [u8; 16],
    /// Whether the client said that it accepts read-only mode.
    pub takes_read_only: bool,
    /// The lowest zxid that a reply may show: the client had already seen it, or the server had
    /// applied it when the client connected. 0 if the driver does not know.
    pub zxid_floor: i64,
    /// The numbers of the operations sent, in order.
    pub sent: Vec<usize>,
    /// The messages received, in order.
    pub received: Vec<Received>,
    /// When the client asked for the session; `None` if the driver does not note that.
    pub asked: Option<Moment>,
    /// When the client was told about its session; `None` if the driver does not note that.
    pub told: Option<Moment>,
}

impl ConnectionRecord {
    /// The session in read-only mode; `None` if the connection is not in that mode.
    pub fn read_only_session(&self) -> Option<i64> {
        self.received.iter().find_map(|received| match received {
            Received::ConnectedReadOnly { session, .. } => Some(*session),
            _ => None,
        })
    }

    /// Whether the server must refuse this operation on this connection because it has no leader.
    pub fn refuses(&self, op: &Op) -> bool {
        self.read_only_session().is_some() && op.needs_leader(self.session_asked == 0)
    }
}

/// The record of a whole run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All operations; the position is the operation's number.
    pub ops: Vec<OpRecord>,
    /// All connections; the position is the connection's number.
    pub connections: Vec<ConnectionRecord>,
    sequence: u64,
}

impl History {
    /// The time of a new note.
    pub fn moment(&mut self, at_us: u64) -> Moment {
        self.sequence += 1;
        Moment { sequence: self.sequence, at_us }
    }

    /// Notes that a client asks for a session on a new connection. Returns the connection's number.
    pub fn connect(&mut self, client: u32, session_asked: i64, password_asked: [u8; 16]) -> usize {
        self.connections.push(ConnectionRecord {
            client,
            session_asked,
            password_asked,
            ..ConnectionRecord::default()
        });
        self.connections.len() - 1
    }

    /// Notes that the client has asked for its session now.
    pub fn note_asked(&mut self, connection: usize, at_us: u64) {
        let moment = self.moment(at_us);
        self.connections[connection].asked = Some(moment);
    }

    /// Notes that the client has been told about its session now.
    pub fn note_told(&mut self, connection: usize, at_us: u64) {
        let moment = self.moment(at_us);
        self.connections[connection].told = Some(moment);
    }

    /// Notes that an operation is sent. Returns its number.
    pub fn invoke(&mut self, connection: usize, op: Op, at_us: u64) -> usize {
        let invoked = self.moment(at_us);
        self.ops.push(OpRecord { connection, op, invoked, completed: None });
        let number = self.ops.len() - 1;
        self.connections[connection].sent.push(number);
        number
    }

    /// Notes the reply to an operation.
    pub fn complete(&mut self, number: usize, zxid: i64, error: i32, answer: Answer, at_us: u64) {
        let moment = self.moment(at_us);
        let record = &mut self.ops[number];
        assert!(record.completed.is_none(), "a reply is noted once");
        record.completed = Some(Completed { moment, zxid, error, answer });
        let connection = record.connection;
        self.connections[connection].received.push(Received::Reply(number));
    }

    /// Notes a received message that is not a reply.
    pub fn receive(&mut self, connection: usize, what: Received) {
        self.connections[connection].received.push(what);
    }
}
