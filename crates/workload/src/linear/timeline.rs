//! Makes the timeline of each path, that is, its changes in the order of their zxids; and checks
//! that all replies about the path agree with its timeline.
//!
//! A timeline has *facts*: changes with a known zxid, made by successful writes or revealed by
//! stats and events. It also has *sights*: what a reply says about the path at the reply's zxid. If
//! two neighbours in a timeline differ and no known write explains that, the timeline has a
//! *demand*: some write of unknown fate must have happened between the two.

use super::*;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactKind {
    /// The znode was created.
    Created,
    /// The znode's data was set.
    Set,
    /// The znode was deleted.
    Deleted,
}

/// A change of a path at a known zxid.
#[derive(Clone, Debug)]
pub struct Fact {
    pub kind: FactKind,
    /// The write that made the change; `None` for a write of unknown fate or the end of a session.
    write: Option<usize>,
    /// The version after a set; `None` if unknown.
    version: Option<i32>,
    /// The version that a delete asked for; `None` if it accepts any.
    wanted: Option<i32>,
    owner: Option<i64>,
    /// Where the fact is known from, as text for people.
    source: String,
}

/// A statement of a reply about a path, at the reply's zxid.
#[derive(Clone, Debug)]
pub enum Seen {
    Absent,
    There,
    Stat(Box<Stat>),
    Version(i32),
    OtherVersion(i32),
}

/// A write of unknown fate of this kind must have changed this path, at the zxid `until` or before.
#[derive(Clone, Debug)]
pub struct Demand {
    pub kind: FactKind,
    pub path: String,
    pub until: i64,
    /// Why a write must have made the change, as text for people.
    pub why: String,
}

/// The timelines of all paths.
#[derive(Default)]
pub struct Timelines {
    pub facts: BTreeMap<String, BTreeMap<i64, Fact>>,
    sights: Sights,
    /// For each parent, the zxids at which a child was created or deleted.
    pub child_changes: BTreeMap<String, BTreeSet<i64>>,
    pub demands: Vec<Demand>,
    /// Proofs that sessions were alive. Each names a session, a zxid, and an ephemeral znode of the
    /// session that exists at that zxid.
    pub owners_alive: Vec<(i64, i64, String)>,
    /// Proofs that sessions were over. Each names a session, a zxid, and an ephemeral znode of the
    /// session that is gone at that zxid, although no write may have deleted it.
    pub owners_over: Vec<(i64, i64, String)>,
}

/// Consecutive lists of children that agree about a path, with no fact between them. The first and
/// the last list are enough as sights.
#[derive(Default)]
struct Run {
    is_there: bool,
    /// The zxid of the last fact before these lists.
    fact: Option<i64>,
    first: Option<(i64, usize)>,
    last: Option<(i64, usize)>,
}

type Sights = BTreeMap<String, Vec<(i64, usize, Seen)>>;

impl Run {
    fn end(&self, path: &str, sights: &mut Sights) {
        let seen = || if self.is_there { Seen::There } else { Seen::Absent };
        let both = [self.first, self.last];
        if self.first.is_some() {
            let of_path = sights.entry(path.to_string()).or_default();
            of_path.extend(both.iter().flatten().map(|(zxid, number)| (*zxid, *number, seen())));
        }
    }
}

/// An existing znode, while its timeline is walked.
struct There {
    /// The zxid of the znode's creation, if known.
    czxid: Option<i64>,
    /// The zxid of the znode's last set, or of its creation.
    mzxid: i64,
    version: i32,
    owner: Option<i64>,
    /// The last zxid at which the znode certainly existed.
    alive: i64,
}

enum State {
    /// The path is certainly absent since this zxid.
    Absent(i64),
    There(There),
}

impl<'h> Judge<'h> {
    // Drawing.

    pub(super) fn draw_timelines(&mut self) -> Timelines {
        let mut lines = Timelines::default();
        self.draw_writes(&mut lines);
        let history = self.history;
        for (number, record) in history.ops.iter().enumerate() {
            let Some(completed) = &record.completed else { continue };
            if is_refusal(completed.error) {
                continue;
            }
            self.draw_answer(number, &record.op, completed, &mut lines);
        }
        self.draw_events(&mut lines);
        self.draw_lists(&mut lines);
        lines
    }

