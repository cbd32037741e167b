//! The requests of publishers and subscribers, and which item each subscriber has seen.
//!
//! An *item* is one setData. Its data begin with the number of the item and the time at which its
//! latency begins: when the setData was due in open loop, or was sent in closed loop. So a read
//! shows which item it found. One-shot watches coalesce: of the items set between an event and the
//! read that follows it, a subscriber sees only the last one. The others count as *overtaken*. In
//! event-only mode a subscriber sets its watch again by `exists`, and learns the item from the
//! znode's version in the answer. All clients are in one process, so all times are of one clock.

use zk::request::{ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::{ReplyHeader, decode_stat};
use zk::{ErrorCode, JuteReader};

use super::Shape;
use crate::limits::SILENCE_LIMIT;
use crate::measure::driver::{Driver, Load, Next};
use crate::measure::figures::{Figure, Good, of_mean_and_latencies, of_phase};
use crate::measure::meter::{Meter, Tally};
use crate::measure::stats::Phase;
use crate::workloads::zk::client::Session;
use crate::workloads::zk::pubsub::item;
use crate::workloads::zk::pubsub::options::share;
use crate::workloads::zk::pubsub::pace::Pace;
use crate::workloads::zk::tree::Tree;

/// `Watcher.Event.EventType.NodeDataChanged`.
const DATA_CHANGED: i32 = 3;

/// One path and its publisher. Items of a channel are numbered from 0 through all runs.
#[derive(Clone, Debug, Default)]
struct Channel {
    path: String,
    /// For each item that was sent, the time at which its latency begins. Items of earlier runs are
    /// included.
    since_ns: Vec<u64>,
    /// The number of items that were sent in earlier runs.
    before: usize,
    /// The number of items at the end of this run, earlier runs included.
    until: usize,
    /// One more than the number of the newest item that the server acknowledged.
    acknowledged: usize,
    answered: usize,
    /// Whether the publisher has all answers of this run, or has lost its session.
    is_over: bool,
}

/// A subscriber. Between two requests its watch is always set.
#[derive(Clone, Copy, Debug)]
struct Subscriber {
    /// One more than the number of the newest item that it read. The next event is about this
    /// number.
    seen: usize,
    must_read: bool,
    is_reading: bool,
}

/// The load of both kinds of clients. The first clients are publishers, one for each channel. The
/// others are subscribers: subscriber `s` watches channel `s % publishers`. Publisher `i %
/// publishers` publishes item `i` of a run. Everything except the tallies goes on from one run to
/// the next.
pub struct NotifyLoad {
    channels: Vec<Channel>,
    subscribers: Vec<Subscriber>,
    data: Vec<u8>,
    pace: Pace,
    /// Whether this is the first run, in which subscribers read once to set their watches, and no
    /// item is published.
    is_subscribing: bool,
    sets: Tally,
    events: Tally,
    reads: Tally,
    /// Items that a subscriber never saw, because a newer one was set before its read.
    overtaken: u64,
    /// Events that no subscriber waited for.
    surplus: u64,
    last_ns: u64,
    is_event_only: bool,
}

impl NotifyLoad {
    /// A load whose publishers publish to the children of `tree`.
    pub fn new(shape: &Shape, tree: &Tree) -> NotifyLoad {
        let channel = |publisher| {
            let mut channel = Channel::default();
            tree.child(&mut channel.path, publisher);
            channel
        };
        let subscriber = Subscriber { seen: 0, must_read: true, is_reading: false };
        NotifyLoad {
            channels: (0..shape.connections.publishers).map(channel).collect(),
            subscribers: vec![subscriber; shape.connections.subscribers],
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

    /// Begins the next run. The first run has 0 items: it sets the watches.
    pub fn begin(&mut self, items: u64, pace: Pace) {
        let publishers = self.channels.len();
        for (publisher, channel) in self.channels.iter_mut().enumerate() {
            channel.before = channel.since_ns.len();
            channel.until = channel.before + share(items, publishers, publisher);
            channel.is_over = false;
        }
        self.pace = pace;
        self.last_ns = pace.start_ns;
        self.is_subscribing = items == 0;
        (self.sets, self.events, self.reads) = Default::default();
        (self.overtaken, self.surplus) = (0, 0);
    }

    /// Ends the run. The phase counts the setData requests.
    pub fn end(&self, meter: &Meter<'_>, driver: &Driver, name: &'static str) -> Phase {
        let missed = self.missed();
        let mut phase = meter.stop(driver, name, self.sets.clone());
        phase.errors += self.reads.errors + self.surplus + missed;
        phase.elapsed_ns = self.pace.elapsed_ns(self.last_ns);
        phase
    }

    /// How many acknowledged items subscribers missed, summed over the subscribers. A subscriber
    /// has missed an item if it saw neither the item nor a newer one.
    fn missed(&self) -> u64 {
        let missed = |(number, it): (usize, &Subscriber)| {
            let channel = &self.channels[number % self.channels.len()];
            channel.acknowledged.saturating_sub(it.seen) as u64
        };
        self.subscribers.iter().enumerate().map(missed).sum()
    }

    /// All figures of the run; `phase` is what [`NotifyLoad::end`] returned.
    pub fn figures(&self, phase: &Phase) -> Vec<Figure> {
        let count = |name, value: u64| Figure::once(name, "", value as f64, Good::Neither);
        let mut all = vec![
            count("items published", self.sets.answered - self.sets.errors),
            Figure::once("time", "s", phase.seconds(), Good::Neither),
        ];
        all.extend(of_phase(["items", "server CPU per item", "generator CPU per item"], phase));
        let names = ["setData mean", "setData p50", "setData p90", "setData p99", "setData max"];
        all.extend(of_mean_and_latencies(names, &self.sets.latencies));
        all.extend([
            count("events", self.events.answered),
            count(self.read_name(), self.reads.answered - self.reads.errors),
            count("items overtaken", self.overtaken),
            count("items missed", self.missed()),
            Figure::once("server CPU per message", "us", self.message_us(phase), Good::Less),
        ]);
        let names = ["event mean", "event p50", "event p90", "event p99", "event max"];
        all.extend(of_mean_and_latencies(names, &self.events.latencies));
        if !self.is_event_only {
            let names = ["data mean", "data p50", "data p90", "data p99", "data max"];
            all.extend(of_mean_and_latencies(names, &self.reads.latencies));
        }
        all
    }

    fn read_name(&self) -> &'static str {
        if self.is_event_only { "watches set again" } else { "items read after an event" }
    }

    /// CPU time of the server, µs, for each set, event or read. An overtaken item causes no event
    /// and no read, so overtaking gives no advantage in this figure.
    fn message_us(&self, phase: &Phase) -> Option<f64> {
        let messages = self.sets.answered + self.events.answered + self.reads.answered;
        Some(phase.server_cpu_ns? as f64 / 1e3 / messages.max(1) as f64)
    }

    /// The index of the channel that subscriber `number` watches.
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
        item::write(&mut self.data, item, since_ns);
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
            // The newest items may have been refused; then no event says that the run is over. The
            // client looks again at each full second, since any other time would be one more timer.
            false => Next::At((now_ns / 1_000_000_000 + 1) * 1_000_000_000),
        }
    }

    /// Reads the item in `data`, the data of a channel's znode. Returns the item's number in the
    /// channel, and the time at which the item's latency begins. `None` if the channel never
    /// published this item.
    fn item_of(&self, channel: usize, data: &[u8]) -> Option<(usize, u64)> {
        let (item, since_ns) = item::read(data)?;
        let item = item as usize;
        let number = item / self.channels.len();
        let is_own = item % self.channels.len() == channel && data.len() == self.data.len();
        let is_sent = self.channels[channel].since_ns.get(number) == Some(&since_ns);
        (is_own && is_sent).then_some((number, since_ns))
    }

    /// The newest item at the moment when a watch was set again, found from the znode's `version`
    /// then: its number, and the time at which its latency begins. (The znode is created without an
    /// item, and each item adds one version.)
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
            // The read names no known item, so it has no latency.
            _ => {
                self.reads.answered += 1;
                self.reads.errors += 1;
            }
        }
    }
}

impl Load for NotifyLoad {
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

    /// The read of item `seen - 1` has set the watch, so the event is about item `seen`.
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
