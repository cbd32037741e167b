//! The members in `--initial-cluster`: parses the list, and turns it into the servers of an
//! ensemble.

use std::path::Path;

use member::membership::bootstrap::Attendance;
use member::membership::limits::{CLIENT_URL_BYTES_MAX, CLIENT_URLS_MAX};

use super::kept::{Kept, Member};
use super::tls;
use super::url::{Scheme, Url};
use super::values::Values;
use crate::cluster::PeerAuth;
use crate::self_signed::SelfSigned;
use crate::{GivenServer, GivenServers};

/// The distance from a server's peer port to its election port. Nothing listens on the election
/// port; it exists because `/zookeeper/config` shows one.
const ELECTION_PORT_DISTANCE: u16 = 20_000;

/// The members for a first start. They are numbered from 1 in the order of their names, so that all
/// servers number them alike.
///
/// # Errors
/// The list is malformed, or lacks this server.
pub(super) fn of_flags(values: &Values) -> Result<Kept, String> {
    let name = values.text("name");
    let members = members(values.text("initial-cluster"))?;
    let own = members.iter().position(|(other, _)| other == name);
    if own.is_none() && !members.is_empty() {
        return Err(format!(
            "couldn't find local name {name:?} in the initial cluster configuration"
        ));
    }
    check_twice(&members, values.text("initial-cluster"))?;
    let is_said = values.is_given("initial-advertise-peer-urls") && !is_existing(values);
    if let Some(own) = own.filter(|_| is_said) {
        check_advertised(&members[own], &values.urls("initial-advertise-peer-urls"))?;
    }
    if members.len() < 2 {
        return Ok(Kept { own: 0, members: Vec::new() });
    }
    let own = own.map_or(0, |position| position as u32 + 1);
    Ok(Kept { own, members: (1..).zip(members).collect() })
}

/// Checks that no URL occurs twice (`types.CheckDuplicateURLs`).
fn check_twice(members: &[Member], list: &str) -> Result<(), String> {
    let mut urls: Vec<String> =
        members.iter().flat_map(|(_, urls)| urls).map(Url::to_string).collect();
    urls.sort_unstable();
    match urls.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(format!("initial cluster {list} has duplicate url")),
        false => Ok(()),
    }
}

/// Checks that a new member has its URLs in `--initial-cluster` also in
/// `--initial-advertise-peer-urls` (`ServerConfig.advertiseMatchesCluster`). etcd compares the
/// addresses that host names resolve to; here two hosts differ only if both are addresses.
fn check_advertised((name, urls): &Member, advertised: &[Url]) -> Result<(), String> {
    let is_address = |url: &Url| url.host.parse::<std::net::IpAddr>().is_ok();
    let may_be = |one: &Url, other: &Url| {
        let may_be_host = one.host == other.host || !is_address(one) || !is_address(other);
        one.port == other.port && may_be_host
    };
    let is_missing = |url: &&Url| !advertised.iter().any(|other| may_be(url, other));
    match urls.iter().find(is_missing) {
        Some(url) => Err(format!(
            "--initial-cluster has {name}={url} but missing from \
             --initial-advertise-peer-urls={}",
            advertised.iter().map(Url::to_string).collect::<Vec<_>>().join(",")
        )),
        None => Ok(()),
    }
}

/// The list of a server that is alone, and to which etcd's clients may add others.
pub(super) fn lone(values: &Values) -> Kept {
    let urls = values.urls("initial-advertise-peer-urls");
    Kept { own: 1, members: vec![(1, (values.text("name").to_string(), urls))] }
}

