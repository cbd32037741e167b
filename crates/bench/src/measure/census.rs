//! The CPU time and memory of each server of an ensemble. Other figures are sums over the ensemble,
//! which hides that the leader does more than the others.

use std::net::SocketAddr;

use crate::servers::process::Processes;
use crate::servers::target::{self, Scheme, Target};

/// The servers of all targets that are ensembles, with their CPU time at the start. A target with
/// one server is left out: its figures are already those of that server.
#[derive(Debug)]
pub struct Census {
    servers: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    target: String,
    scheme: Scheme,
    address: SocketAddr,
    processes: Processes,
    cpu_ns: Option<u64>,
}

/// The cost of one server since the census began, and its role now.
#[derive(Clone, Debug, PartialEq)]
struct Cost {
    address: SocketAddr,
    /// The role that the server reports, such as `leader`; `member` for etcd's protocol.
    mode: String,
    cpu_ms: Option<f64>,
    resident: Option<u64>,
    peak: Option<u64>,
}

impl Census {
    /// Starts to count.
    pub fn start(targets: &[Target]) -> Census {
        let ensembles = targets.iter().filter(|target| target.addresses.len() > 1);
        let servers = ensembles.flat_map(|target| {
            target.addresses.iter().map(|address| {
                let processes = Processes::listening(&[*address]);
                let cpu_ns = processes.cpu_ns();
                let (target, scheme) = (target.name.clone(), target.scheme);
                Counted { target, scheme, address: *address, processes, cpu_ns }
            })
        });
        Census { servers: servers.collect() }
    }

    /// Prints one line for each server with its cost until now, and returns the lines.
    pub fn end(&self) -> Vec<String> {
        let mut heading = "";
        let mut lines = Vec::new();
        for server in &self.servers {
            if server.target != heading {
                heading = &server.target;
                lines.push(format!("each of {heading}, from the first round to the last:"));
            }
            lines.push(format!("  {}", server.cost()));
        }
        lines.iter().for_each(|line| println!("{line}"));
        lines
    }
}

impl Counted {
    fn cost(&self) -> Cost {
        let now = Processes::listening(&[self.address]);
        // A restarted server has another process, whose CPU time began at 0.
        let before = if now == self.processes { self.cpu_ns } else { Some(0) };
        let cpu_ns = now.cpu_ns().zip(before).map(|(now, before)| now.saturating_sub(before));
        let memory = now.memory();
        Cost {
            address: self.address,
            mode: match self.scheme {
                Scheme::Zk => target::mode_at(&self.address).unwrap_or("serves nobody".to_string()),
                Scheme::Etcd | Scheme::Etcd2 => "member".to_string(),
            },
            cpu_ms: cpu_ns.map(|ns| ns as f64 / 1e6),
            resident: memory.map(|it| it.resident),
            peak: memory.map(|it| it.peak),
        }
    }
}

impl core::fmt::Display for Cost {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Cost { address, mode, cpu_ms, resident, peak } = self;
        write!(f, "{address} ({mode}): ")?;
        let (Some(cpu_ms), Some(resident), Some(peak)) = (cpu_ms, resident, peak) else {
            return f.write_str("not on this machine");
        };
        let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
        let (resident, peak) = (mib(resident), mib(peak));
        write!(f, "CPU {cpu_ms:.0} ms, VmRSS {resident:.0} MiB, VmHWM {peak:.0} MiB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::null_server::NullServer;

    #[test]
    fn a_single_server_has_no_list() {
        let null = NullServer::start(1).unwrap();
        assert!(Census::start(&[null.target()]).end().is_empty());
    }

    /// Two null servers in this process count as an ensemble of two; each is listed.
    #[test]
    fn each_server_of_an_ensemble_is_listed() {
        let nulls = [NullServer::start(1).unwrap(), NullServer::start(1).unwrap()];
        let mut target = nulls[0].target();
        target.addresses.push(nulls[1].target().addresses[0]);
        let census = Census::start(&[target]);
        assert_eq!(census.servers.len(), 2);
        for server in &census.servers {
            let cost = server.cost();
            assert!(cost.resident.unwrap() > 0);
            assert!(cost.cpu_ms.unwrap() >= 0.0);
            assert!(cost.to_string().contains("VmRSS"), "{cost}");
        }
        let elsewhere = Cost {
            address: SocketAddr::from(([10, 0, 0, 1], 2181)),
            mode: "leader".to_string(),
            cpu_ms: None,
            resident: None,
            peak: None,
        };
        assert_eq!(elsewhere.to_string(), "10.0.0.1:2181 (leader): not on this machine");
    }
}
