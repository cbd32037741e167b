//! Tests of when a leader raises the level, and of what the driver learns of the servers.

use machine::control::list_change::{
    Asker, ChangeFlags, ChangeId, ChangeRequest, JoiningServer, ListChange,
};
use machine::{
    BootId, Changes, ConnectionId, Level, Machine, Origin, ServerList, ServerRecord, ServerRole,
    Stamp, ZkAddresses,
};
use replica::Membership;

use super::*;
use crate::membership::bootstrap::absent_voter;
use crate::membership::limits::RAISES_INTERVAL_MS;
use crate::message::{FromApply, LoopInput, ToLoop};
use crate::order::contact::tests::{TICK_MS, World, id, linked};

const OLD: Level = Level::FIRST;
const NEW: Level = Level::ETCD;

fn led(known: [Level; 3]) -> (World, usize, Vec<usize>) {
    World::led_knowing(&Membership::from_voters([1, 2, 3]), known)
}

fn levels(world: &World) -> Vec<Level> {
    world.members.iter().map(Loop::level).collect()
}

/// Runs for long enough that a raise which was asked for happens.
fn run(world: &mut World) {
    (0..2 * RAISES_INTERVAL_MS / TICK_MS).for_each(|_| world.pass(TICK_MS));
}

fn tell(world: &mut World, at: usize, input: LoopInput) {
    world.members[at].handle(input).unwrap();
    world.turn(at);
    world.settle();
}

#[test]
fn an_operator_raises_the_level_once_every_member_knows_it() {
    let (mut world, leader, _) = led([NEW; 3]);
    assert_eq!(levels(&world), [OLD; 3]);
    assert_eq!(world.members[leader].upgrade(), Ok(NEW));
    world.turn(leader);
    run(&mut world);
    assert_eq!(levels(&world), [NEW; 3]);
    world.raised.sort();
    assert_eq!(world.raised, [(0, NEW), (1, NEW), (2, NEW)]);
    assert_eq!(world.members[leader].upgrade(), Ok(NEW));
    world.turn(leader);
    run(&mut world);
    assert_eq!(world.raised.len(), 3, "it is raised once");
}

#[test]
fn the_level_is_not_raised_while_a_member_does_not_know_it() {
    for old in 0..3 {
        let mut known = [NEW; 3];
        known[old] = OLD;
        let (mut world, leader, _) = led(known);
        let refused = world.members[leader].upgrade();
        if old == leader {
            // The old member is the leader itself, which knows no higher level.
            assert_eq!(refused, Ok(OLD));
        } else {
            let (server, program, level_max) = (old as u64 + 1, "0.1.0".to_string(), OLD);
            let unknown = RaiseRefused::UnknownThere { level: NEW, server, program, level_max };
            assert_eq!(refused, Err(unknown));
        }
        tell(&mut world, leader, LoopInput::Front(ToLoop::Need(NEW)));
        run(&mut world);
        assert_eq!(levels(&world), [OLD; 3]);
        // The old follower's server is restarted with a newer build.
        if old != leader {
            let server = Some(linked(old, NEW));
            world.members[leader].handle(LoopInput::Linked { peer: id(old), server }).unwrap();
            assert_eq!(world.members[leader].upgrade(), Ok(NEW));
        }
    }
}

#[test]
fn the_level_is_not_raised_while_a_member_is_not_there() {
    let (mut world, leader, followers) = led([NEW; 3]);
    let gone = followers[0];
    tell(&mut world, leader, LoopInput::Linked { peer: id(gone), server: None });
    let absent = RaiseRefused::Absent { level: NEW, server: None, member: id(gone) };
    assert_eq!(world.members[leader].upgrade(), Err(absent));
    let server = Some(linked(gone, NEW));
    tell(&mut world, leader, LoopInput::Linked { peer: id(gone), server });
    assert_eq!(world.members[leader].upgrade(), Ok(NEW));
}

