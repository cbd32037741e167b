//! The judge of an ensemble, without a committed order: could a single server, doing one write
//! after the other, have shown its clients everything that they saw?
//!
//! It sees only what clients saw: no log and no witness. To find an order that explains a history
//! is exponential in general. Here it is not, since every reply names its place: a write's zxid is
//! its place in the order, and a read's zxid is the state that it shows (ZooKeeper 3.9,
//! `FinalRequestProcessor.processRequest`). So the judge takes the order from the replies and
//! checks everything else against it.
//!
//! **What an accepted history proves:**
//! - No two writes have the same zxid. A write's zxid is above every zxid that any client was shown
//!   before the write was sent. So there is one order of the writes, and it respects real time.
//! - A session's zxids never decrease, even across its connections, and its writes are ordered as
//!   it sent them. So a session sees its own writes and never goes back.
//! - After a `sync`, a session sees everything that any client was shown before the `sync` was
//!   sent.
//! - Each path has a timeline of its changes (created, set, deleted), each at its zxid. It contains
//!   all acknowledged writes, and other changes that stats, data and events reveal. Every read, and
//!   every write that was refused with a reason, agrees with it at its zxid: existence, data,
//!   versions, zxids, owner. So no acknowledged write is lost, and no read mixes two states.
//! - A client sent every change in the timeline. If the change was not acknowledged, its write is
//!   of unknown fate: it happens at most once, and not before it was sent; a multi happens as a
//!   whole or not at all.
//! - The numbers of sequential znodes below one parent grow with their zxids.
//! - A session ends at one zxid: its ephemeral znodes exist before and not after, and it writes
//!   nothing after. No client gets it again, and no client learns of its end before the session was
//!   silent for its whole timeout, less [`Rules::expiry_slack_ms`].
//! - Each watch fires once, at the first known change after it was set, and before any reply that
//!   shows the change. Missed changes are reported when watches are set again.
//!
//! **What it does not prove:** a write whose data is null or empty is recognised only by its
//! effect, so one of unknown fate may be taken for another with the same path; the version that
//! such a write asked for is not checked. If a write of unknown fate may have deleted an ephemeral
//! znode, its disappearance says nothing about the end of its session. If no stat, event or answer
//! reveals a change, its watches are not missed. ACLs are not checked.
//!
//! **What the load must respect:** data that is not empty is written only once; a multi touches
//! each path only once; only sequential znodes have names that end in ten digits; the tree is empty
//! at first.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Completed, History, Received};
use crate::limits::COMPLAINTS_MAX;
use crate::model::parent_of;
use crate::op::{Answer, EventKind, Op, Stat, error, flag};

mod timeline;
mod watches;

use timeline::{FactKind, Timelines};

/// Rules of this judge that depend on the ensemble.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether a server refuses a session as gone only after the end is committed: then every
    /// client that reads after a later `sync` sees none of the session's znodes. In ZooKeeper 3.9 a
    /// leader refuses a session as soon as it decides to end it
    /// (`SessionTrackerImpl.setSessionClosing`).
    pub refusal_is_committed: bool,
    /// A session may end this many ms before its timeout is over, and a sign of life may not count
    /// for this long: the member that heard the client tells the leader late, or never if the
    /// member dies.
    pub expiry_slack_ms: u64,
}

/// A promise to clients that a history can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The load must respect the rules that this judge needs.
    Load,
    /// Each zxid belongs to one write, and only that write's changes have it.
    Order,
    /// An operation that finished before another began comes before it.
    RealTime,
    /// A session never sees an older state than before.
    Session,
    /// A read after a `sync` sees everything that was shown before the `sync` was sent.
    Sync,
    /// Replies agree with the state at their zxid.
    State,
    /// An acknowledged write happens once; any other write that was sent happens once or not at
    /// all.
    Fate,
    /// The numbers of sequential znodes grow with their zxids.
    Sequence,
    /// Ephemeral znodes live as long as their session.
    Ephemeral,
    /// A watch fires once, for the first change, and before a reply shows the change.
    Watch,
}

