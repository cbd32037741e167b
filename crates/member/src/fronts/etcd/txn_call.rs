//! Runs a transaction that only reads, in three stages: it counts the transaction's cost, takes
//! room for the versions that the transaction may find, and reads. Counting and reading go in
//! steps, so that no hold of the state's lock is long.

use std::sync::Arc;

use etcd::Error;
use etcd::convert;
use etcd::limits::TXN_OPS_TOTAL_MAX;
use etcd::pb::etcdserverpb::request_op::Request;
use etcd::pb::etcdserverpb::{self as pb};
use machine::etcd::Store;
use machine::etcd::auth::{AuthInfo, Permitting};
use machine::etcd::command::Txn;
use machine::etcd::reply::{Refusal, TxnDone};
use machine::etcd::txn_read::TxnRead;
use self_cell::self_cell;

use super::cost::{Cost, Counted};
use super::method::CallRefused;
use super::range::hold;
use crate::reply_room::{HeldReply, ReplyRoom};

self_cell! {
    /// A request, and the transaction made of it, which borrows from the request.
    struct Converted {
        owner: pb::TxnRequest,
        #[covariant]
        dependent: Txn,
    }
}

/// A transaction that only reads.
pub(super) struct TxnCall {
    converted: Converted,
    stage: Stage,
    /// How far the check of its permissions has come. `permitted_by` is the revision of users and
    /// roles that this check refers to.
    permitting: Permitting,
    permitted_by: u64,
}

enum Stage {
    Counting(Cost),
    /// Waits for room for this many references to key versions.
    Waiting(u64),
    Reading(Box<TxnRead>, Option<HeldReply>),
    Done,
}

/// How one step of the read ended.
pub(super) enum TxnStepped {
    /// The read is done.
    Done(TxnDone, Option<HeldReply>),
    /// The read goes on in another hold of the lock.
    More,
    /// The read has not begun: the references that it may find have no room now.
    NoRoom,
}

impl TxnCall {
    /// Converts a request, and checks that its form is right for at most `ops_max` operations a
    /// level.
    ///
    /// # Errors
    /// The form is wrong.
    pub fn new(request: pb::TxnRequest, ops_max: usize) -> Result<TxnCall, Error> {
        let converted = Converted::try_new(request, |request| convert::txn(request, ops_max))?;
        let stage = Stage::Counting(Cost::of(converted.borrow_dependent()));
        let (permitting, permitted_by) = (Permitting::default(), 0);
        Ok(TxnCall { converted, stage, permitting, permitted_by })
    }

    /// Begins anew, because another state has replaced the old one.
    pub fn on_replaced(&mut self) {
        self.stage = Stage::Counting(Cost::of(self.converted.borrow_dependent()));
        self.permitting = Permitting::default();
    }

    /// Checks the user's permissions further, and subtracts the cost from `keys_left`. Returns
    /// whether everything is permitted, or `false` if another step must follow. If users or roles
    /// have changed, the check begins anew.
    ///
    /// # Errors
    /// Permissions are enforced, and the user lacks the right to a part.
    pub fn permit_step(
        &mut self,
        store: &Store,
        who: Option<AuthInfo<'_>>,
        keys_left: &mut u64,
    ) -> Result<bool, Refusal> {
        let auth = store.auth();
        if !auth.is_enabled() {
            return Ok(true);
        }
        if self.permitted_by != auth.revision() {
            self.permitting = Permitting::default();
            self.permitted_by = auth.revision();
        }
        let txn = self.converted.borrow_dependent();
        store.permit_read_step(who, txn, &mut self.permitting, keys_left)
    }

    /// Counts or reads further, and subtracts the number of keys that it looks at from `keys_left`.
    ///
    /// # Errors
    /// The transaction costs too much, reads at a revision that cannot be read, or finds more than
    /// an answer may have.
    pub fn step(
        &mut self,
        store: &Store,
        keys_left: &mut u64,
        room: &Arc<ReplyRoom>,
    ) -> Result<TxnStepped, CallRefused> {
        loop {
            match &mut self.stage {
                Stage::Counting(cost) => match cost.step(store, keys_left) {
                    Counted::More => return Ok(TxnStepped::More),
                    Counted::TooMany => return Err(Error::RequestTooLarge.into()),
                    Counted::Within(found_max) => self.stage = Stage::Waiting(found_max),
                },
                Stage::Waiting(found_max) => match hold(room, *found_max) {
                    None => return Ok(TxnStepped::NoRoom),
                    Some(held) => self.stage = Stage::Reading(Box::default(), held),
                },
                Stage::Reading(read, _) => {
                    let txn = self.converted.borrow_dependent();
                    let done = store.txn_read_step(txn, read, keys_left);
                    if !done.map_err(Error::from)? {
                        return Ok(TxnStepped::More);
                    }
                    return Ok(match core::mem::replace(&mut self.stage, Stage::Done) {
                        Stage::Reading(read, held) => TxnStepped::Done(read.finish(), held),
                        _ => unreachable!("the stage was just looked at"),
                    });
                }
                Stage::Done => return Ok(TxnStepped::More),
            }
        }
    }
}

/// Whether a request has no write in any branch, nor in a branch of a nested transaction. Such a
/// transaction is a read.
pub(super) fn is_read_only(request: &pb::TxnRequest) -> bool {
    request.success.iter().chain(&request.failure).all(|op| match &op.request {
        Some(Request::RequestPut(_) | Request::RequestDeleteRange(_)) => false,
        Some(Request::RequestTxn(request)) => is_read_only(request),
        Some(Request::RequestRange(_)) | None => true,
    })
}

/// The transaction of a request whose form was checked when it came. It is not checked against the
/// setting for operations again, because that may have changed since.
pub(super) fn checked_txn(request: &pb::TxnRequest) -> Txn<'_> {
    convert::txn(request, TXN_OPS_TOTAL_MAX).expect("the request was checked when it came")
}
