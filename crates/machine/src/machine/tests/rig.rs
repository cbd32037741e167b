//! Tools for the tests of this crate: commands written as text, answers and whole states as text, a
//! seeded generator of commands, and checks of a machine's invariants.
//!
//! A script is a list of commands separated by `; `. A command may start with `@C` (the connection
//! that sends it; by default the owner of the session), `#S` (the session; by default 1) and
//! `~scheme|id,...` (the identities; by default none).

use core::fmt::Write as _;

use std::collections::BTreeMap;

use super::super::*;
use crate::zk::acl::perms;
use crate::zk::command::{AskedAcl, CreateMode, Op};
use crate::zk::tree::{ROOT, ZnodeId};
use crate::{
    AclEntry, BootId, ConnectionId, ControlChange, ControlCommand, Identity, Level, MemberId,
    Refusal, ServerList, ServerRecord, ServerRole, SessionId, Settings, ZkAddresses, ZkChange,
    ZkCommand, ZkOutcome,
};

/// A seeded random generator (splitmix64): equal seeds give equal tests.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A command, with the connection and the identities that send it.
#[derive(Clone, Debug)]
pub(crate) struct Sent<'a> {
    pub(crate) connection: u64,
    pub(crate) identities: Vec<Identity<'a>>,
    pub(crate) command: Command<'a>,
}

/// A machine with session 1, which connection 1 owns, and the changes that it has made.
pub(crate) struct Rig {
    pub(crate) machine: Machine,
    pub(crate) changes: Changes,
}

pub(crate) const ORIGIN: Origin = Origin { member: MemberId(7), boot: BootId(3) };

impl Default for Rig {
    fn default() -> Self {
        let mut rig = Rig { machine: Machine::default(), changes: Changes::default() };
        assert_eq!(rig.run("open"), "opened");
        rig.changes = Changes::default();
        rig
    }
}

impl Rig {
    /// Applies a command at time 1000 * its ordinal, in ms.
    pub(crate) fn apply(&mut self, sent: &Sent<'_>) -> Reply {
        let reply = Rig::step(&mut self.machine, sent, u64::MAX, &mut self.changes);
        reply.expect("a step without a bound is whole")
    }

    /// Applies one step of a command at time 1000 * its ordinal, in ms.
    pub(crate) fn step(
        machine: &mut Machine,
        sent: &Sent<'_>,
        keys_max: u64,
        changes: &mut Changes,
    ) -> Option<Reply> {
        let stamp = Stamp {
            time_ms: 1000 * (machine.ordinal.0 as i64 + 1),
            origin: ORIGIN,
            connection: ConnectionId(sent.connection),
            identities: &sent.identities,
        };
        machine.apply_step(&stamp, &sent.command, ApplyStep { keys_max, is_taken: true }, changes)
    }

    /// Applies a script. Returns the answer to its last command.
    pub(crate) fn run(&mut self, script: &str) -> String {
        let mut answer = String::new();
        for line in script.split("; ") {
            let reply = self.apply(&parse(line));
            answer = answer_text(&reply.outcome);
        }
        answer
    }

    /// The stat of a znode.
    pub(crate) fn stat(&self, path: &str) -> crate::zk::stat::Stat {
        self.machine.zk.tree.find(path).expect("the test made the znode").stat()
    }

    /// Removes the changes so far, and returns them as text.
    pub(crate) fn take_changes(&mut self) -> String {
        let changes = core::mem::take(&mut self.changes);
        let control = changes.control.iter().map(control_text);
        let etcd = changes.etcd.iter().map(|change| format!("{change:?}"));
        let zk = changes.zk.iter().map(change_text);
        let texts: Vec<String> = control.chain(etcd).chain(zk).collect();
        texts.join("; ")
    }
}

fn control_text(change: &ControlChange) -> String {
    match change {
        ControlChange::Servers(servers) => {
            format!("servers {:?} {:?}", servers.list().servers.keys(), servers.members())
        }
        ControlChange::Raised(level) => format!("raised to {}", level.level),
        ControlChange::Replaced { mark, by } => format!("{}: replaced by {by:?}", mark.zxid.0),
        ControlChange::ListChangeEnded { id, result } => {
            format!("change {} ends: {result:?}", id.0)
        }
    }
}

