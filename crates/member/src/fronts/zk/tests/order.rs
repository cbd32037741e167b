//! Tests of the order within a session, however the bytes arrive and whatever runs in between.

use super::super::*;
use super::rig::*;
use crate::fronts::zk::limits::TRAVELLING_READS_MAX;

const PIPELINE: &str = "set /a v1 | get /a | set /a v2 | ls / | sync / | get /a | exists /a w | \
                        set /a v3 | multiread get,/a | ping | get /a";
const ANSWERS: &str = "c1: set /a v1 -> v1 @3
c1: get /a -> v1 v1 @3
c1: set /a v2 -> v2 @4
c1: ls / -> [a zookeeper] @4
c1: sync / -> / @4
c1: get /a -> v2 v2 @4
c1: exists /a w -> v2 @4
c1: event changed /a @5
c1: set /a v3 -> v3 @5
c1: multiread get,/a -> v3 v3 @5
c1: ping -> @5
c1: get /a -> v3 v3 @5";

fn begun() -> Rig {
    let mut rig = Rig::default();
    rig.play("c1: connect\nc1: create /a v0");
    rig
}

#[test]
fn pipelined_requests_are_answered_alike_in_every_two_packets() {
    let count = begun().encode(1, PIPELINE).len();
    for cut in 0..=count {
        for steps in ["", "reads", "loop", "loop\napply\ndeliver", "run"] {
            let mut rig = begun();
            let bytes = rig.encode(1, PIPELINE);
            rig.send(1, &bytes[..cut]);
            rig.flush();
            let mut seen = rig.play(steps);
            rig.send(1, &bytes[cut..]);
            let rest = rig.play("run");
            if !seen.is_empty() && !rest.is_empty() {
                seen.push('\n');
            }
            assert_eq!(seen + &rest, ANSWERS, "cut at {cut}, then {steps}");
        }
    }
}

#[test]
fn pipelined_requests_are_answered_alike_byte_by_byte() {
    for runs in [false, true] {
        let mut rig = begun();
        let bytes = rig.encode(1, PIPELINE);
        for byte in bytes {
            rig.send(1, &[byte]);
            if runs {
                rig.run();
            }
        }
        assert_eq!(rig.play("run"), ANSWERS);
    }
}

#[test]
fn pipelined_requests_are_answered_alike_in_random_packets_and_steps() {
    for seed in 0..100 {
        let mut random = Random(seed);
        let mut rig = begun();
        rig.play("c2: connect\nc2: exists /a w");
        rig.take_log();
        let mut bytes = rig.encode(1, PIPELINE);
        let mut seen = Vec::new();
        while !bytes.is_empty() {
            let rest = bytes.split_off(random.below(bytes.len() + 1));
            rig.send(1, &bytes);
            bytes = rest;
            let step = random.pick(&["reads", "loop", "apply 1", "deliver", "resume", "write"]);
            rig.line(step);
            seen.extend(rig.take_log());
        }
        rig.run();
        seen.extend(rig.take_log());
        seen.retain(|line| line.starts_with("c1"));
        let answers = ANSWERS.replace("@5", "@6").replace("@4", "@5").replace("@3", "@4");
        assert_eq!(seen.join("\n"), answers, "seed {seed}");
    }
}

#[test]
fn a_read_goes_with_its_write_in_one_hand_over() {
    let mut rig = begun();
    rig.play("c1~ set /a v1 | get /a | exists /a | getacl /a | ls /a | get /a");
    assert_eq!(rig.fronts[0].connections.values().next().unwrap().window.counts().local_reads, 2);
    let Some(ToLoop::Submit(submission)) = rig.to_loop.front() else { panic!("it was sent") };
    let reads: Vec<usize> = submission.waiters.iter().map(|waiter| waiter.reads.len()).collect();
    assert_eq!(reads, [3]);
}

#[test]
fn as_many_reads_travel_as_the_limit_says() {
    let mut rig = begun();
    let gets = " | get /a".repeat(TRAVELLING_READS_MAX - 24);
    rig.play(&format!("c1~ set /a v1{gets} | set /a v2{gets} | set /a v3 | get /a"));
    let held = rig.fronts[0].connections.values().next().unwrap().window.counts();
    assert_eq!(held.travelling_reads, TRAVELLING_READS_MAX);
    // The other reads are run by the Front, and hold back the last write.
    assert_eq!(held.local_reads, TRAVELLING_READS_MAX - 48);
    assert_eq!(rig.fronts[0].commands_in_flight(), 2);
    let seen = rig.play("run");
    assert_eq!(seen.matches("get /a -> v1 v1 @3").count(), TRAVELLING_READS_MAX - 24);
    assert_eq!(seen.matches("get /a -> v2 v2 @4").count(), TRAVELLING_READS_MAX - 24);
    assert!(seen.ends_with("c1: set /a v3 -> v3 @5\nc1: get /a -> v3 v3 @5"));
}

