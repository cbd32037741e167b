//! This server beside the real ZooKeeper: the same seeded requests of several sessions go to both,
//! and every reply, Stat and event must be the same, in the same order on each connection.
//!
//! A seed is a list of rounds. In most of them one session sends a pipelined burst and the others
//! listen; in some all send at once, each below a parent of its own, so that the answers do not
//! depend on how they interleave. After each round every connection is asked for a sync and a
//! ping, so that all events have arrived before the next.
//!
//! `QUORATE_DIFF_SEEDS=N` runs the seeds 1 to N; `QUORATE_DIFF_SEED=N` that one alone.

mod deliberate;
mod generate;
mod quotas;
mod side;

use std::collections::HashMap;
use std::path::Path;

use generate::{Asked, AskedSession, Generator, Greeting, NAMES_MADE, Round, SLOTS, Slot, entry};
use side::Side;
use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest};

use crate::server::{RealServer, Server};

/// Seeds of an ordinary run: some 10,000 requests, in a quarter of a minute.
const SEEDS: u64 = 24;

/// Rounds of a seed.
const ROUNDS: usize = 45;

/// Sessions must not expire while a seed runs, however slow the machine.
const CONFIG: [&str; 2] = ["minSessionTimeout=100000", "maxSessionTimeout=1000000"];

#[test]
fn every_answer_and_event_is_that_of_the_real_server() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds: Vec<u64> = match (number("QUORATE_DIFF_SEED"), number("QUORATE_DIFF_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, count) => (1..=count.unwrap_or(SEEDS)).collect(),
    };
    let real_server = RealServer::start("differential-real", &CONFIG);
    let server = Server::start("differential-ours", &CONFIG);
    let mut real = Side::new("real", real_server.address());
    let mut ours = Side::new("ours", server.address());
    let mut compared = Compared::default();
    for seed in seeds {
        run_seed(seed, &mut real, &mut ours, &mut compared);
    }
    println!("{compared:?}");
    assert!(compared.events > 0);
    assert!(compared.good_answers > compared.errors);
}

/// What was the same.
#[derive(Debug, Default)]
struct Compared {
    requests: usize,
    good_answers: usize,
    errors: usize,
    events: usize,
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

/// Runs one seed on trees that hold nothing, and leaves them so.
fn run_seed(seed: u64, real: &mut Side, ours: &mut Side, compared: &mut Compared) {
    let mut generator = Generator::new(seed);
    let mut shown = HashMap::new();
    let mut transcript = Vec::new();
    real.begin_seed();
    ours.begin_seed();
    let mut play = |index: usize, round: &Round, real: &mut Side, ours: &mut Side| {
        for asked in asked_in(round) {
            shown.insert(asked.xid, asked.shown.clone());
            compared.requests += 1;
        }
        let (expected, got) = (real.run(round), ours.run(round));
        transcript
            .extend(asked_in(round).iter().map(|asked| format!("{} {}", asked.xid, asked.shown)));
        transcript.extend(expected.iter().map(|line| format!("    {line}")));
        assert_same(seed, index, round, &shown, &transcript, &expected, &got);
        compared.count(&expected);
    };
    play(0, &greet_anew(0), real, ours);
    play(0, &Round::Burst(set_up(&mut generator)), real, ours);
    for index in 1..=ROUNDS {
        let round = generator.round(&real.slots());
        play(index, &round, real, ours);
    }
    for (slot, state) in real.slots().into_iter().enumerate() {
        match state {
            Slot::Vacant => continue,
            Slot::Detached => play(ROUNDS, &greet_again(slot), real, ours),
            Slot::Attached => {}
        }
        let close = generator.asked(&Request::CloseSession);
        let close = Asked { ends: true, ..close };
        play(ROUNDS, &Round::Burst(generator.in_pieces(slot, vec![close])), real, ours);
    }
    play(ROUNDS, &greet_anew(0), real, ours);
    clear(&mut generator, real, ours);
    let close = Asked { ends: true, ..generator.asked(&Request::CloseSession) };
    play(ROUNDS, &Round::Burst(generator.in_pieces(0, vec![close])), real, ours);
}

fn asked_in(round: &Round) -> Vec<&Asked> {
    match round {
        Round::Burst(burst) => burst.asked.iter().collect(),
        Round::Together(bursts) => bursts.iter().flat_map(|burst| &burst.asked).collect(),
        Round::Greet(_) | Round::Drop(_) => Vec::new(),
    }
}

fn greet_anew(slot: usize) -> Round {
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

/// The parents that a seed works below, and a few znodes that are there from the start.
fn set_up(generator: &mut Generator) -> generate::Burst {
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

/// Removes everything, as the super user, and compares what there was.
fn clear(generator: &mut Generator, real: &mut Side, ours: &mut Side) {
    let auth = Request::Auth { scheme: "digest", credentials: b"super:test" };
    let auth = generator.asked(&auth);
    let open = vec![entry(31, "world", "anyone")];
    let both = [real, ours].map(|side| {
        side.call(0, &auth, |_| Ok(())).unwrap();
        let mut found = vec!["/".to_string()];
        let mut index = 0;
        while let Some(path) = found.get(index).cloned() {
            let read = ReadRequest { kind: ReadKind::GetChildren, path: &path, watch: false };
            let asked = generator.asked(&Request::Read(read));
            let mut names = side
                .call(0, &asked, |reader| {
                    Ok(reader.texts()?.into_iter().map(str::to_string).collect::<Vec<String>>())
                })
                .unwrap();
            names.sort_unstable();
            let prefix = path.trim_end_matches('/');
            found.extend(names.iter().map(|name| format!("{prefix}/{name}")));
            index += 1;
        }
        for path in found.iter().rev() {
            let delete = WriteRequest::Delete { path, version: -1 };
            let asked = generator.asked(&Request::Write(delete));
            if side.call(0, &asked, |_| Ok(())).is_err() {
                // One of those that cannot be removed.
                let acl = open.clone();
                let set_acl = WriteRequest::SetAcl { path, acl, version: -1 };
                let asked = generator.asked(&Request::Write(set_acl));
                side.call(0, &asked, |_| Ok(())).unwrap();
            }
        }
        found
    });
    let [expected, got] = both;
    assert_eq!(got, expected, "the trees differ");
}

/// Fails with the first difference, what was asked, and what came before it.
fn assert_same(
    seed: u64,
    index: usize,
    round: &Round,
    shown: &HashMap<i32, String>,
    transcript: &[String],
    expected: &[String],
    got: &[String],
) {
    if expected == got {
        return;
    }
    let same = expected.iter().zip(got).take_while(|(a, b)| a == b).count();
    let explain = |lines: &[String]| match lines.get(same) {
        None => "nothing more".to_string(),
        Some(line) => {
            let xid = line.split("xid=").nth(1).and_then(|text| text.split(' ').next());
            let xid = xid.and_then(|text| text.parse().ok());
            let asked = xid.and_then(|xid: i32| shown.get(&xid)).map_or("", String::as_str);
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
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("differential-{seed}.txt"));
    std::fs::write(&file, transcript.join("\n")).unwrap();
    panic!(
        "seed {seed}, round {index} ({what}) differs; before it:\n{}\n  real: {}\n  ours: {}\n\
         repeat with QUORATE_DIFF_SEED={seed}; what the real server said is in {}",
        before.join("\n"),
        explain(expected),
        explain(got),
        file.display(),
    );
}
