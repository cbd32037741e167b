//! Restoring: from the pieces of an image to a machine.
//!
//! It takes two steps a piece. A [`Decoder`] reads the records of a piece and checks the form of
//! each; that is most of the work, and needs nothing of the state. [`Restore::install`] puts what
//! was decoded in its place. So one thread may decode a piece while another installs the piece
//! before. [`Restore::finish`] checks that the parts fit together and compares the digest.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thiserror::Error;

use crate::codec::{DecodeError, Reader};
use crate::control::Control;
use crate::digest::Digest;
use crate::ids::{
    Attachment, BootId, ConnectionId, LogIndex, MemberId, Ordinal, Origin, SessionId, Zxid,
};
use crate::image::format::{
    FLAG_COUNTERS, FORMAT_VERSION, FORMAT_VERSION_ALONE, TAG_END, TAG_HEADER, TAG_SESSION,
    TAG_ZNODE,
};
use crate::limits::ZNODES_MAX;
use crate::machine::Machine;
use crate::together::{Together, one_by_one};
use crate::zk::Zk;
use crate::zk::acl::{self, Acl, AclId};
use crate::zk::freeze::{Image, NO_PARENT};
use crate::zk::sessions::{Session, Sessions};
use crate::zk::settings::Settings;
use crate::zk::tree::{ROOT, RestoredZnode, Tree, ZnodeId};

/// Why an image could not be turned into a machine.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RestoreError {
    /// A piece is not what the format says.
    #[error("bad image: {0}")]
    Malformed(#[from] DecodeError),
    /// The parts do not fit together.
    #[error("bad image: {0}")]
    Inconsistent(String),
    /// It was written in a format that this version does not know.
    #[error("the image has format version {version}; this version reads up to {version_max}")]
    UnknownFormat {
        /// The version found.
        version: u8,
        /// The newest version that is known here.
        version_max: u8,
    },
    /// The digest of what was read is not the one the image was written with.
    #[error("bad image: its digest is {found:032x}, written with {written:032x}")]
    WrongDigest {
        /// The digest of the restored state.
        found: u128,
        /// In the header.
        written: u128,
    },
}

/// The records of one piece, each of the right form.
#[derive(Default)]
pub struct DecodedPiece {
    header: Option<Header>,
    sessions: Vec<(SessionId, Session)>,
    /// ACLs that no piece before named; their numbers follow on those.
    acls: Vec<Acl>,
    znodes: Vec<DecodedZnode>,
    /// The image ends here.
    ended: bool,
}

struct Header {
    index: LogIndex,
    ordinal: Ordinal,
    zxid: Zxid,
    settings: Settings,
    control: Control,
    digest: u128,
    session_count: u64,
    slot_count: u32,
    znode_count: u32,
}

struct DecodedZnode {
    /// Its id in the image.
    id: u32,
    /// The parent's id in the image, or [`NO_PARENT`].
    parent: u32,
    /// The number of its ACL in the image.
    acl: u32,
    znode: RestoredZnode,
}

/// Reads the pieces of an image, in order.
#[derive(Default)]
pub struct Decoder {
    /// What ids are below, once the header was read.
    slot_count: Option<u32>,
    /// ACLs so far.
    acl_count: u32,
    ended: bool,
}

impl Decoder {
    /// Reads the next piece.
    ///
    /// # Errors
    /// A record is not what the format says.
    pub fn decode(&mut self, piece: &[u8]) -> Result<DecodedPiece, RestoreError> {
        let mut reader = Reader::new(piece);
        let mut decoded = DecodedPiece::default();
        while reader.remaining() > 0 {
            let tag = reader.u8()?;
            if self.ended || (tag == TAG_HEADER) != self.slot_count.is_none() {
                return Err(reader.bad("order of image records", u64::from(tag)).into());
            }
            match tag {
                TAG_HEADER => {
                    let header = decode_header(&mut reader)?;
                    self.slot_count = Some(header.slot_count);
                    decoded.header = Some(header);
                }
                TAG_SESSION => decoded.sessions.push(decode_session(&mut reader)?),
                TAG_ZNODE => self.znode(&mut reader, &mut decoded)?,
                TAG_END => self.ended = true,
                _ => return Err(reader.bad("image record", u64::from(tag)).into()),
            }
        }
        decoded.ended = self.ended;
        Ok(decoded)
    }

