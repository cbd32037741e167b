//! How a process was started, and starting it again the same way.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A way to start a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// As a process was started that ran then.
    Again {
        /// Its file.
        program: PathBuf,
        /// From the one that names it on.
        arguments: Vec<OsString>,
        /// Where it ran.
        folder: PathBuf,
        /// All of it.
        environment: Vec<(OsString, OsString)>,
    },
    /// A command for `sh`.
    Shell(String),
}

impl Launch {
    /// That of a process that runs (proc(5): `exe`, `cmdline`, `cwd`, `environ`).
    ///
    /// # Errors
    /// It belongs to somebody else, or its program is not there any more.
    pub fn of(pid: u32) -> anyhow::Result<Launch> {
        let read = |name: &str| -> anyhow::Result<Vec<u8>> {
            let path = format!("/proc/{pid}/{name}");
            fs::read(&path).map_err(|error| anyhow::anyhow!("{path}: {error}"))
        };
        let link = |name: &str| -> anyhow::Result<PathBuf> {
            let path = format!("/proc/{pid}/{name}");
            fs::read_link(&path).map_err(|error| anyhow::anyhow!("{path}: {error}"))
        };
        let program = link("exe")?;
        // The kernel says so of a file that was replaced; what is there now is another program.
        anyhow::ensure!(
            program.exists(),
            "the program of process {pid} is gone: {}; say how to start it",
            program.display()
        );
        let environment = strings(&read("environ")?).filter_map(|it| pair(&it)).collect();
        let arguments = strings(&read("cmdline")?).collect();
        Ok(Launch::Again { program, arguments, folder: link("cwd")?, environment })
    }

    /// Where it runs, if that is known.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Launch::Again { folder, .. } => Some(folder),
            Launch::Shell(_) => None,
        }
    }

    /// Starts it; what it prints goes to the end of a file. It has a process group of its own and
    /// nothing of ours, so that it goes on when this process ends.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(&self, output: &Path) -> anyhow::Result<Child> {
        let file = File::options().create(true).append(true).open(output)?;
        let mut command = match self {
            Launch::Again { program, arguments, folder, environment } => {
                let mut command = Command::new(program);
                let name = arguments.first().map_or(program.as_os_str(), OsString::as_os_str);
                command.arg0(name).args(arguments.iter().skip(1)).current_dir(folder);
                command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
                command
            }
            Launch::Shell(text) => {
                let mut command = Command::new("sh");
                command.arg("-c").arg(text);
                command
            }
        };
        command.process_group(0).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Ok(command.spawn()?)
    }
}

/// Strings that end in a zero byte each. An empty one is one, too.
fn strings(bytes: &[u8]) -> impl Iterator<Item = OsString> {
    let body = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    let all = (!bytes.is_empty()).then(|| body.split(|byte| *byte == 0));
    all.into_iter().flatten().map(|it| OsStr::from_bytes(it).to_os_string())
}

fn pair(text: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = text.as_bytes();
    let equals = bytes.iter().position(|byte| *byte == b'=')?;
    let of = |bytes| OsStr::from_bytes(bytes).to_os_string();
    Some((of(&bytes[..equals]), of(&bytes[equals + 1..])))
}

#[cfg(test)]
mod tests;