fn change_text((made, path): (&crate::zk::change::Made, &str)) -> String {
    let acls = |own: &Option<crate::Acl>, parent: &Option<crate::Acl>| {
        let part = |name: &str, acl: &Option<crate::Acl>| match acl {
            None => String::new(),
            Some(acl) => format!(" {name} {}", acl_text(acl)),
        };
        part("own", own) + &part("parent", parent)
    };
    let what = match &made.change {
        ZkChange::Created { acl, parent_acl } => {
            format!("created {path}{}", acls(acl, parent_acl))
        }
        ZkChange::Deleted { acl, parent_acl } => {
            format!("deleted {path}{}", acls(acl, parent_acl))
        }
        ZkChange::DataSet { acl } => format!("data {path}{}", acls(acl, &None)),
        ZkChange::SessionClosed { session } => format!("closed {}", session.0),
        ZkChange::SessionAttached { session, owner, timeout_ms } => {
            format!("session {} to {} for {timeout_ms}", session.0, owner.connection.0)
        }
        ZkChange::Configured(_) => "configured".to_string(),
    };
    format!("{}: {what}", made.mark.zxid.0)
}

/// An outcome or refusal as a short text.
pub(crate) fn answer_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Control(ControlOutcome::Done) => "done".to_string(),
        Outcome::Control(requested) => format!("{requested:?}"),
        Outcome::Etcd(outcome) => format!("{outcome:?}"),
        Outcome::EtcdV2(outcome) => format!("{outcome:?}"),
        Outcome::Zk(Ok(outcome)) => outcome_text(outcome),
        Outcome::Zk(Err(Refusal::Multi { position, count, refusal })) => {
            format!("{refusal:?} at {position} of {count}")
        }
        Outcome::Zk(Err(refusal)) => format!("{refusal:?}"),
    }
}

fn outcome_text(outcome: &ZkOutcome) -> String {
    match outcome {
        ZkOutcome::Opened => "opened".to_string(),
        ZkOutcome::Attached => "attached".to_string(),
        ZkOutcome::Closed => "closed".to_string(),
        ZkOutcome::Expired(count) => format!("expired {count}"),
        ZkOutcome::ContainersDeleted(count) => format!("deleted {count}"),
        ZkOutcome::Configured => "configured".to_string(),
        ZkOutcome::Created { path, .. } => format!("created {path}"),
        ZkOutcome::Deleted => "deleted".to_string(),
        ZkOutcome::DataSet(stat) => format!("set {}", stat.version),
        ZkOutcome::AclSet(stat) => format!("acl {}", stat.aversion),
        ZkOutcome::Checked => "checked".to_string(),
        ZkOutcome::Multi(outcomes) => {
            let texts: Vec<String> = outcomes.iter().map(outcome_text).collect();
            format!("[{}]", texts.join(", "))
        }
    }
}

pub(crate) fn parse<'a>(line: &'a str) -> Sent<'a> {
    let mut session = SessionId(1);
    let mut connection = None;
    let mut identities = Vec::new();
    let mut rest = line;
    loop {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        match word.as_bytes()[0] {
            b'@' => connection = Some(word[1..].parse().unwrap()),
            b'#' => session = SessionId(word[1..].parse().unwrap()),
            b'~' => {
                let identity = |text: &'a str| {
                    let (scheme, id) = text.split_once('|').unwrap();
                    Identity { scheme, id }
                };
                identities = word[1..].split(',').map(identity).collect();
            }
            _ => break,
        }
        rest = after;
    }
    let command = parse_command(session, rest);
    Sent { connection: connection.unwrap_or(session.0 as u64), identities, command }
}

