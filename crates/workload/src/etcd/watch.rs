//! Records the watch streams of clients: what each client asked for and received, in order. The
//! module `judge` judges these records.
//!
//! If the stream of a watch breaks, its client resumes the watch on another stream. A *line* is one
//! watch of a client over all the streams on which it was resumed.

mod judge;
mod watcher;

pub use judge::{OpenWatch, Timeline, WatchVerdict, judge_watches};

use crate::etcd::op::{Error, KeyValue};
use crate::history::Moment;

/// The `watch_id` of a message for all watches of its stream, or for no watch.
pub const NO_WATCH_ID: i64 = -1;

/// A request to create a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The first key.
    pub key: Vec<u8>,
    /// The end of the range, as in a read.
    pub range_end: Vec<u8>,
    /// The first revision to show; 0 for the next one.
    pub start: i64,
    /// Whether events must show the previous pair.
    pub prev_kv: bool,
    /// Whether events of puts are filtered out.
    pub no_put: bool,
    /// Whether events of deletes are filtered out.
    pub no_delete: bool,
    /// Whether a response may be split into several messages.
    pub fragment: bool,
    /// Whether the server must send notices of progress from time to time.
    pub progress_notify: bool,
    /// The watch id that the client chooses; 0 if the server must choose.
    pub id: i64,
}

impl Wanted {
    /// Whether the range contains no key.
    pub fn is_empty(&self) -> bool {
        !matches!(self.range_end.as_slice(), [] | [0]) && self.key >= self.range_end
    }

    /// Whether the filters let an event of this kind pass.
    pub fn admits(&self, is_delete: bool) -> bool {
        if is_delete { !self.no_delete } else { !self.no_put }
    }
}

/// A change of a key, as a client is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether the key was deleted. If so, the pair has only the key and the revision.
    pub is_delete: bool,
    /// The pair after the change.
    pub pair: KeyValue,
    /// The pair before the change, if it was asked for and is known.
    pub before: Option<KeyValue>,
}

/// A message of a server on a watch stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The revision in the header of the message.
    pub revision: i64,
    /// The id of the watch, or [`NO_WATCH_ID`].
    pub watch_id: i64,
    /// Whether the message answers the request to create the watch.
    pub is_created: bool,
    /// Whether the watch has ended.
    pub is_canceled: bool,
    /// The compacted revision that ended the watch; otherwise 0.
    pub compact_revision: i64,
    /// Why the watch was refused or has ended; otherwise empty.
    pub reason: String,
    /// Whether the next message of the watch continues this response.
    pub is_fragment: bool,
    /// The events.
    pub events: Vec<Event>,
}

impl Response {
    /// Whether the message is only a notice of progress.
    pub fn is_progress(&self) -> bool {
        !self.is_created && !self.is_canceled && !self.is_fragment && self.events.is_empty()
    }
}

/// An event on a watch stream, seen by its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The client asks for a watch.
    Create {
        /// The number of the line.
        line: usize,
        /// The request.
        wanted: Wanted,
    },
    /// The client cancels the watch with this id.
    Cancel(i64),
    /// The client asks for a notice of progress about all watches.
    AskProgress,
    /// A message of the server arrived.
    Response(Response),
    /// The server ended the stream.
    Ended(Error),
    /// The client left the stream, or its connection ended.
    Left,
}

/// The record of a watch stream.
#[derive(Clone, Debug)]
pub struct StreamRecord {
    /// The number of the connection.
    pub connection: usize,
    /// Whether the stream must end when its member has no leader.
    pub requires_leader: bool,
    /// When the stream was opened.
    pub opened: Moment,
    /// The messages in both directions, in order.
    pub steps: Vec<(Moment, Step)>,
}

impl StreamRecord {
    /// When and how the stream ended; `None` if it has not.
    pub fn ended(&self) -> Option<(Moment, &Step)> {
        let last = self.steps.last()?;
        matches!(last.1, Step::Ended(_) | Step::Left).then_some((last.0, &last.1))
    }
}

/// The promise about watches that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchRule {
    /// A watch shows nothing before its start.
    Bookmarkable,
    /// Events come in the order of revisions, and within a revision in the order of its changes.
    Ordered,
    /// No event comes twice.
    Unique,
    /// All events of a revision come in one response.
    Atomic,
    /// No event is missing between others.
    Reliable,
    /// A resumed watch continues without a gap, and repeats no event that it has shown.
    Resumable,
    /// The previous pair is the model's, or is missing because it is compacted.
    PrevKv,
    /// Only events that the watch asked for come.
    Filtered,
    /// An event is the model's change.
    Content,
    /// A notice of progress comes after all events that it covers.
    Progress,
    /// A header's revision is committed, and not below the events in the message.
    Header,
    /// A watch ends as compacted only if a compaction passed a revision that it needs.
    Compacted,
    /// Each request for a watch is answered once, in order, before other messages of that watch.
    Created,
}

/// A broken promise about watches, with its details.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("watch: {rule:?}: {what}")]
pub struct WatchViolation {
    /// The promise that is broken.
    pub rule: WatchRule,
    /// A description of what happened, for people.
    pub what: String,
}

#[cfg(test)]
mod tests;
