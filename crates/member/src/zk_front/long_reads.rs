//! Reads that look at more than one hold of the state's lock may: long lists of children, and
//! several reads in one request. They go in steps. What changed between two steps makes them begin
//! anew, with steps that are twice as long, so that they end however much others write.

use std::sync::Arc;

use machine::{ConnectionId, Identity, ListPlace, ListStep, Machine};
use zk::request::ReadKind;
use zk::response::{
    ChildNames, ReplyHeader, encode_children, encode_empty, encode_list_result, encode_multi_read,
    encode_read, encode_read_result, result_bytes,
};
use zk::{ErrorCode, ops};

use super::Front;
use super::connection::{Slot, SlotKind};
use super::reads::reserve;
use crate::identities::borrow;
use crate::limits::{
    LIST_STEP_NAMES, MULTI_READ_BYTES_MAX, READ_HOLD_BYTES_MAX, READ_HOLD_REQUESTS_MAX,
};
use crate::local_read::OwnedRead;
use crate::reply_room::{HeldReply, ReplyRoom};

/// A list of children, as far as it is made.
pub(super) struct List {
    pub read: OwnedRead,
    place: ListPlace,
    names: ChildNames,
    names_max: usize,
    /// Its place in the room for replies.
    held: HeldReply,
}

/// Several reads of one request, as far as they are made. They set no watches:
/// `MultiOperationRecord` drops the flag.
pub(super) struct SeveralReads {
    pub reads: Vec<OwnedRead>,
    /// How many are done, and their results.
    done: usize,
    results: Vec<u8>,
    /// Bytes of these, as [`result_bytes`] counts them.
    bytes: u64,
    /// The list that the next one has begun.
    place: ListPlace,
    names: ChildNames,
    /// The zxid of the state that all results are of; none before the first step.
    zxid: Option<i64>,
    /// What the next step may look at, and the bytes that it may add.
    looks_max: usize,
    step_bytes_max: usize,
    /// Their place in the room for replies, once they have taken a step.
    held: Option<HeldReply>,
}

/// The end of a step of several reads.
enum Ended {
    Part,
    Whole,
    /// The results take this many bytes, or more, which is too much.
    TooLarge(u64),
}

impl SeveralReads {
    pub fn new(reads: Vec<OwnedRead>, looks_max: usize) -> SeveralReads {
        SeveralReads {
            reads,
            done: 0,
            results: Vec::new(),
            bytes: 0,
            place: ListPlace::default(),
            names: ChildNames::default(),
            zxid: None,
            looks_max,
            step_bytes_max: READ_HOLD_BYTES_MAX,
            held: None,
        }
    }

    /// Bytes that all results will have, if one step can tell.
    pub fn bytes_in_all(&self, machine: &Machine, identities: &[Identity<'_>]) -> Option<u64> {
        let bytes_of = |read: &OwnedRead| {
            result_bytes(&machine.zk().query(&ops::query(&read.borrow()), identities))
        };
        (self.reads.len() <= LIST_STEP_NAMES).then(|| self.reads.iter().map(bytes_of).sum())
    }

    /// Whether it has its place in the room.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    fn bytes(&self) -> u64 {
        self.bytes + self.names.bytes() as u64
    }

    fn begin_anew(&mut self) {
        (self.done, self.bytes, self.place) = (0, 0, ListPlace::default());
        self.results.clear();
        self.names.clear();
        self.looks_max = self.looks_max.saturating_mul(2);
        self.step_bytes_max = self.step_bytes_max.saturating_mul(2);
    }

