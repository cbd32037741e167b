//! `quorate serve`: builds a server from its parts (sockets, member, connection runtimes, chunk
//! store, monitoring), runs it, and stops it.

mod following;
mod ports;
mod ready;
mod shown;

use std::process::ExitCode;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::Context;
use config::etcd::EtcdPort;
use config::log_style::LogStyle;
use config::{ClusterConfig, ListenAddress, ServeArgs, ServeConfig, Severity};
use machine::Changes;
use machine::Level;
use member::EtcdFront;
use member::ReplyRoom;
use member::TokenTimes;
use member::ZkFront;
use member::fronts::etcd::EtcdFrontConfig;
use member::fronts::zk::{Reconfigurable, ZkFrontConfig};
use member::membership::hello::Known;
use member::message::FrontCounts;
use member::order;
use member::recovery::Options;
use member::spaces;
use member::throttle::Throttle;
use node::{FrontHandle, Node, NodeConfig, StartBoard};
use replica::LogMemory;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;
use zk::four_letter::ConfReport;

use crate::admin::WaitingServer;
use crate::change_log::ChangeLog;
use crate::client_tls::Tls;
use crate::config_sources::{env_of_process, load};
use crate::connections::{Connections, Face};
use crate::data_dir;
use crate::descriptors;
use crate::force_new_cluster;
use crate::hangup::Reloaded;
use crate::joining;
use crate::listen_chunk::{self, Chunks};
use crate::listen_etcd::{self, EtcdFace, MemberView, Tokens, face_of};
use crate::listen_zk::{self, Acceptor, ConnectionLimits, Question, Wire};
use crate::local_ensemble;
use crate::logging::Logging;
use crate::monitor::About;
use crate::monitor_thread::{self, Begin};
use crate::not_serving::{self, Answers};
use crate::observe::{Observer, ObserverSettings, process};
use crate::peers;
use crate::random::random_bytes;
use following::Following;
use ports::{ClientPorts, bind_monitoring, rebind};
use shown::{conf_report, shown_properties, user_name, version};

/// The most connection runtimes. Beyond this the single Apply thread is the bottleneck, not the
/// sockets.
const FRONTS_MAX: usize = 16;

/// How long a standalone server may take until it serves: replaying a long log takes seconds.
const READY_LIMIT: Duration = Duration::from_secs(600);

/// How long a member of an ensemble may wait for the others: a century, that is, for ever.
const READY_LIMIT_OF_MEMBER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The status of a process that ends because its member was removed from the ensemble. Under etcd's
/// name the status is 0, as etcd's is.
const REMOVED_STATUS: u8 = 1;

/// How long a member looks for a leader at least before it serves only reads, in ms
/// (`QuorumPeer.run`).
const READ_ONLY_AFTER_MS_MIN: u64 = 2_000;

/// Runs a server until SIGTERM or SIGINT.
pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    if let Some(count) = args.local_ensemble {
        return local_ensemble::run(args, count);
    }
    if args.end_with_parent {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    }
    let logging = Logging::start(&log_style(args))?;
    end_on_panic();
    descriptors::raise_limit();
    let (config, warnings) = load(args, &env_of_process())?;
    for warning in warnings {
        match warning.severity {
            Severity::Warning => tracing::warn!("{warning}"),
            Severity::Note => tracing::debug!("{warning}"),
        }
    }
    if config.logging.filter.is_some() {
        logging.apply(config.logging.filter.as_deref())?;
    }
    data_dir::check(&config.storage)?;
    if args.etcd.is_some() {
        data_dir::refuse_etcds(&config.storage)?;
    }
    let forced = force_new_cluster::force(args, &config)?;
    let is_forced = forced.is_some();
    let changed = if is_forced { forced } else { joining::find_number(args, &config)? };
    let (args, config) = match changed {
        Some(args) => {
            let (config, _) = load(&args, &env_of_process())?;
            (args, config)
        }
        None => (args.clone(), config),
    };
    if is_forced {
        force_new_cluster::keep_list(&config)?;
    }
    if config.storage.level_max > Level::RELEASED {
        let level = config.storage.level_max;
        tracing::warn!(
            "this server knows level {level}, which is not released: data of an ensemble at that \
             level may be unreadable for every later version"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(config, args, logging))
}

