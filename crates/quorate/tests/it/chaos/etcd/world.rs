//! State that the etcd clients share during faults: the history, and how to connect and record.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use sim::etcd_clients::wire::Served;
use tokio::time::timeout;
use workload::etcd::history::History;
use workload::etcd::op::{Answer, Error, Op};
use workload::etcd::watch::Step;

use crate::etcd_client::{Headers, OpsClient};

/// How long a client waits for most answers. A member itself gives up after 7 s.
pub const CALL_WAIT: Duration = Duration::from_secs(10);

/// The state that all etcd clients share.
pub struct EtcdWorld {
    pub history: Mutex<History>,
    /// Revisions that acknowledged writes have made since the last audit.
    pub acknowledged: Mutex<BTreeSet<i64>>,
    /// The last audited revision: up to it, all states are known.
    pub audited: AtomicI64,
    /// The newest revision that an answer has shown.
    pub newest: Mutex<i64>,
    began: Instant,
    pub addresses: Vec<SocketAddr>,
    /// The cluster id that all responses must have.
    cluster_id: OnceLock<u64>,
    /// The server that each member id in a response has belonged to, by position.
    members: Mutex<BTreeMap<u64, usize>>,
    /// What connections expect of the headers.
    pub headers: Headers,
    is_over: AtomicBool,
}

pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl EtcdWorld {
    /// The state for servers at these addresses. `id_changes`: whether a server may get another id.
    pub fn new(addresses: Vec<SocketAddr>, id_changes: bool) -> Arc<EtcdWorld> {
        Arc::new(EtcdWorld {
            history: Mutex::default(),
            acknowledged: Mutex::default(),
            audited: AtomicI64::new(1),
            newest: Mutex::new(1),
            began: Instant::now(),
            addresses,
            cluster_id: OnceLock::new(),
            members: Mutex::default(),
            headers: Headers { id_changes, ..Headers::default() },
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

    /// Connects a client to a member; `None` if the member does not listen.
    pub async fn connect(self: &Arc<Self>, client: u32, member: usize) -> Option<Connection> {
        let wire = OpsClient::connect_with(self.addresses[member], self.headers).await?;
        let number = lock(&self.history).connect(client, member as u32);
        Some(Connection { world: self.clone(), wire, member, number })
    }

    /// Records that a client opened a watch stream on a connection of its own. Returns the stream's
    /// number.
    pub fn open_stream(&self, client: u32, member: usize, requires_leader: bool) -> usize {
        let mut history = lock(&self.history);
        let connection = history.connect(client, member as u32);
        history.open_stream(connection, requires_leader, self.now_us())
    }

    /// Records something sent or received on a watch stream.
    pub fn note(&self, stream: usize, step: Step) {
        lock(&self.history).note_watch(stream, step, self.now_us());
    }

    /// Fails unless all members belong to one cluster, and no id names two of them.
    pub fn check_served(&self, member: usize, served: Option<Served>) {
        if let Some(served) = served {
            let cluster_id = self.cluster_id.get_or_init(|| served.cluster_id);
            assert_eq!(*cluster_id, served.cluster_id, "all members are of one cluster");
            let id = served.shown_id();
            let named = *lock(&self.members).entry(id).or_insert(member);
            assert_eq!(named, member, "the member id {id:x} names two servers");
        }
    }
}

/// A client's connection, which records its calls.
#[derive(Clone)]
pub struct Connection {
    pub world: Arc<EtcdWorld>,
    wire: OpsClient,
    member: usize,
    /// The connection's number in the history.
    number: usize,
}

impl Connection {
    /// Makes a call; `None` if there is no answer because the connection ended. After `wait` the
    /// call counts as cancelled.
    pub async fn call(&mut self, op: Op, wait: Duration) -> Option<Answer> {
        let id = lock(&self.world.history).ask(self.number, op.clone(), self.world.now_us());
        let told = timeout(wait, self.wire.try_ask(&op)).await;
        let answer = told.unwrap_or(Some(Err(Error::Canceled)))?;
        self.world.check_served(self.member, self.wire.served());
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
