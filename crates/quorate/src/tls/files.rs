//! The files of TLS, which are read again when they change: on a thread of their own, since a disk
//! that hangs must stop neither handshakes nor the thread that accepts connections.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{io, thread};

use super::key_store::STORE_BYTES_MAX;
use super::rules::Rules;
use crate::config::tls::{CertificateRules, Password, StoreFile};

/// The interval at which the files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The files of one end of connections: its stores, and the list of revoked certificates.
pub struct Files {
    stores: Vec<PathBuf>,
    list: Option<PathBuf>,
    rules: Arc<Rules>,
    /// The stamps from before the files were read last. Locked while they are read.
    seen: Mutex<Seen>,
}

#[derive(PartialEq, Eq)]
struct Seen {
    stores: Vec<Option<FileStamp>>,
    list: Option<FileStamp>,
}

/// What tells one version of a file from another: length, time of the last change, and inode, since
/// a name may come to lead to another file.
type FileStamp = (u64, SystemTime, u64);

impl Files {
    /// Notes how the files look, and reads the list. The caller reads the stores next.
    pub fn new<'a>(
        stores: impl IntoIterator<Item = &'a StoreFile>,
        rules: &CertificateRules,
    ) -> Files {
        let stores: Vec<_> = stores.into_iter().flat_map(paths).collect();
        let list = rules.revoked.clone();
        // A change after this is seen as one more.
        let seen = Mutex::new(Seen::now(&stores, list.as_deref()));
        Files { stores, list, rules: Arc::new(Rules::new(rules.clone())), seen }
    }

    /// The rules, with the list as it was read last.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Reads again what has changed. A list counts even if the stores cannot be read.
    pub fn read_changed(&self, read_stores: impl FnOnce()) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Seen::now(&self.stores, self.list.as_deref());
        let has_other_list = now.list != seen.list;
        let has_other_stores = now.stores != seen.stores;
        *seen = now;
        if has_other_list {
            self.rules.read_again();
        }
        if has_other_stores {
            read_stores();
        }
    }

    /// Reads everything again, changed or not.
    pub fn read_all(&self, read_stores: impl FnOnce()) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Seen::now(&self.stores, self.list.as_deref());
        self.rules.read_again();
        read_stores();
    }
}

impl Seen {
    fn now(stores: &[PathBuf], list: Option<&Path>) -> Seen {
        Seen { stores: stores.iter().map(|path| stamp(path)).collect(), list: list.and_then(stamp) }
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

/// The stamp of a file; none if it cannot be found.
fn stamp(path: &Path) -> Option<FileStamp> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?, metadata.ino()))
}

/// The bytes of a file, which may be as long as a store.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > STORE_BYTES_MAX as u64 {
        return Err(format!("{length} bytes are more than {STORE_BYTES_MAX}"));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

/// Calls `check` once a second on a thread of its own, until the owner is dropped.
///
/// # Errors
/// No thread can be made.
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
