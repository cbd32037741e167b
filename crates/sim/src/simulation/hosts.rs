//! The machines of all members, and questions about the members together: which one leads, whether
//! they agree, and which may lose its data.

use std::ops::{Deref, DerefMut};

use machine::{Level, MemberId, ServerList, ServerRecord, ServerRole};
use member::Difference;
use member::membership::bootstrap::Attendance;
use member::recovery::draw_ids;
use replica::Role;
use storage::datadir::Birth;
use workload::generate::Random;

use super::host::{Deceives, Host};
use super::options::Options;
use super::roster::{Place, Roster, Standing};
use crate::disk::SimDisk;
use crate::fault::Whom;
use crate::limits::{CLOCK_PPM_MAX, HARM_LASTS_US, HONEST_US_MIN, USUAL_SYNC_US_MAX};
use crate::links::{Links, Pair};
use crate::server::{LifeCounts, MemberConfig, Server};
use crate::witness::Witness;
use crate::world::Clock;

/// Counts of what happened to the processes and directories of a run's members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// Starts of processes, including failed ones.
    pub starts: u64,
    /// Directories that voted in the ensemble's birth.
    pub founded: u64,
    /// Directories that joined an ensemble that was born already.
    pub joined: u64,
    /// Directories that a start set aside, because they were corrupt or condemned.
    pub set_aside: u64,
    /// Members that condemned their directory because the others found that it had lost data.
    pub condemned: u64,
    /// Times that another machine took a server's place.
    pub machine_changes: u64,
}

/// The machines of all members, by member number.
pub(super) struct Hosts {
    machines: Vec<Host>,
    /// How many process runs and times without a process there have been, for their numbers.
    lives: u64,
    /// The newest list of servers, and counts of its changes.
    pub list: Roster,
    /// The counts of all process runs that have ended.
    ended: LifeCounts,
    /// The generator for changes of the configuration; `None` if the run does not change those
    /// settings.
    more: Option<Random>,
    /// Counts of what happened to processes and directories.
    pub counts: MemberCounts,
}

impl Deref for Hosts {
    type Target = [Host];

    fn deref(&self) -> &[Host] {
        &self.machines
    }
}

impl DerefMut for Hosts {
    fn deref_mut(&mut self) -> &mut [Host] {
        &mut self.machines
    }
}

impl Hosts {
    /// Machines on which no process has run. `more` is the generator for changes of the
    /// configuration; `None` if the run does not change those settings.
    pub fn new(machines: Vec<Host>, more: Option<Random>, options: &Options) -> Hosts {
        Hosts {
            machines,
            list: Roster::new(options),
            lives: 0,
            ended: LifeCounts::default(),
            more,
            counts: MemberCounts::default(),
        }
    }

    /// Whether there are several members.
    pub fn is_ensemble(&self) -> bool {
        self.len() > 1
    }

    // Process runs.

    /// Gives a member's next process run, or time without a process, its number.
    pub fn begin_life(&mut self, member: usize) {
        self.lives += 1;
        self.machines[member].life = self.lives;
    }

    /// Changes settings at random before a process starts.
    pub fn change_settings(&mut self, member: usize, random: &mut Random) {
        let settings = &mut self.machines[member].config.options.spaces.zk.settings;
        // A setting that does not affect these clients.
        if random.one_in(4) {
            settings.reconfig_enabled ^= true;
        }
        // Settings that do affect these clients.
        if let Some(more) = &mut self.more {
            settings.extended_types ^= more.one_in(6);
            settings.enforce_quota ^= more.one_in(6);
        }
    }

    /// Adds the counts of a process that is ending.
    pub fn on_end(&mut self, server: &Server) {
        self.ended.add(server.life_counts());
    }

    /// The sum of the counts of all process runs so far.
    pub fn life_counts(&self) -> LifeCounts {
        let mut counts = self.ended;
        self.servers().for_each(|server| counts.add(server.life_counts()));
        counts
    }

