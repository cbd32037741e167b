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

use machine::MemberId;
use member::limits::DIGEST_INTERVAL_ENTRIES;
use member::{Condemned, Difference};
use replica::LogMemory;
use storage::inspect::inspect;
use storage::wal::log_path;

use super::directory::{Found, found};
use super::host::{Deceit, Deceives};
use super::{Phase, Simulation};
use crate::fault::Whom;
use crate::limits::{
    HONEST_US_MIN, ROT_TRIES_MAX, USUAL_SYNC_US_MAX, WRONG_ENTRIES_MAX, WRONG_ENTRIES_MIN,
};
use crate::links::Pair;
use crate::server::Server;

impl Simulation {
    /// Whether a member is not what the others take it for.
    pub(super) fn is_any_deceiving(&self) -> bool {
        self.hosts.iter().any(|host| host.deceives.is_some())
    }

    /// Whether a state that runs was made wrong.
    pub(super) fn is_any_wrong(&self) -> bool {
        self.servers().any(Server::is_wrong)
    }

    /// Ends a deceit by which no member is deceived any more, and begins the one that waits if this
    /// is the moment.
    pub(super) fn pursue_deceit(&mut self) {
        for member in 0..self.hosts.len() {
            if self.hosts[member].deceives.is_some() && self.is_honest(member) {
                self.say(Some(member), || "nobody is deceived any more".to_string());
                self.hosts[member].deceives = None;
                self.hosts[member].lost = None;
            }
        }
        if let Some((whom, deceit)) = self.deceit
            && self.phase == Phase::Faults
            && !self.is_any_deceiving()
        {
            self.maybe_deceive(whom, deceit);
        }
    }

    /// Whether a member that deceived was replaced, or is what the others take it for after all: it
    /// has again what it forgot, and the others have told it so in the term of a leader that led
    /// before.
    fn is_honest(&self, member: usize) -> bool {
        let host = &self.hosts[member];
        match (&host.server, host.deceives) {
            (Some(server), Some(deceives)) if Some(server.hello().member) == host.lost => {
                match deceives {
                    Deceives::Differs => !server.is_wrong(),
                    Deceives::Forgot { index } => {
                        server.is_ready()
                            && server.machine().index().0 >= index
                            && self.world.now_us >= server.started_us() + HONEST_US_MIN
                    }
                }
            }
            _ => self.is_replaced(member),
        }
    }

    fn maybe_deceive(&mut self, whom: Whom, deceit: Deceit) {
        let Some(leader) = self.leader_of_all() else { return };
        let forgets = deceit != Deceit::WrongState;
        let mut members = self.resolve(whom);
        // If the member that was meant leads, or was not copied, another one takes its place.
        members.extend(0..self.hosts.len());
        members.retain(|member| !(forgets && *member == leader));
        members.retain(|member| deceit != Deceit::OldCopy || self.hosts[*member].is_copied());
        let Some(member) = members.first().copied() else { return };
        if deceit == Deceit::WrongState {
            let may_lend_unseen = member == leader && self.is_log_short();
            if may_lend_unseen || !self.is_digest_near(member) {
                return;
            }
        }
        self.note_replaced();
        if !self.are_all_well() {
            return;
        }
        self.deceit = None;
        for host in &self.hosts {
            // Disk faults that were about to come do not come, either.
            host.disk.change_plan(|plan| {
                plan.stop_at = None;
                plan.fail.clear();
            });
        }
        let Some(id) = self.hosts[member].hello().map(|hello| hello.member) else { return };
        let deceives = match deceit {
            Deceit::OldCopy => self.put_back(member),
            Deceit::TornTail => self.tear(member),
            Deceit::WrongState => self.make_wrong(member),
        };
        let Some(deceives) = deceives else { return };
        if forgets {
            self.hinder_start(member);
        }
        self.say(Some(member), || format!("it deceives the others: {deceit:?}, {deceives:?}"));
        self.deceit_count += 1;
        let host = &mut self.hosts[member];
        host.lost = Some(id);
        host.config.lost_count += 1;
        host.deceives = Some(deceives);
    }

    /// The leader, if all members that run follow it in one term.
    fn leader_of_all(&self) -> Option<usize> {
        let leader = *self.leaders().last()?;
        let at = |server: &Server| (server.status().term, server.status().leader);
        let led = at(self.hosts[leader].server.as_ref()?);
        self.servers().all(|server| at(server) == led).then_some(leader)
    }

