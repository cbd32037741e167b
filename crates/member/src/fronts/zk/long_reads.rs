//! Reads that are too long for one hold of the state's lock: long lists of children, and several
//! reads in one request. They go in steps. If a child of a list is removed between two steps, the
//! list begins anew. Several reads in one request begin anew if the tree, the settings or the list
//! of servers may have changed. Each time a read begins anew, its steps become twice as long, so
//! the read ends however much others write.

use std::sync::Arc;

use machine::{Identity, ListPlace, ListStep, Machine, ZkVersion};
use zk::limits::STAT_BYTES;
use zk::ops;
use zk::request::ReadKind;
use zk::response::{ChildNames, encode_list_result, encode_read_result, result_bytes};

use crate::fronts::zk::limits::READ_HOLD_BYTES_MAX;
use crate::limits::SMALL_REPLY_BYTES;
use crate::local_read::OwnedRead;
use crate::reply_room::{HeldReply, ReplyRoom};

/// The most bytes that the result of one of several reads takes in addition to what
/// [`result_bytes`] counts: its header, a Stat, and lengths.
const RESULT_BYTES: u64 = (9 + STAT_BYTES + 8) as u64;

/// The bounds of one step.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// How many names and paths the step may look at.
    pub looks: usize,
    pub bytes: usize,
}

impl Bounds {
    /// The bounds of the first step.
    pub fn new(looks: usize) -> Bounds {
        Bounds { looks, bytes: READ_HOLD_BYTES_MAX }
    }

    pub fn double(&mut self) {
        self.looks = self.looks.saturating_mul(2);
        self.bytes = self.bytes.saturating_mul(2);
    }
}

/// A list of children under construction. It takes room for the whole list with the first step and
/// never waits: two lists that each hold a part of the room and wait for the rest would wait for
/// ever.
pub(super) struct List {
    pub read: OwnedRead,
    pub place: ListPlace,
    pub names: ChildNames,
    pub bounds: Bounds,
    pub held: HeldReply,
}

/// Several reads of one request. First the bytes of their results are counted, then the request
/// takes room for all of them, as a [`List`] does, then the reads are made. They set no watches:
/// `MultiOperationRecord` drops the flag.
pub(super) struct SeveralReads {
    pub reads: Vec<OwnedRead>,
    bounds: Bounds,
    /// How many reads were counted, and the bytes of their results according to [`result_bytes`].
    counted: usize,
    counted_bytes: u64,
    /// The room for all results; `None` before it was taken, and if the results are small.
    held: Option<HeldReply>,
    /// The version of the state that all results show; `None` before the first step.
    version: Option<ZkVersion>,
    /// How many reads are done, their results, and the bytes of the results according to
    /// [`result_bytes`].
    done: usize,
    pub results: Vec<u8>,
    bytes: u64,
    /// The list under construction, if the next read is a list.
    place: ListPlace,
    names: ChildNames,
}

/// How a step of several reads ended.
pub(super) enum Ended {
    Part,
    /// There is no room for this many bytes. The request holds no room meanwhile.
    NoRoom(u64),
    Whole,
    /// The results have at least this many bytes, which is too many.
    TooLarge(u64),
}

impl SeveralReads {
    /// New reads. The first step may look at `looks_max` names and paths, at least 1.
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

    /// The room that the request must get before it goes on, in bytes; 0 if it needs none now.
    pub fn wants_room(&self) -> u64 {
        let is_counted = self.counted == self.reads.len();
        if is_counted && self.held.is_none() { self.room_bytes() } else { 0 }
    }

    /// Whether the request has taken its room.
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

    /// Begins, or goes on with the next step.
    pub fn step(
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

    /// Adds the next children to the list of the read that is next. A list counts as one look, as
    /// each name does.
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
