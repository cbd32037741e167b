//! The steps of the calls `v3lockpb.Lock.Lock` and `v3electionpb.Election.Campaign`. `Lock` waits
//! until it holds the lock, `Campaign` until its candidate leads. Each is made of *parts*: calls
//! that any client could make, as in etcd 3.6 (`server/etcdserver/api/v3lock`, `v3election`,
//! `client/v3/concurrency`).
//!
//! Each lease has one key for a lock. The key that was created first holds the lock, and a call
//! waits until the key created just before its own is removed.
//!
//! When the client cancels a call, the call's key is removed. But a key that holds the lock stays,
//! because another call of the same lease may have got the lock through that key. So
//!
//! - a call that finds the key of its lease puts it again, and a removal is guarded by the revision
//!   of the call's own put: a late removal does not hit a key that a later call has found;
//! - a call that finds that its key is the first one removes nothing;
//! - a call whose turn has come checks whether its own put is still the last one. If not, it puts
//!   the key once more, because the removal of a cancelled call may be under way.
//!
//! etcd does not put a key again that it finds, and removes the key at the end of any wait that
//! fails (`Mutex.Unlock`). If the key of a candidate is gone, etcd still says that the candidate
//! leads; here that is an error.
//!
//! A call learns from its transaction's outcome what it has put, so a call that was cancelled
//! meanwhile waits for that outcome. If the outcome is never known, the key stays until its lease
//! ends, as in etcd.

use bytes::Bytes;
use etcd::pb::{Message, etcdserverpb as pb, v3electionpb as election, v3lockpb as lock};
use etcd::recipe;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::credentials::Credentials;
use super::method::{CallRefused, EtcdMethod};
use super::watches::WatchMessages;
use crate::message::Ticket;

/// The time to live of the lease for a client that names none, in s
/// (`concurrency.defaultSessionTTL`).
const SESSION_TTL_S: i64 = 60;

/// The calls of `Lock` and `Campaign` that are not done, and their parts.
pub(super) struct Locks {
    pub calls: HashMap<Ticket, LockCall, FixedState>,
    pub parts: HashMap<Ticket, PartOf, FixedState>,
    /// Removals of keys that were refused. The next tick tries them again.
    pub unremoved: Vec<Removal>,
}

/// The purpose of a part.
pub(super) enum PartOf {
    /// Its result is for the next step of this call.
    Call(Ticket),
    /// Its result shows whether a cancelled call has created its key, which must then be removed.
    Cancelled(Box<LockCall>),
    /// It removes the key of a call that has ended.
    Removal(Removal),
}

/// The removal of a key. It does nothing if a later call has put the key.
pub(super) struct Removal {
    pub key: Vec<u8>,
    /// The revision at which the key was created.
    pub created: i64,
    /// The revision of the call's own put, which the removal requires.
    pub changed: i64,
    /// When retries end, by the monotonic clock in ms. After that the key lives until its lease
    /// ends.
    pub until_ms: u64,
}

/// A call of `Lock` or `Campaign` that is not done.
pub(super) struct LockCall {
    pub credentials: Credentials,
    pub name: Bytes,
    /// The candidate's value; `None` for a lock.
    pub value: Option<Bytes>,
    pub lease: i64,
    pub key: Vec<u8>,
    pub stage: Stage,
    /// The part that is under way.
    pub part: Ticket,
    /// The revision at which the key was created; 0 before it is created.
    pub created: i64,
    /// The revision of this call's own put; 0 before.
    pub changed: i64,
    /// Whether this call must remove the key if the call fails or is cancelled.
    pub is_own: bool,
    pub header: Option<pb::ResponseHeader>,
}

/// The step of a call: the task of the part under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Grant a lease, because the client names none.
    Granting,
    /// Put the key.
    Creating,
    /// Find the key that was created just before this call's key.
    Finding,
    /// Wait until that earlier key is removed.
    Waiting,
    /// Check that the key is still there, as this call has put it: the lease may have ended
    /// meanwhile.
    Checking,
    /// Put the key once more, because another call of the lease has put it meanwhile.
    Claiming,
}

/// The next step of a call.
pub(super) enum Next {
    Call(EtcdMethod, Vec<u8>),
    Watch(Vec<u8>),
    /// To wait for more events of the watch.
    Events,
    /// The call is done, with this response.
    Done(Vec<u8>),
}

impl LockCall {
    pub fn begin(
        method: EtcdMethod,
        request: Bytes,
        credentials: Credentials,
    ) -> Result<(LockCall, Next), CallRefused> {
        let (name, lease, value) = match method {
            EtcdMethod::Lock => {
                let lock::LockRequest { name, lease } =
                    lock::LockRequest::decode(request).map_err(|_| CallRefused::Malformed)?;
                (name, lease, None)
            }
            _ => {
                let election::CampaignRequest { name, lease, value } =
                    election::CampaignRequest::decode(request)
                        .map_err(|_| CallRefused::Malformed)?;
                (name, lease, Some(value))
            }
        };
        let mut call = LockCall {
            credentials,
            name,
            value,
            lease,
            key: Vec::new(),
            stage: Stage::Granting,
            part: Ticket(0),
            created: 0,
            changed: 0,
            is_own: false,
            header: None,
        };
        let next = match lease {
            0 => {
                let grant = pb::LeaseGrantRequest { ttl: SESSION_TTL_S, id: 0 };
                Next::Call(EtcdMethod::LeaseGrant, grant.encode_to_vec())
            }
            _ => call.create(),
        };
        Ok((call, next))
    }

