//! Keeps the connections that have no session yet, and the connections whose commands Loop must
//! drop because nobody waits for the answers any more. Makes the secret bytes for new session ids,
//! passwords and nonces, and for the random choices of the throttle.

use std::collections::VecDeque;

use machine::ConnectionId;
use zk::auth::session_secret;

use crate::message::FrontId;

/// The connections that have no session yet, and the connections whose commands Loop must drop.
#[derive(Default)]
pub(super) struct Admission {
    /// When each connection was accepted, in ms, oldest first. Connections that have a session by
    /// now leave the list when they reach its front.
    pub accepted: VecDeque<(u64, ConnectionId)>,
    /// Connections that have asked Loop for a session. A connection leaves the list once it is
    /// answered or has ended.
    pub connecting: Vec<ConnectionId>,
    /// Connections whose commands Loop is to give up: they ended before they had a session, or
    /// their session has ended. The next tick tells Loop.
    pub withdrawn: Vec<ConnectionId>,
    secrets_drawn: u64,
}

impl Admission {
    /// Whether one of these lists has entries, so that the Front needs ticks.
    pub fn is_busy(&self) -> bool {
        !self.accepted.is_empty() || !self.connecting.is_empty() || !self.withdrawn.is_empty()
    }

    /// Returns 32 new bytes that nobody can guess without the Front's secret.
    pub fn draw(&mut self, secret: &[u8; 32], front: FrontId) -> [u8; 32] {
        self.secrets_drawn += 1;
        session_secret(secret, front.0, self.secrets_drawn)
    }
}
