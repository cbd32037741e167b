//! Bounds of a leader's work for the spaces by the clock.

use crate::limits::{CLOCK_INTERVAL_MS, HEARD_INTERVAL_MS, HEARTBEAT_QUIET_MS};

/// Time added to each deadline, so that a client that is never silent for its whole timeout is
/// never expired. A client's bytes are reported at the first look at the clock that ends a report
/// interval, up to one look later than that. A follower's report waits for the answer to the one
/// before, which comes with a heartbeat. The leases' clock stands still between two rounds of Loop,
/// so a deadline is set up to one round too early.
pub const HEARING_MS_MAX: u64 = HEARD_INTERVAL_MS + 2 * CLOCK_INTERVAL_MS + HEARTBEAT_QUIET_MS;

/// How far the leases' clock advances at most in one round of Loop while a deadline is near: two
/// rounds. A process that was paused for longer than a session's timeout must hear its clients, who
/// wrote meanwhile, before it judges them; the ticks of the sessions (`tickTime`) are far too long
/// for that, since the shortest timeout is two of them.
pub const LEASE_ADVANCE_MS_MAX: u64 = 200;

/// Length of a tick of the deadlines of etcd's leases: a lease expires at most a tick late, beside
/// [`LEASE_GRACE_MS`] and one look at the clock. etcd looks every 500 ms (`lessor.runLoop`).
pub const LEASE_TICK_MS: u64 = 100;

/// Time added to the deadline of each lease: Loop's clock stands still between two rounds, for up
/// to a tick of the replica, so a deadline is set up to that much too early.
pub const LEASE_GRACE_MS: u64 = 100;

/// Leases whose expiry one round of Loop begins, in commands of
/// [`EXPIRE_LEASES_MAX`](machine::limits::EXPIRE_LEASES_MAX); further ones wait for the next.
/// etcd's rate is 1,000 a second (`defaultLeaseRevokeRate`).
pub const LEASES_EXPIRED_MAX: usize = 1_024;

/// As [`LEASES_EXPIRED_MAX`], of nodes of etcd v2 whose time to live is over.
pub const ETCD_V2_EXPIRED_MAX: usize = 1_024;

/// Questions about leases that a member has for the leader. One more is refused as too many
/// requests.
pub const LEASE_QUESTIONS_MAX: usize = 100_000;

/// Questions about leases that a leader has not answered, those of all members. Further ones are
/// dropped, and asked again.
pub const LEASE_CALLS_MAX: usize = 10 * LEASE_QUESTIONS_MAX;

/// How long a member waits for the answer to a question about a lease before it asks again. Needed
/// only if a message is lost while the link goes on, or if the leader has dropped the question.
pub const LEASE_RETRY_MS: u64 = 1_000;

/// How long a member waits for all answers to such a question. Then the client is told that there
/// is no leader, or that the request timed out: before its call ends without Loop
/// ([`ETCD_CALL_MS_MAX`](crate::fronts::etcd::limits::ETCD_CALL_MS_MAX)).
pub const LEASE_ANSWER_MS_MAX: u64 = 6_500;

/// Sessions that one call looks at for their deadlines, some 4 ms of work. More wait for the next
/// round of Loop: a new leader finds all of its sessions due at once.
pub const EXPIRY_LOOKS_MAX: usize = 16 * 1024;

// A pause must not use up the time that each deadline includes.
const _: () = assert!(LEASE_ADVANCE_MS_MAX < HEARING_MS_MAX);