/// A broken promise, with its details.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?}: {what}")]
pub struct Violation {
    /// The promise that is broken.
    pub rule: Rule,
    /// A description of what happened, for people.
    pub what: String,
}

/// Counts of what was judged in an accepted history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Answered writes, successful or failed.
    pub acknowledged_count: usize,
    /// Writes that were refused before the log, or because their session had moved.
    pub refused_count: usize,
    /// Answered reads.
    pub read_count: usize,
    /// Reads after a `sync` of their session.
    pub read_behind_sync_count: usize,
    /// Writes without an answer whose effect was seen.
    pub unknown_done_count: usize,
    /// Writes without an answer whose effect was not seen.
    pub unknown_count: usize,
    /// Watch events received.
    pub event_count: usize,
    /// Times that a session moved to another connection.
    pub attach_count: usize,
    /// Sessions that certainly ended.
    pub ended_count: usize,
}

/// Judges a history.
///
/// # Errors
/// Everything that a correct ensemble could not have done, at most [`COMPLAINTS_MAX`] findings.
pub fn judge(history: &History, rules: Rules) -> Result<Verdict, Vec<Violation>> {
    let mut judge = Judge::new(history, rules);
    judge.index_data();
    judge.check_answers();
    judge.learn_unknown();
    judge.check_order();
    judge.check_sessions_in_order();
    let mut timelines = judge.draw_timelines();
    judge.walk(&mut timelines);
    judge.settle(&timelines);
    judge.check_sequences();
    judge.check_ends(&timelines);
    judge.check_watches(&timelines);
    judge.verdict()
}

/// The fate of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// The write took effect at this zxid, and was acknowledged or seen.
    Done { zxid: i64, is_acknowledged: bool },
    /// The write failed: it has a zxid and changed nothing.
    Failed { zxid: i64 },
    /// The write never entered the log.
    Refused,
    /// The write has no answer, and no effect was seen.
    Unknown,
}

/// A single write or a multi.
struct Write<'h> {
    /// The number of the operation.
    number: usize,
    session: i64,
    parts: &'h [Op],
    /// The newest zxid that any client was shown before the write was sent.
    floor: i64,
    fate: Fate,
    /// For each part, the path that it created; `None` if it is unknown or creates none.
    paths: Vec<Option<String>>,
}

impl Write<'_> {
    fn zxid(&self) -> Option<i64> {
        match self.fate {
            Fate::Done { zxid, .. } | Fate::Failed { zxid } => Some(zxid),
            Fate::Refused | Fate::Unknown => None,
        }
    }
}

/// The known points of a session's life, by zxid.
#[derive(Default)]
struct Life {
    /// The latest zxid at which the session was certainly alive, and how the judge knows it.
    alive: Option<(i64, String)>,
    /// The earliest zxid at which the session was certainly over, and how the judge knows it.
    over: Option<(i64, String)>,
    timeout_ms: u32,
}

impl Life {
    fn is_alive_at(&mut self, zxid: i64, why: impl FnOnce() -> String) {
        if self.alive.as_ref().is_none_or(|(at, _)| *at < zxid) {
            self.alive = Some((zxid, why()));
        }
    }

    fn is_over_at(&mut self, zxid: i64, why: impl FnOnce() -> String) {
        if self.over.as_ref().is_none_or(|(at, _)| *at > zxid) {
            self.over = Some((zxid, why()));
        }
    }
}

