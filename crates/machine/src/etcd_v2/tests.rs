//! A store that takes requests and gives answers as text, and a comparison with the answers of the
//! real etcd 3.4.23 to the same requests.

mod in_machine;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::auth::{AuthCommand, Patterns, PutRole, PutUser, Who};
use super::change::{Changes, DeadlineChange};
use super::command::{Command, Compare, Judged, Write};
use super::event::{Event, NodeState};
use super::key::Key;
use super::reply::{Outcome, Reason, Refusal};
use super::restore::{RecordDecoder, Records, StoreRestore};
use super::store::{FIRST_INDEX, Store};
use super::tree::{Node, Tree};
use crate::codec::Reader;
use crate::image::error::RestoreError;
use crate::image::step::WalkStep;

/// A store, and the changes that it has published.
#[derive(Default)]
pub(crate) struct Rig {
    pub store: Store,
    pub changes: Changes,
    pub time_ms: i64,
    /// The times to live that follow from the published changes: key and seconds, by the index of
    /// the write.
    pub deadlines: BTreeMap<u64, (Arc<str>, u64)>,
}

/// The parameters of a request, written as `name=value&name=value`.
struct Parameters<'a>(&'a str);

impl<'a> Parameters<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    fn is(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name).filter(|text| !text.is_empty()).map(|text| text.parse().unwrap())
    }
}

/// The command that etcd makes from a request (`etcdserver.applierV2store`).
fn command<'a>(method: &str, key: &'a str, parameters: &'a str) -> Command<'a> {
    let parameters = Parameters(parameters);
    let key = Key::new(key).unwrap();
    let value = parameters.get("value").unwrap_or_default().as_bytes();
    let write = Write { key, value, ttl_s: parameters.number("ttl") };
    let prev_value = parameters.get("prevValue").unwrap_or_default().as_bytes();
    let compare =
        Compare { value: prev_value, index: parameters.number("prevIndex").unwrap_or_default() };
    let compares = compare != Compare { value: &[], index: 0 };
    let (is_dir, is_refresh) = (parameters.is("dir"), parameters.is("refresh"));
    match (method, parameters.get("prevExist")) {
        ("POST", _) => Command::Create { write, is_dir, is_in_order: true },
        ("PUT", Some("false")) => Command::Create { write, is_dir, is_in_order: false },
        ("PUT", _) if compares => Command::CompareAndSwap { write, compare, is_refresh },
        ("PUT", Some(_)) => Command::Update { write, is_refresh },
        ("PUT", None) => Command::Set { write, is_dir, is_refresh },
        ("DELETE", _) if compares => Command::CompareAndDelete { key, compare },
        ("DELETE", _) => Command::Delete { key, is_dir, is_recursive: parameters.is("recursive") },
        _ => panic!("{method}"),
    }
}

impl Rig {
    /// Runs a request. Returns the answer as text.
    pub fn run(&mut self, method: &str, key: &str, parameters: &str) -> String {
        match method {
            "GET" => self.get(key, Parameters(parameters).is("recursive")),
            "EXPIRE" => self.expire(&[(key, self.since(key))]),
            _ => self.apply(&command(method, key, parameters)),
        }
    }

    pub fn apply(&mut self, command: &Command<'_>) -> String {
        let begin = self.changes.deadlines().len();
        let outcome = self.store.apply((Who::Member, self.time_ms), command, &mut self.changes);
        for change in &self.changes.deadlines()[begin..] {
            match change {
                DeadlineChange::Began { key, since, ttl_s } => {
                    let began = self.deadlines.insert(*since, (key.clone(), *ttl_s));
                    assert_eq!(began, None);
                }
                DeadlineChange::Ended { since } => {
                    assert!(self.deadlines.remove(since).is_some());
                }
            }
        }
        match outcome {
            Ok(Outcome::Written(event)) => event_text(&event),
            Ok(Outcome::AuthDone(done)) => format!("{done:?}"),
            Ok(Outcome::Expired { count }) => format!("expired {count}"),
            Err(refusal) => refusal_text(&refusal),
        }
    }

