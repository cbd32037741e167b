//! Runs the requests that need the state's lock for reading: connect requests, reads with the
//! watches that they set, and requests about watches.

use core::ops::Bound;

use machine::{ConnectionId, Machine, Ordinal, QueryResult, Refusal, SessionId};
use zk::limits::{REPLY_HEADER_BYTES, STAT_BYTES};
use zk::request::ReadKind;
use zk::response::{
    EventType, ReplyHeader, encode_add_watch, encode_all_children_number, encode_empty,
    encode_read, result_bytes,
};
use zk::{ErrorCode, ops};

use super::ZkFront;
use super::connection::{AskedEphemerals, AskedWatch, Slot, SlotKind, State};
use super::watches::WatchKind;
use crate::fronts::zk::limits::{
    COUNT_STEP_SLOTS_MAX, EPHEMERALS_STEP_ZNODES, READ_HOLD_BYTES_MAX, SET_WATCHES_STEP_PATHS,
    WATCH_BYTES_MAX,
};
use crate::identities::borrow;
use crate::limits::{OUTPUT_BYTES_MAX, REPLIES_BYTES_MAX, SMALL_REPLY_BYTES};
use crate::local_read::OwnedRead;
use crate::reply_room::HeldReply;

impl ZkFront {
    /// Runs the request at the front of a window, or a step of it. Returns for how many requests it
    /// counts; `None` if the connection cannot go on now.
    pub(super) fn run_one(&mut self, id: ConnectionId, machine: &Machine) -> Option<usize> {
        let connection = self.connections.get(&id)?;
        if !connection.is_runnable() {
            return None;
        }
        let mark = machine.mark();
        self.last_zxid = self.last_zxid.max(mark.zxid.0);
        if let State::Greeting(_) = connection.state {
            self.greet(id, machine);
            return None;
        }
        let first = connection.window.front();
        if let Some(SlotKind::Count { .. }) = first {
            self.run_count(id, machine);
            return Some(1);
        }
        if !self.config.replies.is_calm()
            && let Some(bytes) = self.wants_room(id, machine)
        {
            return self.wait_for_room(id, bytes, mark.zxid.0).then_some(1);
        }
        let first = self.connections.get(&id)?.window.front();
        match first {
            Some(SlotKind::SetWatches { .. }) => return self.run_set_watches(id, machine),
            Some(SlotKind::Ephemerals(_)) => return self.run_ephemerals(id, machine),
            Some(SlotKind::List(_)) => return self.run_list(id, machine),
            Some(SlotKind::MultiRead(_)) => return self.run_several(id, machine),
            Some(SlotKind::Read(_)) => return self.run_read(id, machine),
            _ => {}
        }
        let slot = self.pop_slot(id);
        let (xid, zxid, at) = (slot.xid, mark.zxid.0, mark.ordinal);
        match &slot.kind {
            // As in `FinalRequestProcessor`, an addWatch needs no permission: the ACL is checked
            // for each event.
            SlotKind::AddWatch { path, mode } => {
                let header = ReplyHeader { xid, zxid, error: ErrorCode::OK };
                self.reply(id, &slot, zxid, |out| encode_add_watch(header, out));
                self.set_watch(id, WatchKind::of(*mode), path, at);
            }
            SlotKind::CheckWatches { path, watcher_type } => {
                let kinds = WatchKind::of_type(*watcher_type);
                let found = kinds.iter().any(|kind| self.watches.contains(id, *kind, path));
                self.answer_watcher(id, &slot, zxid, found);
            }
            SlotKind::RemoveWatches { path, watcher_type } => {
                let kinds = WatchKind::of_type(*watcher_type);
                let removed = kinds.iter().filter(|kind| self.watches.remove(id, **kind, path));
                let found = removed.count() > 0;
                self.answer_watcher(id, &slot, zxid, found);
            }
            _ => unreachable!("only reads are runnable"),
        }
        self.settle(id);
        Some(1)
    }

