//! The judges of ZooKeeper's clients in a run. They check the clients' history against the
//! committed order of commands, the members' final states against a model, and that no session
//! expired although its client had sent bytes in time.

mod etcd;
mod etcd_http;
mod etcd_v2;

pub use etcd::{EtcdVerdict, check_etcd};
pub use etcd_http::{HttpCounts, check_etcd_http};
pub use etcd_v2::{V2Counts, check_etcd_v2, has_shown_all};

use machine::Machine;
use machine::zk::tree::{CONTAINER_OWNER, ttl_ms};
use workload::history::{History, Received};
use workload::model::{Goes, Model};
use workload::op::{Op, perms};
use workload::order::{Rules, Verdict, judge};

use crate::limits::{
    CLOCK_PPM_MAX, FALLS_SILENT_US_MAX, HEARD_AT_LEADER_US_MAX, HEARING_US_MAX, LATE_US_MAX,
    LINK_LATENCY_US_MAX, PAUSE_COUNTS_US,
};
use crate::network::Network;
use crate::witness::{Times, Witness};

/// When a member's process ran: always, except in its pauses. All times are in virtual us.
#[derive(Clone, Debug, Default)]
pub struct WakingTime {
    /// Start and end of each pause, in order.
    pauses: Vec<(u64, u64)>,
    /// Each jump of the process's clock: its time, and how far the clock jumped. Loop cannot tell a
    /// jump from a pause.
    jumps: Vec<(u64, u64)>,
    /// Start and end of each pause in which the clock stopped, too.
    stops: Vec<(u64, u64)>,
}

impl WakingTime {
    /// Notes a pause of the process.
    pub fn pause(&mut self, from_us: u64, until_us: u64) {
        self.pauses.push((from_us, until_us));
    }

    /// Notes that the clock jumps ahead by `by_us` while the process runs.
    pub fn jump(&mut self, at_us: u64, by_us: u64) {
        self.jumps.push((at_us, by_us));
    }

    /// Notes that the clock stops during the last noted pause.
    pub fn stop(&mut self) {
        self.stops.extend(self.pauses.last().copied());
    }

    /// Ends the last pause at `at_us` at the latest, since the paused process has ended.
    pub fn cut_short(&mut self, at_us: u64) {
        if let Some((from_us, until_us)) = self.pauses.last_mut() {
            *until_us = (*until_us).min(at_us).max(*from_us);
            let (from_us, until_us) = (*from_us, *until_us);
            self.stops
                .iter_mut()
                .filter(|stop| stop.0 == from_us)
                .for_each(|stop| stop.1 = until_us);
        }
    }

    /// How long the clock stood still between two times, in us.
    fn stood_between(&self, from_us: u64, until_us: u64) -> u64 {
        let stood = |(start_us, end_us): &(u64, u64)| {
            (*end_us).min(until_us).saturating_sub((*start_us).max(from_us))
        };
        self.stops.iter().map(stood).sum()
    }

    /// Whether the clock jumped between two times.
    pub fn has_jumped_between(&self, from_us: u64, until_us: u64) -> bool {
        self.jumps.iter().any(|(at_us, _)| (from_us..=until_us).contains(at_us))
    }

    /// How much silence of clients the server may have counted wrongly because of jumps, and of
    /// pauses that ended, between two times, in us.
    fn counted_between(&self, from_us: u64, until_us: u64) -> u64 {
        let pauses = self.pauses.iter().map(|&(start_us, end_us)| (end_us, end_us - start_us));
        pauses
            .chain(self.jumps.iter().copied())
            .filter(|(at_us, _)| (from_us..=until_us).contains(at_us))
            .map(|(_, lost_us)| lost_us.min(PAUSE_COUNTS_US))
            .sum()
    }

    /// For how many us the process ran before `at_us`.
    fn before(&self, at_us: u64) -> u64 {
        let paused: u64 = self
            .pauses
            .iter()
            .map(|(from, until)| (*until).min(at_us).saturating_sub((*from).min(at_us)))
            .sum();
        at_us - paused
    }
}

/// The spells in which something was wrong with a member. For each thing that can be wrong,
/// [`Evidence`] has a list of its own.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// Start and end of each spell, in order. The last one may still go on.
    spans: Vec<(u64, Option<u64>)>,
}

