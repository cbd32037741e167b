//! Tests of replacing members: when they are registered, added, promoted and forgotten, and when
//! not.

use std::sync::Arc;

use super::*;
use crate::membership::servers::LinkedServer;

mod changes;

const OWN: (MemberId, u64) = (MemberId(11), 1);

fn peer(member_id: u64, silent_ticks: Option<u64>, matched_index: u64) -> PeerStatus {
    PeerStatus { member_id, matched_index, snapshot_index: None, silent_ticks }
}

fn membership(voters: &[u64], learners: &[u64]) -> Membership {
    Membership { learners: learners.to_vec(), ..Membership::from_voters(voters.iter().copied()) }
}

/// The state's record of which server each member is, as pairs of member and server.
fn registered(members: &[(u64, u64)]) -> machine::Servers {
    let mut servers = machine::Servers::default();
    members.iter().for_each(|(member, server)| servers.register(MemberId(*member), *server));
    servers
}

/// The record and the servers of a leader, for a test.
struct Rig {
    servers: Servers,
    joining: Joining,
    /// Whether a change of the membership is under way.
    is_changing: bool,
    now_ms: u64,
}

impl Rig {
    fn on_registered(&mut self, registered: Arc<machine::Servers>) {
        self.servers.registered = registered;
        self.joining.on_registered();
    }
}

fn joining(registered: &[(u64, u64)], linked: &[(u64, u64)]) -> Rig {
    let mut servers = Servers::new(OWN, self::registered(registered));
    for (member, server) in linked {
        servers.on_link(MemberId(*member), Some(LinkedServer::of(*server)));
    }
    Rig { servers, joining: Joining::default(), is_changing: false, now_ms: 10 }
}

fn step(rig: &mut Rig, membership: &Membership, peers: &[PeerStatus]) -> Option<JoinStep> {
    step_of(rig, membership, peers, true)
}

fn step_of(
    rig: &mut Rig,
    membership: &Membership,
    peers: &[PeerStatus],
    has_listened: bool,
) -> Option<JoinStep> {
    let (last_index, silent_ticks_min, now_ms) = (1_000, 50, rig.now_ms);
    rig.joining.step(&JoinView {
        servers: &rig.servers,
        membership,
        peers,
        last_index,
        level: Level::FIRST,
        silent_ticks_min,
        has_listened,
        now_ms,
        is_changing: rig.is_changing,
        broken: None,
    })
}

fn submits(member: u64, server: Option<u64>) -> Option<JoinStep> {
    let member = MemberId(member);
    Some(JoinStep::Submit(match server {
        Some(server) => Command::Control(ControlCommand::Register { member, server }),
        None => Command::Control(ControlCommand::Forget { member }),
    }))
}

fn changes(transition: Transition, changes: &[MemberChange]) -> Option<JoinStep> {
    Some(JoinStep::Change(change(transition, changes.to_vec())))
}

const ALL: [(u64, u64); 3] = [(11, 1), (12, 2), (13, 3)];

#[test]
fn who_is_linked_is_registered_one_at_a_time() {
    let mut joining = joining(&[], &[(12, 2)]);
    let members = membership(&[11, 12, 13], &[]);
    assert_eq!(step(&mut joining, &members, &[]), submits(11, Some(1)));
    // The same command is not submitted again until it is applied, or a time has passed.
    assert_eq!(step(&mut joining, &members, &[]), None);
    joining.on_registered(Arc::new(registered(&[(11, 1)])));
    assert_eq!(step(&mut joining, &members, &[]), submits(12, Some(2)));
    joining.on_registered(Arc::new(registered(&[(11, 1), (12, 2)])));
    assert_eq!(step(&mut joining, &members, &[]), None);
}

