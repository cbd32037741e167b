//! One client connection: its bytes in and out, its session, and the window of requests that are
//! not yet answered.
//!
//! The window keeps the order of a session exact. Requests enter at its back as they are decoded
//! and leave at its front as they are answered. A request that is done behind an unanswered one
//! waits in the window.

use crate::message::Ticket;
use crate::summary::Latency;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::BytesMut;
use machine::zk::tree::ZnodeId;
use machine::{DescendantCount, SessionId};
use zk::request::{
    AddWatchMode, ConnectRequest, SetWatches2Request, SetWatchesRequest, WatcherType,
};
use zk::response::WriteForm;
use zk::sasl::Exchange;

use super::long_reads::{List, SeveralReads};
use super::namespaces::Written;
use super::pending::Pending;
use crate::identities::Identities;
use crate::limits::{
    INPUT_BYTES_MAX, OUTPUT_BYTES_MAX, OUTPUT_KEPT_BYTES, OUTPUT_KEPT_IDLE_BYTES, ROOM_WAIT_MS_MAX,
    SMALL_REPLIES_TO_TRAVEL, SMALL_REPLY_BYTES, SPARE_INPUT_BYTES_MIN, WINDOW_KEPT_REQUESTS,
};
use crate::local_read::OwnedRead;
use crate::reply_room::HeldReply;

/// The state of a connection.
pub(super) enum State {
    /// The first frame is not read yet.
    New,
    /// A four-letter word waits for its answer. Nothing is read until then, and the connection is
    /// closed after it.
    Waiting,
    /// Its connect request waits for the lock, to be checked against the state.
    Greeting(ConnectRequest),
    /// Its session is being opened or attached. `since_ms` says since when it waits, and stays if
    /// the session id was taken and another is tried.
    Connecting {
        connect: ConnectRequest,
        session: SessionId,
        password: [u8; 16],
        timeout_ms: u32,
        since_ms: u64,
    },
    /// The connection speaks for a session.
    Attached,
    /// Nothing is read any more; the connection is closed once its output is taken.
    Closing,
}

/// Whether a connection is read-only, since this member has no contact to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOnly {
    /// The connection may read and write.
    No,
    /// Read-only, with a session that only this member knows.
    Local,
    /// Read-only, with a session of the ensemble.
    Global,
}

/// A request that was decoded and not yet answered.
pub(super) struct Slot {
    pub xid: i32,
    /// The ticket of the request, which answers name.
    pub ticket: Ticket,
    /// When it was decoded, in the driver's ms.
    pub received_ms: u64,
    pub kind: SlotKind,
    /// Bytes that it counts as a large request.
    pub large_bytes: u32,
    /// Details of a write for the audit log and for slow requests, if they are kept.
    pub pending: Option<Box<Pending>>,
    /// The counts of a write, for the metrics, once it has succeeded.
    pub written: Written,
}

pub(super) enum SlotKind {
    /// Handed over. Its `bytes` count against the connection until it is answered.
    Write { form: WriteForm, bytes: usize },
    /// Handed over, as the end of the session.
    Close { bytes: usize },
    /// A read that travels with the write before it.
    TravellingRead(OwnedRead),
    /// Runs here, once it is at the front.
    Read(OwnedRead),
    /// A long list of children. Runs here in steps.
    List(Box<List>),
    /// Runs here in steps, once it is at the front.
    MultiRead(Box<SeveralReads>),
    /// Runs here in steps, once it is at the front; so many of its paths are done.
    SetWatches { asked: Arc<OwnedSetWatches>, done: usize },
    /// Runs here, once it is at the front.
    AddWatch { path: Box<str>, mode: AddWatchMode },
    /// Runs here, once it is at the front.
    CheckWatches { path: Box<str>, watcher_type: WatcherType },
    /// Runs here, once it is at the front.
    RemoveWatches { path: Box<str>, watcher_type: WatcherType },
    /// Runs here in steps, once it is at the front.
    Count { path: Box<str>, so_far: DescendantCount },
    /// Runs here in steps, once it is at the front.
    Ephemerals(Box<AskedEphemerals>),
    /// The paths of a session's ephemerals as of this zxid. Answered when its turn comes.
    EphemeralsFound { paths: Vec<String>, zxid: i64 },
    /// Handed over; `done` once it is answered. It leaves once it is at the front.
    Sync { path: Option<Box<str>>, done: bool },
    /// Answered when its turn comes.
    Ping,
    /// Answered when its turn comes, with the identities of when it was asked.
    WhoAmI(Identities),
    /// Answered when its turn comes.
    AuthAccepted,
    /// Answered with this token or this error and, maybe, the end of the connection when its turn
    /// comes.
    Sasl { token: Option<Box<[u8]>>, error: zk::ErrorCode, close: bool },
    /// Answered with this error and, maybe, the end of the connection when its turn comes.
    Failed { error: zk::ErrorCode, zxid: Option<i64>, close: bool },
}

