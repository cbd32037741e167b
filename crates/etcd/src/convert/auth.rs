//! Requests and responses of the service `Auth`: turns requests into commands that change users and
//! roles ([`AuthChange`]) or into reads of users and roles ([`AuthQuestion`]), and answers the
//! reads from the store.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use machine::etcd::Store;
use machine::etcd::auth::{AuthCommand, AuthInfo, Permission, PermissionKind, ROOT_ROLE};
use machine::etcd::command::KeyRange;
use machine::etcd::reply::Refusal;
use prost::{DecodeError, Message};

use super::Header;
use crate::Error;
use crate::limits::USER_NAME_BYTES_MAX;
use crate::pb::authpb;
use crate::pb::authpb::permission::Type as PermissionType;
use crate::pb::etcdserverpb as pb;

/// etcd's error text if a request gives a password for a user that has none
/// (`auth.ErrNoPasswordUser`). If a request gives a hash in place of a password, etcd answers with
/// this text whatever is wrong with the hash. The code is `Unknown`.
pub const NO_PASSWORD_USER: &str =
    "auth: authentication failed, password was given for no password user";

/// A method of the service `etcdserverpb.Auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// `AuthEnable`.
    Enable,
    /// `AuthDisable`.
    Disable,
    /// `AuthStatus`.
    Status,
    /// `Authenticate`.
    Authenticate,
    /// `UserAdd`.
    UserAdd,
    /// `UserGet`.
    UserGet,
    /// `UserList`.
    UserList,
    /// `UserDelete`.
    UserDelete,
    /// `UserChangePassword`.
    UserChangePassword,
    /// `UserGrantRole`.
    UserGrantRole,
    /// `UserRevokeRole`.
    UserRevokeRole,
    /// `RoleAdd`.
    RoleAdd,
    /// `RoleGet`.
    RoleGet,
    /// `RoleList`.
    RoleList,
    /// `RoleDelete`.
    RoleDelete,
    /// `RoleGrantPermission`.
    RoleGrantPermission,
    /// `RoleRevokePermission`.
    RoleRevokePermission,
}

impl AuthMethod {
    /// Every method, with its name in the service.
    pub const ALL: [(&'static str, AuthMethod); 17] = [
        ("AuthEnable", AuthMethod::Enable),
        ("AuthDisable", AuthMethod::Disable),
        ("AuthStatus", AuthMethod::Status),
        ("Authenticate", AuthMethod::Authenticate),
        ("UserAdd", AuthMethod::UserAdd),
        ("UserGet", AuthMethod::UserGet),
        ("UserList", AuthMethod::UserList),
        ("UserDelete", AuthMethod::UserDelete),
        ("UserChangePassword", AuthMethod::UserChangePassword),
        ("UserGrantRole", AuthMethod::UserGrantRole),
        ("UserRevokeRole", AuthMethod::UserRevokeRole),
        ("RoleAdd", AuthMethod::RoleAdd),
        ("RoleGet", AuthMethod::RoleGet),
        ("RoleList", AuthMethod::RoleList),
        ("RoleDelete", AuthMethod::RoleDelete),
        ("RoleGrantPermission", AuthMethod::RoleGrantPermission),
        ("RoleRevokePermission", AuthMethod::RoleRevokePermission),
    ];
}

/// A request of the service `Auth`.
#[derive(Clone, Debug)]
pub enum AuthRequest {
    /// A change of users and roles, which becomes a command.
    Change(AuthChange),
    /// A read of users and roles, which the server answers from its store.
    Question(AuthQuestion),
    /// A user asks for a token and gives the password.
    Authenticate(pb::AuthenticateRequest),
}

/// A request for a change of users and roles.
#[derive(Clone, Debug)]
pub enum AuthChange {
    /// `AuthEnable`.
    Enable,
    /// `AuthDisable`.
    Disable,
    /// `UserAdd`.
    UserAdd(pb::AuthUserAddRequest),
    /// `UserDelete`.
    UserDelete(pb::AuthUserDeleteRequest),
    /// `UserChangePassword`.
    UserChangePassword(pb::AuthUserChangePasswordRequest),
    /// `UserGrantRole`.
    UserGrantRole(pb::AuthUserGrantRoleRequest),
    /// `UserRevokeRole`.
    UserRevokeRole(pb::AuthUserRevokeRoleRequest),
    /// `RoleAdd`.
    RoleAdd(pb::AuthRoleAddRequest),
    /// `RoleDelete`.
    RoleDelete(pb::AuthRoleDeleteRequest),
    /// `RoleGrantPermission`.
    RoleGrantPermission(pb::AuthRoleGrantPermissionRequest),
    /// `RoleRevokePermission`.
    RoleRevokePermission(pb::AuthRoleRevokePermissionRequest),
}

/// A read of users and roles.
#[derive(Clone, Debug)]
pub enum AuthQuestion {
    /// `AuthStatus`.
    Status,
    /// `UserGet`.
    UserGet(pb::AuthUserGetRequest),
    /// `UserList`.
    UserList,
    /// `RoleGet`.
    RoleGet(pb::AuthRoleGetRequest),
    /// `RoleList`.
    RoleList,
}

/// Why a request cannot become a command. If the client has no right to the change, etcd reports
/// that in place of the flaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthFlaw<'a> {
    /// The hash that the client gave in place of a password is not base64.
    Hash {
        /// The user whose password is to change.
        user: &'a str,
    },
    /// The permission to grant has an unknown kind.
    PermissionKind {
        /// The role that is to get the permission.
        role: &'a str,
        /// The range of keys of the permission.
        range: KeyRange<'a>,
    },
}

