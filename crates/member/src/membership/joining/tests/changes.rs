//! Scripts of changes of the list: a leader's steps, taken one after the other on a model of the
//! Raft membership, with the real state. Each script is the full list of steps.

use std::collections::{BTreeMap, BTreeSet};

use machine::control::list_change::{
    Asker, ChangeFlags, ChangeRequest, JoiningServer, LeaderRefused, ListChange,
};
use machine::reply::{ControlOutcome, Outcome};
use machine::{
    BootId, Changes, ConnectionId, ControlChange, Machine, Origin, ServerId, ServerList,
    ServerRecord, ServerRole, SessionId, Stamp, ZkAddresses, ZkCommand,
};

use super::*;
use crate::membership::limits::CHANGE_PATIENCE_MS;
use crate::order::limits::REPLACED_SILENCE_MS;

/// The member of a server, unless the server has lost its directory.
fn member_of(number: u64) -> u64 {
    10 + number
}

fn addresses(number: u64) -> ZkAddresses {
    ZkAddresses { servers: format!("s{number}:2888:3888"), clients: None }
}

fn record(number: u64, role: ServerRole) -> ServerRecord {
    ServerRecord {
        name: String::new(),
        role,
        peer_urls: vec![format!("http://s{number}:2888")],
        client_urls: Vec::new(),
        zk: Some(addresses(number)),
    }
}

/// An ensemble at level 5: the state, the votes, and who is present.
struct Ensemble {
    machine: Machine,
    membership: Membership,
    leader: u64,
    joining: Joining,
    /// The members that have a link to the leader, with their server's number. The leader itself
    /// may be among them.
    present: BTreeMap<u64, u64>,
    /// Members that lack most of the log.
    behind: BTreeSet<u64>,
    takes_guests: bool,
    now_ms: u64,
    ended: Vec<Result<(), LeaderRefused>>,
}

impl Ensemble {
    /// The servers 1 to `count`, all present; 1 leads.
    fn new(count: u64) -> Ensemble {
        let all = 1..=count;
        let mut ensemble = Ensemble {
            machine: Machine::default(),
            membership: Membership::from_voters(all.clone().map(member_of)),
            leader: member_of(1),
            joining: Joining::default(),
            present: all.clone().map(|number| (member_of(number), number)).collect(),
            behind: BTreeSet::new(),
            takes_guests: false,
            now_ms: 10_000,
            ended: Vec::new(),
        };
        let voters = all.map(|number| (number, record(number, ServerRole::Voter)));
        let list = ServerList { version: 0, servers: voters.collect() };
        ensemble.apply(&Command::Control(ControlCommand::SetServers(list)));
        ensemble.apply(&Command::Control(ControlCommand::Raise(Level::MEMBERS.into())));
        let settings = machine::zk::settings::Settings {
            reconfig_enabled: true,
            standalone_enabled: false,
            skip_acl: true,
            ..Default::default()
        };
        ensemble.apply(&Command::Zk(ZkCommand::Configure(settings)));
        ensemble.run();
        ensemble
    }

    fn apply(&mut self, command: &Command<'_>) -> Outcome {
        let origin = Origin { member: MemberId(self.leader), boot: BootId(1) };
        let stamp = Stamp { time_ms: 1, origin, connection: ConnectionId(1), identities: &[] };
        let mut changes = Changes::default();
        let reply = self.machine.apply(&stamp, command, &mut changes);
        for change in changes.control.iter() {
            match change {
                ControlChange::Servers(_) => self.joining.on_registered(),
                ControlChange::ListChangeEnded { result, .. } => {
                    self.ended.push(result.map(|_| ()));
                }
                _ => {}
            }
        }
        reply.outcome
    }

    fn servers(&self) -> &machine::Servers {
        self.machine.control().servers()
    }

