//! Formats answers, errors and events: as text like `zkCli.sh` (the `*Command` classes of
//! `org.apache.zookeeper.cli` and `StatPrinter`, 3.9.5), or as JSON. Pure.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};
use zk::ErrorCode;
use zk::{AclEntry, Stat};

use super::command::{Form, PERMISSIONS, USAGES, Usage};
use super::quota::Track;
use crate::client::{ClientError, Event};

/// The answer of a command. An optional stat is shown behind the rest.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// Success, and nothing to show.
    Nothing,
    /// One line of text; in JSON it is the value of this key.
    Line(&'static str, String),
    /// The path of a new znode.
    Created(String),
    /// The names of a znode's children.
    Names(Vec<String>, Option<Stat>),
    /// The data of a znode, and the form in which to show it.
    Data(Option<Vec<u8>>, Form, Option<Stat>),
    /// The configuration of an ensemble. The line in front of it is shown in text form only.
    Config(Option<&'static str>, String, Option<Stat>),
    /// The stat of a znode.
    Stat(Stat),
    /// The ACL of a znode.
    Acl(Vec<AclEntry>, Option<Stat>),
    /// A count.
    Count(i64),
    /// Paths of the session's ephemeral znodes.
    Ephemerals(Vec<String>),
    /// Scheme and user of each identity.
    Identities(Vec<(String, String)>),
    /// A path, its limits, and what is used below it.
    Quota(String, Track, Track),
    /// Commands of the history with their numbers.
    History(Vec<(usize, String)>),
    /// Names of commands to describe.
    Help(Vec<&'static str>),
}

/// An answer as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The text for standard output.
    pub out: String,
    /// The text for standard error.
    pub err: String,
}

/// An answer as `zkCli.sh` prints it. The path of a new znode goes to standard error.
pub fn plain(answer: &Answer) -> Shown {
    let mut shown = Shown::default();
    let out = &mut shown.out;
    let done = match answer {
        Answer::Nothing => Ok(()),
        Answer::Line(_, line) => writeln!(out, "{}", printable(line)),
        Answer::Created(path) => writeln!(shown.err, "Created {path}"),
        Answer::Names(names, own) => {
            out.push_str(&format!("[{}]\n", names.join(", ")));
            optional_stat(own, out)
        }
        Answer::Data(data, form, own) => {
            data_text(data.as_deref(), *form, &mut shown);
            optional_stat(own, &mut shown.out)
        }
        Answer::Config(head, text, own) => {
            head.iter().for_each(|head| out.push_str(&format!("{head}\n")));
            out.push_str(&format!("{}\n", printable(text)));
            optional_stat(own, out)
        }
        Answer::Stat(own) => optional_stat(&Some(*own), out),
        Answer::Acl(entries, own) => {
            entries.iter().for_each(|entry| out.push_str(&acl_entry(entry)));
            optional_stat(own, out)
        }
        Answer::Count(count) => writeln!(out, "{count}"),
        Answer::Ephemerals(paths) => writeln!(out, "[{}]", paths.join(", ")),
        Answer::Identities(identities) => {
            out.push_str("Auth scheme: User\n");
            identities.iter().try_for_each(|(scheme, user)| {
                writeln!(out, "{}: {}", printable(scheme), printable(user))
            })
        }
        Answer::Quota(path, limits, stats) => {
            writeln!(out, "Output quota for {path} {limits}\nOutput stat for {path} {stats}")
        }
        Answer::History(lines) => {
            lines.iter().try_for_each(|(index, line)| writeln!(out, "{index} - {line}"))
        }
        Answer::Help(names) => write!(out, "{}", help(names)),
    };
    done.expect("text can be written to");
    shown
}

fn help(names: &[&'static str]) -> String {
    let usages = || USAGES.iter().filter(|usage| names.contains(&usage.name));
    let form = |usage: &Usage| format!("{} {}", usage.name, usage.arguments);
    // A long form is not aligned, so that it does not push the others to the right.
    let width = usages().map(form).map(|form| form.len()).filter(|len| *len <= 48).max();
    let width = width.unwrap_or(0);
    usages().map(|usage| format!("{:width$}  {}\n", form(usage), usage.meaning)).collect()
}

/// The fields of an answer as a JSON object.
pub fn fields(answer: &Answer) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        fields.insert(name.to_string(), value);
    };
    let own = match answer {
        Answer::Names(_, own)
        | Answer::Data(_, _, own)
        | Answer::Config(_, _, own)
        | Answer::Acl(_, own) => own.as_ref(),
        Answer::Stat(own) => Some(own),
        _ => None,
    };
    if let Some(own) = own {
        put("stat", stat_value(own));
    }
    match answer {
        Answer::Nothing | Answer::Stat(_) => {}
        Answer::Line(name, line) => put(name, json!(line)),
        Answer::Created(path) => put("created", json!(path)),
        Answer::Names(names, _) => put("children", json!(names)),
        Answer::Data(data, form, _) => match data.as_deref().map(std::str::from_utf8) {
            None => put("data", Value::Null),
            Some(Ok(text)) if *form == Form::Text => put("data", json!(text)),
            _ => put("data_base64", json!(BASE64.encode(data.as_deref().unwrap_or_default()))),
        },
        Answer::Config(_, text, _) => put("config", json!(text)),
        Answer::Acl(entries, _) => {
            let entry = |entry: &AclEntry| {
                let perms = permissions(entry.perms);
                json!({ "scheme": &*entry.scheme, "id": &*entry.id, "perms": perms })
            };
            put("acl", entries.iter().map(entry).collect());
        }
        Answer::Count(count) => put("count", json!(count)),
        Answer::Ephemerals(paths) => put("ephemerals", json!(paths)),
        Answer::Identities(identities) => {
            let identity =
                |(scheme, user): &(String, String)| json!({"scheme": scheme, "user": user});
            put("identities", identities.iter().map(identity).collect());
        }
        Answer::Quota(_, limits, stats) => {
            put("limits", json!(limits.values()));
            put("used", json!(stats.values()));
        }
        Answer::History(lines) => {
            let line = |(index, line): &(usize, String)| json!({"number": index, "line": line});
            put("commands", lines.iter().map(line).collect());
        }
        Answer::Help(names) => {
            let usage = |usage: &Usage| {
                let (arguments, meaning) = (usage.arguments, usage.meaning);
                json!({ "name": usage.name, "arguments": arguments, "meaning": meaning })
            };
            let usages = USAGES.iter().filter(|usage| names.contains(&usage.name));
            put("commands", usages.map(usage).collect());
        }
    }
    fields
}