struct Judge<'h> {
    history: &'h History,
    rules: Rules,
    /// The session of each connection; 0 for none.
    sessions: Vec<i64>,
    writes: Vec<Write<'h>>,
    /// The position in `writes` of each operation that is a write, by the operation's number.
    write_of: BTreeMap<usize, usize>,
    /// For each data, the write that wrote it, and which part of that write did.
    writers: BTreeMap<&'h [u8], (usize, usize)>,
    /// For each path that a write of unknown fate may have deleted, the lowest zxid after which the
    /// delete may have happened.
    open_deletes: BTreeMap<&'h str, i64>,
    /// For each note of the history that showed a zxid: its sequence, and the newest zxid shown up
    /// to it.
    shown: Vec<(u64, i64)>,
    lives: BTreeMap<i64, Life>,
    complaints: Vec<Violation>,
    counts: Verdict,
}

/// Whether a reply's zxid has no meaning, since the request never entered the log.
fn is_refusal(code: i32) -> bool {
    !matches!(
        code,
        error::OK
            | error::RUNTIME_INCONSISTENCY
            | error::UNIMPLEMENTED
            | error::BAD_ARGUMENTS
            | error::NO_NODE
            | error::NO_AUTH
            | error::BAD_VERSION
            | error::NO_CHILDREN_FOR_EPHEMERALS
            | error::NODE_EXISTS
            | error::NOT_EMPTY
            | error::QUOTA_EXCEEDED
    )
}

/// Whether a path belongs to the server: it exists from the beginning and is not part of the load.
fn is_of_the_server(path: &str) -> bool {
    path == "/" || path == "/zookeeper" || path.starts_with("/zookeeper/")
}

/// Splits a sequential path into its prefix and its number; `None` if it does not end in ten
/// digits.
fn split_number(path: &str) -> Option<(&str, i32)> {
    let at = path.len().checked_sub(10)?;
    let (prefix, digits) = (path.get(..at)?, path.get(at..)?);
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((prefix, digits.parse().ok().filter(|_| all_digits)?))
}

