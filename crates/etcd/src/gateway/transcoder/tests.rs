use bytes::Bytes;
use prost::Message as _;

use super::super::response;
use super::super::table::MESSAGES;
use super::*;
use crate::pb::etcdserverpb as pb;
use crate::pb::mvccpb;

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

    fn number(&mut self) -> i64 {
        let shift = self.below(64);
        if self.below(3) == 0 { 0 } else { (self.bits() >> shift) as i64 }
    }

    fn blob(&mut self) -> Bytes {
        let max = if self.below(10) == 0 { 400 } else { 8 };
        let len = self.below(max);
        (0..len).map(|_| self.bits() as u8).collect()
    }

    fn header(&mut self) -> Option<pb::ResponseHeader> {
        let header = pb::ResponseHeader {
            cluster_id: self.bits(),
            member_id: self.number() as u64,
            revision: self.number(),
            raft_term: self.below(3),
        };
        (self.below(4) > 0).then_some(header)
    }

    fn kv(&mut self) -> mvccpb::KeyValue {
        mvccpb::KeyValue {
            key: self.blob(),
            create_revision: self.number(),
            mod_revision: self.number(),
            version: self.number(),
            value: self.blob(),
            lease: self.number(),
        }
    }

    fn kvs(&mut self) -> Vec<mvccpb::KeyValue> {
        (0..self.below(4)).map(|_| self.kv()).collect()
    }

    fn range(&mut self) -> pb::RangeResponse {
        pb::RangeResponse {
            header: self.header(),
            kvs: self.kvs(),
            more: self.below(2) == 0,
            count: self.number(),
        }
    }

    fn txn(&mut self, depth: u32) -> pb::TxnResponse {
        use pb::response_op::Response as Op;
        let count = self.below(4);
        let op = |chance: &mut Chance| match chance.below(4) {
            0 => Op::ResponseRange(chance.range()),
            1 => Op::ResponsePut(pb::PutResponse {
                header: chance.header(),
                prev_kv: chance.kvs().pop(),
            }),
            2 if depth > 0 => Op::ResponseTxn(chance.txn(depth - 1)),
            _ => Op::ResponseDeleteRange(pb::DeleteRangeResponse {
                header: chance.header(),
                deleted: chance.number(),
                prev_kvs: chance.kvs(),
            }),
        };
        pb::TxnResponse {
            header: self.header(),
            succeeded: self.below(2) == 0,
            responses: (0..count)
                .map(|_| pb::ResponseOp { response: (self.below(9) > 0).then(|| op(self)) })
                .collect(),
        }
    }

    fn watch(&mut self) -> pb::WatchResponse {
        let event = |chance: &mut Chance| mvccpb::Event {
            r#type: chance.below(3) as i32,
            kv: chance.kvs().pop(),
            prev_kv: chance.kvs().pop(),
        };
        pb::WatchResponse {
            header: self.header(),
            watch_id: self.number(),
            created: self.below(2) == 0,
            canceled: self.below(2) == 0,
            compact_revision: self.number(),
            cancel_reason: ["", "why \"\n", "\u{e4}"][self.below(3) as usize].into(),
            fragment: self.below(2) == 0,
            events: (0..self.below(4)).map(|_| event(self)).collect(),
        }
    }
}

fn begin(name: &str) -> Transcoder {
    let message = MESSAGES.iter().find(|message| message.name == format!("etcdserverpb.{name}"));
    Transcoder::new(message.expect("there is such a message"))
}

/// The JSON of a message whose bytes come in pieces of random lengths.
fn in_pieces(name: &str, mut bytes: &[u8], chance: &mut Chance) -> Result<String, BadMessage> {
    let (mut transcoder, mut out) = (begin(name), String::new());
    let most = [1, 3, 10, 1_000][chance.below(4) as usize];
    while !bytes.is_empty() {
        let (piece, behind) = bytes.split_at((chance.below(most + 1) as usize).min(bytes.len()));
        transcoder.push(piece, &mut out)?;
        bytes = behind;
    }
    transcoder.finish(&mut out)?;
    Ok(out)
}

fn check(name: &str, message: &(impl prost::Message + core::fmt::Debug), chance: &mut Chance) {
    let bytes = message.encode_to_vec();
    let table = MESSAGES.iter().find(|message| message.name == format!("etcdserverpb.{name}"));
    let whole = response::decode(table.expect("there is such a message"), &bytes);
    assert_eq!(in_pieces(name, &bytes, chance), whole, "{message:?}");
}

#[test]
fn pieces_make_the_json_of_the_whole_message() {
    for seed in 0..3_000 {
        let mut chance = Chance(seed);
        let range = chance.range();
        check("RangeResponse", &range, &mut chance);
        let txn = chance.txn(4);
        check("TxnResponse", &txn, &mut chance);
        let watch = chance.watch();
        check("WatchResponse", &watch, &mut chance);
        let deleted = pb::DeleteRangeResponse {
            header: chance.header(),
            deleted: chance.number(),
            prev_kvs: chance.kvs(),
        };
        check("DeleteRangeResponse", &deleted, &mut chance);
        let ttl = pb::LeaseTimeToLiveResponse {
            header: chance.header(),
            id: chance.number(),
            ttl: chance.number(),
            granted_ttl: chance.number(),
            keys: (0..chance.below(5)).map(|_| chance.blob()).collect(),
        };
        check("LeaseTimeToLiveResponse", &ttl, &mut chance);
        let leases = (0..chance.below(5)).map(|_| pb::LeaseStatus { id: chance.number() });
        let leases = leases.collect();
        let leases = pb::LeaseLeasesResponse { header: chance.header(), leases };
        check("LeaseLeasesResponse", &leases, &mut chance);
    }
}

#[test]
fn a_message_that_is_cut_off_is_no_message() {
    for seed in 0..200 {
        let mut chance = Chance(seed);
        let txn = chance.txn(2).encode_to_vec();
        let mut ends = 0;
        for end in 0..txn.len() {
            let json = in_pieces("TxnResponse", &txn[..end], &mut chance);
            // Cut between two fields of the outermost message, the bytes are a shorter message.
            ends += usize::from(json.is_ok());
        }
        assert!(ends <= 7, "{ends}");
    }
}

#[test]
fn other_bytes_are_refused_and_no_more() {
    for seed in 0..3_000 {
        let mut chance = Chance(seed);
        let mut bytes = chance.txn(2).encode_to_vec();
        for _ in 0..=chance.below(3) {
            if !bytes.is_empty() {
                let at = chance.below(bytes.len() as u64) as usize;
                bytes[at] = chance.bits() as u8;
            }
        }
        // The changed bytes may be a valid message by chance, so only a panic fails the test.
        let _ = in_pieces("TxnResponse", &bytes, &mut chance);
    }
    let refused: [&[u8]; 9] = [
        // A number that never ends; a number that is cut off.
        &[0x80; 11],
        &[0x10, 0x80],
        // Fields out of order; a field that comes twice.
        &[0x10, 1, 0x0a, 0],
        &[0x0a, 0, 0x0a, 0],
        // An unknown field; a known field with the wrong wire type.
        &[0x78, 1],
        &[0x08, 1],
        // A message longer than the one that contains it, with a number across the end; a string
        // longer than its message.
        &[0x0a, 2, 0x18, 0x80, 1],
        &[0x1a, 2, 0x0a, 9, 1],
        // A message that ends behind the tag of a field.
        &[0x0a, 1, 0x18, 1],
    ];
    for bytes in refused {
        assert_eq!(in_pieces("TxnResponse", bytes, &mut Chance(1)), Err(BadMessage), "{bytes:?}");
    }
}
