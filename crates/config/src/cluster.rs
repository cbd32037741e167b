//! The settings of an ensemble: the list of servers, this server's number in it, and how servers
//! authenticate each other (`QuorumPeer.QuorumServer`; `QuorumPeerConfig.parseDynamicConfig` and
//! `setupQuorumPeerConfig`, ZooKeeper 3.9).
//!
//! The sources (file, variables, flags) only collect settings in a [`ClusterDraft`];
//! [`settle::settle`] combines them. A list with a single participant means a standalone server,
//! unless `standaloneEnabled=false`.

mod secret;
pub(super) mod settle;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use machine::limits::HOST_BYTES_MAX;
use machine::{ServerList, ServerRecord, ServerRole, ZkAddresses};
use member::membership::bootstrap::Attendance;

use super::address::{ListenAddress, every_address_if_unspecified};
use super::report::{ConfigError, Place};
use super::tls::PeerTlsConfig;
use super::values::port;
pub use secret::Secret;
use zk::server_text::{ServerText, in_brackets};

/// The most servers of one ensemble. A membership has room for 64 members, and a server that is
/// being replaced has two. ZooKeeper has no bound; more than seven servers are rare, since each
/// write waits for more than half of them.
pub const SERVERS_MAX: usize = 32;

/// Defaults of `initLimit` and `syncLimit`, as in ZooKeeper's sample file. ZooKeeper itself refuses
/// to start without them.
const INIT_LIMIT_DEFAULT: u32 = 10;
const SYNC_LIMIT_DEFAULT: u32 = 5;
/// The default of `cnxTimeout`: how long connecting to another server may take, 5 s
/// (`QuorumPeer.quorumCnxnTimeoutMs`).
pub const CONNECT_TIMEOUT_MS_DEFAULT: u32 = 5_000;
/// The default of `electionPortBindRetry` (`QuorumCnxManager.DEFAULT_PORT_BIND_MAX_RETRY`).
const BIND_ATTEMPTS_DEFAULT: u32 = 3;

/// The address for ZooKeeper's clients in the record of a server; `None` if it has none.
pub fn client_address_in(record: &ServerRecord) -> Option<ListenAddress> {
    let address = record.zk.as_ref()?.clients.as_ref()?.parse().ok()?;
    Some(every_address_if_unspecified(address))
}

/// The addresses on which a server with a `server.N` line listens for other servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListensOn {
    /// The host in the line.
    Host,
    /// Every address of the machine (`quorumListenOnAllIPs`).
    EveryAddress,
}

/// The settings of a server that belongs to an ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The number of this server (`myid`), a key of `servers`.
    pub number: u32,
    /// All servers by number. Their host names are looked up again for each connection.
    pub servers: BTreeMap<u32, ServerAddress>,
    /// The addresses on which this server accepts connections of other servers.
    pub listen: Vec<ListenAddress>,
    /// Whether `listen` is this server's address in the list, and changes with it; on every address
    /// of the machine, or only on the one in the list. `None` if `listen` was set by itself.
    pub listens_by_list: Option<ListensOn>,
    /// How many servers must be present before the ensemble begins.
    pub attendance: Attendance,
    /// How servers prove to each other that they belong to this ensemble.
    pub auth: PeerAuth,
    /// How long connecting to another server may take, in ms (`cnxTimeout`).
    pub connect_timeout_ms: u32,
    /// Whether the operating system probes silent connections between servers (`tcpKeepAlive`).
    pub keep_alive: bool,
    /// How often this server tries to bind `listen`, once a second, before it gives up; 0: never
    /// gives up (`electionPortBindRetry`).
    pub bind_attempts: u32,
    /// `initLimit`, in ticks. The four-letter word `conf` shows it; it has no other effect here.
    pub init_limit: u32,
    /// `syncLimit`, in ticks. The four-letter word `conf` shows it; it has no other effect here.
    pub sync_limit: u32,
    /// The version of the list of servers: the hexadecimal number at the end of the dynamic file's
    /// name.
    pub version: u64,
    /// Whether the data directory has kept the list. It then follows that of the ensemble, and may
    /// be one that a change led to and that never came.
    pub is_kept: bool,
}

