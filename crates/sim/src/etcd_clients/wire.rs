//! Encodes the calls of etcd clients as requests, and decodes responses, from and to the types of
//! `workload`.

use bytes::Bytes;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::compare::TargetUnion;
use etcd::pb::{Message, mvccpb, v3electionpb as election, v3lockpb as lock};
use member::fronts::etcd::{CallRefused, EtcdMethod};
use workload::etcd::op::{
    Answer, Compare, CompareResult, CompareTarget, DeleteAnswer, DeleteRange, Error, KeyValue,
    LeaseOp, Op, Put, PutAnswer, Range, RangeAnswer, Response, SortOrder, SortTarget, Txn,
    TxnAnswer, TxnOp,
};

use pb::request_op::Request as PbRequest;
use pb::response_op::Response as PbResponse;

use super::contender::{self, Service};
use super::network::SentResult;

/// The cluster id and the member id in the headers of a member's responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The cluster id.
    pub cluster_id: u64,
    /// The member id.
    pub member_id: u64,
    /// The id of the member's server, which clients see from level 5 on; `None` if the state did
    /// not have another id than the member's when it was last asked.
    pub server_id: Option<u64>,
    /// Whether all members have had the same state since before the response was made.
    pub is_last: bool,
}

impl Served {
    /// The ids of a member that clients see by its own id.
    pub fn new(cluster_id: u64, member_id: u64) -> Served {
        Served { cluster_id, member_id, server_id: None, is_last: false }
    }

    /// The id that clients see.
    pub fn shown_id(self) -> u64 {
        self.server_id.unwrap_or(self.member_id)
    }

    /// Whether a header may have this member id. Right after the level has risen, or after the
    /// member was registered, a connection runtime may still show the member's own id.
    fn may_show(self, id: u64) -> bool {
        id == self.shown_id() || (!self.is_last && id == self.member_id)
    }
}

/// The method of a call, and the bytes of its request.
pub fn encode(op: &Op) -> (EtcdMethod, Bytes) {
    let (method, bytes) = match op {
        Op::Range(range) => (EtcdMethod::Range, self::range(range).encode_to_vec()),
        Op::Put(put) => (EtcdMethod::Put, self::put(put).encode_to_vec()),
        Op::DeleteRange(delete) => (EtcdMethod::DeleteRange, self::delete(delete).encode_to_vec()),
        Op::Txn(txn) => (EtcdMethod::Txn, self::txn(txn).encode_to_vec()),
        Op::Compact(compact) => {
            let (revision, physical) = (compact.revision, compact.physical);
            (EtcdMethod::Compact, pb::CompactionRequest { revision, physical }.encode_to_vec())
        }
        Op::Lease(op) => lease(*op),
    };
    (method, bytes.into())
}

/// The method of a `Lock` or `Campaign` call, and the bytes of its request.
pub fn encode_service(service: &Service) -> (EtcdMethod, Bytes) {
    let (name, lease) = (bytes(service.name), service.lease);
    match &service.value {
        None => (EtcdMethod::Lock, lock::LockRequest { name, lease }.encode_to_vec().into()),
        Some(value) => {
            let value = bytes(value);
            let campaign = election::CampaignRequest { name, lease, value };
            (EtcdMethod::Campaign, campaign.encode_to_vec().into())
        }
    }
}

/// Decodes the result of a `Lock` or `Campaign` call.
///
/// # Errors
/// The client could not understand it.
pub fn decode_service(
    method: EtcdMethod,
    result: &SentResult,
) -> Result<contender::Served, String> {
    let response = match result {
        Ok(response) => Bytes::copy_from_slice(response),
        Err(CallRefused::Error(error)) => return Ok(contender::Served::Refused(*error)),
        Err(CallRefused::Unknown(_)) => return Ok(contender::Served::Expired),
        Err(refused) => return Err(format!("{refused:?} of a call that waits for its turn")),
    };
    let malformed = |error: etcd::pb::DecodeError| format!("the response to a lock: {error}");
    if method == EtcdMethod::Lock {
        lock::LockResponse::decode(response).map_err(malformed)?;
        return Ok(contender::Served::Holds(None));
    }
    let response = election::CampaignResponse::decode(response).map_err(malformed)?;
    let leader = response.leader.ok_or("a campaign is won without a leader")?;
    Ok(contender::Served::Holds(Some(leader.rev)))
}