    fn znode(
        &mut self,
        reader: &mut Reader<'_>,
        decoded: &mut DecodedPiece,
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

fn decode_header(reader: &mut Reader<'_>) -> Result<Header, RestoreError> {
    let version = reader.u8()?;
    if version > FORMAT_VERSION {
        let version_max = FORMAT_VERSION;
        return Err(RestoreError::UnknownFormat { version, version_max });
    }
    if ![FORMAT_VERSION, FORMAT_VERSION_ALONE].contains(&version) {
        return Err(reader.bad("image format version", u64::from(version)).into());
    }
    let index = LogIndex(reader.u64()?);
    let ordinal = Ordinal(reader.u64()?);
    let zxid = Zxid(reader.i64()?);
    let settings = Settings::decode(reader)?;
    let control = Control::decode(reader, version == FORMAT_VERSION)?;
    let digest = reader.u128()?;
    let session_count = reader.u64()?;
    let slot_count = reader.u32()?;
    if slot_count > ZNODES_MAX {
        return Err(reader.bad("slot count", u64::from(slot_count)).into());
    }
    let znode_count = reader.u32()?;
    Ok(Header {
        index,
        ordinal,
        zxid,
        settings,
        control,
        digest,
        session_count,
        slot_count,
        znode_count,
    })
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

/// Puts a machine together from the pieces of an image, in order.
pub struct Restore {
    tree: Tree,
    sessions: Sessions,
    header: Option<Header>,
    /// By their numbers in the image, with their ids in the tree once a znode has them.
    acls: Vec<(Acl, Option<AclId>)>,
    slots: SlotMap,
    session_count: u64,
    ended: bool,
    /// For pieces that are decoded and installed in one step.
    decoder: Decoder,
}

impl Default for Restore {
    fn default() -> Self {
        let mut slots = SlotMap::default();
        let root = slots.slot_of(ROOT.0);
        assert!(root == ROOT.0);
        Restore {
            slots,
            tree: Tree::without_znodes(),
            sessions: Sessions::default(),
            header: None,
            acls: Vec::new(),
            session_count: 0,
            ended: false,
            decoder: Decoder::default(),
        }
    }
}

impl Restore {
    /// Takes the next piece.
    ///
    /// # Errors
    /// It is not what the format says, or does not fit to what came before.
    pub fn piece(&mut self, piece: &[u8]) -> Result<(), RestoreError> {
        let decoded = self.decoder.decode(piece)?;
        self.install(decoded)
    }

    /// Takes the next piece, which was decoded.
    ///
    /// # Errors
    /// It does not fit to what came before.
    pub fn install(&mut self, piece: DecodedPiece) -> Result<(), RestoreError> {
        if piece.header.is_some() {
            self.header = piece.header;
        }
        for (id, session) in piece.sessions {
            if self.sessions.get(id).is_some() {
                return Err(RestoreError::Inconsistent(format!(
                    "session {:#x} stands twice",
                    id.0
                )));
            }
            self.sessions.insert(id, session);
            self.session_count += 1;
        }
        self.acls.extend(piece.acls.into_iter().map(|acl| (acl, None)));
        for decoded in piece.znodes {
            self.znode(decoded)?;
        }
        self.ended = piece.ended;
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

    /// Checks that the image is whole and gives the machine.
    ///
    /// # Errors
    /// Something is missing, or the digest differs.
    pub fn finish(self) -> Result<Machine, RestoreError> {
        self.finish_together(one_by_one)
    }

    /// As [`Restore::finish`], with tables and digest made as two jobs.
    ///
    /// # Errors
    /// As there.
    pub fn finish_together(mut self, together: Together) -> Result<Machine, RestoreError> {
        let header = match self.header {
            Some(header) if self.ended => header,
            _ => {
                return Err(RestoreError::Inconsistent("the image is not whole".to_string()));
            }
        };
        if header.session_count != self.session_count {
            return Err(RestoreError::Inconsistent("sessions are missing".to_string()));
        }
        if header.znode_count != self.tree.znode_count() {
            return Err(RestoreError::Inconsistent("znodes are missing".to_string()));
        }
        self.tree.finish_restore(together).map_err(RestoreError::Inconsistent)?;
        let zk = Zk {
            tree: self.tree,
            sessions: self.sessions,
            settings: header.settings,
            zxid: header.zxid,
        };
        let (control, index, ordinal) = (header.control, header.index, header.ordinal);
        let machine = Machine { control, zk, index, ordinal, ..Machine::default() };
        let found = machine.digest();
        if found != Digest(header.digest) {
            return Err(RestoreError::WrongDigest { found: found.0, written: header.digest });
        }
        Ok(machine)
    }
}

/// Ids that stand in one block of a [`SlotMap`]: a block takes as much memory as a few znodes.
const BLOCK_IDS: u32 = 64;

/// Stands in a block for an id that was not named yet.
const NO_SLOT: u32 = u32::MAX;

/// Slots of the ids in an image, given in the order in which they are first named: memory grows
/// with what was read, whatever the ids are, and no slot stays vacant if the image is whole. A
/// walk over a tree names ids one after the other, so they are found in blocks.
struct SlotMap {
    /// Places of the blocks, by an id divided by [`BLOCK_IDS`].
    places: HashMap<u32, u32, FixedState>,
    blocks: Vec<[u32; BLOCK_IDS as usize]>,
    /// Slots given so far.
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
