//! The publish/subscribe test, in its three scenarios. Connections make and delete ephemerals on
//! their own paths; publishers set the data of a znode, and subscribers watch it and read it at
//! each event; the publishers set data that no client watches.
//!
//! Data begins with the number of the item and the time that its latency counts from, so a read
//! tells which item it found. One-shot watches coalesce: of the items set between an event and the
//! read after it, a subscriber sees only the last. The others are counted as overtaken. A
//! subscriber in event-only mode sets its watch again by exists, and learns the item from the
//! version in the answer. All clients are in one process, so all times are of one clock.

pub mod item;
pub mod options;
pub mod pace;

use std::process::ExitCode;

use clap::Args;
use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::{ReplyHeader, decode_stat};
use zk::{AclEntry, ErrorCode, JuteReader};

use crate::client_zk::Session;
use crate::comparison::{Comparison, Rounds, Turn, Where};
use crate::driver::{Driver, Load, Next};
use crate::figures::{Block, Figure, Good, of_phase};
use crate::latencies::EPHEMERAL;
use crate::limits::{
    CLIENTS_MAX, DATA_BYTES_MAX, ITEMS_MAX, RATE_MAX, SESSION_TIMEOUT_MS, SILENCE_LIMIT,
    TREE_CLIENTS,
};
use crate::meter::{Meter, Tally};
use crate::null_server::NullServer;
use crate::open_files;
use crate::published::{PUBSUB, PUBSUB_DOUBTS, PubsubRow};
use crate::stats::{Latencies, Phase};
use crate::tree::{Tree, TreeArgs, open_acl};

/// `Watcher.Event.EventType.NodeDataChanged`.
const DATA_CHANGED: i32 = 3;

/// Bytes of the number and the time of an item.
const ITEM_BYTES: usize = 16;

/// Options of `quorate bench pubsub`.
#[derive(Debug, Args)]
#[command(mut_arg("warmup", |it| it.help(
    "Rounds before those of the first size of each scenario, which are not counted"
)))]
pub struct PubsubArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// 1: ephemerals; 2: publishers and subscribers; 3: setData that nobody watches
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,3", value_parser = clap::value_parser!(u32).range(1..=3))]
    scenario: Vec<u32>,
    /// Bytes of data in an item
    #[arg(
        long,
        value_name = "BYTES,...",
        value_delimiter = ',',
        default_value = "256,1024,2048,4096"
    )]
    size: Vec<usize>,
    /// Connections that publish, each to a path of its own
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    publishers: usize,
    /// Connections that watch the publishers' paths, in turn
    #[arg(long, value_name = "N", default_value_t = 3_000)]
    subscribers: usize,
    /// Items in all; the document's number is 200000
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    items: u64,
    /// Items before the counted ones, on the same connections, to warm the servers
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    warmup_items: u64,
    /// Subscribers do not read the data: they set the watch again by exists
    #[arg(long)]
    event_only: bool,
    /// Items a second, all publishers together, in open loop [default: closed loop]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    rate: Option<u64>,
}

/// Runs `quorate bench pubsub` and prints it.
///
/// # Errors
/// An option is wrong, a target does not answer, or a file cannot be written.
pub fn command(args: &PubsubArgs) -> anyhow::Result<ExitCode> {
    let shapes = shapes(args)?;
    let connections = shapes.iter().map(Shape::connections).max().unwrap_or_default();
    open_files::make_room(connections)?;
    let loop_ = match args.rate {
        Some(rate) => format!("open loop at {rate} items per s, latency from the intended start"),
        None => "closed loop, latency from the write to the socket".to_string(),
    };
    let about = format!("{} items after {} that warm up; {loop_}", args.items, args.warmup_items);
    let mut comparison = Comparison::start(&args.at, "pubsub", &about)?;
    let mut warm = None;
    for shape in &shapes {
        // Tests that differ in size only take equal paths through a server.
        let is_warm = warm.replace(shape.scenario) == Some(shape.scenario);
        let warmup = if is_warm { 0 } else { args.repeat.warmup };
        one_test(&mut comparison, shape, &Rounds { warmup, ..args.repeat })?;
    }
    let end = comparison.finish();
    for doubt in PUBSUB_DOUBTS {
        println!("note: {doubt}");
    }
    end
}

