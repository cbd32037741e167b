//! The summary of a run: counts from all its parts, put together at the end.

use super::{EtcdCounts, FaultCounts, LevelCounts, MemberCounts, RecoveryCounts, ZkCounts};
use crate::member_changes::ChangeCounts;
use crate::server::SnapshotCounts;
use crate::witness::GivenUpCounts;

/// The summary of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The seed of the run.
    pub seed: u64,
    /// The number of members.
    pub member_count: usize,
    /// A hash of all events. Two runs of one seed have the same trace.
    pub trace: u64,
    /// The number of events.
    pub event_count: u64,
    /// Virtual length of the run.
    pub virtual_us: u64,
    /// When all clients had finished their work and had all answers, in virtual us.
    pub worked_us: u64,
    /// Terms that had a leader.
    pub led_count: usize,
    /// Log entries committed.
    pub entry_count: usize,
    /// Operations that changed a disk or made data durable, on all disks.
    pub disk_ops: u64,
    /// Connections that a throttle refused.
    pub turned_away_count: usize,
    /// Snapshots that members took, and those that they fetched.
    pub snapshots: SnapshotCounts,
    /// Commands that their client had stopped waiting for.
    pub given_up: GivenUpCounts,
    /// Counts of what happened to processes and directories.
    pub members: MemberCounts,
    /// Counts of the changes of members.
    pub changes: ChangeCounts,
    /// Counts of recoveries of what is left of the ensemble.
    pub recoveries: RecoveryCounts,
    /// The faults that came.
    pub faults: FaultCounts,
    /// Counts of what happened to builds and levels.
    pub levels: LevelCounts,
    /// Counts of what the ZooKeeper clients did.
    pub zk: ZkCounts,
    /// Counts of what the etcd clients did.
    pub etcd: EtcdCounts,
}
