//! Tests of every bound of a Front: at the bound and one past it.

use super::super::*;
use super::rig::*;
use crate::fronts::zk::limits::{
    ACL_AUTH_BYTES_MAX, CONNECTION_IDENTITIES_MAX, CONNECTION_IDENTITY_BYTES_MAX,
    COUNT_STEP_SLOTS_MAX, INPUT_BYTES_MAX, MULTI_READ_BYTES_MAX, OUTPUT_BYTES_LIMIT,
    OUTPUT_KEPT_BYTES, OUTPUT_KEPT_IDLE_BYTES, TRAVELLING_READS_MAX, WATCH_BYTES_MAX,
    WINDOW_BYTES_MAX, WINDOW_KEPT_REQUESTS, WINDOW_REQUESTS_MAX,
};
use crate::limits::{FRONT_BYTES_MAX, FRONT_COMMANDS_MAX, HEARD_INTERVAL_MS, OUTPUT_BYTES_MAX};

use crate::throttle::{ConnectionThrottleConfig, LargeRequestsConfig, ThrottleConfig};

fn connection(rig: &Rig, number: u32) -> &Connection {
    let client = &rig.clients[&number];
    &rig.fronts[client.front].connections[&client.id]
}

/// A rig with a client and a znode `/a` of `bytes` bytes.
fn begun(bytes: usize) -> Rig {
    let mut rig = Rig::default();
    rig.play(&format!("c1: connect\nc1: create /a big:{bytes}"));
    rig
}

#[test]
fn a_frame_of_jute_maxbuffer_is_read_and_a_longer_one_closes() {
    let max = 20_000;
    for (frame_bytes, accepted) in [(max - 1, true), (max, true), (max + 1, false)] {
        for read_bytes in [1, 16 * 1024] {
            let mut rig = Rig::default();
            rig.read_bytes = read_bytes;
            rig.fronts[0] = ZkFront::new(ZkFrontConfig { frame_bytes_max: max, ..config(0) });
            rig.play("c1: connect\nc1: create /a x");
            // The header has 8 bytes, the path 4 + 2, the length of the data 4, the version 4.
            let seen = rig.play(&format!("c1: set /a big:{}", frame_bytes - 22));
            assert_eq!(seen.contains("v1 @3"), accepted, "{frame_bytes}: {seen}");
            assert_eq!(seen.contains("closed"), !accepted);
        }
    }
}

#[test]
fn the_input_of_a_client_that_waits_is_bounded() {
    let mut rig = begun(1);
    rig.play("c1~ set /a v");
    let many = rig.encode(1, &["ping"; 20_000].join(" | "));
    rig.send(1, &many);
    let held = connection(&rig, 1);
    assert_eq!(held.window.len(), WINDOW_REQUESTS_MAX);
    assert!(!held.wants_input());
    assert!(held.input.len() < INPUT_BYTES_MAX + rig.read_bytes);
    assert!(rig.unread(1) > 0);
    rig.run();
    assert_eq!(rig.client(1).reply_count, 2 + 20_000);
}

#[test]
fn a_frame_larger_than_the_input_bound_is_read_to_its_end() {
    let mut rig = begun(1);
    let seen = rig.play(&format!("c1: set /a big:{} | ping", 4 * INPUT_BYTES_MAX));
    assert_eq!(seen.lines().count(), 2);
}

#[test]
fn bytes_of_writes_under_way_are_bounded_per_connection() {
    let mut rig = begun(1);
    let each = 100_000;
    rig.play(&format!("c1~ {}", vec![format!("set /a big:{each}"); 30].join(" | ")));
    let bytes = connection(&rig, 1).window.counts().bytes;
    assert!((WINDOW_BYTES_MAX..WINDOW_BYTES_MAX + each + 22).contains(&bytes), "{bytes}");
    rig.run();
    assert_eq!(rig.client(1).reply_count, 1 + 30);
}

#[test]
fn one_write_above_the_window_goes_alone() {
    let mut rig = Rig::default();
    let frame_bytes_max = 8 * 1024 * 1024;
    rig.fronts[0] = ZkFront::new(ZkFrontConfig { frame_bytes_max, ..config(0) });
    rig.play("c1: connect\nc1: create /a x");
    rig.play(&format!("c1~ set /a big:{} | set /a y", 2 * WINDOW_BYTES_MAX));
    assert_eq!(connection(&rig, 1).window.len(), 1);
    rig.play("run");
    assert_eq!(rig.play("c1: get /a"), "c1: get /a -> y v2 @4");
}

