//! Multis: several operations that take effect together or not at all.
//!
//! A multi applies its operations one after the other, so later ones see the effects of earlier
//! ones. If one is refused, the effects of those before it are undone in reverse order. A large
//! multi is applied, and undone, in several steps.

use crate::ids::SessionId;
use crate::zk::Zk;
use crate::zk::command::Op;
use crate::zk::pause::{Counting, Multi, Step};
use crate::zk::reply::{Outcome, Refusal};
use crate::zk::steps::Steps;
use crate::zk::txn::{Call, Txn};
use crate::zk::write::Operated;

/// When a multi has succeeded, this many of its undo records are freed at the cost of one znode of
/// the step.
const FREED_TOGETHER: usize = 16;

impl Zk {
    /// Starts a multi, or continues it from `begun`. `Err` holds what is left for the next step.
    pub(crate) fn multi(
        &mut self,
        call: Call<'_>,
        (session, ops): (SessionId, &[Op<'_>]),
        begun: Option<Box<Multi>>,
        step: &mut Step<'_>,
    ) -> Result<Result<Outcome, Refusal>, Box<Multi>> {
        let is_begun = begun.is_some();
        let mut multi = match begun {
            Some(multi) => multi,
            None => {
                self.consume_zxid(call.ordinal);
                if let Err(refusal) = self.check_owner(call.stamp, session) {
                    return Ok(Err(refusal));
                }
                Box::new(Multi::new(ops.len()))
            }
        };
        let before = step.changes.len();
        let mut apart = core::mem::take(&mut multi.changes);
        let changes = if is_begun { &mut apart } else { &mut *step.changes };
        let undo = Some(core::mem::take(&mut multi.undo));
        let mut txn = Txn { mark: self.mark(call.ordinal), changes, undo };
        let done = self.run_multi(call, (session, ops), &mut multi, &mut txn, &mut step.steps);
        multi.undo = txn.undo.unwrap_or_default();
        let Some(done) = done else {
            multi.changes = if is_begun { apart } else { step.changes.split_off(before) };
            return Err(multi);
        };
        let own = if is_begun { &mut apart } else { &mut *step.changes };
        if done.is_err() {
            own.truncate(if is_begun { 0 } else { before });
        }
        if is_begun {
            step.changes.append(apart);
        }
        Ok(done)
    }

    /// Applies operations, or undoes them after a refusal. `None` if the step's budget ran out
    /// before the multi is done.
    fn run_multi(
        &mut self,
        call: Call<'_>,
        (session, ops): (SessionId, &[Op<'_>]),
        multi: &mut Multi,
        txn: &mut Txn<'_>,
        steps: &mut Steps,
    ) -> Option<Result<Outcome, Refusal>> {
        if let Some(counting) = multi.counting.take() {
            self.count_in_multi(counting, multi, txn, steps)?;
        }
        while multi.refused.is_none()
            && let Some(op) = ops.get(multi.outcomes.len())
        {
            if !steps.take() {
                return None;
            }
            steps.handle_path(op.path().unwrap_or_default());
            steps.handle_bytes(op.content_bytes());
            match self.operate(call.stamp, session, op, txn) {
                Ok(Operated::Done(outcome)) => multi.outcomes.push(outcome),
                Ok(Operated::Counts(counting)) => {
                    self.count_in_multi(counting, multi, txn, steps)?;
                }
                Err(refusal) => multi.refused = Some((multi.outcomes.len(), refusal)),
            }
        }
        let undo = txn.undo.as_mut().expect("a multi can be undone");
        if multi.refused.is_some() {
            while !undo.is_empty() {
                if !steps.take() {
                    return None;
                }
                undo.pop().into_iter().for_each(|last| self.undo(last));
                multi.outcomes.pop();
            }
        }
        while undo.len() > FREED_TOGETHER {
            if !steps.take() {
                return None;
            }
            undo.truncate(undo.len() - FREED_TOGETHER);
        }
        Some(match multi.refused.take() {
            None => Ok(Outcome::Multi(core::mem::take(&mut multi.outcomes))),
            Some((position, refusal)) => {
                let refusal = Box::new(refusal);
                Err(Refusal::Multi { position, count: ops.len(), refusal })
            }
        })
    }

    /// Continues a create of the multi that counts a subtree. `None` if the step's budget ran out
    /// before the count is done.
    fn count_in_multi(
        &mut self,
        counting: Box<Counting>,
        multi: &mut Multi,
        txn: &mut Txn<'_>,
        steps: &mut Steps,
    ) -> Option<()> {
        match self.finish_create(counting, txn, steps) {
            Ok(outcome) => multi.outcomes.push(outcome),
            Err(counting) => {
                multi.counting = Some(counting);
                return None;
            }
        }
        Some(())
    }
}
