//! Four-letter words: sent raw instead of a frame's length, answered with text, then closed
//! (`FourLetterCommands` and `org.apache.zookeeper.server.command`, ZooKeeper 3.9.5).

use core::fmt::{self, Write};
use std::collections::{BTreeMap, BTreeSet};

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The configuration.
    Conf,
    /// Every connection, in full.
    Cons,
    /// Resets the counts that `cons` shows.
    Crst,
    /// Bytes of snapshots and log.
    Dirs,
    /// Sessions by the time they expire, their ephemerals, and the connections.
    Dump,
    /// The environment; clients learn the server's version from it.
    Envi,
    /// The trace mask.
    Gtmk,
    /// The history of digests.
    Hash,
    /// `rw` or `ro`.
    Isro,
    /// Key and value per line, for monitoring.
    Mntr,
    /// `imok`.
    Ruok,
    /// Resets the counts that `srvr` shows.
    Srst,
    /// The server in brief.
    Srvr,
    /// The server and every connection, in brief.
    Stat,
    /// Sets the trace mask to the eight bytes that follow, which [`recognise`] does not see.
    Stmk {
        /// The new trace mask.
        mask: i64,
    },
    /// Watches by session.
    Wchc,
    /// Watches by path.
    Wchp,
    /// Watches in brief.
    Wchs,
    /// The bytes that a telnet program sends when it is told to close. Never answered.
    TelnetClose,
}

/// All words (`FourLetterCommands`).
const WORDS: [Word; 19] = [
    Word::Conf,
    Word::Cons,
    Word::Crst,
    Word::Dirs,
    Word::Dump,
    Word::Envi,
    Word::Gtmk,
    Word::Hash,
    Word::Isro,
    Word::Mntr,
    Word::Ruok,
    Word::Srst,
    Word::Srvr,
    Word::Stat,
    Word::Stmk { mask: 0 },
    Word::Wchc,
    Word::Wchp,
    Word::Wchs,
    Word::TelnetClose,
];

/// `FourLetterCommands.telnetCloseCmd`.
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

/// Bytes behind `stmk`: a long.
pub const TRACE_MASK_BYTES: usize = 8;

/// The trace mask at the start (`ZooTrace`). It has no effect here.
pub const TRACE_MASK_DEFAULT: i64 = 0x132;

impl Word {
    /// Its name in the whitelist: its four letters, except for the telnet close.
    pub fn name(self) -> &'static str {
        match self {
            Word::Conf => "conf",
            Word::Cons => "cons",
            Word::Crst => "crst",
            Word::Dirs => "dirs",
            Word::Dump => "dump",
            Word::Envi => "envi",
            Word::Gtmk => "gtmk",
            Word::Hash => "hash",
            Word::Isro => "isro",
            Word::Mntr => "mntr",
            Word::Ruok => "ruok",
            Word::Srst => "srst",
            Word::Srvr => "srvr",
            Word::Stat => "stat",
            Word::Stmk { .. } => "stmk",
            Word::Wchc => "wchc",
            Word::Wchp => "wchp",
            Word::Wchs => "wchs",
            Word::TelnetClose => "telnet close",
        }
    }
}

/// Recognises a word. Anything else is the length of a frame.
pub fn recognise(first: [u8; 4]) -> Option<Word> {
    if first == TELNET_CLOSE {
        return Some(Word::TelnetClose);
    }
    WORDS.into_iter().find(|word| word.name().as_bytes() == first)
}

/// The answer to a word that the configuration does not allow.
pub fn not_allowed(word: Word) -> String {
    format!("{} is not executed because it is not in the whitelist.\n", word.name())
}

/// One connection, as `stat` and `cons` show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionReport {
    /// `host:port`.
    pub peer: String,
    /// When it was made, ms since 1970.
    pub established_ms: i64,
    /// Whether the connection is still read.
    pub is_reading: bool,
    /// Requests not yet answered.
    pub outstanding: u64,
    /// Frames from the client.
    pub received: u64,
    /// Frames to the client.
    pub sent: u64,
    /// Its session, once it has one.
    pub session: Option<SessionReport>,
}

/// A connection's session, as `cons` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionReport {
    /// Session id.
    pub id: i64,
    /// Last operation, four letters or so.
    pub last_operation: &'static str,
    /// Negotiated timeout.
    pub timeout_ms: i64,
    /// Last xid of the client; negative ones are not shown.
    pub last_xid: i64,
    /// Last zxid sent to it.
    pub last_zxid: i64,
    /// When it was last answered, ms since 1970.
    pub last_response_ms: i64,
    /// Latencies in ms.
    pub latency: Latency,
}