/// Data and a newline. In the form `Text`, data that is not printable text is shown as a dump.
fn data_text(data: Option<&[u8]>, form: Form, shown: &mut Shown) {
    // As in `GetCommand`, null data is shown like the text "null".
    let bytes = data.unwrap_or(b"null");
    match (form, std::str::from_utf8(bytes)) {
        (Form::Base64, _) => shown.out = BASE64.encode(bytes) + "\n",
        (Form::Text, Ok(text)) if text.chars().all(is_printable) => {
            shown.out = format!("{text}\n");
        }
        (Form::Text, _) => {
            let count = bytes.len();
            shown.err = format!("{count} bytes that are no text; -b gives them as base64\n");
            shown.out = dump(bytes);
        }
        (Form::Hex, _) => shown.out = dump(bytes),
    }
}

fn is_printable(character: char) -> bool {
    !character.is_control() || matches!(character, '\n' | '\t' | '\r')
}

/// Text from a server, with the characters escaped that could control a terminal.
pub fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match is_printable(character) {
            true => safe.push(character),
            false => safe.extend(character.escape_default()),
        }
    }
    safe
}

/// How many bytes a line of a dump shows.
const DUMP_BYTES: usize = 16;

/// A dump of bytes: offset, bytes and characters of each line, in the frame that `zkCli.sh` draws
/// (Netty's `ByteBufUtil.prettyHexDump`).
fn dump(bytes: &[u8]) -> String {
    let rule = format!("+--------+{}+----------------+\n", "-".repeat(49));
    let head = format!("         +{}+\n", "-".repeat(49));
    let numbers: String = (0..DUMP_BYTES).map(|index| format!("  {index:x}")).collect();
    let mut text = format!("{head}         |{numbers} |\n{rule}");
    if bytes.is_empty() {
        return "\n".to_string();
    }
    for (index, line) in bytes.chunks(DUMP_BYTES).enumerate() {
        let hex: String = line.iter().map(|byte| format!(" {byte:02x}")).collect();
        let shown: String = line
            .iter()
            .map(|&byte| if (b' '..=b'~').contains(&byte) { char::from(byte) } else { '.' })
            .collect();
        let offset = index * DUMP_BYTES;
        text += &format!("|{offset:08x}|{hex:48} |{shown:DUMP_BYTES$}|\n");
    }
    text + &rule
}

