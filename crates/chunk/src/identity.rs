//! Reads the identity of a store, that is, its id and its salt, or draws one for a new store in an
//! empty directory. The identity is in the file `store`, which marks the directory as a store.
//!
//! Byte layout: `docs/formats.md`, "The chunk store".

use storage::codec::{DecodeError, Reader};
use storage::disk::Disk;

use crate::checkpoint::INDEX_DIR;
use crate::crc::crc32c;
use crate::error::ChunkError;
use crate::record::Salt;
use crate::segment::LOG_DIR;
use crate::segment_reader::read_fully;

/// The name of the file with the identity.
pub const IDENTITY_NAME: &str = "store";

/// The lock file of a store, so that only one process opens it.
pub(crate) const LOCK_NAME: &str = "lock";

/// A folder that file systems make in their root. It holds nobody's data.
const LOST_AND_FOUND: &str = "lost+found";

const IDENTITY_TEMPORARY: &str = "store.tmp";
const MAGIC: &[u8; 8] = b"QUORCHNK";

/// Version of the file. Version 1 had no salt.
const VERSION: u32 = 2;
const BYTES_MAX: usize = 36;

/// The id and the salt of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The id of the store; clients see it as a uuid.
    pub store_id: u128,
    /// The salt of the log's checksums; never leaves the store.
    pub salt: Salt,
}

impl Identity {
    /// A random identity.
    fn draw() -> Identity {
        let store_id = (u128::from(random_u64()) << 64) | u128::from(random_u64());
        // 0 means that a store has no salt.
        Identity { store_id, salt: Salt((random_u64() as u32).max(1)) }
    }

    /// An identity for an id that a test chose.
    pub fn from_id(store_id: u128) -> Identity {
        Identity { store_id, salt: Salt(crc32c(&store_id.to_le_bytes()).max(1)) }
    }
}

/// Random bits, from the standard library's hasher, which the system seeds.
fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// Encodes an identity.
pub fn encode_identity(identity: &Identity) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&identity.store_id.to_le_bytes());
    out.extend_from_slice(&identity.salt.0.to_le_bytes());
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Decodes what [`encode_identity`], or version 1, wrote.
pub fn decode_identity(bytes: &[u8]) -> Result<Identity, DecodeError> {
    let mut reader = Reader::new(bytes);
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(reader.bad("this is not the identity of a chunk store"));
    }
    let version = reader.u32()?;
    let store_id = reader.u128()?;
    let (salt, covered) = match version {
        1 => (0, 28),
        _ => (reader.u32()?, 32),
    };
    if reader.u32()? != crc32c(Reader::new(bytes).take(covered)?) {
        return Err(reader.bad("the checksum does not match"));
    }
    reader.finish()?;
    match version {
        1..=VERSION => Ok(Identity { store_id, salt: Salt(salt) }),
        _ => Err(reader.bad("the store was made by a later version")),
    }
}

/// Reads the identity of an existing store.
pub(crate) fn read_identity<D: Disk>(disk: &D) -> Result<Identity, ChunkError> {
    let io = |op| move |error| ChunkError::io(IDENTITY_NAME, op, error);
    let file = disk.open_read_only(IDENTITY_NAME).map_err(io("open"))?;
    let mut bytes = [0; BYTES_MAX + 1];
    let count = read_fully(disk, &file, 0, &mut bytes).map_err(io("read"))?;
    decode_identity(&bytes[..count]).map_err(|error| ChunkError::BadStore {
        file: IDENTITY_NAME.to_owned(),
        what: error.to_string(),
    })
}

/// Reads the identity of the store. If the directory is empty, makes a store there, with the id
/// `new_id` if that is given.
///
/// # Errors
/// The identity cannot be read; or there is none, and the directory is not empty.
pub(crate) fn identify<D: Disk>(disk: &D, new_id: Option<u128>) -> Result<Identity, ChunkError> {
    let io = |op| move |error| ChunkError::io(IDENTITY_NAME, op, error);
    if disk.exists(IDENTITY_NAME).map_err(io("find"))? {
        return read_identity(disk);
    }
    let ours = [LOCK_NAME, IDENTITY_TEMPORARY, LOG_DIR, INDEX_DIR, LOST_AND_FOUND];
    let names = disk.list("").map_err(io("look for"))?;
    if let Some(foreign) = names.iter().find(|name| !ours.contains(&name.as_str())) {
        return Err(ChunkError::BadStore {
            file: foreign.clone(),
            what: "the directory is no chunk store, and is not empty".to_owned(),
        });
    }
    for dir in [LOG_DIR, INDEX_DIR] {
        disk.create_dir(dir).map_err(|error| ChunkError::io(dir, "create", error))?;
        let names = disk.list(dir).map_err(|error| ChunkError::io(dir, "list", error))?;
        if let Some(name) = names.first() {
            // With a new identity, these files would be another store's.
            return Err(ChunkError::BadStore {
                file: IDENTITY_NAME.to_owned(),
                what: format!("it is missing, and {dir}/{name} is of a store"),
            });
        }
    }
    let identity = new_id.map_or_else(Identity::draw, Identity::from_id);
    let file = disk.create(IDENTITY_TEMPORARY).map_err(io("create"))?;
    disk.write_at(&file, 0, &encode_identity(&identity)).map_err(io("write"))?;
    disk.sync_data(&file).map_err(io("sync"))?;
    disk.rename(IDENTITY_TEMPORARY, IDENTITY_NAME).map_err(io("rename"))?;
    disk.sync_dir("").map_err(io("sync"))?;
    Ok(identity)
}

#[cfg(test)]
mod tests;
