//! Random streams of etcd calls from a seed. There are few keys, so failed conditions, missing keys
//! and overlapping ranges are common.
//!
//! Values are unique, so a read names the write that it shows. There are at most 12 keys, because
//! etcd's sort is stable only up to that number (see [`crate::etcd::model`]).

use crate::etcd::form::{TXN_OPS_MAX, check};
use crate::etcd::op::{
    Compact, Compare, CompareResult, CompareTarget, DeleteRange, LeaseOp, Op, Put, Range,
    SortOrder, SortTarget, Txn, TxnOp,
};
use crate::generate::Random;
use crate::limits::{
    COMPACTION_ONE_IN, ERROR_ONE_IN, LEASE_CALL_ONE_IN, TXN_DEPTH_MAX, TXN_OPS_DRAWN_MAX,
};

/// The keys. Some are prefixes of others, and one has a byte that sorts last.
pub const KEYS: [&[u8]; 8] = [b"a", b"a/", b"a/x", b"b", b"b\0", b"c", b"c/\xff", b"d"];

/// A lease that no client grants.
pub const UNKNOWN_LEASE: i64 = 7777;

/// Which kinds of calls a stream has besides plain ones at the newest revision.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Compactions.
    pub compactions: bool,
    /// Transactions inside transactions.
    pub nested: bool,
    /// Ranges at older revisions.
    pub old_revisions: bool,
    /// Ranges over all keys, and ranges with limit, order and filters.
    pub large_ranges: bool,
    /// Serializable reads, which a member may answer from its own state.
    pub serializable: bool,
    /// Calls that the checks before the log refuse, unknown leases, and revisions that do not
    /// exist.
    pub errors: bool,
    /// Deletes with an open range end, of one or more keys. Without them, keys that sort after
    /// [`KEYS`] are safe.
    pub open_deletes: bool,
    /// Deletes with an open range end inside transactions. Beside a put of one of their keys they
    /// crash etcd 3.6.16, at once (`ignore_value`) or after a compaction at that revision.
    pub open_deletes_in_txns: bool,
    /// Ranges at older or future revisions beside the puts and deletes of a transaction. A member
    /// of etcd 3.6.16 at which no client waits for the transaction skips such ranges with their
    /// checks (`removeNeedlessRangeReqs`). If such a range is refused elsewhere, the members differ
    /// from then on.
    pub old_revisions_in_writes: bool,
    /// The lease ids that puts use. The driver of the clients grants these leases, unless the
    /// clients do so themselves (`lease_calls`).
    pub leases: Vec<i64>,
    /// Calls about the lease ids in `leases`: grants, revocations, keep-alives, and requests for
    /// the time to live.
    pub lease_calls: bool,
}

impl Options {
    /// All kinds of calls.
    pub fn all(leases: Vec<i64>) -> Options {
        Options {
            open_deletes_in_txns: true,
            old_revisions_in_writes: true,
            leases,
            ..Options::for_etcd()
        }
    }

    /// All kinds of calls that members of a real etcd survive and agree on, without leases.
    pub fn for_etcd() -> Options {
        Options {
            compactions: true,
            open_deletes: true,
            nested: true,
            old_revisions: true,
            large_ranges: true,
            serializable: true,
            errors: true,
            ..Options::default()
        }
    }
}

/// The stream of calls of one client.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    client: u32,
    options: Options,
    /// How many values were drawn.
    drawn: u64,
    /// The newest revision that the client has seen.
    newest: i64,
    /// How many of 100 calls are writes, on average.
    write_percent: u64,
}

impl Generator {
    /// The stream of this client.
    pub fn new(mut random: Random, client: u32, options: Options) -> Generator {
        let write_percent = random.between(30, 80);
        Generator { random, client, options, drawn: 0, newest: 1, write_percent }
    }

    /// Notes a revision that the client has seen. Later calls ask for older revisions than that.
    pub fn observe(&mut self, revision: i64) {
        self.newest = self.newest.max(revision);
    }

    /// Draws the next call.
    pub fn next_op(&mut self) -> Op {
        if self.options.compactions && self.random.one_in(COMPACTION_ONE_IN) {
            return self.compact();
        }
        if self.options.lease_calls && self.random.one_in(LEASE_CALL_ONE_IN) {
            return Op::Lease(self.lease());
        }
        if self.options.errors && self.random.one_in(ERROR_ONE_IN) {
            return self.wrong();
        }
        loop {
            let op = self.draw();
            // Many drawn transactions touch a key twice, and are drawn again.
            if self.options.errors || check(&op).is_ok() {
                return op;
            }
        }
    }

