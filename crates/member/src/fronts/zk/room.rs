//! The room for replies: decides which replies wait for room, which are refused, and which clients
//! are disconnected to free room.
//!
//! All ZooKeeper Fronts of a member and its Apply share one room ([`ReplyRoom`](crate::ReplyRoom)),
//! a bound on the bytes of replies that clients have not taken. While it is full, a connection gets
//! only small replies, and only if its client reads them. Other connections are *parked*: they wait
//! until there is room, and after some time their reads are refused. Each tick looks for room too,
//! because another Front may have freed some. A client that does not read its replies would keep
//! the room full for ever. So while the room is nearly full, a client that has read next to nothing
//! for some seconds is disconnected.

use machine::{ConnectionId, SessionId};
use zk::ErrorCode;
use zk::limits::RESULT_BYTES_MAX;
use zk::response::{ReplyHeader, encode_empty};

use super::ZkFront;
use super::connection::{Slot, SlotKind, State};
use crate::fronts::zk::limits::{OUTPUT_STALL_MS, PARKED_RESUMED_MAX};

/// The bytes and reads that a Front holds for its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBytes {
    /// Bytes of output that the sockets have not taken, or whose memory is not freed yet.
    pub output: usize,
    /// Bytes that were read from sockets and not decoded.
    pub input: usize,
    /// Bytes of commands that are in the batch or at Loop, and are not answered.
    pub commands: usize,
    /// How many reads travel with these commands.
    pub travelling_reads: usize,
}

/// A reply to a read that was refused because it was larger than the configuration allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedReply {
    /// The session of the read.
    pub session: i64,
    /// The path of the read, or of the first of several reads.
    pub path: String,
    /// The size of the reply in bytes.
    pub bytes: u64,
}

impl ZkFront {
    /// The bytes and reads that this Front holds. Sums them over all connections, for tests of its
    /// bounds.
    pub fn held_bytes(&self) -> HeldBytes {
        let connections = || self.connections.values();
        let output = connections().map(|connection| connection.output.held_bytes()).sum();
        let counted: usize = connections().map(|connection| connection.output.counted()).sum();
        assert!(counted == self.held.output);
        HeldBytes {
            output,
            input: connections().map(|connection| connection.input.len()).sum(),
            commands: self.commands.bytes,
            travelling_reads: self.held.travelling_reads,
        }
    }

    /// Updates the sum of held output with the output of one connection, and reports it to the
    /// room.
    pub(super) fn count_output(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.output.count_in(&mut self.held.output);
        self.held.tell(&self.config.replies, self.connections.is_empty());
    }

    /// Parks a connection whose oldest request needs room for its reply. If that request has waited
    /// too long, it is refused instead: nothing was read, and the client may ask again. Returns
    /// true if it was refused.
    pub(super) fn wait_for_room(&mut self, id: ConnectionId, bytes: u64, zxid: i64) -> bool {
        let now_ms = self.now.monotonic_ms;
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        connection.room.begin(now_ms);
        if !connection.has_waited_for_room(now_ms) {
            self.park(id, bytes);
            return false;
        }
        self.metrics.replies_timed_out += 1;
        let slot = self.pop_slot(id);
        let header = ReplyHeader { xid: slot.xid, zxid, error: ErrorCode::OPERATION_TIMEOUT };
        self.reply(id, &slot, zxid, |out| encode_empty(header, out));
        self.settle(id);
        true
    }

    /// Parks a connection until there is room for its next reply, of `bytes` bytes.
    pub(super) fn park(&mut self, id: ConnectionId, bytes: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.room.park() {
            self.held.parked.push_back((id, bytes));
        }
    }

    /// Resumes parked connections for whose replies there is room, or that have waited too long. A
    /// reply that does not fit yet does not keep smaller ones waiting.
    pub(super) fn unpark(&mut self) {
        let now_ms = self.now.monotonic_ms;
        for _ in 0..PARKED_RESUMED_MAX.min(self.held.parked.len()) {
            let Some((id, bytes)) = self.held.parked.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if !connection.room.is_parked() {
                continue;
            }
            if !self.config.replies.takes(bytes) && !connection.has_waited_for_room(now_ms) {
                self.held.parked.push_back((id, bytes));
                continue;
            }
            connection.room.unpark();
            self.enqueue_if_runnable(id);
            self.turns.resumable.push(id);
        }
    }