/// Whether a call may be made as a streamed read with the same result. A streamed read must be
/// ordered by key: it ignores a sort target without an order (`checkRangeStreamRequest` of etcd
/// 3.7).
pub fn can_stream(op: &Op) -> bool {
    let Op::Range(range) = op else { return false };
    let is_by_key = range.sort_target == SortTarget::Key && range.sort_order != SortOrder::Descend;
    let bounds = [
        range.min_mod_revision,
        range.max_mod_revision,
        range.min_create_revision,
        range.max_create_revision,
    ];
    is_by_key && bounds == [0; 4]
}

/// Appends a piece of a streamed read to the pieces before. Together they are the bytes of the
/// response to the whole read.
///
/// # Errors
/// The client could not understand the piece.
pub fn add_piece(pieces: &mut Vec<u8>, piece: &[u8]) -> Result<(), String> {
    let piece = pb::RangeStreamResponse::decode(Bytes::copy_from_slice(piece));
    let piece = piece.map_err(|error| format!("a piece: {error}"))?;
    let response = piece.range_response.ok_or("a piece without a response")?;
    pieces.extend(response.encode_to_vec());
    let whole = pb::RangeResponse::decode(Bytes::copy_from_slice(pieces));
    let whole = whole.map_err(|error| format!("pieces: {error}"))?;
    match whole.kvs.is_sorted_by(|one, other| one.key < other.key) {
        true => Ok(()),
        false => Err(format!("pieces are not in the order of keys: {whole:?}")),
    }
}

fn lease(op: LeaseOp) -> (EtcdMethod, Vec<u8>) {
    match op {
        LeaseOp::Grant { lease: id, ttl_s: ttl } => {
            (EtcdMethod::LeaseGrant, pb::LeaseGrantRequest { id, ttl }.encode_to_vec())
        }
        LeaseOp::Revoke { lease: id } => {
            (EtcdMethod::LeaseRevoke, pb::LeaseRevokeRequest { id }.encode_to_vec())
        }
        LeaseOp::KeepAlive { lease: id } => {
            (EtcdMethod::LeaseKeepAlive, pb::LeaseKeepAliveRequest { id }.encode_to_vec())
        }
        LeaseOp::TimeToLive { lease: id } => {
            let request = pb::LeaseTimeToLiveRequest { id, keys: false };
            (EtcdMethod::LeaseTimeToLive, request.encode_to_vec())
        }
    }
}

fn bytes(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

fn range(range: &Range) -> pb::RangeRequest {
    pb::RangeRequest {
        key: bytes(&range.key),
        range_end: bytes(&range.range_end),
        limit: range.limit,
        revision: range.revision,
        sort_order: match range.sort_order {
            SortOrder::None => 0,
            SortOrder::Ascend => 1,
            SortOrder::Descend => 2,
        },
        sort_target: match range.sort_target {
            SortTarget::Key => 0,
            SortTarget::Version => 1,
            SortTarget::Create => 2,
            SortTarget::Mod => 3,
            SortTarget::Value => 4,
        },
        serializable: range.serializable,
        keys_only: range.keys_only,
        count_only: range.count_only,
        min_mod_revision: range.min_mod_revision,
        max_mod_revision: range.max_mod_revision,
        min_create_revision: range.min_create_revision,
        max_create_revision: range.max_create_revision,
    }
}

fn put(put: &Put) -> pb::PutRequest {
    pb::PutRequest {
        key: bytes(&put.key),
        value: bytes(&put.value),
        lease: put.lease,
        prev_kv: put.prev_kv,
        ignore_value: put.ignore_value,
        ignore_lease: put.ignore_lease,
    }
}

fn delete(delete: &DeleteRange) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: bytes(&delete.key),
        range_end: bytes(&delete.range_end),
        prev_kv: delete.prev_kv,
    }
}

fn txn(txn: &Txn) -> pb::TxnRequest {
    let ops = |ops: &[TxnOp]| ops.iter().map(txn_op).collect();
    pb::TxnRequest {
        compare: txn.compares.iter().map(compare).collect(),
        success: ops(&txn.success),
        failure: ops(&txn.failure),
    }
}

fn txn_op(op: &TxnOp) -> pb::RequestOp {
    let request = match op {
        TxnOp::Range(range) => Some(PbRequest::RequestRange(self::range(range))),
        TxnOp::Put(put) => Some(PbRequest::RequestPut(self::put(put))),
        TxnOp::DeleteRange(delete) => Some(PbRequest::RequestDeleteRange(self::delete(delete))),
        TxnOp::Txn(txn) => Some(PbRequest::RequestTxn(self::txn(txn))),
        TxnOp::Empty => None,
    };
    pb::RequestOp { request }
}