    fn draw(&mut self) -> Op {
        if self.random.below(100) >= self.write_percent {
            return match self.random.one_in(6) {
                true => Op::Txn(self.reads()),
                false => Op::Range(self.range()),
            };
        }
        match self.random.below(10) {
            0..=4 => Op::Put(self.put()),
            5..=6 => Op::DeleteRange(self.delete(self.options.open_deletes)),
            _ => Op::Txn(self.txn(1)),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        self.random.pick(&KEYS).to_vec()
    }

    /// A key and a range end; some ranges are empty.
    fn keys(&mut self, may_be_open: bool) -> (Vec<u8>, Vec<u8>) {
        let (key, end) = (self.key(), self.key());
        match self.random.below(8) {
            0..=3 => (key, Vec::new()),
            4..=5 => (key, end),
            6 if may_be_open => (key, vec![0]),
            7 if may_be_open => (vec![0], vec![0]),
            _ => (vec![0], end),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        self.drawn += 1;
        format!("{}:{}", self.client, self.drawn).into_bytes()
    }

    /// A number as pairs have: small, or a recent revision.
    fn number(&mut self) -> i64 {
        match self.random.one_in(2) {
            true => self.random.below(4) as i64,
            false => self.old_revision(),
        }
    }

    fn old_revision(&mut self) -> i64 {
        let back = self.random.magnitude(1, 32) as i64 - 1;
        (self.newest - back).max(1)
    }

    fn put(&mut self) -> Put {
        let mut put = Put { key: self.key(), ..Put::default() };
        put.prev_kv = self.random.one_in(3);
        put.ignore_value = self.random.one_in(10);
        put.ignore_lease = self.random.one_in(10);
        if !put.ignore_value {
            put.value = self.value();
        }
        let leases = self.options.leases.len() as u64;
        if leases > 0 && !put.ignore_lease && self.random.one_in(3) {
            put.lease = self.options.leases[self.random.below(leases) as usize];
        }
        put
    }

    /// A call about a lease. Times to live are short, so many leases expire.
    fn lease(&mut self) -> LeaseOp {
        let lease = *self.random.pick(&self.options.leases);
        match self.random.below(12) {
            0..=3 => LeaseOp::Grant { lease, ttl_s: self.random.below(7) as i64 },
            4 => LeaseOp::Revoke { lease },
            5 if self.options.errors => LeaseOp::Grant { lease, ttl_s: i64::MAX },
            5..=9 => LeaseOp::KeepAlive { lease },
            _ => LeaseOp::TimeToLive { lease },
        }
    }

    fn delete(&mut self, may_be_open: bool) -> DeleteRange {
        let (key, range_end) = self.keys(may_be_open);
        DeleteRange { key, range_end, prev_kv: self.random.one_in(2) }
    }

    fn range(&mut self) -> Range {
        let (key, range_end) = self.keys(true);
        let mut range = Range { key, range_end, ..Range::default() };
        range.serializable = self.options.serializable && self.random.one_in(3);
        if self.options.old_revisions && self.random.one_in(4) {
            range.revision = self.old_revision();
        }
        range.keys_only = self.random.one_in(8);
        range.count_only = self.random.one_in(8);
        if self.options.large_ranges && self.random.one_in(2) {
            self.refine(&mut range);
        }
        range
    }

    /// A range in a transaction that may write. (etcd skips no range in a nested transaction.)
    fn range_in_txn(&mut self, depth: u64) -> Range {
        let range = self.range();
        let keeps_revision = self.options.old_revisions_in_writes || depth > 1;
        Range { revision: if keeps_revision { range.revision } else { 0 }, ..range }
    }

    /// Adds a limit, an order and filters to a range, and may make it large.
    fn refine(&mut self, range: &mut Range) {
        if self.random.one_in(2) {
            (range.key, range.range_end) = (vec![0], vec![0]);
        }
        range.limit = self.random.below(4) as i64;
        range.sort_order =
            *self.random.pick(&[SortOrder::None, SortOrder::Ascend, SortOrder::Descend]);
        range.sort_target = *self.random.pick(&[
            SortTarget::Key,
            SortTarget::Version,
            SortTarget::Create,
            SortTarget::Mod,
            SortTarget::Value,
        ]);
        let (kind, revision) = (self.random.below(8), self.old_revision());
        match kind {
            0 => range.min_mod_revision = revision,
            1 => range.max_mod_revision = revision,
            2 => range.min_create_revision = revision,
            3 => range.max_create_revision = revision,
            _ => {}
        }
    }

    fn compare(&mut self) -> Compare {
        let (key, range_end) = match self.random.one_in(4) {
            true => self.keys(true),
            false => (self.key(), Vec::new()),
        };
        let result = *self.random.pick(&[
            CompareResult::Equal,
            CompareResult::Greater,
            CompareResult::Less,
            CompareResult::NotEqual,
        ]);
        let target = match self.random.below(6) {
            0 => CompareTarget::Create(self.number()),
            1 => CompareTarget::Mod(self.number()),
            2 => CompareTarget::Lease(self.options.leases.first().copied().unwrap_or(0)),
            3 => CompareTarget::Value(format!("{}:{}", self.client, self.drawn).into_bytes()),
            _ => CompareTarget::Version(self.number()),
        };
        Compare { key, range_end, result, target }
    }

    fn compares(&mut self) -> Vec<Compare> {
        let count = self.random.below(TXN_OPS_DRAWN_MAX);
        (0..count).map(|_| self.compare()).collect()
    }

    /// A transaction with ranges only, or without operations.
    fn reads(&mut self) -> Txn {
        let is_serializable = self.options.serializable && self.random.one_in(3);
        let mut branch = || {
            let count = self.random.below(TXN_OPS_DRAWN_MAX + 1);
            let one = |_| {
                let mut range = self.range();
                range.serializable = is_serializable;
                TxnOp::Range(range)
            };
            (0..count).map(one).collect()
        };
        let (success, failure) = (branch(), branch());
        Txn { compares: self.compares(), success, failure }
    }

    fn txn(&mut self, depth: u64) -> Txn {
        let compares = self.compares();
        let mut branches = [Vec::new(), Vec::new()];
        for branch in &mut branches {
            for _ in 0..self.random.below(TXN_OPS_DRAWN_MAX + 1) {
                branch.push(self.txn_op(depth));
            }
        }
        let [success, failure] = branches;
        Txn { compares, success, failure }
    }

    fn txn_op(&mut self, depth: u64) -> TxnOp {
        let may_be_nested = self.options.nested && depth < TXN_DEPTH_MAX;
        match self.random.below(10) {
            0..=2 => TxnOp::Range(self.range_in_txn(depth)),
            3..=5 => TxnOp::Put(self.put()),
            6..=7 => TxnOp::DeleteRange(self.delete(self.options.open_deletes_in_txns)),
            _ if may_be_nested => TxnOp::Txn(self.txn(depth + 1)),
            _ => TxnOp::Put(self.put()),
        }
    }

    fn compact(&mut self) -> Op {
        let revision = match self.options.errors && self.random.one_in(6) {
            true => *self.random.pick(&[-1, 0, self.newest + 1_000]),
            false => self.old_revision(),
        };
        Op::Compact(Compact { revision, physical: self.random.one_in(2) })
    }

    /// A call that a correct server must refuse.
    fn wrong(&mut self) -> Op {
        let future = self.newest + 1_000;
        match self.random.below(10) {
            0 => Op::Put(Put { key: Vec::new(), ..self.put() }),
            1 => Op::Range(Range { key: Vec::new(), ..self.range() }),
            2 => Op::Put(Put { ignore_value: true, value: self.value(), ..self.put() }),
            3 => Op::Put(Put { ignore_lease: true, lease: UNKNOWN_LEASE, ..self.put() }),
            4 => Op::Put(Put { ignore_lease: false, lease: UNKNOWN_LEASE, ..self.put() }),
            5 => Op::Range(Range { revision: future, ..self.range() }),
            6 => Op::Txn(self.wrong_txn(TxnOp::Empty)),
            7 => {
                let range = TxnOp::Range(Range { key: b"a".to_vec(), ..Range::default() });
                Op::Txn(Txn { success: vec![range; TXN_OPS_MAX + 1], ..Txn::default() })
            }
            8 => {
                let revision = *self.random.pick(&[-2, -1, future]);
                let range = TxnOp::Range(Range { revision, ..self.range() });
                let op = match self.options.old_revisions_in_writes {
                    true => range,
                    false => TxnOp::Txn(Txn { success: vec![range], ..Txn::default() }),
                };
                Op::Txn(self.wrong_txn(op))
            }
            _ => {
                let put = self.put();
                let mut txn = self.wrong_txn(TxnOp::Put(put.clone()));
                txn.success.push(TxnOp::Put(put));
                Op::Txn(txn)
            }
        }
    }

    /// A transaction that ends with this operation.
    fn wrong_txn(&mut self, op: TxnOp) -> Txn {
        let mut txn = self.txn(1);
        txn.success.push(op);
        txn
    }
}

#[cfg(test)]
mod tests;
