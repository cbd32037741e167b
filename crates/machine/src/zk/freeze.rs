//! Freezing the tree: encodes the znodes of an image (the bytes of a snapshot) while commands
//! change the tree. Before a command changes a znode that the walk (`walk.rs`) has not reached, the
//! old znode is encoded.
//!
//! ZooKeeper's section of an image, version 1, is a stream of records:
//!
//! ```text
//! start   = 'T' | zxid i64 | settings | session count u64 | slot count u32 | znode count u32
//! session = 'S' | id i64 | timeout_ms u32 | password 16 | member u64 | boot u64 | connection u64
//!         | attached u64
//! znode   = 'Z' | id u32 | parent u32 | czxid mzxid ctime mtime owner i64 | version aversion i32
//!         | flags u8 (1: has counters) | [cversion i32 pzxid i64] | name bytes
//!         | data bytes or none | acl number u32 | [acl, if the number is new]
//! ```
//!
//! The start record comes first, then all sessions, then the znodes in any order. Where several
//! names precede one type, each of them has that type.
//!
//! - `slot count`: every znode id is below this number.
//! - `member`, `boot` and `connection`: the session's connection. `attached` is the ordinal of the
//!   command that attached the session to this connection.
//! - `id` and `parent`: they only tie a child to its parent within the image. They are not state.
//! - `acl number`: the position of the ACL in the order in which the image first uses its ACLs.

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::codec::Write;
use crate::zk::acl::{self, Acl, AclId};

pub(crate) const TAG_START: u8 = b'T';
pub(crate) const TAG_SESSION: u8 = b'S';
pub(crate) const TAG_ZNODE: u8 = b'Z';
pub(crate) const FLAG_COUNTERS: u8 = 1;

/// The tree's part of a running freeze. It walks the tree's slots; a slot has room for one znode.
pub(crate) struct TreeFreeze {
    /// The start record; empty once the first step has written it.
    pub start: Vec<u8>,
    /// The encoded sessions that no step has written yet.
    pub sessions: Bytes,
    pub slot_count: u32,
    /// The walk has passed all slots below this one.
    pub cursor: u32,
    /// One bit per slot, for slots that the walk must skip: their znode's old image was written, or
    /// they held no znode when the freeze began.
    settled: Vec<u64>,
    /// Old images saved since the last step, which the next step writes.
    pub old: Vec<u8>,
    old_bytes_max: usize,
    pub aborted: bool,
    acl_numbers: HashMap<Acl, u32, FixedState>,
}

impl TreeFreeze {
    pub fn new(
        start: Vec<u8>,
        sessions: Bytes,
        slot_count: u32,
        old_bytes_max: usize,
    ) -> TreeFreeze {
        TreeFreeze {
            start,
            sessions,
            slot_count,
            cursor: 0,
            settled: vec![0; (slot_count as usize).div_ceil(64)],
            old: Vec::new(),
            old_bytes_max,
            aborted: false,
            acl_numbers: HashMap::with_hasher(FixedState::default()),
        }
    }

    pub fn is_settled(&self, id: u32) -> bool {
        id >= self.slot_count
            || id < self.cursor
            || self.settled[id as usize / 64] & (1 << (id % 64)) != 0
    }

    /// Makes the freeze worthless: its next step reports that.
    pub fn abort(&mut self) {
        self.aborted = true;
    }

    /// Whether the image still needs the present value of this slot's znode, which is about to
    /// change.
    pub fn wants_old_image(&self, id: u32) -> bool {
        !self.aborted && !self.is_settled(id)
    }

    /// Saves the image of a znode that is about to change. Aborts the freeze if the saved images
    /// take too many bytes.
    pub fn save_old_image(&mut self, id: u32, image: &Image<'_>, acl: &Acl) {
        let mut old = core::mem::take(&mut self.old);
        self.encode_znode(image, acl, &mut old);
        self.old = old;
        self.settle(id);
        self.aborted = self.old.len() > self.old_bytes_max;
    }

    /// Notes that a new znode occupies this slot: it is newer than the image, so the walk skips it.
    pub fn on_occupied(&mut self, id: u32) {
        if id < self.slot_count {
            self.settle(id);
        }
    }

    fn settle(&mut self, id: u32) {
        self.settled[id as usize / 64] |= 1 << (id % 64);
    }

    pub fn encode_znode(&mut self, image: &Image<'_>, acl: &Acl, out: &mut Vec<u8>) {
        out.put_u8(TAG_ZNODE);
        out.put_u32(image.id);
        out.put_u32(image.parent);
        for word in [image.czxid, image.mzxid, image.ctime, image.mtime, image.owner] {
            out.put_i64(word);
        }
        out.put_i32(image.version);
        out.put_i32(image.aversion);
        match image.counters {
            None => out.put_u8(0),
            Some((cversion, pzxid)) => {
                out.put_u8(FLAG_COUNTERS);
                out.put_i32(cversion);
                out.put_i64(pzxid);
            }
        }
        out.put_bytes(image.name.as_bytes());
        out.put_optional_bytes(image.data);
        match self.acl_numbers.get(acl) {
            Some(&number) => out.put_u32(number),
            None => {
                let number = self.acl_numbers.len() as u32;
                self.acl_numbers.insert(acl.clone(), number);
                out.put_u32(number);
                acl::encode(acl, out);
            }
        }
    }
}

/// The parent of the root in an image.
pub(crate) const NO_PARENT: u32 = u32::MAX;

/// The fields of a znode, in the form that the image of the state (the bytes of a snapshot) holds.
pub(crate) struct Image<'a> {
    pub id: u32,
    pub parent: u32,
    pub czxid: i64,
    pub mzxid: i64,
    pub ctime: i64,
    pub mtime: i64,
    pub owner: i64,
    pub version: i32,
    pub aversion: i32,
    /// cversion and pzxid; `None` if the znode never had children.
    pub counters: Option<(i32, i64)>,
    pub name: &'a str,
    pub data: Option<&'a [u8]>,
    /// The ACL's id, valid within this process only.
    pub acl_id: AclId,
}