    fn step(&mut self) -> Option<JoinStep> {
        let own = (MemberId(self.leader), self.present[&self.leader]);
        let mut servers = Servers::new(own, self.servers().clone());
        servers.takes_guests = self.takes_guests;
        let others = self.present.iter().filter(|(member, _)| **member != self.leader);
        for (member, number) in others.clone() {
            let linked = LinkedServer { level_max: Level::MEMBERS, ..LinkedServer::of(*number) };
            servers.on_link(MemberId(*member), Some(linked));
        }
        let known = self.membership.voters.iter().chain(&self.membership.learners);
        let peers: Vec<PeerStatus> = known
            .filter(|member| **member != self.leader)
            .map(|member| {
                let silent_ticks = self.present.contains_key(member).then_some(0);
                let matched = if self.behind.contains(member) { 0 } else { 1_000 };
                peer(*member, silent_ticks, matched)
            })
            .collect();
        self.joining.step(&JoinView {
            servers: &servers,
            membership: &self.membership,
            peers: &peers,
            last_index: 1_000,
            silent_ticks_min: 50,
            level: Level::MEMBERS,
            has_listened: true,
            now_ms: self.now_ms,
            is_changing: false,
            broken: None,
        })
    }

    /// Takes steps until there is none, and returns them for people, without registrations.
    fn run(&mut self) -> Vec<String> {
        let mut steps = Vec::new();
        while let Some(step) = self.step() {
            assert!(steps.len() < 30, "it never ends: {steps:?}");
            match step {
                JoinStep::Submit(command) => {
                    match &command {
                        Command::Control(ControlCommand::Register { .. }) => {}
                        Command::Control(command) => {
                            let shown = format!("{command:?}");
                            let end = shown.find(['(', ' ']).unwrap_or(shown.len());
                            steps.push(shown[..end].to_lowercase());
                        }
                        other => panic!("{other:?}"),
                    }
                    self.apply(&command);
                }
                JoinStep::Change(change) => {
                    steps.push(self.change(&change));
                }
                JoinStep::HandOver(to) => {
                    let to = to.first().expect("it is never empty").0;
                    assert!(self.membership.voters.contains(&to));
                    steps.push(format!("hand over to {}", self.present[&to]));
                    self.leader = to;
                    self.joining = Joining::default();
                }
            }
            self.check();
        }
        steps
    }

    /// Applies a change of the votes as raft-rs does, and returns it for people.
    fn change(&mut self, change: &MembershipChange) -> String {
        let number = |member: u64| match absent_server(member) {
            Some(number) => format!("absent {number}"),
            None if member > 20 => format!("{}'", member - 20),
            None => (member - 10).to_string(),
        };
        let it = &mut self.membership;
        if change.transition == Transition::Leave {
            it.learners.append(&mut it.learners_next);
            it.learners.sort_unstable();
            it.voters_outgoing.clear();
            return "leave".to_string();
        }
        let is_joint = change.transition != Transition::Auto;
        let before = it.voters.clone();
        let mut shown = Vec::new();
        for change in &change.changes {
            let (id, verb) = match change {
                MemberChange::AddVoter(id) => (*id, "vote"),
                MemberChange::AddLearner(id) => (*id, "learn"),
                MemberChange::Remove(id) => (*id, "remove"),
            };
            it.learners.retain(|other| *other != id);
            it.voters.retain(|other| *other != id);
            match change {
                MemberChange::AddVoter(_) => it.voters.push(id),
                MemberChange::AddLearner(_) if before.contains(&id) => it.learners_next.push(id),
                MemberChange::AddLearner(_) => it.learners.push(id),
                MemberChange::Remove(_) => {}
            }
            shown.push(format!("{verb} {}", number(id)));
        }
        it.voters.sort_unstable();
        if change.transition == Transition::JointExplicit {
            it.voters_outgoing = before.clone();
        }
        assert!(is_joint || change.changes.len() == 1, "several changes at once are joint");
        assert!(!it.voters.is_empty());
        shown.join(", ")
    }

    /// Checks that a finished change leaves no vote outside of the list.
    fn check(&self) {
        let registered = self.servers();
        if registered.open_change().is_some() || !registered.is_managed() {
            return;
        }
        for voter in &self.membership.voters {
            let number = absent_server(*voter).or_else(|| registered.number_of(MemberId(*voter)));
            let listed = number.and_then(|number| registered.list().servers.get(&number));
            assert!(listed.is_some_and(|it| it.role == ServerRole::Voter), "{voter} is not listed");
        }
    }

