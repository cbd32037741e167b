//! Servers that a workload starts by itself, so that it can add and remove them: each is a program
//! with arguments, and prints to a file. Dropping a server kills its process.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::limits::{MEMBER_LOOK_PAUSE, SERVER_START_LIMIT};
use crate::servers::interrupt::Interrupt;

/// Bytes of a server's output that an error shows.
const OUTPUT_SHOWN: usize = 2_000;

/// The variable that sets the highest level of Quorate's servers under etcd's name. Members can be
/// changed at level 5.
const LEVEL_VARIABLE: (&str, &str) = ("QUORATE_LEVEL_MAX", "5");

/// A program that runs a server, with the arguments that come first in each start.
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<OsString>,
}

/// A server of this process.
#[derive(Debug)]
pub struct Spawned {
    child: Child,
    output: PathBuf,
    interrupt: Interrupt,
    /// When it was started.
    pub at: Instant,
    /// The address for its clients.
    pub address: SocketAddr,
}

impl Program {
    /// Quorate's program `path`, or this program, with `words` as its first arguments.
    ///
    /// # Errors
    /// The path of this program is not known.
    pub fn ours(path: Option<&Path>, words: &[&str]) -> anyhow::Result<Program> {
        let path = path.map_or_else(std::env::current_exe, |path| Ok(path.to_path_buf()))?;
        let words = words.iter().map(OsString::from);
        Ok(Program { words: core::iter::once(path.into()).chain(words).collect() })
    }

    /// The program of another server, which needs no first arguments.
    pub fn other(path: &Path) -> Program {
        Program { words: vec![path.into()] }
    }

    /// The path of the program.
    pub fn path(&self) -> &Path {
        self.words.first().map(Path::new).expect("a program has a path")
    }

    /// Starts a server whose clients connect to `address`. Its output goes to the file `output`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(
        &self,
        arguments: &[OsString],
        address: SocketAddr,
        output: PathBuf,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Spawned> {
        let at = Instant::now();
        let words = self.words.iter().chain(arguments);
        let child = Interrupt::start(|| spawn(words, [LEVEL_VARIABLE], &output))?;
        interrupt.kill_at_exit(child.id());
        Ok(Spawned { child, output, interrupt: interrupt.clone(), at, address })
    }
}

impl Spawned {
    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks `is_done` again and again until it is true.
    ///
    /// # Errors
    /// The server ends, a signal asks the run to end, or [`SERVER_START_LIMIT`] is over.
    pub fn wait_until(
        &mut self,
        what: &str,
        mut is_done: impl FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        while !is_done() {
            self.interrupt.check()?;
            let status = self.child.try_wait()?;
            let is_late = began.elapsed() > SERVER_START_LIMIT;
            ensure!(
                status.is_none() && !is_late,
                "the server at {} does not say that {what}: {}",
                self.address,
                end_of(&self.output)
            );
            std::thread::sleep(MEMBER_LOOK_PAUSE);
        }
        Ok(())
    }

    /// Fails if the server has ended.
    ///
    /// # Errors
    /// The server has ended; or a signal asks the run to end.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.interrupt.check()?;
        let status = self.child.try_wait()?;
        let address = self.address;
        ensure!(status.is_none(), "the server at {address} has ended: {}", end_of(&self.output));
        Ok(())
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.interrupt.forget(self.child.id());
    }
}

/// Starts a program. The first word is its path, the others are its arguments. It gets the
/// variables besides those of this process. Its output goes to the file `output`.
///
/// # Errors
/// The program cannot be started, or the file cannot be made.
pub fn spawn<'a>(
    words: impl IntoIterator<Item = &'a OsString>,
    variables: impl IntoIterator<Item = (&'a str, impl AsRef<OsStr>)>,
    output: &Path,
) -> anyhow::Result<Child> {
    let mut words = words.into_iter();
    let program = words.next().context("the program has no name")?;
    let file = File::create(output).with_context(|| output.display().to_string())?;
    // The process gets its own process group: Ctrl-C must only reach this process, which then ends
    // its servers.
    let child = Command::new(program)
        .args(words)
        .envs(variables)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn();
    child.with_context(|| Path::new(program).display().to_string())
}

/// The end of a server's output, for errors.
pub fn end_of(output: &Path) -> String {
    let text = fs::read(output).unwrap_or_default();
    let from = text.len().saturating_sub(OUTPUT_SHOWN);
    String::from_utf8_lossy(&text[from..]).trim().to_string()
}

/// `N` addresses of the loopback interface that are free at the moment.
///
/// # Errors
/// The system has no free port.
pub fn free_addresses<const N: usize>() -> anyhow::Result<[SocketAddr; N]> {
    let ports = free_ports(N)?;
    Ok(core::array::from_fn(|place| (Ipv4Addr::LOCALHOST, ports[place]).into()))
}

/// `count` ports of the loopback interface that are free at the moment.
///
/// # Errors
/// The system has no free port.
pub fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    // All are held until each has its port, so that no two are equal.
    let listeners: std::io::Result<Vec<TcpListener>> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect();
    listeners?.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::folder::Folder;

    #[test]
    fn a_server_that_ends_is_an_error_with_its_output() {
        let folder = Folder::make(&std::env::temp_dir(), "spawned").unwrap();
        let program = Program {
            words: ["sh", "-c", "echo no such port; exit 3"].map(OsString::from).to_vec(),
        };
        let [address] = free_addresses().unwrap();
        let output = folder.path().join("output");
        let mut server = program.start(&[], address, output, &Interrupt::default()).unwrap();
        let error = server.wait_until("it serves", || false).unwrap_err().to_string();
        assert!(error.contains("no such port") && error.contains("it serves"), "{error}");
        assert!(server.check().is_err());
    }

    #[test]
    fn free_addresses_differ() {
        let [one, other] = free_addresses().unwrap();
        assert_ne!(one, other);
    }
}