#[test]
fn only_a_leader_raises_the_level() {
    let (mut world, _, followers) = led([NEW; 3]);
    assert_eq!(world.members[followers[0]].upgrade(), Err(RaiseRefused::NotLeader));
}

#[test]
fn a_follower_asks_the_leader_for_what_its_clients_need() {
    let (mut world, _, followers) = led([NEW; 3]);
    tell(&mut world, followers[1], LoopInput::Front(ToLoop::Need(NEW)));
    run(&mut world);
    assert_eq!(levels(&world), [NEW; 3]);
    // A level that the state already has is not asked for.
    tell(&mut world, followers[1], LoopInput::Front(ToLoop::Need(OLD)));
    run(&mut world);
    assert_eq!(world.raised.len(), 3);
}

#[test]
fn the_first_need_raises_as_far_as_all_know_and_later_ones_as_far_as_needed() {
    let need = |world: &mut World, leader: usize, level| {
        tell(world, leader, LoopInput::Front(ToLoop::Need(level)));
        run(world);
        levels(world)
    };
    let known = [Level::TOKENS, Level::ETCD_V2, Level::TOKENS];
    let (mut world, leader, _) = led(known);
    assert_eq!(need(&mut world, leader, Level::ETCD), [Level::ETCD_V2; 3]);

    let (mut world, leader, _) = led([Level::ETCD; 3]);
    assert_eq!(need(&mut world, leader, Level::ETCD), [Level::ETCD; 3]);
    let known = [Level::TOKENS; 3];
    let (mut world, leader, _) = led(known);
    let raise = Command::Control(ControlCommand::Raise(Level::ETCD.into()));
    world.members[leader].intake.submit_own(&raise);
    world.turn(leader);
    run(&mut world);
    assert_eq!(levels(&world), [Level::ETCD; 3]);
    assert_eq!(need(&mut world, leader, Level::ETCD_V2), [Level::ETCD_V2; 3]);
}

#[test]
fn a_need_that_no_build_knows_raises_nothing() {
    let (mut world, leader, followers) = led([NEW; 3]);
    let higher = Level::from_number(9).unwrap();
    for at in [leader, followers[0]] {
        tell(&mut world, at, LoopInput::Front(ToLoop::Need(higher)));
    }
    run(&mut world);
    assert_eq!(levels(&world), [OLD; 3]);
}

#[test]
fn learners_count_and_placeholders_do_not() {
    let own = (id(0), 1);
    let mut servers = Servers::new(own, machine::Servers::default());
    let voters = [1, 2, absent_voter(3).unwrap()];
    let membership = Membership { learners: vec![4], ..Membership::from_voters(voters) };
    let check = |servers: &Servers| servers.check_all_know(NEW, &membership);
    servers.on_link(id(1), Some(linked(1, NEW)));
    let absent = RaiseRefused::Absent { level: NEW, server: None, member: id(3) };
    assert_eq!(check(&servers), Err(absent));
    servers.on_link(id(3), Some(linked(3, OLD)));
    let refused = check(&servers).unwrap_err().to_string();
    let said = "server 4, of version 0.1.0, knows levels up to 1: install version 0.2.0 or later \
                there, or raise level_max where it is set";
    assert_eq!(refused, said);
    servers.on_link(id(3), Some(linked(3, NEW)));
    assert_eq!(check(&servers), Ok(()));
}

/// Applies a command to the state. Returns the servers, as Apply tells them to Loop.
fn servers_after(state: &mut Machine, command: ControlCommand) -> FromApply {
    let origin = Origin { member: id(0), boot: BootId(1) };
    let stamp = Stamp { time_ms: 1, origin, connection: ConnectionId(1), identities: &[] };
    state.apply(&stamp, &Command::Control(command), &mut Changes::default());
    FromApply::Servers(Arc::new(state.control().servers().clone()))
}

fn record(number: u64) -> ServerRecord {
    ServerRecord {
        name: String::new(),
        role: ServerRole::Voter,
        peer_urls: vec![format!("http://s{number}:2380")],
        client_urls: Vec::new(),
        zk: None,
    }
}

