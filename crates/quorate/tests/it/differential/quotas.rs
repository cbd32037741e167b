//! Compares quotas with the real server's: the usage after each write, and the refusals when limits
//! are enforced.
//!
//! Only one request is under way at a time, because the real server judges a write by the usage
//! before all writes that are under way, other operations of its own multi included.

use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest};

use bench::differential::generate::{Asked, Burst, Generator, Round, entry};
use bench::differential::greet_anew;
use bench::differential::side::Side;
use bench::random::Random;

use super::CONFIG;
use crate::server::{RealServer, Server};

const SEEDS: u64 = 6;
const WRITES: usize = 150;

/// The paths that are written, parents first.
const PATHS: [&str; 8] = ["/q", "/q/a", "/q/a/x", "/q/b", "/q/b/y", "/qq", "/r", "/q/a/x/p"];

const HOLDERS: [&str; 3] = ["/zookeeper/quota/q", "/zookeeper/quota/q/a", "/zookeeper/quota/r"];

#[test]
fn usage_of_quotas_is_that_of_the_real_server() {
    check("quotas", &[], 4);
}

#[test]
fn enforced_quotas_refuse_what_the_real_server_refuses() {
    check("enforced-quotas", &["enforceQuota=true"], 1);
}

fn check(name: &str, config: &[&str], multi_max: u64) {
    let config = [&CONFIG, config].concat();
    let real_server = RealServer::start(&format!("{name}-real"), &config);
    let server = Server::start(&format!("{name}-ours"), &config);
    let mut real = Side::new("real", real_server.address());
    let mut ours = Side::new("ours", server.address());
    let mut refused = 0;
    for seed in 1..=SEEDS {
        let (mut generator, mut random) = (Generator::new(seed), Random::new(seed));
        for round in [greet_anew(0), alone(set_up(&mut generator))] {
            assert_eq!(
                real.run(&round).unwrap(),
                ours.run(&round).unwrap(),
                "seed {seed}: setting up"
            );
        }
        for index in 0..WRITES {
            let write = write(&mut generator, &mut random, multi_max);
            let shown = write.shown.clone();
            let mut asked = vec![write];
            for holder in HOLDERS {
                let path = format!("{holder}/zookeeper_stats");
                let read = ReadRequest { kind: ReadKind::GetData, path: &path, watch: false };
                asked.push(generator.asked(&Request::Read(read)));
            }
            let round = alone(asked);
            let (expected, got) = (real.run(&round).unwrap(), ours.run(&round).unwrap());
            assert_eq!(expected, got, "seed {seed}, write {index}: {shown}");
            refused += expected.iter().filter(|line| line.contains("-125")).count();
        }
        let clear = alone(clear(&mut generator));
        real.run(&clear).unwrap();
        ours.run(&clear).unwrap();
        real.run(&Round::Drop(0)).unwrap();
        ours.run(&Round::Drop(0)).unwrap();
    }
    assert_eq!(refused > 0, multi_max == 1, "{refused} writes were refused");
}

/// A burst in which each request is sent after the answer to the previous one.
fn alone(asked: Vec<Asked>) -> Round {
    let asked = asked.into_iter().map(|asked| Asked { alone: true, ..asked }).collect();
    Round::Burst(Burst { slot: 0, asked, pieces: Vec::new() })
}

fn create<'a>(path: &'a str, data: Option<&'a [u8]>, flags: i32) -> WriteRequest<'a> {
    let acl = vec![entry(31, "world", "anyone")];
    WriteRequest::Create { kind: CreateKind::Create, path, data, acl, flags, ttl_ms: -1 }
}

fn set_up(generator: &mut Generator) -> Vec<Asked> {
    let paths = PATHS[..5].iter().chain(&HOLDERS);
    let mut asked = |write| generator.asked(&Request::Write(write));
    paths.map(|path| asked(create(path, Some(b"12345"), 0))).collect()
}

fn clear(generator: &mut Generator) -> Vec<Asked> {
    let kept = HOLDERS.iter().rev().flat_map(|holder| {
        ["/zookeeper_limits", "/zookeeper_stats", ""].map(|name| format!("{holder}{name}"))
    });
    let children = ["/q/b/y", "/q/a/x/p", "/q/a/x", "/q/b", "/q/a", "/q", "/qq", "/r"];
    let paths = kept.chain(children.map(str::to_string));
    let delete = |path: String| {
        generator.asked(&Request::Write(WriteRequest::Delete { path: &path, version: -1 }))
    };
    paths.map(delete).collect()
}

/// A single write or a multi. It does not create sequential names, since no later request would
/// remove them.
fn write(generator: &mut Generator, random: &mut Random, multi_max: u64) -> Asked {
    let count = if random.chance(30) { 1 + random.below(multi_max) } else { 1 };
    let drawn: Vec<Drawn> = (0..count).map(|_| Drawn::new(random)).collect();
    match &drawn[..] {
        [one] if random.chance(80) => generator.asked(&Request::Write(one.request())),
        _ => generator.asked(&Request::Multi(drawn.iter().map(Drawn::request).collect())),
    }
}

struct Drawn {
    path: String,
    data: Option<Vec<u8>>,
    operation: u64,
    flags: i32,
    version: i32,
}

impl Drawn {
    fn new(random: &mut Random) -> Drawn {
        let bytes = random.below(12);
        let mut drawn = Drawn {
            path: random.pick(&PATHS).to_string(),
            data: random.chance(90).then(|| vec![b'x'; bytes as usize]),
            operation: random.below(3),
            flags: i32::from(random.chance(20)),
            version: if random.chance(90) { -1 } else { 0 },
        };
        if random.chance(25) {
            let name = *random.pick(&["zookeeper_limits", "zookeeper_stats"]);
            drawn.path = format!("{}/{name}", random.pick(&HOLDERS));
            drawn.data = Some(limits(random).into_bytes());
            drawn.flags = 0;
        }
        drawn
    }

    fn request(&self) -> WriteRequest<'_> {
        let (path, version) = (self.path.as_str(), self.version);
        match self.operation {
            0 => create(path, self.data.as_deref(), self.flags),
            1 => WriteRequest::Delete { path, version },
            _ => WriteRequest::SetData { path, data: self.data.as_deref(), version },
        }
    }
}

/// Draws limits that some writes exceed.
fn limits(random: &mut Random) -> String {
    let mut number = |bound: u64| random.below(bound) as i64 - 1;
    let (count, bytes, hard_count, hard_bytes) = (number(6), number(40), number(6), number(40));
    let soft = format!("count={count},bytes={bytes}");
    match random.below(5) {
        0 => soft,
        1 => format!("{soft}=;byteHardLimit={hard_bytes};countHardLimit={hard_count}"),
        2 => format!("countHardLimit={hard_count}"),
        3 => format!("byteHardLimit={hard_bytes},count={count}"),
        _ => format!("{soft};other=7"),
    }
}
