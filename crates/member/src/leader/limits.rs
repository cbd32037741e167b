//! Bounds of what a leader does for other members: lending snapshots, comparing digests.

/// How often a leader repeats its question to a lender, in ms. A lender does not answer before its
/// snapshot is durable, and then answers the next question.
pub const LEND_INTERVAL_MS: u64 = 100;

/// How long a lender may take until its snapshot is durable, in ms: enough for a state of several
/// gigabytes. Then the leader asks another lender.
pub const LEND_PATIENCE_MS: u64 = 120_000;

/// How long a leader waits for a member that can lend before it supplies a snapshot itself, in ms.
/// A leader that has just begun to lead does not know yet which members can lend.
pub const LENDER_PATIENCE_MS: u64 = 2_000;

/// How often a lender may fail to supply a snapshot to one member before it is not asked again for
/// that member.
pub const LEND_FAILURES_MAX: u32 = 2;

/// How long a leader remembers a member that needs a snapshot and is not being sent one, in ms. The
/// replica reports the need again with each answer to a heartbeat.
pub const BORROWER_SILENCE_MS_MAX: u64 = 10_000;

/// A member sends the digest of its state to be compared at each log index that is a multiple of
/// this number. That is often enough to find a different state within seconds of writing, and
/// seldom enough to cost nothing.
pub const DIGEST_INTERVAL_ENTRIES: u64 = 128;

/// Maximum number of indexes at which a leader keeps members' digests; it forgets the lowest.
/// Followers are hardly ever further apart, and a missed comparison is made at the next index.
pub const DIGEST_CHECKS_MAX: usize = 64;

/// Maximum number of entries for which a member keeps the digest of its own state, in 4 MiB of
/// memory. A leader compares the digest of a lender's snapshot with its own digest at the same
/// index; if it no longer has its own, it asks for a newer snapshot. The number is larger than the
/// number of entries that are written while a large state is written to disk.
pub const OWN_DIGESTS_MAX: usize = 1 << 18;
