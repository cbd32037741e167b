//! The judge of clients that make plain HTTP requests about health, members, users of etcd v2, and
//! keys that these users may read.
//!
//! Health: if a health check needs a leader, a member that could reach no other member during the
//! whole request must not answer that it is healthy. Members: no request to change the members is
//! answered with success, and a member that is named as the leader must have led before.
//!
//! Users of etcd v2: a model applies the committed changes in order. Each change must come from one
//! call, by a client that had the user of the change as its identity, and must be answered with the
//! model's status. A change that was answered with success must be committed; one that was refused
//! before the log must not be. Any other answer must be the model's at some index of the changes:
//! not before the last change that was answered on the connection, and not after the last one
//! committed before the answer. A read of a key happens in two steps, so it may have the client's
//! identity at one index and the permission at that or a later index; for a read with a quorum the
//! later index must include all changes answered before. At the end each member must have the
//! model's users.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use etcd::Error;
use machine::Machine;
use machine::etcd_v2::auth::{Auth, AuthCommand};
use member::fronts::etcd::health::HealthAnswer;
use member::fronts::etcd::v2::members::{MembersAnswer, MembersContent};
use member::fronts::etcd::v2::users::UsersAnswer;
use workload::etcd::history::CallId;

use super::Evidence;
use crate::etcd_clients::http::{
    Change, HttpAnswer, HttpCall, HttpClient, Login, ReadCame, Wish, has_changed_members,
};
use crate::server::hash_of;
use crate::witness::audit::AuditLines;

/// The user and the role that have all permissions.
const ROOT: &str = "root";

/// The errors of requests that never reached the log.
const NEVER_LOGGED: [Error; 4] =
    [Error::TooManyRequests, Error::NoLeader, Error::NotCapable, Error::NoSpace];

/// Counts of what the HTTP requests of a run brought about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpCounts {
    /// Requests sent.
    pub requests: usize,
    /// Answers about health: healthy ones, then the others.
    pub health: (usize, usize),
    /// Answers about members.
    pub members: usize,
    /// Changes of users answered as done.
    pub changes: usize,
    /// Changes that the store refused.
    pub refused: usize,
    /// Changes that the store refused because their client had lost the permission meanwhile.
    pub overtaken: usize,
    /// Requests refused because their client lacks the permission.
    pub denied: usize,
    /// Permitted reads.
    pub reads: usize,
    /// Changes without an answer that took effect.
    pub unknown_done: usize,
}

impl HttpCounts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &HttpCounts) {
        self.requests += other.requests;
        self.health.0 += other.health.0;
        self.health.1 += other.health.1;
        self.members += other.members;
        self.changes += other.changes;
        self.refused += other.refused;
        self.overtaken += other.overtaken;
        self.denied += other.denied;
        self.reads += other.reads;
        self.unknown_done += other.unknown_done;
    }
}

/// Judges the HTTP clients of a run. `machines` are the final states of the members; it may be
/// empty.
///
/// # Errors
/// A correct server could not have behaved so.
pub fn check_etcd_http<'c>(
    clients: impl Iterator<Item = &'c HttpClient>,
    evidence: &Evidence<'_>,
    machines: &[&Machine],
) -> Result<HttpCounts, String> {
    let calls: Vec<&HttpCall> = clients.flat_map(|client| &client.calls).collect();
    let mut counts = HttpCounts { requests: calls.len(), ..HttpCounts::default() };
    if calls.is_empty() {
        return Ok(counts);
    }
    for call in &calls {
        let checked = check_view(call, evidence, &mut counts);
        checked.map_err(|why| format!("etcd http: {call:?}: {why}"))?;
    }
    let replay = Replay::new(&calls, evidence).map_err(|why| format!("etcd http: {why}"))?;
    for call in &calls {
        let checked = replay.check(call, &evidence.witness.etcd.audit, &mut counts);
        checked.map_err(|why| format!("etcd http: {call:?}: {why}"))?;
    }
    let model = replay.models.last().expect("it has one");
    for machine in machines {
        model.compare(machine.etcd_v2().auth()).map_err(|why| format!("etcd http: {why}"))?;
    }
    Ok(counts)
}

