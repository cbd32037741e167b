//! Tests with Loops that have simulated disks and files: one member leads, another lends, and a
//! third needs entries that the log no longer has.

use std::collections::{BTreeSet, VecDeque};

use machine::codec::Write;
use machine::{BootId, Command, Digest, Level, Machine, Mark, Origin, SessionId, ZkCommand, entry};
use replica::LogMemory;

use super::super::tests::applied_up_to;

use super::*;
use crate::fronts::zk::tests::rig::{options, own_batch, plenty_of_room, start};
use crate::leader::digests::OwnDigests;
use crate::leader::limits::{LEND_INTERVAL_MS, LENDER_PATIENCE_MS};
use crate::membership::servers::LinkedServer;
use crate::message::{FromApply, FromSnapshot, FromTransfer, LoopInput, SnapshotJob, ToApply};
use crate::order::limits::SNAPSHOT_RETRY_MS;
use crate::order::{Condemned, LoopOutput, Options, Start};
use crate::peer::{Offer, Piece, Want};
use crate::snapshot::fetch::WholeSnapshot;
use crate::snapshot::limits::HOLDER_PATIENCE_MS;

/// A member: its Loop, what its Apply has applied, and the snapshots on its disk.
struct Node {
    member: Loop,
    applied: (u64, u64),
    begun: (u64, u64),
    files: BTreeSet<(u64, u64)>,
    /// Whether the member fails to write snapshots.
    fails: bool,
    /// Whether the member's state differs from that of the others.
    is_wrong: bool,
    /// The snapshots that the member was asked to check, while it finishes no check; `None` if each
    /// check is done at once.
    checks: Option<Vec<SnapshotAt>>,
    taken_count: usize,
    pieces_sent: usize,
    /// Why the member's directory must not be used any more; `None` if it may be used.
    condemned: Option<Condemned>,
}

struct World {
    nodes: Vec<Node>,
    /// Members that are cut off: they neither hear others nor are heard.
    away: BTreeSet<usize>,
    /// Pairs of members: nothing that the first sends arrives at the second.
    cut: BTreeSet<(usize, usize)>,
    flying: VecDeque<(usize, usize, crate::peer::PeerFrame)>,
}

fn id(at: usize) -> MemberId {
    MemberId(at as u64 + 1)
}

fn digest(index: u64, is_wrong: bool) -> Digest {
    Digest(u128::from(index) << 1 | u128::from(is_wrong))
}

fn node(at: usize, count: usize) -> Node {
    let origin = Origin { member: id(at), boot: BootId(1) };
    let voters = (0..count).map(|at| id(at).0).collect();
    let mut restored = start().restored;
    restored.membership = replica::Membership { voters, ..Default::default() };
    let member = Loop::new(Start {
        origin,
        seed: at as u64,
        restored,
        options: Options {
            server: at as u64 + 1,
            log_memory: LogMemory { bytes_max: 0, away_bytes_max: 0, ..LogMemory::default() },
            ..options()
        },
        ..start()
    });
    let mut member = member.unwrap();
    member.handle(plenty_of_room()).unwrap();
    Node {
        member,
        applied: (1, 1),
        begun: (0, 0),
        files: BTreeSet::from([(1, 1)]),
        fails: false,
        is_wrong: false,
        checks: None,
        taken_count: 0,
        pieces_sent: 0,
        condemned: None,
    }
}

