//! A client of etcd v2: writes, comparisons, reads and times to live, at whatever member, and one
//! wait that goes on where the one before ended. It keeps what it saw, for the judge.
//!
//! JSON and HTTP are not simulated: a request is what `etcd::v2` makes of its parameters, and an
//! answer is what the Front gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd::Error;
use etcd::v2::{Form, Request, Verb};
use machine::etcd_v2::event::Event;
use machine::etcd_v2::reply::{Reason, Refusal};
use member::fronts::etcd::{CallRefused, V2Found, V2Result, V2Waited};
use workload::etcd::history::CallId;
use workload::generate::Random;

/// The keys of all clients: few, so that they meet.
const KEYS: [&str; 6] = ["/d/a", "/d/b", "/d/c", "/d/_h", "/e", "/d"];

/// The keys that clients wait at.
const WAITED: [&str; 4] = ["/d", "/d", "/d/a", "/e"];

/// The operations that it still makes when nothing goes wrong any more.
const CALM_OPS_MAX: u64 = 10;

/// How it behaves.
#[derive(Clone, Debug)]
pub struct V2Config {
    /// The seed of all that is left to chance about it.
    pub seed: u64,
    /// The operations that it makes.
    pub ops: u64,
    /// The largest number of calls without an answer.
    pub calls_max: usize,
    /// The longest that it rests between two of them.
    pub rest_us_max: u64,
    /// While it has operations to make, and nothing waits, one of so many times it begins to wait
    /// again.
    pub wait_one_in: u64,
    /// Whether half of the operations are sets that compare nothing, which are done most often.
    pub sets_more: bool,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The method.
    pub verb: Verb,
    /// The key, or the directory of a key in order.
    pub key: &'static str,
    /// The value of a write, which no other write has.
    pub value: String,
    /// The time to live that it gives.
    pub ttl_s: Option<u64>,
    /// What must be there before: a value or an index, or a node at all.
    pub prev: Prev,
    /// Whether it only moves the end of the life of its key.
    pub is_refresh: bool,
    /// Of a removal: whether a directory may go with what is in it. Of a read: whether it must not
    /// miss what was acknowledged before.
    pub flag: bool,
}

/// What a write wants to be there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prev {
    /// Anything.
    Any,
    /// This value.
    Value(String),
    /// A write with this index.
    Index(u64),
    /// A node, or none.
    Exists(bool),
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its id, once it was sent.
    pub id: Option<CallId>,
    /// What it asked for.
    pub op: Op,
    /// When it was sent.
    pub sent_us: u64,
    /// When it ended, and how; `None` if it has not ended, and perhaps never will.
    pub came: Option<(u64, Came)>,
}

/// What came of a call.
#[derive(Clone, Debug)]
pub enum Came {
    /// A write did this.
    Written(Arc<Event>),
    /// A read found this file, or a directory, at this index.
    Found {
        /// The store's index.
        index: u64,
        /// The value and the indexes of the creation and of the last write; none of a directory.
        file: Option<(String, u64, u64)>,
    },
    /// The store has refused it.
    Refused(Refusal),
    /// It was refused before the log.
    Failed,
    /// Nobody knows whether it takes effect.
    Unknown,
}

/// How a wait began, or what ended it before it had all its events.
#[derive(Clone, Debug)]
pub enum Began {
    /// It began at this index of the store.
    At(u64),
    /// It was refused for the first index that it looks at.
    Refused(Refusal),
    /// Its next event was gone.
    Ended,
}

/// A chain of waits: each goes on where the one before ended. If that event is gone, the next one
/// goes on behind the index at which the store said so.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The key.
    pub key: &'static str,
    /// Whether keys below count.
    pub is_recursive: bool,
    is_stream: bool,
    /// The first index that counts; 0 before the first wait has begun.
    pub first: u64,
    /// The first index that the next wait looks at.
    pub next: u64,
    /// The events, each with the time at which it came.
    pub shown: Vec<(u64, Arc<Event>)>,
    /// How waits began or ended early, each with its time and the first index that the wait looked
    /// at.
    pub begun: Vec<(u64, u64, Began)>,
    /// The first and the last index of what was gone.
    pub gaps: Vec<(u64, u64)>,
}

/// What its client is to do next.
pub enum V2Act {
    /// Send a read or a write.
    Call(Request),
    /// Send a wait.
    Wait(Request),
}

/// A client of etcd v2.
pub struct V2Client {
    number: u32,
    config: V2Config,
    random: Random,
    ops_left: u64,
    /// The number of values that it has made.
    value_count: u64,
    /// The last values and indexes that it saw.
    seen: BTreeMap<&'static str, (String, u64)>,
    /// Its calls.
    pub calls: Vec<Call>,
    /// The calls without an answer, with their places in `calls`.
    open: BTreeMap<CallId, usize>,
    /// Its waits.
    pub line: Line,
    /// The wait that a member has.
    waiting: Option<CallId>,
    next_us: u64,
}

