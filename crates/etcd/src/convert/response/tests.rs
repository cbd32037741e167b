use bytes::Bytes;
use machine::LeaseId;
use machine::etcd::event::{Place, Version};
use machine::etcd::reply::Granted;
use prost::Message;

use super::*;
use crate::pb::etcdserverpb as pb;
use crate::pb::mvccpb::KeyValue;

const HEADER_OF_TESTS: Header = Header { cluster_id: u64::MAX, member_id: 300, raft_term: 2 };

/// A small generator (splitmix64): equal seeds give equal numbers.
struct Chance(u64);

impl Chance {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// A number of any magnitude, often 0.
    fn number(&mut self) -> i64 {
        let shift = self.below(64);
        if self.below(4) == 0 { 0 } else { (self.bits() >> shift) as i64 }
    }

    fn blob(&mut self, min: u64) -> Vec<u8> {
        let max = match self.below(20) {
            0 => 20_000,
            1..8 => 140,
            _ => 3,
        };
        let len = min + self.below(max);
        (0..len).map(|_| self.bits() as u8).collect()
    }

    fn event(&mut self) -> Event {
        let place = Place { revision: self.number().max(0), sub: 0 };
        if self.below(6) == 0 {
            return Event::delete(place, &self.blob(1));
        }
        let numbers = Version {
            create_revision: self.number().clamp(0, place.revision),
            version: self.number(),
            lease: self.number(),
        };
        Event::put(place, &self.blob(1), numbers, &self.blob(0))
    }

    fn events(&mut self) -> Vec<Event> {
        let count = self.below(4);
        (0..count).map(|_| self.event()).collect()
    }

    fn found(&mut self) -> Found {
        Found {
            revision: self.number(),
            events: self.events(),
            keys_only: self.below(2) == 0,
            count: self.below(1 << 40),
            more: self.below(2) == 0,
        }
    }

    fn put(&mut self) -> PutDone {
        PutDone { revision: self.number(), prev: self.events().pop() }
    }

    fn deleted(&mut self) -> RangeDeleted {
        RangeDeleted { revision: self.number(), count: self.below(300), prev: self.events() }
    }

    fn branch(&mut self, depth: u32) -> Branch {
        let count = self.below(4);
        let op = |chance: &mut Chance| match chance.below(4) {
            0 => OpDone::Range(chance.found()),
            1 => OpDone::Put(chance.put()),
            2 if depth > 0 => OpDone::Txn(chance.branch(depth - 1)),
            _ => OpDone::DeleteRange(chance.deleted()),
        };
        Branch { succeeded: self.below(2) == 0, done: (0..count).map(|_| op(self)).collect() }
    }
}

fn kv(event: &Event, keys_only: bool) -> KeyValue {
    let numbers = event.numbers();
    KeyValue {
        key: Bytes::copy_from_slice(event.key()),
        create_revision: numbers.create_revision,
        mod_revision: event.revision(),
        version: numbers.version,
        value: if keys_only { Bytes::new() } else { Bytes::copy_from_slice(event.value()) },
        lease: numbers.lease,
    }
}

fn kvs(events: &[Event], keys_only: bool) -> Vec<KeyValue> {
    events.iter().map(|event| kv(event, keys_only)).collect()
}

fn full(revision: i64) -> Option<pb::ResponseHeader> {
    let Header { cluster_id, member_id, raft_term } = HEADER_OF_TESTS;
    Some(pb::ResponseHeader { cluster_id, member_id, revision, raft_term })
}

fn short(revision: i64) -> Option<pb::ResponseHeader> {
    Some(pb::ResponseHeader { revision, ..Default::default() })
}

fn range_pb(header: Option<pb::ResponseHeader>, found: &Found) -> pb::RangeResponse {
    pb::RangeResponse {
        header,
        kvs: kvs(&found.events, found.keys_only),
        more: found.more,
        count: found.count as i64,
    }
}

fn put_pb(header: Option<pb::ResponseHeader>, done: &PutDone) -> pb::PutResponse {
    pb::PutResponse { header, prev_kv: done.prev.as_ref().map(|event| kv(event, false)) }
}

fn deleted_pb(header: Option<pb::ResponseHeader>, done: &RangeDeleted) -> pb::DeleteRangeResponse {
    let prev_kvs = kvs(&done.prev, false);
    pb::DeleteRangeResponse { header, deleted: done.count as i64, prev_kvs }
}

