//! Clients that watch during faults. A client has a stream on a connection of its own. When the
//! stream breaks, it opens another one and resumes each watch behind the last event that the watch
//! has shown.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sim::etcd_clients::watch_wire;
use tokio::time::{sleep, timeout};
use workload::etcd::generate::KEYS;
use workload::etcd::op::Error;
use workload::etcd::watch::{NO_WATCH_ID, Response, Step, Wanted};
use workload::generate::Random;

use super::stream::{FromServer, Stream};
use super::world::{CALL_WAIT, EtcdWorld, lock};
use crate::server::PATIENCE;

/// How many watches a client has at most.
const WATCHES_MAX: usize = 6;
/// How long a client sometimes waits before it reads messages.
const TAKEN_LATE_MS_MAX: u64 = 1_000;
/// How often a client asks for progress while it waits for a revision.
const ASK: Duration = Duration::from_millis(100);

/// A line is one watch across all the streams on which the client resumes it.
struct Line {
    wanted: Wanted,
    /// The first revision that the watch has not shown; `None` until the server has said where the
    /// watch begins.
    next: Option<i64>,
}

/// The stream that is open now.
struct Open {
    stream: Stream,
    member: usize,
    /// The stream's number in the history.
    number: usize,
    /// Whether the server must end the stream if its member has no leader.
    requires_leader: bool,
    /// The lines whose create requests are not answered yet, in order.
    asked: VecDeque<usize>,
    /// The lines on this stream by their watch ids.
    open: BTreeMap<i64, usize>,
    /// The last revision up to which the server has promised to have sent all events of the stream.
    promised: i64,
}

/// A client that watches.
pub struct Watcher {
    world: Arc<EtcdWorld>,
    client: u32,
    random: Random,
    lines: BTreeMap<usize, Line>,
    line_count: usize,
}

impl Watcher {
    pub fn new(world: &Arc<EtcdWorld>, client: u32, random: Random) -> Watcher {
        let (world, lines) = (world.clone(), BTreeMap::new());
        Watcher { world, client, random, lines, line_count: 0 }
    }

    /// Watches until the test is over. Returns itself, so that the test can go on with it when the
    /// faults have ended.
    pub async fn run(mut self) -> Watcher {
        while !self.world.is_over() {
            let any = self.random.below(self.world.addresses.len() as u64) as usize;
            if let Some(mut open) = self.open(any).await {
                self.work(&mut open).await;
                self.world.note(open.number, Step::Left);
            }
            sleep(Duration::from_millis(self.random.between(5, 100))).await;
        }
        self
    }

    /// Resumes all watches, and waits until the server promises that they have shown everything up
    /// to `revision`, the last one.
    pub async fn finish(&mut self, revision: i64) {
        // etcd gives no promises to a stream that has a watch which begins later.
        self.lines.retain(|_, line| line.next.unwrap_or(line.wanted.start) <= revision + 1);
        let deadline = Instant::now() + PATIENCE;
        let mut open = self.open(0).await.expect("a member serves");
        for line in self.lines.keys().copied().collect::<Vec<_>>() {
            self.place(line, &mut open).expect("the stream goes on");
        }
        while !open.asked.is_empty() || (!open.open.is_empty() && open.promised < revision) {
            assert!(Instant::now() < deadline, "no promise of {revision}");
            self.ask_progress(&mut open).expect("the stream goes on");
            let until = Instant::now() + ASK;
            while let Some(left) = until.checked_duration_since(Instant::now())
                && let Ok(came) = timeout(left, open.stream.next()).await
            {
                let is_on = self.on_message(came, &mut open);
                is_on.expect("the stream goes on");
            }
        }
    }

    /// Opens a stream to a member; `None` if that fails.
    async fn open(&mut self, member: usize) -> Option<Open> {
        let requires_leader = self.random.one_in(3);
        let (address, headers) = (self.world.addresses[member], self.world.headers);
        let opening = Stream::open(address, headers, requires_leader);
        let stream = timeout(CALL_WAIT, opening).await.ok()??;
        let number = self.world.open_stream(self.client, member, requires_leader);
        let (asked, open) = (VecDeque::new(), BTreeMap::new());
        Some(Open { stream, member, number, requires_leader, asked, open, promised: 0 })
    }

    /// Watches on a stream until it ends, or the client leaves it at random.
    async fn work(&mut self, open: &mut Open) -> Option<()> {
        for line in self.lines.keys().copied().collect::<Vec<_>>() {
            self.place(line, open)?;
        }
        while !self.world.is_over() {
            let wait = Duration::from_millis(self.random.between(1, 200));
            if let Ok(came) = timeout(wait, open.stream.next()).await {
                self.on_message(came, open)?;
                if self.random.one_in(100) {
                    let late = Duration::from_millis(self.random.between(1, TAKEN_LATE_MS_MAX));
                    sleep(late).await;
                }
            }
            if self.random.one_in(8) {
                self.act(open)?;
            }
        }
        Some(())
    }

