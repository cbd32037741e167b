//! Turns the frames that a client sends into requests: takes a frame from the input, checks it,
//! decodes the request, and puts the request into the connection's window (the list of its
//! unanswered requests). A write's command goes into the Front's batch as well.

use std::sync::Arc;

use bytes::Bytes;
use machine::control::list_change::{Asker, ChangeFlags, ChangeRequest, ListChange};
use machine::{
    Command, ConnectionId, ControlCommand, DescendantCount, Level, SessionId, ZkCommand,
};
use zk::jute::{JuteError, JuteReader};
use zk::reconfig::{self, NotANumber};
use zk::request::{ReadKind, Request, RequestHeader, opcode as op};
use zk::response::WriteForm;
use zk::{ErrorCode, ops};

use super::acls::empty_expanded_acls;
use super::connection::{Asked, AskedEphemerals, OwnedSetWatches, ReadOnly, SlotKind};
use super::long_reads::SeveralReads;
use super::reconfigs::Hold;
use super::{Halt, ZkFront, take_frame};
use crate::fronts::zk::limits::FRONT_TRAVELLING_READS_MAX;
use crate::limits::OUTPUT_BYTES_MAX;
use crate::local_read::{LocalRead, OwnedRead};
use crate::message::{Caller, ToLoop};

impl ZkFront {
    /// Takes the next whole frame out of the input of a connection with a session, if the
    /// connection may go on.
    fn next_frame(&mut self, id: ConnectionId) -> Result<Bytes, Halt> {
        let has_credit = self.has_credit();
        let frame_bytes_max = self.config.frame_bytes_max;
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        if connection.is_refused() {
            return Err(Halt::HeldBack);
        }
        let Some(first) = connection.input.first_chunk::<4>() else { return Err(Halt::NeedsBytes) };
        let length = u32::from_be_bytes(*first);
        if length > frame_bytes_max {
            let what = format!("a frame of {} bytes, {frame_bytes_max} allowed", length as i32);
            return Err(self.disconnect(id, &what));
        }
        if connection.window.is_full() || connection.output.is_full() {
            return Err(Halt::HeldBack);
        }
        if self.config.replies.is_full() && connection.output.is_slow() {
            // A connection that holds room goes on. After its next step it is looked at again.
            if !connection.holds_room() {
                self.park(id, OUTPUT_BYTES_MAX as u64);
            }
            return Err(Halt::HeldBack);
        }
        if !has_credit && !connection.credit.is_throttled() {
            if connection.credit.wait(self.now.monotonic_ms) {
                self.commands.starved.push(id);
            }
            return Err(Halt::HeldBack);
        }
        if self.config.throttle.is_too_large(length) {
            return Err(self.reject_large(id, length));
        }
        let Some(body) = connection.input.get(4..4 + length as usize) else {
            return Err(Halt::NeedsBytes);
        };
        let opcode = body.get(4..8).and_then(|bytes| bytes.first_chunk::<4>());
        let window = &connection.window;
        let opcode = opcode.map(|opcode| i32::from_be_bytes(*opcode));
        if opcode.is_some_and(|opcode| window.holds_back(opcode)) {
            return Err(Halt::HeldBack);
        }
        if opcode == Some(op::RECONFIG) && self.holds_reconfig_back(id) {
            return Err(Halt::HeldBack);
        }
        let connection = self.connections.get_mut(&id).expect("it has a frame");
        take_frame(&mut connection.input, length).ok_or(Halt::NeedsBytes)
    }

    /// Whether a connection waits with a reconfig for the level that it needs, because that may
    /// still rise.
    fn holds_reconfig_back(&mut self, id: ConnectionId) -> bool {
        if !self.settings.reconfig_enabled {
            return false;
        }
        let hold = self.turns.reconfigs.hold(id, self.now.monotonic_ms);
        if hold == Hold::Begins {
            self.output.to_loop.push(ToLoop::Need(Level::MEMBERS));
        }
        hold != Hold::Over
    }

