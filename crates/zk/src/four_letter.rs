//! ZooKeeper's four-letter words: commands for operators. A client sends the four letters where the
//! length of its first frame would be; the server answers with text and closes the connection
//! (`FourLetterCommands` and `org.apache.zookeeper.server.command`, ZooKeeper 3.9.5).

use core::fmt::{self, Write};
use std::collections::{BTreeMap, BTreeSet};

/// A four-letter word. Each variant says what the server answers or does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Shows the configuration.
    Conf,
    /// Shows every connection in full.
    Cons,
    /// Resets the counters of the connections, which `cons` shows.
    Crst,
    /// Shows how many bytes the snapshots and the log have.
    Dirs,
    /// Shows the sessions by the time they expire, their ephemerals, and the connections.
    Dump,
    /// Shows the environment. Clients learn the server's version from it.
    Envi,
    /// Shows the trace mask.
    Gtmk,
    /// Shows the history of the digests (hashes) of the tree.
    Hash,
    /// Shows `rw` or `ro`: whether the server takes writes.
    Isro,
    /// Shows metrics for monitoring, a key and its value on each line.
    Mntr,
    /// Answers `imok`.
    Ruok,
    /// Resets the counters of the server, which `srvr` shows.
    Srst,
    /// Shows the server in brief.
    Srvr,
    /// Shows the server and every connection in brief.
    Stat,
    /// Sets the trace mask to the eight bytes that follow the word. [`recognise`] does not see
    /// those bytes and returns mask 0.
    Stmk {
        /// The new trace mask.
        mask: i64,
    },
    /// Shows the watches by session.
    Wchc,
    /// Shows the watches by path.
    Wchp,
    /// Shows how many watches there are.
    Wchs,
    /// The bytes that a telnet program sends when its user closes it. The server does not answer.
    TelnetClose,
}

/// Every word (`FourLetterCommands`).
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

/// The bytes of [`Word::TelnetClose`] (`FourLetterCommands.telnetCloseCmd`).
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

/// Length of the mask that follows `stmk`, in bytes: a 64-bit number.
pub const TRACE_MASK_BYTES: usize = 8;

/// The trace mask of a server that has just started (`ZooTrace`). Quorate stores and shows the
/// mask, but traces nothing.
pub const TRACE_MASK_DEFAULT: i64 = 0x132;

impl Word {
    /// The word's name in the whitelist of the configuration: its four letters, except for the
    /// telnet close.
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

/// The word that the first four bytes of a connection form. `None` if they are the length of a
/// frame.
pub fn recognise(first: [u8; 4]) -> Option<Word> {
    if first == TELNET_CLOSE {
        return Some(Word::TelnetClose);
    }
    WORDS.into_iter().find(|word| word.name().as_bytes() == first)
}

/// The answer to a word that is not in the configuration's whitelist.
pub fn not_allowed(word: Word) -> String {
    format!("{} is not executed because it is not in the whitelist.\n", word.name())
}

/// One connection, as `stat` and `cons` show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionReport {
    /// `host:port`.
    pub peer: String,
    /// When the connection was accepted, ms since 1970.
    pub established_ms: i64,
    /// Whether this is a connection of a client; false for one that sent a four-letter word.
    pub is_reading: bool,
    /// Requests of the connection that have no reply yet.
    pub outstanding: u64,
    /// Frames received from the client.
    pub received: u64,
    /// Frames sent to the client.
    pub sent: u64,
    /// The connection's session; `None` until it has one.
    pub session: Option<SessionReport>,
}

/// A connection's session, as `cons` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionReport {
    /// The session's id.
    pub id: i64,
    /// Name of the session's last operation, of about four letters.
    pub last_operation: &'static str,
    /// The negotiated session timeout.
    pub timeout_ms: i64,
    /// The xid of the client's last request; not shown if negative.
    pub last_xid: i64,
    /// The last zxid that the client was sent.
    pub last_zxid: i64,
    /// When the client was last sent a reply, ms since 1970.
    pub last_response_ms: i64,
    /// Latencies of the session's requests.
    pub latency: Latency,
}

