//! Tests of large replies: their order, the room that they share, and the clients that are
//! disconnected to free it.

use super::super::*;
use super::rig::*;
use crate::fronts::zk::limits::{
    OUTPUT_STALL_MS, REFUSED_REPLY_INTERVAL_MS, REPLIES_TOLD_BYTES, SMALL_REPLIES_TO_TRAVEL,
    TRAVELLED_WRITE_BYTES_MAX, TRAVELLING_READS_MAX,
};
use crate::limits::{OUTPUT_BYTES_MAX, REPLIES_BYTES_CALM, REPLIES_BYTES_MAX, SMALL_REPLY_BYTES};
use crate::reply_room::HeldReply;

const LARGE: usize = 1_000_000;

/// Bytes of a setData of `/s` in addition to its data.
const SET_BYTES: usize = 22;

/// A rig with two clients, a small znode and a large one.
fn begun() -> Rig {
    let mut rig = Rig::default();
    rig.play(&format!("c1: connect\nc2@1: connect\nc1: create /l big:{LARGE} | create /s x"));
    rig
}

fn connection(rig: &Rig, number: u32) -> &Connection {
    let client = &rig.clients[&number];
    &rig.fronts[client.front].connections[&client.id]
}

/// Takes all of the room, until the result is dropped.
fn fill(rig: &Rig) -> HeldReply {
    HeldReply::new(&rig.apply.replies(), REPLIES_BYTES_MAX as usize)
}

fn held(rig: &Rig) -> usize {
    rig.fronts.iter().map(|front| front.held_bytes().output).sum()
}

/// With and without room, a read shows the value of the write right before it.
#[test]
fn large_values_between_own_writes_are_read_in_their_order() {
    let (one, two) = (LARGE, LARGE + 1);
    let requests =
        format!("set /l big:{one} | get /l | set /l big:{two} | get /l | set /l v | get /l");
    for is_full in [false, true] {
        for read_bytes in [1_000, 16 * 1024, 8 * LARGE] {
            let mut rig = begun();
            rig.read_bytes = read_bytes;
            let held = is_full.then(|| fill(&rig));
            let mut seen = rig.play(&format!("c1: {requests}"));
            drop(held);
            seen.push_str(&rig.play("run"));
            for wanted in [format!("...{one} v1 @5"), format!("...{two} v2 @6"), "v v3 @7".into()] {
                assert!(seen.contains(&wanted), "{is_full} {read_bytes}: no {wanted} in {seen}");
            }
        }
    }
}

#[test]
fn a_read_does_not_travel_behind_a_large_write() {
    let data_bytes = TRAVELLED_WRITE_BYTES_MAX - SET_BYTES;
    for (bytes, travels) in [(data_bytes, 1), (data_bytes + 1, 0)] {
        let mut rig = begun();
        rig.read_bytes = LARGE;
        rig.play(&format!("c1~ set /s big:{bytes} | get /s | set /s v2"));
        let waiting = connection(&rig, 1).window.counts();
        assert_eq!((waiting.travelling_reads, waiting.local_reads), (travels, 1 - travels));
        assert_eq!(rig.fronts[0].commands_in_flight(), 1 + travels);
        assert_eq!(rig.fronts[0].held_bytes().travelling_reads, travels);
        let seen = rig.play("run");
        assert!(seen.contains(&format!("...{bytes} v1 @5")), "{seen}");
    }
}

#[test]
fn after_a_large_reply_reads_do_not_travel_for_a_while() {
    let mut rig = begun();
    let travels = |rig: &mut Rig| {
        rig.play("c1~ set /s v | get /s");
        let travelling = connection(rig, 1).window.counts().travelling_reads;
        rig.play("run");
        travelling == 1
    };
    assert!(travels(&mut rig));
    rig.play("c1: get /l");
    for _ in 0..SMALL_REPLIES_TO_TRAVEL {
        assert!(!travels(&mut rig));
    }
    assert!(travels(&mut rig));
    // The size of a travelling read's reply counts as well.
    rig.play("c1: set /s v | get /l");
    assert!(!travels(&mut rig));
}

