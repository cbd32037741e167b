//! ZooKeeper's client protocol: translates bytes into values and back, and requests into commands
//! and queries of the state machine (`machine`).
//!
//! The crate is pure: no socket, no clock. A server decodes requests and encodes responses. The
//! simulator, the tests and the load generator are clients: they encode requests with the same
//! types, and decode what they need of the responses. The protocol is that of ZooKeeper 3.9.5;
//! comments name the class where a fact was read.

pub mod auth;
pub mod error_code;
pub mod files;
pub mod four_letter;
pub mod frame;
pub mod jute;
pub mod limits;
pub mod ops;
pub mod path;
pub mod reconfig;
pub mod request;
pub mod response;
pub mod sasl;
pub mod server_text;

pub use error_code::ErrorCode;
pub use jute::{JuteError, JuteReader, JuteWrite};
pub use machine::zk::acl::perms;
pub use machine::{AclEntry, CreateMode, Stat};
pub use request::{ConnectRequest, Request, RequestHeader};