impl AuthRequest {
    /// Decodes a request of this method.
    ///
    /// # Errors
    /// The bytes are no message of the method.
    pub fn decode(method: AuthMethod, bytes: Bytes) -> Result<AuthRequest, DecodeError> {
        use AuthRequest::{Change, Question};
        Ok(match method {
            AuthMethod::Enable => {
                pb::AuthEnableRequest::decode(bytes)?;
                Change(AuthChange::Enable)
            }
            AuthMethod::Disable => {
                pb::AuthDisableRequest::decode(bytes)?;
                Change(AuthChange::Disable)
            }
            AuthMethod::Status => {
                pb::AuthStatusRequest::decode(bytes)?;
                Question(AuthQuestion::Status)
            }
            AuthMethod::UserList => {
                pb::AuthUserListRequest::decode(bytes)?;
                Question(AuthQuestion::UserList)
            }
            AuthMethod::RoleList => {
                pb::AuthRoleListRequest::decode(bytes)?;
                Question(AuthQuestion::RoleList)
            }
            AuthMethod::Authenticate => AuthRequest::Authenticate(Message::decode(bytes)?),
            AuthMethod::UserAdd => Change(AuthChange::UserAdd(Message::decode(bytes)?)),
            AuthMethod::UserGet => Question(AuthQuestion::UserGet(Message::decode(bytes)?)),
            AuthMethod::UserDelete => Change(AuthChange::UserDelete(Message::decode(bytes)?)),
            AuthMethod::UserChangePassword => {
                Change(AuthChange::UserChangePassword(Message::decode(bytes)?))
            }
            AuthMethod::UserGrantRole => Change(AuthChange::UserGrantRole(Message::decode(bytes)?)),
            AuthMethod::UserRevokeRole => {
                Change(AuthChange::UserRevokeRole(Message::decode(bytes)?))
            }
            AuthMethod::RoleAdd => Change(AuthChange::RoleAdd(Message::decode(bytes)?)),
            AuthMethod::RoleGet => Question(AuthQuestion::RoleGet(Message::decode(bytes)?)),
            AuthMethod::RoleDelete => Change(AuthChange::RoleDelete(Message::decode(bytes)?)),
            AuthMethod::RoleGrantPermission => {
                Change(AuthChange::RoleGrantPermission(Message::decode(bytes)?))
            }
            AuthMethod::RoleRevokePermission => {
                Change(AuthChange::RoleRevokePermission(Message::decode(bytes)?))
            }
        })
    }
}

