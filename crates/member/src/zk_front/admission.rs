//! Connections without a session: since when, what they wait for, and the ids that they are given.

use std::collections::VecDeque;

use machine::ConnectionId;
use zk::auth::session_secret;

use crate::message::FrontId;

/// The connections that have no session yet.
#[derive(Default)]
pub(super) struct Admission {
    /// All of them, by the time at which they were accepted.
    pub accepted: VecDeque<(u64, ConnectionId)>,
    /// Connections that asked Loop for a session. They leave when they are answered or over.
    pub connecting: Vec<ConnectionId>,
    /// Connections that are over and whose commands are to be given up: those that ended before
    /// they had a session, or whose session has ended. Loop is told at the next tick.
    pub withdrawn: Vec<ConnectionId>,
    secrets_drawn: u64,
}

impl Admission {
    /// Whether the clock is needed for any of them.
    pub fn is_busy(&self) -> bool {
        !self.accepted.is_empty() || !self.connecting.is_empty() || !self.withdrawn.is_empty()
    }

    /// The next 32 bytes that nobody can guess who does not know the Front's secret.
    pub fn draw(&mut self, secret: &[u8; 32], front: FrontId) -> [u8; 32] {
        self.secrets_drawn += 1;
        session_secret(secret, front.0, self.secrets_drawn)
    }
}
