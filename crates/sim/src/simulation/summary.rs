//! What a run was like: counts, each kept by the part that counts it, and put together at the end.

use super::{EtcdCounts, FaultCounts, LevelCounts, MemberCounts, ZkCounts};
use crate::server::SnapshotCounts;
use crate::witness::GivenUpCounts;

/// What a run was like.
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
    /// Virtual time it took.
    pub virtual_us: u64,
    /// When all clients had done everything they had to, and had every answer.
    pub worked_us: u64,
    /// Terms that had a leader.
    pub led_count: usize,
    /// Log entries committed.
    pub entry_count: usize,
    /// Operations that changed the disk.
    pub disk_ops: u64,
    /// Connections that a throttle closed.
    pub turned_away_count: usize,
    /// Snapshots that members took and fetched.
    pub snapshots: SnapshotCounts,
    /// Commands that nobody waited for any more.
    pub given_up: GivenUpCounts,
    /// What became of processes and of their directories.
    pub members: MemberCounts,
    /// The faults that came.
    pub faults: FaultCounts,
    /// What happened about builds and levels.
    pub levels: LevelCounts,
    /// What ZooKeeper's clients did.
    pub zk: ZkCounts,
    /// What etcd's clients did.
    pub etcd: EtcdCounts,
}
