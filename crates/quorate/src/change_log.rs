//! Log lines about applied changes: quotas that were exceeded, and in the audit log the ephemerals
//! that were deleted with their sessions.

use std::time::{Duration, Instant};

use machine::{Changes, QuotaExceeded};
use member::fronts::zk::audit_ended_sessions;

/// The time between two lines about exceeded quotas: a client may exceed a quota with each request
/// (ZooKeeper's `RateLogger` limits them for this reason, too).
const QUOTA_WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// Logs the changes that this server applies.
pub(crate) struct ChangeLog {
    audit_user: Option<String>,
    quota_warned: Option<Instant>,
}

impl ChangeLog {
    /// `audit_user` is the user that runs the server; the audit log names it for ephemerals of
    /// ended sessions (`audit.enable`). `None` if there is no audit log.
    pub fn new(audit_user: Option<String>) -> ChangeLog {
        ChangeLog { audit_user, quota_warned: None }
    }

    /// Logs a batch of changes; called as [`node::ChangeListener`].
    pub fn log_changes(&mut self, changes: &Changes, is_serving: bool) {
        self.warn_of_quotas(changes.zk.quotas_exceeded());
        // A change replayed at a start was logged when it happened.
        if let Some(user) = self.audit_user.as_ref().filter(|_| is_serving) {
            audit_ended_sessions(&changes.zk, user, |event| {
                tracing::info!(target: "audit", "AUDIT: {event}");
            });
        }
    }

    fn warn_of_quotas(&mut self, exceeded: &[QuotaExceeded]) {
        if exceeded.is_empty()
            || self.quota_warned.is_some_and(|last| last.elapsed() < QUOTA_WARNING_INTERVAL)
        {
            return;
        }
        self.quota_warned = Some(Instant::now());
        for QuotaExceeded { path, hard, of, usage, limit } in exceeded {
            let kind = if *hard { "hard" } else { "soft" };
            tracing::warn!("quota exceeded: {path}: {of} {usage}, {kind} limit {limit}");
        }
    }
}
