//! Users and roles of etcd v2: the requests below `/v2/auth`, each of which needs the role `root`
//! while permissions are enforced. Source: `v2http/client_auth.go` of etcd 3.4.

use std::rc::Rc;
use std::sync::Arc;

use etcd::v2::auth::{self as users, AuthWrite, PatternLists, RoleWrite, UserWrite};
use etcd::v2::{self, Request};
use http_body_util::Either;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use machine::etcd_v2::auth::{Auth, Done};
use machine::etcd_v2::reply::Reason;
use member::fronts::etcd::{CallRefused, V2Found};
use serde_json::{Deserializer, Value};

use super::super::answer::{Answer, code_and_text};
use super::super::body::{WebBody, read_body};
use super::super::client::Site;
use super::super::limits::{
    V2_AUTH_BYTES_MAX, V2_NAME_BYTES_MAX, V2_TEXT_TIMES, V2_USERS_BYTES_MAX,
};
use super::super::runtime::{ConnectionShares, Runtime};
use super::clients::{V2Client, auth_of, client_of, hash_of};
use super::keys::{begin_line, room_for, roomy};
use super::members::{of_line, refused};
use super::{not_allowed, with_cluster_id};
use crate::grpc::Room;

/// What stands at a path below `/v2/auth/`.
enum Place {
    Enable,
    Users,
    User(String),
    Roles,
    Role(String),
    /// More levels than there are.
    TooDeep,
}

impl Place {
    /// The place of the rest of a path; none if there is nothing.
    fn of(rest: &str) -> Option<Place> {
        if rest == "enable" {
            return Some(Place::Enable);
        }
        let (is_user, name) = match (rest.strip_prefix("users"), rest.strip_prefix("roles")) {
            (Some(name), _) => (true, name),
            (None, Some(name)) => (false, name),
            (None, None) => return None,
        };
        if name.is_empty() || name == "/" {
            return Some(if is_user { Place::Users } else { Place::Roles });
        }
        let name = v2::decoded(name.strip_prefix('/')?.as_bytes(), false).ok()?;
        let name = String::from_utf8(name).ok()?;
        let name = name.strip_suffix('/').unwrap_or(&name).to_string();
        Some(match (name.contains('/'), is_user) {
            (true, _) => Place::TooDeep,
            (false, true) => Place::User(name),
            (false, false) => Place::Role(name),
        })
    }

    fn methods(&self) -> &'static str {
        match self {
            Place::Users | Place::Roles => "GET",
            _ => "GET,PUT,DELETE",
        }
    }
}

/// Why a request is refused: the status and the text of the answer.
type Refused = (u16, String);

/// Answers a request below `/v2/auth/`. None: there is nothing at its path.
pub(super) async fn answer(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    (parts, rest): (&Parts, &str),
    body: WebBody,
) -> Option<Answer> {
    let place = Place::of(rest)?;
    let is_too_deep = matches!(place, Place::TooDeep);
    let answered = match place {
        Place::TooDeep => Err((400, "Invalid path".to_string())),
        _ if !place.methods().split(',').any(|method| method == parts.method.as_str()) => {
            return Some(not_allowed(place.methods()));
        }
        place => answer_at(runtime, (shares, site), (parts, place), body).await,
    };
    Some(answered.unwrap_or_else(|why| match why.0 {
        // As in etcd, which adds the id behind these checks.
        401 => of_refused(&why),
        _ if is_too_deep => of_refused(&why),
        _ => with_cluster_id(runtime, of_refused(&why)),
    }))
}

fn of_refused((status, text): &Refused) -> Answer {
    refused(StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_REQUEST), text)
}

/// A request that the Front has refused.
fn unanswered(refused: CallRefused) -> Refused {
    (500, code_and_text(refused).1.to_string())
}

/// Whether a client may change users, roles and members; else the answer says that it may not.
pub(super) async fn check_root(
    runtime: &Rc<Runtime>,
    parts: &Parts,
    site: &Site,
) -> Result<(), Answer> {
    let found = find_root(runtime, parts, site).await;
    found.map(drop).map_err(|why| of_refused(&why))
}

async fn find_root(
    runtime: &Rc<Runtime>,
    parts: &Parts,
    site: &Site,
) -> Result<(V2Client, Arc<Auth>), Refused> {
    let auth = auth_of(runtime).await.map_err(unanswered)?;
    let client = client_of(runtime, &auth, &parts.headers, site).await.map_err(unanswered)?;
    match client.is_root(&auth) {
        true => Ok((client, auth)),
        false => Err((401, "Insufficient credentials".to_string())),
    }
}

