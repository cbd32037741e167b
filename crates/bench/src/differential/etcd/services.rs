//! Compares all services besides keys and watches: each call of Maintenance, Cluster, Lease, Lock,
//! Election and Auth, over the HTTP gateway and over gRPC. Each answer is compared field by field,
//! its header included.
//!
//! A call is written as JSON, as the gateway takes it. Its answer over gRPC is shown in the same
//! form, so a field or header that one server leaves out is noticed either way. Fields that must
//! differ (member ids, terms, sizes, hashes, tokens) are compared only by whether they exist.
//!
//! Left out, because Quorate differs on purpose: updates of a member with invalid URLs. Also left
//! out: `Snapshot`, `Downgrade` with success, and `Lock` or `Campaign` with a lease that already
//! has its key, where Quorate puts the key again. Changes of members that take effect are in
//! [`super::members`].

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::Context;
use etcd::gateway::{self, GatewayMethod};
use serde_json::{Map, Value};

use crate::limits::DIFFERENTIAL_SILENCE;
use crate::workloads::etcd::client::Call;
use crate::workloads::etcd::grpc::Answer;

/// The way in which a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// HTTP/1.1 with JSON, by the gateway.
    Gateway,
    /// gRPC.
    Grpc,
}

/// The ways in which each call is made, in order. The order changes from seed to seed, because some
/// calls take effect only the first time, and that must be tested both ways.
pub fn ways(seed: u64) -> [Way; 2] {
    match seed % 2 {
        0 => [Way::Gateway, Way::Grpc],
        _ => [Way::Grpc, Way::Gateway],
    }
}