    /// Runs requests, one for each line: method, key and parameters.
    pub fn script(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = line.split(' ');
            let mut next = || words.next().unwrap_or_default();
            let (method, key, parameters) = (next(), next(), next());
            let key = if key == "/" { "" } else { key };
            self.run(method, key, parameters);
        }
    }

    fn get(&self, key: &str, is_recursive: bool) -> String {
        match self.store.get(Key::new(key).unwrap()) {
            Ok(found) => {
                let depth = if is_recursive { usize::MAX } else { 1 };
                format!("get {}", node_text(key, &found.node, self.time_ms, depth))
            }
            Err(refusal) => refusal_text(&refusal),
        }
    }

    /// The answer that a wait gets from the history, as text; `none` if it must wait.
    pub fn wait(&self, key: &str, is_recursive: bool, from: u64) -> String {
        match self.store.wait(Key::new(key).unwrap(), is_recursive, from) {
            Ok(wait) => {
                assert_eq!(wait.index, self.store.index());
                wait.event.map_or_else(|| "none".to_string(), |event| event_text(&event))
            }
            Err(refusal) => refusal_text(&refusal),
        }
    }

    /// The index of the write that gave a key its present time to live.
    pub fn since(&self, key: &str) -> u64 {
        let node = self.store.tree().find(Key::new(key).unwrap()).unwrap();
        node.stat.ttl.unwrap().since
    }

    pub fn expire<'a>(&mut self, keys: &[(&'a str, u64)]) -> String {
        let judged =
            |(key, since): &(&'a str, u64)| Judged { key: Key::new(key).unwrap(), since: *since };
        self.apply(&Command::Expire { keys: keys.iter().map(judged).collect() })
    }

    /// The events published since the last call, as text.
    pub fn told(&mut self) -> String {
        let keys = self.changes.take_keys();
        keys.iter().map(|change| event_text(&change.event)).collect::<Vec<_>>().join("; ")
    }

    /// The changes of deadlines published since the last call, as text.
    pub fn deadlines(&mut self) -> String {
        let deadlines = self.changes.take_deadlines();
        deadlines.iter().map(deadline_text).collect::<Vec<_>>().join(", ")
    }
}

pub(crate) fn deadline_text(change: &DeadlineChange) -> String {
    match change {
        DeadlineChange::Began { key, since, ttl_s } => format!("{key} {} {ttl_s}s", plus(*since)),
        DeadlineChange::Ended { since } => format!("no {}", plus(*since)),
    }
}

/// An index as text: `+n` if it is n above the index of a new store.
fn plus(index: u64) -> String {
    match index.checked_sub(FIRST_INDEX) {
        Some(more) => format!("+{more}"),
        None => index.to_string(),
    }
}

/// A key as text. A name that was created in order becomes `ORD+n`.
fn key_text(key: &str) -> String {
    match key.rsplit_once('/') {
        Some((dir, name)) if name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{dir}/ORD{}", plus(name.parse().unwrap()))
        }
        _ => key.to_string(),
    }
}

fn state_text(key: &str, state: &NodeState) -> String {
    let dir = if state.is_dir { "/" } else { "" };
    let value = state.value.as_ref().map(|value| format!("={}", String::from_utf8_lossy(value)));
    let indexes = match state.modified {
        0 => String::new(),
        _ => format!(" {}/{}", plus(state.created), plus(state.modified)),
    };
    let ttl = state.expiration.map(|expiration| format!(" ttl {}", expiration.ttl_s));
    let (value, ttl) = (value.unwrap_or_default(), ttl.unwrap_or_default());
    format!("{}{dir}{value}{indexes}{ttl}", key_text(key))
}

pub(crate) fn event_text(event: &Event) -> String {
    assert_eq!(event.is_created(), event.prev.is_none(), "{event:?}");
    let mut text = format!("{} {}", event.action.name(), state_text(&event.key, &event.node));
    if let Some(prev) = &event.prev {
        text += &format!(" < {}", state_text(&event.key, prev));
    }
    text
}

fn node_text(key: &str, node: &Node, now_ms: i64, depth: usize) -> String {
    let mut text = state_text(key, &node.shown(now_ms));
    let child = |(name, child): (&Arc<str>, &Arc<Node>)| {
        node_text(&format!("{key}/{name}"), child, now_ms, depth - 1)
    };
    if depth > 0 && node.listed().next().is_some() {
        text += &format!(" [{}]", node.listed().map(child).collect::<Vec<_>>().join(", "));
    }
    text
}

