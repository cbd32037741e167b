//! Answers whether a member is healthy: `/health`, and the checks of `/livez` and `/readyz`
//! (source: `api/etcdhttp/health.go` of etcd 3.6). Also answers the service `grpc.health.v1.Health`
//! ([`serving`]).
//!
//! A question is a [`HealthCall`]. Each of its steps tells the driver what to do next: give the
//! state of the member, or read a key. A read has the deadline of any call. So on a member without
//! a leader a linearizable read fails at that deadline, and the member counts as unhealthy.

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

/// The state of a member, for the checks that read no key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberHealth {
    /// The kinds of the alarms that are raised, by name.
    pub alarms: Vec<&'static str>,
    /// Whether a leader is known.
    pub has_leader: bool,
    /// Whether the member has no vote.
    pub is_learner: bool,
}

impl MemberHealth {
    /// Reads the state of the member from its site and from the store.
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
    /// Whether the member is healthy. If not, the HTTP status is 503.
    pub is_good: bool,
    /// The body of the response.
    pub text: String,
    /// Whether the response has the header that forbids browsers to guess the type of the text, as
    /// Go's `http.Error` sets it.
    pub forbids_guesses: bool,
}

/// The next step of a question about health.
#[derive(Debug)]
pub enum HealthStep {
    /// The driver gives the state of the member to [`HealthCall::on_member`].
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
    /// Names in the query's `exclude`: alarms that `/health` ignores, or checks that a route skips.
    excluded: Vec<String>,
}

#[derive(Debug)]
enum Asked {
    /// `/health`.
    Health {
        /// Whether the read may use the state of this member without a sync.
        is_serializable: bool,
    },
    Checks(Checks),
}

/// The checks of `/livez` or `/readyz` that a client asks for.
#[derive(Debug)]
struct Checks {
    route: &'static str,
    /// The checks that are not done. The first one is under way.
    left: &'static [Check],
    /// Whether the client asks for the whole route. Only then can it exclude checks.
    is_all: bool,
    /// Whether an answer lists the checks even if all passed.
    is_verbose: bool,
    text: String,
    is_failed: bool,
}

impl HealthCall {
    /// The question of a path and its query. `None` if the path is no question about health.
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

    /// Returns the first step.
    pub fn begin(self) -> HealthStep {
        match self.asked {
            Asked::Health { .. } => HealthStep::Look(self),
            Asked::Checks(_) => self.next_check(),
        }
    }

    /// Takes the state of the member, and goes on.
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
                    // Nothing raises this alarm by itself: a member whose state differs from the
                    // others' ends its process. An operator may raise the alarm.
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

    /// Takes the result of the read, and goes on.
    pub fn on_read(self, result: Result<(), CallRefused>, counts: &HealthCounts) -> HealthStep {
        let failed = result.err().map(|refused| refused.code_and_text().1);
        match self.asked {
            Asked::Health { .. } => {
                health(failed.map(|text| format!("RANGE ERROR:{text}")), counts)
            }
            Asked::Checks(_) => self.on_checked(failed, counts),
        }
    }

    /// Takes the result of the check under way: the reason for a failure, or `None` if it passed.
    fn on_checked(mut self, failed: Option<&str>, counts: &HealthCounts) -> HealthStep {
        if let Asked::Checks(checks) = &mut self.asked {
            checks.take_result(failed, counts);
        }
        self.next_check()
    }

    /// Goes on with the next check that is not excluded, or with the answer.
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
    /// The checks that a path asks for. `None` if the path names no route and no check.
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

/// The answer of `/health` (`etcdhttp.checkHealth`). `failed` is the reason why the member is not
/// healthy; `None` if it is.
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

/// The values of a parameter, undecoded: no value that the checks know needs decoding.
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
    /// Asks for the status now.
    Check,
    /// Asks for the status now, and for each change of it.
    Watch,
    /// Asks for the status of each service.
    List,
}

/// The answer to a call of `grpc.health.v1.Health`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// This message ends the call.
    Once(Vec<u8>),
    /// This message is the only one, and the call stays open: the status never changes.
    Lasting(Vec<u8>),
    /// The service is unknown.
    UnknownService,
}

/// An encoded `HealthListResponse`: a map with one entry, "": serving. Our `health.proto` lacks
/// this message.
const LIST: [u8; 8] = [0x0a, 6, 0x0a, 0, 0x12, 2, 0x08, ServingStatus::Serving as u8];

/// Answers a call of the service `grpc.health.v1.Health`, as etcd 3.6 registers it
/// (`v3rpc/health.go`): the server as a whole serves from its first connection on, and every other
/// service is unknown. Source: the package `health` of grpc-go 1.83.
///
/// # Errors
/// The request is malformed.
pub fn serving(method: HealthMethod, request: Bytes) -> Result<Serving, CallRefused> {
    // `HealthListRequest` is empty. Decoding it as another message works, because unknown fields
    // are skipped.
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
