//! Applies ZooKeeper's own configuration: the keys of `zoo.cfg` and of its dynamic file, and the
//! `-D` properties of Java's command line.
//!
//! A key of `zoo.cfg` that `QuorumPeerConfig.parseProperties` does not know becomes the property
//! `zookeeper.<key>`, and overrides a property of that name from the command line. So keys and
//! properties meet in [`apply_property`]. If ZooKeeper never reads the property of a line, the line
//! is dead: it has no effect here either, and causes a warning. If it had an effect here, it could
//! switch off certificates or permissions that are on in ZooKeeper.

use std::path::Path;

use machine::Settings;
use member::spaces::zk::containers::ContainerSettings;
use zk::files::properties;

use super::chunk::{ChunkDraft, parse_layout};
use super::cluster::{ClusterDraft, Role, Said, attendance, version_of_file};
use super::draft::Draft;
use super::etcd::EtcdDraft;
use super::files::{ReadFile, must_read};
use super::listeners::{FourLetterWords, ListenersDraft};
use super::logging::LoggingConfig;
use super::monitoring::AdminDraft;
use super::report::{ConfigError, Place};
use super::requests::{JUTE_BYTES_MAX_MAX, RequestsDraft};
use super::sasl;
use super::sessions::SessionsDraft;
use super::storage::{SNAPSHOT_COMMAND_COUNT_MIN, StorageDraft};
use super::units::parse_bytes;
use super::values::{
    Fate, RECONFIG_NEEDS_LEVEL, boolean, decimal_in, decimal_or_default, decimal_or_unlimited,
    digest_algorithm, level_max, list, log_filter, log_rule, number, number_in, path, port,
    super_digest, unless, unlimited_below_one, yes_or_no,
};

/// Properties whose names have no prefix `zookeeper.` in ZooKeeper.
const UNPREFIXED: [&str; 7] = [
    sasl::JAAS_FILE,
    "jute.maxbuffer",
    "readonlymode.enabled",
    "znode.container.checkIntervalMs",
    "znode.container.maxPerMinute",
    "znode.container.maxNeverUsedIntervalMs",
    "fsync.warningthresholdms",
];

/// The prefix of all other properties.
const PREFIX: &str = "zookeeper.";

/// Whether ZooKeeper or this server reads the property `zookeeper.<name>`.
fn is_read_with_prefix(name: &str) -> bool {
    // `FileTxnLog` reads this one with the prefix as well.
    !name.starts_with(PREFIX) && (!UNPREFIXED.contains(&name) || name == "fsync.warningthresholdms")
}

/// The prefix of our own properties, which ZooKeeper does not have.
const OURS: &str = "quorate.";

/// Applies the `-D` properties in an environment variable.
pub(super) fn apply_jvm_flags(
    draft: &mut Draft,
    variable: &str,
    flags: &str,
) -> Result<(), ConfigError> {
    let place = Place::of(variable);
    for (key, value) in properties::jvm_properties(flags) {
        draft.system_properties.insert(key.clone(), value.clone());
        let name = match key.strip_prefix(PREFIX) {
            Some(name) if is_read_with_prefix(name) => name,
            Some(name) => {
                let message = format!("is read as -D{name} only; it is ignored, as in ZooKeeper");
                draft.report.warn(&place, &key, message);
                continue;
            }
            None if UNPREFIXED.contains(&key.as_str()) => key.as_str(),
            None if key.starts_with(OURS) => key.as_str(),
            None => {
                draft.report.note(&place, &key, "is no property of ZooKeeper; it is ignored");
                continue;
            }
        };
        match apply_property(draft, &place, name, value.trim()) {
            Ok(Fate::Taken | Fate::Moot) => {}
            Ok(Fate::Noted(message)) => draft.report.note(&place, &key, message),
            Ok(Fate::Differs(message)) => draft.report.warn(&place, &key, message),
            Ok(Fate::Unknown) => draft.report.note(&place, &key, "is unknown; it is ignored"),
            Err(cause) => return Err(ConfigError::Invalid { place, key, cause }),
        }
    }
    Ok(())
}

