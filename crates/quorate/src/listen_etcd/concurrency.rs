//! Serves etcd's services for locks and elections, `v3lockpb.Lock` and `v3electionpb.Election`. The
//! Front runs the two calls that wait for their turn, Lock and Campaign (`member::fronts::etcd`).
//! This module makes every other call out of calls that any client could make, as etcd 3.6 does
//! (`server/etcdserver/api/v3lock`, `v3election`, and `client/v3/concurrency`). As in etcd,
//! failures other than malformed requests have the code `UNKNOWN`.

mod local;

use bytes::Bytes;
use etcd::pb::etcdserverpb::ResponseHeader;
use etcd::pb::mvccpb::event::EventType;
use etcd::pb::{Message, v3electionpb as election, v3lockpb as lock};
use etcd::recipe;
use grpc::{Call, End, Room, SharesBySize, Status, framed};
use member::fronts::etcd::EtcdMethod;

use super::client::CallingClient;
use super::methods::{ConcurrencyMethod, FaceMethod};
use super::runtime::malformed;
use local::{Local, unknown};

/// Answers a call to one of the services.
///
/// # Errors
/// The call ends with a status, or its client is gone.
pub(super) async fn answer(
    client: &CallingClient,
    call: &mut Call<FaceMethod>,
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
    call: &mut Call<FaceMethod>,
    shares: &SharesBySize,
    response: Vec<u8>,
) -> Result<(), End> {
    let mut room = Room::new(shares.of(response.len()));
    if !room.try_grow_to(response.len()) {
        call.unless_ended(room.grow_to(response.len())).await?;
    }
    call.answers.send(framed(|out| out.extend(response))?, Some(room)).await
}

/// Runs a call with one response. Dropping the future cancels the call that it waits for.
///
/// # Errors
/// The status that the call ends with.
pub(super) async fn run(
    client: &CallingClient,
    method: ConcurrencyMethod,
    request: Bytes,
) -> Result<Vec<u8>, Status> {
    let local = Local(client.clone());
    Ok(match method {
        ConcurrencyMethod::Lock => local.run(EtcdMethod::Lock, request).await?,
        ConcurrencyMethod::Unlock => {
            let request: lock::UnlockRequest = decode(request)?;
            let header = local.delete(&request.key).await?.header;
            lock::UnlockResponse { header }.encode_to_vec()
        }
        ConcurrencyMethod::Campaign => local.run(EtcdMethod::Campaign, request).await?,
        ConcurrencyMethod::Proclaim => {
            let request: election::ProclaimRequest = decode(request)?;
            let leader = request.leader.ok_or_else(missing_leader)?;
            let header = proclaim(&local, &leader, &request.value).await?;
            election::ProclaimResponse { header }.encode_to_vec()
        }
        ConcurrencyMethod::Leader => {
            let request: election::LeaderRequest = decode(request)?;
            let prefix = recipe::prefix_of(&request.name);
            let found = local.range(&recipe::first_created(&prefix)).await?;
            let kv = found.kvs.into_iter().next().ok_or_else(|| unknown("election: no leader"))?;
            election::LeaderResponse { header: found.header, kv: Some(kv) }.encode_to_vec()
        }
        ConcurrencyMethod::Resign => {
            let request: election::ResignRequest = decode(request)?;
            let leader = request.leader.ok_or_else(missing_leader)?;
            let holder = (&leader.key[..], leader.rev);
            let done = local.if_created_at(holder, recipe::delete(&leader.key)).await?;
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

/// Changes the value of an election's leader (`Election.Proclaim`).
async fn proclaim(
    local: &Local,
    leader: &election::LeaderKey,
    value: &[u8],
) -> Result<Option<ResponseHeader>, Status> {
    let put = recipe::put(&leader.key, value, leader.lease);
    let done = local.if_created_at((&leader.key, leader.rev), put).await?;
    if !done.succeeded {
        return Err(unknown("election: not leader"));
    }
    Ok(done.header)
}

/// Follows an election (`Election.Observe`): returns the value of each leader, and each change of
/// it.
pub(super) struct Observer {
    local: Local,
    prefix: Vec<u8>,
    /// A watch of the present leader's key; `None` while no leader is known.
    leader: Option<local::Events>,
    /// Responses that were not returned yet, the last one first.
    responses: Vec<Vec<u8>>,
    /// Whether the leader's key was deleted after `responses`.
    is_gone: bool,
}

impl Observer {
    /// Begins to follow the election that the request names.
    ///
    /// # Errors
    /// The request is malformed.
    pub fn new(client: &CallingClient, request: Bytes) -> Result<Observer, Status> {
        let request: election::LeaderRequest = decode(request)?;
        let (local, prefix) = (Local(client.clone()), recipe::prefix_of(&request.name));
        Ok(Observer { local, prefix, leader: None, responses: Vec::new(), is_gone: false })
    }

    /// The next response. A caller that drops the future must not call this again.
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

    /// Returns a response with the present leader, or waits for the first one; then watches its
    /// key.
    async fn find_leader(&mut self) -> Result<Vec<u8>, Status> {
        let found = self.local.range(&recipe::first_created(&self.prefix)).await?;
        let mut header = found.header.unwrap_or_default();
        let kv = match found.kvs.into_iter().next() {
            Some(kv) => kv,
            None => {
                let end = recipe::end_of_prefix(&self.prefix);
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