impl V2Client {
    /// A client with this number among all of etcd's.
    pub fn new(number: u32, config: V2Config) -> V2Client {
        let mut random = Random::new(config.seed);
        let key = *random.pick(&WAITED);
        let line = Line {
            key,
            is_recursive: random.one_in(2),
            is_stream: random.one_in(2),
            first: 0,
            next: 0,
            ..Line::default()
        };
        V2Client {
            number,
            ops_left: config.ops,
            config,
            random,
            value_count: 0,
            seen: BTreeMap::new(),
            calls: Vec::new(),
            open: BTreeMap::new(),
            line,
            waiting: None,
            next_us: 0,
        }
    }

    /// Whether it has made all its calls, and waits for no answer.
    pub fn is_done(&self) -> bool {
        self.ops_left == 0 && self.open.is_empty()
    }

    /// What it does, as text for people.
    pub fn describe(&self) -> String {
        let Line { key, next, shown, .. } = &self.line;
        let (open, shown) = (self.open.len(), shown.len());
        format!("v2: {} calls left, {open} open, waits at {key} for {next}, {shown}", self.ops_left)
    }

    /// Makes few more calls.
    pub fn calm_down(&mut self) {
        self.ops_left = self.ops_left.min(CALM_OPS_MAX);
    }

    /// When it wants to be asked again.
    pub fn wakes_us(&self) -> u64 {
        let has_room = self.open.len() < self.config.calls_max && self.ops_left > 0;
        match has_room || self.waiting.is_none() {
            true => self.next_us,
            false => u64::MAX,
        }
    }

    /// What its client is to do next.
    pub fn poll(&mut self, now_us: u64) -> Option<V2Act> {
        if self.wakes_us() > now_us {
            return None;
        }
        let wait_one_in = if self.line.first == 0 { 3 } else { self.config.wait_one_in };
        if self.waiting.is_none() && (self.ops_left == 0 || self.random.one_in(wait_one_in)) {
            return Some(V2Act::Wait(self.wait()));
        }
        if self.ops_left == 0 || self.open.len() >= self.config.calls_max {
            return None;
        }
        self.ops_left -= 1;
        self.next_us = now_us + self.random.magnitude(100, self.config.rest_us_max);
        let op = self.choose();
        let request = op.request();
        self.calls.push(Call { id: None, op, sent_us: now_us, came: None });
        Some(V2Act::Call(request))
    }

    /// The call of the last act was sent, as this one.
    pub fn on_call_sent(&mut self, id: CallId) {
        let place = self.calls.len() - 1;
        self.calls[place].id = Some(id);
        self.open.insert(id, place);
    }

    /// The wait of the last act was sent, as this one.
    pub fn on_wait_sent(&mut self, id: CallId) {
        self.waiting = Some(id);
    }

    fn wait(&self) -> Request {
        let Line { key, is_recursive, is_stream, next, .. } = self.line;
        let form =
            format!("wait=true&recursive={is_recursive}&stream={is_stream}&waitIndex={next}");
        request(Verb::Get, key, &form)
    }

    fn choose(&mut self) -> Op {
        let key = *self.random.pick(&KEYS);
        self.value_count += 1;
        let value = format!("{}-{}", self.number, self.value_count);
        let ttl_s = self.random.one_in(5).then(|| self.random.between(1, 6));
        let (prev, is_refresh, flag) = (Prev::Any, false, self.random.one_in(2));
        let op = Op { verb: Verb::Put, key, value, ttl_s, prev, is_refresh, flag };
        if self.config.sets_more && self.random.one_in(2) {
            return op;
        }
        let seen = self.seen.get(key).cloned();
        match (self.random.below(12), seen) {
            (0..3, _) => Op { verb: Verb::Get, ..op },
            (3, _) if key == "/d" => Op { verb: Verb::Delete, ..op },
            (3, _) => Op { verb: Verb::Delete, flag: false, ..op },
            (4, Some((_, index))) => Op { verb: Verb::Delete, prev: Prev::Index(index), ..op },
            (5 | 6, Some((value, _))) => Op { prev: Prev::Value(value), ..op },
            (7 | 8, Some((_, index))) => Op { prev: Prev::Index(index), ..op },
            (9, _) => Op { prev: Prev::Exists(false), ..op },
            (10, _) => Op { prev: Prev::Exists(true), ..op },
            (11, _) if self.random.one_in(2) => {
                Op { prev: Prev::Exists(true), is_refresh: true, ttl_s: Some(3), ..op }
            }
            (11, _) => Op { verb: Verb::Post, key: "/d", ..op },
            _ => op,
        }
    }