/// How the log is written: as etcd's if the server was started under etcd's name.
fn log_style(args: &ServeArgs) -> LogStyle {
    let of_etcd = args.etcd.as_ref().map(|given| given.log.clone());
    of_etcd.unwrap_or_else(|| LogStyle::from_verbosity(args.verbose))
}

/// Makes a panic in any thread or task end the process: after a broken invariant answers could be
/// wrong, and a supervisor should notice.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

async fn serve(config: ServeConfig, args: ServeArgs, logging: Logging) -> anyhow::Result<ExitCode> {
    LazyLock::force(&process::BEGAN);
    // Signals are caught before anything is visible: a client that sees the server may send one.
    let mut end = EndSignals::listen()?;
    let hangups = signal(SignalKind::hangup())?;
    // The ports are bound first, so that a second server fails here before it touches any file.
    let ports = ClientPorts::bind(&config)?;
    let (monitoring_ports, shown_monitoring) = bind_monitoring(&config)?;
    let board = Arc::new(StartBoard::default());
    let waiting = WaitingServer {
        number: config.cluster.as_ref().map(|cluster| cluster.number),
        board: board.clone(),
    };
    let connections = Connections::new(faces(&config, &ports, !monitoring_ports.is_empty()));
    let begin_monitoring = monitor_thread::start(monitoring_ports, waiting, connections.clone())?;
    let given = args.etcd.clone();
    given.iter().flat_map(|given| &given.self_signed).try_for_each(crate::self_signed::make)?;
    let tls = config.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
    if let Some(tls) = &tls {
        tls.reload_when_changed().context("the thread that reads changed stores")?;
    }
    let tokens = config.etcd.as_ref().map(|face| Tokens::of(&face.auth.token)).transpose()?;
    let conf = conf_report(&config, ports.numbers());
    let removed_status = if given.is_some() { 0 } else { REMOVED_STATUS };
    let prepare = |cluster| peers::prepare(cluster, board.clone(), removed_status.into());
    let cluster = config.cluster.as_ref().map(prepare).transpose()?;
    let (cluster, peers) = cluster.map_or((None, None), |(cluster, peers)| (Some(cluster), peers));
    let reloaded = Reloaded { args, logging, tls: tls.clone(), peers };
    tokio::spawn(reloaded.start(hangups).context("the thread of SIGHUP")?);
    let node_config = node_config(&config, cluster)?;
    let change_log = ChangeLog::new(config.logging.audit.then(user_name));
    let (limit, read_only_after_ms) = (ready_limit(&config), read_only_after_ms(&config));
    let bound = (node_config, config.cluster.clone());
    let starting = start_node(bound, change_log, limit, read_only_after_ms);
    let node = tokio::select! {
        started = starting => started?,
        () = answer_meanwhile(&config, &ports, &conf) => unreachable!("it goes on"),
        // The next start does the work that a stopped start has not done.
        () = end.wait() => return Ok(ExitCode::SUCCESS),
    };
    let zk_addr = watch::Sender::new(config.listeners.zk_addr.clone());
    let wanted = zk_addr.subscribe();
    let following = Following::begin(&config, &node, given.is_some(), zk_addr)?;
    // The node comes before the chunk store, since its lock protects the data directory. Nothing
    // waits for the chunk store.
    let chunks = open_chunks(&config, &node)?;
    let (asker, questions) = tokio::sync::mpsc::channel(monitor_thread::QUESTIONS_MAX);
    let shared = (tls.clone(), tokens, connections.clone());
    let (acceptor, etcd) = start_faces(&config, &node, asker, shared)?;
    let observer = observer(&config, &node, acceptor.face(), chunks.clone());
    let images = config.monitoring.images.clone();
    let begin = Begin { observer, about: about(&config, conf), images, questions };
    anyhow::ensure!(begin_monitoring.send(begin).is_ok(), "the thread of monitoring has ended");
    connections.note_own_files(chunks.as_ref().map_or(0, |_| listen_chunk::descriptors_of_files()));
    ready::say(&ports, &shown_monitoring, &config.storage.data_dir, given.is_some())?;
    audit(&config, "serverStart", "success");
    let of_chunks = (chunks.as_deref(), connections);
    let ports = (ports, wanted, etcd);
    let status = tokio::select! {
        ended = serve_clients(&config, acceptor, ports, of_chunks, tls) => ended.map(|()| 0)?,
        removed = follow(following, &node) => removed.map(|()| removed_status)?,
        () = end.wait() => 0,
    };
    tracing::info!("stopping");
    audit(&config, "serverStop", "invoked");
    // The node stops first, because other servers wait for it: a leader hands leadership over.
    node.stop();
    chunks.map_or(Ok(()), |chunks| chunks.stop())?;
    Ok(ExitCode::from(status))
}

