//! Snapshots: files with the state of the state machine at one index, in checked, compressed
//! pieces.
//!
//! A snapshot is a header, pieces, and a trailer with a hash of everything before. It is written
//! under a temporary name, synced, renamed, and the directory synced; so a file with its final name
//! is complete. Its disk space may be reserved in advance ([`room`]). The writer syncs every
//! [`SNAPSHOT_SYNC_BYTES`], so that the log's own sync never waits behind a lot of dirty data. The
//! reader checks the header, and checks each piece before it returns the piece; only
//! [`SnapshotReader::next_stored`] leaves that check to its caller. The end of the file is reported
//! only after the hash of the whole file matched.
//!
//! Byte layouts: `docs/formats.md`, "Snapshots".

mod received;
pub mod room;

use xxhash_rust::xxh3::Xxh3;

use crate::codec::{DecodeError, Reader};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::{
    PIECE_BYTES_MAX, SNAPSHOT_META_BYTES_MAX, SNAPSHOT_SYNC_BYTES, SNAPSHOTS_MAX, ZSTD_LEVEL,
};
use crate::record::{Membership, check_membership, put_membership, read_membership, read_position};
use crate::snapshot::room::Room;
use crate::wal::parse_number;

pub use received::{
    RECEIVED_NAME, RECEIVING_NAME, ReceivedWriter, has_received, keep_received, name_received,
    remove_received,
};

/// The directory of the snapshots, below the data directory.
pub const SNAPSHOT_DIR: &str = "snapshots";

/// Version of the snapshot's format.
pub const SNAPSHOT_FORMAT_VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"QUORSNAP";

/// Bytes of a snapshot's header before the metadata: magic, version, length.
pub const PREFIX_BYTES: usize = 16;

/// Bytes of the header in front of the data of a piece.
pub const PIECE_HEADER_BYTES: usize = 16;

/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 40;

const TAG_PIECE: u32 = 1;
const TAG_TRAILER: u32 = 2;

/// The metadata of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The index of the last entry that the snapshot covers.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// The id of the cluster that the snapshot belongs to.
    pub cluster_id: u128,
    /// The membership at that entry.
    pub membership: Membership,
}

/// A snapshot file in the directory, ordered by index, then term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    /// The index of the last entry that the snapshot covers.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// The snapshot's file name, without the directory.
    pub name: String,
}

/// The file name of the snapshot at that index and term.
pub fn snapshot_name(index: u64, term: u64) -> String {
    format!("{index:016x}-{term:016x}.snap")
}

fn temporary_name(index: u64, term: u64) -> String {
    format!("{index:016x}-{term:016x}.tmp")
}

fn path_of(name: &str) -> String {
    format!("{SNAPSHOT_DIR}/{name}")
}

/// Encodes a snapshot's header.
pub fn encode_header(meta: &SnapshotMeta) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&meta.index.to_le_bytes());
    body.extend_from_slice(&meta.term.to_le_bytes());
    body.extend_from_slice(&meta.cluster_id.to_le_bytes());
    put_membership(&mut body, &meta.membership);
    assert!(body.len() <= SNAPSHOT_META_BYTES_MAX);
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&SNAPSHOT_FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&body);
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// The format version, and the size of the metadata in bytes, from the first [`PREFIX_BYTES`] of a
/// file.
pub fn decode_prefix(bytes: &[u8]) -> Result<(u32, usize), DecodeError> {
    let mut reader = Reader::new(bytes);
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(reader.bad("this is not a snapshot"));
    }
    let version = reader.u32()?;
    let meta_bytes = reader.u32()? as usize;
    match meta_bytes > SNAPSHOT_META_BYTES_MAX {
        true => Err(reader.bad("the metadata is over the limit")),
        false => Ok((version, meta_bytes)),
    }
}

/// Checks the checksum of a whole header; returns the format version and the bytes that the
/// checksum covers. Every version of the format has these in the same places.
fn decode_sealed(bytes: &[u8]) -> Result<(u32, &[u8]), DecodeError> {
    let mut reader = Reader::new(bytes);
    let (version, meta_bytes) = decode_prefix(bytes)?;
    let covered = reader.take(PREFIX_BYTES.saturating_add(meta_bytes))?;
    if reader.u32()? != crc32c::crc32c(covered) {
        return Err(reader.bad("the checksum of the header does not match"));
    }
    reader.finish()?;
    Ok((version, covered))
}

