use bytes::Bytes;

use super::*;

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn range_of(key: &'static str) -> pb::RangeRequest {
    pb::RangeRequest { key: bytes(key), ..Default::default() }
}

fn put_of(key: &'static str) -> pb::PutRequest {
    pb::PutRequest { key: bytes(key), value: bytes("v"), ..Default::default() }
}

fn delete_of(key: &'static str) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest { key: bytes(key), ..Default::default() }
}

fn op_of(request: Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

fn compare_of(key: &'static str, result: i32, target: i32) -> pb::Compare {
    pb::Compare { key: bytes(key), result, target, ..Default::default() }
}

fn txn_of(success: Vec<pb::RequestOp>, failure: Vec<pb::RequestOp>) -> pb::TxnRequest {
    pb::TxnRequest { compare: Vec::new(), success, failure }
}

/// `count` reads of one key.
fn reads(count: usize) -> Vec<pb::RequestOp> {
    vec![op_of(Request::RequestRange(range_of("k"))); count]
}

fn nested(txn: pb::TxnRequest) -> pb::RequestOp {
    op_of(Request::RequestTxn(txn))
}

#[test]
fn a_range_needs_a_key_and_known_orders() {
    let check = |change: fn(&mut pb::RangeRequest), expected: Option<Error>| {
        let mut request = range_of("k");
        change(&mut request);
        assert_eq!(range(&request).err(), expected, "{request:?}");
    };
    check(|_| {}, None);
    check(|r| r.key.clear(), Some(Error::EmptyKey));
    check(|r| (r.key, r.sort_order) = (Bytes::new(), 9), Some(Error::EmptyKey));
    check(|r| r.sort_order = 2, None);
    check(|r| r.sort_order = 3, Some(Error::InvalidSortOption));
    check(|r| r.sort_order = -1, Some(Error::InvalidSortOption));
    check(|r| r.sort_target = 4, None);
    check(|r| r.sort_target = 5, Some(Error::InvalidSortOption));
    check(|r| r.sort_target = i32::MIN, Some(Error::InvalidSortOption));
    check(|r| r.limit = -5, None);
    check(|r| r.revision = -1, None);
}

#[test]
fn a_range_keeps_every_field() {
    let request = pb::RangeRequest {
        key: bytes("a"),
        range_end: bytes("b"),
        limit: 3,
        revision: 4,
        sort_order: 2,
        sort_target: 3,
        serializable: true,
        keys_only: true,
        count_only: true,
        min_mod_revision: 10,
        max_mod_revision: 11,
        min_create_revision: 12,
        max_create_revision: 13,
    };
    let expected = RangeOp {
        range: KeyRange { key: b"a", end: b"b" },
        limit: 3,
        revision: 4,
        order: SortOrder::Descend,
        target: SortTarget::Mod,
        keys_only: true,
        count_only: true,
        mod_revision: Bounds { min: 10, max: 11 },
        create_revision: Bounds { min: 12, max: 13 },
    };
    assert_eq!(range(&request), Ok(expected));
}

#[test]
fn a_put_that_keeps_a_field_may_not_have_it() {
    let check = |change: fn(&mut pb::PutRequest), expected: Option<Error>| {
        let mut request = put_of("k");
        change(&mut request);
        assert_eq!(put(&request).err(), expected, "{request:?}");
    };
    check(|_| {}, None);
    check(|p| p.value.clear(), None);
    check(|p| p.key.clear(), Some(Error::EmptyKey));
    check(|p| p.ignore_value = true, Some(Error::ValueProvided));
    check(|p| (p.ignore_value, p.value) = (true, Bytes::new()), None);
    check(|p| (p.ignore_lease, p.lease) = (true, 7), Some(Error::LeaseProvided));
    check(|p| p.ignore_lease = true, None);
    check(|p| (p.lease, p.ignore_value) = (7, true), Some(Error::ValueProvided));
}

#[test]
fn a_put_keeps_every_field() {
    let request = pb::PutRequest { lease: 5, prev_kv: true, ..put_of("k") };
    let expected = Put {
        key: b"k",
        value: b"v",
        lease: 5,
        prev_kv: true,
        ignore_value: false,
        ignore_lease: false,
    };
    assert_eq!(put(&request), Ok(expected));
}

#[test]
fn a_delete_needs_a_key() {
    assert_eq!(delete_range(&delete_of("")), Err(Error::EmptyKey));
    let request = pb::DeleteRangeRequest { range_end: bytes("b"), prev_kv: true, ..delete_of("a") };
    let range = KeyRange { key: b"a", end: b"b" };
    assert_eq!(delete_range(&request), Ok(DeleteRange { range, prev_kv: true }));
}

#[test]
fn a_compaction_may_name_any_revision() {
    let request = pb::CompactionRequest { revision: -3, physical: true };
    assert_eq!(compaction(&request), Command::Compact { revision: -3 });
}

#[test]
fn the_longest_list_of_a_txn_is_bounded() {
    let check = |counts: [usize; 3], expected: Option<Error>| {
        let [compares, success, failure] = counts;
        let request = pb::TxnRequest {
            compare: vec![compare_of("k", 0, 0); compares],
            success: reads(success),
            failure: reads(failure),
        };
        assert_eq!(txn(&request, 3).err(), expected, "{counts:?}");
    };
    check([0, 0, 0], None);
    check([3, 3, 3], None);
    check([4, 0, 0], Some(Error::TooManyOps));
    check([0, 4, 0], Some(Error::TooManyOps));
    check([0, 0, 4], Some(Error::TooManyOps));
}

#[test]
fn nested_ops_count_against_what_the_longest_list_leaves() {
    let check = |outer: usize, inner: usize, expected: Option<Error>| {
        let mut success = reads(outer);
        success.push(nested(txn_of(reads(inner), Vec::new())));
        assert_eq!(txn(&txn_of(success, Vec::new()), 5).err(), expected, "{outer} {inner}");
    };
    check(0, 4, None);
    check(0, 5, Some(Error::TooManyOps));
    check(4, 0, None);
    check(4, 1, Some(Error::TooManyOps));
    check(5, 0, Some(Error::TooManyOps));
}

/// A transaction nested in `depth` others.
fn deep(depth: usize) -> pb::TxnRequest {
    (0..depth).fold(pb::TxnRequest::default(), |txn, _| txn_of(vec![nested(txn)], Vec::new()))
}

#[test]
fn the_depth_is_bounded_by_the_ops_and_by_the_format() {
    assert_eq!(txn(&deep(128), 128).err(), None);
    assert_eq!(txn(&deep(129), 128).err(), Some(Error::TooManyOps));
    assert_eq!(txn(&deep(TXN_DEPTH_MAX), usize::MAX).err(), None);
    assert_eq!(txn(&deep(TXN_DEPTH_MAX + 1), usize::MAX).err(), Some(Error::TooManyOps));
}

#[test]
fn the_total_of_ops_is_bounded_by_the_format() {
    let wide = |inner: usize| {
        let inner = nested(txn_of(reads(inner), Vec::new()));
        txn_of(vec![inner; 1_000], Vec::new())
    };
    assert_eq!(txn(&wide(999), usize::MAX).err(), None);
    assert_eq!(txn(&wide(1_000), usize::MAX).err(), Some(Error::TooManyOps));
}

#[test]
fn checks_come_in_the_order_of_etcd() {
    let check = |request: pb::TxnRequest, expected: Error| {
        assert_eq!(txn(&request, 2).err(), Some(expected), "{request:?}");
    };
    let no_key = || op_of(Request::RequestPut(put_of("")));
    let bad_sort = pb::RangeRequest { sort_order: 9, ..range_of("k") };
    let bad_sort = || op_of(Request::RequestRange(bad_sort.clone()));
    let put = || op_of(Request::RequestPut(put_of("k")));
    let empty = pb::RequestOp::default;
    let with_bad_compare = |txn| pb::TxnRequest { compare: vec![compare_of("", 0, 0)], ..txn };
    check(with_bad_compare(txn_of(reads(3), vec![])), Error::TooManyOps);
    check(with_bad_compare(txn_of(vec![empty()], vec![])), Error::EmptyKey);
    check(txn_of(vec![empty(), no_key()], vec![]), Error::KeyNotFound);
    check(txn_of(vec![no_key(), empty()], vec![]), Error::EmptyKey);
    check(txn_of(vec![put(), put()], vec![no_key()]), Error::EmptyKey);
    check(txn_of(vec![put(), put()], vec![bad_sort()]), Error::InvalidSortOption);
    check(txn_of(vec![put(), put()], vec![]), Error::DuplicateKey);
    check(txn_of(vec![], vec![put(), put()]), Error::DuplicateKey);
    check(txn_of(vec![nested(txn_of(reads(2), vec![])), empty()], vec![]), Error::TooManyOps);
}

#[test]
fn both_branches_of_a_txn_may_put_one_key() {
    let put = || vec![op_of(Request::RequestPut(put_of("k")))];
    let request = txn_of(put(), put());
    let found = txn(&request, 128).expect("it may");
    assert_eq!((found.success.len(), found.failure.len()), (1, 1));
}

#[test]
fn a_request_that_is_there_but_empty_is_checked_as_such() {
    let check = |request: Request, expected: Option<Error>| {
        assert_eq!(txn(&txn_of(vec![op_of(request)], vec![]), 128).err(), expected);
    };
    check(Request::RequestRange(Default::default()), Some(Error::EmptyKey));
    check(Request::RequestPut(Default::default()), Some(Error::EmptyKey));
    check(Request::RequestDeleteRange(Default::default()), Some(Error::EmptyKey));
    check(Request::RequestTxn(Default::default()), None);
}

#[test]
fn a_comparison_takes_the_operand_of_its_field_only() {
    let check = |target: i32, operand: Option<TargetUnion>, expected: CompareTarget<'_>| {
        let request = pb::Compare { target_union: operand, ..compare_of("k", 1, target) };
        let found = compare(&request).expect("it has a key");
        assert_eq!((found.relation, found.target), (Relation::Greater, expected));
    };
    check(0, Some(TargetUnion::Version(7)), CompareTarget::Version(7));
    check(1, Some(TargetUnion::CreateRevision(7)), CompareTarget::Create(7));
    check(2, Some(TargetUnion::ModRevision(7)), CompareTarget::Mod(7));
    check(3, Some(TargetUnion::Value(bytes("v"))), CompareTarget::Value(b"v"));
    check(4, Some(TargetUnion::Lease(7)), CompareTarget::Lease(7));
    check(0, Some(TargetUnion::ModRevision(7)), CompareTarget::Version(0));
    check(1, Some(TargetUnion::Version(7)), CompareTarget::Create(0));
    check(2, None, CompareTarget::Mod(0));
    check(3, Some(TargetUnion::Lease(7)), CompareTarget::Value(b""));
    check(4, Some(TargetUnion::Value(bytes("v"))), CompareTarget::Lease(0));
}