/// Starts to open the chunk store, if one is configured.
fn open_chunks(config: &ServeConfig, node: &Node) -> anyhow::Result<Option<Arc<Chunks>>> {
    let open = |chunk| Chunks::open(chunk, &config.storage, node.monitor_handle());
    config.chunk.as_ref().map(open).transpose()
}

/// Starts the connection runtimes for ZooKeeper clients and for etcd clients.
fn start_faces(
    config: &ServeConfig,
    node: &Node,
    asker: Sender<Question>,
    (tls, tokens, connections): (Option<Arc<Tls>>, Option<Tokens>, Arc<Connections>),
) -> anyhow::Result<(Acceptor, EtcdFace)> {
    let acceptor = listen_zk::start(fronts(config, node)?, asker, (connections.clone(), tls))?;
    let face = config.etcd.clone().zip(tokens);
    let member = face.map(|(face, tokens)| MemberView::of(face, tokens, node, config));
    let etcd = listen_etcd::start(etcd_fronts(config, node)?, member, connections)?;
    Ok((acceptor, etcd))
}

/// Follows the list of servers until this server was removed; waits for ever in a standalone
/// server.
async fn follow(following: Option<Following<'_>>, node: &Node) -> anyhow::Result<()> {
    match following {
        Some(following) => following.run(node.listed()).await,
        None => std::future::pending().await,
    }
}

/// The signals that end a server.
struct EndSignals {
    terminated: Signal,
    interrupted: Signal,
}

impl EndSignals {
    fn listen() -> std::io::Result<EndSignals> {
        let terminated = signal(SignalKind::terminate())?;
        let interrupted = signal(SignalKind::interrupt())?;
        Ok(EndSignals { terminated, interrupted })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminated.recv() => {}
            _ = self.interrupted.recv() => {}
        }
    }
}

/// Writes the line about the server's start or stop to the audit log
/// (`ZKAuditProvider.addZKStartStopAuditLog`).
fn audit(config: &ServeConfig, operation: &str, result: &str) {
    if config.logging.audit {
        let user = user_name();
        tracing::info!(
            target: "audit",
            "AUDIT: user={user}\toperation={operation}\tresult={result}"
        );
    }
}