impl Node {
    /// Does at once what the threads of a member would do with Loop's output.
    fn take(&mut self, output: LoopOutput) {
        let member = &mut self.member;
        assert!(output.condemned.is_none() || self.is_wrong);
        self.condemned = self.condemned.or(output.condemned);
        let is_wrong = self.is_wrong;
        let digest =
            |index| FromApply::Digest { index: LogIndex(index), digest: digest(index, is_wrong) };
        for job in output.disk {
            member.handle(LoopInput::Persisted(job.id)).unwrap();
        }
        for message in output.apply {
            match message {
                ToApply::Entries(entries) => {
                    let last = entries.last().unwrap();
                    self.applied = (last.index, last.term);
                    for entry in entries.iter() {
                        member.handle(LoopInput::Apply(digest(entry.index))).unwrap();
                    }
                    member.handle(LoopInput::Apply(applied_up_to(last.index))).unwrap();
                }
                ToApply::Freeze => {
                    let (index, term) = self.applied;
                    let (index, mark) = (LogIndex(index), Mark::default());
                    member
                        .handle(LoopInput::Apply(FromApply::Frozen {
                            index,
                            term,
                            mark,
                            image_bytes_max: 0,
                        }))
                        .unwrap();
                }
                ToApply::FreezeStep => {
                    member
                        .handle(LoopInput::Apply(FromApply::Piece {
                            bytes: Vec::new(),
                            last: true,
                        }))
                        .unwrap();
                }
                ToApply::Replace { image, .. } => {
                    self.applied = (image.at.index, image.at.term);
                    member.handle(LoopInput::Apply(digest(image.at.index))).unwrap();
                    member.handle(LoopInput::Apply(applied_up_to(image.at.index))).unwrap();
                }
                _ => {}
            }
        }
        for job in output.snapshot {
            match job {
                SnapshotJob::Begin { index, term, .. } => {
                    self.begun = (index, term);
                    member.handle(LoopInput::Snapshot(FromSnapshot::PieceWritten)).unwrap();
                }
                SnapshotJob::Finish if self.fails => {
                    member.handle(LoopInput::Snapshot(FromSnapshot::Failed)).unwrap()
                }
                SnapshotJob::Finish => {
                    let (index, term) = self.begun;
                    self.taken_count += 1;
                    self.files.insert(self.begun);
                    member
                        .handle(LoopInput::Snapshot(FromSnapshot::Finished { index, term }))
                        .unwrap();
                }
                SnapshotJob::Read { to, want: Want { at, offset } } => {
                    let message = match self.files.contains(&(at.index, at.term)) {
                        true => {
                            let bytes = bytes::Bytes::from_static(b"file");
                            self.pieces_sent += 1;
                            PeerMessage::Piece(Piece { at, offset, total: offset + 4, bytes })
                        }
                        false => PeerMessage::Gone(at),
                    };
                    member.handle(LoopInput::Transfer(FromTransfer::Read { to, message })).unwrap();
                }
                SnapshotJob::Receive { .. } => {
                    member.handle(LoopInput::Transfer(FromTransfer::Written)).unwrap()
                }
                SnapshotJob::CheckReceived(at) if self.checks.is_some() => {
                    self.checks.as_mut().unwrap().push(at);
                }
                SnapshotJob::CheckReceived(at) => {
                    self.files.insert((at.index, at.term));
                    let machine = Box::new(Machine::default());
                    member
                        .handle(LoopInput::Transfer(FromTransfer::Whole(WholeSnapshot {
                            at,
                            machine,
                        })))
                        .unwrap();
                }
                _ => {}
            }
        }
    }
}

impl Node {
    /// Forgets the digests of its own states but the newest, as a restart does.
    fn forget_digests(&mut self) {
        let (index, _) = self.applied;
        self.member.own_digests = OwnDigests::new(index, digest(index, self.is_wrong));
    }
}

impl World {
    /// Members that are linked, have applied everything, and write nothing. One of them restarts
    /// with a wrong state.
    fn idle_with_wrong_start(wrong: usize) -> World {
        let mut world = World::new(3);
        world.come(2);
        world.run(3_000);
        assert!(world.nodes.iter().all(|node| node.applied == world.nodes[0].applied));
        world.nodes[wrong].is_wrong = true;
        world.nodes[wrong].forget_digests();
        world
    }

