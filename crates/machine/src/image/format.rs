//! The format of an image.
//!
//! The image is a stream of records, cut into pieces between records:
//!
//! ```text
//! header  = 'H' | version u8 | index u64 | ordinal u64 | zxid i64 | settings | origin count u32
//!         | (member u64 boot u64 sequence u64)*
//!         | [server count u32, not 0 | (member u64 server u64)*, in version 2] | digest u128 | session count u64
//!         | slot count u32 | znode count u32
//! session = 'S' | id i64 | timeout_ms u32 | password 16 | member u64 | boot u64 | connection u64
//!         | attached u64
//! znode   = 'Z' | id u32 | parent u32 | czxid mzxid ctime mtime owner i64 | version aversion i32
//!         | flags u8 (1: has counters) | [cversion i32 pzxid i64] | name bytes
//!         | data bytes or none | acl number u32 | [acl, if the number is new]
//! end     = 'E'
//! ```
//!
//! Ids are labels that tie children to parents within the image; they are not state.

/// Version of the image format, of an ensemble's state.
pub const FORMAT_VERSION: u8 = 2;

/// Version of the image format of a state without registered servers: a standalone server's.
pub(crate) const FORMAT_VERSION_ALONE: u8 = 1;

pub(crate) const TAG_HEADER: u8 = b'H';
pub(crate) const TAG_SESSION: u8 = b'S';
pub(crate) const TAG_ZNODE: u8 = b'Z';
pub(crate) const TAG_END: u8 = b'E';
pub(crate) const FLAG_COUNTERS: u8 = 1;