    fn prefix(&self) -> Vec<u8> {
        recipe::prefix_of(&self.name)
    }

    fn create(&mut self) -> Next {
        self.stage = Stage::Creating;
        self.key = recipe::key_of(&self.name, self.lease);
        let value = self.value.as_deref();
        let put = recipe::put(&self.key, value.unwrap_or_default(), self.lease);
        let again = recipe::put_again(&self.key, value, self.lease);
        let first = recipe::read(recipe::first_created(&self.prefix()));
        let (success, failure) = (vec![put, first.clone()], vec![again, first]);
        let txn = recipe::if_created_at((&self.key, 0), success, failure);
        Next::Call(EtcdMethod::Txn, txn.encode_to_vec())
    }

    /// Takes the response of a part, and returns the next step.
    pub fn on_response(&mut self, response: &[u8]) -> Result<Next, CallRefused> {
        match self.stage {
            Stage::Granting => {
                self.lease = own::<pb::LeaseGrantResponse>(response).id;
                Ok(self.create())
            }
            Stage::Creating => Ok(self.on_created(own(response))),
            Stage::Finding => {
                let found: pb::RangeResponse = own(response);
                let Some(before) = found.kvs.first() else { return Ok(self.check()) };
                self.stage = Stage::Waiting;
                let revision = found.header.map_or(0, |header| header.revision);
                Ok(Next::Watch(recipe::watch(&before.key, &[], revision).encode_to_vec()))
            }
            Stage::Checking => {
                let found: pb::RangeResponse = own(response);
                let key = found.kvs.first().filter(|key| key.create_revision == self.created);
                let key = key.ok_or_else(|| self.key_is_gone())?;
                self.header = found.header;
                let is_unchanged = key.mod_revision == self.changed;
                Ok(if is_unchanged { self.done() } else { self.claim() })
            }
            Stage::Claiming => {
                let done: pb::TxnResponse = own(response);
                self.header = done.header;
                if done.succeeded { Ok(self.done()) } else { Err(self.key_is_gone()) }
            }
            Stage::Waiting => unreachable!("a watch has messages"),
        }
    }

    pub fn on_created(&mut self, done: pb::TxnResponse) -> Next {
        self.changed = done.header.as_ref().map_or(0, |header| header.revision);
        let created_before = recipe::put_over(&done, 0).map(|own| own.create_revision);
        self.created = created_before.unwrap_or(self.changed);
        let first = recipe::read_by(&done, 1).first();
        let is_first = first.is_none_or(|first| first.create_revision == self.created);
        self.is_own = done.succeeded || !is_first;
        self.header = done.header;
        if is_first { self.done() } else { self.find() }
    }

    /// Looks for the key that was created just before this call's key (`concurrency.waitDeletes`).
    fn find(&mut self) -> Next {
        self.stage = Stage::Finding;
        let before = recipe::last_created_before(&self.prefix(), self.created);
        Next::Call(EtcdMethod::Range, before.encode_to_vec())
    }

    /// Takes messages of the watch of the earlier key.
    pub fn on_messages(&mut self, messages: &WatchMessages) -> Result<Next, CallRefused> {
        for message in messages.iter() {
            if let Some(reason) = message.end() {
                return Err(CallRefused::Unknown(reason));
            }
            if message.shows_removal() {
                return Ok(self.find());
            }
        }
        Ok(Next::Events)
    }

    fn check(&mut self) -> Next {
        self.stage = Stage::Checking;
        Next::Call(EtcdMethod::Range, recipe::get(&self.key).encode_to_vec())
    }

    fn claim(&mut self) -> Next {
        self.stage = Stage::Claiming;
        // The key holds the lock, perhaps for another call of the lease, so this call must not
        // remove it.
        self.is_own = false;
        let again = recipe::put_again(&self.key, self.value.as_deref(), self.lease);
        let txn = recipe::if_created_at((&self.key, self.created), vec![again], vec![]);
        Next::Call(EtcdMethod::Txn, txn.encode_to_vec())
    }

    /// The error if the key is gone: etcd's own texts (`ErrSessionExpired`,
    /// `ErrElectionNotLeader`).
    fn key_is_gone(&self) -> CallRefused {
        CallRefused::Unknown(match self.value {
            None => "mutex: session is expired",
            Some(_) => "election: not leader",
        })
    }

    fn done(&self) -> Next {
        let (header, key) = (self.header, Bytes::from(self.key.clone()));
        Next::Done(match self.value {
            None => lock::LockResponse { header, key }.encode_to_vec(),
            Some(_) => {
                let (name, rev, lease) = (self.name.clone(), self.created, self.lease);
                let leader = Some(election::LeaderKey { name, key, rev, lease });
                election::CampaignResponse { header, leader }.encode_to_vec()
            }
        })
    }
}

impl Locks {
    pub fn new() -> Locks {
        let calls = HashMap::with_hasher(FixedState::default());
        let parts = HashMap::with_hasher(FixedState::default());
        Locks { calls, parts, unremoved: Vec::new() }
    }

    /// Whether a removal of a key was refused, and waits for the next tick to be tried again.
    pub fn has_unremoved(&self) -> bool {
        !self.unremoved.is_empty()
    }
}

/// Decodes a message that this Front has encoded itself.
pub(super) fn own<M: Message + Default>(bytes: &[u8]) -> M {
    M::decode(bytes).expect("it is our own message")
}