/// Latencies of requests, in ms.
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
    /// The mean latency, in ms; 0 before the first request.
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_ms as f64 / self.count as f64 }
    }
}

/// The figures of the server that `srvr`, `stat` and `cons` show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// Name and version of this program.
    pub version: String,
    /// `standalone`, `leader`, `follower`, `observer`.
    pub mode: &'static str,
    /// The latencies of all requests to the server.
    pub latency: Latency,
    /// Frames received from clients.
    pub received: u64,
    /// Frames sent to clients.
    pub sent: u64,
    /// How many requests have no reply yet, over all connections.
    pub outstanding: u64,
    /// The zxid of the last command that this server applied.
    pub zxid: i64,
    /// The number of znodes as ZooKeeper counts them: the root counts twice, so the caller adds
    /// one.
    pub znode_count: u64,
    /// How many connections the server has, including those missing in `connections`.
    pub connection_count: u64,
    /// Bytes of the last, the smallest and the largest proposal, -1 before the first. `None` unless
    /// leading.
    pub proposal_sizes: Option<[i64; 3]>,
    /// The connections; empty if the word does not show them.
    pub connections: Vec<ConnectionReport>,
    /// How many connections were left out of `connections` to bound the answer.
    pub connections_missing: u64,
}

/// The values that `conf` and `envi` show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfReport {
    /// Lines of `key=value`, in ZooKeeper's order.
    pub lines: Vec<(&'static str, String)>,
    /// The servers of the ensemble, in the text form of the znode `/zookeeper/config`. `None` for a
    /// standalone server.
    pub membership: Option<String>,
    /// Lines of `key=value` that `envi` shows after the version.
    pub environment: Vec<(&'static str, String)>,
}

/// The contents of an answer to `dump`. A list may be cut off to bound the answer; the `_missing`
/// field beside it says how many items are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpReport {
    /// The ids of the sessions by expiry time, in ms since 1970, ascending.
    pub sessions: Vec<(i64, Vec<i64>)>,
    /// On a follower, which does not know when sessions expire: every session with its timeout in
    /// ms, by id. Shown instead of `sessions`.
    pub followed_sessions: Option<Vec<(i64, u32)>>,
    /// How many sessions are left out.
    pub sessions_missing: u64,
    /// Each session that has ephemerals, with their paths.
    pub ephemerals: Vec<(i64, Vec<String>)>,
    /// How many ephemerals are left out.
    pub ephemerals_missing: u64,
    /// The connections by the time, in ms since 1970, ascending, at which the server closes them if
    /// the client sends nothing: each with its address and its session, which is 0 if there is
    /// none.
    pub connections: Vec<(i64, Vec<(String, i64)>)>,
    /// How many connections are left out.
    pub connections_missing: u64,
}

/// The watches that `wchc` and `wchp` show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchesReport {
    /// Paths with the sessions that watch them, in no order. A path may occur more than once.
    pub watches: Vec<(String, Vec<i64>)>,
    /// How many watches are left out.
    pub missing: u64,
}

/// The counts that `wchs` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchSummary {
    /// Connections that watch something.
    pub connections: u64,
    /// Paths that are watched.
    pub paths: u64,
    /// Pairs of a connection and a path that it watches.
    pub watches: u64,
}

/// The answer to `ruok` (`RuokCommand`).
pub const RUOK: &str = "imok";

/// The answer to `crst` (`CnxnStatResetCommand`).
pub const CONNECTION_STATS_RESET: &str = "Connection stats reset.\n";

/// The answer to `srst` (`StatResetCommand`).
pub const SERVER_STATS_RESET: &str = "Server stats reset.\n";

/// The answer of a server that does not serve (`AbstractFourLetterCommand.ZK_NOT_SERVING`).
pub const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// The answer of a server that does not serve clients now, because it is starting or its ensemble
/// has no leader. `isro` answers `null` then: ZooKeeper's `IsroCommand` does not handle this case.
pub fn while_not_serving(word: Word, version: &str, conf: &ConfReport) -> String {
    match word {
        Word::Ruok => RUOK.to_string(),
        Word::Envi => environment(version, conf),
        Word::Isro => "null".to_string(),
        Word::TelnetClose => String::new(),
        _ => NOT_SERVING.to_string(),
    }
}

