//! The judge of watch streams. It is given the model after the committed order, and the state at
//! each place of it: a message can show no command that was sent after it came.
//!
//! Each watch is a cursor here, too: the first revision that it has not shown. A response with
//! events must have all events of the model that the watch wants, from the cursor to the last
//! revision in the response, and no others: that is no gap, no doubles, the order, and whole
//! revisions. A promise must cover no event that is still due. What was resumed goes on at the
//! cursor. So all that a line shows is a prefix of the model's events from its start.
//!
//! **What is not judged**: how soon an event comes while others go on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::watcher::{Known, Watcher};
use super::{NO_WATCH_ID, Response, Step, StreamRecord, Wanted, WatchRule, WatchViolation};
use crate::etcd::finding::shorten;
use crate::etcd::history::History;
use crate::etcd::model::{Model, View};

/// The states of the committed order, and when the commands before each were asked for.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// For each place the sequence at which the last of its commands was asked for.
    pub asked: Vec<u64>,
    /// The state at each place.
    pub views: Vec<View>,
    /// The revisions in which the order of changes is not known.
    pub unordered: BTreeSet<i64>,
}

impl Timeline {
    /// The newest state that a message can show which came at this point of the history.
    pub fn newest_before(&self, sequence: u64) -> View {
        self.views[self.asked.partition_point(|asked| *asked < sequence) - 1]
    }

    /// The number of the command that made a revision.
    pub fn command_of(&self, revision: i64) -> Option<usize> {
        self.views.partition_point(|view| view.revision < revision).checked_sub(1)
    }
}

/// A watch on a stream that has not ended.
#[derive(Clone, Debug)]
pub struct OpenWatch {
    /// The position of the stream in the history.
    pub stream: usize,
    /// The first event that it has not shown, or the request that is not answered.
    pub missing: Option<String>,
}

/// The result of judging sound streams.
#[derive(Clone, Debug, Default)]
pub struct WatchVerdict {
    /// Watches that were created.
    pub created_count: usize,
    /// Requests for a watch that were refused.
    pub refused_count: usize,
    /// Watches among those created that were resumed.
    pub resumed_count: usize,
    /// Events.
    pub event_count: usize,
    /// Responses in several messages.
    pub fragmented_count: usize,
    /// Promises to one watch, and to all of a stream.
    pub promise_count: usize,
    /// See [`WatchVerdict::promise_count`].
    pub promise_of_all_count: usize,
    /// Watches that ended as compacted.
    pub compacted_count: usize,
    /// Watches that ended as compacted after they had shown events.
    pub overtaken_count: usize,
    /// Responses of watches of new events that were read from the history.
    pub behind_count: usize,
    /// Watches that clients ended.
    pub cancelled_count: usize,
    /// The watches that go on.
    pub open: Vec<OpenWatch>,
    /// Each response with events: its stream, its step, and the last revision.
    pub shown: Vec<(usize, usize, i64)>,
}

/// Judges all watch streams of a history.
///
/// # Errors
/// The first finding that no correct server would give.
pub fn judge_watches(
    history: &History,
    model: &Model,
    timeline: &Timeline,
) -> Result<WatchVerdict, WatchViolation> {
    let mut judge =
        Judge { model, timeline, lines: BTreeMap::new(), verdict: WatchVerdict::default() };
    let of_stream = |(number, stream): (usize, &'_ StreamRecord)| {
        let sequences = stream.steps.iter().map(|(moment, _)| moment.sequence);
        sequences.enumerate().map(|(at, it)| (it, number, at)).collect::<Vec<_>>()
    };
    let mut steps: Vec<(u64, usize, usize)> =
        history.watches.iter().enumerate().flat_map(of_stream).collect();
    steps.sort_unstable();
    let mut streams: Vec<Open<'_>> = history.watches.iter().enumerate().map(Open::of).collect();
    for (_, number, position) in steps {
        let open = &mut streams[number];
        open.position = position;
        judge.step(open).map_err(|found| {
            let (connection, what) = (open.stream.connection, found.what);
            let what = format!("stream {number} on connection {connection}: {what}");
            WatchViolation { what, ..found }
        })?;
    }
    streams.iter().for_each(|open| judge.note_open(open));
    Ok(judge.verdict)
}

/// All streams.
struct Judge<'h> {
    model: &'h Model,
    timeline: &'h Timeline,
    /// The cursor of each line behind its last stream.
    lines: BTreeMap<usize, i64>,
    verdict: WatchVerdict,
}

/// A stream at one of its steps.
struct Open<'h> {
    number: usize,
    stream: &'h StreamRecord,
    position: usize,
    /// Requests for watches that are not answered.
    asked: VecDeque<(usize, Wanted)>,
    /// Watches that the client has cancelled, and that have not ended.
    cancelled: Vec<i64>,
    watchers: BTreeMap<i64, Watcher>,
}

