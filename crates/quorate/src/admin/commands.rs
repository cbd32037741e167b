//! Runs the commands of ZooKeeper's AdminServer (`Commands`, ZooKeeper 3.9.5) by name, and answers
//! them in JSON. [`super::images`] has the commands about snapshots.

use std::time::Duration;

use config::ListenAddress;
use config::cluster::{Role, shown_address};
use hyper::StatusCode;
use machine::{ServerRecord, ServerRole, Servers};
use member::fronts::zk::{Reset, ZkFrontReport};
use zk::four_letter::{self, ConnectionReport, Number};

use super::WaitingServer;
use super::json::Json;
use crate::monitor::Monitor;
use crate::observe::metric::flat;
use crate::observe::replica::{MemberView, Part};

/// A command that reports or resets something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Configuration,
    ConnectionStatReset,
    Connections,
    Dirs,
    Dump,
    Ensemble,
    Environment,
    GetTraceMask,
    Hash,
    InitialConfiguration,
    IsReadOnly,
    LastSnapshot,
    Leader,
    Monitor,
    ObserverConnectionStatReset,
    Observers,
    Ruok,
    ServerStats,
    SetTraceMask,
    StatReset,
    Stats,
    SystemProperties,
    VotingView,
    WatchSummary,
    Watches,
    WatchesByPath,
    ZabState,
}

impl Command {
    /// Whether the command fails while the server does not serve clients (`Commands.runCommand`).
    fn needs_server(self) -> bool {
        !matches!(
            self,
            Command::Ensemble
                | Command::Environment
                | Command::GetTraceMask
                | Command::SetTraceMask
                | Command::SystemProperties
                | Command::ZabState
        )
    }
}

/// Every command with its names, the primary one first. Sorted by the primary names.
pub const COMMANDS: [(Command, &[&str]); 27] = [
    (Command::Configuration, &["configuration", "conf", "config"]),
    (Command::ConnectionStatReset, &["connection_stat_reset", "crst"]),
    (Command::Connections, &["connections", "cons"]),
    (Command::Dirs, &["dirs"]),
    (Command::Dump, &["dump"]),
    (Command::Ensemble, &["ensemble"]),
    (Command::Environment, &["environment", "env", "envi"]),
    (Command::GetTraceMask, &["get_trace_mask", "gtmk"]),
    (Command::Hash, &["hash"]),
    (Command::InitialConfiguration, &["initial_configuration", "icfg"]),
    (Command::IsReadOnly, &["is_read_only", "isro"]),
    (Command::LastSnapshot, &["last_snapshot", "lsnp"]),
    (Command::Leader, &["leader", "lead"]),
    (Command::Monitor, &["monitor", "mntr"]),
    (Command::ObserverConnectionStatReset, &["observer_connection_stat_reset", "orst"]),
    (Command::Observers, &["observers", "obsr"]),
    (Command::Ruok, &["ruok"]),
    (Command::ServerStats, &["server_stats", "srvr"]),
    (Command::SetTraceMask, &["set_trace_mask", "stmk"]),
    (Command::StatReset, &["stat_reset", "srst"]),
    (Command::Stats, &["stats", "stat"]),
    (Command::SystemProperties, &["system_properties", "sysp"]),
    (Command::VotingView, &["voting_view"]),
    (Command::WatchSummary, &["watch_summary", "wchs"]),
    (Command::Watches, &["watches", "wchc"]),
    (Command::WatchesByPath, &["watches_by_path", "wchp"]),
    (Command::ZabState, &["zabstate"]),
];

/// Finds a command by its primary name or an alias; returns it with its primary name.
pub fn find(name: &str) -> Option<(Command, &'static str)> {
    let found = COMMANDS.iter().find(|(_, names)| names.contains(&name));
    found.map(|(command, names)| (*command, names[0]))
}