impl AuthChange {
    /// Takes the password out of the request; `None` if it has none. The caller hashes the password
    /// and gives the hash to [`AuthChange::command`].
    pub fn take_password(&mut self) -> Option<String> {
        match self {
            AuthChange::UserAdd(request) if !has_no_password(request) => {
                Some(core::mem::take(&mut request.password))
            }
            AuthChange::UserChangePassword(request) if !request.password.is_empty() => {
                Some(core::mem::take(&mut request.password))
            }
            _ => None,
        }
    }

    /// The flaw that makes the request impossible; `None` if it has none. etcd checks the client's
    /// right first, so if the client has no right to the change, the caller must report that in
    /// place of the flaw.
    pub fn flaw(&self) -> Option<AuthFlaw<'_>> {
        match self {
            AuthChange::UserChangePassword(request) if self.given_hash().is_none() => {
                Some(AuthFlaw::Hash { user: &request.name })
            }
            AuthChange::RoleGrantPermission(pb::AuthRoleGrantPermissionRequest { name, perm }) => {
                let perm = perm.as_ref().filter(|perm| permission(perm).is_err())?;
                let range = KeyRange { key: &perm.key, end: &perm.range_end };
                Some(AuthFlaw::PermissionKind { role: name, range })
            }
            _ => None,
        }
    }

    /// The hash that the client gave in place of a password; `None` if it is not base64. etcd
    /// accepts a hash in a change of a password that has no new password; all other requests give
    /// an empty hash.
    pub fn given_hash(&self) -> Option<Vec<u8>> {
        match self {
            AuthChange::UserChangePassword(request) => {
                STANDARD.decode(&request.hashed_password).ok()
            }
            _ => Some(Vec::new()),
        }
    }

    /// The command for the log. `hash` is the hash of the password, if the change sets one.
    ///
    /// # Errors
    /// The name of a user is too long, or the kind of a permission is unknown.
    pub fn command<'a>(&'a self, hash: &'a [u8]) -> Result<AuthCommand<'a>, Error> {
        Ok(match self {
            AuthChange::Enable => AuthCommand::Enable,
            AuthChange::Disable => AuthCommand::Disable,
            AuthChange::UserAdd(request) => {
                if request.name.len() > USER_NAME_BYTES_MAX {
                    return Err(Error::RequestTooLarge);
                }
                let password = (!has_no_password(request)).then_some(hash);
                AuthCommand::AddUser { user: &request.name, password }
            }
            AuthChange::UserDelete(request) => AuthCommand::DeleteUser { user: &request.name },
            AuthChange::UserChangePassword(request) => {
                AuthCommand::ChangePassword { user: &request.name, password: hash }
            }
            AuthChange::UserGrantRole(pb::AuthUserGrantRoleRequest { user, role }) => {
                AuthCommand::GrantRole { user, role }
            }
            AuthChange::UserRevokeRole(pb::AuthUserRevokeRoleRequest { name, role }) => {
                AuthCommand::RevokeRole { user: name, role }
            }
            AuthChange::RoleAdd(request) => AuthCommand::AddRole { role: &request.name },
            AuthChange::RoleDelete(request) => AuthCommand::DeleteRole { role: &request.role },
            AuthChange::RoleGrantPermission(request) => {
                let permission = request.perm.as_ref().map(permission).transpose()?;
                AuthCommand::GrantPermission { role: &request.name, permission }
            }
            AuthChange::RoleRevokePermission(request) => {
                let range = KeyRange { key: &request.key, end: &request.range_end };
                AuthCommand::RevokePermission { role: &request.role, range }
            }
        })
    }
}

fn has_no_password(request: &pb::AuthUserAddRequest) -> bool {
    request.options.is_some_and(|options| options.no_password)
}