/// The tests that the options ask for.
fn shapes(args: &PubsubArgs) -> anyhow::Result<Vec<Shape>> {
    for (name, number, min, max) in [
        ("publishers", args.publishers, 1, CLIENTS_MAX),
        ("subscribers", args.subscribers, 1, CLIENTS_MAX),
        ("items", args.items as usize, 1, ITEMS_MAX as usize),
        ("warmup-items", args.warmup_items as usize, 0, ITEMS_MAX as usize),
    ] {
        anyhow::ensure!(
            (min..=max).contains(&number),
            "--{name}: {number} is not in {min}..={max}"
        );
    }
    for size in &args.size {
        let (min, max) = (ITEM_BYTES, DATA_BYTES_MAX);
        anyhow::ensure!((min..=max).contains(size), "--size: {size} is not in {min}..={max}");
    }
    let of_scenario = |scenario: &u32| {
        let (scenario, publishers, items, warmup) =
            (*scenario, args.publishers, args.items, args.warmup_items);
        let subscribers = if scenario == 2 { args.subscribers } else { 0 };
        let of_size = move |size: &usize| Shape {
            scenario,
            publishers,
            subscribers,
            items,
            warmup,
            size: *size,
            rate: args.rate,
            is_event_only: args.event_only,
        };
        args.size.iter().map(of_size)
    };
    Ok(args.scenario.iter().flat_map(of_scenario).collect())
}

/// One test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    scenario: u32,
    publishers: usize,
    subscribers: usize,
    items: u64,
    warmup: u64,
    size: usize,
    /// Items a second; None in closed loop.
    rate: Option<u64>,
    /// Subscribers set their watch again and read no data.
    is_event_only: bool,
}

impl Shape {
    fn connections(&self) -> usize {
        self.publishers + self.subscribers
    }

    /// This shape with at most so many connections; publishers and subscribers keep their
    /// proportion.
    fn with_connections(&self, max: usize) -> Shape {
        let all = self.connections();
        let part = |count: usize| if all <= max { count } else { (count * max / all).max(1) };
        let subscribers = if self.subscribers == 0 { 0 } else { part(self.subscribers) };
        Shape { publishers: part(self.publishers), subscribers, ..*self }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shape { scenario, publishers, subscribers, items, size, .. } = self;
        write!(f, "scenario {scenario}, {size} bytes: {publishers} connections ")?;
        match scenario {
            1 => write!(f, "make and delete {items} ephemerals"),
            2 if self.is_event_only => {
                write!(f, "publish {items} items, {subscribers} see an event only")
            }
            2 => write!(f, "publish {items} items, {subscribers} see an event and read"),
            _ => write!(f, "set data {items} times, nobody watches"),
        }
    }
}

fn one_test(comparison: &mut Comparison<'_>, shape: &Shape, repeat: &Rounds) -> anyhow::Result<()> {
    let is_about = |row: &&PubsubRow| row.is_about(shape.scenario, shape.size, shape.is_event_only);
    let rows = PUBSUB.iter().filter(is_about);
    let mut published: Vec<String> = rows.map(ToString::to_string).collect();
    if published.is_empty() {
        published.push(format!("nothing for {} bytes in this scenario", shape.size));
    }
    comparison.begin(shape.to_string(), published);
    let Shape { items, warmup, .. } = shape;
    let work = format!("{items} items (each after {warmup} more on the same connections)");
    comparison.measure(repeat, &work, |turn| measure(turn, shape))?;
    // Both ends of the null server's connections are in this process.
    let small = shape.with_connections(open_files::pairs_max());
    open_files::make_room(small.connections() * 2)?;
    comparison.measure_ceiling(&NullServer::start(shape.size)?, |turn| {
        let mut block = measure(turn, &small)?;
        if small != *shape {
            let Shape { publishers, subscribers, .. } = small;
            block.notes.push(format!(
                "with {publishers} publishers, {subscribers} subscribers: RLIMIT_NOFILE"
            ));
        }
        Ok(block)
    })
}

