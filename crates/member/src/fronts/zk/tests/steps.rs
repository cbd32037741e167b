//! Tests that long requests and long deliveries go in pieces, and that others are served in
//! between.

use std::collections::BTreeSet;

use machine::{ConnectionId, Ordinal};

use super::super::watches::WatchKind;
use super::rig::*;
use crate::fronts::zk::limits::{
    CLOSED_PIECE_WATCHES, EPHEMERALS_STEP_ZNODES, FEED_PIECE_EVENTS, LIST_STEP_NAMES,
    SET_WATCHES_STEP_PATHS,
};

/// A multi of `count` creates below a path.
fn creates(path: &str, count: usize) -> String {
    let creates: Vec<String> =
        (0..count).map(|number| format!("create,{path}/{number},x")).collect();
    format!("multi {}", creates.join(" "))
}

/// Two clients on two Fronts. A multi of the first client is applied in part.
fn amid_multi(multi: &str) -> Rig {
    let mut rig = Rig::default();
    rig.play("c1@0: connect\nc2@1: connect\nc1: create /a x");
    rig.play(&format!("c1~ {multi}\nloop\napply 3"));
    assert!(rig.machine.zk().is_amid_change());
    rig
}

#[test]
fn reads_wait_while_a_multi_is_done_in_part() {
    let refused = creates("/a", 8) + " delete,/missing,-1";
    for (multi, children) in [(creates("/a", 8), "0 1 2 3 4 5 6 7"), (refused, "")] {
        let mut rig = amid_multi(&multi);
        assert_eq!(rig.play("c2~ ls /a | ping\nreads\nreads"), "");
        assert!(!rig.fronts[1].is_runnable(), "it waits to be told");
        assert!(!rig.fronts[1].may_go_on());
        assert_eq!(rig.play("apply 3\ndeliver\nreads"), "");
        let mut steps = 0;
        while rig.machine.zk().is_amid_change() {
            assert_eq!(rig.play("apply 3"), "");
            steps += 1;
        }
        assert!(steps > 0);
        let seen = rig.play("deliver\nreads");
        assert!(seen.contains(&format!("c2: ls /a -> [{children}]")), "{seen}");
        rig.run();
    }
}

#[test]
fn a_client_that_connects_amid_a_multi_is_welcomed_behind_it() {
    let mut rig = amid_multi(&creates("/a", 8));
    let seen = rig.play("c3@1: connect");
    assert!(seen.contains("c3: connected"), "{seen}");
}

#[test]
fn the_zxid_of_a_session_end_is_shown_behind_its_last_event() {
    let mut rig = Rig::default();
    rig.play("c1@0: connect\nc2@1: connect");
    for number in 0..6 {
        rig.play(&format!("c1: create /{number} x f1\nc2: get /{number} w"));
    }
    rig.play("c1~ bye\nloop");
    let mut seen = Vec::new();
    while rig.apply.has_work() {
        seen.extend(rig.play("apply 1\ndeliver\nc2~ ping | sync /").lines().map(str::to_string));
    }
    seen.extend(rig.play("run\nc2: ping").lines().map(str::to_string));
    let of_two = |line: &&String| line.starts_with("c2: ");
    let seen: Vec<&String> = seen.iter().filter(of_two).collect();
    let last_event = seen.iter().rposition(|line| line.contains("event deleted")).unwrap();
    assert_eq!(seen.iter().filter(|line| line.contains("event deleted")).count(), 6);
    let pings = seen.iter().filter(|line| line.contains("ping"));
    assert!(pings.count() > 12, "others are answered meanwhile: {seen:?}");
    for (position, line) in seen.iter().enumerate().filter(|(_, line)| !line.contains("event")) {
        let shows_end = line.ends_with("@9");
        assert!(shows_end || line.ends_with("@8"), "{line}");
        assert!(!shows_end || position > last_event, "{line} came before an event");
    }
    assert!(seen.last().unwrap().ends_with("@9"), "{seen:?}");
}

