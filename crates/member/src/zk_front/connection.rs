//! One client connection: its bytes in and out, its session, and the window of requests that are
//! not yet answered.
//!
//! The window keeps the order of a session exact. Requests enter at its back as they are decoded
//! and leave at its front as they are answered; what is answered behind an unanswered one waits in
//! the window.

use crate::message::Ticket;
use crate::summary::Latency;
use std::collections::VecDeque;

use bytes::BytesMut;
use machine::{DescendantCount, SessionId};
use zk::request::{
    AddWatchMode, ConnectRequest, SetWatches2Request, SetWatchesRequest, WatcherType,
};
use zk::response::WriteForm;
use zk::sasl::Exchange;

use super::namespaces::Written;
use super::pending::Pending;
use crate::identities::Identities;
use crate::limits::{
    INPUT_BYTES_MAX, OUTPUT_BYTES_MAX, OUTPUT_KEPT_BYTES, OUTPUT_KEPT_IDLE_BYTES, ROOM_WAIT_MS_MAX,
    SMALL_REPLIES_TO_TRAVEL, SMALL_REPLY_BYTES, SPARE_INPUT_BYTES_MIN, WINDOW_KEPT_REQUESTS,
};
use crate::local_read::OwnedRead;

/// Which state a connection is in.
pub(super) enum State {
    /// Nothing read yet.
    New,
    /// Nothing is read until a four-letter word is answered, after which it is closed.
    Waiting,
    /// Its connect request waits for the lock, to be held against the state.
    Greeting(ConnectRequest),
    /// Its session is being opened or attached. `since_ms` says since when it asks for one, and
    /// stays where the session id was taken and another is tried.
    Connecting {
        connect: ConnectRequest,
        session: SessionId,
        password: [u8; 16],
        timeout_ms: u32,
        since_ms: u64,
    },
    /// Speaks for a session.
    Attached,
    /// Nothing is read any more; closed once its output is taken.
    Closing,
}

/// Whether a connection is served reads only, without contact to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOnly {
    /// It is served all.
    No,
    /// Its session is of here, and of nowhere else.
    Local,
    /// Its session is one of the ensemble.
    Global,
}

/// A request that was decoded and not yet answered.
pub(super) struct Slot {
    pub xid: i32,
    /// Names the request where it is handed over.
    pub ticket: Ticket,
    /// When it was decoded, in the driver's ms.
    pub received_ms: u64,
    pub kind: SlotKind,
    /// What it counts as a large request.
    pub large_bytes: u32,
    /// What is to be told of a write once it is answered, if anything is.
    pub pending: Option<Box<Pending>>,
    /// What a write counts as in the metrics once it has succeeded.
    pub written: Written,
}

pub(super) enum SlotKind {
    /// Handed over; `bytes` are counted against the connection until it is answered.
    Write { form: WriteForm, bytes: usize },
    /// Handed over, as the end of the session.
    Close { bytes: usize },
    /// Travels with the write before it.
    TravellingRead(OwnedRead),
    /// To be run here, once it is at the front.
    Read(OwnedRead),
    /// To be run here, once it is at the front.
    MultiRead(Vec<OwnedRead>),
    /// To be run here, once it is at the front.
    SetWatches(Box<OwnedSetWatches>),
    /// To be run here, once it is at the front.
    AddWatch { path: Box<str>, mode: AddWatchMode },
    /// To be run here, once it is at the front.
    CheckWatches { path: Box<str>, watcher_type: WatcherType },
    /// To be run here, once it is at the front.
    RemoveWatches { path: Box<str>, watcher_type: WatcherType },
    /// To be run here in steps, once it is at the front.
    Count { path: Box<str>, so_far: DescendantCount },
    /// To be run here, once it is at the front; the prefix.
    Ephemerals(Box<str>),
    /// Handed over; `done` once it is answered but not yet at the front.
    Sync { path: Option<Box<str>>, done: bool },
    /// Answered when its turn comes.
    Ping,
    /// Answered when its turn comes, for these identities: those of when it was asked.
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

    /// Whether it is run by this Front, under the state's lock, once it is at the front.
    pub fn runs_here(&self) -> bool {
        matches!(
            self,
            SlotKind::Read(_)
                | SlotKind::MultiRead(_)
                | SlotKind::SetWatches(_)
                | SlotKind::AddWatch { .. }
                | SlotKind::CheckWatches { .. }
                | SlotKind::RemoveWatches { .. }
                | SlotKind::Count { .. }
                | SlotKind::Ephemerals(_)
        )
    }
}

/// Watches to be set again, owned.
pub(super) struct OwnedSetWatches {
    pub relative_zxid: i64,
    pub data: Vec<Box<str>>,
    pub exist: Vec<Box<str>>,
    pub child: Vec<Box<str>>,
    pub persistent: Vec<Box<str>>,
    pub persistent_recursive: Vec<Box<str>>,
    pub null_behind: bool,
}

impl OwnedSetWatches {
    pub fn of(request: &SetWatchesRequest<'_>) -> OwnedSetWatches {
        OwnedSetWatches {
            relative_zxid: request.relative_zxid,
            data: own(&request.data),
            exist: own(&request.exist),
            child: own(&request.child),
            persistent: Vec::new(),
            persistent_recursive: Vec::new(),
            null_behind: request.null_behind,
        }
    }