/// Checks an answer about health or members.
fn check_view(
    call: &HttpCall,
    evidence: &Evidence<'_>,
    counts: &mut HttpCounts,
) -> Result<(), String> {
    let Some((answered_us, answer)) = &call.answered else { return Ok(()) };
    match (answer, call.request.wish) {
        (HttpAnswer::Health(health), Wish::Health(path, query)) => {
            let count = if health.is_good { &mut counts.health.0 } else { &mut counts.health.1 };
            *count += 1;
            check_health(call, *answered_us, health, (path, query), evidence)
        }
        (HttpAnswer::Members(answer), Wish::Members(method, path)) => {
            counts.members += 1;
            check_members(*answered_us, answer, (method, path), evidence)
        }
        (HttpAnswer::Users(_), Wish::Change(_) | Wish::IsEnforced | Wish::ShowUser(_))
        | (HttpAnswer::Read(_), Wish::Read(..)) => Ok(()),
        _ => Err("that is no answer".to_string()),
    }
}

fn check_health(
    call: &HttpCall,
    answered_us: u64,
    health: &HealthAnswer,
    (path, query): (&str, Option<&str>),
    evidence: &Evidence<'_>,
) -> Result<(), String> {
    let query = query.unwrap_or_default();
    let is_local = query.contains("serializable=true") || query.contains("exclude=linear");
    let asked_us = call.sent_us;
    let cut_off_us = evidence.cut_off[call.member].longest_between(asked_us, answered_us);
    let is_cut_off = cut_off_us > 0 && cut_off_us == answered_us - asked_us;
    if health.is_good && path != "/livez" && !is_local && is_cut_off {
        return Err("a member says that it is healthy, and hears no other one".to_string());
    }
    Ok(())
}

fn check_members(
    answered_us: u64,
    answer: &MembersAnswer,
    (method, path): (&str, &str),
    evidence: &Evidence<'_>,
) -> Result<(), String> {
    if has_changed_members(method, answer) {
        return Err("a change of the members is answered as done".to_string());
    }
    // The witness knows no terms of a member that is alone.
    let is_alone = evidence.waking.len() == 1;
    match &answer.content {
        MembersContent::Members(members) => {
            let ids: BTreeSet<u64> = members.iter().map(|member| member.id).collect();
            if members.is_empty() || ids.len() != members.len() {
                return Err("there is no member, or one twice".to_string());
            }
        }
        MembersContent::Member(leader)
            if path == "/v2/members/leader"
                && !is_alone
                && !evidence.witness.has_led(leader.id, answered_us) =>
        {
            return Err("that member never led".to_string());
        }
        _ => {}
    }
    Ok(())
}

/// The model of etcd v2's users and roles.
#[derive(Clone, Debug, Default)]
struct Model {
    is_enforced: bool,
    /// Whether permissions were ever enforced: from then on there is a role for guests.
    was_enforced: bool,
    /// Each user's password hash and roles.
    users: BTreeMap<String, (Vec<u8>, BTreeSet<String>)>,
    /// The key patterns that each role may read.
    roles: BTreeMap<String, BTreeSet<String>>,
}

/// The identity that a member derives from a client's credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who<'a> {
    Guest,
    User(&'a str),
    Wrong,
}

