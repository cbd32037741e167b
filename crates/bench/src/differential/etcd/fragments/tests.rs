use super::*;

/// For each key that a transaction puts, the bytes of its value.
fn values(request: &Request) -> BTreeMap<Bytes, usize> {
    let Request::Txn(txn) = request else { panic!("{request:?}") };
    let puts = txn.success.iter().map(|op| match &op.request {
        Some(Op::RequestPut(put)) => (put.key.clone(), put.value.len()),
        other => panic!("{other:?}"),
    });
    puts.collect()
}

#[test]
fn each_request_is_within_the_limit_and_no_cut_is_near_it() {
    for seed in 0..50 {
        let writes = writes(seed);
        assert_eq!(writes.last(), Some(&Request::DeleteRange(everything())));
        for write in &writes[..writes.len() - 1] {
            let sizes = values(write);
            assert!(sizes.values().sum::<usize>() as u64 <= UNITS_MAX * UNIT_BYTES);
            assert!(sizes.values().all(|size| (*size as u64).is_multiple_of(UNIT_BYTES)));
            // The key twice, the numbers, and the tags and lengths of an event.
            let beside: usize = sizes.keys().map(|key| 2 * key.len() + 60).sum();
            assert!((beside as u64) < UNIT_BYTES);
        }
        // Each put has more than half of the bytes of a fragment, and the second one's events also
        // have the first one's values.
        let bytes = |number: usize| values(&writes[number]).values().sum::<usize>();
        assert!([0, 1, 2].iter().all(|number| bytes(*number) > 1 << 20));
    }
}

#[test]
fn writes_are_equal_for_equal_seeds() {
    assert_eq!(writes(7), writes(7));
    assert_ne!(writes(7), writes(8));
}