impl SlotKind {
    /// Whether it was handed over as a command.
    pub fn is_command(&self) -> bool {
        matches!(self, SlotKind::Write { .. } | SlotKind::Close { .. })
    }

    /// Whether this Front runs it, under the state's lock, once it is at the front.
    pub fn runs_here(&self) -> bool {
        matches!(
            self,
            SlotKind::Read(_)
                | SlotKind::List(_)
                | SlotKind::MultiRead(_)
                | SlotKind::SetWatches { .. }
                | SlotKind::AddWatch { .. }
                | SlotKind::CheckWatches { .. }
                | SlotKind::RemoveWatches { .. }
                | SlotKind::Count { .. }
                | SlotKind::Ephemerals(_)
        )
    }
}

/// The ephemerals of the own session whose paths begin with a prefix, as far as they were looked
/// for.
pub(super) struct AskedEphemerals {
    pub prefix: Box<str>,
    /// The last that was looked at, in the order of their ids.
    pub last: Option<ZnodeId>,
    pub found: BTreeSet<String>,
    /// Bytes of the paths found, as the reply has them.
    pub bytes: u64,
    /// Their place in the room for replies.
    pub held: Option<HeldReply>,
}

impl AskedEphemerals {
    pub fn new(prefix: &str) -> AskedEphemerals {
        let (prefix, found) = (prefix.into(), BTreeSet::new());
        AskedEphemerals { prefix, last: None, found, bytes: 0, held: None }
    }
}

/// Watches to be set again, owned: up to some hundred thousand, in one text.
pub(super) struct OwnedSetWatches {
    pub relative_zxid: i64,
    pub null_behind: bool,
    /// All paths, one behind the other.
    text: String,
    /// The kind of each, and the end of its path.
    ends: Vec<(AskedWatch, usize)>,
}

/// The list of a setWatches that a path is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedWatch {
    Data,
    Exist,
    Child,
    Persistent,
    PersistentRecursive,
}

impl OwnedSetWatches {
    pub fn of(request: &SetWatchesRequest<'_>) -> OwnedSetWatches {
        let SetWatchesRequest { relative_zxid, data, exist, child, null_behind } = request;
        let (relative_zxid, null_behind) = (*relative_zxid, *null_behind);
        let (text, ends) = (String::new(), Vec::new());
        let mut owned = OwnedSetWatches { relative_zxid, null_behind, text, ends };
        owned.add(AskedWatch::Data, data);
        owned.add(AskedWatch::Exist, exist);
        owned.add(AskedWatch::Child, child);
        owned
    }

    pub fn of_all(request: &SetWatches2Request<'_>) -> OwnedSetWatches {
        let mut owned = OwnedSetWatches::of(&request.watches);
        owned.add(AskedWatch::Persistent, &request.persistent);
        owned.add(AskedWatch::PersistentRecursive, &request.persistent_recursive);
        owned
    }

    fn add(&mut self, kind: AskedWatch, paths: &[&str]) {
        self.ends.reserve(paths.len());
        for path in paths {
            self.text.push_str(path);
            self.ends.push((kind, self.text.len()));
        }
    }

    /// How many paths there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// A path, and its list.
    pub fn get(&self, index: usize) -> (AskedWatch, &str) {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (kind, end) = self.ends[index];
        (kind, &self.text[start..end])
    }
}

/// The statistics of a connection that `cons` shows.
#[derive(Default)]
pub(super) struct Stats {
    pub received: u64,
    pub sent: u64,
    pub latency: Latency,
    pub last_operation: &'static str,
    pub last_xid: i64,
    pub last_zxid: i64,
    pub last_response_ms: i64,
    pub established_ms: i64,
}

