//! Names a request of a client that waits for an answer: its Front, its connection, and its number
//! on that connection.

use machine::ConnectionId;

/// The number of a connection runtime of this member, and of the Front that it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontId(pub u32);

/// The number of a request within its connection, counted in the order in which the Front hands
/// requests over. An answer repeats the ticket, because answers may come in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Where the answer to a request goes: to a Front, to one of its connections, for one of that
/// connection's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// The Front that received the request.
    pub front: FrontId,
    /// The connection of that Front.
    pub connection: ConnectionId,
    /// The request of that connection.
    pub ticket: Ticket,
}
