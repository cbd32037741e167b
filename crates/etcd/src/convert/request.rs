//! Turns the messages of requests into commands and reads. A request that etcd refuses before it
//! appends to its log is refused here with etcd's error.

use machine::LeaseId;
use machine::etcd::command::{
    Bounds, Command, Compare, CompareTarget, DeleteRange, KeyRange, Op, Put, RangeOp, Relation,
    SortOrder, SortTarget, Txn,
};

use super::overlap;
use crate::Error;
use crate::limits::{TXN_DEPTH_MAX, TXN_OPS_TOTAL_MAX};
use crate::pb::etcdserverpb as pb;
use crate::pb::etcdserverpb::compare::{CompareResult, CompareTarget as PbTarget, TargetUnion};
use crate::pb::etcdserverpb::range_request::{SortOrder as PbOrder, SortTarget as PbSortTarget};
use crate::pb::etcdserverpb::request_op::Request;

/// The read that a request asks for. The caller must look at `serializable` itself.
pub fn range(request: &pb::RangeRequest) -> Result<RangeOp<'_>, Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    let order = match PbOrder::try_from(request.sort_order) {
        Ok(PbOrder::None) => SortOrder::None,
        Ok(PbOrder::Ascend) => SortOrder::Ascend,
        Ok(PbOrder::Descend) => SortOrder::Descend,
        Err(_) => return Err(Error::InvalidSortOption),
    };
    let target = match PbSortTarget::try_from(request.sort_target) {
        Ok(PbSortTarget::Key) => SortTarget::Key,
        Ok(PbSortTarget::Version) => SortTarget::Version,
        Ok(PbSortTarget::Create) => SortTarget::Create,
        Ok(PbSortTarget::Mod) => SortTarget::Mod,
        Ok(PbSortTarget::Value) => SortTarget::Value,
        Err(_) => return Err(Error::InvalidSortOption),
    };
    Ok(RangeOp {
        range: KeyRange { key: &request.key, end: &request.range_end },
        limit: request.limit,
        revision: request.revision,
        order,
        target,
        keys_only: request.keys_only,
        count_only: request.count_only,
        mod_revision: Bounds { min: request.min_mod_revision, max: request.max_mod_revision },
        create_revision: Bounds {
            min: request.min_create_revision,
            max: request.max_create_revision,
        },
    })
}

/// Why a read cannot be streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRefused {
    /// The request is wrong; a read that is not streamed would be refused as well.
    Error(Error),
    /// The read has an order or bounds of revisions, so it cannot be answered in pieces. The code
    /// is [`Code::Unimplemented`](grpc_code::Code::Unimplemented), the text etcd's.
    Unimplemented(&'static str),
}

impl From<Error> for StreamRefused {
    fn from(error: Error) -> StreamRefused {
        StreamRefused::Error(error)
    }
}

/// The read that a request for an answer in pieces asks for (`checkRangeStreamRequest` of etcd
/// 3.7).
pub fn range_stream(request: &pb::RangeRequest) -> Result<RangeOp<'_>, StreamRefused> {
    let op = range(request)?;
    let is_by_key = op.target == SortTarget::Key && op.order == SortOrder::Ascend;
    if op.order != SortOrder::None && !is_by_key {
        let text = "RangeStream does not support custom sort orders";
        return Err(StreamRefused::Unimplemented(text));
    }
    if op.mod_revision != Bounds::default() || op.create_revision != Bounds::default() {
        let text = "RangeStream does not support revision filters";
        return Err(StreamRefused::Unimplemented(text));
    }
    Ok(op)
}

/// The put that a request asks for.
pub fn put(request: &pb::PutRequest) -> Result<Put<'_>, Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(Error::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Error::LeaseProvided);
    }
    Ok(Put {
        key: &request.key,
        value: &request.value,
        lease: request.lease,
        prev_kv: request.prev_kv,
        ignore_value: request.ignore_value,
        ignore_lease: request.ignore_lease,
    })
}

/// The deletion that a request asks for.
pub fn delete_range(request: &pb::DeleteRangeRequest) -> Result<DeleteRange<'_>, Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    Ok(DeleteRange {
        range: KeyRange { key: &request.key, end: &request.range_end },
        prev_kv: request.prev_kv,
    })
}

/// The compaction that a request asks for. The caller must look at `physical` itself (whether the
/// answer waits for the disk).
pub fn compaction(request: &pb::CompactionRequest) -> Command<'static> {
    Command::Compact { revision: request.revision }
}

/// The grant of a lease that a request asks for.
pub fn grant(request: &pb::LeaseGrantRequest) -> Command<'static> {
    Command::Grant { lease: LeaseId(request.id), ttl_s: request.ttl }
}

/// The revocation of a lease that a request asks for.
pub fn revoke(request: &pb::LeaseRevokeRequest) -> Command<'static> {
    Command::Revoke { lease: LeaseId(request.id) }
}

/// The transaction that a request asks for. `ops_max` is `max-txn-ops`.
pub fn txn(request: &pb::TxnRequest, ops_max: usize) -> Result<Txn<'_>, Error> {
    let mut total_left = TXN_OPS_TOTAL_MAX;
    let txn = nested_txn(request, ops_max, TXN_DEPTH_MAX, &mut total_left)?;
    overlap::check(&txn)?;
    Ok(txn)
}

