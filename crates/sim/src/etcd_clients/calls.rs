//! An etcd client's open calls (those without a result), and the pieces that have arrived of
//! streamed reads.

use std::collections::BTreeMap;

use member::fronts::etcd::EtcdMethod;
use workload::etcd::history::CallId;
use workload::etcd::op::Op;
use workload::generate::Random;

use super::network::SentResult;
use super::wire;

/// The longest that a client takes to acknowledge a piece of a streamed read.
const TAKEN_LATE_US_MAX: u64 = 3_000_000;

/// The open calls of a client.
pub(super) struct Calls {
    client: u32,
    /// When each call was made, and when the client cancels it, in us.
    open: BTreeMap<CallId, (u64, u64)>,
    /// The calls of `Lock` and `Campaign`, which may wait long, with their method.
    served: BTreeMap<CallId, EtcdMethod>,
    /// The number of calls that are not in the history.
    apart_count: u32,
}

impl Calls {
    /// A client without open calls.
    pub fn new(client: u32) -> Calls {
        Calls { client, open: BTreeMap::new(), served: BTreeMap::new(), apart_count: 0 }
    }

    /// The number of open calls.
    pub fn count(&self) -> u64 {
        self.open.len() as u64
    }

    /// Whether no call is open.
    pub fn are_over(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a call is open.
    pub fn is_open(&self, id: CallId) -> bool {
        self.open.contains_key(&id)
    }

    /// The newest open call.
    pub fn newest(&self) -> Option<CallId> {
        self.open.keys().next_back().copied()
    }

    /// When the oldest open call was made, in us. `Lock` and `Campaign` calls do not count: they
    /// wait as long as others hold the lock.
    pub fn since_us(&self) -> Option<u64> {
        let others = self.open.iter().filter(|(id, _)| !self.served.contains_key(id));
        others.map(|(_, (asked_us, _))| *asked_us).min()
    }

    /// When the client next cancels a call, in us.
    pub fn patient_until_us(&self) -> Option<u64> {
        self.open.values().map(|(_, until_us)| *until_us).min()
    }

    /// The calls that the client must cancel now.
    pub fn late(&self, now_us: u64) -> Vec<CallId> {
        let late = self.open.iter().filter(|(_, (_, until_us))| *until_us <= now_us);
        late.map(|(id, _)| *id).collect()
    }

    /// The open calls, as text for people.
    pub fn describe(&self) -> String {
        format!("{:?}", self.open)
    }

    /// Notes a new call, which the client cancels after `patience_us`.
    pub fn open(&mut self, id: CallId, now_us: u64, patience_us: u64) {
        self.open.insert(id, (now_us, now_us + patience_us));
    }

    /// Notes a new call that is not in the history. Returns its id.
    pub fn open_apart(&mut self, now_us: u64, patience_us: u64) -> CallId {
        self.apart_count += 1;
        let id = CallId { client: self.client, number: u32::MAX - self.apart_count };
        self.open(id, now_us, patience_us);
        id
    }

    /// Notes a new `Lock` or `Campaign` call. Returns its id.
    pub fn open_served(&mut self, method: EtcdMethod, now_us: u64, patience_us: u64) -> CallId {
        let id = self.open_apart(now_us, patience_us);
        self.served.insert(id, method);
        id
    }

    /// The number of a watch stream for the newest call that is not in the history.
    pub fn stream_apart(&self) -> usize {
        usize::MAX - self.apart_count as usize
    }

    /// A call has got its result, or is cancelled.
    pub fn close(&mut self, id: CallId) {
        self.open.remove(&id);
    }

    /// Ends a `Lock` or `Campaign` call. Returns its method; `None` for any other call.
    pub fn end_service(&mut self, id: CallId) -> Option<EtcdMethod> {
        self.served.remove(&id)
    }

    /// Forgets all calls, since their connection has ended.
    pub fn clear(&mut self) {
        self.open.clear();
        self.served.clear();
    }
}

/// The streamed reads of a client.
pub(super) struct Streams {
    /// The generator for which reads are streamed, and how late pieces are acknowledged.
    random: Random,
    /// The pieces that have arrived of each open streamed read, joined.
    pieces: BTreeMap<CallId, Vec<u8>>,
    /// How many streamed reads were answered in several pieces.
    done_count: usize,
}

impl Streams {
    /// A client without streamed reads.
    pub fn new(random: Random) -> Streams {
        Streams { random, pieces: BTreeMap::new(), done_count: 0 }
    }

    /// How many streamed reads were answered in several pieces.
    pub fn done_count(&self) -> usize {
        self.done_count
    }

    /// Decides whether a call is a streamed read. If so, the read may be changed to one of all
    /// keys.
    pub fn choose(&mut self, op: &mut Op) -> bool {
        let is_streamed = wire::can_stream(op) && self.random.one_in(2);
        if let Op::Range(range) = op
            && is_streamed
            && !range.key.is_empty()
            && self.random.one_in(2)
        {
            (range.key, range.range_end, range.limit) = (vec![0], vec![0], 0);
        }
        is_streamed
    }

    /// Draws how late the client acknowledges what has arrived, in us; 0 if it `is_calm`.
    pub fn late_us(&mut self, is_calm: bool) -> u64 {
        match !is_calm && self.random.one_in(4) {
            true => self.random.magnitude(1, TAKEN_LATE_US_MAX),
            false => 0,
        }
    }

    /// A streamed read was sent.
    pub fn open(&mut self, id: CallId) {
        self.pieces.insert(id, Vec::new());
    }

    /// Joins a result of a streamed read with the pieces before it. Returns whether there were
    /// earlier pieces.
    ///
    /// # Errors
    /// The client could not understand the piece.
    pub fn add(&mut self, id: CallId, result: &mut SentResult) -> Result<bool, String> {
        let Some(pieces) = self.pieces.get_mut(&id) else { return Ok(false) };
        let had_pieces = !pieces.is_empty();
        if let Ok(piece) = result {
            wire::add_piece(pieces, piece)?;
            piece.clone_from(pieces);
        }
        Ok(had_pieces)
    }

    /// A call is over. `is_in_pieces` says that the call was answered in several pieces.
    pub fn close(&mut self, id: CallId, is_in_pieces: bool) {
        self.done_count += usize::from(is_in_pieces);
        self.pieces.remove(&id);
    }

    /// Forgets all pieces, since the connection has ended.
    pub fn clear(&mut self) {
        self.pieces.clear();
    }
}
