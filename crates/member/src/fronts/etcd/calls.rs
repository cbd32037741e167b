//! The calls of an etcd Front that are not done ([`Call`] has a variant for each thing that a call
//! waits for), and the steps that a read makes under the lock of the state ([`Read`]).

use std::sync::Arc;

use bytes::Bytes;
use etcd::convert::{self, AuthChange, AuthQuestion, Header, LeaseResponse};
use etcd::pb::etcdserverpb as pb;
use etcd::v2::Request;
use machine::LeaseId;
use machine::control::list_change::ChangeId;
use machine::etcd::Store;
use machine::etcd::auth::Access;
use machine::etcd::lease_list::LeaseList;
use machine::etcd::lease_read::{LeaseLook, LeaseRead};

use super::cluster::{ClusterCall, Moving};
use super::cost::Cost;
use super::credentials::{self, Asker, ClientIdentity};
use super::hash_call::HashCall;
use super::lease_call::{self, AskedLease, LeaseCall};
use super::member_change::MemberChange;
use super::method::{CallRefused, EtcdMethod, Need};
use super::passwords::PasswordCall;
use super::range::{Range, Stepped};
use super::reply::{Found, Reply};
use super::stream::Stream;
use super::txn_call::{TxnCall, TxnStepped};
use super::v2::V2Read;
use crate::lease::LeaseTime;
use crate::reply_room::ReplyRoom;

/// A call that is not done, by what it waits for.
pub(super) enum Call {
    /// A write, with its request, that waits until the level of the state allows it.
    Held {
        /// The method of the call.
        method: EtcdMethod,
        /// The bytes of the request.
        request: Bytes,
        /// The client.
        asker: Asker,
    },
    /// A write of etcd v2 that waits until the level of the state allows it.
    HeldV2(Box<Request>),
    /// A write whose user is not known yet. It waits for the lock to look the user up, or for a
    /// sync, that is, until this member has applied everything committed.
    Finding {
        /// The method of the call.
        method: EtcdMethod,
        /// The bytes of the request.
        request: Bytes,
        /// The client.
        client: Box<ClientIdentity>,
    },
    /// A transaction with writes whose cost is being counted under the lock.
    Counting {
        /// The bytes of the request.
        request: Bytes,
        /// The client.
        asker: Asker,
        /// The cost so far.
        cost: Cost,
    },
    /// A command that was handed to Loop, or is in the batch for it.
    Command {
        /// The bytes that the command counts for in the Front's credit for commands under way.
        bytes: usize,
        /// The action of the Front once the command is applied.
        then: Then,
        /// Whether the client waits no longer.
        is_cancelled: bool,
    },
    /// A read that waits for a sync, that is, until this member has applied everything committed.
    Confirming(Read, Asker),
    /// A question about a lease that was handed to Loop.
    Asking(AskedLease, Asker),
    /// A read, or a question about a lease, that waits for the lock of the state.
    Ready(Read, Asker),
    /// A streamed read between two pieces: the driver has the last piece, and the client has not
    /// taken it yet.
    Sent(Stream, Asker),
    /// A call that waits for work on a password. The `Arc` lives as long as the call, so the worker
    /// thread sees when nobody waits any more.
    Password(Box<(PasswordCall, Arc<()>)>),
    /// A transfer of leadership that waits until the target leads.
    Moving(Moving),
    /// A change of the members that is open, and waits until it has ended.
    Changing(ChangeId, Box<MemberChange>),
    /// A compaction that was applied, and waits until the memory of the compacted versions is
    /// freed.
    Pruning {
        /// The response.
        reply: Reply,
    },
}

/// The action of a Front once a command is applied.
pub(super) enum Then {
    /// The client gets the response.
    Reply,
    /// The response waits until the memory of the compacted versions is freed.
    Prune,
    /// The user gets a token. If users or roles have changed meanwhile, the password is checked
    /// anew.
    Token(Box<pb::AuthenticateRequest>),
    /// The call waits until the change of the members that it requested has ended.
    ChangeMembers(Box<MemberChange>),
}