fn branch_pb(header: Option<pb::ResponseHeader>, branch: &Branch) -> pb::TxnResponse {
    use pb::response_op::Response as Op;
    let op = |op: &OpDone| match op {
        OpDone::Range(found) => Op::ResponseRange(range_pb(short(found.revision), found)),
        OpDone::Put(done) => Op::ResponsePut(put_pb(short(done.revision), done)),
        OpDone::DeleteRange(done) => {
            Op::ResponseDeleteRange(deleted_pb(short(done.revision), done))
        }
        OpDone::Txn(nested) => {
            Op::ResponseTxn(branch_pb(Some(pb::ResponseHeader::default()), nested))
        }
    };
    let responses = branch.done.iter().map(|done| pb::ResponseOp { response: Some(op(done)) });
    pb::TxnResponse { header, succeeded: branch.succeeded, responses: responses.collect() }
}

/// Checks that a response has the bytes that prost makes of the same values.
fn check(response: &Response<'_>, expected: &(impl Message + core::fmt::Debug), seed: u64) {
    let bytes = response.to_vec();
    assert_eq!(bytes.len(), response.bytes(), "seed {seed}");
    assert!(bytes == expected.encode_to_vec(), "seed {seed}: {expected:?}");
}

#[test]
fn random_responses_have_the_bytes_of_prost() {
    for seed in 0..3_000 {
        let mut chance = Chance(seed);
        let found = chance.found();
        let expected = range_pb(full(found.revision), &found);
        check(&Response::from_range(HEADER_OF_TESTS, &found), &expected, seed);
        let done = chance.put();
        let expected = put_pb(full(done.revision), &done);
        check(&Response::from_outcome(HEADER_OF_TESTS, &Outcome::Put(done)), &expected, seed);
        let done = chance.deleted();
        let expected = deleted_pb(full(done.revision), &done);
        check(
            &Response::from_outcome(HEADER_OF_TESTS, &Outcome::DeleteRange(done)),
            &expected,
            seed,
        );
        let done = TxnDone { revision: chance.number(), branch: chance.branch(3) };
        let expected = branch_pb(full(done.revision), &done.branch);
        check(&Response::from_txn(HEADER_OF_TESTS, &done), &expected, seed);
        check(&Response::from_outcome(HEADER_OF_TESTS, &Outcome::Txn(done)), &expected, seed);
    }
}

/// Checks that an encoder makes the expected bytes however its steps and pieces are bounded, and
/// that no piece exceeds its bound by more than one item.
fn check_pieces(begin: impl Fn() -> Encoder, expected: &[u8], chance: &mut Chance) {
    for (items_max, bytes_max) in [(1, usize::MAX), (usize::MAX, usize::MAX), (3, 100), (7, 1)] {
        let items_max = if items_max == 7 { 1 + chance.below(9) as usize } else { items_max };
        let mut encoder = begin();
        let mut steps = 1;
        let bytes = loop {
            if let Some(bytes) = encoder.measure(items_max) {
                break bytes;
            }
            steps += 1;
            assert!(steps < 10_000, "each step measures something");
        };
        assert_eq!(bytes, expected.len());
        assert_eq!(encoder.measure(1), Some(bytes), "it stays measured");
        assert!(items_max < usize::MAX || steps == 1);
        let (mut out, mut pieces) = (Vec::new(), 1);
        loop {
            let start = out.len();
            let goes_on = encoder.write(items_max, bytes_max, &mut out);
            // The longest item has a key and a value of 20,000 bytes.
            assert!(out.len() - start < bytes_max.saturating_add(41_000));
            if !goes_on {
                break;
            }
            pieces += 1;
        }
        assert!(bytes_max < usize::MAX || items_max < usize::MAX || pieces == 1);
        assert!(!encoder.write(items_max, bytes_max, &mut out), "it is over");
        assert!(out == expected, "steps of {items_max}, pieces of {bytes_max}");
    }
}

#[test]
fn pieces_are_the_bytes_of_the_whole_response() {
    for seed in 0..2_000 {
        let mut chance = Chance(seed);
        let header = HEADER_OF_TESTS;
        let found = chance.found();
        let expected = Response::from_range(header, &found).to_vec();
        check_pieces(|| Encoder::from_range(header, found.clone()), &expected, &mut chance);
        let done = chance.put();
        let expected = Response::from_outcome(header, &Outcome::Put(done.clone())).to_vec();
        check_pieces(|| Encoder::from_put(header, done.clone()), &expected, &mut chance);
        let done = chance.deleted();
        let expected = Response::from_outcome(header, &Outcome::DeleteRange(done.clone())).to_vec();
        check_pieces(|| Encoder::from_deleted(header, done.clone()), &expected, &mut chance);
        let done = TxnDone { revision: chance.number(), branch: chance.branch(5) };
        let expected = Response::from_txn(header, &done).to_vec();
        check_pieces(|| Encoder::from_txn(header, done.clone()), &expected, &mut chance);
    }
}

