//! The watches of an etcd client. A *line* is one watch over time: when its stream or its
//! connection ends, the line continues with a new watch behind the last event that it has shown.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use member::fronts::etcd::Credentials;
use workload::etcd::generate::KEYS;
use workload::etcd::history::History;
use workload::etcd::watch::{NO_WATCH_ID, Response, Step, Wanted};
use workload::generate::Random;

use super::network::{EtcdNetwork, FromClient, FromWatcher, ToWatcher};
use super::watch_wire;
use super::wire::{self, Served};
use crate::world::World;

/// The most watch streams on one connection.
const STREAMS_MAX: usize = 3;

/// How often a client asks for progress while it waits for a revision, in us (kube-apiserver:
/// `cacher.progressRequestPeriod`).
const ASK_US: u64 = 100_000;

/// The time between two attempts to give streams to followed lines, in us.
const PLACE_US: u64 = 100_000;

/// The longest that a client takes to acknowledge messages, in us.
pub const TAKEN_LATE_US_MAX: u64 = 3_000_000;

/// One line: a watch that continues on new streams.
struct Line {
    wanted: Wanted,
    /// The first revision that the line has not shown; `None` if no server has said where the line
    /// begins.
    next: Option<i64>,
}

/// A stream on the current connection.
struct Stream {
    /// The stream's number in the history.
    number: usize,
    /// The lines whose requests for a watch are unanswered, in order.
    asked: VecDeque<usize>,
    /// The lines by the ids of their watches.
    open: BTreeMap<i64, usize>,
    /// The highest revision that a notice of progress promised for all its watches.
    promised: i64,
}

/// The current connection, and the world around it.
pub struct Around<'a> {
    /// The number of the connection.
    pub connection: usize,
    /// The virtual world.
    pub world: &'a mut World,
    /// The network of etcd clients.
    pub network: &'a mut EtcdNetwork,
    /// The history of the run.
    pub history: &'a mut History,
    /// Whether the client acknowledges messages without delay.
    pub is_calm: bool,
}

impl Around<'_> {
    fn note(&mut self, stream: usize, step: Step) {
        self.history.note_watch(stream, step, self.world.now_us);
    }

    fn send(&mut self, stream: usize, message: FromWatcher) {
        self.network.send_up(self.world, self.connection, FromClient::Watch(stream, message));
    }
}

/// The revision that all streams must promise at the end of a run.
#[derive(Clone, Copy, Debug)]
struct Target {
    revision: i64,
    /// When the client next asks for progress, in us.
    ask_us: u64,
}

/// All watches of a client.
pub struct Watcher {
    client: u32,
    /// The client's credentials.
    credentials: Credentials,
    random: Random,
    /// The most lines that the watcher begins at random.
    watches_max: usize,
    lines: BTreeMap<usize, Line>,
    line_count: usize,
    streams: Vec<Stream>,
    /// Lines without a stream.
    unplaced: Vec<usize>,
    /// The newest revision that the client has seen.
    newest: i64,
    target: Option<Target>,
    /// Lines that the client itself uses, and that are not ended at random.
    followed: BTreeSet<usize>,
    /// Lines that the client no longer uses, and whose watches have not ended yet.
    forgotten: BTreeSet<usize>,
    /// Responses for followed lines, in order.
    news: Vec<(usize, Response)>,
    /// When lines without a stream may next get one, in us.
    place_us: u64,
}

impl Watcher {
    /// A client without watches.
    pub fn new(
        (client, credentials): (u32, Credentials),
        random: Random,
        watches_max: usize,
    ) -> Watcher {
        Watcher {
            client,
            credentials,
            random,
            watches_max,
            lines: BTreeMap::new(),
            line_count: 0,
            streams: Vec::new(),
            unplaced: Vec::new(),
            newest: 1,
            target: None,
            followed: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            news: Vec::new(),
            place_us: 0,
        }
    }

    /// Begins a followed line for the client. Returns the number of the line.
    pub fn follow(&mut self, wanted: Wanted) -> usize {
        let line = self.add(wanted);
        self.followed.insert(line);
        line
    }

    /// Ends a followed line.
    pub fn forget(&mut self, line: usize, mut around: Around<'_>) {
        self.followed.remove(&line);
        self.news.retain(|(of, _)| *of != line);
        if self.unplaced.contains(&line) {
            self.unplaced.retain(|of| *of != line);
            self.lines.remove(&line);
            return;
        }
        if self.lines.contains_key(&line) {
            self.forgotten.insert(line);
            self.cancel(line, &mut around);
        }
    }

