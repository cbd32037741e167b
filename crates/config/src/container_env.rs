//! The environment variables of ZooKeeper's container image (`ZOO_*`). Its entry point makes a
//! `zoo.cfg` of them if none is mounted (`docker-entrypoint.sh` of the official image, 3.9). Here
//! each variable is applied like its key of `zoo.cfg`, and an error names the variable.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::draft::Draft;
use super::report::{ConfigError, Place};
use super::storage::DATA_DIR_DEFAULT;
use super::zoo_cfg;

/// The variables of one environment, by name.
pub type ContainerEnv = BTreeMap<String, String>;

/// Variables that set one key each, with that key.
const KEYS: [(&str, &str); 11] = [
    ("ZOO_DATA_DIR", "dataDir"),
    ("ZOO_DATA_LOG_DIR", "dataLogDir"),
    ("ZOO_TICK_TIME", "tickTime"),
    ("ZOO_INIT_LIMIT", "initLimit"),
    ("ZOO_SYNC_LIMIT", "syncLimit"),
    ("ZOO_AUTOPURGE_SNAPRETAINCOUNT", "autopurge.snapRetainCount"),
    ("ZOO_AUTOPURGE_PURGEINTERVAL", "autopurge.purgeInterval"),
    ("ZOO_MAX_CLIENT_CNXNS", "maxClientCnxns"),
    ("ZOO_STANDALONE_ENABLED", "standaloneEnabled"),
    ("ZOO_ADMINSERVER_ENABLED", "admin.enableServer"),
    ("ZOO_4LW_COMMANDS_WHITELIST", "4lw.commands.whitelist"),
];

const SERVERS: &str = "ZOO_SERVERS";
/// The image's default for `ZOO_SERVERS`.
const SERVERS_DEFAULT: &str = "server.1=localhost:2888:3888;2181";
const EXTRA: &str = "ZOO_CFG_EXTRA";
const MY_ID: &str = "ZOO_MY_ID";
const MY_ID_DEFAULT: u64 = 1;

/// Whether a variable with this name is part of a configuration.
pub(super) fn is_one(name: &str) -> bool {
    KEYS.iter().any(|(variable, _)| *variable == name) || [SERVERS, EXTRA, MY_ID].contains(&name)
}

/// The path where a `zoo.cfg` may be mounted into the container. If it exists, it alone counts.
pub(super) fn mounted_file(env: &ContainerEnv) -> Option<PathBuf> {
    env.get("ZOO_CONF_DIR").map(|folder| PathBuf::from(folder).join("zoo.cfg"))
}

/// Applies the variables in the order of the entry point, so that later keys win.
pub(super) fn apply(draft: &mut Draft, env: &ContainerEnv) -> Result<(), ConfigError> {
    // The image's default is /data, a folder that the image creates.
    draft.storage.data_dir = Some(PathBuf::from(DATA_DIR_DEFAULT));
    for (variable, key) in KEYS {
        if let Some(value) = env.get(variable).filter(|value| !value.is_empty()) {
            zoo_cfg::apply_entry(draft, &Place::of(variable), key, value)?;
        }
    }
    let text = |variable: &str| env.get(variable).map(String::as_str).unwrap_or_default();
    let servers = Some(text(SERVERS)).filter(|servers| !servers.trim().is_empty());
    apply_entries(draft, SERVERS, servers.unwrap_or(SERVERS_DEFAULT))?;
    apply_entries(draft, EXTRA, text(EXTRA))?;
    let my_id = Some(text(MY_ID).trim()).filter(|my_id| !my_id.is_empty());
    let my_id = my_id.map(str::parse).transpose().map_err(|_| ConfigError::Malformed {
        place: Place::of(MY_ID),
        cause: format!("{:?} is not the number of a server", text(MY_ID)),
    })?;
    draft.cluster.own.number_default = Some((my_id.unwrap_or(MY_ID_DEFAULT), Place::of(MY_ID)));
    Ok(())
}

/// Applies a list of `key=value` pairs separated by white space.
fn apply_entries(draft: &mut Draft, variable: &str, text: &str) -> Result<(), ConfigError> {
    for entry in text.split_whitespace() {
        let place = Place::of(variable);
        let Some((key, value)) = entry.split_once('=') else {
            let cause = format!("{entry:?} is not of the form key=value");
            return Err(ConfigError::Malformed { place, cause });
        };
        zoo_cfg::apply_entry(draft, &place, key, value)?;
    }
    Ok(())
}