/// A refusal as text: etcd's code, the cause, and the index.
pub(crate) fn refusal_text(refusal: &Refusal) -> String {
    let (code, cause) = match &refusal.reason {
        Reason::KeyNotFound(key) => (100, key.to_string()),
        Reason::CompareFailed(mismatch) => {
            let text = String::from_utf8_lossy;
            let value = mismatch.value.as_ref();
            let value =
                value.map(|other| format!("[{} != {}]", text(&other.asked), text(&other.found)));
            let index = mismatch.index;
            let index = index.map(|other| format!("[{} != {}]", other.asked, plus(other.found)));
            (101, value.into_iter().chain(index).collect::<Vec<_>>().join(" "))
        }
        Reason::NotFile(key) => (102, key.to_string()),
        Reason::NotDir(key) => (104, key.to_string()),
        Reason::KeyExists(key) => (105, key.to_string()),
        Reason::RootReadOnly => (107, "/".to_string()),
        Reason::DirNotEmpty(key) => (108, key.to_string()),
        Reason::NoSpace(key) => (112, key.to_string()),
        Reason::HistoryCleared { first, asked } => (401, format!("[{first}/{asked}]")),
        Reason::Unauthorized => (110, String::new()),
        Reason::Auth(refused) => (0, format!("{refused:?}")),
    };
    format!("{code} {cause} {}", plus(refusal.index))
}

/// A command of each kind that changes users and roles, with several names in each list. They can
/// be applied one after the other.
pub(crate) fn auth_commands() -> Vec<Command<'static>> {
    let user = |name, grant: &[&'static str], revoke: &[&'static str]| PutUser {
        name,
        may_create: revoke.is_empty(),
        may_change: true,
        hash: b"hash",
        grant: grant.to_vec(),
        revoke: revoke.to_vec(),
    };
    let patterns = |read: &[&'static str], write: &[&'static str]| Patterns {
        read: read.to_vec(),
        write: write.to_vec(),
    };
    let role = |name, is_change, grant, revoke| {
        AuthCommand::PutRole(PutRole { name, is_change, grant, revoke })
    };
    let none = Patterns::default;
    let commands = [
        AuthCommand::PutUser(user("root", &[], &[])),
        AuthCommand::PutUser(user("ada", &["r", "s"], &[])),
        AuthCommand::PutUser(PutUser { may_change: false, ..user("bob", &["r"], &[]) }),
        AuthCommand::PutUser(user("ada", &["t"], &["r", "s"])),
        AuthCommand::PutUser(user("eve", &[], &[])),
        role("r", false, patterns(&["/a/*", "/b"], &["/a/*"]), none()),
        role("s", false, none(), none()),
        role("r", true, patterns(&["/c"], &[]), patterns(&["/b"], &["/a/*"])),
        role("t", false, patterns(&[], &["/t"]), none()),
        AuthCommand::Enforce { is_enabled: true },
        AuthCommand::DeleteUser { name: "eve" },
        AuthCommand::DeleteRole { name: "t" },
        AuthCommand::Enforce { is_enabled: false },
    ];
    commands.map(Command::Auth).to_vec()
}

/// The pieces of an image of the store, with up to `count_max` records each.
pub(crate) fn pieces(store: &mut Store, count_max: u32) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    store.freeze();
    loop {
        let mut piece = Vec::new();
        let step = store.freeze_step(&mut piece, usize::MAX, count_max);
        pieces.push(piece);
        match step {
            WalkStep::Going => {}
            WalkStep::Ended => return pieces,
            WalkStep::Aborted => panic!("nothing aborts it"),
        }
    }
}

/// The store that an image restores.
pub(crate) fn restored(pieces: &[Vec<u8>]) -> Result<Store, RestoreError> {
    let (mut decoder, mut restore) = (RecordDecoder::default(), StoreRestore::default());
    for piece in pieces {
        let mut records = Records::default();
        decoder.decode(&mut Reader::new(piece), &mut records)?;
        restore.install(records)?;
    }
    restore.finish()
}

pub(crate) fn assert_same(one: &Store, other: &Store) {
    assert_eq!(one.index(), other.index());
    assert_eq!(one.tree(), other.tree());
    assert_eq!(one.history(), other.history());
    assert_eq!(one.auth(), other.auth());
    assert_eq!(one.digest(), other.digest());
}

