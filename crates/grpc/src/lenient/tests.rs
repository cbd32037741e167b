use bytes::Bytes;
use hyper::http::Request;
use tokio::io::AsyncReadExt;

use super::*;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = (payload.len() as u32).to_be_bytes();
    [&[high, middle, low, kind, flags, 0, 0, 0, 1], payload].concat()
}

/// A block that has a literal with this name index and value, without Huffman coding, between other
/// fields.
fn block(index: u8, value: &[u8]) -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x40 | index];
    put_string(value, &mut block);
    block.extend([0x88, 0x89]);
    block
}

/// The bytes that the library gets if the socket delivers them in parts of this length.
fn passed(bytes: &[u8], part_bytes: usize) -> Vec<u8> {
    let mut heads = LenientHeads::new();
    let mut out = Vec::new();
    for part in bytes.chunks(part_bytes) {
        let kept = heads.pass(part);
        out.extend_from_slice(&part[..kept]);
        out.extend(heads.take_ready(usize::MAX));
        assert!(heads.held.len() < BLOCK_BYTES_MAX);
    }
    heads.end();
    out.extend(heads.take_ready(usize::MAX));
    out
}

fn check(frames: &[Vec<u8>], expected: &[Vec<u8>]) {
    let with_preface = |frames: &[Vec<u8>]| [vec![b'p'; PREFACE_BYTES], frames.concat()].concat();
    let (bytes, expected) = (with_preface(frames), with_preface(expected));
    for part_bytes in [1, 2, 7, 8, 9, 10, 33, 64, bytes.len()] {
        assert_eq!(passed(&bytes, part_bytes), expected, "in parts of {part_bytes}");
    }
}

#[test]
fn what_the_library_takes_passes_as_it_is() {
    let frames = [
        frame(4, 0, &[]),
        frame(HEADERS, 4, &block(1, b"127.0.0.1:2379")),
        frame(HEADERS, 4, &block(4, b"/etcdserverpb.KV/Range")),
        frame(0, 1, &[HEADERS; 100]),
        // A field other than authority and path may have any value.
        frame(HEADERS, 4, &block(58, b"#x[")),
        frame(HEADERS, 4, &[0x83, 0x86, 0x84, 0xbe]),
        frame(HEADERS, 4, &[]),
        // Malformed blocks, which the library reports.
        frame(HEADERS, 4, &[0x41, 0x05, b'#']),
        frame(HEADERS, 4, &[0x41, 0xff, 0xff, 0xff, 0xff, 0xff]),
        frame(HEADERS, PADDED | PRIORITY, &[1, 2]),
        frame(HEADERS, 4, &[0x7f; 16_384]),
        frame(HEADERS, 4, &[0x7f; 16_385]),
    ];
    check(&frames, &frames);
}

#[test]
fn an_odd_authority_or_path_becomes_another_one_of_its_size() {
    let odd = b"#initially=[127.0.0.1:2379]";
    for flags in [4, 4 | PADDED, 4 | PRIORITY, 4 | PADDED | PRIORITY] {
        let around = |block: Vec<u8>| {
            let padded: &[u8] = if flags & PADDED > 0 { &[2] } else { &[] };
            let priority: &[u8] = if flags & PRIORITY > 0 { &[0, 0, 0, 3, 9] } else { &[] };
            let padding: &[u8] = if flags & PADDED > 0 { &[0, 0] } else { &[] };
            frame(HEADERS, flags, &[padded, priority, &block, padding].concat())
        };
        let other = [&b"/"[..], &[b'x'; 6]].concat();
        check(
            &[around(block(1, odd)), frame(0, 1, b"data"), around(block(4, b"noslash"))],
            &[around(block(1, &[b'x'; 27])), frame(0, 1, b"data"), around(block(4, &other))],
        );
    }
    // A name that is spelled out, with a long value.
    let named = |value: &[u8]| {
        let mut block = vec![0x00];
        put_string(b":authority", &mut block);
        put_string(value, &mut block);
        frame(HEADERS, 4, &block)
    };
    check(&[named(&[b'#'; 300])], &[named(&[b'x'; 300])]);
}

/// A block cut into frames of this many bytes.
fn in_frames(block: &[u8], part_bytes: usize) -> Vec<Vec<u8>> {
    let count = block.chunks(part_bytes).count();
    let parts = block.chunks(part_bytes).enumerate().map(|(number, part)| {
        let kind = if number == 0 { HEADERS } else { CONTINUATION };
        frame(kind, if number + 1 == count { END_HEADERS } else { 0 }, part)
    });
    parts.collect()
}

