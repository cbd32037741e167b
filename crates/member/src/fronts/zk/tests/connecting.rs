//! Tests of how a connection gets its session, or fails to get one; of four-letter words; and of
//! what a Front reports about its connections, sessions and watches.

use super::super::*;
use super::rig::*;
use crate::limits::HEARD_INTERVAL_MS;
use crate::summary::Summary;
use machine::ZkCommand;

/// The last of the first `count` session ids and passwords that Front 0 of a rig draws.
fn drawn(count: u64) -> (SessionId, [u8; 16]) {
    let mut front = ZkFront::new(config(0));
    (0..count).map(|_| front.draw_session()).last().unwrap()
}

#[test]
fn a_session_id_that_is_taken_is_drawn_again() {
    let mut rig = Rig::default();
    for count in [1, 2, 3] {
        let (session, password) = drawn(count);
        rig.submit_own(&Command::Zk(ZkCommand::OpenSession {
            session,
            password,
            timeout_ms: 4_000,
        }));
    }
    assert_eq!(rig.play("c1: connect"), "c1: connected as A for 10000");
    assert_eq!(rig.client(1).session.0, drawn(4).0.0);
    assert_eq!(rig.machine.zk().sessions().len(), 4);
    rig.check();
}

#[test]
fn ids_of_sessions_are_never_taken_for_other_owners() {
    let mut front = ZkFront::new(config(0));
    let ids: Vec<i64> = (0..1_000).map(|_| front.draw_session().0.0).collect();
    assert!(ids.iter().all(|id| id >> 56 == 1));
    let other = ZkFront::new(config(1)).draw_session();
    assert!(!ids.contains(&other.0.0));
}

#[test]
fn a_refused_session_gives_its_credit_back_once() {
    for refused in ["session=77", "as=c9 password=00000000000000000000000000000000", "as=c9"] {
        let mut rig = Rig::default();
        rig.play("c9: connect\nexpire c9");
        assert_eq!(rig.play(&format!("c1: connect {refused}")), "c1: refused\nc1: closed");
        assert_eq!(rig.fronts[0].commands_in_flight(), 0);
        rig.check();
    }
}

#[test]
fn a_session_that_cannot_be_opened_gives_its_credit_back_once() {
    let mut rig = Rig::default();
    assert_eq!(rig.play("full\nc1: connect\nc2@1: connect"), "c1: closed\nc2: closed");
    rig.assert_idle();
}

#[test]
fn a_connection_that_goes_while_it_connects_gives_its_credit_back() {
    for steps in ["", "reads", "reads\nloop", "reads\nloop\napply"] {
        let mut rig = Rig::default();
        rig.play(&format!("c1~ connect\n{steps}\nclose c1\nrun"));
        rig.assert_idle();
    }
}

#[test]
fn a_connect_request_may_be_cut_at_every_byte() {
    let mut rig = Rig::default();
    rig.accept(1, 0);
    let bytes = rig.encode(1, "connect | ping");
    for cut in 0..bytes.len() {
        let mut rig = Rig::default();
        rig.accept(1, 0);
        rig.send(1, &bytes[..cut]);
        rig.run();
        let whole = rig.encode(1, "connect | ping");
        rig.send(1, &whole[cut..]);
        rig.run();
        assert_eq!(rig.take_log(), ["c1: connected as A for 10000", "c1: ping -> @1"], "{cut}");
    }
}

#[test]
fn whatever_stands_behind_the_connect_request_waits_for_the_session() {
    let mut rig = Rig::default();
    let seen = rig.play("c1: connect | create /a v | get /a | set /a w | get /a | bye");
    let wanted = "c1: connected as A for 10000\nc1: create /a v -> /a @2\nc1: get /a -> v v0 @2\n\
                  c1: set /a w -> v1 @3\nc1: get /a -> w v1 @3\nc1: bye -> @4\nc1: closed";
    assert_eq!(seen, wanted);
    rig.assert_idle();
}

#[test]
fn a_word_is_handed_to_the_driver_once() {
    let mut rig = Rig::default();
    rig.play("c1: word ruok");
    let id = rig.client(1).id;
    assert_eq!(rig.words, [(id, Word::Ruok)]);
    rig.fronts[0].answer_four_letter_word(id, "imok");
    rig.run();
    assert_eq!(rig.take_log(), ["c1: says imok", "c1: closed"]);
    // The driver may answer late.
    rig.fronts[0].answer_four_letter_word(id, "imok");
    rig.assert_idle();
}