    /// Decodes the next request of a connection with a session.
    pub(super) fn decode_request(&mut self, id: ConnectionId) -> Result<(), Halt> {
        let frame = self.next_frame(id)?;
        let connection = self.connections.get_mut(&id).expect("it has a frame");
        connection.stats.received += 1;
        self.traffic.received += 1;
        self.metrics.bytes_received_count += frame.len() as u64 + 4;
        let mut reader = JuteReader::new(&frame);
        let header = match RequestHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => return Err(self.disconnect(id, &format!("a request: {error}"))),
        };
        let session = connection.session.expect("an attached connection has a session");
        let throttled = connection.credit.takes_throttled(4 + frame.len());
        let ticket = connection.window.draw_ticket();
        let mut asked = Asked { id, xid: header.xid, ticket, large_bytes: 0 };
        if self.lacks_auth(id, header.opcode) {
            self.notice(id, "it asks for something before it has proved who it is");
            self.fail(asked, ErrorCode::AUTH_REQUIRED, Some(0), true);
            return Ok(());
        }
        if !matches!(header.opcode, op::AUTH | op::SASL) {
            let bytes = reader.remaining() as u32;
            match self.config.throttle.begin_request(bytes) {
                Some(counted) => asked.large_bytes = counted,
                None => return Err(self.reject_large(id, bytes)),
            }
        }
        if throttled && is_throttlable(header.opcode) {
            self.metrics.throttled_ops += 1;
            self.fail(asked, ErrorCode::THROTTLED_OP, None, false);
            return Ok(());
        }
        if self.lacks_leader(asked, header.opcode) {
            return Ok(());
        }
        match Request::decode(header.opcode, &mut reader) {
            Ok(request) => self.on_request(asked, &request, frame.len()),
            // `ZooKeeperServer.processPacket` decodes these packets before all others, and does not
            // catch their errors.
            Err(error) if header.opcode == op::AUTH => {
                Err(self.disconnect(id, &format!("an auth packet: {error}")))
            }
            Err(error) if header.opcode == op::SASL => {
                Err(self.disconnect(id, &format!("a SASL packet: {error}")))
            }
            Err(error) => {
                match refused_with_a_zxid(header.opcode, &error) {
                    Some(error) => {
                        let (bytes, form) = (frame.len(), WriteForm::Refused(error));
                        self.submit_small((id, ticket), &ops::refused_command(session));
                        self.push_slot(asked, SlotKind::Write { form, bytes });
                    }
                    None => self.fail(asked, ErrorCode::MARSHALLING_ERROR, None, false),
                }
                Ok(())
            }
        }
    }

    /// Refuses the requests of a read-only connection that need a leader
    /// (`ReadOnlyRequestProcessor.run`, ZooKeeper 3.9). A close request ends a session that only
    /// this member knows. Returns true if the request was answered.
    fn lacks_leader(&mut self, asked: Asked, opcode: i32) -> bool {
        let connection =
            self.connections.get(&asked.id).expect("the caller checked that it exists");
        let read_only = connection.read_only;
        match opcode {
            _ if read_only == ReadOnly::No => false,
            op::CLOSE_SESSION if read_only == ReadOnly::Local => {
                self.fail(asked, ErrorCode::OK, None, true);
                true
            }
            op::CLOSE_SESSION
            | op::SYNC
            | op::CREATE
            | op::CREATE2
            | op::CREATE_TTL
            | op::CREATE_CONTAINER
            | op::DELETE
            | op::SET_DATA
            | op::RECONFIG
            | op::SET_ACL
            | op::MULTI
            | op::CHECK => {
                self.fail(asked, ErrorCode::NOT_READ_ONLY, None, false);
                true
            }
            _ => false,
        }
    }

    /// Disconnects a client whose request is too large beside other large ones
    /// (`ZooKeeperServer.checkRequestSizeWhenReceivingMessage`). This is checked with the length of
    /// the frame, and again once the whole frame has come.
    pub(super) fn reject_large(&mut self, id: ConnectionId, bytes: u32) -> Halt {
        self.metrics.large_requests_rejected += 1;
        self.disconnect(id, &format!("a request of {bytes} bytes beside other large ones"))
    }

    fn on_request(
        &mut self,
        asked: Asked,
        request: &Request<'_>,
        bytes: usize,
    ) -> Result<(), Halt> {
        let Asked { id, xid, ticket, .. } = asked;
        let connection = self.connections.get_mut(&id).expect("its frame was just decoded");
        connection.stats.last_operation = operation_name(request);
        if xid >= 0 {
            connection.stats.last_xid = i64::from(xid);
        }
        match request {
            Request::Write(_)
            | Request::Multi(_)
            | Request::CloseSession
            | Request::Reconfig { .. } => self.on_write(asked, request, bytes),
            Request::SetWatches(_)
            | Request::SetWatches2(_)
            | Request::AddWatch { .. }
            | Request::CheckWatches { .. }
            | Request::RemoveWatches { .. } => self.on_watches(asked, request),
            Request::Read(read) => self.on_read(asked, OwnedRead::of(read)),
            Request::MultiRead(reads) => {
                let reads = reads.iter().map(OwnedRead::of).collect();
                let several = SeveralReads::new(reads, self.config.list_step_names);
                self.push_slot(asked, SlotKind::MultiRead(Box::new(several)));
            }
            Request::Sync { path } => {
                let path = path.map(Into::into);
                self.hand_over();
                let caller = Caller { front: self.config.id, connection: id, ticket };
                self.output.to_loop.push(ToLoop::Sync(caller));
                self.push_slot(asked, SlotKind::Sync { path, done: false });
            }
            Request::Ping => self.push_slot(asked, SlotKind::Ping),
            Request::GetAllChildrenNumber { path } => {
                let (path, so_far) = ((*path).into(), DescendantCount::default());
                self.push_slot(asked, SlotKind::Count { path, so_far });
            }
            Request::GetEphemerals { prefix } => {
                let search = AskedEphemerals::new(ops::ephemerals_prefix(*prefix));
                self.push_slot(asked, SlotKind::Ephemerals(Box::new(search)));
            }
            Request::WhoAmI => {
                let identities = connection.identity.proved().clone();
                self.push_slot(asked, SlotKind::WhoAmI(identities));
            }
            Request::Auth { scheme, credentials } => self.on_auth(asked, scheme, *credentials),
            Request::Sasl { token } => self.on_sasl(asked, token),
            // As `UnimplementedRequestProcessor`: answered with zxid -1, then closed.
            Request::Unknown => self.fail(asked, ErrorCode::UNIMPLEMENTED, Some(-1), true),
        }
        self.settle(id);
        Ok(())
    }

    /// Takes a read. It travels with the write of the same connection right before it, if that
    /// write is still in the batch and the reply is expected to be small. Otherwise this Front runs
    /// it.
    fn on_read(&mut self, asked: Asked, read: OwnedRead) {
        let Asked { id, xid, .. } = asked;
        let connection = self.connections.get(&id).expect("its frame was just decoded");
        let identities = connection.identity.proved().clone();
        let is_list = matches!(read.kind, ReadKind::GetChildren | ReadKind::GetChildren2);
        let may_travel = !is_list
            && connection.window.lets_travel()
            && connection.room.expects_small()
            && self.held.travelling_reads < FRONT_TRAVELLING_READS_MAX;
        let waiter = self.commands.waiters.last_mut().filter(|waiter| waiter.connection == id);
        match waiter {
            Some(waiter) if may_travel => {
                waiter.reads.push(LocalRead::Zk { xid, read: read.clone(), identities });
                self.push_slot(asked, SlotKind::TravellingRead(read));
            }
            _ => self.push_slot(asked, SlotKind::Read(read)),
        }
    }

    /// Takes a request that becomes a command.
    fn on_write(&mut self, asked: Asked, request: &Request<'_>, bytes: usize) {
        let Asked { id, ticket, .. } = asked;
        let session = self.connections[&id].session.expect("an attached connection has a session");
        match request {
            Request::Write(write) => {
                let command = ops::write_command(session, write);
                let form = self.submit_or_refuse(asked, session, command, WriteForm::of(write));
                self.push_slot(asked, SlotKind::Write { form, bytes });
                self.keep_pending(id, request);
            }
            Request::Multi(writes) => {
                let command = ops::multi_command(session, writes);
                let form = WriteForm::of_multi(writes);
                let form = self.submit_or_refuse(asked, session, command, form);
                self.push_slot(asked, SlotKind::Write { form, bytes });
                self.keep_pending(id, request);
            }
            Request::CloseSession => {
                self.submit_small((id, ticket), &Command::Zk(ZkCommand::CloseSession { session }));
                self.push_slot(asked, SlotKind::Close { bytes });
            }
            Request::Reconfig { joining, leaving, members, version } => {
                let (joining, leaving, members) = (*joining, *leaving, *members);
                let change = match reconfig::list_change(joining, leaving, members) {
                    _ if !self.settings.reconfig_enabled => Err(ErrorCode::RECONFIG_DISABLED),
                    // The answer of a standalone server (`PrepRequestProcessor`).
                    _ if !self.turns.reconfigs.are_possible() => Err(ErrorCode::UNIMPLEMENTED),
                    change => change.map_err(|NotANumber| ErrorCode::MARSHALLING_ERROR),
                };
                match change {
                    Ok(change) => {
                        let request = requested(session, change, *version);
                        let command = Command::Control(ControlCommand::Request(request));
                        self.submit_small((id, ticket), &command);
                        self.push_slot(asked, SlotKind::Reconfig { bytes });
                    }
                    Err(error) => {
                        self.submit_small((id, ticket), &ops::refused_command(session));
                        let form = WriteForm::Refused(error);
                        self.push_slot(asked, SlotKind::Write { form, bytes });
                    }
                }
                self.keep_pending(id, request);
            }
            _ => unreachable!("the caller checked that it exists"),
        }
    }

    /// Puts the command of a write into the batch, with oversized ACLs emptied. If no entry of the
    /// log can hold the command, puts one into the batch that is always refused. Returns the form
    /// of the answer.
    fn submit_or_refuse(
        &mut self,
        Asked { id, ticket, .. }: Asked,
        session: SessionId,
        mut command: Command<'_>,
        form: WriteForm,
    ) -> WriteForm {
        empty_expanded_acls(&mut command, self.connections[&id].identity.proved());
        if self.submit((id, ticket), &command) {
            return form;
        }
        self.submit_small((id, ticket), &ops::refused_command(session));
        WriteForm::Refused(ErrorCode::MARSHALLING_ERROR)
    }

    /// Takes a request about the watches of its own connection.
    fn on_watches(&mut self, asked: Asked, request: &Request<'_>) {
        match request {
            Request::SetWatches(watches) => {
                let watches = Arc::new(OwnedSetWatches::of(watches));
                self.push_slot(asked, SlotKind::SetWatches { asked: watches, done: 0 });
            }
            Request::SetWatches2(watches) => {
                let watches = Arc::new(OwnedSetWatches::of_all(watches));
                self.push_slot(asked, SlotKind::SetWatches { asked: watches, done: 0 });
            }
            Request::AddWatch { path, mode } => {
                let (path, mode) = ((*path).into(), *mode);
                self.push_slot(asked, SlotKind::AddWatch { path, mode });
            }
            Request::CheckWatches { path, watcher_type } => {
                let (path, watcher_type) = ((*path).into(), *watcher_type);
                self.push_slot(asked, SlotKind::CheckWatches { path, watcher_type });
            }
            Request::RemoveWatches { path, watcher_type } => {
                let (path, watcher_type) = ((*path).into(), *watcher_type);
                self.push_slot(asked, SlotKind::RemoveWatches { path, watcher_type });
            }
            _ => unreachable!("the caller checked that it exists"),
        }
    }
}

