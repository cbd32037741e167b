//! What a run was like: counts, each kept by the part that counts it, and put together at the end.

use std::fmt;

use super::{EtcdCounts, FaultCounts, LevelCounts, MemberCounts, ZkCounts};
use crate::server::SnapshotCounts;
use crate::witness::GivenUpCounts;

/// What a run was like.
#[derive(Clone, PartialEq, Eq)]
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

/// Prints all counts in one list, whichever part they are from: the lists of two versions of this
/// program can be compared.
impl fmt::Debug for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { snapshots, given_up, members, faults, zk, .. } = self;
        formatter
            .debug_struct("Summary")
            .field("seed", &self.seed)
            .field("member_count", &self.member_count)
            .field("led_count", &self.led_count)
            .field("trace", &self.trace)
            .field("virtual_us", &self.virtual_us)
            .field("worked_us", &self.worked_us)
            .field("event_count", &self.event_count)
            .field("start_count", &members.starts)
            .field("faults", &faults.by_name)
            .field("write_count", &zk.writes)
            .field("read_count", &zk.reads)
            .field("read_only_count", &zk.read_only)
            .field("not_read_only_count", &zk.not_read_only)
            .field("unknown_done_count", &zk.unknown_done)
            .field("event_received_count", &zk.watches.events)
            .field("lasting_event_count", &zk.watches.lasting)
            .field("private_event_count", &zk.watches.private)
            .field("hidden_event_count", &zk.watches.hidden)
            .field("lasting_again_count", &zk.watches.set_again)
            .field("missed_count", &zk.watches.missed)
            .field("refused_count", &zk.refused)
            .field("expired_count", &zk.expired)
            .field("gone_count", &zk.gone)
            .field("over_quota_count", &zk.over_quota)
            .field("owned_count", &zk.owned)
            .field("denied_count", &zk.denied)
            .field("throttled_count", &zk.throttled)
            .field("turned_away_count", &self.turned_away_count)
            .field("ended_count", &zk.ended)
            .field("withdrawn_count", &given_up.gone)
            .field("given_up_count", &given_up.replaced)
            .field("given_up_done_count", &given_up.done)
            .field("snapshot_count", &snapshots.taken)
            .field("fetched_count", &snapshots.fetched)
            .field("borrowed_count", &snapshots.borrowed)
            .field("founded_count", &members.founded)
            .field("joined_count", &members.joined)
            .field("set_aside_count", &members.set_aside)
            .field("deceit_count", &faults.deceits)
            .field("condemned_count", &members.condemned)
            .field("running_rot_count", &faults.running_rots)
            .field("machine_change_count", &members.machine_changes)
            .field("restored_count", &zk.restored)
            .field("write_wait_us_max", &zk.write_wait_us_max)
            .field("struck", &faults.struck)
            .field("entry_count", &self.entry_count)
            .field("disk_ops", &self.disk_ops)
            .field("levels", &self.levels)
            .field("etcd", &self.etcd)
            .finish()
    }
}
