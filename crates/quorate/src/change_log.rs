//! Writes log lines about applied changes: warnings about exceeded quotas, at a limited rate, and
//! in the audit log a line for each ephemeral that was deleted because its session ended.

use std::time::{Duration, Instant};

use machine::{Changes, QuotaExceeded};
use member::fronts::zk::audit_ended_sessions;

/// After the warnings about one batch of changes, no quota is warned about for this long. A client
/// may exceed a quota with every request; ZooKeeper's `RateLogger` limits such warnings too.
const QUOTA_WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// Logs changes as this server applies them.
pub(crate) struct ChangeLog {
    audit_user: Option<String>,
    quota_warned: Option<Instant>,
}

impl ChangeLog {
    /// `audit_user` is the user that runs the server; audit lines about ephemerals of ended
    /// sessions name that user (`audit.enable`). `None` if there is no audit log.
    pub fn new(audit_user: Option<String>) -> ChangeLog {
        ChangeLog { audit_user, quota_warned: None }
    }

    /// Logs a batch of changes. Apply calls this as its [`node::ChangeListener`]; `is_serving` is
    /// false while Apply replays the log at the start of the server.
    pub fn log_changes(&mut self, changes: &Changes, is_serving: bool) {
        self.warn_of_quotas(changes.zk.quotas_exceeded());
        // While the server starts, it replays changes that were logged when they first happened.
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
