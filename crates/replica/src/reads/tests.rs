use super::*;
use std::collections::BTreeSet;

fn reads() -> Reads {
    Reads::new(ReadConfig { member_id: 1, boot_id: 2, deadline_ticks: 10, retry_ticks: 3 })
}

#[test]
fn waiting_reads_share_a_round() {
    let mut reads = reads();
    let ids = [reads.submit(0).unwrap(), reads.submit(0).unwrap()];
    let contexts = reads.next_contexts(0);
    assert_eq!(contexts.len(), 1);
    assert!(!reads.has_next(0));
    assert_eq!(reads.on_answer(&contexts[0]), ids);
    assert_eq!(reads.on_answer(&contexts[0]), []);
}

#[test]
fn contexts_never_repeat_even_in_retries() {
    let mut reads = reads();
    let mut seen = BTreeSet::new();
    for tick in 0..1000 {
        reads.submit(tick);
        reads.expire(tick);
        for context in reads.next_contexts(tick) {
            assert!(seen.insert(context));
        }
    }
    assert!(seen.len() > 300);
}

#[test]
fn any_attempt_of_a_round_answers_it() {
    let mut reads = reads();
    let id = reads.submit(0).unwrap();
    let first = reads.next_contexts(0);
    assert!(reads.next_contexts(2).is_empty());
    assert_eq!(reads.next_contexts(3).len(), 1);
    assert_eq!(reads.on_answer(&first[0]), [id]);
}

#[test]
fn read_fails_at_its_deadline() {
    let mut reads = reads();
    let asked = reads.submit(0).unwrap();
    reads.next_contexts(0);
    let waiting = reads.submit(1).unwrap();
    assert_eq!(reads.expire(9), []);
    assert_eq!(reads.expire(10), [asked]);
    assert_eq!(reads.expire(11), [waiting]);
    assert_eq!(reads.read_count, 0);
}

#[test]
fn answer_of_another_member_or_boot_is_ignored() {
    let mut reads = reads();
    reads.submit(0);
    let context = reads.next_contexts(0).remove(0);
    for offset in 0..context.len() {
        let mut other = context.to_vec();
        other[offset] ^= 1;
        assert_eq!(reads.on_answer(&other), []);
    }
    assert_eq!(reads.on_answer(&context[..23]), []);
    assert_eq!(reads.on_answer(&[]), []);
    assert_eq!(reads.on_answer(&context).len(), 1);
}

#[test]
fn reads_beyond_the_limit_are_refused() {
    let mut reads = reads();
    for _ in 0..READS_MAX {
        assert!(reads.submit(0).is_some());
    }
    assert!(reads.submit(0).is_none());
    assert_eq!(reads.expire(10).len(), READS_MAX);
    assert!(reads.submit(10).is_some());
}

#[test]
fn rounds_beyond_the_limit_wait() {
    let mut reads = reads();
    for _ in 0..READ_ROUNDS_MAX {
        reads.submit(0);
        assert_eq!(reads.next_contexts(0).len(), 1);
    }
    reads.submit(0);
    assert!(!reads.has_next(0));
    assert!(reads.next_contexts(0).is_empty());
}