    fn condemned(&self) -> Vec<usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.condemned.is_some()).map(|(at, _)| at).collect()
    }

    /// `count` members: the first leads, and the last needs entries that the log no longer has.
    fn new(count: usize) -> World {
        let mut world = World {
            nodes: (0..count).map(|at| node(at, count)).collect(),
            away: BTreeSet::new(),
            cut: BTreeSet::new(),
            flying: VecDeque::new(),
        };
        world.link_all();
        world.nodes[0].member.replica.campaign().unwrap();
        world.run(1_000);
        assert!(world.nodes[0].member.role.leads());
        world.leave_behind(count - 1);
        world
    }

    /// Cuts a member off for longer than the log is kept for it.
    fn leave_behind(&mut self, gone: usize) {
        self.go(gone);
        self.run(5_000);
        (0..20).for_each(|_| self.write());
    }

    fn link_all(&mut self) {
        for from in 0..self.nodes.len() {
            for to in (0..self.nodes.len()).filter(|to| *to != from) {
                self.nodes[from]
                    .member
                    .handle(LoopInput::Link { peer: id(to), is_up: true })
                    .unwrap();
                self.nodes[to]
                    .member
                    .handle(LoopInput::Linked {
                        peer: id(from),
                        server: Some(LinkedServer::of(from as u64 + 1)),
                    })
                    .unwrap();
            }
        }
    }

    /// Cuts a member off, and its links break.
    fn go(&mut self, gone: usize) {
        self.away.insert(gone);
        for other in (0..self.nodes.len()).filter(|other| *other != gone) {
            self.nodes[other]
                .member
                .handle(LoopInput::Link { peer: id(gone), is_up: false })
                .unwrap();
            self.nodes[other]
                .member
                .handle(LoopInput::Linked { peer: id(gone), server: None })
                .unwrap();
        }
    }

    /// Lets a member that was cut off come back, with its state as it was.
    fn come(&mut self, at: usize) {
        self.away.remove(&at);
        for other in (0..self.nodes.len()).filter(|other| *other != at) {
            self.nodes[other].member.handle(LoopInput::Link { peer: id(at), is_up: true }).unwrap();
            self.nodes[other]
                .member
                .handle(LoopInput::Linked {
                    peer: id(at),
                    server: Some(LinkedServer::of(at as u64 + 1)),
                })
                .unwrap();
        }
    }

    /// Lets the leader write an entry.
    fn write(&mut self) {
        let nothing = Command::Zk(ZkCommand::ExpireSessions { sessions: Vec::new() });
        self.nodes[0].member.intake.submit_own(&nothing);
        self.run(100);
    }

    fn run(&mut self, for_ms: u64) {
        for _ in 0..for_ms / 100 {
            for at in 0..self.nodes.len() {
                self.nodes[at].member.pass(100);
            }
            self.settle();
        }
    }

    /// Runs until no member sends any more messages.
    fn settle(&mut self) {
        let mut quiet_rounds = 0;
        while quiet_rounds < 5 {
            quiet_rounds = if self.step() { 0 } else { quiet_rounds + 1 };
        }
    }

    /// Runs every member once, and lets one frame arrive or get lost. Returns false if there was no
    /// frame.
    fn step(&mut self) -> bool {
        for at in 0..self.nodes.len() {
            let output = self.nodes[at].member.finish(0);
            let sent = output.peers.iter().map(|(to, frame)| {
                let to = usize::try_from(to.0).unwrap() - 1;
                (at, to, frame.clone())
            });
            self.flying.extend(sent);
            self.nodes[at].take(output);
        }
        let Some((from, to, frame)) = self.flying.pop_front() else { return false };
        let is_lost =
            self.away.contains(&from) || self.away.contains(&to) || self.cut.contains(&(from, to));
        if !is_lost {
            self.nodes[to].member.handle(LoopInput::Peer { from: id(from), frame }).unwrap();
        }
        true
    }

    fn commit(&self, at: usize) -> u64 {
        self.nodes[at].member.status().commit_index
    }

    /// Whether the last member has everything, and for each member how many snapshots it took and
    /// how many pieces it sent.
    fn outcome(&self) -> (bool, Vec<(usize, usize)>) {
        let last = self.nodes.len() - 1;
        let is_there = self.commit(last) == self.commit(0);
        (is_there, self.nodes.iter().map(|node| (node.taken_count, node.pieces_sent)).collect())
    }
}

