//! Combines the settings of an ensemble from all sources into a [`ClusterConfig`], and checks them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use machine::Level;

use super::secret::{SECRET_BYTES_MAX, SECRET_BYTES_MIN};
use super::{
    BIND_ATTEMPTS_DEFAULT, CONNECT_TIMEOUT_MS_DEFAULT, ClusterConfig, ClusterDraft,
    INIT_LIMIT_DEFAULT, ListensOn, PeerAuth, Role, SERVERS_MAX, SYNC_LIMIT_DEFAULT, Said, Secret,
    ServerAddress, ServerLine, in_brackets,
};
use crate::address::{ListenAddress, every_address_if_unspecified};
use crate::draft::Draft;
use crate::files::{ReadFile, must_read};
use crate::report::{ConfigError, Place};
use crate::storage::DATA_DIR_DEFAULT;

/// Finds this server's number, sets the client port from this server's line, and combines the
/// settings. `None` for a standalone server.
pub(crate) fn settle(
    draft: &mut Draft,
    read: ReadFile<'_>,
) -> Result<Option<ClusterConfig>, ConfigError> {
    let own_number = own_number(draft, read)?;
    draft.cluster.own.my_id = own_number.as_ref().map(|(number, _)| *number);
    let Some(first) = draft.cluster.servers.first() else {
        return no_servers(draft);
    };
    let first = first.said.clone();
    if draft.cluster.participants() == 0 {
        return Err(first.refused("observers without participants are not an ensemble"));
    }
    settle_client_port(draft)?;
    if draft.cluster.servers.len() == 1 && draft.cluster.standalone_enabled {
        complain_of_grouping(draft);
        return Ok(None);
    }
    let may_have_observers = draft.storage.level_max.is_some_and(|it| it >= Level::MEMBERS);
    check_servers(&draft.cluster, may_have_observers)?;
    let Some(number) = settle_own_number(draft, own_number)? else { return Ok(None) };
    warn_of_numbers(draft, &first);
    warn_of_peer_type(draft, number);
    for (said, message) in std::mem::take(&mut draft.cluster.complaints) {
        draft.report.warn(&said.place, &said.key, message);
    }
    let given = draft.cluster.given.take();
    let (given_listen, auth) = match given {
        Some((listen, auth)) => (Some(listen), auth),
        None => (None, settle_auth(draft, read)?),
    };
    let cluster = &mut draft.cluster;
    let lines = std::mem::take(&mut cluster.servers);
    let servers: BTreeMap<_, _> =
        lines.into_iter().map(|line| (line.number, line.address)).collect();
    let own = servers.get(&number).expect("the own number was found among them");
    let host = Some(own.host.clone()).filter(|_| !cluster.links.listen_on_all);
    let own_port = every_address_if_unspecified(ListenAddress { host, port: own.peer_port });
    let listens_on = match cluster.links.listen_on_all {
        true => ListensOn::EveryAddress,
        false => ListensOn::Host,
    };
    let listens_by_list = given_listen.is_none().then_some(listens_on);
    let listen = given_listen.unwrap_or_else(|| vec![own_port]);
    Ok(Some(ClusterConfig {
        number,
        listen,
        listens_by_list,
        servers,
        attendance: cluster.attendance,
        auth,
        connect_timeout_ms: cluster.links.connect_timeout_ms.unwrap_or(CONNECT_TIMEOUT_MS_DEFAULT),
        keep_alive: cluster.links.keep_alive,
        bind_attempts: cluster.links.bind_attempts.unwrap_or(BIND_ATTEMPTS_DEFAULT),
        init_limit: cluster.links.init_limit.unwrap_or(INIT_LIMIT_DEFAULT),
        sync_limit: cluster.links.sync_limit.unwrap_or(SYNC_LIMIT_DEFAULT),
        version: cluster.version,
        is_kept: cluster.is_kept,
    }))
}

/// Handles a missing list of servers: the server is standalone, unless that is forbidden.
fn no_servers(draft: &mut Draft) -> Result<Option<ClusterConfig>, ConfigError> {
    if !draft.cluster.standalone_enabled {
        return Err(draft.report.missing("standaloneEnabled=false, and there is no server.N"));
    }
    complain_of_grouping(draft);
    Ok(None)
}

fn complain_of_grouping(draft: &mut Draft) {
    if let Some(said) = draft.cluster.grouping.take() {
        draft.report.warn(
            &said.place,
            &said.key,
            "is for ensembles of several servers; it is ignored",
        );
    }
}

