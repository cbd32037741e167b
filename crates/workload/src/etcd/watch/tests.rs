//! Streams that the judge must reject, each by its own rule, and one that it must accept.

use std::collections::BTreeSet;

use super::*;
use crate::etcd::history::History;
use crate::etcd::model::{Model, View};
use crate::etcd::op::{Compact, DeleteRange, Op, Put, Txn, TxnOp};

/// A history with its model: revision 2 puts a, 3 puts a and b, 4 deletes a, 5 puts a.
struct Play {
    history: History,
    model: Model,
    timeline: Timeline,
    stream: usize,
}

fn put(key: &str, value: &str) -> Put {
    Put { key: key.into(), value: value.into(), ..Put::default() }
}

impl Play {
    fn new() -> Play {
        let mut history = History::default();
        let connection = history.connect(0, 0);
        let model = Model::new();
        let (views, unordered) = (vec![model.view()], BTreeSet::new());
        let timeline = Timeline { asked: vec![0], views, unordered };
        let stream = history.open_stream(connection, false, 0);
        let mut play = Play { history, model, timeline, stream };
        let both = [TxnOp::Put(put("a", "2")), TxnOp::Put(put("b", "1"))];
        play.apply(&Op::Put(put("a", "1")));
        play.apply(&Op::Txn(Txn { success: both.to_vec(), ..Txn::default() }));
        play.apply(&Op::DeleteRange(DeleteRange { key: b"a".to_vec(), ..DeleteRange::default() }));
        play.apply(&Op::Put(put("a", "3")));
        play
    }

    fn apply(&mut self, op: &Op) {
        self.model.apply(op).expect("it can be done");
        self.timeline.asked.push(0);
        self.timeline.views.push(self.model.view());
    }

    fn compact(mut self, revision: i64) -> Play {
        self.apply(&Op::Compact(Compact { revision, physical: false }));
        self
    }

    fn step(mut self, step: Step) -> Play {
        self.history.note_watch(self.stream, step, 0);
        self
    }

    /// Asks for a watch of all keys, as line 0.
    fn create(self, wanted: Wanted) -> Play {
        let (key, range_end) = (vec![0], vec![0]);
        self.step(Step::Create { line: 0, wanted: Wanted { key, range_end, ..wanted } })
    }

    fn created(self, watch_id: i64) -> Play {
        self.says(Response { watch_id, is_created: true, revision: 5, ..Response::default() })
    }

    /// A watch of all keys from this revision on.
    fn from(start: i64) -> Play {
        Play::new().create(Wanted { start, ..Wanted::default() }).created(0)
    }

    fn says(self, response: Response) -> Play {
        self.step(Step::Response(response))
    }

    /// The model's events at these revisions, without previous pairs.
    fn events(&self, from: i64, until: i64) -> Vec<Event> {
        let changes = self.model.changes(&[0], &[0], from, until);
        let event = |change: crate::etcd::model::KeyChange| {
            let (key, mod_revision) = (change.key.clone(), change.revision);
            let gone = KeyValue { key, mod_revision, ..KeyValue::default() };
            let is_delete = change.pair.is_none();
            Event { is_delete, pair: change.pair.unwrap_or(gone), before: None }
        };
        changes.into_iter().map(event).collect()
    }

    fn shows(self, events: Vec<Event>) -> Play {
        self.says(Response { events, revision: 5, ..Response::default() })
    }

    fn shows_all(self, from: i64, until: i64) -> Play {
        let events = self.events(from, until);
        self.shows(events)
    }

    fn promises(self, watch_id: i64, revision: i64) -> Play {
        self.says(Response { watch_id, revision, ..Response::default() })
    }

    /// Ends the stream and opens another one of the same client.
    fn again(self) -> Play {
        let mut play = self.step(Step::Left);
        play.stream = play.history.open_stream(0, false, 0);
        play
    }

    fn judge(&self) -> Result<WatchVerdict, WatchViolation> {
        judge_watches(&self.history, &self.model, &self.timeline)
    }

    fn breaks(&self, rule: WatchRule) {
        let found = self.judge().map(|_| ()).map_err(|found| found.rule);
        assert_eq!(found, Err(rule), "{:?}", self.judge());
    }

