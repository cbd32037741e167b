//! ZooKeeper clients in a crash test. They write until the server is gone. When it is back, they
//! compare its state with the acknowledged writes. The time from a start of the server to its end
//! is a *life*.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use workload::generate::Random;
use zk::ErrorCode;
use zk::jute::JuteReader;
use zk::request::{ReadKind, Request};

use super::part::{Expected, Part, SHARED, Seen, Step};
use crate::client::{self, Answer, Client, Greeted, TIMEOUT_MS};

/// How long the clients may take to check the state of a restarted server.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many unanswered requests a client may have.
const AHEAD_MAX: u64 = 200;

/// The state that the clients share with the thread that kills the server.
#[derive(Default)]
pub struct World {
    common: Mutex<Common>,
    changed: Condvar,
}

#[derive(Default)]
struct Common {
    /// The number of the server's present life.
    life: u64,
    /// The address of the server; `None` while it is being killed or started.
    address: Option<SocketAddr>,
    /// Whether there will be no further life.
    is_over: bool,
    /// How many clients have found the state in this life correct.
    satisfied: usize,
    /// Whether a client has found something wrong.
    failed: bool,
    /// The highest zxid that any client has seen; for etcd clients, the highest revision.
    zxid: i64,
    /// For each number in the names of znodes below [`SHARED`], the name that has it.
    numbers: HashMap<String, String>,
    /// How many writes were acknowledged, for the report.
    acknowledged: u64,
    /// How many unacknowledged writes turned out to have taken effect, and how many not.
    unknown_done: u64,
    unknown_not_done: u64,
}

impl World {
    fn common(&self) -> MutexGuard<'_, Common> {
        self.common.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Begins a life: the server is ready at this address.
    pub fn begin_life(&self, address: SocketAddr) {
        let mut common = self.common();
        common.life += 1;
        common.address = Some(address);
        common.satisfied = 0;
        self.changed.notify_all();
    }

    /// Ends the life: from now on connections may break.
    pub fn end_life(&self) {
        self.common().address = None;
    }

    /// Says that there will be no further life.
    pub fn end(&self) {
        self.common().is_over = true;
        self.changed.notify_all();
    }

    /// Waits until `clients` clients have found the state correct.
    pub fn wait_satisfied(&self, clients: usize) {
        let deadline = Instant::now() + PATIENCE;
        let mut common = self.common();
        while common.satisfied < clients {
            assert!(!common.failed, "a client found something wrong");
            assert!(Instant::now() < deadline, "the clients take too long");
            let wait = Duration::from_secs(1);
            let woken = self.changed.wait_timeout(common, wait);
            common = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// A line with the numbers of lives and writes.
    pub fn report(&self) -> String {
        let common = self.common();
        format!(
            "{} lives, {} acknowledged writes, of the others {} done and {} not",
            common.life, common.acknowledged, common.unknown_done, common.unknown_not_done
        )
    }

    /// Whether the clients must stop: no further life will come, or the test has failed.
    pub fn has_ended(&self) -> bool {
        let common = self.common();
        common.is_over || common.failed
    }

    /// Waits for a life after number `last`. Returns its number, the server's address, and the zxid
    /// that the server must have at least; `None` if no further life comes.
    fn next_life(&self, last: u64) -> Option<(u64, SocketAddr, i64)> {
        let mut common = self.common();
        loop {
            match common.address {
                Some(address) if common.life > last => {
                    return Some((common.life, address, common.zxid));
                }
                _ if common.is_over || common.failed => return None,
                _ => {
                    let woken = self.changed.wait(common);
                    common = woken.unwrap_or_else(|poisoned| poisoned.into_inner());
                }
            }
        }
    }

    /// Runs a client through all lives of the server. `live` is called for each with its number,
    /// the address, and the least zxid or revision that the server must have. It returns `None`
    /// when the connection has ended.
    pub fn live_all(&self, mut live: impl FnMut(u64, SocketAddr, i64) -> Option<()>) {
        let _alarm = Alarm(self);
        let mut last = 0;
        while let Some((life, address, floor)) = self.next_life(last) {
            last = life;
            if live(life, address, floor).is_none() {
                self.on_connection_end(life);
            }
        }
    }

    /// Fails unless a connection ended because the server did.
    fn on_connection_end(&self, life: u64) {
        let common = self.common();
        let is_alive = common.life == life && common.address.is_some();
        assert!(!is_alive, "a living server closed a connection");
    }

    pub fn on_satisfied(&self, life: u64) {
        let mut common = self.common();
        common.satisfied += usize::from(common.life == life);
        self.changed.notify_all();
    }

    fn on_zxid(&self, zxid: i64) {
        let mut common = self.common();
        common.zxid = common.zxid.max(zxid);
    }

    /// Records an acknowledged write and its zxid or revision.
    pub fn on_acknowledged(&self, zxid: i64) {
        let mut common = self.common();
        common.acknowledged += 1;
        common.zxid = common.zxid.max(zxid);
    }

    /// Records how many unacknowledged writes turned out to have taken effect, and how many not.
    pub fn on_settled(&self, done: usize, not_done: usize) {
        let mut common = self.common();
        common.unknown_done += done as u64;
        common.unknown_not_done += not_done as u64;
    }

    /// The highest zxid or revision that any client has seen.
    pub fn zxid(&self) -> i64 {
        self.common().zxid
    }

    /// Records that a znode below [`SHARED`] was seen. Fails if another one has the same number.
    fn claim(&self, name: &str) {
        let (key, number) = name.split_at(name.len() - 10);
        let mut common = self.common();
        let owner = common.numbers.entry(number.to_string()).or_insert_with(|| key.to_string());
        assert_eq!(owner, key, "the number {number} was given twice");
    }
}

/// Marks the test as failed if the client that owns this panics.
struct Alarm<'a>(&'a World);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.common().failed = true;
            self.0.changed.notify_all();
        }
    }
}

