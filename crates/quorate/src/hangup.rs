//! SIGHUP makes the server read some of its configuration again, without a restart.
//!
//! The server reads the log filter in the configuration file, the stores of keys and certificates,
//! and the list of revoked certificates, even if it does not watch these files for changes. Open
//! connections keep their settings. Every other change of the configuration needs a restart.

use std::sync::Arc;
use std::{io, sync, thread};

use config::ServeArgs;
use tokio::signal::unix::Signal;

use crate::client_tls::Tls;
use crate::config_sources::{env_of_process, load};
use crate::logging::Logging;
use crate::peer_tls::PeerStores;

/// The objects that a SIGHUP makes the server reload.
pub struct Reloaded {
    pub args: ServeArgs,
    pub logging: Logging,
    /// TLS for clients; `None` if no port uses it.
    pub tls: Option<Arc<Tls>>,
    /// TLS between servers; `None` if they do not use it.
    pub peers: Option<Arc<PeerStores>>,
}

impl Reloaded {
    /// Reloads at each SIGHUP until the process ends. It does so on a thread of its own, since a
    /// disk that hangs must not stop the thread that accepts connections. The caller must run the
    /// returned future.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self, mut hangups: Signal) -> io::Result<impl Future<Output = ()>> {
        // At most one request for a reload waits: the reload that it starts reads everything.
        let (ask, asked) = sync::mpsc::sync_channel(1);
        thread::Builder::new().name("reload".to_string()).spawn(move || {
            while asked.recv().is_ok() {
                self.reload();
            }
        })?;
        Ok(async move {
            while hangups.recv().await.is_some() {
                // If this fails, a request is already waiting.
                let _ = ask.try_send(());
            }
        })
    }

    /// Reads everything again, and logs a line for each part. A part that cannot be read stays as
    /// it was.
    fn reload(&self) {
        match self.reload_filter() {
            Ok(filter) => tracing::info!("SIGHUP: the log's filter is {filter:?}"),
            Err(error) => tracing::error!("SIGHUP: the log's filter is unchanged: {error:#}"),
        }
        if let Some(tls) = &self.tls {
            tls.reload("SIGHUP: TLS: the stores were read again and are used from now on");
        }
        if let Some(peers) = &self.peers {
            peers.reload();
        }
    }

    fn reload_filter(&self) -> anyhow::Result<String> {
        let (config, _) = load(&self.args, &env_of_process())?;
        self.logging.apply(config.logging.filter.as_deref())
    }
}
