//! Restoring: builds ZooKeeper's state from the records of ZooKeeper's section of an image (an
//! image is the bytes of a snapshot).
//!
//! A [`RecordDecoder`] checks the form of each record, and needs nothing of the state.
//! [`ZkRestore`] then puts the records into the tree and the sessions, and checks at the end that
//! they fit together.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::codec::{DecodeError, Reader};
use crate::ids::{Attachment, BootId, ConnectionId, MemberId, Ordinal, Origin, SessionId, Zxid};
use crate::image::error::RestoreError;
use crate::limits::{RESTORED_NUMBER_MAX, ZNODES_MAX};
use crate::together::Together;
use crate::zk::Zk;
use crate::zk::acl::{self, Acl, AclId};
use crate::zk::freeze::{FLAG_COUNTERS, Image, NO_PARENT, TAG_SESSION, TAG_START, TAG_ZNODE};
use crate::zk::sessions::{Session, Sessions};
use crate::zk::settings::Settings;
use crate::zk::tree::{ROOT, RestoredZnode, Tree, ZnodeId};

/// The records of one piece of an image; the form of each is checked.
#[derive(Default)]
pub(crate) struct Records {
    start: Option<Start>,
    sessions: Vec<(SessionId, Session)>,
    /// ACLs that occur first in this piece, in the order of their numbers.
    acls: Vec<Acl>,
    znodes: Vec<DecodedZnode>,
}

/// The start record of the section.
struct Start {
    zxid: Zxid,
    settings: Settings,
    session_count: u64,
    slot_count: u32,
    znode_count: u32,
}

struct DecodedZnode {
    /// The znode's id in the image.
    id: u32,
    /// The parent's id in the image, or [`NO_PARENT`].
    parent: u32,
    /// The number of the znode's ACL in the image.
    acl: u32,
    znode: RestoredZnode,
}

/// Decodes the records of an image, in order.
#[derive(Default)]
pub(crate) struct RecordDecoder {
    /// All ids are below this number; `None` until the start record was read.
    slot_count: Option<u32>,
    /// How many ACLs the image has had so far.
    acl_count: u32,
}

impl RecordDecoder {
    /// Decodes all records of a frame.
    pub fn decode(
        &mut self,
        reader: &mut Reader<'_>,
        decoded: &mut Records,
    ) -> Result<(), RestoreError> {
        while reader.remaining() > 0 {
            let tag = reader.u8()?;
            if (tag == TAG_START) != self.slot_count.is_none() {
                return Err(reader.bad("order of zk records", u64::from(tag)).into());
            }
            match tag {
                TAG_START => {
                    let start = decode_start(reader)?;
                    self.slot_count = Some(start.slot_count);
                    decoded.start = Some(start);
                }
                TAG_SESSION => decoded.sessions.push(decode_session(reader)?),
                TAG_ZNODE => self.znode(reader, decoded)?,
                _ => return Err(reader.bad("zk record", u64::from(tag)).into()),
            }
        }
        Ok(())
    }

    fn znode(
        &mut self,
        reader: &mut Reader<'_>,
        decoded: &mut Records,
    ) -> Result<(), RestoreError> {
        let id = reader.u32()?;
        if id >= self.slot_count.unwrap_or(0) {
            return Err(reader.bad("znode id", u64::from(id)).into());
        }
        let parent = reader.u32()?;
        let (czxid, mzxid) = (reader.i64()?, reader.i64()?);
        let (ctime, mtime) = (reader.i64()?, reader.i64()?);
        let owner = reader.i64()?;
        let (version, aversion) = (reader.i32()?, reader.i32()?);
        let counters = match reader.u8()? {
            0 => None,
            FLAG_COUNTERS => Some((reader.i32()?, reader.i64()?)),
            flags => return Err(reader.bad("znode flags", u64::from(flags)).into()),
        };
        let name = reader.text()?;
        let data = reader.optional_bytes()?;
        let number = reader.u32()?;
        if number > self.acl_count {
            return Err(reader.bad("acl number", u64::from(number)).into());
        }
        if number == self.acl_count {
            decoded.acls.push(acl::decode(reader)?.into());
            self.acl_count += 1;
        }
        let acl_id = acl::OPEN;
        let image = Image {
            id,
            parent,
            czxid,
            mzxid,
            ctime,
            mtime,
            owner,
            version,
            aversion,
            counters,
            name,
            data,
            acl_id,
        };
        let Some(znode) = RestoredZnode::new(&image) else { return Err(does_not_fit(id)) };
        decoded.znodes.push(DecodedZnode { id, parent, acl: number, znode });
        Ok(())
    }
}

fn does_not_fit(id: u32) -> RestoreError {
    RestoreError::Inconsistent(format!("znode {id} does not fit"))
}

fn decode_start(reader: &mut Reader<'_>) -> Result<Start, DecodeError> {
    let zxid = Zxid(reader.i64()?);
    if zxid.0 > RESTORED_NUMBER_MAX as i64 {
        return Err(reader.bad("zxid of an image", zxid.0 as u64));
    }
    let settings = Settings::decode(reader)?;
    let session_count = reader.u64()?;
    let slot_count = reader.u32()?;
    if slot_count > ZNODES_MAX {
        return Err(reader.bad("slot count", u64::from(slot_count)));
    }
    let znode_count = reader.u32()?;
    Ok(Start { zxid, settings, session_count, slot_count, znode_count })
}