    fn holds(&self) -> WatchVerdict {
        self.judge().unwrap_or_else(|found| panic!("{found}"))
    }
}

#[test]
fn a_watch_that_shows_everything_is_accepted() {
    let play = Play::from(2).shows_all(2, 3).promises(NO_WATCH_ID, 3).again();
    let play = play.create(Wanted { start: 4, ..Wanted::default() }).created(0);
    let verdict = play.shows_all(4, 5).promises(0, 5).holds();
    assert_eq!((verdict.created_count, verdict.resumed_count, verdict.event_count), (2, 1, 5));
    assert!(verdict.open.iter().all(|open| open.missing.is_none()));
}

#[test]
fn what_is_not_shown_in_the_end_is_told() {
    let missing = |play: Play| play.holds().open.into_iter().find_map(|open| open.missing);
    assert!(missing(Play::from(2).shows_all(2, 4)).is_some());
    assert!(missing(Play::new().create(Wanted::default())).is_some());
    assert!(missing(Play::from(2).shows_all(2, 4).step(Step::Left)).is_none());
}

#[test]
fn events_in_the_wrong_places_are_rejected() {
    Play::from(4).shows_all(3, 5).breaks(WatchRule::Bookmarkable);
    Play::from(2).shows_all(3, 5).breaks(WatchRule::Reliable);
    Play::from(2).shows_all(2, 2).shows_all(4, 5).breaks(WatchRule::Reliable);
    Play::from(2).shows_all(2, 3).shows_all(3, 5).breaks(WatchRule::Unique);
    Play::from(2).shows_all(4, 5).shows_all(2, 3).breaks(WatchRule::Ordered);
    let mut events = Play::from(2).events(2, 5);
    events.swap(1, 2);
    Play::from(2).shows(events.clone()).breaks(WatchRule::Ordered);
    events.swap(1, 2);
    let twice = vec![events[0].clone(), events[0].clone()];
    Play::from(2).shows(twice).breaks(WatchRule::Unique);
    Play::from(2).shows(events[..2].to_vec()).shows(events[2..].to_vec()).breaks(WatchRule::Atomic);
    events[0].pair.value = b"another".to_vec();
    Play::from(2).shows(events).breaks(WatchRule::Content);
}

#[test]
fn the_order_within_a_revision_is_judged_where_it_is_known() {
    let swapped = |unordered: Option<i64>| {
        let mut play = Play::from(3);
        play.timeline.unordered.extend(unordered);
        let mut events = play.events(3, 4);
        events.swap(0, 1);
        play.shows(events)
    };
    swapped(Some(3)).holds();
    swapped(Some(4)).breaks(WatchRule::Ordered);
    swapped(None).breaks(WatchRule::Ordered);
}

#[test]
fn a_watch_that_is_resumed_wrongly_is_rejected() {
    let left = || Play::from(2).shows_all(2, 3).again();
    let resumed = |start| left().create(Wanted { start, ..Wanted::default() }).created(0);
    resumed(4).shows_all(4, 5).holds();
    resumed(4).shows_all(5, 5).breaks(WatchRule::Resumable);
    resumed(3).breaks(WatchRule::Resumable);
}

#[test]
fn a_promise_beside_events_that_it_covers_is_rejected() {
    for watch_id in [0, NO_WATCH_ID] {
        Play::from(2).shows_all(2, 3).promises(watch_id, 3).holds();
        Play::from(2).shows_all(2, 3).promises(watch_id, 4).breaks(WatchRule::Progress);
        Play::from(2).shows_all(2, 5).promises(watch_id, 6).breaks(WatchRule::Progress);
    }
}

#[test]
fn fragments_are_one_response_and_only_come_where_they_are_asked_for() {
    let part = |play: Play, fragment| {
        let events = play.events(3, 3);
        let (one, other) = (vec![events[0].clone()], vec![events[1].clone()]);
        let wanted = Wanted { start: 3, fragment, ..Wanted::default() };
        let is_fragment = true;
        let response = Response { events: one, is_fragment, revision: 5, ..Response::default() };
        play.create(wanted).created(0).says(response).shows(other)
    };
    assert_eq!(part(Play::new(), true).holds().fragmented_count, 1);
    part(Play::new(), false).breaks(WatchRule::Atomic);
}