impl Trouble {
    /// Notes whether something is wrong from now on.
    pub fn note(&mut self, is_any: bool, now_us: u64) {
        let is_open = matches!(self.spans.last(), Some((_, None)));
        if is_any && !is_open {
            self.spans.push((now_us, None));
        }
        if let Some((_, until_us)) = self.spans.last_mut()
            && !is_any
            && is_open
        {
            *until_us = Some(now_us);
        }
    }

    /// Start and end of each spell, in order. A spell that has not ended has the end `u64::MAX`.
    fn spells(&self) -> Vec<(u64, u64)> {
        let ended =
            |&(start_us, end_us): &(u64, Option<u64>)| (start_us, end_us.unwrap_or(u64::MAX));
        self.spans.iter().map(ended).collect()
    }

    /// How long the longest spell lasted between two times, in us.
    fn longest_between(&self, from_us: u64, until_us: u64) -> u64 {
        let lasted = |(start_us, end_us): &(u64, Option<u64>)| {
            let end_us = end_us.unwrap_or(until_us).min(until_us);
            end_us.saturating_sub((*start_us).max(from_us))
        };
        self.spans.iter().map(lasted).max().unwrap_or(0)
    }

    /// Whether nothing was wrong between two times.
    fn is_none_between(&self, from_us: u64, until_us: u64) -> bool {
        let touches = |(start_us, end_us): &(u64, Option<u64>)| {
            *start_us <= until_us && end_us.is_none_or(|end_us| end_us >= from_us)
        };
        !self.spans.iter().any(touches)
    }
}

/// Everything that the judges look at besides the members' final states.
pub struct Evidence<'a> {
    /// Everything that the clients sent and received.
    pub history: &'a History,
    /// The record of what the members did.
    pub witness: &'a Witness,
    /// The ZooKeeper connections, with the times at which bytes arrived.
    pub network: &'a Network,
    /// When each member's process ran.
    pub waking: Vec<&'a WakingTime>,
    /// When each member may have failed to pass on that it heard a client: it did not run, was
    /// paused or not ready, or its links to the leader were not good.
    pub trouble: Vec<&'a Trouble>,
    /// When each member may have applied committed entries late.
    pub lag: Vec<&'a Trouble>,
    /// When each member ran and could reach no other member.
    pub cut_off: Vec<&'a Trouble>,
    /// The current virtual time.
    pub now_us: u64,
    /// Whether members refuse requests that have waited too long.
    pub may_throttle: bool,
    /// The configured age in ms at which containers that never had a child are removed; 0 for
    /// never.
    pub never_used_ms_max: u64,
}

impl Evidence<'_> {
    /// Whether a member was in no trouble, and not slow, between two times.
    fn is_well(&self, member: usize, from_us: u64, until_us: u64) -> bool {
        let is_none = |trouble: &Trouble| trouble.is_none_between(from_us, until_us);
        is_none(self.trouble[member]) && is_none(self.lag[member])
    }
}

/// Judges the ZooKeeper part of a run. `machines` are the final states of the members; it may be
/// empty.
///
/// # Errors
/// A correct server could not have behaved so.
pub fn check(evidence: &Evidence<'_>, machines: &[&Machine]) -> Result<Verdict, String> {
    let (committed, times) = evidence.witness.order()?;
    let never_used_ms_max = i64::try_from(evidence.never_used_ms_max).unwrap_or(i64::MAX);
    let reads_may_lag = evidence.waking.len() > 1;
    let connections = evidence.network.connections.iter();
    let refusing = connections.map(|it| evidence.witness.refusing(it.member).spells());
    let refusing_us = refusing.collect();
    let may_throttle = evidence.may_throttle;
    let rules = Rules { refusing_us, may_throttle, never_used_ms_max, reads_may_lag };
    let verdict = judge(evidence.history, &committed, rules).map_err(|found| found.to_string())?;
    machines.iter().try_for_each(|machine| compare(machine, &verdict.model))?;
    check_acknowledgements(evidence, &verdict, &times)?;
    let handed_us: Vec<u64> = times.iter().map(|times| times.handed_us).collect();
    check_shown(evidence.history, &verdict.shown, &handed_us)?;
    check_expiries(evidence, &verdict, &times)?;
    check_silence(evidence, &verdict, &times)?;
    Ok(verdict)
}