    fn ask(&mut self, by: Asker, change: ListChange, is_strict: bool) {
        let flags = ChangeFlags { is_strict, ..ChangeFlags::default() };
        let request = ChangeRequest { by, version: None, flags, learners_max: 1, change };
        let outcome = self.apply(&Command::Control(ControlCommand::Request(request)));
        let Outcome::Control(ControlOutcome::Requested(Ok(_))) = outcome else {
            panic!("{outcome:?}")
        };
    }

    fn etcd(&mut self, change: ListChange) -> Vec<String> {
        self.ask(Asker::Etcd, change, true);
        self.run()
    }

    fn reconfig(&mut self, leaving: &[u64], joining: &[u64]) -> Vec<String> {
        let role = ServerRole::Voter;
        let joining = joining.iter().map(|it| (*it, JoiningServer { role, zk: addresses(*it) }));
        let (leaving, joining) = (leaving.to_vec(), joining.collect());
        self.ask(Asker::Zk(SessionId(0)), ListChange::Incremental { leaving, joining }, false);
        self.run()
    }

    fn add(&mut self, number: u64) -> Vec<String> {
        let peer_urls = vec![format!("http://s{number}:2888")];
        self.etcd(ListChange::Add { peer_urls, role: ServerRole::Voter })
    }

    fn remove(&mut self, number: u64) -> Vec<String> {
        let id = self.id_of(number);
        self.etcd(ListChange::Remove(id))
    }

    fn id_of(&self, number: u64) -> ServerId {
        self.servers().id_of(number).unwrap()
    }

    fn come(&mut self, number: u64) -> Vec<String> {
        self.present.insert(member_of(number), number);
        self.run()
    }

    fn go(&mut self, number: u64) -> Vec<String> {
        self.present.remove(&member_of(number));
        self.run()
    }

    fn voters(&self) -> Vec<u64> {
        self.membership.voters.iter().map(|voter| voter - 10).collect()
    }
}

const DONE: [&str; 2] = ["accept", "finish"];

#[test]
fn a_server_is_listed_at_once_and_votes_once_it_has_caught_up() {
    let mut ensemble = Ensemble::new(1);
    // The answer does not wait for the new server, whose vote would block the first one.
    assert_eq!(ensemble.add(2), DONE);
    assert_eq!(ensemble.voters(), [1]);
    ensemble.behind.insert(member_of(2));
    assert_eq!(ensemble.come(2), ["learn 2"]);
    ensemble.behind.clear();
    assert_eq!(ensemble.run(), ["vote 2"]);
    assert_eq!(ensemble.add(3), DONE);
    assert_eq!(ensemble.come(3), ["learn 3", "vote 3"]);
    assert_eq!(ensemble.voters(), [1, 2, 3]);
}

#[test]
fn a_removed_server_loses_its_vote_before_the_finish_and_is_retired_once_it_is_gone() {
    let mut ensemble = Ensemble::new(3);
    assert_eq!(ensemble.remove(3), ["accept", "learn 3", "leave", "finish"]);
    assert_eq!(ensemble.voters(), [1, 2]);
    assert_eq!(ensemble.go(3), ["remove 3", "retire"]);
    assert!(ensemble.servers().is_retired(MemberId(member_of(3))));
    assert_eq!(ensemble.remove(2), ["accept", "learn 2", "leave", "finish"]);
    assert_eq!(ensemble.go(2), ["remove 2", "retire"]);
    assert_eq!(ensemble.voters(), [1]);
}

#[test]
fn a_lost_directory_is_replaced_while_an_accepted_change_needs_its_vote() {
    let mut ensemble = Ensemble::new(3);
    ensemble.present.remove(&member_of(2));
    ensemble.present.insert(22, 2);
    ensemble.behind.insert(22);
    assert_eq!(ensemble.run(), ["learn 2'"]);
    assert_eq!(ensemble.remove(1), ["accept"]);
    ensemble.behind.clear();
    let steps = ["vote 2', remove 2", "hand over to 3", "learn 1", "leave", "finish"];
    assert_eq!(ensemble.run(), steps);
}