/// Decodes a whole header, as [`encode_header`] wrote it.
pub fn decode_header(bytes: &[u8]) -> Result<SnapshotMeta, DecodeError> {
    let (version, covered) = decode_sealed(bytes)?;
    if version != SNAPSHOT_FORMAT_VERSION {
        return Err(Reader::new(bytes).bad("the snapshot has an unknown format version"));
    }
    let mut reader = Reader::new(covered);
    reader.take(PREFIX_BYTES)?;
    let meta = SnapshotMeta {
        index: read_position(&mut reader)?,
        term: read_position(&mut reader)?,
        cluster_id: reader.u128()?,
        membership: read_membership(&mut reader)?,
    };
    reader.finish()?;
    Ok(meta)
}

/// The next part of a snapshot file: the header of a piece, or the trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The header of a piece; the stored bytes follow.
    Piece {
        /// Bytes of the piece when decompressed.
        raw_bytes: usize,
        /// Compressed bytes that follow this header.
        stored_bytes: usize,
        /// Checksum of the header's first 12 bytes and the stored bytes.
        crc: u32,
    },
    /// The trailer, which ends the file.
    Trailer {
        /// Number of pieces in the file.
        piece_count: u64,
        /// xxh3-128 of every byte before the trailer.
        hash: u128,
    },
}

/// Upper bound on the compressed size of `raw_bytes` bytes.
fn stored_bytes_max(raw_bytes: usize) -> usize {
    // ZSTD_compressBound is raw + raw/256 + 64 bytes at most; more slack does not hurt.
    raw_bytes.saturating_add(raw_bytes / 128).saturating_add(1024)
}

/// Decodes the header of the next part. `bytes` holds [`PIECE_HEADER_BYTES`] bytes, or
/// [`TRAILER_BYTES`] if exactly that many are left in the file.
pub fn decode_part(bytes: &[u8]) -> Result<Part, DecodeError> {
    let mut reader = Reader::new(bytes);
    match reader.u32()? {
        TAG_PIECE => {
            let raw_bytes = reader.u32()? as usize;
            if raw_bytes > PIECE_BYTES_MAX {
                return Err(reader.bad("a piece is over the limit"));
            }
            let stored_bytes = reader.u32()? as usize;
            if stored_bytes > stored_bytes_max(raw_bytes) {
                return Err(reader.bad("a piece is stored in too many bytes"));
            }
            Ok(Part::Piece { raw_bytes, stored_bytes, crc: reader.u32()? })
        }
        TAG_TRAILER => {
            reader.zeros(4)?;
            let piece_count = reader.u64()?;
            let hash = reader.u128()?;
            reader.zeros(4)?;
            let covered = Reader::new(bytes).take(TRAILER_BYTES - 4)?;
            if reader.u32()? != crc32c::crc32c(covered) {
                return Err(reader.bad("the checksum of the trailer does not match"));
            }
            Ok(Part::Trailer { piece_count, hash })
        }
        _ => Err(reader.bad("neither a piece nor the trailer")),
    }
}

/// Checks and decompresses a piece. `header` holds the piece's first [`PIECE_HEADER_BYTES`] bytes,
/// `stored` the rest.
pub fn decode_piece(header: &[u8], stored: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let reader = Reader::new(stored);
    let Part::Piece { raw_bytes, stored_bytes, crc } = decode_part(header)? else {
        return Err(reader.bad("not a piece"));
    };
    if stored.len() != stored_bytes {
        return Err(reader.bad("a piece is cut off"));
    }
    let covered = Reader::new(header).take(PIECE_HEADER_BYTES - 4)?;
    if crc32c::crc32c_append(crc32c::crc32c(covered), stored) != crc {
        return Err(reader.bad("the checksum of a piece does not match"));
    }
    // The capacity limits the decompressed size, whatever the compressed bytes claim.
    let raw = zstd::bulk::decompress(stored, raw_bytes);
    let raw = raw.map_err(|_| reader.bad("a piece does not decompress"))?;
    match raw.len() == raw_bytes {
        true => Ok(raw),
        false => Err(reader.bad("a piece decompresses to another size")),
    }
}

