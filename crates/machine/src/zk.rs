//! ZooKeeper's part of the state: the tree of znodes, sessions, ACLs, quotas, containers and
//! settings.

use std::sync::Arc;

use crate::codec::Write;
use crate::control::servers::ServerList;
use crate::digest::Digest;
use crate::ids::{Attachment, Ordinal, SessionId, Zxid};
use crate::mark::Mark;
use crate::stamp::Stamp;
use crate::zk::acl::{Acl, perms};
use crate::zk::change::{Change, Changes, SessionChange};
use crate::zk::command::Command;
use crate::zk::pause::{Paused, PausedAt, Step, Stepped};
use crate::zk::reply::{Outcome, Refusal};
use crate::zk::sessions::{Session, Sessions};
use crate::zk::settings::Settings;
use crate::zk::tree::Tree;
use crate::zk::txn::Call;

/// `ZooDefs.CONFIG_NODE`.
pub const CONFIG_PATH: &str = "/zookeeper/config";

/// Panic text: the caller must pass a paused command again before any other command.
const ANOTHER: &str = "a command that is paused comes again before any other";

/// The state that ZooKeeper's clients see.
#[derive(Default)]
pub struct Zk {
    pub(crate) tree: Tree,
    pub(crate) sessions: Sessions,
    pub(crate) settings: Settings,
    /// The last zxid consumed.
    pub(crate) zxid: Zxid,
    /// The command that is only partly applied. Not state: always `None` at the end of an entry.
    pub(crate) paused: Option<Box<Paused>>,
    /// How many changes that reads can see have consumed no zxid: changes of the settings and of
    /// the list of servers. Counted by this process only; not state.
    pub(crate) unnumbered_changes: u64,
}

/// Tells whether two reads in one process saw the same state: equal versions mean equal state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZkVersion {
    zxid: Zxid,
    unnumbered_changes: u64,
}

impl Zk {
    /// Does one step of a command: changes the state, and appends the changes that clients may
    /// watch. Returns `None` if the command is not done; the caller must then pass it again, before
    /// any other.
    pub(crate) fn apply_step(
        &mut self,
        call: Call<'_>,
        command: &Command<'_>,
        step: &mut Step<'_>,
    ) -> Option<Result<Outcome, Refusal>> {
        let paused = self.paused.take();
        let was_paused = paused.is_some();
        let zxid_before = paused.as_ref().map_or(self.zxid, |paused| paused.zxid_before);
        if was_paused {
            step.changes.go_on();
        }
        match self.go_on(call, command, paused.map(|paused| paused.at), step) {
            Ok(outcome) => {
                if was_paused {
                    step.changes.end_pause();
                }
                Some(outcome)
            }
            Err(at) => {
                step.changes.pause(at.open_transaction());
                self.paused = Some(Box::new(Paused { zxid_before, at }));
                None
            }
        }
    }