/// Applies a `zoo.cfg`, and the dynamic file that it may name.
pub(super) fn apply(
    draft: &mut Draft,
    file: &str,
    text: &str,
    read: ReadFile<'_>,
) -> Result<(), ConfigError> {
    for entry in last_of_each_key(draft, file, text)? {
        apply_entry(draft, &Place::at(file, entry.line), &entry.key, &entry.value)?;
    }
    if let Some((path, place)) = draft.cluster.dynamic_file.clone() {
        apply_dynamic_file(draft, &path, &place, read)?;
    }
    draft.listeners.settle_zoo_ports()
}

/// Applies one key of a `zoo.cfg`. The key may come from a file or from a variable.
pub(super) fn apply_entry(
    draft: &mut Draft,
    place: &Place,
    key: &str,
    value: &str,
) -> Result<(), ConfigError> {
    let fate = match apply_key(draft, place, key, value) {
        Ok(Fate::Unknown) => {
            // `QuorumPeerConfig` turns unknown keys into properties.
            draft.system_properties.insert(format!("{PREFIX}{key}"), value.to_string());
            match is_read_with_prefix(key) {
                true => apply_property(draft, place, key, value),
                false => Ok(Fate::Differs(dead_line(key))),
            }
        }
        known => known,
    };
    match fate {
        Ok(Fate::Taken | Fate::Moot) => {}
        Ok(Fate::Noted(message)) => draft.report.note(place, key, message),
        Ok(Fate::Differs(message)) => draft.report.warn(place, key, message),
        Ok(Fate::Unknown) => draft.report.warn(place, key, "is unknown; it is ignored"),
        Err(cause) => {
            let (place, key) = (place.clone(), key.to_string());
            return Err(ConfigError::Invalid { place, key, cause });
        }
    }
    Ok(())
}

/// The warning for a dead line, which ZooKeeper turns into a property that it never reads.
fn dead_line(key: &str) -> String {
    let instead = match key.strip_prefix(PREFIX) {
        Some(name) if is_read_with_prefix(name) => format!("write {name} in the file"),
        name => format!("set -D{} instead", name.unwrap_or(key)),
    };
    format!(
        "means {PREFIX}{key} to ZooKeeper, which reads no such property; it is ignored: {instead}"
    )
}

/// The entries of a properties file. Of entries with the same key only the last is kept, as in
/// Java's `Properties`, with a warning. A repeated `server.N` is refused, because one of the two
/// must be wrong.
fn last_of_each_key(
    draft: &mut Draft,
    file: &str,
    text: &str,
) -> Result<Vec<properties::Entry>, ConfigError> {
    let mut kept: Vec<properties::Entry> = Vec::new();
    let entries = properties::parse(text)
        .map_err(|(line, cause)| ConfigError::Malformed { place: Place::at(file, line), cause })?;
    for entry in entries {
        if let Some(index) = kept.iter().position(|earlier| earlier.key == entry.key) {
            if entry.key.starts_with("server.") {
                let cause = format!("stands on line {}, too", kept[index].line);
                let place = Place::at(file, entry.line);
                return Err(ConfigError::Invalid { place, key: entry.key, cause });
            }
            let earlier = kept.remove(index);
            let message = format!("is set again on line {}; only that counts", entry.line);
            draft.report.warn(&Place::at(file, earlier.line), &earlier.key, message);
        }
        kept.push(entry);
    }
    Ok(kept)
}

