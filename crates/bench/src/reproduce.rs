//! `quorate reproduce`: repeats the measurements of published documents on this machine, for
//! Quorate and for the real server, and makes tables and charts of them.
//!
//! ```text
//! a document -> its tests (hunt, etcd, ozone, alibaba) -> session: servers in turn -> results
//!   -> tables on the terminal, JSON, an HTML report
//! ```
//!
//! A *peer* is the real server that Quorate is compared with. [`servers`] starts both systems in
//! the same way, on the [`cores`] of the test. [`session`] takes turns between them and keeps the
//! results. [`crate::measure::course`] watches each run.

pub mod alibaba;
pub mod cores;
pub mod etcd;
pub mod hunt;
pub mod ozone;
pub mod servers;
pub mod session;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use results::schema::Role;

use crate::measure::comparison::{Goal, Rounds};
use crate::measure::record::{OURS, PEER};
use crate::servers::target::TargetAddress;
use servers::{How, Maker};
use session::Outputs;

/// Options of `quorate reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// The document
    document: Document,
    /// Scaled down: shows the method in a minute or two, and no figure to quote
    #[arg(long)]
    quick: bool,
    /// The real server: a folder with its distribution, a folder with scripts that start it, or
    /// servers that run (zk://HOST:PORT[,...]; give it once for each number of servers). By default
    /// the scripts in tests/peers, if they are there; "none" is none
    #[arg(long, value_name = "DIR|ENDPOINTS")]
    peer: Vec<Peer>,
    /// Write a report
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write all figures
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leave the folders of this machine out of both files: of a path stands its last name
    #[arg(long)]
    no_folders: bool,
    /// The folder on whose disk the servers have their data; all is removed in the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// hunt, alibaba: a folder on another disk for the logs of the servers
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// Rounds of each test that count [default: 6; 3 for alibaba, whose rounds are long; 1 with
    /// --quick]. An interval needs 3
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Rounds before them [default: 1; 0 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1000))]
    warmup: Option<u32>,
    /// hunt: the program that makes one test by the stock C client [default:
    /// tests/clients/run-c-latencies.sh, if it is there, and not with --quick]
    #[arg(long, value_name = "PROGRAM")]
    c_client: Option<PathBuf>,
    /// How well the ratio of each test is to be known.
    #[command(flatten)]
    goal: Goal,
    /// Only the tests whose titles have this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// A published document whose measurements can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Document {
    /// P. Hunt: ZooKeeper service latencies, 1 and 3 servers, 1 to 20 clients
    Hunt,
    /// Alibaba: publish and subscribe, three scenarios, three servers
    Alibaba,
    /// etcd 2.2: reads and writes of one key by HTTP, three servers; and the same by etcd v3
    Etcd,
    /// Ozone: chunk layouts, ten tests with their sync
    Ozone,
}

/// The peer, as `--peer` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// No peer: only Quorate is measured, beside the published figures.
    None,
    /// A folder with the distribution of the real server, or with scripts that start it.
    Folder(PathBuf),
    /// Servers that run already, at these addresses.
    Running(TargetAddress),
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        match text {
            "none" => Ok(Peer::None),
            _ if text.contains("://") => text.parse().map(Peer::Running),
            _ => Ok(Peer::Folder(text.into())),
        }
    }
}

/// The folder of the source tree with scripts that start real servers.
const SCRIPTS: &str = "tests/peers";

/// Runs `quorate reproduce` and prints the results.
///
/// # Errors
/// Servers do not start, a test fails, or a file cannot be written.
pub fn command(args: &ReproduceArgs) -> anyhow::Result<ExitCode> {
    match args.document {
        Document::Hunt => hunt::command(args),
        Document::Alibaba => alibaba::command(args),
        Document::Etcd => etcd::command(args),
        Document::Ozone => ozone::command(args),
    }
}

impl ReproduceArgs {
    /// How often each test is repeated: `rounds` times after one warm-up round, unless options say
    /// otherwise.
    fn repeat(&self, rounds: u32) -> Rounds {
        let (rounds, warmup) = if self.quick { (1, 0) } else { (rounds, 1) };
        let (rounds, warmup) = (self.rounds.unwrap_or(rounds), self.warmup.unwrap_or(warmup));
        Rounds { goal: self.goal, ..Rounds::of(rounds, warmup) }
    }

    fn outputs(&self) -> Outputs {
        let (html, json) = (self.html.clone(), self.json.clone());
        Outputs { html, json, has_folders: !self.no_folders }
    }

