//! Our own configuration file, `quorate.toml`: one flat table with the keys of [`KEYS`], and in it
//! the table `cluster` with the keys of [`CLUSTER_KEYS`].
//!
//! A time needs a unit (`"2s"`), and a size may have a unit (`"64MiB"`). For most limits 0 means no
//! limit; some limits refuse 0. But most keys that begin with `etcd_` are flags of etcd, and
//! [`EtcdDraft::set`] reads their values by etcd's rules: `etcd_auth_token_ttl` is a number of
//! seconds, and in some flags 0 means the default.
//!
//! An unknown key is an error. This rule breaks no old file, because no old file has this format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use machine::Settings;
use member::spaces::zk::containers::ContainerSettings;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zk::files::properties::lines;

use super::chunk::{ChunkDraft, parse_layout};
use super::cluster::{Said, attendance};
use super::draft::Draft;
use super::etcd::EtcdDraft;
use super::listeners::{FourLetterWords, ListenersDraft};
use super::logging::LoggingConfig;
use super::monitoring::MonitoringDraft;
use super::report::{ConfigError, Place, Report};
use super::requests::{JUTE_BYTES_MAX_MAX, RequestsDraft};
use super::sessions::SessionsDraft;
use super::storage::{SNAPSHOT_COMMAND_COUNT_MIN, StorageDraft};
use super::throttle::{self, ThrottleDraft};
use super::tls::TlsDraft;
use super::units;
use super::values::{
    RECONFIG_NEEDS_LEVEL, digest_algorithm, level_max, log_filter, log_rule, super_digest,
};