pub(super) struct Connection {
    pub peer: String,
    pub state: State,
    pub input: BytesMut,
    pub output: Vec<u8>,
    /// Bytes of `output` that the socket has taken.
    pub output_start: usize,
    /// Bytes of `output` as they count in the Front's sum; updated with each change of it.
    pub output_counted: usize,
    /// Bytes that the socket has taken since the connection was accepted.
    pub taken_bytes: u64,
    /// The value of `taken_bytes` when slow clients were last looked for; none if it had no large
    /// replies unread then.
    pub taken_before: Option<u64>,
    /// Whether the Front's list of connections that wait for room for replies holds this one.
    pub parked: bool,
    /// When the request at the front of the window began to wait for room; none: it does not wait.
    pub wants_room_since_ms: Option<u64>,
    /// Small replies to reads that must come before reads travel again; set by a large reply.
    pub small_replies_wanted: u32,
    pub window: VecDeque<Slot>,
    /// Bytes of commands in the window.
    pub window_bytes: usize,
    /// Reads in the window that run here.
    pub local_reads: usize,
    /// Reads in the window that travel with a write.
    pub travelling_reads: usize,
    /// Syncs in the window that are not answered.
    pub open_syncs: usize,
    /// The ticket of the next request.
    pub next_ticket: Ticket,
    pub session: Option<SessionId>,
    pub timeout_ms: u32,
    /// The state of the client's SASL exchange.
    pub sasl: Exchange,
    pub identities: Identities,
    /// The identities, encoded as a batch holds them.
    pub identity_bytes: Vec<u8>,
    pub read_only: ReadOnly,
    /// Whether the Front's list of runnable connections holds this one.
    pub listed: bool,
    /// Whether the Front's list of connections with output holds this one.
    pub dirty: bool,
    /// Since when the Front's list of connections that wait for credit holds this one; none: it
    /// does not.
    pub starved_since_ms: Option<u64>,
    /// Bytes of input whose requests waited too long for credit, and are refused.
    pub throttled_bytes: usize,
    pub stats: Stats,
}

/// The empty buffers of the connection that last came to rest, for the next busy one.
#[derive(Default)]
pub(super) struct Spare {
    window: VecDeque<Slot>,
    output: Vec<u8>,
}

impl Connection {
    /// Whether the frame of `frame_bytes` bytes that was just taken from the input waited too long
    /// for credit.
    pub fn takes_throttled(&mut self, frame_bytes: usize) -> bool {
        let throttled = self.throttled_bytes > 0;
        self.throttled_bytes = self.throttled_bytes.saturating_sub(frame_bytes);
        throttled
    }

    /// Whether more bytes may be read from the socket: always to complete a frame, and a little
    /// beyond a frame that is held back.
    pub fn wants_input(&self) -> bool {
        let reading = matches!(self.state, State::New | State::Attached);
        let stopped = self.is_refused() || self.output_is_full() || self.input_is_full();
        reading && !stopped
    }

    /// Whether no more input is read: it holds a whole frame, which is held back, and at least
    /// [`INPUT_BYTES_MAX`] bytes.
    pub fn input_is_full(&self) -> bool {
        let first = self.input.first_chunk::<4>();
        let bytes = self.input.len();
        bytes >= INPUT_BYTES_MAX
            && first.is_some_and(|first| bytes - 4 >= u32::from_be_bytes(*first) as usize)
    }

    /// Whether the answer to the last request will end the connection, so that nothing behind it is
    /// read.
    pub fn is_refused(&self) -> bool {
        let last = self.window.back().map(|slot| &slot.kind);
        let ends = |kind: &SlotKind| {
            matches!(
                kind,
                SlotKind::Failed { close: true, .. } | SlotKind::Sasl { close: true, .. }
            )
        };
        last.is_some_and(ends)
    }

    /// Output that the socket has not taken.
    pub fn pending_output(&self) -> &[u8] {
        &self.output[self.output_start..]
    }

    /// Bytes of output that the socket has not taken.
    pub fn output_bytes(&self) -> usize {
        self.output.len() - self.output_start
    }

