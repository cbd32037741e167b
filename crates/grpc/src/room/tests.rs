//! Tests of rooms that wait for each other, and of finishers.

use tokio::task::yield_now;

use super::*;

const KIB: usize = 1024;

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(test);
}

/// The shares of a new connection from a new address.
fn shares(all: &Arc<Share>) -> Shares {
    Arc::new([Share::new(1024 * KIB), Share::new(1024 * KIB), all.clone()])
}

#[test]
fn requests_that_have_parts_of_all_room_are_all_finished() {
    run(async {
        let all = Share::new(64 * KIB);
        // Each request fits by itself, but together they need twice the share: each gets only a
        // part.
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let shares = shares(&all);
                tokio::spawn(async move {
                    let mut room = Room::new(&shares);
                    for step in 1..=8 {
                        room.grow_to(step * KIB).await;
                        yield_now().await;
                    }
                    number
                })
            })
            .collect();
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.expect("it ends"), number);
        }
        assert_eq!(all.free.available_permits(), 64);
        assert_eq!(all.waiting.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn connections_of_one_address_finish_in_their_share_and_leave_the_others() {
    run(async {
        let all = Share::new(64 * KIB);
        let address = Share::new(16 * KIB);
        let of_address = || Arc::new([Share::new(16 * KIB), address.clone(), all.clone()]);
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let shares = of_address();
            tasks.push(tokio::spawn(async move {
                let mut room = Room::new(&shares);
                for step in 1..=8 {
                    room.grow_to(step * KIB).await;
                    yield_now().await;
                }
            }));
        }
        // The holders have 16 KiB, and one of them 8 KiB more, so other clients always find room.
        for _ in 0..100 {
            let mut other = Room::new(&shares(&all));
            other.grow_to(32 * KIB).await;
            assert!(!other.is_waited_for());
            yield_now().await;
        }
        for task in tasks {
            task.await.expect("it ends");
        }
        assert_eq!(all.free.available_permits(), 64);
    });
}

#[test]
fn more_than_a_share_is_the_whole_of_it() {
    run(async {
        let all = Share::new(8 * KIB);
        let mut room = Room::new(&shares(&all));
        room.grow_to(100 * KIB).await;
        assert_eq!(all.free.available_permits(), 0);
        room.shrink_to(3 * KIB);
        assert_eq!(all.free.available_permits(), 5);
        drop(room);
        assert_eq!(all.free.available_permits(), 8);
    });
}

#[test]
fn one_that_holds_room_knows_that_it_is_waited_for() {
    run(async {
        let all = Share::new(8 * KIB);
        let mut holder = Room::new(&shares(&all));
        holder.grow_to(8 * KIB).await;
        assert!(!holder.is_waited_for());
        // The first waiter becomes the finisher and needs no room; the second one waits for the
        // finisher.
        let mut first = Room::new(&shares(&all));
        first.grow_to(KIB).await;
        assert!(first.is_finisher());
        let of_second = shares(&all);
        let second = tokio::spawn(async move { Room::new(&of_second).grow_to(KIB).await });
        yield_now().await;
        assert!(holder.is_waited_for());
        drop(holder);
        second.await.expect("it gets room");
        assert!(!first.is_waited_for());
    });
}

#[test]
fn room_beside_that_of_a_finisher_is_had_at_once() {
    run(async {
        let all = Share::new(8 * KIB);
        let mut holder = Room::new(&shares(&all));
        holder.grow_to(8 * KIB).await;
        let mut found = Room::new(&shares(&all));
        found.grow_to(KIB).await;
        // If it were not exempt like `found`, this room would wait for its own client.
        let mut part = found.beside();
        part.grow_to(4 * KIB).await;
        assert!(part.is_finisher());
    });
}

#[test]
fn room_that_is_split_off_comes_back_by_itself() {
    run(async {
        let all = Share::new(8 * KIB);
        let mut room = Room::new(&shares(&all));
        room.grow_to(6 * KIB).await;
        let piece = room.split_beyond(5 * KIB);
        let nothing = room.split_beyond(5 * KIB);
        assert!(nothing.is_empty());
        assert_eq!(all.free.available_permits(), 2);
        drop(piece);
        assert_eq!(all.free.available_permits(), 3);
        drop(room);
        assert_eq!(all.free.available_permits(), 8);
    });
}

#[test]
fn what_is_larger_than_a_share_gives_nothing_back_before_the_rest_fits() {
    run(async {
        let all = Share::new(8 * KIB);
        let mut room = Room::new(&shares(&all));
        room.grow_to(100 * KIB).await;
        drop(room.split_beyond(99 * KIB));
        drop(room.split_beyond(8 * KIB));
        assert_eq!(all.free.available_permits(), 0);
        drop(room.split_beyond(7 * KIB));
        assert_eq!(all.free.available_permits(), 1);
    });
}
