//! Holds the state of one client connection: its session, its unanswered requests and its buffers.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::BytesMut;
use machine::zk::tree::ZnodeId;
use machine::{ConnectionId, DescendantCount, SessionId};
use zk::request::{
    AddWatchMode, ConnectRequest, SetWatches2Request, SetWatchesRequest, WatcherType,
};
use zk::response::WriteForm;

use super::identity::Identity;
use super::long_reads::{List, SeveralReads};
use super::namespaces::Written;
use super::output::Output;
use super::pending::Pending;
use super::window::Window;
use crate::fronts::zk::limits::{
    INPUT_BYTES_MAX, ROOM_WAIT_MS_MAX, SMALL_REPLIES_TO_TRAVEL, SPARE_INPUT_BYTES_MIN,
};
use crate::identities::Identities;
use crate::limits::SMALL_REPLY_BYTES;
use crate::local_read::OwnedRead;
use crate::message::Ticket;
use crate::reply_room::HeldReply;
use crate::summary::Latency;

/// The stage of a connection.
pub(super) enum State {
    /// The first frame has not come yet.
    New,
    /// The client sent a four-letter word, and the driver has not answered it yet. Nothing more is
    /// read, and the connection is closed after the answer.
    Waiting,
    /// The client sent a connect request. It waits for the lock, to be checked against the state.
    Greeting(ConnectRequest),
    /// Loop was asked to open or attach the session. `since_ms` is when this began; it does not
    /// change if the session id is taken and the Front tries another.
    Connecting {
        connect: ConnectRequest,
        session: SessionId,
        password: [u8; 16],
        timeout_ms: u32,
        since_ms: u64,
    },
    /// The connection has a session.
    Attached,
    /// The connection is closed once the socket has taken the output. Nothing more is read.
    Closing,
}

/// Whether a connection is read-only. A client that connects while this member has no contact with
/// a leader, and that accepts this, gets a read-only connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOnly {
    /// The connection may read and write.
    No,
    /// Read-only, with a session that only this member knows.
    Local,
    /// Read-only, with a session that is in the replicated state.
    Global,
}

/// A request that is being decoded, before it has a slot in the window.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// The connection.
    pub id: ConnectionId,
    pub xid: i32,
    /// The request's ticket; the answers of Loop and Apply name it.
    pub ticket: Ticket,
    /// The bytes that the request counts for among large requests under way; 0 if it is not large.
    pub large_bytes: u32,
}

/// A decoded request that is not answered yet: an element of the window.
pub(super) struct Slot {
    pub xid: i32,
    /// The request's ticket; the answers of Loop and Apply name it.
    pub ticket: Ticket,
    /// When the request was decoded, on the driver's monotonic clock.
    pub received_ms: u64,
    pub kind: SlotKind,
    /// The bytes that the request counts for among large requests under way; 0 if it is not large.
    pub large_bytes: u32,
    /// Details of a write for the audit log and for slow requests; `None` unless one of the two is
    /// configured.
    pub pending: Option<Box<Pending>>,
    /// The bytes of a write by namespace, counted in the metrics once the write has succeeded.
    pub written: Written,
}