fn compare(compare: &Compare) -> pb::Compare {
    let (target, union) = match &compare.target {
        CompareTarget::Version(version) => (0, TargetUnion::Version(*version)),
        CompareTarget::Create(revision) => (1, TargetUnion::CreateRevision(*revision)),
        CompareTarget::Mod(revision) => (2, TargetUnion::ModRevision(*revision)),
        CompareTarget::Value(value) => (3, TargetUnion::Value(bytes(value))),
        CompareTarget::Lease(lease) => (4, TargetUnion::Lease(*lease)),
    };
    pb::Compare {
        result: match compare.result {
            CompareResult::Equal => 0,
            CompareResult::Greater => 1,
            CompareResult::Less => 2,
            CompareResult::NotEqual => 3,
        },
        target,
        key: bytes(&compare.key),
        range_end: bytes(&compare.range_end),
        target_union: Some(union),
    }
}

/// Decodes the result of a call at the member `by`.
///
/// # Errors
/// The client could not understand it.
pub fn decode(op: &Op, result: &SentResult, by: Served) -> Result<Answer, String> {
    let response = match result {
        Ok(response) => Bytes::copy_from_slice(response),
        Err(CallRefused::Error(error)) => return self::error(*error).map(Err),
        Err(CallRefused::Malformed | CallRefused::Unimplemented(_) | CallRefused::Unknown(_)) => {
            return Err(format!("malformed or not served, it says: {op:?}"));
        }
    };
    let decoded = match op {
        Op::Range(_) => of(response, |it| range_answer(it, Some(by)).map(Response::Range)),
        Op::Put(_) => of(response, |it| put_answer(it, Some(by)).map(Response::Put)),
        Op::DeleteRange(_) => {
            of(response, |it| delete_answer(it, Some(by)).map(Response::DeleteRange))
        }
        Op::Txn(_) => of(response, |it| txn_answer(it, Some(by)).map(Response::Txn)),
        Op::Compact(_) => of(response, |it: pb::CompactionResponse| {
            Ok(Response::Compact { revision: revision(it.header, Some(by))? })
        }),
        Op::Lease(op) => lease_answer(*op, response, by),
    };
    decoded.map(Ok).map_err(|what| format!("the response to {op:?}: {what}"))
}

/// Decodes a response about a lease, which must name that lease.
fn lease_answer(op: LeaseOp, response: Bytes, by: Served) -> Result<Response, String> {
    let of_lease = |lease: i64, id: i64| match lease == id {
        true => Ok(()),
        false => Err(format!("it is about lease {id}")),
    };
    match op {
        LeaseOp::Grant { lease, .. } => of(response, |it: pb::LeaseGrantResponse| {
            of_lease(lease, it.id)?;
            let revision = revision(it.header, Some(by))?;
            Ok(Response::Granted { revision, lease, ttl_s: it.ttl })
        }),
        LeaseOp::Revoke { .. } => of(response, |it: pb::LeaseRevokeResponse| {
            Ok(Response::Revoked { revision: revision(it.header, Some(by))? })
        }),
        LeaseOp::KeepAlive { lease } => of(response, |it: pb::LeaseKeepAliveResponse| {
            of_lease(lease, it.id)?;
            Ok(Response::KeptAlive { revision: revision(it.header, Some(by))?, ttl_s: it.ttl })
        }),
        LeaseOp::TimeToLive { lease } => of(response, |it: pb::LeaseTimeToLiveResponse| {
            of_lease(lease, it.id)?;
            let revision = revision(it.header, Some(by))?;
            let (ttl_s, granted_s) = (it.ttl, it.granted_ttl);
            Ok(Response::TimeToLive { revision, ttl_s, granted_s })
        }),
    }
}

fn of<M: Message + Default>(
    response: Bytes,
    answer: impl FnOnce(M) -> Result<Response, String>,
) -> Result<Response, String> {
    answer(M::decode(response).map_err(|error| error.to_string())?)
}

/// The revision in a header. The header of a whole response must name the cluster and the member in
/// `by`; headers inside a transaction do not (`None`).
pub(super) fn revision(
    header: Option<pb::ResponseHeader>,
    by: Option<Served>,
) -> Result<i64, String> {
    let Some(by) = by else {
        return Ok(header.map_or(0, |header| header.revision));
    };
    match header {
        Some(header) if header.cluster_id == by.cluster_id && by.may_show(header.member_id) => {
            Ok(header.revision)
        }
        header => Err(format!("{header:?} from {by:?}")),
    }
}