#[test]
fn unknown_numbers_of_a_comparison_mean_what_they_do_in_etcd() {
    let check = |result: i32, target: i32, expected: (Relation, CompareTarget<'_>)| {
        let request = compare_of("k", result, target);
        let found = compare(&request).expect("it has a key");
        assert_eq!((found.relation, found.target), expected, "{result} {target}");
        assert_eq!(found.range, KeyRange { key: b"k", end: b"" });
    };
    check(0, 3, (Relation::Equal, CompareTarget::Value(b"")));
    check(2, 0, (Relation::Less, CompareTarget::Version(0)));
    check(3, 1, (Relation::NotEqual, CompareTarget::Create(0)));
    // An unknown field equals its operand.
    check(0, 5, ALWAYS);
    check(1, 5, NEVER);
    check(2, -1, NEVER);
    check(3, 99, NEVER);
    // An unknown relation holds, except for the value of a missing key.
    check(4, 0, ALWAYS);
    check(-1, 2, ALWAYS);
    check(4, 3, EXISTS);
    check(4, 5, ALWAYS);
}

#[test]
fn a_read_with_an_order_or_bounds_of_revisions_is_not_streamed() {
    let check = |change: fn(&mut pb::RangeRequest), expected: Option<StreamRefused>| {
        let mut request = pb::RangeRequest { key: bytes("k"), ..Default::default() };
        change(&mut request);
        assert_eq!(range_stream(&request).err(), expected, "{request:?}");
    };
    let order =
        Some(StreamRefused::Unimplemented("RangeStream does not support custom sort orders"));
    let filter =
        Some(StreamRefused::Unimplemented("RangeStream does not support revision filters"));
    check(|_| {}, None);
    check(|request| request.sort_order = 1, None);
    check(|request| request.sort_target = 3, None);
    check(|request| (request.limit, request.keys_only, request.revision) = (3, true, 9), None);
    check(|request| request.sort_order = 2, order);
    check(|request| (request.sort_order, request.sort_target) = (1, 2), order);
    check(|request| request.min_mod_revision = 1, filter);
    check(|request| request.max_create_revision = 1, filter);
    check(|request| request.key = Bytes::new(), Some(Error::EmptyKey.into()));
    check(|request| request.sort_order = 9, Some(Error::InvalidSortOption.into()));
}
