//! Scenario 2: publishers create ephemerals on paths that subscribers watch before the znodes
//! exist.
//!
//! A *stage* publishes some items; a test has a warm-up stage and one that counts. A stage has
//! three steps.
//!
//! - Subscribe: subscribers set all watches, by `exists` on absent paths.
//! - Publish: each publisher creates an ephemeral on each of its paths. A subscriber that gets an
//!   event reads the data, one read at a time, like a synchronous client.
//! - Settle: each subscriber sends a sync. After its answer no event of the stage can come.
//!
//! Paths are computed and not stored: a subscription takes one byte, an item 8 bytes for its time.

use std::collections::VecDeque;

use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::ReplyHeader;
use zk::{AclEntry, ErrorCode, JuteReader};

use super::item::ITEM_BYTES;
use super::options::share;
use super::outcome::{Outcome, Results};
use super::pace::Pace;
use super::processes::Gate;
use super::subscriptions::{Fired, Subscriptions};
use super::{Kind, Shape, item, resident};
use crate::limits::{SILENCE_LIMIT, SUBSCRIBING_REQUESTS};
use crate::measure::comparison::Turn;
use crate::measure::driver::{Driver, Load, Next};
use crate::measure::figures::Block;
use crate::measure::meter::{Meter, Tally};
use crate::measure::stats::Phase;
use crate::workloads::zk::client::Session;
use crate::workloads::zk::latencies::EPHEMERAL;
use crate::workloads::zk::tree::{Tree, open_acl};

/// `Watcher.Event.EventType.NodeCreated`.
const CREATED: i32 = 1;

/// Runs one test: first the warm-up items, then those that count. At `gate` all processes of a test
/// wait for each other, so that they publish from the same moment.
///
/// # Errors
/// The server stays silent while answers or events are due.
pub fn run(
    driver: &mut Driver,
    turn: &Turn<'_>,
    (shape, tree): (&Shape, &Tree),
    gate: &mut dyn Gate,
    block: &mut Block,
) -> anyhow::Result<Outcome> {
    let mut load = ItemLoad::new(shape, tree);
    let mut outcome = Outcome::default();
    for (name, items) in [("warm-up", shape.warmup), ("items", shape.items)] {
        turn.say(&format!("{name}, setting watches"));
        let meter = Meter::start(driver, turn.target);
        load.begin_stage(items, driver.now_ns());
        load.run(driver)?;
        block.blame(&meter.stop(driver, "setting watches", load.results.watches.clone()));
        let subscribed = resident("VmRSS with all watches set", turn.target);
        turn.say(name);
        gate.pass()?;
        let meter = Meter::start(driver, turn.target);
        load.begin_publishing(Pace::start(driver, shape.rate), driver);
        load.run(driver)?;
        let cost = meter.stop(driver, name, Tally::default());
        load.begin_settling(driver.now_ns());
        if name == "items" {
            gate.pass()?;
            // Waiting at the gate was no silence of the server.
            load.last_ns = driver.now_ns();
        }
        load.run(driver)?;
        outcome = load.outcome(&cost);
        block.blame(&Phase { name, ..outcome.phase() });
        if name == "items" {
            block.figures.extend(outcome.figures(load.is_reading));
            block.latencies.extend(outcome.latencies(load.is_reading));
            block.figures.push(subscribed);
        }
    }
    Ok(outcome)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Subscribe,
    Publish,
    Settle,
}

/// A publisher's items. Their numbers go on through all stages.
#[derive(Clone, Debug, Default)]
struct Publisher {
    /// For each item that was sent, the time at which its latency begins, ns of the driver.
    since_ns: Vec<u64>,
    /// How many creates were answered.
    answered: usize,
}

/// The reads of a subscriber, each as the number of the path.
#[derive(Clone, Debug, Default)]
struct Reader {
    under_way: Option<usize>,
    waiting: VecDeque<usize>,
}