    /// Whether nothing is wrong with any member, disk or link.
    fn are_all_well(&self) -> bool {
        let now_us = self.world.now_us;
        let is_well = |host: &super::Host| {
            let is_sound = !host.disk.is_stopping() && !host.disk.is_limited();
            let is_quick = !host.paces.are_slow(now_us) && host.apply_lag_us == 0;
            let is_there = host.is_awake(now_us)
                && host.server.as_ref().is_some_and(|server| {
                    // A sync from when the disk was slow may last for seconds yet.
                    server.is_disk_done(now_us + USUAL_SYNC_US_MAX)
                        && server.is_ready()
                        && server.status().transferring_to.is_none()
                });
            is_sound && is_quick && is_there && host.lost.is_none()
        };
        let hosts = 0..self.hosts.len();
        let pairs = hosts.clone().flat_map(|from| hosts.clone().map(move |to| Pair { from, to }));
        self.reliefs.is_empty()
            && self.hosts.iter().all(is_well)
            && pairs.filter(|pair| pair.from != pair.to).all(|pair| self.links.is_good(pair))
            && self.do_all_vote()
    }

    /// Whether a member may need a snapshot although all is well. A leader that is wrong could send
    /// its own snapshot, and a majority would be wrong then. A follower's snapshot is compared
    /// first (seed 510114 of three members).
    fn is_log_short(&self) -> bool {
        self.options.member.options.log_memory != LogMemory::default()
    }

    /// Whether digests are compared soon, and not at once.
    fn is_digest_near(&self, member: usize) -> bool {
        let Some(server) = &self.hosts[member].server else { return false };
        let left = DIGEST_INTERVAL_ENTRIES - server.machine().index().0 % DIGEST_INTERVAL_ENTRIES;
        (WRONG_ENTRIES_MIN..=WRONG_ENTRIES_MAX).contains(&left)
    }

    fn make_wrong(&mut self, member: usize) -> Option<Deceives> {
        self.hosts[member].server.as_mut()?.make_wrong();
        Some(Deceives::Differs)
    }

    /// Ends the process of a member. Returns the last entry that it has acknowledged: others may
    /// count on all up to it.
    fn stop(&mut self, member: usize) -> Option<u64> {
        let last_index = self.hosts[member].server.as_ref()?.status().last_index;
        let power_is_cut = self.world.random.one_in(2);
        self.end_process(member, power_is_cut);
        Some(last_index)
    }

    /// Ends the process, and puts back what somebody copied from its disk earlier.
    fn put_back(&mut self, member: usize) -> Option<Deceives> {
        let (_, copy) = self.hosts[member].copy.take()?;
        let index = self.stop(member)?;
        self.hosts[member].disk.put_back(&copy);
        self.witness.on_lost(member);
        Some(Deceives::Forgot { index })
    }

    /// Ends the process, and damages a part of the log that no mark says to be durable, if it has
    /// one.
    fn tear(&mut self, member: usize) -> Option<Deceives> {
        let index = self.stop(member)?;
        self.tidy_up(member);
        let host = &self.hosts[member];
        let before = host.disk.copy();
        let last = inspect(&before, &mut |_| Ok(())).segments.pop()?;
        if last.mark >= last.end {
            return None;
        }
        let path = log_path(last.sequence);
        for _ in 0..ROT_TRIES_MAX {
            let offset = self.world.random.between(last.mark, last.end - 1) as usize;
            let bits = self.world.random.between(1, 255) as u8;
            let host = &self.hosts[member];
            host.disk.flip(&path, offset, bits);
            if found(&host.config, &before, &host.disk) == Found::Torn {
                self.witness.on_lost(member);
                return Some(Deceives::Forgot { index });
            }
            host.disk.flip(&path, offset, bits);
        }
        None
    }

    /// Checks that there is a reason for what a leader found when it compared digests.
    pub(super) fn check_difference(&self, difference: Difference) -> Result<(), String> {
        let is_wrong = |id: MemberId| {
            let is_it = |host: &super::Host| {
                host.lost == Some(id) && host.deceives == Some(Deceives::Differs)
            };
            self.hosts.iter().any(is_it)
        };
        match difference {
            Difference::Outside { member, .. } if is_wrong(member) => Ok(()),
            _ => Err(format!("states differ: {difference:?}")),
        }
    }

    /// A member has condemned its directory, and its process has ended. Checks that there is a
    /// reason.
    pub(super) fn on_condemned(&mut self, member: usize, why: Condemned) -> Result<(), String> {
        // A machine may be forgotten while another one has its place.
        let has_other = self.hosts[member].other.is_some();
        let is_explained = match (why, self.hosts[member].deceives) {
            (Condemned::Forgotten, _) => has_other,
            (
                Condemned::Forgot { .. }
                | Condemned::HoldsAnother { .. }
                | Condemned::Outlived { .. },
                Some(it),
            ) => it != Deceives::Differs,
            (Condemned::Differs { .. }, Some(it)) => it == Deceives::Differs,
            (_, None) => false,
        };
        if !is_explained {
            return Err(why.to_string());
        }
        self.say(Some(member), || format!("the directory is condemned: {why}"));
        self.condemned_count += 1;
        if why == Condemned::Forgotten {
            // Another directory draws another id.
            let id = self.hosts[member].hello().map(|hello| hello.member);
            self.hosts[member].lost = id;
            self.hosts[member].config.lost_count += 1;
        }
        self.end_process(member, false);
        self.hinder_start(member);
        Ok(())
    }
}