    /// The bytes of room that the request at the front of the window must wait for: the room is too
    /// full for its reply, or the client has earlier replies unread. `None` if it need not wait.
    fn wants_room(&self, id: ConnectionId, machine: &Machine) -> Option<u64> {
        let connection = self.connections.get(&id)?;
        if connection.holds_room() {
            return None;
        }
        let bytes_of = |read: &OwnedRead| {
            let identities = read.identities(connection.identity.proved());
            result_bytes(&machine.zk().query(&ops::query(&read.borrow()), &identities))
        };
        let bytes = match connection.window.front() {
            Some(SlotKind::Read(read)) => bytes_of(read),
            Some(SlotKind::MultiRead(several)) => several.wants_room(),
            // The size is not known before the paths are found.
            Some(SlotKind::Ephemerals(_)) => OUTPUT_BYTES_MAX as u64,
            _ => 0,
        };
        // A client that does not read its replies gets not even small ones.
        let bytes = match connection.output.is_slow() {
            true => bytes.max(OUTPUT_BYTES_MAX as u64),
            false => bytes,
        };
        (!self.config.replies.takes(bytes)).then_some(bytes)
    }

    /// Runs the read at the front of the window, or the first step if it takes several holds.
    fn run_read(&mut self, id: ConnectionId, machine: &Machine) -> Option<usize> {
        let mark = machine.mark();
        let connection = self.connections.get(&id)?;
        let Some(SlotKind::Read(read)) = connection.window.front() else {
            unreachable!("the caller checked that it exists");
        };
        let identities = read.identities(connection.identity.proved());
        let result = machine.zk().query(&ops::query(&read.borrow()), &identities);
        let bytes = result_bytes(&result);
        if self.has_many_names(&result) && !self.is_too_large_a_reply(bytes) {
            self.begin_list(id, bytes);
            return self.run_list(id, machine);
        }
        let slot = self.pop_slot(id);
        let SlotKind::Read(read) = &slot.kind else { unreachable!("it was just looked at") };
        let (xid, zxid, at) = (slot.xid, mark.zxid.0, mark.ordinal);
        if self.is_too_large_a_reply(bytes) {
            self.refuse_reply(id, &slot, zxid, &read.path, bytes);
        } else {
            let error = result.as_ref().err().map_or(ErrorCode::OK, ErrorCode::of);
            self.reply(id, &slot, zxid, |out| {
                reserve(bytes, out);
                encode_read(xid, zxid, read.kind, &result, out);
            });
            self.note_reply(id, bytes as usize);
            self.watch(id, read, error, at);
        }
        self.settle(id);
        Some(1)
    }

    /// Whether the result is a list of more names than one step adds.
    fn has_many_names(&self, result: &Result<QueryResult<'_>, Refusal>) -> bool {
        let Ok(QueryResult::Children { znode }) = result else { return false };
        znode.child_count() as usize > self.config.list_step_names
    }

    /// Runs a step of the getEphemerals at the front of the window. After the last step, the reply
    /// can be made without the lock. A znode that others remove meanwhile may still be in it.
    /// Returns how many znodes the step looked at.
    fn run_ephemerals(&mut self, id: ConnectionId, machine: &Machine) -> Option<usize> {
        let zxid = machine.mark().zxid.0;
        let connection = self.connections.get_mut(&id)?;
        let session = connection.session.expect("an attached connection has a session");
        let Some(SlotKind::Ephemerals(asked)) = connection.window.front_mut() else {
            unreachable!("the caller checked that it exists");
        };
        let (is_whole, count) = look_for_ephemerals(asked, session, machine);
        asked.held = Some(HeldReply::new(&self.config.replies, asked.bytes as usize));
        let bytes = asked.bytes;
        let is_too_large = bytes > REPLIES_BYTES_MAX;
        if is_too_large || self.is_too_large_a_reply(bytes) {
            let slot = self.pop_slot(id);
            if let SlotKind::Ephemerals(asked) = &slot.kind {
                self.refuse_reply(id, &slot, zxid, &asked.prefix, bytes);
            }
            self.settle(id);
        } else if is_whole {
            self.end_search(id, zxid);
        }
        Some(count.max(1))
    }

