//! The differential test: sends equal, seeded requests to two servers and compares their answers.
//! For ZooKeeper's protocol, which this module covers, each reply, Stat and event must be equal,
//! and come in the same order on each connection; module [`etcd`] covers etcd's.
//!
//! A *slot* is a number for a session that both servers share; on each server the slot has its own
//! session. A seed is a list of *rounds*. In most rounds one session sends a pipelined burst of
//! requests, and the other sessions only receive events. In some rounds all sessions send at once,
//! each below its own parent znode, so that the answers do not depend on how the requests
//! interleave. After each round every connection sends a sync and a ping; their answers come behind
//! all events of the round.
//!
//! The requests may touch the whole tree, and the tree is removed after each seed. So both servers
//! must be empty at the start. If a server removed a container by itself, that would count as a
//! difference; so both servers need a long `znode.container.checkIntervalMs`.

pub mod etcd;
pub mod generate;
pub mod side;
pub mod wire;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Args;
use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest};

use crate::limits::DIFFERENTIAL_ROUNDS;
use crate::servers::target::{Scheme, Target, TargetAddress};
use generate::{
    Asked, AskedSession, Burst, Generator, Greeting, NAMES_MADE, Round, SLOTS, Slot, entry,
};
use side::Side;

/// Options of `quorate bench differential`.
#[derive(Debug, Args)]
pub struct DifferentialArgs {
    /// The server to test, which holds nothing: zk://HOST:PORT or etcd://HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    target: TargetAddress,
    /// The reference server, of the same protocol, which holds nothing either
    #[arg(long, value_name = "ADDRESS")]
    compare: TargetAddress,
    /// Only this seed
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Seeds 1 to N; each takes about half a second
    #[arg(long, value_name = "N", default_value_t = 24)]
    seeds: u64,
    /// The super user of both servers of ZooKeeper's protocol, who removes what a seed leaves
    /// behind
    #[arg(long = "super", value_name = "USER:PASSWORD", default_value = "super:test")]
    super_user: String,
    /// File for the reference's answers, where the other server's differ
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,
}

/// Runs `quorate bench differential` and prints the first difference, or what was compared.
///
/// # Errors
/// A server does not answer, is not empty at the start, or cannot be emptied.
pub fn command(args: &DifferentialArgs) -> anyhow::Result<ExitCode> {
    let scheme = args.target.scheme();
    args.compare.check_scheme(scheme)?;
    let find = |name, address: &TargetAddress| -> anyhow::Result<(SocketAddr, String)> {
        let target = Target::find(address)?;
        println!("{name}: {} at {}", target.name, target.address);
        let first = target.addresses.first().context("a target has an address")?;
        Ok((*first, target.address))
    };
    let (target, compare) = (find("target", &args.target)?, find("compare", &args.compare)?);
    match scheme {
        Scheme::Zk => {
            let side = |name, (at, address): (SocketAddr, String)| {
                let mut side = Side::new(name, at);
                check_empty(&mut side).context(address)?;
                anyhow::Ok(side)
            };
            let (mut target, mut compare) = (side("target", target)?, side("compare", compare)?);
            run_seeds(args, |seed, compared| {
                run_seed(seed, &args.super_user, &mut compare, &mut target, compared)
            })
        }
        Scheme::Etcd => {
            let mut pair = etcd::Pair::connect(compare.0, target.0)?;
            run_seeds(args, |seed, compared| etcd::run_seed(seed, &mut pair, compared))
        }
        Scheme::Etcd2 => anyhow::bail!("servers of etcd v2 are not compared"),
    }
}

