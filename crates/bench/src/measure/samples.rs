//! Samples the memory of each server of a target, and the size of the data folders, during a run.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::limits::SAMPLE_PAUSE;
use crate::measure::figures::{Figure, Good};
use crate::measure::stats::median;
use crate::servers::data_folder::{data_folders, disk_bytes};
use crate::servers::process::Processes;
use crate::servers::target::Target;

const MIB: f64 = (1 << 20) as f64;

/// A server of a target, which may listen at several of the target's addresses.
struct Server {
    addresses: Vec<SocketAddr>,
    processes: Processes,
}

/// The servers of a target. A process that listens at several addresses is one server, so that its
/// memory counts once.
fn servers_of(target: &Target) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    for address in &target.addresses {
        let processes = Processes::listening(&[*address]);
        let same = |it: &&mut Server| !processes.is_empty() && it.processes == processes;
        match servers.iter_mut().find(same) {
            Some(server) => server.addresses.push(*address),
            None => servers.push(Server { addresses: vec![*address], processes }),
        }
    }
    servers
}

/// One sample of all servers.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    /// `VmRSS` of each server, in MiB; `None` if it is not on this machine.
    resident: Vec<Option<f64>>,
    /// MiB of all data folders together; `None` if no data folder is known.
    disk: Option<f64>,
}

/// A thread that samples the servers every [`SAMPLE_PAUSE`].
pub struct Sampler {
    /// The addresses of each server.
    servers: Vec<Vec<SocketAddr>>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Sampler {
    /// Starts the thread, which takes its first sample at once.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(target: &Target) -> anyhow::Result<Sampler> {
        let (addresses, servers): (Vec<_>, Vec<_>) =
            servers_of(target).into_iter().map(|it| (it.addresses, it.processes)).unzip();
        let folders = data_folders(target);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let look = move || {
            let mut samples = Vec::new();
            loop {
                let is_last = over.load(Ordering::Relaxed);
                samples.push(sample(&servers, &folders));
                if is_last {
                    return samples;
                }
                std::thread::sleep(SAMPLE_PAUSE);
            }
        };
        let thread = std::thread::Builder::new().name("samples".to_string()).spawn(look)?;
        Ok(Sampler { servers: addresses, is_over, thread })
    }

    /// Takes the last sample, ends the thread, and returns all samples.
    pub fn stop(self) -> Samples {
        self.is_over.store(true, Ordering::Relaxed);
        let looks = self.thread.join().expect("the thread does not panic");
        Samples { servers: self.servers, looks }
    }
}

fn sample(servers: &[Processes], folders: &[PathBuf]) -> Sample {
    let resident = |it: &Processes| it.memory().map(|memory| memory.resident as f64 / MIB);
    let disk = folders.iter().map(|folder| disk_bytes(folder)).sum::<u64>() as f64 / MIB;
    Sample {
        resident: servers.iter().map(resident).collect(),
        disk: (!folders.is_empty()).then_some(disk),
    }
}

/// A figure over time: its first, median, last and largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Summary {
    start: f64,
    median: f64,
    end: f64,
    max: f64,
}

impl Summary {
    /// `None` if there is no value, or if one of the values is `None`.
    fn of(values: impl Iterator<Item = Option<f64>>) -> Option<Summary> {
        let values: Vec<f64> = values.collect::<Option<_>>()?;
        Some(Summary {
            start: *values.first()?,
            median: median(&values),
            end: *values.last()?,
            max: values.iter().copied().fold(0.0, f64::max),
        })
    }
}

/// All samples of a run.
pub struct Samples {
    /// The addresses of each server.
    servers: Vec<Vec<SocketAddr>>,
    looks: Vec<Sample>,
}

impl Samples {
    /// The memory of all servers together, and the size of all their data folders, MiB.
    pub fn figures(&self) -> Vec<Figure> {
        let all = |it: &Sample| it.resident.iter().copied().sum::<Option<f64>>();
        let memory = Summary::of(self.looks.iter().map(all));
        let disk = Summary::of(self.looks.iter().map(|it| it.disk));
        let of = |name, summary: Option<Summary>, value: fn(Summary) -> f64| {
            Figure::once(name, "MiB", summary.map(value), Good::Less)
        };
        vec![
            of("VmRSS at the start", memory, |it| it.start),
            of("VmRSS median", memory, |it| it.median),
            of("VmRSS at the end", memory, |it| it.end),
            of("VmRSS max", memory, |it| it.max),
            of("data folder at the end", disk, |it| it.end),
            of("data folder max", disk, |it| it.max),
        ]
    }

    /// One line of memory for each server; empty if there is only one server.
    pub fn notes(&self) -> Vec<String> {
        let note = |(place, addresses): (usize, &Vec<SocketAddr>)| {
            let values = self.looks.iter().map(|it| it.resident.get(place).copied().flatten());
            let Summary { start, median, end, max } = Summary::of(values)?;
            let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
            let addresses = addresses.join(" ");
            Some(format!(
                "{addresses}: VmRSS {start:.0} MiB at the start, median {median:.0}, end {end:.0}, \
                 max {max:.0}"
            ))
        };
        match self.servers.len() {
            1 => Vec::new(),
            _ => self.servers.iter().enumerate().filter_map(note).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::null_server::NullServer;

    #[test]
    fn a_summary_has_start_median_end_and_max() {
        let values = [3.0, 9.0, 4.0, 5.0, 5.0];
        let summary = Summary { start: 3.0, median: 5.0, end: 5.0, max: 9.0 };
        assert_eq!(Summary::of(values.into_iter().map(Some)), Some(summary));
        assert_eq!(Summary::of([Some(1.0), None].into_iter()), None);
        assert_eq!(Summary::of([].into_iter()), None);
    }

    #[test]
    fn servers_are_added_up_and_unknown_disks_stay_unknown() {
        let sample = |one, other| Sample { resident: vec![Some(one), Some(other)], disk: None };
        let servers = [1, 2].map(|port| vec![SocketAddr::from(([127, 0, 0, 1], port))]).to_vec();
        let samples = Samples { servers, looks: vec![sample(1.0, 2.0), sample(5.0, 2.0)] };
        let figures = samples.figures();
        let values: Vec<&[f64]> = figures.iter().map(|it| it.values.as_slice()).collect();
        assert_eq!(values, [&[3.0][..], &[5.0], &[7.0], &[7.0], &[], &[]]);
        let notes = samples.notes();
        assert_eq!(notes.len(), 2);
        assert_eq!(notes[0], "127.0.0.1:1: VmRSS 1 MiB at the start, median 3, end 5, max 5");
    }

    #[test]
    fn a_process_that_serves_at_two_addresses_counts_once() {
        let nulls = [NullServer::start(1).unwrap(), NullServer::start(1).unwrap()];
        let mut target = nulls[0].target();
        target.addresses.push(nulls[1].target().addresses[0]);
        let servers = servers_of(&target);
        assert_eq!(servers.len(), 1);
        assert_eq!(servers[0].addresses, target.addresses);
        // Nothing listens at these addresses, and they are on no machine of ours.
        target.addresses = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 1))).to_vec();
        assert_eq!(servers_of(&target).len(), 2);
        let samples = Sampler::start(&nulls[0].target()).unwrap().stop();
        assert!(samples.notes().is_empty());
        assert!(samples.figures()[0].values[0] > 0.0);
    }
}
