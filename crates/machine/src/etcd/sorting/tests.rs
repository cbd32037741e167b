use super::Sorting;
use crate::etcd::command::{KeyRange, RangeOp, SortOrder, SortTarget};
use crate::etcd::event::{Event, Place, Version};
use crate::etcd::range::Order;
use crate::machine::tests::rig::Random;

#[test]
fn steps_of_any_size_order_versions_as_a_whole_sort_does() {
    let mut random = Random(1);
    let range = KeyRange { key: b"\0", end: b"\0" };
    for count in [0, 1, 2, 255, 256, 257, 1_000, 1_025] {
        for order in [SortOrder::Ascend, SortOrder::Descend] {
            for target in [SortTarget::Create, SortTarget::Value, SortTarget::Version] {
                let op = RangeOp { order, target, ..RangeOp::of(range) };
                let order = Order::of(&op).expect("it is not that of the keys");
                let events: Vec<Event> = (0..count).map(|key| version(key, &mut random)).collect();
                let mut expected = events.clone();
                expected.sort_by(|one, other| order.compare(one, other));
                let mut sorting = Sorting::new(order, events, Vec::new());
                while !sorting.step(&mut (1 + random.below(300) as u64)) {}
                assert_eq!(sorting.finish(), expected);
            }
        }
    }
}

/// A version of a key. Its numbers are often equal to those of other versions.
fn version(key: usize, random: &mut Random) -> Event {
    let place = Place { revision: 100, sub: key as u32 };
    let numbers = Version {
        create_revision: 1 + random.below(9) as i64,
        version: 1 + random.below(9) as i64,
        lease: 0,
    };
    Event::put(place, format!("{key:05}").as_bytes(), numbers, &[random.below(9) as u8])
}
