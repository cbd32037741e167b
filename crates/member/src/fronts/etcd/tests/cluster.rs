//! Tests of calls about the members.

use etcd::versions::ETCD_VERSION;
use machine::control::list_change::{
    Asker as ChangeAsker, ChangeFlags, ChangeId, ChangeRequest, LeaderRefused, ListChange,
};
use machine::{ControlCommand, ServerList, ServerRecord, ServerRole, ZkAddresses};

use super::*;
use crate::fronts::etcd::limits::ETCD_TRANSFER_MS_MAX;

const OWN: u64 = 6;
const OTHER: u64 = 7;

/// A replica with two voters, [`OWN`] and [`OTHER`]; this member is [`OWN`].
fn replica(leader: Option<u64>) -> ReplicaView {
    ReplicaView {
        leader,
        term: 4,
        commit_index: 9,
        applied_index: 8,
        voters: vec![OWN, OTHER],
        learners: Vec::new(),
    }
}

fn ask(rig: &mut Rig, method: ClusterMethod, request: &impl Message) -> Ticket {
    rig.call(EtcdMethod::Cluster(method), request)
}

fn move_to(rig: &mut Rig, target_id: u64) -> Ticket {
    ask(rig, ClusterMethod::MoveLeader, &pb::MoveLeaderRequest { target_id })
}

fn moved(rig: &mut Rig, ticket: Ticket) -> Result<(), CallRefused> {
    rig.result::<pb::MoveLeaderResponse>(ticket).map(drop)
}

/// A Front of the leader of two members, which has begun to transfer leadership to the other.
fn moving() -> (Rig, Ticket) {
    let mut rig = Rig::new(false, Level::ETCD);
    rig.front.set_replica(replica(Some(OWN)));
    let ticket = move_to(&mut rig, OTHER);
    assert_eq!(rig.hand_overs, [(ticket, MemberId(OTHER))]);
    assert!(rig.results.is_empty() && rig.front.wants_replica());
    // No message announces another leader, so the driver must call the Front again by itself.
    assert!(rig.front.waits_for_tick());
    (rig, ticket)
}

#[test]
fn leadership_has_moved_when_the_other_member_leads() {
    let (mut rig, ticket) = moving();
    rig.front.on_hand_over(ticket, true);
    rig.front.set_replica(replica(None));
    rig.take();
    assert!(rig.results.is_empty());
    rig.front.set_replica(replica(Some(OTHER)));
    rig.take();
    assert_eq!(moved(&mut rig, ticket), Ok(()));
    assert!(!rig.front.wants_replica());
    rig.check_empty();
}

#[test]
fn a_move_that_takes_too_long_or_cannot_begin_is_refused() {
    let (mut rig, ticket) = moving();
    let now = |monotonic_ms| Now { monotonic_ms, raft_term: 4, contact_at_ms: None };
    rig.front.set_now(now(ETCD_TRANSFER_MS_MAX - 1));
    rig.front.on_tick();
    rig.take();
    assert!(rig.results.is_empty());
    rig.front.set_now(now(ETCD_TRANSFER_MS_MAX));
    rig.front.on_tick();
    rig.take();
    assert!(matches!(moved(&mut rig, ticket), Err(CallRefused::Unknown(_))));
    rig.check_empty();
    let (mut rig, ticket) = moving();
    rig.front.on_hand_over(ticket, false);
    rig.take();
    assert_eq!(moved(&mut rig, ticket), Err(Error::BadLeaderTransferee.into()));
    rig.check_empty();
}

#[test]
fn a_move_that_is_cancelled_has_no_result_and_is_forgotten() {
    let (mut rig, ticket) = moving();
    rig.front.on_cancel(ticket);
    assert!(!rig.front.wants_replica());
    rig.front.on_hand_over(ticket, false);
    rig.front.set_replica(replica(Some(OTHER)));
    rig.front.on_tick();
    rig.take();
    rig.check_empty();
}

