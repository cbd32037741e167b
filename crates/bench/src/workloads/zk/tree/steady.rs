//! Sessions that set data all over a tree in open loop, at a steady rate, while servers come and
//! go. A run has [`Stages`]. For each of them the sessions count answers and latencies, and each
//! session's longest time without an answer.
//!
//! Request `i` is due `i / rate` seconds after the start. A session whose connection ends connects
//! again, and then sends at once what was due meanwhile, so the rate that is offered does not
//! depend on the servers. A request without an answer is not sent again.

use zk::request::{Request, WriteRequest};
use zk::response::ReplyHeader;
use zk::{ErrorCode, JuteReader};

use super::Tree;
use super::traffic::scattered;
use crate::limits::{PACED_START_NS, PIPELINE_REQUESTS, RECOVERY_LIMIT};
use crate::measure::driver::{Driver, Load, Loss, Next};
use crate::measure::figures::Block;
use crate::measure::pace::Pace;
use crate::measure::stats::Latencies;
use crate::workloads::zk::client::Session;
use crate::workloads::zk::writers::{STAGES_MAX, Stages, Troubles};

/// The answers in one stage.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Sets that were acknowledged.
    pub acknowledged: u64,
    /// Latencies of the acknowledged sets, from the time at which each was due.
    pub latencies: Latencies,
}

/// The sessions of one run.
pub struct Steady<'a> {
    tree: &'a Tree,
    stages: &'a Stages,
    pace: Pace,
    server_count: usize,
    /// The stage that the sessions have seen last.
    stage: usize,
    /// For each client, how many requests it has sent.
    sent: Vec<u64>,
    /// For each client, the index of its server, or of the next one that it tries.
    places: Vec<usize>,
    /// When the sessions saw that the last stage was over, ns of the driver.
    over_ns: Option<u64>,
    path: String,
    /// For each stage that has begun, the server of each client at its beginning.
    pub places_at: Vec<Vec<usize>>,
    /// The longest times without an answer.
    pub gaps: ClientGaps,
    /// The answers of each stage.
    pub answers: [Answers; STAGES_MAX],
    /// What went wrong.
    pub troubles: Troubles,
    /// Requests whose connection ended before the answer.
    pub unanswered: u64,
}

impl<'a> Steady<'a> {
    /// Sessions on `server_count` servers, whose requests are due from now on, `rate` of them a
    /// second.
    pub fn new(
        tree: &'a Tree,
        stages: &'a Stages,
        rate: u64,
        (driver, server_count): (&Driver, usize),
    ) -> Steady<'a> {
        let start_ns = driver.now_ns() + PACED_START_NS;
        let (clients, places) = (driver.client_count(), driver.places());
        Steady {
            tree,
            stages,
            pace: Pace::at_rate(start_ns, rate),
            server_count,
            stage: 0,
            sent: vec![0; clients],
            places_at: vec![places.clone()],
            places,
            over_ns: None,
            path: String::new(),
            gaps: ClientGaps::new(clients, start_ns),
            answers: Default::default(),
            troubles: Troubles::default(),
            unanswered: 0,
        }
    }

    /// Sets while `act` runs on a thread of its own and passes from stage to stage; its end ends
    /// the last stage. Then waits for all answers. Returns the result of `act`.
    ///
    /// # Errors
    /// The servers stay silent, or `act` fails.
    pub fn run_beside<T: Send>(
        &mut self,
        driver: &mut Driver,
        act: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let stages = self.stages;
        std::thread::scope(|scope| {
            let acting = scope.spawn(|| {
                let done = act();
                stages.end(done.is_ok());
                done
            });
            let ran = driver.run(self);
            let done = acting.join().expect("the thread does not panic");
            ran.and(done)
        })
    }

    /// Adds what went wrong to a block.
    pub fn report_troubles(&self, block: &mut Block) {
        block.trouble += self.troubles.errors;
        if !self.troubles.by_kind.is_empty() {
            block.notes.push(format!("what went wrong: {}", self.troubles.kinds()));
        }
    }

    /// The longest time without an answer of a client in a stage, ns, among the clients that were
    /// at a server for which `is_wanted` holds when the stage began. `None` if there was none.
    pub fn gap_ns(&self, stage: usize, is_wanted: impl Fn(usize) -> bool) -> Option<u64> {
        let places = self.places_at.get(stage)?;
        self.gaps.longest_ns(stage, |client| is_wanted(places[client]))
    }

    fn look_at_stages(&mut self, now_ns: u64) {
        let now = self.stages.now();
        while self.stage < now {
            self.gaps.end_stage(self.stage, now_ns);
            self.stage += 1;
            self.places_at.push(self.places.clone());
        }
        if self.stages.is_over() && self.over_ns.is_none() {
            self.gaps.end_stage(self.stage, now_ns);
            self.over_ns = Some(now_ns);
        }
    }
}

