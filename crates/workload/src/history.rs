//! Everything that every client sent and received, in the order in which it happened.
//!
//! The driver of the clients writes it, with one clock for all of them: a sequence that grows with
//! each note, so that "before" has a meaning across clients.

use crate::op::{Answer, EventKind, Op};

/// The time of a note.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// The number of the note; grows with every note.
    pub sequence: u64,
    /// The driver's clock, in microseconds.
    pub at_us: u64,
}

/// The end of an operation, as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The time when the reply came.
    pub moment: Moment,
    /// The zxid in the reply's header.
    pub zxid: i64,
    /// The error code in the reply's header.
    pub error: i32,
    /// The reply's body.
    pub answer: Answer,
}

/// One operation. Without an end its fate is unknown: the connection died before the reply.
#[derive(Clone, Debug)]
pub struct OpRecord {
    /// The number of the connection that it was sent on.
    pub connection: usize,
    /// The operation.
    pub op: Op,
    /// The time when it was sent.
    pub invoked: Moment,
    /// The reply; `None` if none came.
    pub completed: Option<Completed>,
}

/// Something a client received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The session was opened, or given to this connection.
    Connected {
        /// The session's id.
        session: i64,
        /// The negotiated timeout.
        timeout_ms: u32,
        /// The password that a client must show to have the session again.
        password: [u8; 16],
    },
    /// The server has no leader and serves this connection reads only, with this session: one that
    /// no other server knows, or the one that was asked for.
    ConnectedReadOnly {
        /// The session's id.
        session: i64,
        /// The password that a client must show to have the session again.
        password: [u8; 16],
    },
    /// The session is gone.
    Refused,
    /// The reply to the operation with that number.
    Reply(usize),
    /// A watch fired. `zxid` is -1 for a change that was missed before watches were set again.
    Event {
        /// The zxid of the transaction.
        zxid: i64,
        /// The kind of the change.
        kind: EventKind,
        /// The path of the znode.
        path: String,
    },
}

/// One connection of a client, in the order in which things were sent and received.
#[derive(Clone, Debug, Default)]
pub struct ConnectionRecord {
    /// The client's number.
    pub client: u32,
    /// The session it asked for; 0 for a new one.
    pub session_asked: i64,
    /// The password that it showed for that session.
    pub password_asked: [u8; 16],
    /// Whether the client said that it can do with reads.
    pub takes_read_only: bool,
    /// Each reply shows this zxid or a later one: the client had seen it, or the server had applied
    /// it when the client connected. 0 where the driver does not know.
    pub zxid_floor: i64,
    /// Numbers of the operations sent, in order.
    pub sent: Vec<usize>,
    /// Messages received, in order.
    pub received: Vec<Received>,
    /// The time when it asked for the session, where the driver notes that.
    pub asked: Option<Moment>,
    /// The time when it was told about its session, where the driver notes that.
    pub told: Option<Moment>,
}

impl ConnectionRecord {
    /// The session that serves the client reads only, if it has one.
    pub fn read_only_session(&self) -> Option<i64> {
        self.received.iter().find_map(|received| match received {
            Received::ConnectedReadOnly { session, .. } => Some(*session),
            _ => None,
        })
    }

    /// Whether the server refuses this operation on this connection for want of a leader.
    pub fn refuses(&self, op: &Op) -> bool {
        self.read_only_session().is_some() && op.needs_leader(self.session_asked == 0)
    }
}

/// The notes of a whole run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All operations; the position is the number.
    pub ops: Vec<OpRecord>,
    /// All connections; the position is the number.
    pub connections: Vec<ConnectionRecord>,
    sequence: u64,
}

impl History {
    /// The next moment.
    pub fn moment(&mut self, at_us: u64) -> Moment {
        self.sequence += 1;
        Moment { sequence: self.sequence, at_us }
    }

    /// Notes that a client asks for a session on a new connection; returns the connection's number.
    pub fn connect(&mut self, client: u32, session_asked: i64, password_asked: [u8; 16]) -> usize {
        self.connections.push(ConnectionRecord {
            client,
            session_asked,
            password_asked,
            ..ConnectionRecord::default()
        });
        self.connections.len() - 1
    }

    /// Notes that the session was asked for just now.
    pub fn note_asked(&mut self, connection: usize, at_us: u64) {
        let moment = self.moment(at_us);
        self.connections[connection].asked = Some(moment);
    }

    /// Notes that the client was told about its session just now.
    pub fn note_told(&mut self, connection: usize, at_us: u64) {
        let moment = self.moment(at_us);
        self.connections[connection].told = Some(moment);
    }

    /// Notes that an operation is sent; returns its number.
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

    /// Notes a message that is not a reply.
    pub fn receive(&mut self, connection: usize, what: Received) {
        self.connections[connection].received.push(what);
    }
}