/// Checks that a member's final state equals the model's.
fn compare(machine: &Machine, model: &Model) -> Result<(), String> {
    let mark = machine.mark();
    if (mark.zxid.0, mark.ordinal.0) != (model.zxid, model.ordinal) {
        return Err(format!(
            "the state is at {mark:?}, the model at zxid {} ordinal {}",
            model.zxid, model.ordinal
        ));
    }
    let count = machine.zk().tree().znode_count() as usize;
    if count != model.znodes.len() {
        return Err(format!("{count} znodes, {} in the model", model.znodes.len()));
    }
    for (path, znode) in &model.znodes {
        let Some(found) = machine.zk().tree().find(path) else {
            return Err(format!("{path} is gone, the model has it"));
        };
        let (found_stat, stat) = (format!("{:?}", found.stat()), model.stat(path));
        if goes(found.owner()) != znode.goes {
            return Err(format!(
                "{path} goes as {:#x} says, the model has {znode:?}",
                found.owner()
            ));
        }
        let acl = found.acl().iter().map(|it| (it.perms, &*it.scheme, &*it.id));
        let owners = znode.owners.iter().map(|id| (perms::ALL, "digest", *id));
        let is_acl = acl.eq(owners.chain([(znode.perms, "world", "anyone")]));
        if found.data() != znode.data.as_deref() || found_stat != format!("{stat:?}") || !is_acl {
            let acl = found.acl();
            return Err(format!("{path} is {found_stat} {acl:?}, the model has {znode:?}"));
        }
    }
    let mut sessions: Vec<i64> = machine.zk().sessions().iter().map(|(id, _)| id.0).collect();
    sessions.sort_unstable();
    match sessions.iter().eq(model.sessions.keys()) {
        true => Ok(()),
        false => Err(format!("sessions {sessions:x?}, the model has {:x?}", model.sessions)),
    }
}

/// When a znode with this owner word is removed automatically.
fn goes(owner: i64) -> Goes {
    match ttl_ms(owner) {
        Some(ttl_ms) => Goes::After { ttl_ms: ttl_ms as i64 },
        None if owner == CONTAINER_OWNER => Goes::Container,
        None => Goes::Never,
    }
}

/// Checks that no acknowledgement reached a client before a member handed the entry to Apply. The
/// witness has checked that a quorum had synced the entry by then.
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

/// Checks that no read shows a command before a quorum had synced its entry. `handed_us` has for
/// each command the time at which a member first handed its entry to Apply; the witness has checked
/// that a quorum had synced the entry by then.
fn check_shown(
    history: &History,
    shown: &[(usize, usize)],
    handed_us: &[u64],
) -> Result<(), String> {
    for &(number, command_count) in shown {
        let Some(last) = command_count.checked_sub(1) else { continue };
        let shown_us = history.ops[number].completed.as_ref().map_or(0, |it| it.moment.at_us);
        if shown_us < handed_us[last] {
            return Err(format!(
                "operation {number} shows command {last} at {shown_us} us, syncs cover it since {} \
                 us",
                handed_us[last]
            ));
        }
    }
    Ok(())
}

