//! Recovers what is left of an ensemble, as an operator would who has lost its quorum for good: at
//! some moments of a run, copies of some members' disks are taken as a power cut would leave them,
//! and read by the code of `quorate recover`. The run itself goes on and notices nothing.
//!
//! Judged is what the operator is promised: the recovered state is that of the ensemble at that
//! entry, and has every entry that one of the members had handed to Apply. If the directories are
//! said to be complete, it has every entry that any member at all had.

use machine::digest::Digest;
use member::recovery::survivors::{Completeness, Survivor, completeness, furthest};
use storage::fault_disk::FaultDisk;
use workload::generate::Random;

use super::cluster::Cluster;
use super::host::Host;

/// One in so many faults comes with a recovery at the same moment.
const RECOVER_ONE_IN: u64 = 6;

/// The seed's part for recoveries: they draw from a generator of their own, so that a run is the
/// same with and without them.
const RECOVERY_SEED: u64 = 0x7265_636f_7665_7279;

/// Counts of recoveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryCounts {
    /// Recoveries of directories that had every acknowledged write.
    pub complete: usize,
    /// Recoveries of directories that may lack acknowledged writes.
    pub incomplete: usize,
    /// Recoveries in which the directories did lack committed entries.
    pub lacking: usize,
    /// Recoveries that would lack committed entries if they took only the entries that the
    /// directory knows to be committed.
    pub tails_needed: usize,
}

/// Recovers copies of the members' directories.
pub(super) struct Recoveries {
    random: Random,
    pub counts: RecoveryCounts,
}

impl Recoveries {
    /// The recoveries of the run with this seed.
    pub fn new(seed: u64) -> Recoveries {
        Recoveries { random: Random::new(seed ^ RECOVERY_SEED), counts: RecoveryCounts::default() }
    }

    /// Recovers some directories at this moment, now and then.
    ///
    /// # Errors
    /// The recovered state is wrong, or lacks an entry that it must have.
    pub fn maybe_recover(&mut self, cluster: &Cluster) -> Result<(), String> {
        match self.random.one_in(RECOVER_ONE_IN) {
            true => self.recover(cluster),
            false => Ok(()),
        }
    }

    /// Recovers some directories at this moment.
    ///
    /// # Errors
    /// The recovered state is wrong, or lacks an entry that it must have.
    pub fn recover(&mut self, cluster: &Cluster) -> Result<(), String> {
        let hosts = &cluster.hosts;
        let lies = |host: &Host| host.disk.plan().syncs_lie || host.lost.is_some();
        let is_fit = cluster.witness.looks_inside() && hosts.is_ensemble();
        if !is_fit || hosts.is_any_deceiving() || hosts.is_any_wrong() {
            return Ok(());
        }
        let mut survivors = Vec::new();
        let mut handed = 0;
        for (member, host) in hosts.iter().enumerate() {
            if self.random.one_in(2) || lies(host) {
                continue;
            }
            let copy = host.disk.copy_after_power_cut(self.random.bits());
            // The operator leaves out each directory that cannot be opened.
            if let Ok(survivor) = Survivor::open(copy) {
                survivors.push(survivor);
                handed = handed.max(cluster.witness.handed(member));
            }
        }
        if survivors.is_empty() {
            return Ok(());
        }
        self.judge(cluster, &survivors, handed).map_err(|what| {
            let members = survivors.iter().map(|it| it.identity().member_id);
            let members: Vec<String> = members.map(|id| format!("{id:016x}")).collect();
            format!("recovered from {}: {what}", members.join(", "))
        })
    }

    fn judge(
        &mut self,
        cluster: &Cluster,
        survivors: &[Survivor<FaultDisk>],
        handed: u64,
    ) -> Result<(), String> {
        let witness = &cluster.witness;
        let (taken, newest) = (&survivors[furthest(survivors)], witness.newest_index());
        let last = taken.last().index;
        let completeness = completeness(survivors);
        let is_complete = completeness == Completeness::Complete;
        let wanted = if is_complete { newest } else { handed };
        if last < wanted {
            return Err(format!(
                "it goes up to entry {last}, entry {wanted} was committed, {completeness:?}"
            ));
        }
        // A member leaves its directory damaged only where that is planned, and such a directory is
        // replaced; a copy that is damaged in its snapshots is seen now.
        let Ok(state) = taken.state() else { return Ok(()) };
        // An entry that was never committed may have the place of one that is.
        let known = witness.digest_at(last, taken.last().term);
        if known.is_some_and(|known: Digest| known != state.digest()) {
            return Err(format!("the state at entry {last} is not that of the ensemble"));
        }
        cluster.say(None, || format!("recovered up to entry {last} of {newest}: {completeness:?}"));
        self.counts.complete += usize::from(is_complete);
        self.counts.incomplete += usize::from(!is_complete);
        self.counts.lacking += usize::from(last < newest);
        self.counts.tails_needed += usize::from(taken.commit() < wanted);
        Ok(())
    }
}
