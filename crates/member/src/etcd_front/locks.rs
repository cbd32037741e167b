//! `Lock` of `v3lockpb.Lock` and `Campaign` of `v3electionpb.Election`: calls that wait for their
//! turn. Each is made of *parts*, calls that any client could make, as in etcd 3.6
//! (`server/etcdserver/api/v3lock`, `v3election`, `client/v3/concurrency`).
//!
//! A client that waits no longer leaves nothing behind: the call's key is removed. But a key of the
//! same lease that holds the lock stays, whichever call has made it. So
//!
//! - a call that finds the key of its lease puts it again, and a removal is guarded by the revision
//!   of the call's own put: one that comes late hits nothing that a later call has found;
//! - a call that finds that its key is the first one removes nothing.
//!
//! etcd only reads a key that it finds, and removes it at the end of any wait (`Mutex.Unlock`).
//! What a call has put is known from its transaction, so a call that was cancelled meanwhile waits
//! for that outcome. One that is never known leaves the key to its lease, as in etcd.

use bytes::Bytes;
use etcd::pb::{Message, etcdserverpb as pb, v3electionpb as election, v3lockpb as lock};
use etcd::recipe;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::calls::Call;
use super::method::{CallRefused, Method};
use super::reply::Reply;
use super::{CallResult, Credentials, EtcdFront, WatchMessages, credentials, decode};
use crate::limits::{ETCD_CALL_MS_MAX, LOCK_REMOVAL_MS_MAX};
use crate::message::Ticket;

/// The time to live of the lease for a client that names none (`concurrency.defaultSessionTTL`), s.
const SESSION_TTL_S: i64 = 60;

/// The calls that wait for their turn, and their parts.
pub(super) struct Locks {
    calls: HashMap<Ticket, LockCall, FixedState>,
    parts: HashMap<Ticket, PartOf, FixedState>,
    /// Removals that were refused, to be tried again at the next tick.
    unremoved: Vec<Removal>,
}

/// What a part is for.
enum PartOf {
    /// A call.
    Call(Ticket),
    /// A call that was cancelled, and may create its key.
    Cancelled(Box<LockCall>),
    /// The removal of a key that nobody waits with any more.
    Removal(Removal),
}

/// The removal of a key that nobody has put since.
struct Removal {
    key: Vec<u8>,
    created: i64,
    changed: i64,
    /// When it is tried no more: the key goes with its lease.
    until_ms: u64,
}

/// A call of `Lock` or `Campaign`.
struct LockCall {
    credentials: Credentials,
    name: Bytes,
    /// The value of a candidate; none for a lock.
    value: Option<Bytes>,
    lease: i64,
    key: Vec<u8>,
    stage: Stage,
    /// The part that is under way.
    part: Ticket,
    /// The revision at which the key was created.
    created: i64,
    /// The revision at which this call has put it.
    changed: i64,
    /// Whether the key is removed if the call ends without success.
    is_own: bool,
    header: Option<pb::ResponseHeader>,
}

/// What the part under way is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A lease for a client that names none.
    Granting,
    /// The key.
    Creating,
    /// The last key that was created before.
    Finding,
    /// The end of that key.
    Waiting,
    /// Whether the key is still there: the lease may have ended meanwhile.
    Checking,
}

/// What comes next in a call.
enum Next {
    Call(Method, Vec<u8>),
    Watch(Vec<u8>),
    /// More events.
    Events,
    /// It is done, with this response.
    Done(Vec<u8>),
}

