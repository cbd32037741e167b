//! The judge of etcd v2 clients. It checks them against the committed order, which is the sequence
//! of events in the members' histories. A member's state keeps only the newest events; the witness
//! ([`crate::witness`]) has collected all of them during the run.
//!
//! The judge replays the events in order on a tree, and each event must follow from the tree before
//! it. An event is either the end of a time to live, which must not come too early, or made by
//! exactly one write. An acknowledged write made the event in its answer, a write of unknown fate
//! made at most one event, and a refused write made none. Reads and refusals must show the tree at
//! their index. A call that was sent after an answer must not show an earlier index, unless it is a
//! read without a quorum. A wait must get all events that it asks for, in order. It must be refused
//! if and only if the history does not reach back to its first index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use etcd::v2::Verb;
use machine::Machine;
use machine::etcd_v2::event::{Action, Event, NodeState};
use machine::etcd_v2::history::History;
use machine::etcd_v2::key::Key;
use machine::etcd_v2::reply::{Reason, Refusal};
use machine::etcd_v2::store::FIRST_INDEX;
use workload::etcd::history::CallId;

use crate::etcd_clients::v2::{Began, Call, Came, Line, Op, Prev, V2Client};
use crate::witness::audit::{AuditLines, Logged};
use crate::witness::etcd_v2::V2Events;

/// How many events the history keeps (`v2store.New` of etcd 3.4: `newWatchHub(1000)`).
const HISTORY_EVENTS: u64 = 1_000;

/// Counts of what the etcd v2 clients of a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct V2Counts {
    /// Acknowledged writes.
    pub written: usize,
    /// The writes in `written` that compared a value or an index.
    pub compared: usize,
    /// Calls that the store refused.
    pub refused: usize,
    /// Reads that found a file.
    pub read: usize,
    /// Writes without a clear answer that took effect.
    pub unknown_done: usize,
    /// Times to live that ended.
    pub expired: usize,
    /// Events that waits received.
    pub shown: usize,
    /// Events that the history has dropped.
    pub gone: usize,
    /// Waits refused because their index is no longer in the history.
    pub cleared: usize,
    /// Streams that ended because the history had dropped their next event.
    pub ended: usize,
}

impl V2Counts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &V2Counts) {
        self.written += other.written;
        self.compared += other.compared;
        self.refused += other.refused;
        self.read += other.read;
        self.unknown_done += other.unknown_done;
        self.expired += other.expired;
        self.shown += other.shown;
        self.gone += other.gone;
        self.cleared += other.cleared;
        self.ended += other.ended;
    }
}

/// The nodes by key, each in the state that its last event showed.
type Tree = BTreeMap<Arc<str>, NodeState>;

/// Judges the etcd v2 clients of a run. `machines` are the final states of the members; it may be
/// empty. A time to live may end up to `slack_us` early by the world's clock.
///
/// # Errors
/// A correct server could not have behaved so.
pub fn check_etcd_v2<'c>(
    clients: impl Iterator<Item = &'c V2Client>,
    machines: &[&Machine],
    (claim, audit): (&V2Events, &AuditLines),
    slack_us: u64,
) -> Result<V2Counts, String> {
    let clients: Vec<&V2Client> = clients.collect();
    let Some(newest) = machines.iter().max_by_key(|machine| machine.index()) else {
        return Ok(V2Counts::default());
    };
    let events = claim.events();
    let history = newest.etcd_v2().history();
    check_history(&events, history).map_err(|found| format!("etcd v2: {found}"))?;
    let calls: Vec<&Call> = clients.iter().flat_map(|client| &client.calls).collect();
    let lines: Vec<&Line> = clients.iter().map(|client| &client.line).collect();
    let judged = judge((&calls, audit), &lines, &events, slack_us);
    let mut counts = judged.map_err(|found| format!("etcd v2: {found}"))?;
    counts.gone = events.len() - history.len();
    for line in lines {
        check_begun(line, claim, &mut counts).map_err(|found| format!("etcd v2: {found}"))?;
    }
    Ok(counts)
}

