//! Named bounds of etcd's client protocol.

use machine::limits::{ETCD_OPS_MAX, ETCD_TXN_DEPTH_MAX};

/// The default of `max-txn-ops` (etcd's default): the most comparisons of one transaction, and the
/// most operations of each of its branches. A nested transaction may have as many as its parent
/// left over. One more is refused with [`crate::Error::TooManyOps`].
pub const TXN_OPS_MAX_DEFAULT: usize = 128;

/// Comparisons and operations of one request, nested ones included, whatever `max-txn-ops` is. etcd
/// bounds only the bytes. This is the bound of the log's format; one more is refused with
/// [`crate::Error::TooManyOps`].
pub const TXN_OPS_TOTAL_MAX: usize = ETCD_OPS_MAX;

/// Levels of transactions within a transaction, whatever `max-txn-ops` is. etcd has no such bound,
/// but each level takes one of its operations. This is the bound of the log's format; one more
/// level is refused with [`crate::Error::TooManyOps`]. A decoded message always has fewer levels,
/// because of [`MESSAGE_DEPTH_MAX`].
pub const TXN_DEPTH_MAX: usize = ETCD_TXN_DEPTH_MAX;

/// The default of `max-request-bytes`: bytes of one request (etcd's default, 1.5 MiB). A larger one
/// is refused with [`crate::Error::RequestTooLarge`].
pub const REQUEST_BYTES_MAX_DEFAULT: usize = 3 * 512 * 1024;

/// Bytes that a gRPC message may have beyond `max-request-bytes`: etcd's `grpcOverheadBytes`
/// (`server/etcdserver/api/v3rpc/grpc.go`). The transport refuses a larger message with
/// `ResourceExhausted`.
pub const MESSAGE_OVERHEAD_BYTES: usize = 512 * 1024;

/// Levels of messages nested in a request's message. prost has this bound for protobuf; the JSON
/// gateway applies it too, so that both encodings accept the same requests. A deeper message does
/// not decode. etcd has no bound for protobuf, and 10,000 for JSON. Each level of a transaction
/// takes two levels of messages.
pub const MESSAGE_DEPTH_MAX: usize = 100;

/// Levels of nested objects and arrays in the JSON of a request, as in Go's `encoding/json`. One
/// more is refused with `exceeded max depth`.
pub const JSON_DEPTH_MAX: usize = 10_000;

/// Bytes of the JSON of one request. etcd bounds only the message that the JSON becomes. Keys and
/// values are base64 in JSON, a third longer; the rest is room for names. A longer one is refused
/// with [`crate::Error::RequestTooLarge`].
pub const JSON_BYTES_MAX_DEFAULT: usize = 2 * (REQUEST_BYTES_MAX_DEFAULT + MESSAGE_OVERHEAD_BYTES);

const _: () = assert!(TXN_OPS_MAX_DEFAULT <= TXN_DEPTH_MAX);
const _: () = assert!(TXN_OPS_MAX_DEFAULT <= TXN_OPS_TOTAL_MAX);

/// Bytes of the name of a user: each command that a user sends carries the name. etcd has no bound.
pub const USER_NAME_BYTES_MAX: usize = 1_024;

/// The most bytes of JSON for one byte of a key, a value or a name of etcd v2: a control character
/// is written as six (`\u00xx`).
pub const V2_TEXT_TIMES: usize = 6;
