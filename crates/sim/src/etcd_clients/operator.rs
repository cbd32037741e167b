//! An operator: a client that asks members about the cluster, about themselves and for hashes of
//! the keys, and moves leadership; one call at a time. It checks each answer by itself and against
//! other members' answers. It notes the successful moves, which the judge compares with the leaders
//! that the witness saw.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use etcd::Error;
use etcd::pb::etcdserverpb::alarm_request::AlarmAction;
use etcd::pb::{Message, etcdserverpb as pb};
use etcd::versions::ETCD_VERSION;
use member::fronts::etcd::{CallRefused, ClusterMethod, EtcdMethod};
use workload::etcd::history::CallId;
use workload::generate::Random;

use super::changer::{CHANGES, Changer, ChangerConfig};
use super::network::SentResult;
use super::wire::{self, Served};

/// The most calls that an operator still makes after the faults have stopped.
const CALM_CALLS_MAX: u64 = 10;

/// How an operator behaves.
#[derive(Clone, Debug)]
pub struct OperatorConfig {
    /// The seed of the operator's random choices.
    pub seed: u64,
    /// The number of calls that the operator makes.
    pub calls: u64,
    /// The longest pause between two calls, in us.
    pub rest_us_max: u64,
    /// Whether the operator often asks for alarms and disarms them.
    pub disarms: bool,
    /// How the operator changes members; `None` if members cannot be changed in the run.
    pub changes: Option<ChangerConfig>,
}

/// A move of leadership that was answered as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The id of the member that had to lead.
    pub target: u64,
    /// When the operator asked for the move, in us.
    pub asked_us: u64,
    /// When the answer arrived, in us.
    pub answered_us: u64,
}

/// Counts of an operator's calls by their result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorCounts {
    /// Lists of members.
    pub lists: usize,
    /// Answers of a member about itself.
    pub statuses: usize,
    /// Moves of leadership answered as done.
    pub moves: usize,
    /// Moves that were refused, or took too long.
    pub moves_refused: usize,
    /// Hashes of one revision that two members gave.
    pub hashes_compared: usize,
    /// Changes of members that were refused, as they must be.
    pub unchangeable: usize,
    /// Calls whose answer was lost.
    pub lost: usize,
}

impl OperatorCounts {
    /// Adds the counts of another operator.
    pub fn add(&mut self, other: &OperatorCounts) {
        self.lists += other.lists;
        self.statuses += other.statuses;
        self.moves += other.moves;
        self.moves_refused += other.moves_refused;
        self.hashes_compared += other.hashes_compared;
        self.unchangeable += other.unchangeable;
        self.lost += other.lost;
    }
}

/// An act that the operator's client must carry out.
#[derive(Debug)]
pub enum OperatorAct {
    /// Make a call.
    Call(EtcdMethod, Bytes),
    /// Leave the connection, for another member.
    Leave,
}

/// The open call.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: CallId,
    method: EtcdMethod,
    /// For a move, the member that must lead; for an alarm, the member whose alarm must end;
    /// otherwise 0.
    target: u64,
    at_us: u64,
}

/// One operator.
pub struct Operator {
    random: Random,
    calls_left: u64,
    rest_us_max: u64,
    disarms: bool,
    /// The members with a raised alarm, by the last answer.
    alarmed: Vec<u64>,
    next_us: u64,
    asked: Option<Asked>,
    /// The member ids in the last list of members.
    ids: Vec<u64>,
    /// The revision of the last hash.
    hashed_revision: i64,
    /// For each pair of a revision and a compacted revision, the hash of the keys and the id of the
    /// member that gave it.
    hashes: BTreeMap<(i64, i64), (u32, u64)>,
    moves: Vec<Moved>,
    /// Changes members; `None` if members cannot be changed in the run.
    changer: Option<Changer>,
    /// Counts of its calls by their result.
    pub counts: OperatorCounts,
}

