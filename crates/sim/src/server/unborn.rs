//! A process whose directory is not born yet: `node::cluster::wait_for_birth`.
//!
//! Such a process has links, and nothing else. What the other ends of its links say goes to
//! [`Bootstrap`]; frames are dropped.

use std::sync::Arc;

use member::bootstrap::Decision;
use member::recovery::{RecoveryError, UnbornMember, draw_ids};
use member::{Bootstrap, Hello};
use storage::datadir::Birth;

use super::{Death, MemberConfig, Server, not_recovered};
use crate::disk::SimDisk;
use crate::witness::Witness;
use crate::world::{Clock, World};

/// One life of such a process, up to its birth.
pub struct Unborn {
    life: u64,
    started_us: u64,
    member: UnbornMember<SimDisk>,
    bootstrap: Bootstrap,
    hello: Arc<Hello>,
    cluster_id: u128,
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
        let bootstrap =
            Bootstrap::new(server, member.member, &config.servers, config.attendance, known);
        let hello = Arc::new(bootstrap.hello().clone());
        let (cluster_id, _) = draw_ids(&config.drawn(life));
        Unborn { life, started_us: world.now_us, member, bootstrap, hello, cluster_id }
    }

    /// The life of the process. No two processes have a life in common.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// When the process was started.
    pub fn started_us(&self) -> u64 {
        self.started_us
    }

    /// The hello with which it introduces itself to others.
    pub fn hello(&self) -> &Arc<Hello> {
        &self.hello
    }

    /// Why the directory was set aside, if this start did that.
    pub fn set_aside(&self) -> Option<&RecoveryError> {
        self.member.set_aside.as_ref().map(|(_, cause)| cause)
    }

    /// A link came up or ended. `peer` is what the other end of it said of itself.
    pub fn on_link(&mut self, peer: &Hello, is_up: bool) {
        match is_up {
            true => self.bootstrap.on_link_up(peer.clone()),
            false => self.bootstrap.on_link_down(peer),
        }
    }

    /// The birth of its directory, once that is decided; none while it waits.
    pub fn birth(&self) -> Option<Birth> {
        match self.bootstrap.decide(self.cluster_id) {
            Decision::BeBorn(birth) => Some(birth),
            Decision::Wait(_) => None,
        }
    }

    /// What it waits for, as text for people.
    pub fn describe(&self) -> String {
        match self.bootstrap.decide(self.cluster_id) {
            Decision::BeBorn(_) => "about to be born".to_string(),
            Decision::Wait(waiting) => waiting.to_string(),
        }
    }

    /// The directory is born, and the threads are started.
    ///
    /// # Errors
    /// As [`Server::start`].
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
