//! The messages of `proto/`, generated; one module for each package. Keys and values are slices of
//! what was received, when a message is decoded from `Bytes`.

#[rustfmt::skip]
pub mod authpb;
#[rustfmt::skip]
pub mod etcdserverpb;
#[rustfmt::skip]
pub mod health;
#[rustfmt::skip]
pub mod leasepb;
#[rustfmt::skip]
pub mod mvccpb;
#[rustfmt::skip]
pub mod v3electionpb;
#[rustfmt::skip]
pub mod v3lockpb;

/// The trait of every message (`encode`, `decode`, `encoded_len`), and its error.
pub use prost::{DecodeError, Message};
