//! The judge without an order, on hand-made histories: some that it must accept, and for each rule
//! some that it must reject.

use super::*;
use crate::op::{CreateRequest, perms};

const TIMEOUT_MS: u32 = 4_000;

/// The session id that belongs to this number.
fn session_id(number: i64) -> i64 {
    0x1000 + number
}

/// A history, written call by call.
struct Case {
    history: History,
    rules: Rules,
    now_us: u64,
}

fn create(path: &str, data: &str, flag: i32) -> Op {
    let (path, data) = (path.to_string(), Some(data.as_bytes().to_vec()));
    Op::Create { path, data, perms: perms::ALL, flag, request: CreateRequest::Create }
}

fn set(path: &str, data: &str, version: i32) -> Op {
    Op::SetData { path: path.to_string(), data: Some(data.as_bytes().to_vec()), version }
}

fn delete(path: &str, version: i32) -> Op {
    Op::Delete { path: path.to_string(), version }
}

fn get(path: &str) -> Op {
    Op::GetData { path: path.to_string(), watch: false }
}

fn get_and_watch(path: &str) -> Op {
    Op::GetData { path: path.to_string(), watch: true }
}

fn exists(path: &str, watch: bool) -> Op {
    Op::Exists { path: path.to_string(), watch }
}

fn list(path: &str) -> Op {
    Op::GetChildren { path: path.to_string(), watch: false, with_stat: false }
}

fn stat(czxid: i64, mzxid: i64, version: i32) -> Stat {
    Stat { czxid, mzxid, pzxid: czxid, version, ..Stat::default() }
}

fn owned(czxid: i64, owner: i64) -> Stat {
    Stat { ephemeral_owner: session_id(owner), ..stat(czxid, czxid, 0) }
}

impl Case {
    /// Two clients, each with a session, on connections 0 and 1.
    fn new() -> Case {
        let rules = Rules { refusal_is_committed: true, expiry_slack_ms: 500 };
        let mut case = Case { history: History::default(), rules, now_us: 0 };
        case.connect(0, 0);
        case.connect(1, 0);
        case
    }

    fn asks(&mut self, client: u32, session: i64) -> usize {
        let asked = if session == 0 { 0 } else { session_id(session) };
        let connection = self.history.connect(client, asked, [0; 16]);
        self.history.note_asked(connection, self.now_us);
        connection
    }

    /// Connects a client, which gets its old session or a new one.
    fn connect(&mut self, client: u32, session: i64) -> usize {
        let connection = self.asks(client, session);
        let session = session_id(if session == 0 { connection as i64 } else { session });
        let timeout_ms = TIMEOUT_MS;
        let password = [0; 16];
        self.history.receive(connection, Received::Connected { session, timeout_ms, password });
        self.history.note_told(connection, self.now_us);
        connection
    }

    fn refused(&mut self, client: u32, session: i64) {
        let connection = self.asks(client, session);
        self.history.receive(connection, Received::Refused);
        self.history.note_told(connection, self.now_us);
    }

    fn wait_ms(&mut self, ms: u64) {
        self.now_us += ms * 1000;
    }

    fn send(&mut self, connection: usize, op: Op) -> usize {
        self.history.invoke(connection, op, self.now_us)
    }

    fn reply(&mut self, number: usize, zxid: i64, answer: Answer) {
        self.history.complete(number, zxid, error::OK, answer, self.now_us);
    }

    fn fails(&mut self, connection: usize, op: Op, zxid: i64, code: i32) {
        let number = self.send(connection, op);
        self.history.complete(number, zxid, code, Answer::Empty, self.now_us);
    }

    fn done(&mut self, connection: usize, op: Op, zxid: i64, answer: Answer) {
        let number = self.send(connection, op);
        self.reply(number, zxid, answer);
    }

    fn made(&mut self, connection: usize, path: &str, data: &str, zxid: i64) {
        self.done(connection, create(path, data, 0), zxid, Answer::Path(path.to_string()));
    }

    fn made_ephemeral(&mut self, connection: usize, path: &str, zxid: i64) {
        let op = create(path, &format!("{path}{zxid}"), flag::EPHEMERAL);
        self.done(connection, op, zxid, Answer::Path(path.to_string()));
    }

    /// A successful set whose answer has this stat.
    fn was_set(&mut self, connection: usize, op: Op, stat: Stat) {
        self.done(connection, op, stat.mzxid, Answer::Stat(stat));
    }