/// Checks the call's line in the audit log.
fn check_audit(call: &Call, done: &BTreeSet<CallId>, audit: &AuditLines) -> Result<(), String> {
    let answered = match call.came {
        Some((_, Came::Written(_) | Came::Found { .. })) => Some(true),
        Some((_, Came::Refused(_) | Came::Failed)) => Some(false),
        Some((_, Came::Unknown)) | None => None,
    };
    let Some(id) = call.id else { return Ok(()) };
    // Several calls may ask for the same of these, so the event may have been matched with another
    // call.
    let is_unique = !call.op.is_refresh && call.op.verb != Verb::Delete;
    let is_done = (is_unique || answered.is_some()).then(|| done.contains(&id));
    audit.check(id, !call.op.is_read(), is_done, answered)
}

/// Checks that the history in a member's state holds exactly the newest [`HISTORY_EVENTS`] of all
/// events.
fn check_history(events: &[Arc<Event>], history: &History) -> Result<(), String> {
    let kept = events.len().min(HISTORY_EVENTS as usize);
    let last = &events[events.len() - kept..];
    match history.events().eq(last) {
        true => Ok(()),
        false => Err(format!("the history of {} events is not the last {kept}", history.len())),
    }
}

/// Checks that each wait began only if the history reached back to its first index, and was refused
/// or ended only if the history did not.
fn check_begun(line: &Line, claim: &V2Events, counts: &mut V2Counts) -> Result<(), String> {
    for (at_us, next, began) in &line.begun {
        let reaches = |index: u64| *next == 0 || next + HISTORY_EVENTS > index;
        let describe = |what: &str| Err(format!("a wait for {next}: {began:?}, and {what}"));
        match began {
            Began::At(index) if !reaches(*index) => {
                return describe("its event is gone from the history");
            }
            Began::At(_) => {}
            Began::Refused(Refusal { reason, index }) => {
                counts.cleared += 1;
                let due = Reason::HistoryCleared {
                    first: (index + 1).saturating_sub(HISTORY_EVENTS),
                    asked: *next,
                };
                if reaches(*index) {
                    return describe("its event is in the history");
                }
                if claim.seen_us(*index).is_none_or(|seen_us| seen_us > *at_us) || *reason != due {
                    return describe("that is no reason");
                }
            }
            Began::Ended => {
                counts.ended += 1;
                // The member has seen at least the event that pushed the next one out of the
                // history.
                let first_us = claim.seen_us(next + HISTORY_EVENTS);
                if first_us.is_none_or(|first_us| first_us > *at_us) {
                    return describe("no event can be gone");
                }
            }
        }
    }
    Ok(())
}

/// Whether a wait has shown all events in a state's history that it wants.
pub fn has_shown_all(line: &Line, machine: &Machine) -> bool {
    let events = machine.etcd_v2().history().events();
    let mut wanted = events.filter(|event| wants(line, event));
    line.first > 0 && wanted.next_back().is_none_or(|last| last.index() < line.next)
}

fn judge(
    (calls, audit): (&[&Call], &AuditLines),
    lines: &[&Line],
    events: &[Arc<Event>],
    slack_us: u64,
) -> Result<V2Counts, String> {
    let mut counts = V2Counts::default();
    for (place, event) in events.iter().enumerate() {
        let expected = FIRST_INDEX + 1 + place as u64;
        if event.index() != expected {
            return Err(format!("event {expected} is missing before {event:?}"));
        }
    }
    let owners = owners((calls, audit), events, &mut counts)?;
    let done: BTreeSet<CallId> = owners.iter().flatten().filter_map(|call| call.id).collect();
    let audited = calls.iter().try_for_each(|call| check_audit(call, &done, audit));
    audited.map_err(|found| format!("the audit log: {found}"))?;
    let trees = replay(events)?;
    for call in calls {
        check_answer(call, events, &trees, &mut counts)?;
    }
    check_order(calls, events, &owners)?;
    check_ends(calls, lines, events, &owners, slack_us)?;
    for line in lines {
        check_line(line, events)?;
        counts.shown += line.shown.len();
    }
    counts.expired = events.iter().filter(|event| event.action == Action::Expire).count();
    Ok(counts)
}