/// The calls, in order: the path after `/v3/`, and the body. Marks in bodies are replaced:
/// `@MEMBER` by the server's member id, `@KEY` and `@REVISION` by the key of the last candidate and
/// its create revision, `@WAY` and `@WAY2` by names of a lock and an election.
pub const CALLS: &[(&str, &str)] = &[
    // An empty store.
    ("maintenance/status", "{}"),
    ("maintenance/hashkv", "{}"),
    ("maintenance/hashkv", r#"{"revision":"1000000"}"#),
    ("maintenance/hashkv", r#"{"revision":"-1"}"#),
    ("maintenance/hash", "{}"),
    ("maintenance/defragment", "{}"),
    ("maintenance/alarm", "{}"),
    ("maintenance/alarm", r#"{"action":"ACTIVATE","memberID":"@MEMBER","alarm":"NOSPACE"}"#),
    ("maintenance/alarm", r#"{"action":"GET","alarm":"NOSPACE"}"#),
    ("kv/put", r#"{"key":"YQ=="}"#),
    ("maintenance/alarm", r#"{"action":"DEACTIVATE","memberID":"@MEMBER","alarm":"NOSPACE"}"#),
    ("maintenance/alarm", r#"{"action":"DEACTIVATE","memberID":"@MEMBER","alarm":"NOSPACE"}"#),
    ("maintenance/alarm", r#"{"action":"ACTIVATE","memberID":"@MEMBER","alarm":"CORRUPT"}"#),
    ("maintenance/alarm", r#"{"action":"DEACTIVATE","memberID":"@MEMBER","alarm":"CORRUPT"}"#),
    ("maintenance/alarm", r#"{"action":"GET","memberID":"5"}"#),
    ("maintenance/transfer-leadership", r#"{"targetID":"@MEMBER"}"#),
    ("maintenance/transfer-leadership", r#"{"targetID":"5"}"#),
    ("maintenance/transfer-leadership", "{}"),
    ("maintenance/downgrade", r#"{"action":"VALIDATE","version":"nonsense"}"#),
    ("maintenance/downgrade", r#"{"action":"CANCEL"}"#),
    // Members.
    ("cluster/member/list", "{}"),
    ("cluster/member/list", r#"{"linearizable":true}"#),
    ("cluster/member/add", r#"{"peerURLs":["bad"]}"#),
    ("cluster/member/add", "{}"),
    ("cluster/member/remove", r#"{"ID":"5"}"#),
    ("cluster/member/remove", "{}"),
    ("cluster/member/update", r#"{"ID":"5","peerURLs":["http://127.0.0.1:1"]}"#),
    ("cluster/member/promote", r#"{"ID":"5"}"#),
    ("cluster/member/promote", r#"{"ID":"@MEMBER"}"#),
    // Leases.
    ("lease/grant", r#"{"ID":"77","TTL":"100"}"#),
    ("lease/grant", r#"{"ID":"77","TTL":"100"}"#),
    ("lease/grant", r#"{"ID":"78","TTL":"1"}"#),
    ("lease/grant", r#"{"ID":"79","TTL":"9000000001"}"#),
    ("lease/grant", r#"{"ID":"80","TTL":"-1"}"#),
    ("lease/grant", r#"{"ID":"-5","TTL":"100"}"#),
    ("lease/leases", "{}"),
    ("kv/put", r#"{"key":"YWI=","lease":"77"}"#),
    ("lease/timetolive", r#"{"ID":"77","keys":true}"#),
    ("lease/timetolive", r#"{"ID":"77"}"#),
    ("lease/timetolive", r#"{"ID":"5","keys":true}"#),
    ("lease/keepalive", r#"{"ID":"77"}"#),
    ("lease/keepalive", r#"{"ID":"5"}"#),
    ("lease/keepalive", "{}"),
    ("lease/revoke", r#"{"ID":"5"}"#),
    ("lease/revoke", r#"{"ID":"78"}"#),
    ("lease/revoke", r#"{"ID":"80"}"#),
    ("lease/revoke", r#"{"ID":"-5"}"#),
    ("maintenance/hashkv", "{}"),
    // Locks and elections. No call uses a lease that already has its key: see the module's head.
    ("lock/unlock", r#"{"key":"bm9uZQ=="}"#),
    ("lock/unlock", "{}"),
    ("lock/lock", r#"{"name":"bA==","lease":"5"}"#),
    ("lock/lock", r#"{"name":"@WAY","lease":"77"}"#),
    ("kv/range", r#"{"key":"QA==","range_end":"eg=="}"#),
    ("election/leader", r#"{"name":"ZQ=="}"#),
    ("election/campaign", r#"{"name":"ZQ==","lease":"5","value":"dg=="}"#),
    ("election/campaign", r#"{"name":"@WAY2","lease":"77","value":"dg=="}"#),
    ("election/leader", r#"{"name":"@WAY2"}"#),
    ("election/proclaim", r#"{"value":"dw=="}"#),
    (
        "election/proclaim",
        r#"{"leader":{"name":"@WAY2","key":"@KEY","rev":"@REVISION","lease":"77"},"value":"dw=="}"#,
    ),
    (
        "election/proclaim",
        r#"{"leader":{"name":"@WAY2","key":"@KEY","rev":"1","lease":"77"},"value":"dw=="}"#,
    ),
    ("election/resign", "{}"),
    ("election/resign", r#"{"leader":{"name":"@WAY2","key":"@KEY","rev":"1","lease":"77"}}"#),
    (
        "election/resign",
        r#"{"leader":{"name":"@WAY2","key":"@KEY","rev":"@REVISION","lease":"77"}}"#,
    ),
    ("election/leader", r#"{"name":"@WAY2"}"#),
    // Users, roles and permissions. None of them is enforced.
    ("auth/status", "{}"),
    ("auth/enable", "{}"),
    ("auth/disable", "{}"),
    ("auth/authenticate", r#"{"name":"u","password":"p"}"#),
    ("auth/user/add", r#"{"name":"u","password":"p"}"#),
    ("auth/user/add", r#"{"password":"p"}"#),
    ("auth/user/add", r#"{"name":"n","options":{"no_password":true}}"#),
    ("auth/user/get", r#"{"name":"u"}"#),
    ("auth/user/get", r#"{"name":"none"}"#),
    ("auth/user/list", "{}"),
    ("auth/user/changepw", r#"{"name":"u","password":"q"}"#),
    ("auth/user/changepw", r#"{"name":"none","password":"q"}"#),
    ("auth/role/add", r#"{"name":"r"}"#),
    ("auth/role/add", "{}"),
    (
        "auth/role/grant",
        r#"{"name":"r","perm":{"permType":"READWRITE","key":"YQ==","range_end":"Yg=="}}"#,
    ),
    ("auth/role/grant", r#"{"name":"none","perm":{"key":"YQ=="}}"#),
    ("auth/role/grant", r#"{"name":"r"}"#),
    ("auth/role/get", r#"{"role":"r"}"#),
    ("auth/role/get", r#"{"role":"none"}"#),
    ("auth/role/list", "{}"),
    ("auth/user/grant", r#"{"user":"u","role":"r"}"#),
    ("auth/user/grant", r#"{"user":"u","role":"none"}"#),
    ("auth/user/revoke", r#"{"name":"u","role":"r"}"#),
    ("auth/user/revoke", r#"{"name":"u","role":"none"}"#),
    ("auth/role/revoke", r#"{"role":"r","key":"YQ==","range_end":"Yg=="}"#),
    ("auth/role/revoke", r#"{"role":"r","key":"eg=="}"#),
    ("auth/role/delete", r#"{"role":"r"}"#),
    ("auth/user/delete", r#"{"name":"u"}"#),
    ("auth/user/delete", r#"{"name":"n"}"#),
];

/// The calls that end the comparison of services, made in one way only. After them nothing of the
/// comparison is left on the server.
pub const LAST_CALLS: &[(&str, &str)] = &[("lease/revoke", r#"{"ID":"77"}"#)];

/// Values of one server that later calls to it use.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The id of the server's member.
    member: String,
    /// The key of the last candidate in an election, and the revision at which it was created.
    key: String,
    revision: String,
}

impl Known {
    /// The body of a call to this server, with its marks replaced.
    pub fn body(&self, body: &str, way: Way) -> String {
        // The names of a lock and of an election in base64, different for each way.
        let names = match way {
            Way::Gateway => ["bDE=", "ZTE="],
            Way::Grpc => ["bDI=", "ZTI="],
        };
        body.replace("@MEMBER", &self.member)
            .replace("@REVISION", &self.revision)
            .replace("@KEY", &self.key)
            .replace("@WAY2", names[1])
            .replace("@WAY", names[0])
    }

    /// Remembers what later calls refer to.
    pub fn observe(&mut self, answer: &Value) {
        if let Some(member) = answer.pointer("/header/member_id").and_then(Value::as_str) {
            self.member = member.to_string();
        }
        if let Some(leader) = answer.get("leader").filter(|leader| leader.is_object()) {
            let text = |name: &str| leader[name].as_str().unwrap_or_default().to_string();
            (self.key, self.revision) = (text("key"), text("rev"));
        }
    }
}

/// An answer: its status, and its body as the gateway would show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The HTTP status, or the gRPC code.
    pub status: u32,
    /// The body; for an error over gRPC its text.
    pub body: Value,
}

/// Makes a call over the gateway.
///
/// # Errors
/// The server does not answer, or its answer has not the gateway's form.
pub fn ask_gateway(address: SocketAddr, path: &str, body: &str) -> anyhow::Result<Shown> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(DIFFERENTIAL_SILENCE))?;
    let request = format!(
        "POST /v3/{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes())?;
    let mut text = String::new();
    socket.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no end of the head")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { dechunked(body) } else { body.to_string() };
    // A stream's body has one line for each response; the streams that are called here have one
    // response.
    let body = body.trim_end();
    let body = serde_json::from_str(body).with_context(|| format!("{path}: {body:?}"))?;
    Ok(Shown { status, body })
}

fn dechunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, chunk)) = rest.split_once("\r\n") {
        let Ok(length) = usize::from_str_radix(length.trim(), 16) else { break };
        let Some(part) = chunk.get(..length).filter(|part| !part.is_empty()) else { break };
        body.push_str(part);
        rest = chunk.get(length + 2..).unwrap_or_default();
    }
    body
}

/// A call over gRPC, and the method that decodes its answer.
///
/// # Errors
/// The gateway has no call at this path, or the body is not valid for the call.
pub fn grpc_call(path: &str, body: &str) -> anyhow::Result<(&'static GatewayMethod, Call)> {
    let method = gateway::route("POST", &format!("/v3/{path}"));
    let method = method.map_err(|_| anyhow::anyhow!("no call is at {path}"))?;
    let request = method.request(body.as_bytes()).map_err(|bad| anyhow::anyhow!("{}", bad.0))?;
    Ok((method, Call::from_bytes(method.path, &request)?))
}

/// Shows a gRPC answer as the gateway would show it.
///
/// # Errors
/// The answer does not fit the method.
pub fn of_grpc(method: &GatewayMethod, answer: Answer) -> anyhow::Result<Shown> {
    let Answer { code, message, body } = answer;
    if code != 0 {
        return Ok(Shown { status: code, body: Value::String(message) });
    }
    let text = method.response(&body).map_err(|_| anyhow::anyhow!("a malformed response"))?;
    Ok(Shown { status: 0, body: serde_json::from_str(&text)? })
}

/// Names of fields that differ between any two servers: ids, terms, sizes, and a server's own name
/// and addresses.
const OWN: [&str; 14] = [
    "cluster_id",
    "member_id",
    "memberID",
    "raft_term",
    "raftTerm",
    "raftIndex",
    "raftAppliedIndex",
    "leader_id",
    "dbSize",
    "dbSizeInUse",
    "hash",
    "name",
    "peerURLs",
    "clientURLs",
];

/// Replaces by a mark all values that differ between any two servers.
pub fn mask(path: &str, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            mask_error(fields);
            for (name, field) in fields.iter_mut() {
                let is_of_member = name == "ID" && path.starts_with("cluster/");
                let is_leader = name == "leader" && field.is_string();
                // A second may pass between two calls.
                let is_time = name == "TTL" && path == "lease/timetolive" && field != "-1";
                let is_own = OWN.contains(&name.as_str()) && !path.starts_with("auth/");
                if is_of_member || is_leader || is_time || is_own {
                    *field = Value::from("*");
                } else {
                    mask(path, field);
                }
            }
            // Answers about users have headers, too.
            for name in ["cluster_id", "member_id", "raft_term"] {
                if let Some(field) = fields.get_mut(name) {
                    *field = Value::from("*");
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| mask(path, item));
            if path == "lease/leases" {
                // etcd orders leases by expiry.
                items.sort_by_key(Value::to_string);
            }
        }
        _ => {}
    }
}

/// Removes from an error of the gateway the fields of earlier versions of etcd, which Quorate's
/// errors also have.
pub fn mask_error(fields: &mut Map<String, Value>) {
    if fields.contains_key("code") && fields.contains_key("message") {
        for name in ["error", "grpc_code", "http_code"] {
            fields.remove(name);
        }
    }
}

#[cfg(test)]
mod tests;
