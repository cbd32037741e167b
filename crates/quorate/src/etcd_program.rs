//! The program under the name `etcd`: a link to this one, or `quorate etcd`. It takes etcd's own
//! flags, for scripts and test suites that start an etcd.
//!
//! Only the flags in [`FLAGS`] are known yet; another one is an error, as an unknown flag is in
//! etcd.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::{Exit, ServeArgs};
use crate::config::{GivenServers, ListenAddress};

/// The name of the program, and of the subcommand.
const NAME: &str = "etcd";

/// The flags, with the default of each (`embed/config.go`).
const FLAGS: [(&str, &str); 18] = [
    ("name", "default"),
    ("data-dir", ""),
    ("listen-client-urls", "http://localhost:2379"),
    ("advertise-client-urls", "http://localhost:2379"),
    ("listen-peer-urls", "http://localhost:2380"),
    ("initial-advertise-peer-urls", "http://localhost:2380"),
    ("initial-cluster", ""),
    ("initial-cluster-token", "etcd-cluster"),
    ("initial-cluster-state", "new"),
    ("quota-backend-bytes", "0"),
    ("max-txn-ops", "128"),
    ("auto-compaction-mode", "periodic"),
    ("auto-compaction-retention", "0"),
    ("watch-progress-notify-interval", "0"),
    ("grpc-keepalive-min-time", "5s"),
    ("grpc-keepalive-interval", "2h"),
    ("grpc-keepalive-timeout", "20s"),
    ("max-concurrent-streams", "0"),
];

/// The flags that are settings by the same names as in a configuration.
const SETTINGS: [&str; 9] = [
    "quota-backend-bytes",
    "max-txn-ops",
    "auto-compaction-mode",
    "auto-compaction-retention",
    "watch-progress-notify-interval",
    "grpc-keepalive-min-time",
    "grpc-keepalive-interval",
    "grpc-keepalive-timeout",
    "max-concurrent-streams",
];

/// The distance from a server's peer port to the port that stands for its elections, which nobody
/// listens on: `/zookeeper/config` shows one.
const ELECTION_PORT_DISTANCE: u16 = 20_000;

/// The options of `quorate serve` that mean what etcd's flags say, if the program was called by the
/// name of etcd.
pub fn parse(words: &[OsString]) -> Option<Result<ServeArgs, Exit>> {
    let is_named = |word: &OsString| Path::new(word).file_name().is_some_and(|name| name == NAME);
    let flags = match words {
        [program, flags @ ..] if is_named(program) => flags,
        [_, command, flags @ ..] if command == NAME => flags,
        _ => return None,
    };
    let texts: Option<Vec<&str>> = flags.iter().map(|word| word.to_str()).collect();
    Some(match texts {
        Some(texts) => serve_args(&texts),
        None => Err(Exit::Wrong("etcd: a flag is not UTF-8".to_string())),
    })
}

fn serve_args(texts: &[&str]) -> Result<ServeArgs, Exit> {
    let values = values(texts)?;
    let value = |name: &str| {
        let at =
            FLAGS.iter().position(|(known, _)| *known == name).expect("the flag is in the table");
        values[at].as_str()
    };
    let name = value("name");
    let data_dir = match value("data-dir") {
        "" => PathBuf::from(format!("{name}.etcd")),
        dir => PathBuf::from(dir),
    };
    let client = first_address("listen-client-urls", value("listen-client-urls"))?;
    let given_servers = given_servers(name, value("initial-cluster"))?;
    Ok(ServeArgs {
        data_dir: Some(data_dir),
        etcd_addr: Some(client),
        is_etcd: true,
        etcd_settings: SETTINGS.map(|flag| (flag, value(flag).to_string())).into(),
        given_servers,
        ..ServeArgs::default()
    })
}