/// A client with a session and a part of the tree to itself.
pub struct Worker<'a> {
    world: &'a World,
    id: usize,
    random: Random,
    session: i64,
    password: Vec<u8>,
    /// The part as the acknowledged writes left it; the unacknowledged writes, in the order in
    /// which they were sent; and the part as it will be if all of those take effect.
    acked: Part,
    unacked: VecDeque<(i32, Step)>,
    ahead: Part,
    drawn: u64,
    /// The zxid of the client's last acknowledged write.
    zxid_acked: i64,
    life: u64,
}

impl<'a> Worker<'a> {
    pub fn new(world: &'a World, id: usize, seed: u64) -> Worker<'a> {
        Worker {
            world,
            id,
            random: Random::new(seed ^ id as u64),
            session: 0,
            password: vec![0; 16],
            acked: Part::new(id),
            unacked: VecDeque::new(),
            ahead: Part::new(id),
            drawn: 0,
            zxid_acked: 0,
            life: 0,
        }
    }

    /// Checks the state and writes in each life of the server, until the test ends.
    pub fn run(mut self) {
        self.world.live_all(|life, address, floor| {
            self.life = life;
            self.live(address, floor)
        });
    }

    /// Checks the state and writes during one life; `None` when the connection has ended.
    fn live(&mut self, address: SocketAddr, floor: i64) -> Option<()> {
        let mut client = match Client::try_greet(address, self.session, &self.password, floor) {
            Greeted::Ended => return None,
            Greeted::Refused => panic!("the session of worker {} is lost", self.id),
            Greeted::Attached(client) => *client,
        };
        (self.session, self.password) = (client.session, client.password.clone());
        self.verify(&mut client, floor)?;
        self.world.on_satisfied(self.life);
        self.write(&mut client)
    }

    fn verify(&mut self, client: &mut Client, floor: i64) -> Option<()> {
        let seen = self.look(client, floor)?;
        let mut part = self.acked.clone();
        let mut differences = Vec::new();
        let mut done = 0;
        let unacked = std::mem::take(&mut self.unacked);
        loop {
            match part.difference(&seen, self.session, self.zxid_acked) {
                None => break,
                Some(difference) => differences.push(difference),
            }
            let Some((_, step)) = unacked.get(done) else {
                panic!("worker {}: after none of the steps: {differences:#?}", self.id);
            };
            part.apply(step, None);
            done += 1;
        }
        part.learn(&seen);
        self.acked = part;
        self.ahead = self.acked.clone();
        self.world.on_settled(done, unacked.len() - done);
        Some(())
    }

    /// Reads every znode of this client.
    fn look(&mut self, client: &mut Client, floor: i64) -> Option<BTreeMap<String, Seen>> {
        let mut paths = Vec::new();
        let parents = [Part::parent(self.id), Part::sequential_parent(self.id), SHARED.to_string()];
        for parent in &parents {
            let answer = client.try_call(&client::read(ReadKind::GetChildren, parent))?;
            let zxid = answer.header.zxid;
            assert!(zxid >= floor, "zxid {zxid:#x} is below {floor:#x}");
            assert_eq!(answer.header.error, ErrorCode::OK, "{parent}");
            let is_own = |name: &String| match parent == SHARED {
                true => self.acked.owns(name),
                false => name != "s",
            };
            let names = answer.names().into_iter().filter(is_own);
            paths.extend(names.map(|name| format!("{parent}/{name}")));
        }
        let mut seen = BTreeMap::new();
        for path in paths {
            let answer = client.try_call(&client::read(ReadKind::GetData, &path))?;
            assert_eq!(answer.header.error, ErrorCode::OK, "{path}");
            if path.starts_with(SHARED) {
                self.world.claim(&path);
            }
            let data = answer.data().unwrap_or_default();
            seen.insert(path, Seen { data, stat: answer.stat() });
        }
        Some(seen)
    }

    /// Writes until the connection ends.
    fn write(&mut self, client: &mut Client) -> Option<()> {
        while !self.world.has_ended() {
            let mut bytes = Vec::new();
            for _ in 0..self.random.between(1, 32) {
                self.drawn += 1;
                let step = self.ahead.draw(&self.acked, &mut self.random, self.drawn);
                self.ahead.apply(&step, None);
                let xid = step.with_request(self.id, |request| client.encode(request, &mut bytes));
                self.unacked.push_back((xid, step));
            }
            client.connection.send(&bytes);
            let left = self.random.below(AHEAD_MAX) as usize;
            while self.unacked.len() > left {
                let answer = client.receive()?;
                self.on_answer(&answer);
            }
        }
        Some(())
    }

    fn on_answer(&mut self, answer: &Answer) {
        let (xid, step) = self.unacked.pop_front().expect("one answer for each request");
        let zxid = answer.header.zxid;
        assert_eq!(answer.header.xid, xid);
        assert!(zxid > self.zxid_acked, "{zxid:#x} after {:#x}", self.zxid_acked);
        self.zxid_acked = zxid;
        let expected = self.acked.apply(&step, Some(zxid));
        match &expected {
            Expected::Done(names) => {
                assert_eq!(answer.header.error, ErrorCode::OK, "{step:?}");
                if step.is_create() {
                    self.on_created(&step, &answer.text(), names[0].as_deref());
                }
            }
            Expected::Refused(position, error) if step.is_multi() => {
                assert_eq!(refused_at(answer), Some((*position, *error)), "{step:?}");
            }
            Expected::Refused(_, error) => assert_eq!(answer.header.error, *error, "{step:?}"),
        }
        self.world.on_acknowledged(zxid);
    }

    fn on_created(&mut self, step: &Step, path: &str, expected: Option<&str>) {
        match expected {
            Some(expected) => assert_eq!(path, expected),
            None => {
                self.world.claim(path);
                self.acked.on_shared_name(step, path);
            }
        }
    }
}

/// The first error in the answer to a multi, with the position of its operation.
fn refused_at(answer: &Answer) -> Option<(usize, ErrorCode)> {
    let mut reader = JuteReader::new(&answer.body);
    let mut position = 0;
    loop {
        let (opcode, is_end, _) =
            (reader.int().unwrap(), reader.bool().unwrap(), reader.int().unwrap());
        if is_end || opcode != zk::request::opcode::ERROR {
            return None;
        }
        match reader.int().unwrap() {
            0 => position += 1,
            error => return Some((position, ErrorCode(error))),
        }
    }
}

/// A client that opens and closes sessions, one after the other, each with a znode.
pub struct Closer<'a> {
    world: &'a World,
    random: Random,
    /// Sessions whose end was acknowledged.
    closed: Vec<Session>,
    /// The session that was open when the server was killed.
    under_way: Option<Session>,
    opened: u64,
    life: u64,
}