/// Latencies of requests, in ms, as they are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The latency of the last request.
    pub last_ms: u64,
    /// The shortest latency.
    pub min_ms: u64,
    /// The longest latency.
    pub max_ms: u64,
    /// The sum of all latencies.
    pub total_ms: u64,
    /// The number of requests.
    pub count: u64,
}

impl Latency {
    /// The mean; 0 if there is none.
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_ms as f64 / self.count as f64 }
    }
}

/// The server's numbers, as `srvr`, `stat` and `cons` show them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// Name and version of this program.
    pub version: String,
    /// `standalone`, `leader`, `follower`, `observer`.
    pub mode: &'static str,
    /// The latency of all requests.
    pub latency: Latency,
    /// Frames from clients.
    pub received: u64,
    /// Frames to clients.
    pub sent: u64,
    /// Requests not yet answered.
    pub outstanding: u64,
    /// Last zxid applied.
    pub zxid: i64,
    /// Znodes. ZooKeeper counts the root twice; the caller adds that one.
    pub znode_count: u64,
    /// Number of connections, shown or not.
    pub connection_count: u64,
    /// For a leader, bytes of the last, the smallest and the largest proposal; -1 before the first.
    pub proposal_sizes: Option<[i64; 3]>,
    /// Every connection, if the word shows them.
    pub connections: Vec<ConnectionReport>,
    /// Connections that are not shown.
    pub connections_missing: u64,
}

/// The values that `conf` and `envi` show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfReport {
    /// Lines of `key=value`, in ZooKeeper's order.
    pub lines: Vec<(&'static str, String)>,
    /// The servers of the ensemble, as the znode `/zookeeper/config` has them; none without an
    /// ensemble.
    pub membership: Option<String>,
    /// Lines of `key=value` for `envi`, beside the version.
    pub environment: Vec<(&'static str, String)>,
}

/// The values that `dump` shows. A list that was cut off says how many are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpReport {
    /// Sessions by the time they expire at, ms since 1970, ascending.
    pub sessions: Vec<(i64, Vec<i64>)>,
    /// For a follower, which does not know when sessions expire, every session with its timeout in
    /// ms, by id; shown instead of `sessions`.
    pub followed_sessions: Option<Vec<(i64, u32)>>,
    /// Sessions that are not shown.
    pub sessions_missing: u64,
    /// The ephemerals of the sessions that have any.
    pub ephemerals: Vec<(i64, Vec<String>)>,
    /// Ephemerals that are not shown.
    pub ephemerals_missing: u64,
    /// Connections by the time at which they are closed if nothing comes from them, ms since 1970,
    /// ascending: each with its address and its session, 0 without one.
    pub connections: Vec<(i64, Vec<(String, i64)>)>,
    /// Connections that are not shown.
    pub connections_missing: u64,
}

/// The watches that `wchc` and `wchp` show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchesReport {
    /// Paths and the sessions that watch them, in no order. A path may come more than once.
    pub watches: Vec<(String, Vec<i64>)>,
    /// Watches that are not shown.
    pub missing: u64,
}

/// The counts that `wchs` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchSummary {
    /// Connections that watch something.
    pub connections: u64,
    /// Paths that are watched.
    pub paths: u64,
    /// Pairs of a connection and a path.
    pub watches: u64,
}

/// `RuokCommand`.
pub const RUOK: &str = "imok";

/// `CnxnStatResetCommand`.
pub const CONNECTION_STATS_RESET: &str = "Connection stats reset.\n";

/// `StatResetCommand`.
pub const SERVER_STATS_RESET: &str = "Server stats reset.\n";

/// `AbstractFourLetterCommand.ZK_NOT_SERVING`.
pub const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// The answer of a server that does not serve clients now: it has not started yet, or its ensemble
/// has no leader. `isro` says `null` then, since `IsroCommand` does not expect it.
pub fn while_not_serving(word: Word, version: &str, conf: &ConfReport) -> String {
    match word {
        Word::Ruok => RUOK.to_string(),
        Word::Envi => environment(version, conf),
        Word::Isro => "null".to_string(),
        Word::TelnetClose => String::new(),
        _ => NOT_SERVING.to_string(),
    }
}

/// The lines of `conf`, with the bytes of snapshots and log behind the folder of each
/// (`ZooKeeperServer.dumpConf`), and the servers (`QuorumZooKeeperServer.dumpConf`).
pub fn conf(conf: &ConfReport, data_bytes: u64, log_bytes: u64) -> String {
    let mut text = String::new();
    for (key, value) in &conf.lines {
        let _ = writeln!(text, "{key}={value}");
        let _ = match *key {
            "dataDir" => writeln!(text, "dataDirSize={data_bytes}"),
            "dataLogDir" => writeln!(text, "dataLogSize={log_bytes}"),
            _ => Ok(()),
        };
    }
    if let Some(membership) = &conf.membership {
        let _ = write!(text, "membership: \n{membership}");
    }
    text
}

