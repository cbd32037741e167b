//! etcd's client protocol: bytes to values and back, and its operations in the machine's terms.
//!
//! Pure: no socket, no clock. A server decodes requests with [`pb`], turns them into commands with
//! [`convert`], and answers with the bytes of a [`convert::Response`] or with an [`Error`]. The
//! JSON of HTTP clients is turned into messages and back by [`gateway`]; [`v2`] has the requests
//! and answers of etcd v2; [`backup`] writes the state as a database of etcd's. Facts are those of
//! etcd 3.6.16, those of v2 of 3.4, each with the file it was read in. This crate knows no HTTP:
//! how a call travels is the listener's part.

pub mod backup;
pub mod convert;
pub mod gateway;
pub mod limits;
pub mod pb;
pub mod recipe;
pub mod status;
pub mod v2;
pub mod versions;

pub use status::Error;
