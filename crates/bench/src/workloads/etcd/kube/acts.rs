//! The calls that the cluster makes, in the form in which apiservers send them to etcd.

use bytes::Bytes;
use etcd::pb::{etcdserverpb as pb, mvccpb::KeyValue};
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::request_op::Request;
use pb::response_op::Response;

use super::cluster::{Act, Kind};
use super::objects::{Object, State};
use super::run::{CallKind, EventLease, Outcome, Run};
use super::value::Head;
use crate::limits::{ETCD_PAGE_KEYS, GUARDED_ATTEMPTS};
use crate::random::Random;
use crate::workloads::etcd::client::{COMPACT, EtcdClient, LEASE_GRANT, RANGE, TXN};

/// The time to live of events, in seconds of the cluster's time.
const EVENT_TTL_S: f64 = 3_600.0;

/// For how long new events share one lease, in seconds of the cluster's time:
/// `LeaseReuseDurationSeconds` of apiservers.
const LEASE_SHARED_S: f64 = 60.0;

/// Makes call `number`: a random act, which was due at `due_ns`.
pub async fn act(run: &Run, mut client: EtcdClient, number: u64, due_ns: u64) {
    let mut random = Random::new(number);
    let act = run.mix.pick(&mut random);
    let client = &mut client;
    let of = |kind, random: &mut Random| run.objects.pick(kind, random);
    match act {
        Act::RenewLease | Act::UpdateNode => {
            let kind = if act == Act::RenewLease { Kind::Leases } else { Kind::Nodes };
            let Some(object) = of(kind, &mut random) else { return };
            let _turn = object.turn.lock().await;
            update(run, client, &object, object.state(), due_ns).await;
        }
        Act::UpdatePod => {
            let Some(pod) = of(Kind::Pods, &mut random) else { return };
            update(run, client, &pod, pod.state(), due_ns).await;
        }
        Act::UpdateSlice => {
            let Some(slice) = of(Kind::EndpointSlices, &mut random) else { return };
            let (state, mut other) = (slice.state(), client.clone());
            tokio::join!(
                update(run, client, &slice, state, due_ns),
                update(run, &mut other, &slice, state, due_ns)
            );
        }
        Act::CreatePod => create(run, client, Kind::Pods, &mut random, Some(due_ns)).await,
        Act::DeletePod => delete(run, client, &mut random, due_ns).await,
        Act::PutEvent => put_event(run, client, &mut random, due_ns).await,
        Act::Get => {
            let Some(object) = of(Kind::ConfigMaps, &mut random) else { return };
            let range = pb::RangeRequest { key: object.key.clone(), ..Default::default() };
            let is_right = |it: &pb::RangeResponse| it.kvs.len() == 1;
            run.ask(client, (CallKind::Get, due_ns), RANGE, &range, is_right).await;
        }
        Act::Count => count(run, client, *random.pick(&Kind::ALL), due_ns).await,
        Act::List => {
            list(run, client, (*random.pick(&Kind::ALL), 0), due_ns, |_| {}).await;
        }
    }
}

/// A transaction that runs `request` if the key has this revision (0: does not exist), and
/// otherwise reads the key.
fn guarded(key: &Bytes, revision: i64, request: Request) -> pb::TxnRequest {
    let compare = pb::Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: key.clone(),
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..Default::default()
    };
    let read = Request::RequestRange(pb::RangeRequest { key: key.clone(), ..Default::default() });
    let op = |request| vec![pb::RequestOp { request: Some(request) }];
    pb::TxnRequest { compare: vec![compare], success: op(request), failure: op(read) }
}

/// The key-value that a refused transaction has read; `None` if the key does not exist.
fn read_of(response: &pb::TxnResponse) -> Option<&KeyValue> {
    match response.responses.first()?.response.as_ref()? {
        Response::ResponseRange(range) => range.kvs.first(),
        _ => None,
    }
}

fn has_one_response(response: &pb::TxnResponse) -> bool {
    response.responses.len() == 1
}

