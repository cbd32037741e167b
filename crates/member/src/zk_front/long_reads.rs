//! Reads that look at more than one hold of the state's lock may: long lists of children, and
//! several reads in one request. They go in steps. What changed between two steps makes them begin
//! anew, with steps that are twice as long, so that they end however much others write.

use std::sync::Arc;

use machine::{ConnectionId, Identity, ListPlace, ListStep, Machine, ZkVersion};
use zk::limits::STAT_BYTES;
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
    MULTI_READ_BYTES_MAX, READ_HOLD_BYTES_MAX, READ_HOLD_REQUESTS_MAX, SMALL_REPLY_BYTES,
};
use crate::local_read::OwnedRead;
use crate::reply_room::{HeldReply, ReplyRoom};

/// Bytes that the result of one of several reads takes at most, beside what [`result_bytes`] counts:
/// its header, a Stat, and lengths.
const RESULT_BYTES: u64 = (9 + STAT_BYTES + 8) as u64;

/// The bounds of one step.
#[derive(Clone, Copy)]
struct Bounds {
    /// Names, and reads of several.
    looks: usize,
    bytes: usize,
}

impl Bounds {
    /// Of the first step.
    fn new(looks: usize) -> Bounds {
        Bounds { looks, bytes: READ_HOLD_BYTES_MAX }
    }

    fn double(&mut self) {
        self.looks = self.looks.saturating_mul(2);
        self.bytes = self.bytes.saturating_mul(2);
    }
}

/// A list of children, as far as it is made. It holds room for all of it from the first step on,
/// and waits for nobody: two that each hold a part and wait for the rest would wait for ever.
pub(super) struct List {
    pub read: OwnedRead,
    place: ListPlace,
    names: ChildNames,
    bounds: Bounds,
    held: HeldReply,
}

/// Several reads of one request. First their size is counted, then they get room for all of it, as
/// a [`List`] does, then they are made. They set no watches: `MultiOperationRecord` drops the flag.
pub(super) struct SeveralReads {
    reads: Vec<OwnedRead>,
    bounds: Bounds,
    /// How many were counted, and the bytes of their results, as [`result_bytes`] counts them.
    counted: usize,
    counted_bytes: u64,
    /// The room for all; none for little, or before there is any.
    held: Option<HeldReply>,
    /// What all results show; none before the first.
    version: Option<ZkVersion>,
    /// How many are done, their results, and the bytes of these.
    done: usize,
    results: Vec<u8>,
    bytes: u64,
    /// The list that the next one has begun.
    place: ListPlace,
    names: ChildNames,
}

/// The end of a step of several reads.
enum Ended {
    Part,
    /// There is no room for so many bytes. It holds nothing.
    NoRoom(u64),
    Whole,
    /// The results take this many bytes, or more, which is too much.
    TooLarge(u64),
}

impl SeveralReads {
    /// Reads of which the first step may look at so many names and paths, at least 1.
    pub fn new(reads: Vec<OwnedRead>, looks_max: usize) -> SeveralReads {
        SeveralReads {
            reads,
            bounds: Bounds::new(looks_max),
            counted: 0,
            counted_bytes: 0,
            held: None,
            version: None,
            done: 0,
            results: Vec::new(),
            bytes: 0,
            place: ListPlace::default(),
            names: ChildNames::default(),
        }
    }

    /// The room, in bytes, that it must get before it goes on; 0: none.
    pub fn wants_room(&self) -> u64 {
        let is_counted = self.counted == self.reads.len();
        if is_counted && self.held.is_none() { self.room_bytes() } else { 0 }
    }

    /// Whether it has its place in the room.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    fn room_bytes(&self) -> u64 {
        self.counted_bytes + self.reads.len() as u64 * RESULT_BYTES
    }

    fn bytes(&self) -> u64 {
        self.bytes + self.names.bytes() as u64
    }

    fn begin_anew(&mut self) {
        (self.done, self.bytes, self.place) = (0, 0, ListPlace::default());
        self.results.clear();
        self.names.clear();
        self.bounds.double();
    }

    /// Begins, or goes on.
    fn step(
        &mut self,
        machine: &Machine,
        identities: &[Identity<'_>],
        bytes_max: u64,
        room: &Arc<ReplyRoom>,
    ) -> Ended {
        let mut looks_left = self.bounds.looks;
        while let Some(read) = self.reads.get(self.counted) {
            if looks_left == 0 {
                return Ended::Part;
            }
            looks_left -= 1;
            let result = machine.zk().query(&ops::query(&read.borrow()), identities);
            self.counted += 1;
            self.counted_bytes += result_bytes(&result);
            if self.counted_bytes > bytes_max {
                return Ended::TooLarge(self.counted_bytes);
            }
        }
        let wanted = self.wants_room();
        if wanted > SMALL_REPLY_BYTES as u64 {
            if !room.takes(wanted) {
                return Ended::NoRoom(wanted);
            }
            self.held = Some(HeldReply::new(room, wanted as usize));
        }
        let version = machine.zk().version();
        if self.version.replace(version).is_some_and(|before| before != version) {
            self.begin_anew();
        }
        let ended = self.run(machine, identities, bytes_max);
        if let (Ended::Part, Some(held)) = (&ended, &mut self.held) {
            held.grow_to(self.results.len() + self.names.bytes());
        }
        ended
    }

    fn run(&mut self, machine: &Machine, identities: &[Identity<'_>], bytes_max: u64) -> Ended {
        let mut looks_left = self.bounds.looks;
        let bytes_end = self.bytes().saturating_add(self.bounds.bytes as u64);
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
        let bounds = (*looks_left, self.bounds.bytes);
        let step = machine.zk().list_children(path, identities, bounds, &mut self.place, each);
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
        let bounds = Bounds::new(self.config.list_step_names);
        let first = self.connections.get_mut(&id).and_then(|it| it.window.front_mut());
        let Some(Slot { kind, .. }) = first else { return };
        if let SlotKind::Read(read) = kind {
            let (read, place, names) = (read.clone(), ListPlace::default(), ChildNames::default());
            *kind = SlotKind::List(Box::new(List { read, place, names, bounds, held }));
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
        let List { read, place, names, bounds, held } = &mut **list;
        let each = |name: &str| names.push(name);
        let step_max = (bounds.looks, bounds.bytes);
        let step = machine.zk().list_children(&read.path, &identities, step_max, place, each);
        let bytes = names.bytes() as u64;
        if step == Ok(ListStep::Outdated) {
            names.clear();
            bounds.double();
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
        match ended {
            Ended::Part => return Some(READ_HOLD_REQUESTS_MAX),
            Ended::NoRoom(bytes) => return self.wait_for_room(id, bytes, zxid).then_some(1),
            Ended::Whole | Ended::TooLarge(_) => {}
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
