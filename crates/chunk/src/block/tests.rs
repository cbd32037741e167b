//! Tests of the encoding of a block's metadata.

use super::*;

fn block() -> BlockData {
    let pair = |key: &str, value: Option<&str>| KeyValue {
        key: key.to_owned(),
        value: value.map(str::to_owned),
    };
    let chunk = ChunkInfo {
        name: "7_chunk_1".to_owned(),
        offset: 3,
        length: 4,
        metadata: vec![pair("full", None)],
        checksum: ChecksumData::of(ChecksumType::Sha256, 2, b"abcd"),
        stripe_checksum: Some(Bytes::from_static(b"stripe")),
    };
    BlockData {
        id: BlockId { container_id: 1, local_id: 7 },
        commit_sequence_id: 12,
        replica_index: Some(2),
        flags: Some(9),
        metadata: vec![pair("a", Some("b")), pair("", Some(""))],
        chunks: vec![chunk, ChunkInfo::plain("7_chunk_2".to_owned(), 7, 100)],
    }
}

#[test]
fn a_block_comes_back_as_it_was() {
    let empty = BlockData {
        commit_sequence_id: 0,
        replica_index: None,
        flags: None,
        metadata: Vec::new(),
        chunks: Vec::new(),
        ..block()
    };
    for block in [block(), empty] {
        assert_eq!(decode_block(block.id, &encode_block(&block)), Ok(block));
    }
}

#[test]
fn a_block_that_is_cut_off_anywhere_is_refused() {
    let bytes = encode_block(&block());
    for count in 0..bytes.len() {
        assert!(decode_block(block().id, &bytes[..count]).is_err(), "{count} bytes");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(decode_block(block().id, &longer).is_err());
}

#[test]
fn the_length_of_a_block_is_that_of_its_chunks() {
    assert_eq!(block().length(), 104);
    assert_eq!(BlockData { chunks: Vec::new(), ..block() }.length(), 0);
}