#[test]
fn without_room_a_large_read_waits_and_small_ones_are_served() {
    let mut rig = begun();
    let held = fill(&rig);
    assert_eq!(rig.play("c2: get /l | get /s"), "");
    assert_eq!(rig.play("c1: set /s y | get /s | get /l | get /s").lines().count(), 2);
    // Later requests of the session wait as well.
    assert_eq!(rig.play("c1: set /s z | get /s"), "");
    assert_eq!(connection(&rig, 1).window.len(), 2);
    drop(held);
    let seen = rig.play("run");
    let of_c1: Vec<&str> = seen.lines().filter(|line| line.starts_with("c1")).collect();
    assert!(of_c1[0].contains(&format!("...{LARGE} v0 @5")), "{seen}");
    assert_eq!(
        of_c1[1..],
        ["c1: get /s -> y v1 @5", "c1: set /s z -> v2 @6", "c1: get /s -> z v2 @6"]
    );
    assert!(seen.contains(&format!("c2: get /l -> xxxxxxxxxxxxxxxxxxxx...{LARGE} v0")), "{seen}");
    assert_eq!(held_metrics(&rig), (0, 0));
}

fn held_metrics(rig: &Rig) -> (u64, u64) {
    let metrics = rig.fronts[0].report().metrics;
    (metrics.travelling_reads_refused, metrics.slow_takers_ended)
}

/// Once the session's next write was handed over with the read, the state before that write is
/// gone.
#[test]
fn without_room_a_large_read_before_a_write_under_way_is_refused() {
    let mut rig = begun();
    let held = fill(&rig);
    let seen = rig.play("c1: set /s y | get /s | get /l | get /s | set /s z | get /s");
    let wanted = "c1: set /s y -> v1 @5\nc1: get /s -> y v1 @5\nc1: get /l -> operation timeout @5\n\
                  c1: get /s -> operation timeout @5\nc1: set /s z -> v2 @6\nc1: get /s -> z v2 @6";
    assert_eq!(seen, wanted);
    assert_eq!(held_metrics(&rig).0, 2);
    drop(held);
    // From now on, the read holds back the write.
    let seen = rig.play("c1: set /s y | get /l | set /s z | get /s");
    assert!(seen.contains(&format!("...{LARGE} v0 @7")), "{seen}");
    rig.check();
}

/// Clients that read nothing pipeline 64 reads of 1 MB after a write, or ask for as much in one
/// multi-read.
#[test]
fn what_many_clients_leave_lying_is_bounded_together() {
    let one_read = format!("set /s x{}", " | get /l".repeat(TRAVELLING_READS_MAX));
    let pairs = "set /s x | get /l | ".repeat(20) + "set /s x";
    let multi_read = format!("multiread{}", " get,/l".repeat(30));
    for requests in [one_read, pairs, multi_read] {
        let mut rig = begun();
        for number in 10..30 {
            rig.play(&format!("c{number}@{}: connect\nstall c{number}", number % 2));
        }
        for number in 10..30 {
            rig.play(&format!("c{number}~ {requests}"));
        }
        let mut most = 0;
        rig.line("run");
        most = most.max(held(&rig) as u64 + rig.apply.held_bytes());
        // The connections wait without being looked at again and again.
        assert!(rig.fronts.iter().all(|front| !front.is_runnable() && !front.may_go_on()));
        let bytes_max = REPLIES_BYTES_MAX + 2 * (REPLIES_TOLD_BYTES + 2 * LARGE) as u64;
        assert!(most >= REPLIES_BYTES_CALM, "{most}");
        assert!(most <= bytes_max, "{most} of {bytes_max}");
        assert_eq!(rig.apply.held_bytes(), 0);
        // Other clients are served meanwhile.
        assert!(rig.play("c1: set /s ok | get /s").contains("-> ok v"));
        for number in 10..30 {
            rig.close(number);
        }
        // The two counts may differ only by bytes that the room was not told of yet.
        let off = rig.apply.replies().bytes().abs_diff(held(&rig) as u64);
        assert!(off < 2 * REPLIES_TOLD_BYTES as u64, "{off}");
        assert!(rig.play("c1: get /l").contains("v0"));
    }
}

#[test]
fn clients_that_keep_the_room_full_and_take_nothing_are_disconnected() {
    let mut rig = begun();
    let stalled = 10..10 + REPLIES_BYTES_MAX as u32 / OUTPUT_BYTES_MAX as u32;
    for number in stalled.clone() {
        rig.play(&format!("c{number}@{}: connect\nstall c{number}\nc{number}: get /l", number % 2));
    }
    assert!(rig.apply.replies().is_tight());
    // One client reads something now and then.
    let (id, front) = (rig.clients[&10].id, rig.clients[&10].front);
    rig.advance(OUTPUT_STALL_MS);
    rig.fronts[front].on_written(id, 64 * 1024);
    assert!(stalled.clone().all(|number| !rig.clients[&number].closed));
    rig.advance(100);
    let closed = stalled.clone().filter(|&number| rig.clients[&number].closed).count();
    // Freeing the replies of some connections was enough.
    assert!(closed > 0);
    assert!(!rig.clients[&10].closed);
    assert!(!rig.apply.replies().is_tight());
    assert!(rig.notices.iter().all(|notice| notice.ends_with("bytes unread that others need")));
    let ended: u64 = rig.fronts.iter().map(|it| it.report().metrics.slow_takers_ended).sum();
    assert_eq!(ended, closed as u64);
    assert!(rig.play("c1: get /l").contains("v0"));
}

