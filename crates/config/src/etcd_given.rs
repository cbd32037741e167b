//! The configuration that etcd's own flags, variables and file give, after all checks.

use std::path::PathBuf;

use super::cluster::GivenServers;
use super::etcd::{EtcdAbout, EtcdPort};
use super::report::Warning;
use super::tls::TlsConfig;
use crate::log_style::LogStyle;
use crate::self_signed::SelfSigned;

/// The environment variable with the highest level that the server may know. It is ours: etcd has
/// no flag for it.
pub const LEVEL_MAX_VARIABLE: &str = "QUORATE_LEVEL_MAX";

/// The configuration of a server that was started under etcd's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdGiven {
    /// The ports for etcd's clients. Nothing else is served.
    pub ports: Vec<EtcdPort>,
    /// Names and URLs that clients see.
    pub about: EtcdAbout,
    /// Other settings, each with the name of its flag.
    pub settings: Vec<(&'static str, String)>,
    /// TLS for clients; `None` if no port speaks TLS.
    pub tls: Option<TlsConfig>,
    /// Keys and certificates that the server must make before it reads its key stores.
    pub self_signed: Vec<SelfSigned>,
    /// The servers of the ensemble; `None` if the server is standalone.
    pub cluster: Option<GivenServers>,
    /// The folder of the log; `None` if it is the data directory.
    pub log_dir: Option<PathBuf>,
    /// Whether the data directory becomes the only member of a new cluster before the start
    /// (`--force-new-cluster`).
    pub force_new_cluster: bool,
    /// The value of [`LEVEL_MAX_VARIABLE`], not parsed yet.
    pub level_max: Option<String>,
    /// The form and the destinations of log lines.
    pub log: LogStyle,
    /// Warnings about flags, variables and keys of the file.
    pub warnings: Vec<Warning>,
}
