//! Members that deceive the others: the others believe something about such a member that is not
//! true. They believe that the member has every entry that it acknowledged, but it runs on an old
//! copy of its directory, or the end of its log was damaged and looks like a torn write. Or they
//! believe that the member's state is right, but the simulation has changed the state.
//!
//! Raft does not tolerate an old copy or a damaged log, not even on one member. A member that has
//! forgotten what it acknowledged helps to elect a leader that lacks those entries, too, and a new
//! leader does not know what the one before acknowledged. The server's promise is only that the
//! current leader detects a member's loss, if no other member has lost anything. So a deceit waits
//! until all members run and vote, follow one stable leader, hear each other, and have disks
//! without faults. Then nothing else goes wrong until the member was detected and replaced, or has
//! recovered everything. A forgetful member is never the leader: its successor might lack entries
//! that only the old leader had counted as acknowledged. A wrong state waits for the same moment,
//! since otherwise a member could fetch a snapshot from a leader with a wrong state.

use member::leader::limits::DIGEST_INTERVAL_ENTRIES;
use replica::LogMemory;

use super::cluster::Cluster;
use super::faults::Faults;
use super::host::{Deceit, Host};
use crate::fault::Whom;
use crate::limits::{WRONG_ENTRIES_MAX, WRONG_ENTRIES_MIN};

impl Faults {
    /// Ends each deceit that has become harmless. Unless `is_calm`, also begins the waiting deceit
    /// if nothing else is wrong now.
    pub fn pursue_deceit(&mut self, cluster: &mut Cluster, is_calm: bool) {
        for member in 0..cluster.hosts.len() {
            let Cluster { hosts, witness, world, .. } = &*cluster;
            if hosts[member].deceives.is_some() && hosts.is_honest(member, witness, world.now_us) {
                cluster.say(Some(member), || "nobody is deceived any more".to_string());
                let host = &mut cluster.hosts[member];
                host.deceives = None;
                host.lost = None;
            }
        }
        if let Some((whom, deceit)) = self.waiting
            && !is_calm
            && !cluster.hosts.is_any_deceiving()
        {
            self.maybe_deceive(cluster, whom, deceit);
        }
    }

    /// Drops the waiting deceit.
    pub fn end_waiting(&mut self) {
        self.waiting = None;
    }

    fn maybe_deceive(&mut self, cluster: &mut Cluster, whom: Whom, deceit: Deceit) {
        let hosts = &mut cluster.hosts;
        let Some(leader) = hosts.leader_of_all() else { return };
        let forgets = deceit != Deceit::WrongState;
        let mut members = hosts.resolve(whom);
        // If the chosen member leads, or has no copy, another one takes its place.
        members.extend(0..hosts.len());
        members.retain(|member| !(forgets && *member == leader));
        members.retain(|member| deceit != Deceit::OldCopy || hosts[*member].is_copied());
        let Some(member) = members.first().copied() else { return };
        if deceit == Deceit::WrongState {
            let host = &hosts[member];
            let may_lend_unseen = member == leader && is_log_short(host);
            if may_lend_unseen || !is_digest_near(host) {
                return;
            }
        }
        hosts.note_replaced(&cluster.witness);
        if !self.are_over() || !hosts.are_all_well(&cluster.links, cluster.world.now_us) {
            return;
        }
        // A detected member gets a new directory, so the others must be able to commit without it.
        if hosts.are_members_changing() && !hosts.may_lose_amid_changes(member, &cluster.witness) {
            return;
        }
        self.waiting = None;
        // Planned faults of the disks are dropped, too.
        hosts.iter().for_each(Host::spare_disk);
        let Some(id) = hosts[member].member() else { return };
        let deceives = match deceit {
            Deceit::OldCopy => cluster.put_back(member),
            Deceit::TornTail => cluster.tear(member),
            Deceit::WrongState => cluster.make_wrong(member),
        };
        let Some(deceives) = deceives else { return };
        if forgets {
            cluster.hosts[member].hinder_start(&mut cluster.world.random);
        }
        cluster.say(Some(member), || format!("it deceives the others: {deceit:?}, {deceives:?}"));
        self.counts.deceits += 1;
        let host = &mut cluster.hosts[member];
        host.note_lost(Some(id));
        host.deceives = Some(deceives);
    }
}

/// Whether members keep so little of the log that one may need a snapshot in good times. A leader
/// with a wrong state could then send its snapshot and make a majority wrong. A snapshot from a
/// follower is compared with the leader first (seed 510114 of three members).
fn is_log_short(host: &Host) -> bool {
    host.config.options.order.log_memory != LogMemory::default()
}

/// Whether the members compare digests soon, but not at the very next entry.
fn is_digest_near(host: &Host) -> bool {
    let Some(server) = &host.server else { return false };
    let left = DIGEST_INTERVAL_ENTRIES - server.machine().index().0 % DIGEST_INTERVAL_ENTRIES;
    (WRONG_ENTRIES_MIN..=WRONG_ENTRIES_MAX).contains(&left)
}
