//! Clients' questions about etcd leases (keep-alives, and how long a lease still lives), and the
//! leader's answers, as Fronts, Loop and other members exchange them.

use machine::LeaseId;

/// A client's question about a lease. To ask it twice does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseQuestion {
    /// The lease.
    pub lease: LeaseId,
    /// Whether the client keeps the lease alive. If not, it only asks for the time that is left.
    pub renews: bool,
}

/// How long a lease lives, by the leader's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTime {
    /// How long the lease lives after each keep-alive, in seconds.
    pub granted_s: i64,
    /// How long the lease still lives without another keep-alive, in ms; the full time if this
    /// question renewed it.
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

/// The leader's answer about a lease, or why there is none. `Ok(None)` if the lease does not exist.
pub type LeaseAnswered = Result<Option<LeaseTime>, NoLeaseTime>;