/// Adds one update to the value of an object. `state` is what the writer knows; after a refusal it
/// tries again from what it has read.
async fn update(run: &Run, client: &mut EtcdClient, object: &Object, state: State, due_ns: u64) {
    let (mut state, mut since_ns) = (state, due_ns);
    for _ in 0..GUARDED_ATTEMPTS {
        let head = Head { sent_ns: run.now_ns(), updates: state.updates + 1 };
        let value = run.values.value(head, object.bytes);
        let put = pb::PutRequest { key: object.key.clone(), value, ..Default::default() };
        let txn = guarded(&object.key, state.revision, Request::RequestPut(put));
        let call = (CallKind::Update, since_ns);
        let Outcome::Answer(response) =
            run.ask::<pb::TxnResponse>(client, call, TXN, &txn, has_one_response).await
        else {
            object.on_silence();
            run.objects.count_put(object.kind, None);
            return;
        };
        let revision = run.note(response.header.as_ref());
        if response.succeeded {
            object.on_update(revision, head.updates);
            run.objects.count_put(object.kind, Some(revision));
            return;
        }
        run.answers().conflicts += 1;
        // A pod may be deleted by now.
        let Some(kv) = read_of(&response) else { return };
        (state, since_ns) = (object.on_read(kv), run.now_ns());
    }
    run.answers().given_up += 1;
}

/// Creates an object. `due_ns` is `None` in the fill, where a create has no due time.
pub async fn create(
    run: &Run,
    client: &mut EtcdClient,
    kind: Kind,
    random: &mut Random,
    due_ns: Option<u64>,
) {
    let (key, bytes) = (run.objects.new_key(kind), kind.value_bytes(random));
    let head = Head { sent_ns: due_ns.map_or(0, |_| run.now_ns()), updates: 0 };
    let value = run.values.value(head, bytes);
    let put = pb::PutRequest { key: key.clone(), value, ..Default::default() };
    let txn = guarded(&key, 0, Request::RequestPut(put));
    let call = (CallKind::Create, due_ns.unwrap_or_else(|| run.now_ns()));
    let is_right = |it: &pb::TxnResponse| it.succeeded;
    match run.ask::<pb::TxnResponse>(client, call, TXN, &txn, is_right).await {
        Outcome::Answer(response) if response.succeeded => {
            let revision = run.note(response.header.as_ref());
            run.objects.count_put(kind, Some(revision));
            run.objects.add(Object::new(kind, key, bytes, revision));
        }
        Outcome::Answer(_) => {}
        _ => run.objects.count_put(kind, None),
    }
}

/// Deletes a random pod. Other writers may still update it meanwhile.
async fn delete(run: &Run, client: &mut EtcdClient, random: &mut Random, due_ns: u64) {
    let Some(pod) = run.objects.take(Kind::Pods, random) else { return };
    let (mut state, mut since_ns) = (pod.state(), due_ns);
    for _ in 0..GUARDED_ATTEMPTS {
        let delete = pb::DeleteRangeRequest { key: pod.key.clone(), ..Default::default() };
        let txn = guarded(&pod.key, state.revision, Request::RequestDeleteRange(delete));
        let call = (CallKind::Delete, since_ns);
        let Outcome::Answer(response) =
            run.ask::<pb::TxnResponse>(client, call, TXN, &txn, has_one_response).await
        else {
            run.objects.on_doubt();
            return;
        };
        if response.succeeded {
            return;
        }
        run.answers().conflicts += 1;
        let Some(kv) = read_of(&response) else { return };
        (state, since_ns) = (pod.on_read(kv), run.now_ns());
    }
    run.answers().given_up += 1;
    run.objects.on_doubt();
}

async fn put_event(run: &Run, client: &mut EtcdClient, random: &mut Random, due_ns: u64) {
    let Some(lease) = event_lease(run, client).await else { return };
    let key = run.objects.new_key(Kind::Events);
    let head = Head { sent_ns: run.now_ns(), updates: 0 };
    let value = run.values.value(head, Kind::Events.value_bytes(random));
    let put = pb::PutRequest { key: key.clone(), value, lease, ..Default::default() };
    let txn = guarded(&key, 0, Request::RequestPut(put));
    let is_right = |it: &pb::TxnResponse| it.succeeded;
    let call = (CallKind::Event, due_ns);
    let outcome = run.ask::<pb::TxnResponse>(client, call, TXN, &txn, is_right).await;
    match outcome {
        Outcome::Answer(response) if response.succeeded => {
            let revision = run.note(response.header.as_ref());
            run.objects.count_put(Kind::Events, Some(revision));
        }
        Outcome::Answer(_) => {}
        _ => run.objects.count_put(Kind::Events, None),
    }
}

