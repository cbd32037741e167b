//! Tests of ensembles as text: each line of a script is an action, and the indented lines below it
//! are the expected events. A script's file name says what it shows.
//!
//! ```text
//! members 3             a new ensemble
//! members 3 forgetful   an ensemble that keeps almost no log in memory
//! members 3 changing    an ensemble whose servers can change; `begin` starts further members
//! run 500ms             virtual time passes
//! settle                wait until all running members follow one leader and have one state
//! lend                  wait until a follower is sending a snapshot
//! kill 0 | kill leader  a process ends, and stays down until `start` (also: follower; last;
//!                       lender, a follower that sends a snapshot)
//! start 0               a process starts again
//! cut leader            a member is cut off from the others, until `heal`
//! lag 300ms             each frame between members takes this much longer, until `heal`
//! hang last             no sync of a disk returns, for 30 s
//! heal                  cuts, lags and full disks end
//! pause leader 5s       a process gets no CPU
//! fill leader           a disk is full, until `heal`
//! begin 3               a machine starts for the first time
//! raise                 an operator raises the level, which a change of the servers needs
//! list leader 0 1 3o    an operator asks a member for this list of servers; `o`: an observer
//! stay leader 0 1       the same; removed servers serve on without a vote
//! empty 1               the directory of a member is lost, and its process ends
//! stop 1 20             a member loses power at this operation of its disk, counted from now
//! c1: connect 0         a client connects to a member, with its session if it has one
//! c1: leave             a client closes its connection
//! c1: create /a x       also: set, get, exists, ls, delete, sync, close; `big`: sets much;
//!                       `e` behind the data: ephemeral; `w`: with a watch; several on a line are
//!                       separated by |
//! ```

mod servers;

use std::collections::BTreeMap;
use std::path::PathBuf;

use member::fronts::etcd::MemberChanges;
use replica::LogMemory;
use workload::history::Received;
use workload::op::{Answer, CreateRequest, Op, flag, perms};

use crate::client::{Client, ClientConfig};
use crate::fault::{Disks, Fault, FaultMix, Whom};
use crate::member_changes::ChangeLoad;
use crate::simulation::cluster::Cluster;
use crate::simulation::zk::ZkClients;
use crate::simulation::{LaterOps, Options, Simulation};

/// The folder of the scripts, each a file `NAME.txt`.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/simulation/play/scripts");

/// The name and the text of every script.
fn scripts() -> BTreeMap<String, String> {
    let files = std::fs::read_dir(FOLDER).expect("the folder of the scripts is there");
    let script = |path: PathBuf| {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("a script is text"))
    };
    files.map(|file| script(file.expect("a folder can be listed").path())).collect()
}

const MS: u64 = 1_000;

/// Bytes that `big` writes.
const BIG_BYTES: usize = 100_000;

/// The longest virtual time that `settle` or `lend` may take.
const SETTLE_US_MAX: u64 = 30_000 * MS;

struct Play {
    simulation: Simulation,
    /// How many terms with a leader were written to `out`.
    terms_told: usize,
    received_told: BTreeMap<usize, usize>,
    /// How many fetches of snapshots were written to `out`, by process run.
    fetching_told: BTreeMap<u64, usize>,
    connected: Vec<Option<usize>>,
    sessions: Vec<i64>,
    told: servers::Told,
    out: Vec<String>,
}

