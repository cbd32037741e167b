//! The settings of etcd's keys, and of the face for etcd's clients.

use std::ops::RangeInclusive;
use std::time::Duration;

use etcd::limits::REQUEST_BYTES_MAX_DEFAULT;
use machine::Level;
use machine::etcd::Settings;
use member::fronts::etcd::limits::ETCD_PROGRESS_MS;
use member::fronts::etcd::{MemberChanges, OwnMember};
use member::spaces::etcd::auto_compaction::AutoCompaction;
use token::{AuthToken, OptionsError};

use super::address::ListenAddress;
use super::units;

/// The settings of the face for etcd's clients. There is at least one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The ports for clients, and for metrics.
    pub ports: Vec<EtcdPort>,
    /// The time between reports of progress to a watcher that asked for them and gets no events, in
    /// ms.
    pub progress_ms: u64,
    /// The limits on connections.
    pub connections: EtcdConnections,
    /// The largest write request, in bytes (`max-request-bytes`).
    pub request_bytes_max: usize,
    /// A request that takes longer than this is logged as a warning, in ms.
    pub slow_request_ms: u64,
    /// How users are authenticated.
    pub auth: EtcdAuth,
    /// Whether etcd v2 is served, too (`enable-v2`).
    pub has_v2: bool,
    /// What requests to change the members say of themselves.
    pub member_changes: MemberChanges,
    /// The facts about this server that clients see, and how HTTP is served.
    pub about: EtcdAbout,
}

impl EtcdConfig {
    /// The facts for calls about the members, of a member that uses levels up to `level_max`.
    pub fn own(&self, level_max: Level) -> OwnMember {
        let changes = (level_max >= Level::MEMBERS).then_some(self.member_changes);
        OwnMember { changes, ..self.about.own() }
    }
}

/// How passwords are hashed and tokens made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdAuth {
    /// The kind of tokens, with its options (`auth-token`).
    pub token: AuthToken,
    /// How long a simple token stays valid without use, in s (`auth-token-ttl`).
    pub token_ttl_s: u64,
    /// The cost of hashing a password: a hash takes two to the power of this many rounds
    /// (`bcrypt-cost`).
    pub bcrypt_cost: u32,
}

impl Default for EtcdAuth {
    fn default() -> EtcdAuth {
        EtcdAuth { token: AuthToken::Simple, token_ttl_s: TOKEN_TTL_S, bcrypt_cost: BCRYPT_COST }
    }
}

/// The default of `auth-token-ttl`, in s (`auth.simpleTokenTTLDefault`).
const TOKEN_TTL_S: u64 = 300;

/// The default of `bcrypt-cost` (`bcrypt.DefaultCost`).
const BCRYPT_COST: u32 = 10;

/// The possible values of `bcrypt-cost` (`bcrypt.MinCost`, `bcrypt.MaxCost`).
const BCRYPT_COSTS: RangeInclusive<u32> = 4..=31;

/// The limits on each client connection, and its keep-alive pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdConnections {
    /// The most streams of one connection (`max-concurrent-streams`).
    pub streams_max: u32,
    /// The shortest time that a client must leave between two pings, in ms
    /// (`grpc-keepalive-min-time`).
    pub ping_min_ms: u64,
    /// The server pings a client that was silent for this long, in ms (`grpc-keepalive-interval`).
    pub ping_idle_ms: u64,
    /// A connection closes if the ping is not answered for this long, in ms
    /// (`grpc-keepalive-timeout`).
    pub ping_wait_ms: u64,
}

impl Default for EtcdConnections {
    fn default() -> EtcdConnections {
        EtcdConnections {
            streams_max: STREAMS_MAX,
            ping_min_ms: 5_000,
            ping_idle_ms: 7_200_000,
            ping_wait_ms: 20_000,
        }
    }
}

/// A port for etcd's clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdPort {
    /// The address.
    pub address: ListenAddress,
    /// Whether the port speaks TLS.
    pub wire: EtcdWire,
    /// The services on this port.
    pub service: EtcdService,
}

/// Whether the clients of a port speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdWire {
    /// Without TLS.
    Plain,
    /// TLS, with the key store, trust store and rules of the other TLS ports.
    Secure,
    /// Each connection may use TLS or not, as the client chooses.
    Either,
}