#[test]
fn watches_are_set_again_in_steps_and_others_read_in_between() {
    let count = 3 * SET_WATCHES_STEP_PATHS + 1;
    let mut rig = Rig::default();
    rig.play("c1@0: connect\nc2@0: connect\nc2: create /changed x");
    let paths: Vec<String> = (0..count).map(|number| format!("e:/{number}")).collect();
    rig.play(&format!("c1~ setwatches 2 {} d:/changed\nc2~ get /changed", paths.join(" ")));
    // The two clients take turns.
    let mut seen = Vec::new();
    let mut holds = 0;
    while !seen.iter().any(|line: &String| line.starts_with("c1: setwatches")) {
        assert!(rig.fronts[0].is_runnable());
        rig.line("reads");
        seen.extend(rig.take_log());
        holds += 1;
    }
    assert!(holds >= 4, "{holds}");
    let position = |of: &str| seen.iter().position(|line| line.starts_with(of)).unwrap();
    assert!(position("c2: get /changed") < position("c1: setwatches"));
    assert!(position("c1: event changed /changed") < position("c1: setwatches"));
    assert_eq!(rig.fronts[0].watches.len(), count);
}

#[test]
fn a_change_between_the_steps_of_a_set_fires_once() {
    let mut rig = Rig::default();
    rig.play("c1@0: connect\nc2@1: connect\nc2: create /first x | create /last x");
    let mut paths = vec!["d:/first".to_string()];
    paths.extend((0..2 * SET_WATCHES_STEP_PATHS).map(|number| format!("e:/{number}")));
    paths.push("d:/last".to_string());
    rig.play(&format!("c1~ setwatches 4 {}\nreads", paths.join(" ")));
    let seen = rig.play("c2: set /first y | set /last y");
    let of_one: Vec<&str> = seen.lines().filter(|line| line.starts_with("c1: ")).collect();
    let count_of = |of: &str| of_one.iter().filter(|line| line.contains(of)).count();
    assert_eq!(count_of("event changed /first"), 1, "{seen}");
    assert_eq!(count_of("event changed /last"), 1, "{seen}");
    assert_eq!(count_of("setwatches"), 1, "{seen}");
}

#[test]
fn a_long_delivery_is_taken_in_pieces() {
    let count = 2 * FEED_PIECE_EVENTS;
    let mut rig = Rig::default();
    rig.play("c1@0: connect\nc2@1: connect\nc1: create /a x\nc2: addwatch /a r | ls /a w");
    rig.play(&format!("c1~ {}\nloop\napply", creates("/a", count)));
    // The second client's read comes after the events.
    rig.play("c2~ ls /a");
    let mut pieces = 1;
    rig.line("deliver");
    while rig.fronts[1].is_behind() {
        assert!(!rig.fronts[1].is_runnable());
        rig.line("resume");
        pieces += 1;
    }
    assert!(pieces >= 4, "each change has an event: {pieces}");
    let seen = [rig.take_log(), rig.play("run").lines().map(str::to_string).collect()].concat();
    let of_two: Vec<&String> = seen.iter().filter(|line| line.starts_with("c2: ")).collect();
    assert_eq!(of_two.len(), count + 2);
    assert!(of_two.last().unwrap().starts_with("c2: ls /a -> ["));
}

#[test]
fn an_event_for_many_connections_is_sent_in_pieces() {
    let count = FEED_PIECE_EVENTS as u64 + 10;
    let mut rig = Rig::default();
    rig.play("c1@0: connect\nc1: create /a x\nc2@1: connect\nc2: get /a w");
    // The Front does not know the connections of these watches, so events for them are dropped.
    let front = &mut rig.fronts[1];
    for other in 1_000..1_000 + count {
        front.watches.set(ConnectionId(other), WatchKind::Data, "/a", Ordinal(1));
        front.watches.set(ConnectionId(other), WatchKind::Data, "/b", Ordinal(1));
    }
    let mut seen = rig.play("c1~ set /a y | create /b x\nloop\napply\ndeliver");
    let mut pieces = 1;
    while rig.fronts[1].is_behind() {
        rig.line("resume");
        pieces += 1;
    }
    assert_eq!(pieces, 3);
    assert_eq!(rig.fronts[1].watches.len(), 0);
    seen.push_str(&rig.play("run"));
    assert!(seen.contains("c2: event changed /a @"), "{seen}");
}

