//! Records the memberships and the lists of servers of a run in which members change, and judges
//! them: which votes a commit needs, and that the list is one sequence, equal on all members.

use std::collections::{BTreeMap, BTreeSet};

use machine::control::list_change::ChangeRequest;
use machine::{Changes, Command, Level, Machine, MemberId, ServerRecord, ServerRole, Stamp};
use member::membership::bootstrap::absent_server;
use storage::wal::Membership;

/// A server of the list: its id, its role and the URLs where other servers reach it. Its name and
/// the clients' URLs may change without a new version of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The id that etcd's clients see.
    pub id: u64,
    /// Its role.
    pub role: ServerRole,
    /// The URLs for other servers.
    pub peer_urls: Vec<String>,
}

/// The servers of a list, by number.
pub type List = BTreeMap<u64, Listed>;

/// The memberships and lists of a run.
#[derive(Default)]
pub struct MembersSeen {
    /// Whether members change in the run. If not, nothing is judged here.
    pub is_watched: bool,
    /// The indexes at which some member's log had a change of the membership.
    pub changed_at: BTreeSet<u64>,
    /// The entries, by index and term, that a second member has had.
    pub copied: BTreeSet<(u64, u64)>,
    /// The number of the machine of each directory, by member id.
    machines: BTreeMap<MemberId, usize>,
    /// The memberships, by the first entry at which each is active.
    memberships: BTreeMap<u64, Membership>,
    /// The members that voted for a candidate, by term and candidate.
    votes: BTreeMap<(u64, u64), BTreeSet<u64>>,
    /// The terms whose leader was checked.
    judged_terms: BTreeSet<u64>,
    /// The lists of servers that a change has made, by version.
    lists: BTreeMap<u64, List>,
    /// The servers without a vote that each such list leaves beside it, by number.
    guests: BTreeMap<u64, BTreeSet<u64>>,
    /// The ids that the server of each number had, from level 5 on, in the order in which they were
    /// seen. A server that is removed and listed again gets another id.
    server_ids: BTreeMap<u64, Vec<u64>>,
    /// The changes that operators asked for as ZooKeeper's clients do, by the requests' numbers.
    asked: BTreeMap<u16, ChangeRequest>,
}

impl MembersSeen {
    /// A record without memberships and lists. `is_watched` says whether members change.
    pub fn new(is_watched: bool) -> MembersSeen {
        MembersSeen { is_watched, ..MembersSeen::default() }
    }

    /// A process starts on the machine with this number, on the directory of this member.
    pub fn on_life(&mut self, member: MemberId, machine: usize) {
        self.machines.insert(member, machine);
    }

    /// The first id of the server with this number; 0 if no state had it.
    pub fn id_of(&self, number: u64) -> u64 {
        self.server_ids.get(&number).and_then(|ids| ids.first()).copied().unwrap_or(0)
    }

    /// An operator asks for a change as ZooKeeper's clients do.
    pub fn on_asked(&mut self, request: &ChangeRequest) {
        self.asked.insert(request.learners_max, request.clone());
    }

    /// Whether an operator has asked for this change.
    pub fn was_asked(&self, request: &ChangeRequest) -> bool {
        self.asked.get(&request.learners_max) == Some(request)
    }

    /// The servers without a vote beside the list of this version.
    pub fn guests(&self, version: u64) -> BTreeSet<u64> {
        self.guests.get(&version).cloned().unwrap_or_default()
    }

    /// The number of the machine of a directory.
    pub fn machine_of(&self, member: u64) -> Option<usize> {
        self.machines.get(&MemberId(member)).copied()
    }

    /// Whether clients may have seen a member under this id.
    pub fn is_shown_as(&self, member: MemberId, id: u64) -> bool {
        let machine = self.machines.get(&member).map(|machine| *machine as u64 + 1);
        let server_ids = machine.and_then(|number| self.server_ids.get(&number));
        member.0 == id || server_ids.is_some_and(|ids| ids.contains(&id))
    }

    /// A member is about to write its vote for a candidate in a term.
    pub fn on_vote(&mut self, voter: MemberId, term: u64, candidate: u64) {
        if self.is_watched && candidate != 0 {
            self.votes.entry((term, candidate)).or_default().insert(voter.0);
        }
    }