    /// Disconnects clients that read next to nothing while the room is nearly full.
    pub(super) fn end_slow_readers(&mut self) {
        if !self.config.replies.is_tight() {
            self.held.tight_since_ms = None;
            return;
        }
        let now_ms = self.now.monotonic_ms;
        let is_due = match self.held.tight_since_ms {
            Some(since_ms) if now_ms < since_ms + OUTPUT_STALL_MS => return,
            // The counts of an earlier time of need are too old.
            None => false,
            Some(_) => true,
        };
        self.held.tight_since_ms = Some(now_ms);
        let mut slow = Vec::new();
        for (id, connection) in &mut self.connections {
            if connection.output.look_for_slow() && is_due {
                slow.push(*id);
            }
        }
        slow.sort_unstable();
        for id in slow {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if !connection.output.is_slow() || matches!(connection.state, State::Closing) {
                continue;
            }
            let bytes = connection.output.bytes();
            connection.output.forget();
            self.metrics.slow_takers_ended += 1;
            self.disconnect(id, &format!("it leaves {bytes} bytes unread that others need"));
        }
    }

    /// Whether a reply of `bytes` bytes is larger than the configuration or the protocol allows.
    pub(super) fn is_too_large_a_reply(&self, bytes: u64) -> bool {
        bytes > self.result_bytes_max()
    }

    /// The most bytes that the result of a read may have.
    pub(super) fn result_bytes_max(&self) -> u64 {
        self.config.reply_bytes_max.unwrap_or(u64::MAX).min(RESULT_BYTES_MAX)
    }

    /// Answers a read whose reply would be too large with a marshalling error. All clients know
    /// this error, it says that nothing was read, and no client retries because of it.
    pub(super) fn refuse_reply(
        &mut self,
        id: ConnectionId,
        slot: &Slot,
        zxid: i64,
        path: &str,
        bytes: u64,
    ) {
        let session = self.connections.get(&id).and_then(|connection| connection.session);
        let session = session.unwrap_or(SessionId(0)).0;
        self.metrics.replies_refused += 1;
        self.metrics.last_refused_reply = Some(RefusedReply { session, path: path.into(), bytes });
        let now_ms = self.now.monotonic_ms;
        if let Some(count) = self.held.on_refused(now_ms) {
            let others = match count {
                0 => String::new(),
                count => format!("; {count} others since the last that was told"),
            };
            let of = format!("session {session:#x}, {path}");
            self.notice(id, &format!("a reply of {bytes} bytes is refused: {of}{others}"));
        }
        let header = ReplyHeader { xid: slot.xid, zxid, error: ErrorCode::MARSHALLING_ERROR };
        self.reply(id, slot, zxid, |out| encode_empty(header, out));
    }

    /// Takes back `count` reads that travelled but that Apply did not run. They are at the front of
    /// the window. This Front runs them, unless a later write of the session is under way: then
    /// they could show that write, so they are refused with a timeout, which says that nothing was
    /// read and that the client may ask again.
    pub(super) fn take_back(&mut self, id: ConnectionId, count: usize, zxid: i64) {
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        let is_own_command =
            |slot: &Slot| matches!(slot.kind, SlotKind::Write { .. } | SlotKind::Close { .. });
        connection.room.note_large_reply();
        if connection.window.iter().any(is_own_command) {
            for _ in 0..count {
                let slot = self.pop_slot(id);
                self.metrics.travelling_reads_refused += 1;
                let header =
                    ReplyHeader { xid: slot.xid, zxid, error: ErrorCode::OPERATION_TIMEOUT };
                self.reply(id, &slot, zxid, |out| encode_empty(header, out));
            }
            return;
        }
        connection.window.take_back(count);
        self.held.travelling_reads -= count;
    }
}
