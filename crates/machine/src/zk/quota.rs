//! Quotas: the znodes and bytes that a subtree may have, and the usage.
//!
//! The limits of the subtree at `/a` are the data of `/zookeeper/quota/a/zookeeper_limits`, its
//! usage the data of `/zookeeper/quota/a/zookeeper_stats`: two ordinary znodes that clients make
//! (`setquota`). Usage is counted when the second is made, and rewritten with each later write in
//! the subtree: only its data, so neither its stat nor a watch shows it. If several quotas are
//! above a znode, the deepest counts; a quota of the root does not.
//!
//! Nonsense in these znodes does no harm: text that is no number is ignored.
//!
//! Source: ZooKeeper 3.9.5, `DataTree` (`updateQuotaStat`, `updateQuotaForPath`), `StatsTrack`,
//! `ZooKeeperServer.checkQuota`.

use crate::limits::QUOTA_TEXT_BYTES_MAX;
use crate::zk::Zk;
use crate::zk::change::{Changes, QuotaExceeded};
use crate::zk::pause::Counting;
use crate::zk::reply::{Outcome, Refusal};
use crate::zk::steps::Steps;
use crate::zk::tree::{QUOTAS_PATH, Znode, ZnodeId};
use crate::zk::txn::{Txn, Undo};
use crate::zk::usage::{Usage, UsageCount};

const LIMITS: &str = "zookeeper_limits";
const USAGE: &str = "zookeeper_stats";

/// The quota that a znode is under.
struct Quota<'p> {
    /// The path that has the quota.
    path: &'p str,
    /// The parent of the znodes with limits and usage.
    holder: ZnodeId,
    limits: ZnodeId,
}

/// Numbers as limits and usage are written: `count=1,bytes=2=;byteHardLimit=5;countHardLimit=9`. A
/// missing number is -1.
#[derive(Debug, PartialEq, Eq)]
struct Numbers {
    count: i64,
    bytes: i64,
    /// The other numbers, in the order of their names, each once.
    others: Vec<(String, i64)>,
}

impl Numbers {
    fn parse(text: Option<&[u8]>) -> Numbers {
        let mut numbers = Numbers { count: -1, bytes: -1, others: Vec::new() };
        let text = text.filter(|text| text.len() <= QUOTA_TEXT_BYTES_MAX).unwrap_or_default();
        let text = core::str::from_utf8(text).unwrap_or_default();
        for pair in text.split([',', ';']) {
            let mut parts = pair.split('=');
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
            if let Ok(value) = value.parse() {
                numbers.set(name, value);
            }
        }
        numbers
    }

    fn set(&mut self, name: &str, value: i64) {
        match name {
            "count" => self.count = value,
            "bytes" => self.bytes = value,
            _ => match self.others.binary_search_by(|(other, _)| other.as_str().cmp(name)) {
                Ok(at) => self.others[at].1 = value,
                Err(at) => self.others.insert(at, (name.to_string(), value)),
            },
        }
    }

    /// A hard limit, if there is one.
    fn hard(&self, name: &str) -> Option<i64> {
        let found = self.others.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| *value).filter(|value| *value > -1)
    }

    /// `StatsTrack.toString`: because of the `=` behind the bytes, servers before 3.5 ignore the
    /// rest.
    fn text(&self) -> String {
        let mut text = format!("count={},bytes={}", self.count, self.bytes);
        if !self.others.is_empty() {
            text.push('=');
        }
        for (name, value) in &self.others {
            text += &format!(";{name}={value}");
        }
        text
    }
}

