use super::*;

fn check(word: &[u8; 4], expected: Option<Word>) {
    assert_eq!(recognise(*word), expected);
}

#[test]
fn words_are_recognised_by_their_four_bytes() {
    check(b"ruok", Some(Word::Ruok));
    check(b"srvr", Some(Word::Srvr));
    check(b"dump", Some(Word::Dump));
    check(b"wchs", Some(Word::Wchs));
    check(b"stmk", Some(Word::Stmk { mask: 0 }));
    check(&[0xff, 0xf4, 0xff, 0xfd], Some(Word::TelnetClose));
    check(b"RUOK", None);
    check(b"ruo\n", None);
    check(b"teln", None);
    check(&[0, 0, 0, 44], None);
}

#[test]
fn every_word_is_recognised_by_its_name() {
    for word in WORDS {
        let first = word.name().as_bytes().try_into().unwrap_or(TELNET_CLOSE);
        assert_eq!(recognise(first), Some(word));
    }
}

fn connections() -> Vec<ConnectionReport> {
    let session = SessionReport {
        id: 0x1_0000_0a00_0001,
        last_operation: "GETD",
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
            established_ms: 1_700_000_000_000,
            is_reading: true,
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
        connection_count: 2,
        connections: connections(),
        connections_missing: 0,
        proposal_sizes: None,
    }
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
    assert_eq!(srvr(&server()), format!("Zookeeper version: 3.9.5-quorate\n{BRIEF}"));
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
    assert_eq!(stat(&server()), expected);
}

#[test]
fn stat_without_connections_keeps_its_empty_line() {
    let server = ServerReport { connections: vec![], ..server() };
    let text = stat(&server);
    assert!(text.starts_with("Zookeeper version: 3.9.5-quorate\nClients:\n\nLatency"), "{text}");
}

const CONNECTION: &str = " /10.0.0.9:51000[1](queued=2,recved=30,sent=29,sid=0x100000a000001,lop=GETD,\
    est=1700000000000,to=30000,lcxid=0x1f,lzxid=0x1000000003,lresp=123456,llat=1,minlat=0,avglat=2,\
    maxlat=9)\n";

#[test]
fn cons_shows_every_connection_in_full() {
    let expected = format!("{CONNECTION} /127.0.0.1:52000[0](queued=0,recved=1,sent=0)\n\n");
    assert_eq!(cons(&server()), expected);
}

#[test]
fn cons_leaves_a_negative_xid_out() {
    let mut server = server();
    server.connections[0].session.as_mut().unwrap().last_xid = -2;
    let text = cons(&server);
    assert_eq!(text.lines().next(), Some(CONNECTION.replace(",lcxid=0x1f", "").trim_end()));
}

#[test]
fn mntr_is_a_key_and_a_value_a_line() {
    let number = |key: &str, number| (key.to_string(), number);
    let numbers =
        [number("avg_latency", Number::Real(1.25)), number("znode_count", Number::Whole(5))];
    let expected = "\
zk_version	3.9.5-quorate
zk_server_state	standalone
zk_avg_latency	1.25
zk_znode_count	5
";
    assert_eq!(mntr("3.9.5-quorate", "standalone", None, &numbers), expected);
    let of_member = mntr("3.9.5-quorate", "leader", Some("leading - broadcast"), &[]);
    let expected = "zk_version\t3.9.5-quorate\nzk_server_state\tleader\n\
                    zk_peer_state\tleading - broadcast\n";
    assert_eq!(of_member, expected);
}

#[test]
fn conf_is_a_setting_a_line_with_the_bytes_of_each_folder() {
    let line = |key, value: &str| (key, value.to_string());
    let lines = vec![
        line("clientPort", "2181"),
        line("dataDir", "/a"),
        line("dataLogDir", "/b"),
        line("tickTime", "2000"),
    ];
    let text = conf(&ConfReport { lines, ..ConfReport::default() }, 11, 22);
    let expected = "clientPort=2181\ndataDir=/a\ndataDirSize=11\ndataLogDir=/b\ndataLogSize=22\n\
        tickTime=2000\n";
    assert_eq!(text, expected);
    let membership = Some("server.1=a:1:2:participant\nversion=0".to_string());
    let lines = vec![line("peerType", "0")];
    let of_member = conf(&ConfReport { lines, membership, ..ConfReport::default() }, 11, 22);
    let expected = "peerType=0\nmembership: \nserver.1=a:1:2:participant\nversion=0";
    assert_eq!(of_member, expected);
    assert_eq!(dirs(11, 22), "datadir_size: 11\nlogdir_size: 22\n");
}

#[test]
fn envi_begins_with_the_version() {
    let environment = vec![("host.name", "here".to_string())];
    let conf = ConfReport { environment, ..ConfReport::default() };
    let expected = "Environment:\nzookeeper.version=3.9.5-quorate\nhost.name=here\n";
    assert_eq!(super::environment("3.9.5-quorate", &conf), expected);
}

