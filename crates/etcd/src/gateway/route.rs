//! Maps each HTTP path to its gRPC call (the `google.api.http` options of etcd's proto files).

use super::schema::GatewayMethod;
use super::table::METHODS;
use grpc_code::Code;

/// Why a request has no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// No call has this path.
    NotFound,
    /// The path has a call, but the HTTP method is not POST.
    MethodNotAllowed,
}

impl NoRoute {
    /// The gRPC code of the error answer.
    pub fn code(self) -> Code {
        match self {
            NoRoute::NotFound => Code::NotFound,
            NoRoute::MethodNotAllowed => Code::Unimplemented,
        }
    }

    /// The text of the error answer.
    pub fn text(self) -> &'static str {
        match self {
            NoRoute::NotFound => "Not Found",
            NoRoute::MethodNotAllowed => "Method Not Allowed",
        }
    }
}

/// The prefixes of the gateway's paths: etcd's own, and that of etcd 3.3, which etcd 3.6 still
/// accepts. A path with another prefix does not belong to the gateway.
pub const PREFIXES: [&str; 2] = ["/v3/", "/v3beta/"];

/// Each path behind the prefix, with its service and call.
const ROUTES: [(&str, &str); 51] = [
    ("kv/range", "etcdserverpb.KV/Range"),
    ("kv/put", "etcdserverpb.KV/Put"),
    ("kv/deleterange", "etcdserverpb.KV/DeleteRange"),
    ("kv/txn", "etcdserverpb.KV/Txn"),
    ("kv/compaction", "etcdserverpb.KV/Compact"),
    ("watch", "etcdserverpb.Watch/Watch"),
    ("lease/grant", "etcdserverpb.Lease/LeaseGrant"),
    ("lease/revoke", "etcdserverpb.Lease/LeaseRevoke"),
    ("kv/lease/revoke", "etcdserverpb.Lease/LeaseRevoke"),
    ("lease/keepalive", "etcdserverpb.Lease/LeaseKeepAlive"),
    ("lease/timetolive", "etcdserverpb.Lease/LeaseTimeToLive"),
    ("kv/lease/timetolive", "etcdserverpb.Lease/LeaseTimeToLive"),
    ("lease/leases", "etcdserverpb.Lease/LeaseLeases"),
    ("kv/lease/leases", "etcdserverpb.Lease/LeaseLeases"),
    ("cluster/member/add", "etcdserverpb.Cluster/MemberAdd"),
    ("cluster/member/remove", "etcdserverpb.Cluster/MemberRemove"),
    ("cluster/member/update", "etcdserverpb.Cluster/MemberUpdate"),
    ("cluster/member/list", "etcdserverpb.Cluster/MemberList"),
    ("cluster/member/promote", "etcdserverpb.Cluster/MemberPromote"),
    ("maintenance/alarm", "etcdserverpb.Maintenance/Alarm"),
    ("maintenance/status", "etcdserverpb.Maintenance/Status"),
    ("maintenance/defragment", "etcdserverpb.Maintenance/Defragment"),
    ("maintenance/hash", "etcdserverpb.Maintenance/Hash"),
    ("maintenance/hashkv", "etcdserverpb.Maintenance/HashKV"),
    ("maintenance/snapshot", "etcdserverpb.Maintenance/Snapshot"),
    ("maintenance/transfer-leadership", "etcdserverpb.Maintenance/MoveLeader"),
    ("maintenance/downgrade", "etcdserverpb.Maintenance/Downgrade"),
    ("auth/enable", "etcdserverpb.Auth/AuthEnable"),
    ("auth/disable", "etcdserverpb.Auth/AuthDisable"),
    ("auth/status", "etcdserverpb.Auth/AuthStatus"),
    ("auth/authenticate", "etcdserverpb.Auth/Authenticate"),
    ("auth/user/add", "etcdserverpb.Auth/UserAdd"),
    ("auth/user/get", "etcdserverpb.Auth/UserGet"),
    ("auth/user/list", "etcdserverpb.Auth/UserList"),
    ("auth/user/delete", "etcdserverpb.Auth/UserDelete"),
    ("auth/user/changepw", "etcdserverpb.Auth/UserChangePassword"),
    ("auth/user/grant", "etcdserverpb.Auth/UserGrantRole"),
    ("auth/user/revoke", "etcdserverpb.Auth/UserRevokeRole"),
    ("auth/role/add", "etcdserverpb.Auth/RoleAdd"),
    ("auth/role/get", "etcdserverpb.Auth/RoleGet"),
    ("auth/role/list", "etcdserverpb.Auth/RoleList"),
    ("auth/role/delete", "etcdserverpb.Auth/RoleDelete"),
    ("auth/role/grant", "etcdserverpb.Auth/RoleGrantPermission"),
    ("auth/role/revoke", "etcdserverpb.Auth/RoleRevokePermission"),
    ("lock/lock", "v3lockpb.Lock/Lock"),
    ("lock/unlock", "v3lockpb.Lock/Unlock"),
    ("election/campaign", "v3electionpb.Election/Campaign"),
    ("election/proclaim", "v3electionpb.Election/Proclaim"),
    ("election/leader", "v3electionpb.Election/Leader"),
    ("election/observe", "v3electionpb.Election/Observe"),
    ("election/resign", "v3electionpb.Election/Resign"),
];

/// The call for a request, by its HTTP method and its path without a query.
pub fn route(http_method: &str, path: &str) -> Result<&'static GatewayMethod, NoRoute> {
    let rest = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix));
    let call = ROUTES.iter().find(|(of, _)| Some(*of) == rest).map(|(_, call)| *call);
    let method = call.and_then(|call| method(&format!("/{call}"))).ok_or(NoRoute::NotFound)?;
    if http_method == "POST" { Ok(method) } else { Err(NoRoute::MethodNotAllowed) }
}

/// The call with this gRPC path, as `/etcdserverpb.KV/Put`.
pub fn method(path: &str) -> Option<&'static GatewayMethod> {
    METHODS.iter().find(|method| method.path == path)
}

#[cfg(test)]
mod tests;
