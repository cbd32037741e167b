//! Streams are repeatable and contain every kind of operation.

use super::*;

#[test]
fn one_seed_gives_one_stream() {
    let stream = |seed| {
        let mut generator = Generator::new(Random::new(seed), 1, 50);
        (0..200).map(|_| generator.next_op()).collect::<Vec<_>>()
    };
    assert_eq!(stream(7), stream(7));
    assert_ne!(stream(7), stream(8));
}

#[test]
fn a_stream_holds_every_kind_of_operation() {
    let mut generator = Generator::new(Random::new(1), 1, 50);
    let ops: Vec<Op> = (0..2000).map(|_| generator.next_op()).collect();
    let has = |wanted: &dyn Fn(&Op) -> bool| assert!(ops.iter().any(wanted));
    for wanted in 0..=5 {
        has(&|op| matches!(op, Op::Create { flag, .. } if *flag == wanted));
    }
    has(&|op| matches!(op, Op::Delete { .. }));
    has(&|op| matches!(op, Op::SetAcl { .. }));
    has(&|op| matches!(op, Op::Multi(ops) if ops.iter().any(|op| matches!(op, Op::Check { .. }))));
    has(&|op| matches!(op, Op::MultiRead(_)));
    has(&|op| matches!(op, Op::Sync { .. }));
    has(&|op| matches!(op, Op::GetChildren { watch: true, .. }));
}

#[test]
fn a_stream_with_more_holds_what_goes_by_itself_and_quotas() {
    let mut generator = Generator::new(Random::new(1), 1, 50);
    generator.add_more(Random::new(2));
    let ops: Vec<Op> = (0..4000).map(|_| generator.next_op()).collect();
    let mut flat: Vec<&Op> = ops.iter().collect();
    flat.extend(ops.iter().flat_map(|op| match op {
        Op::Multi(ops) => ops.as_slice(),
        _ => &[],
    }));
    let has = |wanted: &dyn Fn(&Op) -> bool| assert!(flat.iter().any(|op| wanted(op)));
    let requests = |op: &Op, wanted: &dyn Fn(CreateRequest, i32) -> bool| match op {
        Op::Create { request, flag, .. } => wanted(*request, *flag),
        _ => false,
    };
    for wanted in [flag::CONTAINER, flag::PERSISTENT_SEQUENTIAL] {
        has(&|op| requests(op, &|by, flag| by == CreateRequest::Container && flag == wanted));
    }
    for wanted in [flag::TTL, flag::SEQUENTIAL_TTL] {
        let is_ttl = |by| matches!(by, CreateRequest::Ttl { ttl_ms: 1.. });
        has(&|op| requests(op, &|by, flag| is_ttl(by) && flag == wanted));
    }
    has(&|op| requests(op, &|by, _| by == CreateRequest::Ttl { ttl_ms: 0 }));
    for name in ["zookeeper_limits", "zookeeper_stats"] {
        let of = |path: &str| path.starts_with("/zookeeper/quota") && path.ends_with(name);
        has(&|op| matches!(op, Op::Create { path, .. } if of(path)));
        has(&|op| matches!(op, Op::SetData { path, .. } if of(path)));
        has(&|op| matches!(op, Op::Delete { path, .. } if of(path)));
    }
    has(&|op| matches!(op, Op::Multi(ops) if ops.len() == 3));
    let in_multi = ops.iter().flat_map(|op| match op {
        Op::Multi(ops) => ops.as_slice(),
        _ => &[],
    });
    let fits =
        |op: &Op| op.is_write() && !matches!(op, Op::Multi(_)) || matches!(op, Op::Check { .. });
    assert!(in_multi.into_iter().all(fits));
}

#[test]
fn magnitudes_stay_between_their_bounds() {
    let mut random = Random::new(3);
    for _ in 0..10_000 {
        let drawn = random.magnitude(5, 5000);
        assert!((5..=5000).contains(&drawn));
    }
    assert_eq!(random.magnitude(9, 9), 9);
}