/// The value of each flag in [`FLAGS`], in their order.
fn values(texts: &[&str]) -> Result<Vec<String>, Exit> {
    let mut values: Vec<String> = FLAGS.iter().map(|(_, default)| default.to_string()).collect();
    let mut texts = texts.iter();
    while let Some(text) = texts.next() {
        let flag = text.strip_prefix("--").or_else(|| text.strip_prefix('-'));
        let flag = flag.ok_or_else(|| wrong(format!("'{text}' is not a valid flag")))?;
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        match name {
            "version" => return Err(Exit::Help(version())),
            "help" | "h" => return Err(Exit::Help(help())),
            _ => {}
        }
        let at = FLAGS.iter().position(|(known, _)| *known == name);
        let at = at.ok_or_else(|| wrong(format!("flag provided but not defined: -{name}")))?;
        let value = value.or_else(|| texts.next().copied());
        let missing = || wrong(format!("flag needs an argument: -{name}"));
        values[at] = value.ok_or_else(missing)?.to_string();
    }
    Ok(values)
}

fn wrong(text: String) -> Exit {
    Exit::Wrong(format!("etcd: {text}"))
}

/// The text that programs look for a version in: they read the first line.
fn version() -> String {
    let (etcd, own) = (crate::listen_etcd::ETCD_VERSION, env!("CARGO_PKG_VERSION"));
    format!("etcd Version: {etcd}\nQuorate Version: {own}\n")
}

fn help() -> String {
    let mut text = "Usage: etcd [flags]\n\nQuorate under etcd's flags:\n".to_string();
    for (name, default) in FLAGS {
        text += &format!("  --{name} '{default}'\n");
    }
    text + "  --version\n  --help\n"
}

/// The address of the first of some URLs. TLS is not served under this name yet.
fn first_address(flag: &str, urls: &str) -> Result<ListenAddress, Exit> {
    let url = urls.split(',').next().unwrap_or_default();
    let text =
        address_of(url).ok_or_else(|| wrong(format!("--{flag}: {url:?} is no http:// URL")))?;
    // A host that is no address is a name, as for our own option.
    text.parse().map_err(|cause| wrong(format!("--{flag}: {cause}")))
}

fn address_of(url: &str) -> Option<&str> {
    url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'))
}

/// The servers of `name=url,name=url,...`, numbered from 1 in the order of their names, so that all
/// servers number them alike. None for a single server.
fn given_servers(name: &str, list: &str) -> Result<Option<GivenServers>, Exit> {
    let mut members = Vec::new();
    for member in list.split(',').filter(|member| !member.is_empty()) {
        let parts = member.split_once('=');
        let address = parts.and_then(|(name, url)| Some((name, address_of(url)?)));
        let malformed = || {
            wrong(format!("--initial-cluster: {member:?} is not of the form name=http://host:port"))
        };
        members.push(address.ok_or_else(malformed)?);
    }
    if members.len() < 2 {
        return Ok(None);
    }
    members.sort_unstable();
    let own = members.iter().position(|(other, _)| *other == name);
    let own = own.ok_or_else(|| {
        wrong(format!("--initial-cluster does not hold {name:?}, the name of this server"))
    })?;
    let servers = (1..).zip(&members).map(|(number, (_, address))| {
        let line = server_line(address).ok_or_else(|| {
            wrong(format!("--initial-cluster: {address:?} has no port that can be dialled"))
        });
        line.map(|line| (number, line))
    });
    Ok(Some(GivenServers { own: own as u32 + 1, servers: servers.collect::<Result<_, _>>()? }))
}

/// The address of a server in the form of a `server.N` line.
fn server_line(address: &str) -> Option<String> {
    let port: u16 = address.rsplit_once(':')?.1.parse().ok()?;
    let election = port.checked_add(ELECTION_PORT_DISTANCE);
    let election = election.unwrap_or_else(|| port - ELECTION_PORT_DISTANCE);
    Some(format!("{address}:{election}"))
}

#[cfg(test)]
mod tests;
