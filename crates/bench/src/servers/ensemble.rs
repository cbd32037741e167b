//! The members of an ensemble as processes of this machine: finds the leader, ends a member, and
//! starts it again with the command line that `/proc` shows.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::limits::{EXIT_LIMIT, MEMBER_LOOK_PAUSE};
use crate::servers::data_folder;
use crate::servers::launch::Launch;
use crate::servers::probe::{Probe, Role, role_at};
use crate::servers::process::Processes;
use crate::servers::target::{self, Scheme, Target};

/// All members of a target.
#[derive(Debug)]
pub struct Ensemble {
    members: Vec<Member>,
}

/// The servers that were started again, in all rounds together, each with the file that it prints
/// to.
#[derive(Debug, Default)]
pub struct Restarted(BTreeMap<SocketAddr, PathBuf>);

impl Restarted {
    /// Notes one more server.
    pub fn add(&mut self, address: SocketAddr, output: PathBuf) {
        self.0.insert(address, output);
    }

    /// A line for each server, with its present process, which outlives this one.
    pub fn notes(&self) -> Vec<String> {
        let note = |(address, output): (&SocketAddr, &PathBuf)| {
            let pids: Vec<String> =
                Processes::listening(&[*address]).pids().iter().map(u32::to_string).collect();
            let (pids, output) = (pids.join(" "), output.display());
            format!("started again as process {pids}; it prints to {output}")
        };
        self.0.iter().map(note).collect()
    }
}

/// One member.
#[derive(Debug)]
pub struct Member {
    /// The address for its clients.
    pub address: SocketAddr,
    scheme: Scheme,
    processes: Processes,
    launch: Launch,
}

/// A member that was started and does not serve yet.
#[derive(Debug)]
pub struct Started {
    address: SocketAddr,
    at: Instant,
    children: [Child; 1],
    /// The file that it prints to.
    pub output: PathBuf,
}

impl Ensemble {
    /// The members of a target as they are now.
    ///
    /// # Errors
    /// A member is not on this machine, has no process of its own, or cannot be started again.
    pub fn of(target: &Target) -> anyhow::Result<Ensemble> {
        let members: Vec<Member> = target
            .addresses
            .iter()
            .map(|address| Member::at(*address, target.scheme))
            .collect::<Result<_, _>>()?;
        for (place, member) in members.iter().enumerate() {
            let other = members[..place].iter().find(|it| it.processes == member.processes);
            if let Some(other) = other {
                let (one, other) = (member.address, other.address);
                anyhow::bail!("{other} and {one} are one process, which cannot be killed in part");
            }
        }
        Ok(Ensemble { members })
    }

    /// The index of the member that says that it leads, or of the only member.
    pub fn leader(&self) -> Option<usize> {
        self.members.iter().position(|it| it.role() == Some(Role::Leader))
    }

    /// The index of a member that says that it follows.
    pub fn follower(&self) -> Option<usize> {
        self.members.iter().position(|it| it.role() == Some(Role::Follower))
    }

    /// All members, in the order of the addresses.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member at an index among the addresses.
    pub fn member(&self, place: usize) -> &Member {
        &self.members[place]
    }
}

impl Member {
    fn at(address: SocketAddr, scheme: Scheme) -> anyhow::Result<Member> {
        let processes = Processes::listening(&[address]);
        let [pid] = processes.pids() else {
            let count = processes.pids().len();
            anyhow::bail!(
                "{address}: {count} processes of this machine listen there; the test needs \
                 exactly one, to kill it and start it again"
            );
        };
        Ok(Member { address, scheme, launch: Launch::of(*pid)?, processes })
    }

    /// The role that the member reports.
    fn role(&self) -> Option<Role> {
        role_at(self.address, self.scheme)
    }

    /// The folders with the member's snapshots and its log. A ZooKeeper server names them in its
    /// answer to `conf`; for etcd's protocol the open files of the process show them.
    ///
    /// # Errors
    /// The member does not reveal its folders, or they are not on this machine.
    pub fn data_folders(&self) -> anyhow::Result<Vec<PathBuf>> {
        match self.scheme {
            Scheme::Zk => self.named_data_folders(),
            Scheme::Etcd | Scheme::Etcd2 => {
                let folders = data_folder::data_folders_of(&self.processes);
                let address = self.address;
                anyhow::ensure!(!folders.is_empty(), "{address} has no file of its data open");
                Ok(folders)
            }
        }
    }

