//! Starts a member of an ensemble on real sockets: opens its links, waits for the birth of the
//! ensemble if the member's directory is unborn, and then passes the links' inputs to Loop.

use member::message::LoopInput;
use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use member::membership::bootstrap::{Attendance, Decision, absent_server};
use member::membership::limits::AGREEMENT_INTERVAL_MS;
use member::recovery::{
    OpenedMember, Recovered, RecoveryError, UnbornMember, draw_ids, open_member, recover,
};
use member::{Bootstrap, Hello};
use parking_lot::Mutex;
use storage::disk::RealDisk;
use storage::wal::WalOptions;

use crate::begin_again::begin_again;
use crate::limits::{
    DEPARTED_LINKS_STAY, JOIN_LIMIT, PEER_INPUT_BYTES_MAX, REMOVED_SERVES, WAITING_INTERVAL,
};
use crate::peer_hello::Channel;
use crate::peer_sockets::{PeerAuth, PeerConfig, PeerInput, PeerServer, PeerSockets};
use crate::queue::Inbox;
use crate::start::{NodeConfig, StartError, reading, recovery_error};
use crate::start_board::StartBoard;
use crate::threads::Shared;

/// Settings of a member of an ensemble, besides those of every server.
pub struct ClusterConfig {
    /// This server's number.
    pub server: u64,
    /// The numbers of the servers that vote; at most `member::membership::limits::VOTERS_MAX`. An
    /// observer's own number is not among them.
    pub voters: Vec<u64>,
    /// The voters that must be linked before the ensemble may begin.
    pub attendance: Attendance,
    /// All servers, with their addresses for links between members.
    pub servers: Vec<PeerServer>,
    /// The sockets on which links from other members are accepted.
    pub listeners: Vec<TcpListener>,
    /// How members prove to each other who they are.
    pub auth: PeerAuth,
    /// How long it may take to connect to another server.
    pub connect_timeout: Duration,
    /// Whether the system probes silent links with TCP keep-alive.
    pub keep_alive: bool,
    /// Where monitoring reads which servers are missing.
    pub board: Arc<StartBoard>,
    /// The status of the process if it ends because another member says that this one was removed
    /// from the ensemble for good.
    pub removed_status: i32,
}

/// Passes on what the links deliver: first to the wait for a birth, later to Loop.
#[derive(Default)]
pub(crate) struct PeerGate {
    /// Loop, once it exists. Stays locked while inputs are passed on, so that they stay in order.
    target: Mutex<Option<Arc<Shared>>>,
    /// Reports, from before Loop existed, that a link came up or went down. Frames from that time
    /// are dropped: nothing could process them.
    early: Inbox<PeerInput>,
}

impl PeerGate {
    /// Passes inputs on. Returns whether the links may deliver more.
    fn give(&self, inputs: Vec<PeerInput>) -> bool {
        let target = self.target.lock();
        match &*target {
            Some(shared) => {
                shared.tell_loop_of_peers(inputs.into_iter().filter_map(to_loop).collect());
                shared.peer_input_bytes.load(Ordering::Relaxed) <= PEER_INPUT_BYTES_MAX
            }
            None => {
                let is_frame = |input: &PeerInput| matches!(input, PeerInput::Frame { .. });
                self.early.push(inputs.into_iter().filter(|input| !is_frame(input)));
                true
            }
        }
    }

    /// From now on passes all inputs to Loop, after the earlier ones.
    pub fn open(&self, shared: &Arc<Shared>) {
        let mut target = self.target.lock();
        let mut early = Vec::new();
        self.early.take_now(&mut early);
        shared.tell_loop(early.into_iter().filter_map(to_loop));
        *target = Some(shared.clone());
    }
}

/// Converts an input of the links for Loop: a link to or from a member went up or down, or a frame.
/// `None` for links of the bulk channel.
fn to_loop(input: PeerInput) -> Option<LoopInput> {
    let (link, is_up) = match input {
        PeerInput::Frame { from, frame, .. } => return Some(LoopInput::Peer { from, frame }),
        PeerInput::LinkUp(link) => (link, true),
        PeerInput::LinkDown(link) => (link, false),
    };
    if link.channel != Channel::Log {
        return None;
    }
    let peer = link.hello.member;
    Some(match link.is_outgoing {
        true => LoopInput::Link { peer, is_up },
        false => LoopInput::Linked { peer, server: is_up.then(|| (&*link.hello).into()) },
    })
}

/// The links of a member that is born.
pub(crate) struct Cluster {
    pub sockets: PeerSockets,
    pub gate: Arc<PeerGate>,
}

