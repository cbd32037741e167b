//! The judge that knows the committed order: could a single server, doing one thing after the
//! other, have shown its clients everything that they saw?
//!
//! It gets the history and the order in which the server claims to have committed commands. The
//! judge does not trust that order. A client must have sent each write in the order. The order has
//! each write at most once, and the writes of one connection in the order in which that connection
//! sent them, without gaps except writes that the server may have refused ([`Rules`]). The judge
//! replays the order on the model. The replay must give every acknowledged write its zxid and its
//! reply, and every read must equal the model's at the zxid in the read's header. If a server lies
//! about the order, nothing fits. Commands that the server makes itself, such as expiries, have no
//! sender; the model decides what they change. If a connection ended before the reply to an
//! operation, the client does not know the operation's fate; the order decides it.
//!
//! Then each connection is checked by itself. Zxids never decrease, and a write has a newer zxid
//! than everything shown before it. Each watch fires once, for the first change after the watch was
//! set, and before any reply that shows the change; no event is lost. A persistent watch fires once
//! for each change. A connection loses its session if the session ends, or moves to another
//! connection. Nothing that the connection shows is newer than this loss. Finally all connections
//! are checked together: an operation sees everything that finished before it began. If reads may
//! lag ([`Rules::reads_may_lag`]), a read must see only what its session was shown, and what
//! finished before a sync on its connection began.
//!
//! A server without a leader may serve clients that accept read-only mode. Such a connection has no
//! place in the order. Its reads are judged like all others, and operations that need a leader must
//! be refused.

mod due;

use std::collections::{BTreeMap, BTreeSet};

use due::DueEvents;

use crate::history::{ConnectionRecord, History, OpRecord, Received};
use crate::model::{Change, ChangeKind, Model, NOBODY, Readers, Settings, parent_of};
use crate::op::{Answer, BadFrame, EventKind, Op, Signature, Watching, error};

/// A command of the committed order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// A connection opens a session.
    Open {
        /// The session id.
        session: i64,
        /// The password that a client must send to get the session again.
        password: [u8; 16],
        /// The number of the connection.
        connection: usize,
    },
    /// A connection asks for an existing session.
    Attach {
        /// The session id.
        session: i64,
        /// The password that the client sent.
        password: [u8; 16],
        /// The number of the connection.
        connection: usize,
    },
    /// These sessions expire. Each comes with the ordinal of the attachment that the leader judged;
    /// a session that was attached again since does not expire.
    Expire(Vec<(i64, u64)>),
    /// A write of a client.
    Write {
        /// The session of the client.
        session: i64,
        /// The number of the connection.
        connection: usize,
        /// Identifies the write.
        signature: Signature,
        /// The leader's time, in ms.
        time_ms: i64,
    },
    /// The list of servers changes.
    ListChange {
        /// The list that clients see, without the line of its version; `None` if they see none.
        servers: Option<String>,
        /// The leader's time, in ms.
        time_ms: i64,
    },
    /// An earlier state is restored from a snapshot.
    Install {
        /// The number of commands that the snapshot contains.
        ordinal: u64,
    },
    /// Znodes are removed if they are due.
    RemoveDue {
        /// The paths of the znodes.
        paths: Vec<String>,
        /// The leader's time, in ms.
        time_ms: i64,
        /// The age in ms after which a container that never had a child is removed; 0 for never.
        never_used_ms_max: i64,
    },
    /// The settings are replaced.
    Configure(Settings),
}

/// Rules of this judge that depend on the run.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// For each connection, the spells in which its server may have refused writes for want of disk
    /// space, in us of the driver's clock, both ends included. A write that was sent before the end
    /// of such a spell and has no reply may be missing in the order while a later write of its
    /// connection is present. The servers of connections beyond the end of the list refuse none.
    pub refusing_us: Vec<Vec<(u64, u64)>>,
    /// Whether servers may refuse requests that waited too long. A write that such a server has
    /// refused may be missing in the order while a later write of its connection is present, as in
    /// `refusing_us`.
    pub may_throttle: bool,
    /// The configured age in ms at which containers that never had a child are removed; 0 for
    /// never.
    pub never_used_ms_max: i64,
    /// Whether a read shows the member's own state, which may lag. If so, a read must only include
    /// what its session was shown before, and what finished before a sync on its connection began.
    pub reads_may_lag: bool,
}

impl Rules {
    /// Whether the connection's server may have refused this write for want of disk space.
    fn may_refuse(&self, record: &OpRecord) -> bool {
        let spells = self.refusing_us.get(record.connection).map_or(&[][..], Vec::as_slice);
        let sent_us = record.invoked.at_us;
        let answered_us = record.completed.as_ref().map_or(u64::MAX, |it| it.moment.at_us);
        spells.iter().any(|(from_us, until_us)| *from_us <= answered_us && *until_us >= sent_us)
    }
}

/// The result of judging an accepted history.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The model after the whole order.
    pub model: Model,
    /// For each acknowledged write, the operation's number and its position in the order.
    pub acknowledged: Vec<(usize, usize)>,
    /// For each answered read, the operation's number and the least number of commands in the state
    /// that the read shows.
    pub shown: Vec<(usize, usize)>,
    /// Writes that were refused before the log.
    pub refused_count: usize,
    /// Requests refused because they had waited too long.
    pub throttled_count: usize,
    /// Answered reads.
    pub read_count: usize,
    /// Reads answered on connections in read-only mode.
    pub read_only_count: usize,
    /// Requests refused on connections in read-only mode.
    pub not_read_only_count: usize,
    /// Writes without a reply that took effect.
    pub unknown_done_count: usize,
    /// Watch events received.
    pub event_count: usize,
    /// Events received only because of persistent watches.
    pub lasting_event_count: usize,
    /// Events received about znodes that only some users may read.
    pub private_event_count: usize,
    /// Events withheld from a watch whose connection may not read the znode.
    pub hidden_event_count: usize,
    /// Expired sessions, each with the position of the command in the order.
    pub expired: Vec<(i64, usize)>,
    /// How often an earlier state was restored.
    pub installed_count: usize,
    /// Znodes that the server removed because they were due.
    pub gone_count: usize,
    /// Writes refused by a quota.
    pub over_quota_count: usize,
}

