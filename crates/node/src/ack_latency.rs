//! Measures, on a leader, how long a new entry takes until it is on each member's disk. It follows
//! one entry at a time, and starts with a new one only now and then, so that measuring costs
//! little.

use std::time::{Duration, Instant};

use machine::MemberId;
use member::Loop;

use crate::limits::{ACK_PATIENCE, ACK_SAMPLE_INTERVAL};

/// Measures one entry after the other: the entry that is being followed, if any, and when the next
/// one may begin.
#[derive(Default)]
pub struct AckClock {
    sample: Option<Sample>,
    next: Option<Instant>,
}

struct Sample {
    index: u64,
    began: Instant,
    is_committed: bool,
    /// Ids of the members that have reported the entry on their disk.
    acked: Vec<u64>,
}

/// A stage that an entry has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The entry is on the disk of this member.
    Disk(MemberId),
    /// The entry is on the disks of a quorum.
    Quorum,
}

impl AckClock {
    /// Looks at Loop after a step that gave the disk entries up to index `given`, if any. Returns
    /// the stages reached since the last call, each with the time since the entry was proposed.
    pub fn look(&mut self, member: &Loop, given: Option<u64>) -> Vec<(Reached, Duration)> {
        let Some(sample) = &mut self.sample else {
            self.maybe_begin(member, given);
            return Vec::new();
        };
        let (status, took) = (member.status(), sample.began.elapsed());
        let mut reached = Vec::new();
        if status.commit_index >= sample.index && !sample.is_committed {
            sample.is_committed = true;
            reached.push(Reached::Quorum);
        }
        let peers = member.peers();
        let others = peers.iter().map(|peer| (peer.member_id, peer.matched_index));
        for (id, index) in others.chain([(member.id().0, status.persisted_index)]) {
            if index >= sample.index && !sample.acked.contains(&id) {
                sample.acked.push(id);
                reached.push(Reached::Disk(MemberId(id)));
            }
        }
        // A deposed leader has no peers and gets no more acks, so its sample ends, too.
        let is_over = sample.acked.len() > peers.len() && sample.is_committed;
        if is_over || took >= ACK_PATIENCE || peers.is_empty() {
            self.sample = None;
        }
        reached.into_iter().map(|it| (it, took)).collect()
    }

    fn maybe_begin(&mut self, member: &Loop, given: Option<u64>) {
        let Some(index) = given else { return };
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) || member.peers().is_empty() {
            return;
        }
        self.next = Some(now + ACK_SAMPLE_INTERVAL);
        self.sample = Some(Sample { index, began: now, is_committed: false, acked: Vec::new() });
    }
}
