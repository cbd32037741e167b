//! Questions about leases, and their answers, as members and their parts pass them on.

use machine::LeaseId;

/// A question of a client about a lease. Asked twice, it has the effect of being asked once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseQuestion {
    /// The lease.
    pub lease: LeaseId,
    /// Whether the client keeps the lease alive. If not, it only asks for the time that is left.
    pub renews: bool,
}

/// The time of a lease that exists, as its leader has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTime {
    /// How long the lease lives after each keep-alive, in seconds.
    pub granted_s: i64,
    /// How long it lives without another, in ms: all of it, if the question has renewed it.
    pub left_ms: u64,
}

/// Why a question about a lease has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLeaseTime {
    /// This member knows no leader.
    NoLeader,
    /// The leader has not answered in time.
    TimedOut,
    /// This member has too many questions for the leader.
    TooManyRequests,
}

/// The leader's answer about a lease; `None` if the lease does not exist.
pub type LeaseAnswered = Result<Option<LeaseTime>, NoLeaseTime>;