/// Every key, with an example of its value for error messages.
pub(super) const KEYS: &[(&str, &str)] = &[
    ("data_dir", "\"/var/lib/quorate\""),
    ("data_dir_create", "true"),
    ("log_dir", "\"/mnt/log/quorate\""),
    ("zk_addr", "\"127.0.0.1:2181\""),
    ("tick", "\"3s\""),
    ("session_timeout_min", "\"6s\""),
    ("session_timeout_max", "\"60s\""),
    ("connections_per_ip_max", "60"),
    ("connections_max", "0"),
    ("listen_backlog", "1024"),
    ("client_keep_alive", "false"),
    ("four_letter_words", "[\"srvr\"], or [\"*\"] for all"),
    ("jute_bytes_max", "\"1MiB\""),
    ("commands_in_flight_max", "1000"),
    ("throttled_op_wait", "\"1s\""),
    ("reply_bytes_max", "\"64MiB\""),
    ("sessionless_timeout", "\"10s\""),
    ("connect_tokens_max", "0"),
    ("connect_fill", "\"1ms\""),
    ("connect_fill_count", "1"),
    ("connect_freeze", "\"1s\""),
    ("connect_drop_increase", "0.02"),
    ("connect_drop_decrease", "0.002"),
    ("connect_decrease_ratio", "0.0"),
    ("connect_weights", "{ global = 3, local = 1, renew = 2 }"),
    ("large_request_bytes_min", "\"1MiB\""),
    ("large_requests_bytes_max", "\"100MiB\""),
    ("snapshot_command_count", "100000"),
    ("snapshot_log_bytes", "\"64MiB\""),
    ("container_check_interval", "\"60s\""),
    ("disk_stall", "\"1s\""),
    ("level_max", "4"),
    ("fsync_warning", "\"1s\""),
    ("audit", "true"),
    ("log", "\"info\", or \"debug\", \"warn\""),
    ("slow_request", "\"1s\""),
    ("admin_addr", "\"127.0.0.1:8080\""),
    ("admin_snapshot", "true"),
    ("admin_restore", "true"),
    ("admin_rate_limit_interval", "\"5m\""),
    ("refuse_foreign_pages", "false"),
    ("metrics_addr", "\"127.0.0.1:7000\""),
    ("metrics_of_process", "true"),
    ("etcd_addr", "\"127.0.0.1:2379\""),
    ("etcd_tls_addr", "\"127.0.0.1:2380\""),
    ("etcd_quota_backend_bytes", "\"2GiB\""),
    ("etcd_max_txn_ops", "128"),
    ("etcd_auto_compaction_mode", "\"periodic\", or \"revision\""),
    ("etcd_auto_compaction_retention", "\"1h\", or 1000"),
    ("etcd_watch_progress_notify_interval", "\"10m\""),
    ("etcd_grpc_keepalive_min_time", "\"5s\""),
    ("etcd_grpc_keepalive_interval", "\"2h\""),
    ("etcd_grpc_keepalive_timeout", "\"20s\""),
    ("etcd_max_concurrent_streams", "10000"),
    ("etcd_max_request_bytes", "1572864"),
    ("etcd_warning_unary_request_duration", "\"300ms\""),
    ("etcd_auth_token", "\"simple\""),
    ("etcd_auth_token_ttl", "300"),
    ("etcd_bcrypt_cost", "10"),
    ("etcd_enable_v2", "true"),
    ("chunk_addr", "\"127.0.0.1:9859\""),
    ("chunk_tls_addr", "\"127.0.0.1:9860\""),
    ("chunk_connections_max", "1024"),
    ("chunk_connections_per_ip_max", "256"),
    ("chunk_dir", "\"/mnt/chunks\""),
    ("chunk_bytes_max", "\"500GiB\""),
    ("chunk_free_bytes_min", "\"1GiB\""),
    ("chunk_layout", "\"log\", or \"per-block\", \"per-chunk\""),
    ("chunk_verify_writes", "false"),
    ("skip_acl", "false"),
    ("super_digest", "\"super:base64-of-the-hash\""),
    ("digest_algorithm", "\"SHA1\""),
    ("digest_enabled", "true"),
    ("extended_types", "false"),
    ("enforce_quota", "false"),
    ("reconfig_enabled", "false"),
    ("ensemble_auth_names", "[\"name\"]"),
    ("enforce_auth_schemes", "[\"digest\"]"),
    ("sasl_users", "{ bob = \"password\" }"),
    ("sasl_failed_allowed", "false"),
    ("jaas_file", "\"/etc/quorate/jaas.conf\""),
    ("super_users", "[\"bob\"]"),
    ("zk_tls_addr", "\"127.0.0.1:2281\""),
    ("tls_port_unification", "false"),
    ("tls_key_store", "\"/etc/quorate/server.pem\""),
    ("tls_key_store_type", "\"PEM\", or \"PKCS12\", \"JKS\""),
    ("tls_key_store_password", "\"secret\""),
    ("tls_key_store_password_file", "\"/etc/quorate/password\""),
    ("tls_trust_store", "\"/etc/quorate/clients.pem\""),
    ("tls_trust_store_type", "\"PEM\", or \"PKCS12\", \"JKS\""),
    ("tls_trust_store_password", "\"secret\""),
    ("tls_trust_store_password_file", "\"/etc/quorate/password\""),
    ("tls_client_auth", "\"need\", or \"want\", \"none\""),
    ("tls_protocols", "[\"TLSv1.2\", \"TLSv1.3\"]"),
    ("tls_cipher_suites", "[\"TLS_AES_128_GCM_SHA256\"]"),
    ("tls_reload", "true"),
    ("tls_handshakes_max", "0"),
    ("x509_super_user", "\"CN=admin,O=Example\""),
    ("cluster", "{ id = 1, servers = { 1 = \"zk1:2888:3888\" } }"),
];

/// Every key of the table `cluster`, with an example of its value.
pub(super) const CLUSTER_KEYS: &[(&str, &str)] = &[
    ("id", "1"),
    ("servers", "{ 1 = \"zk1:2888:3888;2181\" }"),
    ("bootstrap", "\"all\", or \"majority\""),
    ("listen_on_all", "false"),
    ("connect_timeout", "\"5s\""),
    ("keep_alive", "false"),
    ("bind_attempts", "3"),
    ("secret_file", "\"/etc/quorate/secret\""),
    ("old_handshake", "true"),
    ("tls_key_store", "\"/etc/quorate/server.pem\""),
    ("tls_key_store_type", "\"PEM\", or \"PKCS12\", \"JKS\""),
    ("tls_key_store_password", "\"secret\""),
    ("tls_key_store_password_file", "\"/etc/quorate/password\""),
    ("tls_trust_store", "\"/etc/quorate/servers.pem\""),
    ("tls_trust_store_type", "\"PEM\", or \"PKCS12\", \"JKS\""),
    ("tls_trust_store_password", "\"secret\""),
    ("tls_trust_store_password_file", "\"/etc/quorate/password\""),
    ("tls_host_names", "true"),
    ("tls_reload", "true"),
    ("tls_protocols", "[\"TLSv1.2\", \"TLSv1.3\"]"),
    ("tls_cipher_suites", "[\"TLS_AES_128_GCM_SHA256\"]"),
];

