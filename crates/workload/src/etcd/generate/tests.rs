//! Streams are repeatable and contain what their options ask for.

use super::*;
use crate::etcd::model::Model;
use crate::etcd::op::Error;

fn stream(seed: u64, options: Options) -> Vec<Op> {
    let mut generator = Generator::new(Random::new(seed), 1, options);
    generator.observe(20);
    (0..2_000).map(|_| generator.next_op()).collect()
}

#[test]
fn a_seed_repeats_its_stream() {
    assert_eq!(stream(3, Options::all(Vec::new())), stream(3, Options::all(Vec::new())));
    assert_ne!(stream(3, Options::all(Vec::new())), stream(4, Options::all(Vec::new())));
}

#[test]
fn values_are_unique() {
    let mut values = std::collections::BTreeSet::new();
    for op in stream(5, Options { nested: true, ..Options::default() }) {
        for put in op.puts().into_iter().filter(|put| !put.value.is_empty()) {
            assert!(values.insert(put.value.clone()), "{put:?}");
        }
    }
    assert!(values.len() > 500);
}

#[test]
fn a_plain_stream_has_no_errors_but_missing_keys() {
    let mut model = Model::new();
    for op in stream(6, Options { large_ranges: true, nested: true, ..Options::default() }) {
        let answer = model.apply(&op);
        assert!(answer.is_ok() || answer == Err(Error::KeyNotFound), "{op:?}: {answer:?}");
    }
}

#[test]
fn a_full_stream_has_all_errors_of_the_store() {
    let mut model = Model::new();
    let mut generator = Generator::new(Random::new(7), 1, Options::all(Vec::new()));
    let mut missing = vec![
        Error::EmptyKey,
        Error::ValueProvided,
        Error::LeaseProvided,
        Error::DuplicateKey,
        Error::TooManyOps,
        Error::KeyNotFound,
        Error::LeaseNotFound,
        Error::Compacted,
        Error::FutureRevision,
    ];
    for _ in 0..2_000 {
        match model.apply(&generator.next_op()) {
            Ok(response) => generator.observe(response.revision()),
            Err(error) => missing.retain(|other| *other != error),
        }
    }
    assert_eq!(missing, []);
}
