//! Tests which threads wake up when a sync (a round) is over.

use std::sync::Arc;

use super::*;

#[test]
fn who_waits_for_a_round_goes_on_when_it_is_over_and_not_before() {
    // Also when the round numbers wrap around.
    for first in [1u32, u32::MAX - 4] {
        let rounds = Arc::new(Rounds::default());
        rounds.end(first.wrapping_sub(2));
        rounds.end(first.wrapping_sub(1));
        let over = Arc::new(AtomicU32::new(0));
        let mut threads: Vec<_> = (0..16u32)
            .map(|number| {
                let (rounds, over) = (Arc::clone(&rounds), Arc::clone(&over));
                std::thread::spawn(move || {
                    rounds.wait_for_end(first.wrapping_add(number / 2));
                    assert!(over.load(Ordering::SeqCst) > number / 2);
                })
            })
            .collect();
        let leader = (Arc::clone(&rounds), Arc::clone(&over));
        threads.push(std::thread::spawn(move || {
            let (rounds, over) = leader;
            for ahead in 0..8u32 {
                rounds.wait_for_turn(first.wrapping_add(ahead));
                assert!(over.load(Ordering::SeqCst) >= ahead);
            }
        }));
        for ahead in 0..8u32 {
            over.store(ahead + 1, Ordering::SeqCst);
            rounds.end(first.wrapping_add(ahead));
            std::thread::yield_now();
        }
        for thread in threads {
            thread.join().expect("ends");
        }
    }
}
