//! An operator's changes of the members: adds, removals, other URLs, promotions of learners. The
//! operator notes each call with its outcome, for the judge.

use bytes::Bytes;
use etcd::Error;
use etcd::pb::{Message, etcdserverpb as pb};
use member::fronts::etcd::{CallRefused, ClusterMethod};
use workload::etcd::history::CallId;
use workload::generate::Random;

use super::network::SentResult;

/// The most servers that one operator adds in a run: the world has few machines.
const ADDS_MAX: u64 = 3;

/// How an operator changes members.
#[derive(Clone, Debug)]
pub struct ChangerConfig {
    /// A number that no other operator of the run has.
    pub number: u64,
    /// The seed of the operator's random choices.
    pub seed: u64,
    /// The number of calls that the operator makes.
    pub calls: u64,
    /// The longest pause between two calls, in us.
    pub rest_us_max: u64,
}

/// A change that an operator asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A new server at this URL.
    Add {
        /// The URL; no two calls of a run have the same, unless the call is to be refused.
        url: String,
        /// Whether the server gets no vote yet.
        is_learner: bool,
    },
    /// The server with this id leaves.
    Remove(u64),
    /// The server with this id gets this URL.
    Update(u64, String),
    /// The server with this id becomes a voter.
    Promote(u64),
}

/// The outcome of a call, as the operator knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The change was made.
    Done,
    /// The change was not made, and will not be.
    Refused(CallRefused),
}

/// A call that changes the members.
#[derive(Clone, Debug)]
pub struct ChangeCall {
    /// The id of the call.
    pub id: CallId,
    /// What it asks for.
    pub asked: Asked,
    /// When the call was made, in us.
    pub asked_us: u64,
    /// The outcome, and when the operator learned it, in us; `None` if it did not.
    pub came: Option<(u64, Came)>,
}

/// A member in the last list that the operator has seen.
#[derive(Clone, Debug)]
struct Listed {
    id: u64,
    is_learner: bool,
    has_started: bool,
    url: String,
}

/// The part of an operator that changes members.
pub struct Changer {
    number: u64,
    random: Random,
    adds_left: u64,
    url_count: u64,
    listed: Vec<Listed>,
    calls: Vec<ChangeCall>,
    done_count: u64,
}

/// The methods that change the members.
pub const CHANGES: [ClusterMethod; 4] = [
    ClusterMethod::MemberAdd,
    ClusterMethod::MemberRemove,
    ClusterMethod::MemberUpdate,
    ClusterMethod::MemberPromote,
];

impl Changer {
    /// A changer that has made no call.
    pub fn new(config: &ChangerConfig) -> Changer {
        let (number, random) = (config.number, Random::new(config.seed));
        let (adds_left, url_count) = (ADDS_MAX, 0);
        let (listed, calls, done_count) = (Vec::new(), Vec::new(), 0);
        Changer { number, random, adds_left, url_count, listed, calls, done_count }
    }

    /// The calls so far, in order.
    pub fn calls(&self) -> &[ChangeCall] {
        &self.calls
    }

    /// How many calls were answered as done.
    pub fn done_count(&self) -> u64 {
        self.done_count
    }

    /// Draws the next change; `None` if the operator is to ask for something else.
    pub fn draw(&mut self) -> Option<(ClusterMethod, Bytes)> {
        if self.listed.is_empty() || self.random.one_in(5) {
            return None;
        }
        let one = self.random.pick(&self.listed).clone();
        let id = if self.random.one_in(20) { self.random.below(8) } else { one.id };
        let learner = self.listed.iter().find(|it| it.is_learner).map(|it| it.id);
        let asked = match self.random.below(16) {
            0..6 if self.adds_left > 0 && self.listed.len() < 7 => {
                self.adds_left -= 1;
                let is_old = self.random.one_in(10);
                let url = if is_old { one.url } else { self.new_url() };
                Asked::Add { url, is_learner: self.random.one_in(3) }
            }
            6..8 => {
                let is_old = self.random.one_in(6);
                let url = if is_old { one.url } else { self.new_url() };
                Asked::Update(id, url)
            }
            8..11 if learner.is_some() => Asked::Promote(learner.unwrap_or(id)),
            8 => Asked::Promote(id),
            // A server that never came is removed again, mostly.
            _ => {
                let absent = self.listed.iter().find(|it| !it.has_started).map(|it| it.id);
                Asked::Remove(absent.filter(|_| self.random.one_in(2)).unwrap_or(id))
            }
        };
        Some(encoded(&asked))
    }

    fn new_url(&mut self) -> String {
        self.url_count += 1;
        format!("http://10.{}.{}.1:2380", self.number, self.url_count)
    }