    /// Replaces the getEphemerals at the front of the window, which has found all paths, by its
    /// result.
    fn end_search(&mut self, id: ConnectionId, zxid: i64) {
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        if let Some(SlotKind::Ephemerals(asked)) = connection.window.front_mut() {
            let paths = core::mem::take(&mut asked.found).into_iter().collect();
            connection.window.replace_front(SlotKind::EphemeralsFound { paths, zxid });
            connection.room.end();
        }
    }

    /// Runs one step of the count at the front of the window, and answers it after the last step.
    fn run_count(&mut self, id: ConnectionId, machine: &Machine) {
        let connection = self.connections.get_mut(&id).expect("the caller checked that it exists");
        let identities = borrow(connection.identity.proved());
        let Some(SlotKind::Count { path, so_far }) = connection.window.front_mut() else {
            unreachable!("the caller checked that it exists");
        };
        let step = machine.zk().count_descendants(path, &identities, COUNT_STEP_SLOTS_MAX, so_far);
        let Some(result) = step.transpose() else { return };
        let zxid = machine.mark().zxid.0;
        let slot = self.pop_slot(id);
        let xid = slot.xid;
        self.reply(id, &slot, zxid, |out| encode_all_children_number(xid, zxid, &result, out));
        self.settle(id);
    }

    /// Sets the watch of a read that succeeded, or of an exists that found no znode.
    pub(super) fn watch(
        &mut self,
        id: ConnectionId,
        read: &OwnedRead,
        error: ErrorCode,
        at: Ordinal,
    ) {
        if !read.watch {
            return;
        }
        let missing = read.kind == ReadKind::Exists && error == ErrorCode::NO_NODE;
        if error != ErrorCode::OK && !missing {
            return;
        }
        let kind = match read.kind {
            ReadKind::Exists | ReadKind::GetData => WatchKind::Data,
            ReadKind::GetChildren | ReadKind::GetChildren2 => WatchKind::Child,
            ReadKind::GetAcl => return,
        };
        self.set_watch(id, kind, &read.path, at);
    }

    fn set_watch(&mut self, id: ConnectionId, kind: WatchKind, path: &str, at: Ordinal) {
        self.watches.set(id, kind, path, at);
        let bytes = self.watches.bytes_of(id);
        if bytes > WATCH_BYTES_MAX {
            self.disconnect(id, &format!("its watches take {bytes} bytes"));
        }
    }

    /// Answers a check or removal of watches. The client itself makes the events of the watches
    /// that it removes, so only a reply is sent.
    fn answer_watcher(&mut self, id: ConnectionId, slot: &Slot, zxid: i64, found: bool) {
        let error = if found { ErrorCode::OK } else { ErrorCode::NO_WATCHER };
        let header = ReplyHeader { xid: slot.xid, zxid, error };
        self.reply(id, slot, zxid, |out| encode_empty(header, out));
    }

