use serde_json::json;

use super::*;

#[test]
fn fields_of_a_user_have_their_types() {
    let given = |body: Value| user_body(&body).unwrap();
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let body = json!({"user": "u", "password": "p", "roles": ["a", "b"], "grant": ["c"]});
    let (grant, revoke) = (texts(&["c"]), Vec::new());
    let all = UserGiven { password: "p".into(), roles: texts(&["a", "b"]), grant, revoke };
    assert_eq!(given(body), UserBody { user: "u".into(), given: Ok(all) });
    let body = json!({"user": "u", "roles": [], "revoke": ["a"], "password": null});
    let some = UserGiven { revoke: texts(&["a"]), ..<_>::default() };
    assert_eq!(given(body), UserBody { user: "u".into(), given: Ok(some) });
    let none = UserBody { user: String::new(), given: Ok(UserGiven::default()) };
    assert_eq!((given(json!({})), given(json!([]))), (none.clone(), none));
    for body in [
        json!({"user": "u", "password": []}),
        json!({"user": "u", "roles": "a"}),
        json!({"user": "u", "grant": [1]}),
    ] {
        assert_eq!(given(body.clone()).given, Err(BadBody::Invalid), "{body}");
    }
    assert_eq!(user_body(&json!({"user": 1})), Err(BadBody::Invalid));
}

#[test]
fn fields_of_a_role_have_their_types() {
    let kv = |read: &[&str]| json!({"kv": {"read": read}});
    let body = json!({"role": "r", "permissions": kv(&["/a"]), "grant": kv(&[])});
    let lists = |read: &[&str]| {
        let read = Some(read.iter().map(ToString::to_string).collect());
        PatternLists { read, write: None }
    };
    let given = Ok([lists(&["/a"]), lists(&[]), PatternLists::default()]);
    assert_eq!(role_body(&body), Ok(RoleBody { role: "r".into(), given }));
    for body in [
        json!({"role": "r", "permissions": []}),
        json!({"role": "r", "grant": {"kv": 1}}),
        json!({"role": "r", "grant": {"kv": {"read": "/a"}}}),
    ] {
        assert_eq!(role_body(&body).unwrap().given, Err(BadBody::Invalid), "{body}");
    }
    assert_eq!(role_body(&json!({"role": []})), Err(BadBody::Invalid));
}