/// Checks the invariants of a store and its published changes.
pub(crate) fn check_invariants(rig: &mut Rig) {
    rig.store.tree().check_sums();
    let told = rig.deadlines.iter().map(|(since, (key, ttl_s))| DeadlineChange::Began {
        key: key.clone(),
        since: *since,
        ttl_s: *ttl_s,
    });
    let mut kept = rig.store.deadlines();
    kept.sort_by_key(|change| match change {
        DeadlineChange::Began { since, .. } | DeadlineChange::Ended { since } => *since,
    });
    assert_eq!(kept, told.collect::<Vec<_>>());
    if rig.store.is_unused() {
        assert!(rig.store.history().is_empty());
        assert_eq!(rig.store.tree(), &Tree::default());
        assert_eq!((rig.store.record_count(), rig.store.section_bytes()), (0, 0));
        return;
    }
    let (records, bytes) = (rig.store.record_count(), rig.store.section_bytes());
    let pieces = pieces(&mut rig.store, 1);
    assert_eq!(pieces.len() as u64, records, "the last piece is empty; the first has two records");
    assert_eq!(pieces.iter().map(|piece| piece.len() as u64).sum::<u64>(), bytes);
    assert_same(&rig.store, &restored(&pieces).unwrap());
}

/// The expected answers are those of etcd 3.4.23 to these requests, in this order.
#[test]
fn the_answers_are_those_of_etcd() {
    let mut rig = Rig::default();
    let mut check = |method: &str, key: &str, parameters: &str, expected: &str| {
        let answer = rig.run(method, key, parameters);
        assert_eq!(answer, expected, "{method} {key} {parameters}");
        check_invariants(&mut rig);
    };
    let queue = "get /q/ +16/+16 [/q/ORD+16=j1 +16/+16, /q/ORD+17=j2 +17/+17, \
                 /q/ORD+18=j3 +18/+18 ttl 300]";
    check("GET", "", "", "get /");
    check("PUT", "/a", "value=1", "set /a=1 +1/+1");
    check("PUT", "/a", "value=2", "set /a=2 +2/+2 < /a=1 +1/+1");
    check("GET", "/a", "", "get /a=2 +2/+2");
    check("GET", "/a", "quorum=true", "get /a=2 +2/+2");
    check("GET", "/none", "", "100 /none +2");
    check("PUT", "/a", "prevExist=false&value=3", "105 /a +2");
    check("PUT", "/nope", "prevExist=true&value=3", "100 /nope +2");
    check("PUT", "/a", "prevValue=x&value=3", "101 [x != 2] +2");
    check("PUT", "/a", "prevIndex=1&value=3", "101 [1 != +2] +2");
    check("PUT", "/a", "prevValue=x&prevIndex=1&value=3", "101 [x != 2] [1 != +2] +2");
    check("PUT", "/nope", "prevValue=x&value=3", "100 /nope +2");
    check("PUT", "/a", "prevValue=2&value=cas", "compareAndSwap /a=cas +2/+3 < /a=2 +2/+2");
    check("PUT", "/a", "prevExist=true&value=upd", "update /a=upd +2/+4 < /a=cas +2/+3");
    check("PUT", "/a", "noValueOnSuccess=true&value=4", "set /a=4 +5/+5 < /a=upd +2/+4");
    check("DELETE", "/a", "prevValue=zz", "101 [zz != 4] +5");
    check("DELETE", "/a", "prevIndex=1", "101 [1 != +5] +5");
    check("DELETE", "/a", "prevValue=4", "compareAndDelete /a +5/+6 < /a=4 +5/+5");
    check("DELETE", "/a", "", "100 /a +6");
    check("PUT", "/new", "prevExist=false&value=n", "create /new=n +7/+7");
    check("PUT", "/empty", "value=", "set /empty= +8/+8");
    check("PUT", "/novalue", "", "set /novalue= +9/+9");
    check("PUT", "/deep/er/est", "value=d", "set /deep/er/est=d +10/+10");
    check("GET", "/deep", "", "get /deep/ +10/+10 [/deep/er/ +10/+10]");
    check(
        "GET",
        "/deep",
        "recursive=true",
        "get /deep/ +10/+10 [/deep/er/ +10/+10 [/deep/er/est=d +10/+10]]",
    );
    check("GET", "/deep", "", "get /deep/ +10/+10 [/deep/er/ +10/+10]");
    check("PUT", "/dir", "dir=true", "set /dir/ +11/+11");
    check("PUT", "/dir", "dir=true", "102 /dir +11");
    check(
        "PUT",
        "/dir",
        "dir=true&prevExist=true&ttl=100",
        "update /dir/ +11/+12 ttl 100 < /dir/ +11/+11",
    );
    check(
        "PUT",
        "/dir",
        "dir=true&prevExist=true&ttl=",
        "update /dir/ +11/+13 < /dir/ +11/+11 ttl 100",
    );
    check("PUT", "/dir/x", "value=1", "set /dir/x=1 +14/+14");
    check("PUT", "/dir/x/y", "value=1", "104 /dir/x +14");
    check("PUT", "/dir", "value=1", "102 /dir +14");
    check("PUT", "/new", "dir=true", "set /new/ +15/+15 < /new=n +7/+7");
    check("DELETE", "/dir", "", "102 /dir +15");
    check("DELETE", "/dir", "dir=true", "108 /dir +15");
    check("PUT", "/dir", "prevValue=z&value=1", "102 /dir +15");
    check("POST", "/q", "value=j1", "create /q/ORD+16=j1 +16/+16");
    check("POST", "/q", "value=j2", "create /q/ORD+17=j2 +17/+17");
    check("POST", "/q", "value=j3&ttl=300", "create /q/ORD+18=j3 +18/+18 ttl 300");
    check("GET", "/q", "recursive=true&sorted=true", queue);
    check("POST", "/new", "value=underfile", "create /new/ORD+19=underfile +19/+19");
    check("PUT", "/_h", "value=hid", "set /_h=hid +20/+20");
    check("PUT", "/q/_hid", "value=hid", "set /q/_hid=hid +21/+21");
    check("GET", "/_h", "", "get /_h=hid +20/+20");
    check("GET", "/q", "sorted=true", queue);
    check("PUT", "/t", "value=x&ttl=500", "set /t=x +22/+22 ttl 500");
    check(
        "PUT",
        "/t",
        "ttl=600&refresh=true&prevExist=true",
        "update /t=x +22/+23 ttl 600 < /t=x +22/+22 ttl 500",
    );
    check("PUT", "/none", "ttl=600&refresh=true&prevExist=true", "100 /none +23");
    check("PUT", "/t", "value=y&ttl=&prevExist=true", "update /t=y +22/+24 < /t=x +22/+23 ttl 600");
    check("PUT", "/t2", "value=y&ttl=0", "set /t2=y +25/+25 ttl 0");
    check("EXPIRE", "/t2", "", "expired 1");
    check("GET", "/t", "stream=true", "get /t=y +22/+24");
    check("PUT", "/w", "value=later", "set /w=later +27/+27");
    check("POST", "/wd", "value=later", "create /wd/ORD+28=later +28/+28");
    check("DELETE", "/dir", "recursive=true", "delete /dir/ +11/+29 < /dir/ +11/+11");
    check("PUT", "/_secret/x", "value=1", "set /_secret/x=1 +30/+30");
    check("PUT", "/seen", "value=1", "set /seen=1 +31/+31");
    check("DELETE", "", "", "107 / +31");
    check("PUT", "", "value=1", "107 / +31");
    check("POST", "", "value=rootpost", "create /ORD+32=rootpost +32/+32");
    check("DELETE", "/deep", "dir=true&recursive=true", "delete /deep/ +10/+33 < /deep/ +10/+10");
    check("DELETE", "/new", "dir=true", "108 /new +33");
    check("PUT", "/u n/é", "value=é\"<", "set /u n/é=é\"< +34/+34");
    check("GET", "/u n/é", "", "get /u n/é=é\"< +34/+34");
    check("GET", "/dbl/slash", "", "100 /dbl +34");
    assert_eq!(rig.wait("/a", false, 1), "set /a=1 +1/+1");
    assert_eq!(rig.wait("/q", true, 1), "create /q/ORD+16=j1 +16/+16");
    assert_eq!(
        rig.wait("/t2", false, FIRST_INDEX + 26),
        "expire /t2 +25/+26 < /t2=y +25/+25 ttl 0"
    );
}
