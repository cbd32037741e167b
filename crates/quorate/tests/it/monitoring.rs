//! Tests of what operators look at: four-letter words, metrics, the admin server and the audit log.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bench::workloads::chunk::cmdw::client::ChunkClient;
use bench::workloads::chunk::cmdw::load::block_of;
use bytes::Bytes;
use chunk::block::{BlockId, ChunkInfo};
use zk::ErrorCode;
use zk::request::{AddWatchMode, ReadKind, ReadRequest, Request};

use crate::client::{Client, EPHEMERAL};
use crate::server::{RealServer, Server, wait_until};

/// How long a server may be silent while a test waits for its answer. A longer silence is a
/// failure.
const SILENCE: Duration = Duration::from_secs(20);

const TIMEOUT_MS: i32 = 30_000;
const ALL_WORDS: &str = "4lw.commands.whitelist=*";

/// Sends a four-letter word. Returns the answer, up to the end of the connection.
fn ask(address: SocketAddr, word: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    stream.write_all(word.as_ref()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The value of a key in an answer to `mntr`.
fn value(mntr: &str, key: &str) -> f64 {
    let line = mntr.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('\t'));
    line.unwrap_or_else(|| panic!("no {key} in {mntr}")).parse().unwrap()
}

/// Opens a session, which makes two ephemerals and sets watches of every kind.
fn client_with_watches(address: SocketAddr) -> Client {
    let mut client = Client::open(address, TIMEOUT_MS);
    client.create("/app", b"data", 0).unwrap();
    client.create("/app/e1", b"", EPHEMERAL).unwrap();
    client.create("/app/e2", b"", EPHEMERAL).unwrap();
    let watch = |kind, path| Request::Read(ReadRequest { kind, path, watch: true });
    assert_eq!(client.call(&watch(ReadKind::GetData, "/app")).header.error, ErrorCode::OK);
    assert_eq!(client.call(&watch(ReadKind::GetChildren, "/")).header.error, ErrorCode::OK);
    assert_eq!(client.call(&watch(ReadKind::Exists, "/none")).header.error, ErrorCode::NO_NODE);
    let add = |path, mode| Request::AddWatch { path, mode };
    for (path, mode) in
        [("/p", AddWatchMode::Persistent), ("/r", AddWatchMode::PersistentRecursive)]
    {
        assert_eq!(client.call(&add(path, mode)).header.error, ErrorCode::OK);
    }
    client
}

/// The text with `#` in place of each number, decimal or hexadecimal, such as `17` and `0x1f`.
fn without_numbers(text: &str) -> String {
    let mut shown = String::new();
    let mut digits = false;
    let is_hex = |c: char| c.is_ascii_hexdigit() && (c.is_ascii_digit() || c.is_ascii_lowercase());
    for c in text.chars() {
        let starts = c.is_ascii_digit() && !shown.ends_with(|c: char| c.is_ascii_alphabetic());
        if starts || digits && (is_hex(c) || c == 'x') {
            if !digits {
                shown.push('#');
            }
            digits = true;
        } else {
            digits = false;
            shown.push(c);
        }
    }
    shown
}

#[test]
fn words_are_answered_as_by_the_real_server() {
    let real = RealServer::start("words-real", &[]);
    let ours = Server::start("words-ours", &[ALL_WORDS]);
    let _sessions = [real.address(), ours.address()].map(client_with_watches);
    let both = |word: &str| [real.address(), ours.address()].map(|address| ask(address, word));
    for word in ["ruok", "isro", "gtmk", "wchs", "crst", "srst", "hash", "stmk\0\0\0\0\0\0\0*"] {
        let [real, ours] = both(word);
        assert_eq!(ours, real, "{word}");
    }
    // All watches belong to one session. The real server lists the session's paths in the order of
    // a hash set, so the lines are sorted here.
    for word in ["wchc", "wchp", "dirs"] {
        let [real, ours] = both(word).map(|text| {
            let mut lines: Vec<String> = without_numbers(&text).lines().map(Into::into).collect();
            lines.sort();
            lines
        });
        assert_eq!(ours, real, "{word}");
    }
    let [real_conf, our_conf] = both("conf").map(|text| {
        let key = |line: &str| line.split_once('=').map(|(key, _)| key.to_string());
        text.lines().filter_map(key).collect::<Vec<_>>()
    });
    assert_eq!(our_conf, real_conf);
    // Both servers were reset before, so this compares the line of the session alone.
    let [real_cons, our_cons] = both("cons").map(|text| {
        let line = text.lines().find(|line| line.contains("sid=")).unwrap_or_default();
        without_numbers(line)
    });
    assert_eq!(our_cons, real_cons);
    let [real_dump, our_dump] = both("dump").map(|text| {
        let is_date = |line: &&str| line.contains(" expire at ");
        let lines = text.lines().filter(|line| !is_date(line) && !line.contains("sessionId: 0x0"));
        let mut shown: Vec<String> = lines.map(without_numbers).collect();
        shown.sort();
        shown
    });
    assert_eq!(our_dump, real_dump);
    let [real_stat, our_stat] = both("stat").map(|text| {
        let lines = text.lines().filter(|line| !line.starts_with("Zookeeper version"));
        let mut shown: Vec<String> = lines.map(without_numbers).collect();
        shown.sort();
        shown.retain(|line| !line.starts_with("Latency"));
        shown
    });
    assert_eq!(our_stat, real_stat);
}

#[test]
fn mntr_counts_what_clients_did() {
    let server = Server::start("mntr", &[ALL_WORDS]);
    let before = ask(server.address(), "mntr");
    let mut client = client_with_watches(server.address());
    assert_eq!(client.set("/app", b"longer data"), ErrorCode::OK);
    let after = ask(server.address(), "mntr");
    let grew = |key: &str| value(&after, key) - value(&before, key);
    for (key, by) in [
        ("zk_znode_count", 3.0),
        ("zk_ephemerals_count", 2.0),
        // The watch on data has fired, and a persistent watch counts as two.
        ("zk_watch_count", 5.0),
        ("zk_global_sessions", 1.0),
        ("zk_num_alive_connections", 1.0),
        ("zk_connection_request_count", 1.0),
        // Five writes were committed: a session, three creates and a set.
        ("zk_commit_count", 5.0),
        ("zk_proposal_count", 5.0),
        ("zk_cnt_updatelatency", 4.0),
        ("zk_cnt_readlatency", 5.0),
        ("zk_cnt_node_changed_watch_count", 1.0),
        ("zk_sum_node_changed_watch_count", 1.0),
        ("zk_outstanding_requests", 0.0),
    ] {
        assert_eq!(grew(key), by, "{key}");
    }
    assert!(grew("zk_cnt_fsynctime") >= 1.0);
    assert!(grew("zk_bytes_received_count") > 100.0);
    assert!(grew("zk_response_bytes") > 100.0);
    // An event has 16 bytes of header, 8 bytes of type and state, and the path.
    assert_eq!(grew("zk_watch_bytes"), 16.0 + 8.0 + 4.0 + 4.0);
    assert_eq!(value(&after, "zk_cnt_dbinittime"), 1.0);
    assert!(value(&after, "zk_open_file_descriptor_count") > 3.0);
    assert_eq!(ask(server.address(), "srst"), "Server stats reset.\n");
    let reset = ask(server.address(), "mntr");
    assert_eq!(value(&reset, "zk_cnt_updatelatency"), 0.0);
    assert_eq!(value(&reset, "zk_znode_count"), value(&after, "zk_znode_count"));
}

#[test]
fn long_lists_are_whole_and_serve_others_meanwhile() {
    const WATCHES: usize = 30_000;
    let server = Server::start("long-lists", &[ALL_WORDS]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let path = |number: usize| format!("/{number:05}");
    let mut bytes = Vec::new();
    for number in 0..WATCHES {
        let path = path(number);
        let read = ReadRequest { kind: ReadKind::Exists, path: &path, watch: true };
        client.encode(&Request::Read(read), &mut bytes);
    }
    client.connection.send(&bytes);
    (0..WATCHES).for_each(|_| assert!(client.receive().is_some()));
    let address = server.address();
    let lists = ["wchp", "wchc", "wchs"].map(|word| std::thread::spawn(move || ask(address, word)));
    assert!(client.exists("/"));
    let [by_path, by_session, summary] = lists.map(|list| list.join().unwrap());
    assert_eq!(by_path.lines().count(), 2 * WATCHES + 1);
    assert!(by_path.starts_with(&format!("/00000\n\t{:#x}\n/00001\n", client.session)));
    assert_eq!(by_session.lines().count(), 1 + WATCHES + 1);
    let expected = format!("1 connections watching {WATCHES} paths\nTotal watches:{WATCHES}\n");
    assert_eq!(summary, expected);
}

/// ZooKeeper reads the bytes that have arrived after `stmk`, and closes the connection if they are
/// too few for the mask.
#[test]
fn a_word_whose_argument_is_cut_ends_its_connection() {
    let server = Server::start("stmk", &["4lw.commands.whitelist=stmk,gtmk"]);
    for cut in [&b"stmk"[..], b"stmk\0", b"stmk\0\0\0\0\0\0\x07"] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(cut).unwrap();
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0, "{cut:?}");
    }
    assert_eq!(ask(server.address(), "gtmk"), "306");
    assert_eq!(ask(server.address(), "stmk\0\0\0\0\0\0\0\x07"), "7");
    assert_eq!(ask(server.address(), "gtmk"), "7");
}