#[test]
fn a_learner_that_lost_its_directory_leaves_behind_the_new_one() {
    let mut ensemble = Ensemble::new(3);
    let peer_urls = vec!["http://s4:2888".to_string()];
    assert_eq!(ensemble.etcd(ListChange::Add { peer_urls, role: ServerRole::Learner }), DONE);
    assert_eq!(ensemble.come(4), ["learn 4"]);
    // The new directory comes before the old one counts as silent.
    ensemble.present.insert(24, 4);
    assert_eq!(ensemble.run(), ["learn 4'"]);
    assert_eq!(ensemble.go(4), ["remove 4"]);
    ensemble.now_ms += REPLACED_SILENCE_MS;
    assert_eq!(ensemble.run(), ["retire"]);
}

/// A new member makes its links anew once it is born.
#[test]
fn a_learner_without_links_for_a_moment_is_not_retired() {
    let mut ensemble = Ensemble::new(1);
    let peer_urls = vec!["http://s2:2888".to_string()];
    assert_eq!(ensemble.etcd(ListChange::Add { peer_urls, role: ServerRole::Learner }), DONE);
    let member = MemberId(member_of(2));
    ensemble.apply(&Command::Control(ControlCommand::Register { member, server: 2 }));
    assert_eq!(ensemble.run(), Vec::<String>::new(), "it has no links");
    ensemble.now_ms += REPLACED_SILENCE_MS - 1;
    assert_eq!(ensemble.run(), Vec::<String>::new(), "it may still come");
    assert_eq!(ensemble.come(2), ["learn 2"]);
}

/// A new member replays the log from its beginning, through lists that do not have its server yet.
#[test]
fn a_server_that_joins_is_no_removed_one_in_older_lists() {
    let is_removed = |ensemble: &Ensemble, number: u64| {
        let own = (MemberId(member_of(number)), number);
        Servers::new(own, ensemble.servers().clone()).is_own_removed()
    };
    let mut ensemble = Ensemble::new(3);
    ensemble.remove(3);
    assert!(is_removed(&ensemble, 3));
    assert!(!is_removed(&ensemble, 4));
    ensemble.go(3);
    assert!(is_removed(&ensemble, 3), "it is retired");
    assert_eq!(ensemble.add(4), DONE);
    ensemble.come(4);
    assert!(!is_removed(&ensemble, 4));
    ensemble.remove(4);
    assert!(is_removed(&ensemble, 4));
}

#[test]
fn a_leader_that_is_removed_hands_leadership_over_first() {
    let mut ensemble = Ensemble::new(3);
    let steps = ["accept", "hand over to 2", "learn 1", "leave", "finish"];
    assert_eq!(ensemble.remove(1), steps);
    assert_eq!(ensemble.voters(), [2, 3]);
}

#[test]
fn all_servers_are_replaced_in_one_change() {
    let mut ensemble = Ensemble::new(3);
    for number in 4..=6 {
        assert_eq!(ensemble.add(number), DONE);
        ensemble.come(number);
    }
    assert_eq!(ensemble.voters(), [1, 2, 3, 4, 5, 6]);
    let steps = ["accept", "hand over to 4", "learn 1, learn 2, learn 3", "leave", "finish"];
    assert_eq!(ensemble.reconfig(&[1, 2, 3], &[]), steps);
    assert_eq!(ensemble.voters(), [4, 5, 6]);
}

/// ZooKeeper's servers get the data before they are listed.
#[test]
fn all_servers_are_replaced_by_guests_in_one_change() {
    let mut ensemble = Ensemble::new(3);
    assert_eq!(ensemble.come(4), Vec::<String>::new(), "no guest is taken");
    ensemble.takes_guests = true;
    assert_eq!(ensemble.run(), ["admit", "learn 4"]);
    assert_eq!(ensemble.come(5), ["admit", "learn 5"]);
    assert_eq!(ensemble.voters(), [1, 2, 3]);
    // One of three is no majority of the new list.
    assert_eq!(ensemble.reconfig(&[1, 2, 3], &[5, 6, 7]), ["refuse"]);
    let steps = [
        "accept",
        "vote 4, vote 5",
        "leave",
        "hand over to 4",
        "learn 1, learn 2, learn 3",
        "leave",
        "finish",
    ];
    assert_eq!(ensemble.reconfig(&[1, 2, 3], &[4, 5, 6]), steps);
    assert_eq!(ensemble.voters(), [4, 5]);
    assert_eq!(ensemble.come(6), ["learn 6", "vote 6"]);
    assert_eq!(ensemble.voters(), [4, 5, 6]);
}

