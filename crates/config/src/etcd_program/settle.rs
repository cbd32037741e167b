//! Turns the values of all flags into a configuration, and checks rules that span several flags
//! (`embed/config.go`, `Config.Validate`).

use std::path::{Path, PathBuf};

use storage::datadir::IDENTITY_FILE;

use super::cluster;
use super::kept::Kept;
use super::tls;
use super::url::{Scheme, Url};
use super::values::{Gate, Values};
use crate::ServeArgs;
use crate::etcd::{EtcdAbout, EtcdPort, EtcdService, EtcdWire};
use crate::log_style::LogStyle;
use crate::report::Warning;
use crate::{EtcdGiven, ListenAddress, ReadFile};

/// Flags whose values go unchanged to [`crate::etcd`], which applies each by its name.
const SETTINGS: [&str; 16] = [
    "quota-backend-bytes",
    "max-txn-ops",
    "max-request-bytes",
    "max-concurrent-streams",
    "grpc-keepalive-min-time",
    "grpc-keepalive-interval",
    "grpc-keepalive-timeout",
    "auto-compaction-mode",
    "auto-compaction-retention",
    "watch-progress-notify-interval",
    "warning-unary-request-duration",
    "auth-token",
    "auth-token-ttl",
    "bcrypt-cost",
    "strict-reconfig-check",
    "max-learners",
];

/// The longest election timeout that etcd accepts, in ms.
const ELECTION_MS_MAX: u64 = 50_000;

/// The configuration for these values. `is_from_file`: they come from a file, where
/// `--advertise-client-urls` may be missing. `may_grow`: other servers may be added to one that is
/// alone, so that it has a list of servers, too.
///
/// # Errors
/// The values contradict each other, or ask for something that is not served.
pub(super) fn serve_args(
    mut values: Values,
    mut warnings: Vec<Warning>,
    (is_from_file, may_grow): (bool, bool),
    read: ReadFile<'_>,
) -> Result<ServeArgs, String> {
    let gates = values.resolve()?;
    let data_dir = match values.path("data-dir") {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(format!("{}.etcd", values.text("name"))),
    };
    let kept = Kept::read(&data_dir, read)?;
    if let Some(kept) = &kept {
        warnings.extend(values.ignore_first_start(|values| {
            cluster::of_flags(values).is_ok_and(|of_flags| of_flags == *kept)
        }));
    }
    warnings.extend(values.without_effect()?);
    warnings.extend(values.cap_request_bytes());
    check_times(&values)?;
    let is_missing =
        values.is_given("listen-client-urls") && !values.is_given("advertise-client-urls");
    if is_missing && !is_from_file {
        return Err("--advertise-client-urls is required when --listen-client-urls is set \
                    explicitly"
            .to_string());
    }
    let ports = ports(&values)?;
    let (tls, self_signed) = tls::of_clients(&values, &ports, &data_dir, &mut warnings)?;
    let has_begun = kept.is_some() || !matches!(read(&data_dir.join(IDENTITY_FILE)), Ok(None));
    let is_kept = kept.is_some();
    let members = kept.map_or_else(|| cluster::of_flags(&values), Ok)?;
    if !has_begun && members.own == 0 && cluster::is_existing(&values) {
        return Err("cannot fetch cluster info from peer urls: could not retrieve cluster \
                    information from the given URLs"
            .to_string());
    }
    let members = match members.own {
        0 if may_grow => cluster::lone(&values),
        _ => members,
    };
    let (cluster, own_self_signed) = cluster::given(&values, &data_dir, &members, is_kept)?;
    let style = LogStyle::from_etcd(
        values.text("logger"),
        values.text("log-level"),
        values.text("log-format"),
        &values.texts("log-outputs"),
    )?;
    let setting = |flag: &&'static str| (*flag, values.text(flag).to_string());
    let given = EtcdGiven {
        ports,
        about: about(&values, gates),
        settings: SETTINGS.iter().filter(|flag| values.is_given(flag)).map(setting).collect(),
        tls,
        self_signed: self_signed.into_iter().chain(own_self_signed).collect(),
        cluster,
        log_dir: values.path("wal-dir").map(PathBuf::from),
        force_new_cluster: values.is_on("force-new-cluster"),
        level_max: None,
        log: style,
        warnings,
    };
    Ok(ServeArgs {
        data_dir: Some(data_dir),
        etcd_v2: values.is_on("enable-v2"),
        etcd: Some(Box::new(given)),
        ..ServeArgs::default()
    })
}

