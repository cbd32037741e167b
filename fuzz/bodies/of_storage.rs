//! Bodies for the formats on disk: the log's frames, slots and segments, snapshots, and the small
//! files.
//!
//! A checksum rejects nearly every change that a fuzzer makes. So each body tries the bytes as they
//! are, and again with the checksums corrected, as if the damage had come before the checksum.

use storage::datadir::{
    Acceptor, Ballot, Birth, Draft, Identity, decode_birth, decode_boot, decode_draft,
    decode_identity, encode_birth, encode_boot, encode_draft, encode_identity, text_of_servers,
};
use storage::disk::Disk;
use storage::fault_disk::FaultDisk;
use storage::limits::SEGMENT_BYTES_MIN;
use storage::record::{
    self, EntryKind, FRAMES_START, FrameHeader, FrameKind, HEADER_BYTES, HardState, Head, Link,
    Membership, SLOT_BYTES, Slot, SnapshotPoint,
};
use storage::snapshot::{
    self, PIECE_HEADER_BYTES, PREFIX_BYTES, Part, SnapshotMeta, TRAILER_BYTES,
};
use storage::wal::{LogEntry, WAL_DIR, Wal, WalOptions, log_path};

/// The CRC-32C of the bytes. It is computed bit by bit, because a fast one is not worth a
/// dependency here.
pub fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    (!crc).to_le_bytes()
}

/// Calls `body` with the bytes as they are. Then, if they are long enough, writes the checksum of
/// the bytes in `covered` to offset `at`, and calls `body` again.
pub fn each_sealed(
    bytes: &[u8],
    at: usize,
    covered: core::ops::Range<usize>,
    body: impl Fn(&[u8]),
) {
    body(bytes);
    let mut sealed = bytes.to_vec();
    let crc = sealed.get(covered).map(crc32c);
    if let (Some(crc), Some(place)) = (crc, sealed.get_mut(at..at.saturating_add(4))) {
        place.copy_from_slice(&crc);
        body(&sealed);
    }
}

/// A frame of the log. If its header and body decode, the frame must encode and decode again to an
/// equal one; the content of the body is then tried, too.
pub fn wal_frame(bytes: &[u8]) {
    frame(bytes);
    let mut sealed = bytes.to_vec();
    if sealed.len() >= HEADER_BYTES {
        let body_crc = crc32c(&sealed[HEADER_BYTES..]);
        sealed[60..64].copy_from_slice(&body_crc);
        let header_crc = crc32c(&sealed[4..HEADER_BYTES]);
        sealed[..4].copy_from_slice(&header_crc);
        frame(&sealed);
    }
}

fn frame(bytes: &[u8]) {
    let Ok((header, crc)) = record::decode_header(bytes, 0) else { return };
    let Ok(body) = record::decode_body(&header, &bytes[HEADER_BYTES..]) else { return };
    if header.offset.is_multiple_of(record::FRAME_ALIGN_BYTES) {
        let mut again = Vec::new();
        record::encode_frame(&mut again, 0, &header, body);
        let (decoded, _) = record::decode_header(&again, 0).expect("what was written is good");
        assert_eq!(FrameHeader { body_crc: header.body_crc, ..decoded }, header);
        assert_eq!(record::decode_body(&decoded, &again[HEADER_BYTES..]), Ok(body));
        assert!(again.len() != bytes.len() || decoded != header || again[..4] == crc.to_le_bytes());
    }
    match header.kind {
        FrameKind::Head => wal_head(body),
        FrameKind::Entry => {
            let read = bytes::Bytes::copy_from_slice(body);
            let decoded = record::decode_entry(&header, &read);
            if let Ok(LogEntry { index, term, kind, payload }) = decoded {
                assert_eq!(
                    (index, term, kind.as_u8()),
                    (header.index, header.term, header.entry_kind)
                );
                assert_eq!(payload, body);
            }
        }
        FrameKind::HardState => wal_hard_state(body),
        FrameKind::Membership => wal_membership(body),
        FrameKind::Snapshot => wal_snapshot_point(body),
    }
}

/// The body of a segment's head frame. If it decodes, it must encode and decode again to an equal
/// one.
pub fn wal_head(bytes: &[u8]) {
    let version = record::decode_head_version(bytes);
    let Ok(head) = record::decode_head(bytes) else { return };
    assert_eq!(version, Ok(record::LOG_FORMAT_VERSION));
    assert_eq!(record::decode_head(&record::encode_head(&head)), Ok(head));
}

