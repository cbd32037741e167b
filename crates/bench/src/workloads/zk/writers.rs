//! Sessions that write numbers, to find acknowledged writes that were lost. Each session sets the
//! data of its own znode to 1, 2, 3 and so on, each after the answer to the one before, through
//! outages as well. In the end its acknowledgements are compared with the znode: a set that was
//! acknowledged and is not there is lost.
//!
//! When a connection ends, one set has no answer: it may have been executed or not. The session
//! then goes on with the next number and repeats none. The version of the znode counts all sets
//! that were executed, so it must lie between the number of acknowledged sets and the number of
//! sent sets.

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

/// Bytes of the number, at the beginning of a znode's data.
pub const NUMBER_BYTES: usize = 8;

/// The most stages of a run.
pub const STAGES_MAX: usize = 6;

/// The stages of a run, such as before, during and after an outage. The thread that ends and starts
/// servers moves the run to its next stage; the writers count for the stage that the run is in.
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

    /// Ends the last stage. `is_good` is false if something failed; then the writers stop at once.
    pub fn end(&self, is_good: bool) {
        self.began.lock().expect("no thread panics while it holds the lock").push(Instant::now());
        self.is_failed.store(!is_good, Ordering::Relaxed);
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// The index of the stage that the run is in.
    pub fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// Whether the last stage has ended.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether the run has failed.
    pub fn is_failed(&self) -> bool {
        self.is_failed.load(Ordering::Relaxed)
    }

    /// The durations of the stages that have ended, in order.
    pub fn durations(&self) -> Vec<Duration> {
        let began = self.began.lock().expect("no thread panics while it holds the lock");
        began.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

/// One session's sets and their answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Writer {
    /// The number that was sent last; 0 before the first.
    sent: u64,
    acknowledged: u64,
    /// The newest number that was acknowledged.
    newest: u64,
    /// Sets whose outcome is unknown: without an answer, or answered with an error.
    unknown: u64,
    /// The time of the newest acknowledgement, ns of the driver.
    last_ns: Option<u64>,
    /// For each stage, the longest time between two acknowledgements, ns. A gap across stages
    /// counts for the later one.
    gap_ns: [u64; STAGES_MAX],
    /// The content of the znode in the end; `None` until it was read.
    found: Option<Found>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    number: u64,
    /// The version of the znode: the number of sets that were executed.
    version: u64,
}

/// The acknowledgements to all writers in one stage.
#[derive(Clone, Debug, Default)]
pub struct StageTally {
    /// Sets that were acknowledged.
    pub acknowledged: u64,
    /// Latencies of the acknowledged sets, from the write to the socket.
    pub latencies: Latencies,
    /// The longest time between two acknowledgements to any writers, ns. A gap across stages counts
    /// for the later one.
    pub gap_ns: u64,
    /// Gaps like [`StageTally::gap_ns`], as seen from each server (indexed as the addresses).
    pub server_gaps: Vec<ServerGap>,
}

/// The longest times between two acknowledgements, ns, split by the server at which sessions began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerGap {
    /// Among the sessions that began at this server, all together.
    pub here_ns: u64,
    /// Among all other sessions, all together.
    pub elsewhere_ns: u64,
}

/// Counts of what went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Connections that ended while their session was open.
    pub connections_lost: u64,
    /// Attempts to connect that did not open a session.
    pub attempts_failed: u64,
    /// Sessions that the servers expired.
    pub sessions_expired: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// How often each kind of trouble occurred, by its name.
    pub by_kind: BTreeMap<String, u64>,
}

/// The balance of all sets of all writers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Sets that were acknowledged.
    pub acknowledged: u64,
    /// Sets that were acknowledged and are missing in the end.
    pub lost: u64,
    /// Sets whose outcome is unknown: without an answer, or answered with an error.
    pub unknown: u64,
    /// Sets of unknown outcome that were executed.
    pub unknown_that_happened: u64,
    /// Sets that were executed and never sent.
    pub surplus: u64,
    /// Writers that were not acknowledged again after the last stage, or whose znode could not be
    /// read.
    pub silent: u64,
}

/// The writers of one run, one for each child of a tree.
pub struct Writers<'a> {
    paths: Vec<String>,
    data: Vec<u8>,
    stages: &'a Stages,
    writers: Vec<Writer>,
    /// The acknowledgements of each stage.
    pub tallies: [StageTally; STAGES_MAX],
    /// The troubles of all writers.
    pub troubles: Troubles,
    /// For each session, the index of the server at which it began.
    places: Vec<usize>,
    /// For each server, the time of the newest acknowledgement to a session that began there, ns of
    /// the driver.
    last_ns: Vec<Option<u64>>,
    /// When the writers saw that the last stage was over, ns of the driver.
    over_ns: Option<u64>,
}

impl<'a> Writers<'a> {
    /// Writers for the children of a tree, whose data must have [`NUMBER_BYTES`] or more.
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

    /// Writes until the last stage is over and then each writer was acknowledged once more, but at
    /// most for [`RECOVERY_LIMIT`] after that stage. Then reads the znodes, after a sync.
    ///
    /// # Errors
    /// The servers stay silent.
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

    /// The longest time between two acknowledgements in a stage, one value for each writer.
    pub fn gaps(&self, stage: usize) -> Latencies {
        self.gaps_of(stage, |_| true)
    }

    /// Like [`Writers::gaps`], only for writers that began at a server for which `is_wanted` is
    /// true.
    pub fn gaps_of(&self, stage: usize, is_wanted: impl Fn(usize) -> bool) -> Latencies {
        let mut gaps = Latencies::default();
        for (writer, place) in self.writers.iter().zip(&self.places) {
            if is_wanted(*place) {
                gaps.record(writer.gap_ns[stage]);
            }
        }
        gaps
    }

    /// Updates the gaps of all writers together after an acknowledgement to a session that began at
    /// server `at`.
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
    // The number of sets is right, but the newest one is gone: an older set was executed after it,
    // or it was undone.
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
            // An error does not acknowledge the set; whether it was executed is unknown.
            writer.unknown += 1;
            self.troubles.on_error(header.error);
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
    /// Counts an answer that was an error.
    pub fn on_error(&mut self, error: ErrorCode) {
        self.errors += 1;
        self.count(&format!("answer {}", error.name()));
    }

    /// Counts the end of a connection.
    pub fn add(&mut self, loss: &Loss) {
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

    /// The kinds of trouble with their counts, in one line of text.
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

/// Reads the znodes in the end. If a connection ends, its request is sent again.
struct Check<'a, 'b> {
    all: &'a mut Writers<'b>,
    /// For each client, how many requests it has sent on its connection: first a sync, then a read.
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
        // Before the first set the data is no number.
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
