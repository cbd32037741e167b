//! Bounds of what a leader does for other members: lending snapshots, comparing digests.

/// How often a leader asks a lender for a snapshot, until it answers: the first question after the
/// snapshot is durable gets it.
pub const LEND_INTERVAL_MS: u64 = 100;

/// How long a lender may take until its snapshot is durable: enough for a state of several
/// gigabytes. Then the leader asks another one.
pub const LEND_PATIENCE_MS: u64 = 120_000;

/// How long a leader waits for a member that can lend, if none can yet, before it supplies a
/// snapshot itself: a leader that has just begun does not know the others yet.
pub const LENDER_PATIENCE_MS: u64 = 2_000;

/// How often a lender may fail to supply a snapshot to one member before it is not asked again for
/// that member.
pub const LEND_FAILURES_MAX: u32 = 2;

/// How long a leader remembers a member that needs a snapshot and is sent none: the need is
/// repeated with each answer to a heartbeat.
pub const BORROWER_SILENCE_MS_MAX: u64 = 10_000;

/// Number of entries from one digest that a member sends to be compared to the next: they are sent
/// at each multiple of this index. Often enough to find a different state within seconds of
/// writing, and seldom enough to cost nothing.
pub const DIGEST_INTERVAL_ENTRIES: u64 = 128;

/// Maximum number of indexes at which a leader keeps members' digests; it forgets the lowest.
/// Followers are hardly ever further apart, and a missed comparison is made at the next index.
pub const DIGEST_CHECKS_MAX: usize = 64;

/// Maximum number of entries for which a member keeps the digest of its own state. A leader
/// compares the digest of a lender's snapshot with it, and asks for a newer snapshot if that one is
/// older. More than are written while a large state is written to disk, in 4 MiB.
pub const OWN_DIGESTS_MAX: usize = 1 << 18;