#[test]
fn a_follower_takes_the_snapshot_and_sends_it() {
    let mut world = World::new(3);
    assert_eq!(world.outcome(), (false, vec![(0, 0); 3]));
    world.come(2);
    world.run(3_000);
    assert_eq!(world.outcome(), (true, vec![(0, 0), (1, 1), (0, 0)]));
    let counts = world.nodes[2].member.counts();
    assert_eq!((counts.snapshots_fetched, counts.snapshots_borrowed), (1, 1));
    assert_eq!(world.nodes[1].member.counts().snapshot_bytes_sent, 4);
    let given = world.nodes.iter().map(|node| node.member.counts().snapshots_given);
    assert_eq!(given.sum::<u64>(), 1);
    // The next time the follower has a snapshot already, and the log still reaches back to it.
    world.leave_behind(2);
    let at = world.commit(0);
    world.nodes[0].member.replica.pin_log(Some(at));
    world.nodes[1].member.want_snapshot();
    (0..3).for_each(|_| world.write());
    world.come(2);
    world.run(3_000);
    assert_eq!(world.outcome(), (true, vec![(0, 0), (2, 2), (0, 0)]));
}

/// In an ensemble of three, a copy of a wrong snapshot would make a wrong majority.
#[test]
fn the_snapshot_of_a_state_that_is_not_the_leaders_is_not_passed_on() {
    let mut world = World::new(3);
    world.nodes[1].is_wrong = true;
    (0..3).for_each(|_| world.write());
    world.come(2);
    world.run(LENDER_PATIENCE_MS + 3_000);
    assert_eq!(world.outcome(), (true, vec![(1, 1), (1, 0), (0, 0)]));
    // With five members, another one lends its snapshot.
    let mut world = World::new(5);
    let asked = 1;
    world.nodes[asked].is_wrong = true;
    (0..3).for_each(|_| world.write());
    world.come(4);
    world.run(LENDER_PATIENCE_MS + 3_000);
    let (is_there, done) = world.outcome();
    assert!(is_there);
    assert_eq!((done[0], done[asked].1), ((0, 0), 0), "{done:?}");
}

#[test]
fn a_start_with_a_wrong_state_is_found_out_although_nobody_writes() {
    for wrong in 1..3 {
        let mut world = World::idle_with_wrong_start(wrong);
        let before = world.commit(0);
        world.link_all();
        world.run(100);
        assert_eq!(world.condemned(), [wrong]);
        assert_eq!(world.commit(0), before);
        assert_eq!(world.nodes[0].member.counts().differences, 1);
    }
}

/// The member was linked before with the right state at the same entry, and restarts with a wrong
/// state.
#[test]
fn a_second_start_at_the_same_entry_is_judged_as_the_first() {
    let mut world = World::idle_with_wrong_start(1);
    world.nodes[1].is_wrong = false;
    world.nodes[1].forget_digests();
    world.link_all();
    world.run(100);
    assert_eq!(world.condemned(), []);
    world.nodes[1].is_wrong = true;
    world.nodes[1].forget_digests();
    world.link_all();
    world.run(100);
    assert_eq!(world.condemned(), [1]);
}