/// A hard state. If it decodes, it must encode to the same bytes.
pub fn wal_hard_state(bytes: &[u8]) {
    let Ok(state) = record::decode_hard_state(bytes) else { return };
    assert_eq!(record::encode_hard_state(&state), bytes);
}

/// A membership. If it decodes, it must encode to the same bytes.
pub fn wal_membership(bytes: &[u8]) {
    let Ok(membership) = record::decode_membership(bytes) else { return };
    assert_eq!(record::encode_membership(&membership), bytes);
    assert!(record::check_membership(&membership).is_ok());
}

/// A snapshot point. If it decodes, it must encode to the same bytes.
pub fn wal_snapshot_point(bytes: &[u8]) {
    let Ok(point) = record::decode_snapshot_point(bytes) else { return };
    assert_eq!(record::encode_snapshot_point(&point), bytes);
}

/// A slot at the start of a segment. If it decodes, it must encode to the same bytes.
pub fn wal_slot(bytes: &[u8]) {
    each_sealed(bytes, 0, 4..SLOT_BYTES, |bytes| {
        let Ok(slot) = record::decode_slot(bytes) else { return };
        assert_eq!(record::encode_slot(&slot), bytes[..SLOT_BYTES]);
    });
}

/// A log that consists of one segment with these frames. It is either refused or opened; a second
/// opening must then find the same.
pub fn wal_segment(bytes: &[u8]) {
    let options = options();
    let disk = disk_with_segment(bytes);
    let Ok((wal, recovered)) = Wal::open(disk.clone(), options) else { return };
    drop(wal);
    let (_, again) = Wal::open(disk, options).expect("what was recovered is durable");
    assert_eq!(again.hard_state, recovered.hard_state);
    assert_eq!(again.membership, recovered.membership);
    assert_eq!(again.snapshot, recovered.snapshot);
    assert_eq!(again.entries, recovered.entries);
}

fn options() -> WalOptions {
    WalOptions {
        segment_bytes: SEGMENT_BYTES_MIN,
        first_segment_bytes: SEGMENT_BYTES_MIN,
        group: 0,
        spare_count: 0,
    }
}

/// A disk with one segment: empty slots, then `frames`, padded with zeros to the smallest size.
fn disk_with_segment(frames: &[u8]) -> FaultDisk {
    let mut segment = vec![0; FRAMES_START as usize];
    segment.extend_from_slice(frames);
    segment.resize(segment.len().max(SEGMENT_BYTES_MIN as usize), 0);
    let disk = FaultDisk::new(1);
    disk.create_dir(WAL_DIR).expect("the disk has no faults");
    disk.set_content(&log_path(1), segment);
    disk
}

/// The header of a snapshot. If it decodes, it must encode to the same bytes.
pub fn snapshot_header(bytes: &[u8]) {
    let prefix = snapshot::decode_prefix(bytes);
    let end = prefix.map_or(0, |(_, meta_bytes)| PREFIX_BYTES + meta_bytes);
    each_sealed(bytes, end, 0..end, |bytes| {
        let Ok(meta) = snapshot::decode_header(bytes) else { return };
        assert_eq!(snapshot::encode_header(&meta), bytes);
    });
}

/// A piece of a snapshot, which consists of a header and the stored bytes. If it decodes, its raw
/// bytes must encode to a piece that decodes to them again.
pub fn snapshot_piece(bytes: &[u8]) {
    piece(bytes);
    let mut sealed = bytes.to_vec();
    if sealed.len() >= PIECE_HEADER_BYTES {
        let stored_bytes = (sealed.len() - PIECE_HEADER_BYTES) as u32;
        sealed[8..12].copy_from_slice(&stored_bytes.to_le_bytes());
        let covered = [&sealed[..12], &sealed[PIECE_HEADER_BYTES..]].concat();
        sealed[12..16].copy_from_slice(&crc32c(&covered));
        piece(&sealed);
    }
}