#[test]
fn leadership_moves_from_a_leader_to_a_voter_only() {
    let mut rig = Rig::new(false, Level::ETCD);
    for (leader, target, expected) in [
        (Some(OTHER), OTHER, Err(Error::NotLeader.into())),
        (None, OTHER, Err(Error::NotLeader.into())),
        (Some(OWN), 99, Err(Error::BadLeaderTransferee.into())),
        (Some(OWN), OWN, Ok(())),
    ] {
        rig.front.set_replica(replica(leader));
        let ticket = move_to(&mut rig, target);
        assert_eq!(moved(&mut rig, ticket), expected, "{leader:?} to {target}");
    }
    assert!(rig.hand_overs.is_empty());
    let mut alone = Rig::new(true, Level::ETCD);
    alone.front.set_replica(replica(Some(OWN)));
    let ticket = move_to(&mut alone, OTHER);
    assert_eq!(moved(&mut alone, ticket), Err(Error::BadLeaderTransferee.into()));
    alone.check_empty();
}

#[test]
fn a_member_alone_is_the_whole_list_and_its_status_is_of_its_state() {
    let mut rig = Rig::new(true, Level::ETCD);
    rig.put("a", "1");
    rig.front.set_replica(replica(Some(OWN)));
    let ticket = ask(&mut rig, ClusterMethod::MemberList, &pb::MemberListRequest::default());
    let list: pb::MemberListResponse = rig.result(ticket).unwrap();
    assert_eq!(list.members.iter().map(|member| member.id).collect::<Vec<_>>(), [OWN]);
    assert_eq!(list.header.unwrap().revision, 0);
    let ticket = ask(&mut rig, ClusterMethod::Status, &pb::StatusRequest::default());
    let status: pb::StatusResponse = rig.result(ticket).unwrap();
    assert_eq!((status.version.as_str(), status.leader), (ETCD_VERSION, OWN));
    assert_eq!((status.raft_index, status.raft_applied_index, status.raft_term), (9, 8, 4));
    assert_eq!((status.header.unwrap().revision, status.errors), (2, Vec::<String>::new()));
    rig.check_empty();
}

#[test]
fn a_member_that_knows_no_servers_yet_lists_itself() {
    let mut rig = Rig::new(false, Level::ETCD);
    let request = pb::MemberListRequest { linearizable: false };
    let ticket = ask(&mut rig, ClusterMethod::MemberList, &request);
    let list: pb::MemberListResponse = rig.result(ticket).unwrap();
    assert_eq!(list.members.iter().map(|member| member.id).collect::<Vec<_>>(), [OWN]);
    rig.check_empty();
}

#[test]
fn a_list_waits_for_a_sync_unless_it_may_be_old() {
    let mut rig = Rig::new(false, Level::ETCD);
    let wants = |linearizable| pb::MemberListRequest { linearizable };
    let ticket = ask(&mut rig, ClusterMethod::MemberList, &wants(false));
    assert!(rig.result::<pb::MemberListResponse>(ticket).is_ok());
    let ticket = ask(&mut rig, ClusterMethod::MemberList, &wants(true));
    assert_eq!((rig.synced.clone(), rig.results.len()), (vec![ticket], 0));
    rig.sync(ticket);
    rig.front.run_reads(&rig.machine);
    rig.take();
    assert!(rig.result::<pb::MemberListResponse>(ticket).is_ok());
    rig.check_empty();
}

