//! The members and the statistics of etcd v2. Sources: `v2http/client.go`, `v2stats` of etcd 3.4.
//!
//! The members do not change yet: requests for it are refused, after the checks that etcd makes.

use std::rc::Rc;

use etcd::pb::etcdserverpb as pb;
use etcd::v2;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::super::answer::{Answer, of};
use super::super::body::{WebBody, read_body};
use super::super::client::Site;
use super::super::limits::MEMBERS_BYTES_MAX;
use super::super::routes::PLAIN_TEXT;
use super::super::runtime::{ConnectionShares, Runtime};
use super::auth::check_root;
use super::{not_allowed, with_cluster_id};
use crate::grpc::Room;

/// Answers a request that is not about keys. None: there is nothing at its path.
pub(super) async fn answer(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    (parts, path): (&Parts, &str),
    body: WebBody,
) -> Option<Answer> {
    let rest = path.strip_prefix("/v2/")?;
    let is_get = parts.method == Method::GET;
    Some(match rest {
        "machines" if is_get || parts.method == Method::HEAD => machines(runtime),
        "machines" => not_allowed("GET,HEAD"),
        "stats/self" | "stats/leader" | "stats/store" if !is_get => not_allowed("GET"),
        "stats/self" => of_json(StatusCode::OK, own_statistics(runtime)),
        "stats/leader" => leader_statistics(runtime),
        "stats/store" => of_json(StatusCode::OK, store_statistics(runtime)),
        _ => {
            let rest = rest.strip_prefix("members")?;
            let name = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
            let is_change = [Method::POST, Method::PUT, Method::DELETE].contains(&parts.method);
            if is_change && let Err(answer) = check_root(runtime, parts, site).await {
                return Some(answer);
            }
            with_cluster_id(runtime, members(runtime, shares, (parts, name), body).await)
        }
    })
}

/// The URLs of all members for clients.
fn machines(runtime: &Rc<Runtime>) -> Answer {
    let members = runtime.member.members();
    let mut urls: Vec<String> =
        members.into_iter().flat_map(|member| member.client_ur_ls).collect();
    urls.sort();
    of(StatusCode::OK, PLAIN_TEXT, urls.join(", "))
}

async fn members(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    (parts, name): (&Parts, &str),
    body: WebBody,
) -> Answer {
    let all = runtime.member.members();
    let by_id = |id: u64| all.iter().find(|member| member.id == id);
    let id = u64::from_str_radix(name, 16).ok().filter(|_| !name.starts_with('+'));
    let of_name = || id.and_then(by_id);
    let unknown = || refused(StatusCode::NOT_FOUND, &format!("No such member: {name}"));
    match parts.method {
        Method::GET => match name {
            "" => {
                let members: Vec<Value> = all.iter().map(shown).collect();
                of_json(StatusCode::OK, json!({ "members": members }))
            }
            "leader" => match runtime.member.node.replica().0.leader.and_then(by_id) {
                Some(leader) => of_json(StatusCode::OK, shown(leader)),
                None => refused(StatusCode::SERVICE_UNAVAILABLE, "During election"),
            },
            _ => refused(StatusCode::NOT_FOUND, "Not found"),
        },
        Method::POST => match peer_urls(shares, parts, body).await {
            Err(answer) => answer,
            Ok(urls) if all.iter().any(|it| it.peer_ur_ls.iter().any(|url| urls.contains(url))) => {
                refused(StatusCode::CONFLICT, "etcdserver: Peer URLs already exists")
            }
            Ok(_) => unchangeable(),
        },
        Method::DELETE | Method::PUT if name.is_empty() => {
            of(StatusCode::METHOD_NOT_ALLOWED, PLAIN_TEXT, "Method Not Allowed\n".to_string())
        }
        Method::DELETE if of_name().is_none() => unknown(),
        Method::DELETE => unchangeable(),
        Method::PUT if id.is_none() => unknown(),
        Method::PUT => match peer_urls(shares, parts, body).await {
            Err(answer) => answer,
            Ok(_) if of_name().is_none() => unknown(),
            Ok(_) => unchangeable(),
        },
        _ => not_allowed("GET,POST,DELETE,PUT"),
    }
}

fn unchangeable() -> Answer {
    let text = etcd::Error::MemberNotEnoughStarted.text();
    refused(StatusCode::INTERNAL_SERVER_ERROR, text)
}

fn shown(member: &pb::Member) -> Value {
    json!({
        "id": hex(member.id),
        "name": member.name,
        "peerURLs": member.peer_ur_ls,
        "clientURLs": member.client_ur_ls,
    })
}

