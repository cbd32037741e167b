//! The audit log's lines about what etcd's clients change: who asked, from where, for what, and the
//! result. A client that asks for a token, or takes a backup, gets a line as well. The lines have
//! the form of ZooKeeper's lines (`member/fronts/zk/journal.rs`); etcd has no audit log. A driver
//! creates an [`AuditLine`] when a call begins, and logs it when the call ends.
//!
//! A line has names and keys, and never a value, a password or a token. If the client goes away
//! before the answer, or the call times out, the change may take effect or not: the result is then
//! `invoked`. While the audit log is off, a call carries only the room of a pointer for it.

mod writes;

use core::fmt::{self, Write};
use core::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use etcd::Error;
use etcd::convert::AuthMethod;
use etcd::pb::authpb::permission::Type as PermissionType;
use etcd::pb::etcdserverpb::alarm_request::AlarmAction;
use etcd::pb::etcdserverpb::downgrade_request::DowngradeAction;
use etcd::pb::{Message, etcdserverpb as pb, v3electionpb as election, v3lockpb as lock};
use etcd::v2::{self, Failure};
use machine::etcd_v2::auth::AuthCommand as V2AuthCommand;
use machine::etcd_v2::command::Command as V2Command;
use machine::etcd_v2::reply::Reason;

use super::CallResult;
use super::cluster::ClusterMethod;
use super::method::{CallRefused, EtcdMethod};
use super::v2::V2Result;
use writes::{WRITES_BYTES_MAX, Writes};

/// The most characters of a name, or of a list of URLs, in a line.
const NAME_CHARS_MAX: usize = 256;

/// The most bytes of a key in a line. Keys of Kubernetes are shorter, even with the longest names
/// that Kubernetes allows.
const KEY_BYTES_MAX: usize = 1_024;

/// A line of the audit log about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine {
    /// The user that asked, if one is known when the call ends.
    pub user: Option<Arc<str>>,
    /// The address of the client.
    ip: IpAddr,
    operation: Operation,
    result: Outcome,
}

/// The change that a call asks for: its name, and its subject as named fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    name: &'static str,
    fields: Fields,
}

type Fields = Vec<(&'static str, String)>;

/// The result of a call, as the line shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The change took effect.
    Success,
    /// The call failed, with this error text.
    Failure(&'static str),
    /// The change was asked for, and this member does not know whether it takes effect.
    Invoked,
}

impl AuditLine {
    /// A line about a call of a client at this address. Its result is `invoked` until told
    /// otherwise.
    pub fn new(ip: IpAddr, operation: Operation) -> AuditLine {
        AuditLine { user: None, ip: ip.to_canonical(), operation, result: Outcome::Invoked }
    }

    /// A line about a client of etcd v2 that gave a wrong password for this user.
    pub fn wrong_password_of_v2(ip: IpAddr, user: &str) -> AuditLine {
        let operation = Operation { name: "v2Authenticate", fields: vec![("name", name(user))] };
        let mut line = AuditLine::new(ip, operation);
        line.tell_result(Err(CallRefused::Error(Error::AuthFailed)));
        line
    }

    /// Whether the call failed.
    pub fn is_failure(&self) -> bool {
        matches!(self.result, Outcome::Failure(_))
    }

    /// Sets the result of a call that the Front has answered.
    pub fn tell(&mut self, method: EtcdMethod, result: &CallResult) {
        if let (EtcdMethod::LeaseGrant, Ok(reply)) = (method, result) {
            let mut response = Vec::new();
            reply.write(&mut response);
            let granted = pb::LeaseGrantResponse::decode(&response[..]).unwrap_or_default();
            self.operation.fields.retain(|(name, _)| *name != "lease");
            self.operation.fields.insert(0, ("lease", lease(granted.id)));
        }
        self.tell_result(result.as_ref().map(drop).map_err(|refused| *refused));
    }

    /// Sets the result of a write of etcd v2.
    pub fn tell_v2(&mut self, result: &Result<V2Result, CallRefused>) {
        match result {
            Ok(Ok(_)) => self.result = Outcome::Success,
            Ok(Err(refusal)) => {
                self.result = Outcome::Failure(match &refusal.reason {
                    Reason::Auth(refused) => v2::auth::reason(refused),
                    _ => Failure::from(refusal).code.message(),
                });
            }
            Err(refused) => self.tell_result(Err(*refused)),
        }
    }

    /// Sets the result of a call that the driver has answered itself.
    pub fn tell_result(&mut self, result: Result<(), CallRefused>) {
        self.result = match result {
            Ok(()) => Outcome::Success,
            Err(CallRefused::Error(Error::TimedOut)) => Outcome::Invoked,
            Err(refused) => Outcome::Failure(refused.code_and_text().1),
        };
    }
}

impl fmt::Display for AuditLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "user={}\t", name(user))?;
        }
        write!(f, "ip={}\toperation={}", self.ip, self.operation.name)?;
        for (name, value) in &self.operation.fields {
            write!(f, "\t{name}={value}")?;
        }
        match self.result {
            Outcome::Success => f.write_str("\tresult=success"),
            Outcome::Failure(text) => write!(f, "\tresult=failure\terror={text}"),
            Outcome::Invoked => f.write_str("\tresult=invoked"),
        }
    }
}