#[test]
fn a_client_that_never_reads_stops_being_served() {
    let bytes = 10_000;
    let mut rig = begun(bytes);
    rig.play("stall c1");
    rig.play(&format!("c1: {}", ["get /a"; 500].join(" | ")));
    let output = connection(&rig, 1).output.bytes();
    assert!((OUTPUT_BYTES_MAX..OUTPUT_BYTES_MAX + bytes + 200).contains(&output), "{output}");
    let id = rig.clients[&1].id;
    assert!(rig.fronts[0].input(id).is_none());
    // Requests under way are answered; no further ones are read.
    rig.play("c2: connect\nc2: set /a x");
    assert_eq!(connection(&rig, 1).output.bytes(), output);
    rig.unstall(1);
    rig.run();
    assert_eq!(rig.client(1).reply_count, 1 + 500);
}

#[test]
fn what_a_slow_client_has_taken_is_given_back() {
    let mut rig = begun(50_000);
    rig.play("stall c1");
    let id = rig.client(1).id;
    let mut capacity = 0;
    for _ in 0..2_000 {
        rig.play("c1: get /a");
        // The socket takes all bytes but one, so the output is never empty.
        let count = connection(&rig, 1).output.bytes() - 1;
        rig.fronts[0].on_written(id, count);
        capacity = capacity.max(connection(&rig, 1).output.capacity());
    }
    assert!(capacity < 8 * OUTPUT_KEPT_BYTES, "{capacity} bytes are kept");
}

#[test]
fn an_idle_connection_keeps_no_large_buffers() {
    let mut rig = begun(1_000);
    for round in ["set /a x", "get /a", "get /a | set /a big:5000 | get /a", "exists /a w"] {
        rig.play(&format!("c1: {}", [round; 200].join(" | ")));
        let idle = connection(&rig, 1);
        assert_eq!((idle.input.len(), idle.window.len(), idle.output.bytes()), (0, 0, 0));
        assert_eq!(idle.input.capacity(), 0);
        assert!(idle.window.capacity() <= WINDOW_KEPT_REQUESTS);
        assert!(idle.output.capacity() <= OUTPUT_KEPT_IDLE_BYTES);
    }
}

#[test]
fn a_client_that_leaves_its_events_lying_is_disconnected() {
    // Each event is about as long as its path.
    let name_bytes = 500_000;
    let mut rig = Rig::default();
    rig.play("c1: connect\nc2@1: connect");
    let count = OUTPUT_BYTES_LIMIT / name_bytes + 2;
    let path = |at: usize| format!("/{at:03}{}", "x".repeat(name_bytes - 4));
    for at in 0..count {
        rig.play(&format!("c1: exists {} w", path(at)));
    }
    assert_eq!(rig.fronts[0].watches.len(), count);
    rig.play("stall c1");
    for at in 0..count {
        assert!(connection(&rig, 1).output.bytes() <= OUTPUT_BYTES_LIMIT);
        rig.play(&format!("c2: create {} x", path(at)));
        if rig.client(1).closed {
            assert!((at + 1) * name_bytes > OUTPUT_BYTES_LIMIT - 1_000_000);
            break;
        }
    }
    assert!(rig.client(1).closed);
    assert_eq!(rig.fronts[0].watches.len(), 0);
    assert!(rig.notices[0].starts_with("it leaves 67"), "{:?}", rig.notices);
    rig.play("run");
    rig.check();
}

#[test]
fn watches_set_again_wait_for_a_client_that_does_not_read() {
    let mut rig = Rig::default();
    let frame_bytes_max = 24 * 1024 * 1024;
    rig.fronts[0] = ZkFront::new(ZkFrontConfig { frame_bytes_max, ..config(0) });
    rig.play("c1: connect\nc1: create /a x\nstall c1");
    // Each 6 bytes of the request cause an event of 34 bytes. One more watch, to be set, follows
    // them.
    let count = 2 * OUTPUT_BYTES_MAX / 34;
    let request = format!("setwatches 3 {}d:/a", "d:/n ".repeat(count));
    let bytes = rig.encode(1, &request);
    rig.send(1, &bytes);
    rig.run();
    let output = connection(&rig, 1).output.bytes();
    assert!((OUTPUT_BYTES_MAX..OUTPUT_BYTES_MAX + 4096).contains(&output), "{output}");
    assert_eq!(rig.fronts[0].watches.len(), 0);
    rig.unstall(1);
    rig.run();
    assert_eq!(rig.client(1).event_count, count);
    assert_eq!(rig.fronts[0].watches.len(), 1);
}