#[test]
fn a_server_that_comes_with_another_member_replaces_one_that_is_silent() {
    let mut joining = joining(&[(11, 1), (12, 2), (13, 3), (22, 2)], &[(13, 3), (22, 2)]);
    let before = membership(&[11, 12, 13], &[]);
    let heard = [peer(12, Some(3), 1_000), peer(13, Some(0), 1_000)];
    assert_eq!(step(&mut joining, &before, &heard), None, "two servers have one number");
    let silent = [peer(12, Some(50), 900), peer(13, Some(0), 1_000)];
    // A new leader has not heard any member yet, so it takes none for silent.
    assert_eq!(step_of(&mut joining, &before, &silent, false), None);
    let added = changes(Transition::Auto, &[MemberChange::AddLearner(22)]);
    assert_eq!(step(&mut joining, &before, &silent), added);
    let during = membership(&[11, 12, 13], &[22]);
    let behind = [peer(12, None, 900), peer(22, Some(0), 1_000 - CAUGHT_UP_ENTRIES - 1)];
    assert_eq!(step(&mut joining, &during, &behind), None);
    let there = [peer(12, None, 900), peer(22, Some(0), 1_000 - CAUGHT_UP_ENTRIES)];
    let promoted = [MemberChange::AddVoter(22), MemberChange::Remove(12)];
    assert_eq!(step(&mut joining, &during, &there), changes(Transition::Joint, &promoted));
    let outgoing = vec![11, 12, 13];
    let joint = Membership {
        voters_outgoing: outgoing,
        auto_leave: true,
        ..membership(&[11, 13, 22], &[])
    };
    assert_eq!(step(&mut joining, &joint, &there), None);
    let after = membership(&[11, 13, 22], &[]);
    assert_eq!(step(&mut joining, &after, &there), None);
    joining.now_ms += REPLACED_SILENCE_MS;
    assert_eq!(step(&mut joining, &after, &there), submits(12, None));
}

#[test]
fn one_that_was_lost_before_any_leader_knew_it_is_replaced_too() {
    let mut joining = joining(&[(11, 1), (13, 3), (22, 2)], &[(13, 3), (22, 2)]);
    let members = membership(&[11, 12, 13], &[]);
    let heard = [peer(12, Some(3), 1_000), peer(13, Some(0), 1_000)];
    assert_eq!(step(&mut joining, &members, &heard), None);
    let silent = [peer(12, None, 0), peer(13, Some(0), 1_000)];
    let added = changes(Transition::Auto, &[MemberChange::AddLearner(22)]);
    assert_eq!(step(&mut joining, &members, &silent), added);
    let there = [peer(12, None, 0), peer(13, Some(0), 1_000), peer(22, Some(0), 1_000)];
    let promoted = [MemberChange::AddVoter(22), MemberChange::Remove(12)];
    let members = membership(&[11, 12, 13], &[22]);
    assert_eq!(step(&mut joining, &members, &there), changes(Transition::Joint, &promoted));
}

/// Servers 1 and 2 were lost before any leader knew them. The new member of server 2 took the vote
/// of server 1's member, and the old member of server 2 came back for a while.
#[test]
fn a_server_without_a_vote_gets_the_one_of_a_server_that_has_two() {
    let registered = [(11, 1), (12, 2), (13, 3), (22, 2), (24, 4)];
    let mut joining = joining(&registered, &[(13, 3), (22, 2), (24, 4)]);
    let members = membership(&[11, 12, 13, 22], &[24]);
    let of_two = |old, new| [peer(12, old, 900), peer(13, Some(0), 1_000), peer(22, new, 1_000)];
    let with_learner = |peers: [PeerStatus; 3]| [peers.to_vec(), vec![peer(24, Some(0), 1_000)]];
    for both in [of_two(Some(3), Some(0)), of_two(None, Some(50))] {
        let peers = with_learner(both).concat();
        assert_eq!(step(&mut joining, &members, &peers), None, "neither is known to be over");
    }
    let peers = with_learner(of_two(Some(50), Some(0))).concat();
    let promoted = [MemberChange::AddVoter(24), MemberChange::Remove(12)];
    assert_eq!(step(&mut joining, &members, &peers), changes(Transition::Joint, &promoted));
}