/// The load of all clients. The first clients are publishers, the others subscribers. Publisher `i
/// % publishers` creates item `i` of a stage.
struct ItemLoad<'a> {
    tree: &'a Tree,
    acl: Vec<AclEntry>,
    data: Vec<u8>,
    is_reading: bool,
    step: Step,
    /// The number of items in earlier stages.
    before: u64,
    /// The number of items in this stage.
    items: u64,
    pace: Pace,
    publishers: Vec<Publisher>,
    /// How many publishers have neither finished this stage nor lost their session.
    publishing: usize,
    readers: Vec<Reader>,
    /// How many reads are under way or waiting, all subscribers together.
    reads_left: usize,
    subscriptions: Subscriptions,
    results: Results,
    /// For each subscriber, whether it has sent its sync.
    has_synced: Vec<bool>,
    last_create_ns: u64,
    /// When the last event or read of the stage's items came, ns of the driver.
    all_seen_ns: u64,
    /// When the last answer or event came, ns of the driver.
    last_ns: u64,
    /// Whether nothing has come for [`SILENCE_LIMIT`], so that the run was given up.
    is_silent: bool,
    path: String,
}

impl ItemLoad<'_> {
    fn new<'a>(shape: &Shape, tree: &'a Tree) -> ItemLoad<'a> {
        let (publishers, subscribers) =
            (shape.connections.publishers, shape.connections.subscribers);
        ItemLoad {
            tree,
            acl: open_acl(),
            data: tree.data().to_vec(),
            is_reading: shape.kind == Kind::EventThenRead,
            step: Step::Subscribe,
            before: 0,
            items: 0,
            pace: Pace { start_ns: 0, spacing_ns: None },
            publishers: vec![Publisher::default(); publishers],
            publishing: publishers,
            readers: vec![Reader::default(); subscribers],
            reads_left: 0,
            subscriptions: Subscriptions::new(publishers, subscribers),
            results: Results::default(),
            has_synced: Vec::new(),
            last_create_ns: 0,
            all_seen_ns: 0,
            last_ns: 0,
            is_silent: false,
            path: String::new(),
        }
    }

    /// Begins the next stage with its first step, which sets the watches.
    fn begin_stage(&mut self, items: u64, now_ns: u64) {
        self.before += self.items;
        self.items = items;
        self.results = Results::default();
        self.step = Step::Subscribe;
        self.last_ns = now_ns;
    }

    fn begin_publishing(&mut self, pace: Pace, driver: &Driver) {
        self.step = Step::Publish;
        self.pace = pace;
        (self.last_ns, self.last_create_ns) = (pace.start_ns, pace.start_ns);
        self.publishing = self.publishers.len();
        // The driver does not report again the clients that were lost in earlier steps.
        for (client, _) in driver.lost() {
            self.finish(client);
        }
    }

    fn begin_settling(&mut self, now_ns: u64) {
        self.step = Step::Settle;
        self.all_seen_ns = self.last_ns;
        self.last_ns = now_ns;
        self.has_synced = vec![false; self.readers.len()];
    }

    /// Runs the current step.
    fn run(&mut self, driver: &mut Driver) -> anyhow::Result<()> {
        let end = driver.run(self);
        if self.is_silent {
            anyhow::bail!(
                "nothing came back for {} s: {}",
                SILENCE_LIMIT.as_secs(),
                self.unfinished()
            );
        }
        end.map_err(|error| anyhow::anyhow!("{error}: {}", self.unfinished()))
    }

    /// Describes the answers and events that are still due.
    fn unfinished(&mut self) -> String {
        let sent: usize = self.publishers.iter().map(|it| it.since_ns.len() - it.answered).sum();
        let (reads, due) = (self.reads_left, self.subscriptions.due());
        let mut out = format!("{sent} creates and {reads} reads are not answered");
        if let Some((subscriber, number)) = self.subscriptions.first_due() {
            let publisher = self.subscriptions.publisher_of(subscriber);
            self.tree.child_of(&mut self.path, publisher, number);
            let path = &self.path;
            out += &format!(
                ", {due} events have not come, the first to subscriber {subscriber} about {path}"
            );
        }
        out
    }

    /// Whether nothing is due any more: creates are answered or their publisher is lost, and all
    /// events and reads have come.
    fn is_complete(&self) -> bool {
        self.publishing == 0 && self.subscriptions.due() == 0 && self.reads_left == 0
    }

    /// One more than the number of a publisher's last item in this stage.
    fn until(&self, publisher: usize) -> usize {
        let publishers = self.publishers.len();
        share(self.before, publishers, publisher) + share(self.items, publishers, publisher)
    }

    /// The number of a path of `publisher`; `None` if it is no such path.
    fn number_of(&mut self, publisher: usize, path: &str) -> Option<usize> {
        let number = path.rsplit_once("/c")?.1.parse().ok()?;
        self.tree.child_of(&mut self.path, publisher, number);
        (self.path == path).then_some(number)
    }

    fn publish(&mut self, publisher: usize, session: &mut Session, now_ns: u64) -> Next {
        let publishers = self.publishers.len();
        let number = self.publishers[publisher].since_ns.len();
        if number >= self.until(publisher) {
            return Next::Finished;
        }
        let own = number - share(self.before, publishers, publisher);
        let place = own * publishers + publisher;
        let since_ns = match self.pace.since(place as f64, session.under_way(), now_ns) {
            Ok(since_ns) => since_ns,
            Err(next) => return next,
        };
        self.publishers[publisher].since_ns.push(since_ns);
        item::write(&mut self.data, (number * publishers + publisher) as u64, since_ns);
        self.tree.child_of(&mut self.path, publisher, number);
        let (kind, flags, ttl_ms) = (CreateKind::Create, EPHEMERAL, -1);
        let (path, data, acl) = (self.path.as_str(), Some(&self.data[..]), self.acl.clone());
        let create = WriteRequest::Create { kind, path, data, acl, flags, ttl_ms };
        session.send(&Request::Write(create), since_ns);
        Next::Sent
    }

    fn subscribe(&mut self, subscriber: usize, session: &mut Session, now_ns: u64) -> Next {
        let publisher = self.subscriptions.publisher_of(subscriber);
        // In this step a subscriber sends nothing else, so each request under way is one
        // subscription.
        let number = self.subscriptions.count_of(subscriber) + session.under_way();
        if number >= self.until(publisher) {
            return Next::Finished;
        }
        if session.under_way() >= SUBSCRIBING_REQUESTS {
            return Next::Wait;
        }
        self.tree.child_of(&mut self.path, publisher, number);
        let (kind, path, watch) = (ReadKind::Exists, self.path.as_str(), true);
        session.send(&Request::Read(ReadRequest { kind, path, watch }), now_ns);
        Next::Sent
    }

    /// The next step of a subscriber while items are published. The driver stops when everything is
    /// complete, so a subscriber never finishes by itself.
    fn read(&mut self, subscriber: usize, session: &mut Session, now_ns: u64) -> Next {
        let publisher = self.subscriptions.publisher_of(subscriber);
        let reader = &mut self.readers[subscriber];
        if reader.under_way.is_some() {
            return Next::Wait;
        }
        let Some(number) = reader.waiting.pop_front() else { return Next::Wait };
        reader.under_way = Some(number);
        self.tree.child_of(&mut self.path, publisher, number);
        let (kind, path, watch) = (ReadKind::GetData, self.path.as_str(), false);
        session.send(&Request::Read(ReadRequest { kind, path, watch }), now_ns);
        Next::Sent
    }

    fn settle(&mut self, subscriber: usize, session: &mut Session, now_ns: u64) -> Next {
        if std::mem::replace(&mut self.has_synced[subscriber], true) {
            return Next::Finished;
        }
        session.send(&Request::Sync { path: Some(self.tree.root()) }, now_ns);
        Next::Sent
    }

    fn on_created(
        &mut self,
        publisher: usize,
        is_ok: bool,
        body: &mut JuteReader<'_>,
        took_ns: u64,
    ) {
        let number = self.publishers[publisher].answered;
        self.publishers[publisher].answered += 1;
        self.last_create_ns = self.last_ns;
        self.tree.child_of(&mut self.path, publisher, number);
        let is_right = is_ok && body.text() == Ok(self.path.as_str());
        self.results.creates.count(is_right, took_ns);
        self.results.failed += u64::from(!is_right);
        if !is_ok {
            self.subscriptions.void(publisher, number);
        }
    }

    fn on_read(&mut self, subscriber: usize, is_ok: bool, body: &mut JuteReader<'_>) {
        let Some(number) = self.readers[subscriber].under_way.take() else { return };
        self.reads_left -= 1;
        let publisher = self.subscriptions.publisher_of(subscriber);
        let since_ns = self.publishers[publisher].since_ns[number];
        let due = ((number * self.publishers.len() + publisher) as u64, since_ns);
        let data = body.buffer().ok().flatten().unwrap_or_default();
        let is_right =
            item::read(data) == Some(due) && data.get(ITEM_BYTES..) == self.data.get(ITEM_BYTES..);
        if is_ok && is_right {
            self.results.reads.count(true, self.last_ns.saturating_sub(since_ns));
            return;
        }
        // The read did not find its item, so it has no latency.
        self.results.reads.answered += 1;
        self.results.reads.errors += 1;
        let kind = if is_ok { &mut self.results.wrong_data } else { &mut self.results.failed };
        *kind += 1;
    }

    /// Notes that a publisher has nothing more to publish, or that a client has lost its session.
    fn finish(&mut self, client: usize) {
        let Some(subscriber) = client.checked_sub(self.publishers.len()) else {
            self.publishing -= 1;
            for number in self.publishers[client].answered..self.until(client) {
                self.subscriptions.void(client, number);
            }
            return;
        };
        self.results.missed += self.subscriptions.lose(subscriber);
        let reader = std::mem::take(&mut self.readers[subscriber]);
        self.reads_left -= reader.waiting.len() + usize::from(reader.under_way.is_some());
    }

    /// The results of the stage, with the time and CPU in `cost`.
    fn outcome(&self, cost: &Phase) -> Outcome {
        Outcome {
            results: self.results.clone(),
            creates_ns: self.pace.elapsed_ns(self.last_create_ns),
            seen_ns: self.pace.elapsed_ns(self.all_seen_ns),
            server_cpu_ns: cost.server_cpu_ns,
            own_cpu_ns: cost.own_cpu_ns,
            lost: cost.lost,
        }
    }
}

