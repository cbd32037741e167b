//! The judge of clients that make requests of HTTP.
//!
//! Health: a member that could hear no other one for as long as the question took gives no good
//! answer that needs a leader. Members: nothing is answered as changed, and a member that is named
//! as the leader led before.
//!
//! Users of etcd v2: the commands in the committed order are the claim. Done by a model, each must
//! be the change that a call asked for, of a client with the right to it, and have the answer of
//! the model. A change that was answered as done is in the claim; one that was refused before the
//! log is not. Reads and refusals show the model at a place in time, no earlier than their
//! connection has shown. At the end each member has the users of the model.

use std::collections::{BTreeMap, BTreeSet};

use machine::Machine;
use machine::etcd_v2::auth::{Auth, AuthCommand};
use member::fronts::etcd::v2::members::MembersContent;
use member::fronts::etcd::v2::users::UsersAnswer;
use workload::etcd::history::CallId;

use super::Evidence;
use crate::etcd_clients::http::{
    Change, HttpAnswer, HttpCall, HttpClient, Login, ReadCame, Wish, has_changed_members,
};
use crate::server::hash_of;
use crate::witness::audit::AuditLines;

/// The user and the role that may do everything.
const ROOT: &str = "root";

/// What clients that make requests of HTTP did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpCounts {
    /// Requests.
    pub requests: usize,
    /// Good answers about health, and others.
    pub health: (usize, usize),
    /// Answers about members.
    pub members: usize,
    /// Changes of users that were answered as done.
    pub changes: usize,
    /// Changes that were refused as the state is.
    pub refused: usize,
    /// Requests that were refused for what their client is.
    pub denied: usize,
    /// Reads that were permitted.
    pub reads: usize,
    /// Changes without an answer that took effect.
    pub unknown_done: usize,
}

impl HttpCounts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &HttpCounts) {
        self.requests += other.requests;
        self.health.0 += other.health.0;
        self.health.1 += other.health.1;
        self.members += other.members;
        self.changes += other.changes;
        self.refused += other.refused;
        self.denied += other.denied;
        self.reads += other.reads;
        self.unknown_done += other.unknown_done;
    }
}

/// Judges the clients of a run whose members ended in the states `machines`.
///
/// # Errors
/// What no correct server would have done.
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

