//! One client connection: its session, and its unanswered requests.

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

/// A request that is being decoded, before it has a place in the window.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// The connection.
    pub id: ConnectionId,
    pub xid: i32,
    /// The ticket of the request, which answers name.
    pub ticket: Ticket,
    /// Bytes that it counts as a large request.
    pub large_bytes: u32,
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

/// A connection's wait for room for its replies.
#[derive(Default)]
pub(super) struct RoomWait {
    /// Whether the Front's list of connections that wait for room for replies holds this one.
    is_parked: bool,
    /// When the request at the front of the window began to wait for room; `None` unless it waits.
    since_ms: Option<u64>,
    /// Small replies to reads that must come before reads travel again; set by a large reply.
    small_replies_wanted: u32,
}

impl RoomWait {
    /// Whether the connection waits for room.
    pub fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Puts the connection on the Front's list of those that wait. False if it is there already.
    pub fn park(&mut self) -> bool {
        !core::mem::replace(&mut self.is_parked, true)
    }

    /// The connection goes on.
    pub fn unpark(&mut self) {
        self.is_parked = false;
    }

    /// The request at the front of the window waits for room.
    pub fn begin(&mut self, now_ms: u64) {
        self.since_ms.get_or_insert(now_ms);
    }

    /// The request at the front of the window is done.
    pub fn end(&mut self) {
        self.since_ms = None;
    }

    /// Notes the size of the reply to a read. Reads travel behind writes only while replies are
    /// small, since nobody knows how large a reply will be when the read is handed over.
    pub fn note_reply(&mut self, bytes: usize) {
        if bytes > SMALL_REPLY_BYTES {
            self.note_large_reply();
        } else {
            self.small_replies_wanted = self.small_replies_wanted.saturating_sub(1);
        }
    }

    /// A reply was, or would have been, large.
    pub fn note_large_reply(&mut self) {
        self.small_replies_wanted = SMALL_REPLIES_TO_TRAVEL;
    }

    /// Whether the next reply to a read is likely to be small.
    pub fn expects_small(&self) -> bool {
        self.small_replies_wanted == 0
    }
}

/// A connection's wait for the credit that the commands of a Front share.
#[derive(Default)]
pub(super) struct Credit {
    /// Since when the Front's list of connections that wait for credit holds this one; `None`
    /// unless it does.
    waits_since_ms: Option<u64>,
    /// Bytes of input whose requests waited too long, and are refused.
    throttled_bytes: usize,
}

impl Credit {
    /// Whether the next request is refused, since it waited too long: it needs no credit.
    pub fn is_throttled(&self) -> bool {
        self.throttled_bytes > 0
    }

    /// Begins to wait. False if it waits already.
    pub fn wait(&mut self, now_ms: u64) -> bool {
        let begins = self.waits_since_ms.is_none();
        self.waits_since_ms.get_or_insert(now_ms);
        begins
    }

    /// Ends the wait. If it took longer than `wait_ms_max`, unless that is 0, the requests in these
    /// bytes of input are refused.
    pub fn end_wait(&mut self, now_ms: u64, wait_ms_max: u64, input_bytes: usize) {
        let waited_ms = self.waits_since_ms.take().map_or(0, |since_ms| now_ms - since_ms);
        if wait_ms_max > 0 && waited_ms > wait_ms_max {
            self.throttled_bytes = input_bytes;
        }
    }

    /// Whether the frame of `frame_bytes` bytes that was just taken from the input waited too long.
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
    /// Whether the Front's list of runnable connections holds this one.
    pub listed: bool,
    pub stats: Stats,
}

/// The empty buffers of the connection that last came to rest, for the next busy one.
#[derive(Default)]
pub(super) struct Spare {
    window: VecDeque<Slot>,
    output: Vec<u8>,
}

impl Connection {
    /// The connection of a client at `ip`, as `ip` identities have it; `peer` is its `host:port`.
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

    /// Whether more bytes may be read from the socket: always to complete a frame, and a little
    /// beyond a frame that is held back.
    pub fn wants_input(&self) -> bool {
        let reading = matches!(self.state, State::New | State::Attached);
        let stopped = self.is_refused() || self.output.is_full() || self.input_is_full();
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

    /// Removes the request at the front of the window.
    #[inline]
    pub fn pop_slot(&mut self) -> Option<Slot> {
        let slot = self.window.pop()?;
        if slot.kind.runs_here() {
            self.room.end();
        }
        Some(slot)
    }

    /// Takes the spare buffers if many requests came at once, which would make its own buffers grow
    /// step by step.
    pub fn take_spare(&mut self, spare: &mut Spare) {
        if self.input.len() >= SPARE_INPUT_BYTES_MIN {
            self.window.take_spare(&mut spare.window);
            self.output.take_spare(&mut spare.output);
        }
    }

    /// Gives back the buffers that only a busy connection needs, if nothing is under way: most
    /// connections are idle most of the time.
    pub fn rest(&mut self, spare: &mut Spare) {
        if !self.window.is_empty() || !self.input.is_empty() || self.output.held_bytes() > 0 {
            return;
        }
        self.input = BytesMut::new();
        self.window.give_spare(&mut spare.window);
        self.output.give_spare(&mut spare.output);
    }

    /// Whether the request at the front of the window has waited for room for as long as it may.
    /// Never if the client has replies unread: it would not read this one either.
    pub fn has_waited_for_room(&self, now_ms: u64) -> bool {
        let wait_ms = ROOM_WAIT_MS_MAX.min(u64::from(self.timeout_ms) / 6);
        let has_waited = |since_ms| now_ms >= since_ms + wait_ms;
        !self.output.is_slow() && self.room.since_ms.is_some_and(has_waited)
    }

    /// Whether a request of this connection waits for the state's lock.
    #[inline]
    pub fn is_runnable(&self) -> bool {
        if matches!(self.state, State::Greeting(_)) {
            return true;
        }
        let runs_here = self.window.front().is_some_and(SlotKind::runs_here);
        runs_here && !self.room.is_parked() && !self.output.is_full()
    }

    /// Whether the request at the front of the window has its place in the room for replies. Then
    /// it must not wait for room: it may be what fills it.
    pub fn holds_room(&self) -> bool {
        match self.window.front() {
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