impl Model {
    /// The identity that these credentials give in this state.
    fn who(&self, login: Login) -> Who<'static> {
        let Login::User(name, password) = login else { return Who::Guest };
        if !self.is_enforced {
            return Who::Guest;
        }
        let user = self.users.get(name);
        let is_right = user.is_some_and(|(hash, _)| *hash == hash_of(password.as_bytes()));
        if is_right { Who::User(name) } else { Who::Wrong }
    }

    fn is_root(&self, who: Who<'_>) -> bool {
        match who {
            Who::Wrong => false,
            _ if !self.is_enforced => true,
            Who::Guest => false,
            Who::User(name) => self.users.get(name).is_some_and(|(_, roles)| roles.contains(ROOT)),
        }
    }

    /// Whether this identity may read a key.
    fn permits(&self, who: Who<'_>, key: &str) -> bool {
        match who {
            Who::Wrong => false,
            _ if !self.is_enforced => true,
            // The role of guests permits everything, and no client changes it.
            Who::Guest => true,
            Who::User(name) => {
                let mut roles = self.users.get(name).into_iter().flat_map(|(_, roles)| roles);
                roles.any(|role| {
                    let mut patterns = self.roles.get(role).into_iter().flatten();
                    role == ROOT || patterns.any(|pattern| matches(pattern, key))
                })
            }
        }
    }

    /// Applies a change that this identity asks for. Returns the status of the answer.
    ///
    /// # Errors
    /// The status of the refusal.
    fn apply(&mut self, who: Who<'_>, change: Change) -> Result<u16, u16> {
        if !self.is_root(who) {
            return Err(401);
        }
        match change {
            Change::Enforce(wanted) => {
                let has_root = self.users.contains_key(ROOT);
                if self.is_enforced == wanted || (wanted && !has_root) {
                    return Err(409);
                }
                self.is_enforced = wanted;
                self.was_enforced |= wanted;
                Ok(200)
            }
            Change::PutUser(name, password) => self.put_user(name, password),
            Change::Grant(name, role, adds) => {
                let (_, roles) = self.users.get_mut(name).ok_or(404u16)?;
                let is_changed =
                    if adds { roles.insert(role.to_string()) } else { roles.remove(role) };
                // The user root always has the role root.
                if name == ROOT {
                    roles.insert(ROOT.to_string());
                }
                if is_changed { Ok(200) } else { Err(409) }
            }
            Change::DeleteUser(ROOT) if self.is_enforced => Err(403),
            Change::DeleteUser(name) => self.users.remove(name).map(|_| 200).ok_or(404),
            Change::MakeRole(role, _) if self.roles.contains_key(role) => Err(409),
            Change::MakeRole(role, pattern) => {
                self.roles.insert(role.to_string(), [pattern.to_string()].into());
                Ok(201)
            }
            Change::Permit(role, pattern, adds) => {
                let patterns = self.roles.get_mut(role).ok_or(404u16)?;
                match adds {
                    true if patterns.insert(pattern.to_string()) => Ok(200),
                    true => Err(409),
                    false if patterns.remove(pattern) => Ok(200),
                    false => Err(400),
                }
            }
            Change::DeleteRole(role) => self.roles.remove(role).map(|_| 200).ok_or(404),
        }
    }

    /// Setting an equal password is refused as no change: the simulated hash has no salt.
    fn put_user(&mut self, name: &str, password: &str) -> Result<u16, u16> {
        let hash = hash_of(password.as_bytes());
        match self.users.get_mut(name) {
            Some((old, _)) if *old == hash => Err(400),
            Some((old, _)) => {
                *old = hash;
                Ok(200)
            }
            None => {
                let roles = (name == ROOT).then(|| ROOT.to_string()).into_iter().collect();
                self.users.insert(name.to_string(), (hash, roles));
                Ok(201)
            }
        }
    }

    /// The roles in the answer about a user.
    ///
    /// # Errors
    /// The status of the refusal: the user or one of its roles does not exist.
    fn show(&self, name: &str) -> Result<&BTreeSet<String>, u16> {
        let (_, roles) = self.users.get(name).ok_or(404u16)?;
        let is_known = |role: &String| role == ROOT || self.roles.contains_key(role);
        if roles.iter().all(is_known) { Ok(roles) } else { Err(404) }
    }

    /// Checks that a member's users and roles equal the model's.
    fn compare(&self, auth: &Auth) -> Result<(), String> {
        let texts = |names: &BTreeSet<Arc<str>>| -> BTreeSet<String> {
            names.iter().map(ToString::to_string).collect()
        };
        let users = auth.users().iter();
        let users: BTreeMap<String, _> = users
            .map(|(name, user)| (name.to_string(), (user.hash.to_vec(), texts(&user.roles))))
            .collect();
        let roles = auth.roles().iter();
        let roles: BTreeMap<String, _> = roles
            .map(|(name, role)| (name.to_string(), (texts(&role.read), texts(&role.write))))
            .collect();
        let own = self.roles.iter();
        let mut expected: BTreeMap<String, _> =
            own.map(|(name, read)| (name.clone(), (read.clone(), BTreeSet::new()))).collect();
        if self.was_enforced {
            let all = BTreeSet::from(["/*".to_string()]);
            expected.insert("guest".to_string(), (all.clone(), all));
        }
        let is_same =
            auth.is_enabled() == self.is_enforced && users == self.users && roles == expected;
        if is_same {
            Ok(())
        } else {
            Err(format!("the users are {auth:?}, the model has {self:?}"))
        }
    }
}

/// Whether a key matches a pattern: it equals the pattern, or begins with the part before `*`.
fn matches(pattern: &str, key: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == key, |begin| key.starts_with(begin))
}