/// The answer to `conf`: the lines of the configuration, with the bytes of the snapshots behind
/// `dataDir` and those of the log behind `dataLogDir` (`ZooKeeperServer.dumpConf`), then the
/// servers (`QuorumZooKeeperServer.dumpConf`).
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

/// The answer to `envi` (`EnvCommand`).
pub fn environment(version: &str, conf: &ConfReport) -> String {
    let rest = key_values(&conf.environment);
    format!("Environment:\nzookeeper.version={version}\n{rest}")
}

/// The answer to `cons` (`ConsCommand`).
pub fn cons(server: &ServerReport) -> String {
    connections(server, false) + "\n"
}

/// The answer to `srvr` (`StatCommand` without the connections).
pub fn srvr(server: &ServerReport) -> String {
    format!("Zookeeper version: {}\n{}", server.version, brief(server))
}

/// The answer to `stat` (`StatCommand` with the connections).
pub fn stat(server: &ServerReport) -> String {
    format!(
        "Zookeeper version: {}\nClients:\n{}\n{}",
        server.version,
        connections(server, true),
        brief(server)
    )
}

/// The answer to `dirs` (`DirsCommand`).
pub fn dirs(data_bytes: u64, log_bytes: u64) -> String {
    format!("datadir_size: {data_bytes}\nlogdir_size: {log_bytes}\n")
}

/// The answer to `dump` (`DumpCommand`, `ExpiryQueue.dump`, `DataTree.dumpEphemerals`; on a
/// follower `LearnerSessionTracker.dumpSessions`).
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

/// Adds a line that says how many items are left out, if any. Lists are cut because an answer must
/// not grow without bound.
fn missing(count: u64, of: &str, text: &mut String) {
    if count > 0 {
        let _ = writeln!(text, "({count} more {of} are not shown)");
    }
}

/// The answer to `wchc`: watches by session (`WatchCommand`, `WatchManager.dumpWatches`).
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

/// The answer to `wchp`: watches by path (`WatchCommand`, `WatchManager.dumpWatches`).
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

/// The paths that each session watches. Sessions and paths are sorted and without duplicates.
pub fn paths_by_session(report: &WatchesReport) -> BTreeMap<i64, BTreeSet<&str>> {
    let mut found: BTreeMap<i64, BTreeSet<&str>> = BTreeMap::new();
    for (path, sessions) in &report.watches {
        for session in sessions {
            found.entry(*session).or_default().insert(path);
        }
    }
    found
}

/// The sessions that watch each path. Paths and sessions are sorted and without duplicates.
pub fn sessions_by_path(report: &WatchesReport) -> BTreeMap<&str, BTreeSet<i64>> {
    let mut found: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for (path, sessions) in report.watches.iter().filter(|(_, sessions)| !sessions.is_empty()) {
        found.entry(path).or_default().extend(sessions);
    }
    found
}

/// The answer to `wchs`: `WatchManager.toString`, and the line end that `WatchCommand` adds.
pub fn watch_summary(summary: &WatchSummary) -> String {
    let WatchSummary { connections, paths, watches } = summary;
    format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
}

/// The value of a metric of `mntr`.
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

/// `value` as Java prints a double, rounded to four decimals: `0.0`, `1.25`.
fn java_double(value: f64) -> String {
    let text = format!("{value:.4}");
    let trimmed = text.trim_end_matches('0');
    if trimmed.ends_with('.') { format!("{trimmed}0") } else { trimmed.to_string() }
}

/// The answer to `mntr` (`MonitorCommand`): a key and its number on each line. `peer_state` is
/// `None` for a standalone server.
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
    /// Appends the connection's line (`ServerCnxn.dumpConnectionInfo`). The number in brackets is 1
    /// for a client's connection and 0 for one that sent a four-letter word.
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
    // Counts in years that begin on 1 March, so that a leap day is the last day of its year, and in
    // eras of 400 such years.
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