#[test]
fn a_block_passes_as_a_whole_or_is_said_to_be_open() {
    let odd = block(1, b"#initially=[127.0.0.1:2379]");
    let good = block(1, &[b'x'; 27]);
    let long = |block: &[u8]| [block, &[0x88; 40_000]].concat();
    // A frame that ends within the odd field leaves the field as it is.
    for (sent, got) in [(odd.clone(), good.clone()), (long(&odd), long(&good))] {
        check(&in_frames(&sent, 16_000), &in_frames(&got, 16_000));
    }
    check(&in_frames(&odd, 9), &in_frames(&odd, 9));
    // The library refuses a frame of another kind inside a block.
    let cut = [frame(HEADERS, 0, &good), frame(0, 0, b"data"), frame(CONTINUATION, 4, &[0x88])];
    check(&cut, &cut);
    // The library also refuses a frame that is too long.
    let far = [frame(HEADERS, 0, &[0x88; 30_000]), frame(CONTINUATION, 4, &[0x88; 30_000])];
    check(&far, &far);
    let passed = |frames: &[Vec<u8>]| {
        let mut heads = LenientHeads::new();
        heads.pass(&[b'p'; PREFACE_BYTES]);
        let bytes = frames.concat();
        let count = heads.pass(&bytes);
        (count, heads.held.len(), heads.is_long_open(), heads.take_block_bytes())
    };
    let short = in_frames(&[0x88; 100], 10);
    let all = short.concat().len();
    assert_eq!(passed(&short), (all, 0, false, all));
    assert_eq!(passed(&short[..9]), (0, short[..9].concat().len(), false, 0));
    let long = in_frames(&[0x88; 50_000], 16_000);
    assert_eq!(passed(&long[..1]), (0, 16_009, false, 0));
    for count in 2..4 {
        let bytes = long[..count].concat().len();
        assert_eq!(passed(&long[..count]), (bytes, 0, true, bytes));
    }
    let all = long.concat().len();
    assert_eq!(passed(&long), (all, 0, false, all));
}

/// grpc-go sends the authority Huffman-coded, between fields that enter the dynamic table.
#[test]
fn a_compressed_authority_is_understood() {
    // RFC 7541, C.4.1: `www.example.com`.
    let coded = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
    assert_eq!(huffman::decode(&coded).unwrap(), b"www.example.com");
    // The code of `#` is 0xffa, 12 bits; the rest is padding.
    let sent = frame(HEADERS, 4, &[0x83, 0x41, 0x82, 0xff, 0xaf, 0x88]);
    check(&[sent], &[frame(HEADERS, 4, &[0x83, 0x41, 0x01, b'x', 0x88])]);
    for bad in [&[0xff, 0xff, 0xff, 0xff][..], &[0xff], &[0x00]] {
        assert_eq!(huffman::decode(bad), None, "{bad:x?}");
    }
}

/// The values of the first header frame that the library's own client sends.
async fn sent_by_library(value: &[u8]) -> Vec<Vec<u8>> {
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let (mut requests, connection) = h2::client::handshake(ours).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://a/").header("x", value).body(()).unwrap();
    let (_response, _) = requests.send_request(request, true).unwrap();
    let mut bytes = vec![0; PREFACE_BYTES];
    theirs.read_exact(&mut bytes).await.unwrap();
    loop {
        let mut head = [0; HEAD_BYTES];
        theirs.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        theirs.read_exact(&mut payload).await.unwrap();
        if head[3] != HEADERS {
            continue;
        }
        let (mut values, mut rest) = (Vec::new(), &payload[..]);
        while let Some(first) = rest.first() {
            match first {
                0x80.. => drop(take_number(&mut rest, 7)),
                _ => {
                    let bits = if *first >= 0x40 { 6 } else { 4 };
                    if take_number(&mut rest, bits) == Some(0) {
                        take_text(&mut rest).unwrap();
                    }
                    values.push(take_text(&mut rest).unwrap().decode().unwrap());
                }
            }
        }
        return values;
    }
}

#[tokio::test]
async fn all_codes_are_those_of_the_library() {
    let all: Vec<u8> = (32..127).chain(128..=255).collect();
    let values = sent_by_library(&all).await;
    assert!(values.contains(&all), "{values:?}");
}

/// If this fails, the library accepts such authorities, and the module is no longer needed.
#[tokio::test]
async fn the_library_refuses_odd_authorities() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let server = tokio::spawn(async move {
        let mut connection: h2::server::Connection<_, Bytes> =
            h2::server::handshake(theirs).await.unwrap();
        connection.accept().await.map(|accepted| accepted.map(drop))
    });
    let request = frame(HEADERS, 5, &block(1, b"#initially=[127.0.0.1:2379]"));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let bytes = [preface, &frame_of_connection()[..], &request].concat();
    let (mut read, mut write) = tokio::io::split(ours);
    tokio::io::AsyncWriteExt::write_all(&mut write, &bytes).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(HEAD_BYTES).any(|head| head[3] == 3 && head[8] == 1) {
        assert!(read.read_buf(&mut answer).await.unwrap() > 0);
    }
    server.abort();
}

/// An empty SETTINGS frame.
fn frame_of_connection() -> Vec<u8> {
    vec![0, 0, 0, 4, 0, 0, 0, 0, 0]
}