/// Runs one test on one server.
fn measure(turn: &Turn<'_>, shape: &Shape) -> anyhow::Result<Block> {
    let target = turn.target;
    let args = TreeArgs {
        parents: 1,
        children: shape.publishers,
        size: shape.size,
        clients: TREE_CLIENTS,
        keep: false,
    };
    let mut tree = Tree::new(&args, &turn.label);
    let mut maker = Driver::connect(&target.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    let mut block = target.block();
    block.blame(&tree.make(&mut maker, target)?);
    maker.close();
    turn.say("connecting");
    let mut driver = Driver::connect(&target.addresses, shape.connections(), SESSION_TIMEOUT_MS)?;
    match shape.scenario {
        1 => ephemerals(&mut driver, turn, shape, &tree, &mut block)?,
        _ => publish(&mut driver, turn, shape, &tree, &mut block)?,
    }
    turn.say("closing");
    driver.close();
    let mut remover = Driver::connect(&target.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    block.blame(&tree.remove(&mut remover, target)?);
    remover.close();
    Ok(block)
}

/// Runs the first scenario.
fn ephemerals(
    driver: &mut Driver,
    turn: &Turn<'_>,
    shape: &Shape,
    tree: &Tree,
    block: &mut Block,
) -> anyhow::Result<()> {
    for (name, items) in [("warm-up", shape.warmup), ("ephemerals", shape.items)] {
        turn.say(name);
        let meter = Meter::start(driver, turn.target);
        let pace = Pace::start(driver, shape.rate);
        let mut load = EphemeralLoad::new(shape, tree, items, pace);
        driver.run(&mut load)?;
        let mut all = load.creates.clone();
        all.answered += load.deletes.answered;
        all.errors += load.deletes.errors;
        let mut phase = meter.stop(driver, name, all);
        phase.elapsed_ns = load.pace.elapsed_ns(load.last_ns);
        block.blame(&phase);
        if name == "warm-up" {
            continue;
        }
        let made = load.creates.answered - load.creates.errors;
        let names = ["transactions", "server CPU per transaction", "generator CPU per transaction"];
        block.figures.push(Figure::once("ephemerals made", "", made as f64, Good::Neither));
        block.figures.push(Figure::once("time", "s", phase.seconds(), Good::Neither));
        block.figures.extend(of_phase(names, &phase));
        let names = ["create p50", "create p90", "create p99", "create max"];
        block.figures.extend(spread(names, &load.creates.latencies));
        let names = ["delete p50", "delete p90", "delete p99", "delete max"];
        block.figures.extend(spread(names, &load.deletes.latencies));
    }
    Ok(())
}

/// Runs the second or the third scenario.
fn publish(
    driver: &mut Driver,
    turn: &Turn<'_>,
    shape: &Shape,
    tree: &Tree,
    block: &mut Block,
) -> anyhow::Result<()> {
    let mut load = PublishLoad::new(shape, tree);
    for (name, items) in [("subscribe", 0), ("warm-up", shape.warmup), ("items", shape.items)] {
        turn.say(name);
        let meter = Meter::start(driver, turn.target);
        load.begin(items, Pace::start(driver, shape.rate));
        driver.run(&mut load)?;
        let phase = load.end(&meter, driver, name);
        block.blame(&phase);
        if name == "items" {
            block.figures.extend(load.figures(&phase));
        }
    }
    Ok(())
}

fn spread(names: [&'static str; 4], latencies: &Latencies) -> [Figure; 4] {
    let [p50, p90, p99, max] = names;
    let of = |name, us: f64| Figure::once(name, "ms", us / 1_000.0, Good::Less);
    [
        of(p50, latencies.percentile_us(50.0)),
        of(p90, latencies.percentile_us(90.0)),
        of(p99, latencies.percentile_us(99.0)),
        of(max, latencies.max_us()),
    ]
}

/// The times at which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pace {
    /// The start, ns of the driver.
    start_ns: u64,
    /// The distance between two items of all publishers in open loop, ns; None in closed loop.
    spacing_ns: Option<f64>,
}

impl Pace {
    fn start(driver: &Driver, rate: Option<u64>) -> Pace {
        // In open loop the start is a moment later, so that no client begins late.
        let delay_ns = if rate.is_some() { 10_000_000 } else { 0 };
        let spacing_ns = rate.map(|rate| 1e9 / rate as f64);
        Pace { start_ns: driver.now_ns() + delay_ns, spacing_ns }
    }

    /// The time that a request counts from, if it may be sent now; else the next step of its
    /// client. `place` is the position of its item among all items.
    fn since(&self, place: f64, under_way: usize, now_ns: u64) -> Result<u64, Next> {
        let Some(spacing_ns) = self.spacing_ns else {
            return if under_way == 0 { Ok(now_ns) } else { Err(Next::Wait) };
        };
        let due_ns = self.start_ns + (place * spacing_ns) as u64;
        if now_ns < due_ns { Err(Next::At(due_ns)) } else { Ok(due_ns) }
    }

    fn elapsed_ns(&self, last_ns: u64) -> u64 {
        last_ns.saturating_sub(self.start_ns)
    }
}

fn paths(tree: &Tree, publishers: usize, end: &str) -> Vec<String> {
    let path = |publisher| {
        let mut path = String::new();
        tree.child(&mut path, publisher);
        path + end
    };
    (0..publishers).map(path).collect()
}

/// Ephemerals. Connection `i % connections` creates item `i` and then deletes it: requests `2k` and
/// `2k + 1` of a connection are about one item.
struct EphemeralLoad<'a> {
    paths: Vec<String>,
    data: &'a [u8],
    acl: Vec<AclEntry>,
    items: u64,
    pace: Pace,
    /// Requests sent, for each client.
    sent: Vec<u64>,
    /// Answers, for each client.
    answered: Vec<u64>,
    creates: Tally,
    deletes: Tally,
    last_ns: u64,
}

impl EphemeralLoad<'_> {
    fn new<'a>(shape: &Shape, tree: &'a Tree, items: u64, pace: Pace) -> EphemeralLoad<'a> {
        EphemeralLoad {
            paths: paths(tree, shape.publishers, "/e"),
            data: tree.data(),
            acl: open_acl(),
            items,
            pace,
            sent: vec![0; shape.publishers],
            answered: vec![0; shape.publishers],
            creates: Tally::default(),
            deletes: Tally::default(),
            last_ns: pace.start_ns,
        }
    }
}

