//! Named bounds of the protocol.

use machine::limits::{ETCD_OPS_MAX, ETCD_TXN_DEPTH_MAX};

/// Comparisons, and operations of a branch, of one transaction unless `max-txn-ops` says otherwise
/// (etcd's default). Nested transactions may have what their parent left over. One more is refused
/// with [`crate::Error::TooManyOps`].
pub const TXN_OPS_MAX_DEFAULT: usize = 128;

/// Comparisons and operations of one request, nested ones included, at any `max-txn-ops`. etcd
/// bounds only the bytes. It is the bound of the log's format; one more is refused with
/// [`crate::Error::TooManyOps`].
pub const TXN_OPS_TOTAL_MAX: usize = ETCD_OPS_MAX;

/// Levels of transactions within a transaction, at any `max-txn-ops`. etcd has no bound of its own:
/// each level takes one of the operations. It is the bound of the log's format; one more level is
/// refused with [`crate::Error::TooManyOps`]. A message that was decoded has fewer levels:
/// [`MESSAGE_DEPTH_MAX`].
pub const TXN_DEPTH_MAX: usize = ETCD_TXN_DEPTH_MAX;

/// Bytes of one request unless `max-request-bytes` says otherwise (etcd's default, 1.5 MiB). A
/// larger one is refused with [`crate::Error::RequestTooLarge`].
pub const REQUEST_BYTES_MAX_DEFAULT: usize = 3 * 512 * 1024;

/// Bytes that a gRPC message may have beyond the largest request: etcd's `grpcOverheadBytes`
/// (`server/etcdserver/api/v3rpc/grpc.go`). A larger message is refused by the transport with
/// `ResourceExhausted`.
pub const MESSAGE_OVERHEAD_BYTES: usize = 512 * 1024;

/// Messages within the outermost one: the bound that prost has, so that both encodings of a request
/// allow the same. A deeper message does not decode. etcd has no bound for protobuf, and 10,000 for
/// JSON; a level of a transaction takes two messages.
pub const MESSAGE_DEPTH_MAX: usize = 100;

/// Objects and arrays within each other in the JSON of a request, as in Go's `encoding/json`. One
/// more is refused with `exceeded max depth`.
pub const JSON_DEPTH_MAX: usize = 10_000;

/// Bytes of the JSON of one request. etcd has no bound but that of the message that it becomes.
/// Keys and values are a third longer here, names take the rest. A longer one is refused with
/// [`crate::Error::RequestTooLarge`].
pub const JSON_BYTES_MAX_DEFAULT: usize = 2 * (REQUEST_BYTES_MAX_DEFAULT + MESSAGE_OVERHEAD_BYTES);

const _: () = assert!(TXN_OPS_MAX_DEFAULT <= TXN_DEPTH_MAX);
const _: () = assert!(TXN_OPS_MAX_DEFAULT <= TXN_OPS_TOTAL_MAX);

/// Bytes of the name of a user. Each command has the name of its user. etcd has no bound.
pub const USER_NAME_BYTES_MAX: usize = 1_024;

/// Bytes of JSON for each byte of a key, a value or a name of etcd v2, at most: a control character
/// is written as six.
pub const V2_TEXT_TIMES: usize = 6;