/// Checks that each expired session's client was silent for the whole timeout.
///
/// Why that is a fair demand, apart from delays of threads ([`LATE_US_MAX`]): bytes that arrive at
/// `a` are reported when the runtime's timer ends a report interval of 200 ms, so Loop renews the
/// lease by `a + 300 ms`. The leases' clock stands still between two turns of Loop, so the new
/// deadline is later than `a - 100 ms + timeout + 400 ms`: deadlines include a report interval, a
/// timer and a turn (`member::spaces::limits::HEARING_MS_MAX`). If Loop expires the session at `t`,
/// past that deadline, then the next bytes had not been reported yet: they arrived after `t - 300
/// ms`, so after `a + timeout`. A pause of the process counts at most [`PAUSE_COUNTS_US`] on the
/// leases' clock. When the member begins to serve clients, all sessions get a full timeout, as if
/// all clients had just been heard; so they do when a full disk has room again. No session expires
/// while the disk is full or before clients are served, since no client could attach.
///
/// The exact `t` is known only if nothing waits in Loop. Otherwise the command was proposed some
/// time after `judged_us`, and the silence may have ended since.
///
/// In an ensemble the leader decides. It learns of other members' clients by frames, so a little
/// later, and its clock may run faster. Bytes of a client need not count while its member or the
/// leader is in trouble.
fn check_expiries(
    evidence: &Evidence<'_>,
    verdict: &Verdict,
    times: &[Times],
) -> Result<(), String> {
    for &(session, position) in &verdict.expired {
        let Times { member, judged_us, proposed_us, .. } = times[position];
        let is_ensemble = evidence.waking.len() > 1;
        if evidence.witness.is_shut_between(member, judged_us, proposed_us) {
            return Err(format!(
                "session {session:#x} expired at {proposed_us} us, when no client could attach"
            ));
        }
        let (timeout_us, mut heard_us) = signs_of_life(evidence, session, member, proposed_us);
        let renewed_us = evidence.witness.renewed_us(member, judged_us);
        // Silence before the renewal does not count, and Loop knows of the renewal at once.
        heard_us.retain(|at_us| *at_us > renewed_us && *at_us <= proposed_us);
        heard_us.push(renewed_us);
        heard_us.sort_unstable();
        let (waking, hearing_us, late_us) = match is_ensemble {
            false => (evidence.waking[member], HEARING_US_MAX, LATE_US_MAX),
            true => {
                let fast_us = timeout_us * CLOCK_PPM_MAX / 1_000_000;
                let late_us = LATE_US_MAX + 4 * LINK_LATENCY_US_MAX + fast_us;
                (evidence.waking[member], HEARD_AT_LEADER_US_MAX, late_us)
            }
        };
        let silence_us =
            longest_silence(waking, &heard_us, renewed_us, hearing_us, judged_us, proposed_us);
        if silence_us + late_us < timeout_us {
            return Err(format!(
                "session {session:#x} expired at {proposed_us} us, after {silence_us} us of \
                 silence, its timeout is {timeout_us} us"
            ));
        }
    }
    Ok(())
}

/// Checks that no client gets answers long after its session expired: a member without contact
/// stops answering after a third of the timeout by its own clock, and a member with contact soon
/// applies the expiry.
fn check_silence(
    evidence: &Evidence<'_>,
    verdict: &Verdict,
    times: &[Times],
) -> Result<(), String> {
    if evidence.waking.len() == 1 {
        return Ok(());
    }
    for &(session, position) in &verdict.expired {
        let ended_us = times[position].handed_us;
        for (number, timeout_us) in connections_of(evidence, session) {
            let connection = &evidence.network.connections[number];
            let stood_us =
                evidence.waking[connection.member].stood_between(ended_us, connection.written_us);
            let until_us = ended_us + timeout_us / 3 + FALLS_SILENT_US_MAX + stood_us;
            let lag = evidence.lag[connection.member];
            if connection.written_us > until_us
                && lag.is_none_between(ended_us, connection.written_us)
            {
                return Err(format!(
                    "session {session:#x} expired at {ended_us} us, and connection {number} was \
                     written to at {} us, its timeout is {timeout_us} us",
                    connection.written_us
                ));
            }
        }
    }
    Ok(())
}

/// The connections that were given a session, each with its timeout in us.
fn connections_of(evidence: &Evidence<'_>, session: i64) -> impl Iterator<Item = (usize, u64)> {
    let connections = evidence.history.connections.iter().enumerate();
    connections.filter_map(move |(number, connection)| {
        connection.received.iter().find_map(|received| match received {
            Received::Connected { session: told, timeout_ms, .. } if *told == session => {
                Some((number, u64::from(*timeout_ms) * 1000))
            }
            _ => None,
        })
    })
}

/// The timeout of a session in us, and when its client's bytes arrived: those bytes that the leader
/// must have heard of before it proposed the expiry. Once a member has ended a connection, because
/// it lost contact, it hears nothing more on it, even if the client notices the end late.
fn signs_of_life(
    evidence: &Evidence<'_>,
    session: i64,
    leader: usize,
    proposed_us: u64,
) -> (u64, Vec<u64>) {
    let (mut timeout_us, mut heard_us) = (0, Vec::new());
    for (number, told_us) in connections_of(evidence, session) {
        timeout_us = told_us;
        let until_us = successor_opened_us(evidence.network, number)
            .min(bad_frame_sent_us(evidence.history, number));
        let found = &evidence.network.connections[number];
        let read_us = match found.ended_us {
            Some(ended_us) if ended_us < proposed_us => found.read_us,
            _ => u64::MAX,
        };
        let is_passed_on = |at_us: u64| {
            let is_well = |member: usize| {
                let until_us = at_us + HEARD_AT_LEADER_US_MAX;
                evidence.trouble[member].is_none_between(at_us, until_us)
            };
            evidence.waking.len() == 1 || (is_well(found.member) && is_well(leader))
        };
        let arrivals = found.arrivals_us.iter().copied();
        heard_us.extend(
            arrivals.filter(|&at_us| at_us < until_us && at_us <= read_us && is_passed_on(at_us)),
        );
    }
    (timeout_us, heard_us)
}

