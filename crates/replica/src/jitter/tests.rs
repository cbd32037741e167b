use super::*;

fn draw(seed: u64, member_id: u64, term: u64, attempt: u64) -> usize {
    election_timeout_ticks(Draw { seed, member_id, term, attempt }, 10)
}

#[test]
fn timeout_is_within_one_and_two_election_periods() {
    for attempt in 0..1000 {
        assert!((10..20).contains(&draw(7, 1, 3, attempt)));
    }
    let smallest = Draw { seed: 1, member_id: 1, term: 1, attempt: 1 };
    assert_eq!(election_timeout_ticks(smallest, 1), 1);
}

#[test]
fn timeout_depends_on_each_argument() {
    let differs = |other: fn(u64) -> usize| (1..50).any(|n| other(n) != draw(0, 0, 0, 0));
    assert!(differs(|n| draw(n, 0, 0, 0)));
    assert!(differs(|n| draw(0, n, 0, 0)));
    assert!(differs(|n| draw(0, 0, n, 0)));
    assert!(differs(|n| draw(0, 0, 0, n)));
    assert_eq!(draw(5, 6, 7, 8), draw(5, 6, 7, 8));
}

#[test]
fn members_whose_seeds_are_their_ids_draw_different_timeouts() {
    for term in 1..20 {
        assert!((1..50).any(|id| draw(id, id, term, 0) != draw(0, 0, term, 0)));
    }
}
