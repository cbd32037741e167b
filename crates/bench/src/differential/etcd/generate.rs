//! Generates seeded requests of etcd's protocol. There are few keys and few values, so that failed
//! conditions, missing keys, ties and overlapping ranges are common. Numbers that a server may
//! treat specially (negative, 0, compacted, future, the largest) occur everywhere.
//!
//! Some seeds are *wide*: they have some hundred more keys, and sort only by key, because etcd's
//! sort of more than 12 keys is not stable.
//!
//! A transaction with a put and a delete whose range has no end is never generated, because it
//! crashes etcd 3.6.16.

use bytes::Bytes;
use etcd::pb::etcdserverpb as pb;
use pb::compare::TargetUnion;
use pb::request_op::Request as Op;

use super::request::{Reply, Request};
use crate::random::Random;

/// The keys. Some are prefixes of others, and some sort first or last.
const KEYS: [&[u8]; 11] =
    [b"\0", b"a", b"a/", b"a/x", b"b", b"b\0", b"c", b"c/\xff", b"d", b"\xff", b"\xff\xff"];

/// How many more keys a wide seed has.
const WIDE_KEYS: u64 = 300;

/// Values that many keys get.
const VALUES: [&[u8]; 5] = [b"", b"v", b"w", b"vv", b"\0\xff"];

/// A lease that does not exist.
const UNKNOWN_LEASE: i64 = 7_777;

/// The leases that are granted, revoked, and used by puts.
const LEASES: [i64; 6] = [1, 2, 3, -1, i64::MIN, i64::MAX];

/// The shortest time to live that is granted, in seconds: no lease expires during a test.
const LEASE_TTL_S_MIN: i64 = 86_400;

/// The limit of operations in a transaction: etcd's `--max-txn-ops`.
const OPS_MAX: usize = 128;

/// The deepest nesting of most transactions; 1 is a transaction without another inside.
/// [`Generator::deep`] nests up to 29 levels more.
const DEPTH: u64 = 3;

/// Sizes of values, bytes, around etcd's limits for a request (1.5 MiB) and for a message (2 MiB).
const LARGE: [usize; 3] = [1_400_000, 1_600_000, 2_200_000];

/// Methods that do not exist.
const UNKNOWN: [&str; 3] =
    ["/etcdserverpb.KV/Nothing", "/etcdserverpb.Nothing/Range", "/nothing.KV/Range"];

/// The requests of a seed.
pub struct Generator {
    random: Random,
    drawn: u64,
    /// The newest revision in any reply.
    newest: i64,
    /// The newest revision that was compacted.
    compacted: i64,
    /// Whether the seed is wide: has many more keys.
    is_wide: bool,
    /// Whether the current transaction may delete ranges without an end; it then contains no put.
    is_open: bool,
}

impl Generator {
    /// The requests of a seed, for a store at this revision.
    pub fn new(seed: u64, revision: i64) -> Generator {
        let (random, is_wide) = (Random::new(seed), seed.is_multiple_of(4));
        let (newest, compacted) = (revision, revision);
        Generator { random, drawn: 0, newest, compacted, is_wide, is_open: false }
    }

    /// Learns the revisions of the store from the reply to a request.
    pub fn observe(&mut self, request: &Request, reply: &Reply) {
        self.newest = self.newest.max(reply.revision().unwrap_or(0));
        if let (Request::Compact(request), Reply::Compact(_)) = (request, reply) {
            self.compacted = self.compacted.max(request.revision);
        }
    }

    /// Draws the next request.
    pub fn request(&mut self) -> Request {
        if self.is_wide && self.one_in(20) {
            return Request::Txn(self.fill());
        }
        match self.random.below(100) {
            0..=1 => self.compact(),
            2..=8 => self.wrong(),
            9..=18 => self.lease_call(),
            19..=38 => Request::Range(self.range()),
            39..=63 => Request::Put(self.put()),
            64..=73 => Request::DeleteRange(self.delete(true)),
            _ => {
                self.is_open = self.random.chance(15);
                Request::Txn(self.txn(1))
            }
        }
    }

    /// A compaction at the newest revision. In seeds that are not wide it is sometimes at the
    /// revision before the newest.
    pub fn compact_all(&mut self) -> Request {
        let is_late = self.is_wide || self.one_in(2);
        let revision = if is_late { self.newest } else { self.newest - 1 };
        Request::Compact(pb::CompactionRequest { revision, physical: self.one_in(2) })
    }

