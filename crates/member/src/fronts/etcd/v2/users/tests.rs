use super::*;

#[test]
fn a_path_leads_to_its_place() {
    let name = |rest: &str| match Place::at(rest) {
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

/// Path and method are judged before the client's credentials.
#[test]
fn a_request_at_the_wrong_place_is_answered_at_once() {
    let answer =
        |method: &str, rest: &str| match UsersCall::begin(method, rest, Presented::default()) {
            Some(UsersStep::Answer(answer)) => answer,
            other => panic!("{other:?}"),
        };
    let allowed = UsersAnswer::NotAllowed;
    assert_eq!(answer("PUT", "users"), allowed("GET"));
    assert_eq!(answer("HEAD", "roles/"), allowed("GET"));
    assert_eq!(answer("POST", "users/ada"), allowed("GET,PUT,DELETE"));
    assert_eq!(answer("GET,PUT", "enable"), allowed("GET,PUT,DELETE"));
    let (text, names_cluster) = ("Invalid path".to_string(), false);
    let too_deep = UsersAnswer::Refused { status: 400, text, names_cluster };
    assert_eq!(answer("GET", "users/a/b"), too_deep);
    assert_eq!(answer("POST", "roles/a/b"), too_deep, "whatever the method");
    assert!(UsersCall::begin("GET", "user", Presented::default()).is_none());
}
