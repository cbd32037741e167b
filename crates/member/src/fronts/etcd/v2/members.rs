//! Serves members and statistics of etcd v2: the paths `/v2/members`, `/v2/machines` and
//! `/v2/stats`. Sources: `v2http/client.go`, `v2stats` of etcd 3.4.
//!
//! etcd's clients cannot change the members yet: a request to change them is refused, after the
//! checks that etcd makes. A request is a [`MembersCall`]. Each of its steps tells the driver what
//! to do next. The order of the checks: path and method; for a change, that the client is `root`;
//! the name of the member; the type and the form of the body; the rest.

use etcd::Error;
use etcd::pb::etcdserverpb as pb;
use machine::{Control, MemberId};

use super::super::cluster::{self, Site};
use super::super::peer_urls;
use super::clients::{Done, Presented, Work};
use super::users::{RootSearch, RootStep};

/// A request without its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembersRequest<'r> {
    /// The HTTP method.
    pub method: &'r str,
    /// The path, escaped only where a character needs it.
    pub path: &'r str,
    /// The value of the header `Content-Type`; empty if there is none.
    pub content_type: &'r str,
    /// The credentials of the client.
    pub presented: Presented,
}

/// The members as this member knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembersView {
    /// All members ([`cluster::members`](super::super::cluster::members)).
    pub members: Vec<pb::Member>,
    /// The id of the leader, as in the list; `None` if no leader is known.
    pub leader: Option<u64>,
    /// The id of this member, as in the list.
    pub own: u64,
}

impl MembersView {
    /// Reads the members from this member's site and from the replicated state.
    pub fn new(site: &Site<'_>, control: &Control) -> MembersView {
        let members = cluster::members(site, control);
        let shown = |member: u64| control.etcd_id_of(MemberId(member));
        MembersView { members, leader: site.replica.leader.map(shown), own: shown(site.member_id) }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct MembersAnswer {
    /// Whether the response has the header with the cluster's id.
    pub names_cluster: bool,
    /// The content of the answer.
    pub content: MembersContent,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum MembersContent {
    /// A list of members.
    Members(Vec<pb::Member>),
    /// One member.
    Member(pb::Member),
    /// A text with the client URLs of all members.
    Machines(String),
    /// Statistics, which the driver fills in.
    Statistics(Statistics),
    /// A refusal, with a message as the body.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The message.
        text: String,
    },
    /// The path does not support the method. If there is a text, the answer lists it as the methods
    /// that the path supports.
    NotAllowed(Option<&'static str>),
}

/// The kind of statistics that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistics {
    /// This member's statistics about itself.
    Own,
    /// The leader's statistics about its followers.
    Leader,
    /// The statistics of the store.
    Store,
}

/// The next step of a request.
#[derive(Debug)]
pub enum MembersStep {
    /// The driver does the work, and hands the result to [`MembersCall::on_done`].
    Work(MembersCall, Work),
    /// The driver hands its view of the members to [`Looking::on_view`].
    Look(Looking),
    /// The driver reads the body for [`ReadingUrls::on_body`].
    ReadUrls(ReadingUrls),
    /// The request is answered.
    Answer(MembersAnswer),
}

/// What a request asks for, once its client is permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
    Machines,
    LeaderStatistics,
    /// All members, or the member with this name.
    Members {
        method: Method,
        name: String,
        content_type: String,
    },
}

/// The HTTP methods that requests about members distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Get,
    Post,
    Put,
    Delete,
    Other,
}

impl Method {
    fn named(name: &str) -> Method {
        match name {
            "GET" => Method::Get,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "DELETE" => Method::Delete,
            _ => Method::Other,
        }
    }

    fn is_change(self) -> bool {
        matches!(self, Method::Post | Method::Put | Method::Delete)
    }
}

/// A request for a change. The search for the client's user is under way.
#[derive(Debug)]
pub struct MembersCall(RootSearch, Wish);

impl MembersCall {
    /// Takes a request and returns its first step. `None` if the path is unknown.
    pub fn begin(request: MembersRequest<'_>) -> Option<MembersStep> {
        let MembersRequest { method, path, content_type, presented } = request;
        let rest = path.strip_prefix("/v2/")?;
        let is_get = method == "GET";
        let not_allowed = |methods| answered(false, MembersContent::NotAllowed(Some(methods)));
        let statistics = |which| answered(false, MembersContent::Statistics(which));
        Some(match rest {
            "machines" if is_get || method == "HEAD" => MembersStep::Look(Looking(Wish::Machines)),
            "machines" => not_allowed("GET,HEAD"),
            "stats/self" | "stats/leader" | "stats/store" if !is_get => not_allowed("GET"),
            "stats/self" => statistics(Statistics::Own),
            "stats/leader" => MembersStep::Look(Looking(Wish::LeaderStatistics)),
            "stats/store" => statistics(Statistics::Store),
            _ => {
                let rest = rest.strip_prefix("members")?;
                let name = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
                let (name, content_type) = (name.to_string(), content_type.to_string());
                let method = Method::named(method);
                let wish = Wish::Members { method, name, content_type };
                if method.is_change() {
                    permitted(RootSearch::begin(presented), wish)
                } else {
                    MembersStep::Look(Looking(wish))
                }
            }
        })
    }

    /// Takes the result of the work, and goes on.
    pub fn on_done(self, done: Done) -> MembersStep {
        permitted(self.0.on_done(done), self.1)
    }
}

