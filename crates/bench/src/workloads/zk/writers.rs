//! Sessions that count: each sets the data of its own znode to the next number, waits for the
//! answer, and goes on, through outages as well. The acknowledgements of each are compared with the
//! data that the servers have in the end: a set that was acknowledged and is not there is lost.
//!
//! A connection that ends leaves one set without an answer, which may have happened or not. The
//! session goes on with the next number and repeats none. So the version of the znode, which counts
//! all sets that happened, lies between the number of acknowledged sets and the number of sent
//! ones.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use zk::request::{ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::{ReplyHeader, decode_stat};
use zk::{ErrorCode, JuteReader};

use crate::limits::RECOVERY_LIMIT;
use crate::measure::driver::{Driver, Load, Loss, Next};
use crate::measure::stats::Latencies;
use crate::workloads::zk::client::{Session, SessionError};
use crate::workloads::zk::tree::Tree;

/// Bytes of the number at the beginning of the data.
pub const NUMBER_BYTES: usize = 8;

/// Stages of a run at most.
pub const STAGES_MAX: usize = 4;

/// The stage that a run is in. A thread that ends and starts servers moves it on, and the writers
/// read it.
#[derive(Debug)]
pub struct Stages {
    now: AtomicUsize,
    is_over: AtomicBool,
    is_failed: AtomicBool,
    began: Mutex<Vec<Instant>>,
}

impl Stages {
    /// Begins the first stage.
    pub fn start() -> Stages {
        Stages {
            now: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            is_failed: AtomicBool::new(false),
            began: Mutex::new(vec![Instant::now()]),
        }
    }

    /// Begins the next stage.
    pub fn next(&self) {
        let mut began = self.began.lock().expect("no thread panics while it holds the lock");
        assert!(began.len() < STAGES_MAX);
        began.push(Instant::now());
        self.now.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the last stage. `is_good`: all went as planned; else no writer waits for anything.
    pub fn end(&self, is_good: bool) {
        self.began.lock().expect("no thread panics while it holds the lock").push(Instant::now());
        self.is_failed.store(!is_good, Ordering::Relaxed);
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// The durations of the stages that have ended.
    pub fn durations(&self) -> Vec<Duration> {
        let began = self.began.lock().expect("no thread panics while it holds the lock");
        began.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

/// The sets of one session, and the answers to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Writer {
    /// The last number that was sent; the first was 1.
    sent: u64,
    acknowledged: u64,
    /// The newest number that was acknowledged.
    newest: u64,
    /// Sets that may have happened or not.
    unknown: u64,
    /// The time of the newest acknowledgement, ns.
    last_ns: Option<u64>,
    /// For each stage the longest time between two acknowledgements, ns. The stage of the later one
    /// counts.
    gap_ns: [u64; STAGES_MAX],
    /// The data that the server has in the end.
    found: Option<Found>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    number: u64,
    /// Sets that happened: the version of the znode.
    version: u64,
}

/// The acknowledgements to all writers in one stage.
#[derive(Clone, Debug, Default)]
pub struct StageTally {
    /// Sets that were acknowledged.
    pub acknowledged: u64,
    /// Latencies of the acknowledged sets, from the write to the socket.
    pub latencies: Latencies,
    /// The longest time between two acknowledgements to any sessions, ns. The stage of the later
    /// one counts.
    pub gap_ns: u64,
    /// For each server, gaps like [`StageTally::gap_ns`] of the sessions that began there, and of
    /// the other sessions.
    pub server_gaps: Vec<ServerGap>,
}

/// The longest times between two acknowledgements, ns, as seen from one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerGap {
    /// The gap of all sessions together that began at this server.
    pub here_ns: u64,
    /// The gap of all other sessions together.
    pub elsewhere_ns: u64,
}

/// Counts of troubles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Connections with an open session that ended.
    pub connections_lost: u64,
    /// Attempts to connect that gave no session.
    pub attempts_failed: u64,
    /// Sessions that the servers ended.
    pub sessions_expired: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// The count of each kind of error, by its name.
    pub by_kind: BTreeMap<String, u64>,
}

/// The balance of all sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Sets that were acknowledged.
    pub acknowledged: u64,
    /// Sets that were acknowledged and are not there.
    pub lost: u64,
    /// Sets that were neither acknowledged nor refused.
    pub unknown: u64,
    /// Sets of unknown outcome that are there.
    pub unknown_that_happened: u64,
    /// Sets that are there and were never sent.
    pub surplus: u64,
    /// Writers that did not write again, or whose znode could not be read.
    pub silent: u64,
}

/// The writers of one run: as many as the tree has children.
pub struct Writers<'a> {
    paths: Vec<String>,
    data: Vec<u8>,
    stages: &'a Stages,
    writers: Vec<Writer>,
    /// The acknowledgements of each stage.
    pub tallies: [StageTally; STAGES_MAX],
    /// The troubles of all writers.
    pub troubles: Troubles,
    /// The server at which each session began: its index among the addresses.
    places: Vec<usize>,
    /// The time of the newest acknowledgement to a session that began at each server, ns.
    last_ns: Vec<Option<u64>>,
    over_ns: Option<u64>,
}

