//! Ends of sessions, in steps.
//!
//! The ephemerals of a session are removed in the order of their paths, which is equal on every
//! member. First they are collected and sorted, which changes nothing; then the transaction begins.

use core::ops::Bound;

use crate::ids::{Ordinal, SessionId};
use crate::zk::Zk;
use crate::zk::change::Change;
use crate::zk::path_sort::PathSort;
use crate::zk::pause::Step;
use crate::zk::reply::{Outcome, Refusal};
use crate::zk::steps::Steps;
use crate::zk::tree::ZnodeId;
use crate::zk::txn::{Call, Txn};

/// The end of a session between two steps.
pub(crate) struct Ending {
    session: SessionId,
    /// Its ephemerals, as far as they are collected and sorted.
    ephemerals: PathSort,
    stage: Stage,
}

enum Stage {
    /// The ephemerals behind this one are to be collected.
    Collecting(Option<ZnodeId>),
    /// All are collected.
    Sorting,
    /// So many are removed.
    Removing(usize),
}

/// The end of several sessions between two steps.
#[derive(Default)]
pub(crate) struct Expiry {
    /// How many sessions of the list were looked at.
    passed: usize,
    /// How many of them have ended.
    count: usize,
    /// The end of the last that was looked at, if that is not done.
    pub ending: Option<Ending>,
}

impl Ending {
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Whether some of the ephemerals are removed.
    pub fn has_removed(&self) -> bool {
        matches!(self.stage, Stage::Removing(1..))
    }
}

impl Zk {
    /// Begins to close a session or goes on with it. The error is what is left to do.
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
                Box::new(self.begin_end(session))
            }
        };
        match self.end_session(call.ordinal, &mut ending, step) {
            true => Ok(Ok(Outcome::Closed)),
            false => Err(ending),
        }
    }

    /// Begins to end the sessions that were not attached again since they were judged, each in a
    /// transaction of its own, or goes on with it. The error is what is left to do.
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
                expiry.ending = Some(self.begin_end(session));
            }
        }
    }

    fn begin_end(&self, session: SessionId) -> Ending {
        let count = self.sessions.get(session).map_or(0, |found| found.ephemerals.len());
        let ephemerals = PathSort::with_capacity(count);
        Ending { session, ephemerals, stage: Stage::Collecting(None) }
    }

    /// Goes on removing a session and its ephemerals. False if the step is over before that is
    /// done.
    fn end_session(&mut self, ordinal: Ordinal, ending: &mut Ending, step: &mut Step<'_>) -> bool {
        if !self.collect_ephemerals(ending, &mut step.steps) {
            return false;
        }
        if let Stage::Sorting = ending.stage {
            if !ending.ephemerals.sort(&self.tree, &mut step.steps) {
                return false;
            }
            self.consume_zxid(ordinal);
            ending.stage = Stage::Removing(0);
        }
        let Stage::Removing(removed) = &mut ending.stage else {
            unreachable!("collecting and sorting are done")
        };
        let mut txn = Txn::new(self.mark(ordinal), step.changes);
        while let Some(&id) = ending.ephemerals.ids().get(*removed) {
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

    /// Goes on collecting the ephemerals. False if the step is over before that is done.
    fn collect_ephemerals(&self, ending: &mut Ending, steps: &mut Steps) -> bool {
        let Stage::Collecting(last) = &mut ending.stage else { return true };
        let found = self.sessions.get(ending.session).expect("apply looked the session up");
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        for &id in found.ephemerals.range((from, Bound::Unbounded)) {
            if !steps.take() {
                return false;
            }
            ending.ephemerals.push(&self.tree, id, steps);
            *last = Some(id);
        }
        ending.stage = Stage::Sorting;
        true
    }
}