#[test]
fn a_guest_that_goes_is_gone_for_good() {
    let mut ensemble = Ensemble::new(3);
    ensemble.takes_guests = true;
    assert_eq!(ensemble.come(4), ["admit", "learn 4"]);
    // It makes its links anew.
    assert_eq!(ensemble.go(4), Vec::<String>::new());
    assert_eq!(ensemble.come(4), Vec::<String>::new());
    assert_eq!(ensemble.go(4), Vec::<String>::new());
    ensemble.now_ms += REPLACED_SILENCE_MS;
    assert_eq!(ensemble.run(), ["remove 4", "retire"]);
    assert_eq!(ensemble.come(4), Vec::<String>::new());
    // Its next directory is another member.
    ensemble.present.clear();
    ensemble.present.extend([1, 2, 3].map(|number| (member_of(number), number)));
    ensemble.present.insert(24, 4);
    assert_eq!(ensemble.run(), ["admit", "learn 4'"]);
}

#[test]
fn a_voter_becomes_an_observer_and_a_voter_again() {
    let mut ensemble = Ensemble::new(3);
    let role = |role| {
        let joining = [(3, JoiningServer { role, zk: addresses(3) })].into();
        ListChange::Incremental { leaving: Vec::new(), joining }
    };
    ensemble.ask(Asker::Zk(SessionId(0)), role(ServerRole::Observer), false);
    assert_eq!(ensemble.run(), ["accept", "learn 3", "leave", "finish"]);
    ensemble.ask(Asker::Zk(SessionId(0)), role(ServerRole::Voter), false);
    assert_eq!(ensemble.run(), ["accept", "vote 3", "leave", "finish"]);
    assert_eq!(ensemble.voters(), [1, 2, 3]);
}

#[test]
fn a_learner_is_promoted_when_it_has_most_of_the_log() {
    let mut ensemble = Ensemble::new(3);
    let peer_urls = vec!["http://s4:2888".to_string()];
    let added = ListChange::Add { peer_urls, role: ServerRole::Learner };
    assert_eq!(ensemble.etcd(added), DONE);
    ensemble.behind.insert(member_of(4));
    assert_eq!(ensemble.come(4), ["learn 4"]);
    let promoted = ListChange::Promote(ensemble.id_of(4));
    assert_eq!(ensemble.etcd(promoted.clone()), ["refuse"]);
    assert_eq!(ensemble.ended.last(), Some(&Err(LeaderRefused::LearnerNotReady)));
    ensemble.behind.clear();
    assert_eq!(ensemble.etcd(promoted), ["accept", "vote 4", "leave", "finish"]);
    assert_eq!(ensemble.voters(), [1, 2, 3, 4]);
}

#[test]
fn a_change_that_would_leave_no_present_majority_is_refused() {
    let mut ensemble = Ensemble::new(3);
    ensemble.go(3);
    // Of two servers one would be absent.
    assert_eq!(ensemble.remove(2), ["refuse"]);
    assert_eq!(ensemble.ended.last(), Some(&Err(LeaderRefused::NoQuorum)));
    // The absent server itself may go.
    let steps = ["accept", "learn 3", "leave", "finish", "remove 3", "retire"];
    assert_eq!(ensemble.remove(3), steps);
    assert_eq!(ensemble.voters(), [1, 2]);
}

/// {1, 2, 3} becomes {1, 4, 5}, and 4 and 5 die right after the leader has accepted: the votes must
/// not shrink to server 1 alone.
#[test]
fn votes_stay_where_they_are_if_those_who_should_get_them_are_gone() {
    let mut ensemble = Ensemble::new(3);
    for number in [4, 5] {
        ensemble.add(number);
        ensemble.behind.insert(member_of(number));
        assert_eq!(ensemble.come(number), [format!("learn {number}")]);
    }
    ensemble.behind.clear();
    ensemble.ask(Asker::Zk(SessionId(0)), ListChange::Whole(whole(&[1, 4, 5])), false);
    let Some(JoinStep::Submit(accept)) = ensemble.step() else { panic!("it is not accepted") };
    ensemble.apply(&accept);
    ensemble.present.remove(&member_of(4));
    ensemble.present.remove(&member_of(5));
    assert_eq!(ensemble.run(), [""; 0]);
    ensemble.now_ms += CHANGE_PATIENCE_MS;
    assert_eq!(ensemble.run(), ["giveup"]);
    assert_eq!(ensemble.ended.last(), Some(&Err(LeaderRefused::GivenUp)));
    assert_eq!(ensemble.voters(), [1, 2, 3]);
}

