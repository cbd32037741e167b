//! Opens the chunk store of a server on a thread of its own, and tracks its state: being opened,
//! serving, or failed. Whatever the state, the rest of the server serves. Until the store is open,
//! clients that connect to its ports wait in the kernel's backlog.

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use config::{ChunkConfig, StorageConfig};
use node::MonitorHandle;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::limits::STORE_STOP_TIME_MAX;
use super::{ChunkFace, start, store_dir};
use crate::client_tls::Tls;
use crate::connections::Connections;
use crate::observe::metric::{Metric, Value, whole};

/// The chunk store of a server, with its state.
pub struct Chunks {
    folder: PathBuf,
    state: Mutex<State>,
    is_opened: Notify,
}

enum State {
    Opening,
    Serving(Arc<ChunkFace>),
    /// Why the store could not be opened.
    Failed(String),
}

impl Chunks {
    /// Starts to open the store, which may take a while, on a thread of its own. Nothing waits for
    /// that thread: if the process ends first, the thread ends with it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn open(
        config: &ChunkConfig,
        storage: &StorageConfig,
        node: MonitorHandle,
    ) -> anyhow::Result<Arc<Chunks>> {
        let folder = store_dir(config, &storage.data_dir);
        let state = Mutex::new(State::Opening);
        let chunks = Arc::new(Chunks { folder, state, is_opened: Notify::new() });
        let (opened, config, storage) = (chunks.clone(), config.clone(), storage.clone());
        let thread = std::thread::Builder::new().name("chunk-open".to_string());
        thread.spawn(move || {
            let state = match start(&config, &storage, node) {
                Ok(face) => {
                    tracing::info!("the chunk store in {} is served", opened.folder.display());
                    State::Serving(Arc::new(face))
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!("the chunk store is not served, the rest is: {error}");
                    State::Failed(error)
                }
            };
            *opened.state() = state;
            opened.is_opened.notify_one();
        })?;
        Ok(chunks)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // No thread panics while it holds the lock, so the state behind a poisoned lock is good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn face(&self) -> Option<Arc<ChunkFace>> {
        match &*self.state() {
            State::Serving(face) => Some(face.clone()),
            State::Opening | State::Failed(_) => None,
        }
    }

    /// Waits until the store is open, then accepts clients on its ports. If the store cannot be
    /// opened, closes the ports. Never returns; the caller drops the future to end it.
    pub async fn serve(
        &self,
        plain: Option<TcpListener>,
        secure: Option<TcpListener>,
        tls: Option<Arc<Tls>>,
        connections: &Arc<Connections>,
    ) {
        self.is_opened.notified().await;
        let Some(face) = self.face() else {
            drop((plain, secure));
            return std::future::pending().await;
        };
        let accept = async |listener: Option<TcpListener>, tls| match listener {
            Some(listener) => face.accept(listener, tls, connections).await,
            None => std::future::pending().await,
        };
        tokio::select! {
            () = accept(plain, None) => {}
            () = accept(secure, tls) => {}
        }
    }

    /// Whether the store serves, and a line for the health probe.
    pub fn health(&self) -> (bool, String) {
        let folder = self.folder.display();
        match &*self.state() {
            State::Opening => (false, format!("{folder} is being opened\n")),
            State::Failed(why) => (false, format!("{why}\n")),
            State::Serving(face) => face.health(),
        }
    }

    /// The metrics for Prometheus. While the store does not serve, they say only that.
    pub fn metrics(&self) -> Vec<Metric> {
        let (is_served, is_failed, of_face) = match &*self.state() {
            State::Opening => (0, 0, Vec::new()),
            State::Serving(face) => (1, 0, face.metrics().all()),
            State::Failed(_) => (0, 1, Vec::new()),
        };
        let gauge = |name, is: i64| Metric::named(name, Value::Gauge(whole(is)));
        let mut metrics =
            vec![gauge("chunk_store_served", is_served), gauge("chunk_store_failed", is_failed)];
        metrics.extend(of_face);
        metrics
    }

    /// Closes all connections and makes everything durable. Does nothing unless the store serves.
    ///
    /// # Errors
    /// The store cannot be stopped cleanly, or its disk does not answer within
    /// [`STORE_STOP_TIME_MAX`].
    pub fn stop(&self) -> anyhow::Result<()> {
        let state = std::mem::replace(&mut *self.state(), State::Opening);
        let State::Serving(face) = state else { return Ok(()) };
        let face = Arc::into_inner(face).context("the chunk store is still in use")?;
        let (sender, stopped) = sync_channel(1);
        let thread = std::thread::Builder::new().name("chunk-stop".to_string());
        thread.spawn(move || sender.send(face.stop()))?;
        stopped.recv_timeout(STORE_STOP_TIME_MAX).unwrap_or_else(|_| {
            anyhow::bail!(
                "the chunk store in {} did not stop within {} s: writes that were not durable may \
                 be lost",
                self.folder.display(),
                STORE_STOP_TIME_MAX.as_secs()
            )
        })
    }
}