    fn draw_writes(&mut self, lines: &mut Timelines) {
        for index in 0..self.writes.len() {
            let Fate::Done { zxid, .. } = self.writes[index].fate else { continue };
            for position in 0..self.writes[index].parts.len() {
                let write = &self.writes[index];
                let mut fact = Fact {
                    kind: FactKind::Set,
                    write: Some(index),
                    version: None,
                    wanted: None,
                    owner: None,
                    source: format!("operation {}", write.number),
                };
                let path = match &write.parts[position] {
                    Op::Create { path, flag, .. } => {
                        fact.kind = FactKind::Created;
                        let is_ephemeral =
                            matches!(*flag, flag::EPHEMERAL | flag::EPHEMERAL_SEQUENTIAL);
                        fact.owner = Some(if is_ephemeral { write.session } else { 0 });
                        let is_known = write.paths[position].is_some();
                        match (flag::is_sequential(*flag), is_known) {
                            (true, false) => continue,
                            (true, true) => write.paths[position].clone().unwrap_or_default(),
                            (false, _) => path.clone(),
                        }
                    }
                    Op::SetData { path, version, .. } => {
                        fact.version = (*version != -1).then(|| version.wrapping_add(1));
                        path.clone()
                    }
                    Op::Delete { path, version } => {
                        fact.kind = FactKind::Deleted;
                        fact.wanted = (*version != -1).then_some(*version);
                        path.clone()
                    }
                    _ => continue,
                };
                self.add_fact(&path, zxid, fact, lines);
            }
        }
    }

    fn add_fact(&mut self, path: &str, zxid: i64, fact: Fact, lines: &mut Timelines) {
        if is_of_the_server(path) {
            return;
        }
        if fact.kind != FactKind::Set {
            let parent = parent_of(path).to_string();
            lines.child_changes.entry(parent).or_default().insert(zxid);
        }
        let line = lines.facts.entry(path.to_string()).or_default();
        let Some(known) = line.get_mut(&zxid) else {
            line.insert(zxid, fact);
            return;
        };
        if known.kind != fact.kind {
            let what = format!(
                "{path} at zxid {zxid:#x}: {:?} says {}, {:?} says {}",
                known.kind, known.source, fact.kind, fact.source
            );
            return self.complain(Rule::State, what);
        }
        let differ =
            |one: Option<i64>, two: Option<i64>| one.is_some() && two.is_some() && one != two;
        let version = |it: &Fact| it.version.map(i64::from);
        if differ(version(known), version(&fact)) || differ(known.owner, fact.owner) {
            let what = format!("{path} at zxid {zxid:#x}: {known:?} and {fact:?}");
            return self.complain(Rule::State, what);
        }
        known.version = known.version.or(fact.version);
        known.owner = known.owner.or(fact.owner);
        if known.write.is_none() && fact.write.is_some() {
            (known.write, known.wanted) = (fact.write, fact.wanted);
            known.source = fact.source;
        }
    }

    fn draw_answer(
        &mut self,
        number: usize,
        op: &Op,
        completed: &Completed,
        lines: &mut Timelines,
    ) {
        let zxid = completed.zxid;
        match (op, &completed.answer, completed.error) {
            (Op::Multi(ops), Answer::Multi(results), error::OK) => {
                self.draw_multi(number, ops, results, zxid, lines);
            }
            (Op::MultiRead(ops), Answer::Multi(results), error::OK) => {
                for (op, result) in ops.iter().zip(results) {
                    self.draw_result(
                        number,
                        op,
                        result.as_ref().map_err(|code| *code),
                        zxid,
                        lines,
                    );
                }
            }
            (op, answer, error::OK) => self.draw_result(number, op, Ok(answer), zxid, lines),
            (op, _, code) => self.draw_result(number, op, Err(code), zxid, lines),
        }
    }