/// Encodes a piece of at most [`PIECE_BYTES_MAX`] bytes; [`SnapshotWriter::write_piece`] checked
/// that.
pub fn encode_piece(raw: &[u8]) -> Vec<u8> {
    assert!(raw.len() <= PIECE_BYTES_MAX);
    let stored = zstd::bulk::compress(raw, ZSTD_LEVEL).expect("compression has room for any input");
    assert!(stored.len() <= stored_bytes_max(raw.len()));
    let mut out = Vec::with_capacity(PIECE_HEADER_BYTES + stored.len());
    out.extend_from_slice(&TAG_PIECE.to_le_bytes());
    out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    out.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&out), &stored);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&stored);
    out
}

fn encode_trailer(piece_count: u64, hash: u128) -> Vec<u8> {
    let mut out = TAG_TRAILER.to_le_bytes().to_vec();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&piece_count.to_le_bytes());
    out.extend_from_slice(&hash.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    assert_eq!(out.len(), TRAILER_BYTES);
    out
}

/// Writes one snapshot. The snapshot thread owns it.
pub struct SnapshotWriter<D: Disk> {
    disk: D,
    file: D::File,
    temporary: String,
    name: SnapshotName,
    /// Bytes of the reserved file that the snapshot is written into; 0 if nothing was reserved.
    room_bytes: u64,
    offset: u64,
    unsynced_bytes: u64,
    piece_count: u64,
    hash: Xxh3,
}

impl<D: Disk> SnapshotWriter<D> {
    /// Starts a snapshot under a temporary name. Replaces what an earlier attempt left.
    pub fn create(disk: D, meta: &SnapshotMeta) -> Result<SnapshotWriter<D>, StorageError> {
        SnapshotWriter::create_at(disk, path_of(&temporary_name(meta.index, meta.term)), meta)
    }

    /// Like [`SnapshotWriter::create`], with this temporary path.
    pub(crate) fn create_at(
        disk: D,
        temporary: String,
        meta: &SnapshotMeta,
    ) -> Result<SnapshotWriter<D>, StorageError> {
        check_membership(&meta.membership)?;
        let file = disk.create(&temporary);
        let file = file.map_err(|error| StorageError::io(&temporary, "create", error))?;
        SnapshotWriter::begin(disk, temporary, file, 0, meta)
    }

    /// Starts a snapshot in the file that `room` reserved, and takes that file out of `room`. If
    /// nothing is reserved, this is [`SnapshotWriter::create`].
    pub fn create_in(
        room: &mut Room<D>,
        disk: D,
        meta: &SnapshotMeta,
    ) -> Result<SnapshotWriter<D>, StorageError> {
        check_membership(&meta.membership)?;
        let temporary = path_of(&temporary_name(meta.index, meta.term));
        match room.take(&temporary)? {
            Some((file, bytes)) => SnapshotWriter::begin(disk, temporary, file, bytes, meta),
            None => SnapshotWriter::create(disk, meta),
        }
    }

    fn begin(
        disk: D,
        temporary: String,
        file: D::File,
        room_bytes: u64,
        meta: &SnapshotMeta,
    ) -> Result<SnapshotWriter<D>, StorageError> {
        let mut writer = SnapshotWriter {
            disk,
            file,
            room_bytes,
            temporary,
            name: SnapshotName {
                index: meta.index,
                term: meta.term,
                name: snapshot_name(meta.index, meta.term),
            },
            offset: 0,
            unsynced_bytes: 0,
            piece_count: 0,
            hash: Xxh3::new(),
        };
        let header = encode_header(meta);
        writer.hash.update(&header);
        writer.write(&header)?;
        Ok(writer)
    }

    /// Adds a piece of at most [`PIECE_BYTES_MAX`] bytes. After an error the caller can only call
    /// [`SnapshotWriter::abort`].
    pub fn write_piece(&mut self, raw: &[u8]) -> Result<(), StorageError> {
        if raw.len() > PIECE_BYTES_MAX {
            return Err(StorageError::RecordTooLarge {
                bytes: raw.len(),
                bytes_max: PIECE_BYTES_MAX,
            });
        }
        let piece = encode_piece(raw);
        self.hash.update(&piece);
        self.piece_count += 1;
        self.write(&piece)
    }

    /// Bytes written so far, for the caller's budget.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// Completes the snapshot. When this returns, the file is complete and durable, with its final
    /// name.
    pub fn finish(self) -> Result<SnapshotName, StorageError> {
        let name = self.name.clone();
        self.finish_as(&path_of(&name.name), SNAPSHOT_DIR)?;
        Ok(name)
    }

