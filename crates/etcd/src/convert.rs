//! Turns decoded requests into commands of the state machine, and the outcomes of commands into
//! responses.
//!
//! A request is checked here in etcd's order and refused with etcd's errors
//! (`server/etcdserver/api/v3rpc/key.go`). Commands borrow from their requests, and responses take
//! keys and values from their outcomes without a copy: the bytes to send are the only copy.

mod auth;
mod maintenance;
mod overlap;
mod request;
mod response;

pub use auth::{
    AuthChange, AuthFlaw, AuthMethod, AuthQuestion, AuthRequest, NO_PASSWORD_USER, authenticated,
};
pub(crate) use auth::{permission, permission_message};
pub use maintenance::{alarm, alarmed, alarms, hash, hash_kv};
pub(crate) use maintenance::{alarm_kind, alarm_member};
pub use request::{
    StreamRefused, compaction, delete_range, grant, put, range, range_stream, revoke, txn,
};
pub use response::{
    Encoder, Header, LeaseResponse, NO_WATCH_ID, Piece, PieceEnd, Response, TimeToLive, WatchHead,
    key_value_bytes, watch_event_bytes, write_key_value, write_watch_event,
};
