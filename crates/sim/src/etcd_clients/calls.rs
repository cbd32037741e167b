//! The calls of a client of etcd that have no result yet, and the pieces that have come of streamed
//! reads.

use std::collections::BTreeMap;

use member::fronts::etcd::EtcdMethod;
use workload::etcd::history::CallId;
use workload::etcd::op::Op;
use workload::generate::Random;

use super::network::SentResult;
use super::wire;

/// How long a client lets a piece of a streamed read lie at most, before it takes it.
const TAKEN_LATE_US_MAX: u64 = 3_000_000;

/// The calls of a client without a result.
pub(super) struct Calls {
    client: u32,
    /// When each was made, and when its patience ends.
    open: BTreeMap<CallId, (u64, u64)>,
    /// Those of services that wait for their turn, each with its method.
    served: BTreeMap<CallId, EtcdMethod>,
    /// The number of calls that are in no history.
    apart_count: u32,
}

impl Calls {
    /// No calls of this client.
    pub fn new(client: u32) -> Calls {
        Calls { client, open: BTreeMap::new(), served: BTreeMap::new(), apart_count: 0 }
    }

    /// The number of calls without a result.
    pub fn count(&self) -> u64 {
        self.open.len() as u64
    }

    /// Whether each call has its result.
    pub fn are_over(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a call has no result yet.
    pub fn is_open(&self, id: CallId) -> bool {
        self.open.contains_key(&id)
    }

    /// The call without a result that was made last.
    pub fn newest(&self) -> Option<CallId> {
        self.open.keys().next_back().copied()
    }

    /// When the oldest call without a result was made. A service waits for its turn, for as long as
    /// others hold, so those do not count.
    pub fn since_us(&self) -> Option<u64> {
        let others = self.open.iter().filter(|(id, _)| !self.served.contains_key(id));
        others.map(|(_, (asked_us, _))| *asked_us).min()
    }

    /// When the first patience ends.
    pub fn patient_until_us(&self) -> Option<u64> {
        self.open.values().map(|(_, until_us)| *until_us).min()
    }

    /// The calls whose patience has ended.
    pub fn late(&self, now_us: u64) -> Vec<CallId> {
        let late = self.open.iter().filter(|(_, (_, until_us))| *until_us <= now_us);
        late.map(|(id, _)| *id).collect()
    }

    /// The calls, as text for people.
    pub fn describe(&self) -> String {
        format!("{:?}", self.open)
    }

    /// Notes a call that was made, with the patience for it.
    pub fn open(&mut self, id: CallId, now_us: u64, patience_us: u64) {
        self.open.insert(id, (now_us, now_us + patience_us));
    }

    /// Notes a call that is in no history. Returns its id.
    pub fn open_apart(&mut self, now_us: u64, patience_us: u64) -> CallId {
        self.apart_count += 1;
        let id = CallId { client: self.client, number: u32::MAX - self.apart_count };
        self.open(id, now_us, patience_us);
        id
    }

    /// Notes a call of a service that waits for its turn. Returns its id.
    pub fn open_served(&mut self, method: EtcdMethod, now_us: u64, patience_us: u64) -> CallId {
        let id = self.open_apart(now_us, patience_us);
        self.served.insert(id, method);
        id
    }

    /// The number of the watch stream of the newest call, which is in no history.
    pub fn stream_apart(&self) -> usize {
        usize::MAX - self.apart_count as usize
    }

    /// A call has its result, or is given up.
    pub fn close(&mut self, id: CallId) {
        self.open.remove(&id);
    }

    /// Ends the wait of a service for its turn. Returns its method; `None` if the call is of no
    /// service.
    pub fn end_service(&mut self, id: CallId) -> Option<EtcdMethod> {
        self.served.remove(&id)
    }

    /// Forgets all calls: their connection is gone.
    pub fn clear(&mut self) {
        self.open.clear();
        self.served.clear();
    }
}

/// The streamed reads of a client.
pub(super) struct Streams {
    /// Decides which reads are streamed, and when their pieces are taken.
    random: Random,
    /// The pieces that have come of each open call.
    pieces: BTreeMap<CallId, Vec<u8>>,
    /// The number that were answered in several pieces.
    done_count: usize,
}

impl Streams {
    /// No streamed reads yet.
    pub fn new(random: Random) -> Streams {
        Streams { random, pieces: BTreeMap::new(), done_count: 0 }
    }

    /// Streamed reads that were answered in several pieces.
    pub fn done_count(&self) -> usize {
        self.done_count
    }

    /// Decides whether a call is streamed. If it is, it may read everything instead.
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

    /// Draws how late the client takes what has come. It takes everything at once if it `is_calm`.
    pub fn late_us(&mut self, is_calm: bool) -> u64 {
        match !is_calm && self.random.one_in(4) {
            true => self.random.magnitude(1, TAKEN_LATE_US_MAX),
            false => 0,
        }
    }

    /// A streamed read was made.
    pub fn open(&mut self, id: CallId) {
        self.pieces.insert(id, Vec::new());
    }

    /// Puts a result together with the pieces before it, if it is one of a streamed read. Returns
    /// whether there were pieces before it.
    ///
    /// # Errors
    /// No client of etcd could understand the piece.
    pub fn add(&mut self, id: CallId, result: &mut SentResult) -> Result<bool, String> {
        let Some(pieces) = self.pieces.get_mut(&id) else { return Ok(false) };
        let had_pieces = !pieces.is_empty();
        if let Ok(piece) = result {
            wire::add_piece(pieces, piece)?;
            piece.clone_from(pieces);
        }
        Ok(had_pieces)
    }

    /// A call is over: done in several pieces if `is_in_pieces`.
    pub fn close(&mut self, id: CallId, is_in_pieces: bool) {
        self.done_count += usize::from(is_in_pieces);
        self.pieces.remove(&id);
    }

    /// Forgets all pieces: the connection is gone.
    pub fn clear(&mut self) {
        self.pieces.clear();
    }
}