impl Load for Steady<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        let index = self.sent[client] * self.sent.len() as u64 + client as u64;
        let due_ns = self.pace.due_ns(index);
        if self.over_ns.is_some_and(|over_ns| due_ns >= over_ns) {
            return Next::Finished;
        }
        if now_ns < due_ns {
            return Next::At(due_ns);
        }
        if session.under_way() >= PIPELINE_REQUESTS {
            return Next::Wait;
        }
        self.sent[client] += 1;
        self.tree.child(&mut self.path, scattered(index, self.tree.znode_count()));
        let (path, data, version) = (self.path.as_str(), Some(self.tree.data()), -1);
        session.send(&Request::Write(WriteRequest::SetData { path, data, version }), due_ns);
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
        if header.error != ErrorCode::OK {
            self.troubles.on_error(header.error);
            return;
        }
        let answers = &mut self.answers[self.stage];
        answers.acknowledged += 1;
        answers.latencies.record(took_ns);
        if self.over_ns.is_none() {
            self.gaps.on_reply(client, self.stage, now_ns);
        }
    }

    fn on_lost(&mut self, client: usize, loss: &Loss, _: u64) {
        self.unanswered += loss.unanswered as u64;
        self.troubles.add(loss);
        // The driver dials the next address.
        self.places[client] = (self.places[client] + 1) % self.server_count;
    }

    fn is_given_up(&mut self, now_ns: u64) -> bool {
        self.look_at_stages(now_ns);
        let is_late = |over_ns| now_ns > over_ns + RECOVERY_LIMIT.as_nanos() as u64;
        self.over_ns.is_some_and(is_late) || self.stages.is_failed()
    }
}

/// Each client's longest time without an answer in each stage. A gap that goes on at the end of a
/// stage counts for that stage as far as it went, and as a whole for the stage in which it ends.
#[derive(Clone, Debug)]
pub struct ClientGaps {
    last_ns: Vec<u64>,
    longest_ns: Vec<[u64; STAGES_MAX]>,
}

impl ClientGaps {
    fn new(clients: usize, start_ns: u64) -> ClientGaps {
        let longest_ns = vec![[0; STAGES_MAX]; clients];
        ClientGaps { last_ns: vec![start_ns; clients], longest_ns }
    }

    fn on_reply(&mut self, client: usize, stage: usize, now_ns: u64) {
        self.note(client, stage, now_ns);
        self.last_ns[client] = now_ns;
    }

    fn end_stage(&mut self, stage: usize, now_ns: u64) {
        (0..self.last_ns.len()).for_each(|client| self.note(client, stage, now_ns));
    }

    fn note(&mut self, client: usize, stage: usize, now_ns: u64) {
        let longest_ns = &mut self.longest_ns[client][stage];
        *longest_ns = (*longest_ns).max(now_ns.saturating_sub(self.last_ns[client]));
    }

    /// The longest gap of a stage among some clients; `None` if there are no such clients.
    fn longest_ns(&self, stage: usize, is_wanted: impl Fn(usize) -> bool) -> Option<u64> {
        let clients = (0..self.last_ns.len()).filter(|client| is_wanted(*client));
        clients.map(|client| self.longest_ns[client][stage]).max()
    }
}

#[cfg(test)]
mod tests;