    /// Checks that a leader has the votes of a quorum of its membership. `known` are the
    /// memberships of its log. The last one may be of this very turn, so the one before will do.
    ///
    /// # Errors
    /// It has not.
    pub fn check_votes<'m>(
        &mut self,
        (leader, term): (MemberId, u64),
        known: impl DoubleEndedIterator<Item = (u64, &'m Membership)>,
    ) -> Result<(), String> {
        if !self.is_watched || !self.judged_terms.insert(term) {
            return Ok(());
        }
        let votes = self.votes.get(&(term, leader.0)).cloned().unwrap_or_default();
        let is_quorum = |voters: &[u64]| {
            let has_voted = |voter: &&u64| votes.contains(voter);
            voters.is_empty() || voters.iter().filter(has_voted).count() > voters.len() / 2
        };
        let mut last = known.rev().take(2).map(|(_, membership)| membership);
        let is_elected = |it: &Membership| {
            is_quorum(&it.voters) && is_quorum(&it.voters_outgoing) && !it.voters.is_empty()
        };
        match last.any(is_elected) {
            true => Ok(()),
            false => Err(format!(
                "member {} leads in term {term} with the votes of {votes:?}, which are no quorum \
                 of its membership",
                leader.0
            )),
        }
    }

    /// Notes the memberships that a member's Loop knows.
    ///
    /// # Errors
    /// Another member has another membership at the same entry.
    pub fn on_memberships<'m>(
        &mut self,
        known: impl Iterator<Item = (u64, &'m Membership)>,
    ) -> Result<(), String> {
        if !self.is_watched {
            return Ok(());
        }
        for (from, membership) in known {
            let found = self.memberships.entry(from).or_insert_with(|| membership.clone());
            if found.voters != membership.voters
                || found.voters_outgoing != membership.voters_outgoing
            {
                return Err(format!(
                    "two memberships begin at entry {from}: {found:?} and {membership:?}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that the machines that have an entry durably are a quorum of the membership at that
    /// entry, or of the one before: the last change of the membership before the entry may have
    /// been committed together with it.
    ///
    /// # Errors
    /// They are not.
    pub fn check_quorum(&self, index: u64, synced: &BTreeSet<usize>) -> Result<(), String> {
        let mut before = self.memberships.range(..=index).rev().map(|(_, membership)| membership);
        let has_it = |voter: &&u64| self.machine_of(**voter).is_some_and(|it| synced.contains(&it));
        let is_quorum = |voters: &[u64]| {
            voters.is_empty() || voters.iter().filter(has_it).count() > voters.len() / 2
        };
        let is_enough = |it: &Membership| is_quorum(&it.voters) && is_quorum(&it.voters_outgoing);
        let (last, previous) = (before.next(), before.next());
        match last.into_iter().chain(previous).any(is_enough) {
            true => Ok(()),
            false => Err(format!(
                "entry {index} is applied, and on the disks of {synced:?} only, no quorum of \
                 {last:?} or {previous:?}"
            )),
        }
    }

    /// Notes the list of a member's state. Checks that each version of the list has one content,
    /// and that a server keeps its id.
    ///
    /// # Errors
    /// Two members differ, or a server has another id than before.
    pub fn on_state(&mut self, machine: &Machine) -> Result<(), String> {
        let servers = machine.control().servers();
        if !self.is_watched || machine.control().level().level < Level::MEMBERS {
            return Ok(());
        }
        self.check_retired(machine)?;
        for number in servers.list().servers.keys() {
            let id = servers.id_of(*number).map_or(0, |id| id.0);
            let known = self.server_ids.entry(*number).or_default();
            if !known.contains(&id) {
                known.push(id);
            }
            if id == 0 || (known.first() != Some(&id) && !servers.is_managed()) {
                return Err(format!("server {number} has the ids {known:x?}"));
            }
        }
        if !servers.is_managed() {
            return Ok(());
        }
        let version = servers.list().version;
        if self.lists.contains_key(&version) {
            // Equal states at equal entries are checked elsewhere.
            return Ok(());
        }
        let mut list = List::new();
        for (number, record) in &servers.list().servers {
            let id = servers.id_of(*number).map_or(0, |id| id.0);
            let (role, peer_urls) = (record.role, record.peer_urls.clone());
            list.insert(*number, Listed { id, role, peer_urls });
        }
        self.check_finished(machine.index().0, &list)?;
        self.lists.insert(version, list);
        let numbers = servers.to_reach().into_keys();
        let guests = numbers.filter(|number| servers.is_guest(*number)).collect();
        self.guests.insert(version, guests);
        Ok(())
    }

    /// Checks that no retired member has a vote, or is registered. It may become a learner, if its
    /// addition was proposed before.
    fn check_retired(&self, machine: &Machine) -> Result<(), String> {
        let servers = machine.control().servers();
        let membership = self.memberships.range(..=machine.index().0).next_back();
        let has_vote = |id: &MemberId| {
            membership.is_some_and(|(_, it)| {
                let mut members = it.voters.iter().chain(&it.voters_outgoing);
                members.any(|member| *member == id.0)
            })
        };
        let mut retired = servers.retired();
        match retired.find(|id| has_vote(id) || servers.number_of(*id).is_some()) {
            None => Ok(()),
            Some(id) => Err(format!(
                "member {} is retired, and votes or is registered at entry {}",
                id.0,
                machine.index().0
            )),
        }
    }

    /// Checks the membership at the entry that finishes a change: every voter belongs to a voter of
    /// the list. It may be joint, if a new server gets its vote at this moment.
    fn check_finished(&self, index: u64, list: &List) -> Result<(), String> {
        let Some((_, membership)) = self.memberships.range(..=index).next_back() else {
            return Ok(());
        };
        let is_listed = |voter: &u64| {
            let known = || self.machine_of(*voter).map(|machine| machine as u64 + 1);
            let number = absent_server(*voter).or_else(known);
            let listed = number.and_then(|number| list.get(&number));
            listed.is_some_and(|listed| listed.role == ServerRole::Voter)
        };
        let mut counted = membership.voters.iter().chain(&membership.voters_outgoing);
        match counted.all(is_listed) {
            true => Ok(()),
            false => Err(format!(
                "a change finishes at entry {index} with the membership {membership:?} and the \
                 list {list:?}"
            )),
        }
    }

    /// Checks that a voter that leaves is made a learner first. Only a placeholder is removed at
    /// once, and a voter whose place a new voter takes.
    ///
    /// # Errors
    /// Voters were removed.
    pub fn check_demotions(&self) -> Result<(), String> {
        let mut before: Option<&Membership> = None;
        for (from, next) in &self.memberships {
            let Some(last) = before.replace(next) else { continue };
            let is_left = |id: &&u64| {
                let mut all = next.voters.iter().chain(&next.voters_outgoing).chain(&next.learners);
                !all.any(|other| other == *id) && absent_server(**id).is_none()
            };
            let old =
                if last.voters_outgoing.is_empty() { &last.voters } else { &last.voters_outgoing };
            let left = old.iter().filter(is_left).count();
            let gained = last.voters.iter().chain(&next.voters).filter(|id| !old.contains(id));
            if left > gained.collect::<BTreeSet<_>>().len() {
                return Err(format!(
                    "voters are removed and not made learners first, at entry {from}: {last:?}, \
                     {next:?}"
                ));
            }
        }
        Ok(())
    }

    /// The first entry of the newest membership, and the members that get a vote by it; `None` if
    /// none does.
    pub fn newest_voters(&self) -> Option<(u64, Vec<MemberId>)> {
        let mut newest = self.memberships.iter().rev();
        let ((from, last), (_, before)) = (newest.next()?, newest.next()?);
        let is_new = |id: &&u64| {
            !before.voters.contains(id)
                && !before.voters_outgoing.contains(id)
                && !last.voters_outgoing.contains(id)
        };
        let new: Vec<MemberId> =
            last.voters.iter().filter(is_new).map(|id| MemberId(*id)).collect();
        (!new.is_empty()).then_some((*from, new))
    }

    /// The newest list that a change has made, with its version; `None` if none has.
    pub fn newest_list(&self) -> Option<(u64, &List)> {
        self.lists.last_key_value().map(|(version, list)| (*version, list))
    }

    /// All lists that changes have made, by version.
    pub fn lists(&self) -> &BTreeMap<u64, List> {
        &self.lists
    }
}

/// Follows the list of servers and the ids of members in the committed order, as clients see them.
/// It keeps a copy of the machine.
pub(super) struct Shown {
    /// `None` if members do not change: then clients see the members' own ids.
    machine: Option<Machine>,
}

impl Shown {
    /// What is shown before the first command.
    pub fn new(members: &MembersSeen) -> Shown {
        Shown { machine: members.is_watched.then(Machine::default) }
    }

    /// Whether a member is registered.
    pub fn is_registered(&self, member: MemberId) -> bool {
        let number = |machine: &Machine| machine.control().servers().number_of(member);
        self.machine.as_ref().is_some_and(|machine| number(machine).is_some())
    }

    /// Whether a member's server is to vote, or the state does not say.
    pub fn is_to_vote(&self, member: MemberId) -> bool {
        let Some(machine) = &self.machine else { return true };
        let servers = machine.control().servers();
        let record =
            servers.number_of(member).map(|number| servers.list_to_follow().servers.get(&number));
        let votes = |it: Option<&ServerRecord>| it.is_some_and(|it| it.role == ServerRole::Voter);
        !servers.is_decided() || record.is_none_or(votes)
    }

    /// The list that ZooKeeper's clients see, without the line of its version; `None` if they see
    /// none.
    pub fn list(&self) -> Option<String> {
        let text = self.machine.as_ref()?.control().servers().list().zk_text()?;
        let end = text.rfind("version=").unwrap_or(text.len());
        Some(text[..end].to_string())
    }

    /// Takes the next command. Returns the id of the member that handed it over.
    pub fn next(&mut self, stamp: &Stamp<'_>, command: &Command<'_>) -> u64 {
        let Some(machine) = &mut self.machine else { return stamp.origin.member.0 };
        let id = machine.control().etcd_id_of(stamp.origin.member);
        machine.apply(stamp, command, &mut Changes::default());
        id
    }
}