    // Presence and leadership.

    /// The running processes of listed servers whose directory is born.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        let members = (0..self.len()).filter(|member| self.is_in(*member));
        members.filter_map(|member| self[member].server.as_ref())
    }

    /// Whether all members are ready.
    pub fn are_ready(&self) -> bool {
        let is_ready = |member: usize| self[member].server.as_ref().is_some_and(Server::is_ready);
        let is_there = |member: usize| self[member].server.is_some();
        self.members_in().into_iter().all(|it| is_ready(it) || (!self.serves(it) && is_there(it)))
    }

    /// A description of all members, as text for people.
    pub fn describe(&self) -> String {
        let states: Vec<String> = self.iter().map(Host::describe).collect();
        states.join("; ")
    }

    /// The member whose process has this member id now.
    pub fn position(&self, id: MemberId) -> Option<usize> {
        self.iter().position(|host| host.member() == Some(id))
    }

    /// The members that a fault strikes.
    pub fn resolve(&self, whom: Whom) -> Vec<usize> {
        let all = self.present().into_iter();
        match whom {
            Whom::Members(mask) => {
                let struck = all.enumerate().filter(|(position, _)| mask >> position & 1 == 1);
                struck.map(|(_, member)| member).collect()
            }
            Whom::Leader => self.leaders(),
            Whom::Follower => {
                let leaders = self.leaders();
                all.filter(|member| !leaders.contains(member)).take(1).collect()
            }
            Whom::Lender => self.lenders(),
        }
    }

    /// The followers that give another member a snapshot now.
    pub fn lenders(&self) -> Vec<usize> {
        let leaders = self.leaders();
        let lends = |member: &usize| {
            let server = self[*member].server.as_ref();
            let lender = server.map(|server| server.hello().member);
            let is_asked = self.servers().any(|other| other.fetches_from() == lender);
            lender.is_some() && is_asked && !leaders.contains(member)
        };
        (0..self.len()).filter(lends).collect()
    }

    /// The members that lead, or believe so, in the order of their terms.
    pub fn leaders(&self) -> Vec<usize> {
        let term = |member: usize| {
            let status = self[member].server.as_ref()?.status();
            (status.role == Role::Leader).then_some((status.term, member))
        };
        let mut leaders: Vec<(u64, usize)> = (0..self.len()).filter_map(term).collect();
        leaders.sort_unstable();
        leaders.into_iter().map(|(_, member)| member).collect()
    }

    /// The leader, if all running members follow it in one term; otherwise `None`.
    pub fn leader_of_all(&self) -> Option<usize> {
        let leader = *self.leaders().last()?;
        let at = |server: &Server| (server.status().term, server.status().leader);
        let led = at(self[leader].server.as_ref()?);
        self.servers().all(|server| at(server) == led).then_some(leader)
    }

    // Health.

    /// Whether every server runs, every server that is to vote is a voter, and no other member is.
    pub fn do_all_vote(&self) -> bool {
        let all = self.members_in();
        let ids = |are_voters: bool| {
            let of_role = all.iter().filter(|member| self.is_voter(**member) == are_voters);
            let servers = of_role.filter_map(|member| self[*member].server.as_ref());
            let mut ids: Vec<u64> = servers.map(|server| server.hello().member.0).collect();
            ids.sort_unstable();
            ids
        };
        let (voters, learners) = (ids(true), ids(false));
        voters.len() + learners.len() == all.len()
            && self.servers().all(|server| server.voters() == voters)
            && (!self.are_members_changing()
                || self.servers().all(|server| server.learners() == learners))
    }

    /// Whether all running members have the same leader and the same state, and are ready.
    pub fn do_agree(&self) -> bool {
        let there = self.members_in().into_iter();
        let servers = there.filter_map(|member| Some((member, self[member].server.as_ref()?)));
        let mut views = servers.map(|(member, server)| {
            let (status, machine) = (server.status(), server.machine());
            let state = (machine.index(), machine.mark(), machine.digest());
            (server.is_ready() || !self.serves(member), status.term, status.leader, state)
        });
        let first = views.next();
        first.is_some_and(|(is_ready, _, leader, ..)| is_ready && leader.is_some())
            && views.all(|view| Some(view) == first)
    }

    /// Whether no fault affects any member, disk or link, and all members vote.
    pub fn are_all_well(&self, links: &Links, now_us: u64) -> bool {
        let is_well = |member: usize| {
            let host = &self[member];
            let is_there = host.is_awake(now_us)
                && host.server.as_ref().is_some_and(|server| {
                    // A sync that began while the disk was slow may take seconds more.
                    server.is_disk_done(now_us + USUAL_SYNC_US_MAX)
                        && (server.is_ready() || !self.serves(member))
                        && server.status().transferring_to.is_none()
                });
            host.is_treated_well(now_us) && is_there && host.lost.is_none()
        };
        let hosts = self.members_in().into_iter();
        let pairs = hosts.clone().flat_map(|from| hosts.clone().map(move |to| Pair { from, to }));
        hosts.clone().all(is_well)
            && pairs.filter(|pair| pair.from != pair.to).all(|pair| links.is_good(pair))
            && self.do_all_vote()
    }

    /// Until when hanging disks may keep the members from a quorum, in us. A sync that hung when
    /// the faults stopped lasts as long as planned.
    pub fn quorum_held_us(&self) -> u64 {
        let serves = |host: &&Host| host.server.as_ref().is_some_and(Server::is_ready);
        let members = self.members_in();
        let serving = members.iter().map(|member| &self[*member]).filter(serves);
        let mut held_us: Vec<u64> = serving.map(Host::held_until_us).collect();
        held_us.sort_unstable();
        held_us.get(members.len() / 2).or(held_us.last()).copied().unwrap_or(0)
    }

    /// When the last hang of any disk ends, in us.
    pub fn held_until_us(&self) -> u64 {
        self.iter().map(Host::held_until_us).max().unwrap_or(0)
    }

    /// Notes which members may fail to hear their clients, or to report them to the leader, now.
    pub fn note_trouble(&mut self, links: &Links, now_us: u64) {
        let leads = |id: u64| {
            self.iter().position(|host| {
                let status = host.server.as_ref().map(Server::status);
                status.is_some_and(|it| it.role == Role::Leader && it.leader == Some(id))
            })
        };
        let since_us = now_us.saturating_sub(HARM_LASTS_US);
        // For one member: whether the leader hears of its clients, and whether a slow link may
        // delay the leader's news to it.
        let look = |member: usize| {
            let host = &self[member];
            let Some(server) = host.server.as_ref() else { return (false, false) };
            let Some(leader) = server.status().leader.and_then(leads) else {
                return (false, false);
            };
            let is_led = leader != member;
            let was_good = |other: usize| links.were_good(member, other, since_us);
            let is_near = match is_led {
                true => was_good(leader),
                // A leader checks with a quorum whether it still leads.
                false => {
                    let others = self.voters_of(server).filter(|other| *other != member);
                    others.filter(|other| was_good(*other)).count() >= server.voters().len() / 2
                }
            };
            let is_well = server.is_ready() && host.is_awake(now_us) && is_near;
            (is_well, is_led && links.were_slow(member, leader, since_us))
        };
        let present = self.present();
        let looks: Vec<(bool, bool)> = present.iter().map(|member| look(*member)).collect();
        for (number, (is_well, is_far)) in present.into_iter().zip(looks) {
            let is_alone = self[number].server.as_ref().is_some_and(Server::is_only_voter);
            let is_cut_off = links.is_cut_off(number) && !is_alone;
            self[number].note_trouble((is_well, is_far), is_cut_off, now_us);
        }
    }

    /// The machines of a member's voters.
    fn voters_of(&self, server: &Server) -> impl Iterator<Item = usize> {
        let voters = server.voters();
        let has_vote = move |host: &Host| host.member().is_some_and(|id| voters.contains(&id.0));
        self.iter().enumerate().filter(move |(_, host)| has_vote(host)).map(|(number, _)| number)
    }

    // Losses.

    /// Whether a majority would still have lost nothing if this member lost its directory. False in
    /// an ensemble of one.
    pub fn may_lose(&mut self, member: usize, witness: &Witness) -> bool {
        self.note_replaced(witness);
        if self.are_members_changing() {
            return self.may_lose_amid_changes(member, witness);
        }
        // If any majority may begin an ensemble, members without a vote yet could begin a second
        // one.
        let may_begin = self[member].config.attendance != Attendance::All;
        let is_missing = |at: &usize| {
            let is_lost = self[*at].lost.is_some();
            *at != member && (is_lost || (may_begin && !self.has_its_place(*at, member)))
        };
        (0..self.len()).filter(is_missing).count() < self.len().div_ceil(2) - 1
    }

    /// Updates [`Host::lost`]: clears it for each member whose lost directory is replaced.
    pub fn note_replaced(&mut self, witness: &Witness) {
        for at in 0..self.len() {
            if self.is_replaced(at, witness) {
                self[at].lost = None;
            }
        }
    }

    /// Whether a member's lost directory is replaced: its new directory is a voter, there are as
    /// many voters as servers, and all members know that. The new directory then has everything
    /// that was committed before, since the change of voters came behind it in the log. No member
    /// waits for the lost voter any more, and no log holds an unfinished change that could make one
    /// wait.
    fn is_replaced(&self, member: usize, witness: &Witness) -> bool {
        let host = &self[member];
        let id = host.member().filter(|id| host.lost != Some(*id));
        if self.are_members_changing() {
            return self.is_replaced_amid_changes(member, witness);
        }
        let Some(id) = id else { return false };
        // A lost member that is a learner might become a voter again, and then its vote might be
        // needed.
        let is_out = |it: &Server| host.lost.is_none_or(|lost| !it.learners().contains(&lost.0));
        let knows = |server: &Server| {
            self.has_vote(id, server)
                && is_out(server)
                && !witness.may_change_membership(server.status())
        };
        self.iter().all(|host| host.server.as_ref().is_some_and(knows))
    }

    /// Whether a member runs and is a voter, and there are as many voters as servers, as some
    /// member other than `lost` knows. What only `lost` knows is lost with it.
    fn has_its_place(&self, member: usize, lost: usize) -> bool {
        let Some(server) = &self[member].server else { return false };
        let id = server.hello().member;
        let others = self.iter().enumerate().filter(|(at, _)| *at != lost);
        let mut others = others.filter_map(|(_, host)| host.server.as_ref());
        others.any(|server| self.has_vote(id, server))
    }

    /// Whether a member is a voter, and there are as many voters as servers, in the view of
    /// `known_to`.
    fn has_vote(&self, id: MemberId, known_to: &Server) -> bool {
        let voters = known_to.voters();
        voters.len() == self.len() && voters.contains(&id.0)
    }

    // Deceit.

    /// Whether some member deceives the others.
    pub fn is_any_deceiving(&self) -> bool {
        self.iter().any(|host| host.deceives.is_some())
    }

    /// Whether a running member has a wrong state.
    pub fn is_any_wrong(&self) -> bool {
        self.servers().any(Server::is_wrong)
    }

    /// Whether a member that deceived the others no longer does: its directory was replaced, or its
    /// state is right again, or it has recovered all entries that it forgot and has been running
    /// for [`HONEST_US_MIN`].
    pub fn is_honest(&self, member: usize, witness: &Witness, now_us: u64) -> bool {
        let host = &self[member];
        match (&host.server, host.deceives) {
            (Some(server), Some(deceives)) if Some(server.hello().member) == host.lost => {
                match deceives {
                    Deceives::Differs => !server.is_wrong(),
                    Deceives::Forgot { index } => {
                        server.is_ready()
                            && server.machine().index().0 >= index
                            && now_us >= server.started_us() + HONEST_US_MIN
                    }
                }
            }
            _ => self.is_replaced(member, witness),
        }
    }

    /// Checks that a difference between digests has a reason: a state that the simulation made
    /// wrong.
    pub fn check_difference(&self, difference: Difference) -> Result<(), String> {
        let is_wrong = |id: MemberId| {
            let is_it =
                |host: &Host| host.lost == Some(id) && host.deceives == Some(Deceives::Differs);
            self.iter().any(is_it)
        };
        match difference {
            Difference::Outside { member, .. } if is_wrong(member) => Ok(()),
            _ => Err(format!("states differ: {difference:?}")),
        }
    }

    /// Checks that all servers have this level, in their state and in Loop.
    pub fn check_levels(&self, level: Level) -> Result<(), String> {
        let levels: Vec<(Level, Level)> = self.servers().map(Server::levels).collect();
        match levels.iter().all(|of_one| *of_one == (level, level)) {
            true => Ok(()),
            false => Err(format!("the level is {level}, and servers have {levels:?}")),
        }
    }
}

