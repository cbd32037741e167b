//! The findings that a judge reports, and the checks on a single call that both judges share.

use crate::etcd::form::check;
use crate::etcd::history::{CallId, CallRecord};
use crate::etcd::op::{Answer, Error, Fate};

/// The promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The claim has only what clients sent, once.
    Claim,
    /// A call took effect, or did not, as its client was told.
    Fate,
    /// Acknowledged writes have the model's answer.
    Answer,
    /// The checks before the log refuse what they must, and nothing else.
    Form,
    /// A call sees everything that was answered before it began.
    RealTime,
    /// Serializable reads of one connection never go back.
    Connection,
    /// Reads have the model's answer.
    Read,
    /// Each revision is that of one write.
    Revision,
    /// A lease ends not before its time, and questions about it are answered right.
    Lease,
    /// While a client holds a lock, no other client does.
    Alone,
    /// Clients come to hold a lock in the order in which their keys were created.
    Turns,
    /// Writes that a lock guards are those of one holder after the other.
    Fence,
    /// Nobody is shown an older leader behind a newer one.
    Leaders,
}

/// A promise that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?}: {what}")]
pub struct Violation {
    /// The rule that is broken.
    pub rule: Rule,
    /// The finding: something that no correct server does.
    pub what: String,
}

/// Reports a finding about a call.
pub(super) fn violation<T>(rule: Rule, what: &str, record: &CallRecord) -> Result<T, Violation> {
    Err(Violation { rule, what: format!("{what}: {}", describe(record)) })
}

/// The fate that an answer tells of.
pub(super) fn fate_of(answer: &Answer) -> Fate {
    answer.as_ref().map_or_else(|error| error.fate(), |_| Fate::Judged)
}

/// Checks that an answer is an error of the checks before the log if and only if one of them
/// fails. Returns whether the store judged the call.
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

/// A call in words.
pub(super) fn describe(record: &CallRecord) -> String {
    let CallId { client, number } = record.id;
    let end = match &record.answered {
        None => "no answer".to_string(),
        Some(answered) => shorten(&answered.answer),
    };
    let (connection, op) = (record.connection, shorten(&record.op));
    format!("call {number} of client {client} on connection {connection} ({op}; {end})")
}

/// Shortens large values, which do not help a reader.
pub(super) fn shorten(what: &impl core::fmt::Debug) -> String {
    const CHARACTERS_MAX: usize = 600;
    let text = format!("{what:?}");
    match text.char_indices().nth(CHARACTERS_MAX) {
        None => text,
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}
