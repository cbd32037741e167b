//! Bounds of the work that a leader does for the spaces as time passes. A *round* of Loop is one
//! call of its driver.

use crate::limits::{CLOCK_INTERVAL_MS, HEARD_INTERVAL_MS, HEARTBEAT_QUIET_MS};

/// Time added to each session's deadline, in ms, so that a client which is never silent for its
/// whole timeout never expires. It makes up for three delays. A client's bytes are reported at the
/// first look at the clock after a report interval has ended, which may be one look late. A
/// follower's report waits for the answer to the one before, which comes with a heartbeat. And the
/// clock of the deadlines does not advance between two rounds of Loop, so a deadline is set up to
/// one round too early.
pub const HEARING_MS_MAX: u64 = HEARD_INTERVAL_MS + 2 * CLOCK_INTERVAL_MS + HEARTBEAT_QUIET_MS;

/// How far the clock of the deadlines advances at most in one round of Loop while a deadline is
/// near; as long as two rounds usually take. A process that was paused for longer than a session's
/// timeout must hear its clients, which have written meanwhile, before it judges them. The ticks of
/// the sessions (`tickTime`) are far too long for that, since the shortest timeout is two of them.
pub const LEASE_ADVANCE_MS_MAX: u64 = 200;

/// Length of a tick of the deadlines of etcd's leases and nodes, in ms: a lease expires at most a
/// tick late, beside [`LEASE_GRACE_MS`] and one look at the clock. etcd looks every 500 ms
/// (`lessor.runLoop`).
pub const LEASE_TICK_MS: u64 = 100;

/// Time added to the deadline of each lease, in ms. The clock of the deadlines does not advance
/// between two rounds of Loop, which may be a tick of the replica apart, so a deadline may be set
/// up to that much too early.
pub const LEASE_GRACE_MS: u64 = 100;

/// Maximum number of leases whose expiry one round of Loop begins, in commands of
/// [`EXPIRE_LEASES_MAX`](machine::limits::EXPIRE_LEASES_MAX) each; further leases wait for the next
/// round. etcd's rate is 1,000 a second (`defaultLeaseRevokeRate`).
pub const LEASES_EXPIRED_MAX: usize = 1_024;

/// Maximum number of nodes of etcd v2 whose expiry one round of Loop begins; like
/// [`LEASES_EXPIRED_MAX`].
pub const ETCD_V2_EXPIRED_MAX: usize = 1_024;

/// Maximum number of unanswered questions about leases of a member's own clients. One more is
/// refused as too many requests.
pub const LEASE_QUESTIONS_MAX: usize = 100_000;

/// Maximum number of questions about leases, from all members, that a leader has not answered.
/// Further ones are dropped; their members ask again.
pub const LEASE_CALLS_MAX: usize = 10 * LEASE_QUESTIONS_MAX;

/// How long a member waits for the answer to a question about a lease before it asks again. Needed
/// only if a message is lost while its link stays up, or if the leader has dropped the question.
pub const LEASE_RETRY_MS: u64 = 1_000;

/// How long a member waits for the answer to such a question, however often it asked. Then the
/// client gets the error that there is no leader, or that the request timed out: before its call
/// ends by itself ([`ETCD_CALL_MS_MAX`](crate::fronts::etcd::limits::ETCD_CALL_MS_MAX)).
pub const LEASE_ANSWER_MS_MAX: u64 = 6_500;

/// Maximum number of owners whose deadlines one call looks at, some 4 ms of work. The others wait
/// for the next round of Loop: a new leader finds all of its sessions due at once.
pub const EXPIRY_LOOKS_MAX: usize = 16 * 1024;

// A pause must not use up the time that is added to each deadline.
const _: () = assert!(LEASE_ADVANCE_MS_MAX < HEARING_MS_MAX);
