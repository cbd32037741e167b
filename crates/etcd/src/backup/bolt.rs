//! The format of the file of a bbolt database (`bbolt` 1.4, `internal/common`). Numbers are
//! little-endian.
//!
//! ```text
//! file    = page 0: meta | page 1: meta | other pages
//! page    = id u64 | flags u16 | count u16 | overflow u32: pages that follow and belong to it | body
//! meta    = magic u32 | version u32 | page's bytes u32 | flags u32 | root's page u64 | sequence u64
//!         | freelist's page u64 | count of pages u64 | transaction u64 | FNV-1a of these u64
//! branch  = for each child: position u32 | key's bytes u32 | child u64; then the keys
//! leaf    = for each record: flags u32 | position u32 | key's bytes u32 | value's bytes u32;
//!           then the keys, each with its value
//! bucket  = a record of the root's leaf: root's page u64 | sequence u64
//! ```
//!
//! A position counts from the beginning of the entry that holds it. A small bucket has 0 as its
//! root's page: then its only page, a leaf, follows these two numbers in the record itself.

/// Bytes of the head of a page.
pub(super) const PAGE_HEAD_BYTES: usize = 16;

/// Bytes of one entry of a page: the fixed numbers for a child (in a branch) or a record (in a
/// leaf).
pub(super) const ENTRY_BYTES: usize = 16;

pub(super) const BRANCH: u16 = 0x01;
pub(super) const LEAF: u16 = 0x02;
pub(super) const META: u16 = 0x04;
pub(super) const FREELIST: u16 = 0x10;

/// The flag of a record whose value is a bucket.
pub(super) const IS_BUCKET: u32 = 0x01;

/// Bytes of a meta, without the head of its page.
pub(super) const META_BYTES: usize = 64;

pub(super) const MAGIC: u32 = 0xED0C_DAED;
pub(super) const VERSION: u32 = 2;

/// The 64-bit FNV-1a hash.
pub(super) fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    })
}