async fn answer_at(
    runtime: &Rc<Runtime>,
    (shares, site): (&ConnectionShares, &Site),
    (parts, place): (&Parts, Place),
    body: WebBody,
) -> Result<Answer, Refused> {
    let is_get = parts.method == Method::GET;
    if is_get && matches!(place, Place::Enable) {
        let is_enabled = auth_of(runtime).await.map_err(unanswered)?.is_enabled();
        return Ok(line(runtime, 200, format!("{{\"enabled\":{is_enabled}}}\n").into_bytes()));
    }
    let (client, auth) = find_root(runtime, parts, site).await?;
    if is_get {
        return shown(runtime, shares, &auth, place).await;
    }
    // A change may wait for its body and for a hash, and must not hold this version meanwhile.
    drop(auth);
    let is_put = parts.method == Method::PUT;
    let write = match place {
        Place::Enable => AuthWrite::Enforce(is_put),
        Place::User(name) if is_put => {
            let (mut write, password) = user_write(name, &json(shares, body).await?)?;
            if !password.is_empty() {
                write.hash = hash_of(runtime, password).await.map_err(unanswered)?;
            }
            AuthWrite::PutUser(write)
        }
        Place::Role(name) if is_put => {
            AuthWrite::PutRole(role_write(name, &json(shares, body).await?)?)
        }
        Place::User(name) => AuthWrite::DeleteUser(name),
        Place::Role(name) => AuthWrite::DeleteRole(name),
        Place::Users | Place::Roles | Place::TooDeep => unreachable!("the caller has looked"),
    };
    change(runtime, site, client, write).await
}

/// Makes a change, and answers with what it has done.
async fn change(
    runtime: &Rc<Runtime>,
    site: &Site,
    client: V2Client,
    write: AuthWrite,
) -> Result<Answer, Refused> {
    let request = Request::write_auth(client.user(), write.clone());
    let mut audited = begin_line(runtime, site, &request);
    let result = runtime.run_v2(request).await;
    audited.iter_mut().for_each(|line| line.tell_v2(&result));
    let done = match result {
        Ok(Ok(V2Found::AuthDone(done))) => done,
        Ok(Err(refusal)) => match &refusal.reason {
            Reason::Auth(why) => return Err(users::refused(why)),
            other => unreachable!("{other:?} is no refusal of that"),
        },
        Ok(Ok(other)) => unreachable!("{other:?} is not done by that"),
        Err(refused) => return Err(unanswered(refused)),
    };
    let (status, text) = match (&write, done) {
        (AuthWrite::PutUser(write), Done::User { is_new: true, .. }) => {
            // As in etcd: a request that names the roles of a new user is answered with 200.
            (if write.may_change { 201 } else { 200 }, users::made_user(write))
        }
        (AuthWrite::PutUser(write), Done::User { roles, .. }) => {
            (200, users::changed_user(&write.name, &roles))
        }
        (AuthWrite::PutRole(write), Done::Role(_)) if !write.is_change => {
            (201, users::made_role(write))
        }
        (AuthWrite::PutRole(write), Done::Role(role)) => {
            (200, users::role_line(&write.name, &role))
        }
        _ => (200, Vec::new()),
    };
    Ok(line(runtime, status, text))
}

/// The answer that shows users or roles.
async fn shown(
    runtime: &Rc<Runtime>,
    shares: &ConnectionShares,
    auth: &Auth,
    place: Place,
) -> Result<Answer, Refused> {
    // Each user is shown with its roles in full, so the bytes of all are known only afterwards.
    let bytes = match place {
        Place::Users => V2_USERS_BYTES_MAX / V2_TEXT_TIMES,
        _ => usize::try_from(auth.bytes()).unwrap_or(usize::MAX),
    };
    let room = room_for(shares, bytes).await;
    let text = match place {
        Place::Users => {
            let text = users::users_line(auth, V2_USERS_BYTES_MAX);
            let wrong = "auth: the users with their roles take more than";
            text.ok_or_else(|| (500, format!("{wrong} {V2_USERS_BYTES_MAX} bytes")))?
        }
        Place::Roles => users::roles_line(auth),
        Place::User(name) => users::shown_user(auth, &name)?,
        Place::Role(name) => {
            let role = users::role_of(auth, &name);
            let role = role.ok_or_else(|| (404, format!("auth: Role {name} does not exist.")))?;
            users::role_line(&name, &role)
        }
        Place::Enable | Place::TooDeep => unreachable!("the caller has looked"),
    };
    let mut answer = line(runtime, 200, Vec::new());
    *answer.body_mut() = Either::Left(roomy(text, room).into());
    Ok(answer)
}