/// Checks what a member says of itself and of the members.
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
            let query = query.unwrap_or_default();
            let is_local = query.contains("serializable=true") || query.contains("exclude=linear");
            let cut_off_us =
                evidence.cut_off[call.member].longest_between(call.sent_us, *answered_us);
            let is_cut_off = cut_off_us > 0 && cut_off_us == answered_us - call.sent_us;
            match health.is_good && path != "/livez" && !is_local && is_cut_off {
                true => Err("a member says that it is healthy, and hears no other one".to_string()),
                false => Ok(()),
            }
        }
        (HttpAnswer::Members(answer), Wish::Members(method, path)) => {
            counts.members += 1;
            if has_changed_members(method, answer) {
                return Err("a change of the members is answered as done".to_string());
            }
            match &answer.content {
                MembersContent::Members(members) => {
                    let ids: BTreeSet<u64> = members.iter().map(|member| member.id).collect();
                    match ids.len() == members.len() {
                        true => Ok(()),
                        false => Err("a member is there twice".to_string()),
                    }
                }
                MembersContent::Member(leader) if path == "/v2/members/leader" => {
                    // A member that is alone has no terms that were noted.
                    let has_led = evidence.waking.len() == 1
                        || evidence.witness.has_led(leader.id, *answered_us);
                    match has_led {
                        true => Ok(()),
                        false => Err("that member never led".to_string()),
                    }
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Users and roles.
#[derive(Clone, Debug, Default)]
struct Model {
    is_enforced: bool,
    /// The hash of the password and the roles.
    users: BTreeMap<String, (Vec<u8>, BTreeSet<String>)>,
    /// The patterns that may be read.
    roles: BTreeMap<String, BTreeSet<String>>,
}

/// What a client is to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who<'a> {
    Guest,
    User(&'a str),
    Wrong,
}

impl Model {
    /// What a client is that says this of itself.
    fn who(&self, login: Login) -> Who<'static> {
        match login {
            _ if !self.is_enforced => Who::Guest,
            Login::Guest => Who::Guest,
            Login::User(name, password) => {
                let user = self.users.get(name);
                let is_right = user.is_some_and(|(hash, _)| *hash == hash_of(password.as_bytes()));
                if is_right { Who::User(name) } else { Who::Wrong }
            }
        }
    }

    fn is_root(&self, who: Who<'_>) -> bool {
        match who {
            _ if !self.is_enforced => who != Who::Wrong,
            Who::Guest | Who::Wrong => false,
            Who::User(name) => self.users.get(name).is_some_and(|(_, roles)| roles.contains(ROOT)),
        }
    }

    /// Whether a client may read a key.
    fn permits(&self, who: Who<'_>, key: &str) -> bool {
        match who {
            Who::Wrong => false,
            _ if !self.is_enforced => true,
            // The role of guests permits everything, and nobody changes it.
            Who::Guest => true,
            Who::User(name) => {
                let mut roles = self.users.get(name).into_iter().flat_map(|(_, roles)| roles);
                roles.any(|role| {
                    let patterns = self.roles.get(role).into_iter().flatten();
                    let mut matched = patterns.map(|pattern| match pattern.strip_suffix('*') {
                        Some(begin) => key.starts_with(begin),
                        None => key == pattern,
                    });
                    role == ROOT || matched.any(|matches| matches)
                })
            }
        }
    }

    /// Does a change for a client that the log names.
    ///
    /// # Errors
    /// It is refused with this status.
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
                Ok(200)
            }
            Change::PutUser(name, password) => {
                let hash = hash_of(password.as_bytes());
                let roles = if name == ROOT { vec![ROOT.to_string()] } else { Vec::new() };
                let Some((old, _)) = self.users.get_mut(name) else {
                    self.users.insert(name.to_string(), (hash, roles.into_iter().collect()));
                    return Ok(201);
                };
                if *old == hash {
                    Err(400)
                } else {
                    Ok({
                        *old = hash;
                        200
                    })
                }
            }
            Change::Grant(name, role, adds) => {
                let (_, roles) = self.users.get_mut(name).ok_or(404u16)?;
                let is_changed =
                    if adds { roles.insert(role.to_string()) } else { roles.remove(role) };
                if is_changed { Ok(200) } else { Err(409) }
            }
            Change::DeleteUser(name) if name == ROOT && self.is_enforced => Err(403),
            Change::DeleteUser(name) => self.users.remove(name).map(|_| 200).ok_or(404),
            Change::MakeRole(role, pattern) => {
                if self.roles.contains_key(role) {
                    return Err(409);
                }
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

    /// The status of the answer that shows a user.
    fn show(&self, name: &str) -> u16 {
        let Some((_, roles)) = self.users.get(name) else { return 404 };
        let is_known = |role: &String| role == ROOT || self.roles.contains_key(role);
        if roles.iter().all(is_known) { 200 } else { 404 }
    }

    /// Compares it with the users of a member.
    fn compare(&self, auth: &Auth) -> Result<(), String> {
        let texts = |names: &BTreeSet<std::sync::Arc<str>>| -> BTreeSet<String> {
            names.iter().map(ToString::to_string).collect()
        };
        let users = auth.users().iter();
        let users: BTreeMap<String, _> = users
            .map(|(name, user)| (name.to_string(), (user.hash.to_vec(), texts(&user.roles))))
            .collect();
        let roles = auth.roles().iter().filter(|(name, _)| ***name != *"guest");
        let roles: BTreeMap<String, _> =
            roles.map(|(name, role)| (name.to_string(), texts(&role.read))).collect();
        let is_same =
            auth.is_enabled() == self.is_enforced && users == self.users && roles == self.roles;
        if is_same {
            Ok(())
        } else {
            Err(format!("the users are {auth:?}, the model has {self:?}"))
        }
    }
}

/// The claim, done by the model.
struct Replay<'c> {
    /// For each command what the model answers: the status of HTTP.
    dues: Vec<Result<u16, u16>>,
    /// The place of each call in the claim.
    places: BTreeMap<CallId, usize>,
    /// The model before each command, and behind the last one.
    models: Vec<Model>,
    /// For each command when its call was sent.
    sent_us: Vec<u64>,
    calls: &'c [&'c HttpCall],
}