/// The member whose digest decides restarted behind the entry at which the wrong one gave its
/// digest, so a later entry decides.
#[test]
fn members_that_began_at_other_entries_are_compared_at_the_newest() {
    let mut world = World::idle_with_wrong_start(1);
    let index = world.nodes[0].applied.0;
    world.nodes[1].is_wrong = false;
    (0..2).for_each(|_| world.write());
    world.nodes[1].is_wrong = true;
    // The wrong member has replayed the log from here on; the deciding one remembers only the
    // newest digest.
    world.nodes[1].member.own_digests = OwnDigests::new(index, digest(index, true));
    for later in index + 1..=world.nodes[0].applied.0 {
        world.nodes[1].member.own_digests.push(later, digest(later, true));
    }
    world.nodes[2].forget_digests();
    let given = PeerMessage::Digest { index, digest: digest(index, true) };
    let frame = given.encode();
    world.nodes[0].member.handle(LoopInput::Peer { from: id(1), frame }).unwrap();
    world.run(100);
    assert_eq!(world.condemned(), [1]);
}

#[test]
fn a_leader_with_a_wrong_state_is_found_out_by_those_who_begin_to_follow_it() {
    let mut world = World::idle_with_wrong_start(0);
    world.nodes[0].member.replica.resign();
    world.run(1_000);
    world.nodes[0].member.replica.campaign().unwrap();
    world.run(5_000);
    assert_eq!(world.condemned(), [0]);
}

/// The third member is asked for its digest when it can be reached again.
#[test]
fn who_is_away_decides_later_which_state_is_right() {
    let mut world = World::idle_with_wrong_start(1);
    world.go(2);
    world.link_all();
    world.run(100);
    assert_eq!(world.condemned(), []);
    world.come(2);
    world.run(100);
    assert_eq!(world.condemned(), [1]);
}

/// The lender has restarted since it took its snapshot, and knows only the newest digest.
#[test]
fn whoever_does_not_know_the_digest_of_its_snapshot_takes_another() {
    let mut world = World::new(3);
    let at = world.commit(0);
    world.nodes[0].member.replica.pin_log(Some(at));
    world.nodes[1].member.want_snapshot();
    world.write();
    world.nodes[1].forget_digests();
    world.come(2);
    world.run(3_000);
    assert_eq!(world.outcome(), (true, vec![(0, 0), (2, 1), (0, 0)]));
}

/// The leader does not know the digest of its own state at the index of the lender's snapshot
/// either.
#[test]
fn a_snapshot_from_before_what_the_leader_can_compare_is_asked_for_anew() {
    let mut world = World::new(3);
    let at = world.commit(0);
    world.nodes[0].member.replica.pin_log(Some(at));
    world.nodes[1].member.want_snapshot();
    world.write();
    world.nodes[0].forget_digests();
    world.come(2);
    world.run(3_000);
    assert_eq!(world.outcome(), (true, vec![(0, 0), (2, 1), (0, 0)]));
}

#[test]
fn what_is_checked_is_not_taken_for_what_is_offered_meanwhile() {
    let mut world = World::new(3);
    world.nodes[2].checks = Some(Vec::new());
    world.come(2);
    world.run(3_000);
    let checked = world.nodes[2].checks.clone().unwrap();
    let [at] = checked[..] else { panic!("{checked:?}") };
    // The leader assumes that the borrower lost the snapshot, and the lender has a newer one.
    world.write();
    world.nodes[1].member.want_snapshot();
    world.run(1_000);
    world.nodes[0].member.on_gone(id(2), at);
    world.run(3_000);
    assert_eq!(world.nodes[1].taken_count, 2);
    let machine = Box::new(Machine::default());
    let whole = FromTransfer::Whole(WholeSnapshot { at, machine });
    world.nodes[2].member.handle(LoopInput::Transfer(whole)).unwrap();
    world.nodes[2].checks = None;
    world.run(6_000);
    assert!(world.outcome().0);
}

#[test]
fn one_snapshot_does_for_two_members_that_need_one() {
    let mut world = World::new(5);
    world.leave_behind(3);
    world.come(3);
    world.come(4);
    world.run(4_000);
    assert_eq!(world.commit(3), world.commit(0));
    let (is_there, done) = world.outcome();
    assert!(is_there);
    let (taken, sent): (Vec<usize>, Vec<usize>) = done.into_iter().unzip();
    assert_eq!((taken.iter().sum::<usize>(), sent.iter().sum::<usize>()), (1, 2));
    assert_eq!((taken[0], sent[0]), (0, 0));
}