impl Operation {
    /// The change that a call of etcd v3 asks for; `None` if the call only reads.
    pub fn from_front(method: EtcdMethod, request: &Bytes) -> Option<Operation> {
        Some(match method {
            EtcdMethod::Cluster(method) => return Operation::from_cluster(method, request),
            EtcdMethod::Put => of(request, "put", |it: pb::PutRequest| {
                let lease = (it.lease != 0).then(|| ("lease", lease(it.lease)));
                keys(&it.key, &[]).into_iter().chain(lease).collect()
            }),
            EtcdMethod::DeleteRange => of(request, "deleteRange", |it: pb::DeleteRangeRequest| {
                keys(&it.key, &it.range_end)
            }),
            EtcdMethod::Txn => match pb::TxnRequest::decode(request.clone()) {
                Ok(it) => {
                    Operation { name: "txn", fields: txn(Writes::of(&it, WRITES_BYTES_MAX)?) }
                }
                Err(_) => Operation { name: "txn", fields: Vec::new() },
            },
            EtcdMethod::Compact => of(request, "compact", |it: pb::CompactionRequest| {
                vec![("revision", it.revision.to_string())]
            }),
            EtcdMethod::LeaseGrant => of(request, "leaseGrant", |it: pb::LeaseGrantRequest| {
                vec![("lease", lease(it.id)), ("ttl", it.ttl.to_string())]
            }),
            EtcdMethod::LeaseRevoke => of(request, "leaseRevoke", |it: pb::LeaseRevokeRequest| {
                vec![("lease", lease(it.id))]
            }),
            EtcdMethod::Lock => of(request, "lock", |it: lock::LockRequest| {
                keys(&it.name, &[]).into_iter().chain([("lease", lease(it.lease))]).collect()
            }),
            EtcdMethod::Campaign => of(request, "campaign", |it: election::CampaignRequest| {
                keys(&it.name, &[]).into_iter().chain([("lease", lease(it.lease))]).collect()
            }),
            EtcdMethod::Alarm => return of_alarm(request),
            EtcdMethod::Auth(method) => return of_auth(method, request),
            EtcdMethod::Range
            | EtcdMethod::RangeStream
            | EtcdMethod::LeaseKeepAlive
            | EtcdMethod::LeaseTimeToLive
            | EtcdMethod::LeaseLeases
            | EtcdMethod::Hash
            | EtcdMethod::HashKv
            | EtcdMethod::Need(_) => return None,
        })
    }

    /// The change that a request of etcd v2 asks for; `None` if the request only reads.
    pub fn from_v2(request: &v2::Request) -> Option<Operation> {
        let name = match request.command()? {
            V2Command::Set { .. } => "v2Set",
            V2Command::Create { .. } => "v2Create",
            V2Command::Update { .. } => "v2Update",
            V2Command::CompareAndSwap { .. } => "v2CompareAndSwap",
            V2Command::Delete { .. } => "v2Delete",
            V2Command::CompareAndDelete { .. } => "v2CompareAndDelete",
            V2Command::Expire { .. } => return None,
            V2Command::Auth(command) => return Some(of_v2_auth(&command)),
        };
        Some(Operation { name, fields: keys(request.key().text().as_bytes(), &[]) })
    }