impl<'a> Writers<'a> {
    /// Writers for the children of a tree; each child holds [`NUMBER_BYTES`] or more.
    pub fn new(tree: &Tree, stages: &'a Stages) -> Writers<'a> {
        let path = |index| {
            let mut path = String::new();
            tree.child(&mut path, index);
            path
        };
        assert!(tree.data().len() >= NUMBER_BYTES);
        Writers {
            paths: (0..tree.znode_count()).map(path).collect(),
            data: tree.data().to_vec(),
            stages,
            writers: vec![Writer::default(); tree.znode_count()],
            tallies: Default::default(),
            troubles: Troubles::default(),
            places: Vec::new(),
            last_ns: Vec::new(),
            over_ns: None,
        }
    }

    /// Writes until the last stage is over and each writer was acknowledged once more, or no writer
    /// was for [`RECOVERY_LIMIT`]; then reads the znodes, after a sync.
    ///
    /// # Errors
    /// The servers are silent.
    pub fn run(&mut self, driver: &mut Driver) -> anyhow::Result<Account> {
        self.places = driver.places();
        let server_count = self.places.iter().max().map_or(0, |place| place + 1);
        self.last_ns = vec![None; server_count];
        for tally in &mut self.tallies {
            tally.server_gaps = vec![ServerGap::default(); server_count];
        }
        driver.run(self)?;
        let now_ns = driver.now_ns();
        let stage = self.stages.now.load(Ordering::Relaxed);
        let over_ns = self.over_ns.unwrap_or(now_ns);
        for writer in &mut self.writers {
            let last_ns = writer.last_ns.unwrap_or(0);
            if last_ns < over_ns {
                writer.gap_ns[stage] = writer.gap_ns[stage].max(now_ns - last_ns);
            }
        }
        let silent = self.writers.iter().filter(|it| it.last_ns.is_none_or(|ns| ns < over_ns));
        let silent = silent.count() as u64;
        if self.stages.is_failed.load(Ordering::Relaxed) {
            return Ok(Account { silent, ..Account::default() });
        }
        let count = self.writers.len();
        let mut check = Check { all: self, sent: vec![0; count], is_synced: vec![false; count] };
        driver.run(&mut check)?;
        let account = self.writers.iter().fold(Account::default(), add);
        Ok(Account { silent: account.silent + silent, ..account })
    }

    /// The longest time between two acknowledgements in a stage, of each writer.
    pub fn gaps(&self, stage: usize) -> Latencies {
        self.gaps_of(stage, |_| true)
    }

    /// Like [`Writers::gaps`], of the writers that began at a wanted server.
    pub fn gaps_of(&self, stage: usize, is_wanted: impl Fn(usize) -> bool) -> Latencies {
        let mut gaps = Latencies::default();
        for (writer, place) in self.writers.iter().zip(&self.places) {
            if is_wanted(*place) {
                gaps.record(writer.gap_ns[stage]);
            }
        }
        gaps
    }

    /// Notes an acknowledgement to a session that began at server `at`, for the gaps of all
    /// together.
    fn note_gaps(&mut self, stage: usize, at: usize, now_ns: u64) {
        let newest = |is_wanted: &dyn Fn(usize) -> bool| {
            let lasts = self.last_ns.iter().enumerate();
            lasts.filter(|(place, _)| is_wanted(*place)).filter_map(|(_, last)| *last).max()
        };
        let since = |last: Option<u64>| last.map_or(0, |last| now_ns.saturating_sub(last));
        let tally = &mut self.tallies[stage];
        tally.gap_ns = tally.gap_ns.max(since(newest(&|_| true)));
        for (place, gap) in tally.server_gaps.iter_mut().enumerate() {
            if place == at {
                gap.here_ns = gap.here_ns.max(since(newest(&|it| it == place)));
            } else {
                gap.elsewhere_ns = gap.elsewhere_ns.max(since(newest(&|it| it != place)));
            }
        }
        self.last_ns[at] = Some(now_ns);
    }
}

/// Adds the sets of one writer to the balance.
fn add(mut all: Account, writer: &Writer) -> Account {
    let Writer { acknowledged, newest, unknown, .. } = *writer;
    all.acknowledged += acknowledged;
    all.unknown += unknown;
    let Some(Found { number, version }) = writer.found else {
        all.silent += 1;
        return all;
    };
    let missing = acknowledged.saturating_sub(version);
    // The count is right, but the newest set is missing: an older set came too late, or it was
    // undone.
    all.lost += if number < newest { missing.max(1) } else { missing };
    all.unknown_that_happened += version.saturating_sub(acknowledged).min(unknown);
    all.surplus += version.saturating_sub(acknowledged + unknown);
    all
}

impl Load for Writers<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        if session.under_way() > 0 {
            return Next::Wait;
        }
        let writer = &mut self.writers[client];
        if let Some(over_ns) = self.over_ns
            && writer.last_ns.is_some_and(|last_ns| last_ns >= over_ns)
        {
            return Next::Finished;
        }
        writer.sent += 1;
        self.data[..NUMBER_BYTES].copy_from_slice(&writer.sent.to_be_bytes());
        let (path, data, version) = (self.paths[client].as_str(), Some(&self.data[..]), -1);
        session.send(&Request::Write(WriteRequest::SetData { path, data, version }), now_ns);
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
        let writer = &mut self.writers[client];
        if header.error != ErrorCode::OK {
            // The outcome is unknown: an error does not acknowledge the set.
            writer.unknown += 1;
            self.troubles.errors += 1;
            self.troubles.count(&format!("answer {}", header.error.name()));
            return;
        }
        writer.acknowledged += 1;
        writer.newest = writer.sent;
        let stage = self.stages.now.load(Ordering::Relaxed);
        let since = |last_ns: Option<u64>| last_ns.map_or(0, |last| now_ns.saturating_sub(last));
        writer.gap_ns[stage] = writer.gap_ns[stage].max(since(writer.last_ns));
        writer.last_ns = Some(now_ns);
        let tally = &mut self.tallies[stage];
        tally.acknowledged += 1;
        tally.latencies.record(took_ns);
        self.note_gaps(stage, self.places[client], now_ns);
    }

    fn on_lost(&mut self, client: usize, loss: &Loss, _: u64) {
        self.writers[client].unknown += loss.unanswered as u64;
        self.troubles.add(loss);
    }

    fn is_given_up(&mut self, now_ns: u64) -> bool {
        if self.stages.is_over.load(Ordering::Relaxed) && self.over_ns.is_none() {
            self.over_ns = Some(now_ns);
        }
        let is_late = |over_ns| now_ns > over_ns + RECOVERY_LIMIT.as_nanos() as u64;
        self.over_ns.is_some_and(is_late) || self.stages.is_failed.load(Ordering::Relaxed)
    }
}