/// Sends an HTTP request. Returns the status, the head in lower case, and the body of the answer.
pub fn http(address: SocketAddr, request: &str) -> (u16, String, String) {
    try_http(address, request).unwrap()
}

/// Like [`http`], but returns an error if the server closes the connection.
fn try_http(address: SocketAddr, request: &str) -> io::Result<(u16, String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(SILENCE))?;
    let (line, rest) = request.split_once('\n').unwrap_or((request, ""));
    write!(stream, "{line} HTTP/1.1\r\nHost: q\r\nConnection: close\r\n{rest}\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, head.to_lowercase(), body.to_string()))
}

pub const METRICS: [&str; 3] = [
    "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
    "metricsProvider.httpHost=127.0.0.1",
    "metricsProvider.httpPort=0",
];

/// The value of a sample in a text of metrics.
fn sample(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[test]
fn metrics_are_scraped_by_zookeepers_names() {
    let server = Server::start("metrics", &[&METRICS[..], &[ALL_WORDS]].concat());
    let metrics = server.face("metrics");
    let before = http(metrics, "GET /metrics").2;
    let mut client = client_with_watches(server.address());
    assert_eq!(client.set("/app", b"longer data"), ErrorCode::OK);
    let (status, head, after) = http(metrics, "GET /metrics");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let grew = |name: &str| sample(&after, name) - sample(&before, name);
    assert_eq!(grew("znode_count"), 3.0);
    assert_eq!(grew("commit_count"), 5.0);
    assert_eq!(grew("updatelatency_count"), 4.0);
    assert_eq!(grew("readlatency_count"), 5.0);
    assert_eq!(grew("node_changed_watch_count_sum"), 1.0);
    assert!(grew("fsynctime_count") >= 1.0 && grew("fsynctime_sum") > 0.0);
    for kind in ["znode_count gauge", "commit_count counter", "fsynctime summary"] {
        assert!(after.contains(&format!("# TYPE {kind}\n")), "{kind}");
    }
    assert!(before.contains("updatelatency{quantile=\"0.99\"} NaN\n"));
    assert!(sample(&after, "updatelatency{quantile=\"0.99\"}") >= 0.0);
    assert!(sample(&after, "jvm_memory_bytes_used{area=\"heap\"}") > 1e5);
    assert!(sample(&after, "process_resident_memory_bytes") > 1e6);
    assert!(sample(&after, "process_start_time_seconds") > 1.7e9);
    // `srst` does not reset counters, which Prometheus expects never to fall; ZooKeeper does not
    // either. It resets the server's own numbers.
    assert_eq!(ask(server.address(), "srst"), "Server stats reset.\n");
    let reset = http(metrics, "GET /metrics").2;
    assert!(sample(&reset, "updatelatency_count") >= sample(&after, "updatelatency_count"));
    assert!(sample(&reset, "packets_received") < sample(&after, "packets_received"));
}

#[test]
fn a_refused_reply_is_shown_with_its_path_and_session() {
    let server =
        Server::start("metrics-refused", &[&METRICS[..], &["quorate.replyBytesMax=100"]].concat());
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/a\"b", &[1; 101], 0).unwrap();
    assert_eq!(client.get("/a\"b"), Err(ErrorCode::MARSHALLING_ERROR));
    let text = http(server.face("metrics"), "GET /metrics").2;
    let session = format!("{:#x}", client.session);
    let line = format!("last_refused_reply_bytes{{path=\"/a\\\"b\",session=\"{session}\"}} 101.0");
    assert!(text.lines().any(|it| it == line), "{text}");
    assert_eq!(sample(&text, "replies_refused"), 1.0);
}