impl<'c> Replay<'c> {
    fn new(calls: &'c [&'c HttpCall], evidence: &Evidence<'_>) -> Result<Replay<'c>, String> {
        let by_id: BTreeMap<CallId, &HttpCall> =
            calls.iter().map(|call| (call.id, *call)).collect();
        let mut replay = Replay {
            dues: Vec::new(),
            places: BTreeMap::new(),
            models: vec![Model::default()],
            sent_us: Vec::new(),
            calls,
        };
        evidence.witness.each_change_of_v2_users(|id, user, command| {
            let Some(call) = by_id.get(&id) else {
                return Err(format!("{command:?} is logged for {id:?}, which nobody sent"));
            };
            let added = replay.add(call, user, command);
            added.map_err(|why| format!("{command:?} is logged for {call:?}, {why}"))
        })?;
        Ok(replay)
    }

    fn add(
        &mut self,
        call: &HttpCall,
        user: Option<&str>,
        command: &AuthCommand<'_>,
    ) -> Result<(), String> {
        let place = self.dues.len();
        let Wish::Change(change) = call.request.wish else {
            return Err("which asks for no change".to_string());
        };
        if !is_asked_for(change, command) {
            return Err("which asks for another one".to_string());
        }
        if self.places.insert(call.id, place).is_some() {
            return Err("a second time".to_string());
        }
        // The client was found when the request came, or later.
        let who = user.map_or(Who::Guest, Who::User);
        if !self.models.iter().any(|model| model.who(call.request.login) == who) {
            return Err(format!("for {user:?}, whom it never was"));
        }
        let mut model = self.models[place].clone();
        let due = model.apply(who, change);
        self.dues.push(due);
        self.models.push(model);
        self.sent_us.push(call.sent_us);
        Ok(())
    }

    /// The models that a request may have been judged by: no earlier than its connection has shown,
    /// and no later than what was sent before its answer came.
    fn window(&self, call: &HttpCall, answered_us: u64) -> &[Model] {
        let low = self.floor(call, |other| other.connection == call.connection);
        let high = self.sent_us.iter().rposition(|sent_us| *sent_us < answered_us);
        &self.models[low..=high.map_or(0, |place| place + 1).max(low)]
    }

    /// The place behind the last change of some calls that was answered before a call was sent.
    fn floor(&self, call: &HttpCall, is_meant: impl Fn(&HttpCall) -> bool) -> usize {
        let before = self.calls.iter().filter(|other| is_meant(other)).filter_map(|other| {
            let (answered_us, answer) = other.answered.as_ref()?;
            let is_definite =
                !matches!(answer, HttpAnswer::Users(UsersAnswer::Refused { status: 500, .. }));
            let place = self.places.get(&other.id).filter(|_| is_definite)?;
            (*answered_us < call.sent_us).then_some(place + 1)
        });
        before.max().unwrap_or(0)
    }

    fn check(
        &self,
        call: &HttpCall,
        audit: &AuditLines,
        counts: &mut HttpCounts,
    ) -> Result<(), String> {
        if let Some(place) = self.places.get(&call.id)
            && *place < self.floor(call, |_| true)
        {
            return Err("its command is behind none that was answered before it".to_string());
        }
        let Wish::Change(_) = call.request.wish else { return self.check_read(call, counts) };
        let due = self.places.get(&call.id).map(|place| self.dues[*place]);
        let told = match &call.answered {
            Some((_, HttpAnswer::Users(UsersAnswer::Line { status, .. }))) => Some(Ok(*status)),
            Some((_, HttpAnswer::Users(UsersAnswer::Refused { status, text, .. }))) => {
                let is_unknown = *text == etcd::Error::TimedOut.text();
                if is_unknown { None } else { Some(Err(*status)) }
            }
            Some((_, answer)) => return Err(format!("{answer:?} is no answer")),
            None => None,
        };
        let is_done = due.is_some_and(|due| due.is_ok());
        match (told, due) {
            (None, Some(_)) => counts.unknown_done += usize::from(is_done),
            (None, None) => {}
            (Some(told), Some(due)) => {
                if told != due {
                    return Err(format!("due is {due:?}"));
                }
                *if told.is_ok() { &mut counts.changes } else { &mut counts.refused } += 1;
            }
            (Some(Ok(_)), None) => return Err("it was answered as done, and is lost".to_string()),
            // No leader, no room, or no time.
            (Some(Err(500)), None) => {}
            (Some(Err(401)), None) => {
                counts.denied += 1;
                self.find(call, |model| !model.is_root(model.who(call.request.login)))?;
            }
            (Some(Err(_)), None) => return Err("it was refused, and never asked".to_string()),
        }
        let found = audit.check(call.id, true, is_done, told.map(|told| told.is_ok()));
        found.map_err(|why| format!("the audit log: {why}"))
    }