impl<'h> Judge<'h> {
    fn new(history: &'h History, rules: Rules) -> Judge<'h> {
        let session_of = |received: &Received| match received {
            Received::Connected { session, .. } => Some(*session),
            _ => None,
        };
        let sessions: Vec<i64> = history
            .connections
            .iter()
            .map(|it| it.received.iter().find_map(session_of).unwrap_or(0))
            .collect();
        let mut judge = Judge {
            history,
            rules,
            sessions,
            writes: Vec::new(),
            write_of: BTreeMap::new(),
            writers: BTreeMap::new(),
            open_deletes: BTreeMap::new(),
            shown: shown_zxids(history),
            lives: BTreeMap::new(),
            complaints: Vec::new(),
            counts: Verdict::default(),
        };
        for (number, record) in history.ops.iter().enumerate() {
            if !record.op.is_write() {
                judge.counts.read_count += usize::from(record.completed.is_some());
                continue;
            }
            let parts = match &record.op {
                Op::Multi(ops) => ops.as_slice(),
                op => core::slice::from_ref(op),
            };
            let fate = fate_of(record.completed.as_ref());
            judge.write_of.insert(number, judge.writes.len());
            judge.writes.push(Write {
                number,
                session: judge.sessions[record.connection],
                parts,
                floor: judge.shown_before(record.invoked.sequence),
                fate,
                paths: vec![None; parts.len()],
            });
        }
        judge
    }

    fn complain(&mut self, rule: Rule, what: String) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(Violation { rule, what });
        }
    }

    /// The newest zxid that any client was shown before this note (sequence).
    fn shown_before(&self, sequence: u64) -> i64 {
        match self.shown.partition_point(|(at, _)| *at < sequence) {
            0 => 0,
            count => self.shown[count - 1].1,
        }
    }

    fn describe(&self, number: usize) -> String {
        let record = &self.history.ops[number];
        let client = self.history.connections[record.connection].client;
        let end = match &record.completed {
            None => "no answer".to_string(),
            Some(completed) => {
                format!("error {} at zxid {:#x}", completed.error, completed.zxid)
            }
        };
        let op = shorten(&record.op);
        format!(
            "operation {number} (client {client}, connection {}, session {:#x}; {op}; {end})",
            record.connection, self.sessions[record.connection]
        )
    }

    // The identity of the writes.

    fn index_data(&mut self) {
        let mut twice = Vec::new();
        for (index, write) in self.writes.iter().enumerate() {
            let mut touched = BTreeSet::new();
            for (position, part) in write.parts.iter().enumerate() {
                let (path, data) = match part {
                    Op::Create { path, data, flag, .. } => {
                        ((!flag::is_sequential(*flag)).then_some(path), data)
                    }
                    Op::SetData { path, data, .. } => (Some(path), data),
                    Op::Delete { path, .. } | Op::Check { path, .. } => (Some(path), &None),
                    _ => continue,
                };
                if path.is_some_and(|path| !touched.insert(path)) {
                    twice.push(format!("operation {} touches a path twice", write.number));
                }
                let Some(data) = data.as_deref().filter(|data| !data.is_empty()) else { continue };
                if self.writers.insert(data, (index, position)).is_some() {
                    twice.push(format!("operation {} writes what another wrote", write.number));
                }
            }
        }
        twice.into_iter().for_each(|what| self.complain(Rule::Load, what));
    }

    /// Checks the answer of each successful write against the write itself.
    fn check_answers(&mut self) {
        for index in 0..self.writes.len() {
            let number = self.writes[index].number;
            let Some(completed) = &self.history.ops[number].completed else { continue };
            if !matches!(self.writes[index].fate, Fate::Done { .. }) {
                continue;
            }
            let results: Vec<&Answer> = match &completed.answer {
                Answer::Multi(results) => results.iter().flatten().collect(),
                answer => vec![answer],
            };
            for (position, answer) in results.into_iter().enumerate() {
                if let Err(what) = self.check_answer(index, position, answer, completed.zxid) {
                    let who = self.describe(number);
                    self.complain(Rule::State, format!("{who}: {what}"));
                }
            }
        }
    }

    fn check_answer(
        &mut self,
        index: usize,
        position: usize,
        answer: &Answer,
        zxid: i64,
    ) -> Result<(), String> {
        let part = self.writes[index].parts.get(position).ok_or("more results than parts")?;
        match (part, answer) {
            (Op::Create { path, flag, .. }, Answer::Path(made) | Answer::PathStat(made, _)) => {
                let fits = match flag::is_sequential(*flag) {
                    true => split_number(made).is_some_and(|(prefix, _)| prefix == path),
                    false => made == path,
                };
                if !fits {
                    return Err(format!("it made {made}"));
                }
                self.writes[index].paths[position] = Some(made.clone());
                match answer {
                    Answer::PathStat(_, stat) if (stat.czxid, stat.mzxid) != (zxid, zxid) => {
                        Err(format!("its stat is of another zxid: {stat:?}"))
                    }
                    _ => Ok(()),
                }
            }
            (Op::SetData { version, .. }, Answer::Stat(stat)) => {
                if stat.mzxid != zxid {
                    return Err(format!("its stat is of another zxid: {stat:?}"));
                }
                if *version != -1 && stat.version != version.wrapping_add(1) {
                    return Err(format!("it asked for version {version}: {stat:?}"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Learns the fate of writes without an answer: the data in a reply identify the write, and the
    /// stat tells its zxid.
    fn learn_unknown(&mut self) {
        let history = self.history;
        for (number, record) in history.ops.iter().enumerate() {
            let Some(completed) = &record.completed else { continue };
            let reads: Vec<(&Op, &Answer)> = match (&record.op, &completed.answer) {
                (Op::MultiRead(ops), Answer::Multi(results)) => {
                    let results = results.iter().map(|result| result.as_ref().ok());
                    ops.iter().zip(results).filter_map(|(op, it)| Some((op, it?))).collect()
                }
                (op, answer) => vec![(op, answer)],
            };
            for (op, answer) in reads {
                let (Op::GetData { path, .. }, Answer::Data(Some(data), stat)) = (op, answer)
                else {
                    continue;
                };
                if is_of_the_server(path) || data.is_empty() {
                    continue;
                }
                if let Err((rule, what)) = self.learn(path, data, stat) {
                    let who = self.describe(number);
                    self.complain(rule, format!("{who} shows {}: {what}", shorten(stat)));
                }
            }
        }
    }

    fn learn(&mut self, path: &str, data: &[u8], stat: &Stat) -> Result<(), (Rule, String)> {
        let Some(&(index, position)) = self.writers.get(data) else {
            return Err((Rule::State, format!("nobody wrote {}", shorten(&data))));
        };
        let write = &self.writes[index];
        let (number, zxid) = (write.number, stat.mzxid);
        let fits = match &write.parts[position] {
            Op::Create { path: asked, flag, .. } => {
                let is_here = match flag::is_sequential(*flag) {
                    true => split_number(path).is_some_and(|(prefix, _)| prefix == asked),
                    false => asked == path,
                };
                let is_ephemeral = matches!(*flag, flag::EPHEMERAL | flag::EPHEMERAL_SEQUENTIAL);
                let owner = if is_ephemeral { write.session } else { 0 };
                is_here && stat.version == 0 && stat.czxid == zxid && stat.ephemeral_owner == owner
            }
            Op::SetData { path: asked, .. } => asked == path && stat.version > 0,
            _ => false,
        };
        if !fits {
            return Err((Rule::State, format!("that is the data of operation {number}")));
        }
        let made = matches!(&write.parts[position], Op::Create { .. }).then(|| path.to_string());
        match write.fate {
            Fate::Done { zxid: at, .. } if at != zxid => {
                let what = format!("operation {number} was done at zxid {at:#x} already");
                return Err((Rule::Fate, what));
            }
            Fate::Failed { .. } | Fate::Refused => {
                return Err((Rule::Fate, format!("operation {number} was refused")));
            }
            Fate::Done { .. } | Fate::Unknown => {}
        }
        if zxid <= write.floor {
            let floor = write.floor;
            let what = format!("operation {number} was sent after zxid {floor:#x} was shown");
            return Err((Rule::RealTime, what));
        }
        let write = &mut self.writes[index];
        if write.fate == Fate::Unknown {
            write.fate = Fate::Done { zxid, is_acknowledged: false };
        }
        if let Some(made) = made {
            match &write.paths[position] {
                Some(known) if *known != made => {
                    let what = format!("operation {number} made {known} already");
                    return Err((Rule::Fate, what));
                }
                _ => write.paths[position] = Some(made),
            }
        }
        Ok(())
    }

    // The order of the writes.

    fn check_order(&mut self) {
        let mut of_zxid: BTreeMap<i64, usize> = BTreeMap::new();
        let mut found = Vec::new();
        for write in &self.writes {
            let Some(zxid) = write.zxid() else { continue };
            let number = write.number;
            if let Some(other) = of_zxid.insert(zxid, number) {
                let (one, two) = (self.describe(other), self.describe(number));
                found.push((Rule::Order, format!("{one} and {two} both have zxid {zxid:#x}")));
            }
            if zxid <= write.floor {
                let who = self.describe(number);
                let floor = write.floor;
                let what =
                    format!("{who} has zxid {zxid:#x}; before it was sent, {floor:#x} was shown");
                found.push((Rule::RealTime, what));
            }
        }
        found.into_iter().for_each(|(rule, what)| self.complain(rule, what));
    }

    /// The connections of each session, in order.
    fn connections_of_sessions(&self) -> BTreeMap<i64, Vec<usize>> {
        let mut all: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (connection, session) in self.sessions.iter().enumerate() {
            if *session != 0 {
                all.entry(*session).or_default().push(connection);
            }
        }
        all
    }

    fn check_sessions_in_order(&mut self) {
        for connections in self.connections_of_sessions().into_values() {
            self.counts.attach_count += connections.len() - 1;
            let sent = connections.iter().flat_map(|it| &self.history.connections[*it].sent);
            let sent: Vec<usize> = sent.copied().collect();
            if let Err((rule, what)) = self.check_session(&sent) {
                self.complain(rule, what);
            }
        }
    }

    /// Checks the operations of one session, in the order of sending.
    fn check_session(&mut self, sent: &[usize]) -> Result<(), (Rule, String)> {
        // The newest zxid that the session was shown, the zxid of its last write, and the zxid that
        // a sync guarantees, each with the number of its operation.
        let (mut shown, mut written, mut synced) = ((0, 0), (0, 0), (0, 0));
        for &number in sent {
            let record = &self.history.ops[number];
            let write_zxid = self.write_of.get(&number).and_then(|it| self.writes[*it].zxid());
            if let Some(zxid) = write_zxid {
                if zxid <= written.0 {
                    let (earlier, later) = (self.describe(written.1), self.describe(number));
                    let what = format!("{later} has zxid {zxid:#x}, {earlier} was sent before it");
                    return Err((Rule::Session, what));
                }
                written = (zxid, number);
            }
            let Some(completed) = &record.completed else { continue };
            if record.op == Op::Ping || is_refusal(completed.error) {
                continue;
            }
            let zxid = completed.zxid;
            let is_back = zxid < shown.0 || write_zxid.is_some() && zxid == shown.0;
            if is_back {
                let (earlier, later) = (self.describe(shown.1), self.describe(number));
                return Err((Rule::Session, format!("{later} goes behind {earlier}")));
            }
            if zxid < synced.0 {
                let (sync, later) = (self.describe(synced.1), self.describe(number));
                let floor = synced.0;
                let what = format!(
                    "{later} is stale: {floor:#x} was shown before the session's {sync} was sent"
                );
                return Err((Rule::Sync, what));
            }
            shown = (zxid, number);
            let is_sync = matches!(record.op, Op::Sync { .. });
            self.counts.read_behind_sync_count +=
                usize::from(synced.0 > 0 && !is_sync && write_zxid.is_none());
            if is_sync && completed.error == error::OK {
                let floor = self.shown_before(record.invoked.sequence);
                synced = synced.max((floor, number));
            }
        }
        Ok(())
    }

    fn check_sequences(&mut self) {
        let mut made: BTreeMap<&str, Vec<(i64, usize, i32, &str)>> = BTreeMap::new();
        for write in &self.writes {
            let Fate::Done { zxid, .. } = write.fate else { continue };
            for (position, (part, path)) in write.parts.iter().zip(&write.paths).enumerate() {
                let (Op::Create { flag, .. }, Some(path)) = (part, path) else { continue };
                if flag::is_sequential(*flag)
                    && let Some((_, number)) = split_number(path)
                {
                    let of_parent = made.entry(parent_of(path)).or_default();
                    of_parent.push((zxid, position, number, path));
                }
            }
        }
        let mut found = Vec::new();
        for of_parent in made.values_mut() {
            of_parent.sort_unstable();
            for pair in of_parent.windows(2) {
                let ((earlier_zxid, _, earlier, one), (later_zxid, _, later, two)) =
                    (pair[0], pair[1]);
                if later <= earlier {
                    found.push(format!(
                        "{two} was made at zxid {later_zxid:#x}, {one} at {earlier_zxid:#x}"
                    ));
                }
            }
        }
        found.into_iter().for_each(|what| self.complain(Rule::Sequence, what));
    }

    // The ends of sessions.

    fn check_ends(&mut self, timelines: &Timelines) {
        self.learn_lives(timelines);
        let mut found = Vec::new();
        for (session, life) in &self.lives {
            if let (Some((alive, why)), Some((over, why_over))) = (&life.alive, &life.over)
                && alive >= over
            {
                found.push(format!(
                    "session {session:#x} was alive at zxid {alive:#x} ({why}) and over at {over:#x} \
                     ({why_over})"
                ));
            }
            self.counts.ended_count += usize::from(life.over.is_some());
        }
        found.into_iter().for_each(|what| self.complain(Rule::Ephemeral, what));
        self.check_attachments();
    }

    fn learn_lives(&mut self, timelines: &Timelines) {
        for connection in &self.history.connections {
            for received in &connection.received {
                if let Received::Connected { session, timeout_ms, .. } = received {
                    self.lives.entry(*session).or_default().timeout_ms = *timeout_ms;
                }
            }
        }
        for index in 0..self.writes.len() {
            let write = &self.writes[index];
            let (session, number) = (write.session, write.number);
            let Some(zxid) = write.zxid() else { continue };
            let is_end = write.parts == [Op::CloseSession];
            let who = self.describe(number);
            let life = self.lives.entry(session).or_default();
            match is_end {
                true => life.is_over_at(zxid, || format!("{who} closed it")),
                false => life.is_alive_at(zxid, || format!("{who} was done")),
            }
        }
        for (session, zxid, path) in &timelines.owners_alive {
            let life = self.lives.entry(*session).or_default();
            life.is_alive_at(*zxid, || format!("its ephemeral {path} is there"));
        }
        for (session, zxid, path) in &timelines.owners_over {
            let life = self.lives.entry(*session).or_default();
            life.is_over_at(*zxid, || format!("its ephemeral {path} is gone"));
        }
        if self.rules.refusal_is_committed {
            self.learn_refusals();
        }
    }

    /// Learns when refused sessions were over. If a session was refused, a read behind a sync that
    /// was sent after the refusal shows a state without the session.
    fn learn_refusals(&mut self) {
        let mut syncs: Vec<(u64, i64)> = Vec::new();
        for connections in self.connections_of_sessions().into_values() {
            let mut waiting = Vec::new();
            for number in connections.iter().flat_map(|it| &self.history.connections[*it].sent) {
                let record = &self.history.ops[*number];
                let Some(completed) = &record.completed else { continue };
                if record.op == Op::Ping || is_refusal(completed.error) {
                    continue;
                }
                if matches!(record.op, Op::Sync { .. }) {
                    waiting.push(record.invoked.sequence);
                } else {
                    syncs.extend(waiting.drain(..).map(|sync| (sync, completed.zxid)));
                }
            }
        }
        syncs.sort_unstable();
        for connection in &self.history.connections {
            let (Some(told), [Received::Refused]) = (connection.told, &connection.received[..])
            else {
                continue;
            };
            let later = &syncs[syncs.partition_point(|(sync, _)| *sync < told.sequence)..];
            let Some(zxid) = later.iter().map(|(_, zxid)| *zxid).min() else { continue };
            let life = self.lives.entry(connection.session_asked).or_default();
            life.is_over_at(zxid, || "it had been refused before a sync".to_string());
        }
    }

    fn check_attachments(&mut self) {
        let mut found = Vec::new();
        let mut refused: BTreeMap<i64, usize> = BTreeMap::new();
        for (number, connection) in self.history.connections.iter().enumerate() {
            let session = connection.session_asked;
            if session == 0 {
                continue;
            }
            let life = self.lives.get(&session);
            let is_refused = connection.received.first() == Some(&Received::Refused);
            if is_refused {
                refused.insert(session, number);
                found.extend(self.check_refusal(number));
                continue;
            }
            if self.sessions[number] != session {
                continue;
            }
            if let Some(other) = refused.get(&session) {
                found.push(format!(
                    "connection {number} is given session {session:#x}, which connection {other} \
                     was told is gone"
                ));
            }
            if let (Some(asked), Some((over, why))) =
                (connection.asked, life.and_then(|life| life.over.as_ref()))
                && self.shown_before(asked.sequence) >= *over
            {
                found.push(format!(
                    "connection {number} is given session {session:#x}, over at zxid {over:#x} \
                     ({why}), which was shown before it asked"
                ));
            }
        }
        found.into_iter().for_each(|what| self.complain(Rule::Session, what));
    }

    /// Checks that a session that its client did not close was refused only after its timeout.
    fn check_refusal(&self, connection: usize) -> Option<String> {
        let session = self.history.connections[connection].session_asked;
        let told = self.history.connections[connection].told?;
        let timeout_ms = u64::from(self.lives.get(&session)?.timeout_ms);
        let slack_us = self.rules.expiry_slack_ms * 1000;
        let mut heard_us = 0;
        for (number, _) in self.sessions.iter().enumerate().filter(|(_, it)| **it == session) {
            let record = &self.history.connections[number];
            heard_us = heard_us.max(record.asked.map_or(0, |asked| asked.at_us));
            for op in record.sent.iter().map(|number| &self.history.ops[*number]) {
                if op.op == Op::CloseSession {
                    return None;
                }
                // A recent sign of life may not have reached the member that ended the session.
                if op.completed.is_some() && op.invoked.at_us + slack_us <= told.at_us {
                    heard_us = heard_us.max(op.invoked.at_us);
                }
            }
        }
        let silence_ms = told.at_us.saturating_sub(heard_us) / 1000;
        (silence_ms + self.rules.expiry_slack_ms < timeout_ms).then(|| {
            format!(
                "connection {connection} was told that session {session:#x} is gone, {silence_ms} ms \
                 after it was heard; its timeout is {timeout_ms} ms"
            )
        })
    }

    fn verdict(mut self) -> Result<Verdict, Vec<Violation>> {
        if !self.complaints.is_empty() {
            return Err(self.complaints);
        }
        for write in &self.writes {
            let count = match write.fate {
                Fate::Done { is_acknowledged: false, .. } => &mut self.counts.unknown_done_count,
                Fate::Done { .. } | Fate::Failed { .. } => &mut self.counts.acknowledged_count,
                Fate::Refused => &mut self.counts.refused_count,
                Fate::Unknown => &mut self.counts.unknown_count,
            };
            *count += 1;
        }
        Ok(self.counts)
    }
}

fn fate_of(completed: Option<&Completed>) -> Fate {
    let Some(completed) = completed else { return Fate::Unknown };
    let zxid = completed.zxid;
    match (&completed.answer, completed.error) {
        (Answer::Multi(results), error::OK) if results.iter().any(Result::is_err) => {
            Fate::Failed { zxid }
        }
        (_, error::OK) => Fate::Done { zxid, is_acknowledged: true },
        (_, code) if is_refusal(code) => Fate::Refused,
        _ => Fate::Failed { zxid },
    }
}

/// The newest zxid shown so far, after each note (sequence) that showed one. Pings do not count,
/// since clients ignore their zxid.
fn shown_zxids(history: &History) -> Vec<(u64, i64)> {
    let mut shown: Vec<(u64, i64)> = history
        .ops
        .iter()
        .filter_map(|record| {
            let completed = record.completed.as_ref()?;
            let counts = record.op != Op::Ping && !is_refusal(completed.error);
            counts.then_some((completed.moment.sequence, completed.zxid))
        })
        .collect();
    shown.sort_unstable();
    let mut newest = 0;
    for (_, zxid) in &mut shown {
        newest = newest.max(*zxid);
        *zxid = newest;
    }
    shown
}

/// Formats a value and cuts the text off if it is long.
fn shorten(what: &impl core::fmt::Debug) -> String {
    const CHARACTERS_MAX: usize = 300;
    let text = format!("{what:?}");
    match text.char_indices().nth(CHARACTERS_MAX) {
        None => text,
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}

#[cfg(test)]
mod tests;
