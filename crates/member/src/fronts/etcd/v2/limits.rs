//! Bounds of etcd v2 requests about users, roles and members. etcd has no such bounds.

/// The most bytes in the body of a request about users and roles. A longer body is answered with
/// 400.
pub const USERS_REQUEST_BYTES_MAX: usize = 128 * 1024;

/// The most bytes in a name of a user or role, or in a pattern of keys. A longer one is answered
/// with 400.
pub const NAME_BYTES_MAX: usize = 1024;

/// The most bytes in an answer that shows all users, each with its roles in full. A longer answer
/// becomes a 500.
pub const USERS_ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most bytes in the body of a request about members. A longer body is answered with 400.
pub const MEMBERS_REQUEST_BYTES_MAX: usize = 64 * 1024;