    fn got(&mut self, connection: usize, path: &str, zxid: i64, data: &str, stat: Stat) {
        let answer = Answer::Data(Some(data.as_bytes().to_vec()), stat);
        self.done(connection, get(path), zxid, answer);
    }

    fn missing(&mut self, connection: usize, path: &str, zxid: i64) {
        self.fails(connection, get(path), zxid, error::NO_NODE);
    }

    fn synced(&mut self, connection: usize, zxid: i64) {
        let path = "/".to_string();
        self.done(connection, Op::Sync { path: path.clone() }, zxid, Answer::Path(path));
    }

    fn event(&mut self, connection: usize, zxid: i64, kind: EventKind, path: &str) {
        let path = path.to_string();
        self.history.receive(connection, Received::Event { zxid, kind, path });
    }

    #[track_caller]
    fn accepted(&self) -> Verdict {
        match judge(&self.history, self.rules) {
            Ok(verdict) => verdict,
            Err(violations) => panic!("rejected: {violations:?}"),
        }
    }

    #[track_caller]
    fn rejected(&self, rule: Rule) {
        match judge(&self.history, self.rules) {
            Ok(verdict) => panic!("accepted: {verdict:?}"),
            Err(violations) => {
                assert!(violations.iter().any(|it| it.rule == rule), "{violations:?}");
            }
        }
    }
}

/// A case written by a closure.
fn case(write: impl FnOnce(&mut Case)) -> Case {
    let mut case = Case::new();
    write(&mut case);
    case
}

// Order and real time.

#[test]
fn a_plain_history_is_accepted() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.was_set(0, set("/a", "two", 0), stat(5, 6, 1));
        it.got(1, "/a", 5, "one", stat(5, 5, 0));
        it.synced(1, 6);
        it.got(1, "/a", 6, "two", stat(5, 6, 1));
        it.done(1, delete("/a", 1), 7, Answer::Empty);
        it.missing(0, "/a", 7);
    });
    let verdict = case.accepted();
    assert_eq!(verdict.acknowledged_count, 3);
    assert_eq!(verdict.read_behind_sync_count, 1);
}

#[test]
fn two_writes_with_one_zxid_are_rejected() {
    let case = case(|it| {
        let (one, two) = (it.send(0, create("/a", "one", 0)), it.send(1, create("/b", "two", 0)));
        it.reply(one, 5, Answer::Path("/a".into()));
        it.reply(two, 5, Answer::Path("/b".into()));
    });
    case.rejected(Rule::Order);
}

#[test]
fn a_refused_write_has_a_zxid_of_its_own() {
    let case = case(|it| {
        let (one, two) = (it.send(0, create("/a", "one", 0)), it.send(1, delete("/b", -1)));
        it.reply(one, 5, Answer::Path("/a".into()));
        it.history.complete(two, 5, error::NO_NODE, Answer::Empty, 0);
    });
    case.rejected(Rule::Order);
}

#[test]
fn an_event_of_another_writes_zxid_is_rejected() {
    let case = case(|it| {
        it.fails(0, exists("/b", true), 4, error::NO_NODE);
        it.event(0, 5, EventKind::Created, "/b");
        it.made(1, "/a", "one", 5);
    });
    case.rejected(Rule::Order);
}

#[test]
fn a_write_that_was_finished_comes_before_one_that_began_later() {
    let case = case(|it| {
        it.made(0, "/a", "one", 6);
        it.made(1, "/b", "two", 5);
    });
    case.rejected(Rule::RealTime);
}

#[test]
fn writes_at_one_time_come_in_any_order() {
    let case = case(|it| {
        let (one, two) = (it.send(0, create("/a", "one", 0)), it.send(1, create("/b", "two", 0)));
        it.reply(one, 6, Answer::Path("/a".into()));
        it.reply(two, 5, Answer::Path("/b".into()));
    });
    case.accepted();
}

#[test]
fn a_write_comes_behind_what_a_read_showed_before_it_was_sent() {
    let case = case(|it| {
        it.missing(0, "/a", 7);
        it.made(1, "/b", "two", 7);
    });
    case.rejected(Rule::RealTime);
}

// Sessions.

#[test]
fn a_session_whose_zxids_fall_is_rejected() {
    let case = case(|it| {
        it.missing(0, "/a", 7);
        it.missing(0, "/a", 6);
    });
    case.rejected(Rule::Session);
}

