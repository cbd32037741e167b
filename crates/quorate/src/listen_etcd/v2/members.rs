//! Answers requests of etcd v2 for members and statistics: reads the bodies and writes the answers.
//! `member/fronts/etcd/v2/members.rs` decides what the requests mean.

use std::rc::Rc;

use etcd::pb::etcdserverpb as pb;
use etcd::v2;
use grpc::Room;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use member::fronts::etcd::v2::limits::MEMBERS_REQUEST_BYTES_MAX;
use member::fronts::etcd::v2::members::{
    BadUrls, MembersAnswer, MembersCall, MembersContent, MembersRequest, MembersStep, Statistics,
};
use serde_json::{Value, json};

use super::super::answer::{Answer, of};
use super::super::body::{WebBody, read_body};
use super::super::client::Site;
use super::super::routes::PLAIN_TEXT;
use super::super::runtime::{ConnectionShares, Runtime};
use super::{clients, not_allowed, with_cluster_id};

/// Answers a request that is not for keys or users. `None` if nothing is at its path.
pub(super) async fn answer(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    (parts, path): (&Parts, &str),
    mut body: WebBody,
) -> Option<Answer> {
    let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let mut step = MembersCall::begin(MembersRequest {
        method: parts.method.as_str(),
        path,
        content_type: content_type.unwrap_or_default(),
        presented: clients::presented(&parts.headers, site),
    })?;
    loop {
        step = match step {
            MembersStep::Work(call, work) => call.on_done(clients::run(runtime, site, work).await),
            MembersStep::Look(looking) => looking.on_view(runtime.member.members()),
            MembersStep::ReadUrls(reading) => reading.on_body(peer_urls(shares, &mut body).await),
            MembersStep::Answer(answer) => return Some(of_members(runtime, answer)),
        };
    }
}

fn of_members(
    runtime: &Rc<Runtime>,
    MembersAnswer { names_cluster, content }: MembersAnswer,
) -> Answer {
    let answer = match content {
        MembersContent::Members(members) => {
            let members: Vec<Value> = members.iter().map(shown).collect();
            of_json(json!({ "members": members }))
        }
        MembersContent::Member(member) => of_json(shown(&member)),
        MembersContent::Machines(text) => of(StatusCode::OK, PLAIN_TEXT, text),
        MembersContent::Statistics(Statistics::Own) => of_json(own_statistics(runtime)),
        MembersContent::Statistics(Statistics::Leader) => of_json(leader_statistics(runtime)),
        MembersContent::Statistics(Statistics::Store) => of_json(store_statistics(runtime)),
        MembersContent::Refused { status, text } => refused(status, &text),
        MembersContent::NotAllowed(Some(methods)) => not_allowed(methods),
        MembersContent::NotAllowed(None) => {
            of(StatusCode::METHOD_NOT_ALLOWED, PLAIN_TEXT, "Method Not Allowed\n".to_string())
        }
    };
    if names_cluster { with_cluster_id(runtime, answer) } else { answer }
}

fn shown(member: &pb::Member) -> Value {
    json!({
        "id": hex(member.id),
        "name": member.name,
        "peerURLs": member.peer_ur_ls,
        "clientURLs": member.client_ur_ls,
    })
}

/// The peer URLs for a member in the body of a request.
async fn peer_urls(shares: &ConnectionShares, body: &mut WebBody) -> Result<Vec<String>, BadUrls> {
    let mut room = Room::new(shares.requests.of(MEMBERS_REQUEST_BYTES_MAX));
    let body = read_body(body, &mut room, MEMBERS_REQUEST_BYTES_MAX).await;
    let body = body.ok_or(BadUrls::Missing)?;
    let given = serde_json::from_slice(&body);
    let given: Value = given.map_err(|error| BadUrls::NoJson(error.to_string()))?;
    let urls = given["peerURLs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let urls = urls.iter().map(|url| url.as_str().map(str::to_string)).collect::<Option<_>>();
    urls.ok_or(BadUrls::NoTexts)
}

/// This member's statistics about itself. etcd counts append requests; this server counts the
/// frames on its links to other members.
fn own_statistics(runtime: &Rc<Runtime>) -> Value {
    let member = &runtime.member;
    let status = member.node.replica().status;
    let is_leader = status.leader == Some(member.member_id);
    let started_ms = node::wall_ms() - member.node.monotonic_ms() as i64;
    let traffic = member.node.peer_traffic();
    let shown = |id: u64| hex(member.shown_id(id));
    let leader = status.leader.map(shown).unwrap_or_default();
    json!({
        "name": member.config.about.name,
        "id": shown(member.member_id),
        "state": if is_leader { "StateLeader" } else { "StateFollower" },
        "startTime": v2::time_text(started_ms),
        "leaderInfo": { "leader": leader },
        "recvAppendRequestCnt": traffic.iter().map(|it| it.received_frames).sum::<u64>(),
        "sendAppendRequestCnt": traffic.iter().map(|it| it.sent_frames).sum::<u64>(),
    })
}

/// This member's statistics about its followers, while it leads.
fn leader_statistics(runtime: &Rc<Runtime>) -> Value {
    let member = &runtime.member;
    let shown = |id: u64| hex(member.shown_id(id));
    let followers = member.node.peer_traffic().into_iter().map(|it| {
        let counts = json!({ "fail": it.sent_failures, "success": it.sent_frames });
        (shown(it.member.0), json!({ "counts": counts }))
    });
    let followers: serde_json::Map<String, Value> = followers.collect();
    json!({ "leader": shown(member.member_id), "followers": followers })
}

/// How often each kind of operation was run since the member started.
fn store_statistics(runtime: &Rc<Runtime>) -> Value {
    let counts = runtime.member.command_counts.etcd_v2.numbers().into_iter();
    counts.map(|(name, count)| (name.to_string(), Value::from(count))).collect()
}

fn hex(id: u64) -> String {
    format!("{id:x}")
}

fn of_json(body: Value) -> Answer {
    of(StatusCode::OK, v2::CONTENT_TYPE, format!("{body}\n"))
}

/// An answer with a line of JSON.
pub(super) fn of_line(status: StatusCode, line: Vec<u8>) -> Answer {
    of(status, v2::CONTENT_TYPE, String::from_utf8_lossy(&line).into_owned())
}

/// An answer with the reason for a refusal.
pub(super) fn refused(status: u16, text: &str) -> Answer {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    of(status, v2::CONTENT_TYPE, json!({ "message": text }).to_string())
}