/// The committed changes, replayed on the model.
struct Replay<'c> {
    /// The model's status for each change, by index.
    expected: Vec<Result<u16, u16>>,
    /// The index of the change that each call made.
    indices: BTreeMap<CallId, usize>,
    /// The model before each change, and after the last one.
    models: Vec<Model>,
    /// When the entry of each change was first handed over, in us.
    handed_us: Vec<u64>,
    calls: &'c [&'c HttpCall],
}

/// The models that may explain an answer.
struct Window<'w> {
    models: &'w [Model],
    /// The index of the first of these models among all models.
    low: usize,
}

impl<'c> Replay<'c> {
    fn new(calls: &'c [&'c HttpCall], evidence: &Evidence<'_>) -> Result<Replay<'c>, String> {
        let by_id: BTreeMap<CallId, &HttpCall> =
            calls.iter().map(|call| (call.id, *call)).collect();
        let mut replay = Replay {
            expected: Vec::new(),
            indices: BTreeMap::new(),
            models: vec![Model::default()],
            handed_us: Vec::new(),
            calls,
        };
        evidence.witness.each_change_of_v2_users(|(id, user), command, handed_us| {
            let Some(call) = by_id.get(&id) else {
                return Err(format!("{command:?} is logged for {id:?}, which nobody sent"));
            };
            let added = replay.add(call, user, command, handed_us);
            added.map_err(|why| format!("{command:?} is logged for {call:?}, {why}"))
        })?;
        Ok(replay)
    }

    fn add(
        &mut self,
        call: &HttpCall,
        user: Option<&str>,
        command: &AuthCommand<'_>,
        handed_us: u64,
    ) -> Result<(), String> {
        let index = self.expected.len();
        let Wish::Change(change) = call.request.wish else {
            return Err("which asks for no change".to_string());
        };
        if !is_asked_for(change, command) {
            return Err("which asks for another one".to_string());
        }
        // The member checked the client's identity when the request arrived, or later.
        let who = user.map_or(Who::Guest, Who::User);
        let low = self.own_floor(call);
        if !self.models[low..].iter().any(|model| model.who(call.request.login) == who) {
            return Err(format!("for {user:?}, whom it never was"));
        }
        if self.indices.insert(call.id, index).is_some() {
            return Err("a second time".to_string());
        }
        let mut model = self.models[index].clone();
        self.expected.push(model.apply(who, change));
        self.models.push(model);
        self.handed_us.push(handed_us);
        Ok(())
    }