    /// The socket took `count` bytes more.
    pub fn take_output(&mut self, count: usize) {
        self.output_start += count;
        self.taken_bytes += count as u64;
        if self.output_start == self.output.len() {
            self.drop_output();
        } else if self.output_start >= OUTPUT_KEPT_BYTES.max(self.output_bytes()) {
            // A client may stay behind for ever, so the memory of what it took is freed meanwhile.
            self.output.drain(..self.output_start);
            self.output.shrink_to(OUTPUT_KEPT_BYTES);
            self.output_start = 0;
        }
    }

    /// Takes the spare buffers if many requests came at once, which would make its own buffers grow
    /// step by step.
    pub fn take_spare(&mut self, spare: &mut Spare) {
        if self.input.len() < SPARE_INPUT_BYTES_MIN {
            return;
        }
        if self.window.is_empty() && self.window.capacity() <= WINDOW_KEPT_REQUESTS {
            self.window = core::mem::take(&mut spare.window);
        }
        if self.output.is_empty() && self.output.capacity() <= OUTPUT_KEPT_IDLE_BYTES {
            self.output = core::mem::take(&mut spare.output);
        }
    }

    /// Gives back the buffers that only a busy connection needs, if nothing is under way: most
    /// connections are idle most of the time.
    pub fn rest(&mut self, spare: &mut Spare) {
        if !self.window.is_empty() || !self.input.is_empty() || !self.output.is_empty() {
            return;
        }
        self.input = BytesMut::new();
        if self.window.capacity() > WINDOW_KEPT_REQUESTS {
            spare.window = core::mem::take(&mut self.window);
        }
        if self.output.capacity() > OUTPUT_KEPT_IDLE_BYTES {
            spare.output = core::mem::take(&mut self.output);
        }
    }

    /// Forgets all output, keeping a buffer of ordinary size.
    pub fn drop_output(&mut self) {
        self.output_start = 0;
        if self.output.capacity() > OUTPUT_KEPT_BYTES {
            self.output = Vec::new();
        } else {
            self.output.clear();
        }
    }

    /// Whether the client has so many bytes unread that no reply is to be added.
    pub fn output_is_full(&self) -> bool {
        self.output_bytes() >= OUTPUT_BYTES_MAX
    }

    /// Whether the client has so many bytes unread that it is not served while the room for replies
    /// is full.
    pub fn is_slow_reader(&self) -> bool {
        self.output_bytes() >= SMALL_REPLY_BYTES
    }

    /// Whether the request at the front of the window has waited for room for as long as it may.
    /// Never if the client has replies unread: it would not read this one either.
    pub fn has_waited_for_room(&self, now_ms: u64) -> bool {
        let wait_ms = ROOM_WAIT_MS_MAX.min(u64::from(self.timeout_ms) / 6);
        let has_waited = |since_ms| now_ms >= since_ms + wait_ms;
        !self.is_slow_reader() && self.wants_room_since_ms.is_some_and(has_waited)
    }

    /// Notes the size of the reply to a read. Reads travel behind writes only while replies are
    /// small, since nobody knows how large a reply will be when the read is handed over.
    pub fn note_reply(&mut self, bytes: usize) {
        if bytes > SMALL_REPLY_BYTES {
            self.small_replies_wanted = SMALL_REPLIES_TO_TRAVEL;
        } else {
            self.small_replies_wanted = self.small_replies_wanted.saturating_sub(1);
        }
    }

    /// Whether a request of this connection waits for the state's lock.
    pub fn is_runnable(&self) -> bool {
        if matches!(self.state, State::Greeting(_)) {
            return true;
        }
        if self.parked {
            return false;
        }
        let first = self.window.front();
        first.is_some_and(|slot| slot.kind.runs_here()) && !self.output_is_full()
    }

    /// Whether the request at the front of the window has its place in the room for replies. Then
    /// it must not wait for room: it may be what fills it.
    pub fn holds_room(&self) -> bool {
        match self.window.front().map(|slot| &slot.kind) {
            Some(SlotKind::List(_)) => true,
            Some(SlotKind::MultiRead(several)) => several.is_held(),
            // All sessions together have no more paths than the tree.
            Some(SlotKind::Ephemerals(asked)) => asked.held.is_some(),
            _ => false,
        }
    }

    /// Whether the end of the session is under way.
    pub fn is_ending(&self) -> bool {
        self.window.iter().any(|slot| matches!(slot.kind, SlotKind::Close { .. }))
    }
}
