//! Counts of what this member's store of etcd v2 has done, for `/v2/stats/store`. Apply counts the
//! writes, which all members apply; the Fronts count the reads and waits of this member's own
//! clients. The names are etcd's (`v2store.Stats`).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use machine::EtcdV2Command;
use machine::etcd_v2::reply::{Outcome as EtcdV2Outcome, Refusal};

/// The operations that are counted, each with the names of its counts of successes and of failures.
const OPERATIONS: [(&str, &str); 7] = [
    ("getsSuccess", "getsFail"),
    ("setsSuccess", "setsFail"),
    ("deleteSuccess", "deleteFail"),
    ("updateSuccess", "updateFail"),
    ("createSuccess", "createFail"),
    ("compareAndSwapSuccess", "compareAndSwapFail"),
    ("compareAndDeleteSuccess", "compareAndDeleteFail"),
];

/// The counts since the start, shared by Apply and the Fronts of a member.
#[derive(Debug, Default)]
pub struct EtcdV2Counts {
    /// Successes and failures, in the order of [`OPERATIONS`].
    operations: [[AtomicU64; 2]; OPERATIONS.len()],
    expired: AtomicU64,
    /// Waits that are going on now.
    waits: AtomicI64,
}

impl EtcdV2Counts {
    /// Counts a write with its outcome.
    pub(crate) fn on_command(
        &self,
        command: &EtcdV2Command<'_>,
        outcome: &Result<EtcdV2Outcome, Refusal>,
    ) {
        let operation = match command {
            EtcdV2Command::Set { .. } => 1,
            EtcdV2Command::Delete { .. } => 2,
            EtcdV2Command::Update { .. } => 3,
            EtcdV2Command::Create { .. } => 4,
            EtcdV2Command::CompareAndSwap { .. } => 5,
            EtcdV2Command::CompareAndDelete { .. } => 6,
            EtcdV2Command::Auth(_) => return,
            EtcdV2Command::Expire { .. } => {
                if let Ok(EtcdV2Outcome::Expired { count }) = outcome {
                    self.expired.fetch_add(*count, Ordering::Relaxed);
                }
                return;
            }
        };
        self.add(operation, outcome.is_ok());
    }

    /// Counts a read.
    pub(crate) fn on_get(&self, is_good: bool) {
        self.add(0, is_good);
    }

    /// Adds to the number of waits that are going on; with a negative `count`, waits have ended.
    pub(crate) fn add_waits(&self, count: i64) {
        self.waits.fetch_add(count, Ordering::Relaxed);
    }

    fn add(&self, operation: usize, is_good: bool) {
        self.operations[operation][usize::from(!is_good)].fetch_add(1, Ordering::Relaxed);
    }

    /// All counts with their names.
    pub fn numbers(&self) -> Vec<(&'static str, u64)> {
        let mut numbers = Vec::new();
        for (names, [good, bad]) in OPERATIONS.iter().zip(&self.operations) {
            numbers.push((names.0, good.load(Ordering::Relaxed)));
            numbers.push((names.1, bad.load(Ordering::Relaxed)));
        }
        numbers.push(("expireCount", self.expired.load(Ordering::Relaxed)));
        let waits = self.waits.load(Ordering::Relaxed);
        numbers.push(("watchers", u64::try_from(waits).unwrap_or(0)));
        numbers
    }
}
