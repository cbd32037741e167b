//! What the judges of etcd's calls report, and the checks on single calls that the two judges
//! [`crate::etcd::order`] and [`crate::etcd::linear`] share.

use crate::etcd::form::check;
use crate::etcd::history::{CallId, CallRecord};
use crate::etcd::op::{Answer, Error, Fate};

/// The promise to clients that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The committed order has only what clients sent, each at most once.
    Claim,
    /// A call took effect if its answer says so, and did not if its answer excludes that.
    Fate,
    /// An acknowledged write has the model's answer.
    Answer,
    /// The checks before the log refuse what they must, and nothing else.
    Form,
    /// A call sees everything that was answered before the call was sent.
    RealTime,
    /// Serializable reads of one connection never show an older state than before.
    Connection,
    /// A read has the model's answer.
    Read,
    /// Each revision belongs to one write.
    Revision,
    /// A lease does not end early, and answers about it are right.
    Lease,
    /// Only one client holds a lock at a time.
    Alone,
    /// Clients get a lock in the order in which their keys were created.
    Turns,
    /// Writes guarded by a lock come from one holder after the other.
    Fence,
    /// No client is shown an older leader after a newer one.
    Leaders,
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

/// Reports a broken promise about a call.
pub(super) fn violation<T>(rule: Rule, what: &str, record: &CallRecord) -> Result<T, Violation> {
    Err(Violation { rule, what: format!("{what}: {}", describe(record)) })
}

/// The fate that an answer implies.
pub(super) fn fate_of(answer: &Answer) -> Fate {
    answer.as_ref().map_or_else(|error| error.fate(), |_| Fate::Judged)
}

/// Checks that an answer is an error of the checks before the log if and only if one of these
/// checks fails. Returns whether the store itself answered the call.
pub(super) fn check_form(record: &CallRecord, answer: &Answer) -> Result<bool, Violation> {
    if fate_of(answer) != Fate::Judged || *answer == Err(Error::NoSpace) {
        return Ok(false);
    }
    match (check(&record.op), answer) {
        (Err(due), answer) if *answer != Err(due) => {
            violation(Rule::Form, &format!("{due:?} is due"), record)
        }
        (Err(_), _) => Ok(false),
        (
            Ok(()),
            Err(
                Error::EmptyKey
                | Error::ValueProvided
                | Error::LeaseProvided
                | Error::DuplicateKey
                | Error::TooManyOps,
            ),
        ) => violation(Rule::Form, "it was refused without a reason", record),
        (Ok(()), _) => Ok(true),
    }
}

/// A description of a call, as text for people.
pub(super) fn describe(record: &CallRecord) -> String {
    let CallId { client, number } = record.id;
    let end = match &record.answered {
        None => "no answer".to_string(),
        Some(answered) => shorten(&answered.answer),
    };
    let (connection, op) = (record.connection, shorten(&record.op));
    format!("call {number} of client {client} on connection {connection} ({op}; {end})")
}

/// Formats a value and cuts the text off if it is long.
pub(super) fn shorten(what: &impl core::fmt::Debug) -> String {
    const CHARACTERS_MAX: usize = 600;
    let text = format!("{what:?}");
    match text.char_indices().nth(CHARACTERS_MAX) {
        None => text,
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}
