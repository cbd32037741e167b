//! Sends requests to znodes all over a tree: only sets, or sets and reads in turn, in open or in
//! closed loop.
//!
//! With `n` clients, client `i % n` sends request `i`. In open loop the request is due `i / rate`
//! seconds after the start, so that the requests of each client are evenly spaced, and so are those
//! of all clients together. A latency counts from the time at which the request was due, even if it
//! could not be sent then. In closed loop a client sends its next request when the one before is
//! answered.

use std::time::{Duration, Instant};

use zk::request::{ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::ReplyHeader;
use zk::{ErrorCode, JuteReader};

use super::Tree;
use crate::limits::PACED_START_NS;
use crate::measure::driver::{Driver, Load, Next};
use crate::measure::meter::{Done, Meter, Tally};
use crate::measure::pace::{End, Pace};
use crate::servers::target::Target;
use crate::workloads::zk::client::Session;

/// A load: its requests, its rate, and its end.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Requests a second in open loop, all clients together; `None` in closed loop.
    pub rate: Option<u64>,
    /// When the load ends.
    pub end: End,
    /// Whether each session sends a read after each set; else it only sets.
    pub has_reads: bool,
}

/// Sends requests until the end of the plan, and waits for all answers. The tallies are those of
/// sets, then of reads. The time counts from the first due request to the last answer.
///
/// # Errors
/// The server stays silent.
pub fn run(
    driver: &mut Driver,
    target: &Target,
    tree: &Tree,
    plan: Plan,
) -> anyhow::Result<(Done, Gaps)> {
    // The first request is due a little later, so that no client begins late.
    let start_ns = driver.now_ns() + PACED_START_NS;
    let pace = plan.rate.map(|rate| Pace::at_rate(start_ns, rate));
    let start_ns = pace.map_or(driver.now_ns(), |pace| pace.start_ns);
    let mut load = Traffic::new(tree, driver.started(), pace, plan.end, driver.client_count());
    load.has_reads = plan.has_reads;
    let meter = Meter::start(driver, target);
    driver.run(&mut load)?;
    let mut cost = meter.stop(driver, "", Tally::default());
    cost.elapsed_ns = load.gaps.last_ns.map_or(0, |last_ns| last_ns.saturating_sub(start_ns));
    Ok((Done { tallies: load.tallies, cost }, load.gaps))
}

struct Traffic<'a> {
    tree: &'a Tree,
    /// The origin of the driver's times.
    started: Instant,
    /// When each request is due; `None` in closed loop.
    pace: Option<Pace>,
    end: End,
    has_reads: bool,
    /// For each client, how many requests it has sent.
    sent: Vec<u64>,
    /// For each client, how many answers it has got.
    answered: Vec<u64>,
    gaps: Gaps,
    /// The answers to sets, then to reads.
    tallies: [Tally; 2],
    path: String,
}

impl Traffic<'_> {
    fn new(
        tree: &Tree,
        started: Instant,
        pace: Option<Pace>,
        end: End,
        clients: usize,
    ) -> Traffic<'_> {
        Traffic {
            tree,
            started,
            pace,
            end,
            has_reads: false,
            sent: vec![0; clients],
            answered: vec![0; clients],
            gaps: Gaps::new(clients),
            tallies: Default::default(),
            path: String::new(),
        }
    }

    /// Whether request `number` of a client is a read. Neighbouring clients differ, too, so that in
    /// the order of all requests sets and reads alternate.
    fn is_read(&self, client: usize, number: u64) -> bool {
        self.has_reads && (client as u64 + number) % 2 == 1
    }
}

impl Load for Traffic<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        if self.pace.is_none() && session.under_way() > 0 {
            return Next::Wait;
        }
        let number = self.sent[client];
        let index = number * self.sent.len() as u64 + client as u64;
        let due_ns = self.pace.map_or(now_ns, |pace| pace.due_ns(index));
        if !self.end.includes(index, self.started + Duration::from_nanos(due_ns)) {
            return Next::Finished;
        }
        if now_ns < due_ns {
            return Next::At(due_ns);
        }
        self.sent[client] += 1;
        self.tree.child(&mut self.path, scattered(index, self.tree.znode_count()));
        let path = self.path.as_str();
        let request = if self.is_read(client, number) {
            Request::Read(ReadRequest { kind: ReadKind::GetData, path, watch: false })
        } else {
            let (data, version) = (Some(self.tree.data()), -1);
            Request::Write(WriteRequest::SetData { path, data, version })
        };
        session.send(&request, due_ns);
        Next::Sent
    }

    fn on_reply(
        &mut self,
        client: usize,
        header: ReplyHeader,
        mut body: JuteReader<'_>,
        took_ns: u64,
        now_ns: u64,
    ) {
        let is_read = self.is_read(client, self.answered[client]);
        self.answered[client] += 1;
        let is_done = header.error == ErrorCode::OK;
        let is_right = is_done && (!is_read || body.buffer() == Ok(Some(self.tree.data())));
        self.tallies[usize::from(is_read)].count(is_right, took_ns);
        self.gaps.on_reply(client, now_ns);
    }
}

/// A number below `count` for each index. The numbers are scattered over the range, and the same in
/// each run.
pub(super) fn scattered(index: u64, count: usize) -> usize {
    // 2^64 divided by the golden ratio, as in Fibonacci hashing.
    let hash = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (hash % count as u64) as usize
}

/// The longest times without a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gaps {
    /// The longest time between two replies to any clients.
    pub longest_ns: u64,
    /// The longest time between two replies to the same client.
    pub client_longest_ns: u64,
    last_ns: Option<u64>,
    client_last_ns: Vec<Option<u64>>,
}

impl Gaps {
    fn new(clients: usize) -> Gaps {
        Gaps {
            longest_ns: 0,
            client_longest_ns: 0,
            last_ns: None,
            client_last_ns: vec![None; clients],
        }
    }

    fn on_reply(&mut self, client: usize, now_ns: u64) {
        let since = |last: Option<u64>| last.map_or(0, |last| now_ns.saturating_sub(last));
        self.longest_ns = self.longest_ns.max(since(self.last_ns));
        self.client_longest_ns = self.client_longest_ns.max(since(self.client_last_ns[client]));
        self.last_ns = Some(now_ns);
        self.client_last_ns[client] = Some(now_ns);
    }
}

#[cfg(test)]
mod tests;
