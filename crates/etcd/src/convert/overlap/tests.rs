use machine::etcd::command::{DeleteRange, Put};

use super::*;

fn put(key: &str) -> Op<'_> {
    let (prev_kv, ignore_value, ignore_lease) = (false, false, false);
    let put =
        Put { key: key.as_bytes(), value: b"", lease: 0, prev_kv, ignore_value, ignore_lease };
    Op::Put(put)
}

fn delete<'a>(key: &'a str, end: &'a str) -> Op<'a> {
    let range = KeyRange { key: key.as_bytes(), end: end.as_bytes() };
    Op::DeleteRange(DeleteRange { range, prev_kv: false })
}

fn both<'a>(success: Vec<Op<'a>>, failure: Vec<Op<'a>>) -> Op<'a> {
    Op::Txn(Txn { compares: Vec::new(), success, failure })
}

fn one(success: Vec<Op<'_>>) -> Op<'_> {
    both(success, Vec::new())
}

fn is_refused(ops: Vec<Op<'_>>) -> bool {
    let txn = Txn { compares: Vec::new(), success: ops, failure: Vec::new() };
    check(&txn).is_err()
}

#[test]
fn a_list_may_put_a_key_once() {
    let check = |ops: Vec<Op<'_>>, refused: bool| assert_eq!(is_refused(ops), refused);
    check(vec![], false);
    check(vec![put("a"), put("b")], false);
    check(vec![put("a"), put("b"), put("a")], true);
    check(vec![put("a"), one(vec![put("a")])], true);
    check(vec![one(vec![put("a")]), put("a")], true);
    check(vec![one(vec![put("a")]), one(vec![put("a")])], true);
    check(vec![one(vec![put("a")]), both(vec![], vec![put("a")])], true);
    check(vec![one(vec![one(vec![put("a")])]), put("a")], true);
}

#[test]
fn the_branches_of_a_nested_txn_may_share_keys() {
    let check = |ops: Vec<Op<'_>>, refused: bool| assert_eq!(is_refused(ops), refused);
    check(vec![both(vec![put("a")], vec![put("a")])], false);
    check(vec![both(vec![put("a")], vec![delete("a", "")])], false);
    check(vec![both(vec![delete("a", "c")], vec![put("a"), put("b")])], false);
    check(vec![both(vec![put("a")], vec![put("a")]), put("a")], true);
    check(vec![both(vec![put("a")], vec![put("a"), put("a")])], true);
}

#[test]
fn a_put_may_not_meet_a_delete() {
    let check = |ops: Vec<Op<'_>>, refused: bool| assert_eq!(is_refused(ops), refused);
    check(vec![put("a"), delete("a", "")], true);
    check(vec![delete("a", ""), put("a")], true);
    check(vec![delete("a", ""), put("aa")], false);
    check(vec![delete("a", "c"), put("a")], true);
    check(vec![delete("a", "c"), put("b")], true);
    check(vec![delete("a", "c"), put("c")], false);
    check(vec![delete("b", "c"), put("a")], false);
    check(vec![delete("c", "a"), put("b")], false);
    check(vec![delete("a", ""), one(vec![put("a")])], true);
    check(vec![one(vec![put("a")]), delete("a", "")], true);
    check(vec![one(vec![delete("a", "")]), put("a")], true);
    check(vec![put("a"), one(vec![delete("a", "")])], true);
}

#[test]
fn deletes_may_meet() {
    assert!(!is_refused(vec![delete("a", ""), delete("a", "")]));
    assert!(!is_refused(vec![delete("a", "c"), delete("b", "d"), one(vec![delete("a", "z")])]));
}

#[test]
fn a_nested_put_meets_only_the_deletes_of_nested_txns_before_it() {
    assert!(is_refused(vec![one(vec![delete("a", "")]), one(vec![put("a")])]));
    assert!(!is_refused(vec![one(vec![put("a")]), one(vec![delete("a", "")])]));
}

#[test]
fn a_delete_up_to_the_end_of_all_keys_meets_no_put() {
    assert!(!is_refused(vec![delete("a", "\0"), put("b")]));
    assert!(!is_refused(vec![delete("\0", "\0"), put("b")]));
}

#[test]
fn the_failure_branch_is_checked_too() {
    let txn = Txn { compares: Vec::new(), success: Vec::new(), failure: vec![put("a"), put("a")] };
    assert_eq!(check(&txn), Err(Error::DuplicateKey));
}

#[test]
fn merged_ranges_contain_what_each_contains() {
    let mut ranges = Ranges::default();
    for (key, end) in [("d", "f"), ("a", "b"), ("h", "j"), ("b", "c"), ("e", "i"), ("x", "")] {
        ranges.add(KeyRange { key: key.as_bytes(), end: end.as_bytes() });
    }
    let inside: String =
        ('a'..='z').filter(|key| ranges.contain(key.to_string().as_bytes())).collect();
    assert_eq!(inside, "abdefghix");
    assert_eq!(ranges.ends.len(), 2);
}

/// The keys that a list puts, and the ranges that it deletes: a second, naive `checkIntervals` on
/// plain lists.
type Plain<'a> = (Vec<&'a [u8]>, Vec<KeyRange<'a>>);

fn plain<'a>(ops: &[Op<'a>]) -> Option<Plain<'a>> {
    let holds = |ranges: &[KeyRange<'_>], key: &[u8]| {
        ranges.iter().any(|range| {
            if range.end.is_empty() {
                key == range.key
            } else {
                key >= range.key && key < range.end
            }
        })
    };
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    for op in ops {
        if let Op::DeleteRange(delete) = op {
            deletes.push(delete.range);
        }
    }
    for op in ops {
        if let Op::Txn(txn) = op {
            let (success, failure) = (plain(&txn.success)?, plain(&txn.failure)?);
            let nested: Vec<&[u8]> = success.0.iter().chain(&failure.0).copied().collect();
            if nested.iter().any(|key| puts.contains(key) || holds(&deletes, key)) {
                return None;
            }
            puts.extend(nested);
            deletes.extend(success.1.into_iter().chain(failure.1));
        }
    }
    for op in ops {
        if let Op::Put(put) = op {
            if puts.contains(&put.key) || holds(&deletes, put.key) {
                return None;
            }
            puts.push(put.key);
        }
    }
    Some((puts, deletes))
}

/// A small generator (splitmix64): equal seeds give equal numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }

    fn key(&mut self) -> &'static str {
        const KEYS: &str = "abcdefghijklmnopqrst";
        let at = self.below(KEYS.len() as u64) as usize;
        &KEYS[at..=at]
    }

    fn ops(&mut self, depth: u32) -> Vec<Op<'static>> {
        let count = self.below(4);
        (0..count).map(|_| self.op(depth)).collect()
    }

    fn op(&mut self, depth: u32) -> Op<'static> {
        match self.below(8) {
            0..3 => put(self.key()),
            3 => delete(self.key(), ""),
            4 => delete(self.key(), self.key()),
            5 if self.below(4) == 0 => delete(self.key(), "\0"),
            _ if depth > 0 => both(self.ops(depth - 1), self.ops(depth - 1)),
            _ => put(self.key()),
        }
    }
}

#[test]
fn random_txns_are_judged_as_by_the_plain_rule() {
    let mut refused = 0;
    for seed in 0..20_000 {
        let ops = Chance(seed).ops(3);
        let expected = plain(&ops).is_none();
        assert_eq!(Touched::of(&ops).is_err(), expected, "seed {seed}: {ops:?}");
        refused += u32::from(expected);
    }
    assert!((2_000..18_000).contains(&refused), "{refused} refused: both must come often");
}