#[test]
fn changes_of_members_are_refused_as_etcd_refuses_what_cannot_be_changed_now() {
    let mut rig = Rig::new(true, Level::ETCD);
    let add =
        |url: &str| pb::MemberAddRequest { peer_ur_ls: vec![url.to_string()], is_learner: false };
    for (url, expected) in [
        ("http://h:1", Error::MemberNotEnoughStarted),
        ("h:1", Error::MemberBadUrls),
        ("http://h", Error::MemberBadUrls),
    ] {
        let ticket = ask(&mut rig, ClusterMethod::MemberAdd, &add(url));
        let refused = rig.result::<pb::MemberAddResponse>(ticket).unwrap_err();
        assert_eq!(refused, expected.into(), "{url}");
    }
    for (id, expected) in [(OWN, Error::MemberNotEnoughStarted), (1, Error::MemberNotFound)] {
        let request = pb::MemberRemoveRequest { id };
        let ticket = ask(&mut rig, ClusterMethod::MemberRemove, &request);
        let refused = rig.result::<pb::MemberRemoveResponse>(ticket).unwrap_err();
        assert_eq!(refused, expected.into());
    }
    let ticket = rig.front.on_call(
        EtcdMethod::Cluster(ClusterMethod::MemberList),
        vec![0xff].into(),
        Credentials::Nobody,
    );
    rig.take();
    assert_eq!(rig.result::<pb::MemberListResponse>(ticket), Err(CallRefused::Malformed));
    rig.check_empty();
}

/// Servers 1 and 2 at level 5: member [`OWN`] is server 1, and server 2 has lost the directory of
/// member 70, so that it is member [`OTHER`] now.
fn at_level_5() -> (Rig, u64) {
    let mut rig = Rig::new(false, Level::ETCD);
    let zk = |number: u64| ZkAddresses { servers: format!("s{number}:1:2"), clients: None };
    let record = |number: u64| ServerRecord {
        name: format!("n{number}"),
        role: ServerRole::Voter,
        peer_urls: vec![format!("http://s{number}:1")],
        client_urls: Vec::new(),
        zk: Some(zk(number)),
    };
    let servers = [1, 2].map(|number| (number, record(number)));
    let list = ServerList { version: 0, servers: servers.into_iter().collect() };
    let register = |member, server| ControlCommand::Register { member: MemberId(member), server };
    for command in [
        ControlCommand::SetServers(list),
        register(OWN, 1),
        register(70, 2),
        ControlCommand::Raise(Level::MEMBERS.into()),
        register(OTHER, 2),
        ControlCommand::Forget { member: MemberId(70) },
    ] {
        rig.control(command);
    }
    rig.front.set_replica(replica(Some(OWN)));
    (rig, 70)
}

impl Rig {
    /// Applies a command of the ensemble, and delivers its changes.
    fn control(&mut self, command: ControlCommand) {
        let stamp =
            Stamp { time_ms: 0, origin: ORIGIN, connection: ConnectionId(0), identities: &[] };
        let mut changes = Changes::default();
        self.machine.apply(&stamp, &Command::Control(command), &mut changes);
        self.deliver(changes, Vec::new());
    }
}

#[test]
fn from_level_5_on_clients_see_ids_that_outlive_a_directory() {
    let (mut rig, second) = at_level_5();
    let request = pb::MemberListRequest { linearizable: false };
    let ticket = ask(&mut rig, ClusterMethod::MemberList, &request);
    let list: pb::MemberListResponse = rig.result(ticket).unwrap();
    assert_eq!(list.members.iter().map(|member| member.id).collect::<Vec<_>>(), [OWN, second]);
    // The list names leaders and targets by these ids, too; Loop knows members.
    rig.front.set_replica(replica(Some(OTHER)));
    let ticket = ask(&mut rig, ClusterMethod::Status, &pb::StatusRequest::default());
    assert_eq!(rig.result::<pb::StatusResponse>(ticket).unwrap().leader, second);
    rig.front.set_replica(replica(Some(OWN)));
    let ticket = move_to(&mut rig, second);
    assert_eq!(rig.hand_overs, [(ticket, MemberId(OTHER))]);
    rig.front.set_replica(replica(Some(OTHER)));
    rig.take();
    assert_eq!(moved(&mut rig, ticket), Ok(()));
}

#[test]
fn a_header_names_the_server_once_the_level_and_the_servers_say_so() {
    let own = |rig: &mut Rig| rig.put("a", "1").header.unwrap().member_id;
    let (mut rig, second) = at_level_5();
    assert_eq!(own(&mut rig), OWN);
    // This member takes the place of the member of server 2.
    rig.control(ControlCommand::Register { member: MemberId(OWN), server: 2 });
    assert_eq!(own(&mut rig), second);
}

