//! Sessions: replicated state. Opening, attaching, closing and expiring are replicated; renewals
//! are not.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::codec::Write;
use crate::digest::Digest;
use crate::ids::{Attachment, Ordinal, SessionId};
use crate::zk::tree::ZnodeId;

/// One session.
#[derive(Clone, Debug)]
pub struct Session {
    /// The negotiated timeout: a session that is silent for longer is expired.
    pub timeout_ms: u32,
    /// The password that a client must show to attach again.
    pub password: [u8; 16],
    /// The connection that may act for it.
    pub owner: Attachment,
    /// The command that gave it to that connection. A command that expires the session names it.
    pub attached: Ordinal,
    /// Its ephemeral znodes. Derived from the tree, not state of its own. A tree and no table: a
    /// walk through it goes on where it stopped, and it never grows by copying a million ids.
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

/// All sessions, and their part of the digest.
#[derive(Default)]
pub struct Sessions {
    by_id: HashMap<SessionId, Session, FixedState>,
    /// Number of ephemeral znodes of all sessions, kept because monitoring asks often.
    ephemeral_count: usize,
    digest: Digest,
}

impl Sessions {
    /// The session, if it exists.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// All sessions, in no particular order: sort before anything depends on it.
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

    /// The sessions' part of the digest.
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

    /// Notes a znode as an ephemeral of the session. False if the session does not exist.
    pub(crate) fn own(&mut self, id: SessionId, znode: ZnodeId) -> bool {
        let Some(session) = self.by_id.get_mut(&id) else { return false };
        assert!(session.ephemerals.insert(znode));
        self.ephemeral_count += 1;
        true
    }

    /// Notes that an ephemeral of the session is gone.
    pub(crate) fn disown(&mut self, id: SessionId, znode: ZnodeId) {
        let Some(session) = self.by_id.get_mut(&id) else { return };
        assert!(session.ephemerals.remove(&znode));
        self.ephemeral_count -= 1;
    }
}