#[test]
fn metrics_of_the_chunk_store_are_a_datanodes() {
    let lines = [&METRICS[..], &["quorate.chunkAddr=127.0.0.1:0"]].concat();
    let server = Server::start("metrics-chunks", &lines);
    let client = ChunkClient::connect(server.face("chunk")).unwrap();
    let id = BlockId { container_id: 1, local_id: 1 };
    let chunk = ChunkInfo::plain("1_chunk_1".to_string(), 0, 1_000);
    client.write_chunk(id, &chunk, &Bytes::from(vec![1; 1_000])).unwrap();
    client.put_block(&block_of(id, vec![chunk.clone()])).unwrap();
    for _ in 0..2 {
        client.read_chunk(id, &chunk, &mut Vec::new()).unwrap();
    }
    client.get_block(BlockId { local_id: 2, ..id }).unwrap_err();
    let all = http(server.face("metrics"), "GET /metrics").2;
    for (name, wanted) in [
        ("storage_container_metrics_num_ops", 5.0),
        ("storage_container_metrics_num_write_chunk", 1.0),
        ("storage_container_metrics_bytes_write_chunk", 1_000.0),
        ("storage_container_metrics_num_put_block", 1.0),
        ("storage_container_metrics_num_read_chunk", 2.0),
        ("storage_container_metrics_bytes_read_chunk", 2_000.0),
        ("chunk_requests_refused", 1.0),
        ("chunk_blocks_damaged", 0.0),
        ("chunk_containers", 1.0),
    ] {
        assert_eq!(sample(&all, name), wanted, "{name}");
    }
    assert!(sample(&all, "chunk_log_syncs") >= 1.0);
    // A server without a chunk store has no metrics of one.
    let server = Server::start("metrics-no-chunks", &METRICS);
    let all = http(server.face("metrics"), "GET /metrics").2;
    assert!(!all.contains("storage_container_metrics"), "{all}");
}