/// The response to a command (`CommandResponse`).
#[derive(Clone, Debug, PartialEq)]
pub struct CommandResponse {
    /// The HTTP status.
    pub status: StatusCode,
    /// The command's primary name, or the name in the request if no command has it.
    pub command: String,
    /// The keys and values to print, in order. A key `error` among them replaces the null `error`
    /// that [`CommandResponse::print`] would add.
    pub data: Vec<(String, Json)>,
}

impl CommandResponse {
    /// The response of a command that succeeded with this data.
    fn told(command: &str, data: Vec<(&str, Json)>) -> CommandResponse {
        let data = data.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
        CommandResponse { status: StatusCode::OK, command: command.to_string(), data }
    }

    /// A response that only reports an error.
    pub fn error(status: StatusCode, command: &str, error: impl Into<String>) -> CommandResponse {
        let data = vec![
            ("command".to_string(), Json::from(command)),
            ("error".to_string(), Json::Text(error.into())),
        ];
        CommandResponse { status, command: command.to_string(), data }
    }

    /// A response with this status, and without data.
    pub fn empty(status: StatusCode, command: &str) -> CommandResponse {
        CommandResponse { status, command: command.to_string(), data: Vec::new() }
    }

    /// The response as JSON text. `command` and `error` are added at the end unless the data has
    /// them (`CommandResponse.toMap`).
    pub fn print(mut self) -> String {
        for (key, value) in [("command", Json::from(&*self.command)), ("error", Json::Null)] {
            if !self.data.iter().any(|(known, _)| known == key) {
                self.data.push((key.to_string(), value));
            }
        }
        Json::Object(self.data).print()
    }
}

/// Runs a command. `name` is its primary name, `query` the parameters of the request.
pub async fn run(
    monitor: &Monitor,
    command: Command,
    name: &str,
    query: &[(String, String)],
) -> CommandResponse {
    if command.needs_server() && !monitor.observer.is_serving() && !monitor.observer.is_read_only()
    {
        let error = four_letter::NOT_SERVING.trim_end();
        return CommandResponse::error(StatusCode::OK, name, error);
    }
    let data = match command {
        Command::Configuration => configuration(monitor),
        Command::ConnectionStatReset => {
            monitor.reset(Reset::Connections).await;
            vec![]
        }
        Command::StatReset => {
            monitor.reset_server().await;
            vec![]
        }
        Command::Connections => connections(monitor, false).await,
        Command::Dirs => dirs(monitor),
        Command::Dump => dump(monitor).await,
        Command::Ensemble => ensemble(monitor),
        Command::Environment => environment(monitor),
        Command::GetTraceMask => vec![("tracemask", Json::whole(monitor.trace_mask()))],
        Command::SetTraceMask => set_trace_mask(monitor, query),
        // ZooKeeper lists digests of its state by zxid; this server keeps none.
        Command::Hash => vec![("digests", Json::List(vec![]))],
        Command::InitialConfiguration => initial_configuration(monitor),
        Command::IsReadOnly => vec![("read_only", monitor.observer.is_read_only().into())],
        Command::LastSnapshot => last_snapshot(monitor),
        Command::Leader => leader(monitor),
        Command::Monitor => {
            let (status, command) = (StatusCode::OK, name.to_string());
            return CommandResponse { status, command, data: monitor_values(monitor).await };
        }
        // Ruok has no data. There is nothing to reset for observers' connections.
        Command::ObserverConnectionStatReset | Command::Ruok => vec![],
        Command::Observers => {
            vec![("synced_observers", Json::whole(0)), ("observers", Json::List(vec![]))]
        }
        Command::ServerStats => server_stats(monitor).await,
        Command::Stats => {
            let mut stats = server_stats(monitor).await;
            stats.extend(connections(monitor, true).await);
            stats
        }
        Command::SystemProperties => system_properties(monitor),
        Command::VotingView => vec![("current_config", Json::Object(voting_view(monitor)))],
        Command::WatchSummary => watch_summary(monitor).await,
        Command::Watches => watches_by_session(monitor).await,
        Command::WatchesByPath => watches_by_path(monitor).await,
        Command::ZabState => zab_state(monitor),
    };
    CommandResponse::told(name, data)
}

