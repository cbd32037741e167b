//! The processes of a server on this machine: found by the port that they listen on, measured by
//! `/proc` (Linux, proc(5)), ended and paused by signals.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use nix::time::clock_getcpuclockid;
use rustix::process::{Pid, Signal, kill_process};

/// Some processes, such as those of the servers of a target. May be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    pids: Vec<u32>,
}

/// Memory of some processes, added up, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `VmRSS`: the memory that is resident now.
    pub resident: u64,
    /// `VmHWM`: the most memory that was resident at any time.
    pub peak: u64,
}

/// How often each thread (process id, thread id) gave up its core to wait for something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits(HashMap<(u32, u32), u64>);

impl Waits {
    /// The wake-ups since `before`: how many waits were counted meanwhile. Threads that have ended
    /// are missing; a new thread counts from its start.
    pub fn since(&self, before: &Waits) -> u64 {
        let wakeups = |(thread, count): (&(u32, u32), &u64)| {
            count.saturating_sub(before.0.get(thread).copied().unwrap_or(0))
        };
        self.0.iter().map(wakeups).sum()
    }
}

impl Processes {
    /// The processes that listen on the ports of `addresses`. Empty if they are on another machine,
    /// belong to another user, or there is no `/proc`.
    pub fn listening(addresses: &[SocketAddr]) -> Processes {
        // If an address is another machine's, a local process on the same port is another server.
        let local = addresses.iter().filter(|address| is_local(address.ip()));
        let ports: HashSet<u16> = local.map(SocketAddr::port).collect();
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

    /// The processes with these ids.
    pub fn of(pids: &[u32]) -> Processes {
        Processes { pids: pids.to_vec() }
    }

    /// Kills all processes (SIGKILL).
    ///
    /// # Errors
    /// A process is gone already, or belongs to another user.
    pub fn kill(&self) -> std::io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Asks all processes to end (SIGTERM).
    ///
    /// # Errors
    /// A process is gone already, or belongs to another user.
    pub fn stop(&self) -> std::io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Pauses all processes (SIGSTOP).
    ///
    /// # Errors
    /// A process is gone already, or belongs to another user.
    pub fn pause(&self) -> std::io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets all paused processes go on (SIGCONT).
    ///
    /// # Errors
    /// A process is gone already, or belongs to another user.
    pub fn resume(&self) -> std::io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> std::io::Result<()> {
        for pid in &self.pids {
            let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            let pid = pid.ok_or(std::io::ErrorKind::NotFound)?;
            kill_process(pid, signal)?;
        }
        Ok(())
    }

    /// Whether all threads of all processes have ended, so that their sockets and files are closed.
    /// A dead process may stay in the process table until its parent collects its status.
    pub fn are_gone(&self) -> bool {
        self.pids.iter().all(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let is_dead = is_dead(&stat);
            is_dead && entries(&format!("/proc/{pid}/task")).count() <= 1
        })
    }

    /// Whether no process was found.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// The process ids.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// The file name of the program that the first process runs (proc(5), `exe`). If the program
    /// was started by a link, such as `etcd` to `quorate`, it is the name behind the link.
    pub fn program(&self) -> Option<String> {
        let program = fs::read_link(format!("/proc/{}/exe", self.pids.first()?)).ok()?;
        Some(program.file_name()?.to_str()?.to_string())
    }

    /// CPU time of all threads so far, user and system, in ns, ended threads included. A thread
    /// that runs right now is counted up to the scheduler's last tick (1 to 10 ms). `None` if there
    /// is no process.
    pub fn cpu_ns(&self) -> Option<u64> {
        if self.pids.is_empty() {
            return None;
        }
        self.pids.iter().map(|pid| cpu_of(*pid)).sum()
    }

    /// How often each thread has waited so far: its voluntary context switches (proc(5), `status`
    /// of each task). `None` if there is no process.
    pub fn waits(&self) -> Option<Waits> {
        if self.pids.is_empty() {
            return None;
        }
        let mut waits = Waits::default();
        for pid in &self.pids {
            for tid in entries(&format!("/proc/{pid}/task")).filter_map(|it| it.parse().ok()) {
                // The thread may have ended since it was listed.
                let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
                if let Some(count) = status.ok().and_then(|status| waits_of(&status)) {
                    waits.0.insert((*pid, tid), count);
                }
            }
        }
        Some(waits)
    }

    /// How long the youngest of the processes has run, in seconds.
    pub fn up_s(&self) -> Option<f64> {
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let now_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        let started = |pid: &u32| started_s(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
        let all: Option<Vec<f64>> = self.pids.iter().map(started).collect();
        all?.into_iter().reduce(f64::max).map(|started_s| (now_s - started_s).max(0.0))
    }

    /// The memory of all processes added up; `None` if there is none, or one has ended.
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

/// Whether an address belongs to this machine: only such an address can be bound.
fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Inodes of the sockets that listen (state 0A) on `ports`, from a table such as `/proc/net/tcp`.
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

/// The CPU time of a process in ns, by the CPU clock of that process (clock_getcpuclockid(3)). A
/// sum over `/proc/PID/task` would be as exact, but would miss threads that have ended, such as
/// those of a runtime's compiler and garbage collector.
fn cpu_of(pid: u32) -> Option<u64> {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).ok()?);
    let time = clock_getcpuclockid(pid).ok()?.now().ok()?;
    Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Whether a process's `stat` says that it is dead; an empty one means that it is gone.
fn is_dead(stat: &str) -> bool {
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    state.is_none_or(|state| matches!(state, "Z" | "X"))
}

/// When a process was started, in seconds after the boot of the system. `stat` counts it in ticks
/// of 10 ms.
fn started_s(stat: &str) -> Option<f64> {
    // The name, in brackets, may hold any character.
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: u64 = rest.split_whitespace().nth(19)?.parse().ok()?;
    Some(ticks as f64 / 100.0)
}

fn memory_of(status: &str) -> Option<Memory> {
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    Some(Memory { resident: of("VmRSS:")?, peak: of("VmHWM:")? })
}

fn waits_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// CPU time of the calling thread so far, in ns.
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of this process so far, user and system, of all its threads, in ns.
pub fn process_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests;
