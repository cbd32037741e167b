//! Makes the calls of Kubernetes' API server as its store makes them (`storage/etcd3` of Kubernetes
//! and `client/v3/kubernetes` of etcd 3.6), from several API servers at the same time, each at
//! another member.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use workload::etcd::op::{
    Answer, Compact, Compare, CompareResult, CompareTarget, DeleteRange, Error, KeyValue, Op, Put,
    Range, RangeAnswer, Response, Txn, TxnAnswer, TxnOp,
};
use workload::generate::Random;

use crate::etcd::Three;
use crate::etcd_client::Caller;
use crate::server::wait_until;

/// The key that API servers compete for before they compact; its version counts the compactions
/// (`compactRevKey`).
const COMPACT_REV_KEY: &[u8] = b"compact_rev_key";

/// The most key-value pairs in a page of a list (`chunkSizeLimit` of clients).
const LIMIT: i64 = 500;

/// The prefix of the pods' keys.
const PODS: &str = "/registry/pods/";

/// The most pods at any time: four pages.
const PODS_MAX: u64 = 1_900;

/// An API server, as a client of etcd.
struct ApiServer(Caller);

/// The result of a conditional write: its revision if it succeeded, else the key-value pair that
/// did not fulfil the condition; `None` if the key is missing.
type Written = Result<i64, Option<KeyValue>>;

impl ApiServer {
    fn open(address: SocketAddr) -> ApiServer {
        ApiServer(Caller::open(address))
    }

    /// Puts a key if it still has this revision (`OptimisticPut`). The revision of a missing key is
    /// 0.
    fn put(&mut self, key: &str, value: String, revision: i64) -> Written {
        let (key, value) = (key.as_bytes().to_vec(), value.into_bytes());
        let put = Put { key: key.clone(), value, ..Put::default() };
        self.write_at(key, revision, TxnOp::Put(put))
    }

    /// Deletes a key if it still has this revision (`OptimisticDelete`).
    fn delete(&mut self, key: &str, revision: i64) -> Written {
        let key = key.as_bytes().to_vec();
        let delete = DeleteRange { key: key.clone(), ..DeleteRange::default() };
        self.write_at(key, revision, TxnOp::DeleteRange(delete))
    }

    fn write_at(&mut self, key: Vec<u8>, revision: i64, write: TxnOp) -> Written {
        let answer = self.if_else(key, CompareTarget::Mod(revision), write);
        if answer.succeeded {
            return Ok(answer.revision);
        }
        Err(pair_of(answer))
    }

    /// Runs a transaction: if the key fulfils the condition, `write`, else a get of the key.
    fn if_else(&mut self, key: Vec<u8>, target: CompareTarget, write: TxnOp) -> TxnAnswer {
        let get = TxnOp::Range(Range { key: key.clone(), ..Range::default() });
        let compare = Compare { key, range_end: Vec::new(), result: CompareResult::Equal, target };
        let (success, failure) = (vec![write], vec![get]);
        match self.0.call(&Op::Txn(Txn { compares: vec![compare], success, failure })) {
            Ok(Response::Txn(answer)) => answer,
            other => panic!("no answer to a transaction: {other:?}"),
        }
    }

    fn get(&mut self, key: &str) -> Option<KeyValue> {
        let range = Range { key: key.into(), ..Range::default() };
        self.0.range(&range).kvs.pop()
    }

    /// The newest revision.
    fn revision(&mut self) -> i64 {
        self.0.range(&Range { key: COMPACT_REV_KEY.into(), ..Range::default() }).revision
    }

    /// A page of the list of pods, from `key` on, at `revision`; 0 means the newest.
    fn page(&mut self, key: Vec<u8>, revision: i64) -> Result<RangeAnswer, Error> {
        let range_end = b"/registry/pods0".to_vec();
        match self.0.call(&Op::Range(Range {
            key,
            range_end,
            limit: LIMIT,
            revision,
            ..Range::default()
        })) {
            Ok(Response::Range(answer)) => Ok(answer),
            Err(error) => Err(error),
            Ok(other) => panic!("no answer to a range: {other:?}"),
        }
    }

    fn compact(&mut self, revision: i64) -> Answer {
        self.0.call(&Op::Compact(Compact { revision, physical: false }))
    }
}

/// The pair that the get of a failed transaction returned.
fn pair_of(answer: TxnAnswer) -> Option<KeyValue> {
    match answer.responses.into_iter().next() {
        Some(Response::Range(mut found)) => found.kvs.pop(),
        other => panic!("no answer to the get: {other:?}"),
    }
}