pub(crate) fn parse_command(session: SessionId, text: &str) -> Command<'_> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let password = |text: &str| [text.parse().unwrap_or(0); 16];
    match verb {
        "open" => Command::Zk(ZkCommand::OpenSession {
            session,
            password: password(rest),
            timeout_ms: 4000,
        }),
        "attach" => {
            Command::Zk(ZkCommand::Attach { session, password: password(rest), timeout_ms: 9000 })
        }
        "close" => Command::Zk(ZkCommand::CloseSession { session }),
        "expire" => Command::Zk(ZkCommand::ExpireSessions {
            sessions: rest
                .split(' ')
                .map(|judged| {
                    let (session, attached) = judged.split_once('@').unwrap();
                    (SessionId(session.parse().unwrap()), Ordinal(attached.parse().unwrap()))
                })
                .collect(),
        }),
        "sweep" => {
            let (never_used, paths) = rest.split_once(' ').unwrap();
            let (paths, never_used_ms_max) =
                (paths.split(' ').collect(), never_used.parse().unwrap());
            Command::Zk(ZkCommand::DeleteContainers { paths, never_used_ms_max })
        }
        "configure" => Command::Zk(ZkCommand::Configure(Settings {
            skip_acl: rest.contains("skip_acl"),
            extended_types: rest.contains("extended"),
            digest_enabled: !rest.contains("no_digest"),
            enforce_quota: rest.contains("enforce_quota"),
            ..Settings::default()
        })),
        "nothing" => Command::Control(ControlCommand::Nothing),
        "raise" => {
            let level = Level::from_number(rest.parse().unwrap()).unwrap();
            Command::Control(ControlCommand::Raise(level.into()))
        }
        "servers" => Command::Control(ControlCommand::SetServers(parse_servers(rest))),
        "multi" if rest.is_empty() => Command::Zk(ZkCommand::Multi { session, ops: Vec::new() }),
        "multi" => Command::Zk(ZkCommand::Multi {
            session,
            ops: rest.split(" + ").map(parse_op).collect(),
        }),
        _ => Command::Zk(ZkCommand::Write { session, op: parse_op(text) }),
    }
}

/// Parses `VERSION [NUMBER=HOST:PORT:PORT[:observer]]...`.
pub(crate) fn parse_servers(text: &str) -> ServerList {
    let mut words = text.split(' ');
    let version = words.next().unwrap().parse().unwrap();
    let servers = words.map(|word| {
        let (number, place) = word.split_once('=').unwrap();
        let (servers, role) = match place.strip_suffix(":observer") {
            Some(servers) => (servers, ServerRole::Observer),
            None => (place, ServerRole::Voter),
        };
        let zk = Some(ZkAddresses { servers: servers.to_string(), clients: None });
        let (peer_urls, client_urls) = (vec![format!("http://{servers}")], Vec::new());
        let server = ServerRecord { name: String::new(), role, peer_urls, client_urls, zk };
        (number.parse().unwrap(), server)
    });
    ServerList { version, servers: servers.collect() }
}

/// Parses `VERB PATH [DATA] [word=value | vN | bad]...`, where `''` means the empty text.
pub(crate) fn parse_op(text: &str) -> Op<'_> {
    let mut words = text.split(' ').map(|word| if word == "''" { "" } else { word });
    let verb = words.next().unwrap();
    if verb == "malformed" {
        return Op::Malformed;
    }
    let path = words.next().unwrap();
    let mut version = -1;
    let mut malformed = false;
    let mut mode = CreateMode::Persistent;
    let mut ttl_ms = -1;
    let mut acl = AskedAcl::Open;
    let mut data: Option<&[u8]> = Some(b"");
    for word in words {
        match word.split_once('=') {
            Some(("mode", value)) => mode = CreateMode::decode(value.parse().unwrap()).unwrap(),
            Some(("ttl", value)) => ttl_ms = value.parse().unwrap(),
            Some(("acl", value)) => acl = parse_acl(value),
            _ if word == "bad" => malformed = true,
            _ if word == "null" => data = None,
            _ => match word.strip_prefix('v').and_then(|number| number.parse().ok()) {
                Some(number) => version = number,
                None => data = Some(word.as_bytes()),
            },
        }
    }
    match verb {
        "create" => Op::Create { path, malformed, data, acl, mode, ttl_ms },
        "delete" => Op::Delete { path, version },
        "set" => Op::SetData { path, malformed, data, version },
        "acl" => Op::SetAcl { path, malformed, acl, version },
        "check" => Op::Check { path, malformed, version },
        _ => unreachable!("no such verb: {verb}"),
    }
}

/// Parses `scheme:id=rwcda,...`, or `none`.
pub(crate) fn parse_acl(text: &str) -> AskedAcl {
    if text == "none" {
        return AskedAcl::Entries(Vec::new());
    }
    AskedAcl::Entries(text.split(',').map(parse_acl_entry).collect())
}

pub(crate) fn parse_acl_entry(text: &str) -> AclEntry {
    let (who, what) = text.rsplit_once('=').unwrap();
    let (scheme, id) = who.split_once(':').unwrap();
    let bit = |letter| match letter {
        'r' => perms::READ,
        'w' => perms::WRITE,
        'c' => perms::CREATE,
        'd' => perms::DELETE,
        'a' => perms::ADMIN,
        _ => unreachable!("no such permission: {letter}"),
    };
    let perms = what.chars().fold(0, |bits, letter| bits | bit(letter));
    AclEntry { perms, scheme: scheme.into(), id: id.into() }
}

