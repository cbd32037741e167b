//! ZooKeeper's client protocol: bytes to values and back, and its operations in the machine's
//! terms.
//!
//! Pure: no socket, no clock. A server decodes requests and encodes responses; the simulator, the
//! tests and the load generator do the opposite with the same tables. Facts are those of ZooKeeper
//! 3.9.5, each with the class it was read in.

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