#[test]
fn the_pair_before_is_missing_only_where_it_is_compacted() {
    let play = |revision| {
        let wanted = Wanted { start: 4, prev_kv: true, ..Wanted::default() };
        Play::new().compact(revision).create(wanted).created(0).shows_all(4, 5)
    };
    play(4).holds();
    play(3).breaks(WatchRule::PrevKv);
}

#[test]
fn an_event_that_a_filter_leaves_out_is_rejected() {
    let play = || Play::new().create(Wanted { start: 4, no_delete: true, ..Wanted::default() });
    play().created(0).shows_all(5, 5).holds();
    play().created(0).shows_all(4, 5).breaks(WatchRule::Filtered);
}

#[test]
fn a_header_has_a_revision_that_was_committed_and_covers_the_events() {
    let header = |revision| {
        let play = Play::from(2);
        let events = play.events(2, 5);
        play.says(Response { events, revision, ..Response::default() })
    };
    header(5).holds();
    header(4).breaks(WatchRule::Header);
    header(6).breaks(WatchRule::Header);
}

#[test]
fn a_watch_ends_as_compacted_only_if_it_needs_what_is_compacted() {
    let ends = |play: Play, compact_revision| {
        play.says(Response { is_canceled: true, compact_revision, ..Response::default() })
    };
    ends(Play::from(2).compact(3), 3).holds();
    ends(Play::from(2).shows_all(2, 2).compact(3), 3).breaks(WatchRule::Compacted);
    ends(Play::from(2), 3).breaks(WatchRule::Compacted);
    ends(Play::from(2).compact(3), 4).breaks(WatchRule::Compacted);
}

#[test]
fn each_request_is_answered_once_and_first() {
    Play::from(2).created(1).breaks(WatchRule::Created);
    Play::new().shows_all(2, 5).breaks(WatchRule::Created);
    let create = |id| Play::new().create(Wanted { start: 2, id, ..Wanted::default() });
    create(7).created(7).holds();
    create(7).created(0).breaks(WatchRule::Created);
    let refused = || Response {
        watch_id: NO_WATCH_ID,
        is_created: true,
        is_canceled: true,
        reason: "a reason".to_string(),
        ..Response::default()
    };
    create(0).says(refused()).breaks(WatchRule::Created);
    let is_before_all = Wanted { start: -1, ..Wanted::default() };
    Play::new().create(is_before_all).says(refused()).holds();
    let ends = Response { is_canceled: true, revision: 5, ..Response::default() };
    Play::from(2).says(ends.clone()).breaks(WatchRule::Created);
    Play::from(2).step(Step::Cancel(0)).says(ends).holds();
}

#[test]
fn a_message_shows_no_command_that_was_sent_later() {
    let mut play = Play::from(2).shows_all(2, 5);
    play.timeline.asked[4] = u64::MAX;
    play.breaks(WatchRule::Header);
    assert_eq!(play.timeline.newest_before(1), View { revision: 4, compacted: -1 });
    assert_eq!(play.timeline.command_of(5), Some(3));
}

/// Revision 6 puts b and deletes it, so a watch has two events. If revision 6 was compacted, the
/// server may have only the delete left.
#[test]
fn of_the_compacted_revision_only_the_last_change_of_a_key_must_be_shown() {
    let play = |compacted: Option<i64>| {
        let delete =
            DeleteRange { key: b"b".to_vec(), range_end: vec![0], ..DeleteRange::default() };
        let success = vec![TxnOp::Put(put("b", "2")), TxnOp::DeleteRange(delete)];
        let mut play = Play::new();
        play.apply(&Op::Txn(Txn { success, ..Txn::default() }));
        let play = compacted.into_iter().fold(play, Play::compact);
        let events = play.events(6, 6)[1..].to_vec();
        let play = play.create(Wanted { start: 6, ..Wanted::default() }).created(0);
        play.says(Response { events, revision: 6, ..Response::default() })
    };
    play(Some(6)).holds();
    play(Some(5)).breaks(WatchRule::Atomic);
    play(None).breaks(WatchRule::Atomic);
}
