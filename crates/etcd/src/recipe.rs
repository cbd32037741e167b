//! Builds the requests that a lock or an election consists of, as etcd's own services make them
//! (`client/v3/concurrency` of etcd 3.6).
//!
//! A lock or an election is a prefix of keys. Each owner or candidate has one key below this
//! prefix, named by the owner's lease. The key that was created first holds the lock or leads;
//! every other key waits until all keys created before it are gone.

use crate::pb::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::pb::etcdserverpb::request_op::Request;
use crate::pb::etcdserverpb::watch_request::RequestUnion;
use crate::pb::etcdserverpb::{self as pb, compare, response_op};
use crate::pb::mvccpb::KeyValue;

/// The prefix of the keys of the lock or election with this name.
pub fn prefix_of(name: &[u8]) -> Vec<u8> {
    [name, b"/"].concat()
}

/// The key that a lease has below the name of a lock or election.
pub fn key_of(name: &[u8], lease: i64) -> Vec<u8> {
    [&prefix_of(name)[..], format!("{lease:x}").as_bytes()].concat()
}

/// The end of the range of all keys with this prefix; the range does not include it.
pub fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // The prefix is empty or all `0xff`, so the range has no upper end: `\0` means that.
    vec![0]
}

/// Puts a key that belongs to a lease.
pub fn put(key: &[u8], value: &[u8], lease: i64) -> pb::RequestOp {
    let (key, value) = (key.to_vec().into(), value.to_vec().into());
    of(Request::RequestPut(pb::PutRequest { key, value, lease, ..Default::default() }))
}

/// Puts a key that exists, and returns the version that the put replaces. If `value` is `None`, the
/// key keeps its value and its lease, so that only its revision changes.
pub fn put_again(key: &[u8], value: Option<&[u8]>, lease: i64) -> pb::RequestOp {
    let put = pb::PutRequest { key: key.to_vec().into(), prev_kv: true, ..Default::default() };
    of(Request::RequestPut(match value {
        Some(value) => pb::PutRequest { value: value.to_vec().into(), lease, ..put },
        None => pb::PutRequest { ignore_value: true, ignore_lease: true, ..put },
    }))
}

/// Deletes a key.
pub fn delete(key: &[u8]) -> pb::RequestOp {
    let key = key.to_vec().into();
    of(Request::RequestDeleteRange(pb::DeleteRangeRequest { key, ..Default::default() }))
}

/// Wraps a read as an operation of a transaction.
pub fn read(range: pb::RangeRequest) -> pb::RequestOp {
    of(Request::RequestRange(range))
}

fn of(request: Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

/// Reads one key.
pub fn get(key: &[u8]) -> pb::RangeRequest {
    pb::RangeRequest { key: key.to_vec().into(), ..Default::default() }
}

/// Reads the one key with this prefix that was created first.
pub fn first_created(prefix: &[u8]) -> pb::RangeRequest {
    pb::RangeRequest {
        key: prefix.to_vec().into(),
        range_end: end_of_prefix(prefix).into(),
        limit: 1,
        sort_order: SortOrder::Ascend.into(),
        sort_target: SortTarget::Create.into(),
        ..Default::default()
    }
}

/// Reads the one key with this prefix that was created last before `revision`.
pub fn last_created_before(prefix: &[u8], revision: i64) -> pb::RangeRequest {
    pb::RangeRequest {
        sort_order: SortOrder::Descend.into(),
        max_create_revision: revision - 1,
        ..first_created(prefix)
    }
}

/// A transaction that runs `success` if the key was created at this revision (0: if the key does
/// not exist), else `failure`.
pub fn if_created_at(
    (key, revision): (&[u8], i64),
    success: Vec<pb::RequestOp>,
    failure: Vec<pb::RequestOp>,
) -> pb::TxnRequest {
    let is = compare::TargetUnion::CreateRevision(revision);
    pb::TxnRequest {
        compare: vec![equal(key, compare::CompareTarget::Create, is)],
        success,
        failure,
    }
}

/// Deletes a key if it was created at revision `created` and last changed at revision `changed`.
pub fn delete_unchanged(key: &[u8], created: i64, changed: i64) -> pb::TxnRequest {
    let mut txn = if_created_at((key, created), vec![delete(key)], vec![]);
    let is = compare::TargetUnion::ModRevision(changed);
    txn.compare.push(equal(key, compare::CompareTarget::Mod, is));
    txn
}

fn equal(key: &[u8], target: compare::CompareTarget, is: compare::TargetUnion) -> pb::Compare {
    pb::Compare {
        result: compare::CompareResult::Equal.into(),
        target: target.into(),
        key: key.to_vec().into(),
        target_union: Some(is),
        ..Default::default()
    }
}

/// The keys that the operation at this position of a transaction has read; empty if it is no read.
pub fn read_by(done: &pb::TxnResponse, position: usize) -> &[KeyValue] {
    match done.responses.get(position).and_then(|response| response.response.as_ref()) {
        Some(response_op::Response::ResponseRange(range)) => &range.kvs,
        _ => &[],
    }
}

/// The version that the put at this position of a transaction has replaced; `None` if there was
/// none, or if the put did not ask for it.
pub fn put_over(done: &pb::TxnResponse, position: usize) -> Option<&KeyValue> {
    match done.responses.get(position).and_then(|response| response.response.as_ref()) {
        Some(response_op::Response::ResponsePut(put)) => put.prev_kv.as_ref(),
        _ => None,
    }
}

/// Watches a range from `start_revision` on.
pub fn watch(key: &[u8], end: &[u8], start_revision: i64) -> pb::WatchRequest {
    let (key, range_end) = (key.to_vec().into(), end.to_vec().into());
    let create = pb::WatchCreateRequest { key, range_end, start_revision, ..Default::default() };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}