/// The servers of the ensemble (`None` if this server is alone), and a certificate for other
/// servers that this server must make itself, if it must. `is_kept`: the data directory has the
/// list. etcd's clients may then have added a member with another scheme, which must not keep this
/// server from starting. A member at a Unix socket is left out, since nobody can reach it; the
/// replicated state has it.
///
/// # Errors
/// The URLs have mixed schemes or cannot be served, or a certificate is missing.
pub(super) fn given(
    values: &Values,
    data_dir: &Path,
    Kept { own, members }: &Kept,
    is_kept: bool,
) -> Result<(Option<GivenServers>, Option<SelfSigned>), String> {
    if members.is_empty() {
        return Ok((None, None));
    }
    let counts = |number: u32| !is_kept || number == *own;
    let counted = || members.iter().filter(|(number, _)| counts(*number));
    let urls = || counted().flat_map(|(_, (_, urls))| urls);
    let is_secure = urls().all(|url| url.scheme == Scheme::Https);
    if !is_secure && urls().any(|url| url.scheme != Scheme::Http) {
        return Err("--initial-cluster: all URLs must have one scheme, http or https".to_string());
    }
    let listened = values.urls("listen-peer-urls");
    if listened.iter().any(|url| (url.scheme == Scheme::Https) != is_secure) {
        return Err("--listen-peer-urls has another scheme than --initial-cluster".to_string());
    }
    let (auth, self_signed) = match is_secure {
        true => {
            let (config, self_signed) = tls::of_peers(values, data_dir)?;
            (PeerAuth::Tls(Box::new(config)), self_signed)
        }
        false => (PeerAuth::None, None),
    };
    let is_dialled = |number: u32, url: &Url| counts(number) || url.scheme != Scheme::Unix;
    let dialled = members.iter().filter(|(number, (_, urls))| is_dialled(*number, &urls[0]));
    let servers = dialled.map(|(number, (name, urls))| {
        Ok(GivenServer { number: *number, name: name.clone(), line: server_line(&urls[0])? })
    });
    let given = GivenServers {
        own: *own,
        attendance: match is_existing(values) {
            true => Attendance::Existing,
            false => Attendance::AnyMajority,
        },
        servers: servers.collect::<Result<_, String>>()?,
        client_urls: client_urls(values)?,
        listen: listened.iter().map(Url::to_listen).collect::<Result<_, _>>()?,
        auth,
        is_kept,
    };
    Ok((Some(given), self_signed))
}

/// Whether `--initial-cluster-state` says that the cluster exists already.
pub(super) fn is_existing(values: &Values) -> bool {
    values.text("initial-cluster-state") == "existing"
}

/// The URLs for clients that this server tells the others, in its replicated record.
fn client_urls(values: &Values) -> Result<Vec<String>, String> {
    let urls: Vec<String> =
        values.urls("advertise-client-urls").iter().map(Url::to_string).collect();
    if urls.len() > CLIENT_URLS_MAX || urls.iter().any(|url| url.len() > CLIENT_URL_BYTES_MAX) {
        return Err(format!(
            "--advertise-client-urls: more than {CLIENT_URLS_MAX} URLs, or one of more than \
             {CLIENT_URL_BYTES_MAX} bytes"
        ));
    }
    Ok(urls)
}

/// Parses `name=url,name=url,...` into members sorted by name (`types.NewURLsMap`). The list
/// repeats the name of a member with several URLs.
fn members(list: &str) -> Result<Vec<Member>, String> {
    let mut members: Vec<Member> = Vec::new();
    for pair in list.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let form = || format!("--initial-cluster: {pair:?} is not of the form name=URL");
        let (name, url) = pair.split_once('=').ok_or_else(form)?;
        let urls = Url::parse_list(url).map_err(|cause| format!("--initial-cluster: {cause}"))?;
        match members.iter_mut().find(|(other, _)| other == name) {
            Some((_, others)) => others.extend(urls),
            None => members.push((name.to_string(), urls)),
        }
    }
    members.sort();
    Ok(members)
}

/// The address in a peer URL in the form of a `server.N` line; `None` if it cannot be dialled.
pub fn server_line_of(url: &str) -> Option<String> {
    server_line(&Url::parse(url).ok()?).ok()
}

/// A server's address in the form of a `server.N` line.
fn server_line(url: &Url) -> Result<String, String> {
    if url.port == 0 || url.host.is_empty() {
        return Err(format!("--initial-cluster: {url} cannot be dialled"));
    }
    let election = url.port.checked_add(ELECTION_PORT_DISTANCE);
    let election = election.unwrap_or_else(|| url.port - ELECTION_PORT_DISTANCE);
    Ok(format!("{}:{}:{election}", url.host_in_brackets(), url.port))
}
