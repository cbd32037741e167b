//! Runs Ozone's own chunk writer, case by case. A small Java program of ours calls the jars of an
//! Ozone release, in one JVM that stays warm from round to round.
//!
//! A *case* writes the chunks of one run in one layout. Commands go to the program by its standard
//! input, one a line; each has a one-line answer.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use chunk::layout::Layout;

use crate::limits::{
    FREON_CASE_LIMIT, FREON_OPEN_FILES, FREON_START_LIMIT, FREON_WARM_CHUNKS, INTERRUPT_LOOK,
};
use crate::measure::open_files;
use crate::measure::stats::Latencies;
use crate::servers::folder::Folder;
use crate::servers::interrupt::Interrupt;
use crate::workloads::chunk::cmdw::load::{ChunkBytes, Clock, Shape, Took};
use crate::workloads::chunk::cmdw::table::{Run, value_of};

/// The source of the Java program.
const SOURCE: &str = include_str!("../../../../../../tests/peers/ozone/CmdwSuite.java");
/// The name of the program's class and source file.
const CLASS: &str = "CmdwSuite";
/// The start of the name of the jar that it calls; the version follows.
const JAR: &str = "hdds-container-service-";
/// The option for the heap of the JVM, as large as in the scripts that measure Ozone alone.
const HEAP: &str = "-Xmx2g";
/// How many lines of the JVM's standard error are shown when it fails.
const COMPLAINTS: usize = 5;

/// The value of the option `--compare`: `freon:JAR-DIR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreonPeer {
    /// The folder with the jars of a release.
    pub jars: PathBuf,
}

impl FromStr for FreonPeer {
    type Err = String;

    fn from_str(text: &str) -> Result<FreonPeer, String> {
        match text.strip_prefix("freon:") {
            Some(jars) if !jars.is_empty() => Ok(FreonPeer { jars: jars.into() }),
            _ => {
                Err(format!("{text:?}: the other side is freon:JAR-DIR, a folder of Ozone's jars"))
            }
        }
    }
}

impl FreonPeer {
    /// The version of the release. Also checks that the release can be run.
    ///
    /// # Errors
    /// A JDK or the needed jar is missing.
    pub fn find(&self) -> anyhow::Result<String> {
        for program in ["java", "javac"] {
            let found = command(program).arg("-version").stderr(Stdio::null()).output();
            anyhow::ensure!(
                found.is_ok_and(|it| it.status.success()),
                "Ozone: {program} of Java 11 or later is not in PATH"
            );
        }
        version_of(&self.jars)
    }
}

/// A running JVM that waits for its next command.
#[derive(Debug)]
pub struct Freon {
    child: Child,
    /// The standard input of the JVM; `None` after it was closed to end the JVM.
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    folder: Folder,
    name: String,
    interrupt: Interrupt,
}

