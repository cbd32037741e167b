//! Streams repeat, and hold a bit of everything.

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
fn magnitudes_stay_between_their_bounds() {
    let mut random = Random::new(3);
    for _ in 0..10_000 {
        let drawn = random.magnitude(5, 5000);
        assert!((5..=5000).contains(&drawn));
    }
    assert_eq!(random.magnitude(9, 9), 9);
}
