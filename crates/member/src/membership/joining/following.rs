//! Moves the votes of the Raft membership to the voters of an accepted change's next list.
//!
//! One joint change gives votes to the learners that have caught up, and takes the votes of the
//! members that leave; those stay as learners until the change has finished, since a survivor may
//! still need their answers. A vote is taken only if the voters that remain, present and caught up,
//! are a majority of the voters of the next list. Otherwise one lost disk could be all that there
//! is.

use std::collections::BTreeSet;

use machine::control::list_change::OpenChange;
use machine::{Command, ControlCommand, ServerList, ServerRole};
use replica::{MemberChange, Transition};

use super::{
    BrokenRule, JoinStep, JoinView, absent_server, change, hand_over, has_caught_up, server_of,
};
use crate::membership::limits::CHANGE_PATIENCE_MS;

/// The votes that an accepted change moves.
struct Votes {
    /// Learners that have caught up, one for each voter of the next list that has no vote.
    gaining: Vec<u64>,
    /// Voters whose server does not vote by the next list.
    leaving: Vec<u64>,
}

/// The next step of an accepted change, which this leader has pursued for `pursued_ms`.
pub(super) fn step(view: &JoinView<'_>, open: &OpenChange, pursued_ms: u64) -> Option<JoinStep> {
    let submit = |command| Some(JoinStep::Submit(Command::Control(command)));
    let votes = Votes::new(view, &open.next);
    if votes.gaining.is_empty() && votes.leaving.is_empty() {
        return submit(ControlCommand::Finish(open.id));
    }
    if !votes.leaving.is_empty() && !votes.leave_majority(view, &open.next) {
        let may_give_up = pursued_ms >= CHANGE_PATIENCE_MS && !has_moved(view, open);
        return may_give_up.then(|| submit(ControlCommand::GiveUp(open.id))).flatten();
    }
    let gaining = || votes.gaining.iter().map(|member| MemberChange::AddVoter(*member));
    if votes.leaving.contains(&view.servers.own.0.0) {
        // A leader does not take its own vote. If no other voter can lead, there must be one first.
        let successors = votes.successors(view);
        return match successors.is_empty() {
            true if votes.gaining.is_empty() => None,
            true => Some(JoinStep::Change(change(Transition::JointExplicit, gaining().collect()))),
            false => hand_over(successors),
        };
    }
    let demotes = view.broken != Some(BrokenRule::Demotion);
    let leaving = votes.leaving.iter().map(|member| match absent_server(*member) {
        None if demotes => MemberChange::AddLearner(*member),
        _ => MemberChange::Remove(*member),
    });
    let changes = gaining().chain(leaving).collect();
    Some(JoinStep::Change(change(Transition::JointExplicit, changes)))
}

/// Whether the server with this number votes by the list.
fn votes_in(list: &ServerList, number: u64) -> bool {
    list.servers.get(&number).is_some_and(|record| record.role == ServerRole::Voter)
}

/// The number of the server of a voter or learner, placeholders included.
fn number_of(view: &JoinView<'_>, member: u64) -> Option<u64> {
    absent_server(member).or_else(|| server_of(view, member))
}

/// Whether the votes have begun to move: a voter votes only by the next list, or a voter of the old
/// list was made a learner.
fn has_moved(view: &JoinView<'_>, open: &OpenChange) -> bool {
    let old = view.servers.registered.list();
    let is_between = |member: &u64, from: &ServerList, to: &ServerList| {
        number_of(view, *member).is_some_and(|it| votes_in(from, it) && !votes_in(to, it))
    };
    view.membership.voters.iter().any(|voter| is_between(voter, &open.next, old))
        || view.membership.learners.iter().any(|learner| is_between(learner, old, &open.next))
}

impl Votes {
    fn new(view: &JoinView<'_>, next: &ServerList) -> Votes {
        let membership = view.membership;
        let is_leaving =
            |voter: &u64| number_of(view, *voter).is_some_and(|number| !votes_in(next, number));
        let leaving = membership.voters.iter().copied().filter(is_leaving).collect();
        let voting = membership.voters.iter().filter_map(|voter| number_of(view, *voter));
        let mut with_vote: BTreeSet<u64> = voting.collect();
        let gains = |learner: &u64| {
            let number = server_of(view, *learner).filter(|number| votes_in(next, *number));
            number.is_some_and(|number| has_caught_up(view, *learner) && with_vote.insert(number))
        };
        let gaining = membership.learners.iter().copied().filter(gains).collect();
        Votes { gaining, leaving }
    }

    /// Whether the voters after the change that are present and caught up are a majority of the
    /// voters of the next list.
    fn leave_majority(&self, view: &JoinView<'_>, next: &ServerList) -> bool {
        let staying = view.membership.voters.iter().filter(|voter| !self.leaving.contains(voter));
        let present = staying.chain(&self.gaining).filter(|voter| has_caught_up(view, **voter));
        present.count() > next.voter_count() / 2
    }

    /// The voters that stay and could lead at once, other than this leader.
    fn successors(&self, view: &JoinView<'_>) -> Vec<u64> {
        let own = view.servers.own.0.0;
        let may_lead = |voter: &u64| {
            *voter != own && !self.leaving.contains(voter) && has_caught_up(view, *voter)
        };
        view.membership.voters.iter().copied().filter(may_lead).collect()
    }
}
