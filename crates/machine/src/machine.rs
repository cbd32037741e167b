//! The machine: all replicated state behind one door, and apply.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::change::{ChangeBatch, ChangeKind};
use crate::codec::Write;
use crate::command::Command;
use crate::digest::Digest;
use crate::entry::Framed;
use crate::ids::{
    BootId, ConnectionId, LogIndex, MemberId, Ordinal, Origin, Owner, SessionId, Zxid,
};
use crate::image::Freeze;
use crate::install::PreparedImage;
use crate::limits::{LOOK_AHEAD_COMMANDS_MIN, ORIGINS_MAX, SERVERS_MAX, ZNODES_MAX};
use crate::reply::{Outcome, Refusal, Reply};
use crate::together::Together;
use crate::zk::acl::{Acl, Identity};
use crate::zk::sessions::{Session, Sessions};
use crate::zk::settings::Settings;
use crate::zk::tree::Tree;
use crate::zk::write::Txn;

/// `ZooDefs.CONFIG_NODE`.
const CONFIG_PATH: &str = "/zookeeper/config";

/// What an entry and a batch say about a command beside the command itself.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// The leader's wall clock, ms since 1970. For Stat, and for what a time to live is compared
    /// with.
    pub time_ms: i64,
    /// Who handed the command over.
    pub origin: Origin,
    /// The connection that sent it; 0 for commands of Loop.
    pub connection: ConnectionId,
    /// What that connection has proved to be.
    pub identities: &'a [Identity<'a>],
}

impl Stamp<'_> {
    pub(crate) fn owner(&self) -> Owner {
        Owner { origin: self.origin, connection: self.connection }
    }
}

/// Where the machine stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The last whole entry applied.
    pub index: LogIndex,
    /// The last command applied.
    pub ordinal: Ordinal,
    /// The last zxid consumed.
    pub zxid: Zxid,
}

/// All replicated state. One writer (Apply); readers hold the one lock for a short time.
pub struct Machine {
    pub(crate) tree: Tree,
    pub(crate) sessions: Sessions,
    pub(crate) settings: Settings,
    /// The last batch applied of each member, and of which boot.
    pub(crate) origins: BTreeMap<MemberId, (BootId, u64)>,
    /// Which server of the configuration each member is, as far as a leader knew.
    pub(crate) servers: BTreeMap<MemberId, u64>,
    pub(crate) counters: Counters,
    pub(crate) freeze: Option<Freeze>,
    /// Not state: what a command is to install, and what one has replaced.
    pub(crate) prepared: Option<PreparedImage>,
    pub(crate) replaced: Option<Box<Machine>>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl Default for Machine {
    /// The state of a new ensemble.
    fn default() -> Self {
        Machine {
            tree: Tree::default(),
            sessions: Sessions::default(),
            settings: Settings::default(),
            origins: BTreeMap::new(),
            servers: BTreeMap::new(),
            counters: Counters { index: LogIndex(1), ..Counters::default() },
            freeze: None,
            prepared: None,
            replaced: None,
        }
    }
}

impl Machine {
    /// Whether the batch is the next of its origin, and notes it. A duplicate, a gap or an older
    /// boot is to be skipped: its member sends again what is missing.
    pub fn begin_batch(&mut self, origin: Origin, sequence: u64) -> bool {
        let expected = match self.origins.get(&origin.member) {
            Some((boot, _)) if *boot > origin.boot => return false,
            Some((boot, last)) if *boot == origin.boot => last + 1,
            _ => 1,
        };
        if sequence != expected {
            return false;
        }
        self.origins.insert(origin.member, (origin.boot, sequence));
        assert!(self.origins.len() <= ORIGINS_MAX);
        true
    }