/// `EnvCommand`.
pub fn environment(version: &str, conf: &ConfReport) -> String {
    let rest = key_values(&conf.environment);
    format!("Environment:\nzookeeper.version={version}\n{rest}")
}

/// `ConsCommand`.
pub fn cons(server: &ServerReport) -> String {
    connections(server, false) + "\n"
}

/// `StatCommand`, without the connections.
pub fn srvr(server: &ServerReport) -> String {
    format!("Zookeeper version: {}\n{}", server.version, brief(server))
}

/// `StatCommand`, with the connections.
pub fn stat(server: &ServerReport) -> String {
    format!(
        "Zookeeper version: {}\nClients:\n{}\n{}",
        server.version,
        connections(server, true),
        brief(server)
    )
}

/// `DirsCommand`.
pub fn dirs(data_bytes: u64, log_bytes: u64) -> String {
    format!("datadir_size: {data_bytes}\nlogdir_size: {log_bytes}\n")
}

/// `DumpCommand`, `ExpiryQueue.dump`, `DataTree.dumpEphemerals`; for a follower
/// `LearnerSessionTracker.dumpSessions`.
pub fn dump(dump: &DumpReport) -> String {
    let mut text = "SessionTracker dump:\n".to_string();
    match &dump.followed_sessions {
        Some(sessions) => {
            let count = sessions.len() as u64 + dump.sessions_missing;
            let _ = writeln!(text, "Global Sessions({count}):");
            for (session, timeout_ms) in sessions {
                let _ = writeln!(text, "{session:#x}\t{timeout_ms}ms");
            }
        }
        None => {
            text.push_str("Session ");
            let show = |session: &i64| format!("{session:#x}");
            expiring(&dump.sessions, dump.sessions_missing, show, &mut text);
        }
    }
    missing(dump.sessions_missing, "sessions", &mut text);
    let with_ephemerals = dump.ephemerals.len();
    let _ = writeln!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({with_ephemerals}):");
    for (session, paths) in &dump.ephemerals {
        let _ = writeln!(text, "{session:#x}:");
        for path in paths {
            let _ = writeln!(text, "	{path}");
        }
    }
    missing(dump.ephemerals_missing, "ephemerals", &mut text);
    text.push_str("Connections dump:\nConnections ");
    let show = |(peer, session): &(String, i64)| format!("ip: /{peer} sessionId: {session:#x}");
    expiring(&dump.connections, dump.connections_missing, show, &mut text);
    missing(dump.connections_missing, "connections", &mut text);
    text
}

fn expiring<T>(
    sets: &[(i64, Vec<T>)],
    missing: u64,
    show: impl Fn(&T) -> String,
    text: &mut String,
) {
    let count = sets.iter().map(|(_, set)| set.len() as u64).sum::<u64>() + missing;
    let _ = writeln!(text, "Sets ({})/({count}):", sets.len());
    for (at_ms, set) in sets {
        let _ = writeln!(text, "{} expire at {}:", set.len(), java_date(*at_ms));
        for element in set {
            let _ = writeln!(text, "\t{}", show(element));
        }
    }
}

/// Says that a list was cut off: lists of any length would grow without a bound.
fn missing(count: u64, of: &str, text: &mut String) {
    if count > 0 {
        let _ = writeln!(text, "({count} more {of} are not shown)");
    }
}

/// `WatchCommand`, by session (`WatchManager.dumpWatches`).
pub fn watches_by_session(report: &WatchesReport) -> String {
    let mut text = String::new();
    for (session, paths) in paths_by_session(report) {
        let _ = writeln!(text, "{session:#x}");
        for path in paths {
            let _ = writeln!(text, "	{path}");
        }
    }
    missing(report.missing, "watches", &mut text);
    text.push('\n');
    text
}

/// `WatchCommand`, by path (`WatchManager.dumpWatches`).
pub fn watches_by_path(report: &WatchesReport) -> String {
    let mut text = String::new();
    for (path, sessions) in sessions_by_path(report) {
        let _ = writeln!(text, "{path}");
        for session in sessions {
            let _ = writeln!(text, "\t{session:#x}");
        }
    }
    missing(report.missing, "watches", &mut text);
    text.push('\n');
    text
}

/// The paths that each session watches, both in order, each once.
pub fn paths_by_session(report: &WatchesReport) -> BTreeMap<i64, BTreeSet<&str>> {
    let mut found: BTreeMap<i64, BTreeSet<&str>> = BTreeMap::new();
    for (path, sessions) in &report.watches {
        for session in sessions {
            found.entry(*session).or_default().insert(path);
        }
    }
    found
}