/// An ACL as the text that [`parse_acl`] reads.
pub(crate) fn acl_text(acl: &[AclEntry]) -> String {
    let entry = |entry: &AclEntry| {
        let letters: String = "rwcda"
            .chars()
            .enumerate()
            .filter(|(bit, _)| entry.perms & (1 << bit) != 0)
            .map(|(_, letter)| letter)
            .collect();
        format!("{}:{}={letters}", entry.scheme, entry.id)
    };
    acl.iter().map(entry).collect::<Vec<_>>().join(",")
}

/// The whole replicated state as text: equal for two machines in equal states.
pub(crate) fn dump(machine: &Machine) -> String {
    let mut text = String::new();
    let mark = machine.mark();
    writeln!(text, "ordinal {} zxid {}", mark.ordinal.0, mark.zxid.0).unwrap();
    writeln!(text, "{:?}\n{:?}", machine.zk.settings, machine.control).unwrap();
    let mut sessions: Vec<_> = machine.zk.sessions.iter().collect();
    sessions.sort_by_key(|(id, _)| *id);
    for (id, session) in sessions {
        let paths = machine.zk.ephemeral_paths(id);
        writeln!(
            text,
            "session {} {} {:?} {:?} {:?} {paths:?}",
            id.0, session.timeout_ms, session.password, session.owner, session.attached
        )
        .unwrap();
    }
    for (path, id) in walk(machine) {
        let znode = machine.zk.tree.znode(id);
        writeln!(
            text,
            "{path} {:?} {:x} {} {} {:?}",
            znode.data(),
            znode.owner(),
            znode.sequence(),
            acl_text(znode.acl()),
            znode.stat()
        )
        .unwrap();
    }
    for (acl, count) in machine.zk.tree.acl_usage() {
        writeln!(text, "acl {} of {count} znodes", acl_text(&acl)).unwrap();
    }
    text
}

/// The ids of all znodes, by path.
fn walk(machine: &Machine) -> BTreeMap<String, ZnodeId> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![ROOT];
    while let Some(id) = waiting.pop() {
        found.insert(machine.zk.tree.path(id), id);
        waiting.extend(machine.zk.tree.znode(id).children().map(crate::zk::tree::Znode::id));
    }
    found
}

/// Checks the invariants that hold after every command.
pub(crate) fn check_invariants(machine: &mut Machine) {
    let (digest, data_bytes) = (machine.zk.tree.digest(), machine.zk.tree.data_bytes());
    machine.zk.tree.recount();
    assert_eq!(machine.zk.tree.digest(), digest, "the running digest is the recounted one");
    assert_eq!(machine.zk.tree.data_bytes(), data_bytes);
    machine.zk.tree.check_sides();
    let znodes = walk(machine);
    assert_eq!(znodes.len(), machine.zk.tree.znode_count() as usize);
    let mut ephemeral_count = 0;
    for (path, &id) in &znodes {
        let znode = machine.zk.tree.znode(id);
        assert_eq!(machine.zk.tree.find(path).map(crate::zk::tree::Znode::id), Some(id));
        assert_eq!(znode.child_names().count(), znode.child_count() as usize);
        let name_bytes: usize = znode.child_names().map(str::len).sum();
        assert_eq!(name_bytes as u64, znode.child_name_bytes());
        let owner = SessionId(znode.stat().ephemeral_owner);
        if owner.0 != 0 {
            ephemeral_count += 1;
            let session = machine.zk.sessions.get(owner).expect("the owner lives");
            assert!(session.ephemerals.contains(&id), "{path} is known to its session");
        }
    }
    assert_eq!(machine.zk.sessions.ephemeral_count(), ephemeral_count);
    let used: u64 = machine.zk.tree.acl_usage().iter().map(|(_, count)| count).sum();
    assert_eq!(used, znodes.len() as u64 + 1, "each znode uses one ACL; the open one is held");
}

