//! The judge of locks and elections: checks that only one client at a time holds each of them.
//!
//! The clients follow the recipe of etcd's Go package `client/v3/concurrency` (3.6). A lock or an
//! election is a name. A client that wants it puts a key with its lease below the name; the key
//! that was created first holds. A holder guards its writes: a transaction makes them only while
//! the holder's key has its creation revision. That revision is the *token* of the hold.
//!
//! The judge sees only what clients see: their notes ([`Hold`], [`Shown`]) and the answers to their
//! calls. It needs no committed order. It checks:
//!
//! - **Alone.** While a client may believe that it holds, no other client gets the lock. A client
//!   may believe so until it has asked to release the lock, and no longer than its session lasts by
//!   its own clock: the time to live of its lease after it *sent* the grant or the last keep-alive
//!   that was answered with a time.
//! - **Turns.** Clients get the lock in the order in which their keys were created.
//! - **Fence.** In the order of revisions, the tokens of the successful guarded writes never
//!   decrease, and no guarded write finds the value of a newer token. So even a client that
//!   believes too long that it holds writes nothing once another holder has written.
//! - **Leaders.** A client of an election is never shown an older leader, or an older value of the
//!   same leader, after a newer one.
//!
//! **Not checked here:** that locks are passed on. The driver of the clients waits for that.

use std::collections::BTreeMap;

use crate::etcd::finding::{Rule, Violation};
use crate::etcd::history::{CallId, History};
use crate::etcd::op::{LeaseOp, Op, Response};
use crate::history::Moment;

/// One hold of a lock by a client, or one leadership in an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The client.
    pub client: u32,
    /// The name of the lock or the election.
    pub name: Vec<u8>,
    /// The lease of the client's session.
    pub lease: i64,
    /// The revision at which the client's key was created: the token.
    pub token: i64,
    /// When the client learned that it holds the lock or leads.
    pub began: Moment,
    /// When the client asked to release the lock, stopped believing that it holds, or died; `None`
    /// if it never did.
    pub ended: Option<Moment>,
    /// The client's guarded writes, including those that it made when it no longer held.
    pub writes: Vec<CallId>,
}

/// A leader that an observing client was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The client.
    pub client: u32,
    /// The name of the election.
    pub name: Vec<u8>,
    /// The revision at which the leader's key was created.
    pub token: i64,
    /// The revision of the leader's value.
    pub revision: i64,
}

/// Counts of what was judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Holds.
    pub holds: usize,
    /// Holds during which the client's session ended.
    pub outlived: usize,
    /// Guarded writes that succeeded.
    pub guarded: usize,
    /// Guarded writes that failed, since the holder's key was gone.
    pub fenced: usize,
    /// Leaders and values that observers were shown.
    pub shown: usize,
}

/// The value of a guarded write: it names the token.
pub fn guarded_value(token: i64, number: u64) -> Vec<u8> {
    format!("{token}:{number}").into_bytes()
}

/// The token in the value of a guarded write.
fn token_in(value: &[u8]) -> Option<i64> {
    let (token, _) = core::str::from_utf8(value).ok()?.split_once(':')?;
    token.parse().ok()
}

/// Judges the locks and elections of a history. By the judge's clock a lease may expire up to
/// `slack_us` early, since leaders' clocks differ from that clock.
///
/// # Errors
/// The first thing that a correct server could not have done.
pub fn judge_locks(history: &History, slack_us: u64) -> Result<LockCounts, Violation> {
    let sessions = sessions_of(history);
    let mut counts = LockCounts::default();
    let mut names: BTreeMap<&[u8], Vec<Belief<'_>>> = BTreeMap::new();
    for hold in &history.holds {
        let session_us = sessions.get(&hold.lease).map_or(0, |it| it.ends_us(hold.began.at_us));
        let ended_us = hold.ended.map_or(u64::MAX, |ended| ended.at_us);
        counts.holds += 1;
        counts.outlived += usize::from(ended_us >= session_us);
        let until_us = ended_us.min(session_us.saturating_sub(slack_us));
        names.entry(&hold.name).or_default().push(Belief { hold, until_us });
    }
    for beliefs in names.values_mut() {
        beliefs.sort_by_key(|it| it.hold.began.sequence);
        check_turns(beliefs)?;
        check_alone(beliefs)?;
        check_fence(history, beliefs, &mut counts)?;
    }
    check_shown(history, &mut counts)?;
    Ok(counts)
}

/// A hold, and until when its client may believe that it holds, in us.
struct Belief<'h> {
    hold: &'h Hold,
    until_us: u64,
}

impl Belief<'_> {
    /// Whether the session was certainly alive when the hold began.
    fn is_certain(&self) -> bool {
        self.hold.began.at_us < self.until_us
    }
}

/// How long a session lives by its client's clock.
#[derive(Default)]
struct Session {
    /// For each answer that has a time to live, when the answer arrived and when that time ends, in
    /// us.
    known: Vec<(u64, u64)>,
}

