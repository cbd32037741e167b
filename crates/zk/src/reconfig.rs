//! Reads the texts of a reconfig request as a change of the list of servers
//! (`PrepRequestProcessor.pRequest2Txn`, `OpCode.reconfig`, 3.9.5).

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use machine::control::list_change::{JoiningServer, ListChange};
use machine::limits::{HOST_BYTES_MAX, SERVER_TEXT_BYTES_MAX, SERVERS_MAX};
use machine::{ServerRole, ZkAddresses};

use crate::server_text::{ServerText, in_brackets};

/// The text has something else where the number of a server must be. ZooKeeper answers with a
/// marshalling error, without the checks that other requests get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotANumber;

/// The change that a request asks for. With `members` the list becomes exactly that one; otherwise
/// servers leave and join. A text without the right form is [`ListChange::Malformed`].
///
/// # Errors
/// A server's number is not a number.
pub fn list_change(
    joining: Option<&str>,
    leaving: Option<&str>,
    members: Option<&str>,
) -> Result<ListChange, NotANumber> {
    if let Some(members) = members {
        return Ok(whole(members).map_or(ListChange::Malformed, ListChange::Whole));
    }
    let parts = |text: Option<&str>| -> Vec<String> {
        let parts = text.unwrap_or_default().split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_string).collect()
    };
    let mut left = Vec::new();
    for number in parts(leaving) {
        left.push(number.parse::<i64>().map_err(|_| NotANumber)?);
    }
    let mut joined = BTreeMap::new();
    for server in parts(joining) {
        let Some((name, line)) = two_parts(&server) else { return Ok(ListChange::Malformed) };
        let number = name.rsplit_once('.').map_or(name, |(_, number)| number);
        let number: i64 = number.parse().map_err(|_| NotANumber)?;
        let server = joining_server(line).filter(|server| server.zk.clients.is_some());
        let (Ok(number), Some(server)) = (u32::try_from(number), server) else {
            return Ok(ListChange::Malformed);
        };
        joined.insert(u64::from(number), server);
    }
    if left.len().max(joined.len()) > SERVERS_MAX {
        return Ok(ListChange::Malformed);
    }
    // A server that the list cannot have leaves it without effect.
    let leaving = left.into_iter().filter_map(|number| u64::try_from(number).ok()).collect();
    Ok(ListChange::Incremental { leaving, joining: joined })
}

/// The parts around the only `=` (`StringUtils.split` drops empty parts).
fn two_parts(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.split('=').map(str::trim).filter(|part| !part.is_empty());
    let two = (parts.next()?, parts.next()?);
    parts.next().is_none().then_some(two)
}

/// The servers of a whole list, in lines or between commas; `None` if a line has another form
/// (`QuorumPeerConfig.parseDynamicConfig`).
fn whole(members: &str) -> Option<BTreeMap<u64, JoiningServer>> {
    let mut servers = BTreeMap::new();
    for line in members.split([',', '\n']).map(str::trim) {
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let (key, value) = line.split_once('=')?;
        match key.trim() {
            "version" => {}
            key => {
                let number: u32 = key.strip_prefix("server.")?.parse().ok()?;
                servers.insert(u64::from(number), joining_server(value.trim())?);
            }
        }
    }
    (!servers.is_empty() && servers.len() <= SERVERS_MAX).then_some(servers)
}

/// A server's role and its addresses, in the form in which the znode shows them.
fn joining_server(text: &str) -> Option<JoiningServer> {
    let line = ServerText::parse(text).ok()?;
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let (peer, election) = (port(line.peer_port)?, port(line.election_port)?);
    let role = match line.role.map(|role| role.trim().to_ascii_lowercase()).as_deref() {
        None | Some("participant") => ServerRole::Voter,
        Some("observer") => ServerRole::Observer,
        Some(_) => return None,
    };
    let clients = match line.client {
        None => None,
        Some(client) => {
            let (host, client) = client.rsplit_once(':').unwrap_or(("0.0.0.0", client));
            let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
            if !is_host(host) {
                return None;
            }
            Some(format!("{}:{}", in_brackets(host), port(client)?))
        }
    };
    let servers = format!("{}:{peer}:{election}", in_brackets(line.host));
    let is_good = peer != election && is_host(line.host);
    is_good.then_some(JoiningServer { role, zk: ZkAddresses { servers, clients } })
}