pub(super) enum SlotKind {
    /// A write in the batch or at Loop. Until the answer, its `bytes` count for the bound on the
    /// bytes of the connection's window.
    Write { form: WriteForm, bytes: usize },
    /// The end of the session, in the batch or at Loop.
    Close { bytes: usize },
    /// A request to change the servers, in the batch or at Loop.
    Reconfig { bytes: usize },
    /// A change of the servers that is open. It is answered when the change has ended.
    Reconfiguring,
    /// A read that Apply runs right after the write before it.
    TravellingRead(OwnedRead),
    /// A read that this Front runs under the lock, once it is at the front of the window.
    Read(OwnedRead),
    /// A list of children that takes several holds. This Front runs it in steps.
    List(Box<List>),
    /// Reads of one request. This Front runs them in steps, once they are at the front.
    MultiRead(Box<SeveralReads>),
    /// Watches to set again. This Front sets them in steps, once they are at the front; `done` is
    /// how many are set.
    SetWatches { asked: Arc<OwnedSetWatches>, done: usize },
    /// A request to add a watch. This Front runs the request once it is at the front.
    AddWatch { path: Box<str>, mode: AddWatchMode },
    /// A question whether the connection has a watch. This Front answers it once it is at the
    /// front.
    CheckWatches { path: Box<str>, watcher_type: WatcherType },
    /// A request to remove a watch. This Front runs the request once it is at the front.
    RemoveWatches { path: Box<str>, watcher_type: WatcherType },
    /// A count of descendants. This Front runs it in steps, once it is at the front.
    Count { path: Box<str>, so_far: DescendantCount },
    /// A search for the session's ephemerals. This Front runs it in steps, once it is at the front.
    Ephemerals(Box<AskedEphemerals>),
    /// The ephemerals found, as of this zxid. Answered once it is at the front.
    EphemeralsFound { paths: Vec<String>, zxid: i64 },
    /// A sync that was passed to Loop. `done` once Loop has answered; answered to the client once
    /// it is at the front.
    Sync { path: Option<Box<str>>, done: bool },
    /// A ping. It is answered once it is at the front.
    Ping,
    /// A `whoAmI`. It is answered once it is at the front, with the identities that the connection
    /// had when the client asked.
    WhoAmI(Identities),
    /// An auth packet that was accepted. It is answered once it is at the front.
    AuthAccepted,
    /// A token of a SASL exchange. It is answered with this token or error once it is at the front.
    /// With `close`, the answer ends the connection.
    Sasl { token: Option<Box<[u8]>>, error: zk::ErrorCode, close: bool },
    /// A request that has failed. It is answered with this error once it is at the front. With
    /// `close`, the answer ends the connection.
    Failed { error: zk::ErrorCode, zxid: Option<i64>, close: bool },
}

impl SlotKind {
    /// Whether the request is a command for the log.
    pub fn is_command(&self) -> bool {
        matches!(self, SlotKind::Write { .. } | SlotKind::Close { .. } | SlotKind::Reconfig { .. })
    }

    /// Whether this Front runs the request, under the state's lock, once it is at the front.
    #[inline]
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

/// A search for the ephemerals of the connection's own session with a path prefix.
pub(super) struct AskedEphemerals {
    pub prefix: Box<str>,
    /// The last znode that the search looked at, in the order of ids; `None` before the first.
    pub last: Option<ZnodeId>,
    pub found: BTreeSet<String>,
    /// Bytes of the paths found, as the reply encodes them.
    pub bytes: u64,
    /// The room for the reply, taken after the first step.
    pub held: Option<HeldReply>,
}

impl AskedEphemerals {
    pub fn new(prefix: &str) -> AskedEphemerals {
        let (prefix, found) = (prefix.into(), BTreeSet::new());
        AskedEphemerals { prefix, last: None, found, bytes: 0, held: None }
    }
}

/// Watches to be set again, in an owned form. There may be several hundred thousand, so all paths
/// are in one text.
pub(super) struct OwnedSetWatches {
    pub relative_zxid: i64,
    pub null_behind: bool,
    /// All paths, concatenated.
    text: String,
    /// For each path, its list in the request and its end in `text`.
    ends: Vec<(AskedWatch, usize)>,
}

/// The list of a setWatches request that a path was in.
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

    /// The number of paths.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The path at this index, and the list that it was in.
    pub fn get(&self, index: usize) -> (AskedWatch, &str) {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (kind, end) = self.ends[index];
        (kind, &self.text[start..end])
    }
}

/// The statistics of a connection that the word `cons` shows.
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

/// A connection's wait for room for its replies ([`super::room`]).
#[derive(Default)]
pub(super) struct RoomWait {
    /// Whether the connection is in the Front's list of parked connections.
    is_parked: bool,
    /// Since when the request at the front of the window waits for room, in ms; `None` if it does
    /// not.
    since_ms: Option<u64>,
    /// How many small replies the connection must still get before its reads travel again. A large
    /// reply sets it.
    small_replies_wanted: u32,
}