impl Zk {
    /// Refuses a write that goes over a hard limit, and notes one that goes over any limit, if
    /// quotas are enforced.
    pub(crate) fn check_quota(
        &self,
        path: &str,
        more: Usage,
        changes: &mut Changes,
    ) -> Result<(), Refusal> {
        if !self.settings().enforce_quota {
            return Ok(());
        }
        let Some(quota) = self.quota_above(path) else { return Ok(()) };
        let Some(usage) = self.tree().find_child(quota.holder, USAGE) else { return Ok(()) };
        let usage = Numbers::parse(usage.data());
        let limits = Numbers::parse(self.tree().znode(quota.limits).data());
        let count = (more.znodes, usage.count, limits.hard("countHardLimit"), limits.count);
        let bytes = (more.bytes, usage.bytes, limits.hard("byteHardLimit"), limits.bytes);
        for (of, (more, usage, hard, soft)) in [("count", count), ("bytes", bytes)] {
            let limit = hard.unwrap_or(soft);
            let usage = usage.saturating_add(more);
            if more == 0 || limit <= -1 || usage <= limit {
                continue;
            }
            let (path, hard) = (quota.path.into(), hard.is_some());
            changes.warn_of_quota(QuotaExceeded { path, hard, of, usage, limit });
            if hard {
                return Err(Refusal::QuotaExceeded);
            }
        }
        Ok(())
    }

    /// Adds a write's effect to the usage of the quota that it is under.
    pub(crate) fn charge_quota(&mut self, path: &str, more: Usage, txn: &mut Txn<'_>) {
        let Some(quota) = self.quota_above(path) else { return };
        let Some(usage) = self.tree().find_child(quota.holder, USAGE) else { return };
        let mut numbers = Numbers::parse(usage.data());
        numbers.count = numbers.count.wrapping_add(more.znodes);
        numbers.bytes = numbers.bytes.wrapping_add(more.bytes);
        self.rewrite_usage(usage.id(), quota.path, &numbers, txn);
    }

    /// The count that a create begins if `path`, which it has just made, is to hold the usage of a
    /// subtree. It takes time with the size of the subtree, and all clients of ZooKeeper wait, as
    /// in ZooKeeper.
    pub(crate) fn begin_count(&self, path: &str) -> Option<UsageCount> {
        let counted = self.tree().find(counted_by(path)?).map(Znode::id);
        Some(UsageCount::new(counted))
    }

    /// Goes on with a create that counts a subtree. The error is what is left to do.
    pub(crate) fn finish_create(
        &mut self,
        mut counting: Box<Counting>,
        txn: &mut Txn<'_>,
        steps: &mut Steps,
    ) -> Result<Outcome, Box<Counting>> {
        if !counting.count.go_on(self.tree(), steps) {
            return Err(counting);
        }
        let Counting { path, more, count, outcome } = *counting;
        let Usage { znodes, bytes } = count.usage();
        let usage = self.tree().find(&path).expect("it was just made").id();
        let of = counted_by(&path).expect("the count was begun for it");
        self.rewrite_usage(usage, of, &Numbers { count: znodes, bytes, others: Vec::new() }, txn);
        self.charge_quota(&path, more, txn);
        Ok(outcome)
    }

    fn rewrite_usage(&mut self, id: ZnodeId, of: &str, numbers: &Numbers, txn: &mut Txn<'_>) {
        let path = format!("{QUOTAS_PATH}{of}/{USAGE}");
        let old = self.tree.rewrite_data(id, &path, numbers.text().as_bytes());
        txn.did(|| Undo::SetData { path: path.into(), old });
    }

    /// The deepest quota on the way to `path`, its own included. Without any quota at all this only
    /// reads a counter.
    fn quota_above<'p>(&self, path: &'p str) -> Option<Quota<'p>> {
        let mut holder = self.tree().quotas();
        let mut found = None;
        let mut end = 0;
        for name in path.split('/').skip(1) {
            if holder.child_count() == 0 {
                break;
            }
            let Some(next) = self.tree().find_child(holder.id(), name) else { break };
            holder = next;
            end += 1 + name.len();
            if let Some(limits) = self.tree().find_child(holder.id(), LIMITS) {
                let (holder, limits) = (holder.id(), limits.id());
                found = Some(Quota { path: &path[..end], holder, limits });
            }
        }
        found
    }
}

/// The path of the subtree whose usage a znode at `path` holds, if it holds one.
fn counted_by(path: &str) -> Option<&str> {
    match path.strip_prefix(QUOTAS_PATH)?.rsplit_once('/')? {
        (of, USAGE) if of.starts_with('/') => Some(of),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
