//! The protobuf messages, generated from `proto/`; one module for each package. A message that is
//! decoded from `Bytes` copies no key and no value: they are slices of the received bytes.

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

/// The trait of every message (`encode`, `decode`, `encoded_len`), and the error of decoding.
pub use prost::{DecodeError, Message};
