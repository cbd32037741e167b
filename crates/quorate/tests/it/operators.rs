//! Tests of promises to operators: some settings protect data, probes say whether a server is
//! ready, and a running server takes changed files on SIGHUP.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Signal, kill_process};

use crate::client::Client;
use crate::ensemble::Members;
use crate::monitoring::http;
use crate::server::{Server, command, folder, wait_until};
use crate::tls::wire::{Shape, TlsConnection, certificates};

const TIMEOUT_MS: i32 = 10_000;

#[test]
fn a_data_directory_that_must_be_there_is_not_made() {
    let folder = folder("data-dir-required");
    let data = folder.join("data");
    let config = format!(
        "dataDir={}\nclientPort=0\nclientPortAddress=127.0.0.1\ndatadir.autocreate=false\n",
        data.display()
    );
    fs::write(folder.join("zoo.cfg"), config).unwrap();
    let refusal = || {
        let output = command(&folder).stderr(Stdio::piped()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refusal();
    assert!(said.contains("is no directory, and datadir.autocreate=false"), "{said}");
    assert!(!data.exists());
    // An empty directory looks like the mount point of a volume that is not mounted.
    fs::create_dir(&data).unwrap();
    let said = refusal();
    assert!(said.contains("is empty, and datadir.autocreate=false"), "{said}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);

    fs::create_dir(data.join("version-2")).unwrap();
    let mut server = Server::start_in(folder, &["datadir.autocreate=false"]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert_eq!(client.create("/a", b"", 0).as_deref(), Ok("/a"));
    server.stop();
    fs::remove_dir(server.data_dir().join("version-2")).unwrap();
    server.restart();
    let address: SocketAddr = server.address();
    assert!(Client::open(address, TIMEOUT_MS).exists("/a"));
}

/// The modes of a folder and of everything in it, each with its path.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut modes = vec![(folder.to_owned(), mode(folder))];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            modes.extend(self::modes(&path));
        } else {
            modes.push((path.clone(), mode(&path)));
        }
    }
    modes
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn data_are_for_their_owner_alone() {
    let folder = folder("private");
    // The data directory is a symbolic link, and the log has a directory elsewhere.
    fs::create_dir(folder.join("volume")).unwrap();
    set_mode(&folder.join("volume"), 0o700);
    symlink("volume", folder.join("data")).unwrap();
    let log_line = format!("dataLogDir={}", folder.join("volume-2/log").display());
    let faces = ["quorate.etcdAddr=127.0.0.1:0", "quorate.chunkAddr=127.0.0.1:0"];
    let mut server = Server::start_in(folder, &[&faces[..], &[&log_line]].concat());
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert_eq!(client.create("/a", b"", 0).as_deref(), Ok("/a"));
    let log_dir = server.folder().join("volume-2");
    for (path, mode) in [modes(&server.data_dir()), modes(&log_dir)].concat() {
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, wanted, "{}", path.display());
    }
    server.stop();

    // Modes as an earlier version left them: everybody could read everything.
    let (data, wal) = (server.data_dir(), log_dir.join("log/wal"));
    let (chunks, boot) = (data.join("chunks"), data.join("boot"));
    [&data, &wal, &chunks].iter().for_each(|dir| set_mode(dir, 0o755));
    set_mode(&boot, 0o644);
    server.restart();
    let after = [&data, &wal, &chunks, &boot].map(|path| mode(path));
    assert_eq!(after, [0o750, 0o750, 0o750, 0o640]);
    let log = server.log();
    let advice = format!("chmod -R g-rwx {}", data.display());
    assert_eq!(log.matches("its group has access").count(), 1, "{log}");
    assert!(log.contains(&advice), "{log}");
    assert!(Client::open(server.address(), TIMEOUT_MS).exists("/a"));
}

/// The status and the text of a health probe; status 0 and no text if the port is not open yet.
fn probe(admin: SocketAddr, name: &str) -> (u16, String) {
    // A port that is not open yet counts as a failed probe.
    match TcpStream::connect(admin) {
        Ok(_) => {
            let (status, _, text) = http(admin, &format!("GET /health/{name}"));
            (status, text)
        }
        Err(_) => (0, String::new()),
    }
}

#[test]
fn servers_that_are_started_one_after_the_other_come_through_and_say_who_is_missing() {
    let mut members = Members::prepare("ordered-start", "");
    for place in 0..3 {
        members.start(place);
        // An orchestrator starts the next server once this probe succeeds.
        let admin = members.admin(place);
        wait_until("the next may be started", || probe(admin, "started").0 == 200);
        assert_eq!(probe(admin, "live"), (200, "live\n".to_string()));
        if place == 2 {
            break;
        }
        let (status, said) = probe(admin, "ready");
        assert_eq!(status, 503);
        let first = "This ZooKeeper instance is not currently serving requests\nwaiting for server";
        assert!(said.starts_with(first), "{said}");
        assert!(said.contains("server 3 is missing for "), "{said}");
        let hint =
            "quorate.bootstrap=majority would begin with 2 of 3 servers, server 1 among them";
        assert!(said.contains(hint), "{said}");
        wait_until("the log says so, too", || {
            let log = members.log(place);
            log.contains("server 3 is missing for ") && log.contains(hint)
        });
        let (said, is_led) = members.cluster(&["status"]);
        assert!(!is_led, "{said}");
        let line = format!("server {} does not serve yet: waiting for server", place + 1);
        assert!(said.contains(&line) && said.contains("server 3 is missing for "), "{said}");
    }
    for place in 0..3 {
        wait_until("all are ready", || probe(members.admin(place), "ready").0 == 200);
        assert_eq!(probe(members.admin(place), "started"), (200, "started\n".to_string()));
    }
    members.leader();

    // Servers that have data wait for a majority, too.
    for place in 0..3 {
        members.stop_one(place);
    }
    members.start(0);
    wait_until("the next may be started", || probe(members.admin(0), "started").0 == 200);
    let (status, said) = probe(members.admin(0), "ready");
    assert_eq!(status, 503);
    assert!(said.contains("waiting for 2 of 3 servers to be there"), "{said}");
    members.start(1);
    wait_until("a majority is ready", || probe(members.admin(0), "ready").0 == 200);
    members.stop();
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

#[test]
fn a_hangup_reloads_certificates_and_the_filter_of_the_log() {
    let folder = folder("hangup");
    let keys = folder.join("keys.pem");
    fs::copy(fixture("server.pem"), &keys).unwrap();
    let lines = [
        "secureClientPort=0".to_string(),
        "secureClientPortAddress=127.0.0.1".to_string(),
        format!("ssl.keyStore.location={}", keys.display()),
        format!("ssl.trustStore.location={}", fixture("ca.pem").display()),
        // The server does not look for changed files, so only the signal makes it read them.
        "client.certReload=false".to_string(),
        "quorate.log=info".to_string(),
        "admin.serverAddress=127.0.0.1".to_string(),
        "admin.serverPort=0".to_string(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut server = Server::start_in(folder, &lines);
    let address = server.face("zk-tls");
    let shown =
        || TlsConnection::connect(address, Shape::with("client")).unwrap().server_certificate();
    assert_eq!(shown(), certificates("server")[0]);

    fs::copy(fixture("server-2.pem"), &keys).unwrap();
    let config = server.folder().join("zoo.cfg");
    let text = fs::read_to_string(&config).unwrap().replace("log=info", "log=debug");
    fs::write(&config, &text).unwrap();
    kill_process(server.pid(), Signal::HUP).unwrap();
    wait_until("the new certificate", || shown() == certificates("server-2")[0]);
    let log = server.log();
    assert!(log.contains("SIGHUP: the log's filter is \"debug\""), "{log}");
    assert!(log.contains("SIGHUP: TLS: the stores were read again"), "{log}");
    assert!(!log.contains("DEBUG"), "{log}");
    // At level debug the server logs malformed bytes. It may answer them with a reset.
    let mut stranger = TcpStream::connect(server.face("admin")).unwrap();
    stranger.write_all(b"\0\r\n\r\n").unwrap();
    let _ = stranger.read_to_end(&mut Vec::new());
    wait_until("lines for debugging", || server.log().contains("DEBUG"));

    // A file that cannot be used changes no setting and does not end the server.
    fs::write(&config, text.replace("log=debug", "log=info,=")).unwrap();
    kill_process(server.pid(), Signal::HUP).unwrap();
    wait_until("it is said", || server.log().contains("SIGHUP: the log's filter is unchanged"));
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert_eq!(client.create("/a", b"", 0).as_deref(), Ok("/a"));
    server.stop();
}