    /// A backup. It changes nothing, but its client gets all data.
    pub fn backup() -> Operation {
        Operation { name: "snapshot", fields: Vec::new() }
    }

    /// The change that a call about the members asks for; `None` if the call only reads.
    fn from_cluster(method: ClusterMethod, request: &Bytes) -> Option<Operation> {
        let member = |id: u64| ("member", format!("{id:x}"));
        let peers = |urls: &[String]| ("peers", name(&urls.join(",")));
        Some(match method {
            ClusterMethod::MemberAdd => of(request, "memberAdd", |it: pb::MemberAddRequest| {
                vec![peers(&it.peer_ur_ls), ("learner", it.is_learner.to_string())]
            }),
            ClusterMethod::MemberRemove => {
                of(request, "memberRemove", |it: pb::MemberRemoveRequest| vec![member(it.id)])
            }
            ClusterMethod::MemberUpdate => {
                of(request, "memberUpdate", |it: pb::MemberUpdateRequest| {
                    vec![member(it.id), peers(&it.peer_ur_ls)]
                })
            }
            ClusterMethod::MemberPromote => {
                of(request, "memberPromote", |it: pb::MemberPromoteRequest| vec![member(it.id)])
            }
            ClusterMethod::Defragment => Operation { name: "defragment", fields: Vec::new() },
            ClusterMethod::MoveLeader => {
                of(request, "moveLeader", |it: pb::MoveLeaderRequest| vec![member(it.target_id)])
            }
            ClusterMethod::Downgrade => {
                let it = pb::DowngradeRequest::decode(request.clone()).unwrap_or_default();
                let version = vec![("version", name(&it.version))];
                match it.action() {
                    DowngradeAction::Validate => return None,
                    DowngradeAction::Enable => {
                        Operation { name: "downgradeEnable", fields: version }
                    }
                    DowngradeAction::Cancel => {
                        Operation { name: "downgradeCancel", fields: Vec::new() }
                    }
                }
            }
            _ => return None,
        })
    }
}

/// A change of users and roles of etcd v2, without passwords and hashes.
fn of_v2_auth(command: &V2AuthCommand<'_>) -> Operation {
    let named = |of: &str| vec![("name", name(of))];
    let (what, fields) = match command {
        V2AuthCommand::Enforce { is_enabled: true } => ("v2AuthEnable", Vec::new()),
        V2AuthCommand::Enforce { is_enabled: false } => ("v2AuthDisable", Vec::new()),
        V2AuthCommand::PutUser(put) => ("v2UserPut", named(put.name)),
        V2AuthCommand::DeleteUser { name } => ("v2UserDelete", named(name)),
        V2AuthCommand::PutRole(put) => ("v2RolePut", named(put.name)),
        V2AuthCommand::DeleteRole { name } => ("v2RoleDelete", named(name)),
    };
    Operation { name: what, fields }
}