    fn draw_multi(
        &mut self,
        number: usize,
        ops: &[Op],
        results: &[Result<Answer, i32>],
        zxid: i64,
        lines: &mut Timelines,
    ) {
        if results.iter().all(Result::is_ok) {
            for (op, answer) in ops.iter().zip(results.iter().flatten()) {
                self.draw_result(number, op, Ok(answer), zxid, lines);
            }
            return;
        }
        let culprit = results.iter().position(|it| *it != Err(error::OK));
        let Some((op, Err(code))) = culprit.map(|at| (&ops[at], &results[at])) else { return };
        // Earlier parts of the multi may have caused the refusal.
        let own_parents =
            ops.iter().take(culprit.unwrap_or(0)).any(|earlier| match (earlier, op) {
                (
                    Op::Create { path: made, .. } | Op::Delete { path: made, .. },
                    Op::Create { path, .. } | Op::Delete { path, .. },
                ) => made == parent_of(path) || parent_of(made) == path,
                _ => false,
            });
        if !own_parents {
            self.draw_result(number, op, Err(*code), zxid, lines);
        }
    }

    /// Notes the sights in the answer to one operation.
    fn draw_result(
        &mut self,
        number: usize,
        op: &Op,
        result: Result<&Answer, i32>,
        zxid: i64,
        lines: &mut Timelines,
    ) {
        let mut sees = |path: &str, seen: Seen| {
            if !is_of_the_server(path) {
                lines.sights.entry(path.to_string()).or_default().push((zxid, number, seen));
            }
        };
        match (op, result) {
            (Op::Exists { path, .. } | Op::GetData { path, .. }, Err(error::NO_NODE))
            | (Op::GetChildren { path, .. } | Op::GetAcl { path }, Err(error::NO_NODE))
            | (Op::SetData { path, .. } | Op::Delete { path, .. }, Err(error::NO_NODE))
            | (Op::Check { path, .. } | Op::SetAcl { path, .. }, Err(error::NO_NODE)) => {
                sees(path, Seen::Absent);
            }
            (Op::Create { path, .. }, Err(error::NO_NODE)) => sees(parent_of(path), Seen::Absent),
            (Op::Create { path, .. }, Err(error::NODE_EXISTS)) => sees(path, Seen::There),
            (Op::Delete { path, .. }, Err(error::NOT_EMPTY)) => sees(path, Seen::There),
            (
                Op::SetData { path, version, .. }
                | Op::Delete { path, version }
                | Op::Check { path, version },
                Err(error::BAD_VERSION),
            ) => sees(path, Seen::OtherVersion(*version)),
            (Op::Check { path, version }, Ok(_)) => match version {
                -1 => sees(path, Seen::There),
                version => sees(path, Seen::Version(*version)),
            },
            (Op::GetChildren { path, .. }, Ok(Answer::Children(_))) => sees(path, Seen::There),
            (Op::Create { .. }, Ok(Answer::PathStat(path, stat)))
            | (
                Op::Exists { path, .. }
                | Op::SetData { path, .. }
                | Op::SetAcl { path, .. }
                | Op::GetData { path, .. }
                | Op::GetAcl { path }
                | Op::GetChildren { path, .. },
                Ok(
                    Answer::Stat(stat)
                    | Answer::Data(_, stat)
                    | Answer::Acl(_, stat)
                    | Answer::ChildrenStat(_, stat),
                ),
            ) => {
                sees(path, Seen::Stat(Box::new(*stat)));
                self.draw_stat(number, path, stat, zxid, lines);
            }
            _ => {}
        }
    }