#[test]
fn reads_that_travel_are_bounded_per_connection() {
    let mut rig = begun(1);
    let count = TRAVELLING_READS_MAX + 1;
    rig.play(&format!("c1~ {}", vec!["set /a v | get /a"; count].join(" | ")));
    assert_eq!(connection(&rig, 1).window.counts().travelling_reads, TRAVELLING_READS_MAX);
    rig.run();
    assert_eq!(connection(&rig, 1).window.counts().travelling_reads, 0);
    assert_eq!(rig.client(1).reply_count, 1 + 2 * count);
}

#[test]
fn commands_under_way_are_bounded_per_front() {
    let mut rig = Rig::default();
    let count = FRONT_COMMANDS_MAX as u32 / 1_000 + 1;
    rig.play("c1: connect\nc1: create /a x\nc99: connect\nc98@1: connect");
    for number in 2..=count + 1 {
        rig.play(&format!("c{number}: connect"));
    }
    for number in 2..=count + 1 {
        rig.play(&format!("c{number}~ {}", ["delete /n"; 1_000].join(" | ")));
    }
    assert_eq!(rig.fronts[0].commands_in_flight(), FRONT_COMMANDS_MAX);
    // No other connection is decoded, and the list of connections that wait for credit has each of
    // them once.
    let bytes = rig.encode(1, "set /a y | get /a");
    for byte in bytes {
        rig.send(1, &[byte]);
    }
    rig.play("c99~ ping");
    assert!(connection(&rig, 1).window.is_empty());
    assert_eq!(rig.fronts[0].commands.starved.len(), 3);
    // The other Front has its own credit.
    rig.play("c98~ ping");
    assert_eq!(rig.client(98).reply_count, 1);
    rig.hold = 1_000;
    let seen = rig.play("run");
    assert_eq!(seen.matches("no node").count(), count as usize * 1_000);
    assert!(seen.contains("c1: get /a -> y v1"));
    assert!(seen.contains("c99: ping"));
    assert_eq!((rig.fronts[0].commands_in_flight(), rig.fronts[0].commands.starved.len()), (0, 0));
}

/// The replies that `c2` gets after it has waited for `ms` behind a write of `c1`. The Front may
/// have one command under way.
fn seen_after_waiting(throttled_op_wait_ms: u64, ms: u64) -> String {
    let mut rig = Rig::default();
    let config = ZkFrontConfig { commands_max: 1, throttled_op_wait_ms, ..config(0) };
    rig.fronts[0] = ZkFront::new(config);
    rig.play("c1: connect\nc2: connect\nc1: create /a x");
    rig.play("c1~ set /a y\nc2~ get /a | ping | set /a z");
    assert!(connection(&rig, 2).window.is_empty());
    rig.now.monotonic_ms += ms;
    rig.fronts[0].set_now(rig.now);
    let seen = rig.play("run\nc2: get /a");
    let of_c2: Vec<&str> = seen.lines().filter_map(|line| line.strip_prefix("c2: ")).collect();
    of_c2.join("; ")
}

#[test]
fn what_waits_too_long_for_credit_is_refused() {
    let served = "get /a -> y v1 @4; ping -> @4; set /a z -> v2 @5; get /a -> z v2 @5";
    assert_eq!(seen_after_waiting(0, 5_000), served);
    assert_eq!(seen_after_waiting(500, 500), served);
    let refused = "get /a -> throttled @4; ping -> @4; set /a z -> throttled @4; get /a -> y v1 @4";
    assert_eq!(seen_after_waiting(500, 501), refused);
}

fn throttled(bounds: ThrottleConfig) -> Rig {
    let mut rig = Rig::default();
    let throttle = Arc::new(Throttle::new(bounds));
    for (id, front) in rig.fronts.iter_mut().enumerate() {
        *front = ZkFront::new(ZkFrontConfig { throttle: throttle.clone(), ..config(id as u32) });
    }
    rig
}