/// The settings for the member, with new random bytes for ids and for a secret.
fn node_config(
    config: &ServeConfig,
    cluster: Option<node::ClusterConfig>,
) -> anyhow::Result<NodeConfig> {
    Ok(NodeConfig {
        data_dir: config.storage.data_dir.clone(),
        log_dir: config.storage.log_dir.clone(),
        fronts: fronts_for(core_count(), config.etcd.is_some()),
        // Drawn separately from the Fronts' secret, because the ids made from these bytes are
        // public.
        drawn: random_bytes()?,
        secret: random_bytes()?,
        fsync_warning: Duration::from_millis(config.storage.fsync_warning_ms),
        cluster,
        member: Options {
            spaces: spaces::Options {
                zk: spaces::zk::Options {
                    settings: config.replicated.clone(),
                    containers: config.container.clone(),
                    tick_ms: u64::from(config.sessions.tick_ms),
                },
                etcd: spaces::etcd::Options {
                    settings: config.etcd_keys.replicated,
                    auto_compaction: config.etcd_keys.auto_compaction,
                    is_alone: config.etcd.is_some() && !config.listeners.has_zk(),
                },
            },
            order: order::Options {
                name: config.etcd.as_ref().map_or(String::new(), |etcd| etcd.about.name.clone()),
                servers: config.cluster.as_ref().map(|it| it.server_list()).unwrap_or_default(),
                servers_are_kept: config.cluster.as_ref().is_some_and(|it| it.is_kept),
                known: Known::up_to(config.storage.level_max),
                session_timeout_ms_min: config.sessions.timeout_ms_min,
                raft_tick_ms: match &config.cluster {
                    Some(_) => node::limits::RAFT_TICK_MS,
                    None => node::limits::RAFT_TICK_ALONE_MS,
                },
                log_memory: match &config.cluster {
                    Some(_) => LogMemory::default(),
                    // No other member ever needs an entry of a standalone server.
                    None => LogMemory { bytes_max: 0, away_bytes_max: 0, pinned_bytes_max: 0 },
                },
                server: config.cluster.as_ref().map_or(0, |cluster| u64::from(cluster.number)),
                disk: config.storage.disk,
            },
        },
    })
}

fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// How many connection runtimes a server with this many cores has: one per core for ZooKeeper
/// clients, half as many for etcd clients, whose batches are small
/// (`docs/design/runtimes-of-etcds-clients.md`).
fn fronts_for(cores: usize, has_etcd: bool) -> FrontCounts {
    let zk = cores.clamp(1, FRONTS_MAX) as u32;
    FrontCounts { zk, etcd: if has_etcd { (zk / 2).max(1) } else { 0 } }
}

/// How long the member may take until it serves.
fn ready_limit(config: &ServeConfig) -> Duration {
    if config.cluster.is_some() { READY_LIMIT_OF_MEMBER } else { READY_LIMIT }
}

/// Answers on ZooKeeper's ports while the server does not serve yet.
async fn answer_meanwhile(config: &ServeConfig, ports: &ClientPorts, conf: &ConfReport) {
    let answers = Arc::new(Answers {
        words_allowed: config.listeners.four_letter_words.allowed(),
        version: version(),
        conf: conf.clone(),
    });
    tokio::select! {
        () = not_serving::answer(ports.plain.as_ref(), true, answers.clone()) => {}
        () = not_serving::answer(ports.secure.as_ref(), false, answers) => {}
    }
}

/// Starts the member on a thread of its own, because it may block until its own name and the other
/// servers are found. If nothing waits for the result any more, the thread ends with the process.
async fn start_node(
    (mut config, cluster): (NodeConfig, Option<ClusterConfig>),
    mut change_log: ChangeLog,
    limit: Duration,
    read_only_after_ms: Option<u64>,
) -> anyhow::Result<Node> {
    let (sender, started) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("start".to_string()).spawn(move || {
        let hear = move |changes: &Changes, is_serving| change_log.log_changes(changes, is_serving);
        let started = (|| {
            if let Some((links, cluster)) = config.cluster.as_mut().zip(cluster.as_ref()) {
                links.listeners = peers::bind(cluster)?;
            }
            let node = node::start(&config, Box::new(hear))?;
            let is_ready = match read_only_after_ms {
                Some(ms) => node.wait_ready(limit.min(Duration::from_millis(ms))),
                None => node.wait_ready(limit),
            };
            // Clients that accept a read-only server are served before there is a leader.
            let is_served = is_ready || read_only_after_ms.is_some();
            anyhow::ensure!(is_served, "the member did not become ready");
            Ok(node)
        })();
        // Sending fails if the process was told to stop meanwhile.
        let _ = sender.send(started);
    })?;
    started.await.context("the start was given up")?
}