    /// Notes the facts in a stat: the creation and the last set of the znode.
    fn draw_stat(
        &mut self,
        number: usize,
        path: &str,
        stat: &Stat,
        zxid: i64,
        lines: &mut Timelines,
    ) {
        if is_of_the_server(path) {
            return;
        }
        if stat.czxid > stat.mzxid || stat.mzxid > zxid || stat.pzxid > zxid {
            let who = self.describe(number);
            return self.complain(Rule::State, format!("{who} shows the future: {stat:?}"));
        }
        let mut fact = Fact {
            kind: FactKind::Created,
            write: None,
            version: None,
            wanted: None,
            owner: Some(stat.ephemeral_owner),
            source: format!("the stat in operation {number}"),
        };
        self.add_fact(path, stat.czxid, fact.clone(), lines);
        if stat.mzxid != stat.czxid {
            (fact.kind, fact.version, fact.owner) = (FactKind::Set, Some(stat.version), None);
            self.add_fact(path, stat.mzxid, fact, lines);
        } else if stat.version != 0 {
            let who = self.describe(number);
            self.complain(Rule::State, format!("{who} shows {stat:?}"));
        }
    }

    fn draw_events(&mut self, lines: &mut Timelines) {
        let history = self.history;
        for (number, connection) in history.connections.iter().enumerate() {
            for received in &connection.received {
                let Received::Event { zxid, kind, path } = received else { continue };
                self.counts.event_count += 1;
                if *zxid <= 0 {
                    continue;
                }
                let kind = match kind {
                    EventKind::Created => FactKind::Created,
                    EventKind::DataChanged => FactKind::Set,
                    EventKind::Deleted => FactKind::Deleted,
                    EventKind::ChildrenChanged => {
                        lines.child_changes.entry(path.clone()).or_default().insert(*zxid);
                        continue;
                    }
                };
                let source = format!("an event on connection {number}");
                let (write, version, wanted, owner) = (None, None, None, None);
                let fact = Fact { kind, write, version, wanted, owner, source };
                self.add_fact(path, *zxid, fact, lines);
            }
        }
    }

    /// Notes the sights in lists of children: a list tells for every known path below the znode
    /// whether it exists.
    fn draw_lists(&mut self, lines: &mut Timelines) {
        let mut lists: Vec<(&str, i64, usize, &[String])> = Vec::new();
        for (number, record) in self.history.ops.iter().enumerate() {
            let Some(completed) = &record.completed else { continue };
            let mut add = |op: &'h Op, answer: &'h Answer| {
                if let Op::GetChildren { path, .. } = op
                    && let Answer::Children(names) | Answer::ChildrenStat(names, _) = answer
                {
                    lists.push((path, completed.zxid, number, names));
                }
            };
            match (&record.op, &completed.answer) {
                (Op::MultiRead(ops), Answer::Multi(results)) => {
                    for (op, result) in ops.iter().zip(results) {
                        result.iter().for_each(|answer| add(op, answer));
                    }
                }
                (op, answer) => add(op, answer),
            }
        }
        let mut known: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (parent, _, _, names) in &lists {
            let prefix = if *parent == "/" { "" } else { parent };
            let paths = names.iter().map(|name| format!("{prefix}/{name}"));
            known.entry(parent).or_default().extend(paths);
        }
        for path in lines.facts.keys().chain(lines.sights.keys()) {
            if let Some(paths) = known.get_mut(parent_of(path)) {
                paths.insert(path.clone());
            }
        }
        lists.sort_by_key(|(_, zxid, number, _)| (*zxid, *number));
        let mut runs: BTreeMap<(&str, &str), Run> = BTreeMap::new();
        for (parent, zxid, number, names) in lists {
            let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
            let Some((parent, known)) = known.get_key_value(parent) else { continue };
            for path in known.iter().filter(|path| !is_of_the_server(path)) {
                let name = &path[path.rfind('/').map_or(0, |at| at + 1)..];
                let is_there = names.contains(name);
                let line = lines.facts.get(path);
                let fact = line.and_then(|line| line.range(..=zxid).next_back()).map(|(at, _)| *at);
                let run = runs.entry((parent, path)).or_default();
                if run.first.is_none() || (run.is_there, run.fact) != (is_there, fact) {
                    run.end(path, &mut lines.sights);
                    *run = Run { is_there, fact, first: Some((zxid, number)), last: None };
                } else {
                    run.last = Some((zxid, number));
                }
            }
        }
        for ((_, path), run) in runs {
            run.end(path, &mut lines.sights);
        }
    }

    // Walking.

