//! The configuration of a server: command line, file and environment become one [`ServeConfig`].
//!
//! A file is ZooKeeper's `zoo.cfg` or our own `quorate.toml`, told apart by its content. In a
//! `zoo.cfg` every key means what it means in ZooKeeper 3.9 (`QuorumPeerConfig`, and the classes
//! that read the `zookeeper.*` properties). A key that ZooKeeper does not know, or that this server
//! does not implement, causes a [`Warning`]. In a `quorate.toml` an unknown key is an error.
//!
//! For each setting, the command line wins over the file, the file over a `-D` property of
//! `JVMFLAGS` or `SERVER_JVMFLAGS` (as in ZooKeeper, which turns the file into properties), and the
//! property over the default. If there is no file, the variables of ZooKeeper's container image
//! (`ZOO_*`) take its place. If there are no such variables either, and no option names a face, the
//! default faces are served. [`load_from`] is pure: files and environment are its arguments.

pub mod address;
mod args;
mod auth;
pub mod chunk;
pub mod cluster;
mod container_env;
mod draft;
pub mod etcd;
mod etcd_given;
pub mod etcd_program;
mod files;
mod listeners;
pub mod log_style;
mod logging;
pub mod masked;
mod monitoring;
pub mod report;
mod requests;
pub mod rewritten;
mod sasl;
pub mod self_signed;
mod serve_config;
mod sessions;
mod storage;
mod throttle;
pub mod tls;
mod toml_file;
pub mod units;
mod values;
mod zoo_cfg;

#[cfg(test)]
mod tests;

use draft::Draft;
use files::must_read;

pub use address::ListenAddress;
pub use args::{Exit, ServeArgs};
pub use chunk::{ChunkConfig, layout_name};
pub use cluster::{ClusterConfig, GivenServer, GivenServers};
pub use container_env::ContainerEnv;
pub use etcd::ETCD_PORT_DEFAULT;
pub use etcd_given::{EtcdGiven, LEVEL_MAX_VARIABLE};
pub use files::ReadFile;
pub use listeners::ZK_PORT_DEFAULT;
pub use monitoring::{ADMIN_PORT_DEFAULT, ImageConfig, MonitoringConfig};
pub use report::{ConfigError, Severity, Warning};
pub use serve_config::ServeConfig;
pub use storage::{DATA_DIR_DEFAULT, StorageConfig};

/// The environment variables that are part of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// `SERVER_JVMFLAGS`; `zkServer.sh` puts it in front of `JVMFLAGS`.
    pub server_jvmflags: Option<String>,
    /// `JVMFLAGS`. The last definition of a property counts, so this variable wins over the other.
    pub jvmflags: Option<String>,
    /// `ZOO_*`, the variables of ZooKeeper's container image.
    pub container: ContainerEnv,
}