/// Makes the object that gives monitoring the facts about the server.
fn observer(
    config: &ServeConfig,
    node: &Node,
    face: Arc<listen_zk::Face>,
    chunks: Option<Arc<Chunks>>,
) -> Observer {
    let settings = ObserverSettings {
        data_dir: config.storage.data_dir.clone(),
        log_dir: config.storage.log_dir.clone(),
        tick_ms: u64::from(config.sessions.tick_ms),
        sessionless_ms_max: config.sessions.sessionless_ms_max,
        cluster: config.cluster.clone(),
        read_only_after_ms: read_only_after_ms(config),
    };
    Observer::new(node.monitor_handle(), face, settings, chunks)
}

/// The texts about the server that monitoring shows.
fn about(config: &ServeConfig, conf: ConfReport) -> About {
    About {
        version: version(),
        conf,
        initial_config: config.source.initial_config.clone(),
        system_properties: shown_properties(&config.source.system_properties),
        has_prometheus: config.monitoring.metrics.is_some(),
    }
}

/// Serves clients. Returns, with an error, only if a connection runtime ends.
async fn serve_clients(
    config: &ServeConfig,
    acceptor: Acceptor,
    (ports, wanted, etcd): (ClientPorts, watch::Receiver<Option<ListenAddress>>, EtcdFace),
    (chunks, connections): (Option<&Chunks>, Arc<Connections>),
    tls: Option<Arc<Tls>>,
) -> anyhow::Result<()> {
    let limits = ConnectionLimits {
        per_ip_max: config.listeners.connections_per_ip_max as usize,
        total_max: config.listeners.connections_max as usize,
    };
    let plain_wire = match &tls {
        Some(tls) if config.listeners.port_unification => Wire::Either(tls.clone()),
        _ => Wire::Plain,
    };
    let secure_wire = tls.clone().map_or(Wire::Plain, Wire::Secure);
    let ClientPorts { plain, secure, etcd: etcd_ports, chunk_plain, chunk_secure } = ports;
    let mut of_secure = acceptor.clone();
    tokio::select! {
        () = accept_where_wanted(config, (acceptor, plain, wanted), plain_wire, limits) => {
            anyhow::bail!("a connection runtime ended")
        }
        () = accept(&mut of_secure, secure, secure_wire, limits) => {
            anyhow::bail!("a connection runtime ended")
        }
        () = serve_etcd(&etcd, etcd_ports, tls.clone()) => {
            anyhow::bail!("a connection runtime ended")
        }
        () = serve_chunks(chunks, (chunk_plain, chunk_secure), tls.clone(), &connections) => {
            anyhow::bail!("a runtime of the chunk store ended")
        }
    }
}

/// Accepts the connections of ZooKeeper's port without TLS, at the first listener and then at each
/// address that is wanted instead. The former port is closed in any case; connections stay.
async fn accept_where_wanted(
    config: &ServeConfig,
    (mut acceptor, first, mut wanted): (
        Acceptor,
        Option<TcpListener>,
        watch::Receiver<Option<ListenAddress>>,
    ),
    wire: Wire,
    limits: ConnectionLimits,
) {
    let mut listener = first;
    loop {
        tokio::select! {
            () = accept(&mut acceptor, listener.take(), wire.clone(), limits) => return,
            // Without a list to follow, nothing is ever wanted.
            Ok(()) = wanted.changed() => {}
        }
        let address = wanted.borrow_and_update().clone();
        let bound = async {
            match address {
                Some(address) => Some(rebind(config, &address).await),
                None => None,
            }
        };
        // Another address may be wanted while this one cannot be bound.
        listener = tokio::select! {
            bound = bound => bound,
            Ok(()) = wanted.changed() => {
                wanted.mark_changed();
                None
            }
        };
    }
}