    /// A call has this result. Whether it is one of its own.
    pub fn on_result(&mut self, id: CallId, result: &V2Result, now_us: u64) -> bool {
        let came = match result {
            Ok(V2Found::Written(event)) => Came::Written(event.clone()),
            Ok(V2Found::Node(found)) => {
                let stat = found.node.stat;
                let text = |value: &Arc<[u8]>| String::from_utf8_lossy(value).into_owned();
                let file = found.node.value();
                let file = file.map(|value| (text(value), stat.created, stat.modified));
                Came::Found { index: found.index, file }
            }
            Ok(V2Found::Auth(_) | V2Found::AuthDone(_)) => return false,
            Err(refusal) => Came::Refused(refusal.clone()),
        };
        self.finish(id, came, now_us)
    }

    /// A call, or the wait, was refused. Whether it is one of its own.
    pub fn on_refused(&mut self, id: CallId, refused: CallRefused, now_us: u64) -> bool {
        if self.waiting == Some(id) {
            self.waiting = None;
            return true;
        }
        let is_nothing = matches!(
            refused,
            CallRefused::Error(
                Error::NoLeader | Error::TooManyRequests | Error::NotCapable | Error::NoSpace
            )
        );
        self.finish(id, if is_nothing { Came::Failed } else { Came::Unknown }, now_us)
    }

    /// Its client waits for the answer of a call no longer.
    pub fn on_given_up(&mut self, id: CallId, now_us: u64) {
        self.finish(id, Came::Unknown, now_us);
    }

    fn finish(&mut self, id: CallId, came: Came, now_us: u64) -> bool {
        let Some(place) = self.open.remove(&id) else { return false };
        let call = &mut self.calls[place];
        match &came {
            Came::Found { file: Some((value, _, modified)), .. } => {
                self.seen.insert(call.op.key, (value.clone(), *modified));
            }
            Came::Written(event) if *event.key == *call.op.key => {
                if let Some(value) = &event.node.value {
                    let value = String::from_utf8_lossy(value).into_owned();
                    self.seen.insert(call.op.key, (value, event.index()));
                }
            }
            _ => {}
        }
        call.came = Some((now_us, came));
        true
    }

    /// Something came of the wait. Whether a stream goes on, so that the member must be told that
    /// this was taken.
    ///
    /// # Errors
    /// A wait is refused for another reason than its index.
    pub fn on_waited(&mut self, id: CallId, waited: V2Waited, now_us: u64) -> Result<bool, String> {
        if self.waiting != Some(id) {
            return Ok(false);
        }
        match waited {
            V2Waited::Begun { index } => {
                self.line.begun.push((now_us, self.line.next, Began::At(index)));
                if self.line.first == 0 {
                    (self.line.first, self.line.next) = (index + 1, index + 1);
                }
                Ok(false)
            }
            V2Waited::Events(events) => {
                for event in events {
                    self.line.next = event.index() + 1;
                    self.line.shown.push((now_us, event));
                }
                if !self.line.is_stream {
                    self.waiting = None;
                }
                Ok(self.line.is_stream)
            }
            V2Waited::Refused(refusal) => {
                let Reason::HistoryCleared { .. } = refusal.reason else {
                    return Err(format!("a wait of etcd v2 is refused: {refusal:?}"));
                };
                let (next, index) = (self.line.next, refusal.index);
                self.line.begun.push((now_us, next, Began::Refused(refusal)));
                self.line.gaps.push((next, index));
                self.line.next = index + 1;
                self.waiting = None;
                Ok(false)
            }
            V2Waited::Ended => {
                self.line.begun.push((now_us, self.line.next, Began::Ended));
                self.waiting = None;
                Ok(false)
            }
        }
    }

    /// Its client has left the connection.
    pub fn on_left(&mut self, now_us: u64) {
        self.waiting = None;
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            self.on_given_up(id, now_us);
        }
    }
}

impl Op {
    /// The request that asks for it.
    fn request(&self) -> Request {
        let Op { verb, key, value, ttl_s, prev, is_refresh, flag } = self;
        let mut form = match verb {
            Verb::Get => format!("quorum={flag}"),
            Verb::Delete => format!("recursive={flag}&dir={flag}"),
            _ if *is_refresh => "refresh=true".to_string(),
            _ => format!("value={value}"),
        };
        if let Some(ttl_s) = ttl_s.filter(|_| !matches!(verb, Verb::Get | Verb::Delete)) {
            form += &format!("&ttl={ttl_s}");
        }
        form += &match prev {
            Prev::Any => String::new(),
            Prev::Value(value) => format!("&prevValue={value}"),
            Prev::Index(index) => format!("&prevIndex={index}"),
            Prev::Exists(exists) => format!("&prevExist={exists}"),
        };
        request(*verb, key, &form)
    }

    /// Whether it changes nothing.
    pub fn is_read(&self) -> bool {
        self.verb == Verb::Get
    }
}

fn request(verb: Verb, key: &str, parameters: &str) -> Request {
    let mut form = Form::default();
    form.add(parameters.as_bytes()).expect("the form is sound");
    Request::new(verb, key, form).expect("the request is sound")
}
