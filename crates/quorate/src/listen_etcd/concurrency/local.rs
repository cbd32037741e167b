//! The calls that the services of locks and elections are made of: those of any client, without the
//! network between.

use etcd::Error;
use etcd::pb::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd::pb::etcdserverpb::request_op::Request;
use etcd::pb::etcdserverpb::watch_request::RequestUnion;
use etcd::pb::etcdserverpb::{self as pb, compare, response_op};
use etcd::pb::mvccpb::KeyValue;
use etcd::pb::{Message, mvccpb};
use member::etcd_front::Method;

use super::super::client::Client;
use super::super::runtime::{FromWatch, WatchCall, status_of};
use crate::grpc::{Code, Status};

/// A client within the process.
#[derive(Clone)]
pub(super) struct Local(pub Client);

/// The status for a failure of these services: etcd's have no codes of their own.
pub(super) fn unknown(text: impl Into<String>) -> Status {
    Status::new(Code::Unknown, text)
}

/// The keys with a prefix: the end of their range.
pub(super) fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // Every key behind has the prefix.
    vec![0]
}

/// The put of a key of a lease.
pub(super) fn put(key: &[u8], value: &[u8], lease: i64) -> pb::RequestOp {
    let (key, value) = (key.to_vec().into(), value.to_vec().into());
    of(Request::RequestPut(pb::PutRequest { key, value, lease, ..Default::default() }))
}

/// The removal of a key.
pub(super) fn delete(key: &[u8]) -> pb::RequestOp {
    let key = key.to_vec().into();
    of(Request::RequestDeleteRange(pb::DeleteRangeRequest { key, ..Default::default() }))
}

/// The read of a key.
pub(super) fn get(key: &[u8]) -> pb::RequestOp {
    let key = key.to_vec().into();
    of(Request::RequestRange(pb::RangeRequest { key, ..Default::default() }))
}

/// The read of the key with this prefix that was created first.
pub(super) fn first_created(prefix: &[u8]) -> pb::RangeRequest {
    pb::RangeRequest {
        key: prefix.to_vec().into(),
        range_end: end_of_prefix(prefix).into(),
        limit: 1,
        sort_order: SortOrder::Ascend.into(),
        sort_target: SortTarget::Create.into(),
        ..Default::default()
    }
}

/// The operation that a read is within a transaction.
pub(super) fn of_range(range: pb::RangeRequest) -> pb::RequestOp {
    of(Request::RequestRange(range))
}

fn of(request: Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

/// The keys that an operation of a transaction has read.
pub(super) fn read_by(done: &pb::TxnResponse, position: usize) -> &[KeyValue] {
    match done.responses.get(position).and_then(|response| response.response.as_ref()) {
        Some(response_op::Response::ResponseRange(range)) => &range.kvs,
        _ => &[],
    }
}

impl Local {
    async fn call<R: Message + Default>(
        &self,
        method: Method,
        request: &impl Message,
    ) -> Result<R, Status> {
        let reply = self.0.run(method, request.encode_to_vec().into()).await;
        let reply = reply.map_err(|refused| unknown(status_of(refused).message))?;
        let mut bytes = Vec::new();
        reply.write(&mut bytes);
        Ok(R::decode(&bytes[..]).expect("it is our own message"))
    }

    pub async fn range(&self, request: &pb::RangeRequest) -> Result<pb::RangeResponse, Status> {
        self.call(Method::Range, request).await
    }

    pub async fn delete(&self, key: &[u8]) -> Result<pb::DeleteRangeResponse, Status> {
        let key = key.to_vec().into();
        self.call(Method::DeleteRange, &pb::DeleteRangeRequest { key, ..Default::default() }).await
    }

    pub async fn grant(&self, ttl: i64) -> Result<i64, Status> {
        let request = pb::LeaseGrantRequest { ttl, id: 0 };
        let granted: pb::LeaseGrantResponse = self.call(Method::LeaseGrant, &request).await?;
        Ok(granted.id)
    }

    /// Runs one branch if the key was created at this revision (0: if it does not exist), else the
    /// other.
    pub async fn if_created_at(
        &self,
        (key, revision): (&[u8], i64),
        success: Vec<pb::RequestOp>,
        failure: Vec<pb::RequestOp>,
    ) -> Result<pb::TxnResponse, Status> {
        let compare = pb::Compare {
            result: compare::CompareResult::Equal.into(),
            target: compare::CompareTarget::Create.into(),
            key: key.to_vec().into(),
            target_union: Some(compare::TargetUnion::CreateRevision(revision)),
            ..Default::default()
        };
        let txn = pb::TxnRequest { compare: vec![compare], success, failure };
        self.call(Method::Txn, &txn).await
    }

    /// Watches a range from a revision on.
    pub fn watch(&self, key: &[u8], end: &[u8], start_revision: i64) -> Events {
        let (key, range_end) = (key.to_vec().into(), end.to_vec().into());
        let create =
            pb::WatchCreateRequest { key, range_end, start_revision, ..Default::default() };
        let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        // The call that waits ends without a leader, if its client says so, and this with it.
        let call = self.0.open_watch(false);
        call.request(request.encode_to_vec().into());
        Events { call, responses: Vec::new() }
    }
}

/// The events of a watch.
pub(super) struct Events {
    call: WatchCall,
    /// Responses that were not taken yet, the last one first.
    responses: Vec<pb::WatchResponse>,
}

impl Events {
    /// The next events, with the header of their response.
    ///
    /// # Errors
    /// The watch has ended.
    pub async fn next(&mut self) -> Result<(pb::ResponseHeader, Vec<mvccpb::Event>), Status> {
        loop {
            while let Some(response) = self.responses.pop() {
                if response.canceled {
                    return Err(unknown(match &*response.cancel_reason {
                        "" => Error::Compacted.text(),
                        reason => reason,
                    }));
                }
                if !response.events.is_empty() {
                    return Ok((response.header.unwrap_or_default(), response.events));
                }
            }
            match self.call.next().await {
                FromWatch::Accepts => {}
                FromWatch::Ended(refused) => return Err(unknown(status_of(refused).message)),
                FromWatch::Messages(messages) => {
                    for message in messages.iter() {
                        let mut bytes = Vec::new();
                        message.write(&mut bytes);
                        let response = pb::WatchResponse::decode(&bytes[..]);
                        self.responses.push(response.expect("it is our own message"));
                    }
                    self.responses.reverse();
                    self.call.taken();
                }
            }
        }
    }
}