    /// Begins, or goes on.
    fn step(
        &mut self,
        machine: &Machine,
        identities: &[Identity<'_>],
        bytes_max: u64,
        room: &Arc<ReplyRoom>,
    ) -> Ended {
        let zxid = machine.mark().zxid.0;
        match self.zxid.replace(zxid) {
            Some(before) if before == zxid => {}
            Some(_) => self.begin_anew(),
            None => {
                let in_all = self.bytes_in_all(machine, identities).unwrap_or(0);
                if in_all > bytes_max {
                    return Ended::TooLarge(in_all);
                }
                let is_large = in_all > READ_HOLD_BYTES_MAX as u64;
                self.held = is_large.then(|| HeldReply::new(room, in_all as usize));
            }
        }
        let ended = self.run(machine, identities, bytes_max);
        if let Ended::Part = ended {
            let bytes = self.bytes() as usize;
            self.held.get_or_insert_with(|| HeldReply::new(room, bytes)).grow_to(bytes);
        }
        ended
    }

    fn run(&mut self, machine: &Machine, identities: &[Identity<'_>], bytes_max: u64) -> Ended {
        let mut looks_left = self.looks_max;
        let bytes_end = self.bytes().saturating_add(self.step_bytes_max as u64);
        while let Some(read) = self.reads.get(self.done) {
            if looks_left == 0 || self.bytes() >= bytes_end {
                return Ended::Part;
            }
            if matches!(read.kind, ReadKind::GetChildren | ReadKind::GetChildren2) {
                self.go_on_with_list(machine, identities, &mut looks_left);
            } else {
                looks_left -= 1;
                let result = machine.zk().query(&ops::query(&read.borrow()), identities);
                let bytes = self.bytes() + result_bytes(&result);
                if bytes > bytes_max {
                    return Ended::TooLarge(bytes);
                }
                encode_read_result(read.kind, &result, &mut self.results);
                self.bytes = bytes;
                self.done += 1;
            }
            if self.bytes() > bytes_max {
                return Ended::TooLarge(self.bytes());
            }
        }
        Ended::Whole
    }

    /// Lists the next children for the read that is next. A list counts as a look, as each name
    /// does.
    fn go_on_with_list(
        &mut self,
        machine: &Machine,
        identities: &[Identity<'_>],
        looks_left: &mut usize,
    ) {
        let OwnedRead { kind, path, .. } = &self.reads[self.done];
        let mut count = 0;
        let each = |name: &str| {
            count += 1;
            self.names.push(name);
        };
        let step = machine.zk().list_children(path, identities, *looks_left, &mut self.place, each);
        *looks_left -= count.max(1);
        match step {
            Ok(ListStep::Part) => return,
            Ok(ListStep::Outdated) => return self.begin_anew(),
            Ok(ListStep::Whole(stat)) => {
                encode_list_result(*kind, &self.names, &stat, &mut self.results);
            }
            Err(refusal) => {
                self.names.clear();
                encode_read_result(*kind, &Err(refusal), &mut self.results);
            }
        }
        self.bytes += self.names.bytes() as u64;
        self.names.clear();
        self.place = ListPlace::default();
        self.done += 1;
    }
}

impl Front {
    /// Begins a list of children at the front of the window that one hold is too short for, with a
    /// result of this many bytes as far as is known.
    pub(super) fn begin_list(&mut self, id: ConnectionId, bytes: u64) {
        let held = HeldReply::new(&self.config.replies, bytes as usize);
        let names_max = self.config.list_step_names;
        let first = self.connections.get_mut(&id).and_then(|it| it.window.front_mut());
        let Some(Slot { kind, .. }) = first else { return };
        if let SlotKind::Read(read) = kind {
            let (read, place, names) = (read.clone(), ListPlace::default(), ChildNames::default());
            let list = List { read, place, names, names_max, held };
            *kind = SlotKind::List(Box::new(list));
        }
    }

    /// Runs a step of the list at the front of the window.
    pub(super) fn run_list(&mut self, id: ConnectionId, machine: &Machine) -> Option<usize> {
        let mark = machine.mark();
        let bytes_max = self.result_bytes_max();
        let connection = self.connections.get_mut(&id)?;
        let identities = borrow(&connection.identities);
        let Some(SlotKind::List(list)) = connection.window.front_mut().map(|slot| &mut slot.kind)
        else {
            unreachable!("the caller checked that it exists");
        };
        let List { read, place, names, names_max, held } = &mut **list;
        let each = |name: &str| names.push(name);
        let step = machine.zk().list_children(&read.path, &identities, *names_max, place, each);
        let bytes = names.bytes() as u64;
        if step == Ok(ListStep::Outdated) {
            names.clear();
            *names_max = names_max.saturating_mul(2);
            return Some(READ_HOLD_REQUESTS_MAX);
        }
        if step == Ok(ListStep::Part) && bytes <= bytes_max {
            held.grow_to(bytes as usize);
            return Some(READ_HOLD_REQUESTS_MAX);
        }
        let slot = self.pop_slot(id);
        let SlotKind::List(list) = &slot.kind else { unreachable!("it was just looked at") };
        let (xid, zxid, kind) = (slot.xid, mark.zxid.0, list.read.kind);
        match step {
            _ if bytes > bytes_max => self.refuse_reply(id, &slot, zxid, &list.read.path, bytes),
            Ok(ListStep::Whole(stat)) => {
                self.reply(id, &slot, zxid, |out| {
                    reserve(bytes, out);
                    encode_children((xid, zxid), kind, &list.names, &stat, out);
                });
                self.note_reply(id, bytes as usize);
                self.watch(id, &list.read, ErrorCode::OK, mark.ordinal);
            }
            Ok(_) => unreachable!("it has ended"),
            Err(refusal) => {
                self.reply(id, &slot, zxid, |out| {
                    encode_read(xid, zxid, kind, &Err(refusal), out);
                });
            }
        }
        self.settle(id);
        Some(READ_HOLD_REQUESTS_MAX)
    }

    /// Runs a step of the several reads at the front of the window.
    pub(super) fn run_several(&mut self, id: ConnectionId, machine: &Machine) -> Option<usize> {
        let zxid = machine.mark().zxid.0;
        let bytes_max = self.result_bytes_max().min(MULTI_READ_BYTES_MAX);
        let connection = self.connections.get_mut(&id)?;
        let identities = borrow(&connection.identities);
        let Some(SlotKind::MultiRead(several)) =
            connection.window.front_mut().map(|slot| &mut slot.kind)
        else {
            unreachable!("the caller checked that it exists");
        };
        let ended = several.step(machine, &identities, bytes_max, &self.config.replies);
        if let Ended::Part = ended {
            return Some(READ_HOLD_REQUESTS_MAX);
        }
        let slot = self.pop_slot(id);
        let SlotKind::MultiRead(several) = &slot.kind else {
            unreachable!("it was just looked at");
        };
        let xid = slot.xid;
        match ended {
            Ended::TooLarge(bytes) if self.is_too_large_a_reply(bytes) => {
                let path = several.reads.first().map_or("", |read| &read.path);
                self.refuse_reply(id, &slot, zxid, path, bytes);
            }
            Ended::TooLarge(bytes) => {
                self.notice(id, &format!("a multi-read of {bytes} bytes is refused"));
                let header = ReplyHeader { xid, zxid, error: ErrorCode::MARSHALLING_ERROR };
                self.reply(id, &slot, zxid, |out| encode_empty(header, out));
            }
            _ => self.reply(id, &slot, zxid, |out| {
                reserve(several.results.len() as u64, out);
                encode_multi_read(xid, zxid, &several.results, out);
            }),
        }
        let count = several.reads.len().clamp(1, READ_HOLD_REQUESTS_MAX);
        self.settle(id);
        Some(count)
    }
}