    /// Cancels the watch of a line, if the watch was created.
    fn cancel(&self, line: usize, around: &mut Around<'_>) {
        for stream in &self.streams {
            for (id, _) in stream.open.iter().filter(|(_, of)| **of == line) {
                around.note(stream.number, Step::Cancel(*id));
                around.send(stream.number, FromWatcher::Request(watch_wire::cancel(*id)));
            }
        }
    }

    /// Gives a stream to each line that has none, if the client follows any line and the time has
    /// come.
    pub fn place_followed(&mut self, mut around: Around<'_>) {
        if self.followed.is_empty() || self.place_us > around.world.now_us {
            return;
        }
        if !self.unplaced.is_empty() {
            self.place_us = around.world.now_us + PLACE_US;
            self.place_all(&mut around);
        }
    }

    /// When [`Watcher::place_followed`] is due, in us.
    pub fn places_us(&self) -> u64 {
        let is_due = !self.followed.is_empty() && !self.unplaced.is_empty();
        if is_due { self.place_us } else { u64::MAX }
    }

    /// Takes the responses for followed lines.
    pub fn take_news(&mut self) -> Vec<(usize, Response)> {
        core::mem::take(&mut self.news)
    }

    /// Notes a revision that the client has seen.
    pub fn observe(&mut self, revision: i64) {
        self.newest = self.newest.max(revision);
    }

    /// Whether some line has no stream.
    pub fn has_unplaced(&self) -> bool {
        !self.unplaced.is_empty()
    }

    /// From now on, waits until all streams have promised this revision.
    pub fn wait_for(&mut self, revision: i64, now_us: u64) {
        self.target = Some(Target { revision, ask_us: now_us });
        self.streams.iter_mut().for_each(|stream| stream.promised = 0);
    }

    /// Whether all streams have promised the revision. A stream without watches counts, since etcd
    /// promises nothing there.
    pub fn is_done(&self) -> bool {
        self.target.is_none_or(|target| {
            let is_done = |stream: &Stream| {
                stream.asked.is_empty()
                    && (stream.open.is_empty() || stream.promised >= target.revision)
            };
            self.unplaced.is_empty() && self.streams.iter().all(is_done)
        })
    }

    /// When the watcher next asks for progress, in us.
    pub fn wakes_us(&self) -> u64 {
        let target = self.target.filter(|_| !self.is_done());
        target.map_or(u64::MAX, |target| target.ask_us)
    }

    /// A description of what the watcher waits for, as text for people.
    pub fn describe(&self) -> String {
        let streams = self.streams.iter().map(|it| (it.number, &it.asked, &it.open, it.promised));
        let streams: Vec<_> = streams.collect();
        format!("{:?}, unplaced {:?}, streams {streams:?}", self.target, self.unplaced)
    }

    /// Does something at random, once per burst of calls of its client: begins or cancels a watch,
    /// asks for progress, or closes a stream.
    pub fn act(&mut self, mut around: Around<'_>) {
        if self.watches_max == 0 || self.target.is_some() {
            return;
        }
        self.place_all(&mut around);
        if self.lines.len() < self.watches_max && self.random.one_in(2) {
            let wanted = self.draw();
            self.add(wanted);
            self.place_all(&mut around);
        }
        if self.streams.is_empty() {
            return;
        }
        let at = self.random.below(self.streams.len() as u64) as usize;
        match self.random.below(24) {
            0..=3 => self.ask_progress(at, &mut around),
            4 => self.cancel_one(at, &mut around),
            5 if !around.is_calm => {
                let number = self.streams[at].number;
                around.note(number, Step::Left);
                around.send(number, FromWatcher::Close);
                self.lose(at);
            }
            _ => {}
        }
    }

    /// If the watcher waits for a revision and the time has come: continues all lines and asks for
    /// progress.
    pub fn ask_when_due(&mut self, mut around: Around<'_>) {
        let Some(target) = self.target else { return };
        if self.is_done() || around.world.now_us < target.ask_us {
            return;
        }
        let ask_us = around.world.now_us + ASK_US;
        self.target = Some(Target { ask_us, ..target });
        self.forget_late_ones(target.revision, &mut around);
        self.place_all(&mut around);
        for at in 0..self.streams.len() {
            if self.streams[at].promised < target.revision {
                self.ask_progress(at, &mut around);
            }
        }
    }