impl RoomWait {
    /// Whether the connection waits for room.
    pub fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Marks the connection as parked. Returns false if it was parked already.
    pub fn park(&mut self) -> bool {
        !core::mem::replace(&mut self.is_parked, true)
    }

    /// Marks the connection as not parked.
    pub fn unpark(&mut self) {
        self.is_parked = false;
    }

    /// Notes that the request at the front of the window waits for room.
    pub fn begin(&mut self, now_ms: u64) {
        self.since_ms.get_or_insert(now_ms);
    }

    /// Notes that the request at the front of the window is done.
    pub fn end(&mut self) {
        self.since_ms = None;
    }

    /// Notes the size of a reply to a read. Reads travel only while replies are small: when a read
    /// is handed over, nobody knows how large its reply will be.
    pub fn note_reply(&mut self, bytes: usize) {
        if bytes > SMALL_REPLY_BYTES {
            self.note_large_reply();
        } else {
            self.small_replies_wanted = self.small_replies_wanted.saturating_sub(1);
        }
    }

    /// Notes that a reply was large, or would have been.
    pub fn note_large_reply(&mut self) {
        self.small_replies_wanted = SMALL_REPLIES_TO_TRAVEL;
    }

    /// Whether the next reply to a read is expected to be small.
    pub fn expects_small(&self) -> bool {
        self.small_replies_wanted == 0
    }
}

/// A connection's wait for credit. The Front has credit while its connections together have fewer
/// unanswered commands than the bound.
#[derive(Default)]
pub(super) struct Credit {
    /// Since when the connection is in the Front's list of connections that wait for credit; `None`
    /// if it is not.
    waits_since_ms: Option<u64>,
    /// Bytes at the start of the input whose requests have waited too long for credit: they are
    /// refused.
    throttled_bytes: usize,
}

impl Credit {
    /// Whether the next request is refused because it has waited too long. It then needs no credit.
    pub fn is_throttled(&self) -> bool {
        self.throttled_bytes > 0
    }

    /// Begins a wait. Returns false if the connection waits already.
    pub fn wait(&mut self, now_ms: u64) -> bool {
        let begins = self.waits_since_ms.is_none();
        self.waits_since_ms.get_or_insert(now_ms);
        begins
    }

    /// Ends the wait. If it was longer than `wait_ms_max`, the requests in the `input_bytes` bytes
    /// of input are refused. With 0 for `wait_ms_max` they never are.
    pub fn end_wait(&mut self, now_ms: u64, wait_ms_max: u64, input_bytes: usize) {
        let waited_ms = self.waits_since_ms.take().map_or(0, |since_ms| now_ms - since_ms);
        if wait_ms_max > 0 && waited_ms > wait_ms_max {
            self.throttled_bytes = input_bytes;
        }
    }

    /// Takes `frame_bytes` bytes of a frame off the refused input. Returns whether the frame is
    /// refused.
    #[inline]
    pub fn takes_throttled(&mut self, frame_bytes: usize) -> bool {
        let throttled = self.throttled_bytes > 0;
        self.throttled_bytes = self.throttled_bytes.saturating_sub(frame_bytes);
        throttled
    }
}

pub(super) struct Connection {
    pub peer: String,
    pub state: State,
    pub input: BytesMut,
    pub output: Output,
    pub window: Window,
    pub room: RoomWait,
    pub credit: Credit,
    pub identity: Identity,
    pub session: Option<SessionId>,
    pub timeout_ms: u32,
    pub read_only: ReadOnly,
    /// Whether the connection is in the Front's list of runnable connections.
    pub listed: bool,
    pub stats: Stats,
}

/// Empty buffers of the connection that became idle last, for the next busy one.
#[derive(Default)]
pub(super) struct Spare {
    window: VecDeque<Slot>,
    output: Vec<u8>,
}

impl Connection {
    /// A new connection. `ip` is the client's address as in `ip` identities, `peer` its
    /// `host:port`.
    pub fn new(ip: &str, peer: String, established_ms: i64) -> Connection {
        let last_operation = "NA";
        Connection {
            peer,
            state: State::New,
            input: BytesMut::new(),
            output: Output::default(),
            window: Window::default(),
            room: RoomWait::default(),
            credit: Credit::default(),
            identity: Identity::new(ip),
            session: None,
            timeout_ms: 0,
            read_only: ReadOnly::No,
            listed: false,
            stats: Stats { established_ms, last_xid: -1, last_operation, ..Stats::default() },
        }
    }

