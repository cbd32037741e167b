//! Judges the changes of the list of servers by the committed order: which list each change leads
//! to, and that each call of a client is answered as its change ended.

use std::collections::{BTreeMap, BTreeSet};

use machine::control::list_change::{
    Asker, ChangeId, ChangeRequest, JoiningServer, LeaderRefused, ListChange,
};
use machine::{Command, ControlCommand, MemberId, ServerRole, Stamp};
use workload::etcd::history::CallId;

use super::members::{List, Listed, MembersSeen, Shown};
use crate::etcd_clients::changer::{Asked, Came, ChangeCall};
use crate::member_changes::ChangeCounts;

/// How a change of the list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The next list is the list.
    Finished,
    /// The leader refused it.
    Refused(LeaderRefused),
    /// The leader gave it up.
    GivenUp,
}

/// Follows the changes of the list through the commands of the log.
#[derive(Default)]
pub struct ChangeLog {
    /// The accepted change that is open.
    accepted: Option<ChangeId>,
    /// The numbers of the changes that have ended.
    ended: BTreeSet<u64>,
}

impl ChangeLog {
    /// Takes the next command. Returns the change that it ends, with the way it ends; `None` if it
    /// ends none. A change whose request was refused is never accepted, so it needs no record.
    pub fn on_command(&mut self, command: &Command<'_>) -> Option<(ChangeId, Ended)> {
        let Command::Control(command) = command else { return None };
        let (id, ended) = match command {
            ControlCommand::Accept(id) => {
                if !self.ended.contains(&id.0) {
                    self.accepted = Some(*id);
                }
                return None;
            }
            ControlCommand::Refuse { change, reason } if self.accepted != Some(*change) => {
                (*change, Ended::Refused(*reason))
            }
            ControlCommand::GiveUp(id) => (*id, Ended::GivenUp),
            ControlCommand::Finish(id) if self.accepted == Some(*id) => (*id, Ended::Finished),
            _ => return None,
        };
        if !self.ended.insert(id.0) {
            return None;
        }
        self.accepted = self.accepted.filter(|accepted| *accepted != id);
        Some((id, ended))
    }
}

/// A request in the log.
struct Requested {
    /// The call of a client of etcd; `None` if an operator asked as ZooKeeper's clients do.
    call: Option<CallId>,
    change: ListChange,
    /// Whether removed servers serve on.
    stays: bool,
    /// The number of the server that led when the change was accepted.
    leader: Option<u64>,
    /// How the change ended, and when the entry that ended it was first handed over, in us.
    ended: Option<(Ended, u64)>,
}

/// The list of servers, replayed from the log.
#[derive(Default)]
struct Replay {
    list: List,
    /// The highest number that a server ever had.
    number_max: u64,
    requests: BTreeMap<u64, Requested>,
    /// The list behind each finished change, in order.
    lists: Vec<List>,
    /// All ids that servers had.
    used_ids: BTreeSet<u64>,
    counts: ChangeCounts,
}

/// Judges the changes of the list while the commands of the log are replayed, in order.
pub(super) struct ChangeJudge<'c> {
    /// All calls that asked for a change.
    calls: BTreeMap<CallId, &'c ChangeCall>,
    log: ChangeLog,
    replay: Replay,
    /// The numbers of the operators' requests so far.
    logged: BTreeSet<u16>,
    /// The state of the list so far.
    shown: Shown,
    /// The members that left without a vote: they must never come back under their ids.
    gone: BTreeSet<MemberId>,
    /// The number of commands so far.
    ordinal: u64,
}