impl Operator {
    /// An operator that has made no call.
    pub fn new(config: OperatorConfig) -> Operator {
        let mut random = Random::new(config.seed);
        Operator {
            next_us: random.magnitude(1, config.rest_us_max),
            random,
            calls_left: config.calls,
            rest_us_max: config.rest_us_max,
            disarms: config.disarms,
            alarmed: Vec::new(),
            asked: None,
            ids: Vec::new(),
            hashed_revision: 0,
            hashes: BTreeMap::new(),
            moves: Vec::new(),
            changer: config.changes.as_ref().map(Changer::new),
            counts: OperatorCounts::default(),
        }
    }

    /// Whether the operator has made all its calls and waits for no answer.
    pub fn is_done(&self) -> bool {
        self.calls_left == 0 && self.asked.is_none()
    }

    /// Limits the calls that it still makes.
    pub fn calm_down(&mut self) {
        self.calls_left = self.calls_left.min(CALM_CALLS_MAX);
    }

    /// The operator's state, as text for people.
    pub fn describe(&self) -> String {
        format!("operator: {} calls left, {:?}", self.calls_left, self.asked)
    }

    /// When the operator must be polled next, in us.
    pub fn wakes_us(&self) -> u64 {
        let waits = self.calls_left == 0 || self.asked.is_some();
        if waits { u64::MAX } else { self.next_us }
    }

    /// The moves of leadership that were answered as done.
    pub fn moves(&self) -> &[Moved] {
        &self.moves
    }

    /// The part that changes members; `None` if members cannot be changed in the run.
    pub fn changer(&self) -> Option<&Changer> {
        self.changer.as_ref()
    }

    /// The next act of the client; `None` if nothing is due. The caller reports a call with
    /// [`Operator::on_sent`].
    pub fn poll(&mut self, now_us: u64) -> Option<OperatorAct> {
        if self.calls_left == 0 || self.asked.is_some() || now_us < self.next_us {
            return None;
        }
        self.calls_left -= 1;
        if self.random.one_in(6) {
            self.rest(now_us);
            return Some(OperatorAct::Leave);
        }
        let (method, request) = self.draw();
        Some(OperatorAct::Call(method, request))
    }

    fn draw(&mut self) -> (EtcdMethod, Bytes) {
        let of = |method, message: Vec<u8>| (method, Bytes::from(message));
        let cluster = |method, message: Vec<u8>| of(EtcdMethod::Cluster(method), message);
        let change = self.changer.as_mut().and_then(Changer::draw);
        if let Some((method, request)) = change {
            return (EtcdMethod::Cluster(method), request);
        }
        let id = self.pick();
        if self.disarms && self.random.one_in(2) {
            let request = self.alarmed.pop().map(|member_id| pb::AlarmRequest {
                action: AlarmAction::Deactivate as i32,
                member_id,
                alarm: pb::AlarmType::Nospace as i32,
            });
            return of(EtcdMethod::Alarm, request.unwrap_or_default().encode_to_vec());
        }
        let urls = vec!["http://10.9.9.9:2380".to_string()];
        match self.random.below(16) {
            0..3 => {
                let linearizable = !self.random.one_in(3);
                let request = pb::MemberListRequest { linearizable };
                cluster(ClusterMethod::MemberList, request.encode_to_vec())
            }
            3..5 => cluster(ClusterMethod::Status, pb::StatusRequest::default().encode_to_vec()),
            5..8 => {
                let request = pb::MoveLeaderRequest { target_id: id };
                cluster(ClusterMethod::MoveLeader, request.encode_to_vec())
            }
            8..12 => {
                let revision = if self.random.one_in(2) { 0 } else { self.hashed_revision };
                of(EtcdMethod::HashKv, pb::HashKvRequest { revision }.encode_to_vec())
            }
            12 => of(EtcdMethod::Alarm, pb::AlarmRequest::default().encode_to_vec()),
            13 => of(EtcdMethod::LeaseLeases, pb::LeaseLeasesRequest {}.encode_to_vec()),
            14 => {
                let request = pb::MemberAddRequest { peer_ur_ls: urls, is_learner: false };
                cluster(ClusterMethod::MemberAdd, request.encode_to_vec())
            }
            _ => {
                let request = pb::MemberRemoveRequest { id };
                cluster(ClusterMethod::MemberRemove, request.encode_to_vec())
            }
        }
    }