    /// Whether the driver may read more bytes from the socket: enough to complete a frame, and a
    /// little beyond a frame that is held back.
    pub fn wants_input(&self) -> bool {
        let reading = matches!(self.state, State::New | State::Attached);
        let stopped = self.is_refused() || self.output.is_full() || self.input_is_full();
        reading && !stopped
    }

    /// Whether the input is full: it has a whole frame, which is held back, and at least
    /// [`INPUT_BYTES_MAX`] bytes.
    pub fn input_is_full(&self) -> bool {
        let first = self.input.first_chunk::<4>();
        let bytes = self.input.len();
        bytes >= INPUT_BYTES_MAX
            && first.is_some_and(|first| bytes - 4 >= u32::from_be_bytes(*first) as usize)
    }

    /// Whether the answer to the newest request will end the connection. Nothing after that request
    /// is decoded.
    #[inline]
    pub fn is_refused(&self) -> bool {
        let ends = |kind: &SlotKind| {
            matches!(
                kind,
                SlotKind::Failed { close: true, .. } | SlotKind::Sasl { close: true, .. }
            )
        };
        self.window.back().is_some_and(ends)
    }

    /// Removes the oldest request from the window.
    #[inline]
    pub fn pop_slot(&mut self) -> Option<Slot> {
        let slot = self.window.pop()?;
        if slot.kind.runs_here() {
            self.room.end();
        }
        Some(slot)
    }

    /// Takes the spare buffers if the input has many requests: otherwise its own buffers would grow
    /// step by step.
    pub fn take_spare(&mut self, spare: &mut Spare) {
        if self.input.len() >= SPARE_INPUT_BYTES_MIN {
            self.window.take_spare(&mut spare.window);
            self.output.take_spare(&mut spare.output);
        }
    }

    /// Gives the large buffers back if nothing is under way. Most connections are idle most of the
    /// time.
    pub fn rest(&mut self, spare: &mut Spare) {
        if !self.window.is_empty() || !self.input.is_empty() || self.output.held_bytes() > 0 {
            return;
        }
        self.input = BytesMut::new();
        self.window.give_spare(&mut spare.window);
        self.output.give_spare(&mut spare.output);
    }

    /// Whether the request at the front of the window has waited for room for as long as it may.
    /// Always false if the client has replies unread: it would not read a refusal either.
    pub fn has_waited_for_room(&self, now_ms: u64) -> bool {
        let wait_ms = ROOM_WAIT_MS_MAX.min(u64::from(self.timeout_ms) / 6);
        let has_waited = |since_ms| now_ms >= since_ms + wait_ms;
        !self.output.is_slow() && self.room.since_ms.is_some_and(has_waited)
    }

    /// Whether the connection can run something under the lock now: the check of its connect
    /// request, or the request at the front of its window.
    #[inline]
    pub fn is_runnable(&self) -> bool {
        if matches!(self.state, State::Greeting(_)) {
            return true;
        }
        let runs_here = self.window.front().is_some_and(SlotKind::runs_here);
        runs_here && !self.room.is_parked() && !self.output.is_full()
    }

    /// Whether the request at the front of the window has taken room for its reply already. Then it
    /// must not wait for room, because its own reply may be what fills the room.
    pub fn holds_room(&self) -> bool {
        match self.window.front() {
            Some(SlotKind::List(_)) => true,
            Some(SlotKind::MultiRead(several)) => several.is_held(),
            // The ephemerals of all sessions together are at most all znodes of the tree.
            Some(SlotKind::Ephemerals(asked)) => asked.held.is_some(),
            _ => false,
        }
    }

    /// Whether the client has asked for the end of its session.
    pub fn is_ending(&self) -> bool {
        self.window.iter().any(|slot| matches!(slot.kind, SlotKind::Close { .. }))
    }
}
