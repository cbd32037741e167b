//! Random calls about the members: lists, and changes that a single-member cluster takes or
//! refuses.
//!
//! A call that succeeds adds or removes a learner, or changes peer URLs. No voter is added: it
//! would not exist, and the real etcd would lose its quorum. So each call that adds a voter is one
//! that must be refused.
//!
//! The ids of members differ between the servers. A [`MemberCall`] names a member by a mark: `@0`
//! is the server itself, and `@1` and so on are the other members in the order in which they
//! appeared. Answers are compared with these marks in place of ids. A seed first gives both servers
//! the same peer URLs, and in the end removes its learner.

use anyhow::Context;
use serde_json::{Value, json};

use super::services::{Way, mask_error};
use crate::random::Random;

/// The number of random calls in the part of a seed about members.
pub const CALLS: usize = 40;

/// The error of a server that judges a change by its content. A server that has just started may
/// refuse every change.
pub const JUDGED: &str = "etcdserver: Peer URLs already exists";

/// URLs that etcd refuses. Left out are URLs that only Quorate refuses, because no server can be
/// reached at them.
const BAD_URLS: [&str; 12] = [
    "bad",
    "",
    "127.0.0.1:1",
    "ftp://127.0.0.1:1",
    "http://127.0.0.1",
    "http://127.0.0.1:1/",
    "http://127.0.0.1:1/path",
    "http://127.0.0.1:port",
    "http://127.0.0.1 :1",
    "http://[::1:1",
    "http://::1:1",
    "http://%zz:1",
];

/// Ids that no member has.
const NOBODY: [&str; 2] = ["5", "0"];

/// The mark of the server itself.
const OWN: &str = "@0";

/// A call, with marks in place of ids.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberCall {
    /// The path of the method, after `/v3/`.
    pub path: &'static str,
    /// The request as JSON.
    pub body: Value,
    /// How the call is made.
    pub way: Way,
}

/// A member as the last list showed it.
#[derive(Clone, Debug, PartialEq)]
struct Listed {
    mark: String,
    peer_urls: Vec<String>,
}

/// Draws the calls of a seed from what both servers have answered.
pub struct Members {
    random: Random,
    seed: u64,
    url_count: u64,
    own: Listed,
    learner: Option<Listed>,
    /// The mark of a learner that was removed.
    removed: Option<String>,
}

impl Members {
    /// The calls of this seed.
    pub fn new(seed: u64) -> Members {
        let own = Listed { mark: OWN.to_string(), peer_urls: Vec::new() };
        let random = Random::new(seed ^ 0x6d65_6d62);
        Members { random, seed, url_count: 0, own, learner: None, removed: None }
    }

    /// A call that must give the error [`JUDGED`] once a server judges changes. `own_url` is a peer
    /// URL of that server.
    pub fn probe(own_url: &str) -> MemberCall {
        let body = json!({ "peerURLs": [own_url] });
        MemberCall { path: "cluster/member/add", body, way: Way::Grpc }
    }

    /// The call that gives both servers the same peer URLs.
    pub fn first(&mut self) -> MemberCall {
        let urls = self.fresh();
        self.call("cluster/member/update", json!({ "ID": OWN, "peerURLs": urls }))
    }

    /// The call that removes the learner, if there is one.
    pub fn last(&mut self) -> Option<MemberCall> {
        let mark = self.learner.as_ref()?.mark.clone();
        Some(self.call("cluster/member/remove", json!({ "ID": mark })))
    }

    /// A random call.
    pub fn draw(&mut self) -> MemberCall {
        let is_learner = self.random.chance(50);
        match self.random.below(16) {
            0 | 1 => self.call("cluster/member/list", json!({ "linearizable": is_learner })),
            2..=5 => {
                let urls = self.fresh_list();
                self.add(urls, true)
            }
            6 | 7 => {
                let mut urls = self.taken();
                // etcd derives the id of a new member from its URLs and the second. With the URLs
                // of a learner that was added in this second, it says that the id exists.
                urls.push(self.fresh_url());
                self.add(urls, is_learner)
            }
            8 => {
                let urls = self.bad();
                self.add(urls, is_learner)
            }
            9..=11 => {
                let id = self.any_id();
                self.call("cluster/member/remove", json!({ "ID": id }))
            }
            12 | 13 => {
                let id = self.any_id();
                let urls = if is_learner { self.fresh() } else { self.taken() };
                self.call("cluster/member/update", json!({ "ID": id, "peerURLs": urls }))
            }
            _ => {
                let id = self.any_id();
                self.call("cluster/member/promote", json!({ "ID": id }))
            }
        }
    }

    /// Notes an answer that both servers gave, with marks in place of ids.
    pub fn observe(&mut self, answer: &Value) {
        let Some(members) = answer.get("members").and_then(Value::as_array) else { return };
        let listed = |member: &Value| Listed {
            mark: text(member, "ID"),
            peer_urls: member["peerURLs"].as_array().map_or(Vec::new(), |urls| {
                urls.iter().filter_map(Value::as_str).map(str::to_string).collect()
            }),
        };
        let is_learner = |member: &&Value| member["isLearner"] == true;
        let learner = members.iter().find(is_learner).map(listed);
        if let Some(before) = self.learner.take()
            && learner.as_ref().is_none_or(|learner| learner.mark != before.mark)
        {
            self.removed = Some(before.mark);
        }
        self.learner = learner;
        if let Some(own) = members.iter().find(|member| member["ID"] == OWN) {
            self.own = listed(own);
        }
    }

