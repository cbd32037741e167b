//! All connection runtimes of a process, those of ZooKeeper's clients first.

use std::sync::Arc;

use machine::{Level, Machine};
use member::TokenTimes;
use member::fronts::zk::HeldBytes;
use member::message::{FrontCounts, FrontId};

use super::etcd_runtime::EtcdRuntime;
use super::runtime::Runtime;
use crate::limits::{FRONT_INPUT_IDLE_MAX, FRONT_OUTPUT_IDLE_MAX, TOKEN_TTL_MS};
use crate::world::{Actor, Clock};

/// The connection runtimes of a process.
pub(super) struct Fronts {
    /// Those of ZooKeeper's clients.
    pub zk: Vec<Runtime>,
    /// Those of etcd's clients.
    pub etcd: Vec<EtcdRuntime>,
    /// The runtime that took the last of ZooKeeper's connections.
    last: u32,
    /// `Now::contact_at_ms`, by the clock of the runtimes.
    pub contact_at_ms: Option<u64>,
    /// Whether they take connections and mail: once the member is ready or, where reads are served
    /// without a leader, some time after the start.
    is_open: bool,
}

impl Fronts {
    /// Runtimes that take nothing yet.
    pub fn new(zk: Vec<Runtime>, etcd: Vec<EtcdRuntime>) -> Fronts {
        Fronts { zk, etcd, last: 0, contact_at_ms: None, is_open: false }
    }

    /// Whether they take connections and mail.
    pub fn are_open(&self) -> bool {
        self.is_open
    }

    /// Has them take connections and mail from now on. Returns false if they did before.
    pub fn open(&mut self, machine: &Machine, now_us: u64, clock: Clock) -> bool {
        if core::mem::replace(&mut self.is_open, true) {
            return false;
        }
        let settings = Arc::new(machine.zk().settings().clone());
        self.zk.iter_mut().for_each(|runtime| runtime.open(&settings));
        let level = machine.control().level().level;
        let now_ms = |runtime: &EtcdRuntime| runtime.monotonic_ms(now_us, clock);
        let now_ms = self.etcd.first().map_or(0, now_ms);
        let token_times = Arc::new(TokenTimes::new(TOKEN_TTL_MS, now_ms));
        self.etcd.iter_mut().for_each(|runtime| runtime.open(level, &token_times));
        true
    }

    /// The number of runtimes for each kind of clients.
    pub fn counts(&self) -> FrontCounts {
        FrontCounts { zk: self.zk.len() as u32, etcd: self.etcd.len() as u32 }
    }

    /// All of them, as parts of the process.
    pub fn actors(&self) -> impl Iterator<Item = Actor> + use<> {
        (0..(self.zk.len() + self.etcd.len()) as u32).map(Actor::Front)
    }

    /// The id of the Front of a runtime for etcd's clients.
    pub fn etcd_id(&self, front: usize) -> FrontId {
        FrontId((self.zk.len() + front) as u32)
    }

    /// The position of a Front among those of etcd's clients; `None` if it is one of
    /// ZooKeeper's.
    pub fn etcd_position(&self, front: FrontId) -> Option<usize> {
        (front.0 as usize).checked_sub(self.zk.len())
    }

    /// Chooses the runtime that takes the next of ZooKeeper's connections.
    pub fn next_zk(&mut self) -> u32 {
        self.last = (self.last + 1) % self.zk.len() as u32;
        self.last
    }

    /// Whether so many deliveries wait for one of them.
    pub fn is_mail_full(&self, mail_max: usize) -> bool {
        let of_zk = self.zk.iter().map(|runtime| runtime.mail.len());
        let of_etcd = self.etcd.iter().map(|runtime| runtime.mail.len());
        of_zk.chain(of_etcd).any(|count| count >= mail_max)
    }

    /// Connections of ZooKeeper's clients that are not closed.
    pub fn connection_count(&self) -> usize {
        self.zk.iter().map(Runtime::connection_count).sum()
    }

    /// Whether those of etcd's clients have nothing to do.
    pub fn is_etcd_quiet(&self) -> bool {
        self.etcd.iter().all(EtcdRuntime::is_quiet)
    }

    /// Checks that every Front of etcd's clients that has nothing to do knows the level of the
    /// state: one that does not refuses what the level allows.
    ///
    /// # Errors
    /// One does not.
    pub fn check_levels(&self, level: Level) -> Result<(), String> {
        for runtime in self.etcd.iter().filter(|runtime| runtime.is_quiet()) {
            let known = runtime.front().level();
            if known != level {
                return Err(format!("a Front knows {known:?}, and the state has {level:?}"));
            }
        }
        Ok(())
    }

    /// What they hold: its name, how much of it there is, and how much there may be when nobody
    /// waits for anything.
    pub fn held(&self) -> Vec<(&'static str, usize, usize)> {
        let of_zk = self.zk.iter().flat_map(|runtime| {
            let HeldBytes { output, input, commands, travelling_reads } = runtime.held_bytes();
            [
                ("commands of a connection runtime", runtime.commands_in_flight(), 0),
                ("connections that left commands behind", runtime.departed_count(), 0),
                ("bytes of commands of a connection runtime", commands, 0),
                ("reads that travel of a connection runtime", travelling_reads, 0),
                ("bytes of input of a connection runtime", input, FRONT_INPUT_IDLE_MAX),
                ("bytes of output of a connection runtime", output, FRONT_OUTPUT_IDLE_MAX),
            ]
        });
        let of_etcd = self.etcd.iter().flat_map(|runtime| {
            let [calls, commands, bytes] = runtime.held();
            [
                ("calls of an etcd runtime", calls, 0),
                ("commands of an etcd runtime", commands, 0),
                ("bytes of commands of an etcd runtime", bytes, 0),
            ]
        });
        of_zk.chain(of_etcd).collect()
    }
}
