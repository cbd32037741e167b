//! Faults of a server while clients write: a kill, a pause, or a disk that hangs.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;

use crate::servers::ensemble::{Ensemble, Member};

/// A fault of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// SIGKILL; the server is started again later.
    Kill,
    /// SIGSTOP, and SIGCONT later: the server's connections stay open, and it sends nothing.
    Pause,
    /// The file system of its data is frozen (`fsfreeze`), and thawed later: each write waits.
    Freeze,
}

impl Fault {
    /// A heading that says what happens to the server.
    pub fn describe(self, seconds: u64) -> String {
        match self {
            Fault::Kill => format!("gets SIGKILL and is started again after {seconds} s"),
            Fault::Pause => format!("is paused by SIGSTOP for {seconds} s"),
            Fault::Freeze => format!("has its file system frozen for {seconds} s"),
        }
    }

    /// Says why this fault cannot be made in one of the members.
    ///
    /// # Errors
    /// The fault cannot be made.
    pub fn check(self, ensemble: &Ensemble) -> anyhow::Result<()> {
        match self {
            Fault::Kill | Fault::Pause => Ok(()),
            Fault::Freeze => check_freeze(ensemble.members()),
        }
    }
}

/// Checks that this process may freeze file systems, and that each member's data are on a file
/// system that nothing else uses. All members are checked, because any of them may be the leader.
fn check_freeze(members: &[Member]) -> anyhow::Result<()> {
    anyhow::ensure!(rustix::process::geteuid().is_root(), "--fault freeze: it takes root");
    let found = Command::new("fsfreeze").arg("--version").stdout(Stdio::null()).status();
    anyhow::ensure!(found.is_ok(), "--fault freeze: there is no program `fsfreeze` (util-linux)");
    let mut taken = BTreeSet::new();
    for path in [PathBuf::from("/"), std::env::temp_dir(), std::env::current_dir()?] {
        taken.insert(std::fs::metadata(path)?.dev());
    }
    for member in members {
        let mut own = BTreeSet::new();
        for folder in member.data_folders()? {
            let device = std::fs::metadata(&folder)?.dev();
            let (address, folder) = (member.address, folder.display());
            anyhow::ensure!(
                !taken.contains(&device),
                "--fault freeze: {address} has its data in {folder}, on a file system that others \
                 use; mount one of its own there (docs/benchmarks.md)"
            );
            own.insert(device);
        }
        taken.extend(own);
    }
    Ok(())
}

/// File systems that are frozen for some time. A process of its own thaws them, so that they do not
/// stay frozen if this process ends.
pub struct Frozen {
    children: Vec<Child>,
}

impl Frozen {
    /// Freezes the file systems of some folders, from now on for `time`.
    ///
    /// # Errors
    /// No process can be started.
    pub fn start(folders: &[PathBuf], time: Duration) -> anyhow::Result<Frozen> {
        let mounts: BTreeSet<PathBuf> =
            folders.iter().map(|folder| mount_of(folder)).collect::<Result<_, _>>()?;
        let script = "fsfreeze -f \"$1\" || exit 1; sleep \"$2\"; fsfreeze -u \"$1\"";
        let mut frozen = Frozen { children: Vec::new() };
        for mount in mounts {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).arg(mount).arg(time.as_secs_f64().to_string());
            // A process group of its own keeps an interrupt of this process from preventing the
            // thaw.
            command.process_group(0).stdin(Stdio::null());
            frozen.children.push(command.spawn()?);
        }
        Ok(frozen)
    }

    /// Waits until all are thawed.
    ///
    /// # Errors
    /// A file system could not be frozen or thawed.
    pub fn wait(mut self) -> anyhow::Result<()> {
        let ends: Result<Vec<_>, _> = self.children.iter_mut().map(Child::wait).collect();
        let is_good = ends?.iter().all(std::process::ExitStatus::success);
        anyhow::ensure!(is_good, "a file system could not be frozen and thawed");
        Ok(())
    }
}

/// The mount point of a folder: the last of its ancestors on the same device.
fn mount_of(folder: &Path) -> std::io::Result<PathBuf> {
    let folder = folder.canonicalize()?;
    let device = folder.metadata()?.dev();
    let is_there = |path: &&Path| path.metadata().is_ok_and(|it| it.dev() == device);
    let mount = folder.ancestors().take_while(is_there).last().unwrap_or(&folder);
    Ok(mount.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_point_is_the_last_ancestor_on_the_device() {
        assert_eq!(mount_of(Path::new("/proc/self/fd")).unwrap(), Path::new("/proc"));
        assert_eq!(mount_of(Path::new("/")).unwrap(), Path::new("/"));
        assert!(mount_of(Path::new("/proc/not-there")).is_err());
    }
}