impl LockCall {
    fn begin(
        method: Method,
        request: Bytes,
        credentials: Credentials,
    ) -> Result<(LockCall, Next), CallRefused> {
        let (name, lease, value) = match method {
            Method::Lock => {
                let lock::LockRequest { name, lease } = decode(request)?;
                (name, lease, None)
            }
            _ => {
                let election::CampaignRequest { name, lease, value } = decode(request)?;
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
                Next::Call(Method::LeaseGrant, grant.encode_to_vec())
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
        let (put, put_again) = match &self.value {
            None => (recipe::put(&self.key, &[], self.lease), recipe::touch(&self.key)),
            Some(value) => {
                let put = recipe::put(&self.key, value, self.lease);
                (put.clone(), put)
            }
        };
        let first = recipe::read(recipe::first_created(&self.prefix()));
        let own = recipe::read(recipe::get(&self.key));
        let (success, failure) = (vec![put, first.clone()], vec![put_again, first, own]);
        let txn = recipe::if_created_at((&self.key, 0), success, failure);
        Next::Call(Method::Txn, txn.encode_to_vec())
    }

    /// Takes the response of a part.
    fn on_response(&mut self, response: &[u8]) -> Result<Next, CallRefused> {
        match self.stage {
            Stage::Granting => {
                self.lease = own::<pb::LeaseGrantResponse>(response).id;
                Ok(self.create())
            }
            Stage::Creating => Ok(self.on_created(own(response))),
            Stage::Finding => {
                let found: pb::RangeResponse = own(response);
                let Some(before) = found.kvs.first() else { return Ok(self.has_its_turn()) };
                self.stage = Stage::Waiting;
                let revision = found.header.map_or(0, |header| header.revision);
                Ok(Next::Watch(recipe::watch(&before.key, &[], revision).encode_to_vec()))
            }
            Stage::Checking => {
                let found: pb::RangeResponse = own(response);
                if found.kvs.is_empty() {
                    return Err(CallRefused::Unknown("mutex: session is expired"));
                }
                self.header = found.header;
                Ok(self.done())
            }
            Stage::Waiting => unreachable!("a watch has messages"),
        }
    }

    fn on_created(&mut self, done: pb::TxnResponse) -> Next {
        self.changed = done.header.as_ref().map_or(0, |header| header.revision);
        let created_before = recipe::read_by(&done, 2).first().map(|own| own.create_revision);
        self.created = created_before.unwrap_or(self.changed);
        let first = recipe::read_by(&done, 1).first();
        let is_first = first.is_none_or(|first| first.create_revision == self.created);
        self.is_own = done.succeeded || !is_first;
        self.header = done.header;
        if is_first { self.done() } else { self.find() }
    }

    /// Looks for the last key that was created before (`concurrency.waitDeletes`).
    fn find(&mut self) -> Next {
        self.stage = Stage::Finding;
        let before = recipe::last_created_before(&self.prefix(), self.created);
        Next::Call(Method::Range, before.encode_to_vec())
    }

    /// Takes messages of the watch of the key before.
    fn on_messages(&mut self, messages: &WatchMessages) -> Result<Next, CallRefused> {
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

    fn has_its_turn(&mut self) -> Next {
        match self.value {
            Some(_) => self.done(),
            None => {
                self.stage = Stage::Checking;
                Next::Call(Method::Range, recipe::get(&self.key).encode_to_vec())
            }
        }
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

impl EtcdFront {
    /// Begins a call of `Lock` or `Campaign`.
    pub(super) fn begin_lock(
        &mut self,
        ticket: Ticket,
        method: Method,
        request: Bytes,
        credentials: Credentials,
    ) -> Result<(), CallRefused> {
        let (call, next) = LockCall::begin(method, request, credentials)?;
        self.go_on_with_lock(ticket, call, Ok(next));
        Ok(())
    }

    fn go_on_with_lock(
        &mut self,
        ticket: Ticket,
        mut call: LockCall,
        next: Result<Next, CallRefused>,
    ) {
        match next {
            Ok(Next::Events) => {}
            Ok(Next::Call(method, request)) => {
                call.part = self.begin_part(method, request.into(), call.credentials.clone());
            }
            Ok(Next::Watch(request)) => {
                call.part = self.new_ticket();
                // The call ends without a leader if its client says so, and the watch with it.
                self.open_watch(call.part, false, &call.credentials);
                self.on_watch_request(call.part, request.into(), call.credentials.clone());
            }
            Ok(Next::Done(response)) => {
                let reply = Reply::of_bytes(self.header(), response);
                return self.output.results.push((ticket, Ok(reply)));
            }
            Err(refused) => {
                self.leave_lock(&call);
                return self.output.results.push((ticket, Err(refused)));
            }
        }
        self.locks.parts.insert(call.part, PartOf::Call(ticket));
        self.locks.calls.insert(ticket, call);
    }

    /// Begins a part that is a call. What it counts as is the call that it is a part of.
    fn begin_part(&mut self, method: Method, request: Bytes, credentials: Credentials) -> Ticket {
        let part = self.new_ticket();
        self.due.push_back((self.now.monotonic_ms + ETCD_CALL_MS_MAX, part));
        let asker = credentials::asker(credentials, self.config.is_alone);
        if let Err(refused) = self.begin(part, method, request, asker) {
            self.output.results.push((part, Err(refused)));
        }
        part
    }

    /// Removes the key of a call that has ended without success.
    fn leave_lock(&mut self, call: &LockCall) {
        if call.is_own {
            let LockCall { created, changed, .. } = *call;
            let until_ms = self.now.monotonic_ms + LOCK_REMOVAL_MS_MAX;
            self.remove_key(Removal { key: call.key.clone(), created, changed, until_ms });
        }
    }

    /// The member itself removes the key: the client's token may have ended.
    fn remove_key(&mut self, removal: Removal) {
        let txn = recipe::delete_unchanged(&removal.key, removal.created, removal.changed);
        let part = self.begin_part(Method::Txn, txn.encode_to_vec().into(), Credentials::Member);
        self.locks.parts.insert(part, PartOf::Removal(removal));
    }

    /// The client of a call waits no longer. False if the ticket is of another call.
    pub(super) fn cancel_lock(&mut self, ticket: Ticket) -> bool {
        let Some(call) = self.locks.calls.remove(&ticket) else { return false };
        let part = call.part;
        // None: it has its outcome, which is still to be passed on.
        let may_create = matches!(self.calls.get(&part), Some(Call::Command { .. }) | None);
        if call.stage == Stage::Creating && may_create {
            self.locks.parts.insert(part, PartOf::Cancelled(Box::new(call)));
            return true;
        }
        self.locks.parts.remove(&part);
        self.on_cancel(part);
        self.output.results.retain(|(ticket, _)| *ticket != part);
        self.output.watched.retain(|(ticket, _)| *ticket != part);
        self.leave_lock(&call);
        true
    }

    /// Passes on what the output has for parts, and begins the next ones.
    pub(super) fn run_locks(&mut self) {
        while !self.locks.parts.is_empty() {
            self.name_users_of_parts();
            let parts = &self.locks.parts;
            let is_part = |part: &Ticket| parts.contains_key(part);
            let results: Vec<(Ticket, CallResult)> =
                self.output.results.extract_if(.., |(part, _)| is_part(part)).collect();
            let watched: Vec<(Ticket, WatchMessages)> =
                self.output.watched.extract_if(.., |(part, _)| is_part(part)).collect();
            if results.is_empty() && watched.is_empty() {
                return;
            }
            for (part, messages) in watched {
                self.on_part_messages(part, &messages);
            }
            for (part, result) in results {
                self.on_part_result(part, result);
            }
        }
    }

    /// The user of a part is the user of its call.
    fn name_users_of_parts(&mut self) {
        let parts = &self.locks.parts;
        self.output.users.retain_mut(|(ticket, _)| match parts.get(ticket) {
            None => true,
            Some(PartOf::Call(call)) => {
                *ticket = *call;
                true
            }
            Some(PartOf::Cancelled(_) | PartOf::Removal(_)) => false,
        });
    }

    fn on_part_messages(&mut self, part: Ticket, messages: &WatchMessages) {
        let Some(PartOf::Call(ticket)) = self.locks.parts.remove(&part) else { return };
        let Some(mut call) = self.locks.calls.remove(&ticket) else { return };
        let next = call.on_messages(messages);
        match next {
            Ok(Next::Events) => drop(self.on_taken(part)),
            _ => self.on_cancel(part),
        }
        self.go_on_with_lock(ticket, call, next);
    }

    fn on_part_result(&mut self, part: Ticket, result: CallResult) {
        let result = result.map(|reply| {
            let mut response = Vec::new();
            reply.write(&mut response);
            response
        });
        match self.locks.parts.remove(&part) {
            Some(PartOf::Call(ticket)) => {
                let Some(mut call) = self.locks.calls.remove(&ticket) else { return };
                let next = result.and_then(|response| call.on_response(&response));
                self.go_on_with_lock(ticket, call, next);
            }
            Some(PartOf::Cancelled(mut call)) => {
                if let Ok(response) = result {
                    call.on_created(own(&response));
                    self.leave_lock(&call);
                }
            }
            Some(PartOf::Removal(removal))
                if result.is_err() && self.now.monotonic_ms < removal.until_ms =>
            {
                self.locks.unremoved.push(removal);
            }
            Some(PartOf::Removal(_)) | None => {}
        }
    }

    /// Tries removals again that were refused.
    pub(super) fn remove_again(&mut self) {
        for removal in core::mem::take(&mut self.locks.unremoved) {
            self.remove_key(removal);
        }
    }
}

impl Locks {
    pub fn new() -> Locks {
        let calls = HashMap::with_hasher(FixedState::default());
        let parts = HashMap::with_hasher(FixedState::default());
        Locks { calls, parts, unremoved: Vec::new() }
    }

    /// Whether a removal waits for the next tick.
    pub fn has_unremoved(&self) -> bool {
        !self.unremoved.is_empty()
    }
}

/// A message that this Front has encoded.
fn own<M: Message + Default>(bytes: &[u8]) -> M {
    M::decode(bytes).expect("it is our own message")
}
