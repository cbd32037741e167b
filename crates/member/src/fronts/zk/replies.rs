//! Writes the replies to the requests in a connection's window, in the order of the requests, and
//! gives back the credit that each request held.

use machine::control::list_change::{ChangeId, ChangeRefused, LeaderRefused};
use machine::reply::ControlOutcome;
use machine::zk::CONFIG_PATH;
use machine::{ConnectionId, Mark, Outcome, Refusal};
use zk::ErrorCode;
use zk::request::{ReadKind, XID_PING};
use zk::response::{
    ReplyHeader, encode_empty, encode_ephemerals, encode_sasl, encode_sync, encode_unavailable,
    encode_who_am_i, encode_write,
};

use super::answered::of_zk;
use super::connection::{Asked, Slot, SlotKind, State};
use super::journal::AuditResult;
use super::namespaces::Written;
use super::{LENGTH_BYTES, ZkFront};
use crate::identities::borrow;
use crate::limits::SMALL_REPLY_BYTES;
use crate::local_read::{OwnedRead, ReadAnswer, ReadOutcome};
use crate::message::{Answered, Ticket, Unavailable};

impl ZkFront {
    /// Adds a request to the window of its connection, and takes its credit.
    pub(super) fn push_slot(&mut self, asked: Asked, kind: SlotKind) {
        let Asked { id, xid, ticket, large_bytes } = asked;
        match &kind {
            SlotKind::Write { bytes, .. } | SlotKind::Close { bytes } => self.commands.take(*bytes),
            SlotKind::Sync { .. } => self.commands.take(0),
            SlotKind::TravellingRead(_) => self.held.travelling_reads += 1,
            _ => {}
        }
        let received_ms = self.now.monotonic_ms;
        let (pending, written) = (None, Written::Nothing);
        let connection = self.connections.get_mut(&id).expect("its frame was just decoded");
        let slot = Slot { xid, ticket, received_ms, kind, large_bytes, pending, written };
        connection.window.push(slot);
        self.traffic.outstanding += 1;
    }

    /// Gives back the credit of a request that is answered, or whose connection has ended.
    pub(super) fn give_back(&mut self, slot: &Slot) {
        self.traffic.outstanding -= 1;
        self.config.throttle.end_request(slot.large_bytes);
        match &slot.kind {
            SlotKind::Write { bytes, .. } | SlotKind::Close { bytes } => {
                self.commands.give_back(*bytes);
            }
            SlotKind::Sync { .. } => self.commands.give_back(0),
            SlotKind::TravellingRead(_) => self.held.travelling_reads -= 1,
            _ => {}
        }
    }

    pub(super) fn has_credit(&self) -> bool {
        self.commands.has_credit(self.config.commands_max)
    }

    /// Removes the oldest request from the window, which must not be empty, and gives its credit
    /// back.
    pub(super) fn pop_slot(&mut self, id: ConnectionId) -> Slot {
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        let slot = connection.pop_slot().expect("the caller checked that it exists");
        self.give_back(&slot);
        slot
    }

    /// Answers the requests at the front of the window that need nothing more. If the next one
    /// needs the lock, puts the connection into the list of runnable connections.
    pub(super) fn settle(&mut self, id: ConnectionId) {
        loop {
            let Some(connection) = self.connections.get(&id) else { return };
            let Some(first) = connection.window.front() else { break };
            let ready = match first {
                SlotKind::Ping
                | SlotKind::WhoAmI(_)
                | SlotKind::AuthAccepted
                | SlotKind::Sasl { .. }
                | SlotKind::EphemeralsFound { .. }
                | SlotKind::Failed { .. } => true,
                SlotKind::Sync { done, .. } => *done,
                _ => false,
            };
            if !ready {
                break;
            }
            let slot = self.pop_slot(id);
            self.answer_ready(id, slot);
        }
        self.enqueue_if_runnable(id);
    }