    /// Runs a step of the setWatches at the front of the window, and answers it after the last
    /// step. Each path is compared with the state at its own step; a later change fires the watch.
    /// Returns how many paths were handled; `None` if the connection has ended.
    fn run_set_watches(&mut self, id: ConnectionId, machine: &Machine) -> Option<usize> {
        let mark = machine.mark();
        let connection = self.connections.get_mut(&id)?;
        let first = connection.window.front_mut();
        let Some(SlotKind::SetWatches { asked, done }) = first else {
            unreachable!("the caller checked that it exists");
        };
        let (asked, from) = (asked.clone(), *done);
        let to = asked.count().min(from + SET_WATCHES_STEP_PATHS);
        *done = to;
        for index in from..to {
            let (kind, path) = asked.get(index);
            let (missed, kind) = missed_event(machine, kind, path, asked.relative_zxid);
            self.fire_or_set(id, missed, kind, path, mark.ordinal);
        }
        if !self.is_attached(id) {
            return None;
        }
        if to == asked.count() {
            let slot = self.pop_slot(id);
            let error = match asked.null_behind {
                true => ErrorCode::MARSHALLING_ERROR,
                false => ErrorCode::OK,
            };
            let (xid, zxid) = (slot.xid, mark.zxid.0);
            let header = ReplyHeader { xid, zxid, error };
            self.reply(id, &slot, zxid, |out| encode_empty(header, out));
            self.settle(id);
        }
        Some((to - from).max(1))
    }

    fn fire_or_set(
        &mut self,
        id: ConnectionId,
        missed: Option<EventType>,
        kind: WatchKind,
        path: &str,
        at: Ordinal,
    ) {
        match missed {
            Some(event) => self.send_event(id, -1, event, path),
            // The event for the path before may have disconnected the client.
            None if self.is_attached(id) => self.set_watch(id, kind, path, at),
            None => {}
        }
    }
}

/// Looks at more ephemerals of a session. Returns whether none is left, and how many znodes it
/// looked at.
fn look_for_ephemerals(
    asked: &mut AskedEphemerals,
    session: SessionId,
    machine: &Machine,
) -> (bool, usize) {
    let Some(session) = machine.zk().sessions().get(session) else { return (true, 0) };
    let (mut count, mut bytes) = (0, 0);
    let from = asked.last.map_or(Bound::Unbounded, Bound::Excluded);
    for &znode in session.ephemerals.range((from, Bound::Unbounded)) {
        if count == EPHEMERALS_STEP_ZNODES || bytes >= READ_HOLD_BYTES_MAX {
            return (false, count);
        }
        let path = machine.zk().tree().path(znode);
        count += 1;
        bytes += path.len();
        asked.last = Some(znode);
        if path.starts_with(&*asked.prefix) {
            asked.bytes += 4 + path.len() as u64;
            asked.found.insert(path);
        }
    }
    (true, count)
}

/// The event that a watch has missed, if its znode has changed since zxid `since`, and the kind of
/// the watch (`DataTree.setWatches`). A watch that has missed an event fires, others are set.
/// Persistent watches are always set, even if they have missed changes.
fn missed_event(
    machine: &Machine,
    asked: AskedWatch,
    path: &str,
    since: i64,
) -> (Option<EventType>, WatchKind) {
    let find = || machine.zk().tree().find(path).map(|znode| znode.stat());
    match asked {
        AskedWatch::Data => {
            let missed = match find() {
                None => Some(EventType::Deleted),
                Some(stat) if stat.mzxid > since => Some(EventType::DataChanged),
                Some(_) => None,
            };
            (missed, WatchKind::Data)
        }
        AskedWatch::Exist => (find().map(|_| EventType::Created), WatchKind::Data),
        AskedWatch::Child => {
            let missed = match find() {
                None => Some(EventType::Deleted),
                Some(stat) if stat.pzxid > since => Some(EventType::ChildrenChanged),
                Some(_) => None,
            };
            (missed, WatchKind::Child)
        }
        AskedWatch::Persistent => (None, WatchKind::Persistent),
        AskedWatch::PersistentRecursive => (None, WatchKind::PersistentRecursive),
    }
}

/// Reserves memory for a reply of about `bytes` bytes. For a large one it reserves exactly that
/// much, instead of doubling.
pub(super) fn reserve(bytes: u64, out: &mut Vec<u8>) {
    if bytes > SMALL_REPLY_BYTES as u64 {
        out.reserve_exact(bytes as usize + REPLY_HEADER_BYTES + STAT_BYTES + 8);
    }
}