struct Session {
    session: i64,
    password: Vec<u8>,
    znode: String,
    /// Whether the creation of the znode was acknowledged.
    is_made: bool,
    /// Whether the client has asked for the session's end.
    is_ending: bool,
}

impl<'a> Closer<'a> {
    pub fn new(world: &'a World, seed: u64) -> Closer<'a> {
        let (closed, under_way) = (Vec::new(), None);
        Closer { world, random: Random::new(!seed), closed, under_way, opened: 0, life: 0 }
    }

    /// Works through all lives of the server.
    pub fn run(mut self) {
        self.world.live_all(|life, address, floor| {
            self.life = life;
            self.live(address, floor)
        });
    }

    fn live(&mut self, address: SocketAddr, floor: i64) -> Option<()> {
        self.settle(address, floor)?;
        for _ in 0..2.min(self.closed.len()) {
            let any = self.random.below(self.closed.len() as u64) as usize;
            for session in [&self.closed[any], &self.closed[self.closed.len() - 1]] {
                let greeted = Client::try_greet(address, session.session, &session.password, floor);
                match greeted {
                    Greeted::Ended => return None,
                    Greeted::Refused => {}
                    Greeted::Attached(_) => panic!("a closed session lives on"),
                }
            }
        }
        let mut watcher = open(address)?;
        for session in self.closed.iter().rev().take(5) {
            let answer = watcher.try_call(&client::read(ReadKind::Exists, &session.znode))?;
            assert_eq!(answer.header.error, ErrorCode::NO_NODE, "{}", session.znode);
        }
        watcher.try_call(&Request::CloseSession)?;
        self.world.on_satisfied(self.life);
        while !self.world.has_ended() {
            let client = open(address)?;
            self.open_and_close(client)?;
        }
        Some(())
    }

    /// Fails unless the session that was open still exists with its znode, or both are gone.
    fn settle(&mut self, address: SocketAddr, floor: i64) -> Option<()> {
        let Some(session) = &self.under_way else { return Some(()) };
        match Client::try_greet(address, session.session, &session.password, floor) {
            Greeted::Ended => return None,
            Greeted::Refused => {
                assert!(session.is_ending, "a session is lost that was not closed");
                let mut client = open(address)?;
                let answer = client.try_call(&client::read(ReadKind::Exists, &session.znode))?;
                assert_eq!(answer.header.error, ErrorCode::NO_NODE, "{}", session.znode);
                client.try_call(&Request::CloseSession)?;
            }
            Greeted::Attached(mut client) => {
                let answer = client.try_call(&client::read(ReadKind::Exists, &session.znode))?;
                if session.is_made {
                    assert_eq!(answer.header.error, ErrorCode::OK, "{}", session.znode);
                    assert_eq!(answer.stat().ephemeral_owner, session.session);
                }
                self.end(&mut client)?;
            }
        }
        self.under_way = None;
        Some(())
    }

    fn open_and_close(&mut self, mut client: Client) -> Option<()> {
        self.opened += 1;
        let znode = format!("/closing/{}", self.opened);
        let (session, password) = (client.session, client.password.clone());
        let new = Session { session, password, znode, is_made: false, is_ending: false };
        let session = self.under_way.insert(new);
        let create = client::create(&session.znode, b"", client::EPHEMERAL);
        let answer = client.try_call(&Request::Write(create))?;
        assert_eq!(answer.header.error, ErrorCode::OK);
        session.is_made = true;
        self.end(&mut client)
    }

    fn end(&mut self, client: &mut Client) -> Option<()> {
        let session = self.under_way.as_mut().expect("one is under way");
        session.is_ending = true;
        let answer = client.try_call(&Request::CloseSession)?;
        assert_eq!(answer.header.error, ErrorCode::OK);
        self.world.on_zxid(answer.header.zxid);
        self.closed.extend(self.under_way.take());
        Some(())
    }
}

fn open(address: SocketAddr) -> Option<Client> {
    match Client::try_greet(address, 0, &[0; 16], 0) {
        Greeted::Ended => None,
        Greeted::Refused => panic!("a new session is refused"),
        Greeted::Attached(client) => Some(*client),
    }
}

/// Starts the clients as threads of `scope`, and returns how many there are.
pub fn start<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    world: &'scope World,
    workers: usize,
    seed: u64,
) -> usize {
    for id in 0..workers {
        scope.spawn(move || Worker::new(world, id, seed).run());
    }
    scope.spawn(move || Closer::new(world, seed).run());
    workers + 1
}

/// Creates the parents of the clients' znodes.
pub fn prepare(address: SocketAddr, workers: usize) {
    let mut client = Client::open(address, TIMEOUT_MS);
    let parts = (0..workers).flat_map(|id| [Part::parent(id), Part::sequential_parent(id)]);
    for path in parts.chain([SHARED.to_string(), "/closing".to_string()]) {
        client.create(&path, b"", 0).unwrap();
    }
    client.close();
}
