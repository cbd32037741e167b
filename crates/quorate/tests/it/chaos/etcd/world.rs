//! The state that etcd's clients share during faults: their history, and their connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use sim::etcd_clients::wire::Served;
use tokio::time::timeout;
use workload::etcd::history::History;
use workload::etcd::op::{Answer, Error, Op};
use workload::etcd::watch::Step;

use crate::etcd_client::OpsClient;

/// How long a client waits for most answers. A member gives up a call after 7 s.
pub const CALL_WAIT: Duration = Duration::from_secs(10);

/// The state that all clients share.
pub struct EtcdWorld {
    pub history: Mutex<History>,
    /// The revisions that acknowledged writes have made since the last audit.
    pub acknowledged: Mutex<BTreeSet<i64>>,
    /// The newest revision up to which all states are known.
    pub audited: AtomicI64,
    /// The newest revision that an answer has shown.
    pub newest: Mutex<i64>,
    began: Instant,
    pub addresses: Vec<SocketAddr>,
    /// The cluster that all responses name.
    cluster_id: OnceLock<u64>,
    is_over: AtomicBool,
}

pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl EtcdWorld {
    pub fn new(addresses: Vec<SocketAddr>) -> Arc<EtcdWorld> {
        Arc::new(EtcdWorld {
            history: Mutex::default(),
            acknowledged: Mutex::default(),
            audited: AtomicI64::new(1),
            newest: Mutex::new(1),
            began: Instant::now(),
            addresses,
            cluster_id: OnceLock::new(),
            is_over: AtomicBool::new(false),
        })
    }

    /// Tells the clients to stop.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Connects a client to a member. None if it does not listen.
    pub async fn connect(self: &Arc<Self>, client: u32, member: usize) -> Option<Connection> {
        let wire = OpsClient::connect(self.addresses[member]).await?;
        let number = lock(&self.history).connect(client, member as u32);
        Some(Connection { world: self.clone(), wire, number })
    }

    /// Notes a watch stream of a client on a connection of its own. Returns its number.
    pub fn open_stream(&self, client: u32, member: usize, requires_leader: bool) -> usize {
        let mut history = lock(&self.history);
        let connection = history.connect(client, member as u32);
        history.open_stream(connection, requires_leader, self.now_us())
    }

    /// Notes what was sent or received on a watch stream.
    pub fn note(&self, stream: usize, step: Step) {
        lock(&self.history).note_watch(stream, step, self.now_us());
    }

    /// Checks that all members are of one cluster.
    pub fn check_cluster(&self, served: Option<Served>) {
        if let Some(served) = served {
            let cluster_id = self.cluster_id.get_or_init(|| served.cluster_id);
            assert_eq!(*cluster_id, served.cluster_id, "all members are of one cluster");
        }
    }
}

/// A connection of a client, whose calls are recorded.
#[derive(Clone)]
pub struct Connection {
    pub world: Arc<EtcdWorld>,
    wire: OpsClient,
    /// Its number in the history.
    number: usize,
}

impl Connection {
    /// Makes a call. None if there is no answer: the connection ended, or the time is over.
    pub async fn call(&mut self, op: Op, wait: Duration) -> Option<Answer> {
        let id = lock(&self.world.history).ask(self.number, op.clone(), self.world.now_us());
        let told = timeout(wait, self.wire.try_ask(&op)).await;
        let answer = told.unwrap_or(Some(Err(Error::Canceled)))?;
        self.world.check_cluster(self.wire.served());
        let mut history = lock(&self.world.history);
        history.answer(id, answer.clone(), self.world.now_us());
        if let Ok(response) = &answer {
            let mut newest = lock(&self.world.newest);
            *newest = response.revision().max(*newest);
        }
        if let Ok(response) = &answer
            && response.tells_change()
        {
            lock(&self.world.acknowledged).insert(response.revision());
        }
        drop(history);
        (answer != Err(Error::Canceled)).then_some(answer)
    }
}