/// The URLs that a request gives for a member.
///
/// # Errors
/// The answer says what is wrong with them.
async fn peer_urls(
    shares: &ConnectionShares,
    parts: &Parts,
    body: WebBody,
) -> Result<Vec<String>, Answer> {
    let media_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        let text = format!("Bad Content-Type {media_type}, accept application/json");
        return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, &text));
    }
    let bad = |text: &str| refused(StatusCode::BAD_REQUEST, text);
    let mut room = Room::new(shares.requests.of(MEMBERS_BYTES_MAX));
    let Some(body) = read_body(body, &mut room, MEMBERS_BYTES_MAX).await else {
        return Err(bad("the body is too large, too slow, or cut off"));
    };
    let given: Value = serde_json::from_slice(&body).map_err(|error| bad(&error.to_string()))?;
    let urls = given["peerURLs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let urls: Option<Vec<String>> =
        urls.iter().map(|url| url.as_str().map(str::to_string)).collect();
    let Some(urls) = urls else { return Err(bad("peerURLs is no list of texts")) };
    check_urls(&urls).map_err(|text| bad(&text))?;
    Ok(urls)
}

/// `types.NewURLs`.
fn check_urls(urls: &[String]) -> Result<(), String> {
    if urls.is_empty() {
        return Err("no valid URLs given".to_string());
    }
    for url in urls {
        let rest = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let is_unix = url.starts_with("unix://") || url.starts_with("unixs://");
        let Some(rest) = rest else {
            if is_unix {
                continue;
            }
            return Err(format!("URL scheme must be http, https, unix, or unixs: {url}"));
        };
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = address.rsplit_once(':').map(|(_, port)| port);
        if port.is_none_or(|port| port.parse::<u16>().is_err()) {
            return Err(format!("URL address does not have the form \"host:port\": {url}"));
        }
        if !path.is_empty() {
            return Err(format!("URL must not contain a path: {url}"));
        }
    }
    Ok(())
}

/// What this member says of itself. etcd counts append requests; here frames of links are counted.
fn own_statistics(runtime: &Rc<Runtime>) -> Value {
    let member = &runtime.member;
    let (status, _) = member.node.replica();
    let is_leader = status.leader == Some(member.member_id);
    let started_ms = node::wall_ms() - member.node.monotonic_ms() as i64;
    let traffic = member.node.peer_traffic();
    let leader = status.leader.map(hex).unwrap_or_default();
    json!({
        "name": member.config.about.name,
        "id": hex(member.member_id),
        "state": if is_leader { "StateLeader" } else { "StateFollower" },
        "startTime": v2::time_text(started_ms),
        "leaderInfo": { "leader": leader },
        "recvAppendRequestCnt": traffic.iter().map(|it| it.received_frames).sum::<u64>(),
        "sendAppendRequestCnt": traffic.iter().map(|it| it.sent_frames).sum::<u64>(),
    })
}

/// What the leader says of the others.
fn leader_statistics(runtime: &Rc<Runtime>) -> Answer {
    let member = &runtime.member;
    if member.node.replica().0.leader != Some(member.member_id) {
        return refused(StatusCode::FORBIDDEN, "not current leader");
    }
    let followers = member.node.peer_traffic().into_iter().map(|it| {
        let counts = json!({ "fail": it.sent_failures, "success": it.sent_frames });
        (hex(it.member.0), json!({ "counts": counts }))
    });
    let followers: serde_json::Map<String, Value> = followers.collect();
    let body = json!({ "leader": hex(member.member_id), "followers": followers });
    of_json(StatusCode::OK, body)
}

/// What the member has counted since its start.
fn store_statistics(runtime: &Rc<Runtime>) -> Value {
    let counts = runtime.member.command_counts.etcd_v2.numbers().into_iter();
    counts.map(|(name, count)| (name.to_string(), Value::from(count))).collect()
}

fn hex(id: u64) -> String {
    format!("{id:x}")
}

fn of_json(status: StatusCode, body: Value) -> Answer {
    of(status, v2::CONTENT_TYPE, format!("{body}\n"))
}

/// An answer with a line of JSON.
pub(super) fn of_line(status: StatusCode, line: Vec<u8>) -> Answer {
    of(status, v2::CONTENT_TYPE, String::from_utf8_lossy(&line).into_owned())
}

/// An answer that says why a request is refused.
pub(super) fn refused(status: StatusCode, text: &str) -> Answer {
    of(status, v2::CONTENT_TYPE, json!({ "message": text }).to_string())
}
