//! Members that deceive the others: the others count on what such a member does not have. It runs
//! on an old copy of its directory, or the end of its log was damaged so that it passes for a torn
//! write, or its state differs from theirs.
//!
//! Raft tolerates the first two from no member. A member that has forgotten what it acknowledged
//! helps to elect a leader that lacks the same entries, and a new leader knows nothing of what was
//! acknowledged to the one before. The promise is that the leader of that time finds it out,
//! provided that this loss is the only one. So a deceit waits for a moment at which all members
//! run, have their votes, follow one leader that goes on to lead, and hear each other, on disks
//! without faults. Nothing else goes wrong until the member was found out and replaced, or has all
//! of it again. The member that forgets does not lead: its successor might not have what it alone
//! had counted as acknowledged. A wrong state waits for such a moment, too, although less would do:
//! no member is to fetch a snapshot from a leader that is wrong.

use member::leader::limits::DIGEST_INTERVAL_ENTRIES;
use replica::LogMemory;

use super::cluster::Cluster;
use super::faults::Faults;
use super::host::{Deceit, Host};
use crate::fault::Whom;
use crate::limits::{WRONG_ENTRIES_MAX, WRONG_ENTRIES_MIN};

impl Faults {
    /// Ends a deceit by which no member is deceived any more, and begins the one that waits if this
    /// is the moment. While it `is_calm` no deceit begins.
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

    /// Forgets the deceit that waits.
    pub fn end_waiting(&mut self) {
        self.waiting = None;
    }

    fn maybe_deceive(&mut self, cluster: &mut Cluster, whom: Whom, deceit: Deceit) {
        let hosts = &mut cluster.hosts;
        let Some(leader) = hosts.leader_of_all() else { return };
        let forgets = deceit != Deceit::WrongState;
        let mut members = hosts.resolve(whom);
        // If the member that was meant leads, or was not copied, another one takes its place.
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
        self.waiting = None;
        // Disk faults that were about to come do not come, either.
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

/// Whether a member may need a snapshot although all is well. A leader that is wrong could send its
/// own snapshot, and a majority would be wrong then. A follower's snapshot is compared first (seed
/// 510114 of three members).
fn is_log_short(host: &Host) -> bool {
    host.config.options.order.log_memory != LogMemory::default()
}

/// Whether digests are compared soon, and not at once.
fn is_digest_near(host: &Host) -> bool {
    let Some(server) = &host.server else { return false };
    let left = DIGEST_INTERVAL_ENTRIES - server.machine().index().0 % DIGEST_INTERVAL_ENTRIES;
    (WRONG_ENTRIES_MIN..=WRONG_ENTRIES_MAX).contains(&left)
}