impl<'c> ChangeJudge<'c> {
    /// The judge of these calls, before the first command.
    pub fn new(
        calls: impl Iterator<Item = &'c ChangeCall>,
        members: &MembersSeen,
    ) -> ChangeJudge<'c> {
        let calls = calls.map(|call| (call.id, call)).collect();
        let (log, replay, logged) = (ChangeLog::default(), Replay::default(), BTreeSet::new());
        let (shown, gone) = (Shown::new(members), BTreeSet::new());
        ChangeJudge { calls, log, replay, logged, shown, gone, ordinal: 0 }
    }

    /// Takes the next command. `leader` is the number of the server that led in the entry's term,
    /// and `handed_us` says when the entry was first handed over. `call` returns the call that the
    /// command belongs to.
    ///
    /// # Errors
    /// The command is not what its call asked for, or ends a change that nobody requested.
    pub fn on_command(
        &mut self,
        command: &Command<'_>,
        (leader, handed_us): (Option<u64>, u64),
        (members, stamp): (&MembersSeen, &Stamp<'_>),
        call: impl FnOnce() -> Result<CallId, String>,
    ) -> Result<(), String> {
        self.ordinal += 1;
        self.check_gone(command, stamp)?;
        match command {
            Command::Control(ControlCommand::SetServers(list)) if self.replay.lists.is_empty() => {
                let listed = |(number, record): (&u64, &machine::ServerRecord)| {
                    let (role, peer_urls) = (record.role, record.peer_urls.clone());
                    (*number, Listed { id: members.id_of(*number), role, peer_urls })
                };
                self.replay.set(list.servers.iter().map(listed).collect());
            }
            Command::Control(ControlCommand::Request(request)) => {
                let change = request.change.clone();
                let call = match request.by {
                    Asker::Operator => {
                        self.check_operator(request, members)?;
                        None
                    }
                    Asker::Etcd | Asker::Zk(_) => {
                        let call = call()?;
                        self.check_call(call, &change)?;
                        Some(call)
                    }
                };
                let stays = request.flags.stay;
                let requested = Requested { call, change, stays, leader: None, ended: None };
                self.replay.requests.insert(self.ordinal, requested);
            }
            Command::Control(ControlCommand::Accept(id)) => {
                let requested = self.replay.requests.get_mut(&id.0);
                requested.into_iter().for_each(|it| it.leader = leader);
            }
            _ => {}
        }
        match self.log.on_command(command) {
            Some((id, ended)) => self.replay.end(id, (ended, handed_us), members),
            None => Ok(()),
        }
    }

    /// Checks that no member that left without a vote is registered again.
    fn check_gone(&mut self, command: &Command<'_>, stamp: &Stamp<'_>) -> Result<(), String> {
        if let Command::Control(ControlCommand::Forget { member } | ControlCommand::Retire(member)) =
            command
            && self.shown.is_registered(*member)
            && !self.shown.is_to_vote(*member)
        {
            self.gone.insert(*member);
        }
        self.shown.next(stamp, command);
        match command {
            Command::Control(ControlCommand::Register { member, .. })
                if self.gone.contains(member) && self.shown.is_registered(*member) =>
            {
                Err(format!("member {} left without a vote, and is registered again", member.0))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a client's call asked for this change.
    fn check_call(&self, call: CallId, change: &ListChange) -> Result<(), String> {
        let asked = self.calls.get(&call).map(|call| &call.asked);
        match asked.is_some_and(|asked| is_asked_for(asked, change)) {
            true => Ok(()),
            false => Err(format!("{change:?} is logged for {call:?}, which is {asked:?}")),
        }
    }

    /// Checks that an operator asked for this change, and that it is logged for the first time.
    fn check_operator(
        &mut self,
        request: &ChangeRequest,
        members: &MembersSeen,
    ) -> Result<(), String> {
        match members.was_asked(request) && self.logged.insert(request.learners_max) {
            true => Ok(()),
            false => Err(format!("{request:?} is logged twice, or nobody asked for it")),
        }
    }

    /// Judges the lists and the answers, once all commands were taken.
    ///
    /// # Errors
    /// A list is not what the changes lead to, or a call was answered otherwise than its change
    /// ended.
    pub fn finish(self, members: &MembersSeen) -> Result<ChangeCounts, String> {
        self.replay.check_lists(members)?;
        self.calls.values().try_for_each(|call| self.replay.check_answer(call))?;
        Ok(ChangeCounts { runs: 1, ..self.replay.counts })
    }
}

impl Replay {
    fn set(&mut self, list: List) {
        let highest = list.last_key_value().map_or(0, |(number, _)| *number);
        self.number_max = self.number_max.max(highest);
        self.used_ids.extend(list.values().map(|it| it.id));
        self.list = list;
    }

    fn end(
        &mut self,
        id: ChangeId,
        (ended, at_us): (Ended, u64),
        members: &MembersSeen,
    ) -> Result<(), String> {
        let unknown = || format!("nobody requested change {id:?}, which ended");
        let requested = self.requests.get_mut(&id.0).ok_or_else(unknown)?;
        requested.ended = Some((ended, at_us));
        let (change, leader, stays) = (requested.change.clone(), requested.leader, requested.stays);
        match ended {
            Ended::Finished => self.apply(&change, (leader, stays), members)?,
            Ended::Refused(LeaderRefused::NoQuorum) => self.counts.refused_no_quorum += 1,
            Ended::Refused(_) => self.counts.refused_otherwise += 1,
            Ended::GivenUp => self.counts.given_up += 1,
        }
        Ok(())
    }

    /// Applies a finished change to the list.
    ///
    /// # Errors
    /// A new server has an id that another one had.
    fn apply(
        &mut self,
        change: &ListChange,
        (leader, stays): (Option<u64>, bool),
        members: &MembersSeen,
    ) -> Result<(), String> {
        let mut list = self.list.clone();
        let known: Vec<(u64, u64)> = list.iter().map(|(number, it)| (*number, it.id)).collect();
        let number_of = |id: u64| known.iter().find(|(_, of)| *of == id).map(|(number, _)| *number);
        match change {
            ListChange::Add { peer_urls, role } => {
                let number = self.number_max + 1;
                let (id, peer_urls) = (members.id_of(number), peer_urls.clone());
                list.insert(number, Listed { id, role: *role, peer_urls });
                let is_voter = *role == ServerRole::Voter;
                self.counts.added += usize::from(is_voter);
                self.counts.added_learners += usize::from(!is_voter);
            }
            ListChange::Remove(id) => {
                let removed = number_of(id.0);
                removed.map(|number| list.remove(&number));
                self.counts.removed += 1;
                self.counts.removed_leaders += usize::from(removed == leader);
            }
            ListChange::Update { server, peer_urls } => {
                let updated = number_of(server.0).and_then(|number| list.get_mut(&number));
                updated.into_iter().for_each(|it| it.peer_urls = peer_urls.clone());
                self.counts.updated += 1;
            }
            ListChange::Promote(id) => {
                let promoted = number_of(id.0).and_then(|number| list.get_mut(&number));
                promoted.into_iter().for_each(|it| it.role = ServerRole::Voter);
                self.counts.promoted += 1;
            }
            ListChange::Incremental { leaving, joining } => {
                leaving.iter().for_each(|number| _ = list.remove(number));
                for (number, server) in joining {
                    list.insert(*number, self.joined(*number, server, members)?);
                }
                self.count_reconfig(&list, stays);
            }
            ListChange::Whole(all) => {
                list.clear();
                for (number, server) in all {
                    list.insert(*number, self.joined(*number, server, members)?);
                }
                self.count_reconfig(&list, stays);
            }
            ListChange::Malformed => {}
        }
        self.set(list.clone());
        self.lists.push(list);
        Ok(())
    }

    /// The record of a server that a reconfig names. A server that was not in the list before has a
    /// new id.
    fn joined(
        &self,
        number: u64,
        server: &JoiningServer,
        members: &MembersSeen,
    ) -> Result<Listed, String> {
        let seen = members.lists().values().nth(self.lists.len());
        let seen = seen.and_then(|list| list.get(&number)).map_or(0, |it| it.id);
        let id = self.list.get(&number).map_or(seen, |it| it.id);
        if !self.list.contains_key(&number) && self.used_ids.contains(&id) {
            return Err(format!(
                "the new server {number} has the id {id:x}, which another one had"
            ));
        }
        let [host, peer, _] = server.zk.parts();
        let peer_urls = vec![format!("http://{host}:{peer}")];
        Ok(Listed { id, role: server.role, peer_urls })
    }

    fn count_reconfig(&mut self, next: &List, stays: bool) {
        self.counts.reconfigs += 1;
        let is_observer = |listed: &Listed| listed.role == ServerRole::Observer;
        let new = next.iter().filter(|(number, it)| {
            is_observer(it) && !self.list.get(number).is_some_and(is_observer)
        });
        self.counts.observers += new.count();
        let left = self.list.keys().filter(|number| !next.contains_key(number)).count();
        self.counts.guests += if stays { left } else { 0 };
    }

    /// Checks that the lists that members showed are those of the finished changes, in order.
    fn check_lists(&self, members: &MembersSeen) -> Result<(), String> {
        for (position, (version, seen)) in members.lists().iter().enumerate() {
            let expected = self.lists.get(position);
            if expected != Some(seen) {
                return Err(format!(
                    "the list of version {version:x} is {seen:?}, and the changes lead to \
                     {expected:?}"
                ));
            }
        }
        Ok(())
    }

    fn check_answer(&self, call: &ChangeCall) -> Result<(), String> {
        let its = self.requests.values().filter(|requested| requested.call == Some(call.id));
        let finished = its.filter_map(|requested| match requested.ended {
            Some((Ended::Finished, at_us)) => Some(at_us),
            _ => None,
        });
        let finished: Vec<u64> = finished.collect();
        let what = match (call.came, &finished[..]) {
            (_, [_, _, ..]) => "made several changes",
            (Some((_, Came::Done)), []) => "is answered as done, and its change never finished",
            (Some((came_us, Came::Done)), [at_us]) if *at_us > came_us => {
                "is answered before its change has finished"
            }
            (Some((_, Came::Refused(_))), [_]) => "is refused, and its change finished",
            _ => return Ok(()),
        };
        Err(format!("a call {what}: {call:?}, finished at {finished:?} us"))
    }
}

/// Whether a change in the log is what a call asks for.
fn is_asked_for(asked: &Asked, change: &ListChange) -> bool {
    let is_one = |url: &String, urls: &[String]| urls == core::slice::from_ref(url);
    match (asked, change) {
        (Asked::Add { url, is_learner }, ListChange::Add { peer_urls, role }) => {
            is_one(url, peer_urls) && *is_learner == (*role == ServerRole::Learner)
        }
        (Asked::Remove(id), ListChange::Remove(server))
        | (Asked::Promote(id), ListChange::Promote(server)) => *id == server.0,
        (Asked::Update(id, url), ListChange::Update { server, peer_urls }) => {
            *id == server.0 && is_one(url, peer_urls)
        }
        _ => false,
    }
}