/// If one member took both votes of server 2, the ensemble would have one voter fewer for ever.
#[test]
fn a_member_takes_one_vote_where_its_server_has_two() {
    let registered = [(11, 1), (12, 2), (13, 3), (22, 2), (32, 2)];
    let mut joining = joining(&registered, &[(13, 3), (32, 2)]);
    let members = membership(&[11, 12, 13, 22], &[32]);
    let peers = [peer(12, None, 0), peer(13, Some(0), 1_000), peer(22, None, 0)];
    let peers = [peers.to_vec(), vec![peer(32, Some(0), 1_000)]].concat();
    let promoted = [MemberChange::AddVoter(32), MemberChange::Remove(22)];
    assert_eq!(step(&mut joining, &members, &peers), changes(Transition::Joint, &promoted));
}

#[test]
fn whoever_comes_as_a_server_that_was_absent_at_the_birth_is_not_waited_for() {
    let (nobody, other) = (absent_voter(2).unwrap(), absent_voter(4).unwrap());
    let mut joining = joining(&[(11, 1), (13, 3), (22, 2)], &[(13, 3), (22, 2)]);
    let members = membership(&[11, 13, other, nobody], &[]);
    // The leader is new, and has not heard any member yet.
    let peers = [peer(13, None, 0), peer(other, None, 0), peer(nobody, None, 0)];
    let added = changes(Transition::Auto, &[MemberChange::AddLearner(22)]);
    assert_eq!(step_of(&mut joining, &members, &peers, false), added);
    let members = membership(&[11, 13, other, nobody], &[22]);
    let there = [peer(13, None, 0), peer(22, Some(0), 1_000), peer(nobody, None, 0)];
    let promoted = [MemberChange::AddVoter(22), MemberChange::Remove(nobody)];
    let promoted = changes(Transition::Joint, &promoted);
    assert_eq!(step_of(&mut joining, &members, &there, false), promoted);
    // The leader waits for a lost voter, but not for placeholders.
    let members = membership(&[11, 12, 13, other], &[22]);
    joining.on_registered(Arc::new(registered(&[(11, 1), (12, 2), (13, 3), (22, 2)])));
    assert_eq!(step_of(&mut joining, &members, &there, false), None);
}

#[test]
fn one_that_came_and_went_makes_place_for_the_next() {
    let registered = [(11, 1), (12, 2), (13, 3), (22, 2), (32, 2)];
    let mut joining = joining(&registered, &[(13, 3), (32, 2)]);
    let members = membership(&[11, 12, 13], &[22]);
    let peers = [peer(12, None, 0), peer(13, Some(0), 1_000), peer(22, None, 0)];
    let added = [MemberChange::Remove(22), MemberChange::AddLearner(32)];
    assert_eq!(step(&mut joining, &members, &peers), changes(Transition::Auto, &added));
}

#[test]
fn a_learner_that_is_gone_is_removed_once_the_voter_that_it_was_to_replace_is_back() {
    let all = [&ALL[..], &[(22, 2)]].concat();
    let membership = membership(&[11, 12, 13], &[22]);
    let peers =
        |voter, learner| [peer(12, voter, 990), peer(13, Some(0), 1_000), peer(22, learner, 990)];
    let mut joining = joining(&all, &[(12, 2), (13, 3)]);
    let removed = changes(Transition::Auto, &[MemberChange::Remove(22)]);
    assert_eq!(step(&mut joining, &membership, &peers(Some(0), Some(50))), removed);
    assert_eq!(step(&mut joining, &membership, &peers(Some(0), None)), removed);
    // The learner stays as long as the leader has not listened for long enough, or hears the
    // learner, or does not hear the voter either.
    assert_eq!(step_of(&mut joining, &membership, &peers(Some(0), None), false), None);
    assert_eq!(step(&mut joining, &membership, &peers(Some(0), Some(49))), None);
    assert_eq!(step(&mut joining, &membership, &peers(Some(50), Some(50))), None);
    joining.servers.on_link(MemberId(22), Some(LinkedServer::of(2)));
    assert_eq!(step(&mut joining, &membership, &peers(Some(0), Some(50))), None);
}

