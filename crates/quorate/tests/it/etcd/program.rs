//! Tests of the program under the name `etcd`: flags, variables and configuration file, output and
//! exit status.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Output;

use super::{Etcd, etcd_command, free_addresses, get, put, request, wait_ready};
use crate::server::folder;

/// Runs the program until it ends. Returns the exit status and the first line of the error.
fn ended(folder: &Path, flags: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let mut command = etcd_command(folder);
    command.args(flags).envs(variables.iter().copied());
    let Output { status, stderr, .. } = command.output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    // Log lines are JSON, and come before the error.
    let line = text.lines().find(|line| !line.starts_with('{'));
    (status.code().unwrap(), line.unwrap_or_default().to_string())
}

/// The exit statuses are those of etcd 3.6.16.
#[test]
fn wrong_flags_end_with_status_2_and_wrong_configurations_with_1() {
    let folder = folder("etcd-program-ends");
    let unknown = (2, "flag provided but not defined: -nothing".to_string());
    assert_eq!(ended(&folder, &["--nothing"], &[]), unknown);
    let missing = ended(&folder, &["--config-file=none.yml"], &[]);
    assert_eq!(missing, (1, "etcd: open none.yml: no such file or directory".to_string()));
    let both = ended(&folder, &["--name=a"], &[("ETCD_NAME", "b")]);
    assert_eq!(both.0, 1, "{both:?}");
    for flags in [["--version"], ["--help"]] {
        assert_eq!(ended(&folder, &flags, &[]), (0, String::new()));
    }
    let [client] = free_addresses::<1>();
    let url = format!("http://{client}");
    let held = std::net::TcpListener::bind(client).unwrap();
    let urls = ["--listen-client-urls", &url, "--advertise-client-urls", &url];
    let in_use = ended(&folder, &urls, &[]);
    assert!(in_use.0 == 1 && !folder.join("default.etcd/wal").exists(), "{in_use:?}");
    drop(held);
    fs::remove_dir_all(folder).unwrap();
}

/// If the server started empty there, it would look as if all keys were lost.
#[test]
fn a_data_directory_of_etcd_is_refused_and_left_alone() {
    let folder = folder("etcd-program-data");
    fs::create_dir_all(folder.join("default.etcd/member/snap")).unwrap();
    let (status, text) = ended(&folder, &[], &[]);
    assert!(status == 1 && text.contains("by `quorate restore BACKUP"), "{text}");
    assert_eq!(fs::read_dir(folder.join("default.etcd")).unwrap().count(), 1);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_a_variable_or_flags_start_a_member() {
    let folder = folder("etcd-program-sources");
    let [client] = free_addresses::<1>();
    let url = format!("http://{client}");
    let file = format!(
        "name: m0\ndata-dir: d\nlisten-client-urls: {url}\nadvertise-client-urls: {url}\n\
         log-outputs: [stderr, more.log]\nnothing: 1\n"
    );
    fs::write(folder.join("etcd.yml"), file).unwrap();
    let member = Etcd::spawn(&folder, "m0", &["--config-file=etcd.yml", "--name", "ignored"]);
    wait_ready(&folder, "m0");
    assert!(put(client, "key", "value"));
    drop(member);
    let log = fs::read_to_string(folder.join("m0.log")).unwrap();
    assert!(log.contains("etcd.yml:6: nothing: is unknown; it is ignored"), "{log}");
    assert_eq!(fs::read_to_string(folder.join("more.log")).unwrap(), log);
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        assert!(["level", "ts", "caller", "msg"].iter().all(|key| line[key].is_string()), "{line}");
    }
    // Environment variables that configure the same member.
    let mut command = etcd_command(&folder);
    command.envs([("ETCD_NAME", "m0"), ("ETCD_DATA_DIR", "d"), ("ETCD_LOG_FORMAT", "console")]);
    command.envs([("ETCD_LISTEN_CLIENT_URLS", &url), ("ETCD_ADVERTISE_CLIENT_URLS", &url)]);
    let log = fs::File::create(folder.join("m1.log")).unwrap();
    let member = Etcd(command.stderr(log).spawn().unwrap());
    wait_ready(&folder, "m1");
    assert_eq!(get(client, "key").as_deref(), Some("value"));
    drop(member);
    let log = fs::read_to_string(folder.join("m1.log")).unwrap();
    assert!(!log.starts_with('{'), "{log}");
    fs::remove_dir_all(folder).unwrap();
}

/// The log's directory may be inside the data directory, or be that directory. etcd starts then,
/// too.
#[test]
fn a_log_directory_in_the_data_directory_is_found_again() {
    for (at, wal_dir) in ["d/wal", "d/member/wal", "d", "link"].into_iter().enumerate() {
        let folder = folder(&format!("etcd-program-wal-{at}"));
        std::os::unix::fs::symlink("d", folder.join("link")).unwrap();
        let [client] = free_addresses::<1>();
        let url = format!("http://{client}");
        let urls = ["--listen-client-urls", &url, "--advertise-client-urls", &url];
        let dirs = ["--data-dir=d", &format!("--wal-dir={wal_dir}")];
        for start in 0..3 {
            let name = format!("m{start}");
            let member = Etcd::spawn(&folder, &name, &[&urls[..], &dirs[..]].concat());
            wait_ready(&folder, &name);
            assert_eq!(get(client, "key").as_deref(), (start > 0).then_some("value"));
            assert!(put(client, "key", "value"));
            drop(member);
        }
        // Without the flag the log is missing from its usual place, unless the log's directory was
        // the data directory itself.
        let (status, text) = if at < 2 { ended(&folder, &["--data-dir=d"], &[]) } else { continue };
        assert!(status == 1 && text.contains("there is no log in d/wal"), "{text}");
        fs::remove_dir_all(folder).unwrap();
    }
}

/// systemd expects this message from a unit of `Type=notify`, such as etcd's.
#[test]
fn systemd_is_told_when_the_member_is_ready() {
    let folder = folder("etcd-program-notify");
    let [client] = free_addresses::<1>();
    let url = format!("http://{client}");
    let socket = UnixDatagram::bind(folder.join("s")).unwrap();
    let mut command = etcd_command(&folder);
    command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
    let member = Etcd(command.env("NOTIFY_SOCKET", "s").spawn().unwrap());
    let mut bytes = [0; 64];
    let count = socket.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..count], b"READY=1");
    let (status, body) = request(client, "GET /health", "").unwrap();
    assert_eq!((status, body.as_str()), (200, "{\"health\":\"true\",\"reason\":\"\"}"));
    drop(member);
    fs::remove_dir_all(folder).unwrap();
}
