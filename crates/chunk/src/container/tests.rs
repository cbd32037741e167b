//! Tests the encoding of a container, and the counts of bytes and blocks in its index.

use super::*;

fn index() -> Index {
    let metadata = vec![KeyValue { key: "owner".to_owned(), value: Some("x".to_owned()) }];
    Index::new(State::QuasiClosed, metadata, Some(3))
}

#[test]
fn a_container_comes_back_as_it_was() {
    for layout in Layout::ALL {
        let (found, back) = decode_container(&encode_container(layout, &index())).expect("reads");
        assert_eq!(found, layout);
        assert_eq!(back.state, State::QuasiClosed);
        assert_eq!(back.metadata, index().metadata);
        assert_eq!(back.replica_index, Some(3));
    }
}

#[test]
fn a_container_that_is_cut_off_or_unknown_is_refused() {
    let bytes = encode_container(Layout::Log, &index());
    for count in 0..bytes.len() {
        assert!(decode_container(&bytes[..count]).is_err(), "{count} bytes");
    }
    for (at, value) in [(0, 0), (0, 4), (1, 0), (1, 7), (1, 9)] {
        let mut bad = bytes.clone();
        bad[at] = value;
        assert!(decode_container(&bad).is_err(), "byte {at} is {value}");
    }
}

#[test]
fn states_have_their_numbers() {
    for state in State::ALL {
        assert_eq!(State::from_number(state.number()), Some(state));
    }
    assert_eq!(State::from_number(7), None);
}

#[test]
fn bytes_and_blocks_are_counted_once() {
    let commit =
        |length| Commit { at: Position::default(), body_bytes: 1, length, commit_sequence_id: 5 };
    let mut index = index();
    index.grow(1, 100);
    index.grow(1, 50);
    index.grow(2, 10);
    assert_eq!((index.bytes_used, index.block_count), (110, 0));
    let live = Live::default();
    index.put_commit(1, commit(100), &live);
    index.put_commit(1, commit(100), &live);
    assert_eq!((index.bytes_used, index.block_count, index.commit_sequence_id), (110, 1, 5));
    index.remove_block(1, &live);
    index.remove_block(1, &live);
    index.remove_block(2, &live);
    assert_eq!((index.bytes_used, index.block_count), (0, 0));
}

#[test]
fn a_write_that_failed_leaves_no_length() {
    let mut index = index();
    index.grow(1, 100);
    index.grow(1, 150);
    index.shrink(1, 150, 100);
    assert_eq!(index.bytes_used, 100);
    // Another write came in between.
    index.grow(1, 150);
    index.grow(1, 200);
    index.shrink(1, 150, 100);
    assert_eq!(index.bytes_used, 200);
    index.grow(2, 10);
    index.shrink(2, 10, 0);
    assert!(!index.blocks.contains_key(&2));
}
