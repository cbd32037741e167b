//! The services `v3lockpb.Lock` and `v3electionpb.Election`: each call is made of calls that any
//! client could make, as in etcd (`server/etcdserver/api/v3lock`, `v3election`, and
//! `client/v3/concurrency` of etcd 3.6).
//!
//! A lock or a candidacy is a key below the name, with the lease in its name. The key that was
//! created first holds; each other one waits until those created before it are gone. A client that
//! waits no longer leaves nothing behind. Failures have the code `UNKNOWN`, as etcd's.

mod local;

use std::cell::Cell;

use bytes::Bytes;
use etcd::pb::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd::pb::etcdserverpb::{RangeRequest, ResponseHeader};
use etcd::pb::mvccpb::event::EventType;
use etcd::pb::{Message, v3electionpb as election, v3lockpb as lock};

use super::client::Client;
use super::methods::{ConcurrencyMethod, Method};
use super::runtime::malformed;
use crate::grpc::{Call, End, Room, SharesBySize, Status, framed};
use local::{Local, delete, end_of_prefix, first_created, get, of_range, put, read_by, unknown};

/// The time to live of the lease for a client that names none (`concurrency.defaultSessionTTL`), s.
const SESSION_TTL_S: i64 = 60;

/// Answers a call of the services.
///
/// # Errors
/// The call ends with a status, or its client is gone.
pub(super) async fn answer(
    client: &Client,
    call: &mut Call<Method>,
    shares: &SharesBySize,
    method: ConcurrencyMethod,
) -> Result<(), End> {
    let message = call.requests.only().await?;
    if method != ConcurrencyMethod::Observe {
        let work = run(client, method, message.bytes);
        let response = call.unless_ended(work).await??;
        return send(call, shares, response).await;
    }
    let mut observer = Observer::new(client, message.bytes)?;
    loop {
        let response = call.unless_ended(observer.next()).await??;
        send(call, shares, response).await?;
        call.answers.taken().await?;
    }
}

async fn send(
    call: &mut Call<Method>,
    shares: &SharesBySize,
    response: Vec<u8>,
) -> Result<(), End> {
    let mut room = Room::new(shares.of(response.len()));
    if !room.try_grow_to(response.len()) {
        call.unless_ended(room.grow_to(response.len())).await?;
    }
    call.answers.send(framed(|out| out.extend(response))?, Some(room)).await
}

/// Runs a call with one response. Dropping the future ends what it waits for.
///
/// # Errors
/// The status that the call ends with.
pub(super) async fn run(
    client: &Client,
    method: ConcurrencyMethod,
    request: Bytes,
) -> Result<Vec<u8>, Status> {
    let local = Local(client.clone());
    Ok(match method {
        ConcurrencyMethod::Lock => lock(&local, decode(request)?).await?.encode_to_vec(),
        ConcurrencyMethod::Unlock => {
            let request: lock::UnlockRequest = decode(request)?;
            let header = local.delete(&request.key).await?.header;
            lock::UnlockResponse { header }.encode_to_vec()
        }
        ConcurrencyMethod::Campaign => campaign(&local, decode(request)?).await?.encode_to_vec(),
        ConcurrencyMethod::Proclaim => {
            let request: election::ProclaimRequest = decode(request)?;
            let leader = request.leader.ok_or_else(missing_leader)?;
            let header = proclaim(&local, &leader, &request.value).await?;
            election::ProclaimResponse { header }.encode_to_vec()
        }
        ConcurrencyMethod::Leader => {
            let request: election::LeaderRequest = decode(request)?;
            let found = local.range(&first_created(&below(&request.name))).await?;
            let kv = found.kvs.into_iter().next().ok_or_else(|| unknown("election: no leader"))?;
            election::LeaderResponse { header: found.header, kv: Some(kv) }.encode_to_vec()
        }
        ConcurrencyMethod::Resign => {
            let request: election::ResignRequest = decode(request)?;
            let leader = request.leader.ok_or_else(missing_leader)?;
            let holder = (&leader.key[..], leader.rev);
            let done = local.if_created_at(holder, vec![delete(&leader.key)], vec![]).await?;
            election::ResignResponse { header: done.header }.encode_to_vec()
        }
        ConcurrencyMethod::Observe => unreachable!("it has a stream of responses"),
    })
}