/// One transaction of the nest. `ops_left` is `max-txn-ops` less what the levels above have used;
/// `total_left` is how many comparisons and operations the rest of the request may have.
fn nested_txn<'a>(
    request: &'a pb::TxnRequest,
    ops_left: usize,
    depth_left: usize,
    total_left: &mut usize,
) -> Result<Txn<'a>, Error> {
    let counts = [request.compare.len(), request.success.len(), request.failure.len()];
    let [compares, success, failure] = counts;
    let ops_left =
        ops_left.checked_sub(compares.max(success).max(failure)).ok_or(Error::TooManyOps)?;
    for count in counts {
        *total_left = total_left.checked_sub(count).ok_or(Error::TooManyOps)?;
    }
    let compares = request.compare.iter().map(compare).collect::<Result<_, _>>()?;
    let mut branch = |ops: &'a [pb::RequestOp]| -> Result<Vec<Op<'a>>, Error> {
        ops.iter().map(|op| self::op(op, ops_left, depth_left, total_left)).collect()
    };
    Ok(Txn { compares, success: branch(&request.success)?, failure: branch(&request.failure)? })
}

fn op<'a>(
    op: &'a pb::RequestOp,
    ops_left: usize,
    depth_left: usize,
    total_left: &mut usize,
) -> Result<Op<'a>, Error> {
    Ok(match &op.request {
        // etcd answers an operation without a request with this error, too.
        None => return Err(Error::KeyNotFound),
        Some(Request::RequestRange(request)) => Op::Range(range(request)?),
        Some(Request::RequestPut(request)) => Op::Put(put(request)?),
        Some(Request::RequestDeleteRange(request)) => Op::DeleteRange(delete_range(request)?),
        Some(Request::RequestTxn(request)) => {
            let depth_left = depth_left.checked_sub(1).ok_or(Error::TooManyOps)?;
            Op::Txn(nested_txn(request, ops_left, depth_left, total_left)?)
        }
    })
}

/// A comparison that holds for every key, even a missing one: no version is below 0.
const ALWAYS: (Relation, CompareTarget<'static>) = (Relation::NotEqual, CompareTarget::Version(-1));

/// A comparison that holds for no key.
const NEVER: (Relation, CompareTarget<'static>) = (Relation::Less, CompareTarget::Version(0));

/// A comparison that holds for every key that exists.
const EXISTS: (Relation, CompareTarget<'static>) = (Relation::Greater, CompareTarget::Version(0));

/// Converts a comparison. An unknown number means what it means in etcd (`compareKV` in
/// `server/etcdserver/txn/txn.go`): a field with an unknown number equals its operand, and a
/// relation with an unknown number always holds, unless it compares the value of a missing key; no
/// comparison of such a value holds. The comparison stays in the command, as one that always or
/// never holds, because permissions are checked for its keys.
fn compare(request: &pb::Compare) -> Result<Compare<'_>, Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    let relation = match CompareResult::try_from(request.result) {
        Ok(CompareResult::Equal) => Some(Relation::Equal),
        Ok(CompareResult::Greater) => Some(Relation::Greater),
        Ok(CompareResult::Less) => Some(Relation::Less),
        Ok(CompareResult::NotEqual) => Some(Relation::NotEqual),
        Err(_) => None,
    };
    let (relation, target) = match (relation, target(request)) {
        (Some(relation), Some(target)) => (relation, target),
        (Some(Relation::Equal), None) => ALWAYS,
        (Some(_), None) => NEVER,
        (None, Some(CompareTarget::Value(_))) => EXISTS,
        (None, _) => ALWAYS,
    };
    let range = KeyRange { key: &request.key, end: &request.range_end };
    Ok(Compare { range, relation, target })
}

/// The field of a comparison, with its operand; `None` if the field's number is unknown. If the
/// request gives no operand for this field, the operand is 0 or an empty value.
fn target(request: &pb::Compare) -> Option<CompareTarget<'_>> {
    let operand = request.target_union.as_ref();
    Some(match (PbTarget::try_from(request.target).ok()?, operand) {
        (PbTarget::Version, Some(TargetUnion::Version(number))) => CompareTarget::Version(*number),
        (PbTarget::Version, _) => CompareTarget::Version(0),
        (PbTarget::Create, Some(TargetUnion::CreateRevision(number))) => {
            CompareTarget::Create(*number)
        }
        (PbTarget::Create, _) => CompareTarget::Create(0),
        (PbTarget::Mod, Some(TargetUnion::ModRevision(number))) => CompareTarget::Mod(*number),
        (PbTarget::Mod, _) => CompareTarget::Mod(0),
        (PbTarget::Lease, Some(TargetUnion::Lease(number))) => CompareTarget::Lease(*number),
        (PbTarget::Lease, _) => CompareTarget::Lease(0),
        (PbTarget::Value, Some(TargetUnion::Value(value))) => CompareTarget::Value(value),
        (PbTarget::Value, _) => CompareTarget::Value(&[]),
    })
}

#[cfg(test)]
mod tests;