/// Runs `act` for all servers at the same time, and returns the results.
fn race<T: Send>(
    servers: &mut [ApiServer],
    act: impl Fn(usize, &mut ApiServer) -> T + Sync,
) -> Vec<T> {
    let start = Barrier::new(servers.len());
    std::thread::scope(|scope| {
        let (start, act) = (&start, &act);
        let run = |(number, server)| {
            scope.spawn(move || {
                start.wait();
                act(number, server)
            })
        };
        let running: Vec<_> = servers.iter_mut().enumerate().map(run).collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

/// `count` API servers, spread over the members.
fn api_servers(three: &Three, count: usize) -> Vec<ApiServer> {
    three.clients.iter().cycle().take(count).map(|address| ApiServer::open(*address)).collect()
}

#[test]
fn every_increment_of_many_servers_counts_once() {
    const INCREMENTS: usize = 40;
    let three = Three::start("kube-increments");
    let mut servers = api_servers(&three, 6);
    let key = "/registry/leases/counter";
    let number_of = |pair: &KeyValue| -> i64 {
        String::from_utf8(pair.value.clone()).unwrap().parse().unwrap()
    };
    let written = race(&mut servers, |_, server| {
        let (mut written, mut seen) = (Vec::new(), None);
        while written.len() < INCREMENTS {
            let number = seen.as_ref().map_or(0, number_of) + 1;
            let revision = seen.as_ref().map_or(0, |pair: &KeyValue| pair.mod_revision);
            match server.put(key, number.to_string(), revision) {
                Ok(revision) => {
                    written.push((number, revision));
                    seen = server.get(key);
                }
                Err(pair) => seen = pair,
            }
        }
        written
    });
    let mut written: Vec<(i64, i64)> = written.into_iter().flatten().collect();
    written.sort_unstable();
    let last = (6 * INCREMENTS) as i64;
    assert!(written.iter().map(|(number, _)| *number).eq(1..=last), "{written:?}");
    assert!(written.is_sorted_by_key(|(_, revision)| *revision), "{written:?}");
    for server in &mut servers {
        let pair = server.get(key).unwrap();
        assert_eq!((number_of(&pair), pair.version), (last, last));
        let revisions = (pair.create_revision, pair.mod_revision);
        assert_eq!(revisions, (written[0].1, written[written.len() - 1].1));
    }
}

#[test]
fn one_of_racing_creates_and_one_of_racing_deletes_is_done() {
    let three = Three::start("kube-races");
    let mut servers = api_servers(&three, 6);
    for round in 0..30 {
        let key = &format!("{PODS}default/pod-{}", round % 2);
        let value_of = |number: usize| format!("{round} of {number}");
        let made = race(&mut servers, |number, server| server.put(key, value_of(number), 0));
        let winners: Vec<usize> = (0..made.len()).filter(|it| made[*it].is_ok()).collect();
        let [winner] = winners[..] else { panic!("{made:?}") };
        let revision = made[winner].clone().unwrap();
        let pair = KeyValue {
            key: key.as_bytes().to_vec(),
            value: value_of(winner).into_bytes(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: 0,
        };
        let refused = Err(Some(pair));
        assert!(made.iter().all(|it| it.is_ok() || *it == refused), "{made:?}");
        let stale = race(&mut servers, |_, server| server.delete(key, revision - 1));
        assert!(stale.iter().all(|it| *it == refused), "{stale:?}");
        let deleted = race(&mut servers, |_, server| server.delete(key, revision));
        assert_eq!(deleted.iter().filter(|it| **it == Ok(revision + 1)).count(), 1, "{deleted:?}");
        assert_eq!(deleted.iter().filter(|it| **it == Err(None)).count(), 5, "{deleted:?}");
    }
}

/// An API server remembers this from one compaction to the next (`compactor`): the version of
/// [`COMPACT_REV_KEY`], and etcd's revision at that time.
#[derive(Clone, Copy, Default)]
struct Turn {
    version: i64,
    revision: i64,
}

/// Takes part in a round of compaction, as `compact` in `compact.go` does. Returns what to
/// remember, and whether this server has won the round.
fn compact(server: &mut ApiServer, turn: Turn) -> (Turn, bool) {
    let value = turn.revision.to_string().into_bytes();
    let put = Put { key: COMPACT_REV_KEY.into(), value, ..Put::default() };
    let target = CompareTarget::Version(turn.version);
    let answer = server.if_else(COMPACT_REV_KEY.into(), target, TxnOp::Put(put));
    let revision = answer.revision;
    if !answer.succeeded {
        let version = pair_of(answer).expect("the key exists").version;
        return (Turn { version, revision }, false);
    }
    // The first winner does not compact, since it knows no earlier revision.
    if turn.revision > 0 {
        let compacted = server.compact(turn.revision);
        assert!(compacted.is_ok(), "{compacted:?} at {}", turn.revision);
    }
    (Turn { version: turn.version + 1, revision }, true)
}

#[test]
fn one_of_two_servers_compacts_in_each_round() {
    let three = Three::start("kube-compactors");
    let mut servers = api_servers(&three, 2);
    let mut turns = [Turn::default(); 2];
    let (mut compacted, mut last_winner) = (0, 0);
    for round in 1..=40 {
        if round % 10 == 0 {
            // The loser of the last round restarts and remembers nothing; the winner still knows
            // the version.
            turns[1 - last_winner] = Turn::default();
        }
        let key = format!("{PODS}default/pod-{round}");
        servers[0].put(&key, "new".to_string(), 0).unwrap();
        let done = race(&mut servers, |number, server| compact(server, turns[number]));
        let winners: Vec<usize> = (0..2).filter(|it| done[*it].1).collect();
        let [winner] = winners[..] else { panic!("round {round}: {winners:?} have won") };
        let revision = turns[winner].revision;
        assert!(round == 1 || revision > compacted, "{revision} after {compacted}");
        compacted = revision;
        turns = [done[0].0, done[1].0];
        assert_eq!(turns[winner].version, round);
        last_winner = winner;
        for server in servers.iter_mut().filter(|_| round > 1) {
            assert_eq!(server.page(PODS.into(), compacted - 1), Err(Error::Compacted));
            assert!(server.page(PODS.into(), compacted).is_ok());
            assert_eq!(server.compact(compacted), Err(Error::Compacted));
        }
    }
}

/// A complete list: its revision, and each page with the key that it begins at.
struct List {
    revision: i64,
    pages: Vec<(Vec<u8>, RangeAnswer)>,
}

/// A change of a key that a server has made.
struct Change {
    revision: i64,
    key: Vec<u8>,
    /// The new value; `None` if the key was deleted.
    value: Option<Vec<u8>>,
}

/// The state that the threads of the list test share.
#[derive(Default)]
struct Registry {
    /// All changes of keys so far.
    changes: Mutex<Vec<Change>>,
    /// The revision of the last compaction that was asked for, and of the last one that was done.
    asked: AtomicI64,
    compacted: AtomicI64,
    is_over: AtomicBool,
}

/// Stops the threads when this is dropped, even if the test panics.
struct Over<'r>(&'r Registry);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Registry {
    fn note(&self, revision: i64, key: &str, value: Option<String>) {
        let (key, value) = (key.as_bytes().to_vec(), value.map(String::into_bytes));
        self.changes.lock().unwrap().push(Change { revision, key, value });
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Creates pods, a hundred with each transaction.
    fn fill(&self, server: &mut ApiServer) {
        for hundred in 0..PODS_MAX / 100 {
            let keys = (0..100).map(|number| key_of(hundred * 100 + number));
            let keys: Vec<String> = keys.collect();
            let value = "first".to_string();
            let put = |key: &String| {
                let (key, value) = (key.as_bytes().to_vec(), value.as_bytes().to_vec());
                TxnOp::Put(Put { key, value, ..Put::default() })
            };
            let txn = Txn { success: keys.iter().map(put).collect(), ..Txn::default() };
            let revision = server.0.call(&Op::Txn(txn)).unwrap().revision();
            keys.iter().for_each(|key| self.note(revision, key, Some(value.clone())));
        }
        // The keys right before and behind the prefix are not pods.
        for key in ["/registry/pods", "/registry/pods.", "/registry/pods0", "/registry/podsets/a"] {
            let revision = server.put(key, "no pod".to_string(), 0).unwrap();
            self.note(revision, key, Some("no pod".to_string()));
        }
    }

    /// Creates, updates and deletes pods.
    fn write(&self, server: &mut ApiServer, mut random: Random) {
        let mut drawn = 0;
        while !self.is_over() {
            drawn += 1;
            let key = key_of(random.below(PODS_MAX));
            let value = format!("{drawn} {:x}", random.bits());
            let revision = server.get(&key).map_or(0, |pair| pair.mod_revision);
            let (written, value) = match revision > 0 && random.one_in(3) {
                true => (server.delete(&key, revision), None),
                false => (server.put(&key, value.clone(), revision), Some(value)),
            };
            // If it fails, another server has changed the pod meanwhile.
            if let Ok(revision) = written {
                self.note(revision, &key, value);
            }
        }
    }

    /// Compacts over and over, each time at a revision from a while ago.
    fn compact(&self, server: &mut ApiServer) {
        const LOOKS: usize = 10;
        let mut seen = VecDeque::new();
        while !self.is_over() {
            let revision = server.revision();
            if seen.back() != Some(&revision) {
                seen.push_back(revision);
            }
            if seen.len() > LOOKS {
                let revision = seen.pop_front().unwrap();
                self.asked.store(revision, Ordering::Relaxed);
                server.compact(revision).unwrap();
                self.compacted.store(revision, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Lists all pods. If `is_slow`, waits for a compaction after each page. `None` if the list was
    /// refused because its revision is compacted.
    fn list(&self, server: &mut ApiServer, is_slow: bool) -> Option<List> {
        let first = server.page(PODS.into(), 0).unwrap();
        let revision = first.revision;
        let mut pages = vec![(PODS.as_bytes().to_vec(), first)];
        while pages[pages.len() - 1].1.more {
            if is_slow {
                wait_until("a compaction", || self.compacted.load(Ordering::Relaxed) > revision);
            }
            let last = pages[pages.len() - 1].1.kvs.last().expect("a page has pairs");
            let key = [&last.key[..], b"\0"].concat();
            match server.page(key.clone(), revision) {
                Ok(page) => pages.push((key, page)),
                Err(error) => {
                    assert_eq!(error, Error::Compacted);
                    assert!(self.asked.load(Ordering::Relaxed) > revision, "{revision}");
                    return None;
                }
            }
            assert!(!is_slow, "revision {revision} is compacted");
        }
        Some(List { revision, pages })
    }

    /// Sorts the recorded changes by revision, and returns the revisions.
    fn sorted_revisions(&self) -> Vec<i64> {
        let mut changes = self.changes.lock().unwrap();
        changes.sort_by_key(|change| change.revision);
        changes.iter().map(|change| change.revision).collect()
    }

    /// The pods at a revision, by key, each with the revision and value of its last change.
    fn pods_at(&self, revision: i64) -> BTreeMap<Vec<u8>, (i64, Vec<u8>)> {
        let mut pods = BTreeMap::new();
        let changes = self.changes.lock().unwrap();
        let is_shown = |change: &&Change| {
            change.revision <= revision && change.key.starts_with(PODS.as_bytes())
        };
        for Change { revision, key, value } in changes.iter().filter(is_shown) {
            match value {
                Some(value) => pods.insert(key.clone(), (*revision, value.clone())),
                None => pods.remove(key),
            };
        }
        pods
    }

    /// Fails unless every page of a list shows the pods as they were at the list's revision.
    fn check(&self, list: &List) {
        let pods = self.pods_at(list.revision);
        for (key, page) in &list.pages {
            let rest: Vec<_> = pods.range(key.clone()..).collect();
            let shown = page.kvs.iter().map(|it| (&it.key, it.mod_revision, &it.value));
            let due = rest.iter().take(LIMIT as usize);
            let due = due.map(|(key, (revision, value))| (*key, *revision, value));
            assert!(shown.eq(due), "a page at revision {} from {key:?}", list.revision);
            assert_eq!(page.count, rest.len() as i64, "keys from there on");
            let remaining = page.count - page.kvs.len() as i64;
            assert_eq!(page.more, remaining > 0);
            assert!(page.revision >= list.revision);
        }
    }
}

/// The key of a pod.
fn key_of(number: u64) -> String {
    format!("{PODS}namespace-{}/pod-{number}", number % 7)
}

#[test]
fn a_paged_list_shows_one_revision_or_is_refused_as_compacted() {
    const LISTS: usize = 6;
    let three = Three::start("kube-lists");
    let registry = Registry::default();
    let mut servers = api_servers(&three, 5);
    let mut lister = servers.pop().unwrap();
    registry.fill(&mut lister);
    let mut lists = Vec::new();
    let has_changed = |list: &&List| list.pages.last().unwrap().1.revision > list.revision;
    std::thread::scope(|scope| {
        let _over = Over(&registry);
        let registry = &registry;
        let mut compactor = servers.pop().unwrap();
        scope.spawn(move || registry.compact(&mut compactor));
        for (seed, mut server) in servers.into_iter().enumerate() {
            scope.spawn(move || registry.write(&mut server, Random::new(seed as u64)));
        }
        wait_until("lists beside changes", || {
            lists.extend(registry.list(&mut lister, false));
            lists.iter().filter(has_changed).count() >= LISTS
        });
        for _ in 0..LISTS {
            assert!(registry.list(&mut lister, true).is_none(), "it waited for a compaction");
        }
    });
    let mut revisions = registry.sorted_revisions();
    revisions.dedup();
    assert!(revisions.iter().copied().eq(2..=lister.revision()), "each revision is of one change");
    lists.iter().for_each(|list| registry.check(list));
    println!("{} lists beside {} changes", lists.len(), revisions.len());
}