/// Applies a key that `QuorumPeerConfig` itself reads.
fn apply_key(draft: &mut Draft, place: &Place, key: &str, value: &str) -> Result<Fate, String> {
    match key {
        "dataDir" => draft.storage.data_dir = Some(path(value)?),
        "dataLogDir" => draft.storage.log_dir = Some(path(value)?),
        "clientPort" => draft.listeners.zoo_ports.client_port = Some((port(value)?, place.clone())),
        "clientPortAddress" => {
            draft.listeners.zoo_ports.client_port_address =
                Some((value.to_string(), place.clone()));
        }
        "tickTime" => draft.sessions.tick_ms = Some(decimal_in(value, 1, i32::MAX)?),
        "minSessionTimeout" => {
            draft.sessions.timeout_ms_min = decimal_or_default(value)?;
            draft.sessions.timeout_place = Some(place.clone());
        }
        "maxSessionTimeout" => {
            draft.sessions.timeout_ms_max = decimal_or_default(value)?;
            draft.sessions.timeout_place = Some(place.clone());
        }
        "maxClientCnxns" => {
            draft.listeners.connections_per_ip_max = Some(decimal_or_unlimited(value)?)
        }
        "clientPortListenBacklog" => {
            draft.listeners.backlog = match decimal_or_unlimited(value)? {
                0 => None,
                length => Some(length),
            };
        }
        "reconfigEnabled" => {
            draft.replicated.reconfig_enabled = boolean(value)?;
            return Ok(unless(!draft.replicated.reconfig_enabled, RECONFIG_NEEDS_LEVEL));
        }
        "standaloneEnabled" => draft.cluster.standalone_enabled = boolean(value)?,
        "dynamicConfigFile" => {
            draft.cluster.dynamic_file = Some((path(value)?, place.clone()));
        }
        "secureClientPort" => draft.listeners.zoo_ports.secure_client_port = Some(port(value)?),
        "secureClientPortAddress" => {
            draft.listeners.zoo_ports.secure_client_port_address =
                Some((value.to_string(), place.clone()));
        }
        "localSessionsEnabled" | "localSessionsUpgradingEnabled" => {
            return Ok(unless(!boolean(value)?, "local sessions are not built yet"));
        }
        "electionAlg" if value != "3" => return Err("only 3 is supported".to_string()),
        "electionAlg" | "syncEnabled" => {}
        _ if key.starts_with("metricsProvider.") => {
            let name = key.strip_prefix("metricsProvider.").unwrap_or(key);
            return draft.monitoring.metrics.apply(name, value);
        }
        _ => return apply_ensemble_key(draft, place, key, value),
    }
    Ok(Fate::Taken)
}

