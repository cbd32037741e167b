//! Turns the bodies of requests about users and roles into changes (`authHandler.forUser`,
//! `authHandler.forRole`). The driver parses the JSON; a field of a wrong type makes the body bad.

use etcd::v2::auth::{PatternLists, RoleWrite, UserWrite};

use super::super::limits::NAME_BYTES_MAX;
use super::{Refused, USERS_REQUEST_BYTES_MAX};

/// The reason why a body is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBody {
    /// The body is too large, or does not come.
    Missing,
    /// The body is no JSON, or a field has a wrong type.
    Invalid,
}

impl From<BadBody> for Refused {
    fn from(bad: BadBody) -> Refused {
        match bad {
            BadBody::Missing => {
                let max = USERS_REQUEST_BYTES_MAX;
                Refused::new(400, format!("the body has more than {max} bytes, or does not come"))
            }
            BadBody::Invalid => Refused::new(400, "Invalid JSON in request body."),
        }
    }
}

/// The body of a request about a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserBody {
    /// The name of the user; empty if it is missing.
    pub user: String,
    /// The other fields. They are looked at only if the name is right.
    pub given: Result<UserGiven, BadBody>,
}

/// The fields about a user. Strings and lists that the body lacks are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserGiven {
    /// The new password.
    pub password: String,
    /// The roles of a new user.
    pub roles: Vec<String>,
    /// The roles to add.
    pub grant: Vec<String>,
    /// The roles to take away.
    pub revoke: Vec<String>,
}

/// The body of a request about a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleBody {
    /// The name of the role; empty if it is missing.
    pub role: String,
    /// The other fields: the permissions of a new role, the permissions to add, and the permissions
    /// to take away. They are looked at only if the name is right.
    pub given: Result<[PatternLists; 3], BadBody>,
}

impl UserBody {
    /// The change that the request asks for, for the user with this name in its path, and the new
    /// password. The password is empty if the body has none.
    pub(super) fn write(self, name: String) -> Result<(UserWrite, String), Refused> {
        if self.user != name {
            let text = "User JSON name does not match the name in the URL";
            return Err(Refused::new(400, text));
        }
        let UserGiven { password, roles, grant, revoke } = self.given?;
        let changes = !grant.is_empty() || !revoke.is_empty();
        if changes && !roles.is_empty() {
            return Err(Refused::new(400, "User JSON contains both roles and grant/revoke"));
        }
        let (may_create, may_change) = (!changes, changes || roles.is_empty());
        let grant = if changes { grant } else { roles };
        let hash = Vec::new();
        let write = UserWrite { name, may_create, may_change, hash, grant, revoke };
        check_names([&write.grant, &write.revoke].into_iter().flatten().chain([&write.name]))?;
        Ok((write, password))
    }
}

impl RoleBody {
    /// The change that the request asks for, for the role with this name in its path.
    pub(super) fn write(self, name: String) -> Result<RoleWrite, Refused> {
        if self.role != name {
            let text = "Role JSON name does not match the name in the URL";
            return Err(Refused::new(400, text));
        }
        let [permissions, grant, revoke] = self.given?;
        let is_change = !grant.is_empty() || !revoke.is_empty();
        if is_change && !permissions.is_empty() {
            let text = "Role JSON contains both permissions and grant/revoke";
            return Err(Refused::new(400, text));
        }
        let grant = if is_change { grant } else { permissions };
        let write = RoleWrite { name, is_change, grant, revoke };
        let lists = [&write.grant, &write.revoke].into_iter().flat_map(|it| [&it.read, &it.write]);
        check_names(lists.flatten().flatten().chain([&write.name]))?;
        Ok(write)
    }
}

