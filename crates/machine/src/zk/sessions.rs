//! Sessions of ZooKeeper's clients. Sessions are replicated state: commands open, attach, close and
//! expire them. Heartbeats are not replicated.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::codec::Write;
use crate::digest::Digest;
use crate::ids::{Attachment, Ordinal, SessionId};
use crate::zk::tree::ZnodeId;

/// One session of a ZooKeeper client: its timeout, its password, its connection and its ephemerals.
#[derive(Clone, Debug)]
pub struct Session {
    /// The negotiated timeout in ms: the leader expires a session that is silent for longer.
    pub timeout_ms: u32,
    /// The password that a client must show to attach again.
    pub password: [u8; 16],
    /// The connection that may act for the session.
    pub owner: Attachment,
    /// The ordinal of the command that made this connection the owner. A command that expires the
    /// session names this ordinal, and does nothing if a client has attached again since.
    pub attached: Ordinal,
    /// The session's ephemeral znodes. Derived from the tree, so not state of its own. It is a tree
    /// and not a hash table: a walk through it can continue where it stopped, and it never copies a
    /// million ids to grow.
    pub ephemerals: BTreeSet<ZnodeId>,
}

impl Session {
    pub(crate) fn new(
        timeout_ms: u32,
        password: [u8; 16],
        owner: Attachment,
        attached: Ordinal,
    ) -> Session {
        Session { timeout_ms, password, owner, attached, ephemerals: BTreeSet::new() }
    }

    fn digest(&self, id: SessionId) -> Digest {
        let mut bytes = Vec::with_capacity(64);
        self.encode(id, &mut bytes);
        Digest::from_bytes(b'S', &bytes)
    }

    pub(crate) fn encode(&self, id: SessionId, out: &mut Vec<u8>) {
        out.put_i64(id.0);
        out.put_u32(self.timeout_ms);
        out.extend_from_slice(&self.password);
        out.put_u64(self.owner.origin.member.0);
        out.put_u64(self.owner.origin.boot.0);
        out.put_u64(self.owner.connection.0);
        out.put_u64(self.attached.0);
    }
}

/// All sessions, with their digest.
#[derive(Default)]
pub struct Sessions {
    by_id: HashMap<SessionId, Session, FixedState>,
    /// Number of ephemeral znodes of all sessions. Kept because monitoring asks for it often.
    ephemeral_count: usize,
    digest: Digest,
}

impl Sessions {
    /// The session, if it exists.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// All sessions, in no particular order: sort them before any result depends on the order.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.by_id.iter().map(|(&id, session)| (id, session))
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The sum of the sessions' contributions to the digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The number of ephemeral znodes of all sessions.
    pub fn ephemeral_count(&self) -> usize {
        self.ephemeral_count
    }

    pub(crate) fn insert(&mut self, id: SessionId, session: Session) {
        self.digest.add(session.digest(id));
        self.ephemeral_count += session.ephemerals.len();
        let previous = self.by_id.insert(id, session);
        assert!(previous.is_none());
    }

    pub(crate) fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.by_id.remove(&id)?;
        self.digest.subtract(session.digest(id));
        self.ephemeral_count -= session.ephemerals.len();
        Some(session)
    }

    pub(crate) fn attach(
        &mut self,
        id: SessionId,
        timeout_ms: u32,
        owner: Attachment,
        at: Ordinal,
    ) {
        let session = self.by_id.get_mut(&id).expect("apply looked the session up");
        self.digest.subtract(session.digest(id));
        session.timeout_ms = timeout_ms;
        session.owner = owner;
        session.attached = at;
        self.digest.add(session.digest(id));
    }

    /// Records a znode as an ephemeral of the session. False if the session does not exist.
    pub(crate) fn own(&mut self, id: SessionId, znode: ZnodeId) -> bool {
        let Some(session) = self.by_id.get_mut(&id) else { return false };
        assert!(session.ephemerals.insert(znode));
        self.ephemeral_count += 1;
        true
    }

    /// Records that an ephemeral of the session was removed.
    pub(crate) fn disown(&mut self, id: SessionId, znode: ZnodeId) {
        let Some(session) = self.by_id.get_mut(&id) else { return };
        assert!(session.ephemerals.remove(&znode));
        self.ephemeral_count -= 1;
    }
}
