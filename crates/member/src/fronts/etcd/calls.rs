//! The calls of a Front, by what they wait for.

use std::sync::Arc;

use bytes::Bytes;
use etcd::convert::{self, AuthChange, AuthQuestion, Header, LeaseResponse};
use etcd::pb::etcdserverpb as pb;
use etcd::v2::Request;
use machine::LeaseId;
use machine::etcd::Store;
use machine::etcd::auth::Access;
use machine::etcd::lease_list::LeaseList;
use machine::etcd::lease_read::{LeaseLook, LeaseRead};

use super::cluster::{ClusterCall, Moving};
use super::cost::Cost;
use super::credentials::{self, Asker, Client};
use super::hash_call::HashCall;
use super::lease_call::{self, AskedLease, LeaseCall};
use super::method::{CallRefused, EtcdMethod, Need};
use super::passwords::PasswordCall;
use super::range::{Range, Stepped};
use super::reply::{Found, Reply};
use super::stream::Stream;
use super::txn_call::{TxnCall, TxnStepped};
use super::v2::V2Read;
use crate::lease::LeaseTime;
use crate::reply_room::ReplyRoom;

/// A call that is not done.
pub(super) enum Call {
    /// A write that waits until the level of the state allows it, with its request.
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
    /// A write that waits for the lock, or until this member has applied what was committed: its
    /// user is not known yet.
    Finding {
        /// The method of the call.
        method: EtcdMethod,
        /// The bytes of the request.
        request: Bytes,
        /// The client.
        client: Box<Client>,
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
    /// A command that was handed over.
    Command {
        /// Bytes of credit that it holds.
        bytes: usize,
        /// What follows when it was applied.
        then: Then,
        /// Whether nobody waits for the result any more.
        is_cancelled: bool,
    },
    /// A read that waits until this member has applied what was committed.
    Confirming(Read, Asker),
    /// A question about a lease that was handed over.
    Asking(AskedLease, Asker),
    /// A read, or a question about a lease, that waits for the lock.
    Ready(Read, Asker),
    /// A streamed read whose newest piece the driver has, until the client has taken it.
    Sent(Stream, Asker),
    /// A call that waits for work on a password, and what tells the driver that it does.
    Password(Box<(PasswordCall, Arc<()>)>),
    /// A call that waits until another member leads.
    Moving(Moving),
    /// A compaction that is done, and waits until the memory is freed.
    Pruning {
        /// The response.
        reply: Reply,
    },
}

/// What follows a command.
pub(super) enum Then {
    /// The response.
    Reply,
    /// A compaction waits until the memory is freed.
    Prune,
    /// The user that asked for a token gets one, or asks again if users and roles have changed.
    Token(Box<pb::AuthenticateRequest>),
}

/// A request to read. Its form was checked.
pub(super) enum Read {
    Range(Range),
    Txn(Box<TxnCall>),
    Stream(Stream),
    /// A question about a lease, which is handed over under the lock once its keys were looked at.
    AskLease(LeaseCall, LeaseRead),
    /// The rest of an answer about a lease.
    TimeToLive {
        lease: LeaseId,
        with_keys: bool,
        /// What the leader has said.
        time: Option<LeaseTime>,
        /// The keys so far.
        read: LeaseRead,
    },
    /// All leases.
    Leases(LeaseList),
    /// A question about users and roles.
    Auth(AuthQuestion),
    /// A user that asks for a token, handed over under the lock.
    Authenticate(pb::AuthenticateRequest),
    /// A user whose password was right at that revision of users and roles, with its signed token;
    /// handed over under the lock.
    Signed(Box<(pb::AuthenticateRequest, u64, String)>),
    /// A change whose password is to be hashed, or that cannot be a command as it is. The right to
    /// it is asked for under the lock first.
    Change(Box<PendingChange>),
    /// A question about alarms.
    Alarms(pb::AlarmRequest),
    /// A hash of the keys.
    Hash(HashCall),
    /// A call about the members.
    Cluster(ClusterCall),
    /// Whether a client may ask something of the member itself.
    Need(Need),
    /// A read of etcd v2's tree, which has a result of its own.
    V2(V2Read),
}

/// A change of users and roles that is not a command yet.
pub(super) struct PendingChange {
    /// The change, without its password.
    pub change: AuthChange,
    /// The password that is to be hashed, if the change sets one.
    pub password: Option<String>,
    /// The method and the bytes of the call, so that it can begin anew.
    pub kept: (EtcdMethod, Bytes),
}

/// How a turn of a read under the lock ended, if it is not refused.
pub(super) enum Ran {
    /// With the result, or the next piece of it.
    Found(Found),
    /// A range was read to its end; its result is made without the lock.
    Range,
    /// It goes on in another hold.
    More,
    /// It has not begun, since there is no room for what it may find.
    NoRoom,
    /// It is handed over now.
    HandOver,
}

impl Read {
    /// Runs the read, or a step of it, and takes the keys that it looks at off `keys_left`.
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
