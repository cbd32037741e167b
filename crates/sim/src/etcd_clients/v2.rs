//! A client of etcd v2: makes writes, comparisons, reads and keys with a time to live, at whichever
//! member it is connected to, and one wait at a time, which continues where the previous wait
//! ended. It only records what it saw; the judge is `check/etcd_v2.rs`.
//!
//! JSON and HTTP are not simulated: a request is what `etcd::v2` makes of its parameters, and an
//! answer is what the Front returns.

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd::Error;
use etcd::v2::{Form, Request, Verb};
use machine::etcd_v2::event::Event;
use machine::etcd_v2::reply::{Reason, Refusal};
use member::fronts::etcd::{CallRefused, V2Found, V2Result, V2Waited};
use workload::etcd::history::CallId;
use workload::generate::Random;

/// The keys of all clients: few, so that the clients interfere.
const KEYS: [&str; 6] = ["/d/a", "/d/b", "/d/c", "/d/_h", "/e", "/d"];

/// The keys that clients wait at.
const WAITED: [&str; 4] = ["/d", "/d", "/d/a", "/e"];

/// The most operations that a client still makes after the faults have stopped.
const CALM_OPS_MAX: u64 = 10;

/// How the client behaves.
#[derive(Clone, Debug)]
pub struct V2Config {
    /// The seed of the client's random choices.
    pub seed: u64,
    /// How many operations the client makes.
    pub ops: u64,
    /// The most open calls.
    pub calls_max: usize,
    /// The longest pause between two operations, in us.
    pub rest_us_max: u64,
    /// While the client has operations left and no open wait, it begins a wait in one of this many
    /// polls.
    pub wait_one_in: u64,
    /// Whether half of the operations are sets without a comparison, which mostly succeed.
    pub sets_more: bool,
}

/// An operation on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The method.
    pub verb: Verb,
    /// The key; for a `POST`, the directory in which the store creates a key.
    pub key: &'static str,
    /// The value of a write, unique in the run.
    pub value: String,
    /// The time to live, in s; `None` for none.
    pub ttl_s: Option<u64>,
    /// The condition on the node before the write.
    pub prev: Prev,
    /// Whether the operation only renews the time to live of the key.
    pub is_refresh: bool,
    /// For a delete: whether it may delete a directory with its contents. For a read: whether it
    /// needs a quorum.
    pub flag: bool,
}

/// The condition that the node must meet before a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prev {
    /// No condition.
    Any,
    /// The node has this value.
    Value(String),
    /// The node's last write had this index.
    Index(u64),
    /// The node exists (`true`) or does not.
    Exists(bool),
}

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Call {
    /// The call's id; `None` before it is sent.
    pub id: Option<CallId>,
    /// The operation.
    pub op: Op,
    /// When the call was sent, in us.
    pub sent_us: u64,
    /// When the call ended, in us, and how; `None` while it is open.
    pub came: Option<(u64, Came)>,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub enum Came {
    /// The write succeeded with this event.
    Written(Arc<Event>),
    /// The read found a file or a directory.
    Found {
        /// The store's index at the read.
        index: u64,
        /// The file's value, and the indexes of its creation and its last write; `None` for a
        /// directory.
        file: Option<(String, u64, u64)>,
    },
    /// The store refused the call.
    Refused(Refusal),
    /// The call was refused before it entered the log.
    Failed,
    /// The fate is unknown.
    Unknown,
}

/// How a wait began, or ended early.
#[derive(Clone, Debug)]
pub enum Began {
    /// The wait began when the store was at this index.
    At(u64),
    /// The wait was refused because the history does not reach back to its first index.
    Refused(Refusal),
    /// The wait ended because the history had dropped its next event.
    Ended,
}

/// A line of waits at one key, each continuing where the previous one ended. If the next event is
/// gone from the history, the line continues behind the store's index at that moment.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The key.
    pub key: &'static str,
    /// Whether events at keys below the key count, too.
    pub is_recursive: bool,
    is_stream: bool,
    /// The index from which events count; 0 before the first wait has begun.
    pub first: u64,
    /// The first index that the next wait asks for.
    pub next: u64,
    /// The events received, each with its time in us.
    pub shown: Vec<(u64, Arc<Event>)>,
    /// How each wait began or ended early: the time in us, the first index that the wait asked for,
    /// and what happened.
    pub begun: Vec<(u64, u64, Began)>,
    /// The first and the last index of each gap, where the history had dropped events.
    pub gaps: Vec<(u64, u64)>,
}

/// An act that the client must carry out.
pub enum V2Act {
    /// Send a read or a write.
    Call(Request),
    /// Send a wait.
    Wait(Request),
}

/// One client of etcd v2.
pub struct V2Client {
    number: u32,
    config: V2Config,
    random: Random,
    ops_left: u64,
    /// How many values the client has made.
    value_count: u64,
    /// For each key, the last value that it saw and that value's index.
    seen: BTreeMap<&'static str, (String, u64)>,
    /// All its calls, in order.
    pub calls: Vec<Call>,
    /// The open calls, with their positions in `calls`.
    open: BTreeMap<CallId, usize>,
    /// The client's waits.
    pub line: Line,
    /// The open wait; `None` without one.
    waiting: Option<CallId>,
    next_us: u64,
}

impl V2Client {
    /// A client with this number among all etcd clients.
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

    /// Whether the client has made all its calls and has all answers.
    pub fn is_done(&self) -> bool {
        self.ops_left == 0 && self.open.is_empty()
    }

    /// The client's state, as text for people.
    pub fn describe(&self) -> String {
        let Line { key, next, shown, .. } = &self.line;
        let (open, shown) = (self.open.len(), shown.len());
        format!("v2: {} calls left, {open} open, waits at {key} for {next}, {shown}", self.ops_left)
    }

    /// Limits the operations that it still makes.
    pub fn calm_down(&mut self) {
        self.ops_left = self.ops_left.min(CALM_OPS_MAX);
    }

    /// When the client must be polled next, in us.
    pub fn wakes_us(&self) -> u64 {
        let has_room = self.open.len() < self.config.calls_max && self.ops_left > 0;
        match has_room || self.waiting.is_none() {
            true => self.next_us,
            false => u64::MAX,
        }
    }

    /// The next act for the etcd client to perform; `None` if nothing is due.
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

    /// The call that the client wanted was sent with this id.
    pub fn on_call_sent(&mut self, id: CallId) {
        let place = self.calls.len() - 1;
        self.calls[place].id = Some(id);
        self.open.insert(id, place);
    }

    /// The wait that the client wanted was sent with this id.
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

    /// A result arrived. Returns whether it belongs to an open call of this client.
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

    /// A call or the wait was refused. Returns whether it belongs to this client.
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

    /// The etcd client has cancelled a call.
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

    /// Something arrived for a wait. Returns whether the client must acknowledge it, because the
    /// wait is a stream that continues.
    ///
    /// # Errors
    /// The wait was refused for a reason other than its index.
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

    /// The etcd client has left the connection.
    pub fn on_left(&mut self, now_us: u64) {
        self.waiting = None;
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            self.on_given_up(id, now_us);
        }
    }
}

impl Op {
    /// The request for this operation.
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

    /// Whether the operation is a read.
    pub fn is_read(&self) -> bool {
        self.verb == Verb::Get
    }
}

fn request(verb: Verb, key: &str, parameters: &str) -> Request {
    let mut form = Form::default();
    form.add(parameters.as_bytes()).expect("the form is sound");
    Request::new(verb, key, form).expect("the request is sound")
}
