//! Whether a member is healthy: `/health`, and the checks of `/livez` and `/readyz`. Source:
//! `api/etcdhttp/health.go` of etcd 3.6. And the service `grpc.health.v1.Health`: [`serving`].
//!
//! A question is a [`HealthCall`], whose steps say what the driver has to do next: say how the
//! member is, or have a key read. The read takes as long as any call may, so a member without a
//! leader fails in that time.

mod counts;

use bytes::Bytes;
use etcd::pb::health::health_check_response::ServingStatus;
use etcd::pb::health::{HealthCheckRequest, HealthCheckResponse};
use etcd::pb::{Message, etcdserverpb as pb};
use machine::etcd::store::Store;

use super::cluster::Site;
use super::method::CallRefused;
use counts::{Check, ROUTES};

pub use counts::{CheckCount, HealthCounts};

/// The key that is read. It need not exist.
const KEY: &str = "health";

/// The state of a member, for the checks that need no read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberHealth {
    /// The names of the kinds of alarms that are raised.
    pub alarms: Vec<&'static str>,
    /// Whether a leader is known.
    pub has_leader: bool,
    /// Whether the member has no vote.
    pub is_learner: bool,
}

impl MemberHealth {
    /// The state of the member at a site whose keys are in this store.
    pub fn new(site: &Site<'_>, store: &Store) -> MemberHealth {
        MemberHealth {
            alarms: store.alarms().iter().map(|alarm| alarm.kind.name()).collect(),
            has_leader: site.replica.leader.is_some(),
            is_learner: !site.is_alone && !site.replica.voters.contains(&site.member_id),
        }
    }
}

/// The answer to a question about health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthAnswer {
    /// Whether the member is healthy; else the status is 503.
    pub is_good: bool,
    /// The text.
    pub text: String,
    /// Whether browsers must not guess the type of the text, as Go's `http.Error` says.
    pub forbids_guesses: bool,
}

/// How a question goes on.
#[derive(Debug)]
pub enum HealthStep {
    /// The driver says how the member is, with [`HealthCall::on_member`].
    Look(HealthCall),
    /// The driver runs `KV.Range` with these bytes for the member itself
    /// ([`Credentials::Member`](super::Credentials::Member)), and hands over the result with
    /// [`HealthCall::on_read`].
    Read(HealthCall, Bytes),
    /// The question is answered.
    Answer(HealthAnswer),
}

/// A question about health.
#[derive(Debug)]
pub struct HealthCall {
    asked: Asked,
    /// Names that the client leaves out: of alarms, or of checks of a route.
    excluded: Vec<String>,
}

#[derive(Debug)]
enum Asked {
    /// `/health`.
    Health {
        /// Whether the read may be of the state of this member as it is.
        is_serializable: bool,
    },
    Checks(Checks),
}

/// The checks of `/livez` or `/readyz` that are asked for.
#[derive(Debug)]
struct Checks {
    route: &'static str,
    /// The checks that are not made yet; the first one is under way.
    left: &'static [Check],
    /// Whether all of the route are asked for: only then checks may be left out.
    is_all: bool,
    /// Whether a good answer shows each check.
    is_verbose: bool,
    text: String,
    is_failed: bool,
}

impl HealthCall {
    /// The question that a path and its query ask. `None` if the path asks none.
    pub fn at(path: &str, query: Option<&str>) -> Option<HealthCall> {
        let asked = if path == "/health" {
            let serializable = values(query, "serializable").next();
            Asked::Health { is_serializable: serializable == Some("true") }
        } else {
            Asked::Checks(Checks::at(path, values(query, "verbose").next().is_some())?)
        };
        let excluded = values(query, "exclude").map(str::to_string).collect();
        Some(HealthCall { asked, excluded })
    }

    /// Begins.
    pub fn begin(self) -> HealthStep {
        match self.asked {
            Asked::Health { .. } => HealthStep::Look(self),
            Asked::Checks(_) => self.next_check(),
        }
    }

    /// Takes the state of the member.
    pub fn on_member(self, member: &MemberHealth, counts: &HealthCounts) -> HealthStep {
        match &self.asked {
            Asked::Health { is_serializable } => {
                let is_excluded = |alarm: &&&str| self.excluded.iter().any(|it| it == **alarm);
                let alarm = member.alarms.iter().find(|alarm| !is_excluded(alarm));
                if let Some(alarm) = alarm {
                    return health(Some(format!("ALARM {alarm}")), counts);
                }
                if !is_serializable && !member.has_leader {
                    return health(Some("RAFT NO LEADER".to_string()), counts);
                }
                let request = range(*is_serializable);
                HealthStep::Read(self, request)
            }
            Asked::Checks(checks) => {
                let failed = match checks.left.first() {
                    // A member whose state differs from that of the others ends its process; an
                    // operator may raise the alarm.
                    Some(Check::DataCorruption) if member.alarms.contains(&"CORRUPT") => {
                        Some("alarm activated: CORRUPT")
                    }
                    Some(Check::NonLearner) if member.is_learner => {
                        Some("the local server is a learner")
                    }
                    _ => None,
                };
                self.on_checked(failed, counts)
            }
        }
    }

    /// Takes the result of the read.
    pub fn on_read(self, result: Result<(), CallRefused>, counts: &HealthCounts) -> HealthStep {
        let failed = result.err().map(|refused| refused.code_and_text().1);
        match self.asked {
            Asked::Health { .. } => {
                health(failed.map(|text| format!("RANGE ERROR:{text}")), counts)
            }
            Asked::Checks(_) => self.on_checked(failed, counts),
        }
    }

