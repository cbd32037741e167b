//! The address of a request that waits for an answer.

use machine::ConnectionId;

/// A connection runtime of this member, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontId(pub u32);

/// A request of a connection, numbered in the order in which the connection hands them over. Each
/// answer names its ticket: nothing may be concluded from the order of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The place that the answer to a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// The Front of the requests.
    pub front: FrontId,
    /// The connection of that Front.
    pub connection: ConnectionId,
    /// The request of that connection.
    pub ticket: Ticket,
}