    fn answer_ready(&mut self, id: ConnectionId, slot: Slot) {
        let last_zxid = self.last_zxid;
        let xid = slot.xid;
        let header = |zxid, error| ReplyHeader { xid, zxid, error };
        match &slot.kind {
            SlotKind::Ping => {
                let header = ReplyHeader { xid: XID_PING, zxid: last_zxid, error: ErrorCode::OK };
                self.reply(id, &slot, last_zxid, |out| encode_empty(header, out));
            }
            SlotKind::WhoAmI(identities) => {
                let identities = borrow(identities);
                self.reply(id, &slot, last_zxid, |out| {
                    encode_who_am_i(xid, last_zxid, &identities, out);
                });
            }
            SlotKind::AuthAccepted => {
                let header = header(0, ErrorCode::OK);
                self.reply(id, &slot, 0, |out| encode_empty(header, out));
            }
            SlotKind::Sasl { token, error, close } => {
                let header = header(0, *error);
                self.reply(id, &slot, 0, |out| encode_sasl(header, token.as_deref(), out));
                if *close {
                    self.close_after_output(id);
                }
            }
            SlotKind::Failed { error, zxid, close } => {
                let header = header(zxid.unwrap_or(last_zxid), *error);
                self.reply(id, &slot, header.zxid, |out| encode_empty(header, out));
                if *close {
                    self.close_after_output(id);
                }
            }
            SlotKind::EphemeralsFound { paths, zxid } => {
                let bytes = paths.iter().map(|path| 4 + path.len()).sum();
                self.reply(id, &slot, *zxid, |out| encode_ephemerals(xid, *zxid, paths, out));
                self.note_reply(id, bytes);
            }
            SlotKind::Sync { path, .. } => {
                self.reply(id, &slot, last_zxid, |out| {
                    encode_sync(xid, last_zxid, path.as_deref(), out)
                });
            }
            _ => unreachable!("settle answers only what is ready"),
        }
    }

    /// Appends a reply to the output, and counts it in the statistics.
    pub(super) fn reply(
        &mut self,
        id: ConnectionId,
        slot: &Slot,
        zxid: i64,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let bytes = (connection.output.append(encode) - LENGTH_BYTES) as u64;
        let elapsed_ms = now.monotonic_ms.saturating_sub(slot.received_ms);
        let stats = &mut connection.stats;
        stats.sent += 1;
        stats.latency.record(elapsed_ms);
        stats.last_zxid = stats.last_zxid.max(zxid);
        stats.last_response_ms = now.wall_ms;
        self.traffic.sent += 1;
        self.traffic.latency.record(elapsed_ms);
        self.metrics.response_bytes += bytes;
        self.metrics.response_size.record(bytes, now.monotonic_ms);
        match &slot.kind {
            SlotKind::Write { .. } | SlotKind::Close { .. } => {
                self.metrics.update_latency.record(elapsed_ms, now.monotonic_ms);
            }
            SlotKind::AuthAccepted => {}
            _ => self.metrics.read_latency.record(elapsed_ms, now.monotonic_ms),
        }
        let read = match &slot.kind {
            SlotKind::Read(read) | SlotKind::TravellingRead(read) => Some(read),
            SlotKind::List(list) => Some(&list.read),
            _ => None,
        };
        if let Some(read) = read {
            self.metrics.namespaces.on_read(read.kind, &read.path, bytes);
        }
        self.note_slow(id, slot, elapsed_ms);
        self.mark_dirty(id);
    }

    /// Refuses a request with an error. With `close`, the reply ends the connection.
    pub(super) fn fail(&mut self, asked: Asked, error: ErrorCode, zxid: Option<i64>, close: bool) {
        self.push_slot(asked, SlotKind::Failed { error, zxid, close });
        if close {
            self.forget_input(asked.id);
        }
        self.settle(asked.id);
    }