/// A Front at level 5 of a member of servers 1 and 2, and its leader's decisions.
struct Members {
    rig: Rig,
}

impl Members {
    fn new(level: Level) -> Members {
        let mut rig = Rig::new(false, level);
        rig.front.config.own.changes = Some(MemberChanges::default());
        rig.front.set_replica(replica(Some(OWN)));
        let record = |number: u64| ServerRecord {
            name: format!("m{number}"),
            role: ServerRole::Voter,
            peer_urls: vec![format!("http://s{number}:2380")],
            client_urls: Vec::new(),
            zk: None,
        };
        let servers = [(1, record(1)), (2, record(2))].into();
        let mut members = Members { rig };
        members.decide(ControlCommand::SetServers(ServerList { version: 0, servers }));
        for (member, server) in [(OWN, 1), (OTHER, 2)] {
            members.decide(ControlCommand::Register { member: MemberId(member), server });
        }
        members.decide(ControlCommand::Raise(level.into()));
        members
    }

    /// Applies a command of the leader, and delivers its changes.
    fn decide(&mut self, command: ControlCommand) {
        let stamp =
            Stamp { time_ms: 0, origin: ORIGIN, connection: ConnectionId(0), identities: &[] };
        let mut changes = Changes::default();
        self.rig.machine.apply(&stamp, &Command::Control(command), &mut changes);
        self.rig.deliver(changes, Vec::new());
    }

    fn open(&self) -> Option<ChangeId> {
        self.rig.machine.control().servers().open_change().map(|open| open.id)
    }

    fn add(&mut self, url: &str) -> Ticket {
        let request = pb::MemberAddRequest { peer_ur_ls: vec![url.to_string()], is_learner: false };
        ask(&mut self.rig, ClusterMethod::MemberAdd, &request)
    }

    fn added(&mut self, ticket: Ticket) -> Result<pb::MemberAddResponse, CallRefused> {
        self.rig.result(ticket)
    }
}

#[test]
fn a_member_is_added_when_the_leader_has_finished() {
    let mut members = Members::new(Level::MEMBERS);
    let ticket = members.add("http://s3:2380");
    members.rig.apply();
    let id = members.open().expect("the request opens a change");
    assert!(members.rig.results.is_empty());
    members.decide(ControlCommand::Accept(id));
    assert!(members.rig.results.is_empty());
    members.decide(ControlCommand::Finish(id));
    let added = members.added(ticket).unwrap();
    let new = added.member.expect("the response has it");
    assert_eq!((new.name, new.peer_ur_ls), (String::new(), vec!["http://s3:2380".to_string()]));
    assert_eq!((added.members.len(), added.header.unwrap().revision), (3, 0));
    members.rig.check_empty();
}

#[test]
fn the_leaders_refusals_are_etcds_errors() {
    for (reason, error) in [
        (LeaderRefused::NoQuorum, Error::Unhealthy),
        (LeaderRefused::NotEnoughStarted, Error::MemberNotEnoughStarted),
        (LeaderRefused::LearnerNotReady, Error::LearnerNotReady),
    ] {
        let mut members = Members::new(Level::MEMBERS);
        let ticket = members.add("http://s3:2380");
        members.rig.apply();
        let change = members.open().unwrap();
        members.decide(ControlCommand::Refuse { change, reason });
        assert_eq!(members.added(ticket), Err(error.into()));
        members.rig.check_empty();
    }
}

#[test]
fn what_the_state_refuses_is_answered_at_once() {
    let mut members = Members::new(Level::MEMBERS);
    let ticket = members.add("http://s2:2380");
    members.rig.apply();
    assert_eq!(members.added(ticket), Err(Error::PeerUrlExists.into()));
    let request = pb::MemberRemoveRequest { id: 77 };
    let ticket = ask(&mut members.rig, ClusterMethod::MemberRemove, &request);
    members.rig.apply();
    let refused = members.rig.result::<pb::MemberRemoveResponse>(ticket);
    assert_eq!(refused, Err(Error::MemberNotFound.into()));
    let request = pb::MemberPromoteRequest { id: OTHER };
    let ticket = ask(&mut members.rig, ClusterMethod::MemberPromote, &request);
    members.rig.apply();
    let refused = members.rig.result::<pb::MemberPromoteResponse>(ticket);
    assert_eq!(refused, Err(Error::MemberNotLearner.into()));
    members.rig.check_empty();
}

