use super::*;

#[test]
fn every_name_leads_to_its_command_and_to_no_other() {
    let mut seen = Vec::new();
    for (command, names) in COMMANDS {
        for name in names {
            assert_eq!(find(name), Some((command, names[0])));
            assert!(!seen.contains(name), "{name} is twice there");
            seen.push(name);
        }
    }
    assert!(COMMANDS.is_sorted_by_key(|(_, names)| names[0]));
    assert_eq!(find("RUOK"), None);
    assert_eq!(find(""), None);
}

#[test]
fn command_and_error_come_last_unless_they_are_there() {
    let response = |data: Vec<(&str, Json)>| CommandResponse {
        status: StatusCode::OK,
        command: "leader".to_string(),
        data: data.into_iter().map(|(key, value)| (key.to_string(), value)).collect(),
    };
    let plain = response(vec![("a", Json::whole(1))]).print();
    assert_eq!(plain, "{\n  \"a\" : 1,\n  \"command\" : \"leader\",\n  \"error\" : null\n}");
    let failed = response(vec![("error", "no".into())]).print();
    assert_eq!(failed, "{\n  \"error\" : \"no\",\n  \"command\" : \"leader\"\n}");
    let unknown = CommandResponse::error(StatusCode::OK, "x\"y", "Unknown command: x\"y").print();
    assert_eq!(
        unknown,
        "{\n  \"command\" : \"x\\\"y\",\n  \"error\" : \"Unknown command: x\\\"y\"\n}"
    );
}