/// Whether a text is a `quorate.toml` (else it is a `zoo.cfg`), and why. The first line that gives
/// a hint decides: one of our keys or tables means TOML; a key with a capital letter or a dot, or a
/// line without `=`, means `zoo.cfg`; a value in quotes or brackets means TOML. The header of an
/// unknown table gives no hint, since a `zoo.cfg` may have it as a key. Without any hint, the
/// file's name decides.
pub(super) fn recognises(path: &Path, text: &str) -> (bool, String) {
    for (number, line) in (1u32..).zip(lines(text)) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let header = line.strip_prefix('[').map(|line| line.trim_start_matches('['));
        let (key, value) = match (header, line.split_once('=')) {
            (Some(header), _) => (header.split(']').next().unwrap_or_default(), None),
            (None, Some((key, value))) => (key, Some(value.trim())),
            (None, None) => return (false, format!("line {number} has no \"=\"")),
        };
        let key = key.trim();
        let first = key.split('.').next().unwrap_or_default().trim();
        let is_ours =
            |(ours, form): &(&str, &str)| *ours == first && (key == first || form.starts_with('{'));
        if first == CLUSTER || KEYS.iter().any(is_ours) {
            return (true, format!("line {number} has {first}"));
        }
        let Some(value) = value else { continue };
        if key.contains(|c: char| c.is_ascii_uppercase() || c == '.') {
            return (false, format!("line {number} has {key}"));
        }
        if value.starts_with(['"', '\'', '[']) {
            return (true, format!("line {number} has a value in quotes or brackets"));
        }
    }
    (is_named(path), "of its name".to_string())
}