    /// Takes the result of the first of the checks that are left: why it failed, if it did.
    fn on_checked(mut self, failed: Option<&str>, counts: &HealthCounts) -> HealthStep {
        if let Asked::Checks(checks) = &mut self.asked {
            checks.take_result(failed, counts);
        }
        self.next_check()
    }

    /// Goes on with the next check that is not left out.
    fn next_check(mut self) -> HealthStep {
        let Asked::Checks(checks) = &mut self.asked else { return HealthStep::Look(self) };
        while let Some(check) = checks.left.first() {
            if !checks.is_all || self.excluded.iter().all(|name| name != check.name()) {
                return match check {
                    Check::DataCorruption | Check::NonLearner => HealthStep::Look(self),
                    Check::SerializableRead => HealthStep::Read(self, range(true)),
                    Check::LinearizableRead => HealthStep::Read(self, range(false)),
                };
            }
            checks.left = &checks.left[1..];
        }
        HealthStep::Answer(checks.answer())
    }
}

impl Checks {
    /// The checks that a path asks for. `None` if it is no path of a check.
    fn at(path: &str, is_verbose: bool) -> Option<Checks> {
        let (text, is_failed) = (String::new(), false);
        ROUTES.iter().find_map(|(route, checks)| {
            let rest = path.strip_prefix('/')?.strip_prefix(route)?;
            let (left, is_all) = if rest.is_empty() {
                (*checks, true)
            } else {
                let name = rest.strip_prefix('/');
                let at = checks.iter().position(|it| Some(it.name()) == name)?;
                (&checks[at..=at], false)
            };
            Some(Checks { route, left, is_all, is_verbose, text: text.clone(), is_failed })
        })
    }

    fn take_result(&mut self, failed: Option<&str>, counts: &HealthCounts) {
        let Some((check, left)) = self.left.split_first() else { return };
        counts.count(self.route, *check, failed.is_none());
        self.text += &match failed {
            None => format!("[+]{} ok\n", check.name()),
            Some(why) => format!("[-]{} failed: {why}\n", check.name()),
        };
        self.is_failed |= failed.is_some();
        self.left = left;
    }

    fn answer(&mut self) -> HealthAnswer {
        let shown = core::mem::take(&mut self.text);
        let text = if self.is_failed {
            shown + "\n"
        } else if self.is_verbose {
            shown + "ok\n"
        } else {
            "ok\n".to_string()
        };
        HealthAnswer { is_good: !self.is_failed, text, forbids_guesses: true }
    }
}

/// The answer of `/health` (`etcdhttp.checkHealth`): why the member is not healthy, if it is not.
fn health(failed: Option<String>, counts: &HealthCounts) -> HealthStep {
    counts.count_health(failed.is_none());
    HealthStep::Answer(match failed {
        None => HealthAnswer {
            is_good: true,
            text: "{\"health\":\"true\",\"reason\":\"\"}".to_string(),
            forbids_guesses: false,
        },
        Some(reason) => HealthAnswer {
            is_good: false,
            text: format!("{{\"health\":\"false\",\"reason\":\"{reason}\"}}\n"),
            forbids_guesses: true,
        },
    })
}

fn range(serializable: bool) -> Bytes {
    let request = pb::RangeRequest { key: KEY.into(), serializable, ..Default::default() };
    request.encode_to_vec().into()
}

/// The values of a parameter. None is decoded: no value that we know needs that.
fn values<'q>(query: Option<&'q str>, name: &'q str) -> impl Iterator<Item = &'q str> {
    let pairs = query.unwrap_or_default().split('&');
    pairs.filter_map(move |pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}

/// A method of `grpc.health.v1.Health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthMethod {
    /// The status now.
    Check,
    /// The status, and each other one from then on.
    Watch,
    /// The status of each service.
    List,
}

/// The answer to a call of `grpc.health.v1.Health`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// This message.
    Once(Vec<u8>),
    /// This message, and no other as long as the client waits: the status never changes.
    Lasting(Vec<u8>),
    /// There is no such service.
    UnknownService,
}

/// The `HealthListResponse`: a map with the entry "": serving. Our `health.proto` does not have
/// the message.
const LIST: [u8; 8] = [0x0a, 6, 0x0a, 0, 0x12, 2, 0x08, ServingStatus::Serving as u8];

/// Answers a call of the service `grpc.health.v1.Health`, as etcd 3.6 registers it
/// (`v3rpc/health.go`): the server as a whole is serving from the first connection on, and no other
/// service is known. Source: the package `health` of grpc-go 1.83.
///
/// # Errors
/// The request is malformed.
pub fn serving(method: HealthMethod, request: Bytes) -> Result<Serving, CallRefused> {
    // `HealthListRequest` is empty, and any message is one with fields that are not known.
    let request = HealthCheckRequest::decode(request).map_err(|_| CallRefused::Malformed)?;
    let is_server = request.service.is_empty();
    let encoded =
        |status: ServingStatus| HealthCheckResponse { status: status.into() }.encode_to_vec();
    Ok(match method {
        HealthMethod::Check if is_server => Serving::Once(encoded(ServingStatus::Serving)),
        HealthMethod::Check => Serving::UnknownService,
        HealthMethod::Watch if is_server => Serving::Lasting(encoded(ServingStatus::Serving)),
        HealthMethod::Watch => Serving::Lasting(encoded(ServingStatus::ServiceUnknown)),
        HealthMethod::List => Serving::Once(LIST.to_vec()),
    })
}

#[cfg(test)]
mod tests;