impl ClusterConfig {
    /// The address on which this server listens for other servers once the list has this record of
    /// it; `None` if the list does not decide that.
    pub fn listen_of(&self, own: &ServerRecord) -> Option<ListenAddress> {
        let on = self.listens_by_list?;
        let [host, port, _] = own.zk.as_ref()?.parts();
        let address: ListenAddress = format!("{host}:{port}").parse().ok()?;
        let host = address.host.filter(|_| on == ListensOn::Host);
        Some(every_address_if_unspecified(ListenAddress { host, port: address.port }))
    }

    /// The address of this server.
    pub fn own(&self) -> &ServerAddress {
        self.servers.get(&self.number).expect("the own number is among the servers")
    }

    /// The numbers of the servers that vote, ascending.
    pub fn voters(&self) -> impl Iterator<Item = u32> {
        let voters = self.servers.iter().filter(|(_, it)| it.role == Role::Participant);
        voters.map(|(number, _)| *number)
    }

    /// Sets the URLs at which etcd's clients reach this server, unless it already has some.
    pub fn tell_client_urls(&mut self, urls: &[String]) {
        let own = self.servers.get_mut(&self.number).expect("the own number is among the servers");
        if own.client_urls.is_empty() {
            own.client_urls = urls.to_vec();
        }
    }

    /// The servers in the form in which the state machine replicates them.
    pub fn server_list(&self) -> ServerList {
        let scheme = match self.auth {
            PeerAuth::Tls(_) => "https",
            PeerAuth::None | PeerAuth::Secret(_) => "http",
        };
        let servers = self.servers.iter();
        let servers = servers.map(|(number, it)| (u64::from(*number), it.record(scheme)));
        ServerList { version: self.version, servers: servers.collect() }
    }
}

/// A server of the list, as a `server.N` line describes it: `host:port:port[:role][;[host:]port]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// The host name or IP address.
    pub host: String,
    /// The port on which this server listens for other servers.
    pub peer_port: u16,
    /// ZooKeeper's port for elections. Nothing listens on it here; it is only shown.
    pub election_port: u16,
    /// Whether the server votes.
    pub role: Role,
    /// The address for the server's ZooKeeper clients, if the line has one.
    pub client: Option<ListenAddress>,
    /// The server's name, which etcd's clients see; empty unless etcd's flags give one.
    pub name: String,
    /// The URLs at which etcd's clients reach the server; empty for all servers but this one.
    pub client_urls: Vec<String>,
}

impl ServerAddress {
    /// The replicated record of the server. `scheme` is the scheme of the server's peer URL.
    fn record(&self, scheme: &str) -> ServerRecord {
        let ServerAddress { host, peer_port, election_port, role, client, .. } = self;
        let host = in_brackets(host);
        ServerRecord {
            name: self.name.clone(),
            role: match role {
                Role::Participant => ServerRole::Voter,
                Role::Observer => ServerRole::Observer,
            },
            peer_urls: vec![format!("{scheme}://{host}:{peer_port}")],
            client_urls: self.client_urls.clone(),
            zk: Some(ZkAddresses {
                servers: format!("{host}:{peer_port}:{election_port}"),
                clients: client.as_ref().map(shown_address),
            }),
        }
    }
}

/// Shows a server as `QuorumServer.toString` does.
impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServerAddress { host, peer_port, election_port, role, client, .. } = self;
        write!(f, "{}:{peer_port}:{election_port}:{}", in_brackets(host), role.name())?;
        match client {
            Some(client) => write!(f, ";{}", shown_address(client)),
            None => Ok(()),
        }
    }
}

/// The role of a configured server in an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The server votes.
    Participant,
    /// The server does not vote.
    Observer,
}

impl Role {
    /// The name, spelled as in ZooKeeper.
    pub fn name(self) -> &'static str {
        match self {
            Role::Participant => "participant",
            Role::Observer => "observer",
        }
    }

    /// Parses a role (`QuorumServer.getType`).
    pub(super) fn parse(value: &str) -> Result<Role, String> {
        match value.trim().to_ascii_lowercase().as_str() {
            "participant" => Ok(Role::Participant),
            "observer" => Ok(Role::Observer),
            _ => Err(format!("{value:?} is neither participant nor observer")),
        }
    }
}

/// How servers prove to each other that they belong to the ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAuth {
    /// No proof: every host that reaches the peer port is trusted, as in ZooKeeper by default.
    None,
    /// Each server proves that it knows a secret that all servers share. Messages are not
    /// encrypted.
    Secret(Secret),
    /// Each server shows a certificate that the other one trusts. Messages are encrypted.
    Tls(Box<PeerTlsConfig>),
}

