//! Reads that Apply runs under the state's lock, right after a write of the same session.
//! [`LocalRead`] is a closed enum with a variant for each protocol that has such reads; only
//! ZooKeeper has. An answer is a whole frame of that protocol.

use std::sync::Arc;

use machine::{Identity, Machine};
use zk::ErrorCode;
use zk::limits::{REPLY_HEADER_BYTES, STAT_BYTES};
use zk::request::{ReadKind, ReadRequest};
use zk::response::{encode_read, result_bytes};

use crate::identities::{Identities, OwnedIdentity, borrow};
use crate::limits::SMALL_REPLY_BYTES;
use crate::reply_room::{HeldReply, ReplyRoom};

/// A read that follows a write of its own session which has no outcome yet.
#[derive(Clone, Debug)]
pub enum LocalRead {
    /// A read of ZooKeeper's tree.
    Zk {
        /// The xid of the request.
        xid: i32,
        /// The read itself.
        read: OwnedRead,
        /// The identities of the connection, for the ACL check.
        identities: Identities,
    },
}

/// A read with its own copy of the path, because the read waits: for its turn in a connection's
/// window, or for a write before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRead {
    /// The kind of the read.
    pub kind: ReadKind,
    /// The path of the znode.
    pub path: Box<str>,
    /// Whether to set a watch.
    pub watch: bool,
    /// Whether no ACL is looked at: the client has just changed what it reads.
    pub is_permitted: bool,
}

impl OwnedRead {
    /// A copy of a request's read.
    pub fn of(read: &ReadRequest<'_>) -> OwnedRead {
        let (kind, path, watch) = (read.kind, read.path.into(), read.watch);
        OwnedRead { kind, path, watch, is_permitted: false }
    }

    /// The identities that the read is run with, on a connection that has proved these.
    pub fn identities<'a>(&self, proved: &'a [OwnedIdentity]) -> Vec<Identity<'a>> {
        match self.is_permitted {
            true => vec![Identity { scheme: "super", id: "" }],
            false => borrow(proved),
        }
    }

    /// The read as a request of the protocol.
    pub fn borrow(&self) -> ReadRequest<'_> {
        ReadRequest { kind: self.kind, path: &self.path, watch: self.watch }
    }
}

/// The answer to a read that travelled with a write, or the read handed back.
#[derive(Clone, Debug)]
pub enum ReadAnswer {
    /// The read was run right after its write.
    Answered {
        /// The whole response frame.
        frame: Vec<u8>,
        /// The error code in the frame, which may be OK.
        outcome: ReadOutcome,
        /// Counts the frame's bytes in the room for replies; `None` for a small frame, which is not
        /// counted.
        held: Option<HeldReply>,
    },
    /// The read was not run: its reply is large, and the room for replies is full. The connection
    /// runs the read itself later.
    HandedBack,
}

impl ReadAnswer {
    /// Bytes of the frame.
    pub fn byte_count(&self) -> u64 {
        match self {
            ReadAnswer::Answered { frame, .. } => frame.len() as u64,
            ReadAnswer::HandedBack => 0,
        }
    }
}

/// The error code of a read, in the protocol that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The error code of the reply.
    Zk(ErrorCode),
}

impl LocalRead {
    /// Runs the read, or hands it back if its reply is large and there is no room for it.
    pub(crate) fn run(&self, machine: &Machine, replies: &Arc<ReplyRoom>) -> ReadAnswer {
        let LocalRead::Zk { xid, read, identities } = self;
        let read = read.borrow();
        let result = machine.zk().query(&zk::ops::query(&read), &borrow(identities));
        let bytes = result_bytes(&result) as usize;
        let is_large = bytes > SMALL_REPLY_BYTES;
        if !replies.takes(bytes as u64) {
            return ReadAnswer::HandedBack;
        }
        let error = result.as_ref().err().map_or(ErrorCode::OK, ErrorCode::of);
        let mut frame = Vec::with_capacity(bytes + REPLY_HEADER_BYTES + STAT_BYTES + 8);
        encode_read(*xid, machine.mark().zxid.0, read.kind, &result, &mut frame);
        let held = is_large.then(|| HeldReply::new(replies, frame.len()));
        ReadAnswer::Answered { frame, outcome: ReadOutcome::Zk(error), held }
    }
}