#[test]
fn only_so_many_ask_for_a_session_on_all_fronts_in_a_time() {
    let connections =
        ConnectionThrottleConfig { tokens_max: 2, fill_ms: 1_000, ..Default::default() };
    let mut rig = throttled(ThrottleConfig { connections, ..Default::default() });
    assert_eq!(rig.play("c1: connect"), "c1: connected as A for 10000");
    assert_eq!(rig.play("c2@1: connect"), "c2: connected as B for 10000");
    assert_eq!(rig.play("c3: connect"), "c3: closed");
    assert_eq!(rig.play("c4@1: connect"), "c4: closed");
    // Four-letter words and clients with a session are not throttled.
    assert_eq!(rig.play("c1: ping"), "c1: ping -> @2");
    rig.play("time 1001");
    assert_eq!(rig.play("c1: connect again"), "c1: connected as A for 10000");
    assert_eq!(rig.play("c2: connect again"), "c2: closed");
    let mut metrics = rig.fronts[0].report().metrics;
    assert_eq!((metrics.connection_request_count, metrics.connection_rejected), (2, 2));
    metrics = rig.fronts[1].report().metrics;
    assert_eq!((metrics.connection_request_count, metrics.connection_rejected), (1, 1));
    let deficit = metrics.connection_token_deficit.distribution(1.0, 0);
    assert_eq!((deficit.count, deficit.sum), (1, 2.0));
}

#[test]
fn who_is_dropped_by_chance_is_refused_with_tokens_left() {
    let connections = ConnectionThrottleConfig {
        tokens_max: 1,
        freeze_ms: Some(0),
        drop_increase: 1.0,
        fill_ms: 10,
        ..Default::default()
    };
    let mut rig = throttled(ThrottleConfig { connections, ..Default::default() });
    rig.play("time 1");
    assert_eq!(rig.play("c1: connect"), "c1: connected as A for 10000");
    rig.play("time 1");
    assert_eq!(rig.play("c2: connect"), "c2: closed");
    rig.play("time 10000");
    assert_eq!(rig.play("c3: connect"), "c3: closed");
}

fn large_requests(threshold: u32, bytes_max: u64) -> Rig {
    let large_requests = LargeRequestsConfig { threshold: Some(threshold), bytes_max };
    let mut rig = throttled(ThrottleConfig { large_requests, ..Default::default() });
    rig.play("c1: connect\nc2@1: connect\nc1: create /a x");
    rig
}

#[test]
fn large_requests_of_all_fronts_are_bounded_together() {
    let mut rig = large_requests(200, 1_000);
    rig.play("c1~ set /a big:500 | set /a y");
    assert_eq!(rig.fronts[0].config.throttle.large_bytes(), 514);
    // Small requests are accepted, and so is a large one that fits.
    rig.play("c2~ set /a big:100 | set /a big:400");
    assert_eq!(rig.fronts[0].config.throttle.large_bytes(), 514 + 414);
    assert_eq!(rig.play("c2~ set /a big:400"), "c2: closed");
    assert_eq!(rig.fronts[1].report().metrics.large_requests_rejected, 1);
    // The credit of the closed connection is given back.
    assert_eq!(rig.fronts[0].config.throttle.large_bytes(), 514);
    let seen = rig.play("run");
    assert!(seen.contains("c1: set /a y -> v2"), "{seen}");
    assert_eq!(rig.fronts[0].config.throttle.large_bytes(), 0);
    let seen = rig.play("c1: set /a big:900");
    assert!(seen.ends_with("-> v5 @8"), "{seen}");
    assert_eq!(rig.fronts[0].config.throttle.large_bytes(), 0);
}

#[test]
fn a_request_that_cannot_fit_is_refused_by_its_length() {
    let mut rig = large_requests(200, 1_000);
    assert_eq!(rig.play("c1: raw 000003e9"), "c1: closed");
    assert_eq!(rig.fronts[0].report().metrics.large_requests_rejected, 1);
    assert_eq!(rig.play("c2: raw 000003e8"), "");
}

#[test]
fn bytes_under_way_are_bounded_per_front() {
    let mut rig = Rig::default();
    let count = (FRONT_BYTES_MAX / WINDOW_BYTES_MAX) as u32 + 2;
    for number in 1..=count {
        rig.play(&format!("c{number}: connect"));
    }
    rig.play("c1: create /a x");
    for number in 1..=count {
        rig.play(&format!("c{number}~ {}", ["set /a big:500000"; 8].join(" | ")));
    }
    let bytes = rig.fronts[0].commands.bytes;
    assert!((FRONT_BYTES_MAX..FRONT_BYTES_MAX + 500_022).contains(&bytes), "{bytes}");
    rig.play("run");
    assert_eq!(rig.fronts[0].commands.bytes, 0);
    assert_eq!(
        rig.play("c1: exists /a"),
        format!("c1: exists /a -> v{} @{}", 8 * count, 9 * count + 1)
    );
}