#[test]
fn a_session_does_not_go_back_on_another_connection() {
    let case = case(|it| {
        it.connect(2, 0);
        let moved = it.connect(2, 2);
        it.missing(moved, "/a", 9);
        let moved = it.connect(2, 2);
        it.missing(moved, "/a", 8);
    });
    case.rejected(Rule::Session);
}

#[test]
fn a_stale_read_of_another_session_is_accepted() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.missing(1, "/a", 4);
    });
    case.accepted();
}

#[test]
fn a_session_sees_its_own_writes() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.missing(0, "/a", 4);
    });
    case.rejected(Rule::Session);
}

#[test]
fn writes_of_a_session_in_another_order_are_rejected() {
    let case = case(|it| {
        let (one, two) = (it.send(0, create("/a", "one", 0)), it.send(0, create("/b", "two", 0)));
        it.reply(one, 6, Answer::Path("/a".into()));
        it.reply(two, 5, Answer::Path("/b".into()));
    });
    case.rejected(Rule::Session);
}

#[test]
fn a_write_without_an_answer_stands_before_the_later_ones_of_its_session() {
    let case = case(|it| {
        it.made(0, "/a", "zero", 4);
        let moved = it.connect(2, 0);
        it.send(moved, set("/a", "one", -1));
        let moved = it.connect(2, 2);
        it.made(moved, "/b", "two", 5);
        it.got(1, "/a", 6, "one", stat(4, 6, 1));
    });
    case.rejected(Rule::Session);
}

#[test]
fn a_session_that_was_refused_is_not_given_again() {
    let case = case(|it| {
        it.wait_ms(60_000);
        it.refused(2, 1);
        it.connect(2, 1);
    });
    case.rejected(Rule::Session);
}

#[test]
fn a_session_that_was_over_is_not_given_again() {
    let mut closed = Case::new();
    closed.connect(2, 0);
    closed.done(2, Op::CloseSession, 5, Answer::Empty);
    closed.missing(0, "/a", 5);
    closed.connect(2, 2);
    closed.rejected(Rule::Session);
}

#[test]
fn a_session_that_was_heard_within_its_timeout_is_not_refused() {
    let early = case(|it| {
        it.connect(2, 0);
        it.missing(2, "/a", 4);
        it.wait_ms(u64::from(TIMEOUT_MS) - 600);
        it.refused(2, 2);
    });
    early.rejected(Rule::Session);
    let late = case(|it| {
        it.connect(2, 0);
        it.missing(2, "/a", 4);
        it.wait_ms(u64::from(TIMEOUT_MS) - 400);
        it.refused(2, 2);
    });
    late.accepted();
}

#[test]
fn a_session_that_was_silent_for_too_long_may_end_though_it_was_just_heard() {
    let heard_again = |silence_ms: u64| {
        case(|it| {
            it.connect(2, 0);
            it.missing(2, "/a", 4);
            it.wait_ms(silence_ms);
            it.missing(2, "/a", 5);
            it.wait_ms(100);
            it.refused(2, 2);
        })
    };
    heard_again(u64::from(TIMEOUT_MS)).accepted();
    heard_again(u64::from(TIMEOUT_MS) - 1000).rejected(Rule::Session);
}

// Syncs.

#[test]
fn a_stale_read_behind_a_sync_is_rejected() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.synced(1, 4);
        it.missing(1, "/a", 4);
    });
    case.rejected(Rule::Sync);
}

#[test]
fn a_sync_says_nothing_of_what_is_written_behind_it() {
    let case = case(|it| {
        let sync = it.send(1, Op::Sync { path: "/".into() });
        it.made(0, "/a", "one", 5);
        it.reply(sync, 4, Answer::Path("/".into()));
        it.missing(1, "/a", 4);
    });
    case.accepted();
}

// States and fates.

#[test]
fn an_acknowledged_write_that_is_lost_is_rejected() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.missing(1, "/a", 6);
    });
    case.rejected(Rule::Fate);
}

#[test]
fn an_acknowledged_set_that_is_lost_is_rejected() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.was_set(0, set("/a", "two", -1), stat(5, 6, 1));
        it.got(1, "/a", 8, "one", stat(5, 5, 0));
    });
    case.rejected(Rule::State);
}

#[test]
fn an_acknowledged_delete_that_is_lost_is_rejected() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.done(0, delete("/a", -1), 6, Answer::Empty);
        it.got(1, "/a", 8, "one", stat(5, 5, 0));
    });
    case.rejected(Rule::State);
}