/// Accepts the connections of a ZooKeeper port; waits for ever if there is no such port.
async fn accept(
    acceptor: &mut Acceptor,
    listener: Option<TcpListener>,
    wire: Wire,
    limits: ConnectionLimits,
) {
    match listener {
        Some(listener) => acceptor.run(listener, wire, limits).await,
        None => std::future::pending().await,
    }
}

/// Accepts the connections of all etcd ports; waits for ever if there are none.
async fn serve_etcd(face: &EtcdFace, ports: Vec<(EtcdPort, TcpListener)>, tls: Option<Arc<Tls>>) {
    let mut tasks = tokio::task::JoinSet::new();
    for (port, listener) in ports {
        let (face, tls) = (face.clone(), tls.clone());
        tasks.spawn(async move { face.accept(listener, &port, tls).await });
    }
    if tasks.join_next().await.is_none() {
        std::future::pending().await
    }
}

/// Accepts clients of the chunk store; waits for ever if there is none.
async fn serve_chunks(
    chunks: Option<&Chunks>,
    (plain, secure): (Option<TcpListener>, Option<TcpListener>),
    tls: Option<Arc<Tls>>,
    connections: &Arc<Connections>,
) {
    match chunks {
        Some(chunks) => chunks.serve(plain, secure, tls, connections).await,
        None => std::future::pending().await,
    }
}

/// The faces that this server serves.
fn faces(
    config: &ServeConfig,
    ports: &ClientPorts,
    has_monitoring: bool,
) -> impl Iterator<Item = Face> {
    let has_zk = ports.plain.is_some() || ports.secure.is_some();
    let of_etcd: Vec<Face> = ports.etcd.iter().map(|(it, _)| face_of(it.service)).collect();
    let others = [
        (has_zk, Face::ZooKeeper),
        (config.chunk.is_some(), Face::Chunks),
        (has_monitoring, Face::Monitoring),
    ];
    others.into_iter().filter(|(is_served, _)| *is_served).map(|(_, face)| face).chain(of_etcd)
}

/// Whether ZooKeeper's clients can change the servers once the level is high enough: the list has
/// addresses for them, and this build may use that level.
fn may_become_reconfigurable(config: &ServeConfig) -> bool {
    let list = config.cluster.as_ref().map(|it| it.server_list()).unwrap_or_default();
    let has_addresses = list.servers.values().any(|server| server.zk.is_some());
    has_addresses && config.storage.level_max >= machine::Level::MEMBERS
}

/// Makes a ZooKeeper Front for each of the member's handles. The Fronts share the secret for
/// session ids and passwords, and the bounds for all clients together.
fn fronts(config: &ServeConfig, node: &Node) -> anyhow::Result<Vec<(FrontHandle, ZkFront)>> {
    let secret = random_bytes()?;
    let handles = node.zk_fronts();
    let commands_max = config.requests.commands_in_flight_of(handles.len());
    let (settings, is_reconfigurable) = {
        let machine = handles[0].machine().read();
        let servers = machine.control().servers();
        (Arc::new(machine.zk().settings().clone()), servers.may_be_reconfigured())
    };
    let reconfigurable = match is_reconfigurable {
        true => Reconfigurable::Now,
        false if may_become_reconfigurable(config) => {
            Reconfigurable::FromLevel { leaves_one: !config.replicated.standalone_enabled }
        }
        false => Reconfigurable::Never,
    };
    let auth = Arc::new(config.auth.clone());
    let throttle = Arc::new(Throttle::new(config.requests.throttle.clone()));
    let front = |handle: FrontHandle| {
        let front = ZkFront::new(ZkFrontConfig {
            id: handle.id(),
            origin: node.origin(),
            frame_bytes_max: config.requests.jute_bytes_max,
            commands_max,
            throttled_op_wait_ms: config.requests.throttled_op_wait_ms,
            session_timeout_ms_min: config.sessions.timeout_ms_min,
            session_timeout_ms_max: config.sessions.timeout_ms_max,
            words_allowed: config.listeners.four_letter_words.allowed(),
            secret,
            settings: settings.clone(),
            reconfigurable,
            auth: auth.clone(),
            throttle: throttle.clone(),
            replies: node.replies(),
            reply_bytes_max: config.requests.reply_bytes_max,
            list_step_names: member::fronts::zk::limits::LIST_STEP_NAMES,
            sessionless_ms_max: config.sessions.sessionless_ms_max,
            audit: config.logging.audit,
            slow_request_ms: config.logging.slow_request_ms,
            read_only_after_ms: read_only_after_ms(config),
        });
        (handle, front)
    };
    Ok(handles.into_iter().map(front).collect())
}