    /// Completes the snapshot as the file `path` in the directory `dir`, durably.
    pub(crate) fn finish_as(mut self, path: &str, dir: &str) -> Result<(), StorageError> {
        let trailer = encode_trailer(self.piece_count, self.hash.digest128());
        self.write(&trailer)?;
        if self.offset < self.room_bytes {
            let cut = self.disk.truncate(&self.file, self.offset);
            cut.map_err(|error| StorageError::io(&self.temporary, "truncate", error))?;
        }
        self.sync()?;
        drop(self.file);
        let renamed = self.disk.rename(&self.temporary, path);
        renamed.map_err(|error| StorageError::io(&self.temporary, "rename", error))?;
        let synced = self.disk.sync_dir(dir);
        synced.map_err(|error| StorageError::io(dir, "sync", error))
    }

    /// Gives up and removes the file. If that fails, the next start removes it.
    pub fn abort(self) {
        drop(self.file);
        drop(self.disk.remove(&self.temporary));
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        for chunk in bytes.chunks(SNAPSHOT_SYNC_BYTES as usize) {
            let wrote = self.disk.write_at(&self.file, self.offset, chunk);
            wrote.map_err(|error| self.write_error(error))?;
            self.offset += chunk.len() as u64;
            self.unsynced_bytes += chunk.len() as u64;
            if self.unsynced_bytes >= SNAPSHOT_SYNC_BYTES {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// A full disk is an error that only the snapshot suffers, not the process.
    fn write_error(&self, error: std::io::Error) -> StorageError {
        let error = StorageError::io(&self.temporary, "write", error);
        match error.is_no_space() {
            true => StorageError::DiskFull { bytes_wanted: SNAPSHOT_SYNC_BYTES },
            false => error,
        }
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        let synced = self.disk.sync_data(&self.file);
        synced.map_err(|error| self.write_error(error))?;
        self.unsynced_bytes = 0;
        Ok(())
    }
}

/// A piece of a snapshot as it is in the file: read, but not checked.
pub struct StoredPiece {
    /// The offset of the piece in the file.
    offset: u64,
    header: Vec<u8>,
    stored: Vec<u8>,
}

/// A piece whose bytes are not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedPiece {
    /// The offset of the piece in the file.
    pub offset: u64,
    /// A description of the damage, for people.
    pub what: &'static str,
}

impl StoredPiece {
    /// Checks and decompresses the piece.
    ///
    /// # Errors
    /// The piece is damaged. [`SnapshotReader::damaged`] turns this into an error with the file's
    /// name.
    pub fn decode(&self) -> Result<Vec<u8>, DamagedPiece> {
        let damaged = |error: DecodeError| DamagedPiece { offset: self.offset, what: error.what };
        decode_piece(&self.header, &self.stored).map_err(damaged)
    }
}

/// Reads one snapshot from start to end, and checks everything that it reads.
pub struct SnapshotReader<D: Disk> {
    disk: D,
    file: D::File,
    path: String,
    length: u64,
    offset: u64,
    meta: SnapshotMeta,
    piece_count: u64,
    hash: Xxh3,
    is_finished: bool,
}

impl<D: Disk> SnapshotReader<D> {
    /// Opens `name`, a file name without the directory, and checks the header.
    pub fn open(disk: D, name: &str) -> Result<SnapshotReader<D>, StorageError> {
        let reader = SnapshotReader::open_received(disk, name)?;
        if snapshot_name(reader.meta.index, reader.meta.term) != name {
            let what = "the file has another snapshot's name";
            return Err(StorageError::corrupt(&reader.path, 0, what));
        }
        Ok(reader)
    }

    /// Opens a received snapshot and checks its header. The file's name holds no index and no term.
    pub fn open_received(disk: D, name: &str) -> Result<SnapshotReader<D>, StorageError> {
        SnapshotReader::open_backup(disk, path_of(name))
    }

    /// Opens a snapshot outside of any data directory and checks its header. `path` is relative to
    /// the root of `disk`.
    pub fn open_backup(disk: D, path: String) -> Result<SnapshotReader<D>, StorageError> {
        let file = disk.open_read_only(&path);
        let file = file.map_err(|error| StorageError::io(&path, "open", error))?;
        SnapshotReader::from_file(disk, file, path)
    }

    /// Reads an open file of `disk` from its start, and checks its header. `path` names the file in
    /// errors; the file may have another name by now.
    pub fn from_file(
        disk: D,
        file: D::File,
        path: String,
    ) -> Result<SnapshotReader<D>, StorageError> {
        let length = disk.len(&file);
        let length = length.map_err(|error| StorageError::io(&path, "measure", error))?;
        let at = |error: DecodeError| StorageError::corrupt(&path, error.offset as u64, error.what);
        let prefix = read_exactly(&disk, &file, &path, 0, PREFIX_BYTES)?;
        let (_, meta_bytes) = decode_prefix(&prefix).map_err(at)?;
        let header_bytes = PREFIX_BYTES.saturating_add(meta_bytes).saturating_add(4);
        let header = read_exactly(&disk, &file, &path, 0, header_bytes)?;
        // Without a matching checksum, the version itself may be damaged.
        let (version, _) = decode_sealed(&header).map_err(at)?;
        if version > SNAPSHOT_FORMAT_VERSION {
            return Err(StorageError::UnknownFormat {
                file: path,
                version,
                version_max: SNAPSHOT_FORMAT_VERSION,
            });
        }
        let meta = decode_header(&header).map_err(at)?;
        let mut hash = Xxh3::new();
        hash.update(&header);
        Ok(SnapshotReader {
            disk,
            file,
            path,
            length,
            offset: header.len() as u64,
            meta,
            piece_count: 0,
            hash,
            is_finished: false,
        })
    }

    /// The snapshot's metadata.
    pub fn meta(&self) -> &SnapshotMeta {
        &self.meta
    }

    /// The hash of the whole file. Panics unless [`SnapshotReader::next_piece`] returned `None`
    /// before.
    pub fn hash(&self) -> u128 {
        assert!(self.is_finished, "the hash is known at the end");
        self.hash.digest128()
    }

    /// Returns the next piece, or `None` after the trailer and the hash of the whole file matched.
    /// Only then can the pieces returned before be trusted.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, StorageError> {
        let Some(stored) = self.next_stored()? else { return Ok(None) };
        stored.decode().map_err(|damage| self.damaged(&damage)).map(Some)
    }

    /// Like [`SnapshotReader::next_piece`], but returns the piece unchecked and compressed.
    /// [`StoredPiece::decode`] checks it, on any thread.
    pub fn next_stored(&mut self) -> Result<Option<StoredPiece>, StorageError> {
        if self.is_finished {
            return Ok(None);
        }
        let rest = self.length.saturating_sub(self.offset);
        let header_bytes = match rest == TRAILER_BYTES as u64 {
            true => TRAILER_BYTES,
            false => PIECE_HEADER_BYTES,
        };
        let header = self.read(self.offset, header_bytes)?;
        match decode_part(&header).map_err(|error| self.corrupt(error.what))? {
            Part::Piece { stored_bytes, .. } => {
                let header = header.get(..PIECE_HEADER_BYTES).unwrap_or(&[]);
                self.read_stored(header, stored_bytes).map(Some)
            }
            Part::Trailer { piece_count, hash } => {
                if piece_count != self.piece_count {
                    return Err(self.corrupt("the number of pieces is wrong"));
                }
                if hash != self.hash.digest128() {
                    return Err(self.corrupt("the hash of the whole file does not match"));
                }
                self.is_finished = true;
                Ok(None)
            }
        }
    }

    fn read_stored(
        &mut self,
        header: &[u8],
        stored_bytes: usize,
    ) -> Result<StoredPiece, StorageError> {
        let start = self.offset.saturating_add(header.len() as u64);
        let stored = self.read(start, stored_bytes)?;
        self.hash.update(header);
        self.hash.update(&stored);
        self.piece_count = self.piece_count.saturating_add(1);
        let piece = StoredPiece { offset: self.offset, header: header.to_vec(), stored };
        self.offset = start.saturating_add(piece.stored.len() as u64);
        Ok(piece)
    }

    /// The error for a damaged piece of this file.
    pub fn damaged(&self, damage: &DamagedPiece) -> StorageError {
        StorageError::corrupt(&self.path, damage.offset, damage.what)
    }

    fn read(&self, offset: u64, count: usize) -> Result<Vec<u8>, StorageError> {
        let end = offset.saturating_add(count as u64);
        if end > self.length {
            return Err(self.corrupt("the file ends too early"));
        }
        read_exactly(&self.disk, &self.file, &self.path, offset, count)
    }

    fn corrupt(&self, what: &str) -> StorageError {
        StorageError::corrupt(&self.path, self.offset, what)
    }
}

fn read_exactly<D: Disk>(
    disk: &D,
    file: &D::File,
    path: &str,
    offset: u64,
    count: usize,
) -> Result<Vec<u8>, StorageError> {
    let mut bytes = vec![0; count];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(done as u64);
        let read = disk.read_at(file, at, rest);
        match read.map_err(|error| StorageError::io(path, "read", error))? {
            0 => return Err(StorageError::corrupt(path, at, "the file ends too early")),
            count => done = done.saturating_add(count),
        }
    }
    Ok(bytes)
}

