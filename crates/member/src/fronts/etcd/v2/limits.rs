//! Bounds of requests of etcd v2 about users, roles and members. etcd has none of them.

/// Bytes of the body of a request about users and roles. A longer one is answered with 400.
pub const USERS_REQUEST_BYTES_MAX: usize = 128 * 1024;

/// Bytes of a name of a user or a role, or of a pattern of keys. A longer one is answered with 400.
pub const NAME_BYTES_MAX: usize = 1024;

/// Bytes of an answer that shows all users, each with its roles in full. A longer one is 500.
pub const USERS_ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of the body of a request about members. A longer one is answered with 400.
pub const MEMBERS_REQUEST_BYTES_MAX: usize = 64 * 1024;
