//! Tests of Apply: how it answers waiters, when it ends, and that answers and changes are the same
//! wherever its holds end.

use std::collections::BTreeMap;

use zk::request::ReadKind;

use crate::limits::SMALL_REPLY_BYTES;
use crate::reply_room::HeldReply;
use machine::control::list_change::{
    Asker, ChangeFlags, ChangeId, ChangeRequest, JoiningServer, ListChange,
};
use machine::entry::{BatchBuilder, UnstampedBatch, encode_identities};
use machine::etcd_v2::change::DeadlineChange;
use machine::etcd_v2::command::{Command as EtcdV2Command, Write};
use machine::etcd_v2::key::Key;
use machine::zk::command::AskedAcl;
use machine::{
    BootId, Command, ConnectionId, ContainerSearch, ControlCommand, CreateMode, MemberId, Op,
    ServerList, ServerRecord, ServerRole, SessionChange, SessionId, Settings, Stamp, ZkAddresses,
    ZkCommand,
};

use super::own::NOTHING;
use super::*;
use crate::fronts::zk::tests::rig::{ORIGIN, Random, entry_of, own_batch};
use crate::limits::APPLY_HOLD_ANSWER_BYTES_MAX;
use crate::local_read::OwnedRead;
use crate::message::{Caller, FrontCounts, Unavailable};
use crate::message::{Fate, GivenUp, GivenUpAt};
use crate::peer::SnapshotAt;
use crate::spaces::Found;

fn create(session: i64, path: &str) -> Command<'_> {
    let (malformed, acl, mode, ttl_ms) = (false, AskedAcl::Open, CreateMode::Persistent, -1);
    let op = Op::Create { path, malformed, data: Some(b"v"), acl, mode, ttl_ms };
    Command::Zk(ZkCommand::Write { session: SessionId(session), op })
}

fn set<'a>(session: i64, path: &'a str, data: &'a str) -> Command<'a> {
    let (malformed, version) = (false, -1);
    let op = Op::SetData { path, malformed, data: Some(data.as_bytes()), version };
    Command::Zk(ZkCommand::Write { session: SessionId(session), op })
}

fn open(session: i64) -> Command<'static> {
    Command::Zk(ZkCommand::OpenSession {
        session: SessionId(session),
        password: [1; 16],
        timeout_ms: 4_000,
    })
}

