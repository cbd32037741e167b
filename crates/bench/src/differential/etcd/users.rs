//! Random users, roles and permissions: calls of the service `Auth`, and other calls by users whose
//! permissions change meanwhile. Enforcement may be enabled or disabled between any two calls.
//!
//! Each server makes its own tokens, so a login gives two: one for each server. The tokens
//! themselves are not compared, only whether a login returns one. A seed ends without users and
//! roles, and with the same revision on both servers.

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::authpb::{Permission, UserAddOptions};
use etcd::pb::etcdserverpb as pb;

use crate::random::Random;
use crate::workloads::etcd::client::Call;
use crate::workloads::etcd::grpc::Answer;

/// The number of calls in the part of a seed that has users.
pub const CALLS: usize = 150;

/// The user with all permissions, and the password that it always has.
const ROOT: (&str, &str) = ("root", "r");

const USERS: [&str; 4] = ["root", "alice", "bob", ""];
const ROLES: [&str; 4] = ["root", "reader", "writer", ""];
const PASSWORDS: [&str; 3] = ["p", "q", ""];

/// The keys in permissions: those that the other requests use, and some more.
const KEYS: [&[u8]; 8] = [b"\0", b"a", b"a/", b"b", b"b\0", b"c", b"e", b""];

/// An encoded call of the service `Auth`.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthCall {
    /// The method.
    pub name: &'static str,
    /// The request as text.
    pub shown: String,
    request: Bytes,
}

/// The answer to an [`AuthCall`], without what may differ between servers.
#[derive(Clone, Debug, PartialEq)]
pub enum AuthReply {
    /// Success: the revision and the other fields. The token of [`login`] is left out.
    Good {
        /// The revision of the store.
        revision: i64,
        /// The other fields, as text.
        rest: String,
    },
    /// An error.
    Error {
        /// The gRPC status code.
        code: u32,
        /// The text of the error.
        message: String,
    },
}

impl AuthCall {
    fn new(name: &'static str, request: &(impl Message + std::fmt::Debug)) -> AuthCall {
        let shown = format!("{request:?}");
        AuthCall { name, shown, request: request.encode_to_vec().into() }
    }

    /// The call with a token in its metadata.
    ///
    /// # Errors
    /// The token cannot be the value of a header.
    pub fn call(&self, token: Option<&str>) -> anyhow::Result<Call> {
        let path = format!("/etcdserverpb.Auth/{}", self.name);
        Call::from_bytes(&path, &self.request)?.with_token(token)
    }

    /// Decodes the answer. Also returns the token, if the answer has one.
    ///
    /// # Errors
    /// The answer is not one to this call.
    pub fn reply(&self, answer: Answer) -> anyhow::Result<(AuthReply, Option<String>)> {
        let Answer { code, message, body } = answer;
        if code != 0 {
            return Ok((AuthReply::Error { code, message }, None));
        }
        // All responses have the header in the same field.
        let header = pb::AuthEnableResponse::decode(body.clone())?.header.unwrap_or_default();
        let (mut token, mut rest) = (None, String::new());
        match self.name {
            "Authenticate" => {
                token = Some(pb::AuthenticateResponse::decode(body)?.token);
            }
            "AuthStatus" => {
                let status = pb::AuthStatusResponse::decode(body)?;
                rest = format!("{} {}", status.enabled, status.auth_revision);
            }
            "UserGet" => rest = format!("{:?}", pb::AuthUserGetResponse::decode(body)?.roles),
            "UserList" => rest = format!("{:?}", pb::AuthUserListResponse::decode(body)?.users),
            "RoleList" => rest = format!("{:?}", pb::AuthRoleListResponse::decode(body)?.roles),
            "RoleGet" => {
                // etcd does not order permissions of the same key.
                let mut all = pb::AuthRoleGetResponse::decode(body)?.perm;
                all.sort_by(|one, other| {
                    (&one.key, &one.range_end).cmp(&(&other.key, &other.range_end))
                });
                rest = format!("{all:?}");
            }
            _ => {}
        }
        Ok((AuthReply::Good { revision: header.revision, rest }, token))
    }
}

/// A call that logs in with this name and password.
pub fn login(name: &str, password: &str) -> AuthCall {
    let (name, password) = (name.to_string(), password.to_string());
    AuthCall::new("Authenticate", &pb::AuthenticateRequest { name, password })
}

/// The next step of a seed.
pub enum Next {
    /// A call of the service.
    Auth(AuthCall),
    /// A random request of another service.
    Other,
}

/// Draws the calls of a seed, and keeps the tokens of its logins.
pub struct Users {
    random: Random,
    /// The tokens of the newest logins, at most six pairs. A pair has the reference server's token,
    /// then the other server's.
    tokens: Vec<(String, String)>,
}

impl Users {
    /// The users of a seed.
    pub fn new(seed: u64) -> Users {
        Users { random: Random::new(seed ^ 0x75_73_65_72), tokens: Vec::new() }
    }

    /// The calls that start the part with users: they make the user with all permissions.
    pub fn first(&self) -> Vec<AuthCall> {
        let (name, password) = (ROOT.0.to_string(), ROOT.1.to_string());
        let add = pb::AuthUserAddRequest { name, password, ..Default::default() };
        vec![AuthCall::new("UserAdd", &add), grant_role("root", "root")]
    }

    /// Keeps the tokens of a login, and forgets the oldest if there are too many.
    pub fn on_login(&mut self, expected: String, got: String) {
        if self.tokens.len() == 6 {
            self.tokens.remove(0);
        }
        self.tokens.push((expected, got));
    }