/// A broken promise, as text for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

fn violation<T>(what: String) -> Result<T, Violation> {
    Err(Violation(what))
}

/// Judges a history.
///
/// # Errors
/// The first thing that a correct server could not have done.
pub fn judge(
    history: &History,
    committed: &[Committed],
    rules: Rules,
) -> Result<Verdict, Violation> {
    let mut replay = Replay::new(history, rules);
    replay.kept = kept_states(committed);
    for (position, command) in committed.iter().enumerate() {
        replay.command(position, command)?;
    }
    replay.finish(committed.len())?;
    let Replay { rules, model, changes, missed, over, mut verdict_counts, .. } = replay;
    for number in 0..history.connections.len() {
        let over = over.get(&number).copied();
        let events = check_stream(history, number, &changes, &missed, over)?;
        verdict_counts.events += events.count;
        verdict_counts.lasting_events += events.lasting;
        verdict_counts.private_events += events.private;
        verdict_counts.hidden_events += events.hidden;
    }
    check_real_time(history, &rules)?;
    Ok(Verdict {
        model,
        acknowledged: verdict_counts.acknowledged,
        shown: verdict_counts.shown,
        refused_count: verdict_counts.refused,
        throttled_count: verdict_counts.throttled,
        read_count: verdict_counts.reads,
        read_only_count: verdict_counts.read_only,
        not_read_only_count: verdict_counts.not_read_only,
        unknown_done_count: verdict_counts.unknown_done,
        event_count: verdict_counts.events,
        lasting_event_count: verdict_counts.lasting_events,
        private_event_count: verdict_counts.private_events,
        hidden_event_count: verdict_counts.hidden_events,
        expired: verdict_counts.expired,
        installed_count: committed.iter().filter(|it| is_install(it)).count(),
        gone_count: verdict_counts.gone,
        over_quota_count: verdict_counts.over_quota,
    })
}

#[derive(Default)]
struct Counts {
    acknowledged: Vec<(usize, usize)>,
    shown: Vec<(usize, usize)>,
    refused: usize,
    throttled: usize,
    reads: usize,
    read_only: usize,
    not_read_only: usize,
    unknown_done: usize,
    events: usize,
    lasting_events: usize,
    private_events: usize,
    hidden_events: usize,
    expired: Vec<(i64, usize)>,
    gone: usize,
    over_quota: usize,
}

/// For each operation that sets watches again, by its number, the events that it must give at once.
type Missed = BTreeMap<usize, Vec<(EventKind, String)>>;

/// The first part: replays the committed order on the model.
struct Replay<'h> {
    history: &'h History,
    rules: Rules,
    model: Model,
    changes: Vec<Change>,
    missed: Missed,
    /// The writes of each connection, in the order of sending.
    writes: Vec<Vec<usize>>,
    /// For each connection, how many of its writes the replay has passed.
    cursors: Vec<usize>,
    /// For each operation, the users that its connection had authenticated as when it was sent.
    users: Vec<Vec<usize>>,
    /// Whether each operation is in the order.
    is_done: Vec<bool>,
    /// The reads that are not checked yet, by the zxid in their reply.
    reads: BTreeMap<i64, Vec<usize>>,
    /// For each connection in the order, the session that it was given; `None` if it was refused.
    granted: BTreeMap<usize, Option<Granted>>,
    /// All sessions, including ended ones.
    lives: BTreeMap<i64, Life>,
    passwords: BTreeSet<[u8; 16]>,
    /// The sessions that exist after the last command.
    alive: BTreeSet<i64>,
    /// For each connection that lost its session, the newest zxid at that time.
    over: BTreeMap<usize, i64>,
    /// The states that a later command restores, by their ordinal; `None` until the replay reaches
    /// the state.
    kept: BTreeMap<u64, Option<Model>>,
    verdict_counts: Counts,
}

fn is_install(command: &Committed) -> bool {
    matches!(command, Committed::Install { .. })
}

/// Empty places for the states that will be restored later.
fn kept_states(committed: &[Committed]) -> BTreeMap<u64, Option<Model>> {
    let ordinal = |command: &Committed| match command {
        Committed::Install { ordinal } => Some((*ordinal, None)),
        _ => None,
    };
    committed.iter().filter_map(ordinal).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Granted {
    session: i64,
    password: [u8; 16],
}

/// A session, from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    password: [u8; 16],
    /// The zxid at the session's beginning.
    opened_at: i64,
    ended_at: Option<i64>,
}