#[test]
fn a_state_that_mixes_two_zxids_is_rejected() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.was_set(0, set("/a", "two", -1), stat(5, 6, 1));
        it.got(1, "/a", 5, "two", stat(5, 6, 1));
    });
    case.rejected(Rule::State);
}

#[test]
fn data_that_nobody_wrote_is_rejected() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.got(1, "/a", 5, "eno", stat(5, 5, 0));
    });
    case.rejected(Rule::State);
}

#[test]
fn a_write_of_unknown_fate_may_be_there_or_not() {
    for is_there in [false, true] {
        let case = case(|it| {
            it.made(0, "/a", "one", 5);
            it.send(0, set("/a", "two", -1));
            match is_there {
                false => it.got(1, "/a", 9, "one", stat(5, 5, 0)),
                true => it.got(1, "/a", 9, "two", stat(5, 8, 1)),
            }
        });
        let verdict = case.accepted();
        assert_eq!(verdict.unknown_done_count, usize::from(is_there));
        assert_eq!(verdict.unknown_count, usize::from(!is_there));
    }
}

#[test]
fn a_write_of_unknown_fate_that_is_done_twice_is_rejected() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.send(0, set("/a", "two", -1));
        it.got(1, "/a", 9, "two", stat(5, 8, 1));
        it.got(1, "/a", 11, "two", stat(5, 10, 2));
    });
    case.rejected(Rule::Fate);
}

#[test]
fn an_acknowledged_write_that_is_done_again_is_rejected() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.was_set(0, set("/a", "two", -1), stat(5, 6, 1));
        it.got(1, "/a", 11, "two", stat(5, 10, 2));
    });
    case.rejected(Rule::Fate);
}

#[test]
fn a_refused_write_that_is_done_is_rejected() {
    for code in [error::BAD_VERSION, error::SYSTEM_ERROR, error::SESSION_MOVED] {
        let case = case(|it| {
            it.made(0, "/a", "one", 5);
            it.fails(0, set("/a", "two", 7), 6, code);
            it.got(1, "/a", 7, "two", stat(5, 7, 1));
        });
        case.rejected(Rule::Fate);
    }
}

#[test]
fn a_write_takes_no_effect_before_it_was_sent() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.missing(1, "/b", 8);
        it.send(0, set("/a", "two", -1));
        it.got(1, "/a", 9, "two", stat(5, 8, 1));
    });
    case.rejected(Rule::RealTime);
}

#[test]
fn a_delete_of_unknown_fate_explains_one_disappearance() {
    let mut case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.send(0, delete("/a", -1));
        it.missing(1, "/a", 7);
        it.made(1, "/a", "two", 8);
    });
    case.accepted();
    case.missing(1, "/a", 9);
    case.rejected(Rule::Fate);
}

#[test]
fn a_multi_whose_fate_one_part_tells_explains_a_name_that_another_made() {
    let both = |seen: i64, set_at: i64| {
        case(|it| {
            it.made(0, "/a", "one", 5);
            let name = create("/n-", "two", flag::PERSISTENT_SEQUENTIAL);
            it.send(0, Op::Multi(vec![name, set("/a", "three", -1)]));
            let shown = Answer::Children(vec!["a".into(), "n-0000000001".into()]);
            it.done(1, list("/"), seen, shown);
            it.got(1, "/a", 9, "three", stat(5, set_at, 1));
        })
    };
    both(8, 7).accepted();
    both(7, 7).accepted();
    both(6, 7).rejected(Rule::Fate);
}

#[test]
fn a_delete_of_unknown_fate_explains_nothing_before_it_was_sent() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.missing(1, "/a", 7);
        it.send(0, delete("/a", -1));
    });
    case.rejected(Rule::Fate);
}

#[test]
fn a_create_of_unknown_fate_explains_what_a_list_shows() {
    let mut case = case(|it| {
        it.send(0, create("/a", "one", 0));
        it.done(1, list("/"), 7, Answer::Children(vec!["a".into(), "zookeeper".into()]));
        it.missing(1, "/b", 7);
    });
    case.accepted();
    case.done(1, list("/"), 8, Answer::Children(vec!["a".into(), "b".into()]));
    case.rejected(Rule::Fate);
}