impl Load for ItemLoad<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        match (client.checked_sub(self.publishers.len()), self.step) {
            (None, Step::Publish) => self.publish(client, session, now_ns),
            (None, _) => Next::Finished,
            (Some(subscriber), Step::Subscribe) => self.subscribe(subscriber, session, now_ns),
            (Some(subscriber), Step::Publish) => self.read(subscriber, session, now_ns),
            (Some(subscriber), Step::Settle) => self.settle(subscriber, session, now_ns),
        }
    }

    fn on_reply(
        &mut self,
        client: usize,
        header: ReplyHeader,
        mut body: JuteReader<'_>,
        took_ns: u64,
        now_ns: u64,
    ) {
        self.last_ns = now_ns;
        let is_ok = header.error == ErrorCode::OK;
        let Some(subscriber) = client.checked_sub(self.publishers.len()) else {
            return self.on_created(client, is_ok, &mut body, took_ns);
        };
        match self.step {
            Step::Subscribe => {
                // Only if the znode is absent does the watch wait for a create.
                let is_set = header.error == ErrorCode::NO_NODE;
                self.subscriptions.add(subscriber, is_set);
                self.results.watches.count(is_set, took_ns);
                self.results.failed += u64::from(!is_set);
            }
            Step::Publish => self.on_read(subscriber, is_ok, &mut body),
            Step::Settle => self.results.failed += u64::from(!is_ok),
        }
    }

    fn on_event(&mut self, client: usize, kind: i32, path: &str, now_ns: u64) {
        self.last_ns = now_ns;
        let Some(subscriber) = client.checked_sub(self.publishers.len()) else {
            self.results.not_asked_for += 1;
            return;
        };
        let publisher = self.subscriptions.publisher_of(subscriber);
        let number = self.number_of(publisher, path).filter(|_| kind == CREATED);
        let sent = number.and_then(|it| Some((it, *self.publishers[publisher].since_ns.get(it)?)));
        let Some((number, since_ns)) = sent else {
            self.results.not_asked_for += 1;
            return;
        };
        match self.subscriptions.fire(subscriber, number) {
            Fired::Due => {
                self.results.events.count(true, now_ns.saturating_sub(since_ns));
                if self.is_reading {
                    self.readers[subscriber].waiting.push_back(number);
                    self.reads_left += 1;
                }
            }
            Fired::Twice => self.results.twice += 1,
            Fired::NotAskedFor => self.results.not_asked_for += 1,
        }
    }

    fn is_given_up(&mut self, now_ns: u64) -> bool {
        if self.step == Step::Publish && self.is_complete() {
            return true;
        }
        self.is_silent = now_ns.saturating_sub(self.last_ns) > SILENCE_LIMIT.as_nanos() as u64;
        self.is_silent
    }

    fn on_finished(&mut self, client: usize, _: u64) {
        if self.step == Step::Publish {
            self.finish(client);
        }
    }
}

#[cfg(test)]
mod tests;
