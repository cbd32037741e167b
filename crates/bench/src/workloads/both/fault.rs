//! Makes the leader fail while clients of any protocol write, and brings it back. Holds the options
//! for that, and measures how long the leader is gone.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::limits::SECONDS_MAX;
use crate::measure::figures::{Figure, Good};
use crate::servers::ensemble::Ensemble;
use crate::servers::fault::{Fault, Frozen};
use crate::servers::probe::Probe;
use crate::servers::target::Target;

/// Options of a fault of the leader.
#[derive(Debug, Args)]
pub struct FaultArgs {
    /// What happens to the leader
    #[arg(long, value_enum, default_value_t = Fault::Kill)]
    fault: Fault,
    /// How long the clients write before the fault
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    before: u64,
    /// How long the leader is away: until it is started again, goes on, or is thawed
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=SECONDS_MAX))]
    away: u64,
    /// How long the clients write after the leader is back
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=SECONDS_MAX))]
    after: u64,
}

/// The fault of the leader, and how long it took.
pub struct Outage {
    /// The index of the leader among the servers.
    pub place: usize,
    /// The address at which clients reach the leader.
    pub address: SocketAddr,
    /// The file that the leader prints to; `None` if it was not started again.
    pub output: Option<PathBuf>,
    /// The time from the kill until no thread was left; `None` if the leader was not killed.
    gone: Option<Duration>,
    /// The time from its start, or from when it could go on, until it answered a client.
    back: Duration,
}

impl std::fmt::Display for FaultArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FaultArgs { fault, before, away, after } = self;
        write!(
            f,
            "after {before} s the leader {}, and they go on for {after} s after it is back",
            fault.describe(*away)
        )
    }
}

impl FaultArgs {
    /// Checks before anything is measured that each target has a leader here that can fail.
    ///
    /// # Errors
    /// A server is not on this machine, none says that it leads, or the fault cannot be made.
    pub fn check(&self, targets: &[Target]) -> anyhow::Result<()> {
        for target in targets {
            let named = |error| anyhow::anyhow!("{}: {error}", target.address);
            let ensemble = Ensemble::of(target).map_err(named)?;
            let address = &target.address;
            anyhow::ensure!(ensemble.leader().is_some(), "{address}: no server says that it leads");
            self.fault.check(&ensemble).map_err(named)?;
        }
        Ok(())
    }

    /// Lets the leader fail and come back, with the times of the options around that. `on_fault` is
    /// called right before the fault. The leader is back once it answers the probe.
    ///
    /// # Errors
    /// No server leads, the fault cannot be made, or the leader does not come back.
    pub fn happen(
        &self,
        ensemble: &Ensemble,
        probe: &Probe,
        on_fault: impl FnOnce(),
    ) -> anyhow::Result<Outage> {
        std::thread::sleep(Duration::from_secs(self.before));
        let place = ensemble.leader();
        let place = place.ok_or_else(|| anyhow::anyhow!("no server says that it leads"))?;
        let leader = ensemble.member(place);
        let away = Duration::from_secs(self.away);
        let mut outage =
            Outage { place, gone: None, back: away, address: leader.address, output: None };
        match self.fault {
            Fault::Kill => {
                on_fault();
                let gone = leader.kill()?;
                std::thread::sleep(away.saturating_sub(gone));
                let started = leader.start()?;
                outage.gone = Some(gone);
                outage.output = Some(started.output.clone());
                outage.back = started.wait_until_it_serves(probe)?;
            }
            Fault::Pause => {
                on_fault();
                leader.pause_for(away)?;
                outage.back = leader.wait_until_it_serves(probe)?;
            }
            Fault::Freeze => {
                // The leader may need its disk to answer, so it is asked before the fault.
                let folders = leader.data_folders()?;
                on_fault();
                Frozen::start(&folders, away)?.wait()?;
                outage.back = leader.wait_until_it_serves(probe)?;
            }
        }
        std::thread::sleep(Duration::from_secs(self.after));
        Ok(outage)
    }
}

impl Outage {
    /// How long the leader took to be gone, and to serve again.
    pub fn figures(&self) -> [Figure; 2] {
        let ms = |it: Duration| it.as_secs_f64() * 1_000.0;
        [
            Figure::once("process gone after the kill", "ms", self.gone.map(ms), Good::Neither),
            Figure::once("serves again after its return", "ms", ms(self.back), Good::Less),
        ]
    }
}