/// Refuses names and patterns that the replicated state does not accept.
fn check_names<'a>(mut names: impl Iterator<Item = &'a String>) -> Result<(), Refused> {
    if names.any(|name| name.is_empty() || name.len() > NAME_BYTES_MAX) {
        let text = "auth: a name or pattern is empty or has more than";
        return Err(Refused::new(400, format!("{text} {NAME_BYTES_MAX} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME_WRONG: &str = "User JSON name does not match the name in the URL";

    fn user(given: UserGiven) -> Result<(UserWrite, String), Refused> {
        UserBody { user: "u".into(), given: Ok(given) }.write("u".into())
    }

    fn role(given: [PatternLists; 3]) -> Result<RoleWrite, Refused> {
        RoleBody { role: "r".into(), given: Ok(given) }.write("r".into())
    }

    /// The text of a refusal. Its status is 400.
    fn why<W: core::fmt::Debug>(wanted: Result<W, Refused>) -> String {
        let Refused { status, text } = wanted.unwrap_err();
        assert_eq!(status, 400, "{text}");
        text
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    fn reads(list: &[&str]) -> PatternLists {
        PatternLists { read: Some(texts(list)), write: None }
    }

    #[test]
    fn what_a_request_wants_of_a_user() {
        let given = |roles: &[&str], grant: &[&str], revoke: &[&str]| UserGiven {
            password: "p".into(),
            roles: texts(roles),
            grant: texts(grant),
            revoke: texts(revoke),
        };
        for (given, may_create, may_change, grant, revoke) in [
            (given(&[], &[], &[]), true, true, "", ""),
            (given(&["a", "b"], &[], &[]), true, false, "a,b", ""),
            (given(&[], &["a"], &[]), false, true, "a", ""),
            (given(&[], &[], &["a"]), false, true, "", "a"),
        ] {
            let (write, password) = user(given.clone()).unwrap();
            assert_eq!((write.may_create, write.may_change), (may_create, may_change), "{given:?}");
            assert_eq!(
                (write.grant.join(","), write.revoke.join(",")),
                (grant.into(), revoke.into())
            );
            assert_eq!(password, "p");
        }
        let both = user(given(&["a"], &["b"], &[]));
        assert_eq!(why(both), "User JSON contains both roles and grant/revoke");
    }

    /// The name is compared before the types of the other fields are looked at.
    #[test]
    fn the_name_must_be_that_of_the_path() {
        for name in ["v", ""] {
            let body = UserBody { user: name.into(), given: Err(BadBody::Invalid) };
            assert_eq!(why(body.write("u".into())), NAME_WRONG);
            let body = RoleBody { role: name.into(), given: Err(BadBody::Invalid) };
            let text = "Role JSON name does not match the name in the URL";
            assert_eq!(why(body.write("r".into())), text);
        }
        let body = UserBody { user: "u".into(), given: Err(BadBody::Invalid) };
        assert_eq!(why(body.write("u".into())), "Invalid JSON in request body.");
    }

    #[test]
    fn what_a_request_wants_of_a_role() {
        let none = PatternLists::default;
        let made = role([reads(&["/a"]), reads(&[]), none()]).unwrap();
        assert!(!made.is_change && made.revoke.is_empty());
        assert_eq!((made.grant.read, made.grant.write), (Some(texts(&["/a"])), None));
        let changed = role([none(), none(), reads(&["/a"])]).unwrap();
        assert!(changed.is_change && changed.grant.is_empty() && !changed.revoke.is_empty());
        let both = role([reads(&["/a"]), reads(&["/b"]), none()]);
        assert_eq!(why(both), "Role JSON contains both permissions and grant/revoke");
    }

    /// The replicated state refuses empty names, and a command's decoder must accept every command.
    #[test]
    fn names_and_patterns_are_neither_empty_nor_long() {
        let longest = "x".repeat(NAME_BYTES_MAX);
        assert!(user(UserGiven { grant: vec![longest], ..<_>::default() }).is_ok());
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["", &long] {
            let names = texts(&["a", name]);
            let granted = user(UserGiven { grant: names.clone(), ..<_>::default() });
            assert!(why(granted).starts_with("auth: a name or pattern is empty"), "{name}");
            let revoked = user(UserGiven { revoke: names.clone(), ..<_>::default() });
            assert!(why(revoked).starts_with("auth: a name or pattern is empty"), "{name}");
            let lists = PatternLists { read: None, write: Some(names) };
            let permitted = role([lists, <_>::default(), <_>::default()]);
            assert!(why(permitted).starts_with("auth: a name or pattern is empty"), "{name}");
        }
        let body = UserBody { user: long.clone(), given: Ok(UserGiven::default()) };
        assert!(body.write(long).is_err());
    }
}
