//! Judges one watch on one stream: compares the events and notices that the watch has shown with
//! the model.

use std::collections::BTreeSet;

use super::{Event, Response, Step, StreamRecord, Wanted, WatchRule, WatchViolation};
use crate::etcd::finding::shorten;
use crate::etcd::model::{KeyChange, Model, View};
use crate::etcd::op::KeyValue;

/// A watch that the server has created.
#[derive(Clone, Debug)]
pub(super) struct Watcher {
    pub line: usize,
    pub wanted: Wanted,
    /// The first revision that the watch may show.
    pub start: i64,
    /// The cursor: the first revision whose events the watch has not shown, and for which no notice
    /// of progress has said that there are none.
    pub next: i64,
    /// The revision of the last event that it has shown.
    pub last_event: i64,
    /// Whether the watch started above the member's newest revision.
    pub is_of_new: bool,
    /// Whether the watch resumes a line of an earlier stream.
    pub is_resumed: bool,
    /// Whether the watch has shown an event on this stream.
    pub has_shown: bool,
    /// The events so far of a response whose last message has not arrived.
    pub parts: Vec<Event>,
}

/// The knowledge of the judge at the time of a message.
#[derive(Clone, Copy)]
pub(super) struct Known<'m> {
    pub model: &'m Model,
    /// The revisions in which the order of changes is unknown.
    pub unordered: &'m BTreeSet<i64>,
    /// The newest state that the message can show.
    pub newest: View,
    /// The stream, and the position of the message among its steps.
    pub stream: (&'m StreamRecord, usize),
}

fn violation<T>(rule: WatchRule, what: String) -> Result<T, WatchViolation> {
    Err(WatchViolation { rule, what })
}

impl Watcher {
    /// The events that the watch must show at these revisions, both included.
    pub fn due(&self, model: &Model, from: i64, until: i64) -> Vec<KeyChange> {
        let Wanted { key, range_end, .. } = &self.wanted;
        let mut due = model.changes(key, range_end, from, until);
        due.retain(|change| self.wanted.admits(change.pair.is_none()));
        due
    }

    /// The first event up to revision `until` that the watch must still show.
    pub fn first_due(&self, model: &Model, until: i64, compacted: i64) -> Option<KeyChange> {
        let mut due = self.due(model, self.next, until).into_iter();
        due.find(|change| !may_be_gone(change, model, compacted))
    }

    /// Checks a notice of progress: everything up to this revision must have been shown.
    pub fn on_promise(&mut self, revision: i64, known: Known<'_>) -> Result<(), WatchViolation> {
        if !self.parts.is_empty() {
            return violation(WatchRule::Progress, "it stands inside a response".to_string());
        }
        if let Some(missing) = self.first_due(known.model, revision, known.newest.compacted) {
            let what = format!("the promise of {revision} is too early, due is {missing:?}");
            return violation(WatchRule::Progress, what);
        }
        self.next = self.next.max(revision.saturating_add(1));
        Ok(())
    }

    /// Checks a message with events. Returns whether the message completes a response.
    pub fn on_events(
        &mut self,
        message: &Response,
        known: Known<'_>,
    ) -> Result<bool, WatchViolation> {
        if message.is_fragment && !self.wanted.fragment {
            let what = "a fragment, which was not asked for".to_string();
            return violation(WatchRule::Atomic, what);
        }
        self.parts.extend(message.events.iter().cloned());
        if message.is_fragment {
            return Ok(false);
        }
        let mut events = core::mem::take(&mut self.parts);
        self.check_places(&events, known)?;
        let last = events.last().map_or(0, |event| event.pair.mod_revision);
        if message.revision < last {
            let what = format!("the header has {}, an event {last}", message.revision);
            return violation(WatchRule::Header, what);
        }
        let mut due = self.due(known.model, self.next, last);
        due.retain(|change| {
            let is_gone = || may_be_gone(change, known.model, known.newest.compacted);
            events.iter().any(|event| is_of(event, change)) || !is_gone()
        });
        if !known.unordered.is_empty() {
            let key_of = |revision: i64, key: &[u8]| match known.unordered.contains(&revision) {
                true => (revision, key.to_vec()),
                false => (revision, Vec::new()),
            };
            events.sort_by_key(|event| key_of(event.pair.mod_revision, &event.pair.key));
            due.sort_by_key(|change| key_of(change.revision, &change.key));
        }
        self.check_all(&events, &due, known)?;
        for (event, change) in events.iter().zip(&due) {
            self.check_one(event, change, known.newest)?;
        }
        (self.next, self.last_event, self.has_shown) = (last + 1, last, true);
        Ok(true)
    }