impl<'h> Open<'h> {
    fn of((number, stream): (usize, &'h StreamRecord)) -> Open<'h> {
        Open {
            number,
            stream,
            position: 0,
            asked: VecDeque::new(),
            cancelled: Vec::new(),
            watchers: BTreeMap::new(),
        }
    }
}

fn violation<T>(rule: WatchRule, what: String) -> Result<T, WatchViolation> {
    Err(WatchViolation { rule, what })
}

impl<'h> Judge<'h> {
    fn step(&mut self, open: &mut Open<'h>) -> Result<(), WatchViolation> {
        let (moment, step) = &open.stream.steps[open.position];
        match step {
            Step::Create { line, wanted } => open.asked.push_back((*line, wanted.clone())),
            Step::Cancel(id) => open.cancelled.push(*id),
            Step::AskProgress => {}
            Step::Ended(_) | Step::Left => {
                open.asked.clear();
                let watchers = core::mem::take(&mut open.watchers);
                self.lines.extend(watchers.into_values().map(|it| (it.line, it.next)));
            }
            Step::Response(response) => {
                let newest = self.timeline.newest_before(moment.sequence);
                self.response(open, response, newest).map_err(|found| {
                    let what = format!("{}: {}", shorten(response), found.what);
                    WatchViolation { what, ..found }
                })?;
            }
        }
        Ok(())
    }

    /// Notes the watches of a stream that has not ended.
    fn note_open(&mut self, open: &Open<'h>) {
        for watcher in open.watchers.values() {
            let View { revision, compacted } = self.model.view();
            let due = watcher.first_due(self.model, revision, compacted);
            let missing = due.map(|due| format!("{due:?} of {}", watcher.describe()));
            self.verdict.open.push(OpenWatch { stream: open.number, missing });
        }
        for asked in &open.asked {
            let missing = Some(format!("the answer to {asked:?}"));
            self.verdict.open.push(OpenWatch { stream: open.number, missing });
        }
    }

    fn response(
        &mut self,
        open: &mut Open<'h>,
        response: &Response,
        newest: View,
    ) -> Result<(), WatchViolation> {
        if response.revision > newest.revision {
            let rule = if response.is_progress() { WatchRule::Progress } else { WatchRule::Header };
            return violation(rule, format!("its revision is above {}", newest.revision));
        }
        let (model, unordered) = (self.model, &self.timeline.unordered);
        let stream = (open.stream, open.position);
        let known = Known { model, unordered, newest, stream };
        if response.is_created {
            return self.created(open, response);
        }
        if response.watch_id == NO_WATCH_ID && response.is_progress() {
            self.verdict.promise_of_all_count += 1;
            let mut all = open.watchers.values_mut();
            return all.try_for_each(|watcher| watcher.on_promise(response.revision, known));
        }
        let Some(watcher) = open.watchers.get_mut(&response.watch_id) else {
            let what = "there is no such watch".to_string();
            return violation(WatchRule::Created, what);
        };
        if response.is_canceled {
            return self.ended(open, response, newest);
        }
        if response.is_progress() {
            self.verdict.promise_count += 1;
            return watcher.on_promise(response.revision, known);
        }
        let was_fragmented = !watcher.parts.is_empty();
        if watcher.on_events(response, known)? {
            let last = watcher.last_event;
            self.verdict.fragmented_count += usize::from(was_fragmented);
            let is_of_history = watcher.is_of_new && response.revision > last;
            self.verdict.behind_count += usize::from(is_of_history);
            self.verdict.shown.push((open.number, open.position, last));
        }
        self.verdict.event_count += response.events.len();
        Ok(())
    }

    fn created(&mut self, open: &mut Open<'h>, response: &Response) -> Result<(), WatchViolation> {
        let Some((line, wanted)) = open.asked.pop_front() else {
            return violation(WatchRule::Created, "nothing was asked for".to_string());
        };
        let is_taken = wanted.id != 0 && open.watchers.contains_key(&wanted.id);
        let is_due = wanted.start < 0 || wanted.is_empty() || is_taken;
        if response.is_canceled != is_due || response.is_canceled == response.reason.is_empty() {
            let what = format!("it answers {wanted:?}, a refusal is due: {is_due}");
            return violation(WatchRule::Created, what);
        }
        if is_due {
            self.verdict.refused_count += 1;
            return match response.watch_id {
                NO_WATCH_ID => Ok(()),
                _ => violation(WatchRule::Created, "a refused watch has no number".to_string()),
            };
        }
        let id = response.watch_id;
        let is_right = if wanted.id == 0 { id >= 0 } else { id == wanted.id };
        if !is_right || open.watchers.contains_key(&id) {
            return violation(WatchRule::Created, format!("it answers {wanted:?}"));
        }
        let start = if wanted.start == 0 { response.revision + 1 } else { wanted.start };
        let cursor = self.lines.get(&line).copied();
        if let Some(cursor) = cursor
            && cursor != start
        {
            // The client resumes at its own cursor, which must be this one.
            let what = format!("line {line} is resumed at {start}, and was at {cursor}");
            return violation(WatchRule::Resumable, what);
        }
        self.verdict.created_count += 1;
        self.verdict.resumed_count += usize::from(cursor.is_some());
        let watcher = Watcher {
            line,
            wanted,
            start,
            next: start,
            last_event: start - 1,
            is_of_new: start > response.revision,
            is_resumed: cursor.is_some(),
            has_shown: false,
            parts: Vec::new(),
        };
        open.watchers.insert(id, watcher);
        Ok(())
    }

    fn ended(
        &mut self,
        open: &mut Open<'h>,
        response: &Response,
        newest: View,
    ) -> Result<(), WatchViolation> {
        let Some(watcher) = open.watchers.remove(&response.watch_id) else { return Ok(()) };
        let compacted = response.compact_revision;
        if compacted == 0 {
            let cancelled = open.cancelled.iter().position(|id| *id == response.watch_id);
            let Some(at) = cancelled else {
                return violation(WatchRule::Created, "nobody has cancelled it".to_string());
            };
            open.cancelled.remove(at);
            self.verdict.cancelled_count += 1;
            return Ok(());
        }
        self.verdict.compacted_count += 1;
        self.verdict.overtaken_count += usize::from(watcher.has_shown);
        let is_passed = watcher.next < newest.compacted;
        if !is_passed || compacted > newest.compacted || compacted <= watcher.next {
            let what = format!("no compaction up to {newest:?} passed {}", watcher.describe());
            return violation(WatchRule::Compacted, what);
        }
        Ok(())
    }
}