/// A batch of these commands, each from the connection given with it.
fn batch(commands: &[(u64, Command<'_>)]) -> UnstampedBatch {
    let mut builder = BatchBuilder::default();
    let nobody = encode_identities([].into_iter());
    for (connection, command) in commands {
        builder.push(ConnectionId(*connection), &nobody, command).expect("it fits");
    }
    builder.finish()
}

fn get(xid: i32, path: &str) -> LocalRead {
    let read =
        OwnedRead { kind: ReadKind::GetData, path: path.into(), watch: false, is_permitted: false };
    LocalRead::Zk { xid, read, identities: [].into() }
}

fn waiter(connection: u64, reads: Vec<LocalRead>) -> Waiter {
    Waiter { reads, ..Waiter::new(ConnectionId(connection), Ticket(0)) }
}

fn expect(sequence: u64, front: Option<u32>, waiters: Vec<Waiter>) -> ToApply {
    ToApply::Expect { sequence, front: front.map(FrontId), waiters }
}

fn refuse(front: u32, connection: u64) -> ToApply {
    let (front, waiters) = (FrontId(front), vec![waiter(connection, vec![get(99, "/a")])]);
    ToApply::Refuse { front, waiters, reason: Unavailable::DiskFull }
}

fn sync(index: u64, connection: u64) -> ToApply {
    let (front, connection) = (FrontId(0), ConnectionId(connection));
    let caller = Caller { front, connection, ticket: Ticket(0) };
    ToApply::Sync { index: LogIndex(index), caller }
}

fn entries(entries: Vec<Entry>) -> ToApply {
    ToApply::Entries(entries)
}

/// Messages of all kinds for Apply: entries of several batches, of Loop itself, of other members,
/// skipped ones, empty ones, refusals in between, and syncs.
fn everything() -> Vec<ToApply> {
    let other = Origin { member: MemberId(9), boot: BootId(2) };
    let older = Origin { member: MemberId(9), boot: BootId(1) };
    let one = batch(&[(1, open(1)), (2, open(2))]);
    let two = batch(&[(1, create(1, "/a")), (1, set(1, "/a", "1")), (2, set(2, "/n", "x"))]);
    let three = batch(&[(3, open(3)), (3, set(3, "/a", "2")), (3, set(3, "/a", "3"))]);
    let four = own_batch(0, &Command::Zk(ZkCommand::Configure(Settings::default())));
    let five = batch(&[(1, set(1, "/a", "4")), (2, create(2, "/b"))]);
    let theirs = batch(&[(7, open(7)), (7, create(7, "/theirs"))]);
    let again = batch(&[(7, create(7, "/twice"))]);
    let membership = replica::Entry {
        index: 5,
        term: 1,
        kind: EntryKind::Membership,
        payload: bytes::Bytes::from_static(b"whatever"),
    };
    let empty =
        replica::Entry { index: 4, term: 1, kind: EntryKind::Normal, payload: bytes::Bytes::new() };
    let reads = vec![get(10, "/a"), get(11, "/n")];
    vec![
        refuse(0, 1),
        expect(1, Some(0), vec![waiter(1, vec![]), waiter(2, vec![])]),
        refuse(0, 2),
        refuse(1, 3),
        entries(vec![entry_of(2, &[one.clone().stamp(ORIGIN, 1)])]),
        sync(2, 1),
        expect(2, Some(0), vec![waiter(1, vec![]), waiter(1, reads), waiter(2, vec![])]),
        refuse(0, 1),
        expect(
            3,
            Some(1),
            vec![waiter(3, vec![]), waiter(3, vec![get(12, "/a")]), waiter(3, vec![])],
        ),
        expect(4, None, vec![]),
        entries(vec![
            entry_of(3, &[two.stamp(ORIGIN, 2), three.stamp(ORIGIN, 3), four.stamp(ORIGIN, 4)]),
            empty,
            membership,
        ]),
        sync(3, 1),
        sync(5, 2),
        expect(5, Some(0), vec![waiter(1, vec![get(13, "/a")]), waiter(2, vec![])]),
        refuse(0, 2),
        entries(vec![entry_of(
            6,
            &[
                theirs.clone().stamp(other, 1),
                // From the other member: a duplicate, one behind a gap, one of an older boot. From
                // this member: a duplicate, and one of an older boot.
                theirs.stamp(other, 1),
                again.clone().stamp(other, 3),
                again.clone().stamp(older, 2),
                one.clone().stamp(ORIGIN, 1),
                one.stamp(Origin { boot: BootId(2), ..ORIGIN }, 5),
                five.stamp(ORIGIN, 5),
                again.stamp(other, 2),
            ],
        )]),
        sync(6, 1),
    ]
}

/// The log of a member that was started three times, but whose directory is an old copy that has
/// counted fewer starts: the present start is the third again, or the second, and it has announced
/// one batch or none.
#[test]
fn what_a_life_that_it_does_not_know_of_handed_over_is_never_applied() {
    let set = |sequence: u64, boot: u64| {
        batch(&[(1, open(1))]).stamp(Origin { boot: BootId(boot), ..ORIGIN }, sequence)
    };
    let theirs = batch(&[(7, open(7))]).stamp(Origin { member: MemberId(9), ..ORIGIN }, 1);
    let check = |announced: u64, batches: &[bytes::Bytes], expected: Option<u64>| {
        let (mut apply, mut machine) =
            (Apply::new(ORIGIN, LogIndex(1), 1, machine::Level::RELEASED), Machine::default());
        (1..=announced).for_each(|sequence| {
            apply.receive(expect(sequence, Some(0), vec![waiter(1, vec![])]));
        });
        apply.receive(entries(vec![entry_of(2, batches), entry_of(3, &[])]));
        apply.receive(sync(2, 1));
        (0..20).for_each(|_| {
            apply.step(&mut machine, 1);
        });
        let told = apply.take_output().to_loop.into_iter().find_map(|message| match message {
            FromApply::Outlived { boot } => Some(boot.0),
            _ => None,
        });
        assert_eq!(told, expected);
        let is_whole = machine.index() == LogIndex(3);
        assert_eq!(is_whole, expected.is_none());
        assert_eq!(apply.log.last_index, machine.index());
        assert!(expected.is_none() || !apply.has_work());
    };
    let (own, later) = (ORIGIN.boot.0, ORIGIN.boot.0 + 1);
    check(1, &[theirs.clone(), set(1, own)], None);
    check(1, &[set(4, own - 1), set(1, own)], None);
    check(0, &[theirs.clone(), set(1, own)], Some(own));
    check(1, &[set(1, own), set(2, own)], Some(own));
    check(0, &[theirs.clone(), set(1, later)], Some(later));
    check(1, &[set(1, own), theirs, set(1, later)], Some(later));
}

#[test]
fn a_snapshot_that_holds_what_another_life_handed_over_does_not_become_the_state() {
    for (boot, sequence, is_known) in [(2, 9, true), (3, 1, true), (3, 2, false), (4, 1, false)] {
        let mut machine = Machine::default();
        let origin = Origin { boot: BootId(boot), ..ORIGIN };
        (1..=sequence).for_each(|sequence| assert!(machine.begin_batch(origin, sequence)));
        machine.finish_entry(LogIndex(2));
        let at = SnapshotAt { index: 2, term: 1 };
        let mut apply = Apply::new(ORIGIN, LogIndex(1), 1, machine::Level::RELEASED);
        apply.receive(expect(1, None, Vec::new()));
        let image = WholeSnapshot { at, machine: Box::new(machine) };
        apply.receive(ToApply::Replace { image, is_voter: true });
        let mut state = Machine::default();
        apply.step(&mut state, 1);
        let told = apply.take_output().to_loop;
        let is_told = told.iter().any(|it| matches!(it, FromApply::Outlived { .. }));
        assert_eq!(is_told, !is_known, "{boot} {sequence}");
        assert_eq!(state.index() == LogIndex(2), is_known);
    }
}

#[test]
fn nothing_is_applied_from_an_entry_on_that_cannot_be_read() {
    let whole = entry_of(3, &[batch(&[(1, open(1)), (2, open(2))]).stamp(ORIGIN, 1)]).payload;
    let end = whole.len();
    let cut = |count: usize| whole.slice(..count);
    let longer = [&whole[..], b"x"].concat().into();
    let mut kind = whole.to_vec();
    // The kind of the first command comes right behind that command's header.
    kind[entry::HEADER_BYTES + 36 + 14] = 200;
    for (payload, applied) in [
        (cut(1), 0),
        (cut(entry::HEADER_BYTES), 0),
        (cut(end - 1), 0),
        (longer, 2),
        (kind.into(), 0),
    ] {
        let mut apply = Apply::new(OTHER_ORIGIN, LogIndex(1), 1, Level::RELEASED);
        let mut machine = Machine::default();
        let unreadable = Entry { payload, ..entry_of(3, &[]) };
        apply.receive(entries(vec![entry_of(2, &[]), unreadable, entry_of(4, &[])]));
        (0..9).for_each(|_| {
            apply.step(&mut machine, 1);
        });
        let told = apply.take_output().to_loop;
        let said: Vec<String> = told
            .iter()
            .filter_map(|message| match message {
                FromApply::Unreadable(entry) => Some(entry.to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("log entry 3 cannot be applied: "), "{said:?}");
        assert_eq!(machine.index(), LogIndex(2));
        assert_eq!(machine.zk().sessions().len(), applied);
        assert!(apply.is_ended());
        assert!(!apply.has_work());
    }
}

#[test]
fn an_entry_that_installs_an_image_that_is_not_there_ends_the_member() {
    let install = Command::Control(ControlCommand::InstallImage { hash: 7 });
    let payload = entry::encode(1, 0, Level::FIRST, &[own_batch(0, &install).stamp(ORIGIN, 1)]);
    let mut apply = Apply::new(OTHER_ORIGIN, LogIndex(1), 1, Level::RELEASED);
    let mut machine = Machine::default();
    apply.receive(entries(vec![Entry { payload, ..entry_of(2, &[]) }, entry_of(3, &[])]));
    (0..9).for_each(|_| {
        apply.step(&mut machine, 1);
    });
    let cause = Unreadable::NoImage { hash: 7 };
    let told = apply.take_output().to_loop;
    assert!(told.contains(&FromApply::Unreadable(UnreadableEntry { index: 2, cause })), "{told:?}");
    assert_eq!(machine.index(), LogIndex(1));
    assert!(apply.is_ended());
}

/// The entries of a faulty leader hold a batch in this member's name that this member did not hand
/// over.
#[test]
fn a_batch_that_is_not_the_one_handed_over_ends_the_member() {
    let two = [(1, open(1)), (2, open(2))];
    let replaced = [(1, NOTHING), (2, open(2))];
    let given_up = Waiter { is_given_up: true, ..waiter(1, vec![]) };
    let of_two = || vec![waiter(1, vec![]), waiter(2, vec![])];
    for (what, announced, commands, waiters, sessions) in [
        ("it is the one", 1, &two[..], of_two(), Some(2)),
        (
            "its first command was given up",
            1,
            &replaced,
            vec![given_up, waiter(2, vec![])],
            Some(1),
        ),
        ("a command is replaced that was not given up", 1, &replaced, of_two(), None),
        ("another connection's command", 1, &[(1, open(1)), (3, open(2))], of_two(), None),
        ("a command is missing", 1, &two[..1], of_two(), None),
        ("another batch was announced", 2, &two[..], of_two(), None),
    ] {
        let mut apply = Apply::new(ORIGIN, LogIndex(1), 1, Level::RELEASED);
        let mut machine = Machine::default();
        apply.receive(expect(announced, Some(0), waiters));
        let payload = entry::encode(1, 0, Level::FIRST, &[batch(commands).stamp(ORIGIN, 1)]);
        apply.receive(entries(vec![Entry { payload, ..entry_of(2, &[]) }]));
        (0..9).for_each(|_| {
            apply.step(&mut machine, 1);
        });
        let cause = Unreadable::NotOwn { sequence: 1 };
        let told = FromApply::Unreadable(UnreadableEntry { index: 2, cause });
        let is_told = apply.take_output().to_loop.contains(&told);
        assert_eq!((is_told, apply.is_ended()), (sessions.is_none(), sessions.is_none()), "{what}");
        let opened = machine.zk().sessions().len();
        assert!(sessions.is_none_or(|sessions| sessions == opened), "{what}: {opened}");
    }
}

const OTHER_ORIGIN: Origin = Origin { member: MemberId(77), boot: BootId(1) };

#[test]
fn nothing_is_applied_from_an_entry_on_that_needs_a_level_that_is_not_known() {
    let raise = Command::Control(ControlCommand::Raise(Level::ETCD.into()));
    let raising = batch(&[(0, raise)]).stamp(Origin { member: MemberId(9), ..ORIGIN }, 1);
    let payload = entry::encode(1, 0, Level::ETCD, &[raising]);
    let raised = Entry { payload, ..entry_of(3, &[]) };
    for (level_max, is_known) in [(Level::FIRST, false), (Level::ETCD, true)] {
        let mut apply = Apply::new(ORIGIN, LogIndex(1), 1, level_max);
        let mut machine = Machine::default();
        apply.receive(entries(vec![entry_of(2, &[]), raised.clone(), entry_of(4, &[])]));
        (0..9).for_each(|_| {
            apply.step(&mut machine, 1);
        });
        let told = apply.take_output().to_loop;
        let unknown = told.iter().find_map(|message| match message {
            FromApply::Unknown(entry) => Some(entry.to_string()),
            _ => None,
        });
        let said = "log entry 3 needs level 2, and this server knows up to 1: install version \
                    0.2.0 or later, or raise level_max where it is set";
        assert_eq!(unknown.as_deref(), (!is_known).then_some(said));
        assert_eq!(machine.index(), LogIndex(if is_known { 4 } else { 2 }));
        assert_eq!(apply.is_ended(), !is_known);
        assert!(!apply.has_work());
        // Between two messages Loop may look at what it knows: the level must be known first.
        let place = |is: fn(&FromApply) -> bool| told.iter().position(is);
        let raised = place(|message| matches!(message, FromApply::Raised(_)));
        let applied = place(|message| matches!(message, FromApply::Applied { .. }));
        assert_eq!(raised.is_some(), is_known);
        assert!(!is_known || raised < applied, "{told:?}");
    }
}

/// Once the state has forgotten a member, it no longer knows which of the member's batches it
/// holds: a batch that the member hands over again could be applied twice, or never.
#[test]
fn a_member_that_the_state_forgets_applies_nothing_more() {
    let of = |member: MemberId, commands: &[(u64, Command<'_>)], sequence: u64| {
        batch(commands).stamp(Origin { member, ..ORIGIN }, sequence)
    };
    let leader = MemberId(9);
    // Each case: the member that the state forgets, whether this member has handed over a batch
    // before, whether that batch is applied before, and whether this member ends.
    for (forgotten, has_given, has_applied, expected) in [
        (ORIGIN.member, true, true, true),
        (ORIGIN.member, true, false, false),
        (ORIGIN.member, false, false, false),
        (MemberId(8), true, true, false),
    ] {
        let (mut apply, mut machine) =
            (Apply::new(ORIGIN, LogIndex(1), 1, machine::Level::RELEASED), Machine::default());
        let (mut before, mut behind) = (Vec::new(), vec![of(leader, &[(0, open(4))], 2)]);
        if has_given {
            apply.receive(expect(1, Some(0), vec![waiter(1, vec![])]));
            let given = of(ORIGIN.member, &[(1, open(1))], 1);
            if has_applied { before.push(given) } else { behind.push(given) }
        }
        apply.receive(entries(vec![
            entry_of(2, &before),
            entry_of(
                3,
                &[of(
                    leader,
                    &[(0, Command::Control(ControlCommand::Forget { member: forgotten }))],
                    1,
                )],
            ),
            entry_of(4, &behind),
        ]));
        (0..20).for_each(|_| {
            apply.step(&mut machine, 1);
        });
        let told = apply.take_output().to_loop;
        assert_eq!(told.contains(&FromApply::Forgotten), expected);
        assert_eq!(machine.index(), LogIndex(if expected { 2 } else { 4 }));
        assert!(!apply.has_work());
    }
}

#[test]
fn a_snapshot_that_has_forgotten_this_member_does_not_become_the_state() {
    let known = Origin { boot: BootId(2), ..ORIGIN };
    let stranger = Origin { member: MemberId(9), ..ORIGIN };
    // Each case: the origin of a batch in the snapshot, how many batches this start has announced
    // before the snapshot came and after it, whether this member has a vote, and whether it ends.
    for (origin, announced, behind, is_voter, expected) in [
        (known, 1, 0, false, false),
        (stranger, 0, 0, false, false),
        (stranger, 1, 0, false, true),
        (stranger, 1, 0, true, false),
        (stranger, 0, 1, false, false),
    ] {
        let mut machine = Machine::default();
        assert!(machine.begin_batch(origin, 1));
        machine.finish_entry(LogIndex(2));
        let at = SnapshotAt { index: 2, term: 1 };
        let mut apply = Apply::new(ORIGIN, LogIndex(1), 1, machine::Level::RELEASED);
        let announce = |apply: &mut Apply, count| {
            for _ in 0..count {
                apply.receive(expect(1, Some(0), vec![waiter(1, vec![])]));
            }
        };
        announce(&mut apply, announced);
        let image = WholeSnapshot { at, machine: Box::new(machine) };
        apply.receive(ToApply::Replace { image, is_voter });
        announce(&mut apply, behind);
        let mut state = Machine::default();
        apply.step(&mut state, 1);
        let told = apply.take_output().to_loop;
        assert_eq!(told.contains(&FromApply::Forgotten), expected);
        assert_eq!(state.index() == LogIndex(2), !expected);
    }
}

#[test]
fn a_snapshot_in_which_this_member_serves_without_a_vote_has_not_forgotten_it() {
    let observer = JoiningServer {
        role: ServerRole::Observer,
        zk: ZkAddresses { servers: "s1:2888:3888".to_string(), clients: None },
    };
    let joining = BTreeMap::from([
        (1, observer.clone()),
        (
            2,
            JoiningServer {
                role: ServerRole::Voter,
                zk: ZkAddresses { servers: "s2:2888:3888".to_string(), clients: None },
            },
        ),
    ]);
    for registered in [ORIGIN.member, MemberId(9)] {
        let mut machine = Machine::default();
        let request = ChangeRequest {
            by: Asker::Operator,
            version: None,
            flags: ChangeFlags::default(),
            learners_max: 1,
            change: ListChange::Whole(joining.clone()),
        };
        let record = ServerRecord {
            name: String::new(),
            role: ServerRole::Voter,
            peer_urls: Vec::new(),
            client_urls: Vec::new(),
            zk: None,
        };
        let servers = BTreeMap::from([(2, record)]);
        for command in [
            ControlCommand::SetServers(ServerList { version: 0, servers }),
            ControlCommand::Raise(machine::Level::MEMBERS.into()),
            ControlCommand::Request(request),
            ControlCommand::Accept(ChangeId(3)),
            ControlCommand::Finish(ChangeId(3)),
            ControlCommand::Register { member: registered, server: 1 },
        ] {
            let connection = ConnectionId(1);
            let stamp = Stamp { time_ms: 1, origin: ORIGIN, connection, identities: &[] };
            machine.apply(&stamp, &Command::Control(command), &mut machine::Changes::default());
        }
        machine.finish_entry(LogIndex(2));
        let mut apply = Apply::new(ORIGIN, LogIndex(1), 1, machine::Level::MEMBERS);
        apply.receive(expect(1, Some(0), vec![waiter(1, vec![])]));
        let at = SnapshotAt { index: 2, term: 1 };
        let image = WholeSnapshot { at, machine: Box::new(machine) };
        apply.receive(ToApply::Replace { image, is_voter: false });
        apply.step(&mut Machine::default(), 1);
        let told = apply.take_output().to_loop;
        assert_eq!(told.contains(&FromApply::Forgotten), registered != ORIGIN.member);
    }
}

/// All output of Apply.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// The answers to commands, one list per Front.
    answers: Vec<Vec<String>>,
    changes: Vec<String>,
    sessions: Vec<SessionChange>,
    configured: usize,
    index: u64,
    /// The digest after each entry, with the entry's index.
    digests: Vec<(u64, machine::Digest)>,
    digest: u128,
    syncs: Vec<u64>,
}

struct Player {
    apply: Apply,
    machine: Machine,
    seen: Seen,
    /// The index of each entry, and the ordinal at its end.
    ends: Vec<(u64, u64)>,
}

impl Player {
    fn new() -> Player {
        let seen = Seen { answers: vec![Vec::new(), Vec::new()], ..Seen::default() };
        let apply = Apply::new(ORIGIN, LogIndex(1), 1, machine::Level::RELEASED);
        Player { apply, machine: Machine::default(), seen, ends: Vec::new() }
    }

    fn step(&mut self, commands: usize) {
        assert!(self.apply.step(&mut self.machine, commands) <= commands);
        let mut output = self.apply.take_output();
        let changes = output.changes.clone();
        for (made, path) in changes.zk.iter() {
            self.seen.changes.push(format!("{:?} {:?} {path}", made.mark.ordinal, made.change));
        }
        for (front, delivery) in
            output.deliveries(FrontCounts { zk: 2, etcd: 0 }, &WatchInterest::default())
        {
            for answer in delivery.answers {
                match answer {
                    Answer::Synced { connection, mark, .. } => {
                        assert_eq!(mark, self.machine.mark());
                        self.seen.syncs.push(connection.0);
                    }
                    answer => self.seen.answers[front.0 as usize].push(format!("{answer:?}")),
                }
            }
        }
        for message in output.to_loop {
            if let FromApply::Digest { index, digest } = message {
                self.seen.digests.push((index.0, digest));
                continue;
            }
            let FromApply::Applied { index, news, installed: None, .. } = message else {
                panic!("{message:?}")
            };
            assert_eq!(index, self.machine.index());
            self.seen.sessions.extend(news.zk.sessions);
            self.seen.configured += usize::from(news.zk.settings.is_some());
            self.seen.index = index.0;
        }
        self.ends.push((self.machine.index().0, self.machine.mark().ordinal.0));
    }

    fn finish(mut self) -> Seen {
        for _ in 0..1_000 {
            if !self.apply.has_work() {
                self.seen.digest = self.machine.digest().0;
                return self.seen;
            }
            self.step(usize::MAX);
        }
        panic!("it never comes to rest");
    }
}

fn play(holds: &[usize]) -> Seen {
    let mut player = Player::new();
    everything().into_iter().for_each(|message| player.apply.receive(message));
    holds.iter().for_each(|commands| player.step(*commands));
    player.finish()
}

#[test]
fn holds_that_end_anywhere_give_the_answers_of_one_hold() {
    let whole = play(&[]);
    assert_eq!(whole.index, 6);
    assert_eq!((whole.configured, whole.sessions.len()), (1, 4));
    assert_eq!(whole.syncs, [1, 1, 2, 1]);
    for first in 0..20 {
        for second in 0..5 {
            assert_eq!(play(&[first, second]), whole, "holds of {first} and {second}");
        }
    }
    for each in 1..5 {
        assert_eq!(play(&[each; 40]), whole, "holds of {each}");
    }
    for seed in 0..200 {
        let mut random = Random(seed);
        let holds: Vec<usize> = (0..20).map(|_| random.below(4)).collect();
        assert_eq!(play(&holds), whole, "holds of {holds:?}");
    }
}

#[test]
fn answers_are_the_same_however_late_the_messages_come() {
    let whole = play(&[]);
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut player = Player::new();
        for message in everything() {
            player.apply.receive(message);
            for _ in 0..random.below(4) {
                player.step(random.below(3));
            }
        }
        assert_eq!(player.finish(), whole, "seed {seed}");
    }
}

#[test]
fn every_waiter_is_answered_in_the_order_of_handing_over() {
    let whole = play(&[]);
    let connections = |front: usize| -> Vec<(u64, bool)> {
        let parse = |text: &String| {
            let (_, rest) = text.split_once("ConnectionId(").unwrap();
            let number = rest.split(')').next().unwrap().parse().unwrap();
            (number, text.contains("DiskFull"))
        };
        whole.answers[front].iter().map(parse).collect()
    };
    let (done, refused) = (false, true);
    assert_eq!(
        connections(0),
        [
            (1, refused),
            (1, done),
            (2, done),
            (2, refused),
            (1, done),
            (1, done),
            (2, done),
            (1, refused),
            (1, done),
            (2, done),
            (2, refused),
        ]
    );
    assert_eq!(connections(1), [(3, refused), (3, done), (3, done), (3, done)]);
}

#[test]
fn skipped_batches_change_nothing() {
    let mut player = Player::new();
    everything().into_iter().for_each(|message| player.apply.receive(message));
    while player.apply.has_work() {
        player.step(1);
    }
    assert!(player.machine.zk().tree().find("/theirs").is_some());
    // Of the other member's batches, only the one that followed its last applied batch was applied.
    assert_eq!(player.machine.zk().tree().find("/twice").map(|znode| znode.stat().czxid), Some(13));
    let boots =
        [MemberId(9), ORIGIN.member].map(|member| player.machine.control().last_batch(member));
    assert_eq!(boots, [Some((BootId(2), 2)), Some((ORIGIN.boot, 5))]);
}

#[test]
fn a_read_sees_the_write_it_travelled_with_and_not_the_next() {
    let whole = play(&[1; 40]);
    let text = whole.answers[0][5].clone();
    let frames: Vec<&str> = text.split("frame: [").skip(1).collect();
    assert_eq!(frames.len(), 2);
    // The value "1" in the frame, one byte long, behind length, xid, zxid and error.
    assert!(frames[0].contains("0, 0, 0, 1, 49, "), "{text}");
    assert!(frames[1].contains("ErrorCode(-101)"), "{text}");
}

#[test]
fn a_sync_is_answered_when_its_index_is_applied_and_not_before() {
    let mut player = Player::new();
    everything().into_iter().for_each(|message| player.apply.receive(message));
    while player.apply.has_work() {
        let before = player.seen.syncs.len();
        player.step(1);
        let index = player.machine.index().0;
        let due = [2, 3, 5, 6].iter().filter(|wanted| **wanted <= index).count();
        assert_eq!(player.seen.syncs.len(), due, "after {before} at index {index}");
    }
    // A sync for an index that is already applied is answered, too.
    player.apply.receive(sync(6, 8));
    assert!(player.apply.has_work());
    player.step(0);
    assert_eq!(player.seen.syncs.last(), Some(&8));
    player.apply.receive(sync(7, 8));
    assert!(!player.apply.has_work());
}

#[test]
fn settings_replaced_within_an_entry_are_reported_though_the_entry_goes_on() {
    let mut player = Player::new();
    let configure =
        own_batch(0, &Command::Zk(ZkCommand::Configure(Settings::default()))).stamp(ORIGIN, 1);
    let more = batch(&[(1, set(1, "/a", "1")), (1, set(1, "/a", "2"))]).stamp(ORIGIN, 2);
    player.apply.receive(expect(1, None, vec![]));
    player.apply.receive(expect(2, Some(0), vec![waiter(1, vec![]), waiter(1, vec![])]));
    player.apply.receive(entries(vec![entry_of(2, &[configure, more])]));
    player.step(1);
    assert_eq!((player.seen.configured, player.seen.index), (1, 1));
    let seen = player.finish();
    assert_eq!((seen.configured, seen.index), (1, 2));
}

#[test]
fn an_image_is_started_between_entries_only() {
    for asked_after in 0..14 {
        let mut player = Player::new();
        everything().into_iter().for_each(|message| player.apply.receive(message));
        (0..asked_after).for_each(|_| player.step(1));
        player.apply.receive(ToApply::Freeze);
        let mut frozen = None;
        while frozen.is_none() {
            assert!(player.apply.has_work());
            player.apply.step(&mut player.machine, 1);
            let (index_now, mark) = (player.machine.index(), player.machine.mark());
            for message in player.apply.take_output().to_loop {
                if let FromApply::Frozen { index, term, mark: of_image, .. } = message {
                    assert!(player.apply.log.at.is_none());
                    assert_eq!((index, term, of_image), (index_now, 1, mark));
                    frozen = Some(player.machine.digest());
                }
            }
        }
        // Entries applied after the image was begun are not in it.
        while player.apply.has_work() {
            player.apply.step(&mut player.machine, usize::MAX);
            player.apply.take_output();
        }
        let restored = image(&mut player);
        assert_eq!(Some(restored.digest()), frozen);
    }
}

fn image(player: &mut Player) -> Machine {
    let mut restore = machine::image::restore::Restore::default();
    loop {
        player.apply.receive(ToApply::FreezeStep);
        assert!(player.apply.has_work());
        player.apply.step(&mut player.machine, 0);
        for message in player.apply.take_output().to_loop {
            let FromApply::Piece { bytes, last } = message else { panic!("{message:?}") };
            restore.piece(&bytes).unwrap();
            if last {
                return restore.finish().unwrap();
            }
        }
    }
}

#[test]
fn an_image_given_up_leaves_nothing_behind() {
    let mut player = Player::new();
    everything().into_iter().for_each(|message| player.apply.receive(message));
    player.apply.receive(ToApply::Freeze);
    player.apply.step(&mut player.machine, usize::MAX);
    assert!(player.machine.is_freezing());
    player.apply.receive(ToApply::Thaw);
    player.apply.receive(ToApply::FreezeStep);
    player.apply.step(&mut player.machine, 0);
    assert!(!player.machine.is_freezing());
    let pieces = player.apply.take_output().to_loop;
    assert!(!pieces.iter().any(|message| matches!(message, FromApply::Piece { .. })));
}

#[test]
fn every_front_gets_the_changes_and_its_own_answers() {
    let mut player = Player::new();
    player.apply.receive(expect(1, Some(1), vec![waiter(1, vec![])]));
    player.apply.receive(entries(vec![entry_of(2, &[batch(&[(1, open(1))]).stamp(ORIGIN, 1)])]));
    player.apply.step(&mut player.machine, 1);
    let mut output = player.apply.take_output();
    let deliveries = output.deliveries(FrontCounts { zk: 3, etcd: 0 }, &WatchInterest::default());
    let counts: Vec<(u32, usize, usize)> = deliveries
        .iter()
        .map(|(front, delivery)| (front.0, delivery.changes.zk.len(), delivery.answers.len()))
        .collect();
    assert_eq!(counts, [(0, 1, 0), (1, 1, 1), (2, 1, 0)]);
    // Without anything new, nothing is delivered.
    player.apply.step(&mut player.machine, 1);
    assert!(
        player
            .apply
            .take_output()
            .deliveries(FrontCounts { zk: 3, etcd: 0 }, &WatchInterest::default())
            .is_empty()
    );
}

#[test]
fn containers_that_can_go_are_found_when_they_are_asked_for() {
    let mut player = Player::new();
    let create = |path, mode| {
        let (malformed, data, acl, ttl_ms) = (false, None, AskedAcl::Open, -1);
        let op = Op::Create { path, malformed, data, acl, mode, ttl_ms };
        (1, Command::Zk(ZkCommand::Write { session: SessionId(1), op }))
    };
    let delete = Op::Delete { path: "/c/a", version: -1 };
    let commands = batch(&[
        (1, open(1)),
        create("/c", CreateMode::Container),
        create("/c/a", CreateMode::Persistent),
        (1, Command::Zk(ZkCommand::Write { session: SessionId(1), op: delete })),
    ]);
    let waiters = (0..4).map(|_| waiter(1, vec![])).collect();
    player.apply.receive(expect(1, Some(0), waiters));
    player.apply.receive(entries(vec![entry_of(2, &[commands.stamp(ORIGIN, 1)])]));
    player.apply.step(&mut player.machine, usize::MAX);
    player.apply.take_output();
    assert!(!player.apply.has_work());
    let (count_max, never_used_ms_max) = (9, 0);
    let from = machine::zk::tree::ROOT;
    let search = ContainerSearch { from, count_max, time_ms: 0, never_used_ms_max };
    player.apply.receive(ToApply::Search(Search(search)));
    assert!(player.apply.has_work());
    player.apply.step(&mut player.machine, 0);
    let found = machine::ContainersFound { paths: vec!["/c".to_string()], next: None };
    assert_eq!(player.apply.take_output().to_loop, [FromApply::Found(Found(found))]);
    assert!(!player.apply.has_work());
}

/// Reads behind one write whose answers have 10 KB each, and then another write: the lock is
/// released between the reads, and the second write is not applied before all reads are run.
#[test]
fn answers_to_travelling_reads_end_a_hold() {
    let data = "d".repeat(10_000);
    let commands = [(1, open(1)), (1, create(1, "/a")), (1, set(1, "/a", &data))];
    let (one, two) = (batch(&commands), batch(&[(1, set(1, "/a", "small"))]));
    let gets = |count: i32| (0..count).map(|xid| get(xid, "/a")).collect();
    let mut player = Player::new();
    player.apply.receive(expect(
        1,
        Some(0),
        vec![waiter(1, vec![]), waiter(1, vec![]), waiter(1, gets(40))],
    ));
    player.apply.receive(expect(2, Some(0), vec![waiter(1, gets(2))]));
    player.apply.receive(entries(vec![
        entry_of(2, &[one.stamp(ORIGIN, 1)]),
        entry_of(3, &[two.stamp(ORIGIN, 2)]),
    ]));
    let mut holds = 0;
    let mut reads = Vec::new();
    while player.apply.has_work() {
        player.apply.step(&mut player.machine, usize::MAX);
        // Apply does nothing more before its answers are taken.
        assert!(!player.apply.has_work());
        let held = player.apply.held_bytes();
        assert!(held < APPLY_HOLD_ANSWER_BYTES_MAX + 11_000, "{held}");
        holds += 1;
        for (_, delivery) in player
            .apply
            .take_output()
            .deliveries(FrontCounts { zk: 2, etcd: 0 }, &WatchInterest::default())
        {
            for answer in delivery.answers {
                let Answer::Command { reads: more, .. } = answer else { panic!("{answer:?}") };
                reads.extend(more.iter().map(ReadAnswer::byte_count));
            }
        }
    }
    // Seven answers fill a hold; the last five, of 42, do not.
    assert_eq!(holds, 6);
    assert!(reads[..40].iter().all(|bytes| *bytes > 10_000));
    assert!(reads[40..].iter().all(|bytes| *bytes < 200));
    assert_eq!(reads.len(), 42);
}

/// The first read for which there is no room is handed back, and so are all reads behind it.
#[test]
fn without_room_large_travelling_reads_are_handed_back() {
    let data = "d".repeat(SMALL_REPLY_BYTES + 1);
    let commands = [(1, open(1)), (1, create(1, "/a")), (1, set(1, "/a", &data))];
    let mut player = Player::new();
    let reads = vec![get(1, "/zookeeper"), get(2, "/a"), get(3, "/zookeeper")];
    let waiters = vec![waiter(1, vec![]), waiter(1, vec![]), waiter(1, reads)];
    player.apply.receive(expect(1, Some(0), waiters));
    player.apply.receive(entries(vec![entry_of(2, &[batch(&commands).stamp(ORIGIN, 1)])]));
    let held = HeldReply::new(&player.apply.replies(), crate::limits::REPLIES_BYTES_MAX as usize);
    player.apply.step(&mut player.machine, usize::MAX);
    drop(held);
    let mut answers = player
        .apply
        .take_output()
        .deliveries(FrontCounts { zk: 1, etcd: 0 }, &WatchInterest::default())
        .remove(0)
        .1
        .answers;
    let Some(Answer::Command { reads, .. }) = answers.pop() else { panic!("it was answered") };
    let handed_back: Vec<bool> =
        reads.iter().map(|answer| matches!(answer, ReadAnswer::HandedBack)).collect();
    assert_eq!(handed_back, [false, true, true]);
    drop(reads);
    assert_eq!(player.apply.replies().bytes(), 0);
}

/// The first batch is announced: three commands, each of another connection, with the tickets 1, 2
/// and 3.
fn asked() -> ToApply {
    let waiter = |number: u64| {
        let reads = vec![get(number as i32, "/a")];
        Waiter { reads, ..Waiter::new(ConnectionId(number), Ticket(number)) }
    };
    expect(1, Some(0), (1..=3).map(waiter).collect())
}

/// The entry with the batch of [`asked`]; `Nothing` replaces the commands at these positions.
fn asked_for(replaced: &[usize]) -> ToApply {
    let mut batch = batch(&[(1, open(1)), (2, open(2)), (3, open(3))]);
    batch.replace_by_nothing(|position, _| replaced.contains(&position));
    entries(vec![entry_of(2, &[batch.stamp(ORIGIN, 1)])])
}

fn gives_up(number: u64, at: GivenUpAt, is_told: bool) -> ToApply {
    let (connection, ticket) = (ConnectionId(number), Ticket(number));
    let given_up = vec![GivenUp { connection, ticket, at }];
    ToApply::GiveUp { front: FrontId(0), given_up, is_told }
}

fn at(position: usize, fate: Fate) -> GivenUpAt {
    GivenUpAt::Batch { sequence: 1, position, fate }
}

/// The answers since the last call: each waiter's number, and why it has no outcome. Runs Apply
/// until nothing is left to do, in holds of one command.
fn told(player: &mut Player) -> Vec<(u64, Option<Unavailable>)> {
    let mut told = Vec::new();
    while player.apply.has_work() {
        told.extend(told_in_one_step(player));
    }
    told
}

fn told_in_one_step(player: &mut Player) -> Vec<(u64, Option<Unavailable>)> {
    player.apply.step(&mut player.machine, 1);
    let deliveries = player
        .apply
        .take_output()
        .deliveries(FrontCounts { zk: 1, etcd: 0 }, &WatchInterest::default());
    let answers = deliveries.into_iter().flat_map(|(_, delivery)| delivery.answers);
    answers
        .map(|answer| {
            let Answer::Command { connection, ticket, mark, answered, reads } = answer else {
                panic!("{answer:?}")
            };
            assert_eq!(connection.0, ticket.0);
            assert!(answered.is_err() || mark == player.machine.mark());
            assert_eq!(reads.len(), usize::from(answered.is_ok()));
            (connection.0, answered.err())
        })
        .collect()
}

/// One waiter gives up after some commands of the batch are applied, and then gives up again. The
/// waiters behind it get their own answers, whether the log has the given-up command or `Nothing`
/// in its place.
#[test]
fn who_gives_up_is_told_once_and_at_once_unless_an_outcome_came_before() {
    let reason = Unavailable::GivenUp(Fate::Unknown);
    for (position, done, is_replaced) in (0..3).flat_map(|position| {
        (0..4).flat_map(move |done| [false, true].map(|it| (position, done, it)))
    }) {
        // Loop replaces a command only before the log has it.
        if is_replaced && done > 0 {
            continue;
        }
        let mut player = Player::new();
        player.apply.receive(asked());
        let number = position as u64 + 1;
        let mut seen = Vec::new();
        if done > 0 {
            player.apply.receive(asked_for(&[]));
            (0..done).for_each(|_| seen.extend(told_in_one_step(&mut player)));
        }
        player.apply.receive(gives_up(number, at(position, Fate::Unknown), true));
        player.apply.receive(gives_up(number, at(position, Fate::Unknown), true));
        let at_once = told_in_one_step(&mut player);
        assert_eq!(at_once.contains(&(number, Some(reason))), position >= done);
        seen.extend(at_once);
        if done == 0 {
            let replaced: Vec<usize> = is_replaced.then_some(position).into_iter().collect();
            player.apply.receive(asked_for(&replaced));
        }
        seen.extend(told(&mut player));
        let is_in_time = |other: u64| other != number || position < done;
        seen.sort_unstable_by_key(|(number, _)| *number);
        let expected = (1..=3).map(|other| (other, (!is_in_time(other)).then_some(reason)));
        assert_eq!(seen, expected.collect::<Vec<_>>(), "{position} after {done}");
        let sessions = player.machine.zk().sessions();
        let has_session = sessions.get(SessionId(number as i64)).is_some();
        assert_eq!(has_session, !is_replaced);
    }
}

#[test]
fn a_batch_that_is_given_up_whole_is_applied_for_nobody() {
    for replaced in [vec![], vec![1], vec![0, 1, 2]] {
        let mut player = Player::new();
        player.apply.receive(asked());
        (0..3).for_each(|position| {
            let at = at(position, Fate::Definite);
            player.apply.receive(gives_up(position as u64 + 1, at, true));
        });
        let reason = Some(Unavailable::GivenUp(Fate::Definite));
        assert_eq!(told(&mut player), [(1, reason), (2, reason), (3, reason)]);
        player.apply.receive(asked_for(&replaced));
        assert_eq!(told(&mut player), []);
        assert_eq!(player.machine.zk().sessions().len(), 3 - replaced.len());
        assert_eq!(player.machine.control().last_batch(ORIGIN.member), Some((ORIGIN.boot, 1)));
        assert_eq!(player.machine.mark().ordinal.0, 3);
    }
}

/// Clients that are gone get no answer, neither at once nor later.
#[test]
fn who_does_not_wait_any_more_is_not_told() {
    let mut player = Player::new();
    player.apply.receive(asked());
    player.apply.receive(gives_up(2, at(1, Fate::Unknown), false));
    assert_eq!(told(&mut player), []);
    player.apply.receive(asked_for(&[1]));
    assert_eq!(told(&mut player), [(1, None), (3, None)]);
    // No waiter ever had this position.
    player.apply.receive(gives_up(2, at(7, Fate::Unknown), true));
    player.apply.receive(gives_up(2, at(1, Fate::Unknown), true));
    assert_eq!(told(&mut player), []);
}

/// The command that is given up is in no batch yet, or was refused behind a batch that still waits.
#[test]
fn who_has_no_place_in_a_batch_is_told_before_those_who_have() {
    let mut player = Player::new();
    player.apply.receive(asked());
    let waiters = (4..=5).map(|number| Waiter::new(ConnectionId(number), Ticket(number)));
    let (front, reason) = (FrontId(0), Unavailable::DiskFull);
    player.apply.receive(ToApply::Refuse { front, waiters: waiters.collect(), reason });
    player.apply.receive(gives_up(9, GivenUpAt::Waiting, true));
    player.apply.receive(gives_up(4, GivenUpAt::Nowhere, true));
    player.apply.receive(gives_up(4, GivenUpAt::Nowhere, true));
    player.apply.receive(gives_up(8, GivenUpAt::Nowhere, true));
    let definite = Unavailable::GivenUp(Fate::Definite);
    assert_eq!(told(&mut player), [(9, Some(definite)), (4, Some(reason))]);
    player.apply.receive(asked_for(&[]));
    assert_eq!(told(&mut player), [(1, None), (2, None), (3, None), (5, Some(reason))]);
    for (reason, fate) in [
        (Unavailable::DiskFull, Fate::Definite),
        (Unavailable::NotLeader, Fate::Definite),
        (definite, Fate::Definite),
        (Unavailable::GivenUp(Fate::Unknown), Fate::Unknown),
    ] {
        assert_eq!(reason.fate(), fate);
    }
}

/// In etcd v2's space, the removal of a directory whose nodes have times to live takes several
/// holds, and so does freeing their memory; both go on although no other input comes.
#[test]
fn the_removal_of_a_directory_of_etcd_v2_ends_and_leaves_no_garbage() {
    const FILES: usize = 3_000;
    let keys: Vec<String> = (0..FILES).map(|number| format!("/d/{number}")).collect();
    let set = |key| {
        let write = Write { key: Key::new(key).unwrap(), value: b"v", ttl_s: Some(60) };
        let (is_dir, is_refresh) = (false, false);
        (0, Command::EtcdV2(EtcdV2Command::Set { write, is_dir, is_refresh }))
    };
    let sets: Vec<_> = keys.iter().map(|key| set(key)).collect();
    let (key, is_dir, is_recursive) = (Key::new("/d").unwrap(), true, true);
    let delete = Command::EtcdV2(EtcdV2Command::Delete { key, is_dir, is_recursive });
    let other = Origin { member: MemberId(9), boot: BootId(2) };
    let mut log: Vec<_> = sets.chunks(1_000).map(batch).collect();
    log.push(batch(&[(0, delete)]));
    let log = (1..).zip(log).map(|(number, it)| entry_of(number + 1, &[it.stamp(other, number)]));
    let mut player = Player::new();
    player.apply.receive(entries(log.collect()));
    let (mut ended, mut parts) = (0, 0);
    while player.apply.has_work() {
        assert!(player.apply.step(&mut player.machine, 256) <= 256);
        let has_ended = player.machine.etcd_v2().tree().sums().node_count == 0;
        let told = player.apply.take_output().changes.etcd_v2.deadlines().to_vec();
        let told = told.iter().filter(|it| matches!(it, DeadlineChange::Ended { .. })).count();
        assert!(told <= 256, "a hold is bounded");
        ended += told;
        parts += usize::from(told > 0);
        let has_begun = ended > 0;
        assert_eq!(player.machine.is_amid_command(), has_begun && !has_ended);
    }
    assert_eq!(ended, FILES);
    assert!(parts >= FILES.div_ceil(256));
    assert!(!player.machine.has_garbage());
    assert_eq!(player.machine.index().0, 5);
}