/// The call that made each event; `None` for the end of a time to live. A call whose audit line
/// says `failure` made none.
fn owners<'c>(
    (calls, audit): (&[&'c Call], &AuditLines),
    events: &[Arc<Event>],
    counts: &mut V2Counts,
) -> Result<Vec<Option<&'c Call>>, String> {
    let mut owners: Vec<Option<&Call>> = vec![None; events.len()];
    for call in calls {
        let Some((_, Came::Written(event))) = &call.came else { continue };
        let place = (event.index().saturating_sub(FIRST_INDEX + 1)) as usize;
        let Some(found) = events.get(place).filter(|found| *found == event) else {
            return Err(format!("an acknowledged write is lost: {event:?}"));
        };
        if !is_of(&call.op, found) {
            return Err(format!("{:?} was answered with {found:?}", call.op));
        }
        if owners[place].replace(call).is_some() {
            return Err(format!("two writes were answered with {event:?}"));
        }
        counts.written += 1;
        counts.compared += usize::from(is_comparison(&call.op));
    }
    let mut unknown: Vec<&Call> = calls
        .iter()
        .copied()
        .filter(|call| !call.op.is_read() && matches!(call.came, None | Some((_, Came::Unknown))))
        .filter(|call| call.id.is_none_or(|id| audit.logged(id) != Ok(Some(Logged::Failure))))
        .collect();
    // If several calls ask for the same, the first one may have made the most of the events.
    unknown.sort_by_key(|call| call.sent_us);
    for (event, owner) in events.iter().zip(&mut owners) {
        if owner.is_some() || event.action == Action::Expire {
            continue;
        }
        let Some(at) = unknown.iter().position(|call| is_of(&call.op, event)) else {
            return Err(format!("nobody asked for {event:?}, or it was refused"));
        };
        *owner = Some(unknown.remove(at));
        counts.unknown_done += 1;
    }
    Ok(owners)
}

fn is_comparison(op: &Op) -> bool {
    matches!(op.prev, Prev::Value(_) | Prev::Index(_))
}

/// Whether an event fits the call's request, and its comparison holds.
fn is_of(op: &Op, event: &Event) -> bool {
    let prev = event.prev.as_ref();
    let is_action = event.action
        == match (op.verb, &op.prev) {
            (Verb::Post, _) | (Verb::Put, Prev::Exists(false)) => Action::Create,
            (Verb::Put, Prev::Exists(true)) => Action::Update,
            (Verb::Put, Prev::Any) => Action::Set,
            (Verb::Put, _) => Action::CompareAndSwap,
            (Verb::Delete, Prev::Any) => Action::Delete,
            (Verb::Delete, _) => Action::CompareAndDelete,
            _ => return false,
        };
    let is_key = match op.verb {
        Verb::Post => event.key.strip_prefix(op.key).is_some_and(|rest| rest.len() == 21),
        _ => *event.key == *op.key,
    };
    let holds = match &op.prev {
        Prev::Any => true,
        Prev::Value(value) => {
            prev.is_some_and(|prev| prev.value.as_deref() == Some(value.as_bytes()))
        }
        Prev::Index(index) => prev.is_some_and(|prev| prev.modified == *index),
        Prev::Exists(exists) => prev.is_some() == *exists,
    };
    let has_value = match (op.verb, op.is_refresh) {
        (Verb::Delete, _) => event.node.value.is_none(),
        (_, true) => event.is_refresh && prev.is_some_and(|prev| prev.value == event.node.value),
        // An update of a directory has no value.
        (_, false) if event.node.is_dir => event.action == Action::Update,
        (_, false) => event.node.value.as_deref() == Some(op.value.as_bytes()),
    };
    let ttl_s = op.ttl_s.filter(|_| op.verb != Verb::Delete).map(|ttl_s| ttl_s as i64);
    let is_life = event.node.expiration.map(|expiration| expiration.ttl_s) == ttl_s;
    is_action && is_key && holds && has_value && is_life
}

/// The tree after each event, starting with the empty tree of a new store.
fn replay(events: &[Arc<Event>]) -> Result<Vec<Tree>, String> {
    let mut trees = vec![Tree::new()];
    for event in events {
        let mut tree = trees.last().expect("it has one").clone();
        let before = tree.get(&event.key);
        let same = match (before, &event.prev) {
            (None, None) => true,
            (Some(known), Some(prev)) => is_same(known, prev),
            _ => false,
        };
        if !same {
            return Err(format!("before {event:?} there was {before:?}"));
        }
        match event.action {
            Action::Delete | Action::CompareAndDelete | Action::Expire => {
                let below = format!("{}/", event.key);
                tree.retain(|key, _| **key != *event.key && !key.starts_with(&below));
            }
            _ => {
                for (_, dir) in event.key().steps() {
                    tree.entry(dir.text().into()).or_insert_with(|| NodeState {
                        created: event.index(),
                        modified: event.index(),
                        is_dir: true,
                        value: None,
                        expiration: None,
                    });
                }
                let mut node = event.node.clone();
                // Changing a directory's time to live leaves its index as it is.
                if let Some(prev) = event.prev.as_ref().filter(|prev| prev.is_dir && node.is_dir) {
                    node.modified = prev.modified;
                }
                tree.insert(event.key.clone(), node);
            }
        }
        trees.push(tree);
    }
    Ok(trees)
}