/// The longest silence, in us, that a server can have seen when it decided, at some time from
/// `judged_us` to `proposed_us`. It counts the server's waking time, plus what pauses may have
/// counted. The server knows of bytes `hearing_us` after their arrival, and it knows at once that
/// it gave all sessions a full timeout at `renewed_us`.
fn longest_silence(
    waking: &WakingTime,
    heard_us: &[u64],
    renewed_us: u64,
    hearing_us: u64,
    judged_us: u64,
    proposed_us: u64,
) -> u64 {
    let (judged, proposed) = (waking.before(judged_us), waking.before(proposed_us));
    let mut longest_us = 0;
    for (at, &from_us) in heard_us.iter().enumerate() {
        let until_us = heard_us.get(at + 1).copied().unwrap_or(proposed_us);
        let (from, until) = (waking.before(from_us), waking.before(until_us));
        let is_heard = from_us == renewed_us || from + hearing_us <= proposed;
        let is_over = until + hearing_us <= judged;
        if is_heard && !is_over {
            let counted_us = waking.counted_between(from_us, proposed_us);
            longest_us = longest_us.max(until - from + counted_us);
        }
    }
    longest_us
}

/// Checks that the sessions of clients that vanished at `vanished_us` have expired. `gone` gives
/// each session with its timeout in ms. They may linger for
/// [`LINGER_US_MAX`](crate::limits::LINGER_US_MAX); the caller waits for that long.
///
/// # Errors
/// A session still exists.
pub fn check_late_expiries(
    verdict: &Verdict,
    gone: impl Iterator<Item = (i64, u32)>,
    vanished_us: u64,
    tick_ms: u64,
) -> Result<(), String> {
    for (session, timeout_ms) in gone {
        if verdict.model.sessions.contains_key(&session) {
            return Err(format!(
                "session {session:#x}, whose client vanished at {vanished_us} us, lives on after \
                 its timeout of {timeout_ms} ms and a tick of {tick_ms} ms"
            ));
        }
    }
    Ok(())
}

/// Checks that all containers and znodes are removed that were due at this zxid and wall clock (in
/// ms), when clients stopped writing.
///
/// # Errors
/// A container or a znode still exists.
pub fn check_late_removals(
    verdict: &Verdict,
    zxid: i64,
    wall_ms: i64,
    never_used_ms_max: u64,
) -> Result<(), String> {
    let model = &verdict.model;
    let never_used_ms_max = i64::try_from(never_used_ms_max).unwrap_or(i64::MAX);
    for path in model.znodes.keys() {
        // If a child expired with a session, its parent may have become due only a moment ago.
        let is_old = model.stat(path).pzxid <= zxid;
        if is_old && model.is_due(path, wall_ms, never_used_ms_max) {
            return Err(format!("{path} was to go by itself, and is still there"));
        }
    }
    Ok(())
}

/// When the client of a connection opened its next one, in us. Later bytes on the old connection
/// need not count.
fn successor_opened_us(network: &Network, number: usize) -> u64 {
    let client = network.connections[number].client;
    let later = network.connections.iter().skip(number + 1);
    let next = later.filter(|connection| connection.client == client).map(|it| it.opened_us).next();
    next.unwrap_or(u64::MAX)
}

/// When a client sent a bad frame on a connection, in us. The server reads nothing behind that
/// frame, although the connection may end seconds later, behind answers that the client reads
/// slowly.
fn bad_frame_sent_us(history: &History, number: usize) -> u64 {
    let sent = history.connections[number].sent.iter().map(|op| &history.ops[*op]);
    let mut bad = sent.filter(|record| matches!(record.op, Op::BadFrame { .. }));
    bad.next().map_or(u64::MAX, |record| record.invoked.at_us)
}

#[cfg(test)]
mod tests;