    /// Starts a command, or continues it from `begun`, where its last step stopped.
    fn go_on(
        &mut self,
        call: Call<'_>,
        command: &Command<'_>,
        begun: Option<PausedAt>,
        step: &mut Step<'_>,
    ) -> Stepped {
        match (command, begun) {
            (Command::OpenSession { session, password, timeout_ms }, None) => {
                Ok(self.open_session(call, *session, *password, *timeout_ms, step.changes))
            }
            (Command::Attach { session, password, timeout_ms }, None) => {
                Ok(self.attach(call, *session, password, *timeout_ms, step.changes))
            }
            (Command::Configure(settings), None) => {
                Ok(Ok(self.configure(call, settings, step.changes)))
            }
            (Command::CloseSession { session }, begun) => {
                let begun = begun.map(|at| match at {
                    PausedAt::Close(ending) => ending,
                    _ => unreachable!("{ANOTHER}"),
                });
                self.close_session(call, *session, begun, step).map_err(PausedAt::Close)
            }
            (Command::ExpireSessions { sessions }, begun) => {
                let begun = begun.map(|at| match at {
                    PausedAt::Expire(expiry) => expiry,
                    _ => unreachable!("{ANOTHER}"),
                });
                let done = self.expire_sessions(call, sessions, begun, step);
                done.map(Ok).map_err(PausedAt::Expire)
            }
            (Command::Write { session, op }, begun) => {
                let begun = begun.map(|at| match at {
                    PausedAt::Create(counting) => counting,
                    _ => unreachable!("{ANOTHER}"),
                });
                self.write(call, (*session, op), begun, step).map_err(PausedAt::Create)
            }
            (Command::Multi { session, ops }, begun) => {
                let begun = begun.map(|at| match at {
                    PausedAt::Multi(multi) => multi,
                    _ => unreachable!("{ANOTHER}"),
                });
                self.multi(call, (*session, ops), begun, step).map_err(PausedAt::Multi)
            }
            (Command::DeleteContainers { paths, never_used_ms_max }, begun) => {
                let begun = begun.map_or((0, 0), |at| match at {
                    PausedAt::Containers { passed, removed } => (passed, removed),
                    _ => unreachable!("{ANOTHER}"),
                });
                let of = (&paths[..], *never_used_ms_max);
                let done = self.delete_container_znodes(call, of, begun, step);
                done.map(Ok).map_err(|(passed, removed)| PausedAt::Containers { passed, removed })
            }
            (_, Some(_)) => unreachable!("{ANOTHER}"),
        }
    }