    /// Draws the id of a member, or one that no member has.
    fn pick(&mut self) -> u64 {
        match self.ids.is_empty() || self.random.one_in(8) {
            true => self.random.below(8),
            false => *self.random.pick(&self.ids),
        }
    }

    /// The operator's call was made.
    pub fn on_sent(&mut self, id: CallId, (method, request): (EtcdMethod, &Bytes), now_us: u64) {
        let target = match method {
            EtcdMethod::Cluster(ClusterMethod::MoveLeader) => {
                let request = pb::MoveLeaderRequest::decode(request.clone());
                request.expect("it was just encoded").target_id
            }
            EtcdMethod::Alarm => {
                let request = pb::AlarmRequest::decode(request.clone());
                request.expect("it was just encoded").member_id
            }
            _ => 0,
        };
        if let (Some(changer), EtcdMethod::Cluster(of)) = (&mut self.changer, method) {
            changer.on_sent(id, (of, request), now_us);
        }
        self.asked = Some(Asked { id, method, target, at_us: now_us });
    }

    /// A call was given up (`Some`), or the connection is gone (`None`).
    pub fn on_lost(&mut self, id: Option<CallId>, now_us: u64) {
        if self.asked.take_if(|asked| id.is_none_or(|id| asked.id == id)).is_some() {
            self.counts.lost += 1;
            self.rest(now_us);
        }
    }

    fn rest(&mut self, now_us: u64) {
        self.next_us = now_us + self.random.magnitude(1, self.rest_us_max);
    }

    /// If the result belongs to the operator's call, checks it.
    ///
    /// # Errors
    /// No correct member gives this result.
    pub fn on_result(
        &mut self,
        id: CallId,
        result: &SentResult,
        by: Served,
        now_us: u64,
    ) -> Result<(), String> {
        let Some(asked) = self.asked.take_if(|asked| asked.id == id) else { return Ok(()) };
        self.rest(now_us);
        if let (Some(changer), EtcdMethod::Cluster(method)) = (&mut self.changer, asked.method)
            && CHANGES.contains(&method)
        {
            return changer
                .on_result(id, method, result, now_us)
                .map_err(|why| format!("{method:?} at member {:x}: {why}", by.member_id));
        }
        let took = match result {
            Ok(response) => self.on_response(asked, Bytes::copy_from_slice(response), by, now_us),
            Err(refused) => self.on_refused(asked.method, *refused),
        };
        took.map_err(|why| format!("{:?} at member {:x}: {why}", asked.method, by.member_id))
    }

    fn on_refused(&mut self, method: EtcdMethod, refused: CallRefused) -> Result<(), String> {
        let is_move = method == EtcdMethod::Cluster(ClusterMethod::MoveLeader);
        let changes =
            [ClusterMethod::MemberAdd, ClusterMethod::MemberRemove].map(EtcdMethod::Cluster);
        match refused {
            CallRefused::Error(Error::NotLeader | Error::BadLeaderTransferee) if is_move => {
                self.counts.moves_refused += 1;
            }
            CallRefused::Unknown(_) if is_move => self.counts.moves_refused += 1,
            CallRefused::Error(
                Error::MemberNotEnoughStarted | Error::MemberNotFound | Error::PeerUrlExists,
            ) if changes.contains(&method) => self.counts.unchangeable += 1,
            CallRefused::Error(Error::Compacted | Error::FutureRevision)
                if method == EtcdMethod::HashKv => {}
            refused => drop(wire::decode_error(&refused)?),
        }
        Ok(())
    }