impl Load for EphemeralLoad<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        let (number, clients) = (self.sent[client], self.sent.len() as u64);
        let item = number / 2 * clients + client as u64;
        if item >= self.items {
            return Next::Finished;
        }
        // A delete is due half way to the client's next create.
        let later = if number.is_multiple_of(2) { 0.0 } else { clients as f64 / 2.0 };
        let since_ns = match self.pace.since(item as f64 + later, session.under_way(), now_ns) {
            Ok(since_ns) => since_ns,
            Err(next) => return next,
        };
        self.sent[client] += 1;
        let path = self.paths[client].as_str();
        let request = if number.is_multiple_of(2) {
            let (kind, flags, ttl_ms) = (CreateKind::Create, EPHEMERAL, -1);
            let (data, acl) = (Some(self.data), self.acl.clone());
            WriteRequest::Create { kind, path, data, acl, flags, ttl_ms }
        } else {
            WriteRequest::Delete { path, version: -1 }
        };
        session.send(&Request::Write(request), since_ns);
        Next::Sent
    }

    fn on_reply(
        &mut self,
        client: usize,
        header: ReplyHeader,
        _: JuteReader<'_>,
        took_ns: u64,
        now_ns: u64,
    ) {
        let is_create = self.answered[client].is_multiple_of(2);
        self.answered[client] += 1;
        self.last_ns = now_ns;
        let tally = if is_create { &mut self.creates } else { &mut self.deletes };
        tally.count(header.error == ErrorCode::OK, took_ns);
    }
}