impl Troubles {
    fn add(&mut self, loss: &Loss) {
        match (&loss.error, loss.was_open) {
            (SessionError::Refused, _) => {
                self.sessions_expired += 1;
                self.count("session expired");
            }
            (error, true) => {
                self.connections_lost += 1;
                self.count(&format!("connection lost ({})", reason(error)));
            }
            (error, false) => {
                self.attempts_failed += 1;
                self.count(&format!("attempt failed ({})", reason(error)));
            }
        }
    }

    fn count(&mut self, kind: &str) {
        *self.by_kind.entry(kind.to_string()).or_default() += 1;
    }

    /// Adds the troubles of another run.
    pub fn add_all(&mut self, other: &Troubles) {
        self.connections_lost += other.connections_lost;
        self.attempts_failed += other.attempts_failed;
        self.sessions_expired += other.sessions_expired;
        self.errors += other.errors;
        for (kind, count) in &other.by_kind {
            *self.by_kind.entry(kind.clone()).or_default() += count;
        }
    }

    /// All kinds of errors in one line.
    pub fn kinds(&self) -> String {
        let all: Vec<String> =
            self.by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        if all.is_empty() { "none".to_string() } else { all.join(", ") }
    }
}

fn reason(error: &SessionError) -> String {
    match error {
        SessionError::Lost(why) => why.clone(),
        other => other.to_string(),
    }
}

/// Reads the znodes in the end. A request that is lost with its connection is sent again.
struct Check<'a, 'b> {
    all: &'a mut Writers<'b>,
    /// Requests sent on this connection, for each client: a sync, then a read.
    sent: Vec<u8>,
    is_synced: Vec<bool>,
}

impl Load for Check<'_, '_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        if self.all.writers[client].found.is_some() {
            return Next::Finished;
        }
        let path = self.all.paths[client].as_str();
        let request = match self.sent[client] {
            0 => Request::Sync { path: Some(path) },
            1 => Request::Read(ReadRequest { kind: ReadKind::GetData, path, watch: false }),
            _ if session.under_way() > 0 => return Next::Wait,
            _ => return Next::Finished,
        };
        self.sent[client] += 1;
        session.send(&request, now_ns);
        Next::Sent
    }

    fn on_reply(
        &mut self,
        client: usize,
        header: ReplyHeader,
        mut body: JuteReader<'_>,
        _: u64,
        _: u64,
    ) {
        if !self.is_synced[client] {
            self.is_synced[client] = header.error == ErrorCode::OK;
            return;
        }
        if header.error != ErrorCode::OK {
            return;
        }
        let Ok(data) = body.buffer() else { return };
        let Some(number) = data.unwrap_or_default().first_chunk::<NUMBER_BYTES>() else { return };
        // The data is no number of ours before the first set.
        let number = u64::from_be_bytes(*number);
        let Ok(stat) = decode_stat(&mut body) else { return };
        let version = stat.version.max(0) as u64;
        let number = if version == 0 { 0 } else { number };
        self.all.writers[client].found = Some(Found { number, version });
    }

    fn on_lost(&mut self, client: usize, loss: &Loss, _: u64) {
        self.sent[client] = 0;
        self.is_synced[client] = false;
        self.all.troubles.add(loss);
    }
}

#[cfg(test)]
mod tests;
