//! Bodies for the lists of servers in files: the dynamic file beside a `zoo.cfg`, and the list that
//! a data directory keeps under etcd's name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use config::{ClusterConfig, Env, GivenServers, ServeArgs, etcd_program, rewritten};
use machine::{ServerList, ServerRecord};

use super::of_storage::servers_content;

const ZOO_CFG: &str = "dataDir=/d\nstandaloneEnabled=false\nreconfigEnabled=true\n\
                       quorate.levelMax=5\ndynamicConfigFile=/c/dyn.7\n";

/// A dynamic file. If a server starts with it, the file that the server writes for the same list
/// must give the same list again.
pub fn dynamic_file(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let loaded = [true, false]
        .into_iter()
        .find_map(|has_clients| with_dynamic_file(text, 1, has_clients).ok()?);
    let Some(cluster) = loaded else { return };
    assert_dynamic_file_is_faithful(&cluster.server_list());
}

/// Writes the dynamic file of a list, and reads it as each server of the list would at its start.
pub fn assert_dynamic_file_is_faithful(list: &ServerList) {
    let text = rewritten::dynamic_file(list);
    for (number, record) in &list.servers {
        let has_clients = record.zk.as_ref().is_some_and(|zk| zk.clients.is_some());
        let cluster = match with_dynamic_file(&text, *number, has_clients) {
            Ok(cluster) => cluster.expect("the servers are an ensemble"),
            Err(error) => panic!("{text}: {error}"),
        };
        // The list of a configuration may name another host for clients: one that means every
        // address is written in several ways.
        let shown = |list: &ServerList| -> Vec<_> {
            let servers = list.servers.iter();
            let zk = |it: &ServerRecord| it.zk.as_ref().map(|zk| zk.servers.clone());
            servers.map(|(number, it)| (*number, it.role, zk(it))).collect()
        };
        assert_eq!(shown(&cluster.server_list()), shown(list), "{text}");
    }
}

/// The ensemble of the server with this number, whose dynamic file has this text. `has_clients`:
/// that file has the address for its clients.
fn with_dynamic_file(
    text: &str,
    own: u64,
    has_clients: bool,
) -> Result<Option<ClusterConfig>, String> {
    let client_port = if has_clients { "" } else { "clientPort=9\n" };
    let read = |path: &Path| {
        Ok(match path.to_str() {
            Some("/c/zoo.cfg") => Some(format!("{ZOO_CFG}{client_port}")),
            Some("/c/dyn.7") => Some(text.to_string()),
            Some("/d/myid") => Some(own.to_string()),
            _ => None,
        })
    };
    let args = ServeArgs { config: Some("/c/zoo.cfg".into()), ..ServeArgs::default() };
    let loaded = config::load_from(&args, &Env::default(), &read);
    loaded.map(|(config, _)| config.cluster).map_err(|error| error.to_string())
}

/// The list that a data directory keeps, without its checksum. If a server starts with it, the
/// list that the server writes must give the same servers again.
pub fn kept_servers(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Some((given, cluster)) = with_kept(text) else { return };
    let written = etcd_program::text_of_list(u64::from(given.own), &cluster.server_list());
    assert_eq!(written, etcd_program::text_of_servers(Some(&cluster)));
    let Some((_, again)) = with_kept(&written) else { panic!("{written}") };
    assert_eq!(again.number, given.own);
    assert_eq!(again.server_list(), cluster.server_list());
}

/// The ensemble of a server whose data directory keeps this text; `None` if it has none, or does
/// not start.
fn with_kept(text: &str) -> Option<(GivenServers, ClusterConfig)> {
    let read = |path: &Path| Ok((path == Path::new("/d/servers")).then(|| servers_content(text)));
    let words = ["etcd", "--data-dir=/d"].map(OsString::from);
    let args = etcd_program::parse(&words, &BTreeMap::new(), &read)?.ok()?;
    let given = args.etcd.as_ref()?.cluster.clone()?;
    let (config, _) = config::load_from(&args, &Env::default(), &read).ok()?;
    Some((given, config.cluster?))
}

pub fn dynamic_file_seeds() -> Vec<Vec<u8>> {
    [
        "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:observer\n",
        "server.1=[::1]:1:2;[::2]:3\nserver.4=a.b:4:5:observer;h:6\nserver.5=a.b:6:7;8\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

pub fn kept_servers_seeds() -> Vec<Vec<u8>> {
    [
        "quorate servers 1\nown 0\n",
        "quorate servers 1\nown 2\nserver 1 http://a:1 x\nserver 2 http://[::1]:2380 own name\n\
         server 9 http://b:1 \n",
        "quorate servers 1\nown 1\nserver 1 http://a:1 x\nserver 2 https://b:1 y\n\
         server 3 unix://c \n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
