use super::*;

fn check(word: &[u8; 4], expected: Option<Recognised>) {
    assert_eq!(recognise(*word), expected);
}

#[test]
fn words_are_recognised_by_their_four_bytes() {
    check(b"ruok", Some(Recognised::Word(Word::Ruok)));
    check(b"srvr", Some(Recognised::Word(Word::Srvr)));
    check(b"stat", Some(Recognised::Word(Word::Stat)));
    check(b"cons", Some(Recognised::Word(Word::Cons)));
    check(b"mntr", Some(Recognised::Word(Word::Mntr)));
    check(b"conf", Some(Recognised::Word(Word::Conf)));
    check(b"isro", Some(Recognised::Word(Word::Isro)));
    check(b"dump", Some(Recognised::Unserved("dump")));
    check(b"wchs", Some(Recognised::Unserved("wchs")));
    check(b"RUOK", None);
    check(b"ruo\n", None);
    check(&[0, 0, 0, 44], None);
}

#[test]
fn every_served_word_is_a_known_one() {
    for word in KNOWN {
        let first: [u8; 4] = word.as_bytes().try_into().unwrap();
        match recognise(first).unwrap() {
            Recognised::Word(found) => assert_eq!(found.name(), word),
            Recognised::Unserved(found) => assert_eq!(found, word),
        }
    }
}

fn connections() -> Vec<ConnectionReport> {
    let session = SessionReport {
        id: 0x1_0000_0a00_0001,
        last_operation: "GETD",
        established_ms: 1_700_000_000_000,
        timeout_ms: 30_000,
        last_xid: 0x1f,
        last_zxid: 0x10_0000_0003,
        last_response_ms: 123_456,
        latency: Latency { last_ms: 1, min_ms: 0, max_ms: 9, total_ms: 11, count: 4 },
    };
    let session = Some(session);
    vec![
        ConnectionReport {
            peer: "10.0.0.9:51000".into(),
            outstanding: 2,
            received: 30,
            sent: 29,
            session,
        },
        ConnectionReport { peer: "127.0.0.1:52000".into(), received: 1, ..Default::default() },
    ]
}

fn server() -> ServerReport {
    ServerReport {
        version: "3.9.5-quorate".into(),
        mode: "standalone",
        latency: Latency { last_ms: 1, min_ms: 0, max_ms: 17, total_ms: 5, count: 4 },
        received: 31,
        sent: 30,
        outstanding: 2,
        zxid: 0x2a,
        znode_count: 5,
        watch_count: 3,
        ephemeral_count: 1,
        data_bytes: 44,
        session_count: 1,
        uptime_ms: 9000,
        file_descriptors: None,
        connections: connections(),
    }
}

fn text(word: Word) -> String {
    answer(word, &server(), &ConfReport::default())
}

#[test]
fn ruok_and_isro_are_one_word() {
    assert_eq!(text(Word::Ruok), "imok");
    assert_eq!(text(Word::Isro), "rw");
}

const BRIEF: &str = "\
Latency min/avg/max: 0/1.25/17
Received: 31
Sent: 30
Connections: 2
Outstanding: 2
Zxid: 0x2a
Mode: standalone
Node count: 5
";

#[test]
fn srvr_is_the_server_in_brief() {
    assert_eq!(text(Word::Srvr), format!("Zookeeper version: 3.9.5-quorate\n{BRIEF}"));
}

#[test]
fn stat_adds_every_connection_in_brief() {
    let expected = format!(
        "Zookeeper version: 3.9.5-quorate
Clients:
 /10.0.0.9:51000[1](queued=2,recved=30,sent=29)
 /127.0.0.1:52000[0](queued=0,recved=1,sent=0)

{BRIEF}"
    );
    assert_eq!(text(Word::Stat), expected);
}

#[test]
fn stat_without_connections_keeps_its_empty_line() {
    let server = ServerReport { connections: vec![], ..server() };
    let text = answer(Word::Stat, &server, &ConfReport::default());
    assert!(text.starts_with("Zookeeper version: 3.9.5-quorate\nClients:\n\nLatency"), "{text}");
}

const CONNECTION: &str = " /10.0.0.9:51000[1](queued=2,recved=30,sent=29,sid=0x100000a000001,lop=GETD,\
    est=1700000000000,to=30000,lcxid=0x1f,lzxid=0x1000000003,lresp=123456,llat=1,minlat=0,avglat=2,\
    maxlat=9)\n";

