//! ZooKeeper's part of the state: the tree, sessions, ACLs, quotas, containers and settings.

use std::sync::Arc;

use crate::change::ChangeBatch;
use crate::codec::Write;
use crate::control::servers::ServerList;
use crate::digest::Digest;
use crate::ids::{Attachment, Ordinal, SessionId, Zxid};
use crate::mark::Mark;
use crate::stamp::Stamp;
use crate::zk::acl::Acl;
use crate::zk::change::Change;
use crate::zk::command::Command;
use crate::zk::reply::{Outcome, Refusal};
use crate::zk::sessions::{Session, Sessions};
use crate::zk::settings::Settings;
use crate::zk::tree::Tree;
use crate::zk::txn::{Call, Txn};

/// `ZooDefs.CONFIG_NODE`.
const CONFIG_PATH: &str = "/zookeeper/config";

/// The state that ZooKeeper's clients see.
#[derive(Default)]
pub struct Zk {
    pub(crate) tree: Tree,
    pub(crate) sessions: Sessions,
    pub(crate) settings: Settings,
    /// The last zxid consumed.
    pub(crate) zxid: Zxid,
}

impl Zk {
    /// Changes the state, and appends the changes that clients may watch to `changes`.
    pub(crate) fn apply(
        &mut self,
        call: Call<'_>,
        command: &Command<'_>,
        changes: &mut ChangeBatch,
    ) -> Result<Outcome, Refusal> {
        match command {
            Command::OpenSession { session, password, timeout_ms } => {
                self.open_session(call, *session, *password, *timeout_ms, changes)
            }
            Command::Attach { session, password, timeout_ms } => {
                self.attach(call, *session, password, *timeout_ms, changes)
            }
            Command::CloseSession { session } => self.close_session(call, *session, changes),
            Command::ExpireSessions { sessions } => {
                Ok(self.expire_sessions(call, sessions, changes))
            }
            Command::Configure(settings) => Ok(self.configure(call, settings, changes)),
            Command::Write { session, op } => self.write(call, *session, op, changes),
            Command::Multi { session, ops } => self.multi(call, *session, ops, changes),
            Command::DeleteContainers { paths, never_used_ms_max } => {
                Ok(self.delete_container_znodes(call, paths, *never_used_ms_max, changes))
            }
        }
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

    /// The last zxid consumed.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// The terms of this space: of znodes, of sessions, and one of the rest.
    pub(crate) fn digest(&self) -> Digest {
        let mut scalars = Vec::new();
        self.encode_scalars(&mut scalars);
        let mut digest = self.tree.digest();
        digest.add(self.sessions.digest());
        digest.add(Digest::of_bytes(b'T', &scalars));
        digest
    }

    /// Writes the state that is neither a znode nor a session.
    pub(crate) fn encode_scalars(&self, out: &mut Vec<u8>) {
        out.put_i64(self.zxid.0);
        self.settings.encode(out);
    }

    /// The numbers of the command with this ordinal.
    fn mark(&self, ordinal: Ordinal) -> Mark {
        Mark { ordinal, zxid: self.zxid }
    }

    /// Consumes the next zxid. Returns the numbers of the command.
    pub(crate) fn consume_zxid(&mut self, ordinal: Ordinal) -> Mark {
        self.zxid = self.zxid.next();
        self.mark(ordinal)
    }

    fn configure(
        &mut self,
        call: Call<'_>,
        settings: &Settings,
        changes: &mut ChangeBatch,
    ) -> Outcome {
        self.settings = settings.clone();
        let mark = self.mark(call.ordinal);
        changes.push(mark, Change::Configured(Arc::new(settings.clone())), "");
        Outcome::Configured
    }

    /// Writes the servers to `/zookeeper/config`, and tells its watchers.
    pub(crate) fn show_servers_to_clients(
        &mut self,
        ordinal: Ordinal,
        stamp: &Stamp<'_>,
        servers: &ServerList,
        changes: &mut ChangeBatch,
    ) {
        if let Some(acl) = self.show_servers(stamp, servers) {
            changes.push(self.mark(ordinal), Change::DataSet { acl }, CONFIG_PATH);
        }
    }

    /// Writes the servers to `/zookeeper/config`. If that changed its data, returns the ACL that
    /// decides who is told, none for everyone; the outer none means no change. The znode is missing
    /// only after an image of a ZooKeeper before 3.5.
    fn show_servers(&mut self, stamp: &Stamp<'_>, servers: &ServerList) -> Option<Option<Acl>> {
        let text = servers.zk_text()?;
        let znode = self.tree.find(CONFIG_PATH)?;
        if znode.data() == Some(text.as_bytes()) {
            return None;
        }
        let (id, acl) = (znode.id(), znode.restricting_acl());
        // All 64 bits may be used: ZooKeeper's version is a long.
        let version = servers.version as i64;
        self.tree.set_config(id, CONFIG_PATH, text.as_bytes(), version, stamp.time_ms);
        Some(acl)
    }

    /// Takes tree and sessions of an image, and leaves the old ones in it. The zxid never falls,
    /// and the settings stay.
    pub(crate) fn install(
        &mut self,
        call: Call<'_>,
        image: &mut Zk,
        servers: &ServerList,
        changes: &mut ChangeBatch,
    ) {
        self.zxid = self.zxid.max(image.zxid);
        let mark = self.consume_zxid(call.ordinal);
        core::mem::swap(&mut self.tree, &mut image.tree);
        core::mem::swap(&mut self.sessions, &mut image.sessions);
        // A running freeze belongs to the old state: its next step reports that it is worthless.
        self.tree.freeze = image.tree.freeze.take();
        if let Some(freeze) = &mut self.tree.freeze {
            freeze.abort();
        }
        let mut sessions: Vec<(SessionId, u32)> =
            self.sessions.iter().map(|(id, session)| (id, session.timeout_ms)).collect();
        sessions.sort_unstable();
        for &(session, timeout_ms) in &sessions {
            // No connection owns the session until its client attaches again.
            self.sessions.attach(session, timeout_ms, Attachment::default(), call.ordinal);
        }
        // The image may come from another ensemble. No watcher is left to be told.
        let _ = self.show_servers(call.stamp, servers);
        changes.push(mark, Change::Installed { sessions: sessions.into() }, "");
    }

    fn open_session(
        &mut self,
        call: Call<'_>,
        session: SessionId,
        password: [u8; 16],
        timeout_ms: u32,
        changes: &mut ChangeBatch,
    ) -> Result<Outcome, Refusal> {
        if self.sessions.get(session).is_some() {
            return Err(Refusal::SessionIdTaken(session));
        }
        let mark = self.consume_zxid(call.ordinal);
        let owner = call.stamp.owner();
        self.sessions.insert(session, Session::new(timeout_ms, password, owner, call.ordinal));
        changes.push(mark, Change::SessionAttached { session, owner, timeout_ms }, "");
        Ok(Outcome::Opened)
    }

    fn attach(
        &mut self,
        call: Call<'_>,
        session: SessionId,
        password: &[u8; 16],
        timeout_ms: u32,
        changes: &mut ChangeBatch,
    ) -> Result<Outcome, Refusal> {
        let found = self.sessions.get(session).ok_or(Refusal::SessionExpired)?;
        if found.password != *password {
            return Err(Refusal::WrongPassword);
        }
        let owner = call.stamp.owner();
        self.sessions.attach(session, timeout_ms, owner, call.ordinal);
        let change = Change::SessionAttached { session, owner, timeout_ms };
        changes.push(self.mark(call.ordinal), change, "");
        Ok(Outcome::Attached)
    }

    fn close_session(
        &mut self,
        call: Call<'_>,
        session: SessionId,
        changes: &mut ChangeBatch,
    ) -> Result<Outcome, Refusal> {
        let mark = self.consume_zxid(call.ordinal);
        self.check_owner(call.stamp, session)?;
        self.end_session(session, &mut Txn::new(mark, changes));
        Ok(Outcome::Closed)
    }

    fn expire_sessions(
        &mut self,
        call: Call<'_>,
        judged: &[(SessionId, Ordinal)],
        changes: &mut ChangeBatch,
    ) -> Outcome {
        let mut count = 0;
        for &(session, attached) in judged {
            let still = self.sessions.get(session).is_some_and(|found| found.attached == attached);
            if still {
                let mark = self.consume_zxid(call.ordinal);
                self.end_session(session, &mut Txn::new(mark, changes));
                count += 1;
            }
        }
        Outcome::Expired(count)
    }

    /// Removes the session and its ephemerals, in the order of their paths, which is equal on every
    /// member.
    fn end_session(&mut self, session: SessionId, txn: &mut Txn<'_>) {
        for path in self.ephemeral_paths(session) {
            let id = self.tree.find(&path).expect("an ephemeral of a session exists").id();
            self.remove_znode(id, &path, txn);
        }
        self.sessions.remove(session).expect("apply looked the session up");
        txn.tell(Change::SessionClosed { session }, "");
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

pub mod acl;
pub mod change;
pub mod command;
pub(crate) mod containers;
mod digester;
pub(crate) mod freeze;
pub mod path;
pub mod query;
mod quota;
pub mod reply;
pub(crate) mod restore;
pub mod sessions;
pub mod settings;
pub mod stat;
pub mod tree;
pub(crate) mod txn;
pub(crate) mod walk;
mod write;