/// The commands that begin a state of level 5 with servers 1 to 3.
fn begin() -> [ControlCommand; 2] {
    let servers = (1..4).map(|number| (number, record(number))).collect();
    let list = ServerList { version: 0, servers };
    [ControlCommand::SetServers(list), ControlCommand::Raise(Level::MEMBERS.into())]
}

/// An operator's request.
fn requested(change: ListChange) -> ControlCommand {
    let flags = ChangeFlags { stay: true, ..ChangeFlags::default() };
    let by = Asker::Operator;
    ControlCommand::Request(ChangeRequest { by, version: None, flags, learners_max: 1, change })
}

#[test]
fn a_member_without_a_vote_forwards_once_the_state_says_that_it_serves_so() {
    let membership = Membership { learners: vec![3], ..Membership::from_voters([1, 2]) };
    let (mut world, _, _) = World::led_knowing(&membership, [Level::MEMBERS; 3]);
    let mut state = Machine::default();
    let observer = JoiningServer {
        role: ServerRole::Observer,
        zk: ZkAddresses { servers: "s3:2888:3888".to_string(), clients: None },
    };
    let joining = BTreeMap::from([(3, observer)]);
    let [set, raise] = begin();
    let accepted = ControlCommand::Accept(ChangeId(4));
    let commands = [
        set,
        raise,
        ControlCommand::Register { member: id(2), server: 3 },
        requested(ListChange::Incremental { leaving: vec![], joining }),
        accepted,
    ];
    for command in commands {
        world.submit(2);
        (0..10).for_each(|_| world.pass(TICK_MS));
        assert_eq!(world.forwarded.len(), 0);
        let servers = servers_after(&mut state, command);
        world.members[2].handle(LoopInput::Apply(servers)).unwrap();
    }
    (0..10).for_each(|_| world.pass(TICK_MS));
    assert!(!world.forwarded.is_empty());
}

#[test]
fn the_driver_is_told_of_other_servers_to_reach_and_of_retired_members() {
    let (mut world, _, followers) = led([NEW; 3]);
    let member = &mut world.members[followers[0]];
    let mut state = Machine::default();
    // The numbers of the servers to reach and the retired members, if the driver learns of them.
    let mut told = |command| {
        let servers = servers_after(&mut state, command);
        member.handle(LoopInput::Apply(servers)).unwrap();
        let told = member.finish(0).servers;
        assert!(member.finish(0).servers.is_none(), "it learns once");
        told.map(|servers| {
            let retired = servers.retired().map(|member| member.0);
            (servers.to_reach().into_keys().collect::<Vec<_>>(), retired.collect::<Vec<_>>())
        })
    };
    begin().into_iter().for_each(|command| assert_eq!(told(command), None));
    let (peer_urls, role) = (record(4).peer_urls, ServerRole::Voter);
    assert_eq!(told(requested(ListChange::Add { peer_urls, role })), None);
    let change = ChangeId(3);
    assert_eq!(told(ControlCommand::Accept(change)), Some((vec![1, 2, 3, 4], vec![])));
    assert_eq!(told(ControlCommand::Finish(change)), Some((vec![1, 2, 3, 4], vec![])));
    assert_eq!(told(ControlCommand::Register { member: id(7), server: 4 }), None);
    assert_eq!(told(ControlCommand::Retire(id(7))), Some((vec![1, 2, 3, 4], vec![8])));
    assert_eq!(told(ControlCommand::Register { member: id(8), server: 4 }), None);
}