    /// The models that may explain an answer: all from the last change that was answered on this
    /// connection before the call was sent, to the last change that was committed before the
    /// answer.
    fn window(&self, call: &HttpCall) -> Window<'_> {
        let low = self.own_floor(call);
        let answered_us = call.answered.as_ref().map_or(u64::MAX, |(at_us, _)| *at_us);
        let high = self.handed_us.partition_point(|at_us| *at_us <= answered_us);
        Window { models: &self.models[low..=high.max(low)], low }
    }

    /// The lowest index of a model that may explain the call's answer.
    fn own_floor(&self, call: &HttpCall) -> usize {
        self.floor(call, |other| other.connection == call.connection)
    }

    /// Looks at the changes by calls that `is_meant` accepts and that were answered before this
    /// call was sent. Returns the index after the last of these changes; 0 if there is none.
    fn floor(&self, call: &HttpCall, is_meant: impl Fn(&HttpCall) -> bool) -> usize {
        let before = self.calls.iter().filter(|other| is_meant(other)).filter_map(|other| {
            let (answered_us, answer) = other.answered.as_ref()?;
            let is_known = status_of(answer).is_some();
            let index = self.indices.get(&other.id).filter(|_| is_known)?;
            (*answered_us < call.sent_us).then_some(index + 1)
        });
        before.max().unwrap_or(0)
    }

    fn check(
        &self,
        call: &HttpCall,
        audit: &AuditLines,
        counts: &mut HttpCounts,
    ) -> Result<(), String> {
        let index = self.indices.get(&call.id);
        if index.is_some_and(|index| *index < self.floor(call, |_| true)) {
            return Err("its command is before one that was answered before it".to_string());
        }
        match call.request.wish {
            Wish::Change(_) => self.check_change(call, audit, counts),
            Wish::Members(method, _) if method != "GET" => self.check_refused(call, counts),
            Wish::Health(..) | Wish::Members(..) => Ok(()),
            Wish::IsEnforced => self.check_enforced(call),
            Wish::ShowUser(name) => self.check_shown(call, name, counts),
            Wish::Read(key, is_quorum) => self.check_read(call, (key, is_quorum), counts),
        }
    }

    fn check_change(
        &self,
        call: &HttpCall,
        audit: &AuditLines,
        counts: &mut HttpCounts,
    ) -> Result<(), String> {
        let expected = self.indices.get(&call.id).map(|index| self.expected[*index]);
        let status = call.answered.as_ref().and_then(|(_, answer)| status_of(answer));
        let is_done = expected.is_some_and(|expected| expected.is_ok());
        match (status, expected) {
            (None, Some(_)) => counts.unknown_done += usize::from(is_done),
            (None, None) => {}
            (Some(status), Some(expected)) if status != expected => {
                return Err(format!("due is {expected:?}"));
            }
            (Some(Ok(_)), Some(_)) => counts.changes += 1,
            (Some(Err(401)), Some(_)) => counts.overtaken += 1,
            (Some(Err(_)), Some(_)) => counts.refused += 1,
            (Some(Ok(_)), None) => return Err("it was answered as done, and is lost".to_string()),
            (Some(Err(401)), None) => {
                counts.denied += 1;
                self.find(call, |model| !model.is_root(model.who(call.request.login)))?;
            }
            (Some(Err(_)), None) if is_never_logged(call) => {}
            (Some(Err(_)), None) => return Err("it was refused without a reason".to_string()),
        }
        let logged = audit.logged(call.id)?;
        // A request that was refused before it reached the store has no line.
        if logged.is_none() && expected.is_none() && !matches!(status, Some(Ok(_))) {
            return Ok(());
        }
        let found = audit.check(call.id, true, Some(is_done), status.map(|status| status.is_ok()));
        found.map_err(|why| format!("the audit log: {why}"))
    }

    /// Checks that a change of members is refused with 401 if and only if its client is not root.
    fn check_refused(&self, call: &HttpCall, counts: &mut HttpCounts) -> Result<(), String> {
        let Some((_, HttpAnswer::Members(answer))) = &call.answered else { return Ok(()) };
        match &answer.content {
            MembersContent::Refused { status: 401, .. } => {
                counts.denied += 1;
                self.find(call, |model| !model.is_root(model.who(call.request.login)))
            }
            MembersContent::Refused { text, .. } if is_text_of(text, &NEVER_LOGGED) => Ok(()),
            _ => self.find(call, |model| model.is_root(model.who(call.request.login))),
        }
    }

    /// Checks that some model may explain an answer.
    fn find(&self, call: &HttpCall, is_it: impl Fn(&Model) -> bool) -> Result<(), String> {
        let Window { models, .. } = self.window(call);
        if models.iter().any(is_it) {
            return Ok(());
        }
        Err(format!("no state of {} gives that answer: {:?}", models.len(), models.last()))
    }

    fn check_enforced(&self, call: &HttpCall) -> Result<(), String> {
        match &call.answered {
            Some((_, HttpAnswer::Users(UsersAnswer::Line { text, .. }))) => {
                let text = String::from_utf8_lossy(text);
                self.find(call, |model| text.contains(&model.is_enforced.to_string()))
            }
            Some(_) if !is_never_logged(call) => Err("that is no answer".to_string()),
            _ => Ok(()),
        }
    }

    fn check_shown(
        &self,
        call: &HttpCall,
        name: &str,
        counts: &mut HttpCounts,
    ) -> Result<(), String> {
        let Some((_, HttpAnswer::Users(answer))) = &call.answered else { return Ok(()) };
        let login = call.request.login;
        match answer {
            UsersAnswer::Refused { status: 401, .. } => {
                counts.denied += 1;
                self.find(call, |model| !model.is_root(model.who(login)))
            }
            UsersAnswer::Line { text, .. } => {
                let text = String::from_utf8_lossy(text);
                let shows = |role: &String| text.contains(&format!("{{\"role\":\"{role}\""));
                let count = text.matches("{\"role\":").count();
                self.find(call, |model| {
                    let roles = model.show(name);
                    let is_shown =
                        roles.is_ok_and(|roles| roles.len() == count && roles.iter().all(shows));
                    model.is_root(model.who(login)) && is_shown
                })
            }
            UsersAnswer::Refused { status: 404, .. } => self.find(call, |model| {
                model.is_root(model.who(login)) && model.show(name) == Err(404)
            }),
            _ if is_never_logged(call) => Ok(()),
            _ => Err("that is no answer".to_string()),
        }
    }

    fn check_read(
        &self,
        call: &HttpCall,
        (key, is_quorum): (&str, bool),
        counts: &mut HttpCounts,
    ) -> Result<(), String> {
        let Some((_, HttpAnswer::Read(came))) = &call.answered else { return Ok(()) };
        let is_permitted = match came {
            ReadCame::Permitted => true,
            ReadCame::Denied => false,
            ReadCame::Failed => return Ok(()),
        };
        *if is_permitted { &mut counts.reads } else { &mut counts.denied } += 1;
        // The member first finds the client's identity, in a state that may lag, and reads the key
        // later.
        let Window { models, low } = self.window(call);
        let fresh = if is_quorum { self.floor(call, |_| true).saturating_sub(low) } else { 0 };
        let is_explained = models.iter().enumerate().any(|(index, model)| {
            let who = model.who(call.request.login);
            let mut later = models.iter().skip(index.max(fresh));
            match who {
                // Then the key is not read at all.
                Who::Wrong => !is_permitted,
                _ => later.any(|model| model.permits(who, key) == is_permitted),
            }
        });
        if is_explained {
            return Ok(());
        }
        Err(format!("no state gives that answer: {:?}", models.last()))
    }
}