/// The learner's link ended, and the state forgot the learner before the change that added it was
/// committed.
#[test]
fn a_learner_that_is_gone_and_that_nobody_knows_is_removed() {
    let membership = membership(&[11, 12, 13], &[22]);
    let peers = |silent| [peer(12, Some(0), 990), peer(13, Some(0), 1_000), peer(22, silent, 0)];
    let mut joining = joining(&ALL, &[(12, 2), (13, 3)]);
    let removed = changes(Transition::Auto, &[MemberChange::Remove(22)]);
    assert_eq!(step(&mut joining, &membership, &peers(None)), removed);
    assert_eq!(step_of(&mut joining, &membership, &peers(None), false), None);
    assert_eq!(step(&mut joining, &membership, &peers(Some(49))), None);
    // A learner that comes back is registered first.
    joining.servers.on_link(MemberId(22), Some(LinkedServer::of(2)));
    assert_eq!(step(&mut joining, &membership, &peers(None)), submits(22, Some(2)));
}

#[test]
fn a_server_that_does_not_know_the_level_is_not_added() {
    let mut joining = joining(&[&ALL[..], &[(22, 2)]].concat(), &[(13, 3), (22, 2)]);
    let members = membership(&[11, 12, 13], &[]);
    let peers = [peer(12, None, 0), peer(13, Some(0), 1_000)];
    let at = |joining: &mut Rig, level: Level| {
        joining.joining.step(&JoinView {
            servers: &joining.servers,
            membership: &members,
            peers: &peers,
            last_index: 1_000,
            level,
            silent_ticks_min: 50,
            has_listened: true,
            now_ms: 10,
            is_changing: false,
            broken: None,
        })
    };
    let older = LinkedServer { level_max: Level::FIRST, ..LinkedServer::of(2) };
    joining.servers.on_link(MemberId(22), Some(older));
    assert_eq!(at(&mut joining, Level::ETCD), None);
    let added = changes(Transition::Auto, &[MemberChange::AddLearner(22)]);
    assert_eq!(at(&mut joining, Level::FIRST), added);
    let newer = LinkedServer { level_max: Level::ETCD, ..LinkedServer::of(2) };
    joining.servers.on_link(MemberId(22), Some(newer));
    assert_eq!(at(&mut joining, Level::ETCD), added);
}

#[test]
fn a_server_that_nobody_was_is_registered_and_no_more() {
    let mut all = ALL.to_vec();
    all.push((14, 4));
    let mut joining = joining(&all, &[(12, 2), (13, 3), (14, 4)]);
    let members = membership(&[11, 12, 13], &[]);
    assert_eq!(step(&mut joining, &members, &[]), None);
    joining.servers.on_link(MemberId(14), None);
    // Its addition may be under way: nobody would ever add it again.
    joining.is_changing = true;
    assert_eq!(step(&mut joining, &members, &[]), None);
    joining.is_changing = false;
    // A member that is born makes its links anew.
    assert_eq!(step(&mut joining, &members, &[]), None);
    joining.now_ms += REPLACED_SILENCE_MS;
    assert_eq!(step(&mut joining, &members, &[]), submits(14, None));
}

/// The command that forgets it is on its way: a learner that is registered as no server would never
/// learn that its server was removed.
#[test]
fn a_member_that_is_being_forgotten_is_added_only_after_that() {
    let mut joining = joining(&[(11, 1), (12, 2), (13, 3), (22, 2)], &[(13, 3)]);
    let members = membership(&[11, 12, 13], &[]);
    let silent = [peer(12, Some(50), 900), peer(13, Some(0), 1_000)];
    assert_eq!(step(&mut joining, &members, &silent), None);
    joining.now_ms += REPLACED_SILENCE_MS;
    assert_eq!(step(&mut joining, &members, &silent), submits(22, None));
    joining.servers.on_link(MemberId(22), Some(LinkedServer::of(2)));
    assert_eq!(step(&mut joining, &members, &silent), None);
    // The command may be lost, so it is submitted again.
    joining.now_ms += REGISTERS_INTERVAL_MS;
    assert_eq!(step(&mut joining, &members, &silent), submits(22, None));
    joining.on_registered(Arc::new(registered(&ALL)));
    assert_eq!(step(&mut joining, &members, &silent), submits(22, Some(2)));
    let again = [(11, 1), (12, 2), (13, 3), (22, 2)];
    joining.on_registered(Arc::new(registered(&again)));
    let added = changes(Transition::Auto, &[MemberChange::AddLearner(22)]);
    assert_eq!(step(&mut joining, &members, &silent), added);
}