/// The response to a command while the server has not started.
pub fn before_start(name: &str, waiting: &WaitingServer) -> CommandResponse {
    let (status, not_serving) = (StatusCode::OK, four_letter::NOT_SERVING.trim_end());
    match find(name) {
        Some((Command::Ensemble, primary)) if waiting.number.is_some() => {
            CommandResponse::told(primary, waiting_ensemble(waiting))
        }
        Some((Command::ZabState, primary)) => CommandResponse::told(primary, no_zab_state()),
        Some((_, primary)) => CommandResponse::error(status, primary, not_serving),
        None => CommandResponse::error(status, name, not_serving),
    }
}

/// The answer of `ensemble` while the server has not started: which servers it waits for, and for
/// how long, in ms.
fn waiting_ensemble(waiting: &WaitingServer) -> Vec<(&'static str, Json)> {
    let wait = waiting.board.look();
    let ms = |time: Duration| Json::whole(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let absent = wait.iter().flat_map(|wait| &wait.absent).map(|(number, time)| {
        Json::object([("server_id", Json::whole(*number)), ("absent_ms", ms(*time))])
    });
    let absent = Json::List(absent.collect());
    let line = wait.as_ref().map_or("starting".to_string(), ToString::to_string);
    vec![
        ("server_id", Json::whole(waiting.number.map_or(-1, i64::from))),
        ("state", "waiting".into()),
        ("leader_id", Json::whole(-1)),
        ("waited_ms", wait.as_ref().map_or(Json::Null, |wait| ms(wait.waited))),
        ("absent", absent),
        ("reason", line.into()),
    ]
}

/// The answer of `configuration` (`ZooKeeperServerConf.toMap`).
fn configuration(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    const KEYS: [(&str, &str); 9] = [
        ("clientPort", "client_port"),
        ("dataDir", "data_dir"),
        ("dataLogDir", "data_log_dir"),
        ("tickTime", "tick_time"),
        ("maxClientCnxns", "max_client_cnxns"),
        ("minSessionTimeout", "min_session_timeout"),
        ("maxSessionTimeout", "max_session_timeout"),
        ("serverId", "server_id"),
        ("clientPortListenBacklog", "client_port_listen_backlog"),
    ];
    let lines = &monitor.about().conf.lines;
    let value = |key: &str| lines.iter().find(|(known, _)| *known == key).map(|(_, value)| value);
    let shown = KEYS.iter().filter_map(|(in_conf, shown)| Some((*shown, value(in_conf)?)));
    let json = |value: &String| match value.parse::<i64>() {
        Ok(number) => Json::whole(number),
        Err(_) => value.as_str().into(),
    };
    shown.map(|(key, value)| (key, json(value))).collect()
}

fn dirs(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let (data_bytes, log_bytes) = monitor.observer.dirs();
    vec![("datadir_size", Json::whole(data_bytes)), ("logdir_size", Json::whole(log_bytes))]
}

/// The answer of `initial_configuration`: the configuration file of a standalone server. As in
/// ZooKeeper, a server of an ensemble does not show it.
fn initial_configuration(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let text = match &monitor.observer.settings.cluster {
        Some(_) => Json::Null,
        None => monitor.about().initial_config.as_str().into(),
    };
    vec![("initial_configuration", text)]
}

fn system_properties(monitor: &Monitor) -> Vec<(&str, Json)> {
    let properties = monitor.about().system_properties.iter();
    properties.map(|(key, value)| (key.as_str(), value.as_str().into())).collect()
}

fn environment(monitor: &Monitor) -> Vec<(&str, Json)> {
    let about = monitor.about();
    let version = ("zookeeper.version", about.version.as_str().into());
    let rest = about.conf.environment.iter().map(|(key, value)| (*key, value.as_str().into()));
    [version].into_iter().chain(rest).collect()
}

async fn connections(monitor: &Monitor, is_brief: bool) -> Vec<(&'static str, Json)> {
    let (connections, missing) = monitor.observer.connections().await;
    let shown = |of: &ConnectionReport| connection(of, is_brief);
    let mut data = vec![
        ("connections", Json::List(connections.iter().map(shown).collect())),
        ("secure_connections", Json::List(vec![])),
    ];
    add_missing(&mut data, "connections_missing", missing);
    data
}

/// Adds the number of items that were left out of a list, if any. ZooKeeper never cuts its lists.
fn add_missing(data: &mut Vec<(&'static str, Json)>, key: &'static str, missing: u64) {
    if missing > 0 {
        data.push((key, Json::whole(missing)));
    }
}

/// A connection as `ServerCnxn.getConnectionInfo` shows it; without its session if `is_brief`.
fn connection(of: &ConnectionReport, is_brief: bool) -> Json {
    let mut data = vec![
        ("remote_socket_address", of.peer.as_str().into()),
        ("interest_ops", Json::whole(i64::from(of.is_reading))),
        ("outstanding_requests", Json::whole(of.outstanding)),
        ("packets_received", Json::whole(of.received)),
        ("packets_sent", Json::whole(of.sent)),
    ];
    if !is_brief {
        let session = of.session.clone().unwrap_or_default();
        let latency = &session.latency;
        let operation = if of.session.is_some() { session.last_operation } else { "NA" };
        data.extend([
            ("session_id", Json::whole(session.id)),
            ("last_operation", operation.into()),
            ("established", Json::whole(of.established_ms)),
            ("session_timeout", Json::whole(session.timeout_ms)),
            ("last_cxid", Json::whole(session.last_xid)),
            ("last_zxid", Json::whole(session.last_zxid)),
            ("last_response_time", Json::whole(session.last_response_ms)),
            ("last_latency", Json::whole(latency.last_ms)),
            ("min_latency", Json::whole(latency.min_ms)),
            ("avg_latency", Json::whole(latency.average() as i64)),
            ("max_latency", Json::whole(latency.max_ms)),
        ]);
    }
    Json::object(data)
}

async fn dump(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let dump = monitor.observer.dump().await;
    let ids = |ids: &[i64]| Json::List(ids.iter().map(|id| Json::whole(*id)).collect());
    let sessions = dump.sessions.iter().map(|(at_ms, own)| (at_ms.to_string(), ids(own)));
    let paths =
        |paths: &[String]| Json::List(paths.iter().map(|path| path.as_str().into()).collect());
    let ephemerals = dump.ephemerals.iter().map(|(id, own)| (id.to_string(), paths(own)));
    let mut data = vec![
        ("expiry_time_to_session_ids", Json::Object(sessions.collect())),
        ("session_id_to_ephemeral_paths", Json::Object(ephemerals.collect())),
    ];
    add_missing(&mut data, "sessions_missing", dump.sessions_missing);
    add_missing(&mut data, "ephemerals_missing", dump.ephemerals_missing);
    data
}

fn set_trace_mask(monitor: &Monitor, query: &[(String, String)]) -> Vec<(&'static str, Json)> {
    const WANTED: &str = "setTraceMask requires long traceMask argument";
    let Some((_, text)) = query.iter().find(|(key, _)| key == "traceMask") else {
        return vec![("error", WANTED.into())];
    };
    match text.parse() {
        Ok(mask) => {
            monitor.set_trace_mask(mask);
            vec![("tracemask", Json::whole(mask))]
        }
        Err(_) => vec![("error", format!("{WANTED}, got {text}").into())],
    }
}

/// The answer of `last_snapshot` (`LastSnapshotCommand`): the snapshot's zxid in hexadecimal, and
/// its time in seconds since 1970; both -1 if there is none.
fn last_snapshot(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let last = monitor.observer.node.metrics().last_snapshot;
    let (zxid, at_s) = last.map_or((-1, -1), |(mark, at_s)| (mark.zxid.0, at_s));
    vec![("zxid", format!("{zxid:x}").into()), ("timestamp", Json::whole(at_s))]
}

async fn monitor_values(monitor: &Monitor) -> Vec<(String, Json)> {
    let mut data = vec![
        ("version".to_string(), monitor.about().version.as_str().into()),
        ("server_state".to_string(), monitor.observer.mode().into()),
    ];
    if let Some(part) = monitor.observer.part() {
        data.push(("peer_state".to_string(), part.peer_state().into()));
    }
    let numbers = flat(&monitor.metrics().await).into_iter();
    data.extend(numbers.map(|(key, number)| (key, Json::Number(number))));
    data
}

/// The answer of `server_stats` (`SrvrCommand`), with `ServerStats` as the library Jackson prints
/// it.
async fn server_stats(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let (facts, fronts) = (monitor.observer.member(), monitor.observer.zk_fronts().await);
    let server = monitor.server_of(&facts, &fronts);
    let (data_bytes, log_bytes) = monitor.observer.dirs();
    let slow = facts.measured.fsync_threshold_exceed_count;
    let stats = Json::object([
        ("packets_sent", Json::whole(server.sent)),
        ("packets_received", Json::whole(server.received)),
        ("fsync_threshold_exceed_count", Json::whole(slow)),
        ("client_response_stats", response_sizes(&fronts)),
        ("data_dir_size", Json::whole(data_bytes)),
        ("log_dir_size", Json::whole(log_bytes)),
        ("provider_null", false.into()),
        ("last_processed_zxid", Json::whole(server.zxid)),
        ("outstanding_requests", Json::whole(server.outstanding)),
        ("server_state", server.mode.into()),
        ("avg_latency", Json::Number(Number::Real(server.latency.average()))),
        ("max_latency", Json::whole(server.latency.max_ms)),
        ("min_latency", Json::whole(server.latency.min_ms)),
        ("num_alive_client_connections", Json::whole(server.connection_count)),
        ("uptime", Json::whole(facts.uptime_ms)),
        ("auth_failed_count", Json::whole(fronts.metrics.auth_failed_count)),
        // ZooKeeper counts these connections only if it runs on Netty.
        ("non_mtlsremote_conn_count", Json::whole(0)),
        ("non_mtlslocal_conn_count", Json::whole(0)),
    ]);
    let mut data = vec![
        ("version", server.version.into()),
        ("read_only", monitor.observer.is_read_only().into()),
        ("server_stats", stats),
        ("client_response", response_sizes(&fronts)),
    ];
    if let Some([last, min, max]) = server.proposal_sizes {
        data.push(("proposal_stats", buffer_stats(last, min, max)));
    }
    data.push(("node_count", Json::whole(server.znode_count)));
    data
}

/// The sizes of responses to clients, in bytes (`BufferStats`); -1 before the first response.
fn response_sizes(fronts: &ZkFrontReport) -> Json {
    let size = &fronts.metrics.response_size;
    let (last, min, max) = match size.last {
        Some((last, _)) => (last as i64, size.min as i64, size.max as i64),
        None => (-1, -1, -1),
    };
    buffer_stats(last, min, max)
}

fn buffer_stats(last: i64, min: i64, max: i64) -> Json {
    Json::object([
        ("last_buffer_size", Json::whole(last)),
        ("min_buffer_size", Json::whole(min)),
        ("max_buffer_size", Json::whole(max)),
    ])
}

/// The answer of `leader` (`LeaderCommand`).
fn leader(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let Some(part) = monitor.observer.part() else {
        return vec![("error", "server is not initialized".into())];
    };
    let (number, servers) = (monitor.observer.leader(), monitor.observer.servers());
    let record = number.and_then(|number| servers.list().servers.get(&u64::from(number)));
    let zk = record.and_then(|record| record.zk.as_ref());
    let host = zk.map(|zk| zk.parts()[0].trim_start_matches('[').trim_end_matches(']'));
    vec![
        ("is_leader", (part == Part::Leading).into()),
        ("leader_id", Json::whole(number.map_or(-1, i64::from))),
        ("leader_ip", host.unwrap_or_default().into()),
    ]
}

/// The answer of `ensemble`: the members as this server sees them, for `quorate cluster status`.
/// ZooKeeper has no such command.
fn ensemble(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let (Some(cluster), Some(view)) =
        (&monitor.observer.settings.cluster, monitor.observer.members())
    else {
        return vec![("error", "this server is in no ensemble".into())];
    };
    let maybe = |number: Option<u64>| number.map_or(Json::Null, Json::whole);
    let reached = view.servers.to_reach();
    let members = view.members.iter().map(|member| {
        let record = member.server.and_then(|it| reached.get(&u64::from(it)).copied());
        let (version, level_max) = match &member.knows {
            Some((program, level)) => (program.as_str().into(), Json::whole(level.number())),
            None => (Json::Null, Json::Null),
        };
        Json::object([
            ("server_id", Json::whole(member.server.map_or(-1, i64::from))),
            ("member_id", format!("{:016x}", member.id.0).into()),
            ("address", record.map_or(Json::Null, |record| peer_address(record).into())),
            ("voting", member.is_voter.into()),
            ("role", role(&view.servers, member).into()),
            ("entries_behind", maybe(member.entries_behind)),
            ("silent_ms", maybe(member.silent_ms)),
            ("fetches_snapshot", member.fetches_snapshot.into()),
            ("version", version),
            ("level_max", level_max),
        ])
    });
    let list = &view.servers.list().servers;
    let servers = list.iter().map(|(number, record)| server(&view.servers, *number, record));
    vec![
        ("server_id", Json::whole(cluster.number)),
        ("member_id", format!("{:016x}", view.own.0).into()),
        ("state", view.part.name().into()),
        ("leader_id", Json::whole(monitor.observer.leader().map_or(-1, i64::from))),
        ("term", Json::whole(view.status.term)),
        ("last_index", Json::whole(view.status.last_index)),
        ("commit_index", Json::whole(view.status.commit_index)),
        ("applied_index", Json::whole(view.status.applied_index)),
        ("contact_ms", maybe(view.contact_ms)),
        ("level", Json::whole(view.level.number())),
        ("level_max", Json::whole(view.known.level_max.number())),
        ("version", view.known.program.as_str().into()),
        ("servers", Json::List(servers.collect())),
        ("members", Json::List(members.collect())),
    ]
}

/// The part of a member in the ensemble.
fn role(servers: &Servers, member: &MemberView) -> &'static str {
    let number = member.server.map(u64::from);
    let record = number.and_then(|number| servers.list().servers.get(&number));
    match record.map(|record| record.role) {
        _ if member.is_voter => "voter",
        Some(ServerRole::Observer) => "observer",
        Some(ServerRole::Learner) => "learner",
        None if number.is_some_and(|number| servers.is_guest(number)) => "guest",
        Some(ServerRole::Voter) | None => "joining",
    }
}

/// A server as the replicated state describes it.
fn server(servers: &Servers, number: u64, record: &ServerRecord) -> Json {
    let texts = |texts: &[String]| Json::List(texts.iter().map(|it| it.as_str().into()).collect());
    Json::object([
        ("server_id", Json::whole(number)),
        ("id", servers.id_of(number).map_or(Json::Null, |id| format!("{:016x}", id.0).into())),
        ("name", record.name.as_str().into()),
        ("role", record.role.name().into()),
        ("address", peer_address(record).into()),
        ("peer_urls", texts(&record.peer_urls)),
        ("client_urls", texts(&record.client_urls)),
    ])
}

/// The address at which other servers reach this one, as `host:port`; empty if the record has none.
fn peer_address(record: &ServerRecord) -> String {
    match (&record.zk, record.peer_urls.first()) {
        (Some(zk), _) => {
            let [host, peer, _] = zk.parts();
            format!("{host}:{peer}")
        }
        (None, Some(url)) => {
            url.split_once("://").map_or(url.as_str(), |(_, rest)| rest).to_string()
        }
        (None, None) => String::new(),
    }
}

/// The answer of `voting_view` (`VotingViewCommand`): the servers with ZooKeeper addresses, by
/// number.
fn voting_view(monitor: &Monitor) -> Vec<(String, Json)> {
    let servers = monitor.observer.servers();
    let view = servers.list().servers.iter().filter_map(|(number, record)| {
        let zk = record.zk.as_ref()?;
        let [host, peer, election] = zk.parts();
        let address = |port: &str| Json::List(vec![format!("{host}:{port}").into()]);
        let view = Json::object([
            ("server_addresses", address(peer)),
            ("election_addresses", address(election)),
            ("client_address", zk.clients.clone().unwrap_or_default().into()),
            ("learner_type", record.role.zk_name().into()),
        ]);
        Some((number.to_string(), view))
    });
    view.collect()
}

/// The answer of `zabstate` while the server belongs to no quorum.
fn no_zab_state() -> Vec<(&'static str, Json)> {
    vec![("voting", false.into()), ("zabstate", "".into())]
}

/// The answer of `zabstate` (`ZabStateCommand`).
fn zab_state(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let (Some(cluster), Some(part)) = (&monitor.observer.settings.cluster, monitor.observer.part())
    else {
        return no_zab_state();
    };
    if part == Part::Looking {
        return no_zab_state();
    }
    let own = cluster.own();
    let zxid = monitor.observer.look(|machine| machine.mark().zxid.0);
    let client = own.client.as_ref().map(shown_address).unwrap_or_default();
    vec![
        ("myid", Json::whole(i64::from(cluster.number))),
        ("is_leader", (part == Part::Leading).into()),
        ("quorum_address", addresses(&own.host, own.peer_port)),
        ("election_address", addresses(&own.host, own.election_port)),
        ("client_address", client.into()),
        ("voting", (own.role == Role::Participant).into()),
        ("last_zxid", format!("{zxid:#x}").into()),
        ("zab_epoch", Json::whole(zxid >> 32)),
        ("zab_counter", Json::whole(zxid & 0xffff_ffff)),
        ("zabstate", "broadcast".into()),
    ]
}

/// An address of this server, as Jackson prints ZooKeeper's `MultipleAddresses`. Our server has one
/// address, and reports it as reachable without trying it.
fn addresses(host: &str, port: u16) -> Json {
    let shown = |host: &str| -> Json {
        shown_address(&ListenAddress { host: Some(host.to_string()), port }).into()
    };
    let one = || Json::List(vec![shown(host)]);
    Json::object([
        ("empty", false.into()),
        ("all_addresses", one()),
        ("wildcard_addresses", Json::List(vec![shown("0.0.0.0")])),
        ("all_ports", Json::List(vec![Json::whole(port)])),
        ("all_host_strings", Json::List(vec![host.into()])),
        ("reachable_address", shown(host)),
        ("all_reachable_addresses", one()),
        ("all_reachable_addresses_or_all", one()),
        ("reachable_or_one", shown(host)),
        ("one", shown(host)),
    ])
}

async fn watch_summary(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let summary = monitor.observer.watch_summary().await;
    vec![
        ("num_connections", Json::whole(summary.connections)),
        ("num_paths", Json::whole(summary.paths)),
        ("num_total_watches", Json::whole(summary.watches)),
    ]
}

async fn watches_by_session(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let report = monitor.observer.watches().await;
    let by_session = four_letter::paths_by_session(&report).into_iter().map(|(session, paths)| {
        (session.to_string(), Json::List(paths.into_iter().map(Json::from).collect()))
    });
    let mut data = vec![("session_id_to_watched_paths", Json::Object(by_session.collect()))];
    add_missing(&mut data, "watches_missing", report.missing);
    data
}

async fn watches_by_path(monitor: &Monitor) -> Vec<(&'static str, Json)> {
    let report = monitor.observer.watches().await;
    let by_path = four_letter::sessions_by_path(&report).into_iter().map(|(path, sessions)| {
        (path.to_string(), Json::List(sessions.into_iter().map(Json::whole).collect()))
    });
    let mut data = vec![("path_to_session_ids", Json::Object(by_path.collect()))];
    add_missing(&mut data, "watches_missing", report.missing);
    data
}

#[cfg(test)]
mod tests;