    fn call(&mut self, path: &'static str, body: Value) -> MemberCall {
        let way = if self.random.chance(50) { Way::Grpc } else { Way::Gateway };
        MemberCall { path, body, way }
    }

    fn add(&mut self, urls: Vec<String>, is_learner: bool) -> MemberCall {
        self.call("cluster/member/add", json!({ "peerURLs": urls, "isLearner": is_learner }))
    }

    /// A URL that no member has had, so that etcd does not give a new member the id of a removed
    /// one.
    fn fresh_url(&mut self) -> String {
        self.url_count += 1;
        let (seed, count) = (self.seed, self.url_count);
        format!("http://127.{}.{}.{}:1", seed >> 8 & 0xff, seed & 0xff, count & 0xff)
    }

    /// One or two URLs that no member has had, in any order.
    fn fresh(&mut self) -> Vec<String> {
        let mut urls = vec![self.fresh_url()];
        if self.random.chance(30) {
            urls.push(self.fresh_url());
            urls.reverse();
        }
        urls
    }

    /// URLs for a new member, perhaps with blanks around one, or with one twice.
    fn fresh_list(&mut self) -> Vec<String> {
        let mut urls = self.fresh();
        match self.random.below(8) {
            0 => urls[0] = format!(" {}\t", urls[0]),
            1 => urls.push(urls[0].clone()),
            _ => {}
        }
        urls
    }

    /// URLs, one of them a member's.
    fn taken(&mut self) -> Vec<String> {
        let others = self.learner.iter().flat_map(|learner| &learner.peer_urls);
        let all: Vec<&String> = self.own.peer_urls.iter().chain(others).collect();
        let taken = (*self.random.pick(&all)).clone();
        if self.random.chance(30) { vec![taken, self.fresh_url()] } else { vec![taken] }
    }

    /// URLs, one of them bad, or none at all.
    fn bad(&mut self) -> Vec<String> {
        let bad = (*self.random.pick(&BAD_URLS)).to_string();
        match self.random.below(4) {
            0 => Vec::new(),
            1 => vec![self.fresh_url(), bad],
            _ => vec![bad],
        }
    }

    /// The mark of a member that is there or was removed, or an id that no member has.
    fn any_id(&mut self) -> String {
        let mut ids = vec![OWN.to_string(), (*self.random.pick(&NOBODY)).to_string()];
        ids.extend(self.removed.clone());
        // A learner is what most calls are about.
        let learner = self.learner.iter().map(|learner| learner.mark.clone());
        ids.extend(learner.clone().chain(learner));
        self.random.pick(&ids).clone()
    }
}

/// The ids that one server has given to the members, by the numbers of their marks.
#[derive(Clone, Debug, Default)]
pub struct Ids(Vec<String>);

impl Ids {
    /// The body of a call to this server, with ids in place of marks.
    ///
    /// # Errors
    /// The server has not shown the member.
    pub fn body(&self, call: &MemberCall) -> anyhow::Result<String> {
        let mut body = call.body.clone();
        if let Some(mark) = text(&body, "ID").strip_prefix('@') {
            let id = self.0.get(mark.parse::<usize>()?);
            body["ID"] = Value::from(id.context("a member that was not shown")?.clone());
        }
        Ok(body.to_string())
    }

    /// Replaces ids in an answer by marks, and what else may differ between the servers by `*`. The
    /// order of the members does not matter: etcd sorts them by id.
    pub fn mask(&mut self, answer: &mut Value) {
        if let Some(header) = answer.get_mut("header") {
            self.mark(&text(header, "member_id"));
            for name in ["cluster_id", "member_id", "raft_term"] {
                hide(header, name);
            }
        }
        if let Some(members) = answer.get_mut("members").and_then(Value::as_array_mut) {
            members.sort_by_key(|member| member["peerURLs"].to_string());
            members.iter_mut().for_each(|member| self.mask_member(member));
        }
        if let Some(member) = answer.get_mut("member") {
            self.mask_member(member);
        }
        answer.as_object_mut().into_iter().for_each(mask_error);
    }

    fn mask_member(&mut self, member: &mut Value) {
        let mark = self.mark(&text(member, "ID"));
        if mark == OWN {
            hide(member, "name");
            hide(member, "clientURLs");
        }
        if let Some(id) = member.get_mut("ID") {
            *id = Value::from(mark);
        }
    }

    fn mark(&mut self, id: &str) -> String {
        let known = self.0.iter().position(|known| known == id);
        let number = known.unwrap_or_else(|| {
            self.0.push(id.to_string());
            self.0.len() - 1
        });
        format!("@{number}")
    }
}

/// A field as text; empty if there is none.
fn text(object: &Value, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_string()
}

fn hide(object: &mut Value, name: &str) {
    if let Some(field) = object.get_mut(name) {
        *field = Value::from("*");
    }
}

#[cfg(test)]
mod tests;
