//! Compares extents with a model that holds each byte of the block.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// An extent of the record at offset `number`. Byte `i` of that record is modelled as `(number,
/// i)`.
fn extent(offset: u64, number: u32, bytes: u32) -> Extent {
    Extent::from_record(offset, Position { segment: 1, offset: number }, bytes)
}

fn put_model(model: &mut Vec<Option<(u32, u32)>>, extent: &Extent) {
    let end = extent.end() as usize;
    model.resize(model.len().max(end), None);
    for byte in 0..extent.length {
        model[extent.offset as usize + byte as usize] = Some((extent.at.offset, byte));
    }
}

fn bytes_of(extents: &[Extent]) -> Vec<Option<(u32, u32)>> {
    let bytes = |it: &Extent| {
        (it.skip..it.skip + it.length).map(|byte| Some((it.at.offset, byte))).collect::<Vec<_>>()
    };
    extents.iter().flat_map(bytes).collect()
}

proptest! {
    #[test]
    fn what_is_written_last_is_read(
        writes in prop::collection::vec((0u64..60, 1u32..30), 1..40),
        reads in prop::collection::vec((0u64..90, 0u64..90), 1..20),
    ) {
        let (mut extents, mut model) = (Extents::default(), Vec::new());
        let mut counts: BTreeMap<u32, i64> = BTreeMap::new();
        for (number, (offset, bytes)) in writes.into_iter().enumerate() {
            let extent = extent(offset, number as u32, bytes);
            extents.put(extent, &mut |extent, comes| {
                *counts.entry(extent.at.offset).or_insert(0) += if comes { i64::from(extent.length) } else { -i64::from(extent.length) };
            });
            put_model(&mut model, &extent);
        }
        prop_assert_eq!(extents.end(), model.len() as u64);
        for (start, length) in reads {
            let (start, end) = (start, start + length);
            let wanted: Vec<_> = (start..end).map(|at| model.get(at as usize).copied().flatten()).collect();
            let hole = wanted.iter().position(Option::is_none);
            match extents.within(start, end) {
                Ok(found) => {
                    prop_assert_eq!(hole, None);
                    prop_assert_eq!(bytes_of(&found), wanted);
                }
                Err(at) => prop_assert_eq!(Some((at - start) as usize), hole),
            }
        }
        let sorted: Vec<Extent> = extents.iter().collect();
        // All the changes together give the extents at the end.
        for extent in &sorted {
            *counts.entry(extent.at.offset).or_insert(0) -= i64::from(extent.length);
        }
        prop_assert!(counts.values().all(|count| *count == 0));
        prop_assert!(sorted.windows(2).all(|pair| pair[0].end() <= pair[1].offset));
        prop_assert!(sorted.iter().all(|it| it.length > 0 && it.skip + it.length <= it.body_bytes));
    }
}

#[test]
fn nothing_of_nothing_is_there() {
    assert_eq!(Extents::default().within(0, 0), Ok(Vec::new()));
    assert_eq!(Extents::default().within(0, 1), Err(0));
}

#[test]
fn a_block_that_is_written_in_order_is_one_run() {
    let put = |starts: &[u32]| {
        let mut extents = Extents::default();
        for (number, start) in starts.iter().enumerate() {
            extents.put(extent(1000 * number as u64, *start, 1000), &mut |_, _| {});
        }
        assert_eq!(extents.iter().map(|it| it.at.offset).collect::<Vec<_>>(), starts);
        extents
    };
    let even = put(&[4096, 8192, 12_288, 16_384]);
    assert_eq!(even.runs().len(), 1);
    let starts = Starts::Even { first: 4096, step: 4096, count: 4 };
    assert_eq!(even.runs()[0].starts, starts);
    let uneven = put(&[4096, 8192, 12_288, 20_000, 30_000]);
    assert_eq!(uneven.runs().len(), 1);
    assert_eq!(uneven.within(3500, 4500).map(|parts| parts.len()), Ok(2));
    assert_eq!(size_of::<Run>(), 48);
}