    /// Cancels the watches that start above this revision, since etcd promises no progress on their
    /// streams.
    fn forget_late_ones(&mut self, revision: i64, around: &mut Around<'_>) {
        let late = |line: &Line| line.next.unwrap_or(line.wanted.start) > revision + 1;
        for stream in &self.streams {
            for (id, _) in stream.open.iter().filter(|(_, line)| late(&self.lines[line])) {
                around.note(stream.number, Step::Cancel(*id));
                around.send(stream.number, FromWatcher::Request(watch_wire::cancel(*id)));
            }
        }
        self.unplaced.retain(|line| !late(&self.lines[line]));
        let is_on_stream = |line: &usize| {
            self.streams
                .iter()
                .any(|it| it.asked.contains(line) || it.open.values().any(|of| of == line))
        };
        let is_kept = |line: &usize| self.unplaced.contains(line) || is_on_stream(line);
        let kept: Vec<usize> = self.lines.keys().copied().filter(is_kept).collect();
        self.lines.retain(|line, _| kept.contains(line));
    }

    /// The connection has ended.
    pub fn on_left(&mut self, history: &mut History, now_us: u64) {
        while let Some(stream) = self.streams.first() {
            history.note_watch(stream.number, Step::Left, now_us);
            self.lose(0);
        }
    }

    /// Handles a message on a stream.
    ///
    /// # Errors
    /// The client could not understand it.
    pub fn on_arrival(
        &mut self,
        number: usize,
        message: ToWatcher,
        by: Served,
        mut around: Around<'_>,
    ) -> Result<(), String> {
        // The client has already left this stream.
        let Some(at) = self.streams.iter().position(|it| it.number == number) else {
            return Ok(());
        };
        match message {
            ToWatcher::Ended(refused) => {
                let error = wire::decode_error(&refused)?;
                around.note(number, Step::Ended(error));
                self.lose(at);
            }
            ToWatcher::Messages(messages) => {
                for message in messages {
                    let response = watch_wire::decode(&message, by)?;
                    let asked = self.streams[at].asked.front().filter(|_| response.is_created);
                    let late = asked.copied().filter(|line| self.forgotten.contains(line));
                    let followed = self.on_response(at, &response);
                    self.news.extend(followed.map(|line| (line, response.clone())));
                    around.note(number, Step::Response(response));
                    late.into_iter().for_each(|line| self.cancel(line, &mut around));
                }
                let late_us = match !around.is_calm && self.random.one_in(4) {
                    true => self.random.magnitude(1, TAKEN_LATE_US_MAX),
                    false => 0,
                };
                let (connection, taken) = (around.connection, FromClient::WatchTaken(number));
                around.network.send_up_late(around.world, connection, taken, late_us);
            }
        }
        Ok(())
    }

    /// Handles a response on a stream. Returns the response's line if the client follows it.
    fn on_response(&mut self, at: usize, response: &Response) -> Option<usize> {
        self.newest = self.newest.max(response.revision);
        let Watcher { streams, lines, .. } = self;
        let stream = &mut streams[at];
        if response.is_created {
            let line = stream.asked.pop_front()?;
            if response.is_canceled {
                lines.remove(&line);
                return self.followed.take(&line);
            }
            let start = lines[&line].wanted.start;
            go_on(lines, line, if start == 0 { response.revision + 1 } else { start });
            stream.open.insert(response.watch_id, line);
        } else if response.is_canceled {
            let number = stream.open.remove(&response.watch_id)?;
            let line = lines.remove(&number)?;
            if self.forgotten.remove(&number) {
                return None;
            }
            if self.followed.remove(&number) {
                return Some(number);
            }
            if response.compact_revision > 0 {
                let start = if self.random.one_in(2) { response.compact_revision } else { 0 };
                self.add(Wanted { start, ..line.wanted });
            }
        } else if response.watch_id == NO_WATCH_ID {
            stream.promised = stream.promised.max(response.revision);
            stream.open.values().for_each(|line| go_on(lines, *line, response.revision + 1));
        } else if let Some(line) = stream.open.get(&response.watch_id) {
            let last = response.events.last().map_or(response.revision, |it| it.pair.mod_revision);
            if !response.is_fragment {
                go_on(lines, *line, last + 1);
            }
            return self.followed.get(line).copied();
        }
        None
    }

