//! Rewrites a `zoo.cfg` and its dynamic file after the servers were changed while the ensemble ran,
//! so that the file names the present servers at the next start, and in ZooKeeper
//! (`QuorumPeerConfig.writeDynamicConfig` and `editStaticConfig`, 3.9).

use machine::ServerList;
use zk::files::properties::{join_lines, lines, split_entry, unescape};

/// The text of a dynamic file with these servers. Its version is in its name.
pub fn dynamic_file(list: &ServerList) -> String {
    let text = list.zk_text().unwrap_or_default();
    let servers = text.lines().filter(|line| line.starts_with("server."));
    servers.map(|line| format!("{line}\n")).collect()
}

/// The name of the dynamic file beside a `zoo.cfg` for a list of this version.
pub fn dynamic_name(zoo_cfg: &str, version: u64) -> String {
    format!("{zoo_cfg}.dynamic.{version:x}")
}

/// The text of a `zoo.cfg` that takes its servers from a dynamic file. `has_clients` is whether the
/// own line in that file has the port for clients, which the `zoo.cfg` then must not have. All
/// other lines stay as they are.
pub fn zoo_cfg(text: &str, dynamic_name: &str, has_clients: bool) -> String {
    let mut rewritten = String::with_capacity(text.len());
    let mut lines = lines(text);
    while let Some(line) = lines.next() {
        let mut written = vec![line];
        let entry = line.trim_start();
        if !entry.is_empty() && !entry.starts_with(['#', '!']) {
            let logical = join_lines(line, lines.by_ref().inspect(|next| written.push(*next)));
            let escaped = split_entry(&logical).0;
            let key = unescape(escaped).unwrap_or_else(|_| escaped.to_string());
            if is_of_list(&key, has_clients) {
                continue;
            }
        }
        written.into_iter().for_each(|line| rewritten.extend([line, "\n"]));
    }
    let name: String = dynamic_name
        .chars()
        .flat_map(|it| (it == '\\').then_some('\\').into_iter().chain([it]))
        .collect();
    rewritten + "dynamicConfigFile=" + &name + "\n"
}

/// Whether a key belongs to the list of servers, or to the own server's line in it.
fn is_of_list(key: &str, has_clients: bool) -> bool {
    let of_list = ["server.", "group", "weight", "dynamicConfigFile", "peerType"];
    of_list.iter().any(|start| key.starts_with(start))
        || (has_clients && ["clientPort", "clientPortAddress"].contains(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_goes_to_the_dynamic_file_and_all_else_stays() {
        let text = "# servers\ntickTime=2000\nserver.1=a:1:2\nserver.2 = \\\n  b:1:2\n\
                    clientPort=2181\nclientPortListenBacklog=9\n\n!peerType=observer\n\
                    peerType=participant\nweight.1=3\nserverx=1\n   dynamicConfigFile=old\n";
        let without = "# servers\ntickTime=2000\nclientPortListenBacklog=9\n\n\
                       !peerType=observer\nserverx=1\ndynamicConfigFile=z.cfg.dynamic.1f\n";
        assert_eq!(zoo_cfg(text, &dynamic_name("z.cfg", 31), true), without);
        let with = without.replace("clientPortL", "clientPort=2181\nclientPortL");
        assert_eq!(zoo_cfg(text, "z.cfg.dynamic.1f", false), with);
        assert_eq!(zoo_cfg(without, "z.cfg.dynamic.1f", true), without, "twice is as once");
    }
}