    pub fn of_all(request: &SetWatches2Request<'_>) -> OwnedSetWatches {
        OwnedSetWatches {
            persistent: own(&request.persistent),
            persistent_recursive: own(&request.persistent_recursive),
            ..OwnedSetWatches::of(&request.watches)
        }
    }
}

fn own(paths: &[&str]) -> Vec<Box<str>> {
    paths.iter().map(|path| (*path).into()).collect()
}

/// What `cons` shows of a connection.
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
    /// Bytes of `output` as they count in the Front's sum; follows each change of it.
    pub output_counted: usize,
    /// Bytes that the socket has taken since the connection was accepted.
    pub taken_bytes: u64,
    /// The value of `taken_bytes` when slow takers were last looked for; none: it left no large
    /// replies lying then.
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
    /// Reads in the window that are to be run here.
    pub local_reads: usize,
    /// Reads in the window that travel with a write.
    pub travelling_reads: usize,
    /// Syncs in the window that are not answered.
    pub open_syncs: usize,
    /// Of the next request.
    pub next_ticket: Ticket,
    pub session: Option<SessionId>,
    pub timeout_ms: u32,
    /// How far the client has proved who it is by SASL.
    pub sasl: Exchange,
    pub identities: Identities,
    /// The same as a batch wants them.
    pub identity_bytes: Vec<u8>,
    pub read_only: ReadOnly,
    /// Whether this connection stands in the Front's list of those with something to run.
    pub listed: bool,
    /// Whether this connection stands in the Front's list of those with output.
    pub dirty: bool,
    /// Since when this connection stands in the Front's list of those that wait for credit.
    pub starved_since_ms: Option<u64>,
    /// Bytes of the input whose requests waited for credit for too long, and are refused.
    pub throttled_bytes: usize,
    pub stats: Stats,
}

/// What the connection that came to rest last has given back, empty, for the next busy one.
#[derive(Default)]
pub(super) struct Spare {
    window: VecDeque<Slot>,
    output: Vec<u8>,
}

impl Connection {
    /// Whether the frame of so many bytes that was just taken from the input waited for too long.
    pub fn takes_throttled(&mut self, frame_bytes: usize) -> bool {
        let throttled = self.throttled_bytes > 0;
        self.throttled_bytes = self.throttled_bytes.saturating_sub(frame_bytes);
        throttled
    }

    /// Whether more bytes may be read from the socket: always to complete a frame, and a little
    /// beyond one that is held back.
    pub fn wants_input(&self) -> bool {
        let reading = matches!(self.state, State::New | State::Attached);
        let stopped = self.is_refused() || self.output_is_full() || self.input_is_full();
        reading && !stopped
    }

    /// Whether so much was read behind a request that is held back that no more is.
    pub fn input_is_full(&self) -> bool {
        let first = self.input.first_chunk::<4>();
        let bytes = self.input.len();
        bytes >= INPUT_BYTES_MAX
            && first.is_some_and(|first| bytes - 4 >= u32::from_be_bytes(*first) as usize)
    }

    /// Whether the last request will be answered with the end of the connection, so that nothing
    /// behind it is read.
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

    /// Bytes of it.
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
            // A client may stay behind for ever: what it took is given back meanwhile.
            self.output.drain(..self.output_start);
            self.output.shrink_to(OUTPUT_KEPT_BYTES);
            self.output_start = 0;
        }
    }

    /// Takes the spare buffers if many requests came at once, which would grow its own step by
    /// step.
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

    /// Gives back what only a busy connection needs, if nothing is under way: most connections are
    /// idle most of the time.
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

    /// Whether the client leaves its replies lying, so that none is to be added.
    pub fn output_is_full(&self) -> bool {
        self.output_bytes() >= OUTPUT_BYTES_MAX
    }

    /// Whether it leaves so much lying that it is not served where the room for replies is full.
    pub fn leaves_replies_lying(&self) -> bool {
        self.output_bytes() >= SMALL_REPLY_BYTES
    }

    /// Whether the request at the front of the window has waited for room for as long as it may. A
    /// client that leaves replies lying is no reason to answer it.
    pub fn has_waited_for_room(&self, now_ms: u64) -> bool {
        let wait_ms = ROOM_WAIT_MS_MAX.min(u64::from(self.timeout_ms) / 6);
        let has_waited = |since_ms| now_ms >= since_ms + wait_ms;
        !self.leaves_replies_lying() && self.wants_room_since_ms.is_some_and(has_waited)
    }

    /// A read was answered with so many bytes: reads behind writes travel only where replies are
    /// small, as nobody knows how large one will be when it is handed over.
    pub fn note_reply(&mut self, bytes: usize) {
        if bytes > SMALL_REPLY_BYTES {
            self.small_replies_wanted = SMALL_REPLIES_TO_TRAVEL;
        } else {
            self.small_replies_wanted = self.small_replies_wanted.saturating_sub(1);
        }
    }

    /// Whether something of this connection waits for the state's lock.
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

    /// Whether the end of the session is under way.
    pub fn is_ending(&self) -> bool {
        self.window.iter().any(|slot| matches!(slot.kind, SlotKind::Close { .. }))
    }
}