/// Its server is no longer to be reached, nor kept for the next start.
#[test]
fn the_driver_is_told_that_an_accepted_change_was_given_up() {
    let (mut world, _, followers) = led([NEW; 3]);
    let member = &mut world.members[followers[0]];
    let mut state = Machine::default();
    begin().into_iter().for_each(|command| drop(servers_after(&mut state, command)));
    let last = state.control().servers().id_of(3).unwrap();
    let mut told = |command| {
        let servers = servers_after(&mut state, command);
        member.handle(LoopInput::Apply(servers)).unwrap();
        let told = member.finish(0).servers;
        told.map(|servers| servers.list_to_keep().servers.into_keys().collect::<Vec<_>>())
    };
    let (peer_urls, role) = (record(4).peer_urls, ServerRole::Voter);
    assert_eq!(told(requested(ListChange::Add { peer_urls, role })), None);
    let change = ChangeId(3);
    assert_eq!(told(ControlCommand::Accept(change)), Some(vec![1, 2, 3, 4]));
    assert_eq!(told(ControlCommand::GiveUp(change)), Some(vec![1, 2, 3]));
    assert_eq!(told(requested(ListChange::Remove(last))), None);
    // Until it is done, its vote may be needed.
    assert_eq!(told(ControlCommand::Accept(ChangeId(6))), None);
    assert_eq!(told(ControlCommand::Finish(ChangeId(6))), Some(vec![1, 2]));
}

/// A member that left beside a lone voter must be forgotten, too, though no server is linked.
#[test]
fn a_lone_voter_has_work_until_those_that_left_are_forgotten() {
    let has_work = |learners: Vec<u64>, registered: &[u64]| {
        members(vec![1], learners, registered).has_list_work()
    };
    assert!(!has_work(Vec::new(), &[]));
    assert!(!has_work(Vec::new(), &[1]));
    assert!(has_work(vec![2], &[1]));
    assert!(has_work(Vec::new(), &[1, 2]));
}

/// A leader takes no snapshot of a learner whose digest it cannot compare with its own.
#[test]
fn a_lone_voter_compares_its_state_with_those_of_learners() {
    assert!(!members(vec![1], Vec::new(), &[1]).has_others());
    assert!(members(vec![1], vec![2], &[1]).has_others());
    assert!(members(vec![1, 2], Vec::new(), &[1]).has_others());
}

/// A server that joins later could not apply the entry that installs an uploaded snapshot.
#[test]
fn no_snapshot_is_uploaded_once_the_list_was_changed() {
    assert!(members(vec![1], Vec::new(), &[1]).is_standalone());
    assert!(!members(vec![1, 2], Vec::new(), &[1]).is_standalone());
    assert!(!members_of(vec![1], Vec::new(), changed_list()).is_standalone());
}

/// Its server was removed and listed again: after a restart it applies the lists in between once
/// more. It must stay for its vote.
#[test]
fn a_voter_is_not_removed_whatever_older_lists_say() {
    let mut servers = changed_list();
    servers.register(MemberId(1), 9);
    for (voters, is_removed) in [(vec![1, 2], false), (vec![2], true)] {
        let mut members = members_of(voters, Vec::new(), servers.clone());
        members.servers.own.1 = 9;
        assert_eq!(members.is_own_removed(), is_removed);
        assert_eq!(members.news_of_servers().is_some(), is_removed);
    }
}

/// The servers behind a change that has added server 4.
fn changed_list() -> machine::Servers {
    let mut state = Machine::default();
    let (peer_urls, role, change) = (record(4).peer_urls, ServerRole::Voter, ChangeId(3));
    let added = requested(ListChange::Add { peer_urls, role });
    let ended = [added, ControlCommand::Accept(change), ControlCommand::Finish(change)];
    begin().into_iter().chain(ended).for_each(|command| {
        servers_after(&mut state, command);
    });
    let servers = state.control().servers().clone();
    assert!(servers.is_managed());
    servers
}

/// The members as member 1 knows them.
fn members(voters: Vec<u64>, learners: Vec<u64>, registered: &[u64]) -> Members {
    let mut servers = machine::Servers::default();
    registered.iter().for_each(|member| servers.register(MemberId(*member), *member));
    members_of(voters, learners, servers)
}

