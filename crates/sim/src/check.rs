//! The judges of a run: the history against the committed order, the final state against the model,
//! and every expiry against what the server had heard.

use machine::Machine;
use workload::history::{History, Received};
use workload::model::Model;
use workload::order::{Rules, Verdict, judge};

use crate::limits::{HEARING_US_MAX, PAUSE_COUNTS_US};
use crate::network::Network;
use crate::witness::{Times, Witness};

/// Virtual time during which the process ran: pauses do not count.
#[derive(Clone, Debug, Default)]
pub struct WakingTime {
    /// Start and end of each pause, in order.
    pauses: Vec<(u64, u64)>,
}

impl WakingTime {
    /// The process does not run from one point in time to another.
    pub fn pause(&mut self, from_us: u64, until_us: u64) {
        self.pauses.push((from_us, until_us));
    }

    /// The process that was paused is gone.
    pub fn cut_short(&mut self, at_us: u64) {
        if let Some((from_us, until_us)) = self.pauses.last_mut() {
            *until_us = (*until_us).min(at_us).max(*from_us);
        }
    }

    /// Pauses that ended between two points in time.
    fn ended_between(&self, from_us: u64, until_us: u64) -> u64 {
        let between = |(_, end): &&(u64, u64)| *end >= from_us && *end <= until_us;
        self.pauses.iter().filter(between).count() as u64
    }

    /// Microseconds that the process ran before `at_us`.
    fn before(&self, at_us: u64) -> u64 {
        let paused: u64 = self
            .pauses
            .iter()
            .map(|(from, until)| (*until).min(at_us).saturating_sub((*from).min(at_us)))
            .sum();
        at_us - paused
    }
}

/// What the judges are given beside the history.
pub struct Evidence<'a> {
    /// What every client saw.
    pub history: &'a History,
    /// What the member claims.
    pub witness: &'a Witness,
    /// When bytes arrived.
    pub network: &'a Network,
    /// When the process ran.
    pub waking: &'a WakingTime,
    /// When a life of the process began to serve clients.
    pub ready_us: &'a [u64],
    /// Whether the disk was full at any time.
    pub may_refuse: bool,
}

/// Judges a run whose member ended in the state `machine`.
///
/// # Errors
/// What no correct server would have done.
pub fn check(evidence: &Evidence<'_>, machine: Option<&Machine>) -> Result<Verdict, String> {
    let (committed, times) = evidence.witness.order()?;
    let rules = Rules { may_refuse: evidence.may_refuse };
    let verdict = judge(evidence.history, &committed, rules).map_err(|found| found.to_string())?;
    if let Some(machine) = machine {
        compare(machine, &verdict.model)?;
    }
    check_acknowledgements(evidence, &verdict, &times)?;
    check_expiries(evidence, &verdict, &times)?;
    Ok(verdict)
}

/// The member's final state is the model's.
fn compare(machine: &Machine, model: &Model) -> Result<(), String> {
    let counters = machine.counters();
    if (counters.zxid.0, counters.ordinal.0) != (model.zxid, model.ordinal) {
        return Err(format!(
            "the state is at {counters:?}, the model at zxid {} ordinal {}",
            model.zxid, model.ordinal
        ));
    }
    let count = machine.tree().znode_count() as usize;
    if count != model.znodes.len() {
        return Err(format!("{count} znodes, {} in the model", model.znodes.len()));
    }
    for (path, znode) in &model.znodes {
        let Some(found) = machine.tree().find(path) else {
            return Err(format!("{path} is gone, the model has it"));
        };
        let (found_stat, stat) = (format!("{:?}", found.stat()), model.stat(path));
        let perms = found.acl().iter().fold(0, |perms, entry| perms | entry.perms);
        if found.data() != znode.data.as_deref()
            || found_stat != format!("{stat:?}")
            || perms != znode.perms
        {
            return Err(format!("{path} is {found_stat} {perms}, the model has {znode:?}"));
        }
    }
    let mut sessions: Vec<i64> = machine.sessions().iter().map(|(id, _)| id.0).collect();
    sessions.sort_unstable();
    match sessions.iter().eq(model.sessions.keys()) {
        true => Ok(()),
        false => Err(format!("sessions {sessions:x?}, the model has {:x?}", model.sessions)),
    }
}

/// No acknowledgement reaches a client before a sync covers the entry: entries are handed over to
/// Apply only then, which the witness has seen to.
fn check_acknowledgements(
    evidence: &Evidence<'_>,
    verdict: &Verdict,
    times: &[Times],
) -> Result<(), String> {
    for &(number, position) in &verdict.acknowledged {
        let completed = evidence.history.ops[number].completed.as_ref();
        let acknowledged_us = completed.map_or(0, |completed| completed.moment.at_us);
        let handed_us = times[position].handed_us;
        if acknowledged_us < handed_us {
            return Err(format!(
                "operation {number} was acknowledged at {acknowledged_us} us, a sync covers its \
                 entry since {handed_us} us"
            ));
        }
    }
    Ok(())
}

/// A session expires only when its client was silent for the whole timeout, while the server could
/// have heard it.
fn check_expiries(
    evidence: &Evidence<'_>,
    verdict: &Verdict,
    times: &[Times],
) -> Result<(), String> {
    for &(session, position) in &verdict.expired {
        let expired_us = times[position].proposed_us;
        let now_us = evidence.waking.before(expired_us);
        let mut timeout_us = 0;
        let mut newest_us = 0;
        for (number, connection) in evidence.history.connections.iter().enumerate() {
            let told = connection.received.iter().find_map(|received| match received {
                Received::Connected { session, timeout_ms } => Some((*session, *timeout_ms)),
                _ => None,
            });
            let Some((_, timeout_ms)) = told.filter(|(told, _)| *told == session) else {
                continue;
            };
            timeout_us = u64::from(timeout_ms) * 1000;
            let until_us = successor_opened_us(evidence.network, number);
            let arrivals = evidence.network.connections[number].arrivals_us.iter();
            let heard = arrivals
                .filter(|at_us| **at_us < until_us)
                .map(|at_us| evidence.waking.before(*at_us))
                .filter(|at_us| at_us + HEARING_US_MAX <= now_us);
            newest_us = heard.max().unwrap_or(0).max(newest_us);
        }
        let ready = evidence.ready_us.iter().filter(|at_us| **at_us <= expired_us);
        let ready_us = ready.map(|at_us| evidence.waking.before(*at_us)).max().unwrap_or(0);
        let silent_us = now_us.saturating_sub(newest_us.max(ready_us));
        let pauses =
            evidence.waking.ended_between(expired_us.saturating_sub(timeout_us), expired_us);
        if silent_us + pauses * PAUSE_COUNTS_US < timeout_us {
            return Err(format!(
                "session {session:#x} expired at {expired_us} us, after {silent_us} us of silence, \
                 its timeout is {timeout_us} us"
            ));
        }
    }
    Ok(())
}

/// When the client of a connection opened its next one: what arrives on the old one later need not
/// be heard.
fn successor_opened_us(network: &Network, number: usize) -> u64 {
    let client = network.connections[number].client;
    let later = network.connections.iter().skip(number + 1);
    let next = later.filter(|connection| connection.client == client).map(|it| it.opened_us).next();
    next.unwrap_or(u64::MAX)
}
