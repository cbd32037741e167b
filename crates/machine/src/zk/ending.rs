//! Ends sessions and removes their ephemerals, in steps.
//!
//! The ephemerals are removed in the order of their paths, which is equal on every member. The
//! first steps only look at the paths, collect the ephemerals and sort them, which changes no
//! state. The transaction starts with the first removal.

use core::ops::Bound;

use crate::ids::{Ordinal, SessionId};
use crate::zk::Zk;
use crate::zk::change::Change;
use crate::zk::pause::{Ending, EndingAt, Expiry, Step};
use crate::zk::reply::{Outcome, Refusal};
use crate::zk::steps::Steps;
use crate::zk::txn::{Call, Txn};

impl Zk {
    /// Does one step of closing a session, at its client's request. `begun` holds the progress of
    /// earlier steps. `Err` holds what is left for the next step.
    pub(crate) fn close_session(
        &mut self,
        call: Call<'_>,
        session: SessionId,
        begun: Option<Box<Ending>>,
        step: &mut Step<'_>,
    ) -> Result<Result<Outcome, Refusal>, Box<Ending>> {
        let mut ending = match begun {
            Some(ending) => ending,
            None => {
                if let Err(refusal) = self.check_owner(call.stamp, session) {
                    self.consume_zxid(call.ordinal);
                    return Ok(Err(refusal));
                }
                Box::new(Ending::new(session))
            }
        };
        match self.end_session(call.ordinal, &mut ending, step) {
            true => Ok(Ok(Outcome::Closed)),
            false => Err(ending),
        }
    }

    /// Does one step of expiring the judged sessions, each in its own transaction. A session that
    /// was attached again since it was judged stays. `begun` holds the progress of earlier steps.
    /// `Err` holds what is left for the next step.
    pub(crate) fn expire_sessions(
        &mut self,
        call: Call<'_>,
        judged: &[(SessionId, Ordinal)],
        begun: Option<Box<Expiry>>,
        step: &mut Step<'_>,
    ) -> Result<Outcome, Box<Expiry>> {
        let mut expiry = begun.unwrap_or_default();
        loop {
            if let Some(ending) = &mut expiry.ending {
                if !self.end_session(call.ordinal, ending, step) {
                    return Err(expiry);
                }
                expiry.ending = None;
                expiry.count += 1;
            }
            let Some(&(session, attached)) = judged.get(expiry.passed) else {
                return Ok(Outcome::Expired(expiry.count));
            };
            if !step.steps.take() {
                return Err(expiry);
            }
            expiry.passed += 1;
            if self.sessions.get(session).is_some_and(|found| found.attached == attached) {
                expiry.ending = Some(Ending::new(session));
            }
        }
    }

    /// Does a part of the removal of a session and its ephemerals. False if the step's budget ran
    /// out before all is done.
    fn end_session(&mut self, ordinal: Ordinal, ending: &mut Ending, step: &mut Step<'_>) -> bool {
        if !self.collect_ephemerals(ending, &mut step.steps) {
            return false;
        }
        if let EndingAt::Sorting = ending.stage {
            if !ending.ephemerals.sort(&self.tree, &mut step.steps) {
                return false;
            }
            self.consume_zxid(ordinal);
            ending.stage = EndingAt::Removing(0);
        }
        let EndingAt::Removing(removed) = &mut ending.stage else {
            unreachable!("collecting and sorting are done")
        };
        let mut txn = Txn::new(self.mark(ordinal), step.changes);
        while let Some(id) = ending.ephemerals.get(*removed) {
            if !step.steps.take() {
                return false;
            }
            let path = self.tree.path(id);
            step.steps.handle_path(&path);
            self.remove_znode(id, &path, &mut txn);
            *removed += 1;
        }
        self.sessions.remove(ending.session).expect("apply looked the session up");
        txn.tell(Change::SessionClosed { session: ending.session }, "");
        true
    }

    /// Looks at the paths of the session's ephemerals, and then collects the ephemerals for
    /// sorting. False if the step's budget ran out before both are done.
    fn collect_ephemerals(&self, ending: &mut Ending, steps: &mut Steps) -> bool {
        let found = self.sessions.get(ending.session).expect("apply looked the session up");
        loop {
            let (last, collects) = match &mut ending.stage {
                EndingAt::Looking(last) => (last, false),
                EndingAt::Collecting(last) => (last, true),
                EndingAt::Sorting | EndingAt::Removing(_) => return true,
            };
            let from = last.map_or(Bound::Unbounded, Bound::Excluded);
            for &id in found.ephemerals.range((from, Bound::Unbounded)) {
                if !steps.take() {
                    return false;
                }
                let path = self.tree.path(id);
                steps.handle_path(&path);
                match collects {
                    true => ending.ephemerals.push(&self.tree, id, &path, steps),
                    false => ending.ephemerals.see(&path),
                }
                *last = Some(id);
            }
            ending.stage = if collects { EndingAt::Sorting } else { EndingAt::Collecting(None) };
        }
    }
}