#[test]
fn every_word_may_be_allowed_at_once() {
    let mut rig = Rig::default();
    rig.fronts[0] = ZkFront::new(ZkFrontConfig { words_allowed: vec!["*".into()], ..config(0) });
    rig.play("c1: word wchs\nc2: word mntr\nc3: raw 73746d6b000000000000002a");
    let words: Vec<Word> = rig.words.iter().map(|(_, word)| *word).collect();
    assert_eq!(words, [Word::Wchs, Word::Mntr, Word::Stmk { mask: 42 }]);
    // If telnet's word is allowed, there is not even an answer that the word is unknown.
    assert_eq!(rig.play("c4: raw fff4fffd"), "c4: closed");
}

#[test]
fn a_word_without_its_argument_ends_the_connection() {
    let mut rig = Rig::default();
    rig.fronts[0] = ZkFront::new(ZkFrontConfig { words_allowed: vec!["stmk".into()], ..config(0) });
    assert_eq!(rig.play("c1: raw 73746d6bffffffffffffff"), "c1: closed");
    assert!(rig.words.is_empty());
    rig.play("c2: raw 73746d6bfffffffffffffffe");
    let id = rig.client(2).id;
    assert_eq!(rig.words, [(id, Word::Stmk { mask: -2 })]);
}