/// Applies a key about ensembles that `QuorumPeerConfig` itself reads.
fn apply_ensemble_key(
    draft: &mut Draft,
    place: &Place,
    key: &str,
    value: &str,
) -> Result<Fate, String> {
    let cluster = &mut draft.cluster;
    let said = || Said::new(place, key);
    let mut complain = |is_so: bool, message| {
        if is_so {
            cluster.complaints.push((said(), message));
        }
    };
    match key {
        "peerType" => cluster.own.peer_type = Some((Role::parse(value)?, place.clone())),
        "initLimit" => cluster.links.init_limit = Some(decimal_in(value, 1, i32::MAX)?),
        "syncLimit" => cluster.links.sync_limit = Some(decimal_in(value, 1, i32::MAX)?),
        "connectToLearnerMasterLimit" => drop(decimal_in::<i32>(value, i32::MIN, i32::MAX)?),
        "quorumListenOnAllIPs" => cluster.links.listen_on_all = boolean(value)?,
        "sslQuorum" => cluster.auth.tls = boolean(value)?.then(said),
        "portUnification" => complain(boolean(value)?, NO_PORT_UNIFICATION),
        "sslQuorumReloadCertFiles" => draft.tls.quorum_reload = Some(boolean(value)?),
        "quorum.auth.enableSasl" => cluster.auth.sasl = boolean(value)?.then(said),
        "observerMasterPort" => {
            complain(properties::parse_decimal(value)? > 0, "observers are not served yet")
        }
        "oraclePath" => complain(true, "no oracle is asked: more than half of the servers decide"),
        _ if key.starts_with("server.") => {
            cluster.add(said(), key.strip_prefix("server.").unwrap_or(key), value)?;
        }
        _ if is_grouping(key) => {
            cluster.grouping.get_or_insert_with(said);
        }
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

const NO_PORT_UNIFICATION: &str = "servers that do not speak TLS are not let in beside those that do: \
                                   switch it on for all of them at once";

/// Whether a key counts as `group.N` or `weight.N`; `QuorumPeerConfig` checks only its beginning.
fn is_grouping(key: &str) -> bool {
    key.starts_with("group") || key.starts_with("weight")
}

/// Applies the property `zookeeper.<name>`. An empty value leaves the default.
fn apply_property(
    draft: &mut Draft,
    place: &Place,
    name: &str,
    value: &str,
) -> Result<Fate, String> {
    if value.is_empty() && name != "4lw.commands.whitelist" {
        return Ok(Fate::Moot);
    }
    if draft.tls.say(place, name, name, value) {
        return Ok(Fate::Taken);
    }
    if let Some(fate) = draft.requests.throttle.apply(place, name, value) {
        return fate;
    }
    replicated_property(&mut draft.replicated, name, value)?
        .or_else(|| auth_property(draft, name, value))?
        .or_else(|| listeners_property(&mut draft.listeners, name, value))?
        .or_else(|| sessions_property(&mut draft.sessions, name, value))?
        .or_else(|| requests_property(&mut draft.requests, name, value))?
        .or_else(|| storage_property(&mut draft.storage, name, value))?
        .or_else(|| container_property(&mut draft.container, name, value))?
        .or_else(|| logging_property(&mut draft.logging, name, value))?
        .or_else(|| admin_property(&mut draft.monitoring.admin, name, value))?
        .or_else(|| pages_property(&mut draft.refuses_foreign_pages, name, value))?
        .or_else(|| cluster_property(&mut draft.cluster, place, name, value))?
        .or_else(|| chunk_property(&mut draft.chunk, name, value))?
        .or_else(|| etcd_property(&mut draft.etcd, name, value))?
        .or_else(|| Ok(fate_of_unbuilt(name, value)))
}

// Each of these functions applies the properties of its subject. It returns `Unknown` for any
// other.

fn replicated_property(settings: &mut Settings, name: &str, value: &str) -> Result<Fate, String> {
    match name {
        "skipACL" => settings.skip_acl = yes_or_no(value)?,
        "extendedTypesEnabled" => settings.extended_types = boolean(value)?,
        "enforceQuota" => settings.enforce_quota = boolean(value)?,
        "DigestAuthenticationProvider.enabled" => settings.digest_enabled = boolean(value)?,
        "DigestAuthenticationProvider.superDigest" => settings.super_digest = super_digest(value)?,
        "DigestAuthenticationProvider.digestAlg" => {
            settings.digest_algorithm = digest_algorithm(value)?;
        }
        "letAnySaslUserDoX" => settings.sasl_any_user = Some(value.to_string()),
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn auth_property(draft: &mut Draft, name: &str, value: &str) -> Result<Fate, String> {
    let auth = &mut draft.auth;
    match name {
        "ensembleAuthName" => auth.ensemble_names = Some(list(value)),
        "enforce.auth.enabled" => auth.is_enforced = boolean(value)?,
        "enforce.auth.schemes" => auth.enforced_schemes = list(value),
        "sessionRequireClientSASLAuth" => auth.is_sasl_required = boolean(value)?,
        sasl::JAAS_FILE => auth.sasl.jaas_file = Some(sasl::jaas_path(value)),
        "sasl.serverconfig" => auth.sasl.section = Some(value.to_string()),
        "allowSaslFailedClients" => auth.sasl_failed_allowed = boolean(value)?,
        "SASLAuthenticationProvider.superPassword" => {
            auth.sasl.super_password = Some(value.to_string());
        }
        _ if name == "superUser" || name.starts_with("superUser.") => {
            auth.sasl.super_users.insert(name.to_string(), value.to_string());
        }
        "kerberos.removeHostFromPrincipal" | "kerberos.removeRealmFromPrincipal" => {
            return Ok(Fate::Noted("Kerberos is not served, and names of other users stay whole"));
        }
        _ if name.starts_with("authProvider.") => return Ok(auth_provider(draft, value)),
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn listeners_property(
    listeners: &mut ListenersDraft,
    name: &str,
    value: &str,
) -> Result<Fate, String> {
    match name {
        "4lw.commands.whitelist" => {
            listeners.four_letter_words = Some(FourLetterWords::of(list(value)));
        }
        "maxCnxns" => listeners.connections_max = Some(unlimited_below_one(number(value)?)?),
        "clientTcpKeepAlive" => listeners.keep_alive = Some(boolean(value)?),
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn sessions_property(
    sessions: &mut SessionsDraft,
    name: &str,
    value: &str,
) -> Result<Fate, String> {
    match name {
        "readonlymode.enabled" => sessions.read_only_mode = boolean(value)?,
        // Read by `NIOServerCnxnFactory`.
        "nio.sessionlessCnxnTimeout" => {
            sessions.sessionless_ms_max = Some(number_in(value, 1, i32::MAX)?);
        }
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn requests_property(
    requests: &mut RequestsDraft,
    name: &str,
    value: &str,
) -> Result<Fate, String> {
    match name {
        "jute.maxbuffer" => return jute_bytes_max(requests, value),
        // Two limits with the same effect: of `ZooKeeperServer.shouldThrottle` and of
        // `RequestThrottler`. For the latter, 0 means no limit.
        "globalOutstandingLimit" => requests.bound_commands(number_in(value, 1, i32::MAX)?),
        "request_throttle_max_requests" => match number_in(value, 0, i32::MAX)? {
            0 => {}
            max => requests.bound_commands(max),
        },
        // Here a waiting request goes on as soon as possible, and requests of a closed connection
        // are always dropped.
        "request_throttle_stall_time" | "request_throttle_drop_stale" => return Ok(Fate::Moot),
        "throttled_op_wait_time" => {
            requests.throttled_op_wait_ms = u64::try_from(number(value)?).unwrap_or(0);
        }
        "quorate.replyBytesMax" => {
            let bytes_max = parse_bytes(value)?;
            requests.reply_bytes_max = Some(bytes_max).filter(|max| *max > 0);
        }
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn storage_property(storage: &mut StorageDraft, name: &str, value: &str) -> Result<Fate, String> {
    match name {
        "snapCount" => return snapshot_command_count(storage, value),
        "snapSizeLimitInKb" => {
            let kib = u64::try_from(number(value)?).unwrap_or(0);
            storage.snapshot_log = Some(log_rule(kib.checked_mul(1024).unwrap_or(0)));
        }
        "quorate.diskStallMs" => {
            let ms: u32 = number_in(value, 1, i32::MAX)?;
            storage.set_disk_stall_ms(ms.into())?;
        }
        "quorate.levelMax" => storage.level_max = Some(level_max(number(value)?)?),
        "fsync.warningthresholdms" => {
            storage.fsync_warning_ms = Some(u64::try_from(number(value)?).unwrap_or(0));
        }
        "forceSync" => {
            let off = value == "no";
            return Ok(unless(!off, "nothing is acknowledged before it is on disk; it is ignored"));
        }
        // Read by `FileTxnSnapLog`.
        "datadir.autocreate" => storage.is_data_dir_required = !boolean(value)?,
        _ if name.starts_with("autopurge.") => return autopurge(name, value),
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn container_property(
    container: &mut ContainerSettings,
    name: &str,
    value: &str,
) -> Result<Fate, String> {
    match name {
        "znode.container.checkIntervalMs" => {
            container.check_interval_ms = number_in(value, 1, i32::MAX)?;
        }
        "znode.container.maxPerMinute" => {
            container.removals_per_minute_max = number_in(value, 1, i32::MAX)?;
        }
        "znode.container.maxNeverUsedIntervalMs" => {
            container.never_used_ms_max = u64::try_from(number(value)?).unwrap_or(0);
        }
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn logging_property(logging: &mut LoggingConfig, name: &str, value: &str) -> Result<Fate, String> {
    match name {
        // Parsed as by `Boolean.getBoolean`.
        "audit.enable" => logging.audit = value.eq_ignore_ascii_case("true"),
        "audit.impl.class" => {
            let is_own = value == "org.apache.zookeeper.audit.Slf4jAuditLogger";
            return Ok(unless(is_own, "there is no such audit logger; the log is used"));
        }
        "quorate.log" => logging.filter = Some(log_filter(value)?),
        "quorate.slowRequestMs" => {
            logging.slow_request_ms = u64::try_from(number(value)?).ok().filter(|&ms| ms > 0);
        }
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn admin_property(admin: &mut AdminDraft, name: &str, value: &str) -> Result<Fate, String> {
    match name.strip_prefix("admin.") {
        Some(name) => admin.apply(name, value),
        None => Ok(Fate::Unknown),
    }
}

fn pages_property(
    refuses_foreign_pages: &mut bool,
    name: &str,
    value: &str,
) -> Result<Fate, String> {
    match name {
        "quorate.refuseForeignPages" => *refuses_foreign_pages = boolean(value)?,
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn cluster_property(
    cluster: &mut ClusterDraft,
    place: &Place,
    name: &str,
    value: &str,
) -> Result<Fate, String> {
    match name {
        // Read by `QuorumCnxManager`.
        "cnxTimeout" => {
            cluster.links.connect_timeout_ms = Some(number_in(value, 1, i32::MAX)?);
        }
        // `QuorumCnxManager.Listener`: a negative number means the default.
        "electionPortBindRetry" => {
            cluster.links.bind_attempts = u32::try_from(number(value)?).ok();
        }
        // Parsed as by `Boolean.getBoolean`.
        "tcpKeepAlive" => cluster.links.keep_alive = value.eq_ignore_ascii_case("true"),
        "quorate.bootstrap" => cluster.attendance = attendance(value)?,
        "quorate.quorum.secretFile" => {
            cluster.auth.secret_file = Some((path(value)?, Said::new(place, name)));
        }
        "quorate.quorum.oldHandshake" => {
            cluster.auth.old_handshake = Some(boolean(value)?);
        }
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn chunk_property(chunk: &mut ChunkDraft, name: &str, value: &str) -> Result<Fate, String> {
    match name {
        "quorate.chunkAddr" => chunk.addr = Some(value.parse()?),
        "quorate.chunkTlsAddr" => chunk.tls_addr = Some(value.parse()?),
        "quorate.chunkConnectionsMax" => {
            chunk.connections_max = Some(unlimited_below_one(number(value)?)? as usize);
        }
        "quorate.chunkConnectionsPerIpMax" => {
            chunk.connections_per_ip_max = Some(unlimited_below_one(number(value)?)? as usize);
        }
        "quorate.chunkDir" => chunk.dir = Some(path(value)?),
        "quorate.chunkBytesMax" => chunk.bytes_max = Some(parse_bytes(value)?),
        "quorate.chunkFreeBytesMin" => chunk.free_bytes_min = Some(parse_bytes(value)?),
        "quorate.chunkLayout" => chunk.layout = Some(parse_layout(value)?),
        "quorate.chunkVerifyWrites" => chunk.verify_writes = boolean(value)?,
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

fn etcd_property(etcd: &mut EtcdDraft, name: &str, value: &str) -> Result<Fate, String> {
    match name {
        "quorate.etcdAddr" => etcd.addr = Some(value.parse()?),
        "quorate.etcdTlsAddr" => etcd.tls_addr = Some(value.parse()?),
        "quorate.etcdQuotaBackendBytes" => drop(etcd.set("quota-backend-bytes", value)?),
        "quorate.etcdMaxTxnOps" => drop(etcd.set("max-txn-ops", value)?),
        "quorate.etcdAutoCompactionMode" => drop(etcd.set("auto-compaction-mode", value)?),
        "quorate.etcdAutoCompactionRetention" => {
            etcd.set("auto-compaction-retention", value)?;
        }
        "quorate.etcdWatchProgressNotifyInterval" => {
            etcd.set("watch-progress-notify-interval", value)?;
        }
        "quorate.etcdGrpcKeepaliveMinTime" => drop(etcd.set("grpc-keepalive-min-time", value)?),
        "quorate.etcdGrpcKeepaliveInterval" => drop(etcd.set("grpc-keepalive-interval", value)?),
        "quorate.etcdGrpcKeepaliveTimeout" => drop(etcd.set("grpc-keepalive-timeout", value)?),
        "quorate.etcdMaxConcurrentStreams" => drop(etcd.set("max-concurrent-streams", value)?),
        "quorate.etcdMaxRequestBytes" => drop(etcd.set("max-request-bytes", value)?),
        "quorate.etcdWarningUnaryRequestDuration" => {
            etcd.set("warning-unary-request-duration", value)?;
        }
        "quorate.etcdAuthToken" => drop(etcd.set("auth-token", value)?),
        "quorate.etcdAuthTokenTtl" => drop(etcd.set("auth-token-ttl", value)?),
        "quorate.etcdEnableV2" => etcd.has_v2 = boolean(value)?,
        "quorate.etcdBcryptCost" => drop(etcd.set("bcrypt-cost", value)?),
        _ => return Ok(Fate::Unknown),
    }
    Ok(Fate::Taken)
}

/// Applies a key of `DatadirCleanupManager`. Old snapshots and old log are always removed as soon
/// as nothing needs them. So a setting that asks for removal loses nothing, but one that keeps more
/// does.
fn autopurge(name: &str, value: &str) -> Result<Fate, String> {
    match name {
        "autopurge.purgeInterval" => Ok(if properties::parse_decimal(value)? > 0 {
            Fate::Noted("old snapshots and old log are removed as soon as nothing needs them")
        } else {
            Fate::Differs(KEPT_SNAPSHOTS.to_string())
        }),
        "autopurge.snapRetainCount" => {
            let count = properties::parse_decimal(value)?;
            Ok(unless(count <= SNAPSHOTS_KEPT, KEPT_SNAPSHOTS))
        }
        _ => Ok(Fate::Unknown),
    }
}

/// How many snapshots are kept, with the log behind the older one.
const SNAPSHOTS_KEPT: i64 = 2;

const KEPT_SNAPSHOTS: &str = "the newest two snapshots are kept, and what is older is always removed: \
                              make backups with the admin server's command snapshot";

fn jute_bytes_max(requests: &mut RequestsDraft, value: &str) -> Result<Fate, String> {
    let bytes: u32 = number_in(value, 1, i32::MAX)?;
    requests.jute_bytes_max = Some(bytes.min(JUTE_BYTES_MAX_MAX));
    Ok(if bytes > JUTE_BYTES_MAX_MAX {
        Fate::Differs(format!(
            "{bytes} is above the largest request of {JUTE_BYTES_MAX_MAX} bytes; \
                               that one is used"
        ))
    } else {
        Fate::Taken
    })
}

fn snapshot_command_count(storage: &mut StorageDraft, value: &str) -> Result<Fate, String> {
    let count: u32 = number_in(value, i32::MIN, i32::MAX).map(|n: i32| n.max(0).unsigned_abs())?;
    storage.snapshot_command_count = Some(count.max(SNAPSHOT_COMMAND_COUNT_MIN));
    let least = SNAPSHOT_COMMAND_COUNT_MIN;
    Ok(unless(count >= least, &format!("{count} is below the least, {least}, which is used")))
}

/// Applies an authentication plug-in, given by its Java class. `digest` and `ip` are always built
/// in.
fn auth_provider(draft: &mut Draft, class: &str) -> Fate {
    match class.rsplit('.').next().unwrap_or(class) {
        "DigestAuthenticationProvider" | "IPAuthenticationProvider" => Fate::Moot,
        "EnsembleAuthenticationProvider" => {
            draft.auth.has_ensemble_provider = true;
            Fate::Taken
        }
        "SASLAuthenticationProvider" => {
            draft.replicated.sasl_enabled = true;
            Fate::Taken
        }
        "X509AuthenticationProvider" => {
            draft.replicated.x509_enabled = true;
            Fate::Taken
        }
        name => Fate::Differs(format!("{name} is not built; its scheme is unknown")),
    }
}

/// Keys that change nothing here; a `*` at the end matches any rest. They tune threads, caches and
/// files of ZooKeeper that this server does not have, or matter only to ensembles.
const MOOT: &[&str] = &[
    "DEBUG",
    "bitHashCacheSize",
    "closeSessionTxn.enabled",
    "commitLogCount",
    "commitProcessor.*",
    "console.threshold",
    "db.autocreate",
    "digest.enabled",
    "fastleader.*",
    "flushDelay",
    "forceSnapshotSync",
    "intBufferStartingSizeBytes",
    "jaasLoginRenew",
    "jmx.*",
    "junit.*",
    "jute.maxbuffer.extrasize",
    "jvm.pause.*",
    "leader.*",
    "leaderServes",
    "learner.*",
    "log.*",
    "maxBatchSize",
    "maxGetChildrenResponseCacheSize",
    "maxInProcessingDeadWatchers",
    "maxResponseCacheSize",
    "maxWriteQueuePollTime",
    "messageTracker.*",
    "multiAddress.*",
    "netty.*",
    "nio.*",
    "observer.*",
    "preAllocSize",
    "quorum.*",
    "quorumCnxnTimeoutMs",
    "request_stale_connection_check",
    "request_stale_latency_check",
    "request_throttler.shutdownTimeout",
    "root.*",
    "sasl.client*",
    "serializeLastProcessedZxid.enabled",
    "serverCnxnFactory",
    "snapshot.*",
    "snapsizefactor",
    "test.*",
    "watchManagerName",
    "watcherClean*",
];

/// Keys of ZooKeeper's features that are not built, each with the warning for its author; a `*` at
/// the end matches any rest.
const UNBUILT: &[(&str, &str)] = &[
    ("client.*", "is not built; it is ignored"),
    ("connection*", "is only a name in ZooKeeper's manual; connection_throttle_* is what it reads"),
    ("emulate353TTLNodes", "is not built; it is ignored"),
    ("enableEagerACLCheck", "permissions are checked once, when a request is applied"),
    ("extendedTypesEmulate*", "is not built; it is ignored"),
    ("kinit", KERBEROS_NOT_BUILT),
    ("observerMaster.*", "observers are not served yet; it is ignored"),
    ("requireClientAuthScheme*", AUTH_SCHEME_UNKNOWN),
    ("requireKerberosConfig", KERBEROS_NOT_BUILT),
    ("security.auth_to_local", KERBEROS_NOT_BUILT),
    ("txnLogSizeLimitInKb", "segments of the log have our own size; it is ignored"),
    ("X509AuthenticationProvider.*", "is not built; it is ignored"),
];

const KERBEROS_NOT_BUILT: &str = "Kerberos is not served; it is ignored";
/// The warning for a key that many files have, although ZooKeeper 3.9 never reads it.
const AUTH_SCHEME_UNKNOWN: &str = "requires nothing, here as in ZooKeeper: \
                                   set sessionRequireClientSASLAuth=true";

fn fate_of_unbuilt(name: &str, value: &str) -> Fate {
    let covers = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    // Switching off a feature that is not built is no problem.
    let off = value.eq_ignore_ascii_case("false");
    if MOOT.iter().any(|pattern| covers(pattern)) {
        return Fate::Moot;
    }
    match UNBUILT.iter().find(|(pattern, _)| covers(pattern)) {
        Some(_) if off => Fate::Moot,
        Some((_, message)) => Fate::Differs(message.to_string()),
        None => Fate::Unknown,
    }
}

/// Applies the file that `dynamicConfigFile` names, which may only have servers, groups and
/// weights.
fn apply_dynamic_file(
    draft: &mut Draft,
    path: &Path,
    place: &Place,
    read: ReadFile<'_>,
) -> Result<(), ConfigError> {
    if let Some(servers_place) = draft.cluster.first_place() {
        return Err(ConfigError::Malformed {
            place: servers_place.clone(),
            cause: format!("with dynamicConfigFile ({place}) servers belong into that file"),
        });
    }
    let text = must_read(read, path)?;
    draft.cluster.version = version_of_file(path);
    let file = path.display().to_string();
    for entry in last_of_each_key(draft, &file, &text)? {
        let place = Place::at(&file, entry.line);
        let applied = match entry.key.as_str() {
            key if key.starts_with("server.") || is_grouping(key) => {
                apply_ensemble_key(draft, &place, key, &entry.value)
            }
            "version" => Err("the version is not written into the file".to_string()),
            _ => Err("is not a key of a dynamic file".to_string()),
        };
        if let Err(cause) = applied {
            return Err(ConfigError::Invalid { place, key: entry.key, cause });
        }
    }
    Ok(())
}