fn optional_stat(own: &Option<Stat>, out: &mut String) -> std::fmt::Result {
    let Some(own) = own else { return Ok(()) };
    writeln!(out, "cZxid = {:#x}", own.czxid)?;
    writeln!(out, "ctime = {}", java_date(own.ctime))?;
    writeln!(out, "mZxid = {:#x}", own.mzxid)?;
    writeln!(out, "mtime = {}", java_date(own.mtime))?;
    writeln!(out, "pZxid = {:#x}", own.pzxid)?;
    writeln!(out, "cversion = {}", own.cversion)?;
    writeln!(out, "dataVersion = {}", own.version)?;
    writeln!(out, "aclVersion = {}", own.aversion)?;
    writeln!(out, "ephemeralOwner = {:#x}", own.ephemeral_owner)?;
    writeln!(out, "dataLength = {}", own.data_bytes)?;
    writeln!(out, "numChildren = {}", own.child_count)
}

/// The fields of `Stat` in `zookeeper.jute`. Zxids and session ids are text, because some JSON
/// readers cannot hold such large numbers.
fn stat_value(own: &Stat) -> Value {
    json!({
        "czxid": format!("{:#x}", own.czxid),
        "mzxid": format!("{:#x}", own.mzxid),
        "ctime": own.ctime,
        "mtime": own.mtime,
        "version": own.version,
        "cversion": own.cversion,
        "aversion": own.aversion,
        "ephemeralOwner": format!("{:#x}", own.ephemeral_owner),
        "dataLength": own.data_bytes,
        "numChildren": own.child_count,
        "pzxid": format!("{:#x}", own.pzxid),
    })
}

/// An entry of an ACL (`GetAclCommand`): the id as jute prints it, and the permissions on the next
/// line.
fn acl_entry(entry: &AclEntry) -> String {
    let (scheme, id) = (printable(&entry.scheme), printable(&entry.id));
    format!("'{scheme},'{id}\n: {}\n", permissions(entry.perms))
}

fn permissions(perms: u32) -> String {
    PERMISSIONS.iter().filter(|(_, bit)| perms & bit != 0).map(|(letter, _)| *letter).collect()
}

/// The text of an error, as in `CliWrapperException`. `path` is the path of the request.
pub fn error_text(error: &ClientError, path: Option<&str>) -> String {
    let ClientError::Refused(code) = error else { return error.to_string() };
    let said = match code.0 {
        -8 => "Arguments are not valid : ",
        -101 => "Node does not exist: ",
        -102 => "Insufficient permission : ",
        -103 => "version No is not valid : ",
        -108 => "Ephemerals cannot have children: ",
        -110 => "Node already exists: ",
        -111 => "Node not empty: ",
        -114 => "Acl is not valid : ",
        -119 => "Not a read-only call: ",
        -125 => "Quota has exceeded : ",
        -14 => return "Another reconfiguration is in progress".to_string(),
        -13 => {
            return "No quorum of the new configuration is connected and up-to-date: \
                    try again when its servers are"
                .to_string();
        }
        _ => {
            let of = path.map(|path| format!(" for {path}")).unwrap_or_default();
            return format!("KeeperErrorCode = {}{of}", code_name(*code));
        }
    };
    format!("{said}{}", path.unwrap_or("null"))
}

/// The name of an error code (`KeeperException.getCodeMessage`).
pub fn code_name(code: ErrorCode) -> String {
    let name = match code.0 {
        -1 => "SystemError",
        -2 => "RuntimeInconsistency",
        -3 => "DataInconsistency",
        -4 => "ConnectionLoss",
        -5 => "MarshallingError",
        -6 => "Unimplemented",
        -7 => "OperationTimeout",
        -8 => "BadArguments",
        -13 => "NewConfigNoQuorum",
        -14 => "ReconfigInProgress",
        -101 => "NoNode",
        -102 => "NoAuth",
        -103 => "BadVersion",
        -108 => "NoChildrenForEphemerals",
        -110 => "NodeExists",
        -111 => "Directory not empty",
        -112 => "Session expired",
        -114 => "InvalidACL",
        -115 => "AuthFailed",
        -118 => "Session moved",
        -119 => "Not a read-only call",
        -120 => "Ephemeral node on local session",
        -121 => "No such watcher",
        -123 => "Reconfig is disabled",
        -124 => "Session closed because client failed to authenticate",
        -125 => "Quota has exceeded",
        -127 => "Op throttled due to high load",
        other => return format!("Unknown error {other}"),
    };
    name.to_string()
}

/// A failure as JSON: its text, and the code if the server refused the request.
pub fn error_value(error: Option<&ClientError>, text: &str) -> Value {
    match error {
        Some(ClientError::Refused(code)) => {
            json!({ "code": code.0, "name": code_name(*code), "message": text })
        }
        _ => json!({ "message": text }),
    }
}