    /// A call that changes the members was made.
    pub fn on_sent(
        &mut self,
        id: CallId,
        (method, request): (ClusterMethod, &Bytes),
        asked_us: u64,
    ) {
        if let Some(asked) = decoded(method, request.clone()) {
            self.calls.push(ChangeCall { id, asked, asked_us, came: None });
        }
    }

    /// The result of a call that changes the members.
    ///
    /// # Errors
    /// No correct member gives this result.
    pub fn on_result(
        &mut self,
        id: CallId,
        method: ClusterMethod,
        result: &SentResult,
        now_us: u64,
    ) -> Result<(), String> {
        let bytes = match result {
            Err(refused) => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.id == id)
                    && is_definite(*refused)?
                {
                    call.came = Some((now_us, Came::Refused(*refused)));
                }
                return Ok(());
            }
            Ok(response) => Bytes::copy_from_slice(response),
        };
        let malformed = |error: etcd::pb::DecodeError| error.to_string();
        let members = match method {
            ClusterMethod::MemberAdd => {
                let response = pb::MemberAddResponse::decode(bytes).map_err(malformed)?;
                response.members
            }
            ClusterMethod::MemberRemove => {
                pb::MemberRemoveResponse::decode(bytes).map_err(malformed)?.members
            }
            ClusterMethod::MemberUpdate => {
                pb::MemberUpdateResponse::decode(bytes).map_err(malformed)?.members
            }
            _ => pb::MemberPromoteResponse::decode(bytes).map_err(malformed)?.members,
        };
        let Some(call) = self.calls.iter_mut().find(|call| call.id == id) else { return Ok(()) };
        call.came = Some((now_us, Came::Done));
        self.done_count += 1;
        self.on_list(&members);
        Ok(())
    }

    /// A list of the members came.
    pub fn on_list(&mut self, members: &[pb::Member]) {
        let listed = |member: &pb::Member| Listed {
            id: member.id,
            is_learner: member.is_learner,
            has_started: !member.name.is_empty(),
            url: member.peer_ur_ls.first().cloned().unwrap_or_default(),
        };
        self.listed = members.iter().map(listed).collect();
    }
}

fn encoded(asked: &Asked) -> (ClusterMethod, Bytes) {
    let (method, bytes) = match asked.clone() {
        Asked::Add { url, is_learner } => {
            let request = pb::MemberAddRequest { peer_ur_ls: vec![url], is_learner };
            (ClusterMethod::MemberAdd, request.encode_to_vec())
        }
        Asked::Remove(id) => {
            (ClusterMethod::MemberRemove, pb::MemberRemoveRequest { id }.encode_to_vec())
        }
        Asked::Update(id, url) => {
            let request = pb::MemberUpdateRequest { id, peer_ur_ls: vec![url] };
            (ClusterMethod::MemberUpdate, request.encode_to_vec())
        }
        Asked::Promote(id) => {
            (ClusterMethod::MemberPromote, pb::MemberPromoteRequest { id }.encode_to_vec())
        }
    };
    (method, bytes.into())
}

/// What a request asks for; `None` if it changes no members.
fn decoded(method: ClusterMethod, request: Bytes) -> Option<Asked> {
    let url = |urls: Vec<String>| urls.into_iter().next().unwrap_or_default();
    Some(match method {
        ClusterMethod::MemberAdd => {
            let request = pb::MemberAddRequest::decode(request).ok()?;
            Asked::Add { url: url(request.peer_ur_ls), is_learner: request.is_learner }
        }
        ClusterMethod::MemberRemove => {
            Asked::Remove(pb::MemberRemoveRequest::decode(request).ok()?.id)
        }
        ClusterMethod::MemberUpdate => {
            let request = pb::MemberUpdateRequest::decode(request).ok()?;
            Asked::Update(request.id, url(request.peer_ur_ls))
        }
        ClusterMethod::MemberPromote => {
            Asked::Promote(pb::MemberPromoteRequest::decode(request).ok()?.id)
        }
        _ => return None,
    })
}

/// Whether an error says that the change was not made, and will not be.
///
/// # Errors
/// No change of members can fail with this error.
fn is_definite(refused: CallRefused) -> Result<bool, String> {
    match refused {
        CallRefused::Error(
            Error::MemberNotEnoughStarted
            | Error::MemberNotFound
            | Error::PeerUrlExists
            | Error::MemberBadUrls
            | Error::TooManyLearners
            | Error::MemberNotLearner
            | Error::LearnerNotReady
            | Error::Unhealthy,
        )
        | CallRefused::Unknown(_) => Ok(true),
        refused => match super::wire::decode_error(&refused)? {
            workload::etcd::op::Error::TimedOut => Ok(false),
            _ => Ok(true),
        },
    }
}