/// Makes an etcd Front for each of the member's handles; none if etcd clients are not served.
fn etcd_fronts(config: &ServeConfig, node: &Node) -> anyhow::Result<Vec<(FrontHandle, EtcdFront)>> {
    let Some(etcd) = &config.etcd else { return Ok(Vec::new()) };
    let drawn = random_bytes()?;
    let watch_seed = u64::from_le_bytes(*drawn.first_chunk().expect("they are more than a word's"));
    let (progress_ms, request_bytes_max) = (etcd.progress_ms, etcd.request_bytes_max);
    let references = Arc::<ReplyRoom>::default();
    let ttl_ms = etcd.auth.token_ttl_s.saturating_mul(1_000);
    let mut token_times = None;
    let front = |handle: FrontHandle| {
        let (level, replicated) = {
            let machine = handle.machine().read();
            (machine.control().level().level, machine.etcd().settings())
        };
        // Below the level of etcd's keys the state has no such settings.
        let settings = if level >= Level::ETCD { replicated } else { config.etcd_keys.replicated };
        let begin = || Arc::new(TokenTimes::new(ttl_ms, handle.monotonic_ms()));
        let token_times = token_times.get_or_insert_with(begin);
        let front = EtcdFront::new(EtcdFrontConfig {
            id: handle.id(),
            connection: listen_etcd::connection_of(handle.id()),
            is_alone: config.cluster.is_none(),
            cluster_id: node.cluster_id() as u64,
            member_id: node.origin().member.0,
            shown_id: node.monitor_handle().etcd_id(),
            own: etcd.own(config.storage.level_max),
            txn_ops_max: settings.txn_ops_max as usize,
            request_bytes_max,
            piece_bytes: member::fronts::etcd::limits::ETCD_PIECE_BYTES,
            hold_keys_max: member::fronts::etcd::limits::ETCD_HOLD_KEYS_MAX,
            references: references.clone(),
            token_times: token_times.clone(),
            level,
            progress_ms,
            watch_bounds: Default::default(),
            watch_seed,
            watch_interest: node.watch_interest(),
            command_counts: node.command_counts(),
            names_users: config.logging.audit,
        });
        (handle, front)
    };
    Ok(node.etcd_fronts().into_iter().map(front).collect())
}

/// After how long without a leader a member serves only reads, in ms (`QuorumPeer.run`); `None` if
/// it never does.
fn read_only_after_ms(config: &ServeConfig) -> Option<u64> {
    let is_wanted = config.sessions.read_only_mode && config.cluster.is_some();
    is_wanted.then(|| u64::from(config.sessions.tick_ms).max(READ_ONLY_AFTER_MS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcds_clients_have_a_runtime_for_each_two_cores() {
        for (cores, zk, etcd) in [(1, 1, 1), (2, 2, 1), (5, 5, 2), (16, 16, 8), (96, 16, 8)] {
            assert_eq!(fronts_for(cores, true), FrontCounts { zk, etcd });
        }
        assert_eq!(fronts_for(4, false).etcd, 0);
    }
}
