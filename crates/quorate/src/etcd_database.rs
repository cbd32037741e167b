//! Reads a database file of etcd as a backup: the output of `etcdctl snapshot save`, which has its
//! hash at the end, or `member/snap/db` of a stopped etcd, which has none.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use anyhow::ensure;
use etcd::backup::{Imported, is_database, read};
use sha2::{Digest, Sha256};

/// Length of the SHA-256 hash at the end of a file that has one. The database in front of it
/// consists of blocks of [`BLOCK_BYTES`], so the length of the file shows whether there is a hash
/// (`etcdutl/snapshot`, `hasChecksum`).
const HASH_BYTES: u64 = 32;
const BLOCK_BYTES: u64 = 512;

/// How many bytes are hashed at once.
const PIECE_BYTES: usize = 1024 * 1024;

/// A database file of etcd, open for reading.
pub struct EtcdDatabase {
    file: File,
    /// The length of the file. If there is a hash, `database_bytes`, the length of the database in
    /// front of it, is less.
    bytes: u64,
    database_bytes: u64,
}

impl EtcdDatabase {
    /// Opens a file. `None` if its beginning does not look like a database of etcd.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(mut file: File) -> io::Result<Option<EtcdDatabase>> {
        let mut head = Vec::new();
        file.by_ref().take(BLOCK_BYTES).read_to_end(&mut head)?;
        let bytes = file.metadata()?.len();
        let hash_bytes = if bytes % BLOCK_BYTES == HASH_BYTES { HASH_BYTES } else { 0 };
        let database_bytes = bytes - hash_bytes;
        Ok(is_database(&head).then_some(EtcdDatabase { file, bytes, database_bytes }))
    }

    /// Whether the file has a hash. Without one, damage may go unnoticed.
    pub fn has_hash(&self) -> bool {
        self.database_bytes < self.bytes
    }

    /// Reads etcd's state from the file. Checks the hash first, if there is one.
    ///
    /// # Errors
    /// The file cannot be read or is damaged, or it has something that a server here cannot
    /// represent.
    pub fn read(mut self) -> anyhow::Result<Imported> {
        if self.has_hash() {
            self.check_hash()?;
        }
        Ok(read(&mut self.file, self.database_bytes)?)
    }

    fn check_hash(&mut self) -> anyhow::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let (mut hash, mut left) = (Sha256::new(), self.database_bytes);
        let mut piece = vec![0; PIECE_BYTES];
        while left > 0 {
            piece.truncate(left.min(PIECE_BYTES as u64) as usize);
            self.file.read_exact(&mut piece)?;
            hash.update(&piece);
            left -= piece.len() as u64;
        }
        let mut written = [0; HASH_BYTES as usize];
        self.file.read_exact(&mut written)?;
        ensure!(hash.finalize()[..] == written, "its hash is wrong: it is damaged");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Cursor;

    use etcd::backup::{Applied, Backup};

    use super::*;

    fn file_of(name: &str, bytes: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("database-{name}-{}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        fs::remove_file(path).unwrap();
        file
    }

    fn database() -> Vec<u8> {
        let empty = || Cursor::new(Vec::new());
        let backup = Backup::new(empty(), empty(), Applied { index: 5, term: 1 }).unwrap();
        backup.finish().unwrap().0.into_inner()
    }

    #[test]
    fn a_hash_notices_every_damage() {
        let mut bytes = database();
        let hash = Sha256::digest(&bytes);
        bytes.extend_from_slice(&hash);
        let read = |bytes: &[u8]| {
            let database = EtcdDatabase::open(file_of("with-hash", bytes)).unwrap().unwrap();
            assert!(database.has_hash());
            database.read().map(|it| it.machine).map_err(|error| error.to_string())
        };
        assert_eq!(read(&bytes).unwrap().index().0, 5);
        for at in (20..bytes.len()).step_by(97) {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            assert_eq!(read(&changed).unwrap_err(), "its hash is wrong: it is damaged");
        }
    }

    #[test]
    fn a_database_may_have_no_hash() {
        let database = EtcdDatabase::open(file_of("without-hash", &database())).unwrap().unwrap();
        assert!(!database.has_hash());
        assert_eq!(database.read().unwrap().machine.index().0, 5);
    }

    #[test]
    fn other_files_are_none_of_etcd() {
        for bytes in [&b""[..], b"short", &[7; 5000]] {
            assert!(EtcdDatabase::open(file_of("other", bytes)).unwrap().is_none());
        }
    }
}