/// The error for a request that cannot be decoded, if its refusal takes a zxid; `None` if it takes
/// none. In `PrepRequestProcessor.pRequestHelper` a failed multi takes a zxid, except for a null
/// ACL. Other writes take their zxid before their path is checked, so a null path takes one.
fn refused_with_a_zxid(opcode: i32, error: &JuteError) -> Option<ErrorCode> {
    let is_multi = opcode == op::MULTI;
    match error {
        JuteError::NullAcl { .. } => None,
        JuteError::NullPath { error, .. } if !is_multi => Some(*error),
        _ => is_multi.then_some(ErrorCode::MARSHALLING_ERROR),
    }
}

/// The request for a change of the servers. Removed servers serve on until they are stopped, as in
/// ZooKeeper.
fn requested(session: SessionId, change: ListChange, version: i64) -> ChangeRequest {
    ChangeRequest {
        by: Asker::Zk(session),
        version: (version != -1).then_some(version as u64),
        flags: ChangeFlags { stay: true, ..ChangeFlags::default() },
        learners_max: 0,
        change,
    }
}

/// Whether a request may be refused because it has waited too long (`Request.isThrottlable`, and
/// the requests that `ZooKeeperServer.processPacket` handles without its throttle).
fn is_throttlable(opcode: i32) -> bool {
    !matches!(opcode, op::PING | op::CLOSE_SESSION | op::AUTH | op::SASL)
}