#[test]
fn watches_of_a_closed_connection_go_in_pieces_and_fire_no_more() {
    let count = 2 * CLOSED_PIECE_WATCHES;
    let mut rig = Rig::default();
    rig.play("c1@0: connect\nc2@0: connect");
    let paths: Vec<String> = (0..count).map(|number| format!("e:/{number}")).collect();
    rig.play(&format!("c1: setwatches 1 {}", paths.join(" ")));
    assert_eq!(rig.fronts[0].watches.len(), count);
    let id = rig.clients[&1].id;
    rig.fronts[0].on_closed(id);
    rig.clients.remove(&1);
    assert_eq!(rig.fronts[0].watches.len(), 0);
    let mut pieces = 0;
    while rig.fronts[0].is_behind() {
        rig.fronts[0].resume();
        pieces += 1;
    }
    assert!(pieces >= 2, "{pieces}");
    assert!(!rig.fronts[0].may_go_on());
    assert_eq!(rig.play("c2: create /7 x"), "c2: create /7 x -> /7 @3");
}

#[test]
fn ephemerals_are_looked_for_in_steps_and_are_in_order() {
    let count = 2 * EPHEMERALS_STEP_ZNODES + 5;
    let mut rig = Rig::default();
    rig.play("c1@0: connect\nc2@0: connect");
    let mut expected = Vec::new();
    for number in 0..count {
        let name = format!("/{}", number * 7919 % 1_009);
        rig.play(&format!("c1: create {name} x f1"));
        expected.push(name);
    }
    expected.sort_unstable();
    let zxid = 2 + count;
    rig.play("c1~ ephemerals / | delete /0\nc2~ exists /0");
    let mut holds = 0;
    let mut seen = String::new();
    while !seen.contains("c1: ephemerals") {
        seen.push_str(&rig.play("reads"));
        holds += 1;
    }
    assert!(holds >= 3, "{holds}");
    assert!(seen.find("c2: exists").unwrap() < seen.find("c1: ephemerals").unwrap());
    let found = format!("c1: ephemerals / -> [{}] @{zxid}", expected.join(" "));
    assert!(seen.contains(&found), "{seen}");
    assert!(rig.play("run").contains("c1: delete /0 ->"));
    rig.check();
}

/// Two clients on two Fronts, and a znode with `count` children for the first client to list.
fn with_children(count: usize) -> Rig {
    let mut rig = Rig::default();
    rig.play("c1@0: connect\nc2@1: connect\nc2: create /a x | create /b x");
    rig.play(&format!("c2: {}", creates("/a", count)));
    rig
}

/// The script for a write of the second client that is applied and delivered; its reply comes
/// later.
fn write(request: &str) -> String {
    format!("c2~ {request}\nloop\napply 10000\ndeliver")
}

/// Runs a request of the first client step by step, and plays the line of `between` after each
/// step. Returns the answer and the number of steps.
fn steps_of(rig: &mut Rig, asked: &str, between: impl Fn(usize) -> String) -> (String, usize) {
    rig.play(&format!("c1~ {asked} | ping"));
    let (mut seen, mut steps) = (Vec::<String>::new(), 0);
    while !seen.iter().any(|line| line.starts_with("c1: ping")) {
        while rig.fronts[0].is_behind() {
            rig.line("resume");
        }
        assert!(rig.fronts[0].is_runnable());
        rig.line("reads");
        steps += 1;
        seen.extend(rig.take_log());
        rig.play(&between(steps)).lines().for_each(|line| seen.push(line.to_string()));
    }
    let start = format!("c1: {asked} -> ");
    let answer = seen.iter().find_map(|line| line.strip_prefix(&start));
    (answer.expect("it is answered before the ping").to_string(), steps)
}

