//! Connections that ended before all commands that they had handed over were answered.
//!
//! While the session lives such commands may take effect, like the commands of a ZooKeeper client
//! that lost its connection. Once the session has ended, or belongs to another connection, they
//! change nothing and nobody waits for them: Loop is asked to give them up.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::{ConnectionId, SessionId};

use crate::fronts::zk::limits::DEPARTED_CONNECTIONS_MAX;
use crate::message::Ticket;

/// Ended connections, until their commands are answered or their session has ended.
#[derive(Default)]
pub(super) struct Departed {
    /// The session of each connection, and the ticket of its last command.
    connections: HashMap<ConnectionId, (SessionId, Ticket), FixedState>,
    /// The connections of each session.
    sessions: HashMap<SessionId, Vec<ConnectionId>, FixedState>,
}

impl Departed {
    /// Adds a connection that ended before its command with the ticket `last` was answered. At the
    /// bound it is not kept: its commands are then not given up.
    pub fn insert(&mut self, id: ConnectionId, session: SessionId, last: Ticket) {
        if self.connections.len() < DEPARTED_CONNECTIONS_MAX {
            self.connections.insert(id, (session, last));
            self.sessions.entry(session).or_default().push(id);
        }
    }

    /// Takes the answer to a command of an ended connection. Its commands are answered in order.
    pub fn on_answer(&mut self, id: ConnectionId, ticket: Ticket) {
        let Some(&(session, last)) = self.connections.get(&id) else { return };
        if ticket < last {
            return;
        }
        self.connections.remove(&id);
        if let Some(ids) = self.sessions.get_mut(&session) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.sessions.remove(&session);
            }
        }
    }

    /// The session has ended, or belongs to another connection. Returns the connections whose
    /// commands are to be given up.
    pub fn end(&mut self, session: SessionId) -> Vec<ConnectionId> {
        let ids = self.sessions.remove(&session).unwrap_or_default();
        ids.iter().for_each(|id| {
            self.connections.remove(id);
        });
        ids
    }

    /// Forgets all connections: their commands get no answers any more.
    pub fn clear(&mut self) {
        self.connections.clear();
        self.sessions.clear();
    }

    /// How many connections are kept.
    pub fn len(&self) -> usize {
        self.connections.len()
    }
}
