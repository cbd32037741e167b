//! The command line of `quorate`: its commands and options, and the texts that `--help` prints.
//!
//! [`parse`] is pure: it reads nothing but its argument. A wrong command line gives a message of
//! one line, and exit status 2. Help and the version may have more lines, and give status 0.

use std::ffi::OsString;
use std::path::PathBuf;

use bench::cli::BenchArgs;
use bench::reproduce::ReproduceArgs;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use shell::{Format, Invocation};

use config::units::parse_ms;
use config::{Exit, ServeArgs};

/// What `--version` and `version` print after the program's name.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    ", for clients of ZooKeeper 3.9, etcd 3.6 and 2, and Ozone's datanodes"
);

/// Coordination for distributed systems: one server for unmodified clients of ZooKeeper and etcd.
/// Beside them it has a chunk store for clients of Ozone's datanodes, and a benchmark.
#[derive(Debug, Parser)]
#[command(name = "quorate", version = VERSION, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Start a server with `quorate serve`, then look at it with `quorate zk` or etcdctl."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What `quorate` is asked to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a server until SIGTERM or Ctrl-C.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Look at and change the tree of a ZooKeeper server: a shell, or one command.
    #[command(after_help = ZK_EXAMPLES)]
    Zk(ZkArgs),
    /// Verify what is on disk and print what it holds. Reads only, changes nothing.
    Inspect(InspectArgs),
    /// Write the blocks of a stopped server's chunk store to files, as Ozone lays them out.
    ExportChunks(ExportChunksArgs),
    /// Look at an ensemble, or hand its leadership to another server.
    #[command(after_help = CLUSTER_EXAMPLES)]
    Cluster(ClusterArgs),
    /// Make data directories that begin with the state of a backup.
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(RestoreArgs),
    /// Make data directories with the state of the servers that survive a lost quorum.
    #[command(after_help = RECOVER_EXAMPLES)]
    Recover(RecoverArgs),
    /// Make a secret that the servers of an ensemble share.
    Secret(SecretArgs),
    /// Run whole clusters in a simulated world, with faults, from a seed.
    #[command(after_help = "A run that fails prints the one command that repeats it.")]
    Sim(SimArgs),
    /// Measure a server, beside another one in the same run.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Repeat the tests of a document beside the real server: tables, charts, a report.
    #[command(after_help = REPRODUCE_EXAMPLES)]
    Reproduce(ReproduceArgs),
    /// Print the version.
    Version,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  quorate serve                               on 127.0.0.1: ZooKeeper 2181, etcd 2379, admin and
                                              metrics 8080; data in ./quorate-data
  quorate serve --config /etc/zoo.cfg         as ZooKeeper would run on that file
  quorate serve --data-dir /srv/q --zk-addr 0.0.0.0:2181 --etcd-addr 0.0.0.0:2379
  quorate serve --local-ensemble 3            three servers here, on ports 2181 to 2183 and 2379 to 2381

Where a file or one of the options *-addr names a port, only the named ports are served. A FILE is a
zoo.cfg or a quorate.toml, told apart by what is in it. Options win over the file, the file over -D
properties in SERVER_JVMFLAGS and JVMFLAGS. The server is ready when it prints `quorate ready` with
each face and its address on standard output.";

const ZK_EXAMPLES: &str = "\
Examples:
  quorate zk                                  a shell; `help` lists the commands
  quorate zk ls -R /
  quorate zk --server zk1:2181,zk2:2181/app get -s /config
  quorate zk --output json ls /
Everything from COMMAND on belongs to the command. The options of zkCli.sh are read, too: -server,
-timeout, -r, -waitforconnection, -client-configuration; and of CLIENT_JVMFLAGS what is about TLS and SASL.";

const CLUSTER_EXAMPLES: &str = "\
Examples:
  quorate cluster status
  quorate cluster status --admin zk1:8080,zk2:8080,zk3:8080
  quorate cluster transfer --to 2 --admin zk1:8080,zk2:8080,zk3:8080