fn members_of(voters: Vec<u64>, learners: Vec<u64>, servers: machine::Servers) -> Members {
    let servers = Servers::new((MemberId(1), 1), servers);
    let membership =
        storage::wal::Membership { voters, learners, ..storage::wal::Membership::default() };
    let memberships = Memberships::new(LogIndex(0), membership);
    let levels = Levels::new(Known::up_to(NEW), NEW);
    Members::new(servers, (ServerList::default(), false), memberships, levels)
}

/// Members of servers whose state lists servers 1 to 3, as member 1 knows them: its file has the
/// servers `own`, and the files of members 2 and 3 have `others`.
fn with_files(own: &[u64], others: [&[u64]; 2]) -> Members {
    let list_of = |numbers: &[u64]| {
        let servers = numbers.iter().map(|number| (*number, record(*number)));
        ServerList { version: 0, servers: servers.collect() }
    };
    let mut state = Machine::default();
    servers_after(&mut state, ControlCommand::SetServers(list_of(&[1, 2, 3])));
    let servers = state.control().servers().clone();
    let mut members = members_of(vec![1, 2, 3], Vec::new(), servers);
    members.servers_wanted = list_of(own);
    for (number, configured) in (2..).zip(others) {
        let linked = LinkedServer { configured: configured.to_vec(), ..LinkedServer::of(number) };
        members.on_linked(MemberId(number), Some(linked));
    }
    members
}

#[test]
fn most_files_decide_which_servers_are_listed() {
    let check = |own: &[u64], others: [&[u64]; 2], listed: Option<&[u64]>| {
        let wanted = with_files(own, others).wants_servers();
        let numbers = wanted.map(|list| list.servers.into_keys().collect::<Vec<u64>>());
        assert_eq!(numbers.as_deref(), listed, "{own:?} {others:?}");
    };
    let (old, new): (&[u64], &[u64]) = (&[1, 2, 3], &[1, 2, 3, 4, 5]);
    check(old, [old, old], None);
    check(new, [old, old], None);
    check(new, [new, old], Some(new));
    // An old file neither adds a server nor takes one away.
    check(old, [new, new], None);
    check(&[1, 2], [&[1, 2], old], Some(&[1, 2]));
    check(&[1, 2], [old, old], None);
    check(&[1, 2], [&[1, 2, 3, 4], &[1, 2, 4]], Some(&[1, 2]));
    // A server that accepts any list says nothing.
    check(&[1, 2], [&[], &[]], None);
}

/// It may be the list of a change that was given up while the server was away.
#[test]
fn a_list_that_the_data_directory_has_kept_changes_nothing() {
    let new: &[u64] = &[1, 2, 3, 4, 5];
    let mut members = with_files(new, [new, new]);
    assert!(members.wants_servers().is_some());
    members.servers_are_kept = true;
    assert_eq!(members.wants_servers(), None);
    // Its own client URLs come from its flags, those of the others from their hellos.
    let urls = vec!["http://own:2379".to_string()];
    members.servers_wanted.servers.get_mut(&1).unwrap().client_urls = urls.clone();
    let wanted = members.wants_servers().unwrap();
    assert_eq!((wanted.servers.len(), &wanted.servers[&1].client_urls), (3, &urls));
    // A new state takes it.
    members.servers.registered = Arc::default();
    assert_eq!(members.wants_servers().unwrap().servers.len(), 5);
}

#[test]
fn a_file_changes_addresses_alone_and_a_silent_voter_counts_for_nobody() {
    let mut members = with_files(&[1, 2, 3, 4], [&[1, 2, 3, 4], &[1, 2, 3]]);
    members.on_linked(MemberId(2), None);
    assert_eq!(members.wants_servers(), None);
    let moved = vec!["http://moved:2380".to_string()];
    members.servers_wanted.servers.get_mut(&2).unwrap().peer_urls = moved.clone();
    let wanted = members.wants_servers().unwrap();
    assert_eq!(wanted.servers.len(), 3);
    assert_eq!(wanted.servers[&2].peer_urls, moved);
}