#[test]
fn metrics_can_be_asked_for_by_name() {
    let server = Server::start("metrics-names", &METRICS);
    let metrics = server.face("metrics");
    let some = http(metrics, "GET /metrics?name[]=znode_count&name%5B%5D=nothing").2;
    assert_eq!(some, "# HELP znode_count znode_count\n# TYPE znode_count gauge\nznode_count 5.0\n");
    assert_eq!(http(metrics, "HEAD /metrics").0, 200);
    assert_eq!(http(metrics, "GET /").0, 404);
    assert_eq!(http(metrics, "GET /metrics/x").0, 404);
    assert_eq!(http(metrics, "DELETE /metrics").0, 405);
}

#[test]
fn metrics_of_the_process_can_be_left_out() {
    let lines = [&METRICS[..], &["metricsProvider.exportJvmInfo=false"]].concat();
    let server = Server::start("metrics-process", &lines);
    let text = http(server.face("metrics"), "GET /metrics").2;
    assert!(text.contains("\nuptime "), "{text}");
    assert!(!text.contains("jvm_") && !text.contains("process_"), "{text}");
}

#[test]
fn a_port_for_monitoring_survives_bad_input() {
    let server = Server::start("metrics-bad", &METRICS);
    let metrics = server.face("metrics");
    let send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(metrics).unwrap();
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    for garbage in [&b"\0\0\0\x2d\0\0\0\0"[..], b"ruok\r\n\r\n", &[0xff; 100], b"GET\r\n\r\n"] {
        let answer = send(garbage);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    let long = format!("GET /metrics HTTP/1.1\r\nHost: q\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert!(send(long.as_bytes()).starts_with("HTTP/1.1 431"));
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(1_000));
    assert!(send(many.as_bytes()).starts_with("HTTP/1.1 431"));
    // These are more silent connections than the port takes. It closes those beyond its limit, and
    // ZooKeeper's clients do not notice.
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(metrics).unwrap()).collect();
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert!(client.exists("/"));
    drop(silent);
    // A full port closes new connections, and the server needs a moment to notice that the silent
    // ones have ended.
    wait_until("metrics are served again", || {
        try_http(metrics, "GET /metrics").is_ok_and(|answer| answer.0 == 200)
    });
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("metricsProvider.httpPort={}", taken.local_addr().unwrap().port());
    let folder = crate::server::folder("metrics-taken");
    let config = format!(
        "dataDir={}\nclientPort=0\n{}\n{}\n{port}\n",
        folder.join("data").display(),
        METRICS[0],
        METRICS[1]
    );
    std::fs::write(folder.join("zoo.cfg"), config).unwrap();
    assert_eq!(crate::server::command(&folder).status().unwrap().code(), Some(1));
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    assert!(log.contains("for metrics: Address already in use"), "{log}");
    std::fs::remove_dir_all(folder).unwrap();
}