#[test]
fn a_follower_dumps_sessions_with_their_timeouts() {
    let followed_sessions = Some(vec![(0x10, 4_000), (0x11, 30_000)]);
    let text = dump(&DumpReport { followed_sessions, sessions_missing: 1, ..Default::default() });
    let expected = "SessionTracker dump:\nGlobal Sessions(3):\n0x10\t4000ms\n0x11\t30000ms\n\
                    (1 more sessions are not shown)\nephemeral nodes dump:\n";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_leader_shows_the_sizes_of_proposals_behind_all_else() {
    let leader = ServerReport { mode: "leader", proposal_sizes: Some([48, 40, 70]), ..server() };
    let (standalone, leader) = (srvr(&server()), srvr(&leader));
    let expected = standalone.replace("standalone", "leader");
    assert_eq!(leader, expected + "Proposal sizes last/min/max: 48/40/70\n");
}

#[test]
fn while_it_does_not_serve_a_server_still_says_that_it_is_alive() {
    let conf = ConfReport { environment: vec![("a", "b".to_string())], ..ConfReport::default() };
    for word in WORDS {
        let expected = match word {
            Word::Ruok => "imok",
            Word::Envi => "Environment:\nzookeeper.version=v\na=b\n",
            Word::Isro => "null",
            Word::TelnetClose => "",
            _ => "This ZooKeeper instance is not currently serving requests\n",
        };
        assert_eq!(while_not_serving(word, "v", &conf), expected, "{word:?}");
    }
}

#[test]
fn dump_shows_sessions_ephemerals_and_connections() {
    let dump = DumpReport {
        sessions: vec![(1_795_326_335_000, vec![0x10, 0x11]), (1_795_326_336_999, vec![0x12])],
        ephemerals: vec![(0x10, vec!["/app/e1".into(), "/app/e2".into()])],
        connections: vec![(1_795_326_339_000, vec![("127.0.0.1:60252".into(), 0x10)])],
        ..DumpReport::default()
    };
    let expected = "\
SessionTracker dump:
Session Sets (2)/(3):
2 expire at Sun Nov 22 05:45:35 UTC 2026:
	0x10
	0x11
1 expire at Sun Nov 22 05:45:36 UTC 2026:
	0x12
ephemeral nodes dump:
Sessions with Ephemerals (1):
0x10:
	/app/e1
	/app/e2
Connections dump:
Connections Sets (1)/(1):
1 expire at Sun Nov 22 05:45:39 UTC 2026:
	ip: /127.0.0.1:60252 sessionId: 0x10
";
    assert_eq!(super::dump(&dump), expected);
}

#[test]
fn dump_says_what_it_leaves_out() {
    let dump = DumpReport {
        sessions: vec![(0, vec![1])],
        sessions_missing: 41,
        ephemerals_missing: 2,
        connections_missing: 3,
        ..DumpReport::default()
    };
    let text = super::dump(&dump);
    assert!(text.contains("Session Sets (1)/(42):\n"), "{text}");
    assert!(text.contains("(41 more sessions are not shown)\n"), "{text}");
    assert!(text.contains("(2 more ephemerals are not shown)\n"), "{text}");
    assert!(text.ends_with("Connections Sets (0)/(3):\n(3 more connections are not shown)\n"));
}

#[test]
fn watches_are_shown_by_session_and_by_path() {
    let watch = |path: &str, sessions: &[i64]| (path.to_string(), sessions.to_vec());
    let watches = vec![watch("/b", &[0x11]), watch("/a", &[0x11, 0x10]), watch("/a", &[0x10])];
    let mut report = WatchesReport { watches, missing: 0 };
    assert_eq!(watches_by_session(&report), "0x10\n\t/a\n0x11\n\t/a\n\t/b\n\n");
    assert_eq!(watches_by_path(&report), "/a\n\t0x10\n\t0x11\n/b\n\t0x11\n\n");
    report.missing = 7;
    let cut = "\t0x11\n(7 more watches are not shown)\n\n";
    assert!(watches_by_path(&report).ends_with(cut));
    let summary = WatchSummary { connections: 2, paths: 3, watches: 4 };
    assert_eq!(watch_summary(&summary), "2 connections watching 3 paths\nTotal watches:4\n");
}

#[test]
fn dates_are_shown_as_java_does() {
    let check = |ms, expected: &str| assert_eq!(java_date(ms), expected);
    check(0, "Thu Jan 01 00:00:00 UTC 1970");
    check(-1, "Wed Dec 31 23:59:59 UTC 1969");
    check(951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000");
    check(951_868_800_000, "Wed Mar 01 00:00:00 UTC 2000");
    check(1_709_251_199_999, "Thu Feb 29 23:59:59 UTC 2024");
    check(1_735_689_600_000, "Wed Jan 01 00:00:00 UTC 2025");
    check(4_107_542_400_000, "Mon Mar 01 00:00:00 UTC 2100");
}

#[test]
fn a_word_that_is_not_allowed_is_named() {
    let expected = "stat is not executed because it is not in the whitelist.\n";
    assert_eq!(not_allowed(Word::Stat), expected);
    let expected = "telnet close is not executed because it is not in the whitelist.\n";
    assert_eq!(not_allowed(Word::TelnetClose), expected);
}

#[test]
fn the_mean_of_latencies_is_shown() {
    let latency = Latency { last_ms: 1, min_ms: 0, max_ms: 1, total_ms: 1, count: 3 };
    assert_eq!(java_double(latency.average()), "0.3333");
    assert_eq!(java_double(Latency::default().average()), "0.0");
}

#[test]
fn a_negative_zxid_is_shown_as_java_does() {
    let server = ServerReport { zxid: -1, ..server() };
    let text = srvr(&server);
    assert!(text.contains("Zxid: 0xffffffffffffffff\n"), "{text}");
}