fn piece(bytes: &[u8]) {
    let part = snapshot::decode_part(bytes);
    let Some((header, stored)) = bytes.split_at_checked(PIECE_HEADER_BYTES) else { return };
    let Ok(raw) = snapshot::decode_piece(header, stored) else { return };
    assert!(matches!(part, Ok(Part::Piece { raw_bytes, .. }) if raw_bytes == raw.len()));
    let again = snapshot::encode_piece(&raw);
    let (header, stored) = again.split_at(PIECE_HEADER_BYTES);
    assert_eq!(snapshot::decode_piece(header, stored), Ok(raw));
}

/// The trailer of a snapshot. If it decodes, it must encode to the same bytes.
pub fn snapshot_trailer(bytes: &[u8]) {
    each_sealed(bytes, TRAILER_BYTES - 4, 0..TRAILER_BYTES - 4, |bytes| {
        let Ok(Part::Trailer { piece_count, hash }) = snapshot::decode_part(bytes) else { return };
        assert_eq!(trailer(piece_count, hash), bytes[..TRAILER_BYTES]);
    });
}

fn trailer(piece_count: u64, hash: u128) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 0, 0, 0];
    out.extend_from_slice(&piece_count.to_le_bytes());
    out.extend_from_slice(&hash.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let crc = crc32c(&out);
    out.extend_from_slice(&crc);
    out
}

/// The `identity` file. If it decodes, it must encode to the same bytes.
pub fn identity_file(bytes: &[u8]) {
    each_sealed(bytes, 40, 0..40, |bytes| {
        let Ok(identity) = decode_identity(bytes) else { return };
        assert_eq!(encode_identity(&identity), bytes);
    });
}

/// The `draft` file, of any length. If it decodes, it must encode to the same bytes.
pub fn draft_file(bytes: &[u8]) {
    let end = bytes.len().saturating_sub(4);
    each_sealed(bytes, end, 0..end, |bytes| {
        let Ok(draft) = decode_draft(bytes) else { return };
        assert_eq!(encode_draft(&draft), bytes);
    });
}

/// The `birth` file, of any length. If it decodes, it must encode to the same bytes.
pub fn birth_file(bytes: &[u8]) {
    let end = bytes.len().saturating_sub(4);
    each_sealed(bytes, end, 0..end, |bytes| {
        let Ok(birth) = decode_birth(bytes) else { return };
        assert_eq!(encode_birth(&birth), bytes);
    });
}

/// A slot of the `boot` file. If it decodes, it must encode to the same bytes.
pub fn boot_file(bytes: &[u8]) {
    each_sealed(bytes, 24, 0..24, |bytes| {
        let Ok(boot) = decode_boot(bytes) else { return };
        assert_eq!(encode_boot(boot), bytes);
    });
}

/// The file `servers`. If its checksum is right, its text must have that checksum.
pub fn servers_file(bytes: &[u8]) {
    let content = String::from_utf8_lossy(bytes);
    if let Ok(text) = text_of_servers(&content) {
        assert_eq!(servers_content(text), content);
    }
    let whole = servers_content(&content);
    assert_eq!(text_of_servers(&whole).is_ok(), content.ends_with('\n'));
}

/// The content of the file `servers` for this text.
pub fn servers_content(text: &str) -> String {
    format!("{text}checksum {:08x}\n", u32::from_le_bytes(crc32c(text.as_bytes())))
}

fn members() -> Membership {
    Membership {
        voters: vec![1, 2, u64::MAX],
        voters_outgoing: vec![1, 3],
        learners: vec![4],
        learners_next: vec![3],
        auto_leave: true,
    }
}

const STATE: HardState = HardState { term: 2, vote: 1, commit: 3 };
const POINT: SnapshotPoint = SnapshotPoint { index: 1, term: 1 };

fn head(link: Option<Link>) -> Vec<u8> {
    let membership = members();
    let head = Head { link, hard_state: STATE, snapshot: POINT, membership, blocks: 16 };
    record::encode_head(&head)
}

/// Appends a frame of generation 1. `place` is the segment's salt and the checksum of the frame
/// before; returns the checksum that the next frame needs.
fn put_frame(out: &mut Vec<u8>, place: (u32, u32), header: (FrameKind, u64), body: &[u8]) -> u32 {
    let ((salt, chain), (kind, index)) = (place, header);
    let offset = FRAMES_START + out.len() as u64;
    let header = FrameHeader {
        body_bytes: 0,
        kind,
        entry_kind: EntryKind::Normal.as_u8(),
        group: 0,
        index,
        term: if kind == FrameKind::Entry { 2 } else { 0 },
        generation: 1,
        offset,
        mark: FRAMES_START.min(offset),
        chain,
        body_crc: 0,
    };
    record::encode_frame(out, salt, &header, body)
}