    pub(super) fn walk(&mut self, lines: &mut Timelines) {
        let facts = core::mem::take(&mut lines.facts);
        let mut sights = core::mem::take(&mut lines.sights);
        for path in facts.keys() {
            sights.entry(path.clone()).or_default();
        }
        let none = BTreeMap::new();
        self.learn_open_deletes();
        self.check_foreign_facts(&facts);
        for (path, mut seen) in sights {
            seen.sort_by_key(|(zxid, number, _)| (*zxid, *number));
            let facts = facts.get(&path).unwrap_or(&none);
            let mut walker = Walker { path: &path, state: State::Absent(0), lines };
            if let Err((rule, what)) = walker.walk(self, facts, &seen) {
                self.complain(rule, format!("{path}: {what}"));
            }
        }
        lines.facts = facts;
    }

    fn learn_open_deletes(&mut self) {
        for write in self.writes.iter().filter(|write| write.fate == Fate::Unknown) {
            for part in write.parts {
                if let Op::Delete { path, .. } = part {
                    let floor = self.open_deletes.entry(path).or_insert(write.floor);
                    *floor = (*floor).min(write.floor);
                }
            }
        }
    }

    /// Checks facts that a reply to another operation reveals: if a known write has the fact's
    /// zxid, that write must have made the change.
    fn check_foreign_facts(&mut self, facts: &BTreeMap<String, BTreeMap<i64, Fact>>) {
        let owners: BTreeMap<i64, usize> = self
            .writes
            .iter()
            .enumerate()
            .filter_map(|(index, write)| Some((write.zxid()?, index)))
            .collect();
        let mut found = Vec::new();
        for (path, line) in facts {
            for (zxid, fact) in line.iter().filter(|(_, fact)| fact.write.is_none()) {
                let Some(index) = owners.get(zxid) else { continue };
                let write = &self.writes[*index];
                // The paths that some parts created may be unknown.
                let ends_session = write.parts == [Op::CloseSession];
                let may_be = write.paths.len() > 1 && split_number(path).is_some();
                if !ends_session && !may_be {
                    let (who, source) = (self.describe(write.number), &fact.source);
                    found.push(format!(
                        "{source} says {:?} of {path} at zxid {zxid:#x}, which is {who}",
                        fact.kind
                    ));
                }
            }
        }
        found.into_iter().for_each(|what| self.complain(Rule::Order, what));
    }

    /// Whether a write of unknown fate may have deleted a znode by this zxid.
    fn may_have_removed(&self, path: &str, until: i64) -> bool {
        self.open_deletes.get(path).is_some_and(|floor| *floor < until)
    }

    // Settling.

    /// Checks that each demand can have a different write of unknown fate.
    pub(super) fn settle(&mut self, lines: &Timelines) {
        let mut prefixes = BTreeSet::new();
        let mut offers: BTreeMap<(FactKind, String), Vec<i64>> = BTreeMap::new();
        for write in self.writes.iter().filter(|write| write.fate == Fate::Unknown) {
            for part in write.parts {
                let (kind, path) = match part {
                    Op::Create { path, flag, .. } => {
                        if flag::is_sequential(*flag) {
                            prefixes.insert(path.as_str());
                        }
                        (FactKind::Created, path)
                    }
                    Op::SetData { path, .. } => (FactKind::Set, path),
                    Op::Delete { path, .. } => (FactKind::Deleted, path),
                    _ => continue,
                };
                offers.entry((kind, path.clone())).or_default().push(write.floor);
            }
        }
        // If one part of a multi reveals that the whole multi happened, the path that another part
        // created may still be unknown.
        for write in &self.writes {
            let Fate::Done { zxid, is_acknowledged: false } = write.fate else { continue };
            for (part, made) in write.parts.iter().zip(&write.paths) {
                if let (Op::Create { path, flag, .. }, None) = (part, made)
                    && flag::is_sequential(*flag)
                {
                    prefixes.insert(path.as_str());
                    offers.entry((FactKind::Created, path.clone())).or_default().push(zxid - 1);
                }
            }
        }
        let mut wanted: BTreeMap<(FactKind, String), Vec<&Demand>> = BTreeMap::new();
        for demand in &lines.demands {
            let path = match split_number(&demand.path) {
                Some((prefix, _))
                    if demand.kind == FactKind::Created && prefixes.contains(prefix) =>
                {
                    prefix
                }
                _ => demand.path.as_str(),
            };
            wanted.entry((demand.kind, path.to_string())).or_default().push(demand);
        }
        for (key, mut demands) in wanted {
            let mut floors = offers.remove(&key).unwrap_or_default();
            floors.sort_unstable();
            demands.sort_by_key(|demand| demand.until);
            // A write may have any zxid above its floor, so the writes with the lowest floors serve
            // the earliest demands.
            for (position, demand) in demands.into_iter().enumerate() {
                let fits = floors.get(position).is_some_and(|floor| *floor < demand.until);
                if !fits {
                    let (kind, path, until) = (demand.kind, &demand.path, demand.until);
                    let what = format!(
                        "{path} must have been {kind:?} by zxid {until:#x}, and nobody did: {}",
                        demand.why
                    );
                    self.complain(Rule::Fate, what);
                    break;
                }
            }
        }
    }
}

