//! The judge of etcd's clients: their calls against the committed order, and the final state
//! against the model.

use etcd::convert::{Header, Response};
use machine::Machine;
use machine::etcd::command::{KeyRange, RangeOp};
use workload::etcd::history::{Answered, History};
use workload::etcd::op::{Error, Op, Range};
use workload::etcd::order::{Claimed, Verdict, judge};

use crate::etcd_clients::wire::{Served, decode};
use crate::witness::{EtcdOrder, Witness};

/// Judges the calls of a run whose members ended in the states `machines`. `may_refuse`: a disk was
/// full at some time.
///
/// # Errors
/// What no correct server would have done.
pub fn check_etcd(
    history: &History,
    witness: &Witness,
    machines: &[&Machine],
    may_refuse: bool,
) -> Result<Verdict, String> {
    let order = witness.etcd_order(history)?;
    let claim: Vec<Claimed> = order.iter().map(|(claimed, _)| *claimed).collect();
    check_acknowledgements(history, &order)?;
    let verdict = judge(history, &claim).map_err(|found| format!("etcd: {found}"))?;
    let for_space = |answered: &Answered| answered.answer == Err(Error::NoSpace);
    let refused = history.calls.iter().find(|it| it.answered.as_ref().is_some_and(for_space));
    if let Some(refused) = refused.filter(|_| !may_refuse) {
        return Err(format!(
            "{:?} was refused for want of space, and no disk was full",
            refused.id
        ));
    }
    machines.iter().try_for_each(|machine| compare(machine, &verdict))?;
    Ok(verdict)
}

/// No answer to a write reaches a client before syncs of a quorum cover its entry.
fn check_acknowledgements(history: &History, order: &EtcdOrder) -> Result<(), String> {
    for (claimed, handed_us) in order {
        let Claimed::Call(call) = claimed else { continue };
        let record = history.position(*call).map(|at| &history.calls[at]);
        let answered = record.and_then(|record| record.answered.as_ref());
        if let Some(Answered { moment, answer: Ok(_) }) = answered
            && moment.at_us < *handed_us
        {
            return Err(format!(
                "{call:?} was answered at {} us, syncs cover its entry since {handed_us} us",
                moment.at_us
            ));
        }
    }
    Ok(())
}

/// Checks that a member's keys, with all their numbers, and its revisions are those of the model.
fn compare(machine: &Machine, verdict: &Verdict) -> Result<(), String> {
    let (store, view) = (machine.etcd(), verdict.model.view());
    if (store.revision(), store.compacted()) != (view.revision, view.compacted) {
        let found = (store.revision(), store.compacted());
        return Err(format!("etcd's state is at {found:?}, the model at {view:?}"));
    }
    let all = RangeOp::of(KeyRange { key: &[0], end: &[0] });
    let found = store.range(&all).map_err(|refusal| format!("all keys: {refusal:?}"))?;
    let header = Header { cluster_id: 0, member_id: 0, raft_term: 0 };
    let response = Response::of_range(header, &found).to_vec();
    let asked = Op::Range(Range { key: vec![0], range_end: vec![0], ..Range::default() });
    let served = Served { cluster_id: 0, member_id: 0 };
    let (found, expected) =
        (decode(&asked, &Ok(response), served)?, verdict.model.answer_at(&asked, view));
    match found == expected {
        true => Ok(()),
        false => Err(format!("etcd's keys are {found:?}, the model has {expected:?}")),
    }
}
