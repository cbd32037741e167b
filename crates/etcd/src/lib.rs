//! etcd's client protocol: decodes requests into messages, turns messages into commands of the
//! state machine, and encodes the answers.
//!
//! Pure: no socket, no clock; the listener speaks HTTP/2 and carries the calls. A server decodes
//! requests with [`pb`], turns them into commands with [`convert`], and answers with the bytes of a
//! [`convert::Response`] or with an [`Error`]. [`gateway`] turns the JSON of HTTP clients into
//! messages and back; [`v2`] has the requests and answers of etcd v2; [`backup`] writes a state as
//! a file of etcd's own database, and reads one. The behaviour is that of etcd 3.6.16, and for v2
//! that of etcd 3.4; comments name the file of etcd where it was read.

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