/// Reads up to `bytes_max` bytes of the snapshot file `name`, from `offset` on, to send them to
/// another member. Returns the length of the whole file, and the bytes. Checks nothing: the
/// receiver does.
///
/// # Errors
/// There is no such file, or it has no byte at `offset`.
pub fn read_at<D: Disk>(
    disk: &D,
    name: &str,
    offset: u64,
    bytes_max: usize,
) -> Result<(u64, Vec<u8>), StorageError> {
    let path = path_of(name);
    let file = disk.open_read_only(&path);
    let file = file.map_err(|error| StorageError::io(&path, "open", error))?;
    let length = disk.len(&file);
    let length = length.map_err(|error| StorageError::io(&path, "measure", error))?;
    let left = length.saturating_sub(offset);
    if left == 0 {
        return Err(StorageError::corrupt(&path, offset, "the file ends before"));
    }
    let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(bytes_max);
    Ok((length, read_exactly(disk, &file, &path, offset, bytes)?))
}

/// Lists the finished snapshots, oldest first. Only reading one shows whether it is intact.
pub fn list<D: Disk>(disk: &D) -> Result<Vec<SnapshotName>, StorageError> {
    let names = disk.list(SNAPSHOT_DIR);
    let names = names.map_err(|error| StorageError::io(SNAPSHOT_DIR, "list", error))?;
    let mut found: Vec<SnapshotName> = names.into_iter().filter_map(parse_name).collect();
    found.sort();
    match found.len() > SNAPSHOTS_MAX {
        true => Err(StorageError::corrupt(SNAPSHOT_DIR, 0, "there are too many snapshots")),
        false => Ok(found),
    }
}