/// One path and its publisher.
#[derive(Clone, Debug, Default)]
struct Channel {
    path: String,
    /// The time that each item counts from, with the items of earlier runs.
    since_ns: Vec<u64>,
    /// Items of earlier runs.
    before: usize,
    /// Items up to the end of this run, with earlier ones.
    until: usize,
    /// Items up to the newest one that the server acknowledged.
    acknowledged: usize,
    answered: usize,
    /// Whether the publisher has every answer of this run, or is lost.
    is_over: bool,
}

/// A subscriber. It always has a watch set or is about to set one.
#[derive(Clone, Copy, Debug)]
struct Subscriber {
    /// Items of its channel up to the newest that it read; the next event is about the item after
    /// them.
    seen: usize,
    must_read: bool,
    is_reading: bool,
}

/// The first clients are the publishers, one to a channel; the others are subscribers, which take
/// the channels in turn. Publisher `i % publishers` publishes item `i` of a run. Everything but the
/// tallies goes on from one run to the next.
struct PublishLoad {
    channels: Vec<Channel>,
    subscribers: Vec<Subscriber>,
    data: Vec<u8>,
    pace: Pace,
    /// Whether the subscribers read for the first time, before there is an item.
    is_subscribing: bool,
    sets: Tally,
    events: Tally,
    reads: Tally,
    /// Items that a subscriber never saw, since a newer one came before its read.
    overtaken: u64,
    /// Events that no client waited for.
    surplus: u64,
    last_ns: u64,
    is_event_only: bool,
}

impl PublishLoad {
    fn new(shape: &Shape, tree: &Tree) -> PublishLoad {
        let paths = paths(tree, shape.publishers, "");
        let subscriber = Subscriber { seen: 0, must_read: true, is_reading: false };
        PublishLoad {
            channels: paths
                .into_iter()
                .map(|path| Channel { path, ..Channel::default() })
                .collect(),
            subscribers: vec![subscriber; shape.subscribers],
            data: tree.data().to_vec(),
            pace: Pace { start_ns: 0, spacing_ns: None },
            is_subscribing: true,
            sets: Tally::default(),
            events: Tally::default(),
            reads: Tally::default(),
            overtaken: 0,
            surplus: 0,
            last_ns: 0,
            is_event_only: shape.is_event_only,
        }
    }

    /// Begins the next run.
    fn begin(&mut self, items: u64, pace: Pace) {
        let publishers = self.channels.len() as u64;
        for (number, channel) in self.channels.iter_mut().enumerate() {
            let own = items / publishers + u64::from((number as u64) < items % publishers);
            channel.before = channel.since_ns.len();
            channel.until = channel.before + own as usize;
            channel.is_over = false;
        }
        self.pace = pace;
        self.last_ns = pace.start_ns;
        self.is_subscribing = items == 0;
        (self.sets, self.events, self.reads) = Default::default();
        (self.overtaken, self.surplus) = (0, 0);
    }

    /// Ends the run. The phase is about the items.
    fn end(&self, meter: &Meter<'_>, driver: &Driver, name: &'static str) -> Phase {
        let missed = self.missed();
        let mut phase = meter.stop(driver, name, self.sets.clone());
        phase.errors += self.reads.errors + self.surplus + missed;
        phase.elapsed_ns = self.pace.elapsed_ns(self.last_ns);
        phase
    }

    /// Acknowledged items that a subscriber missed: it saw neither the item nor a newer one.
    fn missed(&self) -> u64 {
        let missed = |(number, it): (usize, &Subscriber)| {
            let channel = &self.channels[number % self.channels.len()];
            channel.acknowledged.saturating_sub(it.seen) as u64
        };
        self.subscribers.iter().enumerate().map(missed).sum()
    }