#[test]
fn a_change_waits_for_the_end_of_another_one() {
    let mut members = Members::new(Level::MEMBERS);
    let (first, second) = (members.add("http://s3:2380"), members.add("http://s4:2380"));
    members.rig.apply();
    let id = members.open().unwrap();
    assert!(members.rig.results.is_empty());
    members.decide(ControlCommand::Accept(id));
    members.decide(ControlCommand::Finish(id));
    assert_eq!(members.added(first).unwrap().members.len(), 3);
    members.rig.apply();
    let id = members.open().expect("the second one has begun anew");
    members.decide(ControlCommand::Accept(id));
    members.decide(ControlCommand::Finish(id));
    assert_eq!(members.added(second).unwrap().members.len(), 4);
    members.rig.check_empty();
}

#[test]
fn a_change_that_takes_too_long_ends_without_an_answer() {
    let mut members = Members::new(Level::MEMBERS);
    let (open, behind) = (members.add("http://s3:2380"), members.add("http://s4:2380"));
    members.rig.apply();
    members.rig.front.set_now(Now { monotonic_ms: ETCD_CALL_MS_MAX, ..Now::default() });
    members.rig.front.on_tick();
    members.rig.take();
    assert_eq!(members.added(open), Err(Error::TimedOut.into()));
    assert_eq!(members.added(behind), Err(Error::TimedOut.into()));
    members.rig.check_empty();
    // The end of the change finds no call.
    let id = members.open().unwrap();
    members.decide(ControlCommand::Accept(id));
    members.decide(ControlCommand::Finish(id));
    assert!(members.rig.results.is_empty());
}

#[test]
fn the_level_is_raised_for_the_first_change() {
    let mut members = Members::new(Level::TOKENS);
    let ticket = members.add("http://s3:2380");
    assert_eq!(members.rig.told, ["Need(Level(5))"]);
    members.decide(ControlCommand::Raise(Level::MEMBERS.into()));
    members.rig.apply();
    let id = members.open().expect("it has begun anew");
    members.decide(ControlCommand::Accept(id));
    members.decide(ControlCommand::Finish(id));
    assert!(members.added(ticket).is_ok());
    members.rig.check_empty();
}

/// All commands arrive in one delivery, as at a follower that was behind.
#[test]
fn an_answer_and_the_end_of_its_change_may_come_together() {
    let mut members = Members::new(Level::MEMBERS);
    let ticket = members.add("http://s3:2380");
    let rig = &mut members.rig;
    let connection = CONNECTION;
    let stamp = Stamp { time_ms: 0, origin: ORIGIN, connection, identities: &[] };
    let mut changes = Changes::default();
    let request = ControlCommand::Request(ChangeRequest {
        by: ChangeAsker::Etcd,
        version: None,
        flags: ChangeFlags { is_strict: true, ..ChangeFlags::default() },
        learners_max: 1,
        change: ListChange::Add {
            peer_urls: vec!["http://s3:2380".to_string()],
            role: ServerRole::Voter,
        },
    });
    let reply = rig.machine.apply(&stamp, &Command::Control(request), &mut changes);
    let Outcome::Control(ControlOutcome::Requested(Ok(id))) = reply.outcome else { panic!() };
    for command in [ControlCommand::Accept(id), ControlCommand::Finish(id)] {
        rig.machine.apply(&stamp, &Command::Control(command), &mut changes);
    }
    let (mark, reads, answered) = (reply.mark, Vec::new(), Ok(reply.outcome));
    rig.submitted.clear();
    rig.deliver(changes, vec![Answer::Command { connection, ticket, mark, answered, reads }]);
    assert!(members.added(ticket).is_ok());
    members.rig.check_empty();
}