    /// Drops the undecoded input of a connection that a reply is about to close.
    pub(super) fn forget_input(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.input.clear();
        }
    }

    pub(super) fn on_command(
        &mut self,
        (id, ticket): (ConnectionId, Ticket),
        mark: Mark,
        answered: Answered,
        reads: Vec<ReadAnswer>,
    ) {
        match self.connections.get(&id).map(|connection| &connection.state) {
            Some(State::Connecting { .. }) => {
                assert!(reads.is_empty());
                self.on_session(id, &of_zk(answered));
                return;
            }
            Some(State::Attached) => {}
            _ => {
                self.departed.on_answer(id, ticket);
                return;
            }
        }
        if let Ok(Outcome::Control(ControlOutcome::Requested(requested))) = answered {
            return self.on_requested(id, mark, requested);
        }
        let answered = &of_zk(answered);
        let slot = self.pop_slot(id);
        assert!(slot.ticket == ticket, "a session's commands are applied in its order");
        let (xid, zxid) = (slot.xid, mark.zxid.0);
        self.audit(id, &slot, answered);
        self.metrics.namespaces.on_written(&slot.written, answered);
        match (&slot.kind, answered) {
            // As in `FinalRequestProcessor`: a connection is closed if its session has moved.
            (_, Ok(Err(Refusal::SessionMoved))) => {
                self.disconnect(id, "its session moved to another connection");
                return;
            }
            (SlotKind::Write { form, .. }, Ok(outcome)) => {
                self.reply(id, &slot, zxid, |out| encode_write(xid, zxid, form, outcome, out));
            }
            (SlotKind::Close { .. }, Ok(outcome)) => {
                let error = outcome.as_ref().err().map_or(ErrorCode::OK, ErrorCode::of);
                let header = ReplyHeader { xid, zxid, error };
                self.reply(id, &slot, zxid, |out| encode_empty(header, out));
                self.end_session(id);
                return;
            }
            (SlotKind::Write { form, .. }, Err(reason)) => {
                let error = unavailable_code(*reason);
                self.reply(id, &slot, zxid, |out| encode_unavailable(xid, zxid, form, error, out));
            }
            (SlotKind::Close { .. } | SlotKind::Reconfig { .. }, Err(reason)) => {
                let header = ReplyHeader { xid, zxid, error: unavailable_code(*reason) };
                self.reply(id, &slot, zxid, |out| encode_empty(header, out));
            }
            _ => unreachable!("answers come in the order of the window"),
        }
        if self.answer_travelled(id, reads, mark) {
            self.settle(id);
            self.turns.resumable.push(id);
        }
    }

    /// Takes the outcome of a request to change the servers: the change is open, or was refused.
    fn on_requested(
        &mut self,
        id: ConnectionId,
        mark: Mark,
        requested: Result<ChangeId, ChangeRefused>,
    ) {
        match requested {
            Ok(change) => {
                self.turns.reconfiguring = Some((change, id));
                let connection = self.connections.get_mut(&id);
                connection.into_iter().for_each(|it| {
                    it.window.replace_front(SlotKind::Reconfiguring);
                });
            }
            Err(ChangeRefused::SessionMoved) => {
                self.disconnect(id, "its session moved to another connection");
            }
            Err(refused) => self.refuse_reconfig(id, mark.zxid.0, code_of_refused(refused)),
        }
    }

    /// Takes the end of a change of the servers: the connection that asked for it gets the new
    /// list, as a read of its znode, or the error.
    pub(super) fn on_change_ended(&mut self, change: ChangeId, result: Result<u64, LeaderRefused>) {
        let Some((_, id)) = self.turns.reconfiguring.take_if(|(id, _)| *id == change) else {
            return;
        };
        if !self.is_attached(id) {
            return;
        }
        if result.is_err() {
            return self.refuse_reconfig(id, self.last_zxid, ErrorCode::NEW_CONFIG_NO_QUORUM);
        }
        self.audit_reconfig(id, AuditResult::Success);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let path = CONFIG_PATH.into();
        let kind = ReadKind::GetData;
        let read = OwnedRead { kind, path, watch: false, is_permitted: true };
        connection.window.replace_front(SlotKind::Read(read));
        self.settle(id);
        self.turns.resumable.push(id);
    }

    fn refuse_reconfig(&mut self, id: ConnectionId, zxid: i64, error: ErrorCode) {
        self.audit_reconfig(id, AuditResult::Failure);
        let slot = self.pop_slot(id);
        let header = ReplyHeader { xid: slot.xid, zxid, error };
        self.reply(id, &slot, zxid, |out| encode_empty(header, out));
        self.settle(id);
        self.turns.resumable.push(id);
    }

    /// Closes the connection after the reply that ends its session. Later requests get no answer.
    fn end_session(&mut self, id: ConnectionId) {
        let session = self.connections.get(&id).and_then(|connection| connection.session);
        self.close_after_output(id);
        if let Some(session) = session {
            self.withdraw_departed(session);
        }
    }

    /// Answers the reads that travelled with a command. Returns false if the connection has ended.
    fn answer_travelled(&mut self, id: ConnectionId, reads: Vec<ReadAnswer>, mark: Mark) -> bool {
        let zxid = mark.zxid.0;
        let mut reads = reads.into_iter();
        while let Some(answer) = reads.next() {
            let ReadAnswer::Answered { frame, outcome: ReadOutcome::Zk(error), held } = answer
            else {
                self.take_back(id, 1 + reads.len(), zxid);
                break;
            };
            let slot = self.pop_slot(id);
            let SlotKind::TravellingRead(read) = &slot.kind else {
                unreachable!("reads that travelled stand behind their write");
            };
            let bytes = frame.len();
            if self.is_too_large_a_reply(bytes as u64) {
                self.refuse_reply(id, &slot, zxid, &read.path, bytes as u64);
                continue;
            }
            self.reply(id, &slot, zxid, |out| append(&frame, out));
            drop(held);
            self.note_reply(id, bytes);
            self.watch(id, read, error, mark.ordinal);
            if !self.is_attached(id) {
                // The watch exceeded the bound on watches, and the client was disconnected.
                return false;
            }
        }
        true
    }

    pub(super) fn note_reply(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.room.note_reply(bytes);
        }
    }

    pub(super) fn on_synced(&mut self, id: ConnectionId, ticket: Ticket) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.window.on_synced(ticket);
        self.settle(id);
        self.turns.resumable.push(id);
    }
}