/// The file `myid`, which has this server's number; `None` for a `zoo.cfg` without `dataDir`.
fn my_id_file(draft: &Draft) -> Option<PathBuf> {
    match &draft.storage.data_dir {
        Some(data_dir) => Some(data_dir.join("myid")),
        None if draft.report.is_zoo_cfg => None,
        None => Some(Path::new(DATA_DIR_DEFAULT).join("myid")),
    }
}

/// This server's number and its place, if a source gives one.
fn own_number(draft: &Draft, read: ReadFile<'_>) -> Result<Option<(u64, Place)>, ConfigError> {
    if draft.cluster.own.number.is_some() {
        return Ok(draft.cluster.own.number.clone());
    }
    let is_wanted = draft.report.is_zoo_cfg || !draft.cluster.servers.is_empty();
    let found = match my_id_file(draft).filter(|_| is_wanted) {
        Some(path) => read_my_id(&path, read)?,
        None => None,
    };
    Ok(found.or_else(|| draft.cluster.own.number_default.clone()))
}

/// The number in the first line of `myid`, if that file exists.
fn read_my_id(path: &Path, read: ReadFile<'_>) -> Result<Option<(u64, Place)>, ConfigError> {
    let file = path.display().to_string();
    let text = read(path)
        .map_err(|e| ConfigError::Unreadable { file: file.clone(), cause: e.to_string() })?;
    let Some(text) = text else { return Ok(None) };
    let line = text.lines().next().unwrap_or("").trim();
    let place = Place::at(&file, 1);
    match line.parse() {
        Ok(number) => Ok(Some((number, place))),
        Err(_) => {
            let cause = format!("{line:?} is not the number of a server");
            Err(ConfigError::Malformed { place, cause })
        }
    }
}

/// This server's number, which must be in the list. `None` if it cannot be looked up because a
/// `zoo.cfg` lacks `dataDir`; a later check refuses that.
fn settle_own_number(draft: &Draft, own: Option<(u64, Place)>) -> Result<Option<u32>, ConfigError> {
    let mut numbers: Vec<_> = draft.cluster.servers.iter().map(|server| server.number).collect();
    numbers.sort_unstable();
    let known = || numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let Some((number, place)) = own else {
        let Some(file) = my_id_file(draft) else { return Ok(None) };
        let place = Place::of(&file.display().to_string());
        let cause =
            format!("there is no such file, which says what number this server has: {}", known());
        return Err(ConfigError::Malformed { place, cause });
    };
    match numbers.iter().find(|known| u64::from(**known) == number) {
        Some(number) => Ok(Some(*number)),
        None => {
            let cause = format!("{number} is the number of none of the servers: {}", known());
            Err(ConfigError::Malformed { place, cause })
        }
    }
}

/// Refuses a list of servers, or settings of it, that cannot work. Observers serve from level 5 on.
fn check_servers(cluster: &ClusterDraft, may_have_observers: bool) -> Result<(), ConfigError> {
    let observer = cluster.servers.iter().find(|it| it.address.role == Role::Observer);
    if let Some(observer) = observer.filter(|_| !may_have_observers) {
        return Err(observer.said.refused(
            "observers need level 5, which is not released: leave it out, make it a participant, \
             or set the highest level to 5",
        ));
    }
    if let Some(said) = &cluster.grouping {
        return Err(said.refused(
            "quorums by groups and weights are not served: without them more than half of the \
             servers decide",
        ));
    }
    if let Some(said) = &cluster.auth.sasl {
        return Err(said.refused(
            "SASL between servers is not served: have sslQuorum=true, or a secret of theirs in \
             quorate.quorum.secretFile",
        ));
    }
    if let Some(one_too_many) = cluster.servers.get(SERVERS_MAX) {
        return Err(one_too_many.said.refused(format!("more than {SERVERS_MAX} servers")));
    }
    // Under etcd's name the election ports are made up, and may be another member's peer port.
    // Equal URLs of two members were refused before.
    let checked = if cluster.given.is_some() { &[][..] } else { &cluster.servers[..] };
    for (position, later) in checked.iter().enumerate() {
        for earlier in &cluster.servers[..position] {
            if let Some(shared) = shared_address(&earlier.address, &later.address) {
                let cause = format!("{shared} is an address of server {}, too", earlier.number);
                return Err(later.said.refused(cause));
            }
        }
    }
    Ok(())
}

/// A host and port that both servers use for other servers, if there is one. As in ZooKeeper's
/// reconfig, a host that means every address does not count.
fn shared_address(one: &ServerAddress, other: &ServerAddress) -> Option<String> {
    let is_every = one.host.parse().is_ok_and(|host: IpAddr| host.is_unspecified());
    if is_every || !one.host.eq_ignore_ascii_case(&other.host) {
        return None;
    }
    let ports = [other.peer_port, other.election_port];
    let shared = [one.peer_port, one.election_port].into_iter().find(|it| ports.contains(it))?;
    Some(format!("{}:{shared}", in_brackets(&one.host)))
}