    /// Does something chosen at random; `None` if the stream has ended.
    fn act(&mut self, open: &mut Open) -> Option<()> {
        if self.lines.len() < WATCHES_MAX && self.random.one_in(2) {
            let wanted = self.draw();
            let line = self.add(wanted);
            self.place(line, open)?;
        }
        match self.random.below(24) {
            0..=5 => self.ask_progress(open),
            6..=8 if !open.open.is_empty() => {
                let ids: Vec<i64> = open.open.keys().copied().collect();
                let id = *self.random.pick(&ids);
                self.world.note(open.number, Step::Cancel(id));
                open.stream.send(&watch_wire::cancel(id))
            }
            9 => None,
            _ => Some(()),
        }
    }

    fn ask_progress(&self, open: &mut Open) -> Option<()> {
        self.world.note(open.number, Step::AskProgress);
        open.stream.send(&watch_wire::ask_progress())
    }

    /// Adds a watch for the next stream, and returns the number of its line.
    pub fn add(&mut self, wanted: Wanted) -> usize {
        let number = (self.client as usize) << 32 | self.line_count;
        self.line_count += 1;
        self.lines.insert(number, Line { wanted, next: None });
        number
    }

    /// Sends a request to create the line's watch, beginning behind what it has already shown.
    fn place(&mut self, number: usize, open: &mut Open) -> Option<()> {
        let id = if self.random.one_in(3) { self.random.between(1, 6) as i64 } else { 0 };
        let line = self.lines.get_mut(&number).expect("it goes on");
        line.wanted.id = id;
        line.wanted.start = line.next.unwrap_or(line.wanted.start);
        let wanted = line.wanted.clone();
        open.asked.push_back(number);
        self.world.note(open.number, Step::Create { line: number, wanted: wanted.clone() });
        open.stream.send(&watch_wire::create(&wanted))
    }

    /// Handles a message; `None` if the stream has ended.
    fn on_message(&mut self, came: Option<FromServer>, open: &mut Open) -> Option<()> {
        let response = match came? {
            FromServer::Message(response) => response,
            FromServer::Ended(error) => {
                let is_right = open.requires_leader && error == Error::NoLeader;
                assert!(is_right, "the stream ended with {error:?}");
                return None;
            }
        };
        self.world.check_served(open.member, open.stream.served());
        self.on_response(&response, open);
        self.world.note(open.number, Step::Response(response));
        Some(())
    }

    fn on_response(&mut self, response: &Response, open: &mut Open) {
        if response.is_created {
            let Some(line) = open.asked.pop_front() else { return };
            if response.is_canceled {
                self.lines.remove(&line);
                return;
            }
            let start = self.lines[&line].wanted.start;
            self.go_on(line, if start == 0 { response.revision + 1 } else { start });
            open.open.insert(response.watch_id, line);
        } else if response.is_canceled {
            let ended = open.open.remove(&response.watch_id);
            let Some(line) = ended.and_then(|line| self.lines.remove(&line)) else { return };
            if response.compact_revision > 0 {
                let start = if self.random.one_in(2) { response.compact_revision } else { 0 };
                let again = self.add(Wanted { start, ..line.wanted });
                // If the stream has ended, the next stream creates the watch.
                let _ = self.place(again, open);
            }
        } else if response.watch_id == NO_WATCH_ID {
            open.promised = open.promised.max(response.revision);
            open.open.values().for_each(|line| self.go_on(*line, response.revision + 1));
        } else if let Some(line) = open.open.get(&response.watch_id)
            && !response.is_fragment
        {
            let last = response.events.last().map_or(response.revision, |it| it.pair.mod_revision);
            self.go_on(*line, last + 1);
        }
    }

    /// Records that a line has shown everything below revision `next`.
    fn go_on(&mut self, line: usize, next: i64) {
        if let Some(line) = self.lines.get_mut(&line) {
            line.next = Some(line.next.map_or(next, |it| it.max(next)));
        }
    }

    fn draw(&mut self) -> Wanted {
        let newest = lock(&self.world.newest).max(1);
        let random = &mut self.random;
        let (key, end) = (random.pick(&KEYS).to_vec(), random.pick(&KEYS).to_vec());
        let (key, range_end) = match random.below(8) {
            0 | 1 => (key, Vec::new()),
            2 => (key, end),
            3 => (key, vec![0]),
            4 => (vec![0], end),
            _ => (vec![0], vec![0]),
        };
        let start = match random.below(12) {
            0..=5 => 0,
            6..=9 => (newest - random.magnitude(1, 64) as i64).max(1),
            10 => newest + random.between(1, 20) as i64,
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