const PATHS: [&str; 17] = [
    "/a",
    "/b",
    "/c",
    "/a/a",
    "/a/b",
    "/b/a",
    "/b/c",
    "/a/a/a",
    "/a/a/b",
    "/a/s0000000000",
    "/a/s0000000001",
    "/a/s0000000002",
    "/a/s",
    "/b/s",
    "/zookeeper",
    "/zookeeper/quota/q",
    "/",
];
const ACLS: [&str; 7] = [
    "world:anyone=r",
    "world:anyone=rcd",
    "digest:u:x=rwcda",
    "digest:u:x=rwcda,world:anyone=rwcda",
    "auth:=rwcda",
    "none",
    "nonsense:x=r",
];
const IDENTITIES: [&[Identity<'static>]; 4] = [
    &[],
    &[Identity { scheme: "ip", id: "10.0.0.1" }, Identity { scheme: "digest", id: "u:x" }],
    &[Identity { scheme: "digest", id: "v:y" }],
    &[Identity { scheme: "super", id: "" }],
];
const SESSIONS: [i64; 3] = [1, 2, 3];

pub(crate) fn random_op(random: &mut Random) -> Op<'static> {
    let path = random.pick(&PATHS);
    let data: Option<&[u8]> = random.pick(&[None, Some(b"".as_slice()), Some(b"some data")]);
    let version = random.pick(&[-1, -1, -1, -1, 0, 1, 2]);
    let malformed = random.percent(2);
    let mut acl = AskedAcl::Open;
    if random.percent(25) {
        acl = parse_acl(random.pick(&ACLS));
    }
    match random.below(100) {
        0..50 => {
            let number = random.pick(&[0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7]);
            let mode = CreateMode::decode(number).unwrap();
            let ttl_ms = if mode.is_ttl() { random.pick(&[1, 5000, 0, -1]) } else { -1 };
            Op::Create { path, malformed, data, acl, mode, ttl_ms }
        }
        50..75 => Op::Delete { path, version },
        75..88 => Op::SetData { path, malformed, data, version },
        88..93 => Op::SetAcl { path, malformed, acl, version },
        93..99 => Op::Check { path, malformed, version },
        _ => Op::Malformed,
    }
}

/// A multi of a few operations. In most multis, some operation is refused.
pub(crate) fn random_multi(random: &mut Random, session: SessionId) -> Command<'static> {
    let count = random.below(8);
    Command::Zk(ZkCommand::Multi { session, ops: (0..count).map(|_| random_op(random)).collect() })
}

/// A random command that often succeeds in the machine's present state.
pub(crate) fn random_sent(random: &mut Random, machine: &Machine) -> Sent<'static> {
    let session = SessionId(random.pick(&SESSIONS));
    let found = machine.zk.sessions.get(session);
    let attached = found.map_or(Ordinal(0), |found| found.attached);
    let mut connection = found.map_or(0, |found| found.owner.connection.0);
    if random.percent(2) {
        connection += 1;
    }
    let password = [session.0 as u8; 16];
    let timeout_ms = 4000;
    let command = match random.below(102) {
        100 => parse_command(session, "nothing"),
        101 => parse_command(session, random.pick(&["raise 1", "raise 2", "servers 0"])),
        _ if found.is_none() && random.percent(60) => {
            connection = random.next() % 1000;
            Command::Zk(ZkCommand::OpenSession { session, password, timeout_ms })
        }
        0..60 => Command::Zk(ZkCommand::Write { session, op: random_op(random) }),
        60..90 => random_multi(random, session),
        90..94 => {
            connection = random.next() % 1000;
            let password = if random.percent(20) { [99; 16] } else { password };
            Command::Zk(ZkCommand::Attach { session, password, timeout_ms: 9000 })
        }
        94 => Command::Zk(ZkCommand::CloseSession { session }),
        95 => Command::Zk(ZkCommand::DeleteContainers {
            paths: PATHS[..random.below(17)].to_vec(),
            never_used_ms_max: random.pick(&[0, 3_000]),
        }),
        96..98 => {
            let judged = if random.percent(30) { Ordinal(attached.0 + 1) } else { attached };
            Command::Zk(ZkCommand::ExpireSessions {
                sessions: vec![(session, judged), (SessionId(1), judged)],
            })
        }
        98 => Command::Zk(ZkCommand::OpenSession { session, password, timeout_ms }),
        _ => Command::Zk(ZkCommand::Configure(Settings {
            skip_acl: random.percent(30),
            extended_types: random.percent(50),
            digest_enabled: random.percent(80),
            ..Settings::default()
        })),
    };
    Sent { connection, identities: random.pick(&IDENTITIES).to_vec(), command }
}
