use super::*;

const BODY_BYTES_MAX: usize = 100_000;

fn frame(kind: u8, bytes: usize) -> PeerFrame {
    PeerFrame { kind, body: (0..bytes).map(|at| at as u8).collect::<Vec<_>>().into() }
}

fn bytes(frames: &[PeerFrame]) -> Vec<u8> {
    FrameBatch::new(frames.to_vec()).to_bytes()
}

/// The frames read from bytes that arrive in pieces of one length, and the error that ended them.
fn read(bytes: &[u8], piece_bytes: usize) -> (Vec<PeerFrame>, Option<FrameError>) {
    let mut reader = FrameReader::new(BODY_BYTES_MAX);
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece_bytes) {
        reader.room().extend_from_slice(piece);
        loop {
            match reader.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

#[test]
fn frames_come_as_they_were_sent_in_whatever_pieces() {
    let frames = [frame(0, 0), frame(7, 1), frame(255, 70_000), frame(1, BODY_BYTES_MAX)];
    let bytes = bytes(&frames);
    for piece_bytes in [1, 3, 16, 17, 4_096, bytes.len()] {
        assert_eq!(read(&bytes, piece_bytes), (frames.to_vec(), None), "{piece_bytes}");
    }
}

#[test]
fn what_is_cut_off_is_no_frame() {
    let bytes = bytes(&[frame(3, 40)]);
    for cut in 0..bytes.len() {
        assert_eq!(read(&bytes[..cut], 5), (vec![], None));
    }
}

#[test]
fn every_changed_bit_is_noticed() {
    let bytes = bytes(&[frame(3, 40), frame(4, 0)]);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (frames, error) = read(&changed, bytes.len());
        // After a larger length that is within the limit, the reader waits for more bytes.
        assert!(error.is_some() || frames.len() < 2, "bit {bit}");
        assert!(frames.iter().all(|it| *it == frame(3, 40)), "bit {bit}");
    }
}

/// A frame whose head was changed, with a checksum that matches.
fn sealed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = bytes(&[frame(3, 4)]);
    change(&mut bytes);
    let crc = crc32c::crc32c(&bytes[COVERED_FROM..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn other_versions_other_groups_and_reserved_bytes_are_named() {
    let check = |at: usize, value: u8, expected: FrameError| {
        let bytes = sealed(|bytes| bytes[at] = value);
        assert_eq!(read(&bytes, 99), (vec![], Some(expected)));
    };
    check(8, 0, FrameError::Version(0));
    check(8, 2, FrameError::Version(2));
    check(10, 1, FrameError::Reserved);
    check(11, 1, FrameError::Reserved);
    check(13, 1, FrameError::Group(256));
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_its_bytes_come() {
    let mut reader = FrameReader::new(BODY_BYTES_MAX);
    let mut head = bytes(&[frame(3, 0)]);
    head[..4].copy_from_slice(&(BODY_BYTES_MAX as u32 + 1).to_le_bytes());
    reader.room().extend_from_slice(&head);
    assert!(matches!(reader.next(), Err(FrameError::TooLong { .. })));
    let (_, error) = read(b"GET / HTTP/1.1\r\n\r\n", 99);
    assert!(matches!(error, Some(FrameError::TooLong { .. })));
}

#[test]
fn memory_follows_what_is_there() {
    let mut reader = FrameReader::new(64 << 20);
    let mut head = bytes(&[frame(3, 0)]);
    head[..4].copy_from_slice(&(64_u32 << 20).to_le_bytes());
    reader.room().extend_from_slice(&head);
    for _ in 0..4 {
        assert_eq!(reader.next(), Ok(None));
        assert!(reader.room().capacity() <= 4 * PEER_READ_BYTES);
    }
}

#[test]
fn a_batch_goes_on_wherever_the_socket_stopped() {
    let batch = FrameBatch::new(vec![frame(1, 3), frame(2, 0), frame(3, 20)]);
    let whole = batch.to_bytes();
    for written in 0..=whole.len() {
        let slices = batch.slices(written);
        assert!(slices.iter().all(|slice| !slice.is_empty()));
        let rest: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        assert_eq!(rest, whole[written..]);
    }
}