    fn on_response(
        &mut self,
        asked: Asked,
        response: Bytes,
        by: Served,
        now_us: u64,
    ) -> Result<(), String> {
        match asked.method {
            EtcdMethod::Cluster(ClusterMethod::MemberList) => self.on_list(decode(response)?, by),
            EtcdMethod::Cluster(ClusterMethod::Status) => self.on_status(decode(response)?, by),
            EtcdMethod::Cluster(ClusterMethod::MoveLeader) => {
                let pb::MoveLeaderResponse { .. } = decode(response)?;
                let Asked { target, at_us, .. } = asked;
                self.moves.push(Moved { target, asked_us: at_us, answered_us: now_us });
                self.counts.moves += 1;
                Ok(())
            }
            EtcdMethod::HashKv => self.on_hash(decode(response)?, by),
            EtcdMethod::Alarm => {
                let pb::AlarmResponse { alarms, .. } = decode(response)?;
                let is_known = |alarm: &pb::AlarmMember| {
                    self.disarms && alarm.alarm == pb::AlarmType::Nospace as i32
                };
                if !alarms.iter().all(is_known) {
                    return Err(format!("alarms that nothing raised: {alarms:?}"));
                }
                // The answer to a disarmed alarm contains that alarm.
                if asked.target == 0 {
                    self.alarmed = alarms.iter().map(|alarm| alarm.member_id).collect();
                }
                Ok(())
            }
            EtcdMethod::LeaseLeases => {
                let response: pb::LeaseLeasesResponse = decode(response)?;
                check_unique(response.leases.iter().map(|lease| lease.id as u64))
            }
            _ => Err("a change of the members is answered as done".to_string()),
        }
    }

    fn on_list(&mut self, response: pb::MemberListResponse, by: Served) -> Result<(), String> {
        wire::revision(response.header, Some(by))?;
        self.counts.lists += 1;
        self.ids = response.members.iter().map(|member| member.id).collect();
        if self.ids.is_empty() {
            return Err("there is no member".to_string());
        }
        self.changer.iter_mut().for_each(|changer| changer.on_list(&response.members));
        check_unique(self.ids.iter().copied())
    }

    fn on_status(&mut self, response: pb::StatusResponse, by: Served) -> Result<(), String> {
        wire::revision(response.header, Some(by))?;
        self.counts.statuses += 1;
        let no_leader = Error::NoLeader.text();
        let says_no_leader = response.errors.iter().any(|error| error == no_leader);
        let is_right = response.version == ETCD_VERSION
            && response.raft_applied_index <= response.raft_index
            && response.db_size > 0
            && says_no_leader == (response.leader == 0);
        if is_right { Ok(()) } else { Err(format!("{response:?}")) }
    }

    /// Two members with the same revisions must have the same keys. One member's own hashes are not
    /// compared: it may have installed a snapshot between them.
    fn on_hash(&mut self, response: pb::HashKvResponse, by: Served) -> Result<(), String> {
        wire::revision(response.header, Some(by))?;
        let pb::HashKvResponse { hash, compact_revision, hash_revision, .. } = response;
        self.hashed_revision = hash_revision;
        let found = self.hashes.insert((hash_revision, compact_revision), (hash, by.member_id));
        let Some((other, member)) = found.filter(|(_, member)| *member != by.member_id) else {
            return Ok(());
        };
        self.counts.hashes_compared += 1;
        if other == hash {
            return Ok(());
        }
        Err(format!("at revision {hash_revision} the hash is not that of member {member:x}"))
    }
}

fn decode<M: Message + Default>(response: Bytes) -> Result<M, String> {
    M::decode(response).map_err(|error| error.to_string())
}

fn check_unique(ids: impl Iterator<Item = u64>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(format!("{id:x} is there twice"));
        }
    }
    Ok(())
}
