//! The judge of watch streams. It gets the model after the whole committed order, which has every
//! event. It also gets the state at each place of that order and the time at which the commands up
//! to that place had been sent, because a message cannot show a command that was sent after the
//! message arrived.
//!
//! The judge gives each watch a cursor: the first revision that it has not shown. A response with
//! events must contain exactly the model's events that the watch wants from the cursor to the last
//! revision in the response. That rules out gaps, duplicates, disorder and split revisions. A
//! notice of progress must not cover an event that is still due. A resumed watch must start at the
//! cursor. So everything that a line shows is a prefix of the model's events from its start.
//!
//! **Not checked:** how soon an event comes, as long as the stream does not end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::watcher::{Known, Watcher};
use super::{NO_WATCH_ID, Response, Step, StreamRecord, Wanted, WatchRule, WatchViolation};
use crate::etcd::finding::shorten;
use crate::etcd::history::History;
use crate::etcd::model::{Model, View};

/// The state at each place of the committed order, and when the commands up to that place had been
/// sent.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// For each place, the latest time (sequence) at which a command up to it was sent.
    pub asked: Vec<u64>,
    /// The state at each place.
    pub views: Vec<View>,
    /// The revisions in which the order of changes is unknown.
    pub unordered: BTreeSet<i64>,
}

impl Timeline {
    /// The newest state that a message can show if it arrived at this point of the history
    /// (`sequence`).
    pub fn newest_before(&self, sequence: u64) -> View {
        self.views[self.asked.partition_point(|asked| *asked < sequence) - 1]
    }

    /// The index of the command that made a revision.
    pub fn command_of(&self, revision: i64) -> Option<usize> {
        self.views.partition_point(|view| view.revision < revision).checked_sub(1)
    }
}

/// A watch, or a request for one, on a stream that has not ended.
#[derive(Clone, Debug)]
pub struct OpenWatch {
    /// The position of the stream in the history.
    pub stream: usize,
    /// The first event that the watch has not shown, or the unanswered request; `None` if nothing
    /// is missing.
    pub missing: Option<String>,
}

/// The result of judging accepted streams.
#[derive(Clone, Debug, Default)]
pub struct WatchVerdict {
    /// Watches created.
    pub created_count: usize,
    /// Requests for a watch that were refused.
    pub refused_count: usize,
    /// The created watches that resumed a line.
    pub resumed_count: usize,
    /// Events received.
    pub event_count: usize,
    /// Responses split into several messages.
    pub fragmented_count: usize,
    /// Notices of progress for one watch.
    pub promise_count: usize,
    /// Notices of progress for all watches of a stream.
    pub promise_of_all_count: usize,
    /// Watches that ended as compacted.
    pub compacted_count: usize,
    /// The watches in `compacted_count` that had shown events.
    pub overtaken_count: usize,
    /// Responses to watches of new events that had fallen behind and were served from the history.
    pub behind_count: usize,
    /// Watches that clients cancelled.
    pub cancelled_count: usize,
    /// The watches and requests on streams that have not ended.
    pub open: Vec<OpenWatch>,
    /// For each response with events, its stream, its step in the stream, and the revision of its
    /// last event.
    pub shown: Vec<(usize, usize, i64)>,
}

/// Judges all watch streams of a history.
///
/// # Errors
/// The first thing that a correct server could not have done.
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

/// The judge of all streams of a history.
struct Judge<'h> {
    model: &'h Model,
    timeline: &'h Timeline,
    /// The cursor of each line at the end of its last stream.
    lines: BTreeMap<usize, i64>,
    verdict: WatchVerdict,
}

/// A stream, at its current step.
struct Open<'h> {
    number: usize,
    stream: &'h StreamRecord,
    position: usize,
    /// The unanswered requests for watches, oldest first, each with its line.
    asked: VecDeque<(usize, Wanted)>,
    /// Ids of watches that the client has cancelled and that have not ended.
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

    /// Notes the watches and requests of a stream that has not ended.
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
            // The client resumes at its own cursor, which must equal the judge's.
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
