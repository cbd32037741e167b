//! Backups as etcd's own tools read them: the file of a bbolt database with etcd's buckets
//! (`etcdutl snapshot status`, `restore`).
//!
//! [`Backup`] takes etcd's part of an image, piece by piece. The file has versions of keys in the
//! order of their revisions, and the image has them by key: so they are sorted on the way, in
//! bounded memory, with a second file for what does not fit ([`sort`]). [`bolt_writer`] writes the
//! pages, [`buckets`] says what is in them. [`read()`] makes a state of such a file, which may
//! be a backup of a real etcd.

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

/// The version of etcd whose format the file has (`version.V3_6`).
pub const STORAGE_VERSION: &str = "3.6.0";

/// The position in the log that a file of etcd names beside the keys.
#[derive(Clone, Copy, Debug)]
pub struct Applied {
    /// The index of the last entry of the log that is in the backup.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
}

/// A backup that is being made. Errors are those of the two files.
pub struct Backup<F: Read + Write + Seek> {
    file: BoltWriter<F>,
    versions: Sorter<F>,
    applied: Applied,
    /// The compacted revision; none before the first piece.
    compacted: Option<i64>,
    small: buckets::Small,
}

impl<F: Read + Write + Seek> Backup<F> {
    /// Begins a backup in two empty files: `file` becomes the database, and `spill` holds what is
    /// sorted.
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

    /// Takes the next piece.
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

    /// Ends the backup. Returns the database, and its bytes.
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