impl Play {
    /// Begins an ensemble. `kind` is the last word of its line.
    fn new(member_count: usize, kind: Option<&str>) -> Play {
        let mut options = Options::draw_ensemble(1, member_count);
        options.begins_unborn = false;
        options.faults = FaultMix::none();
        options.more_seed = None;
        options.later_ops = LaterOps::default();
        options.builds = None;
        options.etcd = None;
        options.member.options.spaces.zk.tick_ms = 2_000;
        options.member.options.order.log_memory = match kind == Some("forgetful") {
            true => LogMemory { bytes_max: 0, away_bytes_max: 0, ..LogMemory::default() },
            false => LogMemory::default(),
        };
        options.changes = (kind == Some("changing")).then(|| ChangeLoad {
            seed: 1,
            rules: MemberChanges { is_strict: false, learners_max: 1 },
            operators: Vec::new(),
            ends_after: None,
            reconfigs: None,
        });
        let client = ClientConfig {
            ops: 0,
            pipeline_max: 10,
            large_one_in: 1,
            timeout_ms: 6_000,
            think_us_max: 1,
            is_erratic: false,
        };
        options.clients = vec![client; 3];
        let mut simulation = Simulation::new(options);
        let told = servers::Told::of(&simulation.cluster);
        let Cluster { zk, world, hosts, .. } = &mut simulation.cluster;
        zk.change_all(world, Client::obey);
        // Only `begin` starts a further member.
        hosts.iter_mut().for_each(|host| host.place.is_planned = true);
        let connected = vec![None; 3];
        Play {
            simulation,
            terms_told: 0,
            received_told: BTreeMap::new(),
            fetching_told: BTreeMap::new(),
            connected,
            sessions: Vec::new(),
            told,
            out: Vec::new(),
        }
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["run", span] => self.run(us(span)),
            ["settle"] => self.settle(),
            ["lend"] => self.run_until("a lender is chosen", |it| {
                !it.simulation.cluster.hosts.lenders().is_empty()
            }),
            ["kill", who] => {
                let member = self.member(who);
                self.simulation.cluster.hosts[member].is_left_down = true;
                self.simulation.begin_fault(Whom::one(member), Fault::Kill);
            }
            ["start", who] => {
                let member = self.member(who);
                self.simulation.cluster.hosts[member].is_left_down = false;
                self.simulation.cluster.start(member, false).unwrap();
            }
            ["cut", who] => {
                let member = self.member(who);
                let cut = Fault::Partition { is_one_way: false, for_us: u64::MAX / 2 };
                self.simulation.begin_fault(Whom::one(member), cut);
            }
            ["lag", span] => {
                let (latency_us, for_us) = (us(span), u64::MAX / 2);
                let slow = Fault::SlowLinks { one_in: 1, bytes_per_s: 1 << 30, latency_us, for_us };
                self.simulation.begin_fault(Whom::Members(u32::MAX), slow);
            }
            ["hang", who] => {
                let whom = Whom::one(self.member(who));
                let for_us = 30_000 * MS;
                self.simulation
                    .begin_fault(whom, Fault::HangingDisk { disks: Disks::Both, for_us });
            }
            ["heal"] => {
                let Simulation { faults, cluster, .. } = &mut self.simulation;
                faults.relieve_all(cluster);
            }
            ["fill", who] => {
                let full = Fault::DiskFull { bytes: 0, for_us: u64::MAX / 2 };
                let whom = Whom::one(self.member(who));
                self.simulation.begin_fault(whom, full);
            }
            ["pause", who, span] => {
                let whom = Whom::one(self.member(who));
                self.simulation.begin_fault(whom, Fault::Pause { for_us: us(span) });
            }
            _ if self.servers_line(&words) => {}
            [client, ref rest @ ..] => {
                let number = client.strip_prefix('c').and_then(|it| it.strip_suffix(':'));
                let number: usize = number.expect(line).parse().expect(line);
                self.client(number - 1, &rest.join(" "));
            }
            [] => unreachable!("a line has a word"),
        }
    }

    /// Finds a member by its number, or by its current role.
    fn member(&self, who: &str) -> usize {
        let leader = self.simulation.cluster.hosts.leaders().last().copied();
        match who {
            "leader" => leader.expect("a leader is known"),
            "last" => self.simulation.cluster.hosts.len() - 1,
            "lender" => {
                *self.simulation.cluster.hosts.lenders().first().expect("a lender is chosen")
            }
            "follower" => (0..self.simulation.cluster.hosts.len())
                .find(|member| Some(*member) != leader)
                .expect("there are several"),
            number => number.parse().expect("a number is valid here"),
        }
    }

    fn client(&mut self, client: usize, what: &str) {
        let Cluster { zk, world, .. } = &mut self.simulation.cluster;
        let ZkClients { clients, network, history } = zk;
        if what == "leave" {
            clients[client].dial(0, world, network);
            clients[client].obey();
        } else if let Some(who) = what.strip_prefix("connect ") {
            let member = self.member(who);
            let Cluster { zk, world, .. } = &mut self.simulation.cluster;
            zk.clients[client].dial(member, world, &mut zk.network);
        } else {
            for text in what.split(" | ") {
                clients[client].do_op(op(text), world, network, history);
            }
        }
        let Cluster { zk, world, .. } = &mut self.simulation.cluster;
        zk.wake(client, world);
    }

    fn run(&mut self, for_us: u64) {
        let until_us = self.simulation.cluster.world.now_us + for_us;
        while self.simulation.cluster.world.next_us().is_some_and(|at_us| at_us <= until_us) {
            self.step();
        }
        self.simulation.cluster.world.now_us = until_us;
    }

    fn step(&mut self) {
        let event =
            self.simulation.cluster.world.next_event().expect("a list of choices is never empty");
        self.simulation.on_event(event).unwrap();
        self.simulation.note_trouble();
        self.tell();
    }

    fn settle(&mut self) {
        self.run_until("it settles", Play::has_settled);
    }

    fn run_until(&mut self, what: &str, is_so: fn(&Play) -> bool) {
        let until_us = self.simulation.cluster.world.now_us + SETTLE_US_MAX;
        while !is_so(self) {
            let is_late = self.simulation.cluster.world.now_us >= until_us;
            assert!(!is_late, "it takes too long until {what}: {:?}", self.out);
            self.step();
        }
    }

    fn has_settled(&self) -> bool {
        let clients = &self.simulation.cluster.zk.clients;
        let is_quiet = clients.iter().all(Client::is_waiting_for_nothing);
        is_quiet
            && self.simulation.cluster.hosts.leaders().len() == 1
            && self.simulation.cluster.hosts.do_agree()
    }

    /// Writes what happened since the last call to `out`.
    fn tell(&mut self) {
        let led = self.simulation.cluster.witness.leaders();
        for (term, member) in led.skip(self.terms_told) {
            self.terms_told += 1;
            self.out.push(format!("member {member} leads in term {term}"));
        }
        self.tell_servers();
        self.tell_fetching();
        let history = &self.simulation.cluster.zk.history;
        for (number, connection) in history.connections.iter().enumerate() {
            let told = self.received_told.entry(number).or_default();
            for received in &connection.received[*told..] {
                *told += 1;
                let who = connection.client + 1;
                let what = match received {
                    Received::Connected { session, timeout_ms, .. } => {
                        let at = self.sessions.iter().position(|known| known == session);
                        let at = at.unwrap_or_else(|| {
                            self.sessions.push(*session);
                            self.sessions.len() - 1
                        });
                        let name = char::from(b'A' + at as u8);
                        format!("connected as {name} for {timeout_ms}")
                    }
                    Received::ConnectedReadOnly { .. } => "connected for reads".to_string(),
                    Received::Refused => "refused: its session is gone".to_string(),
                    Received::Event { zxid, kind, path } => {
                        format!("event {kind:?} {path} @{zxid}")
                    }
                    Received::Reply(op) => match &history.ops[*op] {
                        record if record.op == Op::Ping => continue,
                        record => {
                            let completed = record.completed.as_ref().expect("it was received");
                            let answer = match completed.error {
                                0 => shown(&completed.answer),
                                error => format!("error {error}"),
                            };
                            format!("{} -> {answer} @{}", asked(&record.op), completed.zxid)
                        }
                    },
                };
                self.out.push(format!("c{who}: {what}"));
            }
        }
        for (client, connected) in self.connected.iter_mut().enumerate() {
            let now = self.simulation.cluster.zk.clients[client].connection();
            if connected.is_some() && now.is_none() {
                self.out.push(format!("c{}: disconnected", client + 1));
            }
            *connected = now;
        }
    }
}