/// The status in the answer to a change; `None` if the answer leaves open whether it took effect.
fn status_of(answer: &HttpAnswer) -> Option<Result<u16, u16>> {
    match answer {
        HttpAnswer::Users(UsersAnswer::Line { status, .. }) => Some(Ok(*status)),
        HttpAnswer::Users(UsersAnswer::Refused { text, .. })
            if is_text_of(text, &[Error::TimedOut]) =>
        {
            None
        }
        HttpAnswer::Users(UsersAnswer::Refused { status, .. }) => Some(Err(*status)),
        _ => None,
    }
}

/// Whether the answer says that the request never reached the log or timed out.
fn is_never_logged(call: &HttpCall) -> bool {
    let Some((_, HttpAnswer::Users(UsersAnswer::Refused { text, .. }))) = &call.answered else {
        return false;
    };
    let is_cut = text.starts_with("the body has more than");
    is_cut || is_text_of(text, &NEVER_LOGGED) || is_text_of(text, &[Error::TimedOut])
}

fn is_text_of(text: &str, errors: &[Error]) -> bool {
    errors.iter().any(|error| error.text() == text)
}

/// Whether a command is the change that a call asks for.
fn is_asked_for(change: Change, command: &AuthCommand<'_>) -> bool {
    match (change, command) {
        (Change::Enforce(wanted), AuthCommand::Enforce { is_enabled }) => wanted == *is_enabled,
        (Change::PutUser(user, password), AuthCommand::PutUser(put)) => {
            let changes_roles = !put.grant.is_empty() || !put.revoke.is_empty();
            put.name == user
                && put.may_create
                && put.may_change
                && !changes_roles
                && *put.hash == *hash_of(password.as_bytes())
        }
        (Change::Grant(user, role, adds), AuthCommand::PutUser(put)) => {
            let (given, other) =
                if adds { (&put.grant, &put.revoke) } else { (&put.revoke, &put.grant) };
            put.name == user && put.hash.is_empty() && *given == [role] && other.is_empty()
        }
        (Change::DeleteUser(user), AuthCommand::DeleteUser { name }) => user == *name,
        (
            Change::MakeRole(role, pattern) | Change::Permit(role, pattern, _),
            AuthCommand::PutRole(put),
        ) => {
            let is_change = matches!(change, Change::Permit(..));
            let revokes = matches!(change, Change::Permit(_, _, false));
            let (given, other) =
                if revokes { (&put.revoke, &put.grant) } else { (&put.grant, &put.revoke) };
            let has_others =
                !other.read.is_empty() || !other.write.is_empty() || !given.write.is_empty();
            put.name == role && put.is_change == is_change && given.read == [pattern] && !has_others
        }
        (Change::DeleteRole(role), AuthCommand::DeleteRole { name }) => role == *name,
        _ => false,
    }
}
