//! One publisher with two subscribers: which events and reads count as right, and when a stage
//! ends.

use zk::jute::JuteWrite;

use super::*;
use crate::workloads::zk::pubsub::options::Connections;
use crate::workloads::zk::tree::TreeArgs;

const SECOND_NS: u64 = 1_000_000_000;

fn tree() -> Tree {
    let args = TreeArgs { parents: 1, children: 0, size: 20, clients: 1, keep: false };
    Tree::new(&args, "t")
}

fn path(number: usize) -> String {
    format!("/bench-t/p0/c{number}")
}

/// A load with its sessions. Client 0 is the publisher; clients 1 and 2 are subscribers 0 and 1.
struct Run<'a> {
    load: ItemLoad<'a>,
    sessions: [Session; 3],
}

impl Run<'_> {
    /// Sets the watches on two paths. `last` is the answer to the second watch of client 2.
    fn start(tree: &Tree, kind: Kind, last: ErrorCode) -> Run<'_> {
        let connections = Connections { publishers: 1, subscribers: 2 };
        let (paths, items, warmup, size, rate) = (1, 2, 0, 20, None);
        let shape = Shape { kind, connections, paths, items, warmup, size, rate, processes: 1 };
        let sessions = [(); 3].map(|()| Session::connect(1));
        let mut run = Run { load: ItemLoad::new(&shape, tree), sessions };
        run.load.begin_stage(2, 0);
        for client in [1, 2] {
            let sent = [(); 3].map(|()| run.next(client, 0));
            assert_eq!(sent, [Next::Sent, Next::Sent, Next::Finished]);
            run.reply(client, ErrorCode::NO_NODE, &[], 1);
            run.reply(client, if client == 2 { last } else { ErrorCode::NO_NODE }, &[], 1);
        }
        assert_eq!(run.next(0, 1), Next::Finished, "no item comes before all watches are set");
        run.load.step = Step::Publish;
        run.load.pace = Pace { start_ns: 100, spacing_ns: Some(10.0) };
        run.load.last_ns = 100;
        run
    }

    fn next(&mut self, client: usize, now_ns: u64) -> Next {
        self.load.next(client, &mut self.sessions[client], now_ns)
    }

    fn reply(&mut self, client: usize, error: ErrorCode, body: &[u8], now_ns: u64) {
        let header = ReplyHeader { xid: 1, zxid: 1, error };
        self.load.on_reply(client, header, JuteReader::new(body), 7, now_ns);
    }

    /// Sends both items, at 100 and 110 ns, and answers the creates; `last` is the answer to the
    /// second.
    fn publish(&mut self, last: ErrorCode) {
        assert_eq!([100, 110].map(|now_ns| self.next(0, now_ns)), [Next::Sent; 2]);
        for (number, error) in [(0, ErrorCode::OK), (1, last)] {
            let mut body = Vec::new();
            body.put_text(&path(number));
            self.reply(0, error, &body, 120);
        }
        assert_eq!(self.next(0, 120), Next::Finished);
        self.load.on_finished(0, 120);
    }

    fn event(&mut self, client: usize, number: usize, now_ns: u64) {
        self.load.on_event(client, CREATED, &path(number), now_ns);
    }

    fn is_over(&mut self, now_ns: u64) -> bool {
        self.load.is_given_up(now_ns)
    }
}

fn data_of(item: u64, since_ns: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![b'x'; bytes];
    item::write(&mut data, item, since_ns);
    let mut body = Vec::new();
    body.put_buffer(Some(&data));
    body
}

#[test]
fn a_stage_ends_with_the_last_event_that_is_due() {
    let tree = tree();
    let mut run = Run::start(&tree, Kind::EventOnly, ErrorCode::NO_NODE);
    run.publish(ErrorCode::OK);
    for (client, number) in [(1, 0), (2, 0), (1, 1), (2, 1)] {
        assert!(!run.is_over(150));
        assert_eq!(run.next(client, 150), Next::Wait);
        run.event(client, number, 150 + number as u64);
    }
    assert!(run.is_over(151));
    let Results { events, failed, .. } = &run.load.results;
    assert_eq!((events.answered, *failed, run.load.results.errors()), (4, 0, 0));
    // The first item counts from 100 ns, the second from 110.
    assert_eq!(events.latencies.max_us(), 0.05);
    assert_eq!(run.load.results.creates.latencies.max_us(), 0.007);
}

#[test]
fn a_read_follows_each_event_one_at_a_time() {
    let tree = tree();
    let mut run = Run::start(&tree, Kind::EventThenRead, ErrorCode::NO_NODE);
    run.publish(ErrorCode::OK);
    run.event(1, 1, 150);
    run.event(1, 0, 150);
    run.event(2, 0, 150);
    run.event(2, 1, 150);
    for client in [1, 2] {
        assert_eq!([160, 160].map(|now_ns| run.next(client, now_ns)), [Next::Sent, Next::Wait]);
    }
    assert!(!run.is_over(160));
    // Client 1 reads in the order of its events: item 1 first.
    run.reply(1, ErrorCode::OK, &data_of(1, 110, 20), 170);
    run.reply(2, ErrorCode::OK, &data_of(0, 100, 20), 170);
    for client in [1, 2] {
        assert_eq!(run.next(client, 180), Next::Sent);
    }
    run.reply(1, ErrorCode::OK, &data_of(0, 100, 20), 200);
    assert!(!run.is_over(200));
    run.reply(2, ErrorCode::OK, &data_of(1, 110, 20), 200);
    assert!(run.is_over(200));
    let Results { reads, .. } = &run.load.results;
    assert_eq!((reads.answered, reads.latencies.max_us()), (4, 0.1));
    assert_eq!(run.load.results.errors(), 0);
}