/// The services that a port offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdService {
    /// gRPC, the JSON gateway, and the other HTTP routes.
    All,
    /// gRPC alone.
    Grpc,
    /// The JSON gateway and the other HTTP routes, without gRPC.
    Http,
    /// Metrics and health alone.
    Metrics,
}

/// The facts about this server that etcd's clients see, and how HTTP is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdAbout {
    /// The name of this server (`--name`).
    pub name: String,
    /// The URLs at which other servers reach this one.
    pub peer_urls: Vec<String>,
    /// The URLs at which clients reach this server. By default, the addresses of its ports, without
    /// those that mean every local address or any free port.
    pub client_urls: Vec<String>,
    /// Whether the JSON gateway is served.
    pub has_gateway: bool,
    /// Whether metrics include the durations of calls (`--metrics=extensive`).
    pub has_call_times: bool,
    /// The origins of pages that may send requests (`--cors`); `*` means every origin.
    pub origins: Vec<String>,
    /// The host names of this server that clients without TLS may use (`--host-whitelist`); `*`
    /// means every name.
    pub hosts: Vec<String>,
    /// Whether HTTP refuses requests that pages of other sites make a browser send. gRPC is not
    /// affected: no page can call it.
    pub refuses_foreign_pages: bool,
    /// Each feature gate: name, stage, and whether it is on.
    pub gates: Vec<(&'static str, &'static str, bool)>,
}

impl EtcdAbout {
    /// The entry of this server in the list of members.
    pub fn own(&self) -> OwnMember {
        let (name, peer_urls) = (self.name.clone(), self.peer_urls.clone());
        OwnMember { name, peer_urls, client_urls: self.client_urls.clone(), changes: None }
    }
}

impl Default for EtcdAbout {
    fn default() -> EtcdAbout {
        EtcdAbout {
            name: "default".to_string(),
            peer_urls: Vec::new(),
            client_urls: Vec::new(),
            has_gateway: true,
            has_call_times: false,
            origins: vec!["*".to_string()],
            hosts: vec!["*".to_string()],
            refuses_foreign_pages: false,
            gates: Vec::new(),
        }
    }
}

/// The settings of etcd's keys. A leader applies its own settings even if it serves no etcd client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdKeys {
    /// The settings that are replicated, because they change the outcome of commands.
    pub replicated: Settings,
    /// The compactions that a leader proposes by itself.
    pub auto_compaction: AutoCompaction,
}

/// The settings of etcd that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct EtcdDraft {
    /// The face is served if this address, `tls_addr` or `given` is set.
    pub addr: Option<ListenAddress>,
    pub tls_addr: Option<ListenAddress>,
    replicated: Settings,
    /// Whether `retention` counts revisions; false: it is a time.
    keeps_revisions: bool,
    /// The value of `auto-compaction-retention`, not parsed yet.
    retention: Option<String>,
    progress_ms: Option<u64>,
    connections: EtcdConnections,
    request_bytes_max: Option<usize>,
    slow_request_ms: Option<u64>,
    auth: EtcdAuth,
    member_changes: MemberChanges,
    /// Whether etcd v2 is served, too.
    pub has_v2: bool,
    /// Ports and facts about this server, if etcd's own flags give them.
    pub given: Option<(Vec<EtcdPort>, EtcdAbout)>,
}

/// etcd's client port (`embed.DefaultListenClientURLs`); here on loopback only.
pub const ETCD_PORT_DEFAULT: u16 = 2379;

impl EtcdDraft {
    pub fn is_served(&self) -> bool {
        self.addr.is_some() || self.tls_addr.is_some() || self.given.is_some()
    }

    /// Serves clients on the default port of loopback.
    pub fn name_default(&mut self) {
        self.addr = Some(ListenAddress::loopback(ETCD_PORT_DEFAULT));
    }