    fn figures(&self, phase: &Phase) -> Vec<Figure> {
        let count = |name, value: u64| Figure::once(name, "", value as f64, Good::Neither);
        let mut all = vec![
            count("items published", self.sets.answered - self.sets.errors),
            Figure::once("time", "s", phase.seconds(), Good::Neither),
        ];
        all.extend(of_phase(["items", "server CPU per item", "generator CPU per item"], phase));
        let names = ["setData p50", "setData p90", "setData p99", "setData max"];
        all.extend(spread(names, &self.sets.latencies));
        if self.subscribers.is_empty() {
            return all;
        }
        all.extend([
            count("events", self.events.answered),
            count(self.read_name(), self.reads.answered - self.reads.errors),
            count("items overtaken", self.overtaken),
            count("items missed", self.missed()),
            Figure::once("server CPU per message", "us", self.message_us(phase), Good::Less),
        ]);
        all.extend(spread(
            ["event p50", "event p90", "event p99", "event max"],
            &self.events.latencies,
        ));
        if !self.is_event_only {
            let names = ["data p50", "data p90", "data p99", "data max"];
            all.extend(spread(names, &self.reads.latencies));
        }
        all
    }

    fn read_name(&self) -> &'static str {
        if self.is_event_only { "watches set again" } else { "items read after an event" }
    }

    /// µs of the server's CPU for each set, event or read. A server gains nothing here when items
    /// are overtaken, since overtaken items cause no event and no read.
    fn message_us(&self, phase: &Phase) -> Option<f64> {
        let messages = self.sets.answered + self.events.answered + self.reads.answered;
        Some(phase.server_cpu_ns? as f64 / 1e3 / messages.max(1) as f64)
    }

    /// The channel of subscriber `number`.
    fn channel_of(&self, number: usize) -> usize {
        number % self.channels.len()
    }

    fn publish(&mut self, publisher: usize, session: &mut Session, now_ns: u64) -> Next {
        let publishers = self.channels.len();
        let channel = &mut self.channels[publisher];
        let number = channel.since_ns.len();
        if number >= channel.until {
            return Next::Finished;
        }
        let place = (number - channel.before) * publishers + publisher;
        let since_ns = match self.pace.since(place as f64, session.under_way(), now_ns) {
            Ok(since_ns) => since_ns,
            Err(next) => return next,
        };
        channel.since_ns.push(since_ns);
        let item = (number * publishers + publisher) as u64;
        self.data[..8].copy_from_slice(&item.to_be_bytes());
        self.data[8..ITEM_BYTES].copy_from_slice(&since_ns.to_be_bytes());
        let (path, data, version) = (channel.path.as_str(), Some(self.data.as_slice()), -1);
        session.send(&Request::Write(WriteRequest::SetData { path, data, version }), since_ns);
        Next::Sent
    }

    fn subscribe(&mut self, number: usize, session: &mut Session, now_ns: u64) -> Next {
        let channel = &self.channels[self.channel_of(number)];
        let subscriber = &mut self.subscribers[number];
        if subscriber.must_read {
            (subscriber.must_read, subscriber.is_reading) = (false, true);
            let kind = match self.is_event_only && !self.is_subscribing {
                true => ReadKind::Exists,
                false => ReadKind::GetData,
            };
            let (path, watch) = (channel.path.as_str(), true);
            session.send(&Request::Read(ReadRequest { kind, path, watch }), now_ns);
            return Next::Sent;
        }
        let is_all = subscriber.seen >= channel.until;
        let is_rest_lost = channel.is_over && subscriber.seen >= channel.acknowledged;
        let is_silent = now_ns.saturating_sub(self.last_ns) > SILENCE_LIMIT.as_nanos() as u64;
        match subscriber.is_reading {
            true => Next::Wait,
            false if is_all || is_rest_lost || channel.is_over && is_silent => Next::Finished,
            false if is_silent => Next::Wait,
            // The newest items may have been refused, and then no event says that the run is over.
            // The client looks at whole seconds, since every other time would be another timer.
            false => Next::At((now_ns / 1_000_000_000 + 1) * 1_000_000_000),
        }
    }

    /// The number of the item in the data of a channel, and the time that it counts from.
    fn item_of(&self, channel: usize, data: &[u8]) -> Option<(usize, u64)> {
        let item = u64::from_be_bytes(*data.first_chunk()?) as usize;
        let since_ns = u64::from_be_bytes(*data.get(8..)?.first_chunk()?);
        let number = item / self.channels.len();
        let is_own = item % self.channels.len() == channel && data.len() == self.data.len();
        let is_sent = self.channels[channel].since_ns.get(number) == Some(&since_ns);
        (is_own && is_sent).then_some((number, since_ns))
    }

    /// The number of the item that a channel had come to when a watch was set again, from the
    /// version: the znode was made without an item, and each item adds one version.
    fn item_of_version(&self, channel: usize, version: i32) -> Option<(usize, u64)> {
        let number = usize::try_from(version).ok()?.checked_sub(1)?;
        Some((number, *self.channels[channel].since_ns.get(number)?))
    }

    fn on_read(&mut self, number: usize, header: ReplyHeader, body: &mut JuteReader<'_>, now: u64) {
        let channel = self.channel_of(number);
        let item = match self.is_event_only && !self.is_subscribing {
            true => decode_stat(body).ok().and_then(|it| self.item_of_version(channel, it.version)),
            false => self.item_of(channel, body.buffer().ok().flatten().unwrap_or_default()),
        };
        let subscriber = &mut self.subscribers[number];
        subscriber.is_reading = false;
        let is_good = header.error == ErrorCode::OK;
        if is_good && self.is_subscribing {
            return;
        }
        match item {
            Some((item, since_ns)) if is_good && item >= subscriber.seen => {
                self.overtaken += (item - subscriber.seen) as u64;
                subscriber.seen = item + 1;
                self.reads.count(true, now.saturating_sub(since_ns));
            }
            // This read has no latency: it names no item of ours.
            _ => {
                self.reads.answered += 1;
                self.reads.errors += 1;
            }
        }
    }
}

