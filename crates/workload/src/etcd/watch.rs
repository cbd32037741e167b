//! The watch streams of clients: what was asked for and what came, in order, and the judge of it.
//!
//! A client resumes a watch whose stream broke: each *line* is one watch of a client over all
//! streams on which it was resumed.

mod judge;
mod watcher;

pub use judge::{OpenWatch, Timeline, WatchVerdict, judge_watches};

use crate::etcd::op::{Error, KeyValue};
use crate::history::Moment;

/// The `watch_id` of a message that is for all watches of its stream, or for none.
pub const NO_WATCH_ID: i64 = -1;

/// A request to create a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The first key.
    pub key: Vec<u8>,
    /// The end of the range, as in a read.
    pub range_end: Vec<u8>,
    /// The first revision; 0: the next one.
    pub start: i64,
    /// Whether events show the pair before them.
    pub prev_kv: bool,
    /// Whether puts are left out.
    pub no_put: bool,
    /// Whether deletes are left out.
    pub no_delete: bool,
    /// Whether a response may come in several messages.
    pub fragment: bool,
    /// Whether the server says now and then how far it is.
    pub progress_notify: bool,
    /// The number that the client gives it; 0: the server gives it one.
    pub id: i64,
}

impl Wanted {
    /// Whether no key is in the range.
    pub fn is_empty(&self) -> bool {
        !matches!(self.range_end.as_slice(), [] | [0]) && self.key >= self.range_end
    }

    /// Whether the watch wants an event of this kind.
    pub fn admits(&self, is_delete: bool) -> bool {
        if is_delete { !self.no_delete } else { !self.no_put }
    }
}

/// Something that happened to a key, as a client is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether the key was deleted. Then the pair has only the key and the revision.
    pub is_delete: bool,
    /// The pair.
    pub pair: KeyValue,
    /// The pair before.
    pub before: Option<KeyValue>,
}

/// A message of a server on a watch stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The revision in its header.
    pub revision: i64,
    /// The watch.
    pub watch_id: i64,
    /// Whether it answers the request to create the watch.
    pub is_created: bool,
    /// Whether the watch has ended.
    pub is_canceled: bool,
    /// The compacted revision, if the watch ended because of it; else 0.
    pub compact_revision: i64,
    /// Why the watch was not created, or has ended.
    pub reason: String,
    /// Whether the next message of the watch has more events of the same response.
    pub is_fragment: bool,
    /// The events.
    pub events: Vec<Event>,
}

impl Response {
    /// Whether it only tells of progress.
    pub fn is_progress(&self) -> bool {
        !self.is_created && !self.is_canceled && !self.is_fragment && self.events.is_empty()
    }
}

/// Something that a client sent or received on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It asks for a watch.
    Create {
        /// The number of the line.
        line: usize,
        /// The request.
        wanted: Wanted,
    },
    /// It wants this watch no longer.
    Cancel(i64),
    /// It asks how far all its watches are.
    AskProgress,
    /// The server sent this.
    Response(Response),
    /// The server ended the stream.
    Ended(Error),
    /// The client left the stream, or its connection is over.
    Left,
}

/// One stream.
#[derive(Clone, Debug)]
pub struct StreamRecord {
    /// The number of its connection.
    pub connection: usize,
    /// Whether it is to end when its member has no leader.
    pub requires_leader: bool,
    /// When it was opened.
    pub opened: Moment,
    /// The messages in both directions, in order.
    pub steps: Vec<(Moment, Step)>,
}

impl StreamRecord {
    /// When it ended, if it did.
    pub fn ended(&self) -> Option<(Moment, &Step)> {
        let last = self.steps.last()?;
        matches!(last.1, Step::Ended(_) | Step::Left).then_some((last.0, &last.1))
    }
}

/// The promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchRule {
    /// A watch shows nothing before its start.
    Bookmarkable,
    /// Events come in the order of revisions, and within one in the order of its changes.
    Ordered,
    /// An event comes once.
    Unique,
    /// All events of a revision come in one response.
    Atomic,
    /// No event is missing between others.
    Reliable,
    /// A watch that is resumed goes on without a gap and without events that it has shown.
    Resumable,
    /// The pair before is the model's, or is missing where it is compacted.
    PrevKv,
    /// Only events come that the watch wants.
    Filtered,
    /// An event is the model's.
    Content,
    /// A promise of progress comes behind all events that it covers.
    Progress,
    /// A header's revision is committed, and not below the events beside it.
    Header,
    /// A watch ends as compacted only where a compaction passed what it needs.
    Compacted,
    /// Each request is answered once, in order, before anything else of its watch.
    Created,
}

/// A promise that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("watch: {rule:?}: {what}")]
pub struct WatchViolation {
    /// The rule that is broken.
    pub rule: WatchRule,
    /// The finding: something that no correct server does.
    pub what: String,
}

#[cfg(test)]
mod tests;
