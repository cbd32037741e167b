//! SIGHUP: reads some of the configuration again, without a restart.
//!
//! The filter of the log is read from the configuration file again, and so are the stores of keys
//! and certificates, even if they are not watched for changes. Open connections keep their
//! settings. Everything else in the file needs a restart.

use std::sync::Arc;
use std::{io, sync, thread};

use config::ServeArgs;
use tokio::signal::unix::Signal;

use crate::client_tls::Tls;
use crate::config_sources::{env_of_process, load};
use crate::logging::Logging;
use crate::peer_tls::PeerStores;

/// The things that a hangup reloads.
pub struct Reloaded {
    pub args: ServeArgs,
    pub logging: Logging,
    /// TLS for clients, if a port speaks it.
    pub tls: Option<Arc<Tls>>,
    /// TLS between servers, if they speak it.
    pub peers: Option<Arc<PeerStores>>,
}

impl Reloaded {
    /// Reloads at each hangup, until the process ends: on a thread of its own, since a disk that
    /// hangs must not stop the thread that accepts connections.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(self, mut hangups: Signal) -> io::Result<impl Future<Output = ()>> {
        // One hangup may wait: the reload that it asks for reads everything.
        let (ask, asked) = sync::mpsc::sync_channel(1);
        thread::Builder::new().name("reload".to_string()).spawn(move || {
            while asked.recv().is_ok() {
                self.reload();
            }
        })?;
        Ok(async move {
            while hangups.recv().await.is_some() {
                // It is full while one waits.
                let _ = ask.try_send(());
            }
        })
    }

    /// Logs a line for each thing that is read again; a thing that cannot be read stays as it was.
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
