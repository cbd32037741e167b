//! Watches the files of TLS, and reads them again when they change. This happens on a thread of its
//! own: a disk that hangs must stop neither handshakes nor the thread that accepts connections.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{io, thread};

use super::key_store::STORE_BYTES_MAX;
use super::rules::Rules;
use crate::settings::{CertificateRules, Password, StoreFile};

/// How often the files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The files of one TLS configuration: its stores, and its list of revoked certificates.
pub struct Files {
    stores: Vec<PathBuf>,
    list: Option<PathBuf>,
    rules: Arc<Rules>,
    /// Locked while files are read.
    last_read: Mutex<LastRead>,
}

/// The result of the last read.
struct LastRead {
    /// The stamps of the stores, taken before they were read.
    stores: Vec<Option<FileStamp>>,
    /// The stamp of the list, taken before it was read.
    list: Option<FileStamp>,
    /// The error of the last read of the stores. After an error they are read again even if they
    /// have not changed, because a disk may have failed once.
    stores_error: Option<String>,
}

/// The stamp of a version of a file: length, time of the last change, and inode. A new file that
/// takes the name of an old file has another inode.
type FileStamp = (u64, SystemTime, u64);

impl Files {
    /// Takes the stamps of all files, and reads the list. The caller reads the stores next.
    pub fn new<'a>(
        stores: impl IntoIterator<Item = &'a StoreFile>,
        rules: &CertificateRules,
    ) -> Files {
        let stores: Vec<_> = stores.into_iter().flat_map(paths).collect();
        let list = rules.revoked.clone();
        // The stamps come first, so a change during the read counts as another change.
        let last_read = LastRead {
            stores: stamps(&stores),
            list: list.as_deref().and_then(stamp),
            stores_error: None,
        };
        let rules = Arc::new(Rules::new(rules.clone()));
        Files { stores, list, rules, last_read: Mutex::new(last_read) }
    }

    /// The rules, which hold the list as it was last read.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Reads the files that have changed, or that could not be read. The list is read even if the
    /// stores cannot be. A repeated error is logged only once.
    pub fn read_changed(&self, read_stores: impl FnOnce() -> Result<(), String>) {
        let mut last = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        let list = self.list.as_deref().and_then(stamp);
        if list == last.list {
            self.rules.try_again();
        } else {
            last.list = list;
            self.rules.read_again();
        }
        let stores = stamps(&self.stores);
        if stores != last.stores || last.stores_error.is_some() {
            last.read_stores(stores, read_stores);
        }
    }

    /// Reads all files, changed or not, and logs errors.
    pub fn read_all(&self, read_stores: impl FnOnce() -> Result<(), String>) {
        let mut last = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        last.list = self.list.as_deref().and_then(stamp);
        self.rules.read_again();
        last.stores_error = None;
        last.read_stores(stamps(&self.stores), read_stores);
    }
}

impl LastRead {
    fn read_stores(
        &mut self,
        stamps: Vec<Option<FileStamp>>,
        read: impl FnOnce() -> Result<(), String>,
    ) {
        self.stores = stamps;
        let error = read().err();
        if let Some(error) =
            error.as_ref().filter(|error| Some(*error) != self.stores_error.as_ref())
        {
            tracing::error!("{error}");
        }
        self.stores_error = error;
    }
}

/// The files that a store is read from.
fn paths(store: &StoreFile) -> impl Iterator<Item = PathBuf> {
    let password = match &store.password {
        Password::File(path) => Some(path),
        Password::Text(_) => None,
    };
    std::iter::once(&store.path).chain(&store.key_path).chain(password).cloned()
}

fn stamps(paths: &[PathBuf]) -> Vec<Option<FileStamp>> {
    paths.iter().map(|path| stamp(path)).collect()
}

/// The stamp of a file; `None` if the file cannot be found.
fn stamp(path: &Path) -> Option<FileStamp> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?, metadata.ino()))
}

/// The bytes of a file of at most [`STORE_BYTES_MAX`] bytes.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > STORE_BYTES_MAX as u64 {
        return Err(format!("{length} bytes are more than {STORE_BYTES_MAX}"));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

/// Calls `check` once a second on a thread of its own, until nobody else has an `Arc` of `owner`.
///
/// # Errors
/// No thread can be started.
pub fn check_often<T: Send + Sync + 'static>(owner: &Arc<T>, check: fn(&T)) -> io::Result<()> {
    let owner = Arc::downgrade(owner);
    thread::Builder::new().name("tls-files".to_string()).spawn(move || {
        loop {
            thread::sleep(CHECK_INTERVAL);
            let Some(owner) = owner.upgrade() else { return };
            check(&owner);
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