#[test]
fn a_child_that_is_missing_in_a_list_is_missing() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.made(0, "/b", "two", 6);
        it.done(1, list("/"), 7, Answer::Children(vec!["b".into()]));
    });
    case.rejected(Rule::Fate);
}

#[test]
fn a_multi_is_done_whole() {
    let ops = || Op::Multi(vec![create("/a", "one", 0), create("/b", "two", 0)]);
    let whole = case(|it| {
        it.send(0, ops());
        it.got(1, "/a", 7, "one", stat(6, 6, 0));
        it.got(1, "/b", 7, "two", stat(6, 6, 0));
    });
    whole.accepted();
    let torn = case(|it| {
        it.send(0, ops());
        it.got(1, "/a", 7, "one", stat(6, 6, 0));
        it.missing(1, "/b", 7);
    });
    torn.rejected(Rule::Fate);
    let apart = case(|it| {
        it.send(0, ops());
        it.got(1, "/a", 8, "one", stat(6, 6, 0));
        it.got(1, "/b", 8, "two", stat(7, 7, 0));
    });
    apart.rejected(Rule::Fate);
}

#[test]
fn a_multi_that_failed_has_done_nothing() {
    let ops = Op::Multi(vec![create("/a", "one", 0), delete("/b", -1)]);
    let case = case(|it| {
        let results = vec![Err(error::OK), Err(error::NO_NODE)];
        it.done(0, ops, 5, Answer::Multi(results));
        it.got(1, "/a", 6, "one", stat(5, 5, 0));
    });
    case.rejected(Rule::Fate);
}

// Versions.

#[test]
fn a_conditional_set_with_another_version_is_rejected() {
    let wrong_stat = case(|it| {
        it.made(0, "/a", "one", 5);
        it.was_set(0, set("/a", "two", 3), stat(5, 6, 1));
    });
    wrong_stat.rejected(Rule::State);
    let both = case(|it| {
        it.made(0, "/a", "one", 5);
        it.was_set(0, set("/a", "two", 0), stat(5, 6, 1));
        it.was_set(1, set("/a", "three", 0), stat(5, 7, 1));
    });
    both.rejected(Rule::State);
}

#[test]
fn a_version_that_nobody_made_is_rejected() {
    let mut case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.was_set(0, set("/a", "two", -1), stat(5, 8, 2));
    });
    case.rejected(Rule::Fate);
    case.history = case_with_unknown_set().history;
    case.accepted();
}

fn case_with_unknown_set() -> Case {
    case(|it| {
        it.made(0, "/a", "one", 5);
        it.send(1, set("/a", "two", -1));
        it.was_set(0, set("/a", "three", -1), stat(5, 8, 2));
    })
}

#[test]
fn a_version_that_did_not_match_was_another_one() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.fails(1, set("/a", "two", 0), 6, error::BAD_VERSION);
    });
    case.rejected(Rule::Fate);
}

// Sequences.

fn numbered(case: &mut Case, connection: usize, data: &str, number: u32, zxid: i64) {
    let op = create("/s/n-", data, flag::PERSISTENT_SEQUENTIAL);
    case.done(connection, op, zxid, Answer::Path(format!("/s/n-{number:010}")));
}

#[test]
fn a_number_that_is_given_twice_is_rejected() {
    let case = case(|it| {
        it.made(0, "/s", "s", 4);
        numbered(it, 0, "one", 0, 5);
        let op = create("/s/m-", "two", flag::PERSISTENT_SEQUENTIAL);
        it.done(1, op, 6, Answer::Path("/s/m-0000000000".into()));
    });
    case.rejected(Rule::Sequence);
}

#[test]
fn numbers_grow_with_their_zxids() {
    let sound = case(|it| {
        it.made(0, "/s", "s", 4);
        numbered(it, 0, "one", 0, 5);
        numbered(it, 1, "two", 2, 6);
    });
    sound.accepted();
    let fallen = case(|it| {
        it.made(0, "/s", "s", 4);
        numbered(it, 0, "one", 1, 5);
        numbered(it, 1, "two", 0, 6);
    });
    fallen.rejected(Rule::Sequence);
}

#[test]
fn a_sequential_create_that_is_done_twice_is_rejected() {
    let mut case = case(|it| {
        it.made(0, "/s", "s", 4);
        it.send(0, create("/s/n-", "one", flag::PERSISTENT_SEQUENTIAL));
        it.got(1, "/s/n-0000000000", 9, "one", stat(7, 7, 0));
    });
    case.accepted();
    case.got(1, "/s/n-0000000001", 9, "one", stat(8, 8, 0));
    case.rejected(Rule::Fate);
}