impl Load for PublishLoad {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        match client.checked_sub(self.channels.len()) {
            None => self.publish(client, session, now_ns),
            Some(number) => self.subscribe(number, session, now_ns),
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
        if let Some(number) = client.checked_sub(self.channels.len()) {
            return self.on_read(number, header, &mut body, now_ns);
        }
        let channel = &mut self.channels[client];
        let is_good = header.error == ErrorCode::OK;
        channel.answered += 1;
        if is_good {
            channel.acknowledged = channel.answered;
        }
        self.sets.count(is_good, took_ns);
    }

    /// The read of item `seen - 1` set the watch, so the watch fires for item `seen`.
    fn on_event(&mut self, client: usize, kind: i32, path: &str, now_ns: u64) {
        self.last_ns = now_ns;
        let Some(number) = client.checked_sub(self.channels.len()) else {
            self.surplus += 1;
            return;
        };
        let channel = &self.channels[self.channel_of(number)];
        let subscriber = &mut self.subscribers[number];
        let is_due = !subscriber.must_read && !subscriber.is_reading;
        let is_it = kind == DATA_CHANGED && path == channel.path;
        match channel.since_ns.get(subscriber.seen) {
            Some(since_ns) if is_due && is_it => {
                subscriber.must_read = true;
                self.events.count(true, now_ns.saturating_sub(*since_ns));
            }
            _ => self.surplus += 1,
        }
    }

    fn on_finished(&mut self, client: usize, _: u64) {
        if let Some(channel) = self.channels.get_mut(client) {
            channel.is_over = true;
        }
    }
}

#[cfg(test)]
mod tests;