    /// Whether `--only` includes the test with this title.
    fn wants(&self, title: &str) -> bool {
        self.only.as_ref().is_none_or(|text| title.contains(text.as_str()))
    }

    /// How to get Quorate and the real ZooKeeper, which read the same `zoo.cfg`.
    fn zk_makers(&self) -> anyhow::Result<Vec<Maker>> {
        self.makers(
            &["serve", "--config"],
            &[("bin/zkServer.sh", &["start-foreground"]), ("real-zk.sh", &[])],
        )
    }

    /// How to get Quorate, and the peer if there is one. `ours` are the arguments that start
    /// Quorate's server. `starters` are the programs that a folder of the peer may have, each with
    /// its first arguments.
    fn makers(&self, ours: &[&str], starters: &[(&str, &[&str])]) -> anyhow::Result<Vec<Maker>> {
        let program = std::env::current_exe()?;
        let ours = std::iter::once(program.into()).chain(ours.iter().map(Into::into)).collect();
        let how = How::Program(ours);
        let ours = Maker { id: OURS, role: Role::Ours, how, heap_mb: None, is_default: false };
        let mut makers = vec![ours];
        let how = match self.peer.as_slice() {
            [] => starter_in(Path::new(SCRIPTS), starters),
            [Peer::None] => None,
            [Peer::Folder(folder)] => {
                let found = starter_in(folder, starters);
                let names: Vec<&str> = starters.iter().map(|(name, _)| *name).collect();
                Some(found.with_context(|| {
                    format!("--peer {}: has none of {}", folder.display(), names.join(", "))
                })?)
            }
            several => Some(How::Running(running(several)?)),
        };
        let is_default = self.peer.is_empty();
        let peer =
            how.map(|how| Maker { id: PEER, role: Role::Peer, how, heap_mb: None, is_default });
        makers.extend(peer);
        Ok(makers)
    }

    /// Why there is no peer; `None` if there is one, or if `--peer none` was given.
    fn no_peer(&self, makers: &[Maker]) -> Option<String> {
        let is_there = makers.iter().any(|maker| maker.role == Role::Peer);
        (self.peer.is_empty() && !is_there).then(no_script)
    }
}

/// The reason when no `--peer` was given and [`SCRIPTS`] has no script for the peer.
fn no_script() -> String {
    format!("this folder has no script in {SCRIPTS} that starts one; --peer names one")
}

fn running(peers: &[Peer]) -> anyhow::Result<Vec<TargetAddress>> {
    let address = |peer: &Peer| match peer {
        Peer::Running(address) => Ok(address.clone()),
        _ => bail!("--peer: give one folder, or addresses of servers only"),
    };
    peers.iter().map(address).collect()
}

/// The first of the `starters` that exists in `folder`.
fn starter_in(folder: &Path, starters: &[(&str, &[&str])]) -> Option<How> {
    let folder = folder.canonicalize().ok()?;
    let found = starters.iter().find(|(name, _)| folder.join(name).is_file());
    found.map(|(name, arguments)| {
        let program = folder.join(name).into();
        How::Program(std::iter::once(program).chain(arguments.iter().map(Into::into)).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::folder::Folder;

    #[test]
    fn the_other_side_is_a_folder_or_servers() {
        assert_eq!("none".parse(), Ok(Peer::None));
        assert_eq!("/opt/zk".parse(), Ok(Peer::Folder("/opt/zk".into())));
        let one: Peer = "zk://a:1".parse().unwrap();
        let three: Peer = "zk://a:1,b:2,c:3".parse().unwrap();
        let counts: Vec<usize> =
            running(&[one.clone(), three]).unwrap().iter().map(TargetAddress::count).collect();
        assert_eq!(counts, [1, 3]);
        assert!("zk://a".parse::<Peer>().is_err());
        assert!(running(&[one, Peer::None]).is_err());
    }

    #[test]
    fn a_starter_is_found_with_its_arguments() {
        let folder = Folder::make(&std::env::temp_dir(), "starter").unwrap();
        let starters: [(&str, &[&str]); 2] = [("bin/none", &[]), ("start.sh", &["now"])];
        assert!(starter_in(folder.path(), &starters).is_none());
        std::fs::write(folder.path().join("start.sh"), "").unwrap();
        let Some(How::Program(command)) = starter_in(folder.path(), &starters) else {
            panic!("it is there")
        };
        assert_eq!(command.len(), 2);
        assert_eq!(command[1], "now");
    }
}
