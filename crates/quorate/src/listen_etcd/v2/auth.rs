//! Answers requests of etcd v2 below `/v2/auth`, which are about users and roles: reads the bodies
//! and writes the answers. `member/fronts/etcd/v2/users.rs` decides what the requests mean.

use std::rc::Rc;

use etcd::v2::auth::PatternLists;
use grpc::Room;
use http_body_util::Either;
use hyper::StatusCode;
use hyper::http::request::Parts;
use member::fronts::etcd::v2::limits::USERS_REQUEST_BYTES_MAX;
use member::fronts::etcd::v2::users::{
    BadBody, RoleBody, Shown, UserBody, UserGiven, UsersAnswer, UsersCall, UsersStep,
};
use serde_json::{Deserializer, Value};

use super::super::answer::Answer;
use super::super::body::{WebBody, read_body};
use super::super::client::Site;
use super::super::runtime::{ConnectionShares, Runtime};
use super::keys::{room_for, roomy};
use super::members::{of_line, refused};
use super::{clients, not_allowed, with_cluster_id};

/// Answers a request; `rest` is its path behind `/v2/auth/`. `None` if nothing is at that path.
pub(super) async fn answer(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    (parts, rest): (&Parts, &str),
    mut body: WebBody,
) -> Option<Answer> {
    let presented = clients::presented(&parts.headers, site);
    let mut step = UsersCall::begin(parts.method.as_str(), rest, presented)?;
    loop {
        step = match step {
            UsersStep::Work(call, work) => call.on_done(clients::run(runtime, site, work).await),
            UsersStep::ReadUser(reading) => {
                reading.on_body(json(shares, &mut body).await.and_then(|it| user_body(&it)))
            }
            UsersStep::ReadRole(reading) => {
                reading.on_body(json(shares, &mut body).await.and_then(|it| role_body(&it)))
            }
            UsersStep::Show(shown) => return Some(show(runtime, shares, shown).await),
            UsersStep::Answer(answer) => return Some(of_users(runtime, answer)),
        };
    }
}

fn of_users(runtime: &Rc<Runtime>, answer: UsersAnswer) -> Answer {
    match answer {
        UsersAnswer::Line { status, text } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            with_cluster_id(runtime, of_line(status, text))
        }
        UsersAnswer::Refused { status, text, names_cluster: true } => {
            with_cluster_id(runtime, refused(status, &text))
        }
        UsersAnswer::Refused { status, text, .. } => refused(status, &text),
        UsersAnswer::NotAllowed(methods) => not_allowed(methods),
    }
}

/// The response that shows users or roles, once there is memory for it.
async fn show(runtime: &Rc<Runtime>, shares: &ConnectionShares, shown: Shown) -> Answer {
    let room = room_for(shares, shown.kept_bytes()).await;
    match shown.answer() {
        UsersAnswer::Line { status, text } => {
            let mut answer = of_users(runtime, UsersAnswer::Line { status, text: Vec::new() });
            *answer.body_mut() = Either::Left(roomy(text, room).into());
            answer
        }
        other => of_users(runtime, other),
    }
}

/// Reads the body and parses it as JSON.
async fn json(shares: &ConnectionShares, body: &mut WebBody) -> Result<Value, BadBody> {
    let mut room = Room::new(shares.requests.of(USERS_REQUEST_BYTES_MAX));
    let body = read_body(body, &mut room, USERS_REQUEST_BYTES_MAX).await;
    let body = body.ok_or(BadBody::Missing)?;
    // As in Go's decoder, bytes behind the first value are ignored.
    let first = Deserializer::from_slice(&body).into_iter::<Value>().next();
    first.and_then(Result::ok).ok_or(BadBody::Invalid)
}

fn user_body(body: &Value) -> Result<UserBody, BadBody> {
    let given = || {
        let [roles, grant, revoke] = ["roles", "grant", "revoke"].map(|name| texts(&body[name]));
        Ok(UserGiven {
            password: text(&body["password"])?,
            roles: roles?.unwrap_or_default(),
            grant: grant?.unwrap_or_default(),
            revoke: revoke?.unwrap_or_default(),
        })
    };
    Ok(UserBody { user: text(&body["user"])?, given: given() })
}

fn role_body(body: &Value) -> Result<RoleBody, BadBody> {
    let lists = |name: &str| -> Result<PatternLists, BadBody> {
        let lists = &body[name];
        let is_object = |value: &Value| value.is_null() || value.is_object();
        if !is_object(lists) || !is_object(&lists["kv"]) {
            return Err(BadBody::Invalid);
        }
        let kv = &lists["kv"];
        Ok(PatternLists { read: texts(&kv["read"])?, write: texts(&kv["write"])? })
    };
    let given = || Ok([lists("permissions")?, lists("grant")?, lists("revoke")?]);
    Ok(RoleBody { role: text(&body["role"])?, given: given() })
}

/// A string of the body; empty if it is missing.
fn text(value: &Value) -> Result<String, BadBody> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        _ => Err(BadBody::Invalid),
    }
}

/// A list of strings of the body; `None` if it is missing.
fn texts(value: &Value) -> Result<Option<Vec<String>>, BadBody> {
    match value {
        Value::Null => Ok(None),
        Value::Array(list) => list.iter().map(text).collect::<Result<_, _>>().map(Some),
        _ => Err(BadBody::Invalid),
    }
}

#[cfg(test)]
mod tests;
