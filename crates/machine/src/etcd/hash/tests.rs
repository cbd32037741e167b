use super::*;

#[test]
fn the_hash_of_no_keys_is_not_0() {
    let mut store = Store::default();
    for (revision, of) in [(0, 1), (1, 1), (-1, -1)] {
        let mut read = store.begin_hash(revision).unwrap();
        assert!(store.hash_step(&mut read, &mut 1).unwrap());
        assert_eq!((read.hash(), read.revision), (HASH_OF_NOTHING, of));
    }
    // At a negative revision there are no keys, and no compaction matters.
    (store.revision, store.compacted) = (9, 7);
    let mut read = store.begin_hash(-1).unwrap();
    assert!(store.hash_step(&mut read, &mut 1).unwrap());
    assert_eq!((read.hash(), read.compacted), (HASH_OF_NOTHING, 7));
    assert!(matches!(store.begin_hash(6), Err(Refusal::Compacted)));
    assert!(matches!(store.begin_hash(10), Err(Refusal::FutureRevision)));
}