#[test]
fn sequential_znodes_that_are_one_too_many_are_rejected() {
    let names = |names: &[&str]| Answer::Children(names.iter().map(|it| it.to_string()).collect());
    let mut case = case(|it| {
        it.made(0, "/s", "s", 4);
        it.send(0, create("/s/n-", "one", flag::PERSISTENT_SEQUENTIAL));
        it.done(1, list("/s"), 9, names(&["n-0000000000"]));
    });
    case.accepted();
    case.done(1, list("/s"), 10, names(&["n-0000000000", "n-0000000001"]));
    case.rejected(Rule::Fate);
}

// Ephemerals.

#[test]
fn an_ephemeral_goes_with_its_session() {
    let case = case(|it| {
        it.made_ephemeral(0, "/e", 5);
        it.done(0, Op::CloseSession, 7, Answer::Empty);
        it.done(1, exists("/e", false), 6, Answer::Stat(owned(5, 0)));
        it.missing(1, "/e", 7);
    });
    case.accepted();
}

#[test]
fn an_ephemeral_that_is_gone_early_is_rejected() {
    let writes_on = case(|it| {
        it.made_ephemeral(0, "/e", 5);
        it.missing(1, "/e", 6);
        it.made(0, "/a", "one", 7);
    });
    writes_on.rejected(Rule::Ephemeral);
    let has_another = case(|it| {
        it.made_ephemeral(0, "/e", 5);
        it.made_ephemeral(0, "/f", 6);
        it.missing(1, "/e", 7);
        it.done(1, exists("/f", false), 8, Answer::Stat(owned(6, 0)));
    });
    has_another.rejected(Rule::Ephemeral);
    let attaches = case(|it| {
        it.connect(2, 0);
        it.made_ephemeral(2, "/e", 5);
        it.missing(1, "/e", 6);
        it.connect(2, 2);
    });
    attaches.rejected(Rule::Session);
}

#[test]
fn an_ephemeral_that_is_gone_late_is_rejected() {
    let closed = case(|it| {
        it.made_ephemeral(0, "/e", 5);
        it.done(0, Op::CloseSession, 7, Answer::Empty);
        it.done(1, exists("/e", false), 8, Answer::Stat(owned(5, 0)));
    });
    closed.rejected(Rule::Ephemeral);
    let mut refused = case(|it| {
        it.made_ephemeral(0, "/e", 5);
        it.connect(2, 0);
        it.made_ephemeral(2, "/f", 6);
        it.wait_ms(60_000);
        it.refused(2, 2);
        it.synced(1, 8);
        it.done(1, exists("/f", false), 8, Answer::Stat(owned(6, 2)));
    });
    refused.rejected(Rule::Ephemeral);
    refused.rules.refusal_is_committed = false;
    refused.accepted();
}

#[test]
fn an_ephemeral_has_the_owner_that_made_it() {
    let case = case(|it| {
        it.made_ephemeral(0, "/e", 5);
        it.done(1, exists("/e", false), 6, Answer::Stat(owned(5, 1)));
    });
    case.rejected(Rule::State);
}

#[test]
fn an_ephemeral_that_its_session_deletes_says_nothing_of_its_end() {
    let case = case(|it| {
        it.made_ephemeral(0, "/e", 5);
        it.done(0, delete("/e", -1), 6, Answer::Empty);
        it.missing(1, "/e", 6);
        it.made(0, "/a", "one", 7);
    });
    case.accepted();
}

// Watches.

#[test]
fn an_event_comes_before_the_reply_that_shows_the_change() {
    let watched = |events: &[(bool, i64)]| {
        case(|it| {
            it.made(1, "/a", "one", 5);
            let data = Answer::Data(Some(b"one".to_vec()), stat(5, 5, 0));
            it.done(0, get_and_watch("/a"), 5, data);
            it.was_set(1, set("/a", "two", -1), stat(5, 6, 1));
            for (is_event, zxid) in events {
                match is_event {
                    true => it.event(0, *zxid, EventKind::DataChanged, "/a"),
                    false => it.missing(0, "/b", *zxid),
                }
            }
        })
    };
    watched(&[(false, 5), (true, 6), (false, 6)]).accepted();
    watched(&[(false, 6), (true, 6)]).rejected(Rule::Watch);
    watched(&[(false, 6)]).rejected(Rule::Watch);
    watched(&[(false, 5)]).accepted();
    watched(&[(true, 6), (true, 6)]).rejected(Rule::Watch);
}