/// The settings of an ensemble that the sources have given so far.
#[derive(Debug)]
pub(super) struct ClusterDraft {
    servers: Vec<ServerLine>,
    pub own: OwnDraft,
    pub standalone_enabled: bool,
    pub version: u64,
    /// Whether the data directory has kept the servers.
    is_kept: bool,
    pub attendance: Attendance,
    pub links: LinksDraft,
    pub auth: PeerAuthDraft,
    /// The first key `group.N` or `weight.N`, if there is one.
    pub grouping: Option<Said>,
    /// The file with the list of servers (`dynamicConfigFile`), and the place that names it.
    pub dynamic_file: Option<(PathBuf, Place)>,
    /// Keys that an ensemble does not support, each with a warning for the author.
    pub complaints: Vec<(Said, &'static str)>,
    /// The addresses for other servers and the authentication, if etcd's flags give the ensemble.
    given: Option<(Vec<ListenAddress>, PeerAuth)>,
}

/// The settings about this server itself.
#[derive(Debug, Default)]
pub(super) struct OwnDraft {
    /// This server's number (`myid`) from a `quorate.toml` or from etcd's flags.
    pub number: Option<(u64, Place)>,
    pub number_default: Option<(u64, Place)>,
    pub peer_type: Option<(Role, Place)>,
    /// This server's number; set by [`settle::settle`].
    pub my_id: Option<u64>,
}

/// The settings of the connections between servers.
#[derive(Debug, Default)]
pub(super) struct LinksDraft {
    pub listen_on_all: bool,
    pub connect_timeout_ms: Option<u32>,
    pub keep_alive: bool,
    pub bind_attempts: Option<u32>,
    pub init_limit: Option<u32>,
    pub sync_limit: Option<u32>,
}

/// The settings of authentication between servers.
#[derive(Debug, Default)]
pub(super) struct PeerAuthDraft {
    /// The file of the shared secret, and the key that names the file.
    pub secret_file: Option<(PathBuf, Said)>,
    /// Whether version 1 of the handshake is accepted; `None` if no source says.
    pub old_handshake: Option<bool>,
    /// `sslQuorum`, if it is true.
    pub tls: Option<Said>,
    /// `quorum.auth.enableSasl`, if it is true.
    pub sasl: Option<Said>,
}

/// The servers of an ensemble, as etcd's flags give them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenServers {
    /// The number of this server.
    pub own: u32,
    /// All servers, by number.
    pub servers: Vec<GivenServer>,
    /// How many servers must be present for the ensemble to begin.
    pub attendance: Attendance,
    /// The URLs at which etcd's clients reach this server.
    pub client_urls: Vec<String>,
    /// The addresses on which this server accepts connections of other servers.
    pub listen: Vec<ListenAddress>,
    /// How servers prove to each other that they belong to the ensemble.
    pub auth: PeerAuth,
    /// Whether the data directory has kept the servers.
    pub is_kept: bool,
}

/// One server, as etcd's flags give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenServer {
    /// The server's number.
    pub number: u32,
    /// The server's name.
    pub name: String,
    /// The server's address in the form of a `server.N` line.
    pub line: String,
}

/// A key of the configuration, and its place.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub place: Place,
    pub key: String,
}

impl Said {
    pub fn new(place: &Place, key: &str) -> Said {
        Said { place: place.clone(), key: key.to_string() }
    }

    pub fn refused(&self, cause: impl Into<String>) -> ConfigError {
        let (place, key) = (self.place.clone(), self.key.clone());
        ConfigError::Invalid { place, key, cause: cause.into() }
    }
}

/// A `server.N` line, and its place.
#[derive(Debug)]
struct ServerLine {
    number: u32,
    address: ServerAddress,
    said: Said,
}

impl Default for ClusterDraft {
    fn default() -> Self {
        ClusterDraft {
            servers: Vec::new(),
            own: OwnDraft::default(),
            standalone_enabled: true,
            is_kept: false,
            version: 0,
            attendance: Attendance::All,
            links: LinksDraft::default(),
            auth: PeerAuthDraft::default(),
            grouping: None,
            dynamic_file: None,
            complaints: Vec::new(),
            given: None,
        }
    }
}

