use serde_json::json;

use super::*;

fn user(given: &Value) -> Result<(UserWrite, String), Refused> {
    user_write("u".to_string(), given)
}

fn role(given: &Value) -> Result<RoleWrite, Refused> {
    role_write("r".to_string(), given)
}

/// The text of a refusal, whose status is 400.
fn why<W: core::fmt::Debug>(parsed: Result<W, Refused>) -> String {
    let (status, text) = parsed.unwrap_err();
    assert_eq!(status, 400, "{text}");
    text
}

#[test]
fn a_path_leads_to_its_place() {
    let name = |rest: &str| match Place::of(rest) {
        Some(Place::User(name)) => format!("user {name}"),
        Some(Place::Role(name)) => format!("role {name}"),
        Some(Place::Users) => "users".to_string(),
        Some(Place::Roles) => "roles".to_string(),
        Some(Place::Enable) => "enable".to_string(),
        Some(Place::TooDeep) => "too deep".to_string(),
        None => "nothing".to_string(),
    };
    for (rest, expected) in [
        ("enable", "enable"),
        ("enable/", "nothing"),
        ("users", "users"),
        ("users/", "users"),
        ("users/ada", "user ada"),
        ("users/ada/", "user ada"),
        ("users/a%20%2Bb", "user a +b"),
        ("users/a%2Fb", "too deep"),
        ("users/%FF", "nothing"),
        ("roles", "roles"),
        ("roles/r/x", "too deep"),
        ("rolesx", "nothing"),
        ("", "nothing"),
    ] {
        assert_eq!(name(rest), expected, "{rest}");
    }
}

#[test]
fn what_a_request_wants_of_a_user() {
    let of = |given: Value| {
        let (write, password) = user(&given).unwrap();
        let UserWrite { may_create, may_change, grant, revoke, .. } = write;
        (may_create, may_change, grant.join(","), revoke.join(","), password)
    };
    let texts = |grant: &str, revoke: &str, password: &str| {
        (grant.to_string(), revoke.to_string(), password.to_string())
    };
    for (given, may_create, may_change, (grant, revoke, password)) in [
        (json!({"user": "u", "password": "p"}), true, true, texts("", "", "p")),
        (json!({"user": "u", "roles": ["a", "b"]}), true, false, texts("a,b", "", "")),
        (json!({"user": "u", "roles": [], "grant": ["a"]}), false, true, texts("a", "", "")),
        (json!({"user": "u", "revoke": ["a"], "password": null}), false, true, texts("", "a", "")),
    ] {
        let expected = (may_create, may_change, grant, revoke, password);
        assert_eq!(of(given.clone()), expected, "{given}");
    }
    let both = json!({"user": "u", "roles": ["a"], "grant": ["b"]});
    assert_eq!(why(user(&both)), "User JSON contains both roles and grant/revoke");
    let other = "User JSON name does not match the name in the URL";
    assert_eq!(why(user(&json!({"user": "v"}))), other);
    assert_eq!(why(user(&json!({}))), other);
    let invalid = "Invalid JSON in request body.";
    for given in [
        json!({"user": 1}),
        json!({"user": "u", "password": []}),
        json!({"user": "u", "roles": "a"}),
        json!({"user": "u", "grant": [1]}),
    ] {
        assert_eq!(why(user(&given)), invalid, "{given}");
    }
    assert_eq!(why(user(&json!([]))), other);
}

#[test]
fn what_a_request_wants_of_a_role() {
    let kv = |read: &[&str]| json!({"kv": {"read": read}});
    let made = role(&json!({"role": "r", "permissions": kv(&["/a"]), "grant": kv(&[])})).unwrap();
    assert!(!made.is_change && made.revoke.is_empty());
    assert_eq!((made.grant.read, made.grant.write), (Some(vec!["/a".to_string()]), None));
    let changed = role(&json!({"role": "r", "revoke": kv(&["/a"])})).unwrap();
    assert!(changed.is_change && changed.grant.is_empty() && !changed.revoke.is_empty());
    let both = json!({"role": "r", "permissions": kv(&["/a"]), "grant": kv(&["/b"])});
    let expected = "Role JSON contains both permissions and grant/revoke";
    assert_eq!(why(role(&both)), expected);
    for given in [
        json!({"role": "r", "permissions": []}),
        json!({"role": "r", "grant": {"kv": 1}}),
        json!({"role": "r", "grant": {"kv": {"read": "/a"}}}),
        json!({"role": []}),
    ] {
        assert_eq!(why(role(&given)), "Invalid JSON in request body.", "{given}");
    }
}

/// The machine takes none that is empty, and a command must not be refused by its decoder.
#[test]
fn names_and_patterns_are_neither_empty_nor_long() {
    let long = "x".repeat(V2_NAME_BYTES_MAX + 1);
    for name in ["", &long] {
        let given = json!({"user": "u", "grant": ["a", name]});
        assert!(why(user(&given)).starts_with("auth: a name or pattern is empty"), "{name}");
        let given = json!({"user": "u", "revoke": [name, "a"]});
        assert!(why(user(&given)).starts_with("auth: a name or pattern is empty"), "{name}");
        let given = json!({"role": "r", "permissions": {"kv": {"write": ["/a", name]}}});
        assert!(why(role(&given)).starts_with("auth: a name or pattern is empty"), "{name}");
    }
    assert!(user_write(long.clone(), &json!({"user": long, "password": "p"})).is_err());
}