    /// Applies the setting that etcd's flag of this name sets. Returns false if no flag has the
    /// name.
    pub fn set(&mut self, flag: &str, value: &str) -> Result<bool, String> {
        match flag {
            "quota-backend-bytes" => self.replicated.quota_bytes = quota(value)?,
            "max-txn-ops" => {
                let count = value.parse().ok().filter(|&count| (1..=TXN_OPS_MAX).contains(&count));
                self.replicated.txn_ops_max =
                    count.ok_or_else(|| format!("is not between 1 and {TXN_OPS_MAX}"))?;
            }
            "auto-compaction-mode" => {
                self.keeps_revisions = match value {
                    "periodic" => false,
                    "revision" => true,
                    _ => return Err(format!("{value:?} is neither periodic nor revision")),
                };
            }
            "auto-compaction-retention" => self.retention = Some(value.to_string()),
            "watch-progress-notify-interval" => {
                let ms = duration_ms(value)?;
                // etcd has the same default for 0, and the same lower bound.
                self.progress_ms = (ms > 0).then_some(ms.max(PROGRESS_MS_MIN));
            }
            // etcd has the same default for 0.
            "warning-unary-request-duration" => {
                let ms = duration_ms(value)?;
                self.slow_request_ms = (ms > 0).then_some(ms);
            }
            "max-request-bytes" => {
                let bytes = value.parse().ok().filter(|bytes| REQUEST_BYTES.contains(bytes));
                let (min, max) = (REQUEST_BYTES.start(), REQUEST_BYTES.end());
                let wrong = || format!("is not between {min} and {max}");
                self.request_bytes_max = Some(bytes.ok_or_else(wrong)?);
            }
            "auth-token" => {
                let time = |text: &str| duration_ms(text).ok().map(Duration::from_millis);
                self.auth.token = AuthToken::parse(value, time).map_err(|error| why(&error))?;
            }
            "auth-token-ttl" => {
                let ttl_s = value.parse().map_err(|_| format!("{value:?} is no number"))?;
                // etcd has the same default for 0.
                self.auth.token_ttl_s = if ttl_s == 0 { TOKEN_TTL_S } else { ttl_s };
            }
            "bcrypt-cost" => {
                let cost = value.parse().map_err(|_| format!("{value:?} is no number"))?;
                // etcd uses the default in place of an impossible cost.
                let is_possible = BCRYPT_COSTS.contains(&cost);
                self.auth.bcrypt_cost = if is_possible { cost } else { BCRYPT_COST };
            }
            "strict-reconfig-check" => {
                let switch =
                    value.parse().map_err(|_| format!("{value:?} is neither true nor false"));
                self.member_changes.is_strict = switch?;
            }
            "max-learners" => {
                let count = value.parse().ok().filter(|count| *count > 0);
                self.member_changes.learners_max =
                    count.ok_or_else(|| format!("{value:?} is no number above 0"))?;
            }
            _ => return self.set_connections(flag, value),
        }
        Ok(true)
    }