/// Whether two states of a node are equal, ignoring the rest of the time to live.
fn is_same(one: &NodeState, other: &NodeState) -> bool {
    let end = |state: &NodeState| state.expiration.map(|expiration| expiration.at_ms);
    (one.created, one.modified, one.is_dir, &one.value)
        == (other.created, other.modified, other.is_dir, &other.value)
        && end(one) == end(other)
}

/// Checks that a read or a refusal shows the tree at its index.
fn check_answer(
    call: &Call,
    events: &[Arc<Event>],
    trees: &[Tree],
    counts: &mut V2Counts,
) -> Result<(), String> {
    let Some((_, came)) = &call.came else { return Ok(()) };
    let tree_at = |index: u64| {
        let tree = trees.get(index.wrapping_sub(FIRST_INDEX) as usize);
        tree.ok_or_else(|| format!("index {index} was shown, and there are {}", events.len()))
    };
    let key = call.op.key;
    let wrong = |tree: &Tree| {
        Err(format!("{:?} was answered with {came:?}, there was {:?}", call.op, tree.get(key)))
    };
    match came {
        Came::Found { index, file } => {
            let tree = tree_at(*index)?;
            let known = tree.get(key);
            let is_right = match (file, known) {
                (Some((value, created, modified)), Some(known)) => {
                    known.value.as_deref() == Some(value.as_bytes())
                        && (known.created, known.modified) == (*created, *modified)
                }
                (None, Some(known)) => known.is_dir,
                (_, None) => false,
            };
            counts.read += usize::from(file.is_some());
            if is_right { Ok(()) } else { wrong(tree) }
        }
        Came::Refused(refusal) => {
            counts.refused += 1;
            let tree = tree_at(refusal.index)?;
            let known = tree.get(key);
            let holds = |prev: &Prev| match prev {
                Prev::Value(value) => {
                    known.is_some_and(|it| it.value.as_deref() == Some(value.as_bytes()))
                }
                Prev::Index(index) => known.is_some_and(|it| it.modified == *index),
                _ => true,
            };
            let is_right = match &refusal.reason {
                Reason::KeyNotFound(_) => known.is_none(),
                Reason::CompareFailed(_) => known.is_some() && !holds(&call.op.prev),
                Reason::NotFile(_) => known.is_some_and(|it| it.is_dir),
                Reason::KeyExists(_) => known.is_some(),
                Reason::NotDir(_) => match call.op.verb {
                    Verb::Post => known.is_some_and(|it| !it.is_dir),
                    _ => tree.get("/d").is_some_and(|it| !it.is_dir),
                },
                Reason::DirNotEmpty(_) => known.is_some_and(|it| it.is_dir),
                _ => false,
            };
            if is_right { Ok(()) } else { wrong(tree) }
        }
        _ => Ok(()),
    }
}

/// The store's index in an answer; `None` if it has none.
fn index_of(came: &Came) -> Option<u64> {
    match came {
        Came::Written(event) => Some(event.index()),
        Came::Found { index, .. } => Some(*index),
        Came::Refused(refusal) => Some(refusal.index),
        Came::Failed | Came::Unknown => None,
    }
}