fn decode<M: Message + Default>(request: Bytes) -> Result<M, Status> {
    M::decode(request).map_err(|_| malformed())
}

fn missing_leader() -> Status {
    unknown("\"leader\" field must be provided")
}

/// The prefix of the keys of a lock or an election.
fn below(name: &[u8]) -> Vec<u8> {
    [name, b"/"].concat()
}

/// The lease of a client, and the key that it has below a name.
async fn session(local: &Local, name: &[u8], lease: i64) -> Result<(i64, Vec<u8>), Status> {
    let lease = match lease {
        0 => local.grant(SESSION_TTL_S).await?,
        lease => lease,
    };
    let key = [&below(name)[..], format!("{lease:x}").as_bytes()].concat();
    Ok((lease, key))
}

/// `Mutex.Lock`.
async fn lock(local: &Local, request: lock::LockRequest) -> Result<lock::LockResponse, Status> {
    let (lease, key) = session(local, &request.name, request.lease).await?;
    let prefix = below(&request.name);
    let own = Held::new(local, &key);
    let owner = || of_range(first_created(&prefix));
    let (success, failure) = (vec![put(&key, &[], lease), owner()], vec![get(&key), owner()]);
    let done = local.if_created_at((&key, 0), success, failure).await;
    let done = done.inspect_err(|_| own.keep())?;
    let created = match done.succeeded {
        true => done.header.as_ref().map_or(0, |header| header.revision),
        false => read_by(&done, 0).first().map_or(0, |kv| kv.create_revision),
    };
    let holder = read_by(&done, 1).first().map(|kv| kv.create_revision);
    let mut header = done.header;
    if holder.is_some_and(|holder| holder != created) {
        wait_for_those_before(local, &prefix, created).await?;
        // The lease may have ended meanwhile.
        let request = RangeRequest { key: key.clone().into(), ..Default::default() };
        let found = local.range(&request).await?;
        if found.kvs.is_empty() {
            own.keep();
            return Err(unknown("mutex: session is expired"));
        }
        header = found.header;
    }
    own.keep();
    Ok(lock::LockResponse { header, key: key.into() })
}

/// `Election.Campaign`.
async fn campaign(
    local: &Local,
    request: election::CampaignRequest,
) -> Result<election::CampaignResponse, Status> {
    let (lease, key) = session(local, &request.name, request.lease).await?;
    let own = Held::new(local, &key);
    let success = vec![put(&key, &request.value, lease)];
    let done = local.if_created_at((&key, 0), success, vec![get(&key)]).await;
    let done = done.inspect_err(|_| own.keep())?;
    let before = read_by(&done, 0).first().filter(|_| !done.succeeded);
    let rev = match before {
        Some(before) => before.create_revision,
        None => done.header.as_ref().map_or(0, |header| header.revision),
    };
    own.created.set(rev);
    let (name, key) = (request.name.clone(), Bytes::from(key.clone()));
    let leader = election::LeaderKey { name, key, rev, lease };
    if before.is_some_and(|before| before.value != request.value) {
        proclaim(local, &leader, &request.value).await?;
    }
    wait_for_those_before(local, &below(&request.name), rev).await?;
    own.keep();
    Ok(election::CampaignResponse { header: done.header, leader: Some(leader) })
}

/// `Election.Proclaim`.
async fn proclaim(
    local: &Local,
    leader: &election::LeaderKey,
    value: &[u8],
) -> Result<Option<ResponseHeader>, Status> {
    let success = vec![put(&leader.key, value, leader.lease)];
    let done = local.if_created_at((&leader.key, leader.rev), success, vec![]).await?;
    if !done.succeeded {
        return Err(unknown("election: not leader"));
    }
    Ok(done.header)
}