    /// Like [`EtcdDraft::set`], for settings of connections. 0 means the default of grpc-go, as in
    /// etcd.
    fn set_connections(&mut self, flag: &str, value: &str) -> Result<bool, String> {
        let ms = |of_zero: u64| match duration_ms(value)? {
            0 => Ok::<u64, String>(of_zero),
            ms => Ok(ms),
        };
        let all = &mut self.connections;
        match flag {
            "grpc-keepalive-min-time" => all.ping_min_ms = ms(PING_MIN_MS_OF_GRPC)?,
            "grpc-keepalive-interval" => {
                all.ping_idle_ms = ms(EtcdConnections::default().ping_idle_ms)?;
            }
            "grpc-keepalive-timeout" => {
                all.ping_wait_ms = ms(EtcdConnections::default().ping_wait_ms)?;
            }
            "max-concurrent-streams" => {
                let count = value.parse::<u32>().map_err(|_| format!("{value:?} is no number"))?;
                all.streams_max = if count == 0 { STREAMS_MAX } else { count.min(STREAMS_MAX) };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub fn finish(self) -> Result<(Option<EtcdConfig>, EtcdKeys), String> {
        let auto_compaction = match self.retention.as_deref() {
            None | Some("" | "0") => AutoCompaction::Off,
            Some(text) if self.keeps_revisions => {
                let count = revisions(text);
                let count = count.map_err(|cause| format!("auto-compaction-retention: {cause}"))?;
                AutoCompaction::Revisions { count }
            }
            Some(text) => {
                let ms = period_ms(text);
                let ms = ms.map_err(|cause| format!("auto-compaction-retention: {cause}"))?;
                AutoCompaction::Periodic { ms }
            }
        };
        let is_served = self.is_served();
        let progress_ms = self.progress_ms.unwrap_or(ETCD_PROGRESS_MS);
        let port = |address, wire| EtcdPort { address, wire, service: EtcdService::All };
        let plain = self.addr.map(|address| port(address, EtcdWire::Plain));
        let secure = self.tls_addr.map(|address| port(address, EtcdWire::Secure));
        let (given, mut about) = self.given.unwrap_or_default();
        if about.client_urls.is_empty() {
            let urls =
                [("http", &plain), ("https", &secure)].into_iter().filter_map(|(scheme, at)| {
                    at.as_ref()?.address.reachable().map(|address| format!("{scheme}://{address}"))
                });
            about.client_urls = urls.collect();
        }
        let config = EtcdConfig {
            ports: plain.into_iter().chain(secure).chain(given).collect(),
            progress_ms,
            connections: self.connections,
            request_bytes_max: self.request_bytes_max.unwrap_or(REQUEST_BYTES_MAX_DEFAULT),
            slow_request_ms: self.slow_request_ms.unwrap_or(SLOW_REQUEST_MS),
            auth: self.auth,
            has_v2: self.has_v2,
            member_changes: self.member_changes,
            about,
        };
        let keys = EtcdKeys { replicated: self.replicated, auto_compaction };
        Ok((is_served.then_some(config), keys))
    }
}

/// The text of a wrong `auth-token`, with the reason, which etcd writes only to its log.
fn why(error: &OptionsError) -> String {
    match error {
        OptionsError::InvalidOptions { why } => format!("{error}: {why}"),
        _ => error.to_string(),
    }
}

/// The most operations that `max-txn-ops` may allow.
const TXN_OPS_MAX: u32 = etcd::limits::TXN_OPS_TOTAL_MAX as u32;

/// The range of `max-request-bytes`. A command of the largest size is a quarter of a log entry.
pub const REQUEST_BYTES: RangeInclusive<usize> = 1_024..=16 * 1024 * 1024;

/// The most streams of one connection. etcd has no bound by default; a client that makes more calls
/// at once waits.
const STREAMS_MAX: u32 = 10_000;

/// The shortest time that a client must leave between two pings if `grpc-keepalive-min-time` is 0,
/// in ms (grpc-go: `defaultKeepalivePolicyMinTime`).
const PING_MIN_MS_OF_GRPC: u64 = 300_000;

/// The default time above which a request is logged, in ms
/// (`embed.DefaultWarningUnaryRequestDuration`).
const SLOW_REQUEST_MS: u64 = 300;

/// The shortest period of automatic compaction, in ms: a tenth of it must be a whole millisecond.
const PERIOD_MS_MIN: u64 = 10;

/// The shortest interval between two reports of progress to a watcher, in ms
/// (`v3rpc.minWatchProgressInterval`).
const PROGRESS_MS_MIN: u64 = 100;

/// Parses a quota in bytes. 0 means the default, and a negative number means no quota.
fn quota(value: &str) -> Result<u64, String> {
    match value.parse::<i64>() {
        Ok(0) => Ok(Settings::default().quota_bytes),
        Ok(..0) => Ok(u64::MAX),
        _ => units::parse_bytes(value),
    }
}

/// Parses a number of revisions. As in etcd, a time counts as many revisions as it has nanoseconds
/// (`embed.parseCompactionRetention`).
fn revisions(text: &str) -> Result<i64, String> {
    let count = match text.parse::<i64>() {
        Ok(count) => count,
        Err(_) => {
            let ns = duration_ns(text)?;
            i64::try_from(ns).map_err(|_| format!("{text:?} is too long"))?
        }
    };
    if count > 0 { Ok(count) } else { Err(format!("{text:?} counts no revisions")) }
}

/// Parses a period into ms: a number of hours, or a time with units, as `1h30m`
/// (`embed.parseCompactionRetention`).
fn period_ms(text: &str) -> Result<u64, String> {
    let too_long = || format!("{text:?} is too long");
    let ms = match text.parse::<u64>() {
        Ok(hours) => hours.checked_mul(3_600_000).ok_or_else(too_long)?,
        Err(_) => duration_ms(text)?,
    };
    match ms >= PERIOD_MS_MIN {
        true => Ok(ms),
        false => Err(format!("{text:?} is shorter than {PERIOD_MS_MIN} ms")),
    }
}

/// Parses a time with units into milliseconds, rounded up.
pub fn duration_ms(text: &str) -> Result<u64, String> {
    let ns = duration_ns(text)?;
    u64::try_from(ns.div_ceil(1_000_000)).map_err(|_| format!("{text:?} is too long"))
}

/// Parses a time with units into nanoseconds, as `1h30m` or `1.5s`; only 0 needs no unit (Go's
/// `time.ParseDuration`).
fn duration_ns(text: &str) -> Result<u128, String> {
    let wrong = || format!("{text:?} is not a time; write it like 200ms, 30s or 1h30m");
    let (mut rest, mut sum_ns) = (text, 0_u128);
    if text.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() && text != "0" {
        let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
        let digits = rest.find(|c| !is_of_number(c)).ok_or_else(wrong)?;
        let unit = rest[digits..].find(is_of_number).map_or(rest.len(), |unit| digits + unit);
        let unit_ns: u128 = match &rest[digits..unit] {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        sum_ns += number_ns(&rest[..digits], unit_ns).ok_or_else(wrong)?;
        rest = &rest[unit..];
    }
    Ok(sum_ns)
}

/// Parses a number, which may have a fraction, and multiplies it by `unit_ns`. `None` if it has
/// more than 15 digits on either side of the point.
fn number_ns(number: &str, unit_ns: u128) -> Option<u128> {
    const DIGITS_MAX: usize = 15;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || whole.len().max(fraction.len()) > DIGITS_MAX {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let scale = 10_u128.pow(fraction.len() as u32);
    Some(digits(whole)? * unit_ns + digits(fraction)? * unit_ns / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(settings: &[(&str, &str)]) -> Result<EtcdKeys, String> {
        let mut draft = EtcdDraft::default();
        for (flag, value) in settings {
            assert!(draft.set(flag, value)?, "{flag} is a flag");
        }
        draft.finish().map(|(_, keys)| keys)
    }

    #[test]
    fn flags_mean_what_they_mean_in_etcd() {
        assert_eq!(keys(&[]), Ok(EtcdKeys::default()));
        let quota = |value| keys(&[("quota-backend-bytes", value)]).map(|it| it.replicated);
        let default = Settings::default();
        assert_eq!(quota("0"), Ok(default));
        assert_eq!(quota("-1"), Ok(Settings { quota_bytes: u64::MAX, ..default }));
        assert_eq!(quota("8589934592"), Ok(Settings { quota_bytes: 8 << 30, ..default }));
        assert_eq!(quota("8GiB"), Ok(Settings { quota_bytes: 8 << 30, ..default }));
        let ops = keys(&[("max-txn-ops", "1000")]).map(|it| it.replicated.txn_ops_max);
        assert_eq!(ops, Ok(1_000));
        for wrong in ["0", "-1", "x", "1000001"] {
            assert!(keys(&[("max-txn-ops", wrong)]).is_err(), "{wrong}");
        }
        assert!(!EtcdDraft::default().set("no-flag", "1").expect("it is no value"));
    }

    #[test]
    fn clients_are_told_the_addresses_that_they_can_reach() {
        let urls = |addr: &str, tls_addr: &str| {
            let (addr, tls_addr) = (addr.parse().ok(), tls_addr.parse().ok());
            let draft = EtcdDraft { addr, tls_addr, ..EtcdDraft::default() };
            let (config, _) = draft.finish().expect("it is sound");
            config.expect("it is served").about.client_urls.join(" ")
        };
        assert_eq!(urls("10.0.0.1:2379", ""), "http://10.0.0.1:2379");
        let both = "http://[::1]:2379 https://etcd.example:2380";
        assert_eq!(urls("[::1]:2379", "etcd.example:2380"), both);
        for unreachable in ["0.0.0.0:2379", "[::]:2379", "*:2379", "127.0.0.1:0"] {
            assert_eq!(urls(unreachable, "10.0.0.1:1"), "https://10.0.0.1:1", "{unreachable}");
        }
    }

    #[test]
    fn watchers_are_told_their_progress_in_an_interval() {
        let progress_ms = |value: &str| {
            let mut draft = EtcdDraft { addr: "127.0.0.1:0".parse().ok(), ..EtcdDraft::default() };
            draft.set("watch-progress-notify-interval", value)?;
            draft.finish().map(|(config, _)| config.expect("it is served").progress_ms)
        };
        for (value, ms) in [("0", 600_000), ("0s", 600_000), ("1m30s", 90_000), ("5ms", 100)] {
            assert_eq!(progress_ms(value), Ok(ms), "{value}");
        }
        assert!(progress_ms("5").is_err() && progress_ms("-1s").is_err());
    }

    #[test]
    fn connections_are_kept_alive_as_the_flags_say() {
        let connections = |settings: &[(&str, &str)]| {
            let mut draft = EtcdDraft { addr: "127.0.0.1:0".parse().ok(), ..EtcdDraft::default() };
            for (flag, value) in settings {
                assert!(draft.set(flag, value)?, "{flag} is a flag");
            }
            draft.finish().map(|(config, _)| config.expect("it is served").connections)
        };
        let default = EtcdConnections::default();
        assert_eq!(connections(&[]), Ok(default));
        let set = [
            ("grpc-keepalive-min-time", "10s"),
            ("grpc-keepalive-interval", "1m"),
            ("grpc-keepalive-timeout", "500ms"),
            ("max-concurrent-streams", "7"),
        ];
        let expected = EtcdConnections {
            streams_max: 7,
            ping_min_ms: 10_000,
            ping_idle_ms: 60_000,
            ping_wait_ms: 500,
        };
        assert_eq!(connections(&set), Ok(expected));
        let none = set.map(|(flag, _)| (flag, "0"));
        assert_eq!(connections(&none), Ok(EtcdConnections { ping_min_ms: 300_000, ..default }));
        assert_eq!(connections(&[("max-concurrent-streams", "4294967295")]), Ok(default));
        assert!(connections(&[("max-concurrent-streams", "-1")]).is_err());
    }

    #[test]
    fn requests_have_bounds() {
        let config = |flag: &str, value: &str| {
            let mut draft = EtcdDraft { addr: "127.0.0.1:0".parse().ok(), ..EtcdDraft::default() };
            draft.set(flag, value)?;
            draft.finish().map(|(config, _)| config.expect("it is served"))
        };
        let bytes = |value: &str| config("max-request-bytes", value).map(|it| it.request_bytes_max);
        assert_eq!(bytes("10485760"), Ok(10_485_760));
        assert_eq!((bytes("1024"), bytes("16777216")), (Ok(1_024), Ok(16_777_216)));
        for wrong in ["0", "1023", "16777217", "x", "-1"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        let slow = |value: &str| {
            config("warning-unary-request-duration", value).map(|it| it.slow_request_ms)
        };
        assert_eq!((slow("0s"), slow("1.5s")), (Ok(SLOW_REQUEST_MS), Ok(1_500)));
    }

    #[test]
    fn a_retention_is_hours_a_time_or_revisions() {
        let periodic = |text| keys(&[("auto-compaction-retention", text)]);
        let cases =
            [("1", 3_600_000), ("5m", 300_000), ("1h30m10s", 5_410_000), ("0.5h", 1_800_000)];
        for (text, ms) in cases {
            let mode = periodic(text).map(|keys| keys.auto_compaction);
            assert_eq!(mode, Ok(AutoCompaction::Periodic { ms }), "{text}");
        }
        assert_eq!(periodic("0"), Ok(EtcdKeys::default()));
        assert_eq!(periodic(""), Ok(EtcdKeys::default()));
        for wrong in ["m", "5", "1h30", "5ms", "-1", "99999999999999999", "1.2.3h", ".s"] {
            let is_wrong = periodic(wrong).is_err();
            assert_eq!(is_wrong, wrong != "5", "{wrong}");
        }
        let revisions = |text| {
            let mode = ("auto-compaction-mode", "revision");
            keys(&[mode, ("auto-compaction-retention", text)]).map(|keys| keys.auto_compaction)
        };
        assert_eq!(revisions("1000"), Ok(AutoCompaction::Revisions { count: 1_000 }));
        assert_eq!(revisions("0"), Ok(AutoCompaction::Off));
        assert_eq!(revisions("1h"), Ok(AutoCompaction::Revisions { count: 3_600_000_000_000 }));
        for wrong in ["-1", "-1h", "x", "9999999h"] {
            assert!(revisions(wrong).is_err(), "{wrong}");
        }
        assert!(keys(&[("auto-compaction-mode", "never")]).is_err());
    }
}