fn of_auth(method: AuthMethod, request: &Bytes) -> Option<Operation> {
    let user = |name_of: &str| ("name", name(name_of));
    let role = |role: &str| ("role", name(role));
    Some(match method {
        AuthMethod::Enable => Operation { name: "authEnable", fields: Vec::new() },
        AuthMethod::Disable => Operation { name: "authDisable", fields: Vec::new() },
        AuthMethod::Authenticate => {
            of(request, "authenticate", |it: pb::AuthenticateRequest| vec![user(&it.name)])
        }
        AuthMethod::UserAdd => {
            of(request, "userAdd", |it: pb::AuthUserAddRequest| vec![user(&it.name)])
        }
        AuthMethod::UserDelete => {
            of(request, "userDelete", |it: pb::AuthUserDeleteRequest| vec![user(&it.name)])
        }
        AuthMethod::UserChangePassword => {
            of(request, "userChangePassword", |it: pb::AuthUserChangePasswordRequest| {
                vec![user(&it.name)]
            })
        }
        AuthMethod::UserGrantRole => {
            of(request, "userGrantRole", |it: pb::AuthUserGrantRoleRequest| {
                vec![user(&it.user), role(&it.role)]
            })
        }
        AuthMethod::UserRevokeRole => {
            of(request, "userRevokeRole", |it: pb::AuthUserRevokeRoleRequest| {
                vec![user(&it.name), role(&it.role)]
            })
        }
        AuthMethod::RoleAdd => {
            of(request, "roleAdd", |it: pb::AuthRoleAddRequest| vec![role(&it.name)])
        }
        AuthMethod::RoleDelete => {
            of(request, "roleDelete", |it: pb::AuthRoleDeleteRequest| vec![role(&it.role)])
        }
        AuthMethod::RoleGrantPermission => {
            of(request, "roleGrantPermission", |it: pb::AuthRoleGrantPermissionRequest| {
                let perm = it.perm.unwrap_or_default();
                let kind = PermissionType::try_from(perm.perm_type).map(|kind| kind.as_str_name());
                let fields = [role(&it.name), ("permission", kind.unwrap_or("?").to_string())];
                fields.into_iter().chain(keys(&perm.key, &perm.range_end)).collect()
            })
        }
        AuthMethod::RoleRevokePermission => {
            of(request, "roleRevokePermission", |it: pb::AuthRoleRevokePermissionRequest| {
                [role(&it.role)].into_iter().chain(keys(&it.key, &it.range_end)).collect()
            })
        }
        AuthMethod::Status
        | AuthMethod::UserGet
        | AuthMethod::UserList
        | AuthMethod::RoleGet
        | AuthMethod::RoleList => return None,
    })
}

fn of_alarm(request: &Bytes) -> Option<Operation> {
    let it = pb::AlarmRequest::decode(request.clone()).unwrap_or_default();
    let name = match it.action() {
        AlarmAction::Get => return None,
        AlarmAction::Activate => "alarmActivate",
        AlarmAction::Deactivate => "alarmDeactivate",
    };
    let fields =
        vec![("member", format!("{:x}", it.member_id)), ("alarm", it.alarm().as_str_name().into())];
    Some(Operation { name, fields })
}

/// An operation with the fields that `show` finds in the request; without fields if the request is
/// malformed.
fn of<M: Message + Default>(
    request: &Bytes,
    name: &'static str,
    show: impl FnOnce(M) -> Fields,
) -> Operation {
    let fields = M::decode(request.clone()).map(show).unwrap_or_default();
    Operation { name, fields }
}

/// The writes of a transaction, and how many further writes the line has no room for.
fn txn(writes: Writes) -> Fields {
    let count = writes.unshown_count;
    let unshown = (count > 0).then(|| ("writes_not_shown", count.to_string()));
    [("writes", writes.shown)].into_iter().chain(unshown).collect()
}

/// A key, or the two ends of a range, as fields.
fn keys(key: &[u8], range_end: &[u8]) -> Fields {
    let end = (!range_end.is_empty()).then(|| ("range_end", key_text(range_end)));
    [("key", key_text(key))].into_iter().chain(end).collect()
}

fn key_text(key: &[u8]) -> String {
    quoted(key, KEY_BYTES_MAX)
}

/// A key in quotes, with all but printable ASCII escaped. A key of more than `bytes_max` bytes is
/// cut there, and its full length follows.
pub fn quoted(key: &[u8], bytes_max: usize) -> String {
    match key.get(..bytes_max) {
        Some(shown) if shown.len() < key.len() => {
            format!("\"{}\"...({} bytes)", shown.escape_ascii(), key.len())
        }
        _ => format!("\"{}\"", key.escape_ascii()),
    }
}

/// A lease id in hex, as `etcdctl` shows it.
fn lease(id: i64) -> String {
    format!("{id:016x}")
}

/// A name, cut if it is long. Control characters become `?`, so that no name can begin a new line.
fn name(name: &str) -> String {
    let mut shown = String::new();
    for c in name.chars().take(NAME_CHARS_MAX) {
        shown.push(if c.is_control() { '?' } else { c });
    }
    if name.chars().nth(NAME_CHARS_MAX).is_some() {
        let _ = shown.write_str("...");
    }
    shown
}

#[cfg(test)]
mod tests;