impl Play {
    /// Writes to `out` which members begin to fetch a snapshot, and from which member.
    fn tell_fetching(&mut self) {
        let hosts = &self.simulation.cluster.hosts;
        let leaders = self.simulation.cluster.hosts.leaders();
        let servers = hosts.iter().map(|host| host.server.as_ref());
        for (member, server) in servers.enumerate() {
            let Some(server) = server else { continue };
            let told = self.fetching_told.entry(server.life()).or_default();
            for fetching in &server.fetching()[*told..] {
                *told += 1;
                let holder = hosts.position(fetching.holder);
                let who = match holder.filter(|holder| leaders.contains(holder)) {
                    Some(_) => "the leader, member",
                    None => "member",
                };
                let holder = holder.map_or("that is gone".to_string(), |it| it.to_string());
                self.out.push(format!("member {member} fetches a snapshot from {who} {holder}"));
            }
        }
    }
}

fn us(span: &str) -> u64 {
    match span.strip_suffix("ms") {
        Some(ms) => ms.parse::<u64>().expect("a number is valid here") * MS,
        None => {
            span.strip_suffix('s')
                .expect("a span is valid")
                .parse::<u64>()
                .expect("a number is valid here")
                * 1_000
                * MS
        }
    }
}

fn op(text: &str) -> Op {
    let words: Vec<&str> = text.split(' ').collect();
    let path = words.get(1).unwrap_or(&"/").to_string();
    let watch = words.last() == Some(&"w");
    let data = words.get(2).map(|data| data.as_bytes().to_vec());
    match words[0] {
        "create" => {
            let is_ephemeral = words.get(3) == Some(&"e");
            let flag = if is_ephemeral { flag::EPHEMERAL } else { flag::PERSISTENT };
            Op::Create { path, data, perms: perms::ALL, flag, request: CreateRequest::Create }
        }
        "set" => Op::SetData { path, data, version: -1 },
        "big" => Op::SetData { path, data: Some(vec![b'x'; BIG_BYTES]), version: -1 },
        "delete" => Op::Delete { path, version: -1 },
        "get" => Op::GetData { path, watch },
        "exists" => Op::Exists { path, watch },
        "ls" => Op::GetChildren { path, watch, with_stat: false },
        "sync" => Op::Sync { path },
        "close" => Op::CloseSession,
        other => panic!("{other} is no operation"),
    }
}