fn parse_name(name: String) -> Option<SnapshotName> {
    let (index, term) = parse_point(name.strip_suffix(".snap")?)?;
    Some(SnapshotName { index, term, name })
}

/// Parses the index and the term in a snapshot's file name.
fn parse_point(stem: &str) -> Option<(u64, u64)> {
    let (index, term) = stem.split_once('-')?;
    Some((parse_number(index)?, parse_number(term)?))
}

fn is_temporary(name: &str) -> bool {
    name.strip_suffix(".tmp").and_then(parse_point).is_some()
}

/// Removes all snapshots but the newest `count_kept` (at least 1). Never removes one at or above
/// index `index_kept`, or the one called `spared`. Returns how many were removed.
pub fn remove_older<D: Disk>(
    disk: &D,
    count_kept: usize,
    index_kept: u64,
    spared: Option<&str>,
) -> Result<usize, StorageError> {
    assert!(count_kept > 0);
    let found = list(disk)?;
    let count = found.len().saturating_sub(count_kept);
    let is_old = |it: &&SnapshotName| it.index < index_kept && Some(&*it.name) != spared;
    let old = found.iter().take(count).filter(is_old);
    let mut removed = 0;
    for snapshot in old {
        remove(disk, &snapshot.name)?;
        removed += 1;
    }
    Ok(removed)
}

/// Removes files that unfinished writers left, and no others. Called at the start, when no writer
/// runs.
pub fn remove_temporaries<D: Disk>(disk: &D) -> Result<(), StorageError> {
    let names = disk.list(SNAPSHOT_DIR);
    let names = names.map_err(|error| StorageError::io(SNAPSHOT_DIR, "list", error))?;
    for name in names.iter().filter(|name| is_temporary(name)) {
        remove(disk, name)?;
    }
    Ok(())
}

fn remove<D: Disk>(disk: &D, name: &str) -> Result<(), StorageError> {
    let path = path_of(name);
    let removed = disk.remove(&path);
    removed.map_err(|error| StorageError::io(&path, "remove", error))
}

#[cfg(test)]
mod tests;