/// Loads the configuration of `quorate serve` from its options, the environment, and files, which
/// `read` reads. Also returns warnings for the author.
///
/// # Errors
/// The configuration cannot be used.
pub fn load_from(
    args: &ServeArgs,
    env: &Env,
    read: ReadFile<'_>,
) -> Result<(ServeConfig, Vec<Warning>), ConfigError> {
    let mut draft = Draft::default();
    for (name, flags) in [("SERVER_JVMFLAGS", &env.server_jvmflags), ("JVMFLAGS", &env.jvmflags)] {
        zoo_cfg::apply_jvm_flags(&mut draft, name, flags.as_deref().unwrap_or(""))?;
    }
    let mounted = container_env::mounted_file(&env.container);
    let mounted = mounted.filter(|path| matches!(read(path), Ok(Some(_))));
    if let Some(path) = args.file().or(mounted.as_deref()) {
        let file = path.display().to_string();
        let text = must_read(read, path)?;
        draft.report.file = Some(file.clone());
        let (is_toml, why) = toml_file::recognises(path, &text);
        let applied = if is_toml {
            draft.initial_config = masked::toml(&text);
            toml_file::apply(&mut draft, &file, &text)
        } else {
            draft.report.is_zoo_cfg = true;
            draft.initial_config = masked::zoo_cfg(&text);
            zoo_cfg::apply(&mut draft, &file, &text, read)
        };
        let is_named_so = is_toml == toml_file::is_named(path);
        let format = if is_toml { "TOML" } else { "a zoo.cfg" };
        applied.map_err(|it| if is_named_so { it } else { it.read_as(format, &why) })?;
    } else if env.container.keys().any(|name| container_env::is_one(name)) {
        draft.report.is_zoo_cfg = true;
        container_env::apply(&mut draft, &env.container)?;
        draft.listeners.settle_zoo_ports()?;
    }
    if let Some(data_dir) = &args.data_dir {
        draft.storage.data_dir = Some(data_dir.clone());
    }
    if let Some(given) = &args.etcd {
        give_etcd_program(&mut draft, given)?;
    }
    let cluster = cluster::settle::settle(&mut draft, read)?;
    give_faces(&mut draft, args);
    if args.etcd.is_none() {
        draft.name_default_faces();
    }
    let Draft { auth, report, system_properties, .. } = &mut draft;
    auth.sasl_users = sasl::settle(&mut auth.sasl, report, system_properties, read)?;
    draft.finish(cluster)
}

/// Applies what etcd's own flags give.
fn give_etcd_program(draft: &mut Draft, given: &EtcdGiven) -> Result<(), ConfigError> {
    for (flag, value) in &given.settings {
        let place = report::Place::of("etcd");
        let key = format!("--{flag}");
        let invalid = |cause| ConfigError::Invalid { place, key, cause };
        draft.etcd.set(flag, value).map_err(invalid)?;
    }
    draft.etcd.given = Some((given.ports.clone(), given.about.clone()));
    draft.given_tls = given.tls.clone();
    draft.storage.log_dir = given.log_dir.clone();
    if let Some(text) = &given.level_max {
        let level = text.parse().map_err(|_| format!("{text:?} is no number"));
        let level = level.and_then(values::level_max).map_err(|cause| ConfigError::Malformed {
            place: report::Place::of(LEVEL_MAX_VARIABLE),
            cause,
        })?;
        draft.storage.level_max = Some(level);
    }
    draft.report.warnings.extend(given.warnings.iter().cloned());
    given.cluster.as_ref().map_or(Ok(()), |servers| draft.cluster.give(servers))
}

/// Applies the command-line options about faces.
fn give_faces(draft: &mut Draft, args: &ServeArgs) {
    if let Some(zk_addr) = &args.zk_addr {
        draft.listeners.zk_addr = Some(zk_addr.clone());
    }
    if let Some(admin_addr) = &args.admin_addr {
        draft.monitoring.admin.addr = Some(admin_addr.clone());
    }
    if let Some(metrics_addr) = &args.metrics_addr {
        draft.monitoring.metrics.addr = Some(metrics_addr.clone());
    }
    if let Some(etcd_addr) = &args.etcd_addr {
        draft.etcd.addr = Some(etcd_addr.clone());
    }
    if let Some(etcd_tls_addr) = &args.etcd_tls_addr {
        draft.etcd.tls_addr = Some(etcd_tls_addr.clone());
    }
    draft.etcd.has_v2 |= args.etcd_v2;
    if let Some(chunk_addr) = &args.chunk_addr {
        draft.chunk.addr = Some(chunk_addr.clone());
    }
    if let Some(chunk_tls_addr) = &args.chunk_tls_addr {
        draft.chunk.tls_addr = Some(chunk_tls_addr.clone());
    }
    if let Some(chunk_dir) = &args.chunk_dir {
        draft.chunk.dir = Some(chunk_dir.clone());
    }
    if let Some(layout) = args.chunk_layout {
        draft.chunk.layout = Some(layout);
    }
    draft.chunk.verify_writes |= args.chunk_verify_writes;
}
