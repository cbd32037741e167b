//! Four-letter words: sent raw instead of a frame's length, answered with text, then closed
//! (`FourLetterCommands` and `org.apache.zookeeper.server.command`, ZooKeeper 3.9.5).

use core::fmt::Write;

/// A word that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The configuration.
    Conf,
    /// Every connection, in full.
    Cons,
    /// The environment; clients learn the server's version from it.
    Envi,
    /// `rw` or `ro`.
    Isro,
    /// Key and value per line, for monitoring.
    Mntr,
    /// `imok`.
    Ruok,
    /// The server in brief.
    Srvr,
    /// The same with every connection in brief.
    Stat,
}

/// All words of ZooKeeper 3.9; those that are not answered yet are refused by name.
const KNOWN: [&str; 18] = [
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst",
    "srvr", "stat", "stmk", "wchc", "wchp", "wchs",
];

/// What the first four bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// A word that is answered.
    Word(Word),
    /// A word of ZooKeeper's that is not answered yet.
    Unserved(&'static str),
}

impl Word {
    /// Its four letters.
    pub fn name(self) -> &'static str {
        match self {
            Word::Conf => "conf",
            Word::Cons => "cons",
            Word::Envi => "envi",
            Word::Isro => "isro",
            Word::Mntr => "mntr",
            Word::Ruok => "ruok",
            Word::Srvr => "srvr",
            Word::Stat => "stat",
        }
    }
}

/// Recognises a word. Anything else is the length of a frame.
pub fn recognise(first: [u8; 4]) -> Option<Recognised> {
    let known = KNOWN.into_iter().find(|word| word.as_bytes() == first)?;
    let words = [
        Word::Conf,
        Word::Cons,
        Word::Envi,
        Word::Isro,
        Word::Mntr,
        Word::Ruok,
        Word::Srvr,
        Word::Stat,
    ];
    Some(match words.into_iter().find(|word| word.name() == known) {
        Some(word) => Recognised::Word(word),
        None => Recognised::Unserved(known),
    })
}

/// The answer to a word that the configuration does not allow.
pub fn not_allowed(word: &str) -> String {
    format!("{word} is not executed because it is not in the whitelist.\n")
}

/// One connection, as `stat` and `cons` show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionReport {
    /// `host:port`.
    pub peer: String,
    /// Requests not yet answered.
    pub outstanding: u64,
    /// Frames from the client.
    pub received: u64,
    /// Frames to the client.
    pub sent: u64,
    /// Its session, once there is one.
    pub session: Option<SessionReport>,
}

/// A connection's session, as `cons` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionReport {
    /// Session id.
    pub id: i64,
    /// Last operation, four letters or so.
    pub last_operation: &'static str,
    /// When the connection was made, ms since 1970.
    pub established_ms: i64,
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

/// Latencies of requests, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Of the last one.
    pub last_ms: u64,
    /// Shortest.
    pub min_ms: u64,
    /// Longest.
    pub max_ms: u64,
    /// Sum of all.
    pub total_ms: u64,
    /// How many.
    pub count: u64,
}

impl Latency {
    /// Counts one more.
    pub fn record(&mut self, ms: u64) {
        self.last_ms = ms;
        self.min_ms = if self.count == 0 { ms } else { self.min_ms.min(ms) };
        self.max_ms = self.max_ms.max(ms);
        self.total_ms += ms;
        self.count += 1;
    }

    /// Joins what two places counted.
    pub fn merge(&mut self, other: &Latency) {
        if other.count == 0 {
            return;
        }
        self.min_ms = if self.count == 0 { other.min_ms } else { self.min_ms.min(other.min_ms) };
        self.max_ms = self.max_ms.max(other.max_ms);
        self.total_ms += other.total_ms;
        self.count += other.count;
    }

    fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_ms as f64 / self.count as f64 }
    }
}

/// The server's numbers, as `srvr`, `stat` and `mntr` show them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// Name and version of this program.
    pub version: String,
    /// `standalone`, `leader`, `follower`, `observer`.
    pub mode: &'static str,
    /// Of all requests.
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
    /// Watches set.
    pub watch_count: u64,
    /// Ephemeral znodes.
    pub ephemeral_count: u64,
    /// Bytes of paths and data.
    pub data_bytes: u64,
    /// Sessions.
    pub session_count: u64,
    /// Time since the start.
    pub uptime_ms: u64,
    /// File descriptors in use and allowed, where the system tells.
    pub file_descriptors: Option<(u64, u64)>,
    /// Every connection.
    pub connections: Vec<ConnectionReport>,
}

