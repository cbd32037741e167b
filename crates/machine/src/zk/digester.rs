//! Computes the contributions of znodes to the digest.
//!
//! A znode contributes two hashes: one of its *content* (the data, and the fields that change with
//! it), and one of its *standing* (the fields that change with the children and the ACL, or never).
//! So a new child does not make us hash its parent's data again.

use xxhash_rust::xxh3::xxh3_128;

use crate::codec::Write;
use crate::digest::Digest;

/// Data longer than this is hashed on its own first, so that the scratch buffer stays small.
const INLINE_DATA_BYTES_MAX: usize = 4096;

/// Computes the contributions of znodes. It reuses one buffer for all of them.
#[derive(Default)]
pub struct Digester {
    scratch: Vec<u8>,
}

/// The fields of a znode that change when its data is set.
pub struct Content<'a> {
    /// Full path.
    pub path: &'a str,
    /// The data; `None` is ZooKeeper's null.
    pub data: Option<&'a [u8]>,
    /// zxid of the last change of the data.
    pub mzxid: i64,
    /// Time of the last change of the data, ms since 1970.
    pub mtime: i64,
    /// How often the data changed; wraps.
    pub version: i32,
}

/// The fields of a znode that change with its children or its ACL, or never.
pub struct Standing<'a> {
    /// Full path.
    pub path: &'a str,
    /// zxid of the creation.
    pub czxid: i64,
    /// Time of the creation, ms since 1970.
    pub ctime: i64,
    /// ZooKeeper's ephemeral owner word: the session of an ephemeral, or the marks for containers
    /// and times to live, or 0.
    pub owner: i64,
    /// How many children were ever created below it.
    pub cversion: i32,
    /// zxid of the last create or delete of a child.
    pub pzxid: i64,
    /// How often the ACL changed.
    pub aversion: i32,
    /// Hash of the ACL.
    pub acl: Digest,
}

impl Digester {
    /// The contribution of a znode's content.
    pub fn content(&mut self, content: &Content<'_>) -> Digest {
        let buffer = &mut self.scratch;
        buffer.clear();
        buffer.put_u8(b'c');
        buffer.put_bytes(content.path.as_bytes());
        buffer.put_i64(content.mzxid);
        buffer.put_i64(content.mtime);
        buffer.put_i32(content.version);
        match content.data {
            None => buffer.put_u8(0),
            Some(data) if data.len() <= INLINE_DATA_BYTES_MAX => {
                buffer.put_u8(1);
                buffer.extend_from_slice(data);
            }
            Some(data) => {
                buffer.put_u8(2);
                buffer.put_u128(xxh3_128(data));
            }
        }
        Digest(xxh3_128(buffer))
    }

    /// The contribution of a znode's standing.
    pub fn standing(&mut self, standing: &Standing<'_>) -> Digest {
        let buffer = &mut self.scratch;
        buffer.clear();
        buffer.put_u8(b's');
        buffer.put_bytes(standing.path.as_bytes());
        buffer.put_i64(standing.czxid);
        buffer.put_i64(standing.ctime);
        buffer.put_i64(standing.owner);
        buffer.put_i32(standing.cversion);
        buffer.put_i64(standing.pzxid);
        buffer.put_i32(standing.aversion);
        buffer.put_u128(standing.acl.0);
        Digest(xxh3_128(buffer))
    }
}
