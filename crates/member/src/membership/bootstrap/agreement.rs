//! Lets any majority of unborn servers agree on one birth, by Paxos for a single value.
//!
//! Each server is an acceptor. It makes durable what it has promised and accepted before its hello
//! says so, and servers exchange nothing but hellos. What a hello says was true at some time, and
//! that suffices, so an old hello does no harm.
//!
//! 1. A server makes an attempt: it promises a ballot of its own, later than all that it has seen.
//!    The others promise that ballot, too, unless they have promised a later one.
//! 2. Once a majority has promised it, the server proposes a birth by accepting it. If servers that
//!    promised have accepted births before, the server proposes the one of these that has the
//!    latest ballot; otherwise it proposes a new birth. The others accept the proposed birth unless
//!    they have promised a later ballot.
//! 3. A birth is chosen once a majority has accepted it in one ballot. Each server that sees this
//!    is born with it. No other birth can be chosen then: any majority has a server that accepted
//!    this one.
//!
//! Votes are counted by server number, and a server that has lost its directory has forgotten what
//! it promised. So there can be two births if so many directories are lost that the unborn servers
//! are a majority, and see no born one.
//!
//! Any server may make an attempt at any time. To make simultaneous attempts rare, the present
//! server with the lowest number begins, and the next ones only if it does not for a while.

use std::collections::BTreeSet;

use storage::datadir::{Acceptor, Ballot, Birth};
use storage::limits::BALLOT_ROUND_MAX;

use super::{Bootstrap, Decision, Waiting};
use crate::membership::hello::Hello;
use crate::membership::limits::{ABSENT_PATIENCE_MS, PROPOSAL_PATIENCE_MS};

impl Bootstrap {
    /// Takes the next step of the agreement. `own` is what this server has promised and accepted.
    pub(super) fn agree(
        &mut self,
        own: &Acceptor,
        cluster_id: u128,
        now_ms: u64,
    ) -> Result<Decision, Waiting> {
        if let Some(birth) = self.chosen() {
            return Ok(Decision::BeBorn(birth.clone()));
        }
        if let Some(answer) = self.answer(own) {
            return Ok(Decision::Keep(answer));
        }
        let missing = self.missing();
        if let Err(waiting) = self.check_majority(missing.clone()) {
            self.still_since_ms = None;
            return Err(waiting);
        }
        let still_ms = now_ms.saturating_sub(*self.still_since_ms.get_or_insert(now_ms));
        let is_patient = missing.is_empty() || still_ms >= PROPOSAL_PATIENCE_MS;
        let next = match own.promised.member == self.own.member.0 {
            true => self.proposal(own, cluster_id).filter(|_| is_patient),
            false => self.attempt(own, &missing, still_ms),
        };
        let first = self.acceptors().map(|(hello, _)| hello.server).min();
        match next {
            Some(next) => Ok(Decision::Keep(next)),
            None if missing.is_empty() || first != Some(self.own.server) => {
                Err(Waiting::ForDecision(first.unwrap_or(self.own.server)))
            }
            None => Err(Waiting::ForServers(missing)),
        }
    }

    /// The hellos of the servers that take part, with what each has promised and accepted.
    fn acceptors(&self) -> impl Iterator<Item = (&Hello, &Acceptor)> {
        let is_voter = |it: &&Hello| self.own.servers.contains(&it.server);
        let hellos = self.present().filter(is_voter);
        hellos.filter_map(|it| Some((it, it.acceptor.as_ref()?)))
    }

    /// Whether `say` holds for a majority of the servers that are to vote.
    fn do_most(&self, say: impl Fn(&Acceptor) -> bool) -> bool {
        let saying = self.acceptors().filter(|(_, it)| say(it)).map(|(hello, _)| hello.server);
        saying.collect::<BTreeSet<u64>>().len() >= self.majority()
    }

    fn chosen(&self) -> Option<&Birth> {
        let mut accepted = self.acceptors().filter_map(|(_, it)| it.accepted.as_ref());
        let is_chosen = |ballot: Ballot| {
            self.do_most(|it| it.accepted.as_ref().is_some_and(|(other, _)| *other == ballot))
        };
        accepted.find(|(ballot, _)| is_chosen(*ballot)).map(|(_, birth)| birth)
    }

    /// The new promise or acceptance of this server, if another one has attempted a later ballot or
    /// proposed a birth.
    fn answer(&self, own: &Acceptor) -> Option<Acceptor> {
        let accepted = self.acceptors().filter_map(|(_, it)| it.accepted.as_ref());
        let is_new = |(ballot, _): &&(Ballot, Birth)| {
            let before = own.accepted.as_ref().map(|(ballot, _)| *ballot);
            *ballot >= own.promised && Some(*ballot) > before
        };
        if let Some((ballot, birth)) =
            accepted.filter(is_new).max_by_key(|(ballot, _)| *ballot).cloned()
        {
            return Some(Acceptor { promised: ballot, accepted: Some((ballot, birth)) });
        }
        let promised = self.acceptors().map(|(_, it)| it.promised).max()?;
        let accepted = own.accepted.clone();
        (promised > own.promised).then_some(Acceptor { promised, accepted })
    }

    /// The birth that this server proposes, in its own ballot; `None` unless a majority has
    /// promised that ballot.
    fn proposal(&self, own: &Acceptor, cluster_id: u128) -> Option<Acceptor> {
        let ballot = own.promised;
        let has_proposed = own.accepted.as_ref().is_some_and(|(of, _)| *of == ballot);
        if has_proposed || !self.do_most(|it| it.promised == ballot) {
            return None;
        }
        let promises = self.acceptors().filter(|(_, it)| it.promised == ballot);
        let before = promises.filter_map(|(_, it)| it.accepted.as_ref());
        let birth = match before.max_by_key(|(ballot, _)| *ballot) {
            Some((_, birth)) => birth.clone(),
            None => self.birth(cluster_id),
        };
        Some(Acceptor { promised: ballot, accepted: Some((ballot, birth)) })
    }

    /// A promise of a new ballot of this server's own; `None` if it is not this server's turn to
    /// make an attempt.
    fn attempt(&self, own: &Acceptor, missing: &[u64], still_ms: u64) -> Option<Acceptor> {
        let present: BTreeSet<u64> = self.acceptors().map(|(hello, _)| hello.server).collect();
        let before = present.range(..self.own.server).count() as u64;
        let is_first_of_all = before == 0 && missing.is_empty() && *own == Acceptor::default();
        let is_due = is_first_of_all || still_ms >= ABSENT_PATIENCE_MS * (before + 1);
        let (round, member) = (own.promised.round + 1, self.own.member.0);
        let accepted = own.accepted.clone();
        let next = Acceptor { promised: Ballot { round, member }, accepted };
        (is_due && round <= BALLOT_ROUND_MAX).then_some(next)
    }
}
