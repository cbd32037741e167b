//! Refuses to start a server in an empty data directory if the configuration forbids that, and in a
//! data directory of etcd.
//!
//! An operator who sets `datadir.autocreate=false` (`FileTxnSnapLog`, ZooKeeper 3.9) expects data
//! to be there: if a volume is not mounted, a server that created a new directory would start
//! without it. ZooKeeper takes an empty directory only if it has the folder `version-2`, which its
//! `zkServer-initialize.sh` makes; so do we.

use std::path::Path;

use storage::datadir::{DRAFT_FILE, IDENTITY_FILE, SUCCESSOR_FILE};

use config::StorageConfig;

/// The folder with ZooKeeper's files; in an empty data directory it says that the server may begin
/// there.
const MARK: &str = "version-2";

/// Checks that the data directory has data, if the configuration requires that.
///
/// # Errors
/// The directory, or that of the log, is absent; or the data directory has neither our data nor the
/// folder [`MARK`].
pub fn check(storage: &StorageConfig) -> anyhow::Result<()> {
    if !storage.is_data_dir_required {
        return Ok(());
    }
    for dir in std::iter::once(&storage.data_dir).chain(&storage.log_dir) {
        anyhow::ensure!(dir.is_dir(), "{} is no directory, and {FORBIDDEN}", dir.display());
    }
    let dir = storage.data_dir.display();
    anyhow::ensure!(
        is_begun(&storage.data_dir),
        "data directory {dir} is empty, and {FORBIDDEN}: is its volume mounted? To begin there, make \
         the folder {dir}/{MARK}"
    );
    Ok(())
}

/// The folder in which etcd keeps its files.
const ETCD_MARK: &str = "member";

/// Refuses a data directory that has files of etcd and none of ours. A server that an operator put
/// in etcd's place would start empty there, and its clients would find their keys gone.
///
/// # Errors
/// The directory is one of etcd.
pub fn refuse_etcds(storage: &StorageConfig) -> anyhow::Result<()> {
    let dir = &storage.data_dir;
    anyhow::ensure!(
        is_begun(dir) || !dir.join(ETCD_MARK).is_dir(),
        "data directory {} holds files of etcd: make another one with the keys of a backup, by \
         `quorate restore BACKUP --data-dir DIR`",
        dir.display()
    );
    Ok(())
}

const FORBIDDEN: &str = "datadir.autocreate=false forbids to make one";

/// Whether a server has already started in this directory, or the folder [`MARK`] allows it to.
fn is_begun(dir: &Path) -> bool {
    [IDENTITY_FILE, DRAFT_FILE, SUCCESSOR_FILE].iter().any(|name| dir.join(name).is_file())
        || dir.join(MARK).is_dir()
}