fn line(runtime: &Rc<Runtime>, status: u16, text: Vec<u8>) -> Answer {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    with_cluster_id(runtime, of_line(status, text))
}

/// The JSON of a body.
async fn json(shares: &ConnectionShares, body: WebBody) -> Result<Value, Refused> {
    let mut room = Room::new(shares.requests.of(V2_AUTH_BYTES_MAX));
    let Some(body) = read_body(body, &mut room, V2_AUTH_BYTES_MAX).await else {
        let text = format!("the body has more than {V2_AUTH_BYTES_MAX} bytes, or does not come");
        return Err((400, text));
    };
    // As Go's decoder: what stands behind the first value does not matter.
    let first = Deserializer::from_slice(&body).into_iter::<Value>().next();
    first.and_then(Result::ok).ok_or_else(invalid_json)
}

fn invalid_json() -> Refused {
    (400, "Invalid JSON in request body.".to_string())
}

/// What a request wants of a user, and its new password; empty if none is given
/// (`authHandler.forUser`).
fn user_write(name: String, given: &Value) -> Result<(UserWrite, String), Refused> {
    if text(&given["user"])? != name {
        return Err((400, "User JSON name does not match the name in the URL".to_string()));
    }
    let password = text(&given["password"])?;
    let [roles, grant, revoke] = ["roles", "grant", "revoke"].map(|of| texts(&given[of]));
    let (roles, grant, revoke) = (roles?, grant?.unwrap_or_default(), revoke?.unwrap_or_default());
    let roles = roles.unwrap_or_default();
    let changes = !grant.is_empty() || !revoke.is_empty();
    if changes && !roles.is_empty() {
        return Err((400, "User JSON contains both roles and grant/revoke".to_string()));
    }
    let (may_create, may_change) = (!changes, changes || roles.is_empty());
    let grant = if changes { grant } else { roles };
    let hash = Vec::new();
    let write = UserWrite { name, may_create, may_change, hash, grant, revoke };
    let names = [&write.grant, &write.revoke].into_iter().flatten().chain([&write.name]);
    check_names(names)?;
    Ok((write, password))
}

/// What a request wants of a role (`authHandler.forRole`).
fn role_write(name: String, given: &Value) -> Result<RoleWrite, Refused> {
    if text(&given["role"])? != name {
        return Err((400, "Role JSON name does not match the name in the URL".to_string()));
    }
    let lists = |of: &str| -> Result<PatternLists, Refused> {
        let of = &given[of];
        let is_object = |value: &Value| value.is_null() || value.is_object();
        if !is_object(of) || !is_object(&of["kv"]) {
            return Err(invalid_json());
        }
        let kv = &of["kv"];
        Ok(PatternLists { read: texts(&kv["read"])?, write: texts(&kv["write"])? })
    };
    let (permissions, grant, revoke) = (lists("permissions")?, lists("grant")?, lists("revoke")?);
    let is_change = !grant.is_empty() || !revoke.is_empty();
    if is_change && !permissions.is_empty() {
        let text = "Role JSON contains both permissions and grant/revoke";
        return Err((400, text.to_string()));
    }
    let grant = if is_change { grant } else { permissions };
    let write = RoleWrite { name, is_change, grant, revoke };
    let lists = [&write.grant, &write.revoke].into_iter().flat_map(|it| [&it.read, &it.write]);
    check_names(lists.flatten().flatten().chain([&write.name]))?;
    Ok(write)
}

fn check_names<'a>(mut names: impl Iterator<Item = &'a String>) -> Result<(), Refused> {
    match names.any(|name| name.is_empty() || name.len() > V2_NAME_BYTES_MAX) {
        true => {
            let text = "auth: a name or pattern is empty or has more than";
            Err((400, format!("{text} {V2_NAME_BYTES_MAX} bytes")))
        }
        false => Ok(()),
    }
}

/// A text of JSON; empty if it is missing.
fn text(value: &Value) -> Result<String, Refused> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        _ => Err(invalid_json()),
    }
}

/// A list of texts; none if it is missing.
fn texts(value: &Value) -> Result<Option<Vec<String>>, Refused> {
    match value {
        Value::Null => Ok(None),
        Value::Array(list) => list.iter().map(text).collect::<Result<_, _>>().map(Some),
        _ => Err(invalid_json()),
    }
}

#[cfg(test)]
mod tests;