impl Session {
    /// When the session ends by the client's knowledge, in us, if it was alive at `from_us`. An
    /// answer that arrives after the end does not revive the session.
    fn ends_us(&self, from_us: u64) -> u64 {
        let mut ends_us = 0;
        for (answered_us, until_us) in &self.known {
            if *answered_us > from_us && *answered_us >= ends_us {
                break;
            }
            ends_us = ends_us.max(*until_us);
        }
        ends_us
    }
}

/// The sessions by lease. No two sessions have the same lease.
fn sessions_of(history: &History) -> BTreeMap<i64, Session> {
    let mut sessions: BTreeMap<i64, Session> = BTreeMap::new();
    for (_, record, answer) in history.answers() {
        let (lease, ttl_s) = match (&record.op, answer) {
            (
                Op::Lease(LeaseOp::Grant { lease, .. }),
                Ok(Response::Granted { ttl_s: ttl_s @ 1.., .. }),
            )
            | (
                Op::Lease(LeaseOp::KeepAlive { lease }),
                Ok(Response::KeptAlive { ttl_s: ttl_s @ 1.., .. }),
            ) => (*lease, *ttl_s as u64),
            _ => continue,
        };
        let answered_us = record.answered.as_ref().map_or(0, |answered| answered.moment.at_us);
        let until_us = record.asked.at_us.saturating_add(ttl_s.saturating_mul(1_000_000));
        sessions.entry(lease).or_default().known.push((answered_us, until_us));
    }
    sessions
}

fn violation<T>(rule: Rule, what: String) -> Result<T, Violation> {
    Err(Violation { rule, what })
}

/// Checks the order in which clients got the lock.
fn check_turns(beliefs: &[Belief<'_>]) -> Result<(), Violation> {
    let mut last: Option<&Belief<'_>> = None;
    for belief in beliefs.iter().filter(|belief| belief.is_certain()) {
        if let Some(last) = last.filter(|last| last.hold.token >= belief.hold.token) {
            let what = format!("{:?} came to hold behind {:?}", belief.hold, last.hold);
            return violation(Rule::Turns, what);
        }
        last = Some(belief);
    }
    Ok(())
}

/// Checks that no client gets the lock while another one may believe that it holds.
fn check_alone(beliefs: &[Belief<'_>]) -> Result<(), Violation> {
    let mut longest: Option<&Belief<'_>> = None;
    for belief in beliefs.iter().filter(|belief| belief.is_certain()) {
        if let Some(other) = longest.filter(|other| other.until_us > belief.hold.began.at_us) {
            let (one, until_us) = (other.hold, other.until_us);
            let what =
                format!("until {until_us} us holds {one:?}, and beside it {:?}", belief.hold);
            return violation(Rule::Alone, what);
        }
        longest = Some(belief);
    }
    Ok(())
}

/// Checks the guarded writes of one lock or election.
fn check_fence(
    history: &History,
    beliefs: &[Belief<'_>],
    counts: &mut LockCounts,
) -> Result<(), Violation> {
    let mut done: Vec<(i64, i64)> = Vec::new();
    for hold in beliefs.iter().map(|belief| belief.hold) {
        for id in &hold.writes {
            let record = history.position(*id).map(|at| &history.calls[at]);
            let Some(Ok(Response::Txn(answer))) = record.and_then(|record| record.answer()) else {
                continue;
            };
            if !answer.succeeded {
                counts.fenced += 1;
                continue;
            }
            counts.guarded += 1;
            done.push((answer.revision, hold.token));
            let Some(Response::Range(before)) = answer.responses.first() else { continue };
            let newer = before.kvs.iter().filter_map(|pair| token_in(&pair.value));
            if let Some(newer) = newer.max().filter(|newer| *newer > hold.token) {
                let what = format!("{id:?} of {hold:?} was done behind a write with token {newer}");
                return violation(Rule::Fence, what);
            }
        }
    }
    done.sort_unstable();
    match done.array_windows().find(|[(_, one), (_, next)]| one > next) {
        None => Ok(()),
        Some([one, next]) => {
            let name = String::from_utf8_lossy(&beliefs[0].hold.name);
            let what = format!(
                "of {name:?} the write at revision {} has token {}, the next one, at {}, has {}",
                one.0, one.1, next.0, next.1
            );
            violation(Rule::Fence, what)
        }
    }
}

/// Checks what each observer was shown of each election.
fn check_shown(history: &History, counts: &mut LockCounts) -> Result<(), Violation> {
    let mut newest: BTreeMap<(u32, &[u8]), &Shown> = BTreeMap::new();
    for shown in &history.shown {
        counts.shown += 1;
        let place = |shown: &Shown| (shown.token, shown.revision);
        let before = newest.insert((shown.client, &shown.name), shown);
        if let Some(before) = before.filter(|before| place(before) > place(shown)) {
            return violation(Rule::Leaders, format!("{shown:?} comes behind {before:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