/// Sets the client address from this server's line. It must not contradict `clientPort`
/// (`QuorumPeerConfig.setupClientPort`).
fn settle_client_port(draft: &mut Draft) -> Result<(), ConfigError> {
    let is_own = |server: &&ServerLine| Some(u64::from(server.number)) == draft.cluster.own.my_id;
    let Some(own) = draft.cluster.servers.iter().find(is_own) else { return Ok(()) };
    let Some(client) = own.address.client.clone() else { return Ok(()) };
    if let Some(static_address) = &draft.listeners.zk_addr
        && *static_address != client
        && (static_address.host.is_some() || static_address.port != client.port)
    {
        let key = if draft.report.is_zoo_cfg { "clientPort" } else { "zk_addr" };
        return Err(ConfigError::Malformed {
            place: own.said.place.clone(),
            cause: format!("clients connect to {client} here, but {key} says {static_address}"),
        });
    }
    draft.listeners.zk_addr = Some(client);
    Ok(())
}

/// Warns of fewer than three servers and of an even number, as
/// `QuorumPeerConfig.parseDynamicConfig` does.
fn warn_of_numbers(draft: &mut Draft, first: &Said) {
    let count = draft.cluster.participants();
    if count <= 2 {
        let message =
            format!("with {count} of them no failure is survived: an ensemble needs 3 servers");
        draft.report.warn(&first.place, &first.key, message);
    } else if count.is_multiple_of(2) {
        let message = format!(
            "{count} servers survive no more failures than {}: have an odd number",
            count - 1
        );
        draft.report.warn(&first.place, &first.key, message);
    }
}

/// Warns of a `peerType` that contradicts the list of servers; the list wins
/// (`QuorumPeerConfig.setupPeerType`).
fn warn_of_peer_type(draft: &mut Draft, number: u32) {
    let own = draft.cluster.servers.iter().find(|server| server.number == number);
    let Some(listed) = own.map(|server| server.address.role) else { return };
    if let Some((_, place)) = draft.cluster.own.peer_type.take().filter(|(it, _)| *it != listed) {
        let message = format!("the list of servers says {}, and counts", listed.name());
        draft.report.warn(&place, "peerType", message);
    }
}

fn settle_auth(draft: &mut Draft, read: ReadFile<'_>) -> Result<PeerAuth, ConfigError> {
    let tls = match draft.cluster.auth.tls.take() {
        Some(said) => Some((draft.tls.settle_quorum(&mut draft.report)?, said)),
        None => {
            draft.tls.ignore_quorum(&mut draft.report);
            None
        }
    };
    match (draft.cluster.auth.secret_file.take(), tls) {
        (None, None) => {
            let (secret, tls) = match draft.report.is_zoo_cfg {
                true => ("quorate.quorum.secretFile", "sslQuorum=true"),
                false => ("secret_file", "tls_key_store"),
            };
            let place = draft.report.whole();
            let message = format!(
                "whoever reaches the peer port is taken for a server: have {secret} or {tls}"
            );
            draft.report.warn(&place, "authentication between servers", message);
            Ok(PeerAuth::None)
        }
        (Some((path, said)), None) => settle_secret(draft, &path, &said, read),
        (None, Some((tls, _))) => Ok(PeerAuth::Tls(Box::new(tls))),
        (Some((_, said)), Some((_, tls))) => {
            Err(said.refused(format!("with {} servers are known by their certificates", tls.key)))
        }
    }
}

/// Reads the secret: the content of the file without white space at its end.
fn settle_secret(
    draft: &mut Draft,
    path: &Path,
    said: &Said,
    read: ReadFile<'_>,
) -> Result<PeerAuth, ConfigError> {
    let text = must_read(read, path).map_err(|error| said.refused(error.to_string()))?;
    let bytes = text.trim_end().as_bytes();
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
        return Err(said.refused(format!(
            "{}: {} bytes are not a secret of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}",
            path.display(),
            bytes.len()
        )));
    }
    let may_be_old = draft.cluster.auth.old_handshake.unwrap_or(true);
    let secret = Secret { bytes: bytes.to_vec(), may_be_old };
    if secret.is_weak() {
        let message = format!(
            "{} has fewer than 32 random bytes: `quorate secret` makes a better one",
            path.display()
        );
        draft.report.warn(&said.place, &said.key, &message);
    }
    Ok(PeerAuth::Secret(secret))
}