#[test]
fn a_sync_holds_back_the_writes_behind_it() {
    // The sync and the write after it arrive when an entry is half applied. The sync is answered at
    // the end of the hold, after the write of the same hold.
    let mut rig = begun();
    rig.play("c2@1: connect\nc2~ set /a w | set /a x\nloop\napply 1");
    rig.play("c1~ sync / | set /a y\nloop\nloop");
    let seen = rig.play("run");
    assert_eq!(seen.matches("c1: sync / -> / @").count(), 1);
    assert!(seen.find("c1: sync").unwrap() < seen.find("c1: set /a y").unwrap(), "{seen}");
}

#[test]
fn every_write_waits_for_the_reads_before_it() {
    let writes = [
        "create /b v",
        "create2 /b v",
        "container /b v",
        "ttl /b v",
        "delete /no",
        "set /a v1",
        "setacl /a open",
        "multi set,/a,v1",
    ];
    for write in writes {
        let mut rig = begun();
        // The reads before the write are answered, except the last one of the line.
        rig.play(&format!("c1~ ls / | {write} | ls /\nloop\napply\ndeliver"));
        let seen = rig.play("run");
        let asked: Vec<&str> =
            seen.lines().map(|line| line.split(" -> ").next().unwrap()).collect();
        assert_eq!(asked, ["c1: ls /", &*format!("c1: {write}"), "c1: ls /"], "{seen}");
        assert!(seen.starts_with("c1: ls / -> [a zookeeper] @2"), "{seen}");
    }
}

#[test]
fn a_sync_keeps_its_place_when_the_disk_is_full() {
    let mut rig = Rig::with_loop(start());
    rig.play("c1: connect\nc1: create /a v0\nfull");
    let seen = rig.play("c1: sync /a | set /a v1 | get /a");
    let wanted = "c1: sync /a -> /a @2\nc1: set /a v1 -> system error @2\nc1: get /a -> v0 v0 @2";
    assert_eq!(seen, wanted);
}

#[test]
fn a_write_refused_for_a_full_disk_is_answered_behind_those_that_wait() {
    // Four entries are on their way to the disk, so further commands wait in Loop.
    let mut rig = Rig::with_loop(start());
    rig.play("c1: connect\nc1: create /a v0");
    for at in 1..=5 {
        rig.play(&format!("c1~ set /a v{at}\nloop"));
    }
    assert_eq!(rig.real().disk.len(), 4);
    rig.play("full\nc1~ set /a v6 | get /a\nloop");
    let seen = rig.play("run");
    let wanted = "c1: set /a v1 -> v1 @3\nc1: set /a v2 -> v2 @4\nc1: set /a v3 -> v3 @5\n\
                  c1: set /a v4 -> v4 @6\nc1: set /a v5 -> system error @6\n\
                  c1: set /a v6 -> system error @6\nc1: get /a -> v4 v4 @6";
    assert_eq!(seen, wanted);
}

/// The C client reads the results of a multi whatever the header says.
#[test]
fn a_multi_refused_for_a_full_disk_has_a_result_for_each_operation() {
    let mut rig = Rig::with_loop(start());
    rig.play("c1: connect\nc1: create /a v0\nfull");
    let seen = rig.play("c1: multi set,/a,v1 check,/a,0");
    assert_eq!(seen, "c1: multi set,/a,v1 check,/a,0 -> system error, system error @2");
}

#[test]
fn a_refused_write_is_answered_behind_a_batch_that_is_half_applied() {
    let mut rig = begun();
    rig.play("c1~ set /a v1 | set /a v2 | set /a v3\nloop\nfull\nc1~ create /b x\nloop");
    let seen = rig.play("apply 1\napply 1\ndeliver\nrun");
    let wanted = "c1: set /a v1 -> v1 @3\nc1: set /a v2 -> v2 @4\nc1: set /a v3 -> v3 @5\n\
                  c1: create /b x -> system error @5";
    assert_eq!(seen, wanted);
}

#[test]
fn nothing_is_read_behind_a_request_that_will_close() {
    // The rest of a frame that was cut by the end of a packet must not be taken for a new frame.
    for last in ["auth none x", "op 99"] {
        let mut rig = begun();
        let bytes = rig.encode(1, &format!("set /a v1 | {last} | set /a v2"));
        rig.send(1, &bytes[..bytes.len() - 5]);
        assert!(rig.fronts[0].input(ConnectionId(1)).is_none());
        rig.send(1, &bytes[bytes.len() - 5..]);
        let seen = rig.play("run");
        assert!(seen.starts_with("c1: set /a v1 -> v1 @3\n"), "{seen}");
        assert!(seen.ends_with("\nc1: closed"), "{seen}");
        assert_eq!(rig.machine.mark().zxid.0, 3);
        assert!(rig.notices.is_empty());
    }
}