An ADDRESS is that of a server's admin server (`serve --admin-addr`, or admin.serverPort).";

const RESTORE_EXAMPLES: &str = "\
Examples:
  quorate restore backup.snap --data-dir /srv/q
  quorate restore backup.snap --data-dir ./restored --servers 1,2,3
  quorate restore etcd.db --data-dir ./restored --servers 1,2,3 --bump-revision 1000000 --mark-compacted
The first makes the directory of a standalone server. The second makes ./restored/1 to ./restored/3, each
for the server with that number: bring each to its server, all of one run, and start them. FILE is what
`snapshot` of an admin server answers, or a file from the `snapshots` folder of a data directory. The
third begins with a database that `etcdctl snapshot save` has made of an etcd, or of Quorate.";

const RECOVER_EXAMPLES: &str = "\
Examples:
  quorate recover /srv/q --data-dir /srv/new --servers 1,2,3 --dry-run
  quorate recover /srv/q --data-dir /srv/new --servers 1,2,3
  quorate recover ./from-a ./from-c --data-dir /srv/new
For an ensemble that has lost more than half of its voters for good. Name every directory that is left:
the one that goes furthest is taken, with its whole log. The new servers are another cluster, so the old
ones are refused if they come back. Without --servers the new directory is a standalone server's.";

const BENCH_EXAMPLES: &str = "\
Examples:
  quorate bench zk-latencies --target zk://localhost:2181
  quorate bench zk-latencies --target zk://localhost:2181 --compare zk://localhost:2182 --clients 10
  quorate bench zk-fill --target zk://localhost:2181 --compare zk://localhost:2182
  quorate bench zk-restart --target zk://localhost:2181
  quorate bench etcd --target etcd://localhost:2379 --compare etcd://localhost:22379 --op put,range
  quorate bench differential --target zk://localhost:2181 --compare zk://localhost:2182 --seeds 100
Options of each: quorate bench WORKLOAD --help. What each means: docs/benchmarks.md.";

const REPRODUCE_EXAMPLES: &str = "\
Examples:
  quorate reproduce hunt --quick                         the method, in a minute or two
  quorate reproduce hunt --html hunt.html --json hunt.json
  quorate reproduce hunt --peer /opt/apache-zookeeper-3.9.5-bin
  quorate reproduce etcd --peer /usr/local/bin           a folder with the program etcd
  quorate reproduce alibaba --peer zk://a:2181,b:2181,c:2181
What is done, and what the documents got wrong: docs/benchmarks.md.";

/// Options of `quorate secret`.
#[derive(Clone, Debug, Args)]
pub struct SecretArgs {
    /// A new file for the secret, readable for its owner only. Without it the secret is printed.
    pub file: Option<PathBuf>,
}

/// Options of `quorate zk`.
#[derive(Debug, Args)]
pub struct ZkArgs {
    /// The servers, separated by commas; one that answers is used. /PATH behind them makes
    /// that the root
    #[arg(short, long, value_name = "HOST:PORT", default_value = "127.0.0.1:2181")]
    pub server: String,
    /// How long the session outlives a lost connection; a number alone is milliseconds
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = session_timeout)]
    pub timeout: u32,
    /// Accept a server that is cut off from its ensemble, for reads only
    #[arg(short, long)]
    pub read_only: bool,
    /// Try to connect until the timeout ends, rather than each server once
    #[arg(long = "waitforconnection")]
    pub wait_for_connection: bool,
    /// Properties of TLS and SASL, as zkCli.sh reads them
    #[arg(long, value_name = "FILE")]
    pub client_configuration: Option<PathBuf>,
    /// Output for people, or one JSON value for each command
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Format,
    /// One command and its arguments; without it a shell starts
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub command: Vec<String>,
}