#[test]
fn an_event_that_nobody_asked_for_is_rejected() {
    let case = case(|it| {
        it.made(1, "/a", "one", 5);
        it.event(0, 5, EventKind::Created, "/a");
    });
    case.rejected(Rule::Watch);
}

#[test]
fn a_watch_fires_at_the_first_change() {
    let case = case(|it| {
        it.fails(0, exists("/a", true), 4, error::NO_NODE);
        it.made(1, "/a", "one", 5);
        it.was_set(1, set("/a", "two", -1), stat(5, 6, 1));
        it.event(0, 6, EventKind::DataChanged, "/a");
    });
    case.rejected(Rule::Watch);
}

#[test]
fn a_child_watch_fires_for_children_and_for_its_own_end() {
    let watched = |write: &dyn Fn(&mut Case)| {
        case(|it| {
            it.made(1, "/a", "one", 5);
            let op = Op::GetChildren { path: "/a".into(), watch: true, with_stat: false };
            it.done(0, op, 5, Answer::Children(Vec::new()));
            write(it);
        })
    };
    let with_child = |it: &mut Case| it.made(1, "/a/b", "two", 6);
    watched(&|it| {
        with_child(it);
        it.event(0, 6, EventKind::ChildrenChanged, "/a");
        it.missing(0, "/c", 6);
    })
    .accepted();
    watched(&|it| {
        with_child(it);
        it.missing(0, "/c", 6);
    })
    .rejected(Rule::Watch);
    let gone = |it: &mut Case| it.done(1, delete("/a", -1), 6, Answer::Empty);
    watched(&|it| {
        gone(it);
        it.event(0, 6, EventKind::Deleted, "/a");
        it.missing(0, "/c", 6);
    })
    .accepted();
    watched(&|it| {
        gone(it);
        it.missing(0, "/c", 6);
    })
    .rejected(Rule::Watch);
}

fn again(relative_zxid: i64, path: &str) -> Op {
    let (exist, child) = (Vec::new(), Vec::new());
    Op::SetWatches { relative_zxid, data: vec![path.to_string()], exist, child }
}

#[test]
fn what_was_missed_is_told_when_watches_are_set_again() {
    let moved = |is_told: bool| {
        case(|it| {
            it.made(1, "/a", "one", 5);
            it.connect(2, 0);
            let data = Answer::Data(Some(b"one".to_vec()), stat(5, 5, 0));
            it.done(2, get_and_watch("/a"), 5, data);
            it.was_set(1, set("/a", "two", -1), stat(5, 6, 1));
            it.connect(2, 2);
            if is_told {
                it.event(3, -1, EventKind::DataChanged, "/a");
            }
            it.done(3, again(5, "/a"), 6, Answer::Empty);
        })
    };
    moved(true).accepted();
    moved(false).rejected(Rule::Watch);
}

#[test]
fn a_watch_that_was_set_again_fires() {
    let case = case(|it| {
        it.made(1, "/a", "one", 5);
        it.done(0, again(5, "/a"), 5, Answer::Empty);
        it.was_set(1, set("/a", "two", -1), stat(5, 6, 1));
        it.missing(0, "/b", 6);
    });
    case.rejected(Rule::Watch);
}

#[test]
fn a_missed_event_that_nobody_watches_for_is_rejected() {
    let case = case(|it| {
        it.made(1, "/a", "one", 5);
        it.event(0, -1, EventKind::Deleted, "/b");
        it.done(0, again(5, "/a"), 5, Answer::Empty);
    });
    case.rejected(Rule::Watch);
}

// The load.

#[test]
fn data_that_is_written_twice_is_not_judged() {
    let case = case(|it| {
        it.made(0, "/a", "one", 5);
        it.made(0, "/b", "one", 6);
    });
    case.rejected(Rule::Load);
}

#[test]
fn complaints_are_bounded() {
    let case = case(|it| {
        for number in 0..100 {
            it.made(0, &format!("/{number}"), &format!("data {number}"), 5 + number);
        }
        for number in 0..100 {
            it.missing(1, &format!("/{number}"), 200);
        }
    });
    let violations = judge(&case.history, case.rules).unwrap_err();
    assert_eq!(violations.len(), COMPLAINTS_MAX);
}