#[test]
fn a_leader_takes_its_own_where_the_follower_cannot_write_one() {
    let mut world = World::new(3);
    world.nodes[1].fails = true;
    world.come(2);
    world.run(2 * LEND_INTERVAL_MS + LENDER_PATIENCE_MS + 2_000);
    assert_eq!(world.outcome(), (true, vec![(1, 1), (0, 0), (0, 0)]));
    // The follower is asked again another time.
    world.nodes[1].fails = false;
    world.run(SNAPSHOT_RETRY_MS);
    world.leave_behind(2);
    world.come(2);
    world.run(3_000);
    assert_eq!(world.outcome(), (true, vec![(1, 1), (1, 1), (0, 0)]));
}

#[test]
fn a_follower_whose_disk_is_full_is_not_asked() {
    let mut world = World::new(3);
    world.nodes[1].member.handle(LoopInput::DiskRoom { is_full: true }).unwrap();
    world.settle();
    world.come(2);
    world.run(LENDER_PATIENCE_MS + 2_000);
    let (is_there, done) = world.outcome();
    assert!(is_there);
    assert_eq!((done[0], done[1].1), ((1, 1), 0));
}

/// The lender sends its file, and dies before all of it has arrived.
#[test]
fn a_lender_that_dies_in_the_middle_is_replaced() {
    let mut world = World::new(5);
    world.cut.insert((1, 4));
    world.cut.insert((2, 4));
    world.cut.insert((3, 4));
    world.come(4);
    world.run(2_500);
    let (is_there, done) = world.outcome();
    assert!(!is_there);
    let lender = done.iter().position(|(taken, _)| *taken == 1).expect("one has taken it");
    assert!(lender > 0, "{done:?}");
    world.go(lender);
    world.cut.clear();
    world.run(HOLDER_PATIENCE_MS + 4_000);
    let (is_there, done) = world.outcome();
    assert!(is_there, "{done:?}");
    assert_eq!(done[0], (0, 0));
    assert_eq!(done.iter().map(|(_, sent)| sent).sum::<usize>(), 1 + done[lender].1);
}

/// Only the leader's messages reach the borrower.
#[test]
fn where_no_lender_gets_through_it_is_the_leaders_own_in_the_end() {
    let mut world = World::new(3);
    world.cut.insert((1, 2));
    world.come(2);
    world.run(2 * (HOLDER_PATIENCE_MS + 2_000) + LENDER_PATIENCE_MS + 3_000);
    let (is_there, done) = world.outcome();
    assert!(is_there, "{done:?}");
    assert_eq!(done[0].1, 1);
}

#[test]
fn a_file_that_is_gone_is_replaced_by_a_newer_one() {
    let mut world = World::new(3);
    world.cut.insert((2, 1));
    world.come(2);
    world.run(2_500);
    assert_eq!(world.nodes[1].taken_count, 1);
    // The borrower's requests are lost. Meanwhile the file is removed, as old snapshots are.
    world.nodes[1].files.clear();
    world.nodes[1].member.want_snapshot();
    (0..3).for_each(|_| world.write());
    world.cut.clear();
    world.run(HOLDER_PATIENCE_MS + 4_000);
    assert_eq!(world.outcome(), (true, vec![(0, 0), (2, 1), (0, 0)]));
}

/// The leader is lost in the middle of the transfer: the next leader picks a lender itself.
#[test]
fn a_new_leader_sees_to_it_as_well() {
    let mut world = World::new(5);
    world.cut.extend((1..4).map(|from| (from, 4)));
    world.come(4);
    world.run(2_500);
    world.go(0);
    world.cut.clear();
    world.run(20_000);
    let leader = (1..4).find(|at| world.nodes[*at].member.role.leads()).unwrap();
    assert_eq!(world.commit(4), world.commit(leader));
    assert_eq!(world.nodes[0].pieces_sent, 0);
}