impl From<ZkArgs> for Invocation {
    fn from(args: ZkArgs) -> Invocation {
        Invocation {
            servers: args.server,
            timeout_ms: args.timeout,
            read_only: args.read_only,
            is_patient: args.wait_for_connection,
            client_configuration: args.client_configuration,
            output: args.output,
            command: args.command,
        }
    }
}

/// Options of `quorate inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The data directory of a server, running or not, a snapshot, or a database of etcd's
    #[arg(value_name = "DATA-DIR|FILE")]
    pub data_dir: PathBuf,
    /// Print etcd's state, too: keys, leases, users (with roles and alarms), v2 (the nodes of etcd
    /// v2), or all of them
    #[arg(
        long,
        value_name = "PART,...",
        value_enum,
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "keys,leases,users,v2"
    )]
    pub etcd: Option<Vec<EtcdPart>>,
    /// Directory of its log, if that is another one
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
    /// Directory of its chunk store, if that is not below it
    #[arg(long, value_name = "DIR")]
    pub chunk_dir: Option<PathBuf>,
    /// Accept the damage that the chunk store of a stopped server has noted: from its next start on
    /// it frees space again
    #[arg(long)]
    pub repair: bool,
}

/// A part of etcd's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EtcdPart {
    /// Keys with their revisions, without their values.
    Keys,
    /// Leases with their keys.
    Leases,
    /// Users, roles and alarms; no passwords.
    Users,
    /// Nodes of etcd v2, without their values.
    V2,
}

/// Options of `quorate export-chunks`.
#[derive(Debug, Args)]
pub struct ExportChunksArgs {
    /// The data directory of a server that is stopped
    #[arg(value_name = "DATA-DIR")]
    pub data_dir: PathBuf,
    /// Directory of its chunk store, if that is not below it
    #[arg(long, value_name = "DIR")]
    pub chunk_dir: Option<PathBuf>,
    /// Directory to write to; made if it is missing
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// These containers only
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub container: Vec<u64>,
}

/// Options of `quorate restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// A snapshot, or a database that `etcdctl snapshot save` has made
    #[arg(value_name = "FILE")]
    pub backup: PathBuf,
    /// Take a database of etcd's that has no hash: `member/snap/db` of a stopped etcd
    #[arg(long)]
    pub skip_hash_check: bool,
    #[command(flatten)]
    pub at: NewDirArgs,
}

/// The data directories that a command makes for the servers of a new ensemble.
#[derive(Debug, Args)]
pub struct NewDirArgs {
    /// Directory to make; an existing one may only hold files that are not Quorate's
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Numbers of an ensemble's servers: each gets a directory in DIR
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1..)]
    pub servers: Vec<u32>,
    /// Raise the revision of etcd's keys by so much, so that watchers which have seen more than the
    /// backup has see no revision twice
    #[arg(
        long,
        value_name = "N",
        requires = "mark_compacted",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub bump_revision: Option<u64>,
    /// Compact etcd's keys at the raised revision, so that watchers start anew
    #[arg(long, requires = "bump_revision")]
    pub mark_compacted: bool,
}

/// Options of `quorate recover`.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// The data directories of the servers that survive, all stopped; nothing in them changes
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// The directories of their logs, in the same order, if these are others
    #[arg(long, value_name = "DIR,...", value_delimiter = ',')]
    pub log_dir: Vec<PathBuf>,
    /// Print what would be recovered, and make nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub at: NewDirArgs,
}