/// The short name of an operation in the output of `cons` (`FinalRequestProcessor`).
fn operation_name(request: &Request<'_>) -> &'static str {
    use zk::request::WriteRequest;
    match request {
        Request::Write(WriteRequest::Create { .. }) => "CREA",
        Request::Write(WriteRequest::Delete { .. }) => "DELE",
        Request::Write(WriteRequest::SetData { .. }) => "SETD",
        Request::Write(WriteRequest::SetAcl { .. }) => "SETA",
        Request::Write(WriteRequest::Check { .. }) => "CHEC",
        Request::Multi(_) => "MULT",
        Request::MultiRead(_) => "MLTR",
        Request::Read(read) => match read.kind {
            ReadKind::Exists => "EXIS",
            ReadKind::GetData => "GETD",
            ReadKind::GetAcl => "GETA",
            ReadKind::GetChildren | ReadKind::GetChildren2 => "GETC",
        },
        Request::Sync { .. } => "SYNC",
        Request::Ping => "PING",
        Request::GetAllChildrenNumber { .. } => "GETACN",
        Request::GetEphemerals { .. } => "GETE",
        Request::WhoAmI => "HOMI",
        Request::Auth { .. } => "AUTH",
        Request::Sasl { .. } => "SASL",
        Request::SetWatches(_) => "SETW",
        Request::SetWatches2(_) => "STW2",
        Request::AddWatch { .. } => "ADDW",
        Request::CheckWatches { .. } => "CHKW",
        Request::RemoveWatches { .. } => "REMW",
        Request::CloseSession => "CLOS",
        Request::Reconfig { .. } | Request::Unknown => "NA",
    }
}