    /// Whether a command is only partly applied, even if it has changed nothing yet.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Whether a command has made some of its changes, but not all. Meanwhile the tree must not be
    /// read: readers wait until the command is done.
    pub fn is_amid_change(&self) -> bool {
        // Each transaction consumes its zxid before its first change.
        self.paused.as_ref().is_some_and(|paused| paused.zxid_before != self.zxid)
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

    /// The last zxid consumed by a command that is done. A paused command's zxid does not count
    /// yet.
    pub fn zxid(&self) -> Zxid {
        self.paused.as_ref().map_or(self.zxid, |paused| paused.zxid_before)
    }

    /// The version of what reads show now.
    pub fn version(&self) -> ZkVersion {
        ZkVersion { zxid: self.zxid(), unnumbered_changes: self.unnumbered_changes }
    }

    /// The digest's terms of this space: the sum for znodes, the sum for sessions, and one term for
    /// the zxid and the settings.
    pub(crate) fn digest(&self) -> Digest {
        let mut scalars = Vec::new();
        self.encode_scalars(&mut scalars);
        let mut digest = self.tree.digest();
        digest.add(self.sessions.digest());
        digest.add(Digest::from_bytes(b'T', &scalars));
        digest
    }

    /// Writes the part of the state that is neither a znode nor a session: the zxid and the
    /// settings.
    pub(crate) fn encode_scalars(&self, out: &mut Vec<u8>) {
        out.put_i64(self.zxid.0);
        self.settings.encode(out);
    }

    /// The numbers of the command with this ordinal: the zxid is the last one consumed.
    pub(crate) fn mark(&self, ordinal: Ordinal) -> Mark {
        Mark { ordinal, zxid: self.zxid }
    }

    /// Consumes the next zxid, and returns the numbers of the command.
    pub(crate) fn consume_zxid(&mut self, ordinal: Ordinal) -> Mark {
        self.zxid = self.zxid.next();
        self.mark(ordinal)
    }

    fn configure(&mut self, call: Call<'_>, settings: &Settings, changes: &mut Changes) -> Outcome {
        self.settings = settings.clone();
        self.unnumbered_changes += 1;
        let mark = self.mark(call.ordinal);
        changes.push(mark, Change::Configured(Arc::new(settings.clone())), "");
        Outcome::Configured
    }

    /// Whether the client may change the list of servers: it needs WRITE on `/zookeeper/config`.
    pub(crate) fn may_change_servers(&self, stamp: &Stamp<'_>) -> bool {
        let Some(znode) = self.tree.find(CONFIG_PATH) else { return false };
        acl::allows(&self.settings, znode.acl(), perms::WRITE, stamp.identities)
    }

    /// Writes the list of servers to `/zookeeper/config`, and reports the change to its watchers.
    pub(crate) fn show_servers_to_clients(
        &mut self,
        ordinal: Ordinal,
        stamp: &Stamp<'_>,
        servers: &ServerList,
        changes: &mut Changes,
    ) {
        if let Some(acl) = self.show_servers(stamp, servers) {
            changes.push(self.mark(ordinal), Change::DataSet { acl }, CONFIG_PATH);
        }
    }

    /// Writes the list of servers to `/zookeeper/config`. If that changed the znode's data, returns
    /// the ACL of those who may see the change; an inner `None` means everyone. The outer `None`
    /// means no change. The znode is missing only in an image of a ZooKeeper before 3.5.
    fn show_servers(&mut self, stamp: &Stamp<'_>, servers: &ServerList) -> Option<Option<Acl>> {
        let text = servers.zk_text()?;
        let znode = self.tree.find(CONFIG_PATH)?;
        if znode.data() == Some(text.as_bytes()) {
            return None;
        }
        let (id, acl) = (znode.id(), znode.restricting_acl());
        self.unnumbered_changes += 1;
        // ZooKeeper's version is a signed 64-bit number, so all bits may be used.
        let version = servers.version as i64;
        self.tree.set_config(id, CONFIG_PATH, text.as_bytes(), version, stamp.time_ms);
        Some(acl)
    }

    /// Swaps in the tree and the sessions of an image; `image` then holds the old ones. The zxid
    /// never falls, and the settings stay. Returns the mark of the new state.
    pub(crate) fn install(&mut self, call: Call<'_>, image: &mut Zk, servers: &ServerList) -> Mark {
        self.zxid = self.zxid.max(image.zxid);
        let mark = self.consume_zxid(call.ordinal);
        core::mem::swap(&mut self.tree, &mut image.tree);
        core::mem::swap(&mut self.sessions, &mut image.sessions);
        // A running freeze belongs to the old state. Abort it: its next step reports that.
        self.tree.freeze = image.tree.freeze.take();
        if let Some(freeze) = &mut self.tree.freeze {
            freeze.abort();
        }
        let sessions = self.sessions.iter().map(|(id, session)| (id, session.timeout_ms));
        for (session, timeout_ms) in sessions.collect::<Vec<_>>() {
            // No connection owns the session until its client attaches again.
            self.sessions.attach(session, timeout_ms, Attachment::default(), call.ordinal);
        }
        // The image may come from another ensemble, with other servers. No watcher is left to
        // notify.
        let _ = self.show_servers(call.stamp, servers);
        mark
    }

    /// All sessions, sorted by id, each as a change. Loop takes these when this state replaces
    /// another one.
    pub fn deadlines(&self) -> Vec<SessionChange> {
        let attached = self.sessions.iter().map(|(session, found)| {
            let (attached, timeout_ms) = (found.attached, found.timeout_ms);
            SessionChange::Attached { session, attached, timeout_ms }
        });
        let mut changes: Vec<SessionChange> = attached.collect();
        changes.sort_unstable_by_key(SessionChange::session);
        changes
    }

    fn open_session(
        &mut self,
        call: Call<'_>,
        session: SessionId,
        password: [u8; 16],
        timeout_ms: u32,
        changes: &mut Changes,
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
        changes: &mut Changes,
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

    /// Checks that the session exists and that the sending connection owns it, before every
    /// operation of a session (ZooKeeper's `SessionTracker.checkSession`).
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
mod ending;
pub(crate) mod freeze;
pub mod listing;
mod multi;
pub mod path;
mod path_sort;
pub(crate) mod pause;
pub mod query;
mod quota;
pub mod reply;
pub(crate) mod restore;
pub mod sessions;
pub mod settings;
pub mod stat;
pub(crate) mod steps;
pub mod tree;
pub(crate) mod txn;
pub(crate) mod usage;
pub(crate) mod walk;
mod write;
