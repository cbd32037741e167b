//! ZooKeeper's client protocol: bytes to values and back, and requests translated into commands and
//! queries of the state machine (`machine`).
//!
//! The crate is pure: no socket, no clock. A server decodes requests and encodes responses; the
//! simulator, the tests and the load generator use the same tables the other way round. Facts about
//! the protocol are those of ZooKeeper 3.9.5; each names the class that it was read in.

pub mod auth;
pub mod error_code;
pub mod files;
pub mod four_letter;
pub mod frame;
pub mod jute;
pub mod limits;
pub mod ops;
pub mod path;
pub mod request;
pub mod response;
pub mod sasl;

pub use error_code::ErrorCode;
pub use jute::{JuteError, JuteReader, JuteWrite};
pub use machine::zk::acl::perms;
pub use machine::{AclEntry, CreateMode, Stat};
pub use request::{ConnectRequest, Request, RequestHeader};
