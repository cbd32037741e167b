//! The settings of the face for etcd's clients. It is served only where it is asked for.

use super::address::ListenAddress;

/// The settings of the face for etcd's clients, which is served on at least one of the two
/// addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The address for clients without TLS.
    pub addr: Option<ListenAddress>,
    /// The address for clients with TLS, which has the stores and the settings of the other ports.
    pub tls_addr: Option<ListenAddress>,
}

/// The settings that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct EtcdDraft {
    /// The address; if this or the next one is set, the face is served.
    pub addr: Option<ListenAddress>,
    pub tls_addr: Option<ListenAddress>,
}

impl EtcdDraft {
    pub fn is_served(&self) -> bool {
        self.addr.is_some() || self.tls_addr.is_some()
    }

    pub fn finish(self) -> Option<EtcdConfig> {
        self.is_served().then_some(EtcdConfig { addr: self.addr, tls_addr: self.tls_addr })
    }
}