/// Checks that no call that was sent after an answer shows an earlier index, except reads without a
/// quorum; and that no write took effect before it was sent, as far as answers tell.
fn check_order(
    calls: &[&Call],
    events: &[Arc<Event>],
    owners: &[Option<&Call>],
) -> Result<(), String> {
    let mut answers: Vec<(u64, u64)> = calls
        .iter()
        .filter_map(|call| call.came.as_ref())
        .filter_map(|(at_us, came)| Some((*at_us, index_of(came)?)))
        .collect();
    answers.sort_unstable();
    // For each answer, the highest index answered so far.
    let mut highest = 0;
    for (_, index) in &mut answers {
        highest = highest.max(*index);
        *index = highest;
    }
    let known_before = |call: &Call| {
        let before = answers.partition_point(|(at_us, _)| *at_us < call.sent_us);
        before.checked_sub(1).map_or(0, |last| answers[last].1)
    };
    for call in calls.iter().filter(|call| !call.op.is_read() || call.op.flag) {
        let Some(index) = call.came.as_ref().and_then(|(_, came)| index_of(came)) else { continue };
        let known = known_before(call);
        if index < known {
            return Err(format!("index {known} was known before {call:?} was sent"));
        }
    }
    for (event, owner) in events.iter().zip(owners) {
        let Some(call) = owner.filter(|call| event.index() <= known_before(call)) else { continue };
        return Err(format!("{event:?} was there before {call:?} was sent"));
    }
    Ok(())
}

/// Checks that no time to live ended early, by what clients saw.
fn check_ends(
    calls: &[&Call],
    lines: &[&Line],
    events: &[Arc<Event>],
    owners: &[Option<&Call>],
    slack_us: u64,
) -> Result<(), String> {
    let of_calls = calls.iter().filter_map(|call| call.came.as_ref());
    let of_calls = of_calls.filter_map(|(at_us, came)| Some((index_of(came)?, *at_us)));
    let of_lines = lines.iter().flat_map(|line| &line.shown);
    let of_lines = of_lines.map(|(at_us, event)| (event.index(), *at_us));
    let observed: Vec<(u64, u64)> = of_calls.chain(of_lines).collect();
    for end in events.iter().filter(|event| event.action == Action::Expire) {
        let has_life = |event: &(&Arc<Event>, &Option<&Call>)| {
            event.0.key == end.key && event.0.index() < end.index()
        };
        let given = events.iter().zip(owners).rev().find(has_life);
        let Some((write, Some(call))) = given else {
            return Err(format!("nobody gave a time to live that {end:?} ends"));
        };
        let Some(life) = write.node.expiration else {
            return Err(format!("{end:?} ends what lives on since {write:?}"));
        };
        let seen_us = observed.iter().filter(|(index, _)| *index >= end.index());
        let Some(seen_us) = seen_us.map(|(_, at_us)| *at_us).min() else { continue };
        let due_us = call.sent_us + life.ttl_s as u64 * 1_000_000;
        if seen_us + slack_us < due_us {
            return Err(format!(
                "{end:?} was seen at {seen_us} us, and is due at {due_us} us: {write:?}"
            ));
        }
    }
    Ok(())
}

/// Whether a wait wants an event. The rules of hidden keys are left to the machine's tests.
fn wants(line: &Line, event: &Event) -> bool {
    let (key, watched) = (event.key(), Key::new(line.key).expect("it is a key"));
    let is_hidden = key.text().contains("/_");
    let is_it = key == watched || (line.is_recursive && key.is_below(watched) && !is_hidden);
    // The history had dropped the events in the line's gaps.
    let is_missed = line.gaps.iter().any(|(from, to)| (*from..=*to).contains(&event.index()));
    is_it && !event.is_refresh && event.index() >= line.first && !is_missed
}