/// Runs the seeds that the options ask for, until the first difference.
fn run_seeds(
    args: &DifferentialArgs,
    mut run: impl FnMut(u64, &mut Compared) -> anyhow::Result<Option<Mismatch>>,
) -> anyhow::Result<ExitCode> {
    let seeds = args.seed.map_or(1..=args.seeds, |seed| seed..=seed);
    let mut compared = Compared::default();
    for seed in seeds {
        let Some(mismatch) = run(seed, &mut compared)? else { continue };
        println!("{}", mismatch.text);
        if let Some(path) = &args.transcript {
            std::fs::write(path, mismatch.transcript.join("\n"))
                .with_context(|| path.display().to_string())?;
        }
        return Ok(ExitCode::FAILURE);
    }
    let Compared { requests, good_answers, errors, events, fragments } = compared;
    match args.target.scheme() {
        Scheme::Zk => {
            print!("{requests} requests, and pings between them: ");
            println!("{good_answers} results, {errors} errors and {events} events are the same");
        }
        Scheme::Etcd | Scheme::Etcd2 => {
            println!(
                "{requests} requests: {good_answers} results, {errors} errors, {events} events and \
                 {fragments} fragments are the same"
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Counts of what was sent and was equal.
#[derive(Debug, Default)]
pub struct Compared {
    /// Requests sent to each of the two servers.
    pub requests: usize,
    /// Answers that were no errors.
    pub good_answers: usize,
    /// Answers that were errors.
    pub errors: usize,
    /// Watch events.
    pub events: usize,
    /// Watch responses of etcd that were fragments, the last fragment of a revision not included.
    pub fragments: usize,
}

impl Compared {
    fn count(&mut self, lines: &[String]) {
        for line in lines {
            if line.contains(" event ") {
                self.events += 1;
            } else if line.contains(" error=0") {
                self.good_answers += 1;
            } else if line.contains(" error=") {
                self.errors += 1;
            }
        }
    }
}

/// The first difference in a seed.
#[derive(Debug)]
pub struct Mismatch {
    /// The difference and the request that led to it, with some lines before it, for people.
    pub text: String,
    /// All requests of the seed so far, with the answers of the reference server.
    pub transcript: Vec<String>,
}

/// Runs one seed. The trees must be empty before, and are empty after it unless the servers differ.
/// `expected` is the reference server.
///
/// # Errors
/// A server does not answer, or `super_user` cannot empty it.
pub fn run_seed(
    seed: u64,
    super_user: &str,
    expected: &mut Side,
    got: &mut Side,
    compared: &mut Compared,
) -> anyhow::Result<Option<Mismatch>> {
    let mut play = Play { seed, shown: HashMap::new(), transcript: Vec::new(), compared };
    let mut generator = Generator::new(seed);
    expected.begin_seed();
    got.begin_seed();
    let set_up = Round::Burst(set_up(&mut generator));
    for round in [greet_anew(0), set_up] {
        if let Some(mismatch) = play.round(0, &round, expected, got)? {
            return Ok(Some(mismatch));
        }
    }
    for index in 1..=DIFFERENTIAL_ROUNDS {
        let round = generator.round(&expected.slots());
        if let Some(mismatch) = play.round(index, &round, expected, got)? {
            return Ok(Some(mismatch));
        }
    }
    for round in last_rounds(&mut generator, &expected.slots()) {
        if let Some(mismatch) = play.round(DIFFERENTIAL_ROUNDS, &round, expected, got)? {
            return Ok(Some(mismatch));
        }
    }
    let (left, also_left) =
        (clear(&mut generator, super_user, expected)?, clear(&mut generator, super_user, got)?);
    if left != also_left {
        let text = format!("seed {seed}: the trees differ at its end: {left:?} and {also_left:?}");
        return Ok(Some(Mismatch { text, transcript: play.transcript }));
    }
    play.round(DIFFERENTIAL_ROUNDS, &close(&mut generator, 0), expected, got)
}

/// The state of a running seed.
struct Play<'c> {
    seed: u64,
    shown: HashMap<i32, String>,
    transcript: Vec<String>,
    compared: &'c mut Compared,
}

impl Play<'_> {
    fn round(
        &mut self,
        index: usize,
        round: &Round,
        right: &mut Side,
        other: &mut Side,
    ) -> anyhow::Result<Option<Mismatch>> {
        for asked in asked_in(round) {
            self.shown.insert(asked.xid, asked.shown.clone());
            self.transcript.push(format!("{} {}", asked.xid, asked.shown));
            self.compared.requests += 1;
        }
        let (expected, got) = (right.run(round)?, other.run(round)?);
        self.transcript.extend(expected.iter().map(|line| format!("    {line}")));
        self.compared.count(&expected);
        if expected == got {
            return Ok(None);
        }
        let text = self.explain(index, round, &expected, &got);
        Ok(Some(Mismatch { text, transcript: std::mem::take(&mut self.transcript) }))
    }

    fn explain(&self, index: usize, round: &Round, expected: &[String], got: &[String]) -> String {
        let same = expected.iter().zip(got).take_while(|(a, b)| a == b).count();
        let explain = |lines: &[String]| match lines.get(same) {
            None => "nothing more".to_string(),
            Some(line) => {
                let xid = line.split("xid=").nth(1).and_then(|text| text.split(' ').next());
                let xid = xid.and_then(|text| text.parse::<i32>().ok());
                let asked = xid.and_then(|xid| self.shown.get(&xid)).map_or("", String::as_str);
                format!("{line}\n        to {asked}")
            }
        };
        let before: Vec<String> =
            expected[same.saturating_sub(8)..same].iter().map(|line| format!("  {line}")).collect();
        let what = match round {
            Round::Burst(burst) => format!("a burst of slot {}", burst.slot),
            Round::Together(bursts) => format!("{} bursts at once", bursts.len()),
            other => format!("{other:?}"),
        };
        let seed = self.seed;
        format!(
            "seed {seed}, round {index} ({what}) differs; before it:\n{}\n  right: {}\n  other: {}",
            before.join("\n"),
            explain(expected),
            explain(got),
        )
    }
}

fn asked_in(round: &Round) -> Vec<&Asked> {
    match round {
        Round::Burst(burst) => burst.asked.iter().collect(),
        Round::Together(bursts) => bursts.iter().flat_map(|burst| &burst.asked).collect(),
        Round::Greet(_) | Round::Drop(_) => Vec::new(),
    }
}

/// A round in which a slot opens a new session.
pub fn greet_anew(slot: usize) -> Round {
    Round::Greet(Greeting {
        slot,
        timeout_ms: 600_000,
        read_only: Some(false),
        protocol_version: 0,
        session: AskedSession::New,
        seen_ahead: -1_000_000_000,
    })
}

fn greet_again(slot: usize) -> Round {
    let Round::Greet(greeting) = greet_anew(slot) else { unreachable!("it greets") };
    Round::Greet(Greeting { session: AskedSession::Own, ..greeting })
}

/// The requests that create the parents of a seed, and a few znodes below them.
fn set_up(generator: &mut Generator) -> Burst {
    let parents = (0..SLOTS).map(|slot| format!("/c{slot}")).chain(["/d".to_string()]);
    let mut asked = Vec::new();
    for parent in parents {
        let below = NAMES_MADE.iter().map(|name| format!("{parent}/{name}"));
        for path in std::iter::once(parent.clone()).chain(below) {
            asked.push(generator.asked(&Request::Write(WriteRequest::Create {
                kind: CreateKind::Create,
                path: &path,
                data: None,
                acl: vec![entry(31, "world", "anyone")],
                flags: 0,
                ttl_ms: -1,
            })));
        }
    }
    generator.in_pieces(0, asked)
}

fn close(generator: &mut Generator, slot: usize) -> Round {
    let close = Asked { ends: true, ..generator.asked(&Request::CloseSession) };
    Round::Burst(generator.in_pieces(slot, vec![close]))
}

/// The rounds that close all sessions, and then open one to clear up with.
fn last_rounds(generator: &mut Generator, slots: &[Slot; SLOTS]) -> Vec<Round> {
    let mut rounds = Vec::new();
    for (slot, state) in slots.iter().enumerate() {
        match state {
            Slot::Vacant => continue,
            Slot::Detached => rounds.push(greet_again(slot)),
            Slot::Attached => {}
        }
        rounds.push(close(generator, slot));
    }
    rounds.push(greet_anew(0));
    rounds
}

fn children(generator: &mut Generator, side: &mut Side, path: &str) -> anyhow::Result<Vec<String>> {
    let read = ReadRequest { kind: ReadKind::GetChildren, path, watch: false };
    let asked = generator.asked(&Request::Read(read));
    let names = side.call(0, &asked, |reader| {
        Ok(reader.texts()?.into_iter().map(str::to_string).collect::<Vec<String>>())
    })?;
    let mut names = names.map_err(|error| anyhow::anyhow!("{path} cannot be listed: {error}"))?;
    names.sort_unstable();
    Ok(names)
}

fn check_empty(side: &mut Side) -> anyhow::Result<()> {
    let mut generator = Generator::new(0);
    side.run(&greet_anew(0))?;
    let names = children(&mut generator, side, "/")?;
    ensure!(names == ["zookeeper"], "it holds znodes, and the test removes all there is");
    side.run(&close(&mut generator, 0))?;
    Ok(())
}

/// Removes all znodes, as the super user. Returns the paths that were there.
fn clear(
    generator: &mut Generator,
    super_user: &str,
    side: &mut Side,
) -> anyhow::Result<Vec<String>> {
    let auth = Request::Auth { scheme: "digest", credentials: Some(super_user.as_bytes()) };
    let auth = generator.asked(&auth);
    if let Err(error) = side.call(0, &auth, |_| Ok(()))? {
        bail!("the super user is refused: {error}");
    }
    let mut found = vec!["/".to_string()];
    let mut index = 0;
    while let Some(path) = found.get(index).cloned() {
        let prefix = path.trim_end_matches('/');
        let names = children(generator, side, &path)?;
        found.extend(names.iter().map(|name| format!("{prefix}/{name}")));
        index += 1;
    }
    for path in found.iter().rev() {
        let delete = WriteRequest::Delete { path, version: -1 };
        let asked = generator.asked(&Request::Write(delete));
        if side.call(0, &asked, |_| Ok(()))?.is_ok() {
            continue;
        }
        // The znode cannot be removed as it is, so everybody gets all permissions for it.
        let acl = vec![entry(31, "world", "anyone")];
        let set_acl = WriteRequest::SetAcl { path, acl, version: -1 };
        let asked = generator.asked(&Request::Write(set_acl));
        if let Err(error) = side.call(0, &asked, |_| Ok(()))? {
            bail!("{path} cannot be removed: {error}; is {super_user} the super user?");
        }
    }
    Ok(found)
}