/// The sessions that watch each path, both in order, each once.
pub fn sessions_by_path(report: &WatchesReport) -> BTreeMap<&str, BTreeSet<i64>> {
    let mut found: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for (path, sessions) in report.watches.iter().filter(|(_, sessions)| !sessions.is_empty()) {
        found.entry(path).or_default().extend(sessions);
    }
    found
}

/// `WatchManager.toString`, which has no line end: `WatchCommand` adds one.
pub fn watch_summary(summary: &WatchSummary) -> String {
    let WatchSummary { connections, paths, watches } = summary;
    format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
}

/// A number of `mntr`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Real(f64),
}

impl fmt::Display for Number {
    /// Prints the number as Java does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(whole) => write!(f, "{whole}"),
            Number::Real(real) => f.write_str(&java_double(*real)),
        }
    }
}

/// A double as Java prints it, to four decimals: `0.0`, `1.25`.
fn java_double(value: f64) -> String {
    let text = format!("{value:.4}");
    let trimmed = text.trim_end_matches('0');
    if trimmed.ends_with('.') { format!("{trimmed}0") } else { trimmed.to_string() }
}

/// `MonitorCommand`: a key and its number a line. A member of an ensemble has a `peer_state`.
pub fn mntr(
    version: &str,
    mode: &str,
    peer_state: Option<&str>,
    numbers: &[(String, Number)],
) -> String {
    let mut text = format!("zk_version\t{version}\nzk_server_state\t{mode}\n");
    if let Some(peer_state) = peer_state {
        let _ = writeln!(text, "zk_peer_state\t{peer_state}");
    }
    for (key, number) in numbers {
        let _ = writeln!(text, "zk_{key}\t{number}");
    }
    text
}

fn key_values(lines: &[(&'static str, String)]) -> String {
    lines.iter().fold(String::new(), |text, (key, value)| format!("{text}{key}={value}\n"))
}

fn brief(server: &ServerReport) -> String {
    let latency = &server.latency;
    let proposal_sizes = server.proposal_sizes.map_or(String::new(), |[last, min, max]| {
        format!("Proposal sizes last/min/max: {last}/{min}/{max}\n")
    });
    format!(
        "Latency min/avg/max: {}/{}/{}\nReceived: {}\nSent: {}\nConnections: {}\n\
         Outstanding: {}\nZxid: {:#x}\nMode: {}\nNode count: {}\n{proposal_sizes}",
        latency.min_ms,
        java_double(latency.average()),
        latency.max_ms,
        server.received,
        server.sent,
        server.connection_count,
        server.outstanding,
        server.zxid,
        server.mode,
        server.znode_count,
    )
}

fn connections(server: &ServerReport, brief: bool) -> String {
    let mut text = String::new();
    for connection in &server.connections {
        connection.print(brief, &mut text);
    }
    missing(server.connections_missing, "connections", &mut text);
    text
}

impl ConnectionReport {
    /// `ServerCnxn.dumpConnectionInfo`. The number in brackets is 1 for a connection that is read
    /// and 0 for one that asks a four-letter word.
    fn print(&self, brief: bool, text: &mut String) {
        let reading = u8::from(self.is_reading);
        let _ = write!(
            text,
            " /{}[{reading}](queued={},recved={},sent={}",
            self.peer, self.outstanding, self.received, self.sent
        );
        if let Some(session) = self.session.as_ref().filter(|_| !brief) {
            let _ = write!(
                text,
                ",sid={:#x},lop={},est={},to={}",
                session.id, session.last_operation, self.established_ms, session.timeout_ms
            );
            if session.last_xid >= 0 {
                let _ = write!(text, ",lcxid={:#x}", session.last_xid);
            }
            let latency = &session.latency;
            let _ = write!(
                text,
                ",lzxid={:#x},lresp={},llat={},minlat={},avglat={},maxlat={}",
                session.last_zxid,
                session.last_response_ms,
                latency.last_ms,
                latency.min_ms,
                latency.average() as u64,
                latency.max_ms
            );
        }
        text.push_str(")\n");
    }
}

/// A date as Java's `Date` prints it, in UTC: `Sun Nov 22 05:45:35 UTC 2026`.
fn java_date(ms: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = ms.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 1 March of year 0, in eras of 400 years: a leap day ends its year.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let from_january = (month + 2) % 12;
    let year = era * 400 + year_of_era + i64::from(from_january < 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let weekday = DAYS[days.rem_euclid(7) as usize];
    let month = MONTHS[from_january as usize];
    format!("{weekday} {month} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}")
}

#[cfg(test)]
mod tests;