    /// Finds a model that a request may have been judged by.
    fn find(&self, call: &HttpCall, is_it: impl Fn(&Model) -> bool) -> Result<(), String> {
        let answered_us = call.answered.as_ref().map_or(u64::MAX, |(at_us, _)| *at_us);
        let window = self.window(call, answered_us);
        match window.iter().any(is_it) {
            true => Ok(()),
            false => {
                Err(format!("no state of {} gives that answer: {:?}", window.len(), window.last()))
            }
        }
    }

    fn check_read(&self, call: &HttpCall, counts: &mut HttpCounts) -> Result<(), String> {
        let Some((answered_us, answer)) = &call.answered else { return Ok(()) };
        let login = call.request.login;
        match (call.request.wish, answer) {
            (Wish::Read(_, _), HttpAnswer::Read(ReadCame::Failed)) => Ok(()),
            (Wish::Read(key, _), HttpAnswer::Read(came)) => {
                let is_permitted = *came == ReadCame::Permitted;
                *if is_permitted { &mut counts.reads } else { &mut counts.denied } += 1;
                // The client is found first, and the key is read later.
                let window = self.window(call, *answered_us);
                let found = window.iter().enumerate().any(|(place, model)| {
                    let who = model.who(login);
                    let mut later = window[place..].iter();
                    later.any(|model| model.permits(who, key) == is_permitted)
                });
                match found {
                    true => Ok(()),
                    false => Err(format!("no state gives that answer: {:?}", window.last())),
                }
            }
            (Wish::IsEnforced, HttpAnswer::Users(UsersAnswer::Line { text, .. })) => {
                let text = String::from_utf8_lossy(text);
                self.find(call, |model| text.contains(&model.is_enforced.to_string()))
            }
            (Wish::ShowUser(name), HttpAnswer::Users(answer)) => match answer {
                UsersAnswer::Refused { status: 500, .. } => Ok(()),
                UsersAnswer::Refused { status: 401, .. } => {
                    counts.denied += 1;
                    self.find(call, |model| !model.is_root(model.who(login)))
                }
                UsersAnswer::Line { status, .. } | UsersAnswer::Refused { status, .. } => self
                    .find(call, |model| {
                        model.is_root(model.who(login)) && model.show(name) == *status
                    }),
                UsersAnswer::NotAllowed(_) => Err("that is no answer".to_string()),
            },
            _ => Ok(()),
        }
    }
}

/// Whether a command is the change that a call asks for.
fn is_asked_for(change: Change, command: &AuthCommand<'_>) -> bool {
    match (change, command) {
        (Change::Enforce(wanted), AuthCommand::Enforce { is_enabled }) => wanted == *is_enabled,
        (Change::PutUser(user, password), AuthCommand::PutUser(put)) => {
            let is_free = put.may_create && put.may_change;
            let changes_roles = !put.grant.is_empty() || !put.revoke.is_empty();
            put.name == user
                && is_free
                && !changes_roles
                && *put.hash == *hash_of(password.as_bytes())
        }
        (Change::Grant(user, role, adds), AuthCommand::PutUser(put)) => {
            let (given, other) =
                if adds { (&put.grant, &put.revoke) } else { (&put.revoke, &put.grant) };
            put.name == user && put.hash.is_empty() && *given == [role] && other.is_empty()
        }
        (Change::DeleteUser(user), AuthCommand::DeleteUser { name }) => user == *name,
        (Change::MakeRole(role, pattern), AuthCommand::PutRole(put)) => {
            put.name == role && !put.is_change && put.grant.read == [pattern]
        }
        (Change::Permit(role, pattern, adds), AuthCommand::PutRole(put)) => {
            let given = if adds { &put.grant } else { &put.revoke };
            put.name == role && put.is_change && given.read == [pattern]
        }
        (Change::DeleteRole(role), AuthCommand::DeleteRole { name }) => role == *name,
        _ => false,
    }
}
