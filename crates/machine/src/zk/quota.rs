//! Quotas: limits on how many znodes and bytes a subtree may have, and the count of its present
//! usage.
//!
//! The limits of the subtree at `/a` are the data of `/zookeeper/quota/a/zookeeper_limits`, and its
//! usage is the data of `/zookeeper/quota/a/zookeeper_stats`. Both are ordinary znodes that clients
//! make (`setquota`). The usage is counted when its znode is made, and updated by each later write
//! in the subtree. An update replaces only the data: neither the znode's stat nor a watch shows it.
//! If several quotas are above a znode, only the deepest applies; a quota on the root is ignored.
//!
//! Malformed text in these znodes does no harm: what is not a number is ignored.
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

/// The quota that applies to a znode.
struct Quota<'p> {
    /// The root of the subtree that has the quota.
    path: &'p str,
    /// The parent of the two znodes that hold the limits and the usage.
    holder: ZnodeId,
    limits: ZnodeId,
}

/// The numbers in the data of a limits or usage znode:
/// `count=1,bytes=2=;byteHardLimit=5;countHardLimit=9`. A missing number is -1.
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

    /// The hard limit with this name; `None` if it is missing or negative.
    fn hard(&self, name: &str) -> Option<i64> {
        let found = self.others.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| *value).filter(|value| *value > -1)
    }

    /// As `StatsTrack.toString` writes the numbers. Because of the `=` behind the bytes, servers
    /// before 3.5 ignore what follows.
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
    /// If quotas are enforced, checks a write. `more` is what the write adds to the usage. For the
    /// znodes as for the bytes, the hard limit applies if the quota has one, else the soft limit. A
    /// write that exceeds the limit is reported to the program's log, and refused if the limit is a
    /// hard one.
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

    /// Adds the effect of a write to the usage of the quota that applies to `path`.
    pub(crate) fn charge_quota(&mut self, path: &str, more: Usage, txn: &mut Txn<'_>) {
        let Some(quota) = self.quota_above(path) else { return };
        let Some(usage) = self.tree().find_child(quota.holder, USAGE) else { return };
        let mut numbers = Numbers::parse(usage.data());
        numbers.count = numbers.count.wrapping_add(more.znodes);
        numbers.bytes = numbers.bytes.wrapping_add(more.bytes);
        self.rewrite_usage(usage.id(), quota.path, &numbers, txn);
    }

    /// The count to start if the znode at `path`, just created, is the usage znode of a quota; else
    /// `None`. A count takes time in proportion to the subtree; meanwhile all ZooKeeper clients
    /// wait, as in ZooKeeper.
    pub(crate) fn begin_count(&self, path: &str) -> Option<UsageCount> {
        let counted = self.tree().find(counted_by(path)?).map(Znode::id);
        Some(UsageCount::new(counted))
    }

    /// Continues a create that counts a subtree. `Err` holds what is left for the next step.
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

    /// The deepest quota at `path` or above. If there are no quotas at all, this only reads a
    /// counter.
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

/// The root of the subtree whose usage the znode at `path` holds; `None` if it is not a usage
/// znode.
fn counted_by(path: &str) -> Option<&str> {
    match path.strip_prefix(QUOTAS_PATH)?.rsplit_once('/')? {
        (of, USAGE) if of.starts_with('/') => Some(of),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