#[test]
fn credit_of_a_connection_that_goes_is_for_the_others() {
    let mut rig = Rig::default();
    let count = FRONT_COMMANDS_MAX as u32 / 1_000 + 1;
    for number in 1..=count {
        rig.play(&format!("c{number}: connect"));
    }
    for number in 1..=count {
        rig.play(&format!("c{number}~ {}", ["sync /"; 1_000].join(" | ")));
    }
    assert_eq!(rig.fronts[0].commands_in_flight(), FRONT_COMMANDS_MAX);
    assert_eq!(connection(&rig, count).window.len(), FRONT_COMMANDS_MAX % 1_000);
    rig.play("close c1\nresume");
    assert_eq!(connection(&rig, count).window.len(), 1_000);
    for number in 2..=count {
        rig.close(number);
    }
    rig.play("run");
    rig.assert_idle();
}

#[test]
fn one_hold_of_the_lock_reads_a_bounded_number_of_requests() {
    let mut rig = begun(1);
    for number in 2..9 {
        rig.play(&format!("c{number}: connect"));
    }
    rig.play("c1~ get /a | get /a | get /a | get /a | get /a");
    for number in 2..9 {
        rig.play(&format!("c{number}~ {}", ["get /a"; 40].join(" | ")));
    }
    let before = rig.fronts[0].traffic.sent;
    rig.fronts[0].run_reads(&rig.machine);
    let count = rig.fronts[0].traffic.sent - before;
    assert!((50..=READ_HOLD_REQUESTS_MAX as u64).contains(&count), "{count}");
    // Connections take turns: the first ones are not served to their end before the others.
    assert_eq!(connection(&rig, 2).window.len(), 40 - READ_TURN_REQUESTS_MAX);
    rig.play("run");
    assert!((2..9).all(|number| rig.clients[&number].reply_count == 40));
}

#[test]
fn a_count_gives_the_lock_back_and_others_their_turn() {
    let mut rig = begun(1);
    rig.play("c2: connect");
    let children: Vec<String> = (0..6_000).map(|index| format!("create /a/{index} x")).collect();
    for some in children.chunks(500) {
        rig.play(&format!("c1: {}", some.join(" | ")));
    }
    // A count walks from each child up to the root, and not through `/zookeeper`.
    rig.play("c1~ count /zookeeper | count /a");
    rig.play("c2~ get /a");
    rig.fronts[0].run_reads(&rig.machine);
    assert!(connection(&rig, 2).window.is_empty());
    assert_eq!(connection(&rig, 1).window.len(), 2);
    let mut holds = 1;
    while rig.fronts[0].is_runnable() {
        rig.fronts[0].run_reads(&rig.machine);
        holds += 1;
    }
    let looked_max = READ_HOLD_REQUESTS_MAX as u32 * (COUNT_STEP_SLOTS_MAX + 2);
    assert!(holds >= 6_000 * 3 / looked_max, "{holds}");
    let text = rig.play("run");
    assert!(text.contains("c1: count /zookeeper -> 2 @"), "{text}");
    assert!(text.contains("c1: count /a -> 6000 @"), "{text}");
}

#[test]
fn one_hold_of_the_lock_writes_a_bounded_number_of_bytes() {
    let bytes = 60_000;
    let mut rig = begun(bytes);
    rig.play(&format!("stall c1\nc1~ {}", ["get /a"; 16].join(" | ")));
    rig.fronts[0].run_reads(&rig.machine);
    let written = connection(&rig, 1).output.bytes();
    assert!(written < READ_HOLD_BYTES_MAX + bytes + 200, "{written}");
    rig.unstall(1);
    rig.run();
    assert_eq!(rig.client(1).reply_count, 1 + 16);
}

#[test]
fn identities_of_a_connection_are_bounded() {
    let mut rig = begun(1);
    // The client's address is one of the identities.
    for at in 1..CONNECTION_IDENTITIES_MAX {
        assert_eq!(rig.play(&format!("c1: auth digest u{at}:p")).lines().count(), 1);
    }
    assert_eq!(rig.play("c1: auth digest u1:p | create /b x acl=own").lines().count(), 2);
    let seen = rig.play("c1: auth digest one:more");
    assert_eq!(seen, "c1: auth digest one:more -> auth failed @0\nc1: closed");
}

