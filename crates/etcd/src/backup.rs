//! Writes and reads backups in etcd's own format, for etcd's own tools (`etcdutl snapshot status`,
//! `restore`). A backup is a bbolt database file with etcd's buckets.
//!
//! [`Backup`] takes etcd's part of a snapshot, piece by piece. The snapshot orders versions by key,
//! but the file needs them ordered by revision. So [`sort`] sorts them in bounded memory, with a
//! second file for what does not fit. [`bolt_writer`] writes the pages, and [`buckets`] encodes the
//! records. [`read()`] makes a state of such a file, which may be a backup of a real etcd.

mod bolt;
mod bolt_reader;
mod bolt_writer;
mod buckets;
mod read;
mod sort;

use std::io::{self, Read, Seek, Write};

use machine::image::etcd_part::EtcdPart;

pub use bolt_reader::is_database;
use bolt_writer::BoltWriter;
pub use read::{Imported, ReadError, read};
use sort::Sorter;

/// The version of etcd whose storage format the backup has (`version.V3_6`).
pub const STORAGE_VERSION: &str = "3.6.0";

/// The log position that a backup records beside the keys, as etcd's file does.
#[derive(Clone, Copy, Debug)]
pub struct Applied {
    /// The index of the last log entry whose effects are in the backup.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
}

/// A backup in the making. Its methods fail only if one of its two files fails.
pub struct Backup<F: Read + Write + Seek> {
    file: BoltWriter<F>,
    versions: Sorter<F>,
    applied: Applied,
    /// The compacted revision, from the snapshot; `None` until a piece has named it.
    compacted: Option<i64>,
    small: buckets::Small,
}

impl<F: Read + Write + Seek> Backup<F> {
    /// Begins a backup in two empty files: `file` becomes the database, and `spill` holds sorted
    /// versions that do not fit into memory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(file: F, spill: F, applied: Applied) -> io::Result<Backup<F>> {
        Ok(Backup {
            file: BoltWriter::new(file)?,
            versions: Sorter::new(spill),
            applied,
            compacted: None,
            small: buckets::Small::default(),
        })
    }

    /// Adds the next piece of the snapshot.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn piece(&mut self, part: EtcdPart) -> io::Result<()> {
        if let Some((_, compacted)) = part.revisions {
            self.compacted = Some(compacted);
        }
        if let Some(auth) = &part.auth {
            self.small.add_auth(auth);
        }
        for alarm in &part.alarms {
            self.small.add_alarm(*alarm);
        }
        for (lease, ttl_s) in &part.leases {
            self.small.add_lease(*lease, *ttl_s);
        }
        for event in &part.events {
            self.versions.push(&buckets::revision_key(event), &buckets::version(event))?;
        }
        Ok(())
    }

    /// Ends the backup. Returns the database, and its length in bytes.
    ///
    /// # Errors
    /// A file cannot be written or read.
    pub fn finish(self) -> io::Result<(F, u64)> {
        let Backup { mut file, versions, applied, compacted, small } = self;
        versions.for_each(|key, value| file.add(key, value))?;
        file.end_bucket(buckets::KEY)?;
        for (name, records) in small.buckets(applied, compacted) {
            for (key, value) in records {
                file.add(&key, &value)?;
            }
            file.end_bucket(name)?;
        }
        file.finish()
    }
}

#[cfg(test)]
mod tests;