/// The new leader knows that the last entry is committed only after the member that needs a
/// snapshot has acknowledged it.
#[test]
fn a_new_leader_waits_for_no_snapshot_that_it_cannot_apply_without_its_borrower() {
    let mut world = World::new(5);
    world.leave_behind(3);
    let before = world.commit(0);
    let nothing = Command::Zk(ZkCommand::ExpireSessions { sessions: Vec::new() });
    world.nodes[0].member.intake.submit_own(&nothing);
    while world.commit(0) == before {
        world.step();
    }
    world.cut.insert((0, 2));
    world.settle();
    assert_eq!((world.commit(1), world.commit(2)), (before + 1, before));
    world.nodes[1].member.want_snapshot();
    world.settle();
    world.go(0);
    world.come(3);
    world.come(4);
    world.nodes[2].member.replica.campaign().unwrap();
    world.run(5_000);
    assert!(world.nodes[2].member.role.leads());
    assert!(world.commit(2) > before + 1);
    assert_eq!((world.commit(3), world.commit(4)), (world.commit(2), world.commit(2)));
}

#[test]
fn who_leads_no_longer_takes_no_snapshot_for_anybody() {
    let mut world = World::new(3);
    let follower = &mut world.nodes[1].member;
    let wanted = SnapshotWanted { to: id(2).0, index_min: 1, index_fresh: 1 };
    follower.on_snapshot_wanted(wanted);
    let output = follower.finish(0);
    assert!(output.apply.is_empty() && output.peers.is_empty(), "{output:?}");
    assert!(!follower.role.leads());
}

#[test]
fn what_no_correct_member_says_of_lending_ends_the_link() {
    let mut world = World::new(3);
    world.come(2);
    world.run(100);
    let last_index = world.nodes[0].member.status().last_index;
    let at = |index, term| Some(SnapshotAt { index, term });
    let said = |world: &mut World, to: usize, message: PeerMessage| {
        let input = LoopInput::Peer { from: id(1), frame: message.encode() };
        world.nodes[to].member.handle(input).map_err(|bad| bad.error)
    };
    let lent = |to: usize, at: Option<SnapshotAt>| {
        let snapshot = at.map(|at| LentSnapshot { at, digest: digest(at.index, false) });
        PeerMessage::Lent { to: id(to), snapshot }
    };
    for (index, term) in [(last_index + 1, 2), (u64::MAX, u64::MAX), (last_index, 1)] {
        let refused = said(&mut world, 0, lent(2, at(index, term)));
        assert_eq!(refused, Err(PeerError::ForeignSnapshot { index, term }));
    }
    assert_eq!(said(&mut world, 0, lent(1, at(1, 1))), Err(PeerError::OwnSnapshot));
    let lend = PeerMessage::Lend { to: id(2), index: 1 };
    assert_eq!(said(&mut world, 2, lend), Err(PeerError::OwnSnapshot));
    // Messages that are late, sent to a member that does not lead, or sent by a member that was not
    // asked, change nothing.
    for message in [
        lent(2, at(1, 1)),
        lent(2, at(last_index, 2)),
        lent(2, None),
        PeerMessage::Lend { to: id(2), index: 1 },
        PeerMessage::Lend { to: id(2), index: u64::MAX },
        PeerMessage::Gone(SnapshotAt { index: 1, term: 1 }),
    ] {
        assert_eq!(said(&mut world, 0, message.clone()), Ok(()), "{message:?}");
    }
    for message in [
        PeerMessage::Lend { to: id(0), index: 1 },
        lent(0, at(1, 1)),
        lent(0, None),
        PeerMessage::Gone(SnapshotAt { index: 1, term: 1 }),
    ] {
        let from_borrower = world.nodes[1]
            .member
            .handle(LoopInput::Peer { from: id(2), frame: message.clone().encode() });
        assert!(from_borrower.is_ok(), "{message:?}");
    }
    let output = world.nodes[1].member.finish(0);
    assert!(output.peers.is_empty() && output.snapshot.is_empty(), "{output:?}");
    world.run(4_000);
    assert_eq!(world.outcome(), (true, vec![(0, 0), (1, 1), (0, 0)]));
}