#[test]
fn bytes_of_the_identities_of_a_connection_are_bounded() {
    // The identities take 2 bytes for their count; 4 + 2 and 4 + 8 for scheme and id of the
    // address; 4 + 6 and 4 for the scheme and the length of the digest, whose hash takes 29 with
    // the colon.
    let room = CONNECTION_IDENTITY_BYTES_MAX - 2 - 18 - 14 - 29;
    for (name_bytes, accepted) in [(room, true), (room + 1, false), (900_000, false)] {
        let mut rig = begun(1);
        let seen = rig.play(&format!("c1: auth digest {}:p", "u".repeat(name_bytes)));
        assert_eq!(!seen.contains("auth failed"), accepted);
        assert_eq!(connection_is_open(&rig), accepted);
    }
}

fn connection_is_open(rig: &Rig) -> bool {
    !rig.clients[&1].closed
}

#[test]
fn a_batch_is_cut_where_an_entry_would_be() {
    let mut rig = begun(1);
    rig.read_bytes = 1024 * 1024;
    rig.play(&format!("c1~ {}", ["set /a big:100000"; 6].join(" | ")));
    let sizes: Vec<(usize, usize)> = rig
        .to_loop
        .iter()
        .map(|message| match message {
            ToLoop::Submit(submission) => {
                (submission.batch.command_count, submission.batch.byte_count())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes.iter().map(|(commands, _)| commands).sum::<usize>(), 6);
    assert!(sizes.iter().all(|(_, bytes)| *bytes <= machine::limits::BATCH_BYTES_MAX + 1_000));
    assert_eq!(sizes.len(), 3);
}

#[test]
fn nothing_more_is_decoded_for_a_client_that_leaves_its_replies_lying() {
    let mut rig = begun(10_000);
    rig.read_bytes = INPUT_BYTES_MAX;
    rig.play(&format!("stall c1\nc1: {}", ["get /a"; 3_000].join(" | ")));
    let answered = rig.fronts[0].traffic.sent as usize - 2;
    assert!(answered > 100);
    // The answers of the last hold have made room in the window, and it is not filled again.
    assert!(connection(&rig, 1).window.len() < WINDOW_REQUESTS_MAX);
    // The socket takes some bytes: the driver learns that it may go on.
    assert!(!rig.fronts[0].may_go_on());
    let (id, half) = (rig.client(1).id, connection(&rig, 1).output.bytes() / 2);
    rig.fronts[0].on_written(id, half);
    assert!(rig.fronts[0].may_go_on());
}

#[test]
fn the_answers_to_a_multi_read_are_bounded() {
    let mut rig = Rig::default();
    rig.fronts[0] = ZkFront::new(ZkFrontConfig { frame_bytes_max: 16 << 20, ..config(0) });
    let part_bytes = MULTI_READ_BYTES_MAX / 8;
    rig.play(&format!("c1: connect\nc1: create /a big:{part_bytes} | create /b x"));
    let eight = ["get,/a"; 8].join(" ");
    let seen = rig.play(&format!("c1: multiread {eight} | multiread {eight} get,/b | ping"));
    let lines: Vec<&str> = seen.lines().collect();
    assert!(lines[0].contains("4194304 v0"), "{seen}");
    assert!(lines[1].ends_with("marshalling error @3"), "{seen}");
    assert_eq!(lines[2], "c1: ping -> @3");
    assert_eq!(rig.notices, ["a multi-read of 33554433 bytes is refused"]);
}

#[test]
fn the_watches_of_a_connection_take_a_bounded_number_of_bytes() {
    let one_shot = |path: &str| format!("exists {path} w");
    let recursive = |path: &str| format!("addwatch {path} r");
    check_watch_bytes(one_shot, "c1: exists / w -> v0 @1\nc1: closed");
    check_watch_bytes(recursive, "c1: addwatch / r -> @1\nc1: closed");
}

/// Sets watches up to the bound, then one more on the root.
fn check_watch_bytes(request: impl Fn(&str) -> String, one_more: &str) {
    let count = 256;
    let path_bytes = WATCH_BYTES_MAX / count - crate::fronts::zk::limits::WATCH_BYTES;
    let mut rig = Rig::default();
    rig.play("c1: connect");
    for at in 0..count {
        let request = request(&format!("/{at:03}{}", "x".repeat(path_bytes - 4)));
        // Setting a watch a second time takes no more bytes.
        rig.play(&format!("c1: {request} | {request}"));
    }
    assert_eq!(rig.fronts[0].watches.len(), count);
    assert_eq!(rig.play(&format!("c1: {}", request("/"))), one_more);
    assert_eq!(rig.notices.len(), 1);
    rig.assert_idle();
}

#[test]
fn a_client_whose_requests_are_held_back_is_heard_all_the_same() {
    let mut rig = begun(1);
    rig.play("c1~ set /a v1\nc1~ ls / | set /a v2");
    let heard = |rig: &mut Rig| {
        rig.now.monotonic_ms += HEARD_INTERVAL_MS;
        rig.fronts[0].set_now(rig.now);
        rig.fronts[0].on_tick();
        rig.fronts[0].take_output().to_loop.len()
    };
    assert_eq!(heard(&mut rig), 1);
    assert_eq!(heard(&mut rig), 0);
    rig.play("c1~ ping");
    assert_eq!(connection(&rig, 1).window.len(), 2);
    assert_eq!(heard(&mut rig), 1);
}

/// The client's later requests stay unread in its socket.
#[test]
fn a_client_that_is_not_read_because_its_requests_are_held_back_counts_as_heard() {
    let mut rig = begun(1);
    rig.play("c1~ set /a v1\nc1~ ls / | set /a v2");
    rig.play(&format!("c1~ set /a big:{INPUT_BYTES_MAX}"));
    let id = rig.clients[&1].id;
    assert!(rig.fronts[0].input(id).is_none());
    for _ in 0..3 {
        rig.now.monotonic_ms += HEARD_INTERVAL_MS;
        rig.fronts[0].set_now(rig.now);
        rig.fronts[0].on_tick();
        assert_eq!(rig.fronts[0].take_output().to_loop.len(), 1);
    }
}

/// An ACL of `count` `auth` entries, none a duplicate of another.
fn auth_entries(count: usize) -> String {
    (0..count).map(|number| format!("auth|{number}|31")).collect::<Vec<_>>().join(",")
}

#[test]
fn what_auth_stands_for_in_a_request_is_bounded() {
    let name_bytes = 10_000;
    // An entry takes 12 bytes, the scheme, and the name with a colon and a hash of 28.
    let entry_bytes = 12 + 6 + name_bytes + 29;
    let most = ACL_AUTH_BYTES_MAX / entry_bytes;
    let mut rig = begun(1);
    rig.read_bytes = INPUT_BYTES_MAX;
    rig.play(&format!("c1: auth digest {}:p", "u".repeat(name_bytes)));
    let seen = rig.play(&format!("c1: setacl /a {}", auth_entries(most)));
    assert!(seen.contains("-> v0"), "{seen}");
    let seen = rig.play(&format!("c1: setacl /a {}", auth_entries(most + 1)));
    assert!(seen.contains("-> invalid ACL"), "{seen}");
    // The ACLs of a multi count together, and the refused one is reported at its place.
    let commas = |count| auth_entries(count).replace(',', "+");
    let half = most / 2 + 1;
    let (one, other) = (commas(half), commas(half));
    let multi = format!("multi create,/b,x,acl={one} create,/c,x,acl={other} create,/d,x");
    let seen = rig.play(&format!("c1: {multi}"));
    assert!(seen.contains("ok, invalid ACL, runtime inconsistency"), "{seen}");
}

#[test]
fn an_acl_that_auth_makes_too_long_is_refused_before_the_log() {
    let mut rig = begun(1);
    rig.read_bytes = INPUT_BYTES_MAX;
    rig.play("c1: auth digest a:p | auth digest b:p");
    let count = machine::limits::ACL_ENTRIES_MAX / 2 + 1;
    rig.play(&format!("c1~ setacl /a {}", auth_entries(count)));
    let bytes: usize = rig
        .to_loop
        .iter()
        .map(|message| match message {
            ToLoop::Submit(submission) => submission.batch.byte_count(),
            other => panic!("{other:?}"),
        })
        .sum();
    assert!(bytes < 1_000, "{bytes}");
    let seen = rig.play("run");
    assert!(seen.contains("-> invalid ACL"), "{seen}");
}