/// The lease for a new event. If the current lease has been shared for long enough, this grants a
/// new one, and other events wait for it. `None` if the grant fails.
async fn event_lease(run: &Run, client: &mut EtcdClient) -> Option<i64> {
    let mut lease = run.event_lease.lock().await;
    let now_ns = run.now_ns();
    if let Some(EventLease { id, .. }) = lease.filter(|it| now_ns < it.until_ns) {
        return Some(id);
    }
    let ttl = (EVENT_TTL_S / run.compress).ceil() as i64;
    let grant = pb::LeaseGrantRequest { id: 0, ttl };
    let is_right = |it: &pb::LeaseGrantResponse| it.id != 0 && it.error.is_empty();
    let call = (CallKind::Lease, now_ns);
    let Outcome::Answer(granted) =
        run.ask::<pb::LeaseGrantResponse>(client, call, LEASE_GRANT, &grant, is_right).await
    else {
        return None;
    };
    let shared_ns = (LEASE_SHARED_S / run.compress * 1e9) as u64;
    *lease = Some(EventLease { id: granted.id, until_ns: now_ns + shared_ns });
    Some(granted.id)
}

/// Counts the keys of a kind on the server.
async fn count(run: &Run, client: &mut EtcdClient, kind: Kind, due_ns: u64) {
    let (key, range_end) = run.registry.kind(kind);
    let range = pb::RangeRequest { key, range_end, count_only: true, ..Default::default() };
    let is_right = |it: &pb::RangeResponse| it.kvs.is_empty();
    let asked = run.ask(client, (CallKind::Count, due_ns), RANGE, &range, is_right);
    if let Outcome::Answer(response) = asked.await {
        run.note_count(kind, &response);
    }
}

/// Lists a kind in pages, all at one revision (0: the newest), and passes each key to `show`. True
/// if all pages came.
pub async fn list(
    run: &Run,
    client: &mut EtcdClient,
    (kind, revision): (Kind, i64),
    due_ns: u64,
    mut show: impl FnMut(&KeyValue),
) -> bool {
    let (mut key, range_end) = run.registry.kind(kind);
    let (mut revision, mut since_ns) = (revision, due_ns);
    loop {
        let range_end = range_end.clone();
        let limit = ETCD_PAGE_KEYS;
        let range = pb::RangeRequest { key, range_end, limit, revision, ..Default::default() };
        let is_right = |page: &pb::RangeResponse| {
            let fits = page.kvs.len() as i64 <= limit && (!page.more || !page.kvs.is_empty());
            fits && page.kvs.iter().all(|kv| revision == 0 || kv.mod_revision <= revision)
        };
        let call = (CallKind::Page, since_ns);
        let Outcome::Answer(page) =
            run.ask::<pb::RangeResponse>(client, call, RANGE, &range, is_right).await
        else {
            return false;
        };
        page.kvs.iter().for_each(&mut show);
        if revision == 0 {
            revision = run.note(page.header.as_ref());
            run.note_count(kind, &page);
        }
        let Some(last) = page.kvs.last().filter(|_| page.more) else { return true };
        key = [&last.key[..], &[0]].concat().into();
        since_ns = run.now_ns();
    }
}

/// Compacts all revisions before `revision`.
pub async fn compact(run: &Run, client: &mut EtcdClient, revision: i64, due_ns: u64) {
    let compaction = pb::CompactionRequest { revision, ..Default::default() };
    let call = (CallKind::Compaction, due_ns);
    run.ask::<pb::CompactionResponse>(client, call, COMPACT, &compaction, |_| true).await;
}