/// Maps a step of the search for the client to a step of the request.
fn permitted(step: RootStep, wish: Wish) -> MembersStep {
    match step {
        RootStep::Work(search, work) => MembersStep::Work(MembersCall(search, wish), work),
        RootStep::Permitted => MembersStep::Look(Looking(wish)),
        RootStep::Refused { status, text } => {
            answered(false, MembersContent::Refused { status, text })
        }
    }
}

fn answered(names_cluster: bool, content: MembersContent) -> MembersStep {
    MembersStep::Answer(MembersAnswer { names_cluster, content })
}

/// A request that waits for the driver's view of the cluster.
#[derive(Debug)]
pub struct Looking(Wish);

impl Looking {
    /// Takes the view, and answers or goes on.
    pub fn on_view(self, view: MembersView) -> MembersStep {
        match self.0 {
            Wish::Machines => answered(false, MembersContent::Machines(machines(view.members))),
            Wish::LeaderStatistics => {
                let content = if view.leader == Some(view.own) {
                    MembersContent::Statistics(Statistics::Leader)
                } else {
                    refused(403, "not current leader")
                };
                answered(false, content)
            }
            Wish::Members { method, name, content_type } => {
                let about = About { method, name, members: view.members };
                about.begin(view.leader, &content_type)
            }
        }
    }
}

/// The client URLs of all members, in one sorted text.
fn machines(members: Vec<pb::Member>) -> String {
    let mut urls: Vec<String> =
        members.into_iter().flat_map(|member| member.client_ur_ls).collect();
    urls.sort();
    urls.join(", ")
}

fn refused(status: u16, text: impl Into<String>) -> MembersContent {
    MembersContent::Refused { status, text: text.into() }
}

/// A request about members that has passed the check of its client.
#[derive(Debug)]
struct About {
    method: Method,
    /// The name of a member in the path; empty if the request is about all members.
    name: String,
    /// All members, as of the driver's view.
    members: Vec<pb::Member>,
}

impl About {
    /// The answer, or for a `POST` or `PUT` the step that reads the body.
    fn begin(self, leader: Option<u64>, content_type: &str) -> MembersStep {
        let content = match self.method {
            Method::Get => match &*self.name {
                "" => MembersContent::Members(self.members),
                "leader" => match leader.and_then(|id| self.by_id(id)) {
                    Some(leader) => MembersContent::Member(leader.clone()),
                    None => refused(503, "During election"),
                },
                _ => refused(404, "Not found"),
            },
            Method::Delete | Method::Put if self.name.is_empty() => {
                MembersContent::NotAllowed(None)
            }
            Method::Delete if self.named().is_none() => self.unknown(),
            Method::Delete => unchangeable(),
            Method::Put if self.id().is_none() => self.unknown(),
            Method::Post | Method::Put => match check_type(content_type) {
                Ok(()) => return MembersStep::ReadUrls(ReadingUrls(self)),
                Err(content) => content,
            },
            Method::Other => MembersContent::NotAllowed(Some("GET,POST,DELETE,PUT")),
        };
        answered(true, content)
    }

    fn by_id(&self, id: u64) -> Option<&pb::Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// The member id that the name in the path is, in hex. `None` if it is no id.
    fn id(&self) -> Option<u64> {
        u64::from_str_radix(&self.name, 16).ok().filter(|_| !self.name.starts_with('+'))
    }

    /// The member that the path names.
    fn named(&self) -> Option<&pb::Member> {
        self.id().and_then(|id| self.by_id(id))
    }

    fn unknown(&self) -> MembersContent {
        refused(404, format!("No such member: {}", self.name))
    }
}

fn unchangeable() -> MembersContent {
    refused(500, Error::MemberNotEnoughStarted.text())
}

/// Refuses a body of another type than JSON.
fn check_type(content_type: &str) -> Result<(), MembersContent> {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let text = format!("Bad Content-Type {media_type}, accept application/json");
    Err(refused(415, text))
}

/// A request that waits for its body, which has the URLs of a member.
#[derive(Debug)]
pub struct ReadingUrls(About);

/// The reason why a body has no URLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadUrls {
    /// The body is too large, too slow or cut off.
    Missing,
    /// The body is no JSON; the text has the position.
    NoJson(String),
    /// `peerURLs` is no list of strings.
    NoTexts,
}

impl BadUrls {
    fn text(self) -> String {
        match self {
            BadUrls::Missing => "the body is too large, too slow, or cut off".to_string(),
            BadUrls::NoJson(text) => text,
            BadUrls::NoTexts => "peerURLs is no list of texts".to_string(),
        }
    }
}

impl ReadingUrls {
    /// Takes the URLs in the body's `peerURLs`, and answers. The list is empty if the body has
    /// none.
    pub fn on_body(self, urls: Result<Vec<String>, BadUrls>) -> MembersStep {
        let checked = urls.map_err(BadUrls::text).and_then(|urls| peer_urls::checked(&urls));
        let about = &self.0;
        let has = |urls: &[String], member: &pb::Member| {
            member.peer_ur_ls.iter().any(|url| urls.contains(url))
        };
        let content = match checked {
            Err(text) => refused(400, text),
            Ok(_) if about.method == Method::Put && about.named().is_none() => about.unknown(),
            Ok(urls)
                if about.method == Method::Post
                    && about.members.iter().any(|member| has(&urls, member)) =>
            {
                refused(409, "etcdserver: Peer URLs already exists")
            }
            Ok(_) => unchangeable(),
        };
        answered(true, content)
    }
}

#[cfg(test)]
mod tests;