const ADMIN: [&str; 2] = ["admin.serverPort=0", "admin.serverAddress=127.0.0.1"];

/// Runs a command of the admin server. Returns its JSON answer.
fn command(address: SocketAddr, name: &str) -> serde_json::Value {
    let (status, head, body) = http(address, &format!("GET /commands/{name}"));
    assert_eq!(status, 200, "{name}");
    assert!(head.contains("content-type: application/json"), "{head}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{name}: {error} in {body}"))
}

/// The keys of an object, in the order of the text.
fn keys(value: &serde_json::Value) -> Vec<String> {
    value.as_object().expect("an object").keys().cloned().collect()
}

#[test]
fn commands_answer_with_the_fields_of_zookeeper() {
    let server = Server::start("admin", &ADMIN);
    let admin = server.face("admin");
    let client = client_with_watches(server.address());
    // The fields of ZooKeeper 3.9.5, sorted: its AdminServer sent them for clients that did the
    // same as the ones here.
    for (name, fields) in [
        ("crst", "command error"),
        ("dirs", "command datadir_size error logdir_size"),
        ("gtmk", "command error tracemask"),
        ("hash", "command digests error"),
        ("icfg", "command error initial_configuration"),
        ("isro", "command error read_only"),
        ("lsnp", "command error timestamp zxid"),
        ("lead", "command error"),
        ("obsr", "command error observers synced_observers"),
        ("orst", "command error"),
        ("ruok", "command error"),
        ("srst", "command error"),
        ("voting_view", "command current_config error"),
        ("wchs", "command error num_connections num_paths num_total_watches"),
        ("zabstate", "command error voting zabstate"),
        ("cons", "command connections error secure_connections"),
        ("srvr", "client_response command error node_count read_only server_stats version"),
        (
            "conf",
            "client_port client_port_listen_backlog command data_dir data_log_dir error \
             max_client_cnxns max_session_timeout min_session_timeout server_id tick_time",
        ),
    ] {
        let mut found = keys(&command(admin, name));
        found.sort();
        let expected: Vec<&str> = fields.split_whitespace().collect();
        assert_eq!(found, expected, "{name}");
    }
    let text = |name: &str| http(admin, &format!("GET /commands/{name}")).2;
    assert_eq!(text("ruok"), "{\n  \"command\" : \"ruok\",\n  \"error\" : null\n}");
    let leader = "{\n  \"error\" : \"server is not initialized\",\n  \"command\" : \"leader\"\n}";
    assert_eq!(text("leader"), leader);
    let unknown = "{\n  \"command\" : \"x\\\"y\",\n  \"error\" : \"Unknown command: x\\\"y\"\n}";
    assert_eq!(text("x%22y"), unknown);
    assert_eq!(command(admin, "stmk?traceMask=12")["tracemask"], 12);
    assert_eq!(command(admin, "gtmk")["tracemask"], 12);
    let wrong = command(admin, "stmk?traceMask=x");
    assert_eq!(wrong["error"], "setTraceMask requires long traceMask argument, got x");
    assert_eq!(command(admin, "configuration")["tick_time"], 2_000);
    let session = client.session.to_string();
    let watches = command(admin, "wchc");
    let paths = watches["session_id_to_watched_paths"][&session].clone();
    assert_eq!(paths, serde_json::json!(["/app", "/none", "/p", "/r"]));
    let by_path = command(admin, "wchp");
    assert_eq!(by_path["path_to_session_ids"]["/none"], serde_json::json!([client.session]));
    let dump = command(admin, "dump");
    let ephemerals = &dump["session_id_to_ephemeral_paths"][&session];
    assert_eq!(*ephemerals, serde_json::json!(["/app/e1", "/app/e2"]));
    let expiring = dump["expiry_time_to_session_ids"].as_object().unwrap().values().next().unwrap();
    assert_eq!(*expiring, serde_json::json!([client.session]));
    let connection = &command(admin, "connections")["connections"][0];
    assert_eq!(connection["session_id"], client.session);
    assert_eq!(connection["session_timeout"], client.timeout_ms);
    let stats = command(admin, "stats");
    assert_eq!(stats["server_stats"]["server_state"], "standalone");
    assert_eq!(stats["node_count"], 8);
    let monitor = command(admin, "monitor");
    assert_eq!(monitor["znode_count"], 8);
    assert!(monitor["cnt_updatelatency"].is_number());
    let properties = command(admin, "system_properties");
    assert_eq!(properties["zookeeper.admin.serverPort"], "0");
    assert!(text("icfg").contains("admin.serverPort=0\\n"));
    assert_eq!(command(admin, "lsnp")["zxid"], "0");
}

