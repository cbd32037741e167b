//! Runs a test of scenario 2 in several processes. Each process, called a *part*, has some
//! publishers with all their subscribers, and its own tree. A *gate* is a point where parts wait
//! for each other, so that all begin and end a step together.
//!
//! ```text
//! parent: starts parts -> waits until all are at a gate -> opens it -> ... -> adds up
//! part:   at a gate: a line to stdout, then a line from stdin; at the end its outcome
//! ```

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use anyhow::{Context, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::options::{Connections, share};
use super::outcome::Outcome;
use super::{Kind, Shape, measure_alone, resident};
use crate::measure::comparison::Turn;
use crate::measure::figures::Block;
use crate::servers::interrupt::Interrupt;
use crate::servers::target::{Target, TargetAddress};

/// A point where a process waits until all others have reached it, too.
pub trait Gate {
    /// Waits until all processes have reached this gate.
    ///
    /// # Errors
    /// The process that opens the gate has ended.
    fn pass(&mut self) -> anyhow::Result<()>;
}

/// The gate of a test that has only one process: always open.
pub struct Open;

impl Gate for Open {
    fn pass(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The exit status of a part, which is a process, if its parent process has ended before it.
const LEFT_ALONE: i32 = 1;

/// The number of gates in a test: before the warm-up items, before the items that count, and after
/// those.
const GATES: usize = 3;

/// Options of `quorate bench pubsub-part`, which only this program uses.
#[derive(Debug, Args)]
pub struct PartArgs {
    #[arg(long)]
    target: TargetAddress,
    #[arg(long)]
    publishers: usize,
    #[arg(long)]
    subscribers: usize,
    #[arg(long)]
    items: u64,
    #[arg(long)]
    warmup: u64,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    reads: bool,
}

/// The report of a part to its parent, in its last line.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    outcome: Outcome,
    trouble: u64,
    notes: Vec<String>,
}

/// The gates of a part. The parent opens them.
struct Parent {
    /// Receives one `()` for each gate that the parent opens.
    opened: Receiver<()>,
}

impl Parent {
    /// Starts a thread that reads the lines of the parent. When the parent is gone, the thread ends
    /// this process: a parent may be killed between two gates, and the terminal's signals do not
    /// reach a part.
    fn watch() -> Parent {
        let (open, opened) = sync_channel(GATES);
        thread::spawn(move || {
            let mut lines = std::io::stdin().lines();
            while lines.next().is_some_and(|line| line.is_ok()) {
                // The part may be done and read no more of them.
                let _ = open.try_send(());
            }
            std::process::exit(LEFT_ALONE);
        });
        Parent { opened }
    }
}

impl Gate for Parent {
    fn pass(&mut self) -> anyhow::Result<()> {
        println!();
        std::io::stdout().flush()?;
        self.opened.recv().context("the benchmark is gone")
    }
}

/// Runs a part of a test, as a process of its own. Talks to the parent by stdin and stdout.
///
/// # Errors
/// See [`super::measure`]; or the parent is gone.
pub fn part(args: &PartArgs) -> anyhow::Result<ExitCode> {
    let target = Target::find(&args.target)?;
    let shape = Shape {
        kind: if args.reads { Kind::EventThenRead } else { Kind::EventOnly },
        connections: Connections { publishers: args.publishers, subscribers: args.subscribers },
        paths: 1,
        items: args.items,
        warmup: args.warmup,
        size: args.size,
        rate: None,
        processes: 1,
    };
    let turn = Turn::from_session(&target, (0, 0, true));
    let (block, outcome) = measure_alone(&turn, &shape, &mut Parent::watch())?;
    let outcome = outcome.context("a part is of scenario 2")?;
    let told = Told { outcome, trouble: block.trouble, notes: block.notes };
    println!("{}", serde_json::to_string(&told)?);
    Ok(ExitCode::SUCCESS)
}

/// A running part, as its parent sees it. Dropping this kills the process.
struct Part {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Part {
    fn start(target: &Target, shape: &Shape) -> anyhow::Result<Part> {
        let addresses: Vec<String> = target.addresses.iter().map(ToString::to_string).collect();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "pubsub-part", "--target"]);
        command.arg(format!("zk://{}", addresses.join(",")));
        for (name, number) in [
            ("--publishers", shape.connections.publishers as u64),
            ("--subscribers", shape.connections.subscribers as u64),
            ("--items", shape.items),
            ("--warmup", shape.warmup),
            ("--size", shape.size as u64),
        ] {
            command.args([name, &number.to_string()]);
        }
        if shape.kind == Kind::EventThenRead {
            command.arg("--reads");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C must only reach this process, which ends after the current run.
        command.process_group(0);
        let mut child = Interrupt::start(|| Ok(command.spawn()?))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stdin = stdin.context("it was piped")?;
        let stdout = BufReader::new(stdout.context("it was piped")?);
        Ok(Part { child, stdin, stdout })
    }

    /// Waits for the next line of the part.
    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        // A process that fails has printed the reason.
        ensure!(line.ends_with('\n'), "a process of clients has ended early");
        Ok(line)
    }

    fn go_on(&mut self) -> anyhow::Result<()> {
        self.stdin.write_all(b"\n").context("a process of clients has ended early")
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a test by several processes, and adds their outcomes up.
///
/// # Errors
/// A process cannot be started, or fails.
pub fn measure(turn: &Turn<'_>, shape: &Shape) -> anyhow::Result<Block> {
    let target = turn.target;
    let mut block = target.block();
    block.figures.push(resident("VmRSS before", target));
    turn.say("setting watches");
    let parts: anyhow::Result<Vec<Part>> =
        shape.parts().iter().map(|it| Part::start(target, it)).collect();
    let mut parts = parts?;
    // The CPU time of the servers when all parts are at a gate; and figures of their memory.
    let (mut cpu_ns, mut memory) = (Vec::new(), Vec::new());
    for gate in 0..GATES {
        for part in &mut parts {
            part.line()?;
        }
        cpu_ns.push(target.cpu_ns());
        match gate {
            1 => memory.push(resident("VmRSS with all watches set", target)),
            2 => memory.push(resident("VmRSS at the end", target)),
            _ => {}
        }
        turn.say("items");
        parts.iter_mut().try_for_each(Part::go_on)?;
    }
    let mut all = Outcome::default();
    for part in &mut parts {
        let told: Told = serde_json::from_str(&part.line()?)?;
        all.add(&told.outcome);
        block.trouble += told.trouble;
        block.notes.extend(told.notes);
    }
    let used_ns = |(begin, end): (u64, u64)| end.saturating_sub(begin);
    all.server_cpu_ns = cpu_ns[1].zip(cpu_ns[2]).map(used_ns);
    let is_reading = shape.kind == Kind::EventThenRead;
    block.figures.extend(all.figures(is_reading));
    block.latencies.extend(all.latencies(is_reading));
    block.figures.extend(memory);
    for mut part in parts {
        let status = part.child.wait()?;
        ensure!(status.success(), "a process of clients: {status}");
    }
    Ok(block)
}

impl Shape {
    /// The tests of the parts: each has some of the publishers, with all their subscribers and
    /// items.
    fn parts(&self) -> Vec<Shape> {
        let Connections { publishers, .. } = self.connections;
        let mut before = 0;
        let part = |process: usize| {
            let count = share(publishers as u64, self.processes, process);
            let of_all = |items: u64| -> u64 {
                (before..before + count).map(|it| share(items, publishers, it) as u64).sum()
            };
            let (items, warmup) = (of_all(self.items), of_all(self.warmup));
            before += count;
            let connections =
                Connections { publishers: count, subscribers: count * self.subscribers_each() };
            Shape { connections, items, warmup, processes: 1, ..*self }
        };
        (0..self.processes).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole() {
        let connections = Connections { publishers: 7, subscribers: 21 };
        let whole = Shape {
            kind: Kind::EventOnly,
            connections,
            paths: 1,
            items: 100,
            warmup: 3,
            size: 64,
            rate: None,
            processes: 3,
        };
        let parts = whole.parts();
        let of = |value: fn(&Shape) -> u64| -> Vec<u64> { parts.iter().map(value).collect() };
        assert_eq!(of(|it| it.connections.publishers as u64), [3, 2, 2]);
        assert_eq!(of(|it| it.connections.subscribers as u64), [9, 6, 6]);
        assert_eq!(of(|it| it.items).iter().sum::<u64>(), 100);
        assert_eq!(of(|it| it.warmup).iter().sum::<u64>(), 3);
    }
}