pub(super) fn pair(pair: mvccpb::KeyValue) -> KeyValue {
    KeyValue {
        key: pair.key.to_vec(),
        value: pair.value.to_vec(),
        create_revision: pair.create_revision,
        mod_revision: pair.mod_revision,
        version: pair.version,
        lease: pair.lease,
    }
}

fn range_answer(answer: pb::RangeResponse, by: Option<Served>) -> Result<RangeAnswer, String> {
    Ok(RangeAnswer {
        revision: revision(answer.header, by)?,
        kvs: answer.kvs.into_iter().map(pair).collect(),
        more: answer.more,
        count: answer.count,
    })
}

fn put_answer(answer: pb::PutResponse, by: Option<Served>) -> Result<PutAnswer, String> {
    Ok(PutAnswer { revision: revision(answer.header, by)?, prev_kv: answer.prev_kv.map(pair) })
}

fn delete_answer(
    answer: pb::DeleteRangeResponse,
    by: Option<Served>,
) -> Result<DeleteAnswer, String> {
    Ok(DeleteAnswer {
        revision: revision(answer.header, by)?,
        deleted: answer.deleted,
        prev_kvs: answer.prev_kvs.into_iter().map(pair).collect(),
    })
}

fn txn_answer(answer: pb::TxnResponse, by: Option<Served>) -> Result<TxnAnswer, String> {
    let one = |it: pb::ResponseOp| match it.response {
        Some(PbResponse::ResponseRange(it)) => range_answer(it, None).map(Response::Range),
        Some(PbResponse::ResponsePut(it)) => put_answer(it, None).map(Response::Put),
        Some(PbResponse::ResponseDeleteRange(it)) => {
            delete_answer(it, None).map(Response::DeleteRange)
        }
        Some(PbResponse::ResponseTxn(it)) => txn_answer(it, None).map(Response::Txn),
        None => Err("an operation without a result".to_string()),
    };
    Ok(TxnAnswer {
        revision: revision(answer.header, by)?,
        succeeded: answer.succeeded,
        responses: answer.responses.into_iter().map(one).collect::<Result<_, _>>()?,
    })
}

/// Decodes the error that ended a call or a stream.
///
/// # Errors
/// No call of these clients can get this error.
pub fn decode_error(refused: &CallRefused) -> Result<Error, String> {
    match refused {
        CallRefused::Error(error) => self::error(*error),
        CallRefused::Malformed | CallRefused::Unimplemented(_) | CallRefused::Unknown(_) => {
            Err("malformed or not served, it says".to_string())
        }
    }
}

fn error(error: etcd::Error) -> Result<Error, String> {
    Ok(match error {
        etcd::Error::EmptyKey => Error::EmptyKey,
        etcd::Error::KeyNotFound => Error::KeyNotFound,
        etcd::Error::ValueProvided => Error::ValueProvided,
        etcd::Error::LeaseProvided => Error::LeaseProvided,
        etcd::Error::TooManyOps => Error::TooManyOps,
        etcd::Error::DuplicateKey => Error::DuplicateKey,
        etcd::Error::Compacted => Error::Compacted,
        etcd::Error::FutureRevision => Error::FutureRevision,
        etcd::Error::NoSpace => Error::NoSpace,
        etcd::Error::LeaseNotFound => Error::LeaseNotFound,
        etcd::Error::LeaseExists => Error::LeaseExists,
        etcd::Error::LeaseTtlTooLarge => Error::LeaseTtlTooLarge,
        etcd::Error::RequestTooLarge => Error::RequestTooLarge,
        etcd::Error::TooManyRequests => Error::TooManyRequests,
        etcd::Error::NoLeader => Error::NoLeader,
        etcd::Error::NotCapable => Error::NotCapable,
        etcd::Error::TimedOut => Error::TimedOut,
        etcd::Error::UserEmpty => Error::UserEmpty,
        etcd::Error::PermissionDenied => Error::PermissionDenied,
        etcd::Error::AuthOldRevision => Error::AuthOldRevision,
        etcd::Error::InvalidAuthToken => Error::InvalidAuthToken,
        error => return Err(format!("no call of these clients has the error {error:?}")),
    })
}

#[cfg(test)]
mod tests;
