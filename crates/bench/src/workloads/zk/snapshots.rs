//! Counts the snapshots that a server takes during a run: by the server's own count if it has one,
//! else by the files that appear in its data folder.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::limits::SNAPSHOT_LOOK_PAUSE;
use crate::servers::process::Processes;
use crate::servers::target::Target;

/// The key in `mntr` that counts finished snapshots in ZooKeeper 3.9
/// (`ServerMetrics.SNAPSHOT_TIME`).
const KEY: &str = "zk_cnt_snapshottime";

/// Counts snapshots from its start until [`Snapshots::stop`].
pub enum Snapshots<'a> {
    /// The server counts its snapshots itself.
    Monitored {
        /// The target.
        target: &'a Target,
        /// The server's count at the start.
        before: f64,
    },
    /// A thread looks at the folders repeatedly, since a server keeps only the newest few
    /// snapshots.
    Files {
        /// Ends the thread when set.
        is_ended: Arc<AtomicBool>,
        /// The thread. It returns how many snapshots have appeared.
        thread: JoinHandle<usize>,
    },
    /// Not counted: the server has no count, and its folders are not known.
    Unknown,
}

impl Snapshots<'_> {
    /// Starts to count.
    pub fn start(target: &Target) -> Snapshots<'_> {
        if let Some(before) = target.monitored(KEY) {
            return Snapshots::Monitored { target, before };
        }
        let Some(folders) = folders_of(target) else { return Snapshots::Unknown };
        let is_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_ended);
        let known = snapshots_in(&folders);
        let look = move || count_new(&folders, known, &ended);
        let thread = std::thread::Builder::new().name("snapshots".to_string()).spawn(look);
        thread.map_or(Snapshots::Unknown, |thread| Snapshots::Files { is_ended, thread })
    }

    /// Stops, and returns how many snapshots were taken; `None` if that is not known.
    pub fn stop(self) -> Option<usize> {
        match self {
            Snapshots::Monitored { target, before } => {
                target.monitored(KEY).map(|after| (after - before).max(0.0) as usize)
            }
            Snapshots::Files { is_ended, thread } => {
                is_ended.store(true, Ordering::Relaxed);
                thread.join().ok()
            }
            Snapshots::Unknown => None,
        }
    }
}

/// The data folders that the servers report in `conf`; `None` if they are not on this machine.
fn folders_of(target: &Target) -> Option<Vec<PathBuf>> {
    target.processes().filter(|it| !Processes::is_empty(it))?;
    target.ask_all("conf")?.iter().map(|conf| folder_of(conf)).collect()
}

fn folder_of(conf: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(conf.lines().find_map(|line| line.strip_prefix("dataDir="))?);
    folder.is_dir().then_some(folder)
}

/// The files of finished snapshots, of Quorate or of ZooKeeper, in some data folders.
fn snapshots_in(folders: &[PathBuf]) -> HashSet<PathBuf> {
    let all = folders.iter().flat_map(|it| [it.clone(), it.join("snapshots")]);
    let entries = all.filter_map(|it| fs::read_dir(it).ok()).flatten().flatten();
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".snap") || name.starts_with("snapshot.")
    };
    entries.map(|entry| entry.path()).filter(is_one).collect()
}

fn count_new(folders: &[PathBuf], known: HashSet<PathBuf>, is_ended: &AtomicBool) -> usize {
    let mut all = known.clone();
    loop {
        let is_last = is_ended.load(Ordering::Relaxed);
        all.extend(snapshots_in(folders));
        if is_last {
            return all.len() - known.len();
        }
        std::thread::sleep(SNAPSHOT_LOOK_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::null_server::NullServer;

    #[test]
    fn files_that_appear_are_counted_and_nothing_else_is() {
        let folder = std::env::temp_dir().join(format!("quorate-snaps-{}", std::process::id()));
        fs::create_dir_all(folder.join("snapshots")).unwrap();
        let write = |name: &str| fs::write(folder.join(name), b"").unwrap();
        write("snapshots/1.snap");
        write("log.1");
        let folders = [folder.clone()];
        let (known, is_ended) = (snapshots_in(&folders), AtomicBool::new(false));
        assert_eq!(known.len(), 1);
        let seen = std::thread::scope(|scope| {
            let looking = scope.spawn(|| count_new(&folders, known, &is_ended));
            write("snapshots/2.snap");
            write("snapshots/3.tmp");
            write("snapshot.4");
            // The thread looks once more after the flag is set.
            is_ended.store(true, Ordering::Relaxed);
            looking.join().unwrap()
        });
        assert_eq!(seen, 2);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn it_is_said_when_it_cannot_be_known() {
        let null = NullServer::start(1).unwrap();
        let target = null.target();
        assert_eq!(Snapshots::start(&target).stop(), None);
    }
}