#[test]
fn pieces_of_lists_about_leases_are_the_bytes_of_the_whole() {
    for seed in 0..500 {
        let mut chance = Chance(seed);
        let (revision, lease) = (chance.number(), LeaseId(chance.number()));
        let (ttl_s, granted_ttl_s) = (chance.number(), chance.number());
        let keys = chance.events();
        let found = TimeToLive { revision, lease, ttl_s, granted_ttl_s, keys };
        let leases = (0..chance.below(9)).map(|_| LeaseId(chance.number())).collect();
        for response in
            [LeaseResponse::TimeToLive(found), LeaseResponse::Leases { revision, leases }]
        {
            let mut expected = Vec::new();
            response.write(HEADER_OF_TESTS, &mut expected);
            let begin = || Encoder::from_lease(HEADER_OF_TESTS, response.clone()).unwrap();
            check_pieces(begin, &expected, &mut chance);
        }
    }
    let revoked = LeaseResponse::Revoked { revision: 1 };
    assert!(Encoder::from_lease(HEADER_OF_TESTS, revoked).is_err());
}

#[test]
fn each_step_of_measuring_and_writing_looks_at_few_items() {
    let event = Event::put(
        Place { revision: 1, sub: 0 },
        b"k",
        Version { create_revision: 1, version: 1, lease: 0 },
        b"v",
    );
    let found =
        Found { revision: 1, events: vec![event; 100], keys_only: false, count: 100, more: false };
    let ops = |count| (0..count).map(|_| OpDone::Range(found.clone())).collect();
    let mut branch = Branch { succeeded: true, done: ops(5) };
    for _ in 0..40 {
        branch = Branch { succeeded: false, done: vec![OpDone::Txn(branch)] };
    }
    let mut encoder = Encoder::from_txn(HEADER_OF_TESTS, TxnDone { revision: 1, branch });
    let mut steps = 1;
    while encoder.measure(10).is_none() {
        steps += 1;
    }
    // 500 versions, 45 operations and 41 ends of branches, in steps of 10.
    assert!((55..70).contains(&steps), "{steps}");
    let (mut out, mut pieces) = (Vec::new(), 1);
    while encoder.write(10, usize::MAX, &mut out) {
        pieces += 1;
    }
    assert!((55..75).contains(&pieces), "{pieces}");
}

/// A response too large for memory is measured without being made.
#[test]
fn a_response_of_many_gigabytes_is_measured() {
    let value = vec![7; 1_400_000];
    let event = Event::put(
        Place { revision: 9, sub: 0 },
        b"k",
        Version { create_revision: 1, version: 1, lease: 0 },
        &value,
    );
    let found = Found { revision: 9, events: vec![event], keys_only: false, count: 1, more: false };
    let done = vec![OpDone::Range(found.clone()); 10_000];
    let branch = Branch { succeeded: true, done };
    let mut encoder = Encoder::from_txn(HEADER_OF_TESTS, TxnDone { revision: 9, branch });
    let mut bytes = None;
    for _ in 0..100 {
        bytes = bytes.or(encoder.measure(1_000));
    }
    let one = Response::from_range(Header::default(), &found).bytes();
    let bytes = bytes.unwrap();
    assert!(bytes > 10_000 * one && bytes < 10_000 * (one + 20), "{bytes}");
    let mut out = Vec::new();
    assert!(encoder.write(1_000, 1_000, &mut out));
    assert!(out.len() < 1_401_000);
}

#[test]
fn a_piece_has_the_bytes_of_prost() {
    for seed in 0..1_000 {
        let mut chance = Chance(seed);
        let (events, keys_only) = (chance.events(), chance.below(2) == 0);
        let mut piece = Piece::new(keys_only);
        events.iter().for_each(|event| piece.push(event.clone()));
        let kvs = kvs(&events, keys_only);
        let mut response = pb::RangeResponse { kvs, ..Default::default() };
        if chance.below(2) == 0 {
            let (revision, more) = (chance.number(), chance.below(2) == 0);
            let count = chance.bits() >> 1;
            piece.finish(PieceEnd { revision, more, count });
            response =
                pb::RangeResponse { header: full(revision), more, count: count as i64, ..response };
        }
        let expected = pb::RangeStreamResponse { range_response: Some(response) };
        let mut bytes = Vec::new();
        piece.write(HEADER_OF_TESTS, &mut bytes);
        assert_eq!(bytes.len(), piece.bytes(HEADER_OF_TESTS), "seed {seed}");
        assert!(bytes == expected.encode_to_vec(), "seed {seed}: {expected:?}");
    }
}