pub(crate) fn permission(permission: &authpb::Permission) -> Result<Permission<'_>, Error> {
    let kind = match PermissionType::try_from(permission.perm_type) {
        Ok(PermissionType::Read) => PermissionKind::Read,
        Ok(PermissionType::Write) => PermissionKind::Write,
        Ok(PermissionType::Readwrite) => PermissionKind::ReadWrite,
        Err(_) => return Err(Error::InvalidAuthManagement),
    };
    let range = KeyRange { key: &permission.key, end: &permission.range_end };
    Ok(Permission { kind, range })
}

impl AuthQuestion {
    /// The encoded response. `who` is the user that asks; `None` for a client without a user.
    ///
    /// # Errors
    /// The user has no right to read the answer, or there is no such user or role.
    pub fn answer(
        &self,
        header: Header,
        store: &Store,
        who: Option<AuthInfo<'_>>,
    ) -> Result<Vec<u8>, Refusal> {
        let auth = store.auth();
        let header = Some(header.with_revision(store.revision()));
        // The checks of `apply.authApplierV3`: a user may see itself and its own roles.
        let is_own = match self {
            // etcd treats a client without a user as the user with the empty name.
            AuthQuestion::UserGet(request) => who.map_or("", |who| who.user) == request.name,
            AuthQuestion::RoleGet(request) => {
                who.is_some_and(|who| auth.has_role(who.user, &request.role))
            }
            _ => false,
        };
        if !is_own {
            auth.require_root(who)?;
        }
        Ok(match self {
            AuthQuestion::Status => {
                let (enabled, auth_revision) = (auth.is_enabled(), auth.revision());
                pb::AuthStatusResponse { header, enabled, auth_revision }.encode_to_vec()
            }
            AuthQuestion::UserGet(request) => {
                let user = auth.user(&request.name).ok_or(Refusal::UserNotFound)?;
                let roles = user.roles.iter().map(|role| role.to_string()).collect();
                pb::AuthUserGetResponse { header, roles }.encode_to_vec()
            }
            AuthQuestion::UserList => {
                let users = auth.users().map(|(name, _)| name.to_string()).collect();
                pb::AuthUserListResponse { header, users }.encode_to_vec()
            }
            AuthQuestion::RoleGet(request) => {
                let role = auth.role(&request.role).ok_or(Refusal::RoleNotFound)?;
                let perm = match &*request.role {
                    ROOT_ROLE => vec![everything()],
                    _ => role.permissions().map(permission_message).collect(),
                };
                pb::AuthRoleGetResponse { header, perm }.encode_to_vec()
            }
            AuthQuestion::RoleList => {
                let roles = auth.roles().map(|(name, _)| name.to_string()).collect();
                pb::AuthRoleListResponse { header, roles }.encode_to_vec()
            }
        })
    }
}

/// The permission of the role `root` (`auth.rootPerm`).
fn everything() -> authpb::Permission {
    let perm_type = PermissionType::Readwrite.into();
    authpb::Permission { perm_type, key: Bytes::new(), range_end: Bytes::from_static(&[0]) }
}

/// A permission as a message.
pub(crate) fn permission_message(permission: Permission<'_>) -> authpb::Permission {
    let perm_type = match permission.kind {
        PermissionKind::Read => PermissionType::Read,
        PermissionKind::Write => PermissionType::Write,
        PermissionKind::ReadWrite => PermissionType::Readwrite,
    };
    let bytes = Bytes::copy_from_slice;
    let (key, range_end) = (bytes(permission.range.key), bytes(permission.range.end));
    authpb::Permission { perm_type: perm_type.into(), key, range_end }
}

/// The encoded response to a request for a token.
pub fn authenticated(header: Header, revision: i64, token: String) -> Vec<u8> {
    let header = Some(header.with_revision(revision));
    pb::AuthenticateResponse { header, token }.encode_to_vec()
}