#[test]
fn sessions_heard_from_are_reported_once_per_interval() {
    let mut rig = Rig::default();
    rig.play("c1: connect\nc2: connect\nc2: ping");
    let tick = |rig: &mut Rig, ms: u64| {
        rig.now.monotonic_ms += ms;
        rig.fronts[0].set_now(rig.now);
        rig.fronts[0].on_tick();
        let heard = rig.fronts[0].take_output().to_loop;
        heard
            .into_iter()
            .map(|message| match message {
                ToLoop::Heard(sessions) => sessions.len(),
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(tick(&mut rig, HEARD_INTERVAL_MS - 1), [0; 0]);
    assert_eq!(tick(&mut rig, 1), [2]);
    assert_eq!(tick(&mut rig, HEARD_INTERVAL_MS), [0; 0]);
    rig.play("c1: ping | ping");
    assert_eq!(tick(&mut rig, HEARD_INTERVAL_MS), [1]);
    rig.play("c1: ping\nexpire c1");
    assert_eq!(tick(&mut rig, HEARD_INTERVAL_MS), [0; 0]);
}

#[test]
fn a_report_counts_what_clients_saw() {
    let mut rig = Rig::default();
    rig.play("c1: connect\nc1: create /a v | get /a w | exists /b w | ls / w\nc1~ set /a w");
    let report = joined(&rig);
    assert_eq!((report.received, report.sent, report.outstanding), (6, 5, 1));
    assert_eq!((report.watches, report.data_watches, report.connections), (3, 2, 1));
    rig.now = Now { monotonic_ms: 40, wall_ms: 2_000_000, contact_at_ms: None };
    rig.fronts[0].set_now(rig.now);
    rig.run();
    let report = joined(&rig);
    assert_eq!((report.received, report.sent, report.outstanding), (6, 7, 0));
    assert_eq!((report.latency.max_ms, report.latency.count), (40, 5));
    let shown = rig.fronts[0].connection_reports(&rig.fronts[0].connection_ids());
    let session = shown[0].session.clone().unwrap();
    assert_eq!((session.last_operation, session.last_xid, session.last_zxid), ("SETD", 5, 3));
    assert_eq!((shown[0].established_ms, session.last_response_ms), (0, 2_000_000));
    assert_eq!((session.timeout_ms, session.id), (10_000, rig.client(1).session.0));
    assert_eq!((&*shown[0].peer, shown[0].is_reading), ("10.0.0.1:5001", true));
}

/// The merged counts of all Fronts.
fn joined(rig: &Rig) -> ZkFrontReport {
    let mut report = ZkFrontReport::default();
    rig.fronts.iter().for_each(|front| report.merge(&front.report()));
    report
}

#[test]
fn metrics_are_counted_where_they_arise() {
    let mut rig = Rig::default();
    rig.play("c1: connect\nc1: create /a v | get /a w | exists /b w | ls / w");
    rig.play("c2: connect\nc2: get /a w\nc1: set /a w | create /b v | delete /b\nc3: word ruok");
    let metrics = joined(&rig).metrics;
    let count = |summary: &Summary| {
        let of = summary.distribution(1.0, 0);
        (of.count, of.sum)
    };
    assert_eq!(count(&metrics.update_latency), (4, 0.0));
    assert_eq!(count(&metrics.read_latency), (4, 0.0));
    // The set notified two connections, which may be on one Front or on two.
    assert_eq!(count(&metrics.node_changed_watch_count).1, 2.0);
    assert_eq!(count(&metrics.node_created_watch_count), (1, 1.0));
    assert_eq!(count(&metrics.node_children_watch_count), (1, 1.0));
    assert_eq!(count(&metrics.node_deleted_watch_count).0, 0);
    assert_eq!(metrics.connection_request_count, 2);
    // Four events: three with a path of two bytes, one with a path of one byte.
    assert_eq!(metrics.watch_bytes, 3 * (16 + 8 + 4 + 2) + (16 + 8 + 4 + 1));
    assert_eq!(metrics.response_size.min, 16);
    assert!(metrics.response_bytes > 8 * metrics.response_size.min);
    assert!(metrics.bytes_received_count > 0);
    let id = rig.client(1).id;
    rig.fronts.iter_mut().for_each(|front| front.on_closed(id));
    assert_eq!(joined(&rig).metrics.connection_drop_count, 1);
}

#[test]
fn a_reset_forgets_what_it_names() {
    let mut rig = Rig::default();
    rig.play("c1: connect\nc1: create /a v | get /a w");
    let reset = |rig: &mut Rig, what| rig.fronts.iter_mut().for_each(|front| front.reset(what));
    reset(&mut rig, Reset::Connections);
    let shown = rig.fronts[0].connection_reports(&rig.fronts[0].connection_ids());
    let session = shown[0].session.clone().unwrap();
    assert_eq!((shown[0].received, shown[0].sent), (0, 0));
    assert_eq!((session.last_operation, session.last_xid, session.last_zxid), ("NA", -1, -1));
    assert!(joined(&rig).received > 0);
    reset(&mut rig, Reset::Server { metrics: false });
    let report = joined(&rig);
    assert_eq!((report.received, report.sent, report.latency), (0, 0, Latency::default()));
    assert_eq!(report.metrics.response_size, ResponseSize::default());
    assert!(report.metrics.bytes_received_count > 0);
    reset(&mut rig, Reset::Server { metrics: true });
    assert_eq!(joined(&rig).metrics.bytes_received_count, 0);
    assert_eq!((joined(&rig).watches, joined(&rig).connections), (1, 1));
}

#[test]
fn watches_are_listed_with_their_sessions() {
    let mut rig = Rig::default();
    rig.play("c1: connect\nc1: create /a v | get /a w | ls / w | exists /b w");
    let page = rig.fronts[0].watch_page(WatchCursor::default());
    let session = rig.client(1).session.0;
    let expected = [("/a".to_string(), vec![session]), ("/b".to_string(), vec![session])];
    assert_eq!(page.watches, expected);
    assert_eq!(page.next, None);
}

/// Lets time pass, and nothing else happen. Returns the messages to Loop.
fn tick(rig: &mut Rig, ms: u64) -> Vec<ToLoop> {
    rig.now.monotonic_ms += ms;
    rig.fronts[0].set_now(rig.now);
    rig.fronts[0].on_tick();
    let output = rig.fronts[0].take_output();
    rig.notices.extend(output.notices.into_iter().map(|notice| notice.what));
    output.to_loop
}

fn is_closing(rig: &Rig, number: u32) -> bool {
    let client = &rig.clients[&number];
    matches!(rig.fronts[client.front].connections[&client.id].state, State::Closing)
}

fn withdrawn(messages: &[ToLoop]) -> Vec<ConnectionId> {
    let of = |message: &ToLoop| match message {
        ToLoop::Withdraw(FrontId(0), connections) => connections.clone(),
        _ => Vec::new(),
    };
    messages.iter().flat_map(of).collect()
}

/// The client sends nothing, half a frame, a four-letter word that is not answered, or a connect
/// request that is not answered.
#[test]
fn a_connection_without_a_session_is_closed_whatever_it_has_sent() {
    for sent in ["", "raw 00", "raw 0000002c0000", "word ruok", "connect"] {
        let mut rig = Rig::default();
        rig.fronts[0] = ZkFront::new(ZkFrontConfig { sessionless_ms_max: 3_000, ..config(0) });
        rig.accept(1, 0);
        if !sent.is_empty() {
            rig.play(&format!("c1~ {sent}\nreads"));
        }
        assert!(withdrawn(&tick(&mut rig, 2_999)).is_empty());
        assert!(!is_closing(&rig, 1), "{sent}");
        let told = tick(&mut rig, 1);
        assert!(is_closing(&rig, 1), "{sent}");
        assert_eq!(rig.notices, ["it did not connect a session in time"]);
        let metrics = rig.fronts[0].report().metrics;
        assert_eq!(metrics.sessionless_connections_expired, 1);
        let asked = if sent == "connect" { vec![rig.clients[&1].id] } else { Vec::new() };
        assert_eq!(withdrawn(&told), asked);
        assert_eq!(rig.fronts[0].commands_in_flight(), 0);
    }
}

#[test]
fn a_byte_now_and_then_wins_no_time() {
    let mut rig = Rig::default();
    for byte in ["00", "00", "00", "2c", "00", "00", "00", "00", "00", "00"] {
        rig.play(&format!("c1~ raw {byte}"));
        assert!(!is_closing(&rig, 1));
        tick(&mut rig, 1_000);
    }
    assert!(is_closing(&rig, 1));
}

/// A connection with a session is not closed for lack of one, and does not delay others in the
/// list.
#[test]
fn who_has_a_session_is_not_closed_for_want_of_one() {
    let mut rig = Rig::default();
    rig.play("c1: connect\nc2~ raw 00");
    tick(&mut rig, 10_000);
    assert!(!is_closing(&rig, 1));
    assert!(is_closing(&rig, 2));
    assert!(rig.fronts[0].admission.accepted.is_empty());
}

/// How long a client with this timeout waits, in ms, if it connects when the last contact is
/// `silent_ms` old and no contact follows; `None` if it still waits after ten seconds.
fn waits_ms(timeout_ms: u32, silent_ms: u64) -> Option<u64> {
    let mut rig = Rig::default();
    rig.fronts[0] = ZkFront::new(ZkFrontConfig { sessionless_ms_max: 60_000, ..config(0) });
    (rig.now.monotonic_ms, rig.now.contact_at_ms) = (1, Some(1));
    tick(&mut rig, silent_ms);
    rig.play(&format!("c1~ connect timeout={timeout_ms}\nreads"));
    let id = rig.client(1).id;
    for waited_ms in 0..10_000 {
        let told = tick(&mut rig, u64::from(waited_ms > 0));
        if rig.clients[&1].closed || is_closing(&rig, 1) {
            // Loop is not told of a connection that never asked it for a session.
            assert!(withdrawn(&told).iter().all(|withdrawn| *withdrawn == id));
            assert_eq!(rig.notices, ["there is no contact with a leader"]);
            return Some(waited_ms);
        }
    }
    None
}

#[test]
fn without_a_leader_a_client_waits_for_its_session_as_long_as_an_election_takes() {
    let limit = crate::fronts::zk::limits::CONNECT_HOLD_MS_MAX;
    assert_eq!(waits_ms(40_000, 0), Some(limit));
    assert_eq!(waits_ms(40_000, 2 * limit - 1), Some(limit));
    assert_eq!(waits_ms(40_000, 2 * limit), Some(0));
    // A client waits a sixth of its timeout, and not at all once a third of it has passed without
    // contact.
    assert_eq!(waits_ms(4_200, 0), Some(700));
    assert_eq!(waits_ms(4_200, 1_399), Some(700));
    assert_eq!(waits_ms(4_200, 1_400), Some(0));
}

#[test]
fn with_a_leader_or_alone_a_client_waits_for_a_slow_disk() {
    for is_alone in [false, true] {
        let mut rig = Rig::default();
        rig.play("c1~ connect timeout=4000\nreads");
        for _ in 0..90 {
            rig.now.contact_at_ms = (!is_alone).then_some(rig.now.monotonic_ms);
            tick(&mut rig, 100);
        }
        assert!(!is_closing(&rig, 1));
        assert_eq!(rig.play("run"), "c1: connected as A for 4000");
    }
}

/// The leader comes back after the client has gone: Loop does not ask for the client's session.
#[test]
fn the_session_of_a_client_that_did_not_wait_is_not_asked_for() {
    let mut rig = Rig::with_loop(start());
    rig.play("c2: connect\nc2~ create /a x");
    rig.play("c1~ connect\nreads");
    rig.close(1);
    rig.advance(100);
    assert_eq!(rig.machine.zk().sessions().len(), 1);
    assert!(rig.play("c2: exists /a").ends_with("c2: exists /a -> v0 @2"));
}