fn frames() -> Vec<(FrameKind, u64, Vec<u8>)> {
    vec![
        (FrameKind::HardState, 0, record::encode_hard_state(&STATE)),
        (FrameKind::Entry, 2, b"an entry".to_vec()),
        (FrameKind::Entry, 3, Vec::new()),
        (FrameKind::Membership, 0, record::encode_membership(&members())),
        (FrameKind::Entry, 3, b"another".to_vec()),
        (FrameKind::Snapshot, 0, record::encode_snapshot_point(&POINT)),
    ]
}

pub fn wal_frame_seeds() -> Vec<Vec<u8>> {
    let mut all = frames();
    all.push((FrameKind::Head, 1, head(None)));
    all.iter()
        .map(|(kind, index, body)| {
            let mut out = Vec::new();
            put_frame(&mut out, (0, 0), (*kind, *index), body);
            out
        })
        .collect()
}

pub fn wal_segment_seeds() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let salt = put_frame(&mut out, (0, 0), (FrameKind::Head, 1), &head(None));
    let only_head = out.clone();
    let mut chain = salt;
    for (kind, index, body) in frames() {
        chain = put_frame(&mut out, (salt, chain), (kind, index), &body);
    }
    vec![out, only_head]
}

pub fn wal_head_seeds() -> Vec<Vec<u8>> {
    vec![head(None), head(Some(Link { sequence: 3, end: 9000, chain: 77 }))]
}

pub fn wal_hard_state_seeds() -> Vec<Vec<u8>> {
    vec![record::encode_hard_state(&STATE)]
}

pub fn wal_membership_seeds() -> Vec<Vec<u8>> {
    [members(), Membership::default()].iter().map(record::encode_membership).collect()
}

pub fn wal_snapshot_point_seeds() -> Vec<Vec<u8>> {
    vec![record::encode_snapshot_point(&POINT)]
}

pub fn wal_slot_seeds() -> Vec<Vec<u8>> {
    let slot = Slot { generation: 1, mark: 9000, is_sealed: true, successor: 2 };
    vec![record::encode_slot(&slot)]
}

pub fn snapshot_header_seeds() -> Vec<Vec<u8>> {
    let meta = SnapshotMeta { index: 9, term: 2, cluster_id: 3, membership: members() };
    vec![snapshot::encode_header(&meta)]
}

pub fn snapshot_piece_seeds() -> Vec<Vec<u8>> {
    [&b"a piece, a piece, a piece"[..], &[], &[0; 5000]]
        .iter()
        .map(|raw| snapshot::encode_piece(raw))
        .collect()
}

pub fn snapshot_trailer_seeds() -> Vec<Vec<u8>> {
    vec![trailer(2, 0x0123_4567_89ab_cdef)]
}

pub fn identity_file_seeds() -> Vec<Vec<u8>> {
    vec![encode_identity(&Identity { cluster_id: 1, member_id: 2 })]
}

pub fn draft_file_seeds() -> Vec<Vec<u8>> {
    let (round, member) = (2, 9);
    let birth = Birth { cluster_id: 1, voters: vec![7, 8] };
    let promised = Ballot { round, member };
    let nothing = Acceptor::default();
    let all = Acceptor { promised, accepted: Some((promised, birth)) };
    let acceptors = [nothing, Acceptor { promised, accepted: None }, all];
    let draft = |acceptor| encode_draft(&Draft { member_id: 7, acceptor });
    acceptors.map(draft).to_vec()
}

pub fn birth_file_seeds() -> Vec<Vec<u8>> {
    vec![encode_birth(&Birth { cluster_id: 1, voters: vec![2, 3, 4] })]
}

pub fn boot_file_seeds() -> Vec<Vec<u8>> {
    vec![encode_boot(7)]
}

pub fn servers_file_seeds() -> Vec<Vec<u8>> {
    let texts = ["quorate servers 1\nown 0\n", "quorate servers 1\nown 1\nserver 1 http://a:1 n\n"];
    texts.map(|text| servers_content(text).into_bytes()).to_vec()
}
