//! Bounds of a leader's work for the other members.

/// How often a leader asks a member for a snapshot that another one needs, until it has an answer:
/// the first question after the snapshot is durable gets it.
pub const LEND_INTERVAL_MS: u64 = 100;

/// How long a lender may take until its snapshot is durable: enough for a state of several
/// gigabytes.
pub const LEND_PATIENCE_MS: u64 = 120_000;

/// How long a leader waits for a member that can lend, if none of the others can yet, before it
/// takes a snapshot itself: a leader that has just begun does not know the others yet.
pub const LENDER_PATIENCE_MS: u64 = 2_000;

/// How often a lender may fail to supply a snapshot to one member before it is not asked any more.
pub const LEND_FAILURES_MAX: u32 = 2;

/// How long a member that is sent nothing remains known as one that needs a snapshot: it repeats
/// the need with each answer to a heartbeat.
pub const BORROWER_SILENCE_MS_MAX: u64 = 10_000;

/// Entries between two digests that a member compares with others: each whose index is a multiple
/// of this. Often enough to find a state that differs within seconds of writing, and seldom enough
/// to cost nothing.
pub const DIGEST_INTERVAL_ENTRIES: u64 = 128;

/// Indexes at which a leader keeps members' digests; it forgets the oldest. Followers are hardly
/// ever further behind each other, and a comparison that is missed is made at the next index.
pub const DIGEST_CHECKS_MAX: usize = 64;

/// Entries for which a member keeps the digest of its own state. A leader compares the digest of a
/// lent snapshot with it, and asks for a newer snapshot if it is older. More than are written while
/// a large state is, in 4 MiB.
pub const OWN_DIGESTS_MAX: usize = 1 << 18;