/// The name of an event's type (`Watcher.Event.EventType`).
fn event_type(number: i32) -> String {
    let name = match number {
        -1 => "None",
        1 => "NodeCreated",
        2 => "NodeDeleted",
        3 => "NodeDataChanged",
        4 => "NodeChildrenChanged",
        5 => "DataWatchRemoved",
        6 => "ChildWatchRemoved",
        7 => "PersistentWatchRemoved",
        other => return other.to_string(),
    };
    name.to_string()
}

/// The name of an event's state (`Watcher.Event.KeeperState`).
fn event_state(number: i32) -> String {
    let name = match number {
        0 => "Disconnected",
        3 => "SyncConnected",
        4 => "AuthFailed",
        5 => "ConnectedReadOnly",
        6 => "SaslAuthenticated",
        7 => "Closed",
        -112 => "Expired",
        other => return other.to_string(),
    };
    name.to_string()
}

/// The text of an event. A watch that fired is printed like `ZooKeeperMain` does
/// (`WatchedEvent.toString`), a change of the connection as a sentence.
pub fn event_text(event: &Event) -> String {
    match event {
        Event::Watch { event_type: kind, state, path, zxid } => {
            let (state, kind) = (event_state(*state), event_type(*kind));
            let path = printable(path);
            format!(
                "\nWATCHER::\n\nWatchedEvent state:{state} type:{kind} path:{path} zxid: {zxid}\n"
            )
        }
        _ => format!("{}\n", connection_text(event)),
    }
}

fn connection_text(event: &Event) -> String {
    match event {
        Event::Watch { .. } => String::new(),
        Event::Connected { server, session, again, read_only, watch_count } => {
            let mut text = format!("connected to {server}, session {session:#x}");
            if *again {
                text += " again";
            }
            if *watch_count > 0 {
                text += &format!(", {watch_count} watches are set again");
            }
            if *read_only {
                text += "; it is cut off from its ensemble and can only be read from";
            }
            text
        }
        Event::Lost { server, reason } => {
            format!("the connection to {server} was lost ({reason}); trying again")
        }
        Event::Expired => ClientError::Expired.to_string(),
        Event::WatchesLost(code) => {
            format!("the watches could not be set again: {}", code_name(*code))
        }
    }
}

/// An event as a JSON object.
pub fn event_value(event: &Event) -> Value {
    let message = connection_text(event);
    match event {
        Event::Watch { event_type: kind, state, path, zxid } => {
            let (event, state) = (event_type(*kind), event_state(*state));
            json!({ "event": event, "state": state, "path": path, "zxid": zxid })
        }
        Event::Connected { server, session, again, read_only, .. } => {
            let state = if *read_only { "ConnectedReadOnly" } else { "SyncConnected" };
            json!({
                "event": "None", "state": state, "server": server, "again": again,
                "session": format!("{session:#x}"), "message": message,
            })
        }
        Event::Lost { server, .. } => {
            json!({ "event": "None", "state": "Disconnected", "server": server, "message": message })
        }
        Event::Expired => json!({ "event": "None", "state": "Expired", "message": message }),
        Event::WatchesLost(_) => json!({ "event": "None", "message": message }),
    }
}

/// The year, month and day that is this many days after 1970-01-01 (Howard Hinnant,
/// `chrono`-Compatible Low-Level Date Algorithms, `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A time in ms since 1970, in UTC, as `java.util.Date.toString` prints it.
fn java_date(ms: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000) / 1_000);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (in_day / 3_600, in_day / 60 % 60, in_day % 60);
    let week_day = DAYS[days.rem_euclid(7) as usize];
    let month = MONTHS[month as usize - 1];
    format!("{week_day} {month} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year:04}")
}

/// A time in ms since 1970, in UTC, as in ISO 8601.
pub fn time(ms: i64) -> String {
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, ms) = (in_day / 1_000 % 60, in_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The text of `config -c`: the version of a configuration, and the address for clients of each
/// server (`ConfigUtils.getClientConfigStr`). In a `server.N` line that address is
/// `...;[host:]port`.
pub fn client_addresses(config: &str) -> String {
    let lines = || config.lines().filter_map(|line| line.split_once('='));
    let version = lines().find(|(key, _)| key.trim() == "version").map_or("", |(_, value)| value);
    let address = |(key, value): (&str, &str)| {
        key.trim().starts_with("server.").then_some(())?;
        let (_, client) = value.rsplit_once(';')?;
        let client = client.trim();
        let port_only = client.bytes().all(|byte| byte.is_ascii_digit());
        Some(if port_only { format!("0.0.0.0:{client}") } else { client.to_string() })
    };
    let addresses: Vec<String> = lines().filter_map(address).collect();
    format!("{} {}", version.trim(), addresses.join(","))
}

#[cfg(test)]
mod tests;