/// Clients that read their replies may keep the room full for long. None of them is disconnected.
#[test]
fn a_read_that_finds_no_room_in_time_is_refused_and_holds_up_no_session() {
    let mut rig = begun();
    let full = fill(&rig);
    // The time is a sixth of the session's timeout of 10 s.
    assert_eq!(rig.play("c1: get /l | get /s"), "");
    rig.advance(1_600);
    assert_eq!(rig.play("run"), "");
    rig.advance(100);
    let seen = rig.play("c1: get /s");
    assert!(seen.starts_with("c1: get /l -> operation timeout @4\nc1: get /s -> x v0 @"), "{seen}");
    assert_eq!(rig.fronts[0].report().metrics.replies_timed_out, 1);
    // The next read may wait as long again, and gets room in that time.
    assert_eq!(rig.play("c1: get /l"), "");
    rig.advance(1_600);
    drop(full);
    assert!(rig.play("run").contains(&format!("...{LARGE} v0 @4")));
    assert_eq!(rig.fronts[0].report().metrics.replies_timed_out, 1);
    rig.check();
}

#[test]
fn events_that_a_full_room_has_no_place_for_end_the_connection() {
    let name = "x".repeat(50_000);
    let mut rig = begun();
    rig.play(&format!("c1: addwatch / r\nstall c1\nc2: create /{name} x"));
    let full = fill(&rig);
    let mut told = 0;
    while !rig.clients[&1].closed {
        assert!(held(&rig) <= OUTPUT_BYTES_MAX);
        rig.play(&format!("c2: set /{name} x"));
        told += name.len();
        assert!(told < 2 * OUTPUT_BYTES_MAX);
    }
    assert!(told > OUTPUT_BYTES_MAX - 2 * name.len());
    drop(full);
}

fn bounded(reply_bytes_max: u64) -> Rig {
    let mut rig = Rig::default();
    let replies = rig.apply.replies();
    for (id, front) in rig.fronts.iter_mut().enumerate() {
        let (replies, reply_bytes_max) = (replies.clone(), Some(reply_bytes_max));
        *front = ZkFront::new(ZkFrontConfig { replies, reply_bytes_max, ..config(id as u32) });
    }
    rig.play("c1: connect\nc2@1: connect");
    rig
}

/// Each name of 10 bytes takes 14 bytes of the reply.
#[test]
fn a_reply_beyond_reply_bytes_max_is_refused_with_path_and_session() {
    let mut rig = bounded(10 * 14);
    for at in 0..10 {
        rig.play(&format!("c1: create /child{at:05} x"));
    }
    rig.play("c1: delete /zookeeper/config | delete /zookeeper/quota");
    rig.play("c1: create /p x");
    for at in 0..10 {
        rig.play(&format!("c1: create /p/child{at:05} x"));
    }
    assert!(rig.play("c1: ls /p").contains("-> [child00000"));
    rig.play("c1: create /p/one x");
    let seen = rig.play("c1: ls /p | ls2 /p | multiread ls,/p | get /p | ping");
    let errors = seen.lines().filter(|line| line.contains("-> marshalling error @")).count();
    assert_eq!((errors, seen.lines().count()), (3, 5), "{seen}");
    let session = rig.client(1).session.0;
    let refused = RefusedReply { session, path: "/p".into(), bytes: 11 * 14 - 7 };
    let metrics = rig.fronts[0].report().metrics;
    assert_eq!((metrics.replies_refused, metrics.last_refused_reply), (3, Some(refused)));
    let told = format!("a reply of 147 bytes is refused: session {session:#x}, /p");
    assert_eq!(rig.notices, std::slice::from_ref(&told));
    rig.advance(REFUSED_REPLY_INTERVAL_MS);
    rig.play("c1: ls /p");
    assert_eq!(rig.notices[1], told + "; 2 others since the last that was told");
}