impl ClusterDraft {
    /// Adds the server that a `server.N` line describes.
    pub fn add(&mut self, said: Said, number: &str, value: &str) -> Result<(), String> {
        let number = number
            .parse()
            .map_err(|_| format!("{number:?} is not the number of a server: 0 to {}", u32::MAX))?;
        if let Some(earlier) = self.servers.iter().find(|server| server.number == number) {
            return Err(format!("is server {number}, as {} already is", earlier.said.place));
        }
        let address = server_address(value)?;
        self.servers.push(ServerLine { number, address, said });
        Ok(())
    }

    /// Sets the ensemble that etcd's flags give.
    pub fn give(&mut self, given: &GivenServers) -> Result<(), ConfigError> {
        let said = Said::new(&Place::of("command line"), "--initial-cluster");
        self.own.number = Some((u64::from(given.own), said.place.clone()));
        self.given = Some((given.listen.clone(), given.auth.clone()));
        self.attendance = given.attendance;
        self.is_kept = given.is_kept;
        // A list of one server is that of a server to which others may be added.
        self.standalone_enabled = false;
        for GivenServer { number, name, line } in &given.servers {
            let added = self.add(said.clone(), &number.to_string(), line);
            added.map_err(|cause| said.refused(cause))?;
            let server = self.servers.last_mut().expect("one was added");
            server.address.name = name.clone();
            if *number == given.own {
                server.address.client_urls = given.client_urls.clone();
            }
        }
        Ok(())
    }

    /// The place of the first `server.N`, if there is one.
    pub fn first_place(&self) -> Option<&Place> {
        self.servers.first().map(|server| &server.said.place)
    }

    fn participants(&self) -> usize {
        let role = |server: &&ServerLine| server.address.role == Role::Participant;
        self.servers.iter().filter(role).count()
    }
}

/// Parses `all` or `majority`.
pub(super) fn attendance(text: &str) -> Result<Attendance, String> {
    match text.trim() {
        "all" => Ok(Attendance::All),
        "majority" => Ok(Attendance::Majority),
        _ => Err(format!("{text:?} is neither all nor majority")),
    }
}

/// Parses `host:port:port[:role][;[host:]port]`.
fn server_address(text: &str) -> Result<ServerAddress, String> {
    let ServerText { host, peer_port, election_port, role, client } = ServerText::parse(text)?;
    let role = role.map(Role::parse).transpose()?.unwrap_or(Role::Participant);
    fits_a_host(host)?;
    let (peer_port, election_port) = (dialled_port(peer_port)?, dialled_port(election_port)?);
    if peer_port == election_port {
        return Err("the peer port and the election port are the same".to_string());
    }
    let client = client.map(client_address).transpose()?;
    let (host, name, client_urls) = (host.to_string(), String::new(), Vec::new());
    Ok(ServerAddress { host, peer_port, election_port, role, client, name, client_urls })
}

/// Refuses a host that is longer than a DNS name. A text in the replicated record of a server has
/// at most `SERVER_TEXT_BYTES_MAX` bytes.
fn fits_a_host(host: &str) -> Result<(), String> {
    match host.len() {
        ..=HOST_BYTES_MAX => Ok(()),
        bytes => Err(format!("a host of {bytes} bytes: a DNS name has at most {HOST_BYTES_MAX}")),
    }
}

/// Parses a port that other hosts must dial, so 0 (any free port) is refused.
fn dialled_port(text: &str) -> Result<u16, String> {
    match port(text)? {
        0 => Err("port 0 cannot be dialled".to_string()),
        port => Ok(port),
    }
}

/// Parses the part of a `server.N` line behind the `;`: a port, or an address.
fn client_address(text: &str) -> Result<ListenAddress, String> {
    if !text.contains(':') {
        return Ok(ListenAddress { host: None, port: port(text)? });
    }
    let address = text.parse().map(every_address_if_unspecified)?;
    address.host.as_deref().map_or(Ok(()), fits_a_host)?;
    Ok(address)
}

/// The version in the name of a dynamic file: the hexadecimal number behind its last dot
/// (`QuorumPeerConfig.getVersionFromFilename`).
pub(super) fn version_of_file(path: &Path) -> u64 {
    let name = path.to_string_lossy();
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    i64::from_str_radix(end, 16).ok().and_then(|version| version.try_into().ok()).unwrap_or(0)
}

/// An address for clients, as `QuorumServer.toString` shows it.
pub fn shown_address(address: &ListenAddress) -> String {
    let host = address.host.as_deref().unwrap_or("0.0.0.0");
    format!("{}:{}", in_brackets(host), address.port)
}