#[test]
fn cons_shows_every_connection_in_full() {
    let expected = format!("{CONNECTION} /127.0.0.1:52000[0](queued=0,recved=1,sent=0)\n\n");
    assert_eq!(text(Word::Cons), expected);
}

#[test]
fn cons_leaves_a_negative_xid_out() {
    let mut server = server();
    server.connections[0].session.as_mut().unwrap().last_xid = -2;
    let text = answer(Word::Cons, &server, &ConfReport::default());
    assert_eq!(text.lines().next(), Some(CONNECTION.replace(",lcxid=0x1f", "").trim_end()));
}

#[test]
fn mntr_is_a_key_and_a_value_a_line() {
    let expected = "\
zk_version	3.9.5-quorate
zk_server_state	standalone
zk_avg_latency	1.25
zk_max_latency	17
zk_min_latency	0
zk_packets_received	31
zk_packets_sent	30
zk_num_alive_connections	2
zk_outstanding_requests	2
zk_znode_count	5
zk_watch_count	3
zk_ephemerals_count	1
zk_approximate_data_size	44
zk_global_sessions	1
zk_local_sessions	0
zk_uptime	9000
";
    assert_eq!(text(Word::Mntr), expected);
    let server = ServerReport { file_descriptors: Some((20, 1024)), ..server() };
    let descriptors = "zk_open_file_descriptor_count\t20\nzk_max_file_descriptor_count\t1024\n";
    let text = answer(Word::Mntr, &server, &ConfReport::default());
    assert_eq!(text, format!("{expected}{descriptors}"));
}

#[test]
fn conf_is_a_setting_a_line() {
    let lines = vec![("clientPort", "2181".to_string()), ("tickTime", "2000".to_string())];
    let text = answer(Word::Conf, &server(), &ConfReport { lines, ..ConfReport::default() });
    assert_eq!(text, "clientPort=2181\ntickTime=2000\n");
}

#[test]
fn envi_begins_with_the_version() {
    let environment = vec![("host.name", "here".to_string())];
    let text = answer(Word::Envi, &server(), &ConfReport { environment, ..ConfReport::default() });
    let version = server().version;
    assert_eq!(text, format!("Environment:\nzookeeper.version={version}\nhost.name=here\n"));
}

#[test]
fn a_word_that_is_not_allowed_is_named() {
    let expected = "stat is not executed because it is not in the whitelist.\n";
    assert_eq!(not_allowed("stat"), expected);
}

/// Min, average, max and count of latencies recorded one by one.
fn check_latency(recorded: &[u64], expected: &str) {
    let mut latency = Latency::default();
    recorded.iter().for_each(|&ms| latency.record(ms));
    let average = java_double(latency.average());
    let found = format!("{} {average} {} {}", latency.min_ms, latency.max_ms, latency.count);
    assert_eq!(found, expected, "{recorded:?}");
}

#[test]
fn latencies_are_counted() {
    check_latency(&[], "0 0.0 0 0");
    check_latency(&[5], "5 5.0 5 1");
    check_latency(&[3, 1, 2], "1 2.0 3 3");
    check_latency(&[0, 0, 1], "0 0.3333 1 3");
    check_latency(&[10; 3], "10 10.0 10 3");
}

#[test]
fn latencies_of_two_places_are_joined() {
    let mut all = Latency::default();
    all.merge(&Latency::default());
    assert_eq!(all, Latency::default());
    let some = Latency { last_ms: 4, min_ms: 2, max_ms: 4, total_ms: 6, count: 2 };
    all.merge(&some);
    all.merge(&Latency::default());
    all.merge(&Latency { last_ms: 1, min_ms: 1, max_ms: 1, total_ms: 1, count: 1 });
    assert_eq!((all.min_ms, all.max_ms, all.total_ms, all.count), (1, 4, 7, 3));
}

#[test]
fn a_negative_zxid_is_shown_as_java_does() {
    let server = ServerReport { zxid: -1, ..server() };
    let text = answer(Word::Srvr, &server, &ConfReport::default());
    assert!(text.contains("Zxid: 0xffffffffffffffff\n"), "{text}");
}