    /// Checks that the events' revisions are ones it may show now, and that it wants the events.
    fn check_places(&self, events: &[Event], known: Known<'_>) -> Result<(), WatchViolation> {
        for event in events {
            let revision = event.pair.mod_revision;
            let what = || format!("{}; {}", shorten(event), self.describe());
            if revision < self.start {
                return violation(WatchRule::Bookmarkable, what());
            }
            if revision < self.next && revision > self.last_event {
                let what = format!("it was promised not to come: {}", what());
                return violation(WatchRule::Progress, what);
            }
            if revision < self.next {
                return violation(self.or_resumable(WatchRule::Unique), what());
            }
            let is_inside = |it: &KeyChange| it.key == event.pair.key;
            let Wanted { key, range_end, .. } = &self.wanted;
            let there = known.model.changes(key, range_end, revision, revision);
            let is_of_range = there.is_empty() || there.iter().any(is_inside);
            if !self.wanted.admits(event.is_delete) || !is_of_range {
                return violation(WatchRule::Filtered, what());
            }
        }
        match events.is_sorted_by_key(|event| event.pair.mod_revision) {
            true => Ok(()),
            false => violation(WatchRule::Ordered, shorten(&events)),
        }
    }

    /// Checks that a response has exactly the events that are due, in order.
    fn check_all(
        &self,
        events: &[Event],
        due: &[KeyChange],
        known: Known<'_>,
    ) -> Result<(), WatchViolation> {
        let is_same = events.iter().zip(due).all(|(event, change)| is_of(event, change));
        if is_same && events.len() == due.len() {
            return Ok(());
        }
        let count = |change: &KeyChange| events.iter().filter(|it| is_of(it, change)).count();
        if let Some(missing) = due.iter().find(|change| count(change) == 0) {
            let has_others = events.iter().any(|it| it.pair.mod_revision == missing.revision);
            let rule = match self.comes_later(missing.revision, known) {
                _ if has_others => WatchRule::Atomic,
                true => WatchRule::Ordered,
                false => self.or_resumable(WatchRule::Reliable),
            };
            let what =
                format!("missing is {missing:?} in {}; {}", shorten(&events), self.describe());
            return violation(rule, what);
        }
        let of_model = |event: &&Event| !due.iter().any(|change| is_of(event, change));
        let rule = match (events.iter().find(of_model), events.len() > due.len()) {
            (Some(_), _) => WatchRule::Content,
            (None, true) => WatchRule::Unique,
            (None, false) => WatchRule::Ordered,
        };
        violation(rule, format!("due are {}, and {} came", shorten(&due), shorten(&events)))
    }

    /// Whether an event of this revision comes later for this watch on this stream.
    fn comes_later(&self, revision: i64, known: Known<'_>) -> bool {
        let (stream, position) = known.stream;
        let steps = &stream.steps[position..];
        let Some((_, Step::Response(now))) = steps.first() else { return false };
        let of_same = steps[1..].iter().filter_map(|(_, step)| match step {
            Step::Response(it) if it.watch_id == now.watch_id => Some(it),
            _ => None,
        });
        let mut later = of_same.flat_map(|response| &response.events);
        later.any(|event| event.pair.mod_revision == revision)
    }

    fn check_one(
        &self,
        event: &Event,
        change: &KeyChange,
        newest: View,
    ) -> Result<(), WatchViolation> {
        let gone = KeyValue {
            key: change.key.clone(),
            mod_revision: change.revision,
            ..KeyValue::default()
        };
        if event.pair != *change.pair.as_ref().unwrap_or(&gone) {
            let what = format!("{} is shown for {change:?}", shorten(event));
            return violation(WatchRule::Content, what);
        }
        let is_compacted = change.revision - 1 < newest.compacted;
        let is_right = match &event.before {
            Some(before) => self.wanted.prev_kv && Some(before) == change.before.as_ref(),
            None => !self.wanted.prev_kv || change.before.is_none() || is_compacted,
        };
        match is_right {
            true => Ok(()),
            false => {
                let before = &change.before;
                violation(WatchRule::PrevKv, format!("{}, due is {before:?}", shorten(event)))
            }
        }
    }

    /// The rule that a gap or an old event breaks: `rule`, or for a resumed watch that has shown
    /// nothing yet [`WatchRule::Resumable`].
    fn or_resumable(&self, rule: WatchRule) -> WatchRule {
        if self.is_resumed && !self.has_shown { WatchRule::Resumable } else { rule }
    }

    /// A description of the watch, as text for people.
    pub fn describe(&self) -> String {
        let Watcher { line, wanted, start, next, .. } = self;
        format!("line {line} from {start}, next {next}, {wanted:?}")
    }
}

/// Whether an event belongs to a change of the model.
fn is_of(event: &Event, change: &KeyChange) -> bool {
    let place = (event.pair.mod_revision, &event.pair.key, event.is_delete);
    place == (change.revision, &change.key, change.pair.is_none())
}

/// Whether a compaction may have removed a change that a watch can still ask for. A compaction
/// keeps, for each key, the last change up to its revision; so a change may be gone if another
/// change of the same key follows in the same revision (`keyIndex.compact`).
fn may_be_gone(change: &KeyChange, model: &Model, compacted: i64) -> bool {
    let KeyChange { revision, sub, key, .. } = change;
    let is_later = |other: &KeyChange| other.sub > *sub;
    *revision <= compacted && model.changes(key, &[], *revision, *revision).iter().any(is_later)
}