fn whole(numbers: &[u64]) -> BTreeMap<u64, JoiningServer> {
    let role = ServerRole::Voter;
    numbers.iter().map(|it| (*it, JoiningServer { role, zk: addresses(*it) })).collect()
}

/// Nobody but the leader is left that could lead: the votes are added first.
#[test]
fn a_leader_without_a_successor_adds_one_first() {
    let mut ensemble = Ensemble::new(1);
    ensemble.add(2);
    ensemble.behind.insert(member_of(2));
    ensemble.come(2);
    ensemble.ask(Asker::Zk(SessionId(0)), ListChange::Whole(whole(&[2])), false);
    let Some(JoinStep::Submit(accept)) = ensemble.step() else { panic!("it is not accepted") };
    ensemble.apply(&accept);
    ensemble.behind.clear();
    let steps = ["vote 2", "leave", "hand over to 2", "learn 1", "leave", "finish"];
    assert_eq!(ensemble.run(), steps);
    assert_eq!(ensemble.voters(), [2]);
}

#[test]
fn a_lost_directory_is_replaced_only_behind_an_open_change() {
    let mut ensemble = Ensemble::new(3);
    ensemble.add(4);
    ensemble.come(4);
    ensemble.present.remove(&member_of(2));
    let wiped = 22;
    ensemble.ask(Asker::Etcd, ListChange::Remove(ensemble.id_of(3)), false);
    ensemble.present.insert(wiped, 2);
    let steps = ["accept", "learn 3", "leave", "finish", "learn 2'", "vote 2', remove 2"];
    assert_eq!(ensemble.run(), steps);
    ensemble.now_ms += REPLACED_SILENCE_MS;
    assert_eq!(ensemble.run(), ["forget"]);
    assert_eq!(ensemble.voters(), [1, 4, 12]);
}

/// Lists these servers, as their files do.
fn list(ensemble: &mut Ensemble, numbers: &[u64]) {
    let servers = numbers.iter().map(|number| (*number, record(*number, ServerRole::Voter)));
    let list = ServerList { version: 0, servers: servers.collect() };
    ensemble.apply(&Command::Control(ControlCommand::SetServers(list)));
}

#[test]
fn servers_that_files_add_get_votes_when_they_have_caught_up() {
    let mut ensemble = Ensemble::new(3);
    list(&mut ensemble, &[1, 2, 3, 4, 5]);
    assert_eq!(ensemble.run(), Vec::<String>::new(), "they are not there");
    ensemble.present.insert(14, 4);
    ensemble.behind.insert(14);
    assert_eq!(ensemble.run(), ["learn 4"]);
    ensemble.behind.clear();
    ensemble.present.insert(15, 5);
    assert_eq!(ensemble.run(), ["vote 4", "learn 5", "vote 5"]);
    assert_eq!(ensemble.membership.voters.len(), 5);
}

#[test]
fn silent_servers_that_files_leave_out_lose_their_votes_one_by_one() {
    let mut ensemble = Ensemble::new(5);
    list(&mut ensemble, &[1, 2, 3]);
    assert_eq!(ensemble.run(), Vec::<String>::new(), "they are there");
    ensemble.present.remove(&14);
    ensemble.present.remove(&15);
    ensemble.behind.extend([12, 13]);
    assert_eq!(ensemble.run(), Vec::<String>::new(), "no majority has caught up");
    ensemble.behind.remove(&12);
    let steps = ensemble.run();
    assert_eq!(ensemble.membership.voters, [11, 12, 13]);
    assert_eq!(ensemble.membership.learners, []);
    assert_eq!(steps, ["learn 4", "learn 5"]);
    ensemble.now_ms += REPLACED_SILENCE_MS;
    assert_eq!(ensemble.run(), ["forget", "forget"]);
}
