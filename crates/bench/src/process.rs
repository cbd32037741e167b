//! The processes of a server on this machine, found by the port they listen on: their CPU time and
//! memory, from `/proc` (Linux, proc(5)).

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;

use rustix::process::{Pid, Signal, kill_process};

/// The processes that serve some addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    pids: Vec<u32>,
}

/// Memory of processes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `VmRSS`.
    pub resident: u64,
    /// `VmHWM`.
    pub peak: u64,
}

impl Processes {
    /// Those that listen on the ports of `addresses`. None if they are on another machine, belong to
    /// somebody else, or there is no `/proc`.
    pub fn listening(addresses: &[SocketAddr]) -> Processes {
        let ports: HashSet<u16> = addresses.iter().map(SocketAddr::port).collect();
        let inodes: HashSet<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .into_iter()
            .filter_map(|path| fs::read_to_string(path).ok())
            .flat_map(|table| listeners(&table, &ports))
            .collect();
        let mut pids: Vec<u32> = entries("/proc")
            .filter_map(|name| name.parse().ok())
            .filter(|pid| holds_socket(*pid, &inodes))
            .collect();
        pids.sort_unstable();
        Processes { pids }
    }

    /// These.
    pub fn of(pids: &[u32]) -> Processes {
        Processes { pids: pids.to_vec() }
    }

    /// Ends them by SIGKILL, at once.
    ///
    /// # Errors
    /// One is gone already, or belongs to somebody else.
    pub fn kill(&self) -> std::io::Result<()> {
        for pid in &self.pids {
            let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            let pid = pid.ok_or(std::io::ErrorKind::NotFound)?;
            kill_process(pid, Signal::KILL)?;
        }
        Ok(())
    }

    /// Whether none of their threads is left, so that their sockets and files are closed. A parent
    /// that has not asked for its status may keep a dead one in the table.
    pub fn are_gone(&self) -> bool {
        self.pids.iter().all(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let is_dead = is_dead(&stat);
            is_dead && entries(&format!("/proc/{pid}/task")).count() <= 1
        })
    }

    /// Whether none was found.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// Their ids.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// CPU time of all their threads so far, user and system, in ns.
    pub fn cpu_ns(&self) -> Option<u64> {
        if self.pids.is_empty() {
            return None;
        }
        self.pids.iter().map(|pid| cpu_of(*pid)).sum()
    }

    /// Their memory, added up.
    pub fn memory(&self) -> Option<Memory> {
        if self.pids.is_empty() {
            return None;
        }
        let mut all = Memory::default();
        for pid in &self.pids {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let one = memory_of(&status)?;
            all.resident += one.resident;
            all.peak += one.peak;
        }
        Some(all)
    }
}

fn entries(folder: &str) -> impl Iterator<Item = String> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    found.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Inodes of the listening sockets (state 0A) on these ports in a table of the kernel.
fn listeners(table: &str, ports: &HashSet<u16>) -> Vec<u64> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok()?;
        let is_listening = *fields.get(3)? == "0A";
        let inode = fields.get(9)?.parse().ok()?;
        (is_listening && ports.contains(&port)).then_some(inode)
    };
    table.lines().skip(1).filter_map(of_line).collect()
}

fn holds_socket(pid: u32, inodes: &HashSet<u64>) -> bool {
    let folder = format!("/proc/{pid}/fd");
    entries(&folder).any(|name| {
        let link = fs::read_link(format!("{folder}/{name}")).unwrap_or_default();
        let link = link.to_string_lossy();
        let inode = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        inode.and_then(|inode| inode.parse().ok()).is_some_and(|inode| inodes.contains(&inode))
    })
}

/// Sum over the threads, in ns (`schedstat`); where the kernel does not count those, the ticks of
/// 10 ms that `stat` has.
fn cpu_of(pid: u32) -> Option<u64> {
    let folder = format!("/proc/{pid}/task");
    let mut all = 0;
    for thread in entries(&folder) {
        // A thread may have ended meanwhile.
        let Ok(text) = fs::read_to_string(format!("{folder}/{thread}/schedstat")) else { continue };
        all += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    match all {
        0 => ticks_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?),
        ns => Some(ns),
    }
}

/// Whether the `stat` of a process is that of a dead one, or there is none.
fn is_dead(stat: &str) -> bool {
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    state.is_none_or(|state| matches!(state, "Z" | "X"))
}

fn ticks_of(stat: &str) -> Option<u64> {
    // The name, in brackets, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) * 10_000_000)
}

fn memory_of(status: &str) -> Option<Memory> {
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    Some(Memory { resident: of("VmRSS:")?, peak: of("VmHWM:")? })
}

/// CPU time of the calling thread so far, in ns.
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests;