#[test]
fn a_compaction_has_only_a_header() {
    let outcome = Outcome::Compacted { revision: 9 };
    let expected = pb::CompactionResponse { header: full(9) };
    check(&Response::from_outcome(HEADER_OF_TESTS, &outcome), &expected, 0);
}

#[test]
fn the_header_of_a_nested_txn_is_there_and_empty() {
    let nested = Branch { succeeded: false, done: Vec::new() };
    let branch = Branch { succeeded: true, done: vec![OpDone::Txn(nested)] };
    let bytes = Response::from_txn(Header::default(), &TxnDone { revision: 0, branch }).to_vec();
    let decoded = pb::TxnResponse::decode(&bytes[..]).unwrap();
    let Some(pb::response_op::Response::ResponseTxn(nested)) = &decoded.responses[0].response
    else {
        panic!("{decoded:?}")
    };
    assert_eq!(nested.header, Some(pb::ResponseHeader::default()));
    assert_eq!(bytes, [0x0a, 0, 0x10, 1, 0x1a, 4, 0x22, 2, 0x0a, 0]);
}

#[test]
fn a_deep_txn_is_measured_in_one_pass() {
    let mut branch = Branch { succeeded: true, done: Vec::new() };
    for _ in 0..128 {
        branch = Branch { succeeded: true, done: vec![OpDone::Txn(branch)] };
    }
    let done = TxnDone { revision: 5, branch };
    let expected = branch_pb(full(5), &done.branch);
    let response = Response::from_txn(HEADER_OF_TESTS, &done);
    check(&response, &expected, 0);
    assert_eq!(response.lengths.len(), 128);
}

#[test]
fn a_response_is_written_behind_what_is_there() {
    let outcome = Outcome::Put(PutDone { revision: 1, prev: None });
    let response = Response::from_outcome(Header::default(), &outcome);
    let mut out = vec![7; 5];
    response.write(&mut out);
    assert_eq!(out, [7, 7, 7, 7, 7, 0x0a, 2, 0x18, 1]);
}

#[test]
fn a_removal_has_only_its_key_and_revision() {
    let event = Event::delete(Place { revision: 12, sub: 3 }, b"k");
    let mut out = Vec::new();
    write_key_value(2, &event, &mut out);
    assert_eq!(out, [0x12, 5, 0x0a, 1, b'k', 0x18, 12]);
    assert_eq!(key_value_bytes(&event), 5);
}

#[test]
fn responses_about_leases_are_the_messages() {
    let mut chance = Chance(7);
    for _ in 0..200 {
        let (revision, lease) = (chance.number(), chance.number());
        let (ttl_s, granted_ttl_s) = (chance.number(), chance.number());
        let id = LeaseId(lease);
        let Header { cluster_id, member_id, raft_term } = HEADER_OF_TESTS;
        let header = Some(pb::ResponseHeader { cluster_id, member_id, revision, raft_term });
        let check = |response: &LeaseResponse, expected: Vec<u8>| {
            let mut bytes = Vec::new();
            response.write(HEADER_OF_TESTS, &mut bytes);
            assert_eq!(bytes, expected, "{response:?}");
            assert_eq!(bytes.len(), response.bytes(HEADER_OF_TESTS));
        };
        let granted = Granted { revision, lease: id, ttl_s };
        let expected = pb::LeaseGrantResponse { header, id: lease, ttl: ttl_s, error: "".into() };
        check(&LeaseResponse::Granted(granted), expected.encode_to_vec());
        let expected = pb::LeaseRevokeResponse { header }.encode_to_vec();
        check(&LeaseResponse::Revoked { revision }, expected);
        let expected = pb::LeaseKeepAliveResponse { header, id: lease, ttl: ttl_s };
        let kept = LeaseResponse::KeptAlive { revision, lease: id, ttl_s };
        check(&kept, expected.encode_to_vec());
        let keys = chance.events();
        let expected = pb::LeaseTimeToLiveResponse {
            header,
            id: lease,
            ttl: ttl_s,
            granted_ttl: granted_ttl_s,
            keys: keys.iter().map(|event| Bytes::copy_from_slice(event.key())).collect(),
        };
        let found = TimeToLive { revision, lease: id, ttl_s, granted_ttl_s, keys };
        check(&LeaseResponse::TimeToLive(found), expected.encode_to_vec());
        let leases: Vec<i64> = (0..chance.below(5)).map(|_| chance.number()).collect();
        let statuses = leases.iter().map(|id| pb::LeaseStatus { id: *id }).collect();
        let expected = pb::LeaseLeasesResponse { header, leases: statuses };
        let leases = leases.into_iter().map(LeaseId).collect();
        check(&LeaseResponse::Leases { revision, leases }, expected.encode_to_vec());
    }
}