#[test]
fn the_list_of_commands_is_links_and_methods_are_told_apart() {
    let server = Server::start("admin-links", &[&ADMIN[..], &["admin.commandURL=/zk"]].concat());
    let admin = server.face("admin");
    let links = http(admin, "GET /zk").2;
    assert!(links.starts_with("<a href=\"/zk/configuration\">configuration</a>\n<br/>\n"));
    assert!(links.ends_with("<a href=\"/zk/zabstate\">zabstate</a>\n<br/>\n"));
    for (request, status) in [
        ("GET /zk/", 200),
        ("POST /zk\nContent-Length: 0\r\n", 200),
        ("HEAD /zk/ruok", 200),
        ("OPTIONS /zk/ruok", 200),
        ("TRACE /zk/ruok", 403),
        ("PUT /zk/ruok\nContent-Length: 0\r\n", 405),
        ("DELETE /zk/ruok", 405),
        ("POST /zk/ruok\nContent-Length: 0\r\n", 405),
        ("GET /commands/ruok", 404),
        ("GET /", 404),
        ("GET /health/live", 200),
        ("GET /health/ready", 200),
        ("GET /health/else", 404),
    ] {
        assert_eq!(http(admin, request).0, status, "{request}");
    }
}

#[test]
fn no_admin_server_is_served_unless_it_is_asked_for() {
    let server = Server::start("admin-off", &["admin.enableServer=false", "admin.serverPort=0"]);
    assert!(!server.has_face("admin"));
    let server = Server::start("admin-silent", &[]);
    assert!(!server.has_face("admin"));
}

/// The lines of the audit log in `log`, without time and session: each from its first field after
/// the session on.
fn audit_lines(log: &str) -> Vec<String> {
    let line = |line: &str| {
        let from = line.find("AUDIT: session=0x").filter(|_| line.contains("\toperation="))?;
        line[from..].split_once('\t').map(|(_, rest)| rest.to_string())
    };
    log.lines().filter_map(line).collect()
}