/// Whether the file's name says that it is TOML.
pub(super) fn is_named(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

const CLUSTER: &str = "cluster";

/// Applies the keys of a `quorate.toml`.
pub(super) fn apply(draft: &mut Draft, file: &str, text: &str) -> Result<(), ConfigError> {
    let place = |offset: usize| {
        let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
        let breaks = before.iter().filter(|&&byte| byte == b'\n').count();
        Place::at(file, u32::try_from(breaks).unwrap_or(u32::MAX).saturating_add(1))
    };
    let table = DeTable::parse(text).map_err(|error| ConfigError::Malformed {
        place: place(error.span().map_or(0, |span| span.start)),
        cause: error.message().lines().collect::<Vec<_>>().join("; "),
    })?;
    for (key, value) in table.get_ref() {
        let name = key.get_ref();
        if let (true, Some(cluster)) = (name == CLUSTER, value.get_ref().as_table()) {
            apply_cluster(draft, &place, cluster)?;
            continue;
        }
        let place = place(key.span().start);
        apply_key(draft, &place, key.get_ref(), value).map_err(|cause| ConfigError::Invalid {
            place,
            key: key.get_ref().to_string(),
            cause,
        })?;
    }
    Ok(())
}

/// Applies the table `cluster`. `place` turns an offset in the text into a place.
fn apply_cluster(
    draft: &mut Draft,
    place: &dyn Fn(usize) -> Place,
    table: &DeTable<'_>,
) -> Result<(), ConfigError> {
    for (key, value) in table {
        let said = Said::new(&place(key.span().start), &format!("cluster.{}", key.get_ref()));
        let refused = |cause| said.refused(cause);
        let servers = value.get_ref().as_table().filter(|_| key.get_ref() == "servers");
        let Some(servers) = servers else {
            apply_cluster_key(draft, &said, key.get_ref(), value).map_err(refused)?;
            continue;
        };
        for (number, address) in servers {
            let key = format!("cluster.servers.{}", number.get_ref());
            let said = Said::new(&place(number.span().start), &key);
            let address = Value { key: "servers", forms: CLUSTER_KEYS, value: address.get_ref() };
            address
                .text()
                .and_then(|text| draft.cluster.add(said.clone(), number.get_ref(), text))
                .map_err(|cause| said.refused(cause))?;
        }
    }
    Ok(())
}

fn apply_cluster_key(
    draft: &mut Draft,
    said: &Said,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<(), String> {
    let value = Value { key, forms: CLUSTER_KEYS, value: value.get_ref() };
    match key {
        "id" => {
            draft.cluster.own.number = Some((u64::from(value.count()?), said.place.clone()));
        }
        "servers" => return Err(value.wrong()),
        "bootstrap" => draft.cluster.attendance = attendance(value.text()?)?,
        "listen_on_all" => draft.cluster.links.listen_on_all = value.boolean()?,
        "keep_alive" => draft.cluster.links.keep_alive = value.boolean()?,
        "bind_attempts" => draft.cluster.links.bind_attempts = Some(value.count()?),
        "connect_timeout" => draft.cluster.links.connect_timeout_ms = Some(value.ms_above_0()?),
        "secret_file" => {
            draft.cluster.auth.secret_file = Some((PathBuf::from(value.text()?), said.clone()));
        }
        "old_handshake" => draft.cluster.auth.old_handshake = Some(value.boolean()?),
        "tls_reload" => draft.tls.quorum_reload = Some(value.boolean()?),
        _ => {
            let Some((_, name)) = TLS_NAMES_OF_SERVERS.iter().find(|(ours, _)| *ours == key) else {
                return Err("is not a key of this table".to_string());
            };
            if key == "tls_key_store" {
                draft.cluster.auth.tls = Some(said.clone());
            }
            let text = value.tls_text()?;
            assert!(draft.tls.say(&said.place, &said.key, name, &text), "{name} is about TLS");
        }
    }
    Ok(())
}

/// The keys about TLS between servers, each with ZooKeeper's name for the setting.
const TLS_NAMES_OF_SERVERS: [(&str, &str); 11] = [
    ("tls_key_store", "ssl.quorum.keyStore.location"),
    ("tls_key_store_type", "ssl.quorum.keyStore.type"),
    ("tls_key_store_password", "ssl.quorum.keyStore.password"),
    ("tls_key_store_password_file", "ssl.quorum.keyStore.passwordPath"),
    ("tls_trust_store", "ssl.quorum.trustStore.location"),
    ("tls_trust_store_type", "ssl.quorum.trustStore.type"),
    ("tls_trust_store_password", "ssl.quorum.trustStore.password"),
    ("tls_trust_store_password_file", "ssl.quorum.trustStore.passwordPath"),
    ("tls_host_names", "ssl.quorum.hostnameVerification"),
    ("tls_protocols", "ssl.quorum.enabledProtocols"),
    ("tls_cipher_suites", "ssl.quorum.ciphersuites"),
];

fn apply_key(
    draft: &mut Draft,
    place: &Place,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<(), String> {
    let value = Value { key, forms: KEYS, value: value.get_ref() };
    if key == "cluster" {
        return Err(value.wrong());
    }
    let is_known = apply_storage_key(&mut draft.storage, &value)?
        || apply_listeners_key(&mut draft.listeners, &value)?
        || apply_sessions_key(&mut draft.sessions, place, &value)?
        || apply_requests_key(&mut draft.requests, &value)?
        || apply_throttle_key(&mut draft.requests.throttle, place, &value)?
        || apply_container_key(&mut draft.container, &value)?
        || apply_logging_key(&mut draft.logging, &value)?
        || apply_monitoring_key(&mut draft.monitoring, &value)?
        || apply_pages_key(&mut draft.refuses_foreign_pages, &value)?
        || apply_chunk_key(&mut draft.chunk, &value)?
        || apply_etcd_key(&mut draft.etcd, &value)?
        || apply_replicated_key(&mut draft.replicated, &mut draft.report, place, &value)?
        || apply_auth_key(draft, place, &value)?
        || apply_tls_key(&mut draft.tls, place, &value)?;
    if is_known { Ok(()) } else { Err("is not a key of this file".to_string()) }
}

// Each of these functions applies the keys of its subject. It returns false for any other key.

fn apply_storage_key(storage: &mut StorageDraft, value: &Value<'_>) -> Result<bool, String> {
    match value.key {
        "data_dir" => storage.data_dir = Some(PathBuf::from(value.text()?)),
        "data_dir_create" => storage.is_data_dir_required = !value.boolean()?,
        "log_dir" => storage.log_dir = Some(PathBuf::from(value.text()?)),
        "snapshot_command_count" => {
            let count = value.count()?;
            if count < SNAPSHOT_COMMAND_COUNT_MIN {
                return Err(format!("{count} is below the least, {SNAPSHOT_COMMAND_COUNT_MIN}"));
            }
            storage.snapshot_command_count = Some(count);
        }
        "snapshot_log_bytes" => {
            storage.snapshot_log = Some(log_rule(value.bytes()?));
        }
        "disk_stall" => storage.set_disk_stall_ms(value.ms()?.into())?,
        "level_max" => storage.level_max = Some(level_max(value.integer()?)?),
        "fsync_warning" => storage.fsync_warning_ms = Some(u64::from(value.ms()?)),
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_listeners_key(listeners: &mut ListenersDraft, value: &Value<'_>) -> Result<bool, String> {
    match value.key {
        "zk_addr" => listeners.zk_addr = Some(value.text()?.parse()?),
        "zk_tls_addr" => listeners.zk_tls_addr = Some(value.text()?.parse()?),
        "connections_per_ip_max" => listeners.connections_per_ip_max = Some(value.count()?),
        "connections_max" => listeners.connections_max = Some(value.count()?),
        "listen_backlog" => listeners.backlog = Some(value.count()?).filter(|&n| n > 0),
        "client_keep_alive" => listeners.keep_alive = Some(value.boolean()?),
        "four_letter_words" => {
            listeners.four_letter_words = Some(FourLetterWords::of(value.texts()?));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_sessions_key(
    sessions: &mut SessionsDraft,
    place: &Place,
    value: &Value<'_>,
) -> Result<bool, String> {
    match value.key {
        "tick" => sessions.tick_ms = Some(value.ms_above_0()?),
        "session_timeout_min" => {
            sessions.timeout_ms_min = Some(value.ms()?);
            sessions.timeout_place = Some(place.clone());
        }
        "session_timeout_max" => {
            sessions.timeout_ms_max = Some(value.ms()?);
            sessions.timeout_place = Some(place.clone());
        }
        "sessionless_timeout" => {
            sessions.sessionless_ms_max = Some(u64::from(value.ms_above_0()?));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_requests_key(requests: &mut RequestsDraft, value: &Value<'_>) -> Result<bool, String> {
    match value.key {
        "jute_bytes_max" => {
            let bytes = value.bytes()?;
            let taken = u32::try_from(bytes).ok().filter(|n| (1..=JUTE_BYTES_MAX_MAX).contains(n));
            requests.jute_bytes_max = Some(taken.ok_or_else(|| {
                format!("{bytes} bytes is not between 1 and {JUTE_BYTES_MAX_MAX}")
            })?);
        }
        "commands_in_flight_max" => match value.count()? {
            0 => return Err("0 would let nothing through".to_string()),
            max => requests.bound_commands(max),
        },
        "throttled_op_wait" => requests.throttled_op_wait_ms = u64::from(value.ms()?),
        "reply_bytes_max" => {
            requests.reply_bytes_max = Some(value.bytes()?).filter(|max| *max > 0);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_throttle_key(
    throttle: &mut ThrottleDraft,
    place: &Place,
    value: &Value<'_>,
) -> Result<bool, String> {
    let connections = &mut throttle.connections;
    match value.key {
        "connect_tokens_max" => connections.tokens_max = value.count()?,
        "connect_fill" => connections.fill_ms = value.ms_above_0()?,
        "connect_fill_count" => connections.fill_count = value.count()?,
        "connect_freeze" => connections.freeze_ms = Some(value.ms()?),
        "connect_drop_increase" => connections.drop_increase = value.ratio()?,
        "connect_drop_decrease" => connections.drop_decrease = value.ratio()?,
        "connect_decrease_ratio" => connections.decrease_ratio = value.ratio()?,
        "connect_weights" => {
            throttle.is_weighted = true;
            throttle.weights_place = Some(place.clone());
            for (name, weight) in value.counts()? {
                match name.as_str() {
                    "global" => throttle.weights.global = weight.into(),
                    "local" => throttle.weights.local = weight.into(),
                    "renew" => throttle.weights.renew = weight.into(),
                    _ => return Err(format!("{name:?} is no kind of session")),
                }
            }
        }
        // Our limit is the smallest size of a large request; ZooKeeper's threshold is the largest
        // size of a small one.
        "large_request_bytes_min" => {
            let bytes = value.bytes()?;
            let threshold = bytes.checked_sub(1).and_then(|bytes| u32::try_from(bytes).ok());
            let out_of_range = || format!("{bytes} bytes is not between 1 and 4 GiB");
            throttle.large_requests.threshold = Some(threshold.ok_or_else(out_of_range)?);
        }
        "large_requests_bytes_max" => match value.bytes()? {
            0 => return Err("0 would let none through".to_string()),
            bytes => throttle.large_requests.bytes_max = bytes,
        },
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_container_key(
    container: &mut ContainerSettings,
    value: &Value<'_>,
) -> Result<bool, String> {
    match value.key {
        "container_check_interval" => container.check_interval_ms = value.ms_above_0()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_logging_key(logging: &mut LoggingConfig, value: &Value<'_>) -> Result<bool, String> {
    match value.key {
        "audit" => logging.audit = value.boolean()?,
        "log" => logging.filter = Some(log_filter(value.text()?)?),
        "slow_request" => logging.slow_request_ms = Some(u64::from(value.ms_above_0()?)),
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_monitoring_key(
    monitoring: &mut MonitoringDraft,
    value: &Value<'_>,
) -> Result<bool, String> {
    let (admin, metrics) = (&mut monitoring.admin, &mut monitoring.metrics);
    match value.key {
        "admin_addr" => admin.addr = Some(value.text()?.parse()?),
        "admin_snapshot" => admin.snapshot = Some(value.boolean()?),
        "admin_restore" => admin.restore = Some(value.boolean()?),
        "admin_rate_limit_interval" => {
            admin.rate_limit_interval_ms = Some(u64::from(value.ms()?));
        }
        "metrics_addr" => metrics.addr = Some(value.text()?.parse()?),
        "metrics_of_process" => metrics.with_process = Some(value.boolean()?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_pages_key(refuses_foreign_pages: &mut bool, value: &Value<'_>) -> Result<bool, String> {
    match value.key {
        "refuse_foreign_pages" => *refuses_foreign_pages = value.boolean()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_etcd_key(etcd: &mut EtcdDraft, value: &Value<'_>) -> Result<bool, String> {
    match value.key {
        "etcd_addr" => etcd.addr = Some(value.text()?.parse()?),
        "etcd_tls_addr" => etcd.tls_addr = Some(value.text()?.parse()?),
        "etcd_enable_v2" => etcd.has_v2 = value.boolean()?,
        key => {
            let Some(flag) = key.strip_prefix("etcd_") else { return Ok(false) };
            return etcd.set(&flag.replace('_', "-"), &value.text_or_integer()?);
        }
    }
    Ok(true)
}

fn apply_chunk_key(chunk: &mut ChunkDraft, value: &Value<'_>) -> Result<bool, String> {
    match value.key {
        "chunk_addr" => chunk.addr = Some(value.text()?.parse()?),
        "chunk_tls_addr" => chunk.tls_addr = Some(value.text()?.parse()?),
        "chunk_connections_max" => chunk.connections_max = Some(value.count()? as usize),
        "chunk_connections_per_ip_max" => {
            chunk.connections_per_ip_max = Some(value.count()? as usize);
        }
        "chunk_dir" => chunk.dir = Some(PathBuf::from(value.text()?)),
        "chunk_bytes_max" => chunk.bytes_max = Some(value.bytes()?),
        "chunk_free_bytes_min" => chunk.free_bytes_min = Some(value.bytes()?),
        "chunk_layout" => chunk.layout = Some(parse_layout(value.text()?)?),
        "chunk_verify_writes" => chunk.verify_writes = value.boolean()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_replicated_key(
    replicated: &mut Settings,
    report: &mut Report,
    place: &Place,
    value: &Value<'_>,
) -> Result<bool, String> {
    match value.key {
        "skip_acl" => replicated.skip_acl = value.boolean()?,
        "super_digest" => replicated.super_digest = super_digest(value.text()?)?,
        "digest_algorithm" => replicated.digest_algorithm = digest_algorithm(value.text()?)?,
        "digest_enabled" => replicated.digest_enabled = value.boolean()?,
        "extended_types" => replicated.extended_types = value.boolean()?,
        "enforce_quota" => replicated.enforce_quota = value.boolean()?,
        "reconfig_enabled" => {
            replicated.reconfig_enabled = value.boolean()?;
            if replicated.reconfig_enabled {
                report.warn(place, value.key, RECONFIG_NEEDS_LEVEL);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_auth_key(draft: &mut Draft, place: &Place, value: &Value<'_>) -> Result<bool, String> {
    let auth = &mut draft.auth;
    match value.key {
        "ensemble_auth_names" => {
            auth.ensemble_names = Some(value.texts()?);
            auth.has_ensemble_provider = true;
        }
        "enforce_auth_schemes" => {
            auth.enforced_schemes = value.texts()?;
            auth.is_enforced = !auth.enforced_schemes.is_empty();
        }
        "sasl_users" => {
            auth.sasl.users = Some((value.pairs()?, place.clone()));
            draft.replicated.sasl_enabled = true;
        }
        "sasl_failed_allowed" => auth.sasl_failed_allowed = value.boolean()?,
        "jaas_file" => {
            auth.sasl.jaas_file = Some(PathBuf::from(value.text()?));
            draft.replicated.sasl_enabled = true;
        }
        "super_users" => {
            auth.sasl.super_users =
                value.texts()?.into_iter().map(|user| (user.clone(), user)).collect();
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The keys about TLS for clients, each with ZooKeeper's name for the setting.
const TLS_NAMES: [(&str, &str); 15] = [
    ("tls_port_unification", "client.portUnification"),
    ("tls_key_store", "ssl.keyStore.location"),
    ("tls_key_store_type", "ssl.keyStore.type"),
    ("tls_key_store_password", "ssl.keyStore.password"),
    ("tls_key_store_password_file", "ssl.keyStore.passwordPath"),
    ("tls_trust_store", "ssl.trustStore.location"),
    ("tls_trust_store_type", "ssl.trustStore.type"),
    ("tls_trust_store_password", "ssl.trustStore.password"),
    ("tls_trust_store_password_file", "ssl.trustStore.passwordPath"),
    ("tls_client_auth", "ssl.clientAuth"),
    ("tls_protocols", "ssl.enabledProtocols"),
    ("tls_cipher_suites", "ssl.ciphersuites"),
    ("tls_reload", "client.certReload"),
    ("tls_handshakes_max", "netty.server.outstandingHandshake.limit"),
    ("x509_super_user", "X509AuthenticationProvider.superUser"),
];

fn apply_tls_key(tls: &mut TlsDraft, place: &Place, value: &Value<'_>) -> Result<bool, String> {
    let Some((_, name)) = TLS_NAMES.iter().find(|(ours, _)| *ours == value.key) else {
        return Ok(false);
    };
    let text = value.tls_text()?;
    assert!(tls.say(place, value.key, name, &text), "{name} is about TLS");
    Ok(true)
}

/// A value of the file, with its key.
struct Value<'a> {
    key: &'a str,
    /// The keys of its table with examples of values: [`KEYS`] or [`CLUSTER_KEYS`].
    forms: &'a [(&'a str, &'a str)],
    value: &'a DeValue<'a>,
}

impl Value<'_> {
    fn wrong(&self) -> String {
        self.cannot_be(self.value.type_str())
    }

    fn cannot_be(&self, what: &str) -> String {
        let form = self.forms.iter().find(|(key, _)| *key == self.key).map_or("", |(_, form)| form);
        format!("cannot be {what}; write it like {form}")
    }

    fn text(&self) -> Result<&str, String> {
        match self.value.as_str() {
            Some("") => Err(self.cannot_be("empty")),
            Some(text) => Ok(text),
            None => Err(self.wrong()),
        }
    }

    fn text_or_integer(&self) -> Result<String, String> {
        match self.value.is_integer() {
            true => Ok(self.integer()?.to_string()),
            false => Ok(self.text()?.to_string()),
        }
    }

    fn boolean(&self) -> Result<bool, String> {
        self.value.as_bool().ok_or_else(|| self.wrong())
    }

    /// Reads an integer from 0 to the largest `int` of Java, which ZooKeeper uses.
    fn count(&self) -> Result<u32, String> {
        let number = u32::try_from(self.integer()?).ok();
        number
            .filter(|&number| number <= i32::MAX.unsigned_abs())
            .ok_or_else(|| format!("is not between 0 and {}", i32::MAX))
    }

    fn integer(&self) -> Result<i64, String> {
        let integer = self.value.as_integer().ok_or_else(|| self.wrong())?;
        i64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| self.wrong())
    }

    fn bytes(&self) -> Result<u64, String> {
        if self.value.is_integer() {
            return u64::try_from(self.integer()?).map_err(|_| "is below 0".to_string());
        }
        units::parse_bytes(self.text()?)
    }

    fn ms(&self) -> Result<u32, String> {
        let text = self.text()?;
        u32::try_from(units::parse_ms(text)?)
            .ok()
            .filter(|&ms| ms <= i32::MAX.unsigned_abs())
            .ok_or_else(|| format!("{text:?} is longer than {} ms", i32::MAX))
    }

    fn ms_above_0(&self) -> Result<u32, String> {
        match self.ms()? {
            0 => Err("must be above 0".to_string()),
            ms => Ok(ms),
        }
    }

    /// Reads a number from 0 to 1.
    fn ratio(&self) -> Result<f64, String> {
        let number = match self.value.as_float() {
            Some(float) => float.as_str().to_string(),
            None => self.integer()?.to_string(),
        };
        throttle::ratio(&number)
    }

    /// Reads a table of integers.
    fn counts(&self) -> Result<BTreeMap<String, u32>, String> {
        let table = self.value.as_table().ok_or_else(|| self.wrong())?;
        let counts = table.iter().map(|(key, value)| {
            let count = Value { value: value.get_ref(), ..*self }.count()?;
            Ok((key.get_ref().to_string(), count))
        });
        counts.collect()
    }

    /// Reads a table of texts.
    fn pairs(&self) -> Result<BTreeMap<String, String>, String> {
        let table = self.value.as_table().ok_or_else(|| self.wrong())?;
        let pairs = table.iter().map(|(key, value)| {
            let text = value.get_ref().as_str().ok_or_else(|| self.wrong())?;
            Ok((key.get_ref().to_string(), text.to_string()))
        });
        pairs.collect()
    }

    /// The value of a setting of TLS, as text in ZooKeeper's form.
    fn tls_text(&self) -> Result<String, String> {
        Ok(match self.key {
            "tls_port_unification" | "tls_reload" | "tls_host_names" => self.boolean()?.to_string(),
            "tls_protocols" | "tls_cipher_suites" => {
                self.texts()?.into_iter().collect::<Vec<_>>().join(",")
            }
            "tls_handshakes_max" => self.count()?.to_string(),
            _ => self.text()?.to_string(),
        })
    }

    fn texts(&self) -> Result<BTreeSet<String>, String> {
        let array = self.value.as_array().ok_or_else(|| self.wrong())?;
        array
            .iter()
            .map(|item| item.get_ref().as_str().map(str::to_string).ok_or_else(|| self.wrong()))
            .collect()
    }
}