/// Checks flags that would end etcd with a wrong value: two times, which have no effect here, and
/// the mode of compaction.
fn check_times(values: &Values) -> Result<(), String> {
    let (heartbeat, election) =
        (values.count("heartbeat-interval"), values.count("election-timeout"));
    if heartbeat == 0 {
        return Err("--heartbeat-interval must be >0 (set to 0ms)".to_string());
    }
    if election == 0 {
        return Err("--election-timeout must be >0 (set to 0ms)".to_string());
    }
    if heartbeat.saturating_mul(5) > election {
        return Err(format!(
            "--election-timeout[{election}ms] should be at least as 5 times as \
             --heartbeat-interval[{heartbeat}ms]"
        ));
    }
    if election > ELECTION_MS_MAX {
        return Err(format!(
            "--election-timeout[{election}ms] is too long, and should be set less than \
             {ELECTION_MS_MAX}ms"
        ));
    }
    match values.text("auto-compaction-mode") {
        "periodic" | "revision" => Ok(()),
        "" => Err("undefined auto-compaction-mode".to_string()),
        mode => Err(format!("unknown auto-compaction-mode {mode:?}")),
    }
}

/// The ports for clients and for metrics. URLs with the same address share a port.
fn ports(values: &Values) -> Result<Vec<EtcdPort>, String> {
    let (all, http) = (values.urls("listen-client-urls"), values.urls("listen-client-http-urls"));
    let service = if http.is_empty() { EtcdService::All } else { EtcdService::Grpc };
    let mut ports = Vec::new();
    for url in &all {
        add_port(&mut ports, url, service)?;
    }
    for (urls, service) in
        [(&http, EtcdService::Http), (&values.urls("listen-metrics-urls"), EtcdService::Metrics)]
    {
        for url in urls {
            add_port(&mut ports, url, service)?;
        }
    }
    if all.is_empty() {
        return Err("--listen-client-urls is empty".to_string());
    }
    Ok(ports)
}

fn add_port(ports: &mut Vec<EtcdPort>, url: &Url, service: EtcdService) -> Result<(), String> {
    let address: ListenAddress = url.to_listen()?;
    let wire = if url.scheme == Scheme::Https { EtcdWire::Secure } else { EtcdWire::Plain };
    // Port 0 is never shared: each URL with it gets a free port of its own.
    let same = ports.iter_mut().find(|port| port.address == address && address.port != 0);
    match same {
        None => ports.push(EtcdPort { address, wire, service }),
        Some(port) if port.service != service => {
            return Err(format!("{url} is the address of two ports that serve different things"));
        }
        Some(port) if port.wire != wire => port.wire = EtcdWire::Either,
        Some(_) => {}
    }
    Ok(())
}

fn about(values: &Values, gates: Vec<Gate>) -> EtcdAbout {
    let shown = |flag| values.urls(flag).iter().map(Url::to_string).collect();
    let or_all = |texts: Vec<String>| if texts.is_empty() { vec!["*".to_string()] } else { texts };
    EtcdAbout {
        name: values.text("name").to_string(),
        peer_urls: shown("initial-advertise-peer-urls"),
        client_urls: shown("advertise-client-urls"),
        has_gateway: values.is_on("enable-grpc-gateway"),
        has_call_times: values.text("metrics") == "extensive",
        origins: or_all(values.texts("cors")),
        refuses_foreign_pages: false,
        hosts: or_all(values.texts("host-whitelist")),
        gates,
    }
}

/// The folder for certificates that the server makes itself; `of` is `client` or `peer`.
pub(super) fn fixtures(data_dir: &Path, of: &str) -> PathBuf {
    data_dir.join("fixtures").join(of)
}