    /// A stream has ended: its lines need another stream.
    fn lose(&mut self, at: usize) {
        let stream = self.streams.remove(at);
        for line in stream.asked.into_iter().chain(stream.open.into_values()) {
            if self.forgotten.remove(&line) {
                self.lines.remove(&line);
            }
            self.unplaced.push(line);
        }
        self.unplaced.retain(|line| self.lines.contains_key(line));
    }

    fn add(&mut self, wanted: Wanted) -> usize {
        let number = (self.client as usize) << 32 | self.line_count;
        self.line_count += 1;
        self.lines.insert(number, Line { wanted, next: None });
        self.unplaced.push(number);
        number
    }

    /// Requests a watch for each line without a stream.
    fn place_all(&mut self, around: &mut Around<'_>) {
        for line in core::mem::take(&mut self.unplaced) {
            let count = self.streams.len();
            let is_new = count == 0 || (count < STREAMS_MAX && self.random.one_in(3));
            let at = match is_new {
                true => self.open_stream(around),
                false => self.random.below(count as u64) as usize,
            };
            let id = if self.random.one_in(3) { self.random.between(1, 6) as i64 } else { 0 };
            let of_line = self.lines.get_mut(&line).expect("a line without a stream goes on");
            of_line.wanted.id = id;
            of_line.wanted.start = of_line.next.unwrap_or(of_line.wanted.start);
            let (wanted, stream) = (of_line.wanted.clone(), &mut self.streams[at]);
            stream.asked.push_back(line);
            around.send(stream.number, FromWatcher::Request(watch_wire::create(&wanted)));
            around.note(stream.number, Step::Create { line, wanted });
        }
    }

    fn open_stream(&mut self, around: &mut Around<'_>) -> usize {
        // A client that follows lines may pause, and would then learn late that its stream has
        // ended.
        let requires_leader = self.random.one_in(3) && self.watches_max > 0;
        let (connection, now_us) = (around.connection, around.world.now_us);
        let credentials = self.credentials.clone();
        let number = around.history.open_stream(connection, requires_leader, now_us);
        around.send(number, FromWatcher::Open { requires_leader, credentials });
        let (asked, open) = (VecDeque::new(), BTreeMap::new());
        self.streams.push(Stream { number, asked, open, promised: 0 });
        self.streams.len() - 1
    }

    fn ask_progress(&mut self, at: usize, around: &mut Around<'_>) {
        let number = self.streams[at].number;
        around.note(number, Step::AskProgress);
        around.send(number, FromWatcher::Request(watch_wire::ask_progress()));
    }

    fn cancel_one(&mut self, at: usize, around: &mut Around<'_>) {
        let stream = &self.streams[at];
        if stream.open.is_empty() {
            return;
        }
        let ids: Vec<i64> = stream.open.keys().copied().collect();
        let id = *self.random.pick(&ids);
        around.note(stream.number, Step::Cancel(id));
        around.send(stream.number, FromWatcher::Request(watch_wire::cancel(id)));
    }

    fn draw(&mut self) -> Wanted {
        let random = &mut self.random;
        let (key, end) = (random.pick(&KEYS).to_vec(), random.pick(&KEYS).to_vec());
        let (key, range_end) = match random.below(8) {
            0..=2 => (key, Vec::new()),
            3 => (key, end),
            4 => (key, vec![0]),
            5 => (vec![0], end),
            _ => (vec![0], vec![0]),
        };
        let start = match random.below(12) {
            0..=5 => 0,
            6..=9 => (self.newest - random.magnitude(1, 64) as i64).max(1),
            10 => self.newest + random.between(1, 20) as i64,
            _ => *random.pick(&[-1, 1]),
        };
        Wanted {
            key,
            range_end,
            start,
            prev_kv: random.one_in(2),
            no_put: random.one_in(6),
            no_delete: random.one_in(6),
            fragment: random.one_in(2),
            progress_notify: random.one_in(3),
            id: 0,
        }
    }
}

/// Notes that a line has shown everything below this revision.
fn go_on(lines: &mut BTreeMap<usize, Line>, line: usize, next: i64) {
    if let Some(line) = lines.get_mut(&line) {
        line.next = Some(line.next.map_or(next, |it| it.max(next)));
    }
}