/// Waits until no key with the prefix exists that was created before this revision
/// (`concurrency.waitDeletes`).
async fn wait_for_those_before(local: &Local, prefix: &[u8], created: i64) -> Result<(), Status> {
    let last_before = RangeRequest {
        sort_order: SortOrder::Descend.into(),
        sort_target: SortTarget::Create.into(),
        max_create_revision: created - 1,
        ..first_created(prefix)
    };
    loop {
        let found = local.range(&last_before).await?;
        let Some(before) = found.kvs.first() else { return Ok(()) };
        let revision = found.header.as_ref().map_or(0, |header| header.revision);
        let mut events = local.watch(&before.key, &[], revision);
        let is_delete = |event: &etcd::pb::mvccpb::Event| event.r#type() == EventType::Delete;
        while !events.next().await?.1.iter().any(is_delete) {}
    }
}

/// The key of a client that waits. Unless it is kept, the end of the wait removes it.
struct Held {
    local: Local,
    key: Vec<u8>,
    is_kept: Cell<bool>,
    /// The revision at which the key was created: one that was created anew is not removed. 0: any.
    created: Cell<i64>,
}

impl Held {
    fn new(local: &Local, key: &[u8]) -> Held {
        let (is_kept, created) = (Cell::new(false), Cell::new(0));
        Held { local: local.clone(), key: key.to_vec(), is_kept, created }
    }

    fn keep(&self) {
        self.is_kept.set(true);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_kept.get() {
            return;
        }
        let (local, key, created) =
            (self.local.clone(), std::mem::take(&mut self.key), self.created.get());
        tokio::task::spawn_local(async move {
            // If it fails, the lease of the key will end.
            let _ = match created {
                0 => local.delete(&key).await.map(|_| ()),
                _ => {
                    let resigned = local.if_created_at((&key, created), vec![delete(&key)], vec![]);
                    resigned.await.map(|_| ())
                }
            };
        });
    }
}

/// Follows an election (`Election.Observe`): the value of each leader, and each change of it.
pub(super) struct Observer {
    local: Local,
    prefix: Vec<u8>,
    /// The watch of the leader's key.
    leader: Option<local::Events>,
    /// Responses that were not given yet, the last one first.
    responses: Vec<Vec<u8>>,
    /// Whether the leader's key is gone behind these.
    is_gone: bool,
}

impl Observer {
    /// # Errors
    /// The request is malformed.
    pub fn new(client: &Client, request: Bytes) -> Result<Observer, Status> {
        let request: election::LeaderRequest = decode(request)?;
        let (local, prefix) = (Local(client.clone()), below(&request.name));
        Ok(Observer { local, prefix, leader: None, responses: Vec::new(), is_gone: false })
    }

    /// The next response. A caller may stop waiting only for good.
    ///
    /// # Errors
    /// The status that the stream ends with.
    pub async fn next(&mut self) -> Result<Vec<u8>, Status> {
        loop {
            if let Some(response) = self.responses.pop() {
                return Ok(response);
            }
            if core::mem::take(&mut self.is_gone) {
                self.leader = None;
            }
            let Some(leader) = &mut self.leader else {
                let response = self.find_leader().await?;
                return Ok(response);
            };
            let (header, events) = leader.next().await?;
            for event in events {
                if event.r#type() == EventType::Delete {
                    self.is_gone = true;
                    break;
                }
                let response = election::LeaderResponse { header: Some(header), kv: event.kv };
                self.responses.push(response.encode_to_vec());
            }
            self.responses.reverse();
        }
    }

    /// The present leader, or the next one.
    async fn find_leader(&mut self) -> Result<Vec<u8>, Status> {
        let found = self.local.range(&first_created(&self.prefix)).await?;
        let mut header = found.header.unwrap_or_default();
        let kv = match found.kvs.into_iter().next() {
            Some(kv) => kv,
            None => {
                let end = end_of_prefix(&self.prefix);
                let mut events = self.local.watch(&self.prefix, &end, header.revision);
                loop {
                    let (of_events, events) = events.next().await?;
                    let is_put = |event: &etcd::pb::mvccpb::Event| event.r#type() == EventType::Put;
                    if let Some(kv) = events.into_iter().find(is_put).and_then(|event| event.kv) {
                        header = ResponseHeader { revision: kv.mod_revision, ..of_events };
                        break kv;
                    }
                }
            }
        };
        self.leader = Some(self.local.watch(&kv.key, &[], header.revision + 1));
        Ok(election::LeaderResponse { header: Some(header), kv: Some(kv) }.encode_to_vec())
    }
}