/// Appends a frame. For a large one the buffer grows by exactly its size, instead of doubling.
fn append(frame: &[u8], out: &mut Vec<u8>) {
    if frame.len() > SMALL_REPLY_BYTES {
        out.reserve_exact(frame.len());
    }
    out.extend_from_slice(frame);
}

/// The error code for a request to change the servers that the state refuses.
fn code_of_refused(refused: ChangeRefused) -> ErrorCode {
    match refused {
        ChangeRefused::Disabled => ErrorCode::RECONFIG_DISABLED,
        ChangeRefused::NoEnsemble => ErrorCode::UNIMPLEMENTED,
        ChangeRefused::InProgress => ErrorCode::RECONFIG_IN_PROGRESS,
        ChangeRefused::BadVersion => ErrorCode::BAD_VERSION,
        ChangeRefused::NotPermitted => ErrorCode::NO_AUTH,
        ChangeRefused::SessionExpired => ErrorCode::SESSION_EXPIRED,
        ChangeRefused::SessionMoved => ErrorCode::SESSION_MOVED,
        // The last four are etcd's.
        ChangeRefused::BadArguments
        | ChangeRefused::TooManyServers
        | ChangeRefused::NotFound
        | ChangeRefused::UrlExists
        | ChangeRefused::TooManyLearners
        | ChangeRefused::NotLearner => ErrorCode::BAD_ARGUMENTS,
    }
}

/// The error code for a command without an outcome. ZooKeeper has no code for a server that cannot
/// take a write now. Its clients pass a system error on to the caller without closing the
/// connection.
fn unavailable_code(reason: Unavailable) -> ErrorCode {
    match reason {
        Unavailable::DiskFull => ErrorCode::SYSTEM_ERROR,
        Unavailable::NotLeader | Unavailable::GivenUp(_) => ErrorCode::OPERATION_TIMEOUT,
    }
}