    /// Loads the places in the tree of what some commands change, which are to be applied next. It
    /// changes nothing: many loads at once take little longer than one.
    pub fn look_ahead(&self, commands: &[Framed<'_>]) {
        if commands.len() < LOOK_AHEAD_COMMANDS_MIN {
            return;
        }
        self.tree.touch(commands.iter().filter_map(|framed| match &framed.command {
            Command::Write { op, .. } => op.path(),
            _ => None,
        }));
    }

    /// Applies one command of a batch that was begun: gives it its ordinal, changes the state,
    /// says what came of it, and appends what others may watch to `changes`.
    pub fn apply(
        &mut self,
        stamp: &Stamp<'_>,
        command: &Command<'_>,
        changes: &mut ChangeBatch,
    ) -> Reply {
        self.counters.ordinal = self.counters.ordinal.next();
        let outcome = match command {
            Command::OpenSession { session, password, timeout_ms } => {
                self.open_session(stamp, *session, *password, *timeout_ms, changes)
            }
            Command::Attach { session, password, timeout_ms } => {
                self.attach(stamp, *session, password, *timeout_ms, changes)
            }
            Command::CloseSession { session } => self.close_session(stamp, *session, changes),
            Command::ExpireSessions { sessions } => Ok(self.expire_sessions(sessions, changes)),
            Command::Configure(settings) => {
                self.configure(stamp, settings, changes);
                Ok(Outcome::Configured)
            }
            Command::Write { session, op } => self.write(stamp, *session, op, changes),
            Command::Multi { session, ops } => self.multi(stamp, *session, ops, changes),
            Command::DeleteContainers { paths, never_used_ms_max } => {
                Ok(self.delete_container_znodes(stamp, paths, *never_used_ms_max, changes))
            }
            Command::Register { member, server } => Ok(self.register(*member, *server, changes)),
            Command::Forget { member } => Ok(self.forget(*member, changes)),
            Command::InstallImage { hash } => Ok(self.install_image(stamp, *hash, changes)),
        };
        Reply { ordinal: self.counters.ordinal, zxid: self.counters.zxid, outcome }
    }

    /// Notes that everything up to `index` is applied. Called at the end of each entry, also of
    /// those that hold no commands.
    pub fn finish_entry(&mut self, index: LogIndex) {
        assert!(index.0 == self.counters.index.0 + 1, "entries are applied without a gap");
        self.counters.index = index;
    }

    /// Makes room for this many more znodes at once, so that applying what creates them does not
    /// make it in steps. Memory only: any number is right.
    pub fn reserve_znodes(&mut self, count: u32) {
        let room = ZNODES_MAX.saturating_sub(self.tree.znode_count());
        self.tree.reserve(count.min(room));
    }

    /// Computes no digest of znodes that change from now on, until [`Machine::settle_digest`]; none
    /// may be asked for meanwhile, nor an image. For a start, which replays many commands.
    pub fn defer_digest(&mut self) {
        assert!(self.freeze.is_none(), "an image has the digest");
        self.tree.defer_digest();
    }

    /// Computes what was deferred: the digest is what it would be.
    pub fn settle_digest(&mut self, together: Together) {
        self.tree.settle_digest(together);
    }

    /// Where the machine stands.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The replicated settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The last batch applied of a member, and of which boot.
    pub fn last_batch(&self, member: MemberId) -> Option<(BootId, u64)> {
        self.origins.get(&member).copied()
    }

    /// Which server of the configuration each member is, as far as a leader knew.
    pub fn servers(&self) -> &BTreeMap<MemberId, u64> {
        &self.servers
    }

    /// The digest of everything replicated.
    pub fn digest(&self) -> Digest {
        let mut scalars = Vec::new();
        self.encode_scalars(&mut scalars);
        let mut digest = self.tree.digest();
        digest.add(self.sessions.digest());
        digest.add(Digest::of_bytes(b'M', &scalars));
        digest
    }

    pub(crate) fn encode_scalars(&self, out: &mut Vec<u8>) {
        out.put_u64(self.counters.ordinal.0);
        out.put_i64(self.counters.zxid.0);
        self.settings.encode(out);
        out.put_u32(self.origins.len() as u32);
        for (member, (boot, sequence)) in &self.origins {
            out.put_u64(member.0);
            out.put_u64(boot.0);
            out.put_u64(*sequence);
        }
        // Images and digests of those that have none are what they were before there were any.
        if !self.servers.is_empty() {
            out.put_u32(self.servers.len() as u32);
            for (member, server) in &self.servers {
                out.put_u64(member.0);
                out.put_u64(*server);
            }
        }
    }

    pub(crate) fn consume_zxid(&mut self) -> Zxid {
        self.counters.zxid = self.counters.zxid.next();
        self.counters.zxid
    }

    fn configure(&mut self, stamp: &Stamp<'_>, settings: &Settings, changes: &mut ChangeBatch) {
        self.settings = settings.clone();
        let kind = ChangeKind::Configured(Arc::new(settings.clone()));
        changes.push(self.counters.ordinal, self.counters.zxid, kind, "");
        if let Some(acl) = self.show_ensemble(stamp) {
            let kind = ChangeKind::DataSet { acl };
            changes.push(self.counters.ordinal, self.counters.zxid, kind, CONFIG_PATH);
        }
    }

    /// Has `/zookeeper/config` say which servers the ensemble has. If it said something else, who
    /// may know of it is returned: the outer none is no change. The znode is there but for images
    /// of a ZooKeeper before 3.5.
    pub(crate) fn show_ensemble(&mut self, stamp: &Stamp<'_>) -> Option<Option<Acl>> {
        let text = self.settings.ensemble.as_deref()?;
        let znode = self.tree.find(CONFIG_PATH)?;
        if znode.data() == Some(text.as_bytes()) {
            return None;
        }
        let (id, acl) = (znode.id(), znode.restricting_acl());
        let version = text.rsplit_once("version=").map_or("", |(_, version)| version);
        let version = i64::from_str_radix(version, 16).unwrap_or(0);
        self.tree.set_config(id, CONFIG_PATH, text.as_bytes(), version, stamp.time_ms);
        Some(acl)
    }

    /// Beyond [`SERVERS_MAX`] nothing is noted: the leader forgets members that are gone.
    fn register(&mut self, member: MemberId, server: u64, changes: &mut ChangeBatch) -> Outcome {
        if self.servers.len() < SERVERS_MAX || self.servers.contains_key(&member) {
            self.servers.insert(member, server);
        }
        self.tell_servers(changes);
        Outcome::Configured
    }

    fn forget(&mut self, member: MemberId, changes: &mut ChangeBatch) -> Outcome {
        self.servers.remove(&member);
        self.origins.remove(&member);
        self.tell_servers(changes);
        Outcome::Configured
    }

    fn tell_servers(&self, changes: &mut ChangeBatch) {
        let kind = ChangeKind::Registered(Arc::new(self.servers.clone()));
        changes.push(self.counters.ordinal, self.counters.zxid, kind, "");
    }

    fn open_session(
        &mut self,
        stamp: &Stamp<'_>,
        session: SessionId,
        password: [u8; 16],
        timeout_ms: u32,
        changes: &mut ChangeBatch,
    ) -> Result<Outcome, Refusal> {
        if self.sessions.get(session).is_some() {
            return Err(Refusal::SessionIdTaken(session));
        }
        let zxid = self.consume_zxid();
        let (owner, ordinal) = (stamp.owner(), self.counters.ordinal);
        self.sessions.insert(session, Session::new(timeout_ms, password, owner, ordinal));
        let kind = ChangeKind::SessionAttached { session, owner, timeout_ms };
        changes.push(ordinal, zxid, kind, "");
        Ok(Outcome::Opened)
    }

    fn attach(
        &mut self,
        stamp: &Stamp<'_>,
        session: SessionId,
        password: &[u8; 16],
        timeout_ms: u32,
        changes: &mut ChangeBatch,
    ) -> Result<Outcome, Refusal> {
        let found = self.sessions.get(session).ok_or(Refusal::SessionExpired)?;
        if found.password != *password {
            return Err(Refusal::WrongPassword);
        }
        let (owner, ordinal) = (stamp.owner(), self.counters.ordinal);
        self.sessions.attach(session, timeout_ms, owner, ordinal);
        let kind = ChangeKind::SessionAttached { session, owner, timeout_ms };
        changes.push(ordinal, self.counters.zxid, kind, "");
        Ok(Outcome::Attached)
    }

    fn close_session(
        &mut self,
        stamp: &Stamp<'_>,
        session: SessionId,
        changes: &mut ChangeBatch,
    ) -> Result<Outcome, Refusal> {
        let zxid = self.consume_zxid();
        self.check_owner(stamp, session)?;
        self.end_session(session, zxid, changes);
        Ok(Outcome::Closed)
    }

    fn expire_sessions(
        &mut self,
        judged: &[(SessionId, Ordinal)],
        changes: &mut ChangeBatch,
    ) -> Outcome {
        let mut count = 0;
        for &(session, attached) in judged {
            let still = self.sessions.get(session).is_some_and(|found| found.attached == attached);
            if still {
                let zxid = self.consume_zxid();
                self.end_session(session, zxid, changes);
                count += 1;
            }
        }
        Outcome::Expired(count)
    }

    /// Removes the session and, in the order of their paths, its ephemerals: the same order on
    /// every member.
    fn end_session(&mut self, session: SessionId, zxid: Zxid, changes: &mut ChangeBatch) {
        for path in self.ephemeral_paths(session) {
            let id = self.tree.find(&path).expect("an ephemeral of a session exists").id();
            self.remove_znode(id, &path, &mut Txn::new(zxid, changes));
        }
        self.sessions.remove(session).expect("apply looked the session up");
        changes.push(self.counters.ordinal, zxid, ChangeKind::SessionClosed { session }, "");
    }

    /// ZooKeeper's `SessionTracker.checkSession`: precedes every operation of a session.
    pub(crate) fn check_owner(&self, stamp: &Stamp<'_>, session: SessionId) -> Result<(), Refusal> {
        let found = self.sessions.get(session).ok_or(Refusal::SessionExpired)?;
        if found.owner != stamp.owner() {
            return Err(Refusal::SessionMoved);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
