//! A process with an unborn directory: `node::cluster::wait_for_birth`.
//!
//! Such a process has only links. It passes the hellos of other members to [`Bootstrap`], which
//! decides on the ensemble's birth, and drops all other frames.

use std::sync::Arc;

use member::membership::bootstrap::Decision;
use member::membership::limits::AGREEMENT_INTERVAL_MS;
use member::recovery::{RecoveryError, UnbornMember, draw_ids};
use member::{Bootstrap, Hello};
use storage::datadir::Birth;

use super::{Death, MemberConfig, Sabotage, Server, not_recovered};
use crate::disk::SimDisk;
use crate::witness::Witness;
use crate::world::{Clock, World};

/// One process run with an unborn directory, until the birth.
pub struct Unborn {
    life: u64,
    started_us: u64,
    member: UnbornMember<SimDisk>,
    bootstrap: Bootstrap,
    hello: Arc<Hello>,
    cluster_id: u128,
    /// When the process's timer fires next, in us; `None` before the first time.
    looks_us: Option<u64>,
}

/// The result of a decision.
pub enum Step {
    /// The directory is to be born with this birth.
    Born(Birth),
    /// The process has stored a vote on the birth, so its hello has changed.
    Kept,
    /// The process must wait for other members.
    Waits,
}

impl Unborn {
    pub(super) fn new(
        config: &MemberConfig,
        member: UnbornMember<SimDisk>,
        life: u64,
        world: &World,
    ) -> Unborn {
        let server = config.number as u64 + 1;
        let known = config.known();
        let directory = (member.member, member.acceptor.clone());
        let bootstrap =
            Bootstrap::new(server, directory, &config.servers, config.attendance, known);
        let hello = Arc::new(bootstrap.hello().clone());
        let (cluster_id, _) = draw_ids(&config.drawn(life));
        let (started_us, looks_us) = (world.now_us, None);
        Unborn { life, started_us, member, bootstrap, hello, cluster_id, looks_us }
    }

    /// Unique number of the process run.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// When the process started, in us.
    pub fn started_us(&self) -> u64 {
        self.started_us
    }

    /// The hello that the process sends to other members.
    pub fn hello(&self) -> &Arc<Hello> {
        &self.hello
    }

    /// Why this start set the directory aside; `None` if it did not.
    pub fn set_aside(&self) -> Option<&RecoveryError> {
        self.member.set_aside.as_ref().map(|(_, cause)| cause)
    }

    /// A link came up or ended. `peer` is the hello of the other end.
    pub fn on_link(&mut self, peer: &Hello, is_up: bool) {
        match is_up {
            true => self.bootstrap.on_link_up(peer.clone()),
            false => self.bootstrap.on_link_down(peer),
        }
    }

    /// Decides about the birth, and stores on disk what must be durable.
    ///
    /// # Errors
    /// The disk has failed.
    pub fn step(&mut self, now_us: u64, sabotage: Option<Sabotage>) -> Result<Step, Death> {
        match self.bootstrap.decide(self.cluster_id, now_us / 1_000) {
            Decision::BeBorn(birth) => Ok(Step::Born(birth)),
            Decision::Keep(acceptor) => {
                self.member.keep(&acceptor).map_err(not_recovered)?;
                let is_own = acceptor.promised.member == self.member.member.0;
                let proposed = acceptor.accepted.clone().filter(|_| is_own);
                if let Some((_, birth)) = proposed
                    && sabotage == Some(Sabotage::TwoBirths)
                {
                    return Ok(Step::Born(birth));
                }
                self.bootstrap.on_kept(acceptor);
                self.hello = Arc::new(self.bootstrap.hello().clone());
                Ok(Step::Kept)
            }
            Decision::Wait(_) => Ok(Step::Waits),
        }
    }

    /// When the timer must fire next; `None` if none is needed or the time is already planned.
    pub fn next_look_us(&mut self, now_us: u64) -> Option<u64> {
        let is_due = self.looks_us.is_none_or(|at_us| at_us <= now_us);
        if !self.bootstrap.looks_at_clock() || !is_due {
            return None;
        }
        self.looks_us = Some(now_us + AGREEMENT_INTERVAL_MS * 1_000);
        self.looks_us
    }

    /// A description of what the process waits for, as text for people.
    pub fn describe(&self) -> String {
        match self.bootstrap.clone().decide(self.cluster_id, 0) {
            Decision::BeBorn(_) => "about to be born".to_string(),
            Decision::Keep(acceptor) => format!("about to keep {acceptor:?}"),
            Decision::Wait(waiting) => waiting.to_string(),
        }
    }

    /// Makes the directory born and starts the threads.
    ///
    /// # Errors
    /// Like [`Server::start`].
    pub fn be_born(
        self,
        birth: &Birth,
        config: &MemberConfig,
        disk: &SimDisk,
        clock: Clock,
        world: &mut World,
        witness: &mut Witness,
    ) -> Result<Server, Death> {
        let recovered = self.member.be_born(disk, birth, config.wal).map_err(not_recovered)?;
        Server::start_threads(config, recovered, disk, clock, self.life, world, witness)
    }
}
