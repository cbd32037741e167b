//! A start under etcd's name that joins an existing cluster (`--initial-cluster-state existing`):
//! it asks the members which number this server has, since clients have added it by its peer URLs
//! only.

use std::time::{Duration, Instant};

use anyhow::Context;
use config::{EtcdGiven, GivenServer, GivenServers, ServeArgs, ServeConfig};
use machine::MemberId;
use member::membership::bootstrap::Attendance;
use member::membership::hello::Known;
use node::{DiscoverError, Discovered, Discovery, PeerAddress, StartBoard, discover};
use storage::datadir::{CONDEMNED_FILE, IDENTITY_FILE, SERVERS_FILE, SUCCESSOR_FILE};

use crate::peers;
use crate::random::random_bytes;

/// How long members that answer may not know this server: a member that lags behind learns of it a
/// moment later.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(3);

/// How long to wait between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(200);

/// Asks the members for this server's number, if it joins a cluster for the first time. Returns the
/// options with the list that the members have; `None` if nothing is to be asked, or no member
/// answers such questions.
///
/// # Errors
/// The members do not know this server, or have other servers than `--initial-cluster`
/// (`membership.ValidateClusterAndAssignIDs`).
pub fn find_number(args: &ServeArgs, config: &ServeConfig) -> anyhow::Result<Option<ServeArgs>> {
    let (Some(given), Some(cluster)) = (&args.etcd, &config.cluster) else { return Ok(None) };
    let dir = &config.storage.data_dir;
    // A directory that is to be set aside says nothing of its server's number.
    let has = |name: &str| dir.join(name).is_file();
    let is_member = has(IDENTITY_FILE) && !has(CONDEMNED_FILE);
    let has_begun = has(SERVERS_FILE) || has(SUCCESSOR_FILE) || is_member;
    if has_begun || cluster.attendance != Attendance::Existing {
        return Ok(None);
    }
    given.self_signed.iter().try_for_each(crate::self_signed::make)?;
    let (prepared, _) = peers::prepare(cluster, StartBoard::default().into(), 0)?;
    let own = u64::from(cluster.number);
    let others = prepared.servers.into_iter().filter(|server| server.number != own);
    let others: Vec<Vec<PeerAddress>> = others.map(|server| server.addresses).collect();
    let began = Instant::now();
    loop {
        let asked = Discovery {
            others: others.clone(),
            peer_urls: given.about.peer_urls.clone(),
            name: given.about.name.clone(),
            // Nobody keeps this id: the data directory does not exist yet.
            member: MemberId(u64::from_le_bytes(
                *random_bytes()?.first_chunk().expect("they are more"),
            )),
            known: Known::up_to(config.storage.level_max),
            auth: prepared.auth.clone(),
            secret: random_bytes()?,
            connect_timeout: prepared.connect_timeout,
        };
        match discover(asked) {
            Ok(found) => return with_list(args, given, &found).map(Some),
            // A server that joins finds nobody, or members of older versions. The start decides.
            Err(DiscoverError::Unanswered(_)) if began.elapsed() >= UNKNOWN_LIMIT => {
                return Ok(None);
            }
            Err(DiscoverError::Unanswered(_)) => {}
            Err(DiscoverError::NoMatch(_)) if began.elapsed() < UNKNOWN_LIMIT => {}
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(PAUSE);
    }
}

/// The options with the list that the members have.
fn with_list(args: &ServeArgs, given: &EtcdGiven, found: &Discovered) -> anyhow::Result<ServeArgs> {
    let servers = given.cluster.as_ref().context("a server that joins has a list")?;
    anyhow::ensure!(
        servers.servers.len() == found.servers.len(),
        "error validating peerURLs {:?}: member count is unequal",
        found.servers.values().flatten().collect::<Vec<_>>()
    );
    let listed = found.servers.iter().map(|(number, urls)| {
        let line = urls.first().and_then(|url| config::etcd_program::server_line_of(url));
        let line = line.with_context(|| format!("{urls:?} cannot be dialled"))?;
        let same = servers.servers.iter().find(|server| server.line == line);
        let name = match same {
            Some(server) => server.name.clone(),
            None => anyhow::bail!("error validating peerURLs: unmatched member {urls:?}"),
        };
        Ok(GivenServer { number: u32::try_from(*number)?, name, line })
    });
    let listed = listed.collect::<anyhow::Result<Vec<_>>>()?;
    let cluster =
        GivenServers { own: u32::try_from(found.number)?, servers: listed, ..servers.clone() };
    tracing::info!("the members know this server as server {}", cluster.own);
    let given = EtcdGiven { cluster: Some(cluster), ..given.clone() };
    Ok(ServeArgs { etcd: Some(Box::new(given)), ..args.clone() })
}