    /// The folders that the member names in its answer to `conf`.
    fn named_data_folders(&self) -> anyhow::Result<Vec<PathBuf>> {
        let address = self.address;
        let named = |key| target::configured_at(&address, key);
        let data = named("dataDir").ok_or_else(|| {
            anyhow::anyhow!(
                "{address} does not show its data directory in `conf`: is the command allowed there?"
            )
        })?;
        let mut folders = vec![data];
        // The log may be in a folder of its own.
        folders.extend(named("dataLogDir").filter(|it| *it != folders[0]));
        // A relative path begins at the folder that the member runs in.
        let at = self.launch.folder().map(Path::to_path_buf).unwrap_or_default();
        let folders: Vec<PathBuf> = folders.iter().map(|folder| at.join(folder)).collect();
        for folder in &folders {
            anyhow::ensure!(folder.is_dir(), "{address}: {} is no folder", folder.display());
        }
        Ok(folders)
    }

    /// CPU time so far of the process that listens at the member's address now, in ns.
    pub fn cpu_ns_now(&self) -> Option<u64> {
        Processes::listening(&[self.address]).cpu_ns()
    }

    /// Ends the member by SIGKILL and waits until its process is gone. Returns how long that took.
    ///
    /// # Errors
    /// It is gone already, or does not go.
    pub fn kill(&self) -> anyhow::Result<Duration> {
        let killed = Instant::now();
        self.processes.kill()?;
        self.wait_until_it_is_gone(killed)
    }

    /// Pauses the member by SIGSTOP for `time`, then lets it go on.
    ///
    /// # Errors
    /// The member is gone already.
    pub fn pause_for(&self, time: Duration) -> anyhow::Result<()> {
        self.processes.pause()?;
        std::thread::sleep(time);
        Ok(self.processes.resume()?)
    }

    /// Waits until the member, whose process was not ended, answers the probe with what the probe
    /// expects. Returns the time since the call.
    ///
    /// # Errors
    /// The member does not answer in time, or answers something else.
    pub fn wait_until_it_serves(&self, probe: &Probe) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let nowhere = Path::new("it was not started by this process");
        let first = probe.first_answer(&[self.address], &mut [], nowhere, MEMBER_LOOK_PAUSE)?;
        first.must_be_found(self.address)?;
        Ok(began.elapsed())
    }

    /// Ends the member by SIGTERM, as its operators would. Returns how long that took.
    ///
    /// # Errors
    /// It is gone already, or does not go.
    pub fn stop(&self) -> anyhow::Result<Duration> {
        let stopped = Instant::now();
        self.processes.stop()?;
        self.wait_until_it_is_gone(stopped)
    }

    fn wait_until_it_is_gone(&self, since: Instant) -> anyhow::Result<Duration> {
        while !self.processes.are_gone() {
            let is_late = since.elapsed() > EXIT_LIMIT;
            anyhow::ensure!(!is_late, "the server at {} does not end", self.address);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(since.elapsed())
    }

    /// Starts the member again.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(&self) -> anyhow::Result<Started> {
        let (own, port) = (std::process::id(), self.address.port());
        let output = format!("quorate-bench-{own}-restarted-{port}.log");
        let output = std::env::temp_dir().join(output);
        let at = Instant::now();
        let children = [self.launch.start(&output)?];
        Ok(Started { address: self.address, at, children, output })
    }
}

impl Started {
    /// Waits until the started member answers the probe with what the probe expects. Returns the
    /// time since the start.
    ///
    /// # Errors
    /// The member ends, does not answer in time, or answers something else.
    pub fn wait_until_it_serves(mut self, probe: &Probe) -> anyhow::Result<Duration> {
        let (addresses, output) = ([self.address], &self.output);
        let children = &mut self.children;
        let first = probe.first_answer(&addresses, children, output, MEMBER_LOOK_PAUSE)?;
        let took = self.at.elapsed();
        first.must_be_found(self.address)?;
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::servers::null_server::NullServer;

    #[test]
    fn members_in_one_process_cannot_be_ended_one_by_one() {
        let nulls = [NullServer::start(1).unwrap(), NullServer::start(1).unwrap()];
        let mut target = nulls[0].target();
        assert_eq!(Ensemble::of(&target).unwrap().members.len(), 1);
        target.addresses.push(nulls[1].target().addresses[0]);
        let error = Ensemble::of(&target).unwrap_err().to_string();
        assert!(error.contains("are one process"), "{error}");
    }

    #[test]
    fn a_member_that_is_not_here_is_named() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = Member::at(free, Scheme::Zk).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{free}: 0 processes")), "{error}");
    }
}