    /// The tokens of the newest login.
    pub fn newest(&self) -> Option<(String, String)> {
        self.tokens.last().cloned()
    }

    /// The tokens for the next call: often those of the newest login, sometimes none, an invalid or
    /// an older one.
    pub fn tokens(&mut self) -> Option<(String, String)> {
        match self.random.below(12) {
            0 => None,
            1 => Some(("no token".into(), "no token".into())),
            2 => Some(("abcdefghijklmnop.1".into(), "abcdefghijklmnop.1".into())),
            3..=5 if !self.tokens.is_empty() => {
                let at = self.random.below(self.tokens.len() as u64) as usize;
                Some(self.tokens[at].clone())
            }
            _ => self.newest(),
        }
    }

    /// Draws what comes next.
    pub fn draw(&mut self) -> Next {
        let user = self.random.pick(&USERS).to_string();
        let role = self.random.pick(&ROLES).to_string();
        let password = self.random.pick(&PASSWORDS).to_string();
        Next::Auth(match self.random.below(64) {
            0..=3 => AuthCall::new("AuthEnable", &pb::AuthEnableRequest {}),
            4 => AuthCall::new("AuthDisable", &pb::AuthDisableRequest {}),
            5 => AuthCall::new("AuthStatus", &pb::AuthStatusRequest {}),
            6..=9 => login(ROOT.0, ROOT.1),
            10..=15 => login(&user, &password),
            16..=18 => self.add_user(user, password),
            19 => AuthCall::new("UserGet", &pb::AuthUserGetRequest { name: user }),
            20 => AuthCall::new("UserList", &pb::AuthUserListRequest {}),
            21 if user != "root" || self.random.below(3) == 0 => {
                AuthCall::new("UserDelete", &pb::AuthUserDeleteRequest { name: user })
            }
            22..=23 if user != "root" => {
                let hashed_password = String::new();
                let request =
                    pb::AuthUserChangePasswordRequest { name: user, password, hashed_password };
                AuthCall::new("UserChangePassword", &request)
            }
            24..=27 => grant_role(&user, &role),
            28 => {
                let request = pb::AuthUserRevokeRoleRequest { name: user, role };
                AuthCall::new("UserRevokeRole", &request)
            }
            29..=30 => AuthCall::new("RoleAdd", &pb::AuthRoleAddRequest { name: role }),
            31 => AuthCall::new("RoleGet", &pb::AuthRoleGetRequest { role }),
            32 => AuthCall::new("RoleList", &pb::AuthRoleListRequest {}),
            33 if self.random.below(3) == 0 => {
                AuthCall::new("RoleDelete", &pb::AuthRoleDeleteRequest { role })
            }
            34..=38 => {
                let perm = (self.random.below(10) > 0).then(|| self.permission());
                let request = pb::AuthRoleGrantPermissionRequest { name: role, perm };
                AuthCall::new("RoleGrantPermission", &request)
            }
            39 => {
                let Permission { key, range_end, .. } = self.permission();
                let request = pb::AuthRoleRevokePermissionRequest { role, key, range_end };
                AuthCall::new("RoleRevokePermission", &request)
            }
            _ => return Next::Other,
        })
    }

    /// `root` always gets its fixed password: without it a seed could not end.
    fn add_user(&mut self, name: String, password: String) -> AuthCall {
        let is_root = name == ROOT.0;
        let password = if is_root { ROOT.1.to_string() } else { password };
        let no_password = !is_root && self.random.below(4) == 0;
        let options =
            (self.random.below(2) == 0 || no_password).then_some(UserAddOptions { no_password });
        let hashed_password = String::new();
        let request = pb::AuthUserAddRequest { name, password, options, hashed_password };
        AuthCall::new("UserAdd", &request)
    }

    fn permission(&mut self) -> Permission {
        let (key, end) = (*self.random.pick(&KEYS), *self.random.pick(&KEYS));
        let range_end = if self.random.below(3) == 0 { &b""[..] } else { end };
        let perm_type = self.random.below(3) as i32;
        Permission { perm_type, key: key.into(), range_end: range_end.into() }
    }

    /// The calls that remove all users and roles, after enforcement was disabled.
    pub fn last(&self) -> Vec<AuthCall> {
        let users = USERS.into_iter().filter(|name| !name.is_empty()).map(|name| {
            let name = name.to_string();
            AuthCall::new("UserDelete", &pb::AuthUserDeleteRequest { name })
        });
        let roles = ROLES.into_iter().filter(|role| !role.is_empty()).map(|role| {
            let role = role.to_string();
            AuthCall::new("RoleDelete", &pb::AuthRoleDeleteRequest { role })
        });
        users.chain(roles).collect()
    }

    /// The call that disables enforcement.
    pub fn disable(&self) -> AuthCall {
        AuthCall::new("AuthDisable", &pb::AuthDisableRequest {})
    }

    /// The login of `root`.
    pub fn login_of_root(&self) -> AuthCall {
        login(ROOT.0, ROOT.1)
    }
}

fn grant_role(user: &str, role: &str) -> AuthCall {
    let (user, role) = (user.to_string(), role.to_string());
    AuthCall::new("UserGrantRole", &pb::AuthUserGrantRoleRequest { user, role })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_method_is_drawn() {
        let mut names = BTreeSet::new();
        for seed in 0..20 {
            let mut users = Users::new(seed);
            for _ in 0..CALLS {
                if let Next::Auth(call) = users.draw() {
                    names.insert(call.name);
                }
            }
        }
        let all = etcd::convert::AuthMethod::ALL.map(|(name, _)| name);
        assert_eq!(names, BTreeSet::from(all));
    }
}