/// Whether this is a host name or an IP address. Each server writes the list into its file, and
/// must be able to start with it.
fn is_host(host: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "-._".contains(c);
    let is_name = (1..=HOST_BYTES_MAX).contains(&host.len()) && host.chars().all(is_part);
    is_name || host.parse::<Ipv6Addr>().is_ok()
}

// A record of a server has room for a host with a scheme and two ports.
const _: () =
    assert!("https://".len() + HOST_BYTES_MAX + 2 * ":65535".len() < SERVER_TEXT_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(change: Result<ListChange, NotANumber>) -> String {
        let servers = |all: BTreeMap<u64, JoiningServer>| -> Vec<String> {
            let shown = |(number, it): (u64, JoiningServer)| {
                let clients = it.zk.clients.map(|it| format!(";{it}")).unwrap_or_default();
                format!("{number}={}:{}{clients}", it.zk.servers, it.role.zk_name())
            };
            all.into_iter().map(shown).collect()
        };
        match change {
            Ok(ListChange::Incremental { leaving, joining }) => {
                format!("-{leaving:?} +{:?}", servers(joining))
            }
            Ok(ListChange::Whole(all)) => format!("{:?}", servers(all)),
            Ok(ListChange::Malformed) => "malformed".to_string(),
            other => format!("{other:?}"),
        }
    }

    fn incremental(joining: &str, leaving: &str) -> String {
        shown(list_change(Some(joining), Some(leaving), None))
    }

    #[test]
    fn servers_join_and_leave() {
        let joined = incremental("server.4=h:1:2;3, server.5 = h:4:5:OBSERVER;x:6 ", "1,2");
        let expected = r#"-[1, 2] +["4=h:1:2:participant;0.0.0.0:3", "5=h:4:5:observer;x:6"]"#;
        assert_eq!(joined, expected);
        let six = incremental("6=[::1]:1:2;[::2]:3", "");
        assert_eq!(six, r#"-[] +["6=[0:0:0:0:0:0:0:1]:1:2:participant;[0:0:0:0:0:0:0:2]:3"]"#);
        assert_eq!(shown(list_change(None, None, None)), "-[] +[]");
    }

    #[test]
    fn a_text_of_another_form_is_malformed() {
        for joining in [
            "some thing",
            "server.1=h:1:2",
            "server.1=h:1;3",
            "server.1=h:1:1;3",
            "server.1=h:1:2:leader;3",
            "server.1=h:0:2;3",
            "server.1=h:1:2;3=4",
            "server.4294967296=h:1:2;3",
            "server.-1=h:1:2;3",
        ] {
            assert_eq!(incremental(joining, ""), "malformed", "{joining}");
        }
        assert_eq!(incremental("server.x=h:1:2;3", ""), "Err(NotANumber)");
        assert_eq!(incremental("", "one"), "Err(NotANumber)");
    }

    /// Each server writes the list into its file, and must be able to start with it.
    #[test]
    fn a_host_that_a_file_could_not_have_is_malformed() {
        let long = "h".repeat(HOST_BYTES_MAX + 1);
        for host in ["", "*", "a b", "a\nserver.9=evil", "a\\u0062", "[a:b]", "[::1", &long] {
            for server in [format!("{host}:1:2;3"), format!("h:1:2;{host}:3")] {
                assert_eq!(incremental(&format!("server.1={server}"), ""), "malformed", "{server}");
            }
        }
        let longest = "h".repeat(HOST_BYTES_MAX);
        let joined = incremental(&format!("server.1={longest}:1:2;{longest}:3"), "");
        assert!(joined.starts_with("-[] +"), "{joined}");
    }

    #[test]
    fn a_whole_list_is_lines_or_between_commas() {
        let whole = |text: &str| shown(list_change(None, None, Some(text)));
        let expected = r#"["1=a:1:2:participant", "2=b:1:2:observer;0.0.0.0:3"]"#;
        assert_eq!(whole("server.1=a:1:2,server.2=b:1:2:observer;3"), expected);
        assert_eq!(whole("server.1=a:1:2\nserver.2=b:1:2:observer;3\nversion=100000000"), expected);
        for bad in ["", "version=1", "group.1=1:2", "server.1", "server.x=a:1:2", "1=a:1:2"] {
            assert_eq!(whole(bad), "malformed", "{bad}");
        }
    }
}