/// Opens the data directory and starts the links. If the directory is unborn, waits for its birth,
/// for as long as that takes.
pub(crate) fn join(
    config: &NodeConfig,
    cluster: &ClusterConfig,
    disk: &RealDisk,
    skipped: impl FnMut(&RecoveryError),
) -> Result<(Recovered<RealDisk>, Cluster), StartError> {
    let failed = |error| recovery_error(config, error);
    let gate = Arc::new(PeerGate::default());
    let (drawn, options) = (&config.drawn, reading(config));
    let opened = match cluster.voters == [cluster.server] {
        // No other member has this data: a corrupt directory is refused, not set aside.
        true => recover(disk, drawn, options, skipped)
            .map(|recovered| OpenedMember::Born(Box::new(recovered))),
        false => open_member(disk, drawn, options, skipped),
    };
    match opened.map_err(failed)? {
        OpenedMember::Born(recovered) => {
            let sockets =
                link(config, (cluster, disk), born_hello(config, cluster, &recovered), &gate)?;
            Ok((*recovered, Cluster { sockets, gate }))
        }
        OpenedMember::Unborn(unborn) => {
            if let Some((name, cause)) = &unborn.set_aside {
                let dir = config.data_dir.display();
                tracing::error!(
                    "data directory {dir}: {cause}; its files were moved to {dir}/{name}, and \
                     this server starts empty as member {:016x}",
                    unborn.member.0
                );
            }
            let bootstrap = Bootstrap::new(
                cluster.server,
                (unborn.member, unborn.acceptor.clone()),
                &cluster.voters,
                cluster.attendance,
                config.member.order.known.clone(),
            );
            let sockets =
                link(config, (cluster, disk), unborn_hello(config, cluster, &bootstrap), &gate)?;
            let links = (&sockets, &*gate);
            let born = wait_for_birth(config, cluster, *unborn, bootstrap, disk, links);
            cluster.board.end_wait_for_birth();
            match born {
                Ok(recovered) => {
                    sockets.handle().set_hello(born_hello(config, cluster, &recovered));
                    Ok((recovered, Cluster { sockets, gate }))
                }
                Err(error) => {
                    sockets.stop();
                    Err(error)
                }
            }
        }
    }
}

fn unborn_hello(config: &NodeConfig, cluster: &ClusterConfig, bootstrap: &Bootstrap) -> Hello {
    described(bootstrap.hello().clone(), config, cluster)
}

fn born_hello(
    config: &NodeConfig,
    cluster: &ClusterConfig,
    recovered: &Recovered<RealDisk>,
) -> Hello {
    let (member, boot) = (recovered.origin.member, recovered.origin.boot);
    let mut servers = cluster.voters.clone();
    servers.sort_unstable();
    let level = recovered.machine.control().level().clone();
    let hello = Hello::unborn(cluster.server, member, servers, config.member.order.known.clone());
    described(hello.born(boot, recovered.dir.birth().clone(), level), config, cluster)
}

/// A hello with the name of this server, the URLs at which etcd's clients reach it and those at
/// which the other servers do, from its own configuration.
fn described(hello: Hello, config: &NodeConfig, cluster: &ClusterConfig) -> Hello {
    let Some(own) = config.member.order.servers.servers.get(&cluster.server) else { return hello };
    let hello = hello.with_client_urls(own.client_urls.clone());
    let name = if own.name.is_empty() { &config.member.order.name } else { &own.name };
    // A name that a hello has no room for is not told.
    hello.clone().with_peer_urls(own.peer_urls.clone(), name.clone()).unwrap_or(hello)
}

fn link(
    config: &NodeConfig,
    (cluster, disk): (&ClusterConfig, &RealDisk),
    hello: Hello,
    gate: &Arc<PeerGate>,
) -> Result<PeerSockets, StartError> {
    let system = |cause| StartError::System { what: "links to other members".to_string(), cause };
    let listeners = cluster.listeners.iter().map(TcpListener::try_clone);
    let peers = PeerConfig {
        servers: cluster.servers.clone(),
        departed_links_stay: DEPARTED_LINKS_STAY,
        listeners: listeners.collect::<Result<_, _>>().map_err(system)?,
        auth: cluster.auth.clone(),
        secret: config.secret,
        connect_timeout: cluster.connect_timeout,
        keep_alive: cluster.keep_alive,
        on_retired: Box::new(end_when_retired(disk.clone(), cluster.removed_status)),
    };
    let gate = gate.clone();
    let sockets = PeerSockets::start(peers, hello, move |inputs| gate.give(inputs));
    let sockets = sockets.map_err(system)?;
    let others = cluster.voters.iter().filter(|number| **number != cluster.server);
    cluster.board.begin(&others.copied().collect::<Vec<_>>(), sockets.handle());
    Ok(sockets)
}

/// Makes the function that ends the process because this member was removed from the ensemble for
/// good. Several members may say so: the first one counts. If the list has this server again, the
/// program begins again in the same process: it sets the data directory aside and joins as a new
/// member. Otherwise the directory stays as it is, since it may be the last copy of data that
/// somebody needs.
fn end_when_retired(disk: RealDisk, status: i32) -> impl Fn(bool) {
    let is_ending = AtomicBool::new(false);
    move |is_listed| {
        if is_ending.swap(true, Ordering::Relaxed) {
            return;
        }
        match is_listed {
            true => tracing::warn!("{REMOVED_AND_LISTED}: it joins again, with its data set aside"),
            false => tracing::error!(
                "the member has been permanently removed from the cluster; its data directory must \
                 be removed before this server can join again"
            ),
        }
        let disk = disk.clone();
        let end = move || {
            if is_listed {
                join_again(&disk);
            }
            std::thread::sleep(REMOVED_SERVES);
            std::process::exit(status);
        };
        if std::thread::Builder::new().name("removed".to_string()).spawn(end).is_err() {
            std::process::exit(status);
        }
    }
}

