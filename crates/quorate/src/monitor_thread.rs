//! The monitoring thread: a small tokio runtime that serves the ports for metrics and the admin
//! server, and answers the four-letter words of clients.

use std::sync::Arc;

use config::ImageConfig;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::LocalSet;

use crate::admin::{Port, WaitingServer};
use crate::connections::Connections;
use crate::listen_zk::Question;
use crate::monitor::{About, Monitor, Started};
use crate::observe::Observer;

/// How many four-letter words may wait for an answer. A further one closes its connection.
pub const QUESTIONS_MAX: usize = 1_024;

/// How many four-letter words are answered at the same time; further ones wait.
const ANSWERS_MAX: usize = 256;

/// The parts of a started server that the monitoring thread needs.
pub struct Begin {
    pub observer: Observer,
    pub about: About,
    pub images: ImageConfig,
    pub questions: mpsc::Receiver<Question>,
}

/// Starts the thread, which serves the ports at once. The caller must send a [`Begin`] when the
/// server has started; before that, the thread can only report that it has not. The thread ends
/// with the process.
///
/// # Errors
/// The thread or its runtime cannot be started.
pub fn start(
    ports: Vec<Port>,
    waiting: WaitingServer,
    connections: Arc<Connections>,
) -> std::io::Result<oneshot::Sender<Begin>> {
    let (sender, begin) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("monitor".to_string()).spawn(move || {
        let started = Started::default();
        let local = LocalSet::new();
        for port in ports {
            local.spawn_local(port.serve(started.clone(), waiting.clone(), connections.clone()));
        }
        local.block_on(&runtime, watch(started, begin));
    })?;
    Ok(sender)
}

/// Waits until the server has started, then answers four-letter words.
async fn watch(started: Started, begin: oneshot::Receiver<Begin>) {
    // The sender is dropped only if the start failed; then the process is about to end.
    let Ok(Begin { observer, about, images, questions }) = begin.await else { return };
    started.get_or_init(|| Monitor::new(observer, about, images));
    run(started, questions).await;
}

async fn run(started: Started, mut questions: mpsc::Receiver<Question>) {
    let answers = Arc::new(Semaphore::new(ANSWERS_MAX));
    while let Some(question) = questions.recv().await {
        let Ok(turn) = answers.clone().acquire_owned().await else { return };
        let started = started.clone();
        tokio::task::spawn_local(async move {
            let Some(monitor) = started.get() else { return };
            monitor.answer(question).await;
            drop(turn);
        });
    }
}