/// Options of `quorate cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// What `quorate cluster` does.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the leader, the followers and the progress of each; status 1 if no leader answers
    Status {
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Raise the level of the ensemble to the highest that its servers know: it never falls again
    Upgrade {
        /// Credentials of a user with all permissions on the root, where not everybody has them
        #[arg(long, value_name = "USER:PASSWORD")]
        auth: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Have the leader hand leadership to another server
    Transfer {
        /// The number of that server [default: the one that is least behind]
        #[arg(long, value_name = "N")]
        to: Option<u32>,
        /// Credentials of a user with all permissions on the root, where not everybody has them
        #[arg(long, value_name = "USER:PASSWORD")]
        auth: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// The servers that `quorate cluster` asks.
#[derive(Debug, Args)]
pub struct AdminArgs {
    /// The admin servers of the ensemble's servers, or of some of them
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    #[arg(default_value = "127.0.0.1:8080,127.0.0.1:8081,127.0.0.1:8082")]
    pub admin: Vec<String>,
}

/// Options of `quorate sim`. Neither given: seed 1.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// Run this one seed and say what happens; with --seeds, begin with it
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Run N seeds: of one member and of ensembles in turn, or one after the other with --members
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// Number of members [default: 1 for seeds below 1000000000, else 3 or 5]
    #[arg(long, value_name = "N", value_parser = members)]
    pub members: Option<usize>,
}

/// Parses the number of members in a simulated ensemble.
fn members(text: &str) -> Result<usize, String> {
    let max = sim::limits::MEMBERS_MAX;
    let count = text.parse().ok().filter(|count| (1..=max).contains(count));
    count.ok_or_else(|| format!("{text:?} is not between 1 and {max}"))
}

/// Parses a session timeout. The result is in ms and fits a positive `int`, as ZooKeeper's protocol
/// carries it.
fn session_timeout(text: &str) -> Result<u32, String> {
    let ms = match text.parse() {
        Ok(ms) => ms,
        Err(_) => parse_ms(text)?,
    };
    u32::try_from(ms)
        .ok()
        .filter(|ms| (1..=i32::MAX.unsigned_abs()).contains(ms))
        .ok_or_else(|| format!("{text:?} is not between 1ms and {}ms", i32::MAX))
}

/// Parses a command line; the first word is the program's name.
pub fn parse<I, T>(words: I) -> Result<Cli, Exit>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString>,
{
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let words = with_two_dashes(words);
    let mut definition = Cli::command();
    definition
        .try_get_matches_from_mut(&words)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Help(error.to_string()),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Exit::Wrong("quorate: which command? `quorate --help` lists them".to_string())
            }
            _ => Exit::Wrong(one_line(&error, subcommand_of(&definition, &words))),
        })
}

/// The long options of `zkCli.sh` that have a single dash (`ZooKeeperMain.parseOptions`).
const ONE_DASH: [&str; 4] = ["-server", "-timeout", "-waitforconnection", "-client-configuration"];

/// Adds a second dash to the options of `quorate zk` that are in [`ONE_DASH`]. Stops at the
/// command.
fn with_two_dashes(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_none_or(|word| word != "zk") {
        return words;
    }
    let mut is_value = false;
    for word in words.iter_mut().skip(2) {
        let Some(text) = word.to_str() else { break };
        if std::mem::take(&mut is_value) {
            continue;
        }
        if !text.starts_with('-') {
            break;
        }
        let name = text.trim_start_matches('-');
        is_value =
            ["server", "s", "timeout", "t", "output", "o", "client-configuration"].contains(&name);
        if ONE_DASH.contains(&text) {
            *word = format!("-{text}").into();
        }
    }
    words
}

/// One line for a parse error: its first sentence, without usage and hints, and which `--help` to
/// read.
fn one_line(error: &clap::Error, subcommand: Option<&str>) -> String {
    let text = error.to_string();
    let sentence: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .map(|line| line.trim_start_matches("error: "))
        .collect();
    let space = if subcommand.is_some() { " " } else { "" };
    let subcommand = subcommand.unwrap_or_default();
    format!("quorate: {} (see `quorate{space}{subcommand} --help`)", sentence.join(" "))
}

/// The first word that names a subcommand.
fn subcommand_of<'a>(definition: &'a clap::Command, words: &[OsString]) -> Option<&'a str> {
    words
        .iter()
        .skip(1)
        .find_map(|word| definition.find_subcommand(word))
        .map(clap::Command::get_name)
}

#[cfg(test)]
mod tests;