struct Walker<'w> {
    path: &'w str,
    state: State,
    lines: &'w mut Timelines,
}

type Found = Result<(), (Rule, String)>;

impl Walker<'_> {
    fn walk(
        &mut self,
        judge: &Judge<'_>,
        facts: &BTreeMap<i64, Fact>,
        seen: &[(i64, usize, Seen)],
    ) -> Found {
        let mut facts = facts.iter().peekable();
        for (zxid, number, what) in seen {
            while let Some((at, fact)) = facts.next_if(|(at, _)| *at <= zxid) {
                self.on_fact(judge, *at, fact)?;
            }
            let sight = self.on_sight(judge, *zxid, what);
            sight.map_err(|(rule, what)| (rule, format!("{}: {what}", judge.describe(*number))))?;
        }
        for (at, fact) in facts {
            self.on_fact(judge, *at, fact)?;
        }
        if let State::There(there) = &self.state {
            let (owner, alive) = (there.owner, there.alive);
            self.owner_alive(owner, alive);
        }
        Ok(())
    }

    fn owner_alive(&mut self, owner: Option<i64>, zxid: i64) {
        if let Some(owner) = owner.filter(|owner| *owner != 0) {
            self.lines.owners_alive.push((owner, zxid, self.path.to_string()));
        }
    }

    fn demand(&mut self, kind: FactKind, count: i32, after: i64, until: i64, why: &str) -> Found {
        if count > 0 && until <= after {
            let what = format!("{kind:?} between zxid {after:#x} and {until:#x}: {why}");
            return Err((Rule::State, what));
        }
        for _ in 0..count {
            let (path, why) = (self.path.to_string(), why.to_string());
            self.lines.demands.push(Demand { kind, path, until, why });
        }
        Ok(())
    }

    fn on_fact(&mut self, judge: &Judge<'_>, zxid: i64, fact: &Fact) -> Found {
        let is_known = fact.write.is_some();
        let source = &fact.source;
        match fact.kind {
            FactKind::Created => {
                self.vanish(judge, zxid - 1, &format!("{source} made it at {zxid:#x}"))?;
                self.state = State::There(There {
                    czxid: Some(zxid),
                    mzxid: zxid,
                    version: 0,
                    owner: fact.owner,
                    alive: zxid,
                });
                self.demand(fact.kind, i32::from(!is_known), zxid - 1, zxid, source)
            }
            FactKind::Set => {
                self.appear(zxid - 1, &format!("{source} set it at {zxid:#x}"))?;
                if let Some(version) = fact.version {
                    self.version_is(version.wrapping_sub(1), zxid - 1, source)?;
                }
                if let State::There(there) = &mut self.state {
                    there.version = there.version.wrapping_add(1);
                    (there.mzxid, there.alive) = (zxid, zxid);
                }
                self.demand(fact.kind, i32::from(!is_known), zxid - 1, zxid, source)
            }
            FactKind::Deleted => {
                self.appear(zxid - 1, &format!("{source} removed it at {zxid:#x}"))?;
                if let Some(version) = fact.wanted {
                    self.version_is(version, zxid - 1, source)?;
                }
                if let State::There(there) = &mut self.state {
                    there.alive = zxid - 1;
                }
                if !is_known {
                    return self.vanish(judge, zxid, source);
                }
                if let State::There(there) = &self.state {
                    let (owner, alive) = (there.owner, there.alive);
                    self.owner_alive(owner, alive);
                }
                self.state = State::Absent(zxid);
                Ok(())
            }
        }
    }

    fn on_sight(&mut self, judge: &Judge<'_>, zxid: i64, seen: &Seen) -> Found {
        let stale = |what: String| Err((Rule::State, what));
        match seen {
            Seen::Absent => {
                self.vanish(judge, zxid, &format!("it is gone at {zxid:#x}"))?;
                self.state = State::Absent(zxid);
                return Ok(());
            }
            Seen::Stat(stat) => {
                let State::There(there) = &mut self.state else {
                    return stale(format!("it was not there, but {stat:?} is shown"));
                };
                let known = (there.czxid, there.mzxid, there.version);
                if known != (Some(stat.czxid), stat.mzxid, stat.version) {
                    let (czxid, mzxid, version) = known;
                    return stale(format!(
                        "czxid {czxid:?}, mzxid {mzxid}, version {version} are known, but {stat:?} \
                         is shown"
                    ));
                }
                there.owner = Some(stat.ephemeral_owner);
            }
            Seen::There => self.appear(zxid, &format!("it is there at {zxid:#x}"))?,
            Seen::Version(version) => {
                self.appear(zxid, &format!("it is there at {zxid:#x}"))?;
                self.version_is(*version, zxid, "the version is checked")?;
            }
            Seen::OtherVersion(version) => {
                self.appear(zxid, &format!("it is there at {zxid:#x}"))?;
                if let State::There(there) = &self.state
                    && there.version == *version
                {
                    let why = format!("the version is not {version} at {zxid:#x}");
                    self.version_is(version.wrapping_add(1), zxid, &why)?;
                }
            }
        }
        if let State::There(there) = &mut self.state {
            there.alive = there.alive.max(zxid);
        }
        Ok(())
    }

    /// Requires that the znode exists by this zxid.
    fn appear(&mut self, until: i64, why: &str) -> Found {
        let State::Absent(absent) = self.state else { return Ok(()) };
        self.demand(FactKind::Created, 1, absent, until, why)?;
        let (czxid, owner) = (None, None);
        self.state = State::There(There { czxid, mzxid: absent, version: 0, owner, alive: until });
        Ok(())
    }

    /// Requires that the znode is gone by this zxid.
    fn vanish(&mut self, judge: &Judge<'_>, until: i64, why: &str) -> Found {
        let State::There(there) = &self.state else { return Ok(()) };
        let (owner, alive) = (there.owner, there.alive);
        let kind = FactKind::Deleted;
        self.owner_alive(owner, alive);
        self.state = State::Absent(until);
        match owner {
            Some(0) => self.demand(kind, 1, alive, until, why),
            _ if until <= alive => self.demand(kind, 1, alive, until, why),
            // The session is unknown, so the znode may have ended with it, or a write may have
            // deleted it.
            None => Ok(()),
            Some(_) if judge.may_have_removed(self.path, until) => Ok(()),
            Some(owner) => {
                self.lines.owners_over.push((owner, until, self.path.to_string()));
                Ok(())
            }
        }
    }

    /// Requires that the znode has this version by this zxid. Each version above the last known one
    /// demands a set.
    fn version_is(&mut self, version: i32, until: i64, why: &str) -> Found {
        let State::There(there) = &mut self.state else { return Ok(()) };
        let (known, mzxid) = (there.version, there.mzxid);
        there.version = version;
        if version < known {
            let what =
                format!("version {version} by zxid {until:#x}, it was {known} before: {why}");
            return Err((Rule::State, what));
        }
        self.demand(FactKind::Set, version - known, mzxid, until, why)
    }
}