/// What `conf` and `envi` show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfReport {
    /// Lines of `key=value`, in ZooKeeper's order.
    pub lines: Vec<(&'static str, String)>,
    /// Lines of `key=value` for `envi`, beside the version.
    pub environment: Vec<(&'static str, String)>,
}

/// The answer to a word.
pub fn answer(word: Word, server: &ServerReport, conf: &ConfReport) -> String {
    match word {
        Word::Ruok => "imok".to_string(),
        Word::Isro => "rw".to_string(),
        Word::Conf => key_values(&conf.lines),
        Word::Envi => {
            let version = &server.version;
            let rest = key_values(&conf.environment);
            format!("Environment:\nzookeeper.version={version}\n{rest}")
        }
        Word::Cons => connections(server, false) + "\n",
        Word::Srvr => format!("Zookeeper version: {}\n{}", server.version, brief(server)),
        Word::Stat => format!(
            "Zookeeper version: {}\nClients:\n{}\n{}",
            server.version,
            connections(server, true),
            brief(server)
        ),
        Word::Mntr => monitor(server),
    }
}

fn key_values(lines: &[(&'static str, String)]) -> String {
    lines.iter().fold(String::new(), |text, (key, value)| format!("{text}{key}={value}\n"))
}

fn brief(server: &ServerReport) -> String {
    let latency = &server.latency;
    format!(
        "Latency min/avg/max: {}/{}/{}\nReceived: {}\nSent: {}\nConnections: {}\n\
         Outstanding: {}\nZxid: {:#x}\nMode: {}\nNode count: {}\n",
        latency.min_ms,
        java_double(latency.average()),
        latency.max_ms,
        server.received,
        server.sent,
        server.connections.len(),
        server.outstanding,
        server.zxid,
        server.mode,
        server.znode_count,
    )
}

/// A double as Java prints it, to four decimals: `0.0`, `1.25`.
fn java_double(value: f64) -> String {
    let text = format!("{value:.4}");
    let trimmed = text.trim_end_matches('0');
    if trimmed.ends_with('.') { format!("{trimmed}0") } else { trimmed.to_string() }
}

fn connections(server: &ServerReport, brief: bool) -> String {
    let mut text = String::new();
    for connection in &server.connections {
        connection.print(brief, &mut text);
    }
    text
}

impl ConnectionReport {
    /// `ServerCnxn.dumpConnectionInfo`. The number in brackets is 1 for a connection with a
    /// session (being read) and 0 for one that asks a four-letter word.
    fn print(&self, brief: bool, text: &mut String) {
        let reading = u8::from(self.session.is_some());
        let _ = write!(
            text,
            " /{}[{reading}](queued={},recved={},sent={}",
            self.peer, self.outstanding, self.received, self.sent
        );
        if let Some(session) = self.session.as_ref().filter(|_| !brief) {
            let _ = write!(
                text,
                ",sid={:#x},lop={},est={},to={}",
                session.id, session.last_operation, session.established_ms, session.timeout_ms
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

fn monitor(server: &ServerReport) -> String {
    let latency = &server.latency;
    let mut lines: Vec<(&str, String)> = vec![
        ("version", server.version.clone()),
        ("server_state", server.mode.to_string()),
        ("avg_latency", java_double(latency.average())),
        ("max_latency", latency.max_ms.to_string()),
        ("min_latency", latency.min_ms.to_string()),
        ("packets_received", server.received.to_string()),
        ("packets_sent", server.sent.to_string()),
        ("num_alive_connections", server.connections.len().to_string()),
        ("outstanding_requests", server.outstanding.to_string()),
        ("znode_count", server.znode_count.to_string()),
        ("watch_count", server.watch_count.to_string()),
        ("ephemerals_count", server.ephemeral_count.to_string()),
        ("approximate_data_size", server.data_bytes.to_string()),
        ("global_sessions", server.session_count.to_string()),
        ("local_sessions", "0".to_string()),
        ("uptime", server.uptime_ms.to_string()),
    ];
    if let Some((open, max)) = server.file_descriptors {
        lines.push(("open_file_descriptor_count", open.to_string()));
        lines.push(("max_file_descriptor_count", max.to_string()));
    }
    lines.iter().fold(String::new(), |text, (key, value)| format!("{text}zk_{key}\t{value}\n"))
}

#[cfg(test)]
mod tests;
