//! Keeps the *departed* connections: connections that ended before all of their commands were
//! answered.
//!
//! While the session lives, the commands of a departed connection may take effect, as after a lost
//! connection in ZooKeeper. Once the session has ended or has moved to another connection, these
//! commands cannot change anything and nobody waits for them, so Loop is asked to drop them.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::{ConnectionId, SessionId};

use crate::fronts::zk::limits::DEPARTED_CONNECTIONS_MAX;
use crate::message::Ticket;

/// The departed connections. One leaves when its commands are answered or its session has ended.
#[derive(Default)]
pub(super) struct Departed {
    /// For each connection, its session and the ticket of its last command.
    connections: HashMap<ConnectionId, (SessionId, Ticket), FixedState>,
    /// For each session, its departed connections.
    sessions: HashMap<SessionId, Vec<ConnectionId>, FixedState>,
}

impl Departed {
    /// Adds a connection that ended before its command with the ticket `last` was answered. At the
    /// bound it is not added; its commands are then not given up.
    pub fn insert(&mut self, id: ConnectionId, session: SessionId, last: Ticket) {
        if self.connections.len() < DEPARTED_CONNECTIONS_MAX {
            self.connections.insert(id, (session, last));
            self.sessions.entry(session).or_default().push(id);
        }
    }

    /// Takes the answer to a command. The commands of a connection are answered in order, so the
    /// answer to the last command removes the connection.
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

    /// Removes and returns the connections of a session that has ended or has moved to another
    /// connection. Their commands are to be given up.
    pub fn end(&mut self, session: SessionId) -> Vec<ConnectionId> {
        let ids = self.sessions.remove(&session).unwrap_or_default();
        ids.iter().for_each(|id| {
            self.connections.remove(id);
        });
        ids
    }

    /// Removes all connections: their commands will get no answers.
    pub fn clear(&mut self) {
        self.connections.clear();
        self.sessions.clear();
    }

    /// The number of departed connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }
}
