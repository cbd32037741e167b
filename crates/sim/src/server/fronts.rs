//! The connection runtimes of a process, ZooKeeper's first, then etcd's: opens them all at once,
//! numbers them, and chooses one for each new ZooKeeper connection.

use std::sync::Arc;

use machine::{Level, Machine, MemberId};
use member::TokenTimes;
use member::fronts::zk::HeldBytes;
use member::message::{FrontCounts, FrontId};

use super::etcd_runtime::EtcdRuntime;
use super::runtime::Runtime;
use crate::limits::{FRONT_INPUT_IDLE_MAX, FRONT_OUTPUT_IDLE_MAX, TOKEN_TTL_MS};
use crate::world::{Actor, Clock};

/// The connection runtimes of a process.
pub(super) struct Fronts {
    /// The ZooKeeper runtimes.
    pub zk: Vec<Runtime>,
    /// The etcd runtimes.
    pub etcd: Vec<EtcdRuntime>,
    /// The runtime that got the last ZooKeeper connection.
    last: u32,
    /// When the member last had contact with those that decide who leads (`Now::contact_at_ms`): a
    /// leader with a quorum, a follower with such a leader. On the runtimes' clock; 0 without
    /// contact, `None` if the member is alone.
    pub contact_at_ms: Option<u64>,
    /// Whether the runtimes accept connections and deliveries: once the member is ready, or some
    /// time after the start if it may serve reads without a leader.
    is_open: bool,
}

impl Fronts {
    /// Runtimes that are not open yet.
    pub fn new(zk: Vec<Runtime>, etcd: Vec<EtcdRuntime>) -> Fronts {
        Fronts { zk, etcd, last: 0, contact_at_ms: None, is_open: false }
    }

    /// Whether the runtimes accept connections and deliveries.
    pub fn are_open(&self) -> bool {
        self.is_open
    }

    /// Opens the runtimes. Returns false if they were open before.
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
        for runtime in &mut self.etcd {
            let member = MemberId(runtime.config.member_id);
            runtime.config.shown_id = machine.control().etcd_id_of(member);
            runtime.open(level, &token_times);
        }
        true
    }

    /// The number of runtimes of each kind.
    pub fn counts(&self) -> FrontCounts {
        FrontCounts { zk: self.zk.len() as u32, etcd: self.etcd.len() as u32 }
    }

    /// All runtimes, as threads of the process.
    pub fn actors(&self) -> impl Iterator<Item = Actor> + use<> {
        (0..(self.zk.len() + self.etcd.len()) as u32).map(Actor::Front)
    }

    /// The id of the Front of an etcd runtime.
    pub fn etcd_id(&self, front: usize) -> FrontId {
        FrontId((self.zk.len() + front) as u32)
    }

    /// The position of a Front among the etcd Fronts; `None` for a ZooKeeper Front.
    pub fn etcd_position(&self, front: FrontId) -> Option<usize> {
        (front.0 as usize).checked_sub(self.zk.len())
    }

    /// Chooses the runtime for the next ZooKeeper connection.
    pub fn next_zk(&mut self) -> u32 {
        self.last = (self.last + 1) % self.zk.len() as u32;
        self.last
    }

    /// Whether a runtime has at least `mail_max` unread deliveries.
    pub fn is_mail_full(&self, mail_max: usize) -> bool {
        let of_zk = self.zk.iter().map(|runtime| runtime.mail.len());
        let of_etcd = self.etcd.iter().map(|runtime| runtime.mail.len());
        of_zk.chain(of_etcd).any(|count| count >= mail_max)
    }

    /// ZooKeeper connections that are not closed.
    pub fn connection_count(&self) -> usize {
        self.zk.iter().map(Runtime::connection_count).sum()
    }

    /// Whether the etcd runtimes have nothing to do.
    pub fn is_etcd_quiet(&self) -> bool {
        self.etcd.iter().all(EtcdRuntime::is_quiet)
    }

    /// Checks that each idle etcd Front knows the level of the state; otherwise it would refuse
    /// what the level allows.
    ///
    /// # Errors
    /// A Front does not know the level.
    pub fn check_levels(&self, level: Level) -> Result<(), String> {
        for runtime in self.etcd.iter().filter(|runtime| runtime.is_quiet()) {
            let known = runtime.front().level();
            if known != level {
                return Err(format!("a Front knows {known:?}, and the state has {level:?}"));
            }
        }
        Ok(())
    }

    /// The memory that the runtimes hold: for each kind a name, the amount, and the allowed maximum
    /// while no client waits for anything.
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