/// The names between the brackets of an answer.
fn names(answer: &str) -> BTreeSet<String> {
    let end = answer.rfind(']').unwrap();
    answer[1..end].split(' ').map(str::to_string).collect()
}

fn numbers(count: usize) -> BTreeSet<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[test]
fn a_long_list_is_made_in_steps_that_see_what_is_created() {
    let count = 3 * LIST_STEP_NAMES;
    let mut rig = with_children(count + 1);
    let (answer, steps) = steps_of(&mut rig, "ls /a w", |step| match step {
        1 => write("create /a/new x | set /b y"),
        _ => String::new(),
    });
    assert_eq!(steps, 4);
    let mut expected = numbers(count + 1);
    expected.insert("new".to_string());
    assert_eq!(names(&answer), expected);
    // The watch is set at the state of the last step.
    let seen = rig.play("c2: create /a/newer x");
    assert!(seen.contains("c1: event children /a"), "{seen}");
}

#[test]
fn a_removal_between_two_steps_makes_a_list_begin_anew_with_longer_ones() {
    let count = 6 * LIST_STEP_NAMES;
    let mut rig = with_children(count);
    // Steps of 1, 2 and 4 times as many names begin anew; one of 8 times as many ends.
    let (answer, steps) =
        steps_of(&mut rig, "ls /a", |step| write(&format!("delete /a/{}", step - 1)));
    assert!((4..=8).contains(&steps), "{steps}");
    let gone = count - names(&answer).len();
    assert!((3..=7).contains(&gone), "{gone}");
    let mut expected = numbers(count);
    expected.retain(|name| name.parse::<usize>().is_ok_and(|number| number >= gone));
    assert_eq!(names(&answer), expected);
    rig.run();
    assert_eq!(names(&rig.play("c1: ls /a")["c1: ls /a -> ".len()..]).len(), count - steps);
}

#[test]
fn a_list_whose_znode_goes_away_between_two_steps_has_no_node() {
    let mut rig = with_children(2 * LIST_STEP_NAMES);
    let deletes: Vec<String> =
        (0..2 * LIST_STEP_NAMES).map(|number| format!("delete,/a/{number},-1")).collect();
    let (answer, steps) = steps_of(&mut rig, "ls /a", |step| match step {
        1 => write(&format!("multi {} delete,/a,-1", deletes.join(" "))),
        _ => String::new(),
    });
    assert!(answer.starts_with("no node"), "{answer}");
    assert_eq!(steps, 2);
}

/// The settings and the servers change without a zxid.
#[test]
fn several_reads_begin_anew_where_the_settings_change() {
    let mut rig = with_children(2 * LIST_STEP_NAMES);
    rig.play("c2: setacl /b digest|a:b|31");
    rig.play("c1~ multiread get,/b ls,/a get,/b\nreads\nreads");
    let zxid = rig.machine.mark().zxid;
    let seen = rig.play("configure skip_acl=on\nrun");
    assert_eq!(rig.machine.mark().zxid, zxid);
    assert_eq!(seen.matches("x v0").count(), 2, "{}", &seen[..100]);
}

#[test]
fn several_reads_are_of_one_state_however_often_they_begin_anew() {
    let count = 2 * LIST_STEP_NAMES;
    let mut rig = with_children(count);
    let asked = "multiread get,/b ls,/a get,/b ls,/a";
    let (answer, steps) = steps_of(&mut rig, asked, |_| String::new());
    assert_eq!(steps, 5);
    assert_eq!(answer.matches("x v0").count(), 2);
    let (answer, steps) = steps_of(&mut rig, asked, |step| write(&format!("set /b {step}")));
    // The steps look at 1, 2, 4 and 8 times as many names: the last one makes everything.
    assert_eq!(steps, 4);
    assert_eq!(answer.matches("3 v3").count(), 2, "{answer}");
    for list in answer.match_indices('[') {
        let end = list.0 + answer[list.0..].find(']').unwrap();
        assert_eq!(names(&answer[list.0..=end]), numbers(count));
    }
}