/// Why the data directory of such a member is set aside.
const REMOVED_AND_LISTED: &str =
    "the member was removed from the ensemble, and its server is listed again";

/// Condemns the data directory, and begins the program again. Returns if that cannot be done.
fn join_again(disk: &RealDisk) {
    if let Err(error) = storage::datadir::condemn(disk, REMOVED_AND_LISTED) {
        return tracing::error!("the data directory cannot be set aside: {error}");
    }
    if let Some(error) = begin_again() {
        tracing::error!("the program cannot begin again in this process: {error}");
    }
}

/// Names the setting that would let the ensemble begin without some servers. `None` if that is set
/// already, or if a majority is all of them.
fn bootstrap_hint(cluster: &ClusterConfig) -> Option<String> {
    let (all, majority) = (cluster.voters.len(), cluster.voters.len() / 2 + 1);
    let first = cluster.voters.iter().min()?;
    (cluster.attendance == Attendance::All && majority < all).then(|| {
        format!(
            "quorate.bootstrap=majority would begin with {majority} of {all} servers, server \
             {first} \
             among them"
        )
    })
}

fn wait_for_birth(
    config: &NodeConfig,
    cluster: &ClusterConfig,
    mut unborn: UnbornMember<RealDisk>,
    mut bootstrap: Bootstrap,
    disk: &RealDisk,
    (sockets, gate): (&PeerSockets, &PeerGate),
) -> Result<Recovered<RealDisk>, StartError> {
    let began = Instant::now();
    let patience = match bootstrap.looks_at_clock() {
        true => Duration::from_millis(AGREEMENT_INTERVAL_MS),
        false => WAITING_INTERVAL,
    };
    let (cluster_id, _) = draw_ids(&config.drawn);
    let mut inputs = Vec::new();
    let mut said = None;
    loop {
        let waiting = match bootstrap.decide(cluster_id, began.elapsed().as_millis() as u64) {
            Decision::BeBorn(birth) => {
                let recovered = unborn
                    .be_born(disk, &birth, WalOptions::default())
                    .map_err(|error| recovery_error(config, error))?;
                let (member, voters) = (recovered.origin.member.0, &birth.voters);
                let absent = voters.iter().filter_map(|it| absent_server(*it)).count();
                match voters.contains(&member) {
                    true if absent > 0 => {
                        let count = voters.len();
                        tracing::info!(
                            "a new ensemble of {count} servers starts, and {absent} of them are \
                             absent"
                        );
                    }
                    true => tracing::info!("a new ensemble of {} servers starts", voters.len()),
                    false => tracing::info!("member {member:016x} joins an existing ensemble"),
                }
                return Ok(recovered);
            }
            Decision::Keep(acceptor) => {
                unborn.keep(&acceptor).map_err(|error| recovery_error(config, error))?;
                bootstrap.on_kept(acceptor);
                sockets.handle().set_hello(unborn_hello(config, cluster, &bootstrap));
                continue;
            }
            Decision::Wait(waiting) => waiting,
        };
        let now = Instant::now();
        if cluster.attendance == Attendance::Existing && now >= began + JOIN_LIMIT {
            return Err(StartError::NothingToJoin);
        }
        cluster.board.wait_for_birth(&waiting, bootstrap_hint(cluster));
        if let Some(wait) = cluster.board.look() {
            let absent: Vec<u64> = wait.absent.iter().map(|(number, _)| *number).collect();
            let news = (waiting, absent);
            let is_said =
                said.as_ref().is_some_and(|(it, at)| *it == news && now < *at + WAITING_INTERVAL);
            if !is_said {
                tracing::info!("{wait}");
                said = Some((news, now));
            }
        }
        gate.early.take(&mut inputs, Some(now + patience));
        for input in inputs.drain(..) {
            match input {
                PeerInput::LinkUp(link) => bootstrap.on_link_up(Hello::clone(&link.hello)),
                PeerInput::LinkDown(link) => bootstrap.on_link_down(&link.hello),
                PeerInput::Frame { .. } => {}
            }
        }
    }
}

impl fmt::Debug for ClusterConfig {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        // How members prove who they are is kept out of the log.
        let ClusterConfig { server, voters, attendance, servers, listeners, .. } = self;
        let mut shown = out.debug_struct("ClusterConfig");
        shown.field("server", server).field("voters", voters).field("attendance", attendance);
        shown.field("servers", servers).field("listeners", listeners).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
