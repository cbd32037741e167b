//! The values of etcd's own flags, checked and in the form of our configuration.

use std::path::PathBuf;

use super::cluster::GivenServers;
use super::etcd::{EtcdAbout, EtcdPort};
use super::report::Warning;
use super::tls::TlsConfig;
use crate::log_style::LogStyle;
use crate::self_signed::SelfSigned;

/// The variable with the highest level that the server says it knows: etcd has no such flag.
pub const LEVEL_MAX_VARIABLE: &str = "QUORATE_LEVEL_MAX";

/// The configuration of a server that was started under etcd's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdGiven {
    /// The ports of etcd's clients. No others are served.
    pub ports: Vec<EtcdPort>,
    /// Names and URLs that the answers about members show.
    pub about: EtcdAbout,
    /// Settings by the names of the flags.
    pub settings: Vec<(&'static str, String)>,
    /// TLS for clients; `None` if no port speaks it.
    pub tls: Option<TlsConfig>,
    /// The keys and certificates to make before the stores are read.
    pub self_signed: Vec<SelfSigned>,
    /// The ensemble; `None` if the server is standalone.
    pub cluster: Option<GivenServers>,
    /// The folder of the log, if it is another one than that of the data.
    pub log_dir: Option<PathBuf>,
    /// The text of [`LEVEL_MAX_VARIABLE`].
    pub level_max: Option<String>,
    /// The log.
    pub log: LogStyle,
    /// Warnings about flags, variables and keys.
    pub warnings: Vec<Warning>,
}
