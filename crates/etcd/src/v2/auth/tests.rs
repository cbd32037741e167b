use std::sync::Arc;

use machine::etcd_v2::Store;
use machine::etcd_v2::auth::Who;
use machine::etcd_v2::change::Changes;
use machine::etcd_v2::command::Command;

use super::*;

fn text(line: Vec<u8>) -> String {
    String::from_utf8(line).unwrap()
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn a_user(name: &str, roles: &[&str]) -> UserWrite {
    let (name, grant) = (name.to_string(), list(roles));
    UserWrite { name, may_create: true, hash: b"hash".to_vec(), grant, ..UserWrite::default() }
}

fn a_role(name: &str, read: &[&str]) -> RoleWrite {
    let grant = PatternLists { read: Some(list(read)), write: None };
    RoleWrite { name: name.to_string(), grant, ..RoleWrite::default() }
}

/// The users and roles after these changes.
fn auth_of(writes: &[AuthWrite]) -> Arc<Auth> {
    let mut store = Store::default();
    for write in writes {
        let command = Command::Auth(write.command());
        store.apply((Who::Guest, 0), &command, &mut Changes::default()).unwrap();
    }
    store.auth().clone()
}

#[test]
fn lines_are_as_go_writes_them() {
    let (user, role) = (a_user("<ada>", &["r", "none"]), a_role("r", &["/a\"b", "/a"]));
    assert_eq!(
        text(made_user(&user)),
        "{\"user\":\"\\u003cada\\u003e\",\"roles\":[\"r\",\"none\"]}\n"
    );
    assert_eq!(text(made_user(&a_user("bob", &[]))), "{\"user\":\"bob\",\"roles\":null}\n");
    assert_eq!(text(made_user(&a_user("root", &[]))), "{\"user\":\"root\",\"roles\":[\"root\"]}\n");
    assert_eq!(
        text(made_role(&role)),
        "{\"role\":\"r\",\"permissions\":{\"kv\":{\"read\":[\"/a\\\"b\",\"/a\"],\"write\":null}}}\n"
    );
    let auth = auth_of(&[AuthWrite::PutUser(user), AuthWrite::PutRole(role)]);
    let shown =
        "{\"role\":\"r\",\"permissions\":{\"kv\":{\"read\":[\"/a\",\"/a\\\"b\"],\"write\":[]}}}";
    let user = format!("{{\"user\":\"\\u003cada\\u003e\",\"roles\":[{shown}]}}");
    let users = users_line(&auth, usize::MAX).map(text);
    assert_eq!(users, Some(format!("{{\"users\":[{user}]}}\n")));
    // A user shown alone is an error while one of its roles is missing, as in etcd.
    assert_eq!(shown_user(&auth, "<ada>"), Err((404, "auth: Role none does not exist.".into())));
    assert_eq!(shown_user(&auth, "bob"), Err((404, "auth: User bob does not exist.".into())));
    let all = "{\"role\":\"root\",\"permissions\":{\"kv\":{\"read\":[\"/*\"],\"write\":[\"/*\"]}}}";
    assert_eq!(text(roles_line(&auth)), format!("{{\"roles\":[{shown},{all}]}}\n"));
}

#[test]
fn a_line_of_users_has_a_bound() {
    let long = "x".repeat(1_000);
    let mut writes = vec![AuthWrite::PutRole(a_role(&long, &[]))];
    for number in 0..10 {
        writes.push(AuthWrite::PutUser(a_user(&number.to_string(), &[&long])));
    }
    let auth = auth_of(&writes);
    assert_eq!(users_line(&auth, 5_000), None);
    assert!(users_line(&auth, 20_000).is_some_and(|line| line.len() > 10_000));
}

#[test]
fn the_bytes_of_a_change_are_those_of_its_texts() {
    let mut user = a_user("ada", &["r"]);
    user.revoke = list(&["ss"]);
    assert_eq!(AuthWrite::PutUser(user).bytes(), 3 + 4 + (4 + 1) + (4 + 2));
    let mut role = a_role("r", &["/a"]);
    role.revoke.write = Some(list(&["/b", "/c"]));
    assert_eq!(AuthWrite::PutRole(role).bytes(), 1 + (4 + 2) * 3);
    assert_eq!(AuthWrite::DeleteUser("ada".to_string()).bytes(), 3);
}