impl Freon {
    /// Compiles, starts and warms up the program, in a new folder in `dir`. `shape` has the number
    /// of threads. With `is_synced` each chunk must be durable before the next one is written.
    ///
    /// # Errors
    /// A JDK or a jar is missing, or the JVM does not start.
    pub fn start(
        peer: &FreonPeer,
        dir: &Path,
        shape: &Shape,
        is_synced: bool,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Freon> {
        let version = peer.find()?;
        let folder = Folder::make(dir, "ozone")?;
        let at = folder.path();
        for name in ["classes", "conf", "hdds", "meta"] {
            fs::create_dir(at.join(name))?;
        }
        fs::write(at.join("conf/log4j.properties"), "log4j.rootLogger=OFF\n")?;
        let source = at.join(format!("{CLASS}.java"));
        fs::write(&source, SOURCE)?;
        let jars = peer.jars.canonicalize()?.join("*");
        let mut compiler = command("javac");
        compiler.args(["-nowarn", "-proc:none", "-cp"]).arg(&jars).arg("-d");
        let compiled = compiler.arg(at.join("classes")).arg(&source).output()?;
        let complaints = String::from_utf8_lossy(&compiled.stderr);
        anyhow::ensure!(compiled.status.success(), "javac says: {}", last_lines(&complaints));
        let mut java = command("java");
        java.arg(HEAP).arg(format!("-Dsync={is_synced}"));
        java.arg(format!("-Dozone.version={version}")).arg("-cp").arg(class_path(at, &jars));
        java.arg(CLASS).arg(at).arg(shape.threads.to_string());
        java.arg(shape.chunks_per_block.to_string());
        java.stdin(Stdio::piped()).stdout(Stdio::piped());
        java.stderr(File::create(at.join("complaints"))?);
        let mut child = Interrupt::start(|| Ok(java.spawn()?))?;
        interrupt.kill_at_exit(child.id());
        let input = child.stdin.take();
        let lines = child.stdout.take().map(read_lines).transpose()?;
        let lines = lines.ok_or_else(|| anyhow::anyhow!("java has no standard output"))?;
        let (name, interrupt) = (format!("ozone-{version}"), interrupt.clone());
        let mut freon = Freon { child, input, lines, folder, name, interrupt };
        let ready = freon.line(FREON_START_LIMIT)?;
        anyhow::ensure!(ready.starts_with("ready "), "{CLASS} says: {ready}");
        freon.warm(shape)?;
        Ok(freon)
    }

    /// The name of the release with its version, such as `ozone-2.2.0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes small chunks in both layouts, which no figure counts. Without them the first cases,
    /// which have few chunks, would run in a JVM that has compiled nothing yet.
    ///
    /// # Errors
    /// The JVM has failed or ended.
    fn warm(&mut self, shape: &Shape) -> anyhow::Result<()> {
        let shape = Shape { chunk_bytes: ChunkBytes(1_024), chunks: FREON_WARM_CHUNKS, ..*shape };
        for layout in [Layout::PerBlock, Layout::PerChunk] {
            self.run(layout, &shape)?;
        }
        Ok(())
    }

    /// Writes the chunks of a shape as `cmdw` does, into new containers, and then syncs the file
    /// system. Removes the containers with their folders: a folder that has held a million files
    /// stays large and slow, and our runs have new folders, too.
    ///
    /// # Errors
    /// The JVM has failed or ended.
    pub fn run(&mut self, layout: Layout, shape: &Shape) -> anyhow::Result<Run> {
        let variant = if leaves_open(layout, shape) { "write" } else { "write+end" };
        let case =
            format!("{} {} {} {variant}\n", layout.name(), shape.chunk_bytes.0, shape.chunks);
        self.order(&format!("fresh {}\n", layout.name()), "fresh")?;
        self.folder.sync_file_system()?;
        self.order(&case, "written")?;
        let clock = Clock::start();
        self.folder.sync_file_system()?;
        let sync = clock.stop(Latencies::default());
        self.say("figures\n")?;
        let line = self.line(FREON_CASE_LIMIT)?;
        // If a write failed the clean-up fails, too, so the write is checked first.
        let run = run_of(&line, shape, &sync)
            .ok_or_else(|| anyhow::anyhow!("{CLASS} says: {line}; {}", self.complaints()))?;
        self.order("clean\n", "cleaned")?;
        self.folder.sync_file_system()?;
        Ok(run)
    }

    /// Sends a command to the JVM. Any answer but `answer` is an error.
    fn order(&mut self, text: &str, answer: &str) -> anyhow::Result<()> {
        self.say(text)?;
        let line = self.line(FREON_CASE_LIMIT)?;
        anyhow::ensure!(line == answer, "{CLASS} says: {line}; {}", self.complaints());
        Ok(())
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        let said = self.input.as_mut().map(|input| {
            input.write_all(text.as_bytes())?;
            input.flush()
        });
        match said {
            Some(Ok(())) => Ok(()),
            _ => anyhow::bail!("{CLASS} ended: {}", self.complaints()),
        }
    }

    fn line(&mut self, limit: Duration) -> anyhow::Result<String> {
        let deadline = Instant::now() + limit;
        loop {
            self.interrupt.check()?;
            match self.lines.recv_timeout(INTERRUPT_LOOK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => {
                    anyhow::bail!("{CLASS} ended: {}", self.complaints())
                }
                Err(RecvTimeoutError::Timeout) => anyhow::ensure!(
                    Instant::now() < deadline,
                    "{CLASS} said nothing for {} s: {}",
                    limit.as_secs(),
                    self.complaints()
                ),
            }
        }
    }

    fn complaints(&self) -> String {
        let path = self.folder.path().join("complaints");
        last_lines(&fs::read_to_string(path).unwrap_or_default())
    }
}

impl Drop for Freon {
    fn drop(&mut self) {
        // The JVM has nothing to finish: all its files are going to be removed.
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.interrupt.forget(self.child.id());
    }
}

/// Whether all block files of a run may stay open until `clean`, as `cmdw` leaves them. If there
/// would be too many, Ozone closes a block's file after its last chunk, as a datanode does. The
/// limit is the hard limit of open files, since the JVM raises its own to that.
fn leaves_open(layout: Layout, shape: &Shape) -> bool {
    let needed = shape.blocks_max() + FREON_OPEN_FILES;
    layout != Layout::PerBlock || needed <= open_files::hard_limit() as u64
}

/// A remark for the results if Ozone closes its block files in runs of this shape.
pub fn remark(layout: Layout, shape: &Shape) -> Option<String> {
    let text = format!(
        "Ozone closes the file of each full block here, as a datanode does: freon leaves up to {} \
         open, and a process may have {} (`ulimit -Hn`)",
        shape.blocks_max(),
        open_files::hard_limit()
    );
    (!leaves_open(layout, shape)).then_some(text)
}

/// A command in its own process group, which the terminal's signals do not reach. This process
/// handles them, and ends the child.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// The version in the name of the needed jar.
fn version_of(jars: &Path) -> anyhow::Result<String> {
    let names = fs::read_dir(jars)
        .map_err(|error| anyhow::anyhow!("--compare freon:{}: {error}", jars.display()))?;
    let names = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let version = names
        .filter_map(|name| Some(name.strip_prefix(JAR)?.strip_suffix(".jar")?.to_string()))
        .find(|it| it.starts_with(|it: char| it.is_ascii_digit()) && !it.ends_with("-tests"));
    version.ok_or_else(|| {
        anyhow::anyhow!(
            "--compare freon:{}: there is no {JAR}VERSION.jar; `tests/peers/ozone/install-ozone.sh \
             vapor` fetches it and prints the folder",
            jars.display()
        )
    })
}

fn class_path(folder: &Path, jars: &Path) -> std::ffi::OsString {
    let mut all = folder.join("classes").into_os_string();
    for part in [&folder.join("conf"), jars] {
        all.push(":");
        all.push(part);
    }
    all
}

/// Starts a thread that reads lines from a pipe, until the pipe ends or the receiver is dropped.
fn read_lines(output: ChildStdout) -> std::io::Result<Receiver<String>> {
    // One line of space is enough: the program prints one line for each command and then waits.
    let (sender, receiver) = sync_channel(1);
    thread::Builder::new().name("freon".to_string()).spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// The last lines that tell what happened; lines of stack traces are left out.
fn last_lines(text: &str) -> String {
    let says = |line: &&str| !line.trim().is_empty() && !line.starts_with("\tat ");
    let lines: Vec<&str> = text.lines().filter(says).collect();
    lines[lines.len().saturating_sub(COMPLAINTS)..].join(" | ")
}

/// The run from the JVM's line about a case. `sync` is our sync of the file system: its CPU counts,
/// as it does in our own runs. What the JVM uses during that sync is not counted, since Ozone has
/// no gathered bytes left to write then: it is garbage collection and compilation.
fn run_of(line: &str, shape: &Shape, sync: &Took) -> Option<Run> {
    let number = |key| value_of(line, key)?.parse::<f64>().ok();
    if number("failed")? != 0.0 || number("chunks")? != shape.chunks as f64 {
        return None;
    }
    let cpu_us = number("cpu_us_per_chunk")?;
    let of_call_us = sync.cpu_ns as f64 / 1e3 / shape.chunks as f64;
    Some(Run {
        shape: *shape,
        write_s: number("write_s")?,
        sync_s: sync.elapsed_ns as f64 / 1e9,
        cpu_us: Some(cpu_us),
        cpu_us_with_sync: Some(cpu_us + of_call_us),
        p50_us: Some(number("p50_ms")? * 1_000.0),
        p99_us: Some(number("p99_ms")? * 1_000.0),
        syncs: None,
    })
}

#[cfg(test)]
mod tests;