/// Checks that a line of waits received exactly the events that it wants, each once.
fn check_line(line: &Line, events: &[Arc<Event>]) -> Result<(), String> {
    let is_other = |event: &Event| {
        let watched = Key::new(line.key).expect("it is a key");
        // A wait may or may not receive the removal of a directory above, and hidden keys.
        watched.is_below(event.key()) || event.key().text().contains("/_")
    };
    let shown = line.shown.iter().map(|(_, event)| event).filter(|event| !is_other(event));
    let mut wanted = events.iter().filter(|event| wants(line, event) && event.index() < line.next);
    for event in shown {
        match wanted.next() {
            Some(due) if due == event => {}
            due => return Err(format!("{line:?} has {event:?}, due is {due:?}")),
        }
    }
    match wanted.next() {
        None => Ok(()),
        Some(due) => Err(format!("{line:?} has passed {due:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u64 = FIRST_INDEX + 1;

    fn call(verb: Verb, sent_us: u64, came: Option<(u64, Came)>) -> Call {
        let op = Op {
            verb,
            key: "/e",
            value: "v".to_string(),
            ttl_s: None,
            prev: Prev::Any,
            is_refresh: false,
            flag: false,
        };
        Call { id: None, op, sent_us, came }
    }

    fn node(created: u64, modified: u64, value: Option<&str>) -> NodeState {
        let value = value.map(|text| text.as_bytes().into());
        NodeState { created, modified, is_dir: false, value, expiration: None }
    }

    /// The events of setting a key and deleting it.
    fn set_and_deleted() -> [Arc<Event>; 2] {
        let (key, is_refresh) = (Arc::from("/e"), false);
        let set = node(FIRST, FIRST, Some("v"));
        let prev = Some(set.clone());
        [
            Event { action: Action::Set, key, node: set, prev: None, is_refresh },
            Event {
                action: Action::Delete,
                key: "/e".into(),
                node: node(FIRST, FIRST + 1, None),
                prev,
                is_refresh,
            },
        ]
        .map(Arc::new)
    }

    fn refused_at(index: u64, reason: Reason) -> Came {
        Came::Refused(Refusal { reason, index })
    }

    #[test]
    fn a_write_of_unknown_fate_takes_effect_behind_its_sending() {
        let events = set_and_deleted();
        let set = call(Verb::Put, 10, Some((20, Came::Written(events[0].clone()))));
        // A read finds that the key is gone.
        let gone = refused_at(FIRST + 1, Reason::KeyNotFound("/e".into()));
        let read = call(Verb::Get, 30, Some((40, gone)));
        let sent_at = |sent_us| call(Verb::Delete, sent_us, Some((90, Came::Unknown)));
        let judged = |deletes: &[Call]| {
            let calls: Vec<&Call> = [&set, &read].into_iter().chain(deletes).collect();
            judge((&calls, &AuditLines::default()), &[], &events, 0)
                .map(|counts| counts.unknown_done)
        };
        assert_eq!(judged(&[sent_at(35)]), Ok(1));
        let early = judged(&[sent_at(50)]).unwrap_err();
        assert!(early.contains("before"), "{early}");
        // If two calls ask for the same, the first one made the event.
        assert_eq!(judged(&[sent_at(50), sent_at(25)]), Ok(1));
        assert!(judged(&[]).unwrap_err().contains("nobody asked"));
    }

    /// Checks the verdict on a wait for index `next` that began or ended so at 50 us. The members'
    /// states had 1,500 events by then, and get another at 90 us.
    #[track_caller]
    fn check_wait(next: u64, began: Began, expected: Result<(), &str>) {
        let event = |at: u64| {
            let node = node(FIRST + at, FIRST + at, Some("v"));
            let (key, is_refresh) = (Arc::from("/e"), false);
            Arc::new(Event { action: Action::Set, key, node, prev: None, is_refresh })
        };
        let seen_us = |at: u64| if at < 1_500 { 40 } else { 90 };
        let claim = V2Events::of((0..=1_500).map(|at| (seen_us(at), event(at))));
        let mut line = Line::default();
        line.begun.push((50, next, began));
        let found = check_begun(&line, &claim, &mut V2Counts::default());
        match (&found, expected) {
            (Ok(()), Ok(())) => {}
            (Err(found), Err(part)) if found.contains(part) => {}
            _ => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_wait_is_refused_for_its_index_exactly_if_the_history_does_not_reach_it() {
        let last = FIRST + 1_499;
        let refused = |index: u64, asked: u64| {
            let reason = Reason::HistoryCleared { first: index - 999, asked };
            Began::Refused(Refusal { reason, index })
        };
        check_wait(0, Began::At(last), Ok(()));
        check_wait(last + 1, Began::At(last), Ok(()));
        check_wait(last - 999, Began::At(last), Ok(()));
        check_wait(last - 1_000, Began::At(last), Err("its event is gone"));
        check_wait(last - 1_000, refused(last, last - 1_000), Ok(()));
        check_wait(last - 999, refused(last, last - 999), Err("its event is in the history"));
        check_wait(0, refused(last, 0), Err("its event is in the history"));
        // The refusal names another index, or an index that the store had only later.
        check_wait(last - 1_000, refused(last, last), Err("that is no reason"));
        check_wait(last - 1_000, refused(last + 1, last - 1_000), Err("that is no reason"));
        check_wait(last - 1_000, Began::Ended, Ok(()));
        check_wait(last - 999, Began::Ended, Err("no event can be gone"));
    }
}