    /// The newest revision, and the newest one that was compacted.
    pub fn revisions(&self) -> (i64, i64) {
        (self.newest, self.compacted)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    fn key(&mut self) -> Bytes {
        if self.is_wide && !self.one_in(4) {
            return wide_key(self.random.below(WIDE_KEYS));
        }
        Bytes::from_static(self.random.pick::<&[u8]>(&KEYS))
    }

    /// A key and a range end. Some ranges are empty; with `may_be_open` some have no end.
    pub(super) fn keys(&mut self, may_be_open: bool) -> (Bytes, Bytes) {
        let (key, end) = (self.key(), self.key());
        let zero = Bytes::from_static(b"\0");
        let end = if end == zero && !may_be_open { Bytes::from_static(b"e") } else { end };
        match self.random.below(8) {
            0..=3 => (key, Bytes::new()),
            4..=5 => (key, end),
            6 if may_be_open => (key, zero),
            7 if may_be_open => (zero.clone(), zero),
            _ => (zero, end),
        }
    }

    fn value(&mut self) -> Bytes {
        self.drawn += 1;
        match self.random.below(100) {
            0..=49 => Bytes::from_static(self.random.pick::<&[u8]>(&VALUES)),
            50 => Bytes::from(vec![self.drawn as u8; 10_000]),
            _ => Bytes::from(self.drawn.to_string()),
        }
    }

    /// A revision: mostly a recent one, sometimes one near the compacted or the newest one, or an
    /// impossible one.
    fn revision(&mut self) -> i64 {
        let back = self.random.below(30) as i64;
        match self.random.below(20) {
            0 => self.compacted - 1 - back,
            1..=2 => self.compacted - 1,
            3..=4 => self.compacted,
            5 => self.compacted + 1,
            6 => self.newest + 1,
            7 => self.newest + 1 + back,
            8 => *self.random.pick(&[-1, i64::MIN, i64::MAX, 1, 0]),
            _ => self.newest - back,
        }
    }

    /// A number like those in key-value pairs: small, or a revision.
    fn number(&mut self) -> i64 {
        if self.one_in(2) { self.random.below(5) as i64 - 1 } else { self.revision() }
    }

    fn put(&mut self) -> pb::PutRequest {
        let ignore_value = self.one_in(10);
        let value = if ignore_value { Bytes::new() } else { self.value() };
        let (prev_kv, ignore_lease) = (self.one_in(3), self.one_in(10));
        let lease = if !ignore_lease && self.one_in(4) { *self.random.pick(&LEASES) } else { 0 };
        pb::PutRequest { key: self.key(), value, lease, prev_kv, ignore_value, ignore_lease }
    }

    /// A call about a lease that may or may not exist.
    fn lease_call(&mut self) -> Request {
        let id = match self.random.chance(90) {
            true => *self.random.pick(&LEASES),
            false => *self.random.pick(&[0, UNKNOWN_LEASE]),
        };
        match self.random.below(10) {
            // For id 0 a server chooses an id, and the two servers would choose different ones.
            0..=3 if id != 0 => {
                let ttl = *self.random.pick(&[
                    LEASE_TTL_S_MIN,
                    LEASE_TTL_S_MIN + 1,
                    9_000_000_000,
                    9_000_000_001,
                    i64::MAX,
                ]);
                Request::Grant(pb::LeaseGrantRequest { id, ttl })
            }
            0..=5 => Request::Revoke(pb::LeaseRevokeRequest { id }),
            6..=7 => Request::TimeToLive(pb::LeaseTimeToLiveRequest { id, keys: !self.one_in(3) }),
            8 => Request::KeepAlive(pb::LeaseKeepAliveRequest { id }),
            _ => Request::Leases,
        }
    }

    fn delete(&mut self, may_be_open: bool) -> pb::DeleteRangeRequest {
        let (key, range_end) = self.keys(may_be_open);
        pb::DeleteRangeRequest { key, range_end, prev_kv: self.one_in(2) }
    }

    fn range(&mut self) -> pb::RangeRequest {
        let (key, range_end) = self.keys(true);
        let mut range = pb::RangeRequest { key, range_end, ..Default::default() };
        range.serializable = self.one_in(3);
        range.keys_only = self.one_in(8);
        range.count_only = self.one_in(8);
        if self.one_in(3) {
            range.revision = self.revision();
        }
        if self.one_in(2) {
            self.refine(&mut range);
        }
        range
    }

    /// Adds a limit, an order and filters to a range read, and often extends its range to all keys.
    fn refine(&mut self, range: &mut pb::RangeRequest) {
        if self.one_in(2) {
            (range.key, range.range_end) = (Bytes::from_static(b"\0"), Bytes::from_static(b"\0"));
        }
        range.limit = match self.random.below(12) {
            0 => -1,
            1 => *self.random.pick(&[i64::MIN, i64::MAX, i64::MAX - 1, 100]),
            2 => self.random.below(100) as i64,
            _ => self.random.below(6) as i64,
        };
        range.sort_order = self.random.below(3) as i32;
        range.sort_target = if self.is_wide { 0 } else { self.random.below(5) as i32 };
        if self.one_in(40) {
            range.sort_order = *self.random.pick(&[3, -1, 100]);
        }
        if self.one_in(40) {
            range.sort_target = *self.random.pick(&[5, -1, i32::MAX]);
        }
        for _ in 0..self.random.below(3) {
            let revision = self.number();
            match self.random.below(4) {
                0 => range.min_mod_revision = revision,
                1 => range.max_mod_revision = revision,
                2 => range.min_create_revision = revision,
                _ => range.max_create_revision = revision,
            }
        }
    }

    fn compare(&mut self) -> pb::Compare {
        let (key, range_end) =
            if self.one_in(4) { self.keys(true) } else { (self.key(), Bytes::new()) };
        let mut compare = pb::Compare { key, range_end, ..Default::default() };
        compare.result = self.random.below(4) as i32;
        compare.target = self.random.below(5) as i32;
        // Now and then the operand belongs to another field, or is missing.
        let operand = if self.one_in(12) { self.random.below(6) as i32 } else { compare.target };
        compare.target_union = match operand {
            0 => Some(TargetUnion::Version(self.number())),
            1 => Some(TargetUnion::CreateRevision(self.number())),
            2 => Some(TargetUnion::ModRevision(self.number())),
            3 => Some(TargetUnion::Value(self.value())),
            4 => Some(TargetUnion::Lease(*self.random.pick(&[0, 1, -1]))),
            _ => None,
        };
        if self.one_in(25) {
            compare.result = *self.random.pick(&[4, -1, 1_000]);
        }
        if self.one_in(25) {
            compare.target = *self.random.pick(&[5, -1, 1_000]);
        }
        compare
    }

    /// A transaction at this level of nesting, which counts from 1.
    fn txn(&mut self, level: u64) -> pb::TxnRequest {
        let compare = (0..self.random.below(4)).map(|_| self.compare()).collect();
        let (success, failure) = (self.branch(level), self.branch(level));
        pb::TxnRequest { compare, success, failure }
    }

    /// A transaction that puts a hundred keys.
    fn fill(&mut self) -> pb::TxnRequest {
        let first = self.random.below(WIDE_KEYS - 100);
        let put = |number| {
            let (key, value) = (wide_key(number), self.value());
            let put = pb::PutRequest { key, value, ..Default::default() };
            pb::RequestOp { request: Some(Op::RequestPut(put)) }
        };
        let success = (first..first + 100).map(put).collect();
        pb::TxnRequest { success, ..Default::default() }
    }

    fn branch(&mut self, level: u64) -> Vec<pb::RequestOp> {
        (0..self.random.below(5)).map(|_| self.op(level)).collect()
    }

    fn op(&mut self, level: u64) -> pb::RequestOp {
        let request = match self.random.below(10) {
            3..=5 if !self.is_open => Op::RequestPut(self.put()),
            6..=7 => Op::RequestDeleteRange(self.delete(self.is_open)),
            8..=9 if level < DEPTH => Op::RequestTxn(self.txn(level + 1)),
            _ => Op::RequestRange(self.range()),
        };
        pb::RequestOp { request: Some(request) }
    }

    fn compact(&mut self) -> Request {
        Request::Compact(pb::CompactionRequest {
            revision: self.revision(),
            physical: self.one_in(2),
        })
    }

    /// A request that servers refuse in most cases.
    fn wrong(&mut self) -> Request {
        match self.random.below(14) {
            0 => Request::Put(pb::PutRequest { key: Bytes::new(), ..self.put() }),
            1 => Request::Range(pb::RangeRequest { key: Bytes::new(), ..self.range() }),
            2 => Request::DeleteRange(pb::DeleteRangeRequest {
                key: Bytes::new(),
                ..self.delete(true)
            }),
            3 => {
                let put = self.put();
                Request::Put(pb::PutRequest { ignore_value: true, value: self.value(), ..put })
            }
            4 => self.with_lease(true),
            5 => self.with_lease(false),
            6 => Request::Unknown(self.random.pick::<&str>(&UNKNOWN)),
            7 if self.one_in(10) => {
                let bytes = *self.random.pick(&LARGE);
                Request::Put(pb::PutRequest { value: vec![b'x'; bytes].into(), ..self.put() })
            }
            7..=8 => Request::Txn(self.many()),
            9 => Request::Txn(self.deep()),
            _ => Request::Txn(self.wrong_txn()),
        }
    }

    fn with_lease(&mut self, ignore_lease: bool) -> Request {
        let lease = *self.random.pick(&[UNKNOWN_LEASE, -1, i64::MAX]);
        Request::Put(pb::PutRequest { lease, ignore_lease, ..self.put() })
    }

    /// A transaction whose number of operations is near the limit, at its first or second level.
    fn many(&mut self) -> pb::TxnRequest {
        let count = OPS_MAX - 1 + self.random.below(3) as usize;
        let range = pb::RangeRequest { key: self.key(), ..Default::default() };
        let op = pb::RequestOp { request: Some(Op::RequestRange(range)) };
        let mut txn = pb::TxnRequest::default();
        match self.random.below(3) {
            0 => txn.success = vec![op; count],
            1 => txn.failure = vec![op; count],
            _ => txn.compare = vec![self.compare(); count],
        }
        if self.one_in(2) {
            let request = Some(Op::RequestTxn(txn));
            txn = pb::TxnRequest { success: vec![pb::RequestOp { request }], ..self.txn(DEPTH) };
        }
        txn
    }

    /// A transaction that contains up to 29 others, one inside the other.
    fn deep(&mut self) -> pb::TxnRequest {
        self.is_open = false;
        let mut txn = self.txn(DEPTH);
        for _ in 0..self.random.below(30) {
            let op = vec![pb::RequestOp { request: Some(Op::RequestTxn(txn)) }];
            let compare = if self.one_in(4) { vec![self.compare()] } else { Vec::new() };
            let (success, failure) =
                if self.one_in(2) { (op, Vec::new()) } else { (Vec::new(), op) };
            txn = pb::TxnRequest { compare, success, failure };
        }
        txn
    }

    /// A transaction with one thing wrong in it.
    fn wrong_txn(&mut self) -> pb::TxnRequest {
        self.is_open = false;
        let mut txn = self.txn(1);
        let request = match self.random.below(9) {
            0 => None,
            1 => {
                txn.compare.push(pb::Compare { key: Bytes::new(), ..self.compare() });
                None
            }
            2 => Some(Op::RequestPut(pb::PutRequest { key: Bytes::new(), ..self.put() })),
            3 => Some(Op::RequestPut(pb::PutRequest { lease: UNKNOWN_LEASE, ..self.put() })),
            4 => Some(Op::RequestRange(pb::RangeRequest { sort_order: 9, ..self.range() })),
            5 => {
                let delete = self.delete(false);
                Some(Op::RequestDeleteRange(pb::DeleteRangeRequest { key: Bytes::new(), ..delete }))
            }
            6 => {
                let revision = self.newest + 1_000;
                Some(Op::RequestRange(pb::RangeRequest { revision, ..self.range() }))
            }
            7 => Some(Op::RequestTxn(self.wrong_txn())),
            _ => {
                let put = Some(Op::RequestPut(self.put()));
                txn.success.push(pb::RequestOp { request: put.clone() });
                put
            }
        };
        let branch = if self.one_in(3) { &mut txn.failure } else { &mut txn.success };
        let place = self.random.below(branch.len() as u64 + 1) as usize;
        branch.insert(place, pb::RequestOp { request });
        txn
    }
}

fn wide_key(number: u64) -> Bytes {
    format!("b{number:03}").into()
}
