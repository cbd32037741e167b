//! Connections without a session: since when, what they wait for, and the ids that they are given.

use std::collections::VecDeque;

use machine::ConnectionId;
use zk::auth::session_secret;

use crate::message::FrontId;

/// The connections that have no session yet.
#[derive(Default)]
pub(super) struct Admission {
    /// All connections without a session, by the time at which they were accepted.
    pub accepted: VecDeque<(u64, ConnectionId)>,
    /// Connections that asked Loop for a session. They leave the list when they are answered or
    /// over.
    pub connecting: Vec<ConnectionId>,
    /// Connections that are over and whose commands Loop is to give up: they ended before they had
    /// a session, or their session has ended. Loop is told at the next tick.
    pub withdrawn: Vec<ConnectionId>,
    secrets_drawn: u64,
}

impl Admission {
    /// Whether any of them needs the clock.
    pub fn is_busy(&self) -> bool {
        !self.accepted.is_empty() || !self.connecting.is_empty() || !self.withdrawn.is_empty()
    }

    /// The next 32 bytes; only one who knows the Front's secret can guess them.
    pub fn draw(&mut self, secret: &[u8; 32], front: FrontId) -> [u8; 32] {
        self.secrets_drawn += 1;
        session_secret(secret, front.0, self.secrets_drawn)
    }
}