impl<'h> Replay<'h> {
    fn new(history: &'h History, rules: Rules) -> Replay<'h> {
        let writes: Vec<Vec<usize>> = history
            .connections
            .iter()
            .map(|connection| {
                let sent = connection.sent.iter().copied();
                // The server handles nothing after a frame that ends the connection.
                let taken = sent.take_while(|number| !is_bad_frame(&history.ops[*number].op));
                taken.filter(|number| history.ops[*number].op.is_write()).collect()
            })
            .collect();
        let mut reads: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (number, record) in history.ops.iter().enumerate() {
            if let Some(completed) = &record.completed
                && !record.op.is_write()
                && !record.op.has_no_zxid()
            {
                reads.entry(completed.zxid).or_default().push(number);
            }
        }
        Replay {
            history,
            rules,
            model: Model::new(),
            changes: Vec::new(),
            missed: Missed::new(),
            users: users_of(history),
            cursors: vec![0; writes.len()],
            writes,
            is_done: vec![false; history.ops.len()],
            reads,
            granted: BTreeMap::new(),
            lives: BTreeMap::new(),
            passwords: BTreeSet::new(),
            alive: BTreeSet::new(),
            over: BTreeMap::new(),
            kept: BTreeMap::new(),
            verdict_counts: Counts::default(),
        }
    }

    fn command(&mut self, position: usize, command: &Committed) -> Result<(), Violation> {
        // The state at a zxid ends when the next zxid is used.
        self.check_reads(position)?;
        if let Some(kept) = self.kept.get_mut(&self.model.ordinal) {
            *kept = Some(self.model.clone());
        }
        if let Committed::Open { connection, .. } | Committed::Attach { connection, .. } = command
            && self.asks_for_no_session(*connection)
        {
            return violation(format!(
                "connection {connection} has a session, and sent no connect request"
            ));
        }
        match command {
            Committed::Open { session, password, connection } => {
                self.open(Granted { session: *session, password: *password }, *connection)?;
            }
            Committed::Attach { session, password, connection } => {
                self.attach(Granted { session: *session, password: *password }, *connection)?;
            }
            Committed::Expire(judged) => self.expire(position, judged)?,
            Committed::Write { session, connection, signature, time_ms } => {
                let sender = (*session, *connection);
                self.write(position, sender, signature, *time_ms)?;
            }
            Committed::Install { ordinal } => {
                let Some(Some(kept)) = self.kept.get(ordinal) else {
                    return violation(format!(
                        "command {position} brings back ordinal {ordinal}, which is still to come"
                    ));
                };
                let newest = self.model.zxid;
                for connection in self.model.install(kept) {
                    self.over.insert(connection, newest);
                }
            }
            Committed::RemoveDue { paths, time_ms, never_used_ms_max } => {
                let wanted = self.rules.never_used_ms_max;
                if *never_used_ms_max != wanted {
                    return violation(format!(
                        "containers that were never used go after {never_used_ms_max} ms, \
                         configured is {wanted}"
                    ));
                }
                self.model.begin_transactions();
                for path in paths {
                    // Between two of these transactions a member serves no reads, but it may tell a
                    // client the zxid of one.
                    self.check_reads(position)?;
                    let is_gone = self.model.remove_due(path, *time_ms, *never_used_ms_max);
                    self.verdict_counts.gone += usize::from(is_gone);
                }
            }
            Committed::Configure(settings) => self.model.configure(*settings),
            Committed::ListChange { servers, time_ms } => {
                self.model.change_list(servers.as_deref(), *time_ms);
            }
        }
        self.changes.extend(self.model.take_changes());
        self.note_ended();
        Ok(())
    }

    /// Opens a session. Neither its id nor its password may have belonged to an earlier session.
    fn open(&mut self, asks: Granted, connection: usize) -> Result<(), Violation> {
        let Granted { session, password } = asks;
        let opened = self.model.open(session, password, connection);
        let life = Life { password, opened_at: self.model.zxid, ended_at: None };
        if opened && self.lives.insert(session, life).is_some() {
            return violation(format!(
                "connection {connection} is given session {session:#x}, which was another's"
            ));
        }
        if opened && !self.passwords.insert(password) {
            return violation(format!(
                "connection {connection} is given a password that was another's"
            ));
        }
        self.alive.extend(opened.then_some(session));
        self.granted.insert(connection, opened.then_some(asks));
        Ok(())
    }

    /// Expires the listed sessions, unless they were attached since they were judged. A member
    /// serves no reads between two of these expiries; but an answer may have the zxid of any of
    /// them, so answers are checked after each.
    fn expire(&mut self, position: usize, judged: &[(i64, u64)]) -> Result<(), Violation> {
        self.model.begin_transactions();
        for (session, attached) in judged {
            self.check_reads(position)?;
            let had = self.model.sessions.get(session).map(|it| it.connection);
            let Some(connection) = had.filter(|_| self.model.expire(*session, *attached)) else {
                continue;
            };
            self.note_ended();
            self.verdict_counts.expired.push((*session, position));
            // If the client asked to close its session meanwhile, it still gets that answer.
            let asks_for_the_end =
                |number: &usize| self.history.ops[*number].op == Op::CloseSession;
            let mut writes = self.writes.get(connection).into_iter().flatten();
            if connection != NOBODY && !writes.any(asks_for_the_end) {
                self.over.insert(connection, self.model.zxid);
            }
        }
        Ok(())
    }

    /// Notes the current zxid as the end of all sessions that the last command ended.
    fn note_ended(&mut self) {
        if self.alive.len() == self.model.sessions.len() {
            return;
        }
        let (lives, model) = (&mut self.lives, &self.model);
        self.alive.retain(|session| {
            let is_alive = model.sessions.contains_key(session);
            if let Some(life) = lives.get_mut(session).filter(|_| !is_alive) {
                life.ended_at = Some(model.zxid);
            }
            is_alive
        });
    }

    fn asks_for_no_session(&self, connection: usize) -> bool {
        let first = self.history.connections[connection].sent.first();
        let first = first.map(|number| &self.history.ops[*number].op);
        matches!(first, Some(Op::BadFrame { kind: BadFrame::InsteadOfConnect, .. }))
    }

    /// Checks that a bad frame is answered as it must be, and nothing after it is answered.
    fn check_bad_frames(&self) -> Result<(), Violation> {
        for connection in &self.history.connections {
            let mut is_over = false;
            for number in &connection.sent {
                let record = &self.history.ops[*number];
                let found = record.completed.as_ref().map(|it| (it.error, &it.answer));
                let is_sound = match &record.op {
                    _ if is_over => found.is_none(),
                    Op::BadFrame { kind: BadFrame::UnknownOperation, .. } => {
                        found.is_none_or(|it| it == (error::UNIMPLEMENTED, &Answer::Empty))
                    }
                    Op::BadFrame { .. } => found.is_none(),
                    _ => true,
                };
                if !is_sound {
                    return violation(format!(
                        "operation {number}, {}, is a frame that no server takes, or was sent \
                         behind one, and is answered {found:?}",
                        shorten(&record.op)
                    ));
                }
                is_over |= is_bad_frame(&record.op);
            }
        }
        Ok(())
    }

    fn attach(&mut self, asks: Granted, connection: usize) -> Result<(), Violation> {
        let record = &self.history.connections[connection];
        let Granted { session, password } = asks;
        let asked = record.session_asked;
        if asked != session {
            return violation(format!(
                "connection {connection} asked for session {asked:#x}, \
                 the order attaches {session:#x}"
            ));
        }
        if record.password_asked != password {
            return violation(format!(
                "connection {connection} asked for session {session:#x} with another password than \
                 the order has"
            ));
        }
        let had = self.model.attach(session, password, connection);
        self.granted.insert(connection, had.map(|_| asks));
        if let Some(had) = had {
            self.over.insert(had, self.model.zxid);
        }
        Ok(())
    }

    fn write(
        &mut self,
        position: usize,
        (session, connection): (i64, usize),
        signature: &Signature,
        time_ms: i64,
    ) -> Result<(), Violation> {
        if self.history.connections[connection].read_only_session().is_some() {
            return violation(format!(
                "connection {connection} is served reads only, the order holds {}",
                shorten(signature)
            ));
        }
        let number = self.find_write(connection, signature)?;
        self.is_done[number] = true;
        let record = &self.history.ops[number];
        let who = &self.users[number];
        let (code, answer) = self.model.write_as(session, connection, &record.op, who, time_ms);
        let Some(completed) = &record.completed else {
            self.verdict_counts.unknown_done += 1;
            return Ok(());
        };
        self.verdict_counts.acknowledged.push((number, position));
        self.verdict_counts.over_quota += usize::from(is_over_quota(code, &answer));
        let zxid = self.model.zxid;
        if (completed.zxid, completed.error, &completed.answer) != (zxid, code, &answer) {
            return violation(format!(
                "operation {number} of connection {connection}, {}: answered zxid {} error {} {}, \
                 the model says zxid {zxid} error {code} {}",
                shorten(&record.op),
                completed.zxid,
                completed.error,
                shorten(&completed.answer),
                shorten(&answer),
            ));
        }
        Ok(())
    }

    /// Finds the client's operation for a committed write.
    fn find_write(&mut self, connection: usize, signature: &Signature) -> Result<usize, Violation> {
        let writes = &self.writes[connection];
        while let Some(&number) = writes.get(self.cursors[connection]) {
            self.cursors[connection] += 1;
            let record = &self.history.ops[number];
            let completed = record.completed.as_ref();
            if completed.is_some_and(|completed| is_refusal(completed.error)) {
                continue;
            }
            if record.op.signature() == *signature {
                return Ok(number);
            }
            let may_be_missing = self.rules.may_throttle || self.rules.may_refuse(record);
            if completed.is_some() || !may_be_missing {
                return violation(format!(
                    "connection {connection}: the order holds {}, the client sent {} before it",
                    shorten(signature),
                    shorten(&record.op)
                ));
            }
        }
        violation(format!(
            "connection {connection}: the order holds {}, which the client did not send, or not \
             that often",
            shorten(signature)
        ))
    }

    /// Checks the reads that were answered with the newest zxid. `command_count` is the number of
    /// commands replayed so far.
    fn check_reads(&mut self, command_count: usize) -> Result<(), Violation> {
        for number in self.reads.remove(&self.model.zxid).unwrap_or_default() {
            self.check_read(number)?;
            if !self.history.ops[number].op.shows_nothing() {
                self.verdict_counts.shown.push((number, command_count));
            }
        }
        Ok(())
    }

    fn check_read(&mut self, number: usize) -> Result<(), Violation> {
        let record = &self.history.ops[number];
        let completed = record.completed.as_ref().expect("only answered reads are listed");
        if is_turned_down(completed.error) {
            return Ok(());
        }
        if let Op::SetWatches { relative_zxid, data, exist, child }
        | Op::SetWatches2 { relative_zxid, data, exist, child, .. } = &record.op
        {
            let missed = self.missed_events(*relative_zxid, data, exist, child);
            self.missed.insert(number, missed);
        }
        let (code, answer) = match &record.op {
            // The watches of a connection are checked together with its events.
            Op::FindWatch { .. } => (completed.error, Answer::Empty),
            op => self.model.read_as(op, &self.users[number]),
        };
        if (completed.error, &completed.answer) != (code, &answer) {
            return violation(format!(
                "operation {number} of connection {}, {}, at zxid {}: answered error {} {}, the \
                 model says error {code} {}",
                record.connection,
                shorten(&record.op),
                completed.zxid,
                completed.error,
                shorten(&completed.answer),
                shorten(&answer),
            ));
        }
        let connection = &self.history.connections[record.connection];
        let is_read_only = connection.read_only_session().is_some() && !record.op.shows_nothing();
        self.verdict_counts.reads += 1;
        self.verdict_counts.read_only += usize::from(is_read_only);
        Ok(())
    }

    /// The events that a client missed while it was away, as `DataTree.setWatches` gives them.
    fn missed_events(
        &self,
        since: i64,
        data: &[String],
        exist: &[String],
        child: &[String],
    ) -> Vec<(EventKind, String)> {
        let stat =
            |path: &String| self.model.znodes.contains_key(path).then(|| self.model.stat(path));
        let mut missed = Vec::new();
        for path in data {
            match stat(path) {
                None => missed.push((EventKind::Deleted, path.clone())),
                Some(stat) if stat.mzxid > since => {
                    missed.push((EventKind::DataChanged, path.clone()));
                }
                Some(_) => {}
            }
        }
        for path in exist {
            if stat(path).is_some() {
                missed.push((EventKind::Created, path.clone()));
            }
        }
        for path in child {
            match stat(path) {
                None => missed.push((EventKind::Deleted, path.clone())),
                Some(stat) if stat.pzxid > since => {
                    missed.push((EventKind::ChildrenChanged, path.clone()));
                }
                Some(_) => {}
            }
        }
        missed
    }

    /// Checks, after the last command, that no answered operation is left over and no refusal lacks
    /// a reason.
    fn finish(&mut self, command_count: usize) -> Result<(), Violation> {
        self.check_reads(command_count)?;
        self.check_bad_frames()?;
        if let Some((zxid, numbers)) = self.reads.first_key_value() {
            return violation(format!(
                "operation {} was answered at zxid {zxid}, which no state had; the last is {}",
                numbers[0], self.model.zxid
            ));
        }
        for (number, record) in self.history.ops.iter().enumerate() {
            let Some(completed) = &record.completed else { continue };
            let was_throttled = completed.error == error::THROTTLED_OP;
            // `Request.isThrottlable`
            let may_be = !matches!(record.op, Op::Ping | Op::CloseSession | Op::Auth { .. });
            if was_throttled && !(self.rules.may_throttle && may_be) {
                return violation(format!("operation {number} was throttled without need"));
            }
            self.verdict_counts.throttled += usize::from(was_throttled);
            let was_refused = completed.error == error::SYSTEM_ERROR;
            if was_refused && !self.rules.may_refuse(record) {
                return violation(format!("operation {number} was refused without need"));
            }
            self.verdict_counts.refused += usize::from(was_refused);
            let was_not_read_only = completed.error == error::NOT_READ_ONLY;
            let connection = &self.history.connections[record.connection];
            if was_not_read_only != connection.refuses(&record.op) && !was_throttled {
                return violation(format!(
                    "operation {number} of connection {}, {}, is answered error {}; reads only: \
                     {:?}",
                    record.connection,
                    shorten(&record.op),
                    completed.error,
                    connection.read_only_session()
                ));
            }
            self.verdict_counts.not_read_only += usize::from(was_not_read_only);
            let is_refused = was_refused || was_throttled || was_not_read_only;
            let is_local = connection.read_only_session().is_some();
            if record.op.is_write() && !is_refused && !is_local && !self.is_done[number] {
                return violation(format!(
                    "operation {number} of connection {}, {}, was acknowledged with zxid {} and \
                     is not in the committed order",
                    record.connection,
                    shorten(&record.op),
                    completed.zxid
                ));
            }
        }
        self.check_sessions()
    }

    /// Checks that clients were given exactly the sessions that the order gives them.
    fn check_sessions(&mut self) -> Result<(), Violation> {
        for (number, connection) in self.history.connections.iter().enumerate() {
            let granted = self.granted.get(&number).copied();
            for received in &connection.received {
                let told = match received {
                    Received::Connected { session, password, .. } => {
                        Some(Granted { session: *session, password: *password })
                    }
                    Received::ConnectedReadOnly { session, password } => {
                        let told = Granted { session: *session, password: *password };
                        self.check_read_only(number, told)?;
                        continue;
                    }
                    Received::Refused if granted.is_none() && self.may_not_know(connection) => {
                        continue;
                    }
                    Received::Refused => None,
                    _ => continue,
                };
                if granted != Some(told) {
                    return violation(format!(
                        "connection {number} was told {told:?} about its session, the order says \
                         {granted:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Replay<'_> {
    /// Checks a connection in read-only mode with this session. Its client must accept that mode.
    /// The session must be new and local, or the one that the client asked for, if that one had not
    /// ended in the member's state.
    fn check_read_only(&mut self, number: usize, told: Granted) -> Result<(), Violation> {
        let connection = &self.history.connections[number];
        let Granted { session, password } = told;
        let life = self.lives.get(&session).copied();
        let reject = |why: &str| {
            violation(format!(
                "connection {number} is served reads only with session {session:#x}: {why}, {life:?}"
            ))
        };
        if !connection.takes_read_only {
            return reject("its client did not say that it can do with reads");
        }
        if self.granted.contains_key(&number) {
            return reject("the order knows it");
        }
        if connection.session_asked == 0 {
            let life = Life { password, opened_at: 0, ended_at: Some(0) };
            let is_new = self.lives.insert(session, life).is_none();
            let has_own_password = self.passwords.insert(password);
            return match is_new && has_own_password {
                true => Ok(()),
                false => reject("it was another's"),
            };
        }
        let floor = connection.zxid_floor;
        match life {
            _ if connection.session_asked != session => reject("it asked for another one"),
            Some(life)
                if life.password == connection.password_asked && life.password == password =>
            {
                match life.ended_at {
                    Some(ended_at) if ended_at <= floor => reject("it was over"),
                    _ => Ok(()),
                }
            }
            _ => reject("there is none with this password"),
        }
    }

    /// Whether a member in read-only mode may refuse the session that this connection asked for:
    /// not if the session existed in every state that the member can have had.
    fn may_not_know(&self, connection: &ConnectionRecord) -> bool {
        let life = self.lives.get(&connection.session_asked);
        let is_known = life.is_some_and(|life| {
            life.password == connection.password_asked
                && life.opened_at <= connection.zxid_floor
                && life.ended_at.is_none()
        });
        connection.takes_read_only && connection.session_asked != 0 && !is_known
    }
}

fn is_over_quota(code: i32, answer: &Answer) -> bool {
    let is_one = |result: &Result<Answer, i32>| *result == Err(error::QUOTA_EXCEEDED);
    code == error::QUOTA_EXCEEDED
        || matches!(answer, Answer::Multi(results) if results.iter().any(is_one))
}

/// For each operation, the users that its connection had authenticated as when it was sent. An
/// authentication counts for later operations even if its answer is missing.
fn users_of(history: &History) -> Vec<Vec<usize>> {
    let mut users = vec![Vec::new(); history.ops.len()];
    for connection in &history.connections {
        let mut proved = Vec::new();
        for number in &connection.sent {
            if let Op::Auth { user } = history.ops[*number].op
                && !proved.contains(&user)
            {
                proved.push(user);
            }
            users[*number].clone_from(&proved);
        }
    }
    users
}

/// Whether an error means that the request was not accepted.
fn is_refusal(code: i32) -> bool {
    matches!(code, error::SYSTEM_ERROR | error::THROTTLED_OP | error::NOT_READ_ONLY)
}

/// Whether an error means that the server did not even look at the request.
fn is_turned_down(code: i32) -> bool {
    matches!(code, error::THROTTLED_OP | error::NOT_READ_ONLY)
}

fn is_bad_frame(op: &Op) -> bool {
    matches!(op, Op::BadFrame { .. })
}

/// Formats a value and cuts the text off if it is long.
fn shorten(what: &impl core::fmt::Debug) -> String {
    const CHARACTERS_MAX: usize = 600;
    let text = format!("{what:?}");
    match text.char_indices().nth(CHARACTERS_MAX) {
        None => text,
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}

/// The table in which a server keeps a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WatchKind {
    Data,
    Child,
    Persistent,
    Recursive,
}

impl WatchKind {
    fn of(which: Watching) -> &'static [WatchKind] {
        match which {
            Watching::Children => &[WatchKind::Child],
            Watching::Data => &[WatchKind::Data],
            Watching::Persistent => &[WatchKind::Persistent],
            Watching::Recursive => &[WatchKind::Recursive],
            Watching::Any => {
                &[WatchKind::Data, WatchKind::Child, WatchKind::Persistent, WatchKind::Recursive]
            }
        }
    }
}

/// The counts of one connection's events.
#[derive(Clone, Copy, Debug, Default)]
struct Events {
    count: usize,
    lasting: usize,
    private: usize,
    hidden: usize,
}

/// The second part: the watches of one connection, as a server must keep them.
struct Stream<'h> {
    changes: &'h [Change],
    /// How many changes were handled.
    cursor: usize,
    watches: BTreeMap<(WatchKind, String), i64>,
    due: DueEvents,
    /// The users that the connection ever tries to authenticate as.
    provable: BTreeSet<usize>,
    /// For each user that the connection has authenticated as, the zxid after which the
    /// authentication certainly counts; `None` until the connection is shown a zxid after it.
    proved: BTreeMap<usize, Option<i64>>,
    /// How many events about znodes that only some users may read must come.
    private_count: usize,
    hidden_count: usize,
    /// How many events must come only because of persistent watches.
    lasting_count: usize,
    reply_zxid: i64,
    event_zxid: i64,
    /// The zxid at which the session ended or moved to another connection; nothing newer may be
    /// shown.
    zxid_max: i64,
    /// The lowest zxid that a reply may show.
    zxid_floor: i64,
    /// Whether the connection is in read-only mode.
    is_read_only: bool,
    /// Events about missed changes since the last reply; the reply that sets watches again explains
    /// them.
    made_up: Vec<(EventKind, String)>,
}

impl Stream<'_> {
    /// Fires the watches for all changes up to `zxid`.
    fn advance(&mut self, zxid: i64) {
        while let Some(change) = self.changes.get(self.cursor)
            && change.zxid <= zxid
        {
            self.cursor += 1;
            self.fire(change);
        }
    }

    fn take(&mut self, kind: WatchKind, path: &str, zxid: i64) -> bool {
        let key = (kind, path.to_string());
        match self.watches.get(&key) {
            Some(set_at) if *set_at < zxid => {
                self.watches.remove(&key);
                true
            }
            _ => false,
        }
    }

    fn has(&self, kind: WatchKind, path: &str, zxid: i64) -> bool {
        let set_at = self.watches.get(&(kind, path.to_string()));
        set_at.is_some_and(|set_at| *set_at < zxid)
    }

    /// Whether a recursive watch on this path, or above it, was set before this zxid.
    fn has_above(&self, path: &str, zxid: i64) -> bool {
        let mut above = path;
        while !self.has(WatchKind::Recursive, above, zxid) {
            if above == "/" {
                return false;
            }
            above = parent_of(above);
        }
        true
    }

    fn fire(&mut self, change: &Change) {
        let zxid = change.zxid;
        let data = self.take(WatchKind::Data, &change.path, zxid);
        let event = match change.kind {
            ChangeKind::Created => EventKind::Created,
            ChangeKind::DataSet => EventKind::DataChanged,
            ChangeKind::Deleted => EventKind::Deleted,
        };
        let child =
            change.kind == ChangeKind::Deleted && self.take(WatchKind::Child, &change.path, zxid);
        // `WatchManager.triggerWatch`: one event for all watches of a connection.
        let stays = self.has(WatchKind::Persistent, &change.path, zxid)
            || self.has_above(&change.path, zxid);
        if data || child || stays {
            self.lasting_count += usize::from(!data && !child);
            self.expect((zxid, event, change.path.clone()), &change.readers);
        }
        if change.kind == ChangeKind::DataSet {
            return;
        }
        let parent = parent_of(&change.path);
        let child = self.take(WatchKind::Child, parent, zxid);
        let stays = self.has(WatchKind::Persistent, parent, zxid);
        if child || stays {
            self.lasting_count += usize::from(!child);
            let event = (zxid, EventKind::ChildrenChanged, parent.to_string());
            self.expect(event, &change.parent_readers);
        }
    }

    /// Adds an event that must come if the connection may read the znode as one of the users that
    /// it had authenticated as when it learned of the change. Near the moment of an authentication,
    /// the event may come or not.
    fn expect(&mut self, event: (i64, EventKind, String), readers: &Readers) {
        let is_certain = match readers {
            Readers::Everyone => true,
            Readers::Users(users) => {
                let proved_before = |user: &usize| {
                    let since = self.proved.get(user).copied().flatten();
                    since.is_some_and(|since| event.0 > since)
                };
                if !users.iter().any(|user| self.provable.contains(user)) {
                    self.hidden_count += 1;
                    return;
                }
                users.iter().any(proved_before)
            }
        };
        self.private_count += usize::from(is_certain && *readers != Readers::Everyone);
        self.due.push(event, is_certain);
    }

    /// Makes the authentications so far count for changes after this zxid.
    fn note_proofs(&mut self, zxid: i64) {
        self.proved.values_mut().for_each(|since| {
            since.get_or_insert(zxid);
        });
    }

    fn on_event(&mut self, zxid: i64, kind: EventKind, path: &str) -> Result<(), String> {
        if zxid == -1 {
            self.made_up.push((kind, path.to_string()));
            return Ok(());
        }
        if zxid <= self.reply_zxid {
            return Err(format!(
                "event {kind:?} {path} of zxid {zxid} came after a reply with zxid {}",
                self.reply_zxid
            ));
        }
        if zxid < self.event_zxid {
            return Err(format!("event zxids fell from {} to {zxid}", self.event_zxid));
        }
        self.check_not_over(zxid)?;
        self.event_zxid = zxid;
        self.advance(zxid);
        self.note_proofs(zxid);
        let came = self.due.on_came(&(zxid, kind, path.to_string()));
        came.map_err(|wanted| {
            format!("event {kind:?} {path} of zxid {zxid} came, due was {wanted:?}")
        })
    }

    fn on_reply(
        &mut self,
        number: usize,
        history: &History,
        missed: &Missed,
    ) -> Result<(), String> {
        let record = &history.ops[number];
        let completed = record.completed.as_ref().expect("a received reply is noted");
        if let Op::Auth { .. } = record.op
            && (completed.zxid, completed.error) != (0, error::OK)
        {
            return Err(format!("operation {number} proves who it is: told {completed:?}"));
        }
        if let Op::Auth { user } = record.op {
            self.proved.entry(user).or_insert(None);
        }
        if record.op.has_no_zxid() {
            return Ok(());
        }
        let zxid = completed.zxid;
        if zxid < self.reply_zxid {
            return Err(format!("reply zxids fell from {} to {zxid}", self.reply_zxid));
        }
        if zxid < self.zxid_floor {
            return Err(format!(
                "the reply to operation {number} shows zxid {zxid}, {} was seen or applied when it \
                 connected",
                self.zxid_floor
            ));
        }
        // Every write uses a zxid, so all earlier answers must show an older one.
        let is_taken = !is_refusal(completed.error) && !self.is_read_only;
        if record.op.is_write() && is_taken && zxid == self.reply_zxid {
            return Err(format!("a reply before operation {number} shows its zxid {zxid}"));
        }
        self.check_not_over(zxid)?;
        self.reply_zxid = zxid;
        self.advance(zxid);
        // A ping does not look at the tree. In the middle of a long command, when its first events
        // have come, the answer shows the zxid before that command.
        let up_to = if record.op == Op::Ping { zxid } else { i64::MAX };
        self.due.on_end(up_to).map_err(|event| {
            format!("the reply to operation {number} shows zxid {zxid} before {event:?}")
        })?;
        self.note_proofs(zxid);
        let made_up = core::mem::take(&mut self.made_up);
        let expected = missed.get(&number).cloned().unwrap_or_default();
        if made_up != expected {
            return Err(format!(
                "operation {number} set watches again: told {made_up:?}, missed were {expected:?}"
            ));
        }
        if is_turned_down(completed.error) {
            return Ok(());
        }
        if let Op::FindWatch { path, which, removes } = &record.op {
            return self.find_watch(path, *which, *removes, completed.error);
        }
        self.set_watches(&record.op, completed.error, zxid, &expected);
        Ok(())
    }

    fn find_watch(
        &mut self,
        path: &str,
        which: Watching,
        removes: bool,
        code: i32,
    ) -> Result<(), String> {
        let mut is_there = false;
        for kind in WatchKind::of(which) {
            let key = (*kind, path.to_string());
            is_there |= self.watches.contains_key(&key);
            if removes {
                self.watches.remove(&key);
            }
        }
        let wanted = if is_there { error::OK } else { error::NO_WATCHER };
        match code == wanted {
            true => Ok(()),
            false => Err(format!(
                "it asked for {which:?} on {path}: told {code}, the answer is {wanted}"
            )),
        }
    }

    fn check_not_over(&self, zxid: i64) -> Result<(), String> {
        match zxid <= self.zxid_max {
            true => Ok(()),
            false => Err(format!(
                "it shows zxid {zxid}, and its session was lost to it at zxid {}",
                self.zxid_max
            )),
        }
    }

    fn set(&mut self, kind: WatchKind, path: &str, zxid: i64) {
        self.watches.entry((kind, path.to_string())).or_insert(zxid);
    }

    /// Notes the watches that an operation sets. A multi of reads sets none (`MultiOperationRecord`
    /// drops the flag).
    fn set_watches(&mut self, op: &Op, code: i32, zxid: i64, missed: &[(EventKind, String)]) {
        match op {
            Op::Exists { path, watch: true } if code == error::OK || code == error::NO_NODE => {
                self.set(WatchKind::Data, path, zxid);
            }
            Op::GetData { path, watch: true } if code == error::OK => {
                self.set(WatchKind::Data, path, zxid);
            }
            Op::GetChildren { path, watch: true, .. } if code == error::OK => {
                self.set(WatchKind::Child, path, zxid);
            }
            Op::AddWatch { path, is_recursive } if code == error::OK => {
                let kind = match is_recursive {
                    true => WatchKind::Recursive,
                    false => WatchKind::Persistent,
                };
                self.set(kind, path, zxid);
            }
            Op::SetWatches { data, exist, child, .. }
            | Op::SetWatches2 { data, exist, child, .. } => {
                let told = |kinds: &[EventKind], path: &String| {
                    missed.iter().any(|(kind, of)| kinds.contains(kind) && of == path)
                };
                let of_data = [EventKind::DataChanged, EventKind::Deleted];
                for path in data {
                    if !told(&of_data, path) {
                        self.set(WatchKind::Data, path, zxid);
                    }
                }
                for path in exist {
                    if !told(&[EventKind::Created], path) {
                        self.set(WatchKind::Data, path, zxid);
                    }
                }
                for path in child {
                    if !told(&[EventKind::ChildrenChanged, EventKind::Deleted], path) {
                        self.set(WatchKind::Child, path, zxid);
                    }
                }
                if let Op::SetWatches2 { persistent, recursive, .. } = op {
                    persistent.iter().for_each(|it| self.set(WatchKind::Persistent, it, zxid));
                    recursive.iter().for_each(|it| self.set(WatchKind::Recursive, it, zxid));
                }
            }
            _ => {}
        }
    }
}

/// The users that a connection ever tries to authenticate as.
fn provable_users(history: &History, connection: &ConnectionRecord) -> BTreeSet<usize> {
    let sent = connection.sent.iter().map(|number| &history.ops[*number].op);
    sent.filter_map(|op| if let Op::Auth { user } = op { Some(*user) } else { None }).collect()
}

/// Checks one connection and counts its events.
fn check_stream(
    history: &History,
    number: usize,
    changes: &[Change],
    missed: &Missed,
    over: Option<i64>,
) -> Result<Events, Violation> {
    let connection = &history.connections[number];
    let mut stream = Stream {
        changes,
        cursor: 0,
        watches: BTreeMap::new(),
        due: DueEvents::new(),
        provable: provable_users(history, connection),
        proved: BTreeMap::new(),
        private_count: 0,
        hidden_count: 0,
        lasting_count: 0,
        reply_zxid: 0,
        event_zxid: 0,
        zxid_max: over.unwrap_or(i64::MAX),
        zxid_floor: connection.zxid_floor,
        is_read_only: connection.read_only_session().is_some(),
        made_up: Vec::new(),
    };
    let mut event_count = 0;
    for received in &connection.received {
        let result = match received {
            Received::Event { zxid, kind, path } => {
                event_count += 1;
                stream.on_event(*zxid, *kind, path)
            }
            Received::Reply(op) => stream.on_reply(*op, history, missed),
            Received::Connected { .. } | Received::ConnectedReadOnly { .. } | Received::Refused => {
                Ok(())
            }
        };
        if let Err(what) = result {
            let client = connection.client;
            return violation(format!("connection {number} of client {client}: {what}"));
        }
    }
    // The last events may be lost with the connection.
    Ok(Events {
        count: event_count,
        lasting: stream.lasting_count.min(event_count),
        private: stream.private_count.min(event_count),
        hidden: stream.hidden_count,
    })
}

/// The third part: an operation sees everything that finished before it began. If reads may lag, a
/// read must see only everything that its session was shown, and everything that an earlier sync on
/// its connection must see.
fn check_real_time(history: &History, rules: &Rules) -> Result<(), Violation> {
    let mut notes: Vec<(u64, usize, bool)> = Vec::new();
    for (number, record) in history.ops.iter().enumerate() {
        let Some(completed) = &record.completed else { continue };
        // Closing a local session concerns only that member.
        let ends_local = record.op == Op::CloseSession
            && history.connections[record.connection].read_only_session().is_some();
        if !record.op.shows_nothing() && !is_refusal(completed.error) && !ends_local {
            notes.push((record.invoked.sequence, number, false));
            notes.push((completed.moment.sequence, number, true));
        }
    }
    notes.sort_unstable();
    let sessions: Vec<Option<i64>> = history.connections.iter().map(session_of).collect();
    let mut newest = 0;
    let mut shown: BTreeMap<i64, i64> = BTreeMap::new();
    let mut synced: BTreeMap<usize, i64> = BTreeMap::new();
    let mut floors: BTreeMap<usize, i64> = BTreeMap::new();
    for (_, number, is_end) in notes {
        let record = &history.ops[number];
        let session = sessions[record.connection];
        if !is_end {
            if let Op::Sync { .. } = record.op {
                synced.insert(record.connection, newest);
            }
            let may_lag = rules.reads_may_lag && !record.op.is_write();
            let own = session.and_then(|session| shown.get(&session)).copied().unwrap_or(0);
            let floor = match may_lag {
                true => own.max(synced.get(&record.connection).copied().unwrap_or(0)),
                false => newest,
            };
            floors.insert(number, floor);
            continue;
        }
        let zxid = record.completed.as_ref().map_or(0, |completed| completed.zxid);
        let floor = floors.remove(&number).unwrap_or(0);
        let least = if record.op.is_write() { floor + 1 } else { floor };
        if zxid < least {
            return violation(format!(
                "operation {number}, {}, has zxid {zxid}, but zxid {floor} was seen before it \
                 began",
                shorten(&record.op)
            ));
        }
        newest = newest.max(zxid);
        if let Some(session) = session {
            let own = shown.entry(session).or_default();
            *own = zxid.max(*own);
        }
    }
    Ok(())
}

/// The session that a connection was given.
fn session_of(connection: &ConnectionRecord) -> Option<i64> {
    connection.received.iter().find_map(|received| match received {
        Received::Connected { session, .. } | Received::ConnectedReadOnly { session, .. } => {
            Some(*session)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