#[test]
fn whoever_could_not_write_a_snapshot_lends_none_for_a_while() {
    let mut world = World::new(3);
    let member = &mut world.nodes[1].member;
    assert!(!member.has_failed_to_write());
    member.handle(LoopInput::Snapshot(FromSnapshot::Failed)).unwrap();
    member.pass(SNAPSHOT_RETRY_MS - 1);
    assert!(member.has_failed_to_write());
    member.pass(1);
    assert!(!member.has_failed_to_write());
}

/// The beginning of a Raft message from the first member to the second, as `replica::message`
/// encodes it.
fn raft_message(kind: u8, term: u64, (index, log_term): (u64, u64), entry_count: u32) -> Vec<u8> {
    let mut message = vec![1, kind, 0, 0];
    message.put_u32(0);
    for field in [id(1).0, id(0).0, term, log_term, index, 0, 0, 0] {
        message.put_u64(field);
    }
    message.put_u32(entry_count);
    message
}

#[test]
fn an_entry_that_cannot_be_applied_ends_the_link() {
    let mut world = World::new(3);
    world.come(2);
    world.run(100);
    let replica = &world.nodes[1].member.replica;
    let (index, term) = (replica.status().last_index, replica.term());
    let log_term = replica.term_of(index).unwrap();
    let close = Command::Zk(ZkCommand::CloseSession { session: SessionId(1) });
    let origin = Origin { member: id(0), boot: BootId(1) };
    let batch = own_batch(7, &close).stamp(origin, 1_000);
    let whole = entry::encode(0, 0, Level::FIRST, &[batch]);
    let mut of_later_level = whole[..entry::HEADER_BYTES].to_vec();
    of_later_level[2] = 0xff;
    let mut appended = |payload: &[u8]| {
        let mut message = raft_message(3, term, (index, log_term), 1);
        message.put_u64(index + 1);
        message.put_u64(term);
        message.put_u8(0);
        message.put_bytes(payload);
        let frame = PeerMessage::Raft(message.into()).encode();
        let input = LoopInput::Peer { from: id(0), frame };
        world.nodes[1].member.handle(input).map_err(|bad| bad.error)
    };
    for payload in [&b"x"[..], &whole[..whole.len() - 1], &[&whole[..], b"x"].concat()] {
        let refused = appended(payload);
        assert!(
            matches!(refused, Err(PeerError::Entry { index: at, .. }) if at == index + 1),
            "{refused:?}"
        );
    }
    // An entry of a later level is accepted: Apply ends at it, and names the version that it needs.
    assert_eq!(appended(&of_later_level), Ok(()));
    assert_eq!(appended(&whole), Ok(()));
}

#[test]
fn an_offer_of_another_entry_than_the_committed_one_ends_the_link() {
    let mut world = World::new(3);
    world.come(2);
    world.run(100);
    let replica = &world.nodes[1].member.replica;
    let (index, term_now) = (replica.commit_index(), replica.term());
    let term = replica.term_of(index).unwrap();
    let membership = replica.membership().encode();
    let mut offered = |term: u64| {
        let mut message = raft_message(7, term_now.max(term), (0, 0), 0);
        message.put_u64(index);
        message.put_u64(term);
        message.extend_from_slice(&membership);
        let offer = PeerMessage::Offer(Offer { holder: id(0), message: message.into() });
        let input = LoopInput::Peer { from: id(0), frame: offer.encode() };
        world.nodes[1].member.handle(input).map_err(|bad| bad.error)
    };
    assert_eq!(offered(term + 1), Err(PeerError::ForeignSnapshot { index, term: term + 1 }));
    assert_eq!(offered(term), Ok(()));
}