fn asked(op: &Op) -> String {
    match op {
        Op::Create { path, .. } => format!("create {path}"),
        Op::SetData { path, .. } => format!("set {path}"),
        Op::Delete { path, .. } => format!("delete {path}"),
        Op::GetData { path, .. } => format!("get {path}"),
        Op::Exists { path, .. } => format!("exists {path}"),
        Op::GetChildren { path, .. } => format!("ls {path}"),
        Op::Sync { .. } => "sync".to_string(),
        Op::SetWatches { .. } => "set watches again".to_string(),
        Op::CloseSession => "close".to_string(),
        op => format!("{op:?}"),
    }
}

fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Empty => "done".to_string(),
        Answer::Path(path) => path.clone(),
        Answer::Stat(stat) => format!("v{}", stat.version),
        Answer::Data(data, stat) => {
            let data = String::from_utf8_lossy(data.as_deref().unwrap_or_default());
            format!("{data} v{}", stat.version)
        }
        Answer::Children(names) => format!("{names:?}"),
        answer => format!("{answer:?}"),
    }
}

/// Plays the lines of a script that are not indented, and writes the actual events below each.
fn replay(script: &str) -> String {
    let mut play = None;
    let mut out = String::new();
    for line in script.lines().filter(|line| !line.starts_with("  ")) {
        out += &format!("{line}\n");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(rest) = line.strip_prefix("members ") {
            let (count, kind) = match rest.split_once(' ') {
                Some((count, kind)) => (count, Some(kind)),
                None => (rest, None),
            };
            play = Some(Play::new(count.parse().expect("a number is valid here"), kind));
            continue;
        }
        let play = play.as_mut().expect("a script begins with its members");
        play.line(line);
        play.tell();
        for told in play.out.drain(..) {
            out += &format!("  {told}\n");
        }
    }
    out
}

#[test]
fn scripts_give_their_output() {
    let scripts = scripts();
    assert!(!scripts.is_empty(), "{FOLDER} holds no script");
    let mut wrong = String::new();
    for (name, script) in scripts {
        let played = std::panic::catch_unwind(|| replay(&script));
        let played = played.unwrap_or_else(|_| format!("{script}PANICS\n"));
        if played != script {
            wrong += &format!("=== {name}\n{played}");
        }
    }
    assert!(wrong.is_empty(), "these scripts play differently:\n{wrong}=== end");
}
