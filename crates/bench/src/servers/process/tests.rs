use std::net::TcpListener;

use super::*;

const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0885 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0
   1: 0100007F:0885 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0
   2: 0100007F:0886 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0
   3: nonsense
";

#[test]
fn only_listening_sockets_of_the_port_count() {
    assert_eq!(listeners(TABLE, &HashSet::from([2181])), [4711]);
    assert_eq!(listeners(TABLE, &HashSet::from([2181, 2182])), [4711, 4713]);
    assert!(listeners("", &HashSet::from([2181])).is_empty());
}

#[test]
fn memory_and_start_are_read() {
    let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
    let expected = Memory { resident: 1024 * 1024, peak: 2048 * 1024 };
    assert_eq!(memory_of(status), Some(expected));
    assert_eq!(memory_of("Name:\tx\n"), None);
    let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 7 3 0 0 20 0 1 0 12345 1";
    assert_eq!(started_s(stat), Some(123.45));
    assert_eq!(started_s("12"), None);
}

/// Uses `ns` of CPU time on this thread.
fn burn(ns: u64) {
    let own = thread_cpu_ns();
    while thread_cpu_ns() < own + ns {
        std::hint::spin_loop();
    }
}

#[test]
fn this_process_is_found_by_its_port_and_uses_cpu() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let found = Processes::listening(&[address]);
    let elsewhere = SocketAddr::new("203.0.113.1".parse().unwrap(), address.port());
    assert!(Processes::listening(&[elsewhere]).is_empty(), "it is another machine's port");
    assert_eq!(found.pids(), [std::process::id()]);
    let cpu = found.cpu_ns().unwrap();
    burn(10_000_000);
    assert!(found.cpu_ns().unwrap() >= cpu + 10_000_000);
    assert!(found.memory().unwrap().resident > 0);
    // No test takes an hour.
    assert!((0.0..3_600.0).contains(&found.up_s().unwrap()));
    drop(listener);
    let gone = Processes::listening(&[address]);
    assert!(gone.is_empty());
    assert_eq!((gone.cpu_ns(), gone.memory(), gone.up_s()), (None, None, None));
}

#[test]
fn what_a_thread_used_is_not_lost_when_it_ends() {
    let own = Processes::of(&[std::process::id()]);
    let cpu = own.cpu_ns().unwrap();
    std::thread::spawn(|| burn(50_000_000)).join().unwrap();
    assert!(own.cpu_ns().unwrap() >= cpu + 50_000_000);
}

#[test]
fn dead_processes_are_known_by_their_state() {
    for (stat, expected) in [
        ("", true),
        ("1 (a) Z 1", true),
        ("1 (a) X 1", true),
        ("1 (Z) S 1", false),
        ("1 (a) R 1", false),
    ] {
        assert_eq!(is_dead(stat), expected, "{stat}");
    }
}

#[test]
fn waits_are_counted_for_each_thread() {
    let status = "Name:\tx\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t4\n";
    assert_eq!((waits_of(status), waits_of("Name:\tx\n")), (Some(17), None));
    let before = Waits(HashMap::from([((1, 1), 5), ((1, 2), 7)]));
    // Thread 2 has ended, thread 3 is new.
    let after = Waits(HashMap::from([((1, 1), 8), ((1, 3), 2)]));
    assert_eq!(after.since(&before), 5);
}

#[test]
fn a_thread_that_waits_wakes_up() {
    let own = Processes::of(&[std::process::id()]);
    let (ping, on_ping) = std::sync::mpsc::channel::<()>();
    let (pong, on_pong) = std::sync::mpsc::channel::<()>();
    let echo = std::thread::spawn(move || {
        while on_ping.recv().is_ok() {
            pong.send(()).unwrap();
        }
    });
    let before = own.waits().unwrap();
    for _ in 0..10_000 {
        ping.send(()).unwrap();
        on_pong.recv().unwrap();
    }
    // Two threads that spin for each other may meet without a wait, but not ten thousand times in a
    // row.
    assert!(own.waits().unwrap().since(&before) > 0);
    drop(ping);
    echo.join().unwrap();
    assert_eq!(Processes::default().waits(), None);
}