/// A request to read whose form was checked.
pub(super) enum Read {
    Range(Range),
    Txn(Box<TxnCall>),
    Stream(Stream),
    /// A question about a lease. First its keys are looked at under the lock, to check the user's
    /// rights; then Loop gets the question.
    AskLease(LeaseCall, LeaseRead),
    /// The rest of an answer about a lease, after the leader has told the time that is left.
    TimeToLive {
        lease: LeaseId,
        with_keys: bool,
        /// The leader's answer; `None` if the lease does not exist.
        time: Option<LeaseTime>,
        /// The keys found so far.
        read: LeaseRead,
    },
    /// The list of all leases.
    Leases(LeaseList),
    /// A question about users and roles.
    Auth(AuthQuestion),
    /// A user that asks for a token. The password's hash is read under the lock, and another thread
    /// compares it.
    Authenticate(pb::AuthenticateRequest),
    /// A user whose password was right, at this revision of users and roles, with the signed token.
    /// The client gets the token if the revision is still the same under the lock.
    Signed(Box<(pb::AuthenticateRequest, u64, String)>),
    /// A change of users or roles that needs work before it is a command: its password must be
    /// hashed, or its form has a flaw. The user's right to it is checked first, under the lock.
    Change(Box<PendingChange>),
    /// A list of alarms.
    Alarms(pb::AlarmRequest),
    /// A hash of the keys, for `Hash` or `HashKV`.
    Hash(HashCall),
    /// A call about the members.
    Cluster(ClusterCall),
    /// The check of a right: whether a client may ask something of the member itself.
    Need(Need),
    /// A read of etcd v2's tree. Its result goes to [`EtcdOutput::v2_results`](super::EtcdOutput).
    V2(V2Read),
}

/// A change of users or roles that is not a command yet.
pub(super) struct PendingChange {
    /// The change, without its password.
    pub change: AuthChange,
    /// The password to hash, if the change sets one.
    pub password: Option<String>,
    /// The method and the request of the call, to begin it anew.
    pub kept: (EtcdMethod, Bytes),
}

/// How one step of a read under the lock ended, unless the read was refused.
pub(super) enum Ran {
    /// The read is done, or has the next piece of a stream.
    Found(Found),
    /// A range was read to its end. The Front sorts its result without the lock.
    Range,
    /// The read goes on in another hold of the lock.
    More,
    /// The read has not begun: there is no room for the references that it may find.
    NoRoom,
    /// The read is to be handed over: it ends in Loop or in work on a password.
    HandOver,
}

impl Read {
    /// Runs the read, or a step of it, and subtracts the number of keys that it looks at from
    /// `keys_left`.
    pub fn run(
        &mut self,
        (store, header): (&Store, Header),
        asker: &Asker,
        keys_left: &mut u64,
        room: &Arc<ReplyRoom>,
    ) -> Result<Ran, CallRefused> {
        let who = credentials::info(asker);
        self.check(store, who)?;
        if let Read::Txn(call) = self
            && !call.permit_step(store, who, keys_left)?
        {
            return Ok(Ran::More);
        }
        let found = match self {
            Read::Range(range) => {
                return Ok(match range.step(store, keys_left, room)? {
                    Stepped::Done => Ran::Range,
                    Stepped::More => Ran::More,
                    Stepped::NoRoom => Ran::NoRoom,
                });
            }
            Read::Txn(call) => match call.step(store, keys_left, room)? {
                TxnStepped::Done(done, held) => Found::Txn(done, held),
                TxnStepped::More => return Ok(Ran::More),
                TxnStepped::NoRoom => return Ok(Ran::NoRoom),
            },
            Read::Stream(stream) => match stream.step(store, keys_left)? {
                Some((piece, is_last)) => Found::Piece { piece, is_last },
                None => return Ok(Ran::More),
            },
            Read::AskLease(call, read) => {
                let look = call.look();
                let done = store.lease_read_step(who, call.lease(), look, read, keys_left)?;
                return Ok(if done { Ran::HandOver } else { Ran::More });
            }
            Read::Authenticate(_)
            | Read::Signed(_)
            | Read::Change(_)
            | Read::Cluster(_)
            | Read::V2(_) => {
                unreachable!("it is handed over")
            }
            Read::Auth(question) => Found::Encoded(question.answer(header, store, who)?),
            Read::Need(_) => Found::Encoded(Vec::new()),
            Read::Alarms(request) => Found::Encoded(convert::alarms(header, store, request)),
            Read::Hash(call) => match call.step(header, store, keys_left)? {
                None => return Ok(Ran::More),
                Some(response) => Found::Encoded(response),
            },
            Read::TimeToLive { lease, with_keys, time, read } => {
                // A user that asks for the keys must have the right to see them.
                let look = LeaseLook { access: Some(Access::Read), shows: true };
                if *with_keys && !store.lease_read_step(who, *lease, look, read, keys_left)? {
                    return Ok(Ran::More);
                }
                let keys = core::mem::take(&mut read.found);
                Found::Lease(lease_call::time_to_live(store, *lease, *time, keys))
            }
            Read::Leases(list) => {
                if !store.list_leases(who, list, keys_left)? {
                    return Ok(Ran::More);
                }
                let (revision, leases) = (store.revision(), core::mem::take(&mut list.found));
                Found::Lease(LeaseResponse::Leases { revision, leases })
            }
        };
        Ok(Ran::Found(found))
    }
}