fn decode_session(reader: &mut Reader<'_>) -> Result<(SessionId, Session), DecodeError> {
    let id = SessionId(reader.i64()?);
    let timeout_ms = reader.u32()?;
    let password = reader.password()?;
    let origin = Origin { member: MemberId(reader.u64()?), boot: BootId(reader.u64()?) };
    let owner = Attachment { origin, connection: ConnectionId(reader.u64()?) };
    let attached = Ordinal(reader.u64()?);
    Ok((id, Session::new(timeout_ms, password, owner, attached)))
}

/// Builds ZooKeeper's state from the records of an image, in order.
pub(crate) struct ZkRestore {
    tree: Tree,
    sessions: Sessions,
    start: Option<Start>,
    /// ACLs by their numbers in the image. Each has its id in the tree once a znode uses it.
    acls: Vec<(Acl, Option<AclId>)>,
    slots: SlotMap,
    session_count: u64,
}

impl Default for ZkRestore {
    fn default() -> Self {
        let mut slots = SlotMap::default();
        let root = slots.slot_of(ROOT.0);
        assert!(root == ROOT.0);
        ZkRestore {
            slots,
            tree: Tree::without_znodes(),
            sessions: Sessions::default(),
            start: None,
            acls: Vec::new(),
            session_count: 0,
        }
    }
}

impl ZkRestore {
    /// Puts the records of the next piece into the state.
    pub fn install(&mut self, records: Records) -> Result<(), RestoreError> {
        if records.start.is_some() {
            self.start = records.start;
        }
        for (id, session) in records.sessions {
            if self.sessions.get(id).is_some() {
                return Err(RestoreError::Inconsistent(format!(
                    "session {:#x} stands twice",
                    id.0
                )));
            }
            self.sessions.insert(id, session);
            self.session_count += 1;
        }
        self.acls.extend(records.acls.into_iter().map(|acl| (acl, None)));
        for decoded in records.znodes {
            self.znode(decoded)?;
        }
        Ok(())
    }

    fn znode(&mut self, decoded: DecodedZnode) -> Result<(), RestoreError> {
        let DecodedZnode { id, parent, acl, znode } = decoded;
        let slot = self.slots.slot_of(id);
        let parent = if parent == NO_PARENT { parent } else { self.slots.slot_of(parent) };
        let (acl, acl_id) =
            self.acls.get_mut(acl as usize).expect("the decoder has checked the number");
        let acl_id = self.tree.retain_acl(acl, acl_id);
        let session = znode.session();
        if !self.tree.restore(slot, parent, acl_id, znode) {
            return Err(does_not_fit(id));
        }
        if let Some(session) = session
            && !self.sessions.own(SessionId(session), ZnodeId(slot))
        {
            let what = format!("znode {id} belongs to session {session:#x}, which is missing");
            return Err(RestoreError::Inconsistent(what));
        }
        Ok(())
    }

    /// Checks that nothing is missing, and returns the state. Builds the tables and the digest as
    /// two jobs, which `together` may run at once.
    pub fn finish(mut self, together: Together) -> Result<Zk, RestoreError> {
        let Some(start) = self.start else {
            return Err(RestoreError::Inconsistent("the image is not whole".to_string()));
        };
        if start.session_count != self.session_count {
            return Err(RestoreError::Inconsistent("sessions are missing".to_string()));
        }
        if start.znode_count != self.tree.znode_count() {
            return Err(RestoreError::Inconsistent("znodes are missing".to_string()));
        }
        self.tree.finish_restore(together).map_err(RestoreError::Inconsistent)?;
        let (tree, sessions) = (self.tree, self.sessions);
        let (settings, zxid) = (start.settings, start.zxid);
        Ok(Zk { tree, sessions, settings, zxid, paused: None, unnumbered_changes: 0 })
    }
}

/// Ids in one block of a [`SlotMap`]: a block takes as much memory as a few znodes.
const BLOCK_IDS: u32 = 64;

/// Marks an id in a block that has no slot yet.
const NO_SLOT: u32 = u32::MAX;

/// Maps the ids in an image to slots of the new tree. An id gets the next free slot when the image
/// first names it, so memory grows with the records read, however large the ids are, and a whole
/// image leaves no slot vacant. An image names ids mostly in ascending order, so they are kept in
/// blocks of neighbours.
struct SlotMap {
    /// Index in `blocks` of the block for an id; the key is the id divided by [`BLOCK_IDS`].
    places: HashMap<u32, u32, FixedState>,
    blocks: Vec<[u32; BLOCK_IDS as usize]>,
    /// The number of slots assigned so far.
    count: u32,
}

impl Default for SlotMap {
    fn default() -> Self {
        let places = HashMap::with_hasher(FixedState::default());
        SlotMap { places, blocks: Vec::new(), count: 0 }
    }
}

impl SlotMap {
    fn slot_of(&mut self, id: u32) -> u32 {
        let next = self.blocks.len() as u32;
        let place = *self.places.entry(id / BLOCK_IDS).or_insert(next);
        if place == next {
            self.blocks.push([NO_SLOT; BLOCK_IDS as usize]);
        }
        let slot = &mut self.blocks[place as usize][(id % BLOCK_IDS) as usize];
        if *slot == NO_SLOT {
            *slot = self.count;
            self.count += 1;
        }
        *slot
    }
}