/// The ensemble's server records. They have no ZooKeeper address, since that would create a znode
/// that the judges do not expect.
fn server_list(count: u64) -> ServerList {
    let server = |number: u64| ServerRecord {
        name: format!("server {number}"),
        role: ServerRole::Voter,
        peer_urls: vec![format!("http://server{number}:2888")],
        client_urls: Vec::new(),
        zk: None,
    };
    ServerList { version: 0, servers: (1..=count).map(|number| (number, server(number))).collect() }
}

/// Creates the machines of all members. The first machine gets `disk`.
pub(super) fn machines(options: &Options, disk: SimDisk, mut random: Random) -> Vec<Host> {
    if options.host_count() == 1 {
        return vec![Host::new(options.member.clone(), disk, Clock::default())];
    }
    let draw_secret = |random: &mut Random| {
        let mut secret = [0; 32];
        secret.fill_with(|| random.bits() as u8);
        secret
    };
    let mut secrets: Vec<[u8; 32]> =
        (0..options.member_count).map(|_| draw_secret(&mut random)).collect();
    secrets.sort_unstable_by_key(|secret| draw_ids(secret).1);
    let begin_count = options.member_count;
    let ensemble: Vec<u64> = secrets.iter().map(|secret| draw_ids(secret).1.0).collect();
    let mut disks = vec![disk];
    disks.resize_with(options.member_count, || SimDisk::new(random.bits(), options.syncs_lie));
    let birth = Birth { cluster_id: 1, voters: ensemble };
    for _ in begin_count..options.host_count() {
        secrets.push(draw_secret(&mut random));
        disks.push(SimDisk::new(random.bits(), options.syncs_lie));
    }
    let mut machines = Vec::new();
    for (number, disk) in disks.into_iter().enumerate() {
        let clock = Clock {
            fast_ppm: random.below(2 * CLOCK_PPM_MAX + 1) as i64 - CLOCK_PPM_MAX as i64,
            wall_offset_ms: random.magnitude(1, 10_000) as i64 - 100,
            monotonic_offset_us: 0,
        };
        let secret = secrets[number];
        let servers: Vec<u64> = (1..=begin_count as u64).collect();
        let is_first = number < begin_count;
        let standing = if is_first { Standing::Begun } else { Standing::Spare };
        let place = Place::new(standing, servers.iter().copied().collect());
        let birth = (!options.begins_unborn && is_first).then(|| birth.clone());
        let config = MemberConfig { number, servers, birth, secret, ..options.member.clone() };
        let mut host = Host::new(config, disk, clock);
        host.config.options.order.server = number as u64 + 1;
        host.config.options.order.servers = server_list(options.member_count as u64);
        host.place = place;
        machines.push(host);
    }
    machines
}