#[test]
fn writes_are_audited() {
    let mut server = Server::start("audit", &["audit.enable=true"]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/a", b"", EPHEMERAL).unwrap();
    assert_eq!(client.set("/a", b"v"), ErrorCode::OK);
    assert_eq!(client.delete("/none"), ErrorCode::NO_NODE);
    let credentials = b"bob:secret";
    client.call(&Request::Auth { scheme: "digest", credentials: Some(credentials) });
    assert_eq!(client.delete("/a"), ErrorCode::OK);
    let own = "user=127.0.0.1\tip=127.0.0.1";
    let expected = [
        format!("{own}\toperation=create\tznode=/a\tznode_type=ephemeral\tresult=success"),
        format!("{own}\toperation=setData\tznode=/a\tresult=success"),
        format!("{own}\toperation=delete\tznode=/none\tresult=failure"),
        "user=127.0.0.1,bob\tip=127.0.0.1\toperation=delete\tznode=/a\tresult=success".to_string(),
    ];
    assert_eq!(audit_lines(&server.log()), expected);
    server.stop();
    let log = server.log();
    // A search for the word AUDIT finds all these lines.
    let marked = log.lines().filter(|line| line.contains(" AUDIT: ")).count();
    assert_eq!(marked, log.lines().filter(|line| line.contains("\toperation=")).count(), "{log}");
    assert!(log.contains("\toperation=serverStart\tresult=success\n"), "{log}");
    assert!(log.contains("\toperation=serverStop\tresult=invoked\n"), "{log}");
}

/// The shape of a version: the numbers at its beginning, then ", built on" and the time, with `#`
/// in place of the time's numbers.
fn shape_of_version(version: &str) -> String {
    let (name, built) = version.split_once(", built on ").expect("it says when it was built");
    let numbers = name.split('-').next().unwrap_or_default();
    format!("{numbers}, built on {}", without_numbers(built))
}

#[test]
fn the_version_has_the_form_of_zookeepers_wherever_it_is_shown() {
    let server = Server::start("version", &[&ADMIN[..], &[ALL_WORDS]].concat());
    let behind = |text: String, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key} in {text}")).to_string()
    };
    let address = server.address();
    let shown = behind(ask(address, "srvr"), "Zookeeper version: ");
    // The real server shows 3.9.5-cd5a50f2ea8ea9ae5ca4a6a1d18a5a1eff29f3b2, built on 2026-01-20
    // 17:12 UTC.
    let dashed = without_numbers("2026-01-20 17:12 UTC");
    assert_eq!(shape_of_version(&shown), format!("3.9.5, built on {dashed}"), "{shown}");
    assert!(!shown.contains("built on 1970"), "it was built of a commit: {shown}");
    for (word, key) in
        [("stat", "Zookeeper version: "), ("envi", "zookeeper.version="), ("mntr", "zk_version\t")]
    {
        assert_eq!(behind(ask(address, word), key), shown, "{word}");
    }
    let admin = server.face("admin");
    for (name, key) in
        [("monitor", "version"), ("server_stats", "version"), ("environment", "zookeeper.version")]
    {
        assert_eq!(command(admin, name)[key], shown, "{name}");
    }
}

#[test]
fn namespaces_reconnects_and_failed_authentications_are_counted() {
    let server = Server::start("namespaces", &[&METRICS[..], &[ALL_WORDS]].concat());
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/app", b"", 0).unwrap();
    client.create("/app/a", b"0123456789", 0).unwrap();
    assert_eq!(client.get("/app/a").unwrap(), b"0123456789");
    assert_eq!(client.delete("/none/a"), ErrorCode::NO_NODE);
    let refused = client.call(&Request::Auth { scheme: "nothing", credentials: None });
    assert_eq!(refused.header.error, ErrorCode::AUTH_FAILED);
    let (session, password) = (client.session, client.password.clone());
    drop(client);
    Client::try_greet(server.address(), session, &password, 0);

    let text = http(server.face("metrics"), "GET /metrics").2;
    for (name, value) in [
        // A create counts the bytes of its path and its data.
        ("write_per_namespace_count{key=\"app\"}", 2.0),
        ("write_per_namespace_sum{key=\"app\"}", 4.0 + 6.0 + 10.0),
        ("read_per_namespace_count{key=\"app\"}", 1.0),
        ("read_per_namespace_sum{key=\"app\"}", 6.0 + 10.0 + 68.0),
        ("auth_failed_count", 1.0),
        ("connection_revalidate_count", 1.0),
    ] {
        assert_eq!(sample(&text, name), value, "{name}");
    }
    assert!(!text.contains("key=\"none\""), "what failed takes no place: {text}");
    assert!(sample(&text, "propagation_latency_count") >= 1.0);
    let words = ask(server.address(), "mntr");
    assert_eq!(value(&words, "zk_cnt_app_write_per_namespace"), 2.0);
}
