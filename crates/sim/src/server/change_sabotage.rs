//! Deliberate mistakes with changes of the members, which the judges must notice.

use machine::entry::{BatchBuilder, encode_identities};
use machine::{Command, ConnectionId, ControlCommand, Level, Machine};
use member::BrokenRule;
use member::message::{FrontId, LoopInput, Submission, Ticket, ToLoop};

use crate::etcd_clients::network::SentResult;

/// A deliberate mistake with changes of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeSabotage {
    /// A change is answered as done when it is handed to Loop.
    AnsweredAtRequest,
    /// A change is answered as refused when it is handed to Loop.
    RefusedAtRequest,
    /// A leader logs that an accepted change has finished before it has moved any vote.
    FinishedBeforeVotesMoved,
    /// A member that was removed does not end.
    RemovalIgnored,
    /// Loop breaks a rule.
    Broken(BrokenRule),
}

/// For a sabotage of answers, answers the changes that a Front hands to Loop.
pub(super) fn forge_answers(
    sabotage: ChangeSabotage,
    to_loop: &[ToLoop],
    results: &mut Vec<(Ticket, SentResult)>,
) {
    let result: SentResult = match sabotage {
        // A response without a list of members.
        ChangeSabotage::AnsweredAtRequest => Ok(Vec::new()),
        ChangeSabotage::RefusedAtRequest => Err(etcd::Error::MemberNotFound.into()),
        _ => return,
    };
    for message in to_loop {
        let ToLoop::Submit(submission) = message else { continue };
        if submission.batch.level >= Level::MEMBERS && submission.waiters.len() == 1 {
            results.push((submission.waiters[0].ticket, result.clone()));
        }
    }
}

/// The command that finishes the accepted change of a leader's state; `None` if there is none.
pub(super) fn forged_finish(machine: &Machine) -> Option<LoopInput> {
    let open = machine.control().servers().open_change().filter(|open| open.is_accepted)?;
    submitted(ConnectionId(0), ControlCommand::Finish(open.id))
}

/// A command of this connection that is handed to Loop, and for whose outcome nobody waits. `None`
/// if it is too large.
pub(super) fn submitted(connection: ConnectionId, command: ControlCommand) -> Option<LoopInput> {
    let nobody = encode_identities([].into_iter());
    let mut batch = BatchBuilder::default();
    batch.push(connection, &nobody, &Command::Control(command)).ok()?;
    let (batch, waiters) = (batch.finish(), Vec::new());
    Some(LoopInput::Front(ToLoop::Submit(Submission { front: FrontId(0), batch, waiters })))
}