#[test]
fn a_read_that_finds_other_data_or_none_is_an_error() {
    let mut tail = data_of(0, 100, 20);
    *tail.last_mut().unwrap() = b'y';
    for (error, body, wrong_data, failed) in [
        (ErrorCode::OK, data_of(1, 100, 20), 1, 0),
        (ErrorCode::OK, data_of(0, 101, 20), 1, 0),
        (ErrorCode::OK, data_of(0, 100, 19), 1, 0),
        (ErrorCode::OK, data_of(0, 100, 21), 1, 0),
        (ErrorCode::OK, tail, 1, 0),
        (ErrorCode::OK, Vec::new(), 1, 0),
        (ErrorCode::NO_NODE, Vec::new(), 0, 1),
    ] {
        let tree = tree();
        let mut run = Run::start(&tree, Kind::EventThenRead, ErrorCode::NO_NODE);
        run.publish(ErrorCode::OK);
        run.event(1, 0, 150);
        assert_eq!(run.next(1, 150), Next::Sent);
        run.reply(1, error, &body, 160);
        let results = &run.load.results;
        assert_eq!((results.wrong_data, results.failed), (wrong_data, failed), "{body:?}");
        assert_eq!((results.reads.answered, results.reads.errors, results.errors()), (1, 1, 1));
        assert_eq!((results.reads.latencies.count(), run.load.reads_left), (0, 0));
    }
}

#[test]
fn events_that_are_not_due_are_counted() {
    let tree = tree();
    let mut run = Run::start(&tree, Kind::EventOnly, ErrorCode::OK);
    run.event(1, 0, 100);
    assert_eq!(run.load.results.not_asked_for, 1, "there is no create yet");
    run.publish(ErrorCode::OK);
    for (client, kind, path) in [
        // A publisher watches nothing.
        (0, CREATED, path(0)),
        (1, 3, path(0)),
        (1, CREATED, path(2)),
        (1, CREATED, "/bench-t/p1/c0".to_string()),
        (1, CREATED, "/bench-t/p0/c00".to_string()),
        (1, CREATED, "/".to_string()),
        // The watch was refused.
        (2, CREATED, path(1)),
    ] {
        let before = run.load.results.not_asked_for;
        run.load.on_event(client, kind, &path, 150);
        assert_eq!(run.load.results.not_asked_for, before + 1, "{path}");
    }
    for client in [1, 1, 2] {
        run.event(client, 0, 150);
    }
    let Results { events, twice, not_asked_for, .. } = &run.load.results;
    assert_eq!((events.answered, *twice, *not_asked_for), (2, 1, 8));
    assert_eq!((run.load.results.failed, run.load.results.errors()), (1, 9));
}

#[test]
fn what_was_refused_or_lost_is_not_waited_for() {
    let tree = tree();
    let mut run = Run::start(&tree, Kind::EventThenRead, ErrorCode::NO_NODE);
    run.publish(ErrorCode::NODE_EXISTS);
    run.event(1, 0, 150);
    assert_eq!(run.next(1, 150), Next::Sent);
    assert!(!run.is_over(150));
    // Both subscribers lose their sessions: one with a read under way, one before its event.
    run.load.on_finished(1, 160);
    assert!(!run.is_over(160));
    run.load.on_finished(2, 160);
    assert!(run.is_over(160));
    let Results { failed, missed, creates, .. } = &run.load.results;
    assert_eq!((*failed, *missed, creates.errors), (1, 1, 1));
    // After a publisher is lost, nobody waits for the rest of its items.
    let mut run = Run::start(&tree, Kind::EventOnly, ErrorCode::NO_NODE);
    assert_eq!(run.next(0, 100), Next::Sent);
    assert!(!run.is_over(110));
    run.load.on_finished(0, 110);
    assert!(run.is_over(110));
    assert_eq!(run.load.results.missed, 0);
}

#[test]
fn an_event_that_never_comes_ends_the_run() {
    let tree = tree();
    let mut run = Run::start(&tree, Kind::EventOnly, ErrorCode::NO_NODE);
    run.publish(ErrorCode::OK);
    for (client, number) in [(1, 0), (2, 0), (2, 1)] {
        run.event(client, number, 150);
    }
    let limit_ns = SILENCE_LIMIT.as_secs() * SECOND_NS;
    assert!(!run.is_over(150 + limit_ns));
    assert!(!run.load.is_silent);
    assert!(run.is_over(151 + limit_ns));
    assert!(run.load.is_silent);
    let expected = "0 creates and 0 reads are not answered, 1 events have not come, the first to \
                    subscriber 0 about /bench-t/p0/c1";
    assert_eq!(run.load.unfinished(), expected);
}

#[test]
fn later_stages_have_paths_of_their_own() {
    let tree = tree();
    let mut run = Run::start(&tree, Kind::EventOnly, ErrorCode::NO_NODE);
    run.publish(ErrorCode::OK);
    run.load.begin_settling(200);
    assert_eq!([(); 2].map(|()| run.next(1, 200)), [Next::Sent, Next::Finished]);
    run.event(1, 0, 210);
    run.event(1, 0, 220);
    assert_eq!(run.load.results.twice, 1, "an event that comes late is still counted");
    let mut sessions = [(); 3].map(|()| Session::connect(1));
    std::mem::swap(&mut run.sessions, &mut sessions);
    run.load.begin_stage(1, 300);
    assert_eq!([(); 2].map(|()| run.next(1, 300)), [Next::Sent, Next::Finished]);
    let sent = String::from_utf8_lossy(run.sessions[1].output()).into_owned();
    assert!(sent.contains(&path(2)), "{sent}");
    assert_eq!((run.load.until(0), run.load.results.twice), (3, 0));
}
