//! Reads the command line of a running process, and starts the program again with it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The option of `quorate serve` that makes a member of a local ensemble end with its parent.
const END_WITH_PARENT: &str = "--end-with-parent";

/// A way to start a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// Like a process that runs, or ran: with the same program, arguments, folder and environment.
    Again {
        /// The file of its program.
        program: PathBuf,
        /// All arguments, the first being the program's name.
        arguments: Vec<OsString>,
        /// The folder that it ran in.
        folder: PathBuf,
        /// The whole environment.
        environment: Vec<(OsString, OsString)>,
    },
    /// A command for `sh`.
    Shell(String),
}

impl Launch {
    /// The command line of a running process (proc(5): `exe`, `cmdline`, `cwd`, `environ`).
    ///
    /// # Errors
    /// The process belongs to another user, or its program is not there any more.
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
        // The kernel marks a program whose file was replaced; the file there now is another
        // program.
        anyhow::ensure!(
            program.exists(),
            "the program of process {pid} is gone: {}; say how to start it",
            program.display()
        );
        let environment = strings(&read("environ")?).filter_map(|it| pair(&it)).collect();
        let arguments = of_its_own(strings(&read("cmdline")?)).collect();
        Ok(Launch::Again { program, arguments, folder: link("cwd")?, environment })
    }

    /// The folder in which the server runs; `None` for a shell command.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Launch::Again { folder, .. } => Some(folder),
            Launch::Shell(_) => None,
        }
    }

    /// Starts the server; its output is appended to the file `output`. The server has a process
    /// group of its own and holds no file of ours, so that it goes on when this process ends.
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

/// The arguments without the one that ends a member of a local ensemble with its parent. The system
/// takes the thread that started a process for its parent, and such a thread ends within a run.
fn of_its_own(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    arguments.filter(|it| it != END_WITH_PARENT)
}

/// The strings of a list in which a zero byte ends each string. A string may be empty.
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
