//! Gathers the facts that a server shows about itself: its version, configuration and environment.

use std::collections::BTreeMap;

use config::{ServeConfig, masked};
use zk::four_letter::ConfReport;

use crate::observe::process;

/// The version of ZooKeeper whose protocol is served, then our own version and its date, in the
/// form that clients and tools parse (`Version.getFullVersion`).
pub(super) fn version() -> String {
    let (own, date) = (env!("CARGO_PKG_VERSION"), env!("QUORATE_BUILD_DATE"));
    format!("3.9.5-quorate-{own}, built on {date}")
}

/// The properties that `system_properties` shows. Unlike in ZooKeeper, passwords are masked.
pub(super) fn shown_properties(properties: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let shown = |(key, value): (&String, &String)| {
        let value = if masked::is_secret(key) { masked::MASK } else { value };
        (key.clone(), value.to_string())
    };
    properties.iter().map(shown).collect()
}

/// The name of the user that runs this process (Java's `user.name`); `?` if it is unknown.
pub(super) fn user_name() -> String {
    let own = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id == own).then(|| name.to_string())
    });
    name.unwrap_or_else(|| "?".to_string())
}

/// An environment variable, or `<NA>`, which Java shows for a property that is not set.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| "<NA>".to_string())
}

/// Properties of a Java machine that `envi` shows, and that have no value here.
const JAVA_PROPERTIES: [&str; 7] = [
    "java.version",
    "java.vendor",
    "java.home",
    "java.class.path",
    "java.library.path",
    "java.io.tmpdir",
    "java.compiler",
];

/// The lines of `envi` after the version (`Environment.list`).
fn environment() -> Vec<(&'static str, String)> {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let folder = std::env::current_dir();
    let folder = folder.map_or("<NA>".to_string(), |folder| folder.display().to_string());
    let memory = process::memory();
    let megabytes = |bytes: u64| format!("{}MB", bytes >> 20);
    // Properties without a value are shown too, as in Java, because programs read these lines by
    // key.
    let mut environment = vec![("host.name", text(system.nodename()))];
    environment.extend(JAVA_PROPERTIES.map(|key| (key, "<NA>".to_string())));
    environment.extend([
        ("os.name", text(system.sysname())),
        ("os.arch", text(system.machine())),
        ("os.version", text(system.release())),
        ("user.name", user_name()),
        ("user.home", variable("HOME")),
        ("user.dir", folder),
        ("os.memory.free", megabytes(memory.limit_bytes.saturating_sub(memory.anonymous_bytes))),
        ("os.memory.max", megabytes(memory.limit_bytes)),
        ("os.memory.total", megabytes(memory.anonymous_bytes)),
    ]);
    environment
}

/// The lines of `conf` (`ZooKeeperServer.dumpConf`, and in an ensemble `QuorumZooKeeperServer`'s).
/// The two ports are ZooKeeper's without and with TLS.
pub(super) fn conf_report(
    config: &ServeConfig,
    [client_port, secure_client_port]: [String; 2],
) -> ConfReport {
    let dir = config.storage.data_dir.display().to_string();
    let log_dir =
        config.storage.log_dir.as_ref().map_or(dir.clone(), |it| it.display().to_string());
    let mut lines = vec![
        ("clientPort", client_port),
        ("secureClientPort", secure_client_port),
        ("dataDir", dir.clone()),
        ("dataLogDir", log_dir),
        ("tickTime", config.sessions.tick_ms.to_string()),
        ("maxClientCnxns", config.listeners.connections_per_ip_max.to_string()),
        ("minSessionTimeout", config.sessions.timeout_ms_min.to_string()),
        ("maxSessionTimeout", config.sessions.timeout_ms_max.to_string()),
        (
            "clientPortListenBacklog",
            config.listeners.backlog.map_or("-1".to_string(), |backlog| backlog.to_string()),
        ),
        // A standalone server shows 0, even if it has a file `myid`.
        ("serverId", config.cluster.as_ref().map_or(0, |cluster| cluster.number).to_string()),
    ];
    if let Some(cluster) = &config.cluster {
        let own = cluster.own();
        lines.extend([
            ("initLimit", cluster.init_limit.to_string()),
            ("syncLimit", cluster.sync_limit.to_string()),
            ("electionAlg", "3".to_string()),
            ("electionPort", own.election_port.to_string()),
            ("quorumPort", own.peer_port.to_string()),
            // The number of `LearnerType.PARTICIPANT`.
            ("peerType", "0".to_string()),
        ]);
    }
    let membership = config.cluster.as_ref().and_then(|cluster| cluster.server_list().zk_text());
    ConfReport { lines, membership, environment: environment() }
}