#[test]
fn a_reply_that_travelled_is_refused_alike_and_sets_no_watch() {
    let mut rig = bounded(1_000);
    rig.play("c1: create /a big:999");
    let seen = rig.play("c1: set /a big:999 | get /a w | set /a big:1001 | get /a w | set /a v");
    assert_eq!(seen.matches("marshalling error").count(), 2, "{seen}");
    assert_eq!(rig.fronts[0].watches.len(), 0);
    assert_eq!(rig.fronts[0].report().metrics.replies_refused, 2);
}

#[test]
fn a_small_reply_is_no_larger_than_what_a_full_room_lets_pass() {
    let mut rig = begun();
    rig.play(&format!("c2: set /s big:{SMALL_REPLY_BYTES}"));
    let held = fill(&rig);
    assert!(rig.play("c1: get /s").contains(&format!("...{SMALL_REPLY_BYTES} v1")));
    rig.play(&format!("c2: set /s big:{}", SMALL_REPLY_BYTES + 1));
    assert_eq!(rig.play("c1: get /s"), "");
    drop(held);
    assert!(rig.play("run").contains("v2"));
}

#[test]
fn a_reply_that_no_frame_holds_is_refused_without_a_configured_bound() {
    let rig = Rig::default();
    assert_eq!(rig.fronts[0].config.reply_bytes_max, None);
    // A Stat and the lengths of the list and of its frame come on top.
    let most = i32::MAX as u64 - 16 - 68 - 8;
    assert!(!rig.fronts[0].is_too_large_a_reply(most));
    assert!(rig.fronts[0].is_too_large_a_reply(most + 1));
}

#[test]
fn ephemerals_beyond_reply_bytes_max_are_refused_before_they_are_all_listed() {
    // Each path takes 2 + 4 bytes.
    let mut rig = bounded(12);
    rig.play("c1: create /a x f1 | create /b x f1");
    assert_eq!(rig.play("c1: ephemerals"), "c1: ephemerals -> [/a /b] @4");
    rig.play("c1: create /c x f1");
    assert_eq!(rig.play("c1: ephemerals"), "c1: ephemerals -> marshalling error @5");
    assert_eq!(rig.play("c1: ephemerals /c"), "c1: ephemerals /c -> [/c] @5");
    let (session, _) = rig.attached(1);
    assert_eq!(rig.machine.zk().ephemeral_paths_from(session, "/", 5), Err(6));
}

/// A list takes room for itself while it is made. Its client has unread output and sends more
/// requests: the connection must not wait for the room that its own list holds.
#[test]
fn a_list_that_fills_the_room_waits_for_nobody() {
    let mut rig = begun();
    let name_bytes = 64 * 1024;
    let count = REPLIES_BYTES_MAX / name_bytes as u64 + 10;
    rig.play("c2: create /d x");
    for number in 0..count {
        rig.play(&format!("c2: create /d/{number:05}{} x", "x".repeat(name_bytes - 5)));
    }
    // The steps are short, so that one hold does not finish the list.
    rig.fronts[0] = ZkFront::new(ZkFrontConfig {
        replies: rig.apply.replies(),
        list_step_names: 3,
        ..config(0)
    });
    rig.play("c9@0: connect\nstall c9\nc9: get /l");
    rig.play("c9~ ls /d\nreads\nreads");
    assert!(rig.apply.replies().is_full());
    rig.play("c9~ ping\nreads");
    let seen = rig.play("unstall c9\nrun");
    assert!(seen.contains("c9: ls /d -> ["), "{}", seen.len());
    assert!(seen.contains("c9: ping"), "{}", seen.len());
}

/// Multi-reads with more reads than one step makes get room for all of them before they begin.
#[test]
fn long_multi_reads_of_many_clients_are_bounded_together() {
    let mut rig = begun();
    for front in 0..2 {
        let replies = rig.apply.replies();
        rig.fronts[front] =
            ZkFront::new(ZkFrontConfig { replies, list_step_names: 4, ..config(front as u32) });
    }
    let several = format!("multiread{}", " get,/l".repeat(28));
    for number in 10..30 {
        rig.play(&format!("c{number}@{}: connect\nstall c{number}", number % 2));
        rig.play(&format!("c{number}~ {several}"));
    }
    let mut most = 0;
    for _ in 0..400 {
        rig.line("reads");
        most = most.max(rig.apply.replies().bytes());
    }
    let bytes_max = REPLIES_BYTES_MAX + 2 * (REPLIES_TOLD_BYTES + 2 * LARGE) as u64;
    assert!((REPLIES_BYTES_CALM..=bytes_max).contains(&most), "{most}");
}
